"""`OwnFit`: one fit of ours as a mechanism, for methods whose training is no `TrainSpec`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sordino.data.dataset import Dataset
from sordino.estimators import methods
from sordino.estimators.randomness import Randomness
from sordino.estimators.records import Records
from sordino.estimators.task import Plan
from sordino.types import Floats


@dataclass(frozen=True, eq=False)
class OwnFit:
    """One fit of a method that is no `TrainSpec`: (data, generator) -> released weights.

    Its randomness is the operating system's, as that of a real fit; the generator is not used.

    Parameters
    ----------
    plan
        What a fit would do.
    start
        Initial weights [problem, column].
    """

    plan: Plan
    start: Floats

    def __call__(self, data: Dataset, generator: object) -> Floats:
        """Train on rows within the norm, and add the noise of the release."""
        plan, randomness = self.plan, Randomness.of_system()
        trained = methods.named(plan.method).train(
            plan, records_of(plan, data), randomness, self.start
        )
        released = randomness.released.perturb(trained, plan.scale) if plan.scale else trained
        return np.ravel(released)


def records_of(plan: Plan, data: Dataset) -> Records:
    """What a fit trains on; labels of the data are class numbers."""
    task = plan.task
    return Records(data.X, data.y.astype(np.int64), max(2, task.problems), task.norm)
