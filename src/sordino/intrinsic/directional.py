"""How far apart two datasets' weights are in the metric of SGD's own noise, direction by direction.

One sigma for all directions hides those in which the noise is small, and an attacker looks there.
If the weights of two datasets are Gaussian with one covariance C, what tells them apart is the
Mahalanobis distance sqrt(m' C^-1 m) of their means: the mean difference over the standard
deviation along the best direction, v = C^-1 m.

From few seeds that direction cannot be found exactly, and along a direction chosen to separate
them, runs look further apart than they are. So it is CROSS-FITTED: a direction is learned from
some seeds and tested on the others, in turn. Without a difference the result is about 0, and on
average it is not above the true distance. It is a LOWER estimate: with twice as many seeds as
weights it may see only two thirds of the distance (with 5 folds; halves see less still, so more
seeds learn than test). Measure the worst pair again with more seeds to come closer.

The covariance is shrunk towards a multiple of the identity (Ledoit & Wolf 2004). Their formula
aims at the covariance as a whole and would hide one quiet direction among many, so the weight of
the identity is chosen by cross-validation among the learning seeds.

Shared seeds: runs r of two datasets with the same order and initial weights are all but copies of
each other. For the mean difference that is a blessing (it is a mean of paired differences), and
nothing here assumes that the two samples are independent; seeds are learned from, tested on and
resampled as a whole. Where the number of independent runs matters, a pair of runs counts once.

Noise that a release adds: if C is the covariance of SGD's own noise and N(0, scale^2) is added to
each weight, two datasets are sqrt(m' (C + scale^2 I)^-1 m) standard deviations apart, m the
difference of their means. C and m are measured over seeds, and the added noise is known: it need
not be drawn, and runs without it say more about m than runs with it. The larger the added noise,
the less there is to learn, and where it is all there is, the distance is ||m|| / scale. Nothing
here is a guarantee: m is that of the pairs tried.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from sordino import checks
from sordino.intrinsic import distances, spread
from sordino.intrinsic.epsilon import EXACT, ISOTROPIC, exact_epsilon
from sordino.intrinsic.interval import Interval, checked_level, percentile
from sordino.privacy import Estimate
from sordino.types import Floats, Indices

_SHRINKAGES = np.array([1e-5, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0])
"""Weights of the identity that are tried; at 1 the direction is the mean difference itself."""
LEAST_SEEDS = 20
"""Of a cross-fitted estimate with 5 folds."""

ALONG = "takes the noise along the direction for Gaussian; a lower estimate, learned from few seeds"


@dataclass(frozen=True)
class Directional:
    """What tells two datasets apart, in standard deviations of SGD's own noise.

    Parameters
    ----------
    pair
        The neighbours compared; of `worst_pair`, those chosen most often.
    chosen
        Share of the folds whose learning seeds chose `pair`.
    distance
        Along learned directions, on other seeds: a lower estimate of the Mahalanobis distance.
        May be a little below 0 if there is no difference. The interval resamples the tested seeds
        and keeps the directions.
    isotropic
        Mean difference over one sigma for all directions, on other seeds as well.
    corrected
        The Mahalanobis distance without the loss, if the noise is Gaussian (`between` only).
    in_sample
        Learned and tested on the same seeds: INFLATED, to show by how much.

    Examples
    --------
    >>> from sordino.randomness import stream
    >>> runs = stream("doc").standard_normal((2, 40, 3))
    >>> found = between(runs[0], runs[1] + 2, stream=stream("folds"), draws=20)
    >>> 1 < found.distance.value < 5
    True
    """

    pair: tuple[int, int]
    chosen: float
    distance: Interval
    isotropic: Interval
    corrected: Interval | None
    in_sample: float

    def epsilon(self, delta: float) -> Estimate:
        """The exact Gaussian epsilon of `distance`."""
        method = f"{EXACT} along the most telling direction, learned from other seeds"
        return exact_epsilon(self.distance, delta, method=method, caveat=ALONG)

    def isotropic_epsilon(self, delta: float) -> Estimate:
        """The exact Gaussian epsilon of `isotropic`: what the papers' sigma would give."""
        method = f"{EXACT} of the mean difference over one sigma for all directions"
        return exact_epsilon(self.isotropic, delta, method=method, caveat=ISOTROPIC)

    def corrected_epsilon(self, delta: float) -> Estimate | None:
        """The exact Gaussian epsilon of `corrected`."""
        if self.corrected is None:
            return None
        method = f"{EXACT} of the Mahalanobis distance, corrected for the number of seeds"
        caveat = "takes the noise for Gaussian, and alike for both datasets"
        return exact_epsilon(self.corrected, delta, method=method, caveat=caveat)


