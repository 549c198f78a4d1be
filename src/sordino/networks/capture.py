"""`Capture`: sees what every trained parameter is used for while a module runs.

The module is not changed. While it runs, every function of torch that is given a trained parameter
is done with a copy that needs no gradient, and what went in is remembered; what comes back to its
output in the backward pass is caught. So one ordinary forward and one backward pass, which makes no
gradient of a parameter at all, leave everything that `uses.py` needs, however the module calls its
layers: by submodules, functions or its own products, once or several times, whole or in parts.

What is not understood is refused (`NotCaptured`): then gradients of single examples come from
`torch.func` or from one example after the other (`gradients.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from sordino.networks import recurrent
from sordino.networks.calls import Call, NotCaptured, tensors_in
from sordino.networks.uses import Convolution, Lookup, Product, Rows, Single, Use, View

_Handler = Callable[..., Any]
_HANDLERS: dict[Any, _Handler] = {}
_OPENED: dict[Any, FunctionType] = {}
_PLAIN: Any = Tensor
_NO_GRADIENT = (Tensor.detach, torch.detach, _PLAIN.data.__get__, _PLAIN.grad.__get__)
_WITHOUT_OVERRIDES = {
    name: lambda *_: False
    for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
}


class _First(torch.autograd.Function):
    """What nothing before it needs a gradient of: its own is caught and goes no further."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, compute: Callable[[], Tensor], call: Call) -> Tensor:
        ctx.call = call
        return compute()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:
        ctx.call.caught(gradient)
        return None, None, None


class Capture(TorchFunctionMode):
    """Remembers every use of the parameters while it is entered.

    Parameters
    ----------
    parameters
        Those that are trained, by name, contiguous.
    examples
        How many the batch has.
    """

    def __init__(self, parameters: Mapping[str, Tensor], examples: int) -> None:
        super().__init__()
        self.examples = examples
        self.calls: list[Call] = []
        self._kept: list[Tensor] = []
        self._views: dict[int, View] = {}
        self._parameters = dict(parameters)
        self._token: Tensor | None = None
        for name, parameter in parameters.items():
            view = View(name, tuple(parameter.shape), parameter.stride(), 0)
            self._views[id(parameter)] = view
            self._kept.append(parameter)

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        views = self._views
        found = [each for each in tensors_in((*args, *kwargs.values())) if id(each) in views]
        if not found or not torch.is_grad_enabled() or func in _NO_GRADIENT:
            return func(*args, **kwargs)
        handler = _HANDLERS.get(func)
        if handler is not None:
            return handler(self, *args, **kwargs)
        if opened := _opened(func):
            with self:
                return opened(*args, **kwargs)
        return self._other(func, found, args, kwargs)

    # What handlers use

    def view(self, tensor: Any) -> View | None:
        """Which part of which parameter a tensor is, if it is one."""
        return self._views.get(id(tensor))

    def plain(self, tensor: Any) -> Any:
        """The same without a gradient, if it is a parameter."""
        return tensor.detach() if id(tensor) in self._views else tensor

    def record(
        self,
        kind: str,
        views: Sequence[View | None],
        inputs: Sequence[Tensor],
        compute: Callable[[], Tensor],
        make: Callable[[list[Tensor], list[Tensor]], Iterator[Use]],
    ) -> Tensor:
        """Do what the function does, and remember it."""
        names = tuple(view.name for view in views if view is not None)
        call = Call(kind, names, make, tuple(inputs))
        self.calls.append(call)
        if any(each.requires_grad for each in inputs if each.is_floating_point()):
            output = compute()
            output.register_hook(call.caught)  # type: ignore[no-untyped-call]
            return output
        found: Tensor = _First.apply(self.token(inputs[0]), compute, call)  # type: ignore[no-untyped-call]
        return found

    def leaf(self, kind: str, view: View, tensor: Tensor, axis: int = 0) -> Tensor:
        """A copy for every example, along an axis that is as long as there are examples."""
        copy = tensor.requires_grad_()

        def make(inputs: list[Tensor], gradients: list[Tensor]) -> Iterator[Use]:
            yield Single(view, gradients[0].movedim(axis, 0).reshape(self.examples, *view.size))

        call = Call(kind, (view.name,), make, ())
        call.leaf = copy
        self.calls.append(call)
        return copy

    def token(self, like: Tensor) -> Tensor:
        """What lets the output of a function need a gradient where no input does."""
        if self._token is None:
            self._token = torch.zeros((), device=like.device, requires_grad=True)
        return self._token

    def _other(self, func: Any, found: list[Tensor], args: Any, kwargs: Any) -> Any:
        """Attributes and views of a parameter are followed; anything else is not."""
        name = getattr(func, "__name__", str(func))
        result = func(*_replaced(args, self.plain), **_replaced(kwargs, self.plain))
        made = list(tensors_in((result,)))
        if not made:
            # Attributes are asked of the parameter itself: its copy needs no gradient.
            return func(*args, **kwargs)
        for tensor in made:
            parameter = self._views[id(found[0])].name
            whole = self._parameters[parameter]
            if tensor.untyped_storage().data_ptr() != whole.untyped_storage().data_ptr():
                raise NotCaptured(f"{name} of the parameter {parameter}")
            # An axis of copies, or the same memory read as other numbers.
            copied = any(step == 0 and many > 1 for step, many in _axes(tensor))
            if copied or tensor.dtype != whole.dtype:
                raise NotCaptured(f"{name} of the parameter {parameter}")
            offset = int(tensor.storage_offset()) - int(whole.storage_offset())
            view = View(parameter, tuple(tensor.shape), tensor.stride(), offset)
            self._views[id(tensor)] = view
            self._kept.append(tensor)
        return result


