"""From a Renyi-DP curve to (epsilon, delta): the three conversions, and which is least."""

from __future__ import annotations

import math

import numpy as np

from sordino.types import Floats

# Orders at which curves are evaluated. Dense where noise of ordinary size has its optimum (2 to
# 64), wide enough for one small step (1e5) and for epsilons in the hundreds (1.0001).
ORDERS: Floats = np.unique(
    np.concatenate(
        [
            1 + np.logspace(-4, -0.3, 38),
            np.linspace(1.5, 12, 106),
            np.linspace(12, 64, 53),
            np.logspace(np.log10(64), 5, 60),
        ]
    )
)


def mironov(order: Floats, rho: Floats, delta: float) -> Floats:
    """Epsilon by Mironov 2017, Proposition 3: rho + ln(1/delta) / (order - 1)."""
    return rho - math.log(delta) / (order - 1)


def canonne(order: Floats, rho: Floats, delta: float) -> Floats:
    """Epsilon by Canonne, Kamath & Steinke 2020, Proposition 12 (also Balle et al. 2020)."""
    return rho + np.log1p(-1 / order) - (math.log(delta) + np.log(order)) / (order - 1)


def asoodeh(order: Floats, rho: Floats, delta: float) -> Floats:
    """Epsilon by the second form of Asoodeh et al. 2020; the best where rho is small."""
    exponent = (order - 1) * rho
    with np.errstate(over="ignore"):
        inner = np.log1p(np.expm1(exponent) / (order * delta))
    # Where exp overflows the 1 is lost in it anyway.
    large = exponent - np.log(order * delta)
    return np.where(exponent > 600, large, inner) / (order - 1)


def epsilon(orders: Floats, rho: Floats, delta: float) -> float:
    """Least epsilon any conversion at any order proves for `delta`; at least 0."""
    good = np.isfinite(rho)
    if delta <= 0 or not good.any():
        return 0.0 if good.any() and rho[good].min() <= 0 else float("inf")
    order, value = orders[good], rho[good]
    best = np.minimum(canonne(order, value, delta), asoodeh(order, value, delta))
    return max(0.0, float(np.minimum(best, mironov(order, value, delta)).min()))


def log_delta(orders: Floats, rho: Floats, epsilon: float) -> float:
    """Ln of the least delta any conversion at any order proves for `epsilon` (of any sign)."""
    good = np.isfinite(rho)
    if not good.any():
        return 0.0
    order, value = orders[good], rho[good]
    theta = order - 1
    by_mironov = theta * (value - epsilon)
    by_canonne = by_mironov + theta * np.log1p(-1 / order) - np.log(order)
    best = float(np.minimum(by_mironov, by_canonne).min())
    if epsilon > 0:
        with np.errstate(over="ignore", divide="ignore"):
            top = np.where(theta * value > 600, theta * value, np.log(np.expm1(theta * value)))
            bottom = np.where(theta * epsilon > 600, theta * epsilon, _log_expm1(theta * epsilon))
        best = min(best, float((top - bottom - np.log(order)).min()))
    return min(0.0, best)


def _log_expm1(x: Floats) -> Floats:
    return np.log(np.expm1(np.minimum(x, 600)))
