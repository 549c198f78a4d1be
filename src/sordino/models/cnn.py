"""The convolutional network of Hyland & Tople v2, appendix D.3. Claims no constants.

Three convolutions of 8 filters (3x3, 2x2, 2x2, 'same' padding), each followed by 2x2 max pooling,
a dense layer of relu units and a softmax: 1,448 parameters on 28x28 with 10 units, 10 classes.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn import functional

from sordino import checks
from sordino.models.batched import Objective, Params, Update, each_clip, glorot
from sordino.models.constants import ObjectiveSpec
from sordino.models.kernels import cnn
from sordino.types import Array

_FILTERS = 8
_KERNELS = (3, 2, 2)


class Cnn(Objective):
    """Scores and losses by torch (grouped convolutions of all runs), gradients compiled.

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
            checks.fail("image_shape", None, "to be given for cnn", "Pass (28, 28), say.")
        if len(image_shape) not in (2, 3):
            checks.fail("image_shape", image_shape, "to be (height, width) or (..., channels)")
        height, width, *rest = image_shape
        self.image = (rest[0] if rest else 1, height, width)
        if math.prod(self.image) != features:
            checks.fail("image_shape", image_shape, f"to hold the {features} numbers of a row")
        if min(height, width) < 2 ** len(_KERNELS):
            checks.fail("image_shape", image_shape, "to be at least 8 x 8: it is halved thrice")
        flat = _FILTERS * (height >> len(_KERNELS)) * (width >> len(_KERNELS))
        channels = (self.image[0], _FILTERS, _FILTERS)
        self.shapes = (
            *(
                shape
                for inputs, side in zip(channels, _KERNELS, strict=True)
                for shape in ((_FILTERS, inputs, side, side), (_FILTERS,))
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

    @property
    def has_constant_input(self) -> bool:
        """Never: the layers have biases of their own."""
        return False

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

    def scores(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Logits, [group, example, run, class]."""
        groups, examples, _ = X.shape
        runs = params[0].shape[1]
        images = self._images(X).transpose(0, 1)
        hidden = images.reshape(examples, -1, *images.shape[3:])
        for layer, side in enumerate(_KERNELS):
            kernel, bias = params[2 * layer], params[2 * layer + 1]
            # 'same' as Keras pads it: the odd one of an even kernel goes after.
            before, after = (side - 1) // 2, side // 2
            hidden = functional.conv2d(
                functional.pad(hidden, (before, after, before, after)),
                kernel.reshape(groups * runs * _FILTERS, *kernel.shape[3:]),
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
        self, target: Params, params: Params, X: torch.Tensor, y: torch.Tensor, update: Update
    ) -> None:
        """See `Objective.add_gradient`; compiled (cnn_pass.py), run after run.

        Clipping makes each example a batch of its own: its gradient is built, scaled and added.
        """
        keep, scale, clip, weight = update
        layers = cnn.Layers(*(part.numpy() for part in params))
        weights = (torch.ones_like(y) if weight is None else weight).numpy()
        shape = (*params[0].shape[:2], self.parameters)
        total = torch.zeros(shape, dtype=X.dtype)
        work = cnn.maps(layers, *self.image[1:], y.shape[1] if clip is None else 1)
        if clip is None:
            images = self._batch_innermost(X)
            cnn.add_gradients(total.numpy(), layers, work, images, y.numpy(), weights)
        else:
            images = self._batch_innermost(X.reshape(-1, 1, X.shape[2]))
            images = images.reshape(*y.shape, *images.shape[1:])
            args = (layers, work, images, y.numpy(), weights, each_clip(clip, y))
            cnn.add_clipped_gradients(total.numpy(), *args)
        for part, gradient in zip(target, self.unflatten(total), strict=True):
            part.mul_(keep).add_(gradient, alpha=scale)

    def _images(self, X: torch.Tensor) -> torch.Tensor:
        """Rows, whose channels lie innermost, as [group, example, channel, row, column]."""
        channels, height, width = self.image
        return X.view(*X.shape[:2], height, width, channels).permute(0, 1, 4, 2, 3)

    def _batch_innermost(self, X: torch.Tensor) -> Array:
        """[group, example, pixel] to [group, channel, row + 2, 2, half the columns x example].

        A column of zeros stands before the first and, for an even width, after the last; then
        even columns and odd ones (`convolution`). The last of an odd width is in no window.
        """
        columns, examples = self.image[2] // 2 + 1, X.shape[1]
        after = 2 * columns - 1 - self.image[2]
        padded = functional.pad(self._images(X).permute(0, 2, 3, 4, 1), (0, 0, 1, after, 1, 1))
        halves = padded.reshape(*padded.shape[:3], columns, 2, examples).transpose(3, 4)
        return np.ascontiguousarray(halves.flatten(4).numpy())

    def step_operations(self, batch: int) -> int:
        """Of one step of one run: forward, and backward to weights and to inputs.

        The first layer needs no gradient of its inputs, so its products are counted twice, all
        others three times; a multiply-add is two operations.
        """
        total = 0
        for layer, shape in enumerate(shape for shape in self.shapes if len(shape) > 1):
            places = (self.image[1] >> layer) * (self.image[2] >> layer) if len(shape) == 4 else 1
            total += (2 if layer == 0 else 3) * 2 * math.prod(shape) * places
        return total * batch

    def step_numbers(self, groups: int, runs: int, batch: int) -> int:
        """Runs are taken one after the other: one run's maps, all gradients, padded images."""
        height, width = self.image[1:]
        images = 3 * groups * batch * self.image[0] * (height + 2) * (width + 2)
        return images + 2 * groups * runs * self.parameters + 3 * batch * self.width

    @property
    def width(self) -> int:
        """The first feature maps: eight numbers a pixel."""
        return _FILTERS * self.image[1] * self.image[2]


def _dense(inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """[run, example, in] -> [run, example, out], each run with its own weight and bias."""
    flat_weight, flat_bias = weight.flatten(0, 1), bias.flatten(0, 1)
    return torch.baddbmm(flat_bias.unsqueeze(1), inputs, flat_weight.transpose(1, 2))
