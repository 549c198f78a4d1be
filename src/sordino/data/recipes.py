"""The datasets by name, and `load`.

Sizes and settings are those of Hyland and Tople's "An Empirical Study on the Intrinsic Privacy of
SGD" ("v2": Tables 1 and 2, appendix D) and its first version ("v1": Tables I and II); the form
"erm" follows Chen, Lee and Kifer (2019). See docs/data.md.
"""

from __future__ import annotations

import functools

from threadpoolctl import threadpool_limits

from sordino import _check
from sordino.data import (
    adult,
    bank,
    embedded,
    files,
    forest,
    images,
    ipums,
    kddcup99,
    publications,
    sources,
)
from sordino.data.dataset import Dataset
from sordino.data.preprocess import READS_DIRECTIONS, READS_LEVELS, READS_RANGES
from sordino.data.recipe import Erm, Form, Network, Parts, Recipe, Rows, Splits

V2 = "v2, Table 2"
OURS = "chosen here, after a similar set of the papers"

_ALL = (
    Recipe(
        name="adult",
        task="census income; 1 is above 50,000 dollars",
        publication=publications.ADULT,
        files=(files.ADULT_DATA, files.ADULT_TEST),
        rows=(29_305, 3_256, 16_281),
        features=100,
        learning_rate=0.5,
        batch_size=32,
        steps=3400,
        settings_from=V2,
        reads_private_data=(READS_RANGES,),
        build=adult.build,
        network=Network(hidden_size=8, learning_rate=0.5, batch_size=32, steps=1850),
        erm=Erm(48_842, 100, paper_dimension="124"),
    ),
    Recipe(
        name="forest",
        task="forest cover type; 1 is type 2, 0 is type 1",
        publication=publications.COVERTYPE,
        files=(files.COVTYPE,),
        rows=(378_783, 42_086, 74_272),
        features=49,
        learning_rate=1.0,
        batch_size=50,
        steps=8400,
        settings_from=V2,
        reads_private_data=(READS_RANGES,),
        build=forest.build,
        network=Network(hidden_size=10, learning_rate=0.5, batch_size=50, steps=3500),
    ),
    Recipe(
        name="mnist-binary",
        task="handwritten digits; 1 is five, 0 is three; 50 principal components",
        publication=publications.MNIST,
        files=files.MNIST,
        rows=(10_397, 1_155, 1_902),
        features=50,
        learning_rate=0.5,
        batch_size=32,
        steps=1850,
        settings_from=V2,
        reads_private_data=(READS_DIRECTIONS,),
        build=images.mnist_binary_pca,
        network=Network(hidden_size=10, learning_rate=0.5, batch_size=32, steps=4750),
    ),
    Recipe(
        name="mnist-binary/grp",
        task="handwritten digits; 1 is five, 0 is three; random projection to 50",
        publication=publications.MNIST,
        files=files.MNIST,
        rows=(10_397, 1_155, 1_902),
        features=50,
        learning_rate=0.1,
        batch_size=32,
        steps=1850,
        settings_from="v1, Table II (v2, appendix D.1, uses a learning rate of 0.5)",
        reads_private_data=(),
        build=images.mnist_binary_grp,
    ),
    Recipe(
        name="mnist-binary/grp-raw",
        task="handwritten digits; 1 is five, 0 is three; random projection to 50, not scaled",
        publication=publications.MNIST,
        files=files.MNIST,
        rows=(10_397, 1_155, 1_902),
        features=50,
        learning_rate=0.1,
        batch_size=32,
        steps=1850,
        settings_from="v1, Table II, whose numbers are of rows that were not scaled",
        reads_private_data=(),
        build=images.mnist_binary_grp_raw,
    ),
    Recipe(
        name="mnist-binary/crop",
        task="handwritten digits; 1 is five, 0 is three; central 10x10 pixels",
        publication=publications.MNIST,
        files=files.MNIST,
        rows=(10_397, 1_155, 1_902),
        features=100,
        learning_rate=0.5,
        batch_size=32,
        steps=1850,
        settings_from="v2, appendix D.1",
        reads_private_data=(),
        build=images.mnist_binary_crop,
    ),
    Recipe(
        name="cifar2",
        task="photographs; 1 is a bird, 0 an airplane; 50 principal components",
        publication=publications.CIFAR,
        files=(files.CIFAR2,),
        rows=(9_000, 1_000, 2_000),
        features=50,
        learning_rate=0.5,
        batch_size=32,
        steps=2000,
        settings_from=V2,
        reads_private_data=(READS_DIRECTIONS,),
        build=images.cifar2,
        network=Network(hidden_size=10, learning_rate=0.5, batch_size=32, steps=2500),
    ),
    Recipe(
        name="mnist",
        task="handwritten digits, ten classes, 28x28 pixels",
        publication=publications.MNIST,
        files=files.MNIST,
        rows=(54_000, 6_000, 10_000),
        features=784,
        learning_rate=0.1,
        batch_size=32,
        steps=1000,
        settings_from="v2, appendix D.3 (convolutional network)",
        reads_private_data=(),
        build=images.mnist,
    ),
    Recipe(
        name="bank",
        task="telephone marketing; 1 subscribes to a deposit",
        publication=publications.BANK,
        files=(files.BANK,),
        rows=(32_552, 3_616, 9_043),
        features=32,
        learning_rate=0.5,
        batch_size=32,
        steps=3400,
        settings_from=OURS,
        reads_private_data=(READS_RANGES,),
        build=bank.build,
        erm=Erm(45_211, 32, paper_dimension="33"),
    ),
    Recipe(
        name="kddcup99",
        task="network connections, 10 % subset; 1 is an attack",
        publication=publications.KDD,
        files=(files.KDD_TENTH,),
        rows=(355_695, 39_521, 98_805),
        features=113,
        learning_rate=1.0,
        batch_size=50,
        steps=8400,
        settings_from=OURS,
        reads_private_data=(READS_LEVELS, READS_RANGES),
        build=kddcup99.build_tenth,
        erm=Erm(494_021, 115, paper_dimension="120 on the full file"),
    ),
    Recipe(
        name="kddcup99/full",
        task="network connections, full file; 1 is an attack",
        publication=publications.KDD,
        files=(files.KDD_FULL,),
        rows=(3_526_870, 391_874, 979_687),
        features=None,
        learning_rate=1.0,
        batch_size=50,
        steps=8400,
        settings_from=OURS,
        reads_private_data=(READS_LEVELS, READS_RANGES),
        build=kddcup99.build_full,
        erm=Erm(4_898_431, 119, paper_dimension="120"),
    ),
    Recipe(
        name="ipums",
        task="census records, your own extract; LABEL is 0 or 1",
        publication=publications.IPUMS,
        files=(files.IPUMS,),
        rows=None,
        features=None,
        learning_rate=0.5,
        batch_size=32,
        steps=3400,
        settings_from=OURS,
        reads_private_data=(READS_LEVELS, READS_RANGES),
        build=ipums.build,
        erm=Erm(None, None, paper_dimension="53 (Brazil) and 58 (US)"),
    ),
    Recipe(
        name="digits",
        task="handwritten digits, ten classes, 8x8 pixels, rows of norm 1",
        publication=publications.DIGITS,
        files=(),
        rows=(1_294, 143, 360),
        features=64,
        learning_rate=0.5,
        batch_size=32,
        steps=800,
        settings_from=OURS,
        reads_private_data=(),
        build=embedded.digits,
    ),
    Recipe(
        name="digits/binary",
        task="handwritten digits, 8x8 pixels; 1 is odd, 0 is even",
        publication=publications.DIGITS,
        files=(),
        rows=(1_294, 143, 360),
        features=64,
        learning_rate=0.5,
        batch_size=32,
        steps=800,
        settings_from=OURS,
        reads_private_data=(),
        build=embedded.digits_binary,
    ),
    Recipe(
        name="breast-cancer",
        task="cell nuclei; 1 is benign, 0 is malignant",
        publication=publications.BREAST_CANCER,
        files=(),
        rows=(410, 45, 114),
        features=30,
        learning_rate=0.5,
        batch_size=32,
        steps=400,
        settings_from=OURS,
        reads_private_data=(READS_RANGES,),
        build=embedded.breast_cancer,
    ),
)
RECIPES = {recipe.name: recipe for recipe in _ALL}
_ALIASES = {"mnist-binary/pca": "mnist-binary"}


def names() -> tuple[str, ...]:
    """Return every name that `load` takes, in the order of docs/data.md."""
    return tuple(RECIPES)


def recipe(name: str) -> Recipe:
    """Return the recipe called `name` without reading any data."""
    name = _ALIASES.get(name, name)
    return RECIPES[_check.one_of("name", name, names(), "`sordino data list` shows them all.")]


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
    """
    chosen = recipe(name)
    _check.one_of("dtype", dtype, ("float32", "float64"))
    _check.one_of("form", form, ("papers", "erm"))
    if form == "erm" and chosen.erm is None:
        having = ", ".join(r.name for r in _ALL if r.erm)
        _check.fail("form", form, f"to be papers for {chosen.name}", f"Only {having} have both.")
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
