"""`Bench`: one directory where runs are made once and kept; what changed is made anew."""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sordino import _files, checks
from sordino.study.refusal import UNREADABLE
from sordino.types import Progress
from sordino_papers import identity
from sordino_papers.claims import PaperRun
from sordino_papers.kinds import makers

if TYPE_CHECKING:
    from sordino.data.catalogue.recipe import Form, Splits
    from sordino_papers.found import Numbers

_RUN = "_run"
"""Where kept numbers say of which run they are."""
_USES = ("grid", "grids")
"""Settings that name other runs."""


class NotHere(Exception):
    """A run cannot be made on this machine: its text says what is missing."""


@dataclass
class Bench:
    """Where runs are made.

    Parameters
    ----------
    directory
        Of everything that is kept; INTERNAL (weights without noise).
    runs
        Every run by name.
    data_dir
        Directory of the raw files; None is SORDINO_DATA.
    quick
        Whether runs' quick settings count.
    begin, end
        Called with a run's name when it is made: `begin` returns what is told (done, total),
        `end` is told the seconds.
    """

    directory: Path
    runs: Mapping[str, PaperRun]
    data_dir: str | os.PathLike[str] | None = None
    quick: bool = False
    begin: Callable[[str], Progress] = lambda name: lambda done, total: None
    end: Callable[[str, float], None] = lambda name, seconds: None
    tell: Progress = lambda done, total: None
    seconds: dict[str, float] = field(default_factory=dict)
    """What each run took when it was made, also if that was long ago."""
    made: set[str] = field(default_factory=set)
    """Runs that were made now."""
    _held: dict[str, Numbers] = field(default_factory=dict)
    _failed: dict[str, str] = field(default_factory=dict)

    def settings(self, name: str) -> dict[str, Any]:
        """A run's settings at this size."""
        checks.one_of("run", name, sorted(self.runs))
        return self.runs[name].chosen(self.quick)

    def address(self, name: str) -> str:
        """What a run's numbers depend on, as a short name of a file."""
        run = self.runs[name]
        settings = self.settings(name)
        uses = [self.address(other) for other in self.uses(name)]
        files = identity.of_files(settings, self.data_dir)
        facts = [run.kind, identity.of_kind(run.kind), settings, files, uses]
        text = json.dumps(facts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def uses(self, name: str) -> list[str]:
        """Runs that this one needs."""
        paper = name.partition("/")[0]
        settings = self.settings(name)
        named: list[str] = []
        for key in _USES:
            value = settings.get(key, [])
            named += [value] if isinstance(value, str) else list(value)
        return [each if "/" in each else f"{paper}/{each}" for each in named]

    def numbers(self, name: str) -> Numbers:
        """A run's numbers: held, read, or made now.

        Raises
        ------
        NotHere
            If it cannot be made here.
        """
        if name in self._held:
            return self._held[name]
        if name in self._failed:
            raise NotHere(self._failed[name])
        address = self.address(name)
        path = self.directory / "runs" / f"{address}.npz"
        found = _read(path, address)
        if found is None:
            try:
                found = self._make(name)
            except NotHere as error:
                self._failed[name] = str(error)
                raise
            self.made.add(name)
            found = {**found, "_seconds": np.array(self.seconds[name]), _RUN: np.array(address)}
            _write(path, found)
        self.seconds[name] = float(found["_seconds"])
        self._held[name] = found
        return found

    def _make(self, name: str) -> Numbers:
        from sordino.data.sources import DataError, MissingFileError

        for other in self.uses(name):
            self.numbers(other)
        run = self.runs[name]
        make = makers()[run.kind]
        self.tell = self.begin(name)
        began = time.perf_counter()
        try:
            found = make(self.settings(name), self)
        except MissingFileError as error:
            raise NotHere(f"{error.raw.name} is missing") from error
        except DataError as error:
            raise NotHere(str(error)) from error
        self.seconds[name] = time.perf_counter() - began
        self.end(name, self.seconds[name])
        return found

    def store(self, *parts: Any) -> Path:
        """A directory of its own for what a run keeps while it is made; named by its content.

        The first of `parts` begins with the name of the kind that keeps it.
        """
        text = json.dumps([identity.of_kind(parts[0].split()[0]), *parts], sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        path = self.directory / "studies" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def splits(self, data: str, form: str | None = None) -> Splits:
        """A dataset by name."""
        from sordino.data import load

        if form is None:
            return load(data, data_dir=self.data_dir)
        checks.one_of("form", form, ("papers", "erm"))
        return load(data, form=cast("Form", form), data_dir=self.data_dir)


def _read(path: Path, address: str) -> Numbers | None:
    """Kept numbers; None if there are none, or if they are damaged or another run's: made anew."""
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            found = {name: kept[name] for name in kept.files}
            right = float(found["_seconds"]) >= 0 and str(found.get(_RUN, address)) == address
            return found if right else None
    except (OSError, *UNREADABLE):
        return None


def _write(path: Path, numbers: Numbers) -> None:
    """All of it or nothing: another process, or the next one, never reads half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = io.BytesIO()
    # The stubs take any keyword for allow_pickle; arrays of plain numbers need none.
    np.savez_compressed(made, **dict(numbers))  # type: ignore[arg-type]
    _files.write(path, made.getvalue())
