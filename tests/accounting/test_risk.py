"""Risks from the trade-off curve: closed forms, exact tests and attackers, directions, targets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from sordino.accounting.calibrate import noise_for_risk
from sordino.accounting.dp_sgd import pld, rdp
from sordino.accounting.pld.loss import GaussianLoss
from sordino.accounting.profile import ApproximateProfile, GaussianProfile, LossProfile
from sordino.accounting.risk import FALSE_ALARMS, RiskTarget
from sordino.errors import InvalidArgument, NotApplicable
from sordino.privacy import Relation

ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
NAMED = {"relation": ADD, "theorem": "a test"}
LINES = 1e-6
"""What `Profile.beta` may lose, always on the private side."""
RATES = st.floats(-5, -0.01).map(lambda power: 10.0**power)


def gaussian(mu, relation=ADD):
    return GaussianProfile(parameter=mu, relation=relation, theorem="a test").risk()


def poisson(noise, rate, steps=1):
    return pld(noise, rate, steps, sampling="poisson", relation=ADD)


def mixture(cut, noise, rate):
    """P and Q of losses above a cut, of one Poisson step with and without the record."""
    return (1 - rate) * ndtr(-cut / noise) + rate * ndtr((1 - cut) / noise), ndtr(-cut / noise)


def exact(alpha, noise, rate, direction):
    """The power of the best test of one Poisson step, by Neyman and Pearson's lemma."""
    low, high = -60 * noise - 2, 60 * noise + 2
    for _ in range(200):
        cut = (low + high) / 2
        with_it, without = mixture(cut, noise, rate)
        # For its absence the test says so below the cut, and is wrong with the record there.
        wrong = without if direction == "forward" else 1 - with_it
        up = wrong > alpha if direction == "forward" else wrong <= alpha
        low, high = (cut, high) if up else (low, cut)
    with_it, without = mixture(low, noise, rate)
    return with_it if direction == "forward" else 1 - without


@given(mu=st.floats(0.01, 4), alpha=RATES, prior=st.floats(0.001, 0.999))
def test_gaussian_noise_has_closed_forms(mu, alpha, prior):
    risk = gaussian(mu)
    power = ndtr(ndtri(alpha) + mu)
    assert risk.advantage == pytest.approx(2 * ndtr(mu / 2) - 1, rel=1e-9)
    assert risk.guess() == pytest.approx(ndtr(mu / 2), rel=1e-12)
    assert risk.detection(alpha) == pytest.approx(power, rel=1e-9)
    assert risk.reconstruction(alpha) == pytest.approx(power, rel=1e-9)
    after = prior * power / (prior * power + (1 - prior) * alpha)
    assert risk.posterior(prior, alpha) == pytest.approx(after, rel=1e-9)
    # The best guess at any prior cuts at even odds: a test with error rates of its own.
    cut = mu / 2 + math.log((1 - prior) / prior) / mu
    right = prior * ndtr(mu - cut) + (1 - prior) * ndtr(cut)
    assert risk.guess(prior) == pytest.approx(right, rel=1e-9)
    assert risk.gaussian() == (mu, 0.0)


@given(
    noise=st.floats(0.4, 5),
    rate=st.floats(0.01, 0.9),
    alpha=st.floats(1e-4, 0.5),
    prior=st.floats(0.05, 0.95),
)
@settings(max_examples=25)
def test_no_test_of_one_step_beats_it_and_the_best_one_meets_it(noise, rate, alpha, prior):
    risk = poisson(noise, rate).risk()
    forward, backward = (exact(alpha, noise, rate, way) for way in ("forward", "backward"))
    assert risk.reconstruction(alpha) == pytest.approx(forward, abs=LINES)
    assert risk.detection(alpha) == pytest.approx(max(forward, backward), abs=LINES)
    cuts = np.linspace(-20 * noise, 20 * noise + 1, 4001)
    with_it, without = mixture(cuts, noise, rate)
    assert risk.advantage >= (with_it - without).max() - 1e-15
    assert risk.advantage == pytest.approx((with_it - without).max(), abs=1e-4)
    guesses = prior * with_it + (1 - prior) * (1 - without)
    assert guesses.max() - 1e-12 <= risk.guess(prior) <= guesses.max() + 1e-4


def test_reconstruction_goes_from_without_to_with_the_record():
    """The other direction would be a promise too many: 0.038 where an attacker has 0.065."""
    profile = poisson(0.5, 0.3)
    right, wrong = (exact(0.001, 0.5, 0.3, way) for way in ("forward", "backward"))
    assert wrong < 0.1 * right
    assert profile.risk().reconstruction(0.001) == pytest.approx(right, abs=LINES)
    # Whoever tests for absence is bounded, too.
    assert profile.risk().detection(0.6) >= exact(0.6, 0.5, 0.3, "backward") - 1e-12
    # A replaced record is in both worlds, so that the worse direction counts.
    replaced = ApproximateProfile(budget=(1.0, 0.0), relation=REPLACE, theorem="a test")
    assert replaced.risk().reconstruction(0.1) == pytest.approx(0.1 * math.e)


