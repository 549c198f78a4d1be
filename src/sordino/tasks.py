"""The one way to run independent work: in this process, in threads, in processes, or on Dask.

`run` calls one function on many tasks and hands over every result as it finishes, in any order;
`gather` returns them in the order of the tasks. The function must depend on its task alone. Then
the results are the same bytes wherever it runs, and whoever stores each result as it comes can
resume later with the tasks that are missing.

- **Ctrl-C**: nothing new is started, results that are finished are handed over, and
  `KeyboardInterrupt` is raised.
- **A lost worker** (crashed, killed, out of memory) costs its own tasks, which run again. A task
  that takes its worker down every time is reported as lost; all others are done by then.
- **Dask**: every worker must have the Python, sordino and numerical packages of this process.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import multiprocessing
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module, metadata
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from sordino import checks
from sordino.errors import Refused, printable

if TYPE_CHECKING:  # the help of commands does without numpy
    from sordino.types import Progress

ENDED = "ended its process: crashed, killed, or out of memory"
"""What happened to a task that is lost, as a verb."""

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

_LOST: Any = object()
_ROUNDS = 3  # how often a cluster is sent what it lost
_PATIENCE = 60  # seconds for a scheduler to answer, or for a first worker
_ADDRESS = "Pass the address that `dask scheduler` prints, such as tcp://10.0.0.1:8786."
_PACKAGES = ("numpy", "scipy", "numba", "torch", "scikit-learn", "zarr")

# A process has one core; else the libraries that the function calls take all of them each time.
_ONE_CORE = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


class WorkersFailed(Refused):
    """Work that its workers could not finish; results handed over before are good."""


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    function: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    *,
    workers: int = 0,
    client: Any = None,
    threads: bool = False,
    lost: Callable[[_Task], _Result] | None = None,
    progress: Progress | None = None,
    argument: str = "function",
) -> Iterator[tuple[_Task, _Result]]:
    """Call a function on every task; yield (task, result) as results finish, in any order.

    Leaving the loop early stops the workers.

    Parameters
    ----------
    function
        Its result depends on the task alone. Processes and clusters get a copy (functions of a
        script or a notebook included), once for all tasks. What it raises ends everything: let it
        return what shall be recorded.
    tasks
        What to call it with.
    workers
        0: in this process, one after the other. N: in N processes of one core each.
    client
        A Dask `Client` whose workers do it instead (extra `dask`).
    threads
        Whether calls may share a process: N workers are then threads of this one, and the threads
        of a Dask worker call it at the same time. Otherwise a process makes one call at a time.
    lost
        Makes the result of a task that takes its worker down every time. By default that raises
        `WorkersFailed`, after all other results.
    progress
        Called with (done, total) at the beginning and whenever a result has been handed over.
    argument
        What the caller calls the function, for the error where it cannot be sent.

    Returns
    -------
    results
        An iterator of (task, result).

    Raises
    ------
    WorkersFailed
        If a cluster does not answer, has other versions, or a task is lost.
    InvalidArgument
        If the function cannot be sent to another process, or `client` is no client.

    Examples
    --------
    >>> sorted(run(abs, [-3, 2]))
    [(-3, 3), (2, 2)]
    """
    found = _results(function, tasks, workers, client, threads, lost, progress, argument)
    return ((tasks[number], result) for number, result in found)


def gather(
    function: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    *,
    workers: int = 0,
    client: Any = None,
    threads: bool = False,
    progress: Progress | None = None,
    argument: str = "function",
) -> list[_Result]:
    """Call a function on every task and return the results in the order of the tasks.

    Parameters, errors: see `run`.

    Examples
    --------
    >>> gather(abs, [-3, 2], workers=2, threads=True)
    [3, 2]
    """
    results = dict(_results(function, tasks, workers, client, threads, None, progress, argument))
    return [results[number] for number in range(len(tasks))]


def connect(address: str | None) -> AbstractContextManager[Any]:
    """A client of the Dask scheduler at this address, to be used in a `with`.

    Parameters
    ----------
    address
        As `dask scheduler` prints it. For None there is no client: work stays on this machine.

    Raises
    ------
    InvalidArgument
        If nobody answers there, or a worker has other versions than this process.

    Examples
    --------
    >>> with connect(None) as client:
    ...     gather(abs, [-3, 2], client=client)
    [3, 2]
    """
    if address is None:
        return nullcontext()
    if not re.fullmatch(r"[a-z]+://\S+:\d+", address):
        checks.fail("dask", address, "to be an address with a port", _ADDRESS)
    try:
        client = _distributed().Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = f"({type(error).__name__})"
        checks.fail("dask", address, f"to be answered by a scheduler {reason}", _ADDRESS)
    try:
        check_client(client)
    except BaseException:
        client.close()
        raise
    return client  # type: ignore[no-any-return]


def identity(function: Any) -> dict[str, str | None]:
    """What tells one user's function from another: name, source text, and what was bound to it.

    Bound are the arguments of a `functools.partial` and the attributes of a callable object. Values
    that it closes over, globals and functions that it names, and code that has no source text
    (typed at a prompt, compiled) are not looked at: name such settings beside it.

    Examples
    --------
    >>> identity(functools.partial(sorted, reverse=True))["name"]
    'sorted'
    """
    plain, bound = function, []
    while isinstance(plain, functools.partial):
        bound += [plain.args, plain.keywords]
        plain = plain.func
    named = plain if hasattr(plain, "__qualname__") else type(plain)
    owner = getattr(plain, "__self__", plain)
    if named is not owner and hasattr(owner, "__dict__") and not inspect.ismodule(owner):
        bound.append(vars(owner))
    found: dict[str, str | None] = {"name": str(named.__qualname__)}
    found |= {"source_sha256": None, "carries_sha256": None}
    with suppress(OSError, TypeError):
        found["source_sha256"] = _sha256(inspect.getsource(named))
    with suppress(Exception):  # of whatever cannot be copied, each has its own
        if any(bound):
            found["carries_sha256"] = _sha256(import_module("joblib").hash(bound))
    return found


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def check_client(client: Any) -> None:
    """Refuse what is no Dask client, or has workers with other versions than this process."""
    if not isinstance(client, _distributed().Client):
        hint = "Pass distributed.Client(address)."
        checks.fail("client", type(client).__name__, "to be a Client of Dask", hint)
    with _explained():
        for answer in client.run(_versions, on_error="return").values():
            if isinstance(answer, ImportError):
                checks.fail("dask", "[a worker]", "to import sordino.tasks", "Install it there.")
            if isinstance(answer, dict):
                _check_versions(_versions(), answer)


def _results(
    function: Any,
    tasks: Sequence[Any],
    workers: int,
    client: Any,
    threads: bool,
    lost: Callable[[Any], Any] | None,
    progress: Progress | None,
    argument: str,
) -> Iterator[tuple[int, Any]]:
    """Yield (number of the task, result)."""
    total, workers = len(tasks), min(workers, len(tasks))
    found: Iterator[tuple[int, Any]]
    if client is not None and tasks:
        found = _on_cluster(client, function, tasks, threads)
    elif not workers:
        found = ((number, function(task)) for number, task in enumerate(tasks))
    elif threads:
        found = _in_threads(function, tasks, workers)
    else:
        found = _in_processes(function, tasks, workers, argument)
    tell = progress or (lambda done, total: None)
    tell(0, total)
    failed = 0
    for done, (number, result) in enumerate(found, start=1):
        if result is not _LOST:
            yield number, result
        elif lost is not None:
            yield number, lost(tasks[number])
        else:
            failed += 1
        tell(done, total)
    if failed:
        raise WorkersFailed(f"{failed} of {total} tasks failed: each {ENDED}.")


def _drive(
    submit: Callable[[Any], Any],
    tasks: Sequence[Any],
    waiting: list[int],
    most: float,
    gone: tuple[type[Exception], ...],
    suspects: list[int],
    running: dict[Any, int],
) -> Iterator[tuple[int, Any]]:
    """Take numbers from the end of `waiting`, at most so many at a time; yield their results.

    Numbers whose worker is gone are added to `suspects`; then nothing new is submitted.
    """
    done: SimpleQueue[Any] = SimpleQueue()
    interrupted = False
    while running or (waiting and not suspects):
        try:
            while waiting and not suspects and len(running) < most:
                future = submit(tasks[waiting[-1]])
                running[future] = waiting.pop()
                future.add_done_callback(done.put)
            finished = [done.get()]
        except gone:  # while it was submitted
            suspects.append(waiting.pop())
            continue
        except KeyboardInterrupt:
            finished, interrupted = [each for each in running if each.done()], True
        for future in finished:
            number = running.pop(future)
            try:
                result = future.result()
            except gone:
                suspects.append(number)
                continue
            yield number, result
        if interrupted:
            raise KeyboardInterrupt


def _in_threads(function: Any, tasks: Sequence[Any], workers: int) -> Iterator[tuple[int, Any]]:
    with ThreadPoolExecutor(workers) as pool:
        submit, waiting = functools.partial(pool.submit, function), [*reversed(range(len(tasks)))]
        yield from _drive(submit, tasks, waiting, workers, (), [], {})


def _in_processes(
    function: Any, tasks: Sequence[Any], workers: int, argument: str
) -> Iterator[tuple[int, Any]]:
    """If a process dies, all that were under way run again, each alone, to see which is to blame.

    loky sends functions by value, so that those of a prompt or a notebook work.
    """
    loky = import_module("joblib.externals.loky")
    kill_process_tree = import_module("joblib.externals.loky.backend.utils").kill_process_tree

    def drive(waiting: list[int], many: int, suspects: list[int]) -> Iterator[tuple[int, Any]]:
        pool = loky.ProcessPoolExecutor(
            many, initializer=_install, initargs=(function, os.getpid()), env=_ONE_CORE
        )

        def submit(task: Any) -> Any:
            try:
                return pool.submit(_call, task)
            except loky.BrokenProcessPool:
                raise
            except Exception as error:  # of whatever cannot be copied, each has its own
                hint = f"Make what it needs inside the function. Python says: {error}."
                checks.fail(argument, "[the function]", "to be fit for another process", hint)

        running: dict[Any, int] = {}
        try:
            gone = (loky.BrokenProcessPool,)
            yield from _drive(submit, tasks, waiting, many, gone, suspects, running)
        finally:
            # `kill_workers` of shutdown can raise in loky's thread while a task is handed over.
            for process in [*(pool._processes or {}).values()] if running else []:
                kill_process_tree(process)
            pool.shutdown(wait=True)

    waiting = list(reversed(range(len(tasks))))
    while waiting:
        suspects: list[int] = []
        yield from drive(waiting, workers, suspects)
        for number in suspects:
            guilty: list[int] = []
            yield from drive([number], 1, guilty)
            yield from ((each, _LOST) for each in guilty)


_function: Any = None


def _install(function: Any, parent: int) -> None:
    """Begin a process: keep the function, and end when nobody waits for it any more."""
    global _function
    _function = function
    # loky's own way of starting processes would be inherited by what the function starts, and fail.
    multiprocessing.set_start_method("spawn", force=True)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)  # the parent was killed, and could not say so


def _call(task: Any) -> Any:
    return _function(task)


def _on_cluster(
    client: Any, function: Any, tasks: Sequence[Any], threads: bool
) -> Iterator[tuple[int, Any]]:
    """Dask gives the tasks of a dead worker to another; what it gives up is sent again."""
    check_client(client)
    gone = (_distributed().KilledWorker, CancelledError)
    waiting, versions = list(reversed(range(len(tasks)))), _versions()
    for _ in range(_ROUNDS):
        suspects: list[int] = []
        running: dict[Any, int] = {}
        with _explained():
            if not client.scheduler_info()["workers"]:  # some start only when there is work
                client.submit(os.getpid, pure=False).result(timeout=_PATIENCE)
            # To every worker, so that a dead one takes nothing with it that nobody else has.
            (sent,) = client.scatter([function], broadcast=True, hash=False)
            submit = functools.partial(
                client.submit, _call_remotely, sent, versions, threads, pure=False
            )
            try:
                yield from _drive(submit, tasks, waiting, len(tasks), gone, suspects, running)
            finally:
                with suppress(Exception):  # the cluster may be gone
                    client.cancel([sent, *running])
        waiting = suspects[::-1]
        if not waiting:
            return
    yield from ((number, _LOST) for number in waiting)


_one_call = threading.Lock()


def _call_remotely(function: Any, versions: dict[str, str], threads: bool, task: Any) -> Any:
    _check_versions(versions, _versions())
    with nullcontext() if threads else _one_call:
        return function(task)


def _check_versions(wanted: dict[str, str], there: dict[str, str]) -> None:
    for name, version in wanted.items():
        if there.get(name) != version:
            hint = "Another version may give other bytes; install the same on every worker."
            checks.fail(f"the worker's {name}", there.get(name), f"to be {version}", hint)


@functools.cache
def _versions() -> dict[str, str]:
    """Versions, in this process, of what makes the bytes."""
    from sordino.randomness import RESULTS

    found = {"python": "{}.{}".format(*sys.version_info), "sordino": RESULTS}
    for name in _PACKAGES:  # without "+cpu" and the like, which name a build
        found[name] = metadata.version(name).partition("+")[0]
    return found


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError:
        hint = "pip install 'sordino[dask]'"
        checks.fail("client", "[Dask]", "to have the package distributed here", hint)


@contextmanager
def _explained() -> Iterator[None]:
    """Turn what a cluster or its workers raise into one sentence; errors of ours pass."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "sordino":
            raise
        what = printable(f"{type(error).__name__}: {error}", 300)
        raise WorkersFailed(
            f"Expected the Dask workers to do their tasks, and one says {what}. Run the same again."
        ) from error
