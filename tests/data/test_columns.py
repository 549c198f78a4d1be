from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino.data.columns import Column, Columns
from sordino.data.frames import known_column
from sordino.errors import InvalidArgument

EXAMPLE = """
target = "income"
classes = ["<=50K", ">50K"]

[columns.age]
bounds = [0, 120]

[columns."native country"]
levels = ["Peru", "Côte d'Ivoire"]

[columns.grade]
levels = [1, 2, 2.5]

[columns.member]
levels = [false, true]

[columns.patient]
ignore = true
"""
DESCRIBED = Columns(
    "income",
    ("<=50K", ">50K"),
    {
        "age": Column(bounds=(0.0, 120.0)),
        "native country": Column(levels=("Peru", "Côte d'Ivoire")),
        "grade": Column(levels=(1, 2, 2.5)),
        "member": Column(levels=(False, True)),
        "patient": Column(ignore=True),
    },
)


def test_a_description_is_read(tmp_path: Path) -> None:
    file = tmp_path / "columns.toml"
    file.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.encode())  # as some editors save it
    assert Columns.from_file(file) == DESCRIBED
    assert Columns.from_toml("") == Columns(None, None, {})


def test_a_description_is_written_as_people_would() -> None:
    written = DESCRIBED.to_toml("Two\n\nlines", {"age": "In years."})
    assert written.startswith('# Two\n#\n# lines\ntarget = "income"\n')
    assert "[columns.age]\n# In years.\nbounds = [0, 120]\n" in written
    assert "levels = [false, true]" in written
    assert Columns.from_toml(written) == DESCRIBED


def test_a_draft_says_so_in_the_file() -> None:
    draft = replace(DESCRIBED, read_from_data=True)
    written = draft.to_toml("Heading", {"income": "Is it in dollars?"})
    assert "\nread_from_data = true\n\n# Is it in dollars?\ntarget = " in written
    assert "public knowledge.\nread_from_data = true" in written
    assert Columns.from_toml(written) == draft
    without = "\n".join(each for each in written.splitlines() if each != "read_from_data = true")
    assert Columns.from_toml(without) == DESCRIBED


def test_columns_keep_their_order_and_those_left_out_are_no_features() -> None:
    again = Columns.from_toml(DESCRIBED.to_toml())
    assert list(again.features) == ["age", "native country", "grade", "member"]
    assert again.ignored == ["patient"]


def test_long_lists_are_broken_into_lines() -> None:
    described = Columns(columns={"x": Column(levels=tuple(f"level, {i}" for i in range(100)))})
    written = described.to_toml()
    assert max(map(len, written.splitlines())) < 100
    assert written.count("\n") < 30
    assert Columns.from_toml(written) == described


_words = st.text(st.characters(exclude_categories=["Cs"])).map(str.strip).filter(bool)
_numbers = st.floats(-1e300, 1e300) | st.integers(-(2**60), 2**60)
_labels = st.one_of(
    st.lists(_words, min_size=2, unique=True),
    st.lists(_numbers, min_size=2, unique=True),
    st.just([False, True]),
).map(tuple)
_columns = st.one_of(
    st.tuples(st.floats(-1e300, 0), st.floats(1e-300, 1e300)).map(lambda b: Column(bounds=b)),
    _labels.map(lambda levels: Column(levels=levels)),
    st.just(Column(ignore=True)),
)


