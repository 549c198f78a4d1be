"""What stands in a ledger: budgets and lines, each chained to the one before, and their history.

Every row has a digest (HMAC-SHA256) over its content and the digest of the row before it, and the
budget keeps the last one: an edited number, a missing line or a line too many is noticed whenever
the budget is read. The key of these digests lies in the same file, against accidents. What became
of a release (its status) is not part of the chain: it changes, and no sum depends on it.

Against forgers there is the history: a row for every budget, correction and release in one chain,
whose key is that of the seal (`file.py`). The digest of its last row, the head, stands for all of
it, and whoever has the ledger alone cannot make a row. A ledger of an older sordino (layout 1) has
no history; its first write begins one with what is there.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import socket
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, Self

from sordino import checks
from sordino.accounting import record
from sordino.privacy import Relation
from sordino.release.ledger.budget import Budget, Charge, LedgerError, Line, refuse

LAYOUT = 2
"""The layout of the tables below; a file with a higher number was written by a newer sordino, and
one with 1 by an older one: it lacks the history, which its first write adds."""
TABLES = """
CREATE TABLE header (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    secret BLOB NOT NULL, budgets INTEGER NOT NULL, entries INTEGER NOT NULL
);
CREATE TABLE budget (
    dataset TEXT PRIMARY KEY NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL,
    relation TEXT NOT NULL, rows_per_person INTEGER NOT NULL, as_you_go INTEGER NOT NULL,
    created TEXT NOT NULL, digest TEXT NOT NULL, head TEXT NOT NULL
);
CREATE TABLE entry (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
    dataset TEXT NOT NULL REFERENCES budget (dataset), recorded TEXT NOT NULL, what TEXT NOT NULL,
    epsilon REAL NOT NULL, delta REAL NOT NULL, profile TEXT NOT NULL,
    fingerprint TEXT, salt TEXT, pid INTEGER NOT NULL, host TEXT NOT NULL, digest TEXT NOT NULL,
    status TEXT NOT NULL, place TEXT NOT NULL
);
CREATE INDEX entries_of_a_dataset ON entry (dataset);
CREATE INDEX entries_of_a_fingerprint ON entry (fingerprint);
CREATE TRIGGER budgets_stay BEFORE DELETE ON budget
    BEGIN SELECT RAISE(ABORT, 'a budget is never deleted'); END;
CREATE TRIGGER entries_stay BEFORE DELETE ON entry
    BEGIN SELECT RAISE(ABORT, 'an entry is never deleted'); END;
"""
HISTORY = (
    """CREATE TABLE history (
    number INTEGER PRIMARY KEY, recorded TEXT NOT NULL, kind TEXT NOT NULL, dataset TEXT NOT NULL,
    digest TEXT NOT NULL, note TEXT NOT NULL, head TEXT NOT NULL
)""",
    """CREATE TRIGGER history_stays BEFORE DELETE ON history
    BEGIN SELECT RAISE(ABORT, 'history is never deleted'); END""",
)
"""Statement by statement: a script would end the transaction that it is in."""

_BUDGET = "dataset, epsilon, delta, relation, rows_per_person, as_you_go, created"
_LINE = (
    "id, dataset, recorded, what, epsilon, delta, profile, fingerprint, salt, pid, host, "
    "digest, status, place"
)
_CHAINED = 11
"""So many of a line's columns are under its digest: all before it."""
_EVENT = "number, recorded, kind, dataset, digest, note"
_RANKS = {"recorded": 0, "failed": 1, "returned": 2, "written": 3}
"""What can become of a release. A status only rises: a model that was handed out stays out."""
_OLDER = "made by an older sordino: what stands before was taken as it was"
_TAKEN = "taken as it was: what was recorded later, or before it was changed, is not known"
MEND = "Put both files back; or `sordino ledger reseal` takes the ledger as it is."


class LedgerWentBack(LedgerError):
    """A ledger that holds less, or other, than it did: an old copy, or its end is missing."""


