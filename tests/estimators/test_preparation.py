"""Bounds, a centre and a scale inside the promise: sums that one record cannot move farther than is
charged for, one budget for all of it, and models that see every row as their training did."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import sordino
from sordino import Ledger, PrivateLinearSVC, PrivateLogisticRegression, tune
from sordino.accounting import gaussian
from sordino.audit import audit
from sordino.audit.runners import fits
from sordino.audit.runners.minimised import PreparedFit
from sordino.data import neighbours
from sordino.data.dataset import NORM_SLACK, row_norms
from sordino.errors import InvalidArgument, NotApplicable, PrivacyLeakWarning
from sordino.estimators import preparation, rules
from sordino.estimators.fit import FitRecords
from sordino.estimators.methods.prepared import release_preparation
from sordino.estimators.preparation import Coordinates, Preparation, sums
from sordino.privacy import Relation
from sordino.proofs.evidence import from_plain
from sordino.proofs.prepared import (
    MEAN,
    PREPARED_NORM,
    SQUARES,
    PreparedEvidence,
    SumRelease,
    sum_moved,
)
from sordino.release import bundle
from sordino.release.certificate import Certificate, CertificateError
from sordino.release.noise import OsGaussian, SeededNoise
from sordino.release.verify import verify_certificate

DELTA = 1e-5
PREPARED = (
    {"center": "private", "scale": "none"},
    {"center": "none", "scale": "private"},
    {"center": "private", "scale": "private"},
    {"center": [1.0, 2.0, 3.0], "scale": "private"},
)
QUICK = ("noisy-gd", "output-gd", "dp-sgd", "dp-agd")


def table(rows: int = 300, seed: int = 0, columns: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Rows around (3, 3, ...), some far outside the bounds (0, 4)."""
    draw = np.random.default_rng(seed)
    X = 3 + draw.normal(size=(rows, columns))
    return X, (X[:, 0] > 3).astype(int)


def estimator(**more: Any) -> PrivateLogisticRegression:
    how = {"epsilon": 1.0, "delta": DELTA, "classes": [0, 1], "bounds": (0, 4), **more}
    return PrivateLogisticRegression(**how)


def evidence_of(model: PrivateLogisticRegression) -> PreparedEvidence:
    found = model.certificate_.evidence
    assert isinstance(found, PreparedEvidence)
    return found


