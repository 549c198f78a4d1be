"""Quantities: what a claim asks of the numbers of its runs. One registry, a module a family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sordino_papers.found import Found

Quantity = Callable[..., Found]
"""Called with the `Numbers` of the claim's runs, in order, and the claim's arguments by name."""


def registry() -> dict[str, Quantity]:
    """Every quantity by name."""
    from sordino_papers import (
        formulas,
        hidden_state,
        quantities_grid,
        quantities_noise,
        sizes,
    )

    found: dict[str, Quantity] = {}
    for module in (
        sizes,
        quantities_grid,
        quantities_noise,
        formulas,
        hidden_state,
    ):
        for name, quantity in module.QUANTITIES.items():
            assert name not in found, f"two quantities called {name}"
            found[name] = quantity
    return found


def drawings() -> dict[str, Callable[..., Any]]:
    """Every drawing by name: from the `Numbers` of its runs and arguments to a figure."""
    from sordino_papers import drawing_grid, drawing_noise, drawing_theory
    from sordino_papers.erm import drawing as drawing_erm

    found: dict[str, Callable[..., Any]] = {}
    for module in (drawing_grid, drawing_noise, drawing_erm, drawing_theory):
        found.update(module.DRAWINGS)
    return found
