"""Colours and the look of figures: few colours, the same picture for the same numbers.

Colours have their meaning by name, on a light and on a dark page. They are Okabe & Ito's blue,
green and vermilion, which people tell apart who see fewer colours than others; what matters is
also told by dashes or by words beside a line. Pictures are drawn in the light ones. On a page
`drawing.svg` writes `var(--proved, #0072b2)` for each, so that the page sets its own.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino import _files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIGHT = {
    "ink": "#1d1f24",
    "muted": "#5a606b",
    "grid": "#d9dde3",
    "proved": "#0072b2",
    "estimated": "#00805e",
    "observed": "#b84f00",
    "panel": "#ffffff",
    "warn": "#b3002d",
}
DARK = {
    "ink": "#e9ebee",
    "muted": "#a3abb8",
    "grid": "#3a404a",
    "proved": "#56b4e9",
    "estimated": "#3fcb9d",
    "observed": "#ff9a52",
    "panel": "#15181d",
    "warn": "#ff7a8a",
}
INK, GREY, GRID, PROVED, ESTIMATED, OBSERVED, PANEL, WARN = LIGHT.values()
BLUE, GREEN, VERMILION, PURPLE = PROVED, ESTIMATED, OBSERVED, "#aa4499"
"""The same where they mean nothing, and a fourth."""
COLUMN = 3.5
"""Inches: a column of a two-column page."""
PAGE = 7.2
"""Inches: both columns of a page."""

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so pictures repeat
    **dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), 8),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 7),
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "text.color"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
    **dict.fromkeys(("figure.facecolor", "savefig.facecolor"), "white"),
    "axes.titlelocation": "left",
    "axes.linewidth": 0.7,
    "axes.prop_cycle": "cycler('color', "
    f"{[BLUE, VERMILION, GREEN, PURPLE, INK, '#e69f00', '#56b4e9', GREY]})",
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "legend.handlelength": 1.8,
    "svg.hashsalt": "sordino",
}


def properties(colours: Mapping[str, str]) -> str:
    """Colours as CSS custom properties."""
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def css(selector: str = ":root") -> str:
    """Rules that set the colours, dark ones for those who asked for dark pages."""
    dark = f"{selector} {{ {properties(DARK)} }}"
    light = f"{selector} {{ {properties(LIGHT)} }}"
    return f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}"


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


@contextmanager
def column(
    height: float, rows: int = 1, title: str = "", columns: int = 2
) -> Iterator[tuple[Figure, list[Any]]]:
    """A figure of `panels` to draw on; then the first one's legend is put above it."""
    with styled():
        figure, axes = panels(rows, height)
        yield figure, axes
        legend_above(figure, axes[0], title, columns)


def save(figure: Figure, path: str, says: str, *, mode: int = 0o600) -> None:
    """Write a figure in the format of its name, for its owner's eyes; `says` goes inside the file.

    The same figure gives the same bytes: the date is left out.
    """
    suffix, made = path.rpartition(".")[2].lower(), io.BytesIO()
    metadata: dict[str, str | None] = {"Subject" if suffix == "pdf" else "Description": says}
    dated = {"svg": "Date", "pdf": "CreationDate"}
    if suffix in dated:
        metadata[dated[suffix]] = None
    with styled():
        figure.savefig(made, dpi=300, metadata=metadata, format=suffix)
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
    _label(axis, plain, integer=True)


def in_percent(axis: Any) -> None:
    """Label an axis of shares."""
    _label(axis, lambda value: f"{100 * value:.10g}%", steps=[1, 2, 2.5, 5, 10])


def _label(axis: Any, text: Callable[[float], str], **places: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=6, **places))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


def legend_above(figure: Figure, panel: Any, title: str = "", columns: int = 2) -> None:
    """Put the title and the names of a panel's lines above the figure, where they hide nothing."""
    look: dict[str, Any] = {"loc": "outside upper left", "alignment": "left", "ncols": columns}
    look |= {"columnspacing": 1.2, "labelspacing": 0.3, "borderaxespad": 0.2}
    named = panel.get_legend_handles_labels()
    legend = figure.legend(*named, title=title or None, **look)
    legend.get_title().set_fontsize(8)


def say_at(panel: Any, height: float, text: str) -> None:
    """Write on a horizontal line, at its right end; what lies behind shines through a little."""
    place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "ha": "right"}
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8}
    panel.annotate(text, (1.0, height), (-3, 3), fontsize=7, bbox=box, **place)


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
