"""A small study, what a run writes into it, and what a directory holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sordino.study import Cell, Layout, Study

DESCRIPTION = {"spec": {"learning_rate": 0.1, "objective": "logistic"}, "dataset": "sha256:abc"}

Array = npt.NDArray[Any]


@pytest.fixture
def description() -> dict[str, Any]:
    return {**DESCRIPTION, "spec": {**DESCRIPTION["spec"]}}  # type: ignore[dict-item]


@pytest.fixture
def layout() -> Layout:
    """Two inits, cells of 2, 2 and 1 seeds, and 2 and 1 neighbours: twelve cells."""
    inits, seeds, neighbours, steps = ("vary", "fixed"), range(5), (-1, 70, 4), (10, 50)
    return Layout.cut(inits, seeds, neighbours, steps, 3, cell=(2, 2))


@pytest.fixture
def weights_of() -> Callable[[Layout, Cell], Array]:
    """What training gives for a cell: the same every time, and different for every run."""

    def make(layout: Layout, cell: Cell) -> Array:
        numbers = np.arange(np.prod(layout.shape), dtype=layout.dtype).reshape(layout.shape)
        whole: Array = np.sin(numbers) / 3  # in float32 throughout
        return whole[cell.init, cell.seeds, cell.neighbours]

    return make


@pytest.fixture
def study(tmp_path: Path, description: dict[str, Any], layout: Layout) -> Iterator[Study]:
    """A study with nothing in it."""
    with Study.open_or_create(tmp_path / "study", description, layout) as made:
        yield made


@pytest.fixture
def finished(study: Study, weights_of: Callable[[Layout, Cell], Array]) -> Study:
    """The same, with all its weights."""
    for cell in study.missing():
        study.write(cell, weights_of(study.layout, cell))
    return study


@pytest.fixture
def content() -> Callable[[Path], dict[str, bytes | None]]:
    """All that a directory holds: names, and the bytes of files."""

    def read(directory: Path) -> dict[str, bytes | None]:
        return {
            each.relative_to(directory).as_posix(): each.read_bytes() if each.is_file() else None
            for each in sorted(directory.rglob("*"))
        }

    return read
