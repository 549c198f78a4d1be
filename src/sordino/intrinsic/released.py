"""How far apart two datasets' RELEASED weights are: trained weights plus noise of a known size.

A release adds noise N(0, scale^2 I) to what SGD's own noise has spread already. If that is Gaussian
with covariance C, what tells two datasets apart is sqrt(m' (C + scale^2 I)^-1 m). C is measured
over seeds, and the added noise is known: it need not be drawn, and runs without it say more about
m than runs with it. As in `directional`, a direction is learned from some seeds and tested on the
others, so the result is a LOWER estimate; the larger the added noise, the less there is to learn,
and where it is all there is, the distance is ||m|| / scale.

Nothing here is a guarantee: m is that of the pairs tried.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sordino import _check
from sordino.intrinsic import directional, distances, spread
from sordino.intrinsic.directional import Directional, How
from sordino.intrinsic.interval import Interval

LEAST_SEEDS = 20
"""Of a cross-fitted estimate with 5 folds."""


def between(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    scale: float,
    *,
    stream: np.random.Generator,
    shared_seeds: bool = True,
    folds: int = 5,
    repeats: int = 4,
    draws: int = 200,
    level: float = 0.95,
) -> Directional:
    """Two given datasets: weights [seed, parameter] of each, before the noise of the release.

    With `scale` 0 it is `directional.between`; with more there is no `corrected`.

    Parameters
    ----------
    scale
        Standard deviation of the noise that the release adds to each weight.
    shared_seeds, folds, repeats, draws, level
        As for `directional.between`.
    """
    scale = _check.non_negative("scale", scale)
    if scale == 0:
        return directional.between(
            first,
            second,
            stream=stream,
            shared_seeds=shared_seeds,
            folds=folds,
            repeats=repeats,
            draws=draws,
            level=level,
        )
    W = np.stack([directional.rows("first", first), directional.rows("second", second, first)], 1)
    how = How(stream, folds, repeats, draws, level, scale**2)
    return directional.cross_fitted(W, lambda learn: (0, 1), how)


def worst_neighbour(
    weights: npt.ArrayLike,
    scale: float,
    *,
    stream: np.random.Generator,
    base: int = 0,
    folds: int = 5,
    repeats: int = 4,
    draws: int = 200,
    level: float = 0.95,
) -> Directional:
    """The dataset of a grid that is easiest to tell from the one in place `base`.

    Weights are [seed, neighbour, parameter]. As in `directional.worst_pair` the learning seeds
    choose the dataset as well; `pair` holds both places, the smaller first.
    """
    W = distances.grid(weights, neighbours=2)
    base = _check.index("base", base, W.shape[1])
    added = _check.non_negative("scale", scale) ** 2
    how = How(stream, folds, repeats, draws, level, added)
    return directional.cross_fitted(
        W, lambda learn: directional.furthest(W[learn], added=added, against=base), how
    )


def fixed(first: npt.ArrayLike, second: npt.ArrayLike, scale: float) -> float:
    """Of a training without any chance in it: the distance of its two results over `scale`.

    Infinite without noise, unless they are equal.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    gap = float(np.linalg.norm(_check.finite("difference", a - b)))
    if gap == 0:
        return 0.0
    scale = _check.non_negative("scale", scale)
    return gap / scale if scale > 0 else math.inf


def isotropic(
    weights: npt.ArrayLike,
    scale: float,
    *,
    stream: np.random.Generator,
    base: int | None = None,
) -> Interval:
    """The papers' way: the largest distance under one seed over sqrt(sigma_i^2 + scale^2).

    Of all pairs of the grid, or those with the dataset `base`. The interval is that of sigma_i
    alone (the least over datasets); a largest distance over pairs tried has none.
    """
    W = distances.grid(weights, seeds=2, neighbours=2)
    scale = _check.non_negative("scale", scale)
    furthest = distances.between_datasets(W, stream=stream, against=base).maximum
    sigma = spread.sigma(W, stream=stream)
    value, low, high = (
        _over(furthest, math.hypot(end, scale)) for end in (sigma.value, sigma.high, sigma.low)
    )
    return Interval(value, low, high, sigma.level)


def _over(distance: float, noise: float) -> float:
    """0 where neither seed nor record moved anything, and infinite where only a record did."""
    if distance == 0:
        return 0.0
    return distance / noise if noise > 0 else math.inf
