"""One setting of a study: what kind of value it must be."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sordino import _check

_PROMISELESS = ("none", "majority")


def check_method(name: str) -> str:
    """Return the name of a method that promises something."""
    from sordino.estimators import methods

    if name in _PROMISELESS:
        hint = "It adds no noise; what it would reach is on the page in any case."
        _check.fail("method", name, "to promise something", hint)
    promising = [each for each in methods.NAMES if each not in _PROMISELESS]
    return one_of("method", name, promising)


def one_of(name: str, value: object, allowed: Sequence[str]) -> str:
    """Return `value` if it is one of the names allowed."""
    if not isinstance(value, str):
        _check.fail(name, value, f"to be one of {', '.join(allowed)}")
    return _check.one_of(name, value, allowed)


def text(name: str, value: object, hint: str = "") -> str:
    """Return a text or a path as text, if it is not empty and a file can hold it."""
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(found, str) or not found.strip():
        _check.fail(name, repr(value), "to be text", hint)
    try:
        found.encode()
    except UnicodeEncodeError:
        _check.fail(name, ascii(found), "to be text in UTF-8", hint)
    return found


def inside(name: str, value: float, ends: tuple[float, float], hint: str) -> float:
    """Return `value` as a float if it lies between the two ends, which are at least 0."""
    low, high = ends
    # positive() also refuses what is no number.
    if not low < _check.positive(name, value, hint) < high:
        _check.fail(name, value, f"in ({low:g}, {high:g})", hint)
    return float(value)


def plain(value: Any) -> Any:
    """The same with lists for whatever is listed, so that equal descriptions are equal."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if hasattr(value, "item") and not getattr(value, "shape", ()):  # a number of numpy's
        return value.item()
    listed = not isinstance(value, str) and hasattr(value, "__len__") and hasattr(value, "__iter__")
    return [plain(each) for each in value] if listed else value
