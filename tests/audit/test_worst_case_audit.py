"""Bounds and estimates from worst-case audits, and what is said of them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom

from sordino import randomness
from sordino.accounting import gaussian
from sordino.audit import worst_case
from sordino.audit.band import band, refutes
from sordino.audit.worst_case import (
    GRID,
    Family,
    WorstCase,
    area_estimate,
    audit_worst_case,
    likelihood_ratio_all_iterates,
    linear_curve,
    paper_estimate,
    play,
    restricted_estimate,
    tradeoff,
)
from sordino.errors import InvalidArgument, NotApplicable
from sordino.privacy import Estimate

GAUSSIAN = Family(1.0, 1)
"""Every record in the one step: the Gaussian mechanism, whose curve is exact and quick."""
EPSILON = 2.0
MU = 1 / gaussian.sigma(EPSILON, 1e-5)


def evenly(runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of N(0, 1) and N(mu, 1) without luck: the quantiles of the middles."""
    normal = ndtri((np.arange(runs) + 0.5) / runs)
    return normal, normal + MU


def test_as_printed_no_epsilon_fits_where_the_largest_score_is_of_d_prime() -> None:
    """The point (0, 1 - 1/runs) lies below every f with f(0) = 1: MATH 6.3."""
    found = paper_estimate(*evenly(1000), GAUSSIAN)
    assert isinstance(found, Estimate)
    assert found.epsilon == math.inf
    assert "no epsilon up to 20 fits" in found.caveat
    assert "lies below every curve of Gaussian noise" in found.caveat
    assert "as printed" in found.method


def test_as_printed_it_finds_epsilon_where_the_ends_are_covered() -> None:
    negative, positive = evenly(1000)
    # One world-0 score above all, and one world-1 score below all.
    found = paper_estimate(np.append(negative, 99.0), np.append(positive, -99.0), GAUSSIAN)
    assert 2.0 <= found.epsilon <= 2.4  # the grid's step, and what is left of the steep ends
    assert "no epsilon" not in found.caveat


def test_equal_worlds_get_the_first_epsilon_of_the_grid() -> None:
    normal = evenly(1000)[0]
    assert restricted_estimate(normal, normal, GAUSSIAN).epsilon == 0.01
    assert area_estimate(normal, normal, GAUSSIAN).epsilon <= 0.02


def test_restricted_and_area_find_epsilon() -> None:
    worlds = evenly(5000)
    # Half a run at each threshold is all that is between these points and the curve.
    assert restricted_estimate(*worlds, GAUSSIAN).epsilon == pytest.approx(EPSILON, abs=0.03)
    assert area_estimate(*worlds, GAUSSIAN).epsilon == pytest.approx(EPSILON, abs=0.015)


def test_restricted_takes_the_luckiest_threshold_and_area_does_not() -> None:
    negative, positive = evenly(5000)
    lucky = negative.copy()
    lucky[(negative > 0) & (negative < 0.05)] = -1.0  # 2 % fewer false positives at one threshold
    assert restricted_estimate(lucky, positive, GAUSSIAN).epsilon > EPSILON + 0.15
    assert area_estimate(lucky, positive, GAUSSIAN).epsilon == pytest.approx(EPSILON, abs=0.1)


def test_estimates_are_refused_where_they_mean_nothing() -> None:
    with pytest.raises(NotApplicable, match=r"No threshold has both error rates in \[0.01, 0.99\]"):
        restricted_estimate(np.zeros(1000), np.ones(1000), GAUSSIAN)
    for estimate in (paper_estimate, restricted_estimate, area_estimate):
        for wrong in (np.nan, np.inf):
            with pytest.raises(InvalidArgument, match="positive"):
                estimate(np.zeros(3), np.array([1.0, wrong, 2.0]), GAUSSIAN)
        with pytest.raises(InvalidArgument, match="one a run"):
            estimate(np.zeros((3, 2)), np.zeros(3), GAUSSIAN)


def test_estimates_say_that_they_are_none_of_the_other_kinds() -> None:
    for estimate in (restricted_estimate, area_estimate):
        said = str(estimate(*evenly(500), GAUSSIAN))
        assert "estimate, not a guarantee" in said
        assert "without confidence" in said
        assert "within DP-SGD(sample_rate=1, steps=1)" in said


@pytest.fixture(scope="module")
def audited():
    done = []
    found = audit_worst_case(
        0.02,
        60,
        noise_multiplier=0.5,
        runs=3000,
        confidence=0.95,
        seed=3,
        progress=lambda now, all_of: done.append((now, all_of)),
    )
    assert done[-1] == (6000, 6000)
    return found


def test_the_audit_shows_that_nothing_is_hidden(audited) -> None:
    assert audited.claimed.epsilon == audited.claimed.profile.epsilon(1e-5)
    linear = audited.linear.epsilon
    found = audited.within_family
    assert linear < found.epsilon < audited.claimed.epsilon
    assert found.epsilon == pytest.approx(audited.all_iterates.epsilon, rel=0.02)
    assert 0 < audited.observed.epsilon < found.epsilon
    assert "within the family DP-SGD(sample_rate=0.02, steps=60)" in found.attack
    assert "family" not in audited.observed.attack
    assert found.trials == 6000
    assert audited.hides_less_than_linear
    assert not audited.violated
    assert "no violation found, and no amplification" in audited.verdict
    assert "the final iterate shows as much as all iterates" in audited.verdict


