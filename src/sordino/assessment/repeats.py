"""Models made as a release is, again and again, to see how much chance moves their accuracy.

INTERNAL: they are thrown away, their noise is repeatable, and no ledger is asked. How many there
are follows from public sizes alone, so a study that goes on makes the same ones again.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from sordino import _files
from sordino.audit.runners.minimised import MinimisedFit, minimisers
from sordino.estimators import methods
from sordino.estimators.fit import FitPlan, PlannedFit, Randomness, Settings
from sordino.estimators.methods import NoPrivacy
from sordino.estimators.methods.training import train_together
from sordino.study.files import UNREADABLE, Disk, StudyError, explained
from sordino.tasks import available_cores
from sordino.types import Floats

SEED = 8
"""Of the noise that is thrown away."""
LEAST = 4
"""Repeats of anything: fewer have no interval to speak of."""
_FAR = 3.0
"""Times too long that the least number of repeats may take."""
_BATCH = 25
"""Repeats between two words to whoever watches."""
_LEAST_L2 = 1e-6
"""Classes that a plane separates have no minimiser without a regulariser."""

# What two cores do, about: entries of rows in a second, of all descents and of Newton steps.
_DESCENT, _NEWTON = 8e8, 2e9
_A_CALL = 1e-3
_ADAPTIVE_PASSES = 500
"""Over the records, of one descent that chooses its steps."""
_MINIMISER_PASSES = 2
"""The same, of minimisers found together: each shares what it reads with many."""


def without_privacy(job: PlannedFit) -> Floats:
    """The exact minimiser of what is trained, [problem, column]."""
    task = replace(job.plan.task, epsilon=math.inf, l2=max(job.plan.task.l2, _LEAST_L2))
    plan = NoPrivacy().plan(task, Settings())
    with threadpool_limits(1, "blas"):
        return NoPrivacy().train(plan, job.records, Randomness.seeded(SEED), job.start)


def affordable(plan: FitPlan, seconds: float, most: int) -> int:
    """How many repeats of a plan take about so long; 0 if even `LEAST` take far longer."""
    each = _seconds_each(plan)
    if LEAST * each > _FAR * seconds:
        return 0
    return max(min(int(seconds / each), most), LEAST)


def _seconds_each(plan: FitPlan) -> float:
    task = plan.task
    if plan.spec is not None:
        examples = plan.spec.total_steps(task.rows) * plan.spec.batch_size
        return task.problems * (_A_CALL + examples * task.columns / _DESCENT)
    entries = task.rows * task.columns
    if plan.method == "dp-agd":
        return task.problems * entries * _ADAPTIVE_PASSES / _DESCENT
    if MinimisedFit.can_do(plan):
        return task.problems * (_A_CALL + entries * _MINIMISER_PASSES / _DESCENT)
    return task.problems * (_A_CALL + entries * task.columns / _NEWTON)


def released_weights(
    plan: FitPlan, job: PlannedFit, repeats: int, near: Floats, told: Callable[[int], None]
) -> Floats:
    """Weights [repeat, problem, column] with all their noise, as if each had been released.

    Parameters
    ----------
    plan
        How; that of `job` or one for another budget.
    job
        Its records and start.
    repeats
        How many.
    near
        Weights [problem, column] from which a minimiser may begin to look.
    told
        Called with the number of repeats done so far.
    """
    made = np.empty((repeats, *job.start.shape))
    done = 0
    for part in _way(plan)(plan, job, repeats, near):
        made[done : done + len(part)] = part
        done += len(part)
        told(done)
    if plan.scale > 0:
        made = Randomness.seeded(SEED).released.stream("output").perturb(made, plan.scale)
    return made


def _way(plan: FitPlan) -> Callable[[FitPlan, PlannedFit, int, Floats], Iterator[Floats]]:
    if plan.spec is not None:
        return _together
    return _minimised if MinimisedFit.can_do(plan) else _one_by_one


def _together(plan: FitPlan, job: PlannedFit, repeats: int, near: Floats) -> Iterator[Floats]:
    """Trainings by the engine, side by side."""
    for start in range(0, repeats, _BATCH):
        plans = [plan] * min(_BATCH, repeats - start)
        yield train_together(plans, job.records, Randomness.seeded(SEED + start), job.start)


def _minimised(plan: FitPlan, job: PlannedFit, repeats: int, near: Floats) -> Iterator[Floats]:
    """Minimisers of noisy objectives, many at once."""
    task, rows = plan.task, len(job.records.X)
    assert task.rows == rows  # neighbours replace a record, so their number is public
    with threadpool_limits(1, "blas"):
        problems = minimisers(plan, job.records, near, l2=plan.l2)
        noise = Randomness.seeded(SEED).released.stream("linear term")
        for begun in range(0, repeats, _BATCH):
            size = (min(_BATCH, repeats - begun), len(problems), task.columns)
            linear = plan.sigma / rows * noise.standard_normal(size)
            found = [each(linear[:, place]) for place, each in enumerate(problems)]
            yield np.stack(found, axis=1)


def _one_by_one(plan: FitPlan, job: PlannedFit, repeats: int, near: Floats) -> Iterator[Floats]:
    """Whatever cannot be made at once, a few at a time."""
    method = methods.named(plan.method)
    start = job.start if method.starts else near

    def one(repeat: int) -> Floats:
        return method.train(plan, job.records, Randomness.seeded(SEED + repeat), start)[None]

    pool = ThreadPoolExecutor(available_cores())
    with threadpool_limits(1, "blas"):
        try:
            yield from pool.map(one, range(repeats))
        finally:  # also Ctrl-C: those that have not begun never do
            pool.shutdown(cancel_futures=True)


def kept(work: Path, name: str, count: int, make: Callable[[], Floats]) -> Floats:
    """The `count` numbers called `name` in a directory; they are made and put there if missing."""
    file = work / f"{name}.npy"
    if file.exists():
        with explained(work, "read"):
            content_there = _files.read(file)
        try:
            found = np.load(io.BytesIO(content_there), allow_pickle=False)
            shares = np.asarray(found.astype(np.float64, casting="safe"))
        except UNREADABLE:  # numpy's own sentence advises to load it in a way that can run code
            shares = np.array([np.nan])
        if not np.isfinite(shares).all():
            hint = "Delete that one file, and its numbers are made again."
            raise StudyError(f"{file} is damaged: it does not hold numbers as written. {hint}")
        if shares.shape == (count,):
            return shares
    made, content = make(), io.BytesIO()
    np.save(content, made, allow_pickle=False)
    Disk(work).put(file.name, content.getvalue())
    return made
