"""What privacy costs a network: accuracy of DP-SGD's runs on held-out rows. None is released.

INTERNAL, as in `accuracy`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sordino.assessment import network, repeats, scores
from sordino.assessment.accuracy import curve, spread, wilson
from sordino.assessment.effort import EFFORTS
from sordino.data.preprocess import clip_rows
from sordino.objectives import build
from sordino.privacy import NotApplicable
from sordino.report.stages import Accuracy, Scores
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats, Ints, Progress

if TYPE_CHECKING:
    from sordino.assessment.subject import Subject


_SPEED = 1e9
"""Operations a second, about, that two cores do for networks."""


def network_accuracy(subject: Subject, work: Path, progress: Progress) -> Accuracy | None:
    """Of networks trained as planned, and for other budgets; None without held-out rows."""
    if subject.test_X is None:
        return None
    chosen, rows = subject.brief.epsilon, _Rows.of(subject)
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
    frequent = np.bincount(subject.D.y, minlength=2)
    return Accuracy(
        before=wilson(round(plain * len(rows.y)), len(rows.y)),
        after=None,
        again=spread(shares[chosen]),
        repeats=count,
        majority=float(np.mean(rows.y == frequent.argmax())),
        curve=curve(shares),
        test_rows=len(rows.y),
        before_scores=rows.scores(subject.plain, subject),
        after_scores=rows.scores(specs[chosen], subject),
        constant_scores=scores.of_constant(rows.y, frequent / frequent.sum()),
    )


def _specs(subject: Subject) -> dict[float, TrainSpec]:
    """The training at every epsilon of the curve, the chosen one among them."""
    assert subject.network is not None
    specs = {subject.brief.epsilon: subject.network.spec}
    for epsilon in set(subject.brief.curve_epsilons) - set(specs):
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


def _repeats(subject: Subject, specs: Mapping[float, TrainSpec]) -> int:
    """As many of each as the time allows, by public sizes alone."""
    objective = build(subject.plain.objective, subject.D.features)
    work = sum(
        spec.total_steps(subject.D.rows) * objective.step_operations(spec.batch_size)
        for spec in (subject.plain, *specs.values())
    )
    most: int = subject.brief.repeats
    return max(
        min(int(EFFORTS[subject.brief.effort].accuracy * _SPEED / work), most),
        min(repeats.LEAST, most),
    )


class _Rows:
    """Held-out rows, scaled as those that are trained on, and their labels 0 and 1."""

    def __init__(self, X: Floats, y: Ints) -> None:
        self.X, self.y = X, y

    @classmethod
    def of(cls, subject: Subject) -> _Rows:
        given = subject.prepared.classes
        labels = np.unique(np.asarray(subject.y)) if given is None else np.asarray(given)
        X = np.asarray(subject.test_X, dtype=np.float64)
        y = (np.asarray(subject.test_y) == labels[1]).astype(np.int64)
        return cls(clip_rows(X, subject.prepared.data_norm), y)

    def shares(self, spec: TrainSpec, subject: Subject, count: int) -> Floats:
        """Accuracy of each of `count` runs; one that diverged has none, which counts as 0."""
        weights = _trained(spec, subject, count)
        return np.nan_to_num(network.accuracy(spec, weights, self.X, self.y))

    def scores(self, spec: TrainSpec, subject: Subject) -> Scores:
        """Of the first of those runs."""
        objective = build(spec.objective, self.X.shape[1])
        said = objective.decision(_trained(spec, subject, 1), self.X)[0]
        return scores.of_decisions(self.y, np.asarray(said, dtype=np.float64), probable=True)


def _trained(spec: TrainSpec, subject: Subject, count: int) -> Floats:
    """Weights [run, parameter]."""
    from sordino.sgd import train

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train(spec, subject.D, range(count)).reshape(count, -1)
