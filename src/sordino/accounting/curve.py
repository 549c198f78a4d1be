"""The delta(epsilon) curve of composed losses in one direction: stretches of epsilon, each bounded.

Epsilon is cut into stretches about as wide as the composed loss's deviation, by a rule that knows
the losses alone. Each stretch has one bound, a `Piece`, made when it is first asked for: what an
epsilon's delta is does not depend on what was asked before, and the bounds are kept.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np

from sordino.accounting import renyi
from sordino.accounting.aim import Components, Saddle, TooLarge
from sordino.accounting.convolution import Limit, Piece
from sordino.accounting.logs import log_any, rounded_up
from sordino.accounting.loss import Direction, Loss
from sordino.accounting.root import first_below
from sordino.accounting.workshop import Workshop
from sordino.types import Floats

EVEN_STRETCHES = 8
"""Stretches of epsilon as wide as the deviation; beyond, they grow by an eighth."""
LOG_FALL = 40.0
"""Ln of how far delta may fall within a stretch, about."""
MOST_BACK = 40
"""Stretches looked back over for a bound where there is none: a factor of 100 of epsilon."""
STRAIGHT_STEPS = 6
"""Stretches that are looked for along straight lines, before those left are halved."""
MOST_EPSILON = 1e9
"""Beyond this only the moments accountant is asked."""


class DeltaCurve:
    """delta(epsilon) and epsilon(delta) of a composition in one direction, as upper bounds."""

    def __init__(self, components: Components, direction: Direction, limit: Limit) -> None:
        self._components = [(loss, count) for loss, count in components if count > 0]
        self._direction: Direction = direction
        self._workshop = Workshop(self._components, direction, limit)
        self._pieces: dict[float, Piece | TooLarge] = {}
        self._deltas: dict[float, float] = {}
        self._epsilons: dict[float, float] = {}
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
            self._deltas[epsilon] = self._log_delta(epsilon)
        return self._deltas[epsilon]

    def _log_delta(self, epsilon: float) -> float:
        if not self._components or epsilon >= self._largest_loss():
            return -math.inf
        if self._is_one_step:
            return self._components[0][0].log_delta(epsilon, self._direction)
        if epsilon >= self._workshop.largest_finite:  # what is left are outright disclosures
            return self._log_told()
        if epsilon < MOST_EPSILON:
            return min(self._bound(epsilon), self._log_apart)
        return min(self._moments(epsilon), self._bound(math.nextafter(MOST_EPSILON, 0.0)))

    def _bound(self, epsilon: float) -> float:
        """The bound of a stretch, never above that of those before it."""
        best, patience = math.inf, 6
        for _ in range(MOST_BACK):
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
            self._epsilons[log_delta] = self._epsilon(log_delta)
        return self._epsilons[log_delta]

    def _epsilon(self, log_delta: float) -> float:
        if not self._components:
            return 0.0
        if log_delta == -math.inf:
            return self._largest_loss()
        if self._is_one_step:
            return loss_epsilon(self._components[0][0], self._direction, log_delta)
        if self._log_apart <= log_delta:
            return 0.0
        told = self._log_told() > log_delta
        largest = self._largest_loss() if told else self._workshop.largest_finite
        guess = self._workshop.guess(log_delta)
        near = guess <= 2 * self._workshop.rough(0.0).untilted.mean
        if near and _log_pinsker(float(self.renyi(np.array([2.0]))[0])) <= log_delta:
            return 0.0
        guess = min(guess, 0.999 * largest)
        # Between these the bound falls to delta; stretches in between are looked at in turn.
        below, above = 0.0, largest
        for tried in itertools.count():
            start, end = self._stretch(guess)
            end = min(end, largest)
            at_start, at_end = (self._own(start, end, e)[0] for e in (start, end))
            if at_start > log_delta >= at_end:
                break
            if at_start <= log_delta:
                above = start
            else:
                below = end
            if above <= below:  # where two stretches meet: one bound is above delta, one below it
                return below
            if below >= MOST_EPSILON:
                return math.inf
            slope = (at_start - at_end) / (end - start)
            guess = start + min((at_start - log_delta) / max(slope, 1e-9), 100 * end)
            if tried >= STRAIGHT_STEPS:  # straight lines mislead here: halve what is left
                far = above if above < math.inf else max(1.0, 4 * below)
                guess = math.sqrt(below * far) if 4 * below < far and below else (below + far) / 2
            guess = min(max(guess, below), math.nextafter(above, 0.0), MOST_EPSILON)
        return first_below(lambda e: self._own(start, end, e)[0] - log_delta, start, end)

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
        """Why the moments accountant answered at `epsilon`; None if it did not."""
        if not self._components or self._is_one_step or epsilon >= self._workshop.largest_finite:
            return None
        piece = self._piece(*self._stretch(epsilon))
        if isinstance(piece, TooLarge):
            reason = f"{piece}"
        elif not piece.is_sound(epsilon):
            reason = "rounding: delta is smaller than a convolution of these losses can tell"
        else:
            return None
        return f"fallback: the moments accountant answered, because of {reason}"

    # ------------------------------------------------------------------ what is known of the losses

    def _largest_loss(self) -> float:
        return rounded_up((n, loss.largest(self._direction)) for loss, n in self._components)

    def _log_told(self) -> float:
        """Ln of the probability that some step discloses outright."""
        told = [
            (n, math.exp(loss.log_delta(MOST_EPSILON, self._direction)))
            for loss, n in self._components
        ]
        return log_any(told)

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
        if epsilon < MOST_EPSILON:
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
        if not -EVEN_STRETCHES <= share < EVEN_STRETCHES:
            growth = math.log1p(1 / EVEN_STRETCHES)
            far = EVEN_STRETCHES + math.log(abs(share) / EVEN_STRETCHES) / growth
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
            if width <= 2 * saddle.deviation and width * saddle.tilt <= LOG_FALL:
                break
            start, end = (middle, end) if epsilon >= middle else (start, middle)
        return start, end

    @staticmethod
    def _edge(law: Saddle, index: int) -> float:
        beyond = max(abs(index) - EVEN_STRETCHES, 0)
        size = min(abs(index), EVEN_STRETCHES) * (1 + 1 / EVEN_STRETCHES) ** beyond
        return law.mean + math.copysign(size, index) * max(law.deviation, 1e-12)

    def _piece(self, start: float, end: float) -> Piece | TooLarge:
        if start not in self._pieces:
            try:
                self._pieces[start] = self._workshop.make(start, end)
            except TooLarge as reason:
                self._pieces[start] = reason
        return self._pieces[start]


def _log_pinsker(divergence: float) -> float:
    """Ln of sqrt(divergence / 2): total variation, delta at epsilon 0, is at most that.

    Of the Kullback-Leibler divergence; Renyi's of orders above 1 are not below it.
    """
    return math.log(divergence / 2) / 2 if divergence > 0 else -math.inf


def loss_epsilon(loss: Loss, direction: Direction, log_delta: float) -> float:
    """Least epsilon >= 0 of a single step, from its exact delta."""
    return _search(lambda epsilon: loss.log_delta(epsilon, direction), log_delta, 1.0)


def _search(log_delta_at: Callable[[float], float], log_delta: float, guess: float) -> float:
    """Least epsilon >= 0 with log_delta_at(epsilon) <= log_delta; infinite if none is found."""

    def excess(epsilon: float) -> float:
        return log_delta_at(epsilon) - log_delta

    if excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, guess
    while excess(high) > 0:
        low, high = high, 1.5 * high
        if high > MOST_EPSILON:
            return math.inf
    return first_below(excess, low, high)
