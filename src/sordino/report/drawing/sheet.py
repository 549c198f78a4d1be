"""A sheet of paper on which things are drawn from top to bottom, each on a line of its own.

Marks that mean different things never share a line, and words stand beside their mark, or all
of a kind above or below it: so nothing covers anything, however close numbers lie.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from sordino.errors import printable
from sordino.report import canvas, palette
from sordino.report.blocks import Drawn
from sordino.report.drawing.inline import HALO, SMALL, TEXT, WIDTH, inline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ZERO, INFINITY = 13.0, WIDTH - 13.0
FIRST, LAST = 45.0, WIDTH - 45.0
"""Points from the left: the two ends, and between them the logarithmic part."""

_LEAST, _MOST = 1e-4, 1e5
"""Nobody needs to tell epsilons beyond apart: they stand in the gaps before 0 and infinity."""
_ROOM = 1.25
_FEWEST_DECADES = 1.5
LINE = 17.0
"""Points from one line to the next."""
EDGE = 4.0
_GAP = 6.0
_ARROW = 15.0
_BAR, _TO_BAR, _FROM_BAR = 6.0, 9.5, 11.5
"""Height of a bar; down from its words, and on to the next ones, which lie further off."""
_MOST_LETTERS = 200
_WIDE = 0x1100
"""Scripts whose letters are as wide as high begin here; the measuring font has few of them."""
_MEASURED_AT = 100


@dataclass(frozen=True)
class Scale:
    """From `low` to `high` logarithmically."""

    low: float
    high: float

    def place(self, epsilon: float) -> float:
        """Points from the left."""
        if epsilon <= 0:
            return ZERO
        if math.isinf(epsilon):
            return INFINITY
        if epsilon < self.low:
            return (ZERO + FIRST) / 2
        if epsilon > self.high:
            return (LAST + INFINITY) / 2
        share = math.log(epsilon / self.low) / math.log(self.high / self.low)
        return FIRST + share * (LAST - FIRST)

    def ticks(self) -> list[tuple[float, str]]:
        """Places and numbers, few enough to be read."""
        for every, steps in ((1, (1, 2, 5)), (1, (1,)), (2, (1,)), (3, (1,))):
            found = self._ticks(every, steps)
            pairs = itertools.pairwise(found)
            if all(_apart(*pair) for pair in pairs):
                break
        return found

    def _ticks(self, every: int, steps: tuple[int, ...]) -> list[tuple[float, str]]:
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = [step * 10.0**power for power in powers if power % every == 0 for step in steps]
        inside = [value for value in values if self.low * 0.999 <= value <= self.high * 1.001]
        return [
            (self.place(min(max(each, self.low), self.high)), canvas.plain(each)) for each in inside
        ]


def _apart(one: tuple[float, str], other: tuple[float, str]) -> bool:
    """Whether two numbers below the axis leave a gap; a letter takes about six points."""
    return other[0] - one[0] > 3 * (len(one[1]) + len(other[1])) + 3


def around(values: Iterable[float]) -> Scale:
    """A scale on which all `values` have room; those that are 0 or infinite need none."""
    finite = [min(max(each, _LEAST), _MOST) for each in values if 0 < each < math.inf] or [1.0]
    low, high = min(finite) / _ROOM, max(finite) * _ROOM
    missing = _FEWEST_DECADES - math.log10(high / low)
    if missing > 0:
        low, high = low * 10 ** (-missing / 2), high * 10 ** (missing / 2)
    return Scale(_round_number(low, up=False), _round_number(high, up=True))


def _round_number(value: float, *, up: bool) -> float:
    """The nearest of 1, 2, 5, 10, 20, ... on that side."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = [step * power for step in (1.0, 2.0, 5.0, 10.0)]
    return min(s for s in steps if s >= value) if up else max(s for s in steps if s <= value)


