"""`PrivateLinearModel`: fitted and released once with a certificate, then saved (`saved.load`)."""

from __future__ import annotations

import copy
import math
import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from sordino import checks
from sordino.accounting import gaussian
from sordino.accounting.risk import RiskTarget
from sordino.data.columns import Columns
from sordino.data.dataset import row_norms
from sordino.errors import InvalidArgument, NotApplicable
from sordino.estimators import inputs, methods, preparation, rules
from sordino.estimators.fit import (
    SENT,
    FitPlan,
    FitRecords,
    Payment,
    PlannedFit,
    Randomness,
    Scaling,
    Settings,
    Task,
    content_digest,
    mark_entry,
)
from sordino.estimators.inputs import unquoted
from sordino.estimators.leaks import leaks_around, mark_clone, noisy_steps_before, warn_of_leak
from sordino.estimators.methods.prepared import release_preparation
from sordino.estimators.methods.public import PublicTable
from sordino.estimators.methods.training import initial
from sordino.estimators.preparation import AUTO, Coordinates, Preparation
from sordino.estimators.weights import WEIGHTS_GIVEN, Weighting
from sordino.privacy import Guarantee, Relation, large_delta
from sordino.proofs.output import OutputEvidence
from sordino.proofs.prepared import PREPARED_NORM
from sordino.proofs.proof import Evidence
from sordino.proofs.settings import (
    HOW,
    LEAST_SQUARES,
    METHODS,
    MULTI_CLASS,
    NONE,
    PUBLIC,
    WRITTEN_IF_GIVEN,
)
from sordino.proofs.statistics import StatisticsEvidence
from sordino.release import bundle
from sordino.release.certificate import (
    FITTED_INSIDE,
    STEPS_FITTED,
    Certificate,
    CertificateError,
    FeatureMap,
    Model,
    Preprocessing,
    Tuning,
    plain_labels,
)
from sordino.release.ledger import Entry, is_open
from sordino.release.mechanism import Release, ReleaseRefused, release
from sordino.release.verify import check_consistent
from sordino.types import Array

KEPT_INSIDE = ("classes", "initial_weights", "public", "random_state")
"""Parameters that are no plain values (labels have their own place), or that undo the noise."""
_Pathlike = str | os.PathLike[str]
_Sign = Callable[[bytes], bytes]


def _covers_softmax(method: str) -> bool:
    """Whether a softmax can be trained so; `auto` chooses a method that can."""
    if method in ("auto", methods.NoPrivacy.name):
        return True
    return method in METHODS and METHODS[method].softmax


def _clips_output(method: str, max_grad_norm: float | None) -> bool:
    """Whether noise is added to final weights that clipped gradients led to."""
    known = METHODS.get(method)
    return max_grad_norm is not None and known is not None and known.kind is OutputEvidence


