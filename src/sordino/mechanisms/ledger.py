"""The ledger: a budget per named dataset, and every release written down before the model leaves.

```python
with Ledger("ledger.db", dataset="patients-2026", epsilon=2, delta=1e-6):
    model.fit(X, y)
```

A release is recorded, on the disk, before anybody gets the model, or its directory its name. A
crash in between leaves the budget spent and no model, never the reverse; nothing is ever given
back. Processes on one machine may share a ledger: of two that race for the last of a budget, one
wins.

Beside `FILE` lies `FILE.seal`, with a key and how far the ledger had come: an older copy put in
its place is refused, and so is one that was edited or cut. While a `Ledger` lives it also remembers
what it saw. What nobody can see: an older copy of *both* files, put back while nothing has the
ledger open, unless its head (`sordino ledger head`) was noted elsewhere; and whoever may write both
files can forge both. SQLite's write-ahead log needs a local disk, as the machines of a network file
system do not see each other's locks; `FILE-wal` and `FILE-shm`, where they exist, belong to it.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import NoReturn, Self

from sordino import _check
from sordino.accounting.total import Total
from sordino.mechanisms import ledger_open
from sordino.mechanisms.ledger_book import Book, NotSealed, newly_sealed
from sordino.mechanisms.ledger_file import Answer, LedgerError, LedgerFile, refuse
from sordino.mechanisms.ledger_history import Event, History
from sordino.mechanisms.ledger_open import current
from sordino.mechanisms.ledger_rows import BY_HAND, Entry, Line, Rows, new_id
from sordino.mechanisms.ledger_seal import Head, LedgerWentBack, refuse_older, seal_path
from sordino.mechanisms.ledger_status import BudgetExceeded, NoRoom, Status, admit, status_of
from sordino.mechanisms.ledger_terms import (
    Budget,
    Charge,
    check_same,
    dataset_name,
    relation_of,
)
from sordino.privacy import Relation

__all__ = [
    "BY_HAND",
    "Budget",
    "BudgetExceeded",
    "Charge",
    "Entry",
    "Event",
    "FingerprintWarning",
    "Head",
    "Ledger",
    "LedgerError",
    "LedgerWentBack",
    "Line",
    "SealedWarning",
    "Status",
    "current",
    "new_id",
]


class FingerprintWarning(UserWarning):
    """Data known under another name, or other data under a known name."""


class SealedWarning(UserWarning):
    """A ledger of an older sordino that has a seal from now on."""


class Ledger:
    """The budget of one named dataset in a ledger file.

    Used in a `with` block it is the ledger that every private `fit` in the block is charged to. A
    thread, or a process started by spawning, opens it itself; a fit there is refused otherwise.

    Parameters
    ----------
    path
        The SQLite file; its directory must exist, on a local disk.
    dataset
        Your name for the data. It stays the same when rows come or go.
    epsilon, delta
        The budget of all releases together. The first use writes it down, any later one must say
        the same or leave both out.
    relation, max_rows_per_person
        How every release must be accounted: guarantees for others do not add up to one number.
    as_you_go
        Let the cost of a release be chosen after looking at earlier ones. Fewer rules of
        composition hold then, so the total may be larger.
    wait
        Seconds to wait for other processes.

    Raises
    ------
    LedgerError
        When it is used, if the file or the budget in it is not what is asked for.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        dataset: str,
        epsilon: float | None = None,
        delta: float | None = None,
        relation: Relation | str = Relation.REPLACE_ONE,
        max_rows_per_person: int = 1,
        as_you_go: bool = False,
        wait: float = 60.0,
    ) -> None:
        self._book = Book(LedgerFile(path, wait))
        self.path = self._book.path
        self.dataset = dataset_name(dataset)
        if (epsilon is None) != (delta is None):
            missing = "epsilon" if epsilon is None else "delta"
            hint = "Pass both, or neither to use the budget on file."
            _check.fail(missing, None, "to be given where the other is", hint)
        # Any numbers pass the checks where the file has the real ones.
        numbers = (1.0, 0.0) if epsilon is None or delta is None else (epsilon, delta)
        of = relation_of(relation)
        self._asked = Budget(self.dataset, *numbers, of, max_rows_per_person, as_you_go)
        self._may_create = epsilon is not None
        self._known = False
        """Whether the budget was seen in the file."""

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, dataset={self.dataset!r})"

    @staticmethod
    def datasets(path: str | os.PathLike[str], *, wait: float = 60.0) -> list[Budget]:
        """All budgets in a file."""
        return _there(path, wait).read(lambda rows, history: rows.budgets())

    @staticmethod
    def history(path: str | os.PathLike[str], *, wait: float = 60.0) -> list[Event]:
        """Every row that was written to a file; empty if an older sordino made it."""
        return _there(path, wait).read(lambda rows, history: history.events)

    @staticmethod
    def verify(
        path: str | os.PathLike[str], head: Head | None = None, *, wait: float = 60.0
    ) -> Head | None:
        """Check every row, and that the ledger went on from `head`, if one was noted; its head now.

        None if an older sordino made it and nothing was written since: then it has no head.

        Raises
        ------
        LedgerWentBack
            If what it held when `head` was noted is not there any more.
        LedgerError
            If rows were changed.
        """
        book = _there(path, wait)

        def work(rows: Rows, history: History) -> Head | None:
            for budget in rows.budgets():
                rows.lines(budget.dataset)
            if head is not None and not history.extends(head):
                refuse_older(book.path, history.head.count, head, "the noted head tells")
            return history.head if history.begun else None

        return book.read(work)

    @staticmethod
    def reseal(path: str | os.PathLike[str], *, wait: float = 60.0) -> Event | None:
        """Take a ledger that lost its seal, or an older copy, as it is; the row that says so.

        None if it is in order: nothing is changed then.
        """
        return _there(path, wait).reseal()

    def create(self) -> bool:
        """Make the file and the budget if they are not there; whether the budget is new."""
        self._make_file()

        def work(rows: Rows, history: History) -> tuple[bool, list[Warning]]:
            new = rows.budget(self.dataset) is None
            self._budget(rows, create=True)
            return new, self._sealed(history)

        return self._written(work)

    def amend(self) -> Budget:
        """Give the budget on file the settings of this ledger; what it was before.

        The history keeps both. Needs `epsilon` and `delta`.

        Raises
        ------
        LedgerError
            If anything was recorded under it, whatever became of that.
        """
        if not self._may_create:
            _check.fail("epsilon", None, "to be given", "Pass the settings it should have.")
        self._book.check_there()

        def work(rows: Rows, history: History) -> tuple[Budget, list[Warning]]:
            found = rows.budget(self.dataset)
            if found is None:
                self._refuse_unknown(rows)
            if many := len(rows.lines(self.dataset)):
                condition = f"to have recorded nothing under {self.dataset!r}, and it has {many:,}"
                hint = "Its budget stays as it is: what was released was promised under it."
                refuse(self.path, f"{condition} release{'s' * (many > 1)}", hint)
            if found != self._asked:
                rows.amend_budget(self._asked, found)
            return found, self._sealed(history)

        return self._written(work)

    def _written(self, work: Callable[[Rows, History], tuple[Answer, list[Warning]]]) -> Answer:
        """Do it in the ledger, and warn its caller's caller of what is found on the way."""
        answer, told = self._book.write(work)
        self._known = True
        for each in told:
            warnings.warn(each, stacklevel=3)
        return answer

    def check(self, charge: Charge) -> Total:
        """What the total would be with this release; nothing is recorded.

        Raises
        ------
        BudgetExceeded
            If there is no room for it.
        """
        try:
            return admit(*self._read(), charge)
        except NoRoom as no_room:
            raise no_room.explained() from None

    def record(self, charge: Charge, line: str | None = None) -> Entry:
        """Write a release down before it happens, if there is room for it.

        Parameters
        ----------
        charge
            What it costs.
        line
            The entry's id, by `new_id`, where papers name it that are written before; a new one if
            left out.

        Raises
        ------
        BudgetExceeded
            If there is none; nothing is changed.
        LedgerError
            If it cannot be written down. Its text says so if the budget is spent all the same.
        """
        self._make_file()
        line = new_id() if line is None else line

        def work(rows: Rows, history: History) -> tuple[Total, list[Warning]]:
            budget = self._budget(rows, create=True)
            lines = rows.lines(self.dataset)
            # Others wait meanwhile: any rule that proves enough will do.
            would_be = admit(budget, lines, charge, enough=budget.epsilon)
            doubts = self._sealed(history) + self._doubts(rows, charge)
            rows.add_line(self.dataset, line, charge)
            return would_be, doubts

        try:
            spent, doubts = self._book.write(work)
        except NoRoom as no_room:  # what would fit is computed when nobody waits any more
            raise no_room.explained() from None
        except NotSealed as error:
            entry = Entry(self.path, line, status_of(*self._read()).spent, self._book.file.wait)
            with suppress(LedgerError):
                entry.failed("could not be sealed")
            raise NotSealed(f"{error} {entry.spent} Nothing was released.") from error
        self._known = True
        entry = Entry(self.path, line, spent, self._book.file.wait)
        try:
            for doubt in doubts:  # after it is on the disk: a warning may be an error to the caller
                warnings.warn(doubt, stacklevel=2)
        except (FingerprintWarning, SealedWarning) as error:
            entry.failed(f"{type(error).__name__} was an error")
            error.add_note(entry.spent)
            raise
        return entry

    def entry(self, line: str) -> Entry | None:
        """The entry of this id, if it was recorded: what became of it can still be said."""
        status = self.status()
        known = any(each.id == line for each in status.entries)
        return Entry(self.path, line, status.spent, self._book.file.wait) if known else None

    def status(self) -> Status:
        """The budget, what was spent of it and by which releases, and what is left."""
        return status_of(*self._read())

    def __enter__(self) -> Self:
        self.create() if self._may_create else self._read()
        ledger_open.enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        ledger_open.leave(self)

    def _make_file(self) -> None:
        # A ledger that was there and is gone is not opened anew, as if nothing had been spent.
        if self._may_create and self._book.identity is None and not self._book.exists():
            self._book.file.create()
        self._book.check_there()

    def _read(self) -> tuple[Budget, list[Line]]:
        """The budget and its lines, as they would be: nothing is made that is not there."""
        if self._may_create and self._book.identity is None and not self._book.exists():
            return self._asked, []
        self._book.check_there()

        def work(rows: Rows, history: History) -> tuple[Budget, list[Line]]:
            budget = self._budget(rows, create=False)
            self._known = rows.budget(self.dataset) is not None
            return budget, rows.lines(self.dataset) if self._known else []

        return self._book.read(work)

    def _budget(self, rows: Rows, *, create: bool) -> Budget:
        found = rows.budget(self.dataset)
        if found is None:
            if not self._may_create or self._known:
                self._refuse_unknown(rows)
            if create:
                rows.add_budget(self._asked)
            return self._asked
        check_same(self.path, self._asked, found, complete=self._may_create)
        return found

    def _refuse_unknown(self, rows: Rows) -> NoReturn:
        refuse(self.path, f"to have a budget for {self.dataset!r}", _other_names(self, rows))

    def _sealed(self, history: History) -> list[Warning]:
        """That an older ledger has a seal from now on, if it is so."""
        if newly_sealed(history) is None:
            return []
        name = seal_path(self.path).name
        said = (
            f"{self.path} was made by an older sordino, which could not tell an old copy of it: "
            f"it has a seal now, {name}. Keep the two together."
        )
        return [SealedWarning(said)]

    def _doubts(self, rows: Rows, charge: Charge) -> list[Warning]:
        """What is odd about the data of this name, as sentences."""
        if charge.fingerprint is None:
            return []
        keyed, doubts = rows.keyed(charge.fingerprint), list[str]()
        if others := rows.other_names(self.dataset, keyed):
            named = ", ".join(repr(name) for name in others)
            doubts.append(
                f"The data released from as {self.dataset!r} were also released from as {named}: "
                "what one person loses is the sum of both budgets; use one name for one dataset."
            )
        if rows.knows_other_data(self.dataset, keyed):
            doubts.append(
                f"The data under {self.dataset!r} are not those of its earlier releases: right if "
                "rows came or went, if columns or bounds changed, or if `assess` kept a part to "
                "score with; but other people need a name and a budget of their own."
            )
        return [FingerprintWarning(doubt) for doubt in doubts]


def _other_names(ledger: Ledger, rows: Rows) -> str:
    known = [budget.dataset for budget in rows.budgets()]
    near = difflib.get_close_matches(ledger.dataset, known, n=1)
    meant = f"Did you mean {near[0]!r}? " if near else ""
    names = ", ".join(repr(name) for name in known) or "none"
    return (
        f"{meant}It has {names}. A new name is a new budget: open one (sordino ledger init, or "
        "epsilon= and delta= of the ledger) for other people's data only."
    )


def _there(path: str | os.PathLike[str], wait: float) -> Book:
    """A ledger that exists."""
    book = Book(LedgerFile(path, wait))
    book.check_there()
    return book
