"""Curves of the page: errors of attacks, what privacy costs, how far weights lie apart.

`Rates` draws errors for the page's two figures, for `sordino audit --plot` and for the worst-case
loss: what anybody can achieve at most, what a claim rules out, what was counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.report import canvas, numbers
from sordino.report.canvas import ESTIMATED, GREY, INK, OBSERVED, PROVED
from sordino.report.drawing.svg import HOLLOW, framed, inline
from sordino.report.numbers import about, confidence, lower, percent, upper
from sordino.report.page import Figure
from sordino.report.result import Accuracy, Attack, Curve, OwnNoise, Proved
from sordino.types import Floats

_ABOVE_ONE = 1.12
"""Room for the whole width of a line at 1."""
_NOTHING = Curve((0.0, 1.0), (0.0, 0.0))
"""Without a proof an attack without errors is possible."""
ALPHAS = np.unique(np.concatenate([np.geomspace(1e-7, 1, 150), np.linspace(0, 1, 101)]))
"""False-positive rates at which a whole curve is drawn."""

_Rate = Sequence[float] | Floats


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
        self.panel.plot(*self._placed(ALPHAS, 1 - ALPHAS), ":", color=GREY, label=label)

    def _placed(self, alarms: _Rate, missed: _Rate) -> tuple[Floats, Floats]:
        """Points of the panel; rates of 0 stand just below logarithmic axes."""
        up = 1 - np.asarray(missed) if self.hits else np.asarray(missed)
        return np.maximum(alarms, self.least / 2), np.maximum(up, self.least / 2)

    def limit(self, alarms: _Rate, missed: _Rate, line: str, shade: str) -> None:
        """What nobody gets beyond, and beyond it what is ruled out."""
        x, y = self._placed(alarms, missed)
        beyond = 1.0 if self.hits else self.least / 2
        self.panel.fill_between(x, y, beyond, label=shade, color=PROVED, alpha=0.13, lw=0)
        self.panel.plot(x, y, color=PROVED, label=line)

    def counted(self, alarms: _Rate, missed: _Rate) -> None:
        """What an attack achieved at every threshold."""
        look = {"color": OBSERVED, "lw": 1.4, "ls": (0, (5, 1)), "label": "the attack, as counted"}
        # Between two thresholds both rates are those of the worse one.
        self.panel.step(*self._placed(alarms, missed), where="pre", **look)

    def point(self, alarms: float, missed: float, colour: str, label: str) -> None:
        """One threshold; none where a rate is not known."""
        if math.isfinite(alarms) and math.isfinite(missed):
            x, y = (np.maximum(each, self.least) for each in self._placed([alarms], [missed]))
            self.panel.plot(x, y, "o", mec=colour, clip_on=False, label=label, **HOLLOW)


def roc(attack: Attack) -> Figure:
    """True positives against false positives of one attack, beside what the claim allows.

    On logarithmic axes, where a strong attack on few shows.
    """
    letters = "".join(letter if letter.isalnum() else " " for letter in f"roc {attack.of}")
    of = "un-noised SGD" if attack.of == "un-noised SGD" else f"the {attack.of}"
    point, claimed = attack.tested_point, attack.claimed_curve
    sure = confidence(attack.observed.confidence)
    alt = [f"Counted over {attack.tested:,} test runs of each dataset."]
    # A square and the lines of its key above; with more room it would outgrow the sheet.
    lines = 2 + 2 * (claimed is not None) + (point is not None)
    with framed(292 + 11.5 * lines) as (figure, panel):
        rates = Rates(panel, 0.5 / max(attack.tested, 1), hits=True)
        if claimed is not None:
            by = "the claim" if attack.claimed is None else f"epsilon {upper(attack.claimed)}"
            rates.limit(claimed.x, claimed.y, f"{by} allows no more", f"ruled out by {by}")
        rates.counted(attack.roc.x, attack.roc.y)
        if point is not None:
            rates.point(*point, INK, f"tested, with {sure} confidence")
        panel.set(xlabel="false positive rate", ylabel="true positive rate")
    x, y = np.asarray(attack.roc.x), np.asarray(attack.roc.y)
    counted = [
        f"at {percent(share, 0)} false positives {percent(1 - float(y[x <= share].min()))} true"
        for share in (0.01, 0.1)
        if (x <= share).any()
    ]
    if counted:
        alt.append(f"The attack, as counted: {'; '.join(counted)}.")
    if point is not None:
        most = f"at most {upper(point[0])} false and at least {lower(1 - point[1])} true"
        alt.append(f"Tested, with {sure} confidence: {most} positives.")
    if attack.claimed is not None:
        alt.append(f"The claim is epsilon {upper(attack.claimed)}.")
    caption = f"The attack on {of}: the higher above the dotted line, the more it learned."
    name, title = "-".join(letters.split()).lower(), f"ROC of the attack on {of}"
    return inline(figure, name, title, " ".join(alt), caption)


def tradeoff(proved: Proved) -> Figure:
    """Least false-negative rate against false-positive rate."""
    curve = _NOTHING if proved.tradeoff is None else proved.tradeoff
    best = int(np.argmin(np.asarray(curve.x) + np.asarray(curve.y)))
    guess = f"right at most {numbers.percent_up(proved.best_guess)}"
    with framed(330) as (figure, panel):
        rates = Rates(panel)
        line = "the least errors of any attack"
        rates.limit(curve.x, curve.y, line, "proved: no attack gets here")
        rates.point(curve.x[best], curve.y[best], PROVED, f"the best guess: {guess}")
        panel.set(xlabel="false positives", ylabel="false negatives")
        canvas.in_percent(panel.xaxis)
        canvas.in_percent(panel.yaxis)
    alt = ["Nothing is proved: an attack may make no error."]
    if proved.tradeoff is not None:
        least = {s: numbers.percent_down(least_missed(curve, s)) for s in (0.01, 0.1, 0.5)}
        at = "; ".join(f"at {percent(s, 0)} false positives {text}" for s, text in least.items())
        alt = [f"Any attack has at least so many false negatives: {at}."]
    alt.append(f"The best guess is {guess} of the time.")
    caption = "False positives: a record is said to be used, and is not; negatives: the reverse."
    return inline(figure, "tradeoff", "The least errors of any attack", " ".join(alt), caption)


def least_missed(tradeoff: Curve, alarms: float) -> float:
    """Misses at a rate of false alarms, rounded to the safe side: no more than the true least.

    The true curve falls and is convex, so it lies above its next point to the right, and above
    the chords beside the gap in which `alarms` falls, drawn out into it.

    >>> least_missed(Curve((0.0, 0.5, 1.0), (1.0, 0.25, 0.0)), 0.5)
    0.25
    """
    points = sorted(zip(tradeoff.x, tradeoff.y, strict=True))
    after = next((place for place, (x, _) in enumerate(points) if x >= alarms), None)
    if after is None:
        return 0.0
    lowest = [points[after][1]]
    for first in (after - 2, after):
        if first >= 0 and first + 1 < len(points):
            (x, y), (next_x, next_y) = points[first], points[first + 1]
            if next_x > x:
                lowest.append(y + (next_y - y) * (alarms - x) / (next_x - x))
    return max(lowest)


def accuracy(accuracy: Accuracy, epsilon: float) -> Figure:
    """Accuracy of releases against epsilon; the released one at `epsilon` is marked."""
    before, again, after = accuracy.before, accuracy.again, accuracy.after
    finite = [each for each in accuracy.curve if 0 < each.epsilon < math.inf]
    points = sorted(finite, key=lambda each: each.epsilon)
    x, means = [each.epsilon for each in points], [each.accuracy for each in points]
    values = [before.value, accuracy.majority, again.low, again.high]
    values += [end for each in means for end in (each.low, each.high)]
    values += [] if after is None else [after.value]
    placed = 0 < epsilon < math.inf
    level = confidence(again.level)
    with framed(280) as (figure, panel):
        label = f"without privacy: {percent(before.value)}"
        panel.axhline(before.value, color=INK, lw=1.3, ls="--", label=label)
        if points:
            band = [each.low for each in means], [each.high for each in means]
            panel.fill_between(x, *band, color=PROVED, alpha=0.18, lw=0)
            look = {"color": PROVED, "label": "mean of releases, and its interval"}
            panel.plot(x, [each.value for each in means], "-o", ms=3.5, **look)
        label = f"always the most frequent class: {percent(accuracy.majority)}"
        panel.axhline(accuracy.majority, color=GREY, lw=1.3, ls=":", label=label)
        if placed:
            ends, label = [again.low, again.high], f"where {level} of releases fall"
            panel.plot([epsilon] * 2, ends, color=INK, lw=1.5, zorder=4, label=label)
            value = again.value if after is None else after.value
            name = "releases at epsilon" if after is None else "this release, at epsilon"
            label = f"{name} {upper(epsilon)}: {percent(value)}"
            panel.plot([epsilon], [value], "D", mec=INK, label=label, **HOLLOW)
        sides = x + [epsilon] * placed
        low, high = min(sides, default=0.1), max(sides, default=10.0)
        canvas.log_axis(panel.xaxis, low / 1.3, high * 1.3)
        room = 0.06 * max(max(values) - min(values), 0.02)
        panel.set_ylim(max(min(values) - room, -room), min(max(values) + room, 1 + room))
        canvas.in_percent(panel.yaxis)
        panel.set(xlabel="epsilon", ylabel=f"accuracy on {accuracy.test_rows:,} test rows")
    constant = f"always the most frequent class {percent(accuracy.majority)}"
    without = f"Without privacy {percent(before.value)}; {constant}."
    alt = [f"Accuracy on {accuracy.test_rows:,} test rows against epsilon. {without}"]
    if after is not None:
        alt.append(f"This release, at epsilon {upper(epsilon)}: {percent(after.value)}.")
    range_ = f"{level} of them between {percent(again.low)} and {percent(again.high)}"
    mean = f"{percent(again.value)} on average"
    alt.append(f"{accuracy.repeats:,} releases like it: {mean}, {range_}.")
    if points:
        both = (f"{percent(means[at].value)} at epsilon {upper(x[at])}" for at in (0, -1))
        alt.append(f"On average {', '.join(both)}.")
    caption = "No guarantee covers these accuracies."
    return inline(figure, "accuracy", "Accuracy against epsilon", " ".join(alt), caption)


def distances(own: OwnNoise) -> Figure:
    """Densities of the distance between final weights, and the proved bound on one of them."""
    hills = (
        (own.by_data, OBSERVED, "-", "another record", "another record, same seed"),
        (own.by_seed, ESTIMATED, "--", "another seed", "another seed, same records"),
    )
    proved = "no bound is proved" if own.bound is None else f"at most {upper(own.bound)} is proved"
    alt = [f"Densities of the distance between final weights over {own.runs:,} trainings."]
    shown = []
    with framed(250) as (figure, panel):
        for curve, colour, dashes, what, label in hills:
            if curve.x:
                panel.fill_between(curve.x, 0, curve.y, color=colour, alpha=0.16, lw=0)
                peak = about(curve.x[int(np.argmax(curve.y))])
                alt.append(f"With {what} they are most often about {peak} apart.")
            panel.plot(curve.x, curve.y, dashes, color=colour, label=label)
            top = max(curve.y, default=0.0)
            pairs = zip(curve.x, curve.y, strict=True)
            shown += [x for x, y in pairs if x > 0 and y > 1e-3 * top]
        if 0 < own.sensitivity < math.inf:  # it has a place on the axis
            label = f"seen: one record moved them {lower(own.sensitivity)}"
            panel.axvline(own.sensitivity, color=OBSERVED, lw=1.6, ls=":", label=label)
            shown.append(own.sensitivity)
        if own.bound is not None and 0 < own.bound < math.inf:
            label = f"proved: one record moves them at most {upper(own.bound)}"
            panel.axvline(own.bound, color=PROVED, lw=2, ls=(0, (5, 1, 1, 1)), label=label)
            shown.append(own.bound)
        low, high = min(shown, default=0.1), max(shown, default=1.0)
        canvas.log_axis(panel.xaxis, low / 1.3, high * 1.3)
        panel.set(xlabel="distance of final weights", ylabel="density", yticks=[])
        panel.set_ylim(bottom=0)
    alt.append(f"One record was seen to move them {lower(own.sensitivity)}; {proved}.")
    caption = "SGD's noise may hide a record where another seed moves the weights further."
    return inline(figure, "distances", "Distances of final weights", " ".join(alt), caption)
