"""The tables: what is public of each, and whether it chose the rules or judges them.

Every bound here is what a user would know without the rows: how a pixel is coded, what a
publisher's page says, a round number. Nothing is read off the rows. One-hot columns run from 0 to
1. Two tables come from recipes that scale their rows to norm 1 and have no bounds.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sordino import data
from sordino.data import sources
from sordino.data.catalogue import files, tabular
from sordino.data.catalogue.tabular import ParsedTable
from sordino.data.preprocess import OneHot
from sordino.types import Array, Floats, Ints

TUNING, PARTLY, JUDGING = "tuning", "partly", "judging"
_Rows = tuple[Array, Array]
_Pairs = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Table:
    """One table of the study.

    Parameters
    ----------
    name, role
        What it is called; whether public rules were chosen on it, or it judges them, or judges all
        but one: the share of the budget for a centre, and from what noise on there is none.
    read
        Its rows and labels, or targets.
    known
        Where the bounds come from, in words.
    bounds
        PUBLIC (low, high) of the first columns; those after them are 0 or 1. A single pair holds
        for all columns. None: rows have norm at most 1.
    classes
        How many; 0 for a regression.
    target
        PUBLIC bounds of a regression's target.
    held
        Share of the rows that is held out.
    most_rows
        Of larger tables so many rows are used: a fixed sample.
    fits
        Competitors that are too slow here for every fit, and how many they get.
    version
        Raised when `read` changes.
    """

    name: str
    role: str
    read: Callable[[], _Rows]
    known: str
    bounds: tuple[float, float] | _Pairs | None
    classes: int = 2
    target: tuple[float, float] | None = None
    held: float = 0.25
    most_rows: int = 50_000
    fits: tuple[tuple[str, int], ...] = ()
    version: int = 1

    @property
    def facts(self) -> dict[str, Any]:
        """What a result on it depends on."""
        names = ("name", "bounds", "classes", "target", "held", "most_rows", "version")
        return {name: getattr(self, name) for name in names}

    def fits_of(self, competitor: str, most: int) -> int:
        """How many fits this competitor gets."""
        return min(most, dict(self.fits).get(competitor, most))


@dataclass(frozen=True, eq=False)
class Rows:
    """A table that was read."""

    X: Array
    y: Array
    bounds: tuple[Floats, Floats] | None

    @property
    def unit(self) -> Array:
        """Columns clipped to their bounds and mapped to [0, 1]: what a user would do by hand."""
        if self.bounds is None:
            return self.X
        low, high = (each.astype(self.X.dtype) for each in self.bounds)
        return np.clip((self.X - low) / (high - low), 0, 1)


@functools.lru_cache(maxsize=2)
def rows_of(table: Table) -> Rows:
    """Its rows, at most `most_rows` of them, in a fixed order."""
    X, y = table.read()
    kept = np.random.default_rng(23).permutation(len(X))[: table.most_rows]
    X = np.ascontiguousarray(X[kept])
    bounds = None
    if table.bounds is not None:
        pairs = np.array(table.bounds, dtype=np.float64)
        if pairs.ndim == 1:
            pairs = np.tile(pairs, (X.shape[1], 1))
        ones = np.tile((0.0, 1.0), (X.shape[1] - len(pairs), 1))
        low, high = np.concatenate([pairs, ones]).T.copy()
        bounds = low, high
    return Rows(X, y[kept], bounds)


def smaller(table: Table, most_rows: int) -> Table:
    """The same table with fewer rows."""
    return replace(table, most_rows=min(table.most_rows, most_rows))


# How each is read -----------------------------------------------------------------------------


def _embedded(name: str) -> _Rows:
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return X, y


def _odd_digits() -> _Rows:
    X, y = _embedded("digits")
    return X, y % 2


def _recipe(name: str) -> _Rows:
    splits = data.load(name)
    parts = [each for each in (splits.train, splits.validation, splits.test) if each]
    X, y = ([np.asarray(getattr(part, of)) for part in parts] for of in "Xy")
    return np.concatenate(X), np.concatenate(y)


def _wide(table: ParsedTable, without: tuple[str, ...] = ()) -> Floats:
    """Numbers, then a 0/1 column for every documented level."""
    words = table.frame[[c for c in table.categorical if c not in without]]
    levels = {c: (table.levels or _KDD_LEVELS)[c] for c in words.columns}
    one_hot = OneHot.public(levels, drop_first=False)
    numbers = table.frame[list(table.numeric)].to_numpy(dtype=np.float64)
    return np.hstack([numbers, one_hot.apply(words)])


def _adult() -> _Rows:
    found = []
    for raw, skip in ((files.ADULT_DATA, 0), (files.ADULT_TEST, 1)):
        table = tabular.parse_adult(raw, sources.read(raw), skip=skip)
        found.append((_wide(table), table.y))
    X, y = zip(*found, strict=True)
    return np.concatenate(X), np.concatenate(y)


def _bank() -> _Rows:
    table = tabular.parse_bank(files.BANK, sources.read(files.BANK))
    return _wide(table), table.y


_KDD_LEVELS = {
    "1": ("tcp", "udp", "icmp"),
    "3": ("SF", "S0", "S1", "S2", "S3", "REJ", "RSTO", "RSTR", "RSTOS0", "SH", "OTH"),
}
_KDD_COUNTS = 19  # of the numbers, the first are counts without a limit; then come flags and rates


def _kddcup99() -> _Rows:
    """Counts by their logarithm; the service's levels are documented nowhere, and left out."""
    table = tabular.parse_kddcup99(files.KDD_TENTH, sources.read(files.KDD_TENTH))
    X = _wide(table, without=("2",))
    X[:, :_KDD_COUNTS] = np.log1p(X[:, :_KDD_COUNTS])
    return X, table.y


