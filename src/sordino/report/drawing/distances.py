"""How far final weights lie apart: another record against another seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sordino.report.canvas import log_axis
from sordino.report.drawing import palette
from sordino.report.drawing.frame import framed, key
from sordino.report.drawing.inline import Drawn, inline, styled
from sordino.report.stages import Curve, OwnNoise
from sordino.report.words_numbers import about, percent_of_confidence, upper


def distances(own: OwnNoise) -> Drawn:
    """Densities of the distance between final weights, and the proved bound on one of them."""
    with styled():
        figure, panel = framed(250)
        _density(panel, own.by_data, palette.OBSERVED, "-", "another record, same seed")
        _density(panel, own.by_seed, palette.ESTIMATED, "--", "another seed, same records")
        for bound in _bound(own):
            words = f"proved: one record moves them at most {upper(bound)}"
            panel.axvline(bound, color=palette.PROVED, lw=2, ls=(0, (5, 1, 1, 1)), label=words)
        _limits(panel, own)
        panel.set(xlabel="distance of final weights", ylabel="density", yticks=[])
        panel.set_ylim(bottom=0)
        key(figure, panel)
        return inline(
            figure,
            "distances",
            "Distances of final weights",
            _told(own),
            "SGD's own noise hides a record where another seed moves the weights further than "
            "another record does. This is measured, not a guarantee.",
        )


def _bound(own: OwnNoise) -> list[float]:
    """The proved bound, if it has a place on a logarithmic axis."""
    return [] if own.bound is None or not 0 < own.bound < math.inf else [own.bound]


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
    seen += _bound(own)
    low, high = min(seen, default=0.1), max(seen, default=1.0)
    log_axis(panel.xaxis, low / 1.3, high * 1.3)


def _told(own: OwnNoise) -> str:
    said = [
        f"Densities of the distance between final weights over {own.runs:,} trainings "
        f"({own.seeds:,} seeds, {own.neighbours:,} neighbouring datasets)."
    ]
    for curve, what in ((own.by_data, "another record"), (own.by_seed, "another seed")):
        if curve.x:
            peak = curve.x[int(np.argmax(curve.y))]
            said.append(f"With {what} they are most often about {about(peak)} apart.")
    said.append(
        f"The largest distance seen between neighbours is {about(own.sensitivity)}; "
        + (
            "no bound on it is proved."
            if own.bound is None
            else f"proved is at most {upper(own.bound)}."
        )
    )
    sigma = own.sigma
    said.append(
        f"The noise of the seeds has a standard deviation of about {about(sigma.value)} "
        f"({percent_of_confidence(sigma.level)} interval {about(sigma.low)} to "
        f"{about(sigma.high)})."
    )
    return " ".join(said)
