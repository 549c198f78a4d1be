"""The axis of epsilon: what is proved, estimated and observed of one release; estimates alone.

It is drawn on a sheet from top to bottom, each thing on a line of its own. Marks that mean
different things never share a line, and words stand beside their mark, or all of a kind above or
below it: so nothing covers anything, however close numbers lie.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sordino.errors import printable
from sordino.privacy import Estimate, Observation
from sordino.report import canvas
from sordino.report.canvas import ESTIMATED, GREY, INK, OBSERVED, PANEL, PROVED, WARN
from sordino.report.drawing.svg import HALO, SMALL, TEXT, WIDTH, inline, styled
from sordino.report.numbers import about, compared, lower, upper
from sordino.report.page import Figure
from sordino.report.result import Assessment, Triple

ZERO, INFINITY = 13.0, WIDTH - 13.0
FIRST, LAST = 45.0, WIDTH - 45.0
"""Points from the left: the two ends, and between them the logarithmic part."""

_LEAST, _MOST = 1e-4, 1e5
"""Nobody needs to tell epsilons beyond apart: they stand in the gaps before 0 and infinity."""
_ROOM = 1.25
_FEWEST_DECADES = 1.5
_LINE = 17.0
"""Points from one line to the next."""
_EDGE = 4.0
_GAP = 6.0
_ARROW = 15.0
_BAR, _TO_BAR, _FROM_BAR = 6.0, 9.5, 11.5
"""Height of a bar; down from its words, and on to the next ones, which lie further off."""
_MOST_LETTERS = 200
_WIDE = 0x1100
"""Scripts whose letters are as wide as high begin here; the measuring font has few of them."""
_MEASURED_AT = 100

_Part = tuple[str, Sequence[tuple[str, Estimate]], Observation | None]
"""What is estimated, its estimates by name, and what was observed of it."""


@dataclass(frozen=True)
class _Scale:
    """From `low` to `high` logarithmically."""

    low: float
    high: float

    def place(self, epsilon: float) -> float:
        """Points from the left."""
        if epsilon <= 0 or math.isinf(epsilon):
            return ZERO if epsilon <= 0 else INFINITY
        if epsilon < self.low:
            return (ZERO + FIRST) / 2
        if epsilon > self.high:
            return (LAST + INFINITY) / 2
        share = math.log(epsilon / self.low) / math.log(self.high / self.low)
        return FIRST + share * (LAST - FIRST)

    def ticks(self) -> list[tuple[float, str]]:
        """Places and numbers, few enough to be read: a letter takes about six points."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for every, steps in ((1, (1, 2, 5)), (1, (1,)), (2, (1,)), (3, (1,))):
            tens = [10.0**power for power in powers if power % every == 0]
            values = [step * ten for ten in tens for step in steps]
            found = [
                (self.place(min(max(each, self.low), self.high)), canvas.plain(each))
                for each in values
                if self.low * 0.999 <= each <= self.high * 1.001
            ]
            if all(
                further - x > 3 * (len(one) + len(other)) + 3
                for (x, one), (further, other) in itertools.pairwise(found)
            ):
                break
        return found


def around(values: Iterable[float]) -> _Scale:
    """A scale on which all `values` have room; those that are 0 or infinite need none.

    It begins and ends at one of 1, 2, 5, 10, 20, ...
    """
    finite = [min(max(each, _LEAST), _MOST) for each in values if 0 < each < math.inf] or [1.0]
    low, high = min(finite) / _ROOM, max(finite) * _ROOM
    missing = max(_FEWEST_DECADES - math.log10(high / low), 0.0)
    low, high = low * 10 ** (-missing / 2), high * 10 ** (missing / 2)
    below, above = (
        [step * 10.0 ** math.floor(math.log10(end)) for step in (1.0, 2.0, 5.0, 10.0)]
        for end in (low, high)
    )
    return _Scale(max(s for s in below if s <= low), min(s for s in above if s >= high))


