"""Scores that need no learning: a likelihood ratio where the law is known, a record's loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from sordino import checks
from sordino.audit.called import is_estimator
from sordino.audit.difference import difference
from sordino.audit.scores import Score
from sordino.audit.worlds import TrainedRelease, as_dataset, outputs
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.estimators.risk import Risk
from sordino.models.constants import ObjectiveSpec
from sordino.types import Array, Floats

if TYPE_CHECKING:
    from sordino.audit.own import OwnFit


LOSSES = "loss of the one record less that of the other"
"""The name of a score."""
MOST_COLUMNS = 400
"""Up to which the determinant of a Hessian is taken for every run."""
_BLOCK_NUMBERS = 1 << 23  # runs x records x columns at once: 64 MB


def likelihood(mechanism: Any, D: Any, D_prime: Any) -> Score:
    """The log likelihood ratio, where the law of what is released is known.

    A training without randomness whose weights get Gaussian noise: N(w, scale^2) on D and
    N(w', scale^2) on D', so the ratio is linear along w' - w. And our objective perturbation: the
    weights tell the random linear term that made them optimal, b = -(gradient + regulariser w), so
    their density is that of b times the determinant of the Hessian (docs/math.md 10.1).

    Raises
    ------
    InvalidArgument
        For every other mechanism: SGD's own law, and what a function draws, are not known.
    """
    if not isinstance(mechanism, TrainedRelease) and _perturbs_objective(mechanism):
        first, second = (_Minimiser.of(mechanism, each) for each in (D, D_prime))
        return lambda released: second.log_density(released) - first.log_density(released)
    known = isinstance(mechanism, TrainedRelease) and mechanism.deterministic
    if not known or mechanism.scale == 0:
        hint = 'Known: order="fixed" with scale > 0, and "objective". Else use score="learned".'
        checks.fail("score", "likelihood", "to be used where the law is known", hint)
    plain = TrainedRelease(mechanism.spec, 0.0, mechanism.initial_weights, mechanism.checkpoints)
    w, other = (found[0] for found in outputs(plain, D, D_prime, 1))
    along = (other - w) / mechanism.scale**2
    middle = (w + other) / 2
    return lambda released: (released - middle) @ along


def _perturbs_objective(mechanism: Any) -> bool:
    from sordino.audit.own import OwnFit

    if not isinstance(mechanism, OwnFit) or mechanism.plan.method != "objective":
        return False
    return mechanism.plan.task.problems == 1


@dataclass(frozen=True, eq=False)
class _Minimiser:
    """The law of the exact minimiser of a noisy objective; what is added later is all but nothing.

    Parameters
    ----------
    signed
        Rows times their labels -1 and 1.
    objective
        The loss.
    regulariser, sigma
        Of the SUM of losses, and of its random linear term.
    """

    signed: Floats
    objective: ObjectiveSpec
    regulariser: float
    sigma: float

    @classmethod
    def of(cls, mechanism: OwnFit, D: Any) -> _Minimiser:
        data, plan = as_dataset("D", D), mechanism.plan
        if data.features > MOST_COLUMNS:
            wanted = f"to be used for at most {MOST_COLUMNS} columns, not {data.features}"
            checks.fail("score", "likelihood", wanted, 'Use score="learned".')
        signed = np.where(data.y > 0, 1.0, -1.0)[:, None] * data.X.astype(np.float64)
        task = plan.task
        return cls(signed, task.objective_with(plan.l2), plan.l2 * task.rows, plan.sigma)

    def log_density(self, released: Floats) -> Floats:
        """Of weights [run, column], up to one constant."""
        at_once = max(1, _BLOCK_NUMBERS // max(1, self.signed.size))
        blocks = range(0, len(released), at_once)
        return np.concatenate([self._block(released[start:][:at_once]) for start in blocks])

    def _block(self, w: Floats) -> Floats:
        margins = w @ self.signed.T
        slope, bend = _derivatives(self.objective, margins)
        b = -(slope @ self.signed + self.regulariser * w)
        hessian = (bend[:, None, :] * self.signed.T) @ self.signed
        hessian += self.regulariser * np.eye(w.shape[1])
        logarithm = np.linalg.slogdet(hessian)[1]
        return np.asarray(logarithm - np.sum(b**2, axis=1) / (2 * self.sigma**2))


def _derivatives(objective: ObjectiveSpec, margins: Floats) -> tuple[Floats, Floats]:
    """First and second derivative of the loss in the margin."""
    if objective.kind == "logistic":
        slope = expit(-margins)
        return -slope, slope * (1 - slope)
    width = objective.huber_width
    slope = np.clip((1 + width - margins) / (2 * width), 0.0, 1.0)
    return -slope, ((slope > 0) & (slope < 1)) / (2 * width)


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
                checks.fail("score", f"[loss of {released.shape[1]} values]", wanted)
            total += sign * _losses(objective, released @ row, label)
        return total

    return score


def _objective(mechanism: Any) -> ObjectiveSpec:
    if is_estimator(mechanism):
        return ObjectiveSpec("logistic")
    linear = isinstance(mechanism, TrainedRelease) and mechanism.spec.objective.is_linear
    if not linear or mechanism.checkpoints is not None:
        hint = 'That is a linear TrainedRelease or an estimator. Use score="learned".'
        checks.fail("score", "loss", "to be used for linear weights", hint)
    found: ObjectiveSpec = mechanism.spec.objective
    return found


def _records(D: Any, D_prime: Any) -> list[tuple[int, Array, float]]:
    """(+1, record of D) and (-1, record of D'), as far as there are any; labels 0 and 1."""
    first = as_dataset("D", D)
    if isinstance(D_prime, Neighbours):
        slot, row = int(D_prime.slot[0]), int(D_prime.occupant[0])
        # Rows of D stand in slots, not always in their own: some may have none (EMPTY), or be left
        # out.
        there = int(D_prime.members[slot])
        found = [(1, first.X[there], first.y[there])] if there >= 0 else []
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
    """As `sordino.models.linear` has them, of scores z."""
    if objective.kind == "least-squares":
        return np.asarray(0.5 * (z - label) ** 2)
    margin = z if label > 0.5 else -z
    if objective.kind == "logistic":
        return np.logaddexp(0.0, -margin)
    width, gap = objective.huber_width, 1 - margin
    inside = np.clip(gap + width, 0, 2 * width) ** 2 / (4 * width)
    return np.asarray(inside + np.maximum(gap - width, 0))


def record_losses(
    D: Dataset, D_prime: Dataset, problems: int, kind: str, huber_width: float
) -> Callable[[Floats], Floats]:
    """A score: how much better all models fit the record of D' than the one that D has instead.

    Of a crafted pair this is nearly the best there is, and it needs no learning: of hundreds of
    weights a direction is learned badly by a thousand runs.

    Parameters
    ----------
    D, D_prime
        Differ in one record that is replaced; labels are class numbers.
    problems
        Whose weights [run, problem * column] are released: one for two classes, else one a class.
    kind, huber_width
        The loss, "logistic" or "huber-svm".
    """
    apart = difference(D, D_prime)
    if apart is None or apart.lost is None or apart.gained is None:
        checks.fail("D_prime", "[another size]", "to have one record replaced")
    X = np.stack([D.X[apart.lost], D_prime.X[apart.gained]]).astype(np.float64)
    codes = np.array([D.y[apart.lost], D_prime.y[apart.gained]])
    asked = [1] if problems == 1 else range(problems)
    risks = [Risk(X=X, y=codes == each, kind=kind, huber_width=huber_width) for each in asked]

    def score(released: Floats) -> Floats:
        weights = released.reshape(len(released), problems, -1)
        total = np.zeros(len(released))
        for problem, risk in enumerate(risks):
            first, second = risk.losses(X @ weights[:, problem].T)
            total += first - second
        return total

    score.__name__ = LOSSES
    return score
