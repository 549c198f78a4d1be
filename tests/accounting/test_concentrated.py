"""zCDP: golden vectors, the filter's arithmetic, and what a Gumbel choice really leaks."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, logsumexp

from sordino.accounting import gaussian, renyi, zcdp
from sordino.accounting.compose import compose, times
from sordino.accounting.profile import ApproximateProfile, GaussianProfile
from sordino.accounting.zcdp import Filter
from sordino.errors import InvalidArgument, NotApplicable
from sordino.privacy import Relation

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "erm_10.json").read_text())[
    "10_erm_baselines"
]["zcdp_to_dp"]
REL = GOLDEN["tol"]["rel"]
ANY = {"relation": Relation.REPLACE_ONE}
rhos = st.floats(-8, 3).map(lambda power: 10**power)
deltas = st.floats(-14, -1).map(lambda power: 10**power)


@pytest.mark.parametrize("case", GOLDEN["cases"])
class TestGolden:
    def test_conversions(self, case):
        rho, delta = case["rho"], case["delta"]
        assert zcdp.canonne_epsilon(rho, delta) == pytest.approx(case["eps_cks"], rel=REL)
        found = zcdp.bun_steinke(rho, delta)
        assert found == pytest.approx(case["eps_bun_steinke"], rel=REL)
        profile = zcdp.concentrated(rho=rho, **ANY)
        assert profile.epsilon(delta) <= case["eps_cks"] * (1 + REL)
        assert profile.epsilon(delta) >= case["eps_if_gaussian"]

    def test_back(self, case):
        found = zcdp.rho(case["eps_cks"], case["delta"])
        assert found == pytest.approx(case["rho"], rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(rhos, deltas)
def test_epsilon_and_delta_are_each_other_s_inverse(rho, delta):
    profile = zcdp.concentrated(rho=rho, **ANY)
    epsilon = profile.epsilon(delta)
    assert gaussian.epsilon(math.sqrt(2 * rho), delta) <= epsilon * (1 + 1e-9)
    assert epsilon <= zcdp.canonne_epsilon(rho, delta) * (1 + 1e-12)
    assert epsilon <= zcdp.bun_steinke(rho, delta)
    if epsilon > 0:
        assert profile.log_delta(epsilon) == pytest.approx(math.log(delta), rel=1e-6)
        assert profile.log_delta(1.01 * epsilon) < profile.log_delta(epsilon)
    # A Gaussian release of this rho is one of those the profile must cover.
    here = gaussian.log_delta(0.5 * epsilon, math.sqrt(2 * rho))
    assert profile.log_delta(0.5 * epsilon) >= here - 1e-9


@settings(max_examples=8, deadline=None)
@given(st.floats(0.01, 20), deltas)
def test_rho_is_the_largest_and_rounded_down(epsilon, delta):
    rho = zcdp.rho(epsilon, delta)
    assert zcdp.concentrated(rho=rho, **ANY).epsilon(delta) <= epsilon
    more = zcdp.concentrated(rho=rho * (1 + 1e-6), **ANY)
    assert more.epsilon(delta) > epsilon


class TestComposition:
    def test_costs_add_up(self):
        profile = zcdp.concentrated(rho=0.02, **ANY)
        many = times(profile, 5)
        assert (many.rho, many.xi) == (pytest.approx(0.1), 0.0)
        assert many.epsilon(1e-6) == compose([profile] * 5).epsilon(1e-6)

    def test_with_a_gaussian_and_a_pure_release(self):
        profile = zcdp.concentrated(rho=0.02, **ANY)
        normal = GaussianProfile(parameter=0.2, theorem="", **ANY)
        both = compose([profile, normal])
        assert both.renyi(np.array([3.0])) == pytest.approx([3 * 0.04])
        pure = ApproximateProfile(budget=(0.1, 0.0), theorem="", **ANY)
        assert compose([both, pure]).epsilon(1e-6) > both.epsilon(1e-6)


class TestFilter:
    def test_adaptive_spending(self):
        budget = Filter(1.0)
        for cost in (0.5, 0.25):
            assert budget.can_spend(cost)
            budget.spend(cost)
        assert (budget.spent, budget.left) == (0.75, 0.25)
        assert not budget.can_spend(np.nextafter(0.25, 1))
        with pytest.raises(NotApplicable, match=r"0\.25"):
            budget.spend(0.3)
        assert budget.left == 0.25
        budget.spend(0.25)
        assert budget.left == 0
        budget.spend(0.0)
        assert not budget.can_spend(5e-324)

    def test_a_tenth_ten_times_is_more_than_one(self):
        # 0.1 as a float is above a tenth; a naive sum of ten is below 1 and would allow more.
        budget = Filter(1.0)
        for _ in range(9):
            budget.spend(0.1)
        assert not budget.can_spend(0.1)
        assert sum([0.1] * 10) < 1

    def test_costs_too_small_to_move_a_float_are_counted(self):
        budget = Filter(1.0)
        budget.spend(1.0 - 2**-53)
        assert budget.can_spend(2**-53)
        budget.spend(2**-54)
        assert budget.left == 2**-54
        assert budget.spent == 1.0
        budget.spend(2**-54)
        assert not budget.can_spend(2**-100)

    @given(st.lists(st.floats(0, 1), max_size=30), st.floats(0, 5))
    def test_never_over_in_exact_arithmetic(self, costs, total):
        budget, paid = Filter(total), Fraction(0)
        for cost in costs:
            if budget.can_spend(cost):
                budget.spend(cost)
                paid += Fraction(cost)
            left = budget.left
            assert paid + Fraction(left) <= Fraction(total)
            assert Fraction(budget.spent) >= paid
            assert budget.can_spend(left)
        assert paid <= Fraction(total)

    def test_refusals(self):
        for wrong in (-1.0, math.inf, math.nan):
            with pytest.raises(InvalidArgument):
                Filter(wrong)
            with pytest.raises(InvalidArgument):
                Filter(1.0).can_spend(wrong)


class TestMechanisms:
    @given(st.floats(0, 1e3), rhos)
    def test_gaussian(self, sensitivity, rho):
        sigma = zcdp.gaussian_scale(sensitivity, rho)
        assert zcdp.gaussian_cost(sensitivity, sigma) <= rho
        if sensitivity > 1e-100:
            assert zcdp.gaussian_cost(sensitivity, sigma * (1 - 1e-12)) > rho * (1 - 1e-9)
        assert zcdp.gaussian_cost(2.0, 4.0) == 0.125
        assert zcdp.gaussian_cost(1.0, 0.0) == math.inf
        assert zcdp.gaussian_cost(0.0, 0.0) == 0

    @given(st.floats(0, 1e3), rhos)
    def test_temperature(self, span, rho):
        temperature = zcdp.exponential_temperature(span, rho)
        if span == 0:
            assert temperature == 0
            return
        assert zcdp.exponential_cost(span / temperature) <= rho
        assert temperature == pytest.approx(span / math.sqrt(8 * rho), rel=1e-12)

    def test_exponential_mechanism_s_divergence(self):
        """Renyi divergences of exact choices over random score pairs, and how near they come."""
        rng = np.random.default_rng(0)
        orders = np.array([1.001, 1.5, 2.0, 5.0, 30.0])
        nearest = 0.0
        for _ in range(3000):
            count = rng.integers(2, 9)
            span = 10 ** rng.uniform(-2, 1)
            scores = rng.normal(size=count) * 10 ** rng.uniform(-2, 1)
            change = rng.choice([0.0, span], count) + rng.normal() * rng.integers(0, 2)
            if rng.random() < 0.5:
                change = rng.uniform(0, span, count)
            p, q = log_softmax(-scores), log_softmax(-scores - change)
            exponents = orders[:, None] * p + (1 - orders[:, None]) * q
            exact = logsumexp(exponents, axis=1) / (orders - 1)
            cost = zcdp.exponential_cost(float(np.ptp(change)))
            assert (exact <= orders * cost + 1e-9).all()
            nearest = max(nearest, float((exact[1:4] / (orders[1:4] * cost + 1e-12)).max()))
        assert nearest > 0.97

    def test_gumbel_noise_draws_the_exponential_mechanism(self):
        rng = np.random.default_rng(1)
        scores, temperature = np.array([0.0, 0.4, 1.0]), 0.7
        noise = rng.gumbel(size=(40000, 3))
        chosen = np.bincount(np.argmin(scores / temperature - noise, axis=1), minlength=3) / 40000
        assert chosen == pytest.approx(np.exp(log_softmax(-scores / temperature)), abs=0.012)

    def test_half_the_cost_would_be_false(self):
        span, order = 0.5, 2.0
        p, q = np.log([0.5, 0.5]), log_softmax([-span / 2, span / 2])
        exact = float(logsumexp(order * p + (1 - order) * q)) / (order - 1)
        assert exact > 0.5 * order * zcdp.exponential_cost(span)


class TestEdges:
    def test_extremes(self):
        nothing = zcdp.concentrated(rho=0.0, **ANY)
        assert nothing.epsilon(0.0) == 0
        assert nothing.log_delta(0.0) == -math.inf
        everything = zcdp.concentrated(rho=math.inf, **ANY)
        assert everything.epsilon(1e-5) == math.inf
        assert everything.log_delta(3.0) == 0
        some = zcdp.concentrated(rho=0.1, **ANY)
        assert some.epsilon(0.0) == math.inf
        assert some.log_delta(math.inf) == -math.inf
        assert some.log_delta(50.0) < -5000
        assert 0 < some.delta(0.0) < 1
        assert zcdp.rho(math.inf, 1e-5) == math.inf
        assert zcdp.bun_steinke(0.0, 0.0) == 0
        assert zcdp.bun_steinke(0.1, 0.0) == math.inf
        assert zcdp.canonne_epsilon(0.1, 0.0) == math.inf

    def test_refusals(self):
        with pytest.raises(InvalidArgument, match="delta"):
            zcdp.rho(1.0, 0.0)
        with pytest.raises(InvalidArgument, match="rho"):
            zcdp.concentrated(rho=-1.0, **ANY)
        with pytest.raises(InvalidArgument, match="rho"):
            zcdp.gaussian_scale(1.0, 0.0)


class TestWithXi:
    """(xi, rho)-zCDP: a line that does not start at 0."""

    @settings(max_examples=25, deadline=None)
    @given(rhos, st.floats(-6, 1).map(lambda power: 10**power), deltas)
    def test_between_its_parts_and_their_sum(self, rho, xi, delta):
        both = zcdp.ConcentratedProfile(rho=rho, xi=xi, theorem="a test", **ANY)
        alone = zcdp.concentrated(rho=rho, **ANY).epsilon(delta)
        # xi is a constant on top of every order, so it adds at most itself.
        assert alone * (1 - 1e-9) <= both.epsilon(delta) <= (xi + alone) * (1 + 1e-9)
        # Never looser than on the grid of orders.
        grid = renyi.epsilon(renyi.ORDERS, both.renyi(renyi.ORDERS), delta)
        assert both.epsilon(delta) <= grid * (1 + 1e-9)
        epsilon = both.epsilon(delta)
        if epsilon > 0:
            assert both.log_delta(epsilon) == pytest.approx(math.log(delta), rel=1e-6)

    def test_without_rho_it_is_pure(self):
        pure = ApproximateProfile(budget=(0.7, 0.0), theorem="a test", **ANY)
        found = zcdp.ConcentratedProfile(rho=0.0, xi=0.7, theorem="a test", **ANY)
        assert found.epsilon(0.0) == 0.7
        for delta in (1e-9, 1e-3, 0.2):
            assert found.epsilon(delta) == pytest.approx(pure.epsilon(delta), rel=1e-12)
        for epsilon in (0.0, 0.3, 0.7, 1.0, math.inf):
            assert found.log_delta(epsilon) == pure.log_delta(epsilon)

    def test_infinite_and_wrong(self):
        lost = zcdp.ConcentratedProfile(rho=0.1, xi=math.inf, theorem="a test", **ANY)
        assert (lost.epsilon(1e-6), lost.delta(5.0)) == (math.inf, 1.0)
        with pytest.raises(InvalidArgument, match="xi"):
            zcdp.ConcentratedProfile(rho=0.1, xi=-0.1, theorem="a test", **ANY)
