"""The values of one fit: what is asked (`Task`), how it is done (`FitPlan`), and what it costs.

`Task`, `Settings` and `FitPlan` are made from public facts alone, before anything is trained. A fit
asks the open ledger before it trains, and is recorded before its model leaves (`Payment`).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.accounting import gaussian
from sordino.data.dataset import Dataset
from sordino.estimators.minimum.linear import Risk
from sordino.estimators.preparation import Coordinates, Preparation, scale_down
from sordino.models.constants import Constants, ObjectiveSpec
from sordino.privacy import Relation
from sordino.proofs import Proof
from sordino.proofs.prepared import SumRelease
from sordino.proofs.proof import Evidence
from sordino.proofs.settings import LEAST_SQUARES, check_settings
from sordino.randomness import Name, SeededStreams, Streams
from sordino.release.certificate import DatasetFacts, new_salt, salted
from sordino.release.ledger import Charge, Entry, Ledger, LedgerError, current, new_id
from sordino.release.mechanism import ReleaseRefused
from sordino.release.noise import CryptoNormals, Noise, NoiseStream, OsGaussian, SeededNoise
from sordino.sgd.spec import TrainSpec
from sordino.types import Array, Floats

# What is asked ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """The public facts of one fit. Nothing in it was read from the records.

    Parameters
    ----------
    kind, huber_width, l2
        The loss: see `ObjectiveSpec`.
    rows
        Number of records; where the relation keeps it private, a public number near it.
    columns
        Weights of one score, the intercept's among them.
    norm
        What no row's Euclidean norm exceeds, the intercept's 1 included.
    epsilon, delta, relation
        The promise. An infinite epsilon promises nothing.
    problems
        Rows of weights: one for two classes, else one a class. Each is a binary problem of its
        own, or, of the softmax, a part of the one there is.
    rows_per_person
        Records that one person may have.
    persons_counted
        Whether somebody counted, and cut what was more.
    prepared
        The centre and the scale that rows get first; what is released for these is a part of the
        promise. `norm` is then that of prepared rows.
    centred
        Whether the training sees rows without what they have in common.
    """

    kind: str
    l2: float
    rows: int
    columns: int
    norm: float
    epsilon: float
    delta: float
    relation: Relation = Relation.REPLACE_ONE
    problems: int = 1
    rows_per_person: int = 1
    huber_width: float = 0.5
    persons_counted: bool = False
    prepared: Preparation | None = None
    centred: bool = False

    def objective_with(self, l2: float) -> ObjectiveSpec:
        """The loss of one model, the intercept a column like any other, with a regulariser."""
        how: dict[str, Any] = {"classes": self.problems} if self.joint else {}
        return ObjectiveSpec(self.kind, l2, False, self.huber_width, **how)

    @property
    def joint(self) -> bool:
        """Whether all classes are one model, the softmax."""
        return self.kind == "softmax"

    @property
    def models(self) -> int:
        """Models trained beside each other on the same records."""
        return 1 if self.joint else self.problems

    def start_norm(self, start: Floats) -> float:
        """Norm of one model's initial weights, at most, of all that are given [problem, column]."""
        rows = np.linalg.norm(start, axis=1)
        return float(np.linalg.norm(rows) if self.joint else rows.max())

    @property
    def constants(self) -> Constants:
        """What is proved of the loss for rows within the norm."""
        constants = self.objective_with(self.l2).constants(self.norm)
        assert constants is not None
        return constants

    @property
    def curvature(self) -> float:
        """Largest second derivative of the loss along its scores."""
        return self.objective_with(self.l2).curvature

    @property
    def regression(self) -> bool:
        """Whether a number is predicted: targets lie in [-1, 1], and the loss is their squares."""
        return self.kind == LEAST_SQUARES

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return math.isfinite(self.epsilon)

    @property
    def private_size(self) -> bool:
        """Whether the relation keeps the number of records private."""
        return self.relation is Relation.ADD_OR_REMOVE_ONE

    @property
    def shape(self) -> dict[str, Any]:
        """What evidence of every kind states: who is protected, and how many weights leave."""
        names = ("relation", "columns", "problems", "rows_per_person", "persons_counted")
        return {name: getattr(self, name) for name in names}

    @property
    def _share(self) -> float:
        """How much more noise the classes and rows of one person need, in Gaussian DP.

        Models beside each other need the root of their number; the softmax, whose gradients are
        sqrt(2) times as long as a row, as much as two.
        """
        return math.sqrt(2 if self.joint else self.problems) * self.rows_per_person

    @property
    def alone(self) -> Task:
        """About the same task for one problem and one record: a share of the budget.

        What rules ask, since the noise for several problems together takes long to find.
        """
        if self._share == 1:
            return self
        assert not self.joint  # rules for it ask for no such noise
        epsilon, delta = self.epsilon / self._share, self.delta / self._share
        return replace(self, problems=1, rows_per_person=1, epsilon=epsilon, delta=delta)

    @property
    def moved(self) -> float:
        """Norms by which one record can move a sum of gradients."""
        return 2.0 if self.relation is Relation.REPLACE_ONE else 1.0

    @functools.cached_property
    def signal(self) -> float:
        """Records over the noise that one sum of their gradients needs: rows * mu / 2 or rows * mu.

        The one number that says how much this task can afford, for rows of norm 1. mu is Gaussian
        DP with the same budget, for one problem and one record: noise of 2 norm / mu on a sum of
        gradients would meet the promise under replace-one.
        """
        if not self.private:
            return math.inf
        mu = 1 / gaussian.sigma(self.epsilon, self.delta) / self._share
        return self.rows * mu / self.moved


