"""sigma_i, how widely SGD's seed spreads the weights, and how settled the measurements are.

Hyland & Tople, v2, Algorithm 2 (v1, Algorithm 1, is the same but for line 15):

    13: w_a <- 1/R sum_r w_r,a
    14: sigma_a <- stddev(flatten(w_r,a - w_a))
    15: sigma_i <- min_a sigma_a                    (v1: median_a)

so the variance is over R seeds times d weights, divided by R d (no "- 1" is said; numpy's stddev
has none): `variant="pooled"`, `ddof=0`. "We found that other choices for estimating an aggregate
sigma_i(D), such as computing a per-weight sigma_i(D)k and then averaging, or estimating the
variance of the norm of the weights, produced largely consistent results" (v2, footnote 2):
`"per-weight"` averages standard deviations of weights; `"norm"`, which the papers do not spell
out, is here the standard deviation of ||w_r,a|| over seeds. That is the noise along the weights
themselves: sigma if the noise is isotropic and small beside them.

None of them sees a direction in which the noise is small: `directional` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from sordino import checks
from sordino.intrinsic.distances import grid, largest_by_pair
from sordino.intrinsic.interval import Interval, checked_level, percentile
from sordino.types import Floats

Variant = Literal["pooled", "per-weight", "norm"]
Aggregate = Literal["minimum", "median"]
VARIANTS = ("pooled", "per-weight", "norm")
_AGGREGATES: dict[str, Callable[..., Any]] = {"minimum": np.min, "median": np.median}


def sigmas(weights: npt.ArrayLike, *, variant: Variant = "pooled", ddof: int = 0) -> Floats:
    """sigma_a of every dataset. `ddof=1` divides by R - 1, and is unbiased for the variance."""
    W = grid(weights, seeds=2)
    everyone = np.ones((1, W.shape[0]))
    return np.asarray(_Spread(W, variant).of(everyone, ddof)[0])


@dataclass(frozen=True)
class AcrossDatasets:
    """sigma_a over dataset instances (v2, Table 6)."""

    minimum: float
    median: float
    maximum: float
    datasets: int

    @property
    def relative(self) -> float:
        """(maximum - minimum) / minimum."""
        gap = self.maximum - self.minimum
        return gap / self.minimum if gap > 0 else 0.0


def across_datasets(weights: npt.ArrayLike, *, variant: Variant = "pooled") -> AcrossDatasets:
    """How much sigma_a depends on which neighbour it was measured on."""
    found = sigmas(weights, variant=variant)
    low, middle, high = (float(pick(found)) for pick in (np.min, np.median, np.max))
    return AcrossDatasets(low, middle, high, len(found))


def sigma(
    weights: npt.ArrayLike,
    *,
    stream: np.random.Generator,
    aggregate: Aggregate = "minimum",
    variant: Variant = "pooled",
    draws: int = 200,
    level: float = 0.95,
) -> Interval:
    """sigma_i with a bootstrap interval: v2's "minimum" over datasets, or v1's "median".

    Seeds are resampled, and for the median datasets too. A minimum over resampled datasets is never
    below the one seen, so for "minimum" the datasets stay, and the interval is for THEIR minimum.
    """
    W = grid(weights, seeds=2)
    checks.one_of("aggregate", aggregate, _AGGREGATES)
    draws = checks.whole("draws", draws, at_least=20)
    seeds, many = W.shape[:2]
    spread = _Spread(W, variant)
    value = float(_AGGREGATES[aggregate](spread.of(np.ones((1, seeds)))[0]))
    resampled = stream.multinomial(seeds, np.full(seeds, 1 / seeds), draws).astype(np.float64)
    # A resample's variance is (R - 1) / R of the sample's on average.
    found = spread.of(resampled) * np.sqrt(seeds / (seeds - 1))
    if aggregate == "median":
        columns = stream.integers(0, many, (draws, many))
        found = np.take_along_axis(found, columns, axis=1)
    return percentile(value, np.asarray(_AGGREGATES[aggregate](found, axis=1)), level)


@dataclass(frozen=True)
class SubsetCurve:
    """A statistic against how much was used to compute it: middle and band over subsets.

    The band holds `level` of all subsets of that size. It closes at the right end because there
    only one subset is left, not because the number is known there.
    """

    sizes: tuple[int, ...]
    middle: Floats
    low: Floats
    high: Floats
    level: float

    @property
    def last_doubling(self) -> float:
        """How much the second half added: the last value over the middle one at half the size."""
        half = float(np.interp(self.sizes[-1] / 2, self.sizes, self.middle))
        return float(self.middle[-1]) / half if half > 0 else float("nan")


def sensitivity_curve(
    weights: npt.ArrayLike, *, sizes: Sequence[int] | None = None, level: float = 0.9
) -> SubsetCurve:
    """The empirical sensitivity against the number of dataset comparisons (v2, Figures 7 and 9).

    A comparison is a pair of datasets, with the largest delta_S over all seeds. The band is exact:
    the largest of m out of P comparisons is at most the i-th smallest of all in C(i, m) of C(P, m)
    subsets. It takes the place of a bootstrap interval, which a maximum does not have.
    """
    table = largest_by_pair(weights)
    values = np.sort(table[np.triu_indices(len(table), 1)])
    many = len(values)
    checked = _sizes(sizes, 1, many)
    ranks = np.arange(1, many + 1)
    tail = (1 - checked_level(level)) / 2

    def quantiles(m: int) -> Floats:
        below = np.full(many, -np.inf)
        n = ranks[m - 1 :]
        log_choose = gammaln(n + 1.0) - gammaln(n - m + 1.0) - gammaln(m + 1.0)
        below[m - 1 :] = log_choose - log_choose[-1]
        wanted = np.log([tail, 0.5, 1 - tail]) - 1e-12
        return values[np.minimum(np.searchsorted(below, wanted), many - 1)]

    low, middle, high = np.array([quantiles(m) for m in checked]).T
    return SubsetCurve(checked, middle, low, high, level)


def sigma_curve(
    weights: npt.ArrayLike,
    *,
    stream: np.random.Generator,
    sizes: Sequence[int] | None = None,
    aggregate: Aggregate = "minimum",
    variant: Variant = "pooled",
    draws: int = 100,
    level: float = 0.9,
) -> SubsetCurve:
    """sigma_i against the number of seeds (v2, Figures 7 and 9), over random subsets of seeds."""
    W = grid(weights, seeds=3)
    checks.one_of("aggregate", aggregate, _AGGREGATES)
    draws = checks.whole("draws", draws, at_least=20)
    checked = _sizes(sizes, 2, W.shape[0])
    spread = _Spread(W, variant)
    tail = (1 - checked_level(level)) / 2
    bands = []
    for size in checked:
        order = np.argsort(stream.random((draws, W.shape[0])), axis=1)
        chosen = (order < size).astype(np.float64)
        found = _AGGREGATES[aggregate](spread.of(chosen), axis=1)
        bands.append(np.quantile(found, [tail, 0.5, 1 - tail]))
    low, middle, high = np.array(bands).T
    return SubsetCurve(checked, middle, low, high, level)


class _Spread:
    """sigma_a of many weightings of the seeds at once."""

    def __init__(self, W: Floats, variant: Variant) -> None:
        checks.one_of("variant", variant, VARIANTS)
        self.variant = variant
        if variant == "norm":
            W = np.linalg.norm(W, axis=2, keepdims=True)
        # Centred, so that the square of the mean cancels no digits.
        self.values = W - W.mean(axis=0)

    def of(self, multiplicities: Floats, ddof: int = 0) -> Floats:
        """[weighting, neighbour], for weightings [weighting, seed] of whole numbers."""
        seeds, many, parameters = self.values.shape
        flat = self.values.reshape(seeds, -1)
        squares = flat**2
        found = np.empty((len(multiplicities), many))
        step = max(1, 2 * 10**6 // flat.shape[1])
        for start in range(0, len(multiplicities), step):
            C = multiplicities[start : start + step]
            total = C.sum(axis=1, keepdims=True)
            variances = (C @ squares - (C @ flat) ** 2 / total) / (total - ddof)
            variances = np.maximum(variances, 0.0).reshape(-1, many, parameters)
            if self.variant == "per-weight":
                found[start : start + step] = np.sqrt(variances).mean(axis=2)
            else:
                found[start : start + step] = np.sqrt(variances.mean(axis=2))
        return found


def _sizes(sizes: Sequence[int] | None, least: int, most: int) -> tuple[int, ...]:
    if sizes is None:
        steps = np.unique(np.rint(np.geomspace(least, most, 30)).astype(int))
        return tuple(steps.tolist())
    for size in checks.sequence("sizes", sizes):
        if not least <= checks.whole("sizes", size) <= most:
            checks.fail("sizes", size, f"in {least}..{most}")
    return tuple(sorted(set(sizes)))
