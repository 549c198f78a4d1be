"""`NetworkPlan`: a network with one hidden layer, trained by DP-SGD and accounted by composition.

Nothing is proved of its final weights beyond what is proved of all iterates together: theorems on
the last iterate, on sensitivity and on objectives need a convex loss.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.accounting.profile import Profile
from sordino.assessment.conditions import of_steps, together
from sordino.assessment.stages.prove import bounds_beside
from sordino.audit.claim import Claim
from sordino.data.catalogue.recipe import Recipe
from sordino.data.dataset import Dataset
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import Guarantee, Relation, Sampling
from sordino.proofs import theorems
from sordino.proofs.proof import Proof
from sordino.proofs.run import Run, run_of
from sordino.proofs.training import prove_steps
from sordino.report.stages import Bound
from sordino.sgd.spec import TrainSpec

HIDDEN, CLIP = 10, 1.0
STEPS = 300
WANDER, MOST_RATE = 1.2, 2.0
"""The noise of all steps together moves a weight by about so much; no rate is above the second."""
_RATE, _BATCH, _PLAIN_STEPS = 0.5, 32, 2000
"""Ordinary training, where no paper has settings for the dataset."""


@dataclass(frozen=True)
class NetworkPlan:
    """How a network is trained with noise, and what that proves.

    Parameters
    ----------
    spec
        The training, its noise inside.
    rows
        Number of records.
    delta
        Where the guarantee is stated.
    rows_per_person
        Size of the group protected.
    not_covered
        What was read off the records beside the training.
    """

    spec: TrainSpec
    rows: int
    delta: float
    rows_per_person: int = 1
    not_covered: tuple[str, ...] = ()

    @functools.cached_property
    def _run(self) -> Run:
        return _run(self.spec, self.rows, self.rows_per_person)

    @functools.cached_property
    def proof(self) -> Proof:
        """Composition over all iterates, by privacy loss distributions."""
        proof = prove_steps(
            *(self.spec, None, self.rows, Relation.REPLACE_ONE, self.delta),
            accountant="pld",
            rows_per_person=self.rows_per_person,
        )
        return replace(proof, not_covered=self.not_covered)

    @property
    def profile(self) -> Profile:
        """Everything an attacker can gain."""
        return self.proof.profile

    @functools.cached_property
    def guarantee(self) -> Guarantee:
        """Of all iterates, the final one among them."""
        return self.proof.guarantee(self.delta)

    @property
    def claim(self) -> Claim:
        """What an audit tries to refute."""
        return Claim.of(self.guarantee, self.profile)

    @functools.cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """What every theorem says of this training, the used one first."""
        steps = of_steps(self.spec, self._run, None) + together(1, self.rows_per_person)
        checked = {"all": steps, "final": steps}
        kind = "noisy-steps-of-a-network"
        return bounds_beside(self.proof, kind, self._run, self.delta, checked)

    @property
    def facts(self) -> Mapping[str, str]:
        """Schedule, sensitivity and noise, in words."""
        spec, clip = self.spec, self.spec.max_grad_norm
        assert clip is not None
        rate = self._run.steps.sample_rate
        return {
            "schedule": (
                f"{self._run.steps.steps:,} steps, each record in each batch with probability "
                f"{rate:.6g}, sums divided by {spec.batch_size:,}, learning rate "
                f"{spec.schedule.rate:.6g}, {spec.objective.hidden} hidden units"
            ),
            "sensitivity": (
                f"gradients are clipped to {clip:.6g}: one record moves a sum of them by at most "
                f"{2 * clip:.6g}"
            ),
            "noise": (
                f"standard deviation {spec.noise_multiplier * clip:.6g} on every sum of clipped "
                f"gradients (noise multiplier {spec.noise_multiplier:.6g})"
            ),
        }


def plan(
    D: Dataset,
    recipe: Recipe | None,
    epsilon: float,
    delta: float,
    *,
    rows_per_person: int = 1,
    not_covered: tuple[str, ...] = (),
) -> NetworkPlan:
    """DP-SGD of a network on two classes, with the least noise for (epsilon, delta).

    Settings follow from public numbers alone: how many records there are, and the papers' number
    of hidden units for a dataset by name.

    Raises
    ------
    InvalidArgument
        For labels other than 0 and 1.
    """
    _check_two_classes(D)
    spec = _noisy_spec(D.rows, recipe)
    run = _run(spec, D.rows, rows_per_person)
    noise = theorems.named("pld").least_noise(run, epsilon, delta)
    assert isinstance(noise, float)
    spec = replace(spec, noise_multiplier=noise, learning_rate=_rate(spec, noise))
    return NetworkPlan(spec, D.rows, delta, rows_per_person, not_covered)


def _noisy_spec(rows: int, recipe: Recipe | None) -> TrainSpec:
    """The training without its noise; batches of a twentieth of the records or sqrt(rows)."""
    batch = min(rows, max(math.isqrt(rows), rows // 20, 1))
    return TrainSpec(
        objective=ObjectiveSpec("mlp", hidden=_hidden(recipe)),
        learning_rate=MOST_RATE,
        batch_size=batch,
        steps=STEPS,
        order=Sampling.POISSON,
        max_grad_norm=CLIP,
        init="fixed",
        dtype="float64",
    )


def _rate(spec: TrainSpec, noise: float) -> float:
    """The rate at which the noise wanders no farther than it should: of public numbers alone."""
    step = noise * CLIP / spec.batch_size * math.sqrt(STEPS)
    return min(MOST_RATE, WANDER / step) if step > 0 else MOST_RATE


def _run(spec: TrainSpec, rows: int, rows_per_person: int) -> Run:
    return run_of(spec, None, rows, Relation.REPLACE_ONE, rows_per_person=rows_per_person)


def plain_network_spec(D: Dataset, recipe: Recipe | None) -> TrainSpec:
    """Ordinary training of the same network without noise: the papers' settings, or usual ones."""
    _check_two_classes(D)
    papers = None if recipe is None else recipe.network
    return TrainSpec(
        objective=ObjectiveSpec("mlp", hidden=_hidden(recipe)),
        learning_rate=_RATE if papers is None else papers.learning_rate,
        batch_size=min(D.rows, _BATCH if papers is None else papers.batch_size),
        steps=_PLAIN_STEPS if papers is None else papers.steps,
        init="fixed",
    )


def accuracy(
    spec: TrainSpec, weights: npt.ArrayLike, X: npt.NDArray[Any], y: npt.NDArray[Any]
) -> npt.NDArray[np.float64]:
    """Share of rows that each network gets right; `weights` are [..., parameter]."""
    from sordino.models import build

    objective = build(spec.objective, np.shape(X)[1])
    return np.asarray(objective.accuracy(np.asarray(weights), X, y), dtype=np.float64)


def _hidden(recipe: Recipe | None) -> int:
    return HIDDEN if recipe is None or recipe.network is None else recipe.network.hidden_size


def _check_two_classes(D: Dataset) -> None:
    found = np.unique(D.y)
    if not np.isin(found, (0, 1)).all():
        hint = "A network is assessed on two classes; use --model logistic or svm for more."
        checks.fail("classes", len(found), "to be 2 for --model mlp", hint)
