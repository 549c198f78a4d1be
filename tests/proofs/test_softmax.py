"""Proofs of a softmax: one model of several classes, whose gradients must not really be clipped."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from sordino.accounting.last_iterate.hidden_state import HiddenState
from sordino.data import neighbours as nb
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument, NotApplicable
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import Relation
from sordino.proofs import NORM_SLACK
from sordino.proofs.evidence import StepsEvidence, from_plain
from sordino.proofs.output import OutputEvidence
from sordino.proofs.settings import training
from sordino.sgd import Schedule, TrainSpec, train

CLASSES, ROWS, COLUMNS = 4, 24, 3
SOFTMAX = ObjectiveSpec("softmax", l2=0.05, intercept=False, classes=CLASSES)
LOGISTIC = dataclasses.replace(SOFTMAX, kind="logistic")
REPLACE, ZERO = Relation.REPLACE_ONE, Relation.ZERO_OUT
LONGEST = math.sqrt(2) * (1 + NORM_SLACK)

METHODS: dict[str, dict[str, Any]] = {
    "rsgd-ar": {"learning_rate": 1.2, "batch_size": 6, "epochs": 4, "average_every": 2},
    "nsgd": {"learning_rate": 1.5, "batch_size": 8, "epochs": 3},
    "bolt-on": {"learning_rate": None, "batch_size": 6, "epochs": 3},
    "output-gd": {"learning_rate": 1.5, "batch_size": ROWS, "steps": 12},
}


def evidence_of(spec, relation=REPLACE, problems=CLASSES, **more):
    kind = StepsEvidence if spec.noise_multiplier else OutputEvidence
    how = {"delta": 1e-6} if spec.noise_multiplier else {"sigma": 1.0}
    how |= {"relation": relation, "columns": COLUMNS, "problems": problems, "rows": ROWS}
    return kind(spec=spec, norm=1.0, **(how | more))


def spec_of(method, objective=SOFTMAX):
    return training(method, objective, ROWS, 1.0, METHODS[method], private_size=False)


def noisy(objective=SOFTMAX, clip=LONGEST, **more):
    how: dict[str, Any] = {"order": "fixed", "init": "given", "dtype": "float64"}
    how |= {"max_grad_norm": clip, "noise_multiplier": 3.0, "batch_size": ROWS, "steps": 400}
    return TrainSpec(objective, **({"learning_rate": 1.0} | how | more))


def worst_records():
    """Records that say nothing but one, which is steep and points across; and where to start.

    At the start all lie far on the first axis, where the first class has the largest score; only
    the one is labelled otherwise, so that its gradient is as long as any.
    """
    X = np.tile([1.0, 0.0, 0.0], (ROWS, 1)) * (1 - 1e-9)
    y = np.zeros(ROWS, dtype=np.int64)
    X[0], y[0] = np.array([0.02, math.sqrt(1 - 0.0004), 0.0]) * (1 - 1e-9), 1
    start = np.zeros((CLASSES, COLUMNS))
    start[0, 0], start[1:, 0] = 1e4, -1e4
    other = X[:1].copy()
    other[0, 1] *= -1
    return Dataset(X, y, norm_bound=1.0), other, y[:1], start.ravel()


@pytest.mark.parametrize("relation", [REPLACE, ZERO])
@pytest.mark.parametrize("method", METHODS)
def test_no_twins_end_further_apart_and_some_nearly_as_far(method, relation):
    spec = spec_of(method)
    worst, replaced, label, far = worst_records()
    start_norm = float(np.linalg.norm(far))
    done = evidence_of(spec, relation, start_norm=start_norm).done()
    rng = np.random.default_rng(1)
    X = rng.standard_normal((ROWS, COLUMNS))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-9)
    drawn = Dataset(X, rng.integers(CLASSES, size=ROWS), norm_bound=1.0)
    closest = 0.0
    for data, rows, labels, start in (
        (worst, replaced, label, far),
        (drawn, -X[:1], (drawn.y[:1] + 1) % CLASSES, rng.standard_normal(CLASSES * COLUMNS)),
    ):
        pairs = nb.replace(data, [0], rows, labels)
        if relation is ZERO:
            pairs = nb.zero_out(data, [0])
        weights = train(spec, data, range(12), pairs, initial_weights=start)[:, :, 0]
        moved = np.linalg.norm(weights[:, -1] - weights[:, 0], axis=1)
        assert moved.max() <= done.farthest
        closest = max(closest, moved.max() / done.farthest)
    assert closest > 0.95


def test_one_model_of_several_classes_is_not_several_models():
    """It pays sqrt(2) for its longer gradients where one against the rest pays sqrt(classes)."""
    flat = {"l2": 0.0, "classes": CLASSES}
    for kind in ("softmax", "logistic"):
        objective = ObjectiveSpec(kind, intercept=False, **flat)
        spec = TrainSpec(objective, 1e-3, ROWS, steps=9, order="fixed", dtype="float64")
        moved = evidence_of(spec).done().farthest
        factor = math.sqrt(2) if kind == "softmax" else math.sqrt(CLASSES)
        assert moved == pytest.approx(factor * 2 * 9e-3 / ROWS, rel=1e-5)
        run = evidence_of(noisy(objective, clip=10.0)).done()
        assert run.steps.noise_multiplier == pytest.approx(3.0 * 10 / factor, rel=1e-5)


def test_its_own_noise_is_for_gradients_of_any_length():
    """REPLACE moves the sum by 2 sqrt(2) norms, and the clip leaves all of that."""
    data, other, label, start = worst_records()
    spec = noisy(steps=1, noise_multiplier=1e-12, learning_rate=1e-3)
    pairs = nb.replace(data, [0], other, label)
    weights = train(spec, data, [0], pairs, initial_weights=start)[0, :, 0]
    moved = np.linalg.norm(weights[1] - weights[0]) * ROWS / 1e-3
    assert moved == pytest.approx(2 * math.sqrt(2), rel=1e-3)
    assert moved <= 2 * LONGEST


@pytest.mark.parametrize("clip", [0.1, 1.0, 1.414])
def test_really_clipped_only_composition_is_left(clip):
    whole, cut = evidence_of(noisy()).done(), evidence_of(noisy(clip=clip)).done()
    assert isinstance(whole.hidden, HiddenState)
    assert isinstance(cut.hidden, NotApplicable)
    assert "convex" in str(cut.hidden)
    linear = evidence_of(noisy(LOGISTIC, clip=clip)).done()
    assert isinstance(linear.hidden, HiddenState)  # of a linear model the clip does no harm
    # A shorter clip is less noise: what is left is composition, at the same multiplier.
    at_clip = evidence_of(noisy(clip=clip)).proof()
    assert at_clip.released == "all"
    assert evidence_of(noisy()).proof().released == "final"
    for method in METHODS:
        spec = dataclasses.replace(spec_of(method), max_grad_norm=clip)
        with pytest.raises(NotApplicable, match="no convex loss"):
            evidence_of(spec).done()
        evidence_of(dataclasses.replace(spec, max_grad_norm=LONGEST)).done()


@pytest.mark.parametrize("problems", [1, 3, 5])
def test_as_many_rows_of_weights_as_classes(problems):
    with pytest.raises(InvalidArgument, match="problems"):
        evidence_of(noisy(), problems=problems)


@pytest.mark.parametrize("spec", [noisy(), spec_of("rsgd-ar")])
def test_evidence_is_the_same_after_a_trip_and_no_other_loss(spec):
    evidence = evidence_of(spec)
    plain = evidence.to_plain()
    assert from_plain(plain) == evidence
    epsilon = evidence.proof().guarantee(1e-6).epsilon
    for kind, factor in (("logistic", math.sqrt(CLASSES / 2)), ("softmax", 1.0)):
        loss = dataclasses.replace(spec.objective, kind=kind)
        other = dataclasses.replace(evidence, spec=dataclasses.replace(spec, objective=loss))
        found = other.proof().guarantee(1e-6).epsilon
        assert (found > epsilon) == (factor > 1)


def test_rates_beyond_two_over_smoothness_are_no_last_iterate():
    limit = 2 / (SOFTMAX.constants(1.0).smooth)
    spec = noisy(learning_rate=Schedule.constant(1.01 * limit))
    assert isinstance(evidence_of(spec).done().hidden, NotApplicable)
    spec = noisy(learning_rate=Schedule.constant(0.99 * limit))
    assert isinstance(evidence_of(spec).done().hidden, HiddenState)
