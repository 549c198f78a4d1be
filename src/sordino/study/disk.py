"""Files that are there whole or not at all, and the lock of the one process that writes them.

Everything is written under one name, `PARTIAL`, and then given its own; there is one writer, so
the next one knows what a killed one left behind.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from sordino import _files
from sordino.study.refusal import explained, refuse

PARTIAL = ".partial"
LOCK = ".lock"

_BUSY = (errno.EAGAIN, errno.EACCES)
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)

_held: set[tuple[int, int]] = set()
_held_guard = threading.Lock()


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
            found = os.stat(root)
            self._key = (found.st_dev, found.st_ino)
            # Record locks do not tell two owners within one process apart, and closing the file
            # anywhere in it gives the lock up: ask before opening.
            if self._key in _held:
                _refuse_second(root)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._descriptor: int | None = os.open(root / LOCK, flags, 0o600)
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(self._descriptor)
                if error.errno in _BUSY:
                    _refuse_second(root)
                if error.errno in _NO_LOCKS:
                    hint = "Put it on a local disk; some network drives lack them."
                    refuse(root, "to be on a file system with locks", hint)
                raise
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


def _refuse_second(root: Path) -> NoReturn:
    hint = "Wait for the other program to end, or end it; reading is possible meanwhile."
    refuse(root, "to be written by one program at a time", hint)
