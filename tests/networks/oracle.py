"""Gradients of single examples by the plainest loop there is, and their clipped sum.

It shares no code with the engine that it judges: a backward pass for each example, plain clipping.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

Losses = Callable[..., Tensor]
Gradients = dict[str, Tensor]
Clipping = Literal["flat", "per-layer", "automatic"]


def single_gradients(
    module: nn.Module, losses: Losses, batch: tuple[Tensor, ...], seed: int | None = None
) -> Gradients:
    """Return the gradient of each example's loss, examples first, by name of the parameter.

    Every example meets the module in the state in which it is now, which is left as it was. With a
    `seed`, all examples go through the module together, from that seed again for each, and one loss
    is derived: the gradients for fixed randomness, right only where examples do not mix.
    """
    named = trained(module)
    gradients: Gradients = {
        name: value.new_zeros(len(batch[0]), *value.shape).detach() for name, value in named.items()
    }
    for place in range(len(batch[0])):
        with unchanged(module):
            if seed is None:
                loss = losses(module, *(each[place : place + 1].clone() for each in batch))
                (single,) = loss  # one example, one loss
            else:
                torch.manual_seed(seed)
                single = losses(module, *(each.clone() for each in batch))[place]
            found = torch.autograd.grad(single, list(named.values()), allow_unused=True)
        for name, gradient in zip(named, found, strict=True):
            if gradient is not None:
                gradients[name][place] = gradient.to_dense()
    return gradients


def trained(module: nn.Module) -> dict[str, Tensor]:
    """Return the parameters that are trained, shared ones once, under their first name."""
    return {name: value for name, value in module.named_parameters() if value.requires_grad}


def norms(single: Gradients) -> Tensor:
    """Return the Euclidean norm of each example's gradient over all parameters."""
    rows = [each.abs().reshape(len(each), -1) for each in single.values()]  # numbers, too
    return torch.stack([(each**2).sum(1) for each in rows]).sum(0).sqrt()


def clipped_sum(single: Gradients, kind: Clipping, max_norm: float) -> Gradients:
    """Return the sum over examples of the clipped gradients.

    "per-layer" clips the parameters that one module owns together, each of the L groups to
    max_norm / sqrt(L); "automatic" scales every gradient to max_norm / (norm + 0.01).
    """
    if kind == "per-layer":
        layers: dict[str, Gradients] = {}
        for name, each in single.items():
            layers.setdefault(name.rpartition(".")[0], {})[name] = each
        share = max_norm / math.sqrt(len(layers))
        return {
            name: total
            for layer in layers.values()
            for name, total in clipped_sum(layer, "flat", share).items()
        }
    length = norms(single)
    if kind == "automatic":
        factors = max_norm / (length + 0.01)
    else:
        # A gradient of length 0 keeps the factor 1.
        factors = torch.where(length > max_norm, max_norm / length, torch.ones_like(length))
    return {
        name: torch.einsum("n,n...->...", factors.to(each.dtype), each)
        for name, each in single.items()
    }


@contextmanager
def unchanged(module: nn.Module) -> Iterator[None]:
    """Put parameters and buffers back: the same tensors with the values that they had."""
    buffers = [
        (owner, name, each)
        for owner in module.modules()
        for name, each in owner.named_buffers(recurse=False)
    ]
    tensors = [*module.parameters(), *(each for _, _, each in buffers)]
    before = [each.detach().clone() for each in tensors]
    try:
        yield
    finally:
        for owner, name, each in buffers:
            setattr(owner, name, each)
        with torch.no_grad():
            for each, value in zip(tensors, before, strict=True):
                if not torch.equal(each, value):
                    each.copy_(value)
