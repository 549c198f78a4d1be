from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sordino
from sordino.data import source as records
from sordino.data import table_file
from sordino.data.columns import Columns
from sordino.release import bundle, signature
from sordino.release.ledger import Ledger

COLUMNS = """
target = "ill"
classes = ["no", "yes"]
[columns.patient]
ignore = true
[columns.age]
bounds = [0, 120]
[columns.sex]
levels = ["F", "M"]
"""


@pytest.fixture
def run(program):
    return program


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A small table of the user's own; the older are ill."""
    draws = np.random.default_rng(5)
    path = tmp_path / "people.csv"
    lines = ["patient,age,sex,ill"]
    for i, age in enumerate(draws.integers(20, 90, size=300)):
        sex = draws.choice(["F", "M", ""])
        lines.append(f"p{i},{age},{sex},{'yes' if age > 55 else 'no'}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def described(tmp_path: Path) -> Path:
    path = tmp_path / "columns.toml"
    path.write_text(COLUMNS)
    return path


@pytest.fixture
def nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever reads records now fails the test."""

    def read(self: object) -> None:
        raise AssertionError("records were read")

    monkeypatch.setattr(records.Source, "read", read)


def test_a_dataset_by_name(run, tmp_path: Path) -> None:
    out = tmp_path / "model"
    code, text, err = run("release", "--data", "breast-cancer", "--epsilon", 2, "--out", out)
    assert code == 0
    assert "epsilon <= 2 at delta = 5e-06" in text
    assert text.endswith(f"\nThe bundle: {out}\n")
    leak, internal = err.splitlines()
    reads = "minimum and maximum of every column of the training rows"
    assert leak == f"Warning: Not private: breast-cancer read the {reads}."
    assert internal.startswith("INTERNAL, not covered: accuracy 0.")
    assert internal.endswith("on 114 held-out rows.")
    certificate = bundle.read(out).certificate
    assert certificate.preprocessing.reads == (reads,)
    assert certificate.model.settings["data_norm"] == pytest.approx(2**0.5)  # rows of norm 1, and 1
    assert certificate.model.labels == (0, 1)
    assert certificate.guarantee.not_covered == ()


def test_a_described_file_leaks_nothing_beside_the_model(
    run, tmp_path: Path, table: Path, described: Path
) -> None:
    out = tmp_path / "model"
    given = ("--data", table, "--columns", described, "--data-norm", 1.5)
    code, text, err = run("release", *given, "--epsilon", 4, "--out", out, "--model", "svm")
    assert code == 0
    assert "Preparation: declared to have read each row by itself alone" in text
    assert "NOT COVERED: " not in text
    assert "Warning" not in err
    assert err.startswith("Note: left out: column patient.\n")
    certificate = bundle.read(out).certificate
    assert certificate.preprocessing.declared
    assert certificate.model.estimator == "PrivateLinearSVC"
    assert certificate.model.feature_names == ("age", "sex=F", "sex=M")
    assert certificate.model.labels == ("no", "yes")
    assert certificate.model.settings["data_norm"] == 1.5
    # Old people are ill, young ones are not; here the scores differ by 13 standard deviations of
    # the noise.
    ages = pd.DataFrame([[0.1, 0, 0], [0.9, 0, 0]], columns=certificate.model.feature_names)
    young, old = sordino.load(out).decision_function(ages)
    assert old > young


def test_what_is_read_off_a_file_is_in_the_certificate(run, tmp_path: Path, table: Path) -> None:
    out = tmp_path / "model"
    columns = tmp_path / "part.toml"
    columns.write_text("[columns.patient]\nignore = true\n")
    given = ("--data", table, "--target", "ill", "--columns", columns, "--tuning", "unknown")
    code, text, err = run("release", *given, "--epsilon", 1, "--out", out)
    assert code == 0
    warnings = [line for line in err.splitlines() if line.startswith("Warning: Not private: ")]
    assert len(warnings) == 2  # columns, and classes
    assert "minimum and maximum of column 2 of the file and levels of column 3" in warnings[0]
    assert "the classes were read off the labels" in warnings[1]
    assert ".py" not in err
    certificate = bundle.read(out).certificate
    reads = ("minimum and maximum of column 2 of the file", "levels of column 3 of the file")
    assert certificate.preprocessing.reads == reads
    assert certificate.guarantee.not_covered == ("which classes there are was read off the labels",)
    assert certificate.tuning.kind == "unknown"
    for what in reads:
        assert f"what preparing the rows read from the records: {what}" in " ".join(text.split())
    assert f"Note: Describe the other columns in {columns} too" in err.splitlines()[-1]


def test_json_signed_and_charged_to_a_ledger(
    run, tmp_path: Path, table: Path, described: Path
) -> None:
    out, book = tmp_path / "model", tmp_path / "budgets.db"
    private, public = tmp_path / "key.pem", tmp_path / "key.pub"
    key = signature.new_key(private, public)
    Ledger(book, dataset="people", epsilon=1.2, delta=1e-5).create()
    given = ("--data", table, "--columns", described, "--sign-with", private)
    charged = ("--ledger", book, "--dataset", "people", "--delta", 1e-5)
    code, text, err = run("release", *given, *charged, "--epsilon", 1, "--out", out, "--json")
    assert code == 0
    document = json.loads(text)
    assert document["directory"] == str(out)
    assert document["signed"] is True
    assert document["certificate"]["guarantee"]["epsilon"] <= 1
    assert document["certificate"]["dataset"]["name"] == "people"
    assert "Ledger: of the budget of 'people', epsilon 0." in err
    read = bundle.read(out)
    signature.check(read.certificate_bytes, read.signature, key)
    (entry,) = Ledger(book, dataset="people").status().entries
    assert entry.id == document["certificate"]["ledger_entry"]

    again = tmp_path / "again"
    code, text, err = run("release", *given, *charged, "--epsilon", 1, "--out", again)
    assert (code, text) == (1, "")
    refusal = err.splitlines()[-1]
    assert refusal.startswith("Expected the releases from 'people' to cost at most epsilon=1.2")
    assert not again.exists()
    assert len(Ledger(book, dataset="people").status().entries) == 1


@pytest.mark.usefixtures("nothing_is_read")
@pytest.mark.parametrize(
    ("option", "value", "argument"),
    [
        *(("--epsilon", bad, "epsilon") for bad in (-1, "inf")),
        *(("--delta", bad, "delta") for bad in (1, "nan")),
        ("--relation", "replace-on", "relation"),
        ("--relation", "add-remove", "--public-rows"),
        ("--public-rows", 9, "--public-rows"),
        *(("--method", bad, "method") for bad in ("noisygd", "none")),
        ("--l2", -1, "l2"),
        ("--max-rows-per-person", 0, "--max-rows-per-person"),
        ("--max-rows-per-person", 10**6, "--max-rows-per-person"),
        ("--data-norm", 0, "--data-norm"),
        ("--ledger", "x.db", "--dataset"),
        ("--dataset", "x", "--ledger"),
        *(("--data", bad, "data") for bad in ("adlt", "none.csv", "sheet.xlsx")),
        ("--target", "y", "--target"),
        ("--classes", "0,1", "--classes"),
        ("--sign-with", "no-key.pem", "key"),
    ],
)
def test_usage_is_checked_before_anything_is_read(
    refused, tmp_path: Path, option: str, value: object, argument: str
) -> None:
    given = {"--data": "breast-cancer", "--epsilon": 1, "--out": tmp_path / "model", option: value}
    assert refused("release", *(part for pair in given.items() for part in pair)) == argument
    assert not (tmp_path / "model").exists()


@pytest.mark.usefixtures("nothing_is_read")
def test_files_are_checked_before_they_are_read(
    run, tmp_path: Path, table: Path, described: Path
) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("targte = 'ill'")
    cases = {
        "Expected --target COLUMN": ("--data", table),
        "Did you mean target?": ("--data", table, "--columns", wrong),
        "classes=no,yes to be left out": (
            *("--data", table, "--columns", described),
            *("--classes", "no,yes"),
        ),
        "classes=no to be two or more": ("--data", table, "--target", "ill", "--classes", "no"),
        "to be a file, not a directory": ("--data", tmp_path, "--target", "ill"),
    }
    for sentence, arguments in cases.items():
        code, _, err = run("release", *arguments, "--epsilon", 1, "--out", tmp_path / "model")
        assert (code, err.count("\n")) == (2, 1)
        assert sentence in err


@pytest.mark.usefixtures("nothing_is_read")
def test_where_the_bundle_goes_must_be_said(run) -> None:
    code, out, err = run("release", "--data", "breast-cancer", "--epsilon", 1)
    assert (code, out) == (2, "")
    assert err == "Expected --out DIR. Or pass --dry-run.\n"


@pytest.mark.usefixtures("nothing_is_read")
def test_a_place_or_ledger_that_cannot_be_used_costs_no_training(run, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.tex").touch()
    given = ("release", "--data", "breast-cancer", "--epsilon", 1, "--out")
    code, _, err = run(*given, taken)
    assert (code, err.count("\n")) == (2, 1)
    assert "to be new or empty" in err
    charged = ("--ledger", tmp_path / "none.db", "--dataset", "people")
    code, _, err = run(*given, tmp_path / "model", *charged)
    assert (code, err.count("\n")) == (1, 1)
    assert "create it: sordino ledger init" in err


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        (OSError(28, "No space left on device"), 1, "can be written (No space left"),
        (KeyboardInterrupt(), 130, "Stopped."),
    ],
)
def test_what_fails_after_it_was_charged_says_what_it_cost(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException, code: int, said: str
) -> None:
    def fails(*_: object) -> None:
        raise end

    book = tmp_path / "budgets.db"
    Ledger(book, dataset="d", epsilon=4, delta=1e-3).create()
    monkeypatch.setattr(bundle.os, "replace", fails)
    asked = ("--data", "digits/binary", "--epsilon", 2, "--out", tmp_path / "model")
    found, text, err = run("release", *asked, "--ledger", book, "--dataset", "d")
    (entry,) = Ledger(book, dataset="d").status().entries
    assert (found, text) == (code, "")
    assert said in err
    assert f"(entry {entry.id}), and its budget stays spent" in err
    assert f"failed to write {tmp_path / 'model'}" in entry.explanation
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("listed", "classes", "labels"),
    [("no,yes", ["no", "yes"], ["no", "yes"]), ("0, 1,2", [0, 1, 2], [0, 1])],
)
def test_classes_given_as_a_list(tmp_path: Path, listed: str, classes: list, labels: list) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"x,y\n1,{labels[0]}\n2,{labels[1]}\n")
    columns = tmp_path / "c.toml"
    columns.write_text("[columns.x]\nbounds = [0, 2]\n")
    prepared = records.Source(str(path), "y", str(columns), listed).read()
    assert prepared.classes == classes
    assert prepared.y.tolist() == labels
    assert prepared.data_norm == 1.0


def test_ten_classes_and_a_norm_of_ones_own() -> None:
    prepared = records.Source("digits", data_norm=3.0).read()
    assert prepared.classes == list(range(10))
    assert prepared.data_norm == 3.0


def test_bad_content_is_one_sentence_and_exit_1(run, tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.touch()
    given = ("--data", path, "--target", "y", "--epsilon", 1, "--out", tmp_path / "model")
    assert run("release", *given) == (1, "", f"{path} is empty.\n")


def test_describe_prints_a_description_to_edit(run, table: Path) -> None:
    code, out, err = run("data", "describe", table, "--target", "ill")
    assert code == 0
    assert err.splitlines()[-1].split()[:4] == ["sordino", "assess", "--data", str(table)]
    assert out.startswith("# READ FROM THE DATA")
    assert 'classes = ["no", "yes"]' in out
    code, out, err = run("data", "describe", table, "--target", "il")
    assert (code, out) == (2, "")
    assert "Did you mean ill?" in err


def test_help_teaches_and_loads_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv = ['sordino', 'release', '--help']\n"
        "from sordino.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numpy', 'pandas', 'sklearn', 'torch') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
    for word in ("--columns", "--ledger", "--dry-run", "sordino data describe", "middle of its"):
        assert word in done.stdout


def test_python_prepares_rows_by_the_certificate_alone(
    run, tmp_path: Path, table: Path, described: Path
) -> None:
    out = tmp_path / "model"
    # The file's columns are in another order than the description's.
    frame = pd.read_csv(table)[["sex", "ill", "age", "patient"]]
    frame.to_csv(table, index=False)
    code, *_ = run(
        *("release", "--data", table, "--columns", described, "--data-norm", 1.5),
        *("--epsilon", 8, "--out", out),
    )
    assert code == 0
    model = sordino.load(out)
    known = Columns.from_toml(model.certificate_.preprocessing.columns)
    assert list(model.feature_names_in_) == ["age", "sex=F", "sex=M"]
    new = tmp_path / "new.csv"
    frame[["sex", "age"]].to_csv(new, index=False)
    rows = table_file.rows(new, known)
    np.testing.assert_array_equal(rows, table_file.read(table, columns=known).X)
    scores = (
        model.intercept_
        + model.coef_[0, 0] * frame["age"] / 120
        + model.coef_[0, 1] * (frame["sex"] == "F")
        + model.coef_[0, 2] * (frame["sex"] == "M")
    )
    predicted = model.predict(rows)
    assert predicted.tolist() == np.where(scores > 0, "yes", "no").tolist()
    assert set(predicted) == {"no", "yes"}
    assert model.predict(table_file.rows(frame, known)).tolist() == predicted.tolist()


def test_a_dry_run_says_what_would_be_and_leaves_no_trace(
    run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: Path, described: Path
) -> None:
    book = tmp_path / "budgets.db"
    Ledger(book, dataset="people", epsilon=1.2, delta=1e-5).create()
    given = ("release", "--data", table, "--columns", described, "--delta", 1e-5)
    charged = ("--ledger", book, "--dataset", "people", "--max-rows-per-person", 1)

    with monkeypatch.context() as patched:

        def train(*_: object) -> None:
            raise AssertionError("something was trained")

        patched.setattr(sordino.PrivateLogisticRegression, "_train", train)
        out = tmp_path / "model"
        code, text, err = run(*given, *charged, "--epsilon", 1, "--dry-run", "--out", out)
        assert (code, err) == (0, "")
        lines = text.splitlines()
        assert lines[0] == "DRY RUN: nothing was trained, recorded or written."
        assert lines[1].startswith("Model: PrivateLogisticRegression, by method ")
        assert lines[2] == "Promise: epsilon <= 1 at delta = 1e-05"
        assert lines[3] == "For whom: one record, replace-one"
        assert "standard deviation" in lines[4]
        assert lines[5].startswith("Persons: nobody counted rows per person")
        would_be_left = lines[6].removeprefix("Ledger: 'people' would have ")
        assert not out.exists()
        assert Ledger(book, dataset="people").status().entries == ()
        code, text, err = run(*given, *charged, "--epsilon", 1.3, "--dry-run")
        assert (code, text) == (1, "")
        assert err.startswith("Expected the releases from 'people' to cost at most epsilon=1.2")
        code, text, _ = run(*given, "--epsilon", 1, "--dry-run", "--json")
        assert code == 0
        said = json.loads(text)
        assert (said["dry_run"], said["ledger"], said["not_covered"]) == (True, None, [])

    code, text, err = run(*given, *charged, "--epsilon", 1, "--out", out, "--json")
    assert code == 0
    assert f"Ledger: of the budget of 'people', {would_be_left}.\n" in err
    certificate = json.loads(text)["certificate"]
    assert certificate["method"] == said["method"]
    assert certificate["facts"]["noise"] == said["noise"]
    assert certificate["guarantee"]["epsilon"] == said["epsilon"]


def without_ids(table: Path) -> Path:
    pd.read_csv(table).drop(columns="patient").to_csv(table, index=False)
    return table


def test_a_second_release_of_a_file_without_a_ledger_is_warned_of(
    run, table: Path, described: Path, tmp_path: Path
) -> None:
    asked = ("release", "--data", table, "--columns", described, "--epsilon", 2)
    said = "released from this file before"
    assert said not in run(*asked, "--out", tmp_path / "one")[2]
    book = tmp_path / "book.db"
    Ledger(book, dataset="d", epsilon=4, delta=1e-3).create()
    for charged, warned in (((), True), (("--ledger", book, "--dataset", "d"), False)):
        code, _, err = run(*asked, "--dry-run", *charged)
        assert (code, said in err) == (0, warned)


def test_a_dry_run_names_leaks(run, table: Path) -> None:
    given = ("release", "--data", without_ids(table), "--target", "ill", "--epsilon", 1)
    code, text, err = run(*given, "--dry-run")
    assert code == 0
    assert "\nNOT COVERED: which classes there are was read off the labels\n" in text
    assert "\nNOT COVERED: minimum and maximum of column 1 of the file\n" in text
    assert err.count("Warning: Not private: ") == 2


def test_an_unedited_draft_is_no_public_description(run, tmp_path: Path, table: Path) -> None:
    code, text, _ = run("data", "describe", table, "--target", "ill")
    draft = tmp_path / "draft.toml"
    draft.write_text(text)
    given = ("release", "--data", table, "--columns", draft, "--epsilon", 1, "--out")
    code, text, err = run(*given, tmp_path / "leaks")
    assert code == 0
    assert "drafted from the rows by `sordino data describe`" in err.splitlines()[0]
    assert err.splitlines()[-1] == (
        f"Note: {draft} is a draft: correct it, then delete read_from_data = true, to release "
        "without this leak."
    )
    assert "declared to have read each row" not in text
    preparation = bundle.read(tmp_path / "leaks").certificate.preprocessing
    assert preparation.columns == ""
    assert "which classes there are" in preparation.reads[0]

    draft.write_text(draft.read_text().replace("read_from_data = true", ""))
    code, text, err = run(*given, tmp_path / "public")
    assert code == 0
    assert "Not private" not in err
    assert "declared to have read each row" in text
    assert bundle.read(tmp_path / "public").certificate.preprocessing.columns


def test_an_identifier_is_not_taken_for_levels(run, table: Path, tmp_path: Path) -> None:
    options = ("--data", table, "--target", "ill", "--epsilon", 1, "--out", tmp_path / "m")
    code, _, err = run("release", *options)
    assert code == 1
    assert "Column 1 of the file has another word in every row (an identifier?)" in err
    assert not (tmp_path / "m").exists()


def test_bounds_and_levels_read_off_the_rows_are_not_published(
    run, table: Path, tmp_path: Path
) -> None:
    table = without_ids(table)
    options = ("--data", table, "--target", "ill", "--classes", "no,yes")
    code, _, err = run("release", *options, "--epsilon", 1, "--out", tmp_path / "m")
    assert code == 0
    assert err.splitlines()[-1].startswith(
        f"Note: Describe the columns: `sordino data describe {table} --target ill > columns.toml`"
    )
    preparation = bundle.read(tmp_path / "m").certificate.preprocessing
    assert preparation.columns == ""
    assert preparation.reads
    # Nor are names that nobody declared: in a file without header they are a record.
    names = sordino.load(tmp_path / "m").feature_names_in_.tolist()
    assert names == ["column 1", "column 2#1", "column 2#2"]


def test_a_risk_is_promised_instead_of_epsilon(run, tmp_path: Path) -> None:
    asked = ("release", "--data", "breast-cancer", "--method", "output-gd")
    code, text, _ = run(*asked, "--advantage", 0.1, "--dry-run", "--json")
    assert code == 0
    said = json.loads(text)
    assert said["asked_for"] == "membership guessed at most 0.1 better than by chance"
    out = tmp_path / "model"
    code, text, _ = run(*asked, "--detection", "0.02@0.01", "--out", out)
    assert code == 0
    assert "Asked for: detection at most 0.02 at 0.01 false alarms, which gives" in text
    certificate = json.loads((out / "certificate.json").read_text())
    assert certificate["model"]["settings"]["target"] == "detection<=0.02@0.01"
    code, text, _ = run("certificate", "verify", out)
    assert code == 0
    assert "They keep what was asked for: detection at most 0.02" in text
    forged = (out / "certificate.json").read_text().replace("<=0.02@", "<=0.019@")
    (out / "certificate.json").write_text(forged)
    code, text, err = run("certificate", "verify", out)
    assert (code, text) == (1, "")
    assert "promises detection<=0.019@0.01" in err


@pytest.mark.usefixtures("nothing_is_read")
@pytest.mark.parametrize(
    ("promised", "argument"),
    [
        ((), "--epsilon"),
        (("--epsilon", 1, "--advantage", 0.05), "advantage"),
        (("--advantage", 0.05, "--detection", "0.02@0.01"), "detection"),
        (("--advantage", 0), "advantage"),
        (("--advantage", 1), "advantage"),
        (("--advantage", "little"), "advantage"),
        (("--detection", 0.02), "detection"),
        (("--detection", "0.01@0.02"), "detection"),
        (("--reconstruction", "0.05@0"), "reconstruction"),
    ],
)
def test_one_promise_that_some_noise_keeps_is_asked_for(
    refused, tmp_path: Path, promised: tuple[object, ...], argument: str
) -> None:
    given = ("release", "--data", "breast-cancer", "--out", tmp_path / "model")
    assert refused(*given, *promised) == argument
    assert not (tmp_path / "model").exists()
