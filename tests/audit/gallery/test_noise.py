"""Few seeds, few outputs."""

from __future__ import annotations

import numpy as np
import pytest

from sordino.accounting import gaussian
from sordino.audit.gallery import output


def outputs(mechanism, data, runs, seed):
    return mechanism(data, np.random.default_rng(seed), runs)


@pytest.mark.parametrize(("make", "few"), [(output.fixed_seed, 1), (output.one_byte_seed, 256)])
def test_the_worlds_have_few_outputs_and_none_in_common(make, few):
    case = make()
    # Each of 256 is missed with probability e^-15.6.
    runs = [
        outputs(case.broken, data, 4000, seed) for seed, data in enumerate((case.D, case.D_prime))
    ]
    seen = [{tuple(row) for row in world} for world in runs]
    assert [len(world) for world in seen] == [few, few]
    assert not seen[0] & seen[1]


def test_the_twin_is_the_gaussian_mechanism_at_its_claim():
    case = output.one_byte_seed()
    assert case.correct.scale == case.broken.scale
    one, two = (outputs(case.correct, data, 4000, 0) for data in (case.D, case.D_prime))
    assert len({tuple(row) for row in one}) == 4000
    # The same generator gives both worlds the same noise, so the gap is the training's alone.
    gap = np.linalg.norm(one - two, axis=1)
    assert gap == pytest.approx(gap[0])
    # Of 8,000 numbers the standard deviation is known to 0.8 %.
    assert one.std(axis=0).mean() == pytest.approx(case.correct.scale, rel=0.03)
    reached = gaussian.epsilon(gap[0] / case.correct.scale, case.claim.delta)
    assert 0.9999 * case.claim.epsilon < reached <= case.claim.epsilon
