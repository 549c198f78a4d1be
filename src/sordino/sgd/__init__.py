"""Stochastic gradient descent, thousands of runs at once.

`train(spec, dataset, seeds, neighbours)` is the whole of it; torch is imported when it is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sordino.sgd.spec import Schedule, TrainSpec

if TYPE_CHECKING:
    from sordino.sgd.convergence import Convergence, convergence_point, stop_position
    from sordino.sgd.engine import DivergenceWarning, Interrupted, Progress, train, train_chunks
    from sordino.sgd.grid import prepare
    from sordino.sgd.planning import Plan

__all__ = [
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

_HOMES = {
    "Convergence": "convergence",
    "DivergenceWarning": "engine",
    "Interrupted": "engine",
    "Plan": "planning",
    "Progress": "engine",
    "convergence_point": "convergence",
    "prepare": "grid",
    "stop_position": "convergence",
    "train": "engine",
    "train_chunks": "engine",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sordino.sgd.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
