"""The history of a ledger, and its seal: what stands for all that was ever written.

The history has a row for every budget, correction and release, in one keyed chain: an HMAC-SHA256
over its content and the row before, with the key of the seal. The last one, the head, stands for
all of them, and whoever has the ledger alone cannot make a row. A ledger of an older sordino
(layout 1) has no history; its first write begins one with what is there.

The seal is a small file beside the ledger with that key, and how far the ledger had come: an older
copy of the ledger, or one that was cut, does not reach so far. The order of writing decides what a
kill can do. The key is on the disk before anything that it authenticates. The count follows each
commit, and only then is a release recorded for whoever asked: killed in between, the ledger is
ahead of its seal, which is no harm (it is never behind), and the entry that could be cut off is one
whose model never left.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import sqlite3
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, Self

from sordino import _files, checks
from sordino.release.ledger_file import (
    HISTORY,
    VERSION,
    LedgerError,
    LedgerFile,
    refuse,
    refuse_damaged,
)

OPENED, AMENDED, RELEASED = "opened", "amended", "released"
SEALED, RESEALED = "sealed", "resealed"
"""A ledger of an older layout got its seal; a ledger got another seal than it had."""

_COLUMNS = "number, recorded, kind, dataset, digest, note"
_TAKEN = "taken as it was: what was recorded later, or before it was changed, is not known"

_MOST = 1000
"""Bytes of a seal, and some more."""
_MEND = (
    "Put both files back as they were together; if that cannot be done, `sordino ledger reseal` "
    "takes the ledger as it is, and leaves a mark that it did."
)


class LedgerWentBack(LedgerError):
    """A ledger that holds less, or other, than it did: an old copy, or its end is missing."""


@dataclass(frozen=True)
class Head:
    """So many rows of a history, and the digest of the last: nothing before it can change."""

    count: int
    digest: str

    def __str__(self) -> str:
        return f"{self.count}:{self.digest}"

    @classmethod
    def parsed(cls, text: str) -> Self:
        """From the text that `sordino ledger head` prints."""
        found = re.fullmatch(r"([0-9]{1,15}):([0-9a-f]{64})", str(text).strip())
        if found is None:
            hint = "Pass it as `sordino ledger head` printed it."
            checks.fail("head", str(text)[:80], "to be COUNT:DIGEST", hint)
        return cls(int(found[1]), found[2])


START = Head(0, "")
"""Of a history without rows."""


@dataclass(frozen=True)
class Seal:
    """The key of a ledger's history, and the head that it has at least reached."""

    key: bytes = field(repr=False)
    head: Head = START

    @classmethod
    def new(cls) -> Self:
        """With a fresh key from the operating system."""
        return cls(secrets.token_bytes(32))


def seal_path(ledger: Path) -> Path:
    """Where the seal of a ledger lies."""
    return ledger.with_name(f"{ledger.name}.seal")


def read_seal(file: LedgerFile) -> Seal | None:
    """The seal of a ledger, if it has one."""
    path = seal_path(file.path)
    try:
        # Not through a link, and not waiting for whoever writes into a pipe.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = error.strerror or error
        refuse(file.path, f"to have a seal that can be read ({path.name}: {why})", _MEND)
    try:
        content = os.read(handle, _MOST) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    finally:
        os.close(handle)
    try:
        plain = json.loads(content)
        key, count, digest = (plain[name] for name in ("key", "count", "head"))
        head = START if count == 0 else Head.parsed(f"{count}:{digest}")
        return Seal(bytes.fromhex(key), head)
    except (ValueError, TypeError, KeyError):
        refuse(file.path, f"to have a seal as it was written ({path.name} is damaged)", _MEND)


def write_seal(file: LedgerFile, seal: Seal) -> None:
    """Put a seal in the place of the one before, whole or not at all; under the ledger's lock."""
    path = seal_path(file.path)
    new = path.with_name(f"{path.name}.new")
    plain = {"key": seal.key.hex(), "count": seal.head.count, "head": seal.head.digest}
    try:
        like = os.stat(file.path)  # 0600, unless somebody shares the two with a group
        new.unlink(missing_ok=True)  # left by a kill
        _files.fill(new, f"{json.dumps(plain)}\n".encode())
        with suppress(PermissionError):
            os.chown(new, -1, like.st_gid)
            os.chmod(new, stat.S_IMODE(like.st_mode))
        os.rename(new, path)
        _files.settle(path.parent)
    except OSError as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        if isinstance(error, PermissionError):
            hint = "Who writes to the ledger must be allowed to replace the seal beside it."
            refuse(file.path, f"to have a seal ({path.name}) that may be replaced", hint)
        file.explain_system(error)


def refuse_older(path: Path, found: int, known: Head, who: str) -> NoReturn:
    """Refuse a ledger that does not reach what somebody knows of it."""
    raise LedgerWentBack(
        f"Expected ledger={path} to hold the {known.count:,} rows that {who} of it, and it holds "
        f"{found:,}{' others' * (found >= known.count)}: an older copy was put in its place, or "
        f"its end was cut off. Nothing was recorded. {_MEND}"
    )


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
