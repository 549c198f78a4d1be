"""How a grid of runs is cut into chunks: by memory, and by what runs fast in cache.

The grouping is a plain value, so a study that records it can be resumed with the same bytes on
the same kind of machine; it depends on the machine only where memory is short.
"""

from __future__ import annotations

from dataclasses import dataclass

from sordino import _cost, checks
from sordino.models.batched import Objective
from sordino.privacy import Sampling
from sordino.sgd.kernels import full_batch
from sordino.sgd.spec import TrainSpec

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
    """Seeds and neighbours trained together in one chunk."""

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

    @property
    def unit(self) -> int:
        """Seeds that a chunk should be a multiple of."""
        return full_batch.whole_blocks(self.neighbours) if self.full_batches else 1

    def bytes_of(self, plan: Plan) -> int:
        """Memory of the table and a chunk a thread, from above."""
        sizes = (self.slots, plan.seeds, plan.neighbours, self.checkpoints)
        return self.table + self.threads * chunk_bytes(
            self.spec, self.objective, *sizes, full_batches=self.full_batches
        )


def default_memory() -> int:
    """A quarter of the memory this process may use, in bytes."""
    # Not of what is free just now: the grouping, and with it the bytes of a study, follow from it.
    return _cost.total_memory() // 4


def make(need: Need, memory: int | None) -> Plan:
    """Choose the chunk: fast in cache, then halved until one a thread fits in `memory`."""
    budget = default_memory() if memory is None else checks.whole("memory", memory)
    plan = _fastest(need)
    while need.bytes_of(plan) > budget and plan.seeds > 1:
        plan = Plan((plan.seeds + 1) // 2, plan.neighbours)
    while need.bytes_of(plan) > budget and plan.neighbours > 1 and need.splits_neighbours:
        plan = Plan(1, (plan.neighbours + 1) // 2)
    return _fitting(need, plan, budget)


def check(need: Need, plan: Plan, memory: int | None) -> Plan:
    """Refuse a given plan that does not fit in a given memory, or tears a seed apart."""
    if not need.splits_neighbours and plan.neighbours < need.neighbours:
        hint = "Its randomness cannot be repeated, so a seed's datasets go in one chunk."
        checks.fail("plan", plan, f"to have neighbours >= {need.neighbours}", hint)
    return plan if memory is None else _fitting(need, plan, memory)


def _fitting(need: Need, plan: Plan, budget: int) -> Plan:
    least = need.bytes_of(plan)
    if least > budget:
        grouping = f"{plan.seeds} x {plan.neighbours} runs a thread"
        sentence = f">= {least} bytes, what the rows and {grouping} need"
        checks.fail("memory", budget, sentence)
    return plan


def _fastest(need: Need) -> Plan:
    spec, objective = need.spec, need.objective
    run = objective.step_operations(spec.batch_size) * spec.total_steps(need.slots)
    runs, alone = CHUNK_OPERATIONS / run, _share_trained_alone(need)
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
    else:
        fast = _NETWORK_ELEMENTS // (together * spec.batch_size * objective.width)
        many = min(many, max(1, fast))
    # An even number of chunks, at least two: an idle core costs more than smaller chunks.
    unit = need.unit
    pairs = -(-need.seeds // (2 * max(many, unit)))
    seeds = -(-need.seeds // (2 * pairs))
    return Plan(min(-(-seeds // unit) * unit, need.seeds), together)


def _share_trained_alone(need: Need) -> float:
    """The part of its steps that a neighbour's run takes on its own, on average, about.

    Of a network: those after its first batch with the differing record (`lanes`), which is equally
    likely anywhere in the first pass over the data.
    """
    if need.spec.objective.is_linear:
        return 1.0
    passes = need.spec.total_steps(need.slots) * need.spec.batch_size / need.slots
    return passes / 2 if passes < 1 else 1 - 1 / (2 * passes)


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
    shared = 0 if spec.objective.is_linear else 1
    runs, parameters = seeds * (neighbours + shared), objective.parameters
    batch = _widest_batch(spec, slots)
    per_epoch = spec.steps_per_epoch(slots)
    # Weights, their sum, a copy or two of the touched ones, and what the checkpoints keep.
    weights = runs * parameters * (4 + checkpoints)
    order = 24 * seeds * per_epoch * batch
    ahead = min(per_epoch, NOISE_STEPS)
    if full_batches:
        step = full_batch.scratch_numbers(parameters, slots)
        order = 64 * runs  # places in the grid
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


def _widest_batch(spec: TrainSpec, slots: int) -> int:
    """Places of the largest batch; Poisson ones are as large as drawn, six deviations at most."""
    if spec.order != Sampling.POISSON:
        return spec.batch_size
    mean = spec.batch_size if spec.sample_rate is None else spec.sample_rate * slots
    return min(slots, int(mean + 6 * mean**0.5) + 1)
