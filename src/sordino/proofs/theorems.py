"""The table of theorems: what each proves of what was done, or the reason why it proves nothing.

`account`, `calibrate`, estimators, certificates and assessments ask here and nowhere else. What was
done is one of five values, by where the noise is: a `Run` (in every step), an `OutputPerturbation`
(on the final weights), an `ObjectivePerturbation` (in the objective), an `AdaptiveBudget` (a filter
asked before every look), or the `Proof` of the training that was chosen from several.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from sordino import checks, sensitivity
from sordino.accounting import calibrate, classical, dp_sgd, gaussian, renyi, zcdp
from sordino.accounting.classical import AsPrinted
from sordino.accounting.dp_sgd import NoisySteps
from sordino.accounting.group import group
from sordino.accounting.last_iterate import permuted
from sordino.accounting.last_iterate.convex import linear_heuristic, linear_loss
from sordino.accounting.profile import ApproximateProfile, LossProfile, Profile, RenyiProfile
from sordino.errors import NotApplicable
from sordino.privacy import PASSES, Estimate, Relation, Sampling
from sordino.proofs.adaptive import AdaptiveBudget
from sordino.proofs.objective import ObjectivePerturbation
from sordino.proofs.output import OutputPerturbation
from sordino.proofs.proof import Proof
from sordino.proofs.run import Released, Run
from sordino.sensitivity import Sensitivity

Kind = Literal["guarantee", "estimate", "as printed"]
Conditions = tuple[tuple[str, str], ...]
"""What was checked, each with its numbers."""
Done = TypeVar("Done")


@dataclass(frozen=True)
class Stated:
    """An answer with what was checked on the way: a profile, or one epsilon at the delta asked."""

    proved: Profile | float
    checked: Conditions = ()


Answer = Profile | Stated | Estimate | AsPrinted


@dataclass(frozen=True)
class Theorem(Generic[Done]):
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
        Conditions on relation, sampling, constants and delta that are checked before: each raises
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
    source: str | Callable[[Done], str]
    ask: Callable[[Done, float], Answer]
    needs: tuple[Callable[[Done, float], None], ...] = ()
    released: Released = "final"
    noise: Callable[[Done, float, float], float | AsPrinted] | None = None
    about: Callable[[Done], bool] = lambda done: True

    def check(self, done: Done, delta: float) -> None:
        """Raise NotApplicable where a need is not met."""
        for need in self.needs:
            need(done, delta)

    def asked(self, done: Done, delta: float) -> Answer:
        """What it says of what was done; raises NotApplicable with the condition that fails."""
        self.check(done, delta)
        return self.ask(done, delta)

    def least_noise(self, done: Done, epsilon: float, delta: float) -> float | AsPrinted:
        """The least noise for a budget; that of `done` is ignored."""
        assert self.noise is not None
        self.check(done, delta)
        return self.noise(done, epsilon, delta)

    def profile(self, done: Done, delta: float) -> Profile:
        """What is proved, as a whole curve."""
        answer = self.asked(done, delta)
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
    kind: Kind = "guarantee"
    value: float | None = None
    theorem: str = ""
    reason: str | None = None
    milliseconds: float = 0.0
    profile: Profile | None = None
    notes: tuple[str, ...] = ()
    checked: Conditions = ()
    source: str = ""

    @property
    def applies(self) -> bool:
        """Whether this is a proved bound."""
        return self.kind == "guarantee" and self.reason is None

    def filled(self, answer: Answer, sought: float | None = None, group_of: int = 1) -> Finding:
        """With what was answered; the value is its epsilon, or what was sought."""
        if isinstance(answer, AsPrinted):
            quoted = replace(self, kind="as printed", reason=str(answer))
            return replace(quoted, value=answer.value, theorem=answer.formula)
        if isinstance(answer, Estimate):  # never a guarantee
            value = answer.epsilon if sought is None else sought
            estimated = replace(self, kind="estimate", reason=str(answer))
            return replace(estimated, value=value, theorem=answer.method)
        if isinstance(answer, Stated):
            found = replace(self, theorem=self.source, checked=answer.checked)
            if not isinstance(answer.proved, Profile):
                return replace(found, value=answer.proved)
            return replace(found.filled(answer.proved, sought), checked=answer.checked)
        if group_of > 1 and isinstance(answer, ApproximateProfile):
            reason = _ONE_BUDGET.format(k=group_of, delta=self.delta)
            return replace(self, theorem=answer.theorem, reason=reason)
        notes = answer.notes
        if isinstance(answer, LossProfile):
            notes += answer.fallbacks(self.delta)
        return replace(
            self,
            value=answer.epsilon(self.delta) if sought is None else sought,
            theorem=answer.theorem,
            profile=answer,
            notes=notes,
            checked=tuple((note, "") for note in answer.notes),
        )


_ONE_BUDGET = (
    "It proves one (epsilon, delta) for one record, and for {k} records of a person delta grows "
    "beyond {delta:g}; use a method that keeps the whole curve."
)


# Asking -------------------------------------------------------------------------------------------


def account(run: Run, delta: float) -> list[Finding]:
    """What every theorem on noisy steps says of the run at `delta`."""
    delta = checks.probability_below_one("delta", delta)
    return list(_each(STEPS, run, run.steps.relation, delta, _epsilon))


def calibrated(run: Run, epsilon: float, delta: float) -> list[Finding]:
    """The least noise multiplier for (epsilon, delta) by every theorem; the run's is ignored."""
    target = _budget(epsilon)
    if checks.probability_below_one("delta", delta) == 0:
        checks.fail("delta", delta, "> 0", "Gaussian noise has no guarantee at delta = 0.")

    def least(theorem: Theorem[Run], run: Run, blank: Finding) -> Finding:
        noise = theorem.least_noise(run, target, delta)
        if isinstance(noise, AsPrinted):
            return blank.filled(noise)
        return blank.filled(theorem.ask(run.with_noise(noise), delta), noise, run.rows_per_person)

    return list(_each(STEPS, run.with_noise(1.0), run.steps.relation, delta, least))


