"""Standard normal numbers out of random 64-bit words, in one pass.

The loop has no branch and no call, so that the compiler turns it into vector instructions. LLVM
has no logarithm, sine and cosine of its own in that form: here they are polynomials in float64,
within 4 units in the last place. `mpmath.chebyfit` fitted the coefficients (40 digits); what a
polynomial leaves out is below 2^-56 of the result.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from sordino.models.kernels.compile import FAST, compiled
from sordino.types import Array

_settings: Any = numba.config

SUMMANDS = 4
TILE = 64
"""Pairs of normals made of one piece of words. A constant, so that the compiler sees that its rows
do not overlap; and words are drawn for whole tiles, at most 4 kB more than are needed."""
THREADS: int = _settings.NUMBA_NUM_THREADS
"""All cores of this process; fewer where the environment says so, as in a worker of `tasks`."""

_f8, _i8, _u8 = np.float64, np.int64, np.uint64


def words_for(normals: int) -> int:
    """How many words `add_normals` needs for so many numbers."""
    return -(-normals // (2 * TILE)) * 2 * TILE * SUMMANDS


@compiled
def add_normals(words: Array, values: Array, scale: float) -> bool:
    """Add an independent N(0, scale^2) to each of `values`; False if one is not finite then.

    A pair of normals is half the sum of four Box-Muller pairs. `words` [tile, SUMMANDS, 2, TILE],
    flat, hold a radius and an angle of each; `values` get, for every tile, the TILE cosines and
    then the TILE sines. Products and sums are float64, and are rounded to the type of `values`
    once. Words and normals of an incomplete last tile are not used.
    """
    normals = np.empty(2 * TILE)
    finite = True
    for start in range(0, len(values), 2 * TILE):
        tile = words[start * SUMMANDS : (start + 2 * TILE) * SUMMANDS]
        for i in range(TILE):
            # Written out: with a loop in here, the one around would not become vectors.
            x0, y0 = _box_muller(tile[i], tile[TILE + i])
            x1, y1 = _box_muller(tile[2 * TILE + i], tile[3 * TILE + i])
            x2, y2 = _box_muller(tile[4 * TILE + i], tile[5 * TILE + i])
            x3, y3 = _box_muller(tile[6 * TILE + i], tile[7 * TILE + i])
            normals[i] = (x0 + x1) + (x2 + x3)
            normals[TILE + i] = (y0 + y1) + (y2 + y3)
        part = values[start : start + 2 * TILE]
        for i in range(len(part)):
            part[i] = part[i] + scale * normals[i]
            finite &= abs(part[i]) < np.inf  # isfinite is x - x == 0, which FAST lets be True
    return finite


@numba.njit(fastmath=FAST, inline="always")
def _box_muller(radius: Any, angle: Any) -> Any:
    """Two independent N(0, 1/4)."""
    length = math.sqrt(minus_half_log(radius))
    cosine, sine = cosine_and_sine(angle)
    return length * cosine, length * sine


@numba.njit(fastmath=FAST, inline="always")
def minus_half_log(word: Any) -> Any:
    """-ln(u) / 2, where u = (word + 0.5) 2^-64 is rounded to float64 and is in (0, 1].

    Numbers near 0, where the tails are made, are as fine as the word.
    """
    bits = _f8(_f8(word) + _f8(0.5)).view(_i8)
    # 2^power m with m in [sqrt(1/2), sqrt(2)): near u = 1 the power is 64, and nothing cancels.
    power = (bits - _i8(0x3FE6A09E667F3BCD)) >> _i8(52)
    m = _i8(bits - (power << _i8(52))).view(_f8)
    s = (m - _f8(1)) / (m + _f8(1))  # ln m = 2 artanh s
    z = s * s
    p = _f8(0.07308292712467061)
    p = p * z + _f8(0.0766585530910321)
    p = p * z + _f8(0.09091444727837553)
    p = p * z + _f8(0.11111105565129938)
    p = p * z + _f8(0.14285714313001635)
    p = p * z + _f8(0.19999999999949722)
    p = p * z + _f8(0.3333333333333335)
    return _f8(_i8(64) - power) * _f8(math.log(2) / 2) - (s + s * z * p)


@numba.njit(fastmath=FAST, inline="always")
def cosine_and_sine(word: Any) -> Any:
    """Of 2 pi word / 2^64."""
    # The nearest quarter turn is taken off in whole numbers, which is exact.
    turned = _i8(word + _u8(1 << 61))
    rest = _i8(word) - (turned & _i8(-(1 << 62)))
    x = _f8(rest) * _f8(math.pi * 2.0**-63)  # in [-pi/4, pi/4]
    z = x * x
    p = _f8(1.591812929486638e-10)
    p = p * z + _f8(-2.505113184500362e-08)
    p = p * z + _f8(2.755731610255244e-06)
    p = p * z + _f8(-0.00019841269836758574)
    p = p * z + _f8(0.008333333333330948)
    p = p * z + _f8(-0.16666666666666666)
    sine = x + x * z * p
    p = _f8(-1.1382632425521575e-11)
    p = p * z + _f8(2.0876146268403195e-09)
    p = p * z + _f8(-2.7557317271729793e-07)
    p = p * z + _f8(2.480158729876569e-05)
    p = p * z + _f8(-0.0013888888888887398)
    p = p * z + _f8(0.041666666666666664)
    cosine = _f8(1) + (z * z * p - _f8(0.5) * z)
    odd = (turned & _i8(1 << 62)) != 0
    along = -sine if odd else cosine
    across = cosine if odd else sine
    half = turned < 0
    return (-along if half else along), (-across if half else across)
