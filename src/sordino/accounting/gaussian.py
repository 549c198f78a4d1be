"""The Gaussian mechanism: exact profile, least noise, and the classical formula where it holds."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import erfcx, log_ndtr, ndtr

from sordino import checks
from sordino.errors import NotApplicable

_ROOT_2 = math.sqrt(2)


def log_delta(epsilon: float, mu: float) -> float:
    """Ln of dG(epsilon; mu) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

    The exact privacy profile of N(mu, 1) against N(0, 1), the same in both directions (Balle &
    Wang 2018, Theorem 8), for any real epsilon: -inf at mu = 0 and epsilon >= 0, 0 at mu = inf.
    """
    if math.isinf(mu) or epsilon == -math.inf:
        return 0.0
    if epsilon == math.inf or (mu == 0 and epsilon >= 0):
        return -math.inf
    if mu == 0:
        return math.log(-math.expm1(epsilon))
    u = epsilon / mu - mu / 2
    if u < -5:
        return _log_delta_left(epsilon, u, u + mu)
    # With erfcx the factor exp(-u^2/2), common to both terms, is taken out before subtracting.
    difference = _erfcx_drop(u / _ROOT_2, mu / _ROOT_2)
    if difference <= 0:
        return -math.inf
    return min(0.0, -u * u / 2 + math.log(difference) - math.log(2))


def _log_delta_left(epsilon: float, u: float, far: float) -> float:
    """`log_delta` far to the left, where Phi(-u) is all but 1 and hides no digits."""
    if far < 0:  # then epsilon < 0 as well
        first = float(log_ndtr(-u))
        return first + math.log(-math.expm1(epsilon + float(log_ndtr(-far)) - first))
    # e^epsilon Phi(-far), without e^epsilon: its exponent loses all digits where mu is huge.
    other = math.exp(-u * u / 2) * float(erfcx(far / _ROOT_2)) / 2
    return math.log1p(-(float(ndtr(u)) + other))


def _erfcx_drop(x: float, step: float) -> float:
    """erfcx(x) - erfcx(x + step), also where the two agree to most digits."""
    if step > 1e-4:
        return float(erfcx(x) - erfcx(x + step))
    middle = x + step / 2
    if middle > 50:  # the slope as a series, where the closed form below cancels
        small = 1 / middle / middle
        return step * small * (1 - 1.5 * small + 3.75 * small**2) / math.sqrt(math.pi)
    value = float(erfcx(middle))
    slope = 2 / math.sqrt(math.pi) - 2 * middle * value
    bend = 4 * slope * (1 + middle**2) - 4 * middle * value  # minus the third derivative
    return step * (slope + step**2 / 24 * bend)


def delta(epsilon: float, mu: float) -> float:
    """The delta of a mu-GDP release at `epsilon`: exact for the Gaussian mechanism."""
    return math.exp(log_delta(epsilon, mu))


def epsilon(mu: float, delta: float) -> float:
    """Least epsilon >= 0 of a mu-GDP release at `delta`, rounded up.

    Infinite where nothing finite holds: at mu = inf, and at delta = 0 with any mu > 0.
    """
    mu = checks.non_negative("mu", mu, allow_infinite=True)
    delta = checks.probability_below_one("delta", delta)
    if mu == 0:
        return 0.0
    if math.isinf(mu) or delta == 0:
        return math.inf
    target = math.log(delta)
    if log_delta(0.0, mu) <= target:
        return 0.0
    # Mironov's closed form is an upper bound, so the root lies below it.
    top = mu * mu / 2 + mu * math.sqrt(-2 * target)
    return least(lambda value: log_delta(value, mu) <= target, 0.0, top)


def sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Least standard deviation that makes a release (epsilon, delta)-DP, rounded up.

    Analytic Gaussian mechanism (Balle & Wang 2018), valid for every epsilon >= 0.
    """
    epsilon = checks.non_negative("epsilon", epsilon, allow_infinite=True)
    target = math.log(positive_delta(delta))
    sensitivity = checks.non_negative("sensitivity", sensitivity)
    if math.isinf(epsilon) or sensitivity == 0:
        return 0.0
    value = sensitivity * least_above_zero(lambda z: log_delta(epsilon, 1 / z) <= target, 1.0)
    while log_delta(epsilon, sensitivity / value) > target:  # the product was rounded down
        value = math.nextafter(value, math.inf)
    return value


def classical_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Delta sqrt(2 ln(1.25/delta)) / epsilon (Dwork & Roth 2014, Theorem A.1).

    Raises
    ------
    NotApplicable
        At epsilon >= 1, which the theorem does not cover; from epsilon about 8 on it is false.
    """
    epsilon = checks.positive("epsilon", epsilon)
    delta = positive_delta(delta)
    sensitivity = checks.non_negative("sensitivity", sensitivity)
    if epsilon >= 1:
        raise NotApplicable(
            f"The classical Gaussian formula holds for epsilon < 1 only, not {epsilon:.6g}; use "
            "the analytic one (sordino.accounting.gaussian.sigma)."
        )
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def least(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The least float in (low, high] where `holds`, up to rounding: the side that is proved.

    `holds` must be false below some point and true above it; `high` is returned if it is true
    nowhere lower.
    """
    return _halved(holds, low, high, 1e-14)[1]


def most(holds: Callable[[float], bool], low: float, high: float, tolerance: float) -> float:
    """The largest float in [low, high) where `holds`, which is true up to some point."""
    return _halved(lambda value: not holds(value), low, high, tolerance)[0]


def least_above_zero(holds: Callable[[float], bool], start: float) -> float:
    """`least` among all positive numbers, looked for from `start` on."""
    high = start
    while not holds(high):
        high *= 2
    low = high / 2
    while holds(low):
        high, low = low, low / 2
    return least(holds, low, high)


def _halved(
    holds: Callable[[float], bool], low: float, high: float, tolerance: float
) -> tuple[float, float]:
    while (middle := low + (high - low) / 2) not in (low, high):
        low, high = (low, middle) if holds(middle) else (middle, high)
        if high - low <= tolerance * high:
            break
    return low, high


def positive_delta(
    value: float, hint: str = "No Gaussian noise is (epsilon, 0)-DP; 1e-6 is usual."
) -> float:
    """Return `value` as a float if it is a delta above 0."""
    if (number := checks.probability_below_one("delta", value)) == 0:
        checks.fail("delta", value, "> 0", hint)
    return number
