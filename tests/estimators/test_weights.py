"""Weights of classes and of records: what they mean, and that no record counts for more by them."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.validation import has_fit_parameter

from sordino import InvalidArgument, PrivateLinearSVC, PrivateLogisticRegression, load
from sordino.audit import audit
from sordino.audit.runners import fits
from sordino.audit.runners.minimised import minimisers, records_of
from sordino.data import dataset as datasets
from sordino.estimators import methods, tune
from sordino.estimators.fit import FitRecords, Randomness, Settings, Task
from sordino.estimators.methods.adaptive import clipped_sum, step_scores
from sordino.estimators.minimum.linear import Risk
from sordino.estimators.weights import WEIGHTS_GIVEN, Weighting
from sordino.privacy import Relation
from sordino.release.certificate import Certificate, CertificateError
from sordino.release.verify import verify_certificate

pytestmark = [
    pytest.mark.filterwarnings("ignore:Not private. .*no noise is added"),
    pytest.mark.filterwarnings("ignore:Not private. random_state"),
]
BOTH = [PrivateLogisticRegression, PrivateLinearSVC]
PRIVATE = [name for name in methods.METHODS if name not in methods.REFERENCES]
ENGINE = [name for name in PRIVATE if name not in ("objective", "dp-agd")]
OUTPUT = ["rsgd-ar", "nsgd", "bolt-on", "output-gd"]


def table(rows=200, classes=2, seed=0, columns=3):
    """Rows within norm 1 and labels, the last class rare."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
    y = (rng.random(rows) ** 3 * classes).astype(int)
    y[:classes] = range(classes)
    return X, y


def model(kind=PrivateLogisticRegression, **changed):
    return kind(**{"epsilon": 1.0, "delta": 1e-5, "classes": [0, 1], **changed})


def weights_of(fitted):
    return np.column_stack([fitted.coef_, fitted.intercept_])


class TestFactors:
    @given(
        st.lists(st.floats(1e-4, 1e4), min_size=2, max_size=5),
        st.floats(1e-3, 1e3),
        st.integers(0, 2**32 - 1),
    )
    @settings(deadline=None)
    def test_none_counts_for_more_than_one_and_the_heaviest_for_one(self, per_class, most, seed):
        rng = np.random.default_rng(seed)
        codes = rng.integers(0, len(per_class), 50)
        own = most * rng.uniform(0, 3, 50)
        own[0], codes[0] = most, int(np.argmax(per_class))
        given_ = dict(enumerate(per_class))
        factors = Weighting.of(np.arange(len(per_class)), given_, None, most).factors(codes, own)
        assert factors.min() >= 0
        assert factors.max() == 1
        plain = np.array(per_class)[codes] * np.minimum(own, most)
        np.testing.assert_allclose(factors, plain / (max(per_class) * most), rtol=1e-12)

    def test_equal_weights_are_none(self):
        classes, codes = np.array(["a", "b"]), np.array([0, 1])
        assert Weighting.of(classes, {"a": 7, "b": 7}, None, None).factors(codes) is None
        assert Weighting.of(classes, None, None, 2.0).factors(codes) is None

    def test_balanced_is_one_over_the_rate_and_a_class_without_a_name_weighs_one(self):
        classes, codes = np.array(["a", "b", "c"]), np.array([0, 1, 2])
        rates = {"c": 0.1, "a": 0.7, "b": 0.2}
        balanced = Weighting.of(classes, "balanced", rates, None).factors(codes)
        given_ = Weighting.of(classes, {k: 1 / v for k, v in rates.items()}, None, None)
        np.testing.assert_allclose(balanced, given_.factors(codes), rtol=1e-12)
        assert Weighting.of(classes, {"b": 4}, None, None).factors(codes).tolist() == [
            0.25,
            1,
            0.25,
        ]


