"""Kind "erm-timing": how long one fit takes against the number of rows (Chen et al., Figure 3).

Seconds are the processor's, of all threads, the least of some repeats: others on the machine hardly
change them; or, if asked, those that pass. Passes over the rows and iterations are counted, and are
the same everywhere.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.randomness import stream
from sordino.types import Array, Floats
from sordino_papers.erm.methods import REFERENCES, MethodSettings, as_estimator
from sordino_papers.runs import read_settings

if TYPE_CHECKING:
    from sordino.estimators.minimum.linear import Risk
    from sordino_papers.quantities import Numbers
    from sordino_papers.runs import RunStore

SCIKIT_LEARN = "scikit-learn lbfgs"
_WARM_UP = 2000
"""Rows of a first fit that is not timed: it compiles and loads."""
_MOST_ITERATIONS = 500


@dataclass(frozen=True, kw_only=True)
class TimingSettings(MethodSettings):
    """What a run of this kind may say.

    Parameters
    ----------
    data, form, rows
        Samples of these sizes of a dataset, each within the next.
    methods
        That are fitted, logistic regression, at their defaults.
    epsilon, delta, l2
        What is promised and minimised.
    repeats
        Fits of each method, by its name or "else".
    accurate
        How far above the minimum, as a share of it, an objective is reasonably accurate.
    wall
        Whether seconds are those that pass, not the processor's.
    """

    rows: tuple[int, ...]
    epsilon: float
    repeats: Mapping[str, int]
    accurate: float
    wall: bool = False


def make(settings: Mapping[str, Any], store: RunStore) -> Numbers:
    """Time every method at every size."""
    given = read_settings(TimingSettings, settings, "rows", "methods")
    # As many rows as the largest sample has, in random order (files go class by class).
    train = store.splits(given.data, given.form).train
    order = stream("reproduce", "erm timing", given.data).permutation(train.rows)
    kept = order[: max(given.rows)]
    X, y = np.asarray(train.X)[kept], np.asarray(train.y)[kept]
    for method in given.methods:
        fit_seconds(given, method, X[:_WARM_UP], y[:_WARM_UP])
    seconds = np.full((len(given.methods), len(given.rows)), np.nan)
    steps, passes = seconds.copy(), seconds.copy()
    iterations = np.zeros(len(given.rows))
    done, total = 0, seconds.size
    for at, rows in enumerate(given.rows):
        iterations[at] = _quasi_newton_iterations(given, X[:rows], y[:rows])
        for m, method in enumerate(given.methods):
            few, repeats = min(rows, len(X)), given.repeats.get(method, given.repeats["else"])
            taken = [fit_seconds(given, method, X[:few], y[:few]) for _ in range(repeats)]
            seconds[m, at] = min(taken)
            steps[m, at], passes[m, at] = _counted(given, method, few, X.shape[1] + 1)
            done += 1
            store.tell(done, total)
    counts = {"seconds": seconds, "steps": steps, "passes": passes, "iterations": iterations}
    return {"methods": np.array(given.methods), "rows": np.array(given.rows), **counts}


def fit_seconds(given: TimingSettings, method: str, X: Array, y: Array) -> float:
    """Of one fit, calibration included."""
    model = _model(given, method, len(X))
    clock = time.perf_counter if given.wall else time.process_time
    began = clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a small sample may be too small for so small a delta
        model.fit(X, y)
    return clock() - began


def _model(given: TimingSettings, method: str, rows: int) -> Any:
    """An estimator as a user would make it; SGD-MA as the paper has it."""
    from sklearn.linear_model import LogisticRegression

    from sordino.estimators.classifiers import PrivateLogisticRegression

    if method == SCIKIT_LEARN:
        return LogisticRegression(C=1 / (given.l2 * rows))
    name, own = as_estimator(method, rows)
    epsilon = math.inf if method == "none" else given.epsilon
    how: Any = {"method": name, "l2": given.l2, "classes": [0, 1], "random_state": 0, **own.given}
    return PrivateLogisticRegression(epsilon=epsilon, delta=given.delta, **how)


def _counted(given: TimingSettings, method: str, rows: int, columns: int) -> tuple[float, float]:
    """Updates of a training by the engine, and passes over the rows; NaN for others."""
    from sordino.estimators import methods
    from sordino.estimators.fit import Settings

    if method not in methods.METHODS or method in REFERENCES:
        return math.nan, math.nan
    plan = methods.plan(method, _task(given, rows, columns), Settings())
    if plan.spec is None:
        return math.nan, math.nan
    steps = plan.spec.total_steps(rows)
    return steps, steps * plan.spec.batch_size / rows


def _task(given: TimingSettings, rows: int, columns: int) -> Any:
    from sordino.estimators.fit import Task

    same = {name: getattr(given, name) for name in ("l2", "epsilon", "delta")}
    return Task(kind="logistic", rows=rows, columns=columns, norm=1.0, **same)


def _quasi_newton_iterations(given: TimingSettings, X: Array, y: Array) -> int:
    """Iterations of L-BFGS on a noisy objective until it is reasonably accurate."""
    from sordino.estimators import methods
    from sordino.estimators.fit import FitRecords, Settings

    records = FitRecords.of(X, y, 2, 1.0, True)
    task = _task(given, *records.X.shape)
    plan = methods.plan("objective", task, Settings())
    noise = stream("reproduce", "erm timing", "noise", len(X)).standard_normal(task.columns)
    linear = plan.sigma * noise / task.rows
    risk = records.risk(0, task, plan.l2)
    least = risk.minimise(linear, 1e-7)
    best = risk.value(least) + float(linear @ least)
    return _until(risk, linear, best + given.accurate * abs(best))


def _until(risk: Risk, linear: Floats, enough: float) -> int:
    from scipy.optimize import minimize

    values: list[float] = []
    start: Floats = np.zeros(risk.dimension)

    def both(w: Floats) -> tuple[float, Floats]:
        return risk.value(w) + float(linear @ w), risk.gradient(w) + linear

    def seen(xk: Floats) -> None:
        values.append(both(xk)[0])
        if values[-1] <= enough:
            raise StopIteration

    limit: Any = {"maxiter": _MOST_ITERATIONS}
    minimize(both, start, jac=True, method="L-BFGS-B", callback=seen, options=limit)
    return len(values)
