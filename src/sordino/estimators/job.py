"""`Job`: one fit with everything public settled, before anything is trained. `Door`: its way out.

A fit asks the open ledger before it trains, and is recorded before its model leaves.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sordino.estimators.records import FitRecords
from sordino.estimators.task import FitPlan
from sordino.proofs import Proof
from sordino.release.certificate import new_salt, salted
from sordino.release.ledger import Charge, Entry, Ledger, LedgerError, current, new_id
from sordino.release.mechanism import ReleaseRefused
from sordino.types import Array


@dataclass(frozen=True, eq=False)
class Job:
    """A plan, and the records it is for.

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
    """

    plan: FitPlan
    records: FitRecords
    start: npt.NDArray[np.float64]
    classes: Array
    X: Array
    not_covered: tuple[str, ...] = ()
    why_none: str = ""

    @property
    def proof(self) -> Proof | None:
        """The plan's, with what it does not cover."""
        proof = self.plan.proof
        return None if proof is None else replace(proof, not_covered=self.not_covered)

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
            fingerprint=self.content_digest(),
            salt=new_salt(),
        )

    def content_digest(self) -> str:
        """SHA-256 of the rows and labels, whatever the settings: stays inside."""
        digest = hashlib.sha256()
        X, codes = self.X, self.records.codes
        digest.update(repr((X.dtype.str, X.shape, [str(label) for label in self.classes])).encode())
        digest.update(np.ascontiguousarray(X).data)
        digest.update(np.ascontiguousarray(codes).data)
        return digest.hexdigest()


SENT = "_sent_from_an_open_ledger"
"""Attribute of an estimator that was pickled while a ledger was open."""


@dataclass(frozen=True)
class Papers:
    """What a ledger adds to a certificate; empty without one.

    `line` is the id of the entry, which may not be recorded yet.
    """

    dataset: str | None = None
    fingerprint: str | None = None
    line: str | None = None


@dataclass(frozen=True)
class Door:
    """The way out of one fit. Without a ledger it stands open.

    `line` is the id of the entry that will be made, so that papers can name it before.
    """

    ledger: Ledger | None
    charge: Charge | None
    line: str = field(default_factory=new_id)

    @classmethod
    def of(cls, job: Job, model: object) -> Door:
        """Ask the ledger that is open, if one is, whether the job's budget is left."""
        ledger = ledger_of(model)
        if ledger is None:
            return cls(None, None)
        return cls.asked(ledger, job.charge(f"{type(model).__name__}, method {job.plan.method}"))

    @classmethod
    def asked(cls, ledger: Ledger, charge: Charge) -> Door:
        """The same for a charge that is known already.

        Raises
        ------
        BudgetExceeded
            If too little is left. Nothing is recorded yet.
        """
        ledger.check(charge)
        return cls(ledger, charge)

    def papers(self) -> Papers:
        """What the ledger will add to the certificate."""
        if self.ledger is None or self.charge is None:
            return Papers()
        content, salt = self.charge.fingerprint, self.charge.salt
        fingerprint = None if content is None or salt is None else salted(content, salt)
        return Papers(self.ledger.dataset, fingerprint, self.line)

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
        if entry is None:
            yield None
            return
        try:
            yield entry
        except BaseException as error:
            tell(entry.failed, type(error).__name__)
            error.add_note(entry.spent)
            raise
        tell(entry.returned)


def ledger_of(model: object) -> Ledger | None:
    """The ledger that a fit of this estimator is charged to, if one is open.

    Raises
    ------
    LedgerError
        If one is open elsewhere: in another thread, in the process that started this one, or where
        the estimator was sent from, as to a pool of processes that was started before.
    """
    ledger = current()
    if ledger is None and hasattr(model, SENT):
        raise LedgerError(
            "This estimator was sent here from a process that has a ledger open, and a release "
            "made here would not be charged to it. Open it here too: with Ledger(...) around fit, "
            "in the function that the pool runs."
        )
    return ledger


def tell(mark: Callable[..., None], *what: str) -> None:
    """Tell the ledger what became of an entry; if that fails, the budget is spent all the same."""
    try:
        mark(*what)
    except LedgerError as error:
        told = f"The release is recorded, but not what became of it: {error}"
        warnings.warn(told, stacklevel=4)
