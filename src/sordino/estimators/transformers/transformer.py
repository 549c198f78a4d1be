"""`PrivateTransformer`: what it learns of the rows are a few sums, each with its noise."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from sordino import checks
from sordino.accounting import gaussian
from sordino.estimators import inputs, preparation
from sordino.estimators.fit import SENT, Payment
from sordino.estimators.inputs import unquoted
from sordino.estimators.leaks import leaks_around, mark_clone, warn_of_leak
from sordino.estimators.methods.prepared import release_sum
from sordino.estimators.preparation import AUTO, Coordinates, Preparation
from sordino.privacy import Guarantee, Relation, large_delta
from sordino.proofs import Proof
from sordino.proofs.prepared import SumRelease, SumsEvidence
from sordino.release.ledger import Charge, Entry, is_open
from sordino.release.mechanism import SLACK, ReleaseRefused
from sordino.release.noise import Noise
from sordino.types import Array, Floats


@dataclass(frozen=True)
class SumsPlan:
    """What a transformer will release, all of it from public facts.

    Parameters
    ----------
    asked
        The norm of rows, and their columns.
    rows
        Number of records; where the relation keeps it private, a public number near it.
    epsilon, delta
        The promise; an infinite epsilon promises nothing.
    evidence
        The sums with their noise; None where nothing is promised.
    not_covered
        What the promise does not cover, in words.
    why_none
        Why nothing is promised whatever the noise is; empty if something is.
    """

    asked: Preparation
    rows: int
    epsilon: float
    delta: float
    evidence: SumsEvidence | None
    not_covered: tuple[str, ...] = ()
    why_none: str = ""

    @property
    def proof(self) -> Proof | None:
        """What all sums prove together."""
        if self.evidence is None:
            return None
        return replace(self.evidence.proof(), not_covered=self.not_covered)

    @property
    def guarantee(self) -> Guarantee | None:
        """What is promised of them; None if nothing is."""
        if self.proof is None or self.why_none:
            return None
        return self.proof.guarantee(self.delta)

    def of(self, what: str) -> SumRelease | None:
        """The release of one sum."""
        made = () if self.evidence is None else self.evidence.releases
        return next((each for each in made if each.what == what), None)

    def charge(self, name: str) -> Charge:
        """What a ledger is asked for; refused if nothing is promised.

        Without a fingerprint: the model that comes next sees rows that carry this noise, and a
        ledger would take them for other data.
        """
        if self.proof is None or self.guarantee is None or self.evidence is None:
            why = f"A ledger is open and this fit has no guarantee: {self.why_none}."
            raise ReleaseRefused(why)
        return Charge(
            profile=self.proof.profile,
            epsilon=self.guarantee.epsilon,
            delta=self.delta,
            rows_per_person=self.evidence.rows_per_person,
            what=f"{name}, {' and '.join(each.what for each in self.evidence.releases)}",
        )


@dataclass(frozen=True, eq=False)
class BoundedRows:
    """Rows within their bounds and norm, the plan of what is released of them, and the noise."""

    rows: Array
    coordinates: Coordinates
    plan: SumsPlan
    noise: Noise

    def released(self, what: str, exact: Floats, share: float = 1.0) -> Floats:
        """A sum with its noise; without any where nothing is promised for want of noise.

        `share` is that of the standard deviation, rounded up, for entries off a diagonal.
        """
        of, evidence = self.plan.of(what), self.plan.evidence
        if of is None or evidence is None:
            return exact
        told = evidence.relation, evidence.rows_per_person, evidence.persons_counted
        sigma = of.sigma if share == 1 else math.nextafter(of.sigma * share, math.inf)
        return release_sum(exact, of.proof(*told), self.plan.delta, sigma, self.noise).value

    def sigma(self, what: str) -> float:
        """Standard deviation of the noise on a sum, 0 if it has none."""
        of = self.plan.of(what)
        return 0.0 if of is None else of.sigma

    def center(self, what: str) -> Floats:
        """The released mean of the rows."""
        asked = self.plan.asked
        exact = preparation.sums(what, self.rows, asked.norm_of(what), self.plan.rows)
        bounded = self.coordinates.low is not None
        of = self.released(what, exact), asked, self.plan.rows
        return preparation.center_of(*of, bounded=bounded)


class PrivateTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learn a few noisy sums of bounded rows, once, under a proved guarantee.

    Subclasses say which sums, and what is computed of them; their docstrings list the parameters.
    """

    epsilon: float
    delta: float | None
    relation: Relation | str
    bounds: Any
    data_norm: float | str
    max_rows_per_person: int
    public_rows: int | None
    random_state: Any
    privacy_: Guarantee | None
    noise_: str
    evidence_: SumsEvidence | None
    _coordinates: Coordinates
    _ledger_entry: Entry | None
    releases_sums = True
    """What it learns of the rows leaves with noise: rows after it differ from fit to fit."""

    @property
    def reads_private_data(self) -> bool:
        """Whether it was fitted without a promise: else what it learned is paid for (`leaks`)."""
        return hasattr(self, "evidence_") and self.privacy_ is None

    def _keep_parameters(self, given: Mapping[str, Any]) -> None:
        for name, value in given.items():
            if name != "self":
                setattr(self, name, value)

    # Fitting ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, persons: Any = None) -> Self:
        """Sum, add the noise that the promise needs, and keep nothing else of the rows.

        Parameters
        ----------
        X
            Rows: an array, a sparse matrix (made dense), or a pandas or polars table of numbers.
        y
            Not used.
        persons
            Whose each row is, as any ids. Of everybody at most `max_rows_per_person` rows are used,
            drawn by the operating system.

        Raises
        ------
        InvalidArgument
            For arguments or data that no fit can accept; the transformer is as it was before.
        BudgetExceeded
            If a `Ledger` is open and has too little left.
        """
        before = dict(self.__dict__)
        try:
            X, coordinates, plan = self._prepare(X, persons)
            payment = Payment.of(self, lambda: plan.charge(type(self).__name__))
            noise = inputs.randomness_of(self.random_state).released
            if plan.evidence is None:
                warn_of_leak("epsilon is infinite: no noise is added, and nothing is promised")
            records = BoundedRows(coordinates.bounded(X), coordinates, plan, noise)
            learned = self._learn(records)
            with payment.recorded() as entry:
                for name, value in learned.items():
                    setattr(self, name, value)
                self.privacy_, self.evidence_ = plan.guarantee, plan.evidence
                words = None if plan.evidence is None else plan.evidence.words
                self.noise_ = "none" if words is None else f"{words}; from: {noise.name}"
                self._ledger_entry = entry
        except BaseException:  # also Ctrl-C: nothing half-fitted is left behind
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _prepare(self, X: Any, persons: Any = None) -> tuple[Array, Coordinates, SumsPlan]:
        """The rows, checked; how they get into their bounds and norm; and the plan."""
        self._check_promise()
        with unquoted(X):
            how = {"order": "C", "ensure_all_finite": False, **inputs.ACCEPTED}
            X = validate_data(self, inputs.numbers(X), **how)
            inputs.check_names(getattr(self, "feature_names_in_", None))
            X = X.toarray() if hasattr(X, "toarray") else X
            inputs.check_finite(X)
        if persons is not None:
            X = X[inputs.persons(persons, len(X)).cut(int(self.max_rows_per_person))]
        columns, bounded = int(self.n_features_in_), self.bounds is not None
        norm = self.data_norm
        if norm == AUTO:
            norm = preparation.auto_norm(columns, bounded=bounded)
        coordinates = Coordinates(norm=float(norm))
        if bounded:
            low, high = preparation.public_bounds(self.bounds, columns)
            coordinates = replace(coordinates, low=low, high=high)
        return X, coordinates, self._plan(len(X), columns, float(norm), persons is not None)

    def _plan(self, rows: int, columns: int, norm: float, persons_counted: bool) -> SumsPlan:
        """What is released, by public facts: each sum gets a share of the squared budget."""
        relation = inputs.relation_of(self.relation)
        rows = inputs.public_size(rows, self.public_rows, relation)
        delta = inputs.delta_for(self.delta, rows, self.epsilon)
        asked, who = Preparation(norm, columns), int(self.max_rows_per_person)
        evidence = None
        if math.isfinite(self.epsilon):
            mu = 1 / gaussian.sigma(float(self.epsilon), delta)
            made = tuple(
                preparation.noise_for(what, asked, relation, who, mu * math.sqrt(share))
                for what, share in self._shares(columns).items()
            )
            evidence = SumsEvidence(
                relation=relation,
                releases=made,
                rows_per_person=who,
                persons_counted=persons_counted,
            )
            proved = evidence.proof().guarantee(delta).epsilon
            if not proved <= self.epsilon * (1 + SLACK):
                most = f"<= {self.epsilon:g}, which was promised"
                checks.fail("epsilon", proved, most, "", ReleaseRefused)
        why = "" if evidence is not None else "epsilon is infinite"
        if self.random_state is not None:
            why = "random_state makes its noise repeatable"
        leaks = large_delta(delta, rows) + (() if why else leaks_around(self))
        return SumsPlan(asked, rows, float(self.epsilon), delta, evidence, leaks, why)

    def _check_promise(self) -> None:
        inputs.check_budget(self.epsilon, self.delta)
        relation = inputs.relation_of(self.relation)
        inputs.check_norm(self.data_norm)
        inputs.check_persons(self.max_rows_per_person)
        inputs.check_public_rows(self.public_rows, relation)

    @abstractmethod
    def _shares(self, columns: int) -> dict[str, float]:
        """Which sums are released, in order, and each one's share of the squared budget."""

    @abstractmethod
    def _learn(self, records: BoundedRows) -> dict[str, Any]:
        """The attributes of the fitted transformer, from released sums and public numbers."""

    # Transforming -------------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """Rows as the released numbers have them, each by itself alone.

        First they are clipped to the bounds and scaled down to `data_norm`, as those were that the
        numbers are of.
        """
        check_is_fitted(self)
        with unquoted(X):
            X = validate_data(self, inputs.numbers(X), reset=False, **inputs.ACCEPTED)
        X = X.toarray() if hasattr(X, "toarray") else X
        return np.asarray(self._of(X), dtype=X.dtype)

    def _of(self, X: Array) -> Array:
        """Rows within bounds and norm, centred and scaled."""
        return self._coordinates.of(X)

    # Copies -------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, SENT: True} if is_open() else state

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        if hasattr(self, SENT):
            setattr(clone, SENT, True)
        promises = self.random_state is None and not np.array_equal(self.epsilon, math.inf)
        mark_clone(self, clone, promises=promises)
        return clone

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