class TestMeaning:
    @pytest.mark.parametrize(
        ("method", "kind"),
        [
            *((method, PrivateLogisticRegression) for method in methods.METHODS),
            *((method, PrivateLinearSVC) for method in ("objective", "noisy-gd")),
        ],
    )
    def test_only_the_ratio_of_weights_matters(self, method, kind):
        """Weights 1 and 2 are weights 1/2 and 1; and where they are alike, there are none."""
        X, y = table()
        made = {}
        for name, given_ in {
            "twice": {0: 1.0, 1: 2.0},
            "half": {0: 0.5, 1: 1.0},
            "alike": {0: 3.0, 1: 3.0},
            "none": None,
        }.items():
            how = {"method": method, "random_state": 1, "class_weight": given_}
            made[name] = weights_of(model(kind, **how).fit(X, y))
        np.testing.assert_array_equal(made["twice"], made["half"])
        np.testing.assert_array_equal(made["alike"], made["none"])
        assert (made["twice"] != made["none"]).any()

    @pytest.mark.parametrize("method", methods.METHODS)
    def test_a_class_weight_is_that_weight_of_each_of_its_records(self, method):
        X, y = table(classes=3)
        how = {"method": method, "random_state": 1, "classes": [0, 1, 2], "max_sample_weight": 8.0}
        per_class = np.array([1.0, 2.0, 8.0])
        by_class = model(class_weight=dict(enumerate(per_class)), **how).fit(X, y)
        by_record = model(**how).fit(X, y, sample_weight=per_class[y])
        np.testing.assert_array_equal(weights_of(by_class), weights_of(by_record))

    @pytest.mark.parametrize("kind", BOTH)
    def test_whole_weights_are_so_many_copies_but_for_the_divisor(self, kind):
        """The mean of w l / W over n rows, and l2, times n W / N are those of N = sum(w) copies."""
        X, y = table(rows=60)
        own = np.random.default_rng(1).integers(0, 5, 60)
        most, l2 = 6.0, 0.003
        weighted = model(kind, method="none", l2=l2, max_sample_weight=most)
        weighted.fit(X, y, sample_weight=own)
        copies = model(kind, method="none", l2=l2 * 60 * most / own.sum())
        copies.fit(X.repeat(own, axis=0), y.repeat(own))
        np.testing.assert_allclose(weights_of(weighted), weights_of(copies), atol=1e-4)
        plain = model(kind, method="none", l2=l2).fit(X, y)
        assert np.abs(weights_of(weighted) - weights_of(plain)).max() > 1e-2

    def test_weights_above_the_bound_count_as_the_bound(self):
        X, y = table()
        own = np.random.default_rng(1).uniform(0, 9, len(y))
        own[3] = np.inf
        how = {"method": "noisy-gd", "random_state": 1, "max_sample_weight": 2.0}
        one = model(**how).fit(X, y, own)
        other = model(**how).fit(X, y, np.minimum(own, 2.0))
        np.testing.assert_array_equal(one.coef_, other.coef_)

    @pytest.mark.parametrize("of", [list, pd.Series, np.asarray, lambda w: np.float32(w)])
    def test_weights_of_any_kind(self, of):
        X, y = table()
        own = (np.arange(len(y)) % 3).tolist()
        how = {"method": "output-gd", "random_state": 1, "max_sample_weight": 2}
        want = model(**how).fit(X, y, np.array(own, float))
        np.testing.assert_array_equal(model(**how).fit(X, y, of(own)).coef_, want.coef_)

    def test_the_majority_is_by_weight(self):
        X = np.zeros((3, 1))
        rare = model(method="majority", class_weight={1: 5}).fit(X, [0, 0, 1])
        assert rare.predict(X).tolist() == [1, 1, 1]
        nobody = model(method="majority", max_sample_weight=1.0)
        planned = nobody._prepare(X, [0, 0, 1], None, [1, 0, 0])
        silent = replace(planned.records, weights=np.zeros(3))  # as where persons are cut
        assert np.isfinite(methods.Majority.intercepts(silent)).all()

    def test_a_heavy_rare_class_is_found(self):
        X, y = table(rows=4000)
        X[y == 1, 0] = np.abs(X[y == 1, 0])
        y = ((X[:, 0] > 0.75) & (np.arange(4000) % 4 < 3)).astype(int)
        how = {"epsilon": 4.0, "random_state": 0}
        plain = model(**how).fit(X, y).predict(X)[y == 1].mean()
        rates = {0: 0.9, 1: 0.1}
        weighted = model(class_weight="balanced", base_rates=rates, **how).fit(X, y)
        assert weighted.predict(X)[y == 1].mean() > max(0.5, plain)

    def test_weights_stay_with_their_rows_where_persons_are_cut(self):
        """Everybody has a heavy row of class 1 and a light one of class 0; one of them is kept."""
        X, y = np.zeros((400, 1)), np.arange(400) % 2
        estimator = model(max_sample_weight=1.0)
        planned = estimator._prepare(X, y, np.arange(400) // 2, 0.25 + 0.75 * y)
        assert len(planned.records.X) == 200
        np.testing.assert_array_equal(planned.records.weights, 0.25 + 0.75 * planned.records.codes)


class TestRisk:
    @pytest.mark.parametrize("kind", ["logistic", "huber-svm"])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_it_is_the_weighted_sum_of_single_risks(self, kind, dtype):
        X, y = table(rows=40)
        rng = np.random.default_rng(4)
        weights, w, l2 = rng.uniform(size=40).astype(dtype), rng.normal(size=3), 0.01
        risk = Risk(X.astype(dtype), y, kind, 0.4, l2, weights)
        each = [Risk(risk.X[i : i + 1], y[i : i + 1], kind, 0.4) for i in range(40)]
        for name, rest in (
            ("value", l2 / 2 * w @ w),
            ("gradient", l2 * w),
            ("hessian", l2 * np.eye(3)),
        ):
            parts = [v * getattr(one, name)(w) for v, one in zip(weights, each, strict=True)]
            want = np.mean(parts, axis=0) + rest
            np.testing.assert_allclose(getattr(risk, name)(w), want, rtol=1e-6, atol=1e-7)
        W = rng.normal(size=(5, 3))
        np.testing.assert_allclose(risk.objective(W), [risk.value(v) for v in W], rtol=1e-6)

    @pytest.mark.parametrize("kind", ["logistic", "huber-svm"])
    def test_a_minimum_is_one_in_exact_arithmetic(self, kind):
        X, y = table(rows=300)
        weights = np.random.default_rng(4).uniform(size=300)
        linear = np.array([0.1, -0.2, 0.05])
        risk = Risk(X, y, kind, 0.5, 0.01, weights)
        w = risk.minimise(linear, 1e-11)
        z = X.astype(np.longdouble) @ w.astype(np.longdouble)
        if kind == "logistic":
            psi = 1 / (1 + np.exp(-z)) - y
        else:
            psi = -(2 * y - 1) * np.clip((1.5 - (2 * y - 1) * z), 0, 1)
        gradient = (weights * psi) @ X / 300 + 0.01 * w + linear
        assert float(np.linalg.norm(gradient.astype(float))) <= 1e-11

    @pytest.mark.parametrize(
        "weights", [np.ones(3), np.full(4, 1.5), np.full(4, -1.0), [np.nan] * 4]
    )
    def test_other_weights_are_refused(self, weights):
        with pytest.raises(InvalidArgument, match="weights"):
            Risk(np.ones((4, 2)), np.array([0, 1, 0, 1]), weights=weights)


def task_of(method, kind, **changed):
    of = {"kind": kind, "l2": 0.01, "rows": 40, "columns": 3, "norm": 1.0, "epsilon": 1.0}
    return Task(**(of | {"delta": 1e-5} | changed))


def twins(rng, rows=40, columns=3, heavy=1.0):
    """Rows that say little or much, with weights; a record as heavy as can be, and its opposite."""
    X = rng.normal(size=(rows, columns))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.0000001
    X[rng.random(rows) < rng.random()] *= 1e-3
    codes, weights = rng.integers(0, 2, rows), rng.uniform(size=rows) ** rng.choice([0.2, 1, 5])
    slot = int(rng.integers(rows))
    X[slot] /= np.linalg.norm(X[slot]) * 1.0000001
    weights[slot] = heavy
    other, labels, own = X.copy(), codes.copy(), weights.copy()
    if rng.random() < 0.7:
        other[slot] = -X[slot]
    else:
        labels[slot] = 1 - codes[slot]
        own[slot] = heavy * rng.choice([1.0, rng.random()])
    first = FitRecords(X, codes, 2, 1.0, weights)
    return first, FitRecords(other, labels, 2, 1.0, own)


def opposed(rng, rows=40, heavy=1.0):
    """Twins and weights at which both records are badly misclassified, and pull apart."""
    first, second = twins(rng, rows, heavy=heavy)
    slot = int(np.flatnonzero(first.weights == heavy)[0])
    for each, sign in ((first, 1), (second, -1)):
        each.X[slot] = [0.1, sign * 0.99498, 0.0]
        each.codes[slot], each.weights[slot] = 1, heavy
    return first, second, np.array([-(10 ** rng.uniform(2, 5)), 0.0, 0.0])


def furthest(method, kind, twin, runs, relation=Relation.REPLACE_ONE):
    """How far apart two trainings on twins end, at most, over what was proved."""
    rng, worst = np.random.default_rng(7), 0.0
    for run in range(runs):
        l2 = [0.01, 0.1, 0.5][run % 3]
        task = task_of(method, kind, l2=l2, relation=relation)
        plan = methods.plan(method, task, Settings())
        start = np.zeros((1, 3))
        ends = [
            methods.METHODS[method].train(plan, each, Randomness.seeded(run), start)
            for each in twin(rng)
        ]
        sensitivity = plan.evidence.done().farthest
        worst = max(worst, float(np.linalg.norm(ends[0] - ends[1])) / sensitivity)
    return worst


@pytest.fixture
def undivided(monkeypatch):
    """Weights above 1 go through: what a fit without the divisor would train on."""
    monkeypatch.setattr(datasets, "_checked_weights", lambda given, rows: np.asarray(given, float))


class TestSensitivity:
    @pytest.mark.parametrize("kind", ["logistic", "huber-svm"])
    @pytest.mark.parametrize("method", OUTPUT)
    def test_no_twins_end_further_apart_than_proved(self, method, kind):
        assert 0.1 < furthest(method, kind, twins, 15) <= 1

    @pytest.mark.parametrize("method", OUTPUT)
    def test_twins_whose_weights_were_not_divided_do(self, method, undivided):
        def broken(rng):
            return twins(rng, heavy=10.0)

        assert furthest(method, "logistic", broken, 15) > 1

    @pytest.mark.parametrize("kind", ["logistic", "huber-svm"])
    @pytest.mark.parametrize("clip", [0.1, 1.0])
    @pytest.mark.parametrize("heavy", [1.0, 10.0])
    def test_a_step_of_the_engine_moves_by_the_clip(self, kind, clip, heavy, undivided):
        """What is clipped is weighted, so this holds even of weights that were not divided."""
        assert 0.9 < moved_by_a_step(kind, clip, heavy) <= 1 + 1e-9

    def test_without_a_clip_weights_must_be_divided(self, undivided):
        assert moved_by_a_step("logistic", None, 1.0) <= 1 + 1e-9
        assert moved_by_a_step("logistic", None, 10.0) > 5

    @pytest.mark.parametrize("kind", ["logistic", "huber-svm"])
    def test_what_dp_agd_looks_at_moves_by_one_record(self, kind):
        """Sums of clipped gradients and scores of step lengths; undivided, scores move more."""
        worst = {1.0: 0.0, 3.0: 0.0}
        rng = np.random.default_rng(3)
        for _ in range(200):
            first, second, w = opposed(rng, rows=5)
            v = np.array([0.0, 1.0, 0.0]) if rng.random() < 0.5 else rng.normal(size=3)
            v /= np.linalg.norm(v)
            risks = [each.risk(0, task_of("dp-agd", kind), 0.01) for each in (first, second)]
            sums = [clipped_sum(risk, w, 0.4) for risk in risks]
            assert np.linalg.norm(sums[0] - sums[1]) <= 2 * 0.4 * (1 + 1e-9)
            lengths = np.linspace(0, 10 ** rng.uniform(-2, 2), 7)
            scores = [step_scores(risk, w, v, lengths) for risk in risks]
            for times, before in worst.items():
                apart = np.ptp(times * (scores[0] - scores[1])) / (2 * np.ptp(lengths))
                worst[times] = max(before, apart)
        assert 0.9 < worst[1.0] <= 1 + 1e-9
        assert worst[3.0] > 2

    @pytest.mark.parametrize("method", PRIVATE)
    @pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT])
    def test_noise_and_proof_are_those_without_weights(self, method, relation):
        X, y = table()
        plain = model(method=method, relation=relation).fit(X, y)
        how = {"class_weight": {1: 30}, "max_sample_weight": 4}
        weighted = model(method=method, relation=relation, **how).fit(X, y, np.arange(len(y)) % 9)
        assert weighted.sigma_ == plain.sigma_
        assert weighted.settings_ == plain.settings_
        assert weighted.certificate_.evidence == plain.certificate_.evidence
        assert replace(weighted.privacy_, not_covered=()) == plain.privacy_


