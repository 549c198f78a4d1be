from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest
import sample_assessment as sample
from hypothesis import example, given
from hypothesis import strategies as st

from sordino.report import sections, words
from sordino.report.page import Table, Text
from sordino.report.result import Accuracy, Assessment, Estimated, Measure

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
            (10.01, "may learn almost anything"),
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
        assert "must not leave" in verdict

    def test_shows_digits_enough_to_see_that_it_is_broken(self) -> None:
        verdict = words.verdict(attacked(sample.release_sample(), 1.00002, violated=True))
        assert "at least 1.00002, more than the 1 that is" in verdict

    def test_says_so_if_only_the_curve_is_refuted(self) -> None:
        found = attacked(sample.release_sample(), 0.5, curve_refuted=True)
        verdict = words.verdict(found)
        assert verdict.startswith("BROKEN: our attack refutes with 99% confidence the trade-off")

    def test_calls_a_foreign_mechanism_broken_by_name(self) -> None:
        verdict = words.verdict(sample.foreign_sample())
        assert verdict.startswith("BROKEN: ")
        assert "the 1 that is claimed for gallery:half_noise, so the claim is wrong." in verdict

    def test_does_not_praise_a_foreign_mechanism_that_was_not_broken(self) -> None:
        found = attacked(sample.foreign_sample(), 0.4, violated=False, curve_refuted=None)
        verdict = words.verdict(found)
        assert verdict.startswith("Nothing is proved about gallery:half_noise: it claims")
        assert "neither refutes nor proves the claim" in verdict
        nothing = attacked(found, 0.4, claimed=None)
        assert "Nothing is proved or claimed" in words.verdict(nothing)

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
        assert "so many runs would find nothing in a model" in words.verdict(blind)

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


# --- What privacy costs

SHARES = st.floats(0, 1)
A_POINT = 0.01


def told(found: Accuracy) -> tuple[str, str]:
    """What the page's section says, and the notes that page and terminal begin with."""
    whole = sample.release_sample()
    assert whole.release is not None
    made = dataclasses.replace(whole.release, accuracy=found)
    assessed: Assessment = dataclasses.replace(whole, release=made)
    blocks = list(sections._release(assessed))
    texts = [f"{each.lead} {each.text}" for each in blocks if isinstance(each, Text)]
    return " ".join(texts), " ".join(words.notes(assessed))


def accuracy(constant: float, without: float, released: float, **more: object) -> Accuracy:
    def around(value: float) -> Measure:
        return Measure(value, max(value - 0.03, 0), min(value + 0.03, 1))

    known = {"repeats": 5, "majority": constant, "curve": (), "test_rows": 100}
    return Accuracy(around(without), around(released), around(released), **known, **more)  # type: ignore[arg-type]


@given(constant=SHARES, without=SHARES, released=SHARES)
@example(0.6, 0.6, 0.6)
@example(0.64, 0.65, 0.70)
@example(0.64, 0.90, 0.60)
@example(0.95, 0.95, 0.90)
def test_less_noise_is_advised_only_where_noise_is_what_costs(
    constant: float, without: float, released: float
) -> None:
    for said in told(accuracy(constant, without, released)):
        warned = "Hardly useful" in said
        less_noise = re.search(r"more rows or a larger epsilon would", said, re.IGNORECASE)
        another = "other columns or another model might help" in said
        assert warned == (max(released - 0.03, 0) <= constant)
        assert bool(less_noise) + another == warned
        if less_noise:
            assert without >= max(constant, released) + A_POINT
        if another:
            assert without < max(constant, released) + A_POINT


def test_an_uneven_table_may_be_ranked_well_all_the_same() -> None:
    better = sample.release_sample().release
    assert better is not None
    assert better.accuracy is not None
    ranked = {
        "before_scores": better.accuracy.before_scores,
        "after_scores": better.accuracy.after_scores,
    }
    said, _ = told(accuracy(0.95, 0.95, 0.95, **ranked))
    assert "AUC 0.965 without privacy, 0.947 this release" in said
    said, _ = told(accuracy(0.6, 0.95, 0.55, **ranked))
    assert "AUC" not in said.partition("Hardly useful")[2].partition("epsilon would help")[0]


def test_scores_stand_in_a_table_and_what_is_none_is_not_defined() -> None:
    whole = sample.release_sample()
    assert whole.release is not None
    assert whole.release.accuracy is not None
    scores = whole.release.accuracy.before_scores
    assert scores is not None
    svm = dataclasses.replace(scores, log_loss=None, calibration_error=None)
    found = accuracy(0.5, 0.9, 0.8, before_scores=svm, constant_scores=scores)
    made = dataclasses.replace(whole.release, accuracy=found)
    blocks = sections._release(dataclasses.replace(whole, release=made))
    table = next(each for each in blocks if isinstance(each, Table) and "AUC" in each.head)
    without, constant = table.groups[0].rows
    assert without == ("without privacy", "90.0%", "90.1%", "0.965", "not defined", "not defined")
    assert constant[0] == "always the most frequent label"


def test_assessments_without_scores_have_no_table_of_them() -> None:
    said, _ = told(accuracy(0.5, 0.9, 0.8))
    assert "calibration" not in said


def test_the_risk_that_was_asked_for_comes_first():
    found = without_leaks(sample.release_sample())
    asked = dataclasses.replace(found.question, asked="so much at most")
    (note,) = words.notes(dataclasses.replace(found, question=asked))
    assert note.startswith("Asked for: so much at most, which gives epsilon ")
    # Where nothing is proved, nothing was given.
    nothing = without_leaks(sample.nothing_proved_sample())
    nothing = dataclasses.replace(nothing, question=asked)
    assert not any("Asked for" in each for each in words.notes(nothing))
