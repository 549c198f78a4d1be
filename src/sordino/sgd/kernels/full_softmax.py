"""Full batches of a softmax: all runs share every row, so a step is two products for all of them.

Where each step sees all records, in the same order, runs differ in their weights alone. Rows are
taken some at a time, for all runs of a chunk together, and are read once a step:

    coefficients = probabilities - labels, clipped; 0 where a run has another record
    gradients   += coefficients' @ rows

and a run's own record, if it has one, is added on its own. No batch is ever copied. Where there are
fewer chunks than cores, these share the rows; parts are added in their order, so that the sum has
the same bytes however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import torch

from sordino.models.batched import Objective
from sordino.models.softmax import Softmax
from sordino.privacy import Sampling
from sordino.sgd.spec import TrainSpec
from sordino.sgd.table import RowTable

_Map = Callable[[Callable[[slice], torch.Tensor], Iterable[slice]], Iterable[torch.Tensor]]
_MOST_THREADS = 8
WIDEST = 512
"""Scores of a row, of all runs together, beyond which a product is no faster."""


def applies(spec: TrainSpec, slots: int) -> bool:
    """Whether a grid is trained here."""
    whole = spec.order == Sampling.CYCLIC and spec.batch_size >= slots
    return spec.objective.kind == "softmax" and whole


def scratch_numbers(objective: Objective, runs: int, slots: int) -> int:
    """Numbers that a chunk holds beside its runs' weights and noise: gradients, one piece, norms.

    A piece has few rows where runs are many (`Softmax.pieces_of`).
    """
    assert isinstance(objective, Softmax)
    parts = 3 + 2 * _MOST_THREADS
    return parts * runs * objective.parameters + 6 * objective.most_numbers(runs) + slots


class FullSoftmax:
    """Steps of one chunk, by so many threads; the table is that of the chunk's datasets."""

    def __init__(
        self,
        objective: Objective,
        spec: TrainSpec,
        table: RowTable,
        slots: int,
        seeds: int,
        threads: int = 1,
    ) -> None:
        assert isinstance(objective, Softmax)
        self.threads = min(threads, _MOST_THREADS)
        self.objective, self.spec, self.table, self.slots = objective, spec, table, slots
        present, counted = table.present.numpy(), table.counted.numpy() > 0
        own = table.slot >= 0
        # What counts in the size of the batch: a dataset's own record in place of the one it lacks.
        gained, lost = counted[table.substitute], counted[np.where(own, table.slot, 0)]
        count = counted[:slots].sum() + np.where(own, gained.astype(int) - lost.astype(int), 0)
        if spec.divides_by_batch_size:
            count = np.full(len(own), spec.batch_size)
        divisor = torch.from_numpy(np.tile(np.maximum(count, 1), seeds))
        self.divisor = divisor.to(table.X.dtype).view(-1, 1, 1)
        self.runs = np.flatnonzero(np.tile(own, seeds))
        self.slot = np.tile(table.slot[own], seeds)
        self.substitute = torch.from_numpy(np.tile(table.substitute[own], seeds))
        self.weight = None if present[:slots].all() else table.present[:slots, None, None]
        self.factors = table.present  # of each row's clipped gradient
        self.clip: float | torch.Tensor | None = spec.max_grad_norm
        if table.weight is not None:
            # v times the gradient, clipped to C, is v times what is left of it by C / v.
            self.factors = table.present * table.weight
            self.weight = self.factors[:slots, None, None]
            self.clip = None if self.clip is None else self.clip / table.weight

    def descend(
        self,
        weights: torch.Tensor,
        total: torch.Tensor | None,
        rates: npt.NDArray[np.float64],
        noise: torch.Tensor | None,
    ) -> None:
        """Take these steps on weights [seed, dataset, class, column], in place; sum iterates."""
        if self.threads == 1:
            self._descend(map, weights, total, rates, noise)
            return
        with ThreadPoolExecutor(self.threads, "", torch.set_num_threads, (1,)) as pool:
            self._descend(pool.map, weights, total, rates, noise)

    def _descend(
        self,
        each: _Map,
        weights: torch.Tensor,
        total: torch.Tensor | None,
        rates: npt.NDArray[np.float64],
        noise: torch.Tensor | None,
    ) -> None:
        spec, shape = self.spec, weights.shape
        flat = weights.view(-1, *shape[2:])
        for t, rate in enumerate(rates.tolist()):
            change = self._gradients(each, flat).mul_(-rate / self.divisor)
            flat.mul_(1.0 - rate * spec.objective.l2).add_(change)
            if noise is not None and spec.max_grad_norm is not None:
                normal = noise[:, t].view(shape[0], 1, *shape[2:])
                spread = spec.noise_multiplier * spec.max_grad_norm
                weights.add_(normal, alpha=-rate / spec.batch_size * spread)  # a fixed divisor
            if spec.radius is not None:
                norms = flat.flatten(1).norm(dim=1)
                flat.mul_((spec.radius / norms).clamp_(max=1).view(-1, 1, 1))
            if total is not None:
                total.add_(weights)

    def _gradients(self, each: _Map, weights: torch.Tensor) -> torch.Tensor:
        """The sum of each run's clipped gradients, [run, class, column]."""
        objective, table, clip = self.objective, self.table, self.clip
        gradient = torch.zeros_like(weights)
        if len(self.runs):  # the record that a run alone has
            X, y = table.X[self.substitute].unsqueeze(1), table.y[self.substitute].unsqueeze(1)
            most = clip[self.substitute].unsqueeze(1) if isinstance(clip, torch.Tensor) else clip
            c = objective.coefficients((weights[self.runs].unsqueeze(1),), X, y, most)
            c.mul_(self.factors[self.substitute].view(-1, 1, 1, 1))
            gradient[self.runs] = c.view(len(X), -1, 1) * X
        flat, all_runs = gradient.view(-1, gradient.shape[2]), (weights.unsqueeze(0),)
        X, y, norms = (whole[: self.slots] for whole in (table.X, table.y, table.norms))

        def part(piece: slice) -> torch.Tensor:
            batch = X[piece].unsqueeze(0), y[piece].unsqueeze(0)
            of = None if clip is None else norms[piece].unsqueeze(0)
            most = (
                clip[: self.slots][piece].unsqueeze(0) if isinstance(clip, torch.Tensor) else clip
            )
            c = objective.coefficients(all_runs, *batch, most, of)[0]
            if self.weight is not None:
                c.mul_(self.weight[piece])
            here = np.flatnonzero((self.slot >= piece.start) & (self.slot < piece.stop))
            if len(here):
                c[self.slot[here] - piece.start, self.runs[here]] = 0
            return c.flatten(1).T @ X[piece]

        pieces = objective.pieces_of(X, len(weights))
        for first in range(0, len(pieces), 2 * self.threads):  # few parts are held at once
            for found in each(part, pieces[first : first + 2 * self.threads]):
                flat.add_(found)
        return gradient