def moved_by_a_step(kind, clip, heavy):
    """By how much one record moves a sum of gradients, over 2 clips (or 2 norms), at most."""
    from sordino.models import ObjectiveSpec
    from sordino.sgd import TrainSpec, train

    rng, worst = np.random.default_rng(5), 0.0
    loss = ObjectiveSpec(kind, intercept=False)
    how = {"order": "fixed", "steps": 1, "init": "given", "dtype": "float64", "fixed_divisor": True}
    spec = TrainSpec(loss, 1.0, batch_size=40, max_grad_norm=clip, **how)
    for _ in range(20):
        *pair, start = opposed(rng, heavy=heavy)
        ends = [train(spec, each.dataset(0), [0], initial_weights=start)[0, 0, 0] for each in pair]
        worst = max(worst, 40 * float(np.linalg.norm(ends[0] - ends[1])) / (2 * (clip or 1.0)))
    return worst


class TestPublic:
    @pytest.mark.parametrize("method", ["auto", *PRIVATE])
    def test_plans_are_the_same_for_all_data_of_one_shape(self, method):
        how = {"class_weight": "balanced", "base_rates": {0: 0.8, 1: 0.2}, "max_sample_weight": 3}
        planned = []
        for seed in (1, 2):
            X, y = table(seed=seed)
            own = np.random.default_rng(seed).exponential(size=len(y)) * 10 ** (3 * seed)
            estimator = model(method=method, **how)
            plan = estimator._prepare(X, y, None, own).plan
            papers = json.loads(estimator.fit(X, y, own).certificate_.to_json())
            del papers["model"]["sha256"]
            planned.append((plan, papers))
        assert planned[0] == planned[1]

    @pytest.mark.parametrize("labels", [[0, 1], [-3, 8], ["no", "yes"], [False, True], [1.0, 2.0]])
    def test_a_saved_model_is_the_same_and_knows_its_weights(self, labels, tmp_path):
        X, y = table()
        named = np.asarray(labels)[y]
        per_class = {labels[0]: 1, labels[1]: np.float64(2.5)}
        fitted = model(classes=labels, class_weight=per_class, method="noisy-gd").fit(X, named)
        again = load(fitted.save(tmp_path / "model", preprocessing=[]))
        assert again.class_weight == per_class
        np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
        np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
        again.set_params(classes=labels, random_state=1).fit(X, named)
        want = model(classes=labels, class_weight=per_class, method="noisy-gd", random_state=1)
        np.testing.assert_array_equal(again.coef_, want.fit(X, named).coef_)

    @pytest.mark.parametrize("center", ["private", "none", [0.1, 0.0, 0.2]])
    def test_weights_stay_with_rows_that_get_a_centre(self, center):
        X, y = table()
        how = {"bounds": (-1, 1), "center": center, "scale": "none", "method": "output-gd"}
        how |= {"random_state": 1, "max_sample_weight": 8}
        given_ = model(class_weight={0: 8}, **how).fit(X, y)
        own = model(**how).fit(X, y, np.where(y == 0, 8.0, 1.0))
        np.testing.assert_array_equal(given_.coef_, own.coef_)
        assert (given_.coef_ != model(**how).fit(X, y).coef_).any()

    def test_a_certificate_says_how_records_were_weighted(self, tmp_path):
        X, y = table()
        rates = {0: 0.8, 1: 0.2}
        how = {"class_weight": "balanced", "base_rates": rates, "max_sample_weight": 2.0}
        fitted = model(**how).fit(X, y, np.ones(len(y)))
        written = fitted.certificate_.model.settings
        assert written["class_weight"] == "balanced"
        assert written["base_rates"] == (0.8, 0.2)
        assert written["max_sample_weight"] == 2.0
        assert WEIGHTS_GIVEN in fitted.privacy_.not_covered
        again = load(fitted.save(tmp_path / "model"))
        assert (again.class_weight, again.base_rates) == ("balanced", rates)
        assert WEIGHTS_GIVEN in again.privacy_.not_covered

    def test_without_weights_nothing_of_them_is_written(self):
        X, y = table()
        fitted = model().fit(X, y)
        names = ("class_weight", "base_rates", "max_sample_weight")
        assert not set(names) & set(fitted.certificate_.model.settings)
        assert not fitted.privacy_.not_covered

    @pytest.mark.parametrize(
        "forged",
        [
            {"class_weight": [1.0, -2.0]},
            {"class_weight": [1.0]},
            {"class_weight": [1.0, 2.0, 3.0]},
            {"class_weight": "even"},
            {"class_weight": [1.0, "2"]},
            {"class_weight": {"0": 1.0, "1": 2.0}},
            {"class_weight": 2.0},
            {"class_weight": "balanced"},
            {"base_rates": [0.5, 0.5]},
            {"class_weight": "balanced", "base_rates": [0.5, 0.6]},
            {"max_sample_weight": 0.0},
            {"max_sample_weight": "many"},
            {"class_weight": None},
        ],
    )
    def test_weights_that_cannot_be_are_no_certificate(self, forged):
        X, y = table()
        papers = json.loads(model(class_weight={1: 2}).fit(X, y).certificate_.to_json())
        del papers["model"]["settings"]["class_weight"]
        papers["model"]["settings"].update(forged)
        with pytest.raises(CertificateError):
            verify_certificate(Certificate.from_json(json.dumps(papers)))

    def test_candidates_may_differ_in_their_weights(self):
        X, y = table()
        tried = [
            model(method="output-gd", class_weight={1: w}, max_sample_weight=2) for w in (1, 9)
        ]
        own = np.full(len(y), 1.5)
        best = tune(
            tried, X, y, score=lambda each: each.score(X, y), epsilon=2.0, sample_weight=own
        )
        verify_certificate(best.certificate_)
        assert WEIGHTS_GIVEN in best.privacy_.not_covered
        with pytest.raises(InvalidArgument, match="max_sample_weight"):
            tune([model()], X, y, score=len, epsilon=2.0, sample_weight=own)

    @pytest.mark.parametrize("kind", BOTH)
    def test_scikit_learn_sees_it(self, kind):
        assert has_fit_parameter(kind(), "sample_weight")


