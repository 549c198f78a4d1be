"""Random allocation: each record in exactly one step of an epoch, drawn anew every epoch.

One epoch of t steps is dominated by (1/t) sum N(e_i, z^2 I) against N(0, z^2 I) (docs/math.md 13).
Under the second the likelihood ratio is the mean of t independent lognormals X of mean 1. Every
divergence is convex in each of them, so that a mean-preserving spread of X onto a grid can only
raise it (an upper bound), and a mean-preserving contraction can only lower it (a lower bound),
through sums and through epochs.

A lognormal has no exponential moments, and one transform has a floor of rounding. So X is cut in
three: small values, whose sum is convolved under several tilts; medium ones, of which few are met
and which are counted; and large ones, beside which the sum of the others needs few points.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, ndtr, ndtri, ndtri_exp

from sordino.accounting import gaussian
from sordino.accounting.pld.aim import Rough, Saddle, TooLarge
from sordino.accounting.pld.convolution import Composed, LossGrid, log_chernoff
from sordino.accounting.pld.loss import Direction, Loss, from_tails
from sordino.types import Floats

Pairs = Sequence[tuple[LossGrid, int]]

NOISES = (0.4, 1e5)
"""Noise multipliers whose law is made here. With less, what allocation gains is not counted: a
record's step is taken for known. More noise is counted as the most, which hides less."""
MOST_STEPS = 10**7
"""Steps of an epoch whose law is made here; more are counted as so many, which hide less."""
_RESOLUTION = 0.015
"""Spacing of the grid over the deviation of a lognormal without its rare large values.

A spread adds a sixth of its square to the variance: 2e-5 of epsilon. So do the points of the sum.
"""
_BOTH_SIDES = 3
"""How much finer the grid is where both sides of an answer are asked for."""
_FEW_STEPS = 100
"""With fewer steps the grid is finer: the sum may be small against its mean."""
_CELLS = 1 << 18
"""Cells of small and medium values together, and of a convolution with medium ones."""
_LARGE_DECIDE = 1.3
"""Of more than this, one over the noise, fewer cells do: large values decide."""
_RARE, _RARE_LIGHT, _LIGHT = 1e-3, 1e-8, 0.5
"""About how many values of an epoch are above the small ones; the second where one over the noise
is at most the third: then values are so small that tilts reach farther."""
_LOG_FLOOR = -50.0
"""Ln of the probability that may be counted as a disclosure: 2e-22."""
_LOG_OUTSIDE, _LOG_OUTSIDE_RARE = -45.0, -52.0
"""Ln of what a convolution's window may leave out of the tilted law; of one that is not tilted."""
_HALF_WIDTH = 4.5
"""Half the width of the stretch of sums that one tilt serves, in deviations."""
_MORE = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
"""By how much more tilt, over the deviation, what is left may be shown to be negligible."""
_BANDS, _LOG_BAND = (6, 3), 1.2
"""Into how many bands medium values are cut where one is met, or two; ln of their least width."""
_FEWER_CELLS = 8
"""So many times fewer cells where two medium values or more are met: mostly one makes a delta."""
_MOST_COUNTED = 12
"""Medium or large values of one epoch that are told apart; more count as a disclosure."""
_COARSEST = 64
"""How much coarser a grid of medium values may be; all grids begin and end at multiples of it."""
_SLACK = 1e-9
"""Of a spacing: how far a group's mean may lie beside its point; losses are lowered by as much."""
_FINER, _BETWEEN, _MOST_NODES, _POINTS = 0.5, 0.04, 600, 16
"""Where a record is replaced: how fine the grid is, how dense epsilons are, how many at most, and
how many more lie between two."""
_SPAN, _MOST_RAISED = 3.0, 8
"""There: how far above the kink the grid reaches at least, against how far below; how often
the lowest value is moved up."""
_LOG_SHARE = -12.0
"""There: ln of what may be counted as a disclosure, of a delta."""
_GROWTH = 0.006
"""How far apart points of the sum are: of its distance from the mean, and of itself."""
_MOST = 1 << 40
"""Points of a window: no limit, since cells are counted before."""
_LARGE_POINTS = 400
"""Points of large values, and of the sum beside them."""


@dataclass(frozen=True)
class _Law:
    """Losses of one epoch in order, with their probability in both worlds.

    `lost` is what is counted as a disclosure: with the record, and without it.
    """

    losses: Floats
    with_record: Floats
    without: Floats
    lost: tuple[float, float]


