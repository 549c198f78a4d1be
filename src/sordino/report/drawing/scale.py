"""Where an epsilon stands on the axis: 0 at its left end, infinity at its right."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from sordino.report.canvas import plain
from sordino.report.drawing.inline import WIDTH

ZERO, INFINITY = 13.0, WIDTH - 13.0
FIRST, LAST = 45.0, WIDTH - 45.0
"""Points from the left: the two ends, and between them the logarithmic part."""

_LEAST, _MOST = 1e-4, 1e5
"""Nobody needs to tell epsilons beyond apart: they stand in the gaps before 0 and infinity."""
_MARGIN = 1.25
_FEWEST_DECADES = 1.5


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
        return [(self.place(min(max(each, self.low), self.high)), plain(each)) for each in inside]


def _apart(one: tuple[float, str], other: tuple[float, str]) -> bool:
    """Whether two numbers below the axis leave a gap; a letter takes about six points."""
    return other[0] - one[0] > 3 * (len(one[1]) + len(other[1])) + 3


def around(values: Iterable[float]) -> Scale:
    """A scale on which all `values` have room; those that are 0 or infinite need none."""
    finite = [min(max(each, _LEAST), _MOST) for each in values if 0 < each < math.inf] or [1.0]
    low, high = min(finite) / _MARGIN, max(finite) * _MARGIN
    missing = _FEWEST_DECADES - math.log10(high / low)
    if missing > 0:
        low, high = low * 10 ** (-missing / 2), high * 10 ** (missing / 2)
    return Scale(_round_number(low, up=False), _round_number(high, up=True))


def _round_number(value: float, *, up: bool) -> float:
    """The nearest of 1, 2, 5, 10, 20, ... on that side."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = [step * power for step in (1.0, 2.0, 5.0, 10.0)]
    return min(s for s in steps if s >= value) if up else max(s for s in steps if s <= value)