class TestSums:
    """What one record can move: the numbers that the noise is made for."""

    @staticmethod
    def problem(seed: int) -> tuple[np.ndarray, float, np.ndarray, int]:
        draw = np.random.default_rng(seed)
        rows, columns = int(draw.integers(2, 40)), int(draw.integers(1, 6))
        norm = float(10 ** draw.uniform(-4, 4))
        long = 10 ** draw.uniform(-3, draw.choice([1, 30]), size=(rows, 1))
        X = draw.normal(size=(rows, columns)) * norm * long
        X = X.astype(draw.choice([np.float32, np.float64]))
        center = draw.normal(size=columns) * norm * draw.choice([0, 0.1, 3])
        return X, norm, center, int(draw.choice([rows, 10_000_000]))

    @pytest.mark.parametrize("what", [MEAN, SQUARES])
    def test_no_record_moves_them_farther(self, what: str) -> None:
        for seed in range(200):
            X, norm, center, count = self.problem(seed)
            whole = sums(what, X, norm, count, center)
            other, without = X.copy(), X[1:]
            other[0] = np.random.default_rng(seed + 999).permutation(-3 * X[0])
            for twin, relation in (
                (other, Relation.REPLACE_ONE),
                (without, Relation.ADD_OR_REMOVE_ONE),
                (without, Relation.ZERO_OUT),
            ):
                moved = np.linalg.norm(whole - sums(what, twin, norm, count, center))
                assert moved <= sum_moved(what, norm, relation), (seed, relation)

    @pytest.mark.parametrize(
        ("what", "pair"), [(MEAN, ([3.0, 4.0], [-3.0, -4.0])), (SQUARES, ([9.0, 0.0], [0.0, 9.0]))]
    )
    def test_a_smaller_one_would_be_too_small(self, what: str, pair: Any) -> None:
        """Twins that reach what is charged for; half of it, as for zero-out, they exceed."""
        (first, second), norm = (np.array([each]) for each in pair), 5.0
        moved = float(np.linalg.norm(sums(what, first, norm, 1) - sums(what, second, norm, 1)))
        charged = sum_moved(what, norm, Relation.REPLACE_ONE)
        assert charged * (1 - 1e-5) < moved <= charged
        assert moved > sum_moved(what, norm, Relation.ZERO_OUT) * 1.4

    def test_their_rounding_does_not_depend_on_other_records(self) -> None:
        """Whatever stands beside them, two twins are apart by the same, to the last bit."""
        draw, apart = np.random.default_rng(0), set()
        first, second = draw.normal(size=(2, 1, 4))
        for scale in (1e-9, 1.0, 1e9):
            beside = draw.normal(size=(5000, 4)) * scale
            pair = (sums(MEAN, np.vstack([each, beside]), 2.0, 5001) for each in (first, second))
            apart.add(np.subtract(*pair).tobytes())
            turned = sums(MEAN, np.vstack([beside[::-1], first]), 2.0, 5001)
            assert np.array_equal(turned, sums(MEAN, np.vstack([first, beside]), 2.0, 5001))
        assert len(apart) == 1

    def test_several_rows_of_a_person_move_them_that_often_as_far(self) -> None:
        one = rules.noise_for(MEAN, Preparation(2.0, 3), Relation.REPLACE_ONE, 1, 0.5)
        four = rules.noise_for(MEAN, Preparation(2.0, 3), Relation.REPLACE_ONE, 4, 0.5)
        assert four.sigma == pytest.approx(4 * one.sigma, rel=1e-9)
        assert one.sigma >= 2 * 2.0 * (1 + NORM_SLACK) / 0.5
        for release, rows in ((one, 1), (four, 4)):
            mu = release.profile(Relation.REPLACE_ONE, rows).mu
            assert mu is not None
            assert 0.5 * (1 - 1e-9) < mu <= 0.5

    def test_statistics_are_those_of_the_rows_where_nothing_hides_them(self) -> None:
        X, y = table(2000)
        model = estimator(epsilon=math.inf, center="private", scale="private")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            made = model.fit(X, y)._coordinates
        assert made is not None
        assert made.center is not None
        assert made.scale is not None
        rows = 2 * (np.clip(X, 0, 4) / 4) - 1
        assert made.center == pytest.approx(rows.mean(axis=0), abs=1e-6)
        limit = math.sqrt(3) * preparation.SQUARED_PART
        centred = rows - made.center
        centred *= np.minimum(1, limit / row_norms(centred))[:, None]
        spread = np.sqrt((centred**2).mean(axis=0)) * math.sqrt(3) * preparation.SCALED_RADIUS
        assert made.scale == pytest.approx(spread, rel=1e-5)

    def test_a_column_without_spread_is_divided_by_what_the_noise_hides(self) -> None:
        assert (preparation.spread_of(np.array([-5.0, 0.0]), 1.0, 10.0, 100) > 0.3).all()
        assert (preparation.spread_of(np.zeros(3), 1.0, 0.0, 100) > 0).all()


