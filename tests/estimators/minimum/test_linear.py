"""`Risk`: its values and derivatives, and that the minimiser's promise holds."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sordino import InvalidArgument
from sordino.estimators.minimum import linear as room
from sordino.estimators.minimum.linear import NoMinimum, Risk, most_rounding

KINDS = ("logistic", "huber-svm")


def made(kind="logistic", rows=200, features=7, l2=0.01, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features)).astype(dtype)
    y = X @ rng.normal(size=features) + rng.normal(size=rows) > 0
    return Risk(X, y.astype(int), kind, 0.5, l2)


def true_norm(risk, w, linear):
    """Norm of the gradient in 40 digits, from the losses' definitions alone."""
    with mpmath.workdps(40):
        h, weights = mpmath.mpf(risk.huber_width), [mpmath.mpf(float(c)) for c in w]
        total = [risk.l2 * c + mpmath.mpf(float(b)) for c, b in zip(weights, linear, strict=True)]
        for row, label in zip(risk.X, risk.y, strict=True):
            x = [mpmath.mpf(float(c)) for c in row]
            z, s = mpmath.fdot(x, weights), 2 * int(label) - 1
            if risk.kind == "logistic":
                psi = -s / (1 + mpmath.exp(s * z))
            else:
                psi = -s * min(max((1 - s * z + h) / (2 * h), mpmath.mpf(0)), mpmath.mpf(1))
            total = [t + psi * c / risk.rows for t, c in zip(total, x, strict=True)]
        return mpmath.sqrt(mpmath.fsum(t * t for t in total))


class TestValues:
    def test_the_losses_by_hand(self):
        huber = Risk(np.eye(4), [1, 1, 1, 0], "huber-svm", 0.5, 0.0)
        # Gaps 2, 1, 0.25 and -1 (label 0): straight twice, on the bend, and flat.
        assert huber.losses(np.array([-1.0, 0.0, 0.75, -2.0])).tolist() == [2, 1, 0.28125, 0]
        assert huber.derivatives(np.array([-1.0, 0.0, 0.75, -2.0])).tolist() == [-1, -1, -0.75, 0]
        logistic = Risk(np.eye(2), [1, 0])
        losses = logistic.losses(np.array([-800.0, -800.0]))
        assert losses.tolist() == [800, 0]
        assert logistic.losses(np.zeros(2)) == pytest.approx(np.log(2), rel=1e-15)

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_gradient_is_that_of_the_value(self, kind):
        risk, w = made(kind), np.linspace(-1, 1, 7)
        for j, unit in enumerate(np.eye(7) * 1e-5):
            slope = (risk.value(w + unit) - risk.value(w - unit)) / 2e-5
            assert risk.gradient(w)[j] == pytest.approx(slope, abs=1e-8)

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_hessian_is_that_of_the_gradient(self, kind):
        risk, w = made(kind), np.linspace(-1, 1, 7)
        for j, unit in enumerate(np.eye(7) * 1e-7):
            column = (risk.gradient(w + unit) - risk.gradient(w - unit)) / 2e-7
            assert risk.hessian(w)[:, j] == pytest.approx(column, abs=1e-6)

    def test_blocks_do_not_show(self, monkeypatch):
        risk, w = made(rows=50, dtype=np.float32), np.linspace(-1, 1, 7)
        W = np.stack([w, 0 * w, 2 * w])
        whole = risk.objective(W), risk.gradient(w), risk.hessian(w)
        monkeypatch.setattr(room, "BLOCK", 7)
        monkeypatch.setattr(room, "COLUMNS", 3)
        parts = risk.objective(W), risk.gradient(w), risk.hessian(w)
        for one, other in zip(whole, parts, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13)

    def test_a_batch_of_weights_has_the_values_of_each(self):
        risk, W = made("huber-svm"), np.random.default_rng(1).normal(size=(5, 7))
        assert risk.objective(W) == pytest.approx([risk.value(w) for w in W], rel=1e-14)
        expected = risk.losses(risk.scores(W[0])).mean() + risk.l2 / 2 * W[0] @ W[0]
        assert risk.value(W[0]) == pytest.approx(expected, rel=1e-14)

    @pytest.mark.parametrize(
        ("changed", "named"),
        [
            ({"X": np.ones(3)}, "X.shape"),
            ({"y": np.ones(4)}, "y.shape"),
            ({"y": np.array([0, 1, -1])}, "0 and 1 only"),
            ({"kind": "logistical"}, "kind"),
            ({"l2": -1.0}, "l2"),
            ({"huber_width": 0.0}, "huber_width"),
            ({"X": np.full((3, 2), np.nan)}, "finite"),
        ],
    )
    def test_refusals(self, changed, named):
        with pytest.raises(InvalidArgument, match=named):
            Risk(**{"X": np.ones((3, 2)), "y": np.array([0, 1, 1]), **changed})


