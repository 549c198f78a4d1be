"""Figures that commands write: plain numbers in, a figure out; `canvas.save` writes it.

After Hyland & Tople (v1 and v2): SGD's own noise. After Annamalai 2024, Figures 1 and 2: is the
final iterate as telling as all iterates? Growth of epsilon and noise by theorems. Errors of an
audit. What was measured is INTERNAL: numbers without noise, and every epsilon an estimate, not a
guarantee. Numbers that exist for both kinds of initial weights come in a mapping by "vary" and
"fixed".
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import _files, checks
from sordino.privacy import Estimate
from sordino.report import canvas
from sordino.report.canvas import BLUE, GREEN, GREY, INK, PURPLE, VERMILION
from sordino.report.drawing.axis import estimates_sheet
from sordino.report.drawing.curves import ALPHAS, Rates
from sordino.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Point = tuple[float, float]
_Points = tuple[Floats, Floats]
"""x and y of a line; false-positive and false-negative rates."""

ESTIMATE = "estimate, not a guarantee"
NAMES = {"vary": "initial weights vary", "fixed": "initial weights fixed"}
ORDERS = {"presence": "the record is in D′, not in D", "absence": "the record is in D, not in D′"}
_COLORS = {"vary": BLUE, "fixed": VERMILION}
_DOTS = (0, (1, 1.2))
_MANY = 400
"""Points of a sorted sample that are drawn at most."""
_MOST_POINTS = 2_000
_LEAST_RATE = 1e-3
"""Where logarithmic axes of the worst case begin."""


# --- What theorems say


def check_path(path: str) -> None:
    """Refuse a file that could not be written, before the work is done."""
    if not path.lower().endswith((".png", ".svg", ".pdf")):
        checks.fail("plot", path, "to end in .png, .svg, .pdf")
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
    path: str, title: str, *panels: tuple[str, str, str, Mapping[str, Sequence[_Point]]]
) -> None:
    """Lines by label on logarithmic axes; what is no guarantee is dashed.

    Parameters
    ----------
    path, title
        Of the file.
    panels
        Of each its title, the labels of x and y, and its lines.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    with canvas.styled():
        figure = Figure(figsize=(5.2 * len(panels), 3.8), layout="constrained")
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (name, across, up, lines) in zip(grid, panels, strict=True):
            axes.set(xscale="log", yscale="log")
            axes.xaxis.set_minor_formatter(NullFormatter())  # they would run into each other
            for label, points in lines.items():
                shown = [(x, y) for x, y in points if math.isfinite(y) and y > 0]
                if shown:
                    dashes = "--" if "no guarantee" in label else "-"
                    dashes = ":" if label.startswith("like") else dashes
                    axes.plot(*zip(*shown, strict=True), dashes, label=label)
            if axes.get_lines():
                axes.legend()
            axes.set(xlabel=across, ylabel=up, title=name)
    canvas.save(figure, path, title, mode=0o666)  # theorems are no secret


def noise_growth(
    series: Mapping[str, Sequence[_Point]], ratios: Sequence[_Point], path: str, *, title: str
) -> None:
    """Noise against epochs, and strong over naive composition against steps."""
    right: dict[str, Sequence[_Point]] = {}
    if ratios:
        steps, value = ratios[-1]
        root = [(step, value * math.sqrt(steps / step)) for step, _ in ratios]
        right = {"strong / naive, as proved": ratios, "like 1 / sqrt(steps)": root}
    left = (title, "epochs", "noise multiplier", series)
    growth(path, title, left, ("strong over naive composition", "steps", "ratio of noise", right))


# --- SGD's own noise


def trajectories(
    steps: Sequence[int], values: Floats, names: Sequence[str], *, title: str = ""
) -> Figure:
    """Weights through the training: values[seed, step, weight], a panel a weight (v1, Figure 1)."""
    if len(steps) < 2:
        hint = "Measure with checkpoints."
        checks.fail("steps", list(steps), "to be two or more where weights are followed", hint)
    with canvas.styled():
        figure, axes = canvas.panels(len(names), 0.6 + 1.25 * len(names))
        shades = np.linspace(0.15, 0.85, len(values))
        for at, (panel, name) in enumerate(zip(axes, names, strict=True)):
            for one, shade in zip(values, shades, strict=True):
                panel.plot(steps, one[:, at], color=canvas.blue(shade), linewidth=0.8)
            panel.set(ylabel=name, xlim=(min(steps), max(steps)))
            panel.tick_params(labelbottom=at + 1 == len(names))
            canvas.whole_numbers(panel.xaxis)
        axes[-1].set_xlabel("training steps")
        figure.suptitle(title or f"one dataset, {len(values)} seeds", fontsize=8, x=0.02, ha="left")
    return figure


