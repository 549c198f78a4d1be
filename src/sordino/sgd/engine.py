"""The engine: a grid of [seed, neighbour] runs, cut into chunks, trained on all cores.

    for each chunk of seeds and neighbours (in worker threads, each with torch on one core):
        weights = initial weights of each seed, the same for all neighbours
        for each epoch of the seeds' orders, cut at checkpoints:
            linear.descend or network.descend takes its steps in place
            average and restart where the spec says so

A run's randomness comes from its seed alone: streams ("order", seed), ("initial weights", seed),
and for the noise ("noise", seed) of the injected noise source.
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg.cython_blas  # noqa: F401  (what compiled loops call; see _SingleThreadedBlas)
import threadpoolctl
import torch

from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.randomness import Streams
from sordino.sgd.chunk import Chunk, Pulse, Stopped
from sordino.sgd.grid import Grid, NoiseSource, prepare
from sordino.sgd.planning import Plan
from sordino.sgd.spec import TrainSpec
from sordino.types import Array

_BEAT = 0.5
"""Seconds between two looks at chunks under way."""
_PATIENCE = 3.0
"""Seconds that chunks under way get to end after Ctrl-C: most need one."""


@dataclass(frozen=True)
class Progress:
    """How far a grid has come."""

    runs_done: int
    runs_total: int
    seconds: float

    @property
    def runs_per_second(self) -> float:
        """Speed so far."""
        return self.runs_done / self.seconds if self.seconds > 0 else math.nan


class DivergenceWarning(RuntimeWarning):
    """Some runs left the finite numbers; their weights are infinite or NaN."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C between chunks. What was finished is in `weights`; unfinished runs are NaN.

    `finished` [seed, neighbour] says which runs are whole.
    """

    def __init__(self, weights: Array, finished: npt.NDArray[np.bool_]) -> None:
        super().__init__(f"stopped after {int(finished.sum())} of {finished.size} runs")
        self.weights = weights
        self.finished = finished


@dataclass(frozen=True, eq=False)
class Finished:
    """Finished runs: positions in the grid, and their weights [seed, neighbour, checkpoint, p]."""

    seeds: slice
    neighbours: slice
    weights: Array


def train(
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
    progress: Callable[[Progress], None] | None = None,
) -> Array:
    """Train every seed on every neighbouring dataset; return their weights.

    Parameters
    ----------
    spec
        How to train.
    dataset
        The records; see `Dataset`.
    seeds
        One run a seed on each dataset. For one seed all datasets see the same order, the same
        initial weights and the same noise; trials that must be independent need different seeds.
    neighbours
        From `sordino.data.neighbours`; None trains on the dataset itself alone.
    checkpoints
        Steps after which to keep the weights; None keeps the last only. 0 is the start.
    initial_weights
        [parameter], where spec.init is "given".
    streams
        Randomness of orders and initial weights; repeatable from the seed by default.
    noise
        Source of the noise where the spec adds any; by default the seeded one, which is for
        experiments and protects nobody.
    plan
        Seeds and neighbours in one chunk; chosen by memory and cache if not given.
    memory
        Bytes the engine may use, beside the dataset given and the weights returned; a quarter
        of the machine by default.
    threads
        Worker threads; all cores of this process by default.
    progress
        Called after each chunk, which is a second's work or so (a CNN's: some seconds), with a
        `Progress`.

    Returns
    -------
    weights
        Array [seed, neighbour, checkpoint, parameter]; `sordino.models.build` makes the
        objective whose `accuracy`, `loss` and `predict` take it as it is. A run that diverged
        has weights that are not finite, and is warned about (`DivergenceWarning`).

    Raises
    ------
    Interrupted
        On Ctrl-C, after the chunks under way; it carries what was finished.
    """
    grid = prepare(
        spec,
        dataset,
        seeds,
        neighbours,
        checkpoints,
        initial_weights=initial_weights,
        streams=streams,
        noise=noise,
        plan=plan,
        memory=memory,
        threads=threads,
    )
    weights = np.full(grid.shape, np.nan, dtype=spec.dtype)
    finished = np.zeros(grid.shape[:2], dtype=bool)
    try:
        for chunk in train_chunks(grid, progress):
            weights[chunk.seeds, chunk.neighbours] = chunk.weights
            finished[chunk.seeds, chunk.neighbours] = True
    except KeyboardInterrupt:
        raise Interrupted(weights, finished) from None
    diverged = int(np.count_nonzero(~np.isfinite(weights).all(axis=(2, 3))))
    if diverged:
        sentence = f"{diverged:,} of {finished.size:,} runs diverged: their weights are not finite."
        warnings.warn(f"{sentence} Lower the learning rate.", DivergenceWarning, stacklevel=2)
    return weights


def train_chunks(
    grid: Grid,
    progress: Callable[[Progress], None] | None = None,
    *,
    only: Sequence[tuple[slice, slice]] | None = None,
    under_way: Callable[[float], None] | None = None,
) -> Iterator[Finished]:
    """Yield chunks as they finish, in any order; those of `grid.chunks()`, or `only` these.

    On one kind of machine, a chunk has the same bytes whichever others are trained (another
    processor or BLAS may add in another order). On Ctrl-C no new chunk is started, those that end
    within a few seconds are yielded, and then KeyboardInterrupt is raised. `under_way` is called
    now and then with the work that unfinished chunks have done, in runs.
    """
    started = time.perf_counter()
    waiting = list(reversed(grid.chunks() if only is None else only))
    done, total = 0, sum(_runs(*chunk) for chunk in waiting)
    steps = max(1, grid.spec.total_steps(grid.slots))
    running: dict[Future[Finished], tuple[Pulse, int]] = {}
    interrupted, patience = False, math.inf
    with (
        _single_threaded_blas,
        ThreadPoolExecutor(grid.threads, initializer=_own_core) as pool,
        _stopped_at_the_end(running),
    ):
        while waiting or running:
            if time.perf_counter() > patience:
                _stop(running)
            try:
                while waiting and len(running) < grid.threads:
                    box, pulse = waiting.pop(), Pulse()
                    future = pool.submit(_train_chunk, grid, box, pulse)
                    running[future] = pulse, _runs(*box)
                finished, _ = wait(running, timeout=_BEAT, return_when=FIRST_COMPLETED)
                if under_way is not None and not finished:
                    under_way(sum(pulse.steps / steps * many for pulse, many in running.values()))
            except KeyboardInterrupt:
                waiting.clear()
                patience = 0.0 if interrupted else time.perf_counter() + _PATIENCE
                interrupted = True
                continue
            for future in finished:
                del running[future]
                if isinstance(future.exception(), Stopped):
                    continue
                chunk = future.result()
                yield chunk
                done += _runs(chunk.seeds, chunk.neighbours)
                try:
                    if progress is not None:
                        progress(Progress(done, total, time.perf_counter() - started))
                except KeyboardInterrupt:
                    waiting.clear()
                    interrupted, patience = True, time.perf_counter() + _PATIENCE
    if interrupted:
        raise KeyboardInterrupt


def _stop(running: dict[Future[Finished], tuple[Pulse, int]]) -> None:
    for pulse, _ in running.values():
        pulse.stop = True


@contextmanager
def _stopped_at_the_end(running: dict[Future[Finished], tuple[Pulse, int]]) -> Iterator[None]:
    """Whoever leaves early, by an error or for good, does not wait for chunks under way."""
    try:
        yield
    finally:
        _stop(running)


def _runs(seeds: slice, neighbours: slice) -> int:
    return int((seeds.stop - seeds.start) * (neighbours.stop - neighbours.start))


def _own_core() -> None:
    torch.set_num_threads(1)  # of this worker's own products


def _train_chunk(grid: Grid, box: tuple[slice, slice], pulse: Pulse) -> Finished:
    with torch.no_grad():
        return Finished(*box, Chunk(grid, *box, pulse).train())


class _SingleThreadedBlas:
    """BLAS on one core while any grid is being trained: the workers are the parallelism.

    The setting belongs to the process, so the first grid in makes it and the last one out puts
    it back. (torch's belongs to the thread; each worker makes its own.) It reaches the libraries
    that are loaded: scipy's, which compiled loops call, must be there before the first product.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits: threadpoolctl.threadpool_limits | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._limits = threadpoolctl.threadpool_limits(1, "blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._limits is not None:
                self._limits.restore_original_limits()
                # Threads started from now on take torch's latest setting, which was a worker's.
                torch.set_num_threads(torch.get_num_threads())


_single_threaded_blas = _SingleThreadedBlas()
