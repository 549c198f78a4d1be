"""Real datasets that scikit-learn carries: no file, no download."""

from __future__ import annotations

import numpy as np

from sordino.data import holdout, preprocess
from sordino.data.recipe import Form, Parts, Reader, Rows


def digits(read: Reader, form: Form) -> Parts:
    """8x8 handwritten digits, ten classes."""
    return _digits(binary=False)


def digits_binary(read: Reader, form: Form) -> Parts:
    """8x8 handwritten digits, odd (1) against even (0): all rows are used, and balanced."""
    return _digits(binary=True)


def breast_cancer(read: Reader, form: Form) -> Parts:
    """Thirty measurements of cell nuclei; 1 is benign, as scikit-learn codes it."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    train, validation, test = holdout.papers(len(bunch.data), 80, "breast-cancer")
    scale = preprocess.MinMax.fit(bunch.data[train], drop_constant=True)
    X, y = preprocess.unit_rows(scale.apply(bunch.data)), bunch.target.astype(np.int64)
    parts: list[Rows] = [(X[part], y[part]) for part in (train, validation, test)]
    return Parts(parts[0], parts[1], parts[2], 1.0, scale.reads_private_data)


def _digits(*, binary: bool) -> Parts:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    # Pixels run from 0 to 16 by the publisher's definition, so nothing is read from the rows.
    X = preprocess.clip_rows(bunch.data / 16.0)
    y = bunch.target.astype(np.int64)
    y = y % 2 if binary else y
    index = holdout.papers(len(X), 80, "digits")
    parts: list[Rows] = [(X[part], y[part]) for part in index]
    return Parts(parts[0], parts[1], parts[2], 1.0, (), image_shape=(8, 8))
