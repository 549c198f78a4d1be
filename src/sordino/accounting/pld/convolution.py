"""Delta of many composed losses: connect-the-dots grids, convolved by a tilted FFT.

The loss of each step is put on a grid so that its hockey-stick curve is the chord of the true
one between grid points (Doroshenko et al. 2022): never below it, and off by the square of the
spacing only. The composed law is taken under an exponential tilt that puts its centre at the
epsilon asked for, so that the window of the FFT is narrow and a small delta has digits. Whatever
the window leaves out is counted as a disclosure.

An FFT's rounding is relative to the largest entry of the tilted law, not to each: where rare large
losses leave a valley between themselves and the many small ones, no tilt lifts its bottom above
that floor. So what rounding may have taken is bounded and added to delta (`Composed.log_noise`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import fft

from sordino.accounting.pld.aim import Rough, Saddle, TooLarge
from sordino.accounting.pld.loss import Direction, Loss
from sordino.accounting.pld.numerics import log_add
from sordino.types import Floats

_LOG_LOWER = -32.0
"""The least share of the low end of a law that is kept where it is: 1e-14."""

_EDGE_ROUNDS = 3
"""How often the edges of merged outcomes are moved: by less each time."""
_SHARE_ROUNDS = 60
_MOST_SHARE = 0.9
"""Of a group, that its neighbours may take."""
_LEAST_MASS = 1e-290
"""Smaller probabilities have lost their digits."""
_SLACK = 5e-14
"""Losses of merged outcomes are rounded by less: far tails of a normal law by some 1e-14."""
_LEAST_FREQUENCY = 1e-26
"""Frequencies of the composed law that are taken for 0: ten digits below the rounding."""
LOG_OUTSIDE = -25.0
"""Ln of the tilted probability left outside the window on either side, at most: 1e-11."""
LOG_DOUBTED = -8.0
"""Ln of the share of a delta that may be rounding and losses cut off: 3e-4."""
ROUNDING = 1e-15
"""Times log2 of its length: an FFT's error at one frequency, over the sum of what it transforms.

Every output is a sum of products of log2(n) factors, each rounded a few times (Higham 2002,
Theorem 24.2): 5 units of rounding (1.1e-16) a stage for the transform, the rest for its power.
"""


@dataclass(frozen=True)
class Limit:
    """What one convolution may cost; beyond it the caller falls back to the moments accountant.

    The cost is foretold from the number of points, so that a result does not depend on how busy
    the machine is.
    """

    megabytes: float = 512.0
    seconds: float = 5.0

    def part(self, of: int) -> Limit:
        """One of so many equal parts."""
        return Limit(self.megabytes / of, self.seconds / of)

    @property
    def points(self) -> int:
        """Points of the longest grid: about 80 bytes and, on one slow core, 0.6 us each."""
        return int(min(self.megabytes * 1e6 / 80, self.seconds / 0.6e-6))


@dataclass(frozen=True)
class LossGrid:
    """A one-step law on losses base + (first, first+1, ...) * spacing, and what is at infinity."""

    spacing: float
    first: int
    mass: Floats
    infinite: float
    base: float = 0.0

    @property
    def losses(self) -> Floats:
        """The grid's losses."""
        places = np.arange(self.first, self.first + len(self.mass)) * np.float64(self.spacing)
        return places + self.base if self.base else places

    def split(self, level: float) -> tuple[LossGrid, LossGrid]:
        """The losses up to `level` and those above it, as two parts of one law."""
        cut = math.floor((level - self.base) / self.spacing) + 1 - self.first
        cut = min(max(cut, 1), len(self.mass) - 1)
        low = LossGrid(self.spacing, self.first, self.mass[:cut], 0.0, self.base)
        return low, LossGrid(self.spacing, self.first + cut, self.mass[cut:], 0.0, self.base)


