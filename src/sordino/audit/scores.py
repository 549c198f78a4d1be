"""From outputs to scores: how much a run looks like one on D' rather than on D.

A score may be anything that was fixed before the tested runs were seen. So the first half of the
runs learns one and chooses its threshold, and the second half tests both: `Fitted` is all that
crosses from one half to the other.

What is learned is the best of a few plain attacks, judged inside the first half on runs that the
attack in question did not learn from:

- a direction: the linear discriminant, its covariance shrunk (what tells two Gaussians apart);
- a direction in outputs and their squares, which also sees a difference in spread;
- outputs that repeat exactly, as those of a fixed or short seed do: how often each was seen in
  either world;
- single values that repeat exactly, as those without noise do, column by column.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.errors import InvalidArgument
from sordino.types import Floats

Folds = npt.NDArray[np.int64]

SHRINKAGES = np.array([1e-12, 1e-8, 1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 1.0])
"""Weights of the identity that are tried; at 1 the direction is the mean difference itself."""


@dataclass(frozen=True, eq=False)
class _Moments:
    """Numbers of runs, sums and sums of products of both worlds: those of folds add up."""

    runs: tuple[int, int]
    sums: Floats
    products: Floats

    @classmethod
    def of(cls, first: Floats, second: Floats) -> Self:
        sums = np.stack([first.sum(axis=0), second.sum(axis=0)])
        return cls((len(first), len(second)), sums, first.T @ first + second.T @ second)

    def plus(self, other: _Moments, sign: int = 1) -> _Moments:
        runs = self.runs[0] + sign * other.runs[0], self.runs[1] + sign * other.runs[1]
        return _Moments(runs, self.sums + sign * other.sums, self.products + sign * other.products)

    def paths(self) -> tuple[Floats, Floats]:
        """Directions [shrinkage, feature], each like a log likelihood ratio, and their offsets."""
        means = self.sums / np.array(self.runs)[:, None]
        within = self.products - sum(
            many * np.outer(mean, mean) for many, mean in zip(self.runs, means, strict=True)
        )
        sizes, basis = np.linalg.eigh(within / max(1, sum(self.runs) - 2))
        sizes = np.maximum(sizes, 0.0)
        level = (float(sizes.mean()) if len(sizes) else 0.0) or 1.0
        gap = basis.T @ (means[1] - means[0])
        rho = SHRINKAGES[:, None]
        found = (gap / ((1 - rho) * sizes + rho * level)) @ basis.T
        return found, found @ means.mean(axis=0)


class Direction:
    """The direction without each fold, and with all; made by `of`."""

    def __init__(self, total: _Moments, scores: list[tuple[Floats, Floats]]) -> None:
        self._total = total
        self._scores = scores
        self._best = int(np.argmax(np.mean([_separation(*each) for each in scores], axis=0)))

    @classmethod
    def of(
        cls, first: Floats, second: Floats, first_folds: Folds, second_folds: Folds, *, folds: int
    ) -> Self:
        """Learn from rows of both worlds, each in one of the folds."""
        inside = [(first[first_folds == k], second[second_folds == k]) for k in range(folds)]
        parts = [_Moments.of(*rows) for rows in inside]
        total = parts[0]
        for part in parts[1:]:
            total = total.plus(part)
        scores = []
        for part, rows in zip(parts, inside, strict=True):
            along, offsets = total.plus(part, -1).paths()
            scores.append((rows[0] @ along.T - offsets, rows[1] @ along.T - offsets))
        return cls(total, scores)

    def held_out(self, fold: int) -> tuple[Floats, Floats]:
        """Scores of the runs of a fold, along the direction learned from the others."""
        first, second = self._scores[fold]
        return first[:, self._best], second[:, self._best]

    def whole(self) -> Callable[[Floats], Floats]:
        """The score along the direction learned from all runs."""
        along, offsets = (found[self._best] for found in self._total.paths())
        return lambda rows: np.asarray(rows @ along - offsets)


def _separation(first: Floats, second: Floats) -> Floats:
    """How many standard deviations apart two worlds are, for each column."""
    gap = second.mean(axis=0) - first.mean(axis=0)
    noise = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    still = np.where(gap > 0, 1e300, 0.0)
    return np.asarray(np.divide(gap, noise, out=still, where=noise > 0))


Score = Callable[[Floats], npt.ArrayLike]
Goal = Callable[[Floats, Floats], float]

FOLDS = 4
BETTER = 1.02
"""By how much the bound must grow for a less plain attack to be taken."""
MOST_SQUARED = 200
"""Columns up to which squares are looked at."""
_GLANCE = 500  # runs a world in which a column that repeats shows it
_SAMPLE = 200  # runs a world on which a given score is tried
_SMOOTHING = 0.5  # added to every count: what was never seen is not impossible


@dataclass(frozen=True, eq=False)
class Fitted:
    """A score, fixed.

    Parameters
    ----------
    name
        What it looks at, for the text of an observation.
    score
        From outputs [run, value] to one number a run; higher says D'.
    negative, positive
        Scores of runs of the first half, each by a score that was learned without it: what fresh
        runs will look like, for choosing a threshold.
    """

    name: str
    score: Score
    negative: Floats
    positive: Floats

    def __call__(self, negative: Floats, positive: Floats) -> tuple[Floats, Floats]:
        """Scores of other runs, of D and of D'."""
        return _scored(self.score, negative), _scored(self.score, positive)


