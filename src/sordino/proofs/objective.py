"""Noise in the objective: the least of it for a budget, and what it then proves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sordino import checks
from sordino.accounting import calibrate, objective
from sordino.accounting.compose import group, times
from sordino.accounting.objective import Problem
from sordino.accounting.profile import Profile
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import Relation, Sampling
from sordino.proofs.proof import NORM_SLACK, Evidence, Proof, unit_of


@dataclass(frozen=True, kw_only=True)
class ObjectiveEvidence(Evidence):
    """Minimisers of noisy objectives, found up to an error, each weight with a little noise.

    Parameters
    ----------
    loss, huber_width, norm
        The loss, and what no row's norm exceeds.
    regulariser
        Of the SUM of losses, on every weight.
    sigma
        Standard deviation of each coefficient of the linear term, on the scale of the SUM.
    sigma_out
        Of the noise on each released weight, which hides the error of the minimiser.
    gradient_left
        Norm of the gradient of the sum objective at which minimising stopped, at most.
    """

    kind = "objective-perturbation"
    _positive = ("huber_width", "norm", "regulariser", "sigma", "sigma_out")

    loss: str
    huber_width: float
    norm: float
    regulariser: float
    sigma: float
    sigma_out: float
    gradient_left: float

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.non_negative("gradient_left", self.gradient_left)
        checks.one_of("loss", self.loss, objective.KINDS)

    @property
    def problem(self) -> Problem:
        """The numbers of one objective, with the norm's slack."""
        return problem_of(self.loss, self.huber_width, self.norm, self.regulariser, self.relation)

    def profile(self) -> Profile:
        """Of all the objectives together, for the whole group."""
        return group(self.of_one_record(), self.rows_per_person)

    def of_one_record(self, *, any_loss: bool = False) -> Profile:
        """Of all the objectives together; perhaps without what is special about the logistic."""
        problem = self.problem
        if any_loss:
            problem["kind"] = "huber-svm"
        return _profile(problem, self.sigma, self.sigma_out, self.gradient_left, self.problems)

    @property
    def moved(self) -> float:
        """How far one record moves the gradient of the sum, at most."""
        return self.problem["norm"] * (2 if self.relation is Relation.REPLACE_ONE else 1)

    def proof(self) -> Proof:
        """What it proves of the released weights."""
        assumes = [
            f"N(0, {self.sigma:.6g}^2) on each coefficient of the linear term, drawn once",
            f"N(0, {self.sigma_out:.6g}^2) on every weight",
            f"the gradient of the summed objective is at most {self.gradient_left:.3g} there",
            f"a regulariser of {self.regulariser:.6g} on the sum, on every weight",
            "a linear model with the loss given, for rows within their norm bound",
            "all settings chosen without looking at these data, and nothing else released",
        ]
        if self.relation is Relation.ADD_OR_REMOVE_ONE:
            assumes.append("the regulariser of the sum is a public number, not made from n")
        assumes += self.about_persons
        by, unit = self.loss == "logistic", unit_of(self.rows_per_person)
        name = "objective-logistic" if by else "objective"
        return Proof(self.profile(), Sampling.FULL, tuple(assumes), unit=unit, rests_on=name)

    def facts(self) -> dict[str, str]:
        """Schedule, sensitivity and noise."""
        what = f"the summed {self.loss} loss with a regulariser of {self.regulariser:.6g}"
        until = f"found until the gradient is below {self.gradient_left:.3g}"
        linear = f"{self.sigma:.6g} on each coefficient of a random linear term"
        out = f"{self.sigma_out:.6g} on every final weight"
        return {
            "schedule": f"the minimiser of {what}, {until}",
            "sensitivity": f"the gradient of one record's loss is at most {self.norm:.6g}",
            "noise": f"standard deviation {linear}, and {out}",
        }


def problem_of(
    loss: str, huber_width: float, norm: float, regulariser: float, relation: Relation
) -> Problem:
    """The numbers of one objective, checked, with the norm's slack."""
    checks.one_of("loss", loss, objective.KINDS)
    return Problem(
        regulariser=checks.positive("regulariser", regulariser),
        norm=checks.positive("norm", norm) * (1 + NORM_SLACK),
        curvature=ObjectiveSpec(loss, huber_width=huber_width).curvature,
        kind="logistic" if loss == "logistic" else "huber-svm",
        relation=relation,
    )


def _profile(
    problem: Problem, sigma: float, sigma_out: float, gradient_left: float, problems: int
) -> Profile:
    one = objective.objective_perturbation(
        sigma=sigma, minimum_error=gradient_left, sigma_out=sigma_out, **problem
    )
    return times(one, problems)


def objective_noise(
    problem: Problem,
    epsilon: float,
    delta: float,
    *,
    gradient_left: float = 0.0,
    problems: int = 1,
    rows_per_person: int = 1,
) -> tuple[float, float]:
    """The least noise for a budget.

    Parameters
    ----------
    problem
        From `problem_of`.
    epsilon, delta
        The promise.
    gradient_left, problems, rows_per_person
        As in `ObjectiveEvidence`.

    Returns
    -------
    tuple
        `sigma` and `sigma_out` of `ObjectiveEvidence`; 0 where epsilon is infinite.

    Raises
    ------
    NotApplicable
        If no noise is enough for so small an epsilon with so small a regulariser.
    """

    def out(sigma: float) -> float:
        sizes = {"regulariser": problem["regulariser"], "norm": problem["norm"]}
        return objective.output_noise(sigma=sigma, minimum_error=gradient_left, **sizes)

    def profile_at(sigma: float) -> Profile:
        one = _profile(problem, sigma, out(sigma), gradient_left, problems)
        return group(one, rows_per_person)

    if math.isinf(checks.positive("epsilon", epsilon, allow_infinite=True)):
        sigma = 0.0
    elif problems == 1 and rows_per_person == 1:
        sigma = objective.noise(
            epsilon=epsilon, delta=delta, minimum_error=gradient_left, **problem
        )
    else:
        sigma = calibrate.least_noise(profile_at, epsilon, delta)
    return sigma, out(sigma)
