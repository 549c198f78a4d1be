"""Parameters without a layer, made from others, or frozen."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune

from zoo.parts import (
    LENGTH,
    VOCABULARY,
    Net,
    add,
    bag_of,
    cross_entropy,
    given,
    labelled,
    mlp,
    normal,
    only,
    texts,
)

# Parameters used without a layer


add(
    "matmul",
    lambda: Net(
        lambda m, x: (x @ m.w + m.b).tanh() @ m.v, w=normal(6, 8), b=normal(8), v=normal(8, 3)
    ),
    *(cross_entropy, labelled(6), "An MLP without a layer."),
)
add(
    "einsum",
    lambda: Net(
        lambda m, x: torch.einsum("bi,ij,jk->bk", x, m.w, m.v), w=normal(6, 8), v=normal(8, 3)
    ),
    *(cross_entropy, labelled(6), "The same in one einsum."),
)
add(
    "parameter-list",
    lambda: Net(
        lambda m, x: (x @ m.ws[0]).relu() @ m.ws[1] + m.by["bias"],
        ws=nn.ParameterList([normal(6, 8), normal(8, 3)]),
        by=nn.ParameterDict({"bias": nn.Parameter(normal(3))}),
    ),
    *(cross_entropy, labelled(6), "Parameters in torch's containers."),
)
add(
    "radial-basis",
    lambda: Net(
        lambda m, x: m.out((-(torch.cdist(x, m.centres) ** 2) * m.width.exp()).exp()),
        centres=normal(LENGTH, 6),
        width=normal(LENGTH) - 2,
        out=nn.Linear(LENGTH, 3),
    ),
    *(cross_entropy, labelled(6), "Distances to as many centres as there are examples."),
)
add(
    "fourier-mixing",
    lambda: Net(
        lambda m, x: m.out((torch.fft.fft2(x).real + m.mix(x)).tanh().mean(1)),
        mix=nn.Linear(6, 6),
        out=nn.Linear(6, 3),
    ),
    *(cross_entropy, labelled(LENGTH, 6), "FNet: a Fourier transform over steps and features."),
)
add(
    "fourier-layer",
    lambda: Net(_spectral, w=normal(3, 2, 2, 2), out=nn.Linear(16, 3)),
    *(cross_entropy, labelled(2, 8), "A weight in frequencies, complex by two real numbers."),
)
add(
    "complex-parameter",
    lambda: Net(
        lambda m, x: m.out((x.to(m.w.dtype) @ m.w).abs()),
        w=torch.randn(6, 8, dtype=torch.cfloat),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(6), "Complex weights need complex noise."),
    may_refuse="complex parameters",
)
add(
    "codebook",
    lambda: Net(_quantised, into=nn.Linear(6, 4), codes=normal(7, 4), out=nn.Linear(4, 6)),
    *(given, only(6), "A vector quantiser: nearest code, gradient straight through, three losses."),
)


def _spectral(m: Any, x: Tensor) -> Tensor:
    low = torch.fft.rfft(x)[:, :, :3]
    out = torch.einsum("nif,fio->nof", low, torch.view_as_complex(m.w))
    return m.out(torch.fft.irfft(out, 8).flatten(1).tanh())


def _quantised(m: Any, x: Tensor) -> Tensor:
    h = m.into(x)
    code = m.codes[torch.cdist(h, m.codes).argmin(1)]
    back = m.out(h + (code - h).detach())
    to_code, to_input = (code - h.detach()).square().sum(1), (h - code.detach()).square().sum(1)
    return (back - x).square().sum(1) + to_code + 0.25 * to_input


# Weights made from weights


def parametrized(how: Callable[[nn.Module], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(how(nn.Linear(6, 6)), nn.Tanh(), how(nn.Linear(6, 3)))


add(
    "weight-norm",
    parametrized(parametrizations.weight_norm),
    *(cross_entropy, labelled(6), "A Linear layer by its class whose weight is no parameter."),
)
add(
    "weight-norm-old",
    parametrized(lambda layer: _old_weight_norm(layer)),
    *(cross_entropy, labelled(6), "The old form: a hook sets the weight before each call."),
)
add(
    "orthogonal",
    parametrized(parametrizations.orthogonal),
    *(cross_entropy, labelled(6), "The weight is a matrix exponential or a Householder product."),
    may_refuse="the function of the weight may know no torch.func",
)
add(
    "spectral-norm-eval",
    parametrized(lambda layer: _still(parametrizations.spectral_norm(layer))),
    *(cross_entropy, labelled(6), "In eval mode the vectors of its power iteration stand still."),
)
add(
    "spectral-norm",
    parametrized(parametrizations.spectral_norm),
    *(cross_entropy, labelled(6)),
    "Buffers move at each call, from the weight alone and never from data: private either way.",
    may_refuse="its buffers move at every call",
)
add(
    "parametrize-by-hand",
    parametrized(lambda layer: _registered(layer)),
    *(cross_entropy, labelled(6), "A user's own function of the weight."),
)
add(
    "pruned",
    parametrized(lambda layer: prune.random_unstructured(layer, "weight", 0.4)),
    *(cross_entropy, labelled(6), "A mask in a buffer times weight_orig."),
)
add(
    "binary-weights",
    lambda: nn.Sequential(_BinaryLinear(6, 8), nn.Tanh(), _BinaryLinear(8, 3)),
    *(cross_entropy, labelled(6), "Signs of the weights, gradient straight through."),
)


def _old_weight_norm(layer: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # deprecated, and everywhere
        return nn.utils.weight_norm(layer)


def _still(layer: nn.Module) -> nn.Module:
    for _ in range(3):
        layer(torch.zeros(1, layer.in_features))
    return layer.eval()


class _Symmetric(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight - weight.mean() + weight.flip(1)


def _registered(layer: nn.Module) -> nn.Module:
    parametrize.register_parametrization(layer, "weight", _Symmetric())
    return layer


class _BinaryLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        sign = self.weight + (self.weight.sign() * 0.3 - self.weight).detach()
        return F.linear(x, sign, self.bias)


# Frozen parts


class _LowRank(nn.Module):
    """A frozen layer and a trained correction of low rank."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, 2, bias=False)
        self.up = nn.Linear(2, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + 0.5 * self.up(self.down(x))


add(
    "lora",
    lambda: nn.Sequential(_LowRank(nn.Linear(6, 8)), nn.ReLU(), _LowRank(nn.Linear(8, 3))),
    *(
        cross_entropy,
        labelled(6),
        "Low rank beside frozen layers, through which gradients still go.",
    ),
)
add(
    "bias-only",
    lambda: _biases_only(mlp(lambda: nn.LayerNorm(8))()),
    *(cross_entropy, labelled(6), "BitFit: layers whose weight is frozen and whose bias is not."),
)
add(
    "weight-only",
    lambda: _frozen(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)), "0.bias", "2.bias"),
    *(cross_entropy, labelled(6), "The other half: layers whose bias is frozen."),
)
add(
    "frozen-body-without-gradient",
    lambda: Net(_head_only, body=nn.Linear(6, 8), head=nn.Linear(8, 3)),
    *(cross_entropy, labelled(6), "A body under no_grad whose parameters still ask for gradients."),
)
add(
    "rows-frozen-by-a-hook",
    lambda: _rows_frozen(bag_of(lambda: nn.Embedding(VOCABULARY, 6))()),
    *(cross_entropy, texts(), "A hook on a parameter sets the gradient of some rows to 0."),
    may_refuse="hooks on parameters",
)


def _frozen(module: nn.Module, *names: str) -> nn.Module:
    for name in names:
        module.get_parameter(name).requires_grad_(False)
    return module


def _biases_only(module: nn.Module) -> nn.Module:
    return _frozen(module, *(name for name, _ in module.named_parameters() if "bias" not in name))


def _head_only(m: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        h = m.body(x).relu()
    return m.head(h)


def _rows_frozen(module: Any) -> nn.Module:
    weight = module.embed.weight
    kept = (torch.arange(VOCABULARY) > 4)[:, None]
    weight.register_hook(lambda gradient: gradient * kept)
    return module
