"""How far apart final weights are: for another record, another seed, or both.

Hyland & Tople (v1, VI-B; v2, 4) compare ||A(r; S) - A(r; S')|| (delta_S), ||A(r; S) - A(r'; S)||
(delta_V, from a fixed or from varying initial weights) and ||A(r; S) - A(r'; S')|| (delta_S+V).

Weights are W[seed, neighbour, parameter]: one kind of initial weights, one step of training. If
neighbour i is the data with record i replaced by the first one, two neighbours i and j differ in
one record as sets, but with one seed they differ in TWO places of the order: a bound for one
replaced record covers their distance only twice over. `against` compares with one dataset alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.types import Floats

MOST_PAIRS = 200_000
"""Pairs that are kept one by one; of more, a sample is."""

_Differs = Literal["data", "seed", "both"]


@dataclass(frozen=True)
class Distances:
    """Distances of pairs of runs.

    Parameters
    ----------
    differs
        What the runs of a pair do not share: "data", "seed" or "both".
    values
        The distances, sorted: of all pairs, or of a uniform sample of them.
    pairs
        How many pairs there are.
    maximum, where
        The largest distance and its runs ((seed, neighbour), (seed, neighbour)); of ALL pairs if
        `maximum_of_all`, otherwise of the sample.
    """

    differs: _Differs
    values: Floats
    pairs: int
    maximum: float
    where: tuple[tuple[int, int], tuple[int, int]]
    maximum_of_all: bool

    @property
    def exact(self) -> bool:
        """Whether `values` holds every pair."""
        return len(self.values) == self.pairs

    def quantile(self, q: float) -> float:
        """The q-quantile of `values`."""
        return float(np.quantile(self.values, q))


def between_datasets(
    weights: npt.ArrayLike,
    *,
    stream: np.random.Generator | None = None,
    most: int = MOST_PAIRS,
    against: int | None = None,
) -> Distances:
    """delta_S: same seed, two datasets; with `against`, that neighbour and each of the others.

    The maximum is over all pairs, whatever the sample: the papers' empirical sensitivity. It is a
    LOWER estimate of the sensitivity: the largest of the pairs tried.
    """
    W = grid(weights, neighbours=2)
    if against is not None:
        against = checks.index("against", against, W.shape[1])
    return _within(W, "data", against, stream, most)


def between_seeds(
    weights: npt.ArrayLike, *, stream: np.random.Generator | None = None, most: int = MOST_PAIRS
) -> Distances:
    """delta_V: same dataset, two seeds; "vary" or "fixed" is whichever weights are passed."""
    W = grid(weights, seeds=2)
    return _within(np.swapaxes(W, 0, 1), "seed", None, stream, most)


def between_both(
    weights: npt.ArrayLike, *, stream: np.random.Generator | None = None, most: int = MOST_PAIRS
) -> Distances:
    """delta_S+V: another seed and another dataset."""
    W = grid(weights, seeds=2, neighbours=2)
    seeds, many = W.shape[:2]
    pairs = seeds * (seeds - 1) // 2 * many * (many - 1)
    if pairs <= checks.whole("most", most, at_least=1):
        r, s = np.triu_indices(seeds, 1)
        a, b = np.nonzero(~np.eye(many, dtype=bool))
        (r, s), (a, b) = np.repeat((r, s), len(a), axis=1), np.tile((a, b), len(r))
    else:
        rng = _needed(stream, pairs)
        r, a = rng.integers(0, seeds, most), rng.integers(0, many, most)
        s = (r + rng.integers(1, seeds, most)) % seeds
        b = (a + rng.integers(1, many, most)) % many
    found = np.empty(len(r))
    for part in _parts(len(found), W.shape[2]):
        found[part] = np.linalg.norm(W[r[part], a[part]] - W[s[part], b[part]], axis=1)
    top = int(found.argmax())
    where = (int(r[top]), int(a[top])), (int(s[top]), int(b[top]))
    return Distances("both", np.sort(found), pairs, float(found[top]), where, len(found) == pairs)


@dataclass(frozen=True)
class GaussianComparison:
    """delta_V beside distances of independent Gaussian vectors with the same standard deviations.

    `measured` and `gaussian` are sorted distances; `kolmogorov` is the largest gap of their
    distribution functions (no p-value: pairs that share a run are not independent). `sharpness`
    is the ratio of their standard deviations, measured over Gaussian: above 1 weights vary
    together or in clusters, below 1 they have lighter tails, as uniform initial weights have.
    """

    measured: Floats
    gaussian: Floats
    kolmogorov: float
    sharpness: float


def against_gaussian(
    weights: npt.ArrayLike, *, stream: np.random.Generator, most: int = MOST_PAIRS
) -> GaussianComparison:
    """v2, D.3: "virtually identical to what would result from [...] random Gaussian vectors".

    Standard deviations are of each weight over seeds, pooled over datasets, so a distance of two
    such vectors has entries N(0, 2 s_k^2), independent.
    """
    W = grid(weights, seeds=2)
    measured = between_seeds(W, stream=stream, most=most).values
    variances = W.var(axis=0, ddof=1).mean(axis=0)
    gaussian = np.empty(len(measured))
    for part in _parts(len(gaussian), W.shape[2]):
        squares = stream.standard_normal((len(gaussian[part]), W.shape[2])) ** 2
        gaussian[part] = np.sqrt(squares @ (2 * variances))
    gaussian.sort()
    both = np.concatenate([measured, gaussian])
    gap = np.searchsorted(measured, both, "right") - np.searchsorted(gaussian, both, "right")
    wide = float(gaussian.std())
    sharpness = float(measured.std()) / wide if wide > 0 else math.nan
    kolmogorov = float(np.abs(gap).max()) / len(measured)
    return GaussianComparison(measured, gaussian, kolmogorov, sharpness)


def density(
    values: Floats, low: float, high: float, places: int = 500, *, log: bool = False
) -> tuple[Floats, Floats]:
    """A smooth density of `values` between two ends: places, and the density there.

    Parameters
    ----------
    values
        A sample; NaN is left out.
    low, high, places
        The ends, and at how many places between them.
    log
        Whether it is the density of log10(values), per decade; then values of 0 only count. On a
        plain axis what would be smoothed over the lower end is folded back, so that distances have
        no density below 0.

    Returns
    -------
    tuple
        Its area is the share of values between the ends. The width is Silverman's for at most
        1,000 values: pairs that share a run are far from independent.

    Examples
    --------
    >>> x, y = density(np.array([1.0, 2.0, 2.5]), 0.0, 4.0, places=8)
    >>> round(float(y.sum() * (x[1] - x[0])), 2)
    1.0
    """
    given = np.asarray(values, dtype=np.float64)
    given = given[np.isfinite(given)]
    many = len(given)
    if log:
        given, low, high = np.log10(given[given > 0]), math.log10(low), math.log10(high)
    given = given[(given >= low) & (given <= high)]
    edges = np.linspace(low, high, places + 1)
    step = edges[1] - edges[0]
    middle = edges[:-1] + step / 2
    x = np.asarray(10**middle if log else middle)
    if len(given) == 0:
        return x, np.zeros(places)
    spread = min(float(given.std()), float(np.subtract(*np.quantile(given, [0.75, 0.25]))) / 1.34)
    width = max(0.9 * spread * min(len(given), 1000) ** -0.2, step)
    reach = min(math.ceil(4 * width / step), places - 1)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * step / width) ** 2)
    counts = np.histogram(given, edges)[0] / (many * step)
    smooth = np.convolve(counts, kernel / kernel.sum())
    found = smooth[reach : reach + places].copy()
    if not log:
        found[:reach] += smooth[:reach][::-1]
    return x, np.asarray(found)


def densities(
    samples: Mapping[str, Sequence[Floats]],
) -> dict[str, list[tuple[Floats, Floats, float]]]:
    """Densities of log10(distance) between ends that all samples share, and shares that are 0.

    Tiny distances, below a quantile of 0.002 or a millionth of the largest, lie beyond the ends.
    """
    every = [values for named in samples.values() for values in named]
    positive = [values[values > 0] for values in every if (values > 0).any()]
    low, high = 0.1, 10.0
    if positive:
        high = max(float(values.max()) for values in positive)
        tiny = min(float(np.quantile(values, 0.002)) for values in positive)
        low, high = max(tiny, high * 1e-6) / 1.6, high * 1.6
    return {
        name: [(*density(each, low, high, log=True), float((each == 0).mean())) for each in named]
        for name, named in samples.items()
    }


def largest_by_pair(weights: npt.ArrayLike) -> Floats:
    """The largest delta_S over seeds of each two datasets: a table [neighbour, neighbour]."""
    W = grid(weights, neighbours=2)
    top = np.zeros((W.shape[1], W.shape[1]))
    for rows in W:
        np.maximum(top, _table(rows), out=top)
    return top


def grid(weights: npt.ArrayLike, *, seeds: int = 1, neighbours: int = 1) -> Floats:
    """Weights [seed, neighbour, parameter] in float64, checked: finite, and enough of them."""
    W = np.asarray(weights, dtype=np.float64)
    if W.ndim != 3 or W.shape[2] == 0:
        checks.fail("weights", f"shape {W.shape}", "to have three dimensions", "Pass one step.")
    for name, many, least in (("seeds", W.shape[0], seeds), ("neighbours", W.shape[1], neighbours)):
        if many < least:
            checks.fail(name, many, f">= {least}", "Measure more of them.")
    checks.finite("weights", W, "Leave out seeds or neighbours whose runs are missing or failed.")
    return W


def _within(
    W: Floats, differs: _Differs, against: int | None, stream: np.random.Generator | None, most: int
) -> Distances:
    """Distances inside each group W[group, member, parameter]."""
    groups, many = W.shape[:2]
    i, j = np.triu_indices(many, 1)
    if against is not None:
        i, j = np.full(many - 1, against), np.delete(np.arange(many), against)
    one, pairs, kept = len(i), groups * len(i), None
    if pairs > checks.whole("most", most, at_least=1):
        kept = np.sort(_needed(stream, pairs).choice(pairs, most, replace=False))
    values, top, where = [], -1.0, (0, 0, 0)
    for group, rows in enumerate(W):
        if against is None:
            found = _table(rows)[i, j]
        else:
            found = np.linalg.norm(rows[j] - rows[against], axis=1)
        best = int(found.argmax())
        if found[best] > top:
            top, where = float(found[best]), (group, int(i[best]), int(j[best]))
        if kept is not None:
            low, high = np.searchsorted(kept, (group * one, (group + 1) * one))
            found = found[kept[low:high] - group * one]
        values.append(found)
    shared, one_end, other = where
    ends = ((shared, one_end), (shared, other))
    if differs == "seed":
        ends = ((one_end, shared), (other, shared))
    return Distances(differs, np.sort(np.concatenate(values)), pairs, top, ends, True)


def _table(rows: Floats) -> Floats:
    """All distances of rows, by their inner products."""
    # Centred, so that what they have in common does not cancel digits of what they differ in.
    rows = rows - rows.mean(axis=0)
    products = rows @ rows.T
    sizes = np.diagonal(products)
    scale = sizes[:, None] + sizes[None, :]
    squares = scale - 2 * products
    # Rows that all but coincide are subtracted one by one: products know 8 digits of their gap.
    i, j = np.nonzero(np.triu(squares <= 1e-6 * scale, 1))
    for part in _parts(len(i), rows.shape[1]):
        close = np.sum((rows[i[part]] - rows[j[part]]) ** 2, axis=1)
        squares[i[part], j[part]] = squares[j[part], i[part]] = close
    np.fill_diagonal(squares, 0.0)
    return np.asarray(np.sqrt(squares))


def _parts(many: int, parameters: int) -> list[slice]:
    """Cut `many` vectors into parts that stay in the nearer caches."""
    step = max(1, 2**17 // parameters)
    return [slice(start, start + step) for start in range(0, many, step)]


def _needed(stream: Any, pairs: int) -> np.random.Generator:
    if not isinstance(stream, np.random.Generator):
        checks.fail("stream", stream, f"to be a stream, for a sample of {pairs:,} pairs")
    return stream
