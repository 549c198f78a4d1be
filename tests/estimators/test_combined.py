"""Weights, bounds, a centre and a scale together: no record moves what the noise is made for.

A referee written out here sums gradients on rows that the estimator prepared, by numbers that are
already released: there twins differ in one record, with its label and its weight.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax

from sordino import PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge
from sordino.data.dataset import NORM_SLACK, row_norms
from sordino.estimators.fit import FitRecords
from sordino.estimators.methods.prepared import release_preparation
from sordino.proofs.prepared import MEAN, SQUARES
from sordino.release.noise import OsGaussian

CASES = {
    "softmax": (PrivateLogisticRegression, 4),
    "logistic": (PrivateLogisticRegression, 2),
    "huber": (PrivateLinearSVC, 2),
    "squares": (PrivateRidge, 0),
}
PREPARED: tuple[dict[str, Any], ...] = (
    {"center": "private", "scale": "private"},
    {"center": "private", "bounds": None},
    {"center": [1.0, -2.0, 0.0], "scale": "private", "bounds": ([-9, -9, -1], [9, 9, 30])},
    {"center": "none", "scale": "none"},
)


def estimator(name: str, **more: Any) -> Any:
    kind, classes = CASES[name]
    how: dict[str, Any] = {"target_bounds": (-1, 1)}
    if classes:
        weight = {0: 5.0, 1: 0.2} if classes == 2 else {3: 7.0}
        how = {"classes": range(classes), "class_weight": weight}
    given = {"epsilon": 1.0, "delta": 1e-5, "bounds": (-9, 9), "max_sample_weight": 2.0}
    return kind(method="noisy-gd", **{**given, **how, **more})


def gradients(name: str, W: np.ndarray, records: FitRecords, clip: float) -> np.ndarray:
    """Of every record, clipped: [record, ...]."""
    X, codes = records.X, records.codes
    v = np.ones(len(X)) if records.weights is None else records.weights
    if name == "softmax":
        psi = softmax(X @ W.T, axis=1)
        psi[np.arange(len(X)), codes] -= 1
        each = np.einsum("i,ik,ij->ikj", v, psi, X).reshape(len(X), -1)
    else:
        scores = X @ W[0]
        if name == "logistic":
            psi = expit(scores) - codes
        elif name == "huber":
            signs = 2 * codes - 1
            psi = -signs * np.clip((1.5 - signs * scores) / 1.0, 0, 1)
        else:
            psi = scores - codes
        each = (v * psi)[:, None] * X
    norms = np.linalg.norm(each, axis=1, keepdims=True)
    return np.asarray(each * np.minimum(1, clip / np.maximum(norms, 1e-300)))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("how", PREPARED)
def test_no_twin_moves_a_noisy_sum_of_gradients_farther_than_it_is_charged_for(
    name: str, how: dict[str, Any]
) -> None:
    farthest = 0.0
    for seed in range(16):
        draw = np.random.default_rng(seed)
        rows = 12 + 20 * (seed % 2)  # two sizes, and as many plans
        X = draw.normal(size=(rows, 3)) * 10 ** draw.uniform(-2, 3)
        classes = CASES[name][1]
        y = draw.integers(0, classes, rows) if classes else draw.uniform(-3, 3, rows)
        own = draw.uniform(0, 5, rows)
        twin_X, twin_y, twin_own = X.copy(), y.copy(), own.copy()
        twin_X[0] = draw.choice([-1, 1], 3) * draw.permutation(X[0]) * 10 ** draw.uniform(-3, 3)
        twin_y[0] = (y[0] + 1) % classes if classes else -y[0]
        twin_own[0] = draw.choice([0.0, 1e9])
        model = estimator(name, **how)
        first, second = (
            model._prepare(*each) for each in ((X, y, None, own), (twin_X, twin_y, None, twin_own))
        )
        assert first.plan == second.plan
        task, spec = first.plan.task, first.plan.training.spec
        assert spec is not None
        assert spec.max_grad_norm is not None
        coordinates = first.coordinates
        if task.prepared is not None:
            assert coordinates is not None
            for each in first.plan.before:  # and what was released before
                sums = [release_of(each.what, f, coordinates) for f in (first, second)]
                assert np.linalg.norm(np.subtract(*sums)) <= each.moved(task.relation)
            public = coordinates, OsGaussian()
            coordinates = release_preparation(first.plan, first.records.X, *public)
        trained = [
            FitRecords.of(
                *(f.X, f.records.codes, f.records.classes, task.norm, True, coordinates),
                f.records.weights,
            )
            for f in (first, second)
        ]
        clip = spec.max_grad_norm * (1 + NORM_SLACK)
        for size in (0.0, 1.0, 30.0):
            W = size * draw.normal(size=(max(classes, 1), 4))
            totals = [gradients(name, W, each, clip).sum(axis=0) for each in trained]
            moved = float(np.linalg.norm(np.subtract(*totals)))
            assert moved <= 2 * clip * (1 + 1e-9)
            farthest = max(farthest, moved / (2 * clip))
        for each in trained:
            assert row_norms(each.X).max() <= task.norm * (1 + NORM_SLACK)
            assert each.weights is not None
            assert each.weights.min() >= 0
            assert each.weights.max() <= 1
    assert farthest > 0.3  # the search comes near it: a referee that saw nothing would pass


def release_of(what: str, fitting: Any, coordinates: Any) -> np.ndarray:
    """What is summed before the training, around a centre that is public or 0."""
    from sordino.estimators.preparation import sums

    asked = fitting.plan.task.prepared
    center = coordinates.center if coordinates.center is not None else np.zeros(3)
    assert what in (MEAN, SQUARES)
    around = None if what == MEAN else center
    rows = len(fitting.records.X)
    return np.asarray(sums(what, fitting.records.X, asked.norm_of(what), rows, around))


@pytest.mark.parametrize("undivided", [3.0, 10.0])
def test_weights_that_were_not_divided_would_move_an_unclipped_sum_farther(
    undivided: float,
) -> None:
    X = np.array([[1.0, 0, 0], [-1.0, 0, 0]])
    records = FitRecords(X, np.array([0, 1]), 2, 1.0, np.full(2, undivided))
    each = gradients("logistic", np.zeros((1, 3)), records, math.inf)
    assert np.linalg.norm(each, axis=1).max() > 1
