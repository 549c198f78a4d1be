"""`TrainedRelease`: our SGD as a mechanism, thousands of runs at once by the engine."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.audit.called import Stretch
from sordino.audit.difference import difference
from sordino.audit.score_file import digest
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import EMPTY, UNCHANGED, Neighbours
from sordino.privacy import Sampling
from sordino.randomness import RESULTS, Name, SeededStreams
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats

if TYPE_CHECKING:
    from sordino.sgd.grid import Grid


Found = Iterator[tuple[int, int, Floats]]
"""World, first run, outputs [run, value]."""

_NOISE_RUNS = 256  # whose noise is drawn at once; part of what a seed stands for


def is_deterministic(spec: TrainSpec) -> bool:
    """Whether training gives the same weights every time."""
    return spec.order == Sampling.CYCLIC and spec.init != "vary" and spec.noise_multiplier == 0


@dataclass(frozen=True, eq=False)
class TrainedRelease:
    """Train by our SGD, add Gaussian noise to the weights, release them.

    Run r of both worlds has the same batches, start and step noise, since the engine trains both
    for little more than the price of one. That is valid: every bound here is a union of one
    statement about the runs of D and one about those of D', so runs must be independent within a
    world, not between worlds. The noise of the release is drawn anew for each.

    Parameters
    ----------
    spec
        How to train.
    scale
        Standard deviation of the noise that the release adds to each weight.
    initial_weights
        [parameter], where spec.init is "given".
    checkpoints
        Steps whose weights are all released; None releases the last only.
    """

    spec: TrainSpec
    scale: float = 0.0
    initial_weights: npt.ArrayLike | None = None
    checkpoints: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.spec, TrainSpec):
            checks.fail("spec", type(self.spec).__name__, "to be a TrainSpec")
        object.__setattr__(self, "scale", checks.non_negative("scale", self.scale))

    @property
    def deterministic(self) -> bool:
        """Whether training gives the same weights every time, so that one run is enough."""
        return is_deterministic(self.spec)

    def described(self) -> dict[str, Any]:
        """Everything that makes it, as plain values."""
        start = None if self.initial_weights is None else digest(np.asarray(self.initial_weights))
        steps = None if self.checkpoints is None else [int(step) for step in self.checkpoints]
        given = {"scale": self.scale, "initial_weights_sha256": start, "checkpoints": steps}
        return {"spec": self.spec.to_dict(), **given}


class _Streams(SeededStreams):
    """Streams of an audit's own; but a start that the spec fixes is the same for everybody."""

    def stream(self, *name: Name) -> np.random.Generator:
        if name[0] == "fixed initial weights":
            return SeededStreams().stream(*name)
        return super().stream(*name)


class OwnRuns:
    """Runs of one of our own releases in two worlds, independent of each other within a world."""

    def __init__(self, release: Any, D: Dataset, D_prime: Dataset | Neighbours, seed: int) -> None:
        self.release = release
        self.D = D
        self.D_prime = D_prime
        self.seed = seed
        self.streams = _Streams(f"audit {seed}")

    def described(self) -> dict[str, Any]:
        """What is run, for a file."""
        other: Any = self.D_prime
        if isinstance(other, Neighbours):
            parts = (other.members, other.slot, other.occupant, other.extra_X, other.extra_y)
            other = (other.dataset.fingerprint, *parts)
        return {
            "mechanism": {**self.release.described(), "sordino": RESULTS},
            "D": digest(self.D),
            "D_prime": digest(other),
            "seed": self.seed,
        }

    def normals(self, what: str, task: Stretch, together: int, columns: int, *name: Name) -> Floats:
        """Of the runs of a task within one block: the same whichever others are made."""
        start = task.start - task.start % together
        stream = self.streams.stream(what, task.world, start, *name)
        return stream.standard_normal((task.stop - start, columns))[task.start - start :]


def aligned_slot(D: Dataset, D_prime: Dataset) -> int | None:
    """The one slot in which two datasets differ, if it is one."""
    found = difference(D, D_prime)
    return found.gained if found is not None and found.aligned else None


def with_record_of(D: Dataset, D_prime: Dataset, slot: int) -> Neighbours:
    """Both datasets as one grid: they differ in one slot."""
    row = slice(slot, slot + 1)
    return neighbouring.replace(D, [slot], D_prime.X[row], D_prime.y[row])


