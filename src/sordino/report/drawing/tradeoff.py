"""How well anybody can tell two datasets apart: the least errors that the proof allows."""

from __future__ import annotations

from typing import Any

import numpy as np

from sordino.report.blocks import Drawn
from sordino.report.drawing import palette
from sordino.report.drawing.frame import framed, in_percent, key
from sordino.report.drawing.inline import inline, styled
from sordino.report.stages import Attack, Curve, Proved
from sordino.report.words_numbers import percent, percent_down, percent_up

_NOTHING = Curve((0.0, 1.0), (0.0, 0.0))
"""Without a proof an attack without errors is possible."""


def tradeoff(proved: Proved, attack: Attack | None = None) -> Drawn:
    """Least false-negative rate against false-positive rate, and what the attack achieved."""
    curve = _NOTHING if proved.tradeoff is None else proved.tradeoff
    x, y = np.asarray(curve.x), np.asarray(curve.y)
    best = int(np.argmin(x + y))
    guess = percent_up(proved.best_guess)
    with styled():
        figure, panel = framed(330)
        panel.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        shade = {"color": palette.PROVED, "alpha": 0.13, "lw": 0}
        panel.fill_between(x, 0, y, label="proved: no attack gets here", **shade)
        panel.plot(x, y, color=palette.PROVED, label="the least errors of any attack")
        panel.plot([0, 1], [1, 0], ":", color=palette.MUTED, label="guessing")
        if attack is not None:
            _counted(panel, attack)
        panel.plot(
            [x[best]],
            [y[best]],
            "o",
            ms=7,
            mfc=palette.PANEL,
            mec=palette.PROVED,
            mew=1.8,
            zorder=5,
            clip_on=False,
            ls="none",
            label=f"the best guess: right at most {guess}",
        )
        panel.set(xlabel="false positives", ylabel="false negatives")
        in_percent(panel.xaxis)
        in_percent(panel.yaxis)
        key(figure, panel)
        return inline(
            figure,
            "tradeoff",
            "The least errors of any attack",
            _told(proved, attack),
            "False positives: an attacker says that a record was used, and it was not. False "
            "negatives: it was used, and he says that it was not. Nobody gets below the line.",
        )


def _counted(panel: Any, attack: Attack) -> None:
    panel.step(
        attack.roc.x,
        attack.roc.y,
        where="pre",  # between two thresholds both rates are those of the worse one
        color=palette.OBSERVED,
        lw=1.2,
        ls=(0, (4, 1.2)),
        label="our attack, as counted",
    )


def least_missed(tradeoff: Curve, alarms: float) -> float:
    """Misses at a rate of false alarms, rounded to the safe side: no more than the true least.

    The true curve falls and is convex, so it lies above its next point to the right, and above
    the chords beside the gap in which `alarms` falls, drawn out into it.
    """
    points = sorted(zip(tradeoff.x, tradeoff.y, strict=True))
    after = next((place for place, (x, _) in enumerate(points) if x >= alarms), None)
    if after is None:
        return 0.0
    lowest = [points[after][1]]
    for first, second in ((after - 2, after - 1), (after, after + 1)):
        if first >= 0 and second < len(points):
            (x, y), (next_x, next_y) = points[first], points[second]
            if next_x > x:
                lowest.append(y + (next_y - y) * (alarms - x) / (next_x - x))
    return max(lowest)


def _told(proved: Proved, attack: Attack | None) -> str:
    curve = proved.tradeoff
    if curve is None:
        said = ["Nothing is proved, so an attack without any error is not ruled out."]
    else:
        at = "; ".join(
            f"at {percent(share, 0)} false positives {percent_down(least_missed(curve, share))}"
            for share in (0.01, 0.1, 0.5)
        )
        said = [f"Any attack has at least so many false negatives: {at}."]
    said.append(f"The best guess is right at most {percent_up(proved.best_guess)} of the time.")
    if attack is not None and attack.roc.x:
        errors = np.asarray(attack.roc.x) + np.asarray(attack.roc.y)
        right = 1 - float(errors.min()) / 2
        said.append(f"Our attack, as counted, was right {percent(right)} of the time at its best.")
    return " ".join(said)
