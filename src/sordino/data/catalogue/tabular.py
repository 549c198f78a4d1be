"""From a table of numbers and categories to rows of norm 1."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino.data import preprocess
from sordino.data.catalogue.recipe import Form, Parts, Rows
from sordino.data.holdout import Index
from sordino.data.sources import CorruptFileError, RawFile
from sordino.types import Floats

if TYPE_CHECKING:
    import pandas as pd

BLOCK_ROWS = 50_000


@dataclass(frozen=True, eq=False)
class ParsedTable:
    """Parsed rows. `levels` are the documented ones, or None if they must be learned."""

    frame: pd.DataFrame
    y: npt.NDArray[np.int64]
    numeric: tuple[str, ...]
    categorical: tuple[str, ...] = ()
    levels: Mapping[str, Sequence[str]] | None = None

    @property
    def rows(self) -> int:
        """Number of records."""
        return len(self.y)


def build(table: ParsedTable, form: Form, papers: Sequence[Index]) -> Parts:
    """Encode and scale the rows; numbers come first, then levels.

    Parameters
    ----------
    table
        The parsed rows.
    form
        "papers" prepares as Hyland and Tople do: statistics of the training rows, constant columns
        dropped. "erm" does as Chen et al. do: statistics of all rows, every column kept, one set.
    papers
        Which rows are (train, validation, test) in the papers' form.
    """
    parts = papers if form == "papers" else (np.arange(table.rows),)
    words = table.frame[list(table.categorical)]
    if table.levels is not None or not table.categorical:
        one_hot = preprocess.OneHot.public(table.levels or {}, drop_first=True)
    else:
        one_hot = preprocess.OneHot.fit(words.iloc[parts[0]], drop_first=True)
    numbers = table.frame[list(table.numeric)].to_numpy(dtype=np.float64)

    def wide(block: Index) -> Floats:
        return np.hstack([numbers[block], one_hot.apply(words.iloc[block])])

    blocks = map(wide, _blocks(parts[0]))
    scale = preprocess.MinMax.fit_blocks(blocks, drop_constant=form == "papers")
    rows: list[Rows] = []
    for part in parts:
        X = np.empty((len(part), int(scale.keep.sum())))
        for at, block in zip(_blocks(np.arange(len(part))), _blocks(part), strict=True):
            X[at] = preprocess.unit_rows(scale.apply(wide(block)))
        rows.append((X, table.y[part]))
    validation, test = rows[1:] or (None, None)
    reads = one_hot.reads_private_data + scale.reads_private_data
    return Parts(rows[0], validation, test, 1.0, reads)


def read_csv(raw: RawFile, content: bytes, **options: Any) -> pd.DataFrame:
    """Parse comma-separated text; nothing is taken for missing."""
    import pandas as pd

    try:
        frame: pd.DataFrame = pd.read_csv(io.BytesIO(content), na_filter=False, **options)
    except (ValueError, TypeError):  # which may quote what it stumbled over
        raise CorruptFileError(raw, "it cannot be parsed") from None
    return frame


def binary_label(raw: RawFile, values: pd.Series, zero: str, one: str) -> npt.NDArray[np.int64]:
    """Turn two words into 0 and 1, and refuse a third."""
    known = values.isin([zero, one])
    if not known.all():
        row = int(np.argmin(known.to_numpy()))
        raise CorruptFileError(raw, f"row {row} has another label")
    return np.asarray(values == one, dtype=np.int64)


def _blocks(rows: Index) -> Iterator[Index]:
    # The wide form of millions of rows is held once, in its result, and otherwise in pieces.
    for start in range(0, len(rows), BLOCK_ROWS):
        yield rows[start : start + BLOCK_ROWS]
