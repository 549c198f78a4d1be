"""The epsilon that SGD's own noise would be worth, if it were Gaussian: estimates, all of them.

Two formulas stand beside each other, and every number says which it is by:

- the papers' epsilon_i = sqrt(2 ln(1.25/delta)) Delta / sigma (v2, equation 8; the algorithms
  print sqrt(2 ln(1.25)/delta), a slip their tables do not have). It is a theorem below epsilon = 1
  only, and false from about 8 on: for comparison with their tables;
- the exact epsilon of Gaussian noise (`accounting.gaussian`), the one to show.

Both take the noise for Gaussian, equally large in all directions and the same for every dataset,
and the sensitivity for known. None of that is proved, so neither number is a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri

from sordino import checks
from sordino.accounting import gaussian
from sordino.intrinsic.interval import Interval, applied
from sordino.privacy import Estimate, default_delta
from sordino.types import Floats

EXACT = "the exact Gaussian formula"
ISOTROPIC = "takes SGD's noise for Gaussian and equally large in all directions"
OBSERVED = "the sensitivity is the largest of the pairs tried, a lower estimate"


@dataclass(frozen=True)
class IntrinsicEpsilon:
    """epsilon_i (or epsilon_i*) by both formulas."""

    printed: Estimate
    exact: Estimate


def usual_delta(n: int, *, version: int = 2) -> float:
    """1 / n^2, as in v2, or v1's 1 / n (which would allow publishing a record at random)."""
    n = checks.whole("n", n, at_least=2)
    if version not in (1, 2):
        checks.fail("version", version, "to be 1 or 2", "They are the two versions of the paper.")
    return default_delta(n, exact=True) if version == 2 else 1 / n


def intrinsic_epsilon(
    sensitivity: float, sigma: float | Interval, delta: float, *, observed: bool
) -> IntrinsicEpsilon:
    """epsilon_i of a theoretical sensitivity, or epsilon_i* of an `observed` one.

    The interval is that of sigma. A maximum over the pairs tried has none (`interval.bootstrap`
    says why), so for an observed sensitivity the text says that it is left out; look at
    `spread.sensitivity_curve` instead.
    """
    caveat = f"{ISOTROPIC}; {OBSERVED}" if observed else ISOTROPIC
    distance = ratio(sensitivity, sigma)
    printed = "the papers' formula sqrt(2 ln(1.25/delta)) Delta / sigma"
    outside = f"{caveat}; the formula is a theorem for epsilon < 1 only"
    return IntrinsicEpsilon(
        _estimate(distance, delta, _classical, printed, outside),
        exact_epsilon(distance, delta, caveat=caveat),
    )


def exact_epsilon(
    distance: float | Interval, delta: float, *, caveat: str, method: str = EXACT
) -> Estimate:
    """The exact epsilon of two Gaussians `distance` standard deviations apart."""
    return _estimate(distance, delta, gaussian.epsilon, method, caveat)


def ratio(sensitivity: float, sigma: float | Interval) -> float | Interval:
    """Sensitivity / sigma: how many standard deviations apart. Infinite without any noise."""
    sensitivity = checks.non_negative("sensitivity", sensitivity)

    def over(sigma: float) -> float:
        if checks.non_negative("sigma", sigma) > 0:
            return sensitivity / sigma
        if sensitivity > 0:
            return math.inf
        return checks.fail("sigma", sigma, "> 0", "Nothing moved at all: neither seed nor record.")

    return applied(over, sigma)


@dataclass(frozen=True)
class PairwiseEpsilon:
    """What each pair of datasets would be worth: estimates by both formulas (v1, Figures 4, 7, 8).

    `printed` and `exact` are sorted like the distances they came from. They describe how uneven the
    pairs are; no quantile of them protects anybody, since a neighbour may be any pair.
    """

    printed: Floats
    exact: Floats
    delta: float
    caveat: str

    def quantile(self, q: float) -> Estimate:
        """The exact formula's value at the q-quantile of the pairs."""
        value = float(np.quantile(self.exact, q, method="inverted_cdf"))
        method = f"{EXACT}, {q:.3g}-quantile over pairs of datasets"
        return Estimate(value, self.delta, None, None, None, method, self.caveat)


def pairwise_epsilon(distances: npt.ArrayLike, sigma: float, delta: float) -> PairwiseEpsilon:
    """Epsilon of every delta_S, with one sigma for all.

    The exact formula is computed at 400 distances and interpolated (monotone cubic, to 1e-5).
    """
    values = np.sort(checks.finite("distances", np.atleast_1d(np.asarray(distances, float))))
    if values.size == 0 or values[0] < 0:
        checks.fail("distances", f"{values.size} values", "to be at least one, none below 0")
    if not 0 < delta < 1:
        checks.fail("delta", delta, "in (0, 1)", "At 0 every epsilon would be infinite.")
    mu = values / checks.positive("sigma", sigma, "Without noise every epsilon is infinite.")
    exact = np.zeros_like(mu)
    # Up to `start` epsilon is 0: the total variation 2 Phi(mu/2) - 1 is at most delta.
    start, top = 2 * float(ndtri((1 + delta) / 2)), float(mu[-1])
    if top > start:
        knots = np.unique(np.geomspace(start, top, 400).clip(start, top))
        curve = PchipInterpolator(knots, [gaussian.epsilon(float(knot), delta) for knot in knots])
        exact = np.asarray(np.where(mu > start, curve(mu.clip(start, top)), 0.0), np.float64)
    return PairwiseEpsilon(mu * _classical(1.0, delta), exact, delta, ISOTROPIC)


def _estimate(
    distance: float | Interval,
    delta: float,
    formula: Callable[[float, float], float],
    method: str,
    caveat: str,
) -> Estimate:
    # Both formulas grow with the distance, so an interval of one is an interval of the other. A
    # distance estimated without bias may come out below 0 where there is none.
    found = applied(lambda end: formula(max(end, 0.0), delta), distance)
    if not isinstance(found, Interval):
        return Estimate(found, delta, None, None, None, method, caveat)
    return Estimate(found.value, delta, found.low, found.high, found.level, method, caveat)


def _classical(distance: float, delta: float) -> float:
    delta = checks.probability_below_one("delta", delta)
    if distance == 0:
        return 0.0
    return math.inf if delta == 0 else distance * math.sqrt(2 * math.log(1.25 / delta))
