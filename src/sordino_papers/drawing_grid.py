"""Figures made of grids, in the papers' layout: v1, Figures 1-4, 6-8; v2, Figures 1, 4-9.

Each takes the `Numbers` of its runs in order. Files that are made of them are INTERNAL: they show
numbers without noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import _check
from sordino.report import canvas
from sordino.report.canvas import BLUE, GREY, INK, VERMILION
from sordino.report.intrinsic import NAMES
from sordino.types import Array
from sordino_papers import drawing_distances
from sordino_papers.drawing_panels import Layout, inits, scalar
from sordino_papers.found import Numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS = {"vary": BLUE, "fixed": VERMILION}
_DOTS: Any = (0, (1, 1.2))
_LEAST_P = 1e-8
"""Smaller p-values are drawn here."""


def by_steps(
    *runs: Numbers, titles: Sequence[str], across: int = 1, rows: Sequence[str] = ()
) -> Figure:
    """The bound, the empirical sensitivity and sigma_i against training steps (v2, Figures 4, 8).

    On a logarithmic axis where there is no bound: a network's sensitivity and sigma are far apart.
    """
    layout = Layout(titles, across, rows)
    with canvas.styled():
        figure, places = layout.panels(runs, 1.9)
        for at, ((panel,), run) in enumerate(zip(places, runs, strict=True)):
            _by_steps(panel, run)
            panel.set_title(titles[at])
            if layout.is_left(at):
                panel.set_ylabel(r"$\hat\Delta_S$, $\hat\Delta_S^*$, $\sigma_i$")
            if layout.is_lowest(at):
                panel.set_xlabel("training steps")
        most = max((p for (p,) in places), key=lambda p: len(p.get_legend_handles_labels()[0]))
        canvas.legend_above(figure, most, columns=3 if across > 1 else 2)
    return figure


def p_values(
    *runs: Numbers,
    titles: Sequence[str],
    level: float,
    across: int = 1,
    init: str | Sequence[str] = ("vary", "fixed"),
    corrected: str = "tests",
) -> Figure:
    """Density of Shapiro-Wilk p-values over weights and datasets (v1, Figure 3; v2, Figure 6).

    Parameters
    ----------
    runs
        One a panel.
    titles, across
        As in every drawing.
    level
        Where the papers draw the standard threshold.
    init
        Which kinds of initial weights.
    corrected
        What `level` is divided by for the second line: "tests" that were made (v2), or
        "parameters" of one model (v1).
    """
    _check.one_of("corrected", corrected, ("tests", "parameters"))
    wanted = [init] if isinstance(init, str) else list(init)
    layout = Layout(titles, across)
    with canvas.styled():
        figure, places = layout.panels(runs, 2.0)
        for at, ((panel,), run) in enumerate(zip(places, runs, strict=True)):
            there = [one for one in wanted if one in inits(run, "p_values")]
            kept = {one: np.ravel(run[f"{one}/p_values"]) for one in there}
            tests = max(len(p) for p in kept.values())
            by = tests if corrected == "tests" else scalar(run, "parameters")
            _p_values(panel, kept, level, level / by)
            panel.set_title(f"{titles[at]}: {tests:,} tests")
            if layout.is_left(at):
                panel.set_ylabel("density per decade")
            if layout.is_lowest(at):
                panel.set_xlabel("Shapiro-Wilk p-value")
        canvas.legend_above(figure, places[0][0], columns=3 if across > 1 else 2)
    return figure


def settling(*runs: Numbers, titles: Sequence[str], across: int = 1, init: str = "vary") -> Figure:
    """How settled the numbers are, two panels a run (v2, Figures 7, 9); dashed: the ones used."""
    layout = Layout(titles, across)
    with canvas.styled():
        figure, places = layout.panels(runs, 1.7, each=2)
        for at, ((left, right), run) in enumerate(zip(places, runs, strict=True)):
            found = f"{init}/by_comparisons"
            _band(left, run, found, scalar(run, f"{init}/sensitivity"), "#B8860B")
            canvas.log_axis(left.xaxis, 1, max(2.0, float(np.max(run[f"{found}/x"]))))
            found = f"{init}/by_seeds"
            _band(right, run, found, scalar(run, f"{init}/sigma"), BLUE)
            canvas.whole_numbers(right.xaxis)
            left.set_title(titles[at])
            left.set_ylabel("estimated sensitivity")
            right.set_ylabel(r"estimated $\sigma_i$")
            if layout.is_lowest(at):
                left.set_xlabel("dataset comparisons")
                right.set_xlabel("random seeds")
    return figure


def trajectories(run: Numbers, *, title: str, init: str = "fixed") -> Figure:
    """Two weights through the training, a curve a seed, same data and start (v1, Figure 1)."""
    paths = np.asarray(run[f"{init}/trajectories"], dtype=np.float64)
    names = [int(at) for at in np.ravel(run["trajectory_weights"])]
    with canvas.styled():
        figure, ((panel,),) = Layout([title]).panels([run], 2.9)
        for path, shade in zip(paths, np.linspace(0.1, 0.9, len(paths)), strict=True):
            panel.plot(path[:, 0], path[:, 1], color=canvas.blue(shade), linewidth=0.8)
        panel.plot(paths[:, -1, 0], paths[:, -1, 1], "o", color=VERMILION, markersize=3.5)
        panel.plot([], [], "o", color=VERMILION, markersize=3.5, label="final weights")
        first = f"after {int(np.min(run['steps'])):,} steps"
        panel.plot(paths[:, 0, 0], paths[:, 0, 1], "s", color=INK, markersize=2.5, label=first)
        panel.plot([], [], color=canvas.blue(0.6), label=f"{len(paths)} seeds, one dataset")
        panel.set(xlabel=f"$w^{{{names[0]}}}$", ylabel=f"$w^{{{names[1]}}}$")
        panel.set_title(title)
        canvas.legend_above(figure, panel, columns=3)
    return figure


def _by_steps(panel: Any, run: Numbers) -> None:
    steps = np.asarray(run["steps"], dtype=np.float64)
    stairs = _stairs(run)
    if stairs is not None:
        label = r"$\hat\Delta_S$, the papers' bound"
        panel.step(*stairs, where="post", color=INK, linestyle="--", linewidth=1, label=label)
    for kind, symbol, dashes, marker in (
        ("sensitivity", r"$\hat\Delta_S^*$", "-", "o"),
        ("sigma", r"$\sigma_i$", _DOTS, "s"),
    ):
        for init in inits(run, f"by_steps/{kind}"):
            panel.plot(
                steps,
                run[f"{init}/by_steps/{kind}"],
                color=_COLORS[init],
                linestyle=dashes,
                marker=marker,
                markersize=2.5,
                label=f"{symbol}, {NAMES[init]}",
            )
    panel.set_xlim(0, 1.02 * float(steps.max()))
    canvas.whole_numbers(panel.xaxis)
    if stairs is not None:
        panel.set_ylim(0, None)
    else:
        values = np.concatenate([line.get_ydata() for line in panel.get_lines()])
        positive = values[np.isfinite(values) & (values > 0)]
        canvas.log_axis(panel.yaxis, 0.8 * float(positive.min()), 1.3 * float(positive.max()))


def _stairs(run: Numbers) -> tuple[Array, Array] | None:
    """The papers' 2 k L eta / B, where k counts passes that have begun."""
    last, bound = float(np.max(run["steps"])), scalar(run, "bound_printed")
    if not math.isfinite(bound):
        return None
    a_pass = scalar(run, "n") / scalar(run, "batch_size")
    begun = np.arange(math.ceil(last / a_pass) + 1)
    rises = bound * a_pass / last * np.minimum(begun + 1, begun[-1])
    return np.minimum(begun * a_pass, last), rises


