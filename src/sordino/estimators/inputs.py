"""What users pass: checks of rows, of labels, and of what is to be promised of them.

One sentence each, and no cell.
"""

from __future__ import annotations

import math
import numbers as numbers_of
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from sordino import checks
from sordino.data.cells import Cells, Unusable
from sordino.data.dataset import row_norms
from sordino.data.frames import is_number, strange
from sordino.data.persons import Persons
from sordino.errors import InvalidArgument, printable, without_cells
from sordino.estimators.fit import Randomness
from sordino.estimators.leaks import warn_of_leak
from sordino.estimators.preparation import AUTO
from sordino.privacy import MOST_ROWS_PER_PERSON, Relation, default_delta
from sordino.types import Array, Floats

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
ACCEPTED: dict[str, Any] = {"accept_sparse": "csr", "dtype": (np.float64, np.float32)}
"""Rows that `validate_data` lets through."""
_RESHAPE = ". Reshape your data: X.reshape(-1, 1) for one column, (1, -1) for one row"
_OTHER_NAMES = "The feature names should match those that were passed during fit."
_UNSEEN = "Feature names unseen at fit time:\n"
_MISSING = "Feature names seen at fit time, yet now missing:\n"
# Lower-case words joined by underscores are written by programmers, and are in no record.
_PROGRAMMED = re.compile(r"- [a-z]+(_[a-z0-9]+)+|- \.\.\.")


def unquoted(*given: Any) -> AbstractContextManager[None]:
    """Raise what goes wrong with `given`, rows and labels, without a cell of them.

    A sentence known to be harmless is kept, others are replaced; what caused them is not kept.
    """
    return without_cells(lambda error: _replacement(error, given))


def _replacement(error: Exception, given: tuple[Any, ...]) -> Exception:
    text, kind = str(error), TypeError if isinstance(error, TypeError) else InvalidArgument
    if text.startswith(_OTHER_NAMES):
        return kind(_other_names(text))
    if known := _HARMLESS.match(text):
        more = _RESHAPE if text.startswith("Expected 2D array") else ""
        return kind(f"{printable(known[0])}{more}".rstrip(".") + ".")
    what = f"Expected X to be rows of finite numbers and y one label a row{_where(given)}."
    return InvalidArgument(f"{what} {type(error).__name__} is not quoted: it may hold a record.")


def _where(given: tuple[Any, ...]) -> str:
    """The first cell that is no number, if there is one, by its place."""
    try:
        rows = np.asarray(given[0], dtype=object)
        for row, column in np.ndindex(rows.shape[:2]) if rows.ndim == 2 else ():
            try:
                float(rows[row, column])
            except (TypeError, ValueError, OverflowError):
                return f"; row {row}, column {column} (both from 0) holds no number"
    except Exception:  # it cannot be gone through at all
        return ""
    return ""


def _other_names(text: str) -> str:
    """scikit-learn's sentence; names that the model does not know only if no record has such."""
    before, unseen, rest = text.partition(_UNSEEN)
    # The last one: a name may hold the sentence, too.
    listed, missing, known = rest.rpartition(_MISSING) if _MISSING in rest else (rest, "", "")
    if not all(_PROGRAMMED.fullmatch(line) for line in listed.splitlines()):
        listed = "- names that the model does not know, which are not shown\n"
    known = "".join(f"{printable(line)}\n" for line in known.splitlines())
    return f"{before}{unseen}{listed}{missing}{known}"


_WORDS = ("object", "str", "string", "category", "categorical", "utf8", "date", "time")


def numbers(X: Any) -> Any:
    """The table as it is, unless it is not there yet or a column holds words: their places."""
    if hasattr(X, "collect") and not hasattr(X, "__array__"):
        checks.fail("X", type(X).__name__, "to be a table", "Call .collect() first.")
    dtypes, columns = getattr(X, "dtypes", None), getattr(X, "columns", None)
    if columns is None or dtypes is None:
        return X
    bad = [n for n, kind in enumerate(dtypes, 1) if str(kind).lower().startswith(_WORDS)]
    if bad:
        checks.fail("columns", f"{bad} of {len(columns)}", "to be numbers", "See OneHot.public.")
    return X


def check_names(given: Iterable[Any] | None) -> None:
    """Refuse names of columns that no certificate should publish."""
    names = [] if given is None else [str(name) for name in given]
    numbers = [name for name in names if is_number(name)]
    # All columns are numbers: without a header, all names would be. One may be a year.
    if why := strange(names, declared=numbers if len(numbers) < len(names) else ()):
        raise InvalidArgument(f"The table of rows {why} A certificate publishes the names.")


def check_finite(X: Array) -> None:
    """Refuse NaN and infinity, naming the first row that has one."""
    suspects = np.flatnonzero(~np.isfinite(row_norms(X)))  # or rows whose squares overflow
    bad = suspects[~np.isfinite(X[suspects]).all(axis=1)]
    if len(bad):
        row = int(bad[0])
        what = "NaN" if np.isnan(X[row]).any() else "inf"
        checks.fail("X", f"[row {row} has {what}]", "to hold no NaN or inf", "Fill or drop them.")


