"""`unquoted`: what scikit-learn, NumPy and pandas say of rows and labels, without their quotes."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from sordino._check import InvalidArgument
from sordino._shown import printable, without_cells

_HARMLESS = re.compile(
    r"""
    X\ has\ \d+\ features,\ but\ \w+\ is\ expecting\ \d+\ features\ as\ input\.?
    |Expected\ 2D\ array,\ got\ (1D|scalar)\ array\ instead
    |Complex\ data\ not\ supported
    |Input\ [Xy]?\ ?contains\ (NaN|infinity\ or\ a\ value\ too\ large\ for\ dtype\('\w+'\))
    |Found\ array\ with\ (\d+\ (sample|feature)\(s\)|dim\ \d+)[^'"]*
    |Found\ input\ variables\ with\ inconsistent\ numbers\ of\ samples:\ [\[\]\d, ]+
    |y\ should\ be\ a\ 1d\ array,\ got\ an\ array\ of\ shape\ [(), \d]+\ instead\.
    |Unknown\ label\ type:\ [a-z-]+
    |This\ \w+\ estimator\ requires\ y\ to\ be\ passed,\ but\ the\ target\ y\ is\ None
    |(Sparse|sparse|A\ sparse)[^'"]*
    |float\(\)\ argument\ must\ be\ a\ string\ or\ a\ real\ number,\ not\ '\w+'
    |Feature\ names\ are\ only\ supported\ if\ all\ input\ features\ have\ string\ names
    |setting\ an\ array\ element\ with\ a\ sequence
    |'<'\ not\ supported\ between\ instances\ of\ '\w+'\ and\ '\w+'
    |Classification\ metrics\ can't\ handle\ a\ mix\ of\ [a-z-]+\ and\ [a-z-]+\ targets
    |Expected\ sequence\ or\ array-like,\ got\ <class\ '[\w.]+'>
    """,
    re.VERBOSE,
)
"""Sentences that tell shapes, kinds and numbers of things: as far as they go, and no further."""
_RESHAPE = {
    "Expected 2D array": ". Reshape your data: X.reshape(-1, 1) for one column, (1, -1) for one row"
}
_OTHER_NAMES = "The feature names should match those that were passed during fit."
_UNSEEN = "Feature names unseen at fit time:\n"
_MISSING = "Feature names seen at fit time, yet now missing:\n"
# Lower-case words joined by underscores are written by programmers, and are in no record.
_PROGRAMMED = re.compile(r"- [a-z]+(_[a-z0-9]+)+|- \.\.\.")


def unquoted(*given: Any) -> AbstractContextManager[None]:
    """Raise what goes wrong with `given`, rows and labels, without a cell of them.

    A sentence known to be harmless is kept, others are replaced; what caused them is not kept.
    """
    return without_cells(lambda error: _replaced(error, given))


def _replaced(error: Exception, given: tuple[Any, ...]) -> Exception:
    text, kind = str(error), TypeError if isinstance(error, TypeError) else InvalidArgument
    if text.startswith(_OTHER_NAMES):
        return kind(_other_names(text))
    if known := _HARMLESS.match(text):
        more = next((hint for start, hint in _RESHAPE.items() if text.startswith(start)), "")
        return kind(f"{printable(known[0])}{more}".rstrip(".") + ".")
    return InvalidArgument(
        f"Expected X to be rows of finite numbers and y one label a row{_where(given)}. What "
        f"failed ({type(error).__name__}) is not quoted: it may hold a record."
    )


def _where(given: tuple[Any, ...]) -> str:
    """The first cell that is no number, if there is one, by its place."""
    try:
        rows = np.asarray(given[0], dtype=object)
        for row, column in np.ndindex(rows.shape[:2]) if rows.ndim == 2 else ():
            if not _is_number(rows[row, column]):
                where = f"row {row}, column {column} (both from 0)"
                return f"; {where} holds something that is no number"
    except Exception:  # it cannot be gone through at all
        return ""
    return ""


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _other_names(text: str) -> str:
    """scikit-learn's sentence; names that the model does not know only if no record has such."""
    before, unseen, rest = text.partition(_UNSEEN)
    # The last one: a name may hold the sentence, too.
    listed, missing, known = rest.rpartition(_MISSING) if _MISSING in rest else (rest, "", "")
    lines = listed.splitlines()
    if not all(_PROGRAMMED.fullmatch(line) for line in lines):
        listed = "- names that the model does not know, which are not shown\n"
    known = "".join(f"{printable(line)}\n" for line in known.splitlines())
    return f"{before}{unseen}{listed}{missing}{known}"
