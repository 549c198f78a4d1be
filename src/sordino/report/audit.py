"""The picture of an audit: what the attack achieved, and what the claim says nobody can."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino.report import canvas
from sordino.types import Floats

if TYPE_CHECKING:
    from sordino.accounting.profile import Profile


_MOST_POINTS = 2_000


@dataclass(frozen=True, eq=False)
class Roc:
    """Errors of an attack at every threshold, and at the one that was tested.

    Parameters
    ----------
    negative, positive
        Scores of the runs that were tested, of D and of D'.
    tested
        (false positives, false negatives) at the tested threshold: the most they can be, with
        confidence; None where no single threshold was tested.
    claimed
        The claimed curve; None if nothing is claimed.
    claim
        In words, for the legend.
    title
        What was attacked.
    """

    negative: Floats
    positive: Floats
    tested: tuple[float, float] | None = None
    claimed: Profile | None = None
    claim: str = ""
    title: str = ""


def errors(negative: Floats, positive: Floats) -> tuple[Floats, Floats]:
    """False positive and false negative rate at every threshold, from the lowest score up."""
    thresholds = np.append(np.unique(np.concatenate([negative, positive])), np.inf)
    below = np.searchsorted(np.sort(negative), thresholds, side="left")
    missed = np.searchsorted(np.sort(positive), thresholds, side="left")
    return 1 - below / len(negative), missed / len(positive)


def plot(roc: Roc, path: str) -> None:
    """False negatives against false positives, on logarithmic axes and on plain ones."""
    from matplotlib.figure import Figure

    with canvas.styled():
        figure = Figure(figsize=(2 * canvas.COLUMN, 3.3), layout="constrained")
        logarithmic, plain = figure.subplots(1, 2)
        # Half a run: below it the picture would show what no run could have said.
        least = 0.5 / max(len(roc.negative), len(roc.positive))
        canvas.log_axis(logarithmic.xaxis, least, 1.0)
        canvas.log_axis(logarithmic.yaxis, least, 1.0)
        plain.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        for panel, low in ((logarithmic, least), (plain, 0.0)):
            _curves(panel, roc, low)
            panel.set_xlabel("false positive rate (D called D')")
        logarithmic.set_ylabel("false negative rate (D' called D)")
        canvas.legend_above(figure, plain, roc.title, columns=2)
        canvas.save(figure, path, roc.title)


def _kept(many: int) -> npt.NDArray[np.intp]:
    """Places of about a thousand points, dense at both ends, where logarithmic axes look."""
    ends = canvas.thinned(many, _MOST_POINTS // 4)
    middle = np.linspace(0, many - 1, min(_MOST_POINTS // 2, many)).astype(np.intp)
    return np.unique(np.concatenate([ends, many - 1 - ends, middle]))


def _curves(panel: Any, roc: Roc, low: float) -> None:
    alphas = np.unique(np.concatenate([np.geomspace(1e-7, 1, 150), np.linspace(0, 1, 101)]))
    panel.plot(alphas, 1 - alphas, ":", color=canvas.GREY, label="guessing")
    if roc.claimed is not None:
        betas = np.array([roc.claimed.beta(float(alpha)) for alpha in alphas])
        panel.plot(alphas, betas, color=canvas.BLUE, label=f"claimed: {roc.claim}")
        ruled_out = np.maximum(betas, low)
        shade = {"color": canvas.BLUE, "alpha": 0.08, "lw": 0}
        panel.fill_between(alphas, low, ruled_out, label="what the claim rules out", **shade)
    alpha, beta = errors(roc.negative, roc.positive)
    kept = _kept(len(alpha))
    panel.step(
        np.maximum(alpha[kept], low / 2),
        np.maximum(beta[kept], low / 2),
        where="pre",  # between two thresholds both rates are those of the worse one
        color=canvas.VERMILION,
        lw=1.0,
        label="the attack, as counted",
    )
    if roc.tested is not None and all(math.isfinite(each) for each in roc.tested):
        panel.plot(
            *([each] for each in roc.tested),
            marker="o",
            ms=4,
            color=canvas.INK,
            ls="none",
            label="tested threshold: the most its errors can be",
        )
