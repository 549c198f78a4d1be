"""The convolutional network of Hyland & Tople v2, appendix D.3. Claims no constants.

Three convolutions of 8 filters (3x3, 2x2, 2x2, 'same' padding), each followed by 2x2 max pooling,
a dense layer of relu units and a softmax: 1,448 parameters on 28x28 with 10 units, 10 classes.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn import functional

from sordino import _check
from sordino.objectives.batched import Array, Objective, Params, glorot
from sordino.objectives.objective import ObjectiveSpec

FILTERS = 8
KERNELS = (3, 2, 2)


class Cnn(Objective):
    """Convolutions of all runs at once, as grouped convolutions.

    Parameters of a run, in order: for each convolution its kernel [filter, channel, side, side]
    and bias [filter], then weight and bias of the hidden layer, then of the output layer. The
    relu stands after the pooling, where it gives the same numbers for a quarter of the work.
    """

    def __init__(
        self, spec: ObjectiveSpec, features: int, image_shape: tuple[int, ...] | None
    ) -> None:
        self.spec = spec
        self.features = features
        if image_shape is None:
            _check.fail("image_shape", None, "to be given for cnn", "Pass (28, 28), say.")
        height, width, *rest = image_shape
        self.image = (rest[0] if rest else 1, height, width)
        if math.prod(self.image) != features:
            _check.fail("image_shape", image_shape, f"to hold the {features} numbers of a row")
        if min(height, width) < 2 ** len(KERNELS):
            _check.fail("image_shape", image_shape, "to be at least 8 x 8: it is halved thrice")
        flat = FILTERS * (height >> len(KERNELS)) * (width >> len(KERNELS))
        channels = (self.image[0], FILTERS, FILTERS)
        self.shapes = (
            *(
                shape
                for inputs, side in zip(channels, KERNELS, strict=True)
                for shape in ((FILTERS, inputs, side, side), (FILTERS,))
            ),
            (spec.hidden, flat),
            (spec.hidden,),
            (spec.classes, spec.hidden),
            (spec.classes,),
        )

    @property
    def classes(self) -> int:
        """As many as the softmax has outputs."""
        return self.spec.classes

    def init(self, rng: np.random.Generator) -> Array:
        """Draw kernels and weights Glorot uniform (fans as Keras counts them), biases 0."""
        parts = []
        for shape in self.shapes:
            if len(shape) == 1:
                parts.append(np.zeros(shape))
            else:
                field = math.prod(shape[2:])
                parts.append(glorot(rng, shape[1] * field, shape[0] * field, shape))
        return np.concatenate([part.ravel() for part in parts])

    def inputs(self, X: Array, dtype: torch.dtype) -> torch.Tensor:
        """Rows as they are: the layers have biases of their own."""
        return torch.tensor(X, dtype=dtype)

    def scores(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Logits, [group, example, run, class]."""
        groups, examples, _ = X.shape
        runs = params[0].shape[1]
        channels, height, width = self.image
        hidden = X.transpose(0, 1).reshape(examples, groups * channels, height, width)
        for layer, side in enumerate(KERNELS):
            kernel, bias = params[2 * layer], params[2 * layer + 1]
            # 'same' as Keras pads it: the odd one of an even kernel goes after.
            before, after = (side - 1) // 2, side // 2
            hidden = functional.conv2d(
                functional.pad(hidden, (before, after, before, after)),
                kernel.reshape(groups * runs * FILTERS, *kernel.shape[3:]),
                bias.reshape(-1),
                groups=groups if layer == 0 else groups * runs,
            )
            hidden = functional.relu(functional.max_pool2d(hidden, 2))
        flat = hidden.reshape(examples, groups * runs, -1).transpose(0, 1)
        units = functional.relu(_dense(flat, params[-4], params[-3]))
        logits = _dense(units, params[-2], params[-1])
        return logits.view(groups, runs, *logits.shape[1:]).transpose(1, 2)

    def losses(self, params: Params, X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of the softmax."""
        logits = self.scores(params, X)
        labels = y.long()[:, :, None, None].expand(*logits.shape[:3], 1)
        return -functional.log_softmax(logits, dim=3).gather(3, labels).squeeze(3)

    def add_gradient(
        self,
        target: Params,
        params: Params,
        X: torch.Tensor,
        y: torch.Tensor,
        *,
        keep: float,
        scale: float,
        clip: float | None = None,
        weight: torch.Tensor | None = None,
    ) -> None:
        """See `Objective.add_gradient`; by automatic differentiation of the weighted sum.

        Clipping makes each example a group of its own, which builds one gradient for each.
        """
        if clip is not None:
            gradients = self._clipped_sum(params, X, y, clip, weight)
        else:
            gradients = self._weighted_sum(params, X, y, weight)
        for part, gradient in zip(target, gradients, strict=True):
            part.mul_(keep).add_(gradient, alpha=scale)

    def _weighted_sum(
        self, params: Params, X: torch.Tensor, y: torch.Tensor, weight: torch.Tensor | None
    ) -> Params:
        leaves = tuple(part.detach().requires_grad_() for part in params)
        with torch.enable_grad():
            losses = self.losses(leaves, X, y)
            total = (losses if weight is None else losses * weight.unsqueeze(2)).sum()
        return torch.autograd.grad(total, leaves)

    def _clipped_sum(
        self,
        params: Params,
        X: torch.Tensor,
        y: torch.Tensor,
        clip: float,
        weight: torch.Tensor | None,
    ) -> Params:
        groups, examples = y.shape
        alone = tuple(part.repeat_interleave(examples, dim=0) for part in params)
        each = self._weighted_sum(alone, X.reshape(-1, 1, X.shape[2]), y.reshape(-1, 1), None)
        norms = torch.stack([part.flatten(2).square().sum(2) for part in each]).sum(0).sqrt()
        factor = (clip / norms).clamp_(max=1)
        if weight is not None:
            factor *= weight.reshape(-1, 1)
        clipped = (part * factor.view(*factor.shape, *[1] * (part.dim() - 2)) for part in each)
        return tuple(part.view(groups, examples, *part.shape[1:]).sum(dim=1) for part in clipped)

    @property
    def width(self) -> int:
        """The first feature maps: eight numbers a pixel."""
        return FILTERS * self.image[1] * self.image[2]


def _dense(inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """[run, example, in] -> [run, example, out], each run with its own weight and bias."""
    flat_weight, flat_bias = weight.flatten(0, 1), bias.flatten(0, 1)
    return torch.baddbmm(flat_bias.unsqueeze(1), inputs, flat_weight.transpose(1, 2))
