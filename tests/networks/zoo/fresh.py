"""Modules written after the engine and without a look at it: nobody could fit it to them."""

from __future__ import annotations

from typing import Any

import numpy as np
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
    given,
    labelled,
    mlp,
    next_token,
    normal,
    only,
    padded,
    sentences,
    texts,
)

add(
    "perceiver",
    lambda: Net(
        lambda m, x: _perceive(m, x),
        latents=normal(3, 8),
        read=nn.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=True),
        think=nn.MultiheadAttention(8, 2, batch_first=True),
        norm=nn.LayerNorm(8),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(LENGTH, 6)),
    "Learned latents read the example by cross attention, twice with the same weights.",
)
add(
    "messages-along-edges",
    lambda: Net(
        lambda m, x, edges: _messages(m, x, edges),
        send=nn.Linear(12, 8),
        keep=nn.GRUCell(8, 6),
        out=nn.Linear(6, 3),
    ),
    cross_entropy,
    lambda n, g: _graphs(n, g),
    "Messages are gathered and scattered along each example's own edges.",
    may_refuse="a layer sees rows that are no examples",
)
add(
    "graphs-joined",
    lambda: Net(
        lambda m, x, edges: _joined(m, x, edges),
        send=nn.Linear(6, 8),
        keep=nn.Linear(6, 8),
        out=nn.Linear(8, 3),
    ),
    cross_entropy,
    lambda n, g: _graphs(n, g),
    "All graphs are one large graph, as PyTorch Geometric joins them.",
    may_refuse="a layer sees rows that are no examples",
)
add(
    "capsules",
    lambda: Net(lambda m, x: _capsules(m, x), votes=normal(LENGTH, CLASSES, 6, 4)),
    lambda module, x, y: F.multi_margin_loss(module(x), y, reduction="none"),
    labelled(LENGTH, 6),
    "Three rounds of routing by agreement, of which the first two pass no gradient.",
)
add(
    "equilibrium-of-twelve-steps",
    lambda: Net(
        lambda m, x: _settle(m, x), start=normal(8), body=nn.Linear(8, 8), inject=nn.Linear(6, 8)
    ),
    lambda module, x, y: (module(x).sum(1) - y).square(),
    labelled(6),
    "One layer twelve times; the last step alone passes a gradient to the steps before.",
)
add(
    "gated-linear-attention",
    lambda: Net(
        lambda m, tokens: _scan(m, tokens),
        embed=nn.Embedding(VOCABULARY, 6),
        parts=nn.Linear(6, 16, bias=False),
        gate=nn.Linear(6, 4),
        out=nn.Linear(4, VOCABULARY),
    ),
    *(next_token, sentences()),
    "A matrix is the state; gates that depend on the data decay it, position after position.",
)
add(
    "llama-block",
    lambda: _Rotating(),
    *(next_token, sentences()),
    "Angles are kept at the first call; fewer keys than queries; a gated layer; RMSNorm by hand.",
)
add(
    "mixture-density",
    lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 9)),
    lambda module, x, y: _mixture_loss(*module(x).chunk(3, 1), y),
    labelled(6),
    "The likelihood of a mixture of three normal distributions.",
)
add(
    "speech-ctc",
    lambda: nn.Sequential(nn.Conv1d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, VOCABULARY, 1)),
    lambda module, x, y: F.ctc_loss(
        module(x).permute(2, 0, 1).log_softmax(2),
        y,
        torch.full((len(x),), 8),
        torch.full((len(x),), 3),
        reduction="none",
    ),
    lambda n, g: (
        torch.randn(n, 3, 8, generator=g),
        torch.randint(1, VOCABULARY, (n, 3), generator=g),
    ),
    "Connectionist temporal classification: steps come first in what the loss takes.",
)
add(
    "triplet-within-an-example",
    lambda: nn.Sequential(nn.Linear(6, 8), nn.SELU(), nn.Linear(8, 4, bias=False)),
    lambda module, x: F.triplet_margin_loss(*module(x).unbind(1), margin=3.0, reduction="none"),
    only(3, 6),
    "Anchor, positive and negative are one person's.",
)
add(
    "activations-quantised-by-batch",
    lambda: Net(
        lambda m, x: m.out(_quantise(m.body(x))), body=nn.Linear(6, 8), out=nn.Linear(8, 3)
    ),
    *(cross_entropy, labelled(6)),
    "Eight steps between 0 and the batch's largest activation; the gradient goes straight through.",
    refused="mix",
)
add(
    "monotone-by-reparametrisation",
    lambda: Net(
        lambda m, x: (x @ F.softplus(m.raw) @ (m.down @ m.up) + m.steps.exp().cumsum(0)).sigmoid(),
        raw=normal(6, 4),
        down=normal(4, 2),
        up=normal(2, CLASSES),
        steps=normal(CLASSES),
    ),
    lambda module, x, y: F.nll_loss((module(x) + 1e-3).log(), y, reduction="none"),
    labelled(6),
    "Weights are positive by softplus, of low rank by a product, ordered by a cumulative sum.",
)
add(
    "denoising-diffusion",
    lambda: Net(
        lambda m, x, t: m.out(F.silu(m.body(x) + m.time(_sinusoids(t, 8)))),
        body=nn.Linear(6, 8),
        time=nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 8)),
        out=nn.Linear(8, 6),
    ),
    lambda module, x: _denoising_loss(module, x),
    only(6),
    "The loss draws a time and noise for each example.",
    random=True,
)
add(
    "gumbel-softmax",
    lambda: Net(
        lambda m, x: m.out(F.gumbel_softmax(m.body(x), tau=0.7, hard=True) @ m.codes),
        body=nn.Linear(6, 5),
        codes=normal(5, 8),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(6), "A choice at random, with a gradient straight through."),
    random=True,
)
add(
    "masked-in-place",
    lambda: Net(
        lambda m, x: _masked(m, x),
        embed=nn.Embedding(VOCABULARY, 6),
        score=nn.Linear(6, 1, bias=False),
        out=nn.Linear(6, 3),
    ),
    *(cross_entropy, padded(), "Scores of padding are filled in place; the sum adds in place."),
)
add(
    "spectral-gating",
    lambda: Net(
        lambda m, x: m.out(
            torch.fft.irfft2(torch.fft.rfft2(m.body(x)) * torch.view_as_complex(m.filter), s=(6, 6))
            .tanh()
            .mean((2, 3))
        ),
        body=nn.Conv2d(2, 4, 1),
        filter=normal(4, 6, 4, 2),
        out=nn.Linear(4, 3),
    ),
    *(cross_entropy, labelled(2, 6, 6), "Complex filters whose parameters are real."),
)
add(
    "ghost-batch-norm",
    lambda: Net(
        lambda m, x: m.out(
            torch.cat([(h - h.mean(0)) / (h.std(0, False) + 0.1) for h in m.body(x).chunk(2)])
        ),
        body=nn.Linear(6, 8),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(6), "Statistics of halves of the batch, by hand."),
    refused="mix",
)
add(
    "winners-take-all",
    lambda: Net(
        lambda m, x: m.out(_winners(m.body(x))), body=nn.Linear(6, 12), out=nn.Linear(12, 3)
    ),
    *(cross_entropy, labelled(6), "The largest quarter of an example's activations survives."),
)
add(
    "winners-of-the-batch",
    lambda: Net(
        lambda m, x: m.out(_winners(m.body(x).t()).t()), body=nn.Linear(6, 12), out=nn.Linear(12, 3)
    ),
    *(cross_entropy, labelled(6), "A feature lives for the quarter of the batch that has most."),
    refused="mix",
)
add(
    "features-first",
    lambda: Net(
        lambda m, x: (m.last @ (m.first @ x.t() + m.shift[:, None]).sin()).t(),
        first=normal(8, 6),
        shift=normal(8),
        last=normal(3, 8),
    ),
    *(cross_entropy, labelled(6), "As in the books: examples are columns."),
)
add(
    "gaussian-process",
    lambda: Net(
        lambda m, x, y: _evidence(m, x, y),
        features=nn.Linear(2, 3, bias=False),
        scale=normal(1),
        noise=normal(1),
    ),
    given,
    lambda n, g: (torch.randn(n, LENGTH, 2, generator=g), torch.randn(n, LENGTH, generator=g)),
    "The evidence of each example's own five points under a kernel that all share.",
    tolerance=1e-8,  # a Cholesky factor of a kernel with little noise
)
add(
    "sinkhorn-matching",
    lambda: Net(
        lambda m, x: _matching(m, x), body=nn.Linear(6, 4, bias=False), places=normal(LENGTH, 4)
    ),
    lambda module, x: (module(x) - torch.eye(LENGTH).to(x)).square().sum((1, 2)),
    only(LENGTH, 6),
    "Rows and columns are normalised in turn, within an example.",
)
add(
    "clamped-weights",
    lambda: Net(lambda m, x: _clamped(m, x), body=nn.Linear(6, 8), out=nn.Linear(8, 3)),
    *(cross_entropy, labelled(6), "As in the first Wasserstein critics: each call clamps weights."),
    refused="weights",
)
add(
    "embedding-max-norm-by-function",
    lambda: Net(
        lambda m, tokens: m.out(F.embedding(tokens, m.table, max_norm=1.0).mean(1)),
        table=normal(VOCABULARY, 6),
        out=nn.Linear(6, 3),
    ),
    *(cross_entropy, texts(), "Rows of the table that a text reads are shortened in place."),
    refused="weights",
)
add(
    "branch-seldom-by-numpy",
    lambda: Net(
        lambda m, x: m.a(x / x.abs().max() if np.asarray(x).max() > 100 else x), a=nn.Linear(6, 3)
    ),
    *(cross_entropy, labelled(6), "A branch that plain inputs never take, decided in numpy."),
    refused="control flow",
    beyond=labelled(6, scale=200.0),
)
add(
    "diffusion-with-whole-times",
    lambda: Net(
        lambda m, x, t: m.out(F.silu(m.body(x) + m.time(t))),
        body=nn.Linear(6, 8),
        time=nn.Embedding(20, 8),
        out=nn.Linear(8, 6),
    ),
    lambda module, x: _denoising_loss(module, x, whole=True),
    only(6),
    "The loss draws one of twenty times for each example.",
    random=True,
)
add(
    "samples-around-the-batch",
    lambda: Net(
        lambda m, x: m.out(x + torch.normal(m.body(x).mean(0).detach().expand_as(x), 1.0)),
        body=nn.Linear(6, 6),
        out=nn.Linear(6, 3),
    ),
    *(cross_entropy, labelled(6), "The mean of what is drawn is that of the batch."),
    refused="mix",
    random=True,
)
add(
    "choice-of-a-code",
    lambda: Net(
        lambda m, x: m.out(m.codes[torch.multinomial(m.body(x).softmax(1), 1)[:, 0]] * x),
        body=nn.Linear(6, 5),
        codes=normal(5, 6),
        out=nn.Linear(6, 3),
    ),
    lambda module, x, y: cross_entropy(module, x, y) - 0.1 * module.body(x).log_softmax(1).amax(1),
    labelled(6),
    "Each example draws a code by its own likelihoods.",
    random=True,
    may_refuse="what is drawn depends on the data",
)
add(
    "scaled-seldom",
    lambda: Net(lambda m, x: m.a(x / x.abs().amax().clamp(min=100)), a=nn.Linear(6, 3)),
    *(cross_entropy, labelled(6)),
    "The batch's largest value counts where it is above 100; Python sees no value.",
    refused="mix",
    beyond=labelled(6, scale=200.0),
)
add(
    "loss-weighs-its-tasks",
    lambda: Net(
        lambda m, x: {"class": m.one(m.body(x).relu()), "value": m.two(m.body(x).relu())},
        body=nn.Linear(6, 8),
        one=nn.Linear(8, 3),
        two=nn.Linear(8, 1),
        doubts=normal(2),
    ),
    lambda module, x, y: _weighed(module, x, y),
    labelled(6),
    "The weights of two losses are parameters that the module's pass never uses.",
)
add(
    "loss-broadcast-by-mistake",
    lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1)),
    lambda module, x, y: (module(x) - y).square().mean(1),
    labelled(6),
    "Predictions (n, 1) less labels (n,) are (n, n): each is compared with all.",
    refused="mix",
)
add(
    "loss-squeezed",
    lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1)),
    lambda module, x, y: (module(x).squeeze() - y).square(),
    labelled(6),
    "A batch of one loses its dimension on the way.",
)
add(
    "loss-over-tokens-of-the-batch",
    lambda: nn.Sequential(nn.Embedding(VOCABULARY, 6), nn.Linear(6, VOCABULARY)),
    lambda module, tokens, y: (
        F.cross_entropy(module(tokens).transpose(1, 2), tokens.roll(-1, 1), reduction="none")
        .mul(tokens > 0)
        .sum(1)
        / (tokens > 0).sum()
    ),
    padded(),
    "Each example's loss is divided by the number of words in the batch.",
    refused="mix",
)
add(
    "loss-smoothed-by-batch-frequencies",
    mlp(),
    lambda module, x, y: F.cross_entropy(
        module(x), 0.9 * F.one_hot(y, 3) + 0.1 * F.one_hot(y, 3).to(x).mean(0), reduction="none"
    ),
    labelled(6),
    "Labels are smoothed towards the classes of this batch.",
    refused="mix",
)
add(
    "largest-so-far",
    lambda: _LargestSoFar(),
    *(cross_entropy, labelled(6), "Inputs are scaled by the largest of earlier batches, a float."),
    refused="state",
)
add(
    "centres-large-batches",
    lambda: Net(
        lambda m, x: m.out(m.body(x) - m.body(x).mean(0)) if len(x) >= LENGTH else m.out(m.body(x)),
        body=nn.Linear(6, 8),
        out=nn.Linear(8, 3),
    ),
    *(cross_entropy, labelled(6), "Statistics of the batch, where it has at least five examples."),
    refused="mix",
)
add(
    "ragged-words",
    lambda: Net(
        lambda m, tokens: _ragged(m, tokens),
        embed=nn.Embedding(VOCABULARY, 6),
        body=nn.Linear(6, 6),
        out=nn.Linear(6, 3),
    ),
    *(cross_entropy, padded(), "A layer sees the words of all texts without the padding."),
    may_refuse="a layer sees rows that are no examples",
)


