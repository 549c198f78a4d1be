"""What privacy costs, and an advice that follows from three accuracies."""

from __future__ import annotations

import dataclasses
import re

import sample_assessment as samples
from hypothesis import example, given
from hypothesis import strategies as st

from sordino.report import words
from sordino.report.assessment import Assessment
from sordino.report.blocks import Table, Text
from sordino.report.sections.release import release
from sordino.report.stages import Accuracy, Measure

SHARES = st.floats(0, 1)
A_POINT = 0.01


def told(found: Accuracy) -> tuple[str, str]:
    """What the page's section says, and the notes that page and terminal begin with."""
    sample = samples.release_sample()
    assert sample.release is not None
    made = dataclasses.replace(sample.release, accuracy=found)
    assessed: Assessment = dataclasses.replace(sample, release=made)
    texts = [
        f"{each.lead} {each.text}" for each in release(assessed).blocks if isinstance(each, Text)
    ]
    return " ".join(texts), " ".join(words.notes(assessed))


def accuracy(constant: float, without: float, released: float, **more: object) -> Accuracy:
    def around(value: float) -> Measure:
        return Measure(value, max(value - 0.03, 0), min(value + 0.03, 1))

    known = {"repeats": 5, "majority": constant, "curve": (), "test_rows": 100}
    return Accuracy(around(without), around(released), around(released), **known, **more)  # type: ignore[arg-type]


@given(constant=SHARES, without=SHARES, released=SHARES)
@example(0.6, 0.6, 0.6)
@example(0.64, 0.65, 0.70)
@example(0.64, 0.90, 0.60)
@example(0.95, 0.95, 0.90)
def test_less_noise_is_advised_only_where_noise_is_what_costs(
    constant: float, without: float, released: float
) -> None:
    for said in told(accuracy(constant, without, released)):
        warned = "Hardly useful" in said
        less_noise = re.search(r"more rows or a larger epsilon would", said, re.IGNORECASE)
        another = "other columns or another model might help" in said
        assert warned == (max(released - 0.03, 0) <= constant)
        assert bool(less_noise) + another == warned
        if less_noise:
            assert without >= max(constant, released) + A_POINT
        if another:
            assert without < max(constant, released) + A_POINT


def test_an_uneven_table_may_be_ranked_well_all_the_same() -> None:
    better = samples.release_sample().release
    assert better is not None
    assert better.accuracy is not None
    ranked = {
        "before_scores": better.accuracy.before_scores,
        "after_scores": better.accuracy.after_scores,
    }
    said, _ = told(accuracy(0.95, 0.95, 0.95, **ranked))
    assert "AUC 0.965 without privacy, 0.947 of this release" in said
    said, _ = told(accuracy(0.6, 0.95, 0.55, **ranked))
    assert "AUC" not in said.partition("Hardly useful")[2].partition("nearer to that")[0]


def test_scores_stand_in_a_table_and_what_is_none_is_not_defined() -> None:
    sample = samples.release_sample()
    assert sample.release is not None
    assert sample.release.accuracy is not None
    scores = sample.release.accuracy.before_scores
    assert scores is not None
    svm = dataclasses.replace(scores, log_loss=None, calibration_error=None)
    found = accuracy(0.5, 0.9, 0.8, before_scores=svm, constant_scores=scores)
    made = dataclasses.replace(sample.release, accuracy=found)
    blocks = release(dataclasses.replace(sample, release=made)).blocks
    table = next(each for each in blocks if isinstance(each, Table) and "AUC" in each.head)
    without, constant = table.groups[0].rows
    assert without == ("without privacy", "90.0%", "90.1%", "0.965", "not defined", "not defined")
    assert constant[0] == "always the most frequent label"


def test_assessments_without_scores_have_no_table_of_them() -> None:
    said, _ = told(accuracy(0.5, 0.9, 0.8))
    assert "calibration" not in said
