"""The notes' formulas as printed: their numbers, and that they say they promise nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from sordino.accounting import gaussian, naive_strong
from sordino.accounting.profile import Profile
from sordino.errors import InvalidArgument, NotApplicable

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "accounting_1_2.json").read_text())[
    "2_dpsgd"
]


def cases(name):
    entry = GOLDEN[name]
    return [pytest.param(case, entry["tol"]["rel"], id=str(case)) for case in entry["cases"]]


@pytest.mark.parametrize(("case", "rel"), cases("calibration_table"))
def test_naive_noise_that_happens_to_be_enough(case, rel):
    got = naive_strong.notes_naive_noise(case["eps"], case["delta"], case["q"], case["T"])
    assert got.value == pytest.approx(case["notes_naive"], rel=rel)
    assert got.verdict.startswith("enough, though not by its own argument")
    assert f"{case['notes_naive_base_eps']:.4g} where" in got.verdict
    assert f"allows {case['naive_analytic_base_eps']:.4g}" in got.verdict
    back = naive_strong.notes_naive_epsilon(got.value, case["q"], case["T"], case["delta"])
    assert back.value == pytest.approx(case["eps"], rel=1e-12)
    assert back.verdict.startswith("enough, though not by its own argument")


@pytest.mark.parametrize(("case", "rel"), cases("notes_naive_formula_violations"))
def test_naive_noise_that_is_too_little(case, rel):
    got = naive_strong.notes_naive_noise(case["eps"], case["delta"], case["q"], case["T"])
    assert got.value == pytest.approx(case["sigma_notes"], rel=rel)
    assert got.value < case["sigma_naive_correct"]
    assert got.verdict.startswith("not proved")
    back = naive_strong.notes_naive_epsilon(got.value, case["q"], case["T"], case["delta"])
    assert back.value == pytest.approx(case["eps"], rel=1e-12)
    assert back.verdict.startswith("not proved")


def test_the_printed_noise_breaks_the_promise_of_one_step():
    case = GOLDEN["notes_naive_formula_violations"]["cases"][0]
    assert case["T"] == 1
    base = naive_strong.before_sampling(case["eps"], case["q"])
    actual = case["q"] * gaussian.delta(
        base, 1 / naive_strong.notes_naive_noise(1, 1e-5, 0.01, 1).value
    )
    rel = GOLDEN["notes_naive_formula_violations"]["tol"]["rel"]
    assert actual == pytest.approx(case["delta_actual"], rel=rel)
    assert actual > 900 * case["delta"]


def test_orders_of_growth_with_the_constant_1():
    strong = naive_strong.notes_strong_noise(2.0, 1e-5, 0.01, 1000)
    assert strong.value == pytest.approx(
        0.01 * math.sqrt(1000 * math.log(1e5) * math.log(1e8)) / 2, rel=1e-12
    )
    assert "without a constant" in strong.verdict
    moments = naive_strong.notes_moments_noise(2.0, 1e-5, 0.01, 1000)
    assert moments.value == pytest.approx(0.01 * math.sqrt(1000 * math.log(1e5)) / 2, rel=1e-12)
    assert "not known" in moments.verdict


def test_ratio_is_that_of_the_two_printed_formulas():
    strong = naive_strong.notes_strong_noise(1.5, 1e-5, 0.01, 1000).value
    naive = naive_strong.notes_naive_noise(1.5, 1e-5, 0.01, 1000).value
    ratio = naive_strong.notes_noise_ratio(1e-5, 0.01, 1000)
    assert ratio.value == pytest.approx(strong / naive, rel=1e-12)
    assert "ln(T/delta) = 18.4 is not near ln T = 6.91" in ratio.verdict


@pytest.mark.parametrize(
    "value",
    [
        naive_strong.notes_naive_noise(1.0, 1e-5, 0.01, 1000),
        naive_strong.notes_naive_epsilon(50.0, 0.01, 1000, 1e-5),
        naive_strong.notes_strong_noise(1.0, 1e-5, 0.01, 1000),
        naive_strong.notes_moments_noise(1.0, 1e-5, 0.01, 1000),
        naive_strong.notes_noise_ratio(1e-5, 0.01, 1000),
    ],
    ids=lambda value: value.name,
)
def test_none_is_a_guarantee_and_all_say_so(value):
    assert not isinstance(value, Profile)
    assert str(value).startswith("as printed, not a guarantee: ")
    assert value.formula in str(value)
    assert value.verdict in str(value)


def test_a_logarithm_below_one_is_refused():
    with pytest.raises(NotApplicable, match="must be above 1"):
        naive_strong.notes_naive_noise(1.0, 0.1, 0.01, 5)
    with pytest.raises(NotApplicable, match="must be above 1"):
        naive_strong.notes_noise_ratio(0.1, 0.01, 5)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0.0, 1e-5, 0.1, 10), "epsilon"),
        ((math.nan, 1e-5, 0.1, 10), "epsilon"),
        ((1.0, 0.0, 0.1, 10), "delta"),
        ((1.0, 1.0, 0.1, 10), "delta"),
        ((1.0, 1e-5, 0.0, 10), "sample_rate"),
        ((1.0, 1e-5, 0.1, 0), "steps"),
        ((1.0, 1e-5, 0.1, 2.5), "steps"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(arguments, name):
    for formula in (
        naive_strong.notes_naive_noise,
        naive_strong.notes_strong_noise,
        naive_strong.notes_moments_noise,
    ):
        with pytest.raises(InvalidArgument, match=f"^Expected {name}="):
            formula(*arguments)
    with pytest.raises(InvalidArgument, match=r"^Expected noise_multiplier="):
        naive_strong.notes_naive_epsilon(-1.0, 0.1, 10, 1e-5)
