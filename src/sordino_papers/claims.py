"""`Paper`: one paper's file, read strictly: runs, places (tables and figures), claims.

A file is data: what is printed and where, the setting, the tolerance and its reason. No number of a
paper stands anywhere else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sordino import checks
from sordino_papers.found import Found

_FORM = re.compile(
    r"(?P<number>[+-]?(?:\d[\d,]*)?(?:\.\d+)?(?:e[+-]?\d+)?)(?:\((?P<spread>\d+)\))?(?P<percent>%?)"
)


@dataclass(frozen=True)
class Printed:
    """A printed number: "0.719(2)", "+.00002", "36.31%", "9,000", "1.23e-8".

    Parameters
    ----------
    text
        As it stands in the paper.
    value
        The number; of a percentage, the number before the sign.
    unit
        One unit of its last digit.
    spread
        The standard deviation in brackets, if any, in the units of `value`.
    percent
        Whether a percent sign follows.
    """

    text: str
    value: float
    unit: float
    spread: float | None
    percent: bool

    @classmethod
    def parse(cls, text: str) -> Printed:
        """Read it as it is printed."""
        match = _FORM.fullmatch(text.strip())
        if match is None or not any(c.isdigit() for c in match["number"].partition("e")[0]):
            hint = 'Write it as in the paper, such as "0.719(2)", "+.0007", "36.31%" or "1.2e-8".'
            checks.fail("printed", text, "to be a number as printed", hint)
        number = Decimal(match["number"].replace(",", ""))
        exponent = number.as_tuple().exponent
        assert isinstance(exponent, int)
        unit = Decimal(1).scaleb(exponent)
        spread = None if match["spread"] is None else float(int(match["spread"]) * unit)
        return cls(text, float(number), float(unit), spread, bool(match["percent"]))

    @property
    def rounding(self) -> tuple[float, float]:
        """The numbers that are printed so, if rounded: half a unit either way."""
        return self.value - self.unit / 2, self.value + self.unit / 2

    def __str__(self) -> str:
        return self.text


BESIDE_PRINTED = ("rounding", "relative", "factor", "absolute", "interval")
ALONE = ("at_least", "at_most", "above", "below")
_SLACK = 1e-9
"""Of comparisons in floating point, relative to the printed unit."""


@dataclass(frozen=True)
class Tolerance:
    """One rule.

    Parameters
    ----------
    kind
        "rounding": ours, rounded, is what is printed. "relative", "absolute", "factor": within so
        much of it (as a share, a difference, a ratio either way), after what rounding hides.
        "interval": the printed number, as far as rounding leaves it open, lies in the interval that
        our own runs give. For claims in words: "at_least", "at_most", "above", "below" a threshold
        that the file states.
    size
        How much.
    """

    kind: str
    size: float

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Tolerance:
        """From a table with one entry, such as { relative = 0.05 }."""
        if len(given) != 1:
            checks.fail("tolerance", dict(given), "to have one entry, such as { relative = 0.05 }")
        ((kind, size),) = given.items()
        checks.one_of("tolerance", kind, (*BESIDE_PRINTED, *ALONE))
        if kind in ("rounding", "interval"):
            if size is not True:
                checks.fail(f"tolerance.{kind}", size, "to be true")
            return cls(kind, 0.0)
        return cls(kind, float(size))

    @property
    def needs_printed(self) -> bool:
        """Whether it compares with a printed number."""
        return self.kind in BESIDE_PRINTED

    def holds(self, found: Found, printed: Printed | None) -> bool:
        """Whether our number is within it."""
        value = found.value
        if not math.isfinite(value):
            return False
        if not self.needs_printed:
            return {
                "at_least": value >= self.size,
                "at_most": value <= self.size,
                "above": value > self.size,
                "below": value < self.size,
            }[self.kind]
        assert printed is not None
        low, high = self._allowed(printed)
        slack = _SLACK * printed.unit
        if self.kind == "interval":
            if found.low is None or found.high is None:
                return low - slack <= value <= high + slack
            return found.low <= high + slack and low - slack <= found.high
        return low - slack <= value <= high + slack

    def _allowed(self, printed: Printed) -> tuple[float, float]:
        low, high = printed.rounding
        if self.kind == "relative":
            far = self.size * abs(printed.value)
            return low - far, high + far
        if self.kind == "absolute":
            return low - self.size, high + self.size
        if self.kind == "factor":
            ends = (low * self.size, low / self.size, high * self.size, high / self.size)
            return min(ends), max(ends)
        return low, high

    def __str__(self) -> str:
        size = f"{self.size:g}"
        return {
            "rounding": "as printed",
            "relative": f"within {100 * self.size:g} %",
            "factor": f"within {size} times",
            "absolute": f"within {size}",
            "interval": "in our interval",
            "at_least": f"at least {size}",
            "at_most": f"at most {size}",
            "above": f"above {size}",
            "below": f"below {size}",
        }[self.kind]


@dataclass(frozen=True)
class PaperRun:
    """Something to be computed once and asked often: a grid, a study, a table of formulas.

    Parameters
    ----------
    name
        "v2/adult-logistic".
    kind
        One of `kinds.SOURCES`.
    settings
        Of that kind.
    quick
        Settings that replace others with --quick.
    """

    name: str
    kind: str
    settings: Mapping[str, Any]
    quick: Mapping[str, Any]

    def chosen(self, quick: bool) -> dict[str, Any]:
        """The settings that count."""
        return {**self.settings, **(self.quick if quick else {})}


@dataclass(frozen=True)
class Explanation:
    """Why a number differs; it counts only while every claim it leans on holds."""

    text: str
    shown_by: tuple[str, ...]


@dataclass(frozen=True)
class PaperClaim:
    """One cell of a table, or one thing that a figure or sentence says.

    Parameters
    ----------
    name
        "v2/table-3/sigma/cifar2".
    place
        "v2/table-3".
    row, column
        What it is called in the paper's layout; column is empty where there is none.
    says
        The claim in words, where nothing is printed; else what is compared.
    quantity, runs, arguments
        What is asked of which runs.
    printed
        The printed number, if there is one.
    tolerance, reason
        How far ours may be, and why so far.
    explanation
        Why it differs, if it does.
    ours
        A check of ours (what an explanation leans on, or a slip in print), not a claim of the
        paper's.
    full
        Whether it can only be judged at full size, not with --quick.
    setting
        Whether the printed number is itself a setting of the run: it is shown, and not counted.
    """

    name: str
    place: str
    row: str
    column: str
    says: str
    quantity: str
    runs: tuple[str, ...]
    arguments: Mapping[str, Any]
    printed: Printed | None
    tolerance: Tolerance
    reason: str
    explanation: Explanation | None
    ours: bool
    full: bool
    setting: bool


@dataclass(frozen=True)
class Drawing:
    """A figure in the paper's layout: which drawing, of which runs, with which words."""

    draw: str
    runs: tuple[str, ...]
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """A table, a figure or a passage.

    Parameters
    ----------
    name
        "v2/table-3".
    title
        What is there.
    printed_at
        Where it is printed, in words: "Table 3, page 4".
    drawings
        Figures that we draw of it.
    claims
        In order.
    """

    name: str
    title: str
    printed_at: str
    drawings: tuple[Drawing, ...]
    claims: tuple[PaperClaim, ...]

    @property
    def key(self) -> str:
        """Without the paper: "table-3"."""
        return self.name.partition("/")[2]


@dataclass(frozen=True)
class Paper:
    """One file."""

    key: str
    title: str
    authors: str
    year: int
    runs: Mapping[str, PaperRun]
    places: tuple[Place, ...]

    @property
    def claims(self) -> tuple[PaperClaim, ...]:
        """All of them, in order."""
        return tuple(claim for place in self.places for claim in place.claims)
