"""The CNN of Opacus' example on MNIST, private: accuracy and time (`networks.py --mnist`)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from network_study.models import Batch, cnn
from network_study.steps import of_module
from torch import nn

from sordino.data import load

EPSILON, DELTA = 3.0, 1e-5
# Bounded activations keep gradients small, so that less of them is clipped (Papernot et al., 2020).
ACTIVATION = nn.Tanh
BATCH_SIZE, EPOCHS, CLIP, RATE, MOMENTUM = 512, 6, 1.0, 0.3, 0.9


def measure(data_dir: Path | None) -> dict[str, float]:
    rows, held_out = images(data_dir)
    module = cnn(ACTIVATION)
    began = time.perf_counter()
    epsilon = train(module, rows)
    took = time.perf_counter() - began
    with torch.no_grad():
        right = module(held_out[0]).argmax(1) == held_out[1]
    return {
        "mnist_accuracy": right.double().mean().item(),
        "mnist_seconds": took,
        "mnist_epsilon": epsilon,
    }


def train(module: nn.Module, rows: Batch) -> float:
    """Private, in place; returns the epsilon spent. All that knows the interface here."""
    from sordino.networks import PrivateTrainer

    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)
    trainer = PrivateTrainer(
        *(module, optimizer, of_module, rows),
        epsilon=EPSILON,
        delta=DELTA,
        max_grad_norm=CLIP,
        sampling="allocation",
        batch_size=BATCH_SIZE,
        epochs=EPOCHS,
    )
    trainer.run()
    return trainer.guarantee().epsilon


def images(data_dir: Path | None) -> tuple[Batch, Batch]:
    """60,000 to train on and 10,000 to test: pixels between -1 and 1, whatever the data are."""
    splits = load("mnist", data_dir=data_dir)
    assert splits.validation is not None
    assert splits.test is not None
    rows = np.concatenate([splits.train.X, splits.validation.X])
    labels = np.concatenate([splits.train.y, splits.validation.y])
    return _tensors(rows, labels), _tensors(splits.test.X, splits.test.y)


def _tensors(X: Any, y: Any) -> Batch:
    return 2 * torch.tensor(X).view(-1, 1, 28, 28) - 1, torch.tensor(y)