CELL = "61.803"
BAD = {
    "no mapping": ({"class_weight": [1, 2]}, None, "class_weight"),
    "another word": ({"class_weight": "balancd"}, None, "balanced"),
    "read off the labels": ({"class_weight": "balanced"}, None, "Rates read off the labels"),
    "rates alone": ({"base_rates": {0: 0.5, 1: 0.5}}, None, "base_rates"),
    "rates beside numbers": ({"class_weight": {1: 2}, "base_rates": {0: 0.5, 1: 0.5}}, None, "bal"),
    "rates above 1": (
        {"class_weight": "balanced", "base_rates": {0: 50, 1: 50}},
        None,
        "to sum to 1",
    ),
    "a rate of nothing": (
        {"class_weight": "balanced", "base_rates": {0: 1.0, 1: 0.0}},
        None,
        "base_rates",
    ),
    "a rate is missing": (
        {"class_weight": "balanced", "base_rates": {0: 1.0}},
        None,
        "to name every class",
    ),
    "no class": ({"class_weight": {2: 1.0}}, None, "nothing but classes"),
    "a list for a label": ({"class_weight": {(0, 1): 1.0}}, None, "nothing but classes"),
    "weight 0": ({"class_weight": {0: 0}}, None, "class_weight"),
    "below 0": ({"class_weight": {0: -1}}, None, "class_weight"),
    "NaN": ({"class_weight": {0: math.nan}}, None, "class_weight"),
    "infinite": ({"class_weight": {0: math.inf}}, None, "class_weight"),
    "a word": ({"class_weight": {0: "2"}}, None, "class_weight"),
    "too far apart": ({"class_weight": {0: 1e-300, 1: 1e300}}, None, "factor"),
    "no bound": ({}, [1.0] * 200, "max_sample_weight"),
    "bound 0": ({"max_sample_weight": 0}, None, "max_sample_weight"),
    "bound infinite": ({"max_sample_weight": math.inf}, None, "max_sample_weight"),
    "too few": ({"max_sample_weight": 2}, [1.0] * 199, "one number a row"),
    "two a row": ({"max_sample_weight": 2}, np.ones((200, 2)), "one number a row"),
    "one for all": ({"max_sample_weight": 2}, 1.0, "one number a row"),
    "a weight below 0": ({"max_sample_weight": 2}, [1.0] * 199 + [-61.803], "nothing below 0"),
    "a weight is NaN": ({"max_sample_weight": 2}, [61.803] * 199 + [math.nan], "no NaN"),
    "a weight is a word": ({"max_sample_weight": 2}, ["61.803 kg"] * 200, "one number a row"),
}


