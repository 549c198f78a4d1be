"""SGD on linear objectives: one compiled loop, seed by seed, free of the interpreter.

For one seed all datasets see the same batch, so a step is two matrix products for all of them
(BLAS, on rows and weights that stay in the nearest caches for a whole epoch). The few datasets
whose batch holds their own differing record take that step by themselves, with the batch they
really have. With only a few datasets a seed (audits: thousands of seeds, two datasets) the products
are written out (below), and the batch is never even copied together.

Products of a few weight vectors with a batch of rows, read where they lie.

BLAS is slow at products so thin, and would want the batch copied together first. Rows are taken
four at a time, which is what a core can multiply while it waits for the next ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from sordino.models.constants import LINEAR_KINDS
from sordino.models.kernels import link
from sordino.models.kernels.compile import compiled
from sordino.privacy import VARYING
from sordino.sgd.batches import Epoch
from sordino.sgd.spec import TrainSpec
from sordino.sgd.table import RowTable
from sordino.types import Array


@compiled
def _few_scores(psi: Array, w: Array, X: Array, batch: Array) -> None:
    """Set psi[k, b] = w[k] . X[batch[b]], two datasets at a time: rows are read once for both."""
    zero = w.dtype.type(0)
    for k in range(0, len(w) - 1, 2):
        u, v = w[k], w[k + 1]
        for b in range(0, len(batch), 4):
            x0, x1, x2, x3 = X[batch[b]], X[batch[b + 1]], X[batch[b + 2]], X[batch[b + 3]]
            u0, u1, u2, u3, v0, v1, v2, v3 = zero, zero, zero, zero, zero, zero, zero, zero
            for j in range(len(u)):
                u0 += u[j] * x0[j]
                u1 += u[j] * x1[j]
                u2 += u[j] * x2[j]
                u3 += u[j] * x3[j]
                v0 += v[j] * x0[j]
                v1 += v[j] * x1[j]
                v2 += v[j] * x2[j]
                v3 += v[j] * x3[j]
            psi[k, b], psi[k, b + 1], psi[k, b + 2], psi[k, b + 3] = u0, u1, u2, u3
            psi[k + 1, b], psi[k + 1, b + 1], psi[k + 1, b + 2], psi[k + 1, b + 3] = v0, v1, v2, v3
    if len(w) % 2:
        _scores(psi[-1], w[-1], X, batch)


@compiled
def _few_update(w: Array, X: Array, batch: Array, psi: Array, scale: float, keep: float) -> None:
    """Set w[k] = keep * w[k] + scale * sum_b psi[k, b] X[batch[b]], two datasets at a time."""
    for k in range(0, len(w) - 1, 2):
        u, v = w[k], w[k + 1]
        _shrink(u, keep)
        _shrink(v, keep)
        for b in range(0, len(batch), 4):
            x0, x1, x2, x3 = X[batch[b]], X[batch[b + 1]], X[batch[b + 2]], X[batch[b + 3]]
            p0, p1 = scale * psi[k, b], scale * psi[k, b + 1]
            p2, p3 = scale * psi[k, b + 2], scale * psi[k, b + 3]
            q0, q1 = scale * psi[k + 1, b], scale * psi[k + 1, b + 1]
            q2, q3 = scale * psi[k + 1, b + 2], scale * psi[k + 1, b + 3]
            for j in range(len(u)):
                u[j] += p0 * x0[j] + p1 * x1[j] + p2 * x2[j] + p3 * x3[j]
                v[j] += q0 * x0[j] + q1 * x1[j] + q2 * x2[j] + q3 * x3[j]
    if len(w) % 2:
        _update(w[-1], X, batch, psi[-1], scale, keep)


@compiled
def _scores(psi: Array, w: Array, X: Array, batch: Array) -> None:
    """Set psi[b] = w . X[batch[b]]."""
    zero = w.dtype.type(0)
    for b in range(0, len(batch), 4):
        x0, x1, x2, x3 = X[batch[b]], X[batch[b + 1]], X[batch[b + 2]], X[batch[b + 3]]
        z0, z1, z2, z3 = zero, zero, zero, zero
        for j in range(len(w)):
            z0 += w[j] * x0[j]
            z1 += w[j] * x1[j]
            z2 += w[j] * x2[j]
            z3 += w[j] * x3[j]
        psi[b], psi[b + 1], psi[b + 2], psi[b + 3] = z0, z1, z2, z3


@compiled
def _update(w: Array, X: Array, batch: Array, psi: Array, scale: float, keep: float) -> None:
    """Set w = keep * w + scale * sum_b psi[b] X[batch[b]]."""
    _shrink(w, keep)
    for b in range(0, len(batch), 4):
        x0, x1, x2, x3 = X[batch[b]], X[batch[b + 1]], X[batch[b + 2]], X[batch[b + 3]]
        p0, p1 = scale * psi[b], scale * psi[b + 1]
        p2, p3 = scale * psi[b + 2], scale * psi[b + 3]
        for j in range(len(w)):
            w[j] += p0 * x0[j] + p1 * x1[j] + p2 * x2[j] + p3 * x3[j]


@compiled
def _shrink(w: Array, keep: float) -> None:
    if keep != 1:
        for j in range(len(w)):
            w[j] *= keep


FEW = 4
"""Up to this many datasets a seed, products written out beat BLAS (benchmarks/README.md)."""


_BLOCK = 256
"""Rows of a large batch taken at a time: 128 kB at a hundred features, so that they stay near."""


class Law(NamedTuple):
    """What a compiled step needs of a spec, as plain numbers (0 or infinity: not used)."""

    kind: int
    huber: float
    l2: float
    fixed_divisor: int
    clip: float
    noise: float
    radius: float


class _Rows(NamedTuple):
    """What a compiled step needs of a table, as arrays.

    `first` and `following` are `Table.replaced_by`; `weight` is read where rows are `weighted`.
    """

    X: Array
    y: Array
    counted: Array
    norms: Array
    slot: Array
    substitute: Array
    first: Array
    following: Array
    has_empty: bool
    weight: Array
    weighted: bool


class _Scratch(NamedTuple):
    """Working memory of one chunk: one batch, collected, and what is computed from it.

    `most` is the largest |psi| that the clip leaves an example, infinite where its row is zero.
    """

    batch: Array
    X: Array
    y: Array
    most: Array
    weight: Array
    psi: Array
    gradient: Array
    own: Array
    touched: Array


def descend(
    spec: TrainSpec,
    table: RowTable,
    weights: torch.Tensor,
    total: torch.Tensor | None,
    epoch: Epoch,
    rates: npt.NDArray[np.float64],
    noise: torch.Tensor | None,
) -> None:
    """Take these steps on weights [seed, dataset, parameter], in place; sum iterates in `total`."""
    datasets, parameters = weights.shape[1:]
    few = datasets <= FEW
    padding = (0, table.X.shape[1] - parameters) if few else (0, 0)
    padded = _pad(weights, padding)
    sums = torch.zeros((1, 1, 1), dtype=weights.dtype) if total is None else _pad(total, padding)
    wide, places = padded.shape[2], (epoch.index.shape[2] + 3) // 4 * 4
    shapes = ((places, wide), *[places] * 3, datasets * places, *[(datasets, wide)] * 2)
    numbers = (np.empty(shape, dtype=padded.numpy().dtype) for shape in shapes)
    batch, touched = np.empty(places, dtype=np.int32), np.empty(datasets, dtype=np.int32)
    records = [each.numpy() for each in (table.X, table.y, table.counted, table.norms)]
    changes = table.slot, table.substitute, *table.replaced_by
    has_empty = table.has_empty or spec.order in VARYING
    weight = table.y if table.weight is None else table.weight
    weighs = weight.numpy(), table.weight is not None
    rows = _Rows._make([*records, *changes, has_empty, *weighs])
    scratch = [batch, *numbers, touched]
    added = np.zeros((1, 1, 1), dtype=spec.dtype) if noise is None else noise.numpy()
    of = law_of(spec), rows, _Scratch._make(scratch), padded.numpy(), sums.numpy()
    _descend(*of, total is not None, epoch.index, epoch.width, rates, added, few)
    if few:
        weights.copy_(padded[..., :parameters])
        if total is not None:
            total.copy_(sums[..., :parameters])


def _pad(weights: torch.Tensor, padding: tuple[int, int]) -> torch.Tensor:
    """Weights as wide as the table's rows; what is added meets only zeros and stays zero."""
    return torch.nn.functional.pad(weights, padding) if any(padding) else weights


