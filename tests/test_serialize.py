"""The one codec: what it writes comes back, and whatever else it is given is one sentence."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino import serialize
from sordino.serialize import Forms, RecordForm, SettingForm, Tagged, Tree, Unfit, Whole, listed

SECRET = "Smith, 1948"


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    share: float
    label: str | None = None


@dataclass(frozen=True)
class Outer:
    """All that a hint can say.

    Parameters
    ----------
    count
        How many.
    """

    count: int
    number: float
    text: str
    truth: bool
    colour: Colour
    word: Literal["a", "b"]
    pair: tuple[int, float]
    inner: tuple[Inner, ...]
    table: Mapping[str, float]
    setting: str | int | float | bool | None
    later: str = field(default="new", metadata={"added": "in version 2"})


FORM = Forms().of(Outer)
VALUE = Outer(
    *(3, math.inf, "t", True, Colour.BLUE, "b", (1, 0.1)),
    *((Inner(0.5), Inner(1e-300, "x")), {"one": 1.5}, math.inf),
)
PLAIN = FORM.write(VALUE)


def sentence(form, plain) -> str:
    with pytest.raises(Unfit) as refused:
        form.read(plain)
    found = refused.value.sentence("document")
    assert SECRET not in found
    assert found.startswith("The document")
    assert found.isprintable()
    assert len(found) < 400
    return found


def test_what_is_written_comes_back_through_json():
    assert PLAIN["number"] == "inf"
    assert PLAIN["setting"] == {"number": "inf"}
    assert FORM.read(serialize.parse(json.dumps(PLAIN, allow_nan=False))) == VALUE
    earlier = {name: each for name, each in PLAIN.items() if name != "later"}
    assert FORM.read(earlier) == VALUE


class Word(enum.StrEnum):
    T = "t"


def test_a_text_of_an_enum_is_written_as_a_text():
    written = FORM.write(dataclasses.replace(VALUE, text=Word.T, setting=Word.T))
    assert [type(written[name]) for name in ("text", "setting")] == [str, str]


def test_numbers_of_numpy_are_pythons():
    numpy = dataclasses.replace(
        VALUE, count=np.int64(3), truth=np.True_, pair=(np.int8(1), np.float64(0.1))
    )
    assert json.dumps(FORM.write(numpy)) == json.dumps(PLAIN)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"count": True}, "The document's count is True, and no whole number."),
        ({"count": 3.0}, "The document's count is 3.0, and no whole number."),
        ({"number": SECRET}, "The document's number is a text, and no number."),
        ({"number": math.nan}, "The document's number is nan, and no number."),
        ({"number": 2**53 + 1}, "The document's number is 9007199254740993, and no number."),
        ({"number": 10**5000}, "The document's number is too large, and no number."),
        ({"truth": 1}, "The document's truth is 1, and no truth (true or false)."),
        ({"colour": "green"}, "The document's colour is 'green', and none of red, blue."),
        ({"pair": [1]}, "The document's pair has 1 entries, and not 2."),
        ({"inner": [{"share": 0.5}]}, "The document's inner[0] has no 'label'."),
        ({"inner": SECRET}, "The document's inner is a text, and no list."),
        ({"table": {"a": [SECRET]}}, "The document's table.a is a list, and no number."),
        ({"setting": [SECRET]}, "The document's setting is a list, and no text, number, truth"),
        ({"cuont": 3}, "The document has 'cuont', which is no part of it; did you mean count."),
        ({"\x1b[2J": 3}, "The document has '\\x1b[2J', which is no part of it."),
    ],
)
def test_each_mistake_is_one_sentence_with_its_place(change, said):
    assert sentence(FORM, {**PLAIN, **change}).startswith(said)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.just(SECRET),
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside, max_size=3)
    ),
    max_leaves=6,
)


@given(st.sampled_from(sorted(PLAIN)), junk)
def test_a_damaged_document_is_refused_or_means_what_it_says(name, wrong):
    damaged = {**PLAIN, name: wrong}
    try:
        found, said = FORM.read(damaged), ""
    except Unfit as unfit:
        found, said = None, unfit.sentence("document")
    assert SECRET not in said or name in ("colour", "word")
    assert said or FORM.write(found) == damaged


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_bytes_are_parsed_or_refused(content):
    try:
        found = serialize.parse(content)
    except Unfit:
        return
    assert serialize.parse(json.dumps(found, allow_nan=False)) == found


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"a": 1, "a": 1}', "has the key 'a' twice"),
        ('{"b": {"a": 1, "a": 1}}', "has the key 'a' twice"),
        ("[NaN]", "holds NaN"),
        ("[-Infinity]", "holds -Infinity"),
        ("[1e999]", "too large"),
        ("[" + "9" * 41 + "]", "too large"),
        ("[" * 100_000, "nested too deeply"),
        (b"\xff", "not a text in UTF-8"),
        ('{"a": 1', "cut short"),
        (" " * 2**20 + "   ", "larger than 1 MB"),
    ],
)
def test_what_is_no_strict_json_is_refused(content, said):
    with pytest.raises(Unfit, match=said):
        serialize.parse(content, 2**20)


def test_a_header_is_looked_at_first():
    assert serialize.headed({"schema": "s", "version": 1}, "s", 1)["version"] == 1
    for version, said in ((2, "a newer sordino"), (0, "reads 1"), (True, "True"), ("1", "a text")):
        with pytest.raises(Unfit, match=said):
            serialize.headed({"schema": "s", "version": version}, "s", 1)


def test_kinds_may_stand_in_each_other_so_deep_and_no_deeper():
    kinds: dict[str, RecordForm] = {}
    form = Tagged(kinds, 3)
    kinds["inner"] = RecordForm(Inner, {"share": Whole(least=0, most=9), "label": listed(form)})
    plain: dict = {"kind": "inner", "share": 1, "label": []}
    for _ in range(3):
        plain = {"kind": "inner", "share": 1, "label": [plain]}
    form.read(plain)
    deeper = {"kind": "inner", "share": 1, "label": [plain]}
    assert sentence(form, deeper) == (
        "The document is nested more than 3 deep; compose in one list."
    )
    assert "none of inner" in sentence(form, {"kind": "outer"})
    assert "share is 10, and not from 0 to 9" in sentence(form, {**plain, "share": 10})


def test_what_follows_from_the_rest_must_be_so():
    form = Forms().record(Inner, derived={"twice": lambda made: 2 * made.share})
    plain = form.write(Inner(0.25))
    assert plain == {"share": 0.25, "label": None, "twice": 0.5}
    assert form.read(plain) == Inner(0.25)
    assert "twice is something else" in sentence(form, {**plain, "twice": 1})


def test_files_by_hand_may_leave_out_what_has_a_default():
    assert Forms(by_hand=True).of(Inner).read({"share": 1}) == Inner(1.0)


def test_trees_and_settings_keep_types():
    tree = {"a": [1, 1.0, True, None, "x", {"b": np.arange(2)}]}
    assert Tree(tuple).write(tree) == {"a": (1, 1.0, True, None, "x", {"b": (0, 1)})}
    assert Tree().write({"a": np.float64(1.5), "b": np.int64(2)}) == {"a": 1.5, "b": 2}
    assert "a is of type ndarray" in sentence(Tree(), {"a": np.array(1.0)})
    assert "a[0] is inf" in sentence(Tree(), {"a": [math.inf]})
    assert "has the key 1" in sentence(Tree(), {1: 2})
    assert "no text" in sentence(SettingForm(null=False), None)


texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.booleans(), st.dictionaries(texts, texts | st.lists(st.integers(-(2**63), 2**63 - 1))))
def test_toml_comes_back(escaped, values):
    lines = [
        f"{serialize.toml_key(name, escaped=escaped)} = {serialize.toml(each, escaped=escaped)}"
        for name, each in values.items()
    ]
    assert tomllib.loads("\n".join(lines)) == values
    with pytest.raises(Unfit):
        serialize.toml(object())


def test_a_schema_has_the_words_of_the_docstring():
    used: dict = {}
    assert FORM.schema(used) == {"$ref": "#/$defs/Outer"}
    assert used["Outer"]["description"] == "All that a hint can say."
    assert used["Outer"]["properties"]["count"] == {"description": "How many.", "type": "integer"}
    assert "later" not in used["Outer"]["required"]


def test_a_key_that_stands_twice_is_found_in_one_pass() -> None:
    keys = ", ".join(f'"{number}": 0' for number in (*range(100_000), 99_999))
    with pytest.raises(Unfit, match="99999"):
        serialize.parse(f"{{{keys}}}")
