"""`Blocks`: a long table, some rows at a time, prepared as those of a training were.

Memory follows from the size of a block, whatever the length of the file; rows keep their order, and
each is encoded by itself alone, so that the size of a block changes nothing. `write` takes a table
part by part to the disk.
"""

from __future__ import annotations

import gzip
import importlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import _files, checks
from sordino.data import frames
from sordino.data.cells import Cells, Unusable, word
from sordino.data.columns import Columns, feature_names
from sordino.data.encoding import Odd, check_levels, encode, marked
from sordino.data.sources import DataError
from sordino.data.table_file import word_columns
from sordino.errors import without_cells

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROWS, _MOST_CELLS = 50_000, 2**22
"""Of a block, by default: so many cells take 32 MB."""
_BY_PLACE = re.compile(r"column \d+(#\d+)?")
"""How a model names a feature whose name nobody declared public."""
_COMPLETE = "Fill it: rows that come prepared are complete."


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows.

    Parameters
    ----------
    X
        One column a feature of the model, by its name.
    kept
        Columns that were asked for, as text; None where nothing stands.
    """

    X: pd.DataFrame
    kept: pd.DataFrame


class Blocks:
    """The rows of a file, in blocks; go through them once, then ask what was odd.

    Parameters
    ----------
    path
        A CSV or Parquet file. The target need not be there, and other columns are not looked at.
    columns
        The description by which the training was prepared; None if rows come prepared already,
        as numbers in columns that are named like the model's features.
    features
        Names of the model's features.
    keep
        A column to keep as text, or several with commas between them.
    rows
        Rows of a block; None takes what fits into a few dozen megabytes.

    Raises
    ------
    InvalidArgument, DataError
        If the file has not the columns that are needed. No row is read before it is asked for.
    """

    def __init__(
        self,
        path: str | Path,
        columns: Columns | None,
        features: Sequence[str],
        *,
        keep: str | None = None,
        rows: int | None = None,
    ) -> None:
        self.path, self.features = Path(path), list(features)
        self._columns = columns
        self._described = {} if columns is None else columns.features
        self.needed = list(features) if columns is None else list(self._described)
        if columns is not None:
            _check_features(feature_names(self._described), self.features)
        asked = {*self.needed, *([] if keep is None else [keep, *keep.split(",")])}
        self._names = frames.names(self.path, asked)
        for name in self.needed:
            frames.known_column("columns", name, self._names)
        self.kept = _listed(keep, self._names)
        most = max(1, min(_MOST_ROWS, _MOST_CELLS // max(1, len(self.features))))
        self._size = most if rows is None else checks.whole("rows", rows, at_least=1)
        self.rows = 0
        """Rows that were read so far."""
        self._odd = [Odd()] * len(self._described)
        self._shown = {name: frames.column_name(name, (), self.needed) for name in self.needed}

    @property
    def odd(self) -> dict[str, Odd]:
        """Cells that the description did not foresee, by the name of the column, if any are."""
        pairs = zip(self._described, self._odd, strict=True)
        return {name: each for name, each in pairs if each.words}

    def __iter__(self) -> Iterator[Block]:
        """Read them.

        Raises
        ------
        DataError
            If a row cannot be prepared, or the file cannot be read. A column with levels of which
            none is met in the whole file is refused behind the last block.
        """
        words = set(self.kept)
        if self._columns is not None:
            words |= word_columns(self._columns) & set(self.needed)
        others = set(self._names) - {*self.needed, *self.kept}
        reading = frames.blocks(
            self.path, self._names, words=words, leave_out=others, rows=self._size
        )
        for frame in reading:
            with without_cells(self._unusable):
                block = self._block(frame)
            self.rows += len(frame)
            yield block
        check_levels(self._shown, self._described, self._odd, self.rows)

    def _block(self, frame: pd.DataFrame) -> Block:
        import pandas as pd

        cells = {
            name: Cells(self._shown[name], self._column(frame, name), self.rows)
            for name in self.needed
        }
        if self._columns is None:
            parts = [_complete(each) for each in cells.values()]
            X = np.column_stack(parts)
        else:
            X, odd = encode(cells, self._described)
            self._odd = [before + now for before, now in zip(self._odd, odd, strict=True)]
        kept = {name: _texts(frame[name]) for name in self.kept}
        return Block(
            marked(pd.DataFrame(X, columns=self.features, copy=False)),
            pd.DataFrame(kept, index=range(len(frame)), columns=self.kept, dtype=object),
        )

    def _column(self, frame: pd.DataFrame, name: str) -> pd.Series:
        """A column; one of numbers that is kept too was read as text, marks of nothing included."""
        column = frame[name]
        as_text = name in self.kept and not frames.is_parquet(self.path)
        if as_text and (self._columns is None or name not in word_columns(self._columns)):
            return column.mask(column.isin(frames.MISSING))
        return column

    def _unusable(self, error: Exception) -> DataError:
        return DataError(f"{self.path} cannot be used: {type(error).__name__}.")


def _texts(column: pd.Series) -> list[str | None]:
    """Each cell as text, whatever it is; None where nothing stands."""
    pairs = zip(column, column.isna(), strict=True)
    return [None if missing else word(value) for value, missing in pairs]


def _check_features(described: Sequence[str], features: Sequence[str]) -> None:
    """Refuse a description of other columns than the model's."""
    fits = len(described) == len(features) and all(
        mine == theirs or _BY_PLACE.fullmatch(theirs)
        for mine, theirs in zip(described, features, strict=True)
    )
    if not fits:
        what = f"[{len(described)} features]"
        hint = "Pass the description that the training was given, of every column."
        checks.fail("columns", what, f"to describe the model's {len(features)}", hint)


