"""What the attack achieved: its ROC on logarithmic axes, where a strong attack on few shows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sordino.report.blocks import Drawn
from sordino.report.canvas import log_axis
from sordino.report.drawing import palette
from sordino.report.drawing.frame import framed, key
from sordino.report.drawing.inline import inline, styled
from sordino.report.stages import Attack
from sordino.report.words_numbers import lower, percent, percent_of_confidence, upper

_ABOVE_ONE = 1.12
"""Room for the whole width of a line at 1."""


def roc(attack: Attack) -> Drawn:
    """True positives against false positives of one attack, beside what the claim allows."""
    # Half a run: below it the picture would show what no run could have said.
    least = 0.5 / max(attack.tested, 1)
    name = "-".join(["roc", *"".join(c if c.isalnum() else " " for c in attack.of).split()]).lower()
    with styled():
        figure, panel = framed(_height(attack))
        for side in (panel.xaxis, panel.yaxis):
            log_axis(side, least, _ABOVE_ONE)
        panel.set_aspect("equal")
        _curves(panel, attack, least)
        panel.set(xlabel="false positive rate", ylabel="true positive rate")
        key(figure, panel)
        return inline(
            figure,
            name,
            f"ROC of the attack on {_of(attack)}",
            _told(attack),
            f"The attack on {_of(attack)}: the higher above the dotted line, the more it learned. "
            "What was counted varies by chance; what counts is the tested point.",
        )


def _height(attack: Attack) -> float:
    """Of a square and the lines of its key above; with more room it would outgrow the sheet."""
    lines = 2 + 2 * (attack.claimed_curve is not None) + (attack.tested_point is not None)
    return 292 + 11.5 * lines


def _of(attack: Attack) -> str:
    return "un-noised SGD" if attack.of == "un-noised SGD" else f"the {attack.of}"


def _curves(panel: Any, attack: Attack, least: float) -> None:
    below = least / 2
    panel.plot([below, 1], [below, 1], ":", color=palette.MUTED, label="guessing")
    claimed = attack.claimed_curve
    if claimed is not None:
        name = "the claim" if attack.claimed is None else f"epsilon {upper(attack.claimed)}"
        x, most = np.maximum(claimed.x, below), _seen(claimed.y, below)
        shade = {"color": palette.PROVED, "alpha": 0.13, "lw": 0}
        panel.fill_between(x, most, 1, label=f"ruled out by {name}", **shade)
        panel.plot(x, most, color=palette.PROVED, label=f"{name} allows no more")
    panel.step(
        np.maximum(attack.roc.x, below),
        _seen(attack.roc.y, below),
        where="pre",  # between two thresholds both rates are those of the worse one
        color=palette.OBSERVED,
        lw=1.5,
        ls=(0, (5, 1)),
        label="the attack, as counted",
    )
    point = attack.tested_point
    if point is not None and all(math.isfinite(each) for each in point):
        look = {"mfc": palette.PANEL, "mec": palette.INK, "mew": 1.8}
        label = f"tested, with {percent_of_confidence(attack.observed.confidence)} confidence"
        place = [max(point[0], least)], [max(1 - point[1], least)]
        panel.plot(*place, "o", ms=7, ls="none", zorder=5, clip_on=False, label=label, **look)


def _seen(missed: tuple[float, ...], below: float) -> Any:
    """True positive rates, those of 0 just below the picture."""
    return np.maximum(1 - np.asarray(missed), below)


def _told(attack: Attack) -> str:
    said = [
        f"True positives against false positives on logarithmic axes, counted over "
        f"{attack.tested:,} test runs of each dataset."
    ]
    x, y = np.asarray(attack.roc.x), np.asarray(attack.roc.y)
    counted = [
        f"at {percent(share, 0)} false positives {percent(1 - float(y[x <= share].min()))} true"
        for share in (0.01, 0.1)
        if (x <= share).any()
    ]
    if counted:
        said.append(f"The attack, as counted: {'; '.join(counted)}.")
    if attack.tested_point is not None:
        false, missed = attack.tested_point
        confidence = percent_of_confidence(attack.observed.confidence)
        said.append(
            f"Tested, with {confidence} confidence: at most {upper(false)} false and at least "
            f"{lower(1 - missed)} true positives."
        )
    if attack.claimed is not None:
        said.append(f"The claim is epsilon {upper(attack.claimed)}.")
    return " ".join(said)
