"""A user's own table: from a CSV or Parquet file to rows of numbers in [0, 1] and their labels.

With a public description of every column (`Columns`) the preparation reads nothing from the
records. What the description leaves out is inferred from them, and named in `reads_private_data`:
a release that depends on it is not covered by any proof about training.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino import _check
from sordino.data import frames
from sordino.data.cells import Cells, Unusable, spelled
from sordino.data.columns import Column, Columns, Label, known_column
from sordino.data.rawfile import DataError
from sordino.privacy import PrivacyLeakWarning

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]

MOST_BYTES = 1 << 34
"""A table that would be larger than this in memory (16 GiB) is refused."""

_FEW = 6
_DESCRIBED = """\
READ FROM THE DATA: the bounds, levels and classes below are what these records hold.
Replace each by what is known without looking, such as [0, 120] for an age, or the levels that a
form offers. Used as they are, they tell about the records, a leak that no guarantee covers.
A column has bounds = [low, high] (numbers), levels = [...] (words) or ignore = true (left out)."""
_NUMBERS = (
    "numbers are scaled to [0, 1] between their bounds; values outside count as the nearer bound, "
    "missing ones as the middle"
)
_LEVELS = "levels become 0/1 columns; missing and unknown ones are zero in all of them"


@dataclass(frozen=True, eq=False)
class UserTable:
    """What `read` gives.

    Parameters
    ----------
    X
        One row a record; every entry in [0, 1].
    y
        Labels, as the file has them: words or numbers.
    feature_names
        Names of the columns of `X`: "age", "sex=Female".
    classes
        The labels there can be, if the description says; else None.
    reads_private_data
        What was read off the rows because nobody said it; empty if nothing. Classes are not among
        it: whoever reads them off the labels has to say so.
    notes
        How every such table is prepared, in words; they do not depend on the records.
    """

    X: Floats
    y: npt.NDArray[Any]
    feature_names: tuple[str, ...]
    classes: tuple[str | int | float, ...] | None
    reads_private_data: tuple[str, ...]
    notes: tuple[str, ...]


def read(path: str | Path, target: str | None = None, columns: Columns | None = None) -> UserTable:
    """Read a table and prepare it as its public description says.

    Parameters
    ----------
    path
        A file that ends in .csv, .csv.gz, .parquet or .pq (Parquet needs pyarrow).
    target
        The column to predict, unless `columns` names it.
    columns
        What is publicly known. What it leaves out is read off the rows, with a
        `PrivacyLeakWarning`.

    Raises
    ------
    InvalidArgument
        If the arguments do not fit the file.
    DataError
        If the file cannot be read, or what it holds cannot be used.
    """
    known = columns or Columns()
    target, names = _checked(path, target, known)
    frame = _frame(path, target, known)
    cells = {name: Cells(name, frame[name]) for name in frame.columns}
    y = cells.pop(target).labels(known.classes)
    described = {name: known.columns.get(name) or cells[name].inferred() for name in cells}
    if not described:
        raise DataError(f"{path} has no column to learn from beside the target {target}.")
    reads = _reads({name: described[name] for name in described if name not in known.columns})
    if reads:
        said = f"Not private: {' and '.join(reads)}; describe these columns by public knowledge."
        warnings.warn(said, PrivacyLeakWarning, stacklevel=2)
    return UserTable(
        _encoded(path, cells, described),
        y,
        tuple(feature for name in described for feature in _features(name, described[name])),
        None if known.classes is None else tuple(spelled(known.classes).tolist()),
        reads,
        _notes(described, names, known),
    )


def describe(path: str | Path, target: str) -> str:
    """Describe a table AS ITS ROWS ARE: a TOML file for somebody who knows better to edit.

    A column that `read` would refuse is ignored there, with a remark.
    """
    target, _ = _checked(path, target, Columns())
    frame = _frame(path, target, Columns())
    classes = Cells(target, frame.pop(target)).classes()
    described, remarks = {}, {}
    for name in frame.columns:
        try:
            described[name] = Cells(name, frame[name]).inferred()
        except Unusable as unusable:
            described[name] = Column(ignore=True)
            remarks[name] = f"It {unusable.why}."
    return Columns(target, classes, described).to_toml(_DESCRIBED, remarks)


def _checked(path: str | Path, target: str | None, known: Columns) -> tuple[str, list[str]]:
    """The target and all names, if arguments, description and file fit together."""
    if target is None and known.target is None:
        hint = "Name the column to predict."
        _check.fail("target", None, "to be given", hint)
    if target is not None and known.target not in (None, target):
        hint = f"The description says {known.target!r}."
        _check.fail("target", target, "to be the same everywhere", hint)
    names = frames.names(path)
    named = [name for name in names if name]
    chosen = known_column("target", target or str(known.target), named)
    for name in known.columns:
        known_column("columns", name, named)
    if chosen in known.columns:
        hint = "The target has classes = [...] at the top instead."
        _check.fail("columns", chosen, "not to describe the target", hint)
    return chosen, names


def _frame(path: str | Path, target: str, known: Columns) -> pd.DataFrame:
    words = {name for name, column in known.columns.items() if _words(column.levels)}
    words |= {target} if _words(known.classes) else set()
    ignored = {name for name, column in known.columns.items() if column.ignore}
    return frames.read(path, words=words, leave_out=ignored)


def _words(labels: Sequence[Label] | None) -> bool:
    """Whether cells are to be compared as they are written."""
    return labels is not None and isinstance(labels[0], str | bool)


def _encoded(
    path: str | Path, cells: Mapping[str, Cells], described: Mapping[str, Column]
) -> Floats:
    rows = len(next(iter(cells.values())).series)
    width = sum(len(_features(name, column)) for name, column in described.items())
    if rows * width * 8 > MOST_BYTES:
        gigabytes = rows * width * 8 / 1e9
        raise DataError(
            f"{path} would become {width:,} columns and need {gigabytes:,.0f} GB of memory. "
            "Leave out the columns with most levels."
        )
    X, start = np.zeros((rows, width)), 0
    for name, column in described.items():
        end = start + len(_features(name, column))
        _fill(X[:, start:end], cells[name], column)
        start = end
    return X


def _fill(block: Floats, cells: Cells, column: Column) -> None:
    """Write one column's part of the rows."""
    if column.bounds is not None:
        low, high = column.bounds
        scaled = (np.clip(cells.numbers, low, high) - low) / (high - low)
        block[:, 0] = np.where(np.isnan(scaled), 0.5, scaled)
        return
    places = cells.places(column.levels or ())
    rows = np.flatnonzero(places >= 0)
    if not len(rows):
        why = "has none of its levels in any row"
        raise Unusable(cells.name, why, "Check how they are spelled.")
    block[rows, places[rows]] = 1.0