class Sheet:
    """Lengths in points from the left and from the top; `y` is the middle of the next line."""

    def __init__(self, scale: Scale) -> None:
        from matplotlib.figure import Figure

        self.scale = scale
        self.y = 0.0
        self._words: list[tuple[float, float, float, float]] = []  # left, right, top, bottom
        self._figure = Figure()
        self._axes: Any = self._figure.add_axes((0, 0, 1, 1))
        self._axes.axis("off")

    def figure(self) -> Figure:
        """The sheet, cut below what stands on it."""
        height = self.y - LINE / 2 + EDGE
        self._figure.set_size_inches(WIDTH / 72, height / 72)
        self._axes.set(xlim=(0, WIDTH), ylim=(height, 0))
        return self._figure

    def drawn(self, name: str, title: str, alt: str, caption: str) -> Drawn:
        """The same for a page."""
        return inline(self.figure(), name, title, alt, caption)

    def say(
        self,
        x: float,
        words: str,
        *,
        anchor: str = "left",
        size: float = TEXT,
        bold: bool = False,
        colour: str = palette.INK,
        lead: str = "",
    ) -> None:
        """Write on the present line; `lead` is the colour of what stands before the colon."""
        wide = self._width(words, {"size": size, "bold": bold, "lead": lead})
        left = x - {"left": 0.0, "center": 0.5, "right": 1.0}[anchor] * wide
        self._words.append((left, left + wide, self.y - 0.4 * size, self.y + 0.55 * size))
        look = {"ha": anchor, "va": "baseline", "fontsize": size, "color": colour}
        at = (x, self.y + 0.35 * size)
        weight = "bold" if bold else "normal"
        self._axes.text(*at, words, weight=weight, gid=f"{HALO} {lead}", zorder=6, **look)

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

    def upright(self, x: float, top: float, bottom: float, colour: str) -> None:
        """A dotted line down through everything, but not through words: it stops before them."""
        near = [each for each in self._words if each[0] - 2 < x < each[1] + 2]
        for _, _, above, below in sorted([*near, (0, 0, bottom, bottom)], key=lambda each: each[2]):
            if above - top > 2:
                self.line([x, x], [top, min(above, bottom)], colour, dashes=(1.2, 1.6), above=2)
            top = max(top, below)

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

    def next(self, by: float = LINE) -> None:
        """Go down."""
        self.y += by

    def label(
        self,
        span: tuple[float, float],
        words: str,
        *,
        left_first: bool = False,
        **look: Any,
    ) -> None:
        """Write beside a mark that covers `span`, or where that has no room, a line below it."""
        start, stop = span
        words = fitted(words, look.get("size", TEXT), look.get("bold", False))
        wide = self._width(words, look)
        smaller = {**look, "size": SMALL}
        if not self._beside(span, wide) and self._beside(span, self._width(words, smaller)):
            look, wide = smaller, self._width(words, smaller)
        sides = self._beside(span, wide)
        if "left" in sides and (left_first or "right" not in sides):
            self.say(start - _GAP, words, anchor="right", **look)
        elif "right" in sides:
            self.say(stop + _GAP, words, **look)
        else:
            self.next(0.75 * LINE)  # nearer to its own mark than to the next
            middle, half = (start + stop) / 2, wide / 2 + EDGE
            self.say(min(max(middle, half), WIDTH - half), words, anchor="center", **look)

    def _width(self, words: str, look: dict[str, Any]) -> float:
        size, bold = look.get("size", TEXT), look.get("bold", False)
        if not look.get("lead"):
            return width(words, size, bold)
        lead, colon, rest = words.partition(":")
        return width(f"{lead}{colon}.", size, True) + width(rest.strip(), size, bold)

    def _beside(self, span: tuple[float, float], wide: float) -> list[str]:
        """On which sides of a mark words of that width have room."""
        left = span[0] - _GAP - wide >= EDGE
        right = span[1] + _GAP + wide <= WIDTH - EDGE
        return ["left"] * left + ["right"] * right

    def at_most(self, x: float, colour: str) -> tuple[float, float]:
        """A wall with an arrow from it to the left; says what it covers."""
        self._bound(x, -1, colour)
        return x - _ARROW, x + 2

    def at_least(self, x: float, colour: str) -> tuple[float, float]:
        """A wall with an arrow from it to the right; says what it covers."""
        self._bound(x, 1, colour)
        return x - 2, x + _ARROW

    def _bound(self, x: float, way: int, colour: str) -> None:
        self.line([x, x], [self.y - 6.5, self.y + 6.5], colour, 3.0, above=4)
        self.line([x, x + way * (_ARROW - 4)], [self.y, self.y], colour, 2.0, above=4)
        tip, back = x + way * _ARROW, x + way * (_ARROW - 6.5)
        self.shape([(tip, self.y), (back, self.y - 4), (back, self.y + 4)], colour)

    def diamond(
        self, x: float, low: float | None, high: float | None, colour: str
    ) -> tuple[float, float]:
        """A hollow diamond with dashed whiskers: no guarantee; says what it covers."""
        y, half = self.y, 5.0
        # Whiskers within the diamond would only blur it.
        if low is not None and high is not None and max(high - x, x - low) > half + 1:
            self.line([low, high], [y, y], colour, 1.5, dashes=(2.2, 1.4))
            for end in (low, high):
                self.line([end, end], [y - 3.5, y + 3.5], colour, 1.5)
        corners = [(x - half, y), (x, y - half), (x + half, y), (x, y + half)]
        self.shape(corners, palette.PANEL, colour, above=5)
        ends = (x if low is None else low, x if high is None else high)
        return min(ends[0], x - half), max(ends[1], x + half)

    def bar(self, x: float, words: str, *, bold: bool, hollow: bool) -> None:
        """Words, and right below them a bar from 0 to `x`: all that an upper bound leaves possible.

        Goes down to where the words of the next bar stand.
        """
        look: dict[str, Any] = {"size": SMALL, "bold": bold, "lead": palette.INK}
        words = fitted(words, SMALL, bold)
        self.say(min(ZERO, WIDTH - EDGE - self._width(words, look)), words, **look)
        self.next(_TO_BAR)
        top, bottom = self.y - _BAR / 2, self.y + _BAR / 2
        colour = palette.MUTED if hollow else palette.PROVED
        if hollow:
            for y in (top, bottom):
                self.line([ZERO, x], [y, y], colour, 0.8, dashes=(2.2, 1.4))
        else:
            corners = [(ZERO, top), (x, top), (x, bottom), (ZERO, bottom)]
            self.shape(corners, colour, opacity=0.45 if bold else 0.2, above=2)
        self.line([x, x], [top - 1, bottom + 1], colour, 3.0, above=4)
        self.next(_FROM_BAR)

    def ruler(self) -> None:
        """The axis itself: numbers, broken ends for 0 and infinity, and which way is better."""
        y = self.y
        self.line([ZERO, INFINITY], [y, y], palette.INK, 1.2, above=4)
        for gap in ((ZERO + FIRST) / 2, (LAST + INFINITY) / 2):
            corners = [(gap - 4, y - 4), (gap + 6, y - 4), (gap + 3, y + 4), (gap - 7, y + 4)]
            self.shape(corners, palette.PANEL, above=5)
            for side in (-3.5, 3.5):
                self.line([gap + side - 2, gap + side + 2], [y + 4, y - 4], palette.INK, above=6)
        ends = [(ZERO, "0"), (INFINITY, "∞")]
        ticks = [*ends, *self.scale.ticks()]
        for x, _ in ticks:
            self.line([x, x], [y, y + 4], palette.INK, 1.2, above=4)
        self.next(11)
        for x, number in ticks:
            size = 1.35 * SMALL if number == "∞" else SMALL
            self.say(x, number, anchor="center", size=size)
        self.next(14)
        self.say(EDGE, "← more private", size=SMALL, colour=palette.MUTED)
        self.say((ZERO + INFINITY) / 2, "epsilon", anchor="center", size=SMALL, bold=True)
        self.say(WIDTH - EDGE, "less private →", anchor="right", size=SMALL, colour=palette.MUTED)

    def grid(self, top: float, bottom: float) -> None:
        """Faint lines from the axis' numbers through everything."""
        for x, _ in [(ZERO, ""), (INFINITY, ""), *self.scale.ticks()]:
            self.line([x, x], [top, bottom], palette.GRID, 0.6, above=1)


def width(words: str, size: float, bold: bool) -> float:
    """Points that `words` take, in a font wider than most."""
    return size * sum(_advance(letter, bold) for letter in words)


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

    font = FT2Font(
        findfont(FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal"))
    )
    font.set_size(_MEASURED_AT, 72)
    return font


def fitted(words: str, size: float, bold: bool) -> str:
    """`words` on one line, cut with an ellipsis where the sheet is too narrow for them."""
    words = printable(words)[:_MOST_LETTERS]
    if width(words, size, bold) <= WIDTH - 2 * EDGE:
        return words
    while words and width(words + "…", size, bold) > WIDTH - 2 * EDGE:
        words = words[:-1]
    return words.rstrip() + "…"
