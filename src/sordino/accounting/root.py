"""Where a falling function crosses zero, from the side that is proved."""

from __future__ import annotations

import math
from collections.abc import Callable


def first_below(
    function: Callable[[float], float], low: float, high: float, tolerance: float = 1e-9
) -> float:
    """A point where the falling `function` is <= 0, within relative `tolerance` of the first one.

    `function(low)` must be above 0 and `function(high)` at or below it; infinities are welcome.
    Chandrupatla's method (1997): inverse quadratic steps where they are safe, else halving. Not
    scipy's, because loading scipy.optimize takes longer than all of this module's work.
    """
    newest, at_newest = low, function(low)
    other, at_other = high, function(high)
    third, at_third = newest, at_newest
    # Smooth functions are nearly straight between the ends.
    straight = math.isfinite(at_newest) and math.isfinite(at_other)
    share = at_newest / (at_newest - at_other) if straight else 0.5
    share = min(max(share, 0.02), 0.98)
    while True:
        point = newest + share * (other - newest)
        value = function(point)
        if (value > 0) == (at_newest > 0):
            third, at_third = newest, at_newest
        else:
            third, at_third = other, at_other
            other, at_other = newest, at_newest
        newest, at_newest = point, value
        width = abs(other - newest)
        if width <= tolerance * max(abs(other), abs(newest)) or value == 0:
            return newest if at_newest <= 0 else other
        share = _share((newest, other, third), (at_newest, at_other, at_third))
        least = 0.5 * tolerance * max(abs(other), abs(newest)) / width
        share = min(max(share, least), 1 - least)


def _share(points: tuple[float, float, float], values: tuple[float, float, float]) -> float:
    """How far from the newest point towards the other end of the bracket to look next."""
    if not all(map(math.isfinite, values)) or values[2] in values[:2]:
        return 0.5
    xi = (points[0] - points[1]) / (points[2] - points[1])
    phi = (values[0] - values[1]) / (values[2] - values[1])
    if not (phi * phi < xi and (1 - phi) ** 2 < 1 - xi):
        return 0.5
    newest, other, third = values
    scale = (points[2] - points[0]) / (points[1] - points[0])
    quadratic = newest / (other - newest) * third / (other - third)
    return quadratic + scale * newest / (third - newest) * other / (third - other)
