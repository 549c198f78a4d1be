"""Generators that an object carries: who copies it copies the numbers they have still to draw."""

from __future__ import annotations

import random
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

_KINDS = (
    *(np.random.Generator, np.random.BitGenerator, np.random.RandomState, np.random.SeedSequence),
    random.Random,
)
_CODE = (FunctionType, BuiltinFunctionType, ModuleType, type)


def is_generator(value: object) -> bool:
    """Whether it is a generator with a state of its own: numpy's, Python's or torch's."""
    if isinstance(value, random.SystemRandom):
        return False
    kind = type(value)
    torchs = kind.__name__ == "Generator" and kind.__module__.partition(".")[0] == "torch"
    return torchs or isinstance(value, _KINDS)


def carried(value: object, *, code: bool) -> str | None:
    """The type of a generator that a copy of `value` would copy; None where there is none.

    `code` is for copies that go to another process: functions and classes of a script or a prompt
    are sent by value, with the globals that they name and whatever they close over. A copy within
    this process shares functions and classes. Of what cannot be copied nothing is said.
    """
    # The very pickler of the pool: what it would send is what is looked through.
    pickler = import_module("joblib.externals.loky.backend.reduction").get_loky_pickler()

    def looked_at(_: object, each: object) -> str | None:
        if is_generator(each):
            raise _Found(type(each).__name__)
        if isinstance(each, np.ndarray) and each.dtype.kind != "O":
            return "numbers"  # large, and nothing else
        if isinstance(each, random.SystemRandom):
            return "the system"
        return "code" if not code and isinstance(each, _CODE) else None

    scanner: Any = type("_Scanner", (pickler,), {"persistent_id": looked_at})
    try:
        scanner(_Nowhere()).dump(value)
    except _Found as found:
        return str(found)
    except Exception:  # of whatever cannot be copied, each has its own
        return None
    return None


class _Found(Exception):
    """Its text is the type of a generator."""


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, _: Any) -> None:
        """Forget it."""
