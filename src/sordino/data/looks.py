"""What a column seems to be beyond numbers or words: an identifier, people, dates, codes, years.

A guess about a user's table for whoever describes it. It READS PRIVATE DATA and tells a kind, never
a cell; nothing is proved by it and no column is left out because of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from sordino.data.cells import FEW_ROWS, Unusable

if TYPE_CHECKING:
    from sordino.data.cells import Cells
    from sordino.types import Floats

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

    IDENTIFIER = (
        "identifiers",
        True,
        "Every row, or nearly every one, has a value of its own: an identifier? If it is none, "
        "give bounds or levels instead.",
    )
    PEOPLE = (
        "people with several rows each",
        True,
        "Many values, each in a few rows: people, with several rows each? Then mind whom the "
        "promise is for: ONE ROW, unless --max-rows-per-person K says that nobody has more than K "
        "(and you made sure of it: sordino neither counts nor groups rows by a column). If it is "
        "something else to learn from, give levels instead, few enough to be listed.",
    )
    DATES = (
        "dates",
        True,
        "Dates? As words each day would be a column of its own. Leave it out, or make it a number "
        "with known bounds, such as the year.",
    )
    CODES = (
        "numbers that are codes",
        False,
        "Codes, such as postcodes? As numbers, 10999 would lie just beside 11000, whatever they "
        'stand for. Give levels = ["...", "..."] (in quotes, then zeros in front count), group '
        "them, or leave it out.",
    )
    FEW_CODES = (
        "a few whole numbers",
        False,
        "Only a few whole numbers: codes, or a count? If their order means nothing, give "
        "levels = [...] instead of bounds.",
    )
    YEARS = (
        "years",
        False,
        "Years? Bounds that are known without looking, such as [1900, 2030], serve as well.",
    )

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
            if len(words) >= _NEARLY * there > _NEARLY * FEW_ROWS:
                return Look.IDENTIFIER
            people = len(words) > MANY and there <= _MOST_ROWS_EACH * len(words)
            return Look.PEOPLE if people else None
        if there <= FEW_ROWS:
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


def listed(looks: Mapping[str, Look], names: Sequence[str]) -> str:
    """Columns by their place in the file and what they seem to be; empty if there are none."""
    places: dict[str, list[str]] = {}
    for name in sorted(looks, key=names.index):
        places.setdefault(looks[name].title, []).append(str(names.index(name) + 1))
    return ", ".join(
        f"{title} in column{'s' * (len(at) > 1)} {' and '.join(at)}" for title, at in places.items()
    )
