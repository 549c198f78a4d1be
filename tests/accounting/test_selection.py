"""The best of several runs: against dp-accounting, and against the exact law of tiny mechanisms."""

from __future__ import annotations

import math

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy import stats
from scipy.special import logsumexp

from sordino.accounting import renyi
from sordino.accounting.dp_sgd import pld
from sordino.accounting.last_iterate.hidden_state import WithSlack
from sordino.accounting.profile import ApproximateProfile, GaussianProfile, RenyiProfile
from sordino.accounting.selection import draw_runs, rate, repeat_and_select
from sordino.accounting.zcdp import ConcentratedProfile
from sordino.errors import InvalidArgument, NotApplicable
from sordino.privacy import Relation

ADD = Relation.ADD_OR_REMOVE_ONE
NAMED = {"relation": ADD, "theorem": "a test"}
SHAPES = [math.inf, 0.0, 0.5, 1.0, 3.0]


def normal(mu):
    return GaussianProfile(parameter=mu, **NAMED)


def law_of_runs(mean, shape):
    """Numbers of runs and their probabilities, by scipy."""
    counts = np.arange(0, 4000)
    if math.isinf(shape):
        return counts, stats.poisson.pmf(counts, mean)
    if mean == 1:
        return counts, (counts == 1).astype(float)
    gamma = math.exp(-rate(mean, shape))
    if shape == 0:
        chances = stats.logser.pmf(counts, 1 - gamma) * (counts > 0)
    else:
        chances = stats.nbinom.pmf(counts, shape, gamma) * (counts > 0) / (1 - gamma**shape)
    return counts, chances


def theirs(event, mean, shape):
    accountant = RdpAccountant(renyi.ORDERS)
    accountant.compose(RepeatAndSelectDpEvent(event, mean, shape))
    return np.asarray(accountant._rdp)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [1.5, 10.0, 300.0])
class TestAgainstDpAccounting:
    def check(self, profile, event, mean, shape):
        ours = np.array(repeat_and_select([profile], mean=mean, shape=shape).values)
        other = theirs(event, mean, shape)
        # Their gamma is known to a relative 1e-9, which counts 1 + shape times.
        slack = 1e-9 * other + 1e-9 * (1 + shape if math.isfinite(shape) else 0)
        assert (ours <= other + slack).all()
        if math.isfinite(shape):
            assert (ours >= other - slack).all()
        return ours, other

    def test_gaussian(self, mean, shape):
        ours, other = self.check(normal(1 / 4), dp.GaussianDpEvent(4.0), mean, shape)
        if math.isinf(shape):  # with the exact delta instead of a converted one
            assert (ours < 0.99 * other).any()

    def test_zcdp(self, mean, shape):
        profile = ConcentratedProfile(rho=0.02, xi=0.01, **NAMED)
        self.check(profile, dp.ZCDpEvent(0.02, 0.01), mean, shape)


def divergence(p, q, order):
    return float(logsumexp(order * np.log(p) + (1 - order) * np.log(q))) / (order - 1)


def best_of(one, mean, shape):
    """Exact law of the best of K draws from `one`, outcomes in rising order; first, of none."""
    counts, chances = law_of_runs(mean, shape)
    below = np.concatenate([[0.0], np.cumsum(one)])
    at_most = np.array([float(chances @ np.minimum(b, 1.0) ** counts) for b in below])
    return np.concatenate([at_most[:1], np.diff(at_most)])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [1.0, 4.0, 40.0])
def test_the_exact_law_of_the_best_is_within_the_bound(mean, shape):
    """Randomised response over 2 and 3 outcomes, the rarest one best and worst."""
    epsilon = 0.4
    profile = ApproximateProfile(budget=(epsilon, 0.0), **NAMED)
    bound = repeat_and_select([profile], mean=mean, shape=shape)
    up = math.exp(epsilon)
    pairs = [
        (np.array([up, 1.0]) / (1 + up), np.array([1.0, up]) / (1 + up)),
        (np.array([up, 1.0, 1.0]) / (2 + up), np.array([1.0, 1.0, up]) / (2 + up)),
        # The best outcome is rare in both worlds.
        (np.array([0.99, 0.01 * up]), np.array([0.99, 0.01])),
    ]
    for pair in pairs:
        p, q = (one / one.sum() for one in pair)
        for first, second in ((p, q), (q, p)):
            here, there = (best_of(one, mean, shape) for one in (first, second))
            kept = here > 1e-300
            for order, value in zip(bound.orders[::12], bound.values[::12], strict=True):
                if order < 100:
                    found = divergence(here[kept], there[kept], order)
                    assert found <= value * (1 + 1e-9) + 1e-12, (order, mean)


def test_one_run_for_sure_costs_nothing_more():
    profile = pld(1.0, 0.05, 10, sampling="poisson", relation=ADD)
    found = repeat_and_select([profile], mean=1.0, shape=1.0)
    assert found.values == pytest.approx(profile.renyi(renyi.ORDERS), rel=1e-12)


