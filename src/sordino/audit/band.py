"""The whole curve of errors at once, against the trade-off curves of a family of mechanisms.

At every threshold the two error rates have upper bounds that hold simultaneously, so
the threshold need not be chosen beforehand and no run is spent on choosing it. A mechanism with
trade-off function f is refuted if at some threshold the false negatives are certainly fewer than f
allows at that many false positives.

Formal guarantee
----------------
If the mechanism belongs to the family with parameter epsilon, and the family leaks more as its
parameter grows, the bound exceeds epsilon with probability at most 1 - confidence. It says
nothing of mechanisms outside the family: that hypothesis is part of the text. `refutes` makes no
such assumption: it tests one claimed curve.

World 1 is the one with the record: direction "forward" tests for its presence. "both" is the
symmetric curve below the two, for worlds in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, gammaln, ndtr, ndtri

from sordino import checks
from sordino.accounting import gaussian
from sordino.accounting.profile import GaussianProfile, Profile, Which
from sordino.audit.bounds import by, error_counts, level_of, positive_delta, worlds
from sordino.privacy import Observation, Relation
from sordino.types import Floats, Ints

_Family = Callable[[float], Profile]
_Method = Literal["dkw", "equal-precision"]

_DIRECTIONS = ("forward", "backward", "both")
_LEAST, _MOST = 0.01, 512.0
"""Epsilons between which the search goes where no interval is given."""
_SPACING = 0.5
"""Distance of the ranks that are bounded, in standard errors of a rank."""
_MOST_EXACT = 100_000
"""With more runs than this Bonferroni's inequality stands for the exact computation."""
_REACH = 9.0
"""Poisson counts farther from their mean, in standard deviations, are left out: under 1e-16."""
_NAMES = {"dkw": "DKW band", "equal-precision": "equal-precision (Berk-Jones) band"}


@dataclass(frozen=True)
class GaussianFamily:
    """The Gaussian mechanisms, each named by its epsilon at the `delta` of `band`."""

    delta: float

    def __post_init__(self) -> None:
        positive_delta(self.delta)

    def __call__(self, epsilon: float) -> GaussianProfile:
        """The one that just keeps (epsilon, delta)."""
        noise = gaussian.sigma(epsilon, self.delta)
        return GaussianProfile(
            parameter=1 / noise if noise > 0 else math.inf,
            relation=Relation.REPLACE_ONE,
            theorem="exact profile of the Gaussian mechanism (Balle & Wang 2018)",
        )


def band(
    negative: npt.ArrayLike,
    positive: npt.ArrayLike,
    family: _Family,
    *,
    delta: float,
    confidence: float,
    family_name: str,
    parameters: Sequence[float] | Floats | None = None,
    direction: Which = "both",
    attack: str = "",
    method: _Method = "dkw",
    tolerance: float = 1e-3,
) -> Observation:
    """The largest epsilon of `family` that the two worlds' scores refute, by bisection.

    Parameters
    ----------
    negative, positive
        Scores of world 0 and of world 1.
    family
        From an epsilon to the profile with that epsilon at `delta`; it must leak more as epsilon
        grows. Called about 15 times.
    delta, confidence
        Of the statement.
    family_name
        The hypothesis, as it completes "within the family ...".
    parameters
        Two numbers: the interval to search; more: the grid to choose from; None: search from 1.
    direction
        Which of the profile's curves the worlds are held against.
    attack
        What gave the scores, for the observation's text.
    method
        "dkw" (one width everywhere) or "equal-precision" (narrow where errors are rare).
    tolerance
        How far below the largest refuted epsilon the answer may lie, relatively.
    """
    delta = checks.probability_below_one("delta", delta)
    checks.one_of("direction", direction, _DIRECTIONS)
    points = confident_points(negative, positive, confidence=confidence, method=method)
    named_right = False

    def refuted(epsilon: float) -> bool:
        nonlocal named_right
        profile = family(epsilon)
        # A family whose members have another epsilon at delta would make the answer false.
        if not named_right and (actual := profile.epsilon(delta)) < 0.99 * epsilon:
            checks.fail("family(epsilon)", f"[epsilon {actual:.4g}]", f"to have {epsilon:.4g}")
        named_right = True
        return _violated(points, profile, direction)

    tolerance = checks.positive("tolerance", tolerance)
    found = _largest(refuted, _parameters(parameters), tolerance)
    said = f"simultaneous {_NAMES[method]}, within the family {family_name}"
    trials = np.size(negative) + np.size(positive)
    return Observation(found, delta, confidence, by(attack, said), trials)


def refutes(
    negative: npt.ArrayLike,
    positive: npt.ArrayLike,
    profile: Profile,
    *,
    confidence: float,
    direction: Which = "both",
    method: _Method = "dkw",
) -> bool:
    """Whether the scores are too good for a mechanism that keeps the whole of `profile`.

    True for a mechanism that does keep it with probability at most 1 - confidence. No family is
    assumed.
    """
    checks.one_of("direction", direction, _DIRECTIONS)
    points = confident_points(negative, positive, confidence=confidence, method=method)
    return _violated(points, profile, direction)


