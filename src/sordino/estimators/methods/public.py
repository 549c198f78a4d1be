"""A public table: where rows lie and what parts their labels, known before a private row is seen.

Everything made of it is public, as `initial_weights` are, and no budget pays for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino.estimators.fit import FitRecords, Task
from sordino.estimators.methods.statistics import solve_exactly
from sordino.estimators.minimum.softmax import SoftmaxRisk
from sordino.estimators.preparation import Coordinates
from sordino.types import Array, Floats

_TOLERANCE = 1e-4
"""Norm of the mean gradient at the start, for rows of norm 1: no more is worth the time."""
_BELIEVED = 0.03
"""The start's regulariser, times the root of its rows, for rows of norm 1.

Chosen on adult, mnist-binary, cifar2, digits/binary and a synthetic table, of which 100 or 400 rows
were public: 0.01 was better on all but cifar2, whose 100 rows have ten times as many columns.
"""
_LEAST_DEVIATION = 0.1
"""Of the root mean square of all columns': a few rows may be alike where others are not."""


@dataclass(frozen=True, eq=False)
class PublicTable:
    """Rows that may be looked at, and their labels, if there are any.

    Parameters
    ----------
    X
        Rows as they are passed, of the columns that the private ones have.
    codes
        Class numbers, or targets in [-1, 1]; None: the table has rows alone.
    classes
        How many classes there are; 0 for a regression.
    """

    X: Array
    codes: npt.NDArray[Any] | None
    classes: int

    def center(self, coordinates: Coordinates) -> Floats:
        """The mean of the rows within their bounds and norm, in the units of `X`."""
        rows = coordinates.bounded(self.X).astype(np.float64)
        return coordinates.from_place(rows.mean(axis=0))

    def deviations(self, coordinates: Coordinates) -> Floats:
        """Each column's standard deviation within bounds and norm, in the units of `X`."""
        rows = coordinates.bounded(self.X).astype(np.float64)
        found = rows.std(axis=0)
        typical = math.sqrt(float((found**2).mean())) or 1.0
        return coordinates.from_length(np.maximum(found, _LEAST_DEVIATION * typical))

    def start(self, task: Task, intercept: bool, prepared: Coordinates | None) -> Floats:
        """Weights [problem, column] that fit the table, on rows as the training will see them."""
        assert self.codes is not None
        of = self.X, self.codes, self.classes, task.norm, intercept, prepared
        records, tolerance = FitRecords.of(*of), _TOLERANCE * task.norm
        l2 = max(task.l2, _BELIEVED * task.norm**2 / math.sqrt(len(self.X)))
        if task.joint:
            return SoftmaxRisk(records.X, records.codes, task.problems, l2).minimise(tolerance)
        if task.regression:
            return solve_exactly(records, l2)
        risks = (records.risk(k, task, l2) for k in range(records.problems))
        return np.stack([np.asarray(risk.minimise(None, tolerance), float) for risk in risks])
