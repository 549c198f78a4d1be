"""Pairs worth attacking: within the norm, neighbours, and worse than what lies around."""

from __future__ import annotations

import numpy as np
import pytest

from sordino.audit import pairs
from sordino.audit.pairs import difference
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