def law_of(spec: TrainSpec) -> Law:
    """The numbers of a spec."""
    clip = math.inf if spec.max_grad_norm is None else spec.max_grad_norm
    return Law(
        kind=LINEAR_KINDS.index(spec.objective.kind),
        huber=spec.objective.huber_width,
        l2=spec.objective.l2,
        fixed_divisor=spec.batch_size if spec.divides_by_batch_size else 0,
        clip=clip,
        noise=spec.noise_multiplier * clip if spec.noise_multiplier else 0.0,
        radius=math.inf if spec.radius is None else spec.radius,
    )


@compiled
def _descend(
    law: Law,
    rows: _Rows,
    scratch: _Scratch,
    weights: Array,
    total: Array,
    averages: bool,
    index: Array,
    width: Array,
    rates: Array,
    noise: Array,
    few: bool,
) -> None:
    for s in range(weights.shape[0]):
        w = weights[s]
        for t in range(index.shape[1]):
            batch = index[s, t, : _places(index[s, t], width[t], len(rows.y) - 1)]
            normal = noise[s, t] if law.noise > 0 else noise[0, 0]
            many = _touched(rows, batch, scratch.touched, few)
            for i in range(many):
                k = scratch.touched[i]
                copy_row(scratch.own[i], w[k])
                _single_step(law, rows, scratch, scratch.own[i], k, batch, rates[t], normal)
            _shared_step(law, rows, scratch, w, batch, rates[t], normal, few)
            for i in range(many):
                copy_row(w[scratch.touched[i]], scratch.own[i])
            if averages:
                for k in range(w.shape[0]):
                    for j in range(w.shape[1]):
                        total[s, k, j] += w[k, j]


