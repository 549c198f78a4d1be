"""Named random streams for experiments. Never used for noise that protects people.

A stream is addressed by its full name, such as ("order", 17): the same name gives the same
numbers on every machine, in every chunk and thread, and different names give independent ones.
`Streams` is what the engine asks for randomness: `SeededStreams` for experiments, `OsStreams`
where nothing may be repeatable.
"""

from __future__ import annotations

import hashlib
import json
import operator
from typing import Protocol

import numpy as np

Name = str | int
RESULTS = "0.1.0.dev0"
"""What the same seeds and settings give: the version of sordino that last changed any of it.

Studies and outputs of audits keep it, and go on with every later sordino that has the same. Raise
it in the commit that changes what a seed gives: what was begun before is then refused by name.
"""


class Streams(Protocol):
    """Where a run's randomness comes from: one generator for each name.

    `repeatable` says whether the same name gives the same numbers a second time.
    """

    repeatable: bool

    def stream(self, *name: Name) -> np.random.Generator:
        """Return a fresh generator at the start of the stream called `name`."""
        ...


class SeededStreams:
    """Repeatable streams: `root` tells two experiments apart, the name does the rest."""

    repeatable = True

    def __init__(self, root: Name = "sordino") -> None:
        self.root = root

    def stream(self, *name: Name) -> np.random.Generator:
        """Return the generator that belongs to `name` under this root."""
        return np.random.Generator(np.random.PCG64(_entropy((self.root, *name))))


class OsStreams:
    """Streams from the operating system's entropy: never repeated, recorded nowhere."""

    repeatable = False

    def stream(self, *name: Name) -> np.random.Generator:
        """Return a generator with 128 fresh bits of entropy; the name is not used."""
        return np.random.Generator(np.random.PCG64())


def stream(*name: Name) -> np.random.Generator:
    """Return the experiment stream called `name`, for example stream("neighbours", "adult")."""
    return SeededStreams().stream(*name)


def _entropy(name: tuple[Name, ...]) -> int:
    # JSON keeps ("a", 1) apart from ("a1",) and 1 apart from "1"; SHA-256 spreads the rest.
    plain = [part if isinstance(part, str) else operator.index(part) for part in name]
    canonical = json.dumps(plain, separators=(",", ":")).encode()
    return int.from_bytes(hashlib.sha256(canonical).digest(), "big")
