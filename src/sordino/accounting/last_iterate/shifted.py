"""Shifted interpolation: the Gaussian-DP parameter of the last iterate of a noisy iteration.

Two runs w_k = Pi(phi_k(w_{k-1}) + N(0, s_k^2 I)) and w'_k with phi'_k, where phi_k and phi'_k are
c_k-Lipschitz, differ by at most a_k at every point, and Pi is one projection onto a convex set
(or nothing). Only numbers are known here; the conditions are listed in `convex`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.types import Floats

Numbers = float | Sequence[float] | Floats

_EVERY_START = 256
"""Runs up to this long have every start tried; longer ones a geometric choice, then refined."""
_TRIED_STARTS = 60
TINY = sys.float_info.min
"""A mu that is positive but below every float is rounded up to this, never down to 0."""


def master_mu(
    contractions: Numbers, shifts: Numbers, noises: Numbers, initial_distance: float = 0.0
) -> float:
    """Least mu of the last iterate that shifted interpolation proves (Bok, Su & Altschuler 2024).

    For any b_k >= 0 with z_k = c_k z_{k-1} + a_k - b_k >= 0, z_0 the initial distance and z_T = 0,
    the last iterate is mu-GDP with mu^2 = sum b_k^2 / s_k^2. The best b is the greatest convex
    minorant of the points (V_k, A_k), V_k and A_k being the sums over i <= k of C_i^2 s_i^2 and
    C_i a_i, with C_i the product of all later contractions. O(steps), in logarithms throughout:
    products of 1e6 contractions neither vanish nor overflow.

    Parameters
    ----------
    contractions, shifts, noises
        c, a and s of each step: one number for all steps, or one a step. c may be 0 or above 1,
        s may be 0.
    initial_distance
        Bound on the distance of the two starting points; 0 if they are the same public point.

    Returns
    -------
    float
        mu; infinite if a shift is followed by no noise at all, 0 without any shift.
    """
    c, a, s = _per_step(contractions, shifts, noises)
    distance = checks.non_negative("initial_distance", initial_distance)
    if len(c) == 0:
        return math.inf if distance > 0 else 0.0
    resets = np.flatnonzero(c == 0)
    if resets.size:  # whatever came before a map to one point is forgotten
        last, distance = int(resets[-1]), 0.0
        c, a, s = c[last:], a[last:], s[last:]
    with np.errstate(divide="ignore"):
        log_later = np.concatenate([np.cumsum(np.log(c[:0:-1]))[::-1], [0.0]])
        rises, spans = log_later + np.log(a), 2 * (log_later + np.log(s))
    if distance > 0:  # a shift before the first step, with no noise of its own
        before = log_later[0] + math.log(c[0]) + math.log(distance)
        rises, spans = np.append(before, rises), np.append(-math.inf, spans)
    visits = np.flatnonzero(rises > -math.inf)
    if visits.size == 0:
        return 0.0
    # Steps without a shift continue the segment before them; those before any shift do nothing.
    return _minorant(rises[visits], np.logaddexp.reduceat(spans, visits))


def _minorant(rises: Floats, spans: Floats) -> float:
    """sqrt(sum rise^2 / span) over the segments of the convex minorant; logarithms come in."""
    total_rises, total_spans = np.logaddexp.accumulate(rises), np.logaddexp.accumulate(spans)
    slopes = total_rises - total_spans
    if (slopes >= slopes[-1]).all():  # the chord lies below every point: one segment
        rises, spans = total_rises[-1:], total_spans[-1:]
    else:
        rises, spans = _pool(rises.tolist(), spans.tolist())
    with np.errstate(over="ignore"):
        mu = float(np.exp(np.logaddexp.reduce(2 * rises - spans) / 2))
    return max(mu, TINY)


def _pool(rises: list[float], spans: list[float]) -> tuple[Floats, Floats]:
    """Merge neighbouring segments until their slopes increase (pool adjacent violators)."""
    pooled_rises: list[float] = []
    pooled_spans: list[float] = []
    for rise, span in zip(rises, spans, strict=True):
        while pooled_rises and pooled_rises[-1] - pooled_spans[-1] >= rise - span:
            rise = _log_add(rise, pooled_rises.pop())
            span = _log_add(span, pooled_spans.pop())
        pooled_rises.append(rise)
        pooled_spans.append(span)
    return np.array(pooled_rises), np.array(pooled_spans)


def _log_add(x: float, y: float) -> float:
    if x < y:
        x, y = y, x
    return x if y == -math.inf else x + math.log1p(math.exp(y - x))


def domain_mu(
    contractions: Numbers,
    shifts: Numbers,
    noises: Numbers,
    diameter: float,
    initial_distance: float = 0.0,
) -> float:
    """Least mu when every iterate is projected onto a convex set of this diameter.

    After any step the two runs are at most `diameter` apart, so the master bound may start there
    with that distance. Every start gives a proof; on long runs some are left out.
    """
    c, a, s = _per_step(contractions, shifts, noises)
    best = master_mu(c, a, s, min(initial_distance, diameter))
    if math.isinf(diameter):
        return best

    def of_last(count: int) -> float:
        return master_mu(c[-count:], a[-count:], s[-count:], diameter)

    steps = len(c)
    if steps <= _EVERY_START:
        return min([best, *(of_last(count) for count in range(1, steps + 1))])
    tried = np.unique(np.geomspace(1, steps, _TRIED_STARTS).astype(int))
    found = {int(count): of_last(int(count)) for count in tried}
    at = int(np.searchsorted(tried, min(found, key=lambda count: found[count])))
    around = np.linspace(tried[max(at - 1, 0)], tried[min(at + 1, len(tried) - 1)], _TRIED_STARTS)
    return min([best, *found.values(), *(of_last(int(count)) for count in around)])


def one_visit_mu(contraction: float, shift: float, noise: float, steps_after: int) -> float:
    """One shifted step, then k steps alike in both: a c^k / (s sqrt(1 + c^2 + ... + c^2k))."""
    if shift == 0 or (contraction == 0 and steps_after > 0):
        return 0.0
    if noise == 0:
        return math.inf
    # Counted from the visit on, so that a large contraction > 1 does not overflow.
    backwards = contraction > 1
    base = 1 / contraction if backwards else contraction
    sums = float(geometric(base**2, np.array(steps_after + 1)))
    fade = 0.0 if backwards or base == 1 or steps_after == 0 else steps_after * math.log(base)
    return max(math.exp(fade) * ratio(shift, noise) / math.sqrt(sums), TINY)


def cyclic_mus(
    contraction: float, shifts: Floats, noise: float, steps: int, diameter: float = math.inf
) -> Floats:
    """Mu of every position of batches taken in a fixed order again and again, from position 0.

    `shifts` has one number a position. For contractions up to 1 the segments between visits have
    falling slopes and merge, so the minorant has at most three: before the first visit counted
    (a start anywhere in the domain), between visits, and from the last visit on.
    """
    counts = visit_counts(len(shifts), steps)
    # Plain composition first.
    mus = np.array(
        [ratio(a, noise) * math.sqrt(n) if n else 0.0 for a, n in zip(shifts, counts, strict=True)]
    )
    if noise == 0:
        return mus
    for position in np.flatnonzero(mus > 0):
        shift = float(shifts[position])
        if contraction > 1:
            series = np.zeros(steps)
            series[position :: len(shifts)] = shift
            mu = domain_mu(contraction, series, noise, diameter)
        else:
            mu = _position_mu(contraction, shift / noise, len(shifts), steps - int(position))
            if math.isfinite(diameter):
                sizes = (shift / noise, diameter / noise)
                bounded = _bounded_mu(contraction, *sizes, len(shifts), steps - int(position))
                mu = min(mu, bounded)
        mus[position] = max(min(mu, mus[position]), TINY)
    return mus


def visit_counts(batches: int, steps: int) -> npt.NDArray[np.int64]:
    """How often each position is visited in so many steps."""
    return np.asarray(np.maximum(0, -((np.arange(batches) - steps) // batches)), dtype=np.int64)


def _position_mu(c: float, shift: float, batches: int, steps: int) -> float:
    """Mu of the position visited first, at unit noise: visits before the last, and the last."""
    tail = (steps - 1) % batches + 1
    before = np.array((steps - tail) // batches)
    rises, spans = _visited(c, shift, batches, tail, before)
    last_rise, last_span = _last(c, shift, tail)
    return math.sqrt(float(_pooled([rises, last_rise], [spans, last_span])))


def _bounded_mu(c: float, shift: float, diameter: float, batches: int, steps: int) -> float:
    """The same with a domain, the best start: always just after a visit.

    A start before steps without a shift is never worse than one after them, as c <= 1.
    """
    tail = (steps - 1) % batches + 1
    total = (steps - tail) // batches + 1
    after_last = one_visit_mu(c, c * diameter, 1.0, tail - 2) if tail > 1 else math.inf
    before = np.arange(total - 1)  # visits counted before the last
    if len(before) == 0:
        return after_last
    rises, spans = _visited(c, shift, batches, tail, before)
    steps_in = tail + batches * before
    start = np.asarray(diameter * c ** (steps_in + batches - 1.0), dtype=np.float64)
    start_span: Floats = c ** (2.0 * steps_in) * geometric(c * c, np.array(batches - 1))
    last_rise, last_span = _last(c, shift, tail)
    squares = _pooled([start, rises, last_rise], [start_span, spans, last_span])
    return min(after_last, math.sqrt(float(squares.min())))


def _last(c: float, shift: float, tail: int) -> tuple[Floats, Floats]:
    """Rise and span of the segment from the last visit to the end."""
    return np.array(shift * c ** (tail - 1.0)), geometric(c * c, np.array(tail))


def _visited(
    c: float, shift: float, batches: int, tail: int, before: npt.NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Rise and span of `before` whole rounds that begin with a visit, `tail` steps from the end."""
    fade = c ** float(tail)
    rises = shift * fade * c ** (batches - 1.0) * geometric(c**batches, before)
    return rises, fade**2 * geometric(c * c, before * batches)