class TestTheBudget:
    """One promise for what is released before the training and for the training."""

    @pytest.mark.parametrize("how", PREPARED[2:])
    @pytest.mark.parametrize("method", QUICK)
    def test_it_is_kept_and_nearly_spent(self, method: str, how: dict[str, Any]) -> None:
        X, y = table()
        promised = estimator(method=method, **how).preview(X, y).epsilon
        assert 1 - 1e-4 <= promised <= 1 + 1e-9

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["objective", "rsgd-ar", "nsgd", "bolt-on"])
    @pytest.mark.parametrize("epsilon", [0.1, 4.0])
    def test_so_it_is_of_every_method(self, method: str, epsilon: float) -> None:
        X, y = table()
        model = estimator(method=method, epsilon=epsilon, center="private", scale="private")
        assert 1 - 1e-4 <= model.preview(X, y).epsilon / epsilon <= 1 + 1e-9

    @pytest.mark.parametrize("rows_per_person", [1, 3])
    @pytest.mark.parametrize("relation", list(Relation))
    def test_for_every_relation_and_person(self, relation: Relation, rows_per_person: int) -> None:
        X, y = table(600)
        private = relation is Relation.ADD_OR_REMOVE_ONE
        model = estimator(
            method="dp-sgd" if private else "noisy-gd",
            relation=relation,
            public_rows=500 if private else None,
            max_rows_per_person=rows_per_person,
            center="private",
        ).fit(X, y)
        evidence, claimed = evidence_of(model), model.privacy_
        assert claimed is not None
        assert claimed.relation is relation
        assert 1 - 1e-4 <= claimed.epsilon <= 1 + 1e-9
        (mean,) = evidence.releases
        mu = mean.profile(relation, rows_per_person).mu
        assert mu is not None
        whole = 1 / gaussian.sigma(1.0, DELTA)
        assert mu**2 == pytest.approx(rules.CENTER_SHARE * whole**2, rel=1e-6)
        assert from_plain(json.loads(json.dumps(evidence.to_plain()))) == evidence

    def test_gaussian_shares_add_up_exactly(self) -> None:
        X, y = table()
        made = estimator(method="noisy-gd", center="private", scale="private").fit(X, y)
        evidence = evidence_of(made)
        parts = [each.profile(evidence.relation, 1).mu for each in evidence.releases]
        parts.append(evidence.training.proof().profile.mu)
        whole = evidence.proof().profile.mu
        assert whole is not None
        assert None not in parts
        assert whole**2 == pytest.approx(sum(mu**2 for mu in parts if mu), rel=1e-12)
        assert whole == pytest.approx(1 / gaussian.sigma(1.0, DELTA), rel=1e-4)

    def test_forgetting_a_release_would_promise_more(self) -> None:
        X, y = table()
        evidence = evidence_of(estimator(center="private").fit(X, y))
        alone = evidence.training.proof().guarantee(DELTA).epsilon
        assert alone < evidence.proof().guarantee(DELTA).epsilon * 0.97

    @pytest.mark.parametrize("method", ["noisy-gd", "dp-sgd"])
    def test_a_risk_is_kept_instead(self, method: str) -> None:
        X, y = table()
        model = estimator(target="advantage<=0.1", method=method, center="private").fit(X, y)
        advantage = evidence_of(model).proof().profile.advantage()
        assert 0.0985 <= advantage <= 0.1 * (1 + 1e-9)
        verify_certificate(model.certificate_)

    def test_public_numbers_cost_nothing(self) -> None:
        X, y = table()
        model = estimator(method="noisy-gd", center=[3.0] * 3, scale=[1.0] * 3).fit(X, y)
        plain = estimator(method="noisy-gd", center="none", scale="none").fit(X, y)
        noise = (each.certificate_.evidence.spec.noise_multiplier for each in (model, plain))
        first, second = noise
        assert first == pytest.approx(second, rel=0.2)  # other steps by the rule, no other budget
        assert not isinstance(model.certificate_.evidence, PreparedEvidence)

    def test_a_ledger_is_charged_for_the_whole(self, tmp_path: Path) -> None:
        X, y = table()
        for method in ("noisy-gd", "dp-sgd", "dp-agd"):
            with Ledger(tmp_path / f"{method}.db", dataset="d", epsilon=1.2, delta=DELTA):
                estimator(method=method, center="private").fit(X, y)
                with pytest.raises(sordino.BudgetExceeded):
                    estimator(method=method, center="private").preview(X, y)

    @pytest.mark.parametrize(
        ("params", "why"),
        [({"random_state": 1}, "repeatable"), ({"data_norm": None}, "read off")],
    )
    def test_where_nothing_is_promised_it_says_so(
        self, params: dict[str, Any], why: str, tmp_path: Path
    ) -> None:
        X, y = table()
        with pytest.warns(PrivacyLeakWarning):
            model = estimator(center="private", **params).fit(X, y)
        assert model.privacy_ is None
        assert why in model.certificate_.why_none
        model.save(tmp_path / "m")
        loaded = sordino.load(tmp_path / "m")
        assert np.allclose(loaded.decision_function(X), model.decision_function(X))

    def test_nothing_about_the_rows_decides_anything(self) -> None:
        """Plans are equal for all data of one shape: far, long, constant, huge, of other labels."""
        X, y = table()
        others = (X, -1000 * X, np.zeros_like(X), 1e200 * X, table(seed=5)[0])
        for how in ({}, *PREPARED, {"bounds": None, "center": "private"}, {"epsilon": 0.05}):
            plans = []
            for rows in others:
                fitting = estimator(**how)._prepare(rows, y[::-1].copy())
                plans.append((fitting.plan, fitting.records.X.shape))
            assert all(plan == plans[0] for plan in plans), how


