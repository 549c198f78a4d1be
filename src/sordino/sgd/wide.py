"""The wide regime: for each seed hundreds of neighbours, stepped by batched matrix products.

All neighbours of a seed see the same batch, so a step is one product for all of them. The few
whose batch holds their own differing record (about batch/n of them) are stepped once more, from
where they were, with the batch they really have, and written over the shared result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from sordino.objectives.batched import Objective, Params
from sordino.sgd import deep
from sordino.sgd.batches import Epoch
from sordino.sgd.spec import TrainSpec
from sordino.sgd.step import gather, step
from sordino.sgd.table import Table

Ints = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Touched:
    """Runs that a step must take with a batch of their own: the place that differs, and how."""

    seed: Ints
    neighbour: Ints
    place: Ints
    substitute: Ints

    def part(self, start: int, end: int) -> Touched:
        """Return some of them."""
        at = slice(start, end)
        return Touched(self.seed[at], self.neighbour[at], self.place[at], self.substitute[at])


class OwnSteps(Protocol):
    """Steps the touched runs on their own, before the shared step; returns their new weights."""

    def __call__(
        self, touched: Touched, index: torch.Tensor, t: int, rate: float, normal: Params | None
    ) -> Params: ...


def descend(
    objective: Objective,
    spec: TrainSpec,
    table: Table,
    params: Params,
    total: Params | None,
    epoch: Epoch,
    rates: npt.NDArray[np.float64],
    noise: torch.Tensor | None,
) -> None:
    """Take these steps, in place; add each new iterate to `total` if it is wanted."""
    index = torch.from_numpy(epoch.index)
    padded = table.has_empty or spec.order == "poisson"
    if spec.objective.is_linear:
        own_steps = _compiled(spec, table, params[0], noise)
    else:
        own_steps = _batched(objective, spec, table, params, padded)
    flat = tuple(part.view(-1, *part.shape[2:]) for part in params)
    neighbours = params[0].shape[1]
    for t, touched in enumerate(_touched(table, epoch)):
        now = index[:, t, : int(epoch.width[t])].contiguous()
        rate = float(rates[t])
        normal = None if noise is None else objective.unflatten(noise[:, t].unsqueeze(1))
        own = None if touched is None else own_steps(touched, now, t, rate, normal)
        step(objective, spec, params, gather(table, now, spec, padded), rate, normal)
        if touched is not None and own is not None:
            runs = torch.from_numpy(touched.seed * neighbours + touched.neighbour)
            for part, mine in zip(flat, own, strict=True):
                part.index_copy_(0, runs, mine)
        if total is not None:
            for part, sum_ in zip(params, total, strict=True):
                sum_.add_(part)


def _compiled(
    spec: TrainSpec, table: Table, weights: torch.Tensor, noise: torch.Tensor | None
) -> OwnSteps:
    """For linear objectives: the compiled step of the deep regime, a few microseconds a run."""
    law, rows, array = deep.law(spec), deep.rows(table), weights.numpy()
    drawn = np.zeros((1, 1, 1), dtype=array.dtype) if noise is None else noise.numpy()

    def own_steps(
        touched: Touched, index: torch.Tensor, t: int, rate: float, normal: Params | None
    ) -> Params:
        who = (touched.seed, touched.neighbour)
        own = deep.own_steps(law, rows, array, *who, index.numpy(), rate, drawn, t)
        return (torch.from_numpy(own),)

    return own_steps


def _batched(
    objective: Objective, spec: TrainSpec, table: Table, params: Params, padded: bool
) -> OwnSteps:
    """For networks: the ordinary step, with each touched run as a group of its own."""

    def own_steps(
        touched: Touched, index: torch.Tensor, t: int, rate: float, normal: Params | None
    ) -> Params:
        seed, neighbour = torch.from_numpy(touched.seed), torch.from_numpy(touched.neighbour)
        runs = tuple(part[seed, neighbour].unsqueeze(1) for part in params)
        own = index[seed]
        own[torch.arange(len(own)), torch.from_numpy(touched.place)] = torch.from_numpy(
            touched.substitute
        )
        their = None if normal is None else tuple(part[seed] for part in normal)
        step(objective, spec, runs, gather(table, own, spec, padded), rate, their)
        return tuple(part.squeeze(1) for part in runs)

    return own_steps


def _touched(table: Table, epoch: Epoch) -> Iterator[Touched | None]:
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
    all_ = Touched(
        np.repeat(seed, many)[order],
        neighbour,
        np.repeat(place, many)[order],
        table.substitute[neighbour].astype(np.int32),
    )
    start = 0
    for end in np.searchsorted(when[order], np.arange(len(epoch.width)), "right").tolist():
        yield all_.part(start, end) if end > start else None
        start = end
