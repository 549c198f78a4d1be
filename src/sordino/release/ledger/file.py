"""The ledger's SQLite file and its seal: making them, transactions, and what the system refuses.

The seal, `FILE.seal`, holds the key of the history (`rows.py`) and how far the ledger had come: an
older copy of the ledger, or one that was cut, does not reach so far. The order of writing decides
what a kill can do. The key is on the disk before anything that it authenticates. The count follows
each commit, and only then is a release recorded for whoever asked: killed in between, the ledger is
ahead of its seal, which is no harm (it is never behind), and the entry that could be cut off is one
whose model never left.
"""

from __future__ import annotations

import errno
import json
import os
import random
import secrets
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import NoReturn, TypeVar

from sordino import _files, checks
from sordino.release.ledger.budget import LedgerError, refuse
from sordino.release.ledger.rows import HISTORY, LAYOUT, MEND, TABLES, Event, Head, LedgerRows, Seal

_Answer = TypeVar("_Answer")

_APPLICATION_ID = int.from_bytes(b"sord", "big")
"""What the header of every ledger says, so that no other database is taken for one."""
_PATIENCE = 0.02
"""Seconds that SQLite waits itself: after that it would sleep longer than a transaction takes."""
_READERS = 0.5
"""Seconds that a commit waits for others who still read what was before, to empty its log."""
_LEAST = 512
"""Bytes of the least SQLite database; SQLite takes a shorter file for an empty one."""
_MOST_SEAL = 1000
"""Bytes of a seal, and some more."""

_NO_LEDGER = ("to be a ledger of sordino", "Pass another path.")
_WRITABLE = ("to be writable", "Change the permissions of the file and its directory.")
_ROOM = ("to be on a disk with room", "Make room and try again; nothing was released.")
_LINKS = ("to be on a file system with hard links", "Put it on a local disk.")
_DAMAGED = ("to be as it was written", "Restore it from a copy.")
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_SQLITE = {
    **dict.fromkeys(_BUSY, ("to be free", "Another process holds it: try again, or end it.")),
    **dict.fromkeys((sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH), _WRITABLE),
    sqlite3.SQLITE_CANTOPEN: ("to be a file that can be opened", _WRITABLE[1]),
    sqlite3.SQLITE_NOTADB: _NO_LEDGER,
    sqlite3.SQLITE_FULL: _ROOM,
    sqlite3.SQLITE_IOERR: ("to be on a disk that works", _ROOM[1]),
    **dict.fromkeys(
        (
            *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT),
            *(sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_FORMAT),
        ),
        _DAMAGED,
    ),
}
_SYSTEM = {
    **dict.fromkeys((errno.EACCES, errno.EROFS), _WRITABLE),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _ROOM),
    **dict.fromkeys((errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK), _LINKS),
}


class NotSealed(LedgerError):
    """What was asked for is in the ledger, and its seal does not say so until the next write."""


class SealedWarning(UserWarning):
    """A ledger of an older sordino that has a seal from now on."""


