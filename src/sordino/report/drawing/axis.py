"""The picture: what is proved, estimated and observed of one release, on one axis of epsilon."""

from __future__ import annotations

import math
from typing import Any

from sordino._shown import printable
from sordino.privacy import Estimate
from sordino.report import palette
from sordino.report.assessment import Assessment
from sordino.report.blocks import Drawn
from sordino.report.drawing.inline import SMALL, WIDTH, styled
from sordino.report.drawing.row import Row, rows_of
from sordino.report.drawing.scale import around
from sordino.report.drawing.sheet import EDGE, LINE, Sheet, fitted, width
from sordino.report.stages import Bound
from sordino.report.words_numbers import upper

_TRUTH = "the truth lies here"
_THEOREMS = "What each theorem proves of the release"


def axis(assessment: Assessment) -> Drawn:
    """Every epsilon of an assessment on one logarithmic axis with places for 0 and infinity.

    One row for the release and one for SGD without added noise (or a single one for a foreign
    mechanism); below the axis, what each theorem that applies proves of the same release.
    """
    question = assessment.question
    rows, bounds = rows_of(assessment), _ranked(assessment)
    target = None if question.mechanism else question.epsilon
    values = [value for row in rows for value in row.values()]
    values += [bound.epsilon for bound in bounds if bound.epsilon is not None]
    with styled():
        sheet = Sheet(around([*values, target or 0.0]))
        _draw(sheet, rows, bounds, target)
        return sheet.drawn(
            "axis",
            "Epsilon: proved, estimated, observed",
            _told(rows, target),
            _caption(rows, bounds),
        )


def _ranked(assessment: Assessment) -> list[Bound]:
    """Theorems that say something, the tightest first; what is only quoted last."""
    parts = assessment.proved_parts
    bounds = [] if parts is None else [each for each in parts.bounds if each.epsilon is not None]
    return sorted(bounds, key=lambda each: (each.kind == "as printed", each.epsilon, not each.used))


def _draw(sheet: Sheet, rows: list[Row], bounds: list[Bound], target: float | None) -> None:
    sheet.next(LINE / 2 + 2)
    top = sheet.y
    if target is not None:
        _target(sheet, target)
    for row in rows:
        _row(sheet, row)
    sheet.next(2)
    if target is not None:
        sheet.upright(sheet.scale.place(target), top, sheet.y, palette.INK)
    sheet.ruler()
    sheet.next(LINE)
    if bounds:
        _theorems(sheet, bounds)
    sheet.grid(top + LINE / 2, sheet.y - LINE / 2)


def _target(sheet: Sheet, target: float) -> None:
    words = f"target {_number(target)}"
    half = width(words, SMALL, False) / 2 + EDGE
    x = min(max(sheet.scale.place(target), half), WIDTH - half)
    sheet.say(x, words, anchor="center", size=SMALL)
    sheet.next(LINE - 2)


def _row(sheet: Sheet, row: Row) -> None:
    scale = sheet.scale
    sheet.say(EDGE, fitted(row.title, 11, True), size=11, bold=True)
    sheet.next()
    top = sheet.y - LINE / 2
    sheet.label(
        sheet.at_most(scale.place(row.most), palette.PROVED), row.bound_words, lead=palette.PROVED
    )
    sheet.next()
    if row.estimate is not None:
        _estimate(sheet, row.estimate, row.estimate_words)
    elif row.estimable:
        sheet.say(EDGE, row.estimate_words, colour=palette.MUTED)
        sheet.next()
    if row.observed is not None:
        span = sheet.at_least(scale.place(row.least), palette.OBSERVED)
        sheet.label(span, row.observed_words, left_first=True, lead=palette.OBSERVED)
    else:
        sheet.say(EDGE, row.observed_words, colour=palette.MUTED)
    sheet.next()
    _truth(sheet, row, top)
    for words in row.warnings:
        sheet.say(EDGE, words, bold=True, colour=palette.WARN)
        sheet.next()
    sheet.next(4)


def _estimate(sheet: Sheet, estimate: Estimate, words: str) -> None:
    place = sheet.scale.place
    low = None if estimate.low is None else place(estimate.low)
    high = None if estimate.high is None else place(estimate.high)
    sheet.label(
        sheet.diamond(place(estimate.epsilon), low, high, palette.ESTIMATED),
        words,
        lead=palette.ESTIMATED,
    )
    sheet.next()


def _truth(sheet: Sheet, row: Row, top: float) -> None:
    """Shade where the truth lies, from `top` down to here."""
    left, right = (sheet.scale.place(each) for each in row.truth)
    words = _TRUTH
    look: dict[str, Any] = {"size": SMALL, "colour": palette.MUTED}
    if width(words, SMALL, False) + 6 <= right - left:
        sheet.say((left + right) / 2, words, anchor="center", size=SMALL, colour=palette.MUTED)
    elif right + width(f"← {words}", SMALL, False) + 10 < WIDTH:
        sheet.label((left, right), f"← {words}", **look)
    else:
        sheet.label((left, right), f"{words} →", left_first=True, **look)
    bottom = sheet.y + LINE / 2 - 1
    colour = palette.WARN if row.broken else palette.PROVED
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    sheet.shape(corners, colour, opacity=0.13, above=2)
    sheet.next()


def _theorems(sheet: Sheet, bounds: list[Bound]) -> None:
    """Each theorem's words above its bound on the same axis."""
    sheet.next(3)
    sheet.say(EDGE, _THEOREMS, bold=True)
    sheet.next()
    for bound in bounds:
        quoted = bound.kind == "as printed"
        assert bound.epsilon is not None
        words = f"≤ {_number(bound.epsilon)}: {bound.name}" + (" (quoted)" if quoted else "")
        x = sheet.scale.place(bound.epsilon)
        sheet.bar(x, words, bold=bound.used, hollow=quoted)
    sheet.next(2)


def _number(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else upper(epsilon)


def _told(rows: list[Row], target: float | None) -> str:
    """The numbers; what each theorem proves is a table of the page."""
    aim = "" if target is None else f", with a target of {upper(target)}"
    told = [f"An axis of epsilon from 0 to infinity{aim}.", *(row.told() for row in rows)]
    return printable(" ".join(told))


def _caption(rows: list[Row], bounds: list[Bound]) -> str:
    said = ["Arrows to the left are upper bounds, arrows to the right lower bounds."]
    if any(row.estimate is not None for row in rows):
        said.append("The hollow diamond is an estimate, not a guarantee.")
    if rows[0].bound == "claimed":
        said.append("A claim proves nothing.")
    if any(bound.kind == "as printed" for bound in bounds):
        said.append("A quoted formula is printed somewhere and not proved.")
    return " ".join(said)
