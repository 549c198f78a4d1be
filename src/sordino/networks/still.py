"""`Still`: takes chance out of a module while it is tried, and notes which values it reads.

Functions that are known to draw for every number or channel on its own (dropout) do nothing. What
else is drawn is the same for every example, so that an example alone gives what it gives in a batch
unless the module lets examples meet. Whether values of the inputs, or what was made of them, leave
tensors for Python (`if x.mean() > 0`) is noted: then the module's course may depend on them. So is
a value that is read behind a draw (`if torch.rand(()) < 0.5: mix`), and any use of the generators
of Python and NumPy: a trial meets few of the courses that chance takes.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from sordino.networks.calls import tensors_in

_DROPOUTS = (
    *(functional.dropout, functional.dropout1d, functional.dropout2d, functional.dropout3d),
    *(functional.alpha_dropout, functional.feature_alpha_dropout),
    *(torch.dropout, torch.feature_dropout, torch.alpha_dropout),
    *(functional.rrelu, torch.rrelu),
)
_LAYERS = {torch.lstm: 5, torch.gru: 5, torch.rnn_tanh: 5, torch.rnn_relu: 5}
"""Recurrent layers, and where their dropout stands."""
_ATTENTION = 10
"""Where the dropout of `multi_head_attention_forward` stands."""
_SCALED = 4
"""Where that of `scaled_dot_product_attention` stands."""
_UNIFORM = (torch.rand, torch.rand_like, Tensor.uniform_)
_EXPONENTIAL = (Tensor.exponential_,)
_NORMAL = (torch.randn, torch.randn_like)
_NORMAL_OF = (Tensor.normal_, torch.normal)
"""With a mean and a deviation, which may be made of data."""
_BERNOULLI = (torch.bernoulli, Tensor.bernoulli, Tensor.bernoulli_)
_WHOLE = (torch.randint, torch.randint_like, Tensor.random_)
_CHOICES = (torch.multinomial, Tensor.multinomial)
_OTHERS = (torch.randperm,)
_DRAWS = (
    *(*_UNIFORM, *_EXPONENTIAL, *_NORMAL, *_NORMAL_OF, *_BERNOULLI, *_WHOLE, *_CHOICES, *_OTHERS),
    functional.gumbel_softmax,
)
_NARROW = (torch.float32, torch.float16, torch.bfloat16, torch.complex64)
_READS = (
    *(Tensor.__bool__, Tensor.__float__, Tensor.__int__, Tensor.__index__, Tensor.item),
    *(Tensor.__complex__, Tensor.__contains__, Tensor.__array__, Tensor.__dlpack__),
    *(Tensor.tolist, Tensor.numpy, torch.is_nonzero, torch.equal, torch.allclose),
    *(Tensor.is_nonzero, Tensor.equal, Tensor.allclose, Tensor.__repr__, Tensor.__format__),
)
_SELECTS = (
    *(torch.nonzero, Tensor.nonzero, torch.argwhere, Tensor.argwhere, Tensor.__getitem__),
    *(torch.masked_select, Tensor.masked_select, torch.unique, Tensor.unique),
    *(torch.unique_consecutive, Tensor.unique_consecutive),
)
"""What may have as many rows as the values of its inputs say."""
_SIZES = (
    *(Tensor.shape.__get__, Tensor.size, Tensor.__len__, Tensor.__iter__, Tensor.unbind),  # type: ignore[attr-defined]
    *(Tensor.numel, Tensor.nelement, torch.numel, torch.unbind),
)


class Still(TorchFunctionMode):
    """While it is entered.

    Attributes
    ----------
    reads
        Whether Python saw a value that depends on the inputs, or on chance.
    narrows
        Whether anything was computed of them in less than float64.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads = False
        self.narrows = False
        self.turn = 0
        self._drawn = 0
        self._state = torch.get_rng_state()
        self._elsewhere = _elsewhere()
        self._of_inputs: dict[int, Any] = {}
        self._selected: dict[int, Any] = {}

    @property
    def draws(self) -> bool:
        """Whether anything was drawn in this pass."""
        return self._drawn > 0 or not torch.equal(self._state, torch.get_rng_state())

    def end(self) -> None:
        """The pass is over."""
        self.reads = self.reads or self._elsewhere != _elsewhere()

    def begin(self, batch: Sequence[Tensor]) -> None:
        """A pass begins: it draws what every pass draws, and whatever is made of these is noted."""
        self._drawn = 0
        self._state = torch.get_rng_state()
        self._elsewhere = _elsewhere()
        self._of_inputs.clear()
        self._selected.clear()
        for each in batch:
            self._note(each)

    def _note(self, tensor: Tensor) -> None:
        self._of_inputs[id(tensor)] = weakref.ref(tensor)

    def _depends(self, tensor: Tensor) -> bool:
        return _known(self._of_inputs, tensor)

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        depends = any(self._depends(each) for each in tensors_in((args, kwargs)))
        if func in _READS and self.draws:
            self.reads = True
        if func in _SIZES and args and _known(self._selected, args[0]):
            self.reads = True
        result = self._done(func, args, kwargs)
        if func in _SELECTS and _selects(func, args, depends):
            for each in tensors_in((result,)):
                self._selected[id(each)] = weakref.ref(each)
        if depends:
            self.reads = self.reads or func in _READS
            for each in tensors_in((result,)):
                self._note(each)
                self.narrows = self.narrows or each.dtype in _NARROW
        return result

    def _done(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if func in _DROPOUTS:
            return args[0].clone()
        if func is functional.scaled_dot_product_attention:
            if len(args) > _SCALED:
                args = (*args[:_SCALED], 0.0, *args[_SCALED + 1 :])
            else:
                kwargs = {**kwargs, "dropout_p": 0.0}
            return func(*args, **kwargs)
        if func is functional.multi_head_attention_forward:
            args = (*args[:_ATTENTION], 0.0, *args[_ATTENTION + 1 :])
        if func in _LAYERS:
            place = _LAYERS[func]
            if not isinstance(args[3], list | tuple):  # else its sequences are packed
                args = (*args[:place], 0.0, *args[place + 1 :])
        if func in _DRAWS:
            return self._draw(func, args, kwargs)
        return func(*args, **kwargs)

    @property
    def _seed(self) -> int:
        return self._drawn + 10_000 * self.turn

    def _draw(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        self._drawn += 1
        if func in _OTHERS:
            return func(*args, **kwargs)
        if func in _CHOICES:
            return self._chosen(*args, **kwargs)
        if func is functional.gumbel_softmax:
            return self._gumbel_softmax(*args, **kwargs)
        if func in _WHOLE:
            with torch.random.fork_rng():
                torch.manual_seed(self._seed)
                return _same_along_the_first(func(*args, **kwargs))
        drawn = func(*args, **kwargs)
        values = self._like(drawn, normal=func in (*_NORMAL, *_NORMAL_OF))
        if func in _BERNOULLI:
            values = (values < _likelihood(func, *args, **kwargs)).to(drawn.dtype)
            if func is not Tensor.bernoulli_:
                return values
        if func is Tensor.uniform_:
            low, high = (*args[1:], 0.0, 1.0)[:2] if len(args) > 2 else (0.0, 1.0)
            values = low + (high - low) * values
        if func in _EXPONENTIAL:
            values = -torch.log1p(-values)
        if func in _NORMAL_OF:
            values = _shifted(values, *(args if func is torch.normal else args[1:]), **kwargs)
        with torch.no_grad():
            drawn.copy_(values.expand_as(drawn))
        return drawn

    def _like(self, drawn: Tensor, *, normal: bool = False) -> Tensor:
        """Numbers that are the same along the first axis, whether that is of examples or not."""
        generator = torch.Generator().manual_seed(self._seed)
        draw = torch.randn if normal else torch.rand
        values = draw(drawn.shape[1:], generator=generator)
        values = values.to(drawn.device, drawn.dtype if drawn.is_floating_point() else None)
        return values.expand_as(drawn)

    def _chosen(
        self, likely: Tensor, num_samples: int, replacement: bool = False, **named: Any
    ) -> Tensor:
        """Choices by likelihood; those of a row do not depend on which other rows there are."""
        if likely.ndim == 1:
            return torch.multinomial(likely, num_samples, replacement, **named)
        if not replacement:
            return (likely / -torch.log1p(-self._like(likely))).topk(num_samples, -1).indices
        sums = likely.double().cumsum(-1)
        drawn = self._like(sums.new_empty(len(likely), num_samples)) * sums[:, -1:]
        return torch.searchsorted(sums, drawn, right=True).clamp(max=likely.shape[1] - 1)

    def _gumbel_softmax(
        self, logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
    ) -> Tensor:
        noise = -torch.log(-torch.log1p(-self._like(logits)) + eps)
        soft = ((logits + noise) / tau).softmax(dim)
        if not hard:
            return soft
        one = torch.zeros_like(soft).scatter_(dim, soft.argmax(dim, keepdim=True), 1.0)
        return one - soft.detach() + soft


def _known(noted: dict[int, Any], tensor: Any) -> bool:
    found = noted.get(id(tensor))
    return found is not None and found() is tensor


def _selects(func: Any, args: Sequence[Any], depends: bool) -> bool:
    """Whether how much is selected depends on values: an index may be a mask."""
    if func is not Tensor.__getitem__:
        return depends
    return any(each.dtype in (torch.bool, torch.uint8) for each in tensors_in(args[1:]))


def _elsewhere() -> tuple[Any, ...]:
    """How far the generators of Python and NumPy are."""
    _, keys, *place = np.random.get_state()  # noqa: NPY002 - whether a module draws from it
    return random.getstate(), np.asarray(keys).tobytes(), tuple(place)


def _same_along_the_first(drawn: Tensor) -> Tensor:
    return drawn.copy_(drawn[:1].clone().expand_as(drawn)) if drawn.ndim and len(drawn) else drawn


def _likelihood(func: Any, *args: Any, **kwargs: Any) -> Any:
    if func is Tensor.bernoulli_:
        return kwargs.get("p", args[1] if len(args) > 1 else 0.5)
    if "p" in kwargs or len(args) > 1:
        return kwargs.get("p", args[-1])
    return args[0] if args else kwargs["input"]


def _shifted(values: Tensor, mean: Any = 0.0, std: Any = 1.0, *_: Any, **__: Any) -> Tensor:
    return torch.as_tensor(mean) + torch.as_tensor(std) * values
