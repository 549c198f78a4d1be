"""Figures of what theorems say; matplotlib is loaded when one is drawn."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sordino import _files, checks
from sordino.report import canvas

Point = tuple[float, float]
KINDS = ("png", "svg", "pdf")


def check_path(path: str) -> None:
    """Refuse a file that could not be written, before the work is done."""
    if path.lower().rpartition(".")[2] not in KINDS:
        checks.fail("plot", path, f"to end in .{', .'.join(KINDS)}")
    with _files.explained("plot", path, "written"):
        _files.check_place(path)
    if importlib.util.find_spec("matplotlib") is None:
        checks.fail("plot", path, "to have matplotlib to draw it", "pip install matplotlib")


def counts(most: int, places: int = 15) -> list[int]:
    """About so many whole numbers up to `most`, evenly apart in their logarithm."""
    if most < 1:
        checks.fail("steps", most, ">= 1 where a figure is drawn")
    spread = np.geomspace(max(1, most / 1000), most, places)
    return [int(count) for count in np.unique(spread.round())]


def growth(
    series: Mapping[str, Sequence[Point]], path: str, *, across: str, up: str, title: str
) -> None:
    """Lines on logarithmic axes; what is no guarantee is dashed."""
    with canvas.styled():
        figure, (axes,) = _figure(1)
        _lines(axes, series)
        axes.set(xlabel=across, ylabel=up, title=title)
    _save(figure, path, title)


def noise_growth(
    series: Mapping[str, Sequence[Point]], ratios: Sequence[Point], path: str, *, title: str
) -> None:
    """Noise against epochs, and strong over naive composition against steps."""
    with canvas.styled():
        figure, (left, right) = _figure(2)
        _lines(left, series)
        left.set(xlabel="epochs", ylabel="noise multiplier", title=title)
        if ratios:
            steps, values = ratios[-1]
            root = [(step, values * math.sqrt(steps / step)) for step, _ in ratios]
            _lines(right, {"strong / naive, as proved": ratios, "like 1 / sqrt(steps)": root})
        right.set(xlabel="steps", ylabel="ratio of noise", title="strong over naive composition")
    _save(figure, path, title)


def _figure(panels: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * panels, 3.8), layout="constrained")
    return figure, figure.subplots(1, panels, squeeze=False)[0]


def _lines(axes: Any, series: Mapping[str, Sequence[Point]]) -> None:
    from matplotlib.ticker import NullFormatter

    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_minor_formatter(NullFormatter())  # they would run into each other
    for label, points in series.items():
        finite = [(x, y) for x, y in points if math.isfinite(y) and y > 0]
        if finite:
            dashes = "--" if "no guarantee" in label else ":" if label.startswith("like") else "-"
            axes.plot(*zip(*finite, strict=True), dashes, label=label)
    if axes.get_lines():
        axes.legend()


def _save(figure: Any, path: str, says: str) -> None:
    canvas.save(figure, path, says, mode=0o666)  # theorems are no secret