@dataclass(frozen=True)
class _Value:
    """exp(sigma g - sigma^2/2) of a normal g: the likelihood ratio of one step, if it is the one.

    Where a record is replaced, less `alpha` times that of -g, plus `raised`; negative values are
    moved up to 0.
    """

    sigma: float
    alpha: float = 0.0
    raised: float = 0.0

    def at(self, g: float) -> float:
        """The value at this g."""
        up, down = (math.exp(min(sign * self.sigma * g, 600.0)) for sign in (1, -1))
        return math.exp(-(self.sigma**2) / 2) * (up - self.alpha * down) + self.raised

    def cut(self, values: Floats) -> Floats:
        """The g of these values."""
        scaled = (values - self.raised) * math.exp(self.sigma**2 / 2)
        root = np.sqrt(scaled * scaled + 4 * self.alpha)
        with np.errstate(divide="ignore", invalid="ignore"):
            power = np.where(scaled < 0, 2 * self.alpha / (root - scaled), (scaled + root) / 2)
            return np.asarray(np.log(power) / self.sigma)

    def cells(self, edges: Floats) -> tuple[Floats, Floats]:
        """Probability of the value between edges, and that times the mean there."""
        cut = self.cut(edges)
        mass, up, down = (
            from_tails(ndtr(cut - shift), ndtr(shift - cut))[1:-1]
            for shift in (0.0, self.sigma, -self.sigma)
        )
        return mass, up - self.alpha * down + self.raised * mass

    def above(self, edge: float) -> tuple[float, float]:
        """Probability of larger values, and at most that times the mean there."""
        cut = float(self.cut(np.array([edge]))[0])
        mass, up = float(ndtr(-cut)), float(ndtr(self.sigma - cut))
        return mass, up + self.raised * mass

    def deviation(self, steps: int) -> float:
        """Its deviation without the large values that half of the epochs do not meet."""
        top = -float(ndtri(1 / max(steps, 2)))
        g = np.linspace(-8.0 if self.alpha == 0 else -max(top, 1.0), top, 4001)
        weight = np.exp(-g * g / 2)
        value = np.exp(self.sigma * g) - self.alpha * np.exp(-self.sigma * g)
        mean = (weight * value).sum() / weight.sum()
        square = (weight * (value - mean) ** 2).sum() / weight.sum()
        return math.exp(-(self.sigma**2) / 2) * math.sqrt(float(square))


def _spread(points: Floats, mass: Floats, mean: Floats) -> Floats:
    """The mass of every cell moved to its two ends, the mean kept: larger in convex order."""
    upward = np.clip((mean - points[:-1] * mass) / np.diff(points), 0.0, mass)
    spread = np.zeros(len(points))
    spread[1:] += upward
    spread[:-1] += mass - upward
    return spread


def _contracted(low: float, high: float, spacing: float, law: _Value) -> tuple[float, Floats]:
    """X between two values merged into groups whose means lie on a grid: its first point, masses.

    The first point is the mean of the first cell. The cell around another point has its mean beside
    it by about the square of the spacing; a share of a neighbouring cell makes up for that. What
    cannot be merged so is dropped.
    """
    edge = max(low + spacing / 2, law.at(float(ndtri(1e-9))))
    for _ in range(100):  # until it is half a spacing above the mean of what is below it
        mass, mean = law.cells(np.array([low, edge]))
        first = float(mean[0] / mass[0])
        if abs(first + spacing / 2 - edge) <= 1e-3 * spacing:
            break
        edge = first + spacing / 2
    at = first + spacing * np.arange(max(1, math.floor((high - first) / spacing - 0.5) + 1))
    edges = np.concatenate([at[:1], at + spacing / 2])
    edges[0], edges[-1] = low, high
    if len(at) > 1:
        edges[1] = edge
    mass, mean = law.cells(edges)
    place = np.where(mass > 0, mean / np.maximum(mass, 1e-300), at)
    index = np.arange(len(at))
    other = np.clip(np.where(place < at, index + 1, index - 1), 0, len(at) - 1)
    reach = place[other] - at
    usable = (other != index) & (np.abs(reach) > spacing / 8)
    share = np.where(usable, (at - place) / np.where(usable, reach, 1.0), 0.0)
    taken = np.zeros(len(at))
    for _ in range(50):
        left = mass - np.bincount(other, taken, len(at))
        before, taken = taken, np.clip(left * share, 0.0, mass[other])
        if np.array_equal(before, taken):
            break
    left = np.maximum(mass - np.bincount(other, taken, len(at)), 0.0)
    total = left + taken
    off = np.abs(left * (place - at) + taken * reach)
    total[off > _SLACK * spacing * total] = 0.0
    return first, total


