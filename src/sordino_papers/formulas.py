"""Kind "formulas": a table of formulas, and what claims ask of such a table.

A table is parallel columns, one row a setting (`formula_tables.py`). Claims ask for a number in a
row, for an extreme over rows, or for the power with which a column grows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import _check
from sordino.types import Array
from sordino_papers import formula_tables
from sordino_papers.found import Found, Numbers

if TYPE_CHECKING:
    from sordino_papers.bench import Bench
    from sordino_papers.quantities import Quantity


def make(settings: Mapping[str, Any], bench: Bench) -> dict[str, Array]:
    """The table."""
    return formula_tables.made(settings, bench.tell)


def formula(
    table: Numbers,
    *,
    of: str,
    over: str | None = None,
    by: str | None = None,
    at: Any = None,
    where: Mapping[str, Any] | None = None,
) -> Found:
    """Column `of` (divided by `over`) in the one row where `by` is `at` and `where` holds."""
    asked = {**(where or {}), **({} if by is None else {by: at})}
    values = _column(table, of, over)[_rows(table, asked)]
    if len(values) != 1:
        _check.fail("where", asked, f"to name one row, not {len(values)}")
    return Found(float(values[0]))


def formula_largest(
    table: Numbers,
    *,
    of: str,
    over: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> Found:
    """The largest of a column, over the rows where `where` holds."""
    return Found(float(_column(table, of, over)[_rows(table, where or {})].max()))


def formula_smallest(
    table: Numbers,
    *,
    of: str,
    over: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> Found:
    """The smallest of a column, over the rows where `where` holds."""
    return Found(float(_column(table, of, over)[_rows(table, where or {})].min()))


def formula_spread(
    table: Numbers,
    *,
    of: str,
    over: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> Found:
    """The largest of a column over its smallest: 1 where it is constant."""
    values = _column(table, of, over)[_rows(table, where or {})]
    return Found(float(values.max() / values.min()))


def formula_exponent(
    table: Numbers,
    *,
    of: str,
    by: str,
    over: str | None = None,
    since: float = 0.0,
    until: float = math.inf,
    line: str | None = None,
    at: Any = None,
) -> Found:
    """The power of `by` that a column grows with: least squares of logarithms.

    In the rows where `line` is `at`, if the table holds several lines.
    """
    kept = _rows(table, {} if line is None else {line: at})
    kept &= (table[by] >= since) & (table[by] <= until)
    if kept.sum() < 2:
        _check.fail("since, until", (since, until), "to leave two rows or more")
    return Found(slope(table[by][kept], _column(table, of, over)[kept]))


def slope(x: Array, y: Array) -> float:
    """Of the least-squares line through the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _column(table: Numbers, of: str, over: str | None) -> Array:
    for name in (of, over):
        if name is not None:
            _check.one_of("column", name, sorted(table))
    return np.asarray(table[of] if over is None else table[of] / table[over])


def _rows(table: Numbers, where: Mapping[str, Any]) -> Array:
    kept = np.ones(len(next(iter(table.values()))), dtype=bool)
    for name, wanted in where.items():
        column = table[name]
        kept &= column == (wanted if column.dtype.kind == "U" else float(wanted))
    return kept


QUANTITIES: dict[str, Quantity] = {
    "formula": formula,
    "formula_largest": formula_largest,
    "formula_smallest": formula_smallest,
    "formula_spread": formula_spread,
    "formula_exponent": formula_exponent,
}
