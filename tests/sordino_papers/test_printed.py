"""Numbers as papers print them, and how far ours may be from them."""

import math

import pytest

from sordino.errors import InvalidArgument
from sordino_papers.claims import Printed, Tolerance
from sordino_papers.found import Found


@pytest.mark.parametrize(
    ("text", "value", "unit", "spread", "percent"),
    [
        ("0.719(2)", 0.719, 0.001, 0.002, False),
        ("0.53(1)", 0.53, 0.01, 0.01, False),
        ("0.8340(7)", 0.834, 0.0001, 0.0007, False),
        ("+.00002", 0.00002, 0.00001, None, False),
        ("36.31%", 36.31, 0.01, None, True),
        ("9,000", 9000.0, 1.0, None, False),
        ("1.23e-8", 1.23e-8, 1e-10, None, False),
        ("0.050", 0.05, 0.001, None, False),
        ("-3", -3.0, 1.0, None, False),
    ],
)
def test_reads_what_is_printed(text, value, unit, spread, percent):
    printed = Printed.parse(text)
    assert printed.value == value
    assert math.isclose(printed.unit, unit)
    assert printed.spread == (None if spread is None else pytest.approx(spread))
    assert (printed.percent, str(printed)) == (percent, text)


@pytest.mark.parametrize("text", ["", "about 5", "0.7-0.8", "e5", "+", "5 %%"])
def test_refuses_what_is_no_number(text):
    with pytest.raises(InvalidArgument, match="as printed"):
        Printed.parse(text)


@pytest.mark.parametrize(
    ("rule", "printed", "inside", "outside"),
    [
        ({"rounding": True}, "0.083", [0.0825, 0.08349], [0.0824, 0.0836]),
        ({"relative": 0.05}, "23.10", [22.0, 24.25], [21.93, 24.27]),
        ({"absolute": 0.005}, "0.953(1)", [0.9476, 0.9584], [0.9473, 0.9587]),
        ({"factor": 1.6}, "0.057", [0.0355, 0.0915], [0.0352, 0.0921]),
        ({"factor": 1.6}, "-2", [-1.0, -3.9], [1.5, -4.1]),
    ],
)
def test_is_within_or_not(rule, printed, inside, outside):
    tolerance, number = Tolerance.read(rule), Printed.parse(printed)
    for value in inside:
        assert tolerance.holds(Found(value), number), value
    for value in [*outside, math.nan, math.inf]:
        assert not tolerance.holds(Found(value), number), value


def test_an_interval_must_meet_what_rounding_leaves_open():
    tolerance, number = Tolerance.read({"interval": True}), Printed.parse("0.53(1)")
    assert tolerance.holds(Found(0.6, 0.534, 0.7), number)
    assert not tolerance.holds(Found(0.6, 0.536, 0.7), number)
    assert tolerance.holds(Found(0.4, 0.3, 0.526), number)
    assert not tolerance.holds(Found(0.4, 0.3, 0.524), number)
    # Without an interval only what rounds to it is in it.
    assert tolerance.holds(Found(0.534), number)
    assert not tolerance.holds(Found(0.54), number)


@pytest.mark.parametrize(
    ("rule", "holds", "fails"),
    [("at_least", 0.95, 0.949), ("at_most", 0.95, 0.951), ("above", 0.951, 0.95)],
)
def test_thresholds_of_claims_in_words(rule, holds, fails):
    tolerance = Tolerance.read({rule: 0.95})
    assert not tolerance.needs_printed
    assert tolerance.holds(Found(holds), None)
    assert not tolerance.holds(Found(fails), None)
    assert not tolerance.holds(Found(math.nan), None)


@pytest.mark.parametrize(
    "rule", [{}, {"relative": 0.1, "factor": 2}, {"roughly": 1}, {"rounding": 3}]
)
def test_refuses_unknown_rules(rule):
    with pytest.raises(InvalidArgument):
        Tolerance.read(rule)
