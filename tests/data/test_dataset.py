from __future__ import annotations

import copy

import numpy as np
import pytest

from sordino.data import Dataset
from sordino.errors import InvalidArgument

X = np.array([[0.6, 0.8], [0.3, 0.4]])
Y = np.array([0, 1])


def test_rows_are_kept_and_cannot_be_changed() -> None:
    data = Dataset(X, Y, norm_bound=1.0, name="two")
    assert (data.rows, data.features, data.name) == (2, 2, "two")
    assert np.array_equal(data.X, X)
    with pytest.raises(ValueError, match="read-only"):
        data.X[0, 0] = 5
    with pytest.raises(ValueError, match="read-only"):
        data.y[0] = 5


@pytest.mark.parametrize(
    ("given", "X_dtype", "y_dtype"),
    [
        ((X.astype("float32"), Y), "float32", "int64"),
        ((X, Y.astype("uint8")), "float64", "int64"),
        ((np.array([[1, 2], [3, 4]]), Y.astype("float32")), "float64", "float64"),
        ((X.tolist(), Y.tolist()), "float64", "int64"),
    ],
)
def test_types_are_few(given: tuple[np.ndarray, np.ndarray], X_dtype: str, y_dtype: str) -> None:
    data = Dataset(*given)
    assert (data.X.dtype, data.y.dtype) == (X_dtype, y_dtype)


def test_the_norm_bound_is_enforced_up_to_rounding() -> None:
    Dataset(X * (1 + 5e-7), Y, norm_bound=1.0)
    with pytest.raises(
        InvalidArgument, match=r"norm_bound=1.0 >= every row's norm; row 0 is longer"
    ):
        Dataset(X * 1.01, Y, norm_bound=1.0)
    with pytest.raises(InvalidArgument, match="norm_bound=0 > 0"):
        Dataset(X, Y, norm_bound=0)


@pytest.mark.parametrize(
    ("bad_X", "bad_y", "why"),
    [
        (np.array([[1.0, 0], [np.nan, 0]]), Y, r"X=\[1 bad rows\].*first bad row is 1"),
        (np.array([[np.inf, 0], [np.nan, 0]]), Y, r"X=\[2 bad rows\].*first bad row is 0"),
        (X, np.array([0.5, np.nan]), r"y=\[1 bad rows\]"),
        (X, np.array([0, 1, 1]), r"y.shape=\(3,\)"),
        (X, Y[:, None], r"y.shape=\(2, 1\)"),
        (X[0], Y, r"X.shape=\(2,\)"),
        (np.zeros((0, 2)), np.zeros(0), r"X.shape=\(0, 2\)"),
        (np.zeros((2, 0)), Y, r"X.shape=\(2, 0\)"),
        (X, np.array(["a", "b"]), "to be numeric"),
        (X, np.array([0j, 1j]), "to be numeric"),
    ],
)
def test_bad_rows_are_refused_in_one_sentence(
    bad_X: np.ndarray, bad_y: np.ndarray, why: str
) -> None:
    with pytest.raises(InvalidArgument, match=why):
        Dataset(bad_X, bad_y)


def test_the_fingerprint_sees_every_change_and_nothing_else() -> None:
    base = Dataset(X, Y, 1.0, "one name")
    assert base.fingerprint == Dataset(X.copy(), Y.copy(), 1.0, "another").fingerprint
    others = [
        Dataset(X, Y[::-1], 1.0),
        Dataset(X[::-1], Y, 1.0),
        Dataset(X, Y, 2.0),
        Dataset(X, Y),
        Dataset(X.astype("float32"), Y, 1.0),
        Dataset(X, Y.astype(float), 1.0),
        Dataset(X, Y, 1.0, image_shape=(1, 2)),
        Dataset(X.reshape(1, 4), Y[:1]),
    ]
    prints = {other.fingerprint for other in others} | {base.fingerprint}
    assert len(prints) == len(others) + 1


