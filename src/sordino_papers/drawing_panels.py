"""The page that figures of grids are drawn on: panels in the paper's rows and columns.

One panel (or two) a run, row by row. What holds for all of them stands once: the legend above, the
rows' names at the left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import _check
from sordino.report import canvas
from sordino.types import Array
from sordino_papers.found import Numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INITS = ("fixed", "vary")
"""In the order they are drawn: what the papers call "fix" lies below."""
SYMBOLS = {"fixed": "fix", "vary": "vary"}
PAGE = 7.2
"""Inches: both columns of a two-column page."""


@dataclass(frozen=True)
class Layout:
    """Where panels stand.

    Parameters
    ----------
    titles
        One a run.
    across
        Runs in a row.
    rows
        A name for each row, or none at all.
    """

    titles: Sequence[str]
    across: int = 1
    rows: Sequence[str] = ()

    @property
    def down(self) -> int:
        """Rows."""
        return math.ceil(len(self.titles) / self.across)

    def panels(
        self, runs: Sequence[Numbers], height: float, *, each: int = 1
    ) -> tuple[Figure, list[list[Any]]]:
        """A figure, and `each` axes a run; places that no run fills stay white."""
        from matplotlib.figure import Figure

        if len(runs) != len(self.titles):
            _check.fail("titles", list(self.titles), f"to be {len(runs)}, one a run")
        if self.rows and len(self.rows) != self.down:
            _check.fail("rows", list(self.rows), f"to be {self.down}, one a row of panels")
        wide = self.across * each
        width = canvas.COLUMN if wide == 1 else PAGE
        figure = Figure(figsize=(width, 0.45 + height * self.down), layout="constrained")
        axes = figure.subplots(self.down, wide, squeeze=False)
        places = [list(axes.ravel()[at : at + each]) for at in range(0, axes.size, each)]
        for unused in places[len(runs) :]:
            for axis in unused:
                axis.set_axis_off()
        for name, (first, *_) in zip(self.rows, axes, strict=bool(self.rows)):
            _name_row(first, name)
        return figure, places[: len(runs)]

    def is_left(self, at: int) -> bool:
        """Whether a run's panel is the first of its row."""
        return at % self.across == 0

    def is_lowest(self, at: int) -> bool:
        """Whether no panel stands below."""
        return at + self.across >= len(self.titles)


def inits(run: Numbers, name: str) -> list[str]:
    """Kinds of initial weights of which a run has these numbers."""
    return [init for init in INITS if f"{init}/{name}" in run]


def scalar(run: Numbers, name: str) -> float:
    """The first of a run's numbers of that name; NaN if there is none."""
    return float(np.ravel(run[name])[0]) if name in run and np.size(run[name]) else math.nan


def density(values: Array, high: float, *, low: float = 0.0) -> tuple[Array, Array]:
    """A smooth density of `values` between two ends, on a plain axis.

    Its area is the share of values between them. The width is Silverman's for at most 1,000 values:
    pairs that share a run are far from independent. What would be smoothed over the lower end is
    folded back, so that distances have no density below 0.
    """
    places = 600
    edges = np.linspace(low, high, places + 1)
    step = edges[1] - edges[0]
    middle = edges[:-1] + step / 2
    inside = np.asarray(values, dtype=np.float64)
    many = np.isfinite(inside).sum()
    inside = inside[(inside >= low) & (inside <= high)]
    if len(inside) == 0:
        return middle, np.zeros(places)
    counts = np.histogram(inside, edges)[0] / (many * step)
    spread = min(float(inside.std()), float(np.subtract(*np.quantile(inside, [0.75, 0.25]))) / 1.34)
    width = max(0.9 * spread * min(len(inside), 1000) ** -0.2, step)
    reach = min(math.ceil(4 * width / step), places - 1)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * step / width) ** 2)
    smooth = np.convolve(counts, kernel / kernel.sum())
    found = smooth[reach : reach + places].copy()
    found[:reach] += smooth[:reach][::-1]
    return middle, found


def _name_row(panel: Any, name: str) -> None:
    panel.annotate(
        name,
        (0, 0.5),
        (-38, 0),
        xycoords="axes fraction",
        textcoords="offset points",
        rotation=90,
        ha="right",
        va="center",
        fontsize=8,
        fontweight="bold",
    )
