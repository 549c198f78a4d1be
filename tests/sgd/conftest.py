from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from sordino.data.dataset import Dataset

sys.path.insert(0, str(Path(__file__).parent))  # for reference.py, which is no test


def make_problem(rows, features, seed=0, dtype="float64", real_targets=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1) * 1.0000001
    z = X @ rng.standard_normal(features) * 3
    y = z if real_targets else (z + rng.standard_normal(rows) > 0).astype(int)
    return Dataset(X.astype(dtype), y, norm_bound=1.0)


def make_weighted(rows, features, **how):
    """The same with weights in [0, 1], some of them 0 and 1."""
    dataset = make_problem(rows, features, **how)
    weights = np.clip(np.random.default_rng(3).uniform(-0.2, 1.2, rows), 0, 1)
    return dataclasses.replace(dataset, weights=weights)


@pytest.fixture
def problem():
    return make_problem(37, 5)
