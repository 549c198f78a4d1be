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
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import threadpool_limits

from sordino.audit.called import Stretch
from sordino.audit.trained import Found, OwnRuns
from sordino.data.dataset import Dataset
from sordino.estimators import methods
from sordino.estimators.fit import FitPlan, FitRecords, Randomness
from sordino.estimators.risk import BLOCK, COLUMNS, LARGEST_DENSE_DIMENSION, Risk, most_rounding
from sordino.estimators.rules import mechanism
from sordino.types import Floats


@dataclass(frozen=True, eq=False)
class OwnFit:
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
        trained = methods.named(plan.method).train(
            plan, records_of(plan, data), randomness, self.start
        )
        released = randomness.released.perturb(trained, plan.scale) if plan.scale else trained
        return np.ravel(released)


def records_of(plan: FitPlan, data: Dataset) -> FitRecords:
    """What a fit trains on; labels of the data are class numbers."""
    task = plan.task
    return FitRecords(data.X, data.y.astype(np.int64), max(2, task.problems), task.norm)


TOGETHER = 64
"""Runs minimised together; part of what a seed stands for."""
MIXED = 5
"""Steps that are mixed into the next one."""
PASSES = 16
"""Over the records, before another Hessian is tried."""
REFRESHED = 8
"""Runs whose Hessians make the next one, on the average."""
_ROWS = 1024  # and their scores, of so many runs, stay in a core's own cache
_MANY_ROWS = 1 << 22  # above, sums by so few rows would be longer than those of a fit
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class MinimisedFit(OwnFit):
    """A fit by objective perturbation; audits make many runs at once, with seeded noise."""

    def described(self) -> dict[str, Any]:
        """Everything that makes it, as plain values."""
        plan = self.plan
        task = dataclasses.asdict(plan.task) | {"relation": plan.task.relation.value}
        numbers = {"l2": plan.l2, "sigma": plan.sigma, "scale": plan.scale}
        return {"method": plan.method, "task": task, **numbers}

    @staticmethod
    def can_do(plan: FitPlan) -> bool:
        """Whether runs of this plan can be made at once."""
        return plan.method == "objective" and plan.task.columns <= LARGEST_DENSE_DIMENSION


class Minimised(OwnRuns):
    """Runs of a `MinimisedFit` in two worlds; independent of each other, also between worlds."""

    def __call__(self, runs: int, missing: list[Stretch], workers: int) -> Found:
        """Make the missing runs, in blocks, some of them at the same time."""
        if not missing:
            return
        with threadpool_limits(1, "blas"):  # the blocks are the parallelism
            risks = {world: self._risks(world) for world in {task.world for task in missing}}
            pool = ThreadPoolExecutor(workers)
            try:
                under_way: deque[tuple[Stretch, Future[Floats]]] = deque()
                for task in (block for each in missing for block in each.blocks(TOGETHER)):
                    under_way.append((task, pool.submit(self._released, task, risks[task.world])))
                    if len(under_way) > workers:
                        yield _finished(*under_way.popleft())
                while under_way:
                    yield _finished(*under_way.popleft())
            finally:
                pool.shutdown(cancel_futures=True)

    def _risks(self, world: int) -> list[Minimisers]:
        """One a problem."""
        plan, data = self.release.plan, (self.D, self.D_prime)[world]
        assert isinstance(data, Dataset)
        return minimisers(plan, records_of(plan, data), self.release.start)

    def _released(self, task: Stretch, risks: list[Minimisers]) -> Floats:
        """[run, weight], the problems one after the other."""
        plan = self.release.plan
        weights = [
            each(
                self.normals("linear term", task, TOGETHER, each.columns, problem)
                * plan.sigma
                / each.rows
            )
            for problem, each in enumerate(risks)
        ]
        found = np.concatenate(weights, axis=1)
        if plan.scale:
            found += plan.scale * self.normals("release", task, TOGETHER, found.shape[1], 0)
        return found


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


