"""Values of a report as plain values for JSON, and back: to the letter, or refused.

`serialize.py` has the grammar. Numbers are kept exactly; only lines for figures (`Curve`) are
rounded, to six significant digits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NoReturn, TypeVar

from sordino import serialize
from sordino.checks import fail
from sordino.errors import Refused
from sordino.report.stages import Curve
from sordino.serialize import Unfit, Where, fields_of, listed, refusing

__all__ = [
    "FORMS",
    "DocumentError",
    "check_header",
    "check_keys",
    "curve",
    "fields_of",
    "from_plain",
    "parse",
    "refuse",
    "to_plain",
]

DIGITS = 6
"""Significant digits of a line for a figure: a hundred times finer than any eye."""

_Value = TypeVar("_Value")


class DocumentError(Refused):
    """A document that is not what it should be; one sentence names the place."""


def curve(x: Iterable[float], y: Iterable[float]) -> Curve:
    """A line for a figure, from any sequence of numbers, rounded to six significant digits."""
    rounded = [tuple(float(f"{each:.{DIGITS}g}") for each in line) for line in (x, y)]
    line = Curve(*rounded)
    _check_lengths(line)
    return line


def _check_lengths(line: Curve) -> None:
    if len(line.x) != len(line.y):
        fail("y", f"[{len(line.y)} numbers]", f"to be as many as x has, {len(line.x)}")


_POINTS = listed(serialize.Number(digits=DIGITS))
FORMS = serialize.Forms(
    {Curve: serialize.RecordForm(Curve, {"x": _POINTS, "y": _POINTS}, check=_check_lengths)}
)
"""The forms of everything in a report."""


def to_plain(value: Any) -> Any:
    """A dataclass of the report as plain values, ready for JSON.

    Raises
    ------
    DocumentError
        If a field holds what its type does not allow, or a number that is none.
    """
    with refusing("document", DocumentError):
        return FORMS.of(type(value)).write(value)


def from_plain(cls: type[_Value], plain: object) -> _Value:
    """What `to_plain` was given, of the dataclass `cls`.

    Raises
    ------
    DocumentError
        For anything else, with a sentence that names the place.
    """
    with refusing("document", DocumentError):
        value: _Value = FORMS.of(cls).read(plain)
        return value


def parse(content: str | bytes) -> object:
    """The value that strict JSON stands for: no key twice, no number that is none."""
    with refusing("document", DocumentError):
        return serialize.parse(content)


def check_header(values: object, schema: str, version: int) -> dict[str, Any]:
    """`values` if they say to be of this schema and version."""
    with refusing("document", DocumentError):
        return serialize.headed(values, schema, version)


def check_keys(value: object, names: Collection[str], place: str) -> None:
    """Refuse anything but an object with exactly these keys."""
    with refusing("document", DocumentError):
        serialize.check_keys(value, names, Where(place))


def refuse(place: str, says: str) -> NoReturn:
    """Raise `DocumentError`, naming the place."""
    raise DocumentError(Unfit(place, says).sentence("document"))
