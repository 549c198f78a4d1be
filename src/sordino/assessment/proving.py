"""`prove`: what every theorem says of one release; `bounds_of_evidence`: the same from its papers.

The guarantee is the certificate's. Beside it stands what each other theorem proves of the very same
training with the very same noise, or the condition of it that does not hold. Everything here but
the guarantee's `not_covered` follows from public numbers, so whoever reads a certificate gets it
too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sordino.accounting.profile import Profile
from sordino.assessment.proving_bounds import all_refused, in_order
from sordino.assessment.proving_objective import (
    adaptive_bounds,
    objective_bounds,
    selection_bounds,
)
from sordino.assessment.proving_output import output_bounds
from sordino.assessment.proving_steps import steps_bounds
from sordino.proofs.evidence import Evidence
from sordino.proofs.evidence_kinds import (
    AdaptiveEvidence,
    ObjectiveEvidence,
    OutputEvidence,
    SelectionEvidence,
    StepsEvidence,
)
from sordino.proofs.proof import Proof
from sordino.report.stages import Bound, Curve, Proved
from sordino.types import Floats

if TYPE_CHECKING:
    from sordino.assessment.network import NetworkPlan
    from sordino.assessment.subject import Subject


_LINES = 70
"""Slopes of the lines under a trade-off curve that is not Gaussian."""


def prove(subject: Subject) -> Proved:
    """What is proved of the subject's release, theorem by theorem."""
    if subject.network is not None:
        return _of_network(subject.network)
    job = subject.job
    assert job is not None  # a linear model
    proof, evidence = job.proof, job.plan.evidence
    if proof is None or evidence is None:
        return Proved(None, why_none=job.why_none or "no noise is added")
    bounds = _bounds(evidence, proof, subject.delta)
    if job.why_none:
        reason = f"Nothing is promised: {job.why_none}."
        return Proved(None, why_none=job.why_none, bounds=all_refused(bounds, reason))
    return Proved(
        guarantee=proof.guarantee(subject.delta),
        bounds=bounds,
        tradeoff=curve_of(proof.profile),
        best_guess=best_guess(proof.profile),
        facts=evidence.facts(),
    )


def bounds_of_evidence(evidence: Evidence, delta: float) -> tuple[tuple[Bound, ...], Profile]:
    """Bounds and the used one's profile, from what a certificate carries: public, all of it.

    Raises
    ------
    NotApplicable
        If the numbers prove nothing.
    """
    proof = evidence.proof()
    return _bounds(evidence, proof, delta), proof.profile


def _bounds(evidence: Evidence, proof: Proof, delta: float) -> tuple[Bound, ...]:
    if isinstance(evidence, OutputEvidence):
        return in_order(output_bounds(evidence, proof, delta))
    if isinstance(evidence, StepsEvidence):
        return in_order(steps_bounds(evidence, proof, delta))
    if isinstance(evidence, ObjectiveEvidence):
        return in_order(objective_bounds(evidence, proof, delta))
    if isinstance(evidence, AdaptiveEvidence):
        return in_order(adaptive_bounds(evidence, proof, delta))
    assert isinstance(evidence, SelectionEvidence)
    return in_order(selection_bounds(evidence, proof, delta))


def _of_network(plan: NetworkPlan) -> Proved:
    return Proved(
        guarantee=plan.guarantee,
        bounds=plan.bounds,
        tradeoff=curve_of(plan.profile),
        best_guess=best_guess(plan.profile),
        facts=plan.facts,
    )


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
        betas = _above_lines(profile, alphas)
    return Curve(tuple(alphas.tolist()), tuple(betas.tolist()))


def _above_lines(profile: Profile, alphas: Floats) -> Floats:
    farthest = min(max(profile.epsilon(1e-12), 1.0), 500.0)
    epsilons = np.concatenate([[0.0], np.geomspace(1e-3, farthest, _LINES)])
    left = np.array([-math.expm1(profile.log_delta(float(epsilon))) for epsilon in epsilons])
    steep = left[:, None] - np.exp(epsilons)[:, None] * alphas
    flat = np.exp(-epsilons)[:, None] * (left[:, None] - alphas)
    return np.asarray(np.maximum(steep, flat).max(axis=0).clip(min=0.0), dtype=np.float64)