class _Sheet:
    """Lengths in points from the left and from the top; `y` is the middle of the next line."""

    def __init__(self, values: Iterable[float]) -> None:
        from matplotlib.figure import Figure

        self.scale = around(values)
        self.y = _LINE / 2 + 2
        self._words: list[tuple[float, float, float, float]] = []  # left, right, top, bottom
        self._figure = Figure()
        self._axes: Any = self._figure.add_axes((0, 0, 1, 1))
        self._axes.axis("off")

    def figure(self) -> Any:
        """The sheet, cut below what stands on it."""
        height = self.y - _LINE / 2 + _EDGE
        self._figure.set_size_inches(WIDTH / 72, height / 72)
        self._axes.set(xlim=(0, WIDTH), ylim=(height, 0))
        return self._figure

    def say(
        self,
        x: float,
        words: str,
        *,
        anchor: str = "left",
        size: float = TEXT,
        bold: bool = False,
        colour: str = INK,
        lead: str = "",
    ) -> None:
        """Write on the present line; `lead` is the colour of what stands before the colon."""
        wide = _width(words, size, bold, lead)
        left = x - {"left": 0.0, "center": 0.5, "right": 1.0}[anchor] * wide
        self._words.append((left, left + wide, self.y - 0.4 * size, self.y + 0.55 * size))
        look: dict[str, Any] = {"ha": anchor, "va": "baseline", "fontsize": size, "color": colour}
        look |= {"weight": "bold" if bold else "normal", "gid": f"{HALO} {lead}", "zorder": 6}
        self._axes.text(x, self.y + 0.35 * size, words, **look)

    def title(self, words: str, size: float = 11, *, bold: bool = True, colour: str = INK) -> None:
        """A line of its own, from the left edge, cut where the sheet is too narrow."""
        self.say(_EDGE, _fitted(words, size, bold), size=size, bold=bold, colour=colour)
        self.y += _LINE

    def line(
        self,
        x: Sequence[float],
        y: Sequence[float],
        colour: str,
        width: float = 1.0,
        *,
        dashes: Sequence[float] = (),
        above: int = 3,
    ) -> None:
        """Join points; `above` 3 is before shades and grids."""
        style: Any = (0, tuple(dashes)) if dashes else "-"
        look = {"color": colour, "lw": width, "ls": style, "zorder": above, "clip_on": False}
        self._axes.plot(x, y, solid_capstyle="butt", **look)

    def shape(
        self,
        corners: Sequence[tuple[float, float]],
        fill: str,
        edge: str = "none",
        *,
        opacity: float = 1.0,
        above: int = 4,
    ) -> None:
        """Fill what lies between corners."""
        from matplotlib.patches import Polygon

        look = {"fc": fill, "ec": edge, "lw": 1.6, "zorder": above, "clip_on": False}
        self._axes.add_patch(Polygon(corners, closed=True, alpha=opacity, **look))

    def box(
        self, left: float, right: float, top: float, bottom: float, fill: str, opacity: float
    ) -> None:
        """Shade a rectangle below everything else."""
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        self.shape(corners, fill, opacity=opacity, above=2)

    def label(
        self, span: tuple[float, float], words: str, *, left_first: bool = False, **look: Any
    ) -> None:
        """Write beside a mark that covers `span`, or where that has no room, a line below it."""
        size, lead = look.pop("size", TEXT), look.get("lead", "")
        words = _fitted(words, size, False)
        for each in (size, SMALL):
            wide = _width(words, each, False, lead)
            right = span[1] + _GAP + wide <= WIDTH - _EDGE
            if span[0] - _GAP - wide >= _EDGE and (left_first or not right):
                self.say(span[0] - _GAP, words, anchor="right", size=each, **look)
                return
            if right:
                self.say(span[1] + _GAP, words, size=each, **look)
                return
        self.y += 0.75 * _LINE  # nearer to its own mark than to the next
        half = _width(words, size, False, lead) / 2 + _EDGE
        x = min(max(sum(span) / 2, half), WIDTH - half)
        self.say(x, words, anchor="center", size=size, **look)

    def bound(self, x: float, way: int, colour: str) -> tuple[float, float]:
        """A wall with an arrow from it: way -1 is "at most", 1 "at least"; returns its span."""
        self.line([x, x], [self.y - 6.5, self.y + 6.5], colour, 3.0, above=4)
        self.line([x, x + way * (_ARROW - 4)], [self.y, self.y], colour, 2.0, above=4)
        tip, back = x + way * _ARROW, x + way * (_ARROW - 6.5)
        self.shape([(tip, self.y), (back, self.y - 4), (back, self.y + 4)], colour)
        return (tip, x + 2) if way < 0 else (x - 2, tip)

    def estimate(self, estimate: Estimate, words: str) -> None:
        """A hollow diamond with dashed whiskers, which mean no guarantee, and words beside it."""
        x, y, half = self.scale.place(estimate.epsilon), self.y, 5.0
        ends = (estimate.low, estimate.high)
        low, high = (x if end is None else self.scale.place(end) for end in ends)
        # Whiskers within the diamond would only blur it.
        if max(high - x, x - low) > half + 1 and None not in ends:
            self.line([low, high], [y, y], ESTIMATED, 1.5, dashes=(2.2, 1.4))
            for end in (low, high):
                self.line([end, end], [y - 3.5, y + 3.5], ESTIMATED, 1.5)
        corners = [(x - half, y), (x, y - half), (x + half, y), (x, y + half)]
        self.shape(corners, PANEL, ESTIMATED, above=5)
        self.label((min(low, x - half), max(high, x + half)), words, lead=ESTIMATED)
        self.y += _LINE

    def observed(self, observed: Observation, words: str) -> None:
        """An arrow to the right, and words beside it."""
        span = self.bound(self.scale.place(observed.epsilon), 1, OBSERVED)
        self.label(span, words, left_first=True, lead=OBSERVED)
        self.y += _LINE

    def bar(self, epsilon: float, words: str, *, bold: bool, hollow: bool) -> None:
        """Words, and right below them a bar from 0: all that an upper bound leaves possible.

        Goes down to where the words of the next bar stand.
        """
        x, words = self.scale.place(epsilon), _fitted(words, SMALL, bold)
        left = min(ZERO, WIDTH - _EDGE - _width(words, SMALL, bold, INK))
        self.say(left, words, size=SMALL, bold=bold, lead=INK)
        self.y += _TO_BAR
        top, bottom = self.y - _BAR / 2, self.y + _BAR / 2
        colour = GREY if hollow else PROVED
        if hollow:
            for y in (top, bottom):
                self.line([ZERO, x], [y, y], colour, 0.8, dashes=(2.2, 1.4))
        else:
            self.box(ZERO, x, top, bottom, colour, 0.45 if bold else 0.2)
        self.line([x, x], [top - 1, bottom + 1], colour, 3.0, above=4)
        self.y += _FROM_BAR

    def upright(self, x: float, top: float, bottom: float) -> None:
        """A dotted line down through everything, but not through words: it stops before them."""
        near = [each for each in self._words if each[0] - 2 < x < each[1] + 2]
        for _, _, above, below in sorted([*near, (0, 0, bottom, bottom)], key=lambda each: each[2]):
            if above - top > 2:
                self.line([x, x], [top, min(above, bottom)], INK, dashes=(1.2, 1.6), above=2)
            top = max(top, below)

    def ruler(self) -> None:
        """The axis itself: numbers, broken ends for 0 and infinity, and which way is better."""
        y = self.y
        self.line([ZERO, INFINITY], [y, y], INK, 1.2, above=4)
        for gap in ((ZERO + FIRST) / 2, (LAST + INFINITY) / 2):
            corners = [(gap - 4, y - 4), (gap + 6, y - 4), (gap + 3, y + 4), (gap - 7, y + 4)]
            self.shape(corners, PANEL, above=5)
            for side in (-3.5, 3.5):
                self.line([gap + side - 2, gap + side + 2], [y + 4, y - 4], INK, above=6)
        ticks = [(ZERO, "0"), (INFINITY, "∞"), *self.scale.ticks()]
        for x, _ in ticks:
            self.line([x, x], [y, y + 4], INK, 1.2, above=4)
        self.y += 11
        for x, number in ticks:
            self.say(x, number, anchor="center", size=1.35 * SMALL if number == "∞" else SMALL)
        self.y += 14
        self.say(_EDGE, "← more private", size=SMALL, colour=GREY)
        self.say((ZERO + INFINITY) / 2, "epsilon", anchor="center", size=SMALL, bold=True)
        self.say(WIDTH - _EDGE, "less private →", anchor="right", size=SMALL, colour=GREY)
        self.y += _LINE

    def grid(self, top: float, bottom: float) -> None:
        """Faint lines from the axis' numbers through everything."""
        for x, _ in [(ZERO, ""), (INFINITY, ""), *self.scale.ticks()]:
            self.line([x, x], [top, bottom], canvas.GRID, 0.6, above=1)


