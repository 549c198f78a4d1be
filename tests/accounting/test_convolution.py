"""The tilted convolution against independent truths: above every one of them, and close.

The exact Gaussian, quadrature of two steps, optimal composition of pure releases, and
dp-accounting's own distributions; a certified lower bound is in test_lower_bound.py.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import HOW
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution

from sordino.accounting import gaussian
from sordino.accounting.dp_sgd import pld, rdp
from sordino.accounting.pld.aim import Rough, TooLarge
from sordino.accounting.pld.convolution import Composed, Limit, LossGrid, discretise
from sordino.accounting.pld.curve import DeltaCurve
from sordino.accounting.pld.loss import (
    DIRECTIONS,
    ApproximateLoss,
    FixedSizeLoss,
    GaussianLoss,
    PoissonLoss,
    PoissonReplaceLoss,
)
from sordino.accounting.profile import LossProfile
from sordino.privacy import Relation

# The grid aims at 2e-5 of epsilon, at 1e-4 where that is costly; the rest is for the judges' own.
TIGHT = 2e-4


def profile_of(*components, **settings):
    return LossProfile(
        components=components, relation=Relation.ADD_OR_REMOVE_ONE, theorem="a test", **settings
    )


# ------------------------------------------------------------- the exact Gaussian


@pytest.mark.parametrize(
    ("steps", "mu"), [(2, 2.0), (3, 0.01), (10, 0.3), (1000, 0.05), (10**6, 0.01)]
)
def test_gaussians_convolve_to_the_exact_gaussian(steps, mu):
    # As two laws, so that it is a convolution, not the formula; 1e-11 and above is not checked
    # against the moments accountant.
    profile = profile_of((PoissonLoss(1.0, 1 / mu), steps - 1), (GaussianLoss((mu,)), 1))
    whole = mu * math.sqrt(steps)
    for delta in (0.1, 1e-5, 1e-11, 1e-30):
        exact = gaussian.epsilon(whole, delta)
        got = profile.epsilon(delta)
        # 1e-4 relative, or of the least epsilon the grid is made for: law 5.
        assert exact * (1 - 1e-12) <= got <= exact + 1e-4 * max(exact, 0.01)
    for epsilon in (0.0, whole, 4 * whole):
        exact = gaussian.log_delta(epsilon, whole)
        got = profile.log_delta(epsilon)
        # 1e-4 of epsilon is this much of ln delta, whose slope is at most epsilon / mu^2 + 1; a
        # grid serves epsilons of 2.5 deviations around the one that it was made for.
        slack = 1e-4 * max(epsilon + 2.5 * whole, 0.01) * (epsilon / whole**2 + 1 + 1 / whole)
        assert exact - 1e-9 <= got <= exact + slack
    for delta in (0.1, 1e-5, 1e-11, 1e-30):
        assert profile.fallbacks(delta) == ()


# ------------------------------------------------------------- two steps, exactly


def two_step_delta(law, direction, epsilon):
    """E_{x ~ P} delta_1(epsilon - loss(x)) by quadrature, delta_1 being one step's closed form."""
    nodes, weights = np.polynomial.legendre.leggauss(30)
    z = law.noise_multiplier
    edges = np.linspace(-1 - 9 * z, 2 + 9 * z, 121)
    half = (edges[1] - edges[0]) / 2
    x = (edges[:-1, None] + half * (1 + nodes)).ravel()
    means, shares = law.worlds[direction == "backward"]
    density = sum(
        share * np.exp(-((x - mean) ** 2) / (2 * z * z))
        for mean, share in zip(means, shares, strict=True)
    ) / (z * math.sqrt(2 * math.pi))
    sign, other = (1, "backward") if direction == "forward" else (-1, "forward")

    def one_step(e):
        if e >= 0:
            return math.exp(law.log_delta(e, direction))
        return -math.expm1(e) + math.exp(e + law.log_delta(-e, other))

    values = np.array([one_step(epsilon - sign * loss) for loss in law.at(x)])
    return float(np.sum(np.tile(half * weights, 120) * density * values))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", [PoissonLoss, PoissonReplaceLoss])
