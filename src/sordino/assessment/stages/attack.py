"""The attack: the release, SGD without added noise, or a user's mechanism, run thousands of times.

What is observed is a lower bound with stated confidence, whatever was proved or estimated.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from sordino import _cost, checks
from sordino.assessment.plan import AssessmentPlan
from sordino.assessment.request import GALLERY, Request
from sordino.assessment.stages.measure import cost_of_fit
from sordino.audit import game, target
from sordino.audit.bounds import error_rates
from sordino.audit.game import audit
from sordino.audit.pairs import Claim
from sordino.audit.runners import fits
from sordino.audit.runners.minimised import MinimisedFit
from sordino.audit.runners.outputs import identity, outputs
from sordino.audit.runners.trained import TrainedRelease
from sordino.audit.scores import LOSSES, Score, learned, record_losses
from sordino.audit.target import Target
from sordino.data.dataset import Dataset
from sordino.estimators.fit import FitPlan, PlannedFit
from sordino.randomness import stream
from sordino.report.canvas import thinned
from sordino.report.result import Attack, curve
from sordino.types import Progress

LEAST_RUNS = 200
"""On each dataset, however long they take: of fewer, half could show next to nothing."""
_CORES, _SEED = 2, 0
_PLAIN_SHARE = 1 / 3
"""Of the time for the release, what SGD without noise may take."""
_LEARNED_RUNS = 5
"""Runs for each released number, below which no attack on a linear model is learned."""
_MUCH, _SOME = 1.2, 0.1
"""What is learned is taken where it shows so much more than the losses do; less may be chance."""
_ROC_POINTS = 300
_ALPHAS = np.unique(np.concatenate([np.geomspace(1e-6, 1, 45), np.linspace(0, 1, 36)]))

_FITS_BETTER = "how much better the model fits one record than the other"
_SCORES = {
    "the loss of the record that differs": _FITS_BETTER,
    f"the score {LOSSES}": f"{_FITS_BETTER}, over all models",
}


# How many runs --------------------------------------------------------------------------


def runs_within(seconds: float, each: float, most: int) -> int:
    """So many runs a dataset, a round number, within the seconds and the most that is wanted."""
    rounded = int(_CORES * seconds / each) // 100 * 100
    return max(LEAST_RUNS, min(most, rounded))


def audit_runs(plan: AssessmentPlan, *, plain: bool = False) -> int:
    """Runs of the attack on the release, or on plain SGD, on each dataset: as asked, or affordable.

    `plain` is for SGD without added noise.
    """
    request, limits = plan.request, plan.request.limits
    if request.audit_runs is not None:
        return request.audit_runs
    share = _PLAIN_SHARE if plain else 1.0
    return runs_within(share * limits.attacking, _seconds(plan, plain=plain), limits.audit_runs)


def _seconds(plan: AssessmentPlan, *, plain: bool) -> float:
    """Core seconds of a run on both datasets."""
    spec = plan.plain if plain else None if plan.network is None else plan.network.spec
    if spec is not None:
        return 2 * spec.core_seconds(plan.D.rows, plan.D.features)
    assert plan.fitting is not None
    return 2 * cost_of_fit(plan.fitting.plan)


def repeatable(fit: FitPlan) -> bool:
    """Whether runs of the release can be made again: all but those of single fits have seeds."""
    return fit.spec is not None or MinimisedFit.can_do(fit)


def check(plan: AssessmentPlan) -> None:
    """Refuse, before anything is written, what an attack would refuse later.

    Raises
    ------
    InvalidArgument
        For runs that are too few for the confidence, or do not fit in memory.
    """
    request = plan.request
    released = plan.fitting.start.size if plan.fitting is not None else 0
    if plan.network is not None:
        released = plan.parameters(plan.network.spec)
    how = {"delta": plan.delta, "confidence": request.confidence}
    game.check(audit_runs(plan, plain=True), plan.parameters(plan.plain), **how)
    if request.audit_runs is not None:
        each = _seconds(plan, plain=False) + _seconds(plan, plain=True)
        seconds = _cost.total(each, request.audit_runs)
        _cost.check_time("audit_runs", request.audit_runs, seconds, "Lower audit_runs.")
    game.check(audit_runs(plan), released, **how)


# The release, and SGD without added noise ------------------------------------------------


def attack_release(
    plan: AssessmentPlan, directory: Path, progress: Progress, client: Any = None
) -> Attack:
    """Attack what is released, on two datasets that differ in one crafted record.

    With more than two classes, the weights of all models together, on a pair that moves them all.

    Parameters
    ----------
    plan
        What is assessed.
    directory
        INTERNAL: keeps outputs of finished runs, so that a stopped attack can be resumed.
    progress
        Called with (runs done, runs in all).
    client
        A Dask `Client` whose workers run it.
    """
    how: dict[str, Any] = {"confidence": plan.request.confidence, "progress": progress}
    how |= {"client": client, "runs": audit_runs(plan), "file": directory / "release.outputs"}
    D, D_prime = plan.release_pair
    models = "a linear model"
    release: Any
    if plan.network is not None:
        release = TrainedRelease(plan.network.spec)
        how["claim"] = Claim.of(plan.network.guarantee, plan.network.proof.profile)
    else:
        fitting = plan.fitting
        assert fitting is not None
        release = fits.mechanism_of(fitting)
        promised = fitting.proof is not None and not fitting.why_none
        how |= {"claim": fits.claim_of(fitting)} if promised else {"delta": plan.delta}
        if identity(release, D, D_prime) is None:
            how["file"] = None
        how["score"] = _score(release, fitting, plan, how)
        models = "the model" if plan.problems == 1 else f"the {plan.problems} models, one a class,"
    words = _pair_words(D, models)
    if plan.problems > 1:
        words += f" The weights of all {plan.problems} models are attacked together."
    if (many := plan.request.max_rows_per_person) > 1:
        words += f" The claim is for {many} records of one person; only one differs here."
    return _attack("release", words, release, D, D_prime, **how)


def _score(
    release: fits.FitMechanism, fitting: PlannedFit, plan: AssessmentPlan, how: dict[str, Any]
) -> Score | str:
    """The losses of the record, or what the first half of the runs learns if that shows more.

    The second half tests it.
    """
    (D, D_prime), task, runs = plan.release_pair, fitting.plan.task, how["runs"]
    losses = record_losses(D, D_prime, task.problems, task.kind, task.huber_width)
    if runs < _LEARNED_RUNS * task.problems * D.features or how["file"] is None:
        return losses
    stored = {name: how[name] for name in ("file", "progress", "client")}
    made = outputs(release, D, D_prime, runs, seed=_SEED, **stored)
    return better_score(losses, made, plan.delta, how["confidence"])


def better_score(losses: Score, made: Any, delta: float, confidence: float) -> Score | str:
    """`losses`, or "learned" if the first half of the outputs [dataset, run, value] shows more."""
    learning, tested = game.halves(len(made[0]))
    first, second = (outputs[learning] for outputs in made)
    worth = game.Statement(delta, confidence, tested.stop - tested.start).worth
    fitted = learned(first, second, worth, stream("audit folds", _SEED))
    known = worth(np.asarray(losses(first)), np.asarray(losses(second)))
    better = worth(fitted.negative, fitted.positive) > _MUCH * known + _SOME
    return "learned" if better else losses


def attack_plain(
    plan: AssessmentPlan, directory: Path, progress: Progress, client: Any = None
) -> Attack:
    """Attack ordinary SGD on the same pair: nothing is added, and nothing claimed."""
    words = _pair_words(plan.D, "the model")
    if plan.problems > 1:
        words += " One model is attacked: class 0 against the rest."
    return _attack(
        *("un-noised SGD", words, TrainedRelease(plan.plain), *plan.pair),
        delta=plan.delta,
        runs=audit_runs(plan, plain=True),
        confidence=plan.request.confidence,
        file=directory / "plain.outputs",
        progress=progress,
        client=client,
    )


def _pair_words(D: Dataset, models: str) -> str:
    crafted = "one crafted: at the norm bound, where the others say least, a little on the wrong"
    return f"{D.rows:,} records, {crafted} side of {models}, or of the other side."


# A mechanism of the user's own ----------------------------------------------------------


def mechanism_target(
    request: Request, mechanism: Any = None, pair: tuple[Any, Any] | None = None
) -> Target:
    """A mechanism and two datasets to attack it on, from what was asked.

    Runs that the attack would refuse later are refused here, before anything is written.

    Parameters
    ----------
    request
        Names it (`request.mechanism`), its claim and, without a pair, the data.
    mechanism
        The function or estimator itself; None for one of the gallery ("gallery:NAME").
    pair
        Two datasets as it takes them; None crafts two (X, y) from the data.
    """
    name = request.mechanism or ""
    if mechanism is not None:
        made = target.of_function(
            *(name, mechanism, pair),
            epsilon=request.epsilon,
            delta=request.delta_and_reason(None)[0],
            source=None if pair is not None else request.source(),
        )
    elif name.startswith(GALLERY):
        made = target.of_gallery(name.removeprefix(GALLERY), few=request.effort == "quick")
    else:
        checks.fail("mechanism", name, "to be a function or gallery:NAME")
    runs, confidence = _mechanism_runs(request, made), request.confidence
    game.check(runs, 1, delta=made.delta, confidence=confidence)
    return made


def _mechanism_runs(request: Request, target: Target) -> int:
    """On each dataset: as asked, as the mechanism's recipe says, or what the effort affords."""
    return request.audit_runs or target.runs or request.limits.audit_runs


