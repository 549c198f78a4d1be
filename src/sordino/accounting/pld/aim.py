"""Where to look: the composed law from coarse buckets, its tilts, means and windows.

Nothing here is proved, and nothing needs to be: it chooses the tilt, the spacing and the window of
a convolution (`convolution.Composed`), which bounds delta whatever these are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, log_ndtr

from sordino.accounting.pld.loss import Direction, Loss
from sordino.types import Floats

Components = Sequence[tuple[Loss, int]]

_COARSE_POINTS = 400
"""Grid of the rough law that only chooses tilt, spacing and window."""
_DEVIATIONS = (6, 4, 3, 2, 1, 0, -1, -2, -3, -4, -6, -8, -11, -15, -20, -26)
"""Where a rough law of large losses has more points, in standard deviations."""
_TILTS = np.concatenate([[0.0], np.geomspace(1e-4, 1e6, 41)])
_WINDOW_STEPS = np.geomspace(0.01, 30, 12)
LOG_FARTHEST = -700.0
"""Probabilities of single losses below exp of this are put at infinity."""


class TooLarge(Exception):
    """The computation would need more than its limit."""


@dataclass(frozen=True)
class Saddle:
    """The composed law under one tilt: cumulant, mean and deviation."""

    tilt: float
    cumulant: float
    mean: float
    deviation: float

    @property
    def log_delta(self) -> float:
        """Ln of about the delta at `mean`, to aim by."""
        place = np.array([self.tilt, self.cumulant, self.mean, self.deviation**2])
        return float(_log_deltas(place))


class Rough:
    """The composed law's cumulant function from coarse buckets: enough to aim by, not to prove.

    `laws` are log masses and losses of one step each, `counts` how often it is taken, `log_tail` is
    ln of the probability of larger losses that were left out.
    """

    def __init__(
        self, laws: Sequence[tuple[Floats, Floats]], counts: Sequence[int], log_tail: float
    ) -> None:
        self.laws, self.counts = list(laws), list(counts)
        self.log_tail = log_tail
        self._table: Floats | None = None

    @classmethod
    def of(
        cls, components: Components, direction: Direction, log_tail: float = LOG_FARTHEST / 4
    ) -> Rough:
        """Of these losses but for tails of probability exp(log_tail)."""
        laws = [_coarse(loss, direction, log_tail) for loss, _ in components]
        return cls(laws, [count for _, count in components], log_tail)

    def below(self, levels: Sequence[float], log_tail: float) -> Rough:
        """Without the losses above these levels, one for each law, but for its least loss."""
        kept = []
        for (log, at), level in zip(self.laws, levels, strict=True):
            # A level may be a loss itself, rounded.
            end = max(int(np.searchsorted(at, level + 1e-9 * abs(level), side="right")), 1)
            kept.append((log[:end], at[:end]))
        return Rough(kept, self.counts, log_tail)

    def with_jumps(self, level: float, jumps: int) -> Rough:
        """Of a single law: so many losses above `level`, all others below it."""
        ((log, at),) = self.laws
        small = at <= level
        laws = [(log[small], at[small]), (log[~small], at[~small])]
        counts = [self.counts[0] - jumps, jumps]
        return Rough(laws[: 1 + (jumps > 0)], counts[: 1 + (jumps > 0)], self.log_tail)

    def cumulants(self, thetas: Floats) -> Floats:
        """Ln E exp(theta L) of the composed loss at many tilts."""
        total = np.zeros(len(thetas))
        for count, (log, at) in zip(self.counts, self.laws, strict=True):
            top, weight = _tilted(log, at, thetas)
            total += count * (top + np.log(weight.sum(axis=1)))
        return total

    def _moments(self, thetas: Floats) -> tuple[Floats, Floats, Floats]:
        """Cumulant, mean and variance of the composed loss under each tilt."""
        total, mean, variance = np.zeros((3, len(thetas)))
        for count, (log, at) in zip(self.counts, self.laws, strict=True):
            top, weight = _tilted(log, at, thetas)
            whole = weight.sum(axis=1)
            # Not by BLAS, whose threads wait for each other longer than this takes.
            centre = np.einsum("ij,j->i", weight, at) / whole
            square = np.einsum("ij,j->i", weight, at * at) / whole
            total += count * (top + np.log(whole))
            mean += count * centre
            variance += count * np.maximum(square - centre * centre, 1e-14 * square)
        return total, mean, variance

    def saddle(self, theta: float) -> Saddle:
        """The law under this tilt."""
        return _saddle(self._at(np.array([theta]))[:, 0])

    @property
    def untilted(self) -> Saddle:
        """The law as it is."""
        return _saddle(self._ladder()[:, 0])

    def _ladder(self) -> Floats:
        if self._table is None:
            self._table = self._at(_TILTS)
        return self._table

    def _at(self, thetas: Floats) -> Floats:
        return np.array([thetas, *self._moments(thetas)])

    def _refined(self, goes_on: Callable[[Floats], npt.NDArray[np.bool_]]) -> Saddle:
        """The first tilt >= 0 where `goes_on(tilts, cumulants, means, variances)` is false."""
        table = self._ladder()
        for points in (9, 9, 9, 0):
            going = goes_on(table)
            at = int(np.argmin(going)) if not going.all() else len(going) - 1
            if at == 0 or points == 0:
                break
            table = self._at(np.linspace(table[0, at - 1], table[0, at], points))
        return _saddle(table[:, at])

    def saddle_for(self, epsilon: float) -> Saddle:
        """The least tilt >= 0 under which the composed loss has mean `epsilon`, or nearly."""
        return self._refined(lambda table: table[2] < epsilon)

    def saddle_at(self, log_delta: float) -> Saddle:
        """The tilt at whose mean delta is about this."""
        return self._refined(lambda table: _log_deltas(table) > log_delta)

    def window(self, saddle: Saddle, log_outside: float) -> tuple[float, float, float, float]:
        """Losses outside which the tilted law has at most exp(log_outside), by Chernoff's bound.

        Also how much more tilt bounds the upper end, and how much less the lower one.
        """
        if saddle.deviation == 0:
            raise TooLarge("a loss too sharp to aim at")
        # Where large losses are rare, a little more tilt makes them common: small steps as well.
        steps = _WINDOW_STEPS / saddle.deviation
        highs = (self.cumulants(saddle.tilt + steps) - saddle.cumulant - log_outside) / steps
        down = steps[4:]
        lows = (saddle.cumulant + log_outside - self.cumulants(saddle.tilt - down)) / down
        best, least = int(np.argmin(highs)), int(np.argmax(lows))
        return float(lows[least]), float(highs[best]), float(steps[best]), float(down[least])


def _saddle(column: Floats) -> Saddle:
    tilt, cumulant, mean, variance = column.tolist()
    return Saddle(tilt, cumulant, mean, math.sqrt(variance))


def _log_deltas(table: Floats) -> Floats:
    """Ln of delta at each mean as if the tilted loss were Gaussian there.

    E e^(-theta x) (1 - e^-x) over x > 0 of that Gaussian. Rows: tilts, cumulants, means, variances.
    """
    thetas, cumulants, means, variances = table
    unit = np.sqrt(variances / 2)
    share = (erfcx(thetas * unit) - erfcx((1 + thetas) * unit)) / 2
    return np.asarray(cumulants - thetas * means + np.log(np.maximum(share, 1e-300)))


def _tilted(log: Floats, at: Floats, thetas: Floats) -> tuple[Floats, Floats]:
    """Weights of a law under each tilt, over their largest, and its ln."""
    weight = log + thetas[:, None] * at
    top = weight.max(axis=1)
    weight -= top[:, None]
    np.exp(weight, out=weight)
    return top, weight


def _coarse(loss: Loss, direction: Direction, log_tail: float) -> tuple[Floats, Floats]:
    """Log masses and losses of buckets whose width grows with the size of the loss."""
    low, high = loss.reach(log_tail, direction)
    size = max(abs(low), abs(high), 1e-300)
    ladder = np.geomspace(1e-9, 1.0, _COARSE_POINTS // 2) * size
    edges = np.concatenate([-ladder[::-1], [0.0], ladder])
    if loss.largest_finite(direction) < math.inf:  # most of it may lie just below its bound
        edges = np.concatenate([edges, high - ladder[::2]])
    inside = edges[(edges > low) & (edges < high)]
    if high > 100:  # so little noise that a large loss is all but certain: the ladder is too coarse
        inside = np.append(inside, [loss.reach(float(log_ndtr(k)), direction) for k in _DEVIATIONS])
        inside = inside[(inside > low) & (inside < high)]
    # The very ends belong to it: the largest loss of a bounded law holds most of its mass.
    edges = np.unique([low, *inside, np.nextafter(high, math.inf)])
    drawn, other = loss.masses(edges, direction)
    ends = np.concatenate([edges[:1], edges, edges[-1:]])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        at = np.log(drawn / other)
        log = np.log(drawn)
    at = np.where(np.isfinite(at), np.clip(at, ends[:-1], ends[1:]), ends[:-1])
    kept = drawn[:-1] > 0
    return log[:-1][kept], at[:-1][kept]
