"""One record between two datasets: found, or refused in a sentence."""

from __future__ import annotations

import numpy as np
import pytest

from sordino._check import InvalidArgument
from sordino.audit.difference import Difference, difference, records
from sordino.data.dataset import Dataset
from sordino.privacy import Relation

REPLACE, ADD = Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE_ONE
X = np.arange(12.0).reshape(4, 3)
Y = np.array([0, 1, 1, 0])


def changed(row=2, value=-5.0):
    other = X.copy()
    other[row, 1] = value
    return other


@pytest.mark.parametrize("wrap", [lambda X, y: Dataset(X, y), lambda X, y: (X, y)])
def test_a_replaced_record(wrap):
    assert difference(wrap(X, Y), wrap(changed(), Y)) == Difference(REPLACE, 2, 2)


def test_a_label_alone_is_a_record_too():
    assert difference((X, Y), (X, np.array([0, 1, 0, 0]))) == Difference(REPLACE, 2, 2)


def test_records_are_a_multiset():
    order = [3, 1, 0, 2]
    found = difference((X, Y), (changed()[order], Y[order]))
    assert found == Difference(REPLACE, 2, 3)
    assert not found.aligned


def test_one_more_and_one_less():
    more = np.vstack([X, X[:1]]), np.append(Y, 0)
    assert difference((X, Y), more) == Difference(ADD, None, 0)
    assert difference(more, (X, Y)) == Difference(ADD, 0, None)
    assert difference((X, Y), (X[[0, 1, 3]], Y[[0, 1, 3]])) == Difference(ADD, 2, None)


def test_signs_of_zero_and_kinds_of_numbers_do_not_count():
    first = np.array([[0.0, 1.0], [2.0, 3.0]])
    second = np.array([[-0.0, 1.0], [2.0, 4.0]], dtype=np.float32)
    assert difference(first, second) == Difference(REPLACE, 1, 1)


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


def test_what_has_no_records_is_not_looked_into():
    for data in (0, 1.5, "text", {"a": 1}, object(), (X, Y[:2]), np.array([{}, {}]), [[1], [2, 3]]):
        assert records(data) is None
    assert difference(0, 1) is None
    assert difference({"a": X}, {"a": X}) is None
