"""`Grid`: what is to be trained, checked and laid out before anything runs.

It is cut into chunks by memory, and by what runs fast in cache (`Plan`): a plain value, so a study
that records it can be resumed with the same bytes on the same kind of machine. It depends on the
machine only where memory is short.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from sordino import _cost, checks, tasks
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.models import build
from sordino.models.batched import Objective
from sordino.privacy import VARYING, Relation, Sampling
from sordino.randomness import Name, SeededStreams, Streams
from sordino.sgd.kernels import full_batch, full_softmax
from sordino.sgd.spec import TrainSpec
from sordino.sgd.table import RowTable, lay, table_bytes
from sordino.types import Array

NOISE_STEPS = 256
"""Steps whose noise is drawn ahead at once."""

# Operations of a chunk: a second or less of work, so that progress is told and Ctrl-C heard.
# (A CNN's takes longer, for the sake of what its runs share.)
CHUNK_OPERATIONS = 2e10
# Chunks to cut at least, where there are seeds for it and it costs nothing: enough for many cores.
_CHUNKS = 8
# Numbers of a network's largest array, [seed, place, dataset, unit], that keep a step near the
# cores (a megabyte in float32) while the interpreter's share of it stays small.
_NETWORK_ELEMENTS = 1 << 18
_MOST_NEIGHBOURS = 512
# Runs' worth of work that a network's chunk should hold beside the run they all begin with.
_RUNS_BESIDE_THE_COMMON_ONE = 16


@dataclass(frozen=True)
class Plan:
    """Seeds and neighbours trained together in one chunk.

    >>> Plan(seeds=10, neighbours=2)
    Plan(seeds=10, neighbours=2)
    """

    seeds: int
    neighbours: int

    def __post_init__(self) -> None:
        checks.whole("seeds", self.seeds, at_least=1)
        checks.whole("neighbours", self.neighbours, at_least=1)


@dataclass(frozen=True)
class Need:
    """What is to be trained, as far as it matters for memory and speed.

    `table` is what the rows take, in bytes, once for all chunks. `splits_neighbours` is False
    where a seed's randomness cannot be repeated, so that all its datasets must be trained in one
    chunk to see the same.
    """

    spec: TrainSpec
    objective: Objective
    slots: int
    seeds: int
    neighbours: int
    checkpoints: int
    threads: int
    table: int
    splits_neighbours: bool = True

    @property
    def full_batches(self) -> bool:
        """Whether runs are trained in blocks that share every row (`full_batch`)."""
        return full_batch.applies(self.spec, self.slots, self.seeds * self.neighbours)

    def bytes_of(self, plan: Plan) -> int:
        """Memory of the table and a chunk a thread, from above."""
        sizes = (self.slots, plan.seeds, plan.neighbours, self.checkpoints)
        full = self.full_batches
        one = chunk_bytes(self.spec, self.objective, *sizes, full_batches=full)
        return self.table + self.threads * one


def default_memory() -> int:
    """A quarter of the memory this process may use, in bytes."""
    # Not of what is free just now: the grouping, and with it the bytes of a study, follow from it.
    return _cost.total_memory() // 4


def make_plan(need: Need, memory: int | None, plan: Plan | None = None) -> Plan:
    """Choose the chunk: fast in cache, then halved until one a thread fits in `memory`.

    A given plan is refused if it does not fit in a given memory, or tears a seed apart.
    """
    if plan is not None and not need.splits_neighbours and plan.neighbours < need.neighbours:
        checks.fail("plan", plan, f"to have neighbours >= {need.neighbours}, all of a seed")
    if plan is not None and memory is None:
        return plan
    budget = default_memory() if memory is None else checks.whole("memory", memory)
    if plan is None:
        plan = _fastest(need)
        while need.bytes_of(plan) > budget and plan.seeds > 1:
            plan = Plan((plan.seeds + 1) // 2, plan.neighbours)
        while need.bytes_of(plan) > budget and plan.neighbours > 1 and need.splits_neighbours:
            plan = Plan(1, (plan.neighbours + 1) // 2)
    least = need.bytes_of(plan)
    if least > budget:
        grouping = f"{plan.seeds} x {plan.neighbours} runs a thread"
        checks.fail("memory", budget, f">= {least} bytes, what the rows and {grouping} need")
    return plan


def _fastest(need: Need) -> Plan:
    spec, objective = need.spec, need.objective
    run = objective.step_operations(spec.batch_size) * spec.total_steps(need.slots)
    runs, alone = CHUNK_OPERATIONS / run, 1.0
    softmax = full_softmax.applies(spec, need.slots)
    if not spec.objective.is_linear and not softmax:
        # The part of its steps that a neighbour's run takes on its own, about: those after its
        # first batch with the differing record, equally likely anywhere in the first pass.
        passes = spec.total_steps(need.slots) * spec.batch_size / need.slots
        alone = passes / 2 if passes < 1 else 1 - 1 / (2 * passes)
    together = need.neighbours
    if need.splits_neighbours:
        most = _MOST_NEIGHBOURS
        if spec.objective.kind == "cnn":
            # Its runs are taken one by one, so splitting them costs only the run they share.
            most = min(most, int(max(runs, _RUNS_BESIDE_THE_COMMON_ONE) / alone))
        together = min(together, most)
    many = max(1, int(runs / (1 + alone * (together - 1))))
    if spec.objective.is_linear:  # seeds are taken one by one
        many = min(many, -(-need.seeds // _CHUNKS))
    elif softmax:
        many = min(many, max(1, full_softmax.WIDEST // (together * objective.width)))
    else:
        fast = _NETWORK_ELEMENTS // (together * spec.batch_size * objective.width)
        many = min(many, max(1, fast))
    # An even number of chunks, at least two: an idle core costs more than smaller chunks.
    unit = full_batch.whole_blocks(need.neighbours) if need.full_batches else 1
    pairs = -(-need.seeds // (2 * max(many, unit)))
    seeds = -(-need.seeds // (2 * pairs))
    return Plan(min(-(-seeds // unit) * unit, need.seeds), together)


def chunk_bytes(
    spec: TrainSpec,
    objective: Objective,
    slots: int,
    seeds: int,
    neighbours: int,
    checkpoints: int,
    *,
    full_batches: bool = False,
) -> int:
    """Memory of one chunk at its peak, from above."""
    number = 4 if spec.dtype == "float32" else 8
    softmax = full_softmax.applies(spec, slots)
    shared = 0 if spec.objective.is_linear or softmax else 1
    runs, parameters = seeds * (neighbours + shared), objective.parameters
    batch = spec.batch_size
    per_epoch = spec.batches_per_epoch(slots)
    if spec.order in VARYING:  # as large as drawn: six deviations more at most
        mean = batch if spec.sample_rate is None else spec.sample_rate * slots
        mean = slots / per_epoch if spec.order == Sampling.ALLOCATION else mean
        batch = min(slots, int(mean + 6 * mean**0.5) + 1)
    # Weights, their sum, a copy or two of the touched ones, and what the checkpoints keep.
    weights = runs * parameters * (4 + checkpoints)
    order = 24 * seeds * per_epoch * batch
    ahead = min(per_epoch, NOISE_STEPS)
    if full_batches:
        step = full_batch.scratch_numbers(parameters, slots)
        order = 64 * runs  # places in the grid
        ahead = min(spec.total_steps(slots), NOISE_STEPS)
    elif softmax:
        step = full_softmax.scratch_numbers(objective, runs, slots)
        order = 64 * runs
        ahead = min(spec.total_steps(slots), NOISE_STEPS)
    elif spec.objective.is_linear:
        step = neighbours * (batch + 2 * parameters) + batch * parameters
    else:
        step = objective.step_numbers(seeds, neighbours + shared, batch)
        # At worst every run differs in this batch, and holds a copy of it with its own record.
        step += runs * batch * (objective.features + 1)
    # One run's noise is drawn in float64 first.
    noise = (seeds + 2) * ahead * parameters if spec.noise_multiplier else 0
    return int(number * (weights + step + noise) + order)


class _NormalStream(Protocol):
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

    def stream(self, *name: Name) -> _NormalStream:
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
    """Check everything and lay out the grid, before anything is trained. Arguments as `train`.

    >>> from sordino.models import ObjectiveSpec
    >>> data = Dataset([[0.6, 0.8], [0.0, 1.0], [1.0, 0.0]], [0, 1, 1])
    >>> spec = TrainSpec(ObjectiveSpec("logistic"), 0.5, batch_size=1, steps=4)
    >>> prepare(spec, data, range(5), checkpoints=[2, 4]).shape  # seeds, datasets, steps, weights
    (5, 1, 2, 3)
    """
    if not isinstance(dataset, Dataset):
        checks.fail("dataset", type(dataset).__name__, "to be a Dataset", "Pass Dataset(X, y).")
    neighbours = neighbouring.only(dataset) if neighbours is None else neighbours
    _check_neighbours(spec, dataset, neighbours)
    objective = build(spec.objective, dataset.features, dataset.image_shape)
    objective.check_labels(dataset.y)
    if neighbours.extra_y is not None:
        objective.check_labels(neighbours.extra_y)
    kept = _check_checkpoints(checkpoints, spec.total_steps(neighbours.size))
    checked_seeds = _check_seeds(seeds)
    streams = SeededStreams() if streams is None else streams
    if noise is None and spec.noise_multiplier and not streams.repeatable:
        checks.fail("noise", None, "to be given with streams that are not repeatable")
    noise = streams if noise is None else noise
    dtype = getattr(torch, spec.dtype)
    threads = tasks.available_cores() if threads is None else threads
    need = Need(
        *(spec, objective, neighbours.size, len(checked_seeds), len(neighbours), len(kept)),
        threads=checks.whole("threads", threads, at_least=1),
        table=table_bytes(objective, dataset, neighbours, dtype),
        splits_neighbours=streams.repeatable and noise.repeatable,
    )
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
        plan=make_plan(need, memory, plan),
        threads=need.threads,
    )


def _check_neighbours(spec: TrainSpec, dataset: Dataset, neighbours: Neighbours) -> None:
    if not isinstance(neighbours, Neighbours):
        checks.fail("neighbours", type(neighbours).__name__, "to be Neighbours")
    neighbours.check_of(dataset)
    if neighbours.relation is Relation.ADD_OR_REMOVE_ONE:
        where = "for added or removed records"
        if spec.order not in VARYING:
            checks.fail("order", spec.written_order, f"to be poisson or allocation {where}")
        if not spec.draws_by_public_numbers:
            number = "sample_rate" if spec.order == Sampling.POISSON else "steps_per_epoch"
            checks.fail(number, None, f"to be given {where}: it would tell the size")


def _check_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    checks.sequence("seeds", seeds, "Pass range(10) for ten runs.")
    checked = tuple(checks.whole("seed", seed) for seed in seeds)
    if not checked or len(set(checked)) < len(checked):
        checks.fail("seeds", list(checked), "to be different, at least one")
    return checked


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
            checks.fail("initial_weights", None, 'to be an array [parameter] with init="given"')
        if spec.init == "fixed":
            return objective.init(streams.stream("fixed initial weights", spec.init_seed))
        return None
    if spec.init != "given":
        checks.fail("initial_weights", "[given]", f"to be None with init={spec.init!r}")
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (objective.parameters,):
        checks.fail("initial_weights.shape", weights.shape, f"to be ({objective.parameters},)")
    return checks.finite("initial_weights", weights)
