"""What users pass as rows and labels, checked with one sentence each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import _check
from sordino.data.dataset import row_norms
from sordino.data.header import is_number, strange
from sordino.types import Array

_WORDS = ("object", "str", "string", "category", "categorical", "utf8", "date", "time")


def numbers(X: Any) -> Any:
    """The table as it is, unless it is not there yet or a column holds words: their places."""
    if hasattr(X, "collect") and not hasattr(X, "__array__"):
        _check.fail("X", type(X).__name__, "to be a table", "Call .collect() first.")
    dtypes, columns = getattr(X, "dtypes", None), getattr(X, "columns", None)
    if columns is None or dtypes is None:
        return X
    bad = [n for n, kind in enumerate(dtypes, 1) if str(kind).lower().startswith(_WORDS)]
    if bad:
        hint = "Make them numbers first: words by public levels (preprocess.OneHot.public)."
        _check.fail("columns", f"{bad} of {len(columns)}", "to be numbers", hint)
    return X


def check_names(given: Iterable[Any] | None) -> None:
    """Refuse names of columns that no certificate should publish."""
    names = [] if given is None else [str(name) for name in given]
    numbers = [name for name in names if is_number(name)]
    # All columns are numbers: without a header, all names would be. One may be a year.
    if why := strange(names, declared=numbers if len(numbers) < len(names) else ()):
        raise _check.InvalidArgument(f"The table of rows {why} A certificate publishes the names.")


def check_finite(X: Array) -> None:
    """Refuse NaN and infinity, naming the first row that has one."""
    suspects = np.flatnonzero(~np.isfinite(row_norms(X)))  # or rows whose squares overflow
    bad = suspects[~np.isfinite(X[suspects]).all(axis=1)]
    if len(bad):
        row = int(bad[0])
        what = "NaN" if np.isnan(X[row]).any() else "inf"
        _check.fail("X", f"[row {row} has {what}]", "to hold no NaN or inf", "Fill or drop them.")


def public_classes(given: Any) -> Array:
    """The classes that were given, sorted."""
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        _check.fail("classes", repr(given), "to be a list of labels", "Pass [0, 1], say.")
    listed = list(given)
    if len({type(label) is str or isinstance(label, np.str_) for label in listed}) > 1:
        _check.fail("classes", listed, "to be all words or all numbers")
    if len(listed) < 2 or len(set(listed)) < len(listed) or None in listed:
        _check.fail("classes", listed, "to be at least two, all different")
    return np.unique(np.asarray(listed))


def coded(y: Array, classes: Array) -> npt.NDArray[np.int64]:
    """The place of each label among the classes."""
    if (y.dtype.kind in "OUST") != (classes.dtype.kind in "OUST"):
        hint = "Labels and classes must be of one kind."
        wanted = f"to hold {_kind(classes)} like classes={classes.tolist()}, not {_kind(y)}"
        _check.fail("y", f"[{len(y)} labels]", wanted, hint)
    known = np.isin(y, classes)
    if not known.all():
        row = int(np.argmin(known))
        hint = "Add it to the classes, or drop the row."
        what = f"[row {row} has another label]"
        _check.fail("y", what, f"to be one of classes={classes.tolist()}", hint)
    return np.searchsorted(classes, y).astype(np.int64)


def _kind(labels: Array) -> str:
    return "words" if labels.dtype.kind in "OUST" else "numbers"
