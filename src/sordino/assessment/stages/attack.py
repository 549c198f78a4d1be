"""The attack: the release, SGD without added noise, or a user's mechanism, run thousands of times.

What is observed is a lower bound with stated confidence, whatever was proved or estimated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sordino import _cost, checks
from sordino.assessment.plan import AssessmentPlan
from sordino.assessment.request import GALLERY, Request
from sordino.assessment.stages.measure import cost_of_fit
from sordino.audit import game, neighbour, own
from sordino.audit.bounds import error_rates
from sordino.audit.claim import Claim
from sordino.audit.game import Audit, audit
from sordino.audit.laws import LOSSES, record_losses
from sordino.audit.minimised import MinimisedFit
from sordino.audit.scores import Score, learned
from sordino.audit.worlds import TrainedRelease, identity, outputs
from sordino.data.dataset import Dataset
from sordino.data.preprocess import clip_rows
from sordino.data.source import Prepared
from sordino.estimators.fit import FitPlan, PlannedFit
from sordino.privacy import Relation
from sordino.randomness import stream
from sordino.report.canvas import thinned
from sordino.report.result import Attack, Curve, curve
from sordino.sgd import cost
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

_SCORES = {
    "a learned direction": "the released numbers along a direction that half of the runs learned",
    "a learned direction of outputs and their squares": "the released numbers and their squares "
    "along a direction that half of the runs learned",
    "the likelihood ratio": "the likelihood ratio of the released numbers: the best test there is",
    "the loss of the record that differs": "how much better the model fits one record than the "
    "other",
    f"the score {LOSSES}": "how much better the released model fits one crafted record than the "
    "other: the difference of their losses, summed over all models",
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
        return 2 * cost.of_run(spec, plan.D.rows, plan.D.features)
    assert plan.job is not None
    return 2 * cost_of_fit(plan.job.plan)


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
    released = plan.job.start.size if plan.job is not None else 0
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


def attack_release(plan: AssessmentPlan, directory: Path, progress: Progress) -> Attack:
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
    """
    how: dict[str, Any] = {"confidence": plan.request.confidence, "progress": progress}
    how |= {"runs": audit_runs(plan), "file": directory / "release.outputs"}
    D, D_prime = plan.release_pair
    models = "a linear model"
    release: Any
    if plan.network is not None:
        release = TrainedRelease(plan.network.spec)
        how["claim"] = Claim.of(plan.network.guarantee, plan.network.proof.profile)
    else:
        job = plan.job
        assert job is not None
        release = own.mechanism_of(job)
        promised = job.proof is not None and not job.why_none
        how |= {"claim": own.claim_of(job)} if promised else {"delta": plan.delta}
        if identity(release, D, D_prime) is None:
            how["file"] = None
        how["score"] = _score(release, job, plan, how)
        models = "the model" if plan.problems == 1 else f"the {plan.problems} models, one a class,"
    words = _pair_words(D, models)
    if plan.problems > 1:
        words += f" The weights of all {plan.problems} models are attacked together."
    if (many := plan.request.max_rows_per_person) > 1:
        words += f" The claim is for {many} records of one person, and only one differs here: what "
        words += "is observed is a weaker lower bound."
    return _attack("release", words, release, D, D_prime, **how)


def _score(
    release: own.Own, job: PlannedFit, plan: AssessmentPlan, how: dict[str, Any]
) -> Score | str:
    """The losses of the record, or what the first half of the runs learns if that shows more.

    The second half tests it.
    """
    (D, D_prime), task, runs = plan.release_pair, job.plan.task, how["runs"]
    losses = record_losses(D, D_prime, plan.problems, task.kind, task.huber_width)
    if runs < _LEARNED_RUNS * plan.problems * D.features or how["file"] is None:
        return losses
    stored = {"file": how["file"], "progress": how["progress"]}
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


def attack_plain(plan: AssessmentPlan, directory: Path, progress: Progress) -> Attack:
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
    )


def _pair_words(D: Dataset, models: str) -> str:
    return (
        f"{D.rows:,} records as they are trained on, of which one is crafted to be remembered: as "
        "long as the norm bound allows, where the others say least, and a little on the wrong side "
        f"of {models} that they make; in the second dataset it points the other way."
    )


