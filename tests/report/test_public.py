from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import read_page
import sample_assessment as samples
from read_page import EVIL, Document

from sordino.errors import InvalidArgument
from sordino.release.certificate import SCHEMA, VERSION, Certificate
from sordino.report import page, public, words
from sordino.report.page import Facts
from sordino.report.public import PublicBound, PublicFacts, public_facts
from sordino.report.result import DocumentError

UNPROMISED = "random_state was set: the noise can be drawn again"


@pytest.fixture
def facts() -> PublicFacts:
    return samples.public_sample()


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    made = json.loads(public.schemas()["public.schema.json"])
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(made)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(each, (*path, key))
    else:
        yield path, value


def _unpromised() -> dict[str, Any]:
    certificate = json.loads(samples.CERTIFICATE)
    return {**certificate, "guarantee": None, "why_none": UNPROMISED}


def test_the_sample_certificate_is_one(facts):
    certificate = Certificate.from_json(samples.CERTIFICATE)
    assert facts.guarantee == certificate.guarantee
    assert public.CERTIFICATE == {"schema": SCHEMA, "version": VERSION}
    keys = {*public.CERTIFICATE, *public.CERTIFICATE_KEYS}
    assert keys == set(json.loads(certificate.to_json()))


def test_what_the_page_asks_for_is_what_the_certificate_says(facts):
    assert facts.rows == 1294
    assert facts.leaks == ()
    text = page.markdown(public.page(facts))
    for part in ("38 steps", "one record is exchanged", "nobody learns more"):
        assert part in text


def test_public_facts_come_back_equal_and_are_valid(facts, validator):
    text = public.dumps(facts)
    assert public.loads(text) == facts
    assert public.dumps(public.loads(text)) == text
    validator.validate(json.loads(text))


def test_every_leaf_is_of_the_certificate_or_computed_from_it(facts):
    proved = samples.release_sample().proved_parts
    given = {
        "tradeoff": {"x": list(proved.tradeoff.x), "y": list(proved.tradeoff.y)},
        "best_guess": proved.best_guess,
        "bounds": [
            {name: getattr(each, name) for name in ("name", "epsilon", "theorem", "used", "reason")}
            for each in proved.bounds
            if each.kind == "guarantee"
        ],
        "asked": "",
    }
    header = {"schema": "sordino-assessment-public", "version": 1, "internal": False}
    allowed = {**header, "certificate": json.loads(samples.CERTIFICATE), "computed": given}
    assert dict(_leaves(json.loads(public.dumps(facts)))) == dict(_leaves(allowed))


def test_the_page_says_which_risk_was_asked_for():
    facts = public.public_facts(samples.CERTIFICATE, best_guess=0.9, asked="so much at most")
    assert public.loads(public.dumps(facts)).computed.asked == "so much at most"
    text = page.markdown(public.page(facts))
    assert "**Asked for**: so much at most, which gives epsilon" in text


def test_the_page_names_the_feature_map_and_what_is_taken_on_trust():
    certificate = json.loads(samples.CERTIFICATE)
    certificate["preprocessing"]["features"] = {"name": "edges", "sha256": "0" * 64, "unseen": []}
    text = page.markdown(public.page(public.public_facts(certificate)))
    assert "**Feature map**: edges" in text
    assert "if it was made from the protected records" in text


def test_nothing_internal_is_in_the_public_document(facts):
    sample = samples.release_sample()
    text = public.dumps(facts)
    accuracy, noise = sample.release.accuracy, sample.own_noise
    internal = [
        sample.provenance.fingerprint,
        *(repr(each.value) for each in (accuracy.before, accuracy.after, accuracy.again)),
        *(repr(attack.observed.epsilon) for attack in sample.attacks),
        repr(sample.estimated.epsilon),
        repr(noise.estimated.headline.epsilon),
        repr(noise.sigma.value),
        *sample.records.reads_private_data,
        *(attack.pair for attack in sample.attacks),
        "accuracy",
        "observed",
        "estimated",
    ]
    assert [each for each in internal if each in text] == []


def test_no_field_is_of_an_internal_type():
    held = {field.name: field.type for field in dataclasses.fields(PublicFacts)}
    assert held == {"certificate": "Mapping[str, Any]", "computed": "PublicComputed"}
    definitions = set(json.loads(public.schemas()["public.schema.json"])["$defs"])
    assert definitions == {"Curve", "PublicBound", "PublicComputed", "number"}