@pytest.mark.parametrize(("q", "z"), [(0.3, 1.0), (0.004545, 1.326), (1e-3, 0.6)])
def test_two_steps_are_exact(kind, q, z, direction):
    law = kind(q, z)
    profile = profile_of((law, 2))
    for delta in (1e-4, 1e-7):
        epsilon = profile.epsilon(delta, direction)
        if epsilon == 0 or epsilon >= 2 * law.largest(direction) * 0.999:
            continue
        true = two_step_delta(law, direction, epsilon)
        # 1e-9 for the quadrature, which ends at 9 deviations; beyond it the bound were false.
        assert true <= delta * (1 + 1e-9)
        # Not loose either: a little lower delta is already too large. 8e-5 is four times the
        # coarsest precision at the least epsilon that grids are made for.
        lower = max(epsilon - max(3e-4 * epsilon, 8e-5), 0.0)
        assert two_step_delta(law, direction, lower) >= delta


# ------------------------------------------------------------- dp-accounting


@pytest.mark.parametrize(
    ("kind", "q", "z", "steps", "delta"),
    [
        ("add-remove", 0.01, 1.0, 1000, 1e-5),
        ("add-remove", 0.001, 1.2, 300, 1e-5),
        ("add-remove", 0.5, 2.0, 20, 1e-4),
        ("add-remove", 1e-4, 0.8, 5000, 1e-8),
        ("replace", 0.01, 1.0, 300, 1e-5),
        ("replace", 1.7e-4, 1.87, 174, 9e-5),
        ("replace", 1.03e-4, 0.84, 1096, 1.85e-8),
        ("replace", 1.07e-3, 1.0, 10, 1.27e-3),
    ],
)
def test_agrees_with_dp_accounting(kind, q, z, steps, delta):
    relation = (
        NeighboringRelation.ADD_OR_REMOVE_ONE
        if kind == "add-remove"
        else NeighboringRelation.REPLACE_ONE
    )

    def theirs(spacing, pessimistic):
        law = privacy_loss_distribution.from_gaussian_mechanism(
            z,
            sampling_prob=q,
            value_discretization_interval=spacing,
            neighboring_relation=relation,
            pessimistic_estimate=pessimistic,
        )
        return law.self_compose(steps).get_epsilon_for_delta(delta)

    ours = pld(z, q, steps, **HOW[kind]).epsilon(delta)
    assert ours >= theirs(1e-4, pessimistic=False)
    assert ours <= theirs(1e-4, pessimistic=True) * 1.005


# ------------------------------------------------------------- the grid


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "law",
    [
        PoissonLoss(0.1, 1.0),
        PoissonReplaceLoss(0.3, 2.0),
        FixedSizeLoss(0.2, 3.0),
        GaussianLoss((0.7,)),
    ],
    ids=str,
)
def test_one_step_s_grid_lies_on_the_chords(law, direction):
    grid = discretise(law, 0.01, -60.0, direction, 10**6)
    assert isinstance(grid, LossGrid)
    assert math.fsum(grid.mass) + grid.infinite == pytest.approx(1, abs=1e-12)
    # Both worlds are kept: E e^-loss is the other world's probability of a finite loss.
    assert np.sum(grid.mass * np.exp(-grid.losses)) == pytest.approx(1, abs=1e-9)
    for index in (0, 3, 40, 100):
        for part in (0.0, 0.37):
            epsilon = 0.01 * (index + part)
            above = grid.losses > epsilon
            got = grid.infinite + grid.mass[above] @ -np.expm1(epsilon - grid.losses[above])
            exact = math.exp(law.log_delta(epsilon, direction))
            assert exact <= got * (1 + 1e-9) + 1e-14
            # Equal at the grid points; between them off by spacing^2 / 8 times a density of 10.
            assert got <= exact + (1e-12 if part == 0 else 0.01**2 / 8 * 10)


def test_a_grid_or_window_beyond_the_limit_is_refused():
    law = PoissonLoss(0.1, 1.0)
    with pytest.raises(TooLarge, match="one step"):
        discretise(law, 1e-6, -60.0, "forward", 1000)
    rough = Rough.of([(law, 100)], "forward")
    grid = discretise(law, 1e-3, -60.0, "forward", 10**6)
    with pytest.raises(TooLarge, match="window"):
        Composed([(grid, 100)], rough, rough.saddle(1.0), 0.0, 1000)


def test_a_limit_is_points():
    assert Limit(megabytes=8e-3, seconds=5.0).points == 100
    assert Limit(megabytes=1e6, seconds=6e-5).points == 100