def most(
    run_at: Callable[[int], Run], epsilon: float, delta: float, *, at_most: int
) -> list[Finding]:
    """The largest count (of steps, epochs, ...) whose run every theorem proves the budget for."""
    target = _budget(epsilon)
    checks.probability_below_one("delta", delta)

    def largest(theorem: Theorem[Run], run: Run, blank: Finding) -> Finding:
        if theorem.name == "linear-loss" and not run.linear:
            raise NotApplicable("It is an estimate for this loss, and no budget rests on one.")

        def holds(count: int) -> bool:
            try:
                value = _epsilon(theorem, run_at(count), blank).value
            except NotApplicable:
                return False
            return value is not None and value <= target

        # Hidden states forget: their epsilon may stay below the budget for ever.
        count = at_most if holds(at_most) else calibrate.largest(holds, at_most)
        finding = _epsilon(theorem, run_at(max(count, 1)), blank)
        if count == 0:
            raise NotApplicable(
                f"Not even 1 meets this budget: its epsilon is {finding.value:.4g}."
            )
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
        hint = "Guarantees for different relations cannot be ranked."
        checks.fail("relations", "several", "to be one and the same", hint)
    sign = -1.0 if largest else 1.0

    def rank(finding: Finding) -> tuple[float, bool]:
        # Of equal ones that which covers more.
        return sign * (finding.value or 0.0), finding.released == "final"

    return min(applicable[::-1], key=rank, default=None)


def named(name: str) -> Theorem[Run]:
    """The theorem on noisy steps of this name."""
    return next(theorem for theorem in STEPS if theorem.name == name)


def beside(proof: Proof, kind: str, done: object, delta: float) -> Iterator[Finding]:
    """What every theorem on such a release says of this one, that which `proof` rests on included.

    `kind` is that of the evidence, a key of `THEOREMS`, and `done` what the evidence describes.
    """

    def compute(theorem: Theorem[Any], done: object, blank: Finding) -> Finding:
        if theorem.name == proof.rests_on:
            return blank.filled(proof.profile)
        return _epsilon(theorem, done, blank)

    return _each(THEOREMS[kind], done, proof.profile.relation, delta, compute)


