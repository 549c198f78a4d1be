"""Figures; matplotlib is loaded when one is drawn."""

from __future__ import annotations

import importlib.util
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sordino import _check, _files

Point = tuple[float, float]
KINDS = ("png", "svg", "pdf")


def check_path(path: str) -> None:
    """Refuse a file that could not be written, before the work is done."""
    if path.lower().rpartition(".")[2] not in KINDS:
        _check.fail("plot", path, f"to end in .{', .'.join(KINDS)}")
    with _files.explained("plot", path, "written"):
        _files.check_place(path)
    if importlib.util.find_spec("matplotlib") is None:
        _check.fail("plot", path, "to have matplotlib to draw it", "pip install matplotlib")


def counts(most: int, places: int = 15) -> list[int]:
    """About so many whole numbers up to `most`, evenly apart in their logarithm."""
    if most < 1:
        _check.fail("steps", most, ">= 1 where a figure is drawn")
    spread = np.geomspace(max(1, most / 1000), most, places)
    return [int(count) for count in np.unique(spread.round())]


def growth(
    series: Mapping[str, Sequence[Point]], path: str, *, across: str, up: str, title: str
) -> None:
    """Lines on logarithmic axes; what is no guarantee is dashed."""
    figure, (axes,) = _figure(1)
    _lines(axes, series)
    axes.set(xlabel=across, ylabel=up)
    axes.set_title(title, fontsize=10)
    _save(figure, path)


def noise_growth(
    series: Mapping[str, Sequence[Point]], ratios: Sequence[Point], path: str, *, title: str
) -> None:
    """Noise against epochs, and strong over naive composition against steps."""
    figure, (left, right) = _figure(2)
    _lines(left, series)
    left.set(xlabel="epochs", ylabel="noise multiplier")
    left.set_title(title, fontsize=10)
    if ratios:
        steps, values = zip(*ratios, strict=True)
        right.plot(steps, values, marker="o", markersize=3, label="strong / naive, as proved")
        last = values[-1] * math.sqrt(steps[-1])
        right.plot(steps, [last / math.sqrt(s) for s in steps], "k:", label="like 1 / sqrt(steps)")
        right.set(xscale="log", yscale="log")
        right.legend(fontsize=8)
    right.set(xlabel="steps", ylabel="ratio of noise", title="strong over naive composition")
    _save(figure, path)


def _figure(panels: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4 * panels, 4.6), layout="constrained")
    return figure, figure.subplots(1, panels, squeeze=False)[0]


def _lines(axes: Any, series: Mapping[str, Sequence[Point]]) -> None:
    from matplotlib.ticker import NullFormatter

    axes.set(xscale="log", yscale="log")
    axes.grid(alpha=0.3)
    axes.xaxis.set_minor_formatter(NullFormatter())  # they would run into each other
    for label, points in series.items():
        finite = [(x, y) for x, y in points if math.isfinite(y) and y > 0]
        if not finite:
            continue
        x, y = zip(*finite, strict=True)
        axes.plot(x, y, "--" if "no guarantee" in label else "-", label=label, linewidth=1.6)
    if axes.get_lines():
        axes.legend(fontsize=8)


def _save(figure: Any, path: str) -> None:
    from matplotlib import rc_context

    suffix, made = path.rpartition(".")[2].lower(), io.BytesIO()
    metadata = {"Date": None} if suffix == "svg" else None
    with rc_context({"svg.hashsalt": "sordino"}):  # the same picture, the same file
        figure.savefig(made, dpi=150, metadata=metadata, format=suffix)
    with _files.explained("plot", path, "written"):
        _files.write(path, made.getvalue(), mode=0o666)  # theorems are no secret
