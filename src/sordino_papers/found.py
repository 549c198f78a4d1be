"""`Numbers` and `Found`: what a run left, and what a claim asks of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from sordino.types import Array

Numbers = Mapping[str, Array]
"""What a run left, by name: plain arrays of numbers or strings, kept as one .npz file."""


@dataclass(frozen=True)
class Found:
    """Our number.

    Parameters
    ----------
    value
        It.
    low, high
        Its 95 % interval, where our own runs give one; None where it is exact or, as a maximum,
        has none.
    words
        Anything a reader must know to read it, such as a count: "3 of 72".
    """

    value: float
    low: float | None = None
    high: float | None = None
    words: str = ""

    @classmethod
    def of(cls, numbers: Numbers, name: str) -> Found:
        """`name` of a run: a scalar, or three numbers (value, low, high)."""
        held = np.asarray(numbers[name], dtype=np.float64).ravel()
        if len(held) == 1:
            return cls(float(held[0]))
        value, low, high = (float(each) for each in held)
        return cls(value, low, high)


def held(name: str) -> Callable[[Numbers], Found]:
    """The quantity that is a number of the run itself."""
    return lambda numbers: Found.of(numbers, name)
