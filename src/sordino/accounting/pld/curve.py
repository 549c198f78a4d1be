"""The delta(epsilon) curve of composed losses in one direction: stretches of epsilon, each bounded.

Epsilon is cut into stretches about as wide as the composed loss's deviation, by a rule that knows
the losses alone. Each stretch has one bound, a `Piece`, made when it is first asked for: what an
epsilon's delta is does not depend on what was asked before, and the bounds are kept.

Bounds on delta over one stretch of epsilon: one convolution, or a sum over few large losses.

Large losses that are rare leave a valley below them in the composed law, which no tilt lifts above
the rounding of one transform. There the composition of n steps is taken apart by how many of their
losses lie above a level, (a + b)^n = sum of C(n, k) a^(n-k) b^k, and each term has a tilt and a
rounding of its own.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from sordino.accounting import gaussian, renyi
from sordino.accounting.pld.aim import LOG_FARTHEST, Components, Rough, Saddle, TooLarge
from sordino.accounting.pld.convolution import (
    LOG_DOUBTED,
    LOG_OUTSIDE,
    Composed,
    Limit,
    LossGrid,
    Piece,
    discretise,
    log_chernoff,
    merge,
)
from sordino.accounting.pld.loss import ApproximateLoss, Direction, Loss
from sordino.accounting.pld.numerics import first_below, log_add, log_any, rounded_up
from sordino.types import Floats

_PRECISIONS = ((2e-5, 1 << 18), (1e-4, 1 << 21), (2e-3, 1 << 40))
"""Relative errors of epsilon that the grid's spacing aims at, and the points each is worth.

