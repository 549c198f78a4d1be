"""What stands in a ledger: budgets and the lines under them, each chained to the one before.

Every row has a digest (HMAC-SHA256) over its content and the digest of the row before it, and the
budget keeps the last one: an edited number, a missing line or a line too many is noticed whenever
the budget is read. The key of these digests lies in the same file, against accidents; against
forgers they are in the history (`ledger_history.py`), whose key does not. What became of a release
(its status) is not part of the chain: it changes, and no sum depends on it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import sqlite3
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from sordino.accounting import record
from sordino.accounting.compose import Part, Total
from sordino.accounting.profile import Profile
from sordino.privacy import Relation
from sordino.release.ledger_file import LedgerFile, refuse_damaged
from sordino.release.ledger_history import AMENDED, OPENED, RELEASED, History
from sordino.release.ledger_terms import Budget, Charge

RANKS = {"recorded": 0, "failed": 1, "returned": 2, "written": 3}
"""What can become of a release. A status only rises: a model that was handed out stays out."""

BY_HAND = "recorded by hand"
"""Place of a release that was not made by sordino."""
_BUDGET = "dataset, epsilon, delta, relation, rows_per_person, as_you_go, created"
_LINE = (
    "id, dataset, recorded, what, epsilon, delta, profile, fingerprint, salt, pid, host, "
    "digest, status, place"
)
_CHAINED = 11
"""So many of a line's columns are under its digest: all before it."""


@dataclass(frozen=True)
class Line:
    """One release as the ledger has it.

    `recorded` is the time in UTC; `epsilon` and `delta` are what was promised of this release
    alone; `fingerprint` is keyed with the file's secret, `salt` is the certificate's: neither
    belongs outside. `place` says where the model was written, or why the release failed.
    """

    id: str
    dataset: str
    recorded: str
    what: str
    epsilon: float
    delta: float
    profile: Profile = field(repr=False)
    fingerprint: str | None = field(repr=False)
    salt: str | None = field(repr=False)
    pid: int
    host: str
    status: str
    place: str

    @property
    def part(self) -> Part:
        """What it costs, for the total."""
        return Part(self.profile, self.epsilon, self.delta)

    @property
    def explanation(self) -> str:
        """What became of the release, and what that means, as a sentence."""
        where = f" ({self.place})" if self.place else ""
        if self.place == BY_HAND:
            return "Recorded by hand, of a release that was made elsewhere."
        if self.status == "written":
            return f"The model was written{where}."
        if self.status == "returned":
            return "The model was handed to the program that asked for it; what it did is unknown."
        if self.status == "failed":
            return f"Failed after it was recorded{where}; the budget stays spent."
        return (
            f"Process {self.pid} on {self.host} ended between recording and handing over, or is "
            "still at work; the model may have left, so the budget stays spent."
        )


