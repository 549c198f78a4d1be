"""Files that are there whole or not at all, the lock of their one writer, and what is refused.

Everything is written under one name, `PARTIAL`, and then given its own; there is one writer, so
the next one knows what a killed one left behind.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
import zlib
from collections.abc import Collection
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import NoReturn
from zipfile import BadZipFile

from sordino import _files, checks
from sordino.errors import Refused

PARTIAL, LOCK = ".partial", ".lock"
UNREADABLE = (
    *(ValueError, KeyError, TypeError, AttributeError, EOFError, MemoryError, OverflowError),
    *(NotImplementedError, RuntimeError, BadZipFile, zlib.error, struct.error, SyntaxError),
)
"""What numpy and zipfile raise of a damaged file of numbers. Their sentences are not passed on:
some advise to load it with pickle."""

_held: set[tuple[int, int]] = set()
_held_guard = threading.Lock()


class StudyError(Refused):
    """A study that cannot be used as asked; its text names the directory and what to do."""


class DamagedCell(StudyError):
    """A finished or failed cell whose files are not as they were written."""


def refuse(
    directory: Path, condition: str, hint: str, error: type[StudyError] = StudyError
) -> NoReturn:
    """Raise `error` in the house's sentence form."""
    checks.fail("study", directory, condition, hint, error)


def explained(directory: Path, verb: str) -> AbstractContextManager[None]:
    """Turn what the operating system says into a `StudyError`; `verb` is "read" or "written"."""
    kept = "Finished parts are kept." if verb == "written" else ""
    return _files.explained("study", directory, verb, "", StudyError, "directory", kept)


def unknown_file(directory: Path, ours: Collection[str]) -> str | None:
    """The first name in a directory that is not among ours, nor left half written by a kill."""
    names = (name for name in sorted(os.listdir(directory)) if not name.endswith(PARTIAL))
    return next((name for name in names if name not in ours), None)


class Disk:
    """The directory of a study, as its writer sees it.

    Files are private to the user, and on the disk (not only in its cache) when `put` returns;
    their names are once `settle` has. Errors are those of the operating system.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all, over one that may be there."""
        _files.put(self.root / name, content, beside=self.root / PARTIAL)

    def drop(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(self.root / name)

    def make(self, name: str) -> None:
        """Make a directory for `put`, unless it is there."""
        with suppress(FileExistsError):
            os.mkdir(self.root / name, 0o700)

    def settle(self, names: Collection[str]) -> None:
        """Make new names in these directories outlive a loss of power."""
        for name in names:
            _files.settle(self.root / name)


class WriterLock:
    """The right to write a study, of one process at a time; readers need none.

    The system takes it back when the process ends, however it ends. It is a record lock, which a
    forked worker does not inherit: one that outlives its killed parent keeps nobody out.
    """

    def __init__(self, root: Path) -> None:
        self._process = os.getpid()
        with explained(root, "written"), _held_guard:
            place = os.stat(root)
            self._key = (place.st_dev, place.st_ino)
            # Record locks do not tell two owners within one process apart, and closing the file
            # anywhere in it gives the lock up: ask before opening.
            busy = self._key in _held
            if not busy:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._descriptor: int | None = os.open(root / LOCK, flags, 0o600)
                try:
                    fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    os.close(self._descriptor)
                    busy = error.errno in (errno.EAGAIN, errno.EACCES)
                    if not busy:
                        raise
            if busy:
                refuse(root, "to be written by one program at a time", "Wait for the other one.")
            _held.add(self._key)

    @property
    def holds(self) -> bool:
        """Whether this very process may write."""
        return self._descriptor is not None and self._process == os.getpid()

    def release(self) -> None:
        """Let others write; doing so twice is no mistake."""
        with _held_guard:
            if self._descriptor is not None and self._process == os.getpid():
                os.close(self._descriptor)
                self._descriptor = None
                _held.discard(self._key)
