"""Pairs worth attacking: within the norm, neighbours, and worse than what lies around."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from sordino.audit import pairs
from sordino.audit.pairs import Difference, difference, has_silent_record, records
from sordino.audit.runners.outputs import outputs
from sordino.audit.runners.trained import TrainedRelease
from sordino.data.dataset import Dataset, row_norms
from sordino.data.neighbours import Neighbours
from sordino.errors import InvalidArgument, NotApplicable
from sordino.intrinsic import grid
from sordino.intrinsic.measure import measure
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import Relation
from sordino.sgd import TrainSpec, train

REPLACE, ADD, ZERO = Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE_ONE, Relation.ZERO_OUT
RNG = np.random.default_rng(4)


def dataset(rows=200, columns=6, quiet=3):
    """Separable in the main, and small along one axis."""
    X = RNG.standard_normal((rows, columns))
    X[:, quiet] *= 0.01
    y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(np.int64)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return Dataset(2 * X * (1 - 1e-7), y, norm_bound=2.0)


def moved(spec, pair, **how):
    """How far apart trainings on the two datasets end, for each seed."""
    first, second = outputs(TrainedRelease(spec, **how), *pair[:2], 20)
    return np.linalg.norm(first - second, axis=1)


SPEC = TrainSpec(
    ObjectiveSpec("logistic", l2=0.01, intercept=False), 0.5, 20, epochs=20, dtype="float64"
)


def one_problem(D, D_prime, label):
    """How far apart trainings of one class against the rest end, in the mean square."""
    weights = [
        train(SPEC, Dataset(each.X, (each.y == label).astype(int), 2.0), range(10))[:, 0, 0]
        for each in (D, D_prime)
    ]
    return np.sqrt(np.mean(np.square(weights[0] - weights[1]).sum(axis=1)))


def given(data, slot, x, y):
    """The dataset, and the same with one record replaced."""
    return data, pairs._with(data, slot, x, y)


class TestCanary:
    def test_it_fills_the_norm_and_is_alone(self):
        data = dataset()
        D, D_prime = pairs.canary(data, slot=5)
        assert difference(D, D_prime) == difference(D_prime, D)
        assert difference(D, D_prime).lost == 5
        for each in (D, D_prime):
            assert row_norms(each.X)[5] == pytest.approx(2.0, rel=1e-8)
        assert abs(D.X[5, 3]) > 1.5
        assert D.X[5, 3] == pytest.approx(-D_prime.X[5, 3], rel=0.01)

    def test_it_is_mislabelled(self):
        data = dataset()
        D, _ = pairs.canary(data, slot=5)
        weights = train(SPEC, data, [0])[0, 0, 0]
        assert (D.X[5] @ weights > 0) != (D.y[5] == 1)

    def test_it_moves_a_model_further_than_any_record_replaced_by_another(self):
        data = dataset()
        crafted = moved(SPEC, pairs.canary(data)).mean()
        for row in range(1, 12):
            plain = given(data, 0, data.X[row], data.y[row])
            assert crafted > 1.3 * moved(SPEC, plain).mean()
        # Nor is the same record under the other label as bad.
        flipped = given(data, 0, 2 * np.eye(6)[3] * (1 - 1e-7), 1 - data.y[0])
        assert crafted > moved(SPEC, flipped).mean()

    def test_one_more_record(self):
        data = dataset()
        D, D_prime = pairs.canary(data, relation=ADD)
        assert D is data
        assert difference(D, D_prime).gained == 200

    def test_a_silent_record(self):
        D, overlay = pairs.canary(dataset(), relation=ZERO, slot=2)
        assert isinstance(overlay, Neighbours)
        assert overlay.relation is ZERO
        overlay.check_of(D)
        assert moved(SPEC, (D, overlay)).min() > 0

    def test_more_classes(self):
        data = dataset()
        many = Dataset(data.X, np.arange(200) % 5, norm_bound=2.0)
        D, D_prime = pairs.canary(many)
        assert D.y[0] == D_prime.y[0]
        assert np.linalg.norm(D.X[0]) == pytest.approx(2.0)
        # It moves all five models, and them together further than a label that changes could.
        relabelled = given(D, 0, D.X[0], (D.y[0] + 1) % 5)
        crafted, other = (
            np.array([one_problem(*pair, each) for each in range(5)])
            for pair in ((D, D_prime), relabelled)
        )
        assert (crafted > 0).all()
        assert (other > 0).sum() == 2
        assert np.linalg.norm(crafted) > 1.2 * np.linalg.norm(other)

    def test_targets_that_are_no_classes(self):
        data = dataset()
        D, D_prime = pairs.canary(Dataset(data.X, np.linspace(0, 1, 200), norm_bound=2.0))
        assert (D.y[0], D_prime.y[0]) == (0, 1)
        mapped = Dataset(data.X, np.linspace(-0.9, 0.7, 200), norm_bound=2.0)
        assert [each.y[0] for each in pairs.canary(mapped)] == [-1, 1]
        np.testing.assert_array_equal(D.X[0], D_prime.X[0])

    def test_very_many_columns(self):
        X = RNG.uniform(0.1, 1, (5, 2500)) / 100
        X[:, 1234] = 0
        D, _ = pairs.canary(Dataset(X, [0, 1, 0, 1, 1], norm_bound=1.0))
        assert abs(D.X[0, 1234]) > 0.5

    def test_without_a_bound(self):
        data = dataset()
        with pytest.raises(InvalidArgument, match="norm_bound"):
            pairs.canary(Dataset(data.X, data.y))


class TestWorstCase:
    @pytest.mark.parametrize("kind", ["logistic", "huber-svm"])
    def test_it_comes_within_a_thousandth_of_the_bound(self, kind):
        from sordino import sensitivity

        spec = TrainSpec(
            ObjectiveSpec(kind, l2=0.01, intercept=False),
            0.2,
            60,
            steps=30,
            order="fixed",
            init="given",
            dtype="float64",
        )
        worst = pairs.worst_case_pair(60, 4, norm=3.0)
        bound = sensitivity.gradient_descent(
            constants=spec.objective.constants(3.0), n=60, rate=0.2, steps=30, relation=REPLACE
        ).worst
        found = moved(spec, worst, initial_weights=worst.initial_weights).max()
        assert 0.999 * bound < found <= bound * (1 + 1e-9)

    def test_without_a_start_it_is_worse_than_a_mirrored_record(self):
        worst = pairs.worst_case_pair(60, start=False)
        assert worst.initial_weights is None
        plain = [
            Dataset(np.vstack([[0.0, sign * (1 - 1e-9)], worst.D.X[1:]]), worst.D.y, norm_bound=1.0)
            for sign in (1, -1)
        ]
        spec = TrainSpec(
            ObjectiveSpec("logistic", l2=0.001, intercept=False),
            2.0,
            60,
            steps=300,
            dtype="float64",
        )
        assert moved(spec, worst).mean() > 1.2 * moved(spec, plain).mean()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Record 9 stands apart: without it the model is another one."""
    X = RNG.uniform(-0.1, 0.1, (25, 3))
    X[9] = [0.0, 0.0, 5.0]
    data = Dataset(X, np.arange(25) % 2, name="apart")
    spec = TrainSpec(ObjectiveSpec("logistic"), 0.5, 6, epochs=3, dtype="float64")
    directory = tmp_path_factory.mktemp("study") / "one"
    return data, spec, grid.load(measure(spec, data, 20, 24, init="fixed", store=directory))


