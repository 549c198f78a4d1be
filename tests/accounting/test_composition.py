"""Naive and strong composition: golden vectors, brute force, and the side they round to."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from sordino.accounting import gaussian, naive_strong
from sordino.accounting.profile import ApproximateProfile
from sordino.errors import InvalidArgument, NotApplicable
from sordino.privacy import Relation

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "accounting_1_2.json").read_text())[
    "2_dpsgd"
]
ADD = Relation.ADD_OR_REMOVE_ONE
PAIRS = {
    "naive": (naive_strong.naive, naive_strong.naive.noise),
    "dwork": (naive_strong.strong_dwork, naive_strong.strong_dwork.noise),
    "kairouz": (naive_strong.strong_kairouz, naive_strong.strong_kairouz.noise),
    "optimal": (naive_strong.strong_optimal, naive_strong.strong_optimal.noise),
}
every_pair = pytest.mark.parametrize(("account", "noise"), PAIRS.values(), ids=PAIRS)
every_account = pytest.mark.parametrize("account", [pair[0] for pair in PAIRS.values()], ids=PAIRS)

noises = st.floats(-1, 2.5).map(lambda power: 10.0**power)
rates = st.floats(-4, 0).map(lambda power: 10.0**power)
counts = st.integers(1, 3000)
deltas = st.floats(-12, -0.5).map(lambda power: 10.0**power)
targets = st.floats(-2, 1.5).map(lambda power: 10.0**power)

# Two answers that each went through roots good to 1e-14 and a dozen operations.
ROUNDING = 1e-11


def cases(name):
    entry = GOLDEN[name]
    return [pytest.param(case, entry["tol"]["rel"], id=str(case)) for case in entry["cases"]]


def epsilon(account, noise, rate, steps, delta, sensitivity=1.0):
    profile = account(noise, rate, steps, delta, sensitivity=sensitivity, relation=ADD)
    assert profile.budget[1] == delta
    return profile.budget[0]


def brute_force_delta(epsilon, step, steps):
    """Hockey-stick divergence of `steps` randomised responses, term by term."""
    with mpmath.workdps(60):
        e, x = mpmath.mpf(step), mpmath.exp(mpmath.mpf(epsilon))
        terms = (
            mpmath.binomial(steps, flips)
            * max(mpmath.mpf(0), mpmath.exp((steps - flips) * e) - x * mpmath.exp(flips * e))
            for flips in range(steps + 1)
        )
        return float(sum(terms) / (1 + mpmath.exp(e)) ** steps)


@pytest.mark.parametrize(("case", "rel"), cases("amplification"))
def test_amplification_golden(case, rel):
    got = naive_strong.amplified(case["eps0"], case["q"])
    assert got == pytest.approx(case["eps_amplified"], rel=rel)
    assert got > case["linear_qeps"]


@given(epsilon=st.floats(0, 1e4), rate=st.floats(-300, 0).map(lambda power: 10.0**power))
def test_before_sampling_inverts_amplification(epsilon, rate):
    outer = naive_strong.amplified(epsilon, rate)
    assert rate * epsilon * (1 - ROUNDING) <= outer <= epsilon * (1 + ROUNDING)
    if outer > 1e-290:  # below, floats have few digits left
        assert naive_strong.before_sampling(outer, rate) == pytest.approx(epsilon, rel=ROUNDING)


@pytest.mark.parametrize("epsilon", [1e-12, 0.3, 5.0, 40.0, 800.0, 1e6])
@pytest.mark.parametrize("rate", [1e-200, 1e-9, 0.01, 0.7, 1.0])
def test_amplification_agrees_with_mpmath(epsilon, rate):
    with mpmath.workdps(400):
        inner = mpmath.expm1(mpmath.mpf(epsilon))
        forth = mpmath.log1p(mpmath.mpf(rate) * inner)
        back = mpmath.log1p(inner / mpmath.mpf(rate))
    assert naive_strong.amplified(epsilon, rate) == pytest.approx(float(forth), rel=ROUNDING)
    assert naive_strong.before_sampling(epsilon, rate) == pytest.approx(float(back), rel=ROUNDING)


def test_amplification_at_the_ends():
    assert naive_strong.amplified(5.0, 0.0) == 0.0
    assert naive_strong.amplified(0.0, 0.5) == 0.0
    assert naive_strong.amplified(math.inf, 0.5) == math.inf
    assert naive_strong.before_sampling(0.0, 0.5) == 0.0
    assert naive_strong.before_sampling(math.inf, 0.5) == math.inf


@pytest.mark.parametrize(("case", "rel"), cases("advanced_composition"))
def test_closed_forms_golden(case, rel):
    arguments = case["eps0"], case["T"], case["delta2"]
    assert naive_strong.dwork(*arguments) == pytest.approx(case["drv"], rel=rel)
    assert naive_strong.kairouz(*arguments) == pytest.approx(case["kov"], rel=rel)


@pytest.mark.parametrize(
    ("step", "steps", "slack", "which"),
    [(1.0, 3, 1e-6, "basic"), (0.1, 100, 1e-6, "plain"), (0.001, 100, 1e-3, "small")],
)
def test_each_form_of_kairouz_has_its_turn(step, steps, slack, which):
    drift = steps * step * (math.exp(step) - 1) / (math.exp(step) + 1)
    inside = math.log(math.e + math.sqrt(steps) * step / slack)
    forms = {
        "basic": steps * step,
        "plain": drift + step * math.sqrt(2 * steps * math.log(1 / slack)),
        "small": drift + step * math.sqrt(2 * steps * inside),
    }
    assert min(forms, key=lambda name: forms[name]) == which
    got = naive_strong.kairouz(step, steps, slack)
    assert got == pytest.approx(forms[which], rel=ROUNDING)


@pytest.mark.parametrize(("case", "rel"), cases("kov_optimal"))
def test_optimal_composition_golden(case, rel):
    epsilons, logs = naive_strong.kairouz_optimal(case["eps0"], case["k"])
    assert epsilons[case["i"]] == pytest.approx(case["eps"], rel=rel)
    assert math.exp(logs[case["i"]]) == pytest.approx(case["delta"], rel=rel)


@pytest.mark.parametrize("step", [1e-7, 0.1, 3.0])
@pytest.mark.parametrize("steps", [1, 2, 7, 40])
def test_optimal_composition_equals_brute_force(step, steps):
    epsilons, logs = naive_strong.kairouz_optimal(step, steps)
    assert len(epsilons) == steps // 2 + 1
    assert epsilons[0] == steps * step
    assert logs[0] == -math.inf
    # epsilon_i is a float: for a step of 1e-7 its rounding moves the difference of two terms.
    expected = [brute_force_delta(e, step, steps) for e in epsilons[1:]]
    assert np.exp(logs[1:]) == pytest.approx(expected, rel=1e-8)


@given(step=st.floats(0.01, 4), steps=st.integers(1, 25), delta=deltas)
@settings(max_examples=40)
def test_optimal_epsilon_is_exact_between_the_points(step, steps, delta):
    got = naive_strong.kairouz_optimal_epsilon(step, steps, delta)
    rounding = 1e-13 * (1 + steps * step)  # of an epsilon of this size, and the dozen operations
    assert brute_force_delta(got + rounding, step, steps) <= delta
    if got > 0:
        assert brute_force_delta(got - 1e-6, step, steps) > delta


def test_optimal_composition_of_many_steps():
    step, steps = 0.002, 200_000
    epsilons, logs = naive_strong.kairouz_optimal(step, steps)
    i = np.arange(99_000, 99_900, 100)
    flip = 1 / (1 + math.exp(step))
    # The same sum as a difference of two binomial cdfs, which cancels some digits.
    upper = binom.cdf(i - 1, steps, flip)
    expected = upper - np.exp(epsilons[i]) * binom.cdf(i - 1, steps, 1 - flip)
    assert np.exp(logs[i]) == pytest.approx(expected, rel=1e-7)
    assert epsilons[i] == pytest.approx((steps - 2 * i) * step)
    assert np.all(np.diff(logs) >= 0)


def test_optimal_composition_refuses_what_does_not_fit_in_memory():
    with pytest.raises(NotApplicable, match="strong_kairouz"):
        naive_strong.kairouz_optimal(0.1, 10**9)
    with pytest.raises(NotApplicable, match="strong_kairouz"):
        epsilon(naive_strong.strong_optimal, 1.0, 0.1, 10**9, 1e-5)


@given(step=st.floats(0, 6), steps=st.integers(0, 2000), delta=deltas)
def test_tighter_theorems_give_less(step, steps, delta):
    optimal = naive_strong.kairouz_optimal_epsilon(step, steps, delta)
    kairouz = naive_strong.kairouz(step, steps, delta)
    assert 0 <= optimal <= kairouz * (1 + ROUNDING)
    assert kairouz <= steps * step
    assert kairouz <= naive_strong.dwork(step, steps, delta) * (1 + ROUNDING)


@pytest.mark.parametrize("step", [300.0, 800.0, 1e5, 1e300, math.inf])
def test_huge_steps_stay_numbers(step):
    assert naive_strong.kairouz(step, 10, 1e-5) == 10 * step
    assert naive_strong.dwork(step, 10, 1e-5) >= 10 * step
    assert naive_strong.dwork(801.0, 10, 1e-5) == math.inf
    # All but one part in e^step of a response is the truth: nothing is saved on ten of them.
    expected = 10 * step + math.log1p(-1e-5) if math.isfinite(step) else math.inf
    assert naive_strong.kairouz_optimal_epsilon(step, 10, 1e-5) == pytest.approx(expected)


def test_no_slack_leaves_basic_composition():
    assert naive_strong.kairouz(0.1, 10, 0.0) == 10 * 0.1
    assert naive_strong.kairouz_optimal_epsilon(0.1, 10, 0.0) == 10 * 0.1
    assert naive_strong.dwork(0.1, 10, 0.0) == math.inf
    assert naive_strong.dwork(0.0, 10, 0.0) == 0.0


@pytest.mark.parametrize(("case", "rel"), cases("calibration_table"))
def test_calibration_golden(case, rel):
    target = case["eps"], case["delta"], case["q"], case["T"]
    for name, calibrate in {
        "naive_classical": naive_strong.naive_noise_classical,
        "naive_analytic": naive_strong.naive.noise,
        "drv": naive_strong.strong_dwork.noise,
        "kov": naive_strong.strong_kairouz.noise,
    }.items():
        assert calibrate(*target, sensitivity=1.0) == pytest.approx(case[name], rel=rel), name
    best = naive_strong.strong_optimal.noise(*target, sensitivity=1.0)
    assert case["rdp"] < best < case["kov"]
    base = naive_strong.before_sampling(case["eps"] / case["T"], case["q"])
    assert base == pytest.approx(case["naive_analytic_base_eps"], rel=rel)


@pytest.mark.parametrize(("case", "rel"), cases("notes_naive_formula_violations"))
def test_correct_naive_noise_golden(case, rel):
    got = naive_strong.naive.noise(
        case["eps"], case["delta"], case["q"], case["T"], sensitivity=1.0
    )
    assert got == pytest.approx(case["sigma_naive_correct"], rel=rel)


@pytest.mark.parametrize(("case", "rel"), cases("pld_eps"))
@every_account
def test_never_below_the_tight_accountant(account, case, rel):
    bound = epsilon(account, case["z"], case["q"], case["T"], case["delta"])
    assert bound >= case["eps_pld"] * (1 - rel)


@given(noise=noises, steps=counts, delta=deltas)
@every_account
def test_never_below_the_exact_composition_of_gaussians(account, noise, steps, delta):
    exact = gaussian.epsilon(math.sqrt(steps) / noise, delta)
    assert epsilon(account, noise, 1.0, steps, delta) >= exact * (1 - ROUNDING)


@given(noise=noises, rate=rates, delta=deltas)
def test_naive_is_exact_for_one_step(noise, rate, delta):
    got = epsilon(naive_strong.naive, noise, rate, 1, delta)
    # Remove direction of one Poisson step: q dG(ln(1 + (e^epsilon - 1)/q); 1/z).
    base = naive_strong.before_sampling(got, rate)
    exact = rate * gaussian.delta(base, 1 / noise)
    if got > 0 and delta < 0.99 * rate:
        assert exact == pytest.approx(delta, rel=1e-6)  # delta's digits, through a root in epsilon
    else:
        assert exact <= delta * (1 + 1e-6)


@given(target=targets, delta=deltas, rate=rates, steps=st.integers(1, 500), replace=st.booleans())
@settings(max_examples=30)
@every_pair
def test_calibrated_noise_meets_its_target(account, noise, target, delta, rate, steps, replace):
    size = 2.0 if replace else 1.0
    value = noise(target, delta, rate, steps, sensitivity=size)
    got = epsilon(account, value, rate, steps, delta, size)
    assert got <= target
    assert got == pytest.approx(target, rel=1e-4)


@given(noise=noises, rate=rates, steps=counts, delta=deltas)
@every_account
def test_more_noise_fewer_steps_rarer_sampling_cost_less(account, noise, rate, steps, delta):
    here = epsilon(account, noise, rate, steps, delta) * (1 + ROUNDING)
    assert epsilon(account, noise * 1.01, rate, steps, delta) <= here
    assert epsilon(account, noise, rate * 0.99, steps, delta) <= here
    assert epsilon(account, noise, rate, steps - 1, delta) <= here
    assert epsilon(account, noise, rate, steps, min(delta * 1.1, 0.5)) <= here


@every_pair
def test_replacing_a_record_doubles_the_noise(account, noise):
    single = noise(1.0, 1e-5, 0.01, 300, sensitivity=1.0)
    double = noise(1.0, 1e-5, 0.01, 300, sensitivity=2.0)
    assert double == pytest.approx(2 * single, rel=ROUNDING)
    assert epsilon(account, single, 0.01, 300, 1e-5, 2.0) > 1.5


@every_account
def test_the_profile_says_what_it_is(account):
    relation = Relation.REPLACE_ONE
    profile = account(4.0, 0.01, 100, 1e-5, sensitivity=2.0, relation=relation)
    assert isinstance(profile, ApproximateProfile)
    assert profile.relation is relation
    assert "composition" in profile.theorem
    assert "Balle, Barthe & Gaboardi" in profile.theorem


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta", "expected"),
    [
        (0.0, 0.1, 10, 1e-5, math.inf),
        (0.0, 1e-9, 1, 1e-5, math.inf),  # sampled less often than delta, and still no privacy
        (1.0, 0.1, 10, 0.0, math.inf),
        (0.0, 0.0, 10, 1e-5, 0.0),
        (0.0, 0.1, 0, 1e-5, 0.0),
        (1.0, 0.0, 10, 0.0, 0.0),
        (math.inf, 0.1, 10, 1e-5, 0.0),
        (math.inf, 0.1, 10, 0.0, 0.0),
        (1.0, 1e-9, 1, 1e-5, 0.0),
    ],
)
@every_account
def test_accounting_at_the_ends(account, noise, rate, steps, delta, expected):
    assert epsilon(account, noise, rate, steps, delta) == expected


@pytest.mark.parametrize("noise", [1e-300, 1e-100, 1e-9, 1e-3, 0.03])
@pytest.mark.parametrize("rate", [1e-200, 1e-6, 0.01, 1.0])
def test_base_epsilons_of_hundreds_and_more_stay_numbers(noise, rate):
    steps, delta = 50, 1e-8
    base = gaussian.epsilon(1 / noise, min(delta / steps / rate, 0.999999))
    with mpmath.workdps(700):
        if base < 1000:
            expected = float(steps * mpmath.log1p(rate * mpmath.expm1(base)))
        else:  # the 1 is lost in it
            expected = float(steps * (mpmath.log(rate) + mpmath.mpf(base)))
    naive, dwork, kairouz, optimal = (
        epsilon(account, noise, rate, steps, delta) for account, _ in PAIRS.values()
    )
    assert naive == pytest.approx(expected, rel=ROUNDING)
    # Half of delta on composing makes a step's epsilon a little larger, never infinitely so.
    assert 0 <= optimal <= kairouz * (1 + ROUNDING) <= dwork * (1 + ROUNDING)
    assert kairouz == pytest.approx(naive, rel=0.5) or kairouz < naive


@pytest.mark.parametrize("noise", [pair[1] for pair in PAIRS.values()], ids=PAIRS)
def test_calibration_at_the_ends(noise):
    assert noise(math.inf, 1e-5, 0.1, 10, sensitivity=1.0) == 0.0
    assert noise(1.0, 1e-5, 0.0, 10, sensitivity=1.0) == 0.0
    assert noise(1.0, 1e-5, 0.1, 0, sensitivity=1.0) == 0.0
    # A record sampled less often than delta is no licence to add no noise.
    assert noise(1.0, 1e-5, 1e-9, 1, sensitivity=1.0) > 0.01
    assert noise(0.0, 1e-5, 0.1, 10, sensitivity=1.0) > noise(0.1, 1e-5, 0.1, 10, sensitivity=1.0)


def test_the_classical_formula_is_refused_where_it_is_no_theorem():
    with pytest.raises(NotApplicable, match="analytic"):
        naive_strong.naive_noise_classical(1.0, 1e-5, 0.01, 10, sensitivity=1.0)
    assert naive_strong.naive_noise_classical(math.inf, 1e-5, 0.01, 10, sensitivity=1.0) == 0.0


@given(target=st.floats(0.01, 5), delta=deltas, rate=rates, steps=st.integers(1, 3000))
def test_the_classical_formula_is_never_below_the_analytic_one(target, delta, rate, steps):
    try:
        value = naive_strong.naive_noise_classical(target, delta, rate, steps, sensitivity=1.0)
    except NotApplicable:
        assert naive_strong.before_sampling(target / steps, rate) >= 1
    else:
        assert naive_strong.before_sampling(target / steps, rate) < 1
        assert epsilon(naive_strong.naive, value, rate, steps, delta) <= target


def test_strong_over_naive_falls_like_the_root_of_steps():
    ratio = naive_strong.strong_over_naive(1.0, 1e-5, 0.01, [1, 10, 10**6, 10**8])
    assert ratio[0] > 1  # half of delta is spent on composing
    assert ratio[1] > 1
    # Two decades of steps: 10, up to the logarithms of T/delta and qT/delta.
    assert ratio[2] / ratio[3] == pytest.approx(10, rel=0.1)
    case = GOLDEN["calibration_table"]["cases"][0]
    golden = case["kov"] / case["naive_analytic"]
    got = naive_strong.strong_over_naive(case["eps"], case["delta"], case["q"], [case["T"]])
    assert got[0] == pytest.approx(golden, rel=2 * GOLDEN["calibration_table"]["tol"]["rel"])


@pytest.mark.parametrize(
    "bad",
    [
        {"noise_multiplier": -1.0},
        {"noise_multiplier": math.nan},
        {"noise_multiplier": "1"},
        {"sample_rate": 1.5},
        {"sample_rate": -0.1},
        {"sample_rate": math.nan},
        {"steps": -1},
        {"steps": 2.5},
        {"steps": 10.0},
        {"steps": True},
        {"steps": 10**400},
        {"delta": 1.0},
        {"delta": -1e-5},
        {"delta": math.nan},
        {"sensitivity": 0.0},
        {"sensitivity": math.inf},
        {"relation": "add"},
    ],
    ids=str,
)
@every_account
def test_bad_settings_are_refused_in_one_sentence(account, bad):
    good = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 10, "delta": 1e-5}
    good |= {"sensitivity": 1.0, "relation": ADD}
    with pytest.raises(InvalidArgument, match=f"^Expected {next(iter(bad))}="):
        account(**(good | bad))


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"delta": 0.0},
        {"delta": 1.0},
        {"sample_rate": 2.0},
        {"steps": 1.5},
        {"steps": -3},
        {"sensitivity": -1.0},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "noise", [*(pair[1] for pair in PAIRS.values()), naive_strong.naive_noise_classical]
)
def test_bad_targets_are_refused_in_one_sentence(noise, bad):
    good = {"epsilon": 0.1, "delta": 1e-5, "sample_rate": 0.5, "steps": 10, "sensitivity": 1.0}
    with pytest.raises(InvalidArgument, match=f"^Expected {next(iter(bad))}="):
        noise(**(good | bad))
