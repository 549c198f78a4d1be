"""`Grid`: what is to be trained, checked and laid out before anything runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from sordino import checks, tasks
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.models import build
from sordino.models.batched import Objective
from sordino.privacy import Relation, Sampling
from sordino.randomness import Name, SeededStreams, Streams
from sordino.sgd import planning
from sordino.sgd.kernels import full_batch
from sordino.sgd.planning import Plan
from sordino.sgd.spec import TrainSpec
from sordino.sgd.table import RowTable, lay, table_bytes
from sordino.types import Array


class NormalStream(Protocol):
    """Draws standard normal numbers; numpy's Generator is one."""

    def standard_normal(self, size: tuple[int, int]) -> Array:
        """Return independent N(0, 1) numbers of this shape."""
        ...


class NoiseSource(Protocol):
    """Where the noise of a private run comes from; injected, never chosen by the engine.

    `repeatable` says whether the same name gives the same noise a second time. The engine checks
    the shape of what it draws and that it is finite; that it is normal, it must trust.
    """

    repeatable: bool

    def stream(self, *name: Name) -> NormalStream:
        """Open the noise of the run called `name`."""
        ...


@dataclass(frozen=True, eq=False)
class Grid:
    """Everything a chunk needs to know; checked once, shared by all threads."""

    spec: TrainSpec
    objective: Objective
    table: RowTable
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
            for seeds in _even(len(self.seeds), self.plan.seeds, self._unit)
            for neighbours in _even(self.neighbours, self.plan.neighbours)
        ]

    @property
    def _unit(self) -> int:
        """Seeds that chunks are a multiple of, where the plan is large enough."""
        if not full_batch.applies(self.spec, self.slots, len(self.seeds) * self.neighbours):
            return 1
        unit = full_batch.whole_blocks(self.neighbours)
        return unit if self.plan.seeds >= unit else 1


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
    neighbours = _check_neighbours(spec, dataset, neighbours)
    objective = build(spec.objective, dataset.features, dataset.image_shape)
    objective.check_labels(dataset.y)
    if neighbours.extra_y is not None:
        objective.check_labels(neighbours.extra_y)
    kept = _check_checkpoints(checkpoints, spec.total_steps(neighbours.size))
    checked_seeds = _check_seeds(seeds)
    streams, noise = _check_randomness(spec, streams, noise)
    dtype = getattr(torch, spec.dtype)
    need = planning.Need(
        spec=spec,
        objective=objective,
        slots=neighbours.size,
        seeds=len(checked_seeds),
        neighbours=len(neighbours),
        checkpoints=len(kept),
        threads=checks.whole(
            "threads", tasks.available_cores() if threads is None else threads, at_least=1
        ),
        table=table_bytes(objective, dataset, neighbours, dtype),
        splits_neighbours=streams.repeatable and noise.repeatable,
    )
    plan = planning.make(need, memory) if plan is None else planning.check(need, plan, memory)
    return Grid(
        spec=spec,
        objective=objective,
        table=lay(objective, dataset, neighbours, dtype, clips=spec.max_grad_norm is not None),
        slots=neighbours.size,
        seeds=checked_seeds,
        checkpoints=kept,
        streams=streams,
        noise=noise,
        initial=_initial(spec, objective, initial_weights, streams),
        plan=plan,
        threads=need.threads,
    )


def _check_neighbours(
    spec: TrainSpec, dataset: Dataset, neighbours: Neighbours | None
) -> Neighbours:
    if not isinstance(dataset, Dataset):
        checks.fail("dataset", type(dataset).__name__, "to be a Dataset", "Pass Dataset(X, y).")
    if neighbours is None:
        return neighbouring.only(dataset)
    if not isinstance(neighbours, Neighbours):
        hint = "Make them with sordino.data.neighbours."
        checks.fail("neighbours", type(neighbours).__name__, "to be Neighbours", hint)
    neighbours.check_of(dataset)
    if neighbours.relation is Relation.ADD_OR_REMOVE_ONE:
        if spec.order != Sampling.POISSON:
            hint = (
                "Elsewhere an empty slot still takes up room in a batch. Use neighbours.zero_out, "
                "or train on dataset.take(...) itself."
            )
            checks.fail(
                "order", spec.written_order, "to be poisson for added or removed records", hint
            )
        if spec.sample_rate is None:
            hint = "With it left out, the rate would tell the size, which is private here."
            checks.fail("sample_rate", None, "to be given for added or removed records", hint)
    return neighbours


def _check_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    checks.sequence("seeds", seeds, "Pass range(10) for ten runs.")
    checked = tuple(checks.whole("seed", seed) for seed in seeds)
    if not checked:
        checks.fail("seeds", "[]", "to hold at least one seed")
    if len(set(checked)) < len(checked):
        hint = "The same seed gives the same run: it would be counted twice."
        checks.fail("seeds", list(checked), "to be different", hint)
    return checked


def _check_randomness(
    spec: TrainSpec, streams: Streams | None, noise: NoiseSource | None
) -> tuple[Streams, NoiseSource]:
    streams = SeededStreams() if streams is None else streams
    if noise is None and spec.noise_multiplier and not streams.repeatable:
        hint = "Where nothing may be repeatable, noise protects people: say where it comes from."
        checks.fail("noise", None, "to be given with streams that are not repeatable", hint)
    return streams, streams if noise is None else noise


def _even(total: int, most: int, unit: int = 1) -> list[slice]:
    """Cut into parts of at most `most`, multiples of `unit` but for the last, as even as can be."""
    units = -(-total // unit)
    edges = np.linspace(0, units, -(-units // (most // unit)) + 1).round().astype(int) * unit
    return [slice(a, b) for a, b in itertools.pairwise(np.minimum(edges, total).tolist())]


def _check_checkpoints(checkpoints: Sequence[int] | None, steps: int) -> tuple[int, ...]:
    if checkpoints is None:
        return (steps,)
    checks.sequence("checkpoints", checkpoints, "Pass a list of steps, such as [10, 50].")
    kept = tuple(checks.whole("checkpoint", step) for step in checkpoints)
    for step in kept:
        if step > steps:
            checks.fail("checkpoint", step, f"<= {steps}, the number of steps")
    if not kept or len(set(kept)) < len(kept):
        checks.fail("checkpoints", kept, "to be different steps, at least one")
    return kept


def _initial(
    spec: TrainSpec, objective: Objective, weights: Array | None, streams: Streams
) -> Array | None:
    """The start that all runs share, or None if each draws its own."""
    if weights is None:
        if spec.init == "given":
            hint = 'The spec has init="given".'
            checks.fail("initial_weights", None, "to be an array [parameter]", hint)
        if spec.init == "fixed":
            return objective.init(streams.stream("fixed initial weights", spec.init_seed))
        return None
    if spec.init != "given":
        hint = 'Set init="given" in the spec to start from them.'
        checks.fail("initial_weights", "[given]", f"to be None with init={spec.init!r}", hint)
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (objective.parameters,):
        checks.fail("initial_weights.shape", weights.shape, f"to be ({objective.parameters},)")
    return checks.finite("initial_weights", weights)
