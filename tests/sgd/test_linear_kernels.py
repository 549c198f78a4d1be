"""The compiled derivatives of the linear losses against the same in torch, to the last scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sordino.models import ObjectiveSpec, build
from sordino.models.constants import LINEAR_KINDS
from sordino.models.kernels import link

# A few roundings of numbers of size one; `_exp32` adds its own 2e-7.
CLOSE = {"float32": 1e-6, "float64": 1e-15}


def scores(dtype):
    """Ordinary scores, the joints of the hinge, and far beyond what exp can hold."""
    largest = np.finfo(dtype).max / 8
    far = [1e4, 700.0, 745.2, 710.0, 104.0, 88.72, 88.0, 87.4, 87.0, 1e30, largest]
    points = np.concatenate([np.linspace(-30, 30, 4001), [0.0, 0.5, 1.0, 1.5], far])
    return np.concatenate([points, -points]).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("kind", "h"),
    [("logistic", 0.5), ("huber-svm", 0.5), ("huber-svm", 0.01), ("least-squares", 0.5)],
)
def test_the_compiled_residual_is_the_one_in_torch(kind, h, dtype):
    objective = build(ObjectiveSpec(kind, huber_width=h), 3)
    targets = (0.0, 1.0) if objective.classes else (0.0, 1.0, -2.5, 1e6)
    for target in targets:
        z = scores(dtype)
        y = np.full(len(z), target, dtype=dtype)
        want = objective.residual_(torch.tensor(z), torch.tensor(y)).numpy()
        link.residuals(LINEAR_KINDS.index(kind), h, z, y)
        assert z.dtype == dtype
        assert np.isfinite(z).all()
        if kind == "least-squares":
            np.testing.assert_array_equal(z, want)
        else:
            # With a narrow hinge one rounding of the score is 1/(2h) times as large.
            np.testing.assert_allclose(z, want, rtol=0, atol=CLOSE[dtype] * max(1, 0.5 / h))
            assert np.abs(z).max() <= 1  # the Lipschitz constant, to the last digit


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_far_scores_give_zero_or_one_and_never_no_number(dtype):
    z = np.array([1e4, -1e4, 1e4, -1e4, np.inf, -np.inf], dtype=dtype)
    y = np.array([1, 0, 0, 1, 0, 1], dtype=dtype)
    for kind in (link.LOGISTIC, link.HUBER):
        got = z.copy()
        link.residuals(kind, 0.5, got, y)
        np.testing.assert_allclose(got, [0, 0, 1, -1, 1, -1], rtol=0, atol=1e-30)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_score_that_is_no_number_stays_none(dtype):
    """A run that blew up must not come back as a clean zero."""
    for kind in (link.LOGISTIC, link.SQUARES):
        z = np.full(9, np.nan, dtype=dtype)
        link.residuals(kind, 0.5, z, np.ones(9, dtype=dtype))
        assert np.isnan(z).all()


def test_the_logistic_residual_is_the_exact_sigmoid_where_it_matters():
    """Against float64: probability minus label, to float32's own spacing near 1."""
    z = np.linspace(-20, 20, 100_001).astype(np.float32)
    exact = 1 / (1 + np.exp(-z.astype(np.float64)))
    got = z.copy()
    link.residuals(link.LOGISTIC, 0.5, got, np.zeros_like(z))
    # One rounding of exp (2e-7), one of 1 + e and one of the quotient (6e-8 each).
    np.testing.assert_allclose(got, exact, rtol=4e-7, atol=0)


def test_the_kinds_have_the_numbers_the_kernel_knows():
    assert LINEAR_KINDS[link.LOGISTIC] == "logistic"
    assert LINEAR_KINDS[link.HUBER] == "huber-svm"
    assert LINEAR_KINDS[link.SQUARES] == "least-squares"


@pytest.fixture(scope="module")
def exp32():
    import numba

    @numba.njit
    def every(x):
        for i in range(len(x)):
            x[i] = link._exp32(x[i])

    return every


def test_exp32_is_exp_to_three_parts_in_ten_million(exp32):
    x = np.linspace(-87, 88, 1_000_001).astype(np.float32)
    x = np.concatenate([x, np.float32([0, -87, 88, 1e-30, -1e-30, np.log(2), -np.log(2)])])
    got = x.copy()
    exp32(got)
    exact = np.exp(x.astype(np.float64))
    error = np.abs(got.astype(np.float64) - exact) / exact
    assert error.max() <= 3e-7
    assert got[x == 0].tolist() == [1.0] * (x == 0).sum()


def test_exp32_never_falls_by_more_than_its_error_and_stays_where_it_ends(exp32):
    x = np.float32([-np.inf, -1e30, -104, -87.5, -87, 88, 88.5, 100, 1e30, np.inf])
    exp32(x)
    np.testing.assert_array_equal(x[:5], x[4])
    np.testing.assert_array_equal(x[5:], x[5])
    assert x[4] == pytest.approx(np.exp(-87.0), rel=3e-7)
    assert x[5] == pytest.approx(np.exp(88.0), rel=3e-7)
    assert np.isfinite(x).all()
