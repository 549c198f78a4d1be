"""Laws of the privacy loss ln p/q of one step, each the dominating pair of a mechanism.

"forward" is the loss of P (the world with the record, or D) against Q (the world without it, or
D'), drawn from P; "backward" is ln q/p drawn from Q. A mechanism is private if both are small.

Moments of the privacy loss of two Gaussian mixtures by quadrature: the moments accountant.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri_exp

from sordino.accounting import gaussian
from sordino.types import Floats

MOST_NOISE = 1e12
"""More noise is counted as this much, which hides less: its losses have no digits left."""
LEAST_RATE = 1e-30
"""A record drawn more rarely is counted as drawn this often, which hides less."""
World = tuple[Floats, Floats]
"""A mixture of Gaussians: means and weights."""
_MOST_PANELS = 512
"""Orders that need a longer stretch than this are left out (infinite): they never win."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def log_moments(
    upper: World,
    lower: World,
    scale: float,
    loss: Callable[[Floats], Floats],
    thetas: Floats,
    direction: Literal["forward", "backward"],
    start: float | None = None,
    excess: bool = False,
) -> Floats:
    """Ln E exp(theta loss), integer and fractional orders 1 + theta alike.

    E_drawn exp(theta loss) - 1 = E_other [e^(order loss) - 1 - order (e^loss - 1)], where the
    bracket is never negative: no term cancels another, so a divergence of 1e-12 keeps its digits,
    which neither the binomial sum nor the signed series of Mironov, Talwar & Zhang does. Both
    equal it (tests/accounting/test_moments.py). Gauss-Legendre panels of one standard deviation,
    narrower where ln p/q has its branch points near the line.

    `start` cuts the line off on the left; `excess` gives the ln of the integral alone, without
    the 1.
    """
    sign = 1.0 if direction == "forward" else -1.0
    drawn, other = (upper, lower) if direction == "forward" else (lower, upper)
    # The loss of unit-shifted Gaussians has branch points at distance pi scale^2 from the line.
    shift = float(max(np.ptp(upper[0]), np.ptp(lower[0]), 1e-300))
    width = min(scale, 2 * np.pi * scale**2 / shift)
    result = np.full(len(thetas), np.inf)
    ends = np.array([_stretch(drawn[0], other[0], scale, 1 + theta) for theta in thetas])
    if start is not None:
        ends[:, 0] = start
    panels = np.ceil((ends[:, 1] - ends[:, 0]) / width)
    # Orders that need stretches of about the same length share one.
    for size in 2.0 ** np.arange(3, math.log2(_MOST_PANELS) + 1):
        group = (panels <= size) & (panels > size / 2)
        if not group.any():
            continue
        x, dx = _nodes(ends[group, 0].min(), ends[group, 1].max(), int(panels[group].max()))
        density = _log_density(x, other, scale) + np.log(dx)
        brackets = _log_bracket(sign * loss(x), 1 + thetas[group, None])
        result[group] = _log_sum(density + brackets)
    return result if excess else np.logaddexp(0.0, result)


def _stretch(drawn: Floats, other: Floats, scale: float, order: float) -> tuple[float, float]:
    """Where p^order q^(1-order) and q are not negligible: 13 deviations beyond their centres."""
    ends = [
        *(drawn.min(), drawn.max(), other.min(), other.max()),
        order * drawn.max() - (order - 1) * other.min(),
        order * drawn.min() - (order - 1) * other.max(),
    ]
    return float(min(ends)) - 13 * scale, float(max(ends)) + 13 * scale


def _nodes(low: float, high: float, panels: int) -> tuple[Floats, Floats]:
    edges = np.linspace(low, high, panels + 1)
    half = (edges[1] - edges[0]) / 2
    x = (edges[:-1, None] + half * (1 + _NODES)).ravel()
    return x, np.tile(half * _WEIGHTS, panels)


def _log_density(x: Floats, world: World, scale: float) -> Floats:
    means, weights = world
    with np.errstate(divide="ignore"):
        logs = np.log(weights)[:, None]
    kernel = -((x - means[:, None]) ** 2) / (2 * scale**2) + logs
    return _log_sum(kernel.T) - math.log(scale) - 0.5 * math.log(2 * math.pi)


def _log_sum(values: Floats) -> Floats:
    """Ln of the sum of exponentials over the last axis (scipy's has a high cost a call)."""
    top = values.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(values - top).sum(axis=-1)) + top[..., 0], dtype=np.float64)


