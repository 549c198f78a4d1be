"""Outputs of a mechanism in two worlds: thousands of runs on D, and thousands on D'.

A mechanism is a `TrainedRelease` (our SGD: all runs at once, by the engine), another of our own
releases that is made many at a time (`minimised.py`, `trained.py`), an estimator (cloned and
fitted for each run) or a callable (data, generator) -> output.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from sordino import _cost, checks
from sordino.audit import called, turns
from sordino.audit.called import Called, Output, Stretch
from sordino.audit.minimised import Minimised, MinimisedFit
from sordino.audit.score_file import OutputFile, digest
from sordino.audit.trained import Found, Trained, TrainedAll, TrainedProblems, TrainedRelease
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.errors import InvalidArgument
from sordino.intrinsic import foreign, source
from sordino.intrinsic.generators import carried
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats, Progress

_OF_RUN = 64
"""Bytes that a run takes beside its output: its score, and what bounds make of scores."""

__all__ = ["Progress", "TrainedRelease", "as_dataset", "identity", "outputs"]


def outputs(
    mechanism: Any,
    D: Any,
    D_prime: Any,
    runs: int,
    *,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
    file: str | os.PathLike[str] | None = None,
    output: Output | None = None,
) -> tuple[Floats, Floats]:
    """Run a mechanism `runs` times on D and as often on D'.

    Parameters
    ----------
    mechanism
        A `TrainedRelease` or a `TrainSpec`; an estimator with `fit` and `get_params`; or a callable
        (data, generator) -> numbers. A callable with the attribute `batched = True` is called as
        (data, generator, runs) and returns [run, ...], independent runs: as fast as numpy.
    D, D_prime
        For our SGD `Dataset`s (`D_prime` may also be a neighbour of D, by
        `sordino.data.neighbours`); for an estimator `Dataset`s or tuples (X, y); a callable is
        handed what is given here.
    runs
        In each world.
    seed
        Of orders, starts, the engine's noise, and generators. What an estimator draws from the
        system is fresh every time.
    workers
        Threads of the engine or processes of the pool; all cores by default. In this process stay
        runs that are a matter of a second, batched callables, and what carries a generator or
        another state of its own, whose copies would repeat each other.
    progress
        Called with (runs done, runs in all), of both worlds together.
    file
        Keep outputs there, and go on from what it holds.
    output
        From what a callable returns, or a fitted estimator, to the numbers that are released. By
        default the numbers themselves, or coef_ and intercept_.

    Returns
    -------
    negative, positive
        [run, value] of D and of D'.

    Raises
    ------
    InvalidArgument
        If a run fails, or returns another shape than the others, or numbers that are not finite.
    OutputFileError
        If the file is of another mechanism, dataset or seed.
    """
    from sordino.tasks import available_cores

    checks.whole("runs", runs, at_least=1)
    checks.whole("seed", seed)
    cores = available_cores() if workers is None else checks.whole("workers", workers, at_least=1)
    if isinstance(mechanism, TrainSpec):
        mechanism = TrainedRelease(mechanism)
    maker = _maker(mechanism, D, D_prime, seed, output)
    made = _Made(runs, progress)
    if file is None:
        made.take(maker(runs, made.missing(), cores))
        return made.worlds()
    with OutputFile(file, maker.described()) as kept:
        made.take(kept.blocks())
        for world, start, values in maker(runs, made.missing(), cores):
            kept.append(world, start, values)
            made.take(iter([(world, start, values)]))
    return made.worlds()


def identity(mechanism: Any, D: Any, D_prime: Any) -> str | None:
    """SHA-256 of code, settings and data; None where they cannot be written down.

    Then `outputs` cannot keep runs in a file, either.
    """
    if isinstance(mechanism, TrainSpec):
        mechanism = TrainedRelease(mechanism)
    maker = _maker(mechanism, D, D_prime, 0, None)
    try:
        return source.digest(maker.described())
    except InvalidArgument:
        return None


class _Made:
    """The runs so far."""

    def __init__(self, runs: int, progress: Progress | None) -> None:
        self.runs = runs
        self.progress = progress
        check_memory(runs, 1)
        self.done = np.zeros((2, runs), dtype=bool)
        self.count = 0
        self.values: Floats | None = None

    def take(self, found: Found) -> None:
        """Keep what comes; every run must be as wide as the first."""
        for world, start, values in found:
            part = values[: max(0, self.runs - start)]
            if self.values is None:
                self.values = _room(self.runs, values.shape[1])
            if values.shape[1] != self.values.shape[2]:
                shapes = f"{self.values.shape[2]} and {values.shape[1]} numbers"
                _fail_shape(shapes)
            self.values[world, start : start + len(part)] = part
            done = self.done[world, start : start + len(part)]
            self.count += len(part) - int(done.sum())
            done[:] = True
            if self.progress is not None:
                self.progress(self.count, self.done.size)

    def missing(self) -> list[Stretch]:
        """Stretches of runs that are still to be made, of D and then of D'."""
        found = []
        for world, done in enumerate(self.done):
            edges = np.flatnonzero(np.diff(np.concatenate([[True], done, [True]]).astype(np.int8)))
            found += [Stretch(world, int(a), int(b)) for a, b in edges.reshape(-1, 2)]
        return found

    def worlds(self) -> tuple[Floats, Floats]:
        assert self.values is not None
        return self.values[0], self.values[1]


