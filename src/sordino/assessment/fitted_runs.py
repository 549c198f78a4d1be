"""Runs of methods that the engine does not train: objective perturbation and adaptive descent.

Both datasets of a pair are fitted with the same noise, run by run. Nothing is kept on disk: it is
a matter of seconds, and gives the same numbers when it is done again.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sordino.assessment.distance import ATTACKED, Distance
from sordino.audit.minimised import MinimisedFit, Minimisers
from sordino.audit.own_fit import records_of
from sordino.data.dataset import Dataset
from sordino.estimators import methods
from sordino.estimators.perturbed import mechanism
from sordino.estimators.randomness import Randomness
from sordino.estimators.records import Records
from sordino.estimators.risk import Risk
from sordino.estimators.task import Plan
from sordino.intrinsic.interval import percentile
from sordino.seeding import stream
from sordino.types import Array, Floats, Progress

TOGETHER = 64
"""Objectives minimised at once."""
DRAWS, LEVEL = 200, 0.95
BY_GRADIENTS = "of how far one record shifts the random term of the objective"
SHIFT = (
    "takes the curvature of one record for nothing beside that of all; the little noise on the "
    "minimiser is left out"
)

SHIFT_WORDS = (
    "Whoever sees the minimiser can compute the random term that would have led there from either "
    "dataset; the two differ by how differently the two records pull at that place, which was "
    "averaged over the fits and divided by the standard deviation of the term."
)
NO_SIGMA_WORDS = (
    "It decides by chance how far it goes, so that runs with the same noise may part ways: a "
    "largest distance under one seed says nothing about the record, and there is no estimate by "
    "one sigma for all directions."
)


def fitted(
    plan: Plan, start: Floats, pair: tuple[Dataset, Dataset], seeds: int, progress: Progress
) -> Floats:
    """Weights [seed, dataset, problem, column] before the noise of the release.

    Parameters
    ----------
    plan, start
        What a fit does, and where it starts, [problem, column].
    pair
        Labels are class numbers.
    """
    worlds = [records_of(plan, data) for data in pair]
    if MinimisedFit.can_do(plan):
        return _minimised(plan, start, worlds, seeds, progress)
    found = np.empty((seeds, len(worlds), *start.shape))
    method = methods.named(plan.method)
    with ThreadPoolExecutor(len(worlds)) as pool:
        for seed in range(seeds):
            progress(seed, seeds)

            def trained(records: Records, noise: int = seed) -> Floats:
                return method.train(plan, records, Randomness.seeded(noise), start)

            found[seed] = list(pool.map(trained, worlds))
    progress(seeds, seeds)
    return found


def _minimised(
    plan: Plan, start: Floats, worlds: Sequence[Records], seeds: int, progress: Progress
) -> Floats:
    """Many at once, to the tolerance of a fit."""
    task, rows = plan.task, len(worlds[0].X)
    tolerance = mechanism(task, plan.l2).gradient_left / rows
    l2 = plan.l2 * task.rows / rows  # as in a fit: the plan's mean is over the public number
    found = np.empty((seeds, len(worlds), *start.shape))
    total = seeds * len(worlds) * len(start)
    done = 0
    for problem, first in enumerate(start):
        noise = stream("estimate", "linear term", problem)
        linear = noise.standard_normal((seeds, task.columns)) * plan.sigma / rows
        for world, records in enumerate(worlds):
            risk = records.risk(problem, task, l2)
            minimisers = Minimisers(risk, tolerance, task.norm, first)
            for begin in range(0, seeds, TOGETHER):
                some = slice(begin, min(begin + TOGETHER, seeds))
                found[some, world, problem] = minimisers(linear[some])
                done += some.stop - some.start
                progress(done, total)
    return found


def shifts(
    plan: Plan,
    pair: tuple[Dataset, Dataset],
    D: Dataset,
    weights: Floats,
    neighbours: int,
) -> list[Distance]:
    """Of objective perturbation: the attacked pair's distance, and the largest of drawn ones.

    The weights determine the random term b that made them, and the other way round: with D they are
    those of b, with D' those of b plus the difference of the two records' gradients there. So
    whoever sees the weights sees Gaussian noise of known size, shifted by that difference.

    Parameters
    ----------
    D
        The records, whose labels are class numbers.
    weights
        Of fits on the first dataset of the pair, [seed, problem, column].
    neighbours
        Records of D that are drawn, each to be replaced by another.
    """
    first, second = pair
    attacked = _Records(plan, first.X[:1], first.y[:1], second.X[:1], second.y[:1], weights)
    found = [attacked.distance(0, ATTACKED)]
    many = min(neighbours, D.rows // 2)
    chosen = stream("neighbours").permutation(D.rows)[: 2 * many]
    replaced, instead = chosen[:many], chosen[many:]
    drawn = _Records(plan, D.X[replaced], D.y[replaced], D.X[instead], D.y[instead], weights)
    worst = int(drawn.sizes().argmax())
    name = f"the worst of {many} records drawn, each replaced by another"
    return [*found, drawn.distance(worst, name)]


class _Records:
    """Records, and what stands instead of each: their gradients at the weights of each seed."""

    def __init__(
        self, plan: Plan, X: Array, y: Array, other_X: Array, other_y: Array, weights: Floats
    ) -> None:
        self.sigma, self.seeds = plan.sigma, len(weights)
        self.rows = np.stack([X, other_X], axis=1).astype(np.float64)  # [record, which, column]
        self.slopes = np.stack(
            [_slopes(plan, each, labels, weights) for each, labels in ((X, y), (other_X, other_y))],
            axis=-1,
        )  # [problem, seed, record, which]

    def sizes(self) -> Floats:
        """Distance of every record from what stands instead."""
        once = np.full((1, self.seeds), 1 / self.seeds)
        return np.array([self._norms(record, once)[0] for record in range(len(self.rows))])

    def distance(self, record: int, of: str) -> Distance:
        """With an interval that resamples seeds."""
        shares = np.full(self.seeds, 1 / self.seeds)
        drawn = stream("estimate", "shifts").multinomial(self.seeds, shares, DRAWS) / self.seeds
        value = float(self._norms(record, shares[None])[0])
        return Distance(
            of, BY_GRADIENTS, percentile(value, self._norms(record, drawn), LEVEL), SHIFT
        )

    def _norms(self, record: int, shares: Floats) -> Floats:
        """||mean difference|| / sigma for each weighting [weighting, seed], over all problems."""
        means = shares @ self.slopes[:, :, record]  # [problem, weighting, which]
        moved = (means * np.array([1.0, -1.0])) @ self.rows[record]
        return np.asarray(np.sqrt(np.sum(moved**2, axis=(0, 2))) / self.sigma)


def _slopes(plan: Plan, X: Array, codes: Array, weights: Floats) -> Floats:
    """Slope of every record's loss, [problem, seed, record]."""
    task = plan.task
    found = []
    for problem in range(weights.shape[1]):
        asked = 1 if task.problems == 1 else problem
        rows = X.astype(np.float64)
        risk = Risk(X=rows, y=codes == asked, kind=task.kind, huber_width=task.huber_width)
        found.append(risk.derivatives(rows @ weights[:, problem].T).T)
    return np.stack(found)
