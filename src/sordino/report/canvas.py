"""The look of printed figures: one column wide, few colours, the same picture for the same numbers.

Colours are of Okabe & Ito's palette, which people tell apart who see fewer colours than others;
what matters is also told by dashes or by words beside a line.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino import _files
from sordino.report import palette
from sordino.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


BLUE, GREEN, VERMILION = palette.PROVED, palette.ESTIMATED, palette.OBSERVED
INK, GREY, PURPLE = palette.INK, palette.MUTED, palette.PURPLE
COLUMN = 3.5
"""Inches: a column of a two-column page."""
DOTS_PER_INCH = 300

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so pictures repeat
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.linewidth": 0.7,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.prop_cycle": f"cycler('color', {list(palette.LINES)})",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": palette.GRID,
    "grid.linewidth": 0.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "lines.linewidth": 1.3,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "sordino",
}


@contextmanager
def styled() -> Iterator[None]:
    """Within it, what matplotlib makes has this look, and nothing outside is changed."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        yield


def panels(rows: int, height: float) -> tuple[Figure, list[Any]]:
    """A figure one column wide with so many panels below each other, and their axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(COLUMN, height), layout="constrained")
    return figure, list(figure.subplots(rows, 1, squeeze=False)[:, 0])


_SAYS = {"pdf": "Subject"}
_DATED = {"svg": "Date", "pdf": "CreationDate"}
"""Formats' own names for what a figure says, and for the date, which would change the bytes."""


def save(figure: Figure, path: str, says: str, *, mode: int = 0o600) -> None:
    """Write a figure in the format of its name, for its owner's eyes; `says` goes inside the file.

    The same figure gives the same bytes.
    """
    suffix, made = path.rpartition(".")[2].lower(), io.BytesIO()
    metadata: dict[str, str | None] = {_SAYS.get(suffix, "Description"): says}
    if suffix in _DATED:
        metadata[_DATED[suffix]] = None
    with styled():
        figure.savefig(made, dpi=DOTS_PER_INCH, metadata=metadata, format=suffix)
    with _files.explained("figure", path, "written"):
        _files.write(path, made.getvalue(), mode=mode)


def log_axis(axis: Any, low: float, high: float) -> None:
    """Make an axis logarithmic from `low` to `high`, with plain numbers: 0.05, 0.1, 20, 1,000."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (low, high)})
    decades = math.log10(high / low)
    subs = (1.0, 2.0, 5.0) if decades < 2.5 else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=99 if decades < 8 else 9))
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))
    axis.set_minor_formatter(NullFormatter())


def whole_numbers(axis: Any) -> None:
    """Label an axis of counts: whole numbers only, with commas."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))


def in_percent(axis: Any) -> None:
    """Label an axis of shares."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.10g}%"))


def legend_above(figure: Figure, panel: Any, title: str = "", columns: int = 2) -> None:
    """Put the title and the names of a panel's lines above the figure, where they hide nothing."""
    handles, labels = panel.get_legend_handles_labels()
    legend = figure.legend(
        handles,
        labels,
        title=title or None,
        loc="outside upper left",
        ncols=columns,
        alignment="left",
        columnspacing=1.2,
        labelspacing=0.3,
        borderaxespad=0.2,
    )
    legend.get_title().set_fontsize(8)


def say_at(panel: Any, height: float, text: str) -> None:
    """Write on a horizontal line, at its right end; what lies behind shines through a little."""
    panel.annotate(
        text,
        (1.0, height),
        (-3, 3),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="right",
        fontsize=7,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8},
    )


def blue(shade: float) -> Any:
    """A blue from light (0) to dark (1), for lines that are alike."""
    from matplotlib import colormaps

    return colormaps["Blues"](0.3 + 0.65 * shade)


def thinned(many: int, most: int) -> npt.NDArray[np.intp]:
    """About `most` of the places 0..many-1, dense at the beginning, both ends kept."""
    if many <= most:
        return np.arange(many)
    return np.unique(np.geomspace(1, many, most).round().astype(np.intp)) - 1


def plain(value: float) -> str:
    """A tick's number as people write it."""
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:,.10g}"


def density(values: Floats, low: float, high: float, places: int = 500) -> tuple[Floats, Floats]:
    """A smooth density of log10(values) between the logarithms of `low` and `high`.

    Its area is the share of `values` above 0, which alone have a logarithm. The width is that of
    Silverman for at most 1,000 values: pairs that share a run are far from independent.
    """
    logs = np.log10(values[values > 0])
    edges = np.linspace(math.log10(low), math.log10(high), places + 1)
    step = edges[1] - edges[0]
    if len(logs) == 0:
        return np.asarray(10 ** (edges[:-1] + step / 2)), np.zeros(places)
    counts = np.histogram(logs, edges)[0] / (len(values) * step)
    spread = min(float(logs.std()), float(np.subtract(*np.quantile(logs, [0.75, 0.25]))) / 1.34)
    width = max(0.9 * spread * min(len(logs), 1000) ** -0.2, step)
    reach = math.ceil(4 * width / step)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * step / width) ** 2)
    smooth = np.convolve(counts, kernel / kernel.sum())[reach : reach + places]
    return np.asarray(10 ** (edges[:-1] + step / 2)), np.asarray(smooth)
