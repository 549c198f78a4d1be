"""`Grid`: what is to be trained, checked and laid out before anything runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from sordino import _check
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.objectives import build
from sordino.objectives.batched import Objective
from sordino.seeding import Name, SeededStreams, Streams
from sordino.sgd import planning
from sordino.sgd.planning import Plan
from sordino.sgd.spec import TrainSpec
from sordino.sgd.table import Table, lay

Array = npt.NDArray[Any]


class NormalStream(Protocol):
    """Draws standard normal numbers; numpy's Generator is one."""

    def standard_normal(self, size: tuple[int, int]) -> Array:
        """Return independent N(0, 1) numbers of this shape."""
        ...


class NoiseSource(Protocol):
    """Where the noise of a private run comes from; injected, never chosen by the engine."""

    def stream(self, *name: Name) -> NormalStream:
        """Open the noise of the run called `name`."""
        ...


@dataclass(frozen=True, eq=False)
class Grid:
    """Everything a chunk needs to know; checked once, shared by all threads."""

    spec: TrainSpec
    objective: Objective
    table: Table
    slots: int
    seeds: tuple[int, ...]
    checkpoints: tuple[int, ...]
    streams: Streams
    noise: NoiseSource
    initial: Array | None
    plan: Plan
    threads: int

    @property
    def neighbours(self) -> int:
        """Datasets in the grid."""
        return len(self.table.slot)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the result: (seeds, neighbours, checkpoints, parameters)."""
        many = len(self.seeds)
        return many, self.neighbours, len(self.checkpoints), self.objective.parameters

    def chunks(self) -> list[tuple[slice, slice]]:
        """Positions of every chunk, seeds outermost, of sizes as even as the plan allows."""
        return [
            (seeds, neighbours)
            for seeds in _even(len(self.seeds), self.plan.seeds)
            for neighbours in _even(self.neighbours, self.plan.neighbours)
        ]


def prepare(
    spec: TrainSpec,
    dataset: Dataset,
    seeds: Sequence[int],
    neighbours: Neighbours | None = None,
    checkpoints: Sequence[int] | None = None,
    *,
    initial_weights: Array | None = None,
    streams: Streams | None = None,
    noise: NoiseSource | None = None,
    plan: Plan | None = None,
    memory: int | None = None,
    threads: int | None = None,
) -> Grid:
    """Check everything and lay out the grid, before anything is trained. Arguments as `train`."""
    if not isinstance(dataset, Dataset):
        _check.fail("dataset", type(dataset).__name__, "to be a Dataset", "Pass Dataset(X, y).")
    neighbours = neighbouring.only(dataset) if neighbours is None else neighbours
    if not isinstance(neighbours, Neighbours):
        hint = "Make them with sordino.data.neighbours."
        _check.fail("neighbours", type(neighbours).__name__, "to be Neighbours", hint)
    neighbours.check_of(dataset)
    objective = build(spec.objective, dataset.features, dataset.image_shape)
    objective.check_labels(dataset.y)
    if neighbours.extra_y is not None:
        objective.check_labels(neighbours.extra_y)
    steps = spec.total_steps(neighbours.size)
    threads = planning.default_threads() if threads is None else threads
    many_threads = _check.whole("threads", threads, at_least=1)
    kept = _check_checkpoints(checkpoints, steps)
    listed = _check.sequence("seeds", seeds, "Pass range(10) for ten runs.")
    checked_seeds = tuple(_check.whole("seed", seed) for seed in listed)
    if not checked_seeds:
        _check.fail("seeds", "[]", "to hold at least one seed")
    table = lay(objective, dataset, neighbours, getattr(torch, spec.dtype))
    budget = planning.default_memory() if memory is None else _check.whole("memory", memory)
    if plan is None:
        plan = planning.make(
            spec,
            objective,
            neighbours.size,
            len(checked_seeds),
            len(neighbours),
            len(kept),
            budget,
            many_threads,
            table.X.nbytes,
        )
    streams = SeededStreams() if streams is None else streams
    return Grid(
        spec=spec,
        objective=objective,
        table=table,
        slots=neighbours.size,
        seeds=checked_seeds,
        checkpoints=kept,
        streams=streams,
        noise=streams if noise is None else noise,
        initial=_check_initial(spec, objective, initial_weights),
        plan=plan,
        threads=many_threads,
    )


def _even(total: int, most: int) -> list[slice]:
    edges = np.linspace(0, total, -(-total // most) + 1).round().astype(int).tolist()
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def _check_checkpoints(checkpoints: Sequence[int] | None, steps: int) -> tuple[int, ...]:
    if checkpoints is None:
        return (steps,)
    _check.sequence("checkpoints", checkpoints, "Pass a list of steps, such as [10, 50].")
    kept = tuple(_check.whole("checkpoint", step) for step in checkpoints)
    for step in kept:
        if step > steps:
            _check.fail("checkpoint", step, f"<= {steps}, the number of steps")
    if not kept or len(set(kept)) < len(kept):
        _check.fail("checkpoints", kept, "to be different steps, at least one")
    return kept


def _check_initial(spec: TrainSpec, objective: Objective, weights: Array | None) -> Array | None:
    if weights is None:
        if spec.init == "given":
            hint = 'The spec has init="given".'
            _check.fail("initial_weights", None, "to be an array [parameter]", hint)
        return None
    if spec.init != "given":
        hint = 'Set init="given" in the spec to start from them.'
        _check.fail("initial_weights", "[given]", f"to be None with init={spec.init!r}", hint)
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (objective.parameters,):
        _check.fail("initial_weights.shape", weights.shape, f"to be ({objective.parameters},)")
    return _check.finite("initial_weights", weights)