@dataclass(frozen=True)
class Settings:
    """How a method trains; None where it does not matter, or where a rule is to choose."""

    epochs: int | None = None
    steps: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    average_every: int | None = None
    max_grad_norm: float | None = None
    l2: float | None = None
    accountant: str | None = None
    sampling: str | None = None

    def __post_init__(self) -> None:
        check_settings(vars(self))
        if self.l2 is not None:
            checks.non_negative("l2", self.l2)

    @property
    def given(self) -> dict[str, object]:
        """Those that are set."""
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None}

    def filled(self, *, clip: float | None = None, **defaults: Any) -> Settings:
        """These settings, the defaults where nothing was given, a clip of at most `clip`."""
        values: dict[str, Any] = {**defaults, **self.given}
        if clip is not None:
            values["max_grad_norm"] = min(values.get("max_grad_norm", clip), clip)
        return Settings(**values)


@dataclass(frozen=True)
class FitPlan:
    """How a task will be done. Complete: only records and randomness are missing.

    Parameters
    ----------
    method, task, settings
        What will be done, for whom, how.
    proof
        What it will prove; None where nothing is promised.
    evidence
        The numbers of the proof, for its certificate.
    sigma
        Standard deviation of the noise that protects: on each weight, each sum of gradients or
        each coefficient of the linear term, as `noise_at` says.
    scale
        Standard deviation of the noise that the release adds to each weight.
    noise_at
        Where `sigma` is, in words.
    spec
        The training, where the engine does it.
    l2
        Regulariser that was really used; a noisy objective may need more than was asked for.
    before, after
        What is released of the rows to prepare them, and the training on what is left of the
        budget, where there is such a release; `task`, `proof` and `evidence` are of both together.
    """

    method: str
    task: Task
    settings: Settings
    proof: Proof | None
    sigma: float
    scale: float
    noise_at: str
    spec: TrainSpec | None = None
    l2: float = 0.0
    evidence: Evidence | None = None
    before: tuple[SumRelease, ...] = ()
    after: FitPlan | None = None

    @property
    def training(self) -> FitPlan:
        """The plan of the training alone."""
        return self if self.after is None else self.after

    @property
    def noise_inside(self) -> str:
        """Where the training itself adds noise; empty if only the release does."""
        return "" if self.sigma == self.scale else self.noise_at


# Whom it is asked for -----------------------------------------------------------------------------

_BLOCK = 1 << 12
_COLUMNS = 1 << 9
"""Rows with more columns are scored fewer at a time: a block is a copy, and dense."""


