"""`Distance`: how far apart the releases of two datasets are; and from distances to estimates.

All of it is measured or assumed: no number here is a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sordino.intrinsic.directional import ALONG
from sordino.intrinsic.epsilon import EXACT, OBSERVED, exact_epsilon
from sordino.intrinsic.interval import Interval
from sordino.privacy import Estimate
from sordino.report.stages import Estimated

ATTACKED = "the attacked pair of datasets"
TELLING = "along the most telling direction, learned from other seeds"
ONE_SIGMA = "of the largest distance under one seed over one sigma for all directions"
ALL_ALIKE = "takes the noise for Gaussian and equally large in all directions"
PAIRS = "only of the pairs of datasets that were tried: another record may tell more"


@dataclass(frozen=True)
class Distance:
    """How far apart the releases of two datasets are, in standard deviations of their noise.

    Parameters
    ----------
    of
        Which two datasets, in words.
    how
        Of what, in words that follow "the exact Gaussian formula".
    value
        Measured, with its interval; or computed.
    caveat
        What it takes for granted.
    """

    of: str
    how: str
    value: Interval | float
    caveat: str

    @classmethod
    def telling(cls, of: str, value: Interval) -> Distance:
        """Along a direction that was learned."""
        return cls(of, TELLING, value, ALONG)

    @classmethod
    def isotropic(cls, of: str, value: Interval) -> Distance:
        """The papers' way."""
        return cls(of, ONE_SIGMA, value, f"{ALL_ALIKE}; {OBSERVED}")

    @property
    def size(self) -> float:
        """Without its interval."""
        return self.value.value if isinstance(self.value, Interval) else self.value

    def times(self, factor: float, because: str) -> Distance:
        """As many times as far; `because` says what that takes for granted."""
        if factor == 1:
            return self
        caveat = f"{self.caveat}; {because}"
        return replace(self, value=_scaled(self.value, factor), caveat=caveat)

    def epsilon(self, delta: float) -> Estimate:
        """The exact Gaussian epsilon."""
        method, caveat = f"{EXACT} {self.how}, for {self.of}", f"{self.caveat}; {PAIRS}"
        return exact_epsilon(self.value, delta, method=method, caveat=caveat)


def together(parts: Sequence[Distance], because: str) -> Distance:
    """One record in several models with independent noise: distances add up in squares.

    All are measured, or all computed.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    value: Interval | float
    if isinstance(first.value, Interval):
        measured = [part.value for part in parts if isinstance(part.value, Interval)]
        value = Interval(
            _root([each.value for each in measured]),
            _root([each.low for each in measured]),
            _root([each.high for each in measured]),
            first.value.level,
        )
    else:
        value = _root([part.size for part in parts])
    return replace(first, value=value, caveat=f"{first.caveat}; {because}")


@dataclass
class Evidence:
    """What was found of one release so far.

    Parameters
    ----------
    telling, isotropic
        Distances along the most telling direction, and by one sigma for all directions.
    words
        What was measured, a sentence each.
    why_none
        Why there is no distance along a direction, if there is none.
    """

    telling: list[Distance] = field(default_factory=list)
    isotropic: list[Distance] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    why_none: str = ""

    def estimated(self, delta: float, rows_per_person: int = 1) -> Estimated:
        """The largest of each kind, as epsilons."""
        words = self.words
        if rows_per_person > 1:
            words = [*words, _GROUP_WORDS.format(rows_per_person)]
        telling, isotropic = (
            None if worst is None else worst.times(rows_per_person, _GROUP).epsilon(delta)
            for worst in (_largest(self.telling), _largest(self.isotropic))
        )
        return Estimated(
            headline=telling,
            isotropic=isotropic,
            directional=telling,
            why_none="" if telling is not None else self.why_none,
            words=tuple(words),
        )


_GROUP = "the records of one person are taken to move the weights one as far as the other"
_GROUP_WORDS = (
    "One person may have {} records, and one was exchanged here: distances are multiplied by as "
    "many."
)


def _largest(distances: Sequence[Distance]) -> Distance | None:
    return max(distances, key=lambda each: each.size, default=None)


def _root(sizes: Sequence[float]) -> float:
    # Estimated without bias, a distance may be a little below 0 where there is none.
    return math.hypot(*(max(size, 0.0) for size in sizes))


def _scaled(value: Interval | float, factor: float) -> Interval | float:
    if not isinstance(value, Interval):
        return value * factor
    ends = (value.value * factor, value.low * factor, value.high * factor)
    return Interval(*ends, value.level)
