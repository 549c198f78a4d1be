"""The ledger: a budget per named dataset, and every release written down before the model leaves.

```python
with Ledger("ledger.db", dataset="patients-2026", epsilon=2, delta=1e-6):
    model.fit(X, y)
```

A release is recorded, on the disk, before anybody gets the model, or its directory its name. A
crash in between leaves the budget spent and no model, never the reverse; nothing is ever given
back. Processes on one machine may share a ledger: of two that race for the last of a budget, one
wins.

What it cannot do: the key of its digests lies in the file, so it notices accidents and not
forgers; an older copy put in its place looks like an honest ledger; and SQLite's write-ahead log
needs a local disk, as the machines of a network file system do not see each other's locks. The
files `FILE-wal` and `FILE-shm`, where they exist, belong to it: move or copy them together.
"""

from __future__ import annotations

import difflib
import math
import os
import sqlite3
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from sordino import _check
from sordino.accounting.total import Total, total
from sordino.mechanisms import ledger_open
from sordino.mechanisms.ledger_file import Answer, LedgerError, LedgerFile, refuse
from sordino.mechanisms.ledger_open import current
from sordino.mechanisms.ledger_rows import BY_HAND, Line, Rows, new_id, storable
from sordino.mechanisms.ledger_status import Status, status_of
from sordino.mechanisms.ledger_terms import (
    Budget,
    Charge,
    check_same,
    check_unit,
    dataset_name,
    relation_of,
)
from sordino.mechanisms.release import SLACK, ReleaseRefused
from sordino.privacy import Relation, rounded

__all__ = [
    "BY_HAND",
    "Budget",
    "BudgetExceeded",
    "Charge",
    "Entry",
    "FingerprintWarning",
    "Ledger",
    "LedgerError",
    "Line",
    "Status",
    "current",
    "new_id",
]


class FingerprintWarning(UserWarning):
    """Data known under another name, or other data under a known name."""


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


