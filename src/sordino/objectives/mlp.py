"""The papers' network: one hidden layer of relu units, one sigmoid output. Claims no constants.

All runs of a group share the first layer's product. The gradient of one example is a sum of two
outer products, so its norm is known without building it, and clipping costs one pass.
"""

from __future__ import annotations

import numpy as np
import torch

from sordino import _check
from sordino.objectives.batched import Array, Objective, Params, binary_log_loss, glorot
from sordino.objectives.objective import ObjectiveSpec


class Mlp(Objective):
    """z = v.relu(W x), with a constant feature in x and a constant unit in the hidden layer.

    Parameters of a run: W [hidden, features + 1] (its last column the biases), then v
    [hidden + 1] (its last entry the bias). 50 features and 10 units: 521 numbers.
    """

    def __init__(self, spec: ObjectiveSpec, features: int) -> None:
        self.spec = spec
        self.features = _check.whole("features", features, at_least=1)
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
        return self._output(params, self._units(params, X))

    def losses(self, params: Params, X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of the sigmoid output."""
        return binary_log_loss(self.scores(params, X), y.unsqueeze(2))

    def _units(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Hidden units after the relu, [group, example, run, unit]: one product a group."""
        first = params[0]
        product = torch.bmm(X, first.flatten(1, 2).transpose(1, 2))
        return torch.relu(product).view(*product.shape[:2], *first.shape[1:3])

    def _output(self, params: Params, units: torch.Tensor) -> torch.Tensor:
        hidden, bias = params[1][:, None, :, :-1], params[1][:, None, :, -1]
        return (units * hidden).sum(dim=3) + bias

    def add_gradient(
        self,
        target: Params,
        params: Params,
        X: torch.Tensor,
        y: torch.Tensor,
        *,
        keep: float,
        scale: float,
        clip: float | None = None,
        weight: torch.Tensor | None = None,
    ) -> None:
        """See `Objective.add_gradient`; written out, two large products and a few passes."""
        units = self._units(params, X)
        psi = self._output(params, units).sigmoid_().sub_(y.unsqueeze(2))
        back = (units > 0) * params[1][:, None, :, :-1]  # dz/d(pre-activation)
        if clip is not None:
            rows = X.square().sum(dim=2, keepdim=True)
            squared = rows * back.square().sum(dim=3) + units.square().sum(dim=3) + 1
            psi.mul_((clip / (psi.abs() * squared.sqrt())).clamp_(max=1))
        if weight is not None:
            psi.mul_(weight.unsqueeze(2))
        delta = back.mul_(psi.unsqueeze(3)).flatten(2)
        first, second = target
        second.mul_(keep)
        second[..., :-1].add_((units * psi.unsqueeze(3)).sum(dim=1), alpha=scale)
        second[..., -1].add_(psi.sum(dim=1), alpha=scale)
        first.flatten(1, 2).baddbmm_(delta.transpose(1, 2), X, beta=keep, alpha=scale)

    @property
    def width(self) -> int:
        """Hidden units: one number each."""
        return self.spec.hidden
