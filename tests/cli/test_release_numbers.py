"""`sordino release --model ridge`: a target that is a number, within public bounds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sordino
from sordino.data.columns import Columns
from sordino.data.table_file import rows
from sordino.errors import InvalidArgument
from sordino.release import bundle
from sordino.release.certificate import CertificateError
from sordino.release.verify import verify

COLUMNS = """\
target = "wage"
bounds = [0, 60]

[columns.age]
bounds = [0, 100]

[columns.sex]
levels = ["F", "M"]
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Ages that tell wages nearly; one wage is far beyond the bounds."""
    draws = np.random.default_rng(3)
    path, n = tmp_path / "people.csv", 3000
    age = draws.integers(20, 70, size=n)
    wage = (5 + 0.5 * age + draws.normal(0, 2, size=n)).round(2)
    wage[17] = 7123.0
    frame = pd.DataFrame({"age": age, "sex": draws.choice(["F", "M"], size=n), "wage": wage})
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def described(tmp_path: Path) -> Path:
    path = tmp_path / "columns.toml"
    path.write_text(COLUMNS)
    return path


def test_a_described_file_leaks_nothing_beside_the_model(
    program, tmp_path, table, described
) -> None:
    out = tmp_path / "model"
    given = ("--data", table, "--columns", described, "--data-norm", 1.5, "--model", "ridge")
    code, text, err = program("release", *given, "--epsilon", 4, "--out", out)
    assert code == 0
    assert "which predict a number" in text
    assert "Targets: cut to 0 to 60, and so are predictions" in text
    assert "Warning" not in err
    assert "7123" not in text + err + (out / "certificate.json").read_text()
    certificate = bundle.read(out).certificate
    assert certificate.model.estimator == "PrivateRidge"
    assert (certificate.model.labels, certificate.model.problems) == ((), 1)
    assert certificate.preprocessing.declared
    assert Columns.from_toml(certificate.preprocessing.columns).bounds == (0, 60)
    model, people = sordino.load(out), pd.read_csv(table).drop(index=17)
    prepared = rows(people, Columns.from_toml(certificate.preprocessing.columns))
    assert model.score(prepared, people["wage"]) > 0.6
    code, text, _ = program("certificate", "verify", out)
    assert code == 0
    assert "The claim follows from the recorded numbers" in text


def test_bounds_on_the_command_line_and_a_dry_run(program, table, tmp_path) -> None:
    given = ("--data", table, "--target", "wage", "--target-bounds", "0,60", "--model", "ridge")
    code, text, err = program("release", *given, "--epsilon", 1, "--dry-run", "--json")
    assert code == 0
    assert json.loads(text)["model"] == "PrivateRidge"
    assert "Not private: minimum and maximum of column 1" in err
    code, text, _ = program(
        "release", *given, "--epsilon", 1, "--method", "statistics", "--dry-run"
    )
    assert code == 0
    assert "by method statistics" in text
    assert "on every entry" in text


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--model ridge", "--target-bounds LOW,HIGH"),
        ("--target-bounds 0,60", "to be ridge"),
        ("--model svm --target-bounds 0,60", "to be ridge"),
        ("--model ridge --target-bounds 60,0", "LOW,HIGH"),
        ("--model ridge --target-bounds 0", "LOW,HIGH"),
        ("--model ridge --target-bounds 0,inf", "LOW,HIGH"),
        ("--model ridge --target-bounds low,high", "LOW,HIGH"),
        ("--model ridge --target-bounds 0,60 --classes a,b", "not both"),
        ("--model ridge --target-bounds 0,60 --method objective", "statistics, noisy-gd"),
        ("--model ridge --target-bounds 0,60 --method none", "statistics, noisy-gd"),
        ("--method statistics", "method=statistics"),
    ],
)
def test_usage_is_checked_before_anything_is_read(
    program, table, options, sentence, monkeypatch
) -> None:
    def read(*_: object, **__: object) -> None:
        raise AssertionError("records were read")

    monkeypatch.setattr("sordino.data.table_file.read", read)
    given = ("--data", table, "--target", "wage", "--epsilon", 1, "--dry-run")
    code, text, err = program("release", *given, *options.split())
    assert (code, text) == (2, "")
    assert sentence in err


@pytest.mark.parametrize("options", [("--data", "breast-cancer", "--model", "ridge")])
def test_a_dataset_of_classes_is_none_of_numbers(program, options) -> None:
    code, _, err = program("release", *options, "--epsilon", 1, "--dry-run")
    assert code == 2
    assert "it has classes" in err


@pytest.mark.parametrize("command", ["assess", "measure"])
def test_commands_about_classes_say_so(program, table, described, tmp_path, command) -> None:
    out = tmp_path / "study"
    code, _, err = program(command, "--data", table, "--columns", described, "--out", out)
    assert code != 0
    assert "sordino release --model ridge" in " ".join(err.split())
    assert not out.exists()


@pytest.mark.parametrize("cell", ["", "much", "inf"])
def test_a_target_without_a_number_is_told_by_its_row(program, tmp_path, described, cell) -> None:
    path = tmp_path / "people.csv"
    people = [f"{20 + i % 40},F,{20 + i}" for i in range(60)]
    people[7] = f"71,M,{cell}"
    path.write_text("\n".join(["age,sex,wage", *people]) + "\n")
    given = ("--data", path, "--columns", described, "--model", "ridge", "--epsilon", 1)
    code, text, err = program("release", *given, "--out", tmp_path / "model")
    assert (code, text) == (1, "")
    assert "row" in err
    assert "much" not in err
    assert not (tmp_path / "model").exists()


def test_a_description_of_numbers_is_written_and_read() -> None:
    known = Columns.from_toml(COLUMNS)
    assert known.bounds == (0, 60)
    assert Columns.from_toml(known.to_toml()) == known
    for text in ("bounds = [1]", "bounds = [5, 1]", 'bounds = "1"', "bounds = [true, 2]"):
        with pytest.raises(InvalidArgument, match="bounds"):
            Columns.from_toml(text)
    with pytest.raises(InvalidArgument, match="not both"):
        Columns.from_toml('classes = ["a", "b"]\nbounds = [0, 1]')


@pytest.mark.parametrize("bounds", [None, (0.0, 61.0)])
def test_papers_that_describe_another_target_are_refused(table, tmp_path, bounds) -> None:
    prepared = pd.DataFrame(np.random.default_rng(0).random((60, 3)))
    prepared.columns = ["age", "sex=F", "sex=M"]
    model = sordino.PrivateRidge(target_bounds=(0, 60)).fit(prepared, np.full(60, 30.0))
    known = Columns.from_toml(COLUMNS)
    wrong = Columns(known.target, None, known.columns, bounds=bounds)
    with pytest.raises(CertificateError, match="describes another target"):
        model.save(tmp_path / "model", preprocessing=[], columns=wrong.to_toml())
    made = model.save(tmp_path / "model", preprocessing=[], columns=COLUMNS)
    assert verify(bundle.read(made)).guarantee is not None


def test_a_dataset_of_numbers_by_name(program, tmp_path) -> None:
    out, given = tmp_path / "model", ("--data", "diabetes", "--epsilon", 4)
    code, _, err = program("release", *given, "--out", out)
    assert code == 2
    assert "to be ridge" in err
    code, text, err = program("release", *given, "--model", "ridge", "--out", out)
    assert code == 0
    assert "cut to 0 to 400" in text
    assert "diabetes read the mean and sum of squares of every column" in err
    assert "INTERNAL, not covered: R^2 " in err
    assert ", RMSE " in err
    for command in ("assess", "measure"):
        code, _, err = program(command, "--data", "diabetes", "--out", tmp_path / "study")
        assert code == 2
        assert "to be one of some classes here" in err