def between(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    scale: float = 0.0,
    *,
    stream: np.random.Generator,
    shared_seeds: bool = True,
    folds: int = 5,
    repeats: int = 4,
    draws: int = 200,
    level: float = 0.95,
) -> Directional:
    """Two given datasets: weights [seed, parameter] of each, as many runs of one as of the other.

    Choose the pair by other seeds than these (`worst_pair` does, within one grid). With
    `shared_seeds` row r of both is one seed; otherwise all rows are independent runs, and there is
    no `corrected`.

    Parameters
    ----------
    scale
        Standard deviation of the noise that a release adds to each weight; with any, there is no
        `corrected`.
    folds, repeats
        Each of `folds` parts is tested along a direction learned from the rest, for `repeats`
        random partitions. 2 folds are halves.
    """
    W = np.stack([_rows("first", first), _rows("second", second, first)], axis=1)
    scale = checks.non_negative("scale", scale)
    how = _CrossFit(stream, folds, repeats, draws, level, scale**2)
    found = _apart(W, lambda learn: (0, 1), how)
    if not checks.flag("shared_seeds", shared_seeds) or scale > 0:
        return found
    return dataclasses.replace(found, corrected=_corrected(W[:, 0], W[:, 1], how))


def worst_pair(
    weights: npt.ArrayLike,
    scale: float = 0.0,
    *,
    stream: np.random.Generator,
    against: int | None = None,
    folds: int = 5,
    repeats: int = 4,
    draws: int = 200,
    level: float = 0.95,
) -> Directional:
    """The two datasets of a grid that are easiest to tell apart, one of them `against` if given.

    Weights are [seed, neighbour, parameter] of one kind of initial weights, at one step; `scale` is
    that of `between`.

    In each fold the learning seeds choose the pair (largest Mahalanobis distance of all pairs) and
    its direction; the other seeds test them. So the number is that of pairs chosen this way, not
    inflated by having looked at all of them. For a closer look train `pair` with fresh seeds and
    pass the runs to `between`.
    """
    W = distances.grid(weights, neighbours=2)
    if against is not None:
        against = checks.index("against", against, W.shape[1])
    added = checks.non_negative("scale", scale) ** 2
    how = _CrossFit(stream, folds, repeats, draws, level, added)
    return _apart(W, lambda learn: _furthest(W[learn], added=added, against=against), how)


@dataclass(frozen=True)
class _CrossFit:
    """How to cross-fit; `added` is the variance of noise that every weight gets on top."""

    stream: np.random.Generator
    folds: int
    repeats: int
    draws: int
    level: float
    added: float = 0.0

    def __post_init__(self) -> None:
        checks.whole("folds", self.folds, at_least=2)
        checks.whole("repeats", self.repeats, at_least=1)
        checks.whole("draws", self.draws, at_least=20)
        checked_level(self.level)


