"""Bounds on delta over one stretch of epsilon: one convolution, or a sum over few large losses.

Large losses that are rare leave a valley below them in the composed law, which no tilt lifts above
the rounding of one transform. There the composition of n steps is taken apart by how many of their
losses lie above a level, (a + b)^n = sum of C(n, k) a^(n-k) b^k, and each term has a tilt and a
rounding of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from sordino.accounting.aim import LOG_FARTHEST, Components, Rough, Saddle, TooLarge
from sordino.accounting.convolution import (
    LOG_DOUBTED,
    LOG_OUTSIDE,
    Composed,
    Limit,
    LossGrid,
    Piece,
    discretise,
    log_chernoff,
)
from sordino.accounting.logs import log_add, log_any, rounded_up
from sordino.accounting.loss import ApproximateLoss, Direction

PRECISIONS = ((2e-5, 1 << 18), (1e-4, 1 << 21), (2e-3, 1 << 40))
"""Relative errors of epsilon that the grid's spacing aims at, and the points each is worth.

The error is always on the private side. Where even the last needs more points than the limit,
the moments accountant answers.
"""
SMALLEST_EPSILON = 1e-2
"""Below this the error is relative to this."""
LOG_NEGLIGIBLE = -14.0
"""Ln of the share of delta that losses cut off in all steps together may have: 8e-7."""
LOG_DEEPEST = -160.0
"""Ln of the tail that a law is cut at before anything is known of delta."""
LOG_LEAST = -650.0
"""Deltas below exp of this (1e-282) are left to the moments accountant."""
HEAVY = 3.0
"""How much wider a tilted law is than the composed one if rare large losses make it so."""
MOST_STEPS = 10**12
"""A frequency to a larger power is rounding alone."""
MOST_JUMPS = 12
"""Large losses that are told apart; more of them count as a disclosure."""


class Workshop:
    """Makes the bounds of one composition in one direction."""

    def __init__(self, components: Components, direction: Direction, limit: Limit) -> None:
        self._components, self._direction, self._limit = components, direction, limit
        self._steps = sum(count for _, count in components)
        self._roughs: dict[float, Rough] = {}
        self._aims: dict[float, tuple[Rough, Saddle]] = {}

    @property
    def largest_finite(self) -> float:
        """The largest loss but for an outright disclosure, rounded up."""
        return rounded_up((n, law.largest_finite(self._direction)) for law, n in self._components)

    def rough(self, log_delta: float) -> Rough:
        """The rough law, without losses too rare to matter for a delta of this size."""
        log_tail = 10.0 * math.floor((log_delta + LOG_NEGLIGIBLE - math.log(self._steps)) / 10)
        log_tail = max(LOG_FARTHEST, log_tail)
        if log_tail not in self._roughs:
            if log_tail <= LOG_DEEPEST:
                rough = Rough.of(self._components, self._direction, log_tail)
            else:
                if LOG_DEEPEST not in self._roughs:
                    deep = Rough.of(self._components, self._direction, LOG_DEEPEST)
                    self._roughs[LOG_DEEPEST] = deep
                ends = [law.reach(log_tail, self._direction)[1] for law, _ in self._components]
                rough = self._roughs[LOG_DEEPEST].below(ends, log_tail)
            self._roughs[log_tail] = rough
        return self._roughs[log_tail]

    def make(self, low: float, high: float) -> Piece:
        """The bound over a stretch.

        Raises
        ------
        TooLarge
            If every way would cost more than the limit.
        """
        high = min(high, self.largest_finite)
        if self._steps > MOST_STEPS:
            raise TooLarge("more steps than a convolution has digits for")
        if self.aimed((low + high) / 2)[1].log_delta < LOG_LEAST:
            raise TooLarge("a delta too small to be convolved")
        best: Piece | None = None
        refused = TooLarge("a stretch that no convolution reaches")
        for way in self._ways(low, high):
            try:
                piece = way()
            except TooLarge as reason:
                refused = reason
                continue
            # No theorem needs this; a bound below it would be a mistake of ours.
            if piece.bound(high)[0] < self._log_one_step(high) - 1e-9:
                refused = TooLarge("a convolved delta below that of a single step")
                continue
            if best is None or piece.bound(high) < best.bound(high):
                best = piece
            if best.is_sound(high):
                return best
        if best is None:
            raise refused
        return best

    def _log_one_step(self, epsilon: float) -> float:
        return max(loss.log_delta(epsilon, self._direction) for loss, _ in self._components)

    def _ways(self, low: float, high: float) -> Iterator[Callable[[], Piece]]:
        """A precise convolution if it is short; sums over large losses; a longer convolution."""
        aim = self.aimed((low + high) / 2)
        yield lambda: self._plain(*aim, low, high, PRECISIONS[:1])
        cheap = PRECISIONS[1][1] / 2
        levels = self._levels(low, high)
        yield from (partial(self._counted, low, high, *at) for n, *at in levels if n < cheap)
        yield lambda: self._plain(*aim, low, high, PRECISIONS[1:])
        yield from (partial(self._counted, low, high, *at) for n, *at in levels if n >= cheap)

    # ------------------------------------------------------------------ one convolution

    def aimed(self, epsilon: float) -> tuple[Rough, Saddle]:
        """The rough law that reaches as far as delta at `epsilon` asks, and its tilt."""
        if epsilon not in self._aims:
            rough = self.rough(LOG_DEEPEST / 2)
            for _ in range(4):
                saddle = self._tilted(rough, epsilon)
                following = self.rough(min(saddle.log_delta, 0.0))
                if following is rough:
                    break
                rough = following
            self._aims[epsilon] = rough, saddle
        return self._aims[epsilon]

    def guess(self, log_delta: float) -> float:
        """About the epsilon of this delta."""
        saddle = self.rough(log_delta).saddle_at(log_delta)
        low, high = 0.0, max(saddle.mean, 0.0)
        # Where rare large losses widen the tilted law, there is little of it around its mean.
        usual = self.rough(0.0).untilted.deviation
        if len(self._components) == 1 and saddle.deviation > HEAVY * usual:
            while high - low > 0.02 * high and high > 1e-9:
                middle = (low + high) / 2
                low, high = (middle, high) if self._log_delta(middle) > log_delta else (low, middle)
        return high

    def _log_delta(self, epsilon: float) -> float:
        """About ln delta of many equal steps: of losses that are small, or of one that is not."""
        if epsilon <= 0:
            return 0.0
        ((loss, steps),) = self._components
        below = self.rough(LOG_DEEPEST / 2).below([epsilon / 2], LOG_DEEPEST)
        small, rest = below.saddle_for(epsilon), below.untilted
        one, before = (loss.log_delta(e, self._direction) for e in (epsilon, 0.98 * epsilon))
        if math.isinf(one):
            return min(small.log_delta, 0.0)
        # The rest is nearly Gaussian, and the large loss may be smaller by it.
        fall = (before - one) / (0.02 * epsilon)
        one += math.log(steps) + fall * rest.mean + min(fall * rest.deviation, 3.0) ** 2 / 2
        if small.mean < 0.9 * epsilon:
            return min(one, 0.0)
        return min(log_add(one, small.log_delta), 0.0)

    def _tilted(self, rough: Rough, epsilon: float) -> Saddle:
        saddle = rough.saddle_for(epsilon)
        # Near its bound a bounded loss would be tilted without end, to no gain.
        room = (self.largest_finite - rough.untilted.mean) / self._steps
        if 0 < room < math.inf and saddle.tilt > 100 / room:
            saddle = rough.saddle(100 / room)
        return saddle

    def _plain(
        self,
        rough: Rough,
        saddle: Saddle,
        low: float,
        high: float,
        precisions: Sequence[tuple[float, int]],
    ) -> Piece:
        """The bound by one convolution, aimed at the middle, refined until it is fine."""
        sharpness, log_outside = 0.0, LOG_OUTSIDE
        middle = (low + high) / 2
        made: Piece | None = None
        for _ in range(4):
            aim = (*self._cheapest(rough, saddle, middle), middle, low)
            try:
                piece = self._convolved(rough, *aim, sharpness, log_outside, precisions)
            except TooLarge:
                if made is None:
                    raise
                return made  # true all the same, if coarser than was wished for
            made = piece
            ((_, term),) = piece.terms
            value = piece.bound(high)[0]
            needed = min(LOG_OUTSIDE, term.log_share(high) - 12, term.log_share(low) - 12)
            missed = (term.mean - aim[0].mean) / term.deviation
            if abs(missed) > 2:  # the rough law is too rough for so many steps
                missed = min(max(missed, -5.0), 5.0)
                saddle = rough.saddle(max(saddle.tilt - missed / term.deviation, saddle.tilt / 2))
                continue
            if term.log_noise(high) - value > LOG_DOUBTED:
                break
            if piece.log_infinite - value > LOG_DOUBTED and rough is not self.rough(value):
                rough = self.rough(value)
                saddle = self._tilted(rough, middle)
            elif not piece.is_fine(low, high):
                sharpness = piece.sharpness(low, high)
            elif needed < log_outside - 4:
                log_outside = needed
            else:
                break
        return piece

    @staticmethod
    def _cheapest(rough: Rough, saddle: Saddle, epsilon: float) -> tuple[Saddle, float]:
        """A tilt near this one whose window is short, and whose centre is still near epsilon.

        Close to the largest order with small moments the tilted law has a long upper tail. Also
        the window's length.
        """
        best = math.inf, saddle, math.inf
        tilts = [share * saddle.tilt for share in (1.0, 0.93, 0.86, 0.8)]
        if saddle.tilt == 0:  # a little, where losses far below 0 would need a long window
            tilts = [share / max(saddle.deviation, 1e-300) for share in (0.0, 0.01, 0.1, 0.3)]
        for tilt in tilts:
            candidate = saddle if tilt == saddle.tilt else rough.saddle(tilt)
            beside = abs(candidate.mean - epsilon)
            if candidate is not saddle and beside > 1.5 * candidate.deviation:
                continue
            low, high, *_ = rough.window(candidate, LOG_OUTSIDE)
            cost = (high - low) * math.sqrt(1 + candidate.tilt)
            if cost < best[0]:
                best = cost, candidate, high - low
            if high - low < 18 * candidate.deviation:  # a Gaussian's is 14 deviations wide
                break
        return best[1:]

    def _convolved(
        self,
        rough: Rough,
        saddle: Saddle,
        window: float,
        epsilon: float,
        lowest: float,
        sharpness: float,
        log_outside: float,
        precisions: Sequence[tuple[float, int]],
    ) -> Piece:
        # A grid wider than the losses would spread them beyond the window they are aimed at.
        widest = 0.5 * saddle.deviation / math.sqrt(self._steps)
        widest = max(widest, window / (1 << 17))
        refused: TooLarge | None = None
        for relative, worth in precisions:
            error = relative * max(epsilon, SMALLEST_EPSILON)
            if (relative, worth) == PRECISIONS[-1]:  # rather coarse than not at all
                error = max(error, relative * saddle.deviation)
            most = min(worth, self._limit.points)
            spacing = min(self._spacing(error, max(1 + saddle.tilt, sharpness)), widest)
            spacing = self._fitted(spacing)
            try:
                if spacing == 0:
                    raise TooLarge("losses too small to tell apart")
                if window / spacing > most:  # before the grids are made for nothing
                    raise TooLarge(f"a window of {window / spacing:,.0f} points")
                pairs = self._grids(spacing, rough.log_tail, most)
                term = Composed(pairs, rough, saddle, lowest, most, log_outside)
                infinite = log_any([(count, grid.infinite) for grid, count in pairs])
                return Piece([(0.0, term)], infinite, error)
            except TooLarge as reason:
                refused = reason
        assert refused is not None
        raise refused

    def _spacing(self, error: float, sharpness: float) -> float:
        """The chord of a bucket moves epsilon by at most sharpness spacing^2 / 8 a step."""
        return math.sqrt(8 * error / (self._steps * sharpness))

    def _fitted(self, spacing: float) -> float:
        """Where some losses are plus or minus one number, a spacing that has it on its grid."""
        sizes = {loss.epsilon for loss, _ in self._components if isinstance(loss, ApproximateLoss)}
        if len(sizes) != 1 or not 0 < (size := sizes.pop()) < math.inf:
            return spacing
        return size / math.ceil(size / spacing)

    def _grids(self, spacing: float, log_tail: float, most: int) -> list[tuple[LossGrid, int]]:
        return [
            (discretise(loss, spacing, log_tail, self._direction, most), count)
            for loss, count in self._components
        ]

    # ------------------------------------------------------------------ sums over large losses

    def _levels(self, low: float, high: float) -> list[tuple[float, float, float]]:
        """Levels above which losses may be counted one by one, the cheapest first.

        Each with about the points that takes, the level, and about the ln of delta.
        """
        if len(self._components) > 1:
            return []
        ((_, steps),) = self._components
        middle = (low + high) / 2
        guess = self._log_delta(high)
        if guess < LOG_FARTHEST:
            return []
        rough = self.rough(guess)
        found = []
        for level in (middle * np.array([0.5, 0.25, 0.125, 0.06])).tolist():
            log, at = rough.laws[0]
            if not at[0] < level < at[-1]:
                continue
            counts = _counts(steps, log_add(-math.inf, *log[at > level].tolist()), guess)
            if counts[-1][1] >= guess + LOG_NEGLIGIBLE:  # not rare enough to be counted
                continue
            jumps = len(counts) - 1
            part = rough.with_jumps(level, min(jumps, 2))
            saddle = self._tilted(rough.with_jumps(level, min(jumps, 1)), middle)
            bottom, top, *_ = part.window(self._tilted(part, middle), LOG_OUTSIDE)
            spacing = self._spacing(
                PRECISIONS[0][0] * max(middle, SMALLEST_EPSILON), 1 + saddle.tilt
            )
            found.append(((jumps + 1) * (top - bottom) / spacing, level, guess))
        return sorted(found)

    def _counted(self, low: float, high: float, level: float, guess: float) -> Piece:
        """The sum over how many losses are above `level`, until more are too rare to matter."""
        ((_, steps),) = self._components
        middle = (low + high) / 2
        rough = self.rough(guess)
        error = PRECISIONS[0][0] * max(middle, SMALLEST_EPSILON)
        tilt = self._tilted(rough.with_jumps(level, 1), middle).tilt
        sharpness = 1 + tilt
        most = min(PRECISIONS[1][1], self._limit.points)
        for _ in range(2):
            spacing = self._spacing(error, sharpness)
            ((grid, _),) = self._grids(spacing, rough.log_tail, most)
            small, large = grid.split(level)
            counts = _counts(steps, math.log(max(float(large.mass.sum()), 1e-300)), guess)
            # So many large losses or more: at most all ways to choose them.
            terms, negligible = [], [log_any([(steps, grid.infinite)]), counts[-1][1]]
            for jumps, (ways, _) in enumerate(counts[:-1]):
                pairs = [(small, steps - jumps), (large, jumps)]
                pairs = [(grid, count) for grid, count in pairs if count > 0]
                part = rough.with_jumps(level, jumps)
                saddle = self._tilted(part, middle)
                if saddle.tilt < tilt / 2:  # without tilt, losses far below 0 need a long window
                    saddle = part.saddle(tilt / 2)
                saddle, at_most = _settled(pairs, part, saddle, low)
                at_most += ways
                if at_most < guess + LOG_NEGLIGIBLE:
                    negligible.append(at_most)
                    continue
                # What folds over must be little against delta, not against the tilted law.
                reach = guess - 10 - (ways + saddle.cumulant - saddle.tilt * high)
                term = Composed(pairs, part, saddle, low, most, min(LOG_OUTSIDE, reach))
                terms.append((ways, term))
            if not terms:
                raise TooLarge("a stretch that no number of large losses reaches")
            piece = Piece(terms, log_add(*negligible), error)
            if piece.is_fine(low, high):
                break
            sharpness = piece.sharpness(low, high)
        return piece


def _settled(
    pairs: Sequence[tuple[LossGrid, int]], rough: Rough, saddle: Saddle, epsilon: float
) -> tuple[Saddle, float]:
    """The tilt, smaller where the rough law missed, and ln of its bound on delta at `epsilon`.

    Buckets of the rough law may be too wide for a large tilt; the grid's own are not.
    """
    at_most = log_chernoff(pairs, saddle.tilt, epsilon)
    if abs(at_most - (saddle.cumulant - saddle.tilt * epsilon)) <= 1:
        return saddle, at_most
    shares = (0.95, 0.9, 0.8, 0.65)
    found = [(log_chernoff(pairs, share * saddle.tilt, epsilon), share) for share in shares]
    least, share = min([(at_most, 1.0), *found])
    return rough.saddle(share * saddle.tilt), least


def _counts(steps: int, log_large: float, log_delta: float) -> list[tuple[float, float]]:
    """Ln of C(n, k), and of the chance of k large losses at most, for k = 0, 1, ...

    The last is where that no longer matters for a delta of this size.
    """
    counts, ways = [(0.0, 0.0)], 0.0
    while counts[-1][1] >= log_delta + LOG_NEGLIGIBLE and len(counts) <= MOST_JUMPS:
        jumps = len(counts)
        ways += math.log((steps - jumps + 1) / jumps) if jumps <= steps else -math.inf
        counts.append((ways, ways + jumps * log_large))
    return counts
