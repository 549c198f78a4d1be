from __future__ import annotations

import dataclasses
import functools
import html
import re

import pytest
import sample_assessment as sample
from read_page import EVIL, MAKERS, SAID, Document, facts, made, public, written

from sordino.report import page, palette, render, words
from sordino.report.blocks import Page
from sordino.report.public import public_facts
from sordino.report.stages import Checked


class TestOthersTexts:
    @staticmethod
    @functools.cache
    def poisoned() -> Page:
        found = sample.release_sample()
        assert found.records is not None
        assert found.proved_parts is not None
        assert found.release is not None
        bound = dataclasses.replace(
            found.proved_parts.bounds[0], name=EVIL, checked=(Checked(EVIL, EVIL),)
        )
        attack = dataclasses.replace(found.attacks[0], pair=EVIL, score=EVIL, verdict=EVIL)
        evil = dataclasses.replace(
            found,
            question=dataclasses.replace(
                found.question, title=EVIL, target=EVIL, rerun=EVIL, settings={EVIL: EVIL}
            ),
            records=dataclasses.replace(
                found.records, classes=(EVIL,), notes=(EVIL,), reads_private_data=(EVIL,)
            ),
            proved_parts=dataclasses.replace(
                found.proved_parts, bounds=(bound,), facts={EVIL: EVIL}
            ),
            release=dataclasses.replace(
                found.release, method=EVIL, settings={EVIL: EVIL}, directory=EVIL, certificate=EVIL
            ),
            attacks=(attack,),
            caveats=(EVIL,),
            provenance=dataclasses.replace(
                found.provenance, specs={EVIL: EVIL}, versions={EVIL: EVIL}, machine=EVIL
            ),
        )
        return page.internal(evil)

    def test_are_never_markup(self) -> None:
        text = render.html(self.poisoned())
        assert "<script" not in text
        assert Document(text).text.count("alert('x')") >= 20

    def test_are_never_markup_in_markdown(self) -> None:
        lines = render.markdown(self.poisoned()).splitlines()
        prose = [line for line in lines if not line.startswith("    ")]
        assert not [line for line in prose if re.search(r"(?<!\\)<script", line)]
        assert sum(r"\<script\>alert('x')\</script\>\|\`\*\_" in line for line in prose) >= 15

    def test_of_a_mechanism_are_never_markup(self) -> None:
        found = sample.foreign_sample()
        question = dataclasses.replace(found.question, mechanism=EVIL)
        found = dataclasses.replace(found, question=question)
        text = page.page(found)
        assert "<script" not in text
        assert "<script" not in page.fragment(found)
        assert html.escape(EVIL, quote=True).split("(")[0] in text

    def test_cannot_hide_or_turn_around_what_stands_beside_them(self) -> None:
        found = sample.foreign_sample()
        found = dataclasses.replace(found, caveats=("a\u202eb\x00c\nd",))
        for text in (page.page(found), page.markdown(found)):
            assert r"a\u202eb\x00c\nd" in text.replace("\\\\", "\\")

    def test_may_be_long_without_a_space(self) -> None:
        assert "overflow-wrap: break-word" in made("release").split("</style>")[0]


class TestMarkdown:
    @pytest.mark.parametrize("name", MAKERS)
    def test_begins_with_the_verdict_and_has_the_same_sections(self, name: str) -> None:
        lines = written(name).splitlines()
        assert lines[0].replace("\\", "") == f"# {words.verdict(MAKERS[name]())}"
        titles = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
        assert titles == [text for tag, text in Document(made(name)).texts if tag == "h2"]

    @pytest.mark.parametrize("name", MAKERS)
    def test_says_what_the_page_says(self, name: str) -> None:
        text = " ".join(written(name).replace("\\", "").split())
        for tag, said in Document(made(name)).texts:
            if tag in SAID and said != "On this page":
                assert said.replace("\\", "") in text

    @pytest.mark.parametrize("name", MAKERS)
    def test_has_whole_tables_and_no_markup(self, name: str) -> None:
        lines = [line for line in written(name).splitlines() if not line.startswith("    ")]
        columns = 0
        for line in lines:
            if not line.startswith("|"):
                columns = 0
                continue
            found = len(re.findall(r"(?<!\\)\|", line))
            assert columns in (0, found)
            columns = found
        assert not [line for line in lines if re.search(r"(?<!\\)<", line)]

    def test_a_number_is_no_list(self) -> None:
        assert render.in_markdown("90.2%") == "90.2%"
        assert render.in_markdown("1. first") == r"1\. first"
        assert render.in_markdown("- dash") == r"\- dash"
        assert render.in_markdown("--- rule") == r"\--- rule"


