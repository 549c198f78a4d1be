"""A process in which nothing depends on chance, on the clock or on the machine's settings.

Noise that protects people comes from the operating system, and the harness needs the same numbers
twice. So chance is replaced where Python gets it (`os.urandom`, what `random`, `secrets`, `uuid`
and numpy's unseeded generators draw from) and where OpenDP samples, the clock where `datetime`
reads it. These are other people's names: they stay where they are, however sordino is rebuilt. It
is only ever done in a process of the harness's own (`make.py`), before sordino is imported.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TODAY = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
_REAL = datetime.datetime
_case = ""
_drawn: dict[int, int] = {}
_seen: dict[str, int] = {}


def again(case: str) -> None:
    """Begin the streams of one case: what it draws does not depend on those before it."""
    global _case
    _seen[case] = _seen.get(case, 0) + 1
    _case = f"{case} {_seen[case]}"
    _drawn.clear()


def _urandom(count: int) -> bytes:
    # One stream for every length: names of temporary files (8 bytes) shall not shift keys (32).
    turn = _drawn[count] = _drawn.get(count, 0) + 1
    made = b""
    while len(made) < count:
        made += hashlib.sha256(f"{_case} {count} {turn} {len(made)}".encode()).digest()
    return made[:count]


def forget() -> None:
    """Begin a part: what it draws does not depend on the parts before it, either."""
    _seen.clear()


class _Gaussian:
    """In the place of OpenDP's measurement: its interface, a cheap law, and no secret."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, values: list[float]) -> list[float]:
        return [value + self.scale * _normal() for value in values]

    def map(self, sensitivity: float) -> float:
        return (sensitivity / self.scale) ** 2 / 2


def _normal() -> float:
    word = int.from_bytes(_urandom(12), "big")
    radius = math.sqrt(-2 * math.log(((word >> 48) + 1) / 2**48))
    return radius * math.cos(2 * math.pi * (word % 2**48) / 2**48)


class _AnyDatetime(type(_REAL)):  # type: ignore[misc]
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _REAL)


class _Fixed(_REAL, metaclass=_AnyDatetime):
    @classmethod
    def now(cls, tz: Any = None) -> datetime.datetime:
        return TODAY.astimezone(tz) if tz else TODAY.replace(tzinfo=None)


@contextmanager
def nameless() -> Iterator[None]:
    """A process without a number or a host of its own: ledgers write both into their chain."""
    kept = os.getpid, socket.gethostname
    os.getpid, socket.gethostname = (lambda: 4242), (lambda: "host")
    try:
        yield
    finally:
        os.getpid, socket.gethostname = kept


def begin() -> None:
    """Make this process steady. What others ship is imported first, and keeps the real clock."""
    import cryptography
    import matplotlib.dates
    import opendp.measurements
    import pandas
    import sklearn
    import torch
    import xarray
    import zarr

    assert all((cryptography, matplotlib, pandas, sklearn, torch, xarray, zarr))
    torch.set_num_threads(1)
    os.urandom = _urandom
    random._urandom = _urandom  # type: ignore[attr-defined]
    datetime.datetime = _Fixed  # type: ignore[misc]
    opendp.measurements.make_gaussian = lambda *_, scale, **__: _Gaussian(scale)
    again("begin")