def test_a_certificate_with_something_of_its_own_is_refused(facts):
    values = {**facts.certificate, "accuracy": 0.88}
    with pytest.raises(DocumentError, match="certificate has 'accuracy', which is no part of it"):
        public_facts(values)


def test_a_certificate_without_a_promise_has_nothing_computed(validator):
    facts = public_facts(json.dumps(_unpromised()))
    assert (facts.guarantee, facts.computed.best_guess) == (None, 1.0)
    validator.validate(json.loads(public.dumps(facts)))
    for computed in ({"best_guess": 0.6}, {"tradeoff": samples.tradeoff(1.0)}):
        with pytest.raises(InvalidArgument) as caught:
            public_facts(_unpromised(), **computed)
        assert caught.value.argument == "best_guess"


def test_a_best_guess_is_no_worse_than_a_coin():
    with pytest.raises(InvalidArgument) as caught:
        public_facts(samples.CERTIFICATE, best_guess=0.4)
    assert caught.value.argument == "best_guess"


def test_quoted_formulas_are_left_out(facts):
    named = [each.name for each in samples.release_sample().proved_parts.bounds]
    assert "notes, naive" in named
    assert [each.name for each in facts.computed.bounds] == [
        name for name in named if "notes" not in name
    ]
    assert all(type(each) is PublicBound for each in facts.computed.bounds)


def _without_unit(values: dict) -> None:
    del values["certificate"]["guarantee"]["unit"]


def _text_for_number(values: dict) -> None:
    values["computed"]["best_guess"] = "0.6"


def _internal(values: dict) -> None:
    values["internal"] = True


def _extra(values: dict) -> None:
    values["attacks"] = []


def _later_certificate(values: dict) -> None:
    values["certificate"]["version"] = 2


@pytest.mark.parametrize(
    "plant", [_without_unit, _text_for_number, _internal, _extra, _later_certificate]
)
def test_a_wrong_document_is_refused_by_the_reader_and_by_the_schema(plant, facts, validator):
    values = json.loads(public.dumps(facts))
    plant(values)
    with pytest.raises(DocumentError):
        public.loads(json.dumps(values))
    assert not validator.is_valid(values)


def test_what_does_not_follow_is_refused_when_read(facts):
    values = json.loads(public.dumps(facts))
    values["certificate"] = _unpromised()
    with pytest.raises(DocumentError, match="computed cannot be right"):
        public.loads(json.dumps(values))


def test_a_person_with_several_records_is_not_promised_about_one(facts):
    certificate = dict(facts.certificate)
    certificate["guarantee"] = {**certificate["guarantee"], "unit": "3 records of one person"}
    person = dataclasses.replace(facts, certificate=certificate)
    for found, change in ((facts, "one record is"), (person, "for each of these records, one")):
        (said,) = (
            text
            for block in public.page(found).sections[0].blocks
            if isinstance(block, Facts)
            for name, text in block.pairs
            if name == "Against which change"
        )
        assert said.startswith(change)


class TestPublic:
    def test_says_what_the_certificate_says(self) -> None:
        text = Document(read_page.public()).text
        assert "PUBLIC. " in text
        assert "epsilon is at most 1 at delta = 5 × 10⁻⁷ (proved)." in text
        assert "right at most 54.6% of the time" in text
        assert "9052ef61d63219e0" in text
        assert "all iterates" not in text

    def test_shows_nothing_internal(self) -> None:
        for shown in (read_page.public(), page.markdown(public.page(samples.public_sample()))):
            text = re.sub(r' d="[^"]*"', "", shown)  # places of a drawing's lines are no numbers
            for word in ("INTERNAL", "88.4", "90.2", "50.5", "0.456", "0.872", "15.5", "canary"):
                assert word not in text
            prose = text.rpartition("</style>")[2]
            assert not re.search(r"accurac|estimate\b|observed", re.sub(r"var\(.*?\)", "", prose))

    def test_of_a_certificate_that_promises_nothing_says_so(self) -> None:
        text = Document(page.html(public.page(public_facts(_unpromised())))).text
        assert "Nothing is promised: " in text
        assert f"Why nothing is promised: {UNPROMISED}" in text

    def test_names_what_was_read_off_the_records(self) -> None:
        certificate = json.loads(samples.CERTIFICATE)
        certificate["preprocessing"]["reads"] = [EVIL]
        text = page.html(public.page(public_facts(certificate)))
        assert "<script" not in text
        assert words.NOT_COVERED in text