def _pooled(rises: Sequence[Floats], spans: Sequence[Floats]) -> Floats:
    """mu^2 of a few segments by the max-min formula of isotonic regression, for many at once."""
    total = np.zeros(np.broadcast_shapes(*(rise.shape for rise in rises)))
    for i, span in enumerate(spans):
        slope = np.zeros(())
        for first in range(i + 1):
            ends = [
                _slope(sum(rises[first : end + 1]), sum(spans[first : end + 1]))
                for end in range(i, len(spans))
            ]
            slope = np.maximum(slope, np.minimum.reduce(np.broadcast_arrays(*ends)))
        with np.errstate(invalid="ignore"):
            part = slope**2 * span
        # Without a span a segment costs nothing, unless it stays a jump.
        jump = np.where(np.isinf(slope) & (rises[i] > 0), math.inf, 0.0)
        total = total + np.where(span == 0, jump, part)
    return np.asarray(total)


def _slope(rise: Floats | int, span: Floats | int) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(rise) == 0, 0.0, np.asarray(rise) / np.asarray(span))


def geometric(base: float, terms: npt.NDArray[np.int64]) -> Floats:
    """1 + base + base^2 + ..., `terms` of them, without cancellation near base = 1."""
    if base in (0, 1):
        return np.asarray(np.minimum(terms, 1) if base == 0 else terms, dtype=np.float64)
    log_base = math.log(base)
    return np.asarray(np.expm1(terms * log_base) / math.expm1(log_base), dtype=np.float64)