class TestMinimise:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("l2", [1.0, 1e-2, 1e-6])
    def test_the_true_gradient_is_below_the_tolerance(self, kind, l2, dtype):
        risk = made(kind, rows=60, features=4, l2=l2, dtype=dtype)
        linear = np.random.default_rng(2).normal(size=4) * 0.1
        w = risk.minimise(linear, 1e-11)
        assert w.dtype == np.float64
        assert true_norm(risk, w, linear) <= 1e-11

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_rounding_bound_covers_the_rounding(self, kind):
        # The margin is wide: a worst case against the typical one.
        risk = made(kind, rows=300, features=5, dtype=np.float32)
        for seed in range(5):
            w, linear = np.random.default_rng(seed).normal(size=(2, 5)) * 10
            computed = np.linalg.norm(risk.gradient(w) + linear)
            bound = risk.rounding(risk._exact_scores(w), w, linear)
            assert abs(computed - true_norm(risk, w, linear)) <= bound <= 1e-11

    def test_it_is_scikit_learns_minimum(self):
        risk = made(rows=500, l2=0.003)
        model = LogisticRegression(
            C=1 / (risk.l2 * risk.rows), fit_intercept=False, tol=1e-12, max_iter=10_000
        ).fit(risk.X, risk.y)
        assert risk.minimise(None, 1e-12) == pytest.approx(model.coef_[0], abs=1e-6)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("l2", [1e-2, 1e-7])
    def test_separable_data(self, kind, l2):
        X = np.vstack([np.eye(3), -np.eye(3)])
        w = Risk(X, [1, 1, 1, 0, 0, 0], kind, 0.5, l2).minimise(None, 1e-12)
        assert (w > 0.9).all()
        assert np.ptp(w) < 1e-4

    @pytest.mark.parametrize("kind", KINDS)
    def test_duplicated_columns_share_the_weight(self, kind):
        risk = made(kind)
        twice = Risk(np.hstack([risk.X, risk.X]), risk.y, kind, 0.5, 2 * risk.l2)
        w, v = risk.minimise(None, 1e-11), twice.minimise(None, 1e-11)
        assert np.concatenate([w, w]) / 2 == pytest.approx(v, abs=1e-8)

    @pytest.mark.parametrize("kind", KINDS)
    def test_records_of_zeros_only_dilute(self, kind):
        risk = made(kind)
        diluted = Risk(np.vstack([risk.X, 0 * risk.X]), np.tile(risk.y, 2), kind, 0.5, risk.l2 / 2)
        assert diluted.minimise(None, 1e-12) == pytest.approx(risk.minimise(None, 1e-12), abs=1e-8)
        nothing = Risk(np.zeros((5, 2)), [0, 1, 1, 0, 1], kind, 0.5, 0.5)
        assert nothing.minimise(np.array([1.0, -2.0]), 1e-12) == pytest.approx([-2, 4], rel=1e-12)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("l2", [1e-1, 1e-5])
    def test_more_features_than_a_matrix_is_made_for(self, kind, l2):
        wide = made(kind, rows=80, features=2000, dtype=np.float32)
        risk = Risk(wide.X / np.float32(45), wide.y, kind, 0.5, l2)  # rows of norm about 1
        linear = np.random.default_rng(3).normal(size=2000) * 1e-3
        w = risk.minimise(linear, 1e-9)
        assert np.linalg.norm(risk.gradient(w) + linear) <= 1e-9

    def test_both_newton_systems_agree(self, monkeypatch):
        risk = made(rows=100, features=30)
        dense = risk.minimise(None, 1e-11)
        monkeypatch.setattr(room, "LARGEST_DENSE_DIMENSION", 1)
        assert risk.minimise(None, 1e-11) == pytest.approx(dense, abs=1e-8)

    @pytest.mark.parametrize("kind", KINDS)
    def test_noise_that_dwarfs_the_data(self, kind):
        # More features than records and noise as of a tiny epsilon: halving steps zigzag here.
        risk = made(kind, rows=40, features=120, l2=1e-4, dtype=np.float32)
        linear = np.random.default_rng(5).normal(size=120) * 0.01
        w = risk.minimise(linear, 1e-7)
        assert np.linalg.norm(w) > 800
        assert np.linalg.norm(risk.gradient(w) + linear) <= 1e-7

    def test_any_start_leads_there_and_nothing_is_random(self):
        risk = made("huber-svm", l2=1e-4)
        w = risk.minimise(None, 1e-11)
        far = risk.minimise(None, 1e-11, start=np.full(7, 1e4))
        assert far == pytest.approx(w, abs=1e-6)
        assert np.array_equal(w, risk.minimise(None, 1e-11))

    def test_what_float64_cannot_show_is_refused(self):
        with pytest.raises(NoMinimum, match="tolerance=1e-17"):
            made().minimise(None, 1e-17)

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [((None, 0.0), "tolerance"), ((np.ones(3), 1e-9), r"linear\.shape")],
    )
    def test_refusals(self, arguments, named):
        with pytest.raises(InvalidArgument, match=named):
            made().minimise(*arguments)
        with pytest.raises(InvalidArgument, match="l2"):
            made(l2=0.0).minimise(None, 1e-9)


@pytest.mark.parametrize("kind", ["logistic", "huber-svm"])
@pytest.mark.parametrize("l2", [1e-3, 0.1])
def test_no_records_round_worse_than_the_public_bound(kind, l2):
    # A tolerance made from `most_rounding` is reachable whatever the records: rows as long as
    # allowed, all alike or not, a linear term as long as allowed.
    rng = np.random.default_rng(0)
    for rows, columns in ((3, 1), (200, 7), (5000, 40)):
        spread = rng.normal(size=(rows, columns))
        alike = np.ones((rows, columns))
        for X in (spread, alike, 0 * spread):
            norms = np.linalg.norm(X, axis=1, keepdims=True)
            X = 2.0 * X / np.where(norms > 0, norms, 1.0)
            linear = rng.normal(size=columns)
            linear *= 0.5 / np.linalg.norm(linear)
            risk = Risk(X, rng.integers(0, 2, rows), kind, 0.5, l2)
            most = most_rounding(
                rows=rows,
                dimension=columns,
                curvature=risk.largest_curvature,
                huber_width=0.5,
                l2=l2,
                norm=2.0 * (1 + 1e-12),
                linear=0.5 * (1 + 1e-12),
            )
            w = risk.minimise(linear, 4 * most)
            assert risk.rounding(risk.scores(w), w, linear) <= most
