"""The simultaneous band: exact levels, coverage, reach, families, and claimed curves."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from sordino.accounting import calibrate, dp_sgd, gaussian
from sordino.accounting.profile import ApproximateProfile, GaussianProfile
from sordino.audit import band as bands
from sordino.audit import bounds
from sordino.audit.band import GaussianFamily, _violated, band, confident_points, refutes
from sordino.errors import InvalidArgument
from sordino.privacy import Relation

DP_SGD = json.loads((Path(__file__).parents[1] / "golden" / "audit_6_7.json").read_text())[
    "6_worst_case_loss"
]
AUDITS = 1000
LEVEL = 0.2
SETTINGS = {"sampling": "poisson", "relation": Relation.ADD_OR_REMOVE_ONE}


def gaussian_profile(mu):
    return GaussianProfile(parameter=mu, relation=Relation.REPLACE_ONE, theorem="test")


def two_worlds(mu, runs, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=runs), generator.normal(size=runs) + mu


# The envelopes.


@pytest.mark.parametrize("size", [1, 5, 50, 2000])
@pytest.mark.parametrize("slope", [1.5, 20.0])
def test_crossing_probability_is_daniels(size, slope):
    """Daniels 1945: uniform order statistics stay below 1 - (n-k+1)/(n s) with chance 1 - 1/s."""
    ranks = np.arange(1, size + 1)
    line = 1 - (size - ranks + 1) / (size * slope)
    # Rounding of the log-probabilities, over 2000 convolutions.
    assert bands.stay_below(ranks, line, size) == pytest.approx(1 - 1 / slope, abs=1e-10)


def test_crossing_probability_of_some_ranks():
    """One rank is a binomial tail; two of two numbers can be done by hand."""
    for rank, bound in ((1, 0.3), (7, 0.9), (10, 0.95)):
        exact = binom.sf(rank - 1, 10, bound)
        assert bands.stay_below(np.array([rank]), np.array([bound]), 10) == pytest.approx(exact)
    # P[min <= a, max <= b] = b^2 - (b - a)^2.
    held = bands.stay_below(np.array([1, 2]), np.array([0.2, 0.7]), 2)
    assert held == pytest.approx(0.49 - 0.25)
    assert bands.stay_below(np.array([1]), np.array([0.0]), 5) == 0.0
    assert bands.stay_below(np.array([5]), np.array([1.0]), 5) == 1.0


@pytest.mark.parametrize(("runs", "level"), [(1, 0.3), (7, 0.05), (300, 0.025), (3000, 0.005)])
def test_equal_precision_has_its_level(runs, level):
    """Not above it, and not far below: the single level is found to 1 %."""
    ranks = bands._ranks(runs, bands._SPACING)
    table = bands.equal_precision(runs, level)
    held = bands.stay_below(ranks, table[ranks - 1], runs)
    assert 0.97 * level <= 1 - held <= level + 1e-12  # rounding of 1 - held
    assert np.all(np.diff(table) >= 0)
    assert table[runs] == 1.0


def test_equal_precision_beats_bonferroni_and_is_near_one_interval():
    table = bands.equal_precision(1000, 0.025)
    alone = bounds.clopper_pearson_upper(0, 1000, 0.025)
    all_of_them = bounds.clopper_pearson_upper(0, 1000, 0.025 / 1000)
    assert alone < table[0] < 0.8 * all_of_them


def test_many_runs_fall_back_on_bonferroni(monkeypatch):
    monkeypatch.setattr(bands, "_MOST_EXACT", 100)
    ranks = bands._ranks(500, 4 * bands._SPACING)
    table = bands.equal_precision.__wrapped__(500, 0.05)
    assert table[0] == pytest.approx(bounds.clopper_pearson_upper(0, 500, 0.05 / len(ranks)))


@pytest.mark.parametrize("method", bands.METHODS)
@pytest.mark.parametrize("law", ["continuous", "atoms", "one atom"])
def test_the_envelope_holds_everywhere_at_once(method, law):
    """The law's exact rate against its bound, at every threshold that occurs."""
    runs, level = 60, 0.3
    table = bands.METHODS[method](runs, level)
    generator = np.random.default_rng(4)
    values = {"continuous": 1e9, "atoms": 4.0, "one atom": 1.0}[law]
    broken = 0
    for _ in range(AUDITS):
        scores = np.sort(np.floor(generator.random(runs) * values) / values)
        exact = 1 - scores  # P[score >= t] at t among the atoms
        errors = runs - np.searchsorted(scores, scores)
        # And just above each of them.
        above = runs - np.searchsorted(scores, scores, side="right")
        broken += bool(
            np.any(exact > table[errors] + 1e-8) or np.any(exact - 1 / values > table[above] + 1e-8)
        )
    assert broken <= binom.ppf(0.999, AUDITS, level)
    if law == "continuous":  # a narrower band would be noticed
        assert broken > 0.6 * level * AUDITS


