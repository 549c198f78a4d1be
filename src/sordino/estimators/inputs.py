"""What users pass: checks of parameters, rows and labels, with one sentence each and no cell."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from sordino import checks
from sordino.data.dataset import row_norms
from sordino.data.frames import is_number, strange
from sordino.errors import InvalidArgument, printable, without_cells
from sordino.estimators import methods
from sordino.estimators.leaks import warn_of_leak
from sordino.estimators.randomness import Randomness
from sordino.privacy import Relation
from sordino.types import Array

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
        hint = "Make them numbers first: words by public levels (preprocess.OneHot.public)."
        checks.fail("columns", f"{bad} of {len(columns)}", "to be numbers", hint)
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


def coded(y: Array, classes: Array) -> npt.NDArray[np.int64]:
    """The place of each label among the classes."""
    if (y.dtype.kind in "OUST") != (classes.dtype.kind in "OUST"):
        hint = "Labels and classes must be of one kind."
        wanted = f"to hold {_kind(classes)} like classes={classes.tolist()}, not {_kind(y)}"
        checks.fail("y", f"[{len(y)} labels]", wanted, hint)
    known = np.isin(y, classes)
    if not known.all():
        row = int(np.argmin(known))
        hint = "Add it to the classes, or drop the row."
        what = f"[row {row} has another label]"
        checks.fail("y", what, f"to be one of classes={classes.tolist()}", hint)
    return np.searchsorted(classes, y).astype(np.int64)


def _kind(labels: Array) -> str:
    return "words" if labels.dtype.kind in "OUST" else "numbers"


_EPSILON_HINT = "Pass the budget you promise, such as 1.0."


class PrivateInputs(BaseEstimator):  # type: ignore[misc]
    """What is asked of parameters and records before anything is trained.

    Subclasses set the parameters; what was read off the records is warned about.
    """

    epsilon: float
    delta: float | None
    relation: Relation | str
    method: str
    l2: float
    initial_weights: Any
    data_norm: float | None
    classes: Any
    fit_intercept: bool
    max_rows_per_person: int
    public_rows: int | None
    random_state: Any

    def _check_promise(self) -> None:
        checks.positive("epsilon", self.epsilon, _EPSILON_HINT, allow_infinite=True)
        hint = "All methods here need delta > 0; 1e-6 is usual, None is 1 / rows^2."
        if self.delta is not None and not 0 < checks.non_negative("delta", self.delta, hint) < 1:
            checks.fail("delta", self.delta, "in (0, 1)", hint)
        self._relation()
        checks.non_negative("l2", self.l2, "Pass the regulariser's weight, such as 0.001.")
        hint = "Pass a norm that you know without looking at the data, such as 1.0."
        if self.data_norm is not None:
            norm = checks.positive("data_norm", self.data_norm, hint)
            if not 1e-30 < norm < 1e30:
                checks.fail("data_norm", norm, "between 1e-30 and 1e30", hint)
        checks.flag("fit_intercept", self.fit_intercept)
        checks.whole("max_rows_per_person", self.max_rows_per_person, at_least=1)
        if not isinstance(self.method, str):
            checks.fail("method", self.method, "to be a name", "Leave it out, or pass 'auto'.")
        checks.one_of("method", self.method, methods.NAMES)
        if self.public_rows is not None:
            checks.whole("public_rows", self.public_rows, at_least=1)
            if self._relation() is not Relation.ADD_OR_REMOVE_ONE:
                hint = "Elsewhere the number of rows is public as it is."
                checks.fail("public_rows", self.public_rows, "only for add-or-remove-one", hint)

    def _relation(self) -> Relation:
        if isinstance(self.relation, Relation):
            return self.relation
        name = str(self.relation).lower().replace("_", "-")
        return Relation(checks.one_of("relation", name, [each.value for each in Relation]))

    def _checked(self, X: Any, y: Any) -> tuple[Array, Array]:
        X, y = validate_data(
            self,
            numbers(X),
            y,
            accept_sparse="csr",
            dtype=(np.float64, np.float32),
            order="C",
            ensure_all_finite=False,
            multi_output=True,  # y is checked below, with sentences of our own
        )
        check_names(getattr(self, "feature_names_in_", None))
        X = X.toarray() if hasattr(X, "toarray") else X
        check_finite(X)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return X, y

    def _coded(self, y: Array) -> tuple[Array, npt.NDArray[np.int64]]:
        """The classes, and the place of each label among them."""
        if self.classes is not None:
            classes = public_classes(self.classes)
            return classes, coded(y, classes)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            hint = "Pass the classes there can be, such as classes=[0, 1]."
            checks.fail("y", f"[{len(y)} labels]", "to hold more than one class", hint)
        warn_of_leak("the classes were read off the labels; pass them as classes=[...] (--classes)")
        return classes, codes.astype(np.int64)

    def _norm(self, X: Array) -> float:
        if self.data_norm is not None:
            return float(self.data_norm)
        warn_of_leak(
            "data_norm was read off the rows, and with it the noise: this fit has no guarantee; "
            "pass a norm you know without looking"
        )
        largest = float(row_norms(X).max(initial=0.0))
        return math.hypot(largest, 1.0) if self.fit_intercept else max(largest, 1e-12)

    def _randomness(self) -> Randomness:
        if self.random_state is None:
            return Randomness.of_system()
        seed = check_random_state(self.random_state).randint(2**31)
        warn_of_leak(
            "random_state makes the noise repeatable, and whoever knows it can take it away: this "
            "fit has no guarantee; leave random_state=None for a release"
        )
        return Randomness.seeded(int(seed))