class TestBadInput:
    @pytest.mark.parametrize("kind", BOTH)
    @pytest.mark.parametrize("name", BAD)
    def test_it_is_one_sentence_and_nothing_is_half_fitted(self, kind, name):
        params, own, sentence = BAD[name]
        X, y = table()
        fitted = model(kind).fit(X, y)
        before = weights_of(fitted).copy(), fitted.certificate_
        fitted.set_params(**params)
        with pytest.raises(InvalidArgument, match=sentence) as error:
            fitted.fit(X, y, sample_weight=own)
        assert CELL not in str(error.value)
        assert error.value.__cause__ is None
        np.testing.assert_array_equal(weights_of(fitted), before[0])
        assert fitted.certificate_ is before[1]


@pytest.mark.parametrize("kind", BOTH)
def test_whether_all_weights_are_0_is_not_told_by_a_refusal(kind):
    # Beside it lies a table in which one record weighs something.
    X, y = table()
    none, one = np.zeros(200), np.eye(200)[0]
    fits = [model(kind, max_sample_weight=2).fit(X, y, sample_weight=own) for own in (none, one)]
    assert fits[0].privacy_ == fits[1].privacy_


class TestAudits:
    def test_a_fit_as_a_mechanism_trains_on_its_weights(self):
        X, y = table()
        for method in ("output-gd", "objective", "noisy-gd"):
            estimator = model(method=method, class_weight={0: 1, 1: 4}, fit_intercept=False)
            _, D, _ = fits.mechanism(estimator, X, y)
            np.testing.assert_array_equal(D.weights, np.where(y == 1, 1.0, 0.25))

    def test_minima_of_many_runs_are_those_of_fits(self):
        X, y = table()
        estimator = model(method="objective", class_weight={1: 7}, fit_intercept=False)
        plan = estimator._prepare(X, y).plan
        _, D, _ = fits.mechanism(estimator, X, y)
        records = records_of(plan, D)
        (many,) = minimisers(plan, records, np.zeros((1, 3)))
        linear = np.random.default_rng(0).normal(size=(5, 3)) * plan.sigma / 200
        risk = records.risk(0, plan.task, plan.l2)
        for found, b in zip(many(linear), linear, strict=True):
            np.testing.assert_allclose(found, risk.minimise(b, 1e-10), atol=1e-6)

    def attacked(self, method, per_class, times=1.0):
        """What an attack finds on a record of class 1, whose weights are then this many times."""
        estimator = model(method=method, class_weight=per_class, fit_intercept=False)
        pair = fits.worst_case(estimator, 60)
        worlds = [replace(each, weights=times * each.weights) for each in (pair.D, pair.D_prime)]
        return audit(pair.mechanism, *worlds, 4000, claim=pair.claim, confidence=0.999, workers=1)

    @pytest.mark.parametrize("method", ["output-gd", "noisy-gd"])
    def test_an_attack_on_the_heaviest_class_finds_no_more_than_was_promised(self, method):
        heavy = self.attacked(method, {0: 0.1, 1: 2})  # alike: all records are of class 1
        assert heavy.curve_refuted is False
        assert not heavy.violated
        light = self.attacked(method, {0: 20, 1: 2})
        assert light.observed.epsilon < 0.5 * heavy.observed.epsilon

    def test_and_if_weights_were_not_divided_it_would(self, undivided):
        assert self.attacked("output-gd", {0: 1, 1: 5}, times=5.0).curve_refuted
