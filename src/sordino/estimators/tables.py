"""Raw tables before a model: rows are seen as the training saw them, whoever encodes them.

A model whose certificate has the public description of its columns takes a raw table of these, with
words and missing values, as well as encoded numbers. Which of the two it is given, names decide:

- an array is always encoded: it has no names;
- a table with the described columns is raw ("sex"), one with the features is encoded ("sex=F");
- where every column has bounds, both have the same names. Then a table is raw, unless
  `table_file.rows` made it, which marks what it encodes. An encoded table that lost its mark cannot
  be told from a raw one, but holds nothing outside [0, 1]: such a table is refused, not guessed at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import checks
from sordino.data.columns import Column, Columns, feature_names
from sordino.data.encoding import is_marked
from sordino.data.given import as_pandas

if TYPE_CHECKING:
    from collections.abc import Mapping

_BOTH = "Pass X.to_numpy() if it is encoded, sordino.data.table_file.rows(X, columns) if it is raw."


def encoded(X: Any, model: Any) -> Any:
    """`X` as the model's features, if it is a raw table of the columns that its papers describe.

    Anything else is returned as it is, to be checked as numbers.

    Raises
    ------
    InvalidArgument, DataError
        If a described column is not there or cannot be encoded, or names do not tell what it is.
    """
    lazy = hasattr(X, "collect") and not hasattr(X, "__array__")
    given = () if lazy or is_marked(X) else getattr(X, "columns", ())
    known = described(model) if len(given) else None
    if known is None or not any(isinstance(name, str) for name in given):
        return X
    names = [str(name).strip() for name in given]
    columns = known.features
    if not _raw(X, names, columns):
        return X
    from sordino.data import table_file

    rows = table_file.rows(as_pandas(X, columns), known)
    # A model that was fitted to an array knows no names.
    return rows if hasattr(model, "feature_names_in_") else rows.to_numpy()


def described(model: Any) -> Columns | None:
    """The public description of a fitted model's columns, if its certificate has one."""
    papers = getattr(model, "certificate_", None)
    text = "" if papers is None else papers.preprocessing.columns
    known = Columns.from_toml(text) if text else None
    return known if known is not None and known.features else None


def _raw(X: Any, names: list[str], columns: Mapping[str, Column]) -> bool:
    """Whether a table with these names has the described columns as they stand in a file."""
    features, there = set(feature_names(columns)), set(names)
    if features == set(columns):
        scaled = any(column.bounds not in ((0.0, 1.0), None) for column in columns.values())
        if scaled and features <= there and _within_one(X, names, columns):
            why = "to tell whether it is raw or encoded: all its numbers lie in [0, 1]"
            checks.fail("X", "[a table]", why, _BOTH)
        return True
    if features <= there and columns.keys() <= there:
        why = "to have the described columns or the encoded ones, not both"
        checks.fail("X", "[a table]", why, "Drop those of one kind.")
    # Of neither all: by what only one kind has; its missing columns are told then.
    return columns.keys() <= there or not (features - columns.keys()) & there


def _within_one(X: Any, names: list[str], columns: Mapping[str, Column]) -> bool:
    """Whether no number of these columns lies outside [0, 1], as none does when it is encoded."""
    for place, name in enumerate(names):
        if name not in columns:
            continue
        try:
            numbers = np.asarray(X[X.columns[place]], dtype=np.float64)
        except (TypeError, ValueError):  # words: they are raw
            return False
        if not ((numbers >= 0) & (numbers <= 1)).all():  # nor is anything missing
            return False
    return True
