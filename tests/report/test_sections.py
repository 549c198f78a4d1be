"""What the page of an assessment says."""

from __future__ import annotations

import dataclasses
import functools
import html
import re

import pytest
import sample_assessment as sample
from read_page import EVIL, MAKERS, SAID, Document, made, written

from sordino.report import page, sections, words
from sordino.report.page import Page, Section, Table
from sordino.report.result import Checked
from sordino.report.sections import theorems


def _words(section: Section) -> list[str]:
    """Of all tables of a section."""
    tables = [block for block in section.blocks if isinstance(block, Table)]
    return [
        word
        for table in tables
        for group in table.groups
        for word in (group.title, *(str(cell) for row in group.rows for cell in row))
    ]


class TestFirstLine:
    @pytest.mark.parametrize("name", MAKERS)
    def test_heading_is_the_verdict(self, name: str) -> None:
        (heading,) = [text for tag, text in Document(made(name)).texts if tag == "h1"]
        assert heading == words.verdict(MAKERS[name]())

    @pytest.mark.parametrize("name", ["broken", "foreign"])
    def test_says_broken_before_anything_else(self, name: str) -> None:
        skip, first, *_ = Document(made(name)).visible
        assert skip == "Skip to the content"
        assert first.startswith("BROKEN")
        assert "<title>BROKEN: " in made(name)
        assert written(name).startswith("# BROKEN: ")

    def test_is_marked_internal_and_says_why(self) -> None:
        text = Document(made("release")).text
        assert "INTERNAL. Do not publish this page: " in text

    def test_says_that_the_estimate_is_refuted_right_below(self) -> None:
        text = Document(made("refuted")).text
        assert text.index("Estimate refuted for the release") < text.index("On this page")
        assert "Estimate refuted for un-noised SGD" in text
        assert "stimate refuted" not in made("release")

    def test_warns_in_every_section_that_rests_on_a_refuted_proof(self) -> None:
        warning = "BROKEN. Our attack refuted"
        assert Document(made("broken")).text.count(warning) == 2
        assert warning not in made("release")


