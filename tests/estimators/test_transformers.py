"""Private scaling and private directions: sums that one record cannot move farther than is charged
for, and a fit that promises what they prove, or is refused whole."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sordino import InvalidArgument, Ledger, PrivacyLeakWarning, PrivatePCA, PrivateStandardScaler
from sordino.accounting import gaussian
from sordino.data.dataset import row_norms
from sordino.estimators.preparation import Coordinates, Preparation
from sordino.estimators.transformers.pca import released_moments, second_moments
from sordino.estimators.transformers.transformer import BoundedRows, SumsPlan
from sordino.privacy import Relation
from sordino.proofs.prepared import MEAN, MOMENTS, SQUARES, SumRelease, SumsEvidence, sum_moved
from sordino.release.ledger import BudgetExceeded
from sordino.release.mechanism import ReleaseRefused
from sordino.release.noise import OsGaussian

DELTA = 1e-5
REPLACED, REMOVED = Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE_ONE
EVERY: tuple[dict[str, Any], ...] = (
    {"kind": PrivateStandardScaler},
    {"kind": PrivateStandardScaler, "with_std": False},
    {"kind": PrivateStandardScaler, "with_mean": False, "bounds": (-3, 9)},
    {"kind": PrivatePCA, "n_components": 2},
    {"kind": PrivatePCA, "n_components": 1, "center": "none", "bounds": (-9, 9)},
    {"kind": PrivatePCA, "n_components": 3, "center": [0.5, 0.0, 0.1]},
    {"kind": PrivatePCA, "n_components": 2, "whiten": True},
)
every = pytest.mark.parametrize("how", EVERY)


def made(how: dict[str, Any], **more: Any) -> Any:
    given = {"epsilon": 1.0, "delta": DELTA, **how, **more}
    return given.pop("kind")(**given)


def table(rows: int = 300, seed: int = 0, columns: int = 3) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return 2 + draw.normal(size=(rows, columns)) * np.geomspace(1, 0.2, columns)


def as_vector(matrix: np.ndarray) -> np.ndarray:
    """Its diagonal, and sqrt(2) times what lies above: lengths are Frobenius norms."""
    above = matrix[np.triu_indices(len(matrix), 1)]
    return np.concatenate([np.diag(matrix), math.sqrt(2) * above])


def farthest(norm: float, relation: Relation, *, draws: int = 300, scaled: bool = True) -> float:
    """The farthest that a search over twins moves the matrix, in what is charged for it.

    Without `scaled` rows are summed as they are: what a sum would be that trusts its rows.
    """
    draw, worst = np.random.default_rng(0), 0.0
    charged = sum_moved(MOMENTS, norm, relation)
    for _ in range(draws):
        columns, rows = int(draw.integers(1, 6)), int(draw.integers(1, 12))
        X = draw.normal(size=(rows, columns)) * norm * 10 ** draw.uniform(-2, 2)
        X = X.astype(draw.choice([np.float32, np.float64]))
        center = draw.normal(size=columns) * norm * draw.choice([0.0, 0.1, 3.0])
        twin = X.copy()
        twin[0] = draw.permutation(X[0]) * draw.choice([-1, 1], size=columns) * draw.uniform(0, 3)
        twin = twin if relation is REPLACED else X[1:]
        count = int(draw.choice([rows, 1_000_000]))

        def summed(rows: np.ndarray, of: Any = (center, count)) -> np.ndarray:
            if scaled:
                return as_vector(second_moments(rows, of[0], norm, of[1]))
            return as_vector((rows - of[0]).T @ (rows - of[0]))

        worst = max(worst, float(np.linalg.norm(summed(X) - summed(twin))) / charged)
    return worst


class TestSensitivity:
    @pytest.mark.parametrize("relation", list(Relation))
    @pytest.mark.parametrize("norm", [1e-3, 1.0, 1e5])
    def test_a_search_comes_near_it_and_never_above(self, norm, relation):
        assert 0.95 < farthest(norm, relation) <= 1

    def test_a_sum_that_trusts_its_rows_is_caught(self):
        assert farthest(1.0, REPLACED, scaled=False) > 2

    def test_that_of_other_relations_is_too_small_for_a_replaced_record(self):
        """Orthogonal rows: the root of two that a careless accountant leaves out."""
        one, other = (second_moments(np.eye(2)[[k]], np.zeros(2), 1.0, 1) for k in (0, 1))
        moved = float(np.linalg.norm(one - other))
        assert sum_moved(MOMENTS, 1.0, REPLACED) * (1 - 1e-3) < moved
        assert moved <= sum_moved(MOMENTS, 1.0, REPLACED)
        assert moved > 1.4 * sum_moved(MOMENTS, 1.0, REMOVED)

    def test_rounding_does_not_depend_on_other_records(self):
        draw, apart = np.random.default_rng(0), set()
        first, second = draw.normal(size=(2, 1, 4))
        for scale in (1e-9, 1.0, 1e9):
            beside = draw.normal(size=(5000, 4)) * scale
            pair = (
                second_moments(np.vstack([each, beside]), np.full(4, 0.1), 2.0, 5001)
                for each in (first, second)
            )
            apart.add(np.subtract(*pair).tobytes())
        assert len(apart) == 1

    def test_the_noise_is_that_of_one_mechanism_on_the_vector(self):
        """sigma on the diagonal and sigma / sqrt(2) off it: what is charged for, no less."""
        columns, sigma = 120, 3.0
        evidence = SumsEvidence(relation=REPLACED, releases=(SumRelease(MOMENTS, 1.0, sigma),))
        plan = SumsPlan(Preparation(1.0, columns), 5, 1.0, DELTA, evidence)
        records = BoundedRows(np.zeros((5, columns)), Coordinates(norm=1.0), plan, OsGaussian())
        noisy = released_moments(records, np.zeros(columns))
        assert np.array_equal(noisy, noisy.T)
        vector = as_vector(noisy)
        on, off = vector[:columns], vector[columns:]
        assert np.std(on) == pytest.approx(sigma, rel=0.4)
        assert np.std(off) == pytest.approx(sigma, rel=0.08)
        assert np.std(off / math.sqrt(2)) != pytest.approx(sigma, rel=0.08)

    @pytest.mark.parametrize("rows", [1, 5])
    @every
    def test_the_whole_is_the_promise_and_no_more(self, how, rows):
        for relation in Relation:
            size = 300 if relation is REMOVED else None
            fitted = made(how, relation=relation, max_rows_per_person=rows, public_rows=size)
            fitted.fit(table())
            assert 0.9999 < fitted.privacy_.epsilon <= 1 * (1 + 1e-9)
            each = [
                sum_moved(sent.what, sent.norm, relation) * rows / sent.sigma
                for sent in fitted.evidence_.releases
            ]
            by_hand = gaussian.epsilon(math.hypot(*each), DELTA)
            assert fitted.privacy_.epsilon == pytest.approx(by_hand, rel=1e-6)
            assert fitted.privacy_.relation is relation
            assert "OpenDP" in fitted.noise_


class TestEvidence:
    @pytest.mark.parametrize("orders", [(), (SQUARES, MEAN), (MEAN, MEAN), (SQUARES, MOMENTS)])
    def test_other_orders_are_refused(self, orders):
        releases = tuple(SumRelease(what, 1.0, 1.0) for what in orders)
        with pytest.raises(InvalidArgument, match="releases"):
            SumsEvidence(relation=REPLACED, releases=releases)

    def test_other_values_are_refused(self):
        one = (SumRelease(MEAN, 1.0, 1.0),)
        for more in (
            {"releases": one, "relation": "replace-one"},
            {"releases": "mean", "relation": REPLACED},
            {"releases": ["mean"], "relation": REPLACED},
            {"releases": one, "relation": REPLACED, "rows_per_person": 0},
            {"releases": one, "relation": REPLACED, "rows_per_person": 10**9},
            {"releases": one, "relation": REPLACED, "persons_counted": 1},
        ):
            with pytest.raises(InvalidArgument):
                SumsEvidence(**more)  # type: ignore[arg-type]

    def test_a_model_is_not_prepared_by_second_moments(self):
        from sordino.proofs.prepared import PreparedEvidence

        with pytest.raises(InvalidArgument, match="releases"):
            PreparedEvidence(
                relation=REPLACED,
                columns=2,
                releases=(SumRelease(MOMENTS, 1.0, 1.0),),
                training=None,  # type: ignore[arg-type]
            )


class TestPublic:
    @every
    def test_plans_are_the_same_for_all_data_of_one_shape(self, how):
        plans = []
        for seed in range(3):
            X = table(seed=seed) * 10.0 ** (3 * seed) - seed
            fitted = made(how).fit(X)
            _, _, plan = made(how)._prepare(X)
            plans.append((plan, fitted.privacy_, fitted.evidence_, fitted.noise_))
        assert plans[0] == plans[1] == plans[2]

    @every
    def test_a_private_size_is_not_in_it(self, how):
        given = {"relation": REMOVED, "public_rows": 250}
        one, other = (made(how, **given).fit(table(rows)) for rows in (300, 90))
        assert one.evidence_ == other.evidence_
        assert one.privacy_ == other.privacy_

    @every
    def test_nothing_of_the_rows_is_kept_but_what_was_released(self, how):
        X = table()
        fitted = made(how).fit(X)
        known = {"feature_names_in_", "n_features_in_", "privacy_", "noise_", "evidence_"}
        known |= {"mean_", "scale_", "var_", "components_", "explained_variance_", "_lengths"}
        known |= {"_coordinates", "_ledger_entry", *fitted.get_params()}
        assert set(vars(fitted)) <= known
        held = pickle.dumps(fitted)
        assert not any(row.tobytes() in held for row in X)

    @every
    def test_noise_is_new_in_every_fit(self, how):
        X = table()
        one, other = (made(how).fit(X).transform(X) for _ in range(2))
        assert not np.allclose(one, other, rtol=1e-9, atol=0)


class TestScaler:
    @pytest.mark.parametrize("bounds", [None, (-4, 8), ([-4, -4, -4], [8, 9, 10])])
    @pytest.mark.parametrize("epsilon", [1e9, math.inf])
    @pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
    def test_with_a_budget_beyond_reason_it_is_the_usual_one(self, bounds, epsilon):
        X = table(2000)
        norm = "auto" if bounds else 2 * float(row_norms(X).max())
        ours = PrivateStandardScaler(epsilon, DELTA, bounds=bounds, data_norm=norm).fit(X)
        usual = StandardScaler().fit(X)
        assert ours.mean_ == pytest.approx(usual.mean_, abs=1e-3)
        assert ours.scale_ == pytest.approx(usual.scale_, rel=1e-2)
        assert ours.var_ == pytest.approx(ours.scale_**2)
        assert ours.transform(X) == pytest.approx(usual.transform(X), abs=0.05)
        assert (ours.privacy_ is None) == math.isinf(epsilon)

    def test_at_a_modest_budget_it_helps(self):
        X = table(20_000)
        Z = PrivateStandardScaler(4.0, bounds=(-4, 8)).fit_transform(X)
        assert np.abs(Z.mean(axis=0)).max() < 0.1
        assert Z.std(axis=0) == pytest.approx(np.ones(3), rel=0.3)

    def test_only_what_is_asked_for(self):
        X = table(2000)
        how = {"epsilon": 1e9, "delta": DELTA, "bounds": (-4, 8)}
        no_mean = PrivateStandardScaler(with_mean=False, **how).fit(X)
        assert no_mean.mean_ is None
        usual = StandardScaler(with_mean=False).fit(X)
        ratio = no_mean.transform(X).std(axis=0) / usual.transform(X).std(axis=0)
        assert ratio == pytest.approx(np.ones(3), rel=1e-2)
        no_std = PrivateStandardScaler(with_std=False, **how).fit(X)
        assert no_std.scale_ is None
        assert [each.what for each in no_std.evidence_.releases] == [MEAN]
        with pytest.raises(InvalidArgument, match="not both"):
            PrivateStandardScaler(with_mean=False, with_std=False).fit(X)

    @pytest.mark.parametrize("rows", [1, 2, 40])
    def test_constant_columns_and_few_rows_stay_finite(self, rows):
        X = np.ones((rows, 3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            for epsilon in (0.01, 1.0, 1e6, math.inf):
                Z = PrivateStandardScaler(epsilon, 0.01).fit_transform(X)
                assert np.isfinite(Z).all()


class TestPCA:
    @staticmethod
    def low_rank(rows: int = 3000, columns: int = 12) -> np.ndarray:
        draw = np.random.default_rng(3)
        inside = draw.normal(size=(rows, 3)) * [1.0, 0.7, 0.5]
        frame = np.linalg.qr(draw.normal(size=(columns, columns)))[0][:, :3]
        return np.asarray(inside @ frame.T + 0.02 * draw.normal(size=(rows, columns)) + 0.3)

    @pytest.mark.parametrize("center", ["private", "mean"])
    @pytest.mark.parametrize("relation", list(Relation))
    def test_at_a_large_budget_it_finds_the_same_directions(self, center, relation):
        X = self.low_rank()
        center = X.mean(axis=0) if center == "mean" else center
        how = {"center": center, "relation": relation}
        how |= {"public_rows": len(X)} if relation is REMOVED else {}
        norm = 1.1 * float(row_norms(X).max())
        ours = PrivatePCA(3, 1e4, DELTA, data_norm=norm, **how).fit(X)
        usual = PCA(3).fit(X)
        cosines = np.linalg.svd(ours.components_ @ usual.components_.T)[1]
        assert cosines.min() > 0.999
        assert ours.explained_variance_ == pytest.approx(usual.explained_variance_, rel=0.02)
        assert ours.components_ @ ours.components_.T == pytest.approx(np.eye(3), abs=1e-12)
        back = ours.transform(X) @ ours.components_ + ours.mean_
        assert np.abs(back - X).max() < 0.2

    def test_little_budget_finds_less(self):
        """And not by chance: the noise on the matrix hides the directions."""
        X = self.low_rank(200)
        usual = PCA(3).fit(X)
        ours = PrivatePCA(3, 0.01, DELTA, data_norm=6.0).fit(X)
        cosines = np.linalg.svd(ours.components_ @ usual.components_.T)[1]
        assert cosines.min() < 0.95
        assert (ours.explained_variance_ >= 0).all()

    def test_whitened_components_count_alike(self):
        X = self.low_rank()
        how = {"data_norm": 1.1 * float(row_norms(X).max()), "center": X.mean(axis=0)}
        of = {
            whiten: PrivatePCA(3, 1e4, DELTA, whiten=whiten, **how).fit(X)
            for whiten in (False, True)
        }
        seen = of[True].transform(X)
        assert (seen**2).mean(axis=0) == pytest.approx(np.ones(3), rel=0.02)
        plain = of[False].transform(X)
        assert seen * np.sqrt(of[True].explained_variance_) == pytest.approx(plain, abs=0.02)
        assert of[True].transform(X[2:3]) == pytest.approx(seen[2:3], abs=1e-12)

    def test_a_direction_without_variance_is_divided_by_something(self):
        for epsilon in (0.01, 1.0):
            pca = PrivatePCA(4, epsilon=epsilon, bounds=(0, 4), whiten=True)
            assert np.isfinite(pca.fit_transform(np.full((30, 4), 4.0))).all()

    def test_a_row_in_a_batch_is_a_row_alone(self):
        X = self.low_rank()
        ours = PrivatePCA(2, 1.0, DELTA, bounds=(-1, 2)).fit(X)
        alone = np.vstack([ours.transform(X[[k]] * 100) for k in range(5)])
        assert alone == pytest.approx(ours.transform(X[:5] * 100))
        assert list(ours.get_feature_names_out()) == ["privatepca0", "privatepca1"]

    @pytest.mark.parametrize("many", [0, 4, 2.5, "two", True, None])
    def test_a_number_of_directions_that_cannot_be(self, many):
        with pytest.raises(InvalidArgument, match="n_components"):
            PrivatePCA(many).fit(table())

    @pytest.mark.parametrize("center", ["public", "auto", None, 3.0, [1.0], [1.0, 2.0, math.nan]])
    def test_a_centre_that_cannot_be(self, center):
        with pytest.raises(InvalidArgument, match="center"):
            PrivatePCA(1, center=center).fit(table())


class TestRefused:
    WRONG = (
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": math.nan},
        {"epsilon": "1"},
        {"delta": 0.0},
        {"delta": 1.0},
        {"relation": "replace"},
        {"bounds": (1, 0)},
        {"bounds": (0, [1, 2])},
        {"bounds": 3},
        {"data_norm": None},
        {"data_norm": 0},
        {"data_norm": "large"},
        {"data_norm": math.inf},
        {"max_rows_per_person": 0},
        {"public_rows": 10},
        {"relation": "add-or-remove-one"},
    )

    @pytest.mark.parametrize("wrong", WRONG, ids=str)
    @every
    def test_bad_arguments_leave_it_as_it_was(self, how, wrong):
        unfitted = made({**how, **wrong})
        before = dict(vars(unfitted))
        with pytest.raises(InvalidArgument, match="Expected"):
            unfitted.fit(table())
        assert vars(unfitted) == before
        fitted = made(how).fit(table())
        state = dict(vars(fitted))
        with pytest.raises(InvalidArgument):
            fitted.set_params(**wrong).fit(table())
        assert {k: v for k, v in vars(fitted).items() if k not in wrong} == {
            k: v for k, v in state.items() if k not in wrong
        }

    @pytest.mark.parametrize(
        "bad",
        [
            np.array([["7.25", "Vandermeer"], ["1", "2"]]),
            pd.DataFrame({"age": [7.25, 2.0], "name": ["Vandermeer", "x"]}),
            np.array([[7.25, np.nan], [1.0, 2.0]]),
            np.array([[7.25, np.inf], [1.0, 2.0]]),
            pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["7.25", "9.75"]),
            [["Vandermeer"]],
            np.array([7.25, 2.0]),
        ],
        ids=["text", "words", "nan", "inf", "no-header", "nested", "flat"],
    )
    @pytest.mark.parametrize("kind", [PrivateStandardScaler, PrivatePCA])
    def test_no_cell_is_told(self, kind, bad):
        how = {"n_components": 1} if kind is PrivatePCA else {}
        fitted = kind(**how).fit(table(columns=2))
        for call in (kind(**how).fit, fitted.transform):
            with pytest.raises((ValueError, TypeError)) as caught:
                call(bad)
            assert "7.25" not in str(caught.value)
            assert "Vandermeer" not in str(caught.value)
            assert caught.value.__cause__ is None
            assert caught.value.__suppress_context__ or caught.value.__context__ is None

    @every
    def test_what_is_not_fitted_transforms_nothing(self, how):
        with pytest.raises(NotFittedError):
            made(how).transform(table())

    @every
    def test_a_seed_or_no_noise_is_warned_of_and_promises_nothing(self, how):
        for more in ({"random_state": 3}, {"epsilon": math.inf}):
            with pytest.warns(PrivacyLeakWarning, match="Not private"):
                fitted = made(how, **more).fit(table())
            assert fitted.privacy_ is None
            assert fitted.reads_private_data
        assert not made(how).fit(table()).reads_private_data


class TestFit:
    @every
    def test_kinds_of_tables(self, how):
        X = table()
        fitted = made(how, random_state=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            expected = fitted.fit_transform(X)
            for same in (sparse.csr_matrix(X), X.tolist(), np.asfortranarray(X)):
                assert fitted.fit_transform(same) == pytest.approx(expected)
            frame = pd.DataFrame(X, columns=["a", "b", "c"])
            assert fitted.fit_transform(frame) == pytest.approx(expected)
            assert list(fitted.feature_names_in_) == ["a", "b", "c"]
            low = fitted.fit_transform(X.astype(np.float32))
        assert low.dtype == np.float32

    @every
    def test_copies_are_of_the_parameters_alone(self, how):
        fitted = made(how).fit(table())
        assert not hasattr(clone(fitted), "privacy_")
        for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):  # noqa: S301
            assert (other.transform(table()) == fitted.transform(table())).all()

    @every
    def test_rows_of_a_person_are_cut(self, how):
        X = np.vstack([table(), np.repeat([[50.0, -50.0, 50.0]], 3000, axis=0)])
        ids = [*range(300), *[300] * 3000]
        fitted = made(how, epsilon=1e6, data_norm=100.0).fit(X, persons=ids)
        assert fitted.evidence_.persons_counted
        assert any("by ids" in line for line in fitted.privacy_.assumes)
        usual = made(how, epsilon=1e6, data_norm=100.0).fit(X)
        if fitted.mean_ is not None and "center" not in how:
            assert np.abs(fitted.mean_).max() < 4
        assert not usual.evidence_.persons_counted
        with pytest.raises(InvalidArgument, match="persons"):
            made(how).fit(X, persons=ids[:-1])

    @every
    def test_a_ledger_is_charged_or_nothing_is_fitted(self, how, tmp_path):
        X, budget = table(), {"dataset": "people", "epsilon": 1.6, "delta": DELTA}
        ledger = Ledger(tmp_path / "ledger.db", **budget)
        with ledger:
            fitted = made(how).fit(X)
            assert [each.status for each in ledger.status().entries] == ["returned"]
            assert ledger.status().entries[0].what.startswith(type(fitted).__name__)
            assert fitted._ledger_entry.id == ledger.status().entries[0].id
            second = made(how, epsilon=1.5)
            with pytest.raises(BudgetExceeded):
                second.fit(X)
            assert not hasattr(second, "privacy_")
            with pytest.raises(ReleaseRefused, match="no guarantee"):
                made(how, random_state=1).fit(X)
        assert len(ledger.status().entries) == 1
        line = ledger.status().entries[0]
        assert line.epsilon == pytest.approx(fitted.privacy_.epsilon)

    def test_a_release_that_says_less_noise_than_its_sums_is_refused(self, monkeypatch):
        """The whole is asked again before anything is summed."""
        from sordino.estimators import preparation

        right = preparation.noise_for

        def half(*given: Any) -> SumRelease:
            return dataclasses.replace(right(*given), sigma=right(*given).sigma / 2)

        monkeypatch.setattr(preparation, "noise_for", half)
        with pytest.raises(ReleaseRefused, match="epsilon"):
            PrivateStandardScaler().fit(table())


# `check_array_api_input` skips itself unless SCIPY_ARRAY_API is set. Nothing is excused.
@pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@parametrize_with_checks([PrivateStandardScaler(), PrivatePCA(1), PrivatePCA(1, bounds=(-9, 9))])
def test_scikit_learn_agrees(estimator, check):
    check(estimator)