@given(noise=st.floats(0.3, 5))
def test_a_secret_sign_is_guessed_exactly_so_often(noise):
    """A record of +1 or -1, even odds, on its own in a sum with noise: the bound is attained."""
    assert gaussian(1 / noise).reconstruction(0.5) == pytest.approx(ndtr(1 / noise), rel=1e-12)


@settings(max_examples=20)
@given(st.lists(st.floats(0.05, 1), min_size=2, max_size=6), st.floats(0.4, 3), st.integers(0, 99))
def test_no_guesser_of_many_secrets_beats_it(weights, noise, seed):
    """Bayes' own attacker on values in [-1, 1] by quadrature, beside his best blind guess."""
    prior = np.array(weights) / math.fsum(weights)
    values = np.random.default_rng(seed).uniform(-1, 1, len(prior))
    x = np.linspace(-1 - 12 * noise, 1 + 12 * noise, 6001)
    density = np.exp(-((x - values[:, None]) ** 2) / (2 * noise**2))
    density /= noise * math.sqrt(2 * math.pi)
    success = float((prior[:, None] * density).max(axis=0).sum() * (x[1] - x[0]))
    assert success <= gaussian(1 / noise).reconstruction(float(prior.max())) + 1e-9


def test_the_closest_gaussian_curve_of_a_gaussian_is_itself():
    profile = LossProfile(components=((GaussianLoss((1.3,)), 1),), **NAMED)
    mu, error = profile.risk().gaussian()
    assert mu == pytest.approx(1.3, rel=1e-5)
    assert error < 5e-4


@pytest.mark.parametrize(
    "profile",
    [
        poisson(1.1, 0.01, 1000),
        poisson(0.7, 0.1, 20),
        poisson(1.0, 0.2),
        pld(2.0, 0.1, 20, sampling="fixed-size", relation=REPLACE),
        rdp(1.0, 0.1, 20, sampling="poisson", relation=ADD),
        ApproximateProfile(budget=(1.0, 1e-3), **NAMED),
    ],
    ids=("many", "few", "one", "fixed-size", "renyi", "promise"),
)
def test_the_error_of_a_gaussian_curve_holds_everywhere_and_is_not_idle(profile):
    risk = profile.risk()
    mu, error = risk.gaussian()
    alphas = np.concatenate([np.geomspace(1e-6, 0.1, 40), np.linspace(0.1, 1, 40)])
    gaps = []
    for way in ("forward", "backward"):
        betas = np.array([profile.beta(float(alpha), way) for alpha in alphas])
        gaps.append(ndtr(-ndtri(alphas) - mu) - betas)
    assert np.max(gaps) <= error + LINES
    assert np.min(gaps) >= -error - LINES
    # A curve that met it everywhere would have no error; this one is told within a tenth.
    assert np.max(np.abs(gaps)) >= 0.9 * error - 3e-4


def test_where_nothing_or_all_is_told():
    nothing, all_of_it = gaussian(0.0), gaussian(math.inf)
    assert (nothing.guess(), nothing.detection(0.01), nothing.reconstruction(0.2)) == (
        *(0.5, pytest.approx(0.01)),
        pytest.approx(0.2),
    )
    assert nothing.posterior(0.3, 0.01) == pytest.approx(0.3)
    assert (all_of_it.guess(), all_of_it.detection(0.0), all_of_it.reconstruction(0.0)) == (1, 1, 1)
    open_book = ApproximateProfile(budget=(math.inf, 0.0), **NAMED).risk()
    assert open_book.gaussian() == (math.inf, 0.0)
    assert open_book.guess() == 1
    assert (nothing.guess(0.0), nothing.guess(1.0)) == (1, 1)
    assert (nothing.posterior(0.0, 0.01), nothing.posterior(1.0, 0.01)) == (0, 1)


@given(rate=RATES, power=st.integers(-12, -1))
@settings(max_examples=20)
def test_no_risk_is_below_what_is_there_without_a_release(rate, power):
    risk = gaussian(10.0**power)
    assert risk.detection(rate) >= rate
    assert risk.reconstruction(rate) >= rate


