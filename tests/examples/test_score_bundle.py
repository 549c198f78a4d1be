"""The example that scores a bundle without sordino, against what the library itself answers."""

from __future__ import annotations

import gzip
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sordino
from sordino.data import frames, table_file
from sordino.data.columns import Columns

EXAMPLE = Path(__file__).parents[2] / "examples" / "score_bundle.py"
KNOWN = Columns.from_toml("""
target = "ill"
classes = [0, 1]
[columns.age]
bounds = [0, 120]
[columns.patient]
ignore = true
[columns.smoker]
levels = [false, true]
[columns.grade]
levels = [1, 2.5, 3]
[columns.job]
levels = ["clerk", "nurse, night", "NA"]
""")
AWKWARD = """\
job,grade,smoker,age,note
clerk,1,TRUE,30,x
"nurse, night",2.5,false,NA,x
NA,3.0,True,,x
pilot,null,,130,x
,7,no,nan,x
clerk,1,FALSE, 64.5,"two
lines"
clerk,n/a,TRUE,-5

NA,one,true,#N/A,x
"""


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draws = np.random.default_rng(1)
    ages = draws.integers(10, 140, 400)
    return pd.DataFrame(
        {
            "job": draws.choice(["clerk", "nurse, night", "NA", "pilot"], 400),
            "grade": draws.choice([1, 2.5, 3, 4], 400),
            "smoker": draws.choice([True, False], 400),
            "age": np.where(draws.random(400) < 0.1, np.nan, ages),
            "patient": range(400),
            "ill": (ages > 60).astype(int),
        }
    )


