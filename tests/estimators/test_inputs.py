"""Whatever rows and labels an estimator is given, nothing that it says holds one of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from damaged import NUMBERS, ODD, WORDS, leaked, said
from scipy import sparse

import sordino
from sordino import PrivateLinearSVC, PrivateLogisticRegression

ROWS, FEATURES = 12, 3
PRIVATE: tuple[Any, ...] = (
    *WORDS,
    *NUMBERS,
    *ODD,
    *(
        None,
        np.nan,
        np.inf,
        731950286.25,
        73195,
        73195 * 10**300,
        73195 + 1j,
        np.datetime64("7319-05-01"),
    ),
    *(WORDS[0].encode(), [WORDS[0]], {WORDS[0]: 1}, (73195.0,), pd.NA, pd.Timestamp("2173-01-01")),
)
NAMES = (("a", "b", "c"), WORDS[:3], NUMBERS[:3], ("a", "a", WORDS[0]), (WORDS[0], 1, 2))


def _numbers(rng: random.Random) -> np.ndarray:
    return np.array([[rng.choice((73195.5, 731950286.25)) for _ in range(FEATURES)]] * ROWS)


def _objects(rng: random.Random) -> np.ndarray:
    X = _numbers(rng).astype(object)
    for _ in range(rng.choice((1, ROWS * FEATURES))):
        X[rng.randrange(ROWS), rng.randrange(FEATURES)] = rng.choice(PRIVATE)
    return X


def _words(rng: random.Random) -> list[list[str]]:
    return [[rng.choice((*WORDS, *NUMBERS)) for _ in range(FEATURES)] for _ in range(ROWS)]


def _names(rng: random.Random) -> list[Any]:
    return list(rng.choice(NAMES))


MADE: dict[str, Callable[[random.Random], Any]] = {
    "numbers": _numbers,
    "numbers by other names": lambda rng: pd.DataFrame(_numbers(rng), columns=_names(rng)),
    "objects": _objects,
    "objects in pandas": lambda rng: pd.DataFrame(_objects(rng), columns=_names(rng)),
    "objects one by one": lambda rng: pd.DataFrame(_objects(rng)).convert_dtypes(),
    "lists": lambda rng: _objects(rng).tolist(),
    "text": lambda rng: np.array(_words(rng)),
    "bytes": lambda rng: np.array([[word.encode() for word in row] for row in _words(rng)]),
    "text in pandas": lambda rng: pd.DataFrame(_words(rng), columns=_names(rng)),
    "categories": lambda rng: pd.DataFrame(_words(rng), dtype="category"),
    "text in polars": lambda rng: pl.DataFrame(_words(rng), schema=list(WORDS[:3]), orient="row"),
    "polars": lambda rng: pl.DataFrame(_numbers(rng), schema=list(rng.choice(NAMES[:3]))),
    "not there yet": lambda rng: pl.DataFrame(_numbers(rng)).lazy(),
    "one dimension": lambda rng: _numbers(rng)[:, 0],
    "three dimensions": lambda rng: _numbers(rng)[..., None],
    "too wide": lambda rng: np.hstack([_numbers(rng)] * 2),
    "ragged": lambda rng: [[WORDS[0]] * rng.randint(0, 3) for _ in range(ROWS)],
    "sparse": lambda rng: sparse.csr_array(_numbers(rng)),
    "complex": lambda rng: _numbers(rng) + 1j,
    "a record": lambda rng: np.array([tuple(row) for row in _words(rng)], dtype="U20,U20,U20"),
    "one word": lambda rng: rng.choice(WORDS),
    "a dictionary": lambda rng: {word: [word] for word in WORDS},
    "nothing": lambda rng: None,
    "a series": lambda rng: pd.Series([rng.choice(WORDS) for _ in range(ROWS)], name=WORDS[0]),
    "a column": lambda rng: np.array(
        [[rng.choice(PRIVATE[:30])] for _ in range(ROWS)], dtype=object
    ),
    "labels": lambda rng: np.array([rng.choice(PRIVATE) for _ in range(ROWS)] + [None], object)[
        :-1
    ],
    "words for labels": lambda rng: [WORDS[number % 2] for number in range(ROWS)],
    "numbers for labels": lambda rng: [(73195, 731950)[number % 2] for number in range(ROWS)],
    "large labels": lambda rng: [73195 * 10**40 + number % 2 for number in range(ROWS)],
    "fractions": lambda rng: np.linspace(73195.1, 73195.9, ROWS),
    "rare labels": lambda rng: pd.Categorical([rng.choice(WORDS) for _ in range(ROWS)]),
    "0 and 1": lambda rng: np.arange(ROWS) % 2,
    "too few": lambda rng: [0, 1],
}
GOOD = ("numbers", "0 and 1")


def _fitted(kind: type, names: list[str] | None) -> Any:
    X = np.eye(ROWS)[:, :FEATURES]
    table = X if names is None else pd.DataFrame(X, columns=names)
    return kind(epsilon=1.0, classes=[0, 1]).fit(table, np.arange(ROWS) % 2)


@pytest.fixture(scope="module")
def fitted() -> list[Any]:
    kinds = (PrivateLogisticRegression, PrivateLinearSVC)
    return [_fitted(kind, names) for kind in kinds for names in (None, ["a", "b", "c"])]


def _uses(model: Any, X: Any, y: Any, rng: random.Random) -> dict[str, Callable[[], object]]:
    # With classes that nobody declared, labels are read off the records.
    fresh = type(model)(epsilon=1.0, classes=rng.choice((None, [0, 1], ["no", "yes"])))
    used = {
        "fit": lambda: fresh.fit(X, y),
        "preview": lambda: fresh.preview(X, y),
        "tune": lambda: sordino.tune([fresh], X, y, score=lambda _: 0.0, epsilon=1.0),
        "predict": lambda: model.predict(X),
        "decision_function": lambda: model.decision_function(X),
        "score": lambda: model.score(X, y),
    }
    if isinstance(model, PrivateLogisticRegression):
        used["predict_proba"] = lambda: model.predict_proba(X)
    return used


def _check(fitted: list[Any], seed: int) -> list[object]:
    rng = random.Random(seed)
    rows, labels = rng.choice(list(MADE)), rng.choice(list(MADE))
    if rng.random() < 0.5:  # one of them is good
        rows, labels = rng.choice(((rows, GOOD[1]), (GOOD[0], labels)))
    X, y = MADE[rows](rng), MADE[labels](rng)
    found = []
    for name, use in _uses(rng.choice(fitted), X, y, rng).items():
        ended, told = said(use)
        assert not leaked(told), (seed, name, rows, labels)
        found.append(ended)
    return found


def test_no_sentence_about_rows_or_labels_holds_one(fitted) -> None:
    ends = [end for seed in range(50) for end in _check(fitted, seed)]
    failed = sum(isinstance(end, Exception) for end in ends)
    assert failed > 30
    assert len(ends) - failed > 30


@pytest.mark.slow
def test_no_sentence_about_thousands_of_rows_or_labels_holds_one(fitted) -> None:
    for seed in range(1000, 1400):
        _check(fitted, seed)


def test_the_first_cell_that_is_no_number_is_told_by_its_place() -> None:
    X = np.eye(4).astype(object)
    X[2, 1] = WORDS[0]
    with pytest.raises(
        sordino.InvalidArgument, match=r"row 2, column 1 \(both from 0\) holds no number"
    ):
        PrivateLogisticRegression(classes=[0, 1]).fit(X, [0, 1, 0, 1])


def test_a_name_may_be_a_year() -> None:
    model = _fitted(PrivateLogisticRegression, ["2019", "2020", "age"])
    assert model.certificate_.model.feature_names == ("2019", "2020", "age")


def test_names_are_told_that_no_record_has() -> None:
    model = _fitted(PrivateLogisticRegression, ["age", "sex", "b m i"])
    X = np.eye(3)
    for names, shown in ((["age", "sex", "body_mass"], True), (["age", "sex", "Smith"], False)):
        with pytest.raises(ValueError, match="yet now missing:\n- b m i") as refused:
            model.predict(pd.DataFrame(X, columns=names))
        assert (names[2] in str(refused.value)) == shown


@pytest.mark.parametrize(
    "names", [["63", "145", "233"], ["a", "b", "c\n1,2,3"], ["a", "b", "c" * 1001]]
)
def test_names_that_no_certificate_should_publish_are_refused(names: list[str]) -> None:
    with pytest.raises(
        sordino.InvalidArgument, match="A certificate publishes the names"
    ) as refused:
        _fitted(PrivateLogisticRegression, names)
    assert not any(name in str(refused.value) for name in names[2:])
