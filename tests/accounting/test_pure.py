"""Laws with bounded losses: against sums and integrals of their densities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.accounting.pld.pure import DiscreteLoss, LaplaceLoss
from sordino.accounting.profile import LossProfile
from sordino.privacy import Relation

WAYS = ("forward", "backward")
SIZES = st.floats(-2, 1).map(lambda power: 10.0**power)
RATES = st.sampled_from([1.0, 0.3, 1e-3])


def laplace(size, rate):
    """Losses and both worlds' masses of narrow stretches of the line: P, Q."""
    edges = np.concatenate([[-np.inf], np.linspace(0, size, 100_001), [np.inf]])

    def masses(mean):
        low, high = edges[:-1] - mean, edges[1:] - mean
        below = np.where(high <= 0, np.exp(np.minimum(high, 0)) - np.exp(np.minimum(low, 0)), 0)
        return (below + np.where(low >= 0, np.exp(-low) - np.exp(-high), 0)) / 2

    shifted, still = masses(size), masses(0.0)
    return (1 - rate) * still + rate * shifted, still


@given(size=SIZES, rate=RATES, share=st.floats(0, 0.95))
@settings(max_examples=30)
def test_laplace_is_what_its_density_says(size, rate, share):
    law = LaplaceLoss(size, rate)
    worlds = laplace(size, rate)
    for way, (drawn, other) in zip(WAYS, (worlds, worlds[::-1]), strict=True):
        top = law.largest(way)
        with np.errstate(divide="ignore"):
            assert top == pytest.approx(np.log(drawn / other).max(), rel=1e-4)
        # Stretches of 1e-5 of the line are told as one: that can only hide, by a little. The
        # referee's masses are rounded at 1e-16 each.
        exact = np.maximum(drawn - math.exp(share * top) * other, 0).sum()
        found = math.exp(law.log_delta(share * top, way))
        assert exact - 1e-14 <= found <= exact * (1 + 1e-3) + 1e-14
        assert law.log_delta(top, way) == law.log_delta(1e9, way) == -math.inf
        for theta in (0.5, 7.0):
            moment = np.log1p((drawn * np.expm1(theta * np.log(drawn / other))).sum())
            (known,) = law.log_moments(np.array([theta]), way)
            # Small moments of the referee have a rounding of 1e-12. The law's grid, 2,000 points
            # between its ends, adds at most a quarter of the square of its spacing to the variance.
            low, high = law.reach(0.0, way)
            added = theta * (1 + theta) / 2 * ((high - low) / 2_000) ** 2 / 4
            assert moment - 1e-12 <= known <= moment * (1 + 1e-4) + added + 1e-12
        here, there = law.masses(np.linspace(-top, top, 33), way)
        assert here.sum() == pytest.approx(1) == there.sum()
        assert here.min() >= 0


@given(size=SIZES, parts=st.integers(2, 5), share=st.floats(0, 0.95), seed=st.integers(0, 999))
@settings(max_examples=20)
def test_a_shift_of_one_coordinate_tells_most(size, parts, share, seed):
    """Several coordinates, in a Monte Carlo: never above one that has the whole shift."""
    generator = np.random.default_rng(seed)
    shifts = size * generator.dirichlet(np.ones(parts))
    drawn = generator.laplace(size=(20_000, parts))
    losses = (np.abs(drawn + shifts) - np.abs(drawn)).sum(axis=1)  # of Lap(-shift) over Lap(0)
    gains = -np.expm1(np.minimum(share * size - losses, 0))
    error = gains.std() / math.sqrt(len(gains))
    bound = math.exp(LaplaceLoss(size).log_delta(share * size, "forward"))
    assert gains.mean() <= bound + 5 * error


@pytest.mark.parametrize("rate", [1.0, 0.1])
@pytest.mark.parametrize("steps", [3, 40])
def test_composed_laplace_is_never_below_a_certified_lower_bound(rate, steps):
    law = LaplaceLoss(0.7, rate)
    profile = LossProfile(
        components=((law, steps),), relation=Relation.ADD_OR_REMOVE_ONE, theorem="test"
    )
    for delta in (1e-3, 1e-8):
        lower, upper = profile.bracket(delta)
        assert lower <= upper <= profile.epsilon(delta) <= law.largest("forward") * steps + 1e-9
        assert profile.fallbacks(delta) == ()


@given(
    chances=st.lists(st.floats(0.01, 1), min_size=2, max_size=6),
    others=st.lists(st.floats(0.01, 1), min_size=6, max_size=6),
    epsilon=st.floats(0, 3),
)
def test_discrete_laws_are_sums(chances, others, epsilon):
    p = np.array(chances) / sum(chances)
    q = np.array(others[: len(p)]) / sum(others[: len(p)])
    law = DiscreteLoss(tuple(np.log(p / q)), tuple(p))
    for way, drawn, other in (("forward", p, q), ("backward", q, p)):
        exact = np.maximum(drawn - math.exp(epsilon) * other, 0).sum()
        assert math.exp(law.log_delta(epsilon, way)) == pytest.approx(exact, abs=1e-15)
        moments = [math.log((drawn * (drawn / other) ** theta).sum()) for theta in (0.5, 3.0)]
        found = law.log_moments(np.array([0.5, 3.0]), way)
        assert found == pytest.approx(moments, abs=1e-12)
        edges = np.array([-1.0, 0.0, 1.0])
        here, there = law.masses(edges, way)
        places = np.searchsorted(edges, np.log(drawn / other))
        for place in range(4):
            assert here[place] == pytest.approx(drawn[places == place].sum())
            assert there[place] == pytest.approx(other[places == place].sum())
