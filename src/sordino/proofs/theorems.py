"""The table of theorems: what each proves of what was done, or the reason why it proves nothing.

`account`, `calibrate`, estimators, certificates and assessments ask here and nowhere else. What was
done is one of five values, by where the noise is: a `Run` (in every step), an `OutputPerturbation`
(on the final weights), an `ObjectiveEvidence` (in the objective), an `AdaptiveEvidence` (a filter
asked before every look), or the `Proof` of the training that was chosen from several.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from sordino import checks, sensitivity
from sordino.accounting import calibrate, dp_sgd, gaussian, naive_strong, renyi, zcdp
from sordino.accounting.compose import group
from sordino.accounting.dp_sgd import NoisySteps
from sordino.accounting.last_iterate import permuted
from sordino.accounting.last_iterate.convex import linear_heuristic, linear_loss
from sordino.accounting.naive_strong import AsPrinted
from sordino.accounting.profile import ApproximateProfile, LossProfile, Profile, RenyiProfile
from sordino.accounting.risk import RiskTarget
from sordino.errors import NotApplicable
from sordino.models.constants import Constants
from sordino.privacy import PASSES, Estimate, Guarantee, Relation, Sampling
from sordino.proofs.adaptive import AdaptiveEvidence
from sordino.proofs.objective import ObjectiveEvidence
from sordino.proofs.output import OutputPerturbation
from sordino.proofs.proof import Proof, Released, unit_of
from sordino.proofs.steps import Run, refuse_private_numbers, run_of
from sordino.sensitivity import Sensitivity
from sordino.sgd.spec import TrainSpec

_Conditions = tuple[tuple[str, str], ...]
"""What was checked, each with its numbers."""
_Done = TypeVar("_Done")
_Found = TypeVar("_Found")
ACCOUNTANTS = {"best": ("pld", "last-iterate"), "pld": ("pld",), "moments": ("rdp",)}
"""All that is proved, or composition over all iterates by privacy losses or by moments alone."""


@dataclass(frozen=True)
class _Stated:
    """An answer with what was checked on the way: a profile, or one epsilon at the delta asked."""

    proved: Profile | float
    checked: _Conditions = ()


_Answer = Profile | _Stated | Estimate | AsPrinted
_Need = Callable[[Any, float], None]


@dataclass(frozen=True)
class _Theorem(Generic[_Done]):
    """One row of the table.

    Parameters
    ----------
    name, title
        As `account --json` names it, and as pages do.
    source
        Who it is by; a function of what was done where that decides.
    ask
        From what was done to what is proved at a delta. Raises NotApplicable with the condition
        that fails.
    needs
        _Conditions on relation, sampling, constants and delta that are checked before: each raises
        NotApplicable where it is not met.
    released
        What it covers: "all" iterates, or the "final" one only, where nothing else may be released.
    noise
        The least noise for (epsilon, delta), where the theorem calibrates.
    about
        Whether it speaks of such a release at all; else it is not even listed.
    """

    name: str
    title: str
    source: str | Callable[[_Done], str]
    ask: Callable[[_Done, float], _Answer]
    needs: tuple[_Need, ...] = ()
    released: Released = "final"
    noise: Callable[[_Done, float, float], float | AsPrinted] | None = None
    about: Callable[[_Done], bool] = lambda done: True

    def answer(self, done: _Done, delta: float) -> _Answer:
        """What it says of what was done; raises NotApplicable with the condition that fails."""
        for need in self.needs:
            need(done, delta)
        return self.ask(done, delta)

    def least_noise(self, done: _Done, epsilon: float, delta: float) -> float | AsPrinted:
        """The least noise for a budget; that of `done` is ignored."""
        assert self.noise is not None
        for need in self.needs:
            need(done, delta)
        return self.noise(done, epsilon, delta)

    def profile(self, done: _Done, delta: float) -> Profile:
        """What is proved, as a whole curve."""
        answer = self.answer(done, delta)
        assert isinstance(answer, Profile)
        return answer


@dataclass(frozen=True)
class Finding:
    """What one theorem says of what was done: a value with its theorem, or the reason for none.

    `value` is an epsilon, or what was sought for a budget (noise, steps). Only what `applies` may
    be ranked; the rest is there to be compared with.
    """

    method: str
    title: str
    released: Released
    relation: Relation
    delta: float
    kind: Literal["guarantee", "estimate", "as printed"] = "guarantee"
    value: float | None = None
    theorem: str = ""
    reason: str | None = None
    milliseconds: float = 0.0
    profile: Profile | None = None
    notes: tuple[str, ...] = ()
    checked: _Conditions = ()
    source: str = ""

    @property
    def applies(self) -> bool:
        """Whether this is a proved bound."""
        return self.kind == "guarantee" and self.reason is None

    def bracket(self) -> tuple[float, float] | None:
        """Two epsilons between which the least true one lies (`Profile.bracket`), if proved."""
        return self.profile.bracket(self.delta) if self.applies and self.profile else None

    def filled(self, answer: _Answer, sought: float | None = None, group_of: int = 1) -> Finding:
        """With what was answered; the value is its epsilon, or what was sought."""
        if isinstance(answer, AsPrinted):
            quoted = replace(self, kind="as printed", reason=str(answer))
            return replace(quoted, value=answer.value, theorem=answer.formula)
        if isinstance(answer, Estimate):  # never a guarantee
            value = answer.epsilon if sought is None else sought
            estimated = replace(self, kind="estimate", reason=str(answer))
            return replace(estimated, value=value, theorem=answer.method)
        if isinstance(answer, _Stated):
            if not isinstance(answer.proved, Profile):
                found = replace(self, value=answer.proved, theorem=self.source)
            else:
                found = self.filled(answer.proved, sought)
            return replace(found, checked=answer.checked)
        if group_of > 1 and isinstance(answer, ApproximateProfile):
            reason = f"For {group_of} records of a person delta grows beyond {self.delta:g}."
            return replace(self, theorem=answer.theorem, reason=reason)
        more = answer.fallbacks(self.delta) if isinstance(answer, LossProfile) else ()
        return replace(
            self,
            value=answer.epsilon(self.delta) if sought is None else sought,
            theorem=answer.theorem,
            profile=answer,
            notes=answer.notes + more,
            checked=tuple((note, "") for note in answer.notes),
        )


# Asking -------------------------------------------------------------------------------------------


def account(run: Run, delta: float) -> list[Finding]:
    """What every theorem on noisy steps says of the run at `delta`."""
    delta = checks.probability_below_one("delta", delta)
    return list(_each(STEPS, run, run.steps.relation, delta, _epsilon))


def least_noise(run: Run, target: float | RiskTarget, delta: float) -> list[Finding]:
    """The least noise multiplier for a target by every theorem; the run's is ignored.

    The target is an epsilon at `delta`, or a risk: then `delta` is where free choices in a proof
    are made.
    """
    if isinstance(target, RiskTarget):
        return _noise_for_risk(run, target, delta)
    epsilon = _budget(target)
    if checks.probability_below_one("delta", delta) == 0:
        checks.fail("delta", delta, "> 0", "Gaussian noise has no guarantee at delta = 0.")

    def least(theorem: _Theorem[Run], run: Run, blank: Finding) -> Finding:
        noise = theorem.least_noise(run, epsilon, delta)
        if isinstance(noise, AsPrinted):
            return blank.filled(noise)
        return blank.filled(theorem.ask(run.with_noise(noise), delta), noise, run.rows_per_person)

    return list(_each(STEPS, run.with_noise(1.0), run.steps.relation, delta, least))


def _noise_for_risk(run: Run, target: RiskTarget, delta: float) -> list[Finding]:
    checks.probability_below_one("delta", delta)

    def least(theorem: _Theorem[Run], run: Run, blank: Finding) -> Finding:
        _refuse_guesses(theorem, run)

        def profile_at(noise: float) -> Profile:
            return theorem.profile(run.with_noise(noise), delta)

        noise = calibrate.noise_for_risk(profile_at, target)
        return blank.filled(profile_at(noise), noise, run.rows_per_person)

    return list(_each(STEPS, run.with_noise(1.0), run.steps.relation, delta, least))


def _refuse_guesses(theorem: _Theorem[Run], run: Run) -> None:
    """Refuse what is quoted or estimated, where something is promised."""
    if theorem.name.startswith("notes-"):
        raise NotApplicable("The notes print no curve.")
    if theorem.name == "linear-loss" and not run.linear:
        raise NotApplicable("It is an estimate for this loss, and no budget rests on one.")


def largest_count(
    run_at: Callable[[int], Run], target: float | RiskTarget, delta: float, *, at_most: int
) -> list[Finding]:
    """The largest count (of steps, epochs, ...) whose run every theorem proves the target for.

    The target is an epsilon at `delta`, or a risk.
    """
    if not isinstance(target, RiskTarget):
        target = _budget(target)
    checks.probability_below_one("delta", delta)

    def value_of(finding: Finding) -> float:
        if not isinstance(target, RiskTarget):
            return math.nan if finding.value is None else finding.value
        return math.nan if finding.profile is None else target.of(finding.profile)

    def largest(theorem: _Theorem[Run], run: Run, blank: Finding) -> Finding:
        if theorem.name == "linear-loss" or isinstance(target, RiskTarget):
            _refuse_guesses(theorem, run)

        def holds(count: int) -> bool:
            try:
                value = value_of(_epsilon(theorem, run_at(count), blank))
            except NotApplicable:
                return False
            return value <= (target.most if isinstance(target, RiskTarget) else target)

        # Hidden states forget: their epsilon may stay below the budget for ever.
        count = at_most if holds(at_most) else calibrate.largest(holds, at_most)
        finding = _epsilon(theorem, run_at(max(count, 1)), blank)
        if count == 0:
            raise NotApplicable(f"Not even 1 meets this budget: it has {value_of(finding):.4g}.")
        if count == at_most:
            finding = replace(finding, notes=(*finding.notes, "no more than this were tried"))
        return replace(finding, value=count)

    first = run_at(1)
    return list(_each(STEPS, first, first.steps.relation, delta, largest))


def best(findings: Sequence[Finding], *, largest: bool = False) -> Finding | None:
    """The guarantee with the least value (or the largest); None if there is none.

    All must have one relation: guarantees for different ones cannot be ranked.
    """
    applicable = [finding for finding in findings if finding.applies]
    if len({finding.relation for finding in applicable}) > 1:
        checks.fail("relations", "several", "to be one: different relations cannot be ranked")
    sign = -1.0 if largest else 1.0

    def rank(finding: Finding) -> tuple[float, bool]:
        # Of equal ones that which covers more.
        return sign * (finding.value or 0.0), finding.released == "final"

    return min(applicable[::-1], key=rank, default=None)


def steps_theorem(name: str) -> _Theorem[Run]:
    """The theorem on noisy steps of this name."""
    return next(theorem for theorem in STEPS if theorem.name == name)


def beside(proof: Proof, kind: str, done: object, delta: float) -> Iterator[Finding]:
    """What every theorem on such a release says of this one, that which `proof` rests on included.

    `kind` is that of the evidence, a key of `THEOREMS`, and `done` what the evidence describes.
    """

    def compute(theorem: _Theorem[Any], done: object, blank: Finding) -> Finding:
        if theorem.name == proof.rests_on:
            return blank.filled(proof.profile)
        return _epsilon(theorem, done, blank)

    return _each(THEOREMS[kind], done, proof.profile.relation, delta, compute)


def _each(
    theorems: Sequence[_Theorem[_Done]],
    done: _Done,
    relation: Relation,
    delta: float,
    compute: Callable[[_Theorem[_Done], _Done, Finding], Finding],
) -> Iterator[Finding]:
    for theorem in theorems:
        if not theorem.about(done):
            continue
        start = time.perf_counter()
        source = theorem.source if isinstance(theorem.source, str) else theorem.source(done)
        covers = theorem.released
        finding = Finding(theorem.name, theorem.title, covers, relation, delta, source=source)
        try:
            if covers == "final" and isinstance(done, Run) and done.released == "all":
                raise NotApplicable("Every iterate is released, and this is about the last alone.")
            finding = compute(theorem, done, finding)
        except NotApplicable as refusal:
            finding = replace(finding, reason=str(refusal))
        yield replace(finding, milliseconds=1000 * (time.perf_counter() - start))


def _epsilon(theorem: _Theorem[_Done], done: _Done, blank: Finding) -> Finding:
    size = done.rows_per_person if isinstance(done, Run) else 1
    return blank.filled(theorem.answer(done, blank.delta), group_of=size)


def _budget(epsilon: float) -> float:
    hint = "Pass the budget you promise, such as 1.0."
    return checks.positive("epsilon", epsilon, hint, allow_infinite=True)


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

    Returns
    -------
    Proofs
        A finding for every theorem, and a guarantee for every one that applies (docs/math.md 4).

    Raises
    ------
    InvalidArgument
        If a setting would tell a private number of records.

    Examples
    --------
    >>> from sordino.models.constants import ObjectiveSpec
    >>> how = {"order": "poisson", "max_grad_norm": 1.0, "noise_multiplier": 2.0}
    >>> spec = TrainSpec(ObjectiveSpec("logistic"), 0.1, batch_size=10, steps=50, **how)
    >>> found = prove(spec, spec.objective.constants(1.0), 100, Relation.ZERO_OUT, 1e-5)
    >>> round(found.best.epsilon, 2)
    1.65
    """
    n = checks.whole("n", n, at_least=1)
    checks.one_of("released", released, ("final", "all"))
    refuse_private_numbers(spec, n, relation)
    run = run_of(spec, constants, n, relation, released)
    findings = tuple(account(run, delta))
    guarantees = []
    for finding in findings:
        if finding.profile is None or not finding.applies:
            continue
        assumes = run.assumptions(spec, finding.released)
        if finding.released == "final" and relation is Relation.ADD_OR_REMOVE_ONE:
            assumes += (f"it is public that there are at most {n} records",)
        proof = Proof(finding.profile, run.steps.sampling, assumes, finding.released)
        guarantees.append(proof.guarantee(delta))
    return Proofs(run, findings, tuple(guarantees))


