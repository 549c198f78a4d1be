"""A search for weights and records that break the constants every proof rests on.

Each bound must hold for all of them, and be reached: a constant that is merely large enough
would pass the first half and cost noise for nothing.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.errors import InvalidArgument
from sordino.models import Constants, ObjectiveSpec, build

FEATURES = 4
LOSSES = [("logistic", 0.5), ("huber-svm", 0.05), ("huber-svm", 0.5), ("huber-svm", 2.0)]
LOSSES_AND_SQUARES = [*LOSSES, ("least-squares", 0.5)]
SETTINGS = list(itertools.product([True, False], [0.0, 0.3], [0.5, 1.0, 3.0]))

# Differences of gradients over steps of 1e-4: rounding 1e-16 * 10 / 1e-4.
ROUNDING = 1e-9


def make(kind, h, intercept, l2):
    spec = ObjectiveSpec(kind, l2=l2, huber_width=h, intercept=intercept)
    return build(spec, FEATURES)


def on_the_sphere(rng, many, radius):
    x = rng.standard_normal((many, FEATURES))
    return x * (radius / np.linalg.norm(x, axis=1, keepdims=True))


def model_row(objective, x):
    return np.append(x, 1.0) if objective.spec.intercept else x


@pytest.mark.parametrize(("intercept", "l2", "bound"), SETTINGS)
@pytest.mark.parametrize(("kind", "h"), LOSSES)
def test_no_data_gradient_is_longer_than_lipschitz_and_some_are_as_long(
    kind, h, intercept, l2, bound
):
    objective = make(kind, h, intercept, l2)
    most = objective.constants(bound).lipschitz
    rng = np.random.default_rng(0)
    found = 0.0
    for x, label in zip(on_the_sphere(rng, 30, bound), itertools.cycle([0, 1]), strict=False):
        wrong = (1 - 2 * label) * model_row(objective, x)  # towards the worst score
        weights = rng.standard_normal((60, objective.parameters)) * rng.uniform(0.1, 30, (60, 1))
        weights[:20] = np.geomspace(0.01, 100, 20)[:, None] * wrong
        shrunk = x * rng.uniform(0, 1)  # records inside the ball as well
        for row in (x, shrunk):
            data = objective.gradient(weights, row[None], np.array([label])) - l2 * weights
            norms = np.linalg.norm(data, axis=1)
            assert norms.max() <= most * (1 + ROUNDING)
            found = max(found, norms.max())
    assert found >= 0.99 * most


@pytest.mark.parametrize(("intercept", "l2", "bound"), SETTINGS)
@pytest.mark.parametrize(("kind", "h"), LOSSES_AND_SQUARES)
def test_no_curvature_leaves_its_bounds_and_both_are_reached(kind, h, intercept, l2, bound):
    objective = make(kind, h, intercept, l2)
    constants = objective.constants(bound)
    rng = np.random.default_rng(1)
    largest, least = 0.0, math.inf
    for x, label in zip(on_the_sphere(rng, 12, bound), itertools.cycle([0, 1]), strict=False):
        row, sign = model_row(objective, x), 2 * label - 1
        # Where the curvature is largest: score 0 for logistic, margin 1 for the rounded hinge.
        steepest = (1.0 if kind == "huber-svm" else 0.0) * sign * row / (row @ row)
        across = rng.standard_normal((10, objective.parameters))
        across -= np.outer(across @ row, row) / (row @ row)
        random = rng.standard_normal((60, objective.parameters))
        start = np.concatenate([np.tile(steepest, (11, 1)), 3 * random[:30], random[30:]])
        step = np.concatenate([row[None], across, *rng.standard_normal((2, 30, len(row)))])
        step[:41] *= 1e-4 / np.linalg.norm(step[:41], axis=1, keepdims=True)  # the rest are long
        y = np.array([label])
        change = objective.gradient(start + step, x[None], y) - objective.gradient(
            start, x[None], y
        )
        lengths = np.linalg.norm(step, axis=1)
        quotient = np.linalg.norm(change, axis=1) / lengths
        along = (change * step).sum(axis=1) / lengths**2
        assert quotient.max() <= constants.smooth * (1 + ROUNDING) + ROUNDING
        assert along.min() >= constants.strongly_convex - ROUNDING * (1 + constants.smooth)
        largest, least = max(largest, quotient.max()), min(least, along.min())
    assert largest >= 0.99 * constants.smooth
    assert least <= constants.strongly_convex + 1e-6


vectors = st.lists(st.floats(-20, 20), min_size=FEATURES + 1, max_size=FEATURES + 1)


@settings(derandomize=True, max_examples=60, deadline=None, database=None)
@given(
    loss=st.sampled_from(LOSSES_AND_SQUARES),
    setting=st.sampled_from(SETTINGS),
    x=vectors,
    w=vectors,
    v=vectors,
    label=st.sampled_from([0, 1]),
)
def test_hypothesis_finds_no_counterexample_either(loss, setting, x, w, v, label):
    (kind, h), (intercept, l2, bound) = loss, setting
    objective = make(kind, h, intercept, l2)
    constants = objective.constants(bound)
    row = np.array(x[:FEATURES])
    row *= bound / max(bound, np.linalg.norm(row))
    both = np.array([w, v])[:, : objective.parameters]
    gradients = objective.gradient(both, row[None], np.array([label]))
    data = np.linalg.norm(gradients - l2 * both, axis=1)
    assert data.max() <= constants.lipschitz * (1 + ROUNDING)
    apart = np.linalg.norm(both[0] - both[1])
    change = np.linalg.norm(gradients[0] - gradients[1])
    assert change <= constants.smooth * apart * (1 + ROUNDING) + ROUNDING
    assert change >= constants.strongly_convex * apart * (1 - ROUNDING) - ROUNDING


@pytest.mark.parametrize(
    ("spec", "bound", "want"),
    [
        # docs/math.md, section 3: R = X and beta = X^2/4 or X^2/(2h); a bias makes X = sqrt(2).
        (ObjectiveSpec("logistic", intercept=False), 1.0, Constants(1, 1 / 4, 0)),
        (ObjectiveSpec("logistic"), 1.0, Constants(math.sqrt(2), 1 / 2, 0)),
        (ObjectiveSpec("logistic", l2=0.1), 3.0, Constants(math.sqrt(10), 2.6, 0.1)),
        (ObjectiveSpec("huber-svm", intercept=False), 1.0, Constants(1, 1, 0)),
        (
            ObjectiveSpec("huber-svm", huber_width=0.1, l2=0.5),
            0.5,
            Constants(math.sqrt(1.25), 6.75, 0.5),
        ),
        (ObjectiveSpec("least-squares", l2=0.2), 2.0, Constants(math.inf, 5.2, 0.2)),
    ],
)
def test_constants_are_those_of_the_mathematics(spec, bound, want):
    got = build(spec, 3).constants(bound)
    assert got.lipschitz == pytest.approx(want.lipschitz, rel=1e-14)
    assert got.smooth == pytest.approx(want.smooth, rel=1e-14)
    assert got.strongly_convex == want.strongly_convex


def test_least_squares_has_gradients_beyond_any_bound():
    objective = make("least-squares", 0.5, True, 0.0)
    x, w = np.ones((1, FEATURES)) / 2, np.full((1, FEATURES + 1), 1e9)
    assert np.linalg.norm(objective.gradient(w, x, np.zeros(1))) > 1e9
    assert math.isinf(objective.constants(1.0).lipschitz)


def test_networks_claim_nothing():
    for kind in ("mlp", "cnn"):
        assert build(ObjectiveSpec(kind), 64, (8, 8)).constants(1.0) is None


@pytest.mark.parametrize("bound", [0, -1.0, math.inf, math.nan, "1"])
def test_constants_need_a_bound_that_is_a_number(bound):
    with pytest.raises(InvalidArgument, match="Expected norm_bound="):
        make("logistic", 0.5, True, 0.0).constants(bound)
