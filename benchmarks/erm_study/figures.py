"""The paper's figures 1 and 2, at defaults and for oracles, and its figure 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from erm_study.design import AUTO, METHODS, PEER
from erm_study.statistics import error_of_mean
from erm_study.study import Cell, by_point
from erm_study.timing import SCIKIT_LEARN, TIMED
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

STYLES: dict[str, tuple[str, str]] = {
    AUTO: ("#d62728", "o"),
    "objective": ("#ff9896", "s"),
    "noisy-gd": ("#1f77b4", "v"),
    "rsgd-ar": ("#2ca02c", "D"),
    "nsgd": ("#98df8a", "d"),
    "bolt-on": ("#8c564b", "^"),
    "output-gd": ("#e377c2", "<"),
    "dp-sgd": ("#9467bd", "P"),
    "sgd-ma": ("#c5b0d5", "X"),
    "dp-agd": ("#ff7f0e", ">"),
    PEER: ("#17becf", "*"),
    "none": ("#000000", ""),
    "majority": ("#7f7f7f", ""),
    SCIKIT_LEARN: ("#7f7f7f", "h"),
}
DASHES = {"none": "--", "majority": ":", SCIKIT_LEARN: "--"}


def draw_points(
    cells: Sequence[Cell], sources: Sequence[str], loss: str, kind: str, path: Path
) -> None:
    """Accuracy above, objective below, one column a dataset."""
    drawn = [c for c in cells if c.kind == kind or c.method in (AUTO, "none", "majority")]
    figure = Figure(figsize=(4.2 * len(sources) + 1.4, 7.2), layout="constrained")
    rows = figure.subplots(2, len(sources), sharex=True, squeeze=False)
    for column, source in enumerate(sources):
        here = [c for c in drawn if c.source == source and c.loss == loss and len(c.accuracies)]
        _column(rows[0, column], rows[1, column], here)
        rows[0, column].set_title(source)
        rows[1, column].set_xlabel("epsilon")
    rows[0, 0].set_ylabel("accuracy on held-out folds, %")
    rows[1, 0].set_ylabel("regularised objective")
    what = (
        "public defaults" if kind == "default" else "oracles: best of a grid, for comparison only"
    )
    figure.suptitle(f"{'Logistic regression' if loss == 'logistic' else 'SVM'}, {what}")
    handles, labels = rows[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=9)
    figure.savefig(path, dpi=110)


def _column(top: Axes, bottom: Axes, cells: Sequence[Cell]) -> None:
    for method in (*METHODS, PEER):
        line = sorted((c for c in cells if c.method == method), key=lambda c: c.epsilon)
        if not line:
            continue
        accuracies = [(100 * c.accuracies.mean(), 100 * error_of_mean(c.accuracies)) for c in line]
        objectives = [(c.objectives.mean(), error_of_mean(c.objectives)) for c in line]
        epsilons = [c.epsilon for c in line]
        _line(top, method, epsilons, accuracies)
        if method != "majority":
            _line(bottom, method, epsilons, objectives)
    _limits(top, bottom, cells)
    for axes in (top, bottom):
        axes.set_xscale("log")
        ticks = sorted({c.epsilon for c in cells})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.grid(alpha=0.3)


def _line(
    axes: Axes, method: str, across: Sequence[float], values: Sequence[tuple[float, float]]
) -> None:
    colour, marker = STYLES[method]
    means, errors = np.array(values).T
    axes.errorbar(
        across,
        means,
        errors,
        color=colour,
        marker=marker or None,
        linestyle=DASHES.get(method, "-"),
        linewidth=2.2 if method == AUTO else 1.2,
        markersize=5,
        capsize=2,
        zorder=3 if method == AUTO else 2,
        label=method,
    )


def _limits(top: Axes, bottom: Axes, cells: Sequence[Cell]) -> None:
    """What is worse than always saying the same is cut off, so that the rest can be told apart."""
    means = {(c.method, c.epsilon): c for c in cells}
    none = [c for c in means.values() if c.method == "none"]
    majority = [c for c in means.values() if c.method == "majority"]
    if none and majority:
        high = 100 * max(c.accuracies.mean() for c in cells)
        low = 100 * majority[0].accuracies.mean()
        top.set_ylim(low - 0.25 * (high - low), high + 0.08 * (high - low))
        least, most = none[0].objectives.mean(), majority[0].objectives.mean()
        bottom.set_ylim(least - 0.05 * (most - least), most + 0.1 * (most - least))


def draw_times(times: Mapping[tuple[str, int], float], path: Path) -> None:
    """Seconds against rows, as the paper's figure 3."""
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes = figure.subplots()
    for method in TIMED:
        line = sorted((rows, taken) for (m, rows), taken in times.items() if m == method)
        rows, taken = zip(*line, strict=True)
        _line(axes, method, rows, [(second, 0.0) for second in taken])
    axes.set(yscale="log", xlabel="rows of kddcup99", ylabel="seconds for one fit")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(sorted({rows for _, rows in times}))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=9)
    figure.savefig(path, dpi=110)


def draw_all(
    cells: Sequence[Cell],
    sources: Sequence[str],
    times: Mapping[tuple[str, int], float],
    directory: Path,
) -> list[Path]:
    """Every figure; the files written."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in ("default", "oracle"):
        for number, loss in enumerate(("logistic", "svm"), start=1):
            path = directory / f"figure{number}-{loss}-{kind}.png"
            if sources and by_point(cells, kind):
                draw_points(cells, sources, loss, kind, path)
                written.append(path)
    if times:
        written.append(directory / "figure3-times.png")
        draw_times(times, written[-1])
    return written
