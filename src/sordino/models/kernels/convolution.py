"""Convolutions and pooling of small images, compiled, with the batch innermost.

A feature map of a batch is [row, column x example]: the columns of all examples lie side by side,
so a shift by one column is a shift by the batch size, and every loop runs over a whole row of all
images at once. Two filters are taken at a time, so that each row is read once for both.
Maps that a convolution reads are padded with zeros.

The images themselves come in halves, [row, 2, half the columns x example]: even columns, then odd
ones. Pooling them is then a comparison of four rows, without steps of two.

Loops write one or two arrays and read few: the compiler must be able to check, each time, that
they do not overlap, and gives up on vectors where that takes more than eight comparisons.
"""

from __future__ import annotations

from typing import Any

from sordino.models.kernels.compile import compiled
from sordino.types import Array

_NOBODY = 4
"""In place of a winner: nothing in the window is above 0."""


@compiled
def add_3x3(out: Array, image: Array, kernel: Array, batch: int) -> None:
    """Add to out [2, row, 2, ...] the convolution of one padded map with kernels [2, 3, 3].

    Both are in halves; the padding makes even what is odd, so out's even columns begin with one.
    """
    width = out.shape[3]
    for dh in range(3):
        k, m = kernel[0, dh], kernel[1, dh]
        for h in range(out.shape[1]):
            even, odd = image[h + dh, 0], image[h + dh, 1]
            # Slices, not shifted indices: those might be negative for all the compiler knows.
            _add_three(out[0, h, 0], out[1, h, 0], k, m, even[:width], odd[:width], even[batch:])
            _add_three(out[0, h, 1], out[1, h, 1], k, m, odd[:width], even[batch:], odd[batch:])


@compiled
def _add_three(u: Array, v: Array, k: Array, m: Array, a: Array, b: Array, c: Array) -> None:
    k0, k1, k2 = k[0], k[1], k[2]
    m0, m1, m2 = m[0], m[1], m[2]
    for i in range(len(u)):
        u[i] += k0 * a[i] + k1 * b[i] + k2 * c[i]
        v[i] += m0 * a[i] + m1 * b[i] + m2 * c[i]


@compiled
def pool_halves(out: Array, which: Array, plane: Array) -> None:
    """2x2 max pooling and relu of one map [row, 2, ...], as `pool`."""
    for h in range(which.shape[0]):
        best, winner = out[h], which[h]
        a, b, c, d = plane[2 * h, 0], plane[2 * h, 1], plane[2 * h + 1, 0], plane[2 * h + 1, 1]
        zero = plane.dtype.type(0)
        for i in range(len(winner)):
            best[i] = max(max(a[i], b[i]), max(max(c[i], d[i]), zero))
        for i in range(len(winner)):
            upper, lower = max(a[i], b[i]), max(c[i], d[i])
            first = 0 if a[i] >= b[i] else 1
            second = 2 if c[i] >= d[i] else 3
            place = first if upper >= lower else second
            winner[i] = place if max(upper, lower) > zero else _NOBODY


@compiled
def add_first_kernel_gradient(
    kernel: Array, which: Array, gradient: Array, image: Array, batch: int
) -> None:
    """Add to kernels [2, 3, 3] what the gradient [2, ...] of their pooled maps gives them."""
    zero = kernel.dtype.type(0)
    width = which.shape[2]
    for dh in range(3):
        s0, s1, s2, t0, t1, t2 = zero, zero, zero, zero, zero, zero
        for h in range(which.shape[1]):
            g, w, e, z = gradient[0, h], which[0, h], gradient[1, h], which[1, h]
            upper, lower = image[2 * h + dh], image[2 * h + 1 + dh]
            a0, a1, a2, a3 = upper[0, :width], upper[1, :width], upper[0, batch:], upper[1, batch:]
            b0, b1, b2, b3 = lower[0, :width], lower[1, :width], lower[0, batch:], lower[1, batch:]
            for i in range(width):
                g0, g1 = g[i] if w[i] == 0 else zero, g[i] if w[i] == 1 else zero
                g2, g3 = g[i] if w[i] == 2 else zero, g[i] if w[i] == 3 else zero
                s0 += g0 * a0[i] + g1 * a1[i] + g2 * b0[i] + g3 * b1[i]
                s1 += g0 * a1[i] + g1 * a2[i] + g2 * b1[i] + g3 * b2[i]
                s2 += g0 * a2[i] + g1 * a3[i] + g2 * b2[i] + g3 * b3[i]
                e0, e1 = e[i] if z[i] == 0 else zero, e[i] if z[i] == 1 else zero
                e2, e3 = e[i] if z[i] == 2 else zero, e[i] if z[i] == 3 else zero
                t0 += e0 * a0[i] + e1 * a1[i] + e2 * b0[i] + e3 * b1[i]
                t1 += e0 * a1[i] + e1 * a2[i] + e2 * b1[i] + e3 * b2[i]
                t2 += e0 * a2[i] + e1 * a3[i] + e2 * b2[i] + e3 * b3[i]
        kernel[0, dh, 0] += s0
        kernel[0, dh, 1] += s1
        kernel[0, dh, 2] += s2
        kernel[1, dh, 0] += t0
        kernel[1, dh, 1] += t1
        kernel[1, dh, 2] += t2


