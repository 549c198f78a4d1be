"""A study on disk: a grid of trained weights that survives being killed. Knows no science.

`Layout` says what the grid looks like and how it is cut into cells; `Study` is the directory.
zarr is loaded when `Study` is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sordino.store.layout import Cell, Layout
from sordino.store.refusal import StudyError

if TYPE_CHECKING:
    from sordino.store.study import Study

__all__ = ["Cell", "Layout", "Study", "StudyError"]


def __getattr__(name: str) -> Any:
    if name == "Study":
        return import_module("sordino.store.study").Study
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
