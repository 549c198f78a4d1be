"""Kind "features": how the values of a dataset's features are distributed (v2, Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from sordino import checks
from sordino_papers.found import Found, Numbers

if TYPE_CHECKING:
    from sordino_papers.bench import Bench
    from sordino_papers.quantities import Quantity


def make(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    """Of the training rows of each of `variants` (a name for each dataset), in `bins` bins."""
    if unknown := sorted(set(settings) - {"variants", "bins"}):
        checks.fail("settings", unknown, "to be only variants and bins")
    variants: Mapping[str, str] = settings["variants"]
    values = {
        name: np.asarray(bench.splits(data).train.X, dtype=np.float64).ravel()
        for name, data in variants.items()
    }
    ends = [each(v) for v in values.values() for each in (np.min, np.max)]
    edges = np.linspace(min(ends), max(ends), int(settings["bins"]) + 1)
    found: dict[str, Any] = {"edges": edges}
    for name, held in values.items():
        found[f"{name}/density"] = np.histogram(held, edges, density=True)[0]
        found[f"{name}/zeros"] = np.mean(held == 0)
        found[f"{name}/skewness"] = stats.skew(held)
        found[f"{name}/kurtosis"] = stats.kurtosis(held)
    return {name: np.asarray(value) for name, value in found.items()}


def _zeros(numbers: Numbers, *, variant: str) -> Found:
    """Percent of feature values that are exactly 0."""
    return Found(100 * float(numbers[f"{variant}/zeros"]))


def _skewness(numbers: Numbers, *, variant: str) -> Found:
    """Third standardised moment, without its sign: 0 of a symmetrical distribution."""
    return Found(abs(float(numbers[f"{variant}/skewness"])))


def _kurtosis_between(numbers: Numbers, *, variant: str, other: str) -> Found:
    """Excess kurtosis of one minus that of another."""
    first, second = (float(numbers[f"{name}/kurtosis"]) for name in (variant, other))
    return Found(first - second, words=f"{first:.3g} and {second:.3g}")


QUANTITIES: dict[str, Quantity] = {
    "zero_features": _zeros,
    "feature_skewness": _skewness,
    "kurtosis_above": _kurtosis_between,
}
