"""Noise in every step: too little of it, batches drawn otherwise, a divisor that tells the size.

Each is a `TrainSpec` with one field changed, calibrated by the library's own proof. Records have
slope 1 wherever the weights get to, so that a step's sum of gradients is a sum of -1, 0 and 1, and
the laws below are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp
from scipy.stats import binom

from sordino.accounting import dp_sgd, gaussian
from sordino.audit.gallery.entry import Case, entry, huber, noise_needed
from sordino.audit.pairs import Claim
from sordino.audit.runners.trained import TrainedRelease
from sordino.data.dataset import Dataset
from sordino.privacy import Relation, Sampling
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats

_RATE = 1e-3
"""So small that the weights stay where the Huber loss has slope 1."""
_RARE = 1e-15


@entry(
    "Noise is divided by the batch size (4) once too often.",
    "hand-written DP-SGD loops; google/differential-privacy#378",
    (15_000, 2_000),
)
def noise_on_mean() -> Case:
    """Noise of the sum, divided by the batch size once before it is added and once after.

    All iterates are released; one record has a gradient and the others have none, so that the twin
    is at its claim. True epsilon 12.3 where 1 is claimed.
    """
    rows, size = 16, 4
    claim = Claim(1.0, 1e-3, Relation.ZERO_OUT)
    correct = _calibrated(_spec(batch_size=size, steps=rows // size), rows, claim)
    too_little = correct.noise_multiplier / size
    training = too_little, size / rows, rows // size
    really = dp_sgd.pld(*training, sampling="poisson", relation=claim.relation)
    return Case(
        _pulling([0] * rows),
        _pulling([1] + [0] * (rows - 1)),
        broken=_all_iterates(replace(correct, noise_multiplier=too_little)),
        correct=_all_iterates(correct),
        claim=claim,
        score=PoissonRatio(correct.noise_multiplier, size / rows, size),
        true_epsilon=really.epsilon(claim.delta),
    )


@entry(
    "Batches of a shuffled pass are accounted for as Poisson samples.",
    "opacus#80, tensorflow/privacy#19; Chua et al. 2024, Annamalai et al. 2024",
    (12_000, 2_000),
)
def shuffled_as_poisson() -> Case:
    """Batches of a shuffled pass, with noise for batches drawn by Poisson sampling.

    The record is met exactly once a pass. All others pull the other way, so that every batch but
    one looks the same and the one that has the record stands out: whether it pulls or is silent is
    then all that is hidden, as if there were no sampling (Chua et al. 2024). True epsilon 4.2 (by
    simulating its loss; 4.3 is proved) where 1 is claimed.
    """
    rows = 60
    claim = Claim(1.0, 1e-3, Relation.ZERO_OUT)
    correct = _calibrated(_spec(batch_size=1, steps=rows), rows, claim)
    noise = correct.noise_multiplier
    really = dp_sgd.pld(noise, 1 / rows, rows, sampling=Sampling.SHUFFLE, relation=claim.relation)
    return Case(
        _pulling([0] + [-1] * (rows - 1)),
        _pulling([1] + [-1] * (rows - 1)),
        broken=_all_iterates(replace(correct, order=Sampling.SHUFFLE)),
        correct=_all_iterates(correct),
        claim=claim,
        score=ShuffledRatio(noise),
        true_epsilon=really.epsilon(claim.delta),
        correct_score=PoissonRatio(noise, 1 / rows, 1, others=rows - 1),
    )


@entry(
    "Sums are divided by the private number of records.",
    "Opacus: expected batch size from the private number of records",
    (8_000, 2_000),
)
def private_divisor() -> Case:
    """Sums of gradients divided by the number of records, claimed for a record added or removed.

    The noise is that of the sum, so it is divided, too, and tells the number as well. The mean
    moves twice as far as by a public divisor, and the fewer the records, the more tells its noise.
    One step on all records. True epsilon 8.7 where 1 is claimed.
    """
    public = 3
    claim = Claim(1.0, 1e-3, Relation.ADD_OR_REMOVE_ONE)
    correct = _calibrated(_spec(batch_size=public, steps=1, sample_rate=1.0), public, claim)
    noise = correct.noise_multiplier
    D, D_prime = (1.0, noise / (public - 1)), ((public - 2) / public, noise / public)
    return Case(
        _pulling([1] * (public - 1)),
        _pulling([1] * (public - 1) + [-1]),
        broken=DividedByRows(correct),
        correct=TrainedRelease(correct, initial_weights=(0.0,)),
        claim=claim,
        true_epsilon=epsilon_of_normals(D, D_prime, claim.delta),
    )


def _pulling(gradients: Sequence[int]) -> Dataset:
    """One record a gradient, each -1, 0 or 1 at every weight that is met here."""
    wanted = np.asarray(gradients)
    X = np.abs(wanted)[:, None].astype(np.float64)
    return Dataset(X, (wanted < 0).astype(np.int64), norm_bound=1.0, name="gallery")


@dataclass(frozen=True)
class DividedByRows:
    """A training whose batch size, by which sums are divided, is the number of records."""

    spec: TrainSpec
    batched: ClassVar[bool] = True

    def __call__(self, data: Dataset, generator: np.random.Generator, runs: int) -> Floats:
        """Final weights of `runs` trainings, [run, weight]."""
        from sordino.sgd.engine import train

        seeds = generator.integers(2**63, size=runs).tolist()
        spec = replace(self.spec, batch_size=data.rows)
        return np.asarray(train(spec, data, seeds, initial_weights=np.zeros(1))[:, 0, 0])


@dataclass(frozen=True)
class PoissonRatio:
    """Likelihood ratio of all iterates where one record is drawn by chance.

    So are `others`, each of which pulls the other way; all the rest are silent.
    """

    noise: float
    sample_rate: float
    batch_size: int
    others: int = 0

    def __call__(self, iterates: Floats) -> Floats:
        """Score of each run, [run, step] -> [run]."""
        sums = noisy_sums(iterates, self.batch_size)
        with_it, without = self._log_density(sums - 1), self._log_density(sums)
        return np.asarray(np.log1p(self.sample_rate * np.expm1(with_it - without)).sum(axis=1))

    def _log_density(self, sums: Floats) -> Floats:
        """Of a step's sum without the record, up to a constant: a mixture over those drawn."""
        drawn = np.arange(self.others + 1)
        chances = binom.pmf(drawn, self.others, self.sample_rate)
        found = np.full_like(sums, -np.inf)
        for many, chance in zip(drawn[chances > _RARE], chances[chances > _RARE], strict=True):
            found = np.logaddexp(found, np.log(chance) - (sums + many) ** 2 / (2 * self.noise**2))
        return found