def distances(
    hills: Mapping[str, Sequence[tuple[Floats, Floats, float]]],
    *,
    bound: float | None = None,
    printed: float | None = None,
    title: str = "",
) -> Figure:
    """How far apart models are, with the theoretical bound (v1, Figures 2, 6; v2, 1, 5).

    Parameters
    ----------
    hills
        By initial weights: for another record, another seed and both, places with the density of
        the distances there (`intrinsic.distances.densities`), and the share that is 0.
    bound, printed
        What is proved, and the papers' fraction of it, which is no bound.
    """
    whats = (("another record", r"$\Delta_S$"), ("another seed", r"$\Delta_V$"))
    marks = ((bound, "--", INK, "bound, one record"), (printed, "-.", GREY, "papers' fraction"))
    curves = [hill for three in hills.values() for hill in three]
    ends = [end for x, _, _ in curves for end in (x[0], x[-1])]
    ends += [end for mark, *_ in marks if mark for end in (mark / 1.6, mark * 1.6)]
    top = max(float(y.max()) for _, y, _ in curves)
    with canvas.column(2.75, title=title) as (figure, (panel,)):
        canvas.log_axis(panel.xaxis, min(ends), max(ends))
        for which, (name, symbol) in enumerate(whats):
            for at, (init, three) in enumerate(hills.items()):
                x, y, zeros = three[which]
                color = _COLORS.get(init, INK) if which else GREEN
                dashes = "--" if at and not which else "-"  # the second green one
                none = f" ({zeros:.0%} are 0)" if zeros else ""
                panel.fill_between(x, y, color=color, alpha=0.2, linewidth=0)
                label = f"{symbol}  {name} ({init}){none}"
                panel.plot(x, y, color=color, linestyle=dashes, label=label)
        for three in hills.values():
            panel.plot(*three[2][:2], color=INK, linewidth=1.0, linestyle=_DOTS)
        panel.plot([], [], color=INK, linestyle=_DOTS, label=r"$\Delta_{S+V}$  both")
        for mark, dashes, color, words in marks:
            if mark:
                look = {"color": color, "linestyle": dashes, "linewidth": 1.0}
                panel.axvline(mark, label=f"{words}: {mark:.3g}", **look)
        panel.set(ylim=(0, 1.05 * top or 1), ylabel="density per decade")
        panel.set_xlabel(r"distance of two models, $\Vert w - w^{\prime}\Vert_2$")
    return figure


def normality(p_values: Mapping[str, Floats], *, level: float = 0.05, title: str = "") -> Figure:
    """Sorted p-values of every weight, with `level` and the corrected line (v1, Figure 3; v2, 6).

    Where the noise is Gaussian they follow the diagonal. NaN is a weight that never varied.
    """
    kept = {init: np.sort(p[np.isfinite(p)]) for init, p in p_values.items()}
    kept = {init: p for init, p in kept.items() if len(p)}
    if not kept:
        checks.fail("p_values", "[]", "to hold at least one number")
    tests = max(len(p) for p in kept.values())
    corrected = level / tests
    least = min(float(p[0]) for p in kept.values())
    with canvas.column(2.6, title=title) as (figure, (panel,)):
        canvas.log_axis(panel.xaxis, min(0.8 / tests, 0.1), 1.05)
        canvas.log_axis(panel.yaxis, min(corrected, max(least, 1e-16)) / 3, 1.6)
        for init, p in kept.items():
            share = np.arange(1, len(p) + 1) / len(p)
            at = canvas.thinned(len(p), _MANY)
            panel.plot(share[at], p[at], linewidth=1.5, **_named(init))
        ends = [1 / tests, 1]
        panel.plot(ends, ends, color=GREY, linewidth=0.9, linestyle=_DOTS, label="if Gaussian")
        lines = {f"p = {level:g}": level, f"Bonferroni, {corrected:.1g}": corrected}
        for words, height in lines.items():
            panel.axhline(height, color=INK, linewidth=0.8, linestyle="--")
            canvas.say_at(panel, height, words)
        panel.set_xlabel(f"share of {tests:,} tested weights, sorted by p")
        panel.set_ylabel("Shapiro-Wilk p-value")
    return figure


