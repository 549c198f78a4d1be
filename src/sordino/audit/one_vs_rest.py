"""More than two classes: all one-vs-rest problems of a release together, as one output.

As in a fit (`estimators/training.py`), all problems of one run see the same batches, each has noise
of its own, and what is released are the weights of all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import _check
from sordino.audit.called import Task
from sordino.audit.difference import difference
from sordino.audit.score_file import digest
from sordino.audit.trained import Found, TrainedRelease
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.estimators.risk import Risk
from sordino.seeding import RESULTS, Name, SeededStreams
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats

if TYPE_CHECKING:
    from sordino.sgd.grid import Grid


TOGETHER = 64
"""Runs of which all problems are trained before the next ones begin; part of what a seed means."""
LOSSES = "loss of the one record less that of the other"
"""The name of a score."""


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
        return TrainedRelease(self.spec).deterministic

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


class TrainedAll:
    """Runs of `TrainedProblems` in two worlds."""

    def __init__(self, release: TrainedProblems, D: Dataset, D_prime: Dataset, seed: int) -> None:
        self.release = release
        self.worlds = D, D_prime
        self.seed = seed
        self.streams = SeededStreams(f"audit {seed}")

    def described(self) -> dict[str, Any]:
        """What is run, for a file."""
        named = {**self.release.described(), "sordino": RESULTS}
        first, second = map(digest, self.worlds)
        return {"mechanism": named, "D": first, "D_prime": second, "seed": self.seed}

    def __call__(self, runs: int, missing: list[Task], workers: int) -> Found:
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
        apart = difference(*self.worlds)
        return apart.gained if apart is not None and apart.aligned else None

    def _noise(self, world: int, seeds: range, width: int) -> Floats | float:
        if not self.release.scale:
            return 0.0
        start = seeds.start - seeds.start % TOGETHER
        drawn = self.streams.stream("release", world, start)
        normals = drawn.standard_normal((seeds.stop - start, width))
        return np.asarray(self.release.scale * normals[seeds.start - start :])

    def _trained(self, seeds: range, workers: int) -> Floats:
        """Weights before the noise of the release: [world, run, weight]."""
        problems, columns = self.release.start.shape
        found = np.empty((2, len(seeds), problems, columns))
        for problem in range(problems):
            for grid, worlds in self._grids(problem, seeds, workers):
                _fill(found[worlds, :, problem], grid)
        return found.reshape(2, len(seeds), -1)

    def _grids(self, problem: int, seeds: range, workers: int) -> Iterator[tuple[Grid, slice]]:
        """Both worlds in one grid where they differ in one slot, else one after the other."""
        D, D_prime = (self._problem(each, problem) for each in self.worlds)
        if self._slot is not None:
            row = slice(self._slot, self._slot + 1)
            pair = neighbouring.replace(D, [self._slot], D_prime.X[row], D_prime.y[row])
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


def _fill(weights: Floats, grid: Grid) -> None:
    """Train a grid into [dataset, run, weight]."""
    from sordino.sgd.engine import train_chunks

    for chunk in train_chunks(grid):
        if not np.isfinite(chunk.weights).all():
            hint = "Lower the learning rate, or clip."
            _check.fail("spec", "[a training that diverges]", "to give finite weights", hint)
        weights[chunk.neighbours, chunk.seeds] = chunk.weights[:, :, -1].transpose(1, 0, 2)


def _together(missing: list[Task]) -> Iterator[range]:
    """Runs that are missing in either world, in blocks."""
    wanted: dict[int, tuple[int, int]] = {}
    for task in missing:
        for start in range(task.start - task.start % TOGETHER, task.stop, TOGETHER):
            first, last = max(start, task.start), min(start + TOGETHER, task.stop)
            known = wanted.get(start, (first, last))
            wanted[start] = min(first, known[0]), max(last, known[1])
    for start in sorted(wanted):
        yield range(*wanted[start])


def record_losses(
    D: Dataset, D_prime: Dataset, problems: int, kind: str, huber_width: float
) -> Callable[[Floats], Floats]:
    """A score: how much better all models fit the record of D' than the one that D has instead.

    Of a crafted pair this is nearly the best there is, and it needs no learning: of hundreds of
    weights a direction is learned badly by a thousand runs.

    Parameters
    ----------
    D, D_prime
        Differ in one record that is replaced; labels are class numbers.
    problems
        Whose weights [run, problem * column] are released: one for two classes, else one a class.
    kind, huber_width
        The loss, "logistic" or "huber-svm".
    """
    apart = difference(D, D_prime)
    if apart is None or apart.lost is None or apart.gained is None:
        _check.fail("D_prime", "[another size]", "to have one record replaced")
    X = np.stack([D.X[apart.lost], D_prime.X[apart.gained]]).astype(np.float64)
    codes = np.array([D.y[apart.lost], D_prime.y[apart.gained]])
    asked = [1] if problems == 1 else range(problems)
    risks = [Risk(X=X, y=codes == each, kind=kind, huber_width=huber_width) for each in asked]

    def score(released: Floats) -> Floats:
        weights = released.reshape(len(released), problems, -1)
        total = np.zeros(len(released))
        for problem, risk in enumerate(risks):
            first, second = risk.losses(X @ weights[:, problem].T)
            total += first - second
        return total

    score.__name__ = LOSSES
    return score
