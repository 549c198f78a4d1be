"""Quantities: what a claim asks of the numbers of its runs. One registry, a module a family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sordino_papers.found import Found

Quantity = Callable[..., Found]
"""Called with the `Numbers` of the claim's runs, in order, and the claim's arguments by name."""


def registry() -> dict[str, Quantity]:
    """Every quantity by name."""
    from sordino_papers import sizes
    from sordino_papers.erm import quantities as quantities_erm
    from sordino_papers.own_noise import curves, features, quantities_grid, quantities_noise
    from sordino_papers.theory import formulas, hidden_state

    found: dict[str, Quantity] = {}
    grids = (quantities_grid, quantities_noise, curves, features)
    for module in (sizes, *grids, quantities_erm, formulas, hidden_state):
        for name, quantity in module.QUANTITIES.items():
            assert name not in found, f"two quantities called {name}"
            found[name] = quantity
    return found


def drawings() -> dict[str, Callable[..., Any]]:
    """Every drawing by name: from the `Numbers` of its runs and arguments to a figure."""
    from sordino_papers.erm import drawing as drawing_erm
    from sordino_papers.own_noise import drawing_grid, drawing_noise
    from sordino_papers.theory import drawing as drawing_theory

    found: dict[str, Callable[..., Any]] = {}
    for module in (drawing_grid, drawing_noise, drawing_erm, drawing_theory):
        found.update(module.DRAWINGS)
    return found
