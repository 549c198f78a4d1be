"""The order of examples: which slots make up each batch of each run, epoch by epoch.

An order depends on the seed alone: it is drawn from the stream ("order", seed), one epoch after
the other, so chunks, threads and checkpoints cannot change it.

`AllocationSampler` draws batches for loaders of others, from the operating system.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.models.kernels.compile import compiled
from sordino.privacy import VARYING, Sampling
from sordino.randomness import Streams
from sordino.sgd.spec import TrainSpec

Index = npt.NDArray[np.int32]
_Hits = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Epoch:
    """Batches of one epoch for several runs.

    Attributes
    ----------
    index
        Slot numbers [seed, step, place]; `nothing` where a batch is shorter than the widest.
    width
        Places in use at each step, over all seeds: [step].
    """

    index: Index
    width: npt.NDArray[np.int64]

    def part(self, steps: slice) -> Epoch:
        """Return some consecutive steps of this epoch."""
        return Epoch(self.index[:, steps], self.width[steps])


def epochs(
    spec: TrainSpec, slots: int, seeds: Sequence[int], streams: Streams, nothing: int
) -> Iterator[Epoch]:
    """Yield epoch after epoch, without end, for these seeds."""
    generators = [streams.stream("order", seed) for seed in seeds]
    if spec.order in VARYING:
        steps = spec.batches_per_epoch(slots)
        rate = spec.batch_size / slots if spec.sample_rate is None else spec.sample_rate
        while True:
            if spec.order == Sampling.POISSON:
                hits = [_bernoulli_hits(each, steps * slots, rate) for each in generators]
            else:
                hits = [_allocation_hits(each, steps, slots) for each in generators]
            yield _lay_out(hits, slots, steps, nothing)
    orders = np.empty((len(seeds), slots), dtype=np.int32)
    orders[:] = np.arange(slots, dtype=np.int32)
    first = True
    while True:
        if spec.order == Sampling.SHUFFLE or (spec.order == Sampling.PERMUTE_ONCE and first):
            for order, generator in zip(orders, generators, strict=True):
                draw_permutation(order, generator)
        if spec.order == Sampling.SHUFFLE or first:
            epoch = _cut(orders, spec, nothing)
        first = False
        yield epoch


def _cut(orders: Index, spec: TrainSpec, nothing: int) -> Epoch:
    """Cut orders [seed, slot] into batches; the last one of an epoch may be smaller."""
    seeds, slots = orders.shape
    size, steps = spec.batch_size, spec.batches_per_epoch(slots)
    index = np.full((seeds, steps * size), nothing, dtype=np.int32)
    used = min(slots, steps * size)
    index[:, :used] = orders[:, :used]
    width = np.full(steps, size)
    width[-1] = used - (steps - 1) * size
    return Epoch(index.reshape(seeds, steps, size), width)


def _lay_out(drawn: Sequence[_Hits], slots: int, steps: int, nothing: int) -> Epoch:
    """Batches of any size, from each seed's hits: step * slots + slot, slots of a step in order."""
    counts = np.zeros((len(drawn), steps), dtype=np.int64)
    for count, hits in zip(counts, drawn, strict=True):
        _count(hits, slots, count)
    index = np.full((len(drawn), steps, max(1, int(counts.max()))), nothing, dtype=np.int32)
    for batches, hits in zip(index, drawn, strict=True):
        _place(hits, slots, np.zeros(steps, dtype=np.int64), batches)
    return Epoch(index, np.maximum(counts.max(axis=0), 1))


