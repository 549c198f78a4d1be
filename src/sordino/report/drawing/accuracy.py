"""What privacy costs: accuracy against epsilon."""

from __future__ import annotations

import math
from typing import Any

from sordino.report import canvas, palette
from sordino.report.blocks import Drawn
from sordino.report.drawing.inline import HOLLOW, framed, inline, styled
from sordino.report.stages import Accuracy, AccuracyPoint
from sordino.report.words_numbers import percent, percent_of_confidence, upper


def accuracy(accuracy: Accuracy, epsilon: float) -> Drawn:
    """Accuracy of releases against epsilon; the released one at `epsilon` is marked."""
    points = sorted(
        (each for each in accuracy.curve if 0 < each.epsilon < math.inf),
        key=lambda each: each.epsilon,
    )
    with styled():
        figure, panel = framed(280)
        _lines(panel, accuracy, points)
        _chosen(panel, accuracy, epsilon)
        _limits(panel, accuracy, points, epsilon)
        panel.set(xlabel="epsilon", ylabel=f"accuracy on {accuracy.test_rows:,} test rows")
        canvas.legend_above(figure, panel, columns=1)
        return inline(
            figure,
            "accuracy",
            "Accuracy against epsilon",
            _told(accuracy, points, epsilon),
            "Accuracies are computed from the records: no guarantee covers them.",
        )


def _lines(panel: Any, accuracy: Accuracy, points: list[AccuracyPoint]) -> None:
    without = f"without privacy: {percent(accuracy.before.value)}"
    panel.axhline(accuracy.before.value, color=palette.INK, lw=1.3, ls="--", label=without)
    if points:
        x = [each.epsilon for each in points]
        low, high = ([getattr(each.accuracy, end) for each in points] for end in ("low", "high"))
        panel.fill_between(x, low, high, color=palette.PROVED, alpha=0.18, lw=0)
        means, label = (
            [each.accuracy.value for each in points],
            "mean of releases, and its interval",
        )
        panel.plot(x, means, "-o", ms=3.5, color=palette.PROVED, label=label)
    majority = f"always the most frequent class: {percent(accuracy.majority)}"
    panel.axhline(accuracy.majority, color=palette.MUTED, lw=1.3, ls=":", label=majority)


def _chosen(panel: Any, accuracy: Accuracy, epsilon: float) -> None:
    """The release, and where 95 % of releases like it fall."""
    again, after = accuracy.again, accuracy.after
    value = again.value if after is None else after.value
    name = "releases at epsilon" if after is None else "this release, at epsilon"
    if not 0 < epsilon < math.inf:
        return
    fall = f"where {percent_of_confidence(again.level)} of releases fall"
    ends = [again.low, again.high]
    panel.plot([epsilon] * 2, ends, color=palette.INK, lw=1.5, zorder=4, label=fall)
    label = f"{name} {upper(epsilon)}: {percent(value)}"
    panel.plot([epsilon], [value], "D", mec=palette.INK, label=label, **HOLLOW)


def _limits(panel: Any, accuracy: Accuracy, points: list[AccuracyPoint], epsilon: float) -> None:
    epsilons = [each.epsilon for each in points] + [epsilon] * (0 < epsilon < math.inf)
    low, high = min(epsilons, default=0.1), max(epsilons, default=10.0)
    canvas.log_axis(panel.xaxis, low / 1.3, high * 1.3)
    values = [accuracy.before.value, accuracy.majority, accuracy.again.low, accuracy.again.high]
    values += [end for each in points for end in (each.accuracy.low, each.accuracy.high)]
    values += [] if accuracy.after is None else [accuracy.after.value]
    room = 0.06 * max(max(values) - min(values), 0.02)
    panel.set_ylim(max(min(values) - room, -room), min(max(values) + room, 1 + room))
    canvas.in_percent(panel.yaxis)


def _told(accuracy: Accuracy, points: list[AccuracyPoint], epsilon: float) -> str:
    before, again, after = accuracy.before, accuracy.again, accuracy.after
    said = [
        f"Accuracy on {accuracy.test_rows:,} test rows against epsilon. Without privacy "
        f"{percent(before.value)}; always saying the most frequent class "
        f"{percent(accuracy.majority)}."
    ]
    if after is not None:
        said.append(f"This release, at epsilon {upper(epsilon)}: {percent(after.value)}.")
    said.append(
        f"{accuracy.repeats:,} releases like it: {percent(again.value)} on average, "
        f"{percent_of_confidence(again.level)} of them between {percent(again.low)} and "
        f"{percent(again.high)}."
    )
    if points:
        first, last = points[0], points[-1]
        said.append(
            f"On average {percent(first.accuracy.value)} at epsilon {upper(first.epsilon)}, "
            f"{percent(last.accuracy.value)} at epsilon {upper(last.epsilon)}."
        )
    return " ".join(said)
