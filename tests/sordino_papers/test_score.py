"""What is counted, what is grouped, and the first lines that say it."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

from sample_reproduction import MISSING, sample

from sordino_papers import score
from sordino_papers.claims import Tolerance
from sordino_papers.quantities import Answer
from sordino_papers.reproduction import ClaimVerdict, Result
from sordino_papers.score import Score


def test_claims_are_counted_without_our_own_checks(tmp_path):
    found = sample(tmp_path)
    whole = score.Tally.of(found)
    assert whole.printed == Score(reproduced=19, explained=1, differs=2, not_runnable=1)
    assert whole.words == Score(reproduced=4, explained=0, differs=1, not_runnable=1)
    held = [[r for place in paper.places for r in found.of(place)] for paper in found.papers]
    parts = [score.Tally.of(found, results).words for results in held]
    assert sum(part.asked for part in parts) == whole.words.asked


def test_settings_repeats_and_wide_intervals_are_told_apart(tmp_path):
    found = sample(tmp_path)
    results = list(found.results.values())
    first = next(r for r in results if r.claim.category == "printed")
    setting = replace(first, claim=replace(first.claim, setting=True))
    changed = [setting if each is first else each for each in results]
    kinds = [[r.claim.category for r in each] for each in (results, changed)]
    assert kinds[1].count("printed") == kinds[0].count("printed") - 1
    assert kinds[1].count("setting") == 1
    again = replace(first, claim=replace(first.claim, name="again"))
    assert again in score.repeated([*results, again])
    assert first not in score.repeated([*results, again])
    interval = replace(first.claim, tolerance=Tolerance("interval", 0.0))
    value = interval.printed.value
    wide = Result(interval, Answer(value, 0.4 * value, 1.5 * value), ClaimVerdict.REPRODUCED)
    assert wide.weak
    assert not replace(wide, answer=Answer(value, 0.6 * value, 1.5 * value)).weak
    assert not replace(wide, verdict=ClaimVerdict.DIFFERS).weak
    assert not replace(wide, claim=first.claim).weak


def test_only_all_of_them_are_a_hundred_percent():
    assert Score(9999, 1, 0, 0).share == "99.9%"
    assert str(Score(3, 0, 0, 5)) == "3 of 3 (100.0%)"
    assert str(Score(0, 0, 0, 5)) == "none of 5 could be computed"


def test_the_headline_hides_nothing(tmp_path):
    found = sample(tmp_path)
    assert score.headline(found) == (
        "19 of 22 printed numbers are within tolerance (86.3%), and 4 of 5 claims in words hold. "
        "3 differ, and nobody knows why; 1 differs for a reason that a run of ours supports; "
        "1 check of ours fails; 2 could not be judged here."
    )
    well = {
        name: Result(each.claim, each.answer, ClaimVerdict.REPRODUCED)
        for name, each in found.results.items()
    }
    assert score.headline(dataclasses.replace(found, results=well)) == (
        "23 of 23 printed numbers are within tolerance (100.0%), and 6 of 6 claims in words hold. "
        "None differs."
    )
    none = {name: each for name, each in found.results.items() if name.startswith("two/figure-1/b")}
    text = score.headline(dataclasses.replace(found, results=none))
    assert text == "Nothing could be judged here."


def test_the_command_is_the_one_that_asks_for_this(tmp_path, monkeypatch):
    found = sample(tmp_path, quick=True)
    assert score.command(found) == "sordino reproduce one two --quick"
    monkeypatch.setattr(score, "KEYS", ("one", "two"))
    assert score.command(found) == "sordino reproduce all --quick"
    some = {name: each for name, each in found.results.items() if "/table-6/" in name}
    part = dataclasses.replace(found, results=some, quick=False)
    assert score.command(part) == "sordino reproduce one/table-6"


def test_advice_on_files_is_given_only_where_files_are_missing(tmp_path):
    found = sample(tmp_path, quick=True)
    assert "SORDINO_DATA" in score.how_to_run(found)
    small = {name: each for name, each in found.results.items() if not name.endswith("/ipums")}
    assert score.how_to_run(dataclasses.replace(found, results=small)) == ""


def test_the_summary_tells_what_is_missing_and_what_it_took(tmp_path):
    found = sample(tmp_path, quick=True)
    first, *others = score.summary(found)
    assert first.startswith("19 of 22 printed numbers are within tolerance (86.3%)")
    assert others == [
        "Of these: without 16 numbers that are printed twice it is 5 of 6 (83.3%).",
        "2 of 3 checks of ours (what explanations lean on, and slips in print) hold.",
        f"2 claims not judged: {MISSING}",
        f"1 claim not judged: {score.NEEDS_FULL}.",
        "This took 12 s; its 3 runs took 16 min 2 s when made.",
    ]