def log_excess(losses: Floats, other: Floats, thetas: Floats) -> Floats:
    """Ln(E exp(theta loss) - 1) of losses with ln of their probability in the other world."""
    terms = other + _log_bracket(losses, 1 + thetas[:, None])
    return np.asarray(np.logaddexp.reduce(terms, axis=-1), dtype=np.float64)


def _log_bracket(loss: Floats, order: Floats) -> Floats:
    """ln(e^(order l) - 1 - order (e^l - 1)): series for small l, without overflow for large l."""
    top = order * loss
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        plain = np.log(np.expm1(top) - order * np.expm1(loss))
        rest = np.exp(-top) * (1 + order * np.expm1(np.minimum(loss, 700.0)))
        large = top + np.log1p(-np.minimum(rest, 1.0))
        small = 2 * np.log(np.abs(loss)) + np.log(order * (order - 1) / 2)
        small += np.log1p(np.clip((order + 1) * loss / 3, -0.5, 0.5))
    return np.where(np.abs(top) < 1e-5, small, np.where(top > 30, large, plain))


Direction = Literal["forward", "backward"]
DIRECTIONS: tuple[Direction, Direction] = ("forward", "backward")


class Loss(ABC):
    """The law of the privacy loss of one step, in both directions. Frozen and hashable."""

    symmetric: ClassVar[bool]
    """Whether both directions have the same law."""

    @abstractmethod
    def masses(self, edges: Floats, direction: Direction) -> tuple[Floats, Floats]:
        """Probability of the loss in (-inf, e0], (e0, e1], ..., (elast, inf).

        First under the world the loss is drawn from, then under the other one.
        """

    @abstractmethod
    def log_delta(self, epsilon: float, direction: Direction) -> float:
        """Ln of the exact delta of one step, for epsilon >= 0."""

    @abstractmethod
    def log_moments(self, thetas: Floats, direction: Direction) -> Floats:
        """Ln E exp(theta loss) for theta > 0: theta times the Renyi divergence of order 1+theta."""

    @abstractmethod
    def reach(self, log_tail: float, direction: Direction) -> tuple[float, float]:
        """Two losses below and above which lies at most exp(log_tail) of probability each."""

    def largest(self, direction: Direction) -> float:
        """The largest loss possible: epsilon at delta = 0."""
        return math.inf

    def optimistic(self) -> Loss | None:
        """A law that the worst case is not below, for `Profile.bracket`; None if none is known.

        This one, unless it is but an upper bound on what the mechanism leaks.
        """
        return self

    def refined(self) -> Loss:
        """The same, computed more precisely if it is not exact, for `Profile.bracket`."""
        return self

    def largest_finite(self, direction: Direction) -> float:
        """The same, but for an outright disclosure."""
        return self.largest(direction)

    @property
    def most_mu(self) -> float:
        """The parameter of Gaussian DP that holds whatever was drawn; infinite if none is known.

        Far above this law where draws hide much; but of k records it is only k times as large.
        """
        return math.inf


@dataclass(frozen=True)
class GaussianLoss(Loss):
    """N(mu, 1) against N(0, 1), mu drawn with known weights and told to the attacker.

    With one mu this is the Gaussian mechanism; with several it dominates a mechanism whose
    sensitivity is random and secret (joint convexity of the hockey-stick divergence).
    """

    symmetric = True
    mus: tuple[float, ...]
    weights: tuple[float, ...] = (1.0,)

    @property
    def most_mu(self) -> float:
        """The largest of all."""
        return max(self.mus)

    def largest(self, direction: Direction) -> float:
        return math.inf if any(self.mus) else 0.0

    def masses(self, edges: Floats, direction: Direction) -> tuple[Floats, Floats]:
        drawn, other = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
        for mu, weight in zip(self.mus, self.weights, strict=True):
            if mu == 0:  # the loss is 0 for sure
                drawn[np.searchsorted(edges, 0.0)] += weight
                other[np.searchsorted(edges, 0.0)] += weight
                continue
            drawn += weight * between(edges / mu - mu / 2)
            other += weight * between(edges / mu + mu / 2)
        return drawn, other

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        terms = [gaussian.log_delta(epsilon, mu) for mu in self.mus]
        with np.errstate(divide="ignore"):
            return float(logsumexp(np.array(terms) + np.log(self.weights)))

    def log_moments(self, thetas: Floats, direction: Direction) -> Floats:
        mus = np.array(self.mus)[:, None]
        exponents = thetas * (1 + thetas) * mus**2 / 2
        with np.errstate(divide="ignore"):
            moments = logsumexp(exponents + np.log(self.weights)[:, None], axis=0)
        return np.asarray(moments, dtype=np.float64)

    def reach(self, log_tail: float, direction: Direction) -> tuple[float, float]:
        quantile = float(ndtri_exp(log_tail))
        ends = [(mu * mu / 2 + mu * quantile, mu * mu / 2 - mu * quantile) for mu in self.mus]
        return min(low for low, _ in ends), max(high for _, high in ends)


