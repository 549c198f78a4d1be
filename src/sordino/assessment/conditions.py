"""What the theorem that a certificate rests on was checked for, number by number, in words."""

from __future__ import annotations

import math

import numpy as np

from sordino import sensitivity
from sordino.accounting.last_iterate.hidden_state import HiddenState
from sordino.models.constants import Constants
from sordino.privacy import Relation, Sampling
from sordino.proofs.evidence import Evidence
from sordino.proofs.evidence_kinds import (
    AdaptiveEvidence,
    ObjectiveEvidence,
    OutputEvidence,
    SelectionEvidence,
    StepsEvidence,
)
from sordino.proofs.objective import ObjectivePerturbation
from sordino.proofs.output import OutputPerturbation
from sordino.proofs.run import NORM_SLACK, Run, checked_convexity, gradient_bound, rates_of
from sordino.proofs.theorems import noise_of
from sordino.report.stages import Checked
from sordino.sgd.spec import TrainSpec


def checked(evidence: Evidence, done: object) -> dict[str, tuple[Checked, ...]]:
    """What a theorem on the "final" weights, or on "all" iterates, rests on."""
    if isinstance(evidence, StepsEvidence):
        assert isinstance(done, Run)
        steps = of_steps(evidence.spec, done, evidence.constants)
        inside = (rows_within(evidence.norm), *_hidden(evidence, done))
        extra = together(evidence.problems, evidence.rows_per_person)
        return {"all": (*steps, *extra), "final": (*steps, *inside, *extra)}
    if isinstance(evidence, OutputEvidence):
        assert isinstance(done, OutputPerturbation)
        return {"final": tuple(_output(evidence, done))}
    if isinstance(evidence, ObjectiveEvidence):
        assert isinstance(done, ObjectivePerturbation)
        return {"final": tuple(_objective(evidence, done))}
    extra = together(evidence.problems, evidence.rows_per_person, in_one_norm=False)
    if isinstance(evidence, AdaptiveEvidence):
        look = "every look at the records asked the budget first"
        asked = Checked(look, f"rho = {evidence.rho:.6g}")
        return {"all": (asked, Checked("gradients are clipped", f"to {evidence.clip:.6g}"), *extra)}
    assert isinstance(evidence, SelectionEvidence)
    runs = Checked("the number of trainings is random and secret", evidence.runs_in_words)
    return {"final": (runs, *extra)}


def _output(evidence: OutputEvidence, done: OutputPerturbation) -> list[Checked]:
    constants = done.batches["constants"]
    loss = f"{evidence.spec.objective.kind}: gradients of at most {constants.lipschitz:.6g}, "
    loss += f"curvature {constants.strongly_convex:.6g} to {constants.smooth:.6g}"
    sizes = sensitivity.batch_sizes(
        evidence.rows, evidence.spec.batch_size, evidence.spec.drop_last
    )
    batches = f"{_counted(len(sizes), 'batch', 'batches')} of {sizes[0]:,}"
    if min(sizes) < sizes[0]:
        batches += f", the last of {min(sizes):,}, counted at its own size"
    left = evidence.rows - sum(sizes)
    if left:
        batches += f"; {_counted(left, 'record')} left over"
    order = {
        Sampling.PERMUTE_ONCE: "one uniform permutation, then the same batches every pass",
        Sampling.SHUFFLE: "a new uniform permutation every pass",
        Sampling.CYCLIC: "as they are"
        if evidence.spec.steps_per_epoch(evidence.rows) > 1
        else "all records in every step",
    }[Sampling(evidence.spec.order)]
    farthest = f"{done.farthest:.6g}"
    if done.secret_place and done.same_order:
        farthest += f", {done.sensitivity.mean:.6g} in the mean over its places"
    return [
        Checked("the loss is convex and smooth, its data term Lipschitz", loss),
        rows_within(evidence.norm),
        _rate(done),
        Checked("sizes of the batches", batches),
        Checked("order of the records", order),
        Checked("one record moves the released weights by at most", farthest),
        Checked("rounding in float64 is bounded, and added", f"{done.rounding:.3g} a problem"),
        *together(evidence.problems, evidence.rows_per_person),
        Checked(*noise_of(done)),
    ]


def _rate(done: OutputPerturbation) -> Checked:
    """The largest learning rate against the one from which on steps expand."""
    top, limit = float(np.max(done.rates, initial=0.0)), 2 / done.batches["constants"].smooth
    numbers = f"{top:.6g} <= 2 / smoothness = {limit:.6g}"
    if top > limit:
        numbers = f"{top:.6g} > 2 / smoothness = {limit:.6g}: expansion is counted in"
    return Checked("learning rates at which no step pushes two runs apart", numbers)


def _objective(evidence: ObjectiveEvidence, noisy: ObjectivePerturbation) -> list[Checked]:
    problem = noisy.problem
    leverage = problem["norm"] ** 2 / problem["regulariser"]
    kappa = math.log1p(problem["curvature"] * leverage)
    hidden = f"gradient of at most {noisy.gradient_left:.3g} where minimising stops, hidden by "
    hidden += f"standard deviation {noisy.sigma_out:.6g} on every weight"
    return [
        Checked("a linear model, its loss decreasing with slope at most 1", evidence.loss),
        rows_within(evidence.norm),
        Checked(
            "the objective is strongly convex in every direction",
            f"regulariser {problem['regulariser']:.6g} of the sum, the intercept's included",
        ),
        Checked(
            "one record changes the determinant of the curvature by at most",
            f"a factor e^kappa, kappa = {kappa:.6g}",
        ),
        Checked("one record moves the gradient of the sum by at most", f"{noisy.moved:.6g}"),
        Checked(
            "Gaussian noise on every coefficient of the linear term",
            f"standard deviation {noisy.sigma:.6g}",
        ),
        Checked("the minimiser is approximate, and that is paid for", hidden),
        *together(evidence.problems, evidence.rows_per_person, in_one_norm=False),
    ]


def of_steps(spec: TrainSpec, run: Run, constants: Constants | None) -> tuple[Checked, ...]:
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
    if run.steps.sampling == Sampling.POISSON:
        sampling += f", sample rate {run.steps.sample_rate:.6g}"
    return (
        Checked("one record moves a sum of gradients by at most", moved),
        Checked("Gaussian noise on every sum of gradients", noise),
        Checked("sampling of the batches", sampling),
        Checked("sums are divided by a fixed number", f"{spec.batch_size:,}"),
    )


def _hidden(evidence: StepsEvidence, run: Run) -> tuple[Checked, ...]:
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


def rows_within(norm: float) -> Checked:
    """The norm bound of the rows."""
    return Checked(
        "no row is longer than the public bound on norms",
        f"{norm:.6g}: longer rows are scaled down to it, and a slack of {NORM_SLACK:g} is counted",
    )


def together(
    problems: int, rows_per_person: int, *, in_one_norm: bool = True
) -> tuple[Checked, ...]:
    """What one-vs-rest and several records of a person cost, where there are any.

    `in_one_norm` if all problems are one long vector; else they are composed.
    """
    found = []
    if problems > 1:
        what = "one record is in the problem of every class, and all models are released"
        farther = f", which it moves sqrt({problems}) = {math.sqrt(problems):.6g} times as far"
        found.append(Checked(what, f"{problems} problems{farther if in_one_norm else ''}"))
    if rows_per_person > 1:
        what = "all records of one person are protected together (group privacy)"
        found.append(Checked(what, f"at most {rows_per_person} records"))
    return tuple(found)


def _counted(number: int, one: str, many: str = "") -> str:
    """A number and its noun: "1 batch", "12 batches"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
