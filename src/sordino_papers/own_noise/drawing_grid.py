"""Figures made of grids, in the papers' layout: v1, Figures 1-4, 6-8; v2, Figures 1, 4-9.

Each takes the `Numbers` of its runs in order. Files that are made of them are INTERNAL: they show
numbers without noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import checks
from sordino.intrinsic.epsilon import pairwise_epsilon
from sordino.report import canvas
from sordino.report.canvas import BLUE, GREEN, GREY, INK, PURPLE, VERMILION
from sordino.report.figures import ESTIMATE, NAMES
from sordino.types import Array
from sordino_papers.found import Numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS = {"vary": BLUE, "fixed": VERMILION}
INITS = ("fixed", "vary")
"""In the order they are drawn: what the papers call "fix" lies below."""
SYMBOLS = {"fixed": "fix", "vary": "vary"}
PAGE = 7.2
"""Inches: both columns of a two-column page."""


@dataclass(frozen=True)
class PanelLayout:
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
            checks.fail("titles", list(self.titles), f"to be {len(runs)}, one a run")
        if self.rows and len(self.rows) != self.down:
            checks.fail("rows", list(self.rows), f"to be {self.down}, one a row of panels")
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

    def drawn(
        self,
        runs: Sequence[Numbers],
        height: float,
        draw: Callable[[Any, Numbers], str],
        *,
        xlabel: str,
        ylabel: str,
        columns: int,
    ) -> Figure:
        """One panel a run; `draw` returns what its title says more. Labels stand at the edges."""
        with canvas.styled():
            figure, places = self.panels(runs, height)
            for at, ((panel,), run) in enumerate(zip(places, runs, strict=True)):
                panel.set_title(f"{self.titles[at]}{draw(panel, run)}")
                if at % self.across == 0:
                    panel.set_ylabel(ylabel)
                if self.is_lowest(at):
                    panel.set_xlabel(xlabel)
            # The panel with most entries: the legend stands once, and a bound is not everywhere.
            most = max((p for (p,) in places), key=lambda p: len(p.get_legend_handles_labels()[0]))
            canvas.legend_above(figure, most, columns=columns)
        return figure

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

    def draw(panel: Any, run: Numbers) -> str:
        _distances(panel, run)
        panel.set_xlabel(_DISTANCE)
        return ""

    columns = 6 if across > 1 else 3
    layout = PanelLayout(titles, across, rows)
    return layout.drawn(runs, 1.75, draw, xlabel=_DISTANCE, ylabel="density", columns=columns)


def cnn_distances(run: Numbers, *, title: str) -> Figure:
    """The same of one run, beside distances of Gaussian vectors of that scale (v2, Figure 5)."""
    with canvas.styled():
        figure, ((panel,),) = PanelLayout([title]).panels([run], 2.5)
        top = _distances(panel, run)
        for init in inits(run, "gaussian_distances"):
            if init == "vary":
                _, high = panel.get_xlim()
                x, y = density(run[f"{init}/gaussian_distances"], high)
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
    checks.one_of("over", over, sorted(_OVER))

    def draw(panel: Any, run: Numbers) -> str:
        _pairwise(panel, run, init, over)
        return ""

    xlabel = f"pairwise $\\epsilon_i$\n({ESTIMATE})"
    layout = PanelLayout(titles, across)
    return layout.drawn(runs, 1.75, draw, xlabel=xlabel, ylabel="density", columns=3)


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
        x, y = density(values, high)
        panel.fill_between(x, y, color=color, alpha=0.25, linewidth=0)
        panel.plot(x, y, color=color, label=label, linewidth=1.1)
        peak = float(y.max())
        top = max(top, peak) if kind != "Delta_S" else top
    peak_of_data = float(density(data, high)[1].max())
    for init in both:
        label = rf"$\Delta_{{S+V}}^{{\mathrm{{{SYMBOLS[init]}}}}}$"
        x, y = density(run[f"{init}/delta_sv"], high)
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
    x, y = density(values, high)
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


_DOTS: Any = (0, (1, 1.2))
_LEAST_P = 1e-8
"""Smaller p-values are drawn here."""


def by_steps(
    *runs: Numbers, titles: Sequence[str], across: int = 1, rows: Sequence[str] = ()
) -> Figure:
    """The bound, the empirical sensitivity and sigma_i against training steps (v2, Figures 4, 8).

    On a logarithmic axis where there is no bound: a network's sensitivity and sigma are far apart.
    """
    ylabel = r"$\hat\Delta_S$, $\hat\Delta_S^*$, $\sigma_i$"
    columns = 3 if across > 1 else 2
    layout = PanelLayout(titles, across, rows)
    return layout.drawn(
        runs, 1.9, _by_steps, xlabel="training steps", ylabel=ylabel, columns=columns
    )


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
    checks.one_of("corrected", corrected, ("tests", "parameters"))
    wanted = [init] if isinstance(init, str) else list(init)

    def draw(panel: Any, run: Numbers) -> str:
        there = [one for one in wanted if one in inits(run, "p_values")]
        kept = {one: np.ravel(run[f"{one}/p_values"]) for one in there}
        tests = max(len(p) for p in kept.values())
        by = tests if corrected == "tests" else scalar(run, "parameters")
        _p_values(panel, kept, level, level / by)
        return f": {tests:,} tests"

    return PanelLayout(titles, across).drawn(
        runs,
        2.0,
        draw,
        xlabel="Shapiro-Wilk p-value",
        ylabel="density per decade",
        columns=3 if across > 1 else 2,
    )


def settling(*runs: Numbers, titles: Sequence[str], across: int = 1, init: str = "vary") -> Figure:
    """How settled the numbers are, two panels a run (v2, Figures 7, 9); dashed: the ones used."""
    layout = PanelLayout(titles, across)
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
        figure, ((panel,),) = PanelLayout([title]).panels([run], 2.9)
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


def _by_steps(panel: Any, run: Numbers) -> str:
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
    return ""


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
    "distances": distances,
    "cnn_distances": cnn_distances,
    "by_steps": by_steps,
    "p_values": p_values,
    "settling": settling,
    "trajectories": trajectories,
    "pairwise": pairwise,
}
