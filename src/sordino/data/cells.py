"""`Cells`: one column of a user's table, as numbers, as levels or as labels.

Sentences name the column, as `frames.called` does, and a row (counted from 1, below the header),
never what a cell holds.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino.data.columns import Column, Label
from sordino.data.sources import DataError
from sordino.types import Array, Floats, Ints

if TYPE_CHECKING:
    import pandas as pd


_MOST_LEVELS = 1000
"""A column of words with more of them, read off the rows, is taken for an identifier."""
FEW_ROWS = 50
"""In so few rows values may all differ by chance."""

_DESCRIBE = "Describe it in a file of columns, or leave it out there (ignore = true)."
_LEAVE_OUT = "Leave it out (ignore = true in a file of columns)."


class Unusable(DataError):
    """A column that cannot become numbers; `why` completes "Column NAME ..."."""

    def __init__(self, name: str, why: str, hint: str = _DESCRIBE) -> None:
        self.why, self.in_columns = why, hint.endswith((_DESCRIBE, _LEAVE_OUT))
        super().__init__(f"Column {name} {why}. {hint}".rstrip())


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a column; blank text counts as missing. `name` is how sentences call it."""

    name: str
    series: pd.Series

    def inferred(self) -> Column:
        """Describe the column by what its rows hold: READS PRIVATE DATA."""
        if self.missing.all():
            raise Unusable(self.name, "is empty", _LEAVE_OUT)
        if self.numeric:
            low, high = float(np.nanmin(self.numbers)), float(np.nanmax(self.numbers))
            if low == high:
                raise Unusable(self.name, "has one value only")
            if not math.isfinite(high - low):
                raise Unusable(self.name, "has numbers too large to scale")
            return Column(bounds=(low, high))
        words = sorted(self.words)
        if len(words) == 1:
            raise Unusable(self.name, "has one value only")
        if len(words) > _MOST_LEVELS:
            why = f"has more than {_MOST_LEVELS:,} different words (an identifier, or a date?)"
            raise Unusable(self.name, why)
        return Column(levels=(False, True) if self._flags else tuple(words))

    @functools.cached_property
    def numbers(self) -> Floats:
        """One finite number a row, NaN where it is missing; refuses anything else."""
        found = self._parsed
        strange = np.isnan(found) & ~self.missing
        if strange.any():
            row = _first(strange)
            hint = "Correct it, empty the cell, or describe the column by levels."
            raise Unusable(self.name, f"has something that is no number in row {row}", hint)
        if np.isinf(found).any():
            row = _first(np.isinf(found))
            raise Unusable(self.name, f"has an infinite number in row {row}", "Correct that cell.")
        return found

    @functools.cached_property
    def missing(self) -> npt.NDArray[np.bool_]:
        """Which rows have no value."""
        return np.isnan(self._parsed) if self._number_dtype else self._codes < 0

    @property
    def identifies(self) -> bool:
        """Whether every row has a word of its own: READS PRIVATE DATA."""
        there = np.count_nonzero(~self.missing)
        return bool(len(self.words) == there > FEW_ROWS)

    @property
    def words(self) -> set[str]:
        """The different values, as text: READS PRIVATE DATA."""
        return {_word(value) for value in self._values if value is not None}

    def places(self, levels: Sequence[Label]) -> Ints:
        """The place of each row's value among `levels`; -1 if it is missing or none of them."""
        index = {_spelled(level): place for place, level in enumerate(levels)}
        if isinstance(levels[0], bool):
            keys = [str(value).capitalize() for value in self._values]
        elif isinstance(levels[0], str):
            keys = [_word(value) for value in self._values]
        else:
            keys = list(_parse(self._values))
        return np.array([*(index.get(key, -1) for key in keys), -1], dtype=np.int64)[self._codes]

    def labels(self, classes: Sequence[Label] | None) -> Array:
        """One label a row: a word, or a number if all are whole numbers (or `classes` are)."""
        if self.missing.any():
            row = _first(self.missing)
            hint = "Fill it, or drop the row."
            raise Unusable(self.name, f"is the target and has no label in row {row}", hint)
        if classes is None:
            classes = self.classes()
        places = self.places(classes)
        if (places < 0).any():
            hint = "Add it to the classes, or drop the row."
            why = f"is the target and row {_first(places < 0)} has none of the classes"
            raise Unusable(self.name, why, hint)
        return spelled(classes)[places]

    def classes(self) -> tuple[Label, ...]:
        """Find the classes in the labels: READS PRIVATE DATA."""
        found: list[Label]
        if self.missing.all():
            raise Unusable(self.name, "is the target and is empty", "Fill it.")
        if self.numeric:
            values = np.unique(self.numbers[~self.missing])
            whole = (values == np.round(values)).all() and np.abs(values).max() < 2**53
            if not whole or len(values) > _MOST_LEVELS:
                why = "is the target and holds numbers that are no classes"
                raise Unusable(self.name, why, "Only classes can be predicted.")
            found = [int(value) for value in values]
        elif self._flags:
            return (False, True)
        else:
            found = sorted(self.words)
        if len(found) < 2:
            hint = "Give the classes there can be."
            raise Unusable(self.name, "is the target and has one class only", hint)
        if len(found) > _MOST_LEVELS:
            why = f"is the target and has more than {_MOST_LEVELS:,} different labels"
            raise Unusable(self.name, why, "Is it an identifier?")
        return tuple(found)

    # Work is done once a distinct value: columns of words have few.

    @functools.cached_property
    def _distinct(self) -> tuple[Ints, list[Any]]:
        import pandas as pd

        try:
            codes, values = pd.factorize(self.series)
        except TypeError:  # lists and the like
            raise self._strange() from None
        cleaned = [self._cleaned(value) for value in values]
        blank = np.array([value is None for value in cleaned] + [True])
        return np.where(blank[codes], -1, codes).astype(np.int64), cleaned

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.strip() or None
        if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
            raise Unusable(self.name, "holds dates or times", f"Make them numbers. {_LEAVE_OUT}")
        if isinstance(value, bool | np.bool_ | numbers.Real | decimal.Decimal):
            return value
        raise self._strange()

    def _strange(self) -> Unusable:
        return Unusable(self.name, "holds neither numbers nor words", _LEAVE_OUT)

    @property
    def _codes(self) -> Ints:
        return self._distinct[0]

    @property
    def _values(self) -> list[Any]:
        return self._distinct[1]

    @property
    def _number_dtype(self) -> bool:
        import pandas as pd

        kind = self.series.dtype
        return pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind)

    @functools.cached_property
    def _parsed(self) -> Floats:
        if self._number_dtype:
            return self.series.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.append(_parse(self._values), np.nan)[self._codes]

    @property
    def numeric(self) -> bool:
        """Whether every value there is is a number."""
        if self._number_dtype:
            return True
        return not self._flags and not np.isnan(self._parsed[~self.missing]).any()

    @property
    def _flags(self) -> bool:
        if self._number_dtype:
            return False
        there = [value for value in self._values if value is not None]
        return bool(there) and all(isinstance(value, bool | np.bool_) for value in there)


def spelled(labels: Sequence[Label]) -> Array:
    """The labels as an array: true and false as words, whole numbers as integers."""
    words = [_spelled(label) for label in labels]
    if isinstance(words[0], str):
        return np.asarray(words)
    exact = np.asarray(words, dtype=np.float64)
    return exact.astype(np.int64) if (exact == np.round(exact)).all() else exact


def _spelled(label: Label) -> str | int | float:
    return str(label) if isinstance(label, bool) else label


def _word(value: Any) -> str:
    """The value as text; a whole number without ".0", as a file of text would have it."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    return str(int(value)) if number and float(value).is_integer() else str(value)


def _parse(values: list[Any]) -> Floats:
    """Each value as a number; NaN if it is none, also for true and false."""
    import pandas as pd

    kept = [None if isinstance(value, bool | np.bool_) else value for value in values]
    parsed = pd.to_numeric(pd.Series(kept, dtype=object), errors="coerce")
    return np.asarray(parsed, dtype=np.float64)


def _first(bad: npt.NDArray[np.bool_]) -> int:
    return int(np.argmax(bad)) + 1
