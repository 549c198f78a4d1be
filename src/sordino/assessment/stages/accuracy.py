"""What privacy costs: accuracy on held-out rows, before, after and against epsilon.

INTERNAL: exact accuracies are computed from records, and no guarantee covers them. Models that are
made as a release is, to see how much chance moves their accuracy, are thrown away: their noise is
repeatable, and no ledger is charged. How many there are follows from public sizes alone, so a
resumed assessment makes the same ones again.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.metrics import log_loss, recall_score, roc_auc_score
from threadpoolctl import threadpool_limits

from sordino import _files, tasks
from sordino.assessment.plan import AssessmentPlan, NetworkPlan, network_labels
from sordino.audit.runners.minimised import MinimisedFit, minimisers
from sordino.data.preprocess import clip_rows
from sordino.errors import NotApplicable
from sordino.estimators import methods
from sordino.estimators.classifiers import PrivateLinearClassifier, probabilities
from sordino.estimators.fit import FitPlan, PlannedFit, Randomness, Scaling, Settings
from sordino.estimators.methods import NoPrivacy
from sordino.estimators.methods.training import train_together
from sordino.models import build
from sordino.report.result import CALIBRATION_BINS, Accuracy, AccuracyPoint, Measure, Scores
from sordino.sgd.spec import TrainSpec
from sordino.study.files import UNREADABLE, Disk, StudyError, explained
from sordino.types import Floats, Ints, Progress

LEAST = 4
"""Repeats of anything: fewer have no interval to speak of."""
_LEVEL = 0.95
_SEED = 8
"""Of the noise that is thrown away."""
_CHOSEN = 0.3
"""Share of the time for releases like the one that was made; the rest is for the curve."""
_RANGE = 5
"""Times as many of those: 95 % of them lie in a range that fewer do not show."""
_FAR = 3.0
"""Times too long that the least number of repeats may take."""
_BATCH = 25
"""Repeats between two reports of progress."""
_LEAST_L2 = 1e-6
"""Classes that a plane separates have no minimiser without a regulariser."""
_BLOCK = 1 << 22
# What two cores do in a second, about: entries of rows in descents and in Newton steps, and
# operations of networks.
_DESCENT, _NEWTON, _NETWORK, _A_CALL = 8e8, 2e9, 1e9, 1e-3
_ADAPTIVE_PASSES, _MINIMISER_PASSES = 500, 2
"""Over the records, of one descent that chooses its steps, and of minimisers found together."""


def linear_accuracy(plan: AssessmentPlan, work: Path, progress: Progress) -> Accuracy | None:
    """Of releases like that of a linear model; None if there are no held-out rows.

    Parameters
    ----------
    work
        INTERNAL: keeps accuracies of finished repeats.
    progress
        Called with (repeats done, repeats in all).
    """
    if plan.test_X is None:
        return None
    fitting, chosen = plan.fitting, plan.epsilon
    assert fitting is not None
    held = HeldOut.of(plan.test_X, plan.test_y, fitting)
    plain = without_privacy(fitting)
    fits = _plans(plan, fitting)
    counts = _counts(fits, chosen, plan.request.limits.accuracy, plan.request.limits.repeats)
    total, done = sum(counts.values()), 0
    shares = {}
    for epsilon, fit in fits.items():
        if not (count := counts[epsilon]):  # a point that would take too long is left out
            continue

        def make(fit: FitPlan = fit, count: int = count, before: int = done) -> Floats:
            def tell(made: int) -> None:
                progress(before + made, total)

            return held.right(released_weights(fit, fitting, count, plain, tell)) / len(held.codes)

        shares[epsilon] = stored(work, f"accuracy-{epsilon!r}", count, make)
        done += count
        progress(done, total)
    frequent = np.bincount(fitting.records.codes, minlength=len(fitting.classes))
    decisions = held.X @ plain.T
    before = decision_scores(
        held.codes, decisions[:, 0] if len(plain) == 1 else decisions, probable=_probable(fitting)
    )
    right = int(held.right(plain[None])[0])
    return _accuracy(held.codes, right, shares, chosen, frequent, before_scores=before)


def network_accuracy(plan: AssessmentPlan, work: Path, progress: Progress) -> Accuracy | None:
    """Of networks trained as planned, and for other budgets; None without held-out rows."""
    if plan.test_X is None:
        return None
    chosen, network, limits = plan.epsilon, plan.network, plan.request.limits
    assert network is not None
    X = clip_rows(np.asarray(plan.test_X, dtype=np.float64), plan.prepared.data_norm)
    second = network_labels(plan.prepared, np.asarray(plan.y))[1]
    y = (np.asarray(plan.test_y) == second).astype(np.int64)
    specs = {chosen: network.spec}
    for epsilon in set(plan.request.epsilons_around(chosen)) - {chosen}:
        rows, persons = plan.D.rows, network.rows_per_person
        try:
            other = NetworkPlan.of(rows, plan.recipe, epsilon, plan.delta, persons)
        except NotApplicable:  # no noise is enough for so small a budget: no point
            continue
        specs[epsilon] = other.spec
    objective = build(plan.plain.objective, X.shape[1])
    operations = sum(
        spec.total_steps(plan.D.rows) * objective.step_operations(spec.batch_size)
        for spec in (plan.plain, *specs.values())
    )
    affordable = min(int(limits.accuracy * _NETWORK / operations), limits.repeats)
    count = max(affordable, min(LEAST, limits.repeats))

    def train(spec: TrainSpec, runs: int) -> Floats:
        """Weights [run, parameter]."""
        from sordino.sgd import train

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return train(spec, plan.D, range(runs)).reshape(runs, -1)

    def scores(spec: TrainSpec) -> Scores:
        decisions = objective.decision(train(spec, 1), X)[0]
        return decision_scores(y, np.asarray(decisions, dtype=np.float64), probable=True)

    shares = {}
    # Without privacy last: its epsilon is infinite.
    for done, (epsilon, spec) in enumerate([*sorted(specs.items()), (math.inf, plan.plain)], 1):

        def make(spec: TrainSpec = spec) -> Floats:
            found = np.asarray(objective.accuracy(train(spec, count), X, y), dtype=np.float64)
            return np.nan_to_num(found)  # one that diverged has none

        shares[epsilon] = stored(work, f"accuracy-{epsilon!r}", count, make)
        progress(count * done, count * (len(specs) + 1))
    right = round(float(shares.pop(math.inf).mean()) * len(y))
    before, after = scores(plan.plain), scores(specs[chosen])
    frequent = np.bincount(plan.D.y, minlength=2)
    more = {"before_scores": before, "after_scores": after}
    return _accuracy(y, right, shares, chosen, frequent, **more)


def _accuracy(
    codes: Ints,
    right: int,
    shares: Mapping[float, Floats],
    chosen: float,
    frequent: Ints,
    **scores: Scores,
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
        constant_scores=constant_scores(codes, frequent / frequent.sum()),
        **scores,
    )


def with_released(
    known: Accuracy | None, plan: AssessmentPlan, released: PrivateLinearClassifier
) -> Accuracy | None:
    """The same with that of the model that was released."""
    if known is None:
        return None
    assert plan.fitting is not None
    codes = _class_codes(plan.test_y, plan.fitting)
    decisions = np.asarray(released.decision_function(plan.test_X), dtype=np.float64)
    predicted = np.asarray(released.predict(plan.test_X))
    right = int(np.count_nonzero(predicted == np.asarray(plan.test_y)))
    return replace(
        known,
        after=wilson(right, len(predicted)),
        after_scores=decision_scores(codes, decisions, probable=_probable(plan.fitting)),
    )


def _probable(fitting: PlannedFit) -> bool:
    return fitting.plan.task.kind == "logistic"


def _class_codes(labels: Any, fitting: PlannedFit) -> Ints:
    """Number of each label's class; -1 for one that training did not know."""
    place = {label: code for code, label in enumerate(fitting.classes.tolist())}
    listed = np.asarray(labels).tolist()
    return np.array([place.get(label, -1) for label in listed], dtype=np.int64)


