"""`GalleryEntry`: one broken mechanism, its correct twin, and the pair that tells them apart.

`play` attacks both: the broken mechanism must be caught, its twin must pass.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sordino.audit.game import Audit, audit
from sordino.audit.pairs import Claim
from sordino.models.constants import Constants, ObjectiveSpec
from sordino.privacy import Relation
from sordino.proofs.steps import run_of
from sordino.proofs.theorems import noise_for_steps
from sordino.sgd.spec import Schedule, TrainSpec
from sordino.types import Progress

_ROUNDING = 1e-9  # noise and epsilon of a formula are rounded to the safe side, by far less


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
        Instead of runs: the epsilons of `broken` and `correct` at the claim's delta, where a
        formula settles the case. Then there is nothing to run, and pair and mechanisms are None.
    true_epsilon
        Of `broken` on this pair, by theory; NaN where theory gives no number. No audit may
        observe more, except at its stated failure rate.
    """

    D: Any = None
    D_prime: Any = None
    broken: Any = None
    correct: Any = None
    claim: Claim = field(kw_only=True)
    score: Any = "learned"
    exact: tuple[float, float] | None = None
    true_epsilon: float = math.nan
    correct_score: Any = None


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


def entry(
    fault: str, source: str, runs: tuple[int, int] = (20_000, 5_000)
) -> Callable[[Callable[[], Case]], GalleryEntry]:
    """Make an entry, named like the function of its case; `runs`, and those of a smoke test."""

    def make(case: Callable[[], Case]) -> GalleryEntry:
        return GalleryEntry(case.__name__.replace("_", "-"), fault, source, case, *runs)

    return make


@dataclass(frozen=True, eq=False)
class Played:
    """What came of an entry.

    Parameters
    ----------
    entry, case
        What was played.
    broken, correct
        Audits of the two mechanisms; None where the case is settled by a formula.
    broken_epsilon, correct_epsilon
        Observed lower bounds, or the exact values of the formula.
    seconds
        Both audits together.
    """

    entry: GalleryEntry
    case: Case
    broken: Audit | None
    correct: Audit | None
    broken_epsilon: float
    correct_epsilon: float
    seconds: float

    @property
    def caught(self) -> bool:
        """Whether the claim of the broken mechanism was refuted."""
        if self.broken is not None:
            return self.broken.violated
        return self.broken_epsilon > self.case.claim.epsilon * (1 + _ROUNDING)

    @property
    def passed(self) -> bool:
        """Whether the claim of the correct twin stood."""
        if self.correct is not None:
            return not self.correct.violated
        return self.correct_epsilon <= self.case.claim.epsilon * (1 + _ROUNDING)


def play(
    entry: GalleryEntry,
    *,
    runs: int | None = None,
    confidence: float = 0.99,
    twins: int = 12,
    seed: int = 0,
    smoke: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Played:
    """Audit both mechanisms of an entry.

    Parameters
    ----------
    entry
        One of `sordino.audit.gallery.ENTRIES`.
    runs
        A world; the entry's own number if not given.
    confidence
        With which the broken mechanism is to be caught.
    twins
        Over how many correct twins the level 1 - confidence is shared: each is audited at
        1 - (1 - confidence) / twins, so that all of them pass with probability `confidence`.
    seed, workers, progress
        As in `audit`; the progress of the twin follows that of the broken one, from 0 again.
    smoke
        Take the entry's `smoke_runs`, unless `runs` is given, and one worker, unless `workers` is:
        so few runs take less time than starting others.
    """
    started = time.perf_counter()
    case = entry.case()
    if case.exact is not None:
        return Played(entry, case, None, None, *case.exact, time.perf_counter() - started)
    if runs is None:
        runs = entry.smoke_runs if smoke else entry.runs
    if workers is None and smoke:
        workers = 1
    shared = 1 - (1 - confidence) / twins
    attack = partial(audit, claim=case.claim, seed=seed, workers=workers, progress=progress)
    broken, correct = (
        attack(mechanism, case.D, case.D_prime, runs, score=score, confidence=level)
        for mechanism, score, level in (
            (case.broken, case.score, confidence),
            (case.correct, case.correct_score or case.score, shared),
        )
    )
    epsilons = broken.observed.epsilon, correct.observed.epsilon
    return Played(entry, case, broken, correct, *epsilons, time.perf_counter() - started)


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


def noise_needed(spec: TrainSpec, rows: int, relation: Relation, claim: Claim, **how: Any) -> float:
    """The least noise multiplier that keeps a claim, for this relation."""
    unit = replace(spec, noise_multiplier=1.0)
    run = run_of(unit, constants_of(spec.objective), rows, relation)
    return noise_for_steps(run, claim.epsilon, claim.delta, **how)
