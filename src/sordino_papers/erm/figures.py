"""Chen, Lee & Kifer's figures: accuracy and objective against epsilon, seconds against rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.report import canvas
from sordino.types import Array
from sordino_papers.erm.quantities import of_method
from sordino_papers.quantities import Numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAGE = 7.2
"""Inches: both columns of a two-column page."""
_ORANGE, _SKY, _YELLOW = "#E69F00", "#56B4E9", "#B8A900"
STYLES: dict[str, tuple[str, str, str]] = {
    "auto": (canvas.INK, "o", "-"),
    "noisy-gd": (canvas.BLUE, "v", "--"),
    "bolt-on": (_ORANGE, ">", "--"),
    "dp-sgd": (canvas.PURPLE, "d", "-"),
    "diffprivlib": (_SKY, "*", "--"),
    "scikit-learn lbfgs": (canvas.GREY, "h", "--"),
    "rsgd-ar": (canvas.VERMILION, "o", "-"),
    "nsgd": (_ORANGE, "v", "-"),
    "output-gd": (_YELLOW, "^", "-"),
    "objective": (canvas.BLUE, "s", "-"),
    "objective/2011": (_SKY, "D", ":"),
    "objective/2012": (_SKY, "s", "--"),
    "dp-agd": (canvas.GREEN, "<", "-"),
    "sgd-ma": (canvas.PURPLE, "P", "-"),
    "sgd-ma/2016": (canvas.PURPLE, "X", "--"),
    "none": (canvas.INK, "", "--"),
    "majority": (canvas.GREY, "", ":"),
}
"""By method: colour, mark, dashes."""
_FRONT = ("rsgd-ar", "auto")
"""What the paper proposes, and what the package does, is drawn over the rest."""
_BEST, _WORST = "none", "majority"


def accuracy_and_objective(
    *runs: Numbers, titles: Sequence[str], lines: Mapping[str, str]
) -> Figure:
    """Figures 1 and 2: accuracies above, objectives below, a column a dataset.

    Parameters
    ----------
    runs, titles
        A run of kind "erm" and its heading, from left to right.
    lines
        What is drawn: by method, its name in the paper. Crosses at the lower edge are budgets that
        a method cannot meet.
    """
    from matplotlib.figure import Figure

    with canvas.styled():
        figure = Figure(figsize=(_PAGE, 4.9), layout="constrained")
        panels = figure.subplots(2, len(runs), squeeze=False, sharex="col")
        for column, (numbers, title) in enumerate(zip(runs, titles, strict=True)):
            top, bottom = panels[:, column]
            for method, label in lines.items():
                _line(top, numbers, "accuracies", method, label, 100.0)
                if method != _WORST:
                    _line(bottom, numbers, "objectives", method, label, 1.0)
            top.set_title(title)
            _frame(top, bottom, numbers, list(lines))
            bottom.set_xlabel(r"$\epsilon$")
        panels[0, 0].set_ylabel("Accuracy on held-out folds, %")
        panels[1, 0].set_ylabel("Objective")
        canvas.legend_above(figure, panels[0, 0], columns=min(len(lines), 5))
    return figure


def processing_times(
    numbers: Numbers, *, lines: Mapping[str, str], seconds: str = "Processor seconds"
) -> Figure:
    """Figure 3: seconds of one fit against the number of rows, on a logarithmic axis."""
    with canvas.styled():
        figure, (panel,) = canvas.panels(1, 2.9)
        for method, label in lines.items():
            taken = of_method(numbers, "seconds", method)
            _draw(panel, method, label, numbers["rows"] / 1000, taken)
        lowest, highest = np.nanmin(numbers["seconds"]), np.nanmax(numbers["seconds"])
        canvas.log_axis(panel.yaxis, lowest / 1.3, highest * 1.3)
        panel.set_xticks(numbers["rows"] / 1000)
        panel.set(xlabel="Rows of KDDCup99, thousands", ylabel=f"{seconds} of one fit")
        canvas.legend_above(figure, panel, columns=3)
    return figure


def _line(panel: Any, numbers: Numbers, of: str, method: str, label: str, times: float) -> None:
    """Means over folds; a cross at the lower edge where a budget cannot be met."""
    values = times * of_method(numbers, of, method)
    means, many = values.mean(axis=-1), values.shape[-1]
    # Standard errors over folds, as if those were independent.
    errors = values.std(axis=-1, ddof=1) / np.sqrt(many) if many > 1 else None
    _draw(panel, method, label, numbers["epsilons"], means, errors)
    cannot = numbers["epsilons"][np.isnan(means)]
    colour, *_ = STYLES[method.removesuffix("/tuned")]
    edge = panel.get_xaxis_transform()
    panel.plot(cannot, np.full(len(cannot), 0.02), "x", color=colour, markersize=4, transform=edge)


def _draw(
    panel: Any, method: str, label: str, across: Array, values: Array, errors: Array | None = None
) -> None:
    method = method.removesuffix("/tuned")
    colour, mark, dashes = STYLES[method]
    width, order = (1.6, 4) if method in _FRONT else (1.0, 3)
    look: Any = {"color": colour, "marker": mark or None, "markersize": 3, "linestyle": dashes}
    look |= {"linewidth": width, "elinewidth": 0.6, "capsize": 1.5, "zorder": order}
    panel.errorbar(across, values, errors if mark else None, label=label, **look)


def _frame(top: Any, bottom: Any, numbers: Numbers, methods: Sequence[str]) -> None:
    """What is worse than always saying the same is cut off: the rest could not be told apart."""
    epsilons = numbers["epsilons"]
    for panel in (top, bottom):
        panel.set_xscale("log")
        panel.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        panel.minorticks_off()
    drawn = 100 * np.array(
        [of_method(numbers, "accuracies", each).mean(axis=-1) for each in methods if each != _WORST]
    )
    worst = 100 * float(of_method(numbers, "accuracies", _WORST).mean())
    low, high = max(worst, float(np.nanmin(drawn))), float(np.nanmax(drawn))
    bottom_of_top = low - 0.3 * (high - low)
    top.set_ylim(bottom_of_top, high + 0.1 * (high - low))
    if worst < bottom_of_top:
        place = {"xycoords": "axes fraction", "ha": "right", "fontsize": 7, "color": canvas.GREY}
        top.annotate(f"always the same answer: {worst:.1f} %", (0.98, 0.06), **place)
    least, most = (float(of_method(numbers, "objectives", m).mean()) for m in (_BEST, _WORST))
    bottom.set_ylim(least - 0.06 * (most - least), most + 0.1 * (most - least))


DRAWINGS: dict[str, Callable[..., Any]] = {
    "accuracy_and_objective": accuracy_and_objective,
    "processing_times": processing_times,
}
