"""The ledger's SQLite file: making it, opening it, and one sentence for all that can be wrong.

Nothing here knows what a budget is; `ledger_rows.py` reads and writes the rows.
"""

from __future__ import annotations

import errno
import os
import random
import secrets
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NoReturn, TypeVar

from sordino import _files, checks
from sordino.errors import Refused

Answer = TypeVar("Answer")

APPLICATION_ID = int.from_bytes(b"sord", "big")
"""What the header of every ledger says, so that no other database is taken for one."""
VERSION = 2
"""The layout of the tables below; a file with a higher number was written by a newer sordino, and
one with 1 by an older one: it lacks the history, which its first write adds."""

_TABLES = """
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

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_DAMAGED = (
    *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT),
    *(sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_FORMAT),
)
_PATIENCE = 0.02
"""Seconds that SQLite waits itself: after that it would sleep longer than a transaction takes."""
_READERS = 0.5
"""Seconds that a commit waits for others who still read what was before, to empty its log."""
_LEAST = 512
"""Bytes of the least SQLite database; SQLite takes a shorter file for an empty one."""
_NO_DATABASE = "to be a ledger, and it is no SQLite database"
_UNCHANGED = "Pass another path; this file was not changed."
_WRITABLE = "Change the permissions of the file and its directory, or pass another path."
_ROOM = "Make room and try again; nothing was recorded, and nothing was released."
_RESTORE = "Restore it from a copy: without its entries nobody knows what was spent."


class LedgerError(Refused):
    """A ledger that cannot be used as asked; its text names the file and what to do."""


def refuse(path: Path, condition: str, hint: str) -> NoReturn:
    """Raise `LedgerError` in the house's sentence form."""
    raise LedgerError(f"Expected ledger={path} {condition}. {hint}")


def refuse_damaged(path: Path, what: str) -> NoReturn:
    """Raise `LedgerError` for a ledger whose content cannot be trusted any more."""
    refuse(path, f"to be as it was written, and {what}", _RESTORE)


