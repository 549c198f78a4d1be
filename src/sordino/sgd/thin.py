"""Products of a few weight vectors with a batch of rows, read where they lie.

BLAS is slow at products so thin, and would want the batch copied together first. Rows are taken
four at a time, which is what a core can multiply while it waits for the next ones.
"""

from __future__ import annotations

from sordino.models.compiled import compiled
from sordino.types import Array


@compiled
def few_scores(psi: Array, w: Array, X: Array, batch: Array) -> None:
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
        scores(psi[-1], w[-1], X, batch)


@compiled
def few_update(w: Array, X: Array, batch: Array, psi: Array, scale: float, keep: float) -> None:
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
        update(w[-1], X, batch, psi[-1], scale, keep)


@compiled
def scores(psi: Array, w: Array, X: Array, batch: Array) -> None:
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
def update(w: Array, X: Array, batch: Array, psi: Array, scale: float, keep: float) -> None:
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
