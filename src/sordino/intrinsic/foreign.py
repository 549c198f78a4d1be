"""`ForeignWork`: any training function measured as our SGD is, in a pool of processes.

A function that raises, returns something else than it should, or takes its process down costs the
cell it was working on, which is recorded with the reason.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.data.neighbours import EMPTY, SILENT, UNCHANGED, Neighbours
from sordino.intrinsic import grid as grids
from sordino.intrinsic.grid import Failure, Outcome, UnderWay, run_name
from sordino.intrinsic.pool import ENDED, LOST, run_all
from sordino.intrinsic.source import Writer, digest, source_sha256
from sordino.study import Cell, Layout
from sordino.types import Array

Train = Callable[[Array, Array, int], npt.ArrayLike]

CELL = (1, 10)
"""Seeds and neighbours of a cell: what a kill or a failure costs."""

STEPS = (1,)
"""The one checkpoint: nobody knows how many steps a function takes."""

_TRIALS = 10


class ForeignWork:
    """Cells trained by a function (X, y, seed) -> weights, one run after the other."""

    def __init__(self, train: Train, neighbours: Neighbours, layout: Layout) -> None:
        self.train = train
        self.neighbours = neighbours
        self.layout = layout

    def cell(self, cell: Cell) -> Outcome:
        """Train one cell; the first run that goes wrong is its reason to fail."""
        weights = np.empty(self.layout.shape_of(cell))
        for row, seed in enumerate(range(cell.seeds.start, cell.seeds.stop)):
            for column, place in enumerate(range(cell.neighbours.start, cell.neighbours.stop)):
                found = attempt(self.train, self.neighbours, self.layout.seeds[seed], place)
                if isinstance(found, str) or found.shape != (self.layout.parameters,):
                    name = run_name(self.layout, seed, place)
                    return Failure(_sentence(found, name, self.layout.parameters))
                weights[row, column, 0] = found
        return weights

    def here(
        self, cells: Sequence[Cell], workers: int, under_way: UnderWay | None = None
    ) -> Iterator[tuple[Cell, Outcome]]:
        """Train cells in processes of their own, which end with this generator."""
        for cell, outcome in run_all(self.cell, cells, min(workers, len(cells))):
            lost = Failure(f"For one of its runs, the function {ENDED}")
            yield cell, lost if outcome is LOST else outcome

    def versions(self) -> dict[str, str]:
        """Versions, in this process, of what makes the bytes."""
        return grids.versions(engine=False)


def attempt(train: Train, neighbours: Neighbours, seed: int, place: int) -> Array | str:
    """Weights of one run, or what went wrong."""
    try:
        found = train(*arrays(neighbours, place), seed)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever it is, the other runs go on
        return f"raised {type(error).__name__}: {_said(error)}"
    try:
        given = np.asarray(found)
        if given.dtype.kind not in "fiub":  # neither words nor complex numbers
            raise TypeError
        weights = given.astype(np.float64)
    except Exception:
        return f"returned {type(found).__name__}, not an array of real numbers"
    if weights.ndim != 1 or not len(weights):
        return f"returned an array of shape {weights.shape}, not one row of weights"
    if not np.isfinite(weights).all():
        return "returned weights that are not finite"
    return weights


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an error that cannot even say what it is
        return "no words"


def arrays(neighbours: Neighbours, place: int) -> tuple[Array, Array]:
    """X and y of one neighbouring dataset: a copy, with which a function may do what it likes."""
    dataset, rows = neighbours.dataset, neighbours.members.copy()
    if neighbours.slot[place] != UNCHANGED:
        rows[neighbours.slot[place]] = neighbours.occupant[place]
    rows = rows[rows != EMPTY]
    own = rows[rows < dataset.rows]
    if len(own) == len(rows):
        return dataset.X[rows], dataset.y[rows]
    assert neighbours.extra_X is not None
    assert neighbours.extra_y is not None
    X = np.concatenate([dataset.X, neighbours.extra_X.astype(dataset.X.dtype)])
    y = np.concatenate([dataset.y, neighbours.extra_y.astype(dataset.y.dtype)])
    return X[rows], y[rows]


def check(train: object, neighbours: Neighbours) -> None:
    """Refuse what can be seen to be wrong before anything is run."""
    if not callable(train):
        hint = "Pass a function (X, y, seed) that returns its weights."
        checks.fail("train", type(train).__name__, "to be a function", hint)
    if (neighbours.occupant[neighbours.slot != UNCHANGED] == SILENT).any():
        hint = "A function is given rows; use neighbours.replace or neighbours.remove."
        checks.fail("neighbours", "[silent records]", "to be records, replaced or removed", hint)


def described(train: Train, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is known of a function: its name, its source where that can be read, its settings.

    What it carries beside its source (arguments of a partial, defaults, closed-over values, globals
    that it names, attributes of an object) counts as a setting, too: with others it is another
    training.

    Raises
    ------
    InvalidArgument
        If it carries what cannot be written down and no settings say what it is.
    """
    plain: Any = train
    parts: list[Any] = []
    while isinstance(plain, functools.partial):
        parts += [list(plain.args), dict(plain.keywords)]
        plain = plain.func
    named = plain if hasattr(plain, "__qualname__") else type(plain)
    return {
        "function": {
            "name": str(named.__qualname__),
            "source_sha256": source_sha256(named),
            "carries_sha256": _carries(plain, named, parts, settings),
            "settings": dict(settings or {}),
        }
    }


def _carries(
    plain: Any, named: Any, parts: list[Any], settings: Mapping[str, Any] | None
) -> str | None:
    """Digest of what a function carries; None if it cannot be written but settings name it."""
    writer = Writer(named)
    try:
        carried = [writer.value(each) for each in parts if each]
        if named is not plain and (own := getattr(plain, "__dict__", plain)):
            carried.append(writer.value(own))
        carried += (writer.beside_class if isinstance(named, type) else writer.beside)(named)
    except TypeError as error:
        if settings:
            return None
        hint = "Name what it depends on in spec={...}, so that another setting is another study."
        checks.fail("train", "[the function]", f"to carry plain values only, not {error}", hint)
    return digest(carried) if carried else None


def parameters(train: Train, neighbours: Neighbours, seeds: Sequence[int]) -> int:
    """How many weights the function returns, tried on the first dataset until two seeds agree.

    Raises
    ------
    InvalidArgument
        If no trial gives any; the sentence says what happened to the first.
    """
    lengths: Counter[int] = Counter()
    reasons: list[str] = []
    trial = functools.partial(_trial, train, neighbours)
    for _, found in run_all(trial, seeds[:_TRIALS], 1):
        if isinstance(found, int):
            lengths[found] += 1
            if lengths[found] == 2:
                break
        else:
            reasons.append(ENDED if found is LOST else found)
    if not lengths:
        checks.fail("train", "[the function]", f"to return weights, and it {reasons[0]}")
    return lengths.most_common(1)[0][0]


def _trial(train: Train, neighbours: Neighbours, seed: int) -> int | str:
    found = attempt(train, neighbours, seed, 0)
    return found if isinstance(found, str) else len(found)


def _sentence(found: Array | str, run: str, wanted: int) -> str:
    what = found if isinstance(found, str) else f"returned {len(found)} weights, not {wanted}"
    return f"For {run}, the function {what}"
