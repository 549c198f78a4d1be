"""What an audit could show: golden ceilings, consistency, and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from sordino.accounting import gaussian
from sordino.audit import bounds, game
from sordino.audit.band import GaussianFamily, band
from sordino.audit.game import ceiling, reach, runs_needed
from sordino.errors import InvalidArgument


@pytest.mark.parametrize(("runs", "shown"), [(1000, 5.6006), (5000, 7.2115), (10_000, 7.9048)])
def test_golden_ceilings(runs, shown):
    assert ceiling(runs, delta=0, confidence=0.95) == pytest.approx(shown, abs=5e-5)


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_the_ceiling_is_a_test_without_errors(delta):
    for runs in (1, 5, 6, 100):
        perfect = bounds.from_counts(0, runs, 0, runs, delta=delta, confidence=0.95)
        assert ceiling(runs, delta=delta, confidence=0.95) == pytest.approx(perfect.epsilon)
        assert reach(math.inf, runs=runs, delta=delta, confidence=0.95) == ceiling(
            runs, delta=delta, confidence=0.95
        )
    assert ceiling(1, delta=delta, confidence=0.95) == 0.0


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.01])
def test_reach_lies_below_the_truth_and_the_ceiling(delta):
    for runs in (10, 1000, 10**6):
        stated = {"runs": runs, "delta": delta, "confidence": 0.95}
        shown = [reach(epsilon, **stated) for epsilon in (0, 0.1, 1, 3, 8, 40, 1000)]
        assert shown == sorted(shown)
        assert shown[0] == 0.0
        for epsilon, value in zip((0, 0.1, 1, 3, 8, 40, 1000), shown, strict=True):
            assert value <= epsilon
            assert value <= ceiling(**stated)
        # Beyond all doubt: no error is expected.
        assert shown[-1] == pytest.approx(ceiling(**stated), rel=1e-4)


def test_reach_goes_to_the_truth():
    """What the bound converges to with the runs is the mechanism's epsilon itself."""
    for delta in (0.0, 1e-3):
        stated = {"delta": delta, "confidence": 0.99}
        shown = [reach(1.5, runs=runs, **stated) for runs in (100, 10**4, 10**7, 10**10)]
        assert shown == sorted(shown)
        assert 0.99 * 1.5 < shown[-1] < 1.5


def test_the_best_threshold_is_found():
    """Against a fine grid over all thresholds, in both directions."""
    for epsilon, runs, delta in ((0.5, 3000, 1e-5), (4.0, 500, 1e-5), (2.0, 10**5, 0.05)):
        mu = 1 / gaussian.sigma(epsilon, delta)
        grid = np.linspace(-8, mu + 8, 8_001)
        rates = [bounds.upper(runs * rate, runs, 0.025) for rate in (ndtr(-grid), ndtr(grid - mu))]
        best = max(0.0, np.max(bounds.epsilon_of_rates(*rates, delta)))
        found = reach(epsilon, runs=runs, delta=delta, confidence=0.95)
        assert found == pytest.approx(best, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("claimed", "true", "delta"),
    [(0, 1, 1e-5), (1, 2, 1e-5), (1, 8, 1e-5), (1, 1.5, 0), (3, math.inf, 0), (0.1, 0.3, 0.01)],
)
def test_runs_needed_are_just_enough(claimed, true, delta):
    stated = {"delta": delta, "confidence": 0.95}
    runs = runs_needed(claimed, true, **stated)
    assert reach(true, runs=runs, **stated) > claimed
    assert runs == 1 or reach(true, runs=runs - 1, **stated) <= claimed


def test_a_true_claim_is_never_refuted():
    for claimed, true in ((1, 1), (2, 1), (math.inf, 5), (math.inf, math.inf), (0, 0)):
        assert runs_needed(claimed, true, delta=1e-5, confidence=0.95) is None
    assert runs_needed(1.0, 1.0 + 1e-9, delta=1e-5, confidence=0.95) is None


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_audits_show_their_reach(epsilon):
    """The mean of `split`, which chooses its threshold from as many runs again."""
    runs, audits = 4000, 60
    mu = 1 / gaussian.sigma(epsilon, 1e-5)
    generator = np.random.default_rng(17)
    shown = [
        bounds.split(
            generator.normal(size=2 * runs),
            generator.normal(size=2 * runs) + mu,
            delta=1e-5,
            confidence=0.95,
        ).epsilon
        for _ in range(audits)
    ]
    expected = reach(epsilon, runs=runs, delta=1e-5, confidence=0.95)
    error = np.std(shown) / math.sqrt(audits)
    # Choosing the threshold costs a little; counts around their mean give some of it back, for
    # the bound is convex in rare errors.
    assert 0.9 * expected < np.mean(shown) < expected + 3 * error


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ceiling(0, delta=0, confidence=0.95), "runs=0 >= 1"),
        (lambda: ceiling(10, delta=1, confidence=0.95), "delta=1"),
        (lambda: reach(-1, runs=10, delta=0, confidence=0.95), "epsilon=-1 >= 0"),
        (lambda: reach(1, runs=10, delta=0, confidence=2), "confidence=2.0 in (0, 1)"),
        (lambda: runs_needed(-1, 1, delta=0, confidence=0.95), "claimed=-1 >= 0"),
        (lambda: runs_needed(1, math.nan, delta=0, confidence=0.95), "true=nan"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(InvalidArgument) as refused:
        call()
    assert words in str(refused.value)


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_the_reach_of_the_band_is_a_little_below_its_mean(epsilon: float) -> None:
    """The luckiest threshold adds to the mean what the expected curve does not have: up to a tenth.

    The figures of the band itself are in test_band.py (0.78, 0.88 and 0.93 of the truth).
    """
    mu, generator = 1 / gaussian.sigma(epsilon, 1e-5), np.random.default_rng(5)
    how = {"delta": 1e-5, "confidence": 0.95}
    found = [
        band(
            generator.standard_normal(10_000),
            generator.standard_normal(10_000) + mu,
            GaussianFamily(1e-5),
            family_name="of Gaussian mechanisms",
            **how,
        ).epsilon
        for _ in range(10)
    ]
    expected = game.gaussian_reach(epsilon, runs=10_000, **how)
    assert 0.88 * np.mean(found) <= expected <= np.mean(found)
    assert expected > game.reach(epsilon, runs=10_000, **how)


def test_the_reach_of_the_band_has_a_ceiling() -> None:
    how = {"delta": 1e-5, "confidence": 0.95}
    ceilings = [game.gaussian_reach(np.inf, runs=runs, **how) for runs in (100, 10_000)]
    assert game.gaussian_reach(200.0, runs=10_000, **how) == pytest.approx(ceilings[1])
    assert ceilings[0] < ceilings[1] < np.inf
    assert game.gaussian_reach(1.0, runs=2, **how) == 0
    with pytest.raises(InvalidArgument, match="delta"):
        game.gaussian_reach(1.0, runs=100, delta=0.0, confidence=0.95)
