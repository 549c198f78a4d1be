from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pytest

from sordino.report import public, result
from sordino.report.result import Measure, Plain


@pytest.mark.parametrize("name", public.schemas())
def test_the_written_schema_is_the_one_of_the_dataclasses(name):
    # After a change: python -m sordino.report.public, and ask whether the version must grow.
    written = Path(public.__file__).with_name(name).read_text(encoding="utf-8")
    assert written == public.schemas()[name]


def test_every_type_of_an_assessment_has_words_in_the_schema():
    definitions = json.loads(public.schemas()["assessment.schema.json"])["$defs"]
    assert {"Guarantee", "Estimate", "Observation", "Curve", "Attack"} < set(definitions)
    assert all(each["description"] for each in definitions.values())
    attack = definitions["Attack"]["properties"]
    assert attack["reach"]["description"].startswith("The largest epsilon that so many runs")


def test_the_schema_follows_the_dataclass():
    @dataclasses.dataclass(frozen=True)
    class Changed(Measure):
        kind: Literal["a", "b"] = "a"
        table: Mapping[str, Plain] = dataclasses.field(default_factory=dict)

    # Types of a class made in a function are not found by their names.
    Changed.__annotations__ = {"kind": Literal["a", "b"], "table": Mapping[str, Plain]}
    made = result.FORMS.record(Changed).properties({})
    assert made["kind"] == {"enum": ["a", "b"]}
    assert made["table"]["additionalProperties"] == {"$ref": "#/$defs/plain"}
    assert set(made) == {"value", "low", "high", "level", "kind", "table"}
