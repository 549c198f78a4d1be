"""The history of a ledger: a row for every budget, correction and release, in one keyed chain.

Each row has an HMAC-SHA256 over its content and the row before, with the key of the seal: the last
one, the head, stands for all that was ever written. Whoever has the ledger alone cannot make a row.
A ledger of an older sordino (layout 1) has no history; its first write begins one with what is
there.
"""

from __future__ import annotations

import hmac
import json
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from sordino.mechanisms.ledger_file import HISTORY, VERSION, refuse, refuse_damaged
from sordino.mechanisms.ledger_seal import START, Head, Seal, refuse_older, seal_path

OPENED, AMENDED, RELEASED = "opened", "amended", "released"
SEALED, RESEALED = "sealed", "resealed"
"""A ledger of an older layout got its seal; a ledger got another seal than it had."""

_COLUMNS = "number, recorded, kind, dataset, digest, note"
_TAKEN = "taken as it was: what was recorded later, or before it was changed, is not known"


@dataclass(frozen=True)
class Event:
    """A row of the history.

    `digest` is that of the budget or entry that was written; `note` what the budget was before, or
    why there is a new seal.
    """

    number: int
    recorded: str
    kind: str
    dataset: str
    digest: str
    note: str


class History:
    """The history of an open ledger, inside one transaction; checked when it is read.

    Parameters
    ----------
    connection, path
        The ledger.
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

    def __init__(
        self, connection: sqlite3.Connection, path: Path, seal: Seal | None, *, anew: bool = False
    ) -> None:
        self._connection, self._path = connection, path
        self.seal = seal or Seal.new()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        self.begun = version == VERSION
        self.events: list[Event] = []
        self._heads = [START.digest]
        if self.begun:
            self._read(is_sealed=seal is not None, anew=anew)
        if not self.extends(self.seal.head):
            refuse_older(path, len(self.events), self.seal.head, f"{seal_path(path).name} knows")

    @property
    def head(self) -> Head:
        """What stands for all of it."""
        return Head(len(self.events), self._heads[-1])

    def extends(self, head: Head) -> bool:
        """Whether it is that history, or one that went on from there."""
        return head.count < len(self._heads) and self._heads[head.count] == head.digest

    def _read(self, *, is_sealed: bool, anew: bool) -> None:
        query = f"SELECT {_COLUMNS}, head FROM history ORDER BY number"
        rows = self._connection.execute(query).fetchall()
        if rows and not is_sealed:
            name = seal_path(self._path).name
            hint = (
                f"Put {name} back, which belongs to it; if it is lost, `sordino ledger reseal` "
                "takes the ledger as it is, and leaves a mark that it did."
            )
            refuse(self._path, f"to have its seal beside it, and {name} is not there", hint)
        for *values, head in rows:
            event = Event(*values)
            if anew:
                head = self._digest(event)
                update = "UPDATE history SET head = ? WHERE number = ?"
                self._connection.execute(update, (head, event.number))
            if event.number != len(self._heads) or head != self._digest(event):
                self._damaged(f"row {len(self._heads)} of its history is not of this seal")
            self._take(event, head)
        if anew:
            self.add(RESEALED, note=_TAKEN)

    def check_tables(self) -> None:
        """Refuse tables that hold more or less than the history says."""
        if not self.begun:
            return
        for table, kinds in (("budget", (OPENED, AMENDED)), ("entry", (RELEASED,))):
            found = self._connection.execute(f"SELECT dataset, digest FROM {table}").fetchall()
            told = [(event.dataset, event.digest) for event in self.events if event.kind in kinds]
            if table == "budget":
                told = list(dict(told).items())  # a correction is in the place of what was before
            if sorted(map(str, found)) != sorted(map(str, told)):
                self._damaged(f"its table {table} is not what its history says")

    def add(self, kind: str, dataset: str = "", digest: str = "", note: str = "") -> None:
        """Write a row."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = Event(len(self._heads), now, kind, dataset, digest, note)
        head = self._digest(event)
        row = (event.number, now, kind, dataset, digest, note, head)
        insert = f"INSERT INTO history ({_COLUMNS}, head) VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._connection.execute(insert, row)
        self._take(event, head)

    def begin(self) -> None:
        """Give a ledger of layout 1 a history of what it holds."""
        for statement in HISTORY:
            self._connection.execute(statement)
        self._connection.execute(f"PRAGMA user_version={VERSION}")
        self.begun = True
        for kind, table in ((OPENED, "budget"), (RELEASED, "entry")):
            query = f"SELECT dataset, digest FROM {table} ORDER BY rowid"
            for dataset, digest in self._connection.execute(query).fetchall():
                self.add(kind, dataset, digest)
        self.add(SEALED, note="made by an older sordino: what stands before was taken as it was")

    def _take(self, event: Event, head: str) -> None:
        self.events.append(event)
        self._heads.append(head)

    def _digest(self, event: Event) -> str:
        text = json.dumps([self._heads[-1], *vars(event).values()], default=repr)
        return hmac.new(self.seal.key, text.encode(), "sha256").hexdigest()

    def _damaged(self, what: str) -> NoReturn:
        refuse_damaged(self._path, what)
