"""Numbers as people read them."""

from __future__ import annotations

import math

from sordino.errors import printable
from sordino.report.numbers import (
    about,
    chance,
    compared,
    lower,
    percent_down,
    percent_up,
    plain,
    seconds,
    typeset,
    upper,
)


def test_are_rounded_to_the_true_side() -> None:
    assert (upper(1.2301), lower(1.2399), about(1.2351)) == ("1.24", "1.23", "1.24")
    assert (upper(0), lower(0.0)) == ("0", "0")


def test_are_readable_at_any_size() -> None:
    assert (upper(12345.1), lower(1234567)) == ("12,400", "1,230,000")
    assert (upper(5e-7), about(-3e-9), lower(2e12)) == ("5 × 10⁻⁷", "-3 × 10⁻⁹", "2 × 10¹²")
    assert (upper(math.inf), about(math.nan)) == ("infinite", "not known")


def test_chances_are_never_made_smaller() -> None:
    assert chance(3e-6) == "one chance in 333,333"
    assert chance(1e-4) == "one chance in 10,000"
    assert chance(0) == "no chance at all"
    assert "million million" in chance(1e-30)


def test_percentages_of_upper_bounds_go_up() -> None:
    assert (percent_up(0.5456), percent_up(0.5), percent_up(0.99999)) == (
        "54.6%",
        "50.0%",
        "100.0%",
    )


def test_percentages_of_lower_bounds_go_down() -> None:
    assert (percent_down(0.5456), percent_down(0.3), percent_down(-1e-12)) == (
        "54.5%",
        "30.0%",
        "0.0%",
    )


def test_sentences_for_terminals_are_typeset() -> None:
    assert typeset("epsilon >= 4.5 at delta = 5e-06") == "epsilon ≥ 4.5 at delta = 5 × 10⁻⁶"
    assert typeset("1.5e-10, 2e+07") == "1.5 × 10⁻¹⁰, 2 × 10⁷"
    for name in ("<=50K", "a1e-05", "1e-05b", "v1.2e3.4"):  # names are left alone
        assert typeset(name) == name


def test_two_that_are_compared_differ_in_print() -> None:
    assert compared(1.0000004, 1.0) == ("1.0000004", "1")
    assert compared(math.inf, 1.0) == ("infinite", "1")
    assert compared(2.5, 1.0) == ("2.5", "1")


def test_settings_and_times_read_well() -> None:
    assert [plain(each) for each in (True, None, 12000, 1.5, "auto")] == [
        *("yes", "left out", "12,000", "1.5", "auto")
    ]
    assert [seconds(each) for each in (0.42, 47.3, 200.0)] == ["0.4 s", "47 s", "3 min 20 s"]


def test_spaces_stay_and_hidden_marks_do_not() -> None:
    assert printable("a\u2002b\u00a0c") == "a\u2002b\u00a0c"
    assert printable("a\u2028b\u200bc") == "a\\u2028b\\u200bc"
