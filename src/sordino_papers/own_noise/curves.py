"""Kind "curves": loss and accuracy on the training rows while models train (v2, Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import threadpoolctl

from sordino import checks
from sordino.types import Floats
from sordino_papers.found import Found, Numbers
from sordino_papers.own_noise.grid import GridSettings

if TYPE_CHECKING:
    from sordino.data.dataset import Dataset
    from sordino_papers.bench import Bench
    from sordino_papers.quantities import Quantity


def make(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    """Train `models` runs as each of `grids` does, called as `variants` say, and follow them.

    For `steps` steps, with `checkpoints` that are closer to each other at the beginning.
    """
    known = {"grids", "variants", "models", "steps", "checkpoints"}
    if set(settings) != known:
        checks.fail("settings", sorted(settings), f"to be {sorted(known)}")
    last = int(settings["steps"])
    steps = np.unique(np.geomspace(1, last, int(settings["checkpoints"])).round().astype(int))
    found: dict[str, Any] = {"steps": steps}
    variants = dict(zip(settings["variants"], settings["grids"], strict=True))
    for done, (name, grid) in enumerate(variants.items()):
        trained = GridSettings.read(bench.settings(grid))
        found["chosen"] = trained.steps
        data = bench.splits(trained.data).train
        loss, accuracy = _followed(trained, data, int(settings["models"]), steps)
        found[f"{name}/loss"], found[f"{name}/accuracy"] = loss, accuracy
        bench.tell(done + 1, len(variants))
    return {name: np.asarray(value) for name, value in found.items()}


def _followed(
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


def _better_at_the_end(numbers: Numbers, *, variant: str, of: str = "accuracy") -> Found:
    """At the chosen step, how much better one variant is than the best other."""
    sign = 1 if of == "accuracy" else -1
    at = int(np.searchsorted(numbers["steps"], numbers["chosen"], side="right")) - 1
    ends = {name: sign * float(numbers[f"{name}/{of}"][at].mean()) for name in _names(numbers)}
    return Found(ends.pop(variant) - max(ends.values()))


def _sooner(numbers: Numbers, *, variant: str) -> Found:
    """Steps until a variant is as accurate as the best other at the chosen step, over that."""
    means = {name: numbers[f"{name}/accuracy"].mean(axis=1) for name in _names(numbers)}
    at = int(np.searchsorted(numbers["steps"], numbers["chosen"], side="right")) - 1
    goal = max(float(each[at]) for name, each in means.items() if name != variant)
    reached = np.flatnonzero(means[variant] >= goal)
    if len(reached) == 0:
        return Found(float("inf"))
    return Found(float(numbers["steps"][reached[0]] / numbers["chosen"]))


def _names(numbers: Numbers) -> list[str]:
    return [name.removesuffix("/loss") for name in numbers if name.endswith("/loss")]


QUANTITIES: dict[str, Quantity] = {
    "better_at_the_end": _better_at_the_end,
    "reaches_others_after": _sooner,
}
