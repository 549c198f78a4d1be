"""The pages as a person sees them: phone, laptop, 200 % zoom, A4; scripts on and off."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import chrome as browser
import inspection
import pytest
import sample_assessment as samples

from sordino.report import page, public, sections

pytestmark = pytest.mark.browser

MAKERS = {
    "release": lambda: sections.page(samples.release_sample()),
    "broken": lambda: sections.page(samples.broken_sample()),
    "refuted": lambda: sections.page(samples.refuted_sample()),
    "foreign": lambda: sections.page(samples.foreign_sample()),
    "nothing-proved": lambda: sections.page(samples.nothing_proved_sample()),
    "public": lambda: public.page(samples.public_sample()),
}
MOST_SHEETS = 10
"""Of the longest page; what is for machines is not printed."""
LEAST_FIGURES = {"release": 5, "public": 1, "foreign": 1}

written = cache(lambda name: page.html(MAKERS[name]()))


@pytest.fixture(params=MAKERS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def file(name: str, tmp_path: Path) -> Path:
    place = tmp_path / f"{name}.html"
    place.write_text(written(name), encoding="utf-8")
    return place


@pytest.mark.parametrize("view", browser.VIEWS, ids=lambda view: view.name)
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_the_page_fits_and_asks_for_nothing(chrome, name, file, view, scripts):
    chrome.open(file, view, scripts=scripts)
    if scripts:
        chrome.keep_picture(f"{name}-{view.name}")
    assert inspection.width(chrome) == []
    assert inspection.asked(chrome, "figures", "letters", "broken", "stops") == []
    assert inspection.loading(chrome) == []


@pytest.mark.parametrize("view", [browser.PHONE, browser.LAPTOP], ids=lambda view: view.name)
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_every_link_inside_the_page_leads_there(chrome, file, view, scripts):
    chrome.open(file, view, scripts=scripts)
    assert inspection.links(chrome) == []


def test_the_keyboard_finds_the_skip_link_first(chrome, file):
    chrome.open(file)
    chrome.press_tab()
    focused = "document.activeElement"
    assert chrome.ask(f"{focused}.className") == "skip"
    box = chrome.ask(f"(({focused}).getBoundingClientRect()).toJSON()")
    assert box["left"] >= 0
    assert box["top"] >= 0
    assert chrome.ask(f"getComputedStyle({focused}).outlineStyle") == "solid"
    chrome.press_enter()
    chrome.press_tab()
    assert chrome.ask(f"!!{focused}.closest('main')") or chrome.ask(f"{focused} === document.body")


def test_words_and_their_figure_stand_side_by_side_where_there_is_room(chrome, tmp_path):
    place = tmp_path / "release.html"
    place.write_text(written("release"), encoding="utf-8")
    tops = (
        "[...document.querySelectorAll('.beside')]"
        ".map(each => [...each.children].map(side => Math.round(side.getBoundingClientRect().top)))"
    )
    for view, beside in ((browser.LAPTOP, True), (browser.A4, True), (browser.PHONE, False)):
        chrome.open(place, view)
        found = chrome.ask(tops)
        assert len(found) >= 5
        assert all((left == right) == beside for left, right in found), view.name


def test_what_is_for_machines_is_on_the_screen_and_not_on_paper(chrome, tmp_path):
    place = tmp_path / "release.html"
    place.write_text(written("release"), encoding="utf-8")
    seen = (
        "[...document.querySelectorAll('details.screen pre')]"
        ".map(each => each.checkVisibility() && each.getBoundingClientRect().height > 0)"
    )
    chrome.open(place)
    chrome.ask("document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert set(chrome.ask(seen)) == {True}
    chrome.open(place, browser.A4)
    assert set(chrome.ask(seen)) == {False}
    kept = (
        "[...document.querySelectorAll('details:not(.screen) > dl')].map(each => each.offsetHeight)"
    )
    assert min(chrome.ask(kept)) > 0


def test_light_and_dark_can_both_be_read(chrome, name, file):
    chrome.open(file)
    light, light_faults = inspection.paper(chrome), inspection.asked(chrome, "contrasts")
    chrome.open(file, dark=True)
    chrome.keep_picture(f"{name}-laptop-dark")
    dark, dark_faults = inspection.paper(chrome), inspection.asked(chrome, "contrasts")
    assert (light_faults, dark_faults) == ([], [])
    assert light > 0.8
    assert dark < 0.1


def test_paper_is_white_also_where_the_screen_is_dark(chrome, file):
    chrome.open(file, browser.A4, dark=True)
    assert inspection.paper(chrome) == 1
    assert inspection.asked(chrome, "contrasts") == []


def test_a_screen_reader_finds_its_way(chrome, name, file):
    chrome.open(file)
    assert inspection.asked(chrome, "headings", "tables", "page") == []
    assert inspection.names(chrome) == []
    figures = chrome.driver.find_elements("css selector", "svg[role='img']")
    assert len(figures) >= LEAST_FIGURES.get(name, 1)


def test_it_prints_on_some_sheets(chrome, name, file):
    chrome.open(file, browser.A4)
    pdf = chrome.pdf()
    chrome.keep(f"{name}.pdf", pdf)
    assert 1 <= inspection.pages(pdf) <= MOST_SHEETS
    assert inspection.asked(chrome, "sheets") == []


@pytest.mark.parametrize("notes", range(0, 24, 3))
def test_the_three_numbers_are_on_one_sheet_however_much_stands_before(chrome, notes, tmp_path):
    """Sentences are put before the table, so that the sheet ends at another of its rows."""
    place = tmp_path / "moved.html"
    more = "<p>A sentence that moves what follows.</p>" * notes
    whole, heading = written("release"), '<section id="numbers"'
    assert whole.count(heading) == 1
    place.write_text(whole.replace(heading, more + heading), encoding="utf-8")
    chrome.open(place, browser.A4)
    assert inspection.torn(chrome.pdf()) == 0
