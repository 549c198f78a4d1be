"""Noise in every step: the least of it for a budget, and what it then proves.

`prove` of `training.py` asks every method for a report; here one profile is wanted, to release by.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from sordino import _check
from sordino.accounting import calibrate, gaussian, subsampled
from sordino.accounting.finding import Released, Run
from sordino.accounting.group import group
from sordino.accounting.profile import Profile
from sordino.objectives.objective import Constants
from sordino.privacy import NotApplicable, Relation
from sordino.proofs.proof import Proof, unit_of
from sordino.proofs.training import assumptions, refuse_numbers_made_from, run_of
from sordino.sgd.spec import TrainSpec

ACCOUNTANTS = ("best", "pld", "moments")
"""All that is proved, or composition over all iterates by privacy losses or by moments alone."""


def prove_steps(
    spec: TrainSpec,
    constants: Constants,
    n: int,
    relation: Relation,
    delta: float,
    *,
    accountant: str = "best",
    problems: int = 1,
    rows_per_person: int = 1,
) -> Proof:
    """What a noisy training proves, by the accountant with the least epsilon at `delta`.

    Parameters
    ----------
    spec, constants, n, relation
        As in `prove`.
    delta
        Where accountants are compared.
    accountant
        One of `ACCOUNTANTS`.
    problems
        Models trained on the same batches, each with noise of its own: one record moves all of
        them, so together they are one model whose gradients are sqrt(problems) longer.
    rows_per_person
        Size of the group protected.

    Raises
    ------
    NotApplicable
        If no accountant covers the training, with the last one's reason.
    """
    run = _run(spec, constants, n, relation, problems)
    found: list[tuple[str, Profile]] = []
    for name in _names(accountant, relation):
        try:
            found.append((name, group(_profile(name, run, delta), rows_per_person)))
        except NotApplicable as refusal:
            reason = refusal
    if not found:
        raise reason
    name, profile = min(found, key=lambda pair: pair[1].epsilon(delta))
    released: Released = "final" if name == "last-iterate" else "all"
    assumes = [*assumptions(spec, run, released), *_together(problems)]
    assumes.append("rounding inside the training is not counted; its arithmetic is float64")
    return Proof(
        profile=profile,
        sampling=run.steps.sampling,
        assumes=tuple(assumes),
        released=released,
        unit=unit_of(rows_per_person),
    )


def noise_for_steps(
    spec: TrainSpec,
    constants: Constants,
    n: int,
    relation: Relation,
    epsilon: float,
    delta: float,
    *,
    accountant: str = "best",
    problems: int = 1,
    rows_per_person: int = 1,
) -> float:
    """The least noise multiplier of `spec` for the budget; its own is ignored.

    Parameters are those of `prove_steps`, and `epsilon`. 0 where the budget is infinite.
    """
    if math.isinf(_check.positive("epsilon", epsilon, allow_infinite=True)):
        return 0.0
    assert spec.max_grad_norm is not None
    spec = replace(spec, noise_multiplier=1.0)
    run = _run(spec, constants, n, relation, problems)
    unit = run.steps.noise_multiplier  # what a multiplier of 1 is worth

    def noise_by(name: str) -> float:
        def profile_at(noise: float) -> Profile:
            return group(_profile(name, run.with_noise(noise), delta), rows_per_person)

        return _least(name, run, profile_at, epsilon, delta, rows_per_person) / unit

    found = []
    for name in _names(accountant, relation):
        try:
            found.append(noise_by(name))
        except NotApplicable as refusal:
            reason = refusal
    if not found:
        raise reason
    return min(found) * (1 + 1e-12)  # the division above may have rounded down


def _least(
    name: str,
    run: Run,
    profile_at: Callable[[float], Profile],
    epsilon: float,
    delta: float,
    rows_per_person: int,
) -> float:
    mu = profile_at(1.0).mu
    if mu is not None:  # Gaussian at every noise, and mu goes like 1 / noise
        noise = gaussian.sigma(epsilon, delta, mu)
        return calibrate.proved(profile_at, noise, epsilon, delta)
    if name == "last-iterate" or rows_per_person > 1:
        return calibrate.least_noise(profile_at, epsilon, delta)
    return calibrate.noise_multiplier(
        *(epsilon, delta, run.steps.sample_rate, run.steps.steps),
        sampling=run.steps.sampling,
        relation=run.steps.relation,
        steps_per_epoch=run.steps.steps_per_epoch,
        method="rdp" if name == "moments" else "pld",
    )


def _run(spec: TrainSpec, constants: Constants, n: int, relation: Relation, problems: int) -> Run:
    problems = _check.whole("problems", problems, at_least=1)
    if relation is Relation.ADD_OR_REMOVE_ONE:
        refuse_numbers_made_from(spec, n)
    run = run_of(spec, constants, n, relation)
    return run.with_noise(run.steps.noise_multiplier / math.sqrt(problems))


def _names(accountant: str, relation: Relation) -> tuple[str, ...]:
    _check.one_of("accountant", accountant, ACCOUNTANTS)
    if accountant != "best":
        return (accountant,)
    # Whether a step can expand depends on how large a Poisson batch gets, and where the number of
    # records is private nobody promised a bound on it.
    return ("pld",) if relation is Relation.ADD_OR_REMOVE_ONE else ("pld", "last-iterate")


def _profile(name: str, run: Run, delta: float) -> Profile:
    steps = run.steps
    if name == "last-iterate":
        if isinstance(run.hidden, NotApplicable):
            raise run.hidden
        return run.hidden.profile(steps, delta)
    account = subsampled.pld if name == "pld" else subsampled.rdp
    return account(
        *(steps.noise_multiplier, steps.sample_rate, steps.steps),
        sampling=steps.sampling,
        relation=steps.relation,
        steps_per_epoch=steps.steps_per_epoch,
    )


def _together(problems: int) -> tuple[str, ...]:
    if problems == 1:
        return ()
    return (
        f"one model a class, {problems} in all, trained on the same batches and released together",
    )
