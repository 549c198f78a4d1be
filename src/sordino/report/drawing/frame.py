"""Ordinary figures with two axes: their size, their grid and the key to their lines."""

from __future__ import annotations

from typing import Any

from sordino.report.drawing.inline import WIDTH


def framed(height: float) -> tuple[Any, Any]:
    """A figure so many points high, and its axes. To be called within `styled`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
    return figure, figure.subplots()


def key(figure: Any, panel: Any) -> None:
    """The names of a panel's lines, above it, where they hide nothing."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper left",
        ncols=1,
        alignment="left",
        labelspacing=0.35,
        borderaxespad=0.2,
    )


def in_percent(axis: Any) -> None:
    """Label an axis of shares."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.10g}%"))
