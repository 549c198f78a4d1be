"""`PrivateInputs`: the checks of an estimator's parameters, rows and labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from sordino import _check
from sordino.data.dataset import row_norms
from sordino.estimators import methods
from sordino.estimators.leaks import warn_of_leak
from sordino.estimators.randomness import Randomness
from sordino.estimators.tables import check_finite, check_names, coded, numbers, public_classes
from sordino.privacy import Relation
from sordino.types import Array

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
    data_norm: float | None
    classes: Any
    fit_intercept: bool
    max_rows_per_person: int
    public_rows: int | None
    random_state: Any

    def _check_promise(self) -> None:
        _check.positive("epsilon", self.epsilon, _EPSILON_HINT, allow_infinite=True)
        hint = "All methods here need delta > 0; 1e-6 is usual, None is 1 / rows^2."
        if self.delta is not None and not 0 < _check.non_negative("delta", self.delta, hint) < 1:
            _check.fail("delta", self.delta, "in (0, 1)", hint)
        self._relation()
        _check.non_negative("l2", self.l2, "Pass the regulariser's weight, such as 0.001.")
        hint = "Pass a norm that you know without looking at the data, such as 1.0."
        if self.data_norm is not None:
            norm = _check.positive("data_norm", self.data_norm, hint)
            if not 1e-30 < norm < 1e30:
                _check.fail("data_norm", norm, "between 1e-30 and 1e30", hint)
        _check.flag("fit_intercept", self.fit_intercept)
        _check.whole("max_rows_per_person", self.max_rows_per_person, at_least=1)
        if not isinstance(self.method, str):
            _check.fail("method", self.method, "to be a name", "Leave it out, or pass 'auto'.")
        _check.one_of("method", self.method, methods.NAMES)
        if self.public_rows is not None:
            _check.whole("public_rows", self.public_rows, at_least=1)
            if self._relation() is not Relation.ADD_OR_REMOVE_ONE:
                hint = "Elsewhere the number of rows is public as it is."
                _check.fail("public_rows", self.public_rows, "only for add-or-remove-one", hint)

    def _relation(self) -> Relation:
        if isinstance(self.relation, Relation):
            return self.relation
        name = str(self.relation).lower().replace("_", "-")
        return Relation(_check.one_of("relation", name, [each.value for each in Relation]))

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
            _check.fail("y", f"[{len(y)} labels]", "to hold more than one class", hint)
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