def _finished(task: Stretch, found: Future[Floats]) -> tuple[int, int, Floats]:
    return task.world, task.start, found.result()


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
        many = _ROWS if self.rows <= _MANY_ROWS else BLOCK
        starts = range(0, self.rows, many)
        self._parts = [self._part(slice(first, first + many)) for first in starts]
        self._centre = risk.minimise(None, tolerance, start)
        self._factor = cho_factor(risk.hessian(self._centre))

    def __call__(self, linear: Floats) -> Floats:
        """Weights [run, column] for linear terms [run, column]."""
        found = _Descents(linear, self._centre - self._solved(self._factor, linear))
        with np.errstate(over="ignore", invalid="ignore"):  # of runs that go astray, and are left
            self._descend(found, self._factor)
            if len(left := found.left):
                chosen = found.weights[left[:REFRESHED]]
                self._descend(found, cho_factor(_mean(self.risk.hessian(w) for w in chosen)))
        for run in found.left:
            found.weights[run] = self.risk.minimise(linear[run], self.tolerance, self.start)
        return found.weights

    def _descend(self, runs: _Descents, factor: Any) -> None:
        """Bring those that are left within the tolerance; what is not, stays where it was best."""
        left = runs.left
        weights, linear, hidden = runs.weights[left], runs.linear[left], self._hidden(runs, left)
        mixing = _Mixing()
        for _ in range(PASSES):
            gradient = self.gradients(weights, linear)
            norms = np.linalg.norm(gradient, axis=1) + hidden
            runs.note(left, weights, norms, self.tolerance)
            on = ~(norms <= self.tolerance)
            if not on.any():
                return
            left, linear, hidden = left[on], linear[on], hidden[on]
            step = -self._solved(factor, gradient[on])
            weights = mixing(weights, step, on)

    def gradients(self, weights: Floats, linear: Floats) -> Floats:
        """Of F + b.w for each run, [run, column], in float64."""
        total = np.zeros_like(weights)
        columns = [slice(j, j + COLUMNS) for j in range(0, self.columns, COLUMNS)]
        for part in self._parts:
            rows = part.X.astype(np.float64, copy=False)
            scores = sum(rows[:, some] @ weights[:, some].T for some in columns)
            total += part.derivatives(np.asarray(scores)).T @ rows
        return np.asarray(total / self.rows + self.risk.l2 * weights + linear)

    def _part(self, rows: slice) -> Risk:
        risk = self.risk
        return dataclasses.replace(risk, X=risk.X[rows], y=risk.y[rows])

    def _solved(self, factor: Any, gradients: Floats) -> Floats:
        return np.asarray(cho_solve(factor, gradients.T, check_finite=False).T)

    def _hidden(self, runs: _Descents, left: npt.NDArray[np.intp]) -> Floats:
        """What rounding may hide of each gradient, at most."""
        risk = self.risk
        bounds = [
            most_rounding(
                rows=self.rows,
                dimension=self.columns,
                curvature=risk.largest_curvature,
                huber_width=risk.huber_width,
                l2=risk.l2,
                norm=self.norm,
                linear=float(np.linalg.norm(runs.linear[run])),
            )
            for run in left
        ]
        return np.array(bounds)


class _Descents:
    """Where each run is at its best so far."""

    def __init__(self, linear: Floats, weights: Floats) -> None:
        self.linear = linear
        self.weights = weights
        self.norms = np.full(len(linear), np.inf)
        self.done = np.zeros(len(linear), dtype=bool)

    @property
    def left(self) -> npt.NDArray[np.intp]:
        """Runs that are not yet within the tolerance."""
        return np.flatnonzero(~self.done)

    def note(
        self, which: npt.NDArray[np.intp], weights: Floats, norms: Floats, tolerance: float
    ) -> None:
        """Keep what is better than before."""
        better = norms < self.norms[which]
        kept = which[better]
        self.weights[kept], self.norms[kept] = weights[better], norms[better]
        self.done[kept] = norms[better] <= tolerance


class _Mixing:
    """Anderson's mixing: the next weights of each run from its last few and their steps."""

    def __init__(self) -> None:
        self._last: tuple[Floats, Floats] | None = None
        self._moves: list[Floats] = []
        self._turns: list[Floats] = []

    def __call__(self, weights: Floats, step: Floats, on: npt.NDArray[np.bool_]) -> Floats:
        """The next weights of the runs that go on; `step` is theirs alone."""
        weights = weights[on]
        if self._last is not None:
            move, turn = weights - self._last[0][on], step - self._last[1][on]
            self._moves = [*(each[on] for each in self._moves), move][-MIXED:]
            self._turns = [*(each[on] for each in self._turns), turn][-MIXED:]
        self._last = weights, step
        if not self._moves:
            return np.asarray(weights + step)
        turns = np.stack(self._turns, axis=1)  # [run, step, column]
        gram = turns @ turns.transpose(0, 2, 1)
        size = np.trace(gram, axis1=1, axis2=2)[:, None, None]
        ridge = (1e-12 * size + _TINY) * np.eye(len(self._turns))
        shares = _solved(gram + ridge, turns @ step[:, :, None])
        along = np.stack(self._moves, axis=1) + turns
        return np.asarray(weights + step - (shares.transpose(0, 2, 1) @ along)[:, 0])


def _solved(matrices: Floats, right: Floats) -> Floats:
    """Solutions, and zeros where there is none to be found."""
    both = np.concatenate([matrices, right], axis=2)
    sound = np.asarray(np.isfinite(both).all(axis=(1, 2)))
    eye = np.eye(matrices.shape[1])
    return np.linalg.solve(
        np.where(sound[:, None, None], matrices, eye), np.where(sound[:, None, None], right, 0.0)
    )


def _mean(hessians: Iterator[Floats]) -> Floats:
    return np.asarray(np.mean(list(hessians), axis=0))
