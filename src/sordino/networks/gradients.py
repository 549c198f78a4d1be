"""Three ways to the sum of clipped gradients, and the loop that all of them must equal.

`OnePass` makes no gradient of a single example that it can do without, `Mapped` lets `torch.func`
make them all, `OneByOne` shows the module one example at a time: slow, and right by definition.
Which of them serves a module is found by trying (`trial.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sordino.networks.calls import Call, NotCaptured
from sordino.networks.capture import Capture
from sordino.networks.clipping import Clipping
from sordino.networks.uses import Placement, Single, Use, View, together, widened

Batch = tuple[Tensor, ...]
Losses = Callable[..., Tensor]
"""`losses(module, *batch)`: one loss for each example, in order."""
Uses = dict[str, list[Use]]


@dataclass(frozen=True)
class ModuleTask:
    """What is trained: a module, its losses, and those of its parameters that are trained.

    Parameters
    ----------
    module, losses
        As the user has them.
    parameters
        By name, in the module's order; a parameter that the module holds twice has one name.
    moving
        Buffers that a pass changes, though not with the data. If they moved with every pass, they
        would tell how many passes a batch took, and an example would change what others meet.
    """

    module: nn.Module
    losses: Losses
    parameters: Mapping[str, nn.Parameter]
    moving: tuple[str, ...] = ()

    @classmethod
    def of(cls, module: nn.Module, losses: Losses, moving: tuple[str, ...] = ()) -> ModuleTask:
        """Of all parameters that require a gradient."""
        trained = {name: each for name, each in module.named_parameters() if each.requires_grad}
        return cls(module, losses, trained, moving)

    @contextmanager
    def unmoved(self) -> Iterator[None]:
        """Put the buffers back: the same tensors, with the values that they had."""
        with kept(self.module, self.moving) if self.moving else nullcontext():
            yield

    def loss(self, batch: Batch) -> Tensor:
        """One loss for each example."""
        found = self.losses(self.module, *batch)
        many = len(batch[0])
        if not isinstance(found, Tensor) or tuple(found.shape) != (many,):
            raise NotOneEach(found, many)
        if not found.is_floating_point():
            raise NotOneEach(found, many)
        return found


@contextmanager
def kept(module: nn.Module, names: Iterable[str]) -> Iterator[None]:
    """Put buffers back: the same tensors with the values that they had; those made are removed."""
    held = []
    for name in names:
        owner, _, last = name.rpartition(".")
        buffers = module.get_submodule(owner)._buffers
        buffer = buffers.get(last)
        value = None if buffer is None else buffer.detach().clone()
        held.append((buffers, last, last in buffers, buffer, value))
    try:
        yield
    finally:
        for buffers, last, was, buffer, value in held:
            if not was:
                buffers.pop(last, None)
                continue
            if buffer is not None and value is not None:
                with torch.no_grad():
                    buffer.copy_(value)
            buffers[last] = buffer


class NotOneEach(Exception):
    """What `losses` returned is not one loss for each example; the text says what it is."""

    def __init__(self, found: object, many: int) -> None:
        shape = tuple(found.shape) if isinstance(found, Tensor) else None
        told = type(found).__name__ if shape is None else f"shape {shape}"
        told = f"{told} for {many} examples"
        if isinstance(found, Tensor) and shape == (many,):
            told = f"numbers of type {found.dtype}"
        super().__init__(told)
        self.hint = "Return a tensor of one loss an example, of shape (n,)."
        if shape == ():
            self.hint = "Return one loss an example: pass reduction='none', and take no mean."
        elif shape == (many, 1):
            self.hint = "Return shape (n,): squeeze(1) what the module gives, or the losses."
        elif shape is not None and shape[:1] == (many,):
            self.hint = "Take the mean of each example's own: losses.flatten(1).mean(1)."


class Changed(Exception):
    """The module did something else than when it was tried; the text says what."""


@dataclass
class Clipped:
    """A sum of clipped gradients, and what it was made of.

    Parameters
    ----------
    flat
        All numbers, parameter after parameter.
    sums
        The same for each parameter: parts of `flat`.
    examples
        How many were added.
    """

    flat: Tensor
    sums: dict[str, Tensor]
    examples: int = 0

    @classmethod
    def nothing(cls, parameters: Mapping[str, Tensor], dtype: torch.dtype | None) -> Clipped:
        """The sum over no examples."""
        first = next(iter(parameters.values()))
        many = sum(each.numel() for each in parameters.values())
        dtype = dtype or widened(first.new_empty(0)).dtype
        flat = torch.zeros(many, dtype=dtype, device=first.device)
        return cls(flat, parts_of(flat, parameters))


def parts_of(flat: Tensor, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Parts of a flat tensor, shaped as the parameters in their order."""
    sizes = [each.numel() for each in parameters.values()]
    named = zip(parameters.items(), torch.split(flat, sizes), strict=True)
    return {name: part.view(each.shape) for (name, each), part in named}


