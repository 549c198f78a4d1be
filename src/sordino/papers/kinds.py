"""Kinds of runs: a function each, from settings to `Numbers`. Imported only where one is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sordino.papers.bench import Bench
    from sordino.papers.found import Numbers

Make = Callable[[Mapping[str, Any], "Bench"], "Numbers"]


def _sizes(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino.papers import sizes

    return sizes.make(settings, bench)


def _grid(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino.papers import grid

    return grid.make(settings, bench)


def _noise(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino.papers import noise

    return noise.make(settings, bench)


def _features(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino.papers import features

    return features.make(settings, bench)


def _curves(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino.papers import curves

    return curves.make(settings, bench)


def _formulas(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino.papers import formulas

    return formulas.make(settings, bench)


def _erm(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino.papers import erm

    return erm.make(settings, bench)


def _erm_timing(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino.papers import erm_timing

    return erm_timing.make(settings, bench)


def _hidden_state(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    from sordino.papers import hidden_state

    return hidden_state.make(settings, bench)


KINDS: dict[str, tuple[Make, int]] = {
    "sizes": (_sizes, 1),
    "grid": (_grid, 1),
    "noise": (_noise, 1),
    "features": (_features, 1),
    "curves": (_curves, 1),
    "formulas": (_formulas, 1),
    "erm": (_erm, 1),
    "erm-timing": (_erm_timing, 1),
    "hidden-state": (_hidden_state, 1),
}
"""By name: the function, and the version of what it computes; another version is computed anew."""
