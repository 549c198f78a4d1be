"""Predictions see rows as training did: longer ones scaled down to the norm, the intercept's 1 too.

The referee is plain numpy and knows none of the package's code for it.
"""

from __future__ import annotations

import json
import math
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import optimize, sparse

import sordino
from sordino import PrivateLinearSVC, PrivateLogisticRegression
from sordino.estimators.classifiers import PrivateLinearClassifier
from sordino.release.certificate import CertificateError

pytestmark = pytest.mark.filterwarnings("ignore::sordino.estimators.leaks.PrivacyLeakWarning")
EXAMPLE = Path(__file__).parents[2] / "examples" / "score_bundle.py"


# The referee


def seen(X: Any, norm: float | None, intercept: bool) -> np.ndarray:
    """Rows with their constant, each longer one divided by how much it is too long."""
    rows = [[*map(float, row), *([1.0] if intercept else [])] for row in X]
    lengths = [math.hypot(*row) for row in rows]
    bound = math.inf if norm is None else norm
    return np.array(
        [
            [entry / length * bound for entry in row] if length > bound else row
            for row, length in zip(rows, lengths, strict=True)
        ]
    )


def scores(model: Any, X: Any, norm: float | None) -> np.ndarray:
    """One column a model, from the published weights."""
    weights = model.coef_
    if model.fit_intercept:
        weights = np.column_stack([model.coef_, model.intercept_])
    return seen(X, norm, model.fit_intercept) @ weights.T


def likely(found: np.ndarray, *, beside: bool = False) -> np.ndarray:
    """Probabilities: the logistic curve; of several classes, the softmax, if they are one model."""
    each = np.exp(-np.logaddexp(0, -found))
    if each.shape[1] == 1:
        return np.column_stack([1 - each, each])
    if not beside:
        each = np.exp(found - found.max(axis=1, keepdims=True))
    return each / each.sum(axis=1, keepdims=True)


def log_loss(probabilities: np.ndarray, codes: np.ndarray) -> float:
    return float(-np.log(probabilities[np.arange(len(codes)), codes]).mean())


def unreliable(probabilities: np.ndarray, codes: np.ndarray) -> float:
    """Mean distance between what is said and what happens, in ten bins of every class."""
    far = 0.0
    for code, said in enumerate(probabilities.T):
        for part in np.array_split(np.argsort(said), 10):
            far += abs(said[part].mean() - (codes[part] == code).mean()) * len(part) / len(codes)
    return far / probabilities.shape[1]


def minimiser(rows: np.ndarray, labels: np.ndarray, l2: float) -> np.ndarray:
    """Logistic regression without noise of rows as they are, the intercept among them."""

    def risk(w: np.ndarray) -> tuple[float, np.ndarray]:
        margins = rows @ w
        value = np.logaddexp(0, margins).mean() - margins[labels].sum() / len(rows)
        slope = rows.T @ (np.exp(-np.logaddexp(0, -margins)) - labels) / len(rows)
        return value + l2 / 2 * w @ w, slope + l2 * w

    start = np.zeros(rows.shape[1])
    return np.asarray(optimize.minimize(risk, start, jac=True, method="BFGS", tol=1e-7).x)


# Tables


