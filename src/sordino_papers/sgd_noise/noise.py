"""Kind "noise": accuracy on held-out rows under the papers' noise, SGD's own counted and not.

Hyland & Tople add noise to 500 trained models: sigma_target ("SGD as deterministic"), or what
SGD's own noise leaves of it ("SGD as random", `intrinsic.augment`, which protects nobody).

ONE VECTOR FOR ALL. Their code (github.com/microsoft/intrinsic-private-sgd, test_model_with_noise)
has several versions. The earlier ones set the seed of NumPy's global generator to 0 before they
draw the noise of a model, so that every model, at every epsilon, gets the same vector, scaled; the
latest does not. The printed deviations say which was used: with a vector for each model they would
be many times as large. The vector of seed 0 can be drawn again, and is here ("vector"): their
tables are reproduced, not only their law. What other vectors would have given is beside it
("drawn"). Where the rows themselves are of a projection or a split that nobody can draw again, it
is those that are drawn, with the authors' vector.

THE EMPIRICAL SENSITIVITY of these tables is one number a dataset, not a new one for each table: the
largest of a histogram of distances that is kept in a file, named by the number of comparisons, the
step and the kind of start. These tables read the file of the fixed start, the table of
sensitivities that of the varying one. Only the latter is printed, and is what our settings have;
where the other can have been is the law of the largest distance from a fixed start, over that of
the largest from a varying one (`Largest`).

Models are trained here, one a seed, on the dataset itself: one record moves no accuracy.

ROWS are as the papers' authors prepared them, where that moves what noise does to a model.

Their code is public (github.com/microsoft/intrinsic-private-sgd). It differs from our recipes in
what no other number depends on: principal components are fitted on training and validation rows
together, and turned so that the largest score of each is positive (scikit-learn's rule until 1.5);
random projections, and Forest's split into training and test rows, are drawn without a seed, and
only their law is known. A noise vector that is given once and for all meets other weights when an
axis is turned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import threadpoolctl

from sordino import checks, randomness
from sordino.data import preprocess, sources
from sordino.data.catalogue import files, images, recipes
from sordino.data.dataset import Dataset
from sordino.intrinsic.augment import remaining_sigma, target_sigma
from sordino.types import Floats
from sordino_papers.runs import read_settings
from sordino_papers.sgd_noise.grid import GridSettings

if TYPE_CHECKING:
    from sordino_papers.quantities import Numbers
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

    def cast(self, projection: preprocess.Projection, *, scaled: bool, name: str) -> Rows:
        """Rows of a projection; the first tenth is for validation, and is left out."""
        kept, _ = preprocess.first_tenth(len(self.X))
        made = []
        for X, y in ((self.X[kept], self.y[kept]), (self.X_test, self.y_test)):
            cast = projection.apply(X)
            cast = preprocess.clip_rows(cast) if scaled else cast
            made.append(Dataset(cast.astype(np.float32), y, 1.0 if scaled else None, name))
        return made[0], made[1]


Rows = tuple[Dataset, Dataset]
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
) -> Iterator[Rows]:
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
    pca = preprocess.Projection.pca(X, components)
    with threadpoolctl.threadpool_limits(1, "blas"):
        scores = pca.apply(X)
    top = scores[np.abs(scores).argmax(axis=0), np.arange(components)]
    return preprocess.Projection(pca.centre, pca.directions * np.sign(top), pca.reads_private_data)


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


_Singles = npt.NDArray[np.float32]
_Counts = npt.NDArray[np.int32]

LEVELS = 20
"""Equally likely sensitivities at which a case is computed that has a maximum over a sample."""
_MAXIMA = 2000
_CASE = {"sensitivity", "sigma", "maximum", "comparisons"}


@dataclass(frozen=True)
class NoiseSettings:
    """What a run of this kind may say.

    Parameters
    ----------
    grid
        Run whose training is meant, and whose numbers cases may name.
    epsilons, delta
        Targets.
    cases
        By name, a table: `sensitivity` and `sigma` (SGD's own noise), each a number or the name of
        one of the grid's; `maximum` if the sensitivity is one over a sample of pairs, and of how
        many `comparisons` (half as many as the grid has runs, if not said). The sensitivity
        "largest" is the median of such maxima, from a fixed start.
    vector
        Seed of NumPy's legacy generator that gives the authors' vector.
    models
        How many are trained.
    draws, drawn_models
        Vectors of ours (or projections, or test rows), and models that each of them meets.
    averaged
        Models that the paper's means are over, of different seeds; as many as the grid has seeds if
        not given.
    rows, classes, scaled
        How rows are made: `prepare`.
    """

    grid: str
    epsilons: tuple[float, ...]
    delta: float
    cases: Mapping[str, Mapping[str, Any]]
    vector: int
    models: int
    draws: int
    drawn_models: int
    averaged: int | None = None
    rows: Preparation = "recipe"
    classes: tuple[int, ...] = ()
    scaled: bool = True

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> NoiseSettings:
        """Of a file; an unknown key is refused."""
        found = read_settings(cls, given, "epsilons", "classes")
        for name, case in given["cases"].items():
            if not {"sensitivity", "sigma"} <= set(case) <= _CASE:
                checks.fail(f"cases.{name}", sorted(case), f"to be keys of {sorted(_CASE)}")
        return found


@dataclass(frozen=True, eq=False)
class Largest:
    """The law of the largest of `many` random distances: the authors' empirical sensitivity.

    They compare runs of one seed on two datasets, half as many times as there are runs. `printed`
    are distances from a varying start, whose largest is in the papers; `used` those from a fixed
    one, whose largest the noise was computed with.
    """

    printed: Floats
    used: Floats
    many: int

    @classmethod
    def of(cls, grid: Numbers, many: int | None) -> Largest:
        """Of a grid's distances, the largest of all among them."""
        printed, used = (
            np.append(grid[f"{init}/delta_s"], grid[f"{init}/sensitivity"]).astype(np.float64)
            for init in ("vary", "fixed")
        )
        return cls(printed, used, many or int(grid["seeds"]) * int(grid["neighbours"]) // 2)

    @property
    def median(self) -> float:
        """Of the largest that the noise was computed with."""
        return float(np.quantile(self.used, 0.5 ** (1 / self.many)))

    def around(self, sensitivity: float, *, known: bool) -> Floats:
        """`sensitivity`, then where the one that was used can have been: `LEVELS`, equally likely.

        The sensitivity is the printed largest if that is `known`; else it is the median of the one
        that was used.
        """
        stream = randomness.stream("reproduce", "noise", "maxima")
        ranks = stream.random((2, _MAXIMA)) ** (1 / self.many)  # the largest of uniform numbers
        used = np.quantile(self.used, ranks[0])
        under = np.quantile(self.printed, ranks[1]) if known else np.array(self.median)
        middles = (np.arange(LEVELS) + 0.5) / LEVELS
        return np.array([1.0, *np.quantile(used / under, middles)]) * sensitivity


@dataclass(frozen=True, eq=False)
class NoiseCase:
    """One way to compute the noise: standard deviations [level, epsilon] of both settings."""

    sensitivities: Floats
    sigma: float
    target: Floats
    augmented: Floats

    @classmethod
    def of(cls, given: Mapping[str, Any], settings: NoiseSettings, grid: Numbers) -> NoiseCase:
        """Of a file's table; names are the grid's numbers."""
        largest, sigma = Largest.of(grid, given.get("comparisons")), _number(given["sigma"], grid)
        known = given["sensitivity"] != "largest"
        sensitivity = _number(given["sensitivity"], grid) if known else largest.median
        around = np.array([sensitivity])
        if given.get("maximum", False):
            around = largest.around(sensitivity, known=known)
        targets = [
            target_sigma(epsilon, settings.delta, each, formula="printed")
            for each in around
            for epsilon in settings.epsilons
        ]
        target = np.array(targets).reshape(len(around), -1)
        return cls(around, sigma, target, np.vectorize(remaining_sigma)(target, sigma))


@dataclass(frozen=True, eq=False)
class Bed:
    """Models and the rows they are tried on.

    Scores are turned so that a row is labelled correctly where its score is positive.
    """

    rows: _Singles
    """[row, parameter], turned by the label, the intercept's feature last."""
    margins: _Singles
    """[model, row], without noise."""
    noiseless: _Counts = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "noiseless", _right(self.margins, np.float32(0)))

    @classmethod
    def of(cls, weights: _Singles, X: npt.NDArray[np.floating], y: npt.ArrayLike) -> Bed:
        """Weights [model, parameter] of linear classifiers, an intercept last."""
        sign = np.where(np.asarray(y) > 0, 1, -1).astype(np.float32)[:, None]
        rows = (sign * np.hstack([X, np.ones((len(X), 1))])).astype(np.float32)
        return cls(rows, weights.astype(np.float32) @ rows.T)

    def under(self, vector: Floats, sigmas: Floats, models: int | None = None) -> _Counts:
        """Rows labelled correctly [..., model] with `vector` times each of `sigmas` added."""
        margins = self.margins[:models]
        moved = self.rows @ vector.astype(np.float32)
        found = [_right(margins, np.float32(-sigma) * moved) for sigma in sigmas.ravel()]
        return np.array(found, dtype=np.int32).reshape(*sigmas.shape, len(margins))


def make(settings: Mapping[str, Any], store: RunStore) -> Numbers:
    """Train the models, add the noise and count."""
    given = NoiseSettings.read(settings)
    grid = store.numbers(given.grid)
    cases = {name: NoiseCase.of(case, given, grid) for name, case in given.cases.items()}
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        beds = _beds(given, store)
        bed = next(beds)
        vector = authors_vector(given.vector, bed.rows.shape[1])
        numbers: dict[str, Any] = {"noiseless": bed.noiseless, "rows": len(bed.rows)}
        numbers["positive"] = np.count_nonzero(bed.rows[:, -1] > 0)
        for name, case in cases.items():
            for setting in _SETTINGS:
                sigmas = getattr(case, setting)
                numbers[f"{name}/{setting}"] = bed.under(vector, sigmas)
                numbers[f"{name}/sigma_{setting}"] = sigmas
            numbers[f"{name}/sensitivities"] = case.sensitivities
            numbers[f"{name}/sigma"] = case.sigma
        numbers.update(_draw(given, store, cases, _trials(given, bed, beds, vector)))
    numbers["epsilons"], numbers["delta"] = np.array(given.epsilons), given.delta
    numbers["random_rows"] = given.rows in RANDOM
    numbers["averaged"] = given.averaged or grid["seeds"]
    return {name: np.asarray(value) for name, value in numbers.items()}


def authors_vector(seed: int, parameters: int) -> Floats:
    """The noise that the authors' code draws after it has set this seed."""
    return np.asarray(np.random.RandomState(seed).normal(size=parameters))


def _number(given: float | str, grid: Numbers) -> float:
    if not isinstance(given, str):
        return float(given)
    checks.one_of("number", given, sorted(grid))
    return float(np.ravel(grid[given])[0])


def _beds(given: NoiseSettings, store: RunStore) -> Iterator[Bed]:
    """Trained models on their rows; of random rows, one bed after another."""
    trained = GridSettings.read(store.settings(given.grid))
    how: dict[str, Any] = {"classes": given.classes, "scaled": given.scaled}
    ways = prepare(store, trained.data, given.rows, many=given.draws + 1, **how)
    for number, (train, test) in enumerate(ways):
        if number == 0:
            weights = _weights(trained, train, given.models)
        elif given.rows == "projections":
            weights = _weights(trained, train, given.drawn_models)
        yield Bed.of(weights, test.X, test.y)


def _weights(trained: GridSettings, dataset: Dataset, models: int) -> _Singles:
    """Final weights [model, parameter], one model a seed."""
    from sordino.sgd import train

    # The first record only stands in for others in a grid: models there never see it.
    seen = dataset.take(np.arange(1, dataset.rows))
    return np.asarray(train(trained.spec, seen, range(models))[:, 0, 0], dtype=np.float32)


def _trials(
    given: NoiseSettings, bed: Bed, others: Iterator[Bed], vector: Floats
) -> Iterator[tuple[Bed, Floats]]:
    """Other vectors for the same models; or, of random rows, others with the same vector."""
    stream = randomness.stream("reproduce", "noise", len(vector))
    for _ in range(given.draws):
        if given.rows in RANDOM:
            yield next(others), vector
        else:
            yield bed, stream.standard_normal(len(vector))


def _draw(
    given: NoiseSettings,
    store: RunStore,
    cases: Mapping[str, NoiseCase],
    trials: Iterator[tuple[Bed, Floats]],
) -> dict[str, _Counts]:
    """Counts [level, epsilon, draw, model], and [draw, model] without noise.

    Only of random rows, whose draws stand for the paper's own number, a second level: there each
    draw has a sensitivity of its own, too, where that is a maximum over a sample.
    """
    both, models = given.rows in RANDOM, given.drawn_models
    noiseless: list[_Counts] = []
    counts: dict[str, list[_Counts]] = {}
    for done, (bed, vector) in enumerate(trials):
        noiseless.append(bed.noiseless[:models])
        for name, setting in ((name, setting) for name in cases for setting in _SETTINGS):
            sigmas = getattr(cases[name], setting)
            levels = [0, 1 + done % LEVELS] if both and len(sigmas) > 1 else [0]
            under = bed.under(vector, sigmas[levels], models)
            counts.setdefault(f"drawn/{name}/{setting}", []).append(under)
        store.tell(done + 1, given.draws)
    stacked = {name: np.stack(each, axis=2) for name, each in counts.items()}
    return {**stacked, "drawn/noiseless": np.array(noiseless)}


_SETTINGS = ("target", "augmented")


def _right(margins: _Singles, threshold: _Singles | np.float32) -> _Counts:
    return np.asarray(np.count_nonzero(margins > threshold, axis=1), dtype=np.int32)
