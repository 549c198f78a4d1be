"""Laws of mechanisms without Gaussian noise: their losses are bounded, and some of them are atoms.

Randomised response and the discrete Laplace mechanism have finitely many losses. The Laplace
mechanism has atoms at both ends and a density between. Several coordinates whose shifts add up to
one bound tell no more than one coordinate that has it all: shift one after the other, and tests of
log-concave noise are thresholds, nested, so that trade-off functions chain to that of the whole
shift, while in general they only chain to less (Dong, Roth & Su 2022, group privacy).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino.accounting.pld.convolution import discretise
from sordino.accounting.pld.loss import Direction, Loss, amplified, base, from_tails, log_excess
from sordino.types import Floats

_POINTS = 2_000
"""Of the law whose moments bound those of a Laplace mechanism from above."""
_ROUNDED = 1 + 1e-13
"""The end of a law lies above its atom, whichever way a logarithm was rounded."""


@dataclass(frozen=True)
class DiscreteLoss(Loss):
    """Finitely many losses, with the probability of each under P; under Q it is e^-loss of that."""

    symmetric = False
    losses: tuple[float, ...]
    probabilities: tuple[float, ...]

    def _law(self, direction: Direction) -> tuple[Floats, Floats, Floats]:
        """Losses, and ln of their probability where they are drawn and in the other world."""
        losses, logs = np.array(self.losses), np.log(self.probabilities)
        if direction == "forward":
            return losses, logs, logs - losses
        return -losses, logs - losses, logs

    def largest(self, direction: Direction) -> float:
        return self.reach(0.0, direction)[1]

    def masses(self, edges: Floats, direction: Direction) -> tuple[Floats, Floats]:
        losses, *logs = self._law(direction)
        places = np.searchsorted(edges, losses)
        drawn, other = np.zeros((2, len(edges) + 1))
        np.add.at(drawn, places, np.exp(logs[0]))
        np.add.at(other, places, np.exp(logs[1]))
        return drawn, other

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        losses, logs, _ = self._law(direction)
        above = losses > epsilon
        if not above.any():
            return -math.inf
        parts = logs[above] + np.log(-np.expm1(epsilon - losses[above]))
        return min(0.0, float(np.logaddexp.reduce(parts)))

    def log_moments(self, thetas: Floats, direction: Direction) -> Floats:
        losses, _, other = self._law(direction)
        return np.logaddexp(0.0, log_excess(losses, other, thetas))

    def reach(self, log_tail: float, direction: Direction) -> tuple[float, float]:
        losses, *_ = self._law(direction)
        return float(losses.min()), float(losses.max())


@dataclass(frozen=True)
class LaplaceLoss(Loss):
    """The Laplace mechanism of sensitivity epsilon over its scale, on a Poisson sample.

    (1-q) Lap(0) + q Lap(epsilon) against Lap(0), both of scale 1.
    """

    symmetric = False
    epsilon: float
    sample_rate: float = 1.0

    def masses(self, edges: Floats, direction: Direction) -> tuple[Floats, Floats]:
        sign = 1.0 if direction == "forward" else -1.0
        cuts = sign * base(sign * edges, self.sample_rate)
        # The unsampled loss under P; by symmetry it is minus the loss under Q.
        more, less = self._tails(cuts)
        with_it, without = from_tails(more, 1 - more), from_tails(1 - less, less)
        q = self.sample_rate
        if direction == "forward":
            return (1 - q) * without + q * with_it, without
        return with_it, (1 - q) * with_it + q * without

    def _tails(self, cuts: Floats) -> tuple[Floats, Floats]:
        """Probability of a loss up to the cut where it is mostly large; above it, where small."""
        inside = np.clip(cuts, -self.epsilon, self.epsilon)
        lower, upper = (np.exp((sign * inside - self.epsilon) / 2) / 2 for sign in (1, -1))
        below, beyond = cuts < -self.epsilon, cuts >= self.epsilon
        return (
            np.where(below, 0.0, np.where(beyond, 1.0, lower)),
            np.where(below, 1.0, np.where(beyond, 0.0, upper)),
        )

    def largest(self, direction: Direction) -> float:
        return self.reach(0.0, direction)[1]

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        if epsilon >= self.largest(direction):
            return -math.inf
        q = self.sample_rate
        left, inner = q, float(base(np.array(epsilon), q))
        if direction == "backward" and q < 1:
            left = -math.expm1(epsilon + math.log1p(-q))
            inner = epsilon + math.log(q / left)
        if inner >= self.epsilon:
            return -math.inf
        return math.log(left) + math.log(-math.expm1((inner - self.epsilon) / 2))

    def log_moments(self, thetas: Floats, direction: Direction) -> Floats:
        """Of the law on a grid that dominates this one: at most spacing^2 / 4 more of variance."""
        low, high = self.reach(0.0, direction)
        spacing = (high - low) / _POINTS
        grid = discretise(self, spacing, 0.0, direction, 2 * _POINTS)
        kept = grid.mass > 0
        losses = grid.losses[kept]
        return np.logaddexp(0.0, log_excess(losses, np.log(grid.mass[kept]) - losses, thetas))

    def reach(self, log_tail: float, direction: Direction) -> tuple[float, float]:
        ends = amplified(np.array([-self.epsilon, self.epsilon]), self.sample_rate) * _ROUNDED
        low, high = ends if direction == "forward" else -ends[::-1]
        return float(low), float(high)
