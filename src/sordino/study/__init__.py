"""A study on disk: a grid of trained weights that survives being killed. Knows no science.

`Layout` says what the grid looks like and how it is cut into cells; `Study` is the directory.
zarr is loaded when `Study` is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino import _lazy
from sordino.study.files import StudyError
from sordino.study.layout import Cell, Layout

if TYPE_CHECKING:
    from sordino.study.study import Study

__all__ = ["Cell", "Layout", "Study", "StudyError"]

__getattr__, __dir__ = _lazy.public_names(__name__, {"Study": "study"})