@compiled
def add_2x2(out: Array, image: Array, kernel: Array, batch: int) -> None:
    """Add to out [2, row, ...] the convolution of one padded map with kernels [2, 2, 2]."""
    k00, k01, k10, k11 = kernel[0, 0, 0], kernel[0, 0, 1], kernel[0, 1, 0], kernel[0, 1, 1]
    m00, m01, m10, m11 = kernel[1, 0, 0], kernel[1, 0, 1], kernel[1, 1, 0], kernel[1, 1, 1]
    for h in range(out.shape[1]):
        u, v, upper, lower = out[0, h], out[1, h], image[h], image[h + 1]
        a, b, c, d = upper[: len(u)], upper[batch:], lower[: len(u)], lower[batch:]
        for i in range(len(u)):
            u[i] += (k00 * a[i] + k01 * b[i]) + (k10 * c[i] + k11 * d[i])
            v[i] += (m00 * a[i] + m01 * b[i]) + (m10 * c[i] + m11 * d[i])


@compiled
def add_kernel_gradient(kernel: Array, out: Array, image: Array, pad: int, batch: int) -> None:
    """Add to kernel [2, side, side] what the gradient `out` of its convolution gives it.

    `out` [2, row, ...] has `pad` rows and columns of zeros before it.
    """
    side = kernel.shape[1]
    width = image.shape[1] - (side - 1) * batch
    zero = kernel.dtype.type(0)
    for h in range(out.shape[1] - pad):
        u, v = out[0, h + pad, pad * batch :], out[1, h + pad, pad * batch :]
        for dh in range(side):
            for dw in range(side):
                row = image[h + dh, dw * batch : dw * batch + width]
                s, t = zero, zero
                for i in range(width):
                    s += u[i] * row[i]
                    t += v[i] * row[i]
                kernel[0, dh, dw] += s
                kernel[1, dh, dw] += t


@compiled
def pool(out: Array, which: Array, plane: Array, rows: int, columns: int, batch: int) -> None:
    """2x2 max pooling and relu of one map; `which` says who won, or `_NOBODY`.

    The first of equals wins, as in Keras and torch.
    """
    for h in range(rows):
        a, b = plane[2 * h], plane[2 * h + 1]
        for w in range(columns):
            for i in range(batch):
                at, to = 2 * w * batch + i, w * batch + i
                best, winner = a[at], 0
                if a[at + batch] > best:
                    best, winner = a[at + batch], 1
                if b[at] > best:
                    best, winner = b[at], 2
                if b[at + batch] > best:
                    best, winner = b[at + batch], 3
                out[h, to] = best if best > 0 else 0
                which[h, to] = winner if best > 0 else _NOBODY


@compiled
def unpool(plane: Array, which: Array, gradient: Array, pad: int, batch: int) -> None:
    """Send the gradient of a pooled map back to the winners; `pad` as above.

    Rows and columns that no window covers (of an odd side) are left as they are.
    """
    columns = which.shape[1] // batch
    zero = plane.dtype.type(0)
    for h in range(which.shape[0]):
        a, b = plane[2 * h + pad, pad * batch :], plane[2 * h + 1 + pad, pad * batch :]
        for w in range(columns):
            for i in range(batch):
                at, to = 2 * w * batch + i, w * batch + i
                value, winner = gradient[h, to], which[h, to]
                a[at] = value if winner == 0 else zero
                a[at + batch] = value if winner == 1 else zero
                b[at] = value if winner == 2 else zero
                b[at + batch] = value if winner == 3 else zero


@compiled
def total(gradient: Array, which: Array) -> Any:
    """Sum of a pooled map's gradient where somebody won: what reaches the bias."""
    zero = gradient.dtype.type(0)
    found = zero
    for h in range(which.shape[0]):
        row, winner = gradient[h], which[h]
        for i in range(len(winner)):
            found += row[i] if winner[i] != _NOBODY else zero
    return found
