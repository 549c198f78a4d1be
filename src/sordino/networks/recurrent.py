"""LSTM, GRU and plain recurrent layers, step by step, so that what comes back to each is seen.

Torch does a whole layer in one call. Here the products with the inputs of all steps are one, the
rest is a loop, and its backward pass keeps the gradients of all gates: with the inputs and hidden
states before them they are all that gradients of single examples are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from sordino.networks.calls import Call, NotCaptured, Seen
from sordino.networks.uses import Product, Rows, Use

_Kept = tuple[Tensor, ...]


def handler(kind: str) -> Callable[..., Any]:
    """What stands in for `torch.lstm`, `torch.gru`, `torch.rnn_tanh` or `torch.rnn_relu`."""

    def run(seen: Seen, *args: Any) -> Any:
        if isinstance(args[3], list | tuple):
            raise NotCaptured("a recurrent layer with packed sequences")
        x, start, weights, biased, layers, dropout, train, both, batch_first = args
        directions, each = 2 if both else 1, 4 if biased else 2
        if len(weights) != layers * directions * each:
            raise NotCaptured("a recurrent layer with projections")
        states = tuple(start) if kind == "lstm" else (start,)
        x = x.transpose(0, 1) if batch_first else x
        last: list[list[Tensor]] = []
        for layer in range(layers):
            outputs = []
            for direction in range(directions):
                place = layer * directions + direction
                own = weights[place * each : (place + 1) * each]
                first = [state[place] for state in states]
                output, *ends = _layer(seen, kind, x, first, own, backwards=direction == 1)
                outputs.append(output)
                last.append(ends)
            x = torch.cat(outputs, 2) if both else outputs[0]
            if dropout and train and layer < layers - 1:
                x = functional.dropout(x, dropout, True)
        ends = [torch.stack(each) for each in zip(*last, strict=True)]
        return (x.transpose(0, 1) if batch_first else x, *ends)

    return run


def _layer(
    seen: Seen,
    kind: str,
    x: Tensor,
    first: Sequence[Tensor],
    weights: Sequence[Tensor],
    *,
    backwards: bool,
) -> Any:
    views = [seen.view(weight) for weight in weights]
    plain = [seen.plain(weight) for weight in weights]

    def make(inputs: list[Tensor], gradients: list[Tensor]) -> Iterator[Use]:
        back = [each.flatten(1, -2) for each in gradients]
        rows = [each.flatten(1, -2) for each in inputs]
        # Gates' gradients as the input's product has them, and as the hidden state's has them.
        pairs = (rows[0], back[0]), (rows[1], back[-1])
        for view, (inner, outer) in zip(views[:2], pairs, strict=True):
            if view is not None:
                yield Product(view, inner, outer)
        for view, outer in zip(views[2:], (back[0], back[-1]), strict=False):  # or no bias
            if view is not None:
                yield Rows(view, outer)

    names = tuple(view.name for view in views if view is not None)
    call = Call(kind, names, make, (x,))
    call.gradients = [None] * (2 if kind == "gru" else 1)
    seen.calls.append(call)
    return _Unrolled.apply(seen.token(x), x, *first, call, plain, kind, backwards)  # type: ignore[no-untyped-call]


class _Unrolled(torch.autograd.Function):
    """One layer in one direction: inputs [step, example, column] to outputs and last states."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, x: Tensor, *rest: Any) -> Any:
        *first, call, weights, kind, backwards = rest
        ctx.call, ctx.weights, ctx.kind, ctx.backwards = call, weights, kind, backwards
        input_weight, hidden_weight, *biases = weights
        inner = functional.linear(x, input_weight, biases[0] if biases else None)
        bias = biases[1] if biases else None
        cell = _CELLS[kind][0]
        steps = range(len(x) - 1, -1, -1) if backwards else range(len(x))
        states, hidden, kept = tuple(first), x.new_empty(*x.shape[:2], first[0].shape[-1]), []
        before = torch.empty_like(hidden)
        for step in steps:
            before[step] = states[0]
            outer = functional.linear(states[0], hidden_weight, bias)
            states, memory = cell(inner[step], outer, states)
            hidden[step] = states[0]
            kept.append(memory)
        ctx.steps, ctx.kept, ctx.needs_x = list(steps), kept, x.requires_grad
        call.inputs = (x.detach(), before)
        call.versions = tuple(each._version for each in call.inputs)
        return hidden, *(each.clone() for each in states)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        of_hidden, *of_states = gradients
        input_weight, hidden_weight, *_ = ctx.weights
        cell = _CELLS[ctx.kind][1]
        gates: list[Tensor] = []
        states = tuple(of_states)
        for step, memory in zip(reversed(ctx.steps), reversed(ctx.kept), strict=True):
            states = (states[0] + of_hidden[step], *states[1:])
            made, states = cell(memory, states)
            if not gates:
                gates = [each.new_empty(len(ctx.steps), *each.shape) for each in made]
            for all_steps, each in zip(gates, made, strict=True):
                all_steps[step] = each
            states = (states[0] + made[-1] @ hidden_weight, *states[1:])
        for place, each in enumerate(gates):
            ctx.call.caught(each, place)
        of_x = gates[0] @ input_weight if ctx.needs_x else None
        return None, of_x, *states, None, None, None, None


