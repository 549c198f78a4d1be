"""`Door`: a fit asks the open ledger before it trains, and is recorded before its model leaves."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sordino.estimators.job import Job
from sordino.mechanisms.fingerprint import salted
from sordino.mechanisms.ledger import Charge, Entry, Ledger, LedgerError, current, new_id

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
        return Papers(self.ledger.dataset, self._fingerprint(self.charge), self.line)

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

    @staticmethod
    def _fingerprint(charge: Charge) -> str | None:
        if charge.fingerprint is None or charge.salt is None:
            return None
        return salted(charge.fingerprint, charge.salt)


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
