"""Norms of an example, and of a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from zoo.parts import (
    LENGTH,
    Net,
    add,
    cross_entropy,
    labelled,
    mlp,
    normal,
)

add(
    "mlp-layernorm", mlp(lambda: nn.LayerNorm(8)), cross_entropy, labelled(6), "Norm of an example."
)
add(
    "mlp-groupnorm",
    *(mlp(lambda: nn.GroupNorm(2, 8)), cross_entropy, labelled(6)),
    "Norms of an example's groups of features.",
)
add("mlp-rmsnorm", mlp(lambda: nn.RMSNorm(8)), cross_entropy, labelled(6), "Norm without a centre.")
add(
    "mlp-batchnorm",
    *(mlp(lambda: nn.BatchNorm1d(8)), cross_entropy, labelled(6)),
    "The classic: every example moves all others, and the running statistics.",
    refused="BatchNorm",
)
add(
    "batchnorm-without-statistics",
    *(mlp(lambda: nn.BatchNorm1d(8, track_running_stats=False)), cross_entropy, labelled(6)),
    "No buffer changes, yet examples mix.",
    refused="BatchNorm",
)
add(
    "batchnorm-eval",
    lambda: _batchnorm_eval(train_affine=True),
    *(cross_entropy, labelled(6), "In eval mode it is a scale and a shift, which are trained."),
)
add(
    "batchnorm-frozen",
    lambda: _batchnorm_eval(train_affine=False),
    *(cross_entropy, labelled(6), "As in fine-tuning: statistics and affine part stand still."),
)
add(
    "batchnorm-train-on-frozen-base",
    lambda: _frozen_base_in_train_mode(),
    *(cross_entropy, labelled(6)),
    "The mistake of fine-tuning: no parameter of the norm is trained, but it is in train mode.",
    refused="BatchNorm",
)
add(
    "instancenorm1d",
    lambda: nn.Sequential(
        *(nn.Conv1d(2, 4, 3), nn.InstanceNorm1d(4, affine=True), nn.ReLU(), nn.Flatten()),
        nn.Linear(16, 3),
    ),
    *(cross_entropy, labelled(2, 6), "Implemented by torch as a batch norm over (1, n * c)."),
)
add(
    "instancenorm2d",
    lambda: nn.Sequential(
        *(nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.ReLU(), nn.Flatten()),
        nn.Linear(64, 3),
    ),
    *(cross_entropy, labelled(2, 6, 6), "The same on images."),
)
add(
    "instancenorm-tracking",
    lambda: nn.Sequential(
        nn.Conv1d(2, 4, 3),
        nn.InstanceNorm1d(4, affine=True, track_running_stats=True),
        *(nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)),
    ),
    *(cross_entropy, labelled(2, 6)),
    "Losses do not mix, but running statistics take the data into the released state.",
    refused="buffer",
)
add(
    "layernorm-of-images",
    lambda: nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.LayerNorm([3, 4, 4]), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3)
    ),
    *(cross_entropy, labelled(2, 6, 6), "A norm over three dimensions, its weight as large."),
)
add(
    "layernorm-of-sequences",
    lambda: Net(
        lambda m, x: m.out(m.norm(x).mean(1)), norm=nn.LayerNorm(6, bias=False), out=nn.Linear(6, 3)
    ),
    *(cross_entropy, labelled(LENGTH, 6), "Met LENGTH times; no bias."),
)
add(
    "norm-by-hand-in-float32",
    lambda: Net(_llama_norm, into=nn.Linear(6, 8), scale=1 + normal(8), out=nn.Linear(8, 3)),
    *(cross_entropy, labelled(6), "As in Llama: computes in float32 whatever its input is."),
    may_refuse="rounds to float32 inside, so that a comparison in float64 is coarser",
    tolerance=1e-5,
)


def _batchnorm_eval(train_affine: bool) -> nn.Module:
    layers = mlp(lambda: nn.BatchNorm1d(8))()
    norm = layers[1]
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    norm.eval().requires_grad_(train_affine)
    return layers


def _frozen_base_in_train_mode() -> nn.Module:
    layers = mlp(lambda: nn.BatchNorm1d(8))()
    layers.requires_grad_(False)
    layers[-1].requires_grad_(True)
    return layers


def _llama_norm(m: Any, x: Tensor) -> Tensor:
    h = m.into(x)
    wide = h.to(torch.float32)
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return m.out(m.scale * wide.to(h.dtype))
