"""Which ledger is open here: in this thread or task, this process, or the one that started it."""

from __future__ import annotations

import os
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING

from sordino.release.ledger_file import LedgerError

if TYPE_CHECKING:
    from sordino.release.ledger import Ledger

OPEN = "SORDINO_LEDGER_OPEN"
"""Set while a ledger is open: a process started meanwhile must not release without one."""

_STACK: ContextVar[tuple[Ledger, ...]] = ContextVar("open ledgers, the innermost last", default=())


def current() -> Ledger | None:
    """The ledger that a release made here and now is charged to; None if none is open anywhere.

    Threads of a pool and processes that are spawned do not inherit it. A process that was started
    before the ledger was opened cannot know of it.

    Raises
    ------
    LedgerError
        If one is open in another thread or in the process that started this one, but not here.
    """
    if stack := _STACK.get():
        return stack[-1]
    if _OPENED.count:
        raise LedgerError(
            "A ledger is open in another thread or task of this process, and a release made here "
            "would not be charged to it. Open it here too: with Ledger(...) inside this thread."
        )
    if OPEN in os.environ:
        raise LedgerError(
            f"A ledger was open in process {os.environ[OPEN]}, which started this one, and a "
            "release made here would not be charged to it. Open it here too: with Ledger(...) "
            f"inside this process; or unset {OPEN} if what it releases is of other data."
        )
    return None


def is_open() -> bool:
    """Whether any ledger is open in this process."""
    return bool(_STACK.get() or _OPENED.count)


def enter(ledger: Ledger) -> None:
    """Make `ledger` the current one of this context.

    Raises
    ------
    LedgerError
        If that of another budget is open: a release cannot be charged to one and spare the other.
    """
    stack = _STACK.get()
    if stack and (stack[-1].path, stack[-1].dataset) != (ledger.path, ledger.dataset):
        raise LedgerError(
            f"The ledger of {stack[-1].dataset!r} is open here, and a release in this block would "
            f"be charged to {ledger.dataset!r} alone. Leave the one before you open the other."
        )
    _STACK.set((*_STACK.get(), ledger))
    _OPENED.open()


def leave(ledger: Ledger) -> None:
    """Undo the last `enter` of this ledger in this context."""
    stack = list(_STACK.get())
    for place in reversed(range(len(stack))):
        if stack[place] is ledger:
            del stack[place]
            break
    _STACK.set(tuple(stack))
    _OPENED.close()


class _Opened:
    """How many ledgers are open in this process, told to the processes it starts.

    A count and not a stack of old values: threads close theirs in any order.
    """

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()
        self._inherited: str | None = None

    def open(self) -> None:
        with self._lock:
            if self.count == 0:
                self._inherited = os.environ.get(OPEN)
                os.environ[OPEN] = str(os.getpid())
            self.count += 1

    def close(self) -> None:
        with self._lock:
            if self.count == 0:  # a forked child leaves a block that its parent entered
                return
            self.count -= 1
            if self.count == 0:
                os.environ.pop(OPEN, None)
                if self._inherited is not None:
                    os.environ[OPEN] = self._inherited

    def start_anew(self) -> None:
        """In a forked child nothing is open but what its context has; the variable stays set."""
        self.count = 0
        self._lock = threading.Lock()


_OPENED = _Opened()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OPENED.start_anew)
