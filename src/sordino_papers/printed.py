"""`Printed`: a number as a paper prints it, with the digits it has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from sordino import _check

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
            _check.fail("printed", text, "to be a number as printed", hint)
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
