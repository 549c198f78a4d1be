"""Delta of many composed losses: connect-the-dots grids, convolved by a tilted FFT.

The loss of each step is put on a grid so that its hockey-stick curve is the chord of the true
one between grid points (Doroshenko et al. 2022): never below it, and off by the square of the
spacing only. The composed law is taken under an exponential tilt that puts its centre at the
epsilon asked for, so that a delta of 1e-30 has as many digits as one of 0.1, and the window of
the FFT is narrow. Whatever the window leaves out is counted as a disclosure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import fft
from scipy.special import log_ndtr

from sordino.accounting.loss import Direction, Loss

Floats = npt.NDArray[np.float64]
Components = Sequence[tuple[Loss, int]]

COARSE_POINTS = 800
"""Grid of the rough law that only chooses tilt, spacing and window."""
DEVIATIONS = (6, 4, 3, 2, 1, 0, -1, -2, -3, -4, -6, -8, -11, -15, -20, -26)
"""Where a rough law of large losses has more points, in standard deviations."""
LOG_FARTHEST = -700.0
"""Probabilities of single losses below exp of this are put at infinity."""


LOG_LOWER = -46.0
"""The least share of the low end of a law that is kept where it is: 1e-20."""


LEAST_FREQUENCY = 1e-26
"""Frequencies of the composed law that are taken for 0: ten digits below the rounding."""
LOG_OUTSIDE = -25.0
"""Ln of the tilted probability left outside the window on either side, at most: 1e-11."""


class TooLarge(Exception):
    """The computation would need more than its limit."""


@dataclass(frozen=True)
class Limit:
    """What one convolution may cost; beyond it the caller falls back to the moments accountant.

    The cost is foretold from the number of points, so that a result does not depend on how busy
    the machine is.
    """

    megabytes: float = 512.0
    seconds: float = 5.0

    @property
    def points(self) -> int:
        """Points of the longest grid: about 80 bytes and, on one slow core, 0.6 us each."""
        return int(min(self.megabytes * 1e6 / 80, self.seconds / 0.6e-6))


@dataclass(frozen=True)
class Grid:
    """A one-step law on losses (first, first+1, ...) * spacing, and what lies at infinity."""

    spacing: float
    first: int
    mass: Floats
    infinite: float

    @property
    def losses(self) -> Floats:
        """The grid's losses."""
        return np.arange(self.first, self.first + len(self.mass)) * np.float64(self.spacing)


