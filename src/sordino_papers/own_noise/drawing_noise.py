"""Figures of noise and of preparations, in the papers' layout (v1: 5, 9; v2: 2, 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.report import canvas
from sordino_papers.found import Numbers
from sordino_papers.own_noise.drawing_grid import PAGE
from sordino_papers.own_noise.quantities_noise import curve

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

_COLORS = (canvas.BLUE, canvas.VERMILION, canvas.GREEN)
_DASHES = ("-", "--", "-.")


def feature_values(run: Numbers, *, names: Mapping[str, str], title: str = "") -> Figure:
    """The distribution of feature values, a line a variant (v2, Figure 2)."""
    edges = run["edges"]
    with canvas.styled():
        figure, (panel,) = canvas.panels(1, 2.5)
        for (variant, name), color, dashes in zip(names.items(), _COLORS, _DASHES, strict=False):
            density = run[f"{variant}/density"]
            zeros = float(run[f"{variant}/zeros"])
            label = f"{name} ({100 * zeros:.0f} % are 0)" if zeros > 0.01 else name
            panel.stairs(density, edges, color=color, linestyle=dashes, label=label)
        panel.set(yscale="log", xlabel="value of a feature", ylabel="density")
        canvas.legend_above(figure, panel, title, columns=3)
    return figure


def training_curves(run: Numbers, *, names: Mapping[str, str], title: str = "") -> Figure:
    """Loss and accuracy on training rows against steps, a line a variant (v2, Figure 3).

    Lines are means over models, bands the central 90 % of them.
    """
    steps, chosen = run["steps"], float(run["chosen"])
    with canvas.styled():
        figure, panels = canvas.panels(2, 3.6)
        for panel, part, said in zip(panels, ("loss", "accuracy"), _SAID, strict=True):
            means = []
            for (variant, name), color, dashes in zip(
                names.items(), _COLORS, _DASHES, strict=False
            ):
                held = run[f"{variant}/{part}"]
                low, high = np.quantile(held, (0.05, 0.95), axis=1)
                panel.fill_between(steps, low, high, color=color, alpha=0.2, linewidth=0)
                means.append(held.mean(axis=1))
                panel.plot(steps, means[-1], color=color, linestyle=dashes, label=name)
            panel.axvline(chosen, color=canvas.INK, linestyle="--", linewidth=0.8)
            # The first steps of some runs are far off: the lines are what is to be seen.
            room = 0.05 * np.ptp(means)
            limits = np.min(means) - room, np.max(means) + room
            panel.set(ylabel=said, xlim=(0, steps[-1]), ylim=limits)
            canvas.whole_numbers(panel.xaxis)
        panels[0].tick_params(labelbottom=False)
        panels[1].set_xlabel("training steps")
        canvas.legend_above(figure, panels[0], title, columns=3)
    return figure


_SAID = ("cross-entropy", "accuracy")


def accuracy_by_epsilon(*runs: Numbers, titles: Sequence[str], fixed: bool = False) -> Figure:
    """Accuracy on held-out rows against the target epsilon, a column a run (v1, Figures 5 and 9).

    Above, as in the paper, one model, the first, with the authors' noise. Dashed: the empirical
    sensitivity. With `fixed`, also what counting only the noise of a fixed start would give. Below,
    since lines that lie on each other show nothing, the mean gain over all models.
    """
    from matplotlib.figure import Figure

    with canvas.styled():
        figure = Figure(figsize=(PAGE, 4.0), layout="constrained")
        axes = figure.subplots(2, len(runs), squeeze=False, sharex="col", height_ratios=(2, 1))
        for (above, below), run, title in zip(axes.T, runs, titles, strict=True):
            _accuracies(above, run, fixed)
            _gains(below, run, fixed)
            above.set_title(title)
            below.set_xlabel(r"target $\epsilon$")
            epsilons = run["epsilons"]
            canvas.log_axis(below.xaxis, float(epsilons[0]), float(epsilons[-1]))
        axes[0, 0].set_ylabel("accuracy")
        axes[1, 0].set_ylabel("gain, points")
        canvas.legend_above(figure, axes[0, 0], columns=4 if fixed else 3)
    return figure


_CASES = (("bound", "-"), ("empirical", "--"))


def _augmented(fixed: bool) -> list[tuple[str, str, str]]:
    """Ways to count SGD's own noise: the case's ending, its symbol and its colour."""
    lines = [("", r"$\sigma_{augment}$", canvas.BLUE)]
    return [*lines, ("-fixed", r"$\sigma_{augment}^{fix}$", canvas.GREEN)] if fixed else lines


def _accuracies(panel: Any, run: Numbers, fixed: bool) -> None:
    noiseless = curve(run, "bound", "noiseless", models=1)[0]
    panel.axhline(noiseless, color=canvas.INK, linewidth=0.8, linestyle=":", label="noiseless")
    for case, dashes in _CASES:
        lines = [(case, "target", r"$\sigma_{target}$", canvas.VERMILION)]
        lines += [(case + end, "augmented", said, color) for end, said, color in _augmented(fixed)]
        for name, part, symbol, color in lines:
            drawn = curve(run, name, part, models=1)
            label = f"{symbol}, {case}"
            panel.plot(run["epsilons"], drawn, color=color, linestyle=dashes, label=label)


def _gains(panel: Any, run: Numbers, fixed: bool) -> None:
    for case, dashes in _CASES:
        for end, _, color in _augmented(fixed):
            gains = 100 * curve(run, case + end, "gain")
            panel.plot(run["epsilons"], gains, color=color, linestyle=dashes)


DRAWINGS: dict[str, Callable[..., Figure]] = {
    "accuracy_by_epsilon": accuracy_by_epsilon,
    "feature_values": feature_values,
    "training_curves": training_curves,
}