@dataclass(frozen=True)
class Head:
    """So many rows of a history, and the digest of the last: nothing before it can change."""

    count: int = 0
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.count}:{self.digest}"

    @classmethod
    def parsed(cls, text: str) -> Self:
        """From the text that `sordino ledger head` prints."""
        found = re.fullmatch(r"([0-9]{1,15}):([0-9a-f]{64})", str(text).strip())
        if found is None:
            checks.fail("head", str(text)[:80], "as `sordino ledger head` printed it")
        return cls(int(found[1]), found[2])


@dataclass(frozen=True)
class Seal:
    """The key of a ledger's history, and the head that it has at least reached."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    head: Head = field(default_factory=Head)


@dataclass(frozen=True)
class Event:
    """A row of the history.

    `kind` is "opened", "amended", "released", "sealed" (a ledger of an older layout got its seal)
    or "resealed" (it got another one). `digest` is that of the budget or entry that was written;
    `note` what the budget was before, or why there is a new seal.
    """

    number: int
    recorded: str
    kind: str
    dataset: str
    digest: str
    note: str


class LedgerRows:
    """The rows of an open ledger, inside one transaction; after `load` they can be added to."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._run, self._path = connection.execute, path
        header = self._all("SELECT secret, budgets, entries FROM header")
        if len(header) != 1 or not isinstance(header[0][0], bytes):
            self._damaged("its header is gone")
        self._secret, *counts = header[0]
        tables = ("budget", "entry")
        if counts != [self._all(f"SELECT COUNT(*) FROM {each}")[0][0] for each in tables]:
            self._damaged("its header counts other rows than it holds")
        self.identity = _digest(self._secret, b"identity")
        """What tells this file from any other."""
        self.begun = self._all("PRAGMA user_version") == [(LAYOUT,)]
        """Whether it has a history."""
        self.events: list[Event] = []
        self._heads = [""]
        self.doubts: list[Warning] = []
        """What to warn of when all is on the disk."""

    # --- The history

    def load(self, seal: Seal | None, *, anew: bool = False) -> None:
        """Read the history and check it, and the tables, against the seal.

        Parameters
        ----------
        seal
            Read before the transaction saw anything: the ledger may be ahead of it, never behind.
        anew
            Take the rows as they are, under this seal from now on, and write down that it was so.

        Raises
        ------
        LedgerWentBack
            If the ledger does not reach as far as its seal.
        LedgerError
            If the two do not belong together, or rows were changed.
        """
        self.seal = seal or Seal()
        query = f"SELECT {_EVENT}, head FROM history ORDER BY number"
        rows = self._all(query) if self.begun else []
        if rows and seal is None:
            refuse(self._path, "to have its seal beside it", MEND)
        for *values, head in rows:
            event = Event(*values)
            digest = self._event_digest(event)
            if anew:
                head = digest
                self._run("UPDATE history SET head = ? WHERE number = ?", (head, event.number))
            if event.number != len(self._heads) or head != digest:
                self._damaged(f"row {len(self._heads)} of its history is not of this seal")
            self._take(event, head)
        if anew and self.begun:
            self._add("resealed", note=_TAKEN)
        self.check_reaches(self.seal.head, "its seal knows")
        if self.begun:
            self.check_tables()

    @property
    def head(self) -> Head:
        """What stands for all of the history."""
        return Head(len(self.events), self._heads[-1])

    def extends(self, head: Head) -> bool:
        """Whether it is that history, or one that went on from there."""
        return head.count < len(self._heads) and self._heads[head.count] == head.digest

    def check_reaches(self, known: Head, who: str) -> None:
        """Refuse a ledger that does not hold what somebody knows of it."""
        if not self.extends(known):
            others = " others" * (len(self.events) >= known.count)
            held = f"{len(self.events):,}{others}: an older copy, or its end was cut off"
            condition = f"to hold the {known.count:,} rows that {who} of it, and it holds {held}"
            refuse(self._path, condition, MEND, LedgerWentBack)

    def check_tables(self) -> None:
        """Refuse tables that hold more or less than the history says."""
        for table, kinds in (("budget", ("opened", "amended")), ("entry", ("released",))):
            told = [(event.dataset, event.digest) for event in self.events if event.kind in kinds]
            if table == "budget":
                told = list(dict(told).items())  # a correction is in the place of what was before
            rows = self._all(f"SELECT dataset, digest FROM {table}")
            if sorted(map(str, rows)) != sorted(map(str, told)):
                self._damaged(f"its table {table} is not what its history says")

    def begin(self) -> None:
        """Give a ledger of layout 1 a history of what it holds."""
        for statement in (*HISTORY, f"PRAGMA user_version={LAYOUT}"):
            self._run(statement)
        self.begun = True
        for kind, table in (("opened", "budget"), ("released", "entry")):
            for row in self._all(f"SELECT dataset, digest FROM {table} ORDER BY rowid"):
                self._add(kind, *row)
        self._add("sealed", note=_OLDER)

    @property
    def newly_sealed(self) -> Event | None:
        """What the history says of a seal that this transaction gives to an older ledger."""
        sealed = (event for event in self.events if event.kind == "sealed")
        return next(sealed, None) if self.seal.head == Head() else None

    def _add(self, kind: str, dataset: str = "", digest: str = "", note: str = "") -> None:
        event = Event(len(self._heads), _now(), kind, dataset, digest, note)
        head = self._event_digest(event)
        row = (*vars(event).values(), head)
        self._run(f"INSERT INTO history ({_EVENT}, head) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        self._take(event, head)

    def _take(self, event: Event, head: str) -> None:
        self.events.append(event)
        self._heads.append(head)

    def _event_digest(self, event: Event) -> str:
        return _digest(self.seal.key, [self._heads[-1], *vars(event).values()])

    # --- Budgets and lines

    def budgets(self) -> list[Budget]:
        """All budgets, by name."""
        names = self._all("SELECT dataset FROM budget ORDER BY dataset")
        return [budget for (name,) in names if (budget := self.budget(name)) is not None]

    def budget(self, dataset: str) -> Budget | None:
        """The budget of this name, if there is one."""
        rows = self._all(f"SELECT {_BUDGET}, digest FROM budget WHERE dataset = ?", dataset)
        if not rows:
            return None
        *values, digest = rows[0]
        if digest != _digest(self._secret, ["budget", *values]):
            self._damaged(f"the budget of {dataset!r} was changed")
        name, epsilon, delta, relation, rows_per_person, as_you_go, _ = values
        return Budget(name, epsilon, delta, Relation(relation), rows_per_person, bool(as_you_go))

    def write_budget(self, budget: Budget, before: Budget | None) -> None:
        """Write a budget, in the place of one that nothing was recorded under, if there is one."""
        row = (
            *(budget.dataset, budget.epsilon, budget.delta, budget.relation.value),
            *(budget.rows_per_person, int(budget.as_you_go), _now()),
        )
        digest = _digest(self._secret, ["budget", *row])
        values = "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self._run(f"REPLACE INTO budget ({_BUDGET}, digest, head) {values}", (*row, digest, digest))
        if before is None:
            self._run("UPDATE header SET budgets = budgets + 1")
            self._add("opened", budget.dataset, digest)
        else:
            self._add("amended", budget.dataset, digest, before.words)

    def lines(self, dataset: str) -> list[Line]:
        """All releases from this dataset, in order; each must follow from the one before."""
        previous, head = self._ends(dataset)
        rows = self._all(f"SELECT {_LINE} FROM entry WHERE dataset = ? ORDER BY number", dataset)
        for row in rows:
            if row[_CHAINED] != _digest(self._secret, [previous, *row[:_CHAINED]]):
                self._damaged(f"entry {row[0]} of {dataset!r}, or the one before it, was changed")
            previous = row[_CHAINED]
        if previous != head:
            self._damaged(f"the last entry of {dataset!r} is missing")
        return list(map(self._line, rows))

    def add_line(self, dataset: str, line: str, charge: Charge) -> None:
        """Write one release as "recorded", under the id `line`."""
        profile = json.dumps(record.to_plain(charge.profile), allow_nan=False)
        keyed = None if charge.fingerprint is None else self._keyed(charge.fingerprint)
        values = (
            *(line, dataset, _now(), _storable(charge.what)),
            *(float(charge.epsilon), float(charge.delta), profile, keyed, charge.salt),
            *(os.getpid(), _storable(socket.gethostname())),
        )
        digest = _digest(self._secret, [self._ends(dataset)[1], *values])
        row = (*values, digest, "recorded", "")
        self._run(f"INSERT INTO entry ({_LINE}) VALUES ({', '.join('?' * len(row))})", row)
        self._run("UPDATE budget SET head = ? WHERE dataset = ?", (digest, dataset))
        self._run("UPDATE header SET entries = entries + 1")
        self._add("released", dataset, digest)

    def mark(self, line: str, status: str, place: str) -> None:
        """Say what became of a release; a status never falls, and places add up."""
        rows = self._all("SELECT status, place FROM entry WHERE id = ?", line)
        if not rows or rows[0][0] not in _RANKS:
            self._damaged(f"entry {line} is gone, or has no status")
        before, places = rows[0]
        if _RANKS[status] < _RANKS[before]:
            return
        place = _storable(place)
        if status == before and places:
            known = places.split("; ")
            place = places if not place or place in known else f"{places}; {place}"
        self._run("UPDATE entry SET status = ?, place = ? WHERE id = ?", (status, place, line))

    def other_names(self, dataset: str, fingerprint: str) -> list[str]:
        """Other datasets under which data of this fingerprint were released from."""
        of = "fingerprint = ? AND dataset <> ? ORDER BY dataset"
        query = f"SELECT DISTINCT dataset FROM entry WHERE {of}"
        return [name for (name,) in self._all(query, self._keyed(fingerprint), dataset)]

    def knows_other_data(self, dataset: str, fingerprint: str) -> bool:
        """Whether all releases from this dataset that say so were from other data."""
        query = "SELECT DISTINCT fingerprint FROM entry WHERE dataset = ? AND fingerprint NOT NULL"
        known = [text for (text,) in self._all(query, dataset)]
        return bool(known) and self._keyed(fingerprint) not in known

    def _keyed(self, fingerprint: str) -> str:
        """A fingerprint as it is kept: without the file it says nothing about the data."""
        return _digest(self._secret, f"fingerprint {fingerprint}".encode())

    def _ends(self, dataset: str) -> Any:
        return self._all("SELECT digest, head FROM budget WHERE dataset = ?", dataset)[0]

    def _line(self, row: Sequence[Any]) -> Line:
        values = dict(zip(_LINE.split(", "), row, strict=True))
        del values["digest"]
        for name in ("what", "host", "status", "place"):
            if not isinstance(values[name], str):
                self._damaged(f"entry {values['id']} has a {name} that is no text")
            values[name] = _storable(values[name])  # a file may hold what no terminal should see
        if values["status"] not in _RANKS:
            self._damaged(f"entry {values['id']} has the status {values['status']!r}")
        try:
            values["profile"] = record.from_plain(json.loads(values["profile"]))
        # Bad JSON, or values that are no profile.
        except (ValueError, TypeError, RecursionError) as error:
            self._damaged(f"entry {values['id']} has a profile that cannot be read ({error})")
        return Line(**values)

    def _all(self, query: str, *values: str) -> list[Any]:
        return self._run(query, values).fetchall()

    def _damaged(self, what: str) -> NoReturn:
        refuse(self._path, f"to be as it was written, and {what}", "Restore it from a copy.")


def _storable(text: str) -> str:
    """A text that any database and any terminal takes: one line, nothing unprintable."""
    whole = text.encode("utf-8", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() else " " for letter in whole)


def _digest(key: bytes, content: bytes | list[Any]) -> str:
    # What was never written, such as bytes where a text was, gives another digest.
    text = content if isinstance(content, bytes) else json.dumps(content, default=repr).encode()
    return hmac.new(key, text, "sha256").hexdigest()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
