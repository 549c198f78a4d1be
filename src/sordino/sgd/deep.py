"""The deep regime: thousands of seeds with a few datasets each, linear objectives only.

One compiled loop a run, seed by seed: it reads each row from cache where it lies, so the batch is
never built, and the weights of a run stay in the nearest cache for a whole epoch. The same update
as step.py, spelled out; the tests hold the two together.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

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


class Law(NamedTuple):
    """What a compiled step needs of a spec, as plain numbers (0 or infinity: not used)."""

    kind: int
    huber: float
    l2: float
    fixed_divisor: int
    clip: float
    noise: float
    radius: float


class Rows(NamedTuple):
    """What a compiled step needs of a table, as arrays."""

    X: Floats
    y: Floats
    present: Floats
    norms: Floats
    slot: Floats
    substitute: Floats


def law(spec: TrainSpec) -> Law:
    """Read the spec."""
    clip = math.inf if spec.max_grad_norm is None else spec.max_grad_norm
    return Law(
        kind=LINEAR_KINDS.index(spec.objective.kind),
        huber=spec.objective.huber_width,
        l2=spec.objective.l2,
        fixed_divisor=spec.batch_size if spec.fixed_divisor else 0,
        clip=clip,
        noise=spec.noise_multiplier * clip if spec.noise_multiplier else 0.0,
        radius=math.inf if spec.radius is None else spec.radius,
    )


def rows(table: Table) -> Rows:
    """Read the table; nothing is copied."""
    tensors = (table.X, table.y, table.present, table.norms)
    return Rows(*(tensor.numpy() for tensor in tensors), table.slot, table.substitute)


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
    _descend(
        law(spec),
        rows(table),
        weights.numpy(),
        _array(total, weights),
        total is not None,
        epoch.index,
        epoch.width,
        rates,
        _array(noise, weights),
    )


def _array(tensor: torch.Tensor | None, like: torch.Tensor) -> Floats:
    return np.zeros((1, 1, 1), dtype=like.numpy().dtype) if tensor is None else tensor.numpy()


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def _descend(
    law: Law,
    rows: Rows,
    weights: Floats,
    total: Floats,
    averages: bool,
    index: Floats,
    width: Floats,
    rates: Floats,
    noise: Floats,
) -> None:
    batch, psi = _buffers(index.shape[2], weights)
    for s in range(weights.shape[0]):
        for t in range(index.shape[1]):
            normal = noise[s, t] if law.noise > 0 else noise[0, 0]
            for k in range(weights.shape[1]):
                w = weights[s, k]
                step(law, rows, w, k, index[s, t, : width[t]], rates[t], normal, batch, psi)
                if averages:
                    for j in range(len(w)):
                        total[s, k, j] += w[j]


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def own_steps(
    law: Law,
    rows: Rows,
    weights: Floats,
    seeds: Floats,
    neighbours: Floats,
    index: Floats,
    rate: float,
    noise: Floats,
    t: int,
) -> Floats:
    """One step of each run (seeds[i], neighbours[i]) with its own batch; returns new weights.

    `weights` [seed, neighbour, parameter] is only read; `index` [seed, place] are the shared
    batches of step t, which each run's dataset changes in one place.
    """
    batch, psi = _buffers(index.shape[1], weights)
    out = np.empty((len(seeds), weights.shape[2]), dtype=weights.dtype)
    for i in range(len(seeds)):
        s, k = seeds[i], neighbours[i]
        out[i] = weights[s, k]
        normal = noise[s, t] if law.noise > 0 else noise[0, 0]
        step(law, rows, out[i], k, index[s], rate, normal, batch, psi)
    return out


@numba.njit(nogil=True, cache=True)
def _buffers(places: int, weights: Floats) -> tuple[Floats, Floats]:
    # Rounded up to whole fours: the loops below take rows four at a time, the last ones empty.
    size = (places + 3) // 4 * 4
    return np.empty(size, dtype=np.int32), np.empty(size, dtype=weights.dtype)


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def step(
    law: Law,
    rows: Rows,
    w: Floats,
    k: int,
    shared: Floats,
    rate: float,
    normal: Floats,
    batch: Floats,
    psi: Floats,
) -> None:
    """One step of one run on dataset k, whose batch is `shared` but for its own slot."""
    count = _collect(batch, shared, rows.slot[k], rows.substitute[k], rows.present)
    divisor = law.fixed_divisor if law.fixed_divisor > 0 else max(count, 1)
    scale = w.dtype.type(-rate / divisor)
    _scores(psi, w, rows.X, batch)
    _residuals(law.kind, law.huber, psi, rows.y, batch)
    if law.clip < np.inf:
        for b in range(len(batch)):
            norm = rows.norms[batch[b]]
            if norm > 0:
                most = w.dtype.type(law.clip) / norm
                psi[b] = min(max(psi[b], -most), most)
    _update(w, rows.X, batch, psi, scale, 1 - rate * law.l2)
    if law.noise > 0:
        for j in range(len(w)):
            w[j] += scale * w.dtype.type(law.noise) * normal[j]
    if law.radius < np.inf:
        _project(w, law.radius)


@numba.njit(nogil=True, cache=True, inline="always")
def _collect(batch: Floats, shared: Floats, slot: int, substitute: int, present: Floats) -> int:
    """Fill `batch` with a dataset's own rows, empty ones after them; return how many are there."""
    count = 0
    for b in range(len(shared)):
        row = substitute if shared[b] == slot else shared[b]
        batch[b] = row
        count += 1 if present[row] > 0 else 0
    for b in range(len(shared), len(batch)):
        batch[b] = len(present) - 1
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