@dataclass(frozen=True, eq=False)
class _Given(Fitted):
    """Somebody's function: it sees the runs of both worlds together, and in no order.

    Given one world at a time, it could tell the world by the batch. That would not be one attack on
    one run, repeated, and the errors would be no independent trials.
    """

    stream: np.random.Generator

    def __call__(self, negative: Floats, positive: Floats) -> tuple[Floats, Floats]:
        return _mixed(self.score, negative, positive, self.stream)


def known(score: Score, negative: Floats, positive: Floats, name: str) -> Fitted:
    """A score of ours that needs no learning: a likelihood ratio, or a loss."""
    return Fitted(name, score, _scored(score, negative), _scored(score, positive))


def given(score: Score, negative: Floats, positive: Floats, stream: np.random.Generator) -> Fitted:
    """Somebody's function, if it judges each run by itself.

    Raises
    ------
    InvalidArgument
        If the score of a run changes with the runs beside it; if the function raises; or if it does
        not return one number a run.
    """
    _check_each_by_itself(score, np.concatenate([negative[:_SAMPLE], positive[:_SAMPLE]]))
    name = f"the score {getattr(score, '__name__', type(score).__name__)}"
    return _Given(name, score, *_mixed(score, negative, positive, stream), stream)


def _mixed(
    score: Score, negative: Floats, positive: Floats, stream: np.random.Generator
) -> tuple[Floats, Floats]:
    both = np.concatenate([negative, positive])
    order = stream.permutation(len(both))
    found = np.empty(len(both))
    found[order] = _scored(score, both[order])
    return found[: len(negative)], found[len(negative) :]


def _check_each_by_itself(score: Score, outputs: Floats) -> None:
    raw = _called(score, outputs)
    wanted, found = checked(raw, len(outputs))[::2], _scored(score, outputs[::2])
    kind = np.result_type(np.asarray(raw), np.float32)
    largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
    # Sums in another order differ in their last digits.
    slack = math.sqrt(np.finfo(kind).eps) * largest
    if not np.allclose(found, wanted, rtol=0.0, atol=slack):
        hint = "Its number for a run must not change with the other runs it is given."
        checks.fail("score", "[one that looks at all runs]", "to judge each run by itself", hint)


def _scored(score: Score, outputs: Floats) -> Floats:
    return checked(_called(score, outputs), len(outputs))


def _called(score: Score, outputs: Floats) -> npt.ArrayLike:
    try:
        return score(outputs.copy())  # it may work in place
    except InvalidArgument:
        raise
    except Exception as error:  # whatever a score raises is told in a sentence
        what = f"[a function that raised {type(error).__name__}]"
        said = " ".join(str(error).split())[:200]
        checks.fail("score", what, "to return one number a run", f"It said: {said}" if said else "")


