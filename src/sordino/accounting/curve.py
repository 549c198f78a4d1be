"""The delta(epsilon) curve of composed losses in one direction: aims, convolves, remembers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sordino.accounting import renyi
from sordino.accounting.convolution import (
    LOG_FARTHEST,
    LOG_OUTSIDE,
    Components,
    Composed,
    Limit,
    Rough,
    TooLarge,
)
from sordino.accounting.loss import Direction, Loss
from sordino.accounting.root import first_below

Floats = npt.NDArray[np.float64]

PRECISIONS = ((2e-5, 1 << 17), (1e-4, 1 << 21), (2e-3, 1 << 40))
"""Relative errors of epsilon that the grid's spacing aims at, and the points each is worth.

The error is always on the private side. Where even the last needs more points than the limit,
the moments accountant answers.
"""
SMALLEST_EPSILON = 1e-2
"""Below this the error is relative to this."""
CHECKED_BELOW = math.log(1e-11)
"""Deltas this small are compared with the moments accountant's."""
REMEMBERED = 6
LEAST_SHARE = -30.0
"""Ln of the least share of a tilted law that a delta can be read off, against rounding: 1e-13."""
LOG_NEGLIGIBLE = -24.0
"""Ln of the share of delta that losses cut off in all steps together may have: 4e-11."""
LOG_DEEPEST = -150.0
"""The smallest delta (1e-65) aimed at before anything is known of it."""


