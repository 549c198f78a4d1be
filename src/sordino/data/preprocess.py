"""From raw columns to rows of bounded norm; every step says what it read from the data.

A step that learns from rows is a frozen value made by `fit`; `reads_private_data` then names the
statistics it took, because a release that depends on them is not covered by any proof about
training. The same step made from public knowledge (`MinMax.public`, `OneHot.public`, a random
projection) reads nothing. Functions on single rows (`clip_rows`, `unit_rows`, `central_crop`)
never do.

Which rows are held out: the papers' rules, in one place.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from sordino import checks
from sordino.randomness import stream
from sordino.types import Floats

if TYPE_CHECKING:
    import pandas as pd


Form = Literal["papers", "erm"]
Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]
READS = {
    "ranges": "minimum and maximum of every column of the training rows",
    "levels": "levels of the categorical columns of the training rows",
    "standard": "mean and sum of squares of every column, by the publisher",
    "directions": "mean and principal directions of the training rows",
}
"""What a preparation may read from private rows, in words."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Prepared rows before they become datasets, and what the preparation read from them."""

    train: Rows
    validation: Rows | None
    test: Rows | None
    norm_bound: float | None
    reads_private_data: tuple[str, ...]
    image_shape: tuple[int, ...] | None = None


def clip_rows(X: Floats, bound: float = 1.0) -> Floats:
    """Scale down to norm `bound` the rows that are longer; leave the others as they are."""
    checks.positive("bound", bound)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.maximum(1.0, norms / bound))


def unit_rows(X: Floats) -> Floats:
    """Scale every row to norm 1. A row of zeros has no direction and stays zero."""
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(norms > 0, norms, 1.0))


def central_crop(images: npt.NDArray[Any], side: int) -> npt.NDArray[Any]:
    """Cut the central side x side square out of images of shape (n, height, width, ...)."""
    height, width = images.shape[1:3]
    if checks.whole("side", side, at_least=1) > min(height, width):
        checks.fail("side", side, f"<= {min(height, width)}, that of the images")
    top, left = (height - side) // 2, (width - side) // 2
    return images[:, top : top + side, left : left + side]


@dataclass(frozen=True, eq=False)
class MinMax:
    """Each column scaled to [0, 1] between `low` and `high`; only columns in `keep` stay.

    Values outside the range (of rows not seen by `fit`) fall outside [0, 1] and are not clipped,
    as in the papers; the row norm is enforced afterwards. (scikit-learn's `MinMaxScaler` multiplies
    by 1 / span, which gives other last digits: a dataset would get another fingerprint.)
    """

    low: Floats
    high: Floats
    keep: npt.NDArray[np.bool_]
    reads_private_data: tuple[str, ...]

    @classmethod
    def fit(cls, X: Floats, *, drop_constant: bool) -> MinMax:
        """Take the range of each column from `X`; constant columns are dropped, or become 0."""
        return cls.fit_blocks([X], drop_constant=drop_constant)

    @classmethod
    def fit_blocks(cls, blocks: Iterable[Floats], *, drop_constant: bool) -> MinMax:
        """Do as `fit` does on rows that come block by block and need not fit into memory."""
        ranges = [(block.min(axis=0), block.max(axis=0)) for block in blocks]
        low = np.min([lowest for lowest, _ in ranges], axis=0)
        high = np.max([highest for _, highest in ranges], axis=0)
        keep = high > low if drop_constant else np.ones(len(low), dtype=bool)
        if not keep.any():
            checks.fail("X", f"[{len(low)} columns]", "to have a column that is not constant")
        return cls(low, high, keep, (READS["ranges"],))

    @classmethod
    def public(cls, low: npt.ArrayLike, high: npt.ArrayLike) -> MinMax:
        """Use a range that is known without looking at the data."""
        lows, highs = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        if lows.shape != highs.shape or lows.ndim != 1 or not (lows < highs).all():
            checks.fail("low", list(lows.ravel()), "to be below high in every column")
        return cls(lows, highs, np.ones(len(lows), dtype=bool), ())

    def apply(self, X: Floats) -> Floats:
        """Return the kept columns of `X`, scaled."""
        span = np.where(self.high > self.low, self.high - self.low, 1.0)[self.keep]
        return np.asarray((X[:, self.keep] - self.low[self.keep]) / span)


