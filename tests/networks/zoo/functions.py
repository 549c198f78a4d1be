"""Functions of torch that do not compose with one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zoo.parts import (
    Net,
    add,
    cross_entropy,
    labelled,
    normal,
    only,
    two_losses,
)


class _Cube(torch.autograd.Function):
    """A user's function with a gradient of its own and no rule for torch.func."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x.square() * gradient


class _OwnLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        return gradient @ w.t(), x.t() @ gradient


class _Reversed(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -0.5 * gradient


add(
    "function-without-rule",
    lambda: Net(
        lambda m, x: m.two(_Cube.apply(m.one(x))), one=nn.Linear(6, 8), two=nn.Linear(8, 3)
    ),
    *(cross_entropy, labelled(6), "torch.func refuses it; hooks on the layers do not need it."),
)
add(
    "function-of-a-parameter-without-rule",
    lambda: Net(
        lambda m, x: m.two(_OwnLinear.apply(x, m.w).tanh()), w=normal(6, 8), two=nn.Linear(8, 3)
    ),
    *(cross_entropy, labelled(6), "Only a loop over examples knows the gradient of w."),
    may_refuse="torch.func has no rule for it",
)
add(
    "gradient-reversal",
    lambda: Net(
        lambda m, x: {
            "class": m.one(m.body(x).tanh()),
            "value": m.two(_Reversed.apply(m.body(x).tanh())),
        },
        body=nn.Linear(6, 8),
        one=nn.Linear(8, 3),
        two=nn.Linear(8, 1),
    ),
    lambda module, x, y: two_losses(module(x), x, y),
    labelled(6),
    "Domain adversarial training: the backward pass is not the forward pass's.",
)
add(
    "checkpointed",
    lambda: Net(
        lambda m, x: m.out(checkpoint(m.body, m.into(x), use_reentrant=False)),
        into=nn.Linear(6, 8),
        body=nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(6), "The forward pass runs again in the backward pass: hooks twice."),
    may_refuse="gradient checkpointing",
)
add(
    "input-gradient-in-the-loss",
    lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)),
    lambda module, x: _physics(module, x),
    only(6),
    "A physics-informed loss: derivatives of the output, so layers are derived twice.",
    may_refuse="second derivatives",
)
add(
    "adversarial-training",
    lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)),
    lambda module, x, y: _adversarial(module, x, y),
    labelled(6),
    "Each example is moved by its own gradient first: two passes, the first for other reasons.",
    may_refuse="a backward pass inside the losses",
)
add(
    "numpy-inside",
    lambda: Net(
        lambda m, x: m.out(torch.cat([x, torch.from_numpy(np.sort(x.detach().numpy(), 1))], 1)),
        out=nn.Linear(12, 3),
    ),
    *(cross_entropy, labelled(6), "Features by numpy, example by example."),
    may_refuse="leaves torch",
)


def _physics(module: nn.Module, x: Tensor) -> Tensor:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        value = module(x)[:, 0]
        (slope,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    return (slope.square().sum(1) - 1).square() + value.square()


def _adversarial(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(F.cross_entropy(module(x), y, reduction="sum"), x)
    return F.cross_entropy(module(x.detach() + 0.1 * slope.sign()), y, reduction="none")
