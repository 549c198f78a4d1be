"""Who competes, and one fit of each on one split."""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from threadpoolctl import threadpool_limits
from utility_study import judging, opacus_side
from utility_study.opacus_side import Setting
from utility_study.tables import BY_NAME, Rows, Table, rows_of, smaller

from sordino import PrivateLogisticRegression, PrivateRidge
from sordino.accounting import gaussian
from sordino.privacy import default_delta
from sordino.types import Array

AUTO, BEFORE, NONE = "auto", "before", "none"
PEERS = ("diffprivlib", "diffprivlib-nb")
PEERS_OF_NUMBERS = ("diffprivlib-linear",)
ORACLE, TRIAL, OPACUS = "oracle", "oracle-trial", "opacus"

AUTO_OF_NUMBERS = "auto, regression"
VERSIONS = {
    **{AUTO: 2, AUTO_OF_NUMBERS: 2, BEFORE: 1, NONE: 1, ORACLE: 1, OPACUS: 1},
    **dict.fromkeys((*PEERS, *PEERS_OF_NUMBERS), 1),
}
"""Raised when a competitor's rules change: then its results are made anew, and no other's."""

L2 = 0.001
TRIALS = 12
FIRST_TRIAL = 10_000
"""Seeds from here on tune the oracle, those below judge."""


@dataclass(frozen=True)
class Job:
    """One fit: everything that its result depends on, but for the code.

    Parameters
    ----------
    table, most_rows
        Of this table at most so many rows.
    competitor, epsilon, seed
        Who, at which budget (None without privacy), on which split with which noise.
    setting
        Which of the oracle's settings.
    """

    table: str
    most_rows: int
    competitor: str
    epsilon: float | None
    seed: int
    setting: int | None = None

    @property
    def key(self) -> str:
        """A digest of the job, of what is public of its table and of the competitor's version."""
        same = {TRIAL: ORACLE} if self.of.classes else {AUTO: AUTO_OF_NUMBERS}
        version = VERSIONS[same.get(self.competitor, self.competitor)]
        content = {**asdict(self), "facts": self.of.facts, "version": version}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]

    @property
    def of(self) -> Table:
        """Its table."""
        return smaller(BY_NAME[self.table], self.most_rows)


def competitors(table: Table) -> tuple[str, ...]:
    """Ours, in this process, and the reference."""
    return (AUTO, BEFORE, NONE) if table.classes else (AUTO, NONE)


def peers(table: Table) -> tuple[str, ...]:
    """Those of the side environment."""
    return PEERS if table.classes else PEERS_OF_NUMBERS


def rivals(table: Table) -> tuple[str, ...]:
    """All that `auto` must not be below."""
    return (BEFORE, *PEERS) if table.classes else PEERS_OF_NUMBERS


def results(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Of some fits, one after the other: those of one point have one calibration."""
    return [result(job) for job in jobs]


def result(job: Job) -> dict[str, Any]:
    """What one fit is worth, or why it failed. A table that cannot be read ends everything."""
    with warnings.catch_warnings(action="ignore"), threadpool_limits(1):
        rows = rows_of(job.of)
        try:
            return _judged(job, rows)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"[:200]}


def _judged(job: Job, rows: Rows) -> dict[str, Any]:
    table = job.of
    X = _given(job, rows)
    train, test = judging.split(len(X), table.held, job.seed)
    inside, labels = X[train], rows.y[train]
    began = time.perf_counter()
    if job.competitor == OPACUS:
        chosen = setting(_number(job), len(inside), _budget(job))
        # The noise that our accountant asks for, and no accounting of its own.
        noise = _dp_sgd(job, inside).fit(inside, labels).sigma_ / CLIP
        model = opacus_side.fitted(inside, labels, table.classes, chosen, noise, job.seed)
    else:
        model = estimator(job, rows, inside).fit(inside, labels)
    seconds = time.perf_counter() - began
    if table.classes:
        found = judging.of_classes(rows.y[test], model.predict_proba(X[test]), table.classes)
    else:
        found = judging.of_numbers(rows.y[test], model.predict(X[test]))
    method = getattr(model, "method_", None)
    return {**found, "seconds": seconds, **({"method": method} if method else {})}


def _given(job: Job, rows: Rows) -> Array:
    """Ours gets raw rows, everybody else rows in [0, 1]."""
    return rows.X if job.competitor == AUTO else rows.unit


def estimator(job: Job, rows: Rows, inside: Array) -> Any:
    """What this competitor fits to the training rows."""
    if job.competitor == NONE:
        return _without_privacy(job.of)
    if job.competitor in (ORACLE, TRIAL):
        return _dp_sgd(job, inside)
    return auto(job, rows) if job.competitor == AUTO else before(job)


def auto(job: Job, rows: Rows) -> Any:
    """Ours, as a user has it: raw rows, their public bounds, and nothing else."""
    given: dict[str, Any] = {"epsilon": job.epsilon, "random_state": job.seed}
    given["bounds"] = rows.bounds
    if job.of.classes:
        return PrivateLogisticRegression(classes=range(job.of.classes), **given)
    return PrivateRidge(target_bounds=job.of.target, **given)


def before(job: Job) -> Any:
    """Ours before this: rows in [0, 1] by hand, scaled to norm 1, one against the rest."""
    return PrivateLogisticRegression(
        job.epsilon,
        classes=range(job.of.classes),
        data_norm=1.0,
        multi_class="one-vs-rest" if job.of.classes > 2 else None,
        center="none",
        scale="none",
        random_state=job.seed,
    )


def _without_privacy(table: Table) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fitted = LogisticRegression(max_iter=200) if table.classes else Ridge()
    return make_pipeline(StandardScaler(), fitted)


# The oracle ---------------------------------------------------------------------------------------

CLIP = 1.0
_FASTEST = 4.0
_STEPS, _BATCHES, _LENGTHS = (40, 160), (0.1, 0.5), (1 / 16, 1 / 4, 1.0)


def setting(number: int, rows: int, epsilon: float) -> Setting:
    """Two numbers of steps by two batches by three rates: of 12, this one.

    The longest descent (rate x steps) is that whose noise is 1 on the score of a row of norm 1
    (`sordino.estimators.rules`), but at rate 4 at most; the others are 4 and 16 times shorter.
    """
    length, rest = number % 3, number // 3
    steps, share = _STEPS[rest % 2], _BATCHES[rest // 2]
    signal = rows / gaussian.sigma(epsilon, default_delta(rows)) / 2
    longest = min(signal, _FASTEST * steps)
    return Setting(_LENGTHS[length] * longest / steps, steps, max(1, round(share * rows)), CLIP)


def _dp_sgd(job: Job, inside: Array) -> Any:
    """DP-SGD of a linear layer, as everybody has it: Poisson batches, gradients clipped to 1."""
    rows, columns = inside.shape
    # Rows in [0, 1] and their constant 1 are no longer than this: nothing is scaled.
    norm = math.sqrt(columns + 1) if job.of.bounds else math.sqrt(2)
    return PrivateLogisticRegression(
        job.epsilon,
        method="dp-sgd",
        l2=0.0,
        classes=range(job.of.classes),
        data_norm=norm,
        sampling="poisson",
        multi_class="softmax" if job.of.classes > 2 else None,
        center="none",
        scale="none",
        random_state=job.seed,
        **asdict(setting(_number(job), rows, _budget(job))),
    )


def _number(job: Job) -> int:
    assert job.setting is not None
    return job.setting


def _budget(job: Job) -> float:
    assert job.epsilon is not None
    return job.epsilon