def pairwise(
    exact: Mapping[str, Floats],
    printed: Mapping[str, Floats] | None = None,
    *,
    delta: float,
    title: str = "",
) -> Figure:
    """The epsilon of each pair of datasets (v1, Figures 4, 7, 8), by both formulas.

    How many pairs have more than an epsilon: the tail, which counts, fills the picture.
    """
    finite = [values[np.isfinite(values)] for values in exact.values()]
    positive = [values[values > 0] for values in finite if (values > 0).any()]
    low, high = 0.1, 10.0
    if positive:
        high = max(float(values.max()) for values in positive)
        tiny = min(float(np.quantile(values, 0.002)) for values in positive)
        low, high = max(tiny, 1e-2, high * 1e-6) / 1.6, high * 1.6
    with canvas.column(2.6, title=title) as (figure, (panel,)):
        canvas.log_axis(panel.xaxis, low, high)
        canvas.log_axis(panel.yaxis, 0.7 / max(len(values) for values in finite), 1.3)
        for init, values in exact.items():
            panel.plot(*_tail(values), **_named(init))
            look = {"color": _COLORS.get(init, INK), "markersize": 3}
            panel.plot(values.max(), 1 / len(values), "o", **look)
        for init, values in (printed or {}).items():
            color = _COLORS.get(init, INK)
            panel.plot(*_tail(values), color=color, linestyle=_DOTS, linewidth=1.0)
        if printed:
            panel.plot([], [], color=INK, linestyle=_DOTS, linewidth=1.0, label="papers' formula")
        panel.set_xlabel(f"pairwise $\\epsilon$ at $\\delta$ = {delta:.2g}\n({ESTIMATE})")
        panel.set_ylabel("share of pairs above it")
    return figure


def _tail(values: Floats) -> _Points:
    """Share of values above each of them."""
    at = canvas.thinned(len(values), _MANY)
    return np.sort(values)[::-1][at], (at + 1) / len(values)


def utility(
    epsilons: Sequence[float],
    curves: Mapping[str, Mapping[str, Floats]],
    *,
    metric: str = "accuracy on held-out rows",
    title: str = "",
) -> Figure:
    """Accuracy against epsilon with and without SGD's own noise counted (v1, Figures 5, 9).

    Parameters
    ----------
    epsilons
        The targets.
    curves
        By sensitivity ("theoretical", "empirical"), then by setting: "noiseless", "deterministic"
        and "random", each [3, epsilon] of mean, low and high. The second sensitivity is dashed.
    metric
        What the curves are of.
    """
    settings = {
        "noiseless": (GREY, "no noise"),
        "deterministic": (BLUE, r"$\sigma_{\mathrm{target}}$"),
        "random": (VERMILION, r"$\sigma_{\mathrm{augment}}$"),
    }
    with canvas.column(2.75, title=title) as (figure, (panel,)):
        canvas.log_axis(panel.xaxis, min(epsilons) / 1.1, max(epsilons) * 1.1)
        for at, (sensitivity, lines) in enumerate(curves.items()):
            for setting, (middle, low, high) in lines.items():
                color, label = settings.get(setting, (INK, setting))
                style: Any = _DOTS
                if setting != "noiseless":
                    style, label = ("-", "--", "-.", ":")[at % 4], f"{label}, {sensitivity}"
                elif at:
                    continue  # no sensitivity is in it
                panel.fill_between(epsilons, low, high, color=color, alpha=0.15, linewidth=0)
                panel.plot(epsilons, middle, color=color, linestyle=style, label=label)
        panel.set(ylabel=metric)
        panel.set_xlabel(r"target $\epsilon$  ($\sigma_{\mathrm{augment}}$: no guarantee)")
    return figure


def over_steps(
    steps: Sequence[int],
    sensitivity: Mapping[str, Floats],
    sigma: Mapping[str, Floats],
    *,
    bound: tuple[Sequence[int], Floats] | None = None,
    title: str = "",
) -> Figure:
    """The empirical sensitivity, with its bound, and sigma against training steps (v2, 4, 8)."""
    with canvas.column(3.6, rows=2, title=title) as (figure, (upper, lower)):
        if bound is not None:
            look = {"color": INK, "linestyle": "--", "linewidth": 1.0}
            upper.step(*bound, where="post", label="bound for one record", **look)
        for panel, lines in ((upper, sensitivity), (lower, sigma)):
            for init, values in lines.items():
                marker = "o" if len(steps) < 40 else None
                panel.plot(steps, values, marker=marker, markersize=2.2, **_named(init))
            panel.set(xlim=(0, 1.02 * max(steps)), ylim=(0, None))
            canvas.whole_numbers(panel.xaxis)
        upper.tick_params(labelbottom=False)
        upper.set_ylabel(r"largest $\Delta_S$")
        lower.set(xlabel="training steps", ylabel=r"$\sigma_i$")
    return figure


