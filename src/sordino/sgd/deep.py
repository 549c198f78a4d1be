"""The deep regime: thousands of seeds with a few datasets each, linear objectives only.

One compiled loop a run, seed by seed: it reads each row from cache where it lies, so the batch is
never built, and the weights of a run stay in the nearest cache for a whole epoch. The same update
as step.py, spelled out; the tests hold the two together.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import torch

from sordino.objectives.objective import LINEAR_KINDS
from sordino.sgd.batches import Epoch
from sordino.sgd.spec import TrainSpec
from sordino.sgd.table import Table

Floats = npt.NDArray[Any]

MOST_DATASETS = 12
"""Up to this many datasets a seed the loop beats the batched products (benchmarks/grid.py)."""

# Sums may be reordered into vectors; infinities and NaN keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}

_LOGISTIC, _HUBER, _SQUARES = range(3)
assert LINEAR_KINDS == ("logistic", "huber-svm", "least-squares")


def descend(
    spec: TrainSpec,
    table: Table,
    weights: torch.Tensor,
    total: torch.Tensor | None,
    epoch: Epoch,
    rates: npt.NDArray[np.float64],
    noise: torch.Tensor | None,
) -> None:
    """Take these steps on weights [seed, dataset, parameter], in place; sum iterates in `total`."""
    dtype = weights.numpy().dtype
    nothing = np.zeros((1, 1, 1), dtype=dtype)
    clip = spec.max_grad_norm
    _descend(
        LINEAR_KINDS.index(spec.objective.kind),
        spec.objective.huber_width,
        table.X.numpy(),
        table.y.numpy(),
        table.present.numpy(),
        table.norms.numpy(),
        table.slot,
        table.substitute,
        weights.numpy(),
        nothing if total is None else total.numpy(),
        total is not None,
        epoch.index,
        epoch.width,
        rates,
        spec.objective.l2,
        spec.batch_size if spec.fixed_divisor else 0,
        math.inf if clip is None else clip,
        nothing if noise is None else noise.numpy(),
        0.0 if noise is None or clip is None else spec.noise_multiplier * clip,
        math.inf if spec.radius is None else spec.radius,
    )


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def _descend(
    kind: int,
    huber: float,
    X: Floats,
    y: Floats,
    present: Floats,
    norms: Floats,
    slot: Floats,
    substitute: Floats,
    weights: Floats,
    total: Floats,
    averages: bool,
    index: Floats,
    width: Floats,
    rates: Floats,
    l2: float,
    fixed_divisor: int,
    clip: float,
    noise: Floats,
    noise_scale: float,
    radius: float,
) -> None:
    widest = index.shape[2]
    # Rounded up to whole fours: the loops below take rows four at a time, the last ones empty.
    rows = np.empty((widest + 3) // 4 * 4, dtype=np.int32)
    psi = np.empty(len(rows), dtype=weights.dtype)
    for s in range(weights.shape[0]):
        for t in range(index.shape[1]):
            for k in range(weights.shape[1]):
                w = weights[s, k]
                count = _collect(rows, index[s, t, : width[t]], slot[k], substitute[k], present)
                divisor = fixed_divisor if fixed_divisor > 0 else max(count, 1)
                _scores(psi, w, X, rows)
                _residuals(kind, huber, psi, y, rows)
                if clip < np.inf:
                    for b in range(len(rows)):
                        most = w.dtype.type(clip) / norms[rows[b]] if norms[rows[b]] > 0 else psi[b]
                        psi[b] = min(max(psi[b], -most), most)
                _update(w, X, rows, psi, w.dtype.type(-rates[t] / divisor), 1 - rates[t] * l2)
                if noise_scale > 0:
                    scale = w.dtype.type(-rates[t] / divisor * noise_scale)
                    for j in range(len(w)):
                        w[j] += scale * noise[s, t, j]
                if radius < np.inf:
                    _project(w, radius)
                if averages:
                    for j in range(len(w)):
                        total[s, k, j] += w[j]


@numba.njit(nogil=True, cache=True, inline="always")
def _collect(rows: Floats, batch: Floats, slot: int, substitute: int, present: Floats) -> int:
    """Fill `rows` with a dataset's own batch, empty rows after it; return how many are records."""
    nothing = len(present) - 1
    count = 0
    for b in range(len(batch)):
        row = substitute if batch[b] == slot else batch[b]
        rows[b] = row
        count += 1 if present[row] > 0 else 0
    for b in range(len(batch), len(rows)):
        rows[b] = nothing
    return count


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _scores(out: Floats, w: Floats, X: Floats, rows: Floats) -> None:
    zero = w.dtype.type(0)
    for b in range(0, len(rows), 4):
        r0, r1, r2, r3 = rows[b], rows[b + 1], rows[b + 2], rows[b + 3]
        z0, z1, z2, z3 = zero, zero, zero, zero
        for j in range(len(w)):
            z0 += w[j] * X[r0, j]
            z1 += w[j] * X[r1, j]
            z2 += w[j] * X[r2, j]
            z3 += w[j] * X[r3, j]
        out[b], out[b + 1], out[b + 2], out[b + 3] = z0, z1, z2, z3


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _update(w: Floats, X: Floats, rows: Floats, psi: Floats, scale: float, keep: float) -> None:
    if keep != 1:
        for j in range(len(w)):
            w[j] *= w.dtype.type(keep)
    for b in range(0, len(rows), 4):
        r0, r1, r2, r3 = rows[b], rows[b + 1], rows[b + 2], rows[b + 3]
        p0, p1 = scale * psi[b], scale * psi[b + 1]
        p2, p3 = scale * psi[b + 2], scale * psi[b + 3]
        for j in range(len(w)):
            w[j] += p0 * X[r0, j] + p1 * X[r1, j] + p2 * X[r2, j] + p3 * X[r3, j]


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _residuals(kind: int, huber: float, z: Floats, y: Floats, rows: Floats) -> None:
    """Overwrite scores with psi = dl/dz, as `Linear.residual_` does."""
    one = z.dtype.type(1)
    if kind == _LOGISTIC:
        for b in range(len(z)):
            z[b] = one / (one + np.exp(-z[b])) - y[rows[b]]
    elif kind == _HUBER:
        h = z.dtype.type(huber)
        for b in range(len(z)):
            sign = 2 * y[rows[b]] - one
            slope = (one - sign * z[b] + h) / (2 * h)
            z[b] = -sign * min(max(slope, z.dtype.type(0)), one)
    else:
        for b in range(len(z)):
            z[b] -= y[rows[b]]


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _project(w: Floats, radius: float) -> None:
    squared = 0.0
    for j in range(len(w)):
        squared += w[j] * w[j]
    if squared > radius * radius:
        factor = w.dtype.type(radius / np.sqrt(squared))
        for j in range(len(w)):
            w[j] *= factor
