"""Tuning that pays: the best of a random number of runs.

Draw K from a law that knows nothing of the data. K times, draw one of the candidates uniformly and
run it afresh. Release the best of the K outputs and nothing else: not K, not the others, not how
often one was drawn. All functions here need, and their callers must check:

* the candidates, their number and the law of K were fixed without the data;
* "best" is by one fixed order of all outputs, which public data may set; a score read off the
  private records is part of the output, and must be accounted for in the candidate's profile;
* every run has randomness of its own.

A mean of 10 runs costs a few times the epsilon of one, not 10 times, however many candidates.

By profiles. One run has law P in this world and Q in the other, and K the generating function phi.
Ties may be broken by a uniform number that each run draws beside its output: that tells nothing,
and to drop it is post-processing. So let b and b' be the chances under P and Q of an output better
than y, both continuous: the best has density w = phi'(1 - b) relative to P, and w' = phi'(1 - b')
relative to Q, and both worlds release nothing with the same chance phi(0). No test separates P and
Q by more than their profile allows, so for every real a

    b' <= B(b) = min(1, min over a of e^a b + E_{e^a}(Q || P)),

and any such lines bound b'. For every set S of outputs and epsilon >= 0, with x = e^epsilon q / p,

    P_best(S) - e^epsilon Q_best(S) = integral over S of w p - e^epsilon w' q
        <= integral of p h(x),  h(x) = max(0, max over b of phi'(1 - b) - phi'(1 - B(b)) x).

h is convex and falls from phi'(1) = E[K]. Made piecewise linear from above, it is a sum of hinges
A (1 - x / c)_+ with sum A = E[K], and so delta_best(epsilon) <= sum of A delta(epsilon - ln c).
A single hinge, c the largest w / w', is E[K] delta(epsilon - ln c) (cf. Koskela, Redberg & Wang
2024, arXiv 2402.06701); but where that ratio is, outputs are rarely the best.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sordino import checks
from sordino.accounting import renyi
from sordino.accounting.gaussian import least
from sordino.accounting.pld.loss import Direction
from sordino.accounting.pld.numerics import first_below
from sordino.accounting.profile import Profile, RenyiProfile, one_relation
from sordino.errors import NotApplicable
from sordino.types import Floats

_Point = tuple[float, float]
_CELLS, _WIDTH = 1 << 14, 2e-3
"""Cells that b is cut into, at most, and how much ln w + ln w' may change in each."""
_HINGES = 24
"""Hinges that h is a sum of."""
_LINES = 32
"""Lines above the trade-off of one run, for positive epsilons and as many for negative ones."""
_ROUNDING = 1e-12
"""Relative, what is added for rounding."""
_LEAST_SHARE = 1e-4
"""Lines are drawn up to the epsilon where delta is this over the mean."""
_LARGEST = 500.0
"""Epsilon of any line, at most."""
_FARTHEST = 1e9
"""Where the search for an epsilon ends."""


def repeat_and_select(profiles: Sequence[Profile], *, mean: float, shape: float) -> SelectedProfile:
    """The profile of the best of K runs, each of a candidate drawn uniformly.

    Parameters
    ----------
    profiles
        One a candidate, each of a single run and its score; equal ones may be repeated.
    mean
        Of K, at least 1.
    shape
        Of the law of K: inf is Poisson (K may be 0: then nothing is released), any other number
        >= 0 the truncated negative binomial (K >= 1): 0 is logarithmic, 1 geometric.

    Notes
    -----
    By profiles, as at the head of this module: one run, its candidate's number told, has the mean
    of the candidates' deltas. Where all have Renyi DP, the lesser of that and of `by_moments`.
    """
    relation = one_relation(checks.sequence("profiles", profiles, "Pass a list, one a candidate."))
    mean, shape = _law(mean, shape)
    source = "docs/accounting.md, several releases"
    if all(profile.renyi(renyi.ORDERS[:1]) is not None for profile in profiles):
        source = f"{source}, or {_paper(shape)}"
    return SelectedProfile(
        candidates=tuple(Counter(profiles).items()),
        mean=mean,
        shape=shape,
        relation=relation,
        **_described(profiles, mean, shape, f"by profiles ({source})"),
    )