@functools.lru_cache(maxsize=1)
def _covertype() -> Ints:
    import pandas as pd

    content = io.BytesIO(sources.read(files.COVTYPE))
    return pd.read_csv(content, header=None, dtype=np.int32).to_numpy()


def _forest() -> _Rows:
    table = _covertype()
    return table[:, :-1].astype(np.float64), table[:, -1].astype(np.int64) - 1


def _elevation() -> _Rows:
    """Metres above the sea, from the other columns."""
    table = _covertype()
    return table[:, 1:-1].astype(np.float64), table[:, 0].astype(np.float64)


def _synthetic() -> _Rows:
    from sklearn.datasets import make_classification

    X, y = make_classification(
        20_000,
        100,
        n_informative=20,
        n_redundant=20,
        n_classes=5,
        n_clusters_per_class=1,
        class_sep=2.0,
        random_state=23,
    )
    return X, y


# What is public of each ---------------------------------------------------------------------------

_BREAST = tuple(
    (0.0, float(high))
    for high in (
        *(30, 40, 200, 3000, 0.2, 0.4, 0.5, 0.3, 0.4, 0.1),  # means
        *(3, 5, 25, 600, 0.04, 0.15, 0.4, 0.06, 0.08, 0.03),  # their errors
        *(40, 50, 300, 5000, 0.3, 1.5, 1.5, 0.3, 0.7, 0.3),  # the worst
    )
)
_WINE = (
    *((11.0, 15.0), (0.0, 6.0), (1.0, 4.0), (10.0, 30.0), (70.0, 170.0), (0.0, 4.0), (0.0, 6.0)),
    *((0.0, 1.0), (0.0, 4.0), (0.0, 13.0), (0.0, 2.0), (1.0, 4.0), (200.0, 1700.0)),
)
# Age, weight of the census, years of schooling, capital gains and losses (dollars), hours a week.
_ADULT = ((15.0, 90.0), (0.0, 1e6), (0.0, 16.0), (0.0, 1e5), (0.0, 5000.0), (0.0, 100.0))
# Age, balance (euros), day, month, seconds of the call, calls of this campaign, days since the
# last one (-1: none), calls before.
_BANK = (
    *((15.0, 95.0), (-5000.0, 20_000.0), (1.0, 31.0), (1.0, 12.0), (0.0, 3600.0)),
    *((0.0, 60.0), (-1.0, 1000.0), (0.0, 60.0)),
)
_RATE = (0.0, 1.0)
_KDD = (
    # ln(1 + seconds), two of bytes (10^9), then counts; a window of 2 s, then 100 connections.
    *((0.0, 11.0), (0.0, 21.0), (0.0, 21.0)),
    *[(0.0, 7.0)] * (_KDD_COUNTS - 3),
    *((0.0, 512.0), (0.0, 512.0), *[_RATE] * 7),
    *((0.0, 255.0), (0.0, 255.0), *[_RATE] * 8),
)
# Aspect and slope (degrees), distances (metres; to roads and fires up to 8 km), shades of a byte.
_LAND = (
    *((0.0, 360.0), (0.0, 90.0), (0.0, 1500.0), (-200.0, 700.0), (0.0, 8000.0)),
    *((0.0, 255.0), (0.0, 255.0), (0.0, 255.0), (0.0, 8000.0)),
)
_SLOW_MNIST = (("before", 5), ("diffprivlib", 3), ("diffprivlib-nb", 5), ("none", 3))
_PIXELS = "how a pixel is coded"
_PAGE = "scikit-learn's page of the table, rounded outwards"
_ROUND = "round numbers from what a column means"
_NORM = "none; the recipe scales rows to norm 1"

TABLES = (
    # Those that chose rules.
    Table("adult", TUNING, _adult, _ROUND, _ADULT),
    Table("mnist-binary", TUNING, functools.partial(_recipe, "mnist-binary"), _NORM, None),
    Table("cifar2", TUNING, functools.partial(_recipe, "cifar2"), _NORM, None),
    Table("digits/binary", TUNING, _odd_digits, _PIXELS, (0.0, 16.0)),
    Table("synthetic", TUNING, _synthetic, "round numbers", (-10.0, 10.0), classes=5),
    Table(
        "diabetes",
        TUNING,
        functools.partial(_embedded, "diabetes"),
        "scikit-learn's page: columns have sum of squares 1; targets 25 to 346, rounded outwards",
        (-0.2, 0.2),
        0,
        (0.0, 400.0),
    ),
    # Those that chose the centre's share, and judge all else.
    Table("digits", PARTLY, functools.partial(_embedded, "digits"), _PIXELS, (0.0, 16.0), 10),
    Table("breast-cancer", PARTLY, functools.partial(_embedded, "breast_cancer"), _PAGE, _BREAST),
    Table("wine", PARTLY, functools.partial(_embedded, "wine"), _PAGE, _WINE, 3),
    # Those that judge.
    Table("bank", JUDGING, _bank, _ROUND, _BANK),
    Table("kddcup99", JUDGING, _kddcup99, _ROUND, _KDD),
    Table("forest7", JUDGING, _forest, _ROUND, ((1500.0, 4000.0), *_LAND), 7),
    Table(
        "mnist",
        JUDGING,
        functools.partial(_recipe, "mnist"),
        _PIXELS,
        (0.0, 1.0),
        10,
        held=1 / 7,
        most_rows=70_000,
        fits=_SLOW_MNIST,
    ),
    Table("elevation", JUDGING, _elevation, _ROUND, _LAND, 0, (1500.0, 4000.0)),
)
BY_NAME = {table.name: table for table in TABLES}