def _each(
    theorems: Sequence[Theorem[Done]],
    done: Done,
    relation: Relation,
    delta: float,
    compute: Callable[[Theorem[Done], Done, Finding], Finding],
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
                raise NotApplicable(
                    "Every iterate is released, and this is a bound on the last one alone: release "
                    "only the final model."
                )
            finding = compute(theorem, done, finding)
        except NotApplicable as refusal:
            finding = replace(finding, reason=str(refusal))
        yield replace(finding, milliseconds=1000 * (time.perf_counter() - start))


def _epsilon(theorem: Theorem[Done], done: Done, blank: Finding) -> Finding:
    size = done.rows_per_person if isinstance(done, Run) else 1
    return blank.filled(theorem.asked(done, blank.delta), group_of=size)


def _budget(epsilon: float) -> float:
    hint = "Pass the budget you promise, such as 1.0."
    return checks.positive("epsilon", epsilon, hint, allow_infinite=True)


# Noise in every step ------------------------------------------------------------------------------


def _of_number_of_records(run: Run, delta: float) -> None:
    dp_sgd.refuse(run.steps)


def _drawn_at_random(run: Run, delta: float) -> None:
    if run.steps.sampling in (*PASSES, Sampling.FULL):
        raise NotApplicable("The notes' formula is about sampled batches.")


def _something_to_hide(run: Run, delta: float) -> None:
    if run.steps.is_trivial or run.steps.noise_multiplier in (0.0, math.inf):
        raise NotApplicable("The notes' formula needs noise, records and steps.")


def _not_pure(run: Run, delta: float) -> None:
    if delta == 0 and not run.steps.is_trivial:
        raise NotApplicable("Gaussian noise has no guarantee at delta = 0.")


def _poisson(run: Run, delta: float) -> None:
    if run.steps.sampling != Sampling.POISSON:
        raise NotApplicable("The exact law for linear losses is known for Poisson sampling.")


def _known_loss(run: Run, delta: float) -> None:
    if isinstance(run.hidden, NotApplicable):
        raise run.hidden


def _notes(
    name: str, title: str, enough: Callable[..., AsPrinted], *, epsilon: bool = False
) -> Theorem[Run]:
    """A formula of the lecture notes, for comparison; most are printed for noise only."""

    def ask(run: Run, delta: float) -> AsPrinted:
        if not epsilon:
            raise NotApplicable("The notes print it for noise, without a constant; see calibrate.")
        if delta == 0:
            raise NotApplicable("The notes' formula needs delta > 0.")
        steps = run.steps
        return classical.notes_naive_epsilon(
            steps.noise_multiplier, steps.sample_rate, steps.steps, delta
        )

    def noise(run: Run, epsilon: float, delta: float) -> AsPrinted:
        _drawn_at_random(run, delta)
        _something_to_hide(run, delta)
        if math.isinf(epsilon):
            raise NotApplicable("The notes' formula needs a finite epsilon.")
        return enough(epsilon, delta, run.steps.sample_rate, run.steps.steps)

    return Theorem(
        *(name, title, "lecture notes, as printed", ask),
        needs=(_drawn_at_random, _something_to_hide) if epsilon else (),
        released="all",
        noise=noise,
        about=lambda run: run.problems == 1 and run.rows_per_person == 1,
    )


def _composition(name: str, title: str, rule: classical.Composition) -> Theorem[Run]:
    """Of sampled steps; where a record is met once a pass, of passes without sampling."""

    def numbers(steps: NoisySteps) -> tuple[float, int, float]:
        """Rate, count and the sensitivity of one step before sampling."""
        # A fixed-size batch swaps records even where one is zeroed.
        size = 2.0 if steps.sampling == Sampling.FIXED_SIZE else steps.sensitivity
        if steps.is_trivial:
            return 0.0, 0, size
        if steps.sampling in (*PASSES, Sampling.FULL):
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

    return Theorem(
        name, title, title, ask, needs=(_of_number_of_records,), released="all", noise=noise
    )


def _accountant(name: str, title: str, of: Callable[..., Profile]) -> Theorem[Run]:
    """The moments accountant or privacy loss distributions."""

    def how(run: Run) -> dict[str, Any]:
        return {
            "sampling": run.steps.sampling,
            "relation": run.steps.relation,
            "steps_per_epoch": run.steps.steps_per_epoch,
        }

    def ask(run: Run, delta: float) -> Profile:
        steps = run.steps
        one = of(steps.noise_multiplier, steps.sample_rate, steps.steps, **how(run))
        return group(one, run.rows_per_person)

    def noise(run: Run, epsilon: float, delta: float) -> float:
        if run.rows_per_person > 1:
            return calibrate.least_noise(_with_noise(ask, run, delta), epsilon, delta)
        numbers = epsilon, delta, run.steps.sample_rate, run.steps.steps
        return calibrate.noise_multiplier(*numbers, **how(run), method=name)

    return Theorem(
        name, title, title, ask, needs=(_of_number_of_records,), released="all", noise=noise
    )


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
    steps = run.steps
    assert not isinstance(run.hidden, NotApplicable)  # `_known_loss`
    if steps.is_trivial:
        numbers = math.inf, steps.sample_rate, steps.steps
        return dp_sgd.pld(*numbers, sampling=steps.sampling, relation=steps.relation)
    return group(run.hidden.profile(steps, delta), run.rows_per_person)


def _of_linear(steps: NoisySteps) -> dict[str, Any]:
    return {
        "noise_multiplier": steps.noise_multiplier,
        "sample_rate": steps.sample_rate,
        "steps": steps.steps,
    }


def _linear(run: Run, delta: float) -> Profile:
    one = linear_loss(**_of_linear(run.steps), relation=run.steps.relation)
    return group(one, run.rows_per_person)


def _linear_or_heuristic(run: Run, delta: float) -> Profile | Estimate:
    """Annamalai's last iterate of a linear loss: proved for those, a heuristic for all others."""
    proved = _linear(run, delta)  # also refuses relations
    return proved if run.linear else linear_heuristic(**_of_linear(run.steps), delta=delta)


STEPS: tuple[Theorem[Run], ...] = (
    _notes("notes-naive", "the notes' naive formula", classical.notes_naive_noise, epsilon=True),
    _notes("notes-strong", "the notes' strong formula", classical.notes_strong_noise),
    _notes("notes-moments", "the notes' moments formula", classical.notes_moments_noise),
    _composition("naive", "naive composition", classical.naive),
    _composition("strong-dwork", "strong composition (Dwork et al.)", classical.strong_dwork),
    _composition("strong", "strong composition (Kairouz et al.)", classical.strong_kairouz),
    _accountant("rdp", "moments accountant (Renyi DP)", dp_sgd.rdp),
    _accountant("pld", "privacy loss distributions", dp_sgd.pld),
    Theorem(
        *("last-iterate", "last iterate (hidden state)"),
        source="shifted interpolation (Bok, Su & Altschuler 2024)",
        ask=_last_iterate,
        needs=(_not_pure, _known_loss),
        noise=_searched(_last_iterate),
    ),
    Theorem(
        *("linear-loss", "last iterate, linear loss"),
        source="Annamalai 2024",
        ask=_linear_or_heuristic,
        needs=(_poisson,),
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


def _elsewhere(name: str, title: str, source: str, reason: str) -> Theorem[Any]:
    """A theorem on noise in another place, or of another kind."""

    def ask(done: object, delta: float) -> Profile:
        raise NotApplicable(reason)

    return Theorem(name, title, source, ask)


def _secret_place(done: OutputPerturbation, delta: float) -> None:
    if done.secret_place:
        return
    if done.spec.steps_per_epoch(done.batches["n"]) > 1:
        raise NotApplicable(
            "The order of the records is known; a secret one needs order='permute-once'."
        )
    raise NotApplicable(
        "Every step uses all records: a record has one place only, and no order hides it."
    )


def _distance(done: OutputPerturbation, moved: float) -> Conditions:
    return (("one record moves the released weights by at most", f"{moved:.6g}"), noise_of(done))


def noise_of(done: OutputPerturbation) -> tuple[str, str]:
    """The noise on the weights, as a condition."""
    weights = f"{done.problems * done.features:,}"
    numbers = f"standard deviation {done.noise:.6g} on each of {weights}"
    return "Gaussian noise on every released weight", numbers


def _gaussian_source(done: OutputPerturbation) -> str:
    return f"{done.sensitivity.theorem}; {_EXACT}"


def _gaussian(done: OutputPerturbation, delta: float) -> Stated:
    moved = done.farthest
    return Stated(done.gaussian(moved, _gaussian_source(done)), _distance(done, moved))


def _is_mixed(done: OutputPerturbation) -> bool:
    """Whether Renyi divergences are averaged over the record's place."""
    return done.secret_place and done.same_order


def _renyi(title: str, theorem: str, *, mixed: bool) -> Theorem[OutputPerturbation]:
    """Through Renyi DP, as Chen, Lee & Kifer go."""

    def source(done: OutputPerturbation) -> str:
        return f"{done.sensitivity.theorem}; {theorem}"

    def ask(done: OutputPerturbation, delta: float) -> Stated:
        of = done.sensitivity
        one = permuted.renyi_mixture(
            sensitivities=of.positions if mixed else [done.farthest],
            weights=of.shares if mixed else None,
            sigma=done.noise,
            relation=of.relation,
        )
        found = group(one, done.rows_per_person).noted(theorem=source(done))
        return Stated(found, (("converted by the least of three theorems, at the best order", ""),))

    name = "renyi-mixture" if mixed else "renyi"
    return Theorem(name, title, source, ask, about=lambda done: _is_mixed(done) is mixed)


def _classical(done: OutputPerturbation, delta: float) -> Stated:
    """The textbook's formula, where it is a theorem."""
    moved = done.farthest * done.rows_per_person
    epsilon = moved * math.sqrt(2 * math.log(1.25 / delta)) / done.noise * (1 + 1e-12)
    gaussian.classical_sigma(epsilon, delta, moved)  # refuses what is no theorem
    return Stated(epsilon, (("epsilon < 1", f"{epsilon:.6g}"),))


def _sensitivity(
    name: str,
    title: str,
    source: str,
    bound: Callable[[OutputPerturbation], Sensitivity],
    *needs: Callable[[OutputPerturbation, float], None],
) -> Theorem[OutputPerturbation]:
    """A way to bound how far one record moves the final weights."""
    statement = f"{source}; {_EXACT}"

    def ask(done: OutputPerturbation, delta: float) -> Stated:
        found = bound(done)
        moved = done.moved(found)
        said = tuple((condition, "") for condition in found.conditions)
        return Stated(done.gaussian(moved, statement), (*said, *_distance(done, moved)))

    return Theorem(name, title, statement, ask, needs=needs)


def _strongly_convex(done: OutputPerturbation, delta: float) -> None:
    if done.batches["constants"].strongly_convex == 0:
        raise NotApplicable("The loss is not strongly convex; train with l2 > 0.")


def _falling_rate(done: OutputPerturbation, delta: float) -> None:
    if done.spec.schedule.kind != "strongly-convex" or done.spec.restart_every is not None:
        raise NotApplicable(
            "The learning rate must be min(1 / smoothness, 1 / (strong convexity t)) at the t-th "
            "step, without restarts; another schedule was used."
        )


def _constant_rate(done: OutputPerturbation, delta: float) -> None:
    if done.spec.schedule.kind != "constant":
        raise NotApplicable("It is about a constant learning rate, and this one falls.")


def _no_average(done: OutputPerturbation, delta: float) -> None:
    if done.spec.average_every is not None:
        raise NotApplicable(
            "Averages of iterates are released, and the theorem is about the last iterate; train "
            "with average_every=None."
        )


def _one_order(done: OutputPerturbation, delta: float) -> None:
    if not done.same_order:
        raise NotApplicable("Every pass must have the same batches; use order='permute-once'.")


def _all_records(done: OutputPerturbation, delta: float) -> None:
    rows, batch = done.batches["n"], done.spec.batch_size
    if batch != rows:
        raise NotApplicable(
            f"Every step must use all {rows:,} records, and batches have {batch:,}; use "
            "method='output-gd'."
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
    found = sensitivity.bolt_on_strongly_convex(
        steps=len(done.rates),
        relation=done.sensitivity.relation,
        schedule_smooth=schedule.smooth,
        schedule_strongly_convex=schedule.strongly_convex,
        same_order=done.same_order,
        **batches,
    )
    return replace(found, conditions=(*found.conditions, *said))


def _any_number_of_passes(done: OutputPerturbation) -> Sensitivity:
    relation, rate = done.sensitivity.relation, done.spec.schedule.rate
    return sensitivity.fixed_step_limit(rate=rate, relation=relation, **done.batches)


def _of_descent(done: OutputPerturbation) -> dict[str, Any]:
    """What theorems on full batches ask."""
    return {
        "constants": done.batches["constants"],
        "n": done.batches["n"],
        "rate": done.spec.schedule.rate,
        "relation": done.sensitivity.relation,
    }


OUTPUT: tuple[Theorem[OutputPerturbation], ...] = (
    Theorem(
        *("gaussian-mixture", "exact Gaussian, random sensitivity"),
        source="mean over the record's batch, by convexity of the hockey-stick divergence",
        ask=lambda done, delta: done.profile(done.noise),
        needs=(_secret_place,),
    ),
    Theorem("gaussian", "exact Gaussian, largest sensitivity", _gaussian_source, _gaussian),
    _renyi(
        "Renyi DP, random sensitivity",
        "Renyi DP, mean over the record's batch (Chen, Lee & Kifer 2019, Proposition 3)",
        mixed=True,
    ),
    _renyi(
        "Renyi DP, largest sensitivity",
        "Renyi DP of the Gaussian mechanism (Mironov 2017)",
        mixed=False,
    ),
    Theorem(
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
        *(_strongly_convex, _falling_rate, _no_average),
    ),
    _sensitivity(
        *("any-passes", "any number of passes (Chen et al.)"),
        "Chen, Lee & Kifer 2019, Proposition 2: a fixed rate, any number of passes",
        _any_number_of_passes,
        *(_constant_rate, _no_average, _one_order),
    ),
    _sensitivity(
        *("gradient-descent", "gradient descent, closed form"),
        "contraction of full-batch steps, summed (docs/math.md 10.3)",
        lambda done: sensitivity.gradient_descent(steps=len(done.rates), **_of_descent(done)),
        *(_all_records, _constant_rate, _no_average),
    ),
    _sensitivity(
        *("gradient-descent-zhang", "gradient descent (Zhang et al.)"),
        "Zhang et al. 2017, quoted by Chen, Lee & Kifer 2019: 5 R (L + mu) / (n mu L)",
        lambda done: sensitivity.zhang_gradient_descent(**_of_descent(done)),
        *(_all_records, _constant_rate, _no_average),
    ),
    _elsewhere(
        *("steps", "composition, last iterate", _NOISY_STEPS),
        "No step of this training adds noise, so there is nothing to compose: the noise is on the "
        "final weights alone.",
    ),
    _elsewhere(
        *("objective", "objective perturbation", _CHAUDHURI),
        "The noise is on the weights that were found, not in the objective they minimise.",
    ),
)


# Noise in the objective ---------------------------------------------------------------------------


def _is_logistic(noisy: ObjectivePerturbation) -> bool:
    return noisy.problem["kind"] == "logistic"


def _any_loss(noisy: ObjectivePerturbation, delta: float) -> Stated:
    """Without what is special about the logistic loss: the determinant is paid in full."""
    general = replace(noisy, problem={**noisy.problem, "kind": "huber-svm"})
    checked = (("curvature of the loss at most", f"{noisy.problem['curvature']:.6g}"),)
    return Stated(general.profile().noted(theorem=_ANY_LOSS), checked)


def _objective_renyi(noisy: ObjectivePerturbation, delta: float) -> Stated:
    """Through the Renyi divergences of the law that bounds the privacy loss."""
    one = noisy.of_one_record()
    values = one.renyi(renyi.ORDERS)
    if values is None:
        raise NotApplicable("The release has no bounded Renyi divergence.")
    found = RenyiProfile(
        orders=tuple(renyi.ORDERS.tolist()),
        values=tuple(values.tolist()),
        relation=one.relation,
        theorem=_OBJECTIVE_RENYI,
    )
    return Stated(group(found, noisy.rows_per_person).noted(theorem=_OBJECTIVE_RENYI))


def _of_the_minimiser(noisy: ObjectivePerturbation, delta: float) -> Profile:
    """Output perturbation of the exact minimiser, which this is not."""
    moved = noisy.moved / noisy.problem["regulariser"]
    formula = "2 R / (n l2)" if noisy.moved > noisy.problem["norm"] else "R / (n l2)"
    raise NotApplicable(
        f"One record moves the exact minimiser by up to {formula} = {moved:.6g}, and the noise on "
        f"the weights, {noisy.sigma_out:.3g}, only hides the solver's error: the noise that "
        "protects is in the objective."
    )


def _whole(noisy: ObjectivePerturbation, delta: float) -> Profile:
    return noisy.profile()


_LINEAR_MODEL = "objective perturbation of a linear model (docs/math.md 10.1)"
_ANY_LOSS = (
    "objective perturbation of any linear model, the determinant's e^kappa paid in full "
    "(docs/math.md 10.1)"
)
_OBJECTIVE_RENYI = "Renyi DP of objective perturbation, converted by the least of three theorems"
OBJECTIVE: tuple[Theorem[ObjectivePerturbation], ...] = (
    Theorem(
        *("objective-logistic", "objective perturbation, logistic loss", _LINEAR_MODEL, _whole),
        about=_is_logistic,
    ),
    Theorem(
        *("objective", "objective perturbation", _LINEAR_MODEL, _whole),
        about=lambda noisy: not _is_logistic(noisy),
    ),
    Theorem(
        *("objective-any-loss", "objective perturbation, any loss", _ANY_LOSS, _any_loss),
        # Several are composed by the lesser of the two laws.
        about=lambda noisy: _is_logistic(noisy) and noisy.problems == 1,
    ),
    Theorem("objective-renyi", "Renyi DP", _OBJECTIVE_RENYI, _objective_renyi),
    _elsewhere(
        *("objective-pure", "objective perturbation, delta = 0"),
        "Chaudhuri, Monteleoni & Sarwate 2011, Theorem 9",
        "The noise in the objective is Gaussian, and the theorem is about noise whose length has a "
        "Gamma law, which proves delta = 0.",
    ),
    Theorem(
        *("output", "output perturbation"),
        "output perturbation of the minimiser (Chaudhuri et al. 2011), Gaussian mechanism",
        _of_the_minimiser,
    ),
    _elsewhere(
        *("steps", "composition, last iterate", _NOISY_STEPS),
        "The minimiser is released, not the end of a descent with noise in its steps: there are no "
        "noisy steps to compose.",
    ),
)


# A budget spent as one goes, and the best of several ----------------------------------------------


def _closed_form(done: AdaptiveBudget, delta: float) -> Stated:
    rho = done.profile().rho
    epsilon = zcdp.bun_steinke(rho, delta) * (1 + 1e-12)
    return Stated(epsilon, (("zero-concentrated DP", f"rho = {rho:.6g}"),))


ADAPTIVE: tuple[Theorem[AdaptiveBudget], ...] = (
    Theorem(
        *("zcdp-filter", "zCDP filter", "Feldman & Zrnic 2021; Bun & Steinke 2016"),
        ask=lambda done, delta: done.profile(),
        released="all",
    ),
    Theorem(
        *("zcdp-closed-form", "zCDP, closed form"),
        "rho + 2 sqrt(rho ln(1 / delta)) (Bun & Steinke 2016, Proposition 1.3)",
        _closed_form,
        released="all",
    ),
    _elsewhere(
        *("pld", "privacy loss distributions", "Zhu, Dong & Wang 2022"),
        "How much each step spends was decided after looking at the records, and this needs it "
        "fixed beforehand; the filter is proved for zero-concentrated DP.",
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
    raise NotApplicable(
        "It is about one training, and which of several is released was chosen by looking at them: "
        "that is paid for by the theorem on choosing."
    )


SELECTION: tuple[Theorem[Proof], ...] = (
    # What the choice costs depends on all candidates: the evidence proves it.
    Theorem("repeat-and-select", "repeat and select", "Papernot & Steinke 2022", _chosen_alone),
    Theorem(
        *("chosen-alone", "the chosen training alone"),
        source=lambda chosen: chosen.profile.theorem,
        ask=_chosen_alone,
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
_CONVEX = (
    "The loss of a network is not convex, and the theorem needs a convex one; use --model logistic "
    "or svm."
)
_NOT_NETWORKS = (
    _elsewhere(
        *("output", "output perturbation"),
        "sensitivity of the final weights (Wu et al. 2017)",
        _CONVEX,
    ),
    _elsewhere("objective", "objective perturbation", _CHAUDHURI, _CONVEX),
)
THEOREMS: dict[str, tuple[Theorem[Any], ...]] = {
    "noisy-steps": (*STEPS, *_NOT_STEPS),
    "noisy-steps-of-a-network": (*STEPS, *_NOT_NETWORKS),
    "output-perturbation": OUTPUT,
    "objective-perturbation": OBJECTIVE,
    "adaptive": ADAPTIVE,
    "selection": SELECTION,
}
"""By the kind of evidence, which is where the noise is."""
