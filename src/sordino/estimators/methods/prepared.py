"""A training after a centre and a scale: what is left of the budget, found so that the whole fits.

The releases before the training get public shares of the squared Gaussian budget. What the training
may spend is then found by composition: exact where it is Gaussian, by its losses where it is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sordino.accounting import gaussian
from sordino.accounting.compose import compose
from sordino.errors import NotApplicable
from sordino.estimators import preparation, rules
from sordino.estimators.fit import FitPlan, Task
from sordino.estimators.preparation import Coordinates
from sordino.proofs.prepared import MEAN, SQUARES, PreparedEvidence, SumRelease
from sordino.proofs.proof import Proof
from sordino.release.mechanism import Release, release
from sordino.release.noise import Noise
from sordino.types import Array, Floats

_CLOSE = 5e-5
"""How far, relatively, the whole may stay below what was asked for."""
_TRIES = 40
_LEAST_EPSILON = 1e-300
_Make = Callable[[Task], FitPlan]


def after_preparation(
    task: Task, make: _Make, remake: Callable[[FitPlan, Task], FitPlan]
) -> FitPlan:
    """The plan of a task whose rows are prepared by what is released of them.

    Parameters
    ----------
    task
        The whole: its epsilon is for all that is released.
    make
        Plans a training, by the rules.
    remake
        Plans it anew with the method and settings of another plan: so the search for what is left
        to the training is not disturbed by rules that jump.
    """
    inner = replace(task, prepared=None)
    before = rules.before_training(task)
    if not before:  # nothing is released, or nothing is promised
        return replace(make(inner), task=task)
    spent = [each.profile(task.relation, task.rows_per_person) for each in before]

    def left(epsilon: float) -> Task:
        return replace(inner, epsilon=epsilon)

    mu = 1 / gaussian.sigma(task.epsilon, task.delta)
    told = math.fsum((each.mu or 0.0) ** 2 for each in spent)
    guess = gaussian.epsilon(math.sqrt(max(mu**2 - told, 0.0)), task.delta)
    if not guess > 0:
        raise NotApplicable("Nothing is left to the training; promise more, or center='none'.")
    first = make(left(guess))
    if first.proof is None:
        return replace(first, task=task)

    def whole(epsilon: float) -> tuple[float, FitPlan]:
        plan = first if epsilon == guess else remake(first, left(epsilon))
        assert plan.proof is not None
        return compose([*spent, plan.proof.profile]).epsilon(task.delta), plan

    return _together(task, before, _largest(whole, guess, task.epsilon))


def release_preparation(
    plan: FitPlan, rows: Array, coordinates: Coordinates, noise: Noise
) -> Coordinates:
    """Release what the plan says of rows within their bounds and norm, and prepare by it.

    Where nothing is promised, the exact numbers are taken.
    """
    task, noisy = plan.task, {each.what: each for each in plan.before}
    asked, mean, spread = task.prepared, coordinates.center, None
    assert asked is not None

    def released(what: str) -> Floats:
        center = None if what == MEAN else mean
        total = preparation.sums(what, rows, asked.norm_of(what), task.rows, center)
        if what not in noisy:
            return total
        of = noisy[what]
        proof = of.proof(task.relation, task.rows_per_person, task.persons_counted)
        return release_sum(total, proof, task.delta, of.sigma, noise).value

    if MEAN in asked.private:
        bounded = coordinates.low is not None
        mean = preparation.center_of(released(MEAN), asked, task.rows, bounded=bounded)
    if SQUARES in asked.private:
        total, norm = released(SQUARES), asked.norm_of(SQUARES)
        sigma = noisy[SQUARES].sigma if SQUARES in noisy else 0.0
        spread = preparation.spread_of(total, norm, sigma, task.rows)
    return coordinates.completed(asked, mean, spread)


def release_sum(total: Floats, proof: Proof, delta: float, sigma: float, noise: Noise) -> Release:
    """A sum through the one door out: with its noise, under what is proved of it alone."""
    epsilon = max(proof.guarantee(delta).epsilon, _LEAST_EPSILON)
    how: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "scale": sigma}
    return release(total, proof=proof, noise=noise, **how)


def _largest(whole: Callable[[float], tuple[float, FitPlan]], guess: float, most: float) -> FitPlan:
    """The training that takes the whole nearly to `most`, and never above."""
    low, high, best = 0.0, math.inf, None
    aim, epsilon = most * (1 - _CLOSE / 2), guess
    for _ in range(_TRIES):
        total, plan = whole(epsilon)
        if total <= most:
            low, best = epsilon, plan
            if total >= most * (1 - _CLOSE):
                return plan
        else:
            high = epsilon
        following = epsilon * min(max(aim / total, 0.5), 2.0) if total > 0 else 2 * epsilon
        if not low < following < high:
            following = (low + high) / 2 if low > 0 else high / 2
        if (low >= high * (1 - 1e-12) and math.isfinite(high)) or not following > 0:
            break
        epsilon = following
    if best is None:
        raise NotApplicable("Nothing is left to the training; promise more, or center='none'.")
    return best


def _together(task: Task, before: tuple[SumRelease, ...], plan: FitPlan) -> FitPlan:
    assert plan.evidence is not None
    evidence = PreparedEvidence(releases=before, training=plan.evidence, **task.shape)
    proof = evidence.proof()
    return replace(plan, task=task, proof=proof, evidence=evidence, before=before, after=plan)
