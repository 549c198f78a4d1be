"""The derivative of each linear loss, compiled: what `Linear.residual_` is in torch."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.extending import overload

from sordino.models.kernels.compile import FAST, compiled
from sordino.types import Array

# Positions of the kinds in objectives.objective.LINEAR_KINDS.
LOGISTIC, HUBER, SQUARES = range(3)


@compiled
def residuals(kind: int, huber: float, z: Array, y: Array) -> None:
    """Overwrite scores z with psi = dl/dz, given their labels y."""
    one = z.dtype.type(1)
    if kind == LOGISTIC:
        for b in range(len(z)):
            z[b] = one / (one + _exp(-z[b])) - y[b]
    elif kind == HUBER:
        h = z.dtype.type(huber)
        for b in range(len(z)):
            sign = 2 * y[b] - one
            slope = (one - sign * z[b] + h) / (2 * h)
            z[b] = -sign * min(max(slope, z.dtype.type(0)), one)
    else:
        for b in range(len(z)):
            z[b] -= y[b]


def _exp(x: float) -> float:
    """exp(x); in float32 as a polynomial that the compiler turns into vector instructions."""
    return float(np.exp(x))


@overload(_exp, inline="always", strict=False)
def _exp_compiled(x: numba.types.Type) -> Any:
    if x == numba.float32:
        return lambda x: _exp32(x)
    return lambda x: np.exp(x)


_f4, _i4 = np.float32, np.int32


@numba.njit(fastmath=FAST, inline="always")
def _exp32(x: Any) -> Any:
    """Cephes' expf: 2^n times a polynomial in the rest; relative error below 2e-7.

    Beyond -87 and 88 it stays at the value there, where a sigmoid is 0 or 1 to float32 anyway.
    """
    x = min(max(x, _f4(-87.0)), _f4(88.0))
    n = np.floor(x * _f4(1.4426950408889634) + _f4(0.5))
    r = x - n * _f4(0.693359375)  # ln 2, in two parts
    r = r + n * _f4(2.12194440e-4)
    p = _f4(1.9875691500e-4)
    p = p * r + _f4(1.3981999507e-3)
    p = p * r + _f4(8.3334519073e-3)
    p = p * r + _f4(4.1665795894e-2)
    p = p * r + _f4(1.6666665459e-1)
    p = p * r + _f4(5.0000001201e-1)
    p = p * r * r + r + _f4(1)
    return p * _i4((_i4(n) + _i4(127)) << _i4(23)).view(_f4)
