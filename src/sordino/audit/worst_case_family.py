"""The family DP-SGD(sample_rate, steps): one trade-off curve an epsilon, and observed curves.

A bound "within the family" takes for granted that the training is DP-SGD with these numbers and
Gaussian noise of some size, and asks for its size. World 0 is the dataset without the record, so
its test for presence has the profile's "forward" curve.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sordino import _check
from sordino.accounting import calibrate, subsampled
from sordino.accounting.profile import Profile, Which
from sordino.privacy import USUAL_DELTA, Relation
from sordino.types import Floats

GRID = np.geomspace(0.02, 40.0, 1526)
"""Epsilons a bound is looked for among: half a percent apart. Those above it are never computed."""


class Family:
    """Epsilon -> the profile of all iterates of DP-SGD with the least noise for (epsilon, delta).

    Calibrated by privacy loss distributions, once for each epsilon that is asked for.
    """

    def __init__(self, sample_rate: float, steps: int, delta: float = USUAL_DELTA) -> None:
        self.sample_rate = _check.fraction("sample_rate", sample_rate)
        self.steps = _check.whole("steps", steps, at_least=1)
        self.delta = _check.probability_below_one("delta", delta)
        if self.delta == 0:
            _check.fail("delta", delta, "> 0", "Gaussian noise has no guarantee at delta = 0.")
        ever = -math.expm1(self.steps * math.log1p(-self.sample_rate)) if sample_rate < 1 else 1.0
        if ever <= self.delta:
            hint = "Without any noise epsilon would be 0: there is nothing to audit."
            most = f"< {ever:.3g}, the chance that a record is drawn at all"
            _check.fail("delta", self.delta, most, hint)
        self._members: dict[float, tuple[float, Profile]] = {}

    @property
    def name(self) -> str:
        """For the text of an observation."""
        return f"DP-SGD(sample_rate={self.sample_rate:g}, steps={self.steps})"

    def __call__(self, epsilon: float) -> Profile:
        """The member that just keeps (epsilon, delta)."""
        return self._member(epsilon)[1]

    def noise(self, epsilon: float) -> float:
        """Its noise multiplier."""
        return self._member(epsilon)[0]

    def profile(self, noise_multiplier: float) -> Profile:
        """All iterates at this noise."""
        return subsampled.pld(
            noise_multiplier,
            self.sample_rate,
            self.steps,
            sampling="poisson",
            relation=Relation.ADD_OR_REMOVE_ONE,
        )

    def _member(self, epsilon: float) -> tuple[float, Profile]:
        epsilon = float(epsilon)
        if epsilon not in self._members:
            noise = calibrate.noise_multiplier(
                epsilon,
                self.delta,
                self.sample_rate,
                self.steps,
                sampling="poisson",
                relation=Relation.ADD_OR_REMOVE_ONE,
            )
            self._members[epsilon] = noise, self.profile(noise)
        return self._members[epsilon]


def tradeoff(profile: Profile, alphas: npt.ArrayLike, direction: Which = "forward") -> Floats:
    """Least false-negative rates at many false-positive rates (docs/math.md 6.3)."""
    flat = np.asarray(alphas, dtype=np.float64).ravel()
    return np.array([profile.beta(float(alpha), direction) for alpha in flat])


def error_rates(negative: Floats, positive: Floats) -> tuple[Floats, Floats]:
    """FPR and FNR at every score as threshold, thresholds falling: FPR rises from 0 (or more)."""
    thresholds = np.unique(np.concatenate([negative, positive]))[::-1]
    false_positives = len(negative) - np.searchsorted(np.sort(negative), thresholds)
    false_negatives = np.searchsorted(np.sort(positive), thresholds)
    return false_positives / len(negative), false_negatives / len(positive)


def lower_hull(alphas: Floats, betas: Floats) -> list[tuple[float, float]]:
    """Corners of the lower convex hull of these points.

    What lies above a convex curve is convex, so if some point is below the curve, a corner is.
    """
    order = np.lexsort((betas, alphas))
    hull: list[tuple[float, float]] = []
    for point in zip(alphas[order].tolist(), betas[order].tolist(), strict=True):
        if hull and hull[-1][0] == point[0]:  # same rate, more errors
            continue
        while len(hull) > 1 and _turn(hull[-2], hull[-1], point) <= 0:
            hull.pop()
        hull.append(point)
    return hull


def _turn(
    first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]
) -> float:
    """Above 0 if the way from the first point over the second to the third turns left."""
    ahead = second[0] - first[0], second[1] - first[1]
    further = third[0] - first[0], third[1] - first[1]
    return ahead[0] * further[1] - ahead[1] * further[0]
