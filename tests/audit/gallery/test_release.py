"""A weight without noise tells all; the classical formula against the exact profile."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from sordino.accounting import gaussian
from sordino.audit.gallery import output


def test_the_intercept_leaves_as_it_was_trained():
    case = output.unnoised_bias()
    runs = 4000
    worlds = [
        case.broken(data, np.random.default_rng(seed), runs)
        for seed, data in enumerate((case.D, case.D_prime))
    ]
    one, two = (np.unique(weights[:, -1]) for weights in worlds)
    assert len(one) == len(two) == 1
    assert one != two
    for weights in worlds:  # 4 standard errors
        rel = 4 / math.sqrt(2 * runs)
        assert weights[:, 0].std() == pytest.approx(case.broken.scale, rel=rel)


def test_the_twin_is_the_gaussian_mechanism_at_its_claim():
    case = output.unnoised_bias()
    assert case.correct.scale == case.broken.scale
    assert case.correct.noised == 2
    # The same generator gives both worlds the same noise, so the gap is the training's alone.
    one, two = (case.correct(data, np.random.default_rng(0), 5) for data in (case.D, case.D_prime))
    gap = np.linalg.norm(one - two, axis=1)
    assert gap == pytest.approx(gap[0])
    assert (np.ptp(one, axis=0) > 0).all()
    reached = gaussian.epsilon(gap[0] / case.correct.scale, case.claim.delta)
    assert 0.9999 * case.claim.epsilon < reached <= case.claim.epsilon


def test_the_classical_formula_is_false_at_its_claim():
    case = output.classical_gaussian()
    broken, correct = case.exact()
    delta = case.claim.delta
    # The library's own formula, from where it is a theorem; sigma goes like 1 / epsilon.
    mu = case.claim.epsilon / (0.5 * gaussian.classical_sigma(0.5, delta))
    # Balle & Wang 2018, Theorem 8, at the epsilon found.
    first, second = norm.cdf(mu / 2 - broken / mu), norm.logcdf(-mu / 2 - broken / mu)
    assert first - math.exp(broken + second) == pytest.approx(delta, rel=1e-6)
    assert broken > 25.4 > case.claim.epsilon == pytest.approx(correct)
