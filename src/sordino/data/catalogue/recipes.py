"""The datasets by name: `Recipe`, what is known before one is read (recipes.toml), and `load`."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from threadpoolctl import threadpool_limits

from sordino import checks
from sordino.data import sources
from sordino.data.catalogue import files, images, tabular
from sordino.data.dataset import Dataset
from sordino.data.preprocess import READS, Form, Parts, Rows

_Builder = Callable[[sources.Reader, Form], Parts]


@dataclass(frozen=True)
class _Publication:
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
class _Erm:
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
    target_bounds
        Public ones, where a number is predicted.
    """

    name: str
    task: str
    publication: _Publication
    files: tuple[sources.RawFile, ...]
    learning_rate: float
    batch_size: int
    steps: int
    settings_from: str
    reads_private_data: tuple[str, ...]
    build: _Builder = field(repr=False, compare=False)
    rows: tuple[int, int, int] | None = None
    features: int | None = None
    network: Network | None = None
    erm: _Erm | None = None
    target_bounds: tuple[float, float] | None = None

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


_MADE_FROM: dict[str, tuple[_Builder, tuple[sources.RawFile, ...]]] = {
    "adult": (tabular.adult, (files.ADULT_DATA, files.ADULT_TEST)),
    "forest": (tabular.forest, (files.COVTYPE,)),
    "mnist-binary": (images.mnist_binary_pca, files.MNIST),
    "mnist-binary/grp": (images.mnist_binary_grp, files.MNIST),
    "mnist-binary/grp-raw": (images.mnist_binary_grp_raw, files.MNIST),
    "mnist-binary/crop": (images.mnist_binary_crop, files.MNIST),
    "cifar2": (images.cifar2, (files.CIFAR2,)),
    "mnist": (images.mnist, files.MNIST),
    "bank": (tabular.bank, (files.BANK,)),
    "kddcup99": (tabular.kddcup99, (files.KDD_TENTH,)),
    "kddcup99/full": (tabular.kddcup99_full, (files.KDD_FULL,)),
    "ipums": (tabular.ipums, (files.IPUMS,)),
    "digits": (images.digits, ()),
    "digits/binary": (functools.partial(images.digits, binary=True), ()),
    "breast-cancer": (tabular.breast_cancer, ()),
    "diabetes": (tabular.diabetes, ()),
}


def _recipe(name: str, *, reads: list[str], **given: Any) -> Recipe:
    build, made_from = _MADE_FROM[name]
    return Recipe(
        name,
        files=made_from,
        build=build,
        publication=_Publication(**_GIVEN["publications"][given.pop("publication")]),
        rows=tuple(given.pop("rows", ())) or None,
        reads_private_data=tuple(READS[each] for each in reads),
        network=Network(**given.pop("network")) if "network" in given else None,
        erm=_Erm(**given.pop("erm")) if "erm" in given else None,
        target_bounds=_bounds(*given.pop("target_bounds", ())),
        **given,
    )


def _bounds(low: float = 0.0, high: float = 0.0) -> tuple[float, float] | None:
    return (float(low), float(high)) if low < high else None


_GIVEN = tomllib.loads(
    resources.files("sordino.data.catalogue").joinpath("recipes.toml").read_text("utf-8")
)
RECIPES = {name: _recipe(name, **each) for name, each in _GIVEN["recipes"].items()}
_ALIASES = {"mnist-binary/pca": "mnist-binary"}


def names() -> tuple[str, ...]:
    """Return every name that `load` takes, in the order of docs/guide.md.

    >>> "adult" in names()
    True
    """
    return tuple(RECIPES)


def recipe(name: str) -> Recipe:
    """Return the recipe called `name` without reading any data.

    >>> recipe("adult").rows
    (29305, 3256, 16281)
    """
    name = _ALIASES.get(name, name)
    return RECIPES[checks.one_of("name", name, names(), "See `sordino data list`.")]


def load(
    name: str,
    *,
    data_dir: sources.DirectoryLike = None,
    dtype: str = "float32",
    form: Form = "papers",
) -> Splits:
    """Read and prepare a dataset by name.

    Parameters
    ----------
    name
        A recipe, such as "adult", "mnist-binary" (principal components) or "mnist-binary/grp".
    data_dir
        Directory with the raw files, else SORDINO_DATA. A file found neither there nor in the
        cache is downloaded into the cache.
    dtype
        "float32" or "float64". Preparation is in float64 either way.
    form
        "papers" gives train, validation and test rows as Hyland and Tople use them; "erm" gives
        all rows as `train`, as Chen et al. use them (adult, bank, kddcup99, ipums).

    Returns
    -------
    Splits
        The datasets, the recipe, and which statistics were read from the rows.

    Raises
    ------
    InvalidArgument
        If there is no such dataset, or not in this form.
    DataError
        If a raw file is missing and cannot be downloaded, or is not the published one.

    Examples
    --------
    >>> load("digits/binary").train
    Dataset(digits/binary: 1,294 x 64 float32, norm <= 1)
    """
    chosen = recipe(name)
    checks.one_of("dtype", dtype, ("float32", "float64"))
    checks.one_of("form", form, ("papers", "erm"))
    if form == "erm" and chosen.erm is None:
        having = ", ".join(r.name for r in RECIPES.values() if r.erm)
        checks.fail("form", form, f"to be papers for {chosen.name}", f"Only {having} have both.")
    # On one thread: products on several add up in another order, and give other last digits, so
    # that the same dataset would have another fingerprint on another machine.
    with threadpool_limits(1, "blas"):
        parts = chosen.build(functools.partial(sources.read, data_dir=data_dir), form)
    train = _dataset(chosen, parts, parts.train, dtype)
    validation = parts.validation and _dataset(chosen, parts, parts.validation, dtype)
    test = parts.test and _dataset(chosen, parts, parts.test, dtype)
    return Splits(train, validation, test, chosen, parts.reads_private_data)


def _dataset(chosen: Recipe, parts: Parts, rows: Rows, dtype: str) -> Dataset:
    X, y = rows
    bound, shape = parts.norm_bound, parts.image_shape
    return Dataset(X.astype(dtype, copy=False), y, bound, chosen.name, shape)
