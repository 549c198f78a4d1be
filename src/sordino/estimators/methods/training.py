"""`Method`: one way to train and release a private linear model; trainings by the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.errors import NotApplicable
from sordino.estimators.fit import FitPlan, FitRecords, Randomness, ScaledNoise, Settings, Task
from sordino.proofs.settings import METHODS, training
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats


class Method(ABC):
    """Plan first, from public facts; then train. The base class of the estimators releases."""

    name: str
    starts: ClassVar[bool] = True
    """Whether it starts from initial weights; a minimiser does not."""
    public_size: bool = True
    """Whether it divides by the number of records, which must then be public."""
    raises_l2: bool = False
    """Whether it may use a larger regulariser than was asked for."""

    @property
    def takes(self) -> tuple[str, ...]:
        """Settings that mean something to it; others are refused, not ignored."""
        takes = METHODS[self.name].takes if self.name in METHODS else ()
        return (*takes, "l2") if self.raises_l2 else takes

    def plan(self, task: Task, given: Settings = Settings(), start_norm: float = 0.0) -> FitPlan:  # noqa: B008 - frozen
        """Complete the settings by public rules, calibrate the noise, prove."""
        for name, value in given.given.items():
            if name not in self.takes:
                hint = f"It has {', '.join(self.takes) or 'no settings'}."
                checks.fail(name, value, f"not to be given for method={self.name!r}", hint)
        if self.public_size and task.private_size:
            divides = f"The method {self.name} divides by the number of records, which is private"
            instead = "'statistics'" if task.regression else "'objective' or 'dp-sgd'"
            raise NotApplicable(f"{divides} here; use {instead}.")
        return self._plan(task, given, start_norm)

    @abstractmethod
    def _plan(self, task: Task, given: Settings, start_norm: float) -> FitPlan:
        """The plan, for settings that it has."""

    @abstractmethod
    def train(self, plan: FitPlan, records: FitRecords, draws: Randomness, start: Floats) -> Floats:
        """Weights [problem, column] as the plan says, before the release adds its noise."""


@dataclass(frozen=True)
class TrainedMethod(Method):
    """A method whose training is a `TrainSpec`, made of the task and the settings.

    Parameters
    ----------
    name
        As the estimators call it.
    rule
        Settings from public facts, where none are given.
    public_size, raises_l2
        As in `Method`.
    """

    name: str
    rule: Callable[[Task, Settings], dict[str, Any]]
    public_size: bool = True
    raises_l2: bool = False

    def settings(self, task: Task, given: Settings) -> Settings:
        """The given ones, completed by the public rule."""
        return given.filled(**self.rule(task, given))

    def spec(self, task: Task, settings: Settings) -> TrainSpec:
        """The training; noise inside it is still to be set."""
        objective = task.objective_with(settings.l2 or task.l2)
        public = objective, task.rows, task.norm, vars(settings)
        return training(self.name, *public, private_size=task.private_size)

    def train(self, plan: FitPlan, records: FitRecords, draws: Randomness, start: Floats) -> Floats:
        """Weights [problem, column] by the engine."""
        (weights,) = train_together([plan], records, draws, start)
        return np.asarray(weights)


def train_together(
    plans: Sequence[FitPlan], records: FitRecords, randomness: Randomness, start: Floats
) -> Floats:
    """Train every plan on the records: weights [plan, problem, column].

    Plans that differ in nothing but their noise are runs of one engine call. All problems of one
    plan see the same batches, as their joint sensitivity assumes; different plans do not. A softmax
    is one training of all classes.

    Parameters
    ----------
    plans
        Each with a `TrainSpec`.
    records, randomness
        What is trained on, and what orders and noise are drawn from.
    start
        Initial weights [problem, column].
    """
    from sordino.sgd.engine import train_chunks
    from sordino.sgd.grid import prepare

    # Plans by their training, whatever the size of the noise: their places, and that size. A
    # plan's place is its seed: no two share an order.
    alike: dict[TrainSpec, dict[int, float]] = {}
    for place, plan in enumerate(plans):
        assert plan.spec is not None
        size = plan.spec.noise_multiplier
        key = replace(plan.spec, noise_multiplier=1.0) if size > 0 else plan.spec
        alike.setdefault(key, {})[place] = size
    weights, source = np.empty((len(plans), *start.shape)), randomness.steps
    for spec, scales in alike.items():
        joint = spec.objective.kind == "softmax"
        for problem in (None,) if joint else range(records.problems):
            # Not `train`, which warns if a run diverges (that depends on the records; a model that
            # did is not released) and hands out weights without noise when it is interrupted.
            noise = ScaledNoise(source, scales, problem or 0, source.repeatable)
            first = start if problem is None else start[problem]
            how: Any = {"initial_weights": first.ravel(), "streams": randomness.orders}
            grid = prepare(spec, records.dataset(problem), list(scales), noise=noise, **how)
            members = np.array(list(scales))
            for chunk in train_chunks(grid):
                last = chunk.weights[:, 0, -1].reshape(-1, *first.shape)
                if problem is None:
                    weights[members[chunk.seeds]] = last
                else:
                    weights[members[chunk.seeds], problem] = last
    return weights


def initial(weights: npt.ArrayLike | None, problems: int, columns: int) -> Floats:
    """Zeros, or the public weights given, as [problem, column]."""
    if weights is None:
        return np.zeros((problems, columns))
    start = np.asarray(weights, dtype=np.float64)
    if start.shape == (columns,):
        start = np.tile(start, (problems, 1))
    if start.shape != (problems, columns):
        wanted = f"to be ({problems}, {columns}), the intercept last"
        checks.fail("initial_weights.shape", start.shape, wanted)
    return checks.finite("initial_weights", start)
