"""`Tolerance`: how far our number may be from the printed one, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sordino import _check
from sordino_papers.found import Found
from sordino_papers.printed import Printed

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
            _check.fail("tolerance", dict(given), "to have one entry, such as { relative = 0.05 }")
        ((kind, size),) = given.items()
        _check.one_of("tolerance", kind, (*BESIDE_PRINTED, *ALONE))
        if kind in ("rounding", "interval"):
            if size is not True:
                _check.fail(f"tolerance.{kind}", size, "to be true")
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