# The band within the Gaussian family.


@pytest.mark.parametrize("method", bands.METHODS)
@pytest.mark.parametrize("mu", [0.0, 0.05, 1 / gaussian.sigma(1.0, 1e-5), 2.0])
def test_coverage(method, mu):
    """The band exceeds the truth just if it refutes the true curve."""
    generator = np.random.default_rng(12)
    over = sum(
        refutes(
            generator.normal(size=100),
            generator.normal(size=100) + mu,
            gaussian_profile(mu),
            confidence=1 - LEVEL,
            method=method,
        )
        for _ in range(AUDITS)
    )
    assert over <= binom.ppf(0.999, AUDITS, LEVEL)


def test_the_coverage_test_notices_a_wrong_band():
    """Planted: intervals for one threshold, used at all of them."""
    generator = np.random.default_rng(12)
    single = bounds.upper(np.arange(101.0), 100, LEVEL / 2)
    over = 0
    for _ in range(AUDITS):
        negative, positive = np.sort(generator.normal(size=(2, 100)))
        grid = np.concatenate([negative, positive])
        alpha = single[100 - np.searchsorted(negative, grid)]
        over += bool(np.any(alpha + single[np.searchsorted(positive, grid)] < 1))
    assert over > binom.ppf(0.999, AUDITS, LEVEL)


@pytest.mark.parametrize("method", bands.METHODS)
def test_the_band_is_the_last_refuted_curve(method):
    negative, positive = two_worlds(0.8, 1000)
    family = GaussianFamily(1e-5)
    stated = {"confidence": 0.95, "method": method}
    found = band(
        negative,
        positive,
        family,
        delta=1e-5,
        family_name="of Gaussian mechanisms",
        attack="a score",
        tolerance=1e-6,
        **stated,
    )
    assert refutes(negative, positive, family(found.epsilon), **stated)
    assert not refutes(negative, positive, family(found.epsilon * (1 + 2e-6)), **stated)
    assert found.attack.startswith("a score; ")
    assert found.attack.endswith("within the family of Gaussian mechanisms")
    assert found.trials == 2000


@pytest.mark.parametrize(("epsilon", "share"), [(1.0, 0.70), (2.0, 0.80), (4.0, 0.87)])
def test_reach(epsilon, share):
    """Mean over 50 audits of 10,000 + 10,000 runs at delta 1e-5 and 95 % confidence."""
    mu = 1 / gaussian.sigma(epsilon, 1e-5)
    stated = {"delta": 1e-5, "confidence": 0.95}
    shown, others = [], []
    for audit in range(50):
        worlds = two_worlds(mu, 10_000, seed=audit)
        found = band(*worlds, GaussianFamily(1e-5), family_name="Gaussian", **stated)
        shown.append(found.epsilon)
        others.append(bounds.at_threshold(*worlds, mu / 2, **stated, if_gaussian=True).epsilon)
    assert np.mean(shown) >= share * epsilon
    # One threshold fixed at the best place, which only the truth tells, would do a little better.
    assert np.mean(shown) < np.mean(others) < epsilon


