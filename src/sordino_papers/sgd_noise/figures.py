"""Figures in the papers' layout: of grids, of noise and of preparations (Hyland & Tople).

v1, Figures 1-9; v2, Figures 1-9. Each takes the `Numbers` of its runs in order. Files that are made
of them are INTERNAL: they show numbers without noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import checks
from sordino.intrinsic.distances import density
from sordino.intrinsic.epsilon import pairwise_epsilon
from sordino.report import canvas
from sordino.report.canvas import BLUE, GREEN, GREY, INK, PURPLE, VERMILION
from sordino.report.figures import ESTIMATE, NAMES
from sordino.types import Array
from sordino_papers.quantities import Numbers
from sordino_papers.sgd_noise.quantities import curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Texts = Sequence[str]
_PLACES = 600
"""Of a density."""
_COLORS = {"vary": BLUE, "fixed": VERMILION}
_SYMBOLS = {"fixed": "fix", "vary": "vary"}
"""In the order they are drawn: what the papers call "fix" lies below."""
_DOTS: Any = (0, (1, 1.2))
_DASHES: dict[str, Any] = {"vary": _DOTS, "fixed": (0, (4, 1.5))}
_VARIANTS = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."))
_OVER = {
    "seeds": ("delta_s", "pairs, each seed"),
    "largest": ("delta_s_pairs_largest", "pairs, largest over seeds"),
}
_DISTANCE = r"$\Vert w - w^{\prime}\Vert$"
_YLABEL = r"$\hat\Delta_S$, $\hat\Delta_S^*$, $\sigma_i$"
_PAGE = 7.2
"""Inches: both columns of a two-column page."""
_LEAST_P = 1e-8
"""Smaller p-values are drawn here."""


@dataclass(frozen=True)
class _Panels:
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
        width = canvas.COLUMN if wide == 1 else _PAGE
        figure = Figure(figsize=(width, 0.45 + height * self.down), layout="constrained")
        axes = figure.subplots(self.down, wide, squeeze=False)
        places = [list(axes.ravel()[at : at + each]) for at in range(0, axes.size, each)]
        for unused in places[len(runs) :]:
            for axis in unused:
                axis.set_axis_off()
        for name, (first, *_) in zip(self.rows, axes, strict=bool(self.rows)):
            place = {"xycoords": "axes fraction", "textcoords": "offset points", "rotation": 90}
            look = {"ha": "right", "va": "center", "fontsize": 8, "fontweight": "bold"}
            first.annotate(name, (0, 0.5), (-38, 0), **place, **look)
        return figure, places[: len(runs)]

    def draw(
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


def _inits(run: Numbers, name: str) -> list[str]:
    """Kinds of initial weights of which a run has these numbers."""
    return [init for init in _SYMBOLS if f"{init}/{name}" in run]


def _scalar(run: Numbers, name: str) -> float:
    """The first of a run's numbers of that name; NaN if there is none."""
    return float(np.ravel(run[name])[0]) if name in run and np.size(run[name]) else math.nan


def _hill(panel: Any, values: Array, high: float, color: str, label: str, width: float) -> float:
    """Draw a density with its area; returns its height."""
    x, y = density(values, 0.0, high, _PLACES)
    panel.fill_between(x, y, color=color, alpha=0.25, linewidth=0)
    panel.plot(x, y, color=color, label=label, linewidth=width)
    return float(y.max())


def _write_at(
    panel: Any, text: str, at: float, height: float, shift: tuple[float, float], **look: Any
) -> None:
    """Write beside a value of the horizontal axis, at a height of the panel."""
    where = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    panel.annotate(text, (at, height), shift, va="top", **where, **look)


def _draw_distances(*runs: Numbers, titles: _Texts, across: int = 1, rows: _Texts = ()) -> Figure:
    """Densities of Delta_S, Delta_V and Delta_S+V, dashed the papers' bound where there is one."""

    def draw(panel: Any, run: Numbers) -> str:
        _distances(panel, run)
        panel.set_xlabel(_DISTANCE)
        return ""

    labels = {"xlabel": _DISTANCE, "ylabel": "density"}
    layout, columns = _Panels(titles, across, rows), 6 if across > 1 else 3
    return layout.draw(runs, 1.75, draw, **labels, columns=columns)


