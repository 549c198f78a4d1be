"""`Difference`: the one record in which two datasets differ, found by comparing their rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import _check
from sordino.data.dataset import Dataset
from sordino.privacy import Relation

Array = npt.NDArray[Any]

_HINT = "An audit is about one record: replaced, or one more, or one less."


@dataclass(frozen=True)
class Difference:
    """What D' has instead of what D has.

    Parameters
    ----------
    relation
        REPLACE_ONE, or ADD_OR_REMOVE_ONE where one dataset has a record more.
    lost
        Row of D that is not in D'; None if D' only has one more.
    gained
        Row of D' that is not in D; None if D' only has one less.
    """

    relation: Relation
    lost: int | None
    gained: int | None

    @property
    def aligned(self) -> bool:
        """Whether one row stands where the other stood, so that all others may be shared."""
        return self.lost is not None and self.lost == self.gained


def records(data: Any) -> tuple[Array, ...] | None:
    """Arrays with one entry a record, or None if nobody can say what the records are.

    A Dataset, a tuple (X, y) of arrays of the same length, or one array; sparse matrices, tables of
    objects and everything else is not looked into.
    """
    if isinstance(data, Dataset):
        return data.X, data.y
    parts = data if isinstance(data, tuple) and len(data) > 1 else (data,)
    found = []
    for part in parts:
        if not hasattr(part, "__array__") and not isinstance(part, list):
            return None
        try:
            array = np.asarray(part)
        except ValueError:  # a ragged list
            return None
        if array.ndim == 0 or array.dtype.kind not in "fiubcUS":
            return None
        found.append(array)
    return tuple(found) if len({len(array) for array in found}) == 1 else None


def difference(D: Any, D_prime: Any) -> Difference | None:
    """Compare two datasets as multisets of records; None where records cannot be told.

    Raises
    ------
    InvalidArgument
        If they differ in no record, or in more than one.
    """
    first, second = records(D), records(D_prime)
    if first is None or second is None:
        return None
    shapes = [[array.shape[1:] for array in arrays] for arrays in (first, second)]
    if shapes[0] != shapes[1]:
        _check.fail("D_prime", f"[records of shape {shapes[1]}]", f"to be of shape {shapes[0]}")
    if len(first[0]) == len(second[0]):
        apart = np.zeros(len(first[0]), dtype=bool)
        for a, b in zip(first, second, strict=True):
            apart |= (a != b).reshape(len(a), -1).any(axis=1)
        if apart.sum() == 1:
            row = int(apart.argmax())
            return Difference(Relation.REPLACE_ONE, row, row)
    parts = [_bytes(*arrays) for arrays in zip(first, second, strict=True)]
    return _as_multisets(*(np.concatenate(rows, axis=1) for rows in zip(*parts, strict=True)))


def _bytes(first: Array, second: Array) -> tuple[Array, Array]:
    """Both arrays as rows of bytes, equal where the values are."""
    dtype = np.result_type(first.dtype, second.dtype)
    found = []
    for array in (first, second):
        flat = np.ascontiguousarray(array, dtype=dtype).reshape(len(array), -1)
        if dtype.kind in "fc":
            flat = flat + 0.0  # -0.0 is 0.0
        found.append(flat.view(np.uint8).reshape(len(array), -1))
    return found[0], found[1]


def _as_multisets(first: Array, second: Array) -> Difference:
    keys = [[row.tobytes() for row in rows] for rows in (first, second)]
    counts = Counter(keys[0])
    counts.subtract(keys[1])
    lost = [key for key, many in counts.items() for _ in range(many)]
    gained = [key for key, many in counts.items() for _ in range(-many)]
    if not lost and not gained:
        _check.fail("D_prime", "[the same records]", "to differ from D in one record", _HINT)
    if len(lost) > 1 or len(gained) > 1:
        many = max(len(lost), len(gained))
        _check.fail("D_prime", f"[{many:,} other records]", "to differ from D in one record", _HINT)
    replaced = bool(lost) and bool(gained)
    return Difference(
        Relation.REPLACE_ONE if replaced else Relation.ADD_OR_REMOVE_ONE,
        keys[0].index(lost[0]) if lost else None,
        keys[1].index(gained[0]) if gained else None,
    )
