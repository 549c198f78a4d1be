"""What all entries are made of: the entry itself, a module from its parts, losses, inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it
from torch import Tensor, nn

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


# Losses: one number an example


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


def two_losses(out: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    value = (out["value"][:, 0] - x.sum(1)).square()
    return F.cross_entropy(out["class"], y, reduction="none") + 0.5 * value


# Inputs


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


# Networks that several entries use


def mlp(norm: Callable[[], nn.Module] | None = None) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        middle = [norm()] if norm else []
        return nn.Sequential(
            nn.Linear(6, 8),
            *middle,
            nn.ReLU(),
            nn.Linear(8, 7),
            nn.Tanh(),
            nn.Linear(7, 3),
        )

    return make


def bag_of(embed: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: Net(
        lambda m, tokens: m.out(m.embed(tokens).mean(1).tanh()), embed=embed(), out=nn.Linear(6, 3)
    )
