"""Rows on disk, where every worker finds them, and their folds, all of one size."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from erm_study.design import FOLDS, Source
from sklearn.model_selection import KFold

from sordino.data import load
from sordino.estimators.records import Records
from sordino.seeding import stream

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Stored:
    """Where the rows and labels of a source lie, and how many there are."""

    source: Source
    directory: Path
    rows: int
    features: int

    @property
    def training_rows(self) -> int:
        """Rows of every training fold; of larger folds the last row is left out."""
        return self.rows - -(-self.rows // FOLDS)

    @property
    def columns(self) -> int:
        """Weights, the intercept's among them."""
        return self.features + 1

    def read(self) -> tuple[Array, Array]:
        """Rows and labels; rows are mapped from the file, not read."""
        return (
            np.load(self.directory / "X.npy", mmap_mode="r"),
            np.load(self.directory / "y.npy"),
        )

    def split(self, repeat: int, fold: int) -> tuple[Array, Array]:
        """Places of the training and of the held-out rows."""
        folds = KFold(FOLDS, shuffle=True, random_state=repeat).split(np.empty(self.rows))
        training, held_out = list(folds)[fold]
        return training[: self.training_rows], held_out

    def records(self, repeat: int, fold: int) -> tuple[Records, Records]:
        """Training and held-out rows as an estimator would scale them, a 1 appended."""
        X, y = self.read()
        return tuple(  # type: ignore[return-value]
            Records.of(np.ascontiguousarray(X[part]), y[part], 2, 1.0, True)
            for part in self.split(repeat, fold)
        )


def store(source: Source, work: Path, data_dir: Path | None) -> Stored:
    """Write the rows of a source, unless they are there."""
    name = f"{source.data} {source.form} {source.rows}"
    directory = work / "rows" / hashlib.sha256(name.encode()).hexdigest()[:12]
    if not (directory / "y.npy").exists():
        X, y = rows_of(source.data, source.form, source.rows, data_dir)
        directory.mkdir(parents=True, exist_ok=True)
        np.save(directory / "X.npy", X)
        np.save(directory / "y.npy", y)  # last: it says that both are complete
    X = np.load(directory / "X.npy", mmap_mode="r")
    return Stored(source, directory, *X.shape)


def rows_of(
    data: str, form: str | None, rows: int | None, data_dir: Path | None
) -> tuple[Array, Array]:
    """Rows and labels of a dataset, or of a sample of it that is the same every time."""
    loaded = (
        load(data, data_dir=data_dir) if form is None else load(data, form=form, data_dir=data_dir)
    )
    X, y = loaded.train.X, loaded.train.y
    if rows is None or rows >= len(X):
        return X, y
    kept = np.sort(stream("erm study", data, rows).choice(len(X), rows, replace=False))
    return np.ascontiguousarray(X[kept]), y[kept]
