"""How well anybody can tell two datasets apart: the least errors that the proof allows."""

from __future__ import annotations

from typing import Any

import numpy as np

from sordino.report.drawing import palette
from sordino.report.drawing.frame import framed, in_percent, key
from sordino.report.drawing.inline import Drawn, inline, styled
from sordino.report.stages import Attack, Curve, Proved
from sordino.report.words_numbers import percent, percent_up

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
            _told(proved, (float(x[best]), float(y[best])), attack),
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


def _told(proved: Proved, best: tuple[float, float], attack: Attack | None) -> str:
    if proved.tradeoff is None:
        said = ["Nothing is proved, so an attack without any error is not ruled out."]
    else:
        x, y = proved.tradeoff.x, proved.tradeoff.y
        at = ", ".join(
            f"{percent(share, 0)} false positives at least {percent(float(np.interp(share, x, y)))}"
            for share in (0.01, 0.05, 0.1, 0.5)
        )
        said = [f"The least false negatives that any attack has: at {at}."]
    said.append(
        f"The best guess, at {percent(best[0])} false positives and {percent(best[1])} false "
        f"negatives, is right at most {percent_up(proved.best_guess)} of the time; guessing "
        "blindly is right 50% of the time."
    )
    if attack is not None and attack.roc.x:
        errors = np.asarray(attack.roc.x) + np.asarray(attack.roc.y)
        right = 1 - float(errors.min()) / 2
        said.append(f"Our attack, as counted, was right {percent(right)} of the time at its best.")
    return " ".join(said)
