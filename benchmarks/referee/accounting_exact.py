"""A referee: exact deltas of sampled DP-SGD, by a method no accountant here uses.

The loss L of T steps has delta(epsilon) = E (1 - e^(epsilon - L))_+, and by Mellin's inversion

    delta(epsilon) = 1/(2 pi i) integral of M(s)^T e^(-epsilon s) / (s (s + 1)) ds,  Re s = theta,

for any theta > 0, where M(s) = E e^(s L) of one step, the record's world against the other. At the
saddle point theta nothing cancels, so a delta of 1e-12 keeps its digits; M comes from quadrature of
the two densities. There is no grid of losses and no rounding of them.

Few steps at little noise or a tiny rate have a loss that is nearly constant in most of the world,
and an integrand that hardly falls along the contour: there it is mute, and says NaN.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, log_ndtr, ndtr

Floats = npt.NDArray[np.float64]
Complexes = npt.NDArray[np.complex128]

MOST_POINTS = 20_000
"""Points on the contour, after which the referee gives up."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_FINENESS = 5
"""Points of the trapezoid rule in a deviation of the noise."""
_MOST_CELLS = 1 << 18
"""Of points on the contour and nodes of the quadrature that are in memory together."""


def exact_delta(
    noise: float,
    rate: float,
    steps: int,
    epsilon: float,
    *,
    records: int = 1,
    replaced: bool = False,
    backward: bool = False,
) -> float:
    """Exact delta of Poisson sampling, all of a person's records present against none.

    `replaced`: against as many others, each on the other side; `backward`: the two exchanged.
    NaN where the contour does not tell.
    """
    shift = records * (2 if replaced else 1)
    if rate == 1:
        return _gaussian_delta(shift * math.sqrt(steps) / noise, epsilon)
    if steps == records == 1 and not (replaced or backward):  # an exact formula (docs/math.md 2.2)
        return rate * _gaussian_delta(1 / noise, math.log1p(math.expm1(epsilon) / rate))
    return _by_inversion(_Step(noise, rate, steps, records, replaced, backward), epsilon)


def exact_allocation_delta(
    noise: float,
    steps_per_epoch: int,
    epochs: int,
    epsilon: float,
    *,
    replaced: bool = False,
    backward: bool = False,
) -> float:
    """Exact delta of random allocation to one step or two an epoch; more have too many axes."""
    if steps_per_epoch == 1:
        return _gaussian_delta((2 if replaced else 1) * math.sqrt(epochs) / noise, epsilon)
    return _by_inversion(_Epoch(noise, steps_per_epoch, epochs, replaced, backward), epsilon)


def _gaussian_delta(mu: float, epsilon: float) -> float:
    lower = math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu)))
    return float(ndtr(mu / 2 - epsilon / mu)) - lower