The error is always on the private side. Where even the last needs more points than the limit,
the moments accountant answers.
"""
_FINE_PRECISIONS = ((2e-5, 1 << 20), (5e-5, 1 << 22), (2e-3, 1 << 40))
"""The same where both sides of an answer are asked for: more points for a narrow bracket."""
_LOWER_PRECISIONS = ((3e-5, 1 << 18), (4e-5, 1 << 22), (2e-3, 1 << 40))
"""Of bounds from below, which are three times as near to the truth on the same grid."""
_SMALLEST_EPSILON = 1e-2
"""Below this the error is relative to this."""
_LOG_NEGLIGIBLE = -14.0
"""Ln of the share of delta that losses cut off in all steps together may have: 8e-7."""
_LOG_DEEPEST = -160.0
"""Ln of the tail that a law is cut at before anything is known of delta."""
_LOG_LEAST = -650.0
"""Deltas below exp of this (1e-282) are left to the moments accountant."""
_HEAVY = 3.0
"""How much wider a tilted law is than the composed one if rare large losses make it so."""
MOST_STEPS = 10**12
"""A frequency to a larger power is rounding alone."""
_MOST_JUMPS = 12
"""Large losses that are told apart; more of them count as a disclosure."""


class Workshop:
    """Makes the bounds of one composition in one direction."""

    _precisions = _PRECISIONS

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
        log_tail = 10.0 * math.floor((log_delta + _LOG_NEGLIGIBLE - math.log(self._steps)) / 10)
        log_tail = max(LOG_FARTHEST, log_tail)
        if log_tail not in self._roughs:
            if log_tail <= _LOG_DEEPEST:
                rough = Rough.of(self._components, self._direction, log_tail)
            else:
                if _LOG_DEEPEST not in self._roughs:
                    deep = Rough.of(self._components, self._direction, _LOG_DEEPEST)
                    self._roughs[_LOG_DEEPEST] = deep
                ends = [law.reach(log_tail, self._direction)[1] for law, _ in self._components]
                rough = self._roughs[_LOG_DEEPEST].below(ends, log_tail)
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
        if self.aimed((low + high) / 2)[1].log_delta < _LOG_LEAST:
            raise TooLarge("a delta too small to be convolved")
        best: Piece | None = None
        refused = TooLarge("a stretch that no convolution reaches")
        one_step = max(loss.log_delta(high, self._direction) for loss, _ in self._components)
        for way in self._ways(low, high):
            try:
                piece = way()
            except TooLarge as reason:
                refused = reason
                continue
            # No theorem needs this; a bound below it would be a mistake of ours.
            if self._rank(piece, high)[0] < one_step - 1e-9:
                refused = TooLarge("a convolved delta below that of a single step")
                continue
            if best is None or self._rank(piece, high) < self._rank(best, high):
                best = piece
            if self._is_sound(best, high):
                return best
        if best is None:
            raise refused
        return best

    @staticmethod
    def _rank(piece: Piece, epsilon: float) -> tuple[float, float]:
        """Bounds are better the lower this is."""
        return piece.bound(epsilon)

    @staticmethod
    def _is_sound(piece: Piece, epsilon: float) -> bool:
        return piece.is_sound(epsilon)

    def _ways(self, low: float, high: float) -> Iterator[Callable[[], Piece]]:
        """A precise convolution if it is short; sums over large losses; a longer convolution."""
        aim = self.aimed((low + high) / 2)
        yield lambda: self._plain(*aim, low, high, self._precisions[:1])
        cheap = self._precisions[1][1] / 2
        levels = self._levels(low, high)
        yield from (partial(self._counted, low, high, *at) for n, *at in levels if n < cheap)
        yield lambda: self._plain(*aim, low, high, self._precisions[1:])
        yield from (partial(self._counted, low, high, *at) for n, *at in levels if n >= cheap)

    # ------------------------------------------------------------------ one convolution

    def aimed(self, epsilon: float) -> tuple[Rough, Saddle]:
        """The rough law that reaches as far as delta at `epsilon` asks, and its tilt."""
        if epsilon not in self._aims:
            rough = self.rough(_LOG_DEEPEST / 2)
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
        if len(self._components) == 1 and saddle.deviation > _HEAVY * usual:
            while high - low > 0.02 * high and high > 1e-9:
                middle = (low + high) / 2
                low, high = (middle, high) if self._log_delta(middle) > log_delta else (low, middle)
        return high

    def _log_delta(self, epsilon: float) -> float:
        """About ln delta of many equal steps: of losses that are small, or of one that is not."""
        if epsilon <= 0:
            return 0.0
        ((loss, steps),) = self._components
        below = self.rough(_LOG_DEEPEST / 2).below([epsilon / 2], _LOG_DEEPEST)
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
            error = relative * max(epsilon, _SMALLEST_EPSILON)
            if (relative, worth) == self._precisions[-1]:  # rather coarse than not at all
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
            (self._grid(loss, spacing, log_tail, self._direction, most), count)
            for loss, count in self._components
        ]

    _grid = staticmethod(discretise)

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
            if counts[-1][1] >= guess + _LOG_NEGLIGIBLE:  # not rare enough to be counted
                continue
            jumps = len(counts) - 1
            part = rough.with_jumps(level, min(jumps, 2))
            saddle = self._tilted(rough.with_jumps(level, min(jumps, 1)), middle)
            bottom, top, *_ = part.window(self._tilted(part, middle), LOG_OUTSIDE)
            error = self._precisions[0][0] * max(middle, _SMALLEST_EPSILON)
            spacing = self._spacing(error, 1 + saddle.tilt)
            found.append(((jumps + 1) * (top - bottom) / spacing, level, guess))
        return sorted(found)

    def _counted(self, low: float, high: float, level: float, guess: float) -> Piece:
        """The sum over how many losses are above `level`, until more are too rare to matter."""
        ((_, steps),) = self._components
        middle = (low + high) / 2
        rough = self.rough(guess)
        error = self._precisions[0][0] * max(middle, _SMALLEST_EPSILON)
        tilt = self._tilted(rough.with_jumps(level, 1), middle).tilt
        sharpness = 1 + tilt
        most = min(self._precisions[1][1], self._limit.points)
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
                if at_most < guess + _LOG_NEGLIGIBLE:
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


class _FineWorkshop(Workshop):
    """Spends more points."""

    _precisions = _FINE_PRECISIONS


class _LowerWorkshop(_FineWorkshop):
    """Makes bounds from below, of laws that the losses dominate."""

    _precisions = _LOWER_PRECISIONS
    _grid = staticmethod(merge)

    @staticmethod
    def _rank(piece: Piece, epsilon: float) -> tuple[float, float]:
        return -piece.least(epsilon), 0.0

    @staticmethod
    def _is_sound(piece: Piece, epsilon: float) -> bool:
        return piece.bound(epsilon)[0] - piece.least(epsilon) <= math.exp(LOG_DOUBTED)


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
    while counts[-1][1] >= log_delta + _LOG_NEGLIGIBLE and len(counts) <= _MOST_JUMPS:
        jumps = len(counts)
        ways += math.log((steps - jumps + 1) / jumps) if jumps <= steps else -math.inf
        counts.append((ways, ways + jumps * log_large))
    return counts


_EVEN_STRETCHES = 8
"""Stretches of epsilon as wide as the deviation; beyond, they grow by an eighth."""
_LOG_FALL = 40.0
"""Ln of how far delta may fall within a stretch, about."""
_MOST_BACK = 40
"""Stretches looked back over for a bound where there is none: a factor of 100 of epsilon."""
_MOST_BLIND = 12
"""Convolutions of them, in search of an epsilon, that tell no more than moments do."""
_STRAIGHT_STEPS = 6
"""Stretches that are looked for along straight lines, before those left are halved."""
_NARROW = (8e-5, 8e-7)
"""A bracket wider than this, relative and absolute, is worth finer grids."""
_LEAST_DIGITS = 1e-13
"""Of a mass, relative: more than its rounding."""
_MOST_EPSILON = 1e9
"""Beyond this only the moments accountant is asked."""


class DeltaCurve:
    """delta(epsilon) and epsilon(delta) of a composition in one direction, as upper bounds.

    `bracket` has a lower bound as well.
    """

    _makes: type[Workshop] = Workshop

    def __init__(self, components: Components, direction: Direction, limit: Limit) -> None:
        self._components = [(loss, count) for loss, count in components if count > 0]
        self._direction: Direction = direction
        self._limit = limit
        self._workshop = self._makes(self._components, direction, limit)
        self._pieces: dict[float, Piece | TooLarge] = {}
        self._deltas: dict[float, float] = {}
        self._epsilons: dict[float, float] = {}
        self._brackets: dict[float, tuple[float, float]] = {}
        self._renyi: Floats | None = None

    @property
    def _is_one_step(self) -> bool:
        return len(self._components) == 1 and self._components[0][1] == 1

    def renyi(self, orders: Floats) -> Floats:
        """Renyi divergence of the composition."""
        orders = np.asarray(orders, dtype=np.float64)
        total = np.zeros(len(orders))
        for loss, count in self._components:
            total += count * loss.log_moments(orders - 1, self._direction) / (orders - 1)
        return total

    # ------------------------------------------------------------------ answers

    def log_delta(self, epsilon: float) -> float:
        """Ln of delta at epsilon >= 0."""
        if epsilon not in self._deltas:
            known = self._log_delta_as_known(epsilon)
            self._deltas[epsilon] = min(known, self._log_delta(epsilon))
        return self._deltas[epsilon]

    def _log_delta(self, epsilon: float) -> float:
        if not self._components or epsilon >= self._largest_loss():
            return -math.inf
        if self._is_one_step:
            return self._components[0][0].log_delta(epsilon, self._direction)
        if epsilon >= self._workshop.largest_finite:  # what is left are outright disclosures
            return self._log_told()
        if epsilon < _MOST_EPSILON:
            return min(self._bound(epsilon), self._log_apart)
        return min(self._moments(epsilon), self._bound(math.nextafter(_MOST_EPSILON, 0.0)))

    def _bound(self, epsilon: float) -> float:
        """The bound of a stretch, never above that of those before it."""
        best, patience = math.inf, 6
        for _ in range(_MOST_BACK):
            start, end = self._stretch(epsilon)
            value, weak = self._own(start, end, epsilon)
            best = min(best, value)
            # Near its start a stretch may be above the one before, by the precision of their grids.
            if start <= 0 or not (weak or value > self._own(start, end, start)[0] - 0.05):
                return best
            patience -= isinstance(self._piece(start, end), Piece)  # the others cost little
            if patience == 0:
                break
            epsilon = math.nextafter(start, 0.0)
        return best

    def _own(self, start: float, end: float, epsilon: float) -> tuple[float, bool]:
        """The bound of a stretch by itself, and whether it is far from tight."""
        piece = self._piece(start, end)
        if isinstance(piece, TooLarge):
            return self._moments(epsilon), True
        value = piece.bound(epsilon)[0]
        if piece.is_sound(epsilon):
            return value, False
        return min(value, self._moments(epsilon)), True

    def epsilon(self, log_delta: float) -> float:
        """Least epsilon >= 0 with delta at most exp(log_delta), rounded up."""
        if log_delta not in self._epsilons:
            mu, moved = self._as_known
            known = moved + _gaussian_epsilon(mu, log_delta)
            self._epsilons[log_delta] = min(known, self._epsilon(log_delta))
        return self._epsilons[log_delta]

    def _epsilon(self, log_delta: float) -> float:
        if not self._components:
            return 0.0
        if log_delta == -math.inf:
            return self._largest_loss()
        if self._is_one_step:
            return _loss_epsilon(self._components[0][0], self._direction, log_delta)
        if self._log_apart <= log_delta:
            return 0.0
        told = self._log_told() > log_delta
        largest = self._largest_loss() if told else self._workshop.largest_finite
        guess = self._workshop.guess(log_delta)
        near = guess <= 2 * self._workshop.rough(0.0).untilted.mean
        if near and _log_pinsker(float(self.renyi(np.array([2.0]))[0])) <= log_delta:
            return 0.0
        guess = min(guess, 0.999 * largest)
        # Between these the bound falls to delta; stretches in between are looked at in turn. From
        # `blind` on nothing is known but by moments: what is nearer than that is looked at first.
        below, above, blind, is_known, patience = 0.0, largest, math.inf, False, _MOST_BLIND
        for tried in itertools.count():
            start, end = self._stretch(guess)
            end = min(end, largest)
            (at_start, vague), (at_end, weak) = (self._own(start, end, e) for e in (start, end))
            if at_start <= log_delta:
                above = start
            elif vague and is_known and start > below and patience > 0:
                blind = start
                patience -= isinstance(self._piece(start, end), Piece)  # the others cost little
            elif at_end <= log_delta:
                break
            else:
                below, blind, is_known = end, math.inf, not weak
            if above <= below:  # where two stretches meet: one bound is above delta, one below it
                return below
            if below >= _MOST_EPSILON:
                return math.inf
            slope = (at_start - at_end) / (end - start)
            guess = start + min((at_start - log_delta) / max(slope, 1e-9), 100 * end)
            most = min(above, blind)
            if tried >= _STRAIGHT_STEPS or blind < above:
                # Straight lines mislead here: halve what is left.
                far = most if most < math.inf else max(1.0, 4 * below)
                guess = math.sqrt(below * far) if 4 * below < far and below else (below + far) / 2
            guess = min(max(guess, below), math.nextafter(most, 0.0), _MOST_EPSILON)
        return first_below(lambda e: self._own(start, end, e)[0] - log_delta, start, end)

    def bracket(self, log_delta: float) -> tuple[float, float]:
        """Two epsilons between which the least one with delta at most exp(log_delta) lies."""
        if log_delta not in self._brackets:
            upper = self.epsilon(log_delta)
            lower = self._lower.epsilon_below(upper, log_delta)
            if upper - lower > max(_NARROW[0] * upper, _NARROW[1]):
                upper = min(upper, self._fine.epsilon(log_delta))
            self._brackets[log_delta] = min(lower, upper), upper
        return self._brackets[log_delta]

    @functools.cached_property
    def _fine(self) -> DeltaCurve:
        refined = [(loss.refined(), count) for loss, count in self._components]
        return _FineCurve(refined, self._direction, self._limit.part(2))

    @functools.cached_property
    def _lower(self) -> _LowerCurve:
        laws = [(loss.optimistic(), count) for loss, count in self._components]
        known = [(loss, count) for loss, count in laws if loss is not None]
        return _LowerCurve(known, self._direction, self._limit.part(2))

    def is_surely_below(self, epsilon: float, log_delta: float) -> bool:
        """Whether one moment proves delta at `epsilon`: much cheaper than to ask for delta."""
        if not self._components or self._is_one_step or epsilon >= self._workshop.largest_finite:
            return self.log_delta(epsilon) <= log_delta
        return self._one_moment(epsilon) <= log_delta

    def _one_moment(self, epsilon: float) -> float:
        """Ln of delta by the moment that fits best, of any order."""
        orders = np.array([1 + max(self._workshop.aimed(epsilon)[1].tilt, 1e-3)])
        return renyi.log_delta(orders, self.renyi(orders), epsilon)

    def fallback(self, epsilon: float) -> str | None:
        """Why something looser answered at `epsilon`, and what; None if it did not."""
        if self._log_delta_as_known(epsilon) < self._log_delta(epsilon):
            return (
                "fallback: what was drawn is taken for known, because of losses of an epoch that "
                "are too rare to be told apart"
            )
        if not self._components or self._is_one_step or epsilon >= self._workshop.largest_finite:
            return None
        piece = self._piece(*self._stretch(epsilon))
        reason = "rounding: delta is smaller than a convolution of these losses can tell"
        if isinstance(piece, TooLarge):
            reason = f"{piece}"
        elif piece.is_sound(epsilon):
            return None
        elif piece.bound(epsilon)[0] <= self._moments(epsilon):
            return f"fallback: a bound on what is lost was added to delta, because of {reason}"
        return f"fallback: the moments accountant answered, because of {reason}"

    # ------------------------------------------------------------------ what is known of the losses

    def _largest_loss(self) -> float:
        return rounded_up((n, loss.largest(self._direction)) for loss, n in self._components)

    def _log_told(self) -> float:
        """Ln of the probability that some step discloses outright."""
        logs = [(n, loss.log_delta(_MOST_EPSILON, self._direction)) for loss, n in self._components]
        return log_any([(n, math.exp(log)) for n, log in logs])

    @functools.cached_property
    def _as_known(self) -> tuple[float, float]:
        """Gaussian DP whatever was drawn, and by how much pure DP of others moves its epsilon.

        Only where rare losses are counted as disclosures, and smaller deltas have no other bound;
        else it is infinite. With q' >= e^-a p' of the others (p p' - e^b q q')_+ is at most
        p' (p - e^(b - a) q)_+.
        """
        squares, moved = [0.0], 0.0
        for loss, count in self._components:
            if (mu := loss.most_mu) < math.inf:
                squares.append(count * mu**2)
            else:
                moved += count * loss.largest(self._direction) * (1 + 1e-14)
        mu = math.sqrt(math.fsum(squares)) * (1 + 1e-14)
        if mu == 0 or moved == math.inf or self._log_told() == -math.inf:
            return math.inf, 0.0
        return mu, moved

    def _log_delta_as_known(self, epsilon: float) -> float:
        mu, moved = self._as_known
        return gaussian.log_delta(epsilon - moved, mu)

    @functools.cached_property
    def _log_apart(self) -> float:
        """Ln of the chance that any step tells the two apart: of delta at every epsilon >= 0.

        Total variation of a product is at most that of independent events, one a step.
        """
        logs = [(n, loss.log_delta(0.0, self._direction)) for loss, n in self._components]
        # Neither rounding nor a chance too small to be a float makes it less.
        return log_any([(n, max(math.exp(log), 1e-300) * (1 + 1e-12)) for n, log in logs]) + 1e-12

    def _moments(self, epsilon: float) -> float:
        """Ln of delta by the moments accountant, or by Pinsker's inequality at epsilon 0."""
        if self._renyi is None:
            self._renyi = self.renyi(renyi.ORDERS)
        bound = renyi.log_delta(renyi.ORDERS, self._renyi, epsilon)
        if epsilon < _MOST_EPSILON:
            bound = min(bound, self._one_moment(epsilon))
        return min(bound, _log_pinsker(float(self._renyi.min())))

    # ------------------------------------------------------------------ stretches

    def _stretch(self, epsilon: float) -> tuple[float, float]:
        """The stretch that `epsilon` lies in: as wide as the loss's deviation, at most twice.

        Far from the mean they grow; where the tilted loss is narrower, near its bound, or delta
        falls too far, they are halved.
        """
        law = self._workshop.rough(0.0).untilted
        share = (epsilon - law.mean) / max(law.deviation, 1e-12)
        index = math.floor(share)
        if not -_EVEN_STRETCHES <= share < _EVEN_STRETCHES:
            growth = math.log1p(1 / _EVEN_STRETCHES)
            far = _EVEN_STRETCHES + math.log(abs(share) / _EVEN_STRETCHES) / growth
            index = math.floor(math.copysign(far, share))
        # Logarithms are rounded; edges decide.
        while epsilon < self._edge(law, index):
            index -= 1
        while epsilon >= self._edge(law, index + 1):
            index += 1
        start, end = max(self._edge(law, index), 0.0), self._edge(law, index + 1)
        for _ in range(14):
            middle, width = (start + end) / 2, end - start
            saddle = self._workshop.aimed(middle)[1]
            if width <= 2 * saddle.deviation and width * saddle.tilt <= _LOG_FALL:
                break
            start, end = (middle, end) if epsilon >= middle else (start, middle)
        return start, end

    @staticmethod
    def _edge(law: Saddle, index: int) -> float:
        beyond = max(abs(index) - _EVEN_STRETCHES, 0)
        size = min(abs(index), _EVEN_STRETCHES) * (1 + 1 / _EVEN_STRETCHES) ** beyond
        return law.mean + math.copysign(size, index) * max(law.deviation, 1e-12)

    def _piece(self, start: float, end: float) -> Piece | TooLarge:
        if start not in self._pieces:
            try:
                self._pieces[start] = self._workshop.make(start, end)
            except TooLarge as reason:
                self._pieces[start] = reason
        return self._pieces[start]