@compiled
def _places(batch: Array, width: int, nothing: int) -> int:
    """Places up to the last that is filled: a batch of another seed may be longer."""
    while width > 1 and batch[width - 1] == nothing:
        width -= 1
    return width


@compiled
def _touched(rows: _Rows, batch: Array, touched: Array, few: bool) -> int:
    """List the datasets that differ in this batch; return how many."""
    many = 0
    if few:
        for k in range(len(rows.slot)):
            hits = 0
            for b in range(len(batch)):
                hits += batch[b] == rows.slot[k]
            if hits > 0:
                touched[many] = k
                many += 1
        return many
    for b in range(len(batch)):
        k = rows.first[batch[b]]
        while k >= 0:
            touched[many] = k
            many += 1
            k = rows.following[k]
    return many


@compiled
def _shared_step(
    law: Law,
    rows: _Rows,
    scratch: _Scratch,
    w: Array,
    shared: Array,
    rate: float,
    normal: Array,
    few: bool,
) -> None:
    """One step of all datasets w [dataset, parameter] on the batch they share."""
    real = w.dtype.type
    batch = _fill(scratch.batch, shared, len(rows.y) - 1)
    size = len(batch)
    X, y, most = scratch.X[:size], scratch.y[:size], scratch.most[:size]
    count = _look_up(law, rows, batch, y, most, scratch.weight, len(shared))
    divisor = law.fixed_divisor if law.fixed_divisor > 0 else max(count, 1)
    scale, keep = real(-rate / divisor), real(1 - rate * law.l2)
    if few and size > _BLOCK:
        _large_step(law, rows, scratch, w, batch, scale, keep)
        for k in range(len(w)):
            noise_and_project(law, w[k], scale, normal)
        return
    psi = scratch.psi[: len(w) * size].reshape(len(w), size)
    if few:
        _few_scores(psi, w, rows.X, batch)
    else:
        for b in range(size):
            copy_row(X[b], rows.X[batch[b]])
        np.dot(w, X.T, psi)
    for k in range(len(w)):
        link.residuals(law.kind, law.huber, psi[k], y)
        if rows.weighted:
            weigh(psi[k], scratch.weight)
        if law.clip < np.inf:
            clip(psi[k], most)
    if few:
        _few_update(w, rows.X, batch, psi, scale, keep)
    else:
        np.dot(psi, X, scratch.gradient)
        for k in range(w.shape[0]):
            for j in range(w.shape[1]):
                w[k, j] = keep * w[k, j] + scale * scratch.gradient[k, j]
    for k in range(len(w)):
        noise_and_project(law, w[k], scale, normal)