def width(words: str, size: float, bold: bool) -> float:
    """Points that `words` take, in a font wider than most."""
    return size * sum(_advance(letter, bold) for letter in words)


def _width(words: str, size: float, bold: bool, lead: str) -> float:
    """The same where the words before a colon are bold."""
    if not lead:
        return width(words, size, bold)
    first, colon, rest = words.partition(":")
    return width(f"{first}{colon}.", size, True) + width(rest.strip(), size, bold)


@cache
def _advance(letter: str, bold: bool) -> float:
    """Width of a letter, of a font of size 1."""
    if ord(letter) >= _WIDE:
        return 1.0
    return float(_font(bold).load_char(ord(letter)).linearHoriAdvance / 2**16 / _MEASURED_AT)


@cache
def _font(bold: bool) -> Any:
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    named = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    font = FT2Font(findfont(named))
    font.set_size(_MEASURED_AT, 72)
    return font


def _fitted(words: str, size: float, bold: bool) -> str:
    """`words` on one line, cut with an ellipsis where the sheet is too narrow for them."""
    words = printable(words)[:_MOST_LETTERS]
    if width(words, size, bold) <= WIDTH - 2 * _EDGE:
        return words
    while words and width(words + "…", size, bold) > WIDTH - 2 * _EDGE:
        words = words[:-1]
    return words.rstrip() + "…"


