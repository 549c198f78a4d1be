"""The papers' network: one hidden layer of relu units, one sigmoid output. Claims no constants.

All runs of a group share the first layer's product. The gradient of one example is a sum of two
outer products, so its norm is known without building it, and clipping costs one pass.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from sordino import checks
from sordino.models.batched import (
    Objective,
    Params,
    Update,
    binary_log_loss,
    each_clip,
    glorot,
)
from sordino.models.constants import ObjectiveSpec
from sordino.models.kernels import mlp
from sordino.types import Array


class Mlp(Objective):
    """z = v.relu(W x), with a constant feature in x and a constant unit in the hidden layer.

    Parameters of a run: W [hidden, features + 1] (its last column the biases), then v
    [hidden + 1] (its last entry the bias). 50 features and 10 units: 521 numbers.
    """

    def __init__(self, spec: ObjectiveSpec, features: int) -> None:
        self.spec = spec
        self.features = checks.whole("features", features, at_least=1)
        self.shapes = ((spec.hidden, features + 1), (spec.hidden + 1,))

    def init(self, rng: np.random.Generator) -> Array:
        """Draw both layers Glorot uniform; biases start at 0."""
        hidden, features = self.spec.hidden, self.features
        first = np.zeros((hidden, features + 1))
        first[:, :features] = glorot(rng, features, hidden, (hidden, features))
        second = np.zeros(hidden + 1)
        second[:hidden] = glorot(rng, hidden, 1, (hidden,))
        return np.concatenate([first.ravel(), second])

    def scores(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Outputs before the sigmoid."""
        product = self._products(params, X)
        units = torch.relu(product).view(*product.shape[:2], *params[0].shape[1:3])
        hidden, bias = params[1][:, None, :, :-1], params[1][:, None, :, -1]
        return (units * hidden).sum(dim=3) + bias

    def losses(self, params: Params, X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of the sigmoid output."""
        return binary_log_loss(self.scores(params, X), y.unsqueeze(2))

    def _products(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Hidden units before the relu, [group, example, run x unit]."""
        return torch.bmm(X, params[0].flatten(1, 2).transpose(1, 2))

    def add_gradient(
        self, target: Params, params: Params, X: torch.Tensor, y: torch.Tensor, update: Update
    ) -> None:
        """See `Objective.add_gradient`; two large products, and one compiled pass between them."""
        keep, scale, clip, weight = update
        first, second = target
        units = self._products(params, X)
        gradient = torch.empty_like(params[1], memory_format=torch.contiguous_format)
        ones = torch.ones_like(y) if weight is None else weight.to(X.dtype)
        squares = ones if clip is None else X.square().sum(dim=2)
        scratch = np.empty((2, second.shape[1]), dtype=units.numpy().dtype)
        given = params[1], y.to(X.dtype), ones, squares
        v, labels, each, norms = (array.contiguous().numpy() for array in given)
        most = each_clip(math.inf if clip is None else clip, y)
        of = units.numpy(), v, labels, each, norms
        mlp.backward(*of, most, clip is not None, gradient.numpy(), *scratch)
        second.mul_(keep).add_(gradient, alpha=scale)
        first.flatten(1, 2).baddbmm_(units.transpose(1, 2), X, beta=keep, alpha=scale)

    @property
    def width(self) -> int:
        """Hidden units: one number each."""
        return self.spec.hidden