class TestRows:
    """A model sees a row as its training did."""

    @pytest.mark.parametrize("how", [*PREPARED, {"center": "none"}, {"center": [3.0, 3.0, 3.0]}])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("intercept", [True, False])
    def test_predictions_see_rows_as_training_did(
        self,
        how: dict[str, Any],
        dtype: Any,
        intercept: bool,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        X, y = table()
        X = X.astype(dtype)
        trained: list[FitRecords] = []
        method = sordino.estimators.methods.NOISY_GD
        monkeypatch.setitem(
            sordino.estimators.methods.METHODS, "noisy-gd", _Watched(method, trained)
        )
        model = estimator(method="noisy-gd", fit_intercept=intercept, **how).fit(X, y)
        assert np.array_equal(model._scaling.rows(X), trained[-1].X)
        limit = trained[-1].norm * (1 + NORM_SLACK)
        assert row_norms(trained[-1].X).max() <= limit
        model.save(tmp_path / "m")
        loaded = sordino.load(tmp_path / "m")
        for rows in (X, sparse.csr_matrix(X), pd.DataFrame(X), -1e30 * X, 1e3 * X):
            expected = model.decision_function(rows)
            assert np.array_equal(loaded.decision_function(rows), expected)

    def test_rows_outside_the_bounds_are_those_on_them(self) -> None:
        X, y = table()
        model = estimator(bounds=([0, 1, 2], [4, 4, 9]), center="private").fit(X, y)
        inside = np.clip(X, [0, 1, 2], [4, 4, 9])
        assert np.array_equal(model.decision_function(X), model.decision_function(inside))

    def test_what_a_loaded_model_was_given_can_be_fitted_again(self, tmp_path: Path) -> None:
        X, y = table()
        given = {"bounds": ([0, 1, 2], [4, 4, 9]), "center": [3.0, 2.0, 4.0], "scale": [1.0, 2, 3]}
        for left_out in ((), ("bounds",), ("scale",)):
            how = {name: each for name, each in given.items() if name not in left_out}
            model = estimator(**{"bounds": None, **how}).fit(X, y)
            model.save(tmp_path / f"m{len(how)}{left_out}")
            again = clone(sordino.load(tmp_path / f"m{len(how)}{left_out}"))
            again.set_params(classes=[0, 1])
            first, second = model._prepare(X, y), again._prepare(X, y)
            assert pytest.approx(second.records.X, abs=1e-12) == first.records.X

    def test_it_helps(self) -> None:
        """Rows in a corner of their box: what a centre is for."""
        draw = np.random.default_rng(3)
        X = draw.normal(0.2, 0.05, size=(2000, 20))
        y = (X.sum(axis=1) > 4).astype(int)
        how = {"bounds": (0, 1), "method": "noisy-gd"}
        model, plain = (estimator(**how, **more).fit(X, y) for more in ({}, {"center": "none"}))
        assert model.settings_["center"] == "private"
        assert model.score(X, y) > 0.8
        assert model.score(X, y) > plain.score(X, y)


class _Watched:
    """A method that keeps what it trained on."""

    def __init__(self, method: Any, seen: list[FitRecords]) -> None:
        self.method, self.seen = method, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    def train(self, plan: Any, records: FitRecords, *more: Any) -> Any:
        self.seen.append(records)
        return self.method.train(plan, records, *more)


class TestArguments:
    @pytest.mark.parametrize(
        ("params", "says"),
        [
            ({"bounds": (1, 0)}, "low below high"),
            ({"bounds": (0, [1, 2])}, "one a column"),
            ({"bounds": (0, math.inf)}, "finite"),
            ({"bounds": (0, math.nan)}, "finite"),
            ({"bounds": (0, [1, 2, 0])}, "low below high"),
            ({"bounds": 3}, "(low, high)"),
            ({"bounds": (1, 2, 3)}, "(low, high)"),
            ({"bounds": "ab"}, "(low, high)"),
            ({"bounds": ("Smith", 1)}, "one a column"),
            ({"center": "mean"}, "center"),
            ({"center": 1.0}, "center"),
            ({"center": [1, 2]}, "one a column"),
            ({"center": [1, 2, math.nan]}, "finite"),
            ({"center": [1, 2, 1e9]}, "data_norm"),
            ({"scale": [1, 1e-9, 1]}, "data_norm"),
            ({"scale": [1, 0, 1]}, "above 0"),
            ({"scale": [1, -1, 1]}, "above 0"),
            ({"scale": None}, "scale"),
            ({"data_norm": "wide"}, "data_norm"),
        ],
    )
    def test_bad_ones_are_refused_and_nothing_is_fitted(
        self, params: dict[str, Any], says: str
    ) -> None:
        X, y = table(40)
        model = estimator(**params)
        before = dict(model.__dict__)
        with pytest.raises(InvalidArgument) as refused:
            model.fit(X, y)
        assert says in str(refused.value)
        assert "Smith" not in str(refused.value)
        assert model.__dict__ == before

    def test_rows_without_numbers_are_refused(self) -> None:
        X, y = table(40)
        X[7, 1] = math.nan
        with pytest.raises(InvalidArgument, match="row 7 has NaN"):
            estimator(center="private").fit(X, y)

    def test_data_norm_follows_from_the_bounds(self) -> None:
        X, y = table(40)
        for how, norm in (
            ({"bounds": None}, 1.0),
            ({"center": "none"}, 2.0),  # three columns and a constant
            ({"center": "none", "fit_intercept": False}, math.sqrt(3)),
            ({"center": "private"}, math.sqrt(3)),
            ({"center": "private", "data_norm": 0.7}, 0.7),
        ):
            fitting = estimator(**how)._prepare(X, y)
            assert fitting.records.norm == pytest.approx(norm)
            if how.get("center") == "private":
                assert fitting.plan.task.norm == PREPARED_NORM
                assert fitting.plan.before[0].norm == pytest.approx(norm)

    def test_auto_asks_for_little_noise_and_bounds(self) -> None:
        X, many = table(60)[0], table(4000)[0]
        for rows, how, private in (
            (many, {}, True),
            (X, {"epsilon": 0.1}, False),
            (many, {"bounds": None}, False),
            (many, {"initial_weights": [0.0] * 4}, False),
        ):
            labels = np.arange(len(rows)) % 2
            prepared = estimator(**how)._prepare(rows, labels).plan.task.prepared
            assert (prepared is not None) is private

    def test_scikit_learn_handles_it(self) -> None:
        X, y = table()
        model = estimator(center="private", bounds=(np.zeros(3), np.full(3, 4.0)))
        copied = clone(model)
        assert copied.center == "private"
        assert make_pipeline(copied).fit(X, y).predict(X).shape == (300,)
        svm = PrivateLinearSVC(1.0, DELTA, classes=[0, 1], bounds=(0, 4), center="private")
        assert svm.fit(X, y).privacy_ is not None

    def test_several_classes_share_one_centre(self) -> None:
        X, _ = table()
        y = np.arange(300) % 3
        model = estimator(classes=[0, 1, 2], center="private", method="noisy-gd").fit(X, y)
        assert evidence_of(model).problems == model.coef_.shape[0]
        assert len(evidence_of(model).releases) == 1
        assert model.predict_proba(X).shape == (300, 3)

    @pytest.mark.parametrize("method", ["none", "majority"])
    def test_references_prepare_rows_too(self, method: str, tmp_path: Path) -> None:
        X, y = table()
        with pytest.warns(PrivacyLeakWarning):
            model = estimator(method=method, center="private").fit(X, y)
        model.save(tmp_path / "m")
        loaded = sordino.load(tmp_path / "m")
        assert np.array_equal(loaded.decision_function(X), model.decision_function(X))

    def test_the_best_of_several(self, tmp_path: Path) -> None:
        X, y = table()
        how = ({"center": "private"}, {"center": "none"}, {"scale": "private"})
        candidates = [estimator(method="noisy-gd", **each) for each in how]
        for attempt in range(3):
            chosen = tune(
                *(candidates, X, y), score=lambda m: 0.0, epsilon=2.0, delta=DELTA, mean_runs=9
            )
            chosen.save(tmp_path / f"m{attempt}")
            loaded = sordino.load(tmp_path / f"m{attempt}")
            assert np.array_equal(loaded.decision_function(X), chosen.decision_function(X))


class TestCertificates:
    """Recomputed from its numbers; what stands twice agrees; arrays are those asked for."""

    def made(self, tmp_path: Path, **how: Any) -> tuple[Path, Any, dict[str, np.ndarray]]:
        X, y = table()
        how = {"method": "noisy-gd", "center": "private", "scale": "private", **how}
        model = estimator(**how).fit(X, y)
        place = model.save(tmp_path / "m")
        assert model._coordinates is not None
        return (
            place,
            json.loads((place / bundle.CERTIFICATE).read_text()),
            dict(model._coordinates.arrays),
        )

    def refused(self, place: Path, plain: Any, arrays: dict[str, np.ndarray] | None = None) -> bool:
        if arrays is not None:
            read = bundle.safetensors.load((place / bundle.WEIGHTS).read_bytes())
            content = bundle.weights_file(read["coef"], read["intercept"], arrays)
            (place / bundle.WEIGHTS).write_bytes(content)
            plain["model"]["sha256"] = bundle.digest(content)
        text = json.dumps(plain, indent=2, sort_keys=True) + "\n"
        (place / bundle.CERTIFICATE).write_text(text)
        try:
            sordino.load(place)
        except CertificateError:
            return True
        return False

    def test_facts_say_what_was_released(self, tmp_path: Path) -> None:
        _, plain, _ = self.made(tmp_path)
        said = plain["facts"]["preparation"]
        for release in plain["evidence"]["releases"]:
            assert f"{release['sigma']:.6g}" in said
            assert f"norm {release['norm']:.6g}" in said
        text = str(Certificate.from_json(json.dumps(plain)))
        assert "mapped to [-1, 1]" in text
        assert "by a private center and a private scale" in text

    def test_without_any_of_it_nothing_is_written(self) -> None:
        X, y = table()
        model = estimator(bounds=None).fit(X, y)
        assert not {"bounds", "center", "scale"} & {*model.certificate_.model.settings}
        assert model.certificate_.model.settings["data_norm"] == 1.0

    def test_forged_numbers_are_refused(self, tmp_path: Path) -> None:
        place, plain, _ = self.made(tmp_path)
        assert not self.refused(place, plain)
        for at in (0, 1):
            for name in ("sigma", "norm"):
                for factor in (0.5, 0.95, 1.05, 2.0):
                    forged = json.loads(json.dumps(plain))
                    forged["evidence"]["releases"][at][name] *= factor
                    assert self.refused(place, forged), (at, name, factor)
        first, second = plain["evidence"]["releases"]
        for releases in ([first], [second], [], [second, first], [first, first]):
            forged = json.loads(json.dumps(plain))
            forged["evidence"]["releases"] = releases
            assert self.refused(place, forged), releases
        alone = json.loads(json.dumps(plain))
        alone["evidence"] = alone["evidence"]["training"]
        assert self.refused(place, alone)
        nested = json.loads(json.dumps(plain))
        nested["evidence"]["training"] = plain["evidence"]
        assert self.refused(place, nested)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("center", "none"),
            ("center", "public"),
            ("scale", "none"),
            ("scale", "public"),
            ("scale", "auto"),
            ("bounds", None),
            ("bounds", "private"),
            ("data_norm", 1.0),
            ("data_norm", 2.0),
        ],
    )
    def test_forged_settings_are_refused(self, name: str, value: Any, tmp_path: Path) -> None:
        place, plain, _ = self.made(tmp_path)
        plain["model"]["settings"][name] = value
        assert self.refused(place, plain)

    @pytest.mark.parametrize(
        "change",
        [
            {"center": None},
            {"center": np.zeros(2)},
            {"center": np.array([0.0, np.nan, 0.0])},
            {"center": np.zeros((1, 3))},
            {"scale": np.array([1.0, 0.0, 1.0])},
            {"scale": np.array([1.0, -1.0, 1.0])},
            {"constant": np.zeros(1)},
            {"constant": np.ones(2)},
            {"low": None},
            {"low": np.full(3, 9.0)},
            {"high": np.full(3, np.inf)},
            {"more": np.zeros(3)},
        ],
    )
    def test_arrays_that_no_row_can_be_prepared_by(
        self, change: dict[str, Any], tmp_path: Path
    ) -> None:
        place, plain, arrays = self.made(tmp_path)
        arrays = {name: each for name, each in {**arrays, **change}.items() if each is not None}
        assert self.refused(place, plain, arrays)

    def test_a_swapped_centre_is_refused(self, tmp_path: Path) -> None:
        """The certificate is about the file that it is in; and nobody asked for another."""
        place, plain, arrays = self.made(tmp_path)
        read = bundle.safetensors.load((place / bundle.WEIGHTS).read_bytes())
        other = {**arrays, "center": arrays["center"] + 0.1}
        content = bundle.weights_file(read["coef"], read["intercept"], other)
        (place / bundle.WEIGHTS).write_bytes(content)
        assert self.refused(place, plain)

    @pytest.mark.parametrize("name", ["center", "scale"])
    def test_public_numbers_that_nobody_asked_for(self, name: str, tmp_path: Path) -> None:
        given = {"center": [3.0, 3.0, 3.0], "scale": [1.0, 2.0, 3.0]}
        place, plain, _ = self.made(tmp_path, **given)
        assert not self.refused(place, plain)
        plain["model"]["settings"][name] = "none"
        assert self.refused(place, plain)