def prove_steps(run: Run, spec: TrainSpec, delta: float, accountant: str = "best") -> Proof:
    """What the run of `spec` proves, by the theorem with the least epsilon at `delta`.

    Parameters
    ----------
    run, spec
        `run_of` the training, and the training.
    delta
        Where theorems are compared.
    accountant
        Which theorems: a key of `ACCOUNTANTS`.

    Raises
    ------
    NotApplicable
        If none of them covers the training, with the last one's reason.
    """
    found = _by_each(run, accountant, lambda theorem: (theorem, theorem.profile(run, delta)))
    theorem, profile = min(found, key=lambda pair: pair[1].epsilon(delta))
    assumes = [*run.assumptions(spec, theorem.released)]
    if run.problems > 1:
        together = f"one model a class, {run.problems} in all, "
        assumes.append(f"{together}trained on the same batches and released together")
    assumes.append(f"rounding inside the training is not counted; its arithmetic is {spec.dtype}")
    done = profile, run.steps.sampling, tuple(assumes), theorem.released
    return Proof(*done, unit_of(run.rows_per_person), rests_on=theorem.name)


def noise_for_steps(run: Run, epsilon: float, delta: float, accountant: str = "best") -> float:
    """The least noise multiplier for the budget, of a training whose `run` has a multiplier of 1.

    0 where the budget is infinite.
    """
    if math.isinf(checks.positive("epsilon", epsilon, allow_infinite=True)):
        return 0.0
    unit = run.steps.noise_multiplier  # what a multiplier of 1 is worth

    def noise_by(theorem: _Theorem[Run]) -> float:
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
    return min(_by_each(run, accountant, noise_by)) * (1 + 1e-12)


