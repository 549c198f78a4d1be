"""Uses of a parameter: what the gradient of every single example is made of (docs/math.md 15).

A layer's gradient for one example is a product of what went into the layer and of the gradient that
came back to its output. Its norm and the clipped sum over all examples follow from these two, and a
gradient of a single example is made only where that is cheaper.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.linalg import vector_norm

_ROUNDING = 8.0
"""Units of the last place, of the largest sum that a norm is made of, by which it is raised."""
_PIECE = 1 << 21
"""Numbers made at a time, so that they stay in the processor's cache."""
_KEPT = 1 << 22
"""Most numbers of single gradients that are kept from the norms for the sum."""


@dataclass(frozen=True)
class View:
    """A part of a parameter, as strides over the parameter's own storage.

    Parameters
    ----------
    name
        Of the parameter.
    size, stride, offset
        As of a tensor; the offset counts from the parameter's first number.
    """

    name: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @property
    def t(self) -> View:
        """The transpose of a matrix."""
        return View(self.name, self.size[::-1], self.stride[::-1], self.offset)

    def place(self, whole: Tensor, leading: Sequence[int] = ()) -> Tensor:
        """Find the part in a contiguous tensor shaped like the parameter, behind `leading` axes."""
        strides = whole.stride()[: len(leading)]
        first = int(whole.storage_offset()) + self.offset  # a tensor may be a part itself
        return whole.as_strided((*leading, *self.size), (*strides, *self.stride), first)

    @property
    def span(self) -> tuple[int, int]:
        """From which number to before which other it reaches."""
        reach = sum((many - 1) * step for many, step in zip(self.size, self.stride, strict=True))
        return self.offset, self.offset + reach + 1


@dataclass(frozen=True)
class Placement:
    """Where the examples are in a tensor.

    Parameters
    ----------
    axis
        The axis along which they are.
    fold
        Places of that axis that belong to each example.
    outer
        Whether an example's places are neighbours (its number varies slowest).
    """

    axis: int = 0
    fold: int = 1
    outer: bool = True

    def rows(self, tensor: Tensor, examples: int) -> Tensor:
        """As [example, place, ...], without a copy where that is possible."""
        moved = tensor.movedim(self.axis, 0) if self.axis else tensor
        if self.outer:
            return moved.reshape(examples, self.fold, *moved.shape[1:])
        return moved.reshape(self.fold, examples, *moved.shape[1:]).transpose(0, 1)


