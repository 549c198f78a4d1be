"""Functions and estimators of users, run on D and D' in turn, here or in other processes.

A bound rests on runs that are independent of each other, so there is a contract: a function draws
only from the generator that it is given, one for each run, and keeps no state between calls. (An
estimator is given none: it draws from the system or from global generators, which are begun anew
for every block of runs.) The code is not looked into. What comes out is: where two blocks of runs,
given different generators, return the same sequence of outputs, the audit stops (`check_repeats`).
A mechanism that always returns the same, or has few outcomes, is not stopped but attacked.

D and D' take turns, run by run: a mechanism that drifts while it is called would else look
different on D, which came first, than on D'. No run can change the data of the next one.
"""

from __future__ import annotations

import copy
import math
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import checks, tasks
from sordino.audit.runners.runner import Blocks, Runner, Stretch, digest, in_both
from sordino.data.dataset import Dataset
from sordino.types import Array, Floats

Output = Callable[[Any], npt.ArrayLike]
"""From what a mechanism returns, or a fitted estimator, to the numbers that are released."""

_SEEDS = ("random_state", "seed", "random_seed", "rng", "generator")
_GENERATORS = (
    *(np.random.Generator, np.random.RandomState, np.random.BitGenerator),
    *(np.random.SeedSequence, random.Random),
)
_BATCH = 1000  # runs of one call of a batched function; part of what a seed stands for
_QUICK_SECONDS = 2.0  # what takes less stays in this process
_BLOCK_SECONDS = 0.5
_SHAPES = "Every run must give real, finite numbers of one shape."


def is_estimator(mechanism: object) -> bool:
    """Whether it follows scikit-learn: `fit` and `get_params`."""
    return hasattr(mechanism, "fit") and hasattr(mechanism, "get_params")


def check_estimator(estimator: Any) -> None:
    """Refuse an estimator whose runs would repeat each other, or be charged to a ledger."""
    from sordino.release.ledger import is_open

    given = estimator.get_params(deep=True)
    for name in sorted(given, key=lambda name: (-name.count("__"), name)):  # the innermost first
        value = given[name]
        generator = isinstance(value, _GENERATORS) or type(value).__name__ == "Generator"  # torch's
        if generator or (name.rpartition("__")[2] in _SEEDS and value is not None):
            checks.fail(name, value, "to be None", "The bound would be about that seed.")
    if is_open():
        checks.fail("ledger", "[open]", "to be closed while estimators are audited")


