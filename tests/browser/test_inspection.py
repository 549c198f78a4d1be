"""Planted faults: an inspection that finds none of them would be worth nothing."""

from __future__ import annotations

import chrome as browser
import inspection
import pytest

pytestmark = pytest.mark.browser

GOOD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>A page</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ background: #fff; color: #222; margin: 1em; }}
svg {{ max-width: 100%; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: #ddd; }} }}
{style}
</style></head><body><main>
<h1>One</h1><p>Words, and a <a href="#there" style="color: inherit">link</a>.</p>
<svg id="figure" role="img" aria-label="A figure" viewBox="0 0 300 100" width="300" height="100">
<rect x="20" y="20" width="260" height="60" fill="#234"/>
<text x="40" y="60" fill="#fff" font-size="16">on a dark bar</text></svg>
<table><tr><th scope="col">a</th></tr><tr><td>1</td></tr></table>
{body}
<div style="height: 2000px"></div><h2 id="there">Two</h2><div style="height: 1500px"></div>
</main></body></html>
"""


def _open(chrome, tmp_path, body="", style="", view=browser.LAPTOP, **how):
    page = tmp_path / "page.html"
    page.write_text(GOOD.format(body=body, style=style), encoding="utf-8")
    chrome.open(page, view, **how)


def _faults(chrome):
    return [
        *inspection.asked(chrome, "contrasts", "headings", "tables", "page", "figures", "letters"),
        *inspection.asked(chrome, "broken", "stops"),
        *inspection.width(chrome),
        *inspection.names(chrome),
        *inspection.links(chrome),
        *inspection.loading(chrome),
    ]


@pytest.mark.parametrize("view", browser.VIEWS, ids=lambda view: view.name)
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_good_page_has_no_fault(chrome, tmp_path, view, scripts):
    _open(chrome, tmp_path, view=view, scripts=scripts)
    assert _faults(chrome) == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<div style='width: 2000px'>wide</div>", "scrolls sideways: "),
        ("<div style='width: 2000px'>wide</div>", "beyond the edge: <div> wide"),
        ("<h4>deep</h4>", "heading jumps from h1 to <h4> deep"),
        ("<h1>again</h1>", "2 headings h1"),
        ("<table><tr><th>b</th></tr></table>", "no scope on <th> b"),
        ("<table><tr><td>c</td></tr></table>", "no head in <table> c"),
        ("<p style='color: #999; background: #fff'>pale</p>", "contrast 2.85 of <p> pale"),
        ("<p style='color: rgb(0 0 0 / 40%); background: #fff'>thin</p>", "contrast 2.85 of <p>"),
        ("<a href='#nowhere'>lost</a>", "nothing is called #nowhere"),
        ("<a href='#no' tabindex='-1' style='display: none'>x</a><p id='no'>", "the link to #no"),
        ("<p id='there'>", "id there twice"),
        ("<svg role='img' width='9' height='9'></svg>", "no name of figure "),
        ("<svg aria-label='a' width='9' height='9'></svg>", "no role on figure "),
        ("<details>d<svg id='s' role='img' aria-label='a' width='9'/></details>", "unseen <svg>"),
        ("<svg id='s' role='img' aria-label='a' width='0' height='0'/>", "unseen <svg> #s"),
        ("<svg id='s' role='img' aria-label='a' width='2000' style='max-width: none'/>", "beyond"),
        (
            "<svg role='img' aria-label='a' width='20'><text y='20'>long text</text></svg>",
            "cut off",
        ),
        (
            "<svg role='img' aria-label='a' width='90'><text y='20' font-size='5'>t</text></svg>",
            "5.0 px: <text> t",
        ),
        (
            "<svg role='img' aria-label='a'><rect width='200' height='40' fill='#333'/>"
            "<text y='20' fill='#222'>dark</text></svg>",
            "contrast 1.26 of <text> dark",
        ),
        ("<img src='https://example.org/a.png' alt=''>", "asks for https://example.org/a.png"),
        ("<script>nothing.at.all()</script>", "console: "),
        (
            "<p style='width: 3em; overflow-wrap: anywhere'>distributions</p>",
            "broken word distributions in <p>",
        ),
        ("<pre tabindex='0'>text</pre>", "stop at <pre> text"),
    ],
)
def test_a_planted_fault_is_found(chrome, tmp_path, body, fault):
    _open(chrome, tmp_path, body)
    found = _faults(chrome)
    assert any(each.startswith(fault) for each in found), found


def test_a_halo_is_what_letters_lie_on(chrome, tmp_path):
    halo = "paint-order: stroke; stroke: #fff; stroke-width: 2.5px"
    text = "<rect width='200' height='40' fill='#333'/><text y='20' fill='#222'{}>dark</text>"
    svg = f"<svg role='img' aria-label='a'>{text}</svg>"
    _open(chrome, tmp_path, svg.format(f" style='{halo}'"))
    assert inspection.asked(chrome, "contrasts") == []
    _open(chrome, tmp_path, svg.format(""))
    assert inspection.asked(chrome, "contrasts") == ["contrast 1.26 of <text> dark"]


def test_without_scripts_scripts_do_not_run(chrome, tmp_path):
    body = "<script>document.title = 'changed'; nothing.at.all()</script>"
    _open(chrome, tmp_path, body, scripts=False)
    assert chrome.driver.title == "A page"
    assert inspection.loading(chrome) == []


def test_a_page_that_hides_what_is_too_wide_is_found(chrome, tmp_path):
    style = "html, body { overflow-x: hidden }"
    _open(chrome, tmp_path, "<p style='width: 2000px'>wide</p>", style)
    assert inspection.width(chrome) == ["beyond the edge: <p> wide"]


def test_what_scrolls_by_itself_is_no_fault(chrome, tmp_path):
    _open(chrome, tmp_path, "<div style='overflow-x: auto'><p style='width: 2000px'>wide</p></div>")
    assert inspection.width(chrome) == []


def test_a_link_that_a_script_stops_is_found(chrome, tmp_path):
    _open(chrome, tmp_path, "<script>addEventListener('click', e => e.preventDefault())</script>")
    assert inspection.links(chrome) == ["the link to #there does not lead there"]


def test_paper_is_light_or_dark(chrome, tmp_path):
    _open(chrome, tmp_path)
    assert inspection.paper(chrome) == 1
    _open(chrome, tmp_path, dark=True)
    assert inspection.paper(chrome) == pytest.approx((17 / 255 + 0.055) ** 2.4 / 1.055**2.4)


def test_a_figure_that_a_printer_may_cut_is_found(chrome, tmp_path):
    _open(chrome, tmp_path, view=browser.A4)
    assert inspection.asked(chrome, "sheets") == ["may be cut by the end of a sheet: <svg> #figure"]
    _open(chrome, tmp_path, style="@media print { svg { break-inside: avoid } }", view=browser.A4)
    assert inspection.asked(chrome, "sheets") == []


def test_sheets_are_counted(chrome, tmp_path):
    _open(chrome, tmp_path, view=browser.A4)
    short = inspection.pages(chrome.pdf())
    _open(chrome, tmp_path, "<p style='break-before: page'>b</p>" * 3, view=browser.A4)
    assert inspection.pages(chrome.pdf()) == short + 3


def test_a_missing_browser_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(browser, "DRIVER", tmp_path / "chromedriver")
    with pytest.raises(FileNotFoundError, match="apt-get install chromium chromium-driver"):
        browser.Chrome(tmp_path)
