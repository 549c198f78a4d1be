"""A model whose papers describe its columns takes raw tables, and never guesses what it gets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import sordino
from sordino.data import table_file
from sordino.data.columns import Columns
from sordino.data.sources import DataError
from sordino.errors import InvalidArgument

pytestmark = [
    pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names"),
]
MIXED = """\
target = "ill"
classes = ["no", "yes"]
[columns.age]
bounds = [0, 120]
[columns.job]
levels = ["clerk", "nurse, night", "NA"]
[columns.smoker]
levels = [false, true]
"""
BOUNDS = """\
target = "ill"
classes = ["no", "yes"]
[columns.age]
bounds = [0, 120]
[columns.weight]
bounds = [1, 300]
"""
UNIT = """\
target = "ill"
classes = ["no", "yes"]
[columns.age]
bounds = [0, 1]
[columns.weight]
bounds = [0, 1]
"""
SECRET = "Xq7jSmith"


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draws = np.random.default_rng(3)
    ages = draws.integers(10, 140, 200)
    return pd.DataFrame(
        {
            "id": [f"{SECRET}{i}" for i in range(200)],
            "smoker": draws.choice([True, False], 200),
            "job": draws.choice(["clerk", "nurse, night", "NA", "pilot", None], 200),
            "weight": draws.uniform(40, 120, 200),
            "age": np.where(draws.random(200) < 0.1, np.nan, ages),
            "ill": np.where(ages > 60, "yes", "no"),
        }
    )


def _model(people: pd.DataFrame, text: str, *, named: bool = True):
    X = table_file.rows(people, Columns.from_toml(text))
    settings = {"method": "output-gd", "steps": 20, "data_norm": 1.1}  # which is quick to plan
    model = sordino.PrivateLogisticRegression(8.0, 1e-6, classes=["no", "yes"], **settings)
    model.fit(X if named else X.to_numpy(), people["ill"])
    return model.declare(columns=text, preprocessing=[])


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("text", [MIXED, BOUNDS, UNIT])
@pytest.mark.parametrize("saved", [True, False])
def test_raw_and_encoded_rows_are_seen_alike(
    people, tmp_path: Path, text: str, named: bool, saved: bool
) -> None:
    model = _model(people, text, named=named)
    if saved:
        model.save(tmp_path / "model")
        model = sordino.load(tmp_path / "model")
    encoded = table_file.rows(people, Columns.from_toml(text))
    expected = model.decision_function(encoded.to_numpy())
    weights = np.append(model.coef_, model.intercept_)
    rows = np.column_stack([encoded, np.ones(len(encoded))])
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True) / 1.1, 1)
    np.testing.assert_allclose(expected, rows @ weights, rtol=0, atol=1e-12)
    dictionary = {
        name: [None if pd.isna(each) else each for each in people[name]] for name in people
    }
    tables = {
        "raw": people,
        "another order, another index": people[people.columns[::-1]].set_index(people["id"]),
        "polars": pl.DataFrame(dictionary),
        "encoded": encoded,
        "a copy of encoded rows": encoded.iloc[:].copy(),
    }
    for name, table in tables.items():
        np.testing.assert_array_equal(model.decision_function(table), expected, err_msg=name)
    np.testing.assert_array_equal(model.predict(people), model.predict(encoded.to_numpy()))
    likely = model.predict_proba(encoded.to_numpy())
    np.testing.assert_array_equal(model.predict_proba(people), likely)
    assert model.score(people, people["ill"]) == model.score(encoded.to_numpy(), people["ill"])
    few = people.iloc[[5, 3]]
    np.testing.assert_array_equal(model.decision_function(few), expected[[5, 3]])


def test_encoded_names_tell_where_they_differ(people) -> None:
    model = _model(people, MIXED)
    encoded = table_file.rows(people, Columns.from_toml(MIXED))
    unmarked = pd.DataFrame(encoded.to_numpy(), columns=encoded.columns)
    np.testing.assert_array_equal(model.predict(unmarked), model.predict(encoded))
    both = pd.concat([people, unmarked.drop(columns="age")], axis=1)
    with pytest.raises(InvalidArgument, match="not both"):
        model.predict(both)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(unmarked.drop(columns="job=NA"))


def test_a_table_that_names_cannot_tell_is_never_guessed_at(people) -> None:
    """Of bounds alone: raw and encoded columns are called the same."""
    model = _model(people, BOUNDS)
    encoded = table_file.rows(people, Columns.from_toml(BOUNDS))
    unmarked = pd.DataFrame(encoded.to_numpy(), columns=encoded.columns)
    for table in (unmarked, unmarked.iloc[:1], pl.DataFrame(unmarked.to_dict("list"))):
        with pytest.raises(InvalidArgument, match="to tell whether it is raw or encoded") as error:
            model.predict(table)
        assert "to_numpy()" in str(error.value)
    raw = pd.DataFrame({"age": [1.0], "weight": [1.0]})  # a child of one kilogram: said how
    known = Columns.from_toml(BOUNDS)
    expected = model.decision_function(np.array([[1 / 120, 0.0]]))
    np.testing.assert_allclose(model.decision_function(table_file.rows(raw, known)), expected)
    unit = _model(people, UNIT)  # to encode these changes nothing
    np.testing.assert_array_equal(unit.predict(unmarked), unit.predict(unmarked.to_numpy()))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_what_a_raw_table_lacks_is_told_without_a_cell(people, make) -> None:
    model = _model(people, MIXED)
    good = {"age": [30.0, 40.0], "job": ["clerk", SECRET], "smoker": [True, False]}
    model.predict(make(good))
    wrong = {
        "columns='job'": {name: each for name, each in good.items() if name != "job"},
        "Column age has no finite number in row 2": {**good, "age": ["30", SECRET]},
        "Column job has none of its levels in any row": {**good, "job": [SECRET, SECRET]},
    }
    for why, table in wrong.items():
        with pytest.raises((InvalidArgument, DataError), match=why) as error:
            model.predict(make(table))
        assert SECRET not in str(error.value)


def test_without_a_description_nothing_is_raw(people) -> None:
    model = _model(people, MIXED).declare(columns="")
    with pytest.raises(InvalidArgument):
        model.predict(people)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(people[["age", "weight"]])
