"""One chunk of a grid: its weights, where they stand, and the loop over epochs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from sordino import checks
from sordino.sgd import planning
from sordino.sgd.batches import Epoch, epochs
from sordino.sgd.grid import Grid
from sordino.sgd.kernels import full_batch, linear, network
from sordino.sgd.kernels.full_batch import FullBatch
from sordino.sgd.kernels.shared_runs import Lanes
from sordino.sgd.spec import TrainSpec
from sordino.types import Array


class Stopped(Exception):
    """A chunk that was told to stop."""


@dataclass
class Pulse:
    """Between a chunk and whoever waits for it in another thread: how far it is, and stop."""

    steps: int = 0
    stop: bool = False


class Chunk:
    """One chunk's training: its weights, where they stand, and the loop over segments."""

    def __init__(
        self, grid: Grid, seeds: slice, neighbours: slice, pulse: Pulse | None = None
    ) -> None:
        self.grid = grid
        self.pulse = pulse or Pulse()
        self.spec = grid.spec
        self.seeds = grid.seeds[seeds]
        self.table = grid.table.of(neighbours)
        self.lanes = Lanes(
            grid.objective,
            self._initial(),
            len(self.table.slot),
            shares=by_torch(self.spec),
            averages=self.spec.average_every is not None,
        )
        wanted = self.seeds if self.spec.noise_multiplier else ()
        self.noise = [grid.noise.stream("noise", seed) for seed in wanted]
        self.drawn: torch.Tensor | None = None  # noise of coming steps, of full batches
        self.full = self._full_batch(seeds, neighbours)
        self.runs = len(self.seeds) * len(self.table.slot)

    def _full_batch(self, seeds: slice, neighbours: slice) -> FullBatch | None:
        grid = self.grid
        many = grid.neighbours
        if not full_batch.applies(self.spec, grid.slots, len(grid.seeds) * many):
            return None
        first, datasets = np.arange(seeds.start, seeds.stop) * many, range(many)[neighbours]
        places = first[:, None] + np.array(datasets)
        parameters = grid.objective.parameters
        return FullBatch(self.spec, self.table, grid.slots, parameters, places)

    def _initial(self) -> torch.Tensor:
        grid, spec = self.grid, self.spec
        if grid.initial is not None:
            start = np.broadcast_to(grid.initial, (len(self.seeds), len(grid.initial)))
        else:
            draw = grid.objective.init
            start = np.stack(
                [draw(grid.streams.stream("initial weights", seed)) for seed in self.seeds]
            )
        return torch.tensor(start, dtype=getattr(torch, spec.dtype))

    def train(self) -> Array:
        """Train, and return [seed, neighbour, checkpoint, parameter]."""
        grid, spec = self.grid, self.spec
        steps = spec.total_steps(grid.slots)
        kept = {step: place for place, step in enumerate(grid.checkpoints)}
        shape = (len(self.seeds), len(self.table.slot), len(kept), grid.objective.parameters)
        out = np.empty(shape, dtype=spec.dtype)
        if 0 in kept:
            out[:, :, kept[0]] = self.lanes.weights()
        taken = updates = 0
        since_average = since_restart = 0
        orders = self._orders()
        while taken < steps:
            epoch = next(orders)
            length = min(len(epoch.width), steps - taken)
            whole = length == len(epoch.width)
            rates = spec.schedule.over(updates + 1, length, since_restart + 1)
            averages = whole and spec.average_every == since_average + 1
            for part in self._segments(taken, length):
                self.pulse.steps = taken + part.start
                if self.pulse.stop:
                    raise Stopped
                self._descend(epoch.part(part), rates[part], steps - taken)
                if averages and part.stop == length:
                    self.lanes.average((spec.average_every or 1) * length)
                if taken + part.stop in kept:
                    out[:, :, kept[taken + part.stop]] = self.lanes.weights()
            taken, updates = taken + length, updates + length
            since_average = 0 if averages else since_average + 1
            since_restart += 1
            if since_restart == spec.restart_every:
                since_restart = updates = 0
        return out

    def _orders(self) -> Iterator[Epoch]:
        grid = self.grid
        if self.full is not None:  # an epoch is one step, of all rows
            return itertools.repeat(Epoch(np.empty((0, 1, 0), np.int32), np.array([grid.slots])))
        return epochs(self.spec, grid.slots, self.seeds, grid.streams, self.table.nothing)

    def _segments(self, taken: int, length: int) -> list[slice]:
        """Cut an epoch's steps at checkpoints, and into parts that are soon over.

        Between parts a chunk can be stopped; and noise drawn ahead stays small.
        """
        cuts = {step - taken for step in self.grid.checkpoints if 0 < step - taken < length}
        together = planning.NOISE_STEPS
        if not self.spec.noise_multiplier:
            each = self.grid.objective.step_operations(self.spec.batch_size) * self.runs
            together = int(planning.CHUNK_OPERATIONS / each) + 1
        cuts.update(range(together, length, together))
        edges = [0, *sorted(cuts), length]
        return [slice(a, b) for a, b in itertools.pairwise(edges)]

    def _descend(self, epoch: Epoch, rates: npt.NDArray[np.float64], left: int) -> None:
        """Take these steps, of `left` that are still to come."""
        noise = self._draw(len(rates), left)
        if by_torch(self.spec):
            args = (self.table, self.lanes, epoch, rates, noise)
            network.descend(self.grid.objective, self.spec, *args)
            return
        weights = self.lanes.params[0]
        total = None if self.lanes.total is None else self.lanes.total[0]
        if self.full is not None:
            self.full.descend(weights, total, rates, noise)
        else:
            linear.descend(self.spec, self.table, weights, total, epoch, rates, noise)

    def _draw(self, steps: int, left: int) -> torch.Tensor | None:
        """Noise of these steps [seed, step, parameter]; a stream gives the same in any parts."""
        if not self.spec.noise_multiplier:
            return None
        if self.full is None:
            return self._drawn(steps)
        # One step at a time would be thousands of calls for a handful of numbers.
        if self.drawn is None or not self.drawn.shape[1]:
            self.drawn = self._drawn(min(left, planning.NOISE_STEPS))
        now, self.drawn = self.drawn[:, :steps], self.drawn[:, steps:]
        return now.contiguous()  # the layout that the loop was compiled for

    def _drawn(self, steps: int) -> torch.Tensor:
        shape = (len(self.noise), steps, self.grid.objective.parameters)
        drawn = np.empty(shape, dtype=self.spec.dtype)
        for run, noise in enumerate(self.noise):
            # Drawn in float64 whatever the precision of the run, so that both see the same noise.
            normal = np.asarray(noise.standard_normal((shape[1], shape[2])))
            if normal.shape != shape[1:] or not np.isfinite(normal).all():
                # Anything else would be spread over the steps, or take the noise away.
                hint = "The noise source does not keep its promise; nothing was released."
                checks.fail("noise", normal.shape, f"to be {shape[1:]} finite numbers", hint)
            drawn[run] = normal
        return torch.from_numpy(drawn)


def by_torch(spec: TrainSpec) -> bool:
    """Whether steps are taken by `network`, where runs share a lane; else by a compiled loop."""
    return not spec.objective.is_linear