class _Pair(ABC):
    """Cumulant function of a composed loss, on the line Re s = theta."""

    largest = 8.0
    """Ln of the largest tilt that is tried."""
    highest = math.inf
    """How far up the contour the quadrature has digits."""

    def __init__(self, times: int, backward: bool) -> None:
        self.times, self.backward = times, backward

    @abstractmethod
    def nodes(self, order: float) -> tuple[Floats, Floats, Floats]:
        """Where the densities are taken for tilts up to this: ln of weights, and of p and q.

        Weights are those of noise alone, and p and q are relative to it.
        """

    def cumulant(self, s: Complexes) -> Complexes:
        """T ln M(s), all s of one real part; M - 1 is integrated, for its small values' sake."""
        weight, p, q = self.nodes(1 + max(float(s[0].real), 0.0))
        if self.backward:
            p, q = q, p
        most = max(1, _MOST_CELLS // len(p))
        parts = [self._excess(s[at : at + most], weight, p, q) for at in range(0, len(s), most)]
        with np.errstate(all="ignore"):  # far beyond the saddle, far out on the contour
            return np.asarray(self.times * np.log1p(np.concatenate(parts)))

    @staticmethod
    def _excess(s: Complexes, weight: Floats, p: Floats, q: Floats) -> Complexes:
        """M(s) - 1: p and q have mean 1, so that what is linear in them may be left out."""
        s = s[:, None]
        power = (1 + s) * p - s * q
        is_small = np.abs(power) < 1e-3
        low = np.where(is_small, power, 0.0)
        series = low * (1 + low / 2 * (1 + low / 3 * (1 + low / 4)))
        mass = np.exp(weight)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            grown = np.where(is_small, series * mass, np.exp(power + weight) - mass)
            up, down = (  # p - 1 and q - 1, without an overflow where they count for nothing
                np.where(
                    each < 1, np.expm1(np.minimum(each, 1)) * mass, np.exp(each + weight) - mass
                )
                for each in (p, q)
            )
            return np.asarray((grown - (1 + s) * up + s * down).sum(axis=1))

    def real(self, theta: float) -> float:
        """The cumulant at a real tilt."""
        return float(self.cumulant(np.array([complex(theta)]))[0].real)


class _Step(_Pair):
    """One step: a person's records are each in the batch or not."""

    def __init__(
        self, noise: float, rate: float, steps: int, records: int, replaced: bool, backward: bool
    ) -> None:
        super().__init__(steps, backward)
        self.noise, self.replaced = noise, replaced
        self.drawn = np.arange(records + 1.0)
        ways = gammaln(records + 1) - gammaln(self.drawn + 1) - gammaln(records - self.drawn + 1)
        self.log_share = ways + self.drawn * math.log(rate)
        self.log_share += (records - self.drawn) * math.log1p(-rate)

    def nodes(self, order: float) -> tuple[Floats, Floats, Floats]:
        """Gauss-Legendre panels, narrower than the noise and than what the loss turns in."""
        z, records = self.noise, self.drawn[-1]
        reach = (2 * order if self.replaced else order) * records
        low = reach if self.replaced and self.backward else 0.0
        low, high = -low - 14 * z, (0.0 if low else reach) + 14 * z
        panels = math.ceil((high - low) / min(z, 2 * math.pi * z * z / records) * 2)
        edges = np.linspace(low, high, panels + 1)
        half = (edges[1] - edges[0]) / 2
        x = (edges[:-1, None] + half * (1 + _NODES)).ravel()
        weight = np.log(np.tile(half * _WEIGHTS, panels)) - (x / z) ** 2 / 2
        weight -= math.log(z * math.sqrt(2 * math.pi))
        return weight, self._mixed(x), self._mixed(-x) if self.replaced else np.zeros(len(x))

    def _mixed(self, x: Floats) -> Floats:
        """Ln of the mixture over noise alone; near 0 without the rounding of a sum of shares."""
        exponents = self.drawn[:, None] * (2 * x - self.drawn[:, None]) / (2 * self.noise**2)
        share = np.exp(self.log_share)
        near = np.log1p(share @ np.expm1(np.minimum(exponents, 30.0)))
        far = np.logaddexp.reduce(exponents + self.log_share[:, None])
        return np.asarray(np.where(exponents.max(axis=0) > 30, far, near))


class _Epoch(_Pair):
    """One epoch of few steps: noise on as many axes, the record's mean on one of them."""

    largest = 4.0

    def __init__(
        self, noise: float, steps: int, epochs: int, replaced: bool, backward: bool
    ) -> None:
        super().__init__(epochs, backward)
        self.noise, self.steps, self.replaced = noise, steps, replaced
        # Half the frequency at which the rule's points repeat; each loss is steep as 1 / noise^2.
        self.highest = math.pi * _FINENESS * noise / (2 if replaced else 1)

    def nodes(self, order: float) -> tuple[Floats, Floats, Floats]:
        """The trapezoid rule, which has all digits where an integrand is a shifted Gaussian."""
        z, spacing = self.noise, self.noise / _FINENESS
        high = (2 * order if self.replaced else order) + 9 * z
        low = -high if self.replaced else -9 * z
        axis = np.arange(low, high, spacing)
        weight = np.log(spacing / (z * math.sqrt(2 * math.pi))) - (axis / z) ** 2 / 2
        every = np.meshgrid(*[axis] * self.steps, indexing="ij")
        weights = sum(np.meshgrid(*[weight] * self.steps, indexing="ij")).ravel()
        found = []
        for sign in (1, -1):
            logs = [((sign * x - 0.5) / z**2).ravel() for x in every]
            found.append(np.logaddexp.reduce(logs) - math.log(self.steps))
        kept = weights + order * found[0] + (order * found[1] if self.replaced else 0.0) > -90
        p, q = (each[kept] for each in found)
        return weights[kept], p, q if self.replaced else np.zeros(len(p))


def _saddle(step: _Pair, epsilon: float) -> float:
    """The tilt at which the integrand is least on the real line."""

    def height(log_theta: float) -> float:
        theta = math.exp(log_theta)
        value = step.real(theta) - epsilon * theta - log_theta - math.log1p(theta)
        return value if math.isfinite(value) else 1e300

    candidates = np.arange(-6.0, step.largest + 0.1, 0.25)
    best = int(np.argmin([height(value) for value in candidates]))
    around = candidates[max(best - 1, 0)], candidates[min(best + 1, len(candidates) - 1)]
    found = minimize_scalar(height, bounds=around, method="bounded", options={"xatol": 1e-3})
    return math.exp(float(found.x))


def _by_inversion(step: _Pair, epsilon: float) -> float:
    theta = _saddle(step, epsilon)
    middle, nudge = step.real(theta), 1e-3 * theta
    curvature = (step.real(theta + nudge) - 2 * middle + step.real(theta - nudge)) / nudge**2
    # The trapezoid rule adds delta at epsilon +- 2 pi k / spacing, tilted: both sides negligible.
    spacing = min(2 * math.pi / (40 * math.sqrt(max(curvature, 1e-12))), theta / 12)
    total, done, block = 0.0, 0, 64
    while done < MOST_POINTS and done * spacing < step.highest:
        s = theta + 1j * spacing * (np.arange(done, done + block) + 0.5)
        values = np.exp(step.cumulant(s) - epsilon * (s - theta) - middle) / (s * (s + 1))
        total += float(values.real.sum())
        done += block
        # What is left is at most the last value times the distance, for a decay of t^-2.
        if np.abs(values[-32:]).max() * done < 1e-6 * abs(total):
            found = math.exp(middle - epsilon * theta) * total * spacing / math.pi
            return found if 0 <= found <= 1 else math.nan
    return math.nan