@dataclass
class _Tested:
    """Runs of both datasets along directions, each direction on the seeds that test it."""

    added: float
    folds: list[tuple[Indices, float, Floats, Floats]] = field(default_factory=list)

    def add(self, test: Indices, first: Floats, second: Floats, direction: Floats) -> None:
        known = self.added * float(direction @ direction)
        self.folds.append((test, known, first[test] @ direction, second[test] @ direction))

    def means(self, C: Floats) -> Floats:
        """Mean difference for each weighting C[weighting, seed]."""
        sums, total = np.zeros(len(C)), np.zeros(len(C))
        for seeds, _, first, second in self.folds:
            sums += C[:, seeds] @ (first - second)
            total += C[:, seeds].sum(axis=1)
        return sums / total

    def variances(self, C: Floats, resampled: bool = False) -> Floats:
        """Variance around the mean of each fold, pooled over folds and both datasets."""
        squares, freedom = np.zeros(len(C)), np.zeros(len(C))
        for seeds, known, *runs in self.folds:
            c = C[:, seeds]
            total = c.sum(axis=1)
            # A resample's variance is (n - 1) / n of the sample's on average.
            share = 1 - 1 / len(seeds) if resampled else 1.0
            free = np.maximum(total - 1, 0) * share
            freedom += free
            squares += free * known
            for values in runs:
                centred = values - values[0]  # exactly 0 where nothing varies
                spread = c @ centred**2 - (c @ centred) ** 2 / np.maximum(total, 1)
                squares += np.maximum(spread, 0) / 2
        return squares / freedom


def _apart(W: Floats, choose: Callable[[Indices], tuple[int, int]], how: _CrossFit) -> Directional:
    """The two datasets that `choose` makes of the learning seeds, told apart on the others."""
    n, added = W.shape[0], how.added
    if n < (least := max(16, 4 * how.folds)):
        checks.fail("seeds", n, f">= {least}", "Four in each fold; hundreds are better.")
    telling, plain, pairs = _Tested(added), _Tested(added), Counter[tuple[int, int]]()
    for learn, test in (fold for _ in range(how.repeats) for fold in _partition(n, how)):
        a, b = choose(learn)
        pairs[a, b] += 1
        first, second = W[:, a], W[:, b]
        telling.add(test, first, second, _direction(first[learn], second[learn], how))
        plain.add(test, first, second, _unit((first[learn] - second[learn]).mean(axis=0)))
    (a, b), times = pairs.most_common(1)[0]
    seen = _Tested(added)
    seen.add(np.arange(n), W[:, a], W[:, b], _direction(W[:, a], W[:, b], how))
    once = np.ones((1, n))
    C = how.stream.multinomial(n, np.full(n, 1 / n), how.draws).astype(np.float64)

    def interval(tested: _Tested, variances: Callable[[Floats, bool], Floats]) -> Interval:
        value = _ratio(tested.means(once), variances(once, False))
        drawn = _ratio(tested.means(C), variances(C, True))
        return percentile(float(value[0]), drawn, how.level)

    return Directional(
        pair=(a, b),
        chosen=times / pairs.total(),
        distance=interval(telling, telling.variances),
        isotropic=interval(plain, lambda c, again: _pooled(W[:, (a, b)], c, again) + added),
        corrected=None,
        in_sample=float(_ratio(seen.means(once), seen.variances(once))[0]),
    )


def _direction(first: Floats, second: Floats, how: _CrossFit) -> Floats:
    """The most telling direction, with the shrinkage that does best inside these seeds."""
    still = (np.ptp(first, axis=0) == 0) & (np.ptp(second, axis=0) == 0)
    gap = np.where(still, first[0] - second[0], 0.0)
    if gap.any() and how.added == 0:
        return gap  # weights that never vary, and differ: one look tells the datasets apart
    tested = [_Tested(how.added) for _ in _SHRINKAGES]
    for learn, test in _partition(len(first), how, 4):
        path = _directions(first[learn], second[learn], how.added)
        for one, v in zip(tested, path, strict=True):
            one.add(test, first, second, v)
    once = np.ones((1, len(first)))
    noise = np.array([float(one.variances(once)[0]) for one in tested])
    means = np.array([float(one.means(once)[0]) for one in tested])
    best = int(np.argmax(_ratio(means, noise)))
    # Scaled by the noise that other seeds see along it, so that folds with little shrinkage, whose
    # own noise looks far too small, do not outweigh the rest.
    scale = math.sqrt(noise[best]) or 1.0
    return np.asarray(_directions(first, second, how.added)[best] / scale)


