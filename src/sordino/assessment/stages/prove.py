"""`prove`: what every theorem says of one release; `bounds_of_evidence`: the same from evidence.

The guarantee is the certificate's. Beside it stands what each other theorem proves of the very same
training with the very same noise, or the condition of it that does not hold. Everything here but
the guarantee's `not_covered` follows from public numbers, so whoever reads a certificate gets it
too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sordino import sensitivity
from sordino.accounting.last_iterate.hidden_state import HiddenState
from sordino.accounting.profile import Profile
from sordino.assessment.plan import AssessmentPlan, NetworkPlan
from sordino.models.constants import Constants
from sordino.privacy import Relation, Sampling
from sordino.proofs import theorems
from sordino.proofs.adaptive import AdaptiveEvidence
from sordino.proofs.evidence import SelectionEvidence, StepsEvidence
from sordino.proofs.objective import ObjectiveEvidence
from sordino.proofs.output import OutputEvidence, OutputPerturbation
from sordino.proofs.proof import NORM_SLACK, Evidence, Proof
from sordino.proofs.steps import Run, convex_constants, gradient_bound, rates_of
from sordino.report.result import Bound, Checked, Curve, Proved, curve
from sordino.sgd.spec import TrainSpec

_Conditions = list[tuple[str, str]]
"""Preconditions of a theorem, and the numbers by which each was checked."""

_CHECKED = ("batches drawn by", "a convex and smooth loss", "plain SGD without momentum")
"""How assumptions begin that are checked by numbers here."""
_NOT_LINEAR = "Known for losses that are linear in the weights; here a heuristic, no bound."
_LINES = 70
"""Slopes of the lines under a trade-off curve that is not Gaussian."""


def prove(plan: AssessmentPlan) -> Proved:
    """What is proved of the release, theorem by theorem."""
    if plan.network is not None:
        return _prove_network(plan.network)
    fitting = plan.fitting
    assert fitting is not None  # a linear model
    proof, evidence = fitting.proof, fitting.plan.evidence
    if proof is None or evidence is None:
        return Proved(None, why_none=fitting.why_none or "no noise is added")
    bounds = _evidence_bounds(evidence, proof, plan.delta)
    if not fitting.why_none:
        return _proved(proof, plan.delta, bounds, evidence.facts())
    reason = f"Nothing is promised: {fitting.why_none}."
    refused = tuple(
        replace(bound, epsilon=None, used=False, checked=(), reason=bound.reason or reason)
        for bound in bounds
        if bound.kind == "guarantee"
    )
    return Proved(None, why_none=fitting.why_none, bounds=refused)


def _prove_network(plan: NetworkPlan) -> Proved:
    spec, clip, run = plan.spec, plan.spec.max_grad_norm, plan.run
    assert clip is not None
    rows = [*_steps(spec, run, None), *_group(1, plan.rows_per_person)]
    kind, conditions = "noisy-steps-of-a-network", {"all": rows, "final": rows}
    facts = {
        "schedule": (
            f"{run.steps.steps:,} steps, sample rate {run.steps.sample_rate:.6g}, sums divided by "
            f"{spec.batch_size:,}, learning rate {spec.schedule.rate:.6g}, "
            f"{spec.objective.hidden} hidden units"
        ),
        "sensitivity": f"{2 * clip:.6g}: gradients are clipped to {clip:.6g}",
        "noise": f"standard deviation {spec.noise_multiplier * clip:.6g} on every sum",
    }
    bounds = _bounds(plan.proof, kind, run, plan.delta, conditions)
    return _proved(plan.proof, plan.delta, bounds, facts)


def _proved(
    proof: Proof, delta: float, bounds: tuple[Bound, ...], facts: Mapping[str, str]
) -> Proved:
    line = curve_of(proof.profile)
    return Proved(
        guarantee=proof.guarantee(delta),
        bounds=bounds,
        tradeoff=curve(line.x, line.y),
        best_guess=best_guess(proof.profile),
        facts=facts,
    )


def bounds_of_evidence(evidence: Evidence, delta: float) -> tuple[tuple[Bound, ...], Profile]:
    """Bounds and the used one's profile, from what a certificate carries: public, all of it.

    Raises
    ------
    NotApplicable
        If the numbers prove nothing.
    """
    proof = evidence.proof()
    return _evidence_bounds(evidence, proof, delta), proof.profile


def _evidence_bounds(evidence: Evidence, proof: Proof, delta: float) -> tuple[Bound, ...]:
    done = evidence.done()
    known = done.sensitivity.conditions if isinstance(done, OutputPerturbation) else ()
    conditions = _conditions(evidence, done)
    return _bounds(proof, evidence.kind, done, delta, conditions, known)


def _bounds(
    proof: Proof,
    kind: str,
    done: object,
    delta: float,
    conditions: Mapping[str, _Conditions],
    known: Sequence[str] = (),
) -> tuple[Bound, ...]:
    """What every theorem says of one release: its training, its noise, all models, all records.

    In order: the one that `proof` rests on, the others by epsilon, formulas that are only quoted,
    and refusals.

    Parameters
    ----------
    proof
        What the certificate rests on.
    kind, done
        What was done, as the table of theorems takes it.
    conditions
        Of theorems about "all" iterates and about the "final" one.
    known
        Of what the proof assumes, that which was checked after all.
    """
    bounds = []
    for finding in theorems.beside(proof, kind, done, delta):
        own = [Checked(*each) for each in conditions.get(finding.released, ())]
        estimate, printed = finding.kind == "estimate", finding.kind == "as printed"
        used = finding.method == proof.rests_on
        epsilon, reason, checked = finding.value, finding.reason or "", list[Checked]()
        if used:
            skipped = _CHECKED if isinstance(done, Run) else ()
            assumed = [each for each in proof.assumes if each not in known]
            trusted = [Checked(s, trusted=True) for s in assumed if not s.startswith(skipped)]
            checked = own + trusted
        elif finding.applies:
            # Only where all theorems are about the same steps do they share preconditions.
            shared = own if isinstance(done, Run) else []
            checked = shared + [Checked(*each) for each in finding.checked]
        elif estimate:
            epsilon, reason = None, _NOT_LINEAR
        elif not printed and finding.method.startswith("notes-"):
            continue  # a formula without an epsilon
        bounds.append(
            Bound(
                name=finding.title,
                epsilon=epsilon,
                theorem=finding.source if estimate else finding.theorem or finding.source,
                used=used,
                reason=reason,
                checked=tuple(checked),
                kind="as printed" if printed else "guarantee",
            )
        )

    def place(bound: Bound) -> tuple[bool, bool, bool, float]:
        epsilon = 0.0 if bound.epsilon is None else bound.epsilon
        return not bound.used, bound.epsilon is None, bound.kind != "guarantee", epsilon

    return tuple(sorted(bounds, key=place))


def best_guess(profile: Profile) -> float:
    """The largest probability of guessing right which of two datasets it was, rounded up."""
    return min(1.0, (1 + profile.advantage()) / 2 * (1 + 1e-12))


def curve_of(profile: Profile) -> Curve:
    """Least false-negative rates at 120 false-positive rates, many of them near 0 and 1.

    Exact for Gaussian DP. Elsewhere the highest of many lines 1 - delta(epsilon) - e^epsilon alpha
    and their mirror images: each of them is proved, so the curve is too.
    """
    ends = np.geomspace(1e-7, 0.01, 36)
    alphas = np.concatenate([[0.0], ends, np.linspace(0.02, 0.98, 46), 1 - ends[::-1], [1.0]])
    if profile.mu is not None:
        betas = np.array([profile.beta(float(alpha)) for alpha in alphas])
    else:
        farthest = min(max(profile.epsilon(1e-12), 1.0), 500.0)
        epsilons = np.concatenate([[0.0], np.geomspace(1e-3, farthest, _LINES)])
        left = np.array([-math.expm1(profile.log_delta(float(epsilon))) for epsilon in epsilons])
        steep = left[:, None] - np.exp(epsilons)[:, None] * alphas
        flat = np.exp(-epsilons)[:, None] * (left[:, None] - alphas)
        betas = np.maximum(steep, flat).max(axis=0).clip(min=0.0)
    return Curve(tuple(alphas.tolist()), tuple(betas.tolist()))


# Preconditions, and the numbers by which they were checked ------------------------------


def _conditions(evidence: Evidence, done: object) -> dict[str, _Conditions]:
    """What a theorem on the "final" weights, or on "all" iterates, rests on."""
    if isinstance(evidence, StepsEvidence):
        assert isinstance(done, Run)
        steps = _steps(evidence.spec, done, evidence.constants)
        extra = _group(evidence.models, evidence.rows_per_person)
        inside = [_rows_within(evidence.norm), *_hidden_state(evidence, done)]
        return {"all": steps + extra, "final": steps + inside + extra}
    if isinstance(evidence, OutputEvidence):
        assert isinstance(done, OutputPerturbation)
        return {"final": _output(evidence, done)}
    extra = _group(evidence.models, evidence.rows_per_person, in_one_norm=False)
    if isinstance(evidence, ObjectiveEvidence):
        return {"final": _objective(evidence) + extra}
    if isinstance(evidence, AdaptiveEvidence):
        budget = ("the budget is asked before every look", f"rho = {evidence.rho:.6g}")
        return {"all": [budget, ("gradients are clipped", f"to {evidence.clip:.6g}"), *extra]}
    assert isinstance(evidence, SelectionEvidence)
    return {"final": [("a random, secret number of trainings", evidence.runs_in_words), *extra]}


def _output(evidence: OutputEvidence, done: OutputPerturbation) -> _Conditions:
    spec, constants = evidence.spec, done.batches["constants"]
    sizes = sensitivity.batch_sizes(evidence.rows, spec.batch_size, spec.drop_last)
    batches = f"{len(sizes):,} of {sizes[0]:,}"
    if min(sizes) < sizes[0]:
        batches += f", the last of {min(sizes):,}"
    if left := evidence.rows - sum(sizes):
        batches += f"; {left:,} left over"
    farthest = f"{done.farthest:.6g}"
    if done.secret_place and done.same_order:
        farthest += f", {done.sensitivity.mean:.6g} in the mean"
    return [
        _convex(spec, constants, f", gradients of at most {constants.lipschitz:.6g}"),
        _rows_within(evidence.norm),
        _rates(float(np.max(done.rates, initial=0.0)), 2 / constants.smooth),
        ("sizes of the batches", batches),
        ("order of the records", Sampling(spec.order).value),
        ("one record moves the released weights by at most", farthest),
        ("rounding is bounded and added", f"{done.rounding:.3g} a model"),
        *_group(evidence.models, evidence.rows_per_person),
        theorems.noise_of(done),
    ]


def _rates(rate: float, limit: float) -> tuple[str, str]:
    """The largest learning rate against the one from which on steps expand."""
    numbers = f"{rate:.6g} <= {limit:.6g}"
    if rate > limit:
        numbers = f"{rate:.6g} > {limit:.6g}: expansion is counted in"
    return "learning rates <= 2 / smoothness", numbers


def _convex(spec: TrainSpec, constants: Constants, more: str = "") -> tuple[str, str]:
    if spec.objective.kind == "softmax":
        more += ", no gradient really clipped"
    curvature = f"curvature {constants.strongly_convex:.6g} to {constants.smooth:.6g}"
    return "the loss is convex and smooth", f"{spec.objective.kind}: {curvature}{more}"


def _objective(noisy: ObjectiveEvidence) -> _Conditions:
    problem = noisy.problem
    leverage = problem["norm"] ** 2 / problem["regulariser"]
    kappa = math.log1p(problem["curvature"] * leverage)
    left = f"gradient of at most {noisy.gradient_left:.3g}, hidden by standard deviation "
    return [
        ("a linear model, its loss decreasing with slope at most 1", noisy.loss),
        _rows_within(noisy.norm),
        ("strong convexity", f"regulariser {problem['regulariser']:.6g} of the sum"),
        ("one record changes the curvature's determinant by at most e^kappa", f"{kappa:.6g}"),
        ("one record moves the gradient of the sum by at most", f"{noisy.moved:.6g}"),
        ("noise on the linear term", f"standard deviation {noisy.sigma:.6g}"),
        ("the approximate minimiser is paid for", f"{left}{noisy.sigma_out:.6g} on every weight"),
    ]


def _steps(spec: TrainSpec, run: Run, constants: Constants | None) -> _Conditions:
    """What composition rests on: clip, noise and sampling."""
    clip, bound = spec.max_grad_norm, gradient_bound(spec, constants)
    assert clip is not None  # there is noise
    moved = f"{bound:.6g}"
    if run.steps.relation is Relation.REPLACE_ONE:
        moved = f"{2 * bound:.6g} = 2 x {moved}"
    noise = f"standard deviation {spec.noise_multiplier * clip:.6g} = {spec.noise_multiplier:.6g} "
    sampling = f"{run.steps.sampling}, {run.steps.steps:,} steps"
    if run.steps.sampling == Sampling.POISSON:
        sampling += f", sample rate {run.steps.sample_rate:.6g}"
    if run.steps.sampling == Sampling.ALLOCATION:
        sampling += f", {run.steps.batches:,} an epoch"
    return [
        ("one record moves a sum of gradients by at most", moved),
        ("Gaussian noise on every sum of gradients", f"{noise}x the clip {clip:.6g}"),
        ("sampling of the batches", sampling),
        ("sums are divided by a fixed number", f"{spec.batch_size:,}"),
    ]


def _hidden_state(evidence: StepsEvidence, run: Run) -> _Conditions:
    """What theorems on the last iterate rest on; empty where they do not apply."""
    if not isinstance(run.hidden, HiddenState):
        return []
    spec = evidence.spec
    constants = convex_constants(spec, evidence.constants)
    contraction = float(np.max(run.hidden.contraction))
    return [
        _convex(spec, constants),
        _rates(float(np.max(rates_of(spec, evidence.rows))), 2 / constants.smooth),
        ("every step is Lipschitz", f"with constant {contraction:.6g}"),
    ]


def _rows_within(norm: float) -> tuple[str, str]:
    """The norm bound of the rows."""
    return "rows are scaled down to the public norm", f"{norm:.6g}, with a slack of {NORM_SLACK:g}"


def _group(problems: int, rows_per_person: int, *, in_one_norm: bool = True) -> _Conditions:
    """What one-vs-rest and several records of a person cost, where there are any.

    `in_one_norm` if all problems are one long vector; else they are composed.
    """
    conditions = []
    if problems > 1:
        farther = f", sqrt({problems}) = {math.sqrt(problems):.6g} times as far"
        what = "one record is in the problem of every class"
        conditions.append((what, f"{problems} problems{farther if in_one_norm else ''}"))
    if rows_per_person > 1:
        conditions.append(("group privacy", f"at most {rows_per_person} records of one person"))
    return conditions
