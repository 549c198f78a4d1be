"""`release`: train once, add the noise, write the bundle, and say what it costs.

One assessment releases one model. A bundle that is there already is the release: a second model of
the same records would be a second release, and cost as much privacy again.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sordino.assessment import history
from sordino.assessment.directory import MARK
from sordino.assessment.plan import AssessmentPlan
from sordino.assessment.stages.accuracy import linear_accuracy, network_accuracy, with_released
from sordino.errors import Refused
from sordino.estimators import load
from sordino.estimators.classifiers import PrivateLinearClassifier
from sordino.estimators.fit import PlannedFit
from sordino.release.noise import SeededNoise
from sordino.report.result import Release
from sordino.study.files import Disk, explained
from sordino.types import Progress


class AnotherRelease(Refused):
    """A bundle in the place of this assessment's that is another one, or none where one was."""


def release(
    plan: AssessmentPlan,
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
    plan
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
        If there is a bundle that is not of this assessment, or is damaged.
    """
    if plan.network is not None:
        return _score_network(plan, work, progress)
    fitting = plan.fitting
    assert fitting is not None
    fit = fitting.plan
    settings = {**fit.settings.given, "l2": fit.l2}
    if fit.spec is not None:  # batches are made equal
        settings["batch_size"] = fit.spec.batch_size
    noises = {fit.noise_inside: fit.sigma} if fit.noise_inside else {}
    if fit.scale > 0:
        noises["on every weight"] = fit.scale
    words = [f"standard deviation {sigma:.4g} {where}" for where, sigma in noises.items()]
    planned = Release(
        method=fit.method,
        settings=settings,  # type: ignore[arg-type]
        noise=" and ".join(words) or "none",
        source="",
        accuracy=linear_accuracy(plan, work, progress),
        why_not="it was not released yet",
    )
    rehearse(planned)
    released = _release(plan, fitting, bundle, work / MARK)
    return replace(
        planned,
        method=released.method_,
        source=released.certificate_.noise,
        accuracy=with_released(planned.accuracy, plan, released),
        directory=bundle.name,
        certificate=released.certificate_.to_json(),
        why_not="",
    )


def _release(
    plan: AssessmentPlan, fitting: PlannedFit, bundle: Path, mark: Path
) -> PrivateLinearClassifier:
    """The model that left: the one in its place, or a new one that is put there.

    `mark` is made right after it: where it is and the model is not, somebody took that away.
    """
    assert plan.estimator is not None
    marked = mark.exists()
    if bundle.is_dir() and any(bundle.iterdir()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # notes of `verify`, for who gets a bundle from others
            released = load(bundle)
        certificate, planned = released.certificate_, fitting.plan.evidence
        recorded = certificate.evidence
        if planned is not None and recorded is not None and recorded.persons_counted is None:
            planned = replace(planned, persons_counted=None)  # an earlier version did not say
        if (certificate.method, recorded) != (fitting.plan.method, planned):
            raise AnotherRelease(f"{bundle} was made otherwise than asked. Pass another --out.")
    elif marked:
        gone = f"the released model (SHA-256 {mark.read_text()[:16]}...)"
        raise AnotherRelease(
            f"Expected {bundle} to hold {gone}. Put it back: another would be a second release."
        )
    else:
        released = copy.copy(plan.estimator)
        released._ledger_entry = None
        released._save_planned(
            *(fitting, bundle),
            preprocessing=plan.prepared.reads_private_data if plan.prepared.declared else None,
            columns=plan.prepared.description or None,
            tuning="none declared",
        )
    with explained(mark.parent, "written"):
        Disk(mark.parent).put(mark.name, released.certificate_.model.sha256.encode())
    if not marked:  # also where it was stopped right after the bundle got its name
        history.add(plan.source)
    return released


def _score_network(plan: AssessmentPlan, work: Path, progress: Progress) -> Release:
    assert plan.network is not None
    spec = plan.network.spec
    assert spec.max_grad_norm is not None
    sigma = spec.noise_multiplier * spec.max_grad_norm
    return Release(
        method="dp-sgd",
        settings={
            "hidden": spec.objective.hidden,
            "steps": spec.total_steps(plan.D.rows),
            "batch_size": spec.batch_size,
            "learning_rate": spec.schedule.rate,
            "max_grad_norm": spec.max_grad_norm,
            "noise_multiplier": spec.noise_multiplier,
            "l2": spec.objective.l2,
        },
        noise=f"standard deviation {sigma:.4g} on every sum of clipped gradients",
        source=SeededNoise.name,
        accuracy=network_accuracy(plan, work, progress),
        why_not="networks have no private estimator",
    )
