from __future__ import annotations

import dataclasses
import json
import math

import jsonschema
import numpy as np
import pytest
import sample_assessment as samples

from sordino.errors import Refused
from sordino.privacy import Estimate, Guarantee, Observation, Relation
from sordino.report import public, result
from sordino.report.result import (
    Assessment,
    Attack,
    Curve,
    DocumentError,
    Measure,
    Proved,
    Release,
    from_plain,
    loads,
    to_plain,
)

SAMPLES = {
    "release": samples.release_sample,
    "broken": samples.broken_sample,
    "refuted": samples.refuted_sample,
    "foreign": samples.foreign_sample,
    "nothing proved": samples.nothing_proved_sample,
}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    made = json.loads(public.schemas()["assessment.schema.json"])
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(made)


@pytest.fixture
def parsed() -> dict:
    return json.loads(result.dumps(samples.release_sample()))


# --- The samples are what their names say: other tests rest on that


def test_samples_stand_for_their_states():
    made = {name: sample() for name, sample in SAMPLES.items()}
    assert {name: each.state for name, each in made.items()} == {
        "release": "holds",
        "broken": "broken",
        "refuted": "holds",
        "foreign": "broken",
        "nothing proved": "nothing proved",
    }
    assert made["broken"].observed.epsilon > made["broken"].proved.epsilon
    refuted = {name: [row.estimate_refuted for row in each.triples] for name, each in made.items()}
    assert refuted["refuted"] == [True, True]
    assert refuted["release"] == [False, False]
    assert made["release"].observed.epsilon < made["release"].estimated.epsilon


# --- There and back


@pytest.mark.parametrize("name", SAMPLES)
def test_an_assessment_comes_back_equal(name):
    sample = SAMPLES[name]()
    text = result.dumps(sample)
    assert loads(text) == sample
    assert result.dumps(loads(text)) == text


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_valid_by_the_schema(name, validator):
    validator.validate(json.loads(result.dumps(SAMPLES[name]())))


def test_the_text_says_that_it_is_internal_and_what_it_found(parsed):
    assert (parsed["schema"], parsed["version"], parsed["internal"]) == (
        "sordino-assessment",
        1,
        True,
    )
    sample = samples.release_sample()
    assert parsed["summary"] == {
        "state": "holds",
        "broken": False,
        "estimate_refuted": False,
        "plain_estimate_refuted": False,
        "proved": sample.proved.epsilon,
        "estimated": sample.estimated.epsilon,
        "observed": sample.observed.epsilon,
    }


def test_the_order_in_which_a_mapping_was_filled_does_not_matter():
    sample = samples.release_sample()
    turned = dict(reversed(sample.provenance.seconds.items()))
    other = dataclasses.replace(
        sample, provenance=dataclasses.replace(sample.provenance, seconds=turned)
    )
    assert result.dumps(other) == result.dumps(sample)


def test_single_numbers_keep_every_digit_and_curves_six():
    third = 1 / 3
    proved = Proved(None, "no", tradeoff=Curve((third,), (2 / 3,)), best_guess=third)
    back = from_plain(Proved, to_plain(proved))
    assert back.best_guess == third
    assert back.tradeoff == Curve((0.333333,), (0.666667,))
    assert result.curve(np.array([third]), np.array([2 / 3])) == back.tradeoff


def test_a_curve_has_as_many_y_as_x():
    with pytest.raises(ValueError, match="as many as x"):
        result.curve([1, 2], [1])
    with pytest.raises(DocumentError, match="tradeoff cannot be right"):
        from_plain(
            Proved, {**to_plain(Proved(None, "no")), "tradeoff": {"x": [1.0, 2.0], "y": [1.0]}}
        )


def test_infinity_is_the_text_inf():
    measure = Measure(math.inf, 1.0, math.inf)
    assert to_plain(measure) == {"value": "inf", "low": 1.0, "high": "inf", "level": 0.95}
    assert from_plain(Measure, to_plain(measure)) == measure


@pytest.mark.parametrize("value", [math.nan, -math.inf, "1.0", True, None])
def test_what_is_no_number_is_not_written(value):
    with pytest.raises(DocumentError, match=r"The document's low is .*, and no number\."):
        to_plain(Measure(1.0, value, 1.0))


def test_numbers_of_numpy_become_plain():
    attack = dataclasses.replace(
        samples.release_sample().attacks[0],
        runs=np.int64(7),
        violated=np.bool_(True),
        reach=np.float32(0.5),
    )
    written = to_plain(attack)
    assert [type(written[name]) for name in ("runs", "violated", "reach")] == [int, bool, float]
    assert from_plain(Attack, json.loads(json.dumps(written))) == attack


@pytest.mark.parametrize("value", ["inf", "", 1, 1.0, True, None, math.inf, -3, 2**64])
def test_a_setting_keeps_its_type(value):
    release = Release("m", {"setting": value}, "", "")
    back = from_plain(Release, json.loads(json.dumps(to_plain(release)))).settings["setting"]
    assert (type(back), back) == (type(value), value)


def test_a_setting_that_is_not_plain_is_refused():
    with pytest.raises(DocumentError, match=r"settings\.a is a list, and no text, number"):
        to_plain(Release("m", {"a": [1]}, "", ""))
    with pytest.raises(DocumentError, match=r"settings\.a is nan"):
        to_plain(Release("m", {"a": math.nan}, "", ""))