_Band = tuple[Sequence[float], Floats, Floats, Floats]
"""A line against x, with a band around it: x, middle, low and high."""


def convergence(
    sensitivity: Mapping[str, _Band], sigma: Mapping[str, _Band], *, title: str = ""
) -> Figure:
    """How settled the numbers are: against comparisons and against seeds (v2, Figures 7, 9)."""
    with canvas.column(3.9, rows=2, title=title) as (figure, (upper, lower)):
        for panel, bands in ((upper, sensitivity), (lower, sigma)):
            for init, (x, middle, low, high) in bands.items():
                color = _COLORS.get(init, INK)
                panel.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
                panel.plot(x, middle, **_named(init))
                panel.axhline(middle[-1], color=color, linestyle="--", linewidth=0.7)
            panel.set_ylim(0, None)
        canvas.log_axis(upper.xaxis, 1, max(2, *(max(band[0]) for band in sensitivity.values())))
        lower.set_xlim(min(min(band[0]) for band in sigma.values()), None)
        canvas.whole_numbers(lower.xaxis)
        upper.set(xlabel="pairs of datasets compared", ylabel=r"largest $\Delta_S$")
        lower.set(xlabel="random seeds", ylabel=r"$\sigma_i$")
    return figure


def epsilons(
    found: Mapping[str, Mapping[str, Estimate]], *, delta: float, title: str = ""
) -> Figure:
    """Every estimate of epsilon on one axis: by initial weights, then by what it assumes."""
    parts = [(NAMES.get(init, init), list(named.items()), None) for init, named in found.items()]
    heading = filter(None, (title, f"epsilon at delta = {delta:.2g} ({ESTIMATE})"))
    figure: Figure = estimates_sheet(parts, list(heading))
    return figure


def _named(init: str) -> dict[str, Any]:
    return {"color": _COLORS.get(init, INK), "label": NAMES.get(init, init)}


# --- Audits