def _axes(tensor: Tensor) -> Iterator[tuple[int, int]]:
    return zip(tensor.stride(), tensor.shape, strict=True)


def _replaced(value: Any, by: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(each, by) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_replaced(each, by) for each in value)
    return by(value)


def _opened(func: Any) -> FunctionType | None:
    """A function of torch written in Python, as one whose inner calls are seen, too."""
    if func not in _OPENED and getattr(func, "__module__", "") == functional.__name__:
        code = getattr(func, "__code__", None)
        if code is not None:
            names = {**func.__globals__, **_WITHOUT_OVERRIDES}
            copy = FunctionType(code, names, func.__name__, func.__defaults__, func.__closure__)
            copy.__kwdefaults__ = func.__kwdefaults__
            _OPENED[func] = copy
    return _OPENED.get(func)


# What is understood -------------------------------------------------------------------------------


def _handles(*functions: Any) -> Callable[[_Handler], _Handler]:
    def register(handler: _Handler) -> _Handler:
        _HANDLERS.update(dict.fromkeys(functions, handler))
        return handler

    return register


def _copies(function: Any) -> _Handler:
    """Functions that give every example a copy of a parameter."""

    def handler(seen: Capture, parameter: Tensor, *sizes: Any, **named: Any) -> Tensor:
        view = seen.view(parameter)
        if view is None:  # only a parameter's shape is asked for
            found: Tensor = function(parameter, *(seen.plain(each) for each in sizes), **named)
            return found
        plain, many = parameter.detach(), seen.examples
        made = function(plain, *(seen.plain(each) for each in sizes), **named)
        new = made.ndim - plain.ndim
        axes = [
            axis
            for axis, size in enumerate(made.shape)
            if size == many and (axis < new or plain.shape[axis - new] == 1)
        ]
        if not axes or made.numel() != many * plain.numel():
            raise NotCaptured(f"{function.__name__} of the parameter {view.name}")
        return seen.leaf("copies", view, made, axes[0])

    return handler


for _function in (Tensor.expand, Tensor.expand_as, Tensor.repeat, torch.broadcast_to):
    _HANDLERS[_function] = _copies(_function)


