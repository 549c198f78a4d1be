"""The four networks and batches for them; imports nothing but torch, since others' Pythons do too.

Inputs are drawn: how long a step takes does not depend on the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

LENGTH, VOCABULARY = 64, 1000
Batch = tuple[Tensor, Tensor]


class Transformer(nn.Module):
    """Encoder of four layers with learned positions, mean of the outputs, one linear layer."""

    def __init__(self, width: int = 128, layers: int = 4, heads: int = 4, inner: int = 512) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, heads, inner, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        # Every example looks its positions up itself, in memory of its own: Opacus wants an axis of
        # examples everywhere, and its ghost norms of embeddings no view of fewer numbers.
        places = torch.arange(x.shape[1], device=x.device).repeat(len(x), 1)
        return self.head(self.encoder(self.tokens(x) + self.positions(places)).mean(1))


class Lstm(nn.Module):
    """One layer; the last output goes to a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 64)
        self.lstm = nn.LSTM(64, 128, batch_first=True)
        self.head = nn.Linear(128, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.head(self.lstm(self.tokens(x))[0][:, -1])


def mlp() -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    )


def cnn(activation: type[nn.Module] = nn.ReLU) -> nn.Module:
    """The network of Opacus' MNIST example: 26,010 weights."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 8, 2, padding=3), activation(), nn.MaxPool2d(2, 1)),
        *(nn.Conv2d(16, 32, 4, 2), activation(), nn.MaxPool2d(2, 1)),
        *(nn.Flatten(), nn.Linear(512, 32), activation(), nn.Linear(32, 10)),
    )


@dataclass(frozen=True)
class Model:
    """A network and what it takes: `shape` of one example, real numbers or tokens."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    classes: int
    tokens: bool = False

    def module(self) -> nn.Module:
        """With the same initial weights each time."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.make()

    def batch(self, rows: int) -> Batch:
        """Inputs and labels, the same each time."""
        draws = torch.Generator().manual_seed(1)
        y = torch.randint(self.classes, (rows,), generator=draws)
        if self.tokens:
            return torch.randint(VOCABULARY, (rows, *self.shape), generator=draws), y
        return torch.randn(rows, *self.shape, generator=draws), y


MODELS = {
    "mlp": Model(mlp, (784,), 10),
    "cnn": Model(cnn, (1, 28, 28), 10),
    "transformer": Model(Transformer, (LENGTH,), 2, tokens=True),
    "lstm": Model(Lstm, (LENGTH,), 2, tokens=True),
}


def weights(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
