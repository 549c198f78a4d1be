"""Upper bounds on an error rate at every threshold at once, with one level for all of them.

An envelope is a table: entry k bounds the rate at any threshold where k of n runs erred. With
probability 1 - level all of them hold together, so the best threshold may be picked afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, gammaln

from sordino.types import Floats, Ints

Method = Literal["dkw", "equal-precision"]

_SPACING = 0.5
"""Distance of the ranks that are bounded, in standard errors of a rank."""
_MOST_EXACT = 100_000
"""With more runs than this Bonferroni's inequality stands for the exact computation."""
_ROUNDING = 1e-8
"""More than all rounding errors of `stay_below`, in probability; its cuts err on the safe side."""
_REACH = 9.0
"""Poisson counts farther from their mean, in standard deviations, are left out: under 1e-16."""


def envelope(method: Method, runs: int, level: float) -> Floats:
    """The table of `method` for `runs` runs: entry k for k errors, k = 0..runs."""
    return _METHODS[method](runs, level)


def dkw(runs: int, level: float) -> Floats:
    """One width everywhere: k/n + sqrt(ln(1/level) / 2n).

    One-sided Dvoretzky-Kiefer-Wolfowitz with Massart's constant (1990), true for level <= 1/2.
    Best where the worlds differ in the middle, as Gaussian mechanisms of a small epsilon do.
    """
    width = math.sqrt(math.log(1 / level) / (2 * runs))
    return np.minimum(np.arange(runs + 1) / runs + width, 1.0)


@lru_cache(maxsize=16)
def equal_precision(runs: int, level: float) -> Floats:
    """Clopper-Pearson everywhere, at one smaller level that makes all of them true together.

    The k+1-th smallest of n uniform numbers lies below BetaInv(1 - g; k + 1, n - k) for all k
    with a probability that is computed exactly, and g is chosen by it (Berk & Jones 1979;
    Moscovich & Nadler 2017 for the computation). Best where the worlds differ in rare events.
    Between two of the ranks that are bounded the higher one's bound holds.
    """
    ranks = _ranks(runs, _SPACING if runs <= _MOST_EXACT else 4 * _SPACING)
    each = _level_of_each(ranks, runs, level)
    bounds = np.append(_beta_bounds(ranks, runs, each), 1.0)
    return np.asarray(bounds[np.searchsorted(ranks, np.arange(1, runs + 2))])


_METHODS: dict[str, Callable[[int, float], Floats]] = {
    "dkw": dkw,
    "equal-precision": equal_precision,
}
METHODS = tuple(_METHODS)


def stay_below(ranks: Ints, bounds: Floats, size: int) -> float:
    """Probability that the k-th smallest of `size` uniform numbers is <= its bound, for all k.

    That is: at every bound b_k at least k of the numbers lie below. Their count is that of a
    Poisson process of rate `size` conditioned on `size` points in all, so its law moves from bound
    to bound by convolution with a Poisson law, and loses what fell short.
    """
    law, least, before = np.ones(1), 0, 0.0
    for rank, bound in zip(ranks.tolist(), bounds.tolist(), strict=True):
        step, first = _poisson(size * (bound - before))
        law, least, before = np.convolve(law, step), least + first, bound
        if least < rank:
            law, least = law[rank - least :], rank
        most = min(size, math.ceil(size * bound + _REACH * math.sqrt(size * bound) + 40))
        law = law[: max(most - least + 1, 0)]
        if len(law) == 0:
            return 0.0
    missing = size - least - np.arange(len(law))
    last = _poisson_at(missing, size * (1 - before))
    return min(1.0, float(law @ last / _poisson_at(np.array([size]), size)[0]))


def _poisson(mean: float) -> tuple[Floats, int]:
    """Probabilities of a Poisson law from its first count that matters on, and that count."""
    if mean <= 0:
        return np.ones(1), 0
    reach = _REACH * math.sqrt(mean) + 40
    first = max(0, math.floor(mean - reach))
    return _poisson_at(np.arange(first, math.ceil(mean + reach) + 1), mean), first


def _poisson_at(counts: npt.NDArray[np.int64], mean: float) -> Floats:
    if mean <= 0:
        return np.where(counts == 0, 1.0, 0.0)
    return np.asarray(np.exp(counts * math.log(mean) - mean - gammaln(counts + 1.0)))


def _ranks(runs: int, spacing: float) -> Ints:
    def walk() -> Iterator[int]:
        rank = 1
        while rank <= runs:
            yield rank
            rank += max(1, int(spacing * math.sqrt(rank * (runs - rank) / runs)))

    return np.fromiter(walk(), dtype=np.int64)


def _beta_bounds(ranks: Ints, runs: int, level: float) -> Floats:
    return np.asarray(betainccinv(ranks, runs - ranks + 1.0, level))


def _level_of_each(ranks: Ints, runs: int, level: float) -> float:
    """The largest level of a single bound, to 1 %, with which all hold at `level`."""
    low, high = level / len(ranks), level  # the low end is Bonferroni's, true in any case
    while runs <= _MOST_EXACT and high > 1.01 * low:
        middle = math.sqrt(low * high)
        held = stay_below(ranks, _beta_bounds(ranks, runs, middle), runs)
        if 1 - held + _ROUNDING <= level:
            low = middle
        else:
            high = middle
    return low