class Curve:
    """delta(epsilon) and epsilon(delta) of a composition in one direction, as upper bounds."""

    def __init__(self, components: Components, direction: Direction, limit: Limit) -> None:
        self._components = [(loss, count) for loss, count in components if count > 0]
        self._direction: Direction = direction
        self._limit = limit
        self._steps = sum(count for _, count in self._components)
        self._roughs: dict[float, Rough] = {}
        self._epsilons: dict[float, float] = {}
        self._deltas: dict[float, float] = {}
        self._known: list[Composed] = []
        self._renyi: Floats | None = None
        self.fallbacks: list[str] = []

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
        if epsilon >= self._largest_finite():  # what is left are outright disclosures
            return self._log_told()
        try:
            composed = self._aimed_at(epsilon)
        except TooLarge as reason:
            self._fall_back(f"{reason}")
            return renyi.log_delta(renyi.ORDERS, self._on_all_orders(), epsilon)
        value = composed.log_delta(epsilon)
        sound = composed.covers(epsilon) and composed.infinite < 0.01 * math.exp(value)
        if value >= CHECKED_BELOW and sound:
            return value
        moments = renyi.log_delta(renyi.ORDERS, self._on_all_orders(), epsilon)
        if value < max(loss.log_delta(epsilon, self._direction) for loss, _ in self._components):
            self._fall_back("a convolved delta below that of a single step")
            return moments
        return min(value, moments)

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
        try:
            found = self._convolved_epsilon(log_delta)
        except TooLarge as reason:
            moments, largest = self._moments_epsilon(log_delta), self._largest_loss()
            if moments <= largest:
                self._fall_back(f"{reason}")
            return min(moments, largest)
        if log_delta < CHECKED_BELOW or 0 < found < SMALLEST_EPSILON:
            return self._cross_checked(found, log_delta)
        return found

    def _largest_loss(self) -> float:
        return sum(count * loss.largest(self._direction) for loss, count in self._components)

    def _largest_finite(self) -> float:
        return sum(n * loss.largest_finite(self._direction) for loss, n in self._components)

    def _log_told(self) -> float:
        """Ln of the probability that some step discloses outright, at most."""
        told = sum(
            n * math.exp(loss.log_delta(1e9, self._direction)) for loss, n in self._components
        )
        return min(0.0, math.log(told)) if told > 0 else -math.inf

    def _convolved_epsilon(self, log_delta: float) -> float:
        rough = self._aim(log_delta)
        theta, guess = rough.tilt_at(log_delta)
        largest = self._largest_finite() if self._log_told() <= log_delta else self._largest_loss()
        if guess > 0.999 * largest:  # a bounded loss, and a delta that only its bound meets
            return largest
        theta = self._tilt_for(rough, 0.0) if guess == 0 else min(theta, self._most_tilt(rough))
        found, finer = math.inf, (0.0, LOG_OUTSIDE)
        for _ in range(4):
            composed = self._compose(rough, theta, guess, finer)
            # Every grid gives an upper bound, so the least of them holds.
            found = min(found, _search(composed.log_delta, log_delta, max(guess, 1e-3)))
            if found == 0 or math.isinf(found):
                break
            if not composed.covers(found):
                theta, guess = self._tilt_for(rough, found), found
            elif self._is_fine(composed, found):
                break
            else:
                guess, finer = found, _finer(composed, found)
        if math.isinf(found) and math.isinf(largest):
            raise TooLarge("a window that delta does not reach")
        return min(found, largest)

    def _cross_checked(self, found: float, log_delta: float) -> float:
        """The convolution's answer if it lies between one exact step and the moments accountant."""
        moments = self._moments_epsilon(log_delta)
        for loss, _ in self._components:
            if found * (1 + 1e-9) < loss_epsilon(loss, self._direction, log_delta):
                self._fall_back("a convolved epsilon below that of a single step")
                return moments
        return min(found, moments)

    def _moments_epsilon(self, log_delta: float) -> float:
        return renyi.epsilon(renyi.ORDERS, self._on_all_orders(), math.exp(log_delta))

    def _on_all_orders(self) -> Floats:
        if self._renyi is None:
            self._renyi = self.renyi(renyi.ORDERS)
        return self._renyi

    def _fall_back(self, reason: str) -> None:
        note = f"fallback: the moments accountant answered, because of {reason}"
        if note not in self.fallbacks:
            self.fallbacks.append(note)

    def _aim(self, log_delta: float) -> Rough:
        """The rough law, without losses too rare to matter for a delta of this size."""
        log_tail = 10.0 * math.floor((log_delta + LOG_NEGLIGIBLE - math.log(self._steps)) / 10)
        log_tail = max(LOG_FARTHEST, log_tail)
        if log_tail not in self._roughs:
            self._roughs[log_tail] = Rough(self._components, self._direction, log_tail)
        return self._roughs[log_tail]

    def _aimed_at(self, epsilon: float) -> Composed:
        for composed in self._known:
            if composed.covers(epsilon) and self._is_fine(composed, epsilon):
                return composed
        deep = self._aim(LOG_DEEPEST)
        theta = self._tilt_for(deep, epsilon)
        # Chernoff's bound on delta says which losses may be left out.
        rough = self._aim(min(0.0, deep.cumulant(theta) - theta * epsilon))
        theta = self._tilt_for(rough, epsilon)
        composed = self._compose(rough, theta, epsilon)
        if composed.covers(epsilon) and not self._is_fine(composed, epsilon):
            composed = self._compose(rough, theta, epsilon, _finer(composed, epsilon))
        return composed

    def _is_fine(self, composed: Composed, epsilon: float) -> bool:
        """Whether the grid's error at `epsilon` is what was aimed at, or nearly."""
        error = self._steps * composed.spacing**2 / 8 * composed.sharpness(epsilon)
        outside = composed.log_outside - max(composed.log_share(epsilon), LEAST_SHARE)
        return error <= 4 * composed.error and outside < -8

    def _tilt_for(self, rough: Rough, epsilon: float) -> float:
        return min(rough.tilt_for(epsilon), self._most_tilt(rough))

    def _most_tilt(self, rough: Rough) -> float:
        """Near its bound a bounded loss would be tilted without end, to no gain."""
        room = (self._largest_finite() - rough.slopes(0.0)[0]) / self._steps
        return 100 / room if 0 < room < math.inf else math.inf

    @staticmethod
    def _cheapest(rough: Rough, theta: float, epsilon: float) -> tuple[float, float]:
        """A tilt near `theta` whose window is short, and whose centre is still near epsilon.

        Close to the largest order with small moments the tilted law has a long upper tail. Also
        the window's length.
        """
        best = math.inf, theta, math.inf
        for candidate in (theta, 0.93 * theta, 0.86 * theta, 0.8 * theta):
            mean, variance = rough.slopes(candidate)
            if candidate < theta and abs(mean - epsilon) > 1.5 * math.sqrt(variance):
                continue
            low, high, _ = rough.window(candidate, LOG_OUTSIDE)
            best = min(best, ((high - low) * math.sqrt(1 + candidate), candidate, high - low))
        return best[1:]

    def _compose(
        self,
        rough: Rough,
        theta: float,
        epsilon: float,
        finer: tuple[float, float] = (0.0, LOG_OUTSIDE),
    ) -> Composed:
        sharpness, log_outside = finer
        theta, window = self._cheapest(rough, theta, epsilon)
        # A grid wider than the losses would spread them beyond the window they are aimed at.
        deviation = math.sqrt(rough.slopes(theta)[1])
        widest = max(0.5 * deviation / math.sqrt(self._steps), window / PRECISIONS[0][1])
        sharp = max(1 + theta, sharpness)
        refused: TooLarge | None = None
        for relative, worth in PRECISIONS:
            error = relative * max(epsilon, SMALLEST_EPSILON)
            if (relative, worth) == PRECISIONS[-1]:  # rather coarse than not at all
                error = max(error, relative * deviation)
            # The chord of a bucket moves epsilon by at most sharpness spacing^2 / 8 a step.
            spread = 8 * error / (self._steps * sharp)
            try:
                composed = Composed(
                    *(self._components, self._direction, rough, theta),
                    *(min(math.sqrt(spread), widest), min(worth, self._limit.points)),
                    *(error, log_outside),
                )
                break
            except TooLarge as reason:
                refused = reason
        else:
            assert refused is not None
            raise refused
        self._known = [composed, *self._known[: REMEMBERED - 1]]
        return composed


def _finer(composed: Composed, epsilon: float) -> tuple[float, float]:
    """How sharp the next grid must be taken to be, and how much may lie outside its window."""
    share = max(composed.log_share(epsilon), LEAST_SHARE)
    return composed.sharpness(epsilon), min(LOG_OUTSIDE, share - 12)


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
        if high > 1e9:
            return math.inf
    return first_below(excess, low, high)
