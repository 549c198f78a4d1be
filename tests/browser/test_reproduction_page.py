"""The page of a reproduction as a person sees it: phone, laptop, 200 % zoom, A4."""

from __future__ import annotations

import sys
from pathlib import Path

import chrome as browser
import inspection
import pytest

# For the sample, which is no test.
sys.path.insert(0, str(Path(__file__).parents[1] / "sordino_papers"))
import sample_reproduction

from sordino_papers.page import html

pytestmark = pytest.mark.browser

OPEN = "document.querySelectorAll('details').forEach(each => { each.open = true })"


@pytest.fixture(params=["full", "quick"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def file(name: str, tmp_path: Path) -> Path:
    found = sample_reproduction.sample(tmp_path, quick=name == "quick")
    place = tmp_path / "index.html"
    place.write_text(html(found, tmp_path), encoding="utf-8")
    return place


@pytest.mark.parametrize("folded", [True, False], ids=["folded", "unfolded"])
@pytest.mark.parametrize("view", browser.VIEWS, ids=lambda view: view.name)
def test_the_page_fits_and_asks_for_nothing(chrome, name, file, view, folded):
    chrome.open(file, view)
    if not folded:
        chrome.ask(OPEN)
    chrome.keep_picture(f"reproduction-{name}-{view.name}-{'folded' if folded else 'unfolded'}")
    assert inspection.width(chrome) == []
    assert inspection.asked(chrome, "broken", "stops") == []
    assert inspection.loading(chrome) == []


@pytest.mark.parametrize("view", [browser.PHONE, browser.LAPTOP], ids=lambda view: view.name)
def test_every_link_leads_there(chrome, file, view):
    chrome.open(file, view)
    assert inspection.links(chrome) == []


def test_light_dark_and_printed_can_be_read(chrome, name, file):
    for dark, view in ((False, browser.LAPTOP), (True, browser.LAPTOP), (True, browser.A4)):
        chrome.open(file, view, dark=dark)
        chrome.ask(OPEN)
        if dark:
            chrome.keep_picture(f"reproduction-{name}-{view.name}-dark")
        assert inspection.asked(chrome, "contrasts") == []
        ground = inspection.paper(chrome)
        assert ground < 0.1 if dark and view is browser.LAPTOP else ground > 0.8


def test_a_screen_reader_finds_its_way(chrome, file):
    chrome.open(file)
    assert inspection.asked(chrome, "headings", "tables", "page") == []
    images = chrome.driver.find_elements("css selector", "img")
    assert [bool(image.accessible_name.strip()) for image in images] == [True]


@pytest.mark.parametrize("view", browser.VIEWS, ids=lambda view: view.name)
def test_pictures_are_drawn_and_are_not_cut(chrome, file, view):
    chrome.open(file, view)
    (box,) = chrome.ask(
        "[...document.images].map(each => { const box = each.getBoundingClientRect();"
        " return [each.naturalWidth, box.width, box.left, box.right, innerWidth,"
        " getComputedStyle(each.parentElement).breakInside]; })"
    )
    natural, wide, left, right, window, cut = box
    assert natural > 0
    assert wide > 200
    assert left >= 0
    assert right <= window
    assert view.media != "print" or cut == "avoid"


def test_verdicts_are_seen_without_colour(chrome, file):
    chrome.open(file)
    shown = chrome.ask(
        "[...document.querySelectorAll('.mine > [aria-hidden]')].map(each => each.innerText)"
    )
    assert len(shown) == 21
    assert set(shown) == {"✓", "△", "✗", "–"}


def test_it_prints_on_some_sheets(chrome, file):
    chrome.open(file, browser.A4)
    pdf = chrome.pdf()
    chrome.keep("reproduction.pdf", pdf)
    assert 2 <= inspection.pages(pdf) <= 6
