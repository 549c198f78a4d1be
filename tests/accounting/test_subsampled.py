"""Noisy steps over random batches: golden epsilons, edges, refusals, and which way numbers move."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.accounting import gaussian
from sordino.accounting.dp_sgd import NoisySteps, pld, rdp
from sordino.accounting.profile import GaussianProfile, LossProfile
from sordino.errors import InvalidArgument, NotApplicable
from sordino.privacy import PASSES, Relation, Sampling

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "accounting_1_2.json").read_text())[
    "2_dpsgd"
]
ADD, REPLACE, ZERO = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE, Relation.ZERO_OUT
POISSON = {"sampling": "poisson", "relation": ADD}
FIXED = {"sampling": "fixed-size", "relation": REPLACE}
SWAPPED = {"sampling": "poisson", "relation": REPLACE}
HOWS = {"poisson": POISSON, "fixed-size": FIXED, "poisson replace": SWAPPED}
every_how = pytest.mark.parametrize("how", HOWS.values(), ids=HOWS)
every_method = pytest.mark.parametrize("method", [pld, rdp])

# Two neighbouring settings are computed on two grids, each up to this much above the truth (the
# coarsest precision of the convolution): that much, and no more, may point the wrong way.
GRID = 2e-3


def cases(name):
    return [pytest.param(case, id=str(case)) for case in GOLDEN[name]["cases"]]


@pytest.mark.parametrize("case", cases("pld_eps"))
def test_pld_golden(case):
    profile = pld(case["z"], case["q"], case["T"], **POISSON)
    got = profile.epsilon(case["delta"])
    assert got == pytest.approx(case["eps_pld"], rel=GOLDEN["pld_eps"]["tol"]["rel"])
    for side, direction in (("rem", "forward"), ("add", "backward")):
        if case["own_bracket"] is not None:
            low, high = case["own_bracket"][side]
            assert low <= profile.epsilon(case["delta"], direction) <= high


@pytest.mark.parametrize("case", cases("pld_eps"))
def test_rdp_golden(case):
    got = rdp(case["z"], case["q"], case["T"], **POISSON).epsilon(case["delta"])
    # The golden number is by one conversion over a coarser list of orders.
    assert case["eps_pld"] < got <= case["eps_rdp_cks"] * (1 + 1e-9)
    assert got == pytest.approx(case["eps_rdp_cks"], rel=2e-3)
    assert got < case["eps_rdp_mironov"]


@pytest.mark.parametrize("case", cases("notes_naive_formula_violations"))
def test_the_notes_formula_violates_its_promise(case):
    profile = pld(case["sigma_notes"], case["q"], case["T"], **POISSON)
    got = profile.delta(case["eps"])
    if case["T"] < 50:
        rel = GOLDEN["notes_naive_formula_violations"]["tol"]["rel"]
        assert got == pytest.approx(case["delta_actual"], rel=rel)
        assert got > 100 * case["delta"]
    else:  # 1e-15 is where the golden number's own method ends
        assert got <= 1e-15


@pytest.mark.parametrize("case", cases("replace_single_step"))
def test_replace_golden(case):
    rel = GOLDEN["replace_single_step"]["tol"]["rel"]
    got = pld(case["z"], case["q"], 1, **SWAPPED).delta(case["eps"])
    assert got == pytest.approx(case["delta_poisson_replace"], rel=rel)
    got = pld(case["z"], case["q"], 1, **FIXED).delta(case["eps"])
    assert got == pytest.approx(case["delta_wor_replace_bound"], rel=rel)


@pytest.mark.parametrize("case", cases("wor_replace_composition"))
def test_fixed_size_golden(case):
    arguments = case["z"], case["q"], case["T"]
    low, high = case["eps_wor_replace"]
    assert low <= pld(*arguments, **FIXED).epsilon(case["delta"]) <= high
    low, high = case["eps_poisson_addremove_same_z"]
    assert low <= pld(*arguments, **POISSON).epsilon(case["delta"]) <= high
    # Half the noise under Poisson sampling is not enough: the symmetrised pair leaks more.
    halved = pld(case["z"] / 2, *arguments[1:], **POISSON).epsilon(case["delta"])
    assert halved <= case["eps_poisson_rem_z_half_upper"] < case["eps_wor_replace"][0]


@every_how
@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta"),
    [
        (0.01, 1.0, 0, 1e-5),
        (0.0, 1.0, 100, 1e-5),
        (0.01, math.inf, 100, 1e-5),
        (0.01, 1e4, 100, 1e-5),
        pytest.param(1e-8, 1.0, 10**7, 1e-5, marks=pytest.mark.slow),
        (0.01, 20.0, 10**7, 1e-5),
        (0.01, 0.001, 10**7, 1e-5),
        (0.01, 1.0, 1000, 1e-300),
        (0.01, 1.0, 1000, 0.0),
        (0.01, 1.0, 1000, 1 - 1e-12),
        (1 - 1e-9, 1.0, 100, 1e-5),
        (1e-6, 0.5, 2, 1e-9),
        (1e-4, 0.0326, 5, 1e-90),
        (0.5, 1e-200, 3, 1e-5),
        (1e-300, 1.0, 3, 1e-5),
    ],
)
def test_edges_are_numbers_soon(how, rate, noise, steps, delta):
    before = time.process_time()
    profile = pld(noise, rate, steps, **how)
    moments = rdp(noise, rate, steps, **how)
    proved = profile.epsilon(delta)
    other = moments.epsilon(delta)
    deltas = [profile.delta(e) for e in (0.0, 1.0, 1e3, 1e300, math.inf)]
    assert time.process_time() - before < 10  # of the processor: it does not hang
    for value in (proved, other, *deltas):
        assert not math.isnan(value)
        assert value >= 0
    assert all(value <= 1 for value in deltas)
    assert proved <= other * (1 + GRID) + 1e-9
    if steps == 0 or rate == 0 or math.isinf(noise):
        assert proved == other == deltas[0] == 0
    elif delta == 0:
        assert proved == math.inf
    assert deltas[-1] in (0, 1)


@every_how
@every_method
def test_no_noise_is_no_privacy(how, method):
    profile = method(0.0, 0.01, 10, **how)
    assert profile.epsilon(1e-5) == math.inf
    assert profile.delta(50.0) == 1


@pytest.mark.parametrize("sampling", list(Sampling))
@pytest.mark.parametrize("noise", [0.7, 5.0])
def test_every_record_in_every_batch_is_exact(sampling, noise):
    steps, delta = 25, 1e-6
    exact = gaussian.epsilon(2 * math.sqrt(steps) / noise, delta)
    profile = pld(noise, 1.0, steps, sampling=sampling, relation=REPLACE)
    assert profile.epsilon(delta) == pytest.approx(exact, rel=1e-12)
    assert rdp(noise, 1.0, steps, sampling=sampling, relation=REPLACE).epsilon(delta) > exact


@every_how
@every_method
@given(
    rate=st.floats(-4, -0.1).map(lambda power: 10.0**power),
    noise=st.floats(-0.2, 1.3).map(lambda power: 10.0**power),
    steps=st.integers(1, 3000),
    delta=st.floats(-9, -2).map(lambda power: 10.0**power),
)
@settings(max_examples=4, deadline=None)
def test_more_noise_fewer_steps_and_smaller_batches_leak_less(
    how, method, rate, noise, steps, delta
):
    here = method(noise, rate, steps, **how).epsilon(delta)
    slack = GRID * max(here, 1e-2)  # 1e-2: the least epsilon that grids are made for
    assert method(noise * 1.1, rate, steps, **how).epsilon(delta) <= here + slack
    assert method(noise, rate * 0.9, steps, **how).epsilon(delta) <= here + slack
    assert method(noise, rate, (steps + 1) // 2, **how).epsilon(delta) <= here + slack
    assert method(noise, rate, steps, **how).epsilon(delta * 1.3) <= here + slack
    if method is rdp:
        assert pld(noise, rate, steps, **how).epsilon(delta) <= here + slack


def test_clearly_more_noise_leaks_clearly_less():
    # The slack above would forgive a program whose numbers never move.
    base = pld(1.0, 0.01, 1000, **POISSON).epsilon(1e-5)
    assert pld(1.1, 0.01, 1000, **POISSON).epsilon(1e-5) < 0.95 * base
    assert pld(1.0, 0.009, 1000, **POISSON).epsilon(1e-5) < 0.95 * base
    assert pld(1.0, 0.01, 800, **POISSON).epsilon(1e-5) < 0.95 * base


@pytest.mark.parametrize("sampling", PASSES)
def test_passes_have_no_amplification(sampling):
    how = {"sampling": sampling, "relation": ZERO}
    profile = pld(1.5, 0.1, 30, **how)  # three passes
    assert isinstance(profile, GaussianProfile)
    assert profile.mu == pytest.approx(math.sqrt(3) / 1.5, rel=1e-14)
    assert rdp(1.5, 0.1, 30, **how).epsilon(1e-5) > profile.epsilon(1e-5)


def test_a_started_pass_counts_in_full_only_where_the_order_is_known():
    at = (1.5, 0.1, 33)
    exact = [gaussian.epsilon(math.sqrt(visits) / 1.5, 1e-5) for visits in (3, 4)]
    cyclic = pld(*at, sampling="cyclic", relation=ZERO).epsilon(1e-5)
    assert cyclic == pytest.approx(exact[1], rel=1e-9)
    for sampling in ("permute-once", "shuffle"):
        profile = pld(*at, sampling=sampling, relation=ZERO)
        assert isinstance(profile, LossProfile)
        assert exact[0] < profile.epsilon(1e-5) < exact[1]
        mixed = 0.7 * gaussian.delta(1.0, math.sqrt(3) / 1.5)
        mixed += 0.3 * gaussian.delta(1.0, 2 / 1.5)
        assert profile.delta(1.0) == pytest.approx(mixed, rel=1e-12)
        curve = rdp(*at, sampling=sampling, relation=ZERO)
        assert profile.epsilon(1e-5) < curve.epsilon(1e-5)


@pytest.mark.parametrize(
    ("rate", "steps", "per_epoch", "visits"),
    [
        (0.1, 30, None, ((3, 1.0),)),
        (0.3, 7, None, ((2, 0.7), (3, 0.3))),  # three batches a pass
        (1 / 3, 9, None, ((3, 1.0),)),
        (0.1, 23, 11, ((2, 0.9), (3, 0.1))),
        (0.4, 5, 3, ((1, 0.2), (2, 0.8))),
        (0.1, 0, None, ((0, 1.0),)),
    ],
)
def test_visits(rate, steps, per_epoch, visits):
    run = NoisySteps(1.0, rate, steps, "shuffle", ZERO, per_epoch)
    got = run.visits
    assert [count for count, _ in got] == [count for count, _ in visits]
    assert [share for _, share in got] == pytest.approx([share for _, share in visits], rel=1e-12)
    assert math.fsum(share for _, share in got) == pytest.approx(1, rel=1e-15)


def test_replacing_costs_more_than_removing():
    removed = pld(1.0, 0.05, 200, **POISSON)
    zeroed = pld(1.0, 0.05, 200, sampling="poisson", relation=ZERO)
    replaced = pld(1.0, 0.05, 200, **SWAPPED)
    fixed = pld(1.0, 0.05, 200, **FIXED)
    epsilons = [profile.epsilon(1e-5) for profile in (removed, zeroed, replaced, fixed)]
    assert epsilons[0] == epsilons[1] < epsilons[2] < epsilons[3]
    assert NoisySteps(1.0, 0.1, 1, "poisson", REPLACE).sensitivity == 2
    assert NoisySteps(1.0, 0.1, 1, "poisson", ADD).sensitivity == 1


@every_method
@pytest.mark.parametrize("sampling", ["fixed-size", *PASSES])
def test_add_or_remove_has_no_theorem_where_the_size_is_public(method, sampling):
    with pytest.raises(NotApplicable, match=r"replace-one.*Poisson"):
        method(1.0, 0.1, 10, sampling=sampling, relation=ADD)


@every_method
@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"noise_multiplier": math.nan}, "noise_multiplier"),
        ({"noise_multiplier": "much"}, "noise_multiplier"),
        ({"sample_rate": 1.1}, "sample_rate"),
        ({"sample_rate": -0.1}, "sample_rate"),
        ({"sample_rate": math.nan}, "sample_rate"),
        ({"steps": -1}, "steps"),
        ({"steps": 1.5}, "steps"),
        ({"steps": True}, "steps"),
        ({"sampling": "shufle"}, "sampling"),
        ({"relation": "replace-one"}, "relation"),
        ({"steps_per_epoch": 0}, "steps_per_epoch"),
    ],
)
def test_bad_input_is_one_sentence_and_a_hint(method, change, name):
    good = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 10, **POISSON}
    with pytest.raises(InvalidArgument, match=f"^Expected {name}=") as caught:
        method(**{**good, **change})
    assert "\n" not in str(caught.value)


def test_theorems_name_their_source():
    assert "Zhu, Dong & Wang 2022" in pld(1.0, 0.1, 10, **POISSON).theorem
    assert "Theorem 4.2" in pld(1.0, 0.1, 10, **FIXED).theorem
    assert "moments accountant" in rdp(1.0, 0.1, 10, **POISSON).theorem
    assert "passes" in pld(1.0, 0.1, 10, sampling="cyclic", relation=ZERO).theorem
    assert pld(1.0, 0.1, 10, **POISSON).relation is ADD


def test_renyi_of_pld_is_the_moments_accountant():
    profile, moments = pld(1.0, 0.1, 50, **POISSON), rdp(1.0, 0.1, 50, **POISSON)
    orders = np.array(moments.orders)
    known = np.isfinite(moments.values)
    assert profile.renyi(orders)[known] == pytest.approx(np.array(moments.values)[known], rel=1e-12)
