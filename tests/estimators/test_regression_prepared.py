"""Regressions of rows in their bounds, around a centre, and of records that count differently: one
promise for all of it, sums that no record moves farther, and rows that are seen as in training."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sordino
from sordino import Ledger, PrivateLinearRegression, PrivateRidge
from sordino.accounting import gaussian
from sordino.audit import audit
from sordino.audit.runners import fits
from sordino.errors import InvalidArgument
from sordino.estimators import methods
from sordino.estimators.methods.statistics import Sums
from sordino.privacy import Relation
from sordino.proofs.prepared import PreparedEvidence
from sordino.proofs.statistics import sensitivity
from sordino.release.verify import verify_certificate

DELTA = 1e-5
TARGET = (0.0, 100.0)
PREPARED: tuple[dict[str, Any], ...] = (
    {},
    {"center": "none"},
    {"center": "private"},
    {"center": "private", "scale": "private"},
    {"center": [2.0, 2.0, 2.0], "scale": "private"},
    {"bounds": None, "center": [2.0, 2.0, 2.0], "scale": [0.5, 0.5, 0.5]},
)
METHODS = ("statistics", "noisy-gd")


def table(rows: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around (2, 2, 2), in a corner of bounds 0 and 10; targets around 40."""
    draw = np.random.default_rng(seed)
    X = 2 + 0.4 * draw.normal(size=(rows, 3))
    return X, 40 + (X - 2) @ [30.0, -20.0, 0.0] + draw.normal(size=rows)


def estimator(kind: Any = PrivateRidge, **more: Any) -> Any:
    how = {"epsilon": 1.0, "delta": DELTA, "bounds": (0, 10), "target_bounds": TARGET, **more}
    return kind(**how)


class TestPromise:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("how", PREPARED)
    def test_it_is_kept_and_nearly_spent_by_all_of_it(
        self, method: str, how: dict[str, Any]
    ) -> None:
        model = estimator(method=method, max_sample_weight=2.0, **how)
        X, y = table()
        model.fit(X, y, np.linspace(0, 3, len(y)))
        papers = model.certificate_
        assert 0.999 < papers.guarantee.epsilon <= 1.0
        verify_certificate(papers, papers.to_json().encode())
        private = [name for name in ("center", "scale") if how.get(name) == "private"]
        if private or not how:
            assert isinstance(papers.evidence, PreparedEvidence) or not private
        if private and method == "statistics":
            # All Gaussian, so exact: the squares of what each tells add up to the whole.
            mu = 1 / gaussian.sigma(1.0, DELTA)
            assert papers.evidence.proof().profile.mu == pytest.approx(mu, rel=1e-3)
            assert len(papers.evidence.releases) == len(private)

    @pytest.mark.parametrize("relation", ["zero-out", "add-or-remove-one"])
    def test_other_relations(self, relation: str) -> None:
        more = {"public_rows": 400} if relation == "add-or-remove-one" else {}
        model = estimator(relation=relation, center="private", method="statistics", **more)
        assert 0.999 < model.fit(*table()).privacy_.epsilon <= 1

    def test_a_ledger_is_charged_for_the_whole(self, tmp_path: Path) -> None:
        ledger = Ledger(tmp_path / "l.db", dataset="d", epsilon=1.0, delta=DELTA)
        with ledger:
            estimator(center="private").fit(*table())
        assert ledger.status().epsilon_left == pytest.approx(0, abs=1e-3)

    @pytest.mark.parametrize("method", ["auto", *METHODS])
    def test_nothing_about_the_rows_decides_anything(self, method: str) -> None:
        """Plans are equal for all data of one shape: far, long, constant, huge; of any target."""
        X, y = table()
        own = np.linspace(0, 3, len(y))
        for how in (*PREPARED, {"epsilon": 0.05}):
            fits = [
                estimator(method=method, max_sample_weight=2.0, **how)._prepare(*each)
                for each in (
                    (X, y, None, own),
                    (-1000 * X, 1e6 * y, None, own[::-1]),
                    (np.zeros_like(X), 0 * y, None, 0 * own),
                    (1e200 * X, -y, None, 1e9 * own),
                )
            ]
            assert all(fit.plan == fits[0].plan for fit in fits), how
            arrays = [{k: a.tobytes() for k, a in f.coordinates.arrays.items()} for f in fits]
            assert all(each == arrays[0] for each in arrays), how


