"""What every theorem says of noise on the final weights.

A theorem on sensitivity bounds how far one record moves the weights, a theorem on the Gaussian
mechanism says what the noise makes of that. The certificate rests on the recurrence and, where the
order is secret, on the mean over the places of the record; here the others are asked too, each
with the same rounding, the same number of models and the same group.
"""

from __future__ import annotations

import math

from sordino import sensitivity
from sordino.accounting import gaussian, permuted
from sordino.accounting.group import group
from sordino.assessment.proving_bounds import (
    Answer,
    asked,
    counted,
    refused,
    rows_within,
    together,
    used,
)
from sordino.assessment.proving_sensitivity import SENSITIVITIES, Released, Theorem
from sordino.privacy import NotApplicable, Sampling
from sordino.proofs.evidence_kinds import OutputEvidence
from sordino.proofs.proof import Proof
from sordino.report.stages import Bound, Checked

MIXTURE = "exact Gaussian, random sensitivity"
LARGEST = "exact Gaussian, largest sensitivity"
_EXACT = "the Gaussian mechanism at the largest sensitivity (Balle & Wang 2018)"


def output_bounds(evidence: OutputEvidence, proof: Proof, delta: float) -> list[Bound]:
    """Every theorem, asked of this release; in no order."""
    release = Released(evidence, evidence.perturbation())
    bounds = [
        *_of_gaussian(release, proof, delta),
        *(_of_sensitivity(release, theorem, delta) for theorem in SENSITIVITIES),
    ]
    reason = "No step of this training adds noise, so there is nothing to compose: the noise is on "
    reason += "the final weights alone."
    steps = "accountants of noisy steps (Abadi et al. 2016; Bok, Su & Altschuler 2024)"
    bounds.append(refused("composition, last iterate", steps, reason))
    reason = "The noise is on the weights that were found, not in the objective they minimise."
    name = "objective perturbation"
    return [*bounds, refused(name, f"{name} (Chaudhuri et al. 2011)", reason)]


# What the noise makes of a sensitivity -------------------------------------------------------


def _of_gaussian(release: Released, proof: Proof, delta: float) -> list[Bound]:
    """The recurrence's sensitivity under each theorem on Gaussian noise."""
    farthest = release.found.farthest
    theorem = f"{release.found.sensitivity.theorem}; {_EXACT}"
    distance = Checked("one record moves the released weights by at most", f"{farthest:.6g}")

    def largest() -> Answer:
        return release.gaussian(farthest, theorem), (distance, _noise(release))

    name = MIXTURE if release.secret_place else LARGEST
    conditions = release.found.sensitivity.conditions
    first = used(name, proof, delta, _checked(release), known=conditions)
    if release.secret_place:
        second = asked(LARGEST, theorem, delta, largest)
    else:
        reason = "Every step uses all records: a record has one place only, and no order hides it."
        if release.batches > 1:
            reason = "The order of the records is known; a secret one needs order='permute-once'."
        convexity = "mean over the record's batch, by convexity of the hockey-stick divergence"
        second = refused(MIXTURE, convexity, reason)
    return [first, second, _renyi(release, delta), _classical(release, delta)]


def _renyi(release: Released, delta: float) -> Bound:
    """Through Renyi DP, as Chen, Lee & Kifer go."""
    evidence, of = release.evidence, release.found.sensitivity
    mixed = release.secret_place and release.same_order
    theorem = "Renyi DP of the Gaussian mechanism (Mironov 2017)"
    if mixed:
        theorem = "Renyi DP, mean over the record's batch (Chen, Lee & Kifer 2019, Proposition 3)"

    def answer() -> Answer:
        one = permuted.renyi_mixture(
            sensitivities=of.positions if mixed else [release.found.farthest],
            weights=of.shares if mixed else None,
            sigma=evidence.sigma,
            relation=evidence.relation,
        )
        how = Checked("converted by the least of three theorems, at the best order")
        return group(one, evidence.rows_per_person), (how,)

    name = "Renyi DP, random sensitivity" if mixed else "Renyi DP, largest sensitivity"
    return asked(name, f"{of.theorem}; {theorem}", delta, answer)


