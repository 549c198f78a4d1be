"""How far final weights lie apart: another record against another seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sordino.report import canvas, palette
from sordino.report.blocks import Drawn
from sordino.report.drawing.inline import framed, inline, styled
from sordino.report.stages import Curve, OwnNoise
from sordino.report.words_numbers import about, lower, upper


def distances(own: OwnNoise) -> Drawn:
    """Densities of the distance between final weights, and the proved bound on one of them."""
    with styled():
        figure, panel = framed(250)
        _density(panel, own.by_data, palette.OBSERVED, "-", "another record, same seed")
        _density(panel, own.by_seed, palette.ESTIMATED, "--", "another seed, same records")
        for seen in _placed(own.sensitivity):
            words = f"seen: one record moved them {lower(seen)}"
            panel.axvline(seen, color=palette.OBSERVED, lw=1.6, ls=":", label=words)
        for bound in _placed(own.bound):
            words = f"proved: one record moves them at most {upper(bound)}"
            panel.axvline(bound, color=palette.PROVED, lw=2, ls=(0, (5, 1, 1, 1)), label=words)
        _limits(panel, own)
        panel.set(xlabel="distance of final weights", ylabel="density", yticks=[])
        panel.set_ylim(bottom=0)
        canvas.legend_above(figure, panel, columns=1)
        return inline(
            figure,
            "distances",
            "Distances of final weights",
            _told(own),
            "SGD's own noise hides a record where another seed moves the weights further than "
            "another record does. This is measured, not a guarantee.",
        )


def _placed(value: float | None) -> list[float]:
    """The value, if it has a place on a logarithmic axis."""
    return [] if value is None or not 0 < value < math.inf else [value]


def _density(panel: Any, curve: Curve, colour: str, dashes: str, name: str) -> None:
    if curve.x:
        panel.fill_between(curve.x, 0, curve.y, color=colour, alpha=0.16, lw=0)
    panel.plot(curve.x, curve.y, dashes, color=colour, label=name)


def _limits(panel: Any, own: OwnNoise) -> None:
    """From where something is to be seen to where nothing more is."""
    seen = [
        x
        for curve in (own.by_data, own.by_seed)
        for x, y in zip(curve.x, curve.y, strict=True)
        if x > 0 and y > 1e-3 * max(curve.y)
    ]
    seen += [*_placed(own.sensitivity), *_placed(own.bound)]
    low, high = min(seen, default=0.1), max(seen, default=1.0)
    canvas.log_axis(panel.xaxis, low / 1.3, high * 1.3)


def _told(own: OwnNoise) -> str:
    said = [f"Densities of the distance between final weights over {own.runs:,} trainings."]
    for curve, what in ((own.by_data, "another record"), (own.by_seed, "another seed")):
        if curve.x:
            peak = curve.x[int(np.argmax(curve.y))]
            said.append(f"With {what} they are most often about {about(peak)} apart.")
    proved = "no bound is proved" if own.bound is None else f"at most {upper(own.bound)} is proved"
    said.append(f"One record was seen to move them {lower(own.sensitivity)}; {proved}.")
    return " ".join(said)
