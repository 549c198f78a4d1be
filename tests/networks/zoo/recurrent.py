"""Recurrent networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import rnn

from zoo.parts import (
    CLASSES,
    LENGTH,
    VOCABULARY,
    Net,
    add,
    cross_entropy,
    given,
    labelled,
    normal,
    padded,
    texts,
)


class Recurrent(nn.Module):
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
    lambda: Recurrent(nn.LSTM(6, 8, batch_first=True), 8),
    *(cross_entropy, texts(), "All steps in one call into torch."),
)
add(
    "lstm-steps-first",
    lambda: Recurrent(nn.LSTM(6, 8), 8),
    *(cross_entropy, texts(), "torch's default order: (steps, examples, features)."),
)
add(
    "lstm-bidirectional",
    lambda: Recurrent(nn.LSTM(6, 4, num_layers=2, bidirectional=True, batch_first=True), 8),
    *(cross_entropy, texts(), "Two layers, two directions."),
)
add(
    "lstm-projected",
    lambda: Recurrent(nn.LSTM(6, 8, proj_size=4, batch_first=True), 4),
    *(cross_entropy, texts(), "A third weight, from state to output."),
)
add(
    "gru",
    lambda: Recurrent(nn.GRU(6, 8, batch_first=True), 8),
    *(cross_entropy, texts(), "Its candidate has its own bias inside a gate."),
)
add(
    "gru-without-bias",
    lambda: Recurrent(nn.GRU(6, 8, bias=False), 8),
    *(cross_entropy, texts(), "No bias, steps first."),
)
add(
    "rnn",
    lambda: Recurrent(nn.RNN(6, 8, nonlinearity="relu", batch_first=True), 8),
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