class TestRows:
    """A model sees a row as its training did, and a stranger reads it so, too."""

    @pytest.mark.parametrize("method", [*METHODS, "none"])
    @pytest.mark.parametrize("how", PREPARED)
    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.filterwarnings("ignore:Not private. method='none'")
    def test_saved_and_loaded(
        self, method: str, how: dict[str, Any], intercept: bool, tmp_path: Path
    ) -> None:
        X, y = table()
        model = estimator(method=method, fit_intercept=intercept, **how).fit(X, y)
        loaded = sordino.load(model.save(tmp_path / "m"))
        for rows in (X, X.astype(np.float32), 1e3 * X, -1e30 * X):
            assert np.array_equal(loaded.predict(rows), model.predict(rows))

    @pytest.mark.filterwarnings("ignore:Not private. epsilon is infinite")
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("how", [{"center": "private"}, {"center": [2.0, 2.0, 2.0]}])
    def test_without_noise_it_is_a_good_fit_of_the_rows_that_are_no_longer_than_the_norm(
        self, method: str, how: dict[str, Any]
    ) -> None:
        """By hand: what was solved on prepared rows is what is predicted of raw ones."""
        X, y = table(2000)
        model = estimator(method=method, epsilon=math.inf, l2=0.0, **how).fit(X, y)
        seen = model._scaling.rows(X)
        weights = np.append(model.coef_, model.intercept_ - 50)
        assert np.clip(seen @ weights + 50, *TARGET) == pytest.approx(model.predict(X))
        assert model.score(X, y) > 0.97

    def test_the_middle_of_the_bounds_is_written_where_a_rule_takes_it(
        self, tmp_path: Path
    ) -> None:
        few = table(60)
        model = estimator(epsilon=0.3).fit(*few)
        assert model.settings_["center"] == "public"
        assert model.certificate_.model.settings["center"] == "public"
        assert not model._coordinates.center.any()
        loaded = sordino.load(model.save(tmp_path / "m"))
        assert loaded.center == pytest.approx([5.0, 5.0, 5.0])
        assert estimator().fit(*table(4000)).settings_["center"] == "private"

    def test_a_centre_helps_in_a_corner(self) -> None:
        """R2 was about 0.8 with it and 0.3 without, in ten fits."""
        X, y = table(3000)
        plain = estimator(bounds=None, data_norm=1.0).fit((X - 5) / 5, y)
        assert estimator().fit(X, y).score(X, y) > plain.score((X - 5) / 5, y) + 0.1

    @pytest.mark.filterwarnings("ignore:Not private. epsilon is infinite")
    def test_a_public_table_gives_centre_and_start(self) -> None:
        X, y = table()
        known = table(100, seed=7)
        model = estimator(method="noisy-gd", public=known)
        fitting = model._prepare(X, y)
        assert model._prepare(0 * X, 0 * y).start.tobytes() == fitting.start.tobytes()
        assert fitting.start.any()
        idle = estimator(method="noisy-gd", public=known, steps=1, learning_rate=1e-9)
        idle.set_params(epsilon=math.inf)
        assert idle.fit(X, y).score(X, y) > 0.9