@dataclass(frozen=True, kw_only=True)
class SelectedProfile(Profile):
    """The best of K runs, by the candidates' whole curves: `candidates` with how often each is."""

    candidates: tuple[tuple[Profile, int], ...]
    mean: float
    shape: float

    @functools.cached_property
    def _moments(self) -> RenyiProfile | None:
        try:
            profiles = [profile for profile, _ in self.candidates]
            return by_moments(profiles, mean=self.mean, shape=self.shape)
        except NotApplicable:
            return None

    def renyi(self, orders: Floats) -> Floats | None:
        """By the theorems of Papernot & Steinke, if all candidates have such bounds."""
        return None if self._moments is None else self._moments.renyi(orders)

    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        best = 0.0
        if self._moments is not None:
            best = self._moments.log_delta_one_way(epsilon, direction)
        return min(best, self._by_profiles(epsilon, direction))

    def _epsilon_one_way(self, log_delta: float, direction: Direction) -> float:
        def excess(epsilon: float) -> float:
            return self._by_profiles(epsilon, direction) - log_delta

        best = math.inf
        if self._moments is not None:
            best = self._moments.epsilon(math.exp(log_delta))
        if excess(0.0) <= 0:
            return 0.0
        high = 1.0
        while high < min(best, _FARTHEST) and excess(high) > 0:
            high *= 2
        high = min(high, best, _FARTHEST)
        return best if excess(high) > 0 else min(best, first_below(excess, 0.0, high))

    def _by_profiles(self, epsilon: float, direction: Direction) -> float:
        """Ln of the sum over hinges, at most 0."""
        logs = [
            log_height + self._log_delta_of_one(epsilon - kink, direction)
            for log_height, kink in self._hinges(direction)
        ]
        return min(0.0, float(np.logaddexp.reduce(logs)) + _ROUNDING)

    def _log_delta_of_one(self, epsilon: float, direction: Direction) -> float:
        """Of one run, its candidate's number told."""
        logs = [math.log(n) + one.log_delta(epsilon, direction) for one, n in self.candidates]
        many = sum(n for _, n in self.candidates)
        return min(0.0, float(np.logaddexp.reduce(logs)) - math.log(many))

    def _hinges(self, direction: Direction) -> list[tuple[float, float]]:
        """Ln of A and of c of every hinge; kept once known."""
        known: dict[str, list[tuple[float, float]]] = self.__dict__.setdefault("_known_hinges", {})
        if direction not in known:
            slopes, heights = self._lines_above(direction)

            def other(b: Floats) -> Floats:
                above = (heights + np.outer(b, slopes)).min(axis=1) * (1 + _ROUNDING)
                return np.asarray(np.minimum(above, 1.0), dtype=np.float64)

            # Cells in which neither w nor w' changes much; any cells are sound.
            b = np.concatenate([[0.0], np.geomspace(1e-15, 1.0, 2_000)])
            fall = -self._log_density(b) - self._log_density(other(b))
            many = min(_CELLS, math.ceil(fall[-1] / _WIDTH) + 2)
            b = np.unique(np.interp(np.linspace(fall[0], fall[-1], many), fall, b))
            b = np.concatenate([[0.0], b[(b > 0) & (b < 1)], [1.0]])
            # w is at most as on the left, w' at least as on the right.
            w, least = self._log_density(b[:-1]), self._log_density(other(b[1:]))
            hinges = zip(*_hinges(np.exp(w[::-1]), np.exp(least[::-1])), strict=True)
            mean = self.mean * (1 + _ROUNDING)
            known[direction] = [(math.log(mean * a), min(c, 1e300)) for a, c in hinges if a > 0]
        return known[direction]

    def _lines_above(self, direction: Direction) -> tuple[Floats, Floats]:
        """Slopes and heights of lines above b' as a function of b."""
        other: Direction = "backward" if direction == "forward" else "forward"
        farthest, target = math.inf, _LEAST_SHARE / self.mean
        while farthest > _LARGEST and target < 1:
            farthest = max(one.epsilon(target) for one, _ in self.candidates)
            target *= 10
        sizes = np.linspace(0.0, farthest if farthest <= _LARGEST else 0.0, _LINES + 1)
        epsilons = np.unique(np.concatenate([-sizes, sizes]))
        deltas = [math.exp(self._log_delta_of_one(float(e), other)) for e in epsilons]
        return np.append(np.exp(epsilons), 0.0), np.append(deltas, 1.0)

    def _log_density(self, b: Floats) -> Floats:
        """Ln phi'(1 - b) / phi'(1)."""
        if math.isinf(self.shape):
            return np.asarray(-self.mean * b)
        # gamma / (gamma + (1 - gamma) b), to the power shape + 1
        odds = math.expm1(rate(self.mean, self.shape))
        return np.asarray(-(1 + self.shape) * np.log1p(odds * b))


