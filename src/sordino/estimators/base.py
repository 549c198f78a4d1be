"""`PrivateLinearClassifier`: what both private linear models share, from checks to release."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from sordino import checks
from sordino.errors import NotApplicable
from sordino.estimators import methods, saved
from sordino.estimators.inputs import PrivateInputs, unquoted
from sordino.estimators.job import SENT, Door, Job, Papers
from sordino.estimators.leaks import leaks_around, mark_clone, warn_of_leak
from sordino.estimators.methods import REFERENCES, Majority
from sordino.estimators.randomness import Randomness
from sordino.estimators.records import FitRecords, Scaling
from sordino.estimators.saved import Sign
from sordino.estimators.task import FitPlan, Settings, Task
from sordino.estimators.training import initial
from sordino.privacy import Guarantee, Relation, default_delta, large_delta
from sordino.release import bundle
from sordino.release.certificate import CLASSES_READ, Certificate
from sordino.release.ledger import Entry, is_open
from sordino.release.mechanism import Release, ReleaseRefused, release
from sordino.types import Array


class Predictions(ClassifierMixin):  # type: ignore[misc]
    """Scores and labels of a fitted linear classifier."""

    classes_: Array
    coef_: Array
    intercept_: Array
    _scaling: Scaling

    def decision_function(self, X: Any) -> Array:
        """Score of each row: for two classes one number, above 0 for the second of `classes_`.

        Rows longer than `data_norm` are scaled down to it as in the training.
        """
        check_is_fitted(self)
        with unquoted(X):
            X = validate_data(
                self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False
            )
        scores = self._scaling.scores(X, self.coef_, self.intercept_)
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """The most likely class of each row."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy of `predict(X)` against the labels `y`."""
        with unquoted(X, y):
            return float(super().score(X, y, sample_weight))


Pathlike = str | os.PathLike[str]

_SETTINGS = (
    *("epochs", "steps", "batch_size", "learning_rate"),
    *("average_every", "max_grad_norm", "accountant"),
)