@given(
    _words, _labels, st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), _columns)
)
def test_what_is_written_is_read_back(target: str, classes: tuple, columns: dict) -> None:
    columns.pop(target, None)
    described = Columns(target, classes, columns, read_from_data=len(columns) % 2 == 1)
    assert Columns.from_toml(described.to_toml("# heading\r\nmore")) == described


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "targte = 'a'",
            "Expected key of the description=targte to be one of read_from_.* target?",
        ),
        ("[colums.age]", "Did you mean columns?"),
        ("[columns.age]\nbonds = [0, 1]", "key of column age=bonds .* Did you mean bounds?"),
        ("[columns.age]", r"column age=\[\] to have exactly one key. Give bounds"),
        ("[columns.age]\nbounds = [0, 1]\nignore = true", "to have exactly one key"),
        ("[columns]\nage = 3", "column age=3 to be a table"),
        ("columns = 3", r"columns=3 to be tables, such as \[columns.age\]"),
        ("read_from_data = 'yes'", "read_from_data=yes to be True or False"),
        ("target = 3", "target=3 to be the name of a column, in quotes"),
        ("[columns.age]\nbounds = [0]", r"bounds of column age=\[0\] to be two finite numbers"),
        ("[columns.age]\nbounds = [1, 1]", "two finite numbers"),
        ("[columns.age]\nbounds = [2, 1]", "two finite numbers"),
        ("[columns.age]\nbounds = [0, inf]", "bounds of column age=inf to be two finite numbers"),
        ("[columns.age]\nbounds = [nan, 1]", "to be two finite numbers"),
        ("[columns.age]\nbounds = [-1e308, 1e308]", "two finite numbers"),
        ("[columns.age]\nbounds = ['0', 1]", "bounds of column age=0 to be two finite numbers"),
        ("[columns.age]\nbounds = [false, true]", "to be two finite numbers"),
        ("[columns.age]\nignore = false", "ignore of column age=False to be true"),
        ("[columns.sex]\nlevels = []", "levels of column sex=.* to be a list of 1 or more"),
        ("[columns.sex]\nlevels = 'M'", "to be a list of 1 or more"),
        ("[columns.sex]\nlevels = ['M', 1]", "to be all words, all numbers, or true and false"),
        ("[columns.sex]\nlevels = [true, 1]", "to be all words, all numbers, or true and false"),
        (
            "[columns.sex]\nlevels = ['M', 'M']",
            "to be all different; number 2 stands there twice",
        ),
        (
            "[columns.sex]\nlevels = [1, 1.0]",
            "to be all different; number 2 stands there twice",
        ),
        ("[columns.sex]\nlevels = [' M']", "trimmed words"),
        ("[columns.sex]\nlevels = ['']", "trimmed words"),
        ("[columns.sex]\nlevels = [2020-01-01]", "trimmed words"),
        ("[columns.sex]\nlevels = [nan]", "or finite numbers"),
        ("classes = [1]", r"classes=\[1 of them\] to be a list of 2 or more"),
        ("target = 'y'\n[columns.y]\nignore = true", "columns=y not to describe the target"),
        ("target = ", "not valid TOML: .*at end of document"),
        ("[columns.a]\nignore=true\n[columns.a]\nignore=true", "not valid TOML: .*line 3"),
    ],
)
def test_what_is_not_understood_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence) as refused:
        Columns.from_toml(text)
    assert "\n" not in str(refused.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"that can be read \(No such file"):
        Columns.from_file(tmp_path / "none.toml")
    with pytest.raises(InvalidArgument, match=r"that can be read \(it is a directory"):
        Columns.from_file(tmp_path)
    (tmp_path / "latin.toml").write_bytes("target = 'Größe'".encode("latin-1"))
    with pytest.raises(InvalidArgument, match="it is not text in UTF-8"):
        Columns.from_file(tmp_path / "latin.toml")


def test_the_nearest_column_is_named() -> None:
    assert known_column("target", "age", ["age"]) == "age"
    with pytest.raises(InvalidArgument, match=r"target='agee' to be .* Did you mean age\?$"):
        known_column("target", "agee", ["age", "sex"])
    with pytest.raises(InvalidArgument, match=r"Did you mean Age\?$"):
        known_column("target", "age", ["Age", "sex"])
    # Whoever typed something else does not know them, and in a file without header they are cells.
    for names in (["age", "sex"], ["Smith", "63"], ["incoming; a note"]):
        with pytest.raises(InvalidArgument, match=r"Names .* not printed") as no:
            known_column("target", "income", names)
        assert not any(name in str(no.value) for name in names)