def test_rare_events_are_for_equal_precision():
    """One run in a hundred gives itself away: the width of DKW hides it."""
    generator = np.random.default_rng(0)
    negative = generator.normal(size=10_000)
    positive = np.where(np.arange(10_000) % 100 == 0, 50.0, generator.normal(size=10_000))
    claimed = gaussian_profile(0.2)
    assert not refutes(negative, positive, claimed, confidence=0.95)
    assert refutes(negative, positive, claimed, confidence=0.95, method="equal-precision")


def test_perfect_separation_and_equal_worlds():
    family = GaussianFamily(1e-5)
    stated = {"delta": 1e-5, "confidence": 0.95, "family_name": "Gaussian"}
    far = band(np.zeros(1000), np.ones(1000), family, **stated)
    width = math.sqrt(math.log(40) / 2000)
    point = gaussian.epsilon(-2 * float(bounds.ndtri(width)), 1e-5)
    assert far.epsilon == pytest.approx(point, rel=2e-3)
    assert band(np.zeros(1000), np.zeros(1000), family, **stated).epsilon == 0.0
    assert band(np.ones(1000), np.zeros(1000), family, **stated).epsilon == 0.0
    infinite = band(np.full(1000, -math.inf), np.full(1000, math.inf), family, **stated)
    assert infinite.epsilon == far.epsilon


def test_intervals_and_grids_of_parameters():
    negative, positive = two_worlds(1.0, 2000)
    stated = {"delta": 1e-5, "confidence": 0.95, "family_name": "Gaussian"}

    def found(parameters):
        family = GaussianFamily(1e-5)
        return band(negative, positive, family, parameters=parameters, **stated).epsilon

    free = found(None)
    assert 3 < free < 5
    assert found((0, 16)) == pytest.approx(free, rel=2e-3)
    assert found((0.5, 10)) == pytest.approx(free, rel=2e-3)
    assert found((0, 1)) == 1.0  # all of it refuted
    assert found((6, 9)) == 0.0  # none of it
    assert found([0.5, 1, 2, 3, 6, 7]) == 3.0
    assert found([6, 7, 8]) == 0.0
    assert found(np.arange(0.25, 3, 0.25)) == 2.75


# Other families and claims.


def test_a_family_of_dp_sgd():
    """Nearly a Gaussian mechanism's curve, so nearly the same bound; but not quite."""
    worlds = two_worlds(mu := 0.6, 4000)
    stated = {"delta": 1e-5, "confidence": 0.95, "parameters": (1.5, 3), "tolerance": 0.02}

    def family(epsilon):
        noise = calibrate.noise_multiplier(epsilon, 1e-5, 0.1, 100, **SETTINGS)
        return dp_sgd.pld(noise, 0.1, 100, **SETTINGS)

    inside = band(*worlds, family, family_name="DP-SGD", direction="forward", **stated)
    plain = band(*worlds, GaussianFamily(1e-5), family_name="Gaussian", **stated)
    assert plain.epsilon < gaussian.epsilon(mu, 1e-5)
    assert plain.epsilon < inside.epsilon < 1.3 * plain.epsilon


@pytest.mark.parametrize("mu", [0.0, 0.02, 0.3, 5.0])
def test_a_family_is_asked_seldom(mu):
    """A member may take a second to compute."""
    asked = []

    def family(epsilon):
        asked.append(epsilon)
        return GaussianFamily(1e-5)(epsilon)

    worlds = two_worlds(mu, 50_000)
    band(*worlds, family, family_name="Gaussian", delta=1e-5, confidence=0.95)
    assert len(asked) <= 25


@pytest.mark.parametrize("row", DP_SGD["tradeoff_pld"]["cases"][0]["rows"])
def test_golden_curves_of_dp_sgd_refute_just_what_lies_below(row):
    """Points on the bracket's two sides, as if they were the confident ones."""
    case = DP_SGD["tradeoff_pld"]["cases"][0]
    profile = dp_sgd.pld(case["sigma"], case["q"], case["T"], **SETTINGS)
    direction = "forward" if row["direction"] == "H1=with record" else "backward"
    alpha = np.array(row["alpha"])
    # The curve is pessimistic by up to 2e-5 of epsilon a step.
    slack = 1e-4
    assert not _violated((alpha, np.array(row["f_upper"])), profile, direction)
    for i in range(len(alpha)):
        below = alpha[i : i + 1], np.array(row["f_lower"])[i : i + 1] - slack
        assert _violated(below, profile, direction)
        assert _violated(
            (alpha, np.r_[row["f_upper"][:i], below[1], row["f_upper"][i + 1 :]]),
            profile,
            direction,
        )


