"""`OrientedEdges`: features of images that need no weights and no training.

The gradient of an image at a pixel is a length m and a direction t. A histogram of directions,
weighted by length, over a window of the image is what HOG and SIFT are made of; its Fourier
coefficients, the sums of m cos(k t) and m sin(k t), say the same in fewer numbers. They are around
0 on average over all directions. So rows of them have no common part that would waste the norm on
which a private training spends its noise: no centre has to be learned.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sordino import checks
from sordino.types import Array

_BLOCK = 512
"""Images at a time: what is in between is some dozen times as large."""


class OrientedEdges:
    """Turn images into directions of their edges, window by window, each image on its own.

    Parameters
    ----------
    shape
        (height, width) of an image or (height, width, channels); a row may also hold it flat. The
        gradient of an image in colour is that of the channel where it is longest.
    windows
        Along each side; they overlap by half.
    harmonics
        k of cos(k t) and sin(k t): 1 tells light-to-dark from dark-to-light, 2 does not.
    power
        Of the gradient's length; 0.5 lets faint edges count for more.
    brightness
        Weight of each window's mean brightness less that of the image; 0 leaves it out.

    Examples
    --------
    >>> edges = OrientedEdges((8, 8), windows=4)
    >>> edges(np.ones((5, 64))).shape
    (5, 64)
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        windows: int = 4,
        harmonics: tuple[int, ...] = (1, 2),
        power: float = 1.0,
        brightness: float = 0.0,
    ) -> None:
        self.revision = 1  # of the numbers: raised where the same images would give others
        self.shape = tuple(checks.whole("shape", each, at_least=1) for each in shape)
        if len(self.shape) not in (2, 3) or min(self.shape[:2]) < 2:
            checks.fail(
                "shape", self.shape, "to be (height, width), both above 1, or with channels"
            )
        self.windows = checks.whole("windows", windows, at_least=1)
        if self.windows > min(self.shape[:2]):
            checks.fail("windows", windows, f"<= {min(self.shape[:2])}, the pixels of a side")
        self.harmonics = tuple(checks.whole("harmonics", each, at_least=1) for each in harmonics)
        if not self.harmonics:
            checks.fail("harmonics", harmonics, "to be at least one whole number")
        self.power = checks.positive("power", power)
        self.brightness = checks.non_negative("brightness", brightness)

    def __call__(self, images: Any) -> Array:
        """Features, [image, number], float32."""
        images = np.asarray(images)
        if images.shape[1:] not in (self.shape, (int(np.prod(self.shape)),)):
            want = f"to be images of shape {self.shape}, or flat ones"
            checks.fail("images.shape", images.shape[1:], want)
        starts = range(0, len(images), _BLOCK)
        parts = [self._features(images[start : start + _BLOCK]) for start in starts]
        return np.concatenate(parts) if parts else self._features(images)

    def _features(self, images: Array) -> Array:
        images = images.reshape(-1, *self.shape[:2], *(self.shape[2:] or (1,))).astype(np.float32)
        padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
        across = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]
        down = padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
        gradient = across + 1j * down
        strongest = np.abs(gradient).argmax(axis=3)[..., None]
        gradient = np.take_along_axis(gradient, strongest, axis=3)[..., 0]
        length = np.abs(gradient)
        direction = gradient / np.where(length > 0, length, 1)
        planes = []
        for k in self.harmonics:
            wave = length**self.power * direction**k
            planes += [wave.real, wave.imag]
        if self.brightness:
            grey = images.mean(axis=3)
            planes.append(self.brightness * (grey - grey.mean(axis=(1, 2), keepdims=True)))
        rows, columns = (_triangles(side, self.windows) for side in self.shape[:2])
        # One image at a time has the same shape whatever the batch: the same to the last bit.
        pooled = np.matmul(np.matmul(rows.T, np.stack(planes, axis=1)), columns)
        return np.ascontiguousarray(pooled.reshape(len(images), -1), dtype=np.float32)


def _triangles(side: int, windows: int) -> Array:
    """Weight of each pixel of a side in each window, [pixel, window]; they overlap by half."""
    width = side / windows
    centres = (np.arange(windows) + 0.5) * width - 0.5
    away = np.abs(np.arange(side)[:, None] - centres) / width
    return np.maximum(0, 1 - away).astype(np.float32)
