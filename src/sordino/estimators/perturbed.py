"""Objective perturbation: a random linear term in the objective, whose minimiser is released."""

from __future__ import annotations

import functools
import math

import numpy as np

from sordino import checks
from sordino.estimators import rules
from sordino.estimators.randomness import Randomness
from sordino.estimators.records import FitRecords
from sordino.estimators.risk import most_rounding
from sordino.estimators.task import FitPlan, Settings, Task
from sordino.estimators.training import Method
from sordino.proofs.evidence_kinds import ObjectiveEvidence
from sordino.proofs.objective import ObjectivePerturbation, objective_perturbation
from sordino.types import Floats

GRADIENT_LEFT = 1e-6
"""Norm of the gradient of the SUM objective at which minimising stops, for rows of norm 1."""
ROUNDINGS = 4.0
"""It stops no lower than this many times what rounding may hide, whatever the records."""


class NoisyObjective(Method):
    """Minimise the mean loss plus b.w / rows with Gaussian b; approximate minima are paid for.

    The regulariser is raised above `l2` where so small a budget needs it (`rules.regulariser`).
    """

    name = "objective"
    starts = False
    takes = ("l2",)

    def plan(self, task: Task, given: Settings, start_norm: float = 0.0) -> FitPlan:
        """Settings, noise and proof."""
        self.check(given)
        settings = given.filled(l2=rules.regulariser(task))
        l2 = settings.l2
        assert l2 is not None
        if task.private and not l2 > 0:
            hint = "Objective perturbation needs a strongly convex objective; 0.001 is usual."
            checks.fail("l2", l2, "> 0", hint)
        noisy = mechanism(task, l2) if task.private else None
        return FitPlan(
            method=self.name,
            task=task,
            settings=settings,
            proof=None if noisy is None else noisy.proof(),
            sigma=0.0 if noisy is None else noisy.sigma,
            scale=0.0 if noisy is None else noisy.sigma_out,
            noise_at="on the linear term of the objective",
            l2=l2,
            evidence=None if noisy is None else _evidence(task, noisy),
        )

    def train(
        self, plan: FitPlan, records: FitRecords, randomness: Randomness, start: Floats
    ) -> Floats:
        """Minimise every problem, each with a linear term of its own."""
        task = plan.task
        # Risk means over the rows there are; the objective's mean is over the public number.
        factor = len(records.X) / task.rows
        weights = []
        for problem in range(records.problems):
            risk = records.risk(problem, task, plan.l2 / factor)
            linear = np.zeros(task.columns)
            if plan.sigma > 0:
                linear = randomness.released.perturb(linear, plan.sigma)
            tolerance = _left(plan) / len(records.X)
            weights.append(risk.minimise(linear / len(records.X), tolerance, start[problem]))
        return np.stack(weights)


def _evidence(task: Task, noisy: ObjectivePerturbation) -> ObjectiveEvidence:
    return ObjectiveEvidence(
        loss=task.kind,
        huber_width=task.huber_width,
        norm=task.norm,
        regulariser=noisy.problem["regulariser"],
        sigma=noisy.sigma,
        sigma_out=noisy.sigma_out,
        gradient_left=noisy.gradient_left,
        relation=task.relation,
        columns=task.columns,
        problems=task.problems,
        rows_per_person=task.rows_per_person,
    )


def _left(plan: FitPlan) -> float:
    if plan.task.private:
        return mechanism(plan.task, plan.l2).gradient_left
    return GRADIENT_LEFT * plan.task.norm * max(1.0, plan.task.rows / 1e5)


@functools.lru_cache(maxsize=512)
def mechanism(task: Task, l2: float) -> ObjectivePerturbation:
    """The noise that the task's promise needs at this regulariser, and its proof."""
    rough = _mechanism(task.alone, l2, GRADIENT_LEFT * task.norm).sigma
    return _mechanism(task, l2, _gradient_left(task, l2, 2 * rough))


def _gradient_left(task: Task, l2: float, sigma: float) -> float:
    """Where minimising stops: fixed before any record is seen, and reachable for all records.

    A solver that gave up for some records and not for others would tell them apart.
    """
    longest = sigma * (math.sqrt(task.columns) + 8)  # ||b||, but for a chance of e^-32
    hidden = most_rounding(
        rows=task.rows,
        dimension=task.columns,
        curvature=task.curvature,
        huber_width=task.huber_width,
        l2=l2,
        norm=task.norm,
        linear=longest / task.rows,
    )
    return max(GRADIENT_LEFT * task.norm, ROUNDINGS * task.rows * hidden)


def _mechanism(task: Task, l2: float, gradient_left: float) -> ObjectivePerturbation:
    return objective_perturbation(
        kind=task.kind,
        curvature=task.curvature,
        norm=task.norm,
        regulariser=l2 * task.rows,
        epsilon=task.epsilon,
        delta=task.delta,
        relation=task.relation,
        gradient_left=gradient_left,
        problems=task.problems,
        rows_per_person=task.rows_per_person,
    )
