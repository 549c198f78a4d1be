"""Figures 1 and 2 of Annamalai 2024: is the final iterate as telling as all iterates?

Plain numbers in, a figure out; `canvas.save` writes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import checks
from sordino.report import canvas
from sordino.report.canvas import BLUE, GREEN, GREY, INK, PURPLE, VERMILION
from sordino.report.drawing.roc import Rates
from sordino.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = tuple[Floats, Floats]
"""False-positive rates and the false-negative rates that go with them."""

WIDTH = 7.2
"""Inches: both columns of a page."""
LEAST_RATE = 1e-3
"""Where logarithmic axes begin."""
_LINES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "composed": ("all iterates, composed (PLD)", {"color": INK, "linewidth": 1.0}),
    "observed": (
        "observed, final iterate",
        {"color": VERMILION, "linewidth": 2.4, "alpha": 0.65, "zorder": 1.9},
    ),
    "linear": ("linear loss, final iterate", {"color": BLUE, "linestyle": "--"}),
}
ORDERS = {
    "presence": "D without the record, D′ with it",
    "absence": "D with the record, D′ without it",
}
_STYLES = ((GREY, "x"), (VERMILION, "s"), (GREEN, "^"), (BLUE, "o"), (PURPLE, "D"))


@dataclass(frozen=True)
class WorstCaseSetting:
    """Curves of one training: by order ("presence", "absence"), then by name.

    Names: "observed", "composed" (all iterates) and "linear".
    """

    title: str
    curves: Mapping[str, Mapping[str, Curve]]


@dataclass(frozen=True)
class Repeats:
    """One way to come to an epsilon: values[repeat] by the theoretical epsilon.

    Infinite values are drawn as arrows at the top; `says` is the legend's text.
    """

    says: str
    values: Mapping[float, Sequence[float]]


def error_curves(
    settings: Sequence[WorstCaseSetting], *, log: bool, orders: Sequence[str] = tuple(ORDERS)
) -> Figure:
    """FPR against FNR: a column a setting, a row an order of D and D′ (Figure 1)."""
    if not settings:
        checks.fail("settings", list(settings), "to hold at least one")
    for order in orders:
        checks.one_of("orders", order, tuple(ORDERS))
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with canvas.styled():
        apart = ConstrainedLayoutEngine(wspace=0.07)  # labels of neighbours would meet
        figure = Figure(figsize=(WIDTH, 0.6 + 2.3 * len(orders)), layout=apart)
        grid = figure.subplots(len(orders), len(settings), squeeze=False, sharex=True, sharey=True)
        for row, order in zip(grid, orders, strict=True):
            for panel, setting in zip(row, settings, strict=True):
                _curves(panel, setting.curves[order], log)
            row[0].set_ylabel(f"{ORDERS[order]}\n\nfalse-negative rate")
        for top, bottom, setting in zip(grid[0], grid[-1], settings, strict=True):
            top.set_title(setting.title)
            bottom.set_xlabel("false-positive rate")
        canvas.legend_above(figure, grid[0][0], columns=len(_LINES))
    return figure


def _curves(panel: Any, curves: Mapping[str, Curve], log: bool) -> None:
    Rates(panel, LEAST_RATE if log else 0.0, guessing="")
    for name, (label, style) in _LINES.items():
        panel.plot(*curves[name], label=label, **style)


def epsilons(panels: Mapping[str, Sequence[Repeats]]) -> Figure:
    """Epsilon found against the theoretical one, mean and 2 standard deviations (Figure 2)."""
    if not panels:
        checks.fail("panels", dict(panels), "to hold at least one")
    from matplotlib.figure import Figure

    with canvas.styled():
        figure = Figure(figsize=(WIDTH, 3.7), layout="constrained")
        grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        limits = _limits([one for series in panels.values() for one in series])
        for panel, (title, series) in zip(grid, panels.items(), strict=True):
            _against_theory(panel, series, *limits)
            panel.set_title(title)
            panel.set_xlabel("theoretical epsilon")
        grid[0].set_ylabel("epsilon found")
        canvas.legend_above(figure, grid[0], columns=2)
    return figure


def _limits(series: Sequence[Repeats]) -> tuple[float, float]:
    """Heights of all panels: every number, and room above for the arrows."""
    theory = [epsilon for one in series for epsilon in one.values]
    found = [v for one in series for vs in one.values.values() for v in vs if 0 < v < math.inf]
    return min(theory + found) / 1.4, 1.9 * max(theory + found)


def _against_theory(panel: Any, series: Sequence[Repeats], low: float, high: float) -> None:
    theory = sorted({epsilon for one in series for epsilon in one.values})
    canvas.log_axis(panel.xaxis, min(theory) / 1.5, max(theory) * 1.5)
    canvas.log_axis(panel.yaxis, low, high)
    panel.set_xticks(theory)
    panel.minorticks_off()
    # Points stand beside each other, so each group gets its own level instead of a diagonal.
    panel.hlines(theory, *np.outer([1 / 1.25, 1.25], theory), color=INK, label="theory")
    for at, (one, (color, marker)) in enumerate(zip(series, _STYLES, strict=False)):
        aside = 1.09 ** (at - (len(series) - 1) / 2)
        _points(panel, one, aside, high / 1.15, color, marker)


def _points(panel: Any, one: Repeats, aside: float, top: float, color: str, marker: str) -> None:
    """Means with bars, side by side; an arrow and a count where some are infinite."""
    look = {"color": color, "marker": marker, "linestyle": "none", "markersize": 4}
    panel.plot([], [], label=one.says, **look)
    for epsilon, values in one.values.items():
        place, numbers = epsilon * aside, np.asarray(values, dtype=np.float64)
        finite = numbers[np.isfinite(numbers)]
        infinite = len(numbers) - len(finite)
        if infinite:
            panel.plot([place], [top], color=color, marker=r"$\uparrow$", markersize=7)
            text = f"{infinite} of {len(numbers)}"
            panel.annotate(
                text,
                (place, top),
                (0, -11),
                textcoords="offset points",
                ha="center",
                fontsize=6,
                color=color,
            )
        if len(finite):
            spread = 2 * float(finite.std(ddof=1)) if len(finite) > 1 else 0.0
            panel.errorbar([place], [finite.mean()], [spread], capsize=2, elinewidth=1.0, **look)
