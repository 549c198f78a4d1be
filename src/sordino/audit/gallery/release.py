"""Noise on what is released: a weight that was forgotten, and a formula beyond its theorem."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sordino.accounting import gaussian
from sordino.audit.claim import Claim
from sordino.audit.gallery.entry import Case, Entry
from sordino.data.dataset import Dataset
from sordino.objectives.objective import ObjectiveSpec
from sordino.privacy import Relation
from sordino.proofs.output import output_perturbation
from sordino.sgd.spec import TrainSpec

_ROWS = 20
_SPEC = TrainSpec(
    ObjectiveSpec("huber-svm", intercept=True),
    0.01,
    batch_size=_ROWS,
    steps=20,
    order="fixed",
    init="given",
    dtype="float64",
)
_WEIGHTS = 2
"""One feature, then the intercept."""


@dataclass(frozen=True)
class NoisedWeights:
    """Bolt-on SGD: train, then N(0, scale^2) on the first `noised` weights, many runs at once.

    The training is deterministic, so one serves all runs of a call.
    """

    scale: float
    noised: int
    batched: ClassVar[bool] = True

    def __call__(
        self, data: Dataset, generator: np.random.Generator, runs: int
    ) -> npt.NDArray[np.float64]:
        """Weights of `runs` releases, [run, weight]."""
        from sordino.sgd.engine import train

        trained = train(_SPEC, data, [0], initial_weights=np.zeros(_WEIGHTS))[0, 0, 0]
        released = np.tile(trained.astype(np.float64), (runs, 1))
        released[:, : self.noised] += generator.normal(0.0, self.scale, (runs, self.noised))
        return released


def unnoised_bias() -> Case:
    """Output perturbation of all weights but the intercept, which leaves as it was trained.

    The record's label is flipped; weights stay where the Huber loss has slope 1, so that it moves
    them as far as the proof allows and the correct twin is exactly at its claim. True epsilon
    infinite.
    """
    claim = Claim(1.0, 1e-3, Relation.REPLACE_ONE)
    constants = _SPEC.objective.constants(1.0)
    assert constants is not None
    proved = output_perturbation(
        _SPEC, constants, _ROWS, claim.relation, features=_WEIGHTS, norm=math.sqrt(2)
    )
    scale = proved.sigma(claim.epsilon, claim.delta)
    return Case(
        *_flipped(),
        broken=NoisedWeights(scale, noised=_WEIGHTS - 1),
        correct=NoisedWeights(scale, noised=_WEIGHTS),
        claim=claim,
        true_epsilon=math.inf,
    )


def _flipped() -> tuple[Dataset, Dataset]:
    """Neighbours that differ in the first label; all other rows are empty, with labels by turns."""
    X = np.zeros((_ROWS, 1))
    X[0] = 1.0
    y = np.arange(_ROWS) % 2
    D = Dataset(X, y, norm_bound=1.0, name="gallery")
    return D, Dataset(X, np.where(np.arange(_ROWS) == 0, 1 - y, y), 1.0, "gallery neighbour")


def classical_gaussian() -> Case:
    """Standard deviation sqrt(2 ln(1.25 / delta)) / epsilon, where its theorem ends at 1.

    It is far too much noise at first, and too little from epsilon about 8 on: exactly, epsilon
    25.4 where 20 is claimed. No number of runs shows an epsilon of 20, so nothing is run; the
    twin has the least noise that is enough.
    """
    claim = Claim(20.0, 1e-5, Relation.REPLACE_ONE)

    def exact() -> tuple[float, float]:
        # `gaussian.classical_sigma` without its refusal.
        classical = math.sqrt(2 * math.log(1.25 / claim.delta)) / claim.epsilon
        enough = gaussian.sigma(claim.epsilon, claim.delta)
        broken, correct = (
            gaussian.epsilon(1 / sigma, claim.delta) for sigma in (classical, enough)
        )
        return broken, correct

    return Case.analytic(claim, exact)


ENTRIES = (
    Entry(
        name="unnoised-bias",
        fault="Every weight gets noise but the intercept.",
        source="TensorFlow Privacy, bolt_on",
        case=unnoised_bias,
        runs=20_000,
        smoke_runs=1_000,
    ),
    Entry(
        name="classical-gaussian",
        fault="Noise by sqrt(2 ln(1.25/delta)) / epsilon, whose theorem ends at epsilon = 1.",
        source="intrinsic-private-sgd; many others",
        case=classical_gaussian,
    ),
)
