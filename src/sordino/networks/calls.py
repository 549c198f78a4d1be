"""`Call`: one use of parameters while a module runs, with what went in and what came back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from sordino.networks.uses import Placement, Use, View, widened


class NotCaptured(Exception):
    """A parameter is used in a way whose gradients of single examples are not known here."""


@dataclass
class Call:
    """One use of parameters: what went in, and what came back.

    Parameters
    ----------
    kind, names
        The function, and the parameters that it used: the same in every pass.
    make
        Uses, from inputs and gradients laid out as [example, place, ...].
    inputs
        What went in and is needed for a gradient.
    """

    kind: str
    names: tuple[str, ...]
    make: Callable[[list[Tensor], list[Tensor]], Iterator[Use]]
    inputs: tuple[Tensor, ...]
    versions: tuple[int, ...] = ()
    gradients: list[Tensor | None] = field(default_factory=lambda: [None])
    leaf: Tensor | None = None

    def __post_init__(self) -> None:
        self.inputs = tuple(each.detach() for each in self.inputs)
        self.versions = tuple(each._version for each in self.inputs)

    def caught(self, gradient: Tensor, place: int = 0) -> None:
        """Keep what came back."""
        self.gradients[place] = gradient.detach()

    def uses(self, layout: Placement, examples: int) -> Iterator[Use]:
        """What the pass used here; nothing if no gradient came back."""
        if self.leaf is not None:
            if self.leaf.grad is not None:
                yield from self.make([], [widened(self.leaf.grad)])
            return
        back = [each for each in self.gradients if each is not None]
        if len(back) < len(self.gradients):
            return
        for tensor, version in zip(self.inputs, self.versions, strict=True):
            if tensor._version != version:
                raise NotCaptured(f"What went into {self.kind} was changed in place afterwards")
        # Under autocast the two differ in type; and sums of many numbers need more than 16 bits.
        laid = [layout.rows(widened(each), examples) for each in self.inputs]
        yield from self.make(laid, [layout.rows(widened(each), examples) for each in back])


class Seen(Protocol):
    """What a stand-in for a function of torch is given: to find parameters, and to record."""

    calls: list[Call]

    def view(self, tensor: Any) -> View | None:
        """Which part of which parameter a tensor is, if it is one."""
        ...

    def plain(self, tensor: Any) -> Any:
        """The same without a gradient, if it is a parameter."""
        ...

    def token(self, like: Tensor) -> Tensor:
        """What lets the output of a function need a gradient where no input does."""
        ...


def tensors_in(values: Any) -> Iterator[Tensor]:
    """All tensors, however deep in lists and dictionaries."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())