class LedgerRows:
    """The rows of an open ledger, inside one transaction; with its history they can be added to."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, history: History | None = None
    ) -> None:
        self._connection = connection
        self._path = path
        self._history = history
        header = connection.execute("SELECT secret, budgets, entries FROM header").fetchall()
        if len(header) != 1 or not isinstance(header[0][0], bytes):
            self._damaged("its header is gone")
        self._secret, *counts = header[0]
        counted = [
            connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
            for table in ("budget", "entry")
        ]
        if counts != counted:
            self._damaged(
                f"it should hold {counts[0]} budgets and {counts[1]} entries, not "
                f"{counted[0]} and {counted[1]}"
            )

    @property
    def identity(self) -> str:
        """What tells this file from any other."""
        return hmac.new(self._secret, b"identity", "sha256").hexdigest()

    def budgets(self) -> list[Budget]:
        """All budgets, by name."""
        rows = self._connection.execute("SELECT dataset FROM budget ORDER BY dataset").fetchall()
        found = [self.budget(name) for (name,) in rows]
        return [budget for budget in found if budget is not None]

    def budget(self, dataset: str) -> Budget | None:
        """The budget of this name, if there is one."""
        query = f"SELECT {_BUDGET}, digest FROM budget WHERE dataset = ?"
        row = self._connection.execute(query, (dataset,)).fetchone()
        if row is None:
            return None
        if row[-1] != self._digest("budget", row[:-1]):
            self._damaged(f"the budget of {dataset!r} was changed")
        name, epsilon, delta, relation, rows_per_person, as_you_go, _created, _digest = row
        return Budget(name, epsilon, delta, Relation(relation), rows_per_person, bool(as_you_go))

    def add_budget(self, budget: Budget) -> None:
        """Write a budget that is not there yet."""
        self._write_budget("INSERT", budget, OPENED)
        self._connection.execute("UPDATE header SET budgets = budgets + 1")

    def amend_budget(self, budget: Budget, before: Budget) -> None:
        """Write a budget in the place of one that nothing was recorded under."""
        self._write_budget("REPLACE", budget, AMENDED, before.words)

    def _write_budget(self, verb: str, budget: Budget, kind: str, note: str = "") -> None:
        row = (
            *(budget.dataset, budget.epsilon, budget.delta, budget.relation.value),
            *(budget.rows_per_person, int(budget.as_you_go), _now()),
        )
        digest = self._digest("budget", row)
        marks = ", ".join("?" * (len(row) + 2))
        self._connection.execute(
            f"{verb} INTO budget ({_BUDGET}, digest, head) VALUES ({marks})", (*row, digest, digest)
        )
        self._add_history(kind, budget.dataset, digest, note)

    def _add_history(self, kind: str, dataset: str, digest: str, note: str = "") -> None:
        assert self._history is not None
        self._history.add(kind, dataset, digest, note)

    def lines(self, dataset: str) -> list[Line]:
        """All releases from this dataset, in order."""
        return [self._line(row) for row in self._chain(dataset)]

    def add_line(self, dataset: str, line: str, charge: Charge) -> None:
        """Write one release as "recorded", under the id `line`."""
        plain = json.dumps(record.to_plain(charge.profile), allow_nan=False)
        keyed = None if charge.fingerprint is None else self.keyed(charge.fingerprint)
        values = (
            *(line, dataset, _now(), storable(charge.what)),
            *(float(charge.epsilon), float(charge.delta), plain, keyed, charge.salt),
            *(os.getpid(), storable(socket.gethostname())),
        )
        digest = self._digest(self._ends(dataset)[1], values)
        row = (*values, digest, "recorded", "")
        marks = ", ".join("?" * len(row))
        self._connection.execute(f"INSERT INTO entry ({_LINE}) VALUES ({marks})", row)
        self._connection.execute("UPDATE budget SET head = ? WHERE dataset = ?", (digest, dataset))
        self._connection.execute("UPDATE header SET entries = entries + 1")
        self._add_history(RELEASED, dataset, digest)

    def mark(self, line: str, status: str, place: str) -> None:
        """Say what became of a release; a status never falls, and places add up."""
        query = "SELECT status, place FROM entry WHERE id = ?"
        row = self._connection.execute(query, (line,)).fetchone()
        if row is None or row[0] not in RANKS:
            self._damaged(f"entry {line} is gone, or has no status")
        before, places = row
        if RANKS[status] < RANKS[before]:
            return
        if status == before and places:
            known = places.split("; ")
            place = places if not place or place in known else f"{places}; {place}"
        update = "UPDATE entry SET status = ?, place = ? WHERE id = ?"
        self._connection.execute(update, (status, place, line))

    def keyed(self, fingerprint: str) -> str:
        """A fingerprint as it is kept: without the file it says nothing about the data."""
        return hmac.new(self._secret, f"fingerprint {fingerprint}".encode(), "sha256").hexdigest()

    def other_names(self, dataset: str, keyed: str) -> list[str]:
        """Other datasets under which data of this fingerprint were released from."""
        query = (
            "SELECT DISTINCT dataset FROM entry WHERE fingerprint = ? AND dataset <> ? "
            "ORDER BY dataset"
        )
        return [name for (name,) in self._connection.execute(query, (keyed, dataset)).fetchall()]

    def knows_other_data(self, dataset: str, keyed: str) -> bool:
        """Whether all releases from this dataset that say so were from other data."""
        query = "SELECT DISTINCT fingerprint FROM entry WHERE dataset = ? AND fingerprint NOT NULL"
        known = [text for (text,) in self._connection.execute(query, (dataset,)).fetchall()]
        return bool(known) and keyed not in known

    def _chain(self, dataset: str) -> list[tuple[Any, ...]]:
        """The rows of a dataset's lines, after checking that each follows from the one before."""
        previous, head = self._ends(dataset)
        query = f"SELECT {_LINE} FROM entry WHERE dataset = ? ORDER BY number"
        rows = self._connection.execute(query, (dataset,)).fetchall()
        for row in rows:
            if row[_CHAINED] != self._digest(previous, row[:_CHAINED]):
                self._damaged(f"entry {row[0]} of {dataset!r}, or the one before it, was changed")
            previous = row[_CHAINED]
        if previous != head:
            self._damaged(f"the last entry of {dataset!r} is missing")
        return rows

    def _ends(self, dataset: str) -> tuple[str, str]:
        query = "SELECT digest, head FROM budget WHERE dataset = ?"
        digest, head = self._connection.execute(query, (dataset,)).fetchone()
        return digest, head

    def _line(self, row: tuple[Any, ...]) -> Line:
        values = dict(zip(_LINE.split(", "), row, strict=True))
        del values["digest"]
        for name in ("what", "host", "status", "place"):
            if not isinstance(values[name], str):
                self._damaged(f"entry {values['id']} has a {name} that is no text")
            values[name] = storable(values[name])  # a file may hold what no terminal should see
        if values["status"] not in RANKS:
            self._damaged(f"entry {values['id']} has the status {values['status']!r}")
        try:
            values["profile"] = record.from_plain(json.loads(values["profile"]))
        # Bad JSON, or values that are no profile.
        except (ValueError, TypeError, RecursionError) as error:
            self._damaged(f"entry {values['id']} has a profile that cannot be read ({error})")
        return Line(**values)

    def _digest(self, previous: str, values: Any) -> str:
        try:
            text = json.dumps([previous, *values], allow_nan=False)
        except (TypeError, ValueError):  # such as bytes where a text was
            self._damaged("a row holds what was never written there")
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()

    def _damaged(self, what: str) -> NoReturn:
        refuse_damaged(self._path, what)


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
        file.transact(
            lambda on: LedgerRows(on, file.path).mark(self.id, status, place), writes=True
        )


def new_id() -> str:
    """Of an entry: never that of another one."""
    return uuid.uuid4().hex


def storable(text: str) -> str:
    """A text that any database and any terminal takes: one line, nothing unprintable."""
    whole = text.encode("utf-8", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() else " " for letter in whole)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