def _directions(first: Floats, second: Floats, added: float) -> Floats:
    """(C + added I)^-1 m for each shrinkage of C, scaled to noise of 1 in the learning seeds."""
    difference = first.mean(axis=0) - second.mean(axis=0)
    centred = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
    sizes, basis, level = _spectrum(centred / math.sqrt(2 * (len(first) - 1)))
    if level + added == 0:
        return np.tile(_unit(difference), (len(_SHRINKAGES), 1))
    along = basis @ difference
    rho = _SHRINKAGES[:, None]
    inside = along / ((1 - rho) * sizes + rho * level + added)
    found = inside @ basis + (difference - along @ basis) / (rho * level + added)
    norms = np.sqrt(np.maximum(found @ difference, 0.0))[:, None]
    return np.asarray(np.divide(found, norms, out=np.zeros_like(found), where=norms > 0))


def _furthest(W: Floats, *, added: float = 0.0, against: int | None = None) -> tuple[int, int]:
    """The pair of datasets whose means are furthest apart in the metric of the shrunk noise.

    Of pairs with the dataset `against`, if it is given.
    """
    rows = W[:, 0] - W[:, 0].mean(axis=0)
    n = len(rows)
    sizes, basis, level = _spectrum(rows / math.sqrt(n))
    means = W.mean(axis=0)
    means = means - means.mean(axis=0)
    if level + added > 0:
        # Ledoit & Wolf's weight of the identity: noise of the covariance over its spread.
        noise = (np.mean(np.sum(rows**2, axis=1) ** 2) - np.sum(sizes**2)) / n
        spread = float(np.sum(sizes**2)) - rows.shape[1] * level**2
        rho = 1.0 if noise >= spread else max(float(noise / spread), _SHRINKAGES[0])
        along = means @ basis.T
        scale = np.sqrt((1 - rho) * sizes + rho * level + added)
        rest = math.sqrt(rho * level + added)
        means = (along / scale) @ basis + (means - along @ basis) / rest
    table = distances.largest_by_pair(means[None])
    if against is not None:
        table[np.arange(len(table)) != against] = 0.0
    a, b = np.unravel_index(int(table.argmax()), table.shape)
    return (int(min(a, b)), int(max(a, b))) if a != b else (0, 1)


def _corrected(first: Floats, second: Floats, how: _CrossFit) -> Interval | None:
    """The Mahalanobis distance from a Wishart covariance, for runs that share their seeds.

    With means of differences m1, m2 of two halves of the seeds, and S the covariance of one dataset
    around the means of its halves (nu = n - 2 degrees of freedom, independent of m1 and m2),
    (nu - p - 1)/nu m1' S^-1 m2 has mean m' C^-1 m. For a known m, m' C^-1 m / (m' (nu S)^-1 m) is
    chi-squared with nu - p + 1 degrees of freedom. Pairing makes m all but known; where it does
    not, there is no answer, and none with fewer seeds than weights.
    """
    n, p = first.shape
    nu = n - 2
    if nu <= p + 1:
        return None
    found, noise = [], []
    for _ in range(2 * how.repeats):
        halves = np.array_split(how.stream.permutation(n), 2)
        m1, m2 = ((first[half] - second[half]).mean(axis=0) for half in halves)
        for runs in (first, second):
            rows = np.concatenate([runs[half] - runs[half].mean(axis=0) for half in halves])
            sizes, basis, level = _spectrum(rows / math.sqrt(nu))
            if level == 0 or sizes[-1] <= 1e-12 * sizes[0]:
                return None
            found.append(float((basis @ m1 / sizes) @ (basis @ m2)))
            noise.append(float(np.sum((basis @ (m1 - m2)) ** 2 / sizes)) / 4)
    raw, unsure = max(0.0, float(np.mean(found))), float(np.mean(noise))
    if unsure > 0.1 * raw:
        return None
    tail = (1 - how.level) / 2
    ends = (nu - p - 1, chi2.ppf(tail, nu - p + 1), chi2.ppf(1 - tail, nu - p + 1))
    value, low, high = (math.sqrt(raw * float(end) / nu) for end in ends)
    return Interval(value, min(low, value), max(high, value), how.level)


