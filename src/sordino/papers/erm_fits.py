"""One piece of an ERM study: one method on one fold, trained for every budget and scored."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from sordino import _files
from sordino.estimators import methods
from sordino.estimators.methods import Majority
from sordino.estimators.randomness import Randomness
from sordino.estimators.records import Records
from sordino.estimators.risk import NoMinimum
from sordino.estimators.task import Plan, Task
from sordino.estimators.training import train_together
from sordino.papers.erm_methods import OLD_OBJECTIVES, REFERENCES, old_objective, planned
from sordino.papers.erm_settings import ErmSettings, StoredRows
from sordino.seeding import Name, stream
from sordino.types import Floats

Item = tuple[str, int]
"""A method and the fold that is held out."""


@dataclass(frozen=True)
class Pieces:
    """All pieces of one study: sent to workers, called with an item.

    Parameters
    ----------
    settings, rows
        What is asked, of which rows.
    directory
        Where finished pieces are kept.
    """

    settings: ErmSettings
    rows: StoredRows
    directory: str

    def path(self, item: Item) -> Path:
        """Where a piece is kept."""
        method, fold = item
        return Path(self.directory) / f"{method.replace('/', '-')}-{fold}.npy"

    def __call__(self, item: Item) -> None:
        """Make a piece and keep it: numbers [3, setting, epsilon], accuracy, objective, sigma."""
        # Two threads on one small product wait for each other longer than they work.
        with warnings.catch_warnings(), threadpool_limits(1, "blas"):
            warnings.simplefilter("ignore")  # a diverging run is a result here
            found = Piece.of(self, item).scored()
        made = io.BytesIO()
        np.save(made, found)
        _files.write(self.path(item), made.getvalue())


@dataclass(frozen=True, eq=False)
class Piece:
    """One method on one fold."""

    settings: ErmSettings
    method: str
    fold: int
    training: Records
    held_out: Records

    @classmethod
    def of(cls, pieces: Pieces, item: Item) -> Piece:
        """With its rows."""
        method, fold = item
        return cls(pieces.settings, method, fold, *pieces.rows.fold(fold))

    def scored(self) -> Floats:
        """Accuracy, objective and noise [3, setting, epsilon], means over draws or fits."""
        if self.method in OLD_OBJECTIVES:
            return np.stack([self._old(epsilon) for epsilon in self.settings.epsilons], axis=-1)
        epsilons = self.settings.epsilons
        if self.method in REFERENCES:
            epsilons = epsilons[:1]  # they promise nothing, whatever the budget
        plans = [planned(self.settings, self.method, self.task(epsilon)) for epsilon in epsilons]
        flat = [plan for each in plans for plan in each]
        scores = iter(self._of_plans(flat) if flat else [])
        tries = max(len(each) for each in plans) or 1
        found = np.full((3, tries, len(plans)), np.nan)
        for at, each in enumerate(plans):
            for place in range(len(each)):
                found[:, place, at] = next(scores)
        return np.broadcast_to(found, (3, tries, len(self.settings.epsilons)))

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

    def _of_plans(self, plans: Sequence[Plan]) -> list[tuple[float, float, float]]:
        if plans[0].spec is None:
            weights = [self._alone(at, plan) for at, plan in enumerate(plans)]
        elif plans[0].scale > 0:
            weights = self._released(plans)
        else:
            weights = [self._trained([plan] * self.fits, at) for at, plan in enumerate(plans)]
        return [(*self._score(each), plan.sigma) for each, plan in zip(weights, plans, strict=True)]

    def _released(self, plans: Sequence[Plan]) -> list[Floats]:
        """Output perturbation: equal trainings are done once, and get noise of every budget."""
        distinct = list({plan.spec: plan for plan in plans}.values())
        trained = self._trained(distinct, "trained")
        exact = {plan.spec: weights for plan, weights in zip(distinct, trained, strict=True)}
        found = []
        for at, plan in enumerate(plans):
            noise = self.randomness("released", at).released
            copies = np.repeat(exact[plan.spec][None], self.settings.draws, axis=0)
            found.append(np.asarray(noise.perturb(copies, plan.scale)))
        return found

    def _trained(self, plans: Sequence[Plan], *name: Name) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            return train_together(plans, self.training, self.randomness(*name), self._start)[:, 0]

    def _alone(self, at: int, plan: Plan) -> Floats:
        """Methods that the engine does not train: minimisers, DP-AGD, the majority."""
        if plan.method == Majority.name:
            start = self._start
            start[0, -1] = Majority.intercepts(self.training)[0]
            return start
        fits = 1 if plan.method in REFERENCES else self.fits
        found = []
        for fit in range(fits):
            draws = self.randomness(at, fit)
            trained = methods.named(plan.method).train(plan, self.training, draws, self._start)
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
        """Mean accuracy on the fold held out, and mean objective on the others."""
        positive = (self.held_out.labels(0) == 1)[:, None]
        scores = self.held_out.X @ weights.T.astype(self.held_out.X.dtype)
        risk = self.training.risk(0, self.task(1.0), self.settings.l2)
        return float(((scores > 0) == positive).mean()), float(risk.objective(weights).mean())