@pytest.mark.parametrize("kind", HOW)
def test_a_tiny_limit_falls_back_and_says_so(kind):
    free = pld(1.0, 0.01, 500, **HOW[kind])
    bound = pld(1.0, 0.01, 500, **HOW[kind], limit=Limit(megabytes=0.01))
    assert bound.epsilon(1e-5) >= free.epsilon(1e-5)
    assert bound.delta(1.0) >= free.delta(1.0)
    moments = rdp(1.0, 0.01, 500, **HOW[kind])
    # The moments accountant's, or a little less, by an order that is not on its list.
    assert 0.999 <= bound.epsilon(1e-5) / moments.epsilon(1e-5) <= 1 + 2e-9
    notes = bound.fallbacks(1e-5)
    assert notes
    assert all(note.startswith("fallback: the moments accountant") for note in notes)
    assert free.fallbacks(1e-5) == ()


@pytest.mark.parametrize(("q", "z", "steps"), [(0.01, 1.0, 1000), (0.3, 3.0, 30), (1e-4, 0.7, 300)])
def test_deep_deltas_lie_between_one_step_and_the_moments_accountant(q, z, steps):
    profile, moments = pld(z, q, steps, **HOW["add-remove"]), rdp(z, q, steps, **HOW["add-remove"])
    one = pld(z, q, 1, **HOW["add-remove"])
    before = 0.0
    for log10 in (-10, -12, -20, -50, -100, -200):
        delta = 10.0**log10
        epsilon = profile.epsilon(delta)
        assert one.epsilon(delta) * (1 - 1e-8) <= epsilon <= moments.epsilon(delta) * (1 + 1e-9)
        assert epsilon > before
        before = epsilon
        # And back, where the grid of the way back is another: 2e-3 at most.
        assert profile.log_delta(epsilon * 1.002) <= math.log(delta)


def test_a_convolved_number_below_one_step_s_is_replaced(monkeypatch):
    curve = DeltaCurve([(PoissonLoss(0.01, 1.0), 10)], "forward", Limit())
    monkeypatch.setattr(Composed, "log_delta", lambda self, epsilon: -400.0)
    monkeypatch.setattr(Composed, "log_noise", lambda self, epsilon: -400.0)
    moments = rdp(1.0, 0.01, 10, **HOW["add-remove"]).epsilon(1e-20)
    epsilon = curve.epsilon(math.log(1e-20))
    assert 0.999 <= epsilon / moments <= 1 + 2e-9
    assert "below that of a single step" in curve.fallback(epsilon)
    assert curve.log_delta(0.5) > -400


# ------------------------------------------------------------- other laws


def test_pure_releases_compose_by_the_optimal_theorem():
    # docs/math.md 2.4: k-fold randomised response, exactly.
    step, steps = 0.1, 30
    profile = profile_of((ApproximateLoss(step, 0.0), steps))
    for flips in range(1, 8):
        epsilon = (steps - 2 * flips) * step
        exact = (
            sum(
                math.comb(steps, lost)
                * (math.exp((steps - lost) * step) - math.exp(epsilon + lost * step))
                for lost in range(flips)
            )
            / (1 + math.exp(step)) ** steps
        )
        assert profile.delta(epsilon) >= exact * (1 - 1e-9)
        # Atoms between grid points: their chords cost 1e-3 of epsilon.
        assert epsilon * (1 - 1e-9) <= profile.epsilon(exact) <= epsilon * 1.001
    assert profile.epsilon(0.0) == pytest.approx(3.0, rel=1e-12)


def test_the_deltas_of_approximate_releases_add_up():
    told, steps = 1e-4, 10
    profile = profile_of((ApproximateLoss(0.2, told), steps))
    everything = -math.expm1(steps * math.log1p(-told))
    assert everything <= profile.delta(2.1) <= steps * told * (1 + 1e-9)
    assert profile.epsilon(0.5e-4) == math.inf


def test_laws_of_very_different_size_compose():
    large, small = GaussianLoss((2.0,)), PoissonLoss(1e-5, 3.0)
    alone, both = profile_of((large, 1)), profile_of((large, 1), (small, 100))
    for delta in (1e-3, 1e-8):
        exact = alone.epsilon(delta)
        # A hundred steps of mu about 3e-6 add 1e-5 at most.
        assert exact <= both.epsilon(delta) <= exact * (1 + TIGHT) + 1e-4
