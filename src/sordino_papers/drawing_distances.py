"""How far apart models are, and what that would be worth: v1, Figures 2, 4, 6, 7, 8; v2, 1 and 5.

All of it INTERNAL; every epsilon is an estimate, not a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import _check
from sordino.intrinsic.epsilon import pairwise_epsilon
from sordino.report import canvas
from sordino.report.canvas import BLUE, GREEN, INK, PURPLE, VERMILION
from sordino.report.intrinsic import ESTIMATE
from sordino_papers import drawing_panels
from sordino_papers.drawing_panels import SYMBOLS, Layout, inits, scalar
from sordino_papers.found import Numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS = {"vary": BLUE, "fixed": VERMILION}
_DASHES: dict[str, Any] = {"vary": (0, (1, 1.2)), "fixed": (0, (4, 1.5))}
_OVER = {
    "seeds": ("delta_s", "pairs, each seed"),
    "largest": ("delta_s_pairs_largest", "pairs, largest over seeds"),
}
_DISTANCE = r"$\Vert w - w^{\prime}\Vert$"


def distances(
    *runs: Numbers, titles: Sequence[str], across: int = 1, rows: Sequence[str] = ()
) -> Figure:
    """Densities of Delta_S, Delta_V and Delta_S+V, dashed the papers' bound where there is one."""
    layout = Layout(titles, across, rows)
    with canvas.styled():
        figure, places = layout.panels(runs, 1.75)
        for at, ((panel,), run) in enumerate(zip(places, runs, strict=True)):
            _distances(panel, run)
            panel.set_title(titles[at])
            panel.set_xlabel(_DISTANCE)
            if layout.is_left(at):
                panel.set_ylabel("density")
        legend = _widest(places)
        canvas.legend_above(figure, legend, columns=6 if across > 1 else 3)
    return figure


def cnn_distances(run: Numbers, *, title: str) -> Figure:
    """The same of one run, beside distances of Gaussian vectors of that scale (v2, Figure 5)."""
    with canvas.styled():
        figure, ((panel,),) = Layout([title]).panels([run], 2.5)
        top = _distances(panel, run)
        for init in inits(run, "gaussian_distances"):
            if init == "vary":
                _, high = panel.get_xlim()
                x, y = drawing_panels.density(run[f"{init}/gaussian_distances"], high)
                panel.plot(x, y, color=INK, linewidth=1.0, label="Gaussian vectors")
                panel.set_ylim(0, max(top, 1.1 * float(y.max())))
        panel.set(xlabel=_DISTANCE, ylabel="density")
        panel.set_title(title)
        canvas.legend_above(figure, panel, columns=3)
    return figure


def pairwise(
    *runs: Numbers,
    titles: Sequence[str],
    across: int = 1,
    init: str = "vary",
    over: str = "seeds",
) -> Figure:
    """Density of the epsilon of each pair of datasets, by the papers' formula at delta = 1/N.

    `over` "seeds" takes every seed of a pair on its own, "largest" a pair's largest distance.
    """
    _check.one_of("over", over, sorted(_OVER))
    layout = Layout(titles, across)
    with canvas.styled():
        figure, places = layout.panels(runs, 1.75)
        for at, ((panel,), run) in enumerate(zip(places, runs, strict=True)):
            _pairwise(panel, run, init, over)
            panel.set_title(titles[at])
            if layout.is_left(at):
                panel.set_ylabel("density")
            if layout.is_lowest(at):
                panel.set_xlabel(f"pairwise $\\epsilon_i$\n({ESTIMATE})")
        canvas.legend_above(figure, places[0][0], columns=3)
    return figure


def _distances(panel: Any, run: Numbers) -> float:
    """All densities of one run; returns the panel's height."""
    bound = scalar(run, "bound_printed")
    both = inits(run, "delta_v")
    data = np.concatenate([run[f"{init}/delta_s"] for init in inits(run, "delta_s")])
    samples = [run[f"{init}/{kind}"] for init in both for kind in ("delta_v", "delta_sv")]
    high = 1.05 * max(float(np.max(sample)) for sample in [*samples, data])
    high = max(high, 1.1 * bound) if math.isfinite(bound) else high
    hills = [("Delta_S", r"$\Delta_S$", data, GREEN)]
    for init in both:
        name = rf"$\Delta_V^{{\mathrm{{{SYMBOLS[init]}}}}}$"
        hills.append((init, name, run[f"{init}/delta_v"], _COLORS[init]))
    top = 0.0
    for kind, label, values, color in hills:
        x, y = drawing_panels.density(values, high)
        panel.fill_between(x, y, color=color, alpha=0.25, linewidth=0)
        panel.plot(x, y, color=color, label=label, linewidth=1.1)
        peak = float(y.max())
        top = max(top, peak) if kind != "Delta_S" else top
    peak_of_data = float(drawing_panels.density(data, high)[1].max())
    for init in both:
        label = rf"$\Delta_{{S+V}}^{{\mathrm{{{SYMBOLS[init]}}}}}$"
        x, y = drawing_panels.density(run[f"{init}/delta_sv"], high)
        panel.plot(x, y, color=INK, linewidth=1.0, linestyle=_DASHES[init], label=label)
    if math.isfinite(bound):
        label = r"bound $\hat\Delta_S$"
        panel.axvline(bound, color=PURPLE, linewidth=1.2, linestyle="--", label=label)
    height = 1.25 * top
    panel.set(xlim=(0, high), ylim=(0, height))
    beside = max(float(np.median(data)), bound if math.isfinite(bound) else 0.0)
    _say_cut(panel, peak_of_data, height, beside)
    return height


def _say_cut(panel: Any, peak: float, height: float, beside: float) -> None:
    """Where one hill is far higher than the rest, say how high, and show the rest."""
    if peak <= height:
        panel.set_ylim(0, max(height, 1.1 * peak))
        return
    panel.annotate(
        rf"$\Delta_S$ to {canvas.plain(float(f'{peak:.2g}'))}",
        (beside, 1.0),
        (4, -2),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        va="top",
        fontsize=6.5,
        color=GREEN,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
    )


def _pairwise(panel: Any, run: Numbers, init: str, over: str) -> None:
    sigma, delta = scalar(run, f"{init}/sigma_median"), scalar(run, "delta_v1")
    name, label = _OVER[over]
    values = pairwise_epsilon(run[f"{init}/{name}"], sigma, delta).printed
    largest = float(pairwise_epsilon(run[f"{init}/sensitivity"], sigma, delta).printed.max())
    high = 1.08 * largest
    x, y = drawing_panels.density(values, high)
    color = _COLORS[init]
    panel.fill_between(x, y, color=color, alpha=0.25, linewidth=0)
    panel.plot(x, y, color=color, label=label)
    panel.axvline(largest, color=INK, linewidth=1.0, linestyle="--", label="largest")
    median = float(np.median(values))
    panel.axvline(median, color=INK, linewidth=1.0, linestyle=(0, (1, 1.2)), label="median")
    for place, number in ((median, median), (largest, largest)):
        panel.annotate(
            f"{number:.3g}",
            (place, 0.98),
            (-2 if place == largest else 2, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="right" if place == largest else "left",
            va="top",
            fontsize=7,
        )
    panel.set(xlim=(0, high), ylim=(0, 1.2 * float(y.max())))


def _widest(places: Sequence[Sequence[Any]]) -> Any:
    """The panel with most entries: the legend stands once, and a bound is not everywhere."""
    return max((panel for (panel,) in places), key=lambda p: len(p.get_legend_handles_labels()[0]))
