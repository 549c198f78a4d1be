"""The Gaussian mechanism: golden vectors, mpmath where digits cancel, and the side it rounds to."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from sordino.accounting import gaussian
from sordino.errors import InvalidArgument, NotApplicable

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "accounting_1_2.json").read_text())[
    "1_gaussian"
]

mus = st.floats(-6, 2).map(lambda power: 10.0**power)
deltas = st.floats(-12, -0.05).map(lambda power: 10.0**power)
epsilons = st.floats(0, 30)


def cases(name):
    entry = GOLDEN[name]
    return [pytest.param(case, entry["tol"]["rel"], id=str(case)) for case in entry["cases"]]


def log_delta_by_mpmath(epsilon, mu):
    """The textbook formula with enough digits that the subtraction does not matter."""
    with mpmath.workdps(80):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        upper = mpmath.erfc((e / m - m / 2) / mpmath.sqrt(2)) / 2
        lower = mpmath.exp(e) * mpmath.erfc((e / m + m / 2) / mpmath.sqrt(2)) / 2
        return float(mpmath.log(upper - lower))


def classical(epsilon, delta):
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


@pytest.mark.parametrize(("case", "rel"), cases("delta_of_eps_mu"))
def test_delta_golden(case, rel):
    assert gaussian.delta(case["eps"], case["mu"]) == pytest.approx(case["delta"], rel=rel)


@pytest.mark.parametrize(("case", "rel"), cases("eps_of_mu_delta"))
def test_epsilon_golden(case, rel):
    got = gaussian.epsilon(case["mu"], case["delta"])
    assert got == pytest.approx(case["eps"], rel=rel, abs=0)


@pytest.mark.parametrize(("case", "rel"), cases("sigma_calibration_unit_sensitivity"))
def test_sigma_golden(case, rel):
    epsilon, delta = case["eps"], case["delta"]
    assert gaussian.sigma(epsilon, delta) == pytest.approx(case["sigma_analytic"], rel=rel)
    if epsilon < 1:
        got = gaussian.classical_sigma(epsilon, delta)
        assert got == pytest.approx(case["sigma_classical"], rel=rel)
    else:
        with pytest.raises(NotApplicable, match=r"epsilon < 1 only.*analytic"):
            gaussian.classical_sigma(epsilon, delta)
    actual = gaussian.delta(epsilon, 1 / case["sigma_classical"])
    assert actual == pytest.approx(case["delta_actual_at_classical"], rel=rel)


@pytest.mark.parametrize(("case", "rel"), cases("classical_first_violation"))
def test_the_classical_formula_is_false_from_the_golden_epsilon_on(case, rel):
    epsilon, delta = case["eps"], case["delta"]
    below, above = epsilon * (1 - rel), epsilon * (1 + rel)
    assert gaussian.delta(below, 1 / classical(below, delta)) < delta
    assert gaussian.delta(above, 1 / classical(above, delta)) > delta


@given(power=st.floats(-8, 3), u=st.floats(-40, 90))
def test_log_delta_agrees_with_mpmath(power, u):
    mu = 10.0**power
    epsilon = mu * (u + mu / 2)
    # 1e-9 for the last term of a series beyond u = 70, where delta is e^-2450; and the rounding
    # of epsilon/mu - mu/2, whose square is in the answer.
    rounding = 4e-16 * (1 + abs(u)) * (abs(u) + mu)
    expected = log_delta_by_mpmath(epsilon, mu)
    assert gaussian.log_delta(epsilon, mu) == pytest.approx(expected, rel=0, abs=1e-9 + rounding)


@pytest.mark.parametrize(
    ("epsilon", "mu"),
    [
        (0.0, 1e-8),  # both terms near 1/2, 8 digits in common
        (1e-4, 1e-4 * math.sqrt(2)),  # on either side of where the slope takes over
        (1e-4, 1.0001e-4 * math.sqrt(2)),
        (0.5, 0.01),  # u = 50: delta of 1e-547 is no float
        (700.0, 30.0),
        (5000.0, 60.0),  # e^epsilon is no float
        (-3e-4, 1e-4),
        (-40.0, 3.0),
    ],
)
def test_log_delta_where_the_textbook_formula_fails(epsilon, mu):
    expected = log_delta_by_mpmath(epsilon, mu)
    # Ten digits of ln delta: what the golden vectors ask of delta.
    assert gaussian.log_delta(epsilon, mu) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("epsilon", "mu", "expected"),
    [
        (1.0, 0.0, -math.inf),
        (0.0, 0.0, -math.inf),
        (-1.0, 0.0, math.log(1 - math.exp(-1))),
        (1.0, math.inf, 0.0),
        (math.inf, 1.0, -math.inf),
        (-math.inf, 1.0, 0.0),
        (1e200, 1e-5, -math.inf),
        (1e308, 1e-300, -math.inf),
        (1.0, 1e150, 0.0),
    ],
)
def test_log_delta_at_the_ends(epsilon, mu, expected):
    assert gaussian.log_delta(epsilon, mu) == expected


@given(mu=mus, epsilon=epsilons)
def test_negative_epsilon_follows_from_the_mirrored_one(mu, epsilon):
    mirrored = -math.expm1(-epsilon) + math.exp(-epsilon) * gaussian.delta(epsilon, mu)
    # Four terms of float64, each good to 1e-10.
    assert gaussian.delta(-epsilon, mu) == pytest.approx(mirrored, rel=1e-9)


@given(mu=mus, epsilon=epsilons)
def test_delta_rises_with_mu_and_falls_with_epsilon(mu, epsilon):
    here = gaussian.log_delta(epsilon, mu)
    assert gaussian.log_delta(epsilon, mu * 1.001) >= here
    assert gaussian.log_delta(epsilon + 0.001, mu) <= here


@given(mu=mus, delta=deltas)
def test_epsilon_is_the_least_that_holds(mu, delta):
    epsilon = gaussian.epsilon(mu, delta)
    assert gaussian.log_delta(epsilon, mu) <= math.log(delta)
    if epsilon > 0:
        # delta is good to 1e-10, and moves at least as fast as mu times epsilon's part of it.
        lower = epsilon - 1e-8 * (epsilon + mu)
        assert gaussian.log_delta(lower, mu) > math.log(delta)


@given(epsilon=epsilons, delta=deltas, sensitivity=st.floats(1e-3, 1e3))
def test_sigma_is_the_least_that_holds(epsilon, delta, sensitivity):
    sigma = gaussian.sigma(epsilon, delta, sensitivity)
    assert gaussian.log_delta(epsilon, sensitivity / sigma) <= math.log(delta)
    less = sigma * (1 - 1e-9)
    assert gaussian.log_delta(epsilon, sensitivity / less) > math.log(delta)


@given(epsilon=st.floats(1e-3, 0.999), delta=deltas)
def test_the_classical_formula_holds_where_it_is_a_theorem(epsilon, delta):
    assert gaussian.classical_sigma(epsilon, delta) >= gaussian.sigma(epsilon, delta)


@pytest.mark.parametrize("noise", [1e-9, 1e-10, 1e-12, 1e-100])
@pytest.mark.parametrize("delta", [1e-300, 1e-5, 0.5, 0.999999])
def test_epsilon_of_almost_no_noise_is_a_number(noise, delta):
    mu = 1 / noise
    # The second term is nothing here: delta = Phi(mu/2 - epsilon/mu).
    expected = mu * mu / 2 - mu * float(ndtri(delta))
    assert gaussian.epsilon(mu, delta) == pytest.approx(expected, rel=1e-12)


def test_epsilon_at_the_ends():
    assert gaussian.epsilon(0.0, 0.0) == 0.0
    assert gaussian.epsilon(0.0, 1e-5) == 0.0
    assert gaussian.epsilon(math.inf, 0.5) == math.inf
    assert gaussian.epsilon(1.0, 0.0) == math.inf


def test_sigma_at_the_ends():
    assert gaussian.sigma(math.inf, 1e-5) == 0.0
    assert gaussian.sigma(1.0, 1e-5, sensitivity=0.0) == 0.0
    # At epsilon = 0 delta is 2 Phi(mu/2) - 1.
    expected = 1 / (2 * float(ndtri(0.75)))
    assert gaussian.sigma(0.0, 0.5) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda: gaussian.epsilon(-1.0, 1e-5),
        lambda: gaussian.epsilon(math.nan, 1e-5),
        lambda: gaussian.epsilon(1.0, 1.0),
        lambda: gaussian.epsilon(1.0, -1e-5),
        lambda: gaussian.sigma(-1.0, 1e-5),
        lambda: gaussian.sigma(1.0, 0.0),
        lambda: gaussian.sigma(1.0, 1e-5, -1.0),
        lambda: gaussian.classical_sigma(0.0, 1e-5),
        lambda: gaussian.classical_sigma(0.5, 0.0),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(call):
    with pytest.raises(InvalidArgument, match=r"^Expected \w+="):
        call()


def test_least_returns_the_proved_side():
    root = gaussian.least(lambda x: x * x >= 2, 0.0, 2.0)
    assert root * root >= 2
    assert root == pytest.approx(math.sqrt(2), rel=1e-13)
    assert gaussian.least(lambda x: False, 0.0, 3.0) == 3.0
