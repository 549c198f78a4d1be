"""The protocol every objective follows: many weight vectors, each on its own batch, at once.

Inside, weights are `Params`: a tuple of tensors, each [group, run, *shape]. All runs of a group
see the same batch: rows X [group, example, input], labels y [group, example]. Linear algebra
over a group is one matrix product, which is where the speed comes from. Outside, weights are
plain arrays [run, parameter].
"""

from __future__ import annotations

import abc
import math
from typing import NamedTuple

import numpy as np
import torch

from sordino import checks
from sordino.models.constants import Constants, ObjectiveSpec
from sordino.types import Array

Params = tuple[torch.Tensor, ...]

# Elements of the largest intermediate array that the array methods below build at once.
_PIECE = 1 << 24


class Update(NamedTuple):
    """How gradients change weights: keep * weights + scale * their weighted, clipped sum.

    `weight` is of each example, [group, example]; 1 if not given. So may be `clip`: a loss with a
    factor v has gradient v g, and v g clipped to C is v times g clipped to C / v.
    """

    keep: float
    scale: float
    clip: float | torch.Tensor | None = None
    weight: torch.Tensor | None = None


def each_clip(clip: float | torch.Tensor, y: torch.Tensor) -> Array:
    """What the gradient of each example [group, example] is clipped to, in float64."""
    return np.array(torch.as_tensor(clip, dtype=torch.float64).expand(y.shape).numpy())