class PrivateLinearClassifier(Predictions, PrivateInputs):
    """Fit a linear model of bounded rows and release it, once, under a proved guarantee.

    Subclasses name the loss; their docstrings list the parameters.
    """

    _kind: str
    privacy_: Guarantee | None
    certificate_: Certificate
    _ledger_entry: Entry | None

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        relation: Relation | str = "replace-one",
        method: str = "auto",
        l2: float = 0.001,
        epochs: int | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        average_every: int | None = None,
        max_grad_norm: float | None = None,
        accountant: str | None = None,
        initial_weights: Any = None,
        data_norm: float | None = 1.0,
        classes: Any = None,
        fit_intercept: bool = True,
        max_rows_per_person: int = 1,
        public_rows: int | None = None,
        random_state: Any = None,
    ) -> None:
        self._keep_parameters(locals())

    def _keep_parameters(self, given: Mapping[str, Any]) -> None:
        """Keep the arguments of an `__init__` as they are, each under its name (scikit-learn)."""
        for name, value in given.items():
            if name != "self":
                setattr(self, name, value)

    def _huber_width(self) -> float:
        return 0.5

    def fit(self, X: Any, y: Any) -> Self:
        """Train, add the noise the promise needs, and keep only what may be published.

        Parameters
        ----------
        X
            Rows: an array, a sparse matrix (made dense), or a pandas or polars table of numbers.
            Rows longer than `data_norm` are scaled down to it, each on its own.
        y
            Labels.

        Returns
        -------
        self
            With `coef_`, `intercept_`, `classes_`, `privacy_`, `sigma_`, `noise_`, `method_`,
            `settings_`, `certificate_`.

        Raises
        ------
        InvalidArgument
            For arguments or data that no fit can accept; the estimator is as it was before.
        NotApplicable
            If no theorem covers the method for this relation or budget.
        BudgetExceeded
            If a `Ledger` is open and has too little left.
        """
        before = dict(self.__dict__)
        try:
            job = self._prepare(X, y)
            # Asked before the hours of training, and again, for good, before the model leaves.
            door = Door.of(job, self)
            weights = self._train(job)
            with door.recorded() as entry:
                self._keep(job, self._release(job, *weights), door.papers())
                self._ledger_entry = entry
        except BaseException:  # also Ctrl-C: nothing half-fitted is left behind
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def preview(self, X: Any, y: Any) -> Guarantee:
        """What `fit` would promise, asked of the ledger that is open; nothing is trained.

        Raises
        ------
        BudgetExceeded
            If a `Ledger` is open and has too little left. Nothing is recorded either way.
        NotApplicable
            If nothing would be promised.
        """
        job = copy.copy(self)._prepare(X, y)
        if job.proof is None or job.why_none:
            raise NotApplicable(f"This fit would promise nothing: {job.why_none}.")
        Door.of(job, self)
        return job.proof.guarantee(job.plan.task.delta)

    def _prepare(self, X: Any, y: Any) -> Job:
        """Everything public, settled; the records are checked and scaled into their norm."""
        self._check_promise()
        with unquoted(X, y):
            X, y = self._checked(X, y)
            classes, codes = self._coded(y)
        saved.described(self, classes)  # what no certificate can hold is refused now, not later
        records = FitRecords.of(X, codes, len(classes), self._norm(X), self.fit_intercept)
        task = self._task(records)
        start = initial(self.initial_weights, records.problems, task.columns)
        plan = self._plan(task, float(np.linalg.norm(start, axis=1).max()))
        leaks: tuple[str, ...] = () if self.classes is not None else (CLASSES_READ,)
        leaks += large_delta(task.delta, task.rows)
        why_none = self._why_none()
        if not why_none:
            leaks += leaks_around(self)
        return Job(plan, records, start, classes, X, leaks, why_none)

    def _why_none(self) -> str:
        """Why no fit with these parameters can promise anything; empty if one can."""
        if self.random_state is not None:
            return "random_state makes its noise repeatable"
        if self.data_norm is None:  # it decides the noise, which is published
            return "data_norm was read off the rows, and the noise follows from it"
        if np.array_equal(self.epsilon, math.inf):
            return "epsilon is infinite"
        return f"method={self.method!r} adds no noise" if str(self.method) in REFERENCES else ""

    def _train(self, job: Job) -> tuple[Array, Randomness]:
        """Weights before the release's noise, and what that is drawn from."""
        randomness = self._randomness()
        method = methods.named(job.plan.method)
        with threadpool_limits(1, "blas"):  # products here are too thin to gain from more
            return method.train(job.plan, job.records, randomness, job.start), randomness

    # A copy for another process is marked while a ledger is open here: see `SENT`.

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, SENT: True} if is_open() else state

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        if hasattr(self, SENT):
            setattr(clone, SENT, True)
        mark_clone(self, clone, promises=not self._why_none())
        return clone

    def __copy__(self) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    # The promise -------------------------------------------------------------------------

    def _task(self, records: FitRecords) -> Task:
        rows, relation = len(records.X), self._relation()
        if relation is Relation.ADD_OR_REMOVE_ONE:
            if self.public_rows is None:
                hint = "Under add-or-remove-one the number of records is private: pass one near it."
                checks.fail("public_rows", None, "to be given", hint)
            rows = int(self.public_rows)
        if self.delta is not None and self.delta > 0.1 / rows and math.isfinite(self.epsilon):
            warn_of_leak(
                f"delta={self.delta:g} is above 0.1 / rows, and publishing one record at random "
                "has delta = 1 / rows; pass less, or None"
            )
        return Task(
            kind=self._kind,
            huber_width=self._huber_width(),
            l2=float(self.l2),
            rows=rows,
            columns=records.X.shape[1],
            norm=records.norm,
            epsilon=float(self.epsilon),
            delta=default_delta(rows) if self.delta is None else float(self.delta),
            relation=relation,
            problems=records.problems,
            rows_per_person=int(self.max_rows_per_person),
        )

    def _plan(self, task: Task, start_norm: float) -> FitPlan:
        given = Settings(**{name: getattr(self, name) for name in _SETTINGS})
        starts = self.initial_weights is not None
        return methods.plan(self.method, task, given, start_norm, starts=starts)

    def _release(self, job: Job, weights: Array, randomness: Randomness) -> Release:
        plan, private = job.plan, job.plan.proof is not None
        if not private:
            why = "epsilon is infinite" if not plan.task.private else f"method={plan.method!r}"
            warn_of_leak(f"{why}: no noise is added, and nothing is promised")
        inside = plan.noise_inside
        # Where the release adds nothing itself, the noise is that of the training.
        within = private and not plan.scale > 0
        return release(
            weights,
            proof=job.proof,
            epsilon=plan.task.epsilon if private else math.inf,
            delta=plan.task.delta,
            noise=randomness.steps if within else randomness.released,
            scale=plan.scale if private else 0.0,
            already_inside=inside and f"standard deviation {plan.sigma:.6g} {inside}",
        )

    def _keep(self, job: Job, released: Release, papers: Papers | None) -> None:
        """The released model; without papers it is a candidate of `tune`, and may not leave."""
        plan, value = job.plan, released.value
        self.classes_ = job.classes
        self.coef_ = value[:, :-1].copy() if self.fit_intercept else value.copy()
        self.intercept_ = value[:, -1].copy() if self.fit_intercept else np.zeros(len(value))
        if plan.method == Majority.name:
            self.intercept_ = Majority.intercepts(job.records)
        self.privacy_ = None if job.why_none or papers is None else released.guarantee
        self.sigma_ = plan.sigma
        self.noise_ = released.noise if plan.proof is not None else "none"
        self.method_ = plan.method
        self._scaling = self._scaled_as()
        self.settings_ = {**plan.settings.given, "l2": plan.l2, "delta": plan.task.delta}
        if plan.spec is not None:  # batches are made equal
            self.settings_["batch_size"] = plan.spec.batch_size
        if papers is not None:
            self.certificate_ = saved.certificate(self, job, papers)

    def _scaled_as(self) -> Scaling:
        """How rows were scaled for the training; kept, since parameters may change after it."""
        norm = self.data_norm
        if norm is None or self.method_ == Majority.name:
            norm = math.inf  # read off the rows, none is longer; and the majority looks at no row
        return Scaling(float(norm), bool(self.fit_intercept))

    # Papers ------------------------------------------------------------------------------

    def declare(
        self,
        *,
        preprocessing: Sequence[str] | None = None,
        columns: str | None = None,
        tuning: str | None = None,
    ) -> Self:
        """Add to the certificate what `fit` could not see.

        Parameters
        ----------
        preprocessing
            What preparing the rows read from the records, a sentence each; empty if nothing.
        columns
            The public description by which a table became rows (`sordino.data.columns`, TOML).
        tuning
            "none declared", or "unknown" if settings may have been tried on these records.
        """
        check_is_fitted(self)
        if not hasattr(self, "certificate_"):
            raise ReleaseRefused(
                "This model is one of those that `tune` chooses among, and has no papers: only the "
                "one it returns may leave."
            )
        self.certificate_ = saved.declared(self.certificate_, preprocessing, columns, tuning)
        return self

    def save(self, directory: Pathlike, **declared: Any) -> Path:
        """Write the model and its certificate to a new directory: what may leave the building.

        Parameters
        ----------
        directory
            Must not exist yet, or be empty. It is there whole or not at all.
        **declared
            As in `declare`: `preprocessing`, `columns`, `tuning`.

        Returns
        -------
        Path
            The directory, with `model.safetensors` and `certificate.json`.
            `sordino.load` reads it, without pickle.
        """
        self.declare(**declared)
        return saved.save(self, Path(directory))

    def fit_and_save(
        self, X: Any, y: Any, directory: Pathlike, *, sign: Sign | None = None, **declared: Any
    ) -> Path:
        """`fit`, then `save`; a ledger is charged between writing the files and naming them.

        A place that cannot be written costs no budget then. If the system fails after that, the
        ledger's entry says so, the budget stays spent, and the model stays here, to be saved.

        Parameters
        ----------
        X, y, directory, **declared
            As for `fit` and `save`.
        sign
            From the certificate's bytes to a signature that is put beside it.
        """
        made = copy.copy(self)
        made._ledger_entry = None
        try:
            bundle.check_target(directory)
            job = made._prepare(X, y)
            place = bundle.check_target(directory, weights=job.start.size)
            door = Door.of(job, made)
            made._keep(job, made._release(job, *made._train(job)), door.papers())
            made.declare(**declared)
            saved.save(made, place, door=door, sign=sign)
        except BaseException:
            if made._ledger_entry is not None:
                self.__dict__ = made.__dict__
            raise
        self.__dict__ = made.__dict__  # and nothing of an earlier fit
        return place

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # A budget of 1 on a few dozen records, as scikit-learn's checks have them, is mostly noise.
        tags.classifier_tags.poor_score = True
        return tags
