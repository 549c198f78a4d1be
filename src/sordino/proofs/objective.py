"""Noise in the objective: the least of it for a budget, and what it then proves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sordino import checks
from sordino.accounting import calibrate, objective
from sordino.accounting.compose import times
from sordino.accounting.group import group
from sordino.accounting.objective import Problem
from sordino.accounting.profile import Profile
from sordino.privacy import Relation, Sampling
from sordino.proofs.proof import Proof, unit_of
from sordino.proofs.run import NORM_SLACK


@dataclass(frozen=True)
class ObjectivePerturbation:
    """Minimisers of noisy objectives, found up to an error, each weight with a little noise.

    Parameters
    ----------
    sigma
        Standard deviation of each coefficient of the linear term, on the scale of the SUM.
    sigma_out
        Of the noise on each released weight, which hides the error of the minimiser.
    gradient_left
        Norm of the gradient of the sum objective at which minimising stopped, at most.
    problem
        The objective's numbers.
    problems, rows_per_person
        Objectives with noise of their own over the same records; size of the group protected.
    """

    sigma: float
    sigma_out: float
    gradient_left: float
    problem: Problem = field(hash=False)
    problems: int = 1
    rows_per_person: int = 1

    def profile(self) -> Profile:
        """Of all the objectives together, for the whole group."""
        return group(self.of_one_record(), self.rows_per_person)

    def of_one_record(self) -> Profile:
        """Of all the objectives together."""
        one = objective.objective_perturbation(
            sigma=self.sigma,
            minimum_error=self.gradient_left,
            sigma_out=self.sigma_out,
            **self.problem,
        )
        return times(one, self.problems)

    @property
    def moved(self) -> float:
        """How far one record moves the gradient of the sum, at most."""
        return self.problem["norm"] * (2 if self.problem["relation"] is Relation.REPLACE_ONE else 1)

    def proof(self) -> Proof:
        """What it proves of the released weights."""
        assumes = [
            f"N(0, {self.sigma:.6g}^2) on each coefficient of the linear term, drawn once",
            f"N(0, {self.sigma_out:.6g}^2) on every weight",
            f"the gradient of the summed objective is at most {self.gradient_left:.3g} there",
            f"a regulariser of {self.problem['regulariser']:.6g} on the sum, on every weight",
            "a linear model with the loss given, for rows within their norm bound",
            "all settings chosen without looking at these data, and nothing else released",
        ]
        if self.problem["relation"] is Relation.ADD_OR_REMOVE_ONE:
            assumes.append("the regulariser of the sum is a public number, not made from n")
        return Proof(
            profile=self.profile(),
            sampling=Sampling.FULL,
            assumes=tuple(assumes),
            released="final",
            unit=unit_of(self.rows_per_person),
            rests_on="objective-logistic" if self.problem["kind"] == "logistic" else "objective",
        )


def problem_of(
    *, kind: str, curvature: float, norm: float, regulariser: float, relation: Relation
) -> Problem:
    """The numbers of one objective, checked, with the norm's slack."""
    checks.one_of("kind", kind, objective.KINDS)
    return Problem(
        regulariser=checks.positive("regulariser", regulariser),
        norm=checks.positive("norm", norm) * (1 + NORM_SLACK),
        curvature=curvature,
        kind="logistic" if kind == "logistic" else "huber-svm",
        relation=relation,
    )


def objective_perturbation(
    *,
    kind: str,
    curvature: float,
    norm: float,
    regulariser: float,
    epsilon: float,
    delta: float,
    relation: Relation,
    gradient_left: float = 0.0,
    problems: int = 1,
    rows_per_person: int = 1,
) -> ObjectivePerturbation:
    """The least noise for a budget.

    Parameters
    ----------
    kind, curvature
        The loss, "logistic" or "huber-svm", and its largest second derivative in the score.
    norm
        What no row's norm exceeds.
    regulariser
        Of the SUM of losses, on every weight.
    epsilon, delta, relation
        The promise.
    gradient_left, problems, rows_per_person
        As in `ObjectivePerturbation`.

    Raises
    ------
    NotApplicable
        If no noise is enough for so small an epsilon with so small a regulariser.
    """
    problem = problem_of(
        kind=kind, curvature=curvature, norm=norm, regulariser=regulariser, relation=relation
    )

    def at(sigma: float) -> ObjectivePerturbation:
        out = objective.output_noise(
            sigma=sigma,
            regulariser=problem["regulariser"],
            norm=problem["norm"],
            minimum_error=gradient_left,
        )
        return ObjectivePerturbation(sigma, out, gradient_left, problem, problems, rows_per_person)

    if math.isinf(checks.positive("epsilon", epsilon, allow_infinite=True)):
        return at(0.0)
    if problems == 1 and rows_per_person == 1:
        sigma = objective.noise(
            epsilon=epsilon, delta=delta, minimum_error=gradient_left, **problem
        )
    else:
        sigma = calibrate.least_noise(lambda value: at(value).profile(), epsilon, delta)
    return at(sigma)