class Objective(abc.ABC):
    """A loss that computes for many runs at once.

    Attributes
    ----------
    spec
        What it was built from.
    features
        Columns of a row as the user gives it.
    shapes
        Shape of each parameter tensor of one run; flattened in this order they are the
        weight vector.
    """

    spec: ObjectiveSpec
    features: int
    shapes: tuple[tuple[int, ...], ...]

    # What a subclass provides ------------------------------------------------------------

    @abc.abstractmethod
    def init(self, rng: np.random.Generator) -> Array:
        """Draw initial weights [parameter] as Keras does: Glorot uniform, zero bias."""

    @abc.abstractmethod
    def scores(self, params: Params, X: torch.Tensor) -> torch.Tensor:
        """Outputs before the link: [group, example, run], or [..., run, class]."""

    @abc.abstractmethod
    def losses(self, params: Params, X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Data loss of each example under each run, [group, example, run]; differentiable."""

    @abc.abstractmethod
    def add_gradient(
        self, target: Params, params: Params, X: torch.Tensor, y: torch.Tensor, update: Update
    ) -> None:
        """Set target = keep * target + scale * sum_i weight_i * clip(gradient_i), in place.

        `gradient_i` is that of the data loss of example i at `params`, scaled down to Euclidean
        norm `clip` (or clip_i) where above it. `target` may be
        `params` itself: then this is one step of descent.
        """

    @property
    def has_constant_input(self) -> bool:
        """Whether `inputs` appends a constant 1 to each row."""
        return True

    def constants(self, norm_bound: float) -> Constants | None:
        """Return what is proved of this loss on rows of norm <= `norm_bound`, or None."""
        return self.spec.constants(norm_bound)

    def inputs(self, X: Array, dtype: torch.dtype) -> torch.Tensor:
        """Return rows as the model eats them, a fresh tensor (with a constant 1, if it has one)."""
        if not self.has_constant_input:
            return torch.tensor(X, dtype=dtype)
        ones = np.ones((len(X), 1), dtype=X.dtype)
        return torch.from_numpy(np.hstack([X, ones])).to(dtype)

    # What all objectives share -----------------------------------------------------------

    @property
    def parameters(self) -> int:
        """Length of one run's weight vector."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def classes(self) -> int | None:
        """Number of classes the labels may have; None for real targets."""
        return 2

    def check_labels(self, y: Array) -> None:
        """Refuse labels this loss cannot be trained on."""
        if self.classes is None:
            return
        found = np.unique(y)
        wanted = np.arange(self.classes)
        if not np.isin(found, wanted).all():
            expected = "0 and 1, two classes" if self.classes == 2 else f"0..{self.classes - 1}"
            checks.fail("labels", found, f"to be {expected}, for {self.spec.kind}")

    def unflatten(self, weights: torch.Tensor) -> Params:
        """Split [group, run, parameter] into `Params`, each contiguous."""
        sizes = [math.prod(shape) for shape in self.shapes]
        pieces = torch.split(weights, sizes, dim=-1)
        return tuple(
            piece.reshape(*weights.shape[:2], *shape).contiguous()
            for piece, shape in zip(pieces, self.shapes, strict=True)
        )

    def flatten(self, params: Params) -> torch.Tensor:
        """Join `Params` into [group, run, parameter]."""
        return torch.cat([part.flatten(2) for part in params], dim=-1)

    # The methods below take weights [..., parameter], such as `train` returns, and give their
    # results the same leading axes; [run] stands for those.

    def loss(self, weights: Array, X: Array, y: Array) -> Array:
        """Mean loss of each run over the rows, regulariser included: [run]."""
        flat, lead = self._flat(weights)
        params, rows, labels = self._one_group(flat, X, y)
        total = torch.zeros(len(flat), dtype=rows.dtype)
        for piece in self._pieces(len(flat), len(X)):
            total += self.losses(params, rows[:, piece], labels[:, piece]).sum(dim=(0, 1))
        penalty = 0.5 * self.spec.l2 * np.square(flat).sum(axis=1)
        return np.asarray(total.numpy() / len(X) + penalty).reshape(lead)

    def gradient(self, weights: Array, X: Array, y: Array, *, clip: float | None = None) -> Array:
        """Gradient of `loss` for each run: [run, parameter].

        With `clip`, each example's data gradient is first scaled down to that norm.
        """
        if clip is not None:
            checks.positive("clip", clip)
        flat, lead = self._flat(weights)
        params, rows, labels = self._one_group(flat, X, y)
        target = tuple(torch.zeros_like(part) for part in params)
        for piece in self._pieces(len(flat), len(X)):
            batch = rows[:, piece].contiguous(), labels[:, piece].contiguous()
            update = Update(keep=1.0, scale=1.0 / len(X), clip=clip)
            self.add_gradient(target, params, *batch, update)
        total = self.flatten(target)[0].numpy() + self.spec.l2 * flat
        return np.asarray(total).reshape(*lead, self.parameters)

    def decision(self, weights: Array, X: Array) -> Array:
        """Scores of each run on each row: [run, row], or [run, row, class]."""
        flat, lead = self._flat(weights)
        params, rows, _ = self._one_group(flat, X, np.zeros(len(X)))
        parts = [self.scores(params, rows[:, p])[0] for p in self._pieces(len(flat), len(X))]
        scores = np.ascontiguousarray(torch.cat(parts).transpose(0, 1).numpy())
        return scores.reshape(*lead, *scores.shape[1:])

    def predict(self, weights: Array, X: Array) -> Array:
        """Predicted label (or target) of each row under each run: [run, row]."""
        scores = self.decision(weights, X)
        if self.classes is None:
            return scores
        if scores.ndim == np.ndim(weights) + 1:
            return np.asarray(scores.argmax(axis=-1))
        return (scores > 0).astype(np.int64)

    def accuracy(self, weights: Array, X: Array, y: Array) -> Array:
        """Fraction of rows that each run labels correctly: [run]; NaN for a run that diverged."""
        if self.classes is None:
            checks.fail("kind", self.spec.kind, "to be a classifier to have an accuracy")
        if np.shape(y) != np.shape(X)[:1]:
            checks.fail("y.shape", np.shape(y), f"to be ({len(X)},), one label a row")
        right = (self.predict(weights, X) == np.asarray(y)).mean(axis=-1)
        return np.where(np.isfinite(weights).all(axis=-1), right, np.nan)

    def _flat(self, weights: Array) -> tuple[Array, tuple[int, ...]]:
        """Weights as [run, parameter], and the axes they had instead of [run]."""
        weights = np.asarray(weights)
        if not weights.ndim or weights.shape[-1] != self.parameters or not weights.size:
            checks.fail("weights.shape", weights.shape, f"to be (runs, {self.parameters})")
        if weights.dtype not in (np.float32, np.float64):
            weights = weights.astype(np.float64)
        return weights.reshape(-1, self.parameters), weights.shape[:-1]

    def _one_group(
        self, weights: Array, X: Array, y: Array
    ) -> tuple[Params, torch.Tensor, torch.Tensor]:
        X, y = np.asarray(X), np.asarray(y)
        if X.ndim != 2 or X.shape[1] != self.features or not len(X):
            checks.fail("X.shape", X.shape, f"to be (rows, {self.features})")
        if y.shape != (len(X),):
            checks.fail("y.shape", y.shape, f"to be ({len(X)},), one label a row")
        self.check_labels(y)
        tensor = torch.tensor(weights)  # a copy: the caller's array may be read-only
        rows = self.inputs(X, tensor.dtype)[None]
        labels = torch.tensor(y, dtype=tensor.dtype)[None]
        return self.unflatten(tensor[None]), rows, labels

    def _pieces(self, runs: int, rows: int) -> list[slice]:
        size = max(1, _PIECE // (runs * self.width))
        return [slice(start, start + size) for start in range(0, rows, size)]

    @property
    def width(self) -> int:
        """Numbers held for one example of one run while computing scores or losses."""
        return 1

    def step_operations(self, batch: int) -> int:
        """Additions and multiplications of one step of one run, about: two products."""
        return 4 * batch * self.parameters

    def step_numbers(self, groups: int, runs: int, batch: int) -> int:
        """Numbers held at once, from above, while `add_gradient` works on groups x runs."""
        # The inputs, and about four arrays the size of the largest intermediate.
        return groups * batch * self.parameters + 4 * groups * runs * batch * self.width


def glorot(rng: np.random.Generator, fan_in: int, fan_out: int, shape: tuple[int, ...]) -> Array:
    """Keras' default initialisation: uniform on +-sqrt(6 / (fan_in + fan_out))."""
    limit = math.sqrt(6.0 / (fan_in + fan_out))
    return rng.uniform(-limit, limit, size=shape)


def binary_log_loss(z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """ln(1 + exp(-(2y-1) z)), without overflow, for labels 0 and 1."""
    return torch.nn.functional.softplus(torch.where(y > 0.5, -z, z))