def _log(mass: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(mass)


def discretise(
    loss: Loss, spacing: float, log_tail: float, direction: Direction, most: int
) -> LossGrid:
    """Connect the dots: every bucket's mass goes to its two ends so that p and q are both kept."""
    first, edges = _places(loss, spacing, log_tail, direction, most)
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
    return LossGrid(spacing, first, mass, float(drawn[-1]))


def _places(
    loss: Loss, spacing: float, log_tail: float, direction: Direction, most: int
) -> tuple[int, Floats]:
    """The losses of a grid, and how many spacings from 0 the first of them lies."""
    # What is cut off below is not lost but moved up, so that its share may be larger.
    low, _ = loss.reach(max(log_tail, _LOG_LOWER), direction)
    _, high = loss.reach(log_tail, direction)
    first, last = math.floor(low / spacing) - 1, math.ceil(high / spacing) + 1
    if last - first > most:
        raise TooLarge(f"a grid of {last - first:,} points for one step")
    return first, np.arange(first, last + 1) * np.float64(spacing)


def merge(loss: Loss, spacing: float, log_tail: float, direction: Direction, most: int) -> LossGrid:
    """A law that this one dominates, on a lattice: the lower side of `discretise`.

    Outcomes between two edges are told as one: their loss is ln of the ratio of their two masses.
    That is post-processing, and composes. The edges are moved until these losses lie nearly on a
    lattice; then each group takes what it lacks from a neighbour (a share of its outcomes, by a
    coin), so that no error of first order is left. What cannot be mended is moved down, keeping its
    mass, or left out: both can only hide. Errors are of the square of the spacing, as they are
    above (docs/math.md 2.6).
    """
    first, places = _places(loss, spacing, log_tail, direction, most)
    edges = (places[:-1] + places[1:]) / 2
    for rounds in range(_EDGE_ROUNDS, -1, -1):
        drawn, other = loss.masses(edges, direction)
        known = (drawn > _LEAST_MASS) & (other > _LEAST_MASS)
        if not known[1:-1].any() or spacing > 100:
            raise TooLarge("losses too large to be merged")
        beside = np.log(np.where(known, drawn, 1.0) / np.where(known, other, 1.0)) - places
        base = float(beside[np.argmax(np.where(known, drawn, 0.0))])
        if rounds:
            moves = np.where(known, beside - base, 0.0)
            moves[[0, -1]] = moves[[1, -2]]  # what lies below or above all edges is no guide
            moved = edges - (moves[:-1] + moves[1:]) / 2
            edges = np.clip(moved, places[:-1], places[1:])
    drawn[drawn < _LEAST_MASS] = 0.0
    # Left out: what is below the first edge has no place, what is above the last would be too
    # heavy there under a tilt.
    drawn[[0, -1]] = 0.0
    known &= drawn > 0
    mass, down, base = _settle(drawn, beside, known, spacing, base)
    places_at = np.arange(len(mass)) - down
    kept = places_at >= 0
    law = np.bincount(places_at[kept], weights=mass[kept], minlength=len(mass))
    return LossGrid(spacing, first, np.asarray(law, dtype=np.float64), 0.0, base)


def _settle(
    drawn: Floats, beside: Floats, known: npt.NDArray[np.bool_], spacing: float, base: float
) -> tuple[Floats, npt.NDArray[np.int64], float]:
    """Groups that are mended, how many places each goes down, and the lattice's first place.

    `beside` is where their losses are, over their places. The last group of a bounded law has no
    neighbour that mends it; then the lattice is moved, so that it fits this one.
    """
    best: tuple[float, Floats, npt.NDArray[np.int64], float] | None = None
    for _ in range(2):
        mass, over = _mend(drawn, np.where(known, beside - base, 0.0), known, spacing)
        # A group below its place goes down to one that it is not below; what that takes off it.
        down = np.ceil(np.maximum(-(over + _SLACK) / spacing, 0.0)).astype(np.int64)
        down[~known] = 3  # its loss is not below its lower edge
        lost = np.where(known, mass * (over + spacing * down), 0.0)
        if best is None or lost.sum() < best[0]:
            best = float(lost.sum()), mass, down, base - _SLACK
        amiss = lost > 1e-3 * spacing**2
        if not amiss.any():
            break
        ends = float(over[amiss].min()), float(over[amiss].max())
        move = ends[0] if over[np.argmax(lost)] < 0 else ends[1]
        base += min(max(move, -spacing / 2), spacing / 2)
    assert best is not None
    return best[1:]


def _mend(
    drawn: Floats, beside: Floats, known: npt.NDArray[np.bool_], spacing: float
) -> tuple[Floats, Floats]:
    """Masses of groups that took shares of their neighbours, and their losses over their places.

    A group below its place takes from the one above it, and conversely. What is taken has the loss
    of its group, so that nothing else is moved; each takes the less the more is taken from it.
    """
    lower, upper = slice(None, -1), slice(1, None)
    here, above, below = (np.exp(-beside - by) for by in (0.0, spacing, -spacing))
    up, down = np.zeros(len(drawn)), np.zeros(len(drawn))
    both = known[lower] & known[upper]
    with np.errstate(divide="ignore", invalid="ignore"):
        up[lower] = drawn[lower] * (here[lower] - 1) / (drawn[upper] * (1 - above[upper]))
        down[upper] = drawn[upper] * (1 - here[upper]) / (drawn[lower] * (below[lower] - 1))
    up[lower] = np.where(both & (up[lower] > 0) & (up[lower] < _MOST_SHARE), up[lower], 0.0)
    down[upper] = np.where(both & (down[upper] > 0), down[upper], 0.0)
    down[2:] = np.minimum(down[2:], _MOST_SHARE + 0.05 - up[:-2])  # both takers of one group
    down[1] = min(down[1], _MOST_SHARE)
    left = np.ones(len(drawn))
    for _ in range(_SHARE_ROUNDS):
        before, left = left, np.ones(len(drawn))
        left[upper] -= (up * before)[lower]
        left[lower] -= (down * before)[upper]
        if np.abs(left - before).max() < 1e-16:
            break
    up, down = up * before, down * before
    mass, other = left * drawn, left * drawn * here
    for taker, giver, share, ratio in ((lower, upper, up, above), (upper, lower, down, below)):
        taken = share[taker] * drawn[giver]
        mass[taker] += taken
        other[taker] += taken * ratio[giver]
    with np.errstate(divide="ignore", invalid="ignore"):
        return mass, np.where(mass > 0, -np.log(other / mass), 0.0)


def _folded(weight: Floats, first: int, size: int) -> Floats:
    """A law on places first, first + 1, ... of a circle of `size` places."""
    begin = first % size
    if begin + len(weight) <= size:
        folded = np.zeros(size)
        folded[begin : begin + len(weight)] = weight
        return folded
    places = np.arange(begin, begin + len(weight)) % size
    return np.asarray(np.bincount(places, weights=weight, minlength=size), dtype=np.float64)


def _power(
    transform: npt.NDArray[np.complex128], count: int
) -> tuple[npt.NDArray[np.complex128], npt.NDArray[np.bool_]]:
    """Transform ** count where that is not nothing (below 1e-26), and where that is: at few."""
    kept = np.abs(transform) > _LEAST_FREQUENCY ** (1 / count)
    power = np.zeros_like(transform)
    power[kept] = transform[kept] ** count
    return power, kept


def log_chernoff(pairs: Sequence[tuple[LossGrid, int]], theta: float, epsilon: float) -> float:
    """Ln of a bound on delta at `epsilon` by one tilt, theta >= 0, of grids with their counts."""
    logs = (count * _log_sum(_log(grid.mass) + theta * grid.losses) for grid, count in pairs)
    return sum(logs) - theta * epsilon


def _dot(first: Floats, second: Floats) -> float:
    """Inner product without BLAS, whose threads wait for each other longer than this takes."""
    return float((first * second).sum())


def _log_sum(values: Floats) -> float:
    top = float(values.max())
    return top + math.log(float(np.exp(values - top).sum()))


class Composed:
    """The composed loss in one direction under one tilt: a bound on delta near one epsilon.

    `pairs` are grids of one spacing with their counts; `rough` has the same laws and aims.
    `lowest` is the least epsilon that will be asked for.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[LossGrid, int]],
        rough: Rough,
        saddle: Saddle,
        lowest: float,
        most: int,
        log_outside: float = LOG_OUTSIDE,
    ) -> None:
        self.theta, self.spacing, self.log_outside = saddle.tilt, pairs[0][0].spacing, log_outside
        self.steps = sum(count for _, count in pairs)
        self._shift = math.fsum(count * grid.base for grid, count in pairs)
        low, high, more, less = rough.window(saddle, log_outside)
        weights = self._tilt(pairs)
        # The rough law may be beside the grid's, by its buckets' width times the steps.
        missed = self.mean - saddle.mean
        low, high = min(low + missed, lowest - self.spacing), high + missed
        if (high - low) / self.spacing > most:
            raise TooLarge(f"a window of {(high - low) / self.spacing:,.0f} points")
        begin = sum(c * g.first for g, c in pairs)
        end = sum(c * (g.first + len(g.mass) - 1) for g, c in pairs)
        low, high = low - self._shift, high - self._shift
        first, last = max(math.floor(low / self.spacing), begin), math.ceil(high / self.spacing)
        # A law that ends near the window is taken whole: nothing need be left out.
        if last - begin <= max(1.25 * (last - first), 1 << 13):
            first = begin
        if end - first <= max(1.25 * (last - first), 1 << 13):
            last = end
        if last < end and self.deviation > 3 * saddle.deviation:
            raise TooLarge("losses that were not aimed at")
        self._convolve(pairs, weights, first, max(last, first + 16))
        self.log_above = self._log_above(pairs, last, more) if last < end else -math.inf
        # Chernoff's bound on untilted losses above an edge bounds the tilted ones, too.
        edge = self.spacing * last + self._shift
        self._log_over = self.log_above + self.theta * edge - self.log_scale
        self.log_below = self._outside_below(pairs, first, less) if first > begin else -math.inf
        # A log of a mass and a tilt are rounded relative to their size, once a step.
        self.rounding = 1e-10 + 8e-15 * self.steps

    def _log_above(self, pairs: Sequence[tuple[LossGrid, int]], last: int, step: float) -> float:
        """Ln of Chernoff's bound on what lies above the window, by tilts up to `step` larger.

        The rough law's best step may be far too large for the grid's own tail.
        """
        edge = self.spacing * last + self._shift
        aim = self.log_scale - self.theta * edge + self.log_outside + 2
        least = math.inf
        for share in (1.0, 0.3, 0.1, 0.03, 0.01):
            least = min(least, log_chernoff(pairs, self.theta + share * step, edge))
            if least <= aim:
                break
        return least

    def _outside_below(
        self, pairs: Sequence[tuple[LossGrid, int]], first: int, step: float
    ) -> float:
        """Ln of Chernoff's bound on the tilted probability of losses below the window."""
        edge = self.spacing * first + self._shift
        least = 0.0
        for share in (1.0, 0.3):
            below = log_chernoff(pairs, self.theta - share * step, edge)
            least = min(least, below + self.theta * edge - self.log_scale)
            if least <= self.log_outside + 2:
                break
        return least

    def _tilt(self, pairs: Sequence[tuple[LossGrid, int]]) -> list[tuple[Floats, int]]:
        """One step's law of each grid under the tilt, and the place of its mean."""
        self.log_scale, self.mean, variance = 0.0, 0.0, 0.0
        weights = []
        for grid, count in pairs:
            tilted = _log(grid.mass) + self.theta * grid.losses
            log_sum = _log_sum(tilted)
            weight = np.exp(tilted - log_sum)
            centre = _dot(weight, grid.losses)
            self.log_scale += count * log_sum
            self.mean += count * centre
            variance += count * _dot(weight, (grid.losses - centre) ** 2)
            weights.append((weight, round(centre / self.spacing)))
        self.deviation = math.sqrt(variance) + 1e-300
        return weights

    def _convolve(
        self,
        pairs: Sequence[tuple[LossGrid, int]],
        weights: Sequence[tuple[Floats, int]],
        first: int,
        last: int,
    ) -> None:
        size = fft.next_fast_len(last - first + 1, real=True)
        start = 0
        spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
        wrong = np.zeros(size // 2 + 1)
        for (grid, count), (weight, middle) in zip(pairs, weights, strict=True):
            # With the mean at position 0 the transform stays near 1 where it matters.
            transform, kept = _power(fft.rfft(_folded(weight, grid.first - middle, size)), count)
            spectrum *= transform
            # Denormal numbers would take longer than all the rest.
            spectrum[np.abs(spectrum) < _LEAST_FREQUENCY] = 0.0
            # A relative error of 1 / |transform| of one step, `count` times.
            wrong[kept] += count * np.abs(transform[kept]) ** (-1 / count)
            start += count * middle
        law = np.maximum(fft.irfft(spectrum, n=size), 0.0)
        self._losses = self.spacing * np.arange(first, first + size, dtype=np.float64)
        self._losses += self._shift
        self._law = np.roll(law, -((first - start) % size))
        self.centre = _dot(self._law, self._losses)
        whole = first <= sum(count * grid.first for grid, count in pairs)
        self._proved_from = -math.inf if whole else float(self._losses[0])
        self._sums: tuple[Floats, Floats] | None = None
        # By Parseval, what is wrong in all frequencies is as large in all losses together.
        amiss = np.abs(spectrum) * (1 + wrong)  # multiplied first: either alone may overflow
        squares = 2 * _dot(amiss, amiss) / size
        self._wrong = ROUNDING * math.log2(size) * math.sqrt(squares) + _LEAST_FREQUENCY

    def masses(self, low: float, high: float) -> tuple[Floats, Floats, Floats]:
        """Losses within [low, high), their probabilities, and how much each of these may be wrong.

        By rounding, and by what lies outside the window and comes back at its other end.
        """
        begin, end = np.searchsorted(self._losses, [low, high], side="left")
        losses = self._losses[begin:end]
        scale = np.exp(np.minimum(self.log_scale - self.theta * losses, 700.0))  # at most 1 is true
        folded = math.exp(self.log_below) + math.exp(min(self._log_over, 0.0))
        law = self._law[begin:end]
        return losses, scale * law, scale * (self._wrong + folded + self.rounding * law)

    @property
    def window(self) -> tuple[float, float]:
        """The least and the largest loss of the window."""
        return float(self._losses[0]), float(self._losses[-1])

    def log_noise(self, epsilon: float) -> float:
        """Ln of the most that rounding can have taken from delta at `epsilon`.

        Errors of single losses times their weights e^(-theta x) (1 - e^-x), x = loss - epsilon: at
        most the product of their Euclidean norms (Cauchy-Schwarz). The sum of squared weights is at
        most their integral over the spacing, and once their largest.
        """
        theta = self.theta
        beyond = max(float(self._losses[-1]) - epsilon, 0.0)
        integral = 1 / max(theta * (2 * theta + 1) * (2 * theta + 2), 1e-300)
        weights = min(integral, beyond) / self.spacing + 1 / (1 + theta) ** 2
        return self.log_scale - theta * epsilon + math.log(self._wrong) + math.log(weights) / 2

    def log_folded(self, epsilon: float) -> float:
        """Ln of about what losses outside the window, come back at its other end, add to delta."""
        outside = max(self.log_outside, self.log_below)
        return self.log_scale - self.theta * epsilon + outside - math.log1p(self.theta)

    def log_density_and_slope(self, epsilon: float) -> tuple[float, float]:
        """Ln of the loss's density at `epsilon`, and of -d delta / d epsilon.

        A chord moves epsilon by at most their ratio times spacing^2 / 8 a step: much more than the
        tilt says where a rare large loss rises out of many small ones.
        """
        at, end = np.searchsorted(self._losses, [epsilon, epsilon + 50.0], side="right").tolist()
        near = self._law[max(at - 2, 0) : at + 2]
        over = self._losses[at:end] - epsilon
        slope = _dot(self._law[at:end], np.exp(-(1 + self.theta) * over))
        if slope <= 0 or not len(near):
            return -math.inf, -math.inf
        unit = self.log_scale - self.theta * epsilon
        density = float(near.mean()) / self.spacing
        return unit + math.log(max(density, 1e-300)), unit + math.log(slope)

    def log_share(self, epsilon: float) -> float:
        """Ln of what delta at `epsilon` is made of: the share of the tilted law near above it.

        Losses outside the window come back at its other end; they must be few against this.
        """
        return self.log_delta(epsilon) - self.log_scale + self.theta * epsilon

    def log_delta(self, epsilon: float) -> float:
        """Ln of delta at `epsilon` by the computed law; the truth is at most exp(log_noise) above.

        What lies above the window is not in it: `log_above`.
        """
        if epsilon < self._proved_from:  # some mass between epsilon and the window is not here
            return math.inf
        total, lost, anchor = self._above(epsilon)
        if total + lost <= 0:
            return -math.inf
        return self.log_scale - self.theta * anchor + math.log(total + lost) + self.rounding

    def log_least(self, epsilon: float) -> float:
        """Ln of what delta at `epsilon` is at least, of the law convolved.

        All that rounding can have added, and all that lies outside the window and came back at its
        other end, is taken off. A folded loss counts with at most the largest weight there is.
        """
        epsilon = max(epsilon, self._proved_from)
        total, lost, anchor = self._above(epsilon)
        if total <= lost:
            return -math.inf
        seen = self.log_scale - self.theta * anchor + math.log(total - lost)
        unit = self.log_scale - self.theta * epsilon - math.log1p(self.theta)
        outside = log_add(self.log_below, self._log_over)
        share = math.exp(min(log_add(self.log_noise(epsilon), unit + outside) - seen, 0.0))
        return seen + math.log1p(-share) - self.rounding if share < 1 else -math.inf

    def _above(self, epsilon: float) -> tuple[float, float, float]:
        """Sum over losses l > epsilon of law(l) e^(-theta (l - anchor)) (1 - e^(epsilon - l)).

        With what rounding can have taken from it, or added, and the anchor.
        """
        at = int(np.searchsorted(self._losses, epsilon, side="right"))
        below = self.centre - float(self._losses[min(at, len(self._losses) - 1)])
        if at < len(self._losses) and self.theta * below < 500 and below < 80:
            first, second = self._suffix_sums()
            total = first[at] - math.exp(min(epsilon - self.centre, 700.0)) * second[at]
            # Sums of n terms are rounded n times at most; else too many digits cancel.
            lost = 4.4e-16 * len(first) * first[at]
            if lost < 1e-6 * total:
                return float(total), float(lost), self.centre
        over = self._losses[at:] - epsilon
        return _dot(self._law[at:] * np.exp(-self.theta * over), -np.expm1(-over)), 0.0, epsilon

    def _suffix_sums(self) -> tuple[Floats, Floats]:
        if self._sums is None:
            away = self._losses - self.centre
            # Entries so far below that they overflow are never asked for.
            first = self._law * np.exp(np.minimum(-self.theta * away, 600.0))
            second = first * np.exp(np.minimum(-away, 80.0))
            self._sums = np.cumsum(first[::-1])[::-1], np.cumsum(second[::-1])[::-1]
        return self._sums


class Piece:
    """An upper bound on delta: convolved terms, each with the ln of its factor, and disclosures.

    `error` is the error of epsilon that the grid's spacing was chosen for.
    """

    def __init__(
        self, terms: Sequence[tuple[float, Composed]], log_infinite: float, error: float
    ) -> None:
        self.terms, self.error = terms, error
        above = [factor + term.log_above for factor, term in terms]
        self.log_infinite = log_add(log_infinite, *above)

    def bound(self, epsilon: float) -> tuple[float, float]:
        """Ln of the bound, and of the part of it that makes up for what cannot be seen."""
        known = log_add(*(factor + term.log_delta(epsilon) for factor, term in self.terms))
        noise = (factor + term.log_noise(epsilon) for factor, term in self.terms)
        doubtful = log_add(self.log_infinite, *noise)
        return min(0.0, log_add(known, doubtful)), doubtful

    def least(self, epsilon: float) -> float:
        """Ln of what delta is at least, if the terms are made of merged laws (`merge`)."""
        return log_add(*(factor + term.log_least(epsilon) for factor, term in self.terms))

    def is_sound(self, epsilon: float) -> bool:
        """Whether hardly anything of the bound is rounding or losses cut off or folded over."""
        value, doubtful = self.bound(epsilon)
        folded = (factor + term.log_folded(epsilon) for factor, term in self.terms)
        return log_add(doubtful, *folded) - value <= LOG_DOUBTED

    def sharpness(self, *epsilons: float) -> float:
        """Density of the loss over -d delta / d epsilon, the largest at these."""
        return max(map(self._sharpness, epsilons))

    def _sharpness(self, epsilon: float) -> float:
        both = [(f, *term.log_density_and_slope(epsilon)) for f, term in self.terms]
        slope = log_add(*(factor + slope for factor, _, slope in both))
        if slope == -math.inf:
            return 0.0
        density = log_add(*(factor + density for factor, density, _ in both))
        return math.exp(min(density - slope, 700.0))

    def is_fine(self, *epsilons: float) -> bool:
        """Whether the grid's error at these is what was aimed at, or nearly."""
        term = self.terms[0][1]
        return term.steps * term.spacing**2 / 8 * self.sharpness(*epsilons) <= 4 * self.error
