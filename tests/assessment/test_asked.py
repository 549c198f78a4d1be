"""Records in memory and estimators are asked about as files and options are."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import sordino
from sordino import PrivateLinearSVC, PrivateLogisticRegression, Relation
from sordino.assessment.asked import asked
from sordino.assessment.directory import AssessmentError
from sordino.assessment.history import ReleasedBefore
from sordino.assessment.plan import AssessmentPlan
from sordino.assessment.request import Request
from sordino.assessment.run import assess
from sordino.cli.main import main
from sordino.data.columns import Columns
from sordino.data.source import IN_MEMORY
from sordino.data.sources import DataError
from sordino.errors import InvalidArgument

pytestmark = pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
KNOWN = """\
target = "ill"
classes = ["no", "yes"]
[columns.age]
bounds = [0, 120]
[columns.id]
ignore = true
[columns.job]
levels = ["clerk", "nurse"]
"""
SECRET = "Xq7jSmith"
SMALL: dict[str, Any] = {"effort": "quick", "seeds": 20, "neighbours": 2, "audit_runs": 64}
HOW: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "method": "output-gd"}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draws = np.random.default_rng(1)
    ages = draws.integers(10, 110, 160)
    return pd.DataFrame(
        {
            "id": [f"{SECRET}{i}" for i in range(160)],
            "job": draws.choice(["clerk", "nurse", "pilot"], 160),
            "age": ages,
            "ill": np.where(ages > 60, "yes", "no"),
        }
    )


@pytest.fixture
def files(people: pd.DataFrame, tmp_path: Path) -> tuple[Path, Path]:
    data, columns = tmp_path / "people.csv", tmp_path / "columns.toml"
    people.to_csv(data, index=False)
    columns.write_text(KNOWN)
    return data, columns


def _tables() -> dict[str, Any]:
    return {
        name: dict(column) if isinstance(column, dict) else column
        for name, column in {
            "age": {"bounds": [0, 120]},
            "id": {"ignore": True},
            "job": {"levels": ["clerk", "nurse"]},
        }.items()
    }


def test_a_table_in_memory_is_planned_as_its_file(people, files) -> None:
    data, columns = files
    plan = AssessmentPlan.of(Request(data=str(data), columns=str(columns), **HOW), b"s" * 32)
    known = Columns.from_toml(KNOWN)
    apart = people.drop(columns="ill"), people["ill"]
    tables = {"columns": _tables(), "classes": ["no", "yes"]}
    ways = {
        "a file of columns": asked(people, None, None, {"columns": str(columns), **HOW}),
        "columns": asked(None, people, None, {"columns": known, **HOW}),
        "polars": asked(None, None, None, {"data": pl.DataFrame(people), "columns": known, **HOW}),
        "tables": asked(people, None, None, {**tables, "target": "ill", **HOW}),
        "labels apart": asked(*apart, None, {"columns": known, **HOW}),
        "an estimator": asked(PrivateLogisticRegression(**HOW), people, None, {"columns": known}),
        "a request": asked(Request(columns=str(columns), **HOW), *apart, {}),
    }
    for name, (request, records) in ways.items():
        assert request.data == IN_MEMORY, name
        assert SECRET not in f"{request} {records}"
        again = AssessmentPlan.of(request, b"s" * 32, records)
        assert again.fingerprint == plan.fingerprint, name
        assert again.fitting.plan.evidence == plan.fitting.plan.evidence, name
        assert again.prepared.description == plan.prepared.description, name
        pd.testing.assert_frame_equal(again.X, plan.X)
        assert Request.from_toml(request.to_toml()) == request


def test_names_of_data_may_come_first_too() -> None:
    model = PrivateLogisticRegression(2.0, 1e-5, data_norm=1.5, classes=np.array([0, 1]))
    plain = Request(data="digits/binary", epsilon=2.0)
    assert asked("digits/binary", None, None, {"epsilon": 2.0}) == (plain, None)
    assert asked(None, None, None, {"data": "digits/binary", "epsilon": 2.0}) == (plain, None)
    for given in ((model, "people.csv", None, {}), (model, None, None, {"data": "people.csv"})):
        request, records = asked(*given)
        assert records is None
        assert (request.data, request.epsilon, request.classes) == ("people.csv", 2.0, (0, 1))
    known = Columns.from_toml('classes = ["no", "yes"]\n[columns.age]\nbounds = [0, 1]\n')
    for classes in (["no", "yes"], np.array(["no", "yes"])):
        same = PrivateLogisticRegression(classes=classes)
        request, _ = asked(same, "people.csv", None, {"columns": known, "target": "ill"})
        assert request.classes == ("no", "yes")
    other = PrivateLogisticRegression(classes=["no", "maybe"])
    with pytest.raises(InvalidArgument, match="to be what the description says"):
        asked(other, "people.csv", None, {"columns": known, "target": "ill"})


def test_arrays_are_taken_as_they_are(people) -> None:
    X = np.column_stack([people["age"] / 120, people["job"] == "nurse"])
    y = people["ill"].to_numpy()
    how = {**HOW, "classes": ["no", "yes"]}
    first = AssessmentPlan.of(*_with_secret(asked((X, y), None, None, how)))
    assert not first.prepared.declared
    assert first.prepared.description == ""
    for rows, labels in (
        (sparse.csr_matrix(X), list(y)),
        (X.tolist(), people["ill"]),
        (X, people["ill"].astype("category")),
        (X, pl.Series(people["ill"].tolist())),
    ):
        request, records = asked(rows, labels, None, how)
        plan = AssessmentPlan.of(*_with_secret((request, records)))
        assert plan.fingerprint == first.fingerprint
    frame = pd.DataFrame(X, columns=["age", "nurse"]).astype({"nurse": bool})
    named = AssessmentPlan.of(*_with_secret(asked(None, frame, y, how)))
    assert list(named.X.columns) == ["age", "nurse"]
    np.testing.assert_array_equal(named.X, first.X)
    other = AssessmentPlan.of(*_with_secret(asked(X[::-1], y, None, how)))
    assert other.fingerprint != first.fingerprint


def _with_secret(made: tuple[Request, Any]) -> tuple[Request, bytes, Any]:
    return made[0], b"s" * 32, made[1]


OWN = ("epsilon", "delta", "target", "method", "l2", "data_norm", "classes", "max_rows_per_person")
OTHERS: dict[str, Any] = {
    **{"epochs": 3, "steps": 3, "batch_size": 7, "learning_rate": 0.1, "average_every": 2},
    **{"max_grad_norm": 0.5, "accountant": "pld", "sampling": "poisson", "public_rows": 100},
    **{"initial_weights": np.zeros((1, 3)), "fit_intercept": False, "huber_width": 0.2},
    **{"random_state": 3, "relation": "zero-out"},
}


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
def test_every_parameter_is_a_setting_or_is_refused_by_name(people, kind) -> None:
    known = Columns.from_toml(KNOWN)
    for name in inspect.signature(kind).parameters:
        if name in OWN:
            continue
        given = OTHERS.get(name, object())  # a parameter that comes later is refused as well
        with pytest.raises(InvalidArgument, match=f"Expected {name}=") as error:
            asked(kind(**{name: given}), people, None, {"columns": known})
        assert error.value.argument == name
    request, _ = asked(
        kind(2.0, 1e-6, method="noisy-gd", l2=0.1, data_norm=1.5, max_rows_per_person=2),
        *(people, None, {"columns": known, "effort": "quick"}),
    )
    found = [getattr(request, each) for each in OWN if each not in ("target", "classes")]
    assert found == [2.0, 1e-6, "noisy-gd", 0.1, 1.5, 2]
    assert (request.model, request.effort) == (
        "svm" if kind is PrivateLinearSVC else "logistic",
        "quick",
    )
    request, _ = asked(kind(target="detection<=0.02@0.01"), people, None, {"columns": known})
    assert (request.epsilon, request.detection) == (None, "0.02@0.01")
    assert asked(kind(relation=Relation.REPLACE_ONE), people, None, {"columns": known})


def test_what_nobody_can_assess_is_refused_and_leaves_nothing(people, tmp_path) -> None:
    X, y = np.ones((80, 2)), np.arange(80) % 2
    holed = X.copy()
    holed[3, 1] = np.nan
    model = PrivateLogisticRegression(2.0, 1e-5, method="output-gd", steps=9, classes=[0, 1])
    fitted = model.fit(X / 2, y)
    known = {"columns": Columns.from_toml(KNOWN)}
    bad = people.assign(age=[SECRET] * len(people))
    cases: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((X,), {}, "y"),
        ((X, y[:-1]), {}, "80 labels"),
        ((X, y[:, None]), {}, "labels"),
        ((X, [{}] * 80), {}, "labels"),
        ((holed, y), {}, "first bad row is 3"),
        ((people[["id", "age"]], people["ill"]), {}, "rows of numbers"),
        ((X[:, 0], y), {}, "rows of numbers"),
        ((X, y), {"target": "ill"}, "target"),
        ((X, y), {"columns": _tables()}, "columns"),
        ((X, y), {"person": "id"}, "person"),
        ((X, y), {"data": "breast-cancer"}, "data"),
        ((X, y), {"mechanism": "gallery:fixed-seed"}, "mechanism"),
        ((X[:20], y[:20]), {}, "rows=20"),
        ((people,), {}, "target"),
        ((people,), {"target": "il"}, "Did you mean ill"),
        ((people, people["ill"]), known, "to be left out: the table has its target"),
        ((people,), {**known, "target": "job"}, "target"),
        ((people.iloc[:0],), known, "has no rows"),
        ((bad,), known, "Column age has no finite number in row 1"),
        ((None, None, y), {}, "X"),
        ((X, y, y), {}, "estimator or a Request"),
        ((LogisticRegression(), X, y), {}, "PrivateLogisticRegression"),
        ((fitted, X, y), {}, "not to be fitted"),
        ((PrivateLogisticRegression(), X, y), {"epsilon": 2.0}, "beside an estimator"),
        ((PrivateLogisticRegression(float("inf")), X, y), {}, "epsilon"),
        ((PrivateLogisticRegression(method="none"), X, y), {}, "method"),
        ((PrivateLogisticRegression(data_norm=None), X, y), {}, "public bound"),
        ((PrivateLogisticRegression(2.0, target="advantage<=0.1"), X, y), {}, "target"),
        ((Request(data=IN_MEMORY),), {}, "passed again"),
    ]
    for given, settings, why in cases:
        with pytest.raises((InvalidArgument, DataError), match=why) as error:
            assess(*given, **settings, out=tmp_path / "study")
        assert SECRET not in str(error.value), why
        assert not (tmp_path / "study").exists()


@pytest.fixture(scope="module")
def study(people, tmp_path_factory, without_pages) -> Path:
    place = tmp_path_factory.mktemp("assess") / "study"
    with without_pages():
        assess(
            *(PrivateLogisticRegression(**HOW), people),
            columns=Columns.from_toml(KNOWN),
            **SMALL,
            out=place,
        )
    return place


def _certificate(place: Path) -> dict[str, Any]:
    papers = json.loads((place / "model" / "certificate.json").read_text())
    del papers["model"]["sha256"]  # of weights, which have their own noise
    return papers


@pytest.mark.usefixtures("undrawn")
def test_a_table_and_its_file_get_the_same_certificate(study, files, tmp_path) -> None:
    data, columns = files
    how = {"data": data, "columns": columns, **HOW, **SMALL}
    assess(**how, out=tmp_path / "of-file")
    assert _certificate(study) == _certificate(tmp_path / "of-file")
    loaded = sordino.load(study / "model")
    raw = pd.read_csv(data)
    assert set(loaded.predict(raw)) <= {"no", "yes"}


@pytest.mark.usefixtures("undrawn")
def test_the_same_records_go_on_and_others_are_refused(study, people, monkeypatch, capsys) -> None:
    before = {each: each.read_bytes() for each in study.rglob("*") if each.is_file()}
    model = PrivateLogisticRegression(**HOW)
    how = {"columns": Columns.from_toml(KNOWN), "out": study, **SMALL}
    again = assess(model, people.copy(), **how)
    assert again.release.certificate == (study / "model" / "certificate.json").read_text()
    again = assess(Request.from_file(study / "study.toml"), people, out=study)
    assert again.release.certificate == (study / "model" / "certificate.json").read_text()
    changed = people.assign(age=people["age"].where(people.index != 7, 11))
    with pytest.raises(AssessmentError, match="to be of the same records"):
        assess(model, changed, **how)
    with pytest.raises(AssessmentError, match=r"epsilon is 3\.0 here and 2\.0 there"):
        assess(PrivateLogisticRegression(**{**HOW, "epsilon": 3.0}), people, **how)
    monkeypatch.setattr("sys.argv", ["sordino", "assess", str(study / "study.toml")])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "to be passed again: no file holds them" in capsys.readouterr().err
    kept = {each: each.read_bytes() for each in before if "stages" in each.parts}
    kept.pop(study / "stages" / "prove.json")  # which is proved anew every time
    assert kept == {each: before[each] for each in kept}
    assert (study / "model" / "model.safetensors").read_bytes() == before[
        study / "model" / "model.safetensors"
    ]


def test_a_study_of_records_in_memory_holds_none_of_their_words(study) -> None:
    held = [each for each in study.rglob("*") if each.is_file()]
    assert held
    for each in held:
        assert SECRET.encode() not in each.read_bytes(), each


@pytest.mark.usefixtures("undrawn")
def test_nobody_declares_how_arrays_were_prepared(people, tmp_path) -> None:
    X = np.column_stack([people["age"] / 120, people["job"] == "nurse"])
    model = PrivateLinearSVC(**HOW, classes=["no", "yes"])
    found = assess(model, X, people["ill"], **SMALL, out=tmp_path / "study")
    with pytest.warns(ReleasedBefore, match="released from these records before: 1"):
        assess(model, X, people["ill"], **SMALL, out=tmp_path / "another")
    papers = _certificate(tmp_path / "study")
    assert papers["preprocessing"] == {"declared": False, "reads": [], "columns": ""}
    assert papers["model"]["estimator"] == "PrivateLinearSVC"
    assert "How the rows were prepared is not known here" in found.caveats[0]
    assert "data in memory" in found.question.title