def _by_each(run: Run, accountant: str, answer: Callable[[_Theorem[Run]], _Found]) -> list[_Found]:
    """The answers of an accountant's theorems; the last one's reason is raised if none has any."""
    found = []
    private = run.steps.relation is Relation.ADD_OR_REMOVE_ONE
    for name in ACCOUNTANTS[checks.one_of("accountant", accountant, tuple(ACCOUNTANTS))]:
        # Whether a step can expand depends on how large a Poisson batch gets, and where the number
        # of records is private nobody promised a bound on it.
        if name == "last-iterate" and private:
            continue
        try:
            found.append(answer(steps_theorem(name)))
        except NotApplicable as refusal:
            reason = refusal
    if not found:
        raise reason
    return found


# Noise in every step ------------------------------------------------------------------------------


def _need(reason: str, holds: Callable[[Any, float], bool]) -> _Need:
    """A condition, and what to say where it does not hold of what was done at a delta."""

    def check(done: object, delta: float) -> None:
        if not holds(done, delta):
            raise NotApplicable(reason)

    return check


def _known_size(run: Run, delta: float) -> None:
    dp_sgd.refuse(run.steps)


def _alike(run: Run, delta: float) -> None:
    """Whether all steps are alike, and no batch is cut."""
    if run.phases:
        raise NotApplicable("It is about equal steps, and this schedule has others.")
    if run.steps.is_cut:
        raise NotApplicable("It is about whole batches, and these are cut to a maximum.")