def _draw_cnn_distances(run: Numbers, *, title: str) -> Figure:
    """The same of one run, beside distances of Gaussian vectors of that scale (v2, Figure 5)."""
    with canvas.styled():
        figure, ((panel,),) = _Panels([title]).panels([run], 2.5)
        top = _distances(panel, run)
        if "vary/gaussian_distances" in run:
            x, y = density(run["vary/gaussian_distances"], 0.0, panel.get_xlim()[1], _PLACES)
            panel.plot(x, y, color=INK, linewidth=1.0, label="Gaussian vectors")
            panel.set_ylim(0, max(top, 1.1 * float(y.max())))
        panel.set(xlabel=_DISTANCE, ylabel="density")
        panel.set_title(title)
        canvas.legend_above(figure, panel, columns=3)
    return figure


def _distances(panel: Any, run: Numbers) -> float:
    """All densities of one run; returns the panel's height.

    Where the hill of Delta_S is far higher than the rest, it is cut off, and its height is written.
    """
    bound, both = _scalar(run, "bound_printed"), _inits(run, "delta_v")
    data = np.concatenate([run[f"{init}/delta_s"] for init in _inits(run, "delta_s")])
    samples = [run[f"{init}/{kind}"] for init in both for kind in ("delta_v", "delta_sv")]
    high = 1.05 * max(float(np.max(sample)) for sample in [*samples, data])
    high = max(high, 1.1 * bound) if math.isfinite(bound) else high
    peak = _hill(panel, data, high, GREEN, r"$\Delta_S$", 1.1)
    top = 0.0
    for init in both:
        label = rf"$\Delta_V^{{\mathrm{{{_SYMBOLS[init]}}}}}$"
        values = run[f"{init}/delta_v"]
        top = max(top, _hill(panel, values, high, _COLORS[init], label, 1.1))
    for init in both:
        label = rf"$\Delta_{{S+V}}^{{\mathrm{{{_SYMBOLS[init]}}}}}$"
        x, y = density(run[f"{init}/delta_sv"], 0.0, high, _PLACES)
        panel.plot(x, y, color=INK, linewidth=1.0, linestyle=_DASHES[init], label=label)
    beside, height = float(np.median(data)), 1.25 * top
    if math.isfinite(bound):
        label = r"bound $\hat\Delta_S$"
        panel.axvline(bound, color=PURPLE, linewidth=1.2, linestyle="--", label=label)
        beside = max(beside, bound)
    panel.set(xlim=(0, high), ylim=(0, max(height, 1.1 * peak) if peak <= height else height))
    if peak > height:
        text = rf"$\Delta_S$ to {canvas.plain(float(f'{peak:.2g}'))}"
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6}
        _write_at(panel, text, beside, 1.0, (4, -2), fontsize=6.5, color=GREEN, bbox=box)
    return height


def _draw_pairwise(
    *runs: Numbers, titles: Sequence[str], across: int = 1, init: str = "vary", over: str = "seeds"
) -> Figure:
    """Density of the epsilon of each pair of datasets, by the papers' formula at delta = 1/N.

    `over` "seeds" takes every seed of a pair on its own, "largest" a pair's largest distance.
    """
    checks.one_of("over", over, sorted(_OVER))
    name, label = _OVER[over]

    def draw(panel: Any, run: Numbers) -> str:
        sigma, delta = _scalar(run, f"{init}/sigma_median"), _scalar(run, "delta_v1")
        values = pairwise_epsilon(run[f"{init}/{name}"], sigma, delta).printed
        largest = float(pairwise_epsilon(run[f"{init}/sensitivity"], sigma, delta).printed.max())
        median, high = float(np.median(values)), 1.08 * largest
        top = _hill(panel, values, high, _COLORS[init], label, 1.3)
        panel.axvline(largest, color=INK, linewidth=1.0, linestyle="--", label="largest")
        panel.axvline(median, color=INK, linewidth=1.0, linestyle=_DOTS, label="median")
        for at, shift in ((median, 2), (largest, -2)):
            side = "right" if at == largest else "left"
            _write_at(panel, f"{at:.3g}", at, 0.98, (shift, 0), ha=side, fontsize=7)
        panel.set(xlim=(0, high), ylim=(0, 1.2 * top))
        return ""

    xlabel = f"pairwise $\\epsilon_i$\n({ESTIMATE})"
    layout = _Panels(titles, across)
    return layout.draw(runs, 1.75, draw, xlabel=xlabel, ylabel="density", columns=3)


