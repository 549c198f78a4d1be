"""Our own estimators as mechanisms: everything public is settled once, then thousands of runs.

What runs is the training and the noise of a fit, by the same code (`Method.train`, the engine);
certificate and ledger are left out. Where the training is a `TrainSpec`, the engine makes all runs
at once, with seeded noise instead of the system's; and so are objectives with a random term
minimised, many at once.
"""

from __future__ import annotations

import copy
import dataclasses
import warnings
from typing import Any, NamedTuple

import numpy as np

from sordino import checks
from sordino.audit.pairs import Claim, worst_case_pair
from sordino.audit.runners.functions import check_estimator
from sordino.audit.runners.minimised import MinimisedFit, PreparedFit, SingleFit
from sordino.audit.runners.trained import TrainedProblems, TrainedRelease
from sordino.data.dataset import Dataset
from sordino.data.neighbours import SILENT, Neighbours
from sordino.errors import NotApplicable, PrivacyLeakWarning
from sordino.estimators import methods
from sordino.estimators.classifiers import PrivateLinearClassifier
from sordino.estimators.fit import PlannedFit
from sordino.proofs.steps import rates_of

FitMechanism = TrainedRelease | TrainedProblems | SingleFit
"""A fit as a mechanism; a `MinimisedFit` or a `PreparedFit` is a `SingleFit`, too."""


class _PreparedPair(NamedTuple):
    """A mechanism, the records of two neighbouring datasets as it trains on them, and its claim."""

    mechanism: FitMechanism
    D: Dataset
    D_prime: Dataset
    claim: Claim


def lay_out(D: Dataset, overlay: Neighbours) -> tuple[Dataset, Dataset]:
    """The two datasets that an overlay stands for, for a `SingleFit`.

    A silent record is a row of zeros. Here the intercept is a column like any other, so such a row
    has no gradient anywhere, and no part in any difference of losses.
    """
    overlay.check_of(D)
    if len(overlay) != 1:
        checks.fail("D_prime", f"[{len(overlay)} neighbours]", "to be one", "Use take(...).")
    more = () if overlay.extra_X is None else (overlay.extra_X,)
    labels = () if overlay.extra_y is None else (overlay.extra_y,)
    X = np.vstack([D.X, *more, np.zeros((1, D.features), D.X.dtype)])
    y = np.concatenate([D.y, *labels, D.y[:1]])
    rows = overlay.members.copy(), overlay.members.copy()
    occupant = int(overlay.occupant[0])
    rows[1][overlay.slot[0]] = len(X) - 1 if occupant == SILENT else occupant
    kept = [each[each >= 0] for each in rows]
    first, second = (Dataset(X[each], y[each], D.norm_bound, D.name) for each in kept)
    return first, second


def mechanism(
    estimator: PrivateLinearClassifier, X: Any, y: Any
) -> tuple[FitMechanism, Dataset, Claim]:
    """What `estimator.fit(X, y)` would run, the records it trains on, and what it would promise.

    The rows are as they are trained on: the intercept's column last, scaled into the norm; labels
    are class numbers, from 0 on. Neighbours may be crafted from it: theorems are about all
    such rows. Of more than two classes, the output are the weights of all problems in one row.

    Raises
    ------
    InvalidArgument
        For a fixed random_state.
    NotApplicable
        If the fit would promise nothing.
    """
    fitting = _plan_fitting(estimator, X, y)
    return mechanism_of(fitting), class_dataset(fitting), claim_of(fitting)


def mechanism_of(fitting: PlannedFit) -> FitMechanism:
    """What a fit with everything public settled would run, whatever it promises."""
    plan = dataclasses.replace(fitting.plan, proof=None, evidence=None)  # not needed to run
    if plan.task.prepared is not None:
        assert fitting.coordinates is not None
        intercept = plan.task.columns > plan.task.prepared.features
        return PreparedFit(plan, fitting.start, fitting.coordinates, intercept)
    if plan.spec is None:
        return (MinimisedFit if MinimisedFit.can_do(plan) else SingleFit)(plan, fitting.start)
    if len(fitting.start) > 1:
        return TrainedProblems(plan.spec, fitting.start, plan.scale)
    return TrainedRelease(plan.spec, plan.scale, fitting.start[0])


