"""SGD on networks: for each seed all neighbours at once, by torch.

All neighbours of a seed see the same batch, so a step is one product for all of them. The few
whose batch holds their own differing record (about batch/n of them) are stepped once more, from
where they were, with the batch they really have, and written over the shared result. Before its
first such batch a run is not trained at all: it is the run on the dataset itself (`Branches`).

One step of SGD on `Params` [group, run, ...], in place: gradient, clip, noise, project.

`Branches` holds the weights of a chunk's runs, one branch for all runs of a seed that are still the
same. A neighbour's run is the run on the dataset itself until a batch first holds the slot in which
they differ. Until then it has no branch of its own and costs nothing; then it starts from a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from sordino.models.batched import Objective, Params, Update
from sordino.privacy import VARYING
from sordino.sgd.batches import Epoch, Index
from sordino.sgd.spec import TrainSpec
from sordino.sgd.table import RowTable
from sordino.types import Array, Ints


class Branches:
    """Weights [seed, branch, ...], and which branch each run [seed, neighbour] is in.

    While `shares`, branch 0 of a seed is the dataset itself, and that of every run that has not met
    its difference yet. Branches that only another seed needs are trained, too, and read by nobody.

    Parameters
    ----------
    start
        Initial weights of each seed, [seed, parameter].
    neighbours
        Runs of each seed.
    shares
        Whether runs begin in a common branch; else each has its own from the start.
    averages
        Whether a sum of iterates is kept beside the weights.
    """

    def __init__(
        self,
        objective: Objective,
        start: torch.Tensor,
        neighbours: int,
        *,
        shares: bool,
        averages: bool,
    ) -> None:
        self.objective = objective
        self.shares = shares
        self.branch = np.zeros((len(start), neighbours), dtype=np.int64)
        if not shares:
            self.branch[:] = np.arange(neighbours)
        self._used = np.ones(len(start), dtype=np.int64)  # branches of each seed, while it shares
        own = 1 if shares else neighbours
        self.params = objective.unflatten(start[:, None].repeat(1, own, 1))
        self.total: Params | None = None
        if averages:
            self.total = tuple(torch.zeros_like(part) for part in self.params)

    def weights(self) -> Array:
        """Weights of all runs, [seed, neighbour, parameter]."""
        flat = self.objective.flatten(self.params).numpy()
        return np.asarray(flat[np.arange(len(flat))[:, None], self.branch])

    def part_ways(self, seed: Ints, neighbour: Ints) -> Ints:
        """Return the branches of these runs, which go their own way from now on."""
        if self.shares:
            fresh = np.flatnonzero(self.branch[seed, neighbour] == 0)
            if len(fresh):
                self._open(seed[fresh], neighbour[fresh])
        return self.branch[seed, neighbour]

    def _open(self, seed: Ints, neighbour: Ints) -> None:
        for s, k in zip(seed.tolist(), neighbour.tolist(), strict=True):
            self.branch[s, k] = self._used[s]
            self._used[s] += 1
        more = int(self._used.max()) - self.params[0].shape[1]
        if more > 0:
            self._each(
                lambda part: torch.cat([part, part[:, :1].expand(-1, more, *part.shape[2:])], dim=1)
            )
        at = torch.from_numpy(seed), torch.from_numpy(self.branch[seed, neighbour])
        for part in (*self.params, *(self.total or ())):
            part[at] = part[at[0], 0]
        if self.branch.all():  # nobody is left in the common branch
            self._each(lambda part: part[:, 1:].contiguous())
            self.branch -= 1
            self.shares = False

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.params = tuple(change(part) for part in self.params)
        if self.total is not None:
            self.total = tuple(change(part) for part in self.total)

    def add_up(self) -> None:
        """Add the iterates to their sum, if one is kept."""
        if self.total is not None:
            for part, sum_ in zip(self.params, self.total, strict=True):
                sum_.add_(part)

    def average(self, steps: int) -> None:
        """Go on from the mean of the last `steps` iterates, and start a new sum."""
        assert self.total is not None
        for part, sum_ in zip(self.params, self.total, strict=True):
            part.copy_(sum_ / steps)
            sum_.zero_()


def _step(
    objective: Objective,
    spec: TrainSpec,
    table: RowTable,
    index: Index,
    params: Params,
    rate: float,
    noise: Params | None,
) -> None:
    """Set w = Project(w - rate (sum of clipped gradients + z C noise) / divisor - rate l2 w).

    The rows of the batch are those that `index` [group, place] names.
    """
    flat = torch.from_numpy(index.reshape(-1))
    # index_select, not X[index]: advanced indexing is five times slower here.
    X = torch.index_select(table.X, 0, flat).view(*index.shape, -1)
    y = torch.index_select(table.y, 0, flat).view(index.shape)
    divisor = float(spec.batch_size if spec.divides_by_batch_size else index.shape[1])
    weight = None  # where every place holds a record and counts 1 / divisor
    if table.has_empty or spec.order in VARYING:
        weight = torch.index_select(table.present, 0, flat).view(index.shape)
        if not spec.divides_by_batch_size:
            counted = torch.index_select(table.counted, 0, flat).view(index.shape)
            weight, divisor = weight / counted.sum(dim=1, keepdim=True).clamp_(min=1), 1.0
    clip: float | torch.Tensor | None = spec.max_grad_norm
    if table.weight is not None:
        factor = torch.index_select(table.weight, 0, flat).view(index.shape)
        weight = factor if weight is None else weight * factor
        clip = None if clip is None else clip / factor  # what is clipped is the weighted gradient
    scale = -rate / divisor
    update = Update(1.0 - rate * spec.objective.l2, scale, clip, weight)
    objective.add_gradient(params, params, X, y, update)
    if noise is not None and spec.max_grad_norm is not None:
        for part, normal in zip(params, noise, strict=True):
            part.add_(normal, alpha=scale * spec.noise_multiplier * spec.max_grad_norm)
    if spec.radius is not None:
        squared = torch.stack([part.flatten(2).square().sum(dim=2) for part in params]).sum(dim=0)
        factor = (spec.radius / squared.sqrt()).clamp_(max=1)
        for part in params:
            part.mul_(factor.view(*factor.shape, *[1] * (part.dim() - 2)))


class _Touched(NamedTuple):
    """Runs that a step must take with a batch of their own: the place that differs, and how."""

    seed: Ints
    neighbour: Ints
    place: Ints
    substitute: Index


def descend(
    objective: Objective,
    spec: TrainSpec,
    table: RowTable,
    branches: Branches,
    epoch: Epoch,
    rates: npt.NDArray[np.float64],
    noise: torch.Tensor | None,
) -> None:
    """Take these steps, in place; add each new iterate to its sum if one is kept."""
    for t, touched in enumerate(_touched(table, epoch)):
        now = epoch.index[:, t, : int(epoch.width[t])]
        rate = float(rates[t])
        normal = None if noise is None else objective.unflatten(noise[:, t].unsqueeze(1))
        if touched is not None:
            seed = torch.from_numpy(touched.seed)
            at = seed, torch.from_numpy(branches.part_ways(touched.seed, touched.neighbour))
            own = tuple(part[at].unsqueeze(1) for part in branches.params)
            theirs = now[touched.seed]
            theirs[np.arange(len(theirs)), touched.place] = touched.substitute
            noise_of = None if normal is None else tuple(n[seed] for n in normal)
            _step(objective, spec, table, theirs, own, rate, noise_of)
        _step(objective, spec, table, now, branches.params, rate, normal)
        if touched is not None:
            for part, mine in zip(branches.params, own, strict=True):
                part[at] = mine.squeeze(1)
        branches.add_up()


def _touched(table: RowTable, epoch: Epoch) -> Iterator[_Touched | None]:
    """For each step, the runs whose batch holds the slot in which they differ."""
    by_slot = np.argsort(table.slot, kind="stable")
    slots = table.slot[by_slot]
    watched = np.zeros(len(table.y), dtype=bool)
    watched[slots[slots >= 0]] = True
    seed, step_, place = np.nonzero(watched[epoch.index])
    # Several neighbours may change the same slot: repeat the hit for each of them.
    hit = epoch.index[seed, step_, place]
    first, last = np.searchsorted(slots, hit, "left"), np.searchsorted(slots, hit, "right")
    many = last - first
    which = np.repeat(first - (np.cumsum(many) - many), many) + np.arange(many.sum())
    when = np.repeat(step_, many)
    order = np.argsort(when, kind="stable")
    neighbour = by_slot[which][order]
    columns = (
        np.repeat(seed, many)[order],
        neighbour,
        np.repeat(place, many)[order],
        table.substitute[neighbour].astype(np.int32),
    )
    start = 0
    for end in np.searchsorted(when[order], np.arange(len(epoch.width)), "right").tolist():
        yield _Touched._make(each[start:end] for each in columns) if end > start else None
        start = end