class LedgerFile:
    """A ledger on disk, which remembers how far it had come while this object lives.

    A connection lives for one transaction, so a fork never shares one.

    Parameters
    ----------
    path
        The file. Its directory must exist.
    wait
        Seconds to wait for other processes before giving up.
    """

    def __init__(self, path: str | os.PathLike[str], wait: float = 60.0) -> None:
        named = isinstance(path, str | os.PathLike) and str(path) not in ("", ":memory:")
        if not named or "\0" in os.fsdecode(path):
            checks.fail("path", repr(path), "to be the path of a file")
        # Absolute from now on: a program may change its directory.
        self.path = Path(os.fsdecode(path)).expanduser().absolute()
        self.seal_path = self.path.with_name(f"{self.path.name}.seal")
        self.wait = checks.non_negative("wait", wait)
        self.identity: str | None = None
        """Which file it is; None before the first use."""
        self._seen: Head | None = None

    # --- The file

    def exists(self) -> bool:
        """Whether there is a ledger; what cannot be one, or is gone from its seal, is refused."""
        found = self._stat()
        if found is None:
            log = self.path.with_name(f"{self.path.name}-wal")
            seal = self._read_seal()
            beside = log if log.exists() else self.seal_path
            if beside is not log and (seal is None or not seal.head.count):
                return False
            # Another process may have made both between the two looks.
            if (found := self._stat()) is None:
                hint = "Put the two back together."
                refuse(self.path, f"to be there, as {beside.name} is", hint)
        if not stat.S_ISREG(found.st_mode):
            refuse(self.path, "to be a plain file, and no link", "Pass another path.")
        if found.st_size == 0:
            hint = "Restore it; delete it if nothing was ever recorded in it."
            refuse(self.path, "to be a ledger, not an empty file", hint)
        if found.st_size < _LEAST:
            refuse(self.path, *_NO_LEDGER)
        return True

    def _stat(self) -> os.stat_result | None:
        try:
            return os.lstat(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._explain(error)

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
                with closing(sqlite3.connect(new, isolation_level=None)) as connection:
                    connection.execute("PRAGMA journal_mode=WAL")
                    connection.execute("PRAGMA synchronous=FULL")
                    connection.executescript(f"BEGIN; {TABLES} {';'.join(HISTORY)};")
                    secret = secrets.token_bytes(32)
                    connection.execute("INSERT INTO header VALUES (1, ?, 0, 0)", (secret,))
                    connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version={LAYOUT}")
                    connection.execute("COMMIT")
                os.link(new, self.path)
            _files.settle(parent)
        except FileExistsError:
            return
        except (OSError, sqlite3.Error) as error:
            self._explain(error)

    def transact(self, work: Callable[[sqlite3.Connection], _Answer], *, writes: bool) -> _Answer:
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
            for setting in ("synchronous=FULL", "trusted_schema=OFF", "cell_size_check=ON"):
                connection.execute(f"PRAGMA {setting}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _recognise(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION_ID:
            refuse(self.path, *_NO_LEDGER)
        if not 1 <= version <= LAYOUT:
            hint = "Update sordino, or restore a copy."
            refuse(self.path, f"of layout 1 to {LAYOUT}, not {version}", hint)

    def _explain(self, error: sqlite3.Error | OSError) -> NoReturn:
        """What SQLite or the system says, as a sentence about the file."""
        if isinstance(error, sqlite3.ProgrammingError):  # a mistake here, not in the file
            raise error
        if isinstance(error, OSError):
            who, says, found = "The system", _files.reason(error), _SYSTEM.get(error.errno or 0)
        else:
            who, says, found = "SQLite", str(error), _SQLITE.get(_code(error))
        condition, hint = found or ("to be usable", "")
        try:
            refuse(self.path, condition, f"{hint} {who} says: {says}.".lstrip())
        except LedgerError as sentence:
            raise sentence from error

    # --- The rows, under the seal

    def read(self, work: Callable[[LedgerRows], _Answer]) -> _Answer:
        """Run `work` on one state of the ledger, which holds all that was seen of it before."""
        self._check_there()
        while True:
            # Both before the transaction begins: what it sees is at least as far.
            seen, seal = self._seen, self._read_seal()

            def within(
                on: sqlite3.Connection, seen: Head | None = seen, seal: Seal | None = seal
            ) -> _Answer:
                answer = work(rows := self._rows(on, seal, seen))
                self._remember(rows)
                return answer

            try:
                return self.transact(within, writes=False)
            except LedgerError:
                if self._read_seal() == seal:
                    raise  # else somebody sealed it between the two looks

    def write(self, work: Callable[[LedgerRows], _Answer]) -> tuple[_Answer, LedgerRows]:
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
        self._check_there()

        def within(on: sqlite3.Connection) -> tuple[_Answer, LedgerRows]:
            seal = self._read_seal()
            rows = self._rows(on, seal, self._seen)
            if not rows.begun:
                rows.begin()
            answer = work(rows)
            if seal is None or rows.head != seal.head:
                # The key comes before what it authenticates. And a seal that cannot be replaced
                # is found out now: afterwards the budget would be spent for nothing.
                self._write_seal(rows.seal)
            return answer, rows

        answer, rows = self.transact(within, writes=True)
        self._remember(rows)  # not before it is committed
        if rows.head != rows.seal.head:
            self._seal(rows.head)
        if rows.newly_sealed is not None:
            said = f"{self.path} has a seal now, {self.seal_path.name}: keep both."
            rows.doubts.append(SealedWarning(said))
        return answer, rows

    def reseal(self) -> Event | None:
        """Take the ledger as it is under a new seal; what its history says of that, if it was so.

        A ledger that is in order under its seal is left alone.
        """
        self._check_there()
        try:
            return self.write(lambda rows: None)[1].newly_sealed
        except LedgerError:
            self.identity = self._seen = None  # what was seen before does not count any more

        def within(on: sqlite3.Connection) -> LedgerRows:
            rows = self._rows(on, Seal(), None, anew=True)
            if not rows.begun:
                rows.begin()
            for budget in rows.budgets():
                rows.lines(budget.dataset)  # which checks them
            self._write_seal(rows.seal)
            return rows

        rows = self.transact(within, writes=True)
        self._remember(rows)
        self._seal(rows.head)
        return rows.events[-1]

    def _check_there(self) -> None:
        if not self.exists():
            hint = f"If the path is right, create it: sordino ledger init {self.path}."
            refuse(self.path, "to be there", hint)

    def _rows(
        self, on: sqlite3.Connection, seal: Seal | None, seen: Head | None, *, anew: bool = False
    ) -> LedgerRows:
        rows = LedgerRows(on, self.path)
        rows.load(seal, anew=anew)
        if self.identity not in (None, rows.identity):
            refuse(self.path, "to be the file that it was before", "Put that file back.")
        if seen is not None:
            rows.check_reaches(seen, "this process has seen")
        return rows

    def _remember(self, rows: LedgerRows) -> None:
        self.identity = rows.identity
        if rows.begun and (self._seen is None or self._seen.count < rows.head.count):
            self._seen = rows.head

    # --- The seal

    def _seal(self, head: Head) -> None:
        """Write down how far it has come. Under the lock: two that do must not cross."""

        def within(on: sqlite3.Connection) -> None:
            rows = self._rows(on, self._read_seal(), head)
            self._write_seal(Seal(rows.seal.key, rows.head))

        try:
            self.transact(within, writes=True)
        except LedgerError as error:
            raise NotSealed(f"It is in the ledger, which could not be sealed: {error}") from error

    def _read_seal(self) -> Seal | None:
        """The seal of the ledger, if it has one."""
        try:
            # Not through a link, and not waiting for whoever writes into a pipe.
            handle = os.open(self.seal_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            refuse(self.path, f"to have a seal that can be read ({_files.reason(error)})", MEND)
        try:
            content = os.read(handle, _MOST_SEAL) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
        finally:
            os.close(handle)
        try:
            plain = json.loads(content)
            key, count, digest = (plain[name] for name in ("key", "count", "head"))
            head = Head() if count == 0 else Head.parsed(f"{count}:{digest}")
            return Seal(bytes.fromhex(key), head)
        except (ValueError, TypeError, KeyError):
            refuse(self.path, f"to have a seal ({self.seal_path.name}) as it was written", MEND)

    def _write_seal(self, seal: Seal) -> None:
        """Put a seal in the place of the one before, whole or not at all; under the lock."""
        new = self.seal_path.with_name(f"{self.seal_path.name}.new")
        plain = {"key": seal.key.hex(), "count": seal.head.count, "head": seal.head.digest}
        try:
            like = os.stat(self.path)  # 0600, unless somebody shares the two with a group
            new.unlink(missing_ok=True)  # left by a kill
            _files.fill(new, f"{json.dumps(plain)}\n".encode())
            with suppress(PermissionError):
                os.chown(new, -1, like.st_gid)
                os.chmod(new, stat.S_IMODE(like.st_mode))
            os.rename(new, self.seal_path)
            _files.settle(self.path.parent)
        except OSError as error:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            if isinstance(error, PermissionError):
                refuse(self.path, f"to have a seal ({new.stem}) that may be replaced", _WRITABLE[1])
            self._explain(error)


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


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary code; the extended ones have it in their last byte."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF
