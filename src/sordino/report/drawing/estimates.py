"""Two ways to estimate beside what was observed: the papers' way may look too good."""

from __future__ import annotations

from sordino.privacy import Estimate, Observation
from sordino.report import palette
from sordino.report.assessment import Assessment
from sordino.report.blocks import Drawn
from sordino.report.drawing.inline import styled
from sordino.report.drawing.row import roughly
from sordino.report.drawing.scale import around
from sordino.report.drawing.sheet import EDGE, LINE, Sheet
from sordino.report.stages import Estimated
from sordino.report.words_numbers import lower

_WAYS = (("isotropic", "one sigma"), ("directional", "by direction"))
"""Fields of `Estimated`, and what each is called in the picture."""

Part = tuple[str, Estimated, Observation | None]


def estimates(assessment: Assessment) -> Drawn | None:
    """Isotropic and directional estimates of the release and of SGD alone, and what was observed.

    None where no two estimates are there to compare.
    """
    parts = _parts(assessment)
    if not any(part.isotropic and part.directional for _, part, _ in parts):
        return None
    values = [each for part in parts for each in _values(part)]
    with styled():
        sheet = Sheet(around(values))
        sheet.next(LINE / 2 + 2)
        top = sheet.y
        for part in parts:
            _draw(sheet, part)
        sheet.ruler()
        sheet.next(LINE)
        sheet.grid(top + LINE / 2, sheet.y - 2.4 * LINE)
        return sheet.drawn(
            "estimates",
            "Two ways to estimate",
            _told(parts),
            "One sigma for all directions is the papers' way; by direction looks where the two "
            "datasets differ most. Neither is a guarantee, and what was observed refutes an "
            "estimate below it.",
        )


def _parts(assessment: Assessment) -> list[Part]:
    found: list[Part] = []
    if assessment.release_estimated is not None:
        found.append(("The release", assessment.release_estimated, assessment.observed))
    if assessment.own_noise is not None:
        attack = assessment.plain_attack
        seen = None if attack is None else attack.observed
        found.append(("Un-noised SGD", assessment.own_noise.estimated, seen))
    return [part for part in found if part[1].isotropic or part[1].directional]


def _named(part: Estimated) -> list[tuple[str, Estimate]]:
    named = [(words, getattr(part, way)) for way, words in _WAYS]
    return [(words, estimate) for words, estimate in named if estimate is not None]


def _values(part: Part) -> list[float]:
    _, estimated, observed = part
    values = [] if observed is None else [observed.epsilon]
    for _, each in _named(estimated):
        values += [each.epsilon, each.low or 0.0, each.high or 0.0]
    return values


def _words(words: str, each: Estimate) -> str:
    interval = (
        ""
        if each.low is None or each.high is None
        else (f" ({roughly(each.low)} to {roughly(each.high)})")
    )
    return f"{words}: {roughly(each.epsilon)}{interval}"


def _draw(sheet: Sheet, part: Part) -> None:
    title, estimated, observed = part
    place = sheet.scale.place
    sheet.say(EDGE, title, size=11, bold=True)
    sheet.next()
    for words, each in _named(estimated):
        ends = [None if end is None else place(end) for end in (each.low, each.high)]
        span = sheet.diamond(place(each.epsilon), ends[0], ends[1], palette.ESTIMATED)
        sheet.label(span, _words(words, each), lead=palette.ESTIMATED)
        sheet.next()
    if observed is not None:
        span = sheet.at_least(place(observed.epsilon), palette.OBSERVED)
        sheet.label(span, _seen(observed), left_first=True, lead=palette.OBSERVED)
        sheet.next()
    sheet.next(4)


def _seen(observed: Observation) -> str:
    return (
        f"observed: at least {lower(observed.epsilon)}"
        if observed.epsilon
        else ("observed: nothing (0)")
    )


def _told(parts: list[Part]) -> str:
    said = []
    for title, estimated, observed in parts:
        each = [_words(words, estimate) for words, estimate in _named(estimated)]
        each += [] if observed is None else [_seen(observed)]
        said.append(f"{title}: {'; '.join(each)}.")
    return f"Estimates of epsilon, none of them a guarantee. {' '.join(said)}"
