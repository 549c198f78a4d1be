"""Cells trained by a Dask cluster: the same cells, the same bytes, written by this process alone.

A worker that dies costs the cells it was working on: Dask gives them to another. What Dask gives
up (the rows lost with every worker that had them, too many deaths in a row) is sent again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from sordino import checks
from sordino.errors import InvalidArgument
from sordino.intrinsic.grid import Failure, Outcome, Work
from sordino.study import Cell, StudyError

ROUNDS = 3
"""How often what was lost is sent again."""

_PATIENCE = 60
"""Seconds to wait for a first worker, or for a scheduler to answer."""


def required() -> Any:
    """The package `distributed`, or a sentence that says how to get it."""
    try:
        return import_module("distributed")
    except ImportError:
        hint = "pip install 'sordino[dask]'"
        checks.fail("client", "[Dask]", "to have the package distributed here", hint)


def connect(address: str) -> Any:
    """A client of the scheduler at this address, such as "tcp://10.0.0.1:8786"."""
    distributed = required()
    if not re.fullmatch(r"[a-z]+://\S+:\d+", address):
        hint = "Pass the address that dask scheduler prints, such as tcp://10.0.0.1:8786."
        checks.fail("dask", address, "to be an address with a port", hint)
    try:
        return distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = f"({type(error).__name__})"
        hint = "Pass the address that dask scheduler prints, such as tcp://10.0.0.1:8786."
        checks.fail("dask", address, f"to be answered by a scheduler {reason}", hint)


def train(client: Any, work: Work, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
    """Train cells on a cluster, and yield each as it finishes, in any order."""
    check(client)
    _await_worker(client)
    left = list(cells)
    for _ in range(ROUNDS):
        lost: list[Cell] = []
        for cell, outcome in _round(client, work, left):
            if outcome is None:
                lost.append(cell)
            else:
                yield cell, outcome
        left = lost
        if not left:
            return
        _await_worker(client)
    for cell in left:
        yield cell, Failure("Its worker was lost, again and again: killed, or out of memory.")


def check(client: Any) -> None:
    """Refuse what is no client."""
    if not isinstance(client, required().Client):
        hint = "Pass distributed.Client(address)."
        checks.fail("client", type(client).__name__, "to be a Client of Dask", hint)


def _round(client: Any, work: Work, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome | None]]:
    """Send every cell once; None for one that was lost with its workers."""
    distributed, versions = required(), work.versions()
    with _answering():
        # To every worker, so that a dead one takes no rows with it that nobody else has.
        sent = client.scatter(work, broadcast=True, hash=False)
        running = {client.submit(_cell, sent, cell, versions, pure=False): cell for cell in cells}
    try:
        for future in distributed.as_completed(list(running), loop=client.loop):
            cell = running.pop(future)
            yield cell, _outcome(future, distributed.KilledWorker)
            future.release()
    finally:
        with suppress(Exception):  # of a cluster that is gone there is nothing to be taken back
            client.cancel([sent, *running])


def _outcome(future: Any, killed: type[Exception]) -> Outcome | None:
    try:
        outcome: Outcome = future.result()
    except (killed, CancelledError):  # the worker is gone, or what was sent to all of them
        return None
    except InvalidArgument:
        raise
    except Exception as error:
        raise StudyError(
            f"Expected the workers to train, and one says {type(error).__name__}: {error}. "
            "Finished cells are kept."
        ) from error
    return outcome


def _cell(work: Work, cell: Cell, versions: dict[str, str]) -> Outcome:
    """Train a cell; called by a worker."""
    here = work.versions()
    for name, version in versions.items():
        if here[name] != version:
            hint = "Another version may give other bytes; install the same on every worker."
            checks.fail(f"the worker's {name}", here[name], f"to be {version}", hint)
    return work.cell(cell)


def _await_worker(client: Any) -> None:
    """Wait for a first worker, which some clusters start only when there is something to do."""
    with _answering():
        if not client.scheduler_info()["workers"]:
            client.submit(_nothing, pure=False).result(timeout=_PATIENCE)


def _nothing() -> None:
    """Be something to do."""


@contextmanager
def _answering() -> Iterator[None]:
    """Turn what a lost scheduler, or one without workers, makes of a call into a sentence."""
    try:
        yield
    except Exception as error:
        raise StudyError(
            f"Expected the cluster to answer, with at least one worker ({type(error).__name__}). "
            "Start it, and run the same again: finished cells are kept."
        ) from error
