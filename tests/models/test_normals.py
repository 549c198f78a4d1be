"""The compiled loop that makes normal numbers of random words."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable
from typing import Any

import mpmath
import numba
import numpy as np
import pytest

from sordino.models.kernels import normals
from sordino.models.kernels.compile import FAST
from sordino.models.kernels.normals import SUMMANDS, TILE, add_normals, words_for

ULPS = 4  # what the module promises; 2.2 were seen in 50,000 words


@numba.njit
def _functions(words: Any, log: Any, cosine: Any, sine: Any) -> None:
    for i in range(len(words)):
        log[i] = normals.minus_half_log(words[i])
        cosine[i], sine[i] = normals.cosine_and_sine(words[i])


def _words() -> np.ndarray:
    """Ends, every quarter and eighth of a turn, powers of two, and random ones of all lengths."""
    ends = [0, 1, 2, 3, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1]
    turns = [(k * 2**61 + d) % 2**64 for k in range(8) for d in (-1025, -2, -1, 0, 1, 2, 1025)]
    powers = [x for k in range(64) for x in (2**k, 2**64 - 2**k)]
    folds = [int(math.sqrt(0.5) * 2**k) + d for k in (20, 52, 64) for d in (-2048, 0, 2048)]
    generator = np.random.default_rng(3)
    drawn = generator.integers(2**64, size=(3, 1500), dtype=np.uint64)
    lengths = generator.integers(64, size=(2, 1500), dtype=np.uint64)
    drawn[1] >>= lengths[0]
    drawn[2] = np.uint64(2**64 - 1) - (drawn[2] >> lengths[1])
    return np.array([*ends, *turns, *powers, *folds, *drawn.ravel().tolist()], dtype=np.uint64)


def _far(found: np.ndarray, exact: Callable[[int], Any]) -> float:
    """The most units in the last place between what was found and 40 digits."""
    most = 0.0
    with mpmath.workdps(40):
        for word, value in zip(_words().tolist(), found.tolist(), strict=True):
            true = exact(word)
            most = max(most, float(abs(value - true) / mpmath.mpf(math.ulp(float(true)))))
    return most


def test_logarithm_cosine_and_sine_are_those_of_forty_digits() -> None:
    words = _words()
    log, cosine, sine = np.empty((3, len(words)))
    _functions(words, log, cosine, sine)
    turn = mpmath.mpf(2) ** 63
    assert _far(log, lambda word: (64 * mpmath.ln(2) - mpmath.ln(float(word) + 0.5)) / 2) <= ULPS
    assert _far(cosine, lambda word: mpmath.cospi(word / turn)) <= ULPS
    assert _far(sine, lambda word: mpmath.sinpi(word / turn)) <= ULPS
    assert log.min() == 0  # of the words that are 2^64 to 53 bits: never a root of less


def _slowly(words: np.ndarray) -> np.ndarray:
    """The same normals by numpy, as the docstring of the loop states them."""
    radius, angle = np.moveaxis(words.reshape(-1, SUMMANDS, 2, TILE), 2, 0)
    length = np.sqrt(-2 * np.log((radius + 0.5) / 2.0**64))
    turn = 2 * np.pi * angle.view(np.int64) / 2.0**64
    pairs = [(length * np.cos(turn)).sum(axis=1) / 2, (length * np.sin(turn)).sum(axis=1) / 2]
    return np.stack(pairs, axis=1).ravel()


def _drawn(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(2**64, size=words_for(count), dtype=np.uint64)


@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 65, 127, 128, 129, 1000, 8192, 8193])
def test_numbers_are_those_of_the_formula_at_every_size(count: int) -> None:
    words, values = _drawn(count), np.full(count + 3, 7.0)
    assert add_normals(words, values[:count], 0.5)
    # numpy's angle is rounded to 53 bits before its cosine: 1e-15 of 9.5 at most, four times.
    assert values[:count] == pytest.approx(7 + 0.5 * _slowly(words)[:count], abs=1e-13)
    assert (values[count:] == 7).all()


def test_words_at_their_ends_give_the_formula_too() -> None:
    words = np.resize(_words(), words_for(5000))
    values = np.zeros(5000)
    assert add_normals(words, values, 1.0)
    assert values == pytest.approx(_slowly(words)[:5000], abs=1e-13)
    extreme = np.zeros(words_for(1), dtype=np.uint64)
    values[:] = 0
    assert add_normals(extreme, values[:1], 1.0)
    assert values[0] == pytest.approx(2 * math.sqrt(130 * math.log(2)), abs=1e-13)


def test_float32_is_added_to_in_float64_and_rounded_once() -> None:
    words = _drawn(20_000)
    normal = np.zeros(20_000)
    add_normals(words, normal, 1.0)
    given = np.random.default_rng(1).standard_normal(20_000).astype(np.float32)
    values = given.copy()
    assert add_normals(words, values, 0.3)
    assert np.array_equal(values, (given + 0.3 * normal).astype(np.float32))
    assert not np.array_equal(values, given + (0.3 * normal).astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("at", [0, 100, 128, 299])
def test_a_sum_that_is_not_finite_is_told(dtype: type, at: int) -> None:
    words = _drawn(300)
    for bad in (math.nan, math.inf, -math.inf):
        values = np.zeros(300, dtype=dtype)
        values[at] = bad
        assert not add_normals(words, values, 1.0)
    # What overflows only with its noise: one normal of 300 at least is large and positive.
    values = np.full(300, np.finfo(dtype).max)
    assert not add_normals(words, values, float(np.finfo(dtype).max))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of x86-64's instructions")
def test_the_loop_is_made_of_vector_instructions() -> None:
    # Compiled here: Numba shows no instructions of what it finds on disk.
    loop = numba.njit(fastmath=FAST, error_model="numpy")(add_normals.py_func)  # type: ignore[attr-defined]
    loop(_drawn(1), np.zeros(1, dtype=np.float32), 1.0)
    [code] = loop.inspect_asm().values()
    assert "sqrtpd" in code  # of several numbers; sqrtsd is one number's
    assert "divpd" in code