class Engine(ABC):
    """A way to the clipped sum over one piece of a batch."""

    name: str

    def __init__(self, task: ModuleTask) -> None:
        self.task = task

    def clipped(self, batch: Batch, clipping: Clipping) -> dict[str, Tensor]:
        """The sum of clipped gradients over all examples."""
        total = Clipped.nothing(self.task.parameters, None)
        self.add_clipped(batch, clipping, total.sums)
        return total.sums

    @abstractmethod
    def add_clipped(self, batch: Batch, clipping: Clipping, sums: Mapping[str, Tensor]) -> None:
        """Add the clipped gradient of every example to `sums`, in place."""

    @abstractmethod
    def single(self, batch: Batch) -> dict[str, Tensor]:
        """Every example's gradient, [example, ...], for each parameter; as `clipped` sees them."""


class OnePass(Engine):
    """One forward and one backward pass, in which every use of a parameter is caught.

    Parameters
    ----------
    task
        What is trained.
    layouts
        Where the examples are in the input of each call, with what the call was.
    """

    name = "one pass"

    def __init__(
        self, task: ModuleTask, layouts: Sequence[tuple[tuple[Any, ...], Placement]]
    ) -> None:
        super().__init__(task)
        self.layouts = list(layouts)

    def add_clipped(self, batch: Batch, clipping: Clipping, sums: Mapping[str, Tensor]) -> None:
        """Add the clipped gradient of every example to `sums`, in place."""
        uses = self._uses(batch)
        names, examples = list(self.task.parameters), len(batch[0])
        groups = clipping.groups(names)
        squares: dict[int, Tensor] = {}
        for name, group in zip(names, groups, strict=True):
            for use in uses[name]:
                squares[group] = squares.get(group, 0) + use.squares()
        zeros = batch[0].new_zeros(examples, dtype=_dtype(self.task))
        norms = torch.stack([squares.get(each, zeros) for each in range(max(groups) + 1)], 1).sqrt()
        factors = clipping.factors(norms)
        for name, group in zip(names, groups, strict=True):
            weights = factors[:, group].contiguous()
            for use in uses.pop(name):  # what is done with takes no more memory
                use.add_to(sums[name], weights)

    def single(self, batch: Batch) -> dict[str, Tensor]:
        """Every example's gradient."""
        found, examples = {}, len(batch[0])
        for name, uses in self._uses(batch).items():
            parameter = self.task.parameters[name]
            made = parameter.new_zeros(examples, *parameter.shape)
            for use in uses:
                use.view.place(made, (examples,)).add_(use.each())
            found[name] = made
        return found

    def _uses(self, batch: Batch) -> Uses:
        examples = len(batch[0])
        with self.task.unmoved():
            calls = captured(self.task, batch)
        if [signature(call) for call in calls] != [kind for kind, _ in self.layouts]:
            raise Changed("the parameters were used in another order")
        found: Uses = {name: [] for name in self.task.parameters}
        for call, (_, layout) in zip(calls, self.layouts, strict=True):
            for use in call.uses(layout, examples):
                found[use.view.name].append(use)
        for name, uses in found.items():
            if len(uses) > 1:
                found[name] = list(together(uses, whole(name, self.task.parameters[name])))
        return found


def whole(name: str, parameter: Tensor) -> View:
    """All of a parameter."""
    return View(name, tuple(parameter.shape), parameter.stride(), 0)


def signature(call: Call) -> tuple[Any, ...]:
    """What must be the same in every pass: the function and the parameters it used."""
    return call.kind, call.names