def test_a_claim_that_is_too_small_is_a_violation(audited) -> None:
    claimed = dataclasses.replace(audited.claimed, epsilon=0.5)
    wrong = dataclasses.replace(audited, claimed=claimed)
    assert wrong.violated
    assert wrong.verdict.startswith("violation: observed epsilon >= ")
    assert wrong.verdict.endswith("above the claimed 0.5")


def test_the_verdict_says_no_more_than_was_seen(audited) -> None:
    seen = audited.all_iterates
    weaker = dataclasses.replace(
        audited, all_iterates=dataclasses.replace(seen, epsilon=2 * seen.epsilon)
    )
    assert "as much as" not in weaker.verdict
    assert "is refuted" in weaker.verdict
    like_linear = dataclasses.replace(audited, hides_less_than_linear=False)
    assert "as much as" not in like_linear.verdict
    assert "it may leak no more than a linear loss's last iterate" in like_linear.verdict


def test_curves_are_of_both_orders(audited) -> None:
    presence, absence = audited.curves("presence"), audited.curves("absence")
    assert set(presence) == {"observed", "composed", "linear"}
    for curves in (presence, absence):
        for alphas, betas in curves.values():
            assert (np.diff(alphas) >= 0).all()
            assert (np.diff(betas) <= 0).all()
            assert len(alphas) <= 401
    np.testing.assert_array_equal(absence["observed"][0], presence["observed"][1][::-1])
    np.testing.assert_allclose(
        presence["linear"][1], linear_curve(0.02, 60, 0.5, presence["linear"][0])
    )
    # The profile's two directions are each other's mirror image.
    alphas, betas = (part[20:80] for part in presence["composed"])
    mirrored = tradeoff(audited.claimed.profile, betas, "backward")
    np.testing.assert_allclose(mirrored, alphas, atol=2e-4)
    with pytest.raises(InvalidArgument, match="order=other to be one of"):
        audited.curves("other")


def test_the_same_seed_gives_the_same_runs_and_another_others() -> None:
    setting = WorstCase.choose(0.1, 3, 1.0)
    first, again, other = (play(setting, 50, ("seed", seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.isin(first[0][0], other[0][0]).all()
    # The two worlds are independent: no noise is shared.
    assert abs(np.corrcoef(first[0][1], first[1][1])[0, 1]) < 0.6


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, r"epsilon, noise_multiplier=\(None, None\) to be one"),
        ({"epsilon": 1.0, "noise_multiplier": 1.0}, "to be one"),
        ({"epsilon": -1.0}, "epsilon=-1.0 > 0"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta=0.0 > 0"),
        ({"epsilon": 1.0, "runs": 8}, "tested runs a world"),
        ({"epsilon": 1.0, "confidence": 1.0}, r"confidence=1.0 in \(0, 1\)"),
    ],
)
def test_bad_audits_are_refused_before_anything_is_trained(
    monkeypatch, arguments: dict, sentence: str
) -> None:
    monkeypatch.setattr(worst_case, "play", None)
    with pytest.raises(InvalidArgument, match=sentence):
        audit_worst_case(0.1, 10, **arguments)


def test_a_shared_family_must_be_of_the_same_training() -> None:
    with pytest.raises(InvalidArgument, match=r"family=.* to be of this training"):
        audit_worst_case(0.1, 10, 1.0, family=Family(0.1, 11))


def scores(family: Family, epsilon: float, runs: int, *name: str | int):
    stream = randomness.stream("test", "worst case reach", *name)
    training = (family.sample_rate, family.steps, family.noise(epsilon))
    return [
        likelihood_ratio_all_iterates(*training, runs, with_record, stream)
        for with_record in (False, True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "least", "most"), [(1.0, 0.85, 1.5), (2.0, 0.92, 1.25), (4.0, 0.94, 1.15)]
)
def test_reach_at_full_size(epsilon: float, least: float, most: float) -> None:
    """q = 0.1, T = 100, three repeats: `least` is what issue 7 asks of the bound.

    The paper's restricted rule leans upwards by far more than 10 % where epsilon is small, also
    with scores that are perfect: it is held to what it does, the area to 10 %.
    """
    family = Family(0.1, 100)
    bounds, restricted, area = [], [], []
    for repeat in range(3):
        setting = WorstCase.choose(0.1, 100, family.noise(epsilon))
        (negative, _), (positive, _) = play(setting, 50_000, ("test", repeat))
        few = negative[:5000], positive[:5000]
        restricted.append(restricted_estimate(*few, family).epsilon)
        area.append(area_estimate(*few, family).epsilon)
        claims = {"delta": 1e-5, "confidence": 0.95, "direction": "forward"}
        named = {"family_name": family.name, "parameters": GRID}
        bounds.append(band(negative, positive, family, **claims, **named).epsilon)
    assert least < np.mean(bounds) / epsilon <= 1
    assert 1 < np.mean(restricted) / epsilon < most
    assert np.mean(area) / epsilon == pytest.approx(1, abs=0.1)


@pytest.mark.slow
def test_the_bound_exceeds_the_truth_at_most_at_its_rate() -> None:
    family, trials, confidence = Family(0.1, 100), 400, 0.8
    wrong = sum(
        refutes(
            *scores(family, 2.0, 1000, "coverage", trial),
            family(2.0),
            confidence=confidence,
            direction="forward",
        )
        for trial in range(trials)
    )
    assert wrong <= binom.ppf(0.9999, trials, 1 - confidence)
