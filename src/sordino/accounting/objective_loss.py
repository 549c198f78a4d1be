"""The law of the privacy loss of objective perturbation, and the sums that bound its delta.

The proof is in the head of `sordino.accounting.objective`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri_exp

from sordino.accounting import gaussian
from sordino.accounting.loss import Direction, Loss, from_tails
from sordino.types import Floats

Terms = tuple[tuple[float, float], ...]
"""Offsets and mus: by the union bound delta(epsilon) <= sum dG(epsilon - offset; mu)."""


def corners(replace: bool, mu: float, floor: float) -> Terms:
    """The normals whose maximum, and that of `floor`, bounds the loss."""
    return ((0.0, 2 * mu), (0.0, mu), (floor, mu)) if replace else ((0.0, mu),)


def log_sum(epsilon: float, terms: Terms) -> float:
    """Ln of the sum of the Gaussian deltas of these terms, at most 0."""
    logs = [gaussian.log_delta(epsilon - offset, mu) for offset, mu in terms]
    return min(0.0, float(np.logaddexp.reduce(logs)))


def continued(log_delta_at: Callable[[float], float], start: float, epsilon: float) -> float:
    """Ln delta also below `start`: 1 - e^(epsilon - start) (1 - delta(start)).

    Of any two laws: 1 - e^(epsilon - loss) is at most 1 - e^(epsilon - start) where the loss is
    below `start`, and above it exceeds that by e^(epsilon - start) (1 - e^(start - loss)).
    """
    if epsilon >= start:
        return log_delta_at(epsilon)
    there = math.exp(epsilon - start + log_delta_at(start))
    return math.log(min(1.0, -math.expm1(epsilon - start) + there))


@dataclass(frozen=True)
class ObjectiveLoss(Loss):
    """A law above the privacy loss of objective perturbation, for every pair of neighbours.

    Its tail beyond the lowest loss is a sum of normal tails: in each direction the bound M, or a
    law stochastically above it. The other world has density e^-M of it, and what that lacks of 1
    where the first world never comes (a loss of -infinity).

    Parameters
    ----------
    mu
        X / sigma.
    jacobian, floor
        What is added to the loss, and what it is at least: kappa and 0, or 0 and f. Not where the
        record leaves, which has neither.
    replace
        Whether a record is replaced, not added or removed.
    """

    symmetric = False
    mu: float
    jacobian: float
    floor: float
    replace: bool

    def _law(self, direction: Direction) -> tuple[float, float, Terms]:
        """Constant part, lowest value of the rest, and the normals of its tail."""
        charged = self.replace or direction == "forward"
        jacobian, start = (self.jacobian, self.floor) if charged else (0.0, 0.0)
        terms = corners(self.replace, self.mu, start)
        if _tail(start, terms) > 1:
            high = start + 4 * self.mu + 2 * self.mu**2  # 2, 4 and 4 deviations
            start = gaussian.least(lambda at: _tail(at, terms) <= 1, start, high)
        return jacobian, start, terms

    def masses(self, edges: Floats, direction: Direction) -> tuple[Floats, Floats]:
        shift, start, terms = self._law(direction)
        at = np.maximum(edges - shift, start)
        above, other = _tails(at, terms), math.exp(-shift) * _tails(at, terms, tilt=-1.0)
        lowest = 1 - _tail(start, terms)  # all at `start`
        before = edges - shift < start
        above = above + np.where(before, lowest, 0.0)
        other = other + np.where(before, lowest * math.exp(-shift - start), 0.0)
        below = np.where(before, 0.0, 1 - above)
        return from_tails(below, above), from_tails(1 - other, other)

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        shift, start, terms = self._law(direction)
        return continued(lambda e: log_sum(e - shift, terms), shift + start, epsilon)

    def log_moments(self, thetas: Floats, direction: Direction) -> Floats:
        shift, start, terms = self._law(direction)
        logs = [thetas * start + math.log(max(1 - _tail(start, terms), 1e-300))]
        for offset, mu in terms:
            centre = offset + (thetas + 0.5) * mu * mu
            growth = thetas * (offset + (thetas + 1) * mu * mu / 2)
            logs.append(growth + log_ndtr((centre - start) / mu))
        return np.asarray(thetas * shift + logsumexp(logs, axis=0), dtype=np.float64)

    def reach(self, log_tail: float, direction: Direction) -> tuple[float, float]:
        shift, start, terms = self._law(direction)
        quantile = float(ndtri_exp(log_tail - math.log(len(terms))))
        ends = [offset + mu * mu / 2 - mu * quantile for offset, mu in terms]
        return shift + start, shift + max(start, *ends)


def _tails(at: Floats, terms: Terms, tilt: float = 0.0) -> Floats:
    """Sum of normal tails beyond these points, each times e^(tilt loss) for a tilt of 0 or -1."""
    total = np.zeros(len(at))
    for offset, mu in terms:
        centre = offset + (0.5 + tilt) * mu * mu
        total += math.exp(tilt * offset) * ndtr((centre - at) / mu)
    return total


def _tail(at: float, terms: Terms) -> float:
    return float(_tails(np.array([at]), terms)[0])
