"""How a grid of runs is cut into chunks: by memory, and by what runs fast in cache.

The grouping is a plain value, so a study that records it can be resumed anywhere with the same
bytes; it depends on the number of threads only where memory is short.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from sordino import _check
from sordino.objectives.batched import Objective
from sordino.sgd.spec import TrainSpec

# Operations of a chunk: a second or less of work, so that progress is told and Ctrl-C heard.
_CHUNK_OPERATIONS = 2e10
# Numbers of a network's largest array, [seed, place, dataset, unit], that keep a step near the
# cores (half a megabyte in float32) while the interpreter's share of it stays small.
_NETWORK_ELEMENTS = 1 << 17
_MOST_NEIGHBOURS = 512


@dataclass(frozen=True)
class Plan:
    """Seeds and neighbours trained together in one chunk."""

    seeds: int
    neighbours: int

    def __post_init__(self) -> None:
        _check.whole("seeds", self.seeds, at_least=1)
        _check.whole("neighbours", self.neighbours, at_least=1)


def default_memory() -> int:
    """A quarter of this machine's memory, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4


def default_threads() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make(
    spec: TrainSpec,
    objective: Objective,
    slots: int,
    seeds: int,
    neighbours: int,
    checkpoints: int,
    memory: int,
    threads: int,
    table: int,
) -> Plan:
    """Choose the chunk: fast in cache, then halved until `threads` of them fit in `memory`.

    `table` is what the rows take, in bytes, once for all chunks.
    """
    run = objective.step_operations(spec.batch_size) * spec.total_steps(slots)
    runs = max(1, int(_CHUNK_OPERATIONS // run))
    together = min(neighbours, _MOST_NEIGHBOURS)
    if spec.objective.kind == "cnn":  # whose runs are taken one by one, so splitting costs little
        together = min(together, runs)
    many = max(1, runs // together)
    if not spec.objective.is_linear:
        fast = _NETWORK_ELEMENTS // (together * spec.batch_size * objective.width)
        many = min(many, max(1, fast))
    # An even number of chunks, at least two: idle cores cost more than smaller chunks.
    pairs = -(-seeds // (2 * many))
    many = -(-seeds // (2 * pairs))

    def needed(many: int, together: int) -> int:
        chunk = chunk_bytes(spec, objective, slots, many, together, checkpoints)
        return table + threads * chunk

    while needed(many, together) > memory and many > 1:
        many = (many + 1) // 2
    while needed(many, together) > memory and together > 1:
        together = (together + 1) // 2
    if needed(many, together) > memory:
        least = f">= {needed(1, 1)} bytes, what the rows and one run a thread need"
        _check.fail("memory", memory, least)
    return Plan(many, together)


def chunk_bytes(
    spec: TrainSpec, objective: Objective, slots: int, seeds: int, neighbours: int, checkpoints: int
) -> int:
    """Memory of one chunk at its peak, from above."""
    number = 4 if spec.dtype == "float32" else 8
    runs, parameters = seeds * neighbours, objective.parameters
    batch = _widest_batch(spec, slots)
    # Weights, their sum, a copy or two of the touched ones, and what the checkpoints keep.
    weights = runs * parameters * (4 + checkpoints)
    if spec.objective.is_linear:
        step = neighbours * (batch + 2 * parameters) + batch * parameters
    else:
        step = objective.step_numbers(seeds, neighbours, batch)
        # At worst every run differs in this batch, and holds a copy of it with its own record.
        step += runs * batch * (objective.features + 1)
    per_epoch = spec.steps_per_epoch(slots)
    ahead = min(per_epoch, NOISE_STEPS) if spec.noise_multiplier else 0
    noise = (seeds + 2) * ahead * parameters  # one run's is drawn in float64 first
    order = 24 * seeds * per_epoch * batch
    return int(number * (weights + step + noise) + order)


def _widest_batch(spec: TrainSpec, slots: int) -> int:
    """Places of the largest batch; Poisson ones are as large as drawn, six deviations at most."""
    if spec.order != "poisson":
        return spec.batch_size
    mean = spec.batch_size if spec.sample_rate is None else spec.sample_rate * slots
    return min(slots, int(mean + 6 * mean**0.5) + 1)


NOISE_STEPS = 256
"""Steps whose noise is drawn ahead at once."""
