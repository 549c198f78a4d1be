"""Linear models: logistic regression, Huber SVM and least squares.

With z = w.x the gradient of one example is psi(z, y) x: a number times the row. So clipping is
elementwise on psi (its row norm being known), and no per-example gradient is ever built.
"""

from __future__ import annotations

import numpy as np
import torch

from sordino import checks
from sordino.models.batched import Objective, Params, Update, binary_log_loss, glorot
from sordino.models.constants import ObjectiveSpec
from sordino.types import Array


class Linear(Objective):
    """loss(w; x, y) = l(w.x, y), with the intercept, if any, as a last feature 1."""

    def __init__(self, spec: ObjectiveSpec, features: int) -> None:
        self.spec = spec
        self.features = checks.whole("features", features, at_least=1)
        self.shapes = ((features + int(spec.intercept),),)

    @property
    def classes(self) -> int | None:
        """Two, except for least squares, which takes real targets."""
        return None if self.spec.kind == "least-squares" else 2

    @property
    def has_constant_input(self) -> bool:
        """Where the model has an intercept."""
        return self.spec.intercept

    def init(self, rng: np.random.Generator) -> Array:
        """Draw Glorot weights for one output; the intercept starts at 0."""
        weights = np.zeros(self.parameters)
        weights[: self.features] = glorot(rng, self.features, 1, (self.features,))
        return weights

    def scores(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Inner products z = w.x."""
        return torch.bmm(X, params[0].transpose(1, 2))

    def losses(self, params: Params, X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Data loss from z and the label."""
        z, y = self.scores(params, X), y.unsqueeze(2)
        if self.spec.kind == "logistic":
            return binary_log_loss(z, y)
        if self.spec.kind == "least-squares":
            return 0.5 * (z - y) ** 2
        h = self.spec.huber_width
        gap = 1 - torch.where(y > 0.5, z, -z)
        rounded = (gap + h).clamp(min=0, max=2 * h) ** 2 / (4 * h)
        return rounded + (gap - h).clamp(min=0)

    def residual_(self, z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Overwrite z with psi = dl/dz; y broadcasts against it."""
        if self.spec.kind == "logistic":
            return z.sigmoid_().sub_(y)
        if self.spec.kind == "least-squares":
            return z.sub_(y)
        # With gap = 1 - s z, s = 2y - 1: psi = -s clamp((gap + h) / 2h, 0, 1).
        h, sign = self.spec.huber_width, 2 * y - 1
        return z.mul_(-sign).add_(1 + h).div_(2 * h).clamp_(0, 1).mul_(-sign)

    def add_gradient(
        self, target: Params, params: Params, X: torch.Tensor, y: torch.Tensor, update: Update
    ) -> None:
        """See `Objective.add_gradient`; two batched products and one elementwise pass."""
        keep, scale, clip, weight = update
        psi = self.residual_(torch.bmm(params[0], X.transpose(1, 2)), y.unsqueeze(1))
        if clip is not None:
            norms = torch.linalg.vector_norm(X, dim=2).clamp_(min=torch.finfo(X.dtype).tiny)
            most = (clip / norms).unsqueeze(1)
            psi.clamp_(min=-most, max=most)
        if weight is not None:
            psi.mul_(weight.unsqueeze(1))
        target[0].baddbmm_(psi, X, beta=keep, alpha=scale)
