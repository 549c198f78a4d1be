"""The softmax: what is proved of it is true and reached, and what is not, is refused elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.errors import InvalidArgument
from sordino.models import Constants, ObjectiveSpec, build

FEATURES = 3


def make(classes, *, intercept=False, l2=0.0):
    return build(ObjectiveSpec("softmax", l2=l2, intercept=intercept, classes=classes), FEATURES)


def data_gradients(objective, weights, rows, labels):
    """Of each record alone, [record, run, parameter]."""
    pairs = zip(rows, labels, strict=True)
    each = [objective.gradient(weights, x[None], np.array([y])) for x, y in pairs]
    return np.stack(each) - objective.spec.l2 * weights


@pytest.mark.parametrize("classes", [2, 3, 10, 50])
@pytest.mark.parametrize(("intercept", "bound"), [(False, 1.0), (False, 3.0), (True, 0.5)])
def test_gradients_reach_root_two_norms_and_never_more(classes, intercept, bound):
    objective = make(classes, intercept=intercept, l2=0.3)
    most = objective.constants(bound).lipschitz
    assert most == pytest.approx(math.sqrt(2 * (bound**2 + intercept)))
    rng = np.random.default_rng(classes)
    rows = rng.standard_normal((20, FEATURES))
    rows *= bound / np.linalg.norm(rows, axis=1, keepdims=True)
    weights = rng.standard_normal((200, objective.parameters)) * rng.uniform(0.1, 40, (200, 1))
    labels = rng.integers(classes, size=20)
    norms = np.linalg.norm(data_gradients(objective, weights, rows, labels), axis=2)
    assert 0.99 * most < norms.max() <= most * (1 + 1e-12)


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize(("intercept", "l2"), [(False, 0.0), (True, 0.3)])
def test_curvature_reaches_half_a_squared_norm_and_never_more(classes, intercept, l2):
    objective, bound = make(classes, intercept=intercept, l2=l2), 1.5
    constants = objective.constants(bound)
    squared = bound**2 + intercept
    assert constants == Constants(math.sqrt(2) * math.sqrt(squared), squared / 2 + l2, l2)
    rng = np.random.default_rng(3)
    largest, least = 0.0, math.inf
    for trial in range(25):
        x = rng.standard_normal(FEATURES)
        x *= bound / np.linalg.norm(x)
        row = torch.tensor(np.append(x, 1.0) if intercept else x)
        start = rng.standard_normal((classes, len(row)))
        if trial % 2:  # two classes alike, the others far below: where it is largest
            start[2:] -= 100 * row.numpy()
            start[1] = start[0]

        def loss(flat, row=row):
            z = flat.view(classes, -1) @ row
            return torch.logsumexp(z, 0) - z[0] + l2 / 2 * flat @ flat

        hessian = torch.autograd.functional.hessian(loss, torch.tensor(start.ravel()))
        values = np.linalg.eigvalsh(hessian.numpy())
        largest, least = max(largest, values[-1]), min(least, values[0])
    assert 0.99 * constants.smooth < largest <= constants.smooth * (1 + 1e-12)
    assert constants.strongly_convex - 1e-12 <= least <= constants.strongly_convex + 1e-9


@given(st.integers(2, 6), st.integers(0, 2**31), st.floats(0.05, 30))
@settings(max_examples=40, deadline=None)
def test_a_step_with_whole_gradients_never_expands(classes, seed, far):
    """What every theorem on convex losses rests on, of the sum that is really computed."""
    objective, rng = make(classes, l2=0.1), np.random.default_rng(seed)
    rows = rng.standard_normal((7, FEATURES))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = rng.integers(classes, size=7)
    w = far * rng.standard_normal((2, objective.parameters))
    constants = objective.constants(1.0)
    rate = 2 / (constants.smooth + constants.strongly_convex)
    step = w - rate * objective.gradient(w, rows, labels, clip=constants.lipschitz)
    rho = 1 - rate * constants.strongly_convex
    assert np.linalg.norm(step[0] - step[1]) <= rho * np.linalg.norm(w[0] - w[1]) + 1e-12


def test_a_clipped_softmax_is_not_monotone():
    """Why theorems on the last iterate and on sensitivity are refused where the clip is real."""
    objective, rng = make(3), np.random.default_rng(0)
    row, label = np.array([[1.0, 0.0, 0.0]]), np.array([0])
    worst = math.inf
    for _ in range(300):
        w = rng.standard_normal((1, objective.parameters)) * 3
        near = w + 0.3 * rng.standard_normal((50, objective.parameters))
        at, others = (objective.gradient(v, row, label, clip=0.3) for v in (w, near))
        worst = min(worst, ((near - w) * (others - at)).sum(axis=1).min())
    assert worst < -1e-4


def test_scores_too_large_for_exp_are_no_harm():
    objective = make(3)
    weights = 1e5 * np.random.default_rng(0).standard_normal((4, objective.parameters))
    rows, labels = np.eye(FEATURES), np.array([0, 1, 2])
    for clip in (None, 0.1):
        assert np.isfinite(objective.gradient(weights, rows, labels, clip=clip)).all()
    assert np.isfinite(objective.loss(weights, rows, labels)).all()


def test_what_is_no_softmax_is_refused():
    with pytest.raises(InvalidArgument, match="classes"):
        ObjectiveSpec("softmax", classes=1)
    with pytest.raises(InvalidArgument, match="labels"):
        make(3).check_labels(np.array([0, 3]))
    spec = ObjectiveSpec("softmax", classes=4)
    assert spec.is_convex
    assert not spec.is_linear
    assert spec.scores == 4