def _log(mass: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(mass)


def discretise(
    loss: Loss, spacing: float, log_tail: float, direction: Direction, most: int
) -> Grid:
    """Connect the dots: every bucket's mass goes to its two ends so that p and q are both kept."""
    # What is cut off below is not lost but moved up, so that its share may be larger.
    low, _ = loss.reach(max(log_tail, LOG_LOWER), direction)
    _, high = loss.reach(log_tail, direction)
    first, last = math.floor(low / spacing) - 1, math.ceil(high / spacing) + 1
    if last - first > most:
        raise TooLarge(f"a grid of {last - first:,} points for one step")
    edges = np.arange(first, last + 1) * np.float64(spacing)
    drawn, other = loss.masses(edges, direction)
    inner, kept = drawn[1:-1], other[1:-1]
    with np.errstate(over="ignore", invalid="ignore"):
        upward = (inner - np.exp(edges[:-1]) * kept) / -math.expm1(-spacing)
    # Far below, exp * kept may lose its digits: then the whole bucket goes up, the private side.
    upward = np.clip(np.where(np.isfinite(upward), upward, inner), 0.0, inner)
    mass = np.zeros(len(edges))
    mass[1:] += upward
    mass[:-1] += inner - upward
    mass[0] += drawn[0]
    return Grid(spacing, first, mass, float(drawn[-1]))


class Rough:
    """The composed law's cumulant function from coarse buckets: enough to aim by, not to prove."""

    def __init__(
        self, components: Components, direction: Direction, log_tail: float = LOG_FARTHEST / 4
    ) -> None:
        self.counts = [count for _, count in components]
        self.log_tail = log_tail
        self._laws = [_coarse(loss, direction, log_tail) for loss, _ in components]

    def cumulant(self, theta: float) -> float:
        """Ln E exp(theta L) of the composed loss."""
        return float(self.cumulants(np.array([theta]))[0])

    def cumulants(self, thetas: Floats) -> Floats:
        """`cumulant` at many tilts."""
        total = np.zeros(len(thetas))
        for count, (log, at) in zip(self.counts, self._laws, strict=True):
            exponents = log + thetas[:, None] * at
            top = exponents.max(axis=1)
            total += count * (top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)))
        return total

    def slopes(self, theta: float) -> tuple[float, float]:
        """Mean and variance of the composed loss under the tilt."""
        mean = variance = 0.0
        for count, (log, at) in zip(self.counts, self._laws, strict=True):
            tilted = log + theta * at
            weight = np.exp(tilted - tilted.max())
            weight /= weight.sum()
            centre = _dot(weight, at)
            mean += count * centre
            variance += count * _dot(weight, (at - centre) ** 2)
        return mean, variance

    def tilt_for(self, epsilon: float) -> float:
        """The tilt >= 0 under which the composed loss has mean `epsilon` (the saddle point)."""
        if self.slopes(0.0)[0] >= epsilon:
            return 0.0
        low, high = 0.0, 1.0
        while self.slopes(high)[0] < epsilon and high < 1e7:
            low, high = high, 4 * high
        while high - low > 1e-2 * high:
            middle = (low + high) / 2
            if self.slopes(middle)[0] < epsilon:
                low = middle
            else:
                high = middle
        return high

    def tilt_at(self, log_delta: float) -> tuple[float, float]:
        """The tilt of the best Renyi order for this delta, and the epsilon it gives."""
        thetas = np.geomspace(1e-4, 1e6, 41)
        for _ in range(2):
            rho = self.cumulants(thetas) / thetas
            values = rho - np.log1p(1 / thetas) - (log_delta + np.log1p(thetas)) / thetas
            best = int(np.argmin(values))
            theta, value = float(thetas[best]), float(values[best])
            ratio = thetas[1] / thetas[0]
            thetas = theta * np.geomspace(1 / ratio, ratio, 9)
        return theta, max(value, 0.0)

    def window(self, theta: float, log_outside: float) -> tuple[float, float, float]:
        """Losses outside which the tilted law has at most exp(log_outside), by Chernoff's bound.

        Also the tilt that bounds the upper end.
        """
        here = self.cumulant(theta)
        deviation = math.sqrt(self.slopes(theta)[1])
        if deviation == 0:
            raise TooLarge("a loss too sharp to aim at")
        steps = np.geomspace(0.3, 30, 12) / deviation
        highs = (self.cumulants(theta + steps) - here - log_outside) / steps
        lows = -(self.cumulants(theta - steps) - here - log_outside) / steps
        best = int(np.argmin(highs))
        return float(lows.max()), float(highs[best]), theta + float(steps[best])