class Functions(Runner):
    """Runs of an estimator or a function; blocks of them may be made in any process."""

    def __init__(self, mechanism: Any, D: Any, D_prime: Any, seed: int, output: Output | None):
        super().__init__(mechanism, D, D_prime, seed)
        self.output = output
        inner = getattr(mechanism, "func", None)  # of a partial
        self.batched = bool(getattr(mechanism, "batched", getattr(inner, "batched", False)))

    def description(self) -> dict[str, Any]:
        """What is run, for a file; refused where it cannot be told from something else."""
        parts = {"mechanism": self.mechanism, "output": self.output}
        parts |= dict(zip(("D", "D_prime"), self.worlds, strict=True))
        digests = {name: digest(part) for name, part in parts.items()}
        for name, known in digests.items():
            if known is None:
                checks.fail(name, type(parts[name]).__name__, "to be plain", "Or leave out file=.")
        return {**digests, "seed": self.seed}

    def __call__(self, runs: int, missing: list[Stretch], workers: int, client: Any) -> Blocks:
        """Here where that is quick, else in processes or on the client's workers.

        A batched function stays here: it is quick, or has cores of its own to use.
        """
        left = in_both(missing, _BATCH if self.batched else runs)[::-1] if missing else []
        size, blocks, values = _BATCH if self.batched else 1, 0, None
        while left:
            whole = left.pop()
            block = whole[:size]
            left += [whole[size:]] if len(whole) > size else []
            started = time.perf_counter()
            values = self._checked(self._block(block), values)
            each, blocks = (time.perf_counter() - started) / len(block), blocks + 1
            yield from _by_world(block, values)
            if self.batched:
                continue
            room = min(_BLOCK_SECONDS / max(each, 1e-7), (1 << 26) / values[0, 0].nbytes)
            # From 4 runs on a repeated block is noticed.
            size = max(4, int(min(room, 4 * size))) if blocks > 1 else 1
            seconds = each * sum(map(len, left))
            # The first block does not count, which also loads and compiles.
            if blocks > 1 and seconds > _QUICK_SECONDS and (workers > 1 or client is not None):
                pieces = [run[i : i + size] for run in left[::-1] for i in range(0, len(run), size)]
                where = {"workers": workers, "client": client, "argument": "mechanism"}
                for block, result in tasks.run(self._block, pieces, lost=_lost, **where):
                    values = self._checked(result, values)
                    yield from _by_world(block, values)
                return

    @staticmethod
    def _checked(result: Floats | _Wrong, before: Floats | None) -> Floats:
        if isinstance(result, tuple):
            run, what = result
            checks.fail("mechanism", f"[{run}]", f"to succeed, and it {what}", _SHAPES)
        if before is not None and result.shape[2:] != before.shape[2:]:
            shapes = f"[shapes {before.shape[2:]} and {result.shape[2:]}]"
            checks.fail("mechanism", shapes, "to return one shape every time", _SHAPES)
        return result

    def _block(self, runs: range) -> Floats | _Wrong:
        """Outputs [world, run, ...] of these runs, or what went wrong."""
        before = "torch" in sys.modules
        result = self._attempt(runs)
        if not before and "torch" in sys.modules:
            # It was loaded just now, with the seed that it has in every process.
            result = self._attempt(runs)
        return result

    def _attempt(self, runs: range) -> Floats | _Wrong:
        # The same turns in every block, so that copies of a generator would repeat each other.
        first = self.streams.stream("turns").permutation(len(runs)) % 2
        turns = [
            (run, int(coin) ^ second)
            for run, coin in zip(runs, first, strict=True)
            for second in (0, 1)
        ]
        if self.batched:
            coin = int(self.streams.stream("turns", runs.start).integers(2))
            turns = [(runs.start, coin), (runs.start, 1 - coin)]
        rows: tuple[list[Array], list[Array]] = [], []
        try:
            with _fresh_randomness(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # thousands of them, of models nobody keeps
                for run, world in turns:
                    rows[world].append(self._run(run, world, len(runs)))
            shapes = sorted({row.shape for row in rows[0] + rows[1]})
            if len(shapes) > 1:
                raise _WrongRunError(f"returned shapes {shapes[0]} and {shapes[1]}")
            return np.array([each[0] if self.batched else each for each in rows], dtype=np.float64)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a mechanism raises is told in a sentence
            wrong = isinstance(error, _WrongRunError)
            what = str(error) if wrong else f"raised {type(error).__name__}: {error_text(error)}"
            return f"run {run} on {('D', 'D_prime')[world]}", what

    def _run(self, run: int, world: int, many: int) -> Array:
        data, fits = self.worlds[world], is_estimator(self.mechanism)
        if fits:
            from sklearn.base import clone

            X, y = (data.X, data.y) if isinstance(data, Dataset) else data
            given = clone(self.mechanism).fit(copy.deepcopy(X), copy.deepcopy(y))
        elif self.batched:
            given = self.mechanism(_fresh(data), self.streams.stream("batch", world, run), many)
        else:
            given = self.mechanism(_fresh(data), self.streams.stream("run", world, run))
        if self.output is not None:
            given = self.output(given)
        elif fits:
            given = _linear_weights(given)
        kind = type(given).__name__
        try:
            values = np.asarray(given)
        except Exception:
            raise _WrongRunError(f"returned {kind}") from None
        if values.dtype.kind not in "fiub" or not values.size:
            raise _WrongRunError(f"returned {kind}")
        if not np.isfinite(values).all():
            raise _WrongRunError("returned NaN or infinity")
        if self.batched and (values.ndim == 0 or len(values) != many):
            raise _WrongRunError(f"returned shape {values.shape} for {many} runs")
        return values


_Wrong = tuple[str, str]
"""Which run went wrong, and how, as a verb: "raised ValueError: ..."."""


class _WrongRunError(Exception):
    """Its text is a verb of `_Wrong`."""


def _lost(runs: range) -> _Wrong:
    return f"run {runs.start} or one of the next {len(runs)}", tasks.ENDED


def _by_world(block: range, values: Floats) -> Blocks:
    rows = values.reshape(2, len(block), -1)
    return ((world, block.start, rows[world]) for world in (0, 1))


def _linear_weights(fitted: Any) -> Array:
    """coef_ and intercept_ of a fitted estimator, in one row."""
    if not hasattr(fitted, "coef_"):
        raise _WrongRunError("has no coef_ after fit (pass output=)")
    parts = [np.ravel(fitted.coef_)]
    if getattr(fitted, "fit_intercept", True) is not False and hasattr(fitted, "intercept_"):
        parts.append(np.ravel(fitted.intercept_))
    return np.concatenate(parts)


def check_repeats(worlds: Sequence[Floats], blocks: Sequence[range]) -> None:
    """Refuse outputs that repeat each other, block by block, though their generators differ.

    Copies of one generator do that, in several processes, or begun anew with each call or each
    resumption. How probable equal outputs are is seen within blocks: of mechanisms with few
    outcomes longer sequences would have to be equal, and longer ones than all of a constant one.

    Raises
    ------
    InvalidArgument
        With what to do.
    """
    keys = np.stack([row_hashes(world) for world in worlds])
    equal = pairs = 0
    for block in blocks:
        for row in keys[:, block.start : block.stop]:
            many = np.unique(row, return_counts=True)[1]
            equal, pairs = equal + int((many * (many - 1)).sum()), pairs + len(row) * (len(row) - 1)
    alike = (equal + 1) / (pairs + 1)
    if alike >= 1:
        return
    # A mechanism which keeps the contract is stopped with a chance of 1e-6.
    least = math.ceil(math.log(1e-6 / len(blocks) ** 2) / math.log(alike) / 2)
    begun = [keys[:, each.start : each.start + least] for each in blocks if len(each) >= least]
    if len({each.tobytes() for each in begun}) < len(begun):
        wanted = "to draw only from the generator that it is given: runs repeat others"
        checks.fail("mechanism", "[the function]", wanted, "One of its own needs workers=1.")


def _fresh(data: Any) -> Any:
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
        return type(data)(map(_fresh, data))
    if type(data) is dict:
        return {key: _fresh(value) for key, value in data.items()}
    try:
        return copy.deepcopy(data)
    except Exception:  # of whatever cannot be copied, each has its own
        return data


@contextmanager
def _fresh_randomness() -> Iterator[None]:
    """Global generators from fresh entropy meanwhile; afterwards as they were."""
    numpys, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002 - others use it
    torch = sys.modules.get("torch")
    np.random.seed()  # noqa: NPY002
    random.seed()
    if torch is not None:
        torchs = torch.get_rng_state()
        number = int.from_bytes(os.urandom(8), "little") >> 1
        # torch.manual_seed would also queue this seed, each time, for devices that are never used.
        torch.default_generator.manual_seed(number)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(number)
    try:
        yield
    finally:
        np.random.set_state(numpys)  # noqa: NPY002
        random.setstate(pythons)
        if torch is not None:
            torch.set_rng_state(torchs)


def error_text(error: BaseException, most: int = 300) -> str:
    """What an error of a user's function says, on one line."""
    try:
        return " ".join(str(error).split())[:most]
    except Exception:  # an error that cannot even say what it is
        return "no words"


def row_hashes(rows: Floats) -> npt.NDArray[np.uint64]:
    """64 bits for each row: equal for equal rows, and next to never for others."""
    mixed = np.ascontiguousarray(rows + 0.0).view(np.uint64).copy()  # -0.0 is 0.0
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    odd = np.random.default_rng(0).integers(0, 1 << 63, rows.shape[1], dtype=np.uint64) * 2 + 1
    return np.asarray((mixed * odd.astype(np.uint64)).sum(axis=1, dtype=np.uint64))
