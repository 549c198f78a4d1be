"""Objective perturbation: a random linear term in the objective, whose minimiser is released."""

from __future__ import annotations

import numpy as np

from sordino import checks
from sordino.estimators import rules
from sordino.estimators.fit import FitPlan, FitRecords, Randomness, Settings, Task
from sordino.estimators.methods.training import Method
from sordino.types import Floats


class NoisyObjective(Method):
    """Minimise the mean loss plus b.w / rows with Gaussian b; approximate minima are paid for.

    The regulariser is raised above `l2` where so small a budget needs it (`rules.regulariser`).
    """

    name = "objective"
    starts = False
    public_size = False
    raises_l2 = True

    def _plan(self, task: Task, given: Settings, start_norm: float) -> FitPlan:
        settings = given.filled(l2=rules.regulariser(task))
        l2, where = settings.l2, "on the linear term of the objective"
        assert l2 is not None
        if not task.private:
            return FitPlan(self.name, task, settings, None, 0.0, 0.0, where, l2=l2)
        if not l2 > 0:
            checks.fail("l2", l2, "> 0 for objective perturbation", "0.001 is usual.")
        noisy = rules.mechanism(task, l2)
        return FitPlan(
            *(self.name, task, settings, noisy.proof(), noisy.sigma, noisy.sigma_out, where),
            l2=l2,
            evidence=noisy,
        )

    def train(self, plan: FitPlan, records: FitRecords, draws: Randomness, start: Floats) -> Floats:
        """Minimise every problem, each with a linear term of its own."""
        task, rows, weights = plan.task, len(records.X), []
        left = rules.GRADIENT_LEFT * task.norm * max(1.0, task.rows / 1e5)
        if task.private:
            left = rules.mechanism(task, plan.l2).gradient_left
        for problem in range(records.problems):
            # Risk means over the rows there are; the objective's mean is over the public number.
            risk = records.risk(problem, task, plan.l2 / (rows / task.rows))
            linear = np.zeros(task.columns)
            if plan.sigma > 0:
                linear = draws.released.perturb(linear, plan.sigma)
            weights.append(risk.minimise(linear / rows, left / rows, start[problem]))
        return np.stack(weights)
