"""What privacy costs: accuracy on held-out rows, before, after and against epsilon.

INTERNAL: exact accuracies are computed from records, and no guarantee covers them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from sordino.assessment import repeats, scores
from sordino.assessment.effort import EFFORTS
from sordino.estimators.base import PrivateLinearClassifier
from sordino.estimators.job import Job
from sordino.estimators.records import Scaling
from sordino.estimators.task import Plan
from sordino.privacy import NotApplicable
from sordino.report.stages import Accuracy, AccuracyPoint, Measure, Scores
from sordino.types import Floats, Ints, Progress

if TYPE_CHECKING:
    from sordino.assessment.subject import Subject


LEVEL = 0.95
_CHOSEN = 0.3
"""Share of the time for releases like the one that was made; the rest is for the curve."""
_RANGE = 5
"""Times as many of those: 95 % of them lie in a range that fewer do not show."""
_BLOCK = 1 << 22


def linear_accuracy(subject: Subject, work: Path, progress: Progress) -> Accuracy | None:
    """Of releases like that of a linear model; None if there are no held-out rows."""
    if subject.test_X is None:
        return None
    job, chosen = subject.job, subject.brief.epsilon
    assert job is not None
    held = HeldOut.of(subject.test_X, subject.test_y, job)
    plain = repeats.without_privacy(job)
    shares = _shares(subject, job, held, plain, work, progress)
    frequent = np.bincount(job.records.codes, minlength=len(job.classes))
    return Accuracy(
        before=wilson(int(held.right(plain[None])[0]), held.rows),
        after=None,
        again=spread(shares[chosen]),
        repeats=len(shares[chosen]),
        majority=float(np.mean(held.codes == frequent.argmax())),
        curve=curve(shares),
        test_rows=held.rows,
        before_scores=held.scores(plain, probable=_probable(job)),
        constant_scores=scores.of_constant(held.codes, frequent / frequent.sum()),
    )


def scored(
    known: Accuracy | None, subject: Subject, released: PrivateLinearClassifier
) -> Accuracy | None:
    """The same with that of the model that was released."""
    if known is None:
        return None
    assert subject.job is not None
    codes = class_codes(subject.test_y, subject.job)
    said = np.asarray(released.decision_function(subject.test_X), dtype=np.float64)
    predicted = np.asarray(released.predict(subject.test_X))
    right = int(np.count_nonzero(predicted == np.asarray(subject.test_y)))
    return replace(
        known,
        after=wilson(right, len(predicted)),
        after_scores=scores.of_decisions(codes, said, probable=_probable(subject.job)),
    )


def _probable(job: Job) -> bool:
    return job.plan.task.kind == "logistic"


def class_codes(labels: Any, job: Job) -> Ints:
    """Number of each label's class; -1 for one that training did not know."""
    place = {label: code for code, label in enumerate(job.classes.tolist())}
    listed = np.asarray(labels).tolist()
    return np.array([place.get(label, -1) for label in listed], dtype=np.int64)


def _shares(
    subject: Subject, job: Job, held: HeldOut, near: Floats, work: Path, progress: Progress
) -> dict[float, Floats]:
    """Accuracies of the repeats at every epsilon."""
    plans, brief = _plans(subject), subject.brief
    counts = _counts(plans, brief.epsilon, EFFORTS[brief.effort].accuracy, brief.repeats)
    total, done = sum(counts.values()), 0
    shares = {}
    for epsilon, plan in plans.items():
        if not (count := counts[epsilon]):  # a point that would take too long is left out
            continue
        tell = partial(_tell, progress, done, total)
        make = partial(_made, plan, job, held, count, near, tell)
        shares[epsilon] = repeats.kept(work, f"accuracy-{epsilon!r}", count, make)
        done += count
        progress(done, total)
    return shares


def _made(
    plan: Plan, job: Job, held: HeldOut, count: int, near: Floats, tell: Callable[[int], None]
) -> Floats:
    return held.right(repeats.released_weights(plan, job, count, near, tell)) / held.rows


