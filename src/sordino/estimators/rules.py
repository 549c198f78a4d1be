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
changed: the first whole study (benchmarks/erm.py) had DP-SGD ahead of noisy gradient descent on
adult and kddcup99 at the smallest budget, and the latter's rate was lowered to that of the former.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sordino import sensitivity
from sordino.accounting import gaussian
from sordino.errors import NotApplicable
from sordino.estimators.fit import Settings, Task
from sordino.estimators.minimum.linear import most_rounding
from sordino.estimators.preparation import AUTO, Preparation, noise_for
from sordino.models.constants import Constants
from sordino.privacy import Relation, Sampling
from sordino.proofs.objective import ObjectiveEvidence, objective_noise, problem_of
from sordino.proofs.prepared import MEAN, SQUARES, SumRelease
from sordino.proofs.settings import NONE, PRIVATE, PUBLIC
from sordino.proofs.statistics import StatisticsEvidence
from sordino.sensitivity import Batches

GRADIENT_LEFT = 1e-6
"""Norm of the gradient of the SUM objective at which minimising stops, for rows of norm 1."""
_ROUNDINGS = 4.0
"""It stops no lower than this many times what rounding may hide, whatever the records."""
_INSIDE, _OUTSIDE = 1.0, 0.4
"""Noise allowed on a score: inside the descent, or on the final weights."""
_AFFORDABLE = 2.0
"""Noise on a score up to which `auto` takes the noisy objective with the user's own l2."""
_LONGEST = 1e4
"""Of a descent where nothing limits it: no promise, and no regulariser."""
_BATCH = 4000
"""Of RSGD-AR, as in the paper."""
_FASTEST = 1.9
"""Largest rate, in inverse curvatures: at 2 a step of full gradients may expand."""
L2 = 0.001
"""Of the regulariser, where none is given."""
_CENTRED_INSIDE, _CENTRED_FASTER, _CENTRED_STEPS = 0.7, 3.0, 150
"""Of descents on centred rows: the noise on a score, the rate against the fastest that is safe for
all rows, and the most steps.

Rows that have nothing in common curve no direction as much as rows can that are all alike. Chosen
on adult, mnist-binary, cifar2, digits/binary and a synthetic table of five classes: at ten times
the rate cifar2 lost ten points, at three times nothing did. Their length is limited by noise alone,
and not by a regulariser, which cost adult two points at epsilon 8.
"""
_CENTRED_STEPS_OF_LONG = 600
"""The most where so few steps, the fastest there are, would cut the length.

Against 150 this gained 0.3 and 0.9 points on the synthetic table at epsilon 4 and 8, 0.2 and 0.3 on
adult, 0.2 on mnist-binary at 8; more and slower steps of the same length gained nothing.
"""
_MOST_EPOCHS = 150
_MOST_STEPS = 300
"""Longer trainings gain next to nothing and take their time."""
_MOST_OF_SQUARES = 1000
"""Of least squares, which longer trainings do help: 3 points of R^2 on forest's elevations."""

_RESIDUAL, _ON_TARGET = 0.3, 0.2
"""Of least squares, whose targets lie in [-1, 1]: where residuals are clipped, and the noise that a
descent may put on a prediction. Chosen on six synthetic tables and scikit-learn's diabetes; hours
of work in adult and elevations of forest were looked at afterwards."""
_MOST_SUMMED = 200
"""Columns whose squares `auto` sums: noise for each pair of them takes its time."""
CENTER_SHARE, SCALE_SHARE = 0.15, 0.15
"""Of the squared Gaussian budget, for what is released of the rows before a training."""
_SHARES = {MEAN: CENTER_SHARE, SQUARES: SCALE_SHARE}
_CENTER_NOISE, _SCALE_NOISE = 0.6, 0.0
"""Noise below which `auto` releases a mean, or mean squares, over the longest that they can be.

Chosen on breast-cancer, wine and the digits: a centre gained 13 points or more at a noise of .45
and .49, and nothing at .82; a scale gained nowhere, so `auto` takes none.
"""
_CENTER_NOISE_OF_REGRESSION = 0.15
"""The same of a regression, whose rows are around the middle of their bounds above it.

Chosen on hours of work in adult, Friedman's first table and two synthetic ones: from .12 down a
centre gained up to 25 points of R^2 on rows in a corner of their bounds, and cost adult 2.
"""

