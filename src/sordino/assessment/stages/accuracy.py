"""What privacy costs: accuracy on held-out rows, before, after and against epsilon.

INTERNAL: exact accuracies are computed from records, and no guarantee covers them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from sklearn.metrics import log_loss, recall_score, roc_auc_score

from sordino.assessment import network, repeats
from sordino.assessment.effort import EFFORTS
from sordino.data.preprocess import clip_rows
from sordino.errors import NotApplicable
from sordino.estimators.base import PrivateLinearClassifier
from sordino.estimators.classifiers import probabilities
from sordino.estimators.job import Job
from sordino.estimators.records import Scaling
from sordino.estimators.task import FitPlan
from sordino.models import build
from sordino.report.stages import CALIBRATION_BINS, Accuracy, AccuracyPoint, Measure, Scores
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats, Ints, Progress

if TYPE_CHECKING:
    from sordino.assessment.plan import AssessmentPlan


LEVEL = 0.95
_CHOSEN = 0.3
"""Share of the time for releases like the one that was made; the rest is for the curve."""
_RANGE = 5
"""Times as many of those: 95 % of them lie in a range that fewer do not show."""
_BLOCK = 1 << 22


def linear_accuracy(subject: AssessmentPlan, work: Path, progress: Progress) -> Accuracy | None:
    """Of releases like that of a linear model; None if there are no held-out rows."""
    if subject.test_X is None:
        return None
    job, chosen = subject.job, subject.request.epsilon
    assert job is not None
    held = HeldOut.of(subject.test_X, subject.test_y, job)
    plain = repeats.without_privacy(job)
    shares = _shares(subject, job, held, plain, work, progress)
    frequent = np.bincount(job.records.codes, minlength=len(job.classes))
    scores = {"before_scores": held.scores(plain, probable=_probable(job))}
    return _accuracy(held.codes, int(held.right(plain[None])[0]), shares, chosen, frequent, scores)


def _accuracy(
    codes: Ints,
    right: int,
    shares: Mapping[float, Floats],
    chosen: float,
    frequent: Ints,
    scores: Mapping[str, Scores],
) -> Accuracy:
    """What is said of models that got so many of the rows with these classes right."""
    return Accuracy(
        before=wilson(right, len(codes)),
        after=None,
        again=spread(shares[chosen]),
        repeats=len(shares[chosen]),
        majority=float(np.mean(codes == frequent.argmax())),
        curve=curve(shares),
        test_rows=len(codes),
        constant_scores=of_constant(codes, frequent / frequent.sum()),
        **scores,
    )


def scored(
    known: Accuracy | None, subject: AssessmentPlan, released: PrivateLinearClassifier
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
        after_scores=of_decisions(codes, said, probable=_probable(subject.job)),
    )


def _probable(job: Job) -> bool:
    return job.plan.task.kind == "logistic"


def class_codes(labels: Any, job: Job) -> Ints:
    """Number of each label's class; -1 for one that training did not know."""
    place = {label: code for code, label in enumerate(job.classes.tolist())}
    listed = np.asarray(labels).tolist()
    return np.array([place.get(label, -1) for label in listed], dtype=np.int64)


def _shares(
    subject: AssessmentPlan, job: Job, held: HeldOut, near: Floats, work: Path, progress: Progress
) -> dict[float, Floats]:
    """Accuracies of the repeats at every epsilon."""
    plans, request = _plans(subject), subject.request
    counts = _counts(plans, request.epsilon, EFFORTS[request.effort].accuracy, request.repeats)
    total, done = sum(counts.values()), 0
    shares = {}
    for epsilon, plan in plans.items():
        if not (count := counts[epsilon]):  # a point that would take too long is left out
            continue
        make = partial(_made, plan, job, held, count, near, partial(_tell, progress, done, total))
        shares[epsilon] = repeats.kept(work, f"accuracy-{epsilon!r}", count, make)
        done += count
        progress(done, total)
    return shares


