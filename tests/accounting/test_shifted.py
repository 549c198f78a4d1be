"""Shifted interpolation: the master bound against solvers and exact linear dynamics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression, minimize

from sordino.accounting.last_iterate.convex import master_mu
from sordino.accounting.last_iterate.shifted import composition_mu, cyclic_mus, domain_mu
from sordino.errors import InvalidArgument

# Powers of smaller ones leave the range of floats in the formulas these tests compare with.
contractions = st.one_of(st.just(0.0), st.floats(1e-3, 1.3))
shifts = st.one_of(st.just(0.0), st.floats(0.01, 2))
noises = st.floats(0.05, 3)


def steps_of(least=1, most=7, noise=noises):
    return st.lists(st.tuples(contractions, shifts, noise), min_size=least, max_size=most).map(
        lambda rows: np.array(rows).T
    )


def later(c):
    """Product of all later contractions, of each step."""
    return np.array([np.prod(c[k + 1 :]) for k in range(len(c))])


def linear_mu(c, a, s):
    """Exact mu of w <- c w + a (or 0) + N(0, s^2), the dynamics of quadratic losses."""
    distance, variance = 0.0, 0.0
    for ck, ak, sk in zip(c, a, s, strict=True):
        distance, variance = ck * distance + ak, ck**2 * variance + sk**2
    return distance / math.sqrt(variance)


class TestMasterBound:
    @given(steps_of(noise=st.one_of(st.just(0.0), noises)), st.sampled_from([0.0, 0.5]))
    def test_lies_between_the_linear_dynamics_and_composition(self, rows, distance):
        mu = master_mu(*rows, initial_distance=distance)
        c, a, s = rows
        if distance == 0:
            assert mu <= composition_mu(a, s) * (1 + 1e-9)
        a = np.append(distance, a)
        c, s = np.append(1, c), np.append(0, s)
        weight = later(c)
        variance = np.sum((weight * s) ** 2)
        if variance > 0:
            assert mu >= np.sum(weight * a) / math.sqrt(variance) * (1 - 1e-9)
        else:
            assert mu == (math.inf if np.sum(weight * a) > 0 else 0)

    @given(steps_of())
    def test_is_the_linear_dynamics_where_the_chord_is_feasible(self, rows):
        c, a, s = rows
        rise, span = np.cumsum(later(c) * a), np.cumsum((later(c) * s) ** 2)
        if (rise * span[-1] >= rise[-1] * span * (1 + 1e-9)).all() or len(a) == 1:
            assert master_mu(c, a, s) == pytest.approx(linear_mu(c, a, s), rel=1e-9, abs=1e-300)

    @pytest.mark.parametrize("seed", range(25))
    def test_is_the_optimum_that_a_general_solver_finds(self, seed):
        rng = np.random.default_rng(seed)
        steps = int(rng.integers(2, 7))
        c, s = rng.uniform(0.3, 1.2, steps), rng.uniform(0.2, 2, steps)
        a = rng.uniform(0, 1, steps) * (rng.random(steps) < 0.7)
        start = float(rng.choice([0.0, 0.6]))

        def distances(b):
            z = [start]
            for ck, ak, bk in zip(c, a, b, strict=True):
                z.append(ck * z[-1] + ak - bk)
            return np.array(z[1:])

        found = minimize(
            lambda b: np.sum((b / s) ** 2),
            a,
            jac=lambda b: 2 * b / s**2,
            bounds=[(0, None)] * steps,
            constraints=[
                {"type": "ineq", "fun": lambda b: distances(b)[:-1]},
                {"type": "eq", "fun": lambda b: distances(b)[-1]},
            ],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        # The solver may stop for want of digits, but at a feasible point.
        assert distances(found.x) == pytest.approx(np.maximum(distances(found.x), 0), abs=1e-7)
        assert distances(found.x)[-1] == pytest.approx(0, abs=1e-7)
        assert master_mu(c, a, s, start) == pytest.approx(math.sqrt(found.fun), rel=1e-5)

    @given(steps_of(most=40))
    def test_is_the_weighted_isotonic_regression(self, rows):
        c, a, s = rows
        c = np.maximum(c, 0.2)
        spans = (later(c) * s) ** 2
        slopes = isotonic_regression(later(c) * a / spans, weights=spans).x
        expected = math.sqrt(np.sum(slopes**2 * spans))
        assert master_mu(c, a, s) == pytest.approx(expected, rel=1e-9, abs=1e-300)

    @given(steps_of(), st.floats(1, 3), st.data())
    def test_more_noise_or_less_shift_never_hurts(self, rows, factor, data):
        c, a, s = rows
        where = data.draw(st.integers(0, len(c) - 1))
        more, less = s.copy(), a.copy()
        more[where] *= factor
        less[where] /= factor
        mu = master_mu(c, a, s) * (1 + 1e-9)
        assert master_mu(c, a, more) <= mu
        assert master_mu(c, less, s) <= mu
        assert master_mu(c, 2 * a, 2 * s) == pytest.approx(mu, rel=1e-8)

    @given(steps_of(), st.floats(0, 1), noises)
    def test_a_further_step_without_the_record_never_hurts(self, rows, contraction, noise):
        c, a, s = rows
        further = master_mu(np.append(c, contraction), np.append(a, 0), np.append(s, noise))
        assert further <= master_mu(c, a, s) * (1 + 1e-9)

    def test_a_map_to_one_point_forgets_everything_before(self):
        assert master_mu([0.9, 0, 0.9], [5, 0, 0], 1.0, 3.0) == 0
        expected = master_mu([1, 0.9], [0.3, 0.4], 1.0)
        assert master_mu([0.9, 0, 0.9], [5, 0.3, 0.4], 1.0, 3.0) == pytest.approx(expected)

    def test_noise_before_a_shift_does_not_hide_it(self):
        assert master_mu(1.0, [0, 1], [1, 0]) == math.inf
        assert master_mu(1.0, [1, 0], [0, 1]) == pytest.approx(1)
        assert master_mu(1.0, [0, 0], 0.0) == 0
        assert master_mu(1.0, [], 0.0) == 0
        assert master_mu(1.0, [], 0.0, 1.0) == math.inf

    def test_a_mu_below_every_float_is_not_zero(self):
        assert 0 < master_mu(1e-3, [1.0] + [0] * 4000, 1.0) < 1e-300

    @pytest.mark.parametrize("steps", [10**5, 10**6])
    def test_long_runs_neither_vanish_nor_overflow(self, steps):
        limit = 0.1 * math.sqrt(1.99 / 0.01)
        assert master_mu(0.99, np.full(steps, 0.1), 1.0) == pytest.approx(limit, rel=1e-9)
        grown = master_mu(1.01, np.full(steps, 0.1), 1.0)
        assert grown == pytest.approx(0.1 * math.sqrt(steps), rel=1e-9)

    def test_contractions_far_below_every_float_still_count(self):
        # The noise falls faster than the contractions: every step stands for itself.
        steps = 50_000
        noise = np.exp(690 - 1380 / steps * np.arange(steps))
        mu = master_mu(math.exp(-1300 / steps), noise, noise)
        assert mu == pytest.approx(math.sqrt(steps), rel=1e-9)

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ((-0.1, 1.0, 1.0), r"contractions=-0\.1 >= 0 and finite"),
            ((1.0, [1.0, math.nan], 1.0), "shifts=nan >= 0 and finite"),
            ((1.0, 1.0, math.inf), "noises=inf >= 0 and finite"),
            ((1.0, [1, 2], [1, 2, 3]), r"steps=\[2, 3\] to agree"),
            ((1.0, [[1, 2]], 1.0), "shifts=.* to be one list of numbers"),
            (("x", 1.0, 1.0), "contractions=x to be numbers"),
            ((1.0, 1.0, 1.0, -1.0), "initial_distance=-1.0 >= 0"),
        ],
    )
    def test_refuses_what_is_no_iteration(self, arguments, sentence):
        with pytest.raises(InvalidArgument, match=f"^Expected {sentence}"):
            master_mu(*arguments)


class TestCyclicClosedForms:
    @given(
        contractions.map(lambda c: min(c, 1.0)),
        st.lists(shifts, min_size=1, max_size=5),
        noises,
        st.integers(0, 23),
        st.one_of(st.just(math.inf), st.floats(0.01, 3)),
    )
    def test_closed_forms_are_the_master_bound(self, c, a, s, steps, diameter):
        mus = cyclic_mus(c, np.array(a), s, steps, diameter)
        for position, shift in enumerate(a):
            series = np.zeros(steps)
            series[position :: len(a)] = shift
            expected = domain_mu(c, series, s, diameter)
            assert mus[position] == pytest.approx(expected, rel=1e-7, abs=1e-100)

    def test_expanding_maps_take_the_general_way(self):
        mus = cyclic_mus(1.2, np.array([0.5, 0.5]), 1.0, 6, 1.0)
        expected = [domain_mu(1.2, [0.5, 0, 0.5, 0, 0.5, 0], 1.0, 1.0)]
        expected.append(domain_mu(1.2, [0, 0.5, 0, 0.5, 0, 0.5], 1.0, 1.0))
        assert mus == pytest.approx(expected)


class TestDomain:
    @settings(max_examples=40)
    @given(steps_of(), st.floats(0.05, 3), st.sampled_from([0.0, 0.3]))
    def test_is_the_best_start_and_never_worse_than_none(self, rows, diameter, start):
        mu = domain_mu(*rows, diameter, start)
        tails = [master_mu(*rows[:, k:], diameter) for k in range(rows.shape[1])]
        assert mu == pytest.approx(min([*tails, master_mu(*rows, min(start, diameter))]))
        assert mu <= master_mu(*rows, start) * (1 + 1e-9)

    def test_long_runs_try_few_starts_and_lose_little(self):
        steps, rng = 3000, np.random.default_rng(0)
        c, a, s = rng.uniform(0.98, 1, steps), rng.uniform(0, 0.1, steps), rng.uniform(1, 2, steps)
        every = min(master_mu(c[-k:], a[-k:], s[-k:], 0.3) for k in range(1, 400))
        assert every <= domain_mu(c, a, s, 0.3) <= 1.01 * every

    def test_steps_do_not_count_for_ever(self):
        one_batch = np.array([0.01])
        mus = [float(cyclic_mus(1.0, one_batch, 0.1, n, 1.0)[0]) for n in (10, 100, 1000, 10**6)]
        assert mus == sorted(mus)
        assert mus[-1] == pytest.approx(2.0)
