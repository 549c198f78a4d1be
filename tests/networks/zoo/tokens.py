"""Embeddings."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it
from torch import Tensor, nn

from zoo.parts import (
    LENGTH,
    VOCABULARY,
    Net,
    add,
    bag_of,
    cross_entropy,
    given,
    labelled,
    next_token,
    normal,
    padded,
    sentences,
    texts,
)


def _flat_bags(m: Any, tokens: Tensor) -> Tensor:
    starts = torch.arange(0, tokens.numel(), tokens.shape[1])
    return m.out(m.embed(tokens.flatten(), starts).tanh())


add(
    "tied-language-model",
    lambda: Net(
        lambda m, x: F.linear(m.body(m.embed(x)).tanh(), m.embed.weight),
        embed=nn.Embedding(VOCABULARY, 6),
        body=nn.Linear(6, 6),
    ),
    *(next_token, sentences(), "The embedding's weight projects the output, outside its layer."),
)
add(
    "tied-language-model-by-layer",
    lambda: _tied_head(
        nn.Sequential(nn.Embedding(VOCABULARY, 6), nn.Tanh(), nn.Linear(6, VOCABULARY))
    ),
    *(next_token, sentences(), "The same by `head.weight = embed.weight`."),
)
add(
    "embedding-padding",
    bag_of(lambda: nn.Embedding(VOCABULARY, 6, padding_idx=0)),
    *(cross_entropy, padded(), "Row 0 gets no gradient."),
)
add(
    "embedding-max-norm",
    bag_of(lambda: nn.Embedding(VOCABULARY, 6, max_norm=1.0)),
    *(cross_entropy, texts()),
    "The forward pass shortens the rows that the batch looks up: weights change without noise.",
    refused="max_norm",
)
add(
    "embedding-scaled-by-frequency",
    bag_of(lambda: nn.Embedding(VOCABULARY, 6, scale_grad_by_freq=True)),
    *(cross_entropy, texts()),
    "The gradient is divided by counts of the batch; the losses show nothing.",
    refused="scale_grad_by_freq",
)
add(
    "embedding-sparse",
    bag_of(lambda: nn.Embedding(VOCABULARY, 6, sparse=True)),
    *(cross_entropy, texts(), "Gradients come as sparse tensors; which rows is itself private."),
    may_refuse="sparse gradients",
)
add(
    "embedding-bag",
    lambda: nn.Sequential(nn.EmbeddingBag(VOCABULARY, 6, mode="mean"), nn.Linear(6, 3)),
    *(cross_entropy, texts(), "A bag an example."),
)
add(
    "embedding-bag-flat",
    lambda: Net(_flat_bags, embed=nn.EmbeddingBag(VOCABULARY, 6, mode="sum"), out=nn.Linear(6, 3)),
    *(cross_entropy, texts(), "All tokens in one row, with the starts of the bags."),
    may_refuse="a layer sees rows that are no examples",
)
add(
    "embedding-of-folded-tokens",
    lambda: Net(
        lambda m, x: m.out(m.embed(x.flatten()).view(*x.shape, 6).mean(1)),
        embed=nn.Embedding(VOCABULARY, 6),
        out=nn.Linear(6, 3),
    ),
    *(cross_entropy, texts(), "Tokens of all examples in one row."),
    may_refuse="a layer sees rows that are no examples",
)
add(
    "position-embedding",
    lambda: Net(
        lambda m, x: m.out((m.embed(x) + m.place(torch.arange(x.shape[1]))).tanh().mean(1)),
        embed=nn.Embedding(VOCABULARY, 6),
        place=nn.Embedding(LENGTH, 6),
        out=nn.Linear(6, 3),
    ),
    *(cross_entropy, texts(), "As in GPT-2: an embedding looked up at 0..4, without examples."),
)
add(
    "parameter-indexed",
    lambda: Net(
        lambda m, x: m.out(m.table[x].mean(1).tanh()),
        table=normal(VOCABULARY, 6),
        out=nn.Linear(6, 3),
    ),
    *(cross_entropy, texts(), "A table of a parameter, without a layer."),
)
add(
    "factorisation-recommender",
    lambda: Net(
        lambda m, x: (m.user(x[:, 0]) * m.item(x[:, 1])).sum(1) + m.about(x[:, 1])[:, 0],
        user=nn.Embedding(VOCABULARY, 4),
        item=nn.Embedding(VOCABULARY, 4),
        about=nn.Embedding(VOCABULARY, 1),
    ),
    lambda module, x, y: (module(x) - y).square(),
    lambda n, g: (texts(2)(n, g)[0], torch.randn(n, generator=g)),
    "One token an example and layer; users' and items' rows are multiplied.",
)
add(
    "adaptive-softmax",
    lambda: Net(
        lambda m, x, y: -m.out(m.body(x).tanh(), y).output,
        body=nn.Linear(6, 8),
        out=nn.AdaptiveLogSoftmaxWithLoss(8, VOCABULARY, [3, 7], div_value=2),
    ),
    *(given, labelled(6, classes=VOCABULARY)),
    "Layers see only those examples whose label is in their cluster.",
    may_refuse="which layer runs depends on the data",
)


def _tied_head(layers: nn.Sequential) -> nn.Sequential:
    layers[2].weight = layers[0].weight
    return layers