# --- The pictures


def axis(assessment: Assessment) -> Figure:
    """Every epsilon of an assessment on one logarithmic axis with places for 0 and infinity.

    One row for the release and one for SGD without added noise (or a single one for a mechanism);
    below the axis, what each theorem that applies proves of the same release, the tightest first,
    and what is only quoted last.
    """
    rows, parts = assessment.triples, assessment.proved_parts
    target = None if assessment.question.mechanism else assessment.question.epsilon
    bounds = [
        (each.kind == "as printed", each.epsilon, not each.used, each)
        for each in (() if parts is None else parts.bounds)
        if each.epsilon is not None
    ]
    bounds.sort(key=lambda each: each[:3])
    values = [target or 0.0, *(each[1] for each in bounds)]
    for row in rows:
        values += [row.most, row.least, *_ends(row.estimate)]
    with styled():
        sheet = _Sheet(values)
        top = sheet.y
        if target is not None:
            words = f"target {_number(target)}"
            half = width(words, SMALL, False) / 2 + _EDGE
            x = min(max(sheet.scale.place(target), half), WIDTH - half)
            sheet.say(x, words, anchor="center", size=SMALL)
            sheet.y += _LINE - 2
        for row in rows:
            _row(sheet, row)
        sheet.y += 2
        if target is not None:
            sheet.upright(sheet.scale.place(target), top, sheet.y)
        sheet.ruler()
        if bounds:
            sheet.y += 3
            sheet.title("What each theorem proves of the release", TEXT)
            for quoted, epsilon, _, bound in bounds:
                words = f"≤ {_number(epsilon)}: {bound.name}" + " (quoted)" * quoted
                sheet.bar(epsilon, words, bold=bound.used, hollow=quoted)
            sheet.y += 2
        sheet.grid(top + _LINE / 2, sheet.y - _LINE / 2)
        aim = "" if target is None else f", with a target of {upper(target)}"
        alt = [f"An axis of epsilon from 0 to infinity{aim}.", *map(_alt, rows)]
        caption = ["Arrows to the left are upper bounds, to the right lower bounds."]
        if any(row.estimate is not None for row in rows):
            caption.append("The hollow diamond is an estimate, not a guarantee.")
        if rows[0].bound == "claimed":
            caption.append("A claim proves nothing.")
        if any(quoted for quoted, *_ in bounds):
            caption.append("A quoted formula is not proved.")
        title = "Epsilon: proved, estimated, observed"
        return inline(sheet.figure(), "axis", title, printable(" ".join(alt)), " ".join(caption))


def _row(sheet: _Sheet, row: Triple) -> None:
    most, estimated, observed, *warnings = _words(row)
    sheet.title(row.title)
    top = sheet.y - _LINE / 2
    sheet.label(sheet.bound(sheet.scale.place(row.most), -1, PROVED), most, lead=PROVED)
    sheet.y += _LINE
    if row.estimate is not None:
        sheet.estimate(row.estimate, estimated)
    elif estimated:
        sheet.title(estimated, TEXT, bold=False, colour=GREY)
    if row.observed is not None:
        sheet.observed(row.observed, observed)
    else:
        sheet.title(observed, TEXT, bold=False, colour=GREY)
    left, right = (sheet.scale.place(each) for each in _truth(row))
    look: dict[str, Any] = {"size": SMALL, "colour": GREY}
    words = "the truth lies here"
    if width(words, SMALL, False) + 6 <= right - left:
        sheet.say((left + right) / 2, words, anchor="center", **look)
    elif right + width(f"← {words}", SMALL, False) + 10 < WIDTH:
        sheet.label((left, right), f"← {words}", **look)
    else:
        sheet.label((left, right), f"{words} →", left_first=True, **look)
    bottom = sheet.y + _LINE / 2 - 1
    sheet.box(left, right, top, bottom, WARN if row.broken else PROVED, 0.13)
    sheet.y += _LINE
    for words in warnings:
        sheet.title(words, TEXT, colour=WARN)
    sheet.y += 4


