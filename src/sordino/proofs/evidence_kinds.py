"""The kinds of `Evidence`: noise on the output, in the steps, in the objective, as one goes."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import ClassVar

from sordino import checks
from sordino.accounting.selection import repeat_and_select
from sordino.models.constants import Constants, ObjectiveSpec
from sordino.privacy import Relation, Sampling
from sordino.proofs.adaptive import AdaptiveBudget
from sordino.proofs.evidence import MOST_CANDIDATES, Evidence, count
from sordino.proofs.objective import ObjectivePerturbation, problem_of
from sordino.proofs.output import OutputPerturbation, output_perturbation
from sordino.proofs.proof import Proof
from sordino.proofs.run import Run, run_of
from sordino.proofs.training import ACCOUNTANTS, prove_steps
from sordino.sgd.spec import TrainSpec

MOST_STEPS = 20_000_000
"""A record of more steps than this is refused instead of recomputed for hours."""


@dataclass(frozen=True, kw_only=True)
class TrainingEvidence(Evidence):
    """What every proof about a `TrainSpec` needs; `norm` is what no row's norm exceeds."""

    spec: TrainSpec
    rows: int
    norm: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.spec, TrainSpec):
            checks.fail("spec", type(self.spec).__name__, "to be a TrainSpec")
        count("rows", self.rows)
        _check_length(self.length)
        checks.positive("norm", self.norm)

    @property
    def constants(self) -> Constants:
        """What is proved of the loss for these rows."""
        constants = self.spec.objective.constants(self.norm)
        if constants is None:
            kind = self.spec.objective.kind
            checks.fail("objective", kind, "to be a linear model, of which theorems hold")
        return constants

    @property
    def loss_kind(self) -> str:
        """The loss that was trained."""
        return self.spec.objective.kind

    @property
    def length(self) -> int:
        """Steps of the training."""
        return self.spec.total_steps(self.rows)


@dataclass(frozen=True, kw_only=True)
class OutputEvidence(TrainingEvidence):
    """A training without noise, and Gaussian noise `sigma` on each final weight.

    `start_norm` is the norm of the initial weights, `source` who the training is by.
    """

    kind: ClassVar[str] = "output-perturbation"

    sigma: float
    start_norm: float = 0.0
    source: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive("sigma", self.sigma)
        checks.non_negative("start_norm", self.start_norm)
        _check_text("source", self.source)

    def done(self) -> OutputPerturbation:
        """The training with its sensitivity, and its noise."""
        found = output_perturbation(
            self.spec,
            self.constants,
            self.rows,
            self.relation,
            features=self.columns,
            norm=self.norm,
            problems=self.problems,
            rows_per_person=self.rows_per_person,
            start_norm=self.start_norm,
            source=self.source,
        )
        return replace(found, noise=self.sigma)

    def proof(self) -> Proof:
        """What these numbers prove."""
        return self.done().proof(self.sigma)

    def facts(self) -> dict[str, str]:
        """Schedule, sensitivity and noise."""
        found = self.done()
        batches = len(found.sensitivity.positions)
        moves = f"one record moves the released weights by at most {found.farthest:.6g}"
        if batches > 1:
            moves += f", {found.sensitivity.mean:.6g} in the mean over its {batches} batches"
        return {
            "schedule": _schedule(self.spec, self.rows),
            "sensitivity": f"{moves} (L2 norm over all {self.problems * self.columns} weights)",
            "noise": f"standard deviation {self.sigma:.6g} on every final weight",
        }


@dataclass(frozen=True, kw_only=True)
class StepsEvidence(TrainingEvidence):
    """A training with noise in every step; accountants are compared at `delta`."""

    kind: ClassVar[str] = "noisy-steps"

    delta: float
    accountant: str = "best"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive("noise_multiplier", self.spec.noise_multiplier)
        checks.one_of("accountant", self.accountant, tuple(ACCOUNTANTS))
        if not checks.probability_below_one("delta", self.delta) > 0:
            checks.fail("delta", self.delta, "> 0")

    def done(self) -> Run:
        """The noisy steps, of all models together."""
        return run_of(
            *(self.spec, self.constants, self.rows, self.relation),
            problems=self.problems,
            rows_per_person=self.rows_per_person,
        )

    def proof(self) -> Proof:
        """What these numbers prove."""
        return prove_steps(
            *(self.spec, self.constants, self.rows, self.relation, self.delta),
            accountant=self.accountant,
            problems=self.problems,
            rows_per_person=self.rows_per_person,
        )

    def facts(self) -> dict[str, str]:
        """Schedule, sensitivity and noise."""
        clip = self.spec.max_grad_norm
        assert clip is not None  # there is noise
        sigma = self.spec.noise_multiplier * clip
        moved = 2 * clip if self.relation is Relation.REPLACE_ONE else clip
        return {
            "schedule": _schedule(self.spec, self.rows),
            "sensitivity": (
                f"gradients are clipped to {clip:.6g}: one record moves a sum of them by at most "
                f"{moved:.6g}" + (" in each problem" if self.problems > 1 else "")
            ),
            "noise": (
                f"standard deviation {sigma:.6g} on every sum of clipped gradients "
                f"(noise multiplier {self.spec.noise_multiplier:.6g})"
            ),
        }


