"""`Cells`: one column of a user's table, as numbers, as levels or as labels.

Sentences name the column, as `frames.called` does, and a row (counted from 1, below the header),
never what a cell holds.

`look` guesses what a column is beyond numbers or words: an identifier, people, dates, codes, years.
It READS PRIVATE DATA and tells a kind, never a cell. No column is left out because of it.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import numbers
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from sordino.data.columns import Column, Label
from sordino.data.frames import MISSING
from sordino.data.sources import DataError
from sordino.types import Array, Floats, Ints

if TYPE_CHECKING:
    import pandas as pd


_MOST_LEVELS = 1000
"""A column of words with more of them, read off the rows, is taken for an identifier."""
_FEW_ROWS = 50
"""In so few rows values may all differ by chance."""

_LEAVE_OUT = "Leave it out in a file of columns (ignore = true)."
_DESCRIBE = f"Describe it, or: {_LEAVE_OUT}"
_NO_CLASSES = "Only classes can be predicted."


class Unusable(DataError):
    """A column that cannot become numbers; `why` completes "Column NAME ..."."""

    def __init__(self, name: str, why: str, hint: str = _DESCRIBE) -> None:
        self.why, self.in_columns = why, hint.endswith(_LEAVE_OUT)
        super().__init__(f"Column {name} {why}. {hint}".rstrip())


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a column; blank text counts as missing. `name` is how sentences call it.

    `before` says how many rows of the table came before these, where it is read in blocks.
    """

    name: str
    series: pd.Series
    before: int = 0

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
            raise Unusable(self.name, f"has more than {_MOST_LEVELS:,} different words")
        return Column(levels=(False, True) if self._flags else tuple(words))

    @functools.cached_property
    def numbers(self) -> Floats:
        """One finite number a row, NaN where it is missing; refuses anything else."""
        found = self._parsed
        strange = np.isnan(found) & ~self.missing | np.isinf(found)
        if strange.any():
            hint = "Correct it, empty it, or describe the column by levels."
            raise Unusable(self.name, f"has no finite number in row {self.row(strange)}", hint)
        return found

    @functools.cached_property
    def missing(self) -> npt.NDArray[np.bool_]:
        """Which rows have no value."""
        return np.isnan(self._parsed) if self._number_dtype else self._codes < 0

    @property
    def identifies(self) -> bool:
        """Whether every row has a word of its own: READS PRIVATE DATA."""
        there = np.count_nonzero(~self.missing)
        return bool(len(self.words) == there > _FEW_ROWS)

    @property
    def words(self) -> set[str]:
        """The different values, as text: READS PRIVATE DATA."""
        return {word(value) for value in self._values if value is not None}

    def places(self, levels: Sequence[Label]) -> Ints:
        """The place of each row's value among `levels`; -1 if it is missing or none of them."""
        index = {_spelled(level): place for place, level in enumerate(levels)}
        if isinstance(levels[0], bool):
            keys = [str(value).capitalize() for value in self._values]
        elif isinstance(levels[0], str):
            keys = [word(value) for value in self._values]
        else:
            keys = list(_parse(self._values))
        return np.array([*(index.get(key, -1) for key in keys), -1], dtype=np.int64)[self._codes]

    def labels(self, classes: Sequence[Label] | None) -> Array:
        """One label a row: a word, or a number if all are whole numbers (or `classes` are)."""
        if self.missing.any():
            self._refuse_target(f"has no label in row {self.row(self.missing)}", "Drop the row.")
        if classes is None:
            classes = self.classes()
        places = self.places(classes)
        if (places < 0).any():
            hint = "Add its label to the classes, or drop it."
            self._refuse_target(f"has none of the classes in row {self.row(places < 0)}", hint)
        return spelled(classes)[places]

    def row(self, bad: npt.NDArray[np.bool_]) -> int:
        """The first of these rows, as people count: from 1, below the header."""
        return self.before + int(np.argmax(bad)) + 1

    def persons(self) -> Ints:
        """One number a row, the same for cells that read the same, blanks around them aside.

        A row of nobody could be anybody's, beyond all counting: it is refused.
        """
        index: dict[str, int] = {}
        words = (None if value is None else word(value) for value in self._values)
        known = (
            -1 if word is None or word in MISSING else index.setdefault(word, len(index))
            for word in words
        )
        codes = np.array([*known, -1], dtype=np.int64)[self._codes]
        if (codes < 0).any():
            why = f"tells persons apart and has none in row {self.row(codes < 0)}"
            raise Unusable(self.name, why, "Fill it, or drop the row.")
        return codes

    def _refuse_target(self, why: str, hint: str) -> NoReturn:
        raise Unusable(self.name, f"is the target and {why}", hint)

    def classes(self) -> tuple[Label, ...]:
        """Find the classes in the labels: READS PRIVATE DATA."""
        found: list[Label]
        if self.missing.all():
            self._refuse_target("is empty", "Fill it.")
        if self.numeric:
            values = np.unique(self.numbers[~self.missing])
            whole = (values == np.round(values)).all() and np.abs(values).max() < 2**53
            if not whole or len(values) > _MOST_LEVELS:
                self._refuse_target("holds numbers that are no classes", _NO_CLASSES)
            found = [int(value) for value in values]
        elif self._flags:
            return (False, True)
        else:
            found = sorted(self.words)
        if not 2 <= len(found) <= _MOST_LEVELS:
            many = "one class only" if len(found) < 2 else f"more than {_MOST_LEVELS:,} labels"
            self._refuse_target(f"has {many}", "Give the classes there can be.")
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


