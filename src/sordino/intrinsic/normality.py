"""Is SGD's noise Gaussian? One weight at a time, and jointly.

Epsilon from a standard deviation takes it for granted. A test that finds nothing does not prove it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from sordino import checks
from sordino.intrinsic.distances import grid
from sordino.types import Floats

MOST_SEEDS = 5000
"""Shapiro and Wilk's p-values end there."""


@dataclass(frozen=True)
class Normality:
    """Shapiro-Wilk p-values of every weight of every dataset (v1, Figure 3; v2, Figure 6).

    `p_values` is [neighbour, parameter], NaN for a weight that never varied. Datasets share their
    seeds, so their p-values are nearly copies of each other: many datasets are not more evidence.
    """

    p_values: Floats
    level: float

    @property
    def tests(self) -> int:
        """How many weights were tested: v2's M, parameters times datasets."""
        return int(np.isfinite(self.p_values).sum())

    @property
    def bonferroni(self) -> float:
        """The corrected line: level / M. No weight falls below it by chance, but with `level`."""
        return self.level / max(self.tests, 1)

    @property
    def below_level(self) -> float:
        """Share of weights with p below `level`, which is also what Gaussian noise would have."""
        return float((self.p_values < self.level).sum()) / max(self.tests, 1)

    @property
    def rejected(self) -> int:
        """Weights below the corrected line."""
        return int((self.p_values < self.bonferroni).sum())


def shapiro_wilk(
    weights: npt.ArrayLike, *, datasets: int | None = None, level: float = 0.05
) -> Normality:
    """Test every weight over seeds, on the first `datasets` neighbours (None: on all)."""
    W = grid(weights, seeds=3)
    if datasets is not None:
        W = W[:, : checks.whole("datasets", datasets, at_least=1)]
    if W.shape[0] > MOST_SEEDS:
        checks.fail("seeds", W.shape[0], f"<= {MOST_SEEDS}, where the p-values end")
    flat = W.reshape(W.shape[0], -1)
    p_values = np.full(flat.shape[1], np.nan)
    for column in np.flatnonzero(np.ptp(flat, axis=0) > 0):
        # Scaled, since scipy warns of a range below 1e-19 and loses digits near it.
        values = (flat[:, column] - flat[:, column].mean()) / np.ptp(flat[:, column])
        p_values[column] = stats.shapiro(values).pvalue
    return Normality(p_values.reshape(W.shape[1:]), checks.fraction("level", level))


@dataclass(frozen=True)
class JointNormality:
    """A test of joint normality. `p_value` is valid whatever the number of seeds and weights.

    `kurtosis` is Mardia's, relative to what Gaussian noise has on average with so few seeds: below
    1 tails are lighter, above 1 heavier. `directions` were tested; `halved` says whether they were
    learned from other seeds than those tested.
    """

    p_value: float
    kurtosis: float
    directions: int
    seeds: int
    halved: bool


def joint(
    weights: npt.ArrayLike,
    *,
    stream: np.random.Generator,
    directions: int | None = None,
    draws: int = 999,
) -> JointNormality:
    """Mardia's kurtosis, two-sided, of the noise of ONE dataset: weights[seed, parameter].

    Kurtosis because an epsilon at a small delta hangs on the tails. Its asymptotic law is far off
    with 98 seeds and 51 weights, but it does not change under affine maps: simulated standard
    normals of the same size have its law whatever the covariance, so the p-value is exact as soon
    as there are more seeds than directions.

    With `directions`, or with too few seeds for all weights, only the directions with most noise
    are tested. Chosen by the runs that are tested, these would not be Gaussian even if the noise
    were; so one half of the seeds gives the principal directions and the other half is tested in
    them, then the other way round. Given its directions a tested half is Gaussian if the noise is.
    The two p-values are joined by twice the smaller, valid though they are not independent.

    A Gaussian kurtosis does not make a law Gaussian, and directions with little noise, which
    matter most for privacy, weigh no more than others.
    """
    X = np.asarray(weights, dtype=np.float64)
    if X.ndim != 2:
        checks.fail("weights", f"shape {X.shape}", "to have two dimensions: seed, parameter")
    checks.finite("weights", X)
    if len(X) < 8:
        checks.fail("seeds", len(X), ">= 8", "Measure more of them.")
    draws = checks.whole("draws", draws, at_least=99)
    # Without the directions in which nothing varies, such as a weight that is a copy.
    X = X[:, np.ptp(X, axis=0) > 0]
    if X.shape[1] == 0:
        checks.fail("weights", f"shape {X.shape}", "to vary", "All seeds gave the same weights.")
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    _, sizes, basis = np.linalg.svd(scaled, full_matrices=False)
    rank = int((sizes > 1e-6 * sizes[0]).sum())  # below is rounding of single precision
    if rank != min(X.shape[1], len(X) - 1):
        X = np.asarray(scaled @ basis[:rank].T)
    if directions is None and X.shape[1] + 2 <= len(X):
        p_value, kurtosis = _kurtosis_test(X, stream, draws)
        return JointNormality(p_value, kurtosis, X.shape[1], len(X), halved=False)
    q = checks.whole("directions", directions or max(1, len(X) // 6), at_least=1)
    if q + 2 > len(X) // 2:
        checks.fail("directions", q, f"<= {len(X) // 2 - 2}, half the seeds less two")
    halves = np.array_split(stream.permutation(len(X)), 2)
    turns = ((X[learn], X[test]) for learn, test in (halves, halves[::-1]))
    p_value, kurtosis = min(_kurtosis_test(b @ _principal(a, q).T, stream, draws) for a, b in turns)
    return JointNormality(min(1.0, 2 * p_value), kurtosis, q, len(X), halved=True)


def _principal(rows: Floats, many: int) -> Floats:
    centred = rows - rows.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    rank = int((sizes > sizes[:1] * 1e-10).sum())
    if rank < many:
        checks.fail("directions", many, f"<= {rank}, the directions with any noise")
    return np.asarray(directions[:many])


def _kurtosis_test(rows: Floats, stream: np.random.Generator, draws: int) -> tuple[float, float]:
    """Two-sided p-value and the kurtosis relative to its mean under normality."""
    value = float(_kurtosis(rows[None])[0])
    step = max(1, 2**22 // rows.size)
    parts = [min(step, draws - start) for start in range(0, draws, step)]
    null = np.concatenate([_kurtosis(stream.standard_normal((m, *rows.shape))) for m in parts])
    tails = ((null <= value).sum(), (null >= value).sum())
    return min(1.0, 2 * (1 + int(min(tails))) / (draws + 1)), value / float(null.mean())


def _kurtosis(samples: Floats) -> Floats:
    """Mardia's b_2 for each of samples[sample, row, column]: the mean fourth Mahalanobis power."""
    centred = samples - samples.mean(axis=1, keepdims=True)
    # The projection onto the columns' span has the squared distances on its diagonal.
    basis, _ = np.linalg.qr(centred)
    squares = samples.shape[1] * np.sum(basis**2, axis=2)
    return np.asarray(np.mean(squares**2, axis=1))