def _finite_chunks(grid: Grid, only: Any = None) -> Iterator[Any]:
    """Train a grid, or some chunks of it; refused if a run diverges."""
    from sordino.sgd.engine import train_chunks

    for chunk in train_chunks(grid, only=only):
        if not np.isfinite(chunk.weights).all():
            hint = "Lower the learning rate, or clip."
            checks.fail("spec", "[a training that diverges]", "to give finite weights", hint)
        yield chunk


class Trained(OwnRuns):
    """Runs of a `TrainedRelease`."""

    def __call__(self, runs: int, missing: list[Stretch], workers: int) -> Found:
        """Make the missing ones of so many runs, and perhaps a few of the others again."""
        if not missing:
            return
        for grid, worlds in self._grids(1 if self.release.deterministic else runs, workers):
            for world, start, weights in self._trained(grid, worlds, missing):
                if self.release.deterministic:
                    for task in (task for task in missing if task.world == world):
                        yield from self._released(task, weights)
                else:
                    task = Stretch(world, start, start + len(weights))
                    yield from self._released(task, weights)

    def _trained(self, grid: Grid, worlds: Sequence[int], missing: list[Stretch]) -> Found:
        """Weights before the noise, of those chunks of the grid that hold missing runs."""
        needed = [
            (seeds, places)
            for seeds, places in grid.chunks()
            if len(grid.seeds) == 1
            or any(
                worlds[place] == task.world and seeds.start < task.stop and task.start < seeds.stop
                for place in range(places.start, places.stop)
                for task in missing
            )
        ]
        for chunk in _finite_chunks(grid, needed):
            rows = chunk.weights.astype(np.float64)
            for column, place in enumerate(range(chunk.neighbours.start, chunk.neighbours.stop)):
                weights = rows[:, column].reshape(len(rows), -1)
                yield worlds[place], chunk.seeds.start, weights

    def _released(self, task: Stretch, weights: Floats) -> Found:
        """Add the noise, in blocks: one row of weights stands for all runs of the task."""
        width = weights.shape[1]
        for block in task.blocks(_NOISE_RUNS):
            inside = slice(block.start - task.start, block.stop - task.start)
            rows = weights if len(weights) == 1 else weights[inside]
            if self.release.scale:
                noise = self.normals("release", block, _NOISE_RUNS, width)
                rows = rows + self.release.scale * noise
            yield task.world, block.start, np.broadcast_to(rows, (len(block), width))

    def _grids(self, runs: int, workers: int) -> Iterator[tuple[Grid, Sequence[int]]]:
        """Both worlds in one grid where they differ in one slot, else one after the other."""
        pair = self._pair()
        if pair is not None:
            yield self._grid(self.D, pair, runs, workers), (0, 1)
            return
        assert isinstance(self.D_prime, Dataset)
        for world, data in enumerate((self.D, self.D_prime)):
            yield self._grid(data, None, runs, workers), (world,)

    def _grid(self, data: Dataset, neighbours: Neighbours | None, runs: int, workers: int) -> Grid:
        from sordino.sgd.grid import prepare

        start = self.release.initial_weights
        return prepare(
            self.release.spec,
            data,
            range(runs),
            neighbours,
            self.release.checkpoints,
            initial_weights=None if start is None else np.asarray(start, dtype=np.float64),
            streams=self.streams,
            threads=workers,
        )

    def _pair(self) -> Neighbours | None:
        other = self.D_prime
        if isinstance(other, Neighbours):
            if len(other) != 1:
                checks.fail("D_prime", f"[{len(other)} neighbours]", "to be one", "Use take(...).")
            slot, occupant = np.append(UNCHANGED, other.slot), np.append(EMPTY, other.occupant)
            return dataclasses.replace(other, slot=slot, occupant=occupant)
        place = aligned_slot(self.D, other)
        return None if place is None else with_record_of(self.D, other, place)


TOGETHER = 64
"""Runs of which all problems are trained before the next ones begin; part of what a seed means."""