def _lstm(inner: Tensor, outer: Tensor, states: _Kept) -> tuple[_Kept, _Kept]:
    gates = inner + outer
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cell = f * states[1] + i * g
    tanh = cell.tanh()
    return (o * tanh, cell), (i, f, g, o, states[1], tanh)


def _lstm_back(kept: _Kept, states: _Kept) -> tuple[list[Tensor], _Kept]:
    i, f, g, o, before, tanh = kept
    of_hidden, of_cell = states
    of_cell = of_cell + of_hidden * o * (1 - tanh * tanh)
    gates = torch.cat(
        [
            of_cell * g * i * (1 - i),
            of_cell * before * f * (1 - f),
            of_cell * i * (1 - g * g),
            of_hidden * tanh * o * (1 - o),
        ],
        1,
    )
    return [gates], (torch.zeros_like(of_hidden), of_cell * f)


def _gru(inner: Tensor, outer: Tensor, states: _Kept) -> tuple[_Kept, _Kept]:
    xr, xz, xn = inner.chunk(3, 1)
    hr, hz, hn = outer.chunk(3, 1)
    r, z = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    n = (xn + r * hn).tanh()
    return ((1 - z) * n + z * states[0],), (r, z, n, hn, states[0])


def _gru_back(kept: _Kept, states: _Kept) -> tuple[list[Tensor], _Kept]:
    r, z, n, hn, before = kept
    (of_hidden,) = states
    of_n = of_hidden * (1 - z) * (1 - n * n)
    of_z = of_hidden * (before - n) * z * (1 - z)
    of_r = of_n * hn * r * (1 - r)
    inner = torch.cat([of_r, of_z, of_n], 1)
    return [inner, torch.cat([of_r, of_z, of_n * r], 1)], (of_hidden * z,)


def _tanh(inner: Tensor, outer: Tensor, states: _Kept) -> tuple[_Kept, _Kept]:
    hidden = (inner + outer).tanh()
    return (hidden,), (hidden,)


def _tanh_back(kept: _Kept, states: _Kept) -> tuple[list[Tensor], _Kept]:
    return [states[0] * (1 - kept[0] * kept[0])], (torch.zeros_like(states[0]),)


def _relu(inner: Tensor, outer: Tensor, states: _Kept) -> tuple[_Kept, _Kept]:
    hidden = (inner + outer).relu()
    return (hidden,), (hidden,)


def _relu_back(kept: _Kept, states: _Kept) -> tuple[list[Tensor], _Kept]:
    return [states[0] * (kept[0] > 0)], (torch.zeros_like(states[0]),)


_CELLS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "lstm": (_lstm, _lstm_back),
    "gru": (_gru, _gru_back),
    "rnn_tanh": (_tanh, _tanh_back),
    "rnn_relu": (_relu, _relu_back),
}
