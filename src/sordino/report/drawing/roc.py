"""What the attack achieved, on logarithmic axes, where a strong attack on few shows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sordino.report.canvas import log_axis
from sordino.report.drawing import palette
from sordino.report.drawing.frame import framed, key
from sordino.report.drawing.inline import Drawn, inline, styled
from sordino.report.stages import Attack
from sordino.report.words_numbers import about, percent, percent_of_confidence, upper


def roc(attack: Attack) -> Drawn:
    """False negatives against false positives of one attack, beside what the claim allows."""
    # Half a run: below it the picture would show what no run could have said.
    least = 0.5 / max(attack.tested, 1)
    name = "-".join(["roc", *"".join(c if c.isalnum() else " " for c in attack.of).split()]).lower()
    with styled():
        figure, panel = framed(350)
        log_axis(panel.xaxis, least, 1.0)
        log_axis(panel.yaxis, least, 1.0)
        panel.set_aspect("equal")
        _curves(panel, attack, least)
        panel.set(xlabel="false positive rate", ylabel="false negative rate")
        key(figure, panel)
        return inline(
            figure,
            name,
            f"Errors of the attack on {_of(attack)}",
            _told(attack),
            f"The attack on {_of(attack)}: the further to the lower left, the more it learned.",
        )


def _of(attack: Attack) -> str:
    return "un-noised SGD" if attack.of == "un-noised SGD" else f"the {attack.of}"


def _curves(panel: Any, attack: Attack, least: float) -> None:
    # Dense at both ends, where logarithmic axes look.
    places = np.geomspace(least / 2, 0.5, 60)
    places = np.concatenate([places, 1 - places[::-1]])
    panel.plot(places, 1 - places, ":", color=palette.MUTED, label="guessing")
    claimed = attack.claimed_curve
    if claimed is not None:
        name = "the claim" if attack.claimed is None else f"epsilon {upper(attack.claimed)}"
        floor = np.maximum(claimed.y, least / 2)
        shade = {"color": palette.PROVED, "alpha": 0.13, "lw": 0}
        panel.fill_between(claimed.x, least / 2, floor, label=f"ruled out by {name}", **shade)
        panel.plot(claimed.x, floor, color=palette.PROVED, label=f"{name} allows no less")
    panel.step(
        np.maximum(attack.roc.x, least / 2),
        np.maximum(attack.roc.y, least / 2),
        where="pre",  # between two thresholds both rates are those of the worse one
        color=palette.OBSERVED,
        lw=1.5,
        ls=(0, (5, 1)),
        label="the attack, as counted",
    )
    point = attack.tested_point
    if point is not None and all(math.isfinite(each) for each in point):
        x, y = (max(each, least) for each in point)
        look = {"mfc": palette.PANEL, "mec": palette.INK, "mew": 1.8}
        label = "tested: the most its errors can be"
        panel.plot([x], [y], "o", ms=7, ls="none", zorder=5, clip_on=False, label=label, **look)


def _told(attack: Attack) -> str:
    said = [
        f"Errors of the attack on {_of(attack)} on logarithmic axes, counted over "
        f"{attack.tested:,} test runs of each dataset."
    ]
    x, y = np.asarray(attack.roc.x), np.asarray(attack.roc.y)
    counted = [
        f"at {percent(share)} false positives {percent(float(y[x <= share].min()))} false negatives"
        for share in (0.01, 0.1)
        if (x <= share).any()
    ]
    if counted:
        said.append(f"The attack, as counted: {'; '.join(counted)}.")
    if attack.tested_point is not None:
        false_positive, false_negative = (about(each) for each in attack.tested_point)
        confidence = percent_of_confidence(attack.observed.confidence)
        said.append(
            f"At the tested threshold, with {confidence} confidence, the false positive rate is at "
            f"most {false_positive} and the false negative rate at most {false_negative}."
        )
    if attack.claimed is not None:
        said.append(f"The claim is epsilon {upper(attack.claimed)}.")
    return " ".join(said)
