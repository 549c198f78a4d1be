"""Seconds a fit: against the number of rows, and beside scikit-learn on the whole kdd file."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from erm_study.design import L2, PRIVATE, Size, default, estimator_method
from erm_study.folds import rows_of
from rich.console import Console
from rich.progress import track
from sklearn.linear_model import LogisticRegression

from sordino.estimators.classifiers import PrivateLogisticRegression
from sordino.seeding import stream

SCIKIT_LEARN = "scikit-learn lbfgs"
TIMED = ("auto", *PRIVATE, "none", SCIKIT_LEARN)
DELTA = 1e-12
EPSILON = 1.0
WARM_UP_ROWS = 2_000
RUNS = 5


def model(method: str, rows: int) -> Any:
    """An estimator as a user would make it, at its defaults."""
    if method == SCIKIT_LEARN:
        return LogisticRegression(C=1 / (L2 * rows))
    return PrivateLogisticRegression(
        epsilon=math.inf if method == "none" else EPSILON,
        delta=DELTA,
        method=estimator_method(method),
        l2=L2,
        classes=[0, 1],
        **default(method, rows).given,
    )


def seconds(work: Callable[[], object]) -> float:
    """How long it takes, once."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work()
    return time.perf_counter() - began


def against_rows(size: Size, data_dir: Path | None) -> dict[tuple[str, int], float]:
    """One fit of every method at every number of rows, calibration included, all cores."""
    if not size.timing:
        return {}
    form = None if size.timing_data == "breast-cancer" else "erm"
    X, y = rows_of(size.timing_data, form, size.timing[-1], data_dir)
    order = stream("erm timing").permutation(len(X))  # the file goes class by class
    X, y = X[order], y[order]
    found = {}
    shown = track(size.timing, "timing ", console=Console(stderr=True))
    for method in TIMED:
        few = min(WARM_UP_ROWS, len(X))
        seconds(lambda m=method, n=few: model(m, n).fit(X[:n], y[:n]))
    for rows in shown:
        for method in TIMED:
            few = min(rows, len(X))
            found[method, rows] = seconds(lambda m=method, n=few: model(m, n).fit(X[:n], y[:n]))
    return found


def kdd_over_lbfgs(data_dir: Path | None) -> dict[str, float]:
    """RSGD-AR's time on all of kddcup99 over that of scikit-learn, the best of alternating runs."""
    X, y = rows_of("kddcup99", "erm", None, data_dir)
    assert X.dtype == np.float32
    times: dict[str, list[float]] = {"rsgd-ar": [], SCIKIT_LEARN: []}
    for method in times:
        model(method, WARM_UP_ROWS).fit(X[::200], y[::200])
    for _ in track(range(RUNS), "kddcup99 against lbfgs", console=Console(stderr=True)):
        for method, taken in times.items():
            taken.append(seconds(lambda m=method: model(m, len(X)).fit(X, y)))
    ours, theirs = min(times["rsgd-ar"]), min(times[SCIKIT_LEARN])
    return {
        "kdd_fit_seconds": ours,
        "kdd_lbfgs_seconds": theirs,
        "kdd_fit_time_over_lbfgs": ours / theirs,
    }
