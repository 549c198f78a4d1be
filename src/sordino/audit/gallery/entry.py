"""`GalleryEntry`: one broken mechanism, its correct twin, and the pair that tells them apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sordino.audit.claim import Claim
from sordino.data.dataset import Dataset
from sordino.models.constants import Constants, ObjectiveSpec
from sordino.privacy import Relation
from sordino.proofs.output import OutputPerturbation, output_perturbation
from sordino.proofs.steps import run_of
from sordino.proofs.theorems import noise_for_steps
from sordino.sgd.spec import Schedule, TrainSpec


@dataclass(frozen=True)
class Case:
    """Everything one entry needs, made when it is played: a pair, two mechanisms, one claim.

    Parameters
    ----------
    D, D_prime
        Neighbours under the claim's relation.
    broken, correct
        Mechanisms as `sordino.audit.audit` takes them: the same code with one thing changed.
    claim
        What both say of themselves; it is true of `correct` only.
    score
        As `audit` takes it; a function where the attack needs to be cleverer than the learned one.
    correct_score
        The same for the twin, where another attack is its worst; None where `score` is.
    exact
        Instead of runs: the epsilons of `broken` and `correct` at the claim's delta, where both
        are known exactly. Then there is nothing to run, and pair and mechanisms are None.
    true_epsilon
        Of `broken` on this pair, by theory; NaN where theory gives no number. No audit may
        observe more, except at its stated failure rate.
    """

    D: Any
    D_prime: Any
    broken: Any
    correct: Any
    claim: Claim
    score: Any = "learned"
    exact: Callable[[], tuple[float, float]] | None = None
    true_epsilon: float = math.nan
    correct_score: Any = None

    @classmethod
    def analytic(cls, claim: Claim, exact: Callable[[], tuple[float, float]]) -> Case:
        """A case that is settled by a formula; the first number of `exact` is the true epsilon."""
        return cls(None, None, None, None, claim, exact=exact, true_epsilon=exact()[0])


@dataclass(frozen=True)
class GalleryEntry:
    """A fault that was shipped, or easily could be.

    Parameters
    ----------
    name
        As on the command line: "bolt-on-extra-batch".
    fault
        One sentence: what was changed.
    source
        Who shipped it, or where it is warned of.
    case
        Makes the case; cheap until called.
    runs
        Runs a world for the default command: enough to catch it at 99 %, within a minute on two
        cores.
    smoke_runs
        For CI, in seconds; enough to catch it, too.
    """

    name: str
    fault: str
    source: str
    case: Callable[[], Case]
    runs: int = 20_000
    smoke_runs: int = 5_000


COLUMNS = 2
"""Of the pair that most share: one for the record, one for nothing but noise, as models have."""


def antipodal(rows: int, slot: int = 0) -> tuple[Dataset, Dataset]:
    """Neighbours D and D' (one record replaced) that pull a linear model opposite ways.

    The record in `slot` is (1, 0) in D and (-1, 0) in D', with the same label; all others are
    empty, so that nothing pulls the two trainings together again. As long as the weights stay
    small, a Huber loss has slope 1 on both, and sensitivity theorems are met with equality.
    """
    X = np.zeros((rows, COLUMNS))
    y = np.ones(rows, dtype=np.int64)
    X[slot, 0] = 1.0
    D = Dataset(X, y, norm_bound=1.0, name="gallery")
    X[slot, 0] = -1.0
    return D, Dataset(X, y, norm_bound=1.0, name="gallery neighbour")


def huber(
    rate: float | Schedule, *, l2: float = 0.0, intercept: bool = False, **how: Any
) -> TrainSpec:
    """A training of a Huber SVM from weights that are given, in float64."""
    objective = ObjectiveSpec("huber-svm", l2=l2, intercept=intercept)
    return TrainSpec(objective, rate, init="given", dtype="float64", **how)


def constants_of(objective: ObjectiveSpec) -> Constants:
    """Of a linear loss, for rows of norm 1."""
    constants = objective.constants(1.0)
    assert constants is not None
    return constants


def proved(
    spec: TrainSpec, rows: int, *, features: int = COLUMNS, norm: float = 1.0
) -> OutputPerturbation:
    """What the library proves of noise on the final weights, for one record replaced."""
    constants = constants_of(spec.objective)
    return output_perturbation(
        spec, constants, rows, Relation.REPLACE_ONE, features=features, norm=norm
    )


def noise_needed(spec: TrainSpec, rows: int, relation: Relation, claim: Claim, **how: Any) -> float:
    """The least noise multiplier that keeps a claim, for this relation."""
    unit = replace(spec, noise_multiplier=1.0)
    run = run_of(unit, constants_of(spec.objective), rows, relation)
    return noise_for_steps(run, claim.epsilon, claim.delta, **how)
