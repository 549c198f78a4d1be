"""`FitRecords`: the rows of one fit, scaled into their norm (`Scaling`), and their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino.data.dataset import NORM_SLACK, Dataset, row_norms
from sordino.estimators.risk import Risk
from sordino.estimators.task import Task
from sordino.types import Array

_BLOCK = 1 << 12
_COLUMNS = 1 << 9
"""Rows with more columns are scored fewer at a time: a block is a copy, and dense."""
PLAIN = 1e12
"""Rows up to this much too long are scaled in their own precision: its error is in the slack."""


@dataclass(frozen=True)
class Scaling:
    """How a row becomes what a model sees, in training and in prediction alike.

    A model is fitted to scaled rows, so its scores and probabilities are those of scaled rows only.

    Parameters
    ----------
    norm
        Longer rows are scaled down to it, the others are left as they are; infinity scales none.
    intercept
        Whether rows get a constant 1 at the end, which is scaled with them.
    """

    norm: float
    intercept: bool

    def rows(self, X: Array) -> Array:
        """The rows as the model sees them, each scaled on its own, in the precision of `X`."""
        rows = np.empty((len(X), X.shape[1] + int(self.intercept)), dtype=X.dtype)
        for start in range(0, len(X), _BLOCK):
            block = rows[start : start + _BLOCK]
            block[:, : X.shape[1]] = X[start : start + _BLOCK]
            if self.intercept:
                block[:, -1] = 1
            _scale_down(block, self.norm)
        return rows

    def scores(self, X: Any, coef: Array, intercept: Array) -> Array:
        """What linear models say of each row, a column a model; `X` may be sparse (CSR)."""
        weights = np.column_stack([coef, intercept]) if self.intercept else coef
        scores = np.empty((X.shape[0], len(coef)))
        step = max(1, _BLOCK * _COLUMNS // max(_COLUMNS, X.shape[1]))
        for start in range(0, len(scores), step):
            part = X[start : start + step]
            rows = self.rows(part.toarray() if hasattr(part, "toarray") else part)
            scores[start : start + step] = rows @ weights.T
        return scores if self.intercept else scores + intercept


@dataclass(frozen=True, eq=False)
class FitRecords:
    """Rows within the norm bound, the intercept's column last, and class numbers.

    One problem if there are two classes (is it the second?), else one a class (is it this one?).
    """

    X: Array
    codes: npt.NDArray[np.int64]
    classes: int
    norm: float

    @classmethod
    def of(
        cls, X: Array, codes: npt.NDArray[np.int64], classes: int, norm: float, intercept: bool
    ) -> FitRecords:
        """Scale rows into the norm, each on its own; how many were too long stays private."""
        rows = Scaling(norm, intercept).rows(X)
        rows.flags.writeable = False
        return cls(rows, codes, classes, norm)

    @property
    def problems(self) -> int:
        """Binary problems."""
        return 1 if self.classes == 2 else self.classes

    def labels(self, problem: int) -> npt.NDArray[np.int64]:
        """0 or 1 for each record of one problem."""
        asked = 1 if self.classes == 2 else problem
        return np.asarray(self.codes == asked, dtype=np.int64)

    def dataset(self, problem: int) -> Dataset:
        """One problem, for the engine."""
        return Dataset(self.X, self.labels(problem), norm_bound=self.norm, name="fit")

    def risk(self, problem: int, task: Task, l2: float) -> Risk:
        """One problem's regularised mean loss, for methods that look at all records at once."""
        return Risk(
            X=self.X,
            y=self.labels(problem).astype(self.X.dtype),
            kind=task.kind,
            huber_width=task.huber_width,
            l2=l2,
        )


def _scale_down(rows: Array, norm: float) -> None:
    """Scale rows longer than `norm` down to it, in place; none is left longer than the slack."""
    norms = row_norms(rows)
    long = norms > norm
    if not long.any():
        return
    plain = long & (norms < PLAIN * norm)
    factors = np.where(plain, norm / np.where(plain, norms, 1.0), 1.0)
    rows *= factors[:, None].astype(rows.dtype)
    shorter = 1.0
    while len(rest := np.flatnonzero(row_norms(rows) > norm * (1 + NORM_SLACK / 2))):
        # Too long for a float's square, or rounded up: in float64, from the largest entry down.
        part = rows[rest].astype(np.float64)
        part /= np.abs(part).max(axis=1, keepdims=True)
        part *= shorter * norm / row_norms(part)[:, None]
        rows[rest] = part
        shorter *= 1 - 2.0**-20