def attack_mechanism(
    request: Request, target: Target, directory: Path, progress: Progress, client: Any = None
) -> Attack:
    """Attack it; `directory` keeps outputs, if what made them can be identified."""
    return _attack(
        *("mechanism", target.pair, target.mechanism, target.D, target.D_prime),
        claim=target.claim,
        score=target.score,
        runs=_mechanism_runs(request, target),
        confidence=request.confidence,
        file=None if target.identity is None else directory / "mechanism.outputs",
        progress=progress,
        client=client,
    )


# The outcome ----------------------------------------------------------------------------


def _attack(
    of: str, pair: str, mechanism: Any, D: Any, D_prime: Any, *, runs: int, **how: Any
) -> Attack:
    found = audit(mechanism, D, D_prime, runs, seed=_SEED, **how)
    names = {each.name for each in fields(Attack)}
    same = {name: getattr(found, name) for name in names if hasattr(found, name)}
    same |= {"score": _SCORES.get(found.score, found.score), "claimed": None}
    if (claim := found.claimed) is not None:
        same["claimed"] = claim.epsilon
        if np.isfinite(claim.epsilon):  # least false-negative rates that it allows
            betas = [float(claim.allowed.beta(float(alpha))) for alpha in _ALPHAS]
            same["claimed_curve"] = curve(_ALPHAS, betas)
    # Errors as counted, at some hundred thresholds, dense at both ends.
    alpha, beta = error_rates(found.negative, found.positive)
    last, ends = len(alpha) - 1, thinned(len(alpha), _ROC_POINTS // 4)
    middle = np.linspace(0, last, _ROC_POINTS // 2 - 2).astype(np.intp)
    kept = np.unique(np.concatenate([ends, last - ends, middle]))
    roc = curve(alpha[kept], beta[kept])
    return Attack(of=of, pair=pair, runs=runs, tested=len(found.negative), roc=roc, **same)
