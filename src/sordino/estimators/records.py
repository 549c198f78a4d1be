"""`Records`: the rows of one fit, scaled into their norm, and their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino.data.dataset import Dataset, row_norms
from sordino.estimators.risk import Risk
from sordino.estimators.task import Task

Array = npt.NDArray[Any]
_BLOCK = 1 << 12


@dataclass(frozen=True, eq=False)
class Records:
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
    ) -> Records:
        """Scale rows into the norm, each on its own; how many were too long stays private."""
        rows = np.empty((len(X), X.shape[1] + int(intercept)), dtype=X.dtype)
        for start in range(0, len(X), _BLOCK):
            block = rows[start : start + _BLOCK]
            block[:, : X.shape[1]] = X[start : start + _BLOCK]
            if intercept:
                block[:, -1] = 1
            _scale_down(block, norm)
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
    """Scale rows longer than `norm` down to it, in place."""
    norms = row_norms(rows)
    huge = ~np.isfinite(norms)
    if huge.any():  # a row too long for a float's square is shortened first, not lost
        rows[huge] /= np.abs(rows[huge]).max(axis=1, keepdims=True)
        norms[huge] = np.maximum(row_norms(rows[huge]), norm)
    if (norms > norm).any():
        factors = np.where(norms > norm, norm / np.maximum(norms, np.finfo(float).tiny), 1.0)
        rows *= factors[:, None].astype(rows.dtype)
