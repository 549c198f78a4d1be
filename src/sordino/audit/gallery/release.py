"""Noise on what is released: a weight that was forgotten, a formula beyond its theorem, few seeds.

The seeds are those of the library's own noise source (`mechanisms.noise.SeededNoise`), of which
only the entropy is changed. An attacker knows the code: where few seeds are possible, the possible
outputs of the two worlds are few and different, and no finite epsilon holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sordino.accounting import gaussian
from sordino.audit.claim import Claim
from sordino.audit.gallery.entry import COLUMNS, Case, GalleryEntry, antipodal, huber, proved
from sordino.data.dataset import Dataset
from sordino.privacy import Relation
from sordino.release.noise import SeededNoise
from sordino.sgd.spec import TrainSpec

_ROWS = 20
_SPEC = huber(0.01, intercept=True, batch_size=_ROWS, steps=20, order="fixed")
_WEIGHTS = 2
"""One feature, then the intercept."""


def _trained(spec: TrainSpec, data: Dataset, weights: int) -> npt.NDArray[np.float64]:
    """The weights of a deterministic training, so that one serves all runs of a call."""
    from sordino.sgd.engine import train

    return np.asarray(train(spec, data, [0], initial_weights=np.zeros(weights))[0, 0, 0])


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
        trained = _trained(_SPEC, data, _WEIGHTS)
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
    right = proved(_SPEC, _ROWS, features=_WEIGHTS, norm=math.sqrt(2))
    scale = right.sigma(claim.epsilon, claim.delta)
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


_SEEDED = huber(0.5, l2=0.1, batch_size=_ROWS, steps=20, order="fixed")


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
        trained = _trained(_SEEDED, data, COLUMNS)
        seeds = [int.from_bytes(generator.bytes(self.seed_bytes), "big") for _ in range(runs)]
        return np.stack([SeededNoise(seed).perturb(trained, self.scale) for seed in seeds])


def fixed_seed() -> Case:
    """Every release has the same noise: the output betrays the dataset. True epsilon infinite."""
    return _seeded(seed_bytes=0)


def one_byte_seed() -> Case:
    """256 seeds, so 256 outputs for D and 256 others for D'. True epsilon infinite."""
    return _seeded(seed_bytes=1)


def _seeded(seed_bytes: int) -> Case:
    claim = Claim(1.0, 1e-5, Relation.REPLACE_ONE)
    scale = proved(_SEEDED, _ROWS).sigma(claim.epsilon, claim.delta)
    return Case(
        *antipodal(_ROWS),
        broken=SeededRelease(scale, seed_bytes),
        correct=SeededRelease(scale, seed_bytes=32),
        claim=claim,
        true_epsilon=math.inf,
    )


ENTRIES = (
    GalleryEntry(
        name="unnoised-bias",
        fault="Every weight gets noise but the intercept.",
        source="TensorFlow Privacy, bolt_on",
        case=unnoised_bias,
        runs=20_000,
        smoke_runs=1_000,
    ),
    GalleryEntry(
        name="classical-gaussian",
        fault="Noise by sqrt(2 ln(1.25/delta)) / epsilon, whose theorem ends at epsilon = 1.",
        source="intrinsic-private-sgd; many others",
        case=classical_gaussian,
    ),
    GalleryEntry(
        name="fixed-seed",
        fault="Every release draws its noise from the same seed.",
        source="TensorFlow Privacy, bolt_on; any random_state=0 left in the code",
        case=fixed_seed,
        runs=5_000,
        smoke_runs=1_000,
    ),
    GalleryEntry(
        name="one-byte-seed",
        fault="The seed of the noise is one random byte.",
        source="dpml-benchmark, algorithms/psgd.py",
        case=one_byte_seed,
        runs=10_000,
        smoke_runs=2_000,
    ),
)
