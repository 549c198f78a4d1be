"""`Distance`: how far apart two releases are, and from distances to estimates.

All of it is estimated: no number here is a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sordino.intrinsic.epsilon import EXACT, exact_epsilon
from sordino.intrinsic.interval import Interval
from sordino.privacy import Estimate

ATTACKED = "the attacked pair of datasets"
PAIRS = "only of the pairs of datasets that were tried; another record may tell more"
COMPUTED = "computed, since the training has no chance in it"


@dataclass(frozen=True)
class Distance:
    """How far apart the releases of two datasets are, in standard deviations of their noise.

    Parameters
    ----------
    of
        Which two datasets, in words.
    how
        Along what, in words that follow "the exact Gaussian formula".
    value
        Measured, with its interval; or computed.
    caveat
        What it takes for granted.
    """

    of: str
    how: str
    value: Interval | float
    caveat: str

    @property
    def size(self) -> float:
        """Without its interval."""
        return self.value.value if isinstance(self.value, Interval) else self.value

    def times(self, factor: float, because: str) -> Distance:
        """As many times as far; `because` says what that takes for granted."""
        if factor == 1:
            return self
        return replace(
            self, value=_scaled(self.value, factor), caveat=f"{self.caveat}; {because}"
        )

    def epsilon(self, delta: float) -> Estimate:
        """The exact Gaussian epsilon."""
        method, caveat = f"{EXACT} {self.how}, for {self.of}", f"{self.caveat}; {PAIRS}"
        return exact_epsilon(self.value, delta, method=method, caveat=caveat)


def largest(distances: Sequence[Distance]) -> Distance | None:
    """The one that tells most; None if there is none."""
    return max(distances, key=lambda each: each.size, default=None)


def together(parts: Sequence[Distance], because: str) -> Distance:
    """One record in several models whose noises are independent: distances add up in squares."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part.value, Interval) for part in parts):
        intervals = [part.value for part in parts if isinstance(part.value, Interval)]
        value: Interval | float = Interval(
            *(
                _root([getattr(each, end) for each in intervals])
                for end in ("value", "low", "high")
            ),
            intervals[0].level,
        )
    else:
        value = _root([part.size for part in parts])
    return replace(parts[0], value=value, caveat=f"{parts[0].caveat}; {because}")


def _root(sizes: Sequence[float]) -> float:
    # Estimated without bias, a distance may be a little below 0 where there is none.
    return math.hypot(*(max(size, 0.0) for size in sizes))


def _scaled(value: Interval | float, factor: float) -> Interval | float:
    if not isinstance(value, Interval):
        return value * factor
    ends = (value.value * factor, value.low * factor, value.high * factor)
    return Interval(*ends, value.level)
