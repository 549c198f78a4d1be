"""The pair that most entries share: one record, turned to its opposite, and nothing else."""

from __future__ import annotations

import numpy as np

from sordino.data.dataset import Dataset

COLUMNS = 2
"""One for the record, one for nothing but noise, as a real model has many."""


def antipodal(rows: int, slot: int = 0) -> tuple[Dataset, Dataset]:
    """Neighbours D and D' (one record replaced) that pull a linear model opposite ways.

    The record in `slot` is (1, 0) in D and (-1, 0) in D', with the same label; all others are
    empty, so that nothing pulls the two trainings together again. As long as the weights stay
    small, a Huber loss has slope 1 on both, and sensitivity theorems are met with equality.
    """
    X = np.zeros((rows, COLUMNS))
    y = np.ones(rows, dtype=np.int64)
    X[slot, 0] = 1.0
    D = Dataset(X, y, norm_bound=1.0, name="gallery")
    X[slot, 0] = -1.0
    return D, Dataset(X, y, norm_bound=1.0, name="gallery neighbour")
