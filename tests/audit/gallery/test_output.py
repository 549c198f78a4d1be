"""The pairs meet the sensitivity bounds, so the epsilons that the entries state are true."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from sordino.accounting import gaussian
from sordino.audit.gallery import output
from sordino.data import neighbours
from sordino.sgd.engine import train

CASES = {
    "extra batch": (output.bolt_on_extra_batch.case, 14.43, 10),
    "fractional passes": (output.fractional_passes.case, 2.25, 2 / 1.02),
    "no step reset": (output.averages_without_step_reset.case, 5.24, 4.354),
}


def final_weights(case, mechanism, seeds):
    slot = int(np.flatnonzero((case.D.X != case.D_prime.X).any(axis=1))[0])
    pair = neighbours.replace(case.D, [slot], case.D_prime.X[[slot]], case.D_prime.y[[slot]])
    start = np.zeros(case.D.features)
    return train(mechanism.spec, case.D, seeds, pair, initial_weights=start)[:, :, 0]


@pytest.mark.parametrize("name", CASES)
def test_the_noise_is_too_small_by_the_stated_factor(name):
    make, stated, factor = CASES[name]
    case = make()
    assert case.broken.spec == case.correct.spec
    assert case.correct.scale / case.broken.scale == pytest.approx(factor, rel=1e-3)
    weights = final_weights(case, case.broken, [0])[0]
    moved = float(np.linalg.norm(weights[0] - weights[1]))
    # What is left is the slack of the bound, for rounding and for rows on the sphere.
    delta = case.claim.delta
    assert gaussian.epsilon(moved / case.broken.scale, delta) == pytest.approx(stated, abs=0.01)
    assert case.true_epsilon == pytest.approx(stated, abs=0.01)
    twin = gaussian.epsilon(moved / case.correct.scale, delta)
    assert 0.9999 * case.claim.epsilon < twin <= case.claim.epsilon


def test_the_last_noisy_iterate_tells_all():
    case = output.forgotten_factor_two.case()
    ratio = case.correct.spec.noise_multiplier / case.broken.spec.noise_multiplier
    assert ratio == pytest.approx(2)
    assert case.true_epsilon == pytest.approx(2.52, abs=0.01)
    weights = final_weights(case, case.broken, range(4000))
    gap = weights[:, 0] - weights[:, 1]
    # Both worlds share the noise of a seed, and the loss is linear where the weights are: the gap
    # has no spread at all, and the noise is Gaussian.
    rate, steps, rows = case.broken.spec.schedule.rate, 16, 20
    assert gap == pytest.approx(np.tile([2 * rate * steps / rows, 0.0], (4000, 1)), abs=1e-12)
    spread = rate / rows * case.broken.spec.noise_multiplier * np.sqrt(steps)
    # Of 8,000 numbers the standard deviation is known to 0.8 %.
    assert weights[:, 0].std(axis=0).mean() == pytest.approx(spread, rel=0.03)
    mu = np.linalg.norm(gap[0]) / spread
    assert gaussian.epsilon(mu, case.claim.delta) == pytest.approx(case.true_epsilon)


def test_the_intercept_leaves_as_it_was_trained():
    case = output.unnoised_bias.case()
    runs = 4000
    worlds = [
        case.broken(data, np.random.default_rng(seed), runs)
        for seed, data in enumerate((case.D, case.D_prime))
    ]
    one, two = (np.unique(weights[:, -1]) for weights in worlds)
    assert len(one) == len(two) == 1
    assert one != two
    for weights in worlds:  # 4 standard errors
        rel = 4 / math.sqrt(2 * runs)
        assert weights[:, 0].std() == pytest.approx(case.broken.scale, rel=rel)


def test_the_twin_is_the_gaussian_mechanism_at_its_claim():
    case = output.unnoised_bias.case()
    assert case.correct.scale == case.broken.scale
    assert case.correct.noised == 2
    # The same generator gives both worlds the same noise, so the gap is the training's alone.
    one, two = (case.correct(data, np.random.default_rng(0), 5) for data in (case.D, case.D_prime))
    gap = np.linalg.norm(one - two, axis=1)
    assert gap == pytest.approx(gap[0])
    assert (np.ptp(one, axis=0) > 0).all()
    reached = gaussian.epsilon(gap[0] / case.correct.scale, case.claim.delta)
    assert 0.9999 * case.claim.epsilon < reached <= case.claim.epsilon


def test_the_classical_formula_is_false_at_its_claim():
    case = output.classical_gaussian.case()
    broken, correct = case.exact
    delta = case.claim.delta
    # The library's own formula, from where it is a theorem; sigma goes like 1 / epsilon.
    mu = case.claim.epsilon / (0.5 * gaussian.classical_sigma(0.5, delta))
    # Balle & Wang 2018, Theorem 8, at the epsilon found.
    first, second = norm.cdf(mu / 2 - broken / mu), norm.logcdf(-mu / 2 - broken / mu)
    assert first - math.exp(broken + second) == pytest.approx(delta, rel=1e-6)
    assert broken > 25.4 > case.claim.epsilon == pytest.approx(correct)


def runs_of(mechanism, data, runs, seed):
    return mechanism(data, np.random.default_rng(seed), runs)


@pytest.mark.parametrize(("entry", "few"), [(output.fixed_seed, 1), (output.one_byte_seed, 256)])
def test_the_worlds_have_few_outputs_and_none_in_common(entry, few):
    case = entry.case()
    # Each of 256 is missed with probability e^-15.6.
    runs = [
        runs_of(case.broken, data, 4000, seed) for seed, data in enumerate((case.D, case.D_prime))
    ]
    seen = [{tuple(row) for row in world} for world in runs]
    assert [len(world) for world in seen] == [few, few]
    assert not seen[0] & seen[1]


def test_the_twin_with_long_seeds_is_the_gaussian_mechanism_at_its_claim():
    case = output.one_byte_seed.case()
    assert case.correct.scale == case.broken.scale
    one, two = (runs_of(case.correct, data, 4000, 0) for data in (case.D, case.D_prime))
    assert len({tuple(row) for row in one}) == 4000
    # The same generator gives both worlds the same noise, so the gap is the training's alone.
    gap = np.linalg.norm(one - two, axis=1)
    assert gap == pytest.approx(gap[0])
    # Of 8,000 numbers the standard deviation is known to 0.8 %.
    assert one.std(axis=0).mean() == pytest.approx(case.correct.scale, rel=0.03)
    reached = gaussian.epsilon(gap[0] / case.correct.scale, case.claim.delta)
    assert 0.9999 * case.claim.epsilon < reached <= case.claim.epsilon