@dataclass(frozen=True, kw_only=True)
class ObjectiveEvidence(Evidence):
    """The minimiser of a noisy objective; the numbers are those of the SUM over the records.

    `sigma` is on each coefficient of the linear term, `sigma_out` on each released weight,
    `gradient_left` the norm of the gradient at which minimising stopped.
    """

    kind: ClassVar[str] = "objective-perturbation"

    loss: str
    huber_width: float
    norm: float
    regulariser: float
    sigma: float
    sigma_out: float
    gradient_left: float

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("huber_width", "norm", "regulariser", "sigma", "sigma_out"):
            checks.positive(name, getattr(self, name))
        checks.non_negative("gradient_left", self.gradient_left)
        checks.one_of("loss", self.loss, ("logistic", "huber-svm"))

    @property
    def loss_kind(self) -> str:
        """The loss that was minimised."""
        return self.loss

    def done(self) -> ObjectivePerturbation:
        """The mechanism these numbers describe."""
        problem = problem_of(
            kind=self.loss,
            curvature=ObjectiveSpec(self.loss, huber_width=self.huber_width).curvature,
            norm=self.norm,
            regulariser=self.regulariser,
            relation=self.relation,
        )
        return ObjectivePerturbation(
            sigma=self.sigma,
            sigma_out=self.sigma_out,
            gradient_left=self.gradient_left,
            problem=problem,
            problems=self.problems,
            rows_per_person=self.rows_per_person,
        )

    def proof(self) -> Proof:
        """What these numbers prove."""
        return self.done().proof()

    def facts(self) -> dict[str, str]:
        """Schedule, sensitivity and noise."""
        return {
            "schedule": (
                f"the minimiser of the summed {self.loss} loss with a regulariser of "
                f"{self.regulariser:.6g}, found until the gradient is below "
                f"{self.gradient_left:.3g}"
            ),
            "sensitivity": f"the gradient of one record's loss is at most {self.norm:.6g}",
            "noise": (
                f"standard deviation {self.sigma:.6g} on each coefficient of a random linear term, "
                f"and {self.sigma_out:.6g} on every final weight"
            ),
        }


@dataclass(frozen=True, kw_only=True)
class AdaptiveEvidence(Evidence):
    """A descent that asked a filter of `rho` (zero-concentrated DP) before every look."""

    kind: ClassVar[str] = "adaptive"

    rho: float
    clip: float

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive("rho", self.rho)
        checks.positive("clip", self.clip)

    def done(self) -> AdaptiveBudget:
        """The filter."""
        return AdaptiveBudget(self.rho, self.relation, self.rows_per_person)

    def proof(self) -> Proof:
        """What these numbers prove."""
        return self.done().proof()

    def facts(self) -> dict[str, str]:
        """Schedule, sensitivity and noise."""
        return {
            "schedule": f"steps chosen as it went, within a budget of rho = {self.rho:.6g}",
            "sensitivity": f"gradients are clipped to {self.clip:.6g}",
            "noise": "Gaussian on sums of gradients, Gumbel on choices, each as it was charged",
        }


