"""The battery: modules by which private training of any network is judged.

Each entry is right under a loop over single examples, or must be refused. Lengths of sequences are
often 5, and so is the batch that tests draw: a program that takes another dimension for that of the
examples must not be saved by a difference in size. Nothing starts at 0 that would hide a gradient.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune, rnn
from torch.utils.checkpoint import checkpoint

Inputs = Callable[[int, torch.Generator], tuple[Tensor, ...]]

LENGTH = 5
VOCABULARY = 11
CLASSES = 3


@dataclass(frozen=True)
class Entry:
    """One module with its losses and inputs, and what a private training must make of it.

    `refused` is a word of the reason for which it must be refused; "" if it must be right, unless
    `may_refuse` says why an honest refusal will do. `random`: each call draws its own randomness.
    `beyond` gives inputs at which a refused module is wrong where plain ones show nothing.
    `tolerance`: what is still rounding in float64, relative to the largest gradient.
    """

    name: str
    make: Callable[[], nn.Module]
    losses: Callable[..., Tensor]
    inputs: Inputs
    notes: str
    refused: str = ""
    may_refuse: str = ""
    random: bool = False
    beyond: Inputs | None = None
    tolerance: float = 1e-9

    def module(self, dtype: torch.dtype = torch.float32, seed: int = 0) -> nn.Module:
        """Make the module in that precision, the same one for each seed."""
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            made = self.make()
        # Module.to would drop the imaginary part of complex parameters.
        return made._apply(lambda each: _in(each, dtype))

    def batch(
        self, n: int, dtype: torch.dtype = torch.float32, seed: int = 0, *, beyond: bool = False
    ) -> tuple[Tensor, ...]:
        """Draw n examples in that precision."""
        draw = self.beyond if beyond and self.beyond else self.inputs
        drawn = draw(n, torch.Generator().manual_seed(seed))
        return tuple(_in(each, dtype) for each in drawn)


def _in(each: Tensor, dtype: torch.dtype) -> Tensor:
    if each.is_complex():
        return each.to(dtype.to_complex())
    return each.to(dtype) if each.is_floating_point() else each


ZOO: list[Entry] = []


def add(
    name: str,
    make: Callable[[], nn.Module],
    losses: Callable[..., Tensor],
    inputs: Inputs,
    notes: str,
    **marks: Any,
) -> None:
    ZOO.append(Entry(name, make, losses, inputs, notes, **marks))


class Net(nn.Module):
    """A module from its parts and a forward pass; a tensor among the parts is a parameter."""

    def __init__(self, forward: Callable[..., Any], **parts: Tensor | nn.Module) -> None:
        super().__init__()
        self._pass = forward
        for name, part in parts.items():
            is_data = isinstance(part, Tensor) and not isinstance(part, nn.Parameter)
            setattr(self, name, nn.Parameter(part) if is_data else part)

    def forward(self, *batch: Tensor) -> Any:
        return self._pass(self, *batch)


def normal(*shape: int, scale: float = 0.5) -> Tensor:
    return torch.randn(*shape) * scale


# --- losses: one number an example


def cross_entropy(module: nn.Module, *batch: Tensor) -> Tensor:
    *x, y = batch
    return F.cross_entropy(module(*x), y, reduction="none")


def next_token(module: nn.Module, tokens: Tensor) -> Tensor:
    scores = module(tokens[:, :-1])
    return F.cross_entropy(scores.transpose(1, 2), tokens[:, 1:], reduction="none").mean(1)


def own_square(module: nn.Module, x: Tensor) -> Tensor:
    return (module(x) - x).square().flatten(1).mean(1)


def given(module: nn.Module, *batch: Tensor) -> Tensor:
    """Take what the module returns: it computes its own losses."""
    return module(*batch)


# --- inputs


def only(*shape: int, scale: float = 1.0) -> Inputs:
    return lambda n, g: (torch.randn(n, *shape, generator=g) * scale,)


def labelled(*shape: int, classes: int = CLASSES, scale: float = 1.0) -> Inputs:
    def draw(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
        x = torch.randn(n, *shape, generator=g) * scale
        return x, torch.randint(classes, (n,), generator=g)

    return draw


def two(first: tuple[int, ...], second: tuple[int, ...]) -> Inputs:
    def draw(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
        one, other = torch.randn(n, *first, generator=g), torch.randn(n, *second, generator=g)
        return one, other, torch.randint(CLASSES, (n,), generator=g)

    return draw


def texts(length: int = LENGTH) -> Inputs:
    """Tokens from 1 on, and labels."""

    def draw(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
        tokens = torch.randint(1, VOCABULARY, (n, length), generator=g)
        return tokens, torch.randint(CLASSES, (n,), generator=g)

    return draw


def padded(length: int = LENGTH) -> Inputs:
    """Texts of 1 to `length` tokens, then zeros."""

    def draw(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
        tokens, y = texts(length)(n, g)
        lengths = torch.randint(1, length + 1, (n, 1), generator=g)
        return tokens * (torch.arange(length) < lengths), y

    return draw


def sentences(length: int = LENGTH + 1) -> Inputs:
    return lambda n, g: texts(length)(n, g)[:1]


# --- dense layers


def mlp(norm: Callable[[], nn.Module] | None = None, before: int = 8) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        middle = [norm()] if norm else []
        return nn.Sequential(
            nn.Linear(6, before),
            *middle,
            nn.ReLU(),
            nn.Linear(before, 7),
            nn.Tanh(),
            nn.Linear(7, 3),
        )

    return make


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
    lambda module, x, y: _two_losses(module(x), x, y),
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


def _two_losses(out: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    value = (out["value"][:, 0] - x.sum(1)).square()
    return F.cross_entropy(out["class"], y, reduction="none") + 0.5 * value


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


# --- norms

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


# --- convolutions

add(
    "lenet",
    lambda: nn.Sequential(
        *(nn.Conv2d(1, 4, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(24, 10), nn.ReLU(), nn.Linear(10, 3)),
    ),
    *(cross_entropy, labelled(1, 16, 16), "The small classic of images."),
)
add(
    "resnet-groupnorm",
    lambda: nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.GroupNorm(2, 4), nn.ReLU()),
        *(_Residual(4, 4, 1), _Residual(4, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(2, 8, 8), "Skip connections, strides, 1 x 1 convolutions."),
)
add(
    "vgg",
    lambda: nn.Sequential(
        *(
            nn.Conv2d(2, 4, 3, padding=1),
            nn.ReLU(True),
            nn.Conv2d(4, 4, 3, padding=1),
            nn.ReLU(True),
        ),
        *(nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32, 16), nn.ReLU(True), nn.Linear(16, 3)),
    ),
    *(cross_entropy, labelled(2, 8, 8), "Convolutions in a row, activations in place."),
)
add(
    "convnext",
    lambda: nn.Sequential(
        *(nn.Conv2d(2, 4, 2, stride=2), _ConvNext(4), _ConvNext(4)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)),
    ),
    *(cross_entropy, labelled(2, 8, 8)),
    "Depthwise convolution, channels last, a parameter that scales a layer, its own response norm.",
)
add("unet", lambda: _UNet(), own_square, only(1, 8, 8), "Transposed convolutions, joined skips.")
add(
    "text-cnn",
    lambda: Net(
        lambda m, x: m.out(m.conv(m.embed(x).transpose(1, 2)).relu().amax(2)),
        embed=nn.Embedding(VOCABULARY, 6),
        conv=nn.Conv1d(6, 8, 3),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, texts(8), "The maximum over time sends a gradient to one place."),
)
add(
    "conv3d",
    lambda: nn.Sequential(
        *(nn.Conv3d(1, 3, 3), nn.ReLU(), nn.MaxPool3d(2), nn.Flatten(), nn.Linear(24, 3)),
    ),
    *(cross_entropy, labelled(1, 6, 6, 6), "Volumes."),
)
add(
    "conv-grouped-dilated-strided",
    lambda: nn.Sequential(
        nn.Conv2d(4, 8, 3, groups=2, stride=2, padding=1),
        *(nn.Tanh(), nn.Conv2d(8, 8, 3, groups=8, dilation=2, padding=2)),
        *(
            nn.Tanh(),
            nn.Conv2d(8, 4, (1, 3), stride=(2, 1), groups=4),
            nn.Flatten(),
            nn.Linear(16, 3),
        ),
    ),
    *(cross_entropy, labelled(4, 8, 8), "Every argument of a convolution at once."),
)
add(
    "conv-padding-reflect-circular",
    lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"),
        *(nn.Tanh(), nn.Conv2d(4, 4, 3, padding=2, padding_mode="circular", dilation=2)),
        *(nn.Tanh(), nn.Conv2d(4, 3, 3, padding=1, padding_mode="replicate")),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    ),
    *(cross_entropy, labelled(2, 6, 6), "The layer's own padding is outside the convolution."),
)
add(
    "conv-padding-same",
    lambda: nn.Sequential(
        *(
            nn.Conv1d(2, 4, 4, padding="same", dilation=2),
            nn.ReLU(),
            nn.Conv1d(4, 3, 3, padding="valid"),
        ),
        *(nn.AdaptiveMaxPool1d(1), nn.Flatten()),
    ),
    *(cross_entropy, labelled(2, 9), "Padding by name, with an even filter."),
)
add(
    "conv-transposed-1d",
    lambda: nn.Sequential(
        *(nn.Conv1d(2, 4, 4, stride=2), nn.ReLU()),
        nn.ConvTranspose1d(4, 2, 4, stride=2, output_padding=1, groups=2),
    ),
    *(own_square, only(2, 9), "Transposed, strided, grouped, with an output padding."),
)
add(
    "conv-autoencoder-tied",
    lambda: Net(
        lambda m, x: F.conv_transpose2d(m.conv(x).tanh(), m.conv.weight, stride=2),
        conv=nn.Conv2d(1, 4, 2, stride=2),
    ),
    *(own_square, only(1, 6, 6), "The filters of a layer are used again by a function."),
)
add(
    "pixel-shuffle",
    lambda: nn.Sequential(
        *(
            nn.Conv2d(1, 4, 3, padding=1, stride=2),
            nn.PixelShuffle(2),
            nn.Conv2d(1, 4, 2, stride=2),
        ),
        *(nn.Tanh(), nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(4, 1, 3, padding=1)),
    ),
    *(own_square, only(1, 8, 8), "Channels become pixels; interpolation."),
)
add(
    "conv-of-frames",
    lambda: Net(_frames, conv=nn.Conv2d(1, 4, 3), out=nn.Linear(4, 3)),
    *(cross_entropy, labelled(4, 1, 6, 6), "A video's frames are folded into the batch."),
    may_refuse="a layer sees rows that are no examples",
)
add(
    "conv-of-one-image",
    lambda: Net(
        lambda m, x: m.out(x.flatten(1) * m.conv(m.image).flatten()),
        conv=nn.Conv2d(LENGTH, 1, 3, padding=1),
        image=normal(LENGTH, 4, 4),
        out=nn.Linear(16, 3),
    ),
    *(cross_entropy, labelled(4, 4), "A learned image without a batch goes through a layer."),
)
add(
    "weight-standardised",
    lambda: nn.Sequential(
        *(_StandardConv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)),
    ),
    *(cross_entropy, labelled(2, 6, 6), "The weight used is a function of the weight trained."),
)
add(
    "unfold",
    lambda: Net(
        lambda m, x: torch.einsum("nkl,lko->no", F.unfold(x, 2, stride=2), m.w), w=normal(9, 8, 3)
    ),
    *(cross_entropy, labelled(2, 6, 6), "A locally connected layer by hand: no shared filter."),
)
add(
    "spatial-transformer",
    lambda: Net(_transformed, where=nn.Linear(36, 6), conv=nn.Conv2d(1, 4, 3), out=nn.Linear(4, 3)),
    *(cross_entropy, labelled(1, 6, 6), "Samples each image at places that the network chooses."),
)


class _Residual(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.GroupNorm(2, out), nn.ReLU()),
            *(nn.Conv2d(out, out, 3, padding=1, bias=False), nn.GroupNorm(2, out)),
        )
        self.skip = nn.Conv2d(into, out, 1, stride) if into != out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.skip(x))


class _ConvNext(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.scale = nn.Parameter(normal(width))
        self.response, self.shift = nn.Parameter(normal(2 * width)), nn.Parameter(normal(2 * width))

    def forward(self, x: Tensor) -> Tensor:
        h = F.gelu(self.up(self.norm(self.depthwise(x).permute(0, 2, 3, 1))))
        size = h.square().sum((1, 2), keepdim=True).add(1e-6).sqrt()
        h = h + self.response * h * size / size.mean(-1, keepdim=True) + self.shift
        return x + (self.scale * self.down(h)).permute(0, 3, 1, 2)


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(1, 4, 3, padding=1)
        self.deep = nn.Conv2d(4, 6, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        top = self.down(x).relu()
        return self.out(torch.cat([top, self.up(self.deep(top).relu()).relu()], 1))


class _StandardConv2d(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        mean = self.weight.mean((1, 2, 3), keepdim=True)
        spread = self.weight.std((1, 2, 3), keepdim=True)
        return F.conv2d(x, (self.weight - mean) / (spread + 1e-5), self.bias)


def _frames(m: Any, x: Tensor) -> Tensor:
    frames = m.conv(x.flatten(0, 1)).relu().mean((2, 3))
    return m.out(frames.unflatten(0, x.shape[:2]).amax(1))


def _transformed(m: Any, x: Tensor) -> Tensor:
    plain = torch.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=x.dtype)
    places = plain + 0.1 * m.where(x.flatten(1)).view(-1, 2, 3).tanh()
    grid = F.affine_grid(places, list(x.shape), align_corners=False)
    return m.out(m.conv(F.grid_sample(x, grid, align_corners=False)).relu().mean((2, 3)))


# --- recurrent networks


class _Recurrent(nn.Module):
    """Embed, recur, classify the mean over steps."""

    def __init__(self, cell: nn.Module, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 6)
        self.cell = cell
        self.out = nn.Linear(width, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        steps = self.embed(tokens)
        if self.cell.batch_first:
            return self.out(self.cell(steps)[0].mean(1))
        return self.out(self.cell(steps.transpose(0, 1))[0].mean(0))


add(
    "lstm",
    lambda: _Recurrent(nn.LSTM(6, 8, batch_first=True), 8),
    *(cross_entropy, texts(), "All steps in one call into torch."),
)
add(
    "lstm-steps-first",
    lambda: _Recurrent(nn.LSTM(6, 8), 8),
    *(cross_entropy, texts(), "torch's default order: (steps, examples, features)."),
)
add(
    "lstm-bidirectional",
    lambda: _Recurrent(nn.LSTM(6, 4, num_layers=2, bidirectional=True, batch_first=True), 8),
    *(cross_entropy, texts(), "Two layers, two directions."),
)
add(
    "lstm-projected",
    lambda: _Recurrent(nn.LSTM(6, 8, proj_size=4, batch_first=True), 4),
    *(cross_entropy, texts(), "A third weight, from state to output."),
)
add(
    "gru",
    lambda: _Recurrent(nn.GRU(6, 8, batch_first=True), 8),
    *(cross_entropy, texts(), "Its candidate has its own bias inside a gate."),
)
add(
    "gru-without-bias",
    lambda: _Recurrent(nn.GRU(6, 8, bias=False), 8),
    *(cross_entropy, texts(), "No bias, steps first."),
)
add(
    "rnn",
    lambda: _Recurrent(nn.RNN(6, 8, nonlinearity="relu", batch_first=True), 8),
    *(cross_entropy, texts(), "The plain recurrent network."),
)
add("lstm-cell", lambda: _Cells(), cross_entropy, texts(), "A loop over steps in Python.")
add(
    "lstm-learned-start",
    lambda: Net(
        lambda m, x: m.out(
            m.cell(x, (m.h.expand(1, len(x), 8).contiguous(), m.c.repeat(1, len(x), 1)))[0][:, -1]
        ),
        cell=nn.LSTM(6, 8, batch_first=True),
        h=normal(1, 1, 8),
        c=normal(1, 1, 8),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(LENGTH, 6), "The first state is a parameter, examples second."),
)
add(
    "lstm-packed",
    lambda: Net(
        _packed,
        embed=nn.Embedding(VOCABULARY, 6),
        cell=nn.LSTM(6, 8, batch_first=True),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, padded(), "Packed sequences: rows sorted by length, then interleaved."),
    may_refuse="packed sequences are no batch of examples",
)
add(
    "linear-chain-field",
    lambda: Net(_chain_losses, scores=nn.Linear(6, 4), moves=normal(4, 4)),
    given,
    lambda n, g: (
        torch.randn(n, LENGTH, 6, generator=g),
        torch.randint(4, (n, LENGTH), generator=g),
    ),
    "A conditional random field: one table of moves, used at every step.",
)
add(
    "state-space",
    lambda: Net(_scan, into=nn.Linear(6, 4), decay=normal(4), out=nn.Linear(4, 3)),
    *(cross_entropy, labelled(LENGTH, 6), "A linear recurrence written as sums with powers."),
)


class _Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell = nn.Embedding(VOCABULARY, 6), nn.LSTMCell(6, 8)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        steps = self.embed(tokens)
        state = (steps.new_zeros(len(tokens), 8), steps.new_zeros(len(tokens), 8))
        for step in steps.unbind(1):
            state = self.cell(step, state)
        return self.out(state[0])


def _packed(m: Any, tokens: Tensor) -> Tensor:
    lengths = (tokens > 0).sum(1)
    packed = rnn.pack_padded_sequence(m.embed(tokens), lengths, True, enforce_sorted=False)
    return m.out(m.cell(packed)[1][0][0])


def _chain_losses(m: Any, x: Tensor, labels: Tensor) -> Tensor:
    scores = m.scores(x)
    paths = scores[:, 0]
    for step in range(1, x.shape[1]):
        paths = (paths[:, :, None] + m.moves).logsumexp(1) + scores[:, step]
    taken = scores.gather(2, labels[:, :, None])[:, :, 0].sum(1)
    return paths.logsumexp(1) - taken - m.moves[labels[:, :-1], labels[:, 1:]].sum(1)


def _scan(m: Any, x: Tensor) -> Tensor:
    steps = torch.arange(x.shape[1] - 1, -1, -1, dtype=x.dtype)
    powers = m.decay.sigmoid() ** steps[:, None]
    return m.out((m.into(x) * powers).sum(1))


# --- attention


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


# --- embeddings


def bag_of(embed: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: Net(
        lambda m, tokens: m.out(m.embed(tokens).mean(1).tanh()), embed=embed(), out=nn.Linear(6, 3)
    )


def _flat_bags(m: Any, tokens: Tensor) -> Tensor:
    starts = torch.arange(0, tokens.numel(), tokens.shape[1])
    return m.out(m.embed(tokens.flatten(), starts).tanh())


add(
    "tied-language-model",
    lambda: Net(
        lambda m, x: F.linear(m.body(m.embed(x)).tanh(), m.embed.weight, m.bias),
        embed=nn.Embedding(VOCABULARY, 6),
        body=nn.Linear(6, 6),
        bias=normal(VOCABULARY),
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


# --- parameters used without a layer

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


# --- weights made from weights


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


# --- frozen parts


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


# --- randomness

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
    lambda: _Recurrent(nn.LSTM(6, 8, num_layers=2, dropout=0.3, batch_first=True), 8),
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


# --- functions of torch that do not compose


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
    lambda module, x, y: _two_losses(module(x), x, y),
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


# --- batches that are taken apart

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


# --- losses and norms that mix examples

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


# --- state


class _Counting(nn.Module):
    """Counts its calls; with `anneal`, its temperature follows the count."""

    def __init__(self, anneal: bool) -> None:
        super().__init__()
        self.body = nn.Linear(6, 3)
        self.register_buffer("calls", torch.tensor(0))
        self.anneal = anneal

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.body(x) / (1 + 1 / self.calls if self.anneal else 1)


class _Remembering(nn.Module):
    """Adds what it kept of earlier batches; keeps some of this one, in a buffer or out of sight."""

    def __init__(self, kept_in: str) -> None:
        super().__init__()
        self.body, self.out = nn.Linear(6, 8), nn.Linear(8, 3)
        if kept_in == "buffer":
            self.register_buffer("kept", torch.zeros(8))
        else:
            self.kept = torch.zeros(8)

    def forward(self, x: Tensor) -> Tensor:
        h = self.body(x).tanh()
        out = self.out(h + self.kept.to(h))
        self.kept = 0.9 * self.kept.to(h) + 0.1 * h.detach().mean(0)
        return out


class _Following(nn.Module):
    """A teacher that follows the student at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.student = nn.Linear(6, 4)
        self.register_buffer("teacher", normal(4, 6))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.teacher.lerp_(self.student.weight, 0.1)
        return (self.student(x) - F.linear(x, self.teacher)).square().sum(1)


