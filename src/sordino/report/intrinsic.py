"""Figures of SGD's own noise, after Hyland & Tople's (v1 and v2). Plain numbers in, a figure out.

`canvas.save` writes them. They show numbers without noise, so they are INTERNAL; every epsilon in
them is an estimate, not a guarantee. Numbers that exist for both kinds of initial weights come in
a mapping by "vary" and "fixed".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import checks
from sordino.privacy import Estimate
from sordino.report import canvas
from sordino.report.canvas import BLUE, GREEN, GREY, INK, VERMILION
from sordino.report.drawing.axis import compared
from sordino.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ESTIMATE = "estimate, not a guarantee"
COLORS = {"vary": BLUE, "fixed": VERMILION}
NAMES = {"vary": "initial weights vary", "fixed": "initial weights fixed"}
DOTS = (0, (1, 1.2))
_DATA_COLOR = GREEN
_MANY = 400
"""Points of a sorted sample that are drawn at most."""


@dataclass(frozen=True)
class DistanceSet:
    """Distances of pairs of runs that differ in the data, the seed, or both."""

    data: Floats
    seed: Floats
    both: Floats


@dataclass(frozen=True)
class Band:
    """A line against x, with a band around it."""

    x: Sequence[float]
    middle: Floats
    low: Floats
    high: Floats


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
    sets: Mapping[str, DistanceSet],
    *,
    bound: float | None = None,
    printed: float | None = None,
    title: str = "",
) -> Figure:
    """How far apart models are, with the theoretical bound (v1, Figures 2, 6; v2, 1, 5).

    `printed` is the papers' fraction of the bound, which is none.
    """
    hills = [("another record", r"$\Delta_S$", i, s.data, _DATA_COLOR) for i, s in sets.items()]
    hills += [("another seed", r"$\Delta_V$", i, s.seed, _color(i)) for i, s in sets.items()]
    marks = [np.array([line]) for line in (bound, printed) if line]
    low, high = _span([*(hill[3] for hill in hills), *(s.both for s in sets.values()), *marks])
    top = 0.0
    with canvas.styled():
        figure, (panel,) = canvas.panels(1, 2.75)
        canvas.log_axis(panel.xaxis, low, high)
        for at, (name, symbol, init, values, color) in enumerate(hills):
            x, y = canvas.density(values, low, high)
            dashes = "--" if 0 < at < len(sets) else "-"  # the second green one
            label = f"{symbol}  {name} ({init}){_zeros(values)}"
            panel.fill_between(x, y, color=color, alpha=0.2, linewidth=0)
            panel.plot(x, y, color=color, linestyle=dashes, label=label)
            top = max(top, float(y.max()))
        for one in sets.values():
            x, y = canvas.density(one.both, low, high)
            panel.plot(x, y, color=INK, linewidth=1.0, linestyle=DOTS)
            top = max(top, float(y.max()))
        panel.plot([], [], color=INK, linestyle=DOTS, label=r"$\Delta_{S+V}$  both")
        _mark(panel, bound, "--", INK, "bound, one record")
        _mark(panel, printed, "-.", GREY, "papers' fraction of it")
        panel.set(ylim=(0, 1.05 * top or 1), ylabel="density per decade")
        panel.set_xlabel(r"distance of two models, $\Vert w - w^{\prime}\Vert_2$")
        canvas.legend_above(figure, panel, title)
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
    low = min(corrected, max(least, 1e-16)) / 3
    with canvas.styled():
        figure, (panel,) = canvas.panels(1, 2.6)
        canvas.log_axis(panel.xaxis, min(0.8 / tests, 0.1), 1.05)
        canvas.log_axis(panel.yaxis, low, 1.6)
        for init, p in kept.items():
            share = np.arange(1, len(p) + 1) / len(p)
            at = canvas.thinned(len(p), _MANY)
            panel.plot(share[at], p[at], color=_color(init), label=_name(init), linewidth=1.5)
        ends = [1 / tests, 1]
        panel.plot(ends, ends, color=GREY, linewidth=0.9, linestyle=DOTS, label="if Gaussian")
        for height, said in (
            (level, f"p = {level:g}"),
            (corrected, f"Bonferroni, {corrected:.1g}"),
        ):
            panel.axhline(height, color=INK, linewidth=0.8, linestyle="--")
            canvas.say_at(panel, height, said)
        panel.set_xlabel(f"share of {tests:,} tested weights, sorted by p")
        panel.set_ylabel("Shapiro-Wilk p-value")
        canvas.legend_above(figure, panel, title)
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
    low, high = _span(finite, least=1e-2)
    with canvas.styled():
        figure, (panel,) = canvas.panels(1, 2.6)
        canvas.log_axis(panel.xaxis, low, high)
        most = max(len(values) for values in finite)
        canvas.log_axis(panel.yaxis, 0.7 / most, 1.3)
        for init, values in exact.items():
            _tail(panel, values, color=_color(init), label=_name(init))
            panel.plot(values.max(), 1 / len(values), "o", color=_color(init), markersize=3)
        for init, values in (printed or {}).items():
            _tail(panel, values, color=_color(init), linestyle=DOTS, linewidth=1.0)
        if printed:
            panel.plot([], [], color=INK, linestyle=DOTS, linewidth=1.0, label="papers' formula")
        panel.set_xlabel(f"pairwise $\\epsilon$ at $\\delta$ = {delta:.2g}\n({ESTIMATE})")
        panel.set_ylabel("share of pairs above it")
        canvas.legend_above(figure, panel, title)
    return figure


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
    with canvas.styled():
        figure, (panel,) = canvas.panels(1, 2.75)
        canvas.log_axis(panel.xaxis, min(epsilons) / 1.1, max(epsilons) * 1.1)
        for at, (sensitivity, found) in enumerate(curves.items()):
            dashes = ("-", "--", "-.", ":")[at % 4]
            for setting, (middle, low, high) in found.items():
                color, name = settings.get(setting, (INK, setting))
                noiseless = setting == "noiseless"
                if noiseless and at:
                    continue  # no sensitivity is in it
                label = name if noiseless else f"{name}, {sensitivity}"
                panel.fill_between(epsilons, low, high, color=color, alpha=0.15, linewidth=0)
                style = DOTS if noiseless else dashes
                panel.plot(epsilons, middle, color=color, linestyle=style, label=label)
        panel.set(ylabel=metric)
        panel.set_xlabel(r"target $\epsilon$  ($\sigma_{\mathrm{augment}}$: no guarantee)")
        canvas.legend_above(figure, panel, title)
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
    with canvas.styled():
        figure, (upper, lower) = canvas.panels(2, 3.6)
        if bound is not None:
            said = "bound for one record"
            upper.step(*bound, where="post", color=INK, linestyle="--", linewidth=1.0, label=said)
        for panel, found in ((upper, sensitivity), (lower, sigma)):
            for init, values in found.items():
                marker = "o" if len(steps) < 40 else None
                panel.plot(
                    steps,
                    values,
                    color=_color(init),
                    marker=marker,
                    markersize=2.2,
                    label=_name(init),
                )
            panel.set(xlim=(0, 1.02 * max(steps)), ylim=(0, None))
            canvas.whole_numbers(panel.xaxis)
        upper.tick_params(labelbottom=False)
        upper.set_ylabel(r"largest $\Delta_S$")
        lower.set_ylabel(r"$\sigma_i$")
        lower.set_xlabel("training steps")
        canvas.legend_above(figure, upper, title)
    return figure


def convergence(
    sensitivity: Mapping[str, Band], sigma: Mapping[str, Band], *, title: str = ""
) -> Figure:
    """How settled the numbers are: against comparisons and against seeds (v2, Figures 7, 9)."""
    with canvas.styled():
        figure, (upper, lower) = canvas.panels(2, 3.9)
        for panel, bands in ((upper, sensitivity), (lower, sigma)):
            for init, band in bands.items():
                color = _color(init)
                panel.fill_between(band.x, band.low, band.high, color=color, alpha=0.2, linewidth=0)
                panel.plot(band.x, band.middle, color=color, label=_name(init))
                panel.axhline(band.middle[-1], color=color, linestyle="--", linewidth=0.7)
        most = max(max(band.x) for band in sensitivity.values())
        canvas.log_axis(upper.xaxis, 1, max(most, 2))
        for panel in (upper, lower):
            panel.set_ylim(0, None)
        lower.set_xlim(min(min(band.x) for band in sigma.values()), None)
        canvas.whole_numbers(lower.xaxis)
        upper.set(xlabel="pairs of datasets compared", ylabel=r"largest $\Delta_S$")
        lower.set(xlabel="random seeds", ylabel=r"$\sigma_i$")
        canvas.legend_above(figure, upper, title)
    return figure


def epsilons(
    found: Mapping[str, Mapping[str, Estimate]], *, delta: float, title: str = ""
) -> Figure:
    """Every estimate of epsilon on one axis: by initial weights, then by what it assumes."""
    parts = [(_name(init), list(named.items()), None) for init, named in found.items()]
    said = f"epsilon at delta = {delta:.2g} ({ESTIMATE})"
    return compared(parts, [each for each in (title, said) if each]).figure()


def _color(init: str) -> str:
    return COLORS.get(init, INK)


def _name(init: str) -> str:
    return NAMES.get(init, init)


def _mark(panel: Any, x: float | None, dashes: str, color: str, said: str) -> None:
    if x:
        label = f"{said}: {x:.3g}"
        panel.axvline(x, color=color, linestyle=dashes, linewidth=1.0, label=label)


def _zeros(values: Floats) -> str:
    none = float((values == 0).mean())
    return f" ({none:.0%} are 0)" if none else ""


def _tail(panel: Any, values: Floats, **look: Any) -> None:
    """Share of values above each of them."""
    order = np.sort(values)
    at = canvas.thinned(len(order), _MANY)
    panel.plot(order[::-1][at], (at + 1) / len(order), **look)


def _span(values: Sequence[Floats], least: float = 0.0) -> tuple[float, float]:
    """Where the positive values lie, with room around them; tiny ones are left out."""
    positive = [one[one > 0] for one in values]
    positive = [one for one in positive if len(one)]
    if not positive:
        return 0.1, 10.0
    high = max(float(one.max()) for one in positive)
    low = max(min(float(np.quantile(one, 0.002)) for one in positive), least, high * 1e-6)
    return low / 1.6, high * 1.6