def table(seed: int, rows: int, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Columns of some scale, an even or rare first class, labels that follow a logistic law."""
    draws = np.random.default_rng(seed)
    columns = int(draws.integers(1, 13))
    X = draws.standard_normal((rows, columns)) * 10 ** draws.uniform(-1, 1.5)
    X += draws.standard_normal(columns) * X.std() * draws.uniform(0, 1)
    X[draws.random(rows) < 0.1] *= 0.01  # some within any norm
    models = draws.standard_normal((classes, columns)) * draws.uniform(0.5, 3)
    models /= X.std() * math.sqrt(columns)
    logits = X @ models.T + draws.uniform(-1.5, 1.5, classes)
    return X, (logits + draws.gumbel(size=logits.shape)).argmax(axis=1)


SHAPES = [
    (seed, classes, norm, intercept)
    for seed, (classes, norm, intercept) in enumerate(
        (classes, norm, intercept)
        for classes in (2, 3, 5)
        for norm in (0.3, 1.0, 4.0, None)
        for intercept in (True, False)
    )
]
EVERY = pytest.mark.parametrize(("seed", "classes", "norm", "intercept"), SHAPES)


def fitted(
    kind: type[PrivateLinearClassifier],
    seed: int,
    classes: int,
    norm: float | None,
    intercept: bool,
    **settings: Any,
) -> tuple[Any, np.ndarray, np.ndarray]:
    X, y = table(seed, 120, classes)
    settings = {"method": "none", **settings}
    model = kind(data_norm=norm, fit_intercept=intercept, classes=range(classes), **settings)
    return model.fit(X, y), X, y


def forms(X: np.ndarray) -> Iterator[Any]:
    names = [f"c{k}" for k in range(X.shape[1])]
    yield from (X, np.asfortranarray(X), X.tolist(), sparse.csr_array(X), sparse.csc_matrix(X))
    yield from (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names))


# Laws


@EVERY
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
@pytest.mark.filterwarnings("ignore:X has feature names")
def test_every_prediction_is_the_referees(
    kind: type[PrivateLinearClassifier], seed: int, classes: int, norm: float, intercept: bool
) -> None:
    model, X, y = fitted(kind, seed, classes, norm, intercept)
    expected = scores(model, X, norm)
    labels = (expected[:, 0] > 0).astype(int) if classes == 2 else expected.argmax(axis=1)
    for given in forms(X):
        found = model.decision_function(given)
        np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(model.predict(given), labels)
        assert model.score(given, y) == (labels == y).mean()
        if kind is PrivateLogisticRegression:
            probabilities = model.predict_proba(given)
            np.testing.assert_allclose(probabilities, likely(expected), rtol=0, atol=1e-12)
            said = np.exp(model.predict_log_proba(given))
            np.testing.assert_allclose(said, probabilities, rtol=1e-12)
    narrow = model.decision_function(X.astype(np.float32)).reshape(expected.shape)
    np.testing.assert_allclose(narrow, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("seed", "classes", "norm", "intercept"), [each for each in SHAPES if each[2] in (0.3, 4.0)]
)
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_rows_are_the_very_bits_that_training_saw(
    precision: type[np.floating], seed: int, classes: int, norm: float, intercept: bool
) -> None:
    X, y = table(seed, 5000, classes)
    X = X.astype(precision)
    X[:3] *= np.array([[1e15], [1e-30], [1e30]], dtype=precision)
    model = PrivateLogisticRegression(
        method="none", data_norm=norm, fit_intercept=intercept, classes=range(classes)
    )
    trained = model._prepare(X, y).records.X
    model.fit(X, y)
    rows = np.concatenate([model._scaling.rows(X[:700]), model._scaling.rows(X[700:])])
    np.testing.assert_array_equal(rows, trained)
    short = np.linalg.norm(rows.astype(float), axis=1) < 0.99 * norm
    assert short.any() == (norm > 1 or not intercept)
    np.testing.assert_array_equal(rows[short, : X.shape[1]], X[short])


CALIBRATED = [(seed, 2 + seed % 3 // 2, norm) for seed, norm in enumerate([1.0, 0.5, 3.0] * 3)]


@pytest.mark.parametrize(("seed", "classes", "norm"), CALIBRATED)
def test_probabilities_are_as_good_as_without_noise(seed: int, classes: int, norm: float) -> None:
    X, y = table(100 + seed, 2000, classes)
    method = ("objective", "noisy-gd", "auto")[seed % 3]
    model = PrivateLogisticRegression(
        1e6,
        method=method,
        data_norm=norm,
        classes=range(classes),
        l2=0.003,
        multi_class="one-vs-rest",
    ).fit(X, y)
    rows = seen(X, norm, True)
    problems = [y == 1] if classes == 2 else [y == code for code in range(classes)]
    without = np.stack([minimiser(rows, labels, 0.003) for labels in problems])
    best = likely(rows @ without.T, beside=True)
    ours = model.predict_proba(X)
    shares = np.bincount(y, minlength=classes) / len(y)
    constant = log_loss(np.tile(shares, (len(y), 1)), y)
    assert abs(log_loss(ours, y) - log_loss(best, y)) < 0.01
    assert ours.mean(axis=0) == pytest.approx(best.mean(axis=0), abs=0.01)
    assert unreliable(ours, y) < unreliable(best, y) + 0.01
    if log_loss(best, y) < constant - 0.01:
        assert log_loss(ours, y) < constant


def test_a_common_table_at_the_default_norm_beats_a_constant_guess() -> None:
    draws = np.random.default_rng(1)
    X = draws.standard_normal((40_000, 6))
    chance = 1 / (1 + np.exp(1.55 - X.sum(axis=1) * 0.27))
    y = (draws.random(40_000) < chance).astype(int)
    model = PrivateLogisticRegression(epsilon=1.0, classes=[0, 1]).fit(X, y)
    constant = log_loss(np.tile([1 - y.mean(), y.mean()], (len(y), 1)), y)
    ours = model.predict_proba(X)
    assert log_loss(ours, y) < constant - 0.01
    assert ours[:, 1].mean() == pytest.approx(y.mean(), abs=0.03)
    # The program as it was would not pass: the same weights, rows as they are.
    raw = likely((X @ model.coef_.T) + model.intercept_)
    assert log_loss(raw, y) > constant + 0.05
    assert raw[:, 1].mean() < y.mean() - 0.08


# What a model keeps


def test_parameters_set_later_change_no_prediction() -> None:
    model, X, _ = fitted(PrivateLogisticRegression, 3, 2, 1.0, True)
    before = model.predict_proba(X)
    model.set_params(data_norm=50.0, fit_intercept=False, method="majority")
    np.testing.assert_array_equal(model.predict_proba(X), before)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_majority_is_as_likely_for_long_rows(
    tmp_path: Path, classes: int, intercept: bool
) -> None:
    model, X, y = fitted(PrivateLogisticRegression, 5, classes, 1.0, intercept, method="majority")
    shares = np.bincount(y, minlength=classes) / len(y)
    model.save(tmp_path / "model")
    for each in (model, sordino.load(tmp_path / "model")):
        np.testing.assert_allclose(each.predict_proba(X), np.tile(shares, (len(X), 1)), atol=1e-9)
    np.testing.assert_allclose(by_example(tmp_path / "model", X)[1][0], shares, atol=1e-9)


def test_a_candidate_of_tune_is_scored_on_scaled_rows() -> None:
    X, y = table(8, 2000)
    known: list[tuple[np.ndarray, np.ndarray]] = []

    def score(model: Any) -> float:
        known.append((model.decision_function(X[:50])[:, None], scores(model, X[:50], 1.0)))
        return 0.0

    candidates = [PrivateLogisticRegression(l2=l2, classes=[0, 1]) for l2 in (0.01, 0.1)]
    sordino.tune(candidates, X, y, score=score, epsilon=8.0, delta=1e-6, mean_runs=30)
    assert known
    for found, expected in known:
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


# Bundles, and the example that reads them without sordino


def by_example(bundle: Path, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores and probabilities that examples/score_bundle.py computes."""
    example = runpy.run_path(str(EXAMPLE))
    certificate, weights = example["read_bundle"](bundle)
    found = example["score"](X, weights, certificate)
    model = certificate["model"]
    softmax = model["settings"].get("multi_class") == "softmax"
    return found, example["probabilities"](found, model["labels"], softmax=softmax)


@EVERY
def test_a_bundle_and_the_example_say_the_same(
    tmp_path: Path, seed: int, classes: int, norm: float | None, intercept: bool
) -> None:
    model, X, _ = fitted(PrivateLogisticRegression, seed, classes, norm, intercept)
    model.save(tmp_path / "model")
    again = sordino.load(tmp_path / "model")
    X[0] = 0
    X[1:4] *= [[1e9], [1e100], [1e-200]]
    if norm is not None:
        X[4] = 1e307 * np.sign(X[4])  # its square is no float
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    found, probabilities = by_example(tmp_path / "model", X)
    expected = model.decision_function(X).reshape(found.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=0, atol=1e-12)
    example = runpy.run_path(str(EXAMPLE))
    assert example["predict"](found, list(range(classes))) == model.predict(X).tolist()


def test_the_certificate_says_how_rows_are_scaled() -> None:
    said = " ".join(str(fitted(PrivateLinearSVC, 0, 2, 0.5, True)[0].certificate_).split())
    assert "longer ones than 0.5, the intercept's constant 1 counted, were scaled down" in said
    said = " ".join(str(fitted(PrivateLinearSVC, 0, 2, 0.5, False)[0].certificate_).split())
    assert "Rows: longer ones than 0.5 were scaled down; predictions must do the same" in said
    for norm, method in ((None, "none"), (1.0, "majority")):
        model, _, _ = fitted(PrivateLinearSVC, 0, 2, norm, True, method=method)
        assert "Rows:" not in str(model.certificate_)


@pytest.mark.parametrize("norm", ["1", True, 0, -1.0, "inf", [1.0]])
def test_a_norm_that_is_none_is_refused(tmp_path: Path, norm: Any) -> None:
    fitted(PrivateLogisticRegression, 0, 2, 1.0, True)[0].save(tmp_path / "model")
    path = tmp_path / "model" / "certificate.json"
    values = json.loads(path.read_text())
    values["model"]["settings"]["data_norm"] = norm
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")
    with pytest.raises(CertificateError, match="data_norm"):
        sordino.load(tmp_path / "model")
