"""One step of SGD on `Params` [group, run, ...], in place: gradient, clip, noise, project."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sordino.models.batched import Objective, Params, Update
from sordino.sgd.batches import Index
from sordino.sgd.spec import TrainSpec
from sordino.sgd.table import RowTable


@dataclass(frozen=True, eq=False)
class Batch:
    """What one step reads: inputs [group, place, input], labels and weights [group, place].

    `weight` is None where every place holds a record and counts 1 / `divisor`.
    """

    X: torch.Tensor
    y: torch.Tensor
    weight: torch.Tensor | None
    divisor: float


def gather(table: RowTable, index: Index, spec: TrainSpec, padded: bool) -> Batch:
    """Collect the rows that `index` [group, place] names; `padded` if some may be empty."""
    flat = torch.from_numpy(index.reshape(-1))
    # index_select, not X[index]: advanced indexing is five times slower here.
    X = torch.index_select(table.X, 0, flat).view(*index.shape, -1)
    y = torch.index_select(table.y, 0, flat).view(index.shape)
    if not padded:
        return Batch(X, y, None, spec.batch_size if spec.divides_by_batch_size else index.shape[1])
    weight = torch.index_select(table.present, 0, flat).view(index.shape)
    if spec.divides_by_batch_size:
        return Batch(X, y, weight, spec.batch_size)
    counted = torch.index_select(table.counted, 0, flat).view(index.shape)
    return Batch(X, y, weight / counted.sum(dim=1, keepdim=True).clamp_(min=1), 1.0)


def step(
    objective: Objective,
    spec: TrainSpec,
    params: Params,
    batch: Batch,
    rate: float,
    noise: Params | None,
) -> None:
    """Set w = Project(w - rate (sum of clipped gradients + z C noise) / divisor - rate l2 w)."""
    objective.add_gradient(
        params,
        params,
        batch.X,
        batch.y,
        Update(
            keep=1.0 - rate * spec.objective.l2,
            scale=-rate / batch.divisor,
            clip=spec.max_grad_norm,
            weight=batch.weight,
        ),
    )
    if noise is not None and spec.max_grad_norm is not None:
        scale = -rate / batch.divisor * spec.noise_multiplier * spec.max_grad_norm
        for part, normal in zip(params, noise, strict=True):
            part.add_(normal, alpha=scale)
    if spec.radius is not None:
        _project(params, spec.radius)


def _project(params: Params, radius: float) -> None:
    squared = torch.stack([part.flatten(2).square().sum(dim=2) for part in params]).sum(dim=0)
    factor = (radius / squared.sqrt()).clamp_(max=1)
    for part in params:
        part.mul_(factor.view(*factor.shape, *[1] * (part.dim() - 2)))
