"""Estimates of epsilon, without any confidence, from the curve of a worst-case audit.

`paper_estimate` is Annamalai's Algorithm 2 as printed, `restricted_estimate` the same away from the
ends of the curve. Both look for the smallest epsilon of a grid whose trade-off curve no observed
point lies below, so they lean upwards: the luckiest threshold decides. `area_estimate` is ours, and
leans nowhere: the curve with the area that was observed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sordino import _check
from sordino.accounting.profile import Which
from sordino.audit.worst_case_family import Family, error_rates, lower_hull, tradeoff
from sordino.privacy import Estimate, NotApplicable
from sordino.types import Floats

PRINTED_GRID = np.round(np.arange(0.5, 20.05, 0.1), 10)
FINE_GRID = np.round(np.arange(0.01, 20.005, 0.01), 10)
INSIDE = (0.01, 0.99)
AREA_RATES = np.round(np.arange(0.01, 0.985, 0.03), 10)
"""False-positive rates at which curves are compared by area."""
_CAVEAT = "no confidence is attached, and the luckiest threshold decides"


def paper_estimate(
    negative: Floats, positive: Floats, family: Family, *, direction: Which = "both"
) -> Estimate:
    """Algorithm 2 as printed: every threshold, epsilons 0.5, 0.6, ..., 20. Infinite if none fits.

    Ill-posed. Wherever the largest score comes from D', the point (0, 1 - 1/runs) was observed, and
    it lies below every curve with f(0) = 1, which is every curve of Gaussian noise. So usually no
    epsilon fits; the paper's own numbers must come from a curve that was cut off near 0.

    Parameters
    ----------
    negative, positive
        Scores of runs without and with the record.
    family
        Whose curves are compared.
    direction
        The paper's curve is the symmetric one, "both".
    """
    points = error_rates(*_checked(negative, positive))
    epsilon = _smallest(lower_hull(*points), family, PRINTED_GRID, direction)
    caveat = _CAVEAT
    if math.isinf(epsilon):
        caveat += f"; no epsilon up to {PRINTED_GRID[-1]:g} fits all observed points"
    if points[0][0] == 0:
        first = f"(0, {points[1][points[0] == 0].min():.6g})"
        caveat += f"; the point {first} lies below every curve of Gaussian noise"
    return _estimate(epsilon, family, "Annamalai's Algorithm 2 as printed", caveat)


def restricted_estimate(
    negative: Floats,
    positive: Floats,
    family: Family,
    *,
    direction: Which = "both",
    grid: Floats = FINE_GRID,
) -> Estimate:
    """The same where FPR and FNR lie in [0.01, 0.99], by default on a grid of step 0.01 up to 20.

    It leans upwards. With the exact likelihood ratio of all iterates, sample rate 0.1, 100 steps
    and 5,000 + 5,000 runs its mean is 1.34, 1.17 and 1.09 times an epsilon of 1, 2 and 4 (over 80
    repeats); one repeat of 400,000 + 400,000 gave 1.02, 2.01 and 4.03.

    Raises
    ------
    NotApplicable
        If no threshold has such rates.
    """
    alphas, betas = error_rates(*_checked(negative, positive))
    low, high = INSIDE
    inside = (alphas >= low) & (alphas <= high) & (betas >= low) & (betas <= high)
    if not inside.any():
        raise NotApplicable(
            f"No threshold has both error rates in [{low}, {high}]; the worlds are too easily told "
            "apart for this estimate, or the runs too few."
        )
    hull = lower_hull(alphas[inside], betas[inside])
    epsilon = _smallest(hull, family, grid, direction)
    method = f"Annamalai's Algorithm 2 at thresholds with FPR and FNR in [{low}, {high}]"
    return _estimate(epsilon, family, method, _CAVEAT)


def area_estimate(
    negative: Floats,
    positive: Floats,
    family: Family,
    *,
    direction: Which = "forward",
    grid: Floats = FINE_GRID,
) -> Estimate:
    """The epsilon, by default of a grid of step 0.01, whose curve has the area of the observed one.

    Mean false-negative rates at false-positive rates 0.01, 0.04, ..., 0.97 are compared. Unlike the
    paper's rule it has no preferred side: half of all repeats lie below the truth.
    """
    alphas, betas = error_rates(*_checked(negative, positive))
    at = np.searchsorted(alphas, AREA_RATES, side="right") - 1
    observed = float(np.mean(np.where(at >= 0, betas[np.maximum(at, 0)], 1.0)))

    def fits(epsilon: float) -> bool:
        return float(np.mean(tradeoff(family(epsilon), AREA_RATES, direction))) <= observed

    epsilon = _first(fits, grid)
    caveat = "no confidence is attached"
    return _estimate(epsilon, family, "the trade-off curve with the observed area", caveat)


def _smallest(
    hull: list[tuple[float, float]], family: Family, grid: Floats, direction: Which
) -> float:
    """The first epsilon of the grid whose curve no point lies below."""

    def fits(epsilon: float) -> bool:
        profile = family(epsilon)
        return not any(beta < profile.beta(alpha, direction) for alpha, beta in hull)

    return _first(fits, grid)


def _first(fits: Callable[[float], bool], grid: Floats) -> float:
    """The first epsilon of the grid that fits, infinity if none; curves fall as epsilon grows."""
    bad, good = -1, 0  # doubling first: members with a large epsilon are seldom needed
    while not fits(float(grid[good])):
        if good == len(grid) - 1:
            return math.inf
        bad, good = good, min(2 * good + 8, len(grid) - 1)
    while good - bad > 1:
        middle = (good + bad) // 2
        bad, good = (bad, middle) if fits(float(grid[middle])) else (middle, good)
    return float(grid[good])


def _checked(negative: Floats, positive: Floats) -> tuple[Floats, Floats]:
    worlds = []
    for name, scores in (("negative", negative), ("positive", positive)):
        array = np.asarray(scores, dtype=np.float64)
        if array.ndim != 1 or len(array) == 0:
            _check.fail(name, f"array of shape {array.shape}", "to hold one score a run")
        worlds.append(_check.finite(name, array))
    return worlds[0], worlds[1]


def _estimate(epsilon: float, family: Family, method: str, caveat: str) -> Estimate:
    return Estimate(
        epsilon=epsilon,
        delta=family.delta,
        low=None,
        high=None,
        level=None,
        method=f"{method}, within {family.name}",
        caveat=caveat,
    )
