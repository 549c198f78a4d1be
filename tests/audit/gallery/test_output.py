"""The pairs meet the sensitivity bounds, so the epsilons that the entries state are true."""

from __future__ import annotations

import numpy as np
import pytest

from sordino.accounting import gaussian
from sordino.audit.gallery import output
from sordino.data import neighbours
from sordino.sgd.engine import train

CASES = {
    "extra batch": (output.extra_batch, 14.43, 10),
    "fractional passes": (output.fractional_passes, 2.25, 2 / 1.02),
    "no step reset": (output.no_step_reset, 5.24, 4.354),
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
    case = output.forgotten_factor_two()
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
