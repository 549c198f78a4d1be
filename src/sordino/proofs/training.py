"""Noise in every step: every guarantee that applies, the one to release by, the least noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypedDict, TypeVar, Unpack

from sordino import checks
from sordino.accounting import calibrate, gaussian
from sordino.accounting.profile import Profile
from sordino.errors import NotApplicable
from sordino.models.constants import Constants
from sordino.privacy import Guarantee, Relation
from sordino.proofs import theorems
from sordino.proofs.proof import Proof, unit_of
from sordino.proofs.run import Released, Run, assumptions, refuse_numbers_made_from, run_of
from sordino.proofs.theorems import Finding, Theorem
from sordino.sgd.spec import TrainSpec

ACCOUNTANTS = {"best": ("pld", "last-iterate"), "pld": ("pld",), "moments": ("rdp",)}
"""All that is proved, or composition over all iterates by privacy losses or by moments alone."""
Found = TypeVar("Found")


class StepTerms(TypedDict, total=False):
    """By which of the `ACCOUNTANTS`, and who is protected: see `Run`."""

    accountant: str
    problems: int
    rows_per_person: int


@dataclass(frozen=True)
class Proofs:
    """All that was found about one training: guarantees, refusals with reasons, comparisons."""

    run: Run
    findings: tuple[Finding, ...]
    guarantees: tuple[Guarantee, ...]

    @property
    def best(self) -> Guarantee | None:
        """The guarantee with the least epsilon, if there is any."""
        return min(self.guarantees, key=lambda guarantee: guarantee.epsilon, default=None)

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """Findings that are no guarantee; each says why in its `reason`."""
        return tuple(finding for finding in self.findings if not finding.applies)


def prove(
    spec: TrainSpec,
    constants: Constants | None,
    n: int,
    relation: Relation,
    delta: float,
    *,
    released: Released = "final",
) -> Proofs:
    """Everything that can be promised about this training, at `delta`.

    Parameters
    ----------
    spec
        How it was trained.
    constants
        Of the loss with its regulariser, for rows within the norm bound; None if none are proved
        (networks): then only composition over all iterates is left.
    n
        Number of records; where that is private, a public number that it does not exceed.
    relation
        What counts as a neighbouring dataset.
    delta
        Where guarantees are stated.
    released
        "final" if only the last weights leave the building, "all" if every iterate may.
    """
    n = checks.whole("n", n, at_least=1)
    checks.one_of("released", released, ("final", "all"))
    if relation is Relation.ADD_OR_REMOVE_ONE:
        refuse_numbers_made_from(spec, n)
    run = run_of(spec, constants, n, relation, released)
    findings = tuple(theorems.account(run, delta))
    guarantees = []
    for finding in findings:
        if finding.profile is None or not finding.applies:
            continue
        assumes = assumptions(spec, run, finding.released)
        if finding.released == "final" and relation is Relation.ADD_OR_REMOVE_ONE:
            assumes += (f"it is public that there are at most {n} records",)
        proof = Proof(finding.profile, run.steps.sampling, assumes, finding.released)
        guarantees.append(proof.guarantee(delta))
    return Proofs(run, findings, tuple(guarantees))


def prove_steps(
    spec: TrainSpec,
    constants: Constants | None,
    n: int,
    relation: Relation,
    delta: float,
    **how: Unpack[StepTerms],
) -> Proof:
    """What a noisy training proves, by the accountant with the least epsilon at `delta`.

    Parameters
    ----------
    spec, constants, n, relation
        As in `prove`.
    delta
        Where accountants are compared.
    how
        See `StepTerms`.

    Raises
    ------
    NotApplicable
        If no accountant covers the training, with the last one's reason.
    """
    run, asked = _asked(spec, constants, n, relation, **how)
    found = _by_each(asked, lambda theorem: (theorem, theorem.profile(run, delta)))
    theorem, profile = min(found, key=lambda pair: pair[1].epsilon(delta))
    assumes = [*assumptions(spec, run, theorem.released)]
    if run.problems > 1:
        together = f"one model a class, {run.problems} in all, "
        assumes.append(f"{together}trained on the same batches and released together")
    assumes.append(f"rounding inside the training is not counted; its arithmetic is {spec.dtype}")
    return Proof(
        profile=profile,
        sampling=run.steps.sampling,
        assumes=tuple(assumes),
        released=theorem.released,
        unit=unit_of(run.rows_per_person),
        rests_on=theorem.name,
    )


def noise_for_steps(
    spec: TrainSpec,
    constants: Constants | None,
    n: int,
    relation: Relation,
    epsilon: float,
    delta: float,
    **how: Unpack[StepTerms],
) -> float:
    """The least noise multiplier of `spec` for the budget; its own is ignored.

    Parameters are those of `prove_steps`, and `epsilon`. 0 where the budget is infinite.
    """
    if math.isinf(checks.positive("epsilon", epsilon, allow_infinite=True)):
        return 0.0
    assert spec.max_grad_norm is not None
    spec = replace(spec, noise_multiplier=1.0)
    run, asked = _asked(spec, constants, n, relation, **how)
    unit = run.steps.noise_multiplier  # what a multiplier of 1 is worth

    def noise_by(theorem: Theorem[Run]) -> float:
        def profile_at(noise: float) -> Profile:
            return theorem.profile(run.with_noise(noise), delta)

        mu = profile_at(1.0).mu
        if mu is not None:  # Gaussian at every noise, and mu goes like 1 / noise
            noise = gaussian.sigma(epsilon, delta, mu)
            return calibrate.proved(profile_at, noise, epsilon, delta) / unit
        found = theorem.least_noise(run, epsilon, delta)
        assert isinstance(found, float)
        return found / unit

    # The division may have rounded down.
    return min(_by_each(asked, noise_by)) * (1 + 1e-12)


def _asked(
    spec: TrainSpec,
    constants: Constants | None,
    n: int,
    relation: Relation,
    *,
    accountant: str = "best",
    problems: int = 1,
    rows_per_person: int = 1,
) -> tuple[Run, list[Theorem[Run]]]:
    """The run, and the theorems of the accountant."""
    private = relation is Relation.ADD_OR_REMOVE_ONE
    if private:
        refuse_numbers_made_from(spec, n)
    run = run_of(spec, constants, n, relation, problems=problems, rows_per_person=rows_per_person)
    checks.one_of("accountant", accountant, tuple(ACCOUNTANTS))
    # Whether a step can expand depends on how large a Poisson batch gets, and where the number of
    # records is private nobody promised a bound on it.
    hidden = {"last-iterate"} if private else set()
    return run, [theorems.named(name) for name in ACCOUNTANTS[accountant] if name not in hidden]


def _by_each(asked: list[Theorem[Run]], answer: Callable[[Theorem[Run]], Found]) -> list[Found]:
    """The answers of these theorems; the last one's reason is raised if none has any."""
    found = []
    for theorem in asked:
        try:
            found.append(answer(theorem))
        except NotApplicable as refusal:
            reason = refusal
    if not found:
        raise reason
    return found
