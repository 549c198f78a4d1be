"""The last iterate of a linear loss: golden vectors, dp-accounting, quadrature, its ends."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from sordino.accounting import gaussian
from sordino.accounting.last_iterate.convex import linear_heuristic, linear_loss
from sordino.accounting.last_iterate.linear_loss import LinearLoss, binomial
from sordino.accounting.pld.loss import PoissonLoss
from sordino.accounting.profile import LossProfile
from sordino.errors import InvalidArgument, NotApplicable
from sordino.privacy import Estimate, Relation

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "accounting_3_4_5.json").read_text())[
    "5_linear_loss"
]


def cases(name):
    entry = GOLDEN[name]
    return [pytest.param(case, entry["tol"]["rel"], id=str(case)) for case in entry["cases"]]


def profile_of(case):
    return linear_loss(noise_multiplier=case["sigma"], sample_rate=case["q"], steps=case["T"])


@pytest.mark.parametrize(("case", "rel"), cases("delta"))
def test_delta_golden(case, rel):
    profile = profile_of(case)
    assert profile.delta(case["eps"], "forward") == pytest.approx(case["delta_remove"], rel=rel)
    assert profile.delta(case["eps"], "backward") == pytest.approx(case["delta_add"], rel=rel)
    assert profile.delta(case["eps"]) <= case["delta_composition_pld"] * (1 + 1e-6)


def test_small_deltas_of_both_directions():
    profile = linear_loss(noise_multiplier=0.5, sample_rate=0.01, steps=1024)
    assert profile.delta(4, "forward") == pytest.approx(4.01276126710428e-8, rel=1e-9)
    assert profile.delta(4, "backward") == pytest.approx(3.69345609643e-16, rel=1e-9)


@pytest.mark.parametrize(("case", "rel"), cases("eps"))
def test_epsilon_golden(case, rel):
    found = profile_of(case).epsilon(case["delta"])
    assert found == pytest.approx(case["eps_last_iterate_linear"], rel=rel)
    assert found < case["eps_composition_pld"]


@pytest.mark.parametrize(("case", "rel"), cases("tradeoff_T100_q0_1_s1"))
def test_tradeoff_golden(case, rel):
    loss = LinearLoss(0.1, 1.0, 100)
    drawn, other = loss.masses(loss.at(np.array([float(case["t"])])), "forward")
    assert other[1] == pytest.approx(case["alpha"], rel=rel)
    assert drawn[0] == pytest.approx(case["beta"], rel=rel)
    lines = linear_loss(noise_multiplier=1.0, sample_rate=0.1, steps=100)
    assert lines.beta(case["alpha"], "forward") == pytest.approx(case["beta"], rel=1e-3)
    assert lines.beta(case["alpha"], "forward") <= case["beta"] * (1 + 1e-9)


@pytest.mark.parametrize(("steps", "rate", "noise"), [(20, 0.1, 1.0), (60, 0.02, 0.5)])
def test_agrees_with_dp_accounting(steps, rate, noise):
    counts = np.arange(steps + 1)
    odds = binom.pmf(counts, steps, rate)
    theirs = pld.from_mixture_gaussian_mechanism(
        standard_deviation=noise * math.sqrt(steps),
        sensitivities=counts[odds > 0].tolist(),
        sampling_probs=(odds[odds > 0] / odds.sum()).tolist(),
        value_discretization_interval=1e-2,
    )
    ours = linear_loss(noise_multiplier=noise, sample_rate=rate, steps=steps)
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        expected = theirs.get_delta_for_epsilon(epsilon)
        # Theirs is rounded up, by the square of its grid's spacing.
        assert ours.delta(epsilon) == pytest.approx(expected, rel=2e-4)
        assert ours.delta(epsilon) <= expected * (1 + 1e-9)


@settings(max_examples=40)
@given(st.integers(1, 40), st.floats(0.01, 0.99), st.floats(0.3, 3), st.floats(0, 3))
def test_agrees_with_quadrature(steps, rate, noise, epsilon):
    scale = noise * math.sqrt(steps)
    x = np.linspace(-10 * scale, steps + 10 * scale, 40_001)
    odds = binom.pmf(np.arange(steps + 1), steps, rate)
    p, q = norm.pdf(x[:, None], np.arange(steps + 1), scale) @ odds, norm.pdf(x, 0, scale)
    profile = linear_loss(noise_multiplier=noise, sample_rate=rate, steps=steps)
    for direction, (first, second) in (("forward", (p, q)), ("backward", (q, p))):
        expected = np.trapezoid(np.maximum(first - math.exp(epsilon) * second, 0), x)
        # The rule errs at the kink by about spacing^2 times the slope there.
        assert profile.delta(epsilon, direction) == pytest.approx(expected, rel=1e-4, abs=1e-7)


@given(st.floats(0.001, 0.99), st.floats(0.3, 5), st.floats(0, 3))
def test_one_step_is_the_poisson_sampled_gaussian(rate, noise, epsilon):
    ours, plain = LinearLoss(rate, noise, 1), PoissonLoss(rate, noise)
    for direction in ("forward", "backward"):
        expected = math.exp(plain.log_delta(epsilon, direction))
        found = math.exp(ours.log_delta(epsilon, direction))
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-13)
        assert ours.largest(direction) == pytest.approx(plain.largest(direction))


def test_composes_like_the_law_it_equals():
    runs = {"relation": Relation.ZERO_OUT, "theorem": ""}
    ours = LossProfile(components=((LinearLoss(0.1, 1.5, 1), 20),), **runs)
    plain = LossProfile(components=((PoissonLoss(0.1, 1.5), 20),), **runs)
    for direction in ("forward", "backward"):
        assert ours.epsilon(1e-5, direction) == pytest.approx(
            plain.epsilon(1e-5, direction), rel=1e-4
        )
    orders = np.array([1.5, 2.0, 8.0, 32.0])
    assert ours.renyi(orders) == pytest.approx(plain.renyi(orders), rel=1e-9)


def test_moments_of_a_short_run_by_their_definition():
    loss, theta = LinearLoss(0.2, 1.2, 12), 1.7
    x = np.linspace(-60, 80, 60_001)
    p = norm.pdf(x[:, None], np.arange(13), loss.scale) @ binom.pmf(np.arange(13), 12, 0.2)
    q = norm.pdf(x, 0, loss.scale)
    for direction, (first, second) in (("forward", (p, q)), ("backward", (q, p))):
        expected = math.log(np.trapezoid(first ** (1 + theta) * second**-theta, x))
        assert loss.log_moments(np.array([theta]), direction)[0] == pytest.approx(
            expected, rel=1e-7
        )


def test_moments_of_a_long_run_are_an_upper_bound():
    short, thetas = LinearLoss(0.2, 1.0, 300), np.array([0.5, 3.0])
    long = LinearLoss(0.2, 1.0, 301)
    for direction in ("forward", "backward"):
        assert (long.log_moments(thetas, direction) > short.log_moments(thetas, direction)).all()


def test_every_record_in_every_step_is_one_gaussian():
    profile = linear_loss(noise_multiplier=5.0, sample_rate=1.0, steps=100)
    assert profile.epsilon(1e-5) == pytest.approx(gaussian.epsilon(2.0, 1e-5), rel=1e-9)


@pytest.mark.parametrize(("rate", "noise"), [(0.01, 1.0), (1e-4, 0.7), (0.3, 30.0)])
def test_a_million_steps(rate, noise):
    steps = 10**6
    profile = linear_loss(noise_multiplier=noise, sample_rate=rate, steps=steps)
    found = profile.epsilon(1e-5)
    # The counts' spread adds to the noise, of the same kind: between two Gaussians.
    mean = rate * math.sqrt(steps) / noise
    assert found > gaussian.epsilon(mean, 1e-5)
    assert found < gaussian.epsilon(mean * (1 + 6 / math.sqrt(rate * steps)), 1e-5)


@pytest.mark.parametrize(("trials", "rate"), [(50, 0.3), (5000, 0.01), (10**6, 0.5), (10**6, 1e-7)])
def test_binomial_probabilities(trials, rate):
    counts, logs, rest = binomial(trials, rate)
    near = np.abs(counts - trials * rate) < 8 * math.sqrt(trials * rate) + 8
    expected = binom.logpmf(counts[near], trials, rate)
    assert logs[near] == pytest.approx(expected, rel=1e-7, abs=1e-7)  # scipy's own digits
    assert math.fsum(np.exp(logs)) == pytest.approx(1, abs=1e-12)
    assert rest < -680
    assert len(counts) < 60_000


def test_counts_left_out_are_disclosures():
    loss = LinearLoss(0.01, 0.05, 5000)
    rest = binomial(5000, 0.01)[2]
    assert loss.log_delta(1e7, "forward") == pytest.approx(rest)
    above = loss.masses(np.array([1e7]), "forward")[0][-1]
    assert above == pytest.approx(math.exp(rest), rel=1e-9, abs=0)


def test_ends():
    run = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 10}
    assert linear_loss(**{**run, "noise_multiplier": 0}).epsilon(1e-5) == math.inf
    assert linear_loss(**{**run, "sample_rate": 0}).epsilon(0.0) == 0
    assert linear_loss(**{**run, "steps": 0}).epsilon(0.0) == 0
    assert linear_loss(**run).epsilon(0.0) == math.inf
    largest = -10 * math.log(0.9)
    assert linear_loss(**run).epsilon(0.0, "backward") == pytest.approx(largest)
    assert linear_loss(**run).delta(largest, "backward") == 0
    assert 0 < linear_loss(**run).delta(0.99 * largest, "backward") < 1e-12
    assert linear_loss(**{**run, "steps": 400, "sample_rate": 5e-324}).epsilon(1e-9) == 0


def test_is_a_guarantee_for_linear_losses_and_says_so():
    profile = linear_loss(noise_multiplier=1.0, sample_rate=0.1, steps=10)
    assert "linear loss" in profile.theorem
    assert profile.relation is Relation.ADD_OR_REMOVE_ONE
    with pytest.raises(NotApplicable, match="not replaced; ask for"):
        linear_loss(noise_multiplier=1.0, sample_rate=0.1, steps=10, relation=Relation.REPLACE_ONE)


def test_for_other_losses_it_is_an_estimate():
    run = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 100}
    estimate = linear_heuristic(**run, delta=1e-5)
    assert isinstance(estimate, Estimate)
    assert estimate.epsilon == pytest.approx(5.358223495945358, rel=1e-6)
    assert "not a guarantee" in str(estimate)
    assert "computed, not measured" in str(estimate)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"noise_multiplier": -1}, "noise_multiplier=-1 >= 0"),
        ({"sample_rate": 1.1}, r"sample_rate=1\.1 in \[0, 1\]"),
        ({"steps": 1.5}, r"steps=1\.5 to be a whole number"),
    ],
)
def test_refusals(changed, sentence):
    run = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 10}
    with pytest.raises(InvalidArgument, match=f"^Expected {sentence}"):
        linear_loss(**{**run, **changed})
