"""Trainings by the engine: one fit, or several of the same records side by side."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sordino import _check
from sordino.estimators.method import Method
from sordino.estimators.randomness import Randomness, ScaledNoise
from sordino.estimators.records import Records
from sordino.estimators.task import Plan, Settings, Task
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats


class TrainedMethod(Method):
    """A method whose training is a `TrainSpec`, made of the task and the settings."""

    @abstractmethod
    def settings(self, task: Task, given: Settings) -> Settings:
        """The given ones, completed by the public rule."""

    @abstractmethod
    def spec(self, task: Task, settings: Settings) -> TrainSpec:
        """The training; noise inside it is still to be set."""

    def train(self, plan: Plan, records: Records, randomness: Randomness, start: Floats) -> Floats:
        """Weights [problem, column] by the engine."""
        (weights,) = train_together([plan], records, randomness, start)
        return np.asarray(weights)


def train_together(
    plans: Sequence[Plan], records: Records, randomness: Randomness, start: Floats
) -> Floats:
    """Train every plan on the records: weights [plan, problem, column].

    Plans that differ in nothing but their noise are runs of one engine call. All problems of one
    plan see the same batches, as their joint sensitivity assumes; different plans do not.

    Parameters
    ----------
    plans
        Each with a `TrainSpec`.
    records, randomness
        What is trained on, and what orders and noise are drawn from.
    start
        Initial weights [problem, column].
    """
    weights = np.empty((len(plans), *start.shape))
    for spec, members in _alike(plans).items():
        # A plan's place is its seed: no two share an order.
        scales = {place: _noise(plans[place].spec) for place in members}
        for problem in range(records.problems):
            weights[members, problem] = _train(
                spec, records, randomness, problem, start[problem], scales
            )
    return weights


def _alike(plans: Sequence[Plan]) -> dict[TrainSpec, list[int]]:
    """Plans by their training, whatever the size of the noise."""
    found: dict[TrainSpec, list[int]] = {}
    for place, plan in enumerate(plans):
        assert plan.spec is not None
        noisy = plan.spec.noise_multiplier > 0
        key = replace(plan.spec, noise_multiplier=1.0) if noisy else plan.spec
        found.setdefault(key, []).append(place)
    return found


def _noise(spec: TrainSpec | None) -> float:
    assert spec is not None
    return spec.noise_multiplier


def _train(
    spec: TrainSpec,
    records: Records,
    randomness: Randomness,
    problem: int,
    start: Floats,
    scales: Mapping[int, float],
) -> Floats:
    from sordino.sgd.engine import train_chunks
    from sordino.sgd.grid import prepare

    source = randomness.steps
    # Not `train`, which warns if a run diverges (that depends on the records; a model that did is
    # not released) and hands out weights without noise when it is interrupted.
    grid = prepare(
        spec,
        records.dataset(problem),
        list(scales),
        initial_weights=start,
        streams=randomness.orders,
        noise=ScaledNoise(source, scales, problem, source.repeatable),
    )
    trained = np.empty((len(scales), len(start)))
    for chunk in train_chunks(grid):
        trained[chunk.seeds] = chunk.weights[:, 0, -1]
    return trained


def initial(weights: npt.ArrayLike | None, problems: int, columns: int) -> Floats:
    """Zeros, or the public weights given, as [problem, column]."""
    if weights is None:
        return np.zeros((problems, columns))
    start = np.asarray(weights, dtype=np.float64)
    if start.shape == (columns,):
        start = np.tile(start, (problems, 1))
    if start.shape != (problems, columns):
        hint = "One row a class (one alone for two classes), the intercept last if there is one."
        _check.fail("initial_weights.shape", start.shape, f"to be ({problems}, {columns})", hint)
    return _check.finite("initial_weights", start)
