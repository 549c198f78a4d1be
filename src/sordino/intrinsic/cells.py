"""`Work`: what trains a cell of a grid, in this process or any other. `EngineWork`: by our SGD."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sordino.data.neighbours import Neighbours
from sordino.sgd.spec import TrainSpec
from sordino.store import Cell, Layout
from sordino.types import Array

if TYPE_CHECKING:
    from sordino.sgd.grid import Grid


@dataclass(frozen=True)
class Failure:
    """Why a cell has no weights, in a sentence that is the same every time."""

    reason: str


Outcome = Array | Failure
UnderWay = Callable[[float], None]
"""Is told, now and then, how much work unfinished cells have done, in runs."""


class Work(Protocol):
    """Something that trains cells; it can be sent to another process."""

    def cell(self, cell: Cell) -> Outcome:
        """Train one cell, on one core."""
        ...

    def here(
        self, cells: Sequence[Cell], workers: int, under_way: UnderWay | None = None
    ) -> Iterator[tuple[Cell, Outcome]]:
        """Train cells on this machine, and yield each as it finishes, in any order."""
        ...

    def versions(self) -> dict[str, str]:
        """Versions, in this process, of what makes the bytes."""
        ...


class EngineWork:
    """Cells trained by the engine. A cell has the same bytes here and elsewhere (one machine kind).

    What the engine lays out before the first cell is kept for the next one.
    """

    def __init__(
        self,
        spec: TrainSpec,
        neighbours: Neighbours,
        layout: Layout,
        initial_weights: Array | None = None,
    ) -> None:
        self.spec = spec
        self.neighbours = neighbours
        self.layout = layout
        self.initial_weights = initial_weights
        self._grids: dict[int, Grid] = {}
        self._guard = threading.Lock()

    def __reduce__(self) -> tuple[type[EngineWork], tuple[object, ...]]:
        # Another process lays out its own.
        return EngineWork, (self.spec, self.neighbours, self.layout, self.initial_weights)

    def cell(self, cell: Cell) -> Outcome:
        """Train one cell, on one core."""
        from sordino.sgd import train_chunks

        with self._guard:
            if cell.init not in self._grids:
                self._grids[cell.init] = self._grid(cell.init, 1)
            grid = self._grids[cell.init]
        (done,) = train_chunks(grid, only=[(cell.seeds, cell.neighbours)])
        return judged(self.layout, cell, done.weights)

    def here(
        self, cells: Sequence[Cell], workers: int, under_way: UnderWay | None = None
    ) -> Iterator[tuple[Cell, Outcome]]:
        """Train cells in threads. On Ctrl-C those that are nearly done are yielded first."""
        from sordino.sgd import train_chunks

        for init in range(len(self.layout.inits)):
            mine = {(c.seeds.start, c.neighbours.start): c for c in cells if c.init == init}
            if not mine:
                continue
            boxes = [(c.seeds, c.neighbours) for c in mine.values()]
            for done in train_chunks(self._grid(init, workers), only=boxes, under_way=under_way):
                cell = mine[done.seeds.start, done.neighbours.start]
                yield cell, judged(self.layout, cell, done.weights)

    def versions(self) -> dict[str, str]:
        """Versions, in this process, of what makes the bytes."""
        from sordino.intrinsic.grid import versions

        return versions(engine=True)

    def _grid(self, init: int, threads: int) -> Grid:
        from sordino.sgd import Plan, prepare

        layout = self.layout
        return prepare(
            dataclasses.replace(self.spec, init=layout.inits[init]),
            self.neighbours.dataset,
            layout.seeds,
            self.neighbours,
            layout.steps,
            initial_weights=self.initial_weights,
            plan=Plan(*cell_size(layout)),
            threads=threads,
        )


def cell_size(layout: Layout) -> tuple[int, int]:
    """Seeds and neighbours of the largest cell, which is the first."""
    return layout.seed_edges[1], layout.neighbour_edges[1]


def judged(layout: Layout, cell: Cell, weights: Array) -> Outcome:
    """The weights of a cell, or that some of its runs left the finite numbers."""
    finite = np.isfinite(weights).all(axis=(2, 3))
    if finite.all():
        return weights
    bad = np.argwhere(~finite)
    first = run_name(layout, cell.seeds.start + bad[0][0], cell.neighbours.start + bad[0][1])
    return Failure(
        f"{len(bad)} of {finite.size} runs diverged: their weights are not finite, first for "
        f"{first}. Lower the learning rate."
    )


def run_name(layout: Layout, seed: int, neighbour: int) -> str:
    """A run in words, by its position in the grid."""
    label = layout.neighbours[neighbour]
    which = "the dataset itself" if label < 0 else f"neighbour {label}"
    return f"seed {layout.seeds[seed]}, {which}"
