"""Every argument check, in one sentence form.

A failed check reads "Expected NAME=VALUE CONDITION. HINT", for example
"Expected epsilon=-1 > 0. Pass the budget you promise, such as 1.0."
"""

from __future__ import annotations

import difflib
import math
import operator
import os
import sys
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from sordino.errors import InvalidArgument, printable

if TYPE_CHECKING:  # the command line's help does without numpy
    import numpy.typing as npt

_Listed = TypeVar("_Listed")


def fail(
    name: str,
    value: object,
    condition: str,
    hint: str = "",
    error: Callable[[str], Exception] | None = None,
) -> NoReturn:
    """Raise `error`, or `InvalidArgument` of the argument `name`, in the house's sentence form.

    >>> fail("epsilon", -1, "> 0", "Pass a budget such as 1.0.")
    Traceback (most recent call last):
    sordino.errors.InvalidArgument: Expected epsilon=-1 > 0. Pass a budget such as 1.0.
    """
    # Half a path would be no help.
    shown = printable(value, None if isinstance(value, os.PathLike) else 60)
    sentence = printable(f"Expected {name}={shown} {condition}. {hint}".rstrip())
    raise InvalidArgument(sentence, name) if error is None else error(sentence)


def fail_missing(option: str, when: str, hint: str) -> NoReturn:
    """Raise `InvalidArgument` for an option that is needed and was not given."""
    name = option.split()[0]
    raise InvalidArgument(f"Expected {f'{option} {when}'.rstrip()}. {hint}", name)


def positive(name: str, value: float, hint: str = "", *, allow_infinite: bool = False) -> float:
    """Return `value` as a float if it is a number above 0."""
    condition = "> 0" if allow_infinite else "> 0 and finite"
    most = math.inf if allow_infinite else sys.float_info.max
    return _number(name, value, hint, condition, lambda number: 0 < number <= most)


def non_negative(name: str, value: float, hint: str = "", *, allow_infinite: bool = False) -> float:
    """Return `value` as a float if it is a number of at least 0."""
    condition = ">= 0" if allow_infinite else ">= 0 and finite"
    most = math.inf if allow_infinite else sys.float_info.max
    return _number(name, value, hint, condition, lambda number: 0 <= number <= most)


def number(name: str, value: float, hint: str = "") -> float:
    """Return `value` as a float if it is finite."""
    return _number(name, value, hint, "to be finite", math.isfinite)


def fraction(name: str, value: float, hint: str = "", *, allow_zero: bool = False) -> float:
    """Return `value` as a float if it lies in (0, 1], or in [0, 1] with `allow_zero`."""
    if allow_zero:
        return _number(name, value, hint, "in [0, 1]", lambda number: 0 <= number <= 1)
    return _number(name, value, hint, "in (0, 1]", lambda number: 0 < number <= 1)


def probability_below_one(name: str, value: float, hint: str = "") -> float:
    """Return `value` as a float if it lies in [0, 1), as a delta must."""
    return _number(name, value, hint, "in [0, 1)", lambda number: 0 <= number < 1)


def whole(name: str, value: int, hint: str = "", *, at_least: int = 0) -> int:
    """Return `value` as an int if it is a whole number of at least `at_least`."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        shown = repr(value) if isinstance(value, str) else value
        fail(name, shown, f"to be a whole number >= {at_least}", hint)
    if number < at_least:
        fail(name, value, f">= {at_least}", hint)
    return number


def flag(name: str, value: bool, hint: str = "") -> bool:
    """Return `value` as a bool if it is True or False; a text like "no" would count as true."""
    # numpy's own bool counts, told by its name so that numpy need not be loaded.
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):
        fail(name, value, "to be True or False", hint)
    return bool(value)


def sequence(name: str, value: _Listed, hint: str = "") -> _Listed:
    """Return `value` if it can be gone through more than once; a single number cannot."""
    if isinstance(value, str) or not (hasattr(value, "__len__") and hasattr(value, "__iter__")):
        fail(name, value, "to be a list", hint)
    return value


def one_of(name: str, value: str, allowed: Collection[str], hint: str = "") -> str:
    """Return `value` if it is one of `allowed`; otherwise name the nearest valid ones."""
    if value not in tuple(allowed):  # a list among the keys of a dict would be a TypeError
        near = difflib.get_close_matches(str(value), list(allowed), n=3, cutoff=0.6)
        meant = f"Did you mean {' or '.join(near)}? " if near else ""
        fail(name, value, f"to be one of {', '.join(allowed)}", meant + hint)
    return value


def index(name: str, value: int, size: int, hint: str = "") -> int:
    """Return `value` as an int if it is a position in 0..size-1."""
    number = whole(name, value, hint)
    if number >= size:
        fail(name, value, f"< {size}, the number of rows", hint)
    return number


def finite(name: str, values: npt.NDArray[Any], hint: str = "") -> npt.NDArray[Any]:
    """Return `values` if every entry is a finite number; otherwise name the first bad row."""
    import numpy as np

    if not (good := np.isfinite(values)).all():
        bad = np.flatnonzero(~good.reshape(len(values), -1).all(axis=1))
        condition = f"to hold finite numbers only; the first bad row is {bad[0]}"
        fail(name, f"[{len(bad)} bad rows]", condition, hint)
    return values


def _number(
    name: str, value: float, hint: str, condition: str, holds: Callable[[float], bool]
) -> float:
    if isinstance(value, bool | str | bytes):  # float() would take them
        fail(name, repr(value), "to be a number", hint)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        fail(name, value, "to be a number", hint)
    if not holds(number):
        fail(name, value, "to be a number, not NaN" if math.isnan(number) else condition, hint)
    return number
