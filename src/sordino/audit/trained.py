"""`TrainedRelease`: our SGD as a mechanism, thousands of runs at once by the engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino import _check
from sordino.audit.called import Task
from sordino.audit.difference import difference
from sordino.audit.score_file import digest
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import EMPTY, UNCHANGED, Neighbours
from sordino.privacy import Sampling
from sordino.seeding import RESULTS, Name, SeededStreams
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats

if TYPE_CHECKING:
    from sordino.sgd.grid import Grid

Found = Iterator[tuple[int, int, Floats]]
"""World, first run, outputs [run, value]."""

_NOISE_RUNS = 256  # whose noise is drawn at once; part of what a seed stands for


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
            _check.fail("spec", type(self.spec).__name__, "to be a TrainSpec")
        object.__setattr__(self, "scale", _check.non_negative("scale", self.scale))

    @property
    def deterministic(self) -> bool:
        """Whether training gives the same weights every time, so that one run is enough."""
        spec = self.spec
        return spec.order == Sampling.CYCLIC and spec.init != "vary" and spec.noise_multiplier == 0

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


class Trained:
    """Runs of a `TrainedRelease`."""

    def __init__(
        self, release: TrainedRelease, D: Dataset, D_prime: Dataset | Neighbours, seed: int
    ) -> None:
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

    def __call__(self, runs: int, missing: list[Task], workers: int) -> Found:
        """Make the missing ones of so many runs, and perhaps a few of the others again."""
        if not missing:
            return
        for grid, worlds in self._grids(1 if self.release.deterministic else runs, workers):
            for world, start, weights in self._trained(grid, worlds, missing):
                if self.release.deterministic:
                    for task in (task for task in missing if task.world == world):
                        yield from self._released(task, weights)
                else:
                    task = Task(world, start, start + len(weights))
                    yield from self._released(task, weights)

    def _trained(self, grid: Grid, worlds: Sequence[int], missing: list[Task]) -> Found:
        """Weights before the noise, of those chunks of the grid that hold missing runs."""
        from sordino.sgd.engine import train_chunks

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
        for chunk in train_chunks(grid, only=needed):
            if not np.isfinite(chunk.weights).all():
                hint = "Lower the learning rate, or clip."
                _check.fail("spec", "[a training that diverges]", "to give finite weights", hint)
            rows = chunk.weights.astype(np.float64)
            for column, place in enumerate(range(chunk.neighbours.start, chunk.neighbours.stop)):
                weights = rows[:, column].reshape(len(rows), -1)
                yield worlds[place], chunk.seeds.start, weights

    def _released(self, task: Task, weights: Floats) -> Found:
        """Add the noise, in blocks: one row of weights stands for all runs of the task."""
        width = weights.shape[1]
        for start in range(task.start - task.start % _NOISE_RUNS, task.stop, _NOISE_RUNS):
            first, last = max(start, task.start), min(start + _NOISE_RUNS, task.stop)
            rows = weights if len(weights) == 1 else weights[first - task.start : last - task.start]
            if self.release.scale:
                stream = self.streams.stream("release", task.world, start)
                noise = stream.standard_normal((last - start, width))[first - start :]
                rows = rows + self.release.scale * noise
            yield task.world, first, np.broadcast_to(rows, (last - first, width))

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
                _check.fail("D_prime", f"[{len(other)} neighbours]", "to be one", "Use take(...).")
            slot, occupant = np.append(UNCHANGED, other.slot), np.append(EMPTY, other.occupant)
            return dataclasses.replace(other, slot=slot, occupant=occupant)
        found = difference(self.D, other)
        if found is None or not found.aligned or found.gained is None:
            return None
        row = slice(found.gained, found.gained + 1)
        return neighbouring.replace(self.D, [found.gained], other.X[row], other.y[row])
