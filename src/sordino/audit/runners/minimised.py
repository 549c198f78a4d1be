"""Objective perturbation, many runs at once: the minimisers of fits, and so their law.

All runs of one world minimise one strongly convex function, each with a random linear term b.w of
its own. So a gradient of many runs is two matrix products; and one Hessian, factored once where
there is no linear term, brings all of them down in a few passes over the records, with the steps
of each run mixed so that what is left of its gradient is least (Anderson 1965; Walker & Ni 2011).

Nothing rests on how a minimum was found: a run ends where the norm of its gradient, with all that
rounding may hide, is within the tolerance of a fit. One that does not come so far is handed to
what a fit calls.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import threadpool_limits

from sordino import tasks
from sordino.audit.runners.runner import Blocks, Runner, Stretch
from sordino.data.dataset import Dataset
from sordino.estimators import methods
from sordino.estimators.fit import FitPlan, FitRecords, Randomness
from sordino.estimators.methods.prepared import release_preparation
from sordino.estimators.minimum.linear import (
    BLOCK,
    COLUMNS,
    LARGEST_DENSE_DIMENSION,
    Risk,
    most_rounding,
)
from sordino.estimators.preparation import Coordinates
from sordino.estimators.rules import mechanism
from sordino.types import Floats

_TOGETHER = 64  # runs minimised together; part of what a seed stands for
_PASSES = 16  # over the records, before another Hessian is tried
_MIXED = 5  # steps that are mixed into the next one


@dataclass(frozen=True, eq=False)
class SingleFit:
    """One fit of a method that is no `TrainSpec`: (data, generator) -> released weights.

    Its randomness is the operating system's, as that of a real fit; the generator is not used.

    Parameters
    ----------
    plan
        What a fit would do.
    start
        Initial weights [problem, column].
    """

    plan: FitPlan
    start: Floats

    def __call__(self, data: Dataset, generator: object) -> Floats:
        """Train on rows within the norm, and add the noise of the release."""
        plan, randomness = self.plan, Randomness.of_system()
        trained = methods.methods_for(plan.task)[plan.method].train(
            plan, records_of(plan, data), randomness, self.start
        )
        released = randomness.released.perturb(trained, plan.scale) if plan.scale else trained
        return np.ravel(released)


@dataclass(frozen=True, eq=False)
class PreparedFit(SingleFit):
    """One fit whose rows get a centre or a scale that is released of them first.

    It gives all that leaves: the weights, the centre and the scale. Rows of its data are within
    their bounds and norm, without a constant; a row of zeros is a record like any other.

    Parameters
    ----------
    coordinates
        What is public of how rows are prepared.
    intercept
        Whether rows get a constant.
    """

    coordinates: Coordinates
    intercept: bool

    def __call__(self, data: Dataset, generator: object) -> Floats:
        """Release what rows are prepared by, then train on what they become."""
        plan, randomness = self.plan, Randomness.of_system()
        made = release_preparation(plan, data.X, self.coordinates, randomness.released)
        assert made.center is not None
        assert made.scale is not None
        kind = methods.methods_for(plan.task)[plan.method]
        of = *_targets(plan, data), plan.task.norm, self.intercept
        inside = replace(made, low=None, high=None)
        records = FitRecords.of(data.X, *of, inside, data.weights)
        trained = kind.train(plan.training, records, randomness, self.start)
        released = randomness.released.perturb(trained, plan.scale) if plan.scale else trained
        return np.concatenate([np.ravel(released), made.center, made.scale])


def records_of(plan: FitPlan, data: Dataset) -> FitRecords:
    """What a fit trains on; labels of the data are class numbers, or targets in [-1, 1]."""
    return FitRecords(data.X, *_targets(plan, data), plan.task.norm, data.weights)


def _targets(plan: FitPlan, data: Dataset) -> tuple[npt.NDArray[Any], int]:
    """Class numbers and how many there are; of a regression targets, and 0."""
    if plan.task.regression:
        return data.y.astype(np.float64), 0
    return data.y.astype(np.int64), max(2, plan.task.problems)


@dataclass(frozen=True, eq=False)
class MinimisedFit(SingleFit):
    """A fit by objective perturbation; audits make many runs at once, with seeded noise."""

    def description(self) -> dict[str, Any]:
        """Everything that makes it, as plain values."""
        plan = self.plan
        task = dataclasses.asdict(plan.task) | {"relation": plan.task.relation.value}
        if plan.task.prepared is None:  # as it was before there was a centre
            del task["prepared"]
        numbers = {"l2": plan.l2, "sigma": plan.sigma, "scale": plan.scale}
        return {"method": plan.method, "task": task, **numbers}

    @staticmethod
    def can_do(plan: FitPlan) -> bool:
        """Whether runs of this plan can be made at once."""
        small = plan.task.columns <= LARGEST_DENSE_DIMENSION
        return plan.method == "objective" and small and plan.task.prepared is None


class Minimised(Runner):
    """Runs of a `MinimisedFit` in two worlds; independent of each other, also between worlds."""

    def __call__(self, runs: int, missing: list[Stretch], workers: int, client: Any) -> Blocks:
        """Make the missing runs, in blocks, some of them at the same time."""
        fit = self.mechanism
        with threadpool_limits(1, "blas"):  # the blocks are the parallelism
            risks = {  # one a problem
                world: minimisers(fit.plan, records_of(fit.plan, self.worlds[world]), fit.start)
                for world in {task.world for task in missing}
            }

            def released(task: Stretch) -> Floats:
                """[run, weight], the problems one after the other."""
                weights = []
                for problem, risk in enumerate(risks[task.world]):
                    normals = self.normals("linear term", task, _TOGETHER, risk.columns, problem)
                    weights.append(risk(normals * fit.plan.sigma / risk.rows))
                rows = np.concatenate(weights, axis=1)
                if fit.plan.scale:
                    normals = self.normals("release", task, _TOGETHER, rows.shape[1], 0)
                    rows += fit.plan.scale * normals
                return rows

            blocks = [block for each in missing for block in each.blocks(_TOGETHER)]
            for task, rows in tasks.run(released, blocks, workers=workers, threads=True):
                yield task.world, task.start, rows


def minimisers(
    plan: FitPlan, records: FitRecords, starts: Floats, *, l2: float | None = None
) -> list[Minimisers]:
    """Of the objectives of a fit on these records, one a problem, to the tolerance of a fit."""
    task, rows = plan.task, len(records.X)
    if l2 is None:
        # As in a fit: Risk means over the rows there are, the plan over their public number.
        l2 = plan.l2 * task.rows / rows
    tolerance = mechanism(task, plan.l2).gradient_left / rows
    return [
        Minimisers(records.risk(problem, task, l2), tolerance, task.norm, start)
        for problem, start in enumerate(starts)
    ]


class Minimisers:
    """Minimises F(w) + b.w for many b at once.

    Parameters
    ----------
    risk
        F.
    tolerance
        Norm of the gradient, in exact arithmetic, that no run may end above.
    norm
        What no row's norm exceeds.
    start
        Where a single minimisation begins.
    """

    def __init__(self, risk: Risk, tolerance: float, norm: float, start: Floats) -> None:
        self.risk = risk
        self.tolerance = tolerance
        self.norm = norm
        self.start = start
        self.rows, self.columns = risk.X.shape
        # 1024 rows and their scores stay in a core's own cache; above 2^22 rows, sums by so few
        # would be longer than those of a fit.
        many = 1024 if self.rows <= (1 << 22) else BLOCK
        parts = [slice(first, first + many) for first in range(0, self.rows, many)]
        self._parts = [risk.part(some) for some in parts]
        self._centre = risk.minimise(None, tolerance, start)
        self._factor = cho_factor(risk.hessian(self._centre))

    def __call__(self, linear: Floats) -> Floats:
        """Weights [run, column] for linear terms [run, column]."""
        best = self._centre - _solve(self._factor, linear)
        norms = np.full(len(linear), np.inf)
        with np.errstate(over="ignore", invalid="ignore"):  # of runs that go astray, and are left
            self._descend(best, norms, linear, self._factor)
            if len(left := np.flatnonzero(norms > self.tolerance)):
                # The next Hessian is the mean of those of eight runs.
                hessians = [self.risk.hessian(w) for w in best[left[:8]]]
                factor = cho_factor(np.mean(hessians, axis=0))
                self._descend(best, norms, linear, factor)
        for run in np.flatnonzero(norms > self.tolerance):
            best[run] = self.risk.minimise(linear[run], self.tolerance, self.start)
        return np.asarray(best)

    def _descend(self, best: Floats, norms: Floats, linear: Floats, factor: Any) -> None:
        """Bring runs within the tolerance; `best` and `norms` keep where each was best."""
        left = np.flatnonzero(norms > self.tolerance)
        weights, hidden = best[left], np.array([self._hidden(linear[run]) for run in left])
        mixing = _Mixing()
        for _ in range(_PASSES):
            gradient = self.gradients(weights, linear[left])
            now = np.linalg.norm(gradient, axis=1) + hidden
            better = now < norms[left]
            best[left[better]], norms[left[better]] = weights[better], now[better]
            on = ~(now <= self.tolerance)
            if not on.any():
                return
            left, hidden = left[on], hidden[on]
            weights = mixing(weights, -_solve(factor, gradient[on]), on)

    def gradients(self, weights: Floats, linear: Floats) -> Floats:
        """Of F + b.w for each run, [run, column], in float64."""
        total = np.zeros_like(weights)
        columns = [slice(j, j + COLUMNS) for j in range(0, self.columns, COLUMNS)]
        for part in self._parts:
            rows = part.X.astype(np.float64, copy=False)
            scores = sum(rows[:, some] @ weights[:, some].T for some in columns)
            total += part.derivatives(np.asarray(scores)).T @ rows
        return np.asarray(total / self.rows + self.risk.l2 * weights + linear)

    def _hidden(self, linear: Floats) -> float:
        """What rounding may hide of a run's gradient, at most."""
        return most_rounding(
            rows=self.rows,
            dimension=self.columns,
            curvature=self.risk.largest_curvature,
            huber_width=self.risk.huber_width,
            l2=self.risk.l2,
            norm=self.norm,
            linear=float(np.linalg.norm(linear)),
        )


