"""The moments accountant: golden vectors, quadrature, the binomial sum, the signed series."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.accounting import renyi
from sordino.accounting.pld.loss import (
    DIRECTIONS,
    ApproximateLoss,
    FixedSizeLoss,
    GaussianLoss,
    PoissonLoss,
    PoissonReplaceLoss,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "accounting_1_2.json").read_text())[
    "2_dpsgd"
]["rdp_sgm"]

# Sixteen-point Gauss-Legendre panels of one deviation, cut off at 13 of them.
QUADRATURE = 1e-11


def divergence(law, order, direction="forward"):
    return float(law.log_moments(np.array([order - 1.0]), direction)[0]) / (order - 1)


def binomial_sum(q, z, order):
    """Mironov, Talwar & Zhang 2019 at a whole order: every term is positive."""
    with mpmath.workdps(60):
        terms = (
            mpmath.binomial(order, k)
            * (1 - mpmath.mpf(q)) ** (order - k)
            * mpmath.mpf(q) ** k
            * mpmath.exp((k * k - k) / (2 * mpmath.mpf(z) ** 2))
            for k in range(order + 1)
        )
        return float(mpmath.log(sum(terms)) / (order - 1))


def signed_series(q, z, order, terms=400):
    """The same at a fractional order, with signed binomials (docs/math.md 2.5)."""
    with mpmath.workdps(60):
        q, z, order = mpmath.mpf(q), mpmath.mpf(z), mpmath.mpf(order)
        middle = z**2 * mpmath.log(1 / q - 1) + mpmath.mpf(1) / 2
        total = mpmath.mpf(0)
        for i in range(terms):
            j = order - i
            left = mpmath.erfc((i - middle) / (z * mpmath.sqrt(2))) / 2
            right = mpmath.erfc((middle - j) / (z * mpmath.sqrt(2))) / 2
            left *= q**i * (1 - q) ** j * mpmath.exp((i * i - i) / (2 * z**2))
            right *= q**j * (1 - q) ** i * mpmath.exp((j * j - j) / (2 * z**2))
            total += mpmath.binomial(order, i) * (left + right)
        return float(mpmath.log(total) / (order - 1))


def by_mpmath(order, drawn, other, noise):
    """Renyi divergence of two mixtures of Gaussians, from its definition."""
    with mpmath.workdps(25):

        def density(x, world):
            return sum(
                mpmath.mpf(weight) * mpmath.npdf(x, mean, noise) for mean, weight in world if weight
            )

        def integrand(x):
            return density(x, drawn) ** order * density(x, other) ** (1 - order)

        reach = order * 2 + 13 * noise
        points = mpmath.linspace(-reach, reach, 17)
        moment = mpmath.quad(integrand, points, method="gauss-legendre", maxdegree=4)
        return float(mpmath.log(moment) / (order - 1))


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=str)
def test_golden(case):
    got = divergence(PoissonLoss(case["q"], case["z"]), case["alpha"])
    assert got == pytest.approx(case["rdp"], rel=GOLDEN["tol"]["rel"])
    if case["alpha"] != int(case["alpha"]):  # dp-accounting drops the signs: an upper bound
        assert got < case["rdp_dp_accounting"]


@pytest.mark.parametrize("order", [2, 3, 7, 32, 200])
@pytest.mark.parametrize(("q", "z"), [(0.01, 1.0), (0.3, 0.7), (1e-5, 2.0), (0.9, 30.0)])
def test_whole_orders_are_the_binomial_sum(q, z, order):
    got = divergence(PoissonLoss(q, z), order)
    assert got == pytest.approx(binomial_sum(q, z, order), rel=QUADRATURE)


@pytest.mark.parametrize("order", [1.1, 1.5, 2.5, 10.9])
@pytest.mark.parametrize(("q", "z"), [(0.01, 1.0), (0.1, 2.0), (0.02, 1.5)])
def test_fractional_orders_are_the_signed_series(q, z, order):
    got = divergence(PoissonLoss(q, z), order)
    # The alternating series has converged to 12 digits after 400 terms (docs/math.md 2.5).
    assert got == pytest.approx(signed_series(q, z, order), rel=1e-9)


@pytest.mark.parametrize(("q", "z", "order"), [(0.2, 0.9, 1.01), (0.01, 3.0, 4.7)])
def test_both_directions_are_the_definition(q, z, order):
    up, zero, down = [(0, 1 - q), (1, q)], [(0, 1)], [(0, 1 - q), (-1, q)]
    expected = {
        (PoissonLoss, "forward"): (up, zero),
        (PoissonLoss, "backward"): (zero, up),
        (PoissonReplaceLoss, "forward"): (up, down),
        (PoissonReplaceLoss, "backward"): (down, up),
    }
    for (kind, direction), worlds in expected.items():
        got = divergence(kind(q, z), order, direction)
        assert got == pytest.approx(by_mpmath(order, *worlds, z), rel=QUADRATURE)


@pytest.mark.parametrize("order", [1.3, 2.0, 6.5])
@pytest.mark.parametrize(("q", "z"), [(0.2, 0.9), (0.01, 3.0), (0.7, 8.0)])
def test_fixed_size_moments_are_those_of_its_masses(q, z, order):
    law = FixedSizeLoss(q, z)
    low, high = law.reach(-700.0, "forward")
    edges = np.linspace(low, high, 400_001)
    drawn, other = law.masses(edges, "forward")
    # p^order q^(1-order) of buckets is a lower sum, off by the square of the bucket's width.
    solid = (drawn > 1e-300) & (other > 1e-300)
    moment = np.exp(order * np.log(drawn[solid]) + (1 - order) * np.log(other[solid])).sum()
    assert divergence(law, order) == pytest.approx(math.log(moment) / (order - 1), rel=1e-5)


@given(
    rate=st.floats(-8, -1e-3).map(lambda power: 10.0**power),
    noise=st.floats(-0.5, 3).map(lambda power: 10.0**power),
)
@settings(max_examples=12, deadline=None)
def test_divergences_grow_with_their_order_and_stay_below_the_whole_batch_s(rate, noise):
    for law in (PoissonLoss(rate, noise), PoissonReplaceLoss(rate, noise)):
        whole = (1 if isinstance(law, PoissonLoss) else 2) / noise
        for direction in DIRECTIONS:
            moments = law.log_moments(renyi.ORDERS - 1, direction)
            values = moments / (renyi.ORDERS - 1)
            known = np.isfinite(values)
            assert known[:50].all()
            assert not np.isnan(values).any()
            assert (np.diff(values[known]) >= -QUADRATURE * values[known][1:]).all()
            limit = renyi.ORDERS * whole**2 / 2 * (1 + QUADRATURE)
            assert (values[known] <= limit[known]).all()


def test_tiny_divergences_keep_their_digits():
    # About q^2 (e^{1/z^2} - 1) alpha / 2 = 5e-25: far below the rounding of 1 + it.
    q, z = 1e-8, 1e4
    small = q * q * math.expm1(1 / z**2)
    assert divergence(PoissonLoss(q, z), 2.0) == pytest.approx(small, rel=1e-9)


def test_gaussian_and_randomised_response():
    assert divergence(GaussianLoss((0.7,)), 3.5) == pytest.approx(3.5 * 0.49 / 2, rel=1e-14)
    mixed = GaussianLoss((0.5, 1.5), (0.25, 0.75))
    moments = 0.25 * math.exp(3 * 0.25 / 2 * 2) + 0.75 * math.exp(3 * 2.25 / 2 * 2)
    assert divergence(mixed, 3.0) == pytest.approx(math.log(moments) / 2, rel=1e-14)
    e = 0.8
    p = 1 / (1 + math.exp(-e))
    expected = math.log(p**3 * (1 - p) ** -2 + (1 - p) ** 3 * p**-2) / 2
    assert divergence(ApproximateLoss(e, 0.0), 3.0) == pytest.approx(expected, rel=1e-13)
    assert divergence(ApproximateLoss(e, 1e-9), 3.0) == math.inf