def _known_loss(run: Run, delta: float) -> None:
    if isinstance(run.hidden, NotApplicable):
        raise run.hidden


_DRAWN_AT_RANDOM = _need(
    "The notes' formula is about sampled batches.",
    lambda run, _: run.steps.sampling not in (*PASSES, Sampling.FULL, Sampling.ALLOCATION),
)
_SOMETHING_TO_HIDE = _need(
    "The notes' formula needs noise, records and steps.",
    lambda run, _: not run.steps.is_trivial and run.steps.noise_multiplier not in (0.0, math.inf),
)
_NOT_PURE = _need(
    "Gaussian noise has no guarantee at delta = 0.",
    lambda run, delta: delta > 0 or run.steps.is_trivial,
)
_POISSON = _need(
    "The exact law for linear losses is known for Poisson sampling.",
    lambda run, _: run.steps.sampling == Sampling.POISSON,
)


def _notes(
    name: str, title: str, enough: Callable[..., AsPrinted], *, epsilon: bool = False
) -> _Theorem[Run]:
    """A formula of the lecture notes, for comparison; most are printed for noise only."""

    def ask(run: Run, delta: float) -> AsPrinted:
        _alike(run, delta)
        if not epsilon:
            raise NotApplicable("The notes print it for noise, without a constant; see calibrate.")
        if delta == 0:
            raise NotApplicable("The notes' formula needs delta > 0.")
        return naive_strong.notes_naive_epsilon(**_of_linear(run), delta=delta)

    def noise(run: Run, epsilon: float, delta: float) -> AsPrinted:
        _alike(run, delta)
        _DRAWN_AT_RANDOM(run, delta)
        _SOMETHING_TO_HIDE(run, delta)
        if math.isinf(epsilon):
            raise NotApplicable("The notes' formula needs a finite epsilon.")
        return enough(epsilon, delta, run.steps.sample_rate, run.steps.steps)

    return _Theorem(
        *(name, title, "lecture notes, as printed", ask),
        needs=(_DRAWN_AT_RANDOM, _SOMETHING_TO_HIDE) if epsilon else (),
        released="all",
        noise=noise,
        about=lambda run: run.problems == 1 and run.rows_per_person == 1,
    )


def _composition(name: str, title: str, rule: naive_strong.Composition) -> _Theorem[Run]:
    """Of sampled steps; where a record is met once a pass, of passes without sampling."""

    def numbers(steps: NoisySteps) -> tuple[float, int, float]:
        """Rate, count and the sensitivity of one step before sampling."""
        # A fixed-size batch swaps records even where one is zeroed.
        size = 2.0 if steps.sampling == Sampling.FIXED_SIZE else steps.sensitivity
        if steps.is_trivial:
            return 0.0, 0, size
        if steps.sampling in (*PASSES, Sampling.FULL, Sampling.ALLOCATION):
            return 1.0, max(count for count, _ in steps.visits), size
        return steps.sample_rate, steps.steps, size

    def ask(run: Run, delta: float) -> Profile:
        rate, count, size = numbers(run.steps)
        noise, relation = run.steps.noise_multiplier, run.steps.relation
        return rule(noise, rate, count, delta, sensitivity=size, relation=relation)

    def noise(run: Run, epsilon: float, delta: float) -> float:
        rate, count, size = numbers(run.steps)
        found = rule.noise(epsilon, delta, rate, count, sensitivity=size)
        return calibrate.proved(_with_noise(ask, run, delta), found, epsilon, delta)

    needs = (_alike, _known_size)
    return _Theorem(name, title, title, ask, needs=needs, released="all", noise=noise)


