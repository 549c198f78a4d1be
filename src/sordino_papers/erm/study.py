"""Kind "erm": accuracy and objective of private linear models over folds (Chen, Lee & Kifer 2019).

Methods are the package's own, planned and trained as estimators do it; noise is seeded, so these
models protect nobody. A piece is one method on one fold, trained for every budget and scored;
finished pieces are kept.
"""

from __future__ import annotations

import dataclasses
import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from sordino import _files, tasks
from sordino.estimators import methods, rules
from sordino.estimators.methods import Majority
from sordino.estimators.randomness import Randomness
from sordino.estimators.records import FitRecords
from sordino.estimators.risk import NoMinimum
from sordino.estimators.task import FitPlan, Task
from sordino.estimators.training import train_together
from sordino.randomness import Name, stream
from sordino.types import Floats
from sordino_papers.erm.methods import (
    OLD_OBJECTIVES,
    REFERENCES,
    least_epsilon,
    old_objective,
    planned,
)
from sordino_papers.erm.settings import ErmSettings, StoredRows, stored

if TYPE_CHECKING:
    from sordino_papers.bench import Bench
    from sordino_papers.found import Numbers

AUTO, TUNED = "auto", "/tuned"
ALONE = 200_000
"""Rows times pieces up to which other processes would take longer to start than to work."""
_FIRST = ("rsgd-ar/tuned", "output-gd/tuned", "dp-agd", "nsgd/tuned")
"""The slow ones, so that no worker is left with one at the end. Those of the engine before others:
it loads much, and a worker that grows later is taken for one that leaks, and replaced."""
Item = tuple[str, int]
"""A method and the fold that is held out."""


def make(settings: Mapping[str, Any], bench: Bench) -> Numbers:
    """Every method on every fold that is scored."""
    given = ErmSettings.read(settings)
    kept = bench.store("erm", _identity(given))
    kept.mkdir(parents=True, exist_ok=True)
    pieces = Pieces(given, stored(given, bench), str(kept))
    sources = {method: pieces.sources(method) for method in given.methods}
    trained = list(dict.fromkeys(each for found in sources.values() for each in found))
    tuned = [method for method in trained if method.endswith(TUNED)] if given.tuning else []
    total, done = given.shown * len(trained) + given.tuning * len(tuned), 0
    for folds, asked in ((given.tuning_folds, tuned), (given.shown_folds, trained)):
        for _ in _made(pieces, [(method, fold) for fold in folds for method in asked]):
            done += 1
            bench.tell(done, total)
        # Chosen once the first folds are there; the others are trained with the choice alone.
        chosen = {method: pieces.best(method, given.tuning_folds) for method in tuned}
        pieces = dataclasses.replace(pieces, chosen=chosen)
    return _gathered(pieces, sources, trained)


def _identity(given: ErmSettings) -> dict[str, Any]:
    """What a piece depends on: which other methods are asked does not matter to it."""
    found = dataclasses.asdict(given)
    return {name: found[name] for name in found if name not in ("methods", "scored")}


def _made(pieces: Pieces, items: Sequence[Item]) -> Iterator[object]:
    """Yield once a piece: those that are kept first, then as they come."""
    missing = [item for item in items if not pieces.path(item).exists()]
    yield from range(len(items) - len(missing))
    missing.sort(key=lambda item: _FIRST.index(item[0]) if item[0] in _FIRST else len(_FIRST))
    workers = min(tasks.available_cores(), len(missing))
    if workers < 2 or pieces.rows.shape[0] * len(missing) <= ALONE:
        workers = 0  # here
    yield from tasks.run(pieces, missing, workers=workers)


