"""`Runner`: what all ways to run a mechanism on two datasets share; digests of what is run."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.metadata
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from sordino.data.dataset import Dataset
from sordino.randomness import RESULTS, Name, SeededStreams
from sordino.types import Floats

Blocks = Iterator[tuple[int, int, Floats]]
"""World (0 for D, 1 for D'), first run, outputs [run, value]."""


@dataclass(frozen=True)
class Stretch:
    """Runs start..stop-1 of one world."""

    world: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def blocks(self, size: int) -> Iterator[Stretch]:
        """The same in pieces that end where whole blocks of all runs end."""
        for start in range(self.start - self.start % size, self.stop, size):
            yield Stretch(self.world, max(start, self.start), min(start + size, self.stop))


def in_both(missing: list[Stretch], size: int) -> list[range]:
    """Runs that are missing in either world, in pieces that end where whole blocks end."""
    runs = np.unique(np.concatenate([np.arange(each.start, each.stop) for each in missing]))
    cuts = np.flatnonzero((np.diff(runs) > 1) | (runs[1:] % size == 0)) + 1
    return [range(int(part[0]), int(part[-1]) + 1) for part in np.split(runs, cuts)]


class _Streams(SeededStreams):
    """Streams of an audit's own; but a start that the spec fixes is the same for everybody."""

    def stream(self, *name: Name) -> np.random.Generator:
        if name[0] == "fixed initial weights":
            return SeededStreams().stream(*name)
        return super().stream(*name)


class Runner(ABC):
    """Runs of one mechanism in two worlds, independent of each other within a world."""

    def __init__(self, mechanism: Any, D: Any, D_prime: Any, seed: int) -> None:
        self.mechanism = mechanism
        self.worlds = D, D_prime
        self.seed = seed
        self.streams = _Streams(f"audit {seed}")

    @abstractmethod
    def __call__(self, runs: int, missing: list[Stretch], workers: int, client: Any) -> Blocks:
        """Make the missing ones of so many runs, and perhaps a few of the others again."""

    def description(self) -> dict[str, Any]:
        """What is run, for a file."""
        D, other = self.worlds
        if not isinstance(other, Dataset):  # an overlay
            parts = (other.members, other.slot, other.occupant, other.extra_X, other.extra_y)
            other = (other.dataset.fingerprint, *parts)
        return {
            "mechanism": {**self.mechanism.description(), "sordino": RESULTS},
            "D": digest(D),
            "D_prime": digest(other),
            "seed": self.seed,
        }

    def normals(self, what: str, task: Stretch, together: int, columns: int, *name: Name) -> Floats:
        """Of the runs of a task within one block: the same whichever others are made."""
        start = task.start - task.start % together
        stream = self.streams.stream(what, task.world, start, *name)
        return stream.standard_normal((task.stop - start, columns))[task.start - start :]


def digest(value: Any) -> str | None:
    """SHA-256 of data, settings and code; None where they cannot be written down.

    Code is known by its name and settings, the version of its package or, without one, the text of
    its file. What a function closes over, values that change while the program runs, and code in
    other files are not looked into.
    """
    if isinstance(value, Dataset):
        return value.fingerprint
    try:
        return hashlib.sha256(repr(_plain(value)).encode()).hexdigest()
    except TypeError:
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return value
    if isinstance(value, Dataset):
        return value.fingerprint
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fiubcUS":
        array = np.ascontiguousarray(value)
        return [array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
    if isinstance(value, dict):
        return sorted((str(key), _plain(each)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, functools.partial):
        return [_plain(each) for each in (value.func, value.args, value.keywords)]
    return _code(value)


def _code(value: Any) -> list[Any]:
    """Name, version, source and settings of a function, a class or an object of a class."""
    named = value if hasattr(value, "__qualname__") else type(value)
    settings = None
    if inspect.ismethod(value):
        settings = value.__self__
    elif hasattr(value, "get_params") and named is not value:
        settings = value.get_params(deep=False)
    elif dataclasses.is_dataclass(value) or (callable(value) and hasattr(value, "__dict__")):
        settings = None if named is value else vars(value)
    elif named is not value:
        raise TypeError(type(value).__name__)
    package = named.__module__.partition(".")[0]
    version = getattr(sys.modules.get(package), "__version__", None)
    with suppress(Exception):  # not installed, or no name at all
        version = version or importlib.metadata.version(package)
    text = None
    # Of code without a version the text of its whole file, so that what stands beside it counts.
    places: list[Any] = [sys.modules.get(named.__module__), named]
    for place in places[version is not None :]:
        with suppress(OSError, TypeError):  # compiled, or typed at a prompt
            text = text or inspect.getsource(place)
    if version is None and text is None:
        raise TypeError(named.__qualname__)
    source = None if text is None else hashlib.sha256(text.encode()).hexdigest()
    return [f"{named.__module__}.{named.__qualname__}", version, source, _plain(settings)]
