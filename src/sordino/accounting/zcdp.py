"""Zero-concentrated DP: one number rho that adds up, also over adaptively chosen releases.

A release is rho-zCDP if its Renyi divergence of every order a > 1 is at most rho a, in both
directions, and (xi, rho)-zCDP if it is at most xi + rho a (Bun & Steinke 2016). Costs of the
Gaussian and the exponential mechanism, a budget filter, and the way back to (epsilon, delta).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sordino import checks
from sordino.accounting import gaussian, renyi
from sordino.accounting.last_iterate.shifted import ratio
from sordino.accounting.pld.loss import ApproximateLoss, Direction
from sordino.accounting.pld.numerics import golden_section
from sordino.accounting.profile import Profile
from sordino.errors import NotApplicable
from sordino.privacy import Relation
from sordino.types import Floats


@dataclass(frozen=True, kw_only=True)
class ConcentratedProfile(Profile):
    """(xi, rho)-zCDP and nothing more: the least of three conversions at the best order.

    A Gaussian release has a `GaussianProfile`, which is exact; this costs 6 to 10 % of epsilon.
    With rho = 0 every order has the bound xi, which is pure DP of epsilon = xi.
    """

    rho: float
    xi: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rho", "xi"):
            value = checks.non_negative(name, getattr(self, name), allow_infinite=True)
            object.__setattr__(self, name, value)

    def renyi(self, orders: Floats) -> Floats:
        """The line xi + rho times the order."""
        return np.asarray(self.xi + np.asarray(orders, dtype=np.float64) * self.rho)

    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        if math.isinf(self.rho) or math.isinf(self.xi):
            return 0.0
        if epsilon == math.inf:
            return -math.inf
        if self.rho == 0:
            return ApproximateLoss(self.xi, 0.0).log_delta(epsilon, direction)

        def at(order: Floats) -> float:
            return renyi.log_delta(order, self.renyi(order), epsilon)

        # The Gaussian of this rho has loss N(rho, 2 rho): its tilt to epsilon.
        guess = max(epsilon - self.xi - self.rho, math.sqrt(self.rho)) / (2 * self.rho)
        return min(0.0, _least_over_orders(at, _nearer(at, guess) if self.xi else guess))

    def _epsilon_one_way(self, log_delta: float, direction: Direction) -> float:
        if self.rho == 0 and math.isfinite(self.xi):
            return min(self.xi, super()._epsilon_one_way(log_delta, direction))
        return _epsilon(self.rho, math.exp(log_delta), renyi.epsilon, self.xi)


def concentrated(*, rho: float, relation: Relation, theorem: str = "zCDP") -> ConcentratedProfile:
    """The profile of a rho-zCDP release, or of several whose rho add up to this."""
    return ConcentratedProfile(rho=rho, relation=relation, theorem=theorem)


def canonne_epsilon(rho: float, delta: float) -> float:
    """Least epsilon of rho-zCDP at `delta` by Canonne, Kamath & Steinke 2020, Proposition 12.

    >>> round(canonne_epsilon(rho=0.1, delta=1e-6), 4)
    2.1419
    """

    def convert(orders: Floats, values: Floats, delta: float) -> float:
        return float(renyi.canonne(orders, values, delta).min())

    return _epsilon(
        checks.non_negative("rho", rho, allow_infinite=True),
        checks.probability_below_one("delta", delta),
        convert,
    )


def bun_steinke(rho: float, delta: float) -> float:
    """Epsilon = rho + 2 sqrt(rho ln(1/delta)), Bun & Steinke 2016, Proposition 1.3: never less."""
    rho = checks.non_negative("rho", rho, allow_infinite=True)
    delta = checks.probability_below_one("delta", delta)
    if rho == 0:
        return 0.0
    return rho + 2 * math.sqrt(-rho * math.log(delta)) if delta > 0 else math.inf


def rho(epsilon: float, delta: float) -> float:
    """The largest rho whose profile proves (epsilon, delta), rounded down."""
    epsilon = checks.positive("epsilon", epsilon, allow_infinite=True)
    delta = gaussian.positive_delta(delta, "rho-zCDP proves nothing at 0; 1e-6 is usual.")
    if math.isinf(epsilon):
        return math.inf

    def proves(value: float) -> bool:
        return _epsilon(value, delta, renyi.epsilon) <= epsilon

    low = high = (math.sqrt(epsilon - math.log(delta)) - math.sqrt(-math.log(delta))) ** 2
    while not proves(low):
        low /= 2
    while proves(high):
        low, high = high, 2 * high
    return gaussian.most(proves, low, high, 1e-13)


def _epsilon(
    rho: float,
    delta: float,
    convert: Callable[[Floats, Floats, float], float],
    xi: float = 0.0,
) -> float:
    """Least epsilon over all orders; `convert` takes orders, Renyi values and delta."""
    if rho == 0 and xi == 0:
        return 0.0
    if math.isinf(rho) or math.isinf(xi) or delta == 0:
        return math.inf
    guess = math.sqrt(-math.log(delta) / rho) + 1e-6

    def at(order: Floats) -> float:
        return convert(order, xi + order * rho, delta)

    return max(0.0, _least_over_orders(at, _nearer(at, guess) if xi else guess))


def _nearer(at: Callable[[Floats], float], guess: float) -> float:
    """A better guess, from far and wide: the formula's is that of the Gaussian, with xi = 0."""
    tilts: list[float] = [guess, *(renyi.ORDERS[::6] - 1).tolist()]
    return min(tilts, key=lambda tilt: at(np.array([1 + tilt])))


