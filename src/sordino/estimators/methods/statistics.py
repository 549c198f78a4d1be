"""Least squares from noisy sufficient statistics: two sums, one Gaussian mechanism, one solve."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino.data.dataset import NORM_SLACK
from sordino.estimators import rules
from sordino.estimators.fit import FitPlan, FitRecords, Randomness, Settings, Task
from sordino.estimators.methods.training import Method
from sordino.proofs.statistics import StatisticsEvidence, statistics_noise
from sordino.release.noise import Noise
from sordino.types import Array, Floats

BLOCK = 1 << 12
"""Rows turned into float64 at a time, so that a copy of the table is never made."""
_BITS, _EXACT = 14, 52
"""Of an entry that is left of a cut row, at most; of the largest sum that float64 holds exactly."""
_LOST = 1e-13
"""Directions with less than this, relatively, are no more than rounding where nothing is added."""


@dataclass(frozen=True)
class Sums:
    """What least squares asks of the records: the sums of x x^T and of y x."""

    squares: Floats
    products: Floats

    @classmethod
    def of(
        cls,
        X: Array,
        targets: Array,
        norm: float | None = None,
        rows: int = 1,
        weights: Floats | None = None,
    ) -> Sums:
        """Over all rows, a block at a time.

        With a `norm`, entries are cut toward 0 to multiples of a public power of two, so small that
        nobody sees it and so large that no sum of products needs rounding: a sum that was rounded
        would depend on all records, in ways no sensitivity counts. Cutting makes no row longer.

        Parameters
        ----------
        X, targets
            Rows, and a target for each.
        norm
            Public bound on rows and on targets; None leaves them as they are.
        rows
            A public number near that of the rows.
        weights
            In [0, 1]: of a record that counts v, row and target are those times sqrt(v), no longer
            than they were.
        """
        columns = X.shape[1]
        squares, products = np.zeros((columns, columns)), np.zeros(columns)
        step = None if norm is None else grid(norm, rows)
        for start in range(0, len(X), BLOCK):
            block = X[start : start + BLOCK].astype(np.float64)
            part = targets[start : start + BLOCK].astype(np.float64)
            if weights is not None:
                root = np.sqrt(weights[start : start + BLOCK])
                block, part = block * root[:, None], part * root
            if step is not None:
                block, part = np.trunc(block / step), np.trunc(part / step)
            squares += block.T @ block
            products += block.T @ part
        scale = 1.0 if step is None else step * step
        return cls(squares * scale, products * scale)

    def noisy(self, noise: Noise, sigma: float) -> Sums:
        """With N(0, sigma^2) on the products and the diagonal, half that variance off it."""
        columns = len(self.products)
        above = np.triu_indices(columns, 1)
        known = np.concatenate([self.products, np.diag(self.squares)])
        drawn = noise.perturb(known, sigma)
        squares = np.zeros_like(self.squares)
        # Rounded up: the root's last digit is no gift.
        off = math.nextafter(sigma / math.sqrt(2), math.inf)
        squares[above] = noise.perturb(self.squares[above], off)
        squares += squares.T
        np.fill_diagonal(squares, drawn[columns:])
        return Sums(squares, drawn[:columns])

    def solve(self, regulariser: float) -> Floats:
        """Weights of least (squares + regulariser): negative eigenvalues, all noise, count as 0."""
        values, vectors = np.linalg.eigh(self.squares)
        values = np.maximum(values, 0) + regulariser
        most = float(values.max(initial=0.0))
        along = vectors.T @ self.products
        kept = values > _LOST * max(most, np.finfo(np.float64).tiny)
        shares = np.divide(along, values, out=np.zeros_like(along), where=kept)
        return np.asarray(vectors @ shares)


def grid(norm: float, rows: int) -> float:
    """A power of two whose multiples up to `norm` have products that add up exactly.

    For twice as many rows as the public number says, and never finer than 14 bits of the norm.
    """
    for_rows = (_EXACT - math.ceil(math.log2(2 * rows))) // 2
    return 2.0 ** (math.ceil(math.log2(norm * (1 + 2 * NORM_SLACK))) - max(1, min(_BITS, for_rows)))


class NoisyStatistics(Method):
    """Solve least squares from sums that carry the noise (docs/release.md).

    Targets, which lie in [-1, 1], are multiplied by the rows' norm: of the ratios tried, from half
    of it to sqrt(2) of it, that was never far from the best. The regulariser is at least the size
    of the noise on the sum of x x^T, sigma sqrt(columns), a public number.
    """

    name = "statistics"
    starts = False
    public_size = False
    raises_l2 = True

    def _plan(self, task: Task, given: Settings, start_norm: float) -> FitPlan:
        where = "on every sum of squares and products"
        if not task.private:
            settings = given.filled(l2=task.l2)
            return FitPlan(self.name, task, settings, None, 0.0, 0.0, where, l2=task.l2)
        shape = StatisticsEvidence(
            **task.shape, norm=task.norm, target_norm=task.norm, sigma=1.0, regulariser=0.0
        )
        sigma, evidence = statistics_noise(shape, task.epsilon, task.delta)
        evidence = rules.solved(task, evidence)
        l2 = evidence.regulariser / task.rows
        settings = given.filled(l2=l2)
        done = self.name, task, settings, evidence.proof(), sigma, 0.0, where
        return FitPlan(*done, l2=l2, evidence=evidence)

    def train(self, plan: FitPlan, records: FitRecords, draws: Randomness, start: Floats) -> Floats:
        """Sum, add the noise, solve: [1, column]."""
        task, targets = plan.task, records.labels(0)
        if not plan.sigma > 0:
            return solve_exactly(records, plan.l2)
        scaled = targets * task.norm
        of = records.X, scaled, task.norm, task.rows, records.weights
        sums = Sums.of(*of).noisy(draws.released, plan.sigma)
        return sums.solve(plan.l2 * task.rows)[None] / task.norm


def solve_exactly(records: FitRecords, l2: float) -> Floats:
    """The least squares of the records, without noise: [1, column]."""
    sums = Sums.of(records.X, records.labels(0), weights=records.weights)
    return sums.solve(l2 * len(records.X))[None]
