"""Annamalai's loss: golden vectors, the loop against a slow one, what its last iterate tells."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from sordino import randomness
from sordino.accounting.last_iterate.linear_loss import linear_loss
from sordino.audit import worst_case
from sordino.audit.band import refutes
from sordino.audit.worst_case import (
    Family,
    WorstCase,
    error_rates,
    likelihood_ratio_all_iterates,
    linear_curve,
    linear_last_iterate,
    log_ratio,
    lower_hull,
    tradeoff,
)
from sordino.errors import InvalidArgument

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "audit_6_7.json").read_text())[
    "6_worst_case_loss"
]
PRINTED = (0.01, 1024, 0.5)
"""Sample rate, steps and noise of the one setting of Figure 1 that the paper's text names."""
EPSILON_TWO = (0.1, 100, 2.2477114979910477)


def cases(name: str) -> list:
    return [pytest.param(case, id=str(case)[:60]) for case in GOLDEN[name]["cases"]]


def stream(*name: str | int) -> np.random.Generator:
    return randomness.stream("test", "worst case", *name)


def auc(negative: np.ndarray, positive: np.ndarray) -> float:
    ranks = rankdata(np.concatenate([negative, positive]))[len(negative) :]
    return float((ranks.mean() - (len(positive) + 1) / 2) / len(negative))


@pytest.mark.parametrize("case", cases("sigma_for_eps"))
def test_noise_for_an_epsilon_golden(case) -> None:
    family = Family(case["q"], case["T"], case["delta"])
    rel = GOLDEN["sigma_for_eps"]["tol"]["rel"]
    assert family.noise(case["eps"]) == pytest.approx(case["sigma"], rel=rel)
    # Calibrated from the proved side (law 6).
    found = family(case["eps"]).epsilon(case["delta"])
    assert case["eps"] * (1 - 1e-4) <= found <= case["eps"]


@pytest.mark.parametrize("case", cases("sigma_check"))
def test_epsilon_of_a_noise_golden(case) -> None:
    low, high = case["own_bracket"]
    assert low <= Family(case["q"], case["T"]).profile(case["z"]).epsilon(1e-5) <= high


@pytest.mark.parametrize("row", GOLDEN["tradeoff_pld"]["cases"][0]["rows"])
def test_tradeoff_golden(row) -> None:
    case = GOLDEN["tradeoff_pld"]["cases"][0]
    way = {"H1=with record": "forward", "H1=without record": "backward"}[row["direction"]]
    profile = Family(case["q"], case["T"]).profile(case["sigma"])
    found = tradeoff(profile, row["alpha"], way)
    assert (found >= row["f_lower"]).all()
    assert (found <= row["f_upper"]).all()
    # The symmetric curve lies below both.
    assert (tradeoff(profile, row["alpha"], "both") <= found + 1e-12).all()