def targets(y: Array) -> Floats:
    """Numbers to predict as float64, or a refusal that names the first row without one."""
    if y.dtype.kind not in "buif":
        known = np.array([_is_a_number(each) for each in y])
        if not known.all():
            what = f"[row {int(np.argmin(known))} has none]"
            checks.fail("y", what, "to be a number a row", "A regression predicts numbers.")
    found = y.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(found))
    if len(bad):
        what = "NaN" if np.isnan(found[bad[0]]) else "inf"
        checks.fail("y", f"[row {bad[0]} has {what}]", "to hold no NaN or inf", "Drop the rows.")
    return found


def _is_a_number(value: Any) -> bool:
    return isinstance(value, numbers_of.Real | np.number)


def persons(given: Any, rows: int | None = None) -> Persons:
    """Whose each row is; ids of any kind, none of which is told."""
    import pandas as pd

    what = "[not shown]"
    with unquoted():
        ids = given.codes if isinstance(given, Persons) else np.asarray(given, dtype=object)
    if ids.ndim != 1 or rows not in (None, len(ids)):
        checks.fail("persons", what, "to be one id a row" + (f", {rows:,} in all" if rows else ""))
    if isinstance(given, Persons):
        return given
    try:
        return Persons(Cells("", pd.Series(ids)).persons())
    except Unusable:
        checks.fail("persons", what, "to be numbers or words, and to have none missing")


def public_classes(given: Any) -> Array:
    """The classes that were given, sorted."""
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        checks.fail("classes", repr(given), "to be a list of labels", "Pass [0, 1], say.")
    listed = list(given)
    if len({type(label) is str or isinstance(label, np.str_) for label in listed}) > 1:
        checks.fail("classes", listed, "to be all words or all numbers")
    if len(listed) < 2 or len(set(listed)) < len(listed) or None in listed:
        checks.fail("classes", listed, "to be at least two, all different")
    return np.unique(np.asarray(listed))


def class_codes(y: Array, classes: Array) -> npt.NDArray[np.int64]:
    """The place of each label among the classes."""
    words, wanted = y.dtype.kind in "OUST", classes.dtype.kind in "OUST"
    if words != wanted:
        kinds = ("numbers", "words")
        like = f"to hold {kinds[wanted]} like classes={classes.tolist()}, not {kinds[words]}"
        checks.fail("y", f"[{len(y)} labels]", like)
    known = np.isin(y, classes)
    if not known.all():
        what = f"[row {int(np.argmin(known))} has another label]"
        checks.fail("y", what, f"to be one of classes={classes.tolist()}")
    return np.searchsorted(classes, y).astype(np.int64)


# What is to be promised ---------------------------------------------------------------------------


def check_budget(epsilon: Any, delta: Any) -> None:
    """Refuse a budget that no fit here can keep."""
    hint = "Pass the budget you promise, such as 1.0."
    checks.positive("epsilon", epsilon, hint, allow_infinite=True)
    hint = "All methods here need delta > 0; 1e-6 is usual, None is 1 / rows^2."
    if delta is not None and not 0 < checks.non_negative("delta", delta, hint) < 1:
        checks.fail("delta", delta, "in (0, 1)", hint)


def relation_of(given: Relation | str) -> Relation:
    """The relation, however it was spelled."""
    if isinstance(given, Relation):
        return given
    name = str(given).lower().replace("_", "-")
    return Relation(checks.one_of("relation", name, [each.value for each in Relation]))


def check_norm(given: Any) -> None:
    """Refuse what is no public norm, nor the word for one by a rule."""
    if isinstance(given, str):
        checks.one_of("data_norm", given, (AUTO,))
        return
    hint = "Pass a norm that you know without looking at the data, such as 1.0."
    if not 1e-30 < checks.positive("data_norm", given, hint) < 1e30:
        checks.fail("data_norm", given, "between 1e-30 and 1e30", hint)


def check_persons(max_rows_per_person: Any) -> None:
    """Refuse what cannot be a number of rows that are protected together."""
    rows = checks.whole("max_rows_per_person", max_rows_per_person, at_least=1)
    if rows > MOST_ROWS_PER_PERSON:
        checks.fail("max_rows_per_person", rows, f"<= {MOST_ROWS_PER_PERSON:,}")


def check_public_rows(given: Any, relation: Relation) -> None:
    """Refuse a public number of rows where the relation does not keep their number private."""
    if given is not None:
        checks.whole("public_rows", given, at_least=1)
        if relation is not Relation.ADD_OR_REMOVE_ONE:
            checks.fail("public_rows", given, "only for add-or-remove-one")


def public_size(rows: int, public_rows: Any, relation: Relation) -> int:
    """How many rows there are, or, where that is private, the public number near it."""
    if relation is not Relation.ADD_OR_REMOVE_ONE:
        return rows
    if public_rows is None:
        checks.fail("public_rows", None, "to be given for add-or-remove-one")
    return int(public_rows)


def delta_for(given: float | None, rows: int, epsilon: float) -> float:
    """The delta of a promise about so many rows; a warning where it is too large for them."""
    if given is not None and given > 0.1 / rows and math.isfinite(epsilon):
        warn_of_leak(f"delta={given:g} is above 0.1 / rows; pass less, or None")
    return default_delta(rows) if given is None else float(given)


def randomness_of(random_state: Any) -> Randomness:
    """The operating system's, or a repeatable one, with a warning."""
    if random_state is None:
        return Randomness.of_system()
    seed = check_random_state(random_state).randint(2**31)
    warn_of_leak("random_state makes the noise repeatable: this fit has no guarantee")
    return Randomness.seeded(int(seed))