def held_back(mechanism: FitMechanism, rows: int) -> float:
    """The regulariser that its models are about as far as the minimum of: what `pairs` take.

    A record moves a descent all along its way, on which it is not yet so far: it is as if held back
    by 4 / (sum of its rates), if not by l2. Of DP-AGD, whose steps are as long as what noise has
    left of the gradient is worth, by that noise.
    """
    if not isinstance(mechanism, SingleFit):
        spec = mechanism.spec
        rates = np.broadcast_to(rates_of(spec, rows), spec.total_steps(rows))
        return max(spec.objective.l2, 4 / float(rates.sum()))
    plan = mechanism.plan
    drowned = plan.task.norm * plan.sigma / rows if methods.METHODS[plan.method].starts else 0.0
    return max(plan.l2, drowned)


def claim_of(fitting: PlannedFit) -> Claim:
    """What it would promise.

    Raises
    ------
    NotApplicable
        If that is nothing.
    """
    if fitting.proof is None or fitting.why_none:
        raise NotApplicable(f"This fit would promise nothing: {fitting.why_none}.")
    return Claim.of(fitting.proof.guarantee(fitting.plan.task.delta), fitting.proof.profile)


def prepare(
    estimator: PrivateLinearClassifier, first: tuple[Any, Any], second: tuple[Any, Any]
) -> _PreparedPair:
    """The same for two neighbouring datasets (X, y), which must not change what is public.

    Raises
    ------
    InvalidArgument
        If the settings of the fit follow from the records: no claim would hold.
    """
    fitting, other = _plan_fitting(estimator, *first), _plan_fitting(estimator, *second)
    if _public(fitting) != _public(other):
        hint = "Pass data_norm, classes and public_rows."
        checks.fail("settings", "[different for D and D_prime]", "to be public", hint)
    return _PreparedPair(
        mechanism_of(fitting), class_dataset(fitting), class_dataset(other), claim_of(fitting)
    )


def worst_case(
    estimator: PrivateLinearClassifier, rows: int, columns: int = 2, norm: float = 1.0
) -> _PreparedPair:
    """The same on `pairs.worst_case_pair`: from far public weights, if the method takes any.

    For an estimator of a named method, of the classes 0 and 1, without an intercept.
    """
    estimator = copy.copy(estimator)
    pair = worst_case_pair(rows, columns, norm)
    if methods.METHODS[estimator.method].starts:
        estimator.initial_weights = pair.initial_weights
    else:
        l2 = held_back(mechanism(estimator, pair.D.X, pair.D.y)[0], rows)
        pair = worst_case_pair(rows, columns, norm, start=False, l2=l2)
    return prepare(estimator, (pair.D.X, pair.D.y), (pair.D_prime.X, pair.D_prime.y))


def _plan_fitting(estimator: PrivateLinearClassifier, X: Any, y: Any) -> PlannedFit:
    if not isinstance(estimator, PrivateLinearClassifier):
        checks.fail("estimator", type(estimator).__name__, "to be one of sordino's")
    check_estimator(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # of a fit that nobody releases
        return copy.copy(estimator)._prepare(X, y)


def class_dataset(fitting: PlannedFit) -> Dataset:
    """The records of a fit as they are trained on; labels are class numbers."""
    records = fitting.records
    return Dataset(records.X, records.codes, norm_bound=records.norm, name="fit")


def _public(fitting: PlannedFit) -> tuple[object, ...]:
    """Everything of a plan that a run depends on."""
    plan = fitting.plan
    settled = (plan.method, plan.task, plan.settings, plan.spec, plan.sigma, plan.scale, plan.l2)
    return (
        *settled,
        plan.before,
        fitting.start.tobytes(),
        [str(label) for label in fitting.classes],
    )
