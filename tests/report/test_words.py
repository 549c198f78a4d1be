from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest
import sample_assessment as sample
from hypothesis import given
from hypothesis import strategies as st

from sordino.errors import printable
from sordino.report import words
from sordino.report.assessment import Assessment
from sordino.report.stages import Estimated
from sordino.report.words_numbers import (
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

SAMPLES = (
    sample.release_sample,
    sample.broken_sample,
    sample.refuted_sample,
    sample.foreign_sample,
    sample.nothing_proved_sample,
)
UNREADABLE = re.compile(r"\b(inf|nan)\b", re.IGNORECASE)


def without_leaks(assessment: Assessment) -> Assessment:
    return changed(assessment, "records", reads_private_data=())


def changed(assessment: Assessment, part: str, **values: Any) -> Assessment:
    new = dataclasses.replace(getattr(assessment, part), **values)
    return dataclasses.replace(assessment, **{part: new})


def attacked(assessment: Assessment, epsilon: float, **values: Any) -> Assessment:
    attack = assessment.attacks[0]
    observed = dataclasses.replace(attack.observed, epsilon=epsilon)
    attack = dataclasses.replace(attack, observed=observed, **values)
    return dataclasses.replace(assessment, attacks=(attack, *assessment.attacks[1:]))


def promised(assessment: Assessment, epsilon: float, **values: Any) -> Assessment:
    parts = assessment.proved_parts
    assert parts is not None
    assert parts.guarantee is not None
    guarantee = dataclasses.replace(parts.guarantee, epsilon=epsilon, **values)
    return changed(assessment, "proved_parts", guarantee=guarantee)


class TestVerdict:
    def test_says_all_three_numbers_of_a_release(self) -> None:
        assert words.verdict(without_leaks(sample.release_sample())) == (
            "Whoever gets this model learns little about any one record: epsilon is at most 1 "
            "(proved), about 0.87 by our estimate, and our attack shows an epsilon of at least "
            "0.45."
        )

    @pytest.mark.parametrize("make", SAMPLES)
    def test_is_one_sentence_without_unreadable_numbers(self, make: Any) -> None:
        verdict = words.verdict(make())
        assert verdict.endswith(".")
        assert not re.search(r"[.!?] +[A-Z]", verdict)
        assert "\n" not in verdict
        assert not UNREADABLE.search(verdict)

    def test_rounds_what_is_proved_up_and_what_was_observed_down(self) -> None:
        found = attacked(promised(sample.release_sample(), 1.23401), 0.5999)
        verdict = words.verdict(found)
        assert "at most 1.24 (proved)" in verdict
        assert "at least 0.59" in verdict

    @pytest.mark.parametrize(
        ("epsilon", "said"),
        [
            (0.5, "learns little"),
            (1.01, "learns a limited amount"),
            (3.01, "may learn a lot"),
            (10.01, "means next to nothing"),
        ],
    )
    def test_says_what_an_epsilon_is_worth(self, epsilon: float, said: str) -> None:
        assert said in words.verdict(promised(sample.release_sample(), epsilon))

    def test_says_what_the_guarantee_does_not_cover(self) -> None:
        leaks = ("smallest and largest value of many columns", "the levels")
        found = changed(sample.release_sample(), "records", reads_private_data=leaks)
        assert words.verdict(found).endswith(
            "; not covered is what was read off the records beforehand."
        )
        assert words.notes(found) == [f"Not covered by the guarantee: {leaks[0]}; {leaks[1]}."]
        assert "not covered" not in words.verdict(without_leaks(found))

    def test_names_the_person_where_that_is_who_is_protected(self) -> None:
        found = changed(sample.release_sample(), "question", rows_per_person=3)
        assert "any one person (3 records at most)" in words.verdict(found)

    def test_begins_with_broken_where_more_was_observed_than_proved(self) -> None:
        verdict = words.verdict(sample.broken_sample())
        assert verdict.startswith("BROKEN: our attack shows with 99% confidence that epsilon is at")
        assert "at least 1.88, more than the 1 that is proved" in verdict
        assert "must not be released" in verdict

    def test_shows_digits_enough_to_see_that_it_is_broken(self) -> None:
        verdict = words.verdict(attacked(sample.release_sample(), 1.00002, violated=True))
        assert "at least 1.00002, more than the 1 that is" in verdict

    def test_says_so_if_only_the_curve_is_refuted(self) -> None:
        found = attacked(sample.release_sample(), 0.5, curve_refuted=True)
        verdict = words.verdict(found)
        assert verdict.startswith("BROKEN: our attack refutes with 99% confidence the trade-off")
        assert "though not its epsilon" in verdict

    def test_calls_a_foreign_mechanism_broken_by_name(self) -> None:
        verdict = words.verdict(sample.foreign_sample())
        assert verdict.startswith("BROKEN: ")
        assert "the 1 that is claimed for gallery:half_noise, so the claim is wrong." in verdict

    def test_does_not_praise_a_foreign_mechanism_that_was_not_broken(self) -> None:
        found = attacked(sample.foreign_sample(), 0.4, violated=False, curve_refuted=None)
        verdict = words.verdict(found)
        assert verdict.startswith("Nothing is proved about gallery:half_noise: it claims")
        assert "does not refute the claim and does not prove it either" in verdict
        nothing = attacked(found, 0.4, claimed=None)
        assert "nothing is claimed" in words.verdict(nothing)

    def test_says_why_nothing_is_proved_if_that_fits(self) -> None:
        found = changed(sample.nothing_proved_sample(), "proved_parts", why_none="No noise. Sorry.")
        assert words.verdict(found).startswith("Nothing is proved about this model, so treat it")
        assert words.notes(found)[0] == "Why nothing is proved: No noise. Sorry."
        found = changed(found, "proved_parts", why_none="The seed was set.")
        assert "(the seed was set), so treat it like the records" in words.verdict(found)

    def test_says_that_an_attack_found_nothing_and_what_it_could_have_found(self) -> None:
        found = attacked(sample.release_sample(), 0.0, reach=0.1899)
        assert "found nothing (so many runs would find about 0.19 in a model" in words.verdict(
            found
        )
        blind = attacked(sample.release_sample(), 0.0, reach=0.0)
        assert "found nothing (nor would so few runs in a model" in words.verdict(blind)

    def test_cannot_be_forged_by_a_name(self) -> None:
        name = "mine\n\x1b[2JAll is well\u202e"
        found = changed(sample.foreign_sample(), "question", mechanism=name)
        assert words.verdict(found).isprintable()
        assert "mine\\n\\x1b[2JAll is well\\u202e" in words.verdict(found)


class TestNotes:
    def test_are_empty_where_nothing_is_wrong(self) -> None:
        assert words.notes(without_leaks(sample.release_sample())) == []

    def test_say_that_estimates_are_refuted(self) -> None:
        release, plain_sgd = words.notes(without_leaks(sample.refuted_sample()))
        assert release.startswith("Estimate refuted for the release: our attack shows an epsilon")
        assert "at least 0.456, more than the estimated 0.0677." in release
        assert plain_sgd.startswith("Estimate refuted for un-noised SGD")

    def test_say_that_an_estimate_above_the_proof_is_too_high(self) -> None:
        (note,) = words.notes(promised(without_leaks(sample.release_sample()), 0.5))
        assert "lies above the 0.5 that is proved, so it is too high" in note

    def test_warn_of_a_delta_that_allows_publishing_somebody(self) -> None:
        found = promised(sample.release_sample(), 1.0, delta=1e-3)
        assert any("allows giving away about 1.3 of them" in n for n in words.notes(found))
        assert "may learn all about some of the records" in words.verdict(found)
        assert "learns little" not in words.verdict(found)

    def test_a_large_delta_was_not_read_off_the_records(self) -> None:
        found = promised(sample.release_sample(), 1.0, delta=1e-3)
        said = "delta = 0.001 is above 0.1 / rows: too large to mean much"
        proved = dataclasses.replace(found.proved, not_covered=(said,))
        found = changed(found, "proved_parts", guarantee=proved)
        assert said not in words.not_covered(found)

    def test_say_why_no_model_was_written(self) -> None:
        found = changed(
            sample.release_sample(), "release", directory="", why_not="The seed was set"
        )
        assert "No model was written. The seed was set." in words.notes(found)


class TestTable:
    def test_has_the_same_three_kinds_of_the_release_and_of_plain_sgd(self) -> None:
        rows = words.table(sample.release_sample())
        kinds = ["proved", "estimated", "observed"]
        assert [row.kind for row in rows] == 2 * kinds
        assert [row.of for row in rows] == 3 * ["the release"] + 3 * ["un-noised SGD"]
        assert [row.epsilon for row in rows] == [
            *("at most 1", "about 0.872", "at least 0.456"),
            *("infinite", "about 15.5", "at least 4.46"),
        ]
        assert rows[1].certainty == "0.733 to 1.06 (95%); no guarantee"
        assert rows[2].certainty == "99% confidence"
        assert all(len(row.meaning.split()) <= 5 for row in rows)
        assert rows[0].meaning == "nobody can learn more"
        assert rows[3].meaning == "nothing limits what anybody learns"

    def test_never_says_that_a_refuted_proof_holds(self) -> None:
        assert words.table(sample.broken_sample())[0].certainty == "refuted by our attack"

    def test_has_a_row_for_what_a_foreign_mechanism_claims(self) -> None:
        rows = words.table(sample.foreign_sample())
        assert [(row.kind, row.epsilon) for row in rows] == [
            ("proved", "infinite"),
            ("claimed", "at most 1"),
            ("observed", "at least 2.58"),
        ]

    def test_leaves_out_plain_sgd_where_nothing_is_known_of_it(self) -> None:
        found = sample.release_sample()
        found = dataclasses.replace(found, own_noise=None, attacks=found.attacks[:1])
        assert len(words.table(found)) == 3


class TestNumbers:
    def test_are_rounded_to_the_true_side(self) -> None:
        assert (upper(1.2301), lower(1.2399), about(1.2351)) == ("1.24", "1.23", "1.24")
        assert (upper(0), lower(0.0)) == ("0", "0")

    def test_are_readable_at_any_size(self) -> None:
        assert (upper(12345.1), lower(1234567)) == ("12,400", "1,230,000")
        assert (upper(5e-7), about(-3e-9), lower(2e12)) == ("5 × 10⁻⁷", "-3 × 10⁻⁹", "2 × 10¹²")
        assert (upper(math.inf), about(math.nan)) == ("infinite", "not known")

    def test_chances_are_never_made_smaller(self) -> None:
        assert chance(3e-6) == "one chance in 333,333"
        assert chance(1e-4) == "one chance in 10,000"
        assert chance(0) == "no chance at all"
        assert "million million" in chance(1e-30)

    def test_percentages_of_upper_bounds_go_up(self) -> None:
        assert (percent_up(0.5456), percent_up(0.5), percent_up(0.99999)) == (
            "54.6%",
            "50.0%",
            "100.0%",
        )

    def test_percentages_of_lower_bounds_go_down(self) -> None:
        assert (percent_down(0.5456), percent_down(0.3), percent_down(-1e-12)) == (
            "54.5%",
            "30.0%",
            "0.0%",
        )

    def test_sentences_for_terminals_are_typeset(self) -> None:
        assert typeset("epsilon >= 4.5 at delta = 5e-06") == "epsilon ≥ 4.5 at delta = 5 × 10⁻⁶"
        assert typeset("1.5e-10, 2e+07") == "1.5 × 10⁻¹⁰, 2 × 10⁷"
        for name in ("<=50K", "a1e-05", "1e-05b", "v1.2e3.4"):  # names are left alone
            assert typeset(name) == name

    def test_two_that_are_compared_differ_in_print(self) -> None:
        assert compared(1.0000004, 1.0) == ("1.0000004", "1")
        assert compared(math.inf, 1.0) == ("infinite", "1")
        assert compared(2.5, 1.0) == ("2.5", "1")

    def test_settings_and_times_read_well(self) -> None:
        assert [plain(each) for each in (True, None, 12000, 1.5, "auto")] == [
            *("yes", "left out", "12,000", "1.5", "auto")
        ]
        assert [seconds(each) for each in (0.42, 47.3, 200.0)] == ["0.4 s", "47 s", "3 min 20 s"]

    def test_spaces_stay_and_hidden_marks_do_not(self) -> None:
        assert printable("a\u2002b\u00a0c") == "a\u2002b\u00a0c"
        assert printable("a\u2028b\u200bc") == "a\\u2028b\\u200bc"


@given(release=st.floats(1e-3, 1e3) | st.just(math.inf), unnoised=st.floats(1e-3, 1e3))
def test_an_estimate_of_sgd_below_that_of_the_release_is_said_to_mean_little(
    release: float, unnoised: float
) -> None:
    found = sample.release_sample()
    assert found.release_estimated is not None
    assert found.own_noise is not None

    def of(part: Estimated, epsilon: float) -> Estimated:
        assert part.headline is not None
        headline = dataclasses.replace(
            part.headline, epsilon=epsilon, low=None, high=None, level=None
        )
        return dataclasses.replace(part, headline=headline)

    own = dataclasses.replace(found.own_noise, estimated=of(found.own_noise.estimated, unnoised))
    estimated = of(found.release_estimated, release)
    notes = words.notes(dataclasses.replace(found, own_noise=own, release_estimated=estimated))
    said = [note for note in notes if "means little" in note]
    assert bool(said) == (unnoised < release)
    for note in said:
        assert own.training in note
        low, high = re.findall(r"about ([\d.,]+) and ([\d.,]+|infinite) by", note)[0]
        assert float(low.replace(",", "")) < float(high.replace(",", "").replace("infinite", "inf"))
