"""Several classes in one private model: which methods, what is refused, and what it predicts."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from sordino import InvalidArgument, NotApplicable, PrivateLinearSVC, load, tune
from sordino import PrivateLogisticRegression as Logistic
from sordino.estimators import methods
from sordino.estimators.fit import FitRecords, Randomness, Task
from sordino.estimators.methods.training import train_together
from sordino.estimators.minimum.softmax import SoftmaxRisk
from sordino.proofs.settings import METHODS
from sordino.release import bundle
from sordino.release.verify import verify

SOFTMAX = [name for name, method in METHODS.items() if method.softmax]
CLASSES = ["a", "b", "c", "d"]


def table(rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    centres = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    codes = np.arange(rows) % 4
    return (centres[codes] + 0.3 * draw.normal(size=(rows, 2))) / 2, np.array(CLASSES)[codes]


def made(**params: Any) -> Logistic:
    return Logistic(**{"epsilon": 2.0, "delta": 1e-5, "classes": CLASSES, **params})


def kind_of(model: Logistic) -> Any:
    return model.certificate_.evidence.spec.objective.kind


@pytest.mark.parametrize("method", SOFTMAX)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_method_of_descent_trains_one_model(method, fit_intercept, tmp_path: Path):
    X, y = table()
    model = made(method=method, fit_intercept=fit_intercept).fit(X, y)
    assert kind_of(model) == "softmax"
    assert model.coef_.shape == (4, 2)
    papers = model.certificate_
    assert papers.evidence.shape == (4, 2 + fit_intercept)
    assert papers.model.settings["multi_class"] == "softmax"
    model.save(tmp_path / "model", preprocessing=[])
    verify(bundle.read(tmp_path / "model"))
    loaded = load(tmp_path / "model")
    assert loaded.multi_class == "softmax"
    for again in (loaded, copy.deepcopy(model)):
        for ask in ("decision_function", "predict", "predict_proba", "predict_log_proba"):
            np.testing.assert_array_equal(getattr(again, ask)(X), getattr(model, ask)(X))


@pytest.mark.parametrize("relation", ["zero-out", "add-or-remove-one"])
def test_auto_takes_a_descent(relation):
    X, y = table()
    public = {"public_rows": 300} if relation == "add-or-remove-one" else {}
    model = made(relation=relation, **public).fit(X, y)
    assert kind_of(model) == "softmax"
    assert model.method_ == ("dp-sgd" if public else "noisy-gd")


@pytest.mark.parametrize("method", ["objective", "dp-agd", "noisy-gd", "output-gd"])
def test_one_against_the_rest_where_it_is_asked_for_or_all_there_is(method):
    X, y = table()
    given = made(method=method, multi_class="one-vs-rest").fit(X, y)
    assert given.certificate_.model.settings["multi_class"] == "one-vs-rest"
    assert given.certificate_.evidence.models == 4
    shares = given.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert not np.allclose(shares, softmax(given.decision_function(X), axis=1))
    if method in ("objective", "dp-agd"):
        left = made(method=method).fit(X, y)
        assert "multi_class" not in left.certificate_.model.settings


@pytest.mark.parametrize("way", [None, "auto", "softmax", "one-vs-rest"])
def test_two_classes_are_the_one_weight_logistic(way):
    X, y = table()
    model = made(multi_class=way, classes=CLASSES[:2]).fit(X[y < "c"], y[y < "c"])
    assert model.coef_.shape == (1, 2)
    assert "multi_class" not in model.certificate_.model.settings


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"multi_class": "softmax", "method": "objective"}, "no theorem"),
        ({"multi_class": "softmax", "method": "dp-agd"}, "no theorem"),
        ({"multi_class": "softmax", "method": "majority"}, "no theorem"),
        ({"multi_class": "multinomial"}, "multi_class"),
        ({"multi_class": 3}, "multi_class"),
        ({"classes": ["a"]}, "classes"),
        ({"initial_weights": np.zeros((3, 3)), "method": "noisy-gd"}, "initial_weights"),
    ],
)
def test_contradictions_are_refused_and_nothing_is_half_fitted(params, sentence):
    X, y = table()
    model = made(**params)
    before = dict(vars(model))
    with pytest.raises(InvalidArgument, match=sentence):
        model.fit(X, y)
    assert vars(model).keys() == before.keys()
    with pytest.raises(TypeError):
        PrivateLinearSVC(multi_class="softmax")


@pytest.mark.parametrize("method", ["rsgd-ar", "nsgd", "bolt-on", "output-gd"])
def test_a_clip_that_binds_is_refused_where_only_convexity_protects(method):
    X, y = table()
    clipped: dict[str, Any] = {"method": method, "max_grad_norm": 1.0}
    with pytest.raises(NotApplicable, match="no convex loss"):
        made(**clipped, multi_class="softmax").fit(X, y)
    # Whoever leaves it to us gets what has a theorem: models of single scores.
    alone = made(**clipped).fit(X, y).certificate_
    assert alone.guarantee is not None
    assert alone.evidence.spec.objective.kind == "logistic"  # type: ignore[union-attr]
    # Noisy steps are covered by composition, whatever the clip.
    for noisy in ("noisy-gd", "dp-sgd"):
        papers = made(method=noisy, max_grad_norm=0.5).fit(X, y).certificate_
        assert papers.guarantee is not None
        assert papers.evidence.spec.max_grad_norm == 0.5  # type: ignore[union-attr]


def test_the_noise_is_that_of_gradients_of_root_two_norms():
    """Not of one, and not of one a class: the same numbers for one score tell."""
    X, y = table()
    how: dict[str, Any] = {"method": "noisy-gd", "steps": 5, "learning_rate": 0.1}
    several = made(**how).fit(X, y).sigma_
    beside = made(**how, multi_class="one-vs-rest").fit(X, y).sigma_
    one = made(**how, classes=[0, 1]).fit(X, np.arange(300) % 2).sigma_
    assert several / one == pytest.approx(math.sqrt(2), rel=1e-4)
    assert beside / one == pytest.approx(math.sqrt(4), rel=1e-4)


def test_probabilities_are_the_softmax_of_the_scores():
    X, y = table()
    model = made(method="output-gd").fit(X, y)
    scores = model.decision_function(X)
    np.testing.assert_array_equal(model.predict_proba(X), softmax(scores, axis=1))
    np.testing.assert_array_equal(model.predict(X), np.array(CLASSES)[scores.argmax(axis=1)])
    model.coef_ = 1e5 * model.coef_  # probabilities of 0, whose logarithms are numbers
    logs = model.predict_log_proba(X)
    assert np.isfinite(logs).all()
    assert (model.predict_proba(X) == 0).any()
    np.testing.assert_array_equal(logs, log_softmax(model.decision_function(X), axis=1))


@pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
def test_without_privacy_it_is_the_minimiser():
    X, y = table()
    known = LogisticRegression(C=1 / (300 * 0.01), fit_intercept=False, tol=1e-10)
    known.fit(X, y)
    descent = {"method": "noisy-gd", "epsilon": math.inf, "steps": 3000, "learning_rate": 1.0}
    for params in ({"method": "none"}, descent):
        model = made(**params, l2=0.01, fit_intercept=False, data_norm=1.5).fit(X, y)
        np.testing.assert_allclose(model.coef_, known.coef_, atol=1e-4)
    risk = SoftmaxRisk(X, np.searchsorted(CLASSES, y), 4, 0.01)
    assert np.linalg.norm(risk.value_and_gradient(known.coef_)[1]) < 1e-6


def test_public_weights_are_where_it_starts():
    X, y = table()
    start = np.arange(12.0).reshape(4, 3)
    how: dict[str, Any] = {"method": "output-gd", "steps": 1, "learning_rate": 1e-9}
    model = made(epsilon=1e5, **how, initial_weights=start).fit(X, y)
    found = np.column_stack([model.coef_, model.intercept_])
    np.testing.assert_allclose(found, start, atol=1e-6)
    evidence = model.certificate_.evidence
    assert evidence.start_norm == pytest.approx(np.linalg.norm(start))  # type: ignore[union-attr]


def test_the_engine_is_given_all_classes_once(monkeypatch):
    """And plans of many budgets are runs of one call."""
    asked = []
    dataset = FitRecords.dataset

    def counted(records: FitRecords, problem: int | None) -> Any:
        asked.append(problem)
        return dataset(records, problem)

    monkeypatch.setattr(FitRecords, "dataset", counted)
    X, y = table()
    records = FitRecords.of(X, np.searchsorted(CLASSES, y), 4, 1.0, True)
    start = np.zeros((4, 3))
    plans = [
        methods.plan("noisy-gd", Task("softmax", 0.01, 300, 3, 1.0, epsilon, 1e-5, problems=4))
        for epsilon in (1.0, 1.1)
    ]
    weights = train_together(plans, records, Randomness.seeded(0), start)
    assert weights.shape == (2, 4, 3)
    assert set(asked) == {None}
    assert not np.array_equal(weights[0], weights[1])


def test_the_best_of_several_may_be_of_either_kind(tmp_path: Path):
    X, y = table()
    candidates = [made(method="noisy-gd", multi_class=way) for way in (None, "one-vs-rest")]
    how: Any = {"score": lambda model: model.score(X[:50], y[:50]), "mean_runs": 6}
    best = tune(candidates, X, y, epsilon=5.0, delta=1e-5, **how)
    best.save(tmp_path / "best")
    verify(bundle.read(tmp_path / "best"))
    joint = best.certificate_.model.settings["multi_class"] == "softmax"
    shares = softmax(best.decision_function(X), axis=1)
    assert np.allclose(best.predict_proba(X), shares) == joint


@pytest.mark.parametrize("method", ["auto", *SOFTMAX])
def test_nothing_but_the_size_of_the_records_decides(method):
    """Plans are equal for all data of one shape, also where a class is missing from the rows."""
    plans = []
    for seed, classes in ((0, CLASSES), (1, CLASSES[:1])):
        X, y = table(seed=seed)
        y = np.array(classes)[np.arange(len(y)) % len(classes)]
        plan = made(method=method)._prepare(X * (1 + seed), y).plan
        plans.append((plan.method, plan.settings, plan.spec, plan.sigma, plan.scale))
    assert plans[0] == plans[1]


@pytest.mark.slow
def test_it_is_far_better_than_one_against_the_rest_on_digits():
    """Ten classes: a constant of the method, not of a lucky draw."""
    X, y = load_digits(return_X_y=True)
    shares = {"softmax": [], "one-vs-rest": []}
    for seed in range(3):
        held = train_test_split(X / 16 - 0.3, y, test_size=0.28, random_state=seed)
        for way, found in shares.items():
            how = {"classes": list(range(10)), "multi_class": way, "data_norm": 2.0}
            model = Logistic(epsilon=1.0, delta=5e-7, **how).fit(held[0], held[2])
            found.append(model.score(held[1], held[3]))
    assert np.mean(shares["softmax"]) > np.mean(shares["one-vs-rest"]) + 0.1
