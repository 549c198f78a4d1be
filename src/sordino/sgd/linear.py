"""SGD on linear objectives: one compiled loop, seed by seed, free of the interpreter.

For one seed all datasets see the same batch, so a step is two matrix products for all of them
(BLAS, on rows and weights that stay in the nearest caches for a whole epoch). The few datasets
whose batch holds their own differing record take that step by themselves, with the batch they
really have. With only a few datasets a seed (audits: thousands of seeds, two datasets) every one
of them does, and the batch is never even copied together.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import torch

from sordino.objectives.objective import LINEAR_KINDS
from sordino.sgd import link
from sordino.sgd.batches import Epoch
from sordino.sgd.spec import TrainSpec
from sordino.sgd.table import Table

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

FEW = 8
"""Up to this many datasets a seed, single steps beat the products (docs/benchmarks.md)."""

compiled = numba.njit(nogil=True, cache=True, fastmath=link.FAST, error_model="numpy")


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
    """What a compiled step needs of a table, as arrays.

    `first[row]` is the first dataset that replaces this row, `following[k]` the next one that
    replaces the same row as dataset k does; -1 ends the list.
    """

    X: Floats
    y: Floats
    present: Floats
    norms: Floats
    slot: Ints
    substitute: Ints
    first: Ints
    following: Ints


class Scratch(NamedTuple):
    """Working memory of one chunk: one batch, collected, and what is computed from it.

    `most` is the largest |psi| that the clip leaves an example, infinite where its row is zero.
    """

    batch: Ints
    X: Floats
    y: Floats
    most: Floats
    psi: Floats
    gradient: Floats
    own: Floats
    touched: Ints


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
    array = weights.numpy()
    unused = np.zeros((1, 1, 1), dtype=array.dtype)
    _descend(
        _law(spec),
        _rows(table),
        _scratch(array, epoch.index.shape[2]),
        array,
        unused if total is None else total.numpy(),
        total is not None,
        epoch.index,
        epoch.width,
        rates,
        unused if noise is None else noise.numpy(),
        len(table.slot) <= FEW,
    )


def _law(spec: TrainSpec) -> Law:
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


def _rows(table: Table) -> Rows:
    first = np.full(len(table.y), -1, dtype=np.int32)
    following = np.full(len(table.slot), -1, dtype=np.int32)
    for k in range(len(table.slot) - 1, -1, -1):
        if table.slot[k] >= 0:
            following[k] = first[table.slot[k]]
            first[table.slot[k]] = k
    return Rows(
        X=table.X.numpy(),
        y=table.y.numpy(),
        present=table.present.numpy(),
        norms=table.norms.numpy(),
        slot=table.slot,
        substitute=table.substitute,
        first=first,
        following=following,
    )


def _scratch(weights: Floats, places: int) -> Scratch:
    datasets, parameters = weights.shape[1:]
    # Rounded up to whole fours: single steps take rows four at a time, the last ones empty.
    places = (places + 3) // 4 * 4
    return Scratch(
        batch=np.empty(places, dtype=np.int32),
        X=np.empty((places, parameters), dtype=weights.dtype),
        y=np.empty(places, dtype=weights.dtype),
        most=np.empty(places, dtype=weights.dtype),
        psi=np.empty(datasets * places, dtype=weights.dtype),
        gradient=np.empty((datasets, parameters), dtype=weights.dtype),
        own=np.empty((datasets, parameters), dtype=weights.dtype),
        touched=np.empty(datasets, dtype=np.int32),
    )


@compiled
def _descend(
    law: Law,
    rows: Rows,
    scratch: Scratch,
    weights: Floats,
    total: Floats,
    averages: bool,
    index: Ints,
    width: Ints,
    rates: Floats,
    noise: Floats,
    few: bool,
) -> None:
    for s in range(weights.shape[0]):
        w = weights[s]
        for t in range(index.shape[1]):
            batch = index[s, t, : width[t]]
            normal = noise[s, t] if law.noise > 0 else noise[0, 0]
            if few:
                for k in range(len(w)):
                    _single_step(law, rows, scratch, w[k], k, batch, rates[t], normal)
            else:
                many = _own_steps(law, rows, scratch, w, batch, rates[t], normal)
                _shared_step(law, rows, scratch, w, batch, rates[t], normal)
                for i in range(many):
                    w[scratch.touched[i]] = scratch.own[i]
            if averages:
                for k in range(w.shape[0]):
                    for j in range(w.shape[1]):
                        total[s, k, j] += w[k, j]


@compiled
def _own_steps(
    law: Law, rows: Rows, scratch: Scratch, w: Floats, batch: Ints, rate: float, normal: Floats
) -> int:
    """Step the datasets that differ in this batch, into `scratch.own`; return how many."""
    many = 0
    for b in range(len(batch)):
        k = rows.first[batch[b]]
        while k >= 0:
            scratch.touched[many] = k
            scratch.own[many] = w[k]
            _single_step(law, rows, scratch, scratch.own[many], k, batch, rate, normal)
            many += 1
            k = rows.following[k]
    return many


@compiled
def _shared_step(
    law: Law, rows: Rows, scratch: Scratch, w: Floats, batch: Ints, rate: float, normal: Floats
) -> None:
    """One step of all datasets w [dataset, parameter] on the shared batch: two products."""
    size, real = len(batch), w.dtype.type
    X, y, most = scratch.X[:size], scratch.y[:size], scratch.most[:size]
    for b in range(size):
        X[b] = rows.X[batch[b]]
    count = _look_up(law, rows, batch, y, most)
    psi = scratch.psi[: len(w) * size].reshape(len(w), size)
    np.dot(w, X.T, psi)
    for k in range(len(w)):
        link.residuals(law.kind, law.huber, psi[k], y)
        if law.clip < np.inf:
            _clip(psi[k], most)
    np.dot(psi, X, scratch.gradient)
    divisor = law.fixed_divisor if law.fixed_divisor > 0 else max(count, 1)
    scale, keep = real(-rate / divisor), real(1 - rate * law.l2)
    spread = scale * real(law.noise)
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            w[k, j] = keep * w[k, j] + scale * scratch.gradient[k, j]
        if law.noise > 0:
            for j in range(w.shape[1]):
                w[k, j] += spread * normal[j]
        if law.radius < np.inf:
            _project(w[k], law.radius)


@compiled
def _single_step(
    law: Law,
    rows: Rows,
    scratch: Scratch,
    w: Floats,
    k: int,
    shared: Ints,
    rate: float,
    normal: Floats,
) -> None:
    """One step of dataset k, whose batch is `shared` but for its own slot."""
    real = w.dtype.type
    batch = scratch.batch[: (len(shared) + 3) // 4 * 4]
    y, most, psi = scratch.y[: len(batch)], scratch.most[: len(batch)], scratch.psi[: len(batch)]
    for b in range(len(batch)):
        batch[b] = shared[b] if b < len(shared) else len(rows.y) - 1
        if batch[b] == rows.slot[k]:
            batch[b] = rows.substitute[k]
    count = _look_up(law, rows, batch, y, most)
    divisor = law.fixed_divisor if law.fixed_divisor > 0 else max(count, 1)
    scale = real(-rate / divisor)
    _scores(psi, w, rows.X, batch)
    link.residuals(law.kind, law.huber, psi, y)
    if law.clip < np.inf:
        _clip(psi, most)
    _update(w, rows.X, batch, psi, scale, real(1 - rate * law.l2))
    if law.noise > 0:
        for j in range(len(w)):
            w[j] += scale * real(law.noise) * normal[j]
    if law.radius < np.inf:
        _project(w, law.radius)


@compiled
def _look_up(law: Law, rows: Rows, batch: Ints, y: Floats, most: Floats) -> int:
    """Collect what the batch's rows carry beside their features; return how many are records."""
    count = 0
    for b in range(len(batch)):
        y[b] = rows.y[batch[b]]
        count += 1 if rows.present[batch[b]] > 0 else 0
    if law.clip < np.inf:
        for b in range(len(batch)):
            norm = rows.norms[batch[b]]
            most[b] = law.clip / norm if norm > 0 else np.inf
    return count


