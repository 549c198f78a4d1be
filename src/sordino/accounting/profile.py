"""`Profile`: everything an attacker can gain from one release, as one curve.

`delta(epsilon)` for every epsilon, and what follows from it: `epsilon(delta)`, the trade-off
`beta(alpha)` between the errors of a test for membership, and its best `advantage()`. Every number
is an upper bound on what the release leaks, in both directions of the neighbouring pair.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
from scipy.special import ndtr, ndtri

from sordino import checks
from sordino.accounting import gaussian, renyi
from sordino.accounting.pld.convolution import Limit
from sordino.accounting.pld.curve import DeltaCurve
from sordino.accounting.pld.loss import DIRECTIONS, ApproximateLoss, Direction, GaussianLoss, Loss
from sordino.accounting.pld.numerics import golden_section
from sordino.accounting.pld.person import MixtureLoss
from sordino.accounting.risk import Risks
from sordino.privacy import Relation
from sordino.types import Floats

Which = Literal["forward", "backward", "both"]
Components = tuple[tuple[Loss, int], ...]


@dataclass(frozen=True, kw_only=True)
class Profile(ABC):
    """An upper bound on what one release tells about one record.

    "forward" is the world with the record against the world without it, "backward" the reverse;
    "both", the default everywhere, is the worse of the two, which is what (epsilon, delta)-DP asks.

    Parameters
    ----------
    relation
        What counts as a neighbouring dataset; profiles of different relations do not compose.
    theorem
        The statement that proves it.
    notes
        What the reader must know of how it was computed: a fallback, a rule of composition.
    """

    relation: Relation
    theorem: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.relation, Relation):
            checks.fail("relation", self.relation, "to be a Relation")

    @abstractmethod
    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        """Ln of an upper bound on the hockey-stick divergence at e^epsilon, epsilon >= 0."""

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter, if this is exactly such a profile."""
        return None

    @property
    def losses(self) -> Components | None:
        """Laws of privacy loss with their counts, if this has a dominating pair."""
        return None

    def renyi(self, orders: Floats) -> Floats | None:
        """Renyi-DP at these orders > 1, the worse direction; None if there is no such bound."""
        return None

    def log_delta(self, epsilon: float, direction: Which = "both") -> float:
        """Ln of `delta`, for the very small ones."""
        if epsilon != -math.inf:
            size = checks.non_negative("epsilon", abs(epsilon), allow_infinite=True)
            epsilon = math.copysign(size, epsilon)
        checks.one_of("direction", direction, (*DIRECTIONS, "both"))
        if direction == "both":
            return max(self.log_delta(epsilon, way) for way in DIRECTIONS)
        if epsilon >= 0:
            return self.log_delta_one_way(epsilon, direction)
        # E_{e^eps}(P||Q) = 1 - e^eps + e^eps E_{e^-eps}(Q||P).
        other: Direction = "backward" if direction == "forward" else "forward"
        reverse = math.exp(epsilon + self.log_delta_one_way(-epsilon, other))
        return math.log(min(1.0, -math.expm1(epsilon) + reverse))

    def delta(self, epsilon: float, direction: Which = "both") -> float:
        """Least delta proved at `epsilon`, which may be negative."""
        return math.exp(self.log_delta(epsilon, direction))

    def epsilon(self, delta: float, direction: Which = "both") -> float:
        """Least epsilon >= 0 proved at `delta`, rounded up; infinite if there is none."""
        target = _log_target(delta, direction)
        if direction == "both":
            return self._epsilon_both(target)
        return self._epsilon_one_way(target, direction)

    def bracket(self, delta: float, direction: Which = "both") -> tuple[float, float]:
        """Two epsilons between which the least true one at `delta` lies, both certified.

        "True" is of the pair of worlds that the theorem names, its worst case: no accountant of it
        can promise less than the first number. That a certain training on certain data leaks as
        much is not claimed; audits observe that. What has no such pair (Renyi DP, zCDP, sums of
        promises, groups) is an upper bound only, and its lower end is 0.

        Parameters
        ----------
        delta
            In [0, 1).
        direction
            "forward", "backward" or the worse of the two.

        Returns
        -------
        tuple of float
            The lower end, and an upper end that is at most `epsilon(delta)`: where the two are far
            apart it is computed again on a finer grid. For privacy loss distributions and delta
            at least 1e-12 they mostly differ by less than 1e-4 of themselves, or by 1e-6.

        Raises
        ------
        InvalidArgument
            If delta is not in [0, 1), or the direction is not one of these.

        References
        ----------
        docs/math.md 2.6: outcomes merged, rounding and aliasing subtracted.

        Examples
        --------
        >>> from sordino.accounting.dp_sgd import pld
        >>> run = pld(2.0, 0.1, 50, sampling="poisson", relation=Relation.ADD_OR_REMOVE_ONE)
        >>> lower, upper = run.bracket(1e-5)
        >>> f"{lower:.2f} {upper:.2f}", upper - lower < 1e-4 * upper
        ('1.65 1.65', True)
        """
        target = _log_target(delta, direction)
        if direction == "both":
            return self._bracket_both(target)
        return self._bracket_one_way(target, direction)

    def _bracket_both(self, log_delta: float) -> tuple[float, float]:
        ends = [self._bracket_one_way(log_delta, way) for way in DIRECTIONS]
        return max(lower for lower, _ in ends), max(upper for _, upper in ends)

    def _bracket_one_way(self, log_delta: float, direction: Direction) -> tuple[float, float]:
        return 0.0, self._epsilon_one_way(log_delta, direction)

    def _epsilon_both(self, log_delta: float) -> float:
        return max(self._epsilon_one_way(log_delta, way) for way in DIRECTIONS)

    def _epsilon_one_way(self, log_delta: float, direction: Direction) -> float:
        def holds(epsilon: float) -> bool:
            return self.log_delta_one_way(epsilon, direction) <= log_delta

        if holds(0.0):
            return 0.0
        low, high = 0.0, 1.0
        while not holds(high):
            low, high = high, 2 * high
            if high > 1e9:
                return math.inf
        return gaussian.least(holds, low, high)

    def beta(self, alpha: float, direction: Which = "both") -> float:
        """Least false-negative rate of any test for the record with false-positive rate `alpha`.

        A lower bound on the trade-off function: the largest of the lines
        1 - delta(epsilon) - e^epsilon alpha over epsilon. "forward" tests for the record's
        presence, "backward" for its absence, and "both" (Dong, Roth & Su 2022, Proposition 6)
        lies below the two.
        """
        alpha = checks.fraction("alpha", alpha, allow_zero=True)
        checks.one_of("direction", direction, (*DIRECTIONS, "both"))
        epsilons, heights = self._lines(direction)
        best = int(np.argmax(heights - np.exp(epsilons) * alpha))
        around = epsilons[max(best - 1, 0)], epsilons[min(best + 1, len(epsilons) - 1)]

        def below(epsilon: float) -> float:  # minus the line's height at alpha: each is valid
            return math.exp(epsilon) * alpha - self._height(epsilon, direction)

        value = -golden_section(below, *around, 12)
        value = max(value, float(heights[best] - math.exp(epsilons[best]) * alpha))
        return min(max(value, 0.0), 1 - alpha)

    def _height(self, epsilon: float, direction: Which) -> float:
        """Where the line of slope -e^epsilon under the trade-off function meets alpha = 0."""
        if direction == "both" and epsilon < 0:  # the curve's mirror image
            return math.exp(epsilon) * -math.expm1(self.log_delta(-epsilon))
        return -math.expm1(self.log_delta(epsilon, direction))

    def _lines(self, direction: Which) -> tuple[Floats, Floats]:
        """Lines under the trade-off function: ln of their slopes, and heights; kept once known."""
        known: dict[str, tuple[Floats, Floats]] = self.__dict__.setdefault("_known_lines", {})
        if direction not in known:
            # An epsilon beyond which delta is too small to move the trade-off function.
            farthest = min(max(self.epsilon(1e-12), 1e-6), 500.0)
            sizes = np.geomspace(1e-4 * farthest, farthest, 50)
            epsilons = np.concatenate([-sizes[::-1], [0.0], sizes])
            heights = np.array([self._height(float(e), direction) for e in epsilons])
            known[direction] = epsilons, heights
        return known[direction]

    def advantage(self) -> float:
        """How much better than chance the best guess of membership is: TPR - FPR, at most."""
        return math.exp(min(self.log_delta_one_way(0.0, way) for way in DIRECTIONS))

    def risk(self) -> Risks:
        """What the best attacker can do with the release, in words people decide by."""
        return Risks(self)

    def noted(self, *notes: str, theorem: str | None = None) -> Self:
        """The same profile with notes added, and another theorem's name if one is given."""
        return replace(self, notes=(*self.notes, *notes), theorem=theorem or self.theorem)