# A mechanism of the user's own ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MechanismGame:
    """A mechanism, two datasets that differ in one record, and what is claimed.

    `pair` describes the two in words; `runs` is what the mechanism's own recipe asks for, if any.
    """

    mechanism: Any
    D: Any
    D_prime: Any
    claim: Claim
    name: str
    pair: str
    score: Any = "learned"
    runs: int | None = None

    @classmethod
    def of(
        cls, request: Request, mechanism: Any = None, pair: tuple[Any, Any] | None = None
    ) -> MechanismGame:
        """What is to be attacked, from what was asked.

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
        if mechanism is None:
            return cls._of_gallery(name, few=request.effort == "quick")
        if isinstance(mechanism, type) and hasattr(mechanism, "fit"):
            mechanism = mechanism()
        words = "two datasets given by the user"
        if pair is None:
            source = request.source()
            prepared = source.read()
            norm = prepared.data_norm
            if request.data_norm is None and not source.is_file:
                # Of a dataset by name the intercept's 1 is in it, which a mechanism is not handed.
                norm = math.sqrt(norm**2 - 1)
            first, second = neighbour.canary(rows(replace(prepared, data_norm=norm)))
            assert isinstance(second, Dataset)
            pair = (first.X, first.y), (second.X, second.y)
            words = (
                f"{first.rows:,} rows (X, y) of {request.data}, of which one is crafted: "
                f"anywhere within norm {norm:g}, mislabelled, in a quiet direction"
            )
        delta, _ = request.delta_and_reason(None)
        claim = Claim(request.epsilon, delta, Relation.REPLACE_ONE, source=name)
        return cls(mechanism, pair[0], pair[1], claim, name, words)

    @classmethod
    def _of_gallery(cls, name: str, *, few: bool) -> MechanismGame:
        from sordino.audit import gallery

        if not name.startswith(GALLERY):
            hint = "Pass the function itself, or gallery:NAME."
            checks.fail("mechanism", name, "to be something that can be run", hint)
        entry = gallery.named(name.removeprefix(GALLERY))
        case = entry.case()
        if case.exact is not None:
            hint = f"A formula settles it: `sordino audit gallery {name.removeprefix(GALLERY)}`."
            checks.fail("mechanism", name, "to be something that can be run", hint)
        return cls(
            *(case.broken, case.D, case.D_prime, case.claim, name),
            pair=f"the pair of the gallery. {entry.fault}",
            score=case.score,
            runs=entry.smoke_runs if few else entry.runs,
        )

    @cached_property
    def identity(self) -> str | None:
        """Of code and data; None where it cannot be told whether they are the same as before."""
        return identity(self.mechanism, self.D, self.D_prime)

    def runs_for(self, request: Request) -> int:
        """Runs on each dataset: as asked, as its recipe says, or what the effort affords."""
        return request.audit_runs or self.runs or request.limits.audit_runs

    def check(self, request: Request) -> None:
        """Refuse, before anything is written, runs that the attack would refuse later."""
        delta, confidence = self.claim.delta, request.confidence
        game.check(self.runs_for(request), 1, delta=delta, confidence=confidence)

    def attack(self, request: Request, directory: Path, progress: Progress) -> Attack:
        """Attack it; `directory` keeps outputs, if what made them can be identified."""
        return _attack(
            *("mechanism", self.pair, self.mechanism, self.D, self.D_prime),
            claim=self.claim,
            score=self.score,
            runs=self.runs_for(request),
            confidence=request.confidence,
            file=None if self.identity is None else directory / "mechanism.outputs",
            progress=progress,
        )


def rows(prepared: Prepared) -> Dataset:
    """Rows scaled into their norm, and labels from 0 on."""
    X = np.asarray(prepared.X, dtype=np.float64)
    codes = np.unique(prepared.y, return_inverse=True)[1]
    return Dataset(clip_rows(X, prepared.data_norm), codes, norm_bound=prepared.data_norm)


# The outcome ----------------------------------------------------------------------------


def _attack(
    of: str, pair: str, mechanism: Any, D: Any, D_prime: Any, *, runs: int, **how: Any
) -> Attack:
    found = audit(mechanism, D, D_prime, runs, seed=_SEED, **how)
    names = {each.name for each in fields(Attack)}
    same = {name: getattr(found, name) for name in names if hasattr(found, name)}
    claim = found.claimed
    other = {
        "score": _SCORES.get(found.score, found.score),
        "claimed": None if claim is None else claim.epsilon,
        "claimed_curve": None if claim is None else _claimed_curve(claim),
    }
    tested = len(found.negative)
    return Attack(of=of, pair=pair, runs=runs, tested=tested, roc=_roc(found), **same | other)


def _roc(found: Audit) -> Curve:
    """Errors as counted, at some hundred thresholds, dense at both ends."""
    alpha, beta = error_rates(found.negative, found.positive)
    last = len(alpha) - 1
    ends = thinned(len(alpha), _ROC_POINTS // 4)
    middle = np.linspace(0, last, _ROC_POINTS // 2 - 2).astype(np.intp)
    kept = np.unique(np.concatenate([ends, last - ends, middle]))
    return curve(alpha[kept], beta[kept])


def _claimed_curve(claim: Claim) -> Curve | None:
    """Least false-negative rates that the claim allows; of two numbers, those that they imply."""
    if not np.isfinite(claim.epsilon):
        return None
    return curve(_ALPHAS, [float(claim.allowed.beta(float(alpha))) for alpha in _ALPHAS])