def _accountant(name: str, title: str, of: Callable[..., Profile]) -> _Theorem[Run]:
    """The moments accountant or privacy loss distributions."""

    def ask(run: Run, delta: float) -> Profile:
        return dp_sgd.schedule(run.scaled, of) if run.phases else of(**vars(run.steps))

    def noise(run: Run, epsilon: float, delta: float) -> float:
        if run.phases:
            return _searched(ask)(run, epsilon, delta)
        how = {key: value for key, value in vars(run.steps).items() if key != "noise_multiplier"}
        return calibrate.noise_multiplier(epsilon, delta, **how, method=name)

    return _Theorem(name, title, title, ask, needs=(_known_size,), released="all", noise=noise)


def _with_noise(
    ask: Callable[[Run, float], Profile], run: Run, delta: float
) -> Callable[[float], Profile]:
    return lambda noise: ask(run.with_noise(noise), delta)


def _searched(ask: Callable[[Run, float], Profile]) -> Callable[[Run, float, float], float]:
    """The least noise by a search; none where nothing can be seen anyway."""

    def noise(run: Run, epsilon: float, delta: float) -> float:
        profile_at = _with_noise(ask, run, delta)
        if profile_at(1.0).mu == 0:
            return 0.0
        return calibrate.least_noise(profile_at, epsilon, delta)

    return noise


def _last_iterate(run: Run, delta: float) -> Profile:
    assert not isinstance(run.hidden, NotApplicable)  # `_known_loss`
    if run.steps.is_trivial:
        return dp_sgd.pld(**vars(replace(run.steps, noise_multiplier=math.inf)))
    one = replace(run.steps, max_rows_per_person=1)
    return group(run.hidden.profile(one, delta), run.rows_per_person)


def _of_linear(run: Run) -> dict[str, Any]:
    return {name: getattr(run.steps, name) for name in ("noise_multiplier", "sample_rate", "steps")}


def _linear(run: Run, delta: float) -> Profile:
    one = linear_loss(**_of_linear(run), relation=run.steps.relation)
    return group(one, run.rows_per_person)


def _linear_or_heuristic(run: Run, delta: float) -> Profile | Estimate:
    """Annamalai's last iterate of a linear loss: proved for those, a heuristic for all others."""
    proved = _linear(run, delta)  # also refuses relations
    if run.rows_per_person > 1 and not run.linear:
        raise NotApplicable("It is an estimate for one record, and not for several together.")
    return proved if run.linear else linear_heuristic(**_of_linear(run), delta=delta)


STEPS: tuple[_Theorem[Run], ...] = (
    _notes("notes-naive", "the notes' naive formula", naive_strong.notes_naive_noise, epsilon=True),
    _notes("notes-strong", "the notes' strong formula", naive_strong.notes_strong_noise),
    _notes("notes-moments", "the notes' moments formula", naive_strong.notes_moments_noise),
    _composition("naive", "naive composition", naive_strong.naive),
    _composition("strong-dwork", "strong composition (Dwork et al.)", naive_strong.strong_dwork),
    _composition("strong", "strong composition (Kairouz et al.)", naive_strong.strong_kairouz),
    _accountant("rdp", "moments accountant (Renyi DP)", dp_sgd.rdp),
    _accountant("pld", "privacy loss distributions", dp_sgd.pld),
    _Theorem(
        *("last-iterate", "last iterate (hidden state)"),
        source="shifted interpolation (Bok, Su & Altschuler 2024)",
        ask=_last_iterate,
        needs=(_alike, _NOT_PURE, _known_loss),
        noise=_searched(_last_iterate),
    ),
    _Theorem(
        *("linear-loss", "last iterate, linear loss"),
        source="Annamalai 2024",
        ask=_linear_or_heuristic,
        needs=(_alike, _POISSON),
        noise=_searched(_linear),
    ),
)
"""From the oldest to the tightest."""


# Noise on the final weights -----------------------------------------------------------------------
# A theorem on sensitivity bounds how far one record moves the weights, a theorem on the Gaussian
# mechanism says what the noise makes of that. Each counts the same rounding, models and group.

_EXACT = "the Gaussian mechanism at the largest sensitivity (Balle & Wang 2018)"
_CHAUDHURI = "objective perturbation (Chaudhuri et al. 2011)"
_NOISY_STEPS = "accountants of noisy steps (Abadi et al. 2016; Bok, Su & Altschuler 2024)"


_CHEN_RENYI = "Renyi DP, mean over the record's batch (Chen, Lee & Kifer 2019, Proposition 3)"
_MIRONOV = "Renyi DP of the Gaussian mechanism (Mironov 2017)"


def _elsewhere(name: str, title: str, source: str, reason: str) -> _Theorem[Any]:
    """A theorem on noise in another place, or of another kind."""

    def ask(done: object, delta: float) -> Profile:
        raise NotApplicable(reason)

    return _Theorem(name, title, source, ask)


_SECRET_PLACE = _need(
    "A record has one place only, or a known one; use several batches and order='permute-once'.",
    lambda done, _: done.secret_place,
)


def _distance(done: OutputPerturbation, moved: float) -> _Conditions:
    return (("one record moves the released weights by at most", f"{moved:.6g}"), noise_of(done))


def noise_of(done: OutputPerturbation) -> tuple[str, str]:
    """The noise on the weights, as a condition."""
    weights = f"{done.of.problems * done.of.columns:,}"
    numbers = f"standard deviation {done.of.sigma:.6g} on each of {weights}"
    return "Gaussian noise on every released weight", numbers


