"""Errors of attacks: what anybody can achieve at most, what a claim rules out, what was counted.

One picture of error rates for the page's two figures, for `sordino audit --plot` and for the
worst-case loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino.report import canvas, palette
from sordino.report.blocks import Drawn
from sordino.report.drawing.inline import HOLLOW, framed, inline, styled
from sordino.report.stages import Attack, Curve, Proved
from sordino.report.words_numbers import (
    lower,
    percent,
    percent_down,
    percent_of_confidence,
    percent_up,
    upper,
)
from sordino.types import Floats

if TYPE_CHECKING:
    from sordino.accounting.profile import Profile

_ABOVE_ONE = 1.12
"""Room for the whole width of a line at 1."""
_MOST_POINTS = 2_000
_NOTHING = Curve((0.0, 1.0), (0.0, 0.0))
"""Without a proof an attack without errors is possible."""
_ALPHAS = np.unique(np.concatenate([np.geomspace(1e-7, 1, 150), np.linspace(0, 1, 101)]))

Rate = Sequence[float] | Floats


@dataclass(frozen=True)
class Rates:
    """False negatives against false positives on one panel, with guessing as a dotted line.

    Parameters
    ----------
    panel
        Where they are drawn.
    least
        Where logarithmic axes begin: half a run, below which the picture would show what no run
        could have said. 0: plain axes.
    hits
        Whether true positives stand in the place of false negatives.
    guessing
        Name of the dotted line; it has none if "".
    """

    panel: Any
    least: float = 0.0
    hits: bool = False
    guessing: str = "guessing"

    def __post_init__(self) -> None:
        if self.least:
            for side in (self.panel.xaxis, self.panel.yaxis):
                canvas.log_axis(side, self.least, _ABOVE_ONE)
        else:
            self.panel.set(xlim=(0, 1), ylim=(0, 1))
        self.panel.set_aspect("equal")
        label = self.guessing or "_nolegend_"
        self.panel.plot(*self._placed(_ALPHAS, 1 - _ALPHAS), ":", color=palette.MUTED, label=label)

    def _placed(self, alarms: Rate, missed: Rate) -> tuple[Floats, Floats]:
        """Points of the panel; rates of 0 stand just below logarithmic axes."""
        up = 1 - np.asarray(missed) if self.hits else np.asarray(missed)
        return np.maximum(alarms, self.least / 2), np.maximum(up, self.least / 2)

    def limit(self, alarms: Rate, missed: Rate, line: str, shade: str) -> None:
        """What nobody gets beyond, and beyond it what is ruled out."""
        x, y = self._placed(alarms, missed)
        beyond = 1.0 if self.hits else self.least / 2
        look = {"color": palette.PROVED, "alpha": 0.13, "lw": 0}
        self.panel.fill_between(x, y, beyond, label=shade, **look)
        self.panel.plot(x, y, color=palette.PROVED, label=line)

    def counted(self, alarms: Rate, missed: Rate, label: str = "the attack, as counted") -> None:
        """What an attack achieved at every threshold."""
        look = {"color": palette.OBSERVED, "lw": 1.4, "ls": (0, (5, 1))}
        # Between two thresholds both rates are those of the worse one.
        self.panel.step(*self._placed(alarms, missed), where="pre", label=label, **look)

    def point(self, alarms: float, missed: float, colour: str, label: str) -> None:
        """One threshold."""
        x, y = (np.maximum(each, self.least) for each in self._placed([alarms], [missed]))
        self.panel.plot(x, y, "o", mec=colour, clip_on=False, label=label, **HOLLOW)


def roc(attack: Attack) -> Drawn:
    """True positives against false positives of one attack, beside what the claim allows.

    On logarithmic axes, where a strong attack on few shows.
    """
    name = "-".join(["roc", *"".join(c if c.isalnum() else " " for c in attack.of).split()]).lower()
    of = "un-noised SGD" if attack.of == "un-noised SGD" else f"the {attack.of}"
    point, claimed = attack.tested_point, attack.claimed_curve
    lines = 2 + 2 * (claimed is not None) + (point is not None)
    with styled():
        # A square and the lines of its key above; with more room it would outgrow the sheet.
        figure, panel = framed(292 + 11.5 * lines)
        rates = Rates(panel, 0.5 / max(attack.tested, 1), hits=True)
        if claimed is not None:
            by = "the claim" if attack.claimed is None else f"epsilon {upper(attack.claimed)}"
            rates.limit(claimed.x, claimed.y, f"{by} allows no more", f"ruled out by {by}")
        rates.counted(attack.roc.x, attack.roc.y)
        if point is not None and all(math.isfinite(each) for each in point):
            sure = percent_of_confidence(attack.observed.confidence)
            rates.point(*point, palette.INK, f"tested, with {sure} confidence")
        panel.set(xlabel="false positive rate", ylabel="true positive rate")
        canvas.legend_above(figure, panel, columns=1)
        return inline(
            figure,
            name,
            f"ROC of the attack on {of}",
            _roc_told(attack),
            f"The attack on {of}: the higher above the dotted line, the more it learned. "
            "What was counted varies by chance; what counts is the tested point.",
        )


def _roc_told(attack: Attack) -> str:
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


def tradeoff(proved: Proved, attack: Attack | None = None) -> Drawn:
    """Least false-negative rate against false-positive rate, and what the attack achieved."""
    curve = _NOTHING if proved.tradeoff is None else proved.tradeoff
    best = int(np.argmin(np.asarray(curve.x) + np.asarray(curve.y)))
    guess = f"the best guess: right at most {percent_up(proved.best_guess)}"
    with styled():
        figure, panel = framed(330)
        rates = Rates(panel)
        line = "the least errors of any attack"
        rates.limit(curve.x, curve.y, line, "proved: no attack gets here")
        if attack is not None:
            rates.counted(attack.roc.x, attack.roc.y, "our attack, as counted")
        rates.point(curve.x[best], curve.y[best], palette.PROVED, guess)
        panel.set(xlabel="false positives", ylabel="false negatives")
        canvas.in_percent(panel.xaxis)
        canvas.in_percent(panel.yaxis)
        canvas.legend_above(figure, panel, columns=1)
        return inline(
            figure,
            "tradeoff",
            "The least errors of any attack",
            _tradeoff_told(proved, attack),
            "False positives: an attacker says that a record was used, and it was not. False "
            "negatives: it was used, and he says that it was not. Nobody gets below the line.",
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


def _tradeoff_told(proved: Proved, attack: Attack | None) -> str:
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

    alarms, missed = errors(roc.negative, roc.positive)
    kept = _kept(len(alarms))
    with canvas.styled():
        figure = Figure(figsize=(2 * canvas.COLUMN, 3.3), layout="constrained")
        logarithmic, plain = figure.subplots(1, 2)
        least = 0.5 / max(len(roc.negative), len(roc.positive))
        for rates in (Rates(logarithmic, least), Rates(plain)):
            if roc.claimed is not None:
                betas = [roc.claimed.beta(float(alpha)) for alpha in _ALPHAS]
                rates.limit(_ALPHAS, betas, f"claimed: {roc.claim}", "what the claim rules out")
            rates.counted(alarms[kept], missed[kept])
            if roc.tested is not None and all(math.isfinite(each) for each in roc.tested):
                label = "tested threshold: the most its errors can be"
                rates.point(*roc.tested, palette.INK, label)
            rates.panel.set_xlabel("false positive rate (D called D')")
        logarithmic.set_ylabel("false negative rate (D' called D)")
        canvas.legend_above(figure, plain, roc.title, columns=2)
        canvas.save(figure, path, roc.title)


def _kept(many: int) -> npt.NDArray[np.intp]:
    """Places of about a thousand points, dense at both ends, where logarithmic axes look."""
    ends = canvas.thinned(many, _MOST_POINTS // 4)
    middle = np.linspace(0, many - 1, min(_MOST_POINTS // 2, many)).astype(np.intp)
    return np.unique(np.concatenate([ends, many - 1 - ends, middle]))
