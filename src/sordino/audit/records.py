"""What the records of a dataset are, and both datasets' in a form that can be compared.

Arrays and tuples of arrays, lists, tables and sparse matrices hold one record a row. Numbers are
compared as numbers. Everything else (texts, dates, cells of mixed tables, rows of sparse matrices)
is replaced by whole numbers that are equal where the values are.
"""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Hashable
from typing import Any

import numpy as np
from scipy import sparse

from sordino.data.dataset import Dataset
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
