"""Group privacy: exact Gaussians, chains of neighbours, and curves that must not rise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.accounting import gaussian, objective
from sordino.accounting.compose import GroupProfile, group
from sordino.accounting.pld.loss import DIRECTIONS, GaussianLoss, PoissonLoss
from sordino.accounting.profile import ApproximateProfile, GaussianProfile, LossProfile
from sordino.accounting.zcdp import ConcentratedProfile
from sordino.errors import InvalidArgument
from sordino.privacy import Relation

ANY = {"relation": Relation.ADD_OR_REMOVE_ONE, "theorem": "one record"}
sizes = st.integers(2, 12)


class Known(GaussianLoss):
    """Of which nothing but the curve is known."""

    most_mu = math.inf


def laws(loss, count=1):
    return LossProfile(components=((loss, count),), **ANY)


@given(st.floats(0, 5), st.integers(1, 100))
def test_gaussian_profiles_multiply(mu, size):
    found = group(GaussianProfile(parameter=mu, **ANY), size)
    assert found.mu == size * mu
    assert found.relation is Relation.ADD_OR_REMOVE_ONE


@settings(max_examples=30)
@given(st.floats(0.05, 1), sizes, st.floats(0, 8))
def test_the_general_bound_covers_exact_gaussians(mu, size, epsilon):
    """Without Gaussian DP the same release is only known by its curve."""
    found = group(laws(Known((mu,))), size)
    assert isinstance(found, GroupProfile)
    assert found.log_delta(epsilon) >= gaussian.log_delta(epsilon, size * mu) - 1e-9


def test_it_is_not_much_above_them():
    found = group(laws(Known((0.3,))), 3).epsilon(1e-5)
    exact = gaussian.epsilon(0.9, 1e-5)
    assert exact < found < 1.05 * exact
    assert group(laws(GaussianLoss((0.3,))), 3).epsilon(1e-5) == pytest.approx(exact, rel=1e-9)


def test_epsilon_and_delta_both_grow():
    one = ApproximateProfile(budget=(0.5, 1e-6), **ANY)
    found = group(one, 3)
    summed = 1e-6 * (1 + math.exp(0.5) + math.exp(1.0))
    assert found.delta(1.5) == pytest.approx(summed, rel=1e-12)
    # 3 (epsilon, delta) would be false: randomised response that sometimes tells all, three times.
    assert found.delta(1.5) > 3e-6
    assert found.epsilon(0.99 * summed) == math.inf
    assert found.epsilon(1.01 * summed) <= 1.5


def test_pure_privacy_multiplies():
    found = group(ApproximateProfile(budget=(0.2, 0.0), **ANY), 5)
    assert found.epsilon(0.0) == pytest.approx(1.0, rel=1e-12)
    assert found.delta(1.0 + 1e-12) == 0


def test_a_delta_proved_for_less_holds_for_more():
    found = group(ApproximateProfile(budget=(0.5, 1e-6), **ANY), 4)
    for epsilon in (2.0, 2.5, 4.0, 40.0, 1e6, math.inf):
        assert found.delta(epsilon) == pytest.approx(found.delta(2.0), rel=1e-9)


@settings(max_examples=20, deadline=None)
@given(sizes, st.sampled_from(DIRECTIONS), st.floats(0, 30), st.floats(1e-3, 3))
def test_the_curve_never_rises(size, direction, epsilon, step):
    for one in (
        laws(PoissonLoss(0.2, 1.5)),
        ApproximateProfile(budget=(0.5, 1e-6), **ANY),
        laws(GaussianLoss((0.05,))),
    ):
        found = group(one, size)
        here, there = (found.log_delta(e, direction) for e in (epsilon, epsilon + step))
        # Between two steps of the ladder a rise of this size can hide. Of deltas above 1 % every
        # one is a proof, but they can rise, fall and rise: nobody asks there, so nobody looks.
        assert there <= 0.99 * here + 1e-9 or there > math.log(0.01)


def test_directions_stay_apart():
    found = group(laws(PoissonLoss(0.1, 1.0)), 2)
    assert found.log_delta(0.3, "forward") != found.log_delta(0.3, "backward")
    assert found.log_delta(0.3) == max(found.log_delta(0.3, way) for way in DIRECTIONS)


def test_a_chain_of_two_is_integrated():
    """Two records that each move a mixture: exact densities against the chain."""
    rate, noise = 0.3, 1.0
    found = group(laws(PoissonLoss(rate, noise)), 2)
    x = np.linspace(-12, 14, 40001)

    def normal(mean):
        return np.exp(-((x - mean) ** 2) / 2) / math.sqrt(2 * math.pi)

    without = normal(0)
    both = (1 - rate) ** 2 * normal(0) + 2 * rate * (1 - rate) * normal(1) + rate**2 * normal(2)
    for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
        for direction, (p, q) in zip(DIRECTIONS, ((both, without), (without, both)), strict=True):
            exact = np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0])
            assert exact <= found.delta(epsilon, direction) * (1 + 1e-9) + 1e-12


def test_concentrated_grows_with_the_square():
    one = ConcentratedProfile(rho=0.01, **ANY)
    found = group(one, 3)
    assert isinstance(found, ConcentratedProfile)
    assert found.rho == pytest.approx(0.09)
    assert found.epsilon(1e-6) < GroupProfile(one=one, size=3, **ANY).epsilon(1e-6)


def test_the_constant_of_concentrated_is_not_lost():
    one = ConcentratedProfile(rho=0.01, xi=0.3, **ANY)
    found = group(one, 3)
    assert found.xi == pytest.approx(0.3 * 3 * (1 + 1 / 2 + 1 / 3))
    # Pure DP of 0.3 a record is 0.9 for three, and this can only say more.
    assert group(ConcentratedProfile(rho=0.0, xi=0.3, **ANY), 3).epsilon(0.0) >= 0.9


def test_objective_perturbation_for_a_person():
    of = {"regulariser": 30.0, "norm": 1.0, "curvature": 0.25, "kind": "logistic"}
    one = objective.objective_perturbation(sigma=20.0, relation=Relation.ADD_OR_REMOVE_ONE, **of)
    found = group(one, 4)
    assert one.epsilon(1e-5) < found.epsilon(1e-5)
    # Four times the norm moves the gradient as far, and its Gaussian is exact.
    assert found.epsilon(1e-5) > gaussian.epsilon(4 / 20, 1e-5)
    assert found.epsilon(1e-5) < 2 * gaussian.epsilon(4 / 20, 1e-5)
    assert "4 records" in found.theorem


def test_edges():
    one = ApproximateProfile(budget=(0.5, 1e-6), **ANY)
    assert group(one, 1) is one
    hopeless = group(ApproximateProfile(budget=(math.inf, 0.0), **ANY), 2)
    assert hopeless.log_delta(100.0) == 0
    assert hopeless.epsilon(1e-5) == math.inf
    assert group(GaussianProfile(parameter=math.inf, **ANY), 2).mu == math.inf
    assert group(laws(Known((0.3,))), 3).delta(0.0) == pytest.approx(3 * gaussian.delta(0.0, 0.3))
    assert group(laws(Known((0.3,))), 3).log_delta(math.inf) == -math.inf
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(InvalidArgument, match="size"):
            group(one, wrong)
