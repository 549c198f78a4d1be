"""The whole curve of errors at once, against the trade-off curves of a family of mechanisms.

At every threshold the two error rates have upper bounds that hold simultaneously (`envelope`), so
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

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from sordino import _check
from sordino.accounting import gaussian
from sordino.accounting.profile import GaussianProfile, Profile, Which
from sordino.audit.bounds import checked_scores, level_of, positive_delta
from sordino.audit.envelope import METHODS, Method, envelope
from sordino.privacy import Observation, Relation
from sordino.types import Floats

Family = Callable[[float], Profile]

_DIRECTIONS = ("forward", "backward", "both")
_CLOSE = 5e-3
"""A profile's 81 lines lie at most about this far below its curve."""
_REFINED = 24
"""Points at which the curve itself is asked, where its lines do not decide."""
_LEAST, _MOST = 0.01, 512.0
"""Epsilons between which the search goes where no interval is given."""
_NAMES = {"dkw": "DKW band", "equal-precision": "equal-precision (Berk-Jones) band"}


@dataclass(frozen=True)
class GaussianFamily:
    """The Gaussian mechanisms, each named by its epsilon at `delta`."""

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


def gaussian_family(delta: float) -> GaussianFamily:
    """The family to pass to `band`, with the same delta."""
    return GaussianFamily(delta)


def band(
    negative: npt.ArrayLike,
    positive: npt.ArrayLike,
    family: Family,
    *,
    delta: float,
    confidence: float,
    family_name: str,
    parameters: Sequence[float] | Floats | None = None,
    direction: Which = "both",
    attack: str = "",
    method: Method = "dkw",
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
    delta = _check.probability_below_one("delta", delta)
    _check.one_of("direction", direction, _DIRECTIONS)
    points = confident_points(negative, positive, confidence=confidence, method=method)
    named_right = False

    def refuted(epsilon: float) -> bool:
        nonlocal named_right
        profile = family(epsilon)
        named_right = named_right or _check_name(profile, epsilon, delta)
        return _violated(points, profile, direction)

    tolerance = _check.positive("tolerance", tolerance)
    found = _largest(refuted, _parameters(parameters), tolerance)
    said = f"simultaneous {_NAMES[method]} on both error curves, within the family {family_name}"
    return Observation(
        epsilon=found,
        delta=delta,
        confidence=confidence,
        attack=f"{attack}; {said}" if attack else said,
        trials=np.size(negative) + np.size(positive),
    )


def refutes(
    negative: npt.ArrayLike,
    positive: npt.ArrayLike,
    profile: Profile,
    *,
    confidence: float,
    direction: Which = "both",
    method: Method = "dkw",
) -> bool:
    """Whether the scores are too good for a mechanism that keeps the whole of `profile`.

    True for a mechanism that does keep it with probability at most 1 - confidence. No family is
    assumed.
    """
    _check.one_of("direction", direction, _DIRECTIONS)
    points = confident_points(negative, positive, confidence=confidence, method=method)
    return _violated(points, profile, direction)


def confident_points(
    negative: npt.ArrayLike,
    positive: npt.ArrayLike,
    *,
    confidence: float,
    method: Method = "dkw",
) -> tuple[Floats, Floats]:
    """Upper bounds on (false positive, false negative) rates, true together with `confidence`.

    One pair a threshold, rising in the first and falling in the second; pairs that another one
    beats in both are left out, and the curve between two of them is a staircase.
    """
    negative = checked_scores("negative", negative)
    positive = checked_scores("positive", positive)
    level = level_of(confidence)
    _check.one_of("method", method, METHODS)
    tables = [envelope(method, len(world), level / 2) for world in (negative, positive)]
    if tables[0][0] + tables[1][0] >= 1:
        hint = "A test without any error would not be noticed; take more."
        _check.fail(
            "runs",
            min(len(negative), len(positive)),
            f"to be enough runs a world for a band at confidence {confidence:.6g}",
            hint,
        )
    thresholds = np.unique(np.concatenate([negative, positive]))
    alpha = tables[0][len(negative) - np.searchsorted(np.sort(negative), thresholds)]
    beta = tables[1][np.searchsorted(np.sort(positive), thresholds)]
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
    margin = _on_lines(profile, alpha, direction) - beta
    if np.any(margin > 0):
        return True
    near = np.flatnonzero(margin > np.max(margin) - _CLOSE)
    for group in np.array_split(near, min(_REFINED, len(near))):
        best = group[np.argmax(margin[group])]
        if beta[best] < profile.beta(float(alpha[best]), direction):
            return True
    return False


def _on_lines(profile: Profile, alpha: Floats, direction: Which) -> Floats:
    highest = np.zeros(len(alpha))
    for log_slope, height in zip(*profile._lines(direction), strict=True):
        np.maximum(highest, height - math.exp(log_slope) * alpha, out=highest)
    return highest


def _largest(refuted: Callable[[float], bool], given: Floats | None, tolerance: float) -> float:
    if given is not None and len(given) > 2:
        return _largest_on_grid(refuted, given)
    low, high = _bracket(refuted) if given is None else (float(given[0]), float(given[1]))
    if given is not None and low > 0 and not refuted(low):
        return 0.0
    if low == high or (given is not None and refuted(high)):
        return high
    while high - low > tolerance * high and high > _LEAST:
        # Halving ratios, once both ends are above 0.
        middle = math.sqrt(low * high) if low > 0 else max(high / 8, _LEAST)
        low, high = (middle, high) if refuted(middle) else (low, middle)
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


def _largest_on_grid(refuted: Callable[[float], bool], grid: Floats) -> float:
    below, above = -1, len(grid)
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if refuted(float(grid[middle])) else (below, middle)
    return float(grid[below]) if below >= 0 else 0.0


def _parameters(given: Sequence[float] | Floats | None) -> Floats | None:
    if given is None:
        return None
    values = np.asarray(given, dtype=np.float64)
    rising = values.ndim == 1 and len(values) >= 2 and bool(np.all(np.diff(values) > 0))
    if not rising or not np.isfinite(values).all() or values[0] < 0:
        hint = "Pass (low, high), or a longer grid."
        _check.fail("parameters", given, "to be two or more rising epsilons >= 0", hint)
    return values


def _check_name(profile: Profile, epsilon: float, delta: float) -> bool:
    """True; a family whose members have another epsilon at delta would make the answer false."""
    actual = profile.epsilon(delta)
    if actual < 0.99 * epsilon:
        condition = f"to have epsilon {epsilon:.4g} at delta = {delta:.3g}"
        _check.fail("family(epsilon)", f"[epsilon {actual:.4g}]", condition, "Use one delta.")
    return True
