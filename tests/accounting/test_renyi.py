"""From Renyi-DP to (epsilon, delta): golden vectors, and never below the exact Gaussian."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from sordino.accounting import gaussian, renyi

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "accounting_1_2.json").read_text())[
    "1_gaussian"
]
CONVERSIONS = (renyi.mironov, renyi.canonne, renyi.asoodeh)

mus = st.floats(-3, 1.3).map(lambda power: 10.0**power)
deltas = st.floats(-12, -0.05).map(lambda power: 10.0**power)


def cases(name):
    entry = GOLDEN[name]
    return [pytest.param(case, entry["tol"]["rel"], id=str(case)) for case in entry["cases"]]


def array(*values):
    return np.array(values, dtype=np.float64)


def gaussian_curve(mu):
    return renyi.ORDERS * mu**2 / 2


@pytest.mark.parametrize(("case", "rel"), cases("rdp_to_dp_fixed_alpha"))
def test_each_conversion_golden(case, rel):
    order, rho, delta = array(case["alpha"]), array(case["rho"]), case["delta"]
    names = ("eps_mironov", "eps_cks", "eps_asoodeh2")
    got = [float(convert(order, rho, delta)[0]) for convert in CONVERSIONS]
    assert got == pytest.approx([case[name] for name in names], rel=rel)
    # The golden optimum over binary pairs is a lower estimate of what is true.
    assert min(got) >= case["eps_exact_numeric"]
    assert renyi.epsilon(order, rho, delta) == pytest.approx(min(got), rel=rel)


@pytest.mark.parametrize(("case", "rel"), cases("gaussian_rdp_to_dp"))
def test_gaussian_at_its_best_order_golden(case, rel):
    mu, delta = case["mu"], case["delta"]

    def best(convert):
        found = minimize_scalar(
            lambda order: float(convert(array(order), array(order * mu**2 / 2), delta)[0]),
            bounds=(1.01, 200.0),
            method="bounded",
            options={"xatol": 1e-6},
        )
        return found.x, found.fun

    assert best(renyi.mironov)[1] == pytest.approx(case["eps_mironov_opt"], rel=rel)
    order, epsilon = best(renyi.canonne)
    assert epsilon == pytest.approx(case["eps_cks_opt"], rel=rel)
    # Epsilon is flat at its best order, so the order has half of the digits.
    assert order == pytest.approx(case["alpha_cks"], rel=math.sqrt(rel))
    # The grid of orders misses the best one by half a step: an error of second order.
    on_grid = renyi.epsilon(renyi.ORDERS, gaussian_curve(mu), delta)
    assert case["eps_exact"] <= on_grid <= case["eps_cks_opt"] * (1 + 1e-4)


@given(mu=mus, delta=deltas)
def test_no_conversion_at_any_order_is_below_the_exact_gaussian(mu, delta):
    exact = gaussian.epsilon(mu, delta)
    assert renyi.epsilon(renyi.ORDERS, gaussian_curve(mu), delta) >= exact * (1 - 1e-12)
    for convert in CONVERSIONS:
        every = np.maximum(convert(renyi.ORDERS, gaussian_curve(mu), delta), 0.0)
        assert every.min() >= exact * (1 - 1e-12), convert


@given(mu=mus, epsilon=st.floats(-5, 50))
def test_log_delta_is_never_below_the_exact_gaussian(mu, epsilon):
    exact = gaussian.log_delta(epsilon, mu)
    bound = renyi.log_delta(renyi.ORDERS, gaussian_curve(mu), epsilon)
    assert bound <= 0
    # The exact ln delta is good to 1e-9 (see its own test).
    slack = 1e-9 * (1 + abs(exact)) if math.isfinite(exact) else 0.0
    assert bound >= exact - slack


@given(order=st.floats(1.001, 1e4), rho=st.floats(1e-9, 50), delta=deltas)
def test_log_delta_inverts_epsilon(order, rho, delta):
    epsilon = renyi.epsilon(array(order), array(rho), delta)
    back = renyi.log_delta(array(order), array(rho), epsilon)
    if epsilon > 1e-6:
        # ln delta moves order - 1 times as fast as epsilon.
        slack = 1e-9 + 1e-14 * (order - 1) * (epsilon + rho)
        assert back == pytest.approx(math.log(delta), rel=1e-9, abs=slack)
    elif epsilon == 0:
        assert back <= math.log(delta) + 1e-9


def test_the_second_form_of_asoodeh_wins_where_rho_is_small():
    orders, rho = array(2.0), array(0.1)
    assert renyi.asoodeh(orders, rho, 1e-3)[0] < renyi.canonne(orders, rho, 1e-3)[0] - 1.6
    assert renyi.epsilon(orders, rho, 1e-3) == renyi.asoodeh(orders, rho, 1e-3)[0]
    best = renyi.log_delta(orders, rho, 3.981277744664123)
    assert best == pytest.approx(math.log(1e-3), rel=1e-10)


def test_infinite_orders_are_left_out():
    orders, rho = array(2.0, 3.0, 4.0), array(0.5, 0.7, math.inf)
    assert renyi.epsilon(orders, rho, 1e-5) == renyi.epsilon(orders[:2], rho[:2], 1e-5)
    assert renyi.log_delta(orders, rho, 1.0) == renyi.log_delta(orders[:2], rho[:2], 1.0)


def test_nothing_known_is_no_privacy():
    orders, rho = array(2.0, 3.0), array(math.inf, math.inf)
    assert renyi.epsilon(orders, rho, 1e-5) == math.inf
    assert renyi.log_delta(orders, rho, 1.0) == 0.0


def test_no_loss_is_epsilon_zero():
    assert renyi.epsilon(renyi.ORDERS, 0 * renyi.ORDERS, 1e-9) == 0.0
    assert renyi.epsilon(renyi.ORDERS, 0 * renyi.ORDERS, 0.0) == 0.0
    assert renyi.log_delta(renyi.ORDERS, 0 * renyi.ORDERS, 0.1) == -math.inf


def test_delta_zero_promises_nothing():
    assert renyi.epsilon(renyi.ORDERS, gaussian_curve(0.1), 0.0) == math.inf


@pytest.mark.parametrize("mu", [100.0, 1e6, 1e100])
def test_losses_past_the_largest_float_stay_bounds(mu):
    epsilon = renyi.epsilon(renyi.ORDERS, gaussian_curve(mu), 1e-5)
    # The least order is 1.0001, so the best is within that and ln(1/delta)/0.0001 of mu^2/2.
    assert gaussian.epsilon(mu, 1e-5) <= epsilon <= 1.0001 * mu**2 / 2 + 1e4 * math.log(1e5)
    assert renyi.log_delta(renyi.ORDERS, gaussian_curve(mu), 1.0) == 0.0
