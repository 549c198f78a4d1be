"""What every theorem says of noise in every step: composition by each accountant, last iterate.

Several models trained on the same batches are one model whose gradients are sqrt(models) longer,
and a group of records is asked of each theorem's whole profile, so every number is about the
release as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sordino.accounting import methods
from sordino.accounting.finding import Finding, Run
from sordino.accounting.group import group
from sordino.accounting.hidden_state import HiddenState
from sordino.accounting.profile import ApproximateProfile
from sordino.assessment.proving_bounds import refused, rows_within, together, used
from sordino.objectives.objective import Constants
from sordino.privacy import Relation
from sordino.proofs.evidence_kinds import StepsEvidence
from sordino.proofs.proof import Proof
from sordino.proofs.training import checked_convexity, gradient_bound, rates_of, run_of
from sordino.report.stages import Bound, Checked
from sordino.sgd.spec import TrainSpec

_METHOD_OF = {"pld": "pld", "moments": "rdp"}
_LINEAR = "linear-loss"
_SOURCES = {"last-iterate": "shifted interpolation (Bok, Su & Altschuler 2024)"}
"""Of theorems that may refuse before they name themselves."""
_SEEN = ("batches drawn by", "a convex and smooth loss", "plain SGD without momentum")
"""How assumptions begin that `checked_steps` and `_checked_hidden` check by numbers."""
_NOT_LINEAR = (
    "The law of the last iterate is known for losses that are linear in the weights; for this one "
    "it is a heuristic, and no bound."
)
_ONE_BUDGET = (
    "It proves one (epsilon, delta) for one record, and for {k} records of a person delta grows "
    "beyond {delta:g}; use a method that keeps the whole curve."
)


def steps_bounds(evidence: StepsEvidence, proof: Proof, delta: float) -> list[Bound]:
    """Every method, asked of this training; in no order."""
    run = run_of(evidence.spec, evidence.constants, evidence.rows, evidence.relation)
    run = run.with_noise(run.steps.noise_multiplier / math.sqrt(evidence.problems))
    chosen = _METHOD_OF.get(evidence.accountant)
    if chosen is None:
        chosen = "last-iterate" if proof.released == "final" else "pld"
    steps = checked_steps(evidence.spec, run, evidence.constants)
    extra = together(evidence.problems, evidence.rows_per_person)
    inside = (rows_within(evidence.norm), *_checked_hidden(evidence, run))
    bounds = list(
        run_bounds(
            run,
            proof,
            delta,
            chosen=chosen,
            rows_per_person=evidence.rows_per_person,
            single=evidence.problems == 1 and evidence.rows_per_person == 1,
            checked={"all": (*steps, *extra), "final": (*steps, *inside, *extra)},
        )
    )
    reason = "The noise is in every step, and this is about noise on the final weights alone."
    theorem = "sensitivity of the final weights, Gaussian mechanism (Wu et al. 2017; Chen et al.)"
    bounds.append(refused("output perturbation", theorem, reason))
    reason = "The noise is in the steps of the descent, not in the objective."
    name = "objective perturbation"
    return [*bounds, refused(name, f"{name} (Chaudhuri et al. 2011)", reason)]


def run_bounds(
    run: Run,
    proof: Proof,
    delta: float,
    *,
    chosen: str,
    rows_per_person: int,
    single: bool,
    checked: dict[str, tuple[Checked, ...]],
) -> Iterator[Bound]:
    """Every accounting method's bound for a run.

    Parameters
    ----------
    run
        All models together.
    proof, chosen
        What the certificate rests on, and by which method.
    rows_per_person, single
        Size of the group; whether it is one model and one record, as quoted formulas take it.
    checked
        Preconditions of theorems about "all" iterates and about the "final" one.
    """
    for finding in methods.account(run, delta):
        conditions = checked[finding.released]
        if finding.method == chosen:
            seen = [what for what in proof.assumes if what.startswith(_SEEN)]
            yield used(finding.title, proof, delta, conditions, known=seen)
        elif finding.kind == "as printed":
            if single:
                yield _quoted(finding)
        elif finding.kind == "estimate" or finding.method == _LINEAR:
            reason = finding.reason if finding.kind == "guarantee" else None
            yield refused(finding.title, "Annamalai 2024", reason or _NOT_LINEAR)
        elif not finding.method.startswith("notes-"):  # formulas without an epsilon
            yield _of(finding, rows_per_person, conditions)


def _quoted(finding: Finding) -> Bound:
    return Bound(
        finding.title,
        finding.value,
        finding.theorem,
        reason=finding.reason or "",
        kind="as printed",
    )


def _of(finding: Finding, rows_per_person: int, checked: tuple[Checked, ...]) -> Bound:
    theorem = finding.theorem or _SOURCES.get(finding.method, finding.title)
    if finding.profile is None:
        return refused(finding.title, theorem, finding.reason or "")
    if rows_per_person > 1 and isinstance(finding.profile, ApproximateProfile):
        reason = _ONE_BUDGET.format(k=rows_per_person, delta=finding.delta)
        return refused(finding.title, theorem, reason)
    profile = group(finding.profile, rows_per_person)
    notes = tuple(Checked(note) for note in profile.notes)
    return Bound(
        finding.title,
        profile.epsilon(finding.delta),
        profile.theorem,
        checked=(*checked, *notes),
    )


def checked_steps(spec: TrainSpec, run: Run, constants: Constants | None) -> tuple[Checked, ...]:
    """What composition rests on: clip, noise and sampling."""
    clip, bound = spec.max_grad_norm, gradient_bound(spec, constants)
    assert clip is not None  # there is noise
    twice = 2 if run.steps.relation is Relation.REPLACE_ONE else 1
    moved = f"{twice * bound:.6g}"
    if twice == 2:
        moved += f" = 2 x {bound:.6g}"
    noise = f"standard deviation {spec.noise_multiplier * clip:.6g} = {spec.noise_multiplier:.6g} "
    noise += f"x the clip {clip:.6g}"
    sampling = f"{run.steps.sampling}, {run.steps.steps:,} steps"
    if run.steps.sampling == "poisson":
        sampling += f", sample rate {run.steps.sample_rate:.6g}"
    return (
        Checked("one record moves a sum of gradients by at most", moved),
        Checked("Gaussian noise on every sum of gradients", noise),
        Checked("sampling of the batches", sampling),
        Checked("sums are divided by a fixed number", f"{spec.batch_size:,}"),
    )


def _checked_hidden(evidence: StepsEvidence, run: Run) -> tuple[Checked, ...]:
    """What theorems on the last iterate rest on; empty where they do not apply."""
    if not isinstance(run.hidden, HiddenState):
        return ()
    spec = evidence.spec
    constants = checked_convexity(spec, evidence.constants)
    loss = f"{spec.objective.kind}: curvature {constants.strongly_convex:.6g} to "
    loss += f"{constants.smooth:.6g}, the regulariser outside the clip"
    rate = float(np.max(rates_of(spec, evidence.rows)))
    rates = f"{rate:.6g} <= 2 / smoothness = {2 / constants.smooth:.6g}"
    contraction = float(np.max(run.hidden.contraction))
    return (
        Checked("the loss is convex and smooth", loss),
        Checked("learning rates at which no step pushes two runs apart", rates),
        Checked("every step is Lipschitz", f"with constant {contraction:.6g}"),
    )