def _plans(plan: AssessmentPlan, fitting: PlannedFit) -> dict[float, FitPlan]:
    """The fit at every epsilon of the curve, the chosen one among them, in order."""
    assert plan.estimator is not None
    start = float(np.linalg.norm(fitting.start, axis=1).max())
    fits = {plan.epsilon: fitting.plan}
    for epsilon in plan.request.epsilons_around(plan.epsilon):
        if epsilon in fits:
            continue
        try:
            fits[epsilon] = plan.estimator._plan(replace(fitting.plan.task, epsilon=epsilon), start)
        except NotApplicable:  # so small or large a budget has no such release: no point
            continue
    return dict(sorted(fits.items()))


def _counts(
    fits: Mapping[float, FitPlan], chosen: float, seconds: float, most: int
) -> dict[float, int]:
    """Repeats at each epsilon."""
    share = seconds * (1 - _CHOSEN) / max(len(fits) - 1, 1)
    counts = {epsilon: affordable(fit, share, most) for epsilon, fit in fits.items()}
    alike = affordable(fits[chosen], seconds * _CHOSEN, _RANGE * most)
    counts[chosen] = max(alike, LEAST)
    return counts


# Models that are thrown away -------------------------------------------------------------


def without_privacy(fitting: PlannedFit) -> Floats:
    """The exact minimiser of what is trained, [problem, column]."""
    task = replace(fitting.plan.task, epsilon=math.inf, l2=max(fitting.plan.task.l2, _LEAST_L2))
    fit = NoPrivacy().plan(task, Settings())
    with threadpool_limits(1, "blas"):
        return NoPrivacy().train(fit, fitting.records, Randomness.seeded(_SEED), fitting.start)


