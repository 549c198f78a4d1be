"""The minimisers are those of the library, and the pair attains the epsilon that is stated."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino.accounting import objective as accounting
from sordino.audit.gallery import objective
from sordino.estimators.minimum.linear import Risk

CASE = objective.curvature_times_norm.case()


def log_density(w, data, mechanism):
    """Of the minimiser at w, up to a constant: Laplace noise times the Jacobian, by hand."""
    slope, curvature = mechanism.regulariser * w, mechanism.regulariser
    for x, label in zip(data.X[:, 0], data.y, strict=True):
        sign = 2 * label - 1
        gap = 1 - sign * x * w
        slope += -sign * x * min(max(gap + 0.5, 0.0), 1.0)
        curvature += x * x if -0.5 < gap < 0.5 else 0.0
    return -abs(slope) / mechanism.scale + math.log(curvature)


def loss(w, mechanism):
    """Privacy loss at w."""
    return log_density(w, CASE.D_prime, mechanism) - log_density(w, CASE.D, mechanism)


def true_epsilon(mechanism):
    return accounting.pure_epsilon(
        scale=mechanism.scale,
        regulariser=mechanism.regulariser,
        norm=100.0,
        curvature=1.0,
        kind="huber-svm",
        relation=CASE.claim.relation,
    )


@pytest.mark.parametrize("mechanism", [CASE.broken, CASE.correct])
@pytest.mark.parametrize("data", [CASE.D, CASE.D_prime])
def test_minimisers_are_those_of_the_risk(mechanism, data):
    linear = np.random.default_rng(0).laplace(0.0, mechanism.scale, 20)
    risk = Risk(data.X, data.y, kind="huber-svm", l2=mechanism.regulariser / data.rows)
    found = mechanism.minimisers(data, linear)
    for w, b in zip(found, linear, strict=True):
        # Strong convexity: a gradient of 1e-9 is a distance of at most 1e-9 / l2.
        (other,) = risk.minimise(np.array([b / data.rows]), 1e-9)
        assert w == pytest.approx(other, abs=2e-9 / risk.l2)


def test_the_pair_attains_the_stated_epsilon():
    # Where the target's loss starts to curve its slope is still 1.
    for mechanism in (CASE.broken, CASE.correct):
        assert loss(0.005 + 1e-12, mechanism) == pytest.approx(true_epsilon(mechanism), rel=1e-6)
        grid = np.linspace(-0.03, 0.03, 3001)
        assert max(abs(loss(w, mechanism)) for w in grid) <= true_epsilon(mechanism) + 1e-9
    assert true_epsilon(CASE.broken) == CASE.true_epsilon > 4.6
    assert true_epsilon(CASE.correct) == pytest.approx(CASE.claim.epsilon)
    assert true_epsilon(CASE.correct) <= CASE.claim.epsilon


def test_only_the_power_of_the_norm_is_changed():
    # Lambda goes like c R^k, and the noise follows from the same budget.
    assert CASE.correct.regulariser == pytest.approx(100 * CASE.broken.regulariser)
    assert CASE.correct.scale == pytest.approx(CASE.broken.scale)


def test_the_score_rises_with_the_privacy_loss():
    inside = np.linspace(0.00501, 0.01499, 50)
    losses = [loss(w, CASE.broken) for w in inside]
    scores = objective.near_the_hinge(inside[:, None])
    assert (np.diff(losses) < 0).all()
    assert (np.diff(scores) < 0).all()
    outside = np.array([-1.0, 0.0, 0.00499, 0.01501, 1.0])
    assert max(loss(w, CASE.broken) for w in outside) < min(losses)
    assert (objective.near_the_hinge(outside[:, None]) < scores.min()).all()


def test_noise_is_laplace():
    runs = 4000
    w = CASE.correct(CASE.D, np.random.default_rng(0), runs)[:, 0]
    # Undo the minimiser: one record of label 0, slope at most 1.
    slopes = 100 * np.clip(100 * w + 1.5, 0, 1)
    b = -(slopes + CASE.correct.regulariser * w)
    # |b| is exponential, whose mean and standard deviation are the scale: 4 standard errors.
    assert np.abs(b).mean() == pytest.approx(CASE.correct.scale, rel=4 / math.sqrt(runs))
    assert np.abs(b).std() == pytest.approx(CASE.correct.scale, rel=8 / math.sqrt(runs))
