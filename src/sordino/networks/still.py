"""`Still`: takes chance out of a module while it is tried, and notes which values it reads.

Functions that are known to draw for every number or channel on its own (dropout) do nothing. What
else is drawn is the same for every example, so that an example alone gives what it gives in a batch
unless the module lets examples meet. Whether values of the inputs, or what was made of them, leave
tensors for Python (`if x.mean() > 0`) is noted: then the module's course may depend on them.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from sordino.networks.calls import tensors_in

_DROPOUTS = (
    *(functional.dropout, functional.dropout1d, functional.dropout2d, functional.dropout3d),
    *(functional.alpha_dropout, functional.feature_alpha_dropout),
    *(torch.dropout, torch.feature_dropout, torch.alpha_dropout),
)
_LAYERS = {torch.lstm: 5, torch.gru: 5, torch.rnn_tanh: 5, torch.rnn_relu: 5}
"""Recurrent layers, and where their dropout stands."""
_ATTENTION, _PRODUCT = 10, 4
"""Where the dropout of `multi_head_attention_forward` and of its product stands."""
_UNIFORM = (torch.rand, torch.rand_like, Tensor.uniform_)
_NORMAL = (torch.randn, torch.randn_like, Tensor.normal_, torch.normal)
_BERNOULLI = (torch.bernoulli, Tensor.bernoulli)
_OTHERS = (torch.randint, torch.randint_like, torch.randperm, torch.multinomial)
_READS = (
    *(Tensor.__bool__, Tensor.__float__, Tensor.__int__, Tensor.__index__, Tensor.item),
    *(Tensor.tolist, Tensor.numpy, torch.is_nonzero, torch.equal, torch.allclose),
)


class Still(TorchFunctionMode):
    """While it is entered.

    Attributes
    ----------
    reads
        Whether Python saw a value that depends on the inputs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads = False
        self._drawn = 0
        self._of_inputs: dict[int, Any] = {}

    def begin(self, batch: Sequence[Tensor]) -> None:
        """A pass begins: it draws what every pass draws, and whatever is made of these is noted."""
        self._drawn = 0
        self._of_inputs.clear()
        for each in batch:
            self._note(each)

    def _note(self, tensor: Tensor) -> None:
        self._of_inputs[id(tensor)] = weakref.ref(tensor)

    def _depends(self, tensor: Tensor) -> bool:
        known = self._of_inputs.get(id(tensor))
        return known is not None and known() is tensor

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        depends = any(self._depends(each) for each in tensors_in((args, kwargs)))
        result = self._done(func, args, kwargs)
        if depends:
            self.reads = self.reads or func in _READS
            for each in tensors_in((result,)):
                self._note(each)
        return result

    def _done(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if func in _DROPOUTS:
            return args[0].clone()
        if func is functional.scaled_dot_product_attention:
            if len(args) > _PRODUCT:
                args = (*args[:_PRODUCT], 0.0, *args[_PRODUCT + 1 :])
                return func(*args, **kwargs)
            return func(*args, **{**kwargs, "dropout_p": 0.0})
        if func is functional.multi_head_attention_forward:
            args = (*args[:_ATTENTION], 0.0, *args[_ATTENTION + 1 :])
        if func in _LAYERS:
            place = _LAYERS[func]
            if not isinstance(args[3], list | tuple):  # else its sequences are packed
                args = (*args[:place], 0.0, *args[place + 1 :])
        if func in (*_UNIFORM, *_NORMAL, *_BERNOULLI, *_OTHERS):
            return self._draw(func, args, kwargs)
        return func(*args, **kwargs)

    def _draw(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        self._drawn += 1
        if func in _OTHERS:
            return func(*args, **kwargs)
        drawn = func(*args, **kwargs)
        inner = drawn.shape[1:]  # the same along the first axis, whether that is of examples or not
        generator = torch.Generator().manual_seed(self._drawn)
        if func in _NORMAL:
            values = torch.randn(inner, generator=generator)
        else:
            values = torch.rand(inner, generator=generator)
        values = values.to(drawn.device, drawn.dtype if drawn.is_floating_point() else None)
        if func in _BERNOULLI:
            return (values < args[0]).to(drawn.dtype)
        if func is Tensor.uniform_:
            low, high = (*args[1:], 0.0, 1.0)[:2] if len(args) > 2 else (0.0, 1.0)
            values = low + (high - low) * values
        with torch.no_grad():
            drawn.copy_(values.expand_as(drawn))
        return drawn
