"""`SoftmaxRisk`: the regularised empirical risk of a softmax, and its minimiser.

    F(W) = mean_i v_i (ln sum_k exp(w_k.x_i) - w_{y_i}.x_i) + (l2/2) ||W||^2

with weights v_i in [0, 1], 1 where none are given.
What private models are compared with: nothing is promised of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import logsumexp

from sordino.types import Array, Floats

_BLOCK = 4096
_ITERATIONS = 2000


@dataclass(frozen=True, eq=False)
class SoftmaxRisk:
    """Of rows X with class numbers; the intercept, if any, is a column of X.

    >>> risk = SoftmaxRisk(np.eye(3), np.arange(3), 3, l2=0.1)
    >>> weights = risk.minimise(1e-9)
    >>> bool(np.linalg.norm(risk.value_and_gradient(weights)[1]) < 1e-8)
    True
    """

    X: Array
    codes: npt.NDArray[np.int64]
    classes: int
    l2: float
    weights: Floats | None = None

    def value_and_gradient(self, weights: Floats) -> tuple[float, Floats]:
        """F and its gradient at weights [class, column], in float64."""
        value, gradient = 0.0, np.zeros_like(weights)
        for first in range(0, len(self.X), _BLOCK):
            rows = self.X[first : first + _BLOCK].astype(np.float64, copy=False)
            scores = rows @ weights.T
            place = np.arange(len(rows)), self.codes[first : first + _BLOCK]
            total = logsumexp(scores, axis=1)
            losses = total - scores[place]
            scores = np.exp(scores - total[:, None])
            scores[place] -= 1
            if self.weights is not None:
                v = self.weights[first : first + _BLOCK]
                losses, scores = losses * v, scores * v[:, None]
            value += float(losses.sum())
            gradient += scores.T @ rows
        value = value / len(self.X) + self.l2 / 2 * float((weights * weights).sum())
        return value, gradient / len(self.X) + self.l2 * weights

    def minimise(self, tolerance: float) -> Floats:
        """Weights at which the gradient is about as short as `tolerance`, by L-BFGS."""
        shape = self.classes, self.X.shape[1]

        def both(flat: Floats) -> tuple[float, Floats]:
            value, gradient = self.value_and_gradient(flat.reshape(shape))
            return value, gradient.ravel()

        gtol = tolerance / float(np.sqrt(shape[0] * shape[1]))  # of the largest entry
        limits: Any = {"maxiter": _ITERATIONS, "maxfun": 2 * _ITERATIONS, "gtol": gtol, "ftol": 0}
        start = np.zeros(shape[0] * shape[1])
        found = minimize(both, start, jac=True, method="L-BFGS-B", options=limits)
        return np.asarray(found.x, np.float64).reshape(shape)
