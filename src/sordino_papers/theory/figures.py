"""Figures of formulas and of the worst-case loss: the notes, and Annamalai's Figures 1 and 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.audit.worst_case import WAYS
from sordino.report import canvas
from sordino.report.canvas import BLUE, GREEN, GREY, INK, PURPLE, VERMILION
from sordino.report.figures import (
    ORDERS,
    Repeats,
    WorstCaseSetting,
    epsilons_against_theory,
    error_curves,
)
from sordino.types import Array
from sordino_papers.quantities import Numbers
from sordino_papers.theory.formulas import slope

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Style = dict[str, Any]
_Line = tuple[str, Array, _Style]
"""What it is called, heights, and matplotlib's style."""
_DOTS = (0, (1, 1.2))
_THIN: _Style = {"linestyle": "--", "linewidth": 0.9}
_NOISE: Mapping[str, tuple[str, _Style]] = {
    "naive_first": ("naive, printed, first form", {"color": VERMILION, **_THIN}),
    "naive_second": ("naive, printed, second form", {"color": VERMILION, "linestyle": _DOTS}),
    "naive": ("naive, proved", {"color": VERMILION}),
    "strong_order": ("strong, printed order", {"color": BLUE, "linestyle": _DOTS}),
    "strong": ("strong, proved", {"color": BLUE}),
    "moments_order": ("moments, printed order", {"color": GREEN, "linestyle": _DOTS}),
    "moments": ("moments accountant", {"color": GREEN}),
    "least": ("least that is enough", {"color": INK, "linestyle": "--"}),
}
_GROWTH: Mapping[str, tuple[str, _Style]] = {
    "naive": ("naive composition", {"color": VERMILION, "marker": "s"}),
    "strong": ("strong composition", {"color": BLUE, "marker": "o"}),
    "moments": ("moments accountant", {"color": GREEN, "marker": "^"}),
    "least": ("exact epsilon", {"color": INK, "linestyle": "--"}),
}


_LINES = ("observed", "composed", "linear")


def _noise_by_steps(table: Numbers) -> Figure:
    """The noise that each method asks for, against the number of steps (the notes, section 3)."""
    lines = [(label, table[name], style) for name, (label, style) in _NOISE.items()]
    title = _training(table, "epsilon", "delta", "sample_rate")
    return _log_log(table["steps"], lines, "steps T", "noise multiplier", title)


def _noise_ratio(table: Numbers, *, since: float) -> Figure:
    """Strong over naive noise against steps, with the power that it falls with from `since` on."""
    steps, proved, late = table["steps"], table["strong"] / table["naive"], table["steps"] >= since
    order = table["ratio_order"]
    power, printed = slope(steps[late], proved[late]), slope(steps[late], order[late])
    root = proved[-1] * np.sqrt(steps[-1] / steps)
    ordered, dots = f"printed order, constant 1 (slope {printed:.3f})", {"linestyle": _DOTS}
    lines: list[_Line] = [
        (f"proved (slope {power:.3f})", proved, {"color": BLUE, "marker": "o"}),
        (ordered, order, {"color": VERMILION, **dots}),
        ("like 1/√T", root, {"color": GREY, **_THIN}),
    ]
    title = f"{_training(table, 'epsilon', 'delta', 'sample_rate')}; slopes from T = {since:g}"
    return _log_log(steps, lines, "steps T", "strong / naive noise", title)


def _epsilon_by_epochs(table: Numbers) -> Figure:
    """Epsilon against epochs by each method, with the power it grows with (section 4)."""
    epochs = table["epochs"]
    lines = [
        (f"{label} (slope {slope(epochs, table[name]):.2f})", table[name], style)
        for name, (label, style) in _GROWTH.items()
    ]
    flat = np.full(len(epochs), table["moments"][0])
    lines.append(("moments, if constant", flat, {"color": PURPLE, "linestyle": _DOTS}))
    title = _training(table, "noise_multiplier", "delta", "sample_rate")
    return _log_log(epochs, lines, f"epochs of {table['steps'][0]:,} steps", "epsilon", title)


_SYMBOLS = {"epsilon": "ε", "delta": "δ", "sample_rate": "q", "noise_multiplier": "noise"}


def _training(table: Numbers, *names: str) -> str:
    return ", ".join(f"{_SYMBOLS[name]} = {table[name][0]:g}" for name in names)


def _log_log(x: Array, lines: Sequence[_Line], across: str, up: str, title: str) -> Figure:
    from matplotlib.figure import Figure

    low = min(float(y.min()) for _, y, _ in lines)
    high = max(float(y.max()) for _, y, _ in lines)
    with canvas.styled():
        figure = Figure(figsize=(4.6, 3.3), layout="constrained")
        panel = figure.subplots()
        canvas.log_axis(panel.xaxis, float(x.min()) / 1.15, float(x.max()) * 1.15)
        canvas.log_axis(panel.yaxis, low / 1.5, high * 1.5)
        for label, y, style in lines:
            panel.plot(x, y, label=label, markersize=3, **style)
        panel.set(xlabel=across, ylabel=up)
        canvas.legend_above(figure, panel, title)
    return figure


def _worst_case_curves(
    *runs: Numbers, log: bool = False, orders: Sequence[str] = tuple(ORDERS)
) -> Figure:
    """Annamalai's Figure 1: error rates of the final iterate, a panel a training.

    `orders` are rows: "presence" as in the paper, "absence" with D and D' exchanged.
    """
    settings = []
    for run in runs:
        numbers = f"σ = {run['noise_multiplier']:g}, q = {run['sample_rate']:g}, T = {run['steps']}"
        title = f"{numbers}\nepsilon {run['claimed']:.3g}, linear {run['linear']:.3g}"
        curves = {
            row: {line: (run[f"{row}/{line}/fpr"], run[f"{row}/{line}/fnr"]) for line in _LINES}
            for row in orders
        }
        settings.append(WorstCaseSetting(title, curves))
    return error_curves(settings, log=log, orders=orders)


def _worst_case_epsilons(*runs: Numbers) -> Figure:
    """Annamalai's Figure 2: epsilon found against epsilon, a panel a training."""
    panels = {}
    for run in runs:
        panels[f"q = {run['sample_rate']:g}, T = {run['steps']}"] = [
            Repeats(says, dict(zip(run["epsilons"].tolist(), run[way].tolist(), strict=True)))
            for way, says in WAYS.items()
        ]
    return epsilons_against_theory(panels)


_DRAWN: tuple[Callable[..., Figure], ...] = (
    *(_noise_by_steps, _noise_ratio, _epsilon_by_epochs),
    *(_worst_case_curves, _worst_case_epsilons),
)
DRAWINGS = {each.__name__.removeprefix("_"): each for each in _DRAWN}
