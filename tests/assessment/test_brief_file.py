from __future__ import annotations

import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest

from sordino.assessment.brief import Brief
from sordino.errors import InvalidArgument

FULL = Brief(
    data="people.csv",
    target='the "target"',
    classes=["no, never", "yes"],
    data_norm=2.0,
    data_dir="raw",
    model="svm",
    method="rsgd-ar",
    l2=1e-4,
    epsilon=0.5,
    delta=1e-7,
    max_rows_per_person=3,
    effort="thorough",
    seeds=20,
    neighbours=2,
    audit_runs=64,
    confidence=0.95,
    read_from_data=True,
    described={
        "age": {"bounds": [0, 120.5]},
        "über \\ sex.x": {"levels": ["f", "a\x7f\nb"]},
        "id": {"ignore": True},
    },
)


@pytest.mark.parametrize(
    "brief",
    [
        Brief(),
        FULL,
        Brief(data="t.csv", target="y", columns="c.toml"),
        Brief(mechanism="mine.py:train", pair="package.mine:pair", epsilon=3, delta=1e-5),
    ],
)
def test_a_written_study_asks_the_same_from_everywhere(
    brief: Brief, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, here = brief.to_toml(), Path.cwd()
    path = tmp_path / "study.toml"
    path.write_text(text, encoding="utf-8")
    again = Brief.from_file(path)
    assert brief.differences(again) == []
    monkeypatch.chdir(tmp_path)
    assert Brief.from_file("study.toml") == again
    assert again.data == (str(here / brief.data) if brief.data.endswith("csv") else brief.data)
    # All but the places of files is equal.
    places = {name: getattr(brief, name) for name in ("data", "data_dir", "columns", "mechanism")}
    assert replace(again, **places) == brief


def test_the_template_asks_what_nothing_asks_and_explains_every_setting() -> None:
    template = Brief.template()
    assert Brief.from_toml(template) == Brief()
    keys = set(re.findall(r"^#?([a-z_0-9]+) = ", template, re.MULTILINE))
    names = {each.name for each in fields(Brief)} - {"described"}
    assert names - keys == set()
    assert keys - names == {"bounds", "levels", "ignore"}
    # What can have a value without being said has it, the others are examples.
    assert set(tomllib.loads(template)) == {
        name for name in names if getattr(Brief(), name) is not None and name != "read_from_data"
    }


@pytest.mark.parametrize(
    ("data", "examples"),
    [
        ("people.csv", r"target|classes|data_norm|data_dir|delta|seeds|neighbours|audit_runs"),
        ("people.csv", r"columns"),
        ("people.csv", r"read_from_data|bounds|levels|ignore|\[.*"),
        ("digits/binary", r"mechanism|pair"),
    ],
)
def test_the_examples_of_the_template_are_right(data: str, examples: str) -> None:
    text = re.sub(rf"^#({examples})(?= = |$)", r"\1", Brief.template(), flags=re.MULTILINE)
    assert text != Brief.template()
    brief = Brief.from_toml(text.replace("digits/binary", data))
    assert brief != Brief(data=data)
    if "data_norm" in examples:
        assert replace(brief, seeds=None, neighbours=None, audit_runs=None) == Brief(
            *(data, "ill", ("no", "yes"), 1.0, "raw"), delta=1e-6
        )
        assert brief.differences(replace(brief, seeds=None, neighbours=None, audit_runs=None)) == []
    if "bounds" in examples:
        assert list(brief.public_columns().columns) == ["age", "sex", "patient"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("epsilom = 1", "Expected key of the study=epsilom to be one of data, target, "),
        ("epsilom = 1", "Did you mean epsilon? `sordino assess --write-study` explains them."),
        ("audit-runs = 100", "Did you mean audit_runs?"),
        ("[column.age]\nbounds = [0, 1]", "Did you mean columns?"),
        ("described = {}", "Expected key of the study=described to be one of"),
        ("[columns.age]\nbonds = [0, 1]", "key of column age=bonds to be one of bounds, levels, "),
        ("[columns.age]\nbounds = [0, '1']", "bounds of column age=1 to be finite numbers."),
        ("[columns.age]\nbounds = 2020-01-01", "bounds of column age=2020-01-01 to be [low, high]"),
        ("[columns]\nage = 3", "Expected column age=3 to be a table."),
        ("columns = 3", "Expected columns=3 to be the name of a file, or tables."),
        (
            "[columns.age]\nbounds = [0, 1]\nepsilon = 2",
            "Expected the key epsilon to stand above the first [columns.NAME]. Below it, it belongs"
            " to column age.",
        ),
        ("epsilon = 'one'", "Expected epsilon='one' to be a number."),
        ("seeds = 20.5", "Expected seeds=20.5 to be a whole number >= 20."),
        ("model = 1", "Expected model=1 to be one of logistic, svm, mlp."),
        ("data = ['adult']", "Expected data=['adult'] to be text."),
        ("read_from_data = 'yes'", "Expected read_from_data=yes to be True or False."),
        (
            "l2 = 0\nepsilon = ?",
            "The study is not valid TOML: Invalid value (at line 2, column 11).",
        ),
        ("epsilon = 1\nepsilon = 2", "The study is not valid TOML: Cannot overwrite a value"),
    ],
)
def test_what_is_wrong_in_a_study_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Brief.from_toml(text)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    for path, why in (
        (tmp_path / "none.toml", "(No such file or directory). `sordino assess --write-study >"),
        (tmp_path, "(it is a directory, not a file)"),
        (binary, "(it is not text in UTF-8)"),
    ):
        with pytest.raises(InvalidArgument) as refused:
            Brief.from_file(path)
        assert str(refused.value).startswith(f"Expected study={path} to be ")
        assert why in str(refused.value)


def test_files_are_looked_for_beside_the_study(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub" / "table").mkdir(parents=True)
    study = Path("sub/study.toml")

    def read(text: str) -> Brief:
        study.write_text(text)
        return Brief.from_file(study)

    found = read('data = "t.csv"\ncolumns = "c.toml"\ndata_dir = "raw"\ntarget = "y.z"')
    assert (found.data, found.columns, found.data_dir) == ("sub/t.csv", "sub/c.toml", "sub/raw")
    assert found.target == "y.z"
    assert read('data = "/abs/t.csv"').data == "/abs/t.csv"
    # A dataset's name comes first, a directory that is there is a mistake that is said later.
    assert read('data = "adult"').data == "adult"
    assert read('data = "adlut"').data == "adlut"
    assert read('data = "table"').data == "sub/table"
    mine = read('mechanism = "mine.py:train"\npair = "package.mine:pair"')
    assert (mine.mechanism, mine.pair) == ("sub/mine.py:train", "package.mine:pair")
