"""Modules that draw random numbers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it
from torch import Tensor, nn

from zoo.parts import (
    LENGTH,
    Net,
    add,
    cross_entropy,
    given,
    labelled,
    normal,
    only,
    texts,
)
from zoo.recurrent import Recurrent

add(
    "dropout",
    lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)),
    *(cross_entropy, labelled(6), "A mask an example."),
    random=True,
)
add(
    "dropout-of-channels",
    lambda: nn.Sequential(
        *(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(64, 3)),
    ),
    *(cross_entropy, labelled(2, 6, 6), "Whole channels of an example."),
    random=True,
)
add(
    "dropout-shared",
    lambda: Net(_shared_dropout, one=nn.Linear(6, 8), two=nn.Linear(8, 3)),
    *(cross_entropy, labelled(6)),
    "One mask for the batch: public randomness that all share mixes nothing, so it is right.",
    random=True,
)
add(
    "lstm-dropout",
    lambda: Recurrent(nn.LSTM(6, 8, num_layers=2, dropout=0.3, batch_first=True), 8),
    *(cross_entropy, texts(), "Dropout inside the call into torch."),
    random=True,
)
add(
    "attention-dropout",
    lambda: Net(
        lambda m, x: m.out(m.layer(x).mean(1)),
        layer=nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(LENGTH, 8), "torch's layer as it comes, dropout in three places."),
    random=True,
)
add(
    "stochastic-depth",
    lambda: Net(
        lambda m, x: m.out(x + m.body(x).tanh() * (torch.rand(len(x), 1) < 0.7)),
        body=nn.Linear(6, 6),
        out=nn.Linear(6, 3),
    ),
    *(cross_entropy, labelled(6), "A block is dropped for some examples."),
    random=True,
)
add(
    "layer-drop",
    lambda: Net(
        lambda m, x: m.out(x + m.body(x).tanh() if torch.rand(()) < 0.7 else x),
        body=nn.Linear(6, 6),
        out=nn.Linear(6, 3),
    ),
    *(cross_entropy, labelled(6)),
    "A coin, not the data, decides for the whole batch whether a layer runs.",
    may_refuse="control flow by a random number",
    random=True,
)
add(
    "variational-autoencoder",
    lambda: Net(_variational, into=nn.Linear(6, 8), out=nn.Linear(4, 6)),
    *(given, only(6), "Noise in the middle; the module returns its losses."),
    random=True,
)
add(
    "noisy-weights",
    lambda: Net(
        lambda m, x: m.body(x) + F.linear(x, m.spread * torch.randn(3, 6).to(x)),
        body=nn.Linear(6, 3),
        spread=normal(3, 6),
    ),
    *(cross_entropy, labelled(6), "NoisyNet: noise on the weights, one draw for all examples."),
    random=True,
)


def _shared_dropout(m: Any, x: Tensor) -> Tensor:
    h = m.one(x).relu()
    return m.two(h * (torch.rand(1, h.shape[1]) < 0.5) * 2)


def _variational(m: Any, x: Tensor) -> Tensor:
    mean, log_variance = m.into(x).chunk(2, 1)
    code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
    apart = (mean.square() + log_variance.exp() - log_variance - 1).sum(1) / 2
    return (m.out(code) - x).square().sum(1) + 0.1 * apart
