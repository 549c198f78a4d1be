"""A referee: the exact delta of Poisson-sampled DP-SGD, by a method no accountant here uses.

The loss L of T steps has delta(epsilon) = E (1 - e^(epsilon - L))_+, and by Mellin's inversion

    delta(epsilon) = 1/(2 pi i) integral of M(s)^T e^(-epsilon s) / (s (s + 1)) ds,  Re s = theta,

for any theta > 0, where M(s) = E e^(s L) of one step, the record's world against the other. At the
saddle point theta nothing cancels, so a delta of 1e-12 keeps its digits; M comes from
Gauss-Legendre quadrature of the two densities. There is no grid of losses and no rounding of them.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, ndtr

Floats = npt.NDArray[np.float64]
Complexes = npt.NDArray[np.complex128]

MOST_POINTS = 20_000
"""Points on the contour, after which the referee gives up (few steps at a tiny rate)."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def exact_delta(noise: float, rate: float, steps: int, epsilon: float) -> float:
    """Exact delta for one record present against absent; NaN where the contour does not tell."""
    if rate == 1:
        return _gaussian_delta(math.sqrt(steps) / noise, epsilon)
    if steps == 1:  # an exact formula (docs/math.md 2.2)
        return rate * _gaussian_delta(1 / noise, math.log1p(math.expm1(epsilon) / rate))
    found = _by_inversion(_Step(noise, rate, steps), epsilon)
    return found if 0 <= found <= 1 else math.nan


def _gaussian_delta(mu: float, epsilon: float) -> float:
    lower = math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu)))
    return float(ndtr(mu / 2 - epsilon / mu)) - lower


class _Step:
    """Cumulant function of the composed loss, on the line Re s = theta."""

    def __init__(self, noise: float, rate: float, steps: int) -> None:
        self.noise, self.rate, self.steps = noise, rate, steps

    def cumulant(self, s: Complexes) -> Complexes:
        """T ln M(s), all s of one real part; M - 1 is integrated, for its small values' sake."""
        order = 1 + s[:, None]
        x, weights = self._nodes(1 + max(float(s[0].real), 0.0))
        exponent = (2 * x - 1) / (2 * self.noise**2)
        small = np.log1p(self.rate * np.expm1(np.minimum(exponent, 30.0)))
        loss = np.where(exponent > 30, exponent + math.log(self.rate), small)
        density = np.exp(-((x / self.noise) ** 2) / 2) / (self.noise * math.sqrt(2 * math.pi))
        power = order * loss
        series = power * (1 + power / 2 * (1 + power / 3 * (1 + power / 4)))
        with np.errstate(over="ignore", invalid="ignore"):
            grown = np.where(np.abs(power) < 1e-3, series, np.exp(power) - 1)
            excess = (grown - order * np.expm1(loss)) @ (weights * density)
        return np.asarray(self.steps * np.log1p(excess))

    def _nodes(self, order: float) -> tuple[Floats, Floats]:
        low, high = -14 * self.noise, order + 14 * self.noise
        panels = math.ceil((high - low) / min(self.noise, 2 * math.pi * self.noise**2) * 2)
        edges = np.linspace(low, high, panels + 1)
        half = (edges[1] - edges[0]) / 2
        x = (edges[:-1, None] + half * (1 + _NODES)).ravel()
        return x, np.tile(half * _WEIGHTS, panels)

    def real(self, theta: float) -> float:
        """The cumulant at a real tilt."""
        return float(self.cumulant(np.array([complex(theta)]))[0].real)


def _saddle(step: _Step, epsilon: float) -> float:
    """The tilt at which the integrand is least on the real line."""

    def height(log_theta: float) -> float:
        theta = math.exp(log_theta)
        value = step.real(theta) - epsilon * theta - log_theta - math.log1p(theta)
        return value if math.isfinite(value) else 1e300

    candidates = np.linspace(-6, 8, 57)
    best = int(np.argmin([height(value) for value in candidates]))
    around = candidates[max(best - 1, 0)], candidates[min(best + 1, len(candidates) - 1)]
    found = minimize_scalar(height, bounds=around, method="bounded", options={"xatol": 1e-3})
    return math.exp(float(found.x))


def _by_inversion(step: _Step, epsilon: float) -> float:
    theta = _saddle(step, epsilon)
    middle, nudge = step.real(theta), 1e-3 * theta
    curvature = (step.real(theta + nudge) - 2 * middle + step.real(theta - nudge)) / nudge**2
    # The trapezoid rule adds delta at epsilon +- 2 pi k / spacing, tilted: both sides negligible.
    spacing = min(2 * math.pi / (40 * math.sqrt(max(curvature, 1e-12))), theta / 12)
    total, done, block = 0.0, 0, 256
    while done < MOST_POINTS:
        s = theta + 1j * spacing * (np.arange(done, done + block) + 0.5)
        values = np.exp(step.cumulant(s) - epsilon * (s - theta) - middle) / (s * (s + 1))
        total += float(values.real.sum())
        done += block
        # What is left is at most the last value times the distance, for a decay of t^-2.
        if np.abs(values[-32:]).max() * done < 1e-6 * abs(total):
            return math.exp(middle - epsilon * theta) * total * spacing / math.pi
    return math.nan
