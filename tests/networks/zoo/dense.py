"""Dense layers, alone, shared, and beside functions of their weights."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it
from torch import Tensor, nn

from zoo.parts import (
    LENGTH,
    Net,
    add,
    cross_entropy,
    labelled,
    mlp,
    normal,
    only,
    own_square,
    two,
    two_losses,
)

add("mlp", mlp(), cross_entropy, labelled(6), "The plainest network there is.")
add(
    "mlp-without-bias",
    lambda: nn.Sequential(nn.Linear(6, 8, bias=False), nn.GELU(), nn.Linear(8, 3, bias=False)),
    *(cross_entropy, labelled(6), "A layer may have no bias."),
)
add(
    "mlp-inplace-relu",
    lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 3)),
    *(cross_entropy, labelled(6), "An activation in place overwrites what a hook has kept."),
)
add(
    "mlp-inplace-residual",
    lambda: Net(_inplace_residual, first=nn.Linear(6, 6), second=nn.Linear(6, 6)),
    *(own_square, only(6), "`+=` writes into the output of a layer after its hook ran."),
)
add(
    "flatten-sequential",
    lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Sigmoid(), nn.Linear(8, 3)),
    *(cross_entropy, labelled(3, 4), "Images to an MLP."),
)
add(
    "linear-on-3d",
    lambda: Net(
        lambda m, x: m.two(m.one(x).relu()).mean(1), one=nn.Linear(6, 8), two=nn.Linear(8, 3)
    ),
    *(cross_entropy, labelled(LENGTH, 6), "A layer met LENGTH times by each example."),
)
add(
    "linear-on-4d",
    lambda: Net(
        lambda m, x: m.two(m.one(x).relu()).mean((1, 2)), one=nn.Linear(6, 8), two=nn.Linear(8, 3)
    ),
    *(cross_entropy, labelled(2, LENGTH, 6), "A layer met at every point of a grid."),
)
add(
    "linear-folded",
    lambda: Net(_folded, one=nn.Linear(6, 8), two=nn.Linear(8, 3)),
    *(cross_entropy, labelled(4, 6), "(examples * steps, features): rows are no examples."),
    may_refuse="a layer sees rows that are no examples",
)
add(
    "linear-folded-steps-first",
    lambda: Net(_folded_steps_first, one=nn.Linear(6, 8), two=nn.Linear(8, 3)),
    *(cross_entropy, labelled(4, 6), "(steps * examples, features): the other order of rows."),
    may_refuse="a layer sees rows that are no examples",
)
add(
    "linear-steps-first",
    lambda: Net(
        lambda m, x: m.two(m.one(x.transpose(0, 1)).relu()).mean(0),
        one=nn.Linear(6, 8),
        two=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(LENGTH, 6), "(steps, examples, features) of equal sizes inside."),
    may_refuse="a layer sees rows that are no examples",
)
add(
    "linear-at-two-shapes",
    lambda: Net(
        lambda m, x: m.head(m.body(x).mean(1) + m.body(x[:, 0])).tanh(),
        body=nn.Linear(6, 8),
        head=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(LENGTH, 6), "One layer called on sequences and on vectors."),
)
add(
    "linear-shared",
    lambda: Net(
        lambda m, x: m.out(m.hidden(m.hidden(m.into(x).tanh()).tanh()).tanh()),
        into=nn.Linear(6, 8),
        hidden=nn.Linear(8, 8),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(6), "The same layer twice: its gradients add before their norm."),
)
add(
    "linear-shared-five-deep",
    lambda: Net(_deep, step=nn.Linear(6, 6), out=nn.Linear(6, 3)),
    *(cross_entropy, labelled(6), "Depth by repetition, as of ALBERT or an Euler scheme."),
)
add(
    "weight-of-two-layers",
    lambda: _one_weight(nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))),
    *(own_square, only(6), "One Parameter under two names, each layer with its own bias."),
)
add(
    "bilinear",
    lambda: Net(
        lambda m, a, b: m.out(m.both(a, b).tanh()), both=nn.Bilinear(4, 6, 5), out=nn.Linear(5, 3)
    ),
    *(cross_entropy, two((4,), (6,)), "Two inputs, a weight of three dimensions."),
)
add(
    "prelu",
    lambda: nn.Sequential(
        nn.Linear(6, 8), nn.PReLU(8), nn.Linear(8, 7), nn.PReLU(), nn.Linear(7, 3)
    ),
    *(cross_entropy, labelled(6), "Slopes are parameters, a channel's or all."),
)
add(
    "temperature",
    lambda: Net(
        lambda m, x: m.body(x) * m.scale.exp(), body=nn.Linear(6, 3), scale=torch.tensor(0.3)
    ),
    *(cross_entropy, labelled(6), "A parameter without dimensions, outside every layer."),
)
add(
    "two-heads",
    lambda: Net(
        lambda m, x: {"class": m.one(m.body(x).relu()), "value": m.two(m.body(x).relu())},
        body=nn.Linear(6, 8),
        one=nn.Linear(8, 3),
        two=nn.Linear(8, 1),
    ),
    lambda module, x, y: two_losses(module(x), x, y),
    labelled(6),
    "Outputs in a dict, two losses added.",
)
add(
    "autoencoder",
    lambda: nn.Sequential(nn.Linear(6, 3), nn.Softplus(), nn.Linear(3, 6)),
    *(own_square, only(6), "No labels; squared error, a mean over an example."),
)
add(
    "autoencoder-tied",
    lambda: Net(
        lambda m, x: F.linear(m.encoder(x).tanh(), m.encoder.weight.t(), m.back),
        encoder=nn.Linear(6, 4),
        back=normal(6),
    ),
    *(
        own_square,
        only(6),
        "The decoder is the encoder's weight transposed: used outside its layer.",
    ),
)
add(
    "linear-subclass",
    lambda: nn.Sequential(_ScaledLinear(6, 8), nn.ReLU(), _ScaledLinear(8, 3)),
    *(cross_entropy, labelled(6), "Is a Linear by its class, but not by what it computes."),
)
add(
    "layer-with-a-users-hook",
    lambda: _hooked(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))),
    *(cross_entropy, labelled(6), "A user's forward hook changes what a layer returns."),
)
add(
    "layer-with-a-users-backward-hook",
    lambda: _hooked_backward(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))),
    *(cross_entropy, labelled(6), "A user's backward hook halves what goes on to earlier layers."),
    may_refuse="a backward hook of the user's",
)
add(
    "inputs-changed-in-place",
    lambda: Net(lambda m, x: m.body(x.div_(2).sub_(1)), body=nn.Linear(6, 3)),
    *(cross_entropy, labelled(6), "A second pass over the same batch sees other inputs."),
    may_refuse="the module writes into its inputs",
)
add(
    "ensemble-by-vmap",
    lambda: Net(lambda m, x: torch.vmap(lambda w: (x @ w).tanh())(m.w).mean(0), w=normal(4, 6, 3)),
    *(cross_entropy, labelled(6), "Members of an ensemble by torch.vmap inside."),
    may_refuse="torch.func inside",
)
add(
    "stabilised-by-the-batch",
    lambda: Net(
        lambda m, x: (lambda h: h / h.sum(1, keepdim=True))((m.body(x) - m.body(x).max()).exp()),
        body=nn.Linear(6, 3),
    ),
    *(
        cross_entropy,
        labelled(6),
        "Takes off a maximum over the batch that cancels but for rounding.",
    ),
    may_refuse="examples mix before they cancel",
)
add(
    "weight-seen-by-another",
    lambda: Net(lambda m, x: m.body(x) + F.linear(x.tanh(), m.body.weight), body=nn.Linear(6, 3)),
    *(cross_entropy, labelled(6), "A layer is called and its weight is used beside it."),
)
add(
    "squeeze-excite",
    lambda: Net(_squeeze_excite, conv=nn.Conv2d(2, 4, 3), down=nn.Linear(4, 2), up=nn.Linear(2, 4)),
    *(cross_entropy, labelled(2, 6, 6, classes=4), "A gate over channels from the whole image."),
)
add(
    "mixture-of-experts-dense",
    lambda: Net(
        lambda m, x: torch.einsum(
            "ne,enk->nk", m.gate(x).softmax(1), torch.stack([m.a(x), m.b(x)])
        ),
        gate=nn.Linear(6, 2),
        a=nn.Linear(6, 3),
        b=nn.Linear(6, 3),
    ),
    *(cross_entropy, labelled(6), "Every expert sees every example."),
)
add(
    "hypernetwork",
    lambda: Net(
        lambda m, x: torch.bmm(m.make(x).view(-1, 3, 6), x[:, :, None])[:, :, 0],
        make=nn.Linear(6, 18),
    ),
    *(cross_entropy, labelled(6), "Weights are made for each example."),
)
add(
    "hypernetwork-of-a-code",
    lambda: Net(
        lambda m, x: F.linear(x, m.make(m.code).view(3, 6)),
        make=nn.Linear(LENGTH, 18),
        code=normal(LENGTH),
    ),
    *(cross_entropy, labelled(6), "A layer is called on a parameter: no examples in its input."),
)
add(
    "layer-over-positions",
    lambda: Net(_over_positions, place=nn.Linear(1, 6), out=nn.Linear(6, 3)),
    *(cross_entropy, labelled(LENGTH, 6), "A layer sees (LENGTH, 1) positions, the same for all."),
)
add(
    "unused-parameter",
    lambda: Net(lambda m, x: m.used(x), used=nn.Linear(6, 3), unused=nn.Linear(6, 3)),
    *(cross_entropy, labelled(6), "A parameter without a gradient has the gradient 0."),
)
add(
    "film",
    lambda: Net(
        lambda m, x, z, *_: m.out(m.body(x).relu() * m.scale(z) + m.shift(z)),
        body=nn.Linear(4, 8),
        scale=nn.Linear(6, 8),
        shift=nn.Linear(6, 8),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, two((4,), (6,)), "One input modulates the other."),
)


def _inplace_residual(m: Any, x: Tensor) -> Tensor:
    h = m.first(x)
    h += x
    h += m.second(h.tanh())
    return h


def _folded(m: Any, x: Tensor) -> Tensor:
    rows = x.reshape(-1, x.shape[-1])
    return m.two(m.one(rows).relu()).view(*x.shape[:2], -1).mean(1)


def _folded_steps_first(m: Any, x: Tensor) -> Tensor:
    rows = x.transpose(0, 1).reshape(-1, x.shape[-1])
    return m.two(m.one(rows).relu()).view(x.shape[1], x.shape[0], -1).mean(0)


def _deep(m: Any, x: Tensor) -> Tensor:
    for _ in range(5):
        x = x + 0.3 * m.step(x).tanh()
    return m.out(x)


def _one_weight(layers: nn.Sequential) -> nn.Sequential:
    layers[2].weight = layers[0].weight
    return layers


class _ScaledLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * math.sqrt(2 / self.in_features), self.bias).tanh()


def _hooked(layers: nn.Sequential) -> nn.Sequential:
    layers[0].register_forward_hook(
        lambda module, inputs, output: 2 * output + inputs[0].sum(1, True)
    )
    return layers


def _hooked_backward(layers: nn.Sequential) -> nn.Sequential:
    layers[2].register_full_backward_hook(lambda module, into, out: (0.5 * into[0],))
    return layers


def _squeeze_excite(m: Any, x: Tensor) -> Tensor:
    h = m.conv(x).relu()
    gate = m.up(m.down(h.mean((2, 3))).tanh()).sigmoid()
    return (h * gate[:, :, None, None]).mean((2, 3))


def _over_positions(m: Any, x: Tensor) -> Tensor:
    places = torch.linspace(0, 1, x.shape[1], dtype=x.dtype)[:, None]
    return m.out((x + m.place(places)).tanh().mean(1))