def _least_over_orders(at: Callable[[Floats], float], guess: float) -> float:
    """Least value over orders a > 1 near a - 1 = guess: a grid, then golden section around it.

    The grid reaches a factor of 40 either way.
    `at` takes an array of orders and gives the least over them; every order is a proof.
    """

    def value(log_tilt: float) -> float:
        return at(np.array([1 + math.exp(log_tilt)]))

    centre, reach = math.log(guess), math.log(40.0)
    grid = np.linspace(centre - reach, centre + reach, 25)
    values = [value(float(point)) for point in grid]
    best = int(np.argmin(values))
    low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])
    return min(values[best], golden_section(value, low, high, 40))


class Filter:
    """A zCDP budget from which adaptively chosen releases may be paid, one by one.

    Ask before each draw; a release is made only if its rho, which may depend on everything released
    so far, still fits. All of them together are then `total`-zCDP: the Renyi filter of Feldman &
    Zrnic 2021 holds at every order a, with the budget a total. Sums are exact, in fractions:
    rounding never overspends.

    Parameters
    ----------
    total
        The budget rho, fixed in advance.
    """

    def __init__(self, total: float) -> None:
        self.total = checks.non_negative("total", total)
        self._spent = Fraction(0)

    @property
    def spent(self) -> float:
        """What has been spent, rounded up, but never above the total."""
        value = float(self._spent)
        return value if Fraction(value) >= self._spent else math.nextafter(value, math.inf)

    @property
    def left(self) -> float:
        """What can still be spent at once, rounded down."""
        exact = Fraction(self.total) - self._spent
        value = float(exact)
        return value if Fraction(value) <= exact else math.nextafter(value, 0.0)

    def can_spend(self, rho: float) -> bool:
        """Whether a release of this cost still fits."""
        return self._spent + Fraction(checks.non_negative("rho", rho)) <= Fraction(self.total)

    def spend(self, rho: float) -> None:
        """Pay for one release, before it is drawn.

        Raises
        ------
        NotApplicable
            If it does not fit; nothing is spent then.
        """
        if not self.can_spend(rho):
            raise NotApplicable(
                f"A release of rho = {rho:.6g} needs more than the {self.left:.6g} that is left "
                f"of the zCDP filter's {self.total:.6g}; stop here, or add more noise."
            )
        self._spent += Fraction(float(rho))


def gaussian_cost(sensitivity: float, sigma: float) -> float:
    """Rho = Delta^2 / (2 sigma^2) of N(0, sigma^2 I) on a sum of L2 sensitivity Delta."""
    sensitivity = checks.non_negative("sensitivity", sensitivity)
    sigma = checks.non_negative("sigma", sigma)
    return ratio(sensitivity, sigma) ** 2 / 2


def gaussian_scale(sensitivity: float, rho: float) -> float:
    """The least sigma of cost `rho`, Delta / sqrt(2 rho), rounded up."""
    sensitivity = checks.non_negative("sensitivity", sensitivity)
    rho = checks.positive("rho", rho)
    sigma = sensitivity / math.sqrt(2 * rho)
    while gaussian_cost(sensitivity, sigma) > rho:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def exponential_cost(span: float) -> float:
    """Rho = r^2 / 8 of a choice whose log-probabilities change within an interval of length r.

    The exponential mechanism, p proportional to exp(-score / t), which is the least of score / t
    plus Gumbel noise: r = span of the scores' changes over t. Bounded range r implies r^2/8-zCDP
    (Cesar & Rogers 2021, by Dong, Durfee & Rogers 2020). Report-noisy-min with other noise does
    not have it.

    Parameters
    ----------
    span
        r: the largest minus the least change of score / t over the candidates, for the worst pair
        of neighbours.
    """
    return checks.non_negative("span", span, allow_infinite=True) ** 2 / 8


def exponential_temperature(span: float, rho: float) -> float:
    """The least temperature t of cost `rho`, span / sqrt(8 rho), rounded up.

    Parameters
    ----------
    span
        The largest minus the least change of the scores over the candidates: B where a record of
        scores in an interval of length B comes or goes, 2B where it is replaced.
    rho
        What the choice may cost.
    """
    span = checks.non_negative("span", span)
    rho = checks.positive("rho", rho)
    temperature = span / math.sqrt(8 * rho)
    while exponential_cost(ratio(span, temperature)) > rho:
        temperature = math.nextafter(temperature, math.inf)
    return temperature
