"""Sums of numbers too small to be floats, by their logarithms, and sums on the private side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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