@_handles(torch.lstm_cell)
def _lstm_cell(seen: Capture, x: Tensor, states: Any, *weights: Any) -> tuple[Tensor, Tensor]:
    hidden, cell = states
    i, f, g, o = _gates(seen, x, hidden, weights)[0].chunk(4, 1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


@_handles(torch.gru_cell)
def _gru_cell(seen: Capture, x: Tensor, hidden: Tensor, *weights: Any) -> Tensor:
    _, inner, outer = _gates(seen, x, hidden, weights)
    xr, xz, xn = inner.chunk(3, 1)
    hr, hz, hn = outer.chunk(3, 1)
    z = (xz + hz).sigmoid()
    return (1 - z) * (xn + (xr + hr).sigmoid() * hn).tanh() + z * hidden


@_handles(torch.rnn_tanh_cell)
def _tanh_cell(seen: Capture, x: Tensor, hidden: Tensor, *weights: Any) -> Tensor:
    return _gates(seen, x, hidden, weights)[0].tanh()


@_handles(torch.rnn_relu_cell)
def _relu_cell(seen: Capture, x: Tensor, hidden: Tensor, *weights: Any) -> Tensor:
    return _gates(seen, x, hidden, weights)[0].relu()


def _gates(
    seen: Capture, x: Tensor, hidden: Tensor, weights: Sequence[Any]
) -> tuple[Tensor, Tensor, Tensor]:
    """Products of a cell's input and hidden state, and their sum first."""
    of_input, of_hidden, *biases = weights
    biases = biases or [None, None]
    with seen:
        inner = functional.linear(x, of_input, biases[0])
        outer = functional.linear(hidden, of_hidden, biases[1])
    return inner + outer, inner, outer


@_handles(functional.linear)
def _linear(seen: Capture, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    view, offset = seen.view(weight), seen.view(bias)
    w, b = seen.plain(weight), seen.plain(bias)

    def make(inputs: list[Tensor], gradients: list[Tensor]) -> Iterator[Use]:
        back = _matrix(gradients[0])
        if view is not None:
            yield Product(view, _matrix(inputs[0]), back)
        if offset is not None:
            yield Rows(offset, back)

    return seen.record("linear", (view, offset), (x,), lambda: functional.linear(x, w, b), make)


def _matrix(rows: Tensor) -> Tensor:
    """As [example, place, column]."""
    return rows.reshape(rows.shape[0], -1, rows.shape[-1]) if rows.ndim != 3 else rows


@_handles(torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm)
def _matmul(seen: Capture, x: Tensor, weight: Tensor) -> Tensor:
    view = seen.view(weight)
    if seen.view(x) is not None or view is None or weight.ndim != 2:
        raise NotCaptured("a product with a parameter on its left, or with one that is no matrix")
    plain = weight.detach()

    def make(inputs: list[Tensor], gradients: list[Tensor]) -> Iterator[Use]:
        yield Product(view.t, _matrix(inputs[0]), _matrix(gradients[0]))

    return seen.record("matmul", (view,), (x,), lambda: torch.matmul(x, plain), make)


@_handles(torch.addmm)
def _addmm(
    seen: Capture, bias: Tensor, x: Tensor, weight: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    if beta != 1 or alpha != 1:
        raise NotCaptured("addmm with factors")
    with seen:
        return torch.add(torch.matmul(x, weight), bias)


def _convolution(transposed: bool, axes: int) -> _Handler:
    function = getattr(torch, f"conv{'_transpose' * transposed}{axes}d")

    def handler(
        seen: Capture,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        *more: Any,
        **named: Any,
    ) -> Tensor:
        order = ("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")
        rest = {"groups": 1, "dilation": 1, **dict(zip(order, more, strict=False)), **named}
        view, offset = seen.view(weight), seen.view(bias)
        kernel, strides = weight.shape[2:], _each(stride, axes)
        dilation = _each(rest["dilation"], axes)
        sides = _sides(padding, kernel, dilation, axes)
        w, b = seen.plain(weight), seen.plain(bias)

        def compute() -> Tensor:
            return function(input, w, b, stride, padding, **rest)  # type: ignore[no-any-return]

        def make(inputs: list[Tensor], gradients: list[Tensor]) -> Iterator[Use]:
            images, back = inputs[0], gradients[0]
            if view is not None:
                pair = (back, images) if transposed else (images, back)
                yield Convolution(view, *pair, strides, sides, dilation, int(rest["groups"]))
            if offset is not None:
                columns = back.transpose(1, 2).flatten(2).transpose(1, 2)
                yield Rows(offset, columns)

        return seen.record("convolution", (view, offset), (input,), compute, make)

    return handler


def _each(value: Any, axes: int) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(int(each) for each in value)
    return values * axes if len(values) == 1 else values


def _sides(
    padding: Any, kernel: Sequence[int], dilation: Sequence[int], axes: int
) -> tuple[tuple[int, int], ...]:
    """Padding before and behind each axis."""
    if padding == "valid":
        return ((0, 0),) * axes
    if padding == "same":
        whole = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
        return tuple((each // 2, each - each // 2) for each in whole)
    return tuple((each, each) for each in _each(padding, axes))


for _axes_count in (1, 2, 3):
    for _transposed in (False, True):
        _name = f"conv{'_transpose' * _transposed}{_axes_count}d"
        _HANDLERS[getattr(torch, _name)] = _convolution(_transposed, _axes_count)
        _HANDLERS[getattr(functional, _name)] = _convolution(_transposed, _axes_count)


@_handles(torch.embedding)
def _embedding(
    seen: Capture,
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    view, plain = seen.view(weight), seen.plain(weight)
    if view is None or scale_grad_by_freq or indices.dtype not in (torch.int64, torch.int32):
        raise NotCaptured("an embedding scaled by how often a word is in the batch")

    def make(inputs: list[Tensor], gradients: list[Tensor]) -> Iterator[Use]:
        rows = inputs[0].reshape(len(inputs[0]), -1)
        back = gradients[0].reshape(*rows.shape, -1)
        if padding_idx >= 0:
            back = back * (rows != padding_idx)[:, :, None]
        yield Lookup(view, rows, back)

    def compute() -> Tensor:
        return torch.embedding(plain, indices, padding_idx, False, False)

    return seen.record("embedding", (view,), (indices,), compute, make)


@_handles(torch.layer_norm)
def _layer_norm(
    seen: Capture,
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    w, b = seen.plain(weight), seen.plain(bias)

    def normed(rows: Tensor) -> Tensor:
        return torch.layer_norm(rows, shape, None, None, eps, cudnn_enable)

    def compute() -> Tensor:
        return torch.layer_norm(x, shape, w, b, eps, cudnn_enable)

    return _norm(seen, x, weight, bias, compute, normed, len(shape))


@_handles(torch.rms_norm)
def _rms_norm(
    seen: Capture,
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    plain = seen.plain(weight)

    def normed(rows: Tensor) -> Tensor:
        return torch.rms_norm(rows, shape, None, eps)

    def compute() -> Tensor:
        return torch.rms_norm(x, shape, plain, eps)

    return _norm(seen, x, weight, None, compute, normed, len(shape))


@_handles(torch.group_norm)
def _group_norm(
    seen: Capture,
    x: Tensor,
    groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    w, b = seen.plain(weight), seen.plain(bias)

    def normed(rows: Tensor) -> Tensor:
        flat = torch.group_norm(rows.flatten(0, 1), groups, None, None, eps, cudnn_enabled)
        return flat.reshape(rows.shape)

    def compute() -> Tensor:
        return torch.group_norm(x, groups, w, b, eps, cudnn_enabled)

    return _norm(seen, x, weight, bias, compute, normed, None)


@_handles(torch.batch_norm, torch.instance_norm)
def _channel_norm(
    seen: Capture,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    raise NotCaptured("a norm that may be of the batch")


@_handles(functional.batch_norm)
def _batch_norm(
    seen: Capture,
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if training:
        raise NotCaptured("batch norm in training mode")
    w, b = seen.plain(weight), seen.plain(bias)

    def normed(rows: Tensor) -> Tensor:
        flat = rows.flatten(0, 1)
        mean, variance = (
            None if each is None else each.to(flat.dtype) for each in (running_mean, running_var)
        )
        flat = functional.batch_norm(flat, mean, variance, None, None, False, 0.0, eps)
        return flat.reshape(rows.shape)

    def compute() -> Tensor:
        fixed = running_mean, running_var, w, b, False, 0.0, eps
        return functional.batch_norm(x, *fixed)

    return _norm(seen, x, weight, bias, compute, normed, None)


@_handles(functional.instance_norm)
def _instance_norm(
    seen: Capture,
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    w, b = seen.plain(weight), seen.plain(bias)

    def normed(rows: Tensor) -> Tensor:
        flat = rows.flatten(0, 1)
        fixed = running_mean, running_var, None, None, use_input_stats, 0.0, eps
        return functional.instance_norm(flat, *fixed).reshape(rows.shape)

    def compute() -> Tensor:
        fixed = running_mean, running_var, w, b, use_input_stats, momentum, eps
        return functional.instance_norm(x, *fixed)

    return _norm(seen, x, weight, bias, compute, normed, None)


def _norm(
    seen: Capture,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    compute: Callable[[], Tensor],
    normed: Callable[[Tensor], Tensor],
    last: int | None,
) -> Tensor:
    """A norm with a factor and an offset for its last axes, or for channels (`last` is None)."""
    view, offset = seen.view(weight), seen.view(bias)

    def over(rows: Tensor) -> Tensor:
        """[example, place, ...] summed over all but what the factor belongs to."""
        if last is None:
            return rows.sum([axis for axis in range(1, rows.ndim) if axis != 2])
        return rows.sum(list(range(1, rows.ndim - last)))

    def make(inputs: list[Tensor], gradients: list[Tensor]) -> Iterator[Use]:
        back = gradients[0]
        if view is not None:
            yield Single(view, over(back * normed(inputs[0])))
        if offset is not None:
            yield Single(offset, over(back))

    return seen.record("norm", (view, offset), (x,), compute, make)


@_handles(torch.prelu, functional.prelu)
def _prelu(seen: Capture, x: Tensor, weight: Tensor) -> Tensor:
    view, plain = seen.view(weight), seen.plain(weight)
    if view is None:
        raise NotCaptured("a slope that is no parameter")

    def make(inputs: list[Tensor], gradients: list[Tensor]) -> Iterator[Use]:
        made = gradients[0] * inputs[0].clamp(max=0)
        kept = 2 if weight.numel() > 1 else 0
        over = [axis for axis in range(1, made.ndim) if axis != kept]
        yield Single(view, made.sum(over).reshape(len(made), *view.size))

    return seen.record("prelu", (view,), (x,), lambda: torch.prelu(x, plain), make)


def _elementwise(function: Any) -> _Handler:
    def handler(seen: Capture, *args: Any, **kwargs: Any) -> Tensor:
        pair, name = list(args), getattr(function, "__name__", "")
        own = [place for place, each in enumerate(pair) if seen.view(each) is not None]
        if len(own) != 1 or kwargs or len(pair) != 2:
            raise NotCaptured(f"{name} of several parameters")
        parameter, other = pair[own[0]], pair[1 - own[0]]
        view = seen.view(parameter)
        assert view is not None
        axes = getattr(other, "ndim", 0)
        fits = axes > parameter.ndim or (axes == parameter.ndim and parameter.shape[:1] == (1,))
        if not fits or other.shape[0] != seen.examples:
            raise NotCaptured(f"{name} of the parameter {view.name} and what is no batch")
        inner = view.size[-(axes - 1) :] if axes > 1 else ()
        inner = (1,) * (axes - 1 - len(inner)) + inner
        copies = parameter.detach().reshape(1, *inner).expand(seen.examples, *inner)
        pair[own[0]] = seen.leaf(name, view, copies)
        result: Tensor = function(*pair)
        return result

    return handler


_BINARY = ("add", "mul", "sub", "div", "true_divide")
_OPERATORS = ("add", "radd", "mul", "rmul", "sub", "rsub", "truediv", "rtruediv", "rdiv")
for _binary in (
    *(getattr(torch, each) for each in _BINARY),
    *(getattr(Tensor, each) for each in _BINARY),
    *(getattr(Tensor, f"__{each}__") for each in _OPERATORS),
):
    _HANDLERS[_binary] = _elementwise(_binary)


for _layer in (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu):
    _HANDLERS[_layer] = recurrent.handler(_layer.__name__)