_Defaults = dict[str, Any]


def preparation(asked: Preparation, task: Task, *, bounded: bool) -> Preparation:
    """What "auto" stands for: a private centre where its noise is far below the rows' own length.

    Only with public bounds: then rows are in a box around 0, whose middle is seldom theirs, and
    `data_norm` was not chosen for rows that have been centred by somebody already. A regression
    takes the public middle of the box instead, since longer rows would have to be scaled down more.
    """

    def chosen(how: str, what: str, share: float, most: float) -> str:
        if how != AUTO:
            return how
        noise = prepared_noise(what, share, asked, task)
        return PRIVATE if bounded and noise < most else NONE

    most = _CENTER_NOISE_OF_REGRESSION if task.regression else _CENTER_NOISE
    center = chosen(asked.center, MEAN, CENTER_SHARE, most)
    if task.regression and bounded and asked.center == AUTO and center == NONE:
        center = PUBLIC
    scale = chosen(asked.scale, SQUARES, SCALE_SHARE, _SCALE_NOISE)
    return replace(asked, center=center, scale=scale)


def prepared_noise(what: str, share: float, asked: Preparation, task: Task) -> float:
    """Length of the noise on a mean of rows (or squares), over the longest that it can be."""
    if not task.private:
        return 0.0
    mu = math.sqrt(share) / gaussian.sigma(task.epsilon, task.delta)
    sum_of = noise_for(what, asked, task.relation, task.rows_per_person, mu)
    longest = sum_of.norm if what == MEAN else sum_of.norm**2
    return sum_of.sigma * math.sqrt(asked.features) / (task.rows * longest)


def before_training(task: Task) -> tuple[SumRelease, ...]:
    """What is released before the training: each sum for its share of the budget."""
    if task.prepared is None or not task.private:
        return ()
    mu, shares = 1 / gaussian.sigma(task.epsilon, task.delta), _SHARES
    return tuple(
        noise_for(
            *(what, task.prepared, task.relation, task.rows_per_person),
            math.sqrt(shares[what]) * mu,
        )
        for what in task.prepared.private
    )


def best_method(task: Task, starts: bool = False) -> str:
    """What `auto` takes: the noisy objective, or noisy descent where that would cost too much.

    Where the noise of the objective at the user's own l2 is at most `_AFFORDABLE` on a score, its
    minimiser is the better model; below, a short descent forgets less than a strong regulariser
    would. Public weights to start from (`starts`) are of use to a descent only, and so is a
    softmax: no theorem on noisy objectives covers it. Under add-or-remove-one full gradients would
    need a private number.
    """
    if task.regression:
        return _best_of_regression(task)
    if starts or task.joint or task.centred:
        return "dp-sgd" if task.private_size else "noisy-gd"
    if not task.private or task.private_size:
        return "objective"
    return "objective" if _score_noise(task, task.l2) <= _AFFORDABLE else "noisy-gd"


def _best_of_regression(task: Task) -> str:
    """The sums, where what they leave is a longer descent than there are steps for; else a descent.

    Noise on the sum of x x^T hides directions like a descent of length rows / (its size) would. A
    descent with as much noise can be as long where few gradients are clipped, or longer.
    """
    if not task.private or task.private_size:
        return "statistics"
    reach = _FASTEST * _MOST_OF_SQUARES / task.norm**2
    by_sums = task.signal / (task.norm**2 * math.sqrt(2 * task.columns))
    return "statistics" if task.columns <= _MOST_SUMMED and by_sums > reach else "noisy-gd"


def solved(task: Task, noisy: StatisticsEvidence) -> StatisticsEvidence:
    """With a regulariser that is the user's own, or as large as the noise it has to stand."""
    least = noisy.sigma * math.sqrt(task.columns)
    return replace(noisy, regulariser=max(task.l2 * task.rows, least))


def l2(method: str, *, prepared: bool) -> float:
    """The regulariser, where none is given: none for noisy descents on prepared rows."""
    return 0.0 if prepared and method in ("auto", "noisy-gd", "dp-sgd") else L2


def _length(task: Task, noise: float) -> float:
    """Total step length that puts this much noise on a score, unless it converges before."""
    most = 1 / task.l2 if task.l2 > 0 else _LONGEST
    return min(noise * task.signal / task.norm**2, most)


