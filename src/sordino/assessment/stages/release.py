"""`release`: train once, add the noise, write the bundle, and say what it costs.

One study releases one model. A bundle that is there already is the release, and is gone on with: a
second model of the same records would be a second release, and cost as much privacy again.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sordino.assessment import history
from sordino.assessment.directory import MARK
from sordino.errors import Refused
from sordino.estimators import load
from sordino.estimators.base import PrivateLinearClassifier
from sordino.estimators.task import FitPlan
from sordino.release.noise import SeededNoise
from sordino.report.stages import Plain, Release
from sordino.sgd.spec import TrainSpec
from sordino.study.disk import Disk
from sordino.study.refusal import explained
from sordino.types import Progress

if TYPE_CHECKING:
    from sordino.assessment.plan import AssessmentPlan


NO_NETWORKS = (
    "sordino has no private estimator for networks: nothing was written, and the runs scored here "
    "were made with repeatable noise, which protects nobody"
)


class AnotherRelease(Refused):
    """A bundle in the place of this study's that is another one, or none where one was."""


def release(
    subject: AssessmentPlan,
    work: Path,
    progress: Progress,
    *,
    bundle: Path,
    rehearse: Callable[[Release], object] = lambda planned: None,
) -> Release:
    """Release the model, or take the one that was released before, and score it.

    The model comes last: whatever else could fail has been done by then.

    Parameters
    ----------
    subject
        What is assessed.
    work
        Directory for accuracies found so far.
    progress
        Called with (done, total) repeats.
    bundle
        Directory of the model, new or as an earlier call left it.
    rehearse
        Called with all that is known before the release, to fail now if it cannot be shown.

    Raises
    ------
    BudgetExceeded
        If a `Ledger` is open and has too little left.
    AnotherRelease, CertificateError
        If there is a bundle that is not of this study, or is damaged.
    """
    if subject.network is not None:
        return _network(subject, work, progress)
    from sordino.assessment.stages.accuracy import linear_accuracy, scored

    job = subject.job
    assert job is not None
    planned = Release(
        method=job.plan.method,
        settings=_settings(job.plan),
        noise=noise_in_words(job.plan),
        source="",
        accuracy=linear_accuracy(subject, work, progress),
        why_not="it was not released yet",
    )
    rehearse(planned)
    released = _released(subject, bundle, work / MARK)
    return replace(
        planned,
        method=released.method_,
        source=released.certificate_.noise,
        accuracy=scored(planned.accuracy, subject, released),
        directory=bundle.name,
        certificate=released.certificate_.to_json(),
        why_not="",
    )


def _released(subject: AssessmentPlan, place: Path, mark: Path) -> PrivateLinearClassifier:
    """The model that left: the one in its place, or a new one that is put there.

    `mark` is made right after it: where it is and the model is not, somebody took that away.
    """
    if place.is_dir() and any(place.iterdir()):
        found = _before(subject, place)
        if not mark.exists():  # stopped right after it got its name
            history.note(subject.request.source())
        _marked(mark, found)
        return found
    if mark.exists():
        raise AnotherRelease(
            f"Expected {place} to hold the model that this study released (SHA-256 "
            f"{mark.read_text()[:16]}...). Put it back: a second one would be a second release."
        )
    assert subject.estimator is not None
    fitted = copy.copy(subject.estimator)
    fitted.fit_and_save(
        *(subject.X, subject.y, place),
        preprocessing=subject.prepared.reads_private_data,
        columns=subject.prepared.description,
        tuning="none declared",
    )
    _marked(mark, fitted)
    history.note(subject.request.source())
    return fitted


def _marked(mark: Path, released: PrivateLinearClassifier) -> None:
    with explained(mark.parent, "written"):
        Disk(mark.parent).put(mark.name, released.certificate_.model.sha256.encode())


def _before(subject: AssessmentPlan, place: Path) -> PrivateLinearClassifier:
    assert subject.job is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes of `verify`, for who gets a bundle from others
        found = load(place)
    papers, plan = found.certificate_, subject.job.plan
    if (papers.method, papers.evidence) != (plan.method, plan.evidence):
        raise AnotherRelease(
            f"Expected {place} to be this study's release, and it was made otherwise. "
            "Pass another --out."
        )
    return found


def _settings(plan: FitPlan) -> dict[str, Plain]:
    """Settings of the training, as the public rules completed them."""
    settings: dict[str, Plain] = {**plan.settings.given, "l2": plan.l2}  # type: ignore[dict-item]
    if plan.spec is not None:  # batches are made equal
        settings["batch_size"] = plan.spec.batch_size
    return settings


def noise_in_words(plan: FitPlan) -> str:
    """How much noise, and where."""
    parts = []
    if plan.noise_inside:
        parts.append(f"standard deviation {plan.sigma:.4g} {plan.noise_inside}")
    if plan.scale > 0:
        parts.append(f"standard deviation {plan.scale:.4g} on every weight")
    return " and ".join(parts) or "none"


def _network(subject: AssessmentPlan, work: Path, progress: Progress) -> Release:
    from sordino.assessment.stages.accuracy import network_accuracy

    assert subject.network is not None
    spec = subject.network.spec
    assert spec.max_grad_norm is not None
    sigma = spec.noise_multiplier * spec.max_grad_norm
    return Release(
        method="dp-sgd",
        settings=_network_settings(spec, subject.D.rows),
        noise=f"standard deviation {sigma:.4g} on every sum of clipped gradients",
        source=SeededNoise.name,
        accuracy=network_accuracy(subject, work, progress),
        why_not=NO_NETWORKS,
    )


def _network_settings(spec: TrainSpec, rows: int) -> dict[str, Plain]:
    return {
        "hidden": spec.objective.hidden,
        "steps": spec.total_steps(rows),
        "batch_size": spec.batch_size,
        "learning_rate": spec.schedule.rate,
        "max_grad_norm": spec.max_grad_norm,
        "noise_multiplier": spec.noise_multiplier,
        "l2": spec.objective.l2,
    }