@pytest.mark.slow
def test_what_was_asked_before_does_not_matter():
    """A certificate is checked by computing it again."""
    profiles = [pld(4.0, 0.01, 100, sampling="poisson", relation=ADD) for _ in range(2)]
    for epsilon in (9.0, 3.0, 0.5):
        profiles[1].delta(epsilon)
    first, second = (repeat_and_select([each], mean=5, shape=math.inf) for each in profiles)
    assert first.values == second.values


def test_many_candidates_cost_what_the_worst_does():
    mixed = repeat_and_select([normal(0.1), normal(0.3), normal(0.1)], mean=10, shape=1.0)
    assert mixed.values == repeat_and_select([normal(0.3)], mean=10, shape=1.0).values
    assert isinstance(mixed, RenyiProfile)
    assert mixed.relation is ADD
    assert "Papernot & Steinke 2022, Theorem 2" in mixed.theorem
    assert "3 candidates" in mixed.notes[-1]
    # Far below running ten times.
    assert mixed.epsilon(1e-6) < 0.8 * normal(0.3 * 10).epsilon(1e-6)


def test_what_is_refused():
    slack = WithSlack(base=normal(0.1), slack=1e-9, **NAMED)
    for wrong in (slack, ApproximateProfile(budget=(0.1, 1e-9), **NAMED)):
        with pytest.raises(NotApplicable, match=r"Renyi DP.*choose candidates"):
            repeat_and_select([normal(0.1), wrong], mean=3, shape=1.0)
    other = GaussianProfile(parameter=0.1, relation=Relation.REPLACE_ONE, theorem="a test")
    for profiles, mean, shape in (
        ([], 3.0, 1.0),
        ([normal(0.1), other], 3.0, 1.0),
        ([normal(0.1)], 0.9, 1.0),
        ([normal(0.1)], math.inf, 1.0),
        ([normal(0.1)], 3.0, -0.5),
        ([normal(0.1)], 3.0, math.nan),
    ):
        with pytest.raises(InvalidArgument):
            repeat_and_select(profiles, mean=mean, shape=shape)
    with pytest.raises(InvalidArgument, match="uniform"):
        draw_runs(3.0, 1.0, lambda: 1.0)


def test_a_release_that_hides_nothing_still_does():
    assert repeat_and_select([normal(math.inf)], mean=3, shape=math.inf).epsilon(1e-6) == math.inf


class TestDraw:
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("mean", [1.3, 12.0])
    def test_the_law(self, mean, shape):
        random = np.random.default_rng(20260101)
        drawn = np.array([draw_runs(mean, shape, random.random) for _ in range(5_000)])
        counts, chances = law_of_runs(mean, shape)
        expected = len(drawn) * chances
        seen = np.bincount(drawn, minlength=len(counts))
        rare = expected < 10
        expected = np.append(expected[~rare], expected[rare].sum())
        seen = np.append(seen[~rare], seen[rare].sum())
        kept = expected > 0
        # A fixed seed: it either passes always or never; 1e-4 would be a rare bad seed.
        found = stats.chisquare(seen[kept], expected[kept] * (seen.sum() / expected.sum()))
        assert found.pvalue > 1e-4
        assert seen[~kept].sum() == 0

    @pytest.mark.parametrize("shape", SHAPES)
    def test_inversion_is_the_quantile_function(self, shape):
        counts, chances = law_of_runs(7.0, shape)
        sums = np.cumsum(chances)
        for uniform in (0.0, 1e-12, 0.2, 0.5, 0.9, 1 - 1e-9):
            expected = counts[np.searchsorted(sums, uniform, side="right")]
            assert draw_runs(7.0, shape, lambda u=uniform: u) == expected

    @pytest.mark.parametrize("shape", SHAPES)
    def test_extremes(self, shape):
        assert draw_runs(5.0, shape, lambda: 1 - 2**-53) > 5
        assert draw_runs(1.0, shape, lambda: 0.99) == (1 if math.isfinite(shape) else 4)

    def test_large_means(self):
        random = np.random.default_rng(3)
        drawn = [draw_runs(3000.0, math.inf, random.random) for _ in range(200)]
        # The mean of 200 has a deviation of sqrt(3000 / 200) = 3.9.
        assert abs(np.mean(drawn) - 3000) < 20
        assert abs(draw_runs(3000.0, 2000.0, lambda: 0.5) - 3000) < 5

    @pytest.mark.parametrize("shape", SHAPES[1:])
    @pytest.mark.parametrize("mean", [1.0001, 3.0, 1000.0])
    def test_the_mean_is_met(self, mean, shape):
        gamma = math.exp(-rate(mean, shape))
        if shape == 0:
            found = (1 - 1 / gamma) / math.log(gamma)
        else:
            found = shape * (1 - gamma) / (gamma * (1 - gamma**shape))
        # The textbook forms lose digits as gamma goes to 1.
        assert found == pytest.approx(mean, rel=1e-10)
