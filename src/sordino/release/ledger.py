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
import math
import os
import sqlite3
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn, Self

from sordino import checks
from sordino.accounting import gaussian
from sordino.accounting.compose import Part, Total, largest_gaussian, total
from sordino.privacy import Relation, rounded
from sordino.release import ledger_open
from sordino.release.ledger_file import Answer, LedgerError, LedgerFile, refuse
from sordino.release.ledger_history import (
    SEALED,
    START,
    Event,
    Head,
    History,
    LedgerWentBack,
    Seal,
    read_seal,
    refuse_older,
    seal_path,
    write_seal,
)
from sordino.release.ledger_open import current
from sordino.release.ledger_rows import BY_HAND, Entry, LedgerRows, Line, new_id
from sordino.release.ledger_terms import (
    Budget,
    Charge,
    check_same,
    check_unit,
    dataset_name,
    relation_of,
)
from sordino.release.mechanism import SLACK, ReleaseRefused

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


@dataclass(frozen=True)
class Status:
    """A budget, what was spent of it and by which releases, and what is left in words.

    `largest_mu` is the largest Gaussian release (of sensitivity over noise mu) that still fits.
    """

    budget: Budget
    spent: Total
    entries: tuple[Line, ...]
    largest_mu: float

    def after(self, charge: Charge) -> Status:
        """As it would be if this charge were recorded too; the entries are as they were."""
        parts = [*(line.part for line in self.entries), charge.part]
        return status_of(self.budget, self.entries, parts)

    @property
    def epsilon_left(self) -> float:
        """The budget's epsilon less the total's, both at the budget's delta."""
        return max(0.0, self.budget.epsilon - self.spent.epsilon)

    @property
    def largest_epsilon(self) -> float:
        """Epsilon, at the budget's delta, of the largest Gaussian release that still fits."""
        return gaussian.epsilon(self.largest_mu, self.budget.delta)

    @property
    def left(self) -> str:
        """What still fits, in words."""
        budget, delta = self.budget, f"{self.budget.delta:g}"
        words = (
            f"epsilon {rounded(self.epsilon_left, up=False)} of {budget.epsilon:g} at "
            f"delta={delta}, if a release is known by its epsilon alone"
        )
        if budget.delta == 0:
            return f"{words}; no Gaussian release fits a budget of delta=0"
        if self.largest_mu == 0:
            return f"{words}; no Gaussian release fits any more"
        return (
            f"{words}; one whose noise is Gaussian (noisy-gd, output-gd) may have up to "
            f"epsilon={rounded(self.largest_epsilon, up=False)} at delta={delta} "
            f"(mu={rounded(self.largest_mu, up=False)})"
        )


def status_of(budget: Budget, lines: Sequence[Line], parts: Sequence[Part] | None = None) -> Status:
    """What these releases spent, and what is left."""
    parts = [line.part for line in lines] if parts is None else parts
    spent = total(parts, budget.delta, as_you_go=budget.as_you_go)
    room = 0.0
    if budget.delta > 0:  # no Gaussian release fits a pure budget
        room = largest_gaussian(parts, budget.epsilon, budget.delta, as_you_go=budget.as_you_go)
    return Status(budget, spent, tuple(lines), room)


class BudgetExceeded(ReleaseRefused):
    """A release for which there is no room; nothing was recorded.

    Attributes
    ----------
    dataset, asked
        Whose budget, and the charge.
    spent, would_be
        The total so far, and what it would have become.
    left
        What still fits, in words.
    """

    dataset: str
    asked: Charge
    spent: Total
    would_be: Total
    left: str