@dataclass(frozen=True)
class Entry:
    """A release that was recorded; say here what became of it. No answer gives budget back.

    `total` is what all releases from the dataset cost at most, this one included; `status` may
    know a tighter rule.
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
        place = storable(place)
        file.transact(lambda on: Rows(on, file.path).mark(self.id, status, place), writes=True)


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
        self._file = LedgerFile(path, wait)
        self.path = self._file.path
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
        self._seen: str | None = None
        """Which file the budget was seen in."""

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, dataset={self.dataset!r})"

    @staticmethod
    def datasets(path: str | os.PathLike[str], *, wait: float = 60.0) -> list[Budget]:
        """All budgets in a file."""
        file = LedgerFile(path, wait)
        if not file.exists():
            _refuse_missing(file.path)
        return file.transact(lambda on: Rows(on, file.path).budgets(), writes=False)

    def create(self) -> bool:
        """Make the file and the budget if they are not there; whether the budget is new."""
        self._make_file()

        def work(rows: Rows) -> bool:
            new = rows.budget(self.dataset) is None
            self._budget(rows, create=True)
            return new

        return self._transact(work, writes=True)

    def check(self, charge: Charge) -> Total:
        """What the total would be with this release; nothing is recorded.

        Raises
        ------
        BudgetExceeded
            If there is no room for it.
        """
        try:
            return _admit(*self._read(), charge)
        except _NoRoom as no_room:
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
        """
        self._make_file()
        line = new_id() if line is None else line

        def work(rows: Rows) -> tuple[Total, list[str]]:
            budget = self._budget(rows, create=True)
            lines = rows.lines(self.dataset)
            # Others wait meanwhile: any rule that proves enough will do.
            would_be = _admit(budget, lines, charge, enough=budget.epsilon)
            doubts = self._doubts(rows, charge)
            rows.add_line(self.dataset, line, charge)
            return would_be, doubts

        try:
            spent, doubts = self._transact(work, writes=True)
        except _NoRoom as no_room:  # what would fit is computed when nobody waits any more
            raise no_room.explained() from None
        entry = Entry(self.path, line, spent, self._file.wait)
        try:
            for doubt in doubts:  # after it is on the disk: a warning may be an error to the caller
                warnings.warn(doubt, FingerprintWarning, stacklevel=2)
        except FingerprintWarning as error:
            entry.failed(f"{type(error).__name__} was an error")
            error.add_note(entry.spent)
            raise
        return entry

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
        # A budget that was there and is gone is not opened anew, as if nothing had been spent.
        if self._may_create and self._seen is None:
            self._file.create()
        elif not self._file.exists():
            _refuse_missing(self.path)

    def _read(self) -> tuple[Budget, list[Line]]:
        """The budget and its lines, as they would be: nothing is made that is not there."""
        if not self._file.exists():
            if not self._may_create or self._seen is not None:
                _refuse_missing(self.path)
            return self._asked, []

        def work(rows: Rows) -> tuple[Budget, list[Line]]:
            budget = self._budget(rows, create=False)
            known = rows.budget(self.dataset) is not None
            return budget, rows.lines(self.dataset) if known else []

        return self._transact(work, writes=False)

    def _transact(self, work: Callable[[Rows], Answer], *, writes: bool) -> Answer:
        """Run `work` on the file that this budget was seen in, and on no other."""

        def checked(connection: sqlite3.Connection) -> tuple[Answer, str | None]:
            rows = Rows(connection, self.path)
            if self._seen not in (None, rows.identity):
                hint = "Put the file back in which the budget was: this one knows nothing of it."
                refuse(self.path, "to be the file that it was before", hint)
            answer = work(rows)
            return answer, rows.identity if rows.budget(self.dataset) is not None else None

        answer, seen = self._file.transact(checked, writes=writes)
        self._seen = seen or self._seen
        return answer

    def _budget(self, rows: Rows, *, create: bool) -> Budget:
        found = rows.budget(self.dataset)
        if found is None:
            if not self._may_create or self._seen is not None:
                refuse(
                    self.path, f"to have a budget for {self.dataset!r}", _other_names(self, rows)
                )
            if create:
                rows.add_budget(self._asked)
            return self._asked
        check_same(self.path, self._asked, found, complete=self._may_create)
        return found

    def _doubts(self, rows: Rows, charge: Charge) -> list[str]:
        """What is odd about the data of this name, as sentences."""
        if charge.fingerprint is None:
            return []
        keyed, doubts = rows.keyed(charge.fingerprint), []
        if others := rows.other_names(self.dataset, keyed):
            named = ", ".join(repr(name) for name in others)
            doubts.append(
                f"The data released from as {self.dataset!r} were also released from as {named}: "
                "what one person loses is the sum of both budgets; use one name for one dataset."
            )
        if rows.knows_other_data(self.dataset, keyed):
            doubts.append(
                f"The data under {self.dataset!r} are not those of its earlier releases: right if "
                "rows came or went, but another dataset needs a name and a budget of its own."
            )
        return doubts


class _NoRoom(Exception):
    """A charge that does not fit; what is left is not computed yet."""

    def __init__(self, budget: Budget, lines: list[Line], charge: Charge, would_be: Total) -> None:
        self.budget, self.lines, self.charge, self.would_be = budget, lines, charge, would_be

    def explained(self) -> BudgetExceeded:
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


def _admit(budget: Budget, lines: list[Line], charge: Charge, enough: float | None = None) -> Total:
    """The total with this charge, if the budget allows it; else `_NoRoom`."""
    check_unit(budget, charge)
    if math.isinf(charge.epsilon):
        would_be = Total(math.inf, budget.delta, "a release that promises nothing", True)
    else:
        parts = [*(line.part for line in lines), charge.part]
        would_be = total(parts, budget.delta, as_you_go=budget.as_you_go, enough=enough)
    if not would_be.epsilon <= budget.epsilon * (1 + SLACK):
        raise _NoRoom(budget, lines, charge, would_be)
    return would_be


def _other_names(ledger: Ledger, rows: Rows) -> str:
    known = [budget.dataset for budget in rows.budgets()]
    near = difflib.get_close_matches(ledger.dataset, known, n=1)
    meant = f"Did you mean {near[0]!r}? " if near else ""
    names = ", ".join(repr(name) for name in known) or "none"
    return (
        f"{meant}It has {names}. A new name is a new budget: open one (sordino ledger init, or "
        "epsilon= and delta= of the ledger) for other people's data only."
    )


def _refuse_missing(path: Path) -> NoReturn:
    command = f"sordino ledger init {path} --dataset NAME --epsilon 2 --delta 1e-6"
    hint = f"If the path is right, create it: {command}."
    refuse(path, "to be there", hint)
