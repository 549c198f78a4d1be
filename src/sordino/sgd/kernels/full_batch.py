"""Full batches of linear objectives: many runs share every row, so a step is two products for all.

Where each step sees all records, in the same order, runs differ in their weights alone, whatever
their seed. They are taken in blocks of `WIDTH`, against rows a block at a time:

    scores    = weights @ rows.T      [run, row]
    residuals = slopes of the loss at the scores, clipped; 0 where a run has another record
    gradients = residuals @ rows      [run, parameter], summed over blocks of rows

and a run's own record, if it has one, is added on its own. BLAS may round a row of a product in a
way that depends on its place, never on the other rows: a run's place in its block follows from its
place in the grid, so its bytes do not depend on how the grid is cut into chunks.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import torch

from sordino.models.kernels import link
from sordino.models.kernels.compile import compiled
from sordino.privacy import Sampling
from sordino.sgd.kernels.linear import Law, clip, copy_row, law_of, noise_and_project, weigh
from sordino.sgd.spec import TrainSpec
from sordino.sgd.table import RowTable
from sordino.types import Array

WIDTH = 32
"""Runs of a block: wide enough for BLAS to be fast, narrow enough to be filled (see benchmarks)."""

ROWS = 256
"""Rows taken at a time: 200 kB at a hundred features, so that they stay near for all blocks."""

FEWEST = 12
"""Grids of fewer runs go seed by seed: a block that is mostly empty costs as much as a full one."""


def applies(spec: TrainSpec, slots: int, runs: int) -> bool:
    """Whether a grid of so many runs is trained here; the same for all its chunks."""
    whole = spec.order == Sampling.CYCLIC and spec.batch_size >= slots
    return spec.objective.is_linear and whole and runs >= FEWEST


def whole_blocks(neighbours: int) -> int:
    """Seeds, of so many datasets each, that fill whole blocks."""
    return WIDTH // math.gcd(WIDTH, neighbours)


def scratch_numbers(parameters: int, slots: int) -> int:
    """Numbers that a chunk holds beside its runs' weights, gradients and noise."""
    return WIDTH * (ROWS + 2 * parameters) + 2 * ROWS * parameters + slots


class _SharedRows(NamedTuple):
    """The table as arrays. `most` is the largest |residual| that the clip leaves a row.

    `weight` is read where rows are `weighted`.
    """

    X: Array
    y: Array
    most: Array
    slots: int
    weight: Array
    weighted: bool


class _Runs(NamedTuple):
    """What tells the runs of a chunk apart, each array [run].

    `slot` and `substitute` are the table's, `lane` is the place in a block, and blocks are the
    runs between two `edges`.
    """

    slot: Array
    substitute: Array
    divisor: Array
    lane: Array
    edges: Array
    datasets: int


class _Buffers(NamedTuple):
    """Working memory: one block of rows, one of runs, and the gradient of every run.

    Rows are also kept as columns (flat, as many as there are): BLAS is a third faster at scores
    where it need not turn them.
    """

    X: Array
    columns: Array
    w: Array
    psi: Array
    product: Array
    gradient: Array


