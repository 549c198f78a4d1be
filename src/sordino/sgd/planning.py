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

# Runs of a linear objective in a chunk: seeds are trained one after the other, so a chunk need
# only be long enough that starting it costs nothing, and short enough to share out evenly.
_LINEAR_RUNS = 1024
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
) -> Plan:
    """Choose the chunk: fast in cache, then halved until `threads` of them fit in `memory`."""
    together = min(neighbours, _MOST_NEIGHBOURS)
    if spec.objective.is_linear:
        many = max(1, _LINEAR_RUNS // together)
    else:
        many = max(1, _NETWORK_ELEMENTS // (together * spec.batch_size * objective.width))
    # An even number of chunks, at least two: idle cores cost more than smaller chunks.
    pairs = -(-seeds // (2 * many))
    many = -(-seeds // (2 * pairs))

    def needed(many: int, together: int) -> int:
        return threads * chunk_bytes(spec, objective, slots, many, together, checkpoints)

    while needed(many, together) > memory and many > 1:
        many = (many + 1) // 2
    while needed(many, together) > memory and together > 1:
        together = (together + 1) // 2
    if needed(many, together) > memory:
        gigabytes = needed(1, 1) / 1e9
        _check.fail("memory", memory, f">= {gigabytes:.3g}e9 bytes, what one run a thread needs")
    return Plan(many, together)


def chunk_bytes(
    spec: TrainSpec, objective: Objective, slots: int, seeds: int, neighbours: int, checkpoints: int
) -> int:
    """Memory of one chunk at its peak, from above."""
    number = 4 if spec.dtype == "float32" else 8
    runs, parameters = seeds * neighbours, objective.parameters
    # Poisson batches are padded to the largest drawn; six standard deviations cover it.
    batch = spec.batch_size
    if spec.order == "poisson":
        batch += int(6 * batch**0.5) + 1
    clipped_alone = spec.objective.kind == "cnn" and spec.max_grad_norm is not None
    # Weights, their sum, a copy or two of the touched ones, and what the checkpoints keep.
    weights = runs * parameters * (4 + checkpoints + (2 * batch if clipped_alone else 0))
    # The batch, and about four arrays the size of the largest intermediate.
    step = seeds * batch * parameters + 4 * runs * batch * objective.width
    per_epoch = spec.steps_per_epoch(slots)
    noise = seeds * min(per_epoch, NOISE_STEPS) * parameters * 3 if spec.noise_multiplier else 0
    order = 24 * seeds * per_epoch * batch
    return int(number * (weights + step + noise) + order)


NOISE_STEPS = 256
"""Steps whose noise is drawn ahead at once."""