def _gaussian_source(done: OutputPerturbation) -> str:
    return f"{done.sensitivity.theorem}; {_EXACT}"


def _gaussian(done: OutputPerturbation, delta: float) -> _Stated:
    moved = done.farthest
    return _Stated(done.gaussian(moved, _gaussian_source(done)), _distance(done, moved))


def _renyi(title: str, theorem: str, *, mixed: bool) -> _Theorem[OutputPerturbation]:
    """Through Renyi DP, as Chen, Lee & Kifer go."""

    def source(done: OutputPerturbation) -> str:
        return f"{done.sensitivity.theorem}; {theorem}"

    def ask(done: OutputPerturbation, delta: float) -> _Stated:
        of = done.sensitivity
        moved: Any = {"sensitivities": [done.farthest]}
        if mixed:
            moved = {"sensitivities": of.positions, "weights": of.shares}
        one = permuted.renyi_mixture(sigma=done.of.sigma, relation=of.relation, **moved)
        found = group(one, done.of.rows_per_person).noted(theorem=source(done))
        return _Stated(found, (("converted by the least of three theorems", ""),))

    def about(done: OutputPerturbation) -> bool:
        return (done.secret_place and done.same_order) is mixed

    return _Theorem("renyi-mixture" if mixed else "renyi", title, source, ask, about=about)


def _classical(done: OutputPerturbation, delta: float) -> _Stated:
    """The textbook's formula, where it is a theorem."""
    moved = done.farthest * done.of.rows_per_person
    epsilon = moved * math.sqrt(2 * math.log(1.25 / delta)) / done.of.sigma * (1 + 1e-12)
    gaussian.classical_sigma(epsilon, delta, moved)  # refuses what is no theorem
    return _Stated(epsilon, (("epsilon < 1", f"{epsilon:.6g}"),))


def _sensitivity(
    name: str,
    title: str,
    source: str,
    bound: Callable[[OutputPerturbation], Sensitivity],
    *needs: Callable[[OutputPerturbation, float], None],
) -> _Theorem[OutputPerturbation]:
    """A way to bound how far one record moves the final weights."""
    statement = f"{source}; {_EXACT}"

    def ask(done: OutputPerturbation, delta: float) -> _Stated:
        found = bound(done)
        moved = done.moved(found)
        said = tuple((condition, "") for condition in found.conditions)
        return _Stated(done.gaussian(moved, statement), (*said, *_distance(done, moved)))

    return _Theorem(name, title, statement, ask, needs=needs)


_STRONGLY_CONVEX = _need(
    "The loss is not strongly convex; train with l2 > 0.",
    lambda done, _: done.batches["constants"].strongly_convex != 0,
)
_FALLING_RATE = _need(
    "The learning rate must be min(1 / smoothness, 1 / (strong convexity t)), without restarts.",
    lambda of, _: of.spec.schedule.kind == "strongly-convex" and of.spec.restart_every is None,
)
_CONSTANT_RATE = _need(
    "It is about a constant learning rate, and this one falls.",
    lambda done, _: done.spec.schedule.kind == "constant",
)
_NO_AVERAGE = _need(
    "It is about the last iterate, and averages are released; train with average_every=None.",
    lambda done, _: done.spec.average_every is None,
)
_ONE_ORDER = _need(
    "Every pass must have the same batches; use order='permute-once'.",
    lambda done, _: done.same_order,
)
_ALL_RECORDS = _need(
    "Every step must use all records; use method='output-gd'.",
    lambda done, _: done.spec.batch_size == done.batches["n"],
)


def _bolt_on_convex(done: OutputPerturbation) -> Sensitivity:
    # Where no step expands, bounds only grow from step to step, so an average of iterates is
    # bounded by that of the last of them: averaging changes nothing.
    relation = done.sensitivity.relation
    found = sensitivity.bolt_on_convex(
        rates=done.rates, relation=relation, same_order=done.same_order, **done.batches
    )
    if done.spec.average_every is None:
        return found
    said = "an average of iterates is no farther than the last of them is sure to be"
    return replace(found, conditions=(*found.conditions, said))


def _bolt_on_strongly_convex(done: OutputPerturbation) -> Sensitivity:
    batches, schedule = done.batches.copy(), done.spec.schedule
    constants = batches["constants"]
    steepest = (constants.smooth + constants.strongly_convex) / schedule.smooth
    said: tuple[str, ...] = ()
    if schedule.smooth < constants.smooth and steepest <= 2:
        # The schedule was made for norms without slack. All that the theorem takes from the
        # smoothness is that steps contract by 1 - rate * strong convexity, which is so here.
        batches["constants"] = replace(constants, smooth=schedule.smooth)
        said = (f"largest rate x (smoothness + strong convexity) = {steepest:.6g} <= 2",)
    how: Any = {"relation": done.sensitivity.relation, "same_order": done.same_order, **batches}
    found = sensitivity.bolt_on_strongly_convex(
        steps=len(done.rates),
        schedule_smooth=schedule.smooth,
        schedule_strongly_convex=schedule.strongly_convex,
        **how,
    )
    return replace(found, conditions=(*found.conditions, *said))


def _of_descent(done: OutputPerturbation) -> dict[str, Any]:
    """What theorems on full batches ask."""
    of = {"rate": done.spec.schedule.rate, "relation": done.sensitivity.relation}
    return {"constants": done.batches["constants"], "n": done.batches["n"], **of}


