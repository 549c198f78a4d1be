"""`Given`: records that are in memory already, a table or rows and labels.

No file can name them, so a study says only that they were (`source.IN_MEMORY`): whoever goes on
with it passes them again, and a fingerprint tells whether they are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import _cost, checks
from sordino.errors import InvalidArgument, without_cells

if TYPE_CHECKING:
    import pandas as pd

_NUMBERS = "Pass columns=, a description of its columns, or numbers."
_LABELS = "Pass one label a row, words or whole numbers."


@dataclass(frozen=True, eq=False)
class Given:
    """Records in memory: a raw `table` with its target, or rows `X` of numbers with labels `y`.

    Nothing of them is shown.
    """

    table: pd.DataFrame | None = field(default=None, repr=False)
    X: Any = field(default=None, repr=False)
    y: Any = field(default=None, repr=False)

    def digest(self) -> bytes:
        """SHA-256 of all of it, to know the same records again; empty if that cannot be had."""
        import pandas as pd

        if self.table is None:
            frame = pd.DataFrame(np.asarray(self.X)).assign(y=self.y)
        else:
            frame = self.table
        try:
            values = pd.util.hash_pandas_object(frame, index=False).to_numpy()
        except (TypeError, ValueError):  # lists and the like, in a column that is left out
            return b""
        names = repr([str(name) for name in frame.columns]).encode()
        return hashlib.sha256(names + values.tobytes()).digest()

    @classmethod
    def of_table(cls, table: Any, y: Any = None, target: str | None = None) -> Given:
        """A table of pandas or polars; its labels may come apart, as the column `target`."""
        frame = as_pandas(table)
        if y is None:
            return cls(frame)
        name = target or "target"
        if name in [str(each).strip() for each in frame.columns]:
            checks.fail("y", "[labels]", "to be left out: the table has its target")
        labels = _labels(y, len(frame))
        return cls(frame.assign(**{name: labels}))

    @classmethod
    def of_rows(cls, X: Any, y: Any) -> Given:
        """Rows of numbers: an array, a sparse matrix, or a table; and one label a row."""
        rows: Any
        if is_table(X):
            frame = as_pandas(X)
            numbers = _numbers(frame)
            rows = type(frame)(numbers, columns=frame.columns, copy=False)
        else:
            if hasattr(X, "toarray"):
                needed = 8 * int(X.shape[0]) * int(X.shape[1])
                _cost.check_memory("X", "[sparse]", needed, "Pass fewer columns.")
                X = X.toarray()
            rows = numbers = _numbers(X)
        checks.finite("X", numbers, "Fill or drop them.")
        return cls(X=rows, y=_labels(y, len(numbers)))


def is_table(given: object) -> bool:
    """Whether it is a table of pandas or polars."""
    return hasattr(given, "columns") and hasattr(given, "dtypes") and hasattr(given, "shape")


def as_pandas(X: Any, wanted: Mapping[str, object] | None = None) -> pd.DataFrame:
    """A table of pandas or polars as one of pandas; only the columns that are wanted."""
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        return X
    columns = {}
    for name in X.columns:
        if wanted is None or str(name).strip() in wanted:
            column = X[name]
            numeric = getattr(column.dtype, "is_numeric", bool)()
            columns[name] = column.to_numpy() if numeric else column.to_list()
    return pd.DataFrame(columns)


def _numbers(X: Any) -> Any:
    wrong = InvalidArgument(f"Expected X to be rows of numbers. {_NUMBERS}", "X")
    with without_cells(lambda _: wrong):
        rows = np.array(X, dtype=np.float64, order="C")
    if rows.ndim != 2 or not rows.size:
        checks.fail("X", f"[shape {rows.shape}]", "to be rows of numbers", _NUMBERS)
    return rows


def _labels(y: Any, rows: int) -> Any:
    wrong = InvalidArgument(f"Expected y to be labels. {_LABELS}", "y")
    with without_cells(lambda _: wrong):
        labels = np.array(y.to_list() if hasattr(y, "to_list") else y)
        if labels.dtype.kind == "O":
            labels = np.array([each if isinstance(each, str) else float(each) for each in labels])
        np.unique(labels)
    if labels.shape != (rows,):
        checks.fail("y", f"[shape {labels.shape}]", f"to be {rows:,} labels, one a row")
    if labels.dtype.kind == "f":
        checks.finite("y", labels, _LABELS)
        return labels.astype(np.int64) if (labels == np.round(labels)).all() else labels
    return labels