class ShiftedLoss(Loss):
    """Two mixtures of Gaussians on a line, of one common width, with an increasing loss.

    A subclass says its `scale`, the means and weights of P and Q, the loss at a position and the
    position of a loss.
    """

    scale: float

    @property
    @abstractmethod
    def worlds(self) -> tuple[World, World]:
        """Means and weights of P and of Q."""

    @abstractmethod
    def at(self, positions: Floats) -> Floats:
        """Ln p/q at these positions."""

    @abstractmethod
    def position(self, losses: Floats) -> Floats:
        """Where the loss is this; -inf or inf where it is never so low or high."""

    @property
    def most_mu(self) -> float:
        """Of the two shifts that are farthest apart (joint convexity)."""
        (upper, _), (lower, _) = self.worlds
        return float(max(upper.max() - lower.min(), lower.max() - upper.min())) / self.scale

    def masses(self, edges: Floats, direction: Direction) -> tuple[Floats, Floats]:
        if direction == "forward":
            drawn, other = self._between(self.position(edges), *self.worlds)
            return drawn, other
        drawn, other = self._between(self.position(-edges[::-1]), *self.worlds[::-1])
        return drawn[::-1], other[::-1]

    def _between(self, cuts: Floats, *worlds: World) -> list[Floats]:
        below, above = np.zeros((2, len(cuts))), np.zeros((2, len(cuts)))
        for mean in {float(mean) for means, _ in worlds for mean in means}:
            left, right = ndtr((cuts - mean) / self.scale), ndtr((mean - cuts) / self.scale)
            for index, (means, weights) in enumerate(worlds):
                weight = float(weights[means == mean].sum())
                if weight:
                    below[index] += weight * left
                    above[index] += weight * right
        return [from_tails(below[index], above[index]) for index in range(len(worlds))]

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        sign = 1.0 if direction == "forward" else -1.0
        cut = float(self.position(np.array([sign * epsilon]))[0])
        drawn, other = self.worlds[:: int(sign)]
        means = np.union1d(drawn[0], other[0])
        # Floored, so that an infinite epsilon has a delta of nothing and no NaN.
        logs = np.maximum(log_ndtr(sign * (means - cut) / self.scale), -1e300)
        top = float(logs.max())
        here, there = _weights(means, drawn), _weights(means, other)
        # P - e^eps Q as (P - Q) - (e^eps - 1) Q: parts that P and Q share drop out unrounded.
        differ = (here - there) * np.exp(logs - top)
        exponents = np.where(there > 0, logs - top + epsilon, -np.inf)
        raised = there * np.exp(np.minimum(exponents, 700.0)) * -math.expm1(-epsilon)
        # What may have been lost in rounding is added: the private side.
        lost = 1e-15 * max(1.0, abs(top)) * float(np.abs(differ).sum() + raised.sum())
        left = max(0.0, float(differ.sum() - raised.sum())) + lost
        return min(0.0, top + math.log(left)) if left > 0 else -math.inf

    def log_moments(self, thetas: Floats, direction: Direction) -> Floats:
        return log_moments(*self.worlds, self.scale, self.at, thetas, direction)

    def reach(self, log_tail: float, direction: Direction) -> tuple[float, float]:
        quantile = self.scale * float(ndtri_exp(log_tail))
        means = self.worlds[direction == "backward"][0]
        ends = self.at(np.array([means.min() + quantile, means.max() - quantile]))
        low, high = ends if direction == "forward" else -ends[::-1]
        return float(low), float(high)


@dataclass(frozen=True)
class SampledLoss(ShiftedLoss):
    """With probability q the record shifts the sum by one clipping norm."""

    sample_rate: float
    noise_multiplier: float

    @property
    def scale(self) -> float:  # type: ignore[override]
        """Width of every Gaussian."""
        return self.noise_multiplier

    @property
    def worlds(self) -> tuple[World, World]:
        """P shifts with probability q; Q never, unless the record is replaced."""
        weights = np.array([1 - self.sample_rate, self.sample_rate])
        absent = np.array([0.0]), np.array([1.0])
        replaced = np.array([0.0, -1.0]), weights
        return (np.array([0.0, 1.0]), weights), replaced if self.symmetric else absent

    def optimistic(self) -> Loss | None:
        """None where it stands for more noise, or a lower rate, than it has."""
        return self if _has_digits(self.noise_multiplier, self.sample_rate) else None


