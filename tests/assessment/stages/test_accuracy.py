"""What privacy costs: the repeats have the law of releases, and rows are scored as by `predict`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sordino.assessment.plan import AssessmentPlan
from sordino.assessment.request import Request
from sordino.assessment.stages import accuracy
from sordino.estimators import PrivateLogisticRegression, methods
from sordino.estimators.fit import FitPlan, PlannedFit, Randomness, Settings


@pytest.fixture(scope="module")
def subject() -> AssessmentPlan:
    return AssessmentPlan.of(Request(data="digits/binary", effort="quick"))


def job_of(subject: AssessmentPlan) -> PlannedFit:
    assert subject.fitting is not None
    return subject.fitting


def planned(subject: AssessmentPlan, method: str, epsilon: float = 1.0) -> FitPlan:
    return methods.plan(method, replace(job_of(subject).plan.task, epsilon=epsilon), Settings())


def made(subject: AssessmentPlan, plan: FitPlan, count: int) -> np.ndarray:
    fitting = job_of(subject)
    told: list[int] = []
    weights = accuracy.released_weights(plan, fitting, count, fitting.start, told.append)
    assert told == sorted(set(told))
    assert told[-1] == count
    return weights


@pytest.mark.parametrize("method", ["noisy-gd", "dp-sgd", "rsgd-ar", "objective", "dp-agd"])
def test_every_repeat_has_randomness_of_its_own(subject: AssessmentPlan, method: str) -> None:
    # More than are made at once, so that two batches cannot share theirs.
    count = 6 if method == "dp-agd" else 60
    weights = made(subject, planned(subject, method), count)
    assert weights.shape == (count, 1, 65)
    assert len(np.unique(weights, axis=0)) == count
    np.testing.assert_array_equal(made(subject, planned(subject, method), count), weights)


def test_output_perturbation_adds_the_noise_of_the_plan(subject: AssessmentPlan) -> None:
    plan = planned(subject, "rsgd-ar")
    noise = made(subject, plan, 100) - made(subject, replace(plan, scale=0.0), 100)
    # 6,500 numbers: their standard deviation is known to 0.9 %; five of those.
    assert noise.std() == pytest.approx(plan.scale, rel=0.05)
    assert np.abs(noise.mean()) < 4 * plan.scale / np.sqrt(noise.size)


def test_objective_perturbation_draws_the_linear_term_of_the_plan(subject: AssessmentPlan) -> None:
    fitting, plan = job_of(subject), planned(subject, "objective")
    weights = made(subject, replace(plan, scale=0.0), 100)
    risk = fitting.records.risk(0, plan.task, plan.l2)
    # At a minimiser of F + b.w / rows the gradient of F is -b / rows.
    terms = -len(fitting.records.X) * np.stack([risk.gradient(w) for (w,) in weights])
    assert terms.std() == pytest.approx(plan.sigma, rel=0.05)
    assert np.abs(terms.mean()) < 4 * plan.sigma / np.sqrt(terms.size)


def test_without_privacy_is_the_fit_that_promises_nothing(subject: AssessmentPlan) -> None:
    model = PrivateLogisticRegression(
        method="none", classes=[0, 1], data_norm=subject.prepared.data_norm
    )
    with pytest.warns(UserWarning, match="nothing is promised"):
        model.fit(subject.X, subject.y)
    (found,) = accuracy.without_privacy(job_of(subject))
    np.testing.assert_allclose(found[:-1], model.coef_[0], atol=1e-5)


def test_separable_classes_without_a_regulariser_still_have_a_model_to_compare_with() -> None:
    X = np.array([[-1.0], [-0.5], [0.5], [1.0]] * 5)
    fitting = PrivateLogisticRegression(
        10.0, delta=1e-3, l2=0.0, method="noisy-gd", classes=[0, 1], data_norm=2.0
    )._prepare(X, (X[:, 0] > 0).astype(int))
    ((slope, _),) = accuracy.without_privacy(fitting)
    assert 0 < slope < np.inf


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("words", [False, True])
def test_rows_are_scored_as_by_predict(classes: int, words: bool) -> None:
    rng = np.random.default_rng(0)
    X, codes = rng.standard_normal((200, 5)), np.arange(200) % classes
    labels = np.array([f"class {code}" for code in range(classes)]) if words else np.arange(classes)
    model = PrivateLogisticRegression(
        50.0, delta=1e-4, method="noisy-gd", classes=list(labels), data_norm=2.0
    ).fit(X, labels[codes])
    fitting = model._prepare(X, labels[codes])
    test_X, test_y = 3 * rng.standard_normal((90, 5)), labels[rng.integers(0, classes, 90)]
    held = accuracy.HeldOut.of(test_X, test_y, fitting)
    weights = np.column_stack([model.coef_, model.intercept_])[None]
    right = np.count_nonzero(model.predict(test_X) == test_y)
    np.testing.assert_array_equal(held.right(np.repeat(weights, 3, axis=0)), [right] * 3)
    said = model.decision_function(test_X).reshape(90, -1)  # scaled as in the training
    np.testing.assert_allclose(held.X @ weights[0].T, said, rtol=1e-12, atol=1e-12)


def test_a_class_that_training_did_not_know_is_never_right(subject: AssessmentPlan) -> None:
    held = accuracy.HeldOut.of(subject.test_X[:3], np.array([7, 8, 9]), job_of(subject))
    assert held.right(np.stack([job_of(subject).start, -job_of(subject).start])).tolist() == [0, 0]


def test_intervals() -> None:
    # Wilson 1927 for 8 of 10: (0.8 + z^2/20 -+ z sqrt(0.016 + z^2/400)) / (1 + z^2/10), z = 1.96
    eight = accuracy.wilson(8, 10)
    assert (eight.value, eight.low, eight.high) == pytest.approx(
        (0.8, 0.490162, 0.943318), abs=1e-6
    )
    shares = np.linspace(0.5, 0.7, 201)
    again = accuracy.spread(shares)
    assert (again.value, again.low, again.high) == pytest.approx((0.6, 0.505, 0.695))
    # Student's t with 3 degrees of freedom: 3.182446; four numbers with standard deviation 0.01.
    four = 0.6 + 0.01 * np.sqrt(3) / 2 * np.array([-1, -1, 1, 1])
    (point,) = accuracy.curve({2.0: four})
    assert (point.epsilon, point.repeats) == (2.0, 4)
    measure = point.accuracy
    assert (measure.value, measure.high) == pytest.approx((0.6, 0.6 + 3.182446 * 0.005), abs=1e-8)
    assert accuracy.curve({1.0: np.array([0.99, 1.0])})[0].accuracy.high == 1.0


def test_repeats_are_as_many_as_public_sizes_allow(subject: AssessmentPlan) -> None:
    plan = planned(subject, "noisy-gd")
    assert accuracy.affordable(plan, 1e6, 20) == 20
    few = accuracy.affordable(plan, 0.05, 10**6)
    assert accuracy.LEAST < few < accuracy.affordable(plan, 0.1, 10**6)
    larger = replace(plan, task=replace(plan.task, rows=1000 * plan.task.rows, problems=10))
    assert accuracy.affordable(replace(larger, spec=None, method="dp-agd"), 1.0, 20) == 0


def test_numbers_are_kept_and_those_of_another_size_made_anew(tmp_path: Path) -> None:
    calls: list[int] = []

    def make(count: int) -> np.ndarray:
        calls.append(count)
        return np.full(count, 1 / 3)

    for count in (3, 3, 4, 4):
        found = accuracy.stored(tmp_path, "a", count, partial(make, count))
        np.testing.assert_array_equal(found, np.full(count, 1 / 3))
    assert calls == [3, 4]


def test_no_repeat_draws_the_noise_of_releases(
    subject: AssessmentPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Randomness, "of_system", classmethod(lambda cls: pytest.fail("drawn")))
    for method in ("objective", "noisy-gd"):
        made(subject, planned(subject, method), 2)
