"""Values of a report as plain values for JSON, and back: to the letter, or refused.

Type hints of the dataclasses are the whole grammar: numbers, texts, literals, enums, tuples,
mappings, optionals and dataclasses of these. Numbers are kept exactly, and infinity is written
"inf". Only lines for figures (`Curve`) are rounded, to six significant digits.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import functools
import math
import numbers
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, NoReturn, TypeVar, Union

from sordino._check import InvalidArgument, fail
from sordino.privacy import Refused
from sordino.report.stages import Curve, Plain

DIGITS = 6
"""Significant digits of a line for a figure: a hundred times finer than any eye."""
INFINITE = "inf"
INFINITE_SETTING: dict[str, str] = {"number": INFINITE}
"""Infinity where a text may stand as well, and "inf" would be one."""

_Value = TypeVar("_Value")


class DocumentError(Refused):
    """A document that is not what it should be; one sentence names the place."""


def curve(x: Iterable[float], y: Iterable[float]) -> Curve:
    """A line for a figure, from any sequence of numbers, rounded to six significant digits."""
    line = Curve(tuple(_rounded(each) for each in x), tuple(_rounded(each) for each in y))
    if len(line.x) != len(line.y):
        fail("y", f"[{len(line.y)} numbers]", f"to be as many as x has, {len(line.x)}")
    return line


def to_plain(value: Any) -> Any:
    """A dataclass of the report as plain values, ready for JSON.

    Raises
    ------
    DocumentError
        If a field holds what its type does not allow, or a number that is none.
    """
    return _write(type(value), value, "")


def from_plain(cls: type[_Value], plain: object) -> _Value:
    """What `to_plain` was given, of the dataclass `cls`.

    Raises
    ------
    DocumentError
        For anything else, with a sentence that names the place.
    """
    value = _read(cls, plain, "")
    assert isinstance(value, cls)
    return value


def refuse(place: str, says: str) -> NoReturn:
    """Raise `DocumentError`, naming the place."""
    raise DocumentError(f"{_whose(place)} {says}.")


@functools.cache
def fields_of(cls: type) -> dict[str, Any]:
    """Type of every field of a dataclass, by name, in its order."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


@functools.cache
def added(cls: type) -> frozenset[str]:
    """Fields that documents of earlier versions lack."""
    return frozenset(field.name for field in dataclasses.fields(cls) if "added" in field.metadata)


def choices(hint: Any) -> tuple[Any, ...]:
    """The types of a union, None among them; () if `hint` is none."""
    union = typing.get_origin(hint) in (Union, types.UnionType)
    return tuple(None if each is types.NoneType else each for each in typing.get_args(hint) * union)


def _write(hint: Any, value: Any, place: str) -> Any:
    return _walk(hint, value, place, _write)


def _read(hint: Any, value: Any, place: str) -> Any:
    return _walk(hint, value, place, _read)


_Step = Callable[[Any, Any, str], Any]


def _walk(hint: Any, value: Any, place: str, step: _Step) -> Any:
    """One value of type `hint`, written or read; what both ways share."""
    origin, reading = typing.get_origin(hint), step is _read
    if options := choices(hint):
        return _union(options, value, place, step)
    if origin is Literal:
        return _one_of(typing.get_args(hint), value, place)
    if origin is tuple:
        return _tuple(typing.get_args(hint), value, place, step)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(typing.get_args(hint)[1], value, place, step)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _object(hint, value, place) if reading else _parts(hint, value, place)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        if not reading:
            return _of_type(hint, value, place).value
        return hint(_one_of([each.value for each in hint], value, place))
    if hint is float:
        return _number(value, place, reading)
    if hint in (int, str, bool):
        return _scalar(hint, value, place)
    raise TypeError(f"nobody said how to write {hint} down ({place})")


def _parts(cls: type, value: Any, place: str) -> dict[str, Any]:
    _of_type(cls, value, place)
    if isinstance(value, Curve):
        value = curve(value.x, value.y)
    return {
        name: _write(hint, getattr(value, name), _inside(place, name))
        for name, hint in fields_of(cls).items()
    }


