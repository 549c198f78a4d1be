"""The law of objective perturbation: weights tell their noise, and their density is a density."""

from __future__ import annotations

import numpy as np
import pytest

from sordino import PrivateLinearSVC, PrivateLogisticRegression
from sordino.audit import scores
from sordino.audit.runners import fits
from sordino.errors import InvalidArgument
from sordino.estimators.fit import FitRecords
from sordino.models.constants import ObjectiveSpec

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (12, 2)) / np.sqrt(2)
Y = np.arange(12) % 2
OTHER = np.vstack([[[0.7, -0.7]], X[1:]])
KINDS = (PrivateLogisticRegression, PrivateLinearSVC)


def prepared(kind):
    how = {"delta": 1e-3, "classes": [0, 1], "fit_intercept": False, "data_norm": 1.0}
    return fits.prepare(kind(epsilon=8.0, method="objective", **how), (X, Y), (OTHER, Y))


@pytest.mark.parametrize("kind", KINDS)
def test_densities_integrate_to_one(kind) -> None:
    """Only the determinant of the Hessian makes both of them densities."""
    mechanism, D, D_prime, _ = prepared(kind)
    for data in (D, D_prime):
        law = scores._Minimiser.of(mechanism, data)
        reach = 8 * law.sigma / law.regulariser  # weights beyond have b beyond 7 sigma
        axis, step = np.linspace(-reach, reach, 501, retstep=True)
        grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        total = np.exp(law.log_density(grid)).sum() * step**2 / (2 * np.pi * law.sigma**2)
        # The Huber hinge's Hessian jumps, so its sum is not as good as the smooth one's.
        assert total == pytest.approx(1.0, abs=1e-6 if kind is KINDS[0] else 2e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_score_is_the_ratio_of_the_laws_of_real_minimisers(kind) -> None:
    mechanism, D, D_prime, _ = prepared(kind)
    plan = mechanism.plan
    for data in (D, D_prime):
        records = FitRecords(data.X, data.y.astype(np.int64), 2, plan.task.norm)
        noise = RNG.normal(0, plan.sigma, 2)
        risk = records.risk(0, plan.task, plan.l2)
        w = risk.minimise(noise / len(X), 1e-12, np.zeros(2))
        law = scores._Minimiser.of(mechanism, data)
        slope, _ = scores._derivatives(law.objective, w @ law.signed.T)
        found = -(slope @ law.signed + law.regulariser * w)
        np.testing.assert_allclose(found, noise, atol=1e-9)
    some = RNG.normal(size=(1001, 2))
    first, second = (scores._Minimiser.of(mechanism, data) for data in (D, D_prime))
    score = scores.likelihood(mechanism, D, D_prime)(some)
    np.testing.assert_allclose(score, second.log_density(some) - first.log_density(some))
    assert score.std() > 0.1


def test_blocks_do_not_matter(monkeypatch) -> None:
    mechanism, D, _, _ = prepared(KINDS[0])
    law = scores._Minimiser.of(mechanism, D)
    some = RNG.normal(size=(23, 2))
    whole = law.log_density(some)
    for numbers in (1, 5 * D.X.size, 10**9):
        monkeypatch.setattr(scores, "_BLOCK_NUMBERS", numbers)
        np.testing.assert_allclose(law.log_density(some), whole, rtol=1e-12)


def test_memory_does_not_grow_with_runs_or_with_columns_squared() -> None:
    """2,000 records of 300 columns and 40 runs, not all of them at once."""
    import tracemalloc

    signed = RNG.normal(size=(2000, 300))
    law = scores._Minimiser(signed, ObjectiveSpec("logistic"), 1.0, 1.0)
    weights = RNG.normal(size=(40, 300)) / 300
    tracemalloc.start()
    law.log_density(weights)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # One block of products and what is beside it; 40 runs at once would be 192 MB, and records x
    # columns^2 1.4 GB.
    assert most < 1.5 * 8 * scores._BLOCK_NUMBERS


def test_many_columns_are_refused_before_any_run() -> None:
    columns = scores._MOST_COLUMNS + 1
    wide = np.zeros((6, columns))
    wide[:, 0] = 0.5
    other = wide.copy()
    other[0, 1] = 0.5
    y = np.arange(6) % 2
    model = PrivateLogisticRegression(
        epsilon=1.0, delta=1e-3, method="objective", classes=[0, 1], fit_intercept=False
    )
    mechanism, D, D_prime, _ = fits.prepare(model, (wide, y), (other, y))
    with pytest.raises(InvalidArgument, match="at most 400 columns"):
        scores.likelihood(mechanism, D, D_prime)