class TestWorstOfGrid:
    def test_the_record_that_matters(self, study):
        data, spec, grid = study
        found = pairs.worst_of_grid(grid, data)
        assert 9 in found.records
        assert found.seeds == tuple(range(20))
        assert found.distance > 1
        apart = difference(*found.pair)
        assert apart.slot is not None
        assert moved(spec, found.pair).min() > 0

    def test_the_datasets_are_those_of_the_study(self, study):
        from sordino.intrinsic.grid import datasets
        from sordino.intrinsic.measure import arrays

        data, _, grid = study
        found = pairs.worst_of_grid(grid, data)
        of_study = datasets(data, 24)
        for label, each in zip(found.records, found.pair, strict=True):
            X, y = arrays(of_study, grid.neighbours.index(label))
            wanted = sorted(np.column_stack([X, y]).tolist())
            assert sorted(np.column_stack([each.X, each.y]).tolist()) == wanted

    def test_another_dataset(self, study):
        _, _, grid = study
        with pytest.raises(InvalidArgument, match="to be apart"):
            pairs.worst_of_grid(grid, dataset())

    def test_neighbours_of_ones_own(self, study, tmp_path):
        from sordino.data import neighbours as nb

        data, spec, _ = study
        given = nb.replace(data, [3], -data.X[3:4], data.y[3:4])
        found = measure(spec, data, 16, given, init="fixed", store=tmp_path / "given")
        with pytest.raises(NotApplicable, match="drawn"):
            pairs.worst_of_grid(grid.load(found), data)


# One record between two datasets: found, or refused in a sentence.

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