def _made(
    plan: FitPlan, job: Job, held: HeldOut, count: int, near: Floats, tell: Callable[[int], None]
) -> Floats:
    return held.right(repeats.released_weights(plan, job, count, near, tell)) / held.rows


def _tell(progress: Progress, before: int, total: int, done: int) -> None:
    progress(before + done, total)


def _plans(subject: AssessmentPlan) -> dict[float, FitPlan]:
    """The plan at every epsilon of the curve, the chosen one among them, in order."""
    job, estimator = subject.job, subject.estimator
    assert job is not None
    assert estimator is not None
    start = float(np.linalg.norm(job.start, axis=1).max())
    plans = {subject.request.epsilon: job.plan}
    for epsilon in subject.request.curve_epsilons:
        if epsilon in plans:
            continue
        try:
            plans[epsilon] = estimator._plan(replace(job.plan.task, epsilon=epsilon), start)
        except NotApplicable:  # so small or large a budget has no such release: no point
            continue
    return dict(sorted(plans.items()))


def _counts(
    plans: Mapping[float, FitPlan], chosen: float, seconds: float, most: int
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
        return of_decisions(self.codes, decisions, probable=probable)


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


def of_decisions(codes: Ints, decisions: Floats, *, probable: bool) -> Scores:
    """Of a model that says `decisions` of rows with these classes.

    Parameters
    ----------
    codes
        Number of each row's class; -1 for one that training did not know.
    decisions
        [row] for two classes, above 0 for the second; else [row, class], the largest is chosen.
    probable
        Whether the logistic curve of a decision is the model's probability.
    """
    if not np.isfinite(decisions).all():  # a model that diverged
        return Scores()
    by_class = np.column_stack([-decisions, decisions]) if decisions.ndim == 1 else decisions
    chosen = (decisions > 0).astype(np.int64) if decisions.ndim == 1 else decisions.argmax(axis=1)
    return Scores(
        balanced_accuracy=_balanced(codes, chosen),
        auc=_auc(codes, by_class),
        **(_of_probabilities(codes, probabilities(decisions)) if probable else {}),
    )


def of_constant(codes: Ints, shares: Floats) -> Scores:
    """Of always saying the most frequent class, and every class with its share of the training."""
    said = np.tile(shares, (len(codes), 1))
    return Scores(
        balanced_accuracy=_balanced(codes, said.argmax(axis=1)),
        auc=_auc(codes, said),
        **_of_probabilities(codes, said),
    )


def _balanced(codes: Ints, chosen: Ints) -> float | None:
    """Mean over the classes of the share of its rows that are labelled so."""
    present = np.unique(codes)
    if len(present) < 2:
        return None
    return float(recall_score(codes, chosen, labels=present, average="macro", zero_division=0.0))


def _auc(codes: Ints, by_class: Floats) -> float | None:
    """Each class against the rest, their mean; of two classes both are the same."""
    many = by_class.shape[1]
    if len(np.unique(codes)) < many or (codes < 0).any():
        return None
    return float(np.mean([roc_auc_score(codes == k, by_class[:, k]) for k in range(many)]))


def _of_probabilities(codes: Ints, said: Floats) -> dict[str, float | None]:
    if len(np.unique(codes)) < 2 or (codes < 0).any():
        return {}
    return {
        "log_loss": float(log_loss(codes, said, labels=range(said.shape[1]))),
        "calibration_error": _calibration_error(codes, said),
    }


def _calibration_error(codes: Ints, said: Floats) -> float:
    """How far probabilities lie from shares, over bins of equal width, weighted by their rows.

    Of the second of two classes, else of the class that is chosen.
    """
    two = said.shape[1] == 2
    sure = said[:, 1] if two else said.max(axis=1)
    right = codes == (1 if two else said.argmax(axis=1))
    place = np.minimum((sure * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    return float(np.abs(np.bincount(place, sure - right)).sum() / len(codes))


_SPEED = 1e9
"""Operations a second, about, that two cores do for networks."""


def network_accuracy(subject: AssessmentPlan, work: Path, progress: Progress) -> Accuracy | None:
    """Of networks trained as planned, and for other budgets; None without held-out rows."""
    if subject.test_X is None:
        return None
    chosen, rows = subject.request.epsilon, _Rows.of(subject)
    specs = _specs(subject)
    count = _repeats(subject, specs)
    total = count * (len(specs) + 1)
    shares = {}
    # Without privacy last: its epsilon is infinite.
    for done, (epsilon, spec) in enumerate([*sorted(specs.items()), (math.inf, subject.plain)], 1):
        make = partial(rows.shares, spec, subject, count)
        shares[epsilon] = repeats.kept(work, f"accuracy-{epsilon!r}", count, make)
        progress(count * done, total)
    plain = float(shares.pop(math.inf).mean())
    scores = {
        "before_scores": rows.scores(subject.plain, subject),
        "after_scores": rows.scores(specs[chosen], subject),
    }
    frequent = np.bincount(subject.D.y, minlength=2)
    return _accuracy(rows.y, round(plain * len(rows.y)), shares, chosen, frequent, scores)


def _specs(subject: AssessmentPlan) -> dict[float, TrainSpec]:
    """The training at every epsilon of the curve, the chosen one among them."""
    assert subject.network is not None
    specs = {subject.request.epsilon: subject.network.spec}
    for epsilon in set(subject.request.curve_epsilons) - set(specs):
        try:
            made = network.plan(
                subject.D,
                subject.recipe,
                epsilon,
                subject.delta,
                rows_per_person=subject.network.rows_per_person,
            )
        except NotApplicable:  # no noise is enough for so small a budget: no point
            continue
        specs[epsilon] = made.spec
    return specs


def _repeats(subject: AssessmentPlan, specs: Mapping[float, TrainSpec]) -> int:
    """As many of each as the time allows, by public sizes alone."""
    objective = build(subject.plain.objective, subject.D.features)
    work = sum(
        spec.total_steps(subject.D.rows) * objective.step_operations(spec.batch_size)
        for spec in (subject.plain, *specs.values())
    )
    most: int = subject.request.repeats
    return max(
        min(int(EFFORTS[subject.request.effort].accuracy * _SPEED / work), most),
        min(repeats.LEAST, most),
    )


class _Rows:
    """Held-out rows, scaled as those that are trained on, and their labels 0 and 1."""

    def __init__(self, X: Floats, y: Ints) -> None:
        self.X, self.y = X, y

    @classmethod
    def of(cls, subject: AssessmentPlan) -> _Rows:
        given = subject.prepared.classes
        labels = np.unique(np.asarray(subject.y)) if given is None else np.asarray(given)
        X = np.asarray(subject.test_X, dtype=np.float64)
        y = (np.asarray(subject.test_y) == labels[1]).astype(np.int64)
        return cls(clip_rows(X, subject.prepared.data_norm), y)

    def shares(self, spec: TrainSpec, subject: AssessmentPlan, count: int) -> Floats:
        """Accuracy of each of `count` runs; one that diverged has none, which counts as 0."""
        weights = _trained(spec, subject, count)
        return np.nan_to_num(network.accuracy(spec, weights, self.X, self.y))

    def scores(self, spec: TrainSpec, subject: AssessmentPlan) -> Scores:
        """Of the first of those runs."""
        objective = build(spec.objective, self.X.shape[1])
        said = objective.decision(_trained(spec, subject, 1), self.X)[0]
        return of_decisions(self.y, np.asarray(said, dtype=np.float64), probable=True)


def _trained(spec: TrainSpec, subject: AssessmentPlan, count: int) -> Floats:
    """Weights [run, parameter]."""
    from sordino.sgd import train

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train(spec, subject.D, range(count)).reshape(count, -1)