def test_take_keeps_order_bound_and_shape() -> None:
    data = Dataset(X, Y, 1.0, "two", (1, 2))
    taken = data.take(np.array([1, 0, 1]))
    assert taken.y.tolist() == [1, 0, 1]
    assert np.array_equal(taken.X, X[[1, 0, 1]])
    assert (taken.norm_bound, taken.name, taken.image_shape) == (1.0, "two", (1, 2))
    assert data.take(slice(1, None)).y.tolist() == [1]


def test_astype_changes_precision_only() -> None:
    data = Dataset(X, Y, 1.0)
    assert data.astype("float64") is data
    assert data.astype("float32").X.dtype == np.float32
    with pytest.raises(InvalidArgument, match="dtype=int8"):
        data.astype("int8")


def test_nobody_can_change_a_dataset_behind_its_back():
    """A view of the caller's array would let a checked bound become false."""
    X = np.zeros((3, 2))
    whole = np.zeros((5, 2))
    for given, change in ((X, X), (whole[1:4], whole)):
        dataset = Dataset(given, [0, 1, 0], norm_bound=1.0)
        before = dataset.fingerprint
        change[2] = 100.0
        assert np.abs(dataset.X).max() == 0
        assert Dataset(dataset.X, dataset.y, 1.0).fingerprint == before
        with pytest.raises(ValueError, match="read-only"):
            dataset.X[0] = 1


def test_a_dataset_sent_to_another_process_stays_frozen():
    dataset = Dataset(np.ones((3, 2)), [0, 1, 0], norm_bound=2, image_shape=[1, 2])
    other = copy.deepcopy(dataset)
    assert not other.X.flags.writeable
    assert other.fingerprint == dataset.fingerprint
    assert other.image_shape == (1, 2)


def test_equal_bounds_give_equal_fingerprints():
    bounds = (1, 1.0, np.float64(1), np.float32(1))
    assert len({Dataset(np.zeros((2, 2)), [0, 1], b).fingerprint for b in bounds}) == 1


def test_a_dataset_does_not_print_its_records():
    shown = repr(Dataset(np.full((3, 2), 0.123), [0, 1, 0], 1.0, "patients"))
    assert shown == "Dataset(patients: 3 x 2 float64, norm <= 1)"


def test_true_and_false_are_labels():
    assert Dataset(np.zeros((2, 2)), np.array([True, False])).y.tolist() == [1, 0]


def test_weights_go_with_their_records():
    X, weights = np.eye(4) / 2, np.array([0.0, 0.25, 1.0, 0.5])
    dataset = Dataset(X, [0, 1, 0, 1], 1.0, weights=weights)
    weights[0] = 0.9
    assert dataset.weights.tolist() == [0.0, 0.25, 1.0, 0.5]
    assert not dataset.weights.flags.writeable
    assert dataset.take([3, 1]).weights.tolist() == [0.5, 0.25]
    assert dataset.astype("float32").weights.tolist() == dataset.weights.tolist()
    other = copy.deepcopy(dataset)
    assert other.weights.tolist() == dataset.weights.tolist()
    assert other.fingerprint == dataset.fingerprint
    without = Dataset(X, [0, 1, 0, 1], 1.0)
    heavy = Dataset(X, [0, 1, 0, 1], 1.0, weights=np.ones(4))
    assert len({each.fingerprint for each in (dataset, without, heavy)}) == 3


@pytest.mark.parametrize(
    "weights", [[1.0], [0.5, 1.25], [0.5, -0.125], [np.nan, 1.0], [[1.0, 1.0]], ["heavy", "light"]]
)
def test_a_weight_that_would_count_for_more_than_a_record_is_refused(weights):
    with pytest.raises(InvalidArgument, match="Expected weights") as error:
        Dataset(np.eye(2), [0, 1], weights=weights)
    assert not any(str(cell) in str(error.value) for cell in (1.25, -0.125, "heavy"))
