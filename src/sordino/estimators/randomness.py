"""`Randomness`: where the orders and the noise of one fit come from."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sordino.randomness import Name, SeededStreams, Streams
from sordino.release.noise import CryptoNormals, Noise, NoiseStream, OsGaussian, SeededNoise
from sordino.types import Floats


@dataclass(frozen=True)
class Randomness:
    """What one fit draws from.

    Parameters
    ----------
    orders
        Permutations and Poisson draws. Repeatable within the fit, so that all classes see the
        same batches; its root is recorded nowhere.
    released
        Noise that leaves with the weights.
    steps
        Noise inside an iterative training.
    """

    orders: Streams
    released: Noise
    steps: Noise

    @classmethod
    def of_system(cls) -> Randomness:
        """Fresh from the operating system: what a guarantee needs."""
        orders = SeededStreams(secrets.token_hex(32))
        return cls(orders, OsGaussian(), CryptoNormals())

    @classmethod
    def seeded(cls, seed: int) -> Randomness:
        """Repeatable, for experiments; protects nobody."""
        noise = SeededNoise(seed)
        return cls(SeededStreams(f"estimator {seed}"), noise, noise)


@dataclass
class ScaledNoise:
    """Noise for runs trained together, each with a multiple of its own.

    Run `seed` of problem `problem` gets `scales[seed]` times what `source` gives.
    """

    source: Noise
    scales: Mapping[int, float]
    problem: int
    repeatable: bool

    def stream(self, *name: Name) -> _ScaledStream:
        """Open the noise of one run; the last part of its name is its number."""
        run = name[-1]
        assert isinstance(run, int)
        return _ScaledStream(self.source.stream(*name, self.problem), self.scales[run])


@dataclass(frozen=True)
class _ScaledStream:
    inner: NoiseStream
    scale: float

    def standard_normal(self, size: tuple[int, int]) -> Floats:
        return np.asarray(self.scale * self.inner.standard_normal(size))
