"""Softmax regression: one convex model of several classes, weights [class, column].

With scores z = W x and probabilities p = softmax(z), the gradient of one example is the outer
product (p - e_y) x', whose norm is |p - e_y| |x|. So clipping needs no single gradient: it scales
the coefficients p - e_y, and the clipped sum is one product.

A gradient that is really clipped is not monotone in W, unlike that of a linear model
(docs/math.md, 4.6): theorems on convex losses then do not apply, and `proofs` refuses them.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from sordino import checks
from sordino.models.batched import Objective, Params, Update, glorot
from sordino.models.constants import ObjectiveSpec
from sordino.types import Array

_NEAR, _FEWEST = 1 << 17, 32
"""Numbers of the rows taken at a time, and of their coefficients: they stay in the cache from the
scores to the gradients. And rows at least."""


class Softmax(Objective):
    """loss(W; x, y) = ln sum_k exp(w_k.x) - w_y.x, the intercept, if any, as a last feature 1."""

    def __init__(self, spec: ObjectiveSpec, features: int) -> None:
        self.spec = spec
        self.features = checks.whole("features", features, at_least=1)
        self.shapes = ((spec.classes, features + int(spec.intercept)),)

    @property
    def classes(self) -> int:
        """As many as there are scores."""
        return self.spec.classes

    @property
    def has_constant_input(self) -> bool:
        """Where the model has an intercept."""
        return self.spec.intercept

    def init(self, rng: np.random.Generator) -> Array:
        """Draw Glorot weights; the intercepts start at 0."""
        weights = np.zeros(self.shapes[0])
        shape = (self.classes, self.features)
        weights[:, : self.features] = glorot(rng, self.features, self.classes, shape)
        return weights.ravel()

    def scores(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Inner products z, [group, example, run, class]."""
        # This way round: with few classes BLAS is nearly twice as fast.
        flat = torch.bmm(params[0].flatten(1, 2), X.transpose(1, 2)).transpose(1, 2)
        return flat.reshape(*X.shape[:2], -1, self.classes)

    def losses(self, params: Params, X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Cross-entropy."""
        z = self.scores(params, X)
        labels = y.long()[:, :, None, None].expand(*z.shape[:3], 1)
        return -functional.log_softmax(z, dim=3).gather(3, labels).squeeze(3)

    def coefficients(
        self,
        params: Params,
        X: torch.Tensor,
        y: torch.Tensor,
        clip: float | torch.Tensor | None,
        norms: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Give p - e_y of every example and run, scaled down where |p - e_y| |x| is above `clip`.

        [group, example, run, class]; `norms` [group, example] are those of the rows, if known, and
        so may be `clip`.
        """
        z = self.scores(params, X)
        # softmax takes the largest score off first: nothing overflows.
        c = torch.softmax(z, dim=3)
        labels = y.long()[:, :, None, None].expand(*c.shape[:3], 1)
        c.scatter_add_(3, labels, torch.full_like(labels, -1, dtype=c.dtype))
        if clip is not None:
            norms = torch.linalg.vector_norm(X, dim=2) if norms is None else norms
            lengths = torch.linalg.vector_norm(c, dim=3, keepdim=True)
            lengths.mul_(norms[:, :, None, None]).clamp_(min=torch.finfo(c.dtype).tiny)
            most = clip[:, :, None, None] if isinstance(clip, torch.Tensor) else clip
            c.mul_((most / lengths).clamp_(max=1))
        return c

    def add_gradient(
        self, target: Params, params: Params, X: torch.Tensor, y: torch.Tensor, update: Update
    ) -> None:
        """See `Objective.add_gradient`; two products for some rows at a time."""
        keep, scale, clip, weight = update
        gradient = torch.zeros_like(params[0], memory_format=torch.contiguous_format)
        for piece in self.pieces_of(X, params[0].shape[:2].numel()):
            rows = X[:, piece]
            most = clip[:, piece] if isinstance(clip, torch.Tensor) else clip
            c = self.coefficients(params, rows, y[:, piece], most)
            if weight is not None:
                c.mul_(weight[:, piece, None, None])
            gradient.flatten(1, 2).baddbmm_(c.flatten(2).transpose(1, 2), rows)
        target[0].mul_(keep).add_(gradient, alpha=scale)

    def pieces_of(self, X: torch.Tensor, runs: int) -> list[slice]:
        """Rows of X [..., example, input], some at a time: few where runs are many."""
        size = max(_FEWEST, _NEAR // (X.shape[-1] + 2 * runs * self.classes))
        return [slice(start, start + size) for start in range(0, X.shape[-2], size)]

    def most_numbers(self, runs: int) -> int:
        """Numbers of one piece and of its coefficients, at most."""
        return max(_NEAR, _FEWEST * (self.shapes[0][1] + 2 * runs * self.classes))

    def step_numbers(self, groups: int, runs: int, batch: int) -> int:
        """Inputs, gradients, and a few arrays the size of a piece's coefficients."""
        inputs, numbers = self.shapes[0][1], groups * runs * self.parameters
        return groups * batch * inputs + 2 * numbers + 6 * self.most_numbers(groups * runs)

    @property
    def width(self) -> int:
        """One number a class."""
        return self.classes