class TestProse:
    def test_commands_look_like_commands(self) -> None:
        said = render.prose("see `sordino tune` and --audit-runs; not a--b")
        tune, runs = (
            f'<code class="whole">{code}</code>' for code in ("sordino tune", "--audit-runs")
        )
        assert said == f"see {tune} and {runs}; not a--b"
        long = 40 * "x"  # must be broken on a phone
        assert render.prose(f"`{long}`") == f"<code>{long}</code>"

    def test_what_others_wrote_stays_text(self) -> None:
        assert render.prose("`<b>` & --<i>").endswith(">&lt;b&gt;</code> &amp; --&lt;i&gt;")

    def test_powers_are_not_broken(self) -> None:
        assert render.prose("5e-06 > 0") == "5\u00a0×\u00a010⁻⁶ &gt; 0"


class TestPublic:
    def test_says_what_the_certificate_says(self) -> None:
        text = Document(public()).text
        assert "PUBLIC. This page shows what the certificate of the model says" in text
        assert "epsilon is at most 1 at delta = 5 × 10⁻⁷ (proved)." in text
        assert "right at most 54.6% of the time" in text
        assert "9052ef61d63219e0" in text
        assert "all iterates" not in text

    def test_shows_nothing_internal(self) -> None:
        for shown in (public(), page.public_markdown(facts())):
            text = re.sub(r' d="[^"]*"', "", shown)  # places of a drawing's lines are no numbers
            for word in ("INTERNAL", "88.4", "90.2", "50.5", "0.456", "0.872", "15.5", "canary"):
                assert word not in text
            prose = text.rpartition("</style>")[2]
            assert not re.search(r"accurac|estimate\b|observed", re.sub(r"var\(.*?\)", "", prose))

    def test_of_a_certificate_that_promises_nothing_says_so(self) -> None:
        nothing = {**facts().certificate, "guarantee": None, "why_none": "The seed was set."}
        text = Document(page.public_page(public_facts(nothing))).text
        assert "Nothing is promised about this model" in text
        assert "Why nothing is promised: The seed was set." in text

    def test_names_what_was_read_off_the_records(self) -> None:
        before = {**facts().certificate["preprocessing"], "reads": [EVIL]}
        text = page.public_page(public_facts({**facts().certificate, "preprocessing": before}))
        assert "<script" not in text
        assert "does not cover what was read off the records beforehand" in text


class TestFragment:
    def test_is_a_box_whose_styles_stay_inside(self) -> None:
        text = page.fragment(sample.release_sample())
        document = Document(text)
        assert text.lstrip().startswith('<div class="sordino-box">')
        assert words.verdict(sample.release_sample()) in document.visible
        assert len(document.all("table")) == len(document.all("svg")) == 1
        style = re.sub(r"@media[^{]*\{(.*?\})\s*\}", r"\1", text.split("<style>")[1])
        rules = re.findall(r"([^{}]+)\{[^{}]*\}", style.split("</style>")[0])
        selectors = [each.strip() for rule in rules for each in rule.split(",")]
        assert len(selectors) > 20
        assert all(each.startswith(".sordino-box") for each in selectors)


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
        colours = palette.LIGHT if scheme == "light" else palette.DARK
        for name in ("ink", "muted", "proved", "estimated", "observed", "warn"):
            assert self.contrast(colours[name], colours["panel"]) >= 4.5, name
        for name in ("ink", "muted", "proved", "warn"):  # beside the sheet, and in its boxes
            assert self.contrast(colours[name], render.PAPER[scheme]) >= 4.5, name
        assert self.contrast(render.PAPER[scheme], colours["warn"]) >= 4.5
        strip = palette.LIGHT["ink"] if scheme == "light" else palette.DARK["grid"]
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
