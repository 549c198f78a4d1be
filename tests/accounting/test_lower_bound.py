"""The accountant against a certified lower bound: no correct one is below it, at any delta."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import HOW
from hypothesis import given, settings
from hypothesis import strategies as st
from lower_bound import delta_curve, worst

from sordino.accounting.dp_sgd import pld, rdp
from sordino.accounting.pld.aim import Rough
from sordino.accounting.pld.convolution import Composed, discretise
from sordino.accounting.pld.loss import PoissonLoss

DECADES = [10.0**-power for power in (1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 28)]
# The grid aims at 2e-5 of epsilon, at 1e-4 where that is costly; see docs/accounting.md.
TIGHT = 2e-4


def both(kind, q, z, steps, deltas, places=2000):
    """What is proved, and what nobody can be below, on a lattice of about so many places."""
    profile = pld(z, q, steps, **HOW[kind])
    proved = [profile.epsilon(delta) for delta in deltas]
    top = 1.5 * max(proved) + 1e-9
    return proved, worst(kind, q, z, steps, deltas, top / places, top)


def never_below(kind, q, z, steps):
    proved, least = both(kind, q, z, steps, DECADES)
    for delta, ours, theirs in zip(DECADES, proved, least, strict=True):
        assert ours >= theirs, (kind, q, z, steps, delta, ours, theirs)
    # And never worse than the moments accountant, but for the grid.
    moments = rdp(z, q, steps, **HOW[kind])
    for delta, ours in zip(DECADES, proved, strict=True):
        assert ours <= moments.epsilon(delta) * (1 + TIGHT) + 1e-9
    assert proved == sorted(proved)


RATES = st.floats(-5, -0.05).map(lambda power: 10.0**power)
NOISES = st.floats(-0.4, 1.0).map(lambda power: 10.0**power)
STEPS = st.floats(0.4, 3.5).map(lambda power: int(10.0**power))


@pytest.mark.parametrize("kind", HOW)
@given(q=RATES, z=NOISES, steps=STEPS)
@settings(max_examples=3, deadline=None, derandomize=True)
def test_never_below_a_certified_lower_bound(kind, q, z, steps):
    never_below(kind, q, z, steps)


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOW)
@given(q=st.floats(-5, -3).map(lambda power: 10.0**power), z=NOISES, steps=STEPS)
@settings(max_examples=6, deadline=None, derandomize=True)
def test_never_below_at_small_rates(kind, q, z, steps):
    never_below(kind, q, z, steps)


# What a referee found: rare large losses, and deltas below the floor of one transform. The last is
# what the truth was proved to be at least.
FOUND = [
    (0.00018923285677429144, 1.3042005161258068, 2217, 10**-20.75, 0.2383),
    (2e-4, 1.3, 2000, 10**-22.75, 0.3495),
]


@pytest.mark.parametrize(("q", "z", "steps", "delta", "least"), FOUND)
def test_deltas_below_the_floor_of_a_transform(q, z, steps, delta, least):
    (proved,), (lower,) = both("add-remove", q, z, steps, [delta], places=4000)
    assert least <= lower <= proved <= 1.002 * lower


def test_rounding_is_covered_under_every_tilt():
    """Deltas in the valley below rare large losses, where a transform shows rounding."""
    q, z, steps, *_ = FOUND[0]
    truth = delta_curve("forward", q, z, steps, 2e-4, 0.6)
    law, tail = PoissonLoss(q, z), -70.0
    rough = Rough.of([(law, steps)], "forward", tail)
    short = []
    for tilt in (50.0, 95.0):
        for spacing in (2e-4,):
            grid = discretise(law, spacing, tail, "forward", 10**8)
            made = Composed([(grid, steps)], rough, rough.saddle(tilt), 0.0, 10**8)
            for epsilon in np.linspace(0.1, 0.4, 4):
                seen, least = made.log_delta(epsilon), math.log(truth(epsilon))
                rest = math.log(steps * grid.infinite) if grid.infinite else -math.inf
                rest = np.logaddexp(rest, made.log_above)
                assert np.logaddexp.reduce([seen, made.log_noise(epsilon), rest]) >= least
                short.append(np.logaddexp(seen, rest) < least)
    # Without the bound on rounding it would have been false: that is what the accountant was.
    assert any(short)


@pytest.mark.parametrize(
    ("kind", "q", "z", "steps", "delta", "close"),
    [
        ("add-remove", 0.5, 1.0, 10, 1e-5, 5e-4),
        ("fixed-size", 0.1, 8.0, 100, 1e-5, 5e-4),
        ("replace", 0.2, 2.0, 50, 1e-6, 5e-4),
        ("add-remove", 1e-3, 1.0, 100, 1e-20, 2e-3),
    ],
)
def test_the_lower_bound_is_close(kind, q, z, steps, delta, close):
    # Otherwise the tests above would prove nothing.
    (proved,), (least,) = both(kind, q, z, steps, [delta], places=6000)
    assert least <= proved <= least * (1 + close)