@dataclass(frozen=True)
class PoissonLoss(SampledLoss):
    """Poisson sampling, a record present or absent: (1-q) N(0, z^2) + q N(1, z^2), N(0, z^2)."""

    symmetric = False

    def at(self, positions: Floats) -> Floats:
        exponents = (2 * positions - 1) / (2 * self.noise_multiplier**2)
        return amplified(exponents, self.sample_rate)

    def position(self, losses: Floats) -> Floats:
        return self.noise_multiplier**2 * base(losses, self.sample_rate) + 0.5

    def largest(self, direction: Direction) -> float:
        certain = direction == "forward" or self.sample_rate == 1
        # A logarithm may be rounded down by its last digit.
        return math.inf if certain else -math.log1p(-self.sample_rate) * (1 + 4e-16)

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        q, mu = self.sample_rate, 1 / self.noise_multiplier
        if direction == "forward":
            return math.log(q) + gaussian.log_delta(float(base(np.array(epsilon), q)), mu)
        if epsilon >= self.largest(direction):
            return -math.inf
        left = -math.expm1(epsilon + math.log1p(-q)) if q < 1 else 1.0
        return math.log(left) + gaussian.log_delta(epsilon + math.log(q / left), mu)


@dataclass(frozen=True)
class PoissonReplaceLoss(SampledLoss):
    """Poisson sampling, a record replaced: (1-q) N(0, z^2) + q N(+1, z^2) against N(-1, z^2)."""

    symmetric = True

    def at(self, positions: Floats) -> Floats:
        variance, q = self.noise_multiplier**2, self.sample_rate
        right = amplified((2 * positions - 1) / (2 * variance), q)
        return right - amplified((-2 * positions - 1) / (2 * variance), q)

    def position(self, losses: Floats) -> Floats:
        """Root of A y^2 + B (1 - E) y - A E = 0, y = exp(x/z^2), for E = exp(|loss|) >= 1."""
        variance, q = self.noise_multiplier**2, self.sample_rate
        size = np.abs(losses)
        # Everything is divided by E: y/E = [g + sqrt(g^2 + 4 A^2 / E)] / (2A), g = B (1 - 1/E).
        rise = -(1 - q) * np.expm1(-size)
        touch = q * math.exp(-0.5 / variance)
        if touch == 0:  # so little noise that the two shifted parts never meet
            with np.errstate(divide="ignore"):
                far = size + np.log(rise) - math.log(q) + 0.5 / variance
        else:
            root = np.hypot(rise, 2 * touch * np.exp(-size / 2))
            far = size + np.log(rise + root) - math.log(2 * touch)
        return np.where(losses == 0, 0.0, np.sign(losses) * variance * np.maximum(far, 0.0))


@dataclass(frozen=True)
class FixedSizeLoss(Loss):
    """Batches of fixed size without replacement, a record replaced: the pair C_q(G_{2/z}).

    Another record may have the opposite gradient, so the Gaussian under it has sensitivity 2. The
    symmetrised pair (Dong, Roth & Su 2022, Theorem 4.2) is what composes; the worse of two
    one-sided pairs does not.
    """

    symmetric = True
    sample_rate: float
    noise_multiplier: float

    @property
    def most_mu(self) -> float:
        """In every batch, beside a record with the opposite gradient."""
        return 2 / self.noise_multiplier

    def optimistic(self) -> Loss | None:
        """As of Poisson sampling."""
        return self if _has_digits(self.noise_multiplier, self.sample_rate) else None

    def masses(self, edges: Floats, direction: Direction) -> tuple[Floats, Floats]:
        q, mu = self.sample_rate, 2 / self.noise_multiplier
        right = edges >= 0
        far = base(np.abs(edges), q) / mu
        near, out = far - mu / 2, far + mu / 2
        mixed_above = q * ndtr(-near) + (1 - q) * ndtr(-out)
        mixed_below = q * ndtr(near) + (1 - q) * ndtr(out)
        drawn = from_tails(
            np.where(right, mixed_below, ndtr(-out)), np.where(right, mixed_above, ndtr(out))
        )
        other = from_tails(
            np.where(right, ndtr(out), mixed_above), np.where(right, ndtr(-out), mixed_below)
        )
        return drawn, other

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        q = self.sample_rate
        lifted = float(base(np.array(epsilon), q))
        return math.log(q) + gaussian.log_delta(lifted, 2 / self.noise_multiplier)

    def log_moments(self, thetas: Floats, direction: Direction) -> Floats:
        q, mu = self.sample_rate, 2 / self.noise_multiplier
        mixture = (np.array([0.0, mu]), np.array([1 - q, q]))
        plain = (np.array([0.0]), np.array([1.0]))

        def at(positions: Floats) -> Floats:
            return amplified(mu * positions - mu * mu / 2, q)

        # Right of mu/2 the mixture plays P; mirrored on the left it plays Q; between, loss 0.
        parts = [
            log_moments(mixture, plain, 1.0, at, thetas, way, start=mu / 2, excess=True)
            for way in DIRECTIONS
        ]
        return np.logaddexp(0.0, np.logaddexp(*parts))

    def reach(self, log_tail: float, direction: Direction) -> tuple[float, float]:
        q, mu = self.sample_rate, 2 / self.noise_multiplier
        quantile = mu * float(ndtri_exp(log_tail))
        ends = np.array([-quantile - mu * mu / 2, mu * mu / 2 - quantile])
        low, high = amplified(np.maximum(ends, 0.0), q)
        return -float(low), float(high)