def captured(task: ModuleTask, batch: Batch) -> list[Call]:
    """One pass forwards and backwards, with every use of a parameter."""
    for name, parameter in task.parameters.items():
        if not parameter.is_contiguous():
            raise NotCaptured(f"the parameter {name} is not contiguous")
    before = {name: each.grad for name, each in task.parameters.items()}
    for parameter in task.parameters.values():
        parameter.grad = None
    try:
        with torch.enable_grad():
            with (seen := Capture(task.parameters, len(batch[0]))):
                losses = task.loss(batch)
            if losses.requires_grad:
                losses.sum().backward()  # type: ignore[no-untyped-call]
        for name, parameter in task.parameters.items():
            if parameter.grad is not None:
                raise NotCaptured(f"the gradient of {name} went another way")
    finally:
        for name, parameter in task.parameters.items():
            parameter.grad = before[name]
    return seen.calls


class _Held(nn.Module):
    """The module with its losses, as one module whose output is the losses."""

    def __init__(self, task: ModuleTask) -> None:
        super().__init__()
        self.module = task.module
        self._losses = task.losses

    def forward(self, *batch: Tensor) -> Tensor:
        """The losses of a batch."""
        return self._losses(self.module, *batch)


class _Separate(Engine):
    """Engines that make the gradient of every example."""

    def add_clipped(self, batch: Batch, clipping: Clipping, sums: Mapping[str, Tensor]) -> None:
        """Add the clipped gradient of every example to `sums`, in place."""
        names = list(self.task.parameters)
        groups = clipping.groups(names)
        for part in self._parts(batch):
            made = {name: widened(each) for name, each in self.single(part).items()}
            squares = made[names[0]].new_zeros(len(part[0]), max(groups) + 1)
            singles = {name: Single(whole(name, each[0]), each) for name, each in made.items()}
            for name, group in zip(names, groups, strict=True):
                squares[:, group] += singles[name].squares()
            factors = clipping.factors(squares.sqrt())
            for name, group in zip(names, groups, strict=True):
                sums[name].add_(singles[name].total(factors[:, group]))

    @abstractmethod
    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """Pieces whose single gradients are held at once."""


class Mapped(_Separate):
    """Every example's gradient by `torch.func.vmap` of `torch.func.grad`."""

    name = "torch.func"
    _held_numbers = 1 << 26

    def __init__(self, task: ModuleTask) -> None:
        super().__init__(task)
        held = _Held(task)
        rest = {name: each.detach() for name, each in held.named_buffers()}
        frozen = {name: each.detach() for name, each in held.named_parameters()}

        def loss(parameters: dict[str, Tensor], *example: Tensor) -> Tensor:
            batch = tuple(each.unsqueeze(0) for each in example)
            named = {**rest, **frozen, **parameters}
            found: Tensor = torch.func.functional_call(held, named, batch)
            return found.squeeze(0)

        def made(batch: Batch) -> dict[str, Tensor]:
            named = {f"module.{name}": each.detach() for name, each in task.parameters.items()}
            axes = (None, *(0 for _ in batch))
            mapped = torch.func.vmap(torch.func.grad(loss), axes, randomness="different")
            found: dict[str, Tensor] = mapped(named, *batch)
            return found

        self._made = made

    def single(self, batch: Batch) -> dict[str, Tensor]:
        """Every example's gradient."""
        made = self._made(batch)
        return {name: made[f"module.{name}"] for name in self.task.parameters}

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        numbers = sum(each.numel() for each in self.task.parameters.values())
        step = max(1, self._held_numbers // max(1, numbers))
        for start in range(0, len(batch[0]), step):
            yield tuple(each[start : start + step] for each in batch)


class OneByOne(_Separate):
    """One example after the other, each alone in its batch, and all with the same buffers."""

    name = "one by one"

    def single(self, batch: Batch) -> dict[str, Tensor]:
        """Every example's gradient."""
        parameters = list(self.task.parameters.values())
        found = {
            name: each.new_zeros(len(batch[0]), *each.shape)
            for name, each in self.task.parameters.items()
        }
        for place in range(len(batch[0])):
            with self.task.unmoved(), torch.enable_grad():
                loss = self.task.loss(tuple(each[place : place + 1] for each in batch))
                if not loss.requires_grad:
                    continue
                made = torch.autograd.grad(loss[0], parameters, allow_unused=True)
            for name, gradient in zip(found, made, strict=True):
                if gradient is not None:
                    found[name][place] = gradient.to_dense() if gradient.is_sparse else gradient
        return found

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        for place in range(len(batch[0])):
            yield tuple(each[place : place + 1] for each in batch)


def _dtype(task: ModuleTask) -> torch.dtype:
    return widened(next(iter(task.parameters.values())).new_empty(0)).dtype
