"""What cannot be assessed: one sentence each, and nothing is written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from sordino.assessment.request import Request
from sordino.data import DataError, table_file
from sordino.data.source import LEAST_ROWS, held_out
from sordino.errors import InvalidArgument, PrivacyLeakWarning

ROWS = "".join(f"{i % 70 + 20},{'fm'[i % 2]},{'no' if i % 3 else 'yes'}\n" for i in range(100))
SECRET = "Xylophon"


@pytest.fixture
def csv(tmp_path: Path):
    def write(text: str | bytes, name: str = "people.csv") -> str:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def refusal(kind: type[Exception], **given: object) -> str:
    """The sentence with which a request, its records or their split is refused."""
    target = {"target": "ill"} if "target" not in given else {}
    data = Path(str(given["data"]))
    there = sorted(os.listdir(data.parent))
    with pytest.raises(kind) as refused:
        held_out(Request(**given, **target).source().read())
    assert sorted(os.listdir(data.parent)) == there
    sentence = str(refused.value)
    assert "\n" not in sentence
    assert SECRET not in sentence
    return sentence


class TestUsage:
    """Refused as arguments."""

    def test_a_target_that_is_not_there(self, csv) -> None:
        said = refusal(InvalidArgument, data=csv(f"age,sex,ill\n{ROWS}"), target="il")
        assert said == "Expected target='il' to be a column of the table. Did you mean ill?"

    def test_no_target(self, csv) -> None:
        said = refusal(InvalidArgument, data=csv(f"age,sex,ill\n{ROWS}"), target=None)
        assert said.startswith("Expected --target COLUMN")

    def test_a_directory(self, tmp_path: Path) -> None:
        (tmp_path / "people.csv").mkdir()
        for place in (tmp_path / "people.csv", tmp_path):
            said = refusal(InvalidArgument, data=place)
            assert said == f"Expected data={place} to be a file, not a directory."

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        said = refusal(InvalidArgument, data=tmp_path / "none.csv")
        assert said == f"Expected data={tmp_path / 'none.csv'} to exist."

    def test_a_name_of_no_dataset(self) -> None:
        with pytest.raises(InvalidArgument, match=r"Did you mean adult.*Or pass a file that ends"):
            Request(data="adlut").source()

    def test_what_a_dataset_brings_itself(self) -> None:
        with pytest.raises(InvalidArgument, match=r"--columns=\[...\] to be left out for dig"):
            Request(described={"age": {"bounds": [0, 1]}}).source()

    def test_a_described_column_that_is_not_there(self, csv) -> None:
        described = {"agee": {"bounds": [0, 120]}}
        said = refusal(InvalidArgument, data=csv(f"age,sex,ill\n{ROWS}"), described=described)
        assert said == "Expected columns='agee' to be a column of the table. Did you mean age?"

    @pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
    def test_ten_rows(self, csv) -> None:
        lines = ROWS.splitlines(keepends=True)
        said = refusal(InvalidArgument, data=csv("age,sex,ill\n" + "".join(lines[:10])))
        assert said.startswith(f"Expected rows=10 >= {LEAST_ROWS}. 20 % are held out to test")
        refusal(InvalidArgument, data=csv("age,sex,ill\n" + "".join(lines[: LEAST_ROWS - 1])))
        enough = csv("age,sex,ill\n" + "".join(lines[:LEAST_ROWS]))
        held_out(Request(data=enough, target="ill").source().read())

    @pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
    def test_one_class_only_where_two_are_declared(self, csv) -> None:
        data = csv("age,sex,ill\n" + ROWS.replace("yes", "no"))
        said = refusal(InvalidArgument, data=data, classes="no,yes")
        assert said == "Expected labels=[80 records] to be of more than one class."


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "{data} is empty."),
        ("age,sex,ill\n", "{data} has no rows."),
        (b"\x7fELF\0\0\1\2", "{data} is not a text file."),
        (b"\x89PNG\r\n\xff\xd8", "{data} is not text in UTF-8."),
        (f"age,age,ill\n{ROWS}", "{data} has one name twice: in columns 1, 2."),
        (f"ill\n{'no,yes,'.replace(',', chr(10)) * 30}", "{data} has no column but the target"),
        (
            "age,sex,ill\n" + ROWS.replace("f", SECRET).replace("m", SECRET),
            "Column 2 of the file has one value only. Describe it, or: Leave it out in a "
            "file of columns (ignore = true).",
        ),
        (
            "age,sex,ill\n" + "7,f,no\n7,m,yes\n" * 30,
            "Column 1 of the file has one value only. Describe it, or: Leave it out in a "
            "file of columns (ignore = true).",
        ),
        (
            "age,sex,ill\n" + ROWS.replace("yes", SECRET).replace("no", SECRET),
            "Column ill is the target and has one class only. Give the classes there can be.",
        ),
        (
            f"age,sex,ill\n{ROWS}30,f,NaN\n",
            "Column ill is the target and has no label in row 101. Drop the row.",
        ),
        (
            "age,sex,ill\n" + "".join(f"{i},{'fm'[i % 2]},{SECRET}{i}\n" for i in range(60)),
            "Column ill is the target and has hardly a label twice (an identifier?).",
        ),
        (
            "age,sex,ill\n" + "".join(f"{i},{'fm'[i % 2]},{i}\n" for i in range(60)),
            "Column ill is the target and has hardly a label twice (an identifier?).",
        ),
        (
            "age,sex,ill\n" + "".join(f"{i},{'fm'[i % 2]},{i}\n" for i in range(2000)),
            "Column ill is the target and holds numbers that are no classes.",
        ),
        (
            "age,sex,ill\n" + "".join(f"{i},{SECRET}{i},{i % 2}\n" for i in range(60)),
            "Column 2 of the file has another word in every row (an identifier?). Describe it",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
def test_content_that_cannot_be_used(csv, content, sentence: str) -> None:
    data = csv(content)
    assert refusal(DataError, data=data).startswith(sentence.format(data=data))


def _categories(number: int) -> str:
    return "age,sex,ill\n" + "".join(
        f"{i % 90},{SECRET}{i * 7 % number},{i % 2}\n" for i in range(number)
    )


@pytest.mark.parametrize("number", [3_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_too_many_categories_never_become_columns(csv, monkeypatch, number: int) -> None:
    def built(*_: object) -> None:
        pytest.fail("columns were built")

    monkeypatch.setattr(table_file, "encoded", built)
    path = csv(_categories(number))
    assert refusal(DataError, data=path) == (
        "Column 2 of the file has more than 1,000 different words. Describe it, or: Leave it out "
        "in a file of columns (ignore = true). Draft one: `sordino data describe "
        f"{path} --target ill > columns.toml`, and pass --columns columns.toml."
    )


def test_the_way_out_of_a_column_that_cannot_be_used(csv) -> None:
    described = {"sex": {"ignore": True}, "age": {"bounds": [0, 120]}}
    asked = {"target": "ill", "classes": "0,1", "described": described}
    prepared = Request(data=csv(_categories(3_000)), **asked).source().read()
    assert list(prepared.X.columns) == ["age"]
    assert prepared.notes[0] == "left out: column sex"
    assert prepared.reads_private_data == ()
    # A constant column is no harm where its bounds are public knowledge.
    constant = csv("age,sex,ill\n" + "30,f,0\n30,m,1\n" * 30)
    assert set(Request(data=constant, **asked).source().read().X["age"]) == {0.25}


def test_notes_say_what_happens_to_odd_cells(csv) -> None:
    described = {"age": {"bounds": [0, 100]}, "sex": {"levels": ["f", "m"]}}
    asked = {"target": "ill", "classes": "no,yes", "described": described, "data_norm": 2}
    odd = csv(f"age,sex,ill\n{ROWS},,no\n250,x,yes\n")
    prepared = Request(data=odd, **asked).source().read()
    np.testing.assert_array_equal(prepared.X.to_numpy()[-2:], [[0.5, 0, 0], [1, 0, 0]])
    assert prepared.notes == (
        "numbers are scaled to [0, 1] within their bounds, missing ones to the middle",
        "levels become 0/1 columns, all zero for missing and unknown ones",
        "rows longer than 2, the intercept's 1 included, are scaled down to that norm",
    )
    assert prepared.classes == ["no", "yes"]
    assert prepared.advice == ""
    assert '[columns.sex]\nlevels = ["f", "m"]' in prepared.description


def test_a_draft_in_the_study_is_a_leak_that_is_said(csv) -> None:
    described = {"age": {"bounds": [20, 89]}, "sex": {"levels": ["f", "m"]}}
    asked = {"target": "ill", "classes": "no,yes", "described": described, "read_from_data": True}
    with pytest.warns(PrivacyLeakWarning, match="delete read_from_data = true"):
        prepared = Request(data=csv(f"age,sex,ill\n{ROWS}"), **asked).source().read()
    (leak,) = prepared.reads_private_data
    assert leak.startswith(
        "minimum and maximum of column 1 of the file, levels of column 2 of the file, which classes"
    )
    assert prepared.advice.startswith("The study is a draft: correct it")
    assert prepared.description == ""


class TestHeldOut:
    """Which rows are kept for the test."""

    def test_a_fifth_of_a_file_by_position_alone(self, csv) -> None:
        described = {"age": {"bounds": [0, 120]}, "sex": {"levels": ["f", "m"]}}
        asked = {"target": "ill", "classes": "no,yes", "described": described}
        first = Request(data=csv(f"age,sex,ill\n{ROWS}"), **asked).source().read()
        train, test_X, test_y = held_out(first)
        X, y = train.X, train.y
        assert (len(X), len(y), len(test_X), len(test_y)) == (80, 80, 20, 20)
        positions = [*X.index, *test_X.index]
        assert sorted(positions) == list(range(100))
        assert positions != sorted(positions)
        np.testing.assert_array_equal(y, first.y[X.index])
        np.testing.assert_array_equal(test_y, first.y[test_X.index])
        # Other records, other labels: the same places.
        others = csv("age,sex,ill\n" + "1,f,no\n2,f,no\n3,m,no\n4,m,yes\n" * 25, "others.csv")
        again = held_out(Request(data=others, **asked).source().read())
        assert list(again[0].X.index) == list(X.index)

    def test_a_dataset_has_its_own(self) -> None:
        prepared = Request().source().read()
        train, test_X, test_y = held_out(prepared)
        assert train is prepared
        assert test_X is prepared.test.X
        assert test_y is prepared.test.y
