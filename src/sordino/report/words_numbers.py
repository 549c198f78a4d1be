"""Numbers as people read them: rounded to the true side, thousands separated, never "inf".

An upper bound is rounded up, a lower bound down, an estimate to the nearest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from sordino.privacy import rounded

UNKNOWN = "not known"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_POWER = re.compile(r"(?<![\w.])(\d(?:\.\d+)?)e(-?)\+?0*(\d+)(?![\w.])")
_SIGNS = {" <= ": " ≤ ", " >= ": " ≥ "}
_MOST_DIGITS = 15
_NAMES_SHOWN = 10
_POWERS_FROM = 1e6
"""Below it a number is written out: 1,200."""
_COUNTED_UP_TO = 1e12
"""Beyond it nobody reads the digits of "one chance in N"."""


def upper(value: float, digits: int = 3) -> str:
    """A number that is at most this: rounded up."""
    return _written(value, lambda: rounded(value, up=True, digits=digits))


def lower(value: float, digits: int = 3) -> str:
    """A number that is at least this: rounded down."""
    return _written(value, lambda: rounded(value, up=False, digits=digits))


def about(value: float, digits: int = 3) -> str:
    """A number that was measured: rounded to the nearest."""
    return _written(value, lambda: _nearest(value, digits))


def _nearest(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e" in text and 1 <= abs(value) < _POWERS_FROM else text


def compared(larger: float, smaller: float, *, measured: bool = False) -> tuple[str, str]:
    """A lower bound and what it exceeds, with digits enough to see it.

    What it exceeds is an upper bound, or a number that was `measured`.
    """
    second = about if measured else upper
    for digits in range(3, _MOST_DIGITS):
        below = float(rounded(larger, up=False, digits=digits))
        above = float(f"{smaller:.{digits}g}" if measured else rounded(smaller, digits=digits))
        if below > above:
            return lower(larger, digits), second(smaller, digits)
    return lower(larger, _MOST_DIGITS), second(smaller, _MOST_DIGITS)


def count(value: int) -> str:
    """Thousands separated."""
    return f"{value:,}"


def percent(share: float, digits: int = 1) -> str:
    """A share that was measured: "88.4%"."""
    return UNKNOWN if math.isnan(share) else f"{100 * share:.{digits}f}%"


def percent_up(share: float) -> str:
    """A share that is at most this: rounded up to a tenth of a percent."""
    # A hair of rounding in 100 * share must not cost a tenth.
    tenths = math.ceil(1000 * min(share, 1.0) - 1e-9)
    return f"{tenths / 10:.1f}%"


def percent_down(share: float) -> str:
    """A share that is at least this: rounded down to a tenth of a percent."""
    return f"{math.floor(1000 * max(share, 0.0) + 1e-9) / 10:.1f}%"


def percent_of_confidence(confidence: float) -> str:
    """A confidence: "99%", "99.9%"."""
    return f"{100 * confidence:.6g}%"


def chance(probability: float) -> str:
    """A probability that is at most this, as one chance in so many."""
    if probability <= 0:
        return "no chance at all"
    if probability * _COUNTED_UP_TO < 1:
        return "less than one chance in a million million"
    # A hair of rounding in 1 / 0.0001 must not cost one.
    return f"one chance in {math.floor(1 / probability * (1 + 1e-12)):,}"


def seconds(value: float) -> str:
    """A duration: "0.4 s", "47 s", "3 min 20 s"."""
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    minutes, left = divmod(whole, 60)
    return f"{whole} s" if not minutes else f"{minutes:,} min {left} s"


def plain(value: object) -> str:
    """A setting, as a person would write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return about(value, 6)
    if isinstance(value, int):
        return count(value)
    return "left out" if value is None else str(value)


def settings(values: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Settings by name, as a person would write both."""
    return tuple((name.replace("_", " "), plain(value)) for name, value in values.items())


def named(names: Sequence[str]) -> str:
    """How many, and the first few of them: "2 (even, odd)"."""
    more = ", ..." if len(names) > _NAMES_SHOWN else ""
    return f"{len(names)} ({', '.join(names[:_NAMES_SHOWN])}{more})"


def versions(of: Mapping[str, str]) -> str:
    """Of libraries, in a row."""
    return ", ".join(f"{name} {version}" for name, version in of.items())


def typeset(text: str) -> str:
    """A sentence made for a terminal as it is printed: 5e-06 as 5 × 10⁻⁶, <= as ≤."""
    for sign, printed in _SIGNS.items():
        text = text.replace(sign, printed)
    return _POWER.sub(lambda found: f"{found[1]} × {_ten_to(found[2] + found[3])}", text)


def _ten_to(power: str) -> str:
    return f"10{power.translate(_RAISED)}"


def _written(value: float, text: Callable[[], str]) -> str:
    if math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    return _separated(text())


def _separated(text: str) -> str:
    """`text` of a number with its thousands separated, and powers of ten as they are printed."""
    digits, _, exponent = text.partition("e")
    if exponent:
        return f"{digits} × {_ten_to(str(int(exponent)))}"
    whole, point, rest = digits.partition(".")
    sign = "-" if whole.startswith("-") else ""
    return f"{sign}{int(whole.removeprefix('-')):,}{point}{rest}"
