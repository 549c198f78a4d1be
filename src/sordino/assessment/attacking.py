"""The attack: the release itself, and SGD without added noise, run thousands of times.

What is observed is a lower bound with stated confidence, whatever was proved or estimated.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino.accounting.profile import ApproximateProfile
from sordino.assessment import audit_cost
from sordino.audit import neighbour, own
from sordino.audit.bounds import clopper_pearson_upper
from sordino.audit.game import Audit, audit
from sordino.audit.one_vs_rest import record_losses
from sordino.audit.worlds import TrainedRelease, can_be_kept
from sordino.data.dataset import Dataset
from sordino.report.audit import errors
from sordino.report.canvas import thinned
from sordino.report.stages import Attack, Curve

if TYPE_CHECKING:
    from sordino.assessment.subject import Subject
    from sordino.audit.claim import Claim

Floats = npt.NDArray[np.float64]
Progress = Callable[[int, int], None]

RELEASE, PLAIN, MECHANISM = "release", "un-noised SGD", "mechanism"
"""What `Attack.of` says."""
SEED = 0
PLAIN_SHARE = 1 / 3
"""Of the time for the release, what SGD without noise may take."""
LEARNED_RUNS = 5
"""Runs for each released number, below which the attack on more than two classes is not learned but
known: the losses of the record that differs."""
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
}


# How many runs --------------------------------------------------------------------------


def audit_runs(subject: Subject) -> int:
    """Runs of the attack on the release, in each world: as asked, or what the effort affords."""
    if subject.network is not None:
        each = audit_cost.of_training(subject.network.spec, subject.D.rows, subject.D.features)
    else:
        assert subject.job is not None
        each = audit_cost.of_plan(subject.job.plan)
    return _runs(subject, each, 1.0)


def plain_runs(subject: Subject) -> int:
    """The same of the attack on SGD without added noise."""
    each = audit_cost.of_training(subject.plain, subject.D.rows, subject.D.features)
    return _runs(subject, each, PLAIN_SHARE)


def _runs(subject: Subject, each: float, share: float) -> int:
    brief = subject.brief
    if brief.audit_runs is not None:
        return brief.audit_runs
    seconds = share * audit_cost.SECONDS[brief.effort]
    return audit_cost.runs_within(seconds, each, brief.most_audit_runs)


# Three attacks --------------------------------------------------------------------------


def attack_release(subject: Subject, directory: Path, progress: Progress) -> Attack:
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
    how: dict[str, Any] = {"file": directory / "release.outputs", "progress": progress}
    how |= {"runs": audit_runs(subject), "confidence": subject.brief.confidence}
    if subject.network is not None:
        words = _words(subject.D, "the network that is trained on all records")
        words += _group_words(subject)
        release = TrainedRelease(subject.network.spec)
        return _attacked(RELEASE, words, release, *subject.pair, claim=subject.network.claim, **how)
    assert subject.job is not None
    job, mechanism = subject.job, own.mechanism_of(subject.job)
    promised = job.proof is not None and not job.why_none
    how |= {"claim": own.claim_of(job)} if promised else {"delta": subject.delta}
    if job.records.problems > 1:
        return _all_classes(subject, job, mechanism, how)
    words = _words(subject.D, "the model that the others make") + _group_words(subject)
    return _attacked(RELEASE, words, mechanism, *subject.pair, **how)


def _all_classes(subject: Subject, job: Job, mechanism: own.Own, how: dict[str, Any]) -> Attack:
    """The weights of one model a class, on a pair that moves all of them."""
    records, task = job.records, job.plan.task
    first, second = neighbour.canary(Dataset(records.X, records.codes, records.norm, "fit"))
    assert isinstance(second, Dataset)
    if how["runs"] < LEARNED_RUNS * records.problems * first.features:
        loss = task.kind, task.huber_width
        how = how | {"score": record_losses(first, second, records.problems, *loss)}
    words = _words(first, f"the {records.problems} models that the others make, one a class")
    words += f" The weights of all {records.problems} models are attacked together."
    words += _group_words(subject)
    return _attacked(RELEASE, words, mechanism, first, second, **how)


def attack_plain(subject: Subject, directory: Path, progress: Progress) -> Attack:
    """Attack ordinary SGD on the same pair: nothing is added, and nothing claimed."""
    words = _words(subject.D, "the model that the others make")
    if subject.job is not None and subject.job.plan.task.problems > 1:
        words += f" One model is attacked: class {subject.problem} against the rest."
    return _attacked(
        *(PLAIN, words, TrainedRelease(subject.plain), *subject.pair),
        delta=subject.delta,
        runs=plain_runs(subject),
        confidence=subject.brief.confidence,
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
    kept = can_be_kept(mechanism, D, D_prime)
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
        tested_point=_tested_point(found),
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


def _tested_point(found: Audit) -> tuple[float, float]:
    """The most that the errors at the tested threshold can be, with the audit's confidence."""
    level = (1 - found.observed.confidence) / 2
    accused = int((found.negative >= found.threshold).sum())
    missed = int((found.positive < found.threshold).sum())
    return (
        clopper_pearson_upper(accused, len(found.negative), level),
        clopper_pearson_upper(missed, len(found.positive), level),
    )


def _claimed_curve(claim: Claim) -> Curve | None:
    """Least false-negative rates that the claim allows; of two numbers, those that they imply."""
    if not np.isfinite(claim.epsilon):
        return None
    profile = claim.profile or ApproximateProfile(
        relation=claim.relation, theorem="as claimed", budget=(claim.epsilon, claim.delta)
    )
    betas = (float(profile.beta(float(alpha))) for alpha in _ALPHAS)
    return Curve(tuple(_ALPHAS.tolist()), tuple(betas))


def _words(D: Dataset, models: str) -> str:
    return (
        f"{D.rows:,} records as they are trained on, of which one differs. It is crafted to be "
        "remembered: as long as the norm bound allows, in the direction of which the others say "
        f"least, and a little on the wrong side of {models}; in the second dataset it points the "
        "other way."
    )


def _group_words(subject: Subject) -> str:
    many = subject.brief.max_rows_per_person
    if many == 1:
        return ""
    return (
        f" The claim is for {many} records of one person together, and only one differs here: what "
        "is observed is a lower bound all the same, and a weaker one."
    )