def _gathered(points: Floats, place: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """Masses before, between and after the points, and these times their places."""
    index, size = np.searchsorted(points, place, side="right"), len(points) + 1
    masses, means = (np.bincount(index, each, size) for each in (mass, mass * place))
    return masses.astype(np.float64), means.astype(np.float64)


def _log_ways(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _rough(pairs: Pairs) -> Rough:
    """The same laws in few buckets, to aim by."""
    laws = []
    for grid, _ in pairs:
        size = len(grid.mass)
        starts = np.geomspace(1, size, 400).astype(int) - 1
        starts = np.union1d(starts, np.linspace(0, size - 1, 400).astype(int))
        mass = np.add.reduceat(grid.mass, starts)
        place = np.add.reduceat(grid.mass * grid.losses, starts) / np.maximum(mass, 1e-300)
        laws.append((np.log(mass[mass > 0]), place[mass > 0]))
    return Rough(laws, [count for _, count in pairs], _LOG_FLOOR)


def _stretches(
    rough: Rough, low: float, most: float, log_floor: float
) -> Iterator[tuple[Saddle, float, float]]:
    """Tilts upwards, each with the sums it serves; the last is for what is negligible."""
    saddle = rough.saddle_for(low)
    while True:
        high = min(saddle.mean + _HALF_WIDTH * saddle.deviation, most)
        yield saddle, low, high
        low = high
        if low >= most:
            return
        tilts = saddle.tilt + _MORE / saddle.deviation
        bounds = rough.cumulants(tilts) - tilts * low
        if bounds.min() < log_floor:
            yield rough.saddle(float(tilts[np.argmin(bounds)])), low, math.inf
            return
        less, more = saddle.tilt, saddle.tilt + 1 / saddle.deviation
        for _ in range(40):  # the largest tilt whose law still reaches down to here
            saddle = rough.saddle(more)
            far = saddle.mean - (_HALF_WIDTH - 0.5) * saddle.deviation > low
            if far and more <= 1.02 * less:
                break
            less, more = (less, (less + more) / 2) if far else (more, 2 * more)
        saddle = rough.saddle(less)
        if saddle.cumulant - saddle.tilt * low < log_floor or saddle.mean <= low:
            yield saddle, low, math.inf
            return


class _Epoch:
    """Makes the law of one epoch; `lower` by contractions, what is lost left out."""

    bands: tuple[int, ...] = _BANDS

    def __init__(
        self,
        steps: int,
        value: _Value,
        lower: bool,
        finer: float,
        log_floor: float = _LOG_FLOOR,
    ) -> None:
        self.log_floor = log_floor
        self.steps, self.value, self.lower, self.finer = steps, value, lower, finer
        # With little noise large values decide, which have few points however many cells there are.
        # Beyond these, values are rare and need few points, however fine the grid is.
        self.cells = int(_CELLS * min(finer, 0.25 if value.sigma > _LARGE_DECIDE else 2.0))
        few = math.sqrt(min(1.0, steps / _FEW_STEPS))
        core = value.deviation(steps)
        self.spacing = _RESOLUTION / finer * few * core
        self.deviation = core * math.sqrt(steps)
        far = -float(ndtri_exp(self.log_floor - 5))
        self.nearest, self.farthest = max(value.at(-far), 0.0), value.at(far + value.sigma)
        self.typical = 1 + value.raised
        self.from_sum = -math.inf
        self.lost_with = self.lost_without = 0.0
        self.rare: float = _RARE_LIGHT if value.sigma <= _LIGHT else _RARE
        self._prepare()
        self.begin = _COARSEST * math.floor(self.nearest / self.spacing / _COARSEST)

    def _prepare(self) -> None:
        self.points = self._sums()
        self.mass, self.mean = np.zeros((2, len(self.points) - 1))

    def _sums(self) -> Floats:
        """Points of the sum: near its mean by its deviation, then by distance and by size."""
        least = self.nearest
        most = 2 + 40 * self.deviation / self.steps + _MOST_COUNTED * self.farthest / self.steps
        growth = _GROWTH / self.finer
        unit = 0.6 * _RESOLUTION * self.deviation / self.steps / _GROWTH
        away = unit * np.sinh(np.arange(0, math.asinh(most / unit), growth))
        ratios = np.exp(np.arange(math.log(least), math.log(most), growth))
        every = np.concatenate([1 - away, 1 + away, ratios])
        return np.unique(self.steps * every[(every >= least) & (every <= most)])

    def _grid(self, low: int, high: int, coarser: int = 1) -> LossGrid:
        """X between two places of the grid, on every so many of its points."""
        spacing = self.spacing * coarser
        if self.lower:
            ends = low * self.spacing, high * self.spacing
            first, mass = _contracted(*ends, spacing, self.value)
            return LossGrid(spacing, 0, mass, 0.0, first)
        points = np.float64(self.spacing) * np.arange(low, high + 1, coarser)
        mass = _spread(points, *self.value.cells(points))
        if low == 0:  # what is less is moved up
            mass[0] += float(ndtr(self.value.cut(points[:1])[0]))
        return LossGrid(spacing, low // coarser, mass, 0.0)

    def run(self) -> Self:
        """Keep all there is."""
        steps, most = self.steps, _COARSEST * math.ceil(self.farthest / self.spacing / _COARSEST)
        last = min(self.begin + self.cells, most)
        if self.begin:
            self.lost_without += steps * math.exp(self.log_floor - 5)
            self.lost_with += steps * math.exp(self.log_floor - 5)
        # Beside the sum's deviation a small value is small enough to be tilted with the others.
        rare = self.value.at(-float(ndtri(min(0.5, self.rare / steps))))
        level = max(rare, 0.5 * self.deviation) / self.spacing
        level = min(_COARSEST * math.ceil(level / _COARSEST), last)
        self._smalls(self._grid(self.begin, level))
        if level < last:
            self._mediums(level, last)
        if last < most:
            self._larges(last)
        else:
            self._lose_above(last * self.spacing)
        return self

    def law(self) -> _Law:
        """The law of the loss."""
        if self.lower:
            kept = self.mass > 0
            q, place = self.mass[kept], self.mean[kept] / self.mass[kept]
            lost = 0.0, 0.0
        else:
            place, q = self.points, _spread(self.points, self.mass, self.mean)
            lost = self.lost_with, self.lost_without
        ratio = place / self.steps
        return _Law(np.log(ratio), ratio * q, q, lost)

    # ------------------------------------------------------------------ what is kept and lost

    def _keep(self, place: Floats, mass: Floats) -> None:
        """Add masses at these sums; those beyond all points are lost."""
        masses, means = _gathered(self.points, place, mass)
        self.mass += masses[1:-1]
        self.mean += means[1:-1]
        self.lost_without += float(masses[0] + masses[-1])
        self.lost_with += float(means[0] + means[-1]) / self.steps

    def _lose(self, log_without: float, edge: float) -> None:
        """Count sums beyond `edge` as disclosed: ln of a bound on their probability without it.

        By a tilt of at least 1 / edge, which bounds E(S; S > edge) by edge times the same.
        """
        self.lost_without += math.exp(min(log_without, 0.0))
        self.lost_with += math.exp(min(log_without + math.log(edge / self.steps), 0.0))

    def _ways(self, count: int, log_each: float, log_weighed: float) -> tuple[float, bool]:
        """Ln of how many choices of so many values there are, and whether these are too rare.

        Then they, and more of them, are counted as disclosed. The chance of one value is
        exp(log_each), of the record's own exp(log_weighed).
        """
        ways = _log_ways(self.steps, count)
        without = ways + count * log_each
        own = _log_ways(self.steps - 1, count - 1) + (count - 1) * log_each + log_weighed
        record = float(np.logaddexp(without + math.log(self.typical), own))
        if record >= self.log_floor and count < _MOST_COUNTED:
            return ways, False
        self.lost_with += 2 * math.exp(record)
        self.lost_without += 2 * math.exp(without)
        return ways, True

    def _lose_outside(self, factor: float, pairs: Pairs, made: Composed, deviation: float) -> None:
        """Count sums outside the window of a convolution as disclosed."""
        low, high = made.window
        if self.from_sum == -math.inf:  # then it is not tilted
            self._lose(factor + made.log_scale + made.log_below, max(low, self.steps))
        if made.log_above > -math.inf:
            tilts = np.maximum(made.theta + np.geomspace(0.03, 30, 8) / deviation, 1 / high)
            beyond = min(log_chernoff(pairs, float(tilt), high) for tilt in tilts)
            self._lose(factor + beyond, high)

    def _lose_above(self, edge: float) -> None:
        """Count epochs with a value above `edge` as disclosed."""
        mass, mean = self.value.above(edge)
        self.lost_without += self.steps * mass
        self.lost_with += mean + self.steps * mass * self.typical

    # ------------------------------------------------------------------ small, medium, large values

    def _add(self, factor: float, made: Composed, low: float, high: float) -> None:
        """Sums within [low, high) of one convolution; what rounding may hide is added to each."""
        place, mass, wrong = made.masses(low, high)
        mass = mass - wrong if self.lower else mass + wrong
        self._keep(place, math.exp(factor) * np.clip(mass, 0.0, 1.0))

    def _smalls(self, small: LossGrid) -> None:
        """All values small: bounded, so that every sum has a tilt that makes it common."""
        pairs = [(small, self.steps)]
        rough = _rough(pairs)
        laws = [(log[::-1], -place[::-1]) for log, place in rough.laws]
        mirrored = Rough(laws, rough.counts, rough.log_tail)
        bottom, top = (self.steps * float(small.losses[end]) for end in (0, -1))
        middle, start = rough.untilted.mean, self.from_sum
        for sign, aimed, begin, end in (
            (1, rough, max(start, middle), top + self.spacing),
            (-1, mirrored, -middle, -bottom),
        )[: 1 + (start < middle)]:
            for each, near, far in _stretches(aimed, begin, end, self.log_floor):
                if far == math.inf:
                    tilt = max(each.tilt, 1 / abs(near))
                    self._lose(log_chernoff(pairs, sign * tilt, sign * near), abs(near))
                    continue
                low, high = sorted((sign * near, sign * far))
                tilted = Saddle(sign * each.tilt, each.cumulant, sign * each.mean, each.deviation)
                made = Composed(pairs, rough, tilted, low, _MOST, _LOG_OUTSIDE)
                self._add(0.0, made, low, high)

    def _mediums(self, level: int, last: int) -> None:
        """One medium value, two, ...: each case with a rounding of its own.

        Where few are met, also by how large each is: beside the usual medium value a rare one
        would be less than the rounding of the transform, and no tilt lifts it.
        """
        mass, mean = self.value.cells(self.spacing * np.array([level, last]))
        for count in range(1, self.steps + 1):
            _, rare = self._ways(count, math.log(mass[0]), math.log(mean[0]))
            if rare:
                return
            bands = self._bands(level, last, count)
            for chosen in itertools.combinations_with_replacement(bands, count):
                self._of_bands(level, sorted(Counter(chosen).items()))

    def _bands(self, level: int, last: int, count: int) -> list[tuple[int, int]]:
        """Stretches of medium values that are told apart where so many are met."""
        most = self.bands[count - 1] if count <= len(self.bands) else 1
        many = min(most, max(1, math.ceil(math.log(last / level) / _LOG_BAND)))
        inner = level * (last / level) ** (np.arange(1, many) / many)
        edges = [level, *(_COARSEST * np.round(inner / _COARSEST)).astype(int).tolist(), last]
        return [(low, high) for low, high in itertools.pairwise(edges) if low < high]

    def _of_bands(self, level: int, bands: Sequence[tuple[tuple[int, int], int]]) -> None:
        """Sums with so many values of each of these bands, and the others small."""
        count = sum(many for _, many in bands)
        ways = _log_ways(self.steps, count) + math.lgamma(count + 1)
        ways -= sum(math.lgamma(many + 1) for _, many in bands)
        size = sum(many * (high - self.begin) for (_, high), many in bands)
        size += math.ceil(20 * self.deviation / self.spacing)
        cells = self.cells if count == 1 or not self.bands else self.cells // _FEWER_CELLS
        coarser = min(1 << max(0, math.ceil(math.log2(size / cells))), _COARSEST)
        pairs = [(self._grid(*ends, coarser), many) for ends, many in bands]
        if count < self.steps:
            pairs.append((self._grid(self.begin, level, coarser), self.steps - count))
        rough = _rough(pairs)
        start, saddle, lowest = self.from_sum, rough.untilted, math.inf
        if start > -math.inf:
            saddle, lowest = rough.saddle_for(start), start
        made = Composed(pairs, rough, saddle, lowest, _MOST, _LOG_OUTSIDE_RARE)
        self._add(ways, made, start, math.inf)
        self._lose_outside(ways, pairs, made, rough.untilted.deviation)

    def _larges(self, last: int) -> None:
        """Values beyond the grid: beside them the sum of the others needs few points."""
        edge = self.spacing * last
        self._lose_above(self.farthest)
        points = np.geomspace(edge, self.farthest, int(_LARGE_POINTS * math.sqrt(self.finer)))
        mass, mean = self.value.cells(points)
        if self.lower:
            points, large = mean / np.maximum(mass, 1e-300), mass
        else:
            large = _spread(points, mass, mean)
        each, weighed = math.log(large.sum()), math.log((large * points).sum())
        place, mass = points, large
        for count in range(1, self.steps + 1):
            ways, rare = self._ways(count, each, weighed)
            if rare:
                return
            if count > 1:
                place, mass = self._fewer(np.add.outer(place, points), np.outer(mass, large))
            around, share = np.zeros(1), np.ones(1)
            if count < self.steps:
                pairs = [(self._grid(self.begin, last, _COARSEST), self.steps - count)]
                rough = _rough(pairs)
                made = Composed(pairs, rough, rough.untilted, math.inf, _MOST, _LOG_OUTSIDE_RARE)
                sums, masses, wrong = made.masses(-math.inf, math.inf)
                masses = np.clip(masses - wrong if self.lower else masses + wrong, 0.0, 1.0)
                self._lose_outside(ways + count * each, pairs, made, rough.untilted.deviation)
                around, share = self._fewer(sums, masses)
            self._keep(
                np.add.outer(around, place).ravel(), np.outer(share, math.exp(ways) * mass).ravel()
            )

    def _fewer(self, place: Floats, mass: Floats) -> tuple[Floats, Floats]:
        """The same masses on few points, spread or merged."""
        place, mass = place.ravel(), mass.ravel()
        ends = max(float(place.min()), 1e-300), float(place.max())
        centre = float((place * mass).sum() / max(float(mass.sum()), 1e-300))
        points = np.geomspace(*ends, _LARGE_POINTS)
        near = centre + self.deviation * np.linspace(-8, 8, _LARGE_POINTS)
        points = np.union1d(points, near[(near > ends[0]) & (near < ends[1])])
        points[0], points[-1] = place.min(), ends[1] * (1 + 1e-12)
        masses, means = (each[1:-1] for each in _gathered(points, place, mass))
        if not self.lower:
            return points, _spread(points, masses, means)
        kept = masses > 0
        return means[kept] / masses[kept], masses[kept]


class _Gain(_Epoch):
    """E(sum - kink)_+: the delta of one epoch in which a record is replaced, at one epsilon."""

    bands = ()  # a medium value is so rare there that its rounding is negligible

    def _prepare(self) -> None:
        self.from_sum, self.gain = self.steps * self.value.raised, 0.0
        self.cells = _COARSEST * int(
            self.finer * _CELLS / (8 * _COARSEST)
        )  # there are many to be made
        self.rare = 1e-8  # one tilt reaches farther than a curve of all sums asks for
        needed = _SPAN * self.value.raised / self.cells
        self.is_coarse, self.spacing = needed > 4 * self.spacing, max(needed, self.spacing)

    def _keep(self, place: Floats, mass: Floats) -> None:
        self.gain += float((mass * np.maximum(place - self.from_sum, 0.0)).sum())

    def log_delta(self) -> float:
        """Ln of the delta."""
        delta = self.gain / self.steps + self.lost_with
        return math.log(delta) if 0 < delta < 1 else 0.0  # also if it is no number


@functools.lru_cache(maxsize=4096)
def _replaced(
    steps: int,
    noise: float,
    epsilon: float,
    finer: float,
    log_floor: float = _LOG_FLOOR,
) -> float:
    """Ln of the delta of (1/t) sum N(e_i, z^2 I) against (1/t) sum N(-e_i, z^2 I).

    Whatever negative values are moved up to, it is a bound; the best of some is taken.
    """
    known = gaussian.log_delta(epsilon, 2 / noise)  # if the record's step is
    if known < log_floor:
        return known
    value = _Value(1 / noise, math.exp(epsilon))
    rare = -value.at(float(ndtri(min(0.1, _RARE / finer**2 / steps))))
    raised = max(rare, value.deviation(steps) * math.sqrt(steps))
    # Much more has no digits left beside it. This is positive, since so is `known`.
    raised = min(raised, value.at(value.sigma - float(ndtri_exp(log_floor - 5))))
    best = math.inf
    for _ in range(_MOST_RAISED):
        before = best
        made = _Gain(steps, replace(value, raised=raised), False, finer, log_floor)
        with contextlib.suppress(TooLarge):
            best = min(best, made.run().log_delta())
        if best > before - 1e-6 or not made.is_coarse:
            break
        raised /= 3
    return min(best, known)


@functools.lru_cache(maxsize=32)
def _replaced_nodes(steps: int, noise: float, finer: int) -> tuple[Floats, Floats]:
    """Epsilons, and ln of delta there, so dense that `_between` errs little.

    The distance follows from the curve's fall and its second difference, as far as it is known.
    """
    bend = steps * noise**2 / 4
    epsilons, logs = [0.0], [_replaced(steps, noise, 0.0, _FINER * finer)]
    step = 0.04 / finer * math.exp(logs[0])
    while logs[-1] > _LOG_FLOOR + 10 and len(epsilons) < _MOST_NODES * finer:
        epsilons.append(epsilons[-1] + step)
        # What is far less than delta need not be told apart.
        log_floor = max(_LOG_FLOOR, logs[-1] + _LOG_SHARE)
        log_delta = _replaced(steps, noise, epsilons[-1], _FINER * finer, log_floor)
        logs.append(min(log_delta, logs[-1]))
        falls = -np.diff(logs[-3:]) / np.diff(epsilons[-3:])
        if len(falls) == 2:
            change = 2 * (falls[0] - falls[1]) / (epsilons[-1] - epsilons[-3])
            fall = max(falls[1] - change * step / 2, 1e-9)
            curved = max(min(change + bend, change + fall * (fall + 1)), 1e-9)
            worth = 1 - logs[-1] / 10  # hardly ever is a small delta asked for
            aim = _BETWEEN / finer * math.sqrt(worth * max(epsilons[-1] * fall, 1.0) / curved)
            if epsilons[-1] * fall > 4:  # differences of few digits may look like a bend
                aim = max(aim, 0.1 / finer * math.sqrt(worth) / fall)
            step = min(aim, 1.5 * step, 0.5 / finer, 2 / fall)
    return np.array(epsilons), np.array(logs)


def _between(steps: int, noise: float, finer: int) -> tuple[Floats, Floats]:
    """Many epsilons, and bounds on delta there, from those at few.

    delta is convex in exp(e), and so is ln delta + t z^2 e^2 / 8 in e: a chord of either is above.
    To move all t coordinates by c multiplies the two sums of lognormals by exp(c / z) and its
    inverse, so that delta(e - 2 c / z) e^(c / z) is the mean of (.)_+ exp(c G - t c^2 / 2), G their
    sum: its logarithm is convex in c but for the square (Hoelder).
    """
    at, upper = _replaced_nodes(steps, noise, finer)
    bend = steps * noise**2 / 8
    share = np.arange(_POINTS) / _POINTS
    epsilons = (at[:-1, None] + np.diff(at)[:, None] * share).ravel()
    heights = np.exp(upper)
    logs = np.interp(epsilons, at, upper + bend * at**2) - bend * epsilons**2
    straight = np.interp(np.expm1(epsilons), np.expm1(at), heights)
    least = np.minimum(np.exp(np.minimum(logs, 0.0)), straight)
    return np.append(epsilons, at[-1]), np.append(least, heights[-1])


def _hull(at: Floats, heights: Floats) -> npt.NDArray[np.int64]:
    """Which points the largest convex function below all of them passes through."""
    kept: list[int] = []
    x, y = at.tolist(), heights.tolist()
    for i in range(len(x)):
        while len(kept) > 1:
            j, k = kept[-1], kept[-2]
            if (y[j] - y[k]) * (x[i] - x[j]) < (y[i] - y[j]) * (x[j] - x[k]):
                break
            kept.pop()
        kept.append(i)
    return np.array(kept)


@functools.lru_cache(maxsize=32)
def _replaced_epoch(steps: int, noise: float, finer: int) -> _Law:
    """The law of the largest convex curve below these bounds on delta.

    The pair is symmetric: delta(-epsilon) = 1 - e^-epsilon (1 - delta(epsilon)).
    """
    epsilons, heights = _between(steps, noise, finer)
    over = np.expm1(epsilons)  # e^epsilon - 1 keeps its digits
    heights = np.minimum.accumulate(heights)
    # The chord from -epsilon to epsilon is not below the curve at 0.
    heights[0] = min(heights[0], ((over + 2 * heights) / (over + 2)).min())
    kept = _hull(over, heights)
    over, heights = over[kept], heights[kept]
    mass = np.diff(np.append(np.diff(heights) / np.diff(over), 0.0))
    upper, losses, lost = (1 + over[1:]) * mass, epsilons[kept[1:]], float(heights[-1])
    none = max(0.0, 1.0 - lost - float(upper.sum() + mass.sum()))
    drawn = np.concatenate([mass[::-1], [none], upper])
    return _Law(np.concatenate([-losses[::-1], [0.0], losses]), drawn, drawn[::-1], (lost, lost))


@functools.lru_cache(maxsize=32)
def _epoch(steps: int, noise: float, lower: bool, finer: int) -> _Law:
    return _Epoch(steps, _Value(1 / noise), lower, finer).run().law()


@dataclass(frozen=True)
class AllocationLoss(Loss):
    """One epoch of t steps: (1/t) sum N(e_i, z^2 I) against N(0, z^2 I).

    Its law is computed on a grid `finer` than usual. What was done may
    leak less than it (`at_most`): an epoch that was broken off. `lower` makes the optimistic law.
    """

    symmetric = False
    steps_per_epoch: int
    noise_multiplier: float
    finer: int = 1
    at_most: bool = False
    lower: bool = False

    @property
    def most_mu(self) -> float:
        """As if the record's step were known."""
        return (2 if self.symmetric else 1) / self.noise_multiplier

    def _law(self) -> _Law:
        return _epoch(self.steps_per_epoch, self.noise_multiplier, self.lower, self.finer)

    def optimistic(self) -> Loss | None:
        """The law by contractions, on a finer grid; none where less may leak."""
        return None if self.at_most else replace(self.refined(), lower=True)

    def refined(self) -> AllocationLoss:
        return replace(self, finer=max(self.finer, _BOTH_SIDES))

    def _one_way(self, direction: Direction) -> tuple[Floats, Floats, Floats, float]:
        """Losses in order, masses drawn and other, and the probability of a disclosure."""
        law = self._law()
        slack = _SLACK if self.lower else 0.0
        if direction == "forward":
            return law.losses - slack, law.with_record, law.without, law.lost[0]
        return -law.losses[::-1] - slack, law.without[::-1], law.with_record[::-1], law.lost[1]

    def masses(self, edges: Floats, direction: Direction) -> tuple[Floats, Floats]:
        losses, drawn, other, lost = self._one_way(direction)
        bins, size = np.searchsorted(edges, losses), len(edges) + 1
        drawn, other = (np.bincount(bins, each, size).astype(float) for each in (drawn, other))
        drawn[-1] += lost
        return drawn, other

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        losses, drawn, _, lost = self._one_way(direction)
        at = int(np.searchsorted(losses, epsilon, side="right"))
        delta = float((drawn[at:] * -np.expm1(epsilon - losses[at:])).sum()) + lost
        return min(0.0, math.log(delta)) if delta > 0 else -math.inf

    def log_moments(self, thetas: Floats, direction: Direction) -> Floats:
        losses, drawn, _, lost = self._one_way(direction)
        if lost > 0:
            return np.full(len(thetas), math.inf)
        kept = drawn > 0
        weights = np.log(drawn[kept]) + thetas[:, None] * losses[kept]
        return np.asarray(logsumexp(weights, axis=1))

    def reach(self, log_tail: float, direction: Direction) -> tuple[float, float]:
        losses, drawn, _, _ = self._one_way(direction)
        tail, last = math.exp(log_tail), len(losses) - 1
        low = int(np.searchsorted(np.cumsum(drawn), tail))
        high = last - int(np.searchsorted(np.cumsum(drawn[::-1]), tail))
        return float(losses[min(low, last)]), float(losses[max(high, 0)])

    def largest_finite(self, direction: Direction) -> float:
        return float(self._one_way(direction)[0][-1])


@dataclass(frozen=True)
class AllocationReplaceLoss(AllocationLoss):
    """One epoch in which a record is replaced: means e_i against means -e_i, as mixtures.

    The pair dominates, is attained and is symmetric (docs/math.md 13).
    """

    symmetric = True

    def _law(self) -> _Law:
        return _replaced_epoch(self.steps_per_epoch, self.noise_multiplier, self.finer)

    def optimistic(self) -> Loss | None:
        """A replaced record may have had a gradient of zero: the law of one that is left out."""
        return AllocationLoss(
            self.steps_per_epoch, self.noise_multiplier, self.finer, self.at_most
        ).optimistic()

    def refined(self) -> AllocationReplaceLoss:
        """It is far above what is known from below anyway."""
        return self

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        if epsilon > 50:  # beyond what is computed; the chord is above it
            return super().log_delta(epsilon, direction)
        return _replaced(self.steps_per_epoch, self.noise_multiplier, epsilon, self.finer)