def test_the_usual_risks_as_plain_values():
    risk = poisson(1.0, 0.1, 2).risk()
    plain = risk.plain()
    assert plain["guess"] == (1 + plain["advantage"]) / 2
    assert [each["false_alarms"] for each in plain["detection"]] == [0.001, 0.01, 0.05]
    for detected, believed in zip(plain["detection"], plain["posterior"], strict=True):
        assert detected["at_most"] == risk.detection(detected["false_alarms"])
        assert believed["at_most"] == risk.posterior(believed["prior"], believed["false_alarms"])
    for each in plain["reconstruction"]:
        assert each["at_most"] == risk.reconstruction(each["baseline"]) > each["baseline"]
    assert plain["closest_gaussian"] == dict(zip(("mu", "error"), risk.gaussian(), strict=True))


def test_every_risk_falls_as_noise_grows():
    risks = [poisson(noise, 0.2, 10).risk() for noise in (0.6, 1.5, 5.0)]
    for risk in (
        lambda each: each.advantage,
        lambda each: each.guess(0.2),
        *(lambda each, alpha=alpha: each.detection(alpha) for alpha in FALSE_ALARMS),
        lambda each: each.posterior(0.1, 0.01),
        lambda each: each.reconstruction(0.1),
    ):
        values = [risk(each) for each in risks]
        assert values == sorted(values, reverse=True)
        assert len(set(values)) == len(values)


TARGETS = ("advantage<=0.05", "detection<=0.02@0.01", "reconstruction<=0.05@0.01")


@pytest.mark.parametrize("text", TARGETS)
@pytest.mark.parametrize("sampling", ["poisson", "full"])
def test_the_noise_that_is_found_meets_the_target_and_little_less_does_not(text, sampling):
    target = RiskTarget.parse(text)
    rate = 0.1 if sampling == "poisson" else 1.0

    def profile_at(noise):
        return pld(noise, rate, 10, sampling=sampling, relation=Relation.ZERO_OUT)

    noise = noise_for_risk(profile_at, target)
    assert target.of(profile_at(noise)) <= target.most
    assert target.of(profile_at(noise * (1 - 1e-4))) > target.most
    assert str(target) == text
    assert f"{target.most:g}" in target.words


def test_noise_for_gaussian_targets_by_hand():
    def profile_at(noise):
        return GaussianProfile(parameter=1 / noise, **NAMED)

    for text, mu in (
        (TARGETS[0], 2 * ndtri(0.525)),
        (TARGETS[1], ndtri(0.02) - ndtri(0.01)),
        (TARGETS[2], ndtri(0.05) - ndtri(0.01)),
    ):
        noise = noise_for_risk(profile_at, RiskTarget.parse(text))
        assert 1 / mu * (1 - 1e-9) <= noise <= 1 / mu * (1 + 1e-5)


def test_nothing_looked_at_needs_no_noise_and_some_targets_more_than_there_is():
    target = RiskTarget("advantage", 1e-13)
    assert noise_for_risk(lambda noise: GaussianProfile(parameter=0.0, **NAMED), target) == 0
    with pytest.raises(NotApplicable, match="meets this target"):
        noise_for_risk(lambda noise: GaussianProfile(parameter=1 / noise, **NAMED), target)


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("epsilon<=1", "target"),
        ("detection", "target"),
        ("detection<0.1@0.01", "target"),
        ("advantage<=0.05@0.01", "advantage"),
        ("advantage<=0", "advantage"),
        ("advantage<=1", "advantage"),
        ("advantage<=nan", "advantage"),
        ("advantage<=1.2.3", "advantage"),
        ("detection<=0.02", "detection"),
        ("detection<=0.01@0.01", "detection"),
        ("detection<=0.01@0.02", "detection"),
        ("reconstruction<=1.5@0.5", "reconstruction"),
        ("reconstruction<=0.5@1.5", "reconstruction"),
    ],
)
def test_targets_that_no_noise_reaches_or_that_say_nothing(text, argument):
    with pytest.raises(InvalidArgument) as refused:
        RiskTarget.parse(text)
    assert refused.value.argument == argument
    assert "\n" not in str(refused.value)


def test_bad_arguments_are_named():
    risk = gaussian(1.0)
    for ask, argument in (
        (lambda: risk.detection(1.5), "false_alarms"),
        (lambda: risk.posterior(0.1, 0.0), "false_alarms"),
        (lambda: risk.posterior(-0.1, 0.1), "prior"),
        (lambda: risk.guess(math.nan), "prior"),
        (lambda: risk.reconstruction("half"), "baseline"),
        (lambda: RiskTarget("epsilon", 1.0), "kind"),
        (lambda: RiskTarget("advantage", 0.1, 0.05), "advantage"),
    ):
        with pytest.raises(InvalidArgument) as refused:
            ask()
        assert refused.value.argument == argument
