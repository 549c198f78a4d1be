"""Noise on the final weights: how far one record can move them, and what the noise then proves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from sordino import checks, sensitivity
from sordino.accounting import calibrate, gaussian
from sordino.accounting.group import group
from sordino.accounting.last_iterate import permuted
from sordino.accounting.profile import GaussianProfile, Profile
from sordino.errors import NotApplicable
from sordino.models.constants import Constants
from sordino.privacy import SECRET, Relation, Sampling
from sordino.proofs.proof import Proof, TrainingEvidence, unit_of
from sordino.proofs.steps import batches_of, rates_of
from sordino.sensitivity import Batches, Sensitivity
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats


@dataclass(frozen=True)
class OutputPerturbation:
    """A training without noise whose final weights get some: all that its proof needs.

    Parameters
    ----------
    spec
        How it is trained.
    sensitivity
        How far one record in each batch can move the weights of all problems together, rounding
        included.
    batches, rates
        What theorems on sensitivity ask, slack in the norms and the clip counted; the learning
        rate of every step.
    rounding
        What float64 adds to the distance of two runs of one problem: once for each.
    epochs
        As `sensitivity` epoch by epoch, where each epoch has an order of its own; None elsewhere.
    features
        Weights of one model.
    problems
        Models trained on the same batches and released together: sqrt(problems) times as far.
    rows_per_person
        Size of the group protected.
    source
        Who the training is by, for the theorem's name.
    noise
        Standard deviation of the noise on each weight; 0 until it is chosen.
    """

    spec: TrainSpec
    sensitivity: Sensitivity
    batches: Batches = field(compare=False)
    rates: Floats = field(compare=False)
    rounding: float
    epochs: tuple[tuple[float, ...], ...] | None = None
    features: int = 1
    problems: int = 1
    rows_per_person: int = 1
    source: str = ""
    noise: float = 0.0

    @property
    def same_order(self) -> bool:
        """Whether every pass has the same batches."""
        return self.epochs is None

    @property
    def secret_place(self) -> bool:
        """Whether a secret order hides in which of several places a record is."""
        return self.spec.order in SECRET and len(self.sensitivity.positions) > 1

    @property
    def farthest(self) -> float:
        """How far one record can move the weights, whatever the order."""
        if self.epochs is not None:
            return math.fsum(max(epoch) for epoch in self.epochs)
        return self.sensitivity.worst

    def moved(self, bound: Sensitivity) -> float:
        """How far one record moves all models together by `bound` of one, rounding included."""
        return bound.plus(self.rounding).scaled(math.sqrt(self.problems)).worst

    def gaussian(self, moved: float, theorem: str) -> Profile:
        """The exact Gaussian mechanism for a distance, for the whole group."""
        parameter = moved / self.noise * (1 + 1e-15)
        relation = self.sensitivity.relation
        one = GaussianProfile(parameter=parameter, relation=relation, theorem=theorem)
        return group(one, self.rows_per_person).noted(theorem=theorem)

    def profile(self, sigma: float) -> Profile:
        """With noise of this standard deviation on each weight."""
        of = self.sensitivity
        if self.epochs is not None:
            one = permuted.reshuffled(
                contributions=self.epochs, sigma=sigma, relation=of.relation, weights=of.shares
            )
        elif self.secret_place:
            one = permuted.hockey_mixture(
                sensitivities=of.positions, weights=of.shares, sigma=sigma, relation=of.relation
            )
        else:
            one = permuted.worst_position(
                sensitivities=of.positions, sigma=sigma, relation=of.relation
            )
        return group(one, self.rows_per_person)

    def sigma(self, epsilon: float, delta: float) -> float:
        """The least noise for a budget, rounded up; 0 if it is infinite."""
        if math.isinf(checks.positive("epsilon", epsilon, allow_infinite=True)):
            return 0.0
        enough = gaussian.sigma(epsilon, delta, self.farthest * self.rows_per_person)
        if self.profile(enough).mu is not None:
            return calibrate.proved(self.profile, enough, epsilon, delta)
        return calibrate.least_noise(self.profile, epsilon, delta, guess=0.97 * enough)

    def proof(self, sigma: float) -> Proof:
        """What noise of this standard deviation proves."""
        assumes = [
            f"N(0, {sigma:.6g}^2) on every weight",
            *self.sensitivity.conditions,
            "initial weights and all settings chosen without looking at these data",
            "nothing else leaves the building: no other iterate, no un-noised score",
        ]
        if self.spec.order in SECRET:
            assumes.append("the order of the records is uniform and stays secret")
        profile = self.profile(sigma)
        source = f"{self.source}: " if self.source else ""
        theorem = f"{source}{self.sensitivity.theorem}; {profile.theorem}"
        return Proof(
            profile=profile.noted(theorem=theorem),
            sampling=self.spec.written_order,
            assumes=tuple(assumes),
            unit=unit_of(self.rows_per_person),
            rests_on="gaussian-mixture" if self.secret_place else "gaussian",
        )


def output_perturbation(
    spec: TrainSpec,
    constants: Constants,
    n: int,
    relation: Relation,
    *,
    features: int,
    norm: float,
    problems: int = 1,
    rows_per_person: int = 1,
    start_norm: float = 0.0,
    source: str = "",
) -> OutputPerturbation:
    """Check the theorems on the sensitivity of the final weights, and compute it.

    Parameters
    ----------
    spec, constants, n, relation
        As in `prove`; the training adds no noise of its own.
    features
        Weights of one model, for the bound on rounding.
    norm
        What no row's norm exceeds.
    problems, rows_per_person, source
        As in `OutputPerturbation`.
    start_norm
        Norm of the initial weights.

    Raises
    ------
    NotApplicable
        Where no theorem bounds the sensitivity, with the condition that fails.
    """
    plain = spec.radius is None and spec.objective.kind != "least-squares"
    for holds, reason in (
        (
            not spec.noise_multiplier,
            "The training adds noise itself; train with noise_multiplier=0, or ask "
            "sordino.proofs.prove.",
        ),
        (
            spec.order != Sampling.POISSON,
            "With Poisson sampling a record can be met at any step, and no bound on how often is "
            "sure; use order='permute-once'.",
        ),
        (plain, "Rounding is bounded for logistic and Huber losses with radius=None only."),
        (
            spec.dtype == "float64",
            "Rounding in float32 can move the weights as far as a record does; train in float64 "
            "(rows may stay in float32).",
        ),
    ):
        if not holds:
            raise NotApplicable(reason)
    batches = batches_of(spec, constants, n)
    rates = np.broadcast_to(rates_of(spec, n), (spec.total_steps(n),))
    every = spec.average_every
    slack = 2 * sensitivity.rounding(
        rates=rates,
        average_every=every,
        features=features,
        norm=norm,
        start_norm=start_norm,
        **batches,
    )
    factor = math.sqrt(checks.whole("problems", problems, at_least=1))
    found = sensitivity.contraction(rates=rates, relation=relation, average_every=every, **batches)
    epochs = None
    if spec.order == Sampling.SHUFFLE and len(found.positions) > 1:
        parts = sensitivity.reshuffled_contributions(
            rates=rates, relation=relation, average_every=every, **batches
        )
        # Rounding happens once, whatever the orders: it is counted in the first epoch's part.
        epochs = tuple(
            tuple(factor * (part + (slack if at == 0 else 0.0)) for part in epoch)
            for at, epoch in enumerate(parts.epochs)
        )
    return OutputPerturbation(
        *(spec, found.plus(slack).scaled(factor), batches, rates, slack, epochs),
        *(features, problems, rows_per_person, source),
    )


@dataclass(frozen=True, kw_only=True)
class OutputEvidence(TrainingEvidence):
    """A training without noise, and Gaussian noise `sigma` on each final weight.

    `start_norm` is the norm of the initial weights, `source` who the training is by.
    """

    kind: ClassVar[str] = "output-perturbation"
    _positive: ClassVar[tuple[str, ...]] = ("sigma",)

    sigma: float
    start_norm: float = 0.0
    source: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.non_negative("start_norm", self.start_norm)
        if not isinstance(self.source, str):
            checks.fail("source", type(self.source).__name__, "to be a text")

    def done(self) -> OutputPerturbation:
        """The training with its sensitivity, and its noise."""
        found = output_perturbation(
            *(self.spec, self.constants, self.rows, self.relation),
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
        done = self.done()
        batches = len(done.sensitivity.positions)
        moves = f"one record moves the released weights by at most {done.farthest:.6g}"
        if batches > 1:
            moves += f", {done.sensitivity.mean:.6g} in the mean over its {batches} batches"
        return {
            "schedule": self.schedule(),
            "sensitivity": f"{moves} (L2 norm over all {self.problems * self.columns} weights)",
            "noise": f"standard deviation {self.sigma:.6g} on every final weight",
        }
