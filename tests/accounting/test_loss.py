"""Laws of one step's privacy loss: golden deltas, exact tails, and masses that fit the deltas."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.accounting import gaussian
from sordino.accounting.pld.loss import (
    DIRECTIONS,
    ApproximateLoss,
    FixedSizeLoss,
    GaussianLoss,
    PoissonLoss,
    PoissonReplaceLoss,
    amplified,
    base,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "accounting_1_2.json").read_text())[
    "2_dpsgd"
]
rates = st.floats(-6, 0).map(lambda power: 10.0**power)
noises = st.floats(-0.7, 2).map(lambda power: 10.0**power)
SAMPLED = (PoissonLoss, PoissonReplaceLoss, FixedSizeLoss)
every_kind = pytest.mark.parametrize("kind", SAMPLED)

# Logarithms of normal tails and one difference of two of them: a dozen roundings.
ROUNDING = 1e-11


def cases(name):
    entry = GOLDEN[name]
    return [pytest.param(case, entry["tol"]["rel"], id=str(case)) for case in entry["cases"]]


def all_laws():
    sampled = [kind(q, z) for kind in SAMPLED for q in (1e-3, 0.3, 1.0) for z in (0.6, 3.0)]
    gaussians = [GaussianLoss((1.3,)), GaussianLoss((0.0, 0.5, 2.0), (0.2, 0.5, 0.3))]
    return [*sampled, *gaussians, ApproximateLoss(0.7, 0.0), ApproximateLoss(0.7, 1e-3)]


every_law = pytest.mark.parametrize("law", all_laws(), ids=str)
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)


def exact_delta(epsilon, rate, means, noise, direction):
    """Hockey-stick divergence of two mixtures (1-q) N(0) + q N(mean), with 40 digits.

    Where one density first exceeds e^epsilon times the other is found by halving; beyond it are
    four tails of normals.
    """
    drawn, other = means if direction == "forward" else means[::-1]
    with mpmath.workdps(40):
        q, grown = mpmath.mpf(rate), mpmath.exp(epsilon)

        def density(x, mean):
            return (1 - q) * mpmath.npdf(x, 0, noise) + q * mpmath.npdf(x, mean, noise)

        def excess(x):
            return density(x, drawn) - grown * density(x, other)

        low, high = mpmath.mpf(-2) - 14 * noise, mpmath.mpf(2) + 14 * noise
        rising = excess(high) > 0
        if (excess(low) > 0) == rising:
            return 0.0
        for _ in range(110):
            middle = (low + high) / 2
            low, high = (low, middle) if (excess(middle) > 0) == rising else (middle, high)

        def tail(mean):
            def beyond(centre):
                out = (low - centre) / (noise * mpmath.sqrt(2))
                return mpmath.erfc(out if rising else -out) / 2

            return (1 - q) * beyond(0) + q * beyond(mean)

        return float(tail(drawn) - grown * tail(other))


@pytest.mark.parametrize(("case", "rel"), cases("poisson_single_step"))
def test_poisson_golden(case, rel):
    law = PoissonLoss(case["q"], case["z"])
    forward, backward = (math.exp(law.log_delta(case["eps"], way)) for way in DIRECTIONS)
    assert forward == pytest.approx(case["delta_remove"], rel=rel)
    assert backward == pytest.approx(case["delta_add"], rel=rel, abs=0)


@pytest.mark.parametrize(("case", "rel"), cases("replace_single_step"))
def test_replace_golden(case, rel):
    poisson = PoissonReplaceLoss(case["q"], case["z"])
    fixed = FixedSizeLoss(case["q"], case["z"])
    for way in DIRECTIONS:
        got = math.exp(poisson.log_delta(case["eps"], way))
        assert got == pytest.approx(case["delta_poisson_replace"], rel=rel)
        got = math.exp(fixed.log_delta(case["eps"], way))
        assert got == pytest.approx(case["delta_wor_replace_bound"], rel=rel)


@every_direction
@pytest.mark.parametrize(("q", "z"), [(0.3, 0.8), (0.01, 2.0), (1e-8, 1.0), (0.9, 20.0)])
def test_poisson_deltas_are_the_definition_s(q, z, direction):
    for epsilon in (0.0, 0.4 * q, 0.1):
        for law, lower in ((PoissonLoss(q, z), 0), (PoissonReplaceLoss(q, z), -1)):
            true = exact_delta(epsilon, q, (1, lower), z, direction)
            got = math.exp(law.log_delta(epsilon, direction))
            # Where they cross is sought within 14 deviations, beyond which lies less than 1e-40.
            assert got == pytest.approx(true, rel=ROUNDING, abs=1e-40)


@every_direction
@every_law
def test_masses_are_two_laws_whose_curve_is_the_delta(law, direction):
    edges = np.linspace(-12, 12, 48001)
    drawn, other = law.masses(edges, direction)
    for masses in (drawn, other):
        assert (masses >= 0).all()
        assert math.fsum(masses) == pytest.approx(1, abs=1e-12)
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        # Buckets beyond the grid point epsilon: exact, because the loss is above it in them all.
        after = np.searchsorted(edges, epsilon - 1e-9) + 1
        got = math.fsum(drawn[after:]) - math.exp(epsilon) * math.fsum(other[after:])
        # Sums of masses, each a difference of tails of size 1, times e^epsilon.
        assert got == pytest.approx(math.exp(law.log_delta(epsilon, direction)), abs=1e-12)


@every_direction
@every_law
def test_each_bucket_s_mean_loss_lies_in_it(law, direction):
    edges = np.linspace(-3, 3, 601)
    drawn, other = law.masses(edges, direction)
    solid = (drawn[1:-1] > 1e-9) & (other[1:-1] > 1e-9)
    ratio = np.log(drawn[1:-1][solid] / other[1:-1][solid])
    # Masses of 1e-9 as differences of tails of size 1 have seven digits.
    assert (ratio >= edges[:-1][solid] - 1e-6).all()
    assert (ratio <= edges[1:][solid] + 1e-6).all()


@every_direction
@every_law
def test_directions_are_each_other_s_mirror(law, direction):
    # E_{e^eps}(P||Q) = 1 - e^eps + e^eps E_{e^-eps}(Q||P), read off the masses at 0.
    edges = np.array([0.0])
    drawn, other = law.masses(edges, direction)
    reverse = "backward" if direction == "forward" else "forward"
    back_drawn, back_other = law.masses(edges, reverse)
    here = drawn[1] - other[1]
    there = back_drawn[1] - back_other[1]
    assert here == pytest.approx(there, abs=1e-12)
    if law.symmetric:
        assert drawn == pytest.approx(back_drawn, abs=1e-14)


@every_direction
@every_law
@pytest.mark.parametrize("log_tail", [-2.0, -20.0, -300.0])
def test_reach_leaves_out_no_more_than_the_tail(law, direction, log_tail):
    low, high = law.reach(log_tail, direction)
    edges = np.array([np.nextafter(low, -np.inf), high])
    drawn, _ = law.masses(edges, direction)
    told = law.delta if isinstance(law, ApproximateLoss) else 0.0  # at infinity, beyond any reach
    limit = math.exp(log_tail) * (1 + 1e-9)
    assert drawn[0] <= limit
    assert drawn[-1] <= limit + told


@every_kind
@given(rate=rates, noise=noises, epsilon=st.floats(0, 5))
@settings(max_examples=40, deadline=None)
def test_sampling_lies_between_nothing_and_everything(kind, rate, noise, epsilon):
    law = kind(rate, noise)
    mu = (1 if kind is PoissonLoss else 2) / noise
    for way in DIRECTIONS:
        value = law.log_delta(epsilon, way)
        assert not math.isnan(value)
        whole = gaussian.log_delta(epsilon, mu)
        # Never above the whole batch's, nor above the chance to be in it at all. Where the two
        # tails all but cancel, what is added for rounding shows: 1e-15 of a log in the thousands.
        assert value <= whole + 1e-10 * max(1.0, abs(whole))
        assert value <= math.log(rate) + 1e-9
        assert value <= law.log_delta(epsilon / 2, way) + 1e-12


@every_kind
@every_direction
def test_every_record_in_every_batch_is_the_gaussian_mechanism(kind, direction):
    law, mu = kind(1.0, 1.7), (1 if kind is PoissonLoss else 2) / 1.7
    plain = GaussianLoss((mu,))
    edges = np.linspace(-4, 6, 101)
    for ours, theirs in zip(
        law.masses(edges, direction), plain.masses(edges, direction), strict=True
    ):
        assert ours == pytest.approx(theirs, abs=1e-14)
    thetas = np.array([0.01, 1.0, 7.5])
    ours, theirs = law.log_moments(thetas, direction), plain.log_moments(thetas, direction)
    assert ours == pytest.approx(theirs, rel=1e-10)
    for epsilon in (0.0, 1.0, 6.0):
        # PoissonReplaceLoss takes a difference of logs of tails.
        assert law.log_delta(epsilon, direction) == pytest.approx(
            plain.log_delta(epsilon, direction), rel=1e-10
        )


def test_losses_have_a_bound_only_where_they_do():
    assert PoissonLoss(0.25, 1.0).largest("backward") == pytest.approx(math.log(4 / 3), rel=1e-15)
    assert PoissonLoss(0.25, 1.0).largest("forward") == math.inf
    assert PoissonLoss(1.0, 1.0).largest("backward") == math.inf
    assert ApproximateLoss(0.5, 0.0).largest("forward") == 0.5
    assert ApproximateLoss(0.5, 1e-9).largest("forward") == math.inf
    assert GaussianLoss((0.0,)).largest("forward") == 0.0
    edge = PoissonLoss(0.25, 1.0).largest("backward")
    assert PoissonLoss(0.25, 1.0).log_delta(edge, "backward") == -math.inf
    assert PoissonLoss(0.25, 1.0).log_delta(0.9 * edge, "backward") > -math.inf


@given(loss=st.floats(-2, 600), rate=st.floats(-12, 0).map(lambda power: 10.0**power))
def test_base_inverts_amplified(loss, rate):
    outer = amplified(np.array([loss]), rate)
    # Near ln(1 - q) the loss is nearly flat: a rounded outer loss is q e^loss digits short.
    slack = 1e-13 * max(1.0, abs(loss), 1 / (rate * math.exp(min(loss, 0)) + 1e-300) * 1e-3)
    if abs(float(outer[0])) > 1e-11:
        assert float(base(outer, rate)[0]) == pytest.approx(loss, abs=max(slack, 1e-9))


@pytest.mark.parametrize("noise", [0.02, 0.0326, 0.05, 1.0, 1e4])
@pytest.mark.parametrize("rate", [1e-8, 0.01, 1 - 1e-12])
def test_positions_are_where_the_loss_is_so(rate, noise):
    law = PoissonReplaceLoss(rate, noise)
    x = np.array([-2.0, -1.0, -0.3, -1e-4, 0.0, 1e-4, 0.3, 1.0, 2.0])
    losses = law.at(x)
    found = law.position(losses)
    assert np.isfinite(found).all()
    # The position may be anywhere the loss is the same to 15 digits.
    assert law.at(found) == pytest.approx(losses, rel=1e-9, abs=1e-12 * rate)