def _gathered(
    pieces: Pieces, sources: Mapping[str, Sequence[str]], trained: Sequence[str]
) -> Numbers:
    """Numbers [method, epsilon, fold]; of a tuned method those of its best setting."""
    given = pieces.settings
    shape = len(given.methods), len(given.epsilons), given.shown
    accuracies, objectives, sigmas = (np.full(shape, np.nan) for _ in range(3))
    chosen = np.zeros(shape[:2], dtype=np.int64)
    scores = {source: pieces.scores(source, given.shown_folds) for source in trained}
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
        "accuracies": accuracies,
        "objectives": objectives,
        "sigmas": sigmas,
        "chosen": chosen,
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
    rows: StoredRows
    directory: str
    chosen: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def sources(self, method: str) -> list[str]:
        """Whose pieces hold a method, a budget: a tuned one tries the public settings first."""
        names = [method] * len(self.settings.epsilons)
        if method == AUTO:
            rows, columns = self.rows.shape
            training = self.settings.training_rows(rows)
            names = [
                rules.best_method(self.settings.task(training, columns, epsilon))
                for epsilon in self.settings.epsilons
            ]
        asked = self.settings.methods
        return [each + TUNED if each + TUNED in asked else each for each in names]

    def scores(self, method: str, folds: Sequence[int]) -> Floats:
        """What pieces hold: [fold, 3, setting, epsilon]."""
        return np.stack([np.load(self.path((method, fold))) for fold in folds])

    def best(self, method: str, folds: Sequence[int]) -> Any:
        """The setting of the best mean accuracy, a budget."""
        means = self.scores(method, folds)[:, 0].mean(axis=0)  # [setting, epsilon]
        return np.where(np.isnan(means), -1.0, means).argmax(axis=0)

    def path(self, item: Item) -> Path:
        """Where a piece is kept."""
        method, fold = item
        return Path(self.directory) / f"{method.replace('/', '-')}-{fold}.npy"

    def __call__(self, item: Item) -> None:
        """Make a piece and keep it: numbers [3, setting, epsilon], accuracy, objective, sigma."""
        # Two threads on one small product wait for each other longer than they work.
        with warnings.catch_warnings(), threadpool_limits(1, "blas"):
            warnings.simplefilter("ignore")  # a diverging run is a result here
            found = MethodOnFold.of(self, item).scored(self.chosen.get(item[0]))
        made = io.BytesIO()
        np.save(made, found)
        _files.write(self.path(item), made.getvalue())


@dataclass(frozen=True, eq=False)
class MethodOnFold:
    """One method on one fold."""

    settings: ErmSettings
    method: str
    fold: int
    training: FitRecords
    held_out: FitRecords

    @classmethod
    def of(cls, pieces: Pieces, item: Item) -> MethodOnFold:
        """With its rows."""
        method, fold = item
        return cls(pieces.settings, method, fold, *pieces.rows.fold(fold))

    def scored(self, chosen: Sequence[int] | None = None) -> Floats:
        """Accuracy, objective and noise [3, setting, epsilon], means over draws or fits."""
        if self.method in OLD_OBJECTIVES:
            return np.stack([self._old(epsilon) for epsilon in self.settings.epsilons], axis=-1)
        epsilons = self.settings.epsilons
        if self.method in REFERENCES:
            epsilons = epsilons[:1]  # they promise nothing, whatever the budget
        plans = [planned(self.settings, self.method, self.task(epsilon)) for epsilon in epsilons]
        if chosen is not None:
            plans = [[each[0], each[at]] for each, at in zip(plans, chosen, strict=True)]
        able = [plan for each in plans for plan in each if plan is not None]
        scores = iter(self._of_plans(able) if able else [])
        found = np.full((3, len(plans[0]), len(plans)), np.nan)
        for at, each in enumerate(plans):
            for place, plan in enumerate(each):
                if plan is not None:
                    found[:, place, at] = next(scores)
        return np.broadcast_to(found, (3, len(plans[0]), len(self.settings.epsilons)))

    def task(self, epsilon: float) -> Task:
        """What is asked of this fold at a budget."""
        rows, columns = self.training.X.shape
        return self.settings.task(rows, columns, epsilon)

    @property
    def fits(self) -> int:
        """Trainings a budget."""
        return self.settings.fits_of(self.method)

    def randomness(self, *name: Name) -> Randomness:
        """Seeded by the piece and a name."""
        given = self.settings
        draw = stream(
            *("reproduce", "erm", given.data, given.folder, given.loss),
            *(self.method, self.fold, *name),
        )
        return Randomness.seeded(int(draw.integers(1 << 48)))

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
            draws = self.randomness(at, fit)
            try:
                trained = methods.named(plan.method).train(plan, self.training, draws, self._start)
            except NoMinimum:
                found.append(np.full_like(self._start[0], np.nan))
                continue
            found.append(
                trained[0] if not plan.scale else draws.released.perturb(trained[0], plan.scale)
            )
        return np.array(found)

    def _old(self, epsilon: float) -> Floats:
        task, found, sigma = self.task(epsilon), [], np.nan
        at = self.settings.epsilons.index(epsilon)
        for fit in range(self.fits):
            try:
                weights, sigma = old_objective(
                    self.method, task, self.training, self.randomness(at, fit)
                )
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