def attack_errors(
    errors: _Points,
    runs: int,
    *,
    tested: _Point | None = None,
    claimed: Callable[[float], float] | None = None,
    claim: str = "",
    title: str = "",
) -> Figure:
    """False negatives against false positives of an attack, on logarithmic axes and plain ones.

    Parameters
    ----------
    errors
        As counted, at every threshold.
    runs
        Tested runs on the dataset with more of them.
    tested
        Both rates at the tested threshold: the most they can be, with confidence.
    claimed, claim
        The least false-negative rate that the claim allows at a false-positive rate, and the
        claim in words.
    """
    from matplotlib.figure import Figure

    # Dense at both ends, where logarithmic axes look.
    many = len(errors[0])
    ends = canvas.thinned(many, _MOST_POINTS // 4)
    middle = np.linspace(0, many - 1, min(_MOST_POINTS // 2, many)).astype(np.intp)
    kept = np.unique(np.concatenate([ends, many - 1 - ends, middle]))
    with canvas.styled():
        figure = Figure(figsize=(2 * canvas.COLUMN, 3.3), layout="constrained")
        logarithmic, plain = figure.subplots(1, 2)
        for rates in (Rates(logarithmic, 0.5 / runs), Rates(plain)):
            if claimed is not None:
                betas = [claimed(float(alpha)) for alpha in ALPHAS]
                rates.limit(ALPHAS, betas, f"claimed: {claim}", "what the claim rules out")
            rates.counted(errors[0][kept], errors[1][kept])
            if tested is not None:
                rates.point(*tested, INK, "tested threshold: the most its errors can be")
            rates.panel.set_xlabel("false positive rate (D called D')")
        logarithmic.set_ylabel("false negative rate (D' called D)")
        canvas.legend_above(figure, plain, title)
    return figure


@dataclass(frozen=True)
class WorstCaseSetting:
    """Curves of one training: by order ("presence", "absence"), then by name.

    Names: "observed", "composed" (all iterates) and "linear".
    """

    title: str
    curves: Mapping[str, Mapping[str, _Points]]


def error_curves(
    settings: Sequence[WorstCaseSetting], *, log: bool, orders: Sequence[str] = tuple(ORDERS)
) -> Figure:
    """FPR against FNR: a column a setting, a row an order of D and D′ (Annamalai, Figure 1)."""
    if not settings:
        checks.fail("settings", list(settings), "to hold at least one")
    for order in orders:
        checks.one_of("orders", order, tuple(ORDERS))
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    wide = {"color": VERMILION, "linewidth": 2.4, "alpha": 0.65, "zorder": 1.9}
    lines: dict[str, tuple[str, dict[str, Any]]] = {
        "composed": ("all iterates, composed (PLD)", {"color": INK, "linewidth": 1.0}),
        "observed": ("observed, final iterate", wide),
        "linear": ("linear loss, final iterate", {"color": BLUE, "linestyle": "--"}),
    }
    with canvas.styled():
        apart = ConstrainedLayoutEngine(wspace=0.07)  # labels of neighbours would meet
        figure = Figure(figsize=(canvas.PAGE, 0.6 + 2.3 * len(orders)), layout=apart)
        grid = figure.subplots(len(orders), len(settings), squeeze=False, sharex=True, sharey=True)
        for row, order in zip(grid, orders, strict=True):
            for panel, setting in zip(row, settings, strict=True):
                Rates(panel, _LEAST_RATE if log else 0.0, guessing="")
                for name, (label, style) in lines.items():
                    panel.plot(*setting.curves[order][name], label=label, **style)
            row[0].set_ylabel(f"{ORDERS[order]}\n\nfalse-negative rate")
        for top, bottom, setting in zip(grid[0], grid[-1], settings, strict=True):
            top.set_title(setting.title)
            bottom.set_xlabel("false-positive rate")
        canvas.legend_above(figure, grid[0][0], columns=len(lines))
    return figure


@dataclass(frozen=True)
class Repeats:
    """One way to come to an epsilon: values[repeat] by the theoretical epsilon.

    Infinite values are drawn as arrows at the top; `says` is the legend's text.
    """

    says: str
    values: Mapping[float, Sequence[float]]


def epsilons_against_theory(panels: Mapping[str, Sequence[Repeats]]) -> Figure:
    """Epsilon found against the theoretical one, mean and 2 standard deviations (Figure 2)."""
    if not panels:
        checks.fail("panels", dict(panels), "to hold at least one")
    from matplotlib.figure import Figure

    looks = ((GREY, "x"), (VERMILION, "s"), (GREEN, "^"), (BLUE, "o"), (PURPLE, "D"))
    every = [one.values for series in panels.values() for one in series]
    shown = [epsilon for values in every for epsilon in values]
    shown += [v for values in every for vs in values.values() for v in vs if 0 < v < math.inf]
    low, high = min(shown) / 1.4, 1.9 * max(shown)  # room above for the arrows
    with canvas.styled():
        figure = Figure(figsize=(canvas.PAGE, 3.7), layout="constrained")
        grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for panel, (title, series) in zip(grid, panels.items(), strict=True):
            theory = sorted({epsilon for one in series for epsilon in one.values})
            canvas.log_axis(panel.xaxis, min(theory) / 1.5, max(theory) * 1.5)
            canvas.log_axis(panel.yaxis, low, high)
            panel.set_xticks(theory)
            panel.minorticks_off()
            # Points stand beside each other: each group has its own level, not a diagonal.
            panel.hlines(theory, *np.outer([1 / 1.25, 1.25], theory), color=INK, label="theory")
            for at, (one, (color, marker)) in enumerate(zip(series, looks, strict=False)):
                aside = 1.09 ** (at - (len(series) - 1) / 2)
                _points(panel, one, aside, high / 1.15, color, marker)
            panel.set_title(title)
            panel.set_xlabel("theoretical epsilon")
        grid[0].set_ylabel("epsilon found")
        canvas.legend_above(figure, grid[0])
    return figure


def _points(panel: Any, one: Repeats, aside: float, top: float, color: str, marker: str) -> None:
    """Means with bars, side by side; an arrow and a count where some are infinite."""
    look = {"color": color, "marker": marker, "linestyle": "none", "markersize": 4}
    panel.plot([], [], label=one.says, **look)
    for epsilon, values in one.values.items():
        place, numbers = epsilon * aside, np.asarray(values, dtype=np.float64)
        finite = numbers[np.isfinite(numbers)]
        if len(finite) < len(numbers):
            panel.plot([place], [top], color=color, marker=r"$\uparrow$", markersize=7)
            text = f"{len(numbers) - len(finite)} of {len(numbers)}"
            below = {"textcoords": "offset points", "ha": "center", "fontsize": 6, "color": color}
            panel.annotate(text, (place, top), (0, -11), **below)
        if len(finite):
            spread = 2 * float(finite.std(ddof=1)) if len(finite) > 1 else 0.0
            panel.errorbar([place], [finite.mean()], [spread], capsize=2, elinewidth=1.0, **look)