@dataclass(frozen=True)
class ApproximateLoss(Loss):
    """The worst (epsilon, delta)-DP mechanism: randomised response that sometimes tells all."""

    symmetric = True
    epsilon: float
    delta: float

    def optimistic(self) -> Loss | None:
        """A promise says how much is leaked at most, not at least."""
        return None

    def largest(self, direction: Direction) -> float:
        return math.inf if self.delta > 0 else self.epsilon

    def largest_finite(self, direction: Direction) -> float:
        return self.epsilon

    def masses(self, edges: Floats, direction: Direction) -> tuple[Floats, Floats]:
        likely = (1 - self.delta) / (1 + math.exp(-self.epsilon))
        drawn, other = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
        up = np.searchsorted(edges, self.epsilon)
        down = np.searchsorted(edges, -self.epsilon)
        drawn[up] += likely
        drawn[down] += likely * math.exp(-self.epsilon)
        other[up] += likely * math.exp(-self.epsilon)
        other[down] += likely
        drawn[-1] += self.delta
        other[0] += self.delta
        return drawn, other

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        if epsilon >= self.epsilon:
            return math.log(self.delta) if self.delta else -math.inf
        left = -math.expm1(epsilon - self.epsilon) / (1 + math.exp(-self.epsilon))
        return math.log(self.delta + (1 - self.delta) * left)

    def log_moments(self, thetas: Floats, direction: Direction) -> Floats:
        if self.delta > 0:
            return np.full(len(thetas), math.inf)
        up, down = thetas * self.epsilon, -(1 + thetas) * self.epsilon
        return np.logaddexp(up, down) - math.log1p(math.exp(-self.epsilon))

    def reach(self, log_tail: float, direction: Direction) -> tuple[float, float]:
        return -self.epsilon, self.epsilon


def _has_digits(noise: float, rate: float) -> bool:
    return noise < MOST_NOISE and rate > LEAST_RATE


def _weights(means: Floats, world: World) -> Floats:
    """A world's weight on each of these sorted means."""
    places = np.searchsorted(means, world[0])
    return np.asarray(np.bincount(places, weights=world[1], minlength=len(means)), dtype=np.float64)


def amplified(losses: Floats, rate: float) -> Floats:
    """ln(1 + q (e^loss - 1)): the loss of a mixture from the loss of its part."""
    if rate == 1:
        return losses
    small = np.log1p(rate * np.expm1(np.minimum(losses, 30.0)))
    # Above 30 the 1 subtracted from e^loss is lost in it, but the other 1 need not be: q is small.
    large = np.logaddexp(math.log1p(-rate), math.log(rate) + np.maximum(losses, 30.0))
    return np.where(losses > 30, large, small)


def base(losses: Floats, rate: float) -> Floats:
    """ln(1 + (e^loss - 1) / q), the inverse of `amplified`; -inf below ln(1 - q)."""
    if rate == 1:
        return losses
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inside = np.maximum(np.expm1(np.minimum(losses, 30.0)) / rate, -1.0)
        return np.where(losses > 30, losses - math.log(rate), np.log1p(inside))


def between(cuts: Floats) -> Floats:
    """Normal probability of (-inf, c0], (c0, c1], ..., (clast, inf)."""
    return from_tails(ndtr(cuts), ndtr(-cuts))


def from_tails(below: Floats, above: Floats) -> Floats:
    """Probabilities between cuts, each from the smaller tail, where digits are not lost."""
    middle = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
    return np.concatenate([below[:1], np.maximum(middle, 0.0), above[-1:]])
