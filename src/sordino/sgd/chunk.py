"""One chunk of a grid: its weights, where they stand, and the loop over epochs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sordino import _check
from sordino.sgd import linear, network, planning
from sordino.sgd.batches import Epoch, epochs
from sordino.sgd.grid import Grid

Array = npt.NDArray[Any]


class Chunk:
    """One chunk's training: its weights, where they stand, and the loop over segments."""

    def __init__(self, grid: Grid, seeds: slice, neighbours: slice) -> None:
        self.grid = grid
        self.spec = grid.spec
        self.seeds = grid.seeds[seeds]
        self.table = grid.table.of(neighbours)
        self.params = grid.objective.unflatten(self._initial())
        wanted = self.seeds if self.spec.noise_multiplier else ()
        self.noise = [grid.noise.stream("noise", seed) for seed in wanted]
        self.total = None
        if self.spec.average_every is not None:
            self.total = tuple(torch.zeros_like(part) for part in self.params)

    def _initial(self) -> torch.Tensor:
        grid, spec = self.grid, self.spec
        if grid.initial is not None:
            start = np.broadcast_to(grid.initial, (len(self.seeds), len(grid.initial)))
        else:
            draw = grid.objective.init
            start = np.stack(
                [draw(grid.streams.stream("initial weights", seed)) for seed in self.seeds]
            )
        tensor = torch.tensor(start, dtype=getattr(torch, spec.dtype))
        return tensor[:, None].repeat(1, len(self.table.slot), 1)

    def train(self) -> Array:
        """Train, and return [seed, neighbour, checkpoint, parameter]."""
        grid, spec = self.grid, self.spec
        steps = spec.total_steps(grid.slots)
        kept = {step: place for place, step in enumerate(grid.checkpoints)}
        shape = (len(self.seeds), len(self.table.slot), len(kept), grid.objective.parameters)
        out = np.empty(shape, dtype=spec.dtype)
        if 0 in kept:
            out[:, :, kept[0]] = grid.objective.flatten(self.params).numpy()
        taken = updates = 0
        since_average = since_restart = 0
        orders = epochs(spec, grid.slots, self.seeds, grid.streams, self.table.nothing)
        while taken < steps:
            epoch = next(orders)
            length = min(len(epoch.width), steps - taken)
            whole = length == len(epoch.width)
            rates = spec.schedule.over(updates + 1, length, since_restart + 1)
            averages = whole and spec.average_every == since_average + 1
            for part in self._segments(taken, length):
                self._descend(epoch.part(part), rates[part])
                if averages and part.stop == length:
                    self._average(spec.average_every or 1, length)
                if taken + part.stop in kept:
                    out[:, :, kept[taken + part.stop]] = grid.objective.flatten(self.params).numpy()
            taken, updates = taken + length, updates + length
            since_average = 0 if averages else since_average + 1
            since_restart += 1
            if since_restart == spec.restart_every:
                since_restart = updates = 0
        return out

    def _segments(self, taken: int, length: int) -> list[slice]:
        """Cut an epoch's steps at checkpoints, and so that noise drawn ahead stays small."""
        cuts = {step - taken for step in self.grid.checkpoints if 0 < step - taken < length}
        if self.spec.noise_multiplier:
            cuts.update(range(planning.NOISE_STEPS, length, planning.NOISE_STEPS))
        edges = [0, *sorted(cuts), length]
        return [slice(a, b) for a, b in itertools.pairwise(edges)]

    def _descend(self, epoch: Epoch, rates: npt.NDArray[np.float64]) -> None:
        noise = self._draw(len(rates))
        if self.spec.objective.is_linear:
            total = None if self.total is None else self.total[0]
            linear.descend(self.spec, self.table, self.params[0], total, epoch, rates, noise)
        else:
            objective = self.grid.objective
            args = (self.table, self.params, self.total, epoch, rates, noise)
            network.descend(objective, self.spec, *args)

    def _draw(self, steps: int) -> torch.Tensor | None:
        if not self.spec.noise_multiplier:
            return None
        shape = (len(self.noise), steps, self.grid.objective.parameters)
        drawn = np.empty(shape, dtype=self.spec.dtype)
        for run, noise in enumerate(self.noise):
            # Drawn in float64 whatever the precision of the run, so that both see the same noise.
            normal = np.asarray(noise.standard_normal((shape[1], shape[2])))
            if normal.shape != shape[1:] or not np.isfinite(normal).all():
                # Anything else would be spread over the steps, or take the noise away.
                hint = "The noise source does not keep its promise; nothing was released."
                _check.fail("noise", normal.shape, f"to be {shape[1:]} finite numbers", hint)
            drawn[run] = normal
        return torch.from_numpy(drawn)

    def _average(self, epochs_: int, steps_per_epoch: int) -> None:
        assert self.total is not None
        for part, sum_ in zip(self.params, self.total, strict=True):
            part.copy_(sum_ / (epochs_ * steps_per_epoch))
            sum_.zero_()
