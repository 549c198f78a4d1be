"""Batches that are taken apart, and branches on data."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it
from torch import Tensor, nn

from zoo.parts import (
    VOCABULARY,
    Net,
    add,
    cross_entropy,
    given,
    labelled,
    normal,
    padded,
    two,
)

add(
    "siamese",
    lambda: Net(_distance, tower=nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))),
    given,
    lambda n, g: two((6,), (6,))(n, g)[:2],
    "One tower called on both inputs of an example.",
)
add(
    "siamese-joined",
    lambda: Net(_distance_joined, tower=nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))),
    given,
    lambda n, g: two((6,), (6,))(n, g)[:2],
    "Both inputs joined to a batch of twice the size.",
    may_refuse="a layer sees rows that are no examples",
)
add(
    "rows-sorted",
    lambda: Net(_sorted, one=nn.Linear(6, 8), two=nn.Linear(8, 3)),
    *(cross_entropy, labelled(6)),
    "A layer sees the examples in another order, as many as there are.",
    may_refuse="a layer sees the examples in another order",
)
add(
    "routed-by-index",
    lambda: Net(_routed, gate=nn.Linear(6, 2), a=nn.Linear(6, 3), b=nn.Linear(6, 3)),
    *(cross_entropy, labelled(6)),
    "A sparse mixture of experts: each layer sees only its examples, perhaps none.",
    may_refuse="which layer runs depends on the data",
)
add(
    "branch-by-example",
    lambda: Net(
        lambda m, x: torch.stack([(m.a if row.mean() > 0 else m.b)(row) for row in x]),
        a=nn.Linear(6, 3),
        b=nn.Linear(6, 3),
    ),
    *(cross_entropy, labelled(6)),
    "A loop in Python, a branch for each example; layers see single rows without a batch.",
    may_refuse="control flow by data",
)
add(
    "branch-by-where",
    lambda: Net(
        lambda m, x: torch.where(x.mean(1, keepdim=True) > 0, m.a(x), m.b(x)),
        a=nn.Linear(6, 3),
        b=nn.Linear(6, 3),
    ),
    *(cross_entropy, labelled(6), "The same branch as it should be written."),
)
add(
    "rows-one-by-one",
    lambda: Net(lambda m, x: torch.cat([m.body(row[None]) for row in x]), body=nn.Linear(6, 3)),
    *(cross_entropy, labelled(6), "Each example in a call of its own: as many calls as examples."),
    may_refuse="a layer sees rows that are no examples",
)
add(
    "branch-by-batch",
    lambda: Net(
        lambda m, x: (m.a if x.mean() > 0 else m.b)(x), a=nn.Linear(6, 3), b=nn.Linear(6, 3)
    ),
    *(cross_entropy, labelled(6), "The batch decides which layer all examples take."),
    refused="mix",
)
add(
    "branch-seldom",
    lambda: Net(
        lambda m, x: m.a(x / x.abs().max() if x.abs().max() > 100 else x), a=nn.Linear(6, 3)
    ),
    *(cross_entropy, labelled(6)),
    "The same, with a branch that plain inputs never take: to be seen in what is computed.",
    refused="control flow",
    beyond=labelled(6, scale=200.0),
)
add(
    "early-exit",
    lambda: Net(_early_exit, one=nn.Linear(6, 6), first=nn.Linear(6, 3), second=nn.Linear(6, 3)),
    *(cross_entropy, labelled(6), "The batch leaves early when its least certain example may."),
    refused="mix",
)
add(
    "iterates-until-all-converge",
    lambda: Net(_fixed_point, body=nn.Linear(6, 6), out=nn.Linear(6, 3)),
    *(
        cross_entropy,
        labelled(6),
        "Deep equilibrium: the slowest example sets the iterations of all.",
    ),
    refused="mix",
)
add(
    "pads-to-the-longest",
    lambda: Net(
        lambda m, x: m.out(m.embed(x[:, : int((x > 0).sum(1).max())]).mean(1)),
        embed=nn.Embedding(VOCABULARY, 6),
        out=nn.Linear(6, 3),
    ),
    *(
        cross_entropy,
        padded(),
        "The longest text of the batch decides over how much all are averaged.",
    ),
    refused="mix",
)
add(
    "trims-padding",
    lambda: Net(_trimmed, embed=nn.Embedding(VOCABULARY, 6, padding_idx=0), out=nn.Linear(6, 3)),
    *(cross_entropy, padded(), "Trims to the longest text, then counts words only: nothing mixes."),
    may_refuse="sizes depend on the data",
)
add(
    "place-in-batch",
    lambda: Net(
        lambda m, x: m.out(x + m.table[: len(x)]), table=normal(64, 6), out=nn.Linear(6, 3)
    ),
    *(cross_entropy, labelled(6)),
    "Adds a row by the place in the batch (a position embedding along the wrong dimension).",
    refused="place",
)


def _distance(m: Any, one: Tensor, other: Tensor) -> Tensor:
    return 1 - F.cosine_similarity(m.tower(one), m.tower(other))


def _distance_joined(m: Any, one: Tensor, other: Tensor) -> Tensor:
    a, b = m.tower(torch.cat([one, other])).chunk(2)
    return 1 - F.cosine_similarity(a, b)


def _sorted(m: Any, x: Tensor) -> Tensor:
    order = x[:, 0].argsort()
    return m.two(m.one(x[order])[order.argsort()].tanh())


def _routed(m: Any, x: Tensor) -> Tensor:
    weight, expert = m.gate(x).softmax(1).max(1)
    out = x.new_zeros(len(x), 3)
    for number, layer in enumerate([m.a, m.b]):
        rows = (expert == number).nonzero()[:, 0]
        out = out.index_add(0, rows, layer(x[rows]))
    return out * weight[:, None]


def _trimmed(m: Any, tokens: Tensor) -> Tensor:
    words = tokens[:, : int((tokens > 0).sum(1).max())]
    present = (words > 0)[:, :, None]
    return m.out((m.embed(words) * present).sum(1) / present.sum(1))


def _early_exit(m: Any, x: Tensor) -> Tensor:
    h = m.one(x).tanh()
    scores = m.first(h)
    if scores.softmax(1).amax(1).min() > 0.4:
        return scores
    return m.second(h)


def _fixed_point(m: Any, x: Tensor) -> Tensor:
    h = torch.zeros_like(x)
    for _ in range(20):
        before, h = h, 0.8 * m.body(h).tanh() + x
        if (h - before).norm(dim=1).max() < 0.3:
            break
    return m.out(h)
