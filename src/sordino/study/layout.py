"""`Layout`: the axes of a grid of weights, and how it is cut into cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sordino import checks
from sordino.errors import InvalidArgument
from sordino.serialize import Forms, refusing

DIMENSIONS = ("init", "seed", "neighbour", "step", "parameter")

_MOST_LABEL = 2**63 - 1
_MOST_CHUNK = 2**26
"""Bytes of a chunk before compression, where a cell can be cut further."""
_MOST_FILES = 200_000


@dataclass(frozen=True)
class Cell:
    """What is trained together and written together: one init, some seeds, some neighbours.

    `number` is its place in `Layout.cells()`; `seeds` and `neighbours` are positions, not labels.
    """

    init: int
    # A slice has no hash before Python 3.12; the number tells cells apart.
    seeds: slice = field(hash=False)
    neighbours: slice = field(hash=False)
    number: int


@dataclass(frozen=True)
class Layout:
    """The axes of a grid, and its grouping into cells.

    Where the edges are those of equal cells (the last may be smaller), as `cut` makes them, a cell
    is one chunk of the grid and one file. Other edges work as well, with more and smaller files.

    Parameters
    ----------
    inits
        Labels of the first axis, such as ("vary", "fixed").
    seeds
        Numbers of the seeds, all different.
    neighbours
        For each neighbouring dataset the record it replaces; -1 is the dataset itself.
    steps
        Numbers of steps after which weights are kept, all different.
    parameters
        Weights of a model.
    seed_edges, neighbour_edges
        Where the two axes are cut, from 0 to their length: (0, 13, 26, 30).
    dtype
        "float32" or "float64".
    """

    inits: tuple[str, ...]
    seeds: tuple[int, ...]
    neighbours: tuple[int, ...]
    steps: tuple[int, ...]
    parameters: int
    seed_edges: tuple[int, ...]
    neighbour_edges: tuple[int, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        checks.sequence("inits", self.inits)
        for label in self.inits:
            if not isinstance(label, str) or not label or not label.isprintable():
                checks.fail("inits", repr(label), "to be a printable text")
        values: dict[str, Any] = {
            "inits": _different("inits", tuple(self.inits)),
            "seeds": _different("seeds", _numbers("seeds", self.seeds)),
            "neighbours": _numbers("neighbours", self.neighbours, -1),
            "steps": _different("steps", _numbers("steps", self.steps)),
            "parameters": checks.whole("parameters", self.parameters, at_least=1),
        }
        for name in ("seed_edges", "neighbour_edges"):
            edges, total = _numbers(name, getattr(self, name)), len(values[f"{name[:-6]}s"])
            if list(edges) != sorted(set(edges)) or (edges[0], edges[-1]) != (0, total):
                checks.fail(name, edges, f"to rise from 0 to {total}")
            values[name] = edges
        for name, value in values.items():
            object.__setattr__(self, name, value)
        checks.one_of("dtype", self.dtype, ("float32", "float64"))
        files = math.prod(-(-all_ // one) for all_, one in zip(self.shape, self.chunk, strict=True))
        if files > _MOST_FILES:
            checks.fail("layout", f"[{files} files]", f"<= {_MOST_FILES}", "Use Layout.cut.")

    @classmethod
    def cut(
        cls,
        inits: Sequence[str],
        seeds: Sequence[int],
        neighbours: Sequence[int],
        steps: Sequence[int],
        parameters: int,
        *,
        cell: tuple[int, int],
        dtype: str = "float32",
    ) -> Layout:
        """Lay out a grid in equal cells of at most `cell` = (seeds, neighbours) each.

        There are as few cells as that allows, then they are made as small as that number allows.

        >>> Layout.cut(["vary"], range(98), [-1], [10], 3, cell=(20, 1)).seed_edges
        (0, 20, 40, 60, 80, 98)
        """
        most = [checks.whole("cell", each, at_least=1) for each in cell]
        for name, axis in (("seeds", seeds), ("neighbours", neighbours)):
            checks.sequence(name, axis)
        return cls(
            inits=tuple(inits),
            seeds=tuple(seeds),
            neighbours=tuple(neighbours),
            steps=tuple(steps),
            parameters=parameters,
            seed_edges=_equal(len(seeds), most[0]),
            neighbour_edges=_equal(len(neighbours), most[1]),
            dtype=dtype,
        )

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Of the whole grid, in the order of `DIMENSIONS`."""
        runs = len(self.inits), len(self.seeds), len(self.neighbours)
        return *runs, len(self.steps), self.parameters

    @property
    def chunk(self) -> tuple[int, int, int, int, int]:
        """Shape of a chunk: the largest equal boxes whose borders include those of all cells."""
        seeds, neighbours = _common(self.seed_edges), _common(self.neighbour_edges)
        run = seeds * neighbours * (4 if self.dtype == "float32" else 8)
        parameters = min(self.parameters, max(1, _MOST_CHUNK // (run * len(self.steps))))
        steps = min(len(self.steps), max(1, _MOST_CHUNK // (run * parameters)))
        return 1, seeds, neighbours, steps, parameters

    def cells(self) -> list[Cell]:
        """Every cell, inits outermost and neighbours innermost."""
        boxes = itertools.product(
            range(len(self.inits)),
            itertools.pairwise(self.seed_edges),
            itertools.pairwise(self.neighbour_edges),
        )
        return [
            Cell(init, slice(*seeds), slice(*neighbours), number)
            for number, (init, seeds, neighbours) in enumerate(boxes)
        ]

    def shape_of(self, cell: Cell) -> tuple[int, int, int, int]:
        """Of a cell's weights: (seeds, neighbours, steps, parameters)."""
        seeds = cell.seeds.stop - cell.seeds.start
        neighbours = cell.neighbours.stop - cell.neighbours.start
        return seeds, neighbours, len(self.steps), self.parameters

    def name(self, cell: Cell) -> str:
        """A cell in words, for sentences."""
        seeds, rows = self.seeds[cell.seeds], cell.neighbours
        where = f"seeds {seeds[0]} to {seeds[-1]}, neighbours at {rows.start} to {rows.stop - 1}"
        return f"cell {cell.number} (init {self.inits[cell.init]}, {where})"

    def to_plain(self) -> Any:
        """As JSON can hold it."""
        return Forms().record(Layout).write(self)

    @classmethod
    def from_plain(cls, plain: object) -> Any:
        """What `to_plain` wrote; raises `InvalidArgument` for anything else."""
        with refusing("layout", InvalidArgument):
            return Forms().record(Layout).read(plain)


def _numbers(name: str, values: Sequence[int], least: int = 0) -> tuple[int, ...]:
    checks.sequence(name, values)
    numbers = tuple(checks.whole(name, value, at_least=least) for value in values)
    if not numbers or max(numbers) > _MOST_LABEL:
        checks.fail(name, f"[{len(numbers)}]", f"to hold at least one number, <= {_MOST_LABEL}")
    return numbers


def _different(name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values or len(set(values)) < len(values):
        checks.fail(name, values, "to be different, at least one")
    return values


def _equal(total: int, most: int) -> tuple[int, ...]:
    if total == 0:
        return (0,)  # refused with its own sentence by the class
    size = -(-total // -(-total // most))
    return (*range(0, total, size), total)


def _common(edges: tuple[int, ...]) -> int:
    """The largest size whose multiples include every edge but the last, where a chunk may end."""
    return math.gcd(*edges[1:-1]) or edges[-1]
