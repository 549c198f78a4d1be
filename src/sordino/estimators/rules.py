"""Public rules: settings from the number of records, the norm and the promise alone.

Heuristics, no promise of accuracy. One idea carries all of them. A descent of total length
s = rate * steps, by whatever method, puts noise on the score w.x of a row: in flat directions of
standard deviation norm^2 s / `Task.signal`, whatever the number of steps (docs/math.md 10.5).
Losses turn on scores of about 1. So s is as long as keeps that noise at 1 where the noise enters
the descent, which contracts it in curved directions, and at 0.4 where it is added to the final
weights, which contracts it nowhere; and no longer than 1 / l2, after which a descent has
converged. A regulariser l2 acts like a length 1 / l2.

The two constants were chosen on adult, forest, mnist-binary, cifar2 and the digits, by accuracy
over a grid of lengths; bank and kddcup99 were looked at once, afterwards. Then one thing was
changed: the first whole study (the benchmark) had DP-SGD ahead of noisy gradient descent on adult
and kddcup99 at the smallest budget, and the latter's rate was lowered to that of the former.
"""

from __future__ import annotations

import functools
import math

from sordino import sensitivity
from sordino.errors import NotApplicable
from sordino.estimators.task import Settings, Task
from sordino.models.constants import Constants
from sordino.privacy import Relation

INSIDE, OUTSIDE = 1.0, 0.4
"""Noise allowed on a score: inside the descent, or on the final weights."""
AFFORDABLE = 2.0
"""Noise on a score up to which `auto` takes the noisy objective with the user's own l2."""
LONGEST = 1e4
"""Of a descent where nothing limits it: no promise, and no regulariser."""
BATCH = 4000
"""Of RSGD-AR, as in the paper."""
FASTEST = 1.9
"""Largest rate, in inverse curvatures: at 2 a step of full gradients may expand."""
MOST_EPOCHS = 150
MOST_STEPS = 300
"""Longer trainings gain next to nothing and take their time."""

Defaults = dict[str, float | int]


def best_method(task: Task, starts: bool = False) -> str:
    """What `auto` takes: the noisy objective, or noisy descent where that would cost too much.

    Where the noise of the objective at the user's own l2 is at most `AFFORDABLE` on a score, its
    minimiser is the better model; below, a short descent forgets less than a strong regulariser
    would. Public weights to start from (`starts`) are of use to a descent only, and under
    add-or-remove-one full gradients would need a private number.
    """
    private_size = task.relation is Relation.ADD_OR_REMOVE_ONE
    if starts:
        return "dp-sgd" if private_size else "noisy-gd"
    if not task.private or private_size:
        return "objective"
    return "objective" if _score_noise(task, task.l2) <= AFFORDABLE else "noisy-gd"


def length(task: Task, noise: float) -> float:
    """Total step length that puts this much noise on a score, unless it converges before."""
    most = 1 / task.l2 if task.l2 > 0 else LONGEST
    return min(noise * task.signal / task.norm**2, most)


def regulariser(task: Task) -> float:
    """The least weight >= l2 whose noisy objective keeps the noise on a score at `INSIDE`."""
    if not task.private:
        return task.l2
    low = max(task.l2, task.norm**2 / task.signal / 4)
    if _score_noise(task, low) <= INSIDE:
        return max(task.l2, low)
    high = 2 * low
    while _score_noise(task, high) > INSIDE:
        low, high = high, 2 * high
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _score_noise(task, middle) <= INSIDE else (middle, high)
    return high


def _score_noise(task: Task, l2: float) -> float:
    """Noise of a noisy objective's minimiser on a score, in flat directions."""
    from sordino.estimators.perturbed import mechanism

    if not l2 > 0:
        return math.inf
    try:
        sigma = mechanism(task.alone, l2).sigma
    except NotApplicable:  # no noise is enough for so small a regulariser
        return math.inf
    return task.norm * sigma / (task.rows * l2)


def noisy_gd(task: Task, given: Settings) -> Defaults:
    """Full gradients at the inverse curvature, faster only where that would take too many steps.

    Fast steps would amplify the noise in directions of large curvature.
    """
    return _steps(length(task, INSIDE), given, 1 / task.constants.smooth, task)


def output_gd(task: Task, given: Settings) -> Defaults:
    """Full gradients at nearly twice the inverse curvature."""
    return _steps(length(task, OUTSIDE), given, FASTEST / task.constants.smooth, task)