class LedgerFile:
    """The path of a ledger; a connection lives for one transaction, so a fork never shares one.

    Parameters
    ----------
    path
        The file. Its directory must exist.
    wait
        Seconds to wait for other processes before giving up.
    """

    def __init__(self, path: str | os.PathLike[str], wait: float = 60.0) -> None:
        hint = "Pass the path of the ledger, such as 'ledger.db'."
        if not isinstance(path, str | os.PathLike) or str(path) in ("", ":memory:"):
            checks.fail("path", repr(path), "to be the path of a file", hint)
        if "\0" in os.fsdecode(path):
            checks.fail("path", repr(path), "to be without zero characters", hint)
        # Absolute from now on: a program may change its directory.
        self.path = Path(os.fsdecode(path)).expanduser().absolute()
        self.wait = checks.non_negative("wait", wait, "Pass seconds, such as 60.")

    def exists(self) -> bool:
        """Whether there is a file to open; one that cannot be a ledger is refused."""
        found = self._stat()
        if found is None:
            wal = self.path.with_name(self.path.name + "-wal")
            if not wal.exists():
                return False
            # Another process may have made both between the two looks.
            if (found := self._stat()) is None:
                condition = f"to be there, as its log {wal.name} is"
                refuse(self.path, condition, "Put the two files back together; they are one.")
        if stat.S_ISLNK(found.st_mode):
            hint = f"Pass the file itself: {os.path.realpath(self.path)}."
            refuse(self.path, "to be a file, not a symbolic link", hint)
        if not stat.S_ISREG(found.st_mode):
            kind = "a directory" if stat.S_ISDIR(found.st_mode) else "something else"
            refuse(self.path, f"to be a file, not {kind}", "Pass the path of a file.")
        if found.st_size == 0:
            hint = "Restore it if it was one; delete it if nothing was ever recorded in it."
            refuse(self.path, "to be a ledger, not an empty file", hint)
        if found.st_size < _LEAST:
            refuse(self.path, _NO_DATABASE, _UNCHANGED)
        return True

    def _stat(self) -> os.stat_result | None:
        try:
            return os.lstat(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.explain_system(error)

    def create(self) -> None:
        """Make the file, whole or not at all; one that is there is left as it is.

        It is made under another name and given its own by a hard link, which fails if the name is
        taken: of several processes one makes it, and a kill at any moment leaves no half of one.
        """
        if self.exists():
            return
        parent = self.path.parent
        if not parent.is_dir():
            refuse(self.path, "to be in a directory that exists", f"Create {parent} first.")
        try:
            with tempfile.TemporaryDirectory(prefix=".sordino-", dir=parent) as place:
                new = Path(place) / "new.db"
                os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                _write_tables(new)
                os.link(new, self.path)
            _files.settle(parent)
        except FileExistsError:
            return
        except OSError as error:
            self.explain_system(error)
        except sqlite3.Error as error:
            self._explain(error)

    def transact(self, work: Callable[[sqlite3.Connection], Answer], *, writes: bool) -> Answer:
        """Run `work` in one transaction: all it wrote is on the disk afterwards, or nothing is.

        Writers come one after the other; a reader sees one state of the file. Where another process
        is in the way, `work` is run again until `wait` seconds are over.
        """
        deadline = time.monotonic() + self.wait
        while True:
            try:
                with closing(self._connect()) as connection:
                    self._recognise(connection)
                    connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
                    answer = work(connection)  # an exception closes the connection: rolled back
                    connection.execute("COMMIT")
                    if writes:
                        _empty_log(connection)
                    return answer
            except sqlite3.Error as error:
                if _code(error) not in _BUSY or time.monotonic() >= deadline:
                    self._explain(error)
            time.sleep(random.uniform(0.001, 0.01))

    def _connect(self) -> sqlite3.Connection:
        # "rw": a file that has gone meanwhile is not made anew, empty.
        address = f"{self.path.as_uri()}?mode=rw"
        connection = sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA cell_size_check=ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _recognise(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            condition = "to be a ledger of sordino, not another SQLite database"
            refuse(self.path, condition, _UNCHANGED)
        if version > VERSION:
            condition = f"of layout {VERSION}, and it has layout {version}"
            refuse(self.path, condition, "A newer sordino wrote it; update sordino.")
        if version < 1:
            refuse_damaged(self.path, f"it says to have layout {version}, which never was")

    def _explain(self, error: sqlite3.Error) -> NoReturn:
        """What SQLite says, as a sentence about the file."""
        path, code = self.path, _code(error)
        if isinstance(error, sqlite3.ProgrammingError):  # a mistake here, not in the file
            raise error
        try:
            if code in _BUSY:
                hint = "Another process holds it; try again, or end that process."
                refuse(path, f"to be free within {self.wait:g} seconds", hint)
            if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
                refuse(path, "to be writable", _WRITABLE)
            if code == sqlite3.SQLITE_CANTOPEN:
                hint = "It must be there, readable and writable, and its directory writable."
                refuse(path, "to be a file that can be opened", hint)
            if code == sqlite3.SQLITE_NOTADB:
                refuse(path, _NO_DATABASE, _UNCHANGED)
            if code == sqlite3.SQLITE_FULL:
                refuse(path, "to be on a disk with room", _ROOM)
            if code == sqlite3.SQLITE_IOERR:
                hint = f"The disk failed or is full ({error}); nothing was released."
                refuse(path, "to be readable and writable", hint)
            if code in _DAMAGED:
                refuse_damaged(path, f"SQLite says: {error}")
            refuse(path, "to be usable", f"SQLite says: {error}.")
        except LedgerError as sentence:
            raise sentence from error

    def explain_system(self, error: OSError) -> NoReturn:
        """What the operating system says, as a sentence about the file."""
        path = self.path
        try:
            if error.errno in (errno.EACCES, errno.EROFS):
                refuse(path, "to be in a directory that can be written", _WRITABLE)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                refuse(path, "to be on a disk with room", _ROOM)
            if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                hint = "Put it on a local disk; network drives and memory sticks often lack them."
                refuse(path, "to be on a file system with hard links", hint)
            refuse(path, "to be usable", f"The system says: {error.strerror or error}.")
        except LedgerError as sentence:
            raise sentence from error


def _empty_log(connection: sqlite3.Connection) -> None:
    """Bring what was committed from the log into the file, so that a copy of the file has it all.

    Where somebody reads for longer, it stays in the log: nothing is lost by that.
    """
    deadline = time.monotonic() + _READERS
    while True:
        try:
            busy, logged, done = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error:  # it is committed, whatever becomes of the log
            return
        if (not busy and logged == done) or time.monotonic() >= deadline:
            return
        time.sleep(_PATIENCE / 10)


def _write_tables(new: Path) -> None:
    with closing(sqlite3.connect(new, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.executescript(f"BEGIN; {_TABLES} {';'.join(HISTORY)};")
        connection.execute("INSERT INTO header VALUES (1, ?, 0, 0)", (secrets.token_bytes(32),))
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={VERSION}")
        connection.execute("COMMIT")


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary code; the extended ones have it in their last byte."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF
