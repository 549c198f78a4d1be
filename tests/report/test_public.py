from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import sample_assessment as samples

from sordino.release.certificate import SCHEMA, VERSION, Certificate
from sordino.report import public, schema
from sordino.report.blocks import Facts
from sordino.report.document import DocumentError
from sordino.report.public import PublicBound, PublicFacts, public_facts
from sordino.report.sections import certificate as sections

UNPROMISED = "random_state was set: the noise can be drawn again"


@pytest.fixture
def facts() -> PublicFacts:
    return samples.public_sample()


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema.public_schema())
    return jsonschema.Draft202012Validator(schema.public_schema())


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
    assert (public.CERTIFICATE_SCHEMA, public.CERTIFICATE_VERSION) == (SCHEMA, VERSION)
    assert set(public.CERTIFICATE_KEYS) == set(json.loads(certificate.to_json()))


def test_what_the_page_asks_for_is_what_the_certificate_says(facts):
    assert facts.rows == 1294
    assert facts.facts["schedule"].startswith("38 steps")
    assert facts.relation_means.startswith("one record is exchanged")
    assert facts.delta_means.startswith("nobody learns more")
    assert facts.why_none == ""


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
    }
    header = {"schema": "sordino-assessment-public", "version": 1, "internal": False}
    allowed = {**header, "certificate": json.loads(samples.CERTIFICATE), "computed": given}
    assert dict(_leaves(json.loads(public.dumps(facts)))) == dict(_leaves(allowed))


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
    definitions = set(schema.public_schema()["$defs"])
    assert definitions == {"Curve", "PublicBound", "PublicComputed", "number"}


def test_a_certificate_with_something_of_its_own_is_refused(facts):
    values = {**facts.certificate, "accuracy": 0.88}
    with pytest.raises(DocumentError, match="certificate has 'accuracy', which is no part of it"):
        public_facts(values)


def test_a_certificate_without_a_promise_has_nothing_computed(validator):
    facts = public_facts(json.dumps(_unpromised()))
    assert (facts.guarantee, facts.why_none, facts.computed.best_guess) == (None, UNPROMISED, 1.0)
    assert facts.relation_means == ""
    validator.validate(json.loads(public.dumps(facts)))
    with pytest.raises(ValueError, match="promises nothing"):
        public_facts(_unpromised(), best_guess=0.6)
    with pytest.raises(ValueError, match="promises nothing"):
        public_facts(_unpromised(), tradeoff=samples.tradeoff(1.0))


def test_a_best_guess_is_no_worse_than_a_coin():
    with pytest.raises(ValueError, match="coin"):
        public_facts(samples.CERTIFICATE, best_guess=0.4)


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
    with pytest.raises(DocumentError, match=r"computed cannot be right\. .*promises nothing"):
        public.loads(json.dumps(values))


def test_a_person_with_several_records_is_not_promised_about_one(facts):
    certificate = dict(facts.certificate)
    certificate["guarantee"] = {**certificate["guarantee"], "unit": "3 records of one person"}
    person = dataclasses.replace(facts, certificate=certificate)
    for found, change in ((facts, "one record is"), (person, "for each of these records, one")):
        (said,) = (
            text
            for block in sections._promise(found).blocks
            if isinstance(block, Facts)
            for name, text in block.pairs
            if name == "Against which change"
        )
        assert said.startswith(change)