def _log_target(delta: float, direction: Which) -> float:
    """Ln of a delta that was asked for, both arguments checked."""
    delta = checks.probability_below_one("delta", delta)
    checks.one_of("direction", direction, (*DIRECTIONS, "both"))
    return math.log(delta) if delta > 0 else -math.inf


def one_relation(profiles: Sequence[Profile]) -> Relation:
    """The relation of all these profiles; `InvalidArgument` if there are none, or two relations."""
    if not profiles:
        checks.fail("profiles", "[]", "to hold at least one profile")
    relations = {profile.relation for profile in profiles}
    if len(relations) > 1:
        names = " and ".join(sorted(relation.value for relation in relations))
        checks.fail("relations", names, "to be one and the same", "Account all for one relation.")
    return relations.pop()


@dataclass(frozen=True, kw_only=True)
class GaussianProfile(Profile):
    """Exactly the profile of N(parameter, 1) against N(0, 1): Gaussian DP. inf: no privacy.

    What was done may leak less than it (`at_most`): then nothing is known from below.
    """

    parameter: float
    at_most: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        value = checks.non_negative("mu", self.parameter, allow_infinite=True)
        object.__setattr__(self, "parameter", value)

    @property
    def mu(self) -> float:
        """The Gaussian-DP parameter."""
        return self.parameter

    @property
    def losses(self) -> Components | None:
        """The Gaussian loss, unless nothing is hidden at all."""
        if math.isinf(self.mu):
            return None
        if self.at_most and self.mu > 0:
            return ((MixtureLoss(1 / self.mu, (1.0,), (1.0,), at_most=True), 1),)
        return ((GaussianLoss((self.mu,)), 1),)

    def renyi(self, orders: Floats) -> Floats:
        """Order mu^2 / 2."""
        return np.asarray(orders * (self.mu * self.mu) / 2)

    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        return gaussian.log_delta(epsilon, self.mu)

    def _epsilon_one_way(self, log_delta: float, direction: Direction) -> float:
        return gaussian.epsilon(self.mu, math.exp(log_delta))

    def _bracket_one_way(self, log_delta: float, direction: Direction) -> tuple[float, float]:
        """The same number, rounded up and down: the formula is exact.

        An infinite mu may stand for a large one.
        """
        upper = self._epsilon_one_way(log_delta, direction)
        if math.isinf(self.mu) or self.at_most:
            return 0.0, upper
        if upper == 0 or math.isinf(upper):
            return upper, upper
        missed = 1e-11 * (1 - log_delta)  # more than the formula is rounded by

        def is_below(epsilon: float) -> bool:
            return self.log_delta_one_way(epsilon, direction) > log_delta + missed

        return gaussian.most(is_below, 0.0, upper, 1e-14), upper

    def beta(self, alpha: float, direction: Which = "both") -> float:
        """G_mu(alpha) = Phi(Phi^-1(1 - alpha) - mu), exactly."""
        alpha = checks.fraction("alpha", alpha, allow_zero=True)
        checks.one_of("direction", direction, (*DIRECTIONS, "both"))
        if math.isinf(self.mu):
            return 0.0
        # Not 1 - alpha, which is 1 for every small alpha.
        return float(ndtr(-ndtri(alpha) - self.mu))


