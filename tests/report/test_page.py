"""The page engine: documents, prose and looks."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re

import pytest
import sample_assessment as sample
from read_page import MAKERS, SECTIONS, Document, every_page, html_of, made

from sordino.report import canvas, page, sections


class TestDocument:
    @pytest.mark.parametrize("name", every_page())
    def test_is_one_file_that_fetches_and_runs_nothing(self, name: str) -> None:
        text = html_of(name)
        document = Document(text)
        names = {tag for tag, _ in document.tags}
        assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
        for _, attributes in document.tags:
            assert not [key for key in attributes if key.startswith("on") or key == "src"]
            for key in ("href", "xlink:href"):
                assert (attributes.get(key) or "#").startswith("#")
        assert "@import" not in text
        assert not re.search(r"url\((?!#)", text)
        urls = set(re.findall(r"https?://[^\"' ]+", text))
        assert urls <= {"http://www.w3.org/2000/svg"}  # a name, not an address

    @pytest.mark.parametrize("name", every_page())
    def test_a_browser_is_told_to_run_and_fetch_nothing(self, name: str) -> None:
        text = html_of(name)
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:".replace(
            "'", "&#39;"
        )
        told = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        assert text.count(told) == 1
        assert text.index(told) < text.index("<title>")  # it holds for what comes after it
        assert not re.search(r"<script|\son\w+\s*=|javascript:", text)

    @pytest.mark.parametrize("name", every_page())
    def test_can_be_used_without_eyes_or_mouse(self, name: str) -> None:
        document = Document(html_of(name))
        (root,) = document.all("html")
        assert root["lang"] == "en"
        assert len(document.all("h1")) == len(document.all("main")) == len(document.all("nav")) == 1
        levels = [int(tag[1]) for tag, _ in document.tags if re.fullmatch(r"h[1-6]", tag)]
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
        tables = len(document.all("table"))
        assert tables == len(document.all("caption"))
        assert tables == len(document.all("thead"))
        assert all(head.get("scope") for head in document.all("th"))
        drawings = document.all("svg")
        assert len(drawings) == len(document.all("figure")) == len(document.all("figcaption"))
        assert all(svg["role"] == "img" and svg["aria-labelledby"] for svg in drawings)

    @pytest.mark.parametrize("name", every_page())
    def test_every_link_and_label_has_its_target(self, name: str) -> None:
        document = Document(html_of(name))
        ids = [attributes["id"] for _, attributes in document.tags if attributes.get("id")]
        assert len(ids) == len(set(ids))
        for _, attributes in document.tags:
            href = attributes.get("href")
            assert href is None or href.removeprefix("#") in ids
            for target in (attributes.get("aria-labelledby") or "").split():
                assert target in ids
        first = document.all("a")[0]
        assert first["class"] == "skip"

    @pytest.mark.parametrize("name", MAKERS)
    def test_has_its_sections_in_order_and_in_the_contents(self, name: str) -> None:
        document = Document(made(name))
        expected = SECTIONS if name != "foreign" else [SECTIONS[0], *SECTIONS[5:]]
        assert [section["id"] for section in document.all("section")] == expected
        links = [link["href"] for link in document.all("a")]
        assert links == ["#main", *(f"#{section}" for section in expected)]

    @pytest.mark.parametrize("name", every_page())
    def test_has_no_number_that_nobody_can_read(self, name: str) -> None:
        texts = Document(html_of(name)).texts
        for text in [text for tag, text in texts if tag not in ("style", "code")]:
            assert not re.search(r"\b(inf|nan)\b|^(None|True|False)$", text)
            assert not re.search(r"\d{5,}\.\d|\.\d{7,}", text)

    def test_numbers_that_are_infinite_or_unknown_are_words(self) -> None:
        found = sample.nothing_proved_sample()
        assert found.own_noise is not None
        estimate = found.own_noise.estimated.headline
        assert estimate is not None
        endless = dataclasses.replace(estimate, epsilon=math.inf, low=2.0, high=math.inf)
        estimated = dataclasses.replace(
            found.own_noise.estimated, headline=endless, directional=endless
        )
        own = dataclasses.replace(found.own_noise, estimated=estimated, bound=None, no_bound="No.")
        found = dataclasses.replace(found, own_noise=own, release_estimated=estimated)
        shown = sections.page(found)
        for text in (Document(page.html(shown)).text, page.markdown(shown)):
            assert "about infinite" in text
            assert not re.search(r"\b(inf|nan)\b", text)


class TestProse:
    def test_a_number_is_no_list(self) -> None:
        assert page.in_markdown("90.2%") == "90.2%"
        assert page.in_markdown("1. first") == r"1\. first"
        assert page.in_markdown("- dash") == r"\- dash"
        assert page.in_markdown("--- rule") == r"\--- rule"

    def test_commands_look_like_commands(self) -> None:
        said = page.prose("see `sordino tune` and --audit-runs; not a--b")
        tune, runs = (
            f'<code class="whole">{code}</code>' for code in ("sordino tune", "--audit-runs")
        )
        assert said == f"see {tune} and {runs}; not a--b"
        long = 40 * "x"  # must be broken on a phone
        assert page.prose(f"`{long}`") == f"<code>{long}</code>"

    def test_what_others_wrote_stays_text(self) -> None:
        assert page.prose("`<b>` & --<i>").endswith(">&lt;b&gt;</code> &amp; --&lt;i&gt;")

    def test_powers_are_not_broken(self) -> None:
        assert page.prose("5e-06 > 0") == "5\u00a0×\u00a010⁻⁶ &gt; 0"


class TestLooks:
    @staticmethod
    def contrast(one: str, other: str) -> float:
        """Of two colours, by the formula of WCAG 2."""

        def luminance(colour: str) -> float:
            parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
            linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
            return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

        high, low = sorted((luminance(one), luminance(other)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_every_text_can_be_read(self, scheme: str) -> None:
        colours = canvas.LIGHT if scheme == "light" else canvas.DARK
        for name in ("ink", "muted", "proved", "estimated", "observed", "warn"):
            assert self.contrast(colours[name], colours["panel"]) >= 4.5, name
        for name in ("ink", "muted", "proved", "warn"):  # beside the sheet, and in its boxes
            assert self.contrast(colours[name], page.PAPER[scheme]) >= 4.5, name
        assert self.contrast(page.PAPER[scheme], colours["warn"]) >= 4.5
        strip = canvas.LIGHT["ink"] if scheme == "light" else canvas.DARK["grid"]
        assert self.contrast("#ffffff", strip) >= 4.5

    def test_style_knows_dark_print_phones_focus_and_rest(self) -> None:
        style = made("release").split("<style>")[1].split("</style>")[0]
        for part in (
            "prefers-color-scheme: dark",
            "@media print",
            "size: A4",
            "max-width: 40rem",
            ":focus-visible",
            "prefers-reduced-motion",
            "break-inside: avoid",
            "details:not(.screen)::details-content",
        ):
            assert part in style
        used = set(re.findall(r"var\((--[a-z-]+)", made("release")))
        assert used <= set(re.findall(r"(--[a-z-]+):", style))
