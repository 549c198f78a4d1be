"""`Called`: runs of an estimator or a callable, in whatever process.

Confidence rests on runs that are independent of each other. A callable is handed a generator of its
own for each run. Whoever draws elsewhere, as most estimators do, draws from the operating system or
from a global generator, which is begun anew for every block of runs in every process: processes
that start alike must not repeat each other. (What carries a state of its own stays in one process:
`sordino.audit.turns`.) No run can change the data of the next one.
"""

from __future__ import annotations

import copy
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.data.dataset import Dataset
from sordino.intrinsic.generators import carried
from sordino.randomness import SeededStreams
from sordino.types import Array, Floats

Output = Callable[[Any], npt.ArrayLike]

_SEEDS = ("random_state", "seed", "random_seed", "rng", "generator")


@dataclass(frozen=True)
class Stretch:
    """Runs start..stop-1 of one world."""

    world: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def blocks(self, size: int) -> Iterator[Stretch]:
        """The same in pieces that end where whole blocks of all runs end."""
        for start in range(self.start - self.start % size, self.stop, size):
            yield Stretch(self.world, max(start, self.start), min(start + size, self.stop))


@dataclass(frozen=True)
class Rehearsal:
    """The runs of a task, twice, with the same generators given and the same global ones."""

    task: Stretch


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
    from sordino.release.ledger import is_open

    given = estimator.get_params(deep=True)
    for name in sorted(given, key=lambda name: (-name.count("__"), name)):  # the innermost first
        value = given[name]
        if name.rpartition("__")[2] in _SEEDS and value is not None:
            hint = (
                "Every run would repeat the same noise, and the bound would be about that seed "
                "alone, not about the mechanism."
            )
            checks.fail(name, value, "to be None", hint)
        if kind := carried(value, code=False):
            hint = (
                "Every run fits a clone, with a copy of that generator, and would repeat the same "
                "noise: make it inside fit."
            )
            checks.fail(name, f"[holds a {kind}]", "to hold no generator", hint)
    if is_open():
        hint = "Close it first: an audit fits thousands of models that are never released."
        checks.fail("ledger", "[open]", "to be closed while estimators are audited", hint)


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

    def __call__(self, item: Stretch | Rehearsal) -> Block | Wrong | tuple[Block | Wrong, ...]:
        """Make the runs of one task, or rehearse them."""
        with own_randomness(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # thousands of them, of models nobody keeps
            if isinstance(item, Rehearsal):
                return self._rehearsed(item.task)
            loaded = "torch" in sys.modules
            found = self._guarded(item)
            if not loaded and "torch" in sys.modules:
                # It was loaded just now, with the seed that it has in every process.
                _reseed()
                found = self._guarded(item)
        return found

    def _rehearsed(self, task: Stretch) -> tuple[Block | Wrong, ...]:
        self._guarded(Stretch(task.world, task.start, task.start + 1))  # loads what it needs
        found = []
        for _ in range(2):
            _reseed(0)
            found.append(self._guarded(task))
        return tuple(found)

    def _guarded(self, task: Stretch) -> Block | Wrong:
        try:
            return self._runs(task)
        except KeyboardInterrupt:
            raise
        except _WrongRun as error:
            return Wrong(str(error))
        except BaseException as error:  # whatever a mechanism raises is told in a sentence
            return Wrong(f"raised {type(error).__name__}: {_said(error)}")

    def _runs(self, task: Stretch) -> Block:
        data = self.worlds[task.world]
        if is_estimator(self.mechanism):
            return _stacked([self._fitted(data) for _ in range(len(task))])
        call = self.mechanism
        if is_batched(call):
            generator = self.streams.stream("batch", task.world, task.start)
            given = call(fresh(data), generator, len(task))
            values = _numbers(given if self.output is None else self.output(given))
            if values.ndim == 0 or len(values) != len(task):
                raise _WrongRun(f"returned shape {values.shape} for {len(task)} runs")
            return _checked(values.reshape(len(task), -1), values.shape[1:])
        return _stacked([self._called(call, data, task.world, run) for run in _range(task)])

    def _called(self, call: Any, data: Any, world: int, run: int) -> Array:
        given = call(fresh(data), self.streams.stream("run", world, run))
        return _numbers(given if self.output is None else self.output(given))

    def _fitted(self, data: Any) -> Array:
        from sklearn.base import clone

        X, y = (data.X, data.y) if isinstance(data, Dataset) else data
        fitted = clone(self.mechanism).fit(copy.deepcopy(X), copy.deepcopy(y))
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


def _range(task: Stretch) -> range:
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


def fresh(data: Any) -> Any:
    """The same data for one run, which cannot change the next one's: arrays read-only, else copied.

    Arrays may be large, hence no copies of them.
    """
    if isinstance(data, Dataset):
        return data
    if isinstance(data, np.ndarray) and not data.dtype.hasobject:
        data = data.view()
        data.flags.writeable = False
        return data
    if type(data) in (tuple, list):
        return type(data)(map(fresh, data))
    if type(data) is dict:
        return {key: fresh(value) for key, value in data.items()}
    try:
        return copy.deepcopy(data)
    except Exception:  # of whatever cannot be copied, each has its own
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


def _reseed(seed: int | None = None) -> None:
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    if (torch := sys.modules.get("torch")) is not None:
        number = int.from_bytes(os.urandom(8), "little") >> 1 if seed is None else seed
        # torch.manual_seed would also queue this seed, each time, for devices that are never used.
        torch.default_generator.manual_seed(number)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(number)


def _said(error: BaseException) -> str:
    try:
        return " ".join(str(error).split())[:300]
    except Exception:  # an error that cannot even say what it is
        return "no words"