def _hinges(w: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Heights A and ln c of hinges whose sum is at least max(0, w - other x) of all these pairs.

    The pairs' lower convex hull with (0, 0), `w` rising: an edge is a hinge. Then a hinge between
    two kinks is at most its mean over them, as (c - x)_+ is convex in c.
    """
    hull = [(0.0, 0.0)]
    for point in zip(w.tolist(), other.tolist(), strict=True):
        while len(hull) > 1 and _turns_down(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    rise, run = np.diff(np.array(hull), axis=0).T
    rise, run = rise[rise > 0], run[rise > 0]
    with np.errstate(divide="ignore"):
        kinks = np.log(rise) - np.log(np.maximum(run, 0.0)) + _ROUNDING
    sure = np.isfinite(kinks)
    if not sure.any():
        return rise, kinks
    grid = np.linspace(kinks[sure].min(), kinks[sure].max(), _HINGES)
    right = np.clip(np.searchsorted(grid, kinks[sure]), 1, _HINGES - 1)
    low, high = grid[right - 1], grid[right]
    with np.errstate(invalid="ignore"):
        share = np.where(high > low, np.expm1(kinks[sure] - low) / np.expm1(high - low), 1.0)
    share = np.clip(share, 0.0, 1.0)
    # In (c - x)_+ a hinge weighs A / c.
    heights = np.zeros(_HINGES)
    np.add.at(heights, right, rise[sure] * share * np.exp(high - kinks[sure]))
    np.add.at(heights, right - 1, rise[sure] * (1 - share) * np.exp(low - kinks[sure]))
    return np.append(heights, rise[~sure]), np.append(grid, kinks[~sure])


def _turns_down(first: _Point, second: _Point, third: _Point) -> bool:
    """Whether the second is not below the line from the first to the third."""
    rise = (second[0] - first[0]) * (third[1] - first[1])
    return rise <= (second[1] - first[1]) * (third[0] - first[0])


def by_moments(profiles: Sequence[Profile], *, mean: float, shape: float) -> RenyiProfile:
    """The same by Renyi DP alone (Papernot & Steinke 2022); arguments as of `repeat_and_select`.

    Raises
    ------
    NotApplicable
        If a candidate has no bound in Renyi DP.

    Notes
    -----
    arXiv 2110.03620v2, Theorem 2 (truncated negative binomial) and Theorem 6 (Poisson); the latter
    with the least delta proved at epsilon = ln(1 + 1/(order - 1)). One run, its candidate's number
    told, has at most the largest of the candidates' Renyi divergences and deltas (quasi-convexity),
    whatever their chances. Further conditions: see the head of this module.
    """
    candidates = _distinct(profiles)
    mean, shape = _law(mean, shape)
    orders = renyi.ORDERS
    curves = np.array([profile.renyi(orders) for profile in candidates], dtype=np.float64)
    one: Floats = curves.max(axis=0)
    values = one + math.log(mean) / (orders - 1)
    if math.isinf(shape):
        values = values + mean * _deltas(candidates, one, orders)
    else:
        # Theorem 2 allows any second order >= 1: the best one.
        inverse = rate(mean, shape)
        second = (1 - 1 / orders) * one + inverse / orders
        values = values + (1 + shape) * min(inverse, float(second.min()))
    # A Renyi divergence never decreases with its order.
    values = np.minimum.accumulate(values[::-1])[::-1]
    return RenyiProfile(
        orders=tuple(orders.tolist()),
        values=tuple(values.tolist()),
        relation=candidates[0].relation,
        **_described(profiles, mean, shape, f"({_paper(shape)})"),
    )


def _paper(shape: float) -> str:
    return f"Papernot & Steinke 2022, Theorem {6 if math.isinf(shape) else 2}"


def _described(profiles: Sequence[Profile], mean: float, shape: float, how: str) -> dict[str, Any]:
    law = f"a negative binomial number of runs (shape {shape:g})"
    law = "a Poisson number of runs" if math.isinf(shape) else law
    theorems = list(dict.fromkeys(profile.theorem for profile in profiles))
    notes = dict.fromkeys(note for profile in profiles for note in profile.notes)
    shown = "; ".join(theorems[:3]) + ("; ..." if len(theorems) > 3 else "")
    return {
        "theorem": f"best of {law}, {mean:g} on average {how}, of: {shown}",
        "notes": (*notes, f"each run of one of {len(profiles)} candidates, drawn uniformly"),
    }


def rate(mean: float, shape: float) -> float:
    """Ln(1 / gamma) of the truncated negative binomial law with this mean, rounded up."""
    if mean == 1:
        return 0.0

    def mean_at(log_inverse: float) -> float:
        odds = math.expm1(log_inverse)  # 1 / gamma - 1
        if shape == 0:
            return odds / log_inverse
        return shape * odds / -math.expm1(-shape * log_inverse)

    high = 1.0
    while mean_at(high) < mean:
        high *= 2
    return least(lambda log_inverse: mean_at(log_inverse) >= mean, 0.0, high)


def draw_runs(mean: float, shape: float, uniform: Callable[[], float]) -> int:
    """Draw K by inversion, exactly but for the rounding of float64.

    Parameters
    ----------
    mean, shape
        As in `repeat_and_select`; with shape = inf the number may be 0.
    uniform
        Gives a number drawn uniformly from [0, 1), a new one at each call, from a source that
        nobody can foresee: whoever knows K knows more than is accounted for.
    """
    mean, shape = _law(mean, shape)
    if math.isfinite(shape):
        return 1 if mean == 1 else _inverted(_negative_binomial(mean, shape), uniform, first=1)
    # A sum of independent Poisson numbers is one; e^-mean of a piece must not vanish.
    pieces = math.ceil(mean / 500.0)
    return sum(_inverted(_poisson(mean / pieces), uniform, first=0) for _ in range(pieces))


def _inverted(odds: Iterator[float], uniform: Callable[[], float], *, first: int) -> int:
    left = uniform()
    if not 0 <= left < 1:
        checks.fail("uniform()", left, "in [0, 1)")
    last = 0.0
    for number, chance in enumerate(odds, first):
        # Past the mode, what cannot move the rest any more never will.
        if left < chance or (chance < last and left - chance == left):
            return number
        left, last = left - chance, chance
    raise AssertionError("the laws of K have no end")


def _poisson(mean: float) -> Iterator[float]:
    chance, number = math.exp(-mean), 0
    while True:
        yield chance
        number += 1
        chance *= mean / number


def _negative_binomial(mean: float, shape: float) -> Iterator[float]:
    """Probabilities of 1, 2, ...; in logarithms, as the first ones may be too small for a float."""
    log_inverse = rate(mean, shape)
    log_kept = math.log(-math.expm1(-log_inverse))  # ln(1 - gamma)
    if shape == 0:
        log_chance = log_kept - math.log(log_inverse)
    else:
        grown = shape * log_inverse  # ln gamma^-shape
        log_chance = log_kept + math.log(shape) - grown - math.log(-math.expm1(-grown))
    number = 1
    while True:
        yield math.exp(log_chance)
        log_chance += log_kept + math.log((number + shape) / (number + 1))
        number += 1


def _distinct(profiles: Sequence[Profile]) -> list[Profile]:
    """The candidates without repetitions; all have Renyi curves and one relation."""
    profiles = checks.sequence("profiles", profiles, "Pass a list, one a candidate.")
    distinct = list(dict.fromkeys(profiles))
    one_relation(distinct)
    for profile in distinct:
        if profile.renyi(renyi.ORDERS[:1]) is None:
            raise NotApplicable(
                f"The best of several runs needs Renyi DP, which a {type(profile).__name__} "
                f"({profile.theorem}) does not have; choose candidates with Gaussian noise, or "
                "pay for every run."
            )
    return distinct


def _deltas(candidates: list[Profile], one: Floats, orders: Floats) -> Floats:
    """Delta of one run at epsilon = ln(1 + 1/(order - 1)), the largest that Theorem 6 allows."""
    epsilons = np.log1p(1 / (orders - 1)).tolist()
    by_moments = [math.exp(renyi.log_delta(orders, one, epsilon)) for epsilon in epsilons]
    own = by_moments
    if any(profile.losses is not None for profile in candidates):  # others know moments only
        # Fresh copies, from small epsilons on: what a curve remembers of other questions, or of
        # larger epsilons, can make its answers looser, and a proof must not depend on that.
        fresh = [replace(each) for each in candidates]
        own = [max(each.delta(epsilon) for each in fresh) for epsilon in epsilons[::-1]][::-1]
    # Bretagnolle & Huber 1979: the total variation is at most sqrt(1 - e^-KL).
    apart = math.sqrt(-math.expm1(-float(one.min())))
    return np.minimum(np.minimum(own, by_moments), apart)


def _law(mean: float, shape: float) -> tuple[float, float]:
    hint = "The number of runs needs a mean of at least 1."
    mean = checks.positive("mean", mean, hint)
    if mean < 1:
        checks.fail("mean", mean, ">= 1", hint)
    hint = "Pass math.inf for Poisson, 1 for geometric, 0 for logarithmic."
    return mean, checks.non_negative("shape", shape, hint, allow_infinite=True)