def _object(cls: type, value: Any, place: str) -> Any:
    hints = fields_of(cls)
    check_keys(value, hints, place, may_lack=added(cls))
    parts = {
        name: _read(hint, value[name], _inside(place, name))
        for name, hint in hints.items()
        if name in value
    }
    try:
        return curve(**parts) if cls is Curve else cls(**parts)
    except InvalidArgument as error:
        raise DocumentError(f"{_whose(place)} cannot be right. {error}") from None


def check_keys(
    value: object, names: Collection[str], place: str, *, may_lack: Collection[str] = ()
) -> None:
    """Refuse anything but an object with exactly these keys, or all but some of `may_lack`."""
    if not isinstance(value, dict):
        refuse(place, f"is no object with {', '.join(names)}")
    for name in value:
        if name not in names:
            near = difflib.get_close_matches(str(name), list(names), n=1)
            meant = f"; did you mean {near[0]}" if near else ""
            refuse(place, f"has {_shown(name)}, which is no part of it{meant}")
    for name in names:
        if name not in value and name not in may_lack:
            refuse(place, f"has no {name!r}")


def _union(options: tuple[Any, ...], value: Any, place: str, step: _Step) -> Any:
    if value is None and None in options:
        return None
    named = [each for each in options if each is not None]
    if len(named) == 1:
        return step(named[0], value, place)
    return _setting(value, place, step is _read)


def _setting(value: Any, place: str, reading: bool) -> Plain:
    """A plain value of any kind: the type it has is the type it keeps."""
    if reading and value == INFINITE_SETTING:
        return math.inf
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool) or _numpy_bool(value):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        if not reading and value == math.inf:
            return INFINITE_SETTING  # type: ignore[return-value]  # written, no longer a setting
        return float(_number(value, place, reading))
    refuse(place, f"is {_shown(value)}, and no text, number, truth or null")


def _one_of(allowed: Collection[Any], value: Any, place: str) -> Any:
    # By type as well: True is 1, and 1.0 is.
    if not any(type(value) is type(each) and value == each for each in allowed):
        refuse(place, f"is {_shown(value)}, and none of {', '.join(map(str, allowed))}")
    return value


def _tuple(hints: tuple[Any, ...], value: Any, place: str, step: _Step) -> Any:
    reading = step is _read
    if not isinstance(value, list if reading else list | tuple):
        refuse(place, f"is {_shown(value)}, and no list")
    if len(hints) == 2 and hints[1] is Ellipsis:
        hints = (hints[0],) * len(value)
    if len(value) != len(hints):
        refuse(place, f"has {len(value)} entries, and not {len(hints)}")
    both = zip(hints, value, strict=True)
    entries = [step(hint, each, f"{place}[{i}]") for i, (hint, each) in enumerate(both)]
    return tuple(entries) if reading else entries


def _mapping(hint: Any, value: Any, place: str, step: _Step) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        refuse(place, f"is {_shown(value)}, and no object")
    for name in value:
        if not isinstance(name, str):
            refuse(place, f"has the key {_shown(name)}, which is no text")
    return {name: step(hint, each, _inside(place, name)) for name, each in value.items()}


def _number(value: Any, place: str, reading: bool) -> float | str:
    if reading and value == INFINITE and isinstance(value, str):
        return math.inf
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        refuse(place, f"is {_shown(value)}, and no number")
    try:
        number = float(value)
    except OverflowError:
        refuse(place, "is too large a number")
    if number == math.inf and not reading:
        return INFINITE
    if not math.isfinite(number):
        refuse(place, f"is {number}, and no number")
    return number


def _scalar(kind: type, value: Any, place: str) -> Any:
    said = {int: "whole number", str: "text", bool: "truth (true or false)"}[kind]
    truth = isinstance(value, bool) or _numpy_bool(value)
    known = {int: numbers.Integral, str: str, bool: bool}[kind]
    if kind is bool and truth:
        return bool(value)
    if truth or not isinstance(value, known):
        refuse(place, f"is {_shown(value)}, and no {said}")
    return kind(value)


def _of_type(cls: type[_Value], value: Any, place: str) -> _Value:
    if type(value) is not cls:
        refuse(place, f"is {_shown(value)}, and no {cls.__name__}")
    return value


def _numpy_bool(value: object) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _whose(place: str) -> str:
    return f"The document's {place}" if place else "The document"


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _shown(value: object) -> str:
    text = ascii(value)  # somebody else's: nothing a terminal would act on
    return text if len(text) <= 40 else text[:37] + "..."
