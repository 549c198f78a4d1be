"""`Difference`: the one record in which two datasets differ, found by comparing their rows."""

from __future__ import annotations

import datetime
import math
import numbers
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sordino import checks
from sordino.data.dataset import Dataset
from sordino.privacy import Relation
from sordino.types import Array

_NUMBERS = "fiubc"
_ALIKE = "USmM"  # compared by numpy where both are of the same kind
_MISSING = ("NAType", "NaTType")  # of pandas, which need not be loaded
_PLAIN = (str, bytes, datetime.date, datetime.time, datetime.timedelta)


class NotComparable(Exception):
    """Values of which nobody can say whether they are the same."""


def is_sparse(part: Any) -> bool:
    """Whether it is a sparse matrix or array of scipy's."""
    return bool(sparse.issparse(part))


def records(data: Any) -> tuple[Any, ...] | None:
    """Parts (arrays or CSR matrices) with one entry a record; None if nobody can say what they are.

    A Dataset; a tuple (X, y) of parts of the same length; one array, table, sparse matrix or list.
    A list of arrays is a tuple, (X, y), if their shapes differ: if they are all of one shape they
    may just as well be records, and nobody can say.
    """
    if isinstance(data, Dataset):
        return data.X, data.y
    found = [_rows(part) for part in _parts(data)]
    if not found or any(part is None for part in found):
        return None
    return tuple(found) if len({part.shape[0] for part in found}) == 1 else None


def _parts(data: Any) -> tuple[Any, ...]:
    if isinstance(data, tuple):
        return data
    if isinstance(data, list) and data and all(map(_is_array, data)):
        return tuple(data) if len({tuple(part.shape) for part in data}) > 1 else ()
    return (data,)


def _is_array(part: Any) -> bool:
    return (hasattr(part, "__array__") or is_sparse(part)) and len(part.shape) > 0


def _rows(part: Any) -> Any:
    if is_sparse(part):
        return _canonical(part) if part.ndim == 2 else None
    if not hasattr(part, "__array__") and not isinstance(part, list):
        return None
    try:
        array = np.asarray(part)
    except ValueError:  # a ragged list
        array = np.empty(len(part), dtype=object)
        for place, record in enumerate(part):
            array[place] = record
    return array if array.ndim > 0 else None


def _canonical(matrix: Any) -> Any:
    """CSR with every entry written in one way."""
    found = sparse.csr_array(matrix, copy=True)
    found.sum_duplicates()
    found.eliminate_zeros()
    found.sort_indices()
    return found


def comparable(first: Any, second: Any) -> tuple[Array, Array]:
    """The same part of both datasets as arrays of one kind, equal where the values are.

    Raises
    ------
    NotComparable
        If it holds objects that are no plain values.
    """
    if is_sparse(first) or is_sparse(second):
        return _coded(_sparse_keys(first), _sparse_keys(second))
    kinds = first.dtype.kind, second.dtype.kind
    if all(kind in _NUMBERS for kind in kinds) or (kinds[0] == kinds[1] and kinds[0] in _ALIKE):
        return first, second
    cells = [[_key(cell) for cell in array.astype(object).ravel()] for array in (first, second)]
    codes = _coded(*cells)
    return codes[0].reshape(first.shape), codes[1].reshape(second.shape)


def _coded(first: list[Hashable], second: list[Hashable]) -> tuple[Array, Array]:
    """Keys as whole numbers, the same for the same key."""
    table: dict[Hashable, int] = {}
    found = [
        np.array([table.setdefault(key, len(table)) for key in keys], dtype=np.int64)
        for keys in (first, second)
    ]
    return found[0], found[1]


def _sparse_keys(part: Any) -> list[Hashable]:
    """The bytes of each row: where it is not 0, and what stands there."""
    if not is_sparse(part):
        if part.ndim != 2 or part.dtype.kind not in _NUMBERS:
            raise NotComparable
        part = _canonical(part)
    where, values = part.indices.astype(np.int64), part.data.astype(np.complex128)
    return [
        (where[start:stop].tobytes(), values[start:stop].tobytes())
        for start, stop in zip(part.indptr[:-1], part.indptr[1:], strict=True)
    ]


def _key(value: Any) -> Hashable:
    """Equal for equal plain values of one kind; 1 and 1.0 are equal, and so are NaN and NaN."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value).__name__ in _MISSING:
        return (None,)
    if isinstance(value, numbers.Number):
        return isinstance(value, bool), value if value == value else "nan"
    if isinstance(value, _PLAIN):
        return type(value).__name__, value
    if isinstance(value, tuple | list):
        return type(value).__name__, tuple(map(_key, value))
    if isinstance(value, np.ndarray):
        return "array", value.shape, tuple(map(_key, value.ravel()))
    if isinstance(value, dict):
        return "dict", frozenset((_key(name), _key(each)) for name, each in value.items())
    raise NotComparable


def names(data: Any) -> list[list[str]]:
    """Names of the columns of tables: the same numbers under other names are other data."""
    parts = data if isinstance(data, tuple | list) else (data,)
    named = [getattr(part, "columns", None) for part in parts]
    return [[str(name) for name in each] for each in named if each is not None]


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
        checks.fail("D_prime", f"[records of shape {shapes[1]}]", f"to be of shape {shapes[0]}")
    if names(D) != names(D_prime):
        checks.fail("D_prime", "[other columns]", "to have the columns of D")
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
        checks.fail("D_prime", "[the same records]", "to differ from D in one record", _HINT)
    if len(lost) > 1 or len(gained) > 1:
        many = max(len(lost), len(gained))
        checks.fail("D_prime", f"[{many:,} other records]", "to differ from D in one record", _HINT)
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
