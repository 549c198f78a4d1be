"""Small private trainings, and noise that can be looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sordino.networks import PrivateTrainer

ROWS, COLUMNS = 40, 3


def entropy(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The usual loss of each example."""
    return cross_entropy(module(x), y, reduction="none")


def records(rows: int = ROWS, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Inputs and labels of two classes."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(rows, COLUMNS, generator=generator)
    return X, (X.sum(1) > 0).long()


def network(dtype: torch.dtype = torch.float32, seed: int = 0) -> nn.Module:
    """A small network that is the same for the same seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(COLUMNS, 4), nn.Tanh(), nn.Linear(4, 2)).to(dtype)


def training(
    module: nn.Module | None = None,
    *,
    optimizer: Any = None,
    losses: Any = entropy,
    data: Any = None,
    **how: Any,
) -> PrivateTrainer:
    """A trainer; by default of a small network on 40 records, 6 steps of 8."""
    module = network() if module is None else module
    if optimizer is None:
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    if not {"epsilon", "target"} & set(how):
        how = {"noise_multiplier": 1.0, **how}
    if "epochs" not in how:
        how = {"steps": 6, **how}
    if not {"sample_rate", "steps_per_epoch"} & set(how):
        how = {"batch_size": 8, **how}
    return PrivateTrainer(module, optimizer, losses, records() if data is None else data, **how)


def weights(module: nn.Module) -> Tensor:
    """All parameters, one after the other, as a copy."""
    return torch.cat([each.detach().flatten() for each in module.parameters()]).clone()


class Told:
    """Noise that is what it is told to be, and tells what was asked of it."""

    def __init__(self, values: float | None = 0.0) -> None:
        self.values = values
        self.scales: list[float] = []
        self.added: list[np.ndarray] = []

    def add_to(self, values: np.ndarray, scale: float) -> None:
        """Add `values`, or standard normals times the scale where that is None."""
        self.scales.append(scale)
        if self.values is None:
            made = scale * np.random.default_rng(len(self.scales)).standard_normal(values.shape)
        else:
            made = np.full(values.shape, self.values)
        self.added.append(made)
        values += made.astype(values.dtype)