_OUTPUT: tuple[_Theorem[OutputPerturbation], ...] = (
    _Theorem(
        *("gaussian-mixture", "exact Gaussian, random sensitivity"),
        source="mean over the record's batch, by convexity of the hockey-stick divergence",
        ask=lambda done, delta: done.profile(done.of.sigma),
        needs=(_SECRET_PLACE,),
    ),
    _Theorem("gaussian", "exact Gaussian, largest sensitivity", _gaussian_source, _gaussian),
    _renyi("Renyi DP, random sensitivity", _CHEN_RENYI, mixed=True),
    _renyi("Renyi DP, largest sensitivity", _MIRONOV, mixed=False),
    _Theorem(
        *("classical", "classical Gaussian formula"),
        source="sigma >= D sqrt(2 ln(1.25 / delta)) / epsilon (Dwork & Roth 2014, Theorem A.1)",
        ask=_classical,
    ),
    _sensitivity(
        *("bolt-on-convex", "bolt-on, convex (Wu et al.)"),
        *("Wu et al. 2017, convex: every visit of the record adds up", _bolt_on_convex),
    ),
    _sensitivity(
        *("bolt-on-strongly-convex", "bolt-on, strongly convex (Wu et al.)"),
        "Wu et al. 2017, strongly convex: 2 R / (strong convexity n)",
        _bolt_on_strongly_convex,
        *(_STRONGLY_CONVEX, _FALLING_RATE, _NO_AVERAGE),
    ),
    _sensitivity(
        *("any-passes", "any number of passes (Chen et al.)"),
        "Chen, Lee & Kifer 2019, Proposition 2: a fixed rate, any number of passes",
        lambda done: sensitivity.fixed_step_limit(
            rate=done.spec.schedule.rate, relation=done.sensitivity.relation, **done.batches
        ),
        *(_CONSTANT_RATE, _NO_AVERAGE, _ONE_ORDER),
    ),
    _sensitivity(
        *("gradient-descent", "gradient descent, closed form"),
        "contraction of full-batch steps, summed (docs/math.md 10.3)",
        lambda done: sensitivity.gradient_descent(steps=len(done.rates), **_of_descent(done)),
        *(_ALL_RECORDS, _CONSTANT_RATE, _NO_AVERAGE),
    ),
    _sensitivity(
        *("gradient-descent-zhang", "gradient descent (Zhang et al.)"),
        "Zhang et al. 2017, quoted by Chen, Lee & Kifer 2019: 5 R (L + mu) / (n mu L)",
        lambda done: sensitivity.zhang_gradient_descent(**_of_descent(done)),
        *(_ALL_RECORDS, _CONSTANT_RATE, _NO_AVERAGE),
    ),
    _elsewhere(
        *("steps", "composition, last iterate", _NOISY_STEPS),
        "No step of this training adds noise: it is on the final weights alone.",
    ),
    _elsewhere(
        *("objective", "objective perturbation", _CHAUDHURI),
        "The noise is on the weights that were found, not in the objective they minimise.",
    ),
)


# Noise in the objective ---------------------------------------------------------------------------


def _any_loss(noisy: ObjectiveEvidence, delta: float) -> _Stated:
    """Without what is special about the logistic loss: the determinant is paid in full."""
    general = group(noisy.of_one_record(any_loss=True), noisy.rows_per_person)
    checked = (("curvature of the loss at most", f"{noisy.problem['curvature']:.6g}"),)
    return _Stated(general.noted(theorem=_ANY_LOSS), checked)


def _objective_renyi(noisy: ObjectiveEvidence, delta: float) -> _Stated:
    """Through the Renyi divergences of the law that bounds the privacy loss."""
    one = noisy.of_one_record()
    values = one.renyi(renyi.ORDERS)
    if values is None:
        raise NotApplicable("The release has no bounded Renyi divergence.")
    orders, bounds = tuple(renyi.ORDERS.tolist()), tuple(values.tolist())
    of: Any = {"relation": one.relation, "theorem": _OBJECTIVE_RENYI}
    found = group(RenyiProfile(orders=orders, values=bounds, **of), noisy.rows_per_person)
    return _Stated(found.noted(theorem=_OBJECTIVE_RENYI))


def _of_the_minimiser(noisy: ObjectiveEvidence, delta: float) -> Profile:
    """Output perturbation of the exact minimiser, which this is not."""
    moved = noisy.moved / noisy.regulariser
    formula = "2 R / (n l2)" if noisy.relation is Relation.REPLACE_ONE else "R / (n l2)"
    noise = f"the noise on the weights, {noisy.sigma_out:.3g}, only hides the solver's error"
    raise NotApplicable(f"One record moves it by up to {formula} = {moved:.6g}; {noise}.")


