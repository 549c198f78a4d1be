"""A small dataset, and what the directory of a study holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sordino.data.dataset import Dataset
from sordino.models.constants import ObjectiveSpec
from sordino.sgd.spec import TrainSpec

Content = Callable[[Path], dict[str, bytes]]


@pytest.fixture(scope="session", autouse=True)
def _one_core() -> Iterator[None]:
    """Products here are small and many: threads of BLAS would wait for each other."""
    with threadpool_limits(1, "blas"):
        yield


@pytest.fixture(scope="session")
def people() -> Dataset:
    """Sixty records of norm at most 1, with two classes."""
    draws = np.random.default_rng(1)
    X = draws.standard_normal((60, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.001
    return Dataset(X, (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int), norm_bound=1.0, name="people")


@pytest.fixture(scope="session")
def spec() -> TrainSpec:
    """A few passes of logistic regression, in float64."""
    return TrainSpec(ObjectiveSpec("logistic"), 0.5, 8, steps=30, dtype="float64")


@pytest.fixture(scope="session")
def content() -> Content:
    """All that a directory holds."""

    def read(directory: Path) -> dict[str, bytes]:
        return {
            each.relative_to(directory).as_posix(): each.read_bytes()
            for each in sorted(directory.rglob("*"))
            if each.is_file()
        }

    return read
