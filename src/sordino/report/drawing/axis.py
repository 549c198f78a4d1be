"""The axis of epsilon: what is proved, estimated and observed of one release; estimates alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sordino.errors import printable
from sordino.privacy import Estimate, Observation
from sordino.report import palette
from sordino.report.assessment import Assessment
from sordino.report.blocks import Drawn
from sordino.report.drawing.inline import SMALL, WIDTH, styled
from sordino.report.drawing.sheet import EDGE, LINE, Sheet, around, fitted, width
from sordino.report.stages import Bound
from sordino.report.words_numbers import about, lower, upper
from sordino.report.words_numbers import compared as apart

_TRUTH = "the truth lies here"
_THEOREMS = "What each theorem proves of the release"


Part = tuple[str, Sequence[tuple[str, Estimate]], Observation | None]
"""What is estimated, its estimates by name, and what was observed of it."""


@dataclass(frozen=True)
class AxisRow:
    """Numbers that refer to one thing.

    Parameters
    ----------
    title
        What they refer to.
    bound
        "proved", or "claimed", which promises nothing about where the truth lies.
    most
        That bound; infinite if there is none.
    estimate, observed
        None where there is none.
    estimable
        Whether an estimate was asked for: if not, nothing is said of one.
    broken
        Whether an attack refuted the bound.
    """

    title: str
    bound: str
    most: float
    estimate: Estimate | None
    observed: Observation | None
    estimable: bool = True
    broken: bool = False

    @property
    def least(self) -> float:
        """The lower bound."""
        return 0.0 if self.observed is None else self.observed.epsilon

    @property
    def refuted(self) -> bool:
        """Whether more was observed than estimated."""
        return self.estimate is not None and self.least > self.estimate.epsilon

    @property
    def truth(self) -> tuple[float, float]:
        """Between what the truth lies."""
        known = self.bound == "proved" and not self.broken
        return self.least, self.most if known else math.inf

    def values(self) -> Iterator[float]:
        """Everything that needs room on the axis."""
        yield self.most
        yield self.least
        if self.estimate is not None:
            yield from (self.estimate.epsilon, self.estimate.low or 0, self.estimate.high or 0)

    @property
    def bound_words(self) -> str:
        """The upper bound in words."""
        if math.isinf(self.most):
            return f"{self.bound}: nothing (∞)"
        number = apart(self.least, self.most)[1] if self._above else upper(self.most)
        return f"{self.bound}: at most {number}"

    @property
    def estimate_words(self) -> str:
        """The estimate in words."""
        if self.estimate is None:
            return "not estimated"
        return f"estimated: about {_roughly(self.estimate)}"

    @property
    def observed_words(self) -> str:
        """The lower bound in words."""
        if self.observed is None:
            return "not attacked"
        if self._above and math.isfinite(self.least):
            return f"observed: at least {apart(self.least, self.most)[0]}"
        return _seen(self.least)

    @property
    def warnings(self) -> list[str]:
        """What must not be overlooked."""
        found = []
        if self.broken:
            why = "more was observed than" if self._above else "the attack refutes what"
            found.append(f"BROKEN: {why} is {self.bound}")
        if self.refuted:
            found.append("Estimate refuted: more was observed")
        return found

    def told(self) -> str:
        """The row for people who cannot see it."""
        said = [self.bound_words, *[self.estimate_words] * self.estimable, self.observed_words]
        low, high = self.truth
        between = f"the truth lies above {lower(low)}"
        if math.isfinite(high):
            between = f"the truth lies between {lower(low)} and {upper(high)}"
        return ". ".join([f"{self.title}: {'; '.join([*said, between])}", *self.warnings]) + "."

    @property
    def _above(self) -> bool:
        return self.least > self.most


def rows_of(assessment: Assessment) -> list[AxisRow]:
    """What stands above the axis."""
    attack, observed, estimate = assessment.attack, assessment.observed, assessment.estimated
    if assessment.question.mechanism:
        claimed = math.inf if attack is None or attack.claimed is None else attack.claimed
        broken = assessment.broken or (observed is not None and observed.epsilon > claimed)
        name = f"The mechanism {assessment.question.mechanism}"
        return [AxisRow(name, "claimed", claimed, None, observed, estimable=False, broken=broken)]
    most = math.inf if assessment.proved is None else assessment.proved.epsilon
    broken = assessment.broken or (observed is not None and observed.epsilon > most)
    rows = [AxisRow("The release", "proved", most, estimate, observed, broken=broken)]
    if assessment.own_noise is not None or assessment.plain_attack is not None:
        estimate, observed = assessment.plain_estimated, assessment.plain_observed
        rows.append(AxisRow("Un-noised SGD", "proved", math.inf, estimate, observed))
    return rows


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


def _draw(sheet: Sheet, rows: list[AxisRow], bounds: list[Bound], target: float | None) -> None:
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


def _row(sheet: Sheet, row: AxisRow) -> None:
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
    _observed(sheet, row.observed, row.observed_words)
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


def _observed(sheet: Sheet, observed: Observation | None, words: str) -> None:
    if observed is None:
        sheet.say(EDGE, words, colour=palette.MUTED)
    else:
        span = sheet.at_least(sheet.scale.place(observed.epsilon), palette.OBSERVED)
        sheet.label(span, words, left_first=True, lead=palette.OBSERVED)
    sheet.next()


def _truth(sheet: Sheet, row: AxisRow, top: float) -> None:
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


def _told(rows: list[AxisRow], target: float | None) -> str:
    """The numbers; what each theorem proves is a table of the page."""
    aim = "" if target is None else f", with a target of {upper(target)}"
    told = [f"An axis of epsilon from 0 to infinity{aim}.", *(row.told() for row in rows)]
    return printable(" ".join(told))


def _caption(rows: list[AxisRow], bounds: list[Bound]) -> str:
    said = ["Arrows to the left are upper bounds, arrows to the right lower bounds."]
    if any(row.estimate is not None for row in rows):
        said.append("The hollow diamond is an estimate, not a guarantee.")
    if rows[0].bound == "claimed":
        said.append("A claim proves nothing.")
    if any(bound.kind == "as printed" for bound in bounds):
        said.append("A quoted formula is printed somewhere and not proved.")
    return " ".join(said)


def estimates(assessment: Assessment) -> Drawn | None:
    """Two ways to estimate beside what was observed: the papers' way may look too good.

    Of the release and of SGD alone; None where no two estimates are there to compare.
    """
    own = None if assessment.own_noise is None else assessment.own_noise.estimated
    found = (
        ("The release", assessment.release_estimated, assessment.observed),
        ("Un-noised SGD", own, assessment.plain_observed),
    )
    ways = (("isotropic", "one sigma"), ("directional", "by direction"))
    parts = []
    for title, estimated, observed in found:
        named = [(words, getattr(estimated, way, None)) for way, words in ways]
        if kept := [(words, each) for words, each in named if each is not None]:
            parts.append((title, kept, observed))
    if not any(len(named) == len(ways) for _, named, _ in parts):
        return None
    said = [f"{title}: {'; '.join(_said(named, seen))}." for title, named, seen in parts]
    return compared(parts).drawn(
        "estimates",
        "Two ways to estimate",
        f"Estimates of epsilon, none of them a guarantee. {' '.join(said)}",
        "One sigma for all directions is the papers' way; by direction looks where the two "
        "datasets differ most. Neither is a guarantee, and what was observed refutes an "
        "estimate below it.",
    )


def compared(parts: Sequence[Part], heading: Sequence[str] = ()) -> Sheet:
    """Estimates by what they are of, on one axis; `heading` stands above."""
    values = [each.epsilon for _, _, each in parts if each is not None]
    for _, named, _ in parts:
        values += [end or 0.0 for _, each in named for end in (each.epsilon, each.low, each.high)]
    with styled():
        sheet = Sheet(around(values))
        sheet.next(LINE / 2 + 2)
        for line in heading:
            sheet.say(EDGE, fitted(line, SMALL, False), size=SMALL)
            sheet.next()
        top = sheet.y
        for title, named, observed in parts:
            sheet.say(EDGE, title, size=11, bold=True)
            sheet.next()
            words = _said(named, observed)
            for (_, each), said in zip(named, words, strict=False):
                _estimate(sheet, each, said)
            if observed is not None:
                _observed(sheet, observed, words[-1])
            sheet.next(4)
        sheet.ruler()
        sheet.next(LINE)
        sheet.grid(top + LINE / 2, sheet.y - 2.4 * LINE)
        return sheet


def _said(named: Sequence[tuple[str, Estimate]], observed: Observation | None) -> list[str]:
    seen = [] if observed is None else [_seen(observed.epsilon)]
    return [*(f"{words}: {_roughly(each)}" for words, each in named), *seen]


def _seen(epsilon: float) -> str:
    ends = {0.0: "nothing (0)", math.inf: "everything (∞)"}
    return f"observed: {ends.get(epsilon) or f'at least {lower(epsilon)}'}"


def _roughly(estimate: Estimate) -> str:
    """A measured number with its interval; infinity as its sign."""
    value, low, high = (
        "" if each is None else "∞" if math.isinf(each) else about(each)
        for each in (estimate.epsilon, estimate.low, estimate.high)
    )
    return f"{value} ({low} to {high})" if low and high else value
