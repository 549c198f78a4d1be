"""Which rows are held out: the papers' rules, in one place."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sordino.randomness import stream

Index = npt.NDArray[np.int64]


def first_tenth(rows: int) -> tuple[slice, slice]:
    """Return the positions of (the training rows, the validation rows): the first 10 % are held."""
    cut = rows // 10
    return slice(cut, rows), slice(0, cut)


def shuffled(rows: int, train_percent: int, name: str) -> tuple[Index, Index]:
    """Return shuffled positions of (train_percent %, the rest), always alike for one `name`."""
    order = stream("split", name, train_percent).permutation(rows)
    # Whole-number arithmetic: 0.85 * n in floating point may fall just below an integer.
    cut = rows * train_percent // 100
    return order[:cut], order[cut:]


def papers(rows: int, train_percent: int, name: str) -> tuple[Index, Index, Index]:
    """Return (train, validation, test): a shuffled test split, then the first tenth of the rest."""
    rest, test = shuffled(rows, train_percent, name)
    kept, held = first_tenth(len(rest))
    return rest[kept], rest[held], test
