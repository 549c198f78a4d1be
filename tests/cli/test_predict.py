"""Scoring a file: as the library does, whole or not at all, and no cell told that was not asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sordino
from sordino.cli import predict
from sordino.data import blocks, table_file
from sordino.data.columns import Columns

pytestmark = pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
KNOWN = """\
target = "ill"
classes = ["no", "yes"]
[columns.age]
bounds = [0, 120]
[columns.patient]
ignore = true
[columns.job]
levels = ["clerk", "nurse, night", "NA"]
"""
SECRET = "Xq7jSmith"


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draws = np.random.default_rng(1)
    ages = draws.integers(10, 140, 120)
    return pd.DataFrame(
        {
            "patient": [f"{SECRET}{i:03d}" for i in range(120)],
            "job": draws.choice(["clerk", "nurse, night", "NA", "pilot"], 120),
            "age": np.where(draws.random(120) < 0.1, np.nan, ages),
            "ill": np.where(ages > 60, "yes", "no"),
            "note": [SECRET] * 120,
        }
    )


@pytest.fixture(scope="module")
def made(people: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundles: described, without description, without a guarantee, of no probabilities."""
    place = tmp_path_factory.mktemp("released")
    table = table_file.read(people.drop(columns="note"), columns=Columns.from_toml(KNOWN))
    X = pd.DataFrame(table.X, columns=list(table.feature_names))
    how = {"classes": ["no", "yes"], "method": "output-gd", "steps": 20}  # quick to plan
    # So little noise that both labels are predicted, whatever is drawn.
    model = sordino.PrivateLogisticRegression(1000.0, 1e-6, data_norm=1.2, **how)
    model.fit(X, table.y).save(place / "plain", preprocessing=[])
    model.save(place / "model", columns=KNOWN)
    free = sordino.PrivateLogisticRegression(method="none", classes=["no", "yes"])
    free.fit(X, table.y).save(place / "free", columns=KNOWN, preprocessing=[])
    svm = sordino.PrivateLinearSVC(8.0, 1e-6, **how).fit(X.to_numpy(), table.y)
    svm.save(place / "svm", columns=KNOWN, preprocessing=[])
    svm.declare(columns="")
    svm.save(place / "nameless")
    (place / "columns.toml").write_text(KNOWN)
    return place


@pytest.fixture(params=["new.csv", "new.csv.gz", "new.parquet"])
def rows(request: pytest.FixtureRequest, people: pd.DataFrame, tmp_path: Path) -> Path:
    """New rows: no target, another order of columns, one more column."""
    frame, path = people[["note", "age", "patient", "job"]], tmp_path / request.param
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path


def _said(model: Path, rows: Path) -> tuple[list[str], np.ndarray]:
    """What the library answers."""
    loaded = sordino.load(model)
    prepared = table_file.rows(rows, Columns.from_toml(KNOWN))
    return loaded.predict(prepared).tolist(), loaded.predict_proba(prepared)


@pytest.mark.parametrize("size", [17, 10**6])
def test_labels_and_probabilities_are_those_of_the_library(
    program, made, rows, tmp_path, monkeypatch, size: int
) -> None:
    monkeypatch.setattr(blocks, "_MOST_ROWS", size)
    labels, likely = _said(made / "model", rows)
    assert 0 < labels.count("yes") < 120
    code, out, err = program("predict", made / "model", "--data", rows)
    assert code == 0, err
    assert out.split("\n") == ["prediction", *labels, ""]
    assert SECRET not in out + err
    for name in ("p.csv", "p.csv.gz", "p.parquet") if size == 17 else ("p.csv",):
        given = ("--data", rows, "--out", tmp_path / name, "--proba", "--keep", "patient")
        code, out, err = program("predict", made / "model", *given)
        assert (code, out) == (0, f"Predictions of 120 rows: {tmp_path / name}\n"), err
        assert SECRET not in err
        read = pd.read_parquet if name.endswith("parquet") else pd.read_csv
        found = read(tmp_path / name)
        assert list(found) == ["patient", "no", "yes"]
        assert found["patient"].tolist() == [f"{SECRET}{i:03d}" for i in range(120)]
        np.testing.assert_allclose(found[["no", "yes"]], likely, rtol=0, atol=1e-15)


def test_json_and_what_is_told_beside(program, made, tmp_path) -> None:
    rows = tmp_path / "new.csv"
    rows.write_text(f"age,job,id\n30,clerk,a\n,pilot,{SECRET}\n130,,c\nNA,NA,d\n")
    given = ("predict", made / "model", "--data", rows, "--json")
    code, out, err = program(*given, "--keep", "id")
    assert code == 0
    document = json.loads(out)
    assert document["rows"] == 4
    assert document["columns"]["id"] == ["a", SECRET, "c", "d"]
    assert set(document["columns"]["prediction"]) <= {"no", "yes"}
    assert document["odd_cells"] == {
        "age": {"missing": 2, "unknown": 0, "outside": 1},
        "job": {"missing": 1, "unknown": 1, "outside": 0},
    }
    assert document["promised"]["epsilon"] <= 1000
    age, job, promise = err.splitlines()
    assert age == "Note: of 4 cells of column age: 2 missing, 1 outside its bounds."
    assert job == "Note: of 4 cells of column job: 1 missing, 1 of no known level."
    assert promise.startswith("Note: the model promises epsilon <= 1000 at delta = 1e-06")
    code, out, err = program(*given, "--out", tmp_path / "p.csv")
    assert json.loads(out)["out"] == str(tmp_path / "p.csv")
    assert "columns" not in json.loads(out)
    assert SECRET not in out + err + (tmp_path / "p.csv").read_text()


