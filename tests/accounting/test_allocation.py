"""Random allocation: golden vectors, both sides of every number, a referee by Monte Carlo."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from sordino.accounting import gaussian
from sordino.accounting.compose import compose
from sordino.accounting.dp_sgd import NoisySteps, pld, rdp, schedule
from sordino.accounting.pld import allocation
from sordino.accounting.pld.allocation import AllocationLoss
from sordino.accounting.pld.loss import DIRECTIONS
from sordino.accounting.profile import ApproximateProfile, LossProfile
from sordino.errors import InvalidArgument, NotApplicable
from sordino.privacy import Relation

ADD, ZERO, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.ZERO_OUT, Relation.REPLACE_ONE
# docs/math.md 13: epsilon after epochs, with the record against without, and the reverse.
EPOCHS = [
    (1.1, 234, 20, 1e-5, 1.27934, 1.243284),
    (2.0, 100, 10, 1e-6, 0.695896, 0.691118),
    (1.0, 10, 1, 1e-5, 2.188848, 1.364872),
    (1.5, 1000, 50, 1e-7, 0.771743, 0.769404),
]
ONE_EPOCH = [
    (1.0, 10, 1.0, 0.0027828695, 0.00048618606),
    (3.0, 5, 0.2, 0.007525454, 0.0073709524),
]


def allocated(noise, steps_per_epoch, epochs=1, relation=ADD):
    return pld(
        noise,
        1 / steps_per_epoch,
        epochs * steps_per_epoch,
        sampling="allocation",
        relation=relation,
        steps_per_epoch=steps_per_epoch,
    )


@pytest.mark.parametrize(("noise", "steps", "epochs", "delta", *DIRECTIONS), EPOCHS)
def test_epsilon_after_epochs(noise, steps, epochs, delta, forward, backward):
    profile = allocated(noise, steps, epochs)
    for way, exact in zip(DIRECTIONS, (forward, backward), strict=True):
        # The vectors are rounded to their last digit; the grid aims at 1e-4 on the private side.
        assert exact * (1 - 1e-6) <= profile.epsilon(delta, way) <= exact * (1 + 1e-4)
    assert allocated(noise, steps, epochs, ZERO).epsilon(delta) == profile.epsilon(delta)


@pytest.mark.parametrize(("noise", "steps", "epsilon", *DIRECTIONS), ONE_EPOCH)
def test_delta_after_one_epoch(noise, steps, epsilon, forward, backward):
    profile = allocated(noise, steps)
    for way, exact in zip(DIRECTIONS, (forward, backward), strict=True):
        assert exact * (1 - 1e-7) <= profile.delta(epsilon, way) <= exact * (1 + 3e-6)


@pytest.mark.parametrize(
    ("noise", "steps", "epsilon", "exact"),
    [(1.0, 10, 1.0, 0.0297204757), (3.0, 5, 0.2, 0.0491917594)],
)
def test_delta_after_one_epoch_with_a_record_replaced(noise, steps, epsilon, exact):
    delta = allocated(noise, steps, relation=REPLACE).delta(epsilon)
    assert exact * (1 - 1e-9) <= delta <= exact * (1 + 1e-6)


def test_epochs_with_a_record_replaced():
    profile = allocated(2.0, 100, 10, REPLACE)
    assert 1.37502 * (1 - 1e-5) <= profile.epsilon(1e-6) <= 1.37502 * (1 + 3e-4)
    added = allocated(2.0, 100, 10)
    for delta in (1e-3, 1e-6):
        assert added.epsilon(delta) < profile.epsilon(delta) < 3 * added.epsilon(delta)


def test_one_step_an_epoch_is_the_gaussian_mechanism():
    assert allocated(2.0, 1, 9).mu == 1.5
    # And the law itself knows it, on both sides.
    for lower, holds in ((False, float.__ge__), (True, float.__le__)):
        loss = AllocationLoss(1, 1.3, lower=lower)
        for way in DIRECTIONS:
            for epsilon in (0.0, 0.4, 2.0):
                exact = gaussian.log_delta(epsilon, 1 / 1.3)
                assert holds(loss.log_delta(epsilon, way), exact)
                assert loss.log_delta(epsilon, way) == pytest.approx(exact, abs=2e-3)


def sides(noise, steps, finer=1):
    return [AllocationLoss(steps, noise, finer, lower=lower) for lower in (False, True)]


def check_sides(noise, steps):
    """No probability is lost above, none gained below, and neither side crosses the other."""
    upper, lower = sides(noise, steps)
    for way in DIRECTIONS:
        _, drawn, other, lost = upper._one_way(way)
        assert drawn.sum() + lost >= 1 - 1e-15
        assert lost < 1e-6  # with little noise ratios reach e^60
        _, less, least, none = lower._one_way(way)
        assert none == 0
        assert 0.99 < less.sum() <= 1  # what cannot be merged is dropped
        assert 0.99 < least.sum() <= 1
        assert other.sum() < 1.01
        for share in (0.0, 0.01, 0.1, 0.5, 1.0, 2.0):
            epsilon = share * max(upper.reach(-20.0, way)[1], 1e-9)
            assert lower.log_delta(epsilon, way) <= upper.log_delta(epsilon, way)


@given(
    st.floats(-0.3, 4).map(lambda power: 10.0**power),
    st.floats(0.31, 4).map(lambda power: int(10.0**power)),
)
@settings(max_examples=8, deadline=None, derandomize=True)
def test_both_sides(noise, steps):
    check_sides(noise, steps)


@pytest.mark.slow
@given(
    st.floats(-0.39, 5).map(lambda power: 10.0**power),
    st.floats(0.31, 5).map(lambda power: int(10.0**power)),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_both_sides_everywhere(noise, steps):
    check_sides(noise, steps)


def test_rounding_to_the_nearest_point_would_be_false(monkeypatch):
    """A broken twin: the mean is no longer kept, so that the law is no bound."""

    def nearest(points, mass, mean):
        place = np.where(mass > 0, mean / np.maximum(mass, 1e-300), points[:-1])
        up = place - points[:-1] > np.diff(points) / 2
        spread = np.zeros(len(points))
        spread[1:] += np.where(up, mass, 0.0)
        spread[:-1] += np.where(up, 0.0, mass)
        return spread

    truth = AllocationLoss(40, 2.0, lower=True)
    monkeypatch.setattr(allocation, "_spread", nearest)
    allocation._epoch.cache_clear()
    broken = AllocationLoss(40, 2.0)
    wrong = [
        broken.log_delta(epsilon, way) < truth.log_delta(epsilon, way)
        for way in DIRECTIONS
        for epsilon in np.linspace(0.05, 0.5, 10)
    ]
    allocation._epoch.cache_clear()
    assert any(wrong)


@pytest.mark.parametrize(
    ("noise", "steps", "epochs", "epsilon"), [(1.0, 8, 3, 1.0), (2, 50, 4, 0.3)]
)
def test_monte_carlo_of_the_pair(noise, steps, epochs, epsilon):
    """Records thrown into steps, noise added, likelihood ratios taken: no grid at all."""
    generator = np.random.default_rng(7)
    runs, ratios = 200_000, np.zeros(200_000)
    for _ in range(epochs):
        seen = noise * generator.standard_normal((runs, steps))
        seen[np.arange(runs), generator.integers(steps, size=runs)] += 1
        exponents = (seen - 0.5) / noise**2
        ratios += np.log(np.mean(np.exp(exponents), axis=1))
    gains = np.maximum(0.0, -np.expm1(epsilon - ratios))
    mean, error = gains.mean(), gains.std() / math.sqrt(runs)
    profile = allocated(noise, steps, epochs)
    assert abs(profile.delta(epsilon, "forward") - mean) < 5 * error  # one in two million


def test_more_noise_steps_and_fewer_epochs_hide_more():
    known = {
        (noise, steps, epochs): allocated(noise, steps, epochs).epsilon(1e-6)
        for noise in (0.8, 1.6)
        for steps in (20, 200)
        for epochs in (2, 5)
    }
    for (noise, steps, epochs), epsilon in known.items():
        assert epsilon >= known[1.6, steps, epochs]
        assert epsilon >= known[noise, 200, epochs]
        assert epsilon <= known[noise, steps, 5]


def test_it_hides_more_than_passes_and_less_than_nothing():
    shuffle = pld(
        1.1, 1 / 234, 234 * 20, sampling="shuffle", relation=ZERO, steps_per_epoch=234
    ).epsilon(1e-5)
    poisson = pld(1.1, 256 / 60000, 4680, sampling="poisson", relation=ADD).epsilon(1e-5)
    allocation = allocated(1.1, 234, 20).epsilon(1e-5)
    # docs/math.md 13: 24.92 under replace-one; a zeroed record moves half as far.
    assert allocation < poisson < shuffle
    assert poisson == pytest.approx(1.3177, abs=5e-4)
    # So little noise that a record's step is known anyway.
    assert allocated(0.2, 50, 4).mu == 10.0


def test_an_epoch_broken_off_is_no_more_than_a_whole_one():
    def epsilon(steps):
        how = {"sampling": "allocation", "relation": ADD, "steps_per_epoch": 20}
        return pld(1.0, 0.05, steps, **how).epsilon(1e-6)

    assert epsilon(40) < epsilon(41) == epsilon(59) == pytest.approx(epsilon(60), rel=1e-9)


def test_an_answer_does_not_depend_on_what_was_asked_before():
    one, other = allocated(1.0, 30, 7), allocated(1.0, 30, 7)
    deltas = [1e-9, 1e-3, 1e-6]
    assert [one.epsilon(each) for each in deltas] == [
        other.epsilon(each) for each in reversed(deltas)
    ][::-1]


def replaced_twice(noise, epsilon):
    """Delta of an epoch of two steps by one integral: given one step's noise, the other's is known.

    Trapezoids of a smooth function on a line: to the last digits.
    """
    sigma, alpha = 1 / noise, math.exp(epsilon)
    g = np.linspace(-12, 12 + 2 * sigma, 100_001)
    value = math.exp(-(sigma**2) / 2) * (np.exp(sigma * g) - alpha * np.exp(-sigma * g))
    scaled = -value * math.exp(sigma**2 / 2)
    cut = np.arcsinh(scaled / (2 * math.sqrt(alpha))) / sigma + epsilon / (2 * sigma)
    gain = value * ndtr(-cut) + ndtr(sigma - cut) - alpha * ndtr(-sigma - cut)
    return float((np.exp(-g * g / 2) * gain).sum() * (g[1] - g[0]) / math.sqrt(2 * math.pi) / 2)


@pytest.mark.parametrize(
    ("noise", "epsilon", "loose"),
    [(0.4, 2.0, 1e-3), (0.4, 10.0, 0.1), (0.8, 5.0, 1e-3), (1.0, 0.5, 1e-5), (1.5, 2.0, 1e-5)],
)
def test_two_steps_with_a_record_replaced(noise, epsilon, loose):
    """With little noise most of delta is of rare values, beside which the grid is coarse."""
    exact = replaced_twice(noise, epsilon)
    assert 0 <= allocation._replaced(2, noise, epsilon, 0.5) - math.log(exact) <= loose


def test_brackets_are_narrow():
    """At small deltas, too: there the rounding of one transform was 0.3 of epsilon."""
    for noise, steps, epochs in ((1.1, 235, 20), (2.0, 100, 10), (1.0, 10, 5)):
        profile = allocated(noise, steps, epochs)
        for delta in (1e-5, 1e-9, 1e-12):
            lower, upper = profile.bracket(delta)
            assert upper * (1 - 1e-4) <= lower <= upper <= profile.epsilon(delta)
            assert profile.epsilon(delta) <= upper * (1 + 1e-4)


@pytest.mark.parametrize(
    ("noise", "steps", "epsilon"), [(1.1, 234, 1.5), (0.5, 50, 8.0), (0.8, 200, 3.0)]
)
def test_rare_sums_by_importance_sampling(noise, steps, epsilon):
    """One of the steps, any, is drawn where it alone makes the loss: deltas of 1e-7 to 1e-14."""
    generator, runs, wide = np.random.default_rng(5), 20_000, 1.2
    sigma, kink = 1 / noise, math.exp(epsilon)
    centre = (math.log(steps * kink - steps + 1) + sigma**2 / 2) / sigma - 0.5
    g = generator.standard_normal((runs, steps))
    moved = np.flatnonzero(generator.random(runs) < 0.8)
    where = generator.integers(steps, size=len(moved))
    g[moved, where] = centre + wide * generator.standard_normal(len(moved))
    denser = np.exp(g * g / 2 - ((g - centre) / wide) ** 2 / 2) / wide
    ratios = np.exp(sigma * g - sigma**2 / 2).mean(axis=1)
    gains = np.maximum(0.0, ratios - kink) / (0.2 + 0.8 * denser.mean(axis=1))
    mean, error = gains.mean(), gains.std() / math.sqrt(runs)
    assert 0 < error < 0.03 * mean
    for side in sides(noise, steps):
        delta = math.exp(side.log_delta(epsilon, "forward"))
        assert abs(delta - mean) < 5 * error  # one in two million


@pytest.mark.parametrize("rows", [1, 3])
def test_nothing_is_known_from_below_where_amplification_is_not_counted(rows):
    """An attacker of an epoch of 10^5 steps does not know a record's step."""
    how = {"sampling": "allocation", "relation": ADD, "steps_per_epoch": 100_000}
    silent = NoisySteps(0.3, 1e-5, 100_000, max_rows_per_person=rows, **how)
    known = pld(**vars(silent))
    assert known.bracket(1e-5) == (0.0, known.epsilon(1e-5))
    assert known.mu == pytest.approx(rows / 0.3)
    twice = schedule([silent, silent])
    assert twice.bracket(1e-5) == (0.0, twice.epsilon(1e-5))
    if rows == 1:
        counted = NoisySteps(1.0, 1e-5, 100_000, **how)
        lower, upper = schedule([silent, counted]).bracket(1e-5)
        assert lower < 0.1 < known.epsilon(1e-5) <= upper


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("epochs", [1, 5])
def test_deltas_too_small_for_its_law_are_answered_as_if_steps_were_known(relation, epochs):
    """Losses rarer than 1e-22 or so are counted as disclosures, and more was promised of none."""
    profile = allocated(1.0, 10, epochs, relation)
    mu = (2 if relation is REPLACE else 1) * math.sqrt(epochs)
    last = 0.0
    for delta in (1e-6, 1e-12, 1e-20, 1e-25, 1e-60, 1e-200):
        epsilon = profile.epsilon(delta)
        assert last < epsilon <= gaussian.epsilon(mu, delta) * (1 + 1e-9)
        assert profile.log_delta(epsilon) <= math.log(delta)
        lower, upper = profile.bracket(delta)
        assert lower <= upper <= epsilon
        if delta < 1e-23 and (epochs > 1 or relation is ADD):
            assert any("taken for known" in note for note in profile.fallbacks(delta))
        last = epsilon
    assert profile.epsilon(0.0) == math.inf