class PrivateLinearModel(BaseEstimator):  # type: ignore[misc]
    """Fit a linear model of bounded rows and release it, once, under a proved guarantee.

    Subclasses name the loss, and say what is predicted; their docstrings list the parameters.
    """

    _kind: str
    epsilon: float
    delta: float | None
    target: str | None
    relation: Relation | str
    method: str
    l2: float | None
    initial_weights: Any
    public: Any = None
    data_norm: float | str | None
    bounds: Any
    center: Any
    scale: Any
    classes: Any
    multi_class: str | None = None
    class_weight: Any = None
    base_rates: Any = None
    max_sample_weight: float | None = None
    fit_intercept: bool
    max_rows_per_person: int
    public_rows: int | None
    random_state: Any
    coef_: Any
    intercept_: Any
    privacy_: Guarantee | None
    certificate_: Certificate
    _scaling: Scaling
    _joint: bool
    _coordinates: Coordinates | None
    _ledger_entry: Entry | None
    _feature_map: FeatureMap | None = None
    """What made the rows of raw inputs, where a `PrivateHead` had them made."""

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        target: str | None = None,
        relation: Relation | str = "replace-one",
        method: str = "auto",
        l2: float | None = None,
        epochs: int | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        average_every: int | None = None,
        max_grad_norm: float | None = None,
        accountant: str | None = None,
        sampling: str | None = None,
        initial_weights: Any = None,
        public: Any = None,
        data_norm: float | str | None = "auto",
        bounds: Any = None,
        center: Any = "auto",
        scale: Any = "auto",
        classes: Any = None,
        multi_class: str | None = None,
        class_weight: Any = None,
        base_rates: Any = None,
        max_sample_weight: float | None = None,
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

    # Fitting ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, persons: Any = None) -> Self:
        """Train, add the noise the promise needs, and keep only what may be published.

        Parameters
        ----------
        X
            Rows: an array, a sparse matrix (made dense), or a pandas or polars table of numbers.
            Rows longer than `data_norm` are scaled down to it, each on its own.
        y
            A label for each row, or a number.
        sample_weight
            A number >= 0 a row, which counts as `max_sample_weight` where it is above. It must
            follow from its own row and public numbers: from others' rows, it would tell of them.
        persons
            Whose each row is, as any ids. Of everybody at most `max_rows_per_person` rows are used,
            drawn by the operating system, and the certificate says that somebody counted.

        Returns
        -------
        self
            With `coef_`, `intercept_`, `privacy_`, `sigma_`, `noise_`, `method_`, `settings_`,
            `certificate_`; classifiers have `classes_`.

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
            planned = self._prepare(X, y, persons, sample_weight)
            # Asked before the hours of training, and again, for good, before the model leaves.
            payment = planned.payment(self)
            weights = self._train(planned)
            with payment.recorded() as entry:
                self._keep(planned, self._release(planned, *weights), payment)
                self._ledger_entry = entry
        except BaseException:  # also Ctrl-C: nothing half-fitted is left behind
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def preview(
        self, X: Any, y: Any, sample_weight: Any = None, *, persons: Any = None
    ) -> Guarantee:
        """What `fit` would promise, asked of the ledger that is open; nothing is trained.

        Raises
        ------
        BudgetExceeded
            If a `Ledger` is open and has too little left. Nothing is recorded either way.
        NotApplicable
            If nothing would be promised.
        """
        planned = copy.copy(self)._prepare(X, y, persons, sample_weight)
        if planned.proof is None or planned.why_none:
            raise NotApplicable(f"This fit would promise nothing: {planned.why_none}.")
        planned.payment(self)
        return planned.proof.guarantee(planned.plan.task.delta)

    def _prepare(
        self, X: Any, y: Any, persons: Any = None, sample_weight: Any = None
    ) -> PlannedFit:
        """Everything public, settled; the records are checked and scaled into their norm."""
        self._check_promise()
        with unquoted(X, y):
            X, y = self._check_records(X, y)
            classes, codes = self._codes_of(y)
        self._described(classes)  # what no certificate can hold is refused now, not later
        digest, factors = "", self._weighting(classes).factors(codes, sample_weight)
        if noisy_steps_before(self):  # the rows are others in every fit, the labels are not
            digest = content_digest(X[:, :0], codes, classes)
        if persons is not None:
            digest = digest or content_digest(X, codes, classes)
            kept = inputs.persons(persons, len(X)).cut(int(self.max_rows_per_person))
            X, codes = X[kept], codes[kept]
            factors = None if factors is None else factors[kept]
        coordinates = self._bounded()
        norm = self._norm(X, coordinates)
        shown = X, codes, len(classes), norm, self.fit_intercept, coordinates
        records = FitRecords.of(*shown, factors)
        task, known = self._task(records, persons is not None), self._public_table(classes)
        if (asked := self._preparation(task, norm)) is not None:
            of = task, records, coordinates
            task, records, coordinates = self._prepared(asked, *of, X, known)
        start = initial(self.initial_weights, records.problems, task.columns)
        if known is not None and self._starts:
            start = known.start(task, bool(self.fit_intercept), coordinates)
        plan = self._plan(task, task.start_norm(start), self._target())
        leaks = (*self._read_off(), *large_delta(task.delta, task.rows))
        leaks += () if sample_weight is None else (WEIGHTS_GIVEN,)
        why_none = self._why_none()
        if not why_none:
            leaks += leaks_around(self)
        made = plan, records, start, classes, X, leaks, why_none, digest
        return PlannedFit(*made, coordinates, asked)

    def _why_none(self) -> str:
        """Why no fit with these parameters can promise anything; empty if one can."""
        if self.random_state is not None:
            return "random_state makes its noise repeatable"
        if self.data_norm is None:  # it decides the noise, which is published
            return "data_norm was read off the rows, and the noise follows from it"
        if np.array_equal(self.epsilon, math.inf):
            return "epsilon is infinite"
        if str(self.method) in methods.REFERENCES:
            return f"method={self.method!r} adds no noise"
        return ""

    def _train(self, planned: PlannedFit) -> tuple[Array, Randomness]:
        """Weights before the release's noise, and what that is drawn from."""
        randomness, plan = self._randomness(), planned.plan
        method, records = methods.methods_for(plan.task)[plan.method], planned.records
        self._coordinates = planned.coordinates
        if plan.task.prepared is not None and plan.task.prepared.private:
            assert planned.coordinates is not None
            public, noise = planned.coordinates, randomness.released
            self._coordinates = release_preparation(plan, records.X, public, noise)
            of = records.codes, records.classes, plan.task.norm, self.fit_intercept
            records = FitRecords.of(planned.X, *of, self._coordinates, records.weights)
        with threadpool_limits(1, "blas"):  # products here are too thin to gain from more
            return method.train(plan.training, records, randomness, planned.start), randomness

    def _release(self, planned: PlannedFit, weights: Array, randomness: Randomness) -> Release:
        plan, private = planned.plan, planned.plan.proof is not None
        if not private:
            why = "epsilon is infinite" if not plan.task.private else f"method={plan.method!r}"
            warn_of_leak(f"{why}: no noise is added, and nothing is promised")
        # Where the training adds noise step by step, it is from another source.
        inside, within = plan.noise_inside, private and not plan.scale > 0
        within = within and not isinstance(plan.training.evidence, StatisticsEvidence)
        return release(
            weights,
            proof=planned.proof,
            epsilon=plan.task.epsilon if private else math.inf,
            delta=plan.task.delta,
            noise=randomness.steps if within else randomness.released,
            scale=plan.scale if private else 0.0,
            already_inside=inside and f"standard deviation {plan.sigma:.6g} {inside}",
        )

    def _keep(self, planned: PlannedFit, released: Release, payment: Payment | None) -> None:
        """The released model; without a payment it is a candidate of `tune`, and may not leave."""
        plan, value = planned.plan, released.value
        coef = value[:, :-1].copy() if self.fit_intercept else value.copy()
        intercept = value[:, -1].copy() if self.fit_intercept else np.zeros(len(value))
        if plan.method == methods.Majority.name:
            intercept = methods.Majority.intercepts(planned.records)
        self._keep_weights(planned, coef, intercept)
        self.privacy_ = None if planned.why_none or payment is None else released.guarantee
        self.sigma_ = plan.sigma
        self.noise_ = released.noise if plan.proof is not None else "none"
        self.method_, self._joint = plan.method, plan.task.joint
        self._scaling = self._scaled_as()
        self.settings_ = {**plan.settings.given, "l2": plan.l2, "delta": plan.task.delta}
        if (prepared := planned.asked) is not None:
            self.settings_ |= {"center": prepared.center, "scale": prepared.scale}
        if plan.spec is not None:  # batches are made equal
            self.settings_["batch_size"] = plan.spec.batch_size
        if payment is not None:
            self.certificate_ = self._certificate(planned, payment)

    @abstractmethod
    def _keep_weights(self, planned: PlannedFit, coef: Array, intercept: Array) -> None:
        """Set `coef_` and `intercept_` to the released weights, and what predictions need."""

    @abstractmethod
    def _restore(self, model: Model, coef: Array, intercept: Array) -> None:
        """Set what `_keep_weights` had set, from a bundle that was verified."""

    def _scaled_as(self) -> Scaling:
        """How rows were scaled for the training; kept, since parameters may change after it."""
        intercept, coordinates = bool(self.fit_intercept), self._coordinates
        if self.method_ == methods.Majority.name:  # it looks at no row
            return Scaling(math.inf, intercept)
        if coordinates is not None and coordinates.prepared:
            return Scaling(PREPARED_NORM, intercept, coordinates)
        norm = self._public_norm()  # read off the rows, none is longer
        return Scaling(math.inf if norm is None else norm, intercept, coordinates)

    # Preparing rows -----------------------------------------------------------------------

    def _bounded(self) -> Coordinates | None:
        """The public bounds of columns, None without any."""
        if self.bounds is None:
            return None
        return Coordinates(*preparation.public_bounds(self.bounds, int(self.n_features_in_)))

    def _public_norm(self, *, constant: bool | None = None) -> float | None:
        """What no row is longer than, with the constant if there is one; None if it is read."""
        if self.data_norm is None or self.data_norm != AUTO:
            return None if self.data_norm is None else float(self.data_norm)
        constant = bool(self.fit_intercept) if constant is None else constant
        columns = int(self.n_features_in_) + constant
        return preparation.auto_norm(columns, bounded=self.bounds is not None)

    def _preparation(self, task: Task, norm: float) -> Preparation | None:
        """Which centre and scale rows get, all of it by public facts; None for neither."""
        center, scale = (self._how(name) for name in ("center", "scale"))
        if self.initial_weights is not None:  # they are of rows as they are
            center, scale = (NONE if how == AUTO else how for how in (center, scale))
        if self.method == methods.Majority.name:
            return None
        if self.data_norm is not None:
            norm = self._public_norm(constant=False) or norm
        if (target := self._target()) is not None:
            epsilon = gaussian.epsilon(target.mu, task.delta)
            task = replace(task, epsilon=epsilon if epsilon > 0 else task.epsilon)
        radius = preparation.RADIUS_OF_REGRESSION if task.regression else preparation.RADIUS
        asked = Preparation(norm, int(self.n_features_in_), center, scale, radius)
        found = rules.preparation(asked, task, bounded=self.bounds is not None)
        return None if found.center == found.scale == NONE else found

    def _how(self, name: str) -> str:
        """How the centre or the scale is found: "auto", "none", "private" or "public".

        A public table has a centre to give. Its deviations are taken where asked for: exact ones
        were no help on the tables that chose our rules (docs/accuracy.md).
        """
        given = getattr(self, name)
        if self.public is None or not isinstance(given, str):
            return preparation.chosen(name, given)
        hint = "A public table says where rows lie; leave one of the two out."
        checks.one_of(name, given, (AUTO, NONE, PUBLIC), hint)
        by_rule = PUBLIC if name == "center" else NONE
        return by_rule if given == AUTO else given

    def _public_table(self, classes: Array) -> PublicTable | None:
        """The public rows and labels, checked like the private ones; None without any."""
        if self.public is None:
            return None
        hint = "Pass (X, y) that hold none of the protected rows, or (X, None)."
        if not isinstance(self.public, tuple | list) or len(self.public) != 2:
            checks.fail("public", f"[{type(self.public).__name__}]", "to be (X, y)", hint)
        X, y = self.public
        try:
            with unquoted(X, y):
                X = validate_data(self, inputs.numbers(X), reset=False, **inputs.ACCEPTED)
                X = X.toarray() if hasattr(X, "toarray") else X
                inputs.check_finite(X)
                codes = None if y is None else self._public_codes(self._check_targets(y), classes)
        except (InvalidArgument, TypeError) as error:
            raise InvalidArgument(f"In the public table: {error}", "public") from None
        if codes is not None and len(codes) != len(X):
            checks.fail("public", f"[{len(X)} rows, {len(codes)} labels]", "to be one a row", hint)
        return PublicTable(X, codes, len(classes))

    @abstractmethod
    def _public_codes(self, y: Array, classes: Array) -> npt.NDArray[Any]:
        """Labels or targets of the public table, as those of the fit are coded."""

    @property
    def _starts(self) -> bool:
        """Whether a public table says where the descent begins; a minimiser has no use for it."""
        if self.public is None or self.public[1] is None:
            return False
        known = methods.REGRESSION if self._kind == LEAST_SQUARES else methods.METHODS
        return self.method == AUTO or known[self.method].starts

    def _prepared(
        self,
        asked: Preparation,
        task: Task,
        records: FitRecords,
        bounds: Coordinates | None,
        X: Array,
        known: PublicTable | None,
    ) -> tuple[Task, FitRecords, Coordinates]:
        """The task on prepared rows; where these wait for a release, rows in their norm alone."""
        coordinates = replace(bounds or Coordinates(), norm=asked.norm)
        for name in ("center", "scale"):
            if getattr(asked, name) == PUBLIC:
                given = getattr(self, name)
                if isinstance(given, str) and known is not None:
                    make = known.center if name == "center" else known.deviations
                    given = make(coordinates)
                elif isinstance(given, str):  # "auto", by a rule: the middle of the bounds
                    given = coordinates.from_place(np.zeros(asked.features))
                numbers = preparation.public_numbers(name, given, asked.features)
                coordinates = coordinates.with_public(name, numbers)
        task = replace(
            task,
            l2=self._l2(prepared=True),
            norm=PREPARED_NORM,
            prepared=asked if asked.private else None,
            centred=asked.center != NONE,
        )
        of = X, records.codes, records.classes
        if asked.private:
            rows = FitRecords.of(*of, asked.norm, False, coordinates, records.weights)
            return task, rows, coordinates
        coordinates = coordinates.completed(asked)
        norm = PREPARED_NORM, self.fit_intercept
        records = FitRecords.of(*of, *norm, coordinates, records.weights)
        return task, records, coordinates

    # What is asked ------------------------------------------------------------------------

    def _check_promise(self) -> None:
        inputs.check_budget(self.epsilon, self.delta)
        if self._target() is not None and self.epsilon != 1:  # its default
            hint = "Epsilon follows from the target."
            checks.fail("target", self.target, f"or epsilon={self.epsilon}, not both", hint)
        relation = self._relation()
        if self.l2 is not None:
            checks.non_negative("l2", self.l2, "Pass the regulariser's weight, such as 0.001.")
        if self.data_norm is not None:
            inputs.check_norm(self.data_norm)
        checks.flag("fit_intercept", self.fit_intercept)
        if self.public is not None and self.initial_weights is not None:
            hint = "A public table says where to start."
            checks.fail("initial_weights", "[...]", "or public to be given, not both", hint)
        inputs.check_persons(self.max_rows_per_person)
        if not isinstance(self.method, str):
            checks.fail("method", self.method, "to be a name", "Leave it out, or pass 'auto'.")
        checks.one_of("method", self.method, self._methods)
        if self.multi_class is not None:
            ways = ("auto", "softmax", "one-vs-rest")
            checks.one_of("multi_class", self.multi_class, ways)
            if self.multi_class == "softmax" and not _covers_softmax(self.method):
                hint = "Leave one of them out, or pass method='noisy-gd'."
                no = f"not to be given for method={self.method!r}, which has no theorem for it"
                checks.fail("multi_class", self.multi_class, no, hint)
        if self.target is not None and self.method in methods.REFERENCES:
            checks.fail("target", self.target, f"to be left out for method={self.method!r}")
        inputs.check_public_rows(self.public_rows, relation)

    def _target(self) -> RiskTarget | None:
        """The risk that is promised, where it is not epsilon."""
        if not isinstance(self.target, str | None):  # it may be a column of the records
            checks.fail("target", f"[{type(self.target).__name__}]", "to be text", "Name a risk.")
        return None if self.target is None else RiskTarget.parse(self.target)

    def _relation(self) -> Relation:
        return inputs.relation_of(self.relation)

    def _check_records(self, X: Any, y: Any) -> tuple[Array, Array]:
        # y is checked below, with sentences of our own.
        how = {"order": "C", "ensure_all_finite": False, "multi_output": True, **inputs.ACCEPTED}
        X, y = validate_data(self, inputs.numbers(X), y, **how)
        inputs.check_names(getattr(self, "feature_names_in_", None))
        X = X.toarray() if hasattr(X, "toarray") else X
        inputs.check_finite(X)
        return X, self._check_targets(y)

    _methods: Collection[str]
    """What `method` may be."""

    @abstractmethod
    def _check_targets(self, y: Any) -> Array:
        """One label or number a row, or a refusal."""

    @abstractmethod
    def _codes_of(self, y: Array) -> tuple[Array, npt.NDArray[Any]]:
        """The classes, and the place of each label among them; or none, and targets in [-1, 1]."""

    def _read_off(self) -> tuple[str, ...]:
        """What is read off the labels, in words; no guarantee covers it."""
        return ()

    def _weighting(self, classes: Array) -> Weighting:
        given = self.class_weight, self.base_rates, self.max_sample_weight
        return Weighting.of(classes, *given)

    def _norm(self, X: Array, coordinates: Coordinates | None = None) -> float:
        if (public := self._public_norm()) is not None:
            return public
        warn_of_leak("data_norm was read off the rows: no guarantee; pass one you know")
        rows = X if coordinates is None else coordinates.bounded(X)
        largest = float(row_norms(rows).max(initial=0.0))
        return math.hypot(largest, 1.0) if self.fit_intercept else max(largest, 1e-12)

    def _randomness(self) -> Randomness:
        return inputs.randomness_of(self.random_state)

    def _task(self, records: FitRecords, persons_counted: bool) -> Task:
        relation = self._relation()
        rows = inputs.public_size(len(records.X), self.public_rows, relation)
        delta = inputs.delta_for(self.delta, rows, self.epsilon)
        return Task(
            self._loss(records.problems),
            self._l2(prepared=False),
            rows,
            records.X.shape[1],
            records.norm,
            *(float(self.epsilon), delta, relation, records.problems),
            rows_per_person=int(self.max_rows_per_person),
            huber_width=self._huber_width(),
            persons_counted=persons_counted,
        )

    def _loss(self, problems: int) -> str:
        """The kind of the loss, for so many rows of weights, by public facts.

        Several classes are a softmax wherever the method has a theorem for it: for output
        perturbation there is none where gradients are clipped, so that is one against the rest.
        """
        softmax = self._kind == "logistic" and problems > 1 and self.multi_class != "one-vs-rest"
        if self.multi_class != "softmax" and _clips_output(self.method, self.max_grad_norm):
            return self._kind
        return "softmax" if softmax and _covers_softmax(self.method) else self._kind

    def _huber_width(self) -> float:
        return 0.5

    def _plan(self, task: Task, start_norm: float, target: RiskTarget | None = None) -> FitPlan:
        """How the task is done; with a target, its epsilon is not used but found."""
        given = Settings(**{name: getattr(self, name, None) for name in HOW})
        how = self.method, task, given, start_norm
        starts = self.initial_weights is not None or self._starts
        if target is not None:
            return methods.plan_for_risk(target, *how, starts=starts)
        return methods.plan(*how, starts=starts)

    def _l2(self, *, prepared: bool) -> float:
        """The regulariser's weight; where none is given, by a public rule."""
        given = rules.l2(self.method, prepared=prepared) if self.l2 is None else self.l2
        return float(given)

    # Certificates -------------------------------------------------------------------------

    @property
    def _is_prepared(self) -> bool:
        """Whether the rows of the fit got a centre and a scale."""
        coordinates = getattr(self, "_coordinates", None)
        return coordinates is not None and bool(coordinates.prepared)

    def _written_norm(self) -> float | None:
        """The norm as a certificate has it: of rows before a centre, without the constant."""
        return self._public_norm(constant=False if self._is_prepared else None)

    def _certificate(
        self, planned: PlannedFit, payment: Payment, chosen: tuple[Evidence, Tuning] | None = None
    ) -> Certificate:
        """The certificate of a model that was just fitted.

        `chosen`, for the best of several trainings: the evidence of all, and how it was chosen.
        """
        searched = any(line.startswith(FITTED_INSIDE) for line in planned.not_covered)
        alone = planned.plan.evidence, Tuning("unknown" if searched else "none declared")
        evidence, tuning = chosen or alone
        promised = self.privacy_ is not None
        kept = evidence if promised else None
        return Certificate(
            model=self._described(planned.classes, self._weights_file()),
            guarantee=self.privacy_,
            why_none="" if promised else planned.why_none,
            method=self.method_,
            evidence=kept,
            facts={} if kept is None else kept.facts(),
            noise=self.noise_.rpartition("; from: ")[2],  # how much is among the facts
            preprocessing=Preprocessing(features=self._feature_map),
            tuning=tuning,
            **payment.certificate_fields(),
        )

    def _described(self, classes: Array, weights: bytes = b"") -> Model:
        """The model's part of the certificate; without weights only to see if there can be one."""
        labels, label_type = plain_labels(classes) if len(classes) else ((), "float")
        names = getattr(self, "feature_names_in_", None)
        settings = {k: v for k, v in self.get_params().items() if k not in KEPT_INSIDE}
        settings[MULTI_CLASS] = None  # where it matters
        if len(labels) > 2 and self._loss(len(labels)) == "softmax":
            settings[MULTI_CLASS] = "softmax"
        elif len(labels) > 2 and self.multi_class == "one-vs-rest":
            settings[MULTI_CLASS] = "one-vs-rest"
        weighting = self._weighting(classes)
        for name in settings.keys() & {"class_weight", "base_rates"}:
            settings[name] = getattr(weighting, name)
        settings["data_norm"] = self._written_norm()
        if self.l2 is None:
            settings["l2"] = self._l2(prepared=self._is_prepared)
        if "bounds" in settings:
            settings["bounds"] = None if self.bounds is None else PUBLIC
        for name in settings.keys() & {"center", "scale"}:  # arrays are in the model's file
            how = self._how(name)
            if how == AUTO and weights and self.settings_.get(name) == PUBLIC:
                how = PUBLIC  # the middle of the bounds, which is in the model's file
            settings[name] = None if how == AUTO else how
        for name in settings.keys() & set(WRITTEN_IF_GIVEN):
            if settings[name] is None:
                del settings[name]
        settings["relation"] = self._relation().value  # however it was spelled
        if (target := self._target()) is not None:
            settings["target"] = str(target)
            del settings["epsilon"]
        for name, value in settings.items():
            value = value.item() if isinstance(value, np.generic) else value
            settings[name] = "inf" if isinstance(value, float) and np.isinf(value) else value
        return Model(
            estimator=type(self).__name__,
            settings=settings,
            labels=labels,
            label_type=label_type,
            features=int(self.n_features_in_),
            feature_names=None if names is None else tuple(str(name) for name in names),
            intercept=bool(self.fit_intercept),
            sha256=bundle.digest(weights),
        )

    def _weights_file(self) -> bytes:
        """The model's file: the weights, and by what numbers rows are prepared."""
        prepared = self._scaling.prepared
        arrays = {} if prepared is None else prepared.arrays
        weights = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        return bundle.weights_file(*weights, arrays)

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
            raise ReleaseRefused("Of the models of `tune` only the one it returns may leave.")
        given, before = self.certificate_, self.certificate_.preprocessing
        if preprocessing is not None:
            checks.sequence("preprocessing", preprocessing, "Pass a list of sentences, or [].")
            reads = tuple(str(each) for each in preprocessing)
            for line in () if reads or given.guarantee is None else given.guarantee.not_covered:
                if line.startswith(STEPS_FITTED):
                    checks.fail("preprocessing", [], f"to name what was read: {line}")
            before = replace(before, declared=True, reads=reads)
        if columns is not None:
            if Columns.from_toml(columns).read_from_data:
                checks.fail("columns", "[...]", "to be public, without read_from_data")
            before = replace(before, columns=columns)
        kind = given.tuning
        if tuning is not None:
            checks.one_of("tuning", tuning, ("none declared", "unknown"))
            if kind.kind == "declared":
                checks.fail("tuning", tuning, "not to be given for a model that `tune` chose")
            kind = Tuning(tuning)
        self.certificate_ = replace(given, preprocessing=before, tuning=kind)
        return self

    def save(self, directory: _Pathlike, **declared: Any) -> Path:
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
        return self._write(Path(directory))

    def fit_and_save(
        self,
        X: Any,
        y: Any,
        directory: _Pathlike,
        *,
        sample_weight: Any = None,
        persons: Any = None,
        sign: _Sign | None = None,
        **declared: Any,
    ) -> Path:
        """`fit`, then `save`; a ledger is charged between writing the files and naming them.

        A place that cannot be written costs no budget then. If the system fails after that, the
        ledger's entry says so, the budget stays spent, and the model stays here, to be saved.

        Parameters
        ----------
        X, y, directory, sample_weight, persons, **declared
            As for `fit` and `save`.
        sign
            From the certificate's bytes to a signature that is put beside it.
        """
        made = copy.copy(self)
        made._ledger_entry = None
        try:
            bundle.check_target(directory)
            planned = made._prepare(X, y, persons, sample_weight)
            place = made._save_planned(planned, directory, sign, **declared)
        except BaseException:
            if made._ledger_entry is not None:
                self.__dict__ = made.__dict__
            raise
        self.__dict__ = made.__dict__  # and nothing of an earlier fit
        return place

    def _save_planned(
        self, planned: PlannedFit, directory: _Pathlike, sign: _Sign | None = None, **declared: Any
    ) -> Path:
        """Train and save what `_prepare` of this very estimator planned."""
        place = bundle.check_target(directory, weights=planned.start.size)
        payment = planned.payment(self)
        self._keep(planned, self._release(planned, *self._train(planned)), payment)
        self.declare(**declared)
        self._write(place, payment, sign)
        return place

    def _write(
        self, directory: Path, payment: Payment | None = None, sign: _Sign | None = None
    ) -> Path:
        """Write the bundle, then tell the ledger where it lies.

        A `payment` is of a model that is not charged for yet: it is once its files are on the disk.

        Raises
        ------
        ReleaseRefused
            If the weights are not those that were released.
        CertificateError
            If the disk refuses; its text says what became of the budget and of the model.
        """
        bundle.check_target(directory)
        papers, weights = self.certificate_, self._weights_file()
        if bundle.digest(weights) != papers.model.sha256:
            raise ReleaseRefused("coef_ or intercept_ was changed after the release; fit again.")

        def record() -> None:
            if payment is not None:
                self._ledger_entry = payment.record()

        check_consistent(papers)  # what `load` would refuse is not written, nor charged
        signature = None if sign is None else sign(papers.to_json().encode())
        if sign is not None and (not isinstance(signature, bytes) or len(signature) != 64):
            checks.fail("sign", "[what it returned]", "to be the 64 bytes of an Ed25519 signature")
        try:
            bundle.write(directory, papers, weights, signature=signature, record=record)
        except BaseException as error:
            after = self._after_failure(error, directory, payment)
            if isinstance(error, CertificateError):
                raise CertificateError(f"{error} {after}") from error.__cause__
            if self._ledger_entry is not None:  # else, stopped while it was recorded, nobody knows
                error.add_note(after)
            raise
        if self._ledger_entry is not None:
            mark_entry(self._ledger_entry.written, str(directory.resolve()))
        return directory

    def _after_failure(self, error: BaseException, directory: Path, payment: Payment | None) -> str:
        """What became of the budget and the model when writing failed; the ledger is told, too."""
        entry = self._ledger_entry
        if payment is None:
            kept = "The model is still in memory: save it elsewhere."
            return kept if entry is None else f"{entry.spent} {kept}"
        if entry is None:
            return "Nothing was released, and no budget was spent."
        why = error.__cause__ or error
        reason = getattr(why, "strerror", None) or type(why).__name__
        mark_entry(entry.failed, f"failed to write {directory}: {reason}")
        return entry.spent

    # Copies: one for another process is marked while a ledger is open here (`SENT`) --------

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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
