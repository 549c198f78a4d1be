"""Stochastic gradient descent, thousands of runs at once.

`train(spec, dataset, seeds, neighbours)` is the whole of it; torch is imported when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sordino.sgd.spec import Schedule, TrainSpec

if TYPE_CHECKING:
    from sordino.sgd.convergence import convergence_point
    from sordino.sgd.engine import Interrupted, Progress, train, train_chunks
    from sordino.sgd.grid import prepare

__all__ = [
    "Interrupted",
    "Progress",
    "Schedule",
    "TrainSpec",
    "convergence_point",
    "prepare",
    "train",
    "train_chunks",
]


def __getattr__(name: str) -> Any:
    if name == "convergence_point":
        from sordino.sgd import convergence

        return convergence.convergence_point
    if name == "prepare":
        from sordino.sgd import grid

        return grid.prepare
    if name in __all__:
        from sordino.sgd import engine

        return getattr(engine, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
