"""`tune`: choose among settings on private records, and pay for it."""

from __future__ import annotations

import copy
import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sklearn.base import clone

from sordino import checks
from sordino.accounting.profile import Profile
from sordino.accounting.selection import draw_runs, repeat_and_select
from sordino.errors import NotApplicable
from sordino.estimators import inputs
from sordino.estimators.fit import SENT, Payment, PlannedFit
from sordino.estimators.model import PrivateLinearModel
from sordino.proofs.evidence import SelectionEvidence
from sordino.release.certificate import Tuning
from sordino.release.ledger import Charge
from sordino.release.mechanism import ReleaseRefused

_TRIES, _CLOSE = 12, 0.99
"""Epsilons of one training tried until the whole costs 99 % of what may be spent."""
_Model = TypeVar("_Model", bound=PrivateLinearModel)


def tune(
    candidates: Sequence[_Model],
    X: Any,
    y: Any,
    *,
    score: Callable[[_Model], float],
    epsilon: float,
    delta: float | None = None,
    mean_runs: float = 10.0,
    shape: float = math.inf,
    sample_weight: Any = None,
    persons: Any = None,
) -> _Model:
    """Fit candidates a random number of times and release the best, under one budget.

    Papernot & Steinke 2022 ("Hyperparameter tuning with Renyi differential privacy"): if the number
    of trainings is drawn independently of the records and only the best model leaves, the whole
    costs two to three trainings, however many there were. Each training gets the largest epsilon
    that keeps the whole within `epsilon`.

    Parameters
    ----------
    candidates
        Estimators that differ in their settings; their own epsilon and delta are not used. The list
        is chosen without looking at the records.
    X, y
        As for `fit`.
    score
        Larger is better. It is given a fitted model and must look at nothing but that and PUBLIC
        records: a score on private rows would be a release of its own.
    epsilon, delta
        The promise for everything together; `delta=None` as in the estimators.
    mean_runs
        Trainings in the mean. How many there really are is random, and stays secret.
    shape
        Law of their number: infinity for Poisson (which is 0 with probability e^-mean_runs: then
        nothing is released), 1 for geometric, between for truncated negative binomial.
    sample_weight
        As for `fit`.
    persons
        As for `fit`; every training uses the same rows.

    Returns
    -------
    PrivateLinearModel
        A fitted clone of one candidate; `certificate_` and `privacy_` are those of the whole.

    Raises
    ------
    BudgetExceeded
        If a `Ledger` is open and has too little left.
    NotApplicable
        If no noise is enough.

    References
    ----------
    Papernot & Steinke, "Hyperparameter tuning with Renyi differential privacy" (ICLR 2022); by
    profiles: `sordino.accounting.selection`.

    Examples
    --------
    >>> tune([], [[0.0]], [0], score=len, epsilon=1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ...
    InvalidArgument: Expected candidates=[] to hold at least one estimator.
    """
    checks.positive("epsilon", epsilon, "Pass the budget for all trainings together.")
    hint = "Pass a list of estimators, such as [PrivateLogisticRegression(l2=0.01), ...]."
    given = list(checks.sequence("candidates", candidates, hint))
    if not given:
        checks.fail("candidates", "[]", "to hold at least one estimator", hint)
    for each in given:
        if not isinstance(each, PrivateLinearModel):
            checks.fail("candidates", f"[{type(each).__name__}, ...]", "to be estimators", hint)
        if each.random_state is not None:
            checks.fail("random_state", each.random_state, "None in every candidate")
        if each.target is not None:
            more = "What is promised for all trainings together is an epsilon."
            checks.fail("target", each.target, "None in every candidate", more)
    models = [clone(each).set_params(epsilon=float(epsilon), delta=delta) for each in given]
    if persons is not None:
        persons = inputs.persons(persons)
    fits = tuple(model._prepare(X, y, persons, sample_weight) for model in models)
    _check_alike(fits)
    runs = _Candidates(tuple(models), fits, float(mean_runs), float(shape)).within(float(epsilon))
    sent = next((each for each in given if hasattr(each, SENT)), None)
    payment = Payment.of(sent, runs.charge)
    # Recorded first: `score` is given every model, and nobody knows what it does with them.
    with payment.recorded() as entry:
        model: _Model
        chosen, model = runs.best(score)
        evidence, fit = runs.evidence(chosen), runs.fits[chosen]
        # What any of them read counts: the list of candidates is published with its numbers.
        read = dict.fromkeys(line for each in runs.fits for line in each.not_covered)
        model.privacy_ = replace(evidence.proof(), not_covered=tuple(read)).guarantee(runs.delta)
        tuning = Tuning("declared", candidates=len(runs.fits), runs=evidence.runs_in_words)
        model._ledger_entry = entry
        model.certificate_ = model._certificate(fit, payment, (evidence, tuning))
    return model


