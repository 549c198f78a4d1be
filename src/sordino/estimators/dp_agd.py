"""DP-AGD: descent that decides as it goes how much of the budget each step is worth."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from sordino.accounting.concentrated import Filter
from sordino.estimators import rules
from sordino.estimators.adaptive import descend
from sordino.estimators.method import Method
from sordino.estimators.randomness import Randomness
from sordino.estimators.records import Records
from sordino.estimators.task import Plan, Settings, Task
from sordino.proofs.adaptive import concentrated_budget
from sordino.proofs.evidence_kinds import AdaptiveEvidence
from sordino.types import Floats


class AdaptiveDescent(Method):
    """Lee & Kifer 2018, corrected (docs/math.md 10.4), under zero-concentrated DP.

    Several classes are trained one after the other, each with its share of the budget. Without a
    promise there is nothing to decide, and the exact minimiser is released.
    """

    name = "dp-agd"
    takes = ("steps", "learning_rate", "max_grad_norm")

    def plan(self, task: Task, given: Settings, start_norm: float = 0.0) -> Plan:
        """The budget in zero-concentrated DP, and what it proves."""
        self.check(given)
        self.refuse_private_size(task)
        settings = given.filled(max_grad_norm=task.norm).clipped(task.norm)
        rho = _budget(task) if task.private else math.inf
        clip = settings.max_grad_norm
        assert clip is not None
        evidence = _evidence(task, rho, clip) if task.private else None
        return Plan(
            method=self.name,
            task=task,
            settings=settings,
            proof=None if evidence is None else evidence.proof(),
            # The noise of the whole budget spent on one sum: later sums get more.
            sigma=task.moved * clip / math.sqrt(2 * rho),
            scale=0.0,
            noise_at="at least, on sums of clipped gradients, and Gumbel noise on step lengths",
            l2=task.l2,
            evidence=evidence,
        )

    def train(self, plan: Plan, records: Records, randomness: Randomness, start: Floats) -> Floats:
        """Weights that already carry their noise."""
        task, clip = plan.task, plan.settings.max_grad_norm
        assert clip is not None
        weights = []
        for problem in range(records.problems):
            risk = records.risk(problem, task, task.l2)
            if not task.private:
                weights.append(risk.minimise(None, 1e-7 * task.norm))
                continue
            rho = _budget(task) / task.problems * (1 - 1e-12)
            noise = randomness.steps.stream("dp-agd", problem)
            found = descend(
                risk,
                budget=Filter(rho),
                clip=clip,
                norm=task.norm,
                sensitivity_factor=task.moved,
                normals=_counted(noise.standard_normal),
                gumbels=_counted(noise.gumbel),
                shares=rules.adaptive_shares(task, plan.settings, rho),
                start=start[problem],
            )
            weights.append(found)
        return np.stack(weights)


def _evidence(task: Task, rho: float, clip: float) -> AdaptiveEvidence:
    return AdaptiveEvidence(
        rho=rho,
        clip=clip,
        relation=task.relation,
        columns=task.columns,
        problems=task.problems,
        rows_per_person=task.rows_per_person,
    )


@functools.lru_cache(maxsize=512)
def _budget(task: Task) -> float:
    return concentrated_budget(
        task.epsilon, task.delta, task.relation, rows_per_person=task.rows_per_person
    )


def _counted(draw: Callable[[tuple[int, ...]], Floats]) -> Callable[[int], Floats]:
    return lambda many: draw((many,))