@compiled
def _large_step(
    law: Law, rows: _Rows, scratch: _Scratch, w: Array, batch: Array, scale: float, keep: float
) -> None:
    """A step on a batch too large for the cache: block by block, each row fetched only once."""
    one = w.dtype.type(1)
    gradient = scratch.gradient
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            gradient[k, j] = 0
    for start in range(0, len(batch), _BLOCK):
        stop = min(start + _BLOCK, len(batch))
        part = batch[start:stop]
        psi = scratch.psi[: len(w) * len(part)].reshape(len(w), len(part))
        _few_scores(psi, w, rows.X, part)
        for k in range(len(w)):
            link.residuals(law.kind, law.huber, psi[k], scratch.y[start:stop])
            if rows.weighted:
                weigh(psi[k], scratch.weight[start:stop])
            if law.clip < np.inf:
                clip(psi[k], scratch.most[start:stop])
        _few_update(gradient, rows.X, part, psi, one, one)
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            w[k, j] = keep * w[k, j] + scale * gradient[k, j]


@compiled
def _single_step(
    law: Law,
    rows: _Rows,
    scratch: _Scratch,
    w: Array,
    k: int,
    shared: Array,
    rate: float,
    normal: Array,
) -> None:
    """One step of dataset k, whose batch is `shared` but for its own slot."""
    real = w.dtype.type
    batch = _fill(scratch.batch, shared, len(rows.y) - 1)
    for b in range(len(batch)):
        if batch[b] == rows.slot[k]:
            batch[b] = rows.substitute[k]
    y, most, psi = scratch.y[: len(batch)], scratch.most[: len(batch)], scratch.psi[: len(batch)]
    count = _look_up(law, rows, batch, y, most, scratch.weight, len(shared))
    divisor = law.fixed_divisor if law.fixed_divisor > 0 else max(count, 1)
    scale = real(-rate / divisor)
    _scores(psi, w, rows.X, batch)
    link.residuals(law.kind, law.huber, psi, y)
    if rows.weighted:
        weigh(psi, scratch.weight)
    if law.clip < np.inf:
        clip(psi, most)
    _update(w, rows.X, batch, psi, scale, real(1 - rate * law.l2))
    noise_and_project(law, w, scale, normal)


@compiled
def _fill(batch: Array, shared: Array, nothing: int) -> Array:
    """Copy a batch, with empty rows up to whole fours, which is how the loops below take them."""
    for b in range(len(shared)):
        batch[b] = shared[b]
    size = (len(shared) + 3) // 4 * 4
    for b in range(len(shared), size):
        batch[b] = nothing
    return batch[:size]


@compiled
def _look_up(
    law: Law, rows: _Rows, batch: Array, y: Array, most: Array, weight: Array, places: int
) -> int:
    """Collect what the batch's rows carry beside their features; return how many are records.

    The batch has `places` rows, and empty ones after them.
    """
    for b in range(len(batch)):
        y[b] = rows.y[batch[b]]
    if rows.weighted:
        for b in range(len(batch)):
            weight[b] = rows.weight[batch[b]]
    if law.clip < np.inf:
        for b in range(len(batch)):
            norm = rows.norms[batch[b]]
            most[b] = law.clip / norm if norm > 0 else np.inf
    if not rows.has_empty:
        return places
    count = 0
    for b in range(places):
        count += 1 if rows.counted[batch[b]] > 0 else 0
    return count


@compiled
def weigh(psi: Array, weight: Array) -> None:
    """Multiply each example's slope by its weight: before the clip, which is of what counts."""
    for b in range(len(psi)):
        psi[b] *= weight[b]


@compiled
def clip(psi: Array, most: Array) -> None:
    """Scale each example's gradient psi x down to the norm allowed."""
    for b in range(len(psi)):
        psi[b] = min(max(psi[b], -most[b]), most[b])


@compiled
def copy_row(to: Array, from_: Array) -> None:
    """Overwrite one row by another."""
    # A loop: slice assignment compiles to half a second of error messages.
    for j in range(len(to)):
        to[j] = from_[j]


@compiled
def noise_and_project(law: Law, w: Array, scale: float, normal: Array) -> None:
    """End a step: add the noise to the sum of gradients, and go back into the ball."""
    if law.noise > 0:
        spread = scale * w.dtype.type(law.noise)
        for j in range(len(normal)):
            w[j] += spread * normal[j]
    if law.radius < np.inf:
        _project(w, law.radius)


@compiled
def _project(w: Array, radius: float) -> None:
    squared = 0.0
    for j in range(len(w)):
        squared += w[j] * w[j]
    if squared > radius * radius:
        factor = w.dtype.type(radius / np.sqrt(squared))
        for j in range(len(w)):
            w[j] *= factor
