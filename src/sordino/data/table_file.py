"""A user's own table: from a CSV or Parquet file to rows of numbers in [0, 1] and their labels.

With a public description of every column (`Columns`) the preparation reads nothing from the
records. What the description leaves out is inferred from them, and named in `reads_private_data`:
a release that depends on it is not covered by any proof about training.

`draft` makes a first description for somebody who knows better to edit. It is read off the rows:
READS PRIVATE DATA, and every draft says so.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.data import frames
from sordino.data.cells import (
    MANY,
    Cells,
    Look,
    Unusable,
    describe_looks,
    look,
    persons_likely,
    spelled,
)
from sordino.data.columns import NOT_THE_TARGET, Column, Columns, Label, feature_names
from sordino.data.encoding import encoded, marked
from sordino.data.sources import DataError
from sordino.errors import PrivacyLeakWarning, printable, without_cells
from sordino.types import Floats, Ints

if TYPE_CHECKING:
    import pandas as pd


_FEW = 6
_NUMBERS = "numbers are scaled to [0, 1] within their bounds, missing ones to the middle"
_LEVELS = "levels become 0/1 columns, all zero for missing and unknown ones"
_DESCRIBED = """\
READ FROM THE DATA: used as it is, this leaks, and no guarantee covers it. Keep it private, and \
replace it by what is known without looking, such as [0, 120] for an age.
A column has bounds = [low, high], levels = [...] or ignore = true. Missing values need no care, \
missing labels do. The promise is for one row: --max-rows-per-person changes that, and a column \
that tells persons apart (person = "...") has rows counted."""


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
        Names of the columns of `X`: "age", "sex=Female"; "column 3" or "column 3#1" of a column
        that nobody declared public, since a certificate publishes the names.
    classes
        The labels there can be, if the description says; else None.
    reads_private_data
        What was read off the rows because nobody said it, or because the description is a draft;
        empty if nothing. Classes that are not given are not among it: whoever reads them off the
        labels has to say so.
    notes
        How every such table is prepared, in words; they do not depend on the records.
    persons
        One number a row, the same for rows of one person; None if no column tells.
    """

    X: Floats
    y: npt.NDArray[Any]
    feature_names: tuple[str, ...]
    classes: tuple[str | int | float, ...] | None
    reads_private_data: tuple[str, ...]
    notes: tuple[str, ...]
    persons: Ints | None = None


def read(
    source: str | Path | pd.DataFrame, target: str | None = None, columns: Columns | None = None
) -> UserTable:
    """Read a table and prepare it as its public description says, in the description's order.

    Parameters
    ----------
    source
        A file that ends in .csv, .csv.gz, .parquet or .pq (Parquet needs pyarrow), or a pandas
        table.
    target
        The column to predict, unless `columns` names it.
    columns
        What is publicly known. What it leaves out is read off the rows, with a
        `PrivacyLeakWarning`; such columns come last. A draft (`read_from_data`) is warned about
        as well. Its `person` is no feature; rows are told apart by it, and none is cut here.

    Raises
    ------
    InvalidArgument
        If the arguments do not fit the file.
    DataError
        If the file cannot be read, or what it holds cannot be used.
    """
    known, what = columns or Columns(), _called(source)
    target, names = _checked(source, target, known)
    words = word_columns(known) | ({target} if _words(known.classes) else set())
    person, left_out = known.person, {*known.ignored}
    if person is not None:
        words, left_out = words | {person}, left_out - {person}
    with _no_cells(what):
        if isinstance(source, str | os.PathLike):
            frame = frames.read(source, names, words=words, leave_out=left_out)
        else:
            frame = _given(source, names, left_out)
        public = {target, *_declared(known)}
        cells = {
            name: Cells(frames.column_name(name, names, public), frame[name])
            for name in frame.columns
        }
        y = cells.pop(target).labels(known.classes)
        persons = None if person is None else cells.pop(person).persons()
        inferred = {name: cells[name].inferred() for name in cells if name not in known.columns}
        for name, column in inferred.items():
            if column.levels is not None and cells[name].identifies:
                raise Unusable(cells[name].name, "has another word in every row (an identifier?)")
        coded: Collection[str] = ()
        if inferred and isinstance(source, str | os.PathLike):
            coded = frames.zeros_in_front(source, names)
        kinds = ((name, look(cells[name], name in coded)) for name in inferred)
        odd = describe_looks({name: kind for name, kind in kinds if kind and kind.odd}, names)
        described = {**known.features, **inferred}
        if not described:
            raise DataError(f"{what} has no column but the target {target}.")
        X = encoded(what, cells, described)
    reads = _reads(inferred, names)
    if known.read_from_data:
        parts = [*_reads(known.columns, names)]
        parts += ["which columns are left out"] if known.ignored else []
        parts += ["which classes there are"] if known.classes is not None else []
        parts += ["which column tells persons apart"] if known.person is not None else []
        source = "drafted from the rows by `sordino data describe` and not declared public"
        reads = (*([f"{', '.join(parts)}: {source}"] if parts else []), *reads)
    if reads:
        hint = "correct it, then delete read_from_data = true"
        if not known.read_from_data:
            hint = "describe these columns (`sordino data describe`, --columns)"
        first = f" Look first at what may be {odd}." if odd else ""
        sentence = f"Not private: {' and '.join(reads)}; {hint}.{first}"
        warnings.warn(sentence, PrivacyLeakWarning, stacklevel=2)
    return UserTable(
        X,
        y,
        feature_names(described, described if known.read_from_data else inferred, names),
        None if known.classes is None else tuple(spelled(known.classes).tolist()),
        reads,
        _notes(described, names, known),
        persons,
    )


