"""Pages of the samples, drawn once, and what tests ask of them; this is no test."""

from __future__ import annotations

import functools
from html.parser import HTMLParser
from typing import Any

import pytest
import sample_assessment as sample

from sordino.report import page, sections
from sordino.report import public as public_room
from sordino.report.page import Page

MAKERS = {
    "release": sample.release_sample,
    "broken": sample.broken_sample,
    "refuted": sample.refuted_sample,
    "foreign": sample.foreign_sample,
    "nothing proved": sample.nothing_proved_sample,
}
VOID = {"meta", "link", "br", "hr", "img", "input"}
SECTIONS = [
    *("numbers", "protection", "release", "proof", "noise"),
    *("attack", "caveats", "provenance", "rerun", "words"),
]
SAID = ("p", "li", "dt", "dd", "td", "h1", "h2", "figcaption", "desc", "caption")
EVIL = "<script>alert('x')</script>|`*_"


class Document(HTMLParser):
    """What the tests ask of a page; fails where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), "an attribute is given twice"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", " ".join(data.split())))

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]

    @property
    def visible(self) -> list[str]:
        hidden = ("style", "title", "desc")
        return [text for tag, text in self.texts if tag not in hidden]

    @property
    def text(self) -> str:
        return " ".join(self.visible)


@functools.cache
def content(name: str) -> Page:
    return sections.page(MAKERS[name]())  # drawn once for both formats


@functools.cache
def made(name: str) -> str:
    return page.html(content(name))


@functools.cache
def written(name: str) -> str:
    return page.markdown(content(name))


@functools.cache
def public() -> str:
    return page.html(public_room.page(sample.public_sample()))


def every_page() -> list[Any]:
    return [*(pytest.param(name, id=name) for name in MAKERS), pytest.param("", id="public")]


def html_of(name: str) -> str:
    return made(name) if name else public()