def _check_alike(fits: Sequence[PlannedFit]) -> None:
    """Refuse candidates that promise nothing, or whose promises are not of one kind."""
    for fit in fits:
        if fit.why_none:
            raise NotApplicable(f"A candidate promises nothing: {fit.why_none}; leave it out.")
    for name in ("delta", "relation", "rows_per_person"):
        values = {getattr(fit.plan.task, name) for fit in fits}
        if len(values) > 1:
            checks.fail(name, sorted(map(str, values)), "to be the same for every candidate")


@dataclass(frozen=True, eq=False)
class _Candidates:
    """The candidates, ready to be trained with a share of the budget each.

    `mean` and `shape` are those of the random number of trainings.
    """

    models: tuple[Any, ...]
    fits: tuple[PlannedFit, ...]
    mean: float
    shape: float

    @property
    def delta(self) -> float:
        return self.fits[0].plan.task.delta

    def profile(self) -> Profile:
        """Of the best model, whatever the number of trainings."""
        profiles = [fit.proof.profile for fit in self.fits if fit.proof is not None]
        return repeat_and_select(profiles, mean=self.mean, shape=self.shape)

    def with_epsilon(self, epsilon: float) -> _Candidates:
        """The same records, planned for another epsilon of each training."""
        models = tuple(copy.copy(model).set_params(epsilon=epsilon) for model in self.models)
        fits = []
        for model, fit in zip(models, self.fits, strict=True):
            task = replace(fit.plan.task, epsilon=epsilon)
            fits.append(replace(fit, plan=model._plan(task, task.start_norm(fit.start))))
        return replace(self, models=models, fits=tuple(fits))

    def within(self, epsilon: float) -> _Candidates:
        """With nearly the largest epsilon a training may have if all is to cost this."""
        best, share = None, epsilon / 3  # a few trainings' worth
        for _ in range(_TRIES):
            tried = self.with_epsilon(share)
            total = tried.profile().epsilon(self.delta)
            if math.isinf(total):
                break
            if total <= epsilon:
                best = tried
                if total > _CLOSE * epsilon:
                    break
            # Nearly proportional; a little less, so that it ends on the side that holds.
            share *= (1 + _CLOSE) / 2 * epsilon / total
        if best is None or not share > epsilon / 1000:
            raise NotApplicable("Next to nothing is left to each training; pass fewer mean_runs.")
        return best

    def charge(self) -> Charge:
        """What a ledger is asked for."""
        profile = self.profile()
        alone = self.fits[0].charge(f"the best of {len(self.fits)} candidates")
        return replace(alone, profile=profile, epsilon=profile.epsilon(self.delta))

    def best(self, score: Callable[[Any], float]) -> tuple[int, Any]:
        """Train as often as chance says, each time a candidate by chance; keep the best."""
        chance = secrets.SystemRandom()
        kept: tuple[float, bytes, int, Any] | None = None
        for _ in range(draw_runs(self.mean, self.shape, chance.random)):
            chosen = chance.randrange(len(self.fits))
            model = copy.copy(self.models[chosen])  # it knows the columns already
            fit = self.fits[chosen]
            model._keep(fit, model._release(fit, *model._train(fit)), None)
            points = float(score(model))
            if math.isnan(points):
                checks.fail("score", points, "to be a number for every model")
            # Equal scores are told apart by the weights: the theorem asks for one order of all.
            rank = points, model._weights_file()
            if kept is None or rank > kept[:2]:
                kept = *rank, chosen, model
        if kept is None:
            none = f"The number of trainings came out as 0 (its chance is e^-{self.mean:g})"
            raise ReleaseRefused(f"{none}: tuning again is a release of its own.")
        return kept[2:]

    def evidence(self, chosen: int) -> SelectionEvidence:
        """The numbers of the whole."""
        each = [fit.plan.evidence for fit in self.fits]
        return SelectionEvidence(
            candidates=tuple(evidence for evidence in each if evidence is not None),
            selected=chosen,
            mean=self.mean,
            shape_of_runs=self.shape,
            accountant="best",
            **self.fits[chosen].plan.task.shape,
        )
