"""The page of a reproduction: whole, by itself, and with nothing hidden."""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sample_reproduction import DRAWING, MISSING, sample

from sordino_papers import words
from sordino_papers.claims import papers
from sordino_papers.page import (
    _LARGE,
    document,
    group_differences,
    group_rows,
    html,
    markdown,
    merge_columns,
    summary,
)
from sordino_papers.quantities import Answer
from sordino_papers.reproduction import ClaimVerdict, Result

VOID = {"meta", "br", "img"}


class Document(HTMLParser):
    """Tags, and the text inside those that have an id; fails where tags do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.inside = [], [], {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), "an attribute is given twice"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs).get("id")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, name in self.open:
            if name:
                self.inside[name] = self.inside.get(name, "") + data

    def all(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]


@pytest.fixture(scope="module", params=[False, True], ids=["full", "quick"])
def found(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("page")
    reproduction = sample(directory, quick=request.param)
    text = html(reproduction, directory)
    return reproduction, text, Document(text)


def test_it_is_one_file_that_fetches_and_runs_nothing(found):
    _, text, document = found
    names = {tag for tag, _ in document.tags}
    assert not names & {"script", "link", "iframe", "object", "embed", "base", "form"}
    for _, attributes in document.tags:
        assert not [key for key in attributes if key.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#")
        assert (attributes.get("src") or "data:image/").startswith("data:image/")
    assert "@import" not in text
    assert not re.search(r"https?://|url\(", text)


def test_a_browser_is_told_to_run_and_fetch_nothing(found):
    from sordino.report.page import CSP

    _, text, _ = found
    assert text.count(f'content="{CSP}">'.replace("'", "&#39;")) == 1
    assert "<script" not in text


def test_a_picture_is_inside_and_has_a_name(found):
    _, _, document = found
    (image,) = document.all("img")
    kind, _, content = image["src"].partition(";base64,")
    assert kind == "data:image/svg+xml"
    assert base64.b64decode(content).decode() == DRAWING
    assert image["alt"] == "Drawn from our runs: Table 3: sensitivity, sigma and epsilon"


def test_a_huge_drawing_is_shown_by_its_smaller_file(tmp_path):
    reproduction = sample(tmp_path)
    (picture,) = reproduction.pictures
    (tmp_path / picture.svg).write_text(DRAWING + " " * _LARGE)
    (tmp_path / picture.png).write_bytes(b"small")
    (image,) = Document(html(reproduction, tmp_path)).all("img")
    assert image["src"] == f"data:image/png;base64,{base64.b64encode(b'small').decode()}"


def test_it_can_be_used_without_eyes_or_mouse(found):
    _, _, document = found
    (root,) = document.all("html")
    assert root["lang"] == "en"
    assert len(document.all("h1")) == len(document.all("main")) == len(document.all("nav")) == 1
    levels = [int(tag[1]) for tag, _ in document.tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert len(document.all("table")) == len(document.all("caption"))
    assert all(head.get("scope") for head in document.all("th"))


def test_every_link_has_its_target(found):
    _, _, document = found
    ids = [attributes["id"] for _, attributes in document.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    targets = {link["href"].removeprefix("#") for link in document.all("a")}
    assert targets <= set(ids)
    assert {"one/checks/root", "one/table-3/sigma/c", "two/figure-1", "slips"} <= targets


def test_every_claim_stands_with_both_numbers_and_its_verdict(found):
    reproduction, _, document = found
    for name, result in reproduction.results.items():
        said = document.inside[name].replace("\u00a0", " ")
        if result.claim.printed is not None:
            assert str(result.claim.printed) in said
        if result.answer is not None:
            assert words.ours(result) in said
        assert words.SIGNS[result.verdict] in said
        assert words.verdict(result) in said


def test_a_table_has_the_papers_columns_and_empty_cells(found):
    _, text, _ = found
    start = text.index('id="one/table-3"')
    table = text[text.index("<table", start) : text.index("</table>", start)]
    heads = re.findall(r'scope="col">([^<]*)<', table)
    assert heads == ["Row", "CIFAR2", "MNIST-binary", "Adult"]
    for row in table.split("<tr")[2:]:
        assert len(re.findall("<td", row)) == 3
    assert table.count('class="empty"') == 2


def test_the_score_and_the_time_come_first(found):
    reproduction, _, document = found
    first = document.inside["score"]
    assert "19 of 22 (86.3%)" in first
    assert "16 min 2 s" in first
    sections = [each["id"] for each in document.all("section")]
    assert sections == [
        *("score", "differences", "one", "two", "slips", "checks", "missing", "time")
    ]
    assert "15 min 1 s" in document.inside["time"]
    assert ("seeds 16," if reproduction.quick else "seeds 171,") in document.inside["time"]


def test_reasons_and_what_they_lean_on_stand_beside_the_table(found):
    _, text, document = found
    said = " ".join(document.inside["one"].split())
    assert "Differs, explained: sigma_i(D), logistic regression, Adult: paper 0.110" in said
    assert "The paper forgot to divide by sqrt(2)." in said
    assert '<code class="whole">sqrt(2)</code>' in text
    assert "This does not count, since it leans on one/checks/maximum" in said
    assert "SORDINO_DATA" in document.inside["missing"]


def test_markup_in_a_claim_stays_text(found):
    _, text, _ = found
    assert "<script" not in text
    assert "factor &lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_no_epsilon_is_taken_for_a_guarantee_and_a_quick_run_is_loud(found):
    reproduction, text, _ = found
    assert "none is a guarantee" in text
    assert ("QUICK RUN" in text) == reproduction.quick
    assert ("This was a quick run." in text) == reproduction.quick


def test_sections_without_content_are_left_out(tmp_path):
    whole = sample(tmp_path)
    kept = {
        name: each
        for name, each in whole.results.items()
        if name.startswith("one/table") and each.verdict is ClaimVerdict.REPRODUCED
    }
    document = Document(html(dataclasses.replace(whole, results=kept, pictures=()), tmp_path))
    assert [each["id"] for each in document.all("section")] == ["score", "one", "time"]


def test_an_explanation_may_lean_on_what_was_not_asked(tmp_path):
    whole = sample(tmp_path)
    kept = {name: each for name, each in whole.results.items() if "/table-3/" in name}
    document = Document(html(dataclasses.replace(whole, results=kept), tmp_path))
    assert "one/checks/root" in document.inside["one"]
    assert "#one/checks/root" not in {link["href"] for link in document.all("a")}


def _rows(text):
    """Cells of every table."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]


