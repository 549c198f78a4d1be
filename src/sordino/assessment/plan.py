"""`AssessmentPlan`: one model of one dataset, ready for every stage: records, plan, crafted pair.

Everything in it follows from the request and the records, so a study that goes on makes it again.
"""

from __future__ import annotations

import copy
import hashlib
import os
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sordino import checks
from sordino.assessment import network
from sordino.assessment.network import NetworkPlan
from sordino.assessment.request import Request
from sordino.audit import neighbour
from sordino.audit.neighbour import Pair
from sordino.data import Dataset, recipe
from sordino.data.catalogue.recipe import Recipe
from sordino.data.preprocess import clip_rows
from sordino.data.source import Prepared, held_out
from sordino.errors import PrivacyLeakWarning
from sordino.estimators import PrivateLinearSVC, PrivateLogisticRegression
from sordino.estimators.base import PrivateLinearClassifier
from sordino.estimators.job import Job
from sordino.models.constants import ObjectiveSpec
from sordino.release.certificate_words import CLASSES_READ
from sordino.release.ledger_open import is_open
from sordino.report.assessment import Question, Records
from sordino.sgd.spec import TrainSpec

MODELS = {
    "logistic": "logistic regression",
    "svm": "a linear support vector machine",
    "mlp": "a network with one hidden layer",
}
_RATE, _BATCH = 0.5, 32
_PASSES, _LEAST, _MOST = 10, 400, 3400
"""Of ordinary SGD on a file: ten passes, within what the papers take for linear models (of a long
file one, see `_of_all`)."""


@dataclass(frozen=True, eq=False)
class AssessmentPlan:
    """What all stages work on.

    Parameters
    ----------
    request
        What was asked.
    prepared
        Records and what is known of them; of these, `X` and `y` are trained on.
    X, y, test_X, test_y
        Training rows and labels as an estimator takes them, and held-out ones (None if none).
    recipe
        Of a dataset by name.
    records
        The same in words and sizes, for the page.
    estimator, job
        Of a linear model: unfitted, and its plan with the rows within their norm.
    network
        Of a network: its plan.
    delta, delta_reason
        Where everything is stated, and why there.
    problem
        Of more than two classes, the one-vs-rest problem that `D` is of.
    D, pair
        That problem's records as they are trained on, and two datasets made from them that differ
        in one crafted record.
    plain, plain_words
        Ordinary SGD of the same model without added noise.
    """

    request: Request
    prepared: Prepared
    X: Any
    y: Any
    test_X: Any
    test_y: Any
    recipe: Recipe | None
    records: Records
    estimator: PrivateLinearClassifier | None
    job: Job | None
    network: NetworkPlan | None
    delta: float
    delta_reason: str
    problem: int
    D: Dataset
    pair: Pair
    plain: TrainSpec
    plain_words: str

    @classmethod
    def of(cls, request: Request) -> AssessmentPlan:
        """Read the records, plan the release and craft the pair.

        Raises
        ------
        InvalidArgument, DataError, NotApplicable
            In one sentence, for what cannot be assessed; nothing was written.
        """
        source = request.source()
        prepared = source.read()
        X, y, test_X, test_y = held_out(prepared)
        delta, reason = request.delta_and_reason(len(X))
        found = None if source.is_file else recipe(request.data)
        linear = request.model != "mlp"
        estimator = _estimator(request, prepared, delta) if linear else None
        job = None if estimator is None else _job(estimator, X, y)
        D = _rows(prepared, X, y) if job is None else job.records.dataset(0)
        plan = None if linear else _network(request, prepared, D, found, delta)
        usual = network.plain_network_spec(D, found) if job is None else _plain(D, job, found)
        plain = _of_all(usual, D.rows)
        return cls(
            request=request,
            prepared=prepared,
            X=X,
            y=y,
            test_X=test_X,
            test_y=test_y,
            recipe=found,
            records=_records(prepared, D, job, y, 0 if test_X is None else len(test_X)),
            estimator=estimator,
            job=job,
            network=plan,
            delta=delta,
            delta_reason=reason,
            problem=0,
            D=D,
            pair=neighbour.canary(D),
            plain=plain,
            plain_words=_in_words(plain, D.rows),
        )

    @property
    def fingerprint(self) -> str:
        """Of all rows and labels, and of what is known of them: INTERNAL."""
        prepared = self.prepared
        rows = self.D.fingerprint if self.job is None else self.job.content_digest()
        known = (
            *(rows, prepared.reads_private_data, prepared.description, prepared.data_norm),
            [str(label) for label in prepared.classes or ()],
            [str(name) for name in getattr(self.X, "columns", ())],
        )
        digest = hashlib.sha256(repr(known).encode())
        if self.test_X is not None:
            digest.update(np.ascontiguousarray(self.test_X).tobytes())
            digest.update(repr([str(label) for label in self.test_y]).encode())
        return digest.hexdigest()

    def ask_ledger(self) -> None:
        """Refuse, before any work, what an open ledger has no budget for.

        Raises
        ------
        BudgetExceeded
            If one is open and has too little left.
        """
        if self.estimator is not None and is_open():
            self.estimator.preview(self.X, self.y)

    @property
    def specs(self) -> dict[str, TrainSpec]:
        """What is trained, by what it is for."""
        specs = {"SGD without added noise": self.plain}
        if self.network is not None:
            specs["the release"] = self.network.spec
        elif self.job is not None and self.job.plan.spec is not None:
            specs["the release"] = self.job.plan.spec
        return specs

    @property
    def title(self) -> str:
        """In words."""
        data = self.request.data if self.recipe is not None else os.path.basename(self.request.data)
        return f"{MODELS[self.request.model]} on {data}"

    def question(self, rerun: str) -> Question:
        """What was asked, for the page."""
        from sordino.privacy import Relation

        request = self.request
        return Question(
            title=self.title,
            data=request.data,
            target=request.target,
            model=request.model,
            method=request.method,
            epsilon=request.epsilon,
            delta=self.delta,
            delta_reason=self.delta_reason,
            relation=Relation.REPLACE_ONE,
            rows_per_person=request.max_rows_per_person,
            effort=request.effort,
            settings=request.settings(),
            rerun=rerun,
        )


