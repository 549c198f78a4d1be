"""Real datasets that scikit-learn carries: no file, no download."""

from __future__ import annotations

import numpy as np

from sordino.data import holdout, preprocess
from sordino.data.catalogue.recipe import Form, Parts, Reader


def digits(read: Reader, form: Form, *, binary: bool = False) -> Parts:
    """8x8 handwritten digits, ten classes; or odd (1) against even (0): all rows, and balanced."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    # Pixels run from 0 to 16 by the publisher's definition, so nothing is read from the rows.
    X = preprocess.clip_rows(bunch.data / 16.0)
    y = bunch.target.astype(np.int64)
    y = y % 2 if binary else y
    index = holdout.papers(len(X), 80, "digits")
    train, validation, test = ((X[part], y[part]) for part in index)
    return Parts(train, validation, test, 1.0, (), image_shape=(8, 8))


def breast_cancer(read: Reader, form: Form) -> Parts:
    """Thirty measurements of cell nuclei; 1 is benign, as scikit-learn codes it."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    index = holdout.papers(len(bunch.data), 80, "breast-cancer")
    scale = preprocess.MinMax.fit(bunch.data[index[0]], drop_constant=True)
    X, y = preprocess.unit_rows(scale.apply(bunch.data)), bunch.target.astype(np.int64)
    train, validation, test = ((X[part], y[part]) for part in index)
    return Parts(train, validation, test, 1.0, scale.reads_private_data)
