"""Worker processes, each on a core of its own, and a progress bar."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
SECONDS_A_LINE = 30.0
Job = tuple[float, tuple[Any, ...]]
"""Weight for the progress bar, and arguments."""


class Pool:
    """Use as a context; leaving it early, by Ctrl-C too, ends the workers."""

    def __init__(self, workers: int | None = None) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self.cores = cores[: workers or len(cores)]

    def __enter__(self) -> Pool:
        context = multiprocessing.get_context("spawn")
        free = context.SimpleQueue()
        for core in self.cores:
            free.put(core)
        self._pool = ProcessPoolExecutor(
            len(self.cores), mp_context=context, initializer=_settle, initargs=(free,)
        )
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is not None:
            for process in list((self._pool._processes or {}).values()):
                process.terminate()
        self._pool.shutdown(cancel_futures=True)

    def map(self, title: str, work: Callable[..., Any], jobs: Sequence[Job]) -> Iterator[Any]:
        """Results as they come."""
        if not jobs:
            return
        with progress(title, sum(weight for weight, _ in jobs)) as advance:
            with _one_thread():  # workers inherit it when the first job starts them
                futures = {self._pool.submit(work, *given): weight for weight, given in jobs}
            for future in as_completed(futures):
                yield future.result()
                advance(futures[future])


def _settle(free: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    os.sched_setaffinity(0, {free.get()})


@contextlib.contextmanager
def progress(title: str, total: float) -> Iterator[Callable[[float], None]]:
    """A bar on a terminal, a line now and then in a log; call it with what was done."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    began = shown = time.monotonic()
    done = 0.0

    def advance(much: float) -> None:
        nonlocal done, shown
        done += much
        bar.advance(task, much)
        now = time.monotonic()
        if not console.is_terminal and now - shown > SECONDS_A_LINE:
            shown, taken = now, now - began
            left = taken * (total / done - 1)
            console.print(f"{title}: {done / total:.0%}, {taken:.0f} s, about {left:.0f} s left")

    with Progress(*columns, console=console, speed_estimate_period=600) as bar:
        task = bar.add_task(title, total=total)
        yield advance


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