def _classical(release: Released, delta: float) -> Bound:
    """The textbook's formula, where it is a theorem."""
    evidence = release.evidence
    moved = release.found.farthest * evidence.rows_per_person
    epsilon = moved * math.sqrt(2 * math.log(1.25 / delta)) / evidence.sigma * (1 + 1e-12)
    name = "classical Gaussian formula"
    theorem = "sigma >= D sqrt(2 ln(1.25 / delta)) / epsilon (Dwork & Roth 2014, Theorem A.1)"
    try:
        gaussian.classical_sigma(epsilon, delta, moved)
    except NotApplicable as refusal:
        return refused(name, theorem, str(refusal))
    return Bound(name, epsilon, theorem, checked=(Checked("epsilon < 1", f"{epsilon:.6g}"),))


def _noise(release: Released) -> Checked:
    evidence = release.evidence
    weights = evidence.problems * evidence.columns
    deviation = f"standard deviation {evidence.sigma:.6g} on each of {weights:,}"
    return Checked("Gaussian noise on every released weight", deviation)


def _checked(release: Released) -> list[Checked]:
    """What the proof of the certificate rests on, number by number."""
    evidence, constants, found = release.evidence, release.constants, release.found
    loss = f"{evidence.spec.objective.kind}: gradients of at most {constants.lipschitz:.6g}, "
    loss += f"curvature {constants.strongly_convex:.6g} to {constants.smooth:.6g}"
    sizes = sensitivity.batch_sizes(
        evidence.rows, evidence.spec.batch_size, evidence.spec.drop_last
    )
    batches = f"{counted(len(sizes), 'batch', 'batches')} of {sizes[0]:,}"
    if min(sizes) < sizes[0]:
        batches += f", the last of {min(sizes):,}, counted at its own size"
    left = evidence.rows - sum(sizes)
    if left:
        batches += f"; {counted(left, 'record')} left over"
    order = {
        Sampling.PERMUTE_ONCE: "one uniform permutation, then the same batches every pass",
        Sampling.SHUFFLE: "a new uniform permutation every pass",
        Sampling.CYCLIC: "as they are" if release.batches > 1 else "all records in every step",
    }[Sampling(evidence.spec.order)]
    farthest = f"{found.farthest:.6g}"
    if release.secret_place and release.same_order:
        farthest += f", {found.sensitivity.mean:.6g} in the mean over its places"
    return [
        Checked("the loss is convex and smooth, its data term Lipschitz", loss),
        rows_within(evidence.norm),
        _rate(release),
        Checked("sizes of the batches", batches),
        Checked("order of the records", order),
        Checked("one record moves the released weights by at most", farthest),
        Checked("rounding in float64 is bounded, and added", f"{release.rounding:.3g} a problem"),
        *together(evidence.problems, evidence.rows_per_person),
        _noise(release),
    ]


def _rate(release: Released) -> Checked:
    """The largest learning rate against the one from which on steps expand."""
    limit = 2 / release.constants.smooth
    numbers = f"{release.top_rate:.6g} <= 2 / smoothness = {limit:.6g}"
    if release.top_rate > limit:
        numbers = f"{release.top_rate:.6g} > 2 / smoothness = {limit:.6g}: expansion is counted in"
    return Checked("learning rates at which no step pushes two runs apart", numbers)


def _of_sensitivity(release: Released, theorem: Theorem, delta: float) -> Bound:
    statement = f"{theorem.source}; {_EXACT}"

    def answer() -> Answer:
        bound = theorem.ask(release)
        moved = release.moved(bound)
        said = [Checked(condition) for condition in bound.conditions]
        distance = Checked("one record moves the released weights by at most", f"{moved:.6g}")
        return release.gaussian(moved, statement), (*said, distance, _noise(release))

    return asked(theorem.name, statement, delta, answer)