def _draw_by_steps(*runs: Numbers, titles: _Texts, across: int = 1, rows: _Texts = ()) -> Figure:
    """The bound, the empirical sensitivity and sigma_i against training steps (v2, Figures 4, 8).

    On a logarithmic axis where there is no bound: a network's sensitivity and sigma are far apart.
    """
    labels = {"xlabel": "training steps", "ylabel": _YLABEL}
    layout, columns = _Panels(titles, across, rows), 3 if across > 1 else 2
    return layout.draw(runs, 1.9, _by_steps, **labels, columns=columns)


def _by_steps(panel: Any, run: Numbers) -> str:
    steps, bound = np.asarray(run["steps"], dtype=np.float64), _scalar(run, "bound_printed")
    last = float(np.max(run["steps"]))
    if math.isfinite(bound):
        # The papers' 2 k L eta / B, where k counts passes that have begun.
        a_pass = _scalar(run, "n") / _scalar(run, "batch_size")
        begun = np.arange(math.ceil(last / a_pass) + 1)
        rises = bound * a_pass / last * np.minimum(begun + 1, begun[-1])
        label, look = r"$\hat\Delta_S$, the papers' bound", {"color": INK, "linestyle": "--"}
        starts = np.minimum(begun * a_pass, last)
        panel.step(starts, rises, where="post", linewidth=1, label=label, **look)
    lines = [("sensitivity", r"$\hat\Delta_S^*$", "-", "o"), ("sigma", r"$\sigma_i$", _DOTS, "s")]
    for kind, symbol, dashes, marker in lines:
        for init in _inits(run, f"by_steps/{kind}"):
            look = {"color": _COLORS[init], "linestyle": dashes, "marker": marker}
            label, values = f"{symbol}, {NAMES[init]}", run[f"{init}/by_steps/{kind}"]
            panel.plot(steps, values, markersize=2.5, label=label, **look)
    panel.set_xlim(0, 1.02 * float(steps.max()))
    canvas.whole_numbers(panel.xaxis)
    if math.isfinite(bound):
        panel.set_ylim(0, None)
    else:
        values = np.concatenate([line.get_ydata() for line in panel.get_lines()])
        positive = values[np.isfinite(values) & (values > 0)]
        canvas.log_axis(panel.yaxis, 0.8 * float(positive.min()), 1.3 * float(positive.max()))
    return ""


