"""`Recipe`: what is known about a dataset before it is read. `Splits`: what reading it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from sordino.data.dataset import Dataset
from sordino.data.sources import RawFile

Form = Literal["papers", "erm"]
Reader = Callable[[RawFile], bytes]
Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Parts:
    """Prepared rows before they become datasets, and what the preparation read from them."""

    train: Rows
    validation: Rows | None
    test: Rows | None
    norm_bound: float | None
    reads_private_data: tuple[str, ...]
    image_shape: tuple[int, ...] | None = None


Builder = Callable[[Reader, Form], Parts]


@dataclass(frozen=True)
class Publication:
    """Under which terms a dataset is given out, and how its authors are to be cited."""

    licence: str
    citation: str


@dataclass(frozen=True)
class Network:
    """Settings of the papers for a network with one hidden layer (v2, Table 2)."""

    hidden_size: int
    learning_rate: float
    batch_size: int
    steps: int


@dataclass(frozen=True)
class Erm:
    """The form of Chen, Lee and Kifer (2019): all rows in one set, and their settings.

    `features` does not count the intercept; `paper_dimension` is the number printed in their
    Table 1, which does.
    """

    paper_dimension: str
    rows: int | None = None
    features: int | None = None
    regularisation: float = 0.001
    batch_size: int = 4000


@dataclass(frozen=True)
class Recipe:
    """A dataset by name: where it comes from, its sizes, and the papers' training settings.

    Parameters
    ----------
    name
        As `load` takes it; a variant is written after a slash ("mnist-binary/grp").
    task
        What is predicted, and which label is 1.
    publication
        Its licence and citation.
    files
        The raw files it is made from; empty for the sets that scikit-learn carries.
    rows
        Sizes of (train, validation, test) in the papers' form; None where a user's file decides.
    features
        Number of columns in the papers' form; None where a user's file decides.
    learning_rate, batch_size, steps
        Settings for logistic regression (for `mnist`: the convolutional network).
    settings_from
        Where these settings come from.
    reads_private_data
        Statistics the papers' form takes from the rows; empty if none.
    network
        Settings for the papers' one-hidden-layer network, where they have one.
    erm
        The same data in the form of Chen et al., where they use it.
    """

    name: str
    task: str
    publication: Publication
    files: tuple[RawFile, ...]
    learning_rate: float
    batch_size: int
    steps: int
    settings_from: str
    reads_private_data: tuple[str, ...]
    build: Builder = field(repr=False, compare=False)
    rows: tuple[int, int, int] | None = None
    features: int | None = None
    network: Network | None = None
    erm: Erm | None = None

    @property
    def embedded(self) -> bool:
        """Whether it needs no file at all."""
        return not self.files


@dataclass(frozen=True, eq=False)
class Splits:
    """A recipe's datasets. In the form "erm" all rows are in `train` and the others are None."""

    train: Dataset
    validation: Dataset | None
    test: Dataset | None
    recipe: Recipe
    reads_private_data: tuple[str, ...]