def rows(source: str | Path | pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """Prepare new rows as `read` prepared those of a training, for `model.predict`.

    Parameters
    ----------
    source
        A file as for `read`, or a pandas table. The target and columns that are left out need not
        be there; columns that are not described are not used.
    columns
        The description: `Columns.from_toml(model.certificate_.preprocessing.columns)` where a
        certificate has it, else the file that the training was given.

    Returns
    -------
    pandas.DataFrame
        One column a feature, by its name and in the order of the description.

    Raises
    ------
    InvalidArgument, DataError
        As `read` does.
    """
    import pandas as pd

    described = columns.features
    if not described:
        checks.fail("columns", "[]", "to describe columns to learn from")
    if not isinstance(source, str | os.PathLike | pd.DataFrame):
        checks.fail("source", type(source).__name__, "to be a path or a pandas table")
    what = _called(source)
    with _no_cells(what):
        if isinstance(source, pd.DataFrame):
            frame = source.set_axis(_names(source), axis=1)
            _check_described(described, list(frame.columns))
            frame = frame[list(described)]
            if frame.columns.has_duplicates:
                twice = printable(repr(frame.columns[frame.columns.duplicated()][0]))
                raise DataError(f"The table has more than one column {twice}.")
        else:
            names = frames.names(source, described)
            _check_described(described, names)
            leave_out = set(names) - set(described)
            words = word_columns(columns)
            frame = frames.read(source, names, words=words, leave_out=leave_out)
        shown = {name: frames.column_name(name, (), described) for name in described}
        cells = {name: Cells(shown[name], frame[name]) for name in described}
        X = encoded(what, cells, described)
    names = list(feature_names(described))
    return marked(pd.DataFrame(X, index=frame.index, columns=names, copy=False))


@dataclass(frozen=True)
class _Draft:
    """What `draft` gives.

    Parameters
    ----------
    toml
        A file of columns for somebody who knows better to edit. It holds what the records hold, and
        says so.
    looks
        Columns to look at first, by their place, and what they seem to be; it holds no cell.
    of_people
        Whether one seems to tell people with several rows each.
    """

    toml: str
    looks: str
    of_people: bool


def draft(path: str | Path, target: str) -> _Draft:
    """Describe a table AS ITS ROWS ARE.

    A column that `read` would refuse, or that looks like identifiers, people or dates, is ignored
    there, with a remark; one that looks most like people is proposed to count rows by.
    """
    target, names = _checked(path, target, Columns())
    with _no_cells(path):
        frame = frames.read(path, names, words=(), leave_out=())
        coded = frames.zeros_in_front(path, names) - {target}
        codes: dict[str, set[str]] = {}  # the different values, as they are written
        if coded:
            written = frames.read(path, names, words=coded, leave_out=set(names) - coded)
            for name in coded:
                codes[name] = Cells("", written[name]).words.difference(frames.MISSING)
        labels = Cells(frames.column_name(target, names, {target}), frame.pop(target))
        described, remarks, seen, likely = {}, {}, {}, {}
        for name in frame.columns:
            cells = Cells("", frame[name])
            if kind := look(cells, name in coded):
                seen[name] = kind
            likely[name] = persons_likely(name, cells, kind)
            described[name], remarks[name] = _drafted_column(cells, kind, codes.get(name, set()))
        if empty := np.count_nonzero(labels.missing):
            remarks[target] = f"Fill or drop records without a label: {empty:,} of {len(frame):,}."
        person = max(likely, key=lambda name: likely[name], default=None)  # the first of equals
        if person is not None and not likely[person]:
            person = None
        if person is not None:  # also left out, should somebody delete the line
            described[person], seen[person] = Column(ignore=True), Look.PEOPLE
            remarks[person] = Look.PEOPLE.remark
        drafted = Columns(target, labels.classes(), described, True, person)
    toml = drafted.to_toml(_DESCRIBED, remarks)
    return _Draft(toml, describe_looks(seen, names), Look.PEOPLE in seen.values())


def _called(source: object) -> str:
    """What sentences call a table."""
    return str(source) if isinstance(source, str | os.PathLike) else "The table"


def _names(frame: pd.DataFrame) -> list[str]:
    """Names of the columns of a table in memory, as those of a file."""
    return [str(name).strip() for name in frame.columns]


def _given(frame: pd.DataFrame, names: Sequence[str], leave_out: Collection[str]) -> pd.DataFrame:
    """The columns of a table in memory that are used, as `frames.read` gives those of a file."""
    if not len(frame):
        raise DataError("The table has no rows.")
    wanted = [place for place, name in enumerate(names) if name and name not in leave_out]
    return frame.iloc[:, wanted].set_axis([names[place] for place in wanted], axis=1)


def _no_cells(what: str | Path) -> AbstractContextManager[None]:
    """Sentences of ours pass; whatever else goes wrong may quote a cell."""
    return without_cells(lambda error: DataError(f"{what} cannot be used: {type(error).__name__}."))


def _declared(known: Columns) -> Collection[str]:
    """Names that somebody declared public: a draft's are the file's own."""
    if known.read_from_data:
        return ()
    return [*known.columns, *([] if known.person is None else [known.person])]


def _checked(
    source: str | Path | pd.DataFrame, target: str | None, known: Columns
) -> tuple[str, list[str]]:
    """The target and all names, if arguments, description and table fit together."""
    if target is None and known.target is None:
        checks.fail("target", None, "to be given", "Name the column to predict.")
    if target is not None and known.target not in (None, target):
        checks.fail("target", target, f"to be the description's {known.target!r}")
    declared = {*_declared(known), *([known.target] if known.target else [])}
    if isinstance(source, str | os.PathLike):
        names = frames.names(source, declared)
    else:
        names = _names(source)
        frames.check_names(_called(source), names, declared)
    named = [name for name in names if name]
    chosen = frames.known_column("target", target or str(known.target), named)
    _check_described(known.columns, named, drafted=known.read_from_data)
    if chosen in known.columns:
        checks.fail("columns", chosen, *NOT_THE_TARGET)
    if known.person is not None:
        shown = "[not shown]" * known.read_from_data
        frames.known_column("person", known.person, named, shown)
        replace(known, target=chosen)  # a target beside the description is no person either
    return chosen, names


def _check_described(
    described: Iterable[str], names: Sequence[str], *, drafted: bool = False
) -> None:
    for place, name in enumerate(described, 1):
        frames.known_column("columns", name, names, f"[number {place} of the draft]" * drafted)


def word_columns(known: Columns) -> set[str]:
    """Columns whose cells are compared as they are written."""
    return {name for name, column in known.columns.items() if _words(column.levels)}


def _words(labels: Sequence[Label] | None) -> bool:
    """Whether cells are to be compared as they are written."""
    return labels is not None and isinstance(labels[0], str | bool)


def _reads(inferred: Mapping[str, Column], names: Sequence[str]) -> tuple[str, ...]:
    """What was read off the rows, one sentence a kind."""
    bounds = [name for name, column in inferred.items() if column.bounds is not None]
    levels = [name for name, column in inferred.items() if column.levels is not None]
    kinds = (("minimum and maximum", bounds), ("levels", levels))
    return tuple(f"{what} of {_places(few, names)}" for what, few in kinds if few)


def _places(chosen: Sequence[str], names: Sequence[str]) -> str:
    """Columns by their place in the file, which is all that is said of names read off it."""
    places = sorted(names.index(name) + 1 for name in chosen)
    return f"{_few([str(place) for place in places])} of the file"


def _few(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"column {names[0]}"
    if len(names) <= _FEW:
        return f"columns {', '.join(names[:-1])} and {names[-1]}"
    return f"{len(names)} columns ({', '.join(names[:_FEW])}, ...)"


def _notes(
    described: Mapping[str, Column], names: Sequence[str], known: Columns
) -> tuple[str, ...]:
    notes = []
    if known.ignored:
        shown = [printable(name, 60) for name in known.ignored]
        left_out = _places(known.ignored, names) if known.read_from_data else _few(shown)
        notes.append(f"left out: {left_out}")
    notes += ["left out: a column without a name (row numbers?)"] if "" in names else []
    notes += [_NUMBERS] if any(column.bounds for column in described.values()) else []
    notes += [_LEVELS] if any(column.levels for column in described.values()) else []
    return tuple(notes)


def _drafted_column(cells: Cells, kind: Look | None, codes: set[str]) -> tuple[Column, str]:
    """A column as its rows are, by its `codes` if it has some; and a remark."""
    remark = kind.remark if kind else ""
    if (kind and kind.left_out) or len(codes) > MANY:
        return Column(ignore=True), remark
    try:
        column = cells.inferred()
    except Unusable as unusable:
        return Column(ignore=True), f"It {unusable.why}."
    levels = len(column.levels or ())
    if levels > MANY:
        return column, f"{levels:,} levels: group them, or leave the column out (ignore = true)."
    return Column(levels=tuple(sorted(codes))) if codes else column, remark
