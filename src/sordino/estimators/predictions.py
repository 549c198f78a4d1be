"""What a released model says of a row: rows are seen as the training saw them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sordino.estimators.records import Scaling
from sordino.estimators.unquoted import unquoted
from sordino.types import Array


class Predictions(ClassifierMixin):  # type: ignore[misc]
    """Scores and labels of a fitted linear classifier."""

    classes_: Array
    coef_: Array
    intercept_: Array
    _scaling: Scaling

    def decision_function(self, X: Any) -> Array:
        """Score of each row: for two classes one number, above 0 for the second of `classes_`.

        Rows longer than `data_norm` are scaled down to it as in the training.
        """
        check_is_fitted(self)
        with unquoted(X):
            X = validate_data(
                self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False
            )
        scores = self._scaling.scores(X, self.coef_, self.intercept_)
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """The most likely class of each row."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy of `predict(X)` against the labels `y`."""
        with unquoted(X, y):
            return float(super().score(X, y, sample_weight))