@dataclass(frozen=True, eq=False)
class OneHot:
    """Categorical columns as 0/1 columns, one a level, in the order of `levels`.

    With `drop_first` the first level of each column has no column of its own. A level that is not
    in `levels` (it can only come from rows not seen by `fit`) is all zeros.
    """

    levels: Mapping[str, tuple[str, ...]]
    drop_first: bool
    reads_private_data: tuple[str, ...]

    @classmethod
    def fit(cls, frame: pd.DataFrame, *, drop_first: bool) -> OneHot:
        """Learn the levels of every column of `frame`, sorted as text."""
        levels = {str(c): tuple(sorted(frame[c].astype(str).unique())) for c in frame.columns}
        return cls(levels, drop_first, (READS["levels"],))

    @classmethod
    def public(cls, levels: Mapping[str, Sequence[str]], *, drop_first: bool) -> OneHot:
        """Use levels that the publisher documents; sorted as text."""
        return cls({c: tuple(sorted(v)) for c, v in levels.items()}, drop_first, ())

    def apply(self, frame: pd.DataFrame) -> Floats:
        """Return the 0/1 columns of `frame`, column by column, level by level."""
        width = sum(len(levels) - self.drop_first for levels in self.levels.values())
        if not (len(frame) and width):  # which scikit-learn refuses
            return np.zeros((len(frame), width))
        from sklearn.preprocessing import OneHotEncoder

        encoder = OneHotEncoder(
            categories=[np.array(levels, dtype=object) for levels in self.levels.values()],
            drop="first" if self.drop_first else None,
            handle_unknown="ignore",
            sparse_output=False,
        )
        text = frame[list(self.levels)].astype(str).to_numpy(dtype=object)
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of unknown levels
            return np.asarray(encoder.fit(text[:1]).transform(text))


@dataclass(frozen=True, eq=False)
class Projection:
    """A linear map to fewer columns: (X - centre) @ directions."""

    centre: Floats
    directions: Floats
    reads_private_data: tuple[str, ...]

    @classmethod
    def pca(cls, X: Floats, components: int) -> Projection:
        """Fit the leading principal directions of `X`, centred; the same on every run."""
        from scipy.linalg import eigh

        most = min(X.shape)
        if checks.whole("components", components, at_least=1) > most:
            checks.fail("components", components, f"<= {most}")
        # Only the leading eigenvectors of the covariance: exact like scikit-learn's full solver but
        # for last digits and signs, several times faster at 3,072 columns, without a random start.
        centre, width = X.mean(axis=0), X.shape[1]
        centred = X - centre
        # On one thread, as on every machine: more of them give other last digits. Here, since a
        # library that is loaded later (scipy has one of its own) escapes an earlier limit.
        with threadpool_limits(1, "blas"):
            _, vectors = eigh(centred.T @ centred, subset_by_index=(width - components, width - 1))
        leading = vectors[:, ::-1]
        # An eigenvector's sign is arbitrary: make its largest entry positive.
        largest = leading[np.abs(leading).argmax(axis=0), np.arange(components)]
        return cls(centre, leading * np.sign(largest), (READS["directions"],))

    @classmethod
    def random(cls, features: int, components: int) -> Projection:
        """Draw a Gaussian random projection; the same one for the same shape, whatever the data."""
        # Drawn from a named stream rather than by scikit-learn, whose legacy generator is not ours
        # to keep stable. Entries N(0, 1/components) preserve norms on average.
        draws = stream("gaussian random projection", features, components)
        directions = draws.normal(scale=components**-0.5, size=(features, components))
        return cls(np.zeros(features), directions, ())

    def apply(self, X: Floats) -> Floats:
        """Return the projected rows."""
        return np.asarray((X - self.centre) @ self.directions)


Index = npt.NDArray[np.int64]


def first_tenth(rows: int) -> tuple[slice, slice]:
    """Return the positions of (the training rows, the validation rows): the first 10 % are held."""
    cut = rows // 10
    return slice(cut, rows), slice(0, cut)


def shuffled(rows: int, train_percent: int, name: str) -> tuple[Index, Index]:
    """Return shuffled positions of (train_percent %, the rest), always alike for one `name`."""
    order = stream("split", name, train_percent).permutation(rows)
    # Whole-number arithmetic: 0.85 * n in floating point may fall just below an integer.
    cut = rows * train_percent // 100
    return order[:cut], order[cut:]


def papers(rows: int, train_percent: int, name: str) -> tuple[Index, Index, Index]:
    """Return (train, validation, test): a shuffled test split, then the first tenth of the rest."""
    rest, test = shuffled(rows, train_percent, name)
    kept, held = first_tenth(len(rest))
    return rest[kept], rest[held], test
