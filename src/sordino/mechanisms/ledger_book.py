"""`Book`: a ledger's file with its seal and with what was seen of it; what goes back is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from sordino.mechanisms import ledger_seal
from sordino.mechanisms.ledger_file import Answer, LedgerError, LedgerFile, refuse
from sordino.mechanisms.ledger_history import SEALED, Event, History
from sordino.mechanisms.ledger_rows import Rows
from sordino.mechanisms.ledger_seal import START, Head, Seal, refuse_older, seal_path


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
        seal = ledger_seal.read(self.file)
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

    def read(self, work: Callable[[Rows, History], Answer]) -> Answer:
        """Run `work` on one state of the ledger, which holds all that was seen of it before."""
        while True:
            # Both before the transaction begins: what it sees is at least as far.
            seen, seal = self._seen, ledger_seal.read(self.file)

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
                if ledger_seal.read(self.file) == seal:
                    raise  # else somebody sealed it between the two looks

    def write(self, work: Callable[[Rows, History], Answer]) -> Answer:
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

        def within(on: sqlite3.Connection) -> tuple[Answer, Rows, History]:
            seal = ledger_seal.read(self.file)
            history = History(on, self.path, seal)
            rows = self._rows(on, history, self._seen)
            if not history.begun:
                history.begin()
            answer = work(rows, history)
            if seal is None or history.head != seal.head:
                # The key comes before what it authenticates. And a seal that cannot be replaced
                # is found out now: afterwards the budget would be spent for nothing.
                ledger_seal.write(self.file, history.seal)
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

        def within(on: sqlite3.Connection) -> tuple[Rows, History]:
            history = History(on, self.path, Seal.new(), anew=True)
            rows = self._rows(on, history, None)
            if not history.begun:
                history.begin()
            for budget in rows.budgets():
                rows.lines(budget.dataset)  # which checks them
            ledger_seal.write(self.file, history.seal)
            return rows, history

        rows, history = self.file.transact(within, writes=True)
        self._remember(rows, history)
        self._seal(history.head)
        return history.events[-1]

    def _seal(self, head: Head) -> None:
        """Write down how far it has come. Under the lock: two that do must not cross."""

        def within(on: sqlite3.Connection) -> None:
            history = History(on, self.path, ledger_seal.read(self.file))
            if not history.extends(head):
                refuse_older(self.path, history.head.count, head, "this process wrote")
            ledger_seal.write(self.file, Seal(history.seal.key, history.head))

        try:
            self.file.transact(within, writes=True)
        except LedgerError as error:
            raise NotSealed(f"It is in the ledger, which could not be sealed: {error}") from error

    def _rows(self, on: sqlite3.Connection, history: History, seen: Head | None) -> Rows:
        rows = Rows(on, self.path, history)
        history.check_tables()
        if self.identity not in (None, rows.identity):
            hint = "Put the file back in which the budget was: this one knows nothing of it."
            refuse(self.path, "to be the file that it was before", hint)
        if seen is not None and not history.extends(seen):
            refuse_older(self.path, history.head.count, seen, "this process has seen")
        return rows

    def _remember(self, rows: Rows, history: History) -> None:
        self.identity = rows.identity
        if history.begun and (self._seen is None or self._seen.count < history.head.count):
            self._seen = history.head


def newly_sealed(history: History) -> Event | None:
    """What the history says of a seal that this transaction gives to an older ledger."""
    if history.seal.head != START:
        return None
    return next((event for event in history.events if event.kind == SEALED), None)