def regulariser(task: Task) -> float:
    """The least weight >= l2 whose noisy objective keeps the noise on a score at `_INSIDE`."""
    if not task.private:
        return task.l2
    low = max(task.l2, task.norm**2 / task.signal / 4)
    if _score_noise(task, low) <= _INSIDE:
        return max(task.l2, low)
    high = 2 * low
    while _score_noise(task, high) > _INSIDE:
        low, high = high, 2 * high
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _score_noise(task, middle) <= _INSIDE else (middle, high)
    return high


def _score_noise(task: Task, l2: float) -> float:
    """Noise of a noisy objective's minimiser on a score, in flat directions."""
    if not l2 > 0:
        return math.inf
    try:
        sigma = mechanism(task.alone, l2).sigma
    except NotApplicable:  # no noise is enough for so small a regulariser
        return math.inf
    return task.norm * sigma / (task.rows * l2)


@functools.lru_cache(maxsize=512)
def mechanism(task: Task, l2: float) -> ObjectiveEvidence:
    """The noisy objective that keeps the task's promise at this regulariser.

    Where minimising stops is fixed before any record is seen, and reachable for all records: a
    solver that gave up for some records and not for others would tell them apart.
    """
    rough = _noisy_objective(task.alone, l2, GRADIENT_LEFT * task.norm).sigma
    linear = 2 * rough * (math.sqrt(task.columns) + 8) / task.rows  # ||b||, but for e^-32
    same = {n: getattr(task, n) for n in ("rows", "curvature", "huber_width", "norm")}
    hidden = most_rounding(dimension=task.columns, l2=l2, linear=linear, **same)
    left = max(GRADIENT_LEFT * task.norm, _ROUNDINGS * task.rows * hidden)
    return _noisy_objective(task, l2, left)


def _noisy_objective(task: Task, l2: float, gradient_left: float) -> ObjectiveEvidence:
    regulariser = l2 * task.rows
    sigma, sigma_out = objective_noise(
        problem_of(task.kind, task.huber_width, task.norm, regulariser, task.relation),
        *(task.epsilon, task.delta),
        gradient_left=gradient_left,
        problems=task.problems,
        rows_per_person=task.rows_per_person,
    )
    of: Any = {"loss": task.kind, "huber_width": task.huber_width, "norm": task.norm, **task.shape}
    of |= {"sigma": sigma, "sigma_out": sigma_out, "gradient_left": gradient_left}
    return ObjectiveEvidence(regulariser=regulariser, **of)


def noisy_gd(task: Task, given: Settings) -> _Defaults:
    """Full gradients at the inverse curvature, faster only where that would take too many steps.

    Fast steps would amplify the noise in directions of large curvature. Least squares are clipped
    where a residual is beyond 0.3, targets being within 1: the noise shrinks with the clip, which
    lets the descent go on for so much longer.
    """
    if task.regression:
        clip = min(given.max_grad_norm or _RESIDUAL * task.norm, task.norm)
        most = 1 / task.l2 if task.l2 > 0 else _LONGEST
        total = min(_ON_TARGET * task.signal / (clip * task.norm), most)
        wanted = 1 / task.constants.smooth
        return {**_steps(total, given, wanted, task, _MOST_OF_SQUARES), "max_grad_norm": clip}
    if task.centred:
        total = _length(task, _CENTRED_INSIDE)
        fastest = _CENTRED_FASTER * _FASTEST / task.constants.smooth
        most = max(_CENTRED_STEPS, min(math.ceil(total / fastest), _CENTRED_STEPS_OF_LONG))
        how = most, _CENTRED_FASTER
        return _steps(total, given, 1 / task.constants.smooth, task, *how)
    return _steps(_length(task, _INSIDE), given, 1 / task.constants.smooth, task)


def output_gd(task: Task, given: Settings) -> _Defaults:
    """Full gradients at nearly twice the inverse curvature."""
    return _steps(_length(task, _OUTSIDE), given, _FASTEST / task.constants.smooth, task)


