"""`Difference`: the one record in which two datasets differ, found by comparing their rows."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino import _check
from sordino.audit.records import NotComparable, comparable, is_sparse, names, records
from sordino.privacy import Relation
from sordino.types import Array

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
    in_order
        Whether the two are neighbours as lists, too: one row stands where the other stood, or
        leaving out the one row gives the other dataset. Of what depends on the order of its
        records only such a pair tells anything.
    """

    relation: Relation
    lost: int | None
    gained: int | None
    in_order: bool

    @property
    def aligned(self) -> bool:
        """Whether one row stands where the other stood, so that all others may be shared."""
        return self.lost is not None and self.lost == self.gained


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
    shapes = [[part.shape[1:] for part in parts] for parts in (first, second)]
    if shapes[0] != shapes[1]:
        _check.fail("D_prime", f"[records of shape {shapes[1]}]", f"to be of shape {shapes[0]}")
    if names(D) != names(D_prime):
        _check.fail("D_prime", "[other columns]", "to have the columns of D")
    try:
        parts = [comparable(a, b) for a, b in zip(first, second, strict=True)]
    except NotComparable:
        return None
    if first[0].shape[0] == second[0].shape[0]:
        apart = np.zeros(len(parts[0][0]), dtype=bool)
        for a, b in parts:
            apart |= _flat(_unequal(a, b)).any(axis=1)
        if apart.sum() == 1:
            row = int(apart.argmax())
            return Difference(Relation.REPLACE_ONE, row, row, in_order=True)
    bytes_of = [_bytes(a, b) for a, b in parts]
    rows = [np.concatenate(each, axis=1) for each in zip(*bytes_of, strict=True)]
    return _as_multisets(*([row.tobytes() for row in each] for each in rows))


def has_silent_record(D: Any, D_prime: Any, found: Difference) -> bool:
    """Whether one of the two records of a replaced pair is 0 in all its features."""
    for data, row in ((D, found.lost), (D_prime, found.gained)):
        parts = records(data)
        if parts is None or row is None:
            continue
        features = parts[0][[row]]
        if is_sparse(features):
            features = features.toarray()
        if features.dtype.kind in "fiub" and not np.any(features):
            return True
    return False


def _unequal(first: Array, second: Array) -> Array:
    """Entry by entry; what is no number, or no time, is the same as itself."""
    apart = np.asarray(first != second)
    if first.dtype.kind in "fcmM" and second.dtype.kind in "fcmM":
        apart &= (first == first) | (second == second)
    return apart


def _bytes(first: Array, second: Array) -> tuple[Array, Array]:
    """Both arrays as rows of bytes, equal where the values are."""
    dtype = np.result_type(first.dtype, second.dtype)
    found = []
    for array in (first, second):
        flat = _flat(np.ascontiguousarray(array, dtype=dtype))
        if dtype.kind in "fc":
            flat = flat + 0.0  # -0.0 is 0.0
            flat[flat != flat] = np.nan  # of which there are many
        found.append(np.ascontiguousarray(flat).view(np.uint8))
    return found[0], found[1]


def _flat(array: Array) -> Array:
    """One row a record, also where there are no records."""
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _as_multisets(first: list[bytes], second: list[bytes]) -> Difference:
    counts = Counter(first)
    counts.subtract(second)
    lost = [key for key, many in counts.items() for _ in range(many)]
    gained = [key for key, many in counts.items() for _ in range(-many)]
    if not lost and not gained:
        _check.fail("D_prime", "[the same records]", "to differ from D in one record", _HINT)
    if len(lost) > 1 or len(gained) > 1:
        many = max(len(lost), len(gained))
        _check.fail("D_prime", f"[{many:,} other records]", "to differ from D in one record", _HINT)
    if lost and gained:
        places = first.index(lost[0]), second.index(gained[0])
        return Difference(Relation.REPLACE_ONE, places[0], places[1], in_order=False)
    longer, shorter, key = (first, second, lost[0]) if lost else (second, first, gained[0])
    # If leaving out any one row gives the other, so does leaving out the first that differs.
    row = next((i for i, each in enumerate(shorter) if each != longer[i]), len(shorter))
    in_order = longer[row + 1 :] == shorter[row:]
    if not in_order:
        row = longer.index(key)
    return Difference(
        Relation.ADD_OR_REMOVE_ONE,
        lost=row if lost else None,
        gained=None if lost else row,
        in_order=in_order,
    )
