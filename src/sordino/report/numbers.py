"""Numbers as people read them: rounded to the true side, thousands separated, never "inf".

An upper bound is rounded up, a lower bound down, an estimate to the nearest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from sordino.privacy import rounded

UNKNOWN = "not known"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_POWER = re.compile(r"(?<![\w.])(\d(?:\.\d+)?)e(-?)\+?0*(\d+)(?![\w.])")
_MOST_DIGITS = 15
_NAMES_SHOWN = 10


def upper(value: float, digits: int = 3) -> str:
    """A number that is at most this: rounded up.

    >>> upper(1.2301), upper(5e-7), upper(float("inf"))
    ('1.24', '5 × 10⁻⁷', 'infinite')
    """
    return _written(value, digits, up=True)


def lower(value: float, digits: int = 3) -> str:
    """A number that is at least this: rounded down.

    >>> lower(1.2399), lower(1234567)
    ('1.23', '1,230,000')
    """
    return _written(value, digits, up=False)


def about(value: float, digits: int = 3) -> str:
    """A number that was measured: rounded to the nearest."""
    return _written(value, digits, up=None)


def _written(value: float, digits: int, *, up: bool | None) -> str:
    if math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    text = f"{value:.{digits}g}" if up is None else rounded(value, up=up, digits=digits)
    if up is None and "e" in text and 1 <= abs(value) < 1e6:
        text = f"{float(text):.0f}"
    if "e" in text:
        return _POWER.sub(_printed_power, text)
    whole, point, rest = text.partition(".")
    sign = "-" if whole.startswith("-") else ""
    return f"{sign}{int(whole.removeprefix('-')):,}{point}{rest}"


def _printed_power(found: re.Match[str]) -> str:
    return f"{found[1]} × 10{(found[2] + found[3]).translate(_RAISED)}"


def typeset(text: str) -> str:
    """A sentence made for a terminal as it is printed.

    >>> typeset("epsilon <= 4.5 at delta = 5e-06")
    'epsilon ≤ 4.5 at delta = 5 × 10⁻⁶'
    """
    return _POWER.sub(_printed_power, text.replace(" <= ", " ≤ ").replace(" >= ", " ≥ "))


def compared(larger: float, smaller: float, *, measured: bool = False) -> tuple[str, str]:
    """A lower bound and what it exceeds, with digits enough to see it.

    What it exceeds is an upper bound, or a number that was `measured`.
    """
    for digits in range(3, _MOST_DIGITS + 1):
        above = float(f"{smaller:.{digits}g}" if measured else rounded(smaller, digits=digits))
        if float(rounded(larger, up=False, digits=digits)) > above:
            break
    return lower(larger, digits), (about if measured else upper)(smaller, digits)


def percent(share: float, digits: int = 1) -> str:
    """A share that was measured: "88.4%"."""
    return UNKNOWN if math.isnan(share) else f"{100 * share:.{digits}f}%"


def percent_up(share: float) -> str:
    """A share that is at most this: rounded up to a tenth of a percent."""
    # A hair of rounding in 100 * share must not cost a tenth.
    return f"{math.ceil(1000 * min(share, 1.0) - 1e-9) / 10:.1f}%"


def percent_down(share: float) -> str:
    """A share that is at least this: rounded down to a tenth of a percent."""
    return f"{math.floor(1000 * max(share, 0.0) + 1e-9) / 10:.1f}%"


def confidence(level: float) -> str:
    """A confidence: "99%", "99.9%"."""
    return f"{100 * level:.6g}%"


def chance(probability: float) -> str:
    """A probability that is at most this, as one chance in so many.

    >>> chance(3e-6)
    'one chance in 333,333'
    """
    if probability <= 0:
        return "no chance at all"
    if probability * 1e12 < 1:  # nobody reads more digits
        return "less than one chance in a million million"
    # A hair of rounding in 1 / 0.0001 must not cost one.
    return f"one chance in {math.floor(1 / probability * (1 + 1e-12)):,}"


def seconds(value: float) -> str:
    """A duration: "0.4 s", "47 s", "3 min 20 s"."""
    if value < 10:
        return f"{value:.1f} s"
    minutes, left = divmod(round(value), 60)
    return f"{minutes:,} min {left} s" if minutes else f"{left} s"


def plain(value: object) -> str:
    """A setting, as a person would write it."""
    if value is None or isinstance(value, bool):
        return {None: "left out", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        return about(value, 6)
    return f"{value:,}" if isinstance(value, int) else str(value)


def settings(values: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Settings by name, as a person would write both."""
    return tuple((name.replace("_", " "), plain(value)) for name, value in values.items())


def name_list(names: Sequence[str]) -> str:
    """How many, and the first few of them: "2 (even, odd)"."""
    more = ", ..." if len(names) > _NAMES_SHOWN else ""
    return f"{len(names)} ({', '.join(names[:_NAMES_SHOWN])}{more})"


def versions(of: Mapping[str, str]) -> str:
    """Of libraries, in a row."""
    return ", ".join(f"{name} {version}" for name, version in of.items())
