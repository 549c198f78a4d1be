"""Tuning that pays: the best of a random number of runs (Papernot & Steinke 2022).

Draw K from a law that knows nothing of the data. K times, draw one of the candidates uniformly and
run it afresh. Release the best of the K outputs and nothing else: not K, not the others, not how
often one was drawn. All functions here need, and their callers must check:

* the candidates, their number and the law of K were fixed without the data;
* "best" is by one fixed order of all outputs, which public data may set; a score read off the
  private records is part of the output, and must be accounted for in the candidate's profile;
* every run has randomness of its own.

A mean of 10 runs costs a few times the epsilon of one, not 10 times, however many candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from sordino import checks
from sordino.accounting import renyi
from sordino.accounting.gaussian import least
from sordino.accounting.profile import Profile, RenyiProfile, one_relation
from sordino.errors import NotApplicable
from sordino.types import Floats


def repeat_and_select(profiles: Sequence[Profile], *, mean: float, shape: float) -> RenyiProfile:
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
        law, where = "a Poisson number of runs", "Theorem 6"
    else:
        # Theorem 2 allows any second order >= 1: the best one.
        inverse = rate(mean, shape)
        second = (1 - 1 / orders) * one + inverse / orders
        values = values + (1 + shape) * min(inverse, float(second.min()))
        law, where = f"a negative binomial number of runs (shape {shape:g})", "Theorem 2"
    # A Renyi divergence never decreases with its order.
    values = np.minimum.accumulate(values[::-1])[::-1]
    theorems = list(dict.fromkeys(profile.theorem for profile in candidates))
    notes = dict.fromkeys(note for profile in candidates for note in profile.notes)
    return RenyiProfile(
        orders=tuple(orders.tolist()),
        values=tuple(values.tolist()),
        relation=candidates[0].relation,
        theorem=f"best of {law}, {mean:g} on average (Papernot & Steinke 2022, {where}), of: "
        + "; ".join(theorems[:3])
        + ("; ..." if len(theorems) > 3 else ""),
        notes=(*notes, f"each run of one of {len(profiles)} candidates, drawn uniformly"),
    )


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