class NoRoom(Exception):
    """A charge that does not fit; what is left is not computed yet."""

    def __init__(self, budget: Budget, lines: list[Line], charge: Charge, would_be: Total) -> None:
        self.budget, self.lines, self.charge, self.would_be = budget, lines, charge, would_be

    def explained(self) -> BudgetExceeded:
        """The same for whoever asked, with what is left."""
        budget, would_be = self.budget, self.would_be
        status = status_of(budget, self.lines)
        error = BudgetExceeded(
            f"Expected the releases from {budget.dataset!r} to cost at most "
            f"epsilon={budget.epsilon:g} at delta={budget.delta:g}, and with this one it would be "
            f"{rounded(would_be.epsilon)} ({would_be.rule}). Nothing was recorded. "
            f"Left: {status.left}."
        )
        error.dataset, error.asked, error.spent = budget.dataset, self.charge, status.spent
        error.would_be, error.left = would_be, status.left
        return error


def admit(budget: Budget, lines: list[Line], charge: Charge, enough: float | None = None) -> Total:
    """The total with this charge, if the budget allows it; else `NoRoom`."""
    check_unit(budget, charge)
    if math.isinf(charge.epsilon):
        would_be = Total(math.inf, budget.delta, "a release that promises nothing", True)
    else:
        parts = [*(line.part for line in lines), charge.part]
        would_be = total(parts, budget.delta, as_you_go=budget.as_you_go, enough=enough)
    if not would_be.epsilon <= budget.epsilon * (1 + SLACK):
        raise NoRoom(budget, lines, charge, would_be)
    return would_be


class NotSealed(LedgerError):
    """What was asked for is in the ledger, and its seal does not say so until the next write."""


class Book:
    """A ledger that remembers how far it had come while this object lives.

    Parameters
    ----------
    file
        Where it lies.
    """

    def __init__(self, file: LedgerFile) -> None:
        self.file = file
        self.path = file.path
        self.identity: str | None = None
        """Which file it is; None before the first use."""
        self._seen: Head | None = None

    def exists(self) -> bool:
        """Whether there is a ledger; one that is gone from beside its seal is refused."""
        if self.file.exists():
            return True
        seal = read_seal(self.file)
        found = self.file.exists()  # another process may have made both between the two looks
        if not found and seal is not None and seal.head.count:
            name = seal_path(self.path).name
            hint = f"Put it back: it knows what was spent. If nothing ever was, delete {name}, too."
            refuse(self.path, f"to be there, as {name} is", hint)
        return found

    def check_there(self) -> None:
        """Refuse a ledger that is not there."""
        if not self.exists():
            command = f"sordino ledger init {self.path} --dataset NAME --epsilon 2 --delta 1e-6"
            refuse(self.path, "to be there", f"If the path is right, create it: {command}.")

    def read(self, work: Callable[[LedgerRows, History], Answer]) -> Answer:
        """Run `work` on one state of the ledger, which holds all that was seen of it before."""
        while True:
            # Both before the transaction begins: what it sees is at least as far.
            seen, seal = self._seen, read_seal(self.file)

            def within(
                on: sqlite3.Connection, seen: Head | None = seen, seal: Seal | None = seal
            ) -> Answer:
                history = History(on, self.path, seal)
                answer = work(rows := self._rows(on, history, seen), history)
                self._remember(rows, history)
                return answer

            try:
                return self.file.transact(within, writes=False)
            except LedgerError:
                if read_seal(self.file) == seal:
                    raise  # else somebody sealed it between the two looks

    def write(self, work: Callable[[LedgerRows, History], Answer]) -> Answer:
        """The same, and what `work` adds is on the disk afterwards and sealed, or nothing is.

        Raises
        ------
        LedgerWentBack
            If the ledger holds less than was seen of it, or than its seal says.
        NotSealed
            If the disk took the rows and not the seal.
        LedgerError
            For whatever else is wrong; nothing was written.
        """

        def within(on: sqlite3.Connection) -> tuple[Answer, LedgerRows, History]:
            seal = read_seal(self.file)
            history = History(on, self.path, seal)
            rows = self._rows(on, history, self._seen)
            if not history.begun:
                history.begin()
            answer = work(rows, history)
            if seal is None or history.head != seal.head:
                # The key comes before what it authenticates. And a seal that cannot be replaced
                # is found out now: afterwards the budget would be spent for nothing.
                write_seal(self.file, history.seal)
            return answer, rows, history

        answer, rows, history = self.file.transact(within, writes=True)
        self._remember(rows, history)  # not before it is committed
        if history.head != history.seal.head:
            self._seal(history.head)
        return answer

    def reseal(self) -> Event | None:
        """Take the ledger as it is under a new seal; what its history says of that, if it was so.

        A ledger that is in order under its seal is left alone.
        """
        self.check_there()
        try:
            return self.write(lambda rows, history: newly_sealed(history))
        except LedgerError:
            self.identity = self._seen = None  # what was seen before does not count any more

        def within(on: sqlite3.Connection) -> tuple[LedgerRows, History]:
            history = History(on, self.path, Seal.new(), anew=True)
            rows = self._rows(on, history, None)
            if not history.begun:
                history.begin()
            for budget in rows.budgets():
                rows.lines(budget.dataset)  # which checks them
            write_seal(self.file, history.seal)
            return rows, history

        rows, history = self.file.transact(within, writes=True)
        self._remember(rows, history)
        self._seal(history.head)
        return history.events[-1]

    def _seal(self, head: Head) -> None:
        """Write down how far it has come. Under the lock: two that do must not cross."""

        def within(on: sqlite3.Connection) -> None:
            history = History(on, self.path, read_seal(self.file))
            if not history.extends(head):
                refuse_older(self.path, history.head.count, head, "this process wrote")
            write_seal(self.file, Seal(history.seal.key, history.head))

        try:
            self.file.transact(within, writes=True)
        except LedgerError as error:
            raise NotSealed(f"It is in the ledger, which could not be sealed: {error}") from error

    def _rows(self, on: sqlite3.Connection, history: History, seen: Head | None) -> LedgerRows:
        rows = LedgerRows(on, self.path, history)
        history.check_tables()
        if self.identity not in (None, rows.identity):
            hint = "Put the file back in which the budget was: this one knows nothing of it."
            refuse(self.path, "to be the file that it was before", hint)
        if seen is not None and not history.extends(seen):
            refuse_older(self.path, history.head.count, seen, "this process has seen")
        return rows

    def _remember(self, rows: LedgerRows, history: History) -> None:
        self.identity = rows.identity
        if history.begun and (self._seen is None or self._seen.count < history.head.count):
            self._seen = history.head


