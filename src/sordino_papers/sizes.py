"""Kind "sizes": how many rows and columns a dataset has here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import checks
from sordino_papers.found import Found, Numbers, held

if TYPE_CHECKING:
    from sordino.data.dataset import Dataset
    from sordino_papers.bench import Bench
    from sordino_papers.quantities import Quantity


def make(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    """Read the dataset `data`, in the form `form` where one is given, and count."""
    if unknown := sorted(set(settings) - {"data", "form"}):
        checks.fail("settings", unknown, "to be only data and form")
    splits = bench.splits(settings["data"], settings.get("form"))
    return {
        "training_size": np.array(splits.train.rows),
        "validation_size": np.array(_rows(splits.validation)),
        "test_size": np.array(_rows(splits.test)),
        "features": np.array(splits.train.features),
    }


def _rows(part: Dataset | None) -> int:
    return 0 if part is None else part.rows


def _features(numbers: Numbers, *, intercept: bool = False) -> Found:
    """Columns; with `intercept`, the constant feature of a model counts as one."""
    return Found(float(numbers["features"]) + intercept)


QUANTITIES: dict[str, Quantity] = {
    **{name: held(name) for name in ("training_size", "validation_size", "test_size")},
    "features": _features,
}