class TestAudit:
    """What an audit runs is what `fit` does: the same prepared rows, targets and weights."""

    @pytest.mark.parametrize("method", METHODS)
    def test_its_runs_are_fits(self, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y = table(40)
        model = estimator(method=method, max_sample_weight=2.0, center="private")
        trained: list[Any] = []
        kind = methods.REGRESSION[method]

        class Watched:
            def __getattr__(self, name: str) -> Any:
                return getattr(kind, name)

            def train(self, plan: Any, records: Any, *more: Any) -> Any:
                trained.append(records)
                return kind.train(plan, records, *more)

        monkeypatch.setitem(methods.REGRESSION, method, Watched())
        mechanism, D, _ = fits.mechanism(model, X, y)
        D = replace(D, weights=np.linspace(0, 1, 40))
        assert np.isfinite(mechanism(D, None)).all()
        (records,) = trained
        assert records.classes == 0
        assert np.array_equal(records.weights, D.weights)
        assert records.codes == pytest.approx((y - 50) / 50, abs=1e-12)

    @pytest.mark.slow
    @pytest.mark.parametrize("method", METHODS)
    def test_attacks_see_no_more_than_is_claimed(self, method: str) -> None:
        X, y = table(40)
        model = estimator(method=method, center="private", epsilon=4.0)
        mechanism, D, claim = fits.mechanism(model, X, y)
        other = replace(D, X=np.vstack([-D.X[:1], D.X[1:]]), y=np.append(-D.y[:1], D.y[1:]))
        found = audit(mechanism, D, other, claim=claim, runs=600)
        assert not found.violated


class TestWeights:
    @pytest.mark.parametrize("method", [*METHODS, "none"])
    @pytest.mark.filterwarnings("ignore:Not private")
    def test_they_are_those_of_squares(self, method: str) -> None:
        """Weight 2 of bound 2 is a record, 0 is none: as of the rows that weigh something."""
        X, y = table()
        own = np.where(np.arange(len(y)) % 2, 2.0, 0.0)
        y = np.where(own > 0, y, 0.0)  # the others would pull
        how = {"method": method, "epsilon": math.inf, "center": "none", "l2": 0.0}
        model = estimator(max_sample_weight=2.0, **how).fit(X, y, own)
        half = estimator(**how).fit(X[own > 0], y[own > 0])
        if method == "noisy-gd":  # half the mean gradient, and as many steps: not quite there
            assert model.score(X[own > 0], y[own > 0]) > 0.9
        else:
            assert model.coef_ == pytest.approx(half.coef_, rel=1e-6)

    def test_of_noise_they_are_not_seen(self) -> None:
        X, y = table()
        for method in METHODS:
            plain = estimator(method=method)._prepare(X, y).plan
            own = estimator(method=method, max_sample_weight=7.0)._prepare(X, y, None, 5 + 0 * y)
            assert own.plan == plain

    @pytest.mark.parametrize("seed", range(40))
    def test_no_twin_moves_the_sums_farther(self, seed: int) -> None:
        """A record that is exchanged together with its weight, at norms and targets of any size."""
        draw = np.random.default_rng(seed)
        norm = float(10 ** draw.uniform(-2, 2))
        X = draw.normal(size=(9, 3))
        X *= norm / np.linalg.norm(X, axis=1, keepdims=True)
        y, v = norm * draw.choice([-1.0, 1.0], 9), draw.choice([0.0, 0.3, 1.0], 9)
        other_X, other_y, other_v = X.copy(), y.copy(), v.copy()
        other_X[0] = draw.permutation(-X[0])
        other_y[0], other_v[0] = -y[0], draw.choice([0.0, 0.7, 1.0])
        first, second = (
            Sums.of(rows, targets, norm, 9, weights)
            for rows, targets, weights in ((X, y, v), (other_X, other_y, other_v))
        )
        moved = math.hypot(
            np.linalg.norm(first.squares - second.squares),
            np.linalg.norm(first.products - second.products),
        )
        assert moved <= sensitivity(norm * (1 + 1e-6), norm * (1 + 1e-6), Relation.REPLACE_ONE)

    def test_weights_not_divided_by_their_bound_would_move_them_farther(self) -> None:
        first, second = (
            Sums.of(np.array([row]), np.array([target]), 1.0, 1, np.array([2.0]))
            for row, target in (([1.0, 0.0], 1.0), ([0.0, 1.0], -1.0))
        )
        moved = math.hypot(
            np.linalg.norm(first.squares - second.squares),
            np.linalg.norm(first.products - second.products),
        )
        assert moved > sensitivity(1.0, 1.0, Relation.REPLACE_ONE) * 1.3


@pytest.mark.parametrize("kind", [PrivateRidge, PrivateLinearRegression])
@pytest.mark.parametrize(
    ("how", "own", "says"),
    [
        ({}, [1.0] * 40, "max_sample_weight"),
        ({"max_sample_weight": 0}, None, "max_sample_weight"),
        ({"max_sample_weight": 2.0}, [1.0] * 39, "one number a row"),
        ({"max_sample_weight": 2.0}, [-1.0] * 40, "below 0"),
        ({"bounds": (1, 0)}, None, "low below high"),
        ({"bounds": ([0, 0, 2], [1, 1, 2])}, None, "low below high"),
        ({"center": "mean"}, None, "center"),
        ({"scale": [1, 1]}, None, "one a column"),
        ({"public": (np.zeros((4, 3)), [1, 2, 3])}, None, "4 rows, 3 labels"),
        ({"public": (np.zeros((4, 3)), list("abcd"))}, None, "number"),
        ({"scale": "public"}, None, "scale"),
    ],
)
def test_bad_arguments_are_one_sentence_and_nothing_is_fitted(
    kind: Any, how: dict[str, Any], own: Any, says: str
) -> None:
    X, y = table(40)
    model = estimator(kind, **how)
    before = dict(model.__dict__)
    with pytest.raises(InvalidArgument) as refused:
        model.fit(X, y, own)
    assert says in str(refused.value)
    assert model.__dict__ == before


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", PREPARED[:4])
def test_few_rows_many_columns_constant_ones_and_far_targets(
    method: str, how: dict[str, Any]
) -> None:
    draw = np.random.default_rng(3)
    X = np.column_stack([draw.uniform(0, 10, size=(12, 30)), np.full((12, 2), 7.0)])
    y = 1e6 * draw.normal(size=12)
    model = estimator(method=method, **how).fit(X, y)
    assert model.privacy_.epsilon <= 1
    found = model.predict(X)
    assert np.isfinite(found).all()
    assert ((found >= TARGET[0]) & (found <= TARGET[1])).all()