def _truth(row: Triple) -> tuple[float, float]:
    """Between what the truth lies: a claim, or a broken proof, limits nothing."""
    return row.least, row.most if row.bound == "proved" and not row.broken else math.inf


def _words(row: Triple) -> list[str]:
    """The three numbers in words, the second "" for a mechanism, then what must be seen."""
    above = row.least > row.most
    seen, most = compared(row.least, row.most) if above else ("", upper(row.most))
    said = [
        f"{row.bound}: " + ("nothing (∞)" if math.isinf(row.most) else f"at most {most}"),
        "not estimated" if row.bound == "proved" else "",
        "not attacked",
    ]
    if row.estimate is not None:
        said[1] = f"estimated: about {_roughly(row.estimate)}"
    if row.observed is not None:
        shown = above and math.isfinite(row.least)
        said[2] = f"observed: at least {seen}" if shown else _seen(row.least)
    if row.broken:
        why = "more was observed than" if above else "the attack refutes what"
        said.append(f"BROKEN: {why} is {row.bound}")
    if row.estimate_refuted:
        said.append("Estimate refuted: more was observed")
    return said


def _alt(row: Triple) -> str:
    """The row for people who cannot see it."""
    low, high = _truth(row)
    between = f"between {lower(low)} and {upper(high)}"
    truth = f"the truth lies {between if math.isfinite(high) else f'above {lower(low)}'}"
    *numbers, last = _words(row)[:3]
    said = "; ".join([*filter(None, numbers), last, truth])
    return ". ".join([f"{row.title}: {said}", *_words(row)[3:]]) + "."


def estimates(assessment: Assessment) -> Figure | None:
    """Two ways to estimate beside what was observed: the papers' way may look too good.

    Of the release and of SGD alone; None where no two estimates are there to compare.
    """
    ways = (("isotropic", "one sigma"), ("directional", "by direction"))
    parts: list[_Part] = []
    for row in assessment.triples:
        found = [(words, getattr(row.estimated, way, None)) for way, words in ways]
        if named := [(words, each) for words, each in found if each is not None]:
            parts.append((row.title, named, row.observed))
    if not any(len(named) == len(ways) for _, named, _ in parts):
        return None
    said = " ".join(f"{part[0]}: {'; '.join(_lines(part))}." for part in parts)
    return inline(
        estimates_sheet(parts),
        "estimates",
        "Two ways to estimate",
        f"Estimates of epsilon, none of them a guarantee. {said}",
        "One sigma is the papers' way. What was observed refutes any below it.",
    )


def estimates_sheet(parts: Sequence[_Part], heading: Sequence[str] = ()) -> Any:
    """Estimates by what they are of, on one axis, as a matplotlib figure; `heading` is above."""
    values = [each.epsilon for _, _, each in parts if each is not None]
    values += [end for _, named, _ in parts for _, each in named for end in _ends(each)]
    with styled():
        sheet = _Sheet(values)
        for words in heading:
            sheet.title(words, SMALL, bold=False)
        top = sheet.y
        for part in parts:
            title, named, observed = part
            sheet.title(title)
            lines = _lines(part)
            for (_, each), line in zip(named, lines, strict=False):
                sheet.estimate(each, line)
            if observed is not None:
                sheet.observed(observed, lines[-1])
            sheet.y += 4
        sheet.ruler()
        sheet.grid(top + _LINE / 2, sheet.y - 2.4 * _LINE)
        return sheet.figure()


def _lines(part: _Part) -> list[str]:
    _, named, observed = part
    seen = [] if observed is None else [_seen(observed.epsilon)]
    return [*(f"{words}: {_roughly(each)}" for words, each in named), *seen]


def _ends(estimate: Estimate | None) -> list[float]:
    if estimate is None:
        return []
    return [estimate.epsilon, estimate.low or 0.0, estimate.high or 0.0]


def _number(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else upper(epsilon)


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