def _coarse(loss: Loss, direction: Direction, log_tail: float) -> tuple[Floats, Floats]:
    """Log masses and losses of buckets whose width grows with the size of the loss."""
    low, high = loss.reach(log_tail, direction)
    size = max(abs(low), abs(high), 1e-300)
    ladder = np.geomspace(1e-9, 1.0, COARSE_POINTS // 2) * size
    edges = np.concatenate([-ladder[::-1], [0.0], ladder])
    inside = edges[(edges > low) & (edges < high)]
    if high > 100:  # so little noise that a large loss is all but certain: the ladder is too coarse
        inside = np.append(inside, [loss.reach(float(log_ndtr(k)), direction) for k in DEVIATIONS])
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


def _folded(weight: Floats, first: int, size: int) -> Floats:
    """A law on places first, first + 1, ... of a circle of `size` places."""
    begin = first % size
    if begin + len(weight) <= size:
        folded = np.zeros(size)
        folded[begin : begin + len(weight)] = weight
        return folded
    places = np.arange(begin, begin + len(weight)) % size
    return np.asarray(np.bincount(places, weights=weight, minlength=size), dtype=np.float64)


def _power(transform: npt.NDArray[np.complex128], count: int) -> npt.NDArray[np.complex128]:
    """Transform ** count where that is not nothing (below 1e-26); few frequencies survive."""
    size = np.abs(transform)
    kept = size > LEAST_FREQUENCY ** (1 / count)
    power = np.zeros_like(transform)
    power[kept] = transform[kept] ** count
    return power


def _dot(first: Floats, second: Floats) -> float:
    """Inner product without BLAS, whose threads wait for each other longer than this takes."""
    return float((first * second).sum())


def _log_sum(values: Floats) -> float:
    top = float(values.max())
    return top + math.log(float(np.exp(values - top).sum()))


class Composed:
    """The composed loss in one direction under one tilt: delta near one epsilon.

    `error` is the error of epsilon that `spacing` was chosen for; it is only remembered.
    """

    def __init__(
        self,
        components: Components,
        direction: Direction,
        rough: Rough,
        theta: float,
        spacing: float,
        most: int,
        error: float = 0.0,
        log_outside: float = LOG_OUTSIDE,
    ) -> None:
        self.theta, self.spacing, self.error, self.log_outside = theta, spacing, error, log_outside
        steps = float(sum(rough.counts))
        low, high, above = rough.window(self.theta, log_outside)
        if (high - low) / spacing > most:
            raise TooLarge(f"a window of {(high - low) / spacing:,.0f} points")
        grids = [
            discretise(loss, spacing, rough.log_tail, direction, most) for loss, _ in components
        ]
        pairs = list(zip(grids, rough.counts, strict=True))
        first = max(math.floor(low / spacing), sum(c * g.first for g, c in pairs))
        end = sum(c * (g.first + len(g.mass) - 1) for g, c in pairs)
        last = min(math.ceil(high / spacing), end)
        self._convolve(pairs, first, max(last, first + 16))
        # What each step left at infinity, and what the window left above it.
        log_above = self._log_above(pairs, last, above - theta) if last < end else -math.inf
        cut = sum(c * g.infinite for g, c in pairs)
        self.infinite = min(1.0, math.exp(min(0.0, log_above)) + cut)
        # The power of a rounded transform has the rounding times its exponent.
        self.rounding = 1e-10 + 8e-15 * steps
        self._sums: tuple[Floats, Floats] | None = None

    def _log_above(self, pairs: list[tuple[Grid, int]], last: int, step: float) -> float:
        """Ln of Chernoff's bound on what lies above the window, by tilts up to `step` larger.

        The rough law's best step may be far too large for the grid's own tail.
        """
        edge = self.spacing * last
        aim = self._log_scale - self.theta * edge + self.log_outside + 2
        least = 0.0
        for share in (1.0, 0.3, 0.1, 0.03, 0.01):
            tilt = self.theta + share * step
            logs = (c * _log_sum(_log(g.mass) + tilt * g.losses) for g, c in pairs)
            least = min(least, sum(logs) - tilt * edge)
            if least <= aim:
                break
        return least

    def _convolve(self, pairs: list[tuple[Grid, int]], first: int, last: int) -> None:
        size = fft.next_fast_len(last - first + 1, real=True)
        spacing = pairs[0][0].spacing
        self._log_scale, start, variance = 0.0, 0, 0.0
        spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
        for grid, count in pairs:
            tilted = _log(grid.mass) + self.theta * grid.losses
            log_sum = _log_sum(tilted)
            weight = np.exp(tilted - log_sum)
            centre = _dot(weight, grid.losses)
            variance += count * _dot(weight, (grid.losses - centre) ** 2)
            # With the mean at position 0 the transform stays near 1 where it matters.
            middle = round(centre / spacing)
            transform = _power(fft.rfft(_folded(weight, grid.first - middle, size)), count)
            spectrum *= transform
            # Denormal numbers would take longer than all the rest.
            spectrum[np.abs(spectrum) < LEAST_FREQUENCY] = 0.0
            self._log_scale += count * log_sum
            start += count * middle
        law = np.maximum(fft.irfft(spectrum, n=size), 0.0)
        self._losses = spacing * np.arange(first, first + size, dtype=np.float64)
        self._law = np.roll(law, -((first - start) % size))
        self._deviation = math.sqrt(variance) + 1e-300
        self.centre = _dot(self._law, self._losses)
        whole = first <= sum(count * grid.first for grid, count in pairs)
        self._proved_from = -math.inf if whole else float(self._losses[0])

    def covers(self, epsilon: float) -> bool:
        """Whether the tilt's centre is near enough to `epsilon` for full precision."""
        inside = self._losses[0] < epsilon < self._losses[-1] - self._deviation
        near = abs(epsilon - self.centre) < 2.5 * self._deviation
        return inside and (near or (self.theta == 0 and epsilon < self.centre))

    def sharpness(self, epsilon: float) -> float:
        """Density of the loss at `epsilon` over -d delta / d epsilon, where this is covered.

        A chord moves epsilon by at most this times spacing^2 / 8 a step: much more than the tilt
        says where a rare large loss rises out of many small ones.
        """
        at, end = np.searchsorted(self._losses, [epsilon, epsilon + 50.0], side="right").tolist()
        near = self._law[max(at - 2, 0) : at + 2]
        over = self._losses[at:end] - epsilon
        slope = _dot(self._law[at:end], np.exp(-(1 + self.theta) * over))
        return float(near.mean()) / (self.spacing * slope) if slope > 0 else 0.0

    def log_share(self, epsilon: float) -> float:
        """Ln of what delta at `epsilon` is made of: the share of the tilted law near above it.

        Losses outside the window come back at its other end; they must be few against this.
        """
        total, anchor = self._above(epsilon)
        return self.theta * (epsilon - anchor) + math.log(total) if total > 0 else -math.inf

    def log_delta(self, epsilon: float) -> float:
        """Ln of an upper bound on delta at `epsilon`."""
        if epsilon < self._proved_from:  # some mass between epsilon and the window is not here
            return 0.0
        total, anchor = self._above(epsilon)
        log_finite = -math.inf
        if total > 0:
            log_finite = self._log_scale - self.theta * anchor + math.log(total)
            log_finite += self.rounding
        log_infinite = math.log(self.infinite) if self.infinite > 0 else -math.inf
        return min(0.0, float(np.logaddexp(log_finite, log_infinite)))

    def _above(self, epsilon: float) -> tuple[float, float]:
        """Sum over losses l > epsilon of law(l) e^(-theta (l - anchor)) (1 - e^(epsilon - l))."""
        at = int(np.searchsorted(self._losses, epsilon, side="right"))
        below = self.centre - float(self._losses[min(at, len(self._losses) - 1)])
        if at < len(self._losses) and self.theta * below < 500 and below < 80:
            first, second = self._suffix_sums()
            total = first[at] - math.exp(min(epsilon - self.centre, 700.0)) * second[at]
            if total > 1e-6 * first[at]:  # else too many digits cancel
                return float(total), self.centre
        over = self._losses[at:] - epsilon
        return _dot(self._law[at:] * np.exp(-self.theta * over), -np.expm1(-over)), epsilon

    def _suffix_sums(self) -> tuple[Floats, Floats]:
        if self._sums is None:
            away = self._losses - self.centre
            # Entries so far below that they overflow are never asked for.
            first = self._law * np.exp(np.minimum(-self.theta * away, 600.0))
            second = first * np.exp(np.minimum(-away, 80.0))
            self._sums = np.cumsum(first[::-1])[::-1], np.cumsum(second[::-1])[::-1]
        return self._sums
