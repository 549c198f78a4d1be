"""`Ledger`: the budget of one dataset; `Entry`: a release of it; which ledger is open here."""

from __future__ import annotations

import difflib
import os
import threading
import uuid
import warnings
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self, TypeVar

from sordino import checks
from sordino.accounting.compose import Total
from sordino.privacy import Relation
from sordino.release.ledger.budget import Budget, Charge, LedgerError, Line, Status, refuse
from sordino.release.ledger.file import LedgerFile, NotSealed, SealedWarning
from sordino.release.ledger.rows import Event, Head, LedgerRows

OPEN = "SORDINO_LEDGER_OPEN"
"""Set while a ledger is open: a process started meanwhile must not release without one."""

_Answer = TypeVar("_Answer")
_STACK: ContextVar[tuple[Ledger, ...]] = ContextVar("open ledgers, the innermost last", default=())


class FingerprintWarning(UserWarning):
    """Data known under another name, or other data under a known name."""


@dataclass(frozen=True)
class Entry:
    """A release that was recorded; say here what became of it. No answer gives budget back.

    `total` is what all releases from the dataset cost at most, this one included; `Ledger.status`
    may know a tighter rule.
    """

    path: Path
    id: str
    total: Total
    wait: float = field(default=60.0, repr=False)

    def returned(self) -> None:
        """The model was handed to the caller."""
        self._mark("returned", "")

    def written(self, where: str | os.PathLike[str]) -> None:
        """The model was written to a file or directory."""
        self._mark("written", os.fspath(where))

    def failed(self, why: str) -> None:
        """No model was handed out; ignored if one was."""
        self._mark("failed", str(why))

    @property
    def spent(self) -> str:
        """What whoever hears of a failure must know."""
        return f"The release is in the ledger (entry {self.id}), and its budget stays spent."

    def _mark(self, status: str, place: str) -> None:
        file = LedgerFile(self.path, self.wait)
        file.transact(
            lambda on: LedgerRows(on, file.path).mark(self.id, status, place), writes=True
        )


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

    Examples
    --------
    >>> import tempfile
    >>> place = tempfile.mkdtemp()
    >>> ledger = Ledger(f"{place}/ledger.db", dataset="patients", epsilon=2, delta=1e-6)
    >>> ledger.create()
    True
    >>> ledger.status().epsilon_left
    2.0
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
        self._file = LedgerFile(path, wait)
        self.path = self._file.path
        if (epsilon is None) != (delta is None):
            missing = "epsilon" if epsilon is None else "delta"
            checks.fail(missing, None, "to be given where the other is")
        # Any numbers pass the checks where the file has the real ones.
        numbers = (1.0, 0.0) if epsilon is None or delta is None else (epsilon, delta)
        if not isinstance(relation, Relation):
            names = [each.value for each in Relation]
            relation = Relation(checks.one_of("relation", relation, names))
        self._wanted = Budget(dataset, *numbers, relation, max_rows_per_person, as_you_go)
        self.dataset = self._wanted.dataset
        self._may_create = epsilon is not None
        self._known = False
        """Whether the budget was seen in the file."""

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, dataset={self.dataset!r})"

    @staticmethod
    def datasets(path: str | os.PathLike[str], *, wait: float = 60.0) -> list[Budget]:
        """All budgets in a file."""
        return LedgerFile(path, wait).read(lambda rows: rows.budgets())

    @staticmethod
    def history(path: str | os.PathLike[str], *, wait: float = 60.0) -> list[Event]:
        """Every row that was written to a file; empty if an older sordino made it."""
        return LedgerFile(path, wait).read(lambda rows: rows.events)

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

        def work(rows: LedgerRows) -> Head | None:
            for budget in rows.budgets():
                rows.lines(budget.dataset)
            if head is not None:
                rows.check_reaches(head, "the noted head tells")
            return rows.head if rows.begun else None

        return LedgerFile(path, wait).read(work)

    @staticmethod
    def reseal(path: str | os.PathLike[str], *, wait: float = 60.0) -> Event | None:
        """Take a ledger that lost its seal, or an older copy, as it is; the row that says so.

        None if it is in order: nothing is changed then.
        """
        return LedgerFile(path, wait).reseal()

    def create(self) -> bool:
        """Make the file and the budget if they are not there; whether the budget is new."""
        self._make_file()

        def work(rows: LedgerRows) -> bool:
            new = rows.budget(self.dataset) is None
            self._budget(rows, create=True)
            return new

        return self._write(work)

    def amend(self) -> Budget:
        """Give the budget on file the settings of this ledger; what it was before.

        The history keeps both. Needs `epsilon` and `delta`.

        Raises
        ------
        LedgerError
            If anything was recorded under it, whatever became of that.
        """
        if not self._may_create:
            checks.fail("epsilon", None, "to be given")

        def work(rows: LedgerRows) -> Budget:
            before = rows.budget(self.dataset)
            if before is None:
                self._refuse_unknown(rows)
            if many := len(rows.lines(self.dataset)):
                condition = f"to have recorded nothing under {self.dataset!r}, and it has {many:,}"
                refuse(self.path, condition, "")
            if before != self._wanted:
                rows.write_budget(self._wanted, before)
            return before

        return self._write(work)

    def _write(self, work: Callable[[LedgerRows], _Answer]) -> _Answer:
        answer, rows = self._file.write(work)
        self._known = True
        for doubt in rows.doubts:
            warnings.warn(doubt, stacklevel=3)
        return answer

    def check(self, charge: Charge) -> Total:
        """What the total would be with this release; nothing is recorded.

        Raises
        ------
        BudgetExceeded
            If there is no room for it.
        """
        budget, lines = self._read()
        return budget.admit(lines, charge)

    def record(self, charge: Charge, line: str | None = None) -> Entry:
        """Write a release down before it happens, if there is room for it.

        Parameters
        ----------
        charge
            What it costs.
        line
            The entry's id, by `new_id`, where a certificate names it before; a new one if left out.

        Raises
        ------
        BudgetExceeded
            If there is none; nothing is changed.
        LedgerError
            If it cannot be written down. Its text says so if the budget is spent all the same.
        """
        self._make_file()
        line = new_id() if line is None else line

        def work(rows: LedgerRows) -> Total:
            budget = self._budget(rows, create=True)
            # Others wait meanwhile: any rule that proves enough will do.
            would_be = budget.admit(rows.lines(self.dataset), charge, enough=budget.epsilon)
            self._doubt(rows, charge)
            rows.add_line(self.dataset, line, charge)
            return would_be

        try:
            spent, rows = self._file.write(work)
        except NotSealed as error:
            entry = Entry(self.path, line, self.status().spent, self._file.wait)
            with suppress(LedgerError):
                entry.failed("could not be sealed")
            raise NotSealed(f"{error} {entry.spent} Nothing was released.") from error
        self._known = True
        entry = Entry(self.path, line, spent, self._file.wait)
        try:
            for doubt in rows.doubts:  # now it is on the disk: a warning may be the caller's error
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
        return Entry(self.path, line, status.spent, self._file.wait) if known else None

    def status(self) -> Status:
        """The budget, what was spent of it and by which releases, and what is left."""
        return Status.of(*self._read())

    def __enter__(self) -> Self:
        """Make this the ledger that releases here are charged to.

        Raises
        ------
        LedgerError
            If that of another budget is open: a release cannot be charged to one alone.
        """
        self.create() if self._may_create else self._read()
        stack = _STACK.get()
        if stack and (stack[-1].path, stack[-1].dataset) != (self.path, self.dataset):
            raise LedgerError(f"The ledger of {stack[-1].dataset!r} is open here. Leave it first.")
        _STACK.set((*stack, self))
        _OPENED.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        stack = list(_STACK.get())
        last = max((place for place, each in enumerate(stack) if each is self), default=len(stack))
        del stack[last : last + 1]
        _STACK.set(tuple(stack))
        _OPENED.close()

    def _is_to_make(self) -> bool:
        # A ledger that was there and is gone is not opened anew, as if nothing had been spent.
        return self._may_create and self._file.identity is None and not self._file.exists()

    def _make_file(self) -> None:
        if self._is_to_make():
            self._file.create()

    def _read(self) -> tuple[Budget, list[Line]]:
        """The budget and its lines, as they would be: nothing is made that is not there."""
        if self._is_to_make():
            return self._wanted, []

        def work(rows: LedgerRows) -> tuple[Budget, list[Line]]:
            budget = self._budget(rows, create=False)
            self._known = rows.budget(self.dataset) is not None
            return budget, rows.lines(self.dataset) if self._known else []

        return self._file.read(work)

    def _budget(self, rows: LedgerRows, *, create: bool) -> Budget:
        budget = rows.budget(self.dataset)
        if budget is not None:
            budget.check_same(self.path, self._wanted, complete=self._may_create)
            return budget
        if not self._may_create or self._known:
            self._refuse_unknown(rows)
        if create:
            rows.write_budget(self._wanted, None)
        return self._wanted

    def _refuse_unknown(self, rows: LedgerRows) -> NoReturn:
        known = [budget.dataset for budget in rows.budgets()]
        near = difflib.get_close_matches(self.dataset, known, n=1)
        meant = f"Did you mean {near[0]!r}? " if near else ""
        hint = f"{meant}It has {', '.join(map(repr, known)) or 'none'}."
        refuse(self.path, f"to have a budget for {self.dataset!r}", hint)

    def _doubt(self, rows: LedgerRows, charge: Charge) -> None:
        """Note what is odd about the data of this name."""
        if charge.fingerprint is None:
            return
        data, doubts = f"The data of {self.dataset!r}", []
        if others := rows.other_names(self.dataset, charge.fingerprint):
            names = ", ".join(map(repr, others))
            doubts.append(f"{data} were also released from as {names}: use one name.")
        if rows.knows_other_data(self.dataset, charge.fingerprint):
            doubts.append(f"{data} are not those of its earlier releases: use another name.")
        rows.doubts += map(FingerprintWarning, doubts)


