"""Stochastic gradient descent, thousands of runs at once.

`train(spec, dataset, seeds, neighbours)` is the whole of it; torch is imported when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino import _lazy
from sordino.sgd.spec import Schedule, TrainSpec

if TYPE_CHECKING:
    from sordino.sgd.batches import AllocationSampler
    from sordino.sgd.convergence import Convergence, convergence_point, stop_position
    from sordino.sgd.engine import DivergenceWarning, Interrupted, Progress, train, train_chunks
    from sordino.sgd.grid import Plan, prepare

__all__ = [
    "AllocationSampler",
    "Convergence",
    "DivergenceWarning",
    "Interrupted",
    "Plan",
    "Progress",
    "Schedule",
    "TrainSpec",
    "convergence_point",
    "prepare",
    "stop_position",
    "train",
    "train_chunks",
]

_ENGINE = ("DivergenceWarning", "Interrupted", "Progress", "train", "train_chunks")
_HOMES = {
    "AllocationSampler": "batches",
    **dict.fromkeys(("Convergence", "convergence_point", "stop_position"), "convergence"),
    **dict.fromkeys(_ENGINE, "engine"),
    **dict.fromkeys(("Plan", "prepare"), "grid"),
}
__getattr__, __dir__ = _lazy.public_names(__name__, _HOMES)
