"""`Risk`: the regularised empirical risk of a linear model, and its certified minimiser.

    F(w) = mean_i v_i l(y_i, x_i.w) + (l2/2) ||w||^2

A record's weight v_i lies in [0, 1] and is 1 where none is given; the mean is over the number of
records, not over their weights, which are private. So |v psi| <= 1, the curvature of a weighted
loss is at most that of the loss, and all bounds on rounding hold for it, too.

The losses are those of `sordino.models.linear` (labels 0 and 1; the Huber hinge has half width h).
The intercept, if any, is a column of X, so that it counts in the rows' norm and in the regulariser
(docs/math.md 10.1, traps).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq, minimize
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import expit

from sordino import checks
from sordino.data.dataset import row_norms
from sordino.types import Array, Floats

_KINDS = ("logistic", "huber-svm")
# Rows turned into float64 at a time: a few MB at 100 features, so a copy of X is never made.
BLOCK = 4096
# Terms of an inner product summed at a time, so that rounding grows with this and not with d.
COLUMNS = 256
# Above this dimension the Newton system is solved by conjugate gradients, not by a d x d matrix.
LARGEST_DENSE_DIMENSION = 1500
# L-BFGS only has to bring Newton near its quadratic region; it works in the precision of X.
_QUICK_ITERATIONS = 15
_QUICK_TOLERANCE = 1e-4
_NEWTON_ITERATIONS = 300
# A full step must gain this fraction of what the slope promised, and leave less slope than this.
_DECREASE, _SLOPE_LEFT = 0.1, 0.5
_UNIT_ROUNDING = float(np.finfo(np.float64).eps) / 2
# Roundings in a derivative v psi at a given score: an expit, or a few differences and a division,
# and the product with the weight.
_LINK_ROUNDINGS = 8


def most_rounding(
    *,
    rows: int,
    dimension: int,
    curvature: float,
    huber_width: float,
    l2: float,
    norm: float,
    linear: float,
) -> float:
    """`Risk.rounding` at most, near the minimiser of any records within `norm`.

    `linear` bounds the norm of the linear term; |psi| <= 1, so ||w|| <= (norm + linear) / l2.
    """
    size = (norm + linear) / l2
    terms = min(COLUMNS, dimension) + dimension // COLUMNS
    in_slope = _LINK_ROUNDINGS * (1 + curvature * (1 + huber_width))
    in_links = norm * (curvature * terms * size * norm + in_slope)
    in_mean = (min(BLOCK, rows) + rows // BLOCK + 4) * norm
    return 1.01 * _UNIT_ROUNDING * (in_links + in_mean + 3 * (l2 * size + linear))


class NoMinimum(RuntimeError):
    """A tolerance that float64 cannot be shown to reach; its text says how far it came."""


@dataclass(frozen=True, eq=False)
class Risk:
    """F(w) = mean_i v_i l(y_i, x_i.w) + (l2/2) ||w||^2, over all records at once.

    Parameters
    ----------
    X
        One row a record, float32 or float64 (anything else becomes float64).
    y
        Labels 0 and 1.
    kind
        "logistic" or "huber-svm".
    huber_width
        Half the width h over which the hinge is rounded.
    l2
        Weight of the regulariser, on every coordinate.
    weights
        v_i of each record, in [0, 1]; None: all 1.
    """

    X: Array
    y: npt.NDArray[Any]
    kind: str = "logistic"
    huber_width: float = 0.5
    l2: float = 0.0
    weights: Array | None = None

    def __post_init__(self) -> None:
        X = np.asarray(self.X)
        X = np.ascontiguousarray(X, X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
        if X.ndim != 2 or 0 in X.shape:
            checks.fail("X.shape", X.shape, "to be (rows, features), both above 0")
        y = np.asarray(self.y)
        if y.shape != (len(X),):
            checks.fail("y.shape", y.shape, f"to be ({len(X)},), one label a row")
        if not np.isin(y, (0, 1)).all():
            checks.fail("y", f"[{len(y)} labels]", "to hold 0 and 1 only")
        checked = {
            "X": checks.finite("X", X),
            "y": y.astype(X.dtype),
            "kind": checks.one_of("kind", self.kind, _KINDS),
            "huber_width": checks.positive("huber_width", self.huber_width),
            "l2": checks.non_negative("l2", self.l2),
        }
        if self.weights is not None:
            weights = np.asarray(self.weights, X.dtype)
            if weights.shape != y.shape or not ((weights >= 0) & (weights <= 1)).all():
                checks.fail("weights", f"[{weights.size}]", f"to be {len(y)} numbers in [0, 1]")
            checked["weights"] = weights
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def part(self, records: slice) -> Risk:
        """The risk of some of the records alone."""
        weights = None if self.weights is None else self.weights[records]
        return replace(self, X=self.X[records], y=self.y[records], weights=weights)

    @property
    def rows(self) -> int:
        """Number of records."""
        return int(self.X.shape[0])

    @property
    def dimension(self) -> int:
        """Number of weights."""
        return int(self.X.shape[1])

    @functools.cached_property
    def row_norms(self) -> Floats:
        """Euclidean norm of every row, in float64."""
        return row_norms(self.X)

    def scores(self, w: Array) -> Array:
        """Inner products x_i.w in the precision of X; [n], or [n, k] for weights [d, k]."""
        return np.asarray(self.X @ np.asarray(w, self.X.dtype))

    def losses(self, scores: Array, records: slice = slice(None)) -> Array:
        """Weighted loss of each of these records at its score; [n], or [n, k] for k of them."""
        y = _along(self.y[records], scores)
        if self.kind == "logistic":
            rest = np.exp(-np.abs(scores))
            losses = np.log1p(rest, out=rest) + np.maximum(scores, 0) - y * scores
        else:
            h, gap = self.huber_width, 1 - (2 * y - 1) * scores
            losses = np.clip(gap + h, 0, 2 * h) ** 2 / (4 * h) + np.maximum(gap - h, 0)
        return self._weighted(losses, records)

    def derivatives(self, scores: Array) -> Array:
        """Slopes v psi = v dl/dscore of every record; its gradient is v_i psi_i x_i."""
        y = _along(self.y, scores)
        if self.kind == "logistic":
            return self._weighted(expit(scores) - y)
        h, sign = self.huber_width, 2 * y - 1
        return self._weighted(-sign * np.clip((1 - sign * scores + h) / (2 * h), 0, 1))

    def curvatures(self, scores: Array) -> Array:
        """Second derivatives of the records' weighted losses; for Huber generalised ones."""
        if self.kind == "logistic":
            p = expit(scores)
            return self._weighted(p * (1 - p))
        h, sign = self.huber_width, 2 * self.y - 1
        return self._weighted(np.where(np.abs(1 - sign * scores) < h, 1 / (2 * h), 0.0))

    def _weighted(self, each: Array, records: slice = slice(None)) -> Array:
        """Numbers of these records [n] or [n, k], each times its record's weight."""
        if self.weights is None:
            return np.asarray(each)
        return np.asarray(each * _along(self.weights[records], each))

    @property
    def largest_curvature(self) -> float:
        """Supremum of `curvatures`: 1/4 (logistic) or 1/(2h) (Huber), whatever the weights."""
        return 0.25 if self.kind == "logistic" else 1 / (2 * self.huber_width)

    def value(self, w: Array) -> float:
        """F(w), in float64."""
        return float(self.objective(np.asarray(w)[None])[0])

    def objective(self, W: Array) -> Floats:
        """F at each of k weight vectors, [k, d] -> [k]; one matrix product a block of rows."""
        W = np.asarray(W, np.float64)
        total = np.zeros(len(W))
        for block, rows in self._blocks():
            total += self.losses(rows @ W.T, block).sum(axis=0)
        regulariser: Floats = self.l2 / 2 * (W * W).sum(axis=1)
        return total / self.rows + regulariser

    def gradient(self, w: Array) -> Floats:
        """Gradient of F, accumulated in float64."""
        w = np.asarray(w, np.float64)
        return self._mean_row(self.derivatives(self._exact_scores(w))) + self.l2 * w

    def hessian(self, w: Array) -> Floats:
        """Hessian of F (Huber: a generalised one), d x d in float64."""
        return self._hessian(self.curvatures(self._exact_scores(np.asarray(w, np.float64))))

    def weighted_sum(self, weights: Array) -> Floats:
        """Sum of the rows x_i, each times its weight, accumulated in float64."""
        total = np.zeros(self.dimension)
        for block, rows in self._blocks():
            total += weights[block] @ rows
        return total

    def minimise(
        self, linear: Array | None = None, tolerance: float = 1e-9, start: Array | None = None
    ) -> Floats:
        """Return w with || grad F(w) + linear || <= tolerance, in exact arithmetic.

        L-BFGS in the precision of X, then (semismooth) Newton with a line search in float64.
        What is compared with the tolerance is the computed Euclidean norm PLUS a bound on the
        rounding in it (`rounding`), so the inequality holds for the real gradient at the
        returned w: what docs/math.md 10.2 asks of an approximate minimum. Nothing is random and
        the tolerance is never widened.

        Raises
        ------
        NoMinimum
            If float64 cannot show it: the text says which norm was reached.
        """
        checks.positive("l2", self.l2, "Without a regulariser there may be no minimum.")
        tolerance = checks.positive("tolerance", tolerance)
        b = self._vector("linear", linear)
        w = _quick(self, b, max(tolerance, _QUICK_TOLERANCE), self._vector("start", start))
        for _ in range(_NEWTON_ITERATIONS):
            scores = self._exact_scores(w)
            gradient = self._mean_row(self.derivatives(scores)) + self.l2 * w + b
            norm, rounding = float(np.linalg.norm(gradient)), self.rounding(scores, w, b)
            if norm + rounding <= tolerance:
                return w
            step = _newton_step(self, scores, gradient, tolerance)
            length = _length(self, w, scores, b, step, float(gradient @ step))
            if norm <= rounding / 2 or length == 0.0:
                break
            w = w + length * step
        sentence = f"The gradient's norm is {norm:.3g}, known up to {rounding:.3g} in float64"
        raise NoMinimum(f"{sentence}; it cannot be shown to be <= tolerance={tolerance:.3g}.")

    def rounding(self, scores: Floats, w: Floats, linear: Floats) -> float:
        """Bound on || computed - true || of the gradient of F + linear at w, in float64.

        Any order of summing m terms errs by at most m u sum |terms| (Higham, Accuracy and
        Stability, 2002, section 3.1; u = 2^-53, and 1% for second order). So a score errs by
        m u ||x|| ||w||, its derivative by the loss's curvature times that, and the mean of the
        rows by m u mean |psi| ||x||; sums go by COLUMNS and BLOCK, so that m stays small.
        """
        norms, psi = self.row_norms, np.abs(self.derivatives(scores))
        terms = min(COLUMNS, self.dimension) + self.dimension // COLUMNS
        in_scores = self.largest_curvature * terms * float(np.linalg.norm(w))
        in_slope = _LINK_ROUNDINGS * (1 + self.largest_curvature * (1 + self.huber_width))
        in_links = float(norms @ (in_scores * norms + in_slope)) / self.rows
        terms = min(BLOCK, self.rows) + self.rows // BLOCK + 4
        in_mean = terms * float(norms @ psi) / self.rows
        in_sum = 3 * (self.l2 * float(np.linalg.norm(w)) + float(np.linalg.norm(linear)))
        return 1.01 * _UNIT_ROUNDING * (in_links + in_mean + in_sum)

    def _vector(self, name: str, given: Array | None) -> Floats:
        if given is None:
            return np.zeros(self.dimension)
        vector = np.array(given, np.float64)
        if vector.shape != (self.dimension,):
            checks.fail(f"{name}.shape", vector.shape, f"to be ({self.dimension},)")
        return checks.finite(name, vector)

    def _blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Rows in float64, some at a time."""
        for first in range(0, self.rows, BLOCK):
            block = slice(first, first + BLOCK)
            yield block, self.X[block].astype(np.float64, copy=False)

    def _exact_scores(self, w: Floats) -> Floats:
        parts = [slice(j, j + COLUMNS) for j in range(0, self.dimension, COLUMNS)]
        blocks = (rows for _, rows in self._blocks())
        return np.concatenate([sum(rows[:, part] @ w[part] for part in parts) for rows in blocks])

    def _mean_row(self, weights: Floats) -> Floats:
        return self.weighted_sum(weights) / self.rows

    def _hessian(self, curvatures: Floats) -> Floats:
        total = np.zeros((self.dimension, self.dimension))
        for block, rows in self._blocks():
            kept = np.flatnonzero(curvatures[block])  # Huber: most records are flat
            scaled = rows[kept] * np.sqrt(curvatures[block][kept])[:, None]
            total += scaled.T @ scaled  # numpy sees one matrix and does half the work
        return total / self.rows + self.l2 * np.eye(self.dimension)


def _along(y: Array, scores: Array) -> Array:
    """Labels shaped to go along the rows of the scores."""
    return y if scores.ndim == 1 else y[:, None]


def _quick(risk: Risk, b: Floats, tolerance: float, start: Floats) -> Floats:
    """Minimise roughly by L-BFGS, in the precision of X."""

    def both(w: Floats) -> tuple[float, Floats]:
        scores = risk.scores(w)
        gradient = (risk.derivatives(scores) @ risk.X).astype(np.float64) / risk.rows
        value = float(risk.losses(scores).mean(dtype=np.float64)) + risk.l2 / 2 * float(w @ w)
        return value + float(b @ w), gradient + risk.l2 * w + b

    # Here the tolerance is in the max-norm and nothing rests on it.
    gtol = tolerance / float(np.sqrt(risk.dimension))
    limits: Any = {"maxiter": _QUICK_ITERATIONS, "gtol": gtol}
    found = minimize(both, start, jac=True, method="L-BFGS-B", options=limits)
    return np.asarray(found.x, np.float64)


def _newton_step(risk: Risk, scores: Floats, gradient: Floats, tolerance: float) -> Floats:
    """-H^{-1} gradient, or an inexact solution of it that is still a descent direction."""
    curvatures = risk.curvatures(scores)
    if risk.dimension <= LARGEST_DENSE_DIMENSION:
        return np.asarray(-cho_solve(cho_factor(risk._hessian(curvatures)), gradient))

    def product(v: Floats) -> Floats:
        v = v.ravel()
        return risk._mean_row(curvatures * risk._exact_scores(v)) + risk.l2 * v

    # Forcing terms of Dembo and Steihaug (1983): superlinear, and no finer than is needed.
    norm = float(np.linalg.norm(gradient))
    rtol = max(min(0.1, norm), min(0.1, 0.1 * tolerance / norm))
    operator = LinearOperator((risk.dimension,) * 2, matvec=product, dtype=np.float64)
    step, _ = cg(operator, -gradient, rtol=rtol, maxiter=2 * min(risk.X.shape) + 50)
    return np.asarray(step)


def _length(risk: Risk, w: Floats, scores: Floats, b: Floats, step: Floats, slope: float) -> float:
    """Length 1 if it decreases F + b.w enough, else the best in (0, 1); 0 if there is none.

    F is convex, so a slope still below 0 at length 1 shows a decrease, and one above 0 brackets
    the minimum along the step. Halving instead would let Newton zigzag among the kinks of the
    Huber loss (3 times the iterations where n < d). Scores are linear in the length, so a trial
    costs no product with X.
    """
    along = risk._exact_scores(step)

    def rise(length: float) -> float:
        psi = risk.derivatives(scores + length * along)
        regular = risk.l2 * (w + length * step) + b
        return float(psi @ along) / risk.rows + float(regular @ step)

    def value(length: float) -> float:
        v = w + length * step
        loss = float(risk.losses(scores + length * along).mean())
        return loss + risk.l2 / 2 * float(v @ v) + float(b @ v)

    last = rise(1.0)
    if last <= 0:
        return 1.0 if slope < 0 else 0.0
    if last <= _SLOPE_LEFT * -slope:
        here = value(0.0)
        # The decrease may drown in the rounding of the values; the slopes then speak for it.
        if value(1.0) <= here + _DECREASE * slope + 1e-13 * (1 + abs(here)):
            return 1.0
    if rise(0.0) >= 0:
        return 0.0
    return float(brentq(rise, 0.0, 1.0, xtol=1e-16, rtol=1e-4, maxiter=200))
