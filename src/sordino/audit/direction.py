"""`Direction`: where two worlds' outputs differ most for their noise, cross-fitted.

Of two Gaussians with covariance C and means m apart, the log likelihood ratio is linear along
C^-1 m. From few runs C is shrunk towards a multiple of the identity; how much is chosen by what
separates held-out runs best. Unlike `intrinsic.directional`, which measures pairs of runs by tens
or hundreds, this scores tens of thousands: all folds share one pass over the outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from sordino.types import Floats

Folds = npt.NDArray[np.int64]

SHRINKAGES = np.array([1e-12, 1e-8, 1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 1.0])
"""Weights of the identity that are tried; at 1 the direction is the mean difference itself."""


@dataclass(frozen=True, eq=False)
class _Moments:
    """Numbers of runs, sums and sums of products of both worlds: those of folds add up."""

    runs: tuple[int, int]
    sums: Floats
    products: Floats

    @classmethod
    def of(cls, first: Floats, second: Floats) -> Self:
        sums = np.stack([first.sum(axis=0), second.sum(axis=0)])
        return cls((len(first), len(second)), sums, first.T @ first + second.T @ second)

    def plus(self, other: _Moments, sign: int = 1) -> _Moments:
        runs = self.runs[0] + sign * other.runs[0], self.runs[1] + sign * other.runs[1]
        return _Moments(runs, self.sums + sign * other.sums, self.products + sign * other.products)

    def paths(self) -> tuple[Floats, Floats]:
        """Directions [shrinkage, feature], each like a log likelihood ratio, and their offsets."""
        means = self.sums / np.array(self.runs)[:, None]
        within = self.products - sum(
            many * np.outer(mean, mean) for many, mean in zip(self.runs, means, strict=True)
        )
        sizes, basis = np.linalg.eigh(within / max(1, sum(self.runs) - 2))
        sizes = np.maximum(sizes, 0.0)
        level = (float(sizes.mean()) if len(sizes) else 0.0) or 1.0
        gap = basis.T @ (means[1] - means[0])
        rho = SHRINKAGES[:, None]
        found = (gap / ((1 - rho) * sizes + rho * level)) @ basis.T
        return found, found @ means.mean(axis=0)


class Direction:
    """The direction without each fold, and with all; made by `of`."""

    def __init__(self, total: _Moments, scores: list[tuple[Floats, Floats]]) -> None:
        self._total = total
        self._scores = scores
        self._best = int(np.argmax(np.mean([_separation(*each) for each in scores], axis=0)))

    @classmethod
    def of(
        cls, first: Floats, second: Floats, first_folds: Folds, second_folds: Folds, *, folds: int
    ) -> Self:
        """Learn from rows of both worlds, each in one of the folds."""
        inside = [(first[first_folds == k], second[second_folds == k]) for k in range(folds)]
        parts = [_Moments.of(*rows) for rows in inside]
        total = parts[0]
        for part in parts[1:]:
            total = total.plus(part)
        scores = []
        for part, rows in zip(parts, inside, strict=True):
            along, offsets = total.plus(part, -1).paths()
            scores.append((rows[0] @ along.T - offsets, rows[1] @ along.T - offsets))
        return cls(total, scores)

    def held_out(self, fold: int) -> tuple[Floats, Floats]:
        """Scores of the runs of a fold, along the direction learned from the others."""
        first, second = self._scores[fold]
        return first[:, self._best], second[:, self._best]

    def whole(self) -> Callable[[Floats], Floats]:
        """The score along the direction learned from all runs."""
        along, offsets = (found[self._best] for found in self._total.paths())
        return lambda rows: np.asarray(rows @ along - offsets)


def _separation(first: Floats, second: Floats) -> Floats:
    """How many standard deviations apart two worlds are, for each column."""
    gap = second.mean(axis=0) - first.mean(axis=0)
    noise = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    still = np.where(gap > 0, 1e300, 0.0)
    return np.asarray(np.divide(gap, noise, out=still, where=noise > 0))