class TestContent:
    def test_of_a_release_says_all_that_a_reader_needs(self) -> None:
        text = Document(made("release")).text
        numbers = (
            *("right at most 54.6% of the time", "at most 2.72-fold", "one chance in 2,000,000"),
            *("1.8 percentage points", "90.2%", "88.4%", "50.5%", "0.0213 (95% interval 0.0204"),
            *("by 0.0301 or more", "by 0.119 at most", "1 min 33 s", "f1f1f1f1", "2 cores, Linux"),
            *("1.95025 ≤ 2/0.501 = 3.99", "1,294 to train on, 432 held out", "4,000 tested runs"),
        )
        names = (
            *('in the directory "release"', "Taken on trust settings were chosen without the data"),
            *("use method rsgd-ar", "Quoted, not proved", "An estimate, not a guarantee"),
            *("within the family of Gaussian mechanisms", "A crafted canary", "Name the classes"),
            *("the labels were counted to find the classes", "(replace-one)", "noisy-gd"),
            "sordino assess --data digits/binary --model logistic --epsilon 1",
        )
        assert [said for said in (*numbers, *names) if said not in text] == []

    def test_has_every_figure(self) -> None:
        names = re.findall(r'class="drawing drawing-([a-z-]+)"', made("release"))
        assert names == [
            *("axis", "tradeoff", "accuracy", "distances", "estimates"),
            *("roc-release", "roc-un-noised-sgd"),
        ]

    def test_says_why_nothing_is_proved(self) -> None:
        text = Document(made("nothing proved")).text
        assert "Nobody is protected." in text
        assert text.count("A network's loss is not convex, so no theorem bounds") == 3
        assert "the loss is not convex: use a linear model" in text
        assert "best possible membership guess" not in text

    def test_says_in_one_line_what_was_not_done_with_a_foreign_mechanism(self) -> None:
        text = Document(made("foreign")).text
        assert "Only attacked. " in text

    def test_says_each_precondition_once_where_theorems_share_it(self) -> None:
        found = sample.release_sample()
        parts = found.proved_parts
        assert parts is not None
        shared, own = Checked("shared by all", "1"), Checked("needed by one", "2")
        used, other = parts.bounds[0], dataclasses.replace(parts.bounds[0], name="B", used=False)
        bounds = (
            dataclasses.replace(used, name="A", checked=(shared, own)),
            dataclasses.replace(other, checked=(shared,)),
        )
        text = " ".join(
            _words(Section("", "", tuple(theorems(dataclasses.replace(parts, bounds=bounds)))))
        )
        assert text.count("shared by all") == text.count("needed by one") == 1
        assert text.index("for every theorem above") < text.index("shared by all")
        assert text.index("for A, besides") < text.index("needed by one")
        assert "for B" not in text

    def test_says_what_was_read_and_what_to_do_once(self) -> None:
        found = sample.release_sample()
        assert found.records is not None
        (leak,) = found.records.reads_private_data
        again = (f"Preparing read this: {leak}.", found.records.advice, "Another caveat.")
        made_again = page.markdown(sections.page(dataclasses.replace(found, caveats=again)))
        made_again = made_again.replace("\\", "")
        text = made_again.split("## Caveats")[1]
        assert text.count(leak) == text.count(found.records.advice) == 1
        assert "- Another caveat." in text

    def test_speaks_of_a_certificate_only_where_there_is_one(self) -> None:
        found = sample.release_sample()
        assert found.release is not None
        again = "Verifying the certificate checks it again"
        assert again in Document(made("release")).text
        bare = dataclasses.replace(found.release, certificate="", directory="", why_not="No.")
        assert again not in page.markdown(sections.page(dataclasses.replace(found, release=bare)))

    def test_leaves_pages_for_machines_out_of_print_alone(self) -> None:
        (style, body) = made("release").split("</style>", 1)
        assert ".screen > :not(summary) { display: none; }" in style.split("@media print")[-1]
        folded = re.findall(r'<details( class="screen")?>\s*<summary>([^<]+)', body)
        hidden = [title for screen, title in folded if screen]
        assert len(hidden) == 3
        assert [title for screen, title in folded if not screen] != []
        assert "The certificate of the release" in hidden


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
        return sections.page(evil)

    def test_are_never_markup(self) -> None:
        text = page.html(self.poisoned())
        assert "<script" not in text
        assert Document(text).text.count("alert('x')") >= 20

    def test_are_never_markup_in_markdown(self) -> None:
        lines = page.markdown(self.poisoned()).splitlines()
        prose = [line for line in lines if not line.startswith("    ")]
        assert not [line for line in prose if re.search(r"(?<!\\)<script", line)]
        assert sum(r"\<script\>alert('x')\</script\>\|\`\*\_" in line for line in prose) >= 15

    def test_of_a_mechanism_are_never_markup(self) -> None:
        found = sample.foreign_sample()
        question = dataclasses.replace(found.question, mechanism=EVIL)
        found = dataclasses.replace(found, question=question)
        text = page.html(sections.page(found))
        assert "<script" not in text
        assert "<script" not in sections.fragment(found)
        assert html.escape(EVIL, quote=True).split("(")[0] in text

    def test_cannot_hide_or_turn_around_what_stands_beside_them(self) -> None:
        found = sample.foreign_sample()
        found = dataclasses.replace(found, caveats=("a\u202eb\x00c\nd",))
        shown = sections.page(found)
        for text in (page.html(shown), page.markdown(shown)):
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


class TestFragment:
    def test_is_a_box_whose_styles_stay_inside(self) -> None:
        text = sections.fragment(sample.release_sample())
        document = Document(text)
        assert text.lstrip().startswith('<div class="sordino-box">')
        assert words.verdict(sample.release_sample()) in document.visible
        assert len(document.all("table")) == len(document.all("svg")) == 1
        style = re.sub(r"@media[^{]*\{(.*?\})\s*\}", r"\1", text.split("<style>")[1])
        rules = re.findall(r"([^{}]+)\{[^{}]*\}", style.split("</style>")[0])
        selectors = [each.strip() for rule in rules for each in rule.split(",")]
        assert len(selectors) > 20
        assert all(each.startswith(".sordino-box") for each in selectors)
