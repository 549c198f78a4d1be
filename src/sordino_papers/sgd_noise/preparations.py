"""Rows as the papers' authors prepared them, where that moves what noise does to a model.

Their code is public (github.com/microsoft/intrinsic-private-sgd). It differs from our recipes in
what no other number depends on: principal components are fitted on training and validation rows
together, and turned so that the largest score of each is positive (scikit-learn's rule until 1.5);
random projections, and Forest's split into training and test rows, are drawn without a seed, and
only their law is known. A noise vector that is given once and for all meets other weights when an
axis is turned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from sordino import checks, randomness
from sordino.data import preprocess, sources
from sordino.data.catalogue import files, images, recipes
from sordino.data.dataset import Dataset
from sordino.types import Floats

if TYPE_CHECKING:
    from sordino_papers.runs import RunStore

Preparation = Literal["recipe", "components", "projections", "tests"]
RANDOM: tuple[Preparation, ...] = ("projections", "tests")
"""Those of which there are many."""
_Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pixels:
    """Images as rows, of two classes: the training rows with their validation rows first."""

    X: Floats
    y: _Labels
    X_test: Floats
    y_test: _Labels

    def cast(self, projection: preprocess.Projection, *, scaled: bool, name: str) -> _Rows:
        """Rows of a projection; the first tenth is for validation, and is left out."""
        kept, _ = preprocess.first_tenth(len(self.X))
        made = []
        for X, y in ((self.X[kept], self.y[kept]), (self.X_test, self.y_test)):
            cast = projection.apply(X)
            cast = preprocess.clip_rows(cast) if scaled else cast
            made.append(Dataset(cast.astype(np.float32), y, 1.0 if scaled else None, name))
        return made[0], made[1]


_Rows = tuple[Dataset, Dataset]
"""Rows to train on, and held-out ones with labels 0 and 1."""


def prepare(
    store: RunStore,
    data: str,
    preparation: Preparation,
    *,
    classes: Sequence[int] = (),
    scaled: bool = True,
    many: int = 1,
    components: int = images.COMPONENTS,
) -> Iterator[_Rows]:
    """`many` preparations of a dataset if they are random, else one.

    Parameters
    ----------
    store
        Where data are read.
    data
        A recipe; of "components" and "projections", one that is made of images.
    preparation
        "recipe": as it is. "tests": as it is, then with other test rows, as many, drawn from all
        rows. (Not from those that are not trained on: the few weights of a linear model do not know
        so many rows by heart, and so it need not be trained again.) Else as above.
    classes
        Of "components" and "projections": the images' labels that become 0 and 1.
    scaled
        Whether rows longer than 1 are scaled to 1.
    many
        How many.
    components
        Columns.
    """
    checks.one_of("rows", preparation, get_args(Preparation))
    if preparation in ("recipe", "tests"):
        splits = store.splits(data)
        train, test = splits.train, splits.test
        assert test is not None
        yield train, test
        parts = [part for part in (train, splits.validation, test) if part is not None]
        X, y = (np.concatenate([getattr(part, name) for part in parts]) for name in "Xy")
        for number in range(1, many if preparation == "tests" else 1):
            stream = randomness.stream("reproduce", "test rows", number)
            rows = stream.permutation(len(X))[: test.rows]
            yield train, Dataset(X[rows], y[rows], None, train.name)
        return
    pixels = _pixels(store, data, classes)
    if preparation == "components":
        yield pixels.cast(turn(pixels.X, components), scaled=scaled, name=data)
        return
    for number in range(many):
        stream = randomness.stream("reproduce", "projection", number)
        directions = stream.normal(scale=components**-0.5, size=(pixels.X.shape[1], components))
        random = preprocess.Projection(np.zeros(pixels.X.shape[1]), directions, ())
        yield pixels.cast(random, scaled=scaled, name=data)


def turn(X: Floats, components: int) -> preprocess.Projection:
    """Principal directions of rows, each turned so that its largest score is positive."""
    found = preprocess.Projection.pca(X, components)
    with threadpool_limits(1, "blas"):
        scores = found.apply(X)
    largest = scores[np.abs(scores).argmax(axis=0), np.arange(components)]
    return preprocess.Projection(
        found.centre, found.directions * np.sign(largest), found.reads_private_data
    )


def _pixels(store: RunStore, data: str, classes: Sequence[int]) -> Pixels:
    """Images of two classes, pixels between 0 and 1, as the raw files order them."""
    if len(classes) != 2:
        checks.fail("classes", list(classes), "to be two labels", "The second one becomes 1.")
    source = recipes.recipe(data).files
    if files.CIFAR2 in source:
        held = images.parse_cifar(sources.read(files.CIFAR2, store.data_dir))
        rest, test = ((held[f"x_{part}"], held[f"y_{part}"]) for part in ("train", "test"))
        return Pixels(*_chosen(*rest, classes), *_chosen(*test, classes))
    if source != files.MNIST:
        checks.fail("data", data, "to be made of images")
    splits = store.splits("mnist")
    assert splits.validation is not None
    assert splits.test is not None
    both = splits.validation, splits.train
    X, y = (np.concatenate([getattr(part, name) for part in both]) for name in "Xy")
    return Pixels(*_chosen(X, y, classes), *_chosen(splits.test.X, splits.test.y, classes))


def _chosen(
    X: npt.NDArray[np.generic], y: npt.ArrayLike, classes: Sequence[int]
) -> tuple[Floats, _Labels]:
    labels = np.asarray(y).ravel()
    kept = np.isin(labels, classes)
    rows = X[kept].reshape(int(kept.sum()), -1)
    scale = 255.0 if rows.dtype == np.uint8 else 1.0
    return rows.astype(np.float64) / scale, (labels[kept] == classes[1]).astype(np.int64)
