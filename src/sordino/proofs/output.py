"""Noise on the final weights: how far one record can move them, and what the noise then proves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sordino import checks, sensitivity
from sordino.accounting import calibrate, gaussian
from sordino.accounting.compose import group
from sordino.accounting.last_iterate import permuted
from sordino.accounting.profile import GaussianProfile, Profile
from sordino.errors import NotApplicable
from sordino.models.constants import Constants
from sordino.privacy import SECRET, VARYING, Sampling
from sordino.proofs.proof import Proof, TrainingEvidence, unit_of
from sordino.proofs.steps import batches_of, rates_of
from sordino.sensitivity import Batches, Sensitivity
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats


@dataclass(frozen=True)
class OutputPerturbation:
    """A training without noise whose final weights get some, and how far one record moves them.

    Parameters
    ----------
    of
        The training, and the noise.
    sensitivity
        How far one record in each batch can move the weights of all problems together, rounding
        included: sqrt(models) times as far as one's.
    batches, rates
        What theorems on sensitivity ask, slack in the norms and the clip counted; the learning
        rate of every step.
    rounding
        What float64 adds to the distance of two runs of one model: once for each.
    epochs
        As `sensitivity` epoch by epoch, where each epoch has an order of its own; None elsewhere.
    """

    of: OutputEvidence
    sensitivity: Sensitivity
    batches: Batches = field(compare=False)
    rates: Floats = field(compare=False)
    rounding: float
    epochs: tuple[tuple[float, ...], ...] | None = None

    @property
    def spec(self) -> TrainSpec:
        """How it is trained."""
        return self.of.spec

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
        return bound.plus(self.rounding).scaled(math.sqrt(self.of.models)).worst

    def gaussian(self, moved: float, theorem: str) -> Profile:
        """The exact Gaussian mechanism for a distance, for the whole group."""
        parameter = moved / self.of.sigma * (1 + 1e-15)
        relation = self.sensitivity.relation
        one = GaussianProfile(parameter=parameter, relation=relation, theorem=theorem)
        return group(one, self.of.rows_per_person).noted(theorem=theorem)

    def profile(self, sigma: float) -> Profile:
        """With noise of this standard deviation on each weight."""
        of = self.sensitivity
        how: dict[str, Any] = {"sigma": sigma, "relation": of.relation}
        if self.epochs is not None:
            one = permuted.reshuffled(contributions=self.epochs, weights=of.shares, **how)
        elif self.secret_place:
            one = permuted.hockey_mixture(sensitivities=of.positions, weights=of.shares, **how)
        else:
            one = permuted.worst_position(sensitivities=of.positions, **how)
        return group(one, self.of.rows_per_person)

    def sigma(self, epsilon: float, delta: float) -> float:
        """The least noise for a budget, rounded up; 0 if it is infinite."""
        if math.isinf(checks.positive("epsilon", epsilon, allow_infinite=True)):
            return 0.0
        enough = gaussian.sigma(epsilon, delta, self.farthest * self.of.rows_per_person)
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
        assumes += self.of.about_persons
        profile = self.profile(sigma)
        source = f"{self.of.source}: " if self.of.source else ""
        theorem = f"{source}{self.sensitivity.theorem}; {profile.theorem}"
        done = profile.noted(theorem=theorem), self.spec.written_order, tuple(assumes)
        name = "gaussian-mixture" if self.secret_place else "gaussian"
        return Proof(*done, unit=unit_of(self.of.rows_per_person), rests_on=name)


@dataclass(frozen=True, kw_only=True)
class OutputEvidence(TrainingEvidence):
    """A training without noise, and Gaussian noise `sigma` on each final weight.

    `start_norm` is the norm of one model's initial weights, at most; `source` who the training is
    by.
    """

    kind = "output-perturbation"
    _positive = ("sigma",)

    sigma: float
    start_norm: float = 0.0
    source: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.non_negative("start_norm", self.start_norm)
        if not isinstance(self.source, str):
            checks.fail("source", type(self.source).__name__, "to be a text")

    def done(self, constants: Constants | None = None) -> OutputPerturbation:
        """Check the theorems on the sensitivity of the final weights, and compute it.

        `constants` are those of the loss, where they are not the ones for rows of `norm`.

        Raises
        ------
        NotApplicable
            Where no theorem bounds the sensitivity, with the condition that fails.
        """
        spec = self.spec
        if spec.noise_multiplier:
            raise NotApplicable("The training adds noise itself; use noise_multiplier=0.")
        if spec.order in VARYING:
            which = str(spec.order).capitalize()
            raise NotApplicable(f"{which} batches meet a record at any step; use 'permute-once'.")
        if spec.radius is not None or spec.objective.kind == "least-squares":
            raise NotApplicable(
                "Rounding is bounded for no least squares, and for radius=None alone."
            )
        if spec.dtype != "float64":
            raise NotApplicable("Rounding in float32 moves weights too far; use float64.")
        batches = batches_of(spec, constants or self.constants, self.rows)
        rates = np.broadcast_to(rates_of(spec, self.rows), (self.length,))
        steps: dict[str, Any] = {"rates": rates, "average_every": spec.average_every, **batches}
        slack = 2 * sensitivity.rounding(
            features=self.columns,
            scores=spec.objective.scores,
            norm=self.norm,
            start_norm=self.start_norm,
            **steps,
        )
        factor = math.sqrt(self.models)
        found = sensitivity.contraction(relation=self.relation, **steps)
        epochs = None
        if spec.order == Sampling.SHUFFLE and len(found.positions) > 1:
            parts = sensitivity.reshuffled_contributions(relation=self.relation, **steps)
            # Rounding happens once, whatever the orders: it is counted in the first epoch's part.
            epochs = tuple(
                tuple(factor * (part + (slack if at == 0 else 0.0)) for part in epoch)
                for at, epoch in enumerate(parts.epochs)
            )
        moved = found.plus(slack).scaled(factor)
        return OutputPerturbation(self, moved, batches, rates, slack, epochs)

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