@dataclass(frozen=True)
class Scaling:
    """How a row becomes what a model sees, in training and in prediction alike.

    A model is fitted to scaled rows, so its scores and probabilities are those of scaled rows only.

    Parameters
    ----------
    norm
        Longer rows are scaled down to it, the others are left as they are; infinity scales none.
    intercept
        Whether rows get a constant at the end, 1 unless `prepared` has another, which is scaled
        with them.
    prepared
        What comes before that: public bounds, a centre, a scale.
    """

    norm: float
    intercept: bool
    prepared: Coordinates | None = None

    def rows(self, X: Array) -> Array:
        """The rows as the model sees them, each scaled on its own, in the precision of `X`."""
        rows = np.empty((len(X), X.shape[1] + int(self.intercept)), dtype=X.dtype)
        for start in range(0, len(X), _BLOCK):
            block = rows[start : start + _BLOCK]
            given = X[start : start + _BLOCK]
            block[:, : X.shape[1]] = given if self.prepared is None else self.prepared.of(given)
            if self.intercept:
                block[:, -1] = 1 if self.prepared is None else self.prepared.constant
            scale_down(block, self.norm)
        return rows

    def scores(self, X: Any, coef: Array, intercept: Array) -> Array:
        """What linear models say of each row, a column a model; `X` may be sparse (CSR)."""
        weights = np.column_stack([coef, intercept]) if self.intercept else coef
        scores = np.empty((X.shape[0], len(coef)))
        step = max(1, _BLOCK * _COLUMNS // max(_COLUMNS, X.shape[1]))
        for start in range(0, len(scores), step):
            part = X[start : start + step]
            rows = self.rows(part.toarray() if hasattr(part, "toarray") else part)
            scores[start : start + step] = rows @ weights.T
        return scores if self.intercept else scores + intercept


@dataclass(frozen=True, eq=False)
class FitRecords:
    """Rows within the norm bound, the intercept's column last, and class numbers.

    One problem if there are two classes (is it the second?), else one a class (is it this one?);
    or all classes at once, for a softmax. Without classes it is a regression, and `codes` are the
    targets, in [-1, 1]. Weights, if there are any, are in [0, 1] (`weights.py`), the same in
    every problem.
    """

    X: Array
    codes: npt.NDArray[Any]
    classes: int
    norm: float
    weights: Floats | None = None

    @classmethod
    def of(
        cls,
        X: Array,
        codes: npt.NDArray[Any],
        classes: int,
        norm: float,
        intercept: bool,
        prepared: Coordinates | None = None,
        weights: Floats | None = None,
    ) -> FitRecords:
        """Scale rows into the norm, each on its own; how many were too long stays private."""
        rows = Scaling(norm, intercept, prepared).rows(X)
        rows.flags.writeable = False
        return cls(rows, codes, classes, norm, weights)

    @property
    def problems(self) -> int:
        """Binary problems, or the one of regression."""
        return 1 if self.classes in (0, 2) else self.classes

    def labels(self, problem: int) -> npt.NDArray[Any]:
        """0 or 1 for each record of one problem; the targets of a regression."""
        if self.classes == 0:
            return self.codes
        return np.asarray(self.codes == (1 if self.classes == 2 else problem), dtype=np.int64)

    def dataset(self, problem: int | None) -> Dataset:
        """One problem, for the engine; None: all classes at once."""
        labels = self.codes if problem is None else self.labels(problem)
        return Dataset(self.X, labels, self.norm, "fit", weights=self.weights)

    def risk(self, problem: int, task: Task, l2: float) -> Risk:
        """One problem's regularised mean loss, for methods that look at all records at once."""
        labels = self.labels(problem).astype(self.X.dtype)
        return Risk(self.X, labels, task.kind, task.huber_width, l2, self.weights)


@dataclass(frozen=True)
class Randomness:
    """What one fit draws from.

    Parameters
    ----------
    orders
        Permutations and Poisson draws. Repeatable within the fit, so that all classes see the
        same batches; its root is recorded nowhere.
    released
        Noise that leaves with the weights.
    steps
        Noise inside an iterative training.
    """

    orders: Streams
    released: Noise
    steps: Noise

    @classmethod
    def of_system(cls) -> Randomness:
        """Fresh from the operating system: what a guarantee needs."""
        return cls(SeededStreams(secrets.token_hex(32)), OsGaussian(), CryptoNormals())

    @classmethod
    def seeded(cls, seed: int) -> Randomness:
        """Repeatable, for experiments; protects nobody."""
        noise = SeededNoise(seed)
        return cls(SeededStreams(f"estimator {seed}"), noise, noise)


@dataclass
class ScaledNoise:
    """Noise for runs trained together, each with a multiple of its own.

    Run `seed` of problem `problem` gets `scales[seed]` times what `source` gives.
    """

    source: Noise
    scales: Mapping[int, float]
    problem: int
    repeatable: bool

    def stream(self, *name: Name) -> _ScaledStream:
        """Open the noise of one run; the last part of its name is its number."""
        run = name[-1]
        assert isinstance(run, int)
        return _ScaledStream(self.source.stream(*name, self.problem), self.scales[run])


@dataclass(frozen=True)
class _ScaledStream:
    inner: NoiseStream
    scale: float

    def standard_normal(self, size: tuple[int, int]) -> Floats:
        return np.asarray(self.scale * self.inner.standard_normal(size))


# What it costs ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PlannedFit:
    """A plan, and the records it is for; everything public is settled, nothing is trained.

    Parameters
    ----------
    plan
        What will be done, and what it proves.
    records, start
        Rows within their norm, and initial weights.
    classes
        Labels, in the order of the records' class numbers.
    X
        The rows as they were given.
    not_covered
        What was read off the records beside the training, in words.
    why_none
        Why nothing can be promised whatever the plan proves; empty if something can.
    digest
        Of all records, where rows were drawn from them, which differs from fit to fit: by it a
        ledger tells that the data are the same.
    coordinates
        How rows are prepared, as far as that is public. Where a centre or a scale is still to
        come, `records` are rows within their bounds and norm, without a constant.
    asked
        Which centre and scale that is, "private", "public" or "none"; None without any.
    """

    plan: FitPlan
    records: FitRecords
    start: Floats
    classes: Array
    X: Array
    not_covered: tuple[str, ...] = ()
    why_none: str = ""
    digest: str = ""
    coordinates: Coordinates | None = None
    asked: Preparation | None = None

    @property
    def proof(self) -> Proof | None:
        """The plan's, with what it does not cover."""
        proof = self.plan.proof
        return None if proof is None else replace(proof, not_covered=self.not_covered)

    def payment(self, model: object) -> Payment:
        """Ask the ledger that is open, if one is, whether the budget of this fit is left."""
        what = f"{type(model).__name__}, method {self.plan.method}"
        return Payment.of(model, lambda: self.charge(what))

    def charge(self, what: str) -> Charge:
        """What a ledger is asked for; refused if nothing is promised, since no budget covers it."""
        task = self.plan.task
        if self.proof is None or self.why_none:
            why = self.why_none or "it adds no noise"
            raise ReleaseRefused(f"A ledger is open and this fit has no guarantee: {why}.")
        return Charge(
            profile=self.proof.profile,
            epsilon=self.proof.guarantee(task.delta).epsilon,
            delta=task.delta,
            rows_per_person=task.rows_per_person,
            what=what,
            fingerprint=self.digest or self.content_digest(),
            salt=new_salt(),
        )

    def content_digest(self) -> str:
        """SHA-256 of the rows and labels, whatever the settings: stays inside."""
        return content_digest(self.X, self.records.codes, self.classes)


def content_digest(X: Array, codes: npt.NDArray[Any], classes: Array) -> str:
    """SHA-256 of rows and labels: stays inside."""
    labels = [str(label) for label in classes]
    digest = hashlib.sha256(repr((X.dtype.str, X.shape, labels)).encode())
    digest.update(np.ascontiguousarray(X).data)
    digest.update(np.ascontiguousarray(codes).data)
    return digest.hexdigest()


SENT = "_sent_from_an_open_ledger"
"""Attribute of an estimator that was pickled while a ledger was open."""


@dataclass(frozen=True)
class Payment:
    """What one fit pays to the ledger that is open; without one, nothing.

    `line` is the id of the entry that will be made, so that a certificate can name it before.
    """

    ledger: Ledger | None = None
    charge: Charge | None = None
    line: str = field(default_factory=new_id)

    @classmethod
    def of(cls, model: object, charge: Callable[[], Charge]) -> Payment:
        """Ask the open ledger for a charge. Nothing is recorded yet.

        Raises
        ------
        BudgetExceeded
            If too little is left.
        LedgerError
            If a ledger is open elsewhere: in another thread, in the process that started this one,
            or where `model` was sent from, as to a pool of processes that was started before.
        """
        ledger = current()
        if ledger is None and hasattr(model, SENT):
            sent = "This estimator was sent here from a process that has a ledger open."
            raise LedgerError(f"{sent} Open it here too, around fit.")
        if ledger is None:
            return cls()
        wanted = charge()
        ledger.check(wanted)
        return cls(ledger, wanted)

    def certificate_fields(self) -> dict[str, Any]:
        """What the ledger adds to a certificate."""
        if self.ledger is None or self.charge is None:
            return {}
        content, salt = self.charge.fingerprint, self.charge.salt
        fingerprint = None if content is None or salt is None else salted(content, salt)
        facts = DatasetFacts(name=self.ledger.dataset, fingerprint=fingerprint)
        return {"dataset": facts, "ledger_entry": self.line}

    def record(self) -> Entry | None:
        """Spend the budget for good; None without a ledger."""
        if self.ledger is None or self.charge is None:
            return None
        return self.ledger.record(self.charge, self.line)

    @contextmanager
    def recorded(self) -> Iterator[Entry | None]:
        """Spend the budget for good, then hand over what the body makes.

        The record comes first: a crash in between leaves the budget spent and no model outside.
        """
        entry = self.record()
        try:
            yield entry
        except BaseException as error:
            if entry is not None:
                mark_entry(entry.failed, type(error).__name__)
                error.add_note(entry.spent)
            raise
        if entry is not None:
            mark_entry(entry.returned)


def mark_entry(mark: Callable[..., None], *what: str) -> None:
    """Tell the ledger what became of an entry; if that fails, the budget is spent all the same."""
    try:
        mark(*what)
    except LedgerError as error:
        told = f"The release is recorded, but not what became of it: {error}"
        warnings.warn(told, stacklevel=4)
