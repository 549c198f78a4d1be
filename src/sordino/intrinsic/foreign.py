"""`ForeignWork`: any training function measured as our SGD is, in a pool of processes.

A function that raises, returns something else than it should, or takes its process down costs the
cell it was working on, which is recorded with the reason.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import _check
from sordino.data.neighbours import EMPTY, SILENT, UNCHANGED, Neighbours
from sordino.intrinsic import grid as grids
from sordino.intrinsic.cells import Array, Failure, Outcome, run_name
from sordino.store import Cell, Layout

Train = Callable[[Array, Array, int], npt.ArrayLike]

CELL = (1, 10)
"""Seeds and neighbours of a cell: what a kill or a failure costs."""

STEPS = (1,)
"""The one checkpoint: nobody knows how many steps a function takes."""

_TRIALS = 10
_ENDED = "ended its process: crashed, killed, or out of memory"
# One core a process; what the function calls may else take all of them each time.
_ONE_CORE = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


class ForeignWork:
    """Cells trained by a function (X, y, seed) -> weights, one run after the other."""

    def __init__(self, train: Train, neighbours: Neighbours, layout: Layout) -> None:
        self.train = train
        self.neighbours = neighbours
        self.layout = layout

    def cell(self, cell: Cell) -> Outcome:
        """Train one cell; the first run that goes wrong is its reason to fail."""
        weights = np.empty(self.layout.shape_of(cell))
        for row, seed in enumerate(range(cell.seeds.start, cell.seeds.stop)):
            for column, place in enumerate(range(cell.neighbours.start, cell.neighbours.stop)):
                found = attempt(self.train, self.neighbours, self.layout.seeds[seed], place)
                if isinstance(found, str) or found.shape != (self.layout.parameters,):
                    name = run_name(self.layout, seed, place)
                    return Failure(_sentence(found, name, self.layout.parameters))
                weights[row, column, 0] = found
        return weights

    def here(self, cells: Sequence[Cell], workers: int) -> Iterator[tuple[Cell, Outcome]]:
        """Train cells in processes of their own, which end with this generator."""
        for cell, outcome in _train_all(self.cell, cells, min(workers, len(cells))):
            lost = Failure(f"For one of its runs, the function {_ENDED}")
            yield cell, lost if outcome is _LOST else outcome

    def versions(self) -> dict[str, str]:
        """Versions, in this process, of what makes the bytes."""
        return grids.versions(engine=False)


def attempt(train: Train, neighbours: Neighbours, seed: int, place: int) -> Array | str:
    """Weights of one run, or what went wrong."""
    try:
        found = train(*arrays(neighbours, place), seed)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever it is, the other runs go on
        return f"raised {type(error).__name__}: {_said(error)}"
    try:
        given = np.asarray(found)
        if given.dtype.kind not in "fiub":  # neither words nor complex numbers
            raise TypeError
        weights = given.astype(np.float64)
    except Exception:
        return f"returned {type(found).__name__}, not an array of real numbers"
    if weights.ndim != 1 or not len(weights):
        return f"returned an array of shape {weights.shape}, not one row of weights"
    if not np.isfinite(weights).all():
        return "returned weights that are not finite"
    return weights


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an error that cannot even say what it is
        return "no words"


def arrays(neighbours: Neighbours, place: int) -> tuple[Array, Array]:
    """X and y of one neighbouring dataset: a copy, with which a function may do what it likes."""
    dataset, rows = neighbours.dataset, neighbours.members.copy()
    if neighbours.slot[place] != UNCHANGED:
        rows[neighbours.slot[place]] = neighbours.occupant[place]
    rows = rows[rows != EMPTY]
    own = rows[rows < dataset.rows]
    if len(own) == len(rows):
        return dataset.X[rows], dataset.y[rows]
    assert neighbours.extra_X is not None
    assert neighbours.extra_y is not None
    X = np.concatenate([dataset.X, neighbours.extra_X.astype(dataset.X.dtype)])
    y = np.concatenate([dataset.y, neighbours.extra_y.astype(dataset.y.dtype)])
    return X[rows], y[rows]


def check(train: object, neighbours: Neighbours) -> None:
    """Refuse what can be seen to be wrong before anything is run."""
    if not callable(train):
        hint = "Pass a function (X, y, seed) that returns its weights."
        _check.fail("train", type(train).__name__, "to be a function", hint)
    if (neighbours.occupant[neighbours.slot != UNCHANGED] == SILENT).any():
        hint = "A function is given rows; use neighbours.replace or neighbours.remove."
        _check.fail("neighbours", "[silent records]", "to be records, replaced or removed", hint)


def described(train: Train, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is known of a function: its name, its source where that can be read, its settings.

    What it carries beside its source (arguments of a partial, defaults, closed-over values,
    attributes of an object) counts as a setting, too: with others it is another training.

    Raises
    ------
    InvalidArgument
        If it carries what cannot be written down and no settings say what it is.
    """
    plain: Any = train
    carried: list[Any] = []
    while isinstance(plain, functools.partial):
        carried += [list(plain.args), dict(plain.keywords)]
        plain = plain.func
    named = plain if hasattr(plain, "__qualname__") else type(plain)
    if named is plain:
        code = getattr(plain, "__func__", plain)
        cells = getattr(code, "__closure__", None) or ()
        carried += [getattr(code, "__defaults__", None), getattr(code, "__kwdefaults__", None)]
        carried += [cell.cell_contents for cell in cells]
        carried.append(getattr(getattr(plain, "__self__", None), "__dict__", None))
    else:
        carried.append(getattr(plain, "__dict__", None))
    digest = _digest([each for each in carried if not _nothing(each)], settings)
    try:
        source = hashlib.sha256(inspect.getsource(named).encode()).hexdigest()
    except (OSError, TypeError):  # typed at a prompt, or compiled
        source = None
    return {
        "function": {
            "name": str(named.__qualname__),
            "source_sha256": source,
            "carries_sha256": digest,
            "settings": dict(settings or {}),
        }
    }