def _room(runs: int, numbers: int) -> Floats:
    """An array for all outputs."""
    check_memory(runs, numbers)
    return np.empty((2, runs, numbers))


def check_memory(runs: int, numbers: int) -> None:
    """Refuse more runs, of so many numbers each in both worlds, than this machine can hold."""
    hint = "Ask for fewer; in Python, output= may say what of a run an attacker looks at."
    _cost.check_memory("runs", runs, 2 * runs * (_OF_RUN + 16 * numbers), hint)


def _fail_shape(shapes: str) -> None:
    hint = "Every run must give real, finite numbers of one shape."
    checks.fail("mechanism", f"[{shapes}]", "to return one shape every time", hint)


def _maker(
    mechanism: Any, D: Any, D_prime: Any, seed: int, output: Output | None
) -> Trained | Minimised | TrainedAll | _Called:
    if isinstance(mechanism, TrainedRelease | MinimisedFit | TrainedProblems):
        if output is not None:
            checks.fail("output", "[given]", f"to be None for a {type(mechanism).__name__}")
        first = as_dataset("D", D)
        if isinstance(mechanism, TrainedRelease):
            return Trained(mechanism, first, _other(D_prime), seed)
        second = as_dataset("D_prime", D_prime)
        if isinstance(mechanism, MinimisedFit):
            return Minimised(mechanism, first, second, seed)
        return TrainedAll(mechanism, first, second, seed)
    if called.is_estimator(mechanism):
        called.check_estimator(mechanism)
        return _Called(mechanism, _rows("D", D), _rows("D_prime", D_prime), seed, output)
    if not callable(mechanism):
        hint = "Pass a TrainedRelease, an estimator, or a function (data, generator) -> numbers."
        checks.fail("mechanism", type(mechanism).__name__, "to be something to run", hint)
    for name, data in (("D", D), ("D_prime", D_prime)):
        if kind := carried(data, code=False):
            hint = (
                "Every run is handed a copy of the data, and would draw the same numbers: use the "
                "generator that is given."
            )
            checks.fail(name, f"[holds a {kind}]", "to hold no generator", hint)
    return _Called(mechanism, D, D_prime, seed, output)


def as_dataset(name: str, data: Any) -> Dataset:
    """A Dataset, also from a tuple (X, y)."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, tuple) and len(data) == 2:
        return Dataset(*data)
    return checks.fail(name, type(data).__name__, "to be a Dataset or a tuple (X, y)")


def _rows(name: str, data: Any) -> Any:
    if not isinstance(data, Dataset) and not (isinstance(data, tuple) and len(data) == 2):
        checks.fail(name, type(data).__name__, "to be a Dataset or a tuple (X, y)")
    return data if isinstance(data, Dataset) else tuple(map(_array, data))


def _array(part: Any) -> Any:
    return np.asarray(part) if isinstance(part, list | tuple) else part


def _other(data: Any) -> Dataset | Neighbours:
    return data if isinstance(data, Neighbours) else as_dataset("D_prime", data)


class _Called:
    """Runs of an estimator or a callable."""

    def __init__(self, mechanism: Any, D: Any, D_prime: Any, seed: int, output: Output | None):
        self.called = Called(mechanism, (D, D_prime), seed, output)
        self.seed = seed

    def __call__(self, runs: int, missing: list[Stretch], workers: int) -> Found:
        shape: tuple[int, ...] | None = None
        for task, block in turns.run(self.called, missing, workers):
            if shape is not None and block.shape != shape:
                _fail_shape(f"shapes {shape} and {block.shape}")
            shape = block.shape
            yield task.world, task.start, block.values

    def described(self) -> dict[str, Any]:
        """What is run, for a file; refused where it cannot be told from something else."""
        named = {
            "mechanism": _described(self.called.mechanism),
            "output": None if self.called.output is None else _described(self.called.output),
            "seed": self.seed,
        }
        for name, data in zip(("D", "D_prime"), self.called.worlds, strict=True):
            named[name] = digest(data)
            if named[name] is None:
                hint = "Whether a file is of the same data cannot be told: leave out file=."
                checks.fail(name, type(data).__name__, "to be plain arrays", hint)
        return named


def _described(mechanism: Any) -> Any:
    try:
        if called.is_estimator(mechanism):
            return _estimator_described(mechanism)
        package = source.version(str(getattr(mechanism, "__module__", "")))
        return {**foreign.described(mechanism, None), "version": package}
    except (InvalidArgument, TypeError):
        hint = "Whether a file is of the same code cannot be told: leave out file=."
        checks.fail("mechanism", "[the code]", "to carry plain values only", hint)


def _estimator_described(estimator: Any) -> dict[str, Any]:
    kind = type(estimator)
    writer = source.Writer(kind)
    settings = {
        name: repr(writer.value(value))
        for name, value in sorted(estimator.get_params(deep=False).items())
    }
    return {
        "estimator": f"{kind.__module__}.{kind.__qualname__}",
        "version": source.version(kind.__module__),
        "source_sha256": source.source_sha256(kind),
        "carries_sha256": source.digest(writer.beside_class(kind)),
        "settings": {
            name: text if len(text) < 100 else source.digest(text)
            for name, text in settings.items()
        },
    }
