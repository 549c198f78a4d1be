"""Attention, and other networks on sets."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it
from torch import Tensor, nn

from zoo.parts import (
    CLASSES,
    LENGTH,
    VOCABULARY,
    Net,
    add,
    cross_entropy,
    labelled,
    next_token,
    normal,
    padded,
    sentences,
    two,
)


def encoder_layer(**how: Any) -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **how)


class _TiedTransformer(nn.Module):
    """A language model whose output projection is its embedding."""

    def __init__(self, batch_first: bool, steps_first: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 8)
        self.place = nn.Parameter(normal(LENGTH, 8))
        self.layers = nn.ModuleList(encoder_layer(batch_first=batch_first) for _ in range(2))
        self.steps_first = steps_first

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.place
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        x = x.transpose(0, 1) if self.steps_first else x
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        return F.linear(x.transpose(0, 1) if self.steps_first else x, self.embed.weight)


add(
    "transformer-tied",
    lambda: _TiedTransformer(batch_first=True, steps_first=False),
    *(
        next_token,
        sentences(),
        "Embedding and output share a weight; a position parameter; a mask.",
    ),
)
add(
    "transformer-steps-first",
    lambda: _TiedTransformer(batch_first=False, steps_first=True),
    *(next_token, sentences(), "Transposed inside to (steps, examples, features), both 5."),
)
add(
    "transformer-attends-over-examples",
    lambda: Net(lambda m, x: m.out(m.layer(x).mean(1)), layer=encoder_layer(), out=nn.Linear(8, 3)),
    *(cross_entropy, labelled(LENGTH, 8)),
    "The forgotten batch_first=True: attention goes from example to example.",
    refused="mix",
)
add(
    "transformer-norm-first-padding",
    lambda: Net(
        _attend_to_words,
        embed=nn.Embedding(VOCABULARY, 8, padding_idx=0),
        layer=encoder_layer(batch_first=True, norm_first=True, activation="gelu"),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, padded(), "A mask over padding that differs from example to example."),
)
add(
    "transformer-encoder-decoder",
    lambda: Net(
        lambda m, x, z: m.out(m.body(x, z).mean(1)),
        body=nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True),
        out=nn.Linear(8, 3),
    ),
    *(
        cross_entropy,
        two((LENGTH, 8), (4, 8)),
        "torch's whole transformer: two stacks, cross attention.",
    ),
)
add(
    "cross-attention",
    lambda: Net(
        lambda m, q, kv: m.out(m.attend(q, kv, kv.flip(1))[0].mean(1)),
        attend=nn.MultiheadAttention(8, 2, kdim=6, vdim=6, add_bias_kv=True, batch_first=True),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, two((4, 8), (LENGTH, 6)), "Query, key and value differ in source and size."),
)
add(
    "attention-by-hand",
    lambda: Net(_own_attention, qkv=nn.Linear(8, 24, bias=False), out=nn.Linear(8, 3)),
    *(cross_entropy, labelled(LENGTH, 8), "As in nanoGPT: one projection, torch's scaled product."),
)
add(
    "attention-with-a-learned-query",
    lambda: Net(
        lambda m, x: m.out(m.attend(m.query.expand(len(x), 1, 8), x, x)[0][:, 0]),
        attend=nn.MultiheadAttention(8, 2, batch_first=True),
        query=normal(1, 1, 8),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(LENGTH, 8), "The query is a parameter, expanded over the batch."),
)
add("vit", lambda: _ViT(), cross_entropy, labelled(1, 8, 8), "Class token, positions, patches.")
add(
    "mlp-mixer",
    lambda: Net(
        lambda m, x: _mixer(m, x),
        norm=nn.LayerNorm(6),
        over_tokens=nn.Linear(LENGTH, LENGTH),
        over_channels=nn.Linear(6, 6),
        out=nn.Linear(6, 3),
    ),
    *(
        cross_entropy,
        labelled(LENGTH, 6),
        "Layers over tokens and over channels; examples stay first.",
    ),
)
add(
    "set-network",
    lambda: Net(
        lambda m, x: m.out(m.each(x).relu().amax(1) + m.each(x).relu().sum(1)),
        each=nn.Linear(3, 8),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(7, 3), "PointNet: one layer at each point, pooled two ways."),
)
add(
    "graph-network",
    lambda: Net(
        lambda m, x, links: m.out((links.softmax(2) @ m.near(x).relu() + m.own(x)).mean(1)),
        near=nn.Linear(3, 8),
        own=nn.Linear(3, 8),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, two((LENGTH, 3), (LENGTH, LENGTH)), "A graph an example, as a dense matrix."),
)


def _attend_to_words(m: Any, tokens: Tensor) -> Tensor:
    h = m.layer(m.embed(tokens), src_key_padding_mask=tokens == 0)
    return m.out(h[:, 0])


def _own_attention(m: Any, x: Tensor) -> Tensor:
    q, k, v = (each.unflatten(2, (2, 4)).transpose(1, 2) for each in m.qkv(x).split(8, dim=2))
    h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return m.out(h.transpose(1, 2).flatten(2).mean(1))


class _ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 8, 4, stride=4)
        self.token = nn.Parameter(normal(1, 1, 8))
        self.place = nn.Parameter(normal(1, 5, 8))
        self.body = nn.TransformerEncoder(
            encoder_layer(batch_first=True, norm_first=True), 2, enable_nested_tensor=False
        )
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), patches], 1) + self.place
        return self.head(self.norm(self.body(tokens))[:, 0])


def _mixer(m: Any, x: Tensor) -> Tensor:
    x = x + m.over_tokens(m.norm(x).transpose(1, 2)).relu().transpose(1, 2)
    x = x + m.over_channels(m.norm(x)).relu()
    return m.out(x.mean(1))
