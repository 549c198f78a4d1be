"""Scores that need no learning: a likelihood ratio where the law is known, a record's loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import _check
from sordino.audit.called import is_estimator
from sordino.audit.difference import difference
from sordino.audit.scores import Score
from sordino.audit.worlds import TrainedRelease, as_dataset, outputs
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.objectives.objective import ObjectiveSpec

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]


def likelihood(mechanism: Any, D: Any, D_prime: Any) -> Score:
    """The log likelihood ratio of a training without randomness whose weights get Gaussian noise.

    Its law is N(w, scale^2) on D and N(w', scale^2) on D', so the ratio is linear along w' - w.

    Raises
    ------
    InvalidArgument
        For every other mechanism: SGD's own law, and what a function draws, are not known.
    """
    known = isinstance(mechanism, TrainedRelease) and mechanism.deterministic
    if not known or mechanism.scale == 0:
        hint = 'That is a TrainedRelease with order="fixed" and scale > 0. Use score="learned".'
        _check.fail("score", "likelihood", "to be used where the law is known", hint)
    plain = TrainedRelease(mechanism.spec, 0.0, mechanism.initial_weights, mechanism.checkpoints)
    first, second = (found[0] for found in outputs(plain, D, D_prime, 1))
    along = (second - first) / mechanism.scale**2
    middle = (first + second) / 2
    return lambda released: (released - middle) @ along


def loss(mechanism: Any, D: Any, D_prime: Any) -> Score:
    """How well a linear model fits the record of D' rather than that of D.

    The loss of the record that D has, minus the loss of the one that D' has instead; of weights
    released as one row, the intercept last if there is one. An estimator's loss is taken for the
    logistic one.

    Raises
    ------
    InvalidArgument
        If the model is not linear, or the records cannot be told.
    """
    objective = _objective(mechanism)
    gains = [(sign, row, label) for sign, row, label in _records(D, D_prime)]

    def score(released: Floats) -> Floats:
        total = np.zeros(len(released))
        for sign, row, label in gains:
            if len(row) + 1 == released.shape[1]:
                row = np.append(row, 1.0)
            if len(row) != released.shape[1]:
                wanted = f"to be {len(row)} weights, or one more"
                _check.fail("score", f"[loss of {released.shape[1]} values]", wanted)
            total += sign * _losses(objective, released @ row, label)
        return total

    return score


def _objective(mechanism: Any) -> ObjectiveSpec:
    if is_estimator(mechanism):
        return ObjectiveSpec("logistic")
    linear = isinstance(mechanism, TrainedRelease) and mechanism.spec.objective.is_linear
    if not linear or mechanism.checkpoints is not None:
        hint = 'That is a linear TrainedRelease or an estimator. Use score="learned".'
        _check.fail("score", "loss", "to be used for linear weights", hint)
    found: ObjectiveSpec = mechanism.spec.objective
    return found


def _records(D: Any, D_prime: Any) -> list[tuple[int, Array, float]]:
    """(+1, record of D) and (-1, record of D'), as far as there are any; labels 0 and 1."""
    first = as_dataset("D", D)
    if isinstance(D_prime, Neighbours):
        slot, row = int(D_prime.slot[0]), int(D_prime.occupant[0])
        found = [(1, first.X[slot], first.y[slot])] if slot < first.rows else []
        if row >= first.rows and D_prime.extra_X is not None and D_prime.extra_y is not None:
            found.append((-1, D_prime.extra_X[row - first.rows], D_prime.extra_y[row - first.rows]))
        elif row >= 0:
            found.append((-1, first.X[row], first.y[row]))
        return _labelled(found, first, first)
    second = as_dataset("D_prime", D_prime)
    apart = difference(first, second)
    assert apart is not None
    found = []
    if apart.lost is not None:
        found.append((1, first.X[apart.lost], first.y[apart.lost]))
    if apart.gained is not None:
        found.append((-1, second.X[apart.gained], second.y[apart.gained]))
    return _labelled(found, first, second)


def _labelled(
    found: list[tuple[int, Array, Any]], first: Dataset, second: Dataset
) -> list[tuple[int, Array, float]]:
    top = max(first.y.max(), second.y.max())
    bottom = min(first.y.min(), second.y.min())
    if set(np.unique(first.y)) | set(np.unique(second.y)) <= {bottom, top}:
        # Two classes, whatever they are called.
        return [(sign, row, float(y == top)) for sign, row, y in found]
    return [(sign, row, float(y)) for sign, row, y in found]


def _losses(objective: ObjectiveSpec, z: Floats, label: float) -> Floats:
    """As `sordino.objectives.linear` has them, of scores z."""
    if objective.kind == "least-squares":
        return np.asarray(0.5 * (z - label) ** 2)
    margin = z if label > 0.5 else -z
    if objective.kind == "logistic":
        return np.logaddexp(0.0, -margin)
    width, gap = objective.huber_width, 1 - margin
    inside = np.clip(gap + width, 0, 2 * width) ** 2 / (4 * width)
    return np.asarray(inside + np.maximum(gap - width, 0))
