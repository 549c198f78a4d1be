"""Full-batch descents of many plans at once: one matrix product a step for all of them.

The engine trains one run after the other here, each reading all rows in every step, and a study
has hundreds. This is the same loop (`TrainSpec`) with the runs side by side; a test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sordino.estimators.randomness import Randomness
from sordino.estimators.records import Records
from sordino.estimators.task import Plan
from sordino.privacy import Sampling

Floats = npt.NDArray[np.float64]
BLOCK = 1024


def fits(plan: Plan) -> bool:
    """Whether a plan is plain full-batch descent with a constant rate, where nothing is clipped."""
    spec = plan.spec
    if spec is None or spec.order != Sampling.CYCLIC or spec.batch_size != plan.task.rows:
        return False
    plain = spec.schedule.kind == "constant" and spec.radius is None and spec.average_every is None
    # |derivative| <= 1, so no gradient is longer than its row.
    return plain and (spec.max_grad_norm is None or spec.max_grad_norm >= plan.task.norm)


def descend(plans: Sequence[Plan], records: Records, randomness: Sequence[Randomness]) -> Floats:
    """Weights [plan, column] after each plan's own number of steps, from 0."""
    specs = [plan.spec for plan in plans]
    rows, columns = records.X.shape
    steps = np.array([spec.total_steps(rows) for spec in specs])
    order = np.argsort(-steps, kind="stable")  # the longest first: those still running lead
    rate = np.array([specs[i].schedule.rate for i in order])
    noise = np.array([specs[i].noise_multiplier * (specs[i].max_grad_norm or 0.0) for i in order])
    draws = [randomness[i].steps.stream("full-batch") for i in order]
    l2 = np.array([specs[i].objective.l2 for i in order])
    signed = records.X * (2 * records.labels(0) - 1).astype(records.X.dtype)[:, None]
    weights = np.zeros((columns, len(plans)))
    for step in range(int(steps.max(initial=0))):
        active = int(np.searchsorted(-steps[order], -step, side="left"))
        now = weights[:, :active]
        total = _gradient_sum(signed, now, plans[0])
        for run in np.flatnonzero(noise[:active]):
            total[:, run] += noise[run] * draws[run].standard_normal((columns,))
        now -= rate[:active] * (total / rows + l2[:active] * now)
    found = np.empty((len(plans), columns))
    found[order] = weights.T
    return found


def _gradient_sum(signed: npt.NDArray[np.float32], weights: Floats, plan: Plan) -> Floats:
    """Sum of the data gradients for rows times their sign: of l(z) at z = sign x.w."""
    W = weights.astype(signed.dtype)
    total = np.zeros(weights.shape)
    for first in range(0, len(signed), BLOCK):
        rows = signed[first : first + BLOCK]
        z = rows @ W
        total -= rows.T @ (
            _falling_logistic(z) if plan.task.kind == "logistic" else _hinge(z, plan)
        )
    return total


def _falling_logistic(z: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):  # exp(100) in float32 is inf, and 1 / inf is right
        np.exp(z, out=z)
    z += 1
    return np.reciprocal(z, out=z)


def _hinge(z: npt.NDArray[np.float32], plan: Plan) -> npt.NDArray[np.float32]:
    width = plan.task.huber_width
    z -= 1 + width
    z *= -1 / (2 * width)
    return np.clip(z, 0, 1, out=z)
