"""The loss of one step for a person with several records: mixtures of Gaussians.

Each of k records is drawn by its own coin of chance q and moves the sum by one clipping norm at
most. Gradients that all point one way are the worst (Ganesh 2024, arXiv 2407.07737), so the pair is
sum_j Binom(k, q)(j) N(j, z^2) against N(0, z^2). Where all k records are replaced, the worst are
opposite to the first: against sum_j Binom(k, q)(j) N(-j, z^2). A person with fewer records is
covered: the others have gradient 0.

Why (docs/math.md 12): over the noise alone, p and q are sums of weighted exponentials of Gaussian
variables, each of mean 1. By Kahane's inequality E V(p - a q), V convex, grows with every
covariance of two terms of p or two of q, and falls with those between p and q. Shifts j and -j have
the largest and the least that j and l gradients can have, j l and -j l, all at once.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri_exp

from sordino.accounting import gaussian
from sordino.accounting.pld.loss import Direction, Loss, SampledLoss, ShiftedLoss, World
from sordino.accounting.pld.numerics import log_add
from sordino.types import Floats

_MOST_SHIFTS = 32
"""Counts of drawn records that are told apart, about: more of them are moved up to the next."""


class _Mixture(ShiftedLoss):
    """A shift of random size, or none, with ln of their probabilities, against no shift at all."""

    symmetric = False
    noise_multiplier: float

    @property
    @abstractmethod
    def _shifts(self) -> tuple[Floats, Floats]:
        """Sizes above 0, rising, and ln of their probabilities."""

    @property
    @abstractmethod
    def _log_none(self) -> float:
        """Ln of the probability of no shift."""

    @property
    def worlds(self) -> tuple[World, World]:
        """P shifts by as many clipping norms as records are drawn, Q never."""
        shifts, logs = self._shifts
        means = np.concatenate([[0.0], shifts])
        weights = np.exp(np.concatenate([[self._log_none], logs]))
        return (means, weights), (np.array([0.0]), np.array([1.0]))

    def _terms(self, positions: Floats) -> Iterator[tuple[float, float, Floats]]:
        """Every shift, ln of its weight, and ln of N(shift, z^2) over N(0, z^2) at the positions.

        One after the other: grids are long.
        """
        twice = 2 * self.noise_multiplier**2
        for shift, log in zip(*(each.tolist() for each in self._shifts), strict=True):
            yield shift, log, shift * (2 * positions - shift) / twice

    def at(self, positions: Floats) -> Floats:
        # p / q - 1 keeps its digits where the loss is small, their logarithms elsewhere.
        small, highest = np.zeros(positions.shape), np.full(positions.shape, -np.inf)
        for _, log, exponents in self._terms(positions):
            small += math.exp(log) * np.expm1(np.minimum(exponents, 30.0))
            highest = np.maximum(highest, exponents)
        large = (highest > 30) | (small < -0.5)
        found = np.log1p(np.where(large, 0.0, small))
        if large.any():
            far = np.full(int(large.sum()), self._log_none)
            for _, log, exponents in self._terms(positions[large]):
                far = np.logaddexp(far, exponents + log)
            found[large] = far
        return found

    def position(self, losses: Floats) -> Floats:
        """Root of sum_j w_j e^(j s - j^2 / 2 z^2) = e^loss - w_0 in s = x / z^2.

        No term alone may be larger than the whole: that gives an s0 at or above the root. Newton's
        method on the polynomial in e^(s - s0), convex and rising, falls from 1 to the root.
        """
        shifts, logs = self._shifts
        losses = np.asarray(losses, dtype=np.float64)
        found = np.where(losses > self._log_none, np.inf, -np.inf)
        inside = np.isfinite(losses) & (losses > self._log_none)
        log_whole = losses[inside] + np.log(-np.expm1(self._log_none - losses[inside]))
        heights = logs - shifts**2 / (2 * self.noise_multiplier**2)
        start = np.full(log_whole.shape, np.inf)
        for shift, height in zip(shifts, heights, strict=True):
            start = np.minimum(start, (log_whole - height) / shift)
        parts = [
            np.exp(np.minimum(height + shift * start - log_whole, 0.0))
            for shift, height in zip(shifts, heights, strict=True)
        ]
        gaps = np.diff(shifts, prepend=0.0) / shifts[0]  # powers of the least shift: no root of it
        share = np.ones(log_whole.shape)
        for _ in range(100):
            total, slope = np.zeros(share.shape), np.zeros(share.shape)
            for shift, gap, part in zip(shifts[::-1], gaps[::-1], parts[::-1], strict=True):
                power = share if gap == 1 else share**gap
                total = (total + part) * power
                slope = (slope + shift / shifts[0] * part) * power
            fall = (total - 1) / slope
            share = share * (1 - fall)
            if not (np.abs(fall) > 2e-15).any():
                break
        found[inside] = self.noise_multiplier**2 * (start + np.log(share) / shifts[0])
        return found

    def largest(self, direction: Direction) -> float:
        # A logarithm may be rounded down by its last digit.
        return math.inf if direction == "forward" else -self._log_none * (1 + 4e-16)

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        """A sum over counts of what a Gaussian shift of that size adds: no term is negative."""
        if epsilon >= self.largest(direction):
            return -math.inf
        sign = 1.0 if direction == "forward" else -1.0
        cut = self.position(np.array([sign * epsilon]))
        terms = []
        for shift, log, (exponent,) in self._terms(cut):
            term = gaussian.log_delta(sign * float(exponent), shift / self.noise_multiplier)
            # Seen from q a part counts p / q times as much.
            terms.append(log + term + (0.0 if sign > 0 else epsilon + float(exponent)))
        return min(0.0, log_add(*terms))

    def reach(self, log_tail: float, direction: Direction) -> tuple[float, float]:
        low, high = super().reach(log_tail, direction)
        if direction == "backward":
            return low, high
        # Many records are rarely drawn: each count has its share of the tail, most end before it.
        shifts, logs = self._shifts
        means, weights = np.append(shifts, 0.0), np.append(logs, self._log_none)
        left = log_tail - math.log(len(means)) - weights
        ends = means[left < 0] - self.noise_multiplier * ndtri_exp(left[left < 0])
        return low, min(high, float(self.at(ends.max(initial=0.0, keepdims=True))[0]))


@dataclass(frozen=True)
class MixtureLoss(_Mixture):
    """Any shifts, rising in [0, 1], with their probabilities.

    `at_most` if the true ones are smaller.
    """

    noise_multiplier: float
    shifts: tuple[float, ...]
    probabilities: tuple[float, ...]
    at_most: bool = False

    @property
    def scale(self) -> float:  # type: ignore[override]
        """Width of every Gaussian."""
        return self.noise_multiplier

    @cached_property
    def _shifts(self) -> tuple[Floats, Floats]:
        first = int(self.shifts[0] == 0)
        return np.array(self.shifts[first:]), np.log(self.probabilities[first:])

    @property
    def _log_none(self) -> float:
        return math.log(self.probabilities[0]) if self.shifts[0] == 0 else -math.inf

    def optimistic(self) -> Loss | None:
        return None if self.at_most else self


@dataclass(frozen=True)
class PersonLoss(_Mixture, SampledLoss):
    """Poisson sampling, all `records` of a person present or absent, each drawn on its own."""

    records: int

    @cached_property
    def _shifts(self) -> tuple[Floats, Floats]:
        """How many records are drawn, above 0, and ln of the probabilities.

        Of very many records neighbouring counts are taken together, as the largest of them: by
        the same inequality larger shifts tell more.
        """
        k, q = self.records, self.sample_rate
        tops = np.arange(1, k + 1)
        if k > _MOST_SHIFTS:
            middle, spread = k * q, math.sqrt(k * q) + 1
            low, high = max(1, int(middle - 6 * spread)), min(k, int(middle + 8 * spread))
            even = np.arange(low, high, 1 + (high - low) // (2 * _MOST_SHIFTS))
            tail = np.geomspace(high, k, 24).astype(np.int64)
            tops = np.unique(np.concatenate([even, tail, [k]]))
        logs, ways, top = np.full(len(tops), -math.inf), 1, 0
        for drawn in range(1, k + 1):
            ways = ways * (k - drawn + 1) // drawn
            top += drawn > tops[top]
            log = math.log(ways) + drawn * math.log(q) + (k - drawn) * math.log1p(-q)
            logs[top] = np.logaddexp(logs[top], log)
        return tops.astype(np.float64), logs

    @property
    def _log_none(self) -> float:
        """Ln of the probability that no record of the person is drawn."""
        return self.records * math.log1p(-self.sample_rate)

    def optimistic(self) -> Loss | None:
        """Where counts are taken together, each as the least of them: smaller shifts tell less."""
        tops, logs = self._shifts
        if len(tops) == self.records or super().optimistic() is None:
            return super().optimistic()
        least = np.concatenate([[0.0, 1.0], tops[:-1] + 1])
        chances = np.exp(np.append(self._log_none, logs))
        kept = chances > 0
        least, chances = least[kept], chances[kept]
        shifts = tuple((least / least[-1]).tolist())
        return MixtureLoss(self.noise_multiplier / least[-1], shifts, tuple(chances.tolist()))


@dataclass(frozen=True)
class PersonReplaceLoss(PersonLoss):
    """Poisson sampling, all `records` of a person replaced by others, each drawn on its own."""

    symmetric = True

    def optimistic(self) -> Loss | None:
        return self if isinstance(super().optimistic(), PersonReplaceLoss) else None

    @property
    def worlds(self) -> tuple[World, World]:
        """P shifts by as many clipping norms as records are drawn, Q as many the other way."""
        (means, weights), _ = super().worlds
        return (means, weights), (-means, weights)

    def at(self, positions: Floats) -> Floats:
        return super().at(positions) - super().at(-positions)

    def position(self, losses: Floats) -> Floats:
        """Root of l(x) - l(-x) = loss, l the loss of records that come or go, by safe Newton steps.

        l(-x) lies between ln w_0 and l(0) for x >= 0, which brackets the root.
        """
        sizes = np.abs(losses)
        middle = float(super().at(np.zeros(1))[0])
        low = np.maximum(super().position(sizes + self._log_none), 0.0)
        high = np.maximum(super().position(sizes + middle), low)
        inside = np.isfinite(high)
        low, high, sizes = low[inside], high[inside], sizes[inside]
        roots, left = high.copy(), np.arange(len(high))
        for _ in range(100):
            x = roots[left]
            excess = self.at(x) - sizes[left]
            low[left], high[left] = (
                np.where(excess < 0, x, low[left]),
                np.where(excess < 0, high[left], x),
            )
            slope = np.maximum(self._slope(x) + self._slope(-x), 1e-200)
            following = x - np.clip(excess, -1e100, 1e100) / slope
            safe = (following >= low[left]) & (following <= high[left])
            roots[left] = np.where(safe, following, (low[left] + high[left]) / 2)
            moving = np.abs(roots[left] - x) > 1e-15 * (np.abs(x) + self.noise_multiplier)
            left = left[moving]
            if not len(left):
                break
        found = np.full(losses.shape, np.inf)
        found[inside] = roots
        return np.where(losses == 0, 0.0, np.copysign(found, losses))

    def _slope(self, positions: Floats) -> Floats:
        """Of the loss of records that come or go: the mean shift there, over z^2."""
        top = np.full(positions.shape, self._log_none)
        for _, log, exponents in self._terms(positions):
            top = np.maximum(top, log + exponents)
        total, moment = np.exp(self._log_none - top), np.zeros(positions.shape)
        for shift, log, exponents in self._terms(positions):
            share = np.exp(log + exponents - top)
            total, moment = total + share, moment + shift * share
        return np.asarray(moment / total / self.noise_multiplier**2)

    def largest(self, direction: Direction) -> float:
        return math.inf

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        return ShiftedLoss.log_delta(self, epsilon, direction)
