"""Every method by its name, and `auto`, which chooses one by public facts.

Two have no noise, and private models are compared with them: the minimiser and the majority.
Regression has methods of its own (`REGRESSION`).
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np

from sordino import checks
from sordino.accounting.calibrate import RISK_TOLERANCE, epsilon_for_risk
from sordino.accounting.profile import Profile
from sordino.accounting.risk import RiskTarget
from sordino.errors import NotApplicable
from sordino.estimators import rules
from sordino.estimators.fit import FitPlan, FitRecords, Randomness, Settings, Task
from sordino.estimators.methods.adaptive import AdaptiveDescent
from sordino.estimators.methods.noisy_steps import DP_SGD, NOISY_GD
from sordino.estimators.methods.objective_perturbation import NoisyObjective
from sordino.estimators.methods.output_perturbation import OUTPUT_METHODS
from sordino.estimators.methods.prepared import after_preparation
from sordino.estimators.methods.statistics import NoisyStatistics, solve_exactly
from sordino.estimators.methods.training import Method
from sordino.estimators.minimum.softmax import SoftmaxRisk
from sordino.types import Floats

_TOLERANCE = 1e-7
"""Norm of the mean gradient at the reference, for rows of norm 1."""
_SHORT = 0.009
"""A share of what a risk may add: less than this is not what was asked for (release/verify.py)."""


class _Reference(Method):
    starts = False
    public_size = False

    def _plan(self, task: Task, given: Settings, start_norm: float) -> FitPlan:
        return FitPlan(self.name, task, given, None, 0.0, 0.0, "nowhere", l2=task.l2)


class NoPrivacy(_Reference):
    """The minimiser of the regularised mean loss (L-BFGS, finished by Newton but for a softmax)."""

    name = "none"

    def train(self, plan: FitPlan, records: FitRecords, draws: Randomness, start: Floats) -> Floats:
        """Minimise every problem, or the softmax of all classes."""
        if plan.task.joint:
            of = records.X, records.codes, records.problems, plan.l2, records.weights
            softmax = SoftmaxRisk(*of)
            return softmax.minimise(_TOLERANCE * plan.task.norm)
        risks = (records.risk(k, plan.task, plan.l2) for k in range(records.problems))
        return np.stack([risk.minimise(None, _TOLERANCE * plan.task.norm) for risk in risks])


class LeastSquares(_Reference):
    """The minimiser of the regularised mean square (normal equations)."""

    name = NoPrivacy.name

    def train(self, plan: FitPlan, records: FitRecords, draws: Randomness, start: Floats) -> Floats:
        """Solve them."""
        return solve_exactly(records, plan.l2)


class Majority(_Reference):
    """Always the most frequent class, by weight."""

    name = "majority"

    def train(self, plan: FitPlan, records: FitRecords, draws: Randomness, start: Floats) -> Floats:
        """Weights 0; the base class reads the shares as intercepts."""
        return np.zeros_like(start)

    @staticmethod
    def intercepts(records: FitRecords) -> Floats:
        """Log-odds of each problem's share, kept finite."""
        weights = np.ones(len(records.codes)) if records.weights is None else records.weights
        total = float(weights.sum()) or math.inf  # if none weighs anything, none is a majority
        shares = [float(weights @ records.labels(k)) / total for k in range(records.problems)]
        kept = [min(max(share, 1e-9), 1 - 1e-9) for share in shares]
        return np.array([math.log(share / (1 - share)) for share in kept])


REFERENCES = (NoPrivacy.name, Majority.name)
"""Methods that add no noise."""
_NOISY = (NOISY_GD, DP_SGD, NoisyObjective(), AdaptiveDescent())
METHODS: dict[str, Method] = {
    method.name: method for method in (*OUTPUT_METHODS, *_NOISY, NoPrivacy(), Majority())
}
NAMES = ("auto", *METHODS)
REGRESSION: dict[str, Method] = {
    method.name: method for method in (NoisyStatistics(), NOISY_GD, LeastSquares())
}


def methods_for(task: Task) -> dict[str, Method]:
    """The methods that can do a task."""
    return REGRESSION if task.regression else METHODS


def plan(
    name: str,
    task: Task,
    given: Settings = Settings(),  # noqa: B008 - frozen
    start_norm: float = 0.0,
    *,
    starts: bool = False,
) -> FitPlan:
    """The plan of a method, or of the one that `auto` chooses; `starts` if weights are given."""
    known = methods_for(task)
    checks.one_of("method", name, ("auto", *known))
    if task.prepared is not None:
        return after_preparation(
            task,
            lambda left: plan(name, left, given, start_norm, starts=starts),
            lambda first, left: known[first.method]._plan(left, first.settings, start_norm),
        )
    if name == "auto":
        for setting, value in given.given.items():
            checks.fail(setting, value, "not to be given for method='auto'", "Name a method.")
        name = rules.best_method(task, starts)
    elif starts and not known[name].starts:
        no_start = f"not to be given for method={name!r}, which has no start"
        checks.fail("initial_weights", "[...]", no_start)
    return known[name].plan(task, given, start_norm)


def plan_for_risk(
    target: RiskTarget,
    name: str,
    task: Task,
    given: Settings = Settings(),  # noqa: B008 - frozen
    start_norm: float = 0.0,
    *,
    starts: bool = False,
) -> FitPlan:
    """The plan of the largest epsilon at the task's delta that keeps the risk; else as `plan`.

    Where a rule or `auto` decides otherwise from some epsilon on, the risk jumps, and the target
    may lie within the jump. Then method and settings are those from before it, with less noise.

    Raises
    ------
    NotApplicable
        If the method cannot be calibrated to this risk.
    """

    @functools.cache
    def planned(epsilon: float, before: FitPlan | None = None) -> FitPlan:
        asked = replace(task, epsilon=epsilon)
        if before is None:
            return plan(name, asked, given, start_norm, starts=starts)
        return again(before, asked)

    def again(before: FitPlan, asked: Task) -> FitPlan:
        if asked.prepared is not None:
            return after_preparation(asked, lambda left: again(before, left), again)
        return methods_for(asked)[before.method]._plan(asked, before.settings, start_norm)

    def search(before: FitPlan | None = None) -> FitPlan:
        def profile_at(epsilon: float) -> Profile:
            proof = planned(epsilon, before).proof
            if proof is None:
                raise NotApplicable(f"method={name!r} adds no noise, so it keeps no {target}.")
            return proof.profile

        guess = None if before is None else before.task.epsilon
        return planned(epsilon_for_risk(profile_at, target, task.delta, guess), before)

    def excess(found: FitPlan) -> float:
        assert found.proof is not None
        return target.excess(found.proof.profile)

    found = search()
    if excess(found) < -10 * RISK_TOLERANCE:
        found = search(found)
    if excess(found) < -_SHORT:
        raise NotApplicable(f"The method {found.method} keeps {target}, but comes nowhere near it.")
    return found