@compiled
def _count(hits: _Hits, slots: int, counts: _Hits) -> None:
    for hit in hits:
        counts[hit // slots] += 1


@compiled
def _place(hits: _Hits, slots: int, filled: _Hits, batches: Index) -> None:
    for hit in hits:
        step = hit // slots
        batches[step, filled[step]] = hit % slots
        filled[step] += 1


def _allocation_hits(generator: np.random.Generator, steps: int, slots: int) -> _Hits:
    """Each slot in one step, uniform and independent of the others' (docs/accounting.md)."""
    return generator.integers(steps, size=slots) * slots + np.arange(slots)


def _bernoulli_hits(generator: np.random.Generator, trials: int, rate: float) -> _Hits:
    """Positions of the successes among `trials` independent draws, by their geometric gaps."""
    if rate >= 1:
        return np.arange(trials)
    found: list[_Hits] = []
    last = -1
    while last < trials:
        expected = (trials - last) * rate
        many = int(expected + 6 * expected**0.5) + 8
        # ceil of an exponential with rate -ln(1-p) is geometric with success probability p.
        with np.errstate(over="ignore"):  # a rate near 0: the next success is never
            exponential = generator.standard_exponential(many)
            exponential /= -np.log1p(-rate)
        hits = np.empty(many, dtype=np.int64)
        inside, last = _walk(exponential, last, trials, hits)
        found.append(hits[:inside])
    return found[0] if len(found) == 1 else np.concatenate(found)


@compiled
def _walk(draws: npt.NDArray[np.float64], last: int, trials: int, hits: _Hits) -> tuple[int, int]:
    """Add up gaps; how many positions lie inside, and where the last of all gaps ends."""
    inside = 0
    for draw in draws:
        last += int(min(np.floor(draw), float(trials))) + 1
        if last < trials:
            hits[inside] = last
            inside += 1
    return inside, last


def draw_permutation(order: Index, generator: np.random.Generator) -> None:
    """Overwrite `order` with a uniform random permutation of 0..n-1.

    Fisher-Yates by Lemire's exact bounded integers; three times faster than
    Generator.permutation, which was a third of the time of the deep regime.
    """
    # Each place rejects a word with probability below n / 2^32; spares make a second round rare.
    while True:
        words = generator.integers(0, 1 << 32, size=len(order) + 64, dtype=np.uint32)
        if _shuffle(order, words):
            return


@compiled
def _shuffle(order: Index, words: npt.NDArray[np.uint32]) -> bool:
    for i in range(order.shape[0]):
        order[i] = i
    used = 0
    for i in range(order.shape[0] - 1, 0, -1):
        bound = np.uint64(i + 1)
        threshold = np.uint64((np.uint64(1) << np.uint64(32)) % bound)
        while True:
            if used == words.shape[0]:
                return False
            product = np.uint64(words[used]) * bound
            used += 1
            if (product & np.uint64(0xFFFFFFFF)) >= threshold:
                break
        j = np.int64(product >> np.uint64(32))
        kept = order[i]
        order[i] = order[j]
        order[j] = kept
    return True


class AllocationSampler:
    """Batches for `torch.utils.data.DataLoader(batch_sampler=...)`, without torch.

    Each record is in exactly one batch of an epoch, uniform and independent of the others', drawn
    anew whenever the sampler is iterated. So batches vary in size, and may be empty.

    Parameters
    ----------
    records
        How many there are.
    steps_per_epoch
        Batches of an epoch: a public number, not made from a private number of records.

    Attributes
    ----------
    epoch
        How many were begun; `sordino.accounting.interop.allocation_accountant` counts these.

    >>> batches = list(AllocationSampler(records=5, steps_per_epoch=3))
    >>> len(batches), sorted(index for batch in batches for index in batch)
    (3, [0, 1, 2, 3, 4])
    """

    def __init__(self, records: int, steps_per_epoch: int) -> None:
        self.records = checks.whole("records", records, at_least=1)
        self.steps_per_epoch = checks.whole("steps_per_epoch", steps_per_epoch, at_least=1)
        self.epoch = 0

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self.steps_per_epoch

    def __iter__(self) -> Iterator[list[int]]:
        """Begin an epoch: lists of indices."""
        self.epoch += 1
        step = drawn_below(self.steps_per_epoch, self.records, _of_system)
        order = np.argsort(step, kind="stable")
        ends = np.cumsum(np.bincount(step, minlength=self.steps_per_epoch))
        starts = np.concatenate([[0], ends[:-1]])
        return (order[a:b].tolist() for a, b in zip(starts, ends, strict=True))


def drawn_below(bound: int, size: int, draw: Callable[[int], _Words]) -> _Hits:
    """Uniform whole numbers, exactly, of the 64-bit words that `draw` gives.

    Words past the last multiple of the bound are left.
    """
    most = np.uint64((1 << 64) // bound * bound - 1)
    found = np.empty(0, dtype=np.uint64)
    while len(found) < size:
        words = draw(size - len(found))
        found = np.concatenate([found, words[words <= most]])
    return (found % np.uint64(bound)).astype(np.int64)


def _of_system(count: int) -> _Words:
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
