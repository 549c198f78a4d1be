"""What every theorem says of noise in the objective, of a budget spent as one goes, of the best."""

from __future__ import annotations

import dataclasses
import math

from sordino.accounting import concentrated, objective, renyi
from sordino.accounting.compose import times
from sordino.accounting.concentrated import ConcentratedProfile
from sordino.accounting.group import group
from sordino.accounting.profile import Profile, RenyiProfile
from sordino.assessment.proving_bounds import (
    Answer,
    asked,
    refused,
    rows_within,
    together,
    used,
)
from sordino.privacy import NotApplicable, Relation
from sordino.proofs.evidence_kinds import (
    AdaptiveEvidence,
    ObjectiveEvidence,
    SelectionEvidence,
)
from sordino.proofs.objective import ObjectivePerturbation
from sordino.proofs.proof import Proof
from sordino.report.stages import Bound, Checked

_STEPS = "accountants of noisy steps (Abadi et al. 2016; Bok, Su & Altschuler 2024)"
_NO_STEPS = (
    "The minimiser is released, not the end of a descent with noise in its steps: there are no "
    "noisy steps to compose."
)


# Noise in the objective --------------------------------------------------------------------------


def objective_bounds(evidence: ObjectiveEvidence, proof: Proof, delta: float) -> list[Bound]:
    """Every theorem, asked of this release; in no order."""
    noisy = evidence.perturbation()
    logistic = evidence.loss == "logistic"
    name = "objective perturbation, logistic loss" if logistic else "objective perturbation"
    bounds = [used(name, proof, delta, _checked_objective(evidence, noisy))]
    if logistic and evidence.problems == 1:  # several are composed by the lesser of the two laws
        bounds.append(_any_loss(noisy, delta))
    bounds.append(_by_renyi(noisy, delta))
    reason = "The noise in the objective is Gaussian, and the theorem is about noise whose length "
    reason += "has a Gamma law, which proves delta = 0."
    cms = "Chaudhuri, Monteleoni & Sarwate 2011, Theorem 9"
    bounds.append(refused("objective perturbation, delta = 0", cms, reason))
    bounds.append(_of_the_minimiser(evidence, noisy))
    return [*bounds, refused("composition, last iterate", _STEPS, _NO_STEPS)]


def _checked_objective(evidence: ObjectiveEvidence, noisy: ObjectivePerturbation) -> list[Checked]:
    problem = noisy.problem
    leverage = problem["norm"] ** 2 / problem["regulariser"]
    kappa = math.log1p(problem["curvature"] * leverage)
    moved = problem["norm"] * (2 if evidence.relation is Relation.REPLACE_ONE else 1)
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
        Checked("one record moves the gradient of the sum by at most", f"{moved:.6g}"),
        Checked(
            "Gaussian noise on every coefficient of the linear term",
            f"standard deviation {noisy.sigma:.6g}",
        ),
        Checked("the minimiser is approximate, and that is paid for", hidden),
        *together(evidence.problems, evidence.rows_per_person, in_one_norm=False),
    ]


def _any_loss(noisy: ObjectivePerturbation, delta: float) -> Bound:
    """Without what is special about the logistic loss: the determinant is paid in full."""
    general = dataclasses.replace(noisy, problem={**noisy.problem, "kind": "huber-svm"})
    theorem = "objective perturbation of any linear model, the determinant's e^kappa paid in full "
    theorem += "(docs/math.md 10.1)"

    def answer() -> Answer:
        return general.profile(), (
            Checked("curvature of the loss at most", f"{noisy.problem['curvature']:.6g}"),
        )

    return asked("objective perturbation, any loss", theorem, delta, answer)


def _by_renyi(noisy: ObjectivePerturbation, delta: float) -> Bound:
    """Through the Renyi divergences of the law that bounds the privacy loss."""
    theorem = "Renyi DP of objective perturbation, converted by the least of three theorems"

    def answer() -> Answer:
        one = objective.objective_perturbation(
            sigma=noisy.sigma,
            minimum_error=noisy.gradient_left,
            sigma_out=noisy.sigma_out,
            **noisy.problem,
        )
        return group(_renyi_of(times(one, noisy.problems), theorem), noisy.rows_per_person), ()

    return asked("Renyi DP", theorem, delta, answer)