@dataclass(frozen=True)
class ShuffledRatio:
    """Likelihood ratio of all iterates of one pass in which one record pulls, or is silent.

    Against the -1 of all others the batch that has the record is 2 larger, or 1 if it is silent.
    """

    noise: float

    def __call__(self, iterates: Floats) -> Floats:
        """Score of each run, [run, step] -> [run]."""
        above = noisy_sums(iterates, 1) + 1
        pulls, silent = (
            logsumexp((2 * size * above - size**2) / (2 * self.noise**2), axis=1) for size in (2, 1)
        )
        return np.asarray(pulls - silent)


def noisy_sums(iterates: Floats, batch_size: int) -> Floats:
    """What every step added: its sum of gradients and noise, from the weights after each step."""
    return -np.diff(iterates, axis=1, prepend=0.0) * batch_size / _RATE


def epsilon_of_normals(
    first: tuple[float, float], second: tuple[float, float], delta: float
) -> float:
    """Epsilon at `delta` of two normals (mean, standard deviation) against each other, by sums."""
    middle, widest = (first[0] + second[0]) / 2, max(first[1], second[1])
    x = middle + np.linspace(-15, 15, 60_001) * widest
    logs = [-(((x - mean) / sd) ** 2) / 2 - np.log(sd) for mean, sd in (first, second)]
    weight = (x[1] - x[0]) / np.sqrt(2 * np.pi)

    def holds(epsilon: float) -> bool:
        ways = (logs, logs[::-1])
        gains = [np.exp(p) * -np.expm1(np.minimum(epsilon + q - p, 0.0)) for p, q in ways]
        return bool(weight * max(gain.sum() for gain in gains) <= delta)

    return gaussian.least(holds, 0.0, 100.0)


def _spec(batch_size: int, steps: int, sample_rate: float | None = None) -> TrainSpec:
    how: dict[str, Any] = {"order": "poisson", "sample_rate": sample_rate, "max_grad_norm": 1.0}
    return huber(_RATE, batch_size=batch_size, steps=steps, **how)


def _calibrated(spec: TrainSpec, rows: int, claim: Claim) -> TrainSpec:
    """With the least noise for the claim, if all iterates are released."""
    noise = noise_needed(spec, rows, claim.relation, claim, accountant="pld")
    return replace(spec, noise_multiplier=noise)


def _all_iterates(spec: TrainSpec) -> TrainedRelease:
    assert spec.steps is not None
    return TrainedRelease(spec, initial_weights=(0.0,), checkpoints=tuple(range(1, spec.steps + 1)))
