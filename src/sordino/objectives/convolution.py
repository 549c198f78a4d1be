"""Convolutions and pooling of small images, compiled, with the batch innermost.

A feature map of a batch is [row, column x example]: the columns of all examples lie side by side,
so a shift by one column is a shift by the batch size, and every loop runs over a whole row of all
images at once. Two filters are taken at a time, so that each row is read once for both.
Maps that a convolution reads are padded with zeros.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from sordino.objectives.compiled import compiled

Floats = npt.NDArray[Any]


@compiled
def add_3x3(out: Floats, image: Floats, kernel: Floats, batch: int) -> None:
    """Add to out [2, row, ...] the convolution of one padded map with kernels [2, 3, 3]."""
    for dh in range(3):
        k0, k1, k2 = kernel[0, dh, 0], kernel[0, dh, 1], kernel[0, dh, 2]
        m0, m1, m2 = kernel[1, dh, 0], kernel[1, dh, 1], kernel[1, dh, 2]
        for h in range(out.shape[1]):
            u, v, row = out[0, h], out[1, h], image[h + dh]
            # Slices, not shifted indices: those might be negative for all the compiler knows.
            a, b, c = row[: len(u)], row[batch : batch + len(u)], row[2 * batch :]
            for i in range(len(u)):
                u[i] += k0 * a[i] + k1 * b[i] + k2 * c[i]
                v[i] += m0 * a[i] + m1 * b[i] + m2 * c[i]


@compiled
def add_2x2(out: Floats, image: Floats, kernel: Floats, batch: int) -> None:
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
def add_kernel_gradient(kernel: Floats, out: Floats, image: Floats, pad: int, batch: int) -> None:
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
def pool(out: Floats, which: Floats, plane: Floats, rows: int, columns: int, batch: int) -> None:
    """2x2 max pooling and relu of one map; `which` says who won (4: nobody was above 0).

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
                which[h, to] = winner if best > 0 else 4


@compiled
def unpool(plane: Floats, which: Floats, gradient: Floats, pad: int, batch: int) -> None:
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
def total(plane: Floats) -> Any:
    """Sum of a map; numpy's own would add one number at a time."""
    flat = plane.reshape(plane.size)
    found = plane.dtype.type(0)
    for i in range(len(flat)):
        found += flat[i]
    return found