@pytest.fixture(scope="module")
def directory(people: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One bundle for all tests, from the table in the order that it has."""
    place = tmp_path_factory.mktemp("released")
    people.to_csv(place / "people.csv", index=False)
    table = table_file.read(place / "people.csv", columns=KNOWN)
    X = pd.DataFrame(table.X, columns=list(table.feature_names))
    model = sordino.PrivateLogisticRegression(8.0, 1e-6, classes=[0, 1], data_norm=2.0)
    model.fit(X, table.y).save(place / "model", preprocessing=[], columns=KNOWN.to_toml())
    model.declare(columns="")
    model.save(place / "undescribed")
    return place


def _run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def _scored(directory: Path, rows: Path) -> list[int]:
    done = _run(directory / "model", rows)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("epsilon = ")
    assert done.stderr.count("\n") == 1
    return [int(line) for line in done.stdout.split()]


def _refused(directory: Path, rows: Path, bundle: str = "model") -> str:
    done = _run(directory / bundle, rows)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    return done.stderr.strip()


def test_the_same_labels_as_the_library_without_target_and_ignored_columns(
    directory: Path, people: pd.DataFrame, tmp_path: Path
) -> None:
    rows = tmp_path / "new.csv"
    people[["age", "job", "smoker", "grade"]].to_csv(rows, index=False)
    expected = sordino.load(directory / "model").predict(table_file.rows(rows, KNOWN)).tolist()
    assert _scored(directory, rows) == expected
    assert 0 < sum(expected) < 400  # not one label for all


def test_probabilities_are_those_of_the_library(
    directory: Path, people: pd.DataFrame, tmp_path: Path
) -> None:
    rows = tmp_path / "new.csv"
    people.to_csv(rows, index=False)
    model = sordino.load(directory / "model")
    prepared = table_file.rows(rows, KNOWN)
    assert (np.hypot(1, np.linalg.norm(prepared, axis=1)) > 2).any()  # some are scaled
    done = _run("--probabilities", directory / "model", rows)
    assert done.returncode == 0, done.stderr
    labels, *lines = (line.split(",") for line in done.stdout.splitlines())
    assert labels == ["0", "1"]
    found = np.array(lines, dtype=float)
    np.testing.assert_allclose(found, model.predict_proba(prepared), rtol=0, atol=1e-12)
    machine = sordino.PrivateLinearSVC(8.0, 1e-6, classes=[0, 1]).fit(prepared, people["ill"])
    machine.save(tmp_path / "machine")
    assert _run(tmp_path / "machine", rows, "--probabilities").stderr == (
        "A PrivateLinearSVC has no probabilities.\n"
    )


@pytest.mark.parametrize("form", ["plain", "windows", "semicolons", "tabs", "compressed"])
def test_cells_are_read_as_sordino_reads_them(directory: Path, tmp_path: Path, form: str) -> None:
    """Prepared rows are compared, not labels only: each cell counts."""
    rows, content = tmp_path / "new.csv", AWKWARD.encode()
    if form == "windows":
        content = b"\xef\xbb\xbf" + AWKWARD.replace("\n", "\r\n").encode()
    elif form in ("semicolons", "tabs"):
        separator = ";" if form == "semicolons" else "\t"
        text = AWKWARD.replace('"nurse, night"', "NURSE").replace(",", separator)
        content = text.replace("NURSE", "nurse, night").encode()
    elif form == "compressed":
        rows, content = tmp_path / "new.csv.gz", gzip.compress(content)
    rows.write_bytes(content)
    expected = table_file.rows(rows, KNOWN)
    assert len(expected) == 8
    example = _functions()
    names = list(expected.columns)
    made = example["prepared"](example["read_csv"](rows), KNOWN.to_toml(), names)
    np.testing.assert_allclose(made, expected, rtol=0, atol=1e-15)  # the middle may be rounded
    predicted = sordino.load(directory / "model").predict(expected)
    assert _scored(directory, rows) == predicted.tolist()


def _functions() -> dict[str, object]:
    import runpy

    return runpy.run_path(str(EXAMPLE))


def test_the_marks_of_missing_cells_are_those_of_the_library() -> None:
    assert _functions()["MISSING"] == set(frames.MISSING)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty."),
        ("age,job,grade\n1,clerk,1\n", "The table needs one column called 'smoker' and has 0."),
        ("age,job,grade,smoker,age\n1,clerk,1,true,2\n", "called 'age' and has 2."),
        ("age,job,grade,smoker\n1,Clerk,1,true\n", "Column job has none of its levels in any row"),
        (
            "age,job,grade,smoker\n1,clerk,9,true\n",
            "Column grade has none of its levels in any row",
        ),
        ("age,job,grade,smoker\n1,clerk,1,yes\n", "Column smoker has none of its levels in any"),
        ("age,job,grade,smoker\nold,clerk,1,true\n", "Column age has a cell that is no finite"),
        ("age,job,grade,smoker\n1_0,clerk,1,true\n", "Column age has a cell that is no finite"),
        ("age,job,grade,smoker\n1,clerk,1,true,5\n", "a row with more cells than there are names"),
    ],
)
def test_tables_that_do_not_fit_are_refused_by_both(
    directory: Path, tmp_path: Path, text: str, sentence: str
) -> None:
    rows = tmp_path / "new.csv"
    rows.write_text(text)
    assert sentence in _refused(directory, rows)
    with pytest.raises((ValueError, frames.DataError)):
        table_file.rows(rows, KNOWN)


def test_a_bundle_without_description_needs_prepared_rows(
    directory: Path, people: pd.DataFrame, tmp_path: Path
) -> None:
    raw, ready = tmp_path / "raw.csv", tmp_path / "ready.csv"
    people.to_csv(raw, index=False)
    refusal = _refused(directory, raw, "undescribed")
    assert refusal.startswith("No description of the table: prepare it as for the training (age, ")
    prepared = table_file.rows(people, KNOWN)
    prepared[prepared.columns[::-1]].to_csv(ready, index=False)  # found by name
    done = _run(directory / "undescribed", ready)
    assert done.returncode == 0
    expected = sordino.load(directory / "undescribed").predict(prepared)
    assert [int(line) for line in done.stdout.split()] == expected.tolist()
    assert done.stderr.startswith("No description of the table: rows are taken as prepared.\n")
    np.save(tmp_path / "narrow.npy", np.zeros((2, 3)))
    width = len(prepared.columns)
    said = f"The model needs rows of {width} numbers."
    assert _refused(directory, tmp_path / "narrow.npy") == said


def test_usage_and_files_that_are_not_there(directory: Path, tmp_path: Path) -> None:
    done = _run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "python score_bundle.py BUNDLE ROWS.csv" in done.stdout
    done = _run(directory)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")
    assert "No such file or directory" in _refused(directory, tmp_path / "none.csv")
    assert "No such file or directory" in _refused(directory, tmp_path / "none.csv", "nowhere")


def test_a_closed_pipe_is_no_error(directory: Path, people: pd.DataFrame, tmp_path: Path) -> None:
    rows = tmp_path / "many.csv"
    many = pd.concat([people] * math.ceil(40_000 / len(people)))  # more than a pipe holds
    many.to_csv(rows, index=False)
    command = [sys.executable, str(EXAMPLE), str(directory / "model"), str(rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        said = running.stderr.read().decode()
    assert said.startswith("epsilon = ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"center": "private"},
        {"center": "none", "fit_intercept": False},
        {"scale": "private", "fit_intercept": False},
        {"bounds": None, "center": [0.5, 0.5], "data_norm": 0.7},
    ],
)
def test_prepared_rows_are_scored_alike(how: dict[str, object], tmp_path: Path) -> None:
    draws = np.random.default_rng(2)
    X = draws.normal(0.5, 1, size=(200, 2)) * draws.choice([1, 30], size=(200, 1))
    y = (X[:, 0] > 0.5).astype(int)
    known = {"epsilon": 5.0, "classes": [0, 1], "bounds": (0, 1), **how}
    model = sordino.PrivateLogisticRegression(**known).fit(X, y)
    model.save(tmp_path / "m")
    np.save(tmp_path / "rows.npy", X)
    asked = [EXAMPLE, tmp_path / "m", tmp_path / "rows.npy", "--probabilities"]
    told = subprocess.run([sys.executable, *asked], capture_output=True, text=True, check=True)
    found = np.loadtxt(told.stdout.splitlines()[1:], delimiter=",")
    assert found == pytest.approx(model.predict_proba(X), abs=1e-9)
