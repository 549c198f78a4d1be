"""Processes that are sent the work once, and items from then on; one that dies costs its item.

For functions of other people: they may hang on to all cores, crash, or be typed at a prompt.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

from sordino import checks

LOST = object()
"""The result of an item whose process died."""

ENDED = "ended its process: crashed, killed, or out of memory"

# One core a process; what the function calls may else take all of them each time.
_ONE_CORE = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


def run_all(
    work: Any,
    items: Sequence[Any],
    workers: int,
    *,
    name: str = "train",
    begin: Callable[[Pool], None] | None = None,
) -> Iterator[tuple[Any, Any]]:
    """Call `work` on each item in other processes; yield (item, result) in any order.

    If a process dies, all that were under way are tried again, each alone: the one that takes its
    process down once more is to blame, and its result is `LOST`. `name` is the argument that a
    function came by, for the sentence where it cannot be sent. `begin` is called with the first
    pool, before any item is sent; what it raises ends everything.
    """
    waiting = list(reversed(items))
    while waiting:
        suspects: list[Any] = []
        with Pool(work, workers, name) as pool:
            if begin is not None:
                begin(pool)
                begin = None
            while (waiting and not suspects) or pool.running:
                while waiting and not suspects and len(pool.running) < workers:
                    pool.start(waiting.pop())
                for item, result in pool.finished():
                    if result is LOST:
                        suspects.append(item)
                    else:
                        yield item, result
        for item in suspects:
            with Pool(work, 1, name) as pool:
                pool.start(item)
                (again,) = pool.finished()
            yield again


class Pool:
    """Processes that were sent the work once, and are sent items from then on."""

    def __init__(self, work: Any, workers: int, name: str = "train") -> None:
        self._name = name
        self._workers = workers
        # loky sends functions by value, so that those typed at a prompt or in a notebook work.
        self._loky = import_module("joblib.externals.loky")
        self._pool = self._loky.ProcessPoolExecutor(
            workers, initializer=_install, initargs=(work, os.getpid()), env=_ONE_CORE
        )
        self.running: dict[Future[Any], Any] = {}

    def start(self, item: Any) -> None:
        """Send an item to the next free process."""
        self._submit(item, _call, item)

    def in_each(self, item: Any) -> list[Any]:
        """Results of one item in every process; that of a process that died is `LOST`."""
        with TemporaryDirectory() as room:
            for _ in range(self._workers):
                self._submit(item, _call_together, item, room, self._workers)
            return [result for _, result in self._results(ALL_COMPLETED)]

    def _submit(self, item: Any, call: Any, *arguments: Any) -> None:
        try:
            self.running[self._pool.submit(call, *arguments)] = item
        except self._loky.BrokenProcessPool:
            lost: Future[Any] = Future()
            lost.set_exception(self._loky.BrokenProcessPool())
            self.running[lost] = item
        except Exception as error:  # of whatever cannot be copied, each has its own
            hint = f"Make what it needs inside the function. Python says: {error}."
            checks.fail(self._name, "[the function]", "to be fit for another process", hint)

    def finished(self) -> list[tuple[Any, Any]]:
        """Wait for at least one result; that of a process that died is `LOST`."""
        return self._results(FIRST_COMPLETED)

    def _results(self, when: str) -> list[tuple[Any, Any]]:
        done, _ = wait(self.running, return_when=when)
        results = []
        for future in done:
            item = self.running.pop(future)
            try:
                results.append((item, future.result()))
            except self._loky.BrokenProcessPool:
                results.append((item, LOST))
        return results

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, kill_workers=True)


_work: Any = None


def _install(work: Any, parent: int) -> None:
    """Begin a process of the pool: keep the work, and end when nobody waits for it any more."""
    global _work
    _work = work
    # loky's own way of starting processes would be inherited by what the function starts, and fail.
    multiprocessing.set_start_method("spawn", force=True)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)  # the parent was killed, and could not say so


def _call(item: Any) -> Any:
    return _work(item)


def _call_together(item: Any, room: str, workers: int) -> Any:
    """Call the work when so many processes have come: none of them can have taken two items."""
    with open(os.path.join(room, str(os.getpid())), "w"):
        pass
    while len(os.listdir(room)) < workers:
        time.sleep(0.01)
    return _work(item)