class TestAudit:
    """Runs of what a fit does, the release of the centre included."""

    RUNS = 60

    def pair(self, what: str) -> Any:
        X, y = table(40, columns=2)
        other = X.copy()
        X[0], other[0] = 100.0, -100.0 if what == MEAN else 2.0  # a corner; another, or the middle
        how: dict[str, Any] = {"center": "private"}
        if what == SQUARES:
            how = {"center": [2.0, 2.0], "scale": "private"}
        private = estimator(method="noisy-gd", steps=1, epsilon=0.5, **how)
        return fits.prepare(private, (X, y), (other, y))

    def refuted(self, pair: Any, mechanism: Any) -> bool:
        how = {"claim": pair.claim, "confidence": 0.999, "workers": 1}
        return audit(mechanism, pair.D, pair.D_prime, self.RUNS, **how).violated

    @pytest.mark.parametrize("what", [MEAN, SQUARES])
    def test_a_sum_without_noise_is_caught_and_one_with_it_is_not(self, what: str) -> None:
        pair = self.pair(what)
        assert isinstance(pair.mechanism, PreparedFit)
        assert not self.refuted(pair, pair.mechanism)
        (honest,) = pair.mechanism.plan.before
        broken = (dataclasses.replace(honest, sigma=1e-6),)
        plan = dataclasses.replace(pair.mechanism.plan, before=broken)
        assert self.refuted(pair, dataclasses.replace(pair.mechanism, plan=plan))

    def test_no_record_is_silent_where_there_is_a_centre(self) -> None:
        X, y = table(40)
        mechanism, D, _ = fits.mechanism(estimator(center="private", relation="zero-out"), X, y)
        with pytest.raises(InvalidArgument, match="none is silent"):
            audit(mechanism, D, neighbours.zero_out(D, [0]), 10, claim=1.0, delta=DELTA)


