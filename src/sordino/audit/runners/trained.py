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
from sordino.audit.pairs import difference
from sordino.audit.runners.runner import Blocks, Runner, Stretch, digest, in_both
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import EMPTY, UNCHANGED, Neighbours
from sordino.privacy import Sampling
from sordino.randomness import Name, SeededStreams
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats

if TYPE_CHECKING:
    from sordino.sgd.grid import Grid

_NOISE_RUNS = 256  # whose noise is drawn at once; part of what a seed stands for
_TOGETHER = 64  # runs of which all problems are trained before the next ones begin; so is this


def is_deterministic(spec: TrainSpec) -> bool:
    """Whether training gives the same weights every time, so that one run is enough."""
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

    Raises
    ------
    InvalidArgument
        For what is no `TrainSpec`, or a negative scale.

    Examples
    --------
    >>> from sordino.models import ObjectiveSpec
    >>> spec = TrainSpec(ObjectiveSpec("logistic"), learning_rate=0.5, batch_size=8, steps=50)
    >>> TrainedRelease(spec, scale=0.1).scale
    0.1
    """

    spec: TrainSpec
    scale: float = 0.0
    initial_weights: npt.ArrayLike | None = None
    checkpoints: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.spec, TrainSpec):
            checks.fail("spec", type(self.spec).__name__, "to be a TrainSpec")
        object.__setattr__(self, "scale", checks.non_negative("scale", self.scale))

    def description(self) -> dict[str, Any]:
        """Everything that makes it, as plain values."""
        start = None if self.initial_weights is None else digest(np.asarray(self.initial_weights))
        steps = None if self.checkpoints is None else [int(step) for step in self.checkpoints]
        given = {"scale": self.scale, "initial_weights_sha256": start, "checkpoints": steps}
        return {"spec": self.spec.to_dict(), **given}


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

    def description(self) -> dict[str, Any]:
        """Everything that makes it, as plain values."""
        start = digest(self.start)
        return {"spec": self.spec.to_dict(), "scale": self.scale, "starts_sha256": start}


def with_record_of(D: Dataset, D_prime: Dataset, slot: int) -> Neighbours:
    """Both datasets as one grid: they differ in one slot."""
    row = slice(slot, slot + 1)
    weights = None if D_prime.weights is None else D_prime.weights[row]
    return neighbouring.replace(D, [slot], D_prime.X[row], D_prime.y[row], weights=weights)


class _ByEngine(Runner):
    """What runs of one problem and of several share."""

    @functools.cached_property
    def _slot(self) -> int | None:
        """The one in which the worlds differ, if it is one."""
        apart = difference(*self.worlds)
        return None if apart is None else apart.slot

    def _grids(
        self, D: Dataset, other: Any, seeds: range, threads: int, start: Any, **how: Any
    ) -> Iterator[tuple[Grid, Sequence[int]]]:
        """Both worlds in one grid where they differ in one slot, else one after the other."""
        from sordino.sgd.grid import prepare

        if isinstance(other, Neighbours):
            if len(other) != 1:
                checks.fail("D_prime", f"[{len(other)} neighbours]", "to be one", "Use take(...).")
            slot, occupant = np.append(UNCHANGED, other.slot), np.append(EMPTY, other.occupant)
            overlay = dataclasses.replace(other, slot=slot, occupant=occupant)
            parts: list[Any] = [(D, overlay, (0, 1))]
        elif self._slot is not None:
            parts = [(D, with_record_of(D, other, self._slot), (0, 1))]
        else:
            parts = [(D, None, (0,)), (other, None, (1,))]
        if start is not None:
            start = np.asarray(start, dtype=np.float64)
        how |= {"initial_weights": start, "streams": self.streams, "threads": threads}
        for data, near, worlds in parts:
            yield prepare(self.mechanism.spec, data, seeds, near, **how), worlds

    @staticmethod
    def _chunks(grid: Grid, only: Any = None) -> Iterator[Any]:
        """Train a grid, or some chunks of it; refused if a run diverges."""
        from sordino.sgd.engine import train_chunks

        for chunk in train_chunks(grid, only=only):
            if not np.isfinite(chunk.weights).all():
                checks.fail("spec", "[it diverges]", "to end finite", "Lower the learning rate.")
            yield chunk


class Trained(_ByEngine):
    """Runs of a `TrainedRelease`."""

    def __call__(self, runs: int, missing: list[Stretch], workers: int, client: Any) -> Blocks:
        """Train those chunks of the grid that hold missing runs, and add the noise."""
        if not missing:
            return
        release, once = self.mechanism, is_deterministic(self.mechanism.spec)
        seeds = range(1 if once else runs)
        how = {"start": release.initial_weights, "checkpoints": release.checkpoints}
        for grid, worlds in self._grids(*self.worlds, seeds, workers, **how):
            needed = [
                (seeds, places)
                for seeds, places in grid.chunks()
                if len(grid.seeds) == 1
                or any(
                    worlds[at] == task.world and seeds.start < task.stop and task.start < seeds.stop
                    for at in range(places.start, places.stop)
                    for task in missing
                )
            ]
            for chunk in self._chunks(grid, needed):
                rows = chunk.weights.astype(np.float64)
                first, last = chunk.seeds.start, chunk.seeds.start + len(rows)
                for column in range(rows.shape[1]):
                    world = worlds[chunk.neighbours.start + column]
                    stretches = [Stretch(world, first, last)]
                    if once:
                        stretches = [task for task in missing if task.world == world]
                    for task in stretches:
                        yield from self._released(task, rows[:, column].reshape(len(rows), -1))

    def _released(self, task: Stretch, weights: Floats) -> Blocks:
        """Add the noise, in blocks: one row of weights stands for all runs of the task."""
        width = weights.shape[1]
        for block in task.blocks(_NOISE_RUNS):
            inside = slice(block.start - task.start, block.stop - task.start)
            rows = weights if len(weights) == 1 else weights[inside]
            if self.mechanism.scale:
                noise = self.normals("release", block, _NOISE_RUNS, width)
                rows = rows + self.mechanism.scale * noise
            yield task.world, block.start, np.broadcast_to(rows, (len(block), width))


@dataclass
class _NoiseOf:
    """Step noise of one problem, independent of that of the others."""

    streams: SeededStreams
    problem: int
    repeatable: bool = True

    def stream(self, *name: Name) -> np.random.Generator:
        return self.streams.stream(*name, self.problem)


class TrainedAll(_ByEngine):
    """Runs of `TrainedProblems` in two worlds, which are datasets."""

    def __call__(self, runs: int, missing: list[Stretch], workers: int, client: Any) -> Blocks:
        """Make the missing runs, and perhaps the same of the other world again."""
        if not missing:
            return
        scale, both = self.mechanism.scale, None
        once = is_deterministic(self.mechanism.spec)
        for seeds in in_both(missing, _TOGETHER):
            if both is None or not once:
                both = self._trained(range(1) if once else seeds, workers)
            for world, weights in enumerate(both):
                rows = np.broadcast_to(weights, (len(seeds), weights.shape[1]))
                if scale:
                    task = Stretch(world, seeds.start, seeds.stop)
                    rows = rows + scale * self.normals("release", task, _TOGETHER, rows.shape[1])
                yield world, seeds.start, rows

    def _trained(self, seeds: range, workers: int) -> Floats:
        """Weights before the noise of the release: [world, run, weight]."""
        problems, columns = self.mechanism.start.shape
        trained = np.empty((2, len(seeds), problems, columns))
        for problem, start in enumerate(self.mechanism.start):
            D, D_prime = (
                dataclasses.replace(each, y=(each.y == problem).astype(np.int64))
                for each in self.worlds
            )
            noise = _NoiseOf(self.streams, problem)
            for grid, worlds in self._grids(D, D_prime, seeds, workers, start, noise=noise):
                weights = trained[worlds[0] : worlds[-1] + 1, :, problem]  # a view
                for chunk in self._chunks(grid):
                    last = chunk.weights[:, :, -1].transpose(1, 0, 2)
                    weights[chunk.neighbours, chunk.seeds] = last
        return trained.reshape(2, len(seeds), -1)
