"""The attack: the release itself, and SGD without added noise, run thousands of times.

What is observed is a lower bound with stated confidence, whatever was proved or estimated.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import _cost
from sordino.assessment.effort import EFFORTS
from sordino.assessment.stages.measure import cost_of_fit, parameters
from sordino.audit import game, neighbour, own
from sordino.audit.game import Audit, audit
from sordino.audit.laws import LOSSES, record_losses
from sordino.audit.minimised import MinimisedFit
from sordino.audit.scores import Score, learned
from sordino.audit.worlds import TrainedRelease, identity, outputs
from sordino.data.dataset import Dataset
from sordino.estimators.task import FitPlan
from sordino.randomness import stream
from sordino.report.canvas import thinned
from sordino.report.drawing.roc import errors
from sordino.report.stages import Attack, Curve
from sordino.sgd import cost
from sordino.types import Progress

if TYPE_CHECKING:
    from sordino.assessment.plan import AssessmentPlan
    from sordino.audit.claim import Claim
    from sordino.estimators.job import Job


LEAST_RUNS = 200
"""In each world, however long they take: of fewer, half could show next to nothing."""

_CORES = 2


def runs_within(seconds: float, each: float, most: int) -> int:
    """So many runs a world, a round number, within the seconds and the most that is wanted."""
    affordable = int(_CORES * seconds / each)
    rounded = affordable // 100 * 100
    return max(LEAST_RUNS, min(most, rounded))


RELEASE, PLAIN, MECHANISM = "release", "un-noised SGD", "mechanism"
"""What `Attack.of` says."""
SEED = 0
PLAIN_SHARE = 1 / 3
"""Of the time for the release, what SGD without noise may take."""
LEARNED_RUNS = 5
"""Runs for each released number, below which no attack on a linear model is learned."""
MUCH, SOME = 1.2, 0.1
"""What is learned is taken where it shows so much more than the losses do; less may be chance."""
_ROC_POINTS = 300
_ALPHAS = np.unique(np.concatenate([np.geomspace(1e-6, 1, 45), np.linspace(0, 1, 36)]))

_SCORES = {
    "a learned direction": "how far the released numbers lie along one direction, which the first "
    "half of the runs learned (a linear discriminant)",
    "a learned direction of outputs and their squares": "how far the released numbers and their "
    "squares lie along one direction, which the first half of the runs learned",
    "the likelihood ratio": "the likelihood ratio of the released numbers: the best test there is",
    "the loss of the record that differs": "how much better the model fits the one record than "
    "the other",
    f"the score {LOSSES}": "how much better the released model fits the one crafted record than "
    "the other: the difference of their losses (added up over all models, one a class, where there "
    "are more than two)",
}


# How many runs --------------------------------------------------------------------------


def audit_runs(subject: AssessmentPlan) -> int:
    """Runs of the attack on the release, in each world: as asked, or what the effort affords."""
    return _runs(subject, _of_release(subject), 1.0)


def repeatable(plan: FitPlan) -> bool:
    """Whether runs of the release can be made again: all but those of single fits have seeds."""
    return plan.spec is not None or MinimisedFit.can_do(plan)


def plain_runs(subject: AssessmentPlan) -> int:
    """The same of the attack on SGD without added noise."""
    return _runs(subject, _of_plain(subject), PLAIN_SHARE)


def _of_release(subject: AssessmentPlan) -> float:
    """Core seconds of a release in both worlds."""
    if subject.network is not None:
        return 2 * cost.of_run(subject.network.spec, subject.D.rows, subject.D.features)
    assert subject.job is not None
    return 2 * cost_of_fit(subject.job.plan)


def _of_plain(subject: AssessmentPlan) -> float:
    return 2 * cost.of_run(subject.plain, subject.D.rows, subject.D.features)


def _runs(subject: AssessmentPlan, each: float, share: float) -> int:
    request = subject.request
    if request.audit_runs is not None:
        return request.audit_runs
    seconds = share * EFFORTS[request.effort].attacking
    return runs_within(seconds, each, request.most_audit_runs)


def check(subject: AssessmentPlan) -> None:
    """Refuse, before anything is written, what an attack would refuse later.

    Raises
    ------
    InvalidArgument
        For runs that are too few for the confidence, or do not fit in memory.
    """
    how = {"delta": subject.delta, "confidence": subject.request.confidence}
    numbers = parameters(subject.plain, subject.D)
    game.check(plain_runs(subject), numbers, **how)
    if (asked := subject.request.audit_runs) is not None:
        seconds = _cost.total(_of_release(subject) + _of_plain(subject), asked)
        _cost.check_time("audit_runs", asked, seconds, "Lower audit_runs.")
    if subject.network is not None:
        numbers = parameters(subject.network.spec, subject.D)
    elif subject.job is not None:
        numbers = subject.job.start.size
    game.check(audit_runs(subject), numbers, **how)


# Three attacks --------------------------------------------------------------------------


def attack_release(subject: AssessmentPlan, directory: Path, progress: Progress) -> Attack:
    """Attack what is released, on two datasets that differ in one crafted record.

    Parameters
    ----------
    subject
        What is assessed.
    directory
        INTERNAL: keeps outputs of finished runs, so that a stopped attack goes on.
    progress
        Told (runs done, runs in all).
    """
    how: dict[str, Any] = {"confidence": subject.request.confidence, "progress": progress}
    how |= {"runs": audit_runs(subject), "file": directory / "release.outputs"}
    if subject.network is not None:
        words = _words(subject.D, "a linear model") + _group_words(subject)
        release = TrainedRelease(subject.network.spec)
        return _attacked(RELEASE, words, release, *subject.pair, claim=subject.network.claim, **how)
    assert subject.job is not None
    return _attack_linear(subject, subject.job, how)


def _attack_linear(subject: AssessmentPlan, job: Job, how: dict[str, Any]) -> Attack:
    """By the losses of the record, or by what the first half of the runs learned, if it is better.

    With more than two classes, the weights of all models together, on a pair that moves them all.
    """
    problems, task = job.records.problems, job.plan.task
    D, D_prime = subject.pair if problems == 1 else neighbour.canary(own.class_dataset(job))
    assert isinstance(D_prime, Dataset)
    promised = job.proof is not None and not job.why_none
    how |= {"claim": own.claim_of(job)} if promised else {"delta": subject.delta}
    release = own.mechanism_of(job)
    if identity(release, D, D_prime) is None:
        how["file"] = None
    losses = record_losses(D, D_prime, problems, task.kind, task.huber_width)
    how["score"] = losses
    if how["runs"] >= LEARNED_RUNS * problems * D.features and how["file"] is not None:
        how["score"] = _better(release, D, D_prime, losses, subject.delta, how)
    words = _words(D, "the model" if problems == 1 else f"the {problems} models, one a class,")
    if problems > 1:
        words += f" The weights of all {problems} models are attacked together."
    return _attacked(RELEASE, words + _group_words(subject), release, D, D_prime, **how)


def _better(
    release: own.Own, D: Dataset, D_prime: Dataset, losses: Score, delta: float, how: dict[str, Any]
) -> Score | str:
    """The score by which the first half of the runs shows more; the second half tests it."""
    runs, kept = how["runs"], {"file": how["file"], "progress": how["progress"]}
    learning, tested = game.halves(runs)
    made = outputs(release, D, D_prime, runs, seed=SEED, **kept)
    first, second = (world[learning] for world in made)
    worth = game.Statement(delta, how["confidence"], tested.stop - tested.start).worth
    fitted = learned(first, second, worth, stream("audit folds", SEED))
    known = worth(np.asarray(losses(first)), np.asarray(losses(second)))
    better = worth(fitted.negative, fitted.positive) > MUCH * known + SOME
    return "learned" if better else losses


def attack_plain(subject: AssessmentPlan, directory: Path, progress: Progress) -> Attack:
    """Attack ordinary SGD on the same pair: nothing is added, and nothing claimed."""
    words = _words(subject.D, "the model")
    if subject.job is not None and subject.job.plan.task.problems > 1:
        words += f" One model is attacked: class {subject.problem} against the rest."
    return _attacked(
        *(PLAIN, words, TrainedRelease(subject.plain), *subject.pair),
        delta=subject.delta,
        runs=plain_runs(subject),
        confidence=subject.request.confidence,
        file=directory / "plain.outputs",
        progress=progress,
    )


def attack_mechanism(
    mechanism: Any,
    D: Any,
    D_prime: Any,
    *,
    claim: Claim | None,
    delta: float | None = None,
    score: Any = "learned",
    confidence: float = 0.99,
    runs: int,
    pair: str,
    directory: Path,
    progress: Progress,
) -> Attack:
    """Attack somebody's mechanism.

    Parameters
    ----------
    mechanism, D, D_prime, claim, delta, score, confidence, runs
        As in `sordino.audit.audit`.
    pair
        The two datasets, in words.
    directory
        INTERNAL: keeps outputs of finished runs, if what made them can be written down.
    progress
        Told (runs done, runs in all).
    """
    kept = identity(mechanism, D, D_prime) is not None
    return _attacked(
        *(MECHANISM, pair, mechanism, D, D_prime),
        claim=claim,
        delta=delta if claim is None else None,
        score=score,
        runs=runs,
        confidence=confidence,
        file=directory / "mechanism.outputs" if kept else None,
        progress=progress,
    )


# As plain values ------------------------------------------------------------------------


def _attacked(
    of: str, pair: str, mechanism: Any, D: Any, D_prime: Any, *, runs: int, **how: Any
) -> Attack:
    found = audit(mechanism, D, D_prime, runs, seed=SEED, **how)
    return Attack(
        of=of,
        pair=pair,
        score=_SCORES.get(found.score, found.score),
        runs=runs,
        tested=len(found.negative),
        claimed=None if found.claimed is None else found.claimed.epsilon,
        observed=found.observed,
        others=found.others,
        violated=found.violated,
        curve_refuted=found.curve_refuted,
        reach=found.reach,
        gaussian_reach=found.gaussian_reach,
        verdict=found.verdict,
        roc=_roc(found),
        tested_point=found.tested_point,
        claimed_curve=None if found.claimed is None else _claimed_curve(found.claimed),
    )


def _roc(found: Audit) -> Curve:
    """Errors as counted, at some hundred thresholds, dense at both ends."""
    alpha, beta = errors(found.negative, found.positive)
    last = len(alpha) - 1
    ends = thinned(len(alpha), _ROC_POINTS // 4)
    middle = np.linspace(0, last, _ROC_POINTS // 2 - 2).astype(np.intp)
    kept = np.unique(np.concatenate([ends, last - ends, middle]))
    return Curve(tuple(alpha[kept].tolist()), tuple(beta[kept].tolist()))


def _claimed_curve(claim: Claim) -> Curve | None:
    """Least false-negative rates that the claim allows; of two numbers, those that they imply."""
    if not np.isfinite(claim.epsilon):
        return None
    betas = (float(claim.allowed.beta(float(alpha))) for alpha in _ALPHAS)
    return Curve(tuple(_ALPHAS.tolist()), tuple(betas))


def _words(D: Dataset, models: str) -> str:
    return (
        f"{D.rows:,} records as they are trained on, of which one differs. It is crafted to be "
        "remembered: as long as the norm bound allows, in the direction of which the others say "
        f"least, and a little on the wrong side of {models} that they make; in the second dataset "
        "it points the other way."
    )


def _group_words(subject: AssessmentPlan) -> str:
    many = subject.request.max_rows_per_person
    if many == 1:
        return ""
    return (
        f" The claim is for {many} records of one person together, and only one differs here: what "
        "is observed is a lower bound all the same, and a weaker one."
    )
