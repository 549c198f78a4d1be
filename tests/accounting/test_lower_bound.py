"""The convolution against a certified lower bound: no correct accountant is below it.

Outcomes of one step are merged in buckets: post-processing, which can only hide. The merged law is
convolved by a plain FFT, untilted, and all that is uncertain is taken off. No code is shared.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from sordino.accounting.subsampled import pld, rdp
from sordino.privacy import Relation

ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
HOW = {
    "add-remove": {"sampling": "poisson", "relation": ADD},
    "replace": {"sampling": "poisson", "relation": REPLACE},
    "fixed-size": {"sampling": "fixed-size", "relation": REPLACE},
}
LAWS = {
    "add-remove": ("forward", "backward"),
    "replace": ("replace",),
    "fixed-size": ("fixed",),
}

# The grid aims at 2e-5 of epsilon, at 1e-4 where that is costly; the rest is the lower bound's own.
TIGHT = 2e-4


def loss_cdf(law, q, z):
    """P(loss <= t) under the world it is drawn from and under the other (docs/math.md 2.2)."""

    def inner(t):
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(np.expm1(t) / q + 1, 0.0))

    def forward(t):
        x = z * z * inner(t) + 0.5
        return (1 - q) * ndtr(x / z) + q * ndtr((x - 1) / z), ndtr(x / z)

    def backward(t):
        x = z * z * inner(-t) + 0.5
        return ndtr(-x / z), (1 - q) * ndtr(-x / z) + q * ndtr((1 - x) / z)

    def fixed(t):
        mu, p = 2 / z, inner(np.abs(t))
        mixed = q * ndtr(p / mu - mu / 2) + (1 - q) * ndtr(p / mu + mu / 2)
        mixed_above = q * ndtr(mu / 2 - p / mu) + (1 - q) * ndtr(-p / mu - mu / 2)
        drawn = np.where(t >= 0, mixed, ndtr(-p / mu - mu / 2))
        return drawn, np.where(t >= 0, ndtr(p / mu + mu / 2), mixed_above)

    def loss_at(x):
        rest = np.log1p(-q)
        up, down = (x - 0.5) / z**2 + np.log(q), (-x - 0.5) / z**2 + np.log(q)
        return np.logaddexp(rest, up) - np.logaddexp(rest, down)

    def replace(t):
        low, high = np.full(t.shape, -1e3 * (1 + z)), np.full(t.shape, 1e3 * (1 + z))
        for _ in range(80):
            middle = (low + high) / 2
            below = loss_at(middle) <= t
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (1 - q) * ndtr(low / z) + q * ndtr((low - 1) / z), (
            (1 - q) * ndtr(low / z) + q * ndtr((low + 1) / z)
        )

    return {"forward": forward, "backward": backward, "fixed": fixed, "replace": replace}[law]


def merged(law, q, z, steps, buckets):
    """Lattice law below the true one: outcomes of one bucket are told apart no more.

    Bucket (2kh, 2(k+1)h) then has loss ln p/q, `short` below (2k+1)h at most; where it is more,
    the mass goes to a lower lattice point, and beyond 50 of them it is dropped.
    """
    cdf = loss_cdf(law, q, z)
    ladder = np.geomspace(1e-9, 200, 4000)
    ladder = np.concatenate([-ladder[::-1], [0], ladder])
    mass = cdf(ladder)[0]
    low = ladder[max(np.searchsorted(mass, 1e-13 / steps) - 1, 0)]
    high = ladder[min(np.searchsorted(mass, 1 - max(1e-13 / steps, 1e-15)), len(ladder) - 1)]
    h = (high - low) / buckets
    k = np.arange(math.floor(low / h / 2), math.ceil(high / h / 2))
    drawn, other = (np.diff(side) for side in cdf(2 * h * np.append(k, k[-1] + 1)))
    at, told = 2 * k + 1, np.zeros(0)
    if law == "fixed":  # the loss is exactly 0 with this probability, in both worlds
        told = np.array([(1 - q) * (ndtr(1 / z) - ndtr(-1 / z))])
        drawn[k == -1] -= told
        other[k == -1] -= told
    with np.errstate(divide="ignore", invalid="ignore"):
        missing = at * h - np.log(drawn / other)
    kept = (drawn > 1e-14) & (other > 0) & (missing < 50 * h)
    drawn, at, missing = drawn[kept], at[kept], missing[kept]
    by_size = np.argsort(missing)
    shares = np.cumsum(drawn[by_size])
    options = []
    for rest in (1e-12, 1e-6, 1e-4, 1e-3):
        place = min(np.searchsorted(shares, (1 - rest) * shares[-1]), len(shares) - 1)
        short = max(missing[by_size][place], 0.0)
        lower = np.ceil(np.maximum(missing - short, 0) / h).astype(int)
        options.append((short + h * (drawn @ lower), short, lower))
    _, short, lower = min(options, key=lambda option: option[0])
    at = np.append(at - lower, np.zeros(len(told), dtype=int))
    first = at.min()
    return h, first, np.bincount(at - first, np.append(drawn, told)), short


def optimistic_epsilon(law, q, z, steps, delta, buckets=8000):
    """An epsilon that no correct accountant can be below."""
    h, first, mass, short = merged(law, q, z, steps, buckets)
    losses = h * (first + np.arange(len(mass)))
    tilts = np.geomspace(1e-3, 1e5, 200)
    with np.errstate(divide="ignore"):
        logs = np.log(mass)

    def cumulants(at):
        exponents = at[:, None] * losses + logs
        top = exponents.max(axis=1)
        return steps * (top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)))

    # Chernoff: 1e-14 lies outside; it wraps around, and is taken off below with the rounding.
    low = math.floor(((cumulants(-tilts) + math.log(1e14)) / -tilts).max() / h)
    high = math.ceil(((cumulants(tilts) + math.log(1e14)) / tilts).min() / h)
    size = 1 << math.ceil(math.log2(max(high - low, len(mass)) + 1))
    centre = round(float(mass @ losses) / h)
    circle = np.zeros(size)
    circle[(np.arange(len(mass)) + first - centre) % size] = mass
    law_of_sum = np.fft.irfft(np.fft.rfft(circle) ** steps, size)
    law_of_sum = np.roll(law_of_sum, -((low - steps * centre) % size))
    sums = h * (low + np.arange(size))

    def exceeds(epsilon):
        above = sums > epsilon
        return law_of_sum[above] @ -np.expm1(epsilon - sums[above]) - 1e-12 > delta

    good, bad = 0.0, float(sums[-1])
    if not exceeds(good):
        return 0.0
    for _ in range(50):
        middle = (good + bad) / 2
        good, bad = (middle, bad) if exceeds(middle) else (good, middle)
    return max(0.0, good - steps * short - 1e-9)


def optimistic(kind, *arguments, **settings):
    return max(optimistic_epsilon(law, *arguments, **settings) for law in LAWS[kind])


@pytest.mark.parametrize("kind", HOW)
@given(
    q=st.floats(-4, -0.05).map(lambda power: 10.0**power),
    z=st.floats(-0.4, 1.3).map(lambda power: 10.0**power),
    steps=st.floats(0, 4).map(lambda power: int(10.0**power)),
    delta=st.floats(-9, -1).map(lambda power: 10.0**power),
)
@settings(max_examples=8, deadline=None)
def test_never_below_a_certified_lower_bound(kind, q, z, steps, delta):
    proved = pld(z, q, steps, **HOW[kind]).epsilon(delta)
    assert proved >= optimistic(kind, q, z, steps, delta)
    # And never worse than the moments accountant, but for the grid.
    assert proved <= rdp(z, q, steps, **HOW[kind]).epsilon(delta) * (1 + TIGHT) + 1e-9


@pytest.mark.parametrize(
    ("kind", "q", "z", "steps", "delta"),
    [
        ("add-remove", 0.1, 4.0, 100, 1e-5),
        ("add-remove", 0.5, 1.0, 10, 1e-5),
        ("fixed-size", 0.1, 8.0, 100, 1e-5),
        ("replace", 0.2, 2.0, 50, 1e-6),
    ],
)
def test_the_lower_bound_is_close(kind, q, z, steps, delta):
    # Otherwise the test above would prove nothing.
    proved, least = (
        pld(z, q, steps, **HOW[kind]).epsilon(delta),
        optimistic(kind, q, z, steps, delta),
    )
    assert least <= proved <= least * (1 + TIGHT)
