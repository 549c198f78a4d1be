"""`study.json`: one spelling, one address, and a difference is named."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from sordino.errors import InvalidArgument
from sordino.study import StudyError
from sordino.study.document import Document


@pytest.fixture
def made(description, layout):
    return Document.of(description, layout)


def test_the_address_is_the_hash_of_everything_else(made, description, layout):
    plain = json.loads(made.encode())
    address = plain.pop("address")
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    assert address == made.address == hashlib.sha256(text.encode()).hexdigest()
    assert plain == {
        "schema": "sordino-study",
        "version": 1,
        "description": description,
        "layout": layout.to_plain(),
    }


def test_one_content_has_one_spelling(made, description, layout):
    turned = dict(reversed(description.items()))
    assert Document.of(turned, layout).encode() == made.encode()
    assert Document.of({"a": (1, 2)}, layout) == Document.of({"a": [1, 2]}, layout)
    assert Document.of({"a": np.float64(0.1)}, layout) == Document.of({"a": 0.1}, layout)
    assert Document.of({"a": np.int64(3)}, layout) == Document.of({"a": 3}, layout)
    assert Document.of({"a": 1}, layout).address != Document.of({"a": 2}, layout).address
    assert Document.of({"ä": "\ud800"}, layout).description == {"ä": "\ud800"}


def test_it_is_read_as_it_was_written(made, tmp_path):
    assert Document.read(tmp_path) is None
    (tmp_path / "study.json").write_bytes(made.encode())
    assert Document.read(tmp_path) == made


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"a": {"b": [1, float("nan")]}}, "The study's description.a.b[1] is nan, and no text, "),
        ({"a": {3}}, "The study's description.a is of type set, and no text, number, "),
        ({"a": {1: 2}}, "The study's description.a has the key 1, which is no text"),
        ([1], "Expected description=list to be a mapping"),
    ],
)
def test_what_json_cannot_hold_is_refused(layout, value, sentence):
    with pytest.raises(InvalidArgument) as refused:
        Document.of(value, layout)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        (lambda d: d["spec"].update(learning_rate=0.2),
         "description.spec.learning_rate is 0.1 there and 0.2 here"),
        (lambda d: d.update(dataset="sha256:abd"),
         'description.dataset is "sha256:abc" there and "sha256:abd" here'),
        (lambda d: d.pop("dataset"), 'description.dataset is "sha256:abc" there and absent here'),
        (lambda d: d.update(extra=None), "description.extra is absent there and null here"),
        (lambda d: d.update(dataset={"sha256": "abc"}),
         'description.dataset is "sha256:abc" there and {"sha256":"abc"} here'),
    ],
)  # fmt: skip
def test_a_difference_is_named(tmp_path, made, description, layout, change, clause):
    change(description)
    with pytest.raises(StudyError) as refused:
        made.check_same(tmp_path, Document.of(description, layout))
    assert str(refused.value) == (
        f"Expected study={tmp_path} to be of what is asked for, and {clause}. "
        "Pass another directory."
    )


def test_a_difference_of_layout_is_named(tmp_path, made, description, layout):
    for change, clause in (
        ({"steps": (10, 60)}, "layout.steps[1] is 50 there and 60 here."),
        ({"parameters": 4}, "layout.parameters is 3 there and 4 here."),
        ({"dtype": "float64"}, 'layout.dtype is "float32" there and "float64" here.'),
        ({"seed_edges": (0, 5)}, "layout.seed_edges has 4 entries there and 2 here."),
        ({"seeds": range(4), "seed_edges": (0, 2, 4)}, "layout.seeds has 5 entries there and 4 "),
    ):
        with pytest.raises(StudyError) as refused:
            made.check_same(tmp_path, Document.of(description, replace(layout, **change)))
        assert f"asked for, and {clause}" in str(refused.value)


def test_many_differences_are_counted(tmp_path, made, layout):
    other = Document.of(dict.fromkeys("abcde", 1), layout)
    with pytest.raises(StudyError, match=r"a is absent there and 1 here; and 4 more\."):
        made.check_same(tmp_path, other)


def test_true_is_not_one(tmp_path, layout):
    one, yes = Document.of({"a": 1}, layout), Document.of({"a": True}, layout)
    with pytest.raises(StudyError, match=r"description\.a is 1 there and true here"):
        one.check_same(tmp_path, yes)
    one.check_same(tmp_path, Document.of({"a": 1.0}, layout))


BAD = {
    "empty": (lambda text: b"", "it seems to be cut short"),
    "cut": (lambda text: text[: len(text) // 2], "it seems to be cut short"),
    "binary": (lambda text: b"\xff\x00" + text, "study.json is not a text in UTF-8"),
    "deep": (lambda text: b"[" * 10**5, "study.json is nested too deeply"),
    "twice": (lambda text: text.replace(b"{", b'{"version": 1,', 1), "has the key 'version' twice"),
    "spelled": (lambda text: text.replace(b"sha256:abc", "sha256:\u00e4".encode()), "was changed"),
    "foreign": (lambda text: b'{"name": "x"}', "is no sordino-study"),
    "list": (lambda text: b"[]", "is no sordino-study"),
    "newer": (lambda text: text.replace(b'"version": 1', b'"version": 2'), "a newer sordino wrote"),
    "digit": (lambda text: text.replace(b"0.1", b"0.3"), "study.json was changed"),
    "address": (lambda text: text.replace(b'"address": "', b'"address": "0'), "was changed"),
    "key": (lambda text: text.replace(b'"schema"', b'"other": 1, "schema"'), "was changed"),
    "layout": (lambda text: text.replace(b'"steps"', b'"stepz"'), "study.json lacks"),
    "value": (lambda text: text.replace(b'"float32"', b'"float8"'), "study.json lacks"),
    "no layout": (lambda text: text.replace(b'"layout"', b'"l"'), "study.json lacks"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_file_that_is_not_as_written_is_refused(tmp_path, made, kind):
    spoil, sentence = BAD[kind]
    (tmp_path / "study.json").write_bytes(spoil(made.encode()))
    with pytest.raises(StudyError) as refused:
        Document.read(tmp_path)
    assert str(refused.value).startswith(f"Expected study={tmp_path} to ")
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