def _spectrum(rows: Floats) -> tuple[Floats, Floats, float]:
    """Eigenvalues (largest first) and vectors of rows' rows, and the mean eigenvalue."""
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    squares = np.asarray(sizes**2)
    return squares, np.asarray(basis), float(squares.sum()) / rows.shape[1]


def _pooled(W: Floats, C: Floats, resampled: bool) -> Floats:
    """Variance of all weights of both datasets over seeds, for each weighting of the seeds."""
    n = W.shape[0]
    flat = (W - W.mean(axis=0)).reshape(n, -1)
    total = C.sum(axis=1)
    squares = C @ np.sum(flat**2, axis=1) - np.sum((C @ flat) ** 2, axis=1) / total
    share = 1 - 1 / n if resampled else 1.0
    return np.asarray(np.maximum(squares, 0.0) / (total - 1) / flat.shape[1] / share)


def _ratio(means: Floats, variances: Floats) -> Floats:
    """The means over sqrt(variances): infinite without noise, 0 without noise and difference."""
    roots = np.sqrt(variances)
    still = np.where(means == 0, 0.0, np.copysign(np.inf, means))
    return np.divide(means, roots, out=still, where=roots > 0)


def _unit(vector: Floats) -> Floats:
    size = float(np.linalg.norm(vector))
    return vector / size if size > 0 else vector


def _partition(n: int, how: _CrossFit, folds: int | None = None) -> list[tuple[Indices, Indices]]:
    """Learning and tested seeds of each fold of one random partition."""
    parts = np.array_split(how.stream.permutation(n), folds or how.folds)
    return [
        (np.sort(np.concatenate(parts[:k] + parts[k + 1 :])), np.sort(part))
        for k, part in enumerate(parts)
    ]


def _rows(name: str, weights: npt.ArrayLike, like: npt.ArrayLike | None = None) -> Floats:
    """Weights [seed, parameter] of one dataset, checked: finite, and as many as of the other."""
    X = np.asarray(weights, dtype=np.float64)
    if X.ndim != 2 or (like is not None and X.shape != np.shape(like)):
        checks.fail(name, f"shape {X.shape}", "to be 2-d, as many runs of one as of the other")
    checks.finite(name, X)
    return X


def fixed(first: npt.ArrayLike, second: npt.ArrayLike, scale: float) -> float:
    """Of a training without any chance in it: the distance of its two results over `scale`.

    Infinite without noise, unless they are equal.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    gap = float(np.linalg.norm(checks.finite("difference", a - b)))
    return _over(gap, checks.non_negative("scale", scale))


def isotropic(
    weights: npt.ArrayLike, scale: float, *, stream: np.random.Generator, base: int | None = None
) -> Interval:
    """The papers' way: the largest distance under one seed over sqrt(sigma_i^2 + scale^2).

    Of all pairs of the grid, or those with the dataset `base`. The interval is that of sigma_i
    alone (the least over datasets); a largest distance over pairs tried has none.
    """
    W = distances.grid(weights, seeds=2, neighbours=2)
    scale = checks.non_negative("scale", scale)
    furthest = distances.between_datasets(W, stream=stream, against=base).maximum
    sigma = spread.sigma(W, stream=stream)
    return sigma.map(lambda own: _over(furthest, math.hypot(own, scale)))


def _over(distance: float, noise: float) -> float:
    """0 where neither seed nor record moved anything, and infinite where only a record did."""
    if distance == 0:
        return 0.0
    return distance / noise if noise > 0 else math.inf
