"""One record between two datasets: found, or refused in a sentence."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from sordino.audit.pairs import Difference, difference, has_silent_record, records
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.privacy import Relation

REPLACE, ADD = Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE_ONE
X = np.arange(12.0).reshape(4, 3)
Y = np.array([0, 1, 1, 0])


TEXTS = np.array(["a", "b", "b", "a"])


def replaced(row):
    return Difference(REPLACE, row, row, in_order=True)


def changed(row=2, value=-5.0):
    other = X.copy()
    other[row, 1] = value
    return other


@pytest.mark.parametrize("wrap", [lambda X, y: Dataset(X, y), lambda X, y: (X, y)])
def test_a_replaced_record(wrap):
    assert difference(wrap(X, Y), wrap(changed(), Y)) == replaced(2)


def test_a_label_alone_is_a_record_too():
    assert difference((X, Y), (X, np.array([0, 1, 0, 0]))) == replaced(2)


def test_records_are_a_multiset():
    order = [3, 1, 0, 2]
    found = difference((X, Y), (changed()[order], Y[order]))
    assert found == Difference(REPLACE, 2, 3, in_order=False)
    assert found.slot is None


def test_one_more_and_one_less():
    more = np.vstack([X, X[:1]]), np.append(Y, 0)
    assert difference((X, Y), more) == Difference(ADD, None, 4, in_order=True)
    assert difference(more, (X, Y)) == Difference(ADD, 4, None, in_order=True)
    less = X[[0, 1, 3]], Y[[0, 1, 3]]
    assert difference((X, Y), less) == Difference(ADD, 2, None, in_order=True)
    less = X[[3, 1, 0]], Y[[3, 1, 0]]
    assert difference((X, Y), less) == Difference(ADD, 2, None, in_order=False)
    assert difference(less, (X, Y)) == Difference(ADD, None, 2, in_order=False)
    assert difference(X[:0], X[:1]) == Difference(ADD, None, 0, in_order=True)
    doubled = X[[0, 1, 1, 2]], Y[[0, 1, 1, 2]]
    assert difference(doubled, (X[:3], Y[:3])) == Difference(ADD, 2, None, in_order=True)


def test_signs_of_zero_and_kinds_of_numbers_do_not_count():
    first = np.array([[0.0, 1.0], [2.0, 3.0]])
    second = np.array([[-0.0, 1.0], [2.0, 4.0]], dtype=np.float32)
    assert difference(first, second) == replaced(1)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ((X, Y), "the same records"),
        ((X[::-1], Y[::-1]), "the same records"),
        ((changed(), 1 - Y), "4 other records"),
        ((X[:2], Y[:2]), "2 other records"),
        ((X[:, :2], Y), "records of shape"),
    ],
)
def test_anything_else_is_refused(other, words):
    with pytest.raises(InvalidArgument, match=words):
        difference((X, Y), other)


FORMS = {
    "objects": lambda X, y: (X.astype(object), y),
    "object labels": lambda X, y: (X, TEXTS[y].astype(object)),
    "texts": lambda X, y: (X, TEXTS[y]),
    "one array in a tuple": lambda X, y: (np.column_stack([X, y]),),
    "lists": lambda X, y: (X.tolist(), y.tolist()),
    "a list of X and y": lambda X, y: [X, y],
    "a list of records": lambda X, y: list(zip(X.tolist(), y.tolist(), strict=True)),
    "records of arrays": lambda X, y: [(row, label) for row, label in zip(X, y, strict=True)],
    "ragged records": lambda X, y: [[*row[: 1 + k % 3], y[k]] for k, row in enumerate(X.tolist())],
    "dictionaries": lambda X, y: [{"x": tuple(row), "y": k} for row, k in zip(X, y, strict=True)],
    "pandas": lambda X, y: pd.DataFrame(X).assign(y=y),
    "pandas, mixed": lambda X, y: pd.DataFrame(X, columns=list("abc")).assign(y=TEXTS[y]),
    "pandas, categories": lambda X, y: (
        pd.DataFrame(X),
        pd.Series(TEXTS[y], dtype="category"),
    ),
    "pandas, missing": lambda X, y: pd.DataFrame(X).assign(m=pd.NA, n=np.nan, t=pd.NaT, y=y),
    "pandas, times": lambda X, y: (
        pd.DataFrame(X).assign(day=pd.Timestamp("2026-01-01")),
        pd.to_datetime(pd.Series(y), unit="D"),
    ),
    "polars": lambda X, y: pl.DataFrame(X).with_columns(pl.Series("y", TEXTS[y])),
    "sparse": lambda X, y: (sparse.csr_matrix(X), y),
    "sparse columns": lambda X, y: (sparse.csc_array(X), y),
    "structured": lambda X, y: np.array(
        [(row[1], k) for row, k in zip(X, y, strict=True)], dtype=[("x", float), ("y", int)]
    ),
    "not a number": lambda X, y: (np.column_stack([np.full(len(X), np.nan), X]), y),
    "dates": lambda X, y: [
        (datetime.date(2026, 1, 1 + k), *row) for row, k in zip(X, y, strict=True)
    ],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_records_is_compared(form):
    shown = FORMS[form]
    assert difference(shown(X, Y), shown(changed(1), Y)) == replaced(1)
    with pytest.raises(InvalidArgument, match="4 other records"):
        difference(shown(X, Y), shown(X + 100, Y))
    with pytest.raises(InvalidArgument, match="the same records"):
        difference(shown(X, Y), shown(X.copy(), Y.copy()))
    if form not in ("one array in a tuple", "ragged records"):
        assert difference(shown(X, Y), shown(X, Y ^ [0, 0, 0, 1])) == replaced(3)
    if form != "ragged records":  # which are cut by their place
        kept = [0, 1, 3]
        less = shown(X[kept], Y[kept])
        assert difference(shown(X, Y), less) == Difference(ADD, 2, None, in_order=True)


def test_one_row_of_a_sparse_matrix_written_in_another_way():
    twice = sparse.coo_matrix(([1.0, 2.0, 5.0, 0.0], ([0, 0, 1, 2], [1, 1, 0, 2])), shape=(3, 3))
    once = np.array([[0, 3.0, 0], [5.0, 0, 0], [0, 0, 0]])
    for other in (sparse.csr_matrix(once), once):
        with pytest.raises(InvalidArgument, match="the same records"):
            difference(twice, other)
    once[2, 1] = 1.0
    assert difference(twice, once) == replaced(2)


def test_kinds_of_objects_count():
    assert difference(np.array(["1", 2], object), np.array([1, 2], object)) == replaced(0)
    assert difference(np.array([True, 2], object), np.array([1, 2], object)) == replaced(0)
    assert difference(np.array([1.0, 2], object), np.array([1, 3], object)) == replaced(1)
    assert difference(np.array(["1", "2"]), np.array([1, "2"], object)) == replaced(0)


def test_columns_of_tables_have_names():
    with pytest.raises(InvalidArgument, match="columns of D"):
        difference(
            pd.DataFrame(X, columns=list("abc")), pd.DataFrame(changed(), columns=list("abd"))
        )


def test_a_record_of_zeros():
    zeros = X.copy()
    zeros[2] = 0.0
    for form in ("one array in a tuple", "sparse", "object labels", "a list of X and y"):
        pair = FORMS[form](X, 0 * Y), FORMS[form](zeros, 0 * Y)
        for D, D_prime in (pair, pair[::-1]):
            assert has_silent_record(D, D_prime, difference(D, D_prime))
        pair = FORMS[form](X, Y), FORMS[form](changed(2, 0.0), Y)
        assert not has_silent_record(*pair, difference(*pair))


def test_what_has_no_records_is_not_looked_into():
    unknown = np.array([object(), object()])
    for data in (0, 1.5, "text", {"a": 1}, object(), (X, Y[:2]), (), np.float64(1.0), [X, Y[:2]]):
        assert records(data) is None
    assert difference(0, 1) is None
    assert difference({"a": X}, {"a": X}) is None
    assert difference(unknown, unknown[::-1]) is None
    # Two columns, or two records? Nobody can say.
    assert difference([X[:, 0], X[:, 1]], [X[:, 0], X[:, 2]]) is None