def test_every_number_stands_in_a_table_with_its_verdict(tmp_path):
    found = sample(tmp_path)
    rows = [[cell.strip() for cell in row] for row in _rows(markdown(found))]
    wanted = [r for r in found.results.values() if not r.claim.ours]
    tables = [row for row in rows if len(row) == 7 and row[-1].startswith(tuple("✓△✗–"))]
    assert len(tables) == len(wanted)
    for result, row in zip(wanted, tables, strict=True):
        assert row[0].endswith(f": {result.claim.column or 'number'}")
        assert row[1] == str(result.claim.printed or "in words")
        assert [row[2].removeprefix("\\"), row[3]] == [words.ours(result), words.interval(result)]
        assert row[4:6] == [words.tolerance(result.claim), result.off]
        assert row[6] == f"{words.SIGNS[result.verdict]} {result.verdict}"


def test_tables_are_whole(tmp_path):
    for table in re.split(r"\n\n+", markdown(sample(tmp_path))):
        if table.startswith("|"):
            assert len({len(row) for row in _rows(table)}) == 1


def test_it_says_what_differs_why_and_what_shows_it(tmp_path):
    text = markdown(sample(tmp_path))
    start, end = text.index("## What differs"), text.index("## What the papers get wrong")
    said = text[start:end]
    assert "Adult | 0.110 | 0.1557 | 1.42 times | △ differs, explained |" in said
    assert "**Differs, explained:** sigma\\_i(D), logistic regression, Adult: paper 0.110" in said
    assert "> The paper forgot to divide by `sqrt(2)`." in said
    assert "> - Divided by the root of two, ours is as printed: ours 0.998" in said
    assert "does not count, since it leans on one/checks/maximum" in said
    assert said.index("✗ differs") < said.index("△ differs, explained")
    assert "> The constant as typed is off by a factor of 43." in text
    assert "> Ours: 43.6; needed: at least 43. ✓ holds" in text
    assert MISSING.split(".")[0] in text
    assert "`sordino reproduce one two`" in text
    assert "none is a guarantee" in text


def test_the_same_results_give_the_same_text_but_for_times(tmp_path):
    found = sample(tmp_path)
    later = dataclasses.replace(
        found, wall_seconds=9000.0, seconds=dict.fromkeys(found.seconds, 5000.0)
    )
    texts = [re.sub(r"(\d+ min )?\d+(\.\d)? s\b", "T", markdown(each)) for each in (found, later)]
    assert markdown(found) == markdown(sample(tmp_path))
    assert markdown(found) != markdown(later)

    def but_order(text):  # the longest run of a group may change
        return sorted(re.sub(r"one/grid-[ab]", "R", text).split())

    assert but_order(texts[0]) == but_order(texts[1])