def _estimator(request: Request, prepared: Prepared, delta: float) -> PrivateLinearClassifier:
    kinds = {"logistic": PrivateLogisticRegression, "svm": PrivateLinearSVC}
    made: PrivateLinearClassifier = kinds[request.model](
        epsilon=request.epsilon,
        delta=delta,
        method=request.method,
        l2=request.l2,
        data_norm=prepared.data_norm,
        classes=prepared.classes,
        max_rows_per_person=request.max_rows_per_person,
    )
    return made


def _network(
    request: Request, prepared: Prepared, D: Dataset, found: Recipe | None, delta: float
) -> NetworkPlan:
    read = () if prepared.classes is not None else (CLASSES_READ,)
    persons = request.max_rows_per_person
    return network.plan(D, found, request.epsilon, delta, rows_per_person=persons, not_covered=read)


def _job(estimator: PrivateLinearClassifier, X: Any, y: Any) -> Job:
    """The plan; what it would warn of, the fit itself does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return copy.copy(estimator)._prepare(X, y)


def _rows(prepared: Prepared, X: Any, y: Any) -> Dataset:
    """Rows for a network, scaled into their norm; labels 0 and 1."""
    labels = np.unique(y) if prepared.classes is None else np.asarray(prepared.classes)
    if len(labels) != 2:
        hint = "A network is assessed on two classes; use --model logistic for more."
        checks.fail("classes", len(labels), "to be 2", hint)
    codes = (np.asarray(y) == labels[1]).astype(np.int64)
    rows = clip_rows(np.asarray(X, dtype=np.float64), prepared.data_norm)
    return Dataset(rows, codes, prepared.data_norm, "fit")


def _plain(D: Dataset, job: Job, found: Recipe | None) -> TrainSpec:
    """Ordinary SGD: the papers' settings for the dataset, or usual ones."""
    task = job.plan.task
    objective = ObjectiveSpec(task.kind, l2=task.l2, intercept=False, huber_width=task.huber_width)
    batch = min(D.rows, _BATCH if found is None else found.batch_size)
    passes = _PASSES * -(-D.rows // batch)
    steps = min(max(passes, _LEAST), _MOST) if found is None else found.steps
    rate = _RATE if found is None else found.learning_rate
    rate = min(rate, 1 / task.constants.smooth)  # beyond twice that, a strong l2 makes it diverge
    return TrainSpec(objective, rate, batch, steps=steps, init="fixed")


def _of_all(spec: TrainSpec, rows: int) -> TrainSpec:
    """The same training, of one whole pass at least.

    A record that most runs never see is hidden by that alone, which says nothing of ordinary SGD.
    """
    return replace(spec, steps=max(spec.total_steps(rows), -(-rows // spec.batch_size)))


def _in_words(spec: TrainSpec, rows: int) -> str:
    passes = f"{spec.total_steps(rows) * spec.batch_size / rows:.3g}"
    return (
        f"{spec.total_steps(rows):,} steps ({passes} {'pass' if passes == '1' else 'passes'} over "
        f"the records), batches of "
        f"{spec.batch_size}, learning rate {spec.schedule.rate:g}, a new order every pass, "
        "initial weights fixed and known"
    )


def _records(prepared: Prepared, D: Dataset, job: Job | None, y: Any, test_rows: int) -> Records:
    labels = np.unique(y) if job is None else job.classes
    reads = prepared.reads_private_data
    if prepared.classes is None:
        reads = (*reads, CLASSES_READ)
    return Records(
        rows=D.rows,
        test_rows=test_rows,
        columns=D.features,
        classes=tuple(str(label) for label in labels),
        norm=prepared.data_norm,
        notes=prepared.notes,
        reads_private_data=reads,
        advice=prepared.advice,
    )
