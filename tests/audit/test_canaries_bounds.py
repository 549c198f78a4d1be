"""One run with many canaries: golden vectors, edges, monotonicity, and coverage."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from sordino.accounting import gaussian
from sordino.audit.bounds import GAUSSIAN_HYPOTHESIS
from sordino.audit.canaries import f_dp_mu, f_dp_one_run, steinke, steinke_p_value
from sordino.errors import InvalidArgument

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "audit_6_7.json").read_text())[
    "7_audit"
]
AUDITS = 1000


@pytest.mark.parametrize("case", GOLDEN["steinke_one_run"]["cases"])
def test_steinke_golden(case):
    rel = GOLDEN["steinke_one_run"]["tol"]["rel"]
    counts = case["m"], case["r"], case["v"]
    found = steinke(*counts, delta=case["delta"], confidence=1 - case["p"])
    assert found.epsilon == pytest.approx(case["eps_lb"], rel=rel)
    assert found.trials == case["m"]
    value = steinke_p_value(*counts, 1.0, case["delta"])
    assert value == pytest.approx(case["p_value_at_eps1"], rel=rel)


@pytest.mark.parametrize("case", GOLDEN["mahloujifar_gdp"]["cases"])
def test_f_dp_golden(case):
    rel = GOLDEN["mahloujifar_gdp"]["tol"]["rel"]
    counts = case["m"], case["c_prime"], case["c"]
    mu = f_dp_mu(*counts, confidence=1 - case["tau"])
    assert mu == pytest.approx(case["mu_lb"], rel=rel)
    found = f_dp_one_run(*counts, delta=1e-5, confidence=1 - case["tau"])
    assert found.epsilon == pytest.approx(case["eps_at_1e5"], rel=rel)
    assert GAUSSIAN_HYPOTHESIS in found.attack


def test_further_values_of_the_notes():
    assert steinke(1000, 200, 180, delta=1e-5, confidence=0.95).epsilon == pytest.approx(
        1.79628507067094, rel=1e-7
    )
    assert f_dp_mu(100, 100, 100, confidence=0.95) == pytest.approx(1.70316031881427, rel=1e-6)


def slow_p_value(m, r, v, epsilon, delta):
    """The formula of docs/math.md 7.3, term by term."""
    law = binom(r, 1 / (1 + math.exp(-epsilon)))
    gain = max(
        (sum(law.pmf(w) for w in range(max(v - i, 0), v)) / i for i in range(1, v + 1)), default=0
    )
    return min(1.0, law.sf(v - 1) + 2 * m * delta * gain)


@pytest.mark.parametrize("counts", [(30, 20, 15), (30, 20, 20), (10, 1, 1), (10, 1, 0), (5, 5, 1)])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 6.0])
def test_p_value_by_its_formula(counts, epsilon):
    for delta in (0.0, 1e-3, 0.02):
        assert steinke_p_value(*counts, epsilon, delta) == pytest.approx(
            slow_p_value(*counts, epsilon, delta), rel=1e-9
        )


def test_p_value_grows_with_epsilon():
    """So that one bisection finds the largest rejected one."""
    epsilons = np.r_[0, np.geomspace(1e-3, 30, 300)]
    for counts in ((1000, 100, 75), (1000, 1000, 600), (50, 50, 50), (400, 40, 39), (20, 20, 3)):
        for delta in (0.0, 1e-5, 1e-3, 0.05):
            values = np.array([steinke_p_value(*counts, e, delta) for e in epsilons])
            small = values[: np.argmax(values >= 0.5) + 1]  # the rest is never rejected
            assert np.all(np.diff(small) >= -1e-12)
            assert np.all(values[len(small) :] >= 0.5 - 1e-12)


def f_dp_refuted_slowly(mu, m, guesses, correct, level):
    """The recursion of docs/math.md 7.4, one mu at a time."""
    from statistics import NormalDist

    normal = NormalDist()
    r, h = level * correct / m, level * (guesses - correct) / m
    for i in range(correct - 1, -1, -1):
        if r >= 1:
            return True
        raised = max(h, normal.cdf(normal.inv_cdf(r) - mu))
        r, h = r + i / (guesses - i) * (raised - h), raised
    return r + h > guesses / m


def test_f_dp_is_the_last_refuted():
    for counts in ((200, 50, 40), (60, 60, 60), (1000, 10, 10)):
        mu = f_dp_mu(*counts, confidence=0.9)
        assert f_dp_refuted_slowly(mu * (1 - 1e-7), *counts, 0.1)
        assert not f_dp_refuted_slowly(mu * (1 + 1e-7), *counts, 0.1)


@pytest.mark.parametrize("counts", [(10, 0, 0), (100, 40, 20), (100, 40, 0), (1, 1, 1), (9, 9, 4)])
def test_counts_that_show_nothing(counts):
    assert steinke(*counts, delta=0, confidence=0.95).epsilon == 0.0
    assert f_dp_mu(*counts, confidence=0.95) == 0.0
    assert f_dp_one_run(*counts, delta=1e-5, confidence=0.95).epsilon == 0.0


def test_more_right_guesses_show_more():
    shown = [steinke(200, 50, v, delta=1e-5, confidence=0.95).epsilon for v in range(51)]
    assert shown == sorted(shown)
    assert shown[25] == 0
    assert shown[32] > 0
    assert math.isfinite(shown[50])
    mus = [f_dp_mu(200, 50, v, confidence=0.95) for v in range(51)]
    assert mus == sorted(mus)
    assert 0 < mus[40] < mus[50] < 40


def test_all_right_is_a_binomial_tail():
    """At delta = 0: q^r = level."""
    right = 0.05 ** (1 / 300)
    found = steinke(1000, 300, 300, delta=0, confidence=0.95)
    assert found.epsilon == pytest.approx(math.log(right / (1 - right)), rel=1e-9)


def test_delta_counts_for_every_canary():
    few = steinke(100, 100, 90, delta=1e-4, confidence=0.95).epsilon
    many = steinke(1000, 100, 90, delta=1e-4, confidence=0.95).epsilon
    assert 0 < many < few
    assert steinke(10_000, 100, 90, delta=0.1, confidence=0.95).epsilon == 0


@pytest.mark.parametrize("bound", [steinke, f_dp_one_run])
@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((10, 11, 5), "guesses=11 <= canaries=10"),
        ((10, 5, 6), "correct=6 <= guesses=5"),
        ((0, 0, 0), "canaries=0 >= 1"),
        ((10, 5, -1), "correct=-1 >= 0"),
        ((10, 5, 2.5), "whole number"),
    ],
)
def test_bad_counts_are_one_sentence(bound, counts, words):
    with pytest.raises(InvalidArgument) as refused:
        bound(*counts, delta=1e-5, confidence=0.95)
    assert words in str(refused.value)


def test_other_bad_input():
    with pytest.raises(InvalidArgument, match="Gaussian hypothesis"):
        f_dp_one_run(10, 5, 5, delta=0, confidence=0.95)
    with pytest.raises(InvalidArgument, match="confidence"):
        steinke(10, 5, 5, delta=0, confidence=95)
    with pytest.raises(InvalidArgument, match="epsilon"):
        steinke_p_value(10, 5, 5, -1.0, 0)


# Coverage.


def allowed(level):
    return binom.ppf(0.999, AUDITS, level)


@pytest.mark.parametrize("truth", [0.0, 0.5, 2.0])
def test_coverage_of_randomised_response(truth):
    """Right with e^eps/(1 + e^eps), all guessed: the bound is met exactly, up to its steps."""
    level, canaries = 0.2, 150
    right = 1 / (1 + math.exp(-truth))
    shown = cache(lambda v: steinke(canaries, canaries, v, delta=0, confidence=1 - level).epsilon)
    correct = np.random.default_rng(5).binomial(canaries, right, size=AUDITS)
    over = sum(shown(int(v)) > truth for v in correct)
    assert 0.5 * level * AUDITS < over <= allowed(level)  # not so loose that a wrong one would pass
    # Planted: two more right guesses than there were.
    wrong = sum(shown(min(int(v) + 2, canaries)) > truth for v in correct)
    assert wrong > allowed(level)


def test_coverage_with_a_delta():
    """The coin itself leaks with probability delta; otherwise randomised response."""
    level, canaries, truth, delta = 0.2, 150, 1.0, 2e-3
    right = delta + (1 - delta) / (1 + math.exp(-truth))
    shown = cache(lambda v: steinke(canaries, canaries, v, delta=delta, confidence=1 - level))
    correct = np.random.default_rng(6).binomial(canaries, right, size=AUDITS)
    assert sum(shown(int(v)).epsilon > truth for v in correct) <= allowed(level)


@pytest.mark.parametrize("mu", [0.0, 0.5, 1.5])
@pytest.mark.parametrize("guesses", [20, 100])
def test_coverage_of_gaussian_canaries(mu, guesses):
    """Independent canaries, each seen through noise; a share of them guessed both ways."""
    level, canaries, delta = 0.2, 100, 1e-3
    truth = gaussian.epsilon(mu, delta)
    generator = np.random.default_rng(9)
    included = generator.random((AUDITS, canaries)) < 0.5
    order = np.argsort(included * mu + generator.normal(size=included.shape), axis=1)
    ranked = np.take_along_axis(included, order, axis=1)
    half = guesses // 2
    correct = ranked[:, -half:].sum(axis=1) + (~ranked[:, :half]).sum(axis=1)
    counts = (canaries, guesses)
    plain = cache(lambda v: steinke(*counts, v, delta=delta, confidence=1 - level).epsilon)
    refined = cache(lambda v: f_dp_mu(*counts, v, confidence=1 - level))
    assert sum(plain(int(v)) > truth for v in correct) <= allowed(level)
    assert sum(refined(int(v)) > mu for v in correct) <= allowed(level)