def test_direction_says_which_world_has_the_record():
    """Scores of DP-SGD's dominating pair: what "forward" allows, "backward" forbids."""
    case = DP_SGD["tradeoff_pld"]["cases"][0]
    profile = dp_sgd.pld(case["sigma"], case["q"], case["T"], **SETTINGS)
    alpha = np.array([0.01])
    between = np.array([(0.93104 + 0.94468) / 2])  # the two curves of docs/math.md 6.3
    assert not _violated((alpha, between), profile, "forward")
    assert _violated((alpha, between), profile, "backward")
    assert not _violated((alpha, between), profile, "both")


def test_a_claim_of_two_numbers():
    """Randomised response against its own (epsilon, 0), and against a smaller one."""
    right = 1 / (1 + math.exp(-2.0))
    generator = np.random.default_rng(8)
    negative, positive = generator.random((2, 5000)) > np.array([[right], [1 - right]])

    def claim(epsilon):
        return ApproximateProfile(
            budget=(epsilon, 0.0), relation=Relation.REPLACE_ONE, theorem="claimed"
        )

    for method in bands.METHODS:
        assert not refutes(negative, positive, claim(2.0), confidence=0.99, method=method)
        assert refutes(negative, positive, claim(1.5), confidence=0.99, method=method)
    found = band(negative, positive, claim, delta=0.0, confidence=0.99, family_name="of pure DP")
    assert 1.5 < found.epsilon < 2.0


def test_the_points_are_a_falling_staircase():
    negative, positive = two_worlds(1.0, 500)
    for method in bands.METHODS:
        alpha, beta = confident_points(negative, positive, confidence=0.9, method=method)
        assert np.all(np.diff(alpha) > 0)
        assert np.all(np.diff(beta) < 0)
        assert alpha.min() > 0
        assert beta.min() > 0
    # Every threshold's pair is beaten by one that is kept, or is one.
    width = math.sqrt(math.log(20) / 1000)
    alpha, beta = confident_points(negative, positive, confidence=0.9)
    for threshold in np.quantile(positive, [0.1, 0.4, 0.8]):
        rates = np.mean(negative >= threshold), np.mean(positive < threshold)
        kept = (alpha <= rates[0] + width + 1e-12) & (beta <= rates[1] + width + 1e-12)
        assert kept.any()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parameters": (2, 1)}, "rising epsilons"),
        ({"parameters": (1,)}, "two or more"),
        ({"parameters": (-1, 1)}, ">= 0"),
        ({"parameters": (0, math.inf)}, "rising epsilons"),
        ({"direction": "sideways"}, "direction=sideways"),
        ({"method": "guess"}, "method=guess"),
        ({"delta": 1e-3}, "to have 1"),
        ({"confidence": 1.0}, "confidence=1.0 in (0, 1)"),
        ({"tolerance": 0}, "tolerance=0 > 0"),
        ({"negative": [0.0, math.nan]}, "first NaN is at 1"),
        ({"negative": [0.0], "positive": [1.0]}, "enough for a band"),
    ],
)
def test_bad_input_is_one_sentence(change, words):
    good = {
        "negative": np.arange(100.0),
        "positive": np.arange(100.0),
        "family": GaussianFamily(1e-5),
        "delta": 1e-5,
        "confidence": 0.95,
        "family_name": "Gaussian",
    }
    with pytest.raises(InvalidArgument) as refused:
        band(**(good | change))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_gaussian_family_has_no_delta_0():
    with pytest.raises(InvalidArgument, match="Gaussian hypothesis"):
        GaussianFamily(0.0)
    assert GaussianFamily(1e-5)(2.0).epsilon(1e-5) == pytest.approx(2.0, rel=1e-9)
    assert math.isinf(GaussianFamily(1e-5)(math.inf).mu)