class _LargestSoFar(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 3)
        self.largest = 1.0

    def forward(self, x: Tensor) -> Tensor:
        scale, self.largest = self.largest, max(self.largest, float(x.detach().abs().max()))
        return self.body(x / scale)


class _Rotating(nn.Module):
    """A language model of one block; the angles of its positions are made at the first call."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 8)
        self.scales = nn.ParameterList([1 + normal(8), 1 + normal(8)])
        self.queries, self.pairs = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
        self.back = nn.Linear(8, 8, bias=False)
        self.gated, self.down = nn.Linear(8, 20, bias=False), nn.Linear(10, 8, bias=False)
        self.angles: Tensor | None = None

    def rotated(self, x: Tensor) -> Tensor:
        if self.angles is None or len(self.angles) < x.shape[-2]:
            rates = 100.0 ** -torch.arange(0, x.shape[-1], 2).div(x.shape[-1])
            self.angles = torch.outer(torch.arange(float(x.shape[-2])), rates).to(x)
        angles = self.angles[: x.shape[-2]]
        a, b = x.chunk(2, -1)
        return torch.cat(
            [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1
        )

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        h = x * (x.square().mean(-1, keepdim=True) + 1e-3).rsqrt() * self.scales[0]
        heads = self.queries(h).unflatten(-1, (2, 4)).transpose(1, 2)
        keys, values = self.pairs(h).unflatten(-1, (1, 8)).transpose(1, 2).chunk(2, -1)
        seen = F.scaled_dot_product_attention(
            self.rotated(heads), self.rotated(keys).expand_as(heads), values.expand_as(heads),
            is_causal=True,
        )  # fmt: skip
        x = x + self.back(seen.transpose(1, 2).flatten(2))
        h = x * (x.square().mean(-1, keepdim=True) + 1e-3).rsqrt() * self.scales[1]
        gate, value = self.gated(h).chunk(2, -1)
        return F.linear(x + self.down(F.silu(gate) * value), self.embed.weight)


def _perceive(m: Any, x: Tensor) -> Tensor:
    h = m.latents.expand(len(x), -1, -1)
    for _ in range(2):
        h = m.norm(h + m.read(h, x, x, need_weights=False)[0])
        h = h + m.think(h, h, h)[0]
    return m.out(h.mean(1))


def _graphs(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    """Five nodes with six numbers, seven edges, a class."""
    edges = torch.randint(LENGTH, (n, 7, 2), generator=g)
    return (
        torch.randn(n, LENGTH, 6, generator=g),
        edges,
        torch.randint(CLASSES, (n,), generator=g),
    )


def _messages(m: Any, x: Tensor, edges: Tensor) -> Tensor:
    source, target = (each[:, :, None] for each in edges.unbind(2))
    for _ in range(2):
        ends = [x.gather(1, each.expand(-1, -1, 6)) for each in (source, target)]
        sent = m.send(torch.cat(ends, 2)).relu()
        received = sent.new_zeros(len(x), LENGTH, 8).scatter_add(1, target.expand(-1, -1, 8), sent)
        x = m.keep(received.flatten(0, 1), x.flatten(0, 1)).unflatten(0, x.shape[:2])
    return m.out(x.amax(1))


def _joined(m: Any, x: Tensor, edges: Tensor) -> Tensor:
    n = len(x)
    nodes = x.flatten(0, 1)
    source, target = (edges + LENGTH * torch.arange(n)[:, None, None]).flatten(0, 1).t()
    h = m.keep(nodes).index_add(0, target, m.send(nodes[source])).tanh()
    owner = torch.arange(n).repeat_interleave(LENGTH)
    return m.out(h.new_zeros(n, 8).index_add_(0, owner, h))


def _capsules(m: Any, x: Tensor) -> Tensor:
    votes = torch.einsum("npf,pcfd->npcd", x, m.votes)
    routes = votes.new_zeros(votes.shape[:3])
    for left in (2, 1, 0):
        seen = votes if left == 0 else votes.detach()
        total = (routes.softmax(2)[..., None] * seen).sum(1)
        square = total.square().sum(2, keepdim=True)
        capsules = total * square / ((1 + square) * (square + 1e-6).sqrt())
        routes = routes + (votes.detach() * capsules[:, None].detach()).sum(3)
    return capsules.norm(dim=2)


def _settle(m: Any, x: Tensor) -> Tensor:
    given_in = m.inject(x)
    h = m.start.expand(len(x), 8)
    for _ in range(12):
        h = (0.7 * m.body(h) + given_in).tanh()
    return h + 0.1 * (m.body(h.detach()) + given_in).tanh()


def _scan(m: Any, tokens: Tensor) -> Tensor:
    x = m.embed(tokens)
    query, key, value, last = m.parts(x).chunk(4, -1)
    decay = m.gate(x).sigmoid()
    state = x.new_zeros(len(x), 4, 4)
    seen = []
    for step in range(x.shape[1]):
        state = decay[:, step, :, None] * state + key[:, step, :, None] * value[:, step, None, :]
        seen.append(torch.einsum("nk,nkv->nv", query[:, step], state))
    return m.out(torch.stack(seen, 1) * last.sigmoid())


def _mixture_loss(weights: Tensor, centres: Tensor, widths: Tensor, y: Tensor) -> Tensor:
    parts = torch.distributions.Normal(centres, F.softplus(widths) + 0.1)
    return -(weights.log_softmax(1) + parts.log_prob(y[:, None].to(centres))).logsumexp(1)


def _quantise(h: Tensor) -> Tensor:
    step = h.detach().amax() / 7
    return h + ((h / step).round().clamp(0, 7) * step - h).detach()


def _sinusoids(t: Tensor, size: int) -> Tensor:
    angles = t[:, None] * 3.0 ** torch.arange(size // 2).to(t)
    return torch.cat([angles.sin(), angles.cos()], 1)


def _denoising_loss(module: nn.Module, x: Tensor, whole: bool = False) -> Tensor:
    time, noise = torch.rand(len(x)).to(x), torch.randn_like(x)
    if whole:
        time = torch.randint(0, 20, (len(x),))
    t = time / 20 if whole else time
    blurred = t.cos()[:, None] * x + t.sin()[:, None] * noise
    return (module(blurred, time) - noise).square().mean(1)


def _masked(m: Any, tokens: Tensor) -> Tensor:
    h = m.embed(tokens)
    scores = m.score(h)[..., 0]
    scores.masked_fill_(tokens == 0, -1e9)
    total = torch.zeros_like(h[:, 0])
    for step, weight in enumerate(scores.softmax(1).unbind(1)):
        total += weight[:, None] * h[:, step]
    total[:, 0] *= 2
    return m.out(total.relu_())


def _winners(h: Tensor) -> Tensor:
    least = h.topk(max(h.shape[1] // 4, 1), 1).values[:, -1:]
    return torch.where(h >= least, h, 0.0)


def _evidence(m: Any, x: Tensor, y: Tensor) -> Tensor:
    h = m.features(x)
    apart = (h[:, :, None] - h[:, None]).square().sum(3)
    kernel = F.softplus(m.scale) * (-apart / 2).exp()
    kernel = kernel + (0.1 + F.softplus(m.noise)) * torch.eye(LENGTH).to(x)
    factor = torch.linalg.cholesky(kernel)
    white = torch.linalg.solve_triangular(factor, y[..., None], upper=False)[..., 0]
    return white.square().sum(1) / 2 + factor.diagonal(dim1=1, dim2=2).log().sum(1)


def _matching(m: Any, x: Tensor) -> Tensor:
    scores = m.body(x) @ m.places.t()
    for _ in range(4):
        scores = scores - scores.logsumexp(1, keepdim=True)
        scores = scores - scores.logsumexp(2, keepdim=True)
    return scores.exp()


def _clamped(m: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        m.body.weight.clamp_(-0.2, 0.2)
    return m.out(m.body(x).tanh())


def _weighed(m: Any, x: Tensor, y: Tensor) -> Tensor:
    out = m(x)
    value = (out["value"].flatten() - x.sum(1)).square()
    losses = torch.stack([F.cross_entropy(out["class"], y, reduction="none"), value], 1)
    return (losses * (-m.doubts).exp() + m.doubts).sum(1)


def _ragged(m: Any, tokens: Tensor) -> Tensor:
    words = tokens > 0
    h = m.embed(tokens)
    changed = h.clone()
    changed[words] = m.body(h[words]).tanh()
    return m.out((changed * words[..., None]).sum(1))