def _solve(factor: Any, gradients: Floats) -> Floats:
    return np.asarray(cho_solve(factor, gradients.T, check_finite=False).T)


class _Mixing:
    """Anderson's mixing: the next weights of each run from its last few and their steps."""

    def __init__(self) -> None:
        self._last: tuple[Floats, Floats] | None = None
        self._moves: list[Floats] = []
        self._turns: list[Floats] = []

    def __call__(self, weights: Floats, step: Floats, on: npt.NDArray[np.bool_]) -> Floats:
        """The next weights of the runs that are left; `step` is theirs alone."""
        weights = weights[on]
        if self._last is not None:
            move, turn = weights - self._last[0][on], step - self._last[1][on]
            self._moves = [*(each[on] for each in self._moves), move][-_MIXED:]
            self._turns = [*(each[on] for each in self._turns), turn][-_MIXED:]
        self._last = weights, step
        if not self._moves:
            return np.asarray(weights + step)
        turns = np.stack(self._turns, axis=1)  # [run, step, column]
        gram = turns @ turns.transpose(0, 2, 1)
        size = np.trace(gram, axis1=1, axis2=2)[:, None, None]
        gram += (1e-12 * size + float(np.finfo(np.float64).tiny)) * np.eye(len(self._turns))
        right = turns @ step[:, :, None]
        # Zeros for runs where there is no solution to be found.
        sound = np.isfinite(np.concatenate([gram, right], axis=2)).all(axis=(1, 2))[:, None, None]
        gram = np.where(sound, gram, np.eye(len(self._turns)))
        shares = np.linalg.solve(gram, np.where(sound, right, 0.0))
        along = np.stack(self._moves, axis=1) + turns
        return np.asarray(weights + step - (shares.transpose(0, 2, 1) @ along)[:, 0])