def ratio(shift: float, noise: float) -> float:
    """Shift over noise; 0 without a shift, infinite without noise."""
    if shift == 0:
        return 0.0
    return shift / noise if noise > 0 else math.inf


def composition_mu(shifts: Numbers, noises: Numbers) -> float:
    """sqrt(sum (a_k / s_k)^2): every iterate may be released (Dong, Roth & Su 2022)."""
    _, a, s = _per_step(0.0, shifts, noises)
    moved = a > 0
    if (s[moved] == 0).any():
        return math.inf
    return float(np.linalg.norm(a[moved] / s[moved]))


def _per_step(
    contractions: Numbers, shifts: Numbers, noises: Numbers
) -> tuple[Floats, Floats, Floats]:
    """The three as arrays of one length, checked."""
    names = ("contractions", "shifts", "noises")
    arrays = [
        non_negatives(name, value)
        for name, value in zip(names, (contractions, shifts, noises), strict=True)
    ]
    steps = {len(array) for array in arrays if len(array) != 1} or {1}
    if len(steps) > 1:
        checks.fail("steps", sorted(steps), "to agree", "Pass one number, or one a step, of each.")
    c, a, s = (np.broadcast_to(array, (next(iter(steps)),)) for array in arrays)
    return c, a, s


def non_negatives(name: str, values: Numbers) -> Floats:
    """`values` as a float array of one dimension, if all are finite and >= 0."""
    try:
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        checks.fail(name, values, "to be numbers")
    if array.ndim != 1:
        checks.fail(name, f"[{array.ndim} dimensions]", "to be one list of numbers")
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        checks.fail(name, array[bad][0], ">= 0 and finite")
    return array