class FullBatch:
    """Steps of one chunk.

    Parameters
    ----------
    spec, table, slots, parameters
        What is trained; the table is that of the chunk's datasets.
    places
        Of the chunk's runs in the grid, [seed, dataset].
    """

    def __init__(
        self, spec: TrainSpec, table: RowTable, slots: int, parameters: int, places: Array
    ) -> None:
        self.law = law_of(spec)
        norms = table.norms.numpy()
        most = np.full_like(norms, np.inf)
        np.divide(self.law.clip, norms, out=most, where=norms > 0)
        weight = table.y if table.weight is None else table.weight
        weighs = weight.numpy(), table.weight is not None
        self.rows = _SharedRows(table.X.numpy(), table.y.numpy(), most, slots, *weighs)
        self.runs = _runs(self.law, table, slots, places)
        runs, dtype = places.size, spec.dtype
        wide = (WIDTH, parameters)
        self.scratch = _Buffers(
            X=np.empty((ROWS, parameters), dtype=dtype),
            columns=np.empty(ROWS * parameters, dtype=dtype),
            w=np.zeros(wide, dtype=dtype),
            psi=np.empty(WIDTH * ROWS, dtype=dtype),
            product=np.empty(wide, dtype=dtype),
            gradient=np.empty((runs, parameters), dtype=dtype),
        )

    def descend(
        self,
        weights: torch.Tensor,
        total: torch.Tensor | None,
        rates: npt.NDArray[np.float64],
        noise: torch.Tensor | None,
    ) -> None:
        """Take these steps on weights [seed, dataset, parameter], in place; sum iterates."""
        shape = (-1, weights.shape[2])
        nothing = np.zeros((1, 1, 1), dtype=self.scratch.w.dtype)
        sums = nothing[0] if total is None else total.view(shape).numpy()
        added = nothing if noise is None else noise.numpy()
        numbers = weights.view(shape).numpy(), sums, total is not None, rates, added
        _descend(self.law, self.rows, self.runs, self.scratch, *numbers)


def _runs(law: Law, table: RowTable, slots: int, places: Array) -> _Runs:
    counted = table.counted.numpy() > 0
    # What counts in the size of the batch: a dataset's own record in place of the one it lacks.
    gained = np.where(table.slot >= 0, counted[table.substitute], 0)
    lost = np.where(table.slot >= 0, counted[table.slot], 0)
    count = np.maximum(counted[:slots].sum() + gained - lost, 1)
    divisor = np.full(len(count), law.fixed_divisor) if law.fixed_divisor > 0 else count
    seeds, datasets = places.shape
    block = places.ravel() // WIDTH
    return _Runs(
        slot=np.tile(table.slot, seeds),
        substitute=np.tile(table.substitute, seeds),
        divisor=np.tile(divisor.astype(np.float64), seeds),
        lane=places.ravel() % WIDTH,
        edges=np.concatenate([[0], np.flatnonzero(np.diff(block)) + 1, [places.size]]),
        datasets=datasets,
    )