def _features(name: str, column: Column) -> tuple[str, ...]:
    if column.levels is None:
        return (name,)
    return tuple(f"{name}={level}" for level in spelled(column.levels))


def _reads(inferred: Mapping[str, Column]) -> tuple[str, ...]:
    """What was read off the rows, one sentence a kind."""
    bounds = [name for name, column in inferred.items() if column.bounds is not None]
    levels = [name for name, column in inferred.items() if column.levels is not None]
    kinds = (("minimum and maximum", bounds), ("levels", levels))
    return tuple(f"{what} of {_few(names)}" for what, names in kinds if names)


def _few(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"column {names[0]}"
    if len(names) <= _FEW:
        return f"columns {', '.join(names[:-1])} and {names[-1]}"
    return f"{len(names)} columns ({', '.join(names[:_FEW])}, ...)"


def _notes(
    described: Mapping[str, Column], names: Sequence[str], known: Columns
) -> tuple[str, ...]:
    ignored = [name for name, column in known.columns.items() if column.ignore]
    notes = [f"left out: {_few(ignored)}"] if ignored else []
    notes += ["left out: a column without a name (row numbers?)"] if "" in names else []
    notes += [_NUMBERS] if any(column.bounds for column in described.values()) else []
    notes += [_LEVELS] if any(column.levels for column in described.values()) else []
    return tuple(notes)
