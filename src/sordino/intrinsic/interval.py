"""Intervals of what was measured on a grid of seeds and neighbouring datasets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sordino import checks
from sordino.types import Floats, Indices

_Statistic = Callable[[Indices, Indices], float]


@dataclass(frozen=True)
class Interval:
    """A measured number, and the interval it lies in at confidence `level`."""

    value: float
    low: float
    high: float
    level: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:  # also refuses NaN
            checks.fail("value", self.value, f"in its interval [{self.low}, {self.high}]")
        checked_level(self.level)

    def map(self, function: Callable[[float], float]) -> Interval:
        """The same of a monotone function of the number."""
        ends = function(self.low), function(self.high)
        return Interval(function(self.value), min(ends), max(ends), self.level)

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.level:.0%} interval {self.low:.4g} to {self.high:.4g})"


def applied(function: Callable[[float], float], to: float | Interval) -> float | Interval:
    """A monotone function of a number, with its interval if it has one."""
    return to.map(function) if isinstance(to, Interval) else function(to)


def without_interval(number: float | Interval) -> float:
    """The number alone."""
    return number.value if isinstance(number, Interval) else number


def bootstrap(
    statistic: _Statistic,
    seeds: int,
    neighbours: int,
    *,
    stream: np.random.Generator,
    draws: int = 200,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of a statistic, resampling seeds and neighbours with replacement.

    Rows and columns of the grid are drawn anew, each by itself, and every cell that is left is
    used as often as its row and column were drawn (Owen 2007, the pigeonhole bootstrap). Runs that
    share a seed, or a dataset, so stay together; resampling runs one by one would take them for
    independent, and find intervals that are far too short. For means it errs to the long side.

    NOT for a maximum or a minimum over the grid: the largest of a resample is never above the
    largest that was seen, so such an interval ends where the truth begins. Show a subsampling
    curve instead (`spread.sensitivity_curve`), or resample only what the extreme is not over: with
    `neighbours=1` only seeds are resampled.

    Parameters
    ----------
    statistic
        Called with indices of seeds and of neighbours, which may repeat; an index that repeats is
        one run, so a statistic of pairs must leave out pairs of a run with itself.
    seeds, neighbours
        How many there are.
    stream
        A stream of `sordino.randomness`.
    draws, level
        Resamples, at least 20, and the confidence.

    Returns
    -------
    interval
        The statistic of the whole grid, between percentiles of the resamples.

    Raises
    ------
    InvalidArgument
        If there are fewer than two seeds, or too few draws.

    References
    ----------
    A. B. Owen, The pigeonhole bootstrap, Annals of Applied _Statistics 1(2), 2007.

    Examples
    --------
    >>> from sordino.randomness import stream
    >>> table = np.add.outer(np.arange(4.0), np.arange(3.0))
    >>> found = bootstrap(lambda r, k: table[np.ix_(r, k)].mean(), 4, 3, stream=stream("doc"))
    >>> found.value
    2.5
    """
    seeds = checks.whole("seeds", seeds, "An interval over seeds needs two.", at_least=2)
    neighbours = checks.whole("neighbours", neighbours, at_least=1)
    draws = checks.whole("draws", draws, at_least=20)
    value = float(statistic(np.arange(seeds), np.arange(neighbours)))
    sizes = seeds, neighbours
    drawn = [float(statistic(*(stream.integers(0, n, n) for n in sizes))) for _ in range(draws)]
    return percentile(value, np.array(drawn), level)


def percentile(value: float, drawn: Floats, level: float) -> Interval:
    """The interval between the percentiles of bootstrap draws, widened to hold `value` itself."""
    tail = (1 - checked_level(level)) / 2
    # "higher" and "lower" do not interpolate: between infinite draws that would be NaN.
    low = float(np.quantile(drawn, tail, method="lower"))
    high = float(np.quantile(drawn, 1 - tail, method="higher"))
    return Interval(value, min(low, value), max(high, value), level)


def checked_level(level: float) -> float:
    """Return `level` if it is a confidence strictly between 0 and 1."""
    if not 0 < level < 1:
        checks.fail("level", level, "in (0, 1)", "Pass a confidence such as 0.95.")
    return level
