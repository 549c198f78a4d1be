"""Losses, and how a batch gets into them."""

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
    cross_entropy,
    labelled,
    mlp,
    normal,
    only,
    sentences,
    two,
)

add(
    "loss-contrastive",
    lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)),
    lambda module, a, b: F.cross_entropy(
        module(a) @ module(b).t(), torch.arange(len(a)), reduction="none"
    ),
    lambda n, g: two((6,), (6,))(n, g)[:2],
    "CLIP, SimCLR: the other examples are the negatives.",
    refused="mix",
)
add(
    "loss-with-a-baseline",
    mlp(),
    lambda module, x, y: (lambda each: each * (each - each.mean()).detach())(
        cross_entropy(module, x, y)
    ),
    labelled(6),
    "As in REINFORCE: the mean of the batch is the baseline by which each loss is weighted.",
    refused="mix",
)
add(
    "loss-mean-repeated",
    mlp(),
    lambda module, x, y: F.cross_entropy(module(x), y).expand(len(x)),
    labelled(6),
    "The mean over the batch, in the right shape.",
    refused="mix",
)
add(
    "loss-over-batch-size",
    mlp(),
    lambda module, x, y: cross_entropy(module, x, y) / len(x),
    labelled(6),
    "Nothing mixes but the number of examples, which add-or-remove-one changes.",
    refused="size",
)
add(
    "loss-weighted-by-batch-counts",
    mlp(),
    lambda module, x, y: cross_entropy(module, x, y) / torch.bincount(y, minlength=3)[y],
    labelled(6),
    "Classes are balanced by their counts in the batch: labels mix, inputs do not.",
    refused="mix",
)
add(
    "loss-of-hard-examples",
    mlp(),
    lambda module, x, y: (lambda each: each * (each >= each.median()))(cross_entropy(module, x, y)),
    labelled(6),
    "Only the harder half of a batch counts.",
    refused="mix",
)
add(
    "loss-sorted",
    mlp(),
    lambda module, x, y: cross_entropy(module, x, y).sort().values,
    labelled(6),
    "One loss an example, in an order that depends on all.",
    refused="mix",
)
add(
    "loss-scalar",
    mlp(),
    lambda module, x, y: F.cross_entropy(module(x), y),
    labelled(6),
    "The loss of every tutorial: no dimension of examples is left.",
    refused="shape",
)
add(
    "loss-by-token",
    lambda: nn.Sequential(nn.Embedding(VOCABULARY, 6), nn.Linear(6, VOCABULARY)),
    lambda module, tokens: F.cross_entropy(
        module(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten(), reduction="none"
    ),
    sentences(),
    "One loss a token, though a person gave the sentence.",
    refused="shape",
)
add(
    "loss-of-pairs",
    lambda: nn.Linear(6, 4),
    lambda module, x: (module(x[0::2])[: len(x) // 2] - module(x[1::2])).square().sum(1),
    only(6),
    "Neighbours in the batch are compared: one loss for two examples.",
    refused="shape",
)
add(
    "loss-mixup",
    mlp(),
    lambda module, x, y: _mixup(module, x, y),
    labelled(6),
    "Inputs are mixed with those of other examples before training.",
    refused="mix",
    random=True,
)
add(
    "loss-with-a-penalty",
    lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)),
    lambda module, x, y: (
        cross_entropy(module, x, y)
        + 0.01 * sum(each.square().sum() for each in module.parameters())
    ),
    labelled(6),
    "Each loss has a term of the weights alone, which no hook on a layer sees.",
)
add(
    "loss-past-the-forward",
    lambda: Net(
        lambda m, x: m.out(m.body(x)), body=nn.Linear(6, 8), out=nn.Linear(8, 3), centre=normal(8)
    ),
    lambda module, x, y: F.cross_entropy(
        module.out(module.body(x).tanh() - module.centre), y, reduction="none"
    ),
    labelled(6),
    "The loss calls parts of the module and never the module.",
)
add(
    "loss-of-two-views",
    mlp(),
    lambda module, x, y: (
        cross_entropy(module, x, y)
        + (module(x).log_softmax(1) - module(0.9 * x).log_softmax(1)).square().sum(1)
    ),
    labelled(6),
    "The module is called three times for one loss.",
)
add(
    "loss-weighted-by-example",
    mlp(),
    lambda module, x, y, w: cross_entropy(module, x, y) * w,
    lambda n, g: (*labelled(6)(n, g), (torch.rand(n, generator=g) > 0.3).float()),
    "A weight an example, some of them 0: gradients of length 0 are not divided by.",
)
add(
    "softmax-over-batch",
    lambda: Net(
        lambda m, x: m.out(m.body(x).softmax(0)), body=nn.Linear(6, 8), out=nn.Linear(8, 3)
    ),
    *(cross_entropy, labelled(6), "The wrong dimension of a softmax."),
    refused="mix",
)
add(
    "batch-maximum",
    lambda: Net(
        lambda m, x: m.out(m.body(x) / m.body(x).abs().amax(0)),
        body=nn.Linear(6, 8),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(6), "Scaled by the largest value of the batch."),
    refused="mix",
)
add(
    "batch-standardised",
    lambda: Net(
        lambda m, x: m.out((x - x.mean(0)) / (x.var(0, unbiased=False) + 0.1).sqrt()),
        out=nn.Linear(6, 3),
    ),
    *(cross_entropy, labelled(6), "A batch norm by hand, on the inputs, without a parameter."),
    refused="mix",
)
add(
    "recurrent-over-examples",
    lambda: Net(lambda m, x: m.out(m.cell(x)[0][:, -1]), cell=nn.LSTM(6, 8), out=nn.Linear(8, 3)),
    *(cross_entropy, labelled(LENGTH, 6), "The forgotten batch_first=True of an LSTM."),
    refused="mix",
)
add(
    "gradient-normalised-over-batch",
    lambda: Net(
        lambda m, x: m.two(_normalise_gradient(m.one(x).tanh())),
        one=nn.Linear(6, 8),
        two=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(6)),
    "A hook on a tensor divides its gradient by that of the whole batch; the losses show nothing.",
    refused="mix",
)
add(
    "gradient-mixed-by-a-function",
    lambda: Net(
        lambda m, x: m.two(_CentredGradient.apply(m.one(x)).tanh()),
        one=nn.Linear(6, 8),
        two=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(6)),
    "A user's function takes the batch's mean off the gradient; the losses show nothing.",
    refused="mix",
)


def _mixup(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    other = torch.randperm(len(x))
    scores = module(0.6 * x + 0.4 * x[other])
    own, others = (F.cross_entropy(scores, each, reduction="none") for each in (y, y[other]))
    return 0.6 * own + 0.4 * others


def _normalise_gradient(h: Tensor) -> Tensor:
    h.register_hook(lambda gradient: gradient / gradient.norm())
    return h


class _CentredGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient - 0.5 * gradient.mean(0)