def _tell(progress: Progress, before: int, total: int, done: int) -> None:
    progress(before + done, total)


def _plans(subject: Subject) -> dict[float, Plan]:
    """The plan at every epsilon of the curve, the chosen one among them, in order."""
    job, estimator = subject.job, subject.estimator
    assert job is not None
    assert estimator is not None
    start = float(np.linalg.norm(job.start, axis=1).max())
    plans = {subject.brief.epsilon: job.plan}
    for epsilon in subject.brief.curve_epsilons:
        if epsilon in plans:
            continue
        try:
            plans[epsilon] = estimator._plan(replace(job.plan.task, epsilon=epsilon), start)
        except NotApplicable:  # so small or large a budget has no such release: no point
            continue
    return dict(sorted(plans.items()))


def _counts(
    plans: Mapping[float, Plan], chosen: float, seconds: float, most: int
) -> dict[float, int]:
    """Repeats at each epsilon."""
    share = seconds * (1 - _CHOSEN) / max(len(plans) - 1, 1)
    counts = {epsilon: repeats.affordable(plan, share, most) for epsilon, plan in plans.items()}
    alike = repeats.affordable(plans[chosen], seconds * _CHOSEN, _RANGE * most)
    counts[chosen] = max(alike, repeats.LEAST)
    return counts


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that no training saw, as linear weights meet them.

    `X` has the intercept's column last; a class that training did not know has code -1.
    """

    X: Floats
    codes: Ints

    @classmethod
    def of(cls, X: Any, y: Any, job: Job) -> HeldOut:
        """Rows as `predict` takes them: scaled like those of the training."""
        given = np.asarray(X, dtype=np.float64)
        intercept = job.records.X.shape[1] > given.shape[1]
        rows = Scaling(job.records.norm, intercept).rows(given)
        return cls(rows, class_codes(y, job))

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.codes)

    def right(self, weights: Floats) -> Ints:
        """How many rows each model [model, problem, column] labels as they are."""
        models, problems, columns = weights.shape
        found = np.zeros(models, dtype=np.int64)
        flat = weights.reshape(-1, columns).T
        step = max(1, _BLOCK // flat.shape[1])
        for start in range(0, self.rows, step):
            part = slice(start, start + step)
            with np.errstate(all="ignore"):  # a model that diverged is merely wrong
                scores = (self.X[part] @ flat).reshape(-1, models, problems)
            chosen = scores[..., 0] > 0 if problems == 1 else scores.argmax(axis=2)
            found += np.count_nonzero(chosen == self.codes[part, None], axis=0)
        return found

    def scores(self, weights: Floats, *, probable: bool) -> Scores:
        """Of one model [problem, column]."""
        said = self.X @ weights.T
        decisions = said[:, 0] if len(weights) == 1 else said
        return scores.of_decisions(self.codes, decisions, probable=probable)


def wilson(right: int, rows: int) -> Measure:
    """A share of rows, and Wilson's interval for the rows being a sample of many."""
    interval = stats.binomtest(right, rows).proportion_ci(LEVEL, method="wilson")
    return Measure(right / rows, float(interval.low), float(interval.high))


def spread(shares: Sequence[float] | Floats) -> Measure:
    """Mean, and the range in which 95 % of the shares lie."""
    mean = float(np.mean(shares))
    low, high = np.quantile(shares, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Measure(mean, min(float(low), mean), max(float(high), mean))


def curve(shares: Mapping[float, Floats]) -> tuple[AccuracyPoint, ...]:
    """Mean accuracy against epsilon, with Student's interval of the mean."""
    points = []
    for epsilon, found in sorted(shares.items()):
        mean, many = float(found.mean()), len(found)
        half = 1.0
        if many > 1:
            error = float(found.std(ddof=1)) / math.sqrt(many)
            half = float(stats.t.ppf((1 + LEVEL) / 2, many - 1)) * error
        measure = Measure(mean, max(mean - half, 0.0), min(mean + half, 1.0))
        points.append(AccuracyPoint(epsilon, measure, many))
    return tuple(points)
