"""`RunStore`: one directory where runs are made once and kept; what changed is made anew.

A run is made by the function of its kind, from settings to `Numbers`. Beside its settings it
depends on sources, packages, and the user's own files.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from sordino import _files, checks
from sordino.study.files import UNREADABLE
from sordino.types import Progress
from sordino_papers.claims import PaperRun
from sordino_papers.quantities import Numbers

if TYPE_CHECKING:
    from sordino.data.catalogue.recipes import Splits
    from sordino.data.preprocess import Form

_Make = Callable[[Mapping[str, Any], "RunStore"], Numbers]
_Settings = TypeVar("_Settings")
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "torch")
_SOURCES = Path(__file__).parents[1]
"""Where both packages are."""
_RUN = "_run"
"""Where kept numbers say of which run they are."""


def _sources(package: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{package}/{name}" for name in names)


_TRAINS = _sources(
    "sordino", "randomness.py", "data", "models", "sgd", "sensitivity", "study", "intrinsic"
)
_RELEASES = (*_TRAINS, *_sources("sordino", "accounting", "proofs", "release", "estimators"))
_DATASETS = _sources("sordino_papers", "datasets.py")
_ERM = _sources("sordino_papers/erm", "study.py", "methods.py")
_NOISE = "sordino_papers/sgd_noise"
SOURCES: dict[str, tuple[str, ...]] = {
    "sizes": (*_sources("sordino", "data"), *_DATASETS),
    "grid": (*_TRAINS, f"{_NOISE}/grid.py"),
    "noise": (*_TRAINS, f"{_NOISE}/noise.py"),
    "features": (*_sources("sordino", "data"), *_DATASETS),
    "curves": (*_TRAINS, *_DATASETS),
    "formulas": (
        *_sources("sordino", "accounting", "intrinsic"),
        "sordino_papers/theory/formulas.py",
    ),
    "erm": (*_RELEASES, *_ERM),
    "erm-timing": (*_RELEASES, *_ERM, "sordino_papers/erm/timing.py"),
    "hidden-state": (
        *_sources("sordino", "randomness.py", "accounting", "audit"),
        "sordino_papers/theory/hidden_state.py",
    ),
}
"""By kind: rooms and files of both packages. Where one changes, numbers are made anew."""


@cache
def makers() -> dict[str, _Make]:
    """By kind, what makes its runs; loaded only where one is made."""
    from sordino_papers import datasets
    from sordino_papers.erm import study, timing
    from sordino_papers.sgd_noise import grid, noise
    from sordino_papers.theory import formulas, hidden_state

    return {
        "sizes": datasets.make_sizes,
        "grid": grid.make,
        "noise": noise.make,
        "features": datasets.make_features,
        "curves": datasets.make_curves,
        "formulas": formulas.make,
        "erm": study.make,
        "erm-timing": timing.make,
        "hidden-state": hidden_state.make,
    }


def read_settings(settings: type[_Settings], given: Mapping[str, Any], *lists: str) -> _Settings:
    """Settings of a kind as a file has them, those of `lists` as tuples; no key is unknown."""
    check_keys(given, {each.name for each in fields(cast(Any, settings))})
    return settings(**{**given, **{name: tuple(given[name]) for name in lists if name in given}})


def check_keys(given: Mapping[str, Any], known: set[str], *, every: bool = False) -> None:
    """Refuse a setting that is not known; with `every`, also that one is missing."""
    if wrong := sorted(set(given) ^ known if every else set(given) - known):
        what = "all of" if every else "only keys of"
        checks.fail("settings", wrong, f"to be {what} {sorted(known)}")


class NotHere(Exception):
    """A run cannot be made on this machine: its text says what is missing."""


@dataclass
class RunStore:
    """Where runs are made and kept.

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
    client
        A Dask `Client` whose workers train grids and ERM studies, or None: this machine.
    begin, end
        Called with a run's name when it is made: `begin` returns what is told (done, total),
        `end` is told the seconds.
    """

    directory: Path
    runs: Mapping[str, PaperRun]
    data_dir: str | os.PathLike[str] | None = None
    quick: bool = False
    client: Any = None
    begin: Callable[[str], Progress] = lambda name: lambda done, total: None
    end: Callable[[str, float], None] = lambda name, seconds: None
    tell: Progress = lambda done, total: None
    seconds: dict[str, float] = field(default_factory=dict)
    """What each run took when it was made, also if that was long ago."""
    _held: dict[str, Numbers | NotHere] = field(default_factory=dict)

    def settings(self, name: str) -> dict[str, Any]:
        """A run's settings at this size."""
        checks.one_of("run", name, sorted(self.runs))
        return self.runs[name].at_size(self.quick)

    def address(self, name: str) -> str:
        """What a run's numbers depend on, as a short name of a file."""
        run, settings = self.runs[name], self.settings(name)
        needs = [self.address(other) for other in self.needs(name)]
        files = files_identity(settings, self.data_dir)
        return _short_digest([run.kind, kind_identity(run.kind), settings, files, needs])

    def needs(self, name: str) -> list[str]:
        """Runs that this one needs: settings "grid" and "grids" name them."""
        paper, settings = name.partition("/")[0], self.settings(name)
        named = [*([settings["grid"]] if "grid" in settings else []), *settings.get("grids", [])]
        return [each if "/" in each else f"{paper}/{each}" for each in named]

    def numbers(self, name: str) -> Numbers:
        """A run's numbers: held, read, or made now.

        Raises
        ------
        NotHere
            If it cannot be made here.
        """
        if name not in self._held:
            address = self.address(name)
            path = self.directory / "runs" / f"{address}.npz"
            numbers = _read(path, address)
            if numbers is None:
                try:
                    numbers = self._make(name)
                except NotHere as error:
                    self._held[name] = error
                    raise
                seconds = np.array(self.seconds[name])
                numbers = {**numbers, "_seconds": seconds, _RUN: np.array(address)}
                _write(path, numbers)
            self.seconds[name] = float(numbers["_seconds"])
            self._held[name] = numbers
        held = self._held[name]
        if isinstance(held, NotHere):
            raise held
        return held

    def _make(self, name: str) -> Numbers:
        from sordino.data.sources import DataError, MissingFileError

        for other in self.needs(name):
            self.numbers(other)
        self.tell = self.begin(name)
        began = time.perf_counter()
        try:
            numbers = makers()[self.runs[name].kind](self.settings(name), self)
        except MissingFileError as error:
            raise NotHere(f"{error.raw.name} is missing") from error
        except DataError as error:
            raise NotHere(str(error)) from error
        self.seconds[name] = time.perf_counter() - began
        self.end(name, self.seconds[name])
        return numbers

    def folder(self, *parts: Any) -> Path:
        """A directory of its own for what a run keeps while it is made; named by its content.

        The first of `parts` begins with the name of the kind that keeps it.
        """
        name = _short_digest([kind_identity(parts[0].split()[0]), *parts])
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


