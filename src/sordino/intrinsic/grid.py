"""What a study is of: its seeds, neighbouring datasets and steps, and how that is written down.

Seeds are 0..R-1 and neighbours are the first K of one permutation of the records, which depends on
their number alone: nobody chooses either after having seen a result.

Among the datasets is the one in which no record is replaced: it and each of the others differ in
ONE record of the order, as a bound on the sensitivity assumes, while two of the papers' datasets
differ in two. Of K neighbours and the dataset itself there are K pairs of the first kind, and
K (K - 1) / 2 of the papers'.
"""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from sordino import _cost, checks
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.randomness import RESULTS, stream
from sordino.sgd.spec import TrainSpec
from sordino.study import Cell, Layout
from sordino.types import Array

if TYPE_CHECKING:
    from sordino.sgd.grid import Grid


SCHEMA = 1
"""Of the description in `study.json`."""

INITS = ("vary", "fixed")
PASSED = ("given",)
"""The only kind of initial weights where they are passed."""
DRAWN = "drawn from the stream 'neighbours', replaced by the first record; first the data itself"
GIVEN = "given"

_OF_LABEL = 400
"""Bytes of a seed or a step as a number of Python's, in the lists of a layout and in its file."""
_ALWAYS = ("numpy", "zarr")
_ENGINE = ("numba", "torch")


def seed_numbers(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """0..R-1 for a number R; a list as it is, if all are different."""
    hint = "Pass how many seeds, such as 98, or a range."
    if not isinstance(seeds, Sequence | np.ndarray):
        many = checks.whole("seeds", seeds, hint, at_least=1)
        _cost.check_memory("seeds", many, _OF_LABEL * many, "Lower seeds; 98 are usual.")
        return tuple(range(many))
    numbers = tuple(checks.whole("seed", seed) for seed in checks.sequence("seeds", seeds, hint))
    if not numbers or len(set(numbers)) < len(numbers):
        checks.fail("seeds", list(numbers), "to be different, at least one", hint)
    return numbers


def datasets(dataset: Dataset, neighbours: int | Neighbours) -> Neighbours:
    """The dataset itself and K neighbours, for a number K; given ones as they are."""
    if not isinstance(dataset, Dataset):
        checks.fail("dataset", type(dataset).__name__, "to be a Dataset", "Pass Dataset(X, y).")
    if isinstance(neighbours, Neighbours):
        neighbours.check_of(dataset)
        return neighbours
    hint = "Pass how many, such as 100, or Neighbours of sordino.data.neighbours."
    many = checks.whole("neighbours", neighbours, hint, at_least=1)
    others = dataset.rows - 1
    if many > others:
        checks.fail("neighbours", many, f"<= {others}, the records but the first", hint)
    chosen = 1 + stream("neighbours").permutation(others)[:many]
    made = neighbouring.replace_by_first(dataset, chosen)
    return dataclasses.replace(
        made,
        slot=np.append(neighbouring.UNCHANGED, made.slot),
        occupant=np.append(neighbouring.EMPTY, made.occupant),
    )


def kept_steps(checkpoints: int | Sequence[int] | None, total: int) -> tuple[int, ...]:
    """Steps whose weights are kept: the last, a number of them evenly apart, or a list."""
    if checkpoints is None:
        return (total,)
    if isinstance(checkpoints, Sequence | np.ndarray):
        return tuple(checks.whole("checkpoint", step) for step in checkpoints)
    many = checks.whole("checkpoints", checkpoints, at_least=1)
    if many > total:
        checks.fail("checkpoints", many, f"<= {total}, the number of steps")
    _cost.check_memory("checkpoints", many, _OF_LABEL * many, "Lower checkpoints; 10 are usual.")
    return tuple(total * (place + 1) // many for place in range(many))


def starts(init: str | Sequence[str]) -> tuple[str, ...]:
    """Kinds of initial weights, "vary" or "fixed" or both."""
    labels = (init,) if isinstance(init, str) else tuple(checks.sequence("init", init))
    for label in labels:
        checks.one_of("init", label, INITS)
    if not labels or len(set(labels)) < len(labels):
        checks.fail("init", labels, "to be different, at least one")
    return labels


def versions(*, engine: bool) -> dict[str, str]:
    """Versions of what makes the bytes; without the engine's packages where it is not used."""
    names = (*_ALWAYS, *(_ENGINE if engine else ()))
    # Without "+cpu" and the like, which name a build and not what it computes.
    found = {name: metadata.version(name).partition("+")[0] for name in names}
    return {"sordino": RESULTS, **found}


def description(
    trained: dict[str, Any], neighbours: Neighbours, how: str, *, engine: bool
) -> dict[str, Any]:
    """All that determines the weights besides seeds, steps and grouping, as plain values.

    `trained` says what is run on each dataset: {"spec": ...} or {"function": ...}.
    """
    dataset = neighbours.dataset
    return {
        "schema": SCHEMA,
        **trained,
        "dataset": {
            "name": dataset.name,
            "sha256": dataset.fingerprint,
            "rows": dataset.rows,
            "features": dataset.features,
            "norm_bound": dataset.norm_bound,
        },
        "neighbours": {
            "relation": neighbours.relation.value,
            "how": how,
            "size": neighbours.size,
            "sha256": _digest(neighbours),
        },
        "versions": versions(engine=engine),
    }


def plain_spec(spec: TrainSpec) -> dict[str, Any]:
    """A spec without its kind of initial weights, which is an axis of the grid."""
    return {key: value for key, value in spec.to_dict().items() if key != "init"}


def described_start(weights: npt.NDArray[np.float64] | None) -> dict[str, str]:
    """The digest of initial weights that are given, so that others are refused."""
    if weights is None:
        return {}
    text = np.ascontiguousarray(weights, dtype="<f8").tobytes()
    return {"initial_weights_sha256": hashlib.sha256(text).hexdigest()}


def _digest(neighbours: Neighbours) -> str:
    """SHA-256 of which records are replaced, and by what."""
    digest = hashlib.sha256()
    for numbers in (neighbours.members, neighbours.slot, neighbours.occupant):
        digest.update(np.ascontiguousarray(numbers, dtype="<i8").tobytes())
    for extra in (neighbours.extra_X, neighbours.extra_y):
        if extra is not None:
            digest.update(np.ascontiguousarray(extra).tobytes())
    return digest.hexdigest()


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