class Use(ABC):
    """One use of a part of a parameter by a batch; gradients are of the sum of all losses.

    Attributes
    ----------
    view
        Which part of which parameter.
    examples
        How many.
    """

    view: View
    examples: int

    @abstractmethod
    def squares(self) -> Tensor:
        """Squared norm of every example's gradient, rounded up: [example]."""

    @abstractmethod
    def each(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Gradients of single examples: [example, *view.size]."""

    def parts(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Norms of what is added up for every example, before anything cancels: [example]."""
        return _norms(self.each(start, stop))

    @abstractmethod
    def total(self, weights: Tensor) -> Tensor:
        """The sum of all gradients, each times its weight: [*view.size]."""

    def add_to(self, sums: Tensor, weights: Tensor) -> None:
        """Add that sum to the parameter's, in place."""
        self.view.place(sums).add_(self.total(weights))


@dataclass
class Single(Use):
    """A gradient of every single example, made already."""

    view: View
    gradients: Tensor

    def __post_init__(self) -> None:
        self.examples = len(self.gradients)

    def squares(self) -> Tensor:
        """Squared norm of every example's gradient."""
        return _raised(_squares(self.gradients))

    def each(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Gradients of single examples."""
        return self.gradients[start:stop]

    def total(self, weights: Tensor) -> Tensor:
        """The weighted sum."""
        return _weighted(weights, self.gradients)


@dataclass
class Rows(Use):
    """What is added at every place, such as a bias: gradients [example, place, column]."""

    view: View
    gradients: Tensor

    def __post_init__(self) -> None:
        self.examples = len(self.gradients)

    @cached_property
    def _summed(self) -> Tensor:
        flat = self.gradients
        return flat[:, 0] if flat.shape[1] == 1 else flat.sum(1)

    def squares(self) -> Tensor:
        """Squared norm of every example's gradient."""
        return _raised(_squares(self._summed))

    def each(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Gradients of single examples."""
        return self._summed[start:stop].reshape(-1, *self.view.size)

    def total(self, weights: Tensor) -> Tensor:
        """The weighted sum."""
        return (weights @ self._summed).reshape(self.view.size)


@dataclass
class Product(Use):
    """A matrix: inputs [example, place, input] and gradients of outputs [example, place, output].

    The gradient of an example is the product of the two over its places. Its norm comes from that
    product, or from the products of places with places, whichever takes less.
    """

    view: View
    inputs: Tensor
    gradients: Tensor
    _made: Tensor | None = None

    def __post_init__(self) -> None:
        self.examples = len(self.gradients)

    @property
    def _by_places(self) -> bool:
        places, d, p = self.inputs.shape[1], self.inputs.shape[2], self.gradients.shape[2]
        # Multiplications of each way; what is written and read again counts as much as eight.
        return places * places * (d + p) + 8 * places * places < d * p * 8

    def squares(self) -> Tensor:
        """Squared norm of every example's gradient."""
        inputs, gradients = self.inputs, self.gradients
        if inputs.shape[1] == 1:
            return _raised(_squares(inputs[:, 0]) * _squares(gradients[:, 0]))
        if not self._by_places:
            return self._squares_of_products()
        found, places = gradients.new_empty(self.examples), inputs.shape[1]
        for part in pieces(self.examples, places * places):
            a, b = inputs[part], gradients[part]
            a, b = a @ a.transpose(1, 2), b @ b.transpose(1, 2)
            found[part] = (a.flatten(1) * b.flatten(1)).sum(1)
        # A sum of places with places may cancel, so its rounding is counted by its parts.
        return found.add_(self.parts().square_(), alpha=_unit(found)).clamp_(min=0)

    def parts(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Norms of what is added up for every example."""
        a, b = self.inputs[start:stop], self.gradients[start:stop]
        norms: Tensor = vector_norm(a, dim=2) * vector_norm(b, dim=2)
        return norms.sum(1)

    def _squares_of_products(self) -> Tensor:
        size = self.inputs.shape[2] * self.gradients.shape[2]
        found = self.gradients.new_empty(self.examples)
        kept = size * self.examples <= _KEPT
        if kept:
            self._made = self.gradients.new_empty(
                self.examples, self.gradients.shape[2], self.inputs.shape[2]
            )
        for part in pieces(self.examples, size):
            out = None if self._made is None else self._made[part]
            made = torch.bmm(self.gradients[part].transpose(1, 2), self.inputs[part], out=out)
            found[part] = _squares(made)
        if not kept:  # it is made again in another order, and what cancels may do so otherwise
            found.add_(self.parts().square_(), alpha=_unit(found))
        return _raised(found)

    def each(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Gradients of single examples."""
        if self._made is not None:
            return self._made[start:stop].reshape(-1, *self.view.size)
        made = self.gradients[start:stop].transpose(1, 2) @ self.inputs[start:stop]
        return made.reshape(-1, *self.view.size)

    def total(self, weights: Tensor) -> Tensor:
        """The weighted sum: of gradients that were made, or one product."""
        if self._made is not None:
            return _weighted(weights, self._made).reshape(self.view.size)
        return torch.mm(*self._pair(weights)).reshape(self.view.size)

    def add_to(self, sums: Tensor, weights: Tensor) -> None:
        """Add that sum to the parameter's, in place."""
        narrow = sums.dtype != weights.dtype
        if self._made is not None or len(self.view.size) != 2 or narrow:
            super().add_to(sums, weights)
        else:
            self.view.place(sums).addmm_(*self._pair(weights))

    def _pair(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        scaled = self.gradients * weights[:, None, None]
        return scaled.flatten(0, 1).t(), self.inputs.flatten(0, 1)


@dataclass
class Convolution(Use):
    """A kernel: images [example, place, channel, ...], gradients of outputs laid out alike.

    Parameters
    ----------
    view
        The kernel's: [output, input of the group, ...].
    inputs, gradients
        Images that are slid over, and what came back for each position.
    stride, padding, dilation, groups
        As of the layer, one number for each axis of the images.
    transposed
        Whether the layer is a transposed one: the two change places, and so do the kernel's axes.
    """

    view: View
    inputs: Tensor
    gradients: Tensor
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int
    _made: Tensor | None = None

    def __post_init__(self) -> None:
        self.examples = len(self.gradients)

    @property
    def _work(self) -> int:
        """Numbers of an example when it is written out, and of its gradient."""
        windows = prod(self.gradients.shape[3:]) * self.inputs.shape[1]
        return windows * self.inputs.shape[2] * prod(self.view.size[2:]) + prod(self.view.size)

    def _windows(self, part: slice) -> tuple[Tensor, Tensor]:
        """Inputs [example * group, place, input] and gradients [example * group, output, place]."""
        images, back = self.inputs[part], self.gradients[part]
        n, fold, channels = images.shape[:3]
        kernel, axes = self.view.size[2:], len(self.view.size) - 2
        images = images.flatten(0, 1)
        if any(any(side) for side in self.padding):
            sides = [side for pair in reversed(self.padding) for side in pair]
            images = torch.nn.functional.pad(images, sides)
        for axis in range(axes):
            reach = self.dilation[axis] * (kernel[axis] - 1) + 1
            images = images.unfold(2 + axis, reach, self.stride[axis])
            images = images.narrow(2 + axis, 0, back.shape[3 + axis])
        if any(each > 1 for each in self.dilation):
            steps: Any = (..., *(slice(None, None, each) for each in self.dilation))
            images = images[steps]
        inside = channels // self.groups
        shape = (n, fold, self.groups, inside, *images.shape[2:])
        images = images.reshape(shape)
        # [n, group, fold, *places, inside, *kernel]
        places = range(4, 4 + axes)
        kernels = range(4 + axes, 4 + 2 * axes)
        images = images.permute(0, 2, 1, *places, 3, *kernels)
        width = inside * prod(kernel)
        rows = images.reshape(n * self.groups, -1, width)
        outputs = back.shape[2] // self.groups
        back = back.reshape(n, fold, self.groups, outputs, -1).permute(0, 2, 3, 1, 4)
        return rows, back.reshape(n * self.groups, outputs, -1)

    def _product(self, part: slice) -> Tensor:
        rows, back = self._windows(part)
        made = torch.bmm(back, rows)
        return made.reshape(-1, self.groups * back.shape[1], rows.shape[2])

    def squares(self) -> Tensor:
        """Squared norm of every example's gradient."""
        found = self.gradients.new_empty(self.examples)
        kept = prod(self.view.size) * self.examples <= _KEPT
        for part in pieces(self.examples, self._work):
            product = self._product(part)
            found[part] = _squares(product)
            if kept and self._made is None:
                self._made = product.new_empty(self.examples, *product.shape[1:])
            if self._made is not None:
                self._made[part] = product
        return _raised(found)

    def each(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Gradients of single examples."""
        made = self._product(slice(start, stop)) if self._made is None else self._made[start:stop]
        return made.reshape(-1, *self.view.size)

    def total(self, weights: Tensor) -> Tensor:
        """The weighted sum."""
        if self._made is not None:
            return _weighted(weights, self._made).reshape(self.view.size)
        found = weights.new_zeros(self.view.size)
        for part in pieces(self.examples, self._work):
            found += _weighted(weights[part], self._product(part)).reshape(self.view.size)
        return found


@dataclass
class Lookup(Use):
    """Rows of a table that were looked up: indices [example, place], gradients [.., .., column]."""

    view: View
    indices: Tensor
    gradients: Tensor

    def __post_init__(self) -> None:
        self.examples = len(self.gradients)

    @cached_property
    def _merged(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of every row that an example looked up: example, row, and the sum of its gradients."""
        rows = self.view.size[0]
        first = torch.arange(self.examples, device=self.indices.device)[:, None] * rows
        keys, where = torch.unique((first + self.indices).flatten(), return_inverse=True)
        merged = self.gradients.new_zeros(len(keys), self.gradients.shape[2])
        merged.index_add_(0, where, self.gradients.flatten(0, 1))
        return keys // rows, keys % rows, merged

    def squares(self) -> Tensor:
        """Squared norm of every example's gradient."""
        example, _, merged = self._merged
        found = merged.new_zeros(self.examples)
        return _raised(found.index_add_(0, example, _squares(merged)))

    def each(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Gradients of single examples."""
        example, row, merged = self._merged
        stop = self.examples if stop is None else stop
        mine = (example >= start) & (example < stop)
        made = merged.new_zeros(stop - start, *self.view.size)
        made[example[mine] - start, row[mine]] = merged[mine]
        return made

    def total(self, weights: Tensor) -> Tensor:
        """The weighted sum."""
        example, row, merged = self._merged
        found = merged.new_zeros(self.view.size)
        return found.index_add_(0, row, merged * weights[example][:, None])


@dataclass
class Together(Use):
    """Several uses of one parameter, whose gradients add up before they have a norm."""

    view: View
    uses: Sequence[Use]

    def __post_init__(self) -> None:
        self.examples = self.uses[0].examples

    def each(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Gradients of single examples."""
        stop = self.examples if stop is None else stop
        first = self.uses[0].each(start, stop)
        made = first.new_zeros(stop - start, *self.view.size)
        for use in self.uses:
            use.view.place(made, made.shape[:1]).add_(use.each(start, stop))
        return made

    def squares(self) -> Tensor:
        """Squared norm of every example's gradient."""
        found = []
        for part in pieces(self.examples, prod(self.view.size)):
            made = self.each(part.start, part.stop)
            # The sum is made use by use, and what cancels here may do so there only nearly.
            parts = sum(use.parts(part.start, part.stop) for use in self.uses)
            found.append(_squares(made) + _unit(made) * parts**2)
        return _raised(torch.cat(found))

    def total(self, weights: Tensor) -> Tensor:
        """The weighted sum."""
        found = weights.new_zeros(self.view.size)
        for use in self.uses:
            use.view.place(found).add_(use.total(weights))
        return found


def together(uses: Sequence[Use], whole: View) -> Iterator[Use]:
    """The uses of one parameter, as some whose gradients have nothing in common.

    Matrices that were used alike are one product over more places; parts that do not overlap stay
    apart.
    """
    by_view: dict[View, list[Use]] = {}
    for use in uses:
        by_view.setdefault(use.view, []).append(use)
    merged = [_merge(alike) for alike in by_view.values()]
    spans = sorted(use.view.span for group in merged for use in group)
    apart = all(end <= start for (_, end), (start, _) in pairwise(spans))
    if apart:
        yield from (use for group in merged for use in group)
    else:
        yield Together(whole, [use for group in merged for use in group])


def _merge(uses: list[Use]) -> list[Use]:
    """Uses of one view: products are one product, over the places of all."""
    if len(uses) == 1:
        return uses
    if all(isinstance(use, Product) for use in uses):
        parts: Any = uses
        inputs = torch.cat([part.inputs for part in parts], 1)
        return [Product(uses[0].view, inputs, torch.cat([part.gradients for part in parts], 1))]
    if all(isinstance(use, Rows) for use in uses):
        parts = uses
        return [Rows(uses[0].view, torch.cat([part.gradients for part in parts], 1))]
    if all(isinstance(use, Lookup) for use in uses):
        parts = uses
        indices = torch.cat([part.indices for part in parts], 1)
        return [Lookup(uses[0].view, indices, torch.cat([part.gradients for part in parts], 1))]
    return uses


def widened(tensor: Tensor) -> Tensor:
    """In float32 at least: a sum of 300 equal numbers is 256 of them in bfloat16."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def pieces(many: int, size: int) -> Iterator[slice]:
    """Consecutive parts of so many examples, of about `_PIECE` numbers each."""
    step = max(1, _PIECE // max(1, size))
    return (slice(start, min(many, start + step)) for start in range(0, many, step))


def _weighted(weights: Tensor, gradients: Tensor) -> Tensor:
    """The sum over examples, each times its weight."""
    return (weights @ gradients.reshape(len(gradients), -1)).reshape(gradients.shape[1:])


def _squares(each: Tensor) -> Tensor:
    """Squared norm of every example's part."""
    return _norms(each).square_()


def _norms(each: Tensor) -> Tensor:
    norms: Tensor = vector_norm(each.reshape(len(each), -1), dim=1)
    return norms


def _unit(like: Tensor) -> float:
    return _ROUNDING * torch.finfo(like.dtype).eps


def _raised(squares: Tensor) -> Tensor:
    """Sums of squares, raised by what rounding may have taken."""
    return squares.mul_(1 + _unit(squares))
