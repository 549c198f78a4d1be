"""`Lanes`: the weights of a chunk's runs, one lane for all runs of a seed that are still the same.

A neighbour's run is the run on the dataset itself until a batch first holds the slot in which they
differ. Until then it has no lane of its own and costs nothing; then it starts from a copy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from sordino.models.batched import Objective, Params
from sordino.types import Array, Ints


class Lanes:
    """Weights [seed, lane, ...], and which lane each run [seed, neighbour] is in.

    While `shares`, lane 0 of a seed is the dataset itself, and the lane of every run that has not
    met its difference yet. Lanes that only another seed needs are trained along and read by nobody.

    Parameters
    ----------
    start
        Initial weights of each seed, [seed, parameter].
    neighbours
        Runs of each seed.
    shares
        Whether runs begin in a common lane; else each has its own from the start.
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
        self.lane = np.zeros((len(start), neighbours), dtype=np.int64)
        if not shares:
            self.lane[:] = np.arange(neighbours)
        self._used = np.ones(len(start), dtype=np.int64)  # lanes of each seed, while it shares
        own = 1 if shares else neighbours
        self.params = objective.unflatten(start[:, None].repeat(1, own, 1))
        self.total: Params | None = None
        if averages:
            self.total = tuple(torch.zeros_like(part) for part in self.params)

    def weights(self) -> Array:
        """Weights of all runs, [seed, neighbour, parameter]."""
        flat = self.objective.flatten(self.params).numpy()
        return np.asarray(flat[np.arange(len(flat))[:, None], self.lane])

    def part_ways(self, seed: Ints, neighbour: Ints) -> Ints:
        """Return the lanes of these runs, which go their own way from now on."""
        if self.shares:
            fresh = np.flatnonzero(self.lane[seed, neighbour] == 0)
            if len(fresh):
                self._open(seed[fresh], neighbour[fresh])
        return self.lane[seed, neighbour]

    def _open(self, seed: Ints, neighbour: Ints) -> None:
        for s, k in zip(seed.tolist(), neighbour.tolist(), strict=True):
            self.lane[s, k] = self._used[s]
            self._used[s] += 1
        more = int(self._used.max()) - self.params[0].shape[1]
        if more > 0:
            self._each(
                lambda part: torch.cat([part, part[:, :1].expand(-1, more, *part.shape[2:])], dim=1)
            )
        at = torch.from_numpy(seed), torch.from_numpy(self.lane[seed, neighbour])
        for part in (*self.params, *(self.total or ())):
            part[at] = part[at[0], 0]
        if self.lane.all():  # nobody is left in the common lane
            self._each(lambda part: part[:, 1:].contiguous())
            self.lane -= 1
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
