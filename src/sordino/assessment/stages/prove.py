"""`prove`: what every theorem says of one release; `bounds_of_evidence`: the same from its papers.

The guarantee is the certificate's. Beside it stands what each other theorem proves of the very same
training with the very same noise, or the condition of it that does not hold. Everything here but
the guarantee's `not_covered` follows from public numbers, so whoever reads a certificate gets it
too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sordino.accounting.profile import Profile
from sordino.assessment import conditions
from sordino.proofs import theorems
from sordino.proofs.evidence import Evidence
from sordino.proofs.output import OutputPerturbation
from sordino.proofs.proof import Proof
from sordino.proofs.run import Run
from sordino.proofs.theorems import Finding
from sordino.report.stages import Bound, Checked, Curve, Proved

if TYPE_CHECKING:
    from sordino.assessment.network import NetworkPlan
    from sordino.assessment.plan import AssessmentPlan

Floats = npt.NDArray[np.float64]

_SEEN = ("batches drawn by", "a convex and smooth loss", "plain SGD without momentum")
"""How assumptions begin that `conditions` checks by numbers."""
_NOT_LINEAR = (
    "The law of the last iterate is known for losses that are linear in the weights; for this one "
    "it is a heuristic, and no bound."
)
_LINES = 70
"""Slopes of the lines under a trade-off curve that is not Gaussian."""


def prove(subject: AssessmentPlan) -> Proved:
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
        return Proved(None, why_none=job.why_none, bounds=_all_refused(bounds, reason))
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
    done = evidence.done()
    known = done.sensitivity.conditions if isinstance(done, OutputPerturbation) else ()
    checked = conditions.checked(evidence, done)
    return bounds_beside(proof, evidence.kind, done, delta, checked, known)


def bounds_beside(
    proof: Proof,
    kind: str,
    done: object,
    delta: float,
    checked: Mapping[str, tuple[Checked, ...]],
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
    checked
        Preconditions of theorems about "all" iterates and about the "final" one.
    known
        Of what the proof assumes, that which was checked after all.
    """
    bounds = []
    for finding in theorems.beside(proof, kind, done, delta):
        words = checked.get(finding.released, ())
        if finding.method == proof.rests_on:
            seen = _SEEN if isinstance(done, Run) else ()
            unseen = [each for each in proof.assumes if each not in known]
            trusted = [Checked(each, trusted=True) for each in unseen if not each.startswith(seen)]
            bounds.append(_bound(finding, (*words, *trusted), used=True))
        elif finding.applies:
            # Only where all theorems are about the same steps do they share preconditions.
            shared = words if isinstance(done, Run) else ()
            said = (Checked(*each) for each in finding.checked)
            bounds.append(_bound(finding, (*shared, *said)))
        elif finding.kind == "estimate":
            bounds.append(replace(_bound(finding), epsilon=None, reason=_NOT_LINEAR))
        elif finding.kind == "as printed" or not finding.method.startswith("notes-"):
            bounds.append(_bound(finding))  # not formulas without an epsilon

    def place(bound: Bound) -> tuple[bool, bool, bool, float]:
        epsilon = 0.0 if bound.epsilon is None else bound.epsilon
        return not bound.used, bound.epsilon is None, bound.kind != "guarantee", epsilon

    return tuple(sorted(bounds, key=place))


def _bound(finding: Finding, checked: tuple[Checked, ...] = (), used: bool = False) -> Bound:
    return Bound(
        name=finding.title,
        epsilon=finding.value,
        theorem=finding.source if finding.kind == "estimate" else finding.theorem or finding.source,
        used=used,
        reason=finding.reason or "",
        checked=checked,
        kind="as printed" if finding.kind == "as printed" else "guarantee",
    )


def _all_refused(bounds: Iterable[Bound], reason: str) -> tuple[Bound, ...]:
    """The same theorems where nothing is promised, whatever they say."""
    return tuple(
        replace(bound, epsilon=None, used=False, checked=(), reason=bound.reason or reason)
        for bound in bounds
        if bound.kind == "guarantee"
    )


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