def word(value: Any) -> str:
    """The value as text; a whole number without ".0", as a file of text would have it."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    return str(int(value)) if number and float(value).is_integer() else str(value)


def _parse(values: list[Any]) -> Floats:
    """Each value as a number; NaN if it is none, also for true and false."""
    import pandas as pd

    kept = [None if isinstance(value, bool | np.bool_) else value for value in values]
    parsed = pd.to_numeric(pd.Series(kept, dtype=object), errors="coerce")
    return np.asarray(parsed, dtype=np.float64)


MANY = 100
"""Different words from which on they may be people, and are too many to list."""
_MOST_ROWS_EACH = 20
"""Rows a value on average, up to which values may be people."""
_NEARLY = 0.95
_YEARS = (1800, 2100)
_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/. ](\d{1,2}|[A-Za-z]{3,9})[-/. ]\d{2,4})([T ].*)?"
)


class Look(Enum):
    """A kind: what it is called in a question, whether a draft leaves it out, what to do."""

    IDENTIFIER = "identifiers", True, "An identifier? If not, give bounds or levels."
    PEOPLE = (
        *("people with several rows each", True),
        "People with several rows? The promise is for ONE ROW: see --max-rows-per-person.",
    )
    DATES = "dates", True, "Dates? Make them numbers with known bounds, such as the year."
    CODES = (
        *("numbers that are codes", False),
        'Codes, such as postcodes? Give levels = ["...", "..."], in quotes.',
    )
    FEW_CODES = "a few whole numbers", False, "Codes? If their order means nothing, give levels."
    YEARS = "years", False, "Years? Known bounds, such as [1900, 2030], serve as well."

    def __init__(self, title: str, left_out: bool, remark: str) -> None:
        self.title, self.left_out, self.remark = title, left_out, remark

    @property
    def odd(self) -> bool:
        """Whether it is hardly meant to be learned from as it stands."""
        return self.left_out or self is Look.CODES


def look(cells: Cells, zeros_in_front: bool = False) -> Look | None:
    """What the column seems to be; None if it looks like what its type says.

    Parameters
    ----------
    cells
        The column.
    zeros_in_front
        Whether its numbers are written with zeros in front, which are lost once they are numbers.
    """
    # Of a long table the first rows tell enough.
    cells = replace(cells, series=cells.series.iloc[:100_000])
    try:
        there = int(np.count_nonzero(~cells.missing))
        if not cells.numeric:
            words = cells.words
            if sum(_DATE.fullmatch(word) is not None for word in words) >= _NEARLY * len(words) > 1:
                return Look.DATES
            if len(words) >= _NEARLY * there > _NEARLY * _FEW_ROWS:
                return Look.IDENTIFIER
            people = len(words) > MANY and there <= _MOST_ROWS_EACH * len(words)
            return Look.PEOPLE if people else None
        if there <= _FEW_ROWS:
            return None
        numbers = cells.numbers[~cells.missing]
    except Unusable:
        return None
    if (numbers != np.round(numbers)).any():
        return None
    return _look_of_numbers(np.unique(numbers), there, zeros_in_front)


def _look_of_numbers(whole: Floats, there: int, zeros_in_front: bool) -> Look | None:
    many, low, high = len(whole), whole[0], whole[-1]
    if many <= 2:
        return None  # as levels they would say the same
    year, month, day = whole // 10_000, whole // 100 % 100, whole % 100  # written like 20261231?
    first, last = _YEARS
    dated = (first <= year) & (year <= last) & (month >= 1) & (month <= 12) & (day >= 1)
    if (dated & (day <= 31)).all():
        return Look.DATES
    if many == there:
        return Look.IDENTIFIER
    if low >= first and high <= last:
        return Look.YEARS
    digits = len(f"{high:.0f}")
    alike = zeros_in_front or (low >= 10 ** (digits - 1) and digits > 3)  # of one length
    dense = many >= _NEARLY * (high - low + 1)  # counted: 1, 2, 3, ...
    counted = many > MANY if alike else dense and many > 2 * MANY
    if counted and there <= _MOST_ROWS_EACH * many:
        return Look.IDENTIFIER if many >= _NEARLY * there else Look.PEOPLE
    often = there >= 5 * many
    if zeros_in_front or (alike and often):
        return Look.CODES
    return Look.FEW_CODES if often and many <= 20 else None


_NAMED_ID = re.compile(
    r"(.*[\W_])?(patient|person|customer|client|user|subject|member|employee|student|pupil"
    r"|participant|respondent|individual|citizen)(?P<id>[\W_]?(id|no|nr|num|number|code|key))?",
    re.IGNORECASE,
)


def persons_likely(name: str, cells: Cells, kind: Look | None) -> int:
    """How likely a column tells people with several rows apart: 2 by its name, 1 by its cells.

    READS PRIVATE DATA. By its name only where what it holds could do that: more than two values,
    some of them again, and whole numbers if they are numbers.
    """
    named = _NAMED_ID.fullmatch(name)
    try:
        there, many = int(np.count_nonzero(~cells.missing)), len(cells.words)
        whole = (
            not cells.numeric or (cells.numbers == np.round(cells.numbers))[~cells.missing].all()
        )
    except Unusable:
        return 0
    few_each = there <= _MOST_ROWS_EACH * many
    if named and whole and 2 < many < there and (named["id"] or few_each):
        return 2
    return int(kind is Look.PEOPLE)


def describe_looks(looks: Mapping[str, Look], names: Sequence[str]) -> str:
    """Columns by their place in the file and what they seem to be; empty if there are none."""
    places: dict[str, list[str]] = {}
    for name in sorted(looks, key=names.index):
        places.setdefault(looks[name].title, []).append(str(names.index(name) + 1))
    return ", ".join(
        f"{title} in column{'s' * (len(at) > 1)} {' and '.join(at)}" for title, at in places.items()
    )
