"""Moments of the privacy loss of two Gaussian mixtures by quadrature: the moments accountant."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from sordino.types import Floats

MOST_PANELS = 512
"""Orders that need a longer stretch than this are left out (infinite): they never win."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def log_moments(
    upper: tuple[Floats, Floats],
    lower: tuple[Floats, Floats],
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
    for size in 2.0 ** np.arange(3, math.log2(MOST_PANELS) + 1):
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


def _log_density(x: Floats, world: tuple[Floats, Floats], scale: float) -> Floats:
    means, weights = world
    with np.errstate(divide="ignore"):
        logs = np.log(weights)[:, None]
    kernel = -((x - means[:, None]) ** 2) / (2 * scale**2) + logs
    return _log_sum(kernel.T) - math.log(scale) - 0.5 * math.log(2 * math.pi)


def _log_sum(values: Floats) -> Floats:
    """Ln of the sum of exponentials over the last axis (scipy's has a high cost a call)."""
    top = values.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(values - top).sum(axis=-1)) + top[..., 0], dtype=np.float64)


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
