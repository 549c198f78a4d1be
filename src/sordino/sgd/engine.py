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

import itertools
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import scipy.linalg.cython_blas  # noqa: F401  (what compiled loops call; see _SingleThreadedBlas)
import threadpoolctl
import torch

from sordino import checks
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.randomness import Streams
from sordino.sgd import grid as grids
from sordino.sgd.batches import Epoch, epochs
from sordino.sgd.grid import Grid, NoiseSource, Plan, prepare
from sordino.sgd.kernels import full_batch, full_softmax, linear, network
from sordino.sgd.kernels.full_batch import FullBatch
from sordino.sgd.kernels.full_softmax import FullSoftmax
from sordino.sgd.kernels.network import Branches
from sordino.sgd.spec import TrainSpec
from sordino.types import Array


class _Cancelled(Exception):
    """A chunk that was told to stop."""


@dataclass
class _Pulse:
    """Between a chunk and whoever waits for it in another thread: how far it is, and stop."""

    steps: int = 0
    stop: bool = False


class Chunk:
    """One chunk's training: its weights, where they stand, and the loop over segments."""

    def __init__(
        self, grid: Grid, seeds: slice, neighbours: slice, pulse: _Pulse | None = None
    ) -> None:
        self.grid, self.spec, self.pulse = grid, grid.spec, pulse or _Pulse()
        self.seeds, self.table = grid.seeds[seeds], grid.table.of(neighbours)
        if grid.initial is None:
            streams = (grid.streams.stream("initial weights", seed) for seed in self.seeds)
            first = np.stack([grid.objective.init(stream) for stream in streams])
        else:
            first = np.stack([grid.initial] * len(self.seeds))
        start = torch.tensor(first, dtype=getattr(torch, self.spec.dtype))
        softmax = full_softmax.applies(self.spec, grid.slots)
        shares = _by_torch(self.spec) and not softmax
        how = {"shares": shares, "averages": self.spec.average_every is not None}
        self.branches = Branches(grid.objective, start, len(self.table.slot), **how)
        wanted = self.seeds if self.spec.noise_multiplier else ()
        self.noise = [grid.noise.stream("noise", seed) for seed in wanted]
        self.drawn: torch.Tensor | None = None  # noise of coming steps, of full batches
        self.full: FullBatch | FullSoftmax | None = None
        many = grid.neighbours
        if full_batch.applies(self.spec, grid.slots, len(grid.seeds) * many):
            rows, datasets = np.arange(seeds.start, seeds.stop) * many, range(many)[neighbours]
            places, sizes = rows[:, None] + datasets, (grid.slots, grid.objective.parameters)
            self.full = FullBatch(self.spec, self.table, *sizes, places)
        elif softmax:
            chunk = self.table, grid.slots, len(self.seeds)
            threads = max(1, grid.threads // len(grid.chunks()))
            self.full = FullSoftmax(grid.objective, self.spec, *chunk, threads)
        self.runs = len(self.seeds) * len(self.table.slot)

    def train(self) -> Array:
        """Train, and return [seed, neighbour, checkpoint, parameter]."""
        grid, spec = self.grid, self.spec
        steps = spec.total_steps(grid.slots)
        kept = {step: place for place, step in enumerate(grid.checkpoints)}
        shape = (len(self.seeds), len(self.table.slot), len(kept), grid.objective.parameters)
        out = np.empty(shape, dtype=spec.dtype)
        if 0 in kept:
            out[:, :, kept[0]] = self.branches.weights()
        taken = updates = since_average = since_restart = 0
        if self.full is None:
            orders = epochs(spec, grid.slots, self.seeds, grid.streams, self.table.nothing)
        else:  # an epoch is one step, of all rows
            orders = itertools.repeat(Epoch(np.empty((0, 1, 0), np.int32), np.array([grid.slots])))
        while taken < steps:
            epoch = next(orders)
            length = min(len(epoch.width), steps - taken)
            whole = length == len(epoch.width)
            rates = spec.schedule.over(updates + 1, length, since_restart + 1)
            averages = whole and spec.average_every == since_average + 1
            for part in self._segments(taken, length):
                self.pulse.steps = taken + part.start
                if self.pulse.stop:
                    raise _Cancelled
                self._descend(epoch.part(part), rates[part], steps - taken)
                if averages and part.stop == length:
                    self.branches.average((spec.average_every or 1) * length)
                if taken + part.stop in kept:
                    out[:, :, kept[taken + part.stop]] = self.branches.weights()
            taken, updates = taken + length, updates + length
            since_average = 0 if averages else since_average + 1
            since_restart += 1
            if since_restart == spec.restart_every:
                since_restart = updates = 0
        return out

    def _segments(self, taken: int, length: int) -> list[slice]:
        """Cut an epoch's steps at checkpoints, and into parts that are soon over.

        Between parts a chunk can be stopped; and noise drawn ahead stays small.
        """
        cuts = {step - taken for step in self.grid.checkpoints if 0 < step - taken < length}
        together = grids.NOISE_STEPS
        if not self.spec.noise_multiplier or isinstance(self.full, FullSoftmax):
            each = self.grid.objective.step_operations(self.spec.batch_size) * self.runs
            few = int(grids.CHUNK_OPERATIONS / each) + 1
            together = min(few, together) if self.spec.noise_multiplier else few
        cuts.update(range(together, length, together))
        edges = [0, *sorted(cuts), length]
        return [slice(a, b) for a, b in itertools.pairwise(edges)]

    def _descend(self, epoch: Epoch, rates: npt.NDArray[np.float64], left: int) -> None:
        """Take these steps, of `left` that are still to come."""
        noise = self._draw(len(rates), left)
        if self.full is None and _by_torch(self.spec):
            args = (self.table, self.branches, epoch, rates, noise)
            network.descend(self.grid.objective, self.spec, *args)
            return
        weights = self.branches.params[0]
        total = None if self.branches.total is None else self.branches.total[0]
        if self.full is not None:
            self.full.descend(weights, total, rates, noise)
        else:
            linear.descend(self.spec, self.table, weights, total, epoch, rates, noise)

    def _draw(self, steps: int, left: int) -> torch.Tensor | None:
        """Noise of these steps [seed, step, parameter]; a stream gives the same in any parts."""
        if not self.spec.noise_multiplier:
            return None
        if self.full is None:
            return self._drawn(steps)
        # One step at a time would be thousands of calls for a handful of numbers.
        if self.drawn is None or not self.drawn.shape[1]:
            self.drawn = self._drawn(min(left, grids.NOISE_STEPS))
        now, self.drawn = self.drawn[:, :steps], self.drawn[:, steps:]
        return now.contiguous()  # the layout that the loop was compiled for

    def _drawn(self, steps: int) -> torch.Tensor:
        shape = (len(self.noise), steps, self.grid.objective.parameters)
        drawn = np.empty(shape, dtype=self.spec.dtype)
        for run, noise in enumerate(self.noise):
            # Drawn in float64 whatever the precision of the run, so that both see the same noise.
            normal = np.asarray(noise.standard_normal((shape[1], shape[2])))
            if normal.shape != shape[1:] or not np.isfinite(normal).all():
                # Anything else would be spread over the steps, or take the noise away.
                checks.fail("noise", normal.shape, f"to be {shape[1:]} finite numbers")
            drawn[run] = normal
        return torch.from_numpy(drawn)


def _by_torch(spec: TrainSpec) -> bool:
    """Whether steps are taken by `network`, where runs share a branch; else by a compiled loop."""
    return not spec.objective.is_linear


_BEAT = 0.5
"""Seconds between two looks at chunks under way."""
_PATIENCE = 3.0
"""Seconds that chunks under way get to end after Ctrl-C: most need one."""


@dataclass(frozen=True)
class Progress:
    """How far a grid has come.

    >>> Progress(runs_done=50, runs_total=100, seconds=2.0).runs_per_second
    25.0
    """

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
        self.weights, self.finished = weights, finished


@dataclass(frozen=True, eq=False)
class _Finished:
    """Finished runs: positions in the grid, and their weights [seed, neighbour, checkpoint, p]."""

    seeds: slice
    neighbours: slice
    weights: Array


class _GridOptions(TypedDict, total=False):
    """What `prepare` can be told beside the grid itself; `train` says what it means."""

    initial_weights: Array | None
    streams: Streams | None
    noise: NoiseSource | None
    plan: Plan | None
    memory: int | None
    threads: int | None


def train(
    spec: TrainSpec,
    dataset: Dataset,
    seeds: Sequence[int],
    neighbours: Neighbours | None = None,
    checkpoints: Sequence[int] | None = None,
    *,
    progress: Callable[[Progress], None] | None = None,
    **how: Unpack[_GridOptions],
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

    Examples
    --------
    >>> from sordino.models import ObjectiveSpec
    >>> data = Dataset([[0.6, 0.8], [0.0, 1.0], [1.0, 0.0]], [0, 1, 1])
    >>> spec = TrainSpec(ObjectiveSpec("logistic"), 0.5, batch_size=1, steps=4)
    >>> train(spec, data, seeds=range(5)).shape
    (5, 1, 1, 3)
    """
    grid = prepare(spec, dataset, seeds, neighbours, checkpoints, **how)
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
) -> Iterator[_Finished]:
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
    running: dict[Future[_Finished], tuple[_Pulse, int]] = {}
    interrupted, patience = False, math.inf
    with (
        _single_threaded_blas,
        ThreadPoolExecutor(grid.threads, "", torch.set_num_threads, (1,)) as pool,
        # Whoever leaves early, by an error or for good, does not wait for chunks under way.
        ExitStack() as end,
    ):
        end.callback(_stop, running)
        while waiting or running:
            if time.perf_counter() > patience:
                _stop(running)
            try:
                while waiting and len(running) < grid.threads:
                    box, pulse = waiting.pop(), _Pulse()
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
                if isinstance(future.exception(), _Cancelled):
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


def _stop(running: dict[Future[_Finished], tuple[_Pulse, int]]) -> None:
    for pulse, _ in running.values():
        pulse.stop = True


def _runs(seeds: slice, neighbours: slice) -> int:
    return int((seeds.stop - seeds.start) * (neighbours.stop - neighbours.start))


def _train_chunk(grid: Grid, box: tuple[slice, slice], pulse: _Pulse) -> _Finished:
    with torch.no_grad():
        return _Finished(*box, Chunk(grid, *box, pulse).train())


class _SingleThreadedBlas:
    """BLAS on one core while any grid is being trained: the workers are the parallelism.

    The setting belongs to the process, so the first grid in makes it and the last one out puts
    it back. (torch's belongs to the thread; each worker makes its own.) It reaches the libraries
    that are loaded: scipy's, which compiled loops call, must be there before the first product.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
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