def affordable(fit: FitPlan, seconds: float, most: int) -> int:
    """How many repeats of a fit take about so long; 0 if even `LEAST` take far longer."""
    task = fit.task
    entries = task.rows * task.columns
    if fit.spec is not None:
        examples = fit.spec.total_steps(task.rows) * fit.spec.batch_size
        each = _A_CALL + examples * task.columns / _DESCENT
    elif fit.method == "dp-agd":
        each = entries * _ADAPTIVE_PASSES / _DESCENT
    elif MinimisedFit.can_do(fit):
        each = _A_CALL + entries * _MINIMISER_PASSES / _DESCENT
    else:
        each = _A_CALL + entries * task.columns / _NEWTON
    each *= task.problems
    if LEAST * each > _FAR * seconds:
        return 0
    return max(min(int(seconds / each), most), LEAST)


def released_weights(
    fit: FitPlan, fitting: PlannedFit, repeats: int, near: Floats, tell: Callable[[int], None]
) -> Floats:
    """Weights [repeat, problem, column] with all their noise, as if each had been released.

    Parameters
    ----------
    fit
        How; that of `fitting` or one for another budget.
    fitting
        Its records and start.
    repeats
        How many.
    near
        Weights [problem, column] from which a minimiser may begin to look.
    tell
        Called with the number of repeats done so far.
    """
    made, rows = np.empty((repeats, *fitting.start.shape)), len(fitting.records.X)
    blocks = [slice(b, min(b + _BATCH, repeats)) for b in range(0, repeats, _BATCH)]
    if fit.spec is not None:
        for block in blocks:
            fits = [fit] * (block.stop - block.start)
            randomness = Randomness.seeded(_SEED + block.start)
            made[block] = train_together(fits, fitting.records, randomness, fitting.start)
            tell(block.stop)
    elif MinimisedFit.can_do(fit):
        assert fit.task.rows == rows  # neighbours replace a record, so their number is public
        noise = Randomness.seeded(_SEED).released.stream("linear term")
        with threadpool_limits(1, "blas"):
            problems = minimisers(fit, fitting.records, near, l2=fit.l2)
            for block in blocks:
                size = (block.stop - block.start, len(problems), fit.task.columns)
                linear = fit.sigma / rows * noise.standard_normal(size)
                found = [each(linear[:, place]) for place, each in enumerate(problems)]
                made[block] = np.stack(found, axis=1)
                tell(block.stop)
    else:
        method = methods.METHODS[fit.method]
        start = fitting.start if method.starts else near

        def train(repeat: int) -> Floats:
            return method.train(fit, fitting.records, Randomness.seeded(_SEED + repeat), start)

        with threadpool_limits(1, "blas"):
            cores = tasks.available_cores()
            runs = tasks.run(train, range(repeats), workers=cores, threads=True)
            for done, (repeat, weights) in enumerate(runs, 1):
                made[repeat] = weights
                tell(done)
    if fit.scale > 0:
        made = Randomness.seeded(_SEED).released.stream("output").perturb(made, fit.scale)
    return made


def stored(work: Path, name: str, count: int, make: Callable[[], Floats]) -> Floats:
    """The `count` numbers called `name` in a directory; they are made and put there if missing."""
    file = work / f"{name}.npy"
    if file.exists():
        with explained(work, "read"):
            content = _files.read(file)
        try:
            shares = np.load(io.BytesIO(content), allow_pickle=False)
            shares = np.asarray(shares.astype(np.float64, casting="safe"))
        except UNREADABLE:  # numpy's own sentence advises to load it in a way that can run code
            shares = np.array([np.nan])
        if not np.isfinite(shares).all():
            raise StudyError(f"{file} is damaged. Delete it, and its numbers are made again.")
        if shares.shape == (count,):
            return shares
    made, buffer = make(), io.BytesIO()
    np.save(buffer, made, allow_pickle=False)
    Disk(work).put(file.name, buffer.getvalue())
    return made


