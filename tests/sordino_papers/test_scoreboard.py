"""What is counted, what is grouped, and the first lines that say it."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

from sample_reproduction import sample

from sordino_papers import layout, scoreboard
from sordino_papers.claims import Tolerance
from sordino_papers.found import Found
from sordino_papers.results import ClaimVerdict, Result
from sordino_papers.scoreboard import Score


def test_claims_are_counted_without_our_own_checks(tmp_path):
    found = sample(tmp_path)
    whole = scoreboard.total(found)
    assert whole.printed == Score(reproduced=19, explained=1, differs=2, not_runnable=1)
    assert whole.words == Score(reproduced=4, explained=0, differs=1, not_runnable=1)
    parts = [scoreboard.of_paper(found, paper).words for paper in found.papers]
    assert sum(part.asked for part in parts) == whole.words.asked


def test_settings_repeats_and_wide_intervals_are_told_apart(tmp_path):
    found = sample(tmp_path)
    results = list(found.results.values())
    first = scoreboard.printed(results)[0]
    setting = replace(first, claim=replace(first.claim, setting=True))
    changed = [setting if each is first else each for each in results]
    assert len(scoreboard.printed(changed)) == len(scoreboard.printed(results)) - 1
    assert scoreboard.settings(changed) == [setting]
    again = replace(first, claim=replace(first.claim, name="again"))
    assert again in scoreboard.repeated([*results, again])
    assert first not in scoreboard.repeated([*results, again])
    interval = replace(first.claim, tolerance=Tolerance("interval", 0.0))
    value = interval.printed.value
    wide = Result(interval, Found(value, 0.4 * value, 1.5 * value), ClaimVerdict.REPRODUCED)
    assert wide.weak
    assert not replace(wide, found=Found(value, 0.6 * value, 1.5 * value)).weak
    assert not replace(wide, verdict=ClaimVerdict.DIFFERS).weak
    assert not replace(wide, claim=first.claim).weak


def test_only_all_of_them_are_a_hundred_percent():
    assert Score(9999, 1, 0, 0).share == "99.9%"
    assert str(Score(3, 0, 0, 5)) == "3 of 3 (100.0%)"
    assert str(Score(0, 0, 0, 5)) == "none of 5 could be computed"


def test_the_headline_hides_nothing(tmp_path):
    found = sample(tmp_path)
    assert scoreboard.headline(found) == (
        "19 of 22 printed numbers are within tolerance (86.3%), and 4 of 5 claims in words hold. "
        "3 differ, and nobody knows why; 1 differs for a reason that a run of ours supports; "
        "1 check of ours fails; 2 could not be judged here."
    )
    well = {
        name: Result(each.claim, each.found, ClaimVerdict.REPRODUCED)
        for name, each in found.results.items()
    }
    assert scoreboard.headline(dataclasses.replace(found, results=well)) == (
        "23 of 23 printed numbers are within tolerance (100.0%), and 6 of 6 claims in words hold. "
        "None differs."
    )
    none = {name: each for name, each in found.results.items() if name.startswith("two/figure-1/b")}
    text = scoreboard.headline(dataclasses.replace(found, results=none))
    assert text == "Nothing could be judged here."


def test_the_command_is_the_one_that_asks_for_this(tmp_path, monkeypatch):
    found = sample(tmp_path, quick=True)
    assert scoreboard.command(found) == "sordino reproduce one two --quick"
    monkeypatch.setattr(scoreboard, "KEYS", ("one", "two"))
    assert scoreboard.command(found) == "sordino reproduce all --quick"
    some = {name: each for name, each in found.results.items() if "/table-6/" in name}
    part = dataclasses.replace(found, results=some, quick=False)
    assert scoreboard.command(part) == "sordino reproduce one/table-6"


def test_advice_on_files_is_given_only_where_files_are_missing(tmp_path):
    found = sample(tmp_path, quick=True)
    assert "SORDINO_DATA" in scoreboard.how_to_run(found)
    small = {name: each for name, each in found.results.items() if not name.endswith("/ipums")}
    assert scoreboard.how_to_run(dataclasses.replace(found, results=small)) == ""


def test_columns_stand_in_the_papers_order_also_where_rows_lack_some(tmp_path):
    found = sample(tmp_path)
    (place,) = [each for each in found.places if each.key == "table-7"]
    table = layout.table(found.of(place))
    assert list(table.columns) == list("abcdefghij")  # the first row has b and j only
    assert table.columns["g"] == "MNIST, 10 classes"
    assert list(table.rows[0].results) == ["b", "j"]


def test_differences_of_one_reason_stand_together(tmp_path):
    held = layout.differences(sample(tmp_path).results.values())
    assert [(each.explained, [r.claim.name for r in each.results]) for each in held] == [
        (True, ["one/table-3/sigma/c"]),
        (False, ["one/table-3/factor/b"]),
        (False, ["one/table-3/factor/c"]),
        (False, ["one/table-3/seed-dominates/c"]),
        (False, ["one/checks/maximum"]),
    ]


def test_time_is_told_by_paper_and_kind(tmp_path):
    held = scoreboard.run_groups(sample(tmp_path))
    assert [(each.paper, each.kind, each.seconds) for each in held] == [
        ("one", "grid, cnn", 901.0),
        ("one", "grid, logistic", 61.2),
        ("one", "sizes", 0.2),
    ]