@dataclass(frozen=True, kw_only=True)
class LossProfile(Profile):
    """Privacy loss distributions, composed: `components` are laws with their counts.

    Where the convolution would cost more than `limit`, or delta is too small for it, the moments
    accountant answers, and `fallbacks` says so.
    """

    components: Components
    limit: Limit = field(default=Limit(), compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        curves = {way: DeltaCurve(self.components, way, self.limit) for way in DIRECTIONS}
        if all(loss.symmetric for loss, _ in self.components):
            curves["backward"] = curves["forward"]
        object.__setattr__(self, "_curves", curves)

    def _curve(self, direction: Direction) -> DeltaCurve:
        curves: dict[Direction, DeltaCurve] = self.__dict__["_curves"]
        return curves[direction]

    def fallbacks(self, delta: float) -> tuple[str, ...]:
        """What the moments accountant answers of epsilon at `delta`, and why; mostly nothing."""
        notes = (self._curve(way).fallback(self.epsilon(delta, way)) for way in DIRECTIONS)
        return tuple(dict.fromkeys(note for note in notes if note is not None))

    @property
    def losses(self) -> Components:
        """The laws composed here."""
        return self.components

    def renyi(self, orders: Floats) -> Floats:
        """Sum of the laws' Renyi divergences, the worse direction."""
        return np.maximum(*(self._curve(way).renyi(orders) for way in DIRECTIONS))

    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        return self._curve(direction).log_delta(epsilon)

    def _epsilon_both(self, log_delta: float) -> float:
        forward, backward = (self._curve(way) for way in DIRECTIONS)
        epsilon = forward.epsilon(log_delta)
        if backward is forward or backward.is_surely_below(epsilon, log_delta):
            return epsilon
        return max(epsilon, backward.epsilon(log_delta))

    def _epsilon_one_way(self, log_delta: float, direction: Direction) -> float:
        return self._curve(direction).epsilon(log_delta)

    def _bracket_both(self, log_delta: float) -> tuple[float, float]:
        forward, backward = (self._curve(way) for way in DIRECTIONS)
        lower, upper = forward.bracket(log_delta)
        if backward is forward or backward.is_surely_below(lower, log_delta):
            return lower, upper
        if backward.epsilon(log_delta) <= lower:
            return lower, upper
        least, most = backward.bracket(log_delta)
        # Where both ways are equal, rounding may put the second above what was answered.
        upper = min(max(upper, most), self._epsilon_both(log_delta))
        return min(max(lower, least), upper), upper

    def _bracket_one_way(self, log_delta: float, direction: Direction) -> tuple[float, float]:
        return self._curve(direction).bracket(log_delta)


@dataclass(frozen=True, kw_only=True)
class RenyiProfile(Profile):
    """A Renyi-DP curve: `values` at `orders`; the least of three conversions (docs/math.md 1.4)."""

    orders: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.orders) != len(self.values) or not self.orders:
            checks.fail("values", f"[{len(self.values)}]", "to have one number an order")
        if min(self.orders) <= 1:
            checks.fail("orders", min(self.orders), "> 1")
        if min(self.values) < 0:
            checks.fail("values", min(self.values), ">= 0")

    def renyi(self, orders: Floats) -> Floats:
        """The curve at other orders: between two known ones the next higher, beyond them none."""
        known = np.argsort(self.orders)
        at = np.array(self.orders)[known]
        values = np.append(np.array(self.values)[known], np.inf)
        # A Renyi divergence never decreases with its order.
        return np.asarray(values[np.searchsorted(at, np.asarray(orders) * (1 - 1e-12))])

    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        return renyi.log_delta(np.array(self.orders), np.array(self.values), epsilon)

    def _epsilon_one_way(self, log_delta: float, direction: Direction) -> float:
        delta = math.exp(log_delta)
        return renyi.epsilon(np.array(self.orders), np.array(self.values), delta)