@dataclass(frozen=True, eq=False)
class TrainedProblems:
    """Train one problem a class by our SGD, add Gaussian noise to all weights, release them.

    Labels of its datasets are class numbers. Run r of both worlds has the same batches and step
    noise, as of a `TrainedRelease`, and for the same reason.

    Parameters
    ----------
    spec
        How to train each problem; starts are given.
    start
        Initial weights [problem, column].
    scale
        Standard deviation of the noise that the release adds to each weight.
    """

    spec: TrainSpec
    start: Floats
    scale: float = 0.0

    @property
    def deterministic(self) -> bool:
        """Whether training gives the same weights every time, so that one run is enough."""
        return is_deterministic(self.spec)

    def described(self) -> dict[str, Any]:
        """Everything that makes it, as plain values."""
        start = digest(self.start)
        return {"spec": self.spec.to_dict(), "scale": self.scale, "starts_sha256": start}


@dataclass
class _NoiseOf:
    """Step noise of one problem, independent of that of the others."""

    streams: SeededStreams
    problem: int
    repeatable: bool = True

    def stream(self, *name: Name) -> np.random.Generator:
        return self.streams.stream(*name, self.problem)


class TrainedAll(OwnRuns):
    """Runs of `TrainedProblems` in two worlds, which are datasets."""

    def __call__(self, runs: int, missing: list[Stretch], workers: int) -> Found:
        """Make the missing runs, and perhaps the same of the other world again."""
        once = None
        if missing and self.release.deterministic:
            once = self._trained(range(1), workers)
        for seeds in _together(missing):
            both = self._trained(seeds, workers) if once is None else once
            for world, weights in enumerate(both):
                rows = np.broadcast_to(weights, (len(seeds), weights.shape[1]))
                yield world, seeds.start, rows + self._noise(world, seeds, weights.shape[1])

    @functools.cached_property
    def _slot(self) -> int | None:
        """The one in which the worlds differ, if it is one."""
        return aligned_slot(*self._worlds)

    @property
    def _worlds(self) -> tuple[Dataset, Dataset]:
        assert isinstance(self.D_prime, Dataset)
        return self.D, self.D_prime

    def _noise(self, world: int, seeds: range, width: int) -> Floats | float:
        if not self.release.scale:
            return 0.0
        task = Stretch(world, seeds.start, seeds.stop)
        return np.asarray(self.release.scale * self.normals("release", task, TOGETHER, width))

    def _trained(self, seeds: range, workers: int) -> Floats:
        """Weights before the noise of the release: [world, run, weight]."""
        problems, columns = self.release.start.shape
        found = np.empty((2, len(seeds), problems, columns))
        for problem in range(problems):
            for grid, worlds in self._grids(problem, seeds, workers):
                weights = found[worlds, :, problem]  # a view
                for chunk in _finite_chunks(grid):
                    last = chunk.weights[:, :, -1].transpose(1, 0, 2)
                    weights[chunk.neighbours, chunk.seeds] = last
        return found.reshape(2, len(seeds), -1)

    def _grids(self, problem: int, seeds: range, workers: int) -> Iterator[tuple[Grid, slice]]:
        """Both worlds in one grid where they differ in one slot, else one after the other."""
        D, D_prime = (self._problem(each, problem) for each in self._worlds)
        if self._slot is not None:
            pair = with_record_of(D, D_prime, self._slot)
            yield self._grid(D, pair, problem, seeds, workers), slice(0, 2)
            return
        yield self._grid(D, None, problem, seeds, workers), slice(0, 1)
        yield self._grid(D_prime, None, problem, seeds, workers), slice(1, 2)

    def _grid(
        self, D: Dataset, pair: Neighbours | None, problem: int, seeds: range, workers: int
    ) -> Grid:
        from sordino.sgd.grid import prepare

        return prepare(
            *(self.release.spec, D, seeds, pair),
            initial_weights=self.release.start[problem],
            streams=self.streams,
            noise=_NoiseOf(self.streams, problem),
            threads=workers,
        )

    @staticmethod
    def _problem(data: Dataset, problem: int) -> Dataset:
        return Dataset(data.X, (data.y == problem).astype(np.int64), data.norm_bound, data.name)


def _together(missing: list[Stretch]) -> Iterator[range]:
    """Runs that are missing in either world, in blocks."""
    wanted: dict[int, tuple[int, int]] = {}
    for task in missing:
        for block in task.blocks(TOGETHER):
            start = block.start - block.start % TOGETHER
            first, last = wanted.get(start, (block.start, block.stop))
            wanted[start] = min(first, block.start), max(last, block.stop)
    for start in sorted(wanted):
        yield range(*wanted[start])