@compiled
def _descend(
    law: Law,
    rows: _SharedRows,
    runs: _Runs,
    scratch: _Buffers,
    weights: Array,
    total: Array,
    averages: bool,
    rates: Array,
    noise: Array,
) -> None:
    real = weights.dtype.type
    for t in range(len(rates)):
        _gradients(law, rows, runs, scratch, weights)
        keep = real(1 - rates[t] * law.l2)
        for i in range(len(weights)):
            w, gradient = weights[i], scratch.gradient[i]
            scale = real(-rates[t] / runs.divisor[i])
            for j in range(len(w)):
                w[j] = keep * w[j] + scale * gradient[j]
            normal = noise[i // runs.datasets, t] if law.noise > 0 else noise[0, 0]
            noise_and_project(law, w, scale, normal)
            if averages:
                _add(total[i], w)


@compiled
def _gradients(law: Law, rows: _SharedRows, runs: _Runs, scratch: _Buffers, weights: Array) -> None:
    """Set the sum of each run's clipped gradients, block of rows by block of rows."""
    _own_rows(law, rows, runs, scratch, weights)
    for start in range(0, rows.slots, ROWS):
        many = min(ROWS, rows.slots - start)
        _bring(scratch, rows.X[start : start + many])
        for g in range(len(runs.edges) - 1):
            _block(law, rows, runs, scratch, weights, start, many, g)


@compiled
def _bring(scratch: _Buffers, X: Array) -> None:
    """Copy rows near, in the precision of the run, without the zeros at their ends."""
    columns = scratch.columns[: len(X) * scratch.X.shape[1]].reshape(-1, len(X))
    for b in range(len(X)):
        for j in range(len(columns)):
            scratch.X[b, j] = X[b, j]
            columns[j, b] = X[b, j]


@compiled
def _own_rows(law: Law, rows: _SharedRows, runs: _Runs, scratch: _Buffers, weights: Array) -> None:
    """Start each run's sum with the record that it alone has, or with nothing."""
    psi = scratch.psi[:1]
    for i in range(len(weights)):
        w, gradient = weights[i], scratch.gradient[i]
        own = runs.substitute[i] if runs.slot[i] >= 0 else 0
        x = rows.X[own]
        score = w.dtype.type(0)
        for j in range(len(w)):
            score += w[j] * x[j]
        psi[0] = score
        only = slice(own, own + 1)
        residuals(law, psi, rows.y[only], rows.most[only], rows.weight[only], rows.weighted)
        if runs.slot[i] < 0:
            psi[0] = 0
        for j in range(len(w)):
            gradient[j] = psi[0] * x[j]


@compiled
def _block(
    law: Law,
    rows: _SharedRows,
    runs: _Runs,
    scratch: _Buffers,
    weights: Array,
    start: int,
    many: int,
    g: int,
) -> None:
    """Add what these rows give the runs of block g. Lanes that it does not fill are not read."""
    X, y, most, weight = scratch.X[:many], rows.y[start:], rows.most[start:], rows.weight[start:]
    columns = scratch.columns[: many * X.shape[1]].reshape(-1, many)
    psi = scratch.psi[: WIDTH * many].reshape(WIDTH, many)
    for i in range(runs.edges[g], runs.edges[g + 1]):
        copy_row(scratch.w[runs.lane[i]], weights[i])
    np.dot(scratch.w, columns, psi)
    for i in range(runs.edges[g], runs.edges[g + 1]):
        z = psi[runs.lane[i]]
        residuals(law, z, y, most, weight, rows.weighted)
        replaced = runs.slot[i] - start
        if 0 <= replaced < many:
            z[replaced] = 0
    np.dot(psi, X, scratch.product)
    for i in range(runs.edges[g], runs.edges[g + 1]):
        _add(scratch.gradient[i], scratch.product[runs.lane[i]])


@compiled
def residuals(law: Law, z: Array, y: Array, most: Array, weight: Array, weighted: bool) -> None:
    """Overwrite scores with residuals, weighted and clipped."""
    if law.kind == link.LOGISTIC and z.itemsize == 8:
        for b in range(len(z)):
            z[b] = _sigmoid(z[b]) - y[b]
    else:
        link.residuals(law.kind, law.huber, z, y)
    if weighted:
        weigh(z, weight)
    if law.clip < np.inf:
        clip(z, most)


# Not `compiled`: sums that may be reordered would put the two parts of ln 2 together again.
@numba.njit(fastmath={"contract"}, error_model="numpy")
def _sigmoid(z: Any) -> Any:
    """1 / (1 + exp(-z)), in float64, as arithmetic that the compiler turns into vectors.

    Cephes' exp(-z) is 2^n (q + p) / (q - p) for polynomials p and q of what is left after n ln 2,
    so the sigmoid is one quotient of them. Beyond 708 it stays where it is, at 0 or 1.
    """
    x = min(max(-z, -708.0), 709.0)
    n = np.floor(x * 1.4426950408889634 + 0.5)
    r = x - n * 6.93145751953125e-1  # ln 2, in two parts
    r = r - n * 1.42860682030941723212e-6
    s = r * r
    p = 1.26177193074810590878e-4
    p = p * s + 3.02994407707441961300e-2
    p = (p * s + 1.0) * r
    q = 3.00198505138664455042e-6
    q = q * s + 2.52448340349684104192e-3
    q = q * s + 2.27265548208155028766e-1
    q = q * s + 2.0
    power = np.int64((np.int64(n) + 1023) << 52).view(np.float64)
    return (q - p) / ((q - p) + power * (q + p))


@compiled
def _add(to: Array, what: Array) -> None:
    for j in range(len(to)):
        to[j] += what[j]