def _digest(carried: list[Any], settings: Mapping[str, Any] | None) -> str | None:
    """Of what a function carries; None if that cannot be written down but settings name it."""
    if not carried:
        return None
    try:
        return hashlib.sha256(repr([_written(each) for each in carried]).encode()).hexdigest()
    except TypeError as error:
        if settings:
            return None
        hint = "Name what it depends on in spec={...}, so that another setting is another study."
        _check.fail("train", "[the function]", f"to carry plain values only, not {error}", hint)


def _nothing(value: Any) -> bool:
    return value is None or (isinstance(value, list | tuple | dict) and not value)


def _written(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if isinstance(value, Mapping):
        return sorted((str(key), _written(each)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return [_written(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value)
        return [array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
    if inspect.ismodule(value) or inspect.isclass(value) or inspect.isroutine(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"
    raise TypeError(type(value).__name__)


def parameters(train: Train, neighbours: Neighbours, seeds: Sequence[int]) -> int:
    """How many weights the function returns, tried on the first dataset until two seeds agree.

    Raises
    ------
    InvalidArgument
        If no trial gives any; the sentence says what happened to the first.
    """
    lengths: Counter[int] = Counter()
    reasons: list[str] = []
    trial = functools.partial(_trial, train, neighbours)
    for _, found in _train_all(trial, seeds[:_TRIALS], 1):
        if isinstance(found, int):
            lengths[found] += 1
            if lengths[found] == 2:
                break
        else:
            reasons.append(_ENDED if found is _LOST else found)
    if not lengths:
        _check.fail("train", "[the function]", f"to return weights, and it {reasons[0]}")
    return lengths.most_common(1)[0][0]


def _trial(train: Train, neighbours: Neighbours, seed: int) -> int | str:
    found = attempt(train, neighbours, seed, 0)
    return found if isinstance(found, str) else len(found)


def _sentence(found: Array | str, run: str, wanted: int) -> str:
    what = found if isinstance(found, str) else f"returned {len(found)} weights, not {wanted}"
    return f"For {run}, the function {what}"


def _train_all(work: Any, items: Sequence[Any], workers: int) -> Iterator[tuple[Any, Any]]:
    """Call `work` on each item in other processes; yield (item, result) in any order.

    If a process dies, all that were under way are tried again, each alone: the one that takes its
    process down once more is to blame, and its result is `_LOST`.
    """
    waiting = list(reversed(items))
    while waiting:
        suspects: list[Any] = []
        with _Pool(work, workers) as pool:
            while (waiting and not suspects) or pool.running:
                while waiting and not suspects and len(pool.running) < workers:
                    pool.start(waiting.pop())
                for item, result in pool.finished():
                    if result is _LOST:
                        suspects.append(item)
                    else:
                        yield item, result
        for item in suspects:
            with _Pool(work, 1) as pool:
                pool.start(item)
                (again,) = pool.finished()
            yield again


_LOST = object()


class _Pool:
    """Processes that were sent the work once, and are sent items from then on."""

    def __init__(self, work: Any, workers: int) -> None:
        # loky sends functions by value, so that those typed at a prompt or in a notebook work.
        self._loky = import_module("joblib.externals.loky")
        self._pool = self._loky.ProcessPoolExecutor(
            workers, initializer=_install, initargs=(work, os.getpid()), env=_ONE_CORE
        )
        self.running: dict[Future[Any], Any] = {}

    def start(self, item: Any) -> None:
        """Send an item to the next free process."""
        try:
            self.running[self._pool.submit(_call, item)] = item
        except self._loky.BrokenProcessPool:
            lost: Future[Any] = Future()
            lost.set_exception(self._loky.BrokenProcessPool())
            self.running[lost] = item
        except Exception as error:  # of whatever cannot be copied, each has its own
            hint = f"Make what it needs inside the function. Python says: {error}."
            _check.fail("train", "[the function]", "to be fit for another process", hint)

    def finished(self) -> list[tuple[Any, Any]]:
        """Wait for at least one result; that of a process that died is `_LOST`."""
        done, _ = wait(self.running, return_when=FIRST_COMPLETED)
        results = []
        for future in done:
            item = self.running.pop(future)
            try:
                results.append((item, future.result()))
            except self._loky.BrokenProcessPool:
                results.append((item, _LOST))
        return results

    def __enter__(self) -> _Pool:
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