# Scores ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that no training saw, as linear weights meet them.

    `X` has the intercept's column last; a class that training did not know has code -1.
    """

    X: Floats
    codes: Ints

    @classmethod
    def of(cls, X: Any, y: Any, fitting: PlannedFit) -> HeldOut:
        """Rows as `predict` takes them: scaled like those of the training."""
        given = np.asarray(X, dtype=np.float64)
        intercept = fitting.records.X.shape[1] > given.shape[1]
        return cls(
            Scaling(fitting.records.norm, intercept, fitting.coordinates).rows(given),
            _class_codes(y, fitting),
        )

    def right(self, weights: Floats) -> Ints:
        """How many rows each model [model, problem, column] labels as they are."""
        models, problems, columns = weights.shape
        found = np.zeros(models, dtype=np.int64)
        flat = weights.reshape(-1, columns).T
        step = max(1, _BLOCK // flat.shape[1])
        for start in range(0, len(self.codes), step):
            part = slice(start, start + step)
            with np.errstate(all="ignore"):  # a model that diverged is merely wrong
                scores = (self.X[part] @ flat).reshape(-1, models, problems)
            chosen = scores[..., 0] > 0 if problems == 1 else scores.argmax(axis=2)
            found += np.count_nonzero(chosen == self.codes[part, None], axis=0)
        return found


def wilson(right: int, rows: int) -> Measure:
    """A share of rows, and Wilson's interval for the rows being a sample of many."""
    interval = stats.binomtest(right, rows).proportion_ci(_LEVEL, method="wilson")
    return Measure(right / rows, float(interval.low), float(interval.high))


def spread(shares: Sequence[float] | Floats) -> Measure:
    """Mean, and the range in which 95 % of the shares lie."""
    mean = float(np.mean(shares))
    low, high = np.quantile(shares, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Measure(mean, min(float(low), mean), max(float(high), mean))


def curve(shares: Mapping[float, Floats]) -> tuple[AccuracyPoint, ...]:
    """Mean accuracy against epsilon, with Student's interval of the mean."""
    points = []
    for epsilon, found in sorted(shares.items()):
        mean, many, half = float(found.mean()), len(found), 1.0
        if many > 1:
            error = float(found.std(ddof=1)) / math.sqrt(many)
            half = float(stats.t.ppf((1 + _LEVEL) / 2, many - 1)) * error
        measure = Measure(mean, max(mean - half, 0.0), min(mean + half, 1.0))
        points.append(AccuracyPoint(epsilon, measure, many))
    return tuple(points)


def decision_scores(codes: Ints, decisions: Floats, *, probable: bool) -> Scores:
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
    two = decisions.ndim == 1
    by_class = np.column_stack([-decisions, decisions]) if two else decisions
    chosen = (decisions > 0).astype(np.int64) if two else decisions.argmax(axis=1)
    return _scores(codes, chosen, by_class, probabilities(decisions) if probable else None)


def constant_scores(codes: Ints, shares: Floats) -> Scores:
    """Of always saying the most frequent class, and every class with its share of the training."""
    constant = np.tile(shares, (len(codes), 1))
    return _scores(codes, constant.argmax(axis=1), constant, constant)


def _scores(codes: Ints, chosen: Ints, by_class: Floats, probable: Floats | None) -> Scores:
    """Nothing of rows of one class; only labels where training did not know a class.

    Balanced accuracy is the mean over the classes of the share of its rows that are labelled so;
    the AUC that of each class against the rest. Calibration is how far probabilities lie from
    shares, over bins of equal width, weighted by their rows: of the second of two classes, else of
    the class that is chosen.
    """
    present, many = np.unique(codes), by_class.shape[1]
    if len(present) < 2:
        return Scores()
    recall = recall_score(codes, chosen, labels=present, average="macro", zero_division=0.0)
    scores = Scores(balanced_accuracy=float(recall))
    if (codes < 0).any():
        return scores
    if len(present) == many:
        auc = np.mean([roc_auc_score(codes == k, by_class[:, k]) for k in range(many)])
        scores = replace(scores, auc=float(auc))
    if probable is None:
        return scores
    sure = probable[:, 1] if many == 2 else probable.max(axis=1)
    right = codes == (1 if many == 2 else probable.argmax(axis=1))
    place = np.minimum((sure * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    return replace(
        scores,
        log_loss=float(log_loss(codes, probable, labels=range(many))),
        calibration_error=float(np.abs(np.bincount(place, sure - right)).sum() / len(codes)),
    )
