"""Which copy of a process this is: a forked one has its parent's keys, and must not use them.

A process id does not tell copies apart. In nested PID namespaces, as containers have, parent and
child may both be process 1, and ids are given again. Linux can clear a page of memory in every
copy, however it was made (`MADV_WIPEONFORK`); elsewhere Python tells of its own forks, and the
process id of others.
"""

from __future__ import annotations

import mmap
import os
import sys

from sordino.release.mechanism import ReleaseRefused

_WIPE_ON_FORK = 18
"""Linux 4.14; Python has no name for it."""
_BYTES = 8


class Copies:
    """Counts the forks between the process that made it and the one that asks.

    No lock is needed, which a fork could leave locked for good: threads that ask at the same time
    write the same number.
    """

    def __init__(self, page: mmap.mmap | bytearray) -> None:
        self._page = page
        self._process = os.getpid()
        self._known = 0

    def here(self) -> int:
        """The number of this copy; no process that this one was copied from has it."""
        known = self._known  # before the page is read: who marks it has told what it knows
        if isinstance(self._page, bytearray) and self._process != os.getpid():
            self.wipe()
            self._process = os.getpid()
        marked = int.from_bytes(self._page[:_BYTES], "little")
        if not marked:
            marked = known + 1
            self._page[:_BYTES] = marked.to_bytes(_BYTES, "little")
        self._known = marked
        return marked

    def wipe(self) -> None:
        """What a fork does to the page, where only Python tells of it."""
        self._page[:_BYTES] = bytes(_BYTES)


def _page() -> mmap.mmap | bytearray:
    """Memory that is zero in every copy of this process; or, if there is none, plain memory."""
    if sys.platform == "linux":
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        try:
            page.madvise(_WIPE_ON_FORK)
        except OSError:  # an older kernel
            return bytearray(_BYTES)
        try:
            page.madvise(-1)
        except OSError:
            return page
        # An emulator that takes any advice and follows none.
    return bytearray(_BYTES)


_COPIES = Copies(_page())
_COPY_OF_PROCESS: dict[int, int] = {}
"""Which copy had a process id, for this process and those that it was copied from."""


def here() -> int:
    """The number of this copy of the process, another than that of any it was copied from."""
    return _COPIES.here()


def check_process_id() -> None:
    """Refuse where a process id does not tell this copy from one that it was made from.

    OpenSSL, from which OpenDP draws, seeds itself anew where the process id is another than it was,
    and has no other sign of a fork.

    Raises
    ------
    ReleaseRefused
        If noise would repeat that of another process.
    """
    if _COPY_OF_PROCESS.setdefault(os.getpid(), here()) != here():
        raise ReleaseRefused(
            f"This process is a copy of another with the same id ({os.getpid()}), as in nested PID "
            "namespaces, and its noise would be the other's. Start it afresh instead of forking: "
            'multiprocessing.get_context("spawn"), or a program of its own.'
        )


def _forked() -> None:
    _COPIES.wipe()
    _COPY_OF_PROCESS.setdefault(os.getpid(), here())


_COPY_OF_PROCESS[os.getpid()] = here()  # now: somebody else may draw from OpenDP before we do
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