@cache
def kind_identity(kind: str) -> str:
    """A digest of the sources that make a kind, and of the versions of what they lean on."""
    digest = hashlib.sha256()
    for name in SOURCES[kind]:
        place = _SOURCES / name
        paths = [place] if place.suffix else sorted((*place.rglob("*.py"), *place.rglob("*.toml")))
        if not paths or not place.exists():
            # The digest of nothing never changes: what an earlier code made would pass for ours.
            raise RuntimeError(f"{name} is named as a source of {kind}, and is not there.")
        for path in paths:
            where = path.relative_to(_SOURCES).as_posix().encode()
            digest.update(where + b"\0" + path.read_bytes())
    for package in _PACKAGES:
        digest.update(f"{package} {metadata.version(package)}\0".encode())
    return digest.hexdigest()[:16]


def files_identity(
    settings: Mapping[str, Any], data_dir: str | os.PathLike[str] | None
) -> list[tuple[str, int, int]]:
    """Name, size and time of the user's own files.

    Published files have checksums, and are refused if they do not fit: they need no identity.
    """
    from sordino.data.catalogue.recipes import recipe
    from sordino.data.sources import data_directory, find

    data = settings.get("data")
    if not isinstance(data, str):
        return []
    parent, folder = data_directory(data_dir), settings.get("folder", "")
    place = parent / folder if parent is not None and folder else data_dir
    if folder and (parent is None or not (parent / folder).is_dir()):
        return []
    paths = [find(raw, place)[1] for raw in recipe(data).files if raw.digest is None]
    found = [(path, path.stat()) for path in paths if path is not None]
    return [(path.name, status.st_size, status.st_mtime_ns) for path, status in found]


def _short_digest(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _read(path: Path, address: str) -> Numbers | None:
    """Kept numbers; None if there are none, or if they are damaged or another run's: made anew."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            numbers = {name: kept[name] for name in kept.files}
            right = float(numbers["_seconds"]) >= 0 and str(numbers.get(_RUN, address)) == address
            return numbers if right else None
    except (OSError, *UNREADABLE):
        return None


def _write(path: Path, numbers: Numbers) -> None:
    """All of it or nothing: another process, or the next one, never reads half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = io.BytesIO()
    # The stubs take any keyword for allow_pickle; arrays of plain numbers need none.
    np.savez_compressed(made, **dict(numbers))  # type: ignore[arg-type]
    _files.write(path, made.getvalue())
