"""Public rules for settings: from the number of records, the norm and the promise alone.

Heuristics of a quadratic model (docs/math.md 10.5), no promise of accuracy. A descent of total
length s = rate * steps leaves a bias that falls with s, and its noise grows with s, whatever
method takes the steps. With trace(H) <= curvature * norm^2 and a guess B of the norm of the best
weights, s = (B^2 signal^2 / e)^(1/3) balances the two (for rows of norm 1).
"""

from __future__ import annotations

import math

from sordino.estimators.adaptive import Shares
from sordino.estimators.task import Settings, Task

GUESS = 10.0
"""B, for rows of norm 1: chosen after seeing 7.8 on one data set (adult), kept for all others."""
MOST_STEPS = 400


def descent_length(task: Task) -> float:
    """Total step length s = rate * steps for full gradients of the mean loss."""
    scale = task.norm**2
    wanted = (GUESS**2 * task.signal**2 / math.e) ** (1 / 3)
    longest = 1 / task.l2 if task.l2 > 0 else math.inf
    return min(wanted / scale, longest, MOST_STEPS / (task.curvature * scale))


def steps_of_gradients(task: Task) -> tuple[int, float]:
    """Number of full-batch steps, and their rate, for `descent_length`."""
    length = descent_length(task)
    rate = 1 / (task.curvature * task.norm**2 + task.l2)
    steps = max(1, math.ceil(length / rate))
    return steps, length / steps


def regulariser(task: Task) -> float:
    """Weight for objective perturbation: what was asked for, or what the noise needs if more."""
    if not task.private:
        return task.l2
    return max(task.l2, task.norm**2 * (2 / (GUESS**2 * task.signal**2)) ** (1 / 3))


def best_method(task: Task) -> str:
    """What `auto` takes."""
    return "objective"


def restarted_averages(task: Task, given: Settings) -> dict[str, object]:
    batch = given.batch_size or min(4000, task.rows)
    batches = max(1, -(-task.rows // batch))
    epochs = given.epochs or 10
    interval = given.average_every or min(epochs, 10)
    harmonic = sum(1 / h for h in range(1, interval + 1)) * (epochs // interval)
    rate = min(descent_length(task) / (batches * harmonic), 2 / task.constants.smooth)
    return {"batch_size": batch, "epochs": epochs, "average_every": interval, "learning_rate": rate}


def numeric_sgd(task: Task, given: Settings) -> dict[str, object]:
    batch = given.batch_size or min(4000, task.rows)
    batches = max(1, -(-task.rows // batch))
    epochs = given.epochs or 10
    harmonic = sum(1 / h for h in range(1, epochs + 1))
    rate = min(descent_length(task) / (batches * harmonic), 2 / task.constants.smooth)
    return {"batch_size": batch, "epochs": epochs, "learning_rate": rate}


def bolt_on(task: Task, given: Settings) -> dict[str, object]:
    found = {"batch_size": min(50, task.rows), "epochs": 10}
    if task.l2 == 0:
        found["learning_rate"] = 1 / math.sqrt(task.rows)
    return found


def output_gd(task: Task, given: Settings) -> dict[str, object]:
    steps, rate = steps_of_gradients(task)
    return {"steps": steps, "learning_rate": rate}


def noisy_gd(task: Task, given: Settings) -> dict[str, object]:
    steps, rate = steps_of_gradients(task)
    return {"steps": steps, "learning_rate": rate}


def dp_sgd(task: Task, given: Settings) -> dict[str, object]:
    batch = given.batch_size or max(1, round(math.sqrt(task.rows)))
    epochs = given.epochs or 5
    steps = given.steps or epochs * -(-task.rows // batch)
    rate = descent_length(task) / steps
    out = {"batch_size": batch, "learning_rate": rate}
    if given.epochs is None:
        out["steps"] = steps
    return out


def adaptive_shares(task: Task, rho: float) -> Shares:
    rounds = 10
    return Shares(gradient=0.6 * rho / rounds, selection=0.4 * rho / rounds)