def newly_sealed(history: History) -> Event | None:
    """What the history says of a seal that this transaction gives to an older ledger."""
    if history.seal.head != START:
        return None
    return next((event for event in history.events if event.kind == SEALED), None)


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
            checks.fail(missing, None, "to be given where the other is", hint)
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

        def work(rows: LedgerRows, history: History) -> Head | None:
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

        def work(rows: LedgerRows, history: History) -> tuple[bool, list[Warning]]:
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
            checks.fail("epsilon", None, "to be given", "Pass the settings it should have.")
        self._book.check_there()

        def work(rows: LedgerRows, history: History) -> tuple[Budget, list[Warning]]:
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

    def _written(
        self, work: Callable[[LedgerRows, History], tuple[Answer, list[Warning]]]
    ) -> Answer:
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

        def work(rows: LedgerRows, history: History) -> tuple[Total, list[Warning]]:
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

        def work(rows: LedgerRows, history: History) -> tuple[Budget, list[Line]]:
            budget = self._budget(rows, create=False)
            self._known = rows.budget(self.dataset) is not None
            return budget, rows.lines(self.dataset) if self._known else []

        return self._book.read(work)

    def _budget(self, rows: LedgerRows, *, create: bool) -> Budget:
        found = rows.budget(self.dataset)
        if found is None:
            if not self._may_create or self._known:
                self._refuse_unknown(rows)
            if create:
                rows.add_budget(self._asked)
            return self._asked
        check_same(self.path, self._asked, found, complete=self._may_create)
        return found

    def _refuse_unknown(self, rows: LedgerRows) -> NoReturn:
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

    def _doubts(self, rows: LedgerRows, charge: Charge) -> list[Warning]:
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


def _other_names(ledger: Ledger, rows: LedgerRows) -> str:
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