def checked(scores: npt.ArrayLike, runs: int) -> Floats:
    """One number a run, none of them NaN."""
    hint = "A score takes outputs [run, value] and returns one number a run."
    try:
        found = np.asarray(scores)
    except ValueError:
        checks.fail("score", "[a ragged list]", f"to be {runs} numbers", hint)
    if found.shape != (runs,):
        checks.fail("score", f"[shape {found.shape} for {runs} runs]", f"to be ({runs},)", hint)
    if found.dtype.kind not in "fiub":
        checks.fail("score", f"[an array of {found.dtype}]", "to be real numbers", hint)
    if np.isnan(found).any():
        checks.fail("score", "[NaN]", "to be a number for every run")
    return found.astype(np.float64)


def learned(negative: Floats, positive: Floats, goal: Goal, stream: np.random.Generator) -> Fitted:
    """The best attack of those above, and its scores on runs that it did not learn from.

    Parameters
    ----------
    negative, positive
        Outputs [run, value] of D and D', of the first half of the runs only.
    goal
        What scores are worth: the bound that such scores would give.
    stream
        Parts the runs into folds.
    """
    folds = [_parts(len(runs), stream) for runs in (negative, positive)]
    best: tuple[float, Fitted] | None = None
    for attack in _attacks(negative, positive):
        cross = [np.empty(len(negative)), np.empty(len(positive))]
        attack.prepare(negative, positive, folds)
        for k in range(FOLDS):
            tested = folds[0] == k, folds[1] == k
            cross[0][tested[0]], cross[1][tested[1]] = attack.without(k)
        worth = goal(*cross)
        if best is None or worth > BETTER * best[0]:
            best = worth, Fitted(attack.name, attack.whole(), *cross)
    assert best is not None
    return best[1]


def _parts(many: int, stream: np.random.Generator) -> npt.NDArray[np.int64]:
    return np.asarray(stream.permutation(many) % FOLDS)


def _attacks(negative: Floats, positive: Floats) -> list[_Attack]:
    """Those that may do something here, the plainest first: it stays if no other is better."""
    found: list[_Attack] = [_Along(squares=False)]
    if negative.shape[1] <= MOST_SQUARED:
        found.append(_Along(squares=True))
    both = np.concatenate([negative, positive])
    rows = hashed(both)
    if len(np.unique(rows)) < len(rows):
        found.append(_Repeated("outputs that repeat exactly", None))
    glance = np.sort(np.concatenate([negative[:_GLANCE], positive[:_GLANCE]]), axis=0)
    repeats = (glance[1:] == glance[:-1]).sum(axis=0)
    if both.shape[1] > 1 and (columns := np.flatnonzero(repeats > 1)).size:
        found.append(_Repeated("values that repeat exactly", columns))
    return found


class _Attack(ABC):
    """A way to learn a score; `prepare` first."""

    name: str

    @abstractmethod
    def prepare(self, negative: Floats, positive: Floats, folds: list[Any]) -> None:
        """Look at all learning runs, and the fold that each is in."""

    @abstractmethod
    def without(self, fold: int) -> tuple[Floats, Floats]:
        """Scores of the runs of one fold, learned from the others."""

    @abstractmethod
    def whole(self) -> Score:
        """The score learned from all runs."""


class _Along(_Attack):
    def __init__(self, *, squares: bool) -> None:
        self.squares = squares
        self.name = "a learned direction" + (" of outputs and their squares" if squares else "")

    def prepare(self, negative: Floats, positive: Floats, folds: list[Any]) -> None:
        self.features = _Features.of(negative, positive, squares=self.squares)
        rows = self.features(negative), self.features(positive)
        self.direction = Direction.of(*rows, *folds, folds=FOLDS)

    def without(self, fold: int) -> tuple[Floats, Floats]:
        return self.direction.held_out(fold)

    def whole(self) -> Score:
        features, along = self.features, self.direction.whole()
        return lambda outputs: along(features(outputs))


