"""`Called`: runs of an estimator or a callable, here or in other processes.

Confidence rests on runs that are independent of each other. A callable is handed a generator of its
own for each run. Whoever draws elsewhere, as most estimators do, draws from the operating system or
from a global generator, which is begun anew for every block of runs in every process: processes
that start alike must not repeat each other.
"""

from __future__ import annotations

import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import _check
from sordino.data.dataset import Dataset
from sordino.intrinsic.pool import ENDED, LOST, run_all
from sordino.seeding import SeededStreams

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]
Output = Callable[[Any], npt.ArrayLike]

BATCH = 1000
"""Runs of one call of a callable with `batched = True`."""

_SEEDS = ("random_state", "seed")
_QUICK_SECONDS = 2.0
_KNOWN_SECONDS = 0.05
_BLOCK_SECONDS = 0.5
_BLOCK_BYTES = 1 << 26
_TOLD = "Every run must give real, finite numbers of one shape."


@dataclass(frozen=True)
class Task:
    """Runs start..stop-1 of one world."""

    world: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Wrong:
    """What went wrong in a run, as a verb: "raised ValueError: ..."."""

    what: str


@dataclass(frozen=True, eq=False)
class Block:
    """Outputs [run, value] of a task, and the shape that each run returned them in."""

    values: Floats
    shape: tuple[int, ...]


def is_estimator(mechanism: object) -> bool:
    """Whether it follows scikit-learn: `fit` and `get_params`."""
    return hasattr(mechanism, "fit") and hasattr(mechanism, "get_params")


def is_batched(mechanism: object) -> bool:
    """Whether a callable makes many runs at once: (data, generator, runs) -> [run, value]."""
    inner = getattr(mechanism, "func", None)  # of a partial
    return bool(getattr(mechanism, "batched", getattr(inner, "batched", False)))


def check_estimator(estimator: Any) -> None:
    """Refuse an estimator whose runs would repeat each other, or be charged to a ledger."""
    from sordino.mechanisms.ledger_open import is_open

    for name, value in sorted(estimator.get_params(deep=True).items()):
        if name.rpartition("__")[2] in _SEEDS and value is not None:
            hint = (
                "Every run would repeat the same noise, and the bound would be about that seed "
                "alone, not about the mechanism."
            )
            _check.fail(name, value, "to be None", hint)
    if is_open():
        hint = "Close it first: an audit fits thousands of models that are never released."
        _check.fail("ledger", "[open]", "to be closed while estimators are audited", hint)