def _renyi_of(profile: Profile, theorem: str) -> RenyiProfile:
    values = profile.renyi(renyi.ORDERS)
    if values is None:
        raise NotApplicable("The release has no bounded Renyi divergence.")
    return RenyiProfile(
        orders=tuple(renyi.ORDERS.tolist()),
        values=tuple(values.tolist()),
        relation=profile.relation,
        theorem=theorem,
    )


def _of_the_minimiser(evidence: ObjectiveEvidence, noisy: ObjectivePerturbation) -> Bound:
    """Output perturbation of the exact minimiser, which this is not."""
    norm, regulariser = noisy.problem["norm"], noisy.problem["regulariser"]
    moved = norm * (2 if evidence.relation is Relation.REPLACE_ONE else 1) / regulariser
    reason = f"One record moves the exact minimiser by up to 2 R / (n l2) = {moved:.6g}"
    if evidence.relation is not Relation.REPLACE_ONE:
        reason = f"One record moves the exact minimiser by up to R / (n l2) = {moved:.6g}"
    reason += f", and the noise on the weights, {noisy.sigma_out:.3g}, only hides the solver's "
    reason += "error: the noise that protects is in the objective."
    theorem = "output perturbation of the minimiser (Chaudhuri et al. 2011), Gaussian mechanism"
    return refused("output perturbation", theorem, reason)


# A budget spent as one goes ----------------------------------------------------------------------


def adaptive_bounds(evidence: AdaptiveEvidence, proof: Proof, delta: float) -> list[Bound]:
    """Every theorem, asked of this release; in no order."""
    profile = proof.profile
    assert isinstance(profile, ConcentratedProfile)
    checked = [
        Checked("every look at the records asked the budget first", f"rho = {evidence.rho:.6g}"),
        Checked("gradients are clipped", f"to {evidence.clip:.6g}"),
        *together(evidence.problems, evidence.rows_per_person, in_one_norm=False),
    ]
    bun = Bound(
        "zCDP, closed form",
        concentrated.bun_steinke(profile.rho, delta) * (1 + 1e-12),
        "rho + 2 sqrt(rho ln(1 / delta)) (Bun & Steinke 2016, Proposition 1.3)",
        checked=(Checked("zero-concentrated DP", f"rho = {profile.rho:.6g}"),),
    )
    fixed = "How much each step spends was decided after looking at the records, and this needs it "
    fixed += "fixed beforehand; the filter is proved for zero-concentrated DP."
    final = "Every iterate decides what follows, so all of them count as released."
    outside = "The noise is on the sums of gradients that the descent looks at."
    return [
        used("zCDP filter", proof, delta, checked),
        bun,
        refused("privacy loss distributions", "Zhu, Dong & Wang 2022", fixed),
        refused("last iterate (hidden state)", "Bok, Su & Altschuler 2024", final),
        refused(
            "output perturbation", "sensitivity of the final weights, Gaussian mechanism", outside
        ),
    ]


# The best of several -----------------------------------------------------------------------------


def selection_bounds(evidence: SelectionEvidence, proof: Proof, delta: float) -> list[Bound]:
    """The theorem on choosing, and why those of one training say nothing of the best of several."""
    checked = [
        Checked("the number of trainings is random and secret", evidence.runs_in_words),
        *together(evidence.problems, evidence.rows_per_person, in_one_norm=False),
    ]
    alone = evidence.candidates[evidence.selected].proof().profile.theorem
    reason = "It is about one training, and which of several is released was chosen by looking at "
    reason += "them: that is paid for by the theorem on choosing."
    return [
        used("repeat and select", proof, delta, checked),
        refused("the chosen training alone", alone, reason),
    ]
