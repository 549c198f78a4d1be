"""Where a falling function crosses zero, from the side that is proved.

Sums of numbers too small to be floats, by their logarithms, and sums on the private side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction


def log_add(*logs: float) -> float:
    """Ln of the sum of exponentials."""
    top = max(logs)
    if math.isinf(top):
        return top
    return top + math.log(math.fsum(math.exp(log - top) for log in logs))


def log_any(chances: Sequence[tuple[int, float]]) -> float:
    """Ln of the probability that any of so many independent events, of this chance each, happens.

    ln(1 - prod (1 - p)^n).
    """
    if any(n > 0 and p >= 1 for n, p in chances):
        return 0.0
    none = math.fsum(n * math.log1p(-p) for n, p in chances)
    return math.log(-math.expm1(none)) if none < 0 else -math.inf


def rounded_up(counted: Iterable[tuple[int, float]]) -> float:
    """The sum of count times value, exactly, then rounded up to a float."""
    pairs = list(counted)
    if any(n > 0 and math.isinf(value) for n, value in pairs):
        return math.inf
    exact = sum((n * Fraction(value) for n, value in pairs if n > 0), Fraction(0))
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def golden_section(
    function: Callable[[float], float], low: float, high: float, rounds: int
) -> float:
    """The least value met between two points by so many golden sections."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    least = min(at_left, at_right)
    for _ in range(rounds):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
        least = min(least, at_left, at_right)
    return least


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