class Called:
    """A mechanism and its two worlds; called with a task it returns a `Block`, or what went wrong.

    It can be sent to another process.
    """

    def __init__(
        self, mechanism: Any, worlds: tuple[Any, Any], seed: int, output: Output | None
    ) -> None:
        self.mechanism = mechanism
        self.worlds = worlds
        self.streams = SeededStreams(f"audit {seed}")
        self.output = output

    def __call__(self, task: Task) -> Block | Wrong:
        """Make the runs of one task."""
        with own_randomness(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # thousands of them, of models nobody keeps
            loaded = "torch" in sys.modules
            found = self._guarded(task)
            if not loaded and "torch" in sys.modules:
                # It was loaded just now, with the seed that it has in every process.
                _reseed()
                found = self._guarded(task)
        return found

    def _guarded(self, task: Task) -> Block | Wrong:
        try:
            return self._runs(task)
        except KeyboardInterrupt:
            raise
        except _WrongRun as error:
            return Wrong(str(error))
        except BaseException as error:  # whatever a mechanism raises is told in a sentence
            return Wrong(f"raised {type(error).__name__}: {_said(error)}")

    def _runs(self, task: Task) -> Block:
        data = self.worlds[task.world]
        if is_estimator(self.mechanism):
            return _stacked([self._fitted(data) for _ in range(len(task))])
        call, data = self.mechanism, _read_only(data)
        if is_batched(call):
            generator = self.streams.stream("batch", task.world, task.start)
            given = call(data, generator, len(task))
            values = _numbers(given if self.output is None else self.output(given))
            if values.ndim == 0 or len(values) != len(task):
                raise _WrongRun(f"returned shape {values.shape} for {len(task)} runs")
            return _checked(values.reshape(len(task), -1), values.shape[1:])
        return _stacked([self._called(call, data, task.world, run) for run in _range(task)])

    def _called(self, call: Any, data: Any, world: int, run: int) -> Array:
        given = call(data, self.streams.stream("run", world, run))
        return _numbers(given if self.output is None else self.output(given))

    def _fitted(self, data: Any) -> Array:
        from sklearn.base import clone

        X, y = (data.X, data.y) if isinstance(data, Dataset) else data
        fitted = clone(self.mechanism).fit(X.copy(), y.copy())
        return _numbers(linear_weights(fitted) if self.output is None else self.output(fitted))


class _WrongRun(Exception):
    """Its text is a verb of `Wrong`."""


def linear_weights(fitted: Any) -> Array:
    """coef_ and intercept_ of a fitted estimator, in one row."""
    if not hasattr(fitted, "coef_"):
        raise _WrongRun("has no coef_ after fit: pass output=, a function of the fitted estimator")
    parts = [np.ravel(fitted.coef_)]
    if getattr(fitted, "fit_intercept", True) is not False and hasattr(fitted, "intercept_"):
        parts.append(np.ravel(fitted.intercept_))
    return np.concatenate(parts)


def run(called: Called, wanted: Sequence[Task], workers: int) -> Iterator[tuple[Task, Block]]:
    """Make all runs of the tasks, in blocks: here where that is quick, else in a pool.

    Raises
    ------
    InvalidArgument
        If a run goes wrong; the sentence says which and how.
    """
    left = _Left(wanted, BATCH if is_batched(called.mechanism) else None)
    size, done, most = 1, 0, 1
    while left.runs:
        task = left.take(size)
        started = time.perf_counter()
        block = _judged(task, called(task))
        spent = time.perf_counter() - started
        yield task, block
        done += 1
        most = _size(spent / len(task), block.values.shape[1])
        # The first call also loads and compiles, and short ones say little.
        known = done > 1 and (spent > _KNOWN_SECONDS or size >= most)
        if known and workers > 1 and spent / len(task) * left.runs > _QUICK_SECONDS:
            break
        size = min(4 * size, most)
    if left.runs:
        tasks = left.cut(most)
        for task, found in run_all(called, tasks, min(workers, len(tasks)), name="mechanism"):
            yield task, _judged(task, found)


def _size(seconds: float, parameters: int) -> int:
    in_time = _BLOCK_SECONDS / max(seconds, 1e-7)
    return max(1, int(min(in_time, _BLOCK_BYTES / (8 * parameters))))


class _Left:
    """Runs that are still to be made, taken in pieces."""

    def __init__(self, tasks: Sequence[Task], batch: int | None) -> None:
        self._tasks = list(reversed(tasks))
        self._batch = batch

    @property
    def runs(self) -> int:
        return sum(len(task) for task in self._tasks)

    def take(self, most: int) -> Task:
        """The next runs: `most`, or one batch."""
        task = self._tasks.pop()
        many = most
        if self._batch:  # the same batches whatever was done before
            many = self._batch - task.start % self._batch
        stop = min(task.start + many, task.stop)
        if stop < task.stop:
            self._tasks.append(Task(task.world, stop, task.stop))
        return Task(task.world, task.start, stop)

    def cut(self, most: int) -> list[Task]:
        """All of them."""
        found = []
        while self._tasks:
            found.append(self.take(most))
        return found


def _judged(task: Task, found: Any) -> Block:
    if not isinstance(found, Block):
        what = ENDED if found is LOST else found.what
        run = f"[run {task.start} on {('D', 'D_prime')[task.world]}]"
        _check.fail("mechanism", run, f"to succeed, and it {what}", _TOLD)
    return found


def _range(task: Task) -> range:
    return range(task.start, task.stop)


def _numbers(given: Any) -> Array:
    try:
        values = np.asarray(given)
    except Exception:
        raise _WrongRun(f"returned {type(given).__name__}, not an array of numbers") from None
    if values.dtype.kind not in "fiub" or not values.size:
        raise _WrongRun(f"returned {type(given).__name__}, not an array of real numbers")
    return values.astype(np.float64)


def _stacked(rows: Sequence[Array]) -> Block:
    shapes = sorted({row.shape for row in rows})
    if len(shapes) > 1:
        raise _WrongRun(f"returned different shapes: {shapes[0]} and {shapes[1]}")
    return _checked(np.stack([row.ravel() for row in rows]), rows[0].shape)


def _checked(values: Floats, shape: tuple[int, ...]) -> Block:
    if not np.isfinite(values).all():
        raise _WrongRun("returned NaN or infinity")
    return Block(values, shape)


def _read_only(data: Any) -> Any:
    """The same data, in arrays that a run cannot change for the next one."""
    if type(data) is tuple:
        return tuple(map(_read_only, data))
    if isinstance(data, np.ndarray):
        data = data.view()
        data.flags.writeable = False
    return data


@contextmanager
def own_randomness() -> Iterator[None]:
    """Global generators from fresh entropy meanwhile; afterwards as they were."""
    numpys, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002 - others use it
    torch = sys.modules.get("torch")
    torchs = None if torch is None else torch.get_rng_state()
    _reseed()
    try:
        yield
    finally:
        np.random.set_state(numpys)  # noqa: NPY002
        random.setstate(pythons)
        if torch is not None:
            torch.set_rng_state(torchs)


def _reseed() -> None:
    np.random.seed()  # noqa: NPY002
    random.seed()
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)


def _said(error: BaseException) -> str:
    try:
        return " ".join(str(error).split())[:300]
    except Exception:  # an error that cannot even say what it is
        return "no words"