def test_pictures_are_linked_only_where_they_are(tmp_path):
    found = sample(tmp_path)
    link = "![Distances between final weights (ours)](reproduction/one-table-3.png)"
    assert link in markdown(found, "reproduction")
    assert "![" not in markdown(found)


def test_markup_in_a_claim_stays_text_in_markdown(tmp_path):
    text = markdown(sample(tmp_path))
    assert "<script>" not in text
    assert r"\<script\>alert(1)\</script\>" in text
    assert r"3% wide \| or so" in text


def test_a_quick_run_is_called_one(tmp_path):
    assert "QUICK RUN" in markdown(sample(tmp_path, quick=True))
    assert "QUICK" not in markdown(sample(tmp_path))


def test_scripts_get_every_claim(tmp_path):
    found = sample(tmp_path)
    name = "one/table-3/sigma/b"
    endless = Result(found.results[name].claim, Answer(float("inf")), found.results[name].verdict)
    changed = dataclasses.replace(found, results={**found.results, name: endless})
    record = json.loads(document(changed))
    held = {each["name"]: each for each in record["claims"]}
    assert list(held) == list(found.results)
    sigma = held["one/table-3/sigma/c"]
    assert (sigma["printed"], sigma["ours"], sigma["low"]) == ("0.110", 0.1557, 0.151)
    assert (sigma["verdict"], sigma["off"]) == ("differs, explained", "1.42 times")
    assert sigma["shown_by"] == ["one/checks/root"]
    assert held["two/figure-1/best/ipums"]["ours"] is None
    assert held["two/figure-1/best/ipums"]["why"] == MISSING
    assert held[name]["ours"] is None
    assert held[name]["ours_text"] == "infinite"
    assert record["printed"]["reproduced"] == 19


def test_columns_stand_in_the_papers_order_also_where_rows_lack_some(tmp_path):
    found = sample(tmp_path)
    (place,) = [each for each in found.places if each.key == "table-7"]
    rows = group_rows(found.of(place))
    assert merge_columns(rows) == list("abcdefghij")  # the first row has b and j only
    assert rows[1]["g"].claim.column == "MNIST, 10 classes"
    assert list(rows[0]) == ["b", "j"]


def test_differences_of_one_reason_stand_together(tmp_path):
    held = group_differences(sample(tmp_path).results.values())
    explained = ClaimVerdict.EXPLAINED
    assert [(g[0].verdict is explained, [r.claim.name for r in g]) for g in held] == [
        (True, ["one/table-3/sigma/c"]),
        (False, ["one/table-3/factor/b"]),
        (False, ["one/table-3/factor/c"]),
        (False, ["one/table-3/seed-dominates/c"]),
        (False, ["one/checks/maximum"]),
    ]


def test_time_is_told_by_paper_and_kind(tmp_path):
    text = markdown(sample(tmp_path))
    rows = [line for line in text.splitlines() if line.startswith("| one | 1 run of ")]
    assert rows == [
        "| one | 1 run of grid, cnn | one/grid-b, 15 min 1 s | 15 min 1 s |",
        "| one | 1 run of grid, logistic | one/grid-a, 1 min 1 s | 1 min 1 s |",
        "| one | 1 run of sizes | one/sizes, 0.2 s | 0.2 s |",
    ]


def test_a_summary_is_the_score_and_what_differs_and_why(tmp_path):
    text = summary(sample(tmp_path))
    assert "19 of 22 (86.3%)" in text
    assert "| one/table-3/factor/b | 6.46 | 21.370 |" in text  # without a reason, with both numbers
    assert "**one/table-3: sigma/c**. The paper forgot to divide by `sqrt(2)`." in text
    assert text.count("The paper forgot") == 1
    assert "The paper took another maximum." not in text  # its check fails
    assert " min " not in text  # no times: the same results give the same text
    assert "none is a guarantee" in text


def test_the_committed_summary_is_short_and_of_claims_that_exist():
    text = (Path(__file__).parents[2] / "docs" / "reproduction.md").read_text()
    assert "QUICK" not in text
    assert "computed by `sordino reproduce all`" in text
    assert len(text.split()) <= 2500
    everything = {claim.name for paper in papers().values() for claim in paper.claims}
    listed = set(re.findall(r"^\| (\S+/\S+/\S+) \|", text, flags=re.MULTILINE))
    for line in re.findall(r"^- \*\*(.+?)\*\*\. ", text, flags=re.MULTILINE):
        for place, cells in (part.split(": ") for part in line.split("; ")):
            listed |= {f"{place}/{cell}" for cell in cells.split(", ")}
    assert len(listed) > 50
    assert listed <= everything