def confident_points(
    negative: npt.ArrayLike, positive: npt.ArrayLike, *, confidence: float, method: _Method = "dkw"
) -> tuple[Floats, Floats]:
    """Upper bounds on (false positive, false negative) rates, true together with `confidence`.

    One pair a threshold, rising in the first and falling in the second; pairs that another one
    beats in both are left out, and the curve between two of them is a staircase.
    """
    negative, positive = worlds(negative, positive)
    level = level_of(confidence)
    checks.one_of("method", method, METHODS)
    tables = [METHODS[method](len(world), level / 2) for world in (negative, positive)]
    if tables[0][0] + tables[1][0] >= 1:
        fewest = min(len(negative), len(positive))
        checks.fail("runs", fewest, f"to be enough for a band at confidence {confidence:.6g}")
    thresholds = np.unique(np.concatenate([negative, positive]))
    errors = error_counts(negative, positive, thresholds)
    alpha, beta = (table[many] for table, many in zip(tables, errors, strict=True))
    # Thresholds rise, so the first with a given alpha has the least beta; then the same for beta.
    alpha, first = np.unique(alpha, return_index=True)
    beta, first = np.unique(beta[first], return_index=True)
    return alpha[first][::-1], beta[::-1]


def _violated(points: tuple[Floats, Floats], profile: Profile, direction: Which) -> bool:
    """Whether some point lies below the profile's trade-off function."""
    alpha, beta = points
    if profile.mu is not None:
        return bool(np.any(beta < ndtr(-ndtri(alpha) - profile.mu)))
    # Any line under the curve will do; the curve itself, asked point by point, is slower.
    highest = np.zeros(len(alpha))
    for log_slope, height in zip(*profile._lines(direction), strict=True):
        np.maximum(highest, height - math.exp(log_slope) * alpha, out=highest)
    margin = highest - beta
    if np.any(margin > 0):
        return True
    # A profile's 81 lines lie at most about this far below its curve.
    near = np.flatnonzero(margin > np.max(margin) - 5e-3)
    # At 24 points the curve itself is asked, where its lines do not decide.
    for group in np.array_split(near, min(24, len(near))):
        best = group[np.argmax(margin[group])]
        if beta[best] < profile.beta(float(alpha[best]), direction):
            return True
    return False


def _largest(refuted: Callable[[float], bool], given: Floats | None, tolerance: float) -> float:
    if given is not None and len(given) > 2:
        below, above = -1, len(given)
        while above - below > 1:
            middle = (below + above) // 2
            below, above = (middle, above) if refuted(float(given[middle])) else (below, middle)
        return float(given[below]) if below >= 0 else 0.0
    low, high = _bracket(refuted) if given is None else (float(given[0]), float(given[1]))
    if given is not None and low > 0 and not refuted(low):
        return 0.0
    if low == high or (given is not None and refuted(high)):
        return high
    while high - low > tolerance * high and high > _LEAST:
        # Halving ratios, once both ends are above 0.
        half = math.sqrt(low * high) if low > 0 else max(high / 8, _LEAST)
        low, high = (half, high) if refuted(half) else (low, half)
    return low


def _bracket(refuted: Callable[[float], bool]) -> tuple[float, float]:
    """A refuted epsilon (or 0), and one that is not; the two are equal at the ends of the range."""
    epsilon = 1.0
    if refuted(epsilon):
        while epsilon < _MOST:
            epsilon *= 2
            if not refuted(epsilon):
                return epsilon / 2, epsilon
        return epsilon, epsilon
    while epsilon > _LEAST:
        epsilon /= 2
        if refuted(epsilon):
            return epsilon, 2 * epsilon
    return 0.0, 0.0


def _parameters(given: Sequence[float] | Floats | None) -> Floats | None:
    if given is None:
        return None
    values = np.asarray(given, dtype=np.float64)
    rising = values.ndim == 1 and len(values) >= 2 and bool(np.all(np.diff(values) > 0))
    if not rising or not np.isfinite(values).all() or values[0] < 0:
        checks.fail("parameters", given, "to be two or more rising epsilons >= 0")
    return values


# Upper bounds on an error rate at every threshold at once, with one level for all of them. Entry k
# of a table bounds the rate at any threshold where k of n runs erred; with probability 1 - level
# all of them hold together, so the best threshold may be picked afterwards.


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

    def bounds(each: float) -> Floats:
        return np.asarray(betainccinv(ranks, runs - ranks + 1.0, each))

    # The largest level of a single bound, to 1 %, with which all hold; the low end is
    # Bonferroni's, true in any case.
    low, high = level / len(ranks), level
    while runs <= _MOST_EXACT and high > 1.01 * low:
        middle = math.sqrt(low * high)
        # 1e-8 is more than all rounding errors of `stay_below`; its cuts err on the safe side.
        holds = 1 - stay_below(ranks, bounds(middle), runs) + 1e-8 <= level
        low, high = (middle, high) if holds else (low, middle)
    table = np.append(bounds(low), 1.0)
    return np.asarray(table[np.searchsorted(ranks, np.arange(1, runs + 2))])


_Table = Callable[[int, float], Floats]
METHODS: dict[str, _Table] = {"dkw": dkw, "equal-precision": equal_precision}
"""Tables of n runs at a level: entry k for k errors, k = 0..n."""


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


def _poisson_at(counts: Ints, mean: float) -> Floats:
    if mean <= 0:
        return np.where(counts == 0, 1.0, 0.0)
    return np.asarray(np.exp(counts * math.log(mean) - mean - gammaln(counts + 1.0)))


def _ranks(runs: int, spacing: float) -> Ints:
    ranks = [1]
    while (rank := ranks[-1]) < runs:
        ranks.append(rank + max(1, int(spacing * math.sqrt(rank * (runs - rank) / runs))))
    return np.array([rank for rank in ranks if rank <= runs], dtype=np.int64)
