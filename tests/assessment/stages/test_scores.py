"""Scores beside accuracy: against other ways to compute them, and "not defined" instead of NaN."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import mannwhitneyu
from sklearn.metrics import balanced_accuracy_score

from sordino.assessment.stages import accuracy
from sordino.report.result import Scores, from_plain, to_plain

NONE = Scores()


def cases(classes: int, seed: int, rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Codes with every class, and what a model that knows something says."""
    drawn = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(classes), drawn.integers(0, classes, rows)])
    signal = codes == 1 if classes == 2 else np.eye(classes)[codes]
    noise = drawn.normal(size=signal.shape)
    return codes, np.round(3 * signal - 1.5 + 2 * noise, 1)  # rounded: ties


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_two_classes_by_other_ways(seed: int) -> None:
    codes, said = cases(2, seed)
    found = accuracy.decision_scores(codes, said, probable=True)
    higher = mannwhitneyu(said[codes == 1], said[codes == 0]).statistic
    assert found.auc == pytest.approx(higher / ((codes == 1).sum() * (codes == 0).sum()))
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(codes, said > 0))
    sure = expit(said)
    assert found.log_loss == pytest.approx(-np.log(np.where(codes == 1, sure, 1 - sure)).mean())
    off = 0.0
    for low in np.arange(10) / 10:
        within = (sure >= low) & (sure < low + 0.1 + (low == 0.9))
        if within.any():
            off += within.mean() * abs(sure[within].mean() - codes[within].mean())
    assert found.calibration_error == pytest.approx(off)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), classes=st.integers(3, 6))
def test_more_classes_by_other_ways(seed: int, classes: int) -> None:
    codes, said = cases(classes, seed)
    found = accuracy.decision_scores(codes, said, probable=True)
    assert found.balanced_accuracy == pytest.approx(
        balanced_accuracy_score(codes, said.argmax(axis=1))
    )
    each = [
        mannwhitneyu(said[codes == k, k], said[codes != k, k]).statistic
        / ((codes == k).sum() * (codes != k).sum())
        for k in range(classes)
    ]
    assert found.auc == pytest.approx(np.mean(each))
    sure = expit(said) / expit(said).sum(axis=1, keepdims=True)
    assert found.log_loss == pytest.approx(-np.log(sure[np.arange(len(codes)), codes]).mean())
    assert found.calibration_error is not None
    assert 0 <= found.calibration_error <= 1


def test_what_always_says_the_same_knows_nothing() -> None:
    codes = np.array([0, 1, 1, 1, 0, 1])
    found = accuracy.constant_scores(codes, np.array([0.25, 0.75]))
    assert (found.balanced_accuracy, found.auc) == (0.5, 0.5)
    assert found.log_loss == pytest.approx(-(2 * math.log(0.25) + 4 * math.log(0.75)) / 6)
    assert found.calibration_error == pytest.approx(0.75 - 4 / 6)


@pytest.mark.parametrize("codes", [[0, 0, 0], [1, 1, 1], [-1, -1, -1]])
def test_rows_of_one_class_define_nothing(codes: list[int]) -> None:
    held, said = np.array(codes), np.array([0.5, -1.0, 2.0])
    assert accuracy.decision_scores(held, said, probable=True) == NONE
    assert accuracy.constant_scores(held, np.array([0.3, 0.7])) == NONE


def test_a_class_that_training_did_not_know_leaves_only_labels_to_score() -> None:
    codes, said = cases(2, 1)
    found = accuracy.decision_scores(np.append(codes, -1), np.append(said, 1.0), probable=True)
    assert dataclasses.replace(found, balanced_accuracy=None) == NONE
    known = accuracy.decision_scores(codes, said, probable=True).balanced_accuracy
    assert known is not None
    assert found.balanced_accuracy == pytest.approx(2 / 3 * known)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e308, -1e308])
@pytest.mark.parametrize("classes", [2, 3])
def test_no_number_is_ever_none(value: float, classes: int) -> None:
    """A model that diverged, or is absurdly sure."""
    codes, said = cases(classes, 2)
    found = accuracy.decision_scores(codes, np.where(said > 0, value, said), probable=True)
    assert from_plain(Scores, to_plain(found)) == found
    assert (found == NONE) == (not math.isfinite(value))


def test_a_support_vector_machine_has_no_probabilities() -> None:
    found = accuracy.decision_scores(*cases(2, 3), probable=False)
    assert (found.log_loss, found.calibration_error) == (None, None)
    assert found.auc is not None
    assert found.balanced_accuracy is not None
