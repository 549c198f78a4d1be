"""Kinds of runs: what makes each, from settings to `Numbers`, and which sources it depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from sordino import checks

if TYPE_CHECKING:
    from sordino_papers.bench import Bench
    from sordino_papers.found import Numbers

Make = Callable[[Mapping[str, Any], "Bench"], "Numbers"]
Settings = TypeVar("Settings")


def _of(package: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{package}/{name}" for name in names)


_TRAINS = _of(
    "sordino", "seeding.py", "data", "objectives", "sgd", "sensitivity", "store", "intrinsic"
)
_RELEASES = (*_TRAINS, *_of("sordino", "accounting", "proofs", "mechanisms", "estimators"))
_ERM = _of("sordino_papers/erm", "study.py", "methods.py", "settings.py")
_OWN = "sordino_papers/own_noise"

SOURCES: dict[str, tuple[str, ...]] = {
    "sizes": (*_of("sordino", "data"), *_of("sordino_papers", "sizes.py")),
    "grid": (*_TRAINS, *_of(_OWN, "grid.py")),
    "noise": (*_TRAINS, *_of(_OWN, "noise.py", "published_rows.py")),
    "features": (*_of("sordino", "data"), *_of(_OWN, "features.py")),
    "curves": (*_TRAINS, *_of(_OWN, "curves.py")),
    "formulas": (
        *_of("sordino", "accounting", "intrinsic"),
        *_of("sordino_papers/theory", "formulas.py"),
    ),
    "erm": (*_RELEASES, *_ERM),
    "erm-timing": (*_RELEASES, *_ERM, "sordino_papers/erm/timing.py"),
    "hidden-state": (
        *_of("sordino", "seeding.py", "accounting", "audit"),
        *_of("sordino_papers/theory", "hidden_state.py"),
    ),
}
"""By kind: rooms and files of both packages. Where one changes, numbers are made anew."""


@cache
def makers() -> dict[str, Make]:
    """By kind, what makes its runs; loaded only where one is made."""
    from sordino_papers import sizes
    from sordino_papers.erm import study, timing
    from sordino_papers.own_noise import curves, features, grid, noise
    from sordino_papers.theory import formulas, hidden_state

    modules = sizes, grid, noise, features, curves, formulas, study, timing, hidden_state
    return dict(zip(SOURCES, (module.make for module in modules), strict=True))


def read(settings: type[Settings], given: Mapping[str, Any], *lists: str) -> Settings:
    """Settings of a kind as a file has them, those of `lists` as tuples; no key is unknown."""
    known = set(settings.__annotations__)
    if unknown := sorted(set(given) - known):
        checks.fail("settings", unknown, f"to be only keys of {sorted(known)}")
    return settings(**{**given, **{name: tuple(given[name]) for name in lists if name in given}})