def new_id() -> str:
    """Of an entry: never that of another one."""
    return uuid.uuid4().hex


class _Opened:
    """How many ledgers are open in this process, told to the processes it starts.

    A count and not a stack of old values: threads close theirs in any order.
    """

    def __init__(self) -> None:
        self._inherited: str | None = None
        self.start_anew()

    def start_anew(self) -> None:
        """In a forked child nothing is open but what its context has; the variable stays set."""
        self.count, self._lock = 0, threading.Lock()

    def open(self) -> None:
        with self._lock:
            if self.count == 0:
                self._inherited = os.environ.get(OPEN)
                os.environ[OPEN] = str(os.getpid())
            self.count += 1

    def close(self) -> None:
        with self._lock:
            if self.count == 0:  # a forked child leaves a block that its parent entered
                return
            self.count -= 1
            if self.count == 0:
                os.environ.pop(OPEN, None)
                if self._inherited is not None:
                    os.environ[OPEN] = self._inherited


_OPENED = _Opened()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OPENED.start_anew)


def is_open() -> bool:
    """Whether any ledger is open in this process."""
    return bool(_STACK.get() or _OPENED.count)


def current() -> Ledger | None:
    """The ledger that a release made here and now is charged to; None if none is open anywhere.

    Threads of a pool and processes that are spawned do not inherit it. A process that was started
    before the ledger was opened cannot know of it.

    Raises
    ------
    LedgerError
        If one is open in another thread or in the process that started this one, but not here.
    """
    if stack := _STACK.get():
        return stack[-1]
    hint = "Open it here too, with Ledger(...)."
    if _OPENED.count:
        raise LedgerError(f"A ledger is open in another thread or task of this process. {hint}")
    if OPEN in os.environ:
        parent = f"A ledger was open in process {os.environ[OPEN]}, which started this one."
        raise LedgerError(f"{parent} {hint} For other data, unset {OPEN}.")
    return None
