"""`ErmSettings`: what a run of kind "erm" may say, and where its rows lie."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import checks
from sordino.randomness import stream
from sordino.types import Array
from sordino_papers.kinds import read

if TYPE_CHECKING:
    from sordino.data.catalogue.recipe import Splits
    from sordino.estimators.records import FitRecords
    from sordino.estimators.task import Task
    from sordino_papers.bench import Bench

LOSSES = {"logistic": "logistic", "svm": "huber-svm"}


@dataclass(frozen=True)
class ErmSettings:
    """One dataset and one loss.

    Parameters
    ----------
    data, form, folder
        Which rows: of this dataset in this form; of files in this folder of the data directory,
        if one is given (two extracts of IPUMS have the same name).
    rows
        At most so many, a seeded sample; 0 for all.
    loss, l2, huber_width
        "logistic" or "svm" (the rounded hinge), and the regulariser l2/2 ||w||^2.
    epsilons, delta
        Budgets, under replace-one.
    methods
        As `methods.py` names them; "auto" is the method that it takes for a budget.
    folds, scored, tuning
        How many folds rows are cut into, and how many are held out in turn; those beyond the first
        cut are of other cuts. The first `tuning` of them are not shown: tuned methods choose by
        them. If it is 0, they choose by what is shown.
    constant
        "scaled" for the paper's, "one" for that of the estimators (`with_constant`).
    draws
        Draws of the noise on each training without noise of its own.
    fits
        Trainings of each other method, a fold and budget: by its name, or "else".
    tried
        Settings that a tuned method takes the best of, by the method's name: parallel lists, or
        one number for all; or a list of settings. `rate` is in inverse smoothnesses.
    orders
        Highest whole order of the moments accountant in "sgd-ma/2016".
    """

    data: str
    loss: str
    l2: float
    delta: float
    epsilons: tuple[float, ...]
    methods: tuple[str, ...]
    folds: int
    scored: int
    draws: int
    fits: Mapping[str, int]
    orders: int
    huber_width: float = 0.5
    form: str | None = "erm"
    folder: str = ""
    rows: int = 0
    tuning: int = 0
    constant: str = "scaled"
    tried: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> ErmSettings:
        """Of a file; an unknown key is refused."""
        found = read(cls, given, "epsilons", "methods")
        checks.one_of("loss", found.loss, tuple(LOSSES))
        checks.one_of("constant", found.constant, ("scaled", "one"))
        return found

    def task(self, rows: int, columns: int, epsilon: float) -> Task:
        """One fit, as an estimator would state it."""
        from sordino.estimators.task import Task

        return Task(
            kind=LOSSES[self.loss],
            l2=self.l2,
            rows=rows,
            columns=columns,
            norm=1.0,
            epsilon=epsilon,
            delta=self.delta,
            huber_width=self.huber_width,
        )

    def fits_of(self, method: str) -> int:
        """Trainings of a method, a fold and budget."""
        return self.fits.get(method, self.fits["else"])

    def tries(self, method: str) -> list[dict[str, float]]:
        """Settings that are tried, one after the other."""
        checks.one_of("tuned method", method, tuple(self.tried))
        columns = self.tried[method]
        if not isinstance(columns, Mapping):
            return list(columns)
        lists = {name: values for name, values in columns.items() if isinstance(values, Sequence)}
        rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
        return [{**columns, **row} for row in rows]

    @property
    def tuning_folds(self) -> range:
        """Held out to choose settings by."""
        return range(self.tuning)

    @property
    def shown_folds(self) -> range:
        """Held out to be shown."""
        return range(self.tuning, self.scored)

    @property
    def shown(self) -> int:
        """How many these are."""
        return len(self.shown_folds)

    def training_rows(self, rows: int) -> int:
        """Rows to train on, the same for all folds: of larger ones the last is left out."""
        return rows - -(-rows // self.folds)


@dataclass(frozen=True)
class StoredRows:
    """Rows and labels in files, where every worker finds them."""

    directory: str
    settings: ErmSettings

    def read(self) -> tuple[Array, Array]:
        """Rows and labels; rows are mapped from the file, not read."""
        place = Path(self.directory)
        return np.load(place / "X.npy", mmap_mode="r"), np.load(place / "y.npy")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.read()[0].shape
        return rows, columns

    def split(self, held_out: int) -> tuple[Array, Array]:
        """Places of the rows to train on and of those held out."""
        from sklearn.model_selection import KFold

        folds, rows = self.settings.folds, self.shape[0]
        cut, fold = divmod(held_out, folds)
        cuts = KFold(folds, shuffle=True, random_state=cut).split(np.empty(rows))
        training, rest = list(cuts)[fold]
        return training[: self.settings.training_rows(rows)], rest

    def fold(self, held_out: int) -> tuple[FitRecords, FitRecords]:
        """Rows to train on and those held out; all folds have the same number to train on."""
        from sordino.estimators.records import FitRecords

        X, y = self.read()
        return tuple(  # type: ignore[return-value]
            FitRecords.of(np.ascontiguousarray(X[part]), y[part], 2, 1.0, False)
            for part in self.split(held_out)
        )


def stored(settings: ErmSettings, bench: Bench) -> StoredRows:
    """Write the rows, unless they are there."""
    given = settings.data, settings.form, settings.folder, settings.rows, settings.constant
    directory = bench.store("erm rows", *given)
    if not (directory / "y.npy").exists():
        train = _splits(settings, bench).train
        X, y = np.asarray(train.X), np.asarray(train.y)
        if 0 < settings.rows < len(X):
            draw = stream("reproduce", "erm rows", settings.data, settings.rows)
            kept = np.sort(draw.choice(len(X), settings.rows, replace=False))
            X, y = X[kept], y[kept]
        directory.mkdir(parents=True, exist_ok=True)
        X = with_constant(X, settings.constant)
        for name, values in (("X", X), ("y", y)):  # y last: both are there then
            half = directory / f".{name}.{os.getpid()}.npy"
            np.save(half, values)
            half.replace(directory / f"{name}.npy")
    return StoredRows(str(directory), settings)


def with_constant(X: Array, kind: str = "scaled") -> Array:
    """Rows with the constant that the paper appends BEFORE it scales rows to norm 1.

    Its x is in R^(p+1) and has norm 1. Rows here were scaled without the constant; what a 1 became
    in that is a row's largest entry: an indicator, or a number at the top of its range. (An
    estimator's own intercept, "one", is a 1 beside a row of norm 1, and takes half of the norm.)
    """
    one = np.ones((len(X), 1), X.dtype) if kind == "one" else X.max(axis=1, keepdims=True)
    return np.hstack([X, one])


def _splits(settings: ErmSettings, bench: Bench) -> Splits:
    from sordino.data import load
    from sordino.data.catalogue.recipes import recipe
    from sordino.data.sources import data_directory
    from sordino_papers.bench import NotHere

    if not settings.folder:
        return bench.splits(settings.data, settings.form)
    parent = data_directory(bench.data_dir)
    place = None if parent is None else parent / settings.folder
    if place is None or not place.is_dir():
        files = ", ".join(file.name for file in recipe(settings.data).files)
        raise NotHere(f"{settings.folder}/{files} is not in the data directory (docs/guide.md).")
    return load(settings.data, form="erm", data_dir=place)
