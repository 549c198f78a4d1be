from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import assess as benchmark  # noqa: E402

from sordino.privacy import Estimate, Guarantee, Observation, Relation  # noqa: E402
from sordino.report.result import (  # noqa: E402  # noqa: E402
    Accuracy,
    Assessment,
    Attack,
    Curve,
    Estimated,
    Measure,
    Proved,
    Provenance,
    Question,
    Release,
)

REPLACE = Relation.REPLACE_ONE


def assessment(observed: float) -> Assessment:
    line = Curve((), ())
    seen = Observation(observed, 1e-6, 0.99, "test", 10)
    guarantee = Guarantee(2.0, 1e-6, REPLACE, "fixed", "one record", "test", (), "final")
    attack = Attack(
        *("release", "pair", "score", 10, 5, 2.0, seen, (), observed > 2, None),
        *(1.0, None, "verdict", line),
    )
    half = Measure(0.5, 0.4, 0.6)
    accuracy = Accuracy(half, half, half, 5, 0.5, (), 100)
    estimate = Estimate(1.5, 1e-6, None, None, None, "test", "test")
    return Assessment(
        question=Question("t", "d", None, "logistic", "auto", 2.0, 1e-6, "as given", REPLACE),
        records=None,
        proved_parts=Proved(guarantee),
        release=Release("noisy-gd", {}, "noise", "source", accuracy),
        release_estimated=Estimated(estimate),
        own_noise=None,
        attacks=(attack,),
        caveats=(),
        provenance=Provenance("2026-01-01", {}, seconds={"prove": 3.0}),
    )


def done(observed: float, code: int = 0, line: str = "Whoever has the model ...") -> benchmark.Done:
    return benchmark.Done(10.0, code, assessment(observed), line)


def test_figures_of_a_study_that_holds() -> None:
    found = benchmark.Found()
    benchmark.add_study("people", done(1.0), found)
    assert found.violations == []
    assert found.figures == {
        "seconds_people": 10.0,
        "seconds_people_prove": 3.0,
        "proved_people": 2.0,
        "estimated_people": 1.5,
        "observed_over_proved_people": 0.5,
        "accuracy_before_people": 0.5,
        "accuracy_after_people": 0.5,
        "accuracy_again_people": 0.5,
    }


@pytest.mark.parametrize(
    "bad",
    [
        done(2.1),
        done(1.0, code=1),
        done(1.0, line="BROKEN: it is."),
        replace(done(1.0), assessment=replace(assessment(1.0), proved_parts=None)),
    ],
)
def test_a_study_that_does_not_hold_is_a_violation(bad: benchmark.Done) -> None:
    found = benchmark.Found()
    benchmark.add_study("people", bad, found)
    assert len(found.violations) == 1


def test_broken_mechanisms_count_if_the_page_and_the_exit_code_say_so() -> None:
    found = benchmark.Found()
    entries = {
        "caught": done(9.0, 1, "BROKEN: it is."),
        "silent": done(9.0, 0, "BROKEN: it is."),
        "missed": done(9.0, 1),
    }
    benchmark.add_gallery(entries, found)
    assert (found.figures["gallery_entries"], found.figures["broken_called"]) == (3, 1)
    assert [line.split()[0] for line in found.violations] == ["gallery:silent", "gallery:missed"]


def test_the_first_line_is_the_heading_without_markup() -> None:
    page = '<p>strip</p>\n<h1 class="alarm">BROKEN: <em>it</em>\nis.</h1><h1>no</h1>'
    assert benchmark.first_line(page) == "BROKEN: it\nis."
    assert benchmark.first_line("<p>no heading</p>") == ""
