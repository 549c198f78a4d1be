"""Noise of the right size and the right law, drawn from too few seeds.

The library's own training and its own noise source (`mechanisms.noise.SeededNoise`); only the
seed's entropy is changed. An attacker knows the code: where few seeds are possible, the possible
outputs of the two worlds are few and different, and no finite epsilon holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sordino.audit.claim import Claim
from sordino.audit.gallery.entry import Case, Entry
from sordino.audit.gallery.pair import COLUMNS, antipodal
from sordino.data.dataset import Dataset
from sordino.mechanisms.noise import SeededNoise
from sordino.objectives.objective import ObjectiveSpec
from sordino.privacy import Relation
from sordino.proofs.output import output_perturbation
from sordino.sgd.spec import TrainSpec

_ROWS = 20
_SPEC = TrainSpec(
    ObjectiveSpec("huber-svm", l2=0.1, intercept=False),
    0.5,
    batch_size=_ROWS,
    steps=20,
    order="fixed",
    init="given",
    dtype="float64",
)


@dataclass(frozen=True)
class SeededRelease:
    """Gradient descent, then N(0, scale^2) on every weight from a seed of this many bytes.

    The training is deterministic, so one serves all runs of a call; each has a seed of its own.
    """

    scale: float
    seed_bytes: int
    batched: ClassVar[bool] = True

    def __call__(
        self, data: Dataset, generator: np.random.Generator, runs: int
    ) -> npt.NDArray[np.float64]:
        """Weights of `runs` releases, [run, weight]."""
        from sordino.sgd.engine import train

        trained = train(_SPEC, data, [0], initial_weights=np.zeros(COLUMNS))[0, 0, 0]
        seeds = [int.from_bytes(generator.bytes(self.seed_bytes), "big") for _ in range(runs)]
        return np.stack([SeededNoise(seed).perturb(trained, self.scale) for seed in seeds])


def fixed_seed() -> Case:
    """Every release has the same noise: the output betrays the dataset. True epsilon infinite."""
    return _case(seed_bytes=0)


def one_byte_seed() -> Case:
    """256 seeds, so 256 outputs for D and 256 others for D'. True epsilon infinite."""
    return _case(seed_bytes=1)


def _case(seed_bytes: int) -> Case:
    claim = Claim(1.0, 1e-5, Relation.REPLACE_ONE)
    constants = _SPEC.objective.constants(1.0)
    assert constants is not None
    proved = output_perturbation(
        _SPEC, constants, _ROWS, claim.relation, features=COLUMNS, norm=1.0
    )
    scale = proved.sigma(claim.epsilon, claim.delta)
    return Case(
        *antipodal(_ROWS),
        broken=SeededRelease(scale, seed_bytes),
        correct=SeededRelease(scale, seed_bytes=32),
        claim=claim,
        true_epsilon=math.inf,
    )


ENTRIES = (
    Entry(
        name="fixed-seed",
        fault="Every release draws its noise from the same seed.",
        source="TensorFlow Privacy, bolt_on; any random_state=0 left in the code",
        case=fixed_seed,
        runs=5_000,
        smoke_runs=1_000,
    ),
    Entry(
        name="one-byte-seed",
        fault="The seed of the noise is one random byte.",
        source="dpml-benchmark, algorithms/psgd.py",
        case=one_byte_seed,
        runs=10_000,
        smoke_runs=2_000,
    ),
)
