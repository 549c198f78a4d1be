"""docs/reproduction.md and the record for scripts."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

from sample_reproduction import MISSING, sample

from sordino_papers import words
from sordino_papers.document import document as as_json
from sordino_papers.found import Found
from sordino_papers.page import markdown
from sordino_papers.results import Result


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
    assert "does not count, since its explanation leans on one/checks/maximum" in said
    assert said.index("✗ differs") < said.index("△ differs, explained")
    assert "> The constant as typed is off by a factor of 43." in text
    assert "> Ours: 43.6; needed: at least 43. ✓ holds" in text
    assert MISSING.split(".")[0] in text
    assert "`sordino reproduce one two`" in text
    assert "None of them is a guarantee." in text


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
    assert link in markdown(found, Path("docs/reproduction"))
    assert "![" not in markdown(found)


def test_markup_in_a_claim_stays_text(tmp_path):
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
    endless = Result(found.results[name].claim, Found(float("inf")), found.results[name].verdict)
    changed = dataclasses.replace(found, results={**found.results, name: endless})
    document = json.loads(as_json(changed))
    held = {record["name"]: record for record in document["claims"]}
    assert list(held) == list(found.results)
    sigma = held["one/table-3/sigma/c"]
    assert (sigma["printed"], sigma["ours"], sigma["low"]) == ("0.110", 0.1557, 0.151)
    assert (sigma["verdict"], sigma["off"]) == ("differs, explained", "1.42 times")
    assert sigma["shown_by"] == ["one/checks/root"]
    assert held["two/figure-1/best/ipums"]["ours"] is None
    assert held["two/figure-1/best/ipums"]["why"] == MISSING
    assert held[name]["ours"] is None
    assert held[name]["ours_text"] == "infinite"
    assert document["printed"]["reproduced"] == 19