@pytest.mark.parametrize(
    "value",
    [
        Guarantee(math.inf, 0, Relation.ZERO_OUT, "s", "u", "t", ("a", "b"), "all", ("c",)),
        Estimate(1.5, 1e-6, None, None, None, "m", "c"),
        Observation(1.5, 1e-6, 0.99, "a", 10),
    ],
)
def test_words_of_privacy_come_back(value):
    assert from_plain(type(value), to_plain(value)) == value


# --- Refused, by the reader and by the schema


def _without_unit(values: dict) -> None:
    del values["proved_parts"]["guarantee"]["unit"]


def _text_for_number(values: dict) -> None:
    values["question"]["epsilon"] = "1"


def _extra(values: dict) -> None:
    values["attacks"][1]["obsreved"] = 1


def _truth_for_number(values: dict) -> None:
    values["attacks"][0]["runs"] = True


def _number_for_truth(values: dict) -> None:
    values["attacks"][0]["violated"] = 0


def _other_word(values: dict) -> None:
    values["proved_parts"]["bounds"][0]["kind"] = "printed"


def _other_relation(values: dict) -> None:
    values["question"]["relation"] = "replace"


def _three_errors(values: dict) -> None:
    values["attacks"][0]["tested_point"] = [0.1, 0.2, 0.3]


def _two_attacks_in_one(values: dict) -> None:
    values["attacks"] = {"release": values["attacks"][0]}


def _null(values: dict) -> None:
    values["provenance"] = None


def _list_as_setting(values: dict) -> None:
    values["release"]["settings"]["steps"] = [1]


def _number_as_version(values: dict) -> None:
    values["provenance"]["versions"]["numpy"] = 2


def _public(values: dict) -> None:
    values["internal"] = False


def _later(values: dict) -> None:
    values["version"] = 2


def _other_document(values: dict) -> None:
    values["schema"] = "sordino-certificate"


PLANTED = {
    _without_unit: "'s proved_parts.guarantee ",
    _text_for_number: "'s question.epsilon ",
    _extra: "'s attacks[1] has 'obsreved'",
    _truth_for_number: "'s attacks[0].runs ",
    _number_for_truth: "'s attacks[0].violated ",
    _other_word: "'s proved_parts.bounds[0].kind ",
    _other_relation: "'s question.relation ",
    _three_errors: "'s attacks[0].tested_point ",
    _two_attacks_in_one: "'s attacks ",
    _null: "'s provenance ",
    _list_as_setting: "'s release.settings.steps ",
    _number_as_version: "'s provenance.versions.numpy ",
    _public: "'s internal ",
    _later: " has version 2 ",
    _other_document: " is no sordino-assessment",
}
"""What the sentence says of the place."""


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_wrong_document_is_refused_by_the_reader_and_by_the_schema(plant, parsed, validator):
    plant(parsed)
    with pytest.raises(DocumentError) as caught:
        loads(json.dumps(parsed))
    assert str(caught.value).startswith(f"The document{PLANTED[plant]}")
    assert not validator.is_valid(parsed)


def test_the_summary_must_follow_from_the_rest(parsed):
    parsed["summary"]["observed"] = 0.0
    with pytest.raises(DocumentError, match="summary says something else"):
        loads(json.dumps(parsed))


def test_values_that_cannot_be_are_refused(parsed):
    parsed["proved_parts"]["guarantee"]["delta"] = 1.5
    with pytest.raises(DocumentError, match=r"proved_parts\.guarantee cannot be right\. Expected"):
        loads(json.dumps(parsed))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not JSON"),
        ("[1]", "is no sordino-assessment"),
        ('{"a": NaN}', "holds NaN"),
        ('{"a": 1, "a": 2}', "has the key 'a' twice"),
        ('{"a": ' + "9" * 5000 + "}", "number .* is too large"),
        ("[" * 100_000, "nested too deeply"),
        (b"\xff", "is not a text in UTF-8"),
    ],
    ids=["empty", "list", "nan", "twice", "long", "deep", "bytes"],
)
def test_what_is_no_document_is_refused(content, said):
    with pytest.raises(DocumentError, match=said):
        loads(content)
    assert issubclass(DocumentError, Refused)


def test_a_number_beyond_floats_is_refused(parsed):
    text = json.dumps(parsed)
    assert '"reach": 5.8' in text
    with pytest.raises(DocumentError, match=r"holds the number .*, which is too large"):
        loads(text.replace('"reach": 5.8', '"reach": 1e999'))
    with pytest.raises(DocumentError, match=r"holds the number .*, which is too large"):
        loads(text.replace('"reach": 5.8', '"reach": 1' + "0" * 400))


# --- One stage


@pytest.mark.parametrize(
    "name", ["question", "records", "proved_parts", "release", "release_estimated", "own_noise"]
)
def test_a_stage_comes_back_equal(name):
    value = getattr(samples.release_sample(), name)
    assert from_plain(type(value), json.loads(json.dumps(to_plain(value)))) == value


def test_every_assessment_field_is_in_the_document(parsed):
    names = {field.name for field in dataclasses.fields(Assessment)}
    assert set(parsed) == names | {"schema", "version", "internal", "summary"}
