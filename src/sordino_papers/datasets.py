"""Kinds "sizes", "features" and "curves": what datasets hold, and how models train on them.

"sizes" counts rows and columns. "features" tells how the values of features are distributed (v2,
Figure 2), "curves" loss and accuracy on the training rows while models train (v2, Figure 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import threadpoolctl
from scipy import stats

from sordino.types import Floats
from sordino_papers.quantities import Answer, Numbers, Quantities
from sordino_papers.runs import RunStore, check_keys
from sordino_papers.sgd_noise.grid import GridSettings

if TYPE_CHECKING:
    from sordino.data.dataset import Dataset


def make_sizes(settings: Mapping[str, Any], store: RunStore) -> Numbers:
    """Read the dataset `data`, in the form `form` where one is given, and count."""
    check_keys(settings, {"data", "form"})
    splits = store.splits(settings["data"], settings.get("form"))
    parts = {"training": splits.train, "validation": splits.validation, "test": splits.test}
    counts = {f"{name}_size": 0 if part is None else part.rows for name, part in parts.items()}
    counts["features"] = splits.train.features
    return {name: np.array(count) for name, count in counts.items()}


def make_features(settings: Mapping[str, Any], store: RunStore) -> Numbers:
    """Of the training rows of each of `variants` (a name for each dataset), in `bins` bins."""
    check_keys(settings, {"variants", "bins"})
    variants: Mapping[str, str] = settings["variants"]
    values = {
        name: np.asarray(store.splits(data).train.X, dtype=np.float64).ravel()
        for name, data in variants.items()
    }
    ends = [each(v) for v in values.values() for each in (np.min, np.max)]
    edges = np.linspace(min(ends), max(ends), int(settings["bins"]) + 1)
    numbers: dict[str, Any] = {"edges": edges}
    for name, held in values.items():
        numbers[f"{name}/density"] = np.histogram(held, edges, density=True)[0]
        numbers[f"{name}/zeros"] = np.mean(held == 0)
        numbers[f"{name}/skewness"] = stats.skew(held)
        numbers[f"{name}/kurtosis"] = stats.kurtosis(held)
    return {name: np.asarray(value) for name, value in numbers.items()}


def make_curves(settings: Mapping[str, Any], store: RunStore) -> Numbers:
    """Train `models` runs as each of `grids` does, named as `variants` say, and follow them.

    For `steps` steps, with `checkpoints` that are closer to each other at the beginning.
    """
    known = {"grids", "variants", "models", "steps", "checkpoints"}
    check_keys(settings, known, every=True)
    last, models = int(settings["steps"]), int(settings["models"])
    steps = np.unique(np.geomspace(1, last, int(settings["checkpoints"])).round().astype(int))
    numbers: dict[str, Any] = {"steps": steps}
    variants = dict(zip(settings["variants"], settings["grids"], strict=True))
    for done, (name, grid) in enumerate(variants.items()):
        trained = GridSettings.read(store.settings(grid))
        numbers["chosen"] = trained.steps
        curves = _curves(trained, store.splits(trained.data).train, models, steps)
        numbers[f"{name}/loss"], numbers[f"{name}/accuracy"] = curves
        store.tell(done + 1, len(variants))
    return {name: np.asarray(value) for name, value in numbers.items()}


def _curves(
    trained: GridSettings, data: Dataset, models: int, steps: npt.NDArray[np.int_]
) -> tuple[Floats, Floats]:
    """Mean loss and accuracy [step, model] on all training rows."""
    from sordino.sgd import train

    spec = replace(trained.spec, steps=int(steps[-1]))
    weights = train(spec, data, range(models), checkpoints=steps.tolist())[:, 0]
    sign = np.where(np.asarray(data.y) > 0, 1.0, -1.0)[:, None]
    rows = sign * np.hstack([data.X, np.ones((data.rows, 1))])
    loss, accuracy = (np.empty((len(steps), models)) for _ in range(2))
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        for model in range(models):
            margins = weights[model].astype(np.float64) @ rows.T
            loss[:, model] = np.logaddexp(0, -margins).mean(axis=1)
            accuracy[:, model] = (margins > 0).mean(axis=1)
    return loss, accuracy


class DatasetQuantities(Quantities):
    """What claims ask of these three kinds."""

    held: ClassVar[Mapping[str, str]] = {
        name: name for name in ("training_size", "validation_size", "test_size")
    }

    def features(self, *, intercept: bool = False) -> float:
        """Columns; with `intercept`, the constant feature of a model counts as one."""
        return float(self["features"]) + intercept

    def zero_features(self, *, variant: str) -> float:
        """Percent of feature values that are exactly 0."""
        return 100 * float(self[f"{variant}/zeros"])

    def feature_skewness(self, *, variant: str) -> float:
        """Third standardised moment, without its sign: 0 of a symmetrical distribution."""
        return abs(float(self[f"{variant}/skewness"]))

    def kurtosis_above(self, *, variant: str, other: str) -> Answer:
        """Excess kurtosis of one minus that of another."""
        first, second = (float(self[f"{name}/kurtosis"]) for name in (variant, other))
        return Answer(first - second, words=f"{first:.3g} and {second:.3g}")

    def better_at_the_end(self, *, variant: str, of: str = "accuracy") -> float:
        """At the chosen step, how much better one variant is than the best other."""
        sign = 1 if of == "accuracy" else -1
        ends = {name: sign * float(mean[self._chosen]) for name, mean in self._means(of).items()}
        return ends.pop(variant) - max(ends.values())

    def reaches_others_after(self, *, variant: str) -> float:
        """Steps until a variant is as accurate as the best other at the chosen step, over that."""
        means = self._means("accuracy")
        goal = max(float(mean[self._chosen]) for name, mean in means.items() if name != variant)
        reached = np.flatnonzero(means[variant] >= goal)
        return float(self["steps"][reached[0]] / self["chosen"]) if len(reached) else float("inf")

    @property
    def _chosen(self) -> int:
        """The last checkpoint up to the chosen step."""
        return int(np.searchsorted(self["steps"], self["chosen"], side="right")) - 1

    def _means(self, of: str) -> dict[str, Floats]:
        names = [name.removesuffix("/loss") for name in self.runs[0] if name.endswith("/loss")]
        return {name: self[f"{name}/{of}"].mean(axis=1) for name in names}