@dataclass(frozen=True, kw_only=True)
class ApproximateProfile(Profile):
    """(epsilon, delta)-DP and nothing more is known; pure DP at delta = 0."""

    budget: tuple[float, float]

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.non_negative("epsilon", self.budget[0], allow_infinite=True)
        checks.probability_below_one("delta", self.budget[1])

    @property
    def losses(self) -> Components | None:
        """Randomised response is the worst such mechanism."""
        return None if math.isinf(self.budget[0]) else ((ApproximateLoss(*self.budget), 1),)

    def renyi(self, orders: Floats) -> Floats | None:
        """Of pure DP only; (epsilon, delta > 0) has no finite Renyi divergence."""
        if self.budget[1] > 0 or math.isinf(self.budget[0]):
            return None
        orders = np.asarray(orders, dtype=np.float64)
        return ApproximateLoss(*self.budget).log_moments(orders - 1, "forward") / (orders - 1)

    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        if math.isinf(self.budget[0]):
            return 0.0
        return ApproximateLoss(*self.budget).log_delta(epsilon, direction)

    def beta(self, alpha: float, direction: Which = "both") -> float:
        """Two lines (Wasserman & Zhou 2010; Kairouz, Oh & Viswanath 2015)."""
        alpha = checks.fraction("alpha", alpha, allow_zero=True)
        checks.one_of("direction", direction, (*DIRECTIONS, "both"))
        epsilon, delta = self.budget
        steep = 1 - delta - math.exp(min(epsilon, 700.0)) * alpha if alpha > 0 else 1 - delta
        return max(0.0, steep, math.exp(-epsilon) * (1 - delta - alpha))