def _complete(cells: Cells) -> Any:
    """Numbers of a column that comes prepared."""
    if cells.missing.any():
        row = cells.row(cells.missing)
        raise Unusable(cells.name, f"has no number in row {row}", _COMPLETE)
    return cells.numbers


def _listed(keep: str | None, names: Sequence[str]) -> list[str]:
    """The columns to keep: one, also where its name has commas, or several."""
    if keep is None:
        return []
    listed = [keep] if keep in names else [each.strip() for each in keep.split(",")]
    for name in listed:
        frames.known_column("--keep", name, [each for each in names if each])
    if len(set(listed)) < len(listed):
        checks.fail("--keep", keep, "to name no column twice")
    return listed


def check_place(path: str | Path, *sources: str | Path) -> Path:
    """Where a table can be written; ask before the work. It may not replace one of the `sources`.

    Raises
    ------
    InvalidArgument
        If its name does not say a kind, or nothing can be written there.
    """
    place = Path(path)
    if not place.name.lower().endswith(frames.ENDINGS):
        checks.fail("--out", place, f"to end in {', '.join(frames.ENDINGS)}")
    with _files.explained("--out", place, "written"):
        _files.check_place(place)
        for source in sources:
            if place.exists() and Path(source).exists() and place.samefile(source):
                checks.fail("--out", place, "to be another file than the one that is read")
    if frames.is_parquet(place):
        frames.check_pyarrow("--out", place, "write")
    return place


def write(path: Path, parts: Iterable[pd.DataFrame]) -> None:
    """Write a table part by part, CSV or Parquet by the ending: whole, or not at all.

    Texts, whole numbers and other numbers are told from the first part.
    """
    with _files.explained("--out", path, "written"), _files.growing(path) as file:
        if frames.is_parquet(path):
            _write_parquet(file, parts)
        elif path.name.lower().endswith(".gz"):
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
                _write_csv(packed, parts)
        else:
            _write_csv(file, parts)


def _write_csv(file: Any, parts: Iterable[pd.DataFrame]) -> None:
    for text in csv_lines(parts):
        file.write(text.encode())


def csv_lines(parts: Iterable[pd.DataFrame]) -> Iterator[str]:
    """The text of a CSV file, part by part; the names of the columns come first."""
    first = True
    for part in parts:
        text = io.StringIO()
        part.to_csv(text, index=False, header=first, lineterminator="\n")
        yield text.getvalue()
        first = False


def _write_parquet(file: Any, parts: Iterable[pd.DataFrame]) -> None:
    arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    writer = None
    try:
        for part in parts:
            if writer is None:
                kinds = {"i": arrow.int64(), "f": arrow.float64()}
                fields = [
                    (name, kinds.get(getattr(kind, "kind", ""), arrow.string()))
                    for name, kind in part.dtypes.items()
                ]
                schema = arrow.schema(fields)
                writer = parquet.ParquetWriter(file, schema)
            writer.write_table(arrow.Table.from_pandas(part, schema, preserve_index=False))
    finally:
        if writer is not None:
            writer.close()
