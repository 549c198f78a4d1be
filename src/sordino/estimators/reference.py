"""What private models are compared with: the minimiser without noise, and the majority."""

from __future__ import annotations

import math

import numpy as np

from sordino.estimators.method import Method
from sordino.estimators.randomness import Randomness
from sordino.estimators.records import Records
from sordino.estimators.task import Plan, Settings, Task
from sordino.types import Floats

TOLERANCE = 1e-7
"""Norm of the mean gradient at the reference, for rows of norm 1."""


class _Reference(Method):
    takes = ()
    starts = False

    def plan(self, task: Task, given: Settings, start_norm: float = 0.0) -> Plan:
        """Promise nothing."""
        self.check(given)
        return Plan(self.name, task, given, None, 0.0, 0.0, "nowhere", l2=task.l2)


class NoPrivacy(_Reference):
    """The minimiser of the regularised mean loss (L-BFGS, finished by Newton steps)."""

    name = "none"

    def train(self, plan: Plan, records: Records, randomness: Randomness, start: Floats) -> Floats:
        """Minimise every problem."""
        tolerance = TOLERANCE * plan.task.norm
        return np.stack(
            [
                records.risk(problem, plan.task, plan.l2).minimise(None, tolerance)
                for problem in range(records.problems)
            ]
        )


class Majority(_Reference):
    """Always the most frequent class."""

    name = "majority"

    def train(self, plan: Plan, records: Records, randomness: Randomness, start: Floats) -> Floats:
        """Weights 0; the base class reads the shares as intercepts."""
        return np.zeros_like(start)

    @staticmethod
    def intercepts(records: Records) -> Floats:
        """Log-odds of each problem's share, kept finite."""
        shares = [float(records.labels(k).mean()) for k in range(records.problems)]
        kept = [min(max(share, 1e-9), 1 - 1e-9) for share in shares]
        return np.array([math.log(share / (1 - share)) for share in kept])


REFERENCES = (NoPrivacy.name, Majority.name)
"""Methods that add no noise."""