def _p_values(panel: Any, kept: dict[str, Array], level: float, corrected: float) -> None:
    least = min(float(np.nanmin(p)) for p in kept.values())
    low = min(max(least, _LEAST_P), corrected / 10) / 2
    top = 0.0
    canvas.log_axis(panel.xaxis, low, 1.0)
    edges = np.linspace(math.log10(low), 0, 60)
    middle = 10 ** ((edges[1:] + edges[:-1]) / 2)
    for init, p in kept.items():
        tested = p[np.isfinite(p)]
        logs = np.log10(np.clip(tested, low, 1))
        y = np.histogram(logs, edges)[0] / (max(len(tested), 1) * (edges[1] - edges[0]))
        share = float((tested < level).mean()) if len(tested) else math.nan
        label = f"{NAMES[init]}"
        panel.fill_between(middle, y, step="mid", color=_COLORS[init], alpha=0.25, linewidth=0)
        panel.step(middle, y, where="mid", color=_COLORS[init], linewidth=1.0, label=label)
        say = f"{share:.0%} below {level:g}"
        panel.annotate(
            say,
            (0.03, 0.95 - 0.1 * list(kept).index(init)),
            xycoords="axes fraction",
            va="top",
            fontsize=7,
            color=_COLORS[init],
        )
        top = max(top, float(y.max()))
    # A uniform p has density p ln(10) on a logarithmic axis.
    x = np.geomspace(low, 1, 200)
    panel.plot(x, x * math.log(10), color=GREY, linestyle=_DOTS, linewidth=1.0, label="if Gaussian")
    panel.axvline(level, color=INK, linestyle=_DOTS, linewidth=1.0, label=f"p = {level:g}")
    panel.axvline(corrected, color=INK, linestyle="--", linewidth=1.0, label="corrected")
    panel.set_ylim(0, 1.1 * max(top, math.log(10)))


def _band(panel: Any, run: Numbers, found: str, used: float, color: str) -> None:
    x = run[f"{found}/x"]
    panel.fill_between(
        x, run[f"{found}/low"], run[f"{found}/high"], color=color, alpha=0.25, linewidth=0
    )
    panel.plot(x, run[f"{found}/middle"], color=color)
    panel.axhline(used, color=INK, linestyle="--", linewidth=0.9)
    canvas.say_at(panel, used, f"used: {used:.3g}")
    panel.set_ylim(0, 1.2 * used if math.isfinite(used) and used > 0 else None)


DRAWINGS: dict[str, Callable[..., Any]] = {
    "distances": drawing_distances.distances,
    "cnn_distances": drawing_distances.cnn_distances,
    "by_steps": by_steps,
    "p_values": p_values,
    "settling": settling,
    "trajectories": trajectories,
    "pairwise": drawing_distances.pairwise,
}