def test_where_the_certificate_describes_nothing(program, made, people, tmp_path) -> None:
    rows, given = tmp_path / "new.csv", ("--columns", made / "columns.toml")
    people.to_csv(rows, index=False)
    labels, _ = _said(made / "model", rows)
    code, out, _ = program("predict", made / "plain", "--data", rows, *given)
    assert (code, out.split()) == (0, ["prediction", *labels])
    prepared = tmp_path / "prepared.csv"
    encoded = table_file.rows(rows, Columns.from_toml(KNOWN))
    encoded[encoded.columns[::-1]].to_csv(prepared, index=False)
    code, out, _ = program("predict", made / "plain", "--data", prepared)
    assert (code, out.split()) == (0, ["prediction", *labels])
    expected = sordino.load(made / "nameless").predict(encoded.to_numpy()).tolist()
    code, out, _ = program("predict", made / "nameless", "--data", rows, *given)
    assert (code, out.split()) == (0, ["prediction", *expected])
    code, out, err = program("predict", made / "nameless", "--data", rows)
    assert (code, out) == (2, "")
    assert err.startswith("Expected --columns FILE.toml for a model without names")
    code, out, err = program("predict", made / "model", "--data", rows, *given)
    assert (code, out) == (2, "")
    assert "to be left out: the certificate describes them" in err


def test_a_model_that_promises_nothing_says_so_and_a_wrong_one_is_refused(
    program, made, people, tmp_path
) -> None:
    rows, out = tmp_path / "new.csv", tmp_path / "p.csv"
    people.to_csv(rows, index=False)
    code, text, err = program("predict", made / "free", "--data", rows)
    assert (code, text.count("\n")) == (0, 121)
    assert "Note: NOTHING IS PROMISED by this model" in err
    changed = tmp_path / "changed"
    changed.mkdir()
    for each in (made / "model").iterdir():
        (changed / each.name).write_bytes(each.read_bytes())
    papers = changed / "certificate.json"
    papers.write_text(papers.read_text().replace('"epsilon": ', '"epsilon": 0.', 1))
    for where, code in ((changed, 1), (tmp_path / "none", 2), (made, 1)):
        found, text, err = program("predict", where, "--data", rows, "--out", out)
        assert (found, text, out.exists()) == (code, "", False)
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "code", "why"),
    [
        ((), 2, "Expected --data FILE"),
        (("--data", "none.csv"), 2, "to exist"),
        (("--data", "rows.csv", "--out", "p.txt"), 2, "to end in .csv"),
        (("--data", "rows.csv", "--out", "no/p.csv"), 2, "no directory"),
        (("--data", "rows.csv", "--out", "rows.csv"), 2, "another file"),
        (("--data", "rows.csv", "--keep", "patent"), 2, "Did you mean patient?"),
        (("--data", "rows.csv", "--keep", "prediction"), 2, "to be no name of a column"),
        (
            (
                "--data",
                "other.csv",
            ),
            2,
            "Expected columns='job' to be a column of the table.",
        ),
        (
            (
                "--data",
                "empty.csv",
            ),
            1,
            "empty.csv is empty.",
        ),
        (
            (
                "--data",
                "header.csv",
            ),
            1,
            "header.csv has no rows.",
        ),
        (
            (
                "--data",
                "word.csv",
            ),
            1,
            "Column age has no finite number in row 3.",
        ),
        (
            (
                "--data",
                "levels.csv",
            ),
            1,
            "Column job has none of its levels in any row.",
        ),
        (("--data", "rows.csv", "--key", "none.pem"), 2, "none.pem"),
    ],
)
@pytest.mark.parametrize("out", [False, True])
def test_what_is_refused_leaves_nothing_and_tells_no_cell(
    program, made, tmp_path, monkeypatch, given, code: int, why: str, out: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {
        "rows.csv": f"age,job,patient,prediction\n30,clerk,{SECRET},1\n",
        "other.csv": f"age,jobs\n30,{SECRET}\n",
        "empty.csv": "",
        "header.csv": "age,job\n",
        "word.csv": f"age,job\n1,clerk\n2,clerk\n{SECRET},clerk\n4,clerk\n",
        "levels.csv": f"age,job\n1,{SECRET}\n2,{SECRET}\n",
    }
    for name, text in files.items():
        Path(name).write_text(text)
    monkeypatch.setattr(blocks, "_MOST_ROWS", 2)
    more = ("--out", "p.csv") if out and "--out" not in given else ()
    found, text, err = program("predict", made / "model", *given, *more)
    assert (found, text) == (code, ""), err
    assert err.count("\n") == 1
    assert why in err
    assert SECRET not in err
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(files)


def test_a_machine_without_probabilities(program, made, people, tmp_path) -> None:
    people.to_csv(tmp_path / "new.csv", index=False)
    code, out, err = program("predict", made / "svm", "--data", tmp_path / "new.csv", "--proba")
    assert (code, out) == (2, "")
    assert "to be of a model with probabilities" in err


def test_output_that_waits_on_the_disk_is_printed_whole(
    program, made, people, tmp_path, monkeypatch
) -> None:
    rows = tmp_path / "new.csv"
    people.to_csv(rows, index=False)
    whole = program("predict", made / "model", "--data", rows, "--proba")
    monkeypatch.setattr(predict, "_WAITING", 100)
    assert program("predict", made / "model", "--data", rows, "--proba") == whole