_LINEAR_MODEL = "objective perturbation of a linear model (docs/math.md 10.1)"
_PAID = "the determinant's e^kappa paid in full"
_ANY_LOSS = f"objective perturbation of any linear model, {_PAID} (docs/math.md 10.1)"
_OBJECTIVE_RENYI = "Renyi DP of objective perturbation, converted by the least of three theorems"
_OBJECTIVE: tuple[_Theorem[ObjectiveEvidence], ...] = (
    _Theorem(
        *("objective-logistic", "objective perturbation, logistic loss", _LINEAR_MODEL),
        lambda noisy, delta: noisy.profile(),
        about=lambda noisy: noisy.loss == "logistic",
    ),
    _Theorem(
        *("objective", "objective perturbation", _LINEAR_MODEL),
        lambda noisy, delta: noisy.profile(),
        about=lambda noisy: noisy.loss != "logistic",
    ),
    _Theorem(
        *("objective-any-loss", "objective perturbation, any loss", _ANY_LOSS, _any_loss),
        # Several are composed by the lesser of the two laws.
        about=lambda noisy: noisy.loss == "logistic" and noisy.problems == 1,
    ),
    _Theorem("objective-renyi", "Renyi DP", _OBJECTIVE_RENYI, _objective_renyi),
    _elsewhere(
        *("objective-pure", "objective perturbation, delta = 0"),
        "Chaudhuri, Monteleoni & Sarwate 2011, Theorem 9",
        "The noise in the objective is Gaussian; the theorem's has a length with a Gamma law.",
    ),
    _Theorem(
        *("output", "output perturbation"),
        "output perturbation of the minimiser (Chaudhuri et al. 2011), Gaussian mechanism",
        _of_the_minimiser,
    ),
    _elsewhere(
        *("steps", "composition, last iterate", _NOISY_STEPS),
        "The minimiser is released: there are no noisy steps to compose.",
    ),
)


# A budget spent as one goes, and the best of several ----------------------------------------------


def _closed_form(done: AdaptiveEvidence, delta: float) -> _Stated:
    rho = done.profile().rho
    epsilon = zcdp.bun_steinke(rho, delta) * (1 + 1e-12)
    return _Stated(epsilon, (("zero-concentrated DP", f"rho = {rho:.6g}"),))


_ADAPTIVE: tuple[_Theorem[AdaptiveEvidence], ...] = (
    _Theorem(
        *("zcdp-filter", "zCDP filter", "Feldman & Zrnic 2021; Bun & Steinke 2016"),
        ask=lambda done, delta: done.profile(),
        released="all",
    ),
    _Theorem(
        *("zcdp-closed-form", "zCDP, closed form"),
        "rho + 2 sqrt(rho ln(1 / delta)) (Bun & Steinke 2016, Proposition 1.3)",
        _closed_form,
        released="all",
    ),
    _elsewhere(
        *("pld", "privacy loss distributions", "Zhu, Dong & Wang 2022"),
        "Each step's cost was chosen on the way, and this needs it fixed beforehand.",
    ),
    _elsewhere(
        *("last-iterate", "last iterate (hidden state)", "Bok, Su & Altschuler 2024"),
        "Every iterate decides what follows, so all of them count as released.",
    ),
    _elsewhere(
        *("output", "output perturbation"),
        "sensitivity of the final weights, Gaussian mechanism",
        "The noise is on the sums of gradients that the descent looks at.",
    ),
)


def _chosen_alone(chosen: Proof, delta: float) -> Profile:
    raise NotApplicable("It is about one training, and this one was chosen from several.")


def _after_others(training: Proof, delta: float) -> Profile:
    raise NotApplicable("It is about the training alone, and rows were looked at before it.")


_SELECTION: tuple[_Theorem[Proof], ...] = (
    # What the choice costs depends on all candidates: the evidence proves it.
    _Theorem(
        *("repeat-and-select", "repeat and select"),
        "whole profiles (docs/accounting.md), or Papernot & Steinke 2022",
        _chosen_alone,
    ),
    _Theorem(
        *("chosen-alone", "the chosen training alone"),
        source=lambda chosen: chosen.profile.theorem,
        ask=_chosen_alone,
    ),
)
_PREPARED: tuple[_Theorem[Proof], ...] = (
    # What the releases before the training cost is in the evidence, which proves it.
    _Theorem(
        *("prepared", "preparation and training, composed"),
        "Gaussian DP (Dong, Roth & Su 2022), or by the training's losses (Zhu, Dong & Wang 2022)",
        _after_others,
    ),
    _Theorem(
        *("training-alone", "the training alone"),
        source=lambda training: training.profile.theorem,
        ask=_after_others,
    ),
)
_NOT_STEPS = (
    _elsewhere(
        *("output", "output perturbation"),
        "sensitivity of the final weights, Gaussian mechanism (Wu et al. 2017; Chen et al.)",
        "The noise is in every step, and this is about noise on the final weights alone.",
    ),
    _elsewhere(
        *("objective", "objective perturbation", _CHAUDHURI),
        "The noise is in the steps of the descent, not in the objective.",
    ),
)
_WU = "sensitivity of the final weights (Wu et al. 2017)"
_CONVEX = "The loss of a network is not convex; use --model logistic or svm."
_NOT_NETWORKS = (
    _elsewhere("output", "output perturbation", _WU, _CONVEX),
    _elsewhere("objective", "objective perturbation", _CHAUDHURI, _CONVEX),
)
THEOREMS: dict[str, tuple[_Theorem[Any], ...]] = {
    "noisy-steps": (*STEPS, *_NOT_STEPS),
    "noisy-steps-of-a-network": (*STEPS, *_NOT_NETWORKS),
    "output-perturbation": _OUTPUT,
    "objective-perturbation": _OBJECTIVE,
    "adaptive": _ADAPTIVE,
    "selection": _SELECTION,
    "prepared": _PREPARED,
}
"""By the kind of evidence, which is where the noise is."""
