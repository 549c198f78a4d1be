"""The papers' stop rule: the step after which a model no longer gets better on validation data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino import checks
from sordino.data.dataset import Dataset
from sordino.models import build
from sordino.sgd.engine import train
from sordino.sgd.spec import TrainSpec


@dataclass(frozen=True, eq=False)
class Convergence:
    """Where a training stops by the rule.

    Attributes
    ----------
    step
        The check at which the score failed to improve for the last time allowed; the spec's
        last check if that never happened.
    best_step
        The check with the best score so far.
    converged
        Whether the rule was met within the spec's steps.
    steps, scores
        Every check made and its mean score over the seeds, larger being better. A few lie
        beyond `step`.
    """

    step: int
    best_step: int
    converged: bool
    steps: tuple[int, ...]
    scores: tuple[float, ...]


def stop_position(scores: Sequence[float], patience: int = 3) -> int | None:
    """Position at which `scores` has failed to improve `patience` times in a row, or None.

    A score improves if it is above every score before it.

    >>> stop_position([0.5, 0.7, 0.6, 0.7, 0.7])
    4
    """
    checks.whole("patience", patience, at_least=1)
    best, failures = -np.inf, 0
    for position, score in enumerate(scores):
        failures = 0 if score > best else failures + 1
        best = max(best, score)
        if failures == patience:
            return position
    return None


def convergence_point(
    spec: TrainSpec,
    train_data: Dataset,
    validation: Dataset,
    *,
    seeds: Sequence[int] = (0,),
    every: int = 50,
    patience: int = 3,
    score: str = "accuracy",
    **engine: Any,
) -> Convergence:
    """Find where a training stops by the rule of Hyland & Tople (v2, section 4).

    The validation score is checked every `every` steps; training stops at the check that is the
    `patience`-th in a row without a new best. Runs are trained for a while, and anew for twice
    as long as long as the rule is not met: a run's steps do not depend on its length. Weights
    are not kept; train again with `steps=point.step`.

    Parameters
    ----------
    spec
        Its steps or epochs are the longest training considered.
    train_data, validation
        What to train on and what to score on.
    seeds
        Runs whose mean score is judged; the papers used one.
    every, patience
        50 and 3 in the papers.
    score
        "accuracy", or "loss" (its negative).
    engine
        More arguments for `sordino.sgd.train`.

    Returns
    -------
    point
        A `Convergence`: the step, the best step, and every check with its score.
    """
    checks.whole("every", every, at_least=1)
    checks.whole("patience", patience, at_least=1)
    checks.one_of("score", score, ("accuracy", "loss"))
    total = spec.total_steps(train_data.rows)
    if every > total:
        checks.fail("every", every, f"<= {total}, the number of steps")
    objective = build(spec.objective, train_data.features, train_data.image_shape)
    longest, horizon = total // every, 4 * (patience + 1)
    while True:
        horizon = min(horizon, longest)
        points = [every * (i + 1) for i in range(horizon)]
        shorter = dataclasses.replace(spec, steps=points[-1], epochs=None)
        weights = train(shorter, train_data, seeds, checkpoints=points, **engine)[:, 0]
        of, sign = (objective.accuracy, 1) if score == "accuracy" else (objective.loss, -1)
        each = (of(weights[:, i], validation.X, validation.y) for i in range(horizon))
        scores = [sign * float(values.mean()) for values in each]
        stop = stop_position(scores, patience)
        if stop is not None or horizon == longest:
            break
        horizon *= 2
    last = horizon - 1 if stop is None else stop
    best = int(np.argmax(np.nan_to_num(scores[: last + 1], nan=-np.inf)))
    return Convergence(points[last], points[best], stop is not None, tuple(points), tuple(scores))
