"""Bounds from two worlds' scores: golden vectors, edge cases, and that their confidence holds."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from sordino.accounting import gaussian
from sordino.audit import bounds
from sordino.audit.bounds import (
    at_threshold,
    best_threshold,
    bonferroni,
    clopper_pearson_upper,
    from_counts,
    gaussian_mu_from_counts,
    split,
)
from sordino.errors import InvalidArgument

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "audit_6_7.json").read_text())[
    "7_audit"
]["clopper_pearson"]
AUDITS = 1000


def counts_of(case):
    return case["fp"], case["n0"], case["fn"], case["n1"]


@pytest.mark.parametrize("case", GOLDEN["cases"])
def test_golden(case):
    rel = GOLDEN["tol"]["rel"]
    level, delta = case["level"], case["delta"]
    upper = clopper_pearson_upper(case["fp"], case["n0"], level / 2)
    assert upper == pytest.approx(case["fpr_upper"], rel=rel)
    upper = clopper_pearson_upper(case["fn"], case["n1"], level / 2)
    assert upper == pytest.approx(case["fnr_upper"], rel=rel)
    found = from_counts(*counts_of(case), delta=delta, confidence=1 - level)
    assert found.epsilon == pytest.approx(case["eps_lb"], rel=rel)
    assert found.trials == case["n0"] + case["n1"]
    mu = gaussian_mu_from_counts(*counts_of(case), confidence=1 - level)
    assert mu == pytest.approx(case["mu_lb"], rel=rel)
    if delta > 0:
        found = from_counts(*counts_of(case), delta=delta, confidence=1 - level, if_gaussian=True)
        assert found.epsilon == pytest.approx(case["eps_gdp"], rel=rel)
        assert bounds.GAUSSIAN_HYPOTHESIS in found.attack


def test_the_printed_example():
    found = from_counts(50, 1000, 400, 1000, delta=1e-5, confidence=0.95)
    assert found.epsilon == pytest.approx(2.16327240204068, rel=1e-9)
    mu = gaussian_mu_from_counts(50, 1000, 400, 1000, confidence=0.95)
    assert mu == pytest.approx(1.68454883148374, rel=1e-9)


def test_the_upper_bound_is_the_binomial_tail():
    for errors, trials, level in ((0, 7, 0.3), (3, 7, 0.05), (6, 7, 1e-9), (1, 10**6, 0.01)):
        upper = clopper_pearson_upper(errors, trials, level)
        assert binom.cdf(errors, trials, upper) == pytest.approx(level, rel=1e-7)
    assert clopper_pearson_upper(7, 7, 0.01) == 1.0
    assert clopper_pearson_upper(0, 1, 0.25) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("counts", "delta"),
    [
        ((10, 10, 10, 10), 0.0),  # everything wrong
        ((10, 10, 0, 10), 1e-5),  # "D'" always
        ((0, 10, 10, 10), 1e-5),  # "D" always
        ((900, 1000, 900, 1000), 0.0),  # the wrong way round
        ((0, 1, 0, 1), 0.0),  # a single run
        ((0, 1000, 0, 1000), 0.999),  # nothing left beside delta
    ],
)
def test_counts_that_show_nothing(counts, delta):
    assert from_counts(*counts, delta=delta, confidence=0.95).epsilon == 0.0
    if delta > 0 and counts[0] + counts[2] > 0:
        assert from_counts(*counts, delta=delta, confidence=0.95, if_gaussian=True).epsilon == 0.0


def test_both_ways_round_count():
    there = from_counts(2, 100, 60, 200, delta=1e-5, confidence=0.9)
    back = from_counts(60, 200, 2, 100, delta=1e-5, confidence=0.9)
    assert there.epsilon == back.epsilon > 1


def test_more_delta_or_confidence_shows_less():
    counts = (3, 200, 120, 200)
    values = [from_counts(*counts, delta=d, confidence=0.9).epsilon for d in (0, 1e-3, 0.1, 0.3)]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == len(values)
    values = [from_counts(*counts, delta=0, confidence=c).epsilon for c in (0.5, 0.9, 0.99, 0.9999)]
    assert values == sorted(values, reverse=True)


def test_every_score_is_on_one_side():
    tied = np.array([0.0, 1.0, 1.0, 2.0] * 10)
    found = at_threshold(tied, tied, 1.0, delta=0, confidence=0.9)
    assert found == from_counts(30, 40, 10, 40, delta=0, confidence=0.9)
    found = at_threshold(tied, tied, np.nextafter(2.0, 3.0), delta=0, confidence=0.9)
    assert found == from_counts(0, 40, 40, 40, delta=0, confidence=0.9)


def test_infinite_scores_are_scores():
    negative = np.r_[np.full(50, -math.inf), np.zeros(50)]
    positive = np.r_[np.zeros(50), np.full(50, math.inf)]
    found = at_threshold(negative, positive, math.inf, delta=0, confidence=0.9)
    assert found.epsilon == from_counts(0, 100, 50, 100, delta=0, confidence=0.9).epsilon > 2
    threshold = best_threshold(negative, positive, delta=0, confidence=0.9)
    assert at_threshold(negative, positive, threshold, delta=0, confidence=0.9).epsilon > 2
    for worlds in ((negative, negative), (np.full(9, -math.inf), np.full(9, math.inf))):
        assert not math.isnan(best_threshold(*worlds, delta=0, confidence=0.9))


def test_the_threshold_lies_in_the_gap():
    """Half way: at the lowest positive score, every hundredth audit would see one below it."""
    negative, positive = np.linspace(0, 1, 20_000), np.linspace(3, 4, 20_000)
    assert best_threshold(negative, positive, delta=1e-5, confidence=0.99) == 2.0
    adjacent = np.full(20, 1.0), np.full(20, np.nextafter(1.0, 2.0))
    assert best_threshold(*adjacent, delta=1e-5, confidence=0.9) == adjacent[1][0]
    huge = np.full(20, -1.7e308), np.full(20, 1.7e308)
    assert best_threshold(*huge, delta=1e-5, confidence=0.9) == 0.0


def test_a_weak_attack_is_tested_where_it_could_show_something():
    """Where no bound above 0 is expected, the threshold is not the one that can never show any."""
    for repeat in range(40):
        rng = np.random.default_rng(repeat)
        negative, positive = rng.standard_normal(2000), 0.05 + rng.standard_normal(2000)
        threshold = best_threshold(negative, positive, delta=1e-6, confidence=0.99)
        # At 2.3 each error rate leaves the other at 1 % or less: no 2,000 runs show anything there.
        assert -2.3 < threshold < 2.3


def test_the_best_threshold_follows_the_runs_it_is_for():
    """With more fresh runs rarer errors can be resolved."""
    generator = np.random.default_rng(5)
    negative, positive = generator.normal(size=20_000), generator.normal(size=20_000) + 1.5
    few, many = (
        best_threshold(negative, positive, delta=1e-5, confidence=0.95, runs=runs)
        for runs in (100, 100_000)
    )
    # Two thresholds mirror each other, so the distance from the middle counts.
    assert abs(many - 0.75) > abs(few - 0.75) + 0.3


def best_looking_threshold(negative, positive, *, delta, confidence):
    """The one whose bound is largest on the very scores it is chosen by."""
    values, errors = bounds._candidates(negative, positive)
    rates = [bounds.upper(count, len(negative), (1 - confidence) / 2) for count in errors]
    return float(values[np.argmax(bounds.epsilon_of_rates(*rates, delta))])


def test_extreme_thresholds_are_not_trusted():
    """The guard against thresholds with a handful of errors is worth a tenth of the bound."""
    generator = np.random.default_rng(7)
    audits = generator.normal(size=(100, 4, 2000)) + np.array([0, 0.4, 0, 0.4])[:, None]
    stated = {"delta": 1e-5, "confidence": 0.95}

    def shown(choose):
        return np.mean(
            [
                at_threshold(*runs[2:], choose(*runs[:2], **stated), **stated).epsilon
                for runs in audits
            ]
        )

    assert shown(best_threshold) > 1.1 * shown(best_looking_threshold)


def test_split_tests_on_the_second_half():
    generator = np.random.default_rng(1)
    negative, positive = generator.normal(size=1001), generator.normal(size=900) + 3
    found = split(negative, positive, delta=1e-5, confidence=0.95, attack="a score")
    assert found.trials == 501 + 450
    assert found.attack.startswith("a score; ")
    assert found.epsilon > 1
    # The first half may say what it likes: only the second counts.
    assert split(negative, negative[:900], delta=1e-5, confidence=0.95).epsilon == 0
    blind = np.concatenate([positive[:450], negative[:450]])
    assert split(negative, blind, delta=1e-5, confidence=0.95).epsilon == 0


def test_bonferroni_is_the_best_of_its_thresholds():
    generator = np.random.default_rng(2)
    negative, positive = generator.normal(size=300), generator.normal(size=400) + 2
    grid = [-1.0, 0.0, 1.0, 2.0, math.inf, 1.0]
    found = bonferroni(negative, positive, grid, delta=1e-5, confidence=0.95)
    each = [
        at_threshold(negative, positive, t, delta=1e-5, confidence=1 - 0.05 / 5).epsilon
        for t in grid
    ]
    assert found.epsilon == pytest.approx(max(each), rel=1e-12)
    assert "5 thresholds" in found.attack
    assert found.trials == 700


def test_equal_worlds_show_nothing():
    same = np.repeat(np.arange(20.0), 20)
    for found in (
        split(same, same, delta=0, confidence=0.95),
        bonferroni(same, same, np.arange(20), delta=0, confidence=0.95),
        at_threshold(same, same, 10, delta=1e-5, confidence=0.95, if_gaussian=True),
        split(np.zeros(30), np.zeros(30), delta=0, confidence=0.95),
    ):
        assert found.epsilon == 0


GOOD = np.arange(20.0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: from_counts(5, 4, 0, 4, delta=0, confidence=0.9), "false_positives=5 <= neg"),
        (lambda: from_counts(0, 4, 5, 4, delta=0, confidence=0.9), "false_negatives=5 <= pos"),
        (lambda: from_counts(0, 0, 0, 4, delta=0, confidence=0.9), "negatives=0 >= 1"),
        (lambda: from_counts(0.5, 4, 0, 4, delta=0, confidence=0.9), "whole number"),
        (lambda: from_counts(0, 4, 0, 4, delta=1, confidence=0.9), "delta=1"),
        (lambda: from_counts(0, 4, 0, 4, delta=0, confidence=1), "confidence=1.0 in (0, 1)"),
        (lambda: from_counts(0, 4, 0, 4, delta=0, confidence=0), "confidence=0"),
        (lambda: from_counts(0, 4, 0, 4, delta=0, confidence=math.nan), "NaN"),
        (lambda: clopper_pearson_upper(1, 4, 0), "level=0 in (0, 1)"),
        (
            lambda: at_threshold([0, math.nan], GOOD, 0, delta=0, confidence=0.9),
            "first NaN is at 1",
        ),
        (lambda: at_threshold([], GOOD, 0, delta=0, confidence=0.9), "negative="),
        (lambda: at_threshold(GOOD[:, None], GOOD, 0, delta=0, confidence=0.9), "one a run"),
        (lambda: at_threshold(GOOD, GOOD, math.nan, delta=0, confidence=0.9), "threshold=nan"),
        (lambda: split([1.0], GOOD, delta=0, confidence=0.9), "runs=1 >= 2 a world"),
        (lambda: split(GOOD[:8], GOOD, delta=0, confidence=0.99), ">= 8 tested runs"),
        (lambda: at_threshold(GOOD[:4], GOOD, 1, delta=0, confidence=0.95), ">= 6 runs"),
        (lambda: bonferroni(GOOD, GOOD, [], delta=0, confidence=0.95), "thresholds"),
        (lambda: bonferroni(GOOD, GOOD, [math.nan], delta=0, confidence=0.95), "thresholds"),
        (
            lambda: at_threshold(GOOD, GOOD, 1, delta=0, confidence=0.95, if_gaussian=True),
            "> 0 under the Gaussian hypothesis",
        ),
        (lambda: best_threshold(GOOD, GOOD, delta=0, confidence=0.9, runs=0), "runs=0 >= 1"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(InvalidArgument) as refused:
        call()
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("delta", "confidence"), [(0.0, 0.95), (0.2, 0.99), (1e-5, 0.5)])
def test_the_fewest_runs_are_the_fewest(delta, confidence):
    """One run more than what is refused shows something, if no test errs."""
    runs = 1
    while from_counts(0, runs, 0, runs, delta=delta, confidence=confidence).epsilon == 0:
        with pytest.raises(InvalidArgument, match=r">= .* runs a world"):
            bounds.check_runs(runs, delta=delta, confidence=confidence)
        runs += 1
    bounds.check_runs(runs, delta=delta, confidence=confidence)


# Coverage. Whatever the truth, a bound exceeds it in at most its stated share of the audits.

LEVEL = 0.2


def allowed(level=LEVEL, audits=AUDITS):
    """More excesses than this have probability below 0.001 if the stated rate holds."""
    return binom.ppf(0.999, audits, level)


TRUTHS = {
    "epsilon 1 at delta 1e-5": (1 / gaussian.sigma(1.0, 1e-5), 1e-5),
    "a delta that its best threshold can resolve": (1.0, 0.1),
    "a small mu": (0.05, 1e-5),
    "equal worlds": (0.0, 1e-5),
}


def best_place(mu, delta):
    """Where the likelihood ratio is e^epsilon, so that exact rates would give epsilon exactly."""
    return gaussian.epsilon(mu, delta) / mu + mu / 2 if mu > 0 else 0.0


def excesses(bound, mu, delta, runs, audits=AUDITS):
    truth = gaussian.epsilon(mu, delta)
    generator = np.random.default_rng(11)
    return sum(
        bound(generator.normal(size=runs), generator.normal(size=runs) + mu) > truth
        for _ in range(audits)
    )


@pytest.mark.parametrize("truth", TRUTHS)
def test_coverage_at_one_threshold(truth):
    mu, delta = TRUTHS[truth]
    stated = {"delta": delta, "confidence": 1 - LEVEL}
    place = best_place(mu, delta)
    grid = place + np.linspace(-2, 2, 9)
    for bound in (
        lambda n, p: at_threshold(n, p, place, **stated).epsilon,
        lambda n, p: at_threshold(n, p, mu / 2, **stated, if_gaussian=True).epsilon,
        lambda n, p: bonferroni(n, p, grid, **stated).epsilon,
    ):
        assert excesses(bound, mu, delta, 400) <= allowed()


@pytest.mark.parametrize(
    "truth",
    [
        pytest.param(name, marks=() if index in (1, 3) else pytest.mark.slow)
        for index, name in enumerate(TRUTHS)
    ],
)
def test_coverage_of_split(truth):
    mu, delta = TRUTHS[truth]
    stated = {"delta": delta, "confidence": 1 - LEVEL}
    assert excesses(lambda n, p: split(n, p, **stated).epsilon, mu, delta, 200) <= allowed()


def test_coverage_of_randomised_response_with_ties():
    """Scores 0 and 1 only, pure DP: the truth is met exactly, so the rate is not far below."""
    truth = 1.5
    right = 1 / (1 + math.exp(-truth))
    generator = np.random.default_rng(3)
    over = 0
    for _ in range(AUDITS):
        negative, positive = generator.random((2, 300)) > np.array([[right], [1 - right]])
        found = at_threshold(negative, positive, 1.0, delta=0, confidence=1 - LEVEL)
        over += found.epsilon > truth
    assert over <= allowed()


def test_the_coverage_test_notices_a_wrong_bound():
    """Planted: a threshold picked and tested on the same runs, and rates taken at face value."""

    def not_split(negative, positive):
        grid = np.unique(np.concatenate([negative, positive]))
        rates = (
            bounds.upper(len(negative) - np.searchsorted(np.sort(negative), grid), 100, LEVEL / 2),
            bounds.upper(np.searchsorted(np.sort(positive), grid), 100, LEVEL / 2),
        )
        return np.max(bounds.epsilon_of_rates(*rates, 1e-5))

    assert excesses(not_split, 0.0, 1e-5, 100) > allowed()

    def without_interval(negative, positive):
        place = best_place(1.0, 0.1)
        rates = np.mean(negative >= place), np.mean(positive < place)
        return float(bounds.epsilon_of_rates(*map(np.asarray, rates), 0.1))

    assert excesses(without_interval, 1.0, 0.1, 400) > allowed()


def test_the_gaussian_bound_is_false_for_another_mechanism():
    """Why it is labelled: randomised response shows more than its epsilon under that hypothesis."""
    right = 1 / (1 + math.exp(-3.0))
    errors = round((1 - right) * 10_000)
    counts = (errors, 10_000, errors, 10_000)
    assert from_counts(*counts, delta=1e-5, confidence=0.99).epsilon < 3
    assert from_counts(*counts, delta=1e-5, confidence=0.99, if_gaussian=True).epsilon > 6


def test_exact_rates_give_the_exact_epsilon():
    """The formula itself, at the best threshold and without sampling error."""
    mu, delta = 1.3, 1e-3
    place = best_place(mu, delta)
    rates = np.asarray(ndtr(-place)), np.asarray(ndtr(place - mu))
    assert float(bounds.epsilon_of_rates(*rates, delta)) == pytest.approx(
        gaussian.epsilon(mu, delta), rel=1e-9
    )


def test_error_rates_are_counted_at_every_threshold() -> None:
    rng = np.random.default_rng(4)
    negative, positive = rng.normal(0, 1, 300).round(1), rng.normal(1, 1, 200).round(1)
    alphas, betas = bounds.error_rates(negative, positive)
    thresholds = [*np.unique(np.concatenate([negative, positive])), np.inf]
    assert alphas.tolist() == pytest.approx([(t <= negative).mean() for t in thresholds])
    assert betas.tolist() == pytest.approx([(t > positive).mean() for t in thresholds])
    assert (alphas[0], betas[0], alphas[-1], betas[-1]) == (1, 0, 0, 1)