@dataclass(frozen=True, eq=False)
class _Features:
    """Outputs in standard units, and their squares if wanted; without columns that stand still.

    Of very many columns those are kept that differ most between the worlds.
    """

    kept: npt.NDArray[np.int64]
    largest: Floats
    centre: Floats
    unit: Floats
    squares: bool

    MOST = 1200
    FAR = 1e60

    @classmethod
    def of(cls, negative: Floats, positive: Floats, *, squares: bool) -> Self:
        # First by the largest number of each column, so that no square is too large or small.
        largest = np.maximum(np.abs(negative).max(axis=0), np.abs(positive).max(axis=0))
        largest = np.where(largest > 0, largest, 1.0)
        worlds = negative / largest, positive / largest
        means = worlds[0].mean(axis=0), worlds[1].mean(axis=0)
        spread = np.sqrt((worlds[0].var(axis=0) + worlds[1].var(axis=0)) / 2)
        gap = np.abs(means[0] - means[1])
        # Values that stand still have no spread: then how far apart they are is the unit.
        unit = np.where(spread > 0, spread, gap)
        kept = np.flatnonzero(unit > 0)
        if len(kept) > cls.MOST:
            kept = np.sort(kept[np.argsort(gap[kept] / unit[kept])[-cls.MOST :]])
        centre = (means[0] + means[1]) / 2
        return cls(kept, largest[kept], centre[kept], unit[kept], squares)

    def __call__(self, outputs: Floats) -> Floats:
        with np.errstate(over="ignore"):  # a run may be further out than all that were seen
            standard = (outputs[:, self.kept] / self.largest - self.centre) / self.unit
        standard = np.clip(standard, -self.FAR, self.FAR)
        return np.hstack([standard, standard**2]) if self.squares else standard


class _Repeated(_Attack):
    """How often each output, or each value of some columns, was seen in either world."""

    def __init__(self, name: str, columns: npt.NDArray[np.int64] | None) -> None:
        self.name = name
        self.columns = columns

    def _keys(self, outputs: Floats) -> npt.NDArray[np.uint64]:
        """[run, key]: one key a run, or one a column."""
        if self.columns is None:
            return hashed(outputs)[:, None]
        return _bits(outputs[:, self.columns])

    def prepare(self, negative: Floats, positive: Floats, folds: list[Any]) -> None:
        self.keys = self._keys(negative), self._keys(positive)
        self.folds = folds

    def _table(self, left_out: int | None) -> list[_Counts]:
        learn = [
            keys if left_out is None else keys[fold != left_out]
            for keys, fold in zip(self.keys, self.folds, strict=True)
        ]
        return [_Counts.of(*columns) for columns in zip(learn[0].T, learn[1].T, strict=True)]

    def without(self, fold: int) -> tuple[Floats, Floats]:
        table = self._table(fold)
        found = [
            _total(table, keys[folds == fold])
            for keys, folds in zip(self.keys, self.folds, strict=True)
        ]
        return found[0], found[1]

    def whole(self) -> Score:
        table = self._table(None)
        return lambda outputs: _total(table, self._keys(outputs))


@dataclass(frozen=True, eq=False)
class _Counts:
    """Log ratio of the shares of each key in the two worlds; 0 for a key that was never seen."""

    keys: npt.NDArray[np.uint64]
    ratios: Floats

    @classmethod
    def of(cls, first: npt.NDArray[np.uint64], second: npt.NDArray[np.uint64]) -> Self:
        keys, places = np.unique(np.concatenate([first, second]), return_inverse=True)
        seen = [
            np.bincount(part, minlength=len(keys)) + _SMOOTHING
            for part in (places[: len(first)], places[len(first) :])
        ]
        shares = math.log(len(second) / len(first))
        return cls(keys, np.log(seen[1] / seen[0]) - shares)

    def __call__(self, keys: npt.NDArray[np.uint64]) -> Floats:
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.ratios[places], 0.0)


def _total(table: list[_Counts], keys: npt.NDArray[np.uint64]) -> Floats:
    found = np.zeros(len(keys))
    for counts, column in zip(table, keys.T, strict=True):
        found += counts(column)
    return found


def _bits(values: Floats) -> npt.NDArray[np.uint64]:
    """The bits of each number; those of -0.0 are those of 0.0."""
    return np.ascontiguousarray(values + 0.0).view(np.uint64)


def hashed(rows: Floats) -> npt.NDArray[np.uint64]:
    """64 bits for each row: equal for equal rows, and next to never for others."""
    mixed = _bits(rows).copy()
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    odd = np.random.default_rng(0).integers(0, 1 << 63, rows.shape[1], dtype=np.uint64) * 2 + 1
    return np.asarray((mixed * odd.astype(np.uint64)).sum(axis=1, dtype=np.uint64))
