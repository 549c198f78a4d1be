"""Names that a private file gives its columns: whether they can be names, and who may see them.

The first line of a file that lacks a header is a record, and after a quote that is left open the
whole table is one name. So no sentence and no certificate holds a name because it stands in the
file: columns are told by their place, and by their name only where a public description or whoever
asks has named them. What looks like no header at all is refused.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from sordino import _check
from sordino._shown import printable
from sordino.data.sources import DataError

MOST_LETTERS = 1000
"""Of a name."""
_SHOWN = 60
_COUNTED = 3
_WORD = re.compile(r"[^\W\d]\w*")
_NOT_PRINTED = (
    "Names that nobody declared public are not printed: see the file's first line (head -n 1 FILE)."
)


def check(path: str | Path, names: Sequence[str], declared: Collection[str] = ()) -> None:
    """Refuse a first line that holds no names; those `declared` public are right as they are.

    Raises
    ------
    DataError
        Telling places, and nothing that stands there.
    """
    if why := strange(names, declared):
        raise DataError(f"{path} {why}")
    twice = next((name for name, times in Counter(names).items() if times > 1 and name), None)
    if twice is not None:
        same = [place for place, name in enumerate(names, 1) if name == twice]
        raise DataError(f"{path} has the same name twice: in {_columns(same)}. Rename one.")


def strange(names: Sequence[str], declared: Collection[str] = ()) -> str:
    """Why these cannot be names of columns, telling places; empty if they can."""
    others = [(place, name) for place, name in enumerate(names, 1) if name not in declared]
    if any(len(name) > MOST_LETTERS or printable(name) != name for _, name in others):
        return "has a header that cannot be parsed. Is a quote left open?"
    numbers = [(place, name) for place, name in others if name and is_number(name)]
    if not numbers or _are_counted([name for _, name in numbers]):
        return ""
    where = _columns([place for place, _ in numbers])
    return (
        f"seems to have no header: where names should be there is a number, or nothing but signs, "
        f"in {where}. Give every column a name."
    )


def called(name: str, names: Sequence[str], public: Collection[str]) -> str:
    """How sentences call a column, after the word "column"."""
    if name in public:
        return printable(name, _SHOWN)
    return f"{names.index(name) + 1} of the file"


def known_column(argument: str, name: str, names: Sequence[str], shown: str = "") -> str:
    """Return `name` if it is one of the table's columns; otherwise say a very near one.

    Whoever typed most of a name knows it. No other is told; and if nobody typed it, `shown` is
    told in its place.
    """
    if name not in names and shown:
        _check.fail(argument, shown, "to be a column of the table", _NOT_PRINTED)
    if name not in names:
        words = [each for each in names if _WORD.fullmatch(each) and len(each) <= _SHOWN]
        near = [each for each in words if each.lower() == name.lower()]
        near += difflib.get_close_matches(name, words, n=1, cutoff=0.8)
        hint = f"Did you mean {near[0]}?" if near else f"It has {len(names)}. {_NOT_PRINTED}"
        _check.fail(argument, repr(name), "to be a column of the table", hint)
    return name


def is_number(name: str) -> bool:
    """Whether a name is a number, a date or the like: something without a word in it."""
    letters = {letter.lower() for letter in name if letter.isalpha()}
    try:
        return not letters or (letters == {"e"} and math.isfinite(float(name)))  # 1e5
    except ValueError:
        return False


def _are_counted(numbers: Sequence[str]) -> bool:
    """Whether they are 0, 1, 2, ... or 1, 2, 3, ..., as pandas names columns that have no name."""
    many = len(numbers)
    counts = ([str(start + place) for place in range(many)] for start in (0, 1))
    return many >= _COUNTED and list(numbers) in counts


def _columns(places: Sequence[int]) -> str:
    told = [str(place) for place in places[:_COUNTED]]
    more = f" and {len(places) - _COUNTED:,} more" if len(places) > _COUNTED else ""
    return f"column{'s' * (len(places) > 1)} {', '.join(told)}{more}"
