"""A referee from below: epsilons that no correct accountant can be under, at any delta.

Outcomes of one step are merged until each group's log ratio lies on a lattice: post-processing,
which can only hide. The merged law is composed by direct convolution: sums of positive terms, no
transform, so that every digit of a probability of 1e-40 is as good as the first. Losses beyond the
last place are moved down to it. No code is shared with the accountant.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.special import ndtr

LAWS = {
    "add-remove": ("forward", "backward"),
    "replace": ("replace",),
    "fixed-size": ("fixed",),
}
ROUNDED = 1e-9
"""Relative: thousands of positive terms, rounded at 1e-16, in some twenty convolutions."""
LEAST = 1e-60
"""Probabilities below this are dropped."""


def _inner(t, q):
    with np.errstate(divide="ignore", over="ignore"):
        return np.log(np.maximum(np.expm1(t) / q + 1, 0.0))


def tails(law, q, z, t):
    """P(loss <= t) and P(loss > t), in the world it is drawn from and in the other.

    docs/math.md 2.2 and 12; the smaller tail of each keeps its digits. A law of a person's records
    is a pair of its name and their number.
    """

    def mixed(x, *parts):
        return tuple(
            sum(share * ndtr(sign * (x - mean) / z) for mean, share in parts) for sign in (1, -1)
        )

    absent, present = ((0.0, 1.0),), ((0.0, 1 - q), (1.0, q))
    if isinstance(law, tuple):
        way, k = law
        weights = [math.comb(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]
        present = tuple((float(j), weight) for j, weight in enumerate(weights))
        other = tuple((-j, weight) for j, weight in present) if way == "replace" else absent
        x = _where(-t if way == "backward" else t, z, present, other)
        worlds = mixed(x, *present), mixed(x, *other)
        return worlds if way != "backward" else (worlds[1][::-1], worlds[0][::-1])
    if law == "forward":
        x = z * z * _inner(t, q) + 0.5
        return mixed(x, *present), mixed(x, *absent)
    if law == "backward":
        x = z * z * _inner(-t, q) + 0.5
        return mixed(x, *absent)[::-1], mixed(x, *present)[::-1]
    if law == "replace":
        other = (0.0, 1 - q), (-1.0, q)
        x = _where(t, z, present, other)
        return mixed(x, *present), mixed(x, *other)
    mu, p = 2 / z, _inner(np.abs(t), q)
    near, out = p / mu - mu / 2, p / mu + mu / 2
    high = q * ndtr(near) + (1 - q) * ndtr(out), q * ndtr(-near) + (1 - q) * ndtr(-out)
    low, right = (ndtr(-out), ndtr(out)), t >= 0
    drawn = tuple(np.where(right, a, b) for a, b in zip(high, low, strict=True))
    other = tuple(np.where(right, a, b) for a, b in zip(low[::-1], high[::-1], strict=True))
    return drawn, other


def _where(t, z, upper, lower):
    """Where the loss of two mixtures shifted apart is t, by halving."""

    def log_density(x, parts):  # over that of N(0, z^2)
        logs = [math.log(share) + mean * (x - mean / 2) / z**2 for mean, share in parts]
        return functools.reduce(np.logaddexp, logs)

    low, high = np.full(t.shape, -1e3 * (1 + z)), np.full(t.shape, 1e3 * (1 + z))
    for _ in range(90):
        x = (low + high) / 2
        below = log_density(x, upper) - log_density(x, lower) <= t
        low, high = np.where(below, x, low), np.where(below, high, x)
    return low


def _masses(law, q, z, edges):
    found = []
    for below, above in tails(law, q, z, edges):
        found.append(np.where(below[1:] < 0.5, np.diff(below), -np.diff(above)))
    return found


def merged(law, q, z, h, top, dropped):
    """One step on a lattice c, c + h, c + 2h, ...: c, and masses of groups of that log ratio.

    Cells are taken in order of their loss. Those within h of the least (but for `dropped` of them)
    are the first group, and its ratio is c. After that, the cell that completes a group is cut in
    two, of the same ratio: its outcomes are assigned by a coin.
    """
    fine = np.geomspace(1e-12, top, 12000)
    # Cells are finer than the lattice, and than small losses.
    fine = np.unique(np.concatenate([fine, np.arange(h / 8, top, h / 8)]))
    edges = np.concatenate([-fine[::-1], [0.0], fine])
    drawn, other = _masses(law, q, z, edges)
    good = (drawn > LEAST) & (other > LEAST)
    drawn, other, ends = drawn[good], other[good], edges[1:][good]
    start = int(np.searchsorted(np.cumsum(drawn), dropped))
    begin = max(int(np.searchsorted(ends, ends[start] + h)), start + 1)
    p, r = float(drawn[start:begin].sum()), float(other[start:begin].sum())
    base = math.log(p / r) - 1e-14  # a little less, for rounding
    drawn, other = drawn[begin:], other[begin:]
    # Where the law falls so steeply that all that is left does not reach the next lattice point, a
    # cell's loss is rounded down to the last one.
    left = np.cumsum(drawn[::-1])[::-1], np.cumsum(other[::-1])[::-1]
    following = base + h * (np.floor((np.log(drawn / other) - base) / h) + 1)
    steep = np.log(left[0] / left[1]) < following
    places, weights, place, p, r = [0], [p], None, 0.0, 0.0
    for dp, dr, rounded in zip(drawn.tolist(), other.tolist(), steep.tolist(), strict=True):
        while dp > 0:
            if place is None:
                place = math.floor((math.log(dp / dr) - base) / h - 1e-9) + (not rounded)
            ratio = math.exp(base + place * h)
            # The share f of this cell with p + f dp = ratio (r + f dr).
            gain, lack = dp - ratio * dr, ratio * r - p
            if gain <= 0 or lack > gain:
                p, r = p + dp, r + dr
                break
            part = 1.0 if p == 0 else lack / gain
            places.append(place)
            weights.append(p + part * dp)
            dp, dr, p, r, place = dp * (1 - part), dr * (1 - part), 0.0, 0.0, None
    places.append(max(places[-1], math.floor((top - base) / h - 1e-9)))
    weights.append(float(tails(law, q, z, np.array([top]))[0][1][0]))
    return base, np.bincount(places, weights)


def composed(law, steps, most):
    """`steps` of them by squaring, and the first place; `most` is the last."""
    first, begin, total = 0, 0, np.ones(1)
    while steps:
        if steps & 1:
            first, total = _cut(first + begin, np.convolve(total, law), most)
        steps >>= 1
        if steps:
            begin, law = _cut(2 * begin, np.convolve(law, law), most)
    return first, total


def _cut(first, law, most):
    last = max(most - first, 0)
    if len(law) > last + 1:
        law = np.append(law[:last], law[last:].sum())
    low = int(np.searchsorted(np.cumsum(law), 1e-13))
    return first + low, law[low : int(np.flatnonzero(law > LEAST)[-1]) + 1]


def delta_curve(law, q, z, steps, h, top):
    """delta(epsilon) that nobody can be under, for losses up to `top`."""
    base, mass = merged(law, q, z, h, top, dropped=1e-6 / steps)
    first, mass = composed(mass, steps, math.ceil((top - steps * base) / h))
    losses = steps * base + h * (first + np.arange(len(mass)))

    def delta_at(epsilon):
        above = losses > epsilon
        return (mass[above] @ -np.expm1(epsilon - losses[above])) * (1 - ROUNDED)

    return delta_at


def epsilons(law, q, z, steps, deltas, h, top):
    """Epsilons that nobody can be under at these deltas, for losses up to `top`."""
    delta_at = delta_curve(law, q, z, steps, h, top)
    found = []
    for delta in deltas:
        good, bad = 0.0, top
        for _ in range(60):
            middle = (good + bad) / 2
            good, bad = (middle, bad) if delta_at(middle) > delta else (good, middle)
        found.append(good if delta_at(0.0) > delta else 0.0)
    return found


def worst(kind, q, z, steps, deltas, h, top):
    """The larger of both directions."""
    if isinstance(kind, tuple):  # a person's records come and go, or are replaced
        name, k = kind
        laws = [(way, k) for way in (("replace",) if name == "replace" else LAWS[name])]
    else:
        laws = LAWS[kind]
    ways = [epsilons(law, q, z, steps, deltas, h, top) for law in laws]
    return [max(each) for each in zip(*ways, strict=True)]
