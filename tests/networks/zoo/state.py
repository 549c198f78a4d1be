"""Modules that change when they are called."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it
from torch import Tensor, nn

from zoo.parts import (
    add,
    cross_entropy,
    given,
    labelled,
    normal,
    only,
)


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