@dataclass(frozen=True, kw_only=True)
class SelectionEvidence(Evidence):
    """The best of a random number of trainings, each of a candidate drawn from a public list.

    `mean` and `shape` are those of `sordino.accounting.selection.repeat_and_select`; `selected`
    says which candidate the released model is of.
    """

    kind: ClassVar[str] = "selection"

    candidates: tuple[Evidence, ...]
    selected: int
    mean: float
    shape_of_runs: float

    def __post_init__(self) -> None:
        super().__post_init__()
        many = len(self.candidates)
        if not 1 <= many <= MOST_CANDIDATES:
            checks.fail("candidates", f"[{many}]", f"to be 1 to {MOST_CANDIDATES}")
        checks.index("selected", self.selected, many)
        checks.positive("mean", self.mean)
        checks.non_negative("shape_of_runs", self.shape_of_runs, allow_infinite=True)
        for each in self.candidates:
            if not isinstance(each, Evidence) or isinstance(each, SelectionEvidence):
                checks.fail("candidates", "[...]", "to be trainings, not selections")
            alike = each.relation is self.relation and each.rows_per_person == self.rows_per_person
            if not alike:
                checks.fail("candidates", "[...]", "to have one relation and one unit")
        _check_length(sum(each.length for each in self.candidates))
        if self.candidates[self.selected].shape != self.shape:
            checks.fail("selected", self.selected, "to have as many weights as were released")

    @functools.cached_property
    def proofs(self) -> dict[Evidence, Proof]:
        """What is proved of each candidate alone."""
        return {each: each.proof() for each in dict.fromkeys(self.candidates)}

    def done(self) -> Proof:
        """What is proved of the chosen training alone."""
        return self.proofs[self.candidates[self.selected]]

    def proof(self) -> Proof:
        """What these numbers prove."""
        chosen = self.done()
        profiles = [proof.profile for proof in self.proofs.values()]
        profile = repeat_and_select(profiles, mean=self.mean, shape=self.shape_of_runs)
        return Proof(
            profile=profile,
            sampling=chosen.sampling,
            assumes=(
                *chosen.assumes,
                "the same of every other candidate, with its own numbers",
                "the number of trainings was drawn before them and independently of the records",
                "every training drew its candidate and its randomness afresh",
                "the best was chosen by the released weights and public records alone",
                "nothing is said of the other trainings: not their scores, nor how many there were",
            ),
            released="final",
            unit=chosen.unit,
            rests_on="repeat-and-select",
        )

    def facts(self) -> dict[str, str]:
        """Schedule, sensitivity and noise."""
        chosen = self.candidates[self.selected].facts()
        runs = f"the best of {self.runs_in_words}; the released one: "
        return {**chosen, "schedule": runs + chosen["schedule"]}

    @property
    def runs_in_words(self) -> str:
        """How many trainings, of how many candidates."""
        law = f"truncated negative binomial of shape {self.shape_of_runs:g}"
        law = "Poisson" if math.isinf(self.shape_of_runs) else law
        return (
            f"a random number of trainings ({law}, mean {self.mean:g}) over "
            f"{len(self.candidates)} candidates"
        )


KINDS: dict[str, type[Evidence]] = {
    each.kind: each
    for each in (
        OutputEvidence,
        StepsEvidence,
        ObjectiveEvidence,
        AdaptiveEvidence,
        SelectionEvidence,
    )
}


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        checks.fail(name, type(value).__name__, "to be a text")


def _check_length(steps: int) -> None:
    if steps > MOST_STEPS:
        hint = "It would take hours to recompute."
        checks.fail("steps", steps, f"<= {MOST_STEPS:,}", hint)


def _schedule(spec: TrainSpec, rows: int) -> str:
    """The training in words."""
    steps, per_epoch = spec.total_steps(rows), spec.steps_per_epoch(rows)
    parts = [f"{steps:,} steps with batches of {spec.batch_size:,} of {rows:,} records"]
    if spec.order == Sampling.POISSON:
        rate = spec.sample_rate if spec.sample_rate is not None else spec.batch_size / rows
        parts = [f"{steps:,} steps, each record in each batch with probability {rate:.6g}"]
    if spec.order != Sampling.POISSON and per_epoch > 1:
        parts.append(
            f"{steps / per_epoch:.4g} epochs of {per_epoch:,} batches, {spec.written_order}"
        )
    parts.append(_rate(spec))
    if spec.average_every is not None:
        parts.append(f"averaged and restarted every {spec.average_every} epochs")
    if spec.max_grad_norm is not None:
        parts.append(f"gradients clipped to {spec.max_grad_norm:.6g}")
    parts.append(f"{spec.objective.kind} loss, regulariser {spec.objective.l2:.6g}")
    return ", ".join(parts)


def _rate(spec: TrainSpec) -> str:
    schedule = spec.schedule
    if schedule.kind == "constant":
        return f"learning rate {schedule.rate:.6g}"
    if schedule.kind == "per-epoch":
        return f"learning rate {schedule.rate:.6g} / h in epoch h"
    return f"learning rate min(1 / {schedule.smooth:.6g}, 1 / ({schedule.strongly_convex:.6g} t))"