class _FineCurve(DeltaCurve):
    """The same of finer grids, and of finer laws."""

    _makes = _FineWorkshop


class _LowerCurve(DeltaCurve):
    """What the least epsilon is at least: stretches as above, with bounds from below.

    A delta that is at least delta' at epsilon means that whoever promises (epsilon, delta'') with
    delta'' < delta' is wrong, so the least epsilon of delta'' is not below this one.
    """

    _makes = _LowerWorkshop

    def _log_delta(self, epsilon: float) -> float:
        """Ln of what delta at epsilon is at least: composed, or of a single step alone."""
        if not self._components:
            return -math.inf
        least = max(self._of_one(loss, epsilon) for loss, _ in self._components)
        if self._is_one_step or epsilon >= min(self._workshop.largest_finite, _MOST_EPSILON):
            return least
        piece = self._piece(*self._stretch(epsilon))
        return least if isinstance(piece, TooLarge) else max(least, piece.least(epsilon))

    def _of_one(self, loss: Loss, epsilon: float) -> float:
        """Ln of P(S) - e^epsilon Q(S), S the losses above epsilon, less what rounding can add.

        That is delta itself, and at most delta wherever rounding has put the edge of S.
        """
        drawn, other = loss.masses(np.array([epsilon]), self._direction)
        with np.errstate(divide="ignore"):
            told, hidden = (float(np.log(mass[-1])) for mass in (drawn, other))
        if told == -math.inf:
            return told
        share = math.exp(min(hidden + epsilon - told, 1.0)) * (1 + _LEAST_DIGITS)
        return told + math.log1p(-share) - _LEAST_DIGITS if share < 1 else -math.inf

    def epsilon_below(self, above: float, log_delta: float) -> float:
        """An epsilon <= `above`, and near it, that the least one at this delta is not below."""
        if log_delta == -math.inf:
            return self._largest_loss() * (1 - _LEAST_DIGITS)
        if not self._components or above == 0:
            return 0.0
        if above == math.inf:
            above = self._workshop.guess(log_delta)

        def short(epsilon: float) -> float:  # falls as epsilon, negated, rises
            return log_delta - self.log_delta(-epsilon)

        if short(-above) < 0:
            return above
        high, start = above, 0.0
        for _ in range(_MOST_BACK):
            if not self._is_one_step:
                start, _ = self._stretch(math.nextafter(high, 0.0))
            if short(-start) < 0:
                return -first_below(short, -high, -start, 1e-10)
            if start == 0:
                break
            high = start
        return 0.0


def _gaussian_epsilon(mu: float, log_delta: float) -> float:
    """Least epsilon >= 0 of Gaussian DP; also of a delta that is no float."""
    if math.isinf(mu) or log_delta == -math.inf:
        return math.inf
    most = mu * mu / 2 + mu * math.sqrt(max(-2 * log_delta, 0.0))
    return gaussian.least(lambda e: gaussian.log_delta(e, mu) <= log_delta, 0.0, most)


def _log_pinsker(divergence: float) -> float:
    """Ln of sqrt(divergence / 2): total variation, delta at epsilon 0, is at most that.

    Of the Kullback-Leibler divergence; Renyi's of orders above 1 are not below it.
    """
    return math.log(divergence / 2) / 2 if divergence > 0 else -math.inf


def _loss_epsilon(loss: Loss, direction: Direction, log_delta: float) -> float:
    """Least epsilon >= 0 of a single step, from its exact delta; infinite if none is found."""

    def excess(epsilon: float) -> float:
        return loss.log_delta(epsilon, direction) - log_delta

    if excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, 1.0
    while excess(high) > 0:
        low, high = high, 1.5 * high
        if high > _MOST_EPSILON:
            return math.inf
    return first_below(excess, low, high)
