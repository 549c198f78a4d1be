"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest
from sample_reproduction import FOUND, sample

from sordino_papers import words
from sordino_papers.claims import Printed


@pytest.mark.parametrize(
    ("printed", "value", "text"),
    [
        ("0.083", 0.08434, "0.0843"),  # one digit more than printed
        ("0.110", 0.1, "0.1000"),
        ("0.719(2)", 0.71861, "0.7186"),
        ("17", 17.26, "17.3"),
        ("9,000", 9000.0, "9,000"),  # a count stays one
        ("9,000", 9000.4, "9,000.4"),
        ("36.31%", 36.3084, "36.308%"),
        ("+.0007", 0.00071, "+0.00071"),
        ("+.0007", -0.00012, "-0.00012"),
        ("-.0007", 0.0001, "+0.00010"),
        ("1.23e-8", 1.2342e-8, "1.234e-08"),
        ("0.01", 1.2e-8, "1.2e-08"),  # else it would look like 0
        ("0.01", 0.0, "0.000"),
        ("0.01", -0.0, "0.000"),
        ("0.1", 3.2e9, "3.2e+09"),
        ("100", 25_000_000.0, "25,000,000"),
        ("0.1", math.nan, "not known"),
        ("0.1", math.inf, "infinite"),
    ],
)
def test_ours_has_one_digit_more_than_what_is_printed(printed, value, text):
    assert words.number(value, Printed.parse(printed)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.97, "0.97"),
        (1234.0, "1,234"),
        (12345.67, "12,346"),
        (1.23456, "1.235"),
        (1.2e-8, "1.2e-08"),
        (-0.25, "-0.25"),
        (0.0, "0"),
    ],
)
def test_a_number_alone_has_four_digits(value, text):
    assert words.number(value) == text


def test_what_is_not_all_never_looks_like_all(tmp_path):
    results = sample(tmp_path).results
    assert FOUND["one/table-3/seed-dominates/a"].value < 1
    shown = words.ours(results["one/table-3/seed-dominates/a"])
    assert shown == "0.9999996 (71,999 of 72,000)"


@pytest.mark.parametrize(
    ("value", "threshold", "text"),
    [(0.949999, 0.95, "0.949999"), (0.95, 0.95, "0.95"), (43.00001, 43, "43.00001")],
)
def test_one_sees_on_which_side_of_a_threshold_a_number_lies(value, threshold, text):
    assert words._apart(value, threshold) == text


def test_intervals_tolerances_and_verdicts(tmp_path):
    results = sample(tmp_path).results
    sigma, check = results["one/table-3/sigma/a"], results["one/checks/root"]
    assert words.interval(sigma) == "0.0812 to 0.0861"
    assert words.interval(results["one/table-3/factor/b"]) == ""
    assert words.interval(results["one/table-6/accuracy"]) == "-0.00100 to +0.00080"
    assert words.tolerance(sigma.claim) == "within 5 %"
    assert (words.verdict(sigma), words.verdict(check)) == ("reproduced", "holds")
    assert words.verdict(results["one/checks/maximum"]) == "fails"
    assert words.compared(results["one/table-3/sigma/c"]) == "paper 0.110, ours 0.1557 (1.42 times)"
    assert words.compared(check) == "ours 0.998, needed: at least 0.9"
    assert words.title(sigma.claim) == "sigma_i(D), logistic regression, CIFAR2"
    assert words.ours(results["two/figure-1/best/ipums"]) == "-"
    assert words.wanted(sigma.claim) == "0.083"
    assert words.wanted(check.claim) == "at least 0.9"


def test_settings_are_those_of_the_size(tmp_path):
    run = sample(tmp_path).runs["one/grid-a"]
    whole = "model logistic, data adult, seeds 171, init vary/fixed, learning rate 0.0001"
    assert words.settings(run, quick=False) == whole
    assert words.settings(run, quick=True) == whole.replace("171", "16")


def test_every_verdict_has_a_sign_of_its_own():
    assert len(set(words.SIGNS.values())) == 4
