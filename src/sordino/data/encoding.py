"""Described cells become numbers in [0, 1]: one rule for the training and for every row after it.

A row is encoded by itself alone. `Odd` counts the cells that a description did not foresee; no
sentence tells what they hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sordino import _cost
from sordino.data.cells import Cells, Unusable
from sordino.data.columns import Column, feature_names
from sordino.types import Floats

if TYPE_CHECKING:
    import pandas as pd

_MARK, _ENCODED = "sordino", "encoded by its description"


@dataclass(frozen=True)
class Odd:
    """Cells of a column that its description did not foresee, and what becomes of them.

    Parameters
    ----------
    missing
        Numbers that are not there count as the middle of their bounds; of a missing level all
        columns are zero.
    unknown
        Levels that are none of the column's: zero in all of its columns, too.
    outside
        Numbers beyond a bound count as that bound.
    """

    missing: int = 0
    unknown: int = 0
    outside: int = 0

    def __add__(self, other: Odd) -> Odd:
        missing, unknown = self.missing + other.missing, self.unknown + other.unknown
        return Odd(missing, unknown, self.outside + other.outside)

    @property
    def words(self) -> str:
        """All of them in words; empty if there are none."""
        counts = {
            "missing": self.missing,
            "of no known level": self.unknown,
            "outside its bounds": self.outside,
        }
        return ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)


def encode(cells: Mapping[str, Cells], described: Mapping[str, Column]) -> tuple[Floats, list[Odd]]:
    """Numbers of all rows, in the description's order, and what was odd in each column."""
    count = len(next(iter(cells.values())).series)
    X, start, odd = np.zeros((count, len(feature_names(described)))), 0, list[Odd]()
    for name, column in described.items():
        each = cells[name]
        missing = int(np.count_nonzero(each.missing))
        if column.bounds is not None:
            low, high = column.bounds
            numbers = each.numbers
            scaled = (np.clip(numbers, low, high) - low) / (high - low)
            X[:, start] = np.where(np.isnan(scaled), 0.5, scaled)
            outside = int(np.count_nonzero((numbers < low) | (numbers > high)))
            odd.append(Odd(missing, outside=outside))
        else:
            places = each.places(column.levels or ())
            known = np.flatnonzero(places >= 0)
            X[known, start + places[known]] = 1.0
            odd.append(Odd(missing, unknown=count - len(known) - missing))
        start += len(column.levels or (name,))
    return X, odd


def check_levels(
    shown: Mapping[str, str], described: Mapping[str, Column], odd: list[Odd], rows: int
) -> None:
    """Refuse a column with levels, none of which is met in any row: it is spelled otherwise.

    Parameters
    ----------
    shown
        What sentences call each column.
    described, odd, rows
        As `encode` has them, of all rows together.
    """
    for (name, column), each in zip(described.items(), odd, strict=True):
        if column.levels is not None and each.unknown and each.unknown + each.missing == rows:
            raise Unusable(shown[name], "has none of its levels in any row", "Check them.")


def encoded(what: str, cells: Mapping[str, Cells], described: Mapping[str, Column]) -> Floats:
    """The same of a whole table, refused where it is too large or a column is spelled otherwise."""
    count, width = len(next(iter(cells.values())).series), len(feature_names(described))
    hint = "Leave out the columns with most levels, or rows."
    shown = f"[{count:,} rows of {width:,} columns]"
    # Of the prepared rows four copies at most are in memory at once: a fit scales them into a copy
    # of its own, and an engine lays that out.
    _cost.check_memory(what, shown, 4 * 8 * count * width, hint)
    X, odd = encode(cells, described)
    check_levels({name: each.name for name, each in cells.items()}, described, odd, count)
    return X


def marked(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame, remembering that its numbers are encoded: names alone need not tell.

    Columns with bounds keep their names when they are encoded. pandas hands the mark on to parts
    and copies of the frame.
    """
    frame.attrs[_MARK] = _ENCODED
    return frame


def is_marked(frame: object) -> bool:
    """Whether the numbers of a frame are known to be encoded."""
    attributes = getattr(frame, "attrs", None)
    return isinstance(attributes, dict) and attributes.get(_MARK) == _ENCODED