@pytest.mark.parametrize(("rate", "noise"), [(0.1, 2.0), (0.01, 0.5), (1.0, 0.7)])
def test_log_ratio_is_that_of_the_densities(rate: float, noise: float) -> None:
    v = np.linspace(-3, 4, 29)
    without = norm.pdf(v, 0, noise)
    expected = np.log((rate * norm.pdf(v, 1, noise) + (1 - rate) * without) / without)
    np.testing.assert_allclose(log_ratio(v, rate, noise), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_log_ratio_stays_finite_far_out(rate: float) -> None:
    assert np.isfinite(log_ratio(np.array([-1e6, 1e6]), rate, 0.01)).all()


class Recorded:
    """A generator whose draws can be read again."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator, self.draws = generator, []

    def _keep(self, values):
        self.draws.append(values)
        return values

    def binomial(self, *arguments):
        return self._keep(self._generator.binomial(*arguments))

    def standard_normal(self, *arguments):
        return self._keep(self._generator.standard_normal(*arguments))

    def random(self, *arguments):
        return self._keep(self._generator.random(*arguments))


def record_by_record(setting: WorstCase, draws: list, run: int) -> float:
    """The final iterate of one run of D', every clipped gradient added one by one."""
    q, s, base = setting.sample_rate, setting.noise_multiplier, setting.base
    sign = -1 if setting.minus_sign else 1

    def gradient(x: float, theta: float) -> float:
        if theta == 0:
            return x
        kept = base * round(theta / base)
        v = theta - kept
        ratio = math.log(q * math.exp(-((v - 1) ** 2) / (2 * s * s) + v**2 / (2 * s * s)) + 1 - q)
        return (base * round(setting.units * ratio) - v) / (q * setting.records) + x

    theta = 0.0
    for step in range(setting.steps):
        zeros, noise, drawn = (draws[3 * step + kind][run] for kind in range(3))
        batch = [0.0] * zeros + [1.0] * int(drawn < q)
        clipped = [min(1.0, max(-1.0, gradient(x, theta))) for x in batch]
        theta += sign * (sum(clipped) + s * noise)
    return (theta + q * setting.records * gradient(0.0, theta)) / (setting.units * base)


@pytest.mark.parametrize(
    ("records", "minus_sign", "tight"),
    [(2_000, False, False), (2_000, True, False), (40, False, True)],
)
def test_the_loop_is_dp_sgd_record_by_record(records: int, minus_sign: bool, tight: bool) -> None:
    """With few records gradients are clipped too (`tight`); with many, none of the zeros' is."""
    setting = WorstCase(0.3, 6, 0.8, 10.0, records, minus_sign=minus_sign)
    recorded = Recorded(stream("record by record"))
    final = setting.trace(5, True, recorded)[0]
    expected = [record_by_record(setting, recorded.draws, run) for run in range(5)]
    np.testing.assert_allclose(final, expected, rtol=0, atol=1e-9)
    reached = np.abs(setting.gradient(0.0, np.array([3.1]))).max()
    assert (reached > 1) == tight


def test_gradient_at_zero_is_the_record_and_only_there() -> None:
    setting = WorstCase.choose(0.1, 100, 1.0)
    weights = np.array([0.0, 1e-300])
    of_one = setting.gradient(1.0, weights)
    assert of_one[0] == 1.0
    assert of_one[1] != 1.0
    np.testing.assert_array_equal(of_one, setting.gradient(0.0, weights) + 1)


def test_one_step_is_the_likelihood_ratio_rounded() -> None:
    setting = WorstCase.choose(0.1, 1, 0.8)
    for with_record in (False, True):
        final, seen = setting.trace(3000, with_record, stream("one step", with_record))
        assert np.abs(final - seen).max() <= 0.5 / setting.units + 1e-12


@pytest.mark.parametrize(("training", "runs"), [(EPSILON_TWO, 2000), (PRINTED, 300)])
def test_the_final_iterate_tells_what_all_iterates_tell(training, runs: int) -> None:
    setting = WorstCase.choose(*training)
    for with_record in (False, True):
        final, seen = setting.trace(runs, with_record, stream("final", with_record))
        assert np.corrcoef(final, seen)[0, 1] > 0.9999
        assert abs(np.mean(final - seen)) < 0.01 * seen.std()


def test_the_papers_own_settings_lose_digits_and_its_sign_loses_all() -> None:
    good, literal, minus = (
        WorstCase.choose(*EPSILON_TWO),
        WorstCase.literal(*EPSILON_TWO),
        WorstCase.literal(*EPSILON_TWO, minus_sign=True),
    )
    assert (literal.base, literal.units, literal.records) == (10.0, 100.0, 10**10)
    shown = {}
    for name, setting in (("good", good), ("literal", literal), ("minus", minus)):
        worlds = [setting.trace(4000, way, stream(name, way))[0] for way in (False, True)]
        shown[name] = auc(*worlds)
    error = 3 * math.sqrt(2 / (12 * 4000))  # three standard errors of an AUC near 1/2
    assert shown["good"] == pytest.approx(0.625, abs=error)
    assert shown["literal"] == pytest.approx(0.587, abs=error)
    assert shown["minus"] == pytest.approx(0.5, abs=error)


@pytest.mark.parametrize(
    ("noise", "base"), [(0.2, 10.0), (0.5, 10.0), (3.3, 10.0), (3.4, 100.0), (40.0, 1000.0)]
)
def test_the_papers_base_is_the_power_of_ten_above_three_sigma(noise: float, base: float) -> None:
    assert WorstCase.literal(0.1, 10, noise).base == base


def test_more_steps_get_more_digits() -> None:
    few, many = WorstCase.choose(0.1, 100, 1.5), WorstCase.choose(0.01, 1024, 1.5)
    assert (few.units, few.records) == (1e3, 10**12)
    assert (many.units, many.records) == (1e4, 10**15)
    assert few.base == 2 * (6.5 * 1.5 + 1)


def test_runs_depend_on_the_generator_alone_and_are_told(monkeypatch) -> None:
    setting = WorstCase.choose(0.2, 5, 1.0)
    monkeypatch.setattr(worst_case, "_BLOCK", 32)
    told: list[int] = []
    first = setting.trace(70, True, stream("same"), told.append)[0]
    np.testing.assert_array_equal(first, setting.trace(70, True, stream("same"))[0])
    assert told == [32, 32, 6]
    assert len(np.unique(first)) > 60  # blocks are not repeats of each other


def test_likelihood_ratios_have_mean_one() -> None:
    """E_0[ratio] = 1 and E_1[1/ratio] = 1: true of a likelihood ratio of these two laws only."""
    training = (0.1, 50, 1.5)
    for with_record in (False, True):
        scores = likelihood_ratio_all_iterates(*training, 40_000, with_record, stream("mean"))
        values = np.exp(-scores if with_record else scores)
        error = values.std() / math.sqrt(len(values))
        assert values.mean() == pytest.approx(1, abs=4 * error)
        assert error < 0.02


def test_linear_curve_is_that_of_accounting_and_of_simulation() -> None:
    training = (0.1, 100, 1.0)
    alphas = np.array([0.001, 0.05, 0.3, 0.7, 0.99])
    exact = linear_curve(*training, alphas)
    profile = linear_loss(noise_multiplier=1.0, sample_rate=0.1, steps=100)
    np.testing.assert_allclose(tradeoff(profile, alphas), exact, atol=1e-6)
    # The mirror image tests for absence.
    np.testing.assert_allclose(tradeoff(profile, exact, "backward"), alphas, atol=1e-5)
    # How the probabilities' sum is rounded depends on the processor.
    assert 1 - 1e-12 <= linear_curve(*training, 0.0) <= 1.0
    assert linear_curve(*training, 1.0) == 0.0
    runs = 50_000
    without, with_it = (
        linear_last_iterate(*training, runs, way, stream("linear", way)) for way in (False, True)
    )
    for threshold in (0.0, 10.0, 20.0):
        alpha, beta = np.mean(without >= threshold), np.mean(with_it < threshold)
        expected = linear_curve(*training, norm.sf(threshold / 10))
        assert alpha == pytest.approx(norm.sf(threshold / 10), abs=4 * 0.5 / math.sqrt(runs))
        assert beta == pytest.approx(expected, abs=4 * 0.5 / math.sqrt(runs))


def test_the_printed_setting_follows_pld_and_is_far_from_linear() -> None:
    """At thresholds fixed beforehand: e^t is the slope of the trade-off function there."""
    runs = 4000
    setting = WorstCase.choose(*PRINTED)
    negative, positive = (
        setting.trace(runs, way, stream("printed", way))[0] for way in (False, True)
    )
    profile = Family(*PRINTED[:2]).profile(PRINTED[2])
    for threshold in (-2.0, -1.0, 0.0, 1.0):
        alpha, beta = float(np.mean(negative >= threshold)), float(np.mean(positive < threshold))
        variance = beta * (1 - beta) + math.exp(2 * threshold) * alpha * (1 - alpha)
        error = math.sqrt(variance / runs)
        assert beta == pytest.approx(profile.beta(alpha, "forward"), abs=4 * error)
        assert linear_curve(*PRINTED, alpha) - beta > 15 * error
    linear = linear_loss(noise_multiplier=PRINTED[2], sample_rate=PRINTED[0], steps=PRINTED[1])
    claims = {"confidence": 0.999, "direction": "forward"}
    assert refutes(negative, positive, linear, **claims)
    assert not refutes(negative, positive, profile, **claims)


def test_error_rates_count_ties_on_one_side() -> None:
    alphas, betas = error_rates(np.array([0.0, 1.0, 1.0, 2.0]), np.array([1.0, 3.0]))
    assert alphas.tolist() == [0.0, 0.25, 0.75, 1.0]  # thresholds 3, 2, 1, 0
    assert betas.tolist() == [0.5, 0.5, 0.0, 0.0]


def test_a_hull_has_the_least_of_every_slope() -> None:
    random = stream("hull")
    alphas, betas = random.random((2, 300)).round(2)  # with ties
    hull = np.array(lower_hull(alphas, betas))
    assert len(hull) < 40
    assert (np.diff(hull[:, 0]) > 0).all()
    for weight in np.geomspace(1e-3, 1e3, 50):
        everywhere = (weight * alphas + betas).min()
        assert (weight * hull[:, 0] + hull[:, 1]).min() == pytest.approx(everywhere, rel=1e-12)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"sample_rate": 0.0}, r"sample_rate=0.0 in \(0, 1\]"),
        ({"steps": 0}, "steps=0 >= 1"),
        ({"noise_multiplier": 0.0}, "noise_multiplier=0.0 > 0"),
        ({"noise_multiplier": math.inf}, "noise_multiplier=inf > 0 and finite"),
        ({"units": -1}, "units=-1 > 0"),
        ({"records": 10**16}, "records=10000000000000000 <= 1000000000000000"),
        ({"base": 0.0}, "base=0.0 > 0"),
        ({"minus_sign": "no"}, "minus_sign=no to be True or False"),
    ],
)
def test_bad_settings_are_refused(changed: dict, sentence: str) -> None:
    good = {
        "sample_rate": 0.1,
        "steps": 10,
        "noise_multiplier": 1.0,
        "units": 100.0,
        "records": 10**6,
    }
    with pytest.raises(InvalidArgument, match=sentence):
        WorstCase(**(good | changed))


def test_bad_calls_are_refused() -> None:
    setting = WorstCase.choose(0.1, 10, 1.0)
    with pytest.raises(InvalidArgument, match="runs=0 >= 1"):
        setting.trace(0, False, stream("none"))[0]
    with pytest.raises(InvalidArgument, match=r"false_positive_rates=.* in \[0, 1\]"):
        linear_curve(0.1, 10, 1.0, [0.5, 1.5])
    with pytest.raises(InvalidArgument, match="delta=0 > 0"):
        Family(0.1, 10, 0)
