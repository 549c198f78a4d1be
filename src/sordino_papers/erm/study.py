"""Kind "erm": accuracy and objective of private linear models over folds (Chen, Lee & Kifer 2019).

Methods are the package's own, planned and trained as estimators do it; noise is seeded, so these
models protect nobody. A piece is one method on one fold, trained for every budget and scored;
finished pieces are kept.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from sordino import checks, tasks
from sordino.estimators import methods, rules
from sordino.estimators.fit import FitPlan, FitRecords, Randomness, Task
from sordino.estimators.methods import Majority
from sordino.estimators.methods.training import train_together
from sordino.estimators.minimum.linear import NoMinimum
from sordino.randomness import Name, stream
from sordino.types import Array, Floats
from sordino_papers.erm.methods import (
    REFERENCES,
    MethodSettings,
    least_epsilon,
    make_plans,
    old_objective,
)
from sordino_papers.quantities import Numbers
from sordino_papers.runs import NotHere, RunStore, read_settings

if TYPE_CHECKING:
    from sordino.data.catalogue.recipes import Splits

AUTO, TUNED = "auto", "/tuned"
_ALONE = 200_000
"""Rows times pieces up to which other processes would take longer to start than to work."""
_FIRST = ("rsgd-ar/tuned", "output-gd/tuned", "dp-agd", "nsgd/tuned")
"""The slow ones, so that no worker is left with one at the end. Those of the engine before others:
it loads much, and a worker that grows later is taken for one that leaks, and replaced."""
_Item = tuple[str, int]
"""A method and the fold that is held out."""
_LOSSES = {"logistic": "logistic", "svm": "huber-svm"}


@dataclass(frozen=True, kw_only=True)
class ErmSettings(MethodSettings):
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

    loss: str
    epsilons: tuple[float, ...]
    folds: int
    scored: int
    draws: int
    fits: Mapping[str, int]
    orders: int
    huber_width: float = 0.5
    folder: str = ""
    rows: int = 0
    tuning: int = 0
    constant: str = "scaled"
    tried: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> ErmSettings:
        """Of a file; an unknown key is refused."""
        found = read_settings(cls, given, "epsilons", "methods")
        checks.one_of("loss", found.loss, tuple(_LOSSES))
        checks.one_of("constant", found.constant, ("scaled", "one"))
        return found

    def task(self, rows: int, columns: int, epsilon: float) -> Task:
        """One fit, as an estimator would state it."""
        same = {name: getattr(self, name) for name in ("l2", "delta", "huber_width")}
        kind = _LOSSES[self.loss]
        return Task(kind=kind, rows=rows, columns=columns, norm=1.0, epsilon=epsilon, **same)

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
    def identity(self) -> dict[str, Any]:
        """What a piece depends on: which other methods are asked does not matter to it."""
        fields = dataclasses.asdict(self)
        return {name: fields[name] for name in fields if name not in ("methods", "scored")}

    @property
    def tuning_folds(self) -> range:
        """Held out to choose settings by."""
        return range(self.tuning)

    @property
    def shown_folds(self) -> range:
        """Held out to be shown."""
        return range(self.tuning, self.scored)

    def training_rows(self, rows: int) -> int:
        """Rows to train on, the same for all folds: of larger ones the last is left out."""
        return rows - -(-rows // self.folds)


@dataclass(frozen=True)
class _StoredRows:
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
        X, y = self.read()
        return tuple(  # type: ignore[return-value]
            FitRecords.of(np.ascontiguousarray(X[part]), y[part], 2, 1.0, False)
            for part in self.split(held_out)
        )


def store_rows(settings: ErmSettings, store: RunStore) -> _StoredRows:
    """Write the rows, unless they are there."""
    given = settings.data, settings.form, settings.folder, settings.rows, settings.constant
    directory = store.folder("erm rows", *given)
    if not (directory / "y.npy").exists():
        train = _splits(settings, store).train
        X, y = np.asarray(train.X), np.asarray(train.y)
        if 0 < settings.rows < len(X):
            draw = stream("reproduce", "erm rows", settings.data, settings.rows)
            kept = np.sort(draw.choice(len(X), settings.rows, replace=False))
            X, y = X[kept], y[kept]
        directory.mkdir(parents=True, exist_ok=True)
        _save(directory / "X.npy", with_constant(X, settings.constant))
        _save(directory / "y.npy", y)  # last: both are there then
    return _StoredRows(str(directory), settings)


def _save(path: Path, values: Array) -> None:
    """All of it or nothing."""
    half = path.with_name(f".{path.stem}.{os.getpid()}.npy")
    np.save(half, values)
    half.replace(path)


def with_constant(X: Array, kind: str = "scaled") -> Array:
    """Rows with the constant that the paper appends BEFORE it scales rows to norm 1.

    Its x is in R^(p+1) and has norm 1. Rows here were scaled without the constant; what a 1 became
    in that is a row's largest entry: an indicator, or a number at the top of its range. (An
    estimator's own intercept, "one", is a 1 beside a row of norm 1, and takes half of the norm.)
    """
    one = np.ones((len(X), 1), X.dtype) if kind == "one" else X.max(axis=1, keepdims=True)
    return np.hstack([X, one])


def _splits(settings: ErmSettings, store: RunStore) -> Splits:
    from sordino.data import load
    from sordino.data.catalogue.recipes import recipe
    from sordino.data.sources import data_directory

    if not settings.folder:
        return store.splits(settings.data, settings.form)
    parent = data_directory(store.data_dir)
    place = None if parent is None else parent / settings.folder
    if place is None or not place.is_dir():
        files = ", ".join(file.name for file in recipe(settings.data).files)
        raise NotHere(f"{settings.folder}/{files} is not in the data directory (docs/guide.md).")
    return load(settings.data, form="erm", data_dir=place)


def make(settings: Mapping[str, Any], store: RunStore) -> Numbers:
    """Every method on every fold that is scored."""
    given = ErmSettings.read(settings)
    kept = store.folder("erm", given.identity)
    kept.mkdir(parents=True, exist_ok=True)
    pieces = Pieces(given, store_rows(given, store), str(kept))
    sources = {method: pieces.sources(method) for method in given.methods}
    trained = list(dict.fromkeys(each for names in sources.values() for each in names))
    tuned = [method for method in trained if method.endswith(TUNED)] if given.tuning else []
    total = len(given.shown_folds) * len(trained) + given.tuning * len(tuned)
    done = 0
    for folds, asked in ((given.tuning_folds, tuned), (given.shown_folds, trained)):
        items = [(method, fold) for fold in folds for method in asked]
        for _ in _made(pieces, items, store.client):
            done += 1
            store.tell(done, total)
        # Chosen once the first folds are there; the others are trained with the choice alone.
        chosen = {method: pieces.best(method, given.tuning_folds) for method in tuned}
        pieces = dataclasses.replace(pieces, chosen=chosen)
    return _gather(pieces, sources, trained)


def _made(pieces: Pieces, items: Sequence[_Item], client: Any) -> Iterator[object]:
    """Yield once a piece: those that are kept first, then as they come."""
    missing = [item for item in items if not pieces.path(item).exists()]
    yield from range(len(items) - len(missing))
    missing.sort(key=lambda item: _FIRST.index(item[0]) if item[0] in _FIRST else len(_FIRST))
    workers = min(tasks.available_cores(), len(missing))
    if workers < 2 or pieces.rows.shape[0] * len(missing) <= _ALONE:
        workers = 0  # here
    for item, scores in tasks.run(pieces, missing, workers=workers, client=client):
        _save(pieces.path(item), scores)
        yield item


def _gather(pieces: Pieces, sources: Mapping[str, Sequence[str]], asked: Sequence[str]) -> Numbers:
    """Numbers [method, epsilon, fold]; of a tuned method those of its best setting."""
    given = pieces.settings
    shape = len(given.methods), len(given.epsilons), len(given.shown_folds)
    accuracies, objectives, sigmas = (np.full(shape, np.nan) for _ in range(3))
    chosen = np.zeros(shape[:2], dtype=np.int64)
    scores = {source: pieces.scores(source, given.shown_folds) for source in asked}
    for m, method in enumerate(given.methods):
        best = np.zeros(len(given.epsilons), dtype=np.int64)
        if method in pieces.chosen:
            chosen[m] = pieces.chosen[method]
            best += 1  # kept behind the public setting
        elif method.endswith(TUNED):
            chosen[m] = best = pieces.best(method, given.shown_folds)
        for at, source in enumerate(sources[method]):
            taken = scores[source][:, :, best[at], at].T
            accuracies[m, at], objectives[m, at], sigmas[m, at] = taken
    rows, columns = pieces.rows.shape
    return {
        "methods": np.array(given.methods),
        "epsilons": np.array(given.epsilons),
        **{"accuracies": accuracies, "objectives": objectives},
        **{"sigmas": sigmas, "chosen": chosen},
        "rows": np.array(rows),
        "columns": np.array(columns),
        "delta": np.array(given.delta),
        "least_epsilon_2016": np.array(least_epsilon(given.delta, given.orders)),
    }


@dataclass(frozen=True)
class Pieces:
    """All pieces of one study: sent to workers, called with an item.

    Parameters
    ----------
    settings, rows
        What is asked, of which rows.
    directory
        Where finished pieces are kept.
    chosen
        Of each tuned method the setting that is taken, a budget: then a piece holds the public
        setting and that one. Else it holds all that are tried.
    """

    settings: ErmSettings
    rows: _StoredRows
    directory: str
    chosen: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def sources(self, method: str) -> list[str]:
        """Whose pieces hold a method, a budget: a tuned one tries the public settings first."""
        names = [method] * len(self.settings.epsilons)
        if method == AUTO:
            rows, columns = self.rows.shape
            sizes = self.settings.training_rows(rows), columns
            tasks_of = (self.settings.task(*sizes, each) for each in self.settings.epsilons)
            names = [rules.best_method(task) for task in tasks_of]
        asked = self.settings.methods
        return [each + TUNED if each + TUNED in asked else each for each in names]

    def scores(self, method: str, folds: Sequence[int]) -> Floats:
        """What pieces hold: [fold, 3, setting, epsilon]."""
        return np.stack([np.load(self.path((method, fold))) for fold in folds])

    def best(self, method: str, folds: Sequence[int]) -> Any:
        """The setting of the best mean accuracy, a budget."""
        means = self.scores(method, folds)[:, 0].mean(axis=0)  # [setting, epsilon]
        return np.where(np.isnan(means), -1.0, means).argmax(axis=0)

    def path(self, item: _Item) -> Path:
        """Where a piece is kept."""
        method, fold = item
        return Path(self.directory) / f"{method.replace('/', '-')}-{fold}.npy"

    def __call__(self, item: _Item) -> Floats:
        """Make a piece: numbers [3, setting, epsilon], accuracy, objective, sigma."""
        # Two threads on one small product wait for each other longer than they work.
        with warnings.catch_warnings(), threadpool_limits(1, "blas"):
            warnings.simplefilter("ignore")  # a diverging run is a result here
            fold = _Fold(self.settings, *item, *self.rows.fold(item[1]))
            return fold.scores(self.chosen.get(item[0]))


@dataclass(frozen=True, eq=False)
class _Fold:
    """One method on one fold."""

    settings: ErmSettings
    method: str
    fold: int
    training: FitRecords
    held_out: FitRecords

    def scores(self, chosen: Sequence[int] | None = None) -> Floats:
        """Accuracy, objective and noise [3, setting, epsilon], means over draws or fits."""
        given, epsilons = self.settings, self.settings.epsilons
        if self.method in ("objective/2011", "objective/2012"):
            return np.stack([self._old(epsilon) for epsilon in epsilons], axis=-1)
        if self.method in REFERENCES:
            epsilons = epsilons[:1]  # they promise nothing, whatever the budget
        tasks_of = (self.task(epsilon) for epsilon in epsilons)
        plans = [make_plans(self.method, task, given.tries, given.orders) for task in tasks_of]
        if chosen is not None:
            plans = [[each[0], each[at]] for each, at in zip(plans, chosen, strict=True)]
        able = [plan for each in plans for plan in each if plan is not None]
        scores = iter(self._of_plans(able) if able else [])
        found = np.full((3, len(plans[0]), len(plans)), np.nan)
        for at, each in enumerate(plans):
            for place, plan in enumerate(each):
                if plan is not None:
                    found[:, place, at] = next(scores)
        return np.broadcast_to(found, (3, len(plans[0]), len(given.epsilons)))

    def task(self, epsilon: float) -> Task:
        """What is asked of this fold at a budget."""
        rows, columns = self.training.X.shape
        return self.settings.task(rows, columns, epsilon)

    @property
    def fits(self) -> int:
        """Trainings a budget."""
        return self.settings.fits.get(self.method, self.settings.fits["else"])

    def randomness(self, *name: Name) -> Randomness:
        """Seeded by the piece and a name."""
        of = "reproduce", "erm", self.settings.data, self.settings.folder, self.settings.loss
        return Randomness.seeded(int(stream(*of, self.method, self.fold, *name).integers(1 << 48)))

    def _of_plans(self, plans: Sequence[FitPlan]) -> list[tuple[float, float, float]]:
        if plans[0].spec is None:
            weights = [self._alone(at, plan) for at, plan in enumerate(plans)]
        elif plans[0].scale > 0:
            weights = self._released(plans)
        else:
            weights = [self._trained([plan] * self.fits, at) for at, plan in enumerate(plans)]
        return [(*self._score(each), plan.sigma) for each, plan in zip(weights, plans, strict=True)]

    def _released(self, plans: Sequence[FitPlan]) -> list[Floats]:
        """Output perturbation: equal trainings are done once, and get noise of every budget."""
        distinct = list({plan.spec: plan for plan in plans}.values())
        trained = self._trained(distinct, "trained")
        exact = {plan.spec: weights for plan, weights in zip(distinct, trained, strict=True)}
        found = []
        for at, plan in enumerate(plans):
            copies = np.repeat(exact[plan.spec][None], self.settings.draws, axis=0)
            if np.isfinite(copies).all():  # of a training that diverged nothing is released
                noise = self.randomness("released", at).released
                copies = np.asarray(noise.perturb(copies, plan.scale))
            found.append(copies)
        return found

    def _trained(self, plans: Sequence[FitPlan], *name: Name) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            return train_together(plans, self.training, self.randomness(*name), self._start)[:, 0]

    def _alone(self, at: int, plan: FitPlan) -> Floats:
        """Methods that the engine does not train: minimisers, DP-AGD, the majority."""
        if plan.method == Majority.name:
            start = self._start
            start[0, -1] = Majority.intercepts(self.training)[0]
            return start
        fits = 1 if plan.method in REFERENCES else self.fits
        found = []
        for fit in range(fits):
            draws, method = self.randomness(at, fit), methods.METHODS[plan.method]
            try:
                weights = method.train(plan, self.training, draws, self._start)[0]
                if plan.scale:
                    weights = np.asarray(draws.released.perturb(weights, plan.scale))
            except NoMinimum:
                weights = np.full_like(self._start[0], np.nan)
            found.append(weights)
        return np.array(found)

    def _old(self, epsilon: float) -> Floats:
        task, found, sigma = self.task(epsilon), [], np.nan
        at = self.settings.epsilons.index(epsilon)
        for fit in range(self.fits):
            draws = self.randomness(at, fit)
            try:
                weights, sigma = old_objective(self.method, task, self.training, draws)
            except NoMinimum:
                return np.full((3, 1), np.nan)
            found.append(weights)
        return np.array([*self._score(np.array(found)), sigma])[:, None]

    @property
    def _start(self) -> Floats:
        return np.zeros((1, self.training.X.shape[1]))

    def _score(self, weights: Floats) -> tuple[float, float]:
        """Mean accuracy on the fold held out, and mean objective on the others.

        What is not finite is no model, and would pass for one that always says no: its accuracy is
        0, its objective NaN.
        """
        released = np.isfinite(weights).all(axis=1, keepdims=True)
        weights = np.where(released, weights, np.nan)
        positive = (self.held_out.labels(0) == 1)[:, None]
        scores = self.held_out.X @ weights.T.astype(self.held_out.X.dtype)
        risk = self.training.risk(0, self.task(1.0), self.settings.l2)
        right = ((scores > 0) == positive) & released.T
        return float(right.mean()), float(risk.objective(weights).mean())