class _Queue(nn.Module):
    """Codes of the last examples, from which each new one must be told apart."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 4)
        self.register_buffer("codes", normal(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        h = self.body(x).tanh()
        own = (h * self.body(0.9 * x).tanh()).sum(1, keepdim=True)
        losses = -torch.cat([own, h @ self.codes.t()], 1).log_softmax(1)[:, 0]
        self.codes = torch.cat([h.detach(), self.codes])[:8]
        return losses


add(
    "counts-calls",
    lambda: _Counting(anneal=False),
    *(cross_entropy, labelled(6), "A buffer changes at each call, but never with the data."),
)
add(
    "anneals-by-calls",
    lambda: _Counting(anneal=True),
    *(
        cross_entropy,
        labelled(6),
        "The count of calls decides the losses: pieces of a batch differ.",
    ),
    may_refuse="its buffers move at every call",
)
add(
    "follows-its-weights",
    lambda: _Following(),
    *(given, only(6), "A mean teacher: a buffer follows the weights, not the data."),
    may_refuse="its buffers move at every call",
)
add(
    "remembers-in-a-buffer",
    lambda: _Remembering("buffer"),
    *(cross_entropy, labelled(6)),
    "A mean of activations is kept in a buffer, for later batches and for the release.",
    refused="buffer",
)
add(
    "queue-of-negatives",
    lambda: _Queue(),
    *(given, only(6), "MoCo: codes of earlier batches are kept as negatives, in a buffer."),
    refused="buffer",
)
add(
    "remembers-out-of-sight",
    lambda: _Remembering("attribute"),
    *(cross_entropy, labelled(6)),
    "The same in a plain attribute: no buffer changes, no loss of this batch mixes.",
    refused="state",
)


def named(name: str) -> Entry:
    """Return the entry of that name."""
    (found,) = (entry for entry in ZOO if entry.name == name)
    return found