@compiled
def _scores(out: Floats, w: Floats, X: Floats, batch: Ints) -> None:
    zero = w.dtype.type(0)
    for b in range(0, len(batch), 4):
        x0, x1, x2, x3 = X[batch[b]], X[batch[b + 1]], X[batch[b + 2]], X[batch[b + 3]]
        z0, z1, z2, z3 = zero, zero, zero, zero
        for j in range(len(w)):
            z0 += w[j] * x0[j]
            z1 += w[j] * x1[j]
            z2 += w[j] * x2[j]
            z3 += w[j] * x3[j]
        out[b], out[b + 1], out[b + 2], out[b + 3] = z0, z1, z2, z3


@compiled
def _update(w: Floats, X: Floats, batch: Ints, psi: Floats, scale: float, keep: float) -> None:
    if keep != 1:
        for j in range(len(w)):
            w[j] *= keep
    for b in range(0, len(batch), 4):
        x0, x1, x2, x3 = X[batch[b]], X[batch[b + 1]], X[batch[b + 2]], X[batch[b + 3]]
        p0, p1 = scale * psi[b], scale * psi[b + 1]
        p2, p3 = scale * psi[b + 2], scale * psi[b + 3]
        for j in range(len(w)):
            w[j] += p0 * x0[j] + p1 * x1[j] + p2 * x2[j] + p3 * x3[j]


@compiled
def _clip(psi: Floats, most: Floats) -> None:
    """Scale each example's gradient psi x down to the norm allowed."""
    for b in range(len(psi)):
        psi[b] = min(max(psi[b], -most[b]), most[b])


@compiled
def _project(w: Floats, radius: float) -> None:
    squared = 0.0
    for j in range(len(w)):
        squared += w[j] * w[j]
    if squared > radius * radius:
        factor = w.dtype.type(radius / np.sqrt(squared))
        for j in range(len(w)):
            w[j] *= factor
