"""Kinds of runs: a function each, from settings to `Numbers`. Imported only where one is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sordino_papers.bench import Bench
    from sordino_papers.found import Numbers

Make = Callable[[Mapping[str, Any], "Bench"], "Numbers"]


def _sizes(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino_papers import sizes

    return sizes.make(settings, bench)


def _grid(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino_papers import grid

    return grid.make(settings, bench)


def _noise(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino_papers import noise

    return noise.make(settings, bench)


def _features(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino_papers import features

    return features.make(settings, bench)


def _curves(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino_papers import curves

    return curves.make(settings, bench)


def _formulas(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino_papers import formulas

    return formulas.make(settings, bench)


def _erm(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino_papers.erm import study

    return study.make(settings, bench)


def _erm_timing(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino_papers.erm import timing

    return timing.make(settings, bench)


def _hidden_state(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino_papers import hidden_state

    return hidden_state.make(settings, bench)


_TRAINS = tuple(
    f"sordino/{part}"
    for part in ("seeding.py", "data", "objectives", "sgd", "sensitivity", "store", "intrinsic")
)
_RELEASES = (
    *_TRAINS,
    *(f"sordino/{room}" for room in ("accounting", "proofs", "mechanisms", "estimators")),
)
_ERM = tuple(f"sordino_papers/erm/{part}.py" for part in ("study", "methods", "settings"))


@dataclass(frozen=True)
class Kind:
    """How a kind of run is made, and which sources its numbers come from.

    `sources` are rooms and files of both packages; where one of them changes, the numbers are made
    anew.
    """

    make: Make
    sources: tuple[str, ...]


KINDS: dict[str, Kind] = {
    "sizes": Kind(_sizes, ("sordino/data", "sordino_papers/sizes.py")),
    "grid": Kind(_grid, (*_TRAINS, "sordino_papers/grid.py")),
    "noise": Kind(
        _noise, (*_TRAINS, "sordino_papers/noise.py", "sordino_papers/published_rows.py")
    ),
    "features": Kind(_features, ("sordino/data", "sordino_papers/features.py")),
    "curves": Kind(_curves, (*_TRAINS, "sordino_papers/curves.py")),
    "formulas": Kind(
        _formulas,
        (
            *("sordino/accounting", "sordino/intrinsic"),
            *("sordino_papers/formulas.py", "sordino_papers/formula_tables.py"),
        ),
    ),
    "erm": Kind(_erm, (*_RELEASES, *_ERM)),
    "erm-timing": Kind(_erm_timing, (*_RELEASES, *_ERM, "sordino_papers/erm/timing.py")),
    "hidden-state": Kind(
        _hidden_state,
        (
            *("sordino/seeding.py", "sordino/accounting", "sordino/audit"),
            "sordino_papers/hidden_state.py",
        ),
    ),
}
"""By name."""
