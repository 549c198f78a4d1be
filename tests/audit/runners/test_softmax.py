"""Attacks on a softmax: runs are those of `fit`, none beats the claim, too little noise is seen."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from sordino import PrivateLogisticRegression
from sordino.audit import TrainedRelease, audit, pairs
from sordino.audit.runners import fits
from sordino.audit.runners.outputs import outputs
from sordino.audit.scores import record_losses

ROWS, CLASSES = 40, 3
RNG = np.random.default_rng(2)
X = RNG.standard_normal((ROWS, 2))
Y = np.arange(ROWS) % CLASSES


def estimator(method: str, **values: Any) -> PrivateLogisticRegression:
    how = {"epsilon": 1.0, "delta": 1e-5, "classes": list(range(CLASSES)), "fit_intercept": False}
    return PrivateLogisticRegression(method=method, **(how | values))


def worst_pair(method: str) -> Any:
    """From far public weights, where the first class has all scores: two gradients of root 2."""
    rows = np.tile([1.0, 0.0], (ROWS, 1)) * (1 - 1e-9)
    labels = np.zeros(ROWS, dtype=np.int64)
    rows[0], labels[0] = np.array([0.02, 0.9998]) * (1 - 1e-9), 1
    mirrored = rows.copy()
    mirrored[0, 1] *= -1
    start = np.zeros((CLASSES, 2))
    start[0, 0], start[1:, 0] = 1e6, -1e6
    private = estimator(method, initial_weights=start, l2=1e-9)
    return fits.prepare(private, (rows, labels), (mirrored, labels))


@pytest.mark.parametrize("method", ["noisy-gd", "dp-sgd", "rsgd-ar"])
def test_it_is_one_mechanism_of_all_classes(method):
    mechanism, D, claim = fits.mechanism(estimator(method), X, Y)
    assert isinstance(mechanism, TrainedRelease)
    assert mechanism.spec.objective.kind == "softmax"
    assert sorted(set(D.y.tolist())) == [0, 1, 2]
    assert claim.epsilon <= 1
    first, second = outputs(mechanism, D, pairs.canary(D).D_prime, 20, workers=1)
    assert first.shape == second.shape == (20, 2 * CLASSES)
    assert len(np.unique(first, axis=0)) == 20


def test_runs_are_those_of_fit():
    """Means and spreads of weights agree with those of real fits."""
    private = estimator("noisy-gd", epsilon=20.0)
    mechanism, D, _ = fits.mechanism(private, X, Y)
    mine, _ = outputs(mechanism, D, pairs.canary(D).D_prime, 400, workers=1)
    real = np.array([private.fit(X, Y).coef_.ravel() for _ in range(30)])
    error = np.sqrt(real.var(axis=0) / 30 + mine.var(axis=0) / 400)
    assert (np.abs(real.mean(axis=0) - mine.mean(axis=0)) < 5 * error).all()
    # Variances from 30 and 400 runs: relative error sqrt(2/30 + 2/400) = 0.27.
    assert np.abs(np.log(real.std(axis=0) / mine.std(axis=0))).max() < 5 * 0.27 / 2


def attacked(method: str, factor: float, runs: int) -> Any:
    pair = worst_pair(method)
    spec, scale = pair.mechanism.spec, pair.mechanism.scale / factor
    if spec.noise_multiplier:
        spec = dataclasses.replace(spec, noise_multiplier=spec.noise_multiplier / factor)
    release = dataclasses.replace(pair.mechanism, spec=spec, scale=scale)
    how: dict[str, Any] = {"claim": pair.claim, "confidence": 0.999, "workers": 1}
    return audit(release, pair.D, pair.D_prime, runs, **how)


@pytest.mark.parametrize("method", ["output-gd", "noisy-gd"])
def test_no_attack_beats_the_claim(method):
    assert attacked(method, 1.0, 4000).curve_refuted is False


@pytest.mark.parametrize("method", ["output-gd", "noisy-gd"])
def test_noise_for_one_norm_instead_of_root_two_and_replaced_records_is_seen(method):
    """A third of the noise: as if a record moved a sum by one norm and not by 2 root 2."""
    assert attacked(method, 2 * np.sqrt(2), 4000).curve_refuted


def test_the_loss_of_a_record_is_its_cross_entropy():
    _, D, _ = fits.mechanism(estimator("noisy-gd"), X, Y)
    D, D_prime = pairs.canary(D)
    score = record_losses(D, D_prime, CLASSES, "softmax", 0.5)
    weights = RNG.standard_normal((6, CLASSES, 2))

    def loss(w: np.ndarray, data: Any) -> float:
        z = w @ data.X[0]
        return float(np.log(np.exp(z).sum()) - z[data.y[0]])

    want = [loss(w, D) - loss(w, D_prime) for w in weights]
    np.testing.assert_allclose(score(weights.reshape(6, -1)), want, atol=1e-12)
