from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sordino import checks
from sordino.errors import InvalidArgument


def _sentence(call: Callable[[], object]) -> str:
    with pytest.raises(InvalidArgument) as caught:
        call()
    return str(caught.value)


def test_the_sentence_names_value_condition_and_remedy() -> None:
    hint = "Pass the budget you promise, such as 1.0."
    said = _sentence(lambda: checks.positive("epsilon", -1, hint, allow_infinite=True))
    assert said == "Expected epsilon=-1 > 0. Pass the budget you promise, such as 1.0."


def test_without_a_hint_the_sentence_ends_with_its_full_stop() -> None:
    assert _sentence(lambda: checks.fail("x", 3, "< 2")) == "Expected x=3 < 2."


def test_a_long_value_is_cut_to_sixty_characters() -> None:
    assert _sentence(lambda: checks.fail("x", "a" * 60, "short")) == f"Expected x={'a' * 60} short."
    assert (
        _sentence(lambda: checks.fail("x", "a" * 61, "short")) == f"Expected x={'a' * 57}... short."
    )


def test_a_failed_check_is_a_value_error() -> None:
    assert issubclass(InvalidArgument, ValueError)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (checks.positive, 5e-324),
        (checks.positive, 3),
        (checks.positive, np.float32(0.5)),
        (checks.non_negative, 0),
        (checks.non_negative, 1e308),
        (checks.fraction, 1),
        (checks.fraction, 5e-324),
        (checks.probability_below_one, 0),
        (checks.probability_below_one, math.nextafter(1, 0)),
    ],
)
def test_an_accepted_number_comes_back_as_a_plain_float(
    check: Callable[[str, float], float], value: float
) -> None:
    accepted = check("x", value)
    assert type(accepted) is float
    assert accepted == value


@pytest.mark.parametrize(
    ("check", "value", "condition"),
    [
        (checks.positive, 0, "> 0 and finite"),
        (checks.positive, -1e-9, "> 0 and finite"),
        (checks.positive, math.inf, "> 0 and finite"),
        (checks.non_negative, -5e-324, ">= 0 and finite"),
        (checks.non_negative, math.inf, ">= 0 and finite"),
        (checks.fraction, 0, "in (0, 1]"),
        (checks.fraction, math.nextafter(1, 2), "in (0, 1]"),
        (checks.fraction, -0.1, "in (0, 1]"),
        (checks.probability_below_one, 1, "in [0, 1)"),
        (checks.probability_below_one, -5e-324, "in [0, 1)"),
    ],
)
def test_a_number_outside_its_range_is_refused(
    check: Callable[[str, float], float], value: float, condition: str
) -> None:
    assert _sentence(lambda: check("x", value)) == f"Expected x={value} {condition}."


@pytest.mark.parametrize(
    "check",
    [checks.positive, checks.non_negative, checks.fraction, checks.probability_below_one],
)
@pytest.mark.parametrize(
    ("value", "condition"),
    [
        (math.nan, "to be a number, not NaN"),
        (None, "to be a number"),
        ("many", "to be a number"),
        ([1.0, 2.0], "to be a number"),
    ],
)
def test_what_is_not_a_number_is_refused_everywhere(
    check: Callable[..., float], value: object, condition: str
) -> None:
    assert (
        _sentence(lambda: check("x", value, "Hint.")) == f"Expected x={value!r} {condition}. Hint."
    )


def test_infinity_passes_only_where_it_is_allowed() -> None:
    assert checks.positive("x", math.inf, allow_infinite=True) == math.inf
    assert checks.non_negative("x", math.inf, allow_infinite=True) == math.inf
    for check in (checks.positive, checks.non_negative):
        with pytest.raises(InvalidArgument):
            check("x", -math.inf, allow_infinite=True)


def test_a_fraction_may_be_zero_only_where_it_is_allowed() -> None:
    assert checks.fraction("x", 0, allow_zero=True) == 0
    said = _sentence(lambda: checks.fraction("x", 1.5, allow_zero=True))
    assert said == "Expected x=1.5 in [0, 1]."


@pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2)])
def test_a_whole_number_comes_back_as_a_plain_int(value: int) -> None:
    accepted = checks.whole("x", value, at_least=2)
    assert type(accepted) is int
    assert accepted == 2


@pytest.mark.parametrize("value", [True, np.True_, 2.0, "2", None])
def test_a_whole_number_is_not_guessed_from_something_else(value: object) -> None:
    said = _sentence(lambda: checks.whole("x", value, at_least=1))  # type: ignore[arg-type]
    shown = "'2'" if value == "2" else value  # or it would look like the number it should be
    assert said == f"Expected x={shown} to be a whole number >= 1."


def test_a_whole_number_below_its_least_is_refused() -> None:
    assert _sentence(lambda: checks.whole("steps", 0, at_least=1)) == "Expected steps=0 >= 1."
    assert _sentence(lambda: checks.whole("steps", -1)) == "Expected steps=-1 >= 0."


def test_an_index_lies_inside_the_rows() -> None:
    assert checks.index("row", 4, 5) == 4
    assert _sentence(lambda: checks.index("row", 5, 5)) == (
        "Expected row=5 < 5, the number of rows."
    )
    assert _sentence(lambda: checks.index("row", -1, 5)) == "Expected row=-1 >= 0."


def test_one_of_names_the_near_miss() -> None:
    allowed = ("float32", "float64")
    assert checks.one_of("dtype", "float64", allowed) == "float64"
    assert _sentence(lambda: checks.one_of("dtype", "float46", allowed)) == (
        "Expected dtype=float46 to be one of float32, float64. Did you mean float64 or float32?"
    )
    assert _sentence(lambda: checks.one_of("dtype", "qqq", allowed, "Hint.")) == (
        "Expected dtype=qqq to be one of float32, float64. Hint."
    )


def test_one_of_refuses_what_no_dict_could_have_as_a_key() -> None:
    listed: Any = ["a"]
    assert "to be one of a" in _sentence(lambda: checks.one_of("name", listed, {"a": 1}))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_finite_counts_bad_rows_and_names_the_first(bad: float) -> None:
    values = np.zeros((6, 3))
    values[2, 1] = values[2, 2] = values[5, 0] = bad
    assert _sentence(lambda: checks.finite("X", values, "Drop them.")) == (
        "Expected X=[2 bad rows] to hold finite numbers only; the first bad row is 2. Drop them."
    )


def test_finite_returns_good_values_unchanged() -> None:
    for values in (np.ones((3, 2)), np.arange(3), np.zeros(0)):
        assert checks.finite("X", values) is values


def test_finite_reads_vectors_too() -> None:
    said = _sentence(lambda: checks.finite("y", np.array([0.0, 1.0, math.nan])))
    assert said == ("Expected y=[1 bad rows] to hold finite numbers only; the first bad row is 2.")