def test_small_deltas_beside_pure_dp():
    """What is pure adds its epsilon, where the law of an epoch ends."""
    one = allocated(1.0, 10, 2)
    pure = ApproximateProfile(budget=(0.5, 0.0), relation=ADD, theorem="a test")
    both = compose([one, pure])
    for delta in (1e-20, 1e-40):
        known = gaussian.epsilon(math.sqrt(2), delta)
        assert both.epsilon(delta) <= (known + 0.5) * (1 + 1e-9)
        assert both.epsilon(delta) > one.epsilon(delta) >= one.bracket(delta)[0] > 5
        assert both.log_delta(both.epsilon(delta)) <= math.log(delta)
    assert compose([one, replace(pure, budget=(0.5, 1e-9))]).epsilon(1e-20) == math.inf


def test_very_many_steps_are_counted_as_fewer():
    """Neither memory nor indices grow with them, and certificates hold them."""
    for steps in (allocation.MOST_STEPS + 1, 10**20):
        (loss, count), *_ = allocated(30.0, steps).components
        assert loss == AllocationLoss(allocation.MOST_STEPS, 30.0, at_most=True)
        assert count == 1


def test_refused():
    with pytest.raises(NotApplicable):
        rdp(1.0, 0.1, 10, sampling="allocation", relation=ADD, steps_per_epoch=10)
    with pytest.raises(InvalidArgument) as refused:
        allocated(1.0, 2.5)
    assert refused.value.argument in ("steps", "steps_per_epoch")
    assert isinstance(allocated(1.0, 10), LossProfile)


@pytest.mark.parametrize("sampling", ["allocation", "cyclic", "permute-once", "shuffle"])
def test_a_rate_that_contradicts_the_batches_of_a_pass_hides_nobody(sampling):
    # In a pass of ten batches everybody is met once, with batches of a tenth or a little more.
    def epsilon(rate):
        how = {"sampling": sampling, "relation": REPLACE, "steps_per_epoch": 10}
        return pld(1.0, rate, 23, **how).epsilon(1e-5)

    least = epsilon(1 / 11)
    assert least > 1
    assert [epsilon(rate) for rate in (0.0, 1e-9, 0.05)] == [least] * 3