def _draw_p_values(
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
        there = [one for one in wanted if one in _inits(run, "p_values")]
        kept = {one: np.ravel(run[f"{one}/p_values"]) for one in there}
        tests = max(len(p) for p in kept.values())
        by = tests if corrected == "tests" else _scalar(run, "parameters")
        _p_values(panel, kept, level, level / by)
        return f": {tests:,} tests"

    xlabel, ylabel, columns = "Shapiro-Wilk p-value", "density per decade", 3 if across > 1 else 2
    layout = _Panels(titles, across)
    return layout.draw(runs, 2.0, draw, xlabel=xlabel, ylabel=ylabel, columns=columns)


def _p_values(panel: Any, kept: dict[str, Array], level: float, corrected: float) -> None:
    least = min(float(np.nanmin(p)) for p in kept.values())
    low = min(max(least, _LEAST_P), corrected / 10) / 2
    top = 0.0
    canvas.log_axis(panel.xaxis, low, 1.0)
    edges = np.linspace(math.log10(low), 0, 60)
    middle = 10 ** ((edges[1:] + edges[:-1]) / 2)
    for at, (init, p) in enumerate(kept.items()):
        tested, color = p[np.isfinite(p)], _COLORS[init]
        logs = np.log10(np.clip(tested, low, 1))
        y = np.histogram(logs, edges)[0] / (max(len(tested), 1) * (edges[1] - edges[0]))
        share = float((tested < level).mean()) if len(tested) else math.nan
        panel.fill_between(middle, y, step="mid", color=color, alpha=0.25, linewidth=0)
        panel.step(middle, y, where="mid", color=color, linewidth=1.0, label=NAMES[init])
        place = {"xycoords": "axes fraction", "va": "top", "fontsize": 7, "color": color}
        panel.annotate(f"{share:.0%} below {level:g}", (0.03, 0.95 - 0.1 * at), **place)
        top = max(top, float(y.max()))
    # A uniform p has density p ln(10) on a logarithmic axis.
    x = np.geomspace(low, 1, 200)
    panel.plot(x, x * math.log(10), color=GREY, linestyle=_DOTS, linewidth=1.0, label="if Gaussian")
    panel.axvline(level, color=INK, linestyle=_DOTS, linewidth=1.0, label=f"p = {level:g}")
    panel.axvline(corrected, color=INK, linestyle="--", linewidth=1.0, label="corrected")
    panel.set_ylim(0, 1.1 * max(top, math.log(10)))


def _draw_settling(*runs: Numbers, titles: _Texts, across: int = 1, init: str = "vary") -> Figure:
    """How settled the numbers are, two panels a run (v2, Figures 7, 9); dashed: the ones used."""
    layout = _Panels(titles, across)
    with canvas.styled():
        figure, places = layout.panels(runs, 1.7, each=2)
        for at, ((left, right), run) in enumerate(zip(places, runs, strict=True)):
            found = f"{init}/by_comparisons"
            _band(left, run, found, _scalar(run, f"{init}/sensitivity"), "#B8860B")
            canvas.log_axis(left.xaxis, 1, max(2.0, float(np.max(run[f"{found}/x"]))))
            _band(right, run, f"{init}/by_seeds", _scalar(run, f"{init}/sigma"), BLUE)
            canvas.whole_numbers(right.xaxis)
            left.set_title(titles[at])
            left.set_ylabel("estimated sensitivity")
            right.set_ylabel(r"estimated $\sigma_i$")
            if layout.is_lowest(at):
                left.set_xlabel("dataset comparisons")
                right.set_xlabel("random seeds")
    return figure


def _band(panel: Any, run: Numbers, found: str, used: float, color: str) -> None:
    x, low, high = (run[f"{found}/{part}"] for part in ("x", "low", "high"))
    panel.fill_between(x, low, high, color=color, alpha=0.25, linewidth=0)
    panel.plot(x, run[f"{found}/middle"], color=color)
    panel.axhline(used, color=INK, linestyle="--", linewidth=0.9)
    canvas.say_at(panel, used, f"used: {used:.3g}")
    panel.set_ylim(0, 1.2 * used if math.isfinite(used) and used > 0 else None)


def _draw_trajectories(run: Numbers, *, title: str, init: str = "fixed") -> Figure:
    """Two weights through the training, a curve a seed, same data and start (v1, Figure 1)."""
    paths = np.asarray(run[f"{init}/trajectories"], dtype=np.float64)
    names = [int(at) for at in np.ravel(run["trajectory_weights"])]
    with canvas.styled():
        figure, ((panel,),) = _Panels([title]).panels([run], 2.9)
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


def _draw_feature_values(run: Numbers, *, names: Mapping[str, str], title: str = "") -> Figure:
    """The distribution of feature values, a line a variant (v2, Figure 2)."""
    with canvas.styled():
        figure, (panel,) = canvas.panels(1, 2.5)
        for (variant, name), (color, dashes) in zip(names.items(), _VARIANTS, strict=False):
            zeros, heights = float(run[f"{variant}/zeros"]), run[f"{variant}/density"]
            label = f"{name} ({100 * zeros:.0f} % are 0)" if zeros > 0.01 else name
            panel.stairs(heights, run["edges"], color=color, linestyle=dashes, label=label)
        panel.set(yscale="log", xlabel="value of a feature", ylabel="density")
        canvas.legend_above(figure, panel, title, columns=3)
    return figure


def _draw_training_curves(run: Numbers, *, names: Mapping[str, str], title: str = "") -> Figure:
    """Loss and accuracy on training rows against steps, a line a variant (v2, Figure 3).

    Lines are means over models, bands the central 90 % of them.
    """
    steps, chosen = run["steps"], float(run["chosen"])
    with canvas.styled():
        figure, panels = canvas.panels(2, 3.6)
        labels = {"loss": "cross-entropy", "accuracy": "accuracy"}
        for panel, (part, ylabel) in zip(panels, labels.items(), strict=True):
            means = []
            for (variant, name), (color, dashes) in zip(names.items(), _VARIANTS, strict=False):
                held = run[f"{variant}/{part}"]
                low, high = np.quantile(held, (0.05, 0.95), axis=1)
                panel.fill_between(steps, low, high, color=color, alpha=0.2, linewidth=0)
                means.append(held.mean(axis=1))
                panel.plot(steps, means[-1], color=color, linestyle=dashes, label=name)
            panel.axvline(chosen, color=INK, linestyle="--", linewidth=0.8)
            # The first steps of some runs are far off: the lines are what is to be seen.
            room = 0.05 * np.ptp(means)
            limits = np.min(means) - room, np.max(means) + room
            panel.set(ylabel=ylabel, xlim=(0, steps[-1]), ylim=limits)
            canvas.whole_numbers(panel.xaxis)
        panels[0].tick_params(labelbottom=False)
        panels[1].set_xlabel("training steps")
        canvas.legend_above(figure, panels[0], title, columns=3)
    return figure


def _draw_accuracy_by_epsilon(*runs: Numbers, titles: Sequence[str], fixed: bool = False) -> Figure:
    """Accuracy on held-out rows against the target epsilon, a column a run (v1, Figures 5 and 9).

    Above, as in the paper, one model, the first, with the authors' noise. Dashed: the empirical
    sensitivity. With `fixed`, also what counting only the noise of a fixed start would give. Below,
    since lines that lie on each other show nothing, the mean gain over all models.
    """
    from matplotlib.figure import Figure

    # Ways to count SGD's own noise: the case's ending, its symbol and its colour.
    ways = [("", r"$\sigma_{augment}$", BLUE), ("-fixed", r"$\sigma_{augment}^{fix}$", GREEN)]
    ways = ways if fixed else ways[:1]
    with canvas.styled():
        figure = Figure(figsize=(_PAGE, 4.0), layout="constrained")
        axes = figure.subplots(2, len(runs), squeeze=False, sharex="col", height_ratios=(2, 1))
        for (above, below), run, title in zip(axes.T, runs, titles, strict=True):
            epsilons = run["epsilons"]
            noiseless = curve(run, "bound", "noiseless", models=1)[0]
            above.axhline(noiseless, color=INK, linewidth=0.8, linestyle=":", label="noiseless")
            for case, dashes in (("bound", "-"), ("empirical", "--")):
                lines = [(case, "target", r"$\sigma_{target}$", VERMILION)]
                lines += [(case + end, "augmented", symbol, color) for end, symbol, color in ways]
                for name, part, symbol, color in lines:
                    look = {"color": color, "linestyle": dashes, "label": f"{symbol}, {case}"}
                    above.plot(epsilons, curve(run, name, part, models=1), **look)
                for end, _, color in ways:
                    gains = 100 * curve(run, case + end, "gain")
                    below.plot(epsilons, gains, color=color, linestyle=dashes)
            above.set_title(title)
            below.set_xlabel(r"target $\epsilon$")
            canvas.log_axis(below.xaxis, float(epsilons[0]), float(epsilons[-1]))
        axes[0, 0].set_ylabel("accuracy")
        axes[1, 0].set_ylabel("gain, points")
        canvas.legend_above(figure, axes[0, 0], columns=4 if fixed else 3)
    return figure


_DRAWN: tuple[Callable[..., Figure], ...] = (
    *(_draw_distances, _draw_cnn_distances, _draw_by_steps, _draw_p_values, _draw_settling),
    *(_draw_trajectories, _draw_pairwise, _draw_accuracy_by_epsilon, _draw_feature_values),
    _draw_training_curves,
)
DRAWINGS = {each.__name__.removeprefix("_draw_"): each for each in _DRAWN}