def test_noise_of_a_release_is_as_it_says() -> None:
    """Standard deviations of many released centres, by the system's noise and by seeded noise."""
    X, y = table(50, columns=40)
    fitting = estimator(bounds=(0, 4), center="private", epsilon=0.5)._prepare(X, y)
    (mean,) = fitting.plan.before
    assert fitting.coordinates is not None
    total = sums(MEAN, fitting.records.X, mean.norm, 50)
    free = dataclasses.replace(fitting.coordinates, low=None, high=None)
    for noise in (OsGaussian(), SeededNoise(1)):
        how = fitting.plan, fitting.records.X, free, noise
        found = [release_preparation(*how) for _ in range(6)]
        longest = [float(np.linalg.norm(each.center)) for each in found if each.center is not None]
        assert max(longest) <= mean.norm * (1 + 1e-9)  # within what a mean can be
    noisy = np.array([OsGaussian().perturb(total, mean.sigma) - total for _ in range(30)])
    assert noisy.std() == pytest.approx(mean.sigma, rel=0.1)


def test_bad_releases_are_refused() -> None:
    for wrong in ({"what": "median"}, {"norm": 0.0}, {"sigma": -1.0}, {"sigma": math.inf}):
        with pytest.raises(InvalidArgument):
            SumRelease(**{"what": MEAN, "norm": 1.0, "sigma": 1.0, **wrong})


def test_coordinates_leave_rows_alone_until_they_are_whole() -> None:
    X, _ = table(20)
    half = Coordinates(norm=1.0, center=np.ones(3))
    assert not half.prepared
    assert np.array_equal(half.of(X), half.bounded(X))


def test_where_delta_alone_allows_the_noise_a_sentence_says_so() -> None:
    X, y = table(20)
    with pytest.raises(NotApplicable, match="Nothing is left to the training"):
        estimator(epsilon=1e-6, method="noisy-gd", center="private").preview(X, y)
    assert estimator(epsilon=1e-6, method="noisy-gd").preview(X, y).epsilon <= 1e-6


@pytest.mark.parametrize("epsilon", [1e-2, 30.0, 1e4])
def test_extreme_budgets_are_kept_too(epsilon: float) -> None:
    X, y = table(20)
    found = estimator(epsilon=epsilon, method="noisy-gd", center="private").preview(X, y).epsilon
    assert 1 - 1e-3 <= found / epsilon <= 1 + 1e-9
