"""What a run of an attack costs, by counting; so the same study has the same runs on all machines.

A training's cost is `sgd.cost`. On a slower machine the budget is only a name: it makes the same
runs, and takes longer.
"""

from __future__ import annotations

from sordino.estimators.task import Plan
from sordino.sgd import cost
from sordino.sgd.spec import TrainSpec

LEAST_RUNS = 200
"""In each world, however long they take: of fewer, half could show next to nothing."""

_CORES, _WORLDS = 2, 2
_OF_PASS = 3.0e-10  # a row's entry, where many runs are minimised at once
_PASSES = 10
_OF_FIT, _FIT_PASSES = 5.0e-3, 200  # a fit on its own


def runs_within(seconds: float, each: float, most: int) -> int:
    """So many runs a world, a round number, within the seconds and the most that is wanted."""
    affordable = int(_CORES * seconds / each)
    rounded = affordable // 100 * 100
    return max(LEAST_RUNS, min(most, rounded))


def of_training(spec: TrainSpec, rows: int, columns: int, problems: int = 1) -> float:
    """Core seconds of a training in both worlds."""
    return _WORLDS * problems * cost.of_run(spec, rows, columns)


def of_plan(plan: Plan) -> float:
    """Core seconds of a fit in both worlds, the noise of the release included."""
    task = plan.task
    if plan.spec is not None:
        return of_training(plan.spec, task.rows, task.columns, task.problems)
    entries = task.rows * task.columns
    if plan.method == "objective":
        work = _OF_PASS * _PASSES * entries + 2 * cost.OF_NORMAL * task.columns
    else:
        work = _OF_FIT + cost.OF_NUMBER * _FIT_PASSES * entries
    return _WORLDS * task.problems * work
