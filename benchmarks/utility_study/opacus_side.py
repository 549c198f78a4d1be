"""The oracle's training, done by Opacus: to see that it is the same as in our engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.types import Array


@dataclass(frozen=True)
class Setting:
    """DP-SGD of a linear layer: learning rate, steps, expected size of a batch, and the clip."""

    learning_rate: float
    steps: int
    batch_size: int
    max_grad_norm: float


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """What was fitted: one row of weights a class (one alone for two classes), constant last."""

    weights: Array

    def predict_proba(self, X: Array) -> Array:
        """Softmax of the scores; of one score, the logistic curve."""
        scores = _with_ones(X) @ self.weights.T
        if scores.shape[1] == 1:
            scores = np.column_stack([np.zeros(len(X)), scores])
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)


def _with_ones(X: Array) -> Array:
    return np.column_stack([X, np.ones(len(X))]).astype(np.float32)


def fitted(
    X: Array, y: Array, classes: int, given: Setting, noise_multiplier: float, seed: int
) -> LinearLayer:
    """Train from zero by Opacus's optimizer and Poisson loader."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rows = torch.from_numpy(_with_ones(X))
    outputs = classes if classes > 2 else 1
    labels = torch.from_numpy(y.astype(np.int64) if outputs > 1 else y.astype(np.float32)[:, None])
    layer: Any = torch.nn.Linear(rows.shape[1], outputs, bias=False)
    torch.nn.init.zeros_(layer.weight)
    loss = torch.nn.CrossEntropyLoss() if outputs > 1 else torch.nn.BCEWithLogitsLoss()
    layer, optimizer, loader = PrivacyEngine().make_private(
        module=layer,
        optimizer=torch.optim.SGD(layer.parameters(), lr=given.learning_rate),
        data_loader=DataLoader(TensorDataset(rows, labels), batch_size=given.batch_size),
        noise_multiplier=noise_multiplier,
        max_grad_norm=given.max_grad_norm,
    )
    done = 0
    while done < given.steps:
        for some, theirs in loader:
            if done == given.steps:
                break
            optimizer.zero_grad()
            loss(layer(some), theirs).backward()
            optimizer.step()
            done += 1
    return LinearLayer(layer._module.weight.detach().numpy().astype(np.float64))
