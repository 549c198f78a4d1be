"""All runs of an estimator or a callable: the two worlds take turns, here or in a pool.

Turns: a mechanism that drifts while it is called would else look different on D, which came first,
than on D', which came later.

A pool: each process has a copy of the mechanism. One that carries a state, such as a generator of
its own, would begin with the same state in every process, and runs would repeat each other where
the bound takes them for independent. Here, in one process, its runs follow each other and are not
repeated; so here it stays. A generator is found by looking through what would be sent. Any other
state is found by a rehearsal: each process makes the same runs twice, with the same generators
given. A mechanism without a state repeats itself; one that asks the system for randomness repeats
nothing; one with a state does not repeat itself, but the other processes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from sordino import checks
from sordino.audit.called import Block, Called, Rehearsal, Stretch, is_batched
from sordino.intrinsic.generators import carried
from sordino.intrinsic.pool import ENDED, LOST, Pool, run_all

BATCH = 1000
"""Runs of one call of a callable with `batched = True`."""

TURNS = 200
"""Into at least so many blocks the runs of a world are cut, where there are as many."""

_QUICK_SECONDS = 2.0
_KNOWN_SECONDS = 0.05
_BLOCK_SECONDS = 0.5
_BLOCK_BYTES = 1 << 26
_REHEARSAL_SECONDS = 0.2
_REHEARSED = (2, 16)
_TOLD = "Every run must give real, finite numbers of one shape."


def run(called: Called, wanted: Sequence[Stretch], workers: int) -> Iterator[tuple[Stretch, Block]]:
    """Make all runs of the tasks, in blocks: here where that is quick, else in a pool.

    A batched callable stays here: it is quick, or has cores of its own to use.

    Raises
    ------
    InvalidArgument
        If a run goes wrong; the sentence says which and how.
    """
    batch = BATCH if is_batched(called.mechanism) else None
    left = _Left(wanted, batch, called.streams.stream("turns"))
    may_go = workers > 1 and batch is None
    size, clock = 1, _Clock()
    while left.runs:
        task = left.take(size)
        with clock.over(len(task)):
            block = _judged(task, called(task))
        yield task, block
        if not left.even:
            continue  # the other world's turn, with as many runs
        most = min(_size(clock.each, block.values.shape[1]), left.most)
        if may_go and clock.seconds > _KNOWN_SECONDS and clock.each * left.runs > _QUICK_SECONDS:
            if carried(called, code=True) is None:
                yield from _in_pool(called, left.cut(most), workers, clock.each)
                return
            may_go = False
        size = min(4 * size, most)


class _Clock:
    """Seconds a run; the first block does not count, which also loads and compiles."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._runs = 0
        self._warm = False

    @property
    def each(self) -> float:
        return self.seconds / max(self._runs, 1)

    @contextmanager
    def over(self, runs: int) -> Iterator[None]:
        started = time.perf_counter()
        yield
        if self._warm:
            self.seconds += time.perf_counter() - started
            self._runs += runs
        self._warm = True


def _in_pool(
    called: Called, tasks: list[Stretch], workers: int, each: float
) -> Iterator[tuple[Stretch, Block]]:
    workers = min(workers, len(tasks))
    least, most = _REHEARSED
    many = int(min(max(_REHEARSAL_SECONDS / max(each, 1e-7), least), most))
    trial = Stretch(tasks[0].world, tasks[0].start, tasks[0].start + many)

    def begin(pool: Pool) -> None:
        found = pool.in_each(Rehearsal(trial))
        if _repeated([_rehearsed(trial, each) for each in found]):
            raise _StatefulError

    try:
        for task, found in run_all(called, tasks, workers, name="mechanism", begin=begin):
            yield task, _judged(task, found)
    except _StatefulError:  # raised before anything was run
        for task in tasks:
            yield task, _judged(task, called(task))


class _StatefulError(Exception):
    """Copies of the mechanism repeat each other."""


def _rehearsed(trial: Stretch, found: Any) -> list[Block]:
    return [_judged(trial, found)] if found is LOST else [_judged(trial, one) for one in found]


def _repeated(rehearsed: Sequence[Sequence[Block]]) -> bool:
    """Whether two processes agree, run for run, on a value of which none agrees with itself."""
    for one, other in itertools.combinations(rehearsed, 2):
        first, again, there, there_again = (block.values for block in (*one, *other))
        if not first.shape == again.shape == there.shape == there_again.shape:
            continue
        changes = (first != again).any(axis=0)
        alike = (first == there).all(axis=0) & (again == there_again).all(axis=0)
        if (changes & alike).any():
            return True
    return False


def _size(seconds: float, parameters: int) -> int:
    in_time = _BLOCK_SECONDS / max(seconds, 1e-7)
    return max(1, int(min(in_time, _BLOCK_BYTES / (8 * parameters))))


class _Left:
    """Runs that are still to be made, taken in pieces, from both worlds in turn.

    Of each two pieces chance says which world comes first, so that no rhythm of a mechanism's own
    can keep step.
    """

    def __init__(
        self, tasks: Sequence[Stretch], batch: int | None, chance: np.random.Generator
    ) -> None:
        self._worlds = [[t for t in reversed(tasks) if t.world == world] for world in (0, 1)]
        self._batch = batch
        self._chance = chance
        self._turns: list[int] = []
        self.runs = sum(map(len, tasks))
        self.most = max(1, self.runs // (2 * TURNS))

    @property
    def even(self) -> bool:
        """Whether both worlds have had their turn."""
        return not self._turns

    def take(self, most: int) -> Stretch:
        """The next runs: `most`, or one batch."""
        if not self._turns:
            both = self._chance.permutation(2).tolist()
            self._turns = [world for world in both if self._worlds[world]]
        tasks = self._worlds[self._turns.pop()]
        task = tasks.pop()
        many = most
        if self._batch:  # the same batches whatever was done before
            many = self._batch - task.start % self._batch
        stop = min(task.start + many, task.stop)
        if stop < task.stop:
            tasks.append(Stretch(task.world, stop, task.stop))
        self.runs -= stop - task.start
        return Stretch(task.world, task.start, stop)

    def cut(self, most: int) -> list[Stretch]:
        """All of them."""
        found = []
        while self.runs:
            found.append(self.take(most))
        return found


def _judged(task: Stretch, found: Any) -> Block:
    if not isinstance(found, Block):
        what = ENDED if found is LOST else found.what
        run = f"[run {task.start} on {('D', 'D_prime')[task.world]}]"
        checks.fail("mechanism", run, f"to succeed, and it {what}", _TOLD)
    return found
