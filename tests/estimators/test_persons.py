"""`fit(X, y, persons=ids)`: rows are counted and cut, and the certificate says so."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from damaged import WORDS, leaked, said
from sklearn.model_selection import GridSearchCV

import sordino
from sordino import InvalidArgument, Ledger
from sordino import PrivateLogisticRegression as Logistic
from sordino.estimators import methods
from sordino.proofs.evidence import SelectionEvidence
from sordino.proofs.proof import about_persons
from sordino.release.certificate import Certificate, CertificateError
from sordino.release.verify import verify_certificate

PRIVATE = [name for name in methods.METHODS if name not in ("none", "majority")]
QUICK = ("noisy-gd", "output-gd", "dp-agd")
"""The others take seconds to plan."""


def table(rows: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(11)
    X = draw.normal(size=(rows, 3)) / 3
    ids = np.array([f"p{each}" for each in draw.geometric(0.02, rows)], dtype=object)
    return X, (X[:, 0] + 0.2 * draw.normal(size=rows) > 0).astype(int), ids


def model(**params: Any) -> Logistic:
    given = {"epsilon": 2.0, "delta": 1e-6, "classes": [0, 1], "max_rows_per_person": 3}
    return Logistic(**{**given, **params})


@pytest.mark.parametrize(
    "method",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PRIVATE],
)
def test_every_method_counts_and_its_certificate_is_verified(method: str) -> None:
    X, y, ids = table()
    for persons, counted in ((ids, True), (None, False)):
        found = model(method=method).fit(X, y, persons=persons)
        assert found.privacy_ is not None
        assert found.privacy_.assumes[-1:] == about_persons(counted, 3)
        papers = Certificate.from_json(found.certificate_.to_json())
        assert papers.evidence is not None
        assert papers.evidence.persons_counted is counted
        rows = getattr(papers.evidence, "rows", None)
        left = np.minimum(pd.Series(ids).value_counts(), 3).sum()
        assert rows in (None, left if counted else len(y))
        verify_certificate(papers)
        assert ("nobody counted rows per person" in " ".join(str(papers).split())) is not counted


def forged(papers: Certificate, assumes: tuple[str, ...], counted: bool | None) -> Certificate:
    assert papers.guarantee is not None
    assert papers.evidence is not None
    guarantee = replace(papers.guarantee, assumes=assumes)
    return replace(
        papers, guarantee=guarantee, evidence=replace(papers.evidence, persons_counted=counted)
    )


def test_a_certificate_that_says_otherwise_is_refused() -> None:
    X, y, ids = table()
    for persons, counted in ((ids, True), (None, False)):
        papers = model(method="dp-sgd", steps=20).fit(X, y, persons=persons).certificate_
        assert papers.guarantee is not None
        (*others, ours) = papers.guarantee.assumes
        for assumes, said_ in (
            ((*others,), counted),
            ((*others, ours), not counted),
            ((*others, ours), None),
            ((*others, *about_persons(not counted, 3)), counted),
            ((*others, *about_persons(counted, 4)), counted),
            ((*others, ours, ours), counted),
        ):
            with pytest.raises(CertificateError):
                verify_certificate(forged(papers, assumes, said_))
        # As an earlier version would have written it: it says less, and that is said.
        earlier = forged(papers, (*others,), None)
        assert "persons_counted" not in earlier.to_json()
        assert Certificate.from_json(earlier.to_json()) == earlier
        silent = "It does not say whether anybody counted rows per person."
        assert silent in verify_certificate(earlier, earlier.to_json().encode()).findings
        assert silent not in verify_certificate(papers).findings
        # A column of persons is there to be counted by.
        text = "person = 'who'\n" + "".join(
            f"[columns.x{at}]\nbounds = [0, 1]\n" for at in range(3)
        )
        described = replace(papers, preprocessing=replace(papers.preprocessing, columns=text))
        if counted:
            verify_certificate(described)
        else:
            with pytest.raises(CertificateError):
                verify_certificate(described)


@pytest.mark.parametrize(
    "persons",
    [
        [1] * 399,
        [1] * 401,
        [[1]] * 400,
        "p" * 400,
        7,
        [None, *[1] * 399],
        [float("nan"), *[1] * 399],
        ["", *["a"] * 399],
        [{}, *[1] * 399],
    ],
    ids=range(9),
)
def test_ids_that_cannot_be_used_leave_everything_as_it_was(persons: object) -> None:
    X, y, _ = table()
    estimator = model()
    before = dict(vars(estimator))
    for use in (estimator.fit, estimator.preview):
        with pytest.raises(InvalidArgument) as error:
            use(X, y, persons=persons)
        assert error.value.argument == "persons"
    assert vars(estimator) == before


def test_ids_of_any_kind_and_none_is_told(tmp_path: Path) -> None:
    X, y, ids = table()
    numbers = np.unique(ids, return_inverse=True)[1]
    for persons in (list(ids), pd.Series(ids), numbers, numbers.astype(float), tuple(numbers)):
        evidence = model(method="noisy-gd").fit(X, y, persons=persons).certificate_.evidence
        assert evidence.rows == np.minimum(np.bincount(numbers), 3).sum()  # type: ignore[union-attr]
    for at, word in enumerate(WORDS):
        for last in ("b", None):
            persons = [word, last] * 200
            place = tmp_path / f"{at}-{last}"

            def save(place: Path = place, persons: list = persons) -> object:
                return model(method="noisy-gd").fit_and_save(X, y, place, persons=persons)

            _, told = said(save)
            assert not leaked(told, *(each.read_bytes() for each in place.glob("*")))


def test_which_rows_are_used_is_drawn_anew_and_a_ledger_knows_the_data(tmp_path: Path) -> None:
    X, y, ids = table()
    estimator = model(max_rows_per_person=1)
    first, second = (estimator._prepare(X, y, ids) for _ in range(2))
    assert first.X.shape == second.X.shape
    assert not np.array_equal(first.X, second.X)
    ledger = Ledger(tmp_path / "b.db", dataset="d", epsilon=9.0, delta=1e-5, max_rows_per_person=3)
    with warnings.catch_warnings(), ledger:
        warnings.simplefilter("error")  # of data that are not those of before
        charged = model(method="noisy-gd")
        for _ in range(2):
            charged.fit(X, y, persons=ids)
    assert len(ledger.status().entries) == 2


def test_the_best_of_several_counts_once_for_all() -> None:
    X, y, ids = table()
    candidates = [model(method="noisy-gd", steps=steps) for steps in (4, 8)]
    found = sordino.tune(
        candidates, X, y, score=lambda each: 0.0, epsilon=4.0, delta=1e-6, mean_runs=30, persons=ids
    )
    evidence = found.certificate_.evidence
    assert isinstance(evidence, SelectionEvidence)
    assert evidence.persons_counted is True
    assert found.privacy_ is not None
    assert about_persons(True, 3)[0] in found.privacy_.assumes
    assert about_persons(False, 3)[0] not in found.privacy_.assumes
    verify_certificate(found.certificate_)


@pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
def test_a_search_hands_every_fold_its_ids() -> None:
    X, y, ids = table()
    search = GridSearchCV(model(method="noisy-gd"), {"steps": [4, 8]}, cv=2)
    search.fit(X, y, persons=ids)
    evidence = search.best_estimator_.certificate_.evidence
    assert evidence is None or evidence.persons_counted


def test_weights_by_place_are_not_taken_for_persons() -> None:
    X, y, _ = table()
    with pytest.raises(InvalidArgument, match="max_sample_weight"):
        model().fit(X, y, np.ones(len(y)))
    planned = model(max_sample_weight=1.0)._prepare(X, y, None, np.ones(len(y)))
    assert not planned.plan.task.persons_counted
    with pytest.raises(TypeError):
        model().fit(X, y, np.ones(len(y)), np.zeros(len(y)))