def dp_sgd(task: Task, given: Settings) -> _Defaults:
    """A tenth of the records a batch (at least sqrt(n)), at least four passes over them.

    Noise on the sum of the steps does not depend on the batch size, sampling noise does. Passes
    of allocation are whole: one broken off would cost as much.
    """
    batch = given.batch_size or max(round(math.sqrt(task.rows)), task.rows // 10, 1)
    per_pass = -(-task.rows // batch)
    steps = given.steps if given.epochs is None else given.epochs * per_pass
    total = _length(task, _INSIDE)
    if steps is None:
        steps = max(min(math.ceil(total * task.constants.smooth), _MOST_STEPS), 4 * per_pass)
        if given.sampling == Sampling.ALLOCATION:
            steps = -(-steps // per_pass) * per_pass
    rate = min(total / steps, _FASTEST / task.constants.smooth)
    found = {"batch_size": batch, "learning_rate": rate, "accountant": "pld"}
    return found if given.epochs is not None else {**found, "steps": steps}


def numeric_sgd(task: Task, given: Settings) -> _Defaults:
    """Two hundred batches an epoch; as many epochs as keep the first rate stable."""
    batch = given.batch_size or max(20, task.rows // 200)
    batches = max(1, task.rows // min(batch, task.rows))

    def length_at_1(epochs: int) -> float:
        return batches * math.fsum(1 / h for h in range(1, epochs + 1))

    found = _epochs(task, given, 4, lambda epochs: math.ceil(1.25 * epochs), length_at_1)
    return {"batch_size": batch, **found}


def restarted_averages(task: Task, given: Settings) -> _Defaults:
    """Batches of 4,000, averages of two epochs; as many epochs as keep the first rate stable.

    An average counts for less than the last iterate: its length is how far a record can move it.
    """
    batch = given.batch_size or max(1, min(_BATCH, task.rows // 4))
    every = given.average_every or 2
    found = _epochs(
        *(task, given, 2 * every, lambda epochs: epochs + every),
        lambda epochs: _reach(task.rows, batch, epochs, every),
    )
    return {"batch_size": batch, **found, "average_every": every}


def _epochs(
    task: Task,
    given: Settings,
    epochs: int,
    more: Callable[[int], int],
    length_at_1: Callable[[int], float],
) -> _Defaults:
    """Epochs and first rate of a training whose length at rate 1 is known."""
    total, most = _length(task, _OUTSIDE), _FASTEST / task.constants.smooth
    epochs = given.epochs or epochs
    while not given.epochs and epochs < _MOST_EPOCHS and total / length_at_1(epochs) > most:
        epochs = more(epochs)
    return {"epochs": epochs, "learning_rate": min(most, total / length_at_1(epochs))}


def bolt_on(task: Task, given: Settings) -> _Defaults:
    """Eight passes of two hundred batches; a regulariser of 1 / length, if that is more than l2."""
    found: _Defaults = {"batch_size": max(10, task.rows // 200), "epochs": 8}
    total = _length(task, _OUTSIDE)
    if task.l2 > 0:
        return {**found, "l2": max(task.l2, 1 / total)}
    batch = given.batch_size or found["batch_size"]
    steps = (given.epochs or found["epochs"]) * max(1, task.rows // batch)
    return {**found, "learning_rate": min(1 / task.constants.smooth, total / steps)}


def _steps(
    total: float,
    given: Settings,
    wanted: float,
    task: Task,
    most: int = _MOST_STEPS,
    faster: float = 1.0,
) -> _Defaults:
    """Full steps of this length together, none above `wanted` unless there would be too many."""
    found: _Defaults = {"batch_size": task.rows}
    if given.steps is None and given.learning_rate is not None:
        return {**found, "steps": max(1, math.ceil(total / given.learning_rate))}
    steps = given.steps or max(1, min(math.ceil(total / wanted), most))
    rate = min(total / steps, faster * _FASTEST / task.constants.smooth)
    return {**found, "steps": steps, "learning_rate": rate}


@functools.lru_cache(maxsize=1024)
def _reach(rows: int, batch: int, epochs: int, interval: int) -> float:
    """Length of RSGD-AR at rate 1: how far a unit gradient in the worst batch carries, times n."""
    flat = Constants(lipschitz=1.0, smooth=1e-12, strongly_convex=0.0)
    size = max(1, rows // -(-rows // min(batch, rows)))
    of: Batches = {"constants": flat, "n": rows, "batch_size": size, "drop_last": True}
    how = {"epochs": epochs, "tau": interval}
    return rows * sensitivity.rsgd_ar(eta0=1.0, relation=Relation.ZERO_OUT, **how, **of).worst