def dp_sgd(task: Task, given: Settings) -> Defaults:
    """A tenth of the records a batch (at least sqrt(n)), at least four passes over them.

    Noise on the sum of the steps does not depend on the batch size, sampling noise does.
    """
    batch = given.batch_size or max(round(math.sqrt(task.rows)), task.rows // 10, 1)
    per_pass = -(-task.rows // batch)
    steps = given.steps
    if given.epochs is not None:
        steps = given.epochs * per_pass
    total = length(task, INSIDE)
    if steps is None:
        steps = max(min(math.ceil(total * task.constants.smooth), MOST_STEPS), 4 * per_pass)
    rate = min(total / steps, FASTEST / task.constants.smooth)
    found: Defaults = {"batch_size": batch, "learning_rate": rate}
    return found if given.epochs is not None else {**found, "steps": steps}


def numeric_sgd(task: Task, given: Settings) -> Defaults:
    """Two hundred batches an epoch; as many epochs as keep the first rate stable."""
    batch = given.batch_size or max(20, task.rows // 200)
    batches = max(1, task.rows // min(batch, task.rows))
    total, most = length(task, OUTSIDE), FASTEST / task.constants.smooth
    epochs = given.epochs or 4
    while not given.epochs and total / (batches * _harmonic(epochs)) > most:
        if epochs >= MOST_EPOCHS:
            break
        epochs = math.ceil(1.25 * epochs)
    rate = min(most, total / (batches * _harmonic(epochs)))
    return {"batch_size": batch, "epochs": epochs, "learning_rate": rate}


def restarted_averages(task: Task, given: Settings) -> Defaults:
    """Batches of 4,000, averages of two epochs; as many epochs as keep the first rate stable.

    An average counts for less than the last iterate: its length is how far a record can move it.
    """
    batch = given.batch_size or max(1, min(BATCH, task.rows // 4))
    interval = given.average_every or 2
    total, most = length(task, OUTSIDE), FASTEST / task.constants.smooth
    epochs = given.epochs or 2 * interval
    while not given.epochs and total / _reach(task.rows, batch, epochs, interval) > most:
        if epochs >= MOST_EPOCHS:
            break
        epochs += interval
    rate = min(most, total / _reach(task.rows, batch, epochs, interval))
    found: Defaults = {"batch_size": batch, "epochs": epochs, "learning_rate": rate}
    return {**found, "average_every": interval}


def bolt_on(task: Task, given: Settings) -> Defaults:
    """Eight passes of two hundred batches; a regulariser of 1 / length, if that is more than l2."""
    found: Defaults = {"batch_size": max(10, task.rows // 200), "epochs": 8}
    total = length(task, OUTSIDE)
    if task.l2 > 0:
        return {**found, "l2": max(task.l2, 1 / total)}
    batch = given.batch_size or found["batch_size"]
    steps = (given.epochs or found["epochs"]) * max(1, task.rows // batch)
    return {**found, "learning_rate": min(1 / task.constants.smooth, total / steps)}


def _steps(total: float, given: Settings, wanted: float, task: Task) -> Defaults:
    """Steps of this length together, none longer than `wanted` unless there would be too many."""
    if given.steps is None and given.learning_rate is not None:
        return {"steps": max(1, math.ceil(total / given.learning_rate))}
    steps = given.steps or max(1, min(math.ceil(total / wanted), MOST_STEPS))
    return {"steps": steps, "learning_rate": min(total / steps, FASTEST / task.constants.smooth)}


def _harmonic(terms: int) -> float:
    return math.fsum(1 / h for h in range(1, terms + 1))


@functools.lru_cache(maxsize=1024)
def _reach(rows: int, batch: int, epochs: int, interval: int) -> float:
    """Length of RSGD-AR at rate 1: how far a unit gradient in the worst batch carries, times n."""
    flat = Constants(lipschitz=1.0, smooth=1e-12, strongly_convex=0.0)
    found = sensitivity.rsgd_ar(
        constants=flat,
        n=rows,
        batch_size=max(1, rows // -(-rows // min(batch, rows))),
        relation=Relation.ZERO_OUT,
        epochs=epochs,
        eta0=1.0,
        tau=interval,
        drop_last=True,
    )
    return rows * found.worst
