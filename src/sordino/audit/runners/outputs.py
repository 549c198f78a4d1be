"""Outputs of a mechanism in two worlds: thousands of runs on D, thousands on D'; `OutputFile`.

A mechanism is a `TrainedRelease` (our SGD: all runs at once, by the engine), another of our own
releases that is made many at a time (`minimised.py`, `trained.py`), an estimator (cloned and
fitted for each run) or a function (data, generator) -> output.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sordino import _cost, _files, checks, tasks
from sordino.audit.runners import functions
from sordino.audit.runners.functions import Functions, Output
from sordino.audit.runners.minimised import Minimised, MinimisedFit
from sordino.audit.runners.runner import Blocks, Runner, Stretch, digest
from sordino.audit.runners.trained import Trained, TrainedAll, TrainedProblems, TrainedRelease
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.errors import InvalidArgument, Refused
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats, Progress

_FORMAT = "sordino audit outputs, version 1"
_HEAD = struct.Struct("<4sqqqqI")
_MARK = b"runs"


def outputs(
    mechanism: Any,
    D: Any,
    D_prime: Any,
    runs: int,
    *,
    seed: int = 0,
    workers: int | None = None,
    client: Any = None,
    progress: Progress | None = None,
    file: str | os.PathLike[str] | None = None,
    output: Output | None = None,
) -> tuple[Floats, Floats]:
    """Run a mechanism `runs` times on D and as often on D'.

    Parameters
    ----------
    mechanism
        A `TrainedRelease` or a `TrainSpec`; an estimator with `fit` and `get_params`; or a function
        (data, generator) -> numbers, which draws only from that generator and keeps no state. A
        function with the attribute `batched = True` is called as (data, generator, runs) and
        returns [run, ...], independent runs: as fast as numpy.
    D, D_prime
        For our SGD `Dataset`s (`D_prime` may also be a neighbour of D, by
        `sordino.data.neighbours`); for an estimator `Dataset`s or tuples (X, y); a function is
        handed what is given here.
    runs
        In each world.
    seed
        Of orders, starts, the engine's noise, and generators. What an estimator draws from the
        system is fresh every time.
    workers
        Threads of the engine, or processes; all cores by default. Runs that are a matter of a
        second and batched functions stay in this process.
    client
        A Dask `Client` whose workers run a function or an estimator instead.
    progress
        Called with (runs done, runs in all), of both worlds together.
    file
        Keep outputs there, and resume from what it holds.
    output
        From what a function returns, or a fitted estimator, to the numbers that are released. By
        default the numbers themselves, or coef_ and intercept_.

    Returns
    -------
    negative, positive
        [run, value] of D and of D'.

    Raises
    ------
    InvalidArgument
        If a run fails, or returns another shape than the others, or numbers that are not finite;
        if runs repeat others, as those of copies of one generator do.
    OutputFileError
        If the file is of another mechanism, dataset or seed.

    Examples
    --------
    >>> def noisy_sum(data, generator):
    ...     return data.sum() + generator.normal()
    >>> negative, positive = outputs(noisy_sum, np.zeros(3), np.array([0.0, 0.0, 1.0]), 5)
    >>> negative.shape
    (5, 1)
    """
    checks.whole("runs", runs, at_least=1)
    checks.whole("seed", seed)
    cores = tasks.available_cores()
    cores = cores if workers is None else checks.whole("workers", workers, at_least=1)
    runner = _runner(mechanism, D, D_prime, seed, output)
    check_memory(runs, 1)
    done = np.zeros((2, runs), dtype=bool)
    starts: dict[int, int] = {}
    values = np.empty((2, runs, 0))

    def take(blocks: Blocks, keep: OutputFile | None = None) -> None:
        nonlocal values
        for world, start, block in blocks:
            if keep is not None:
                keep.append(world, start, block)
            part = block[: max(0, runs - start)]
            if not values.shape[2]:
                check_memory(runs, block.shape[1])
                values = np.empty((2, runs, block.shape[1]))
            if block.shape[1] != values.shape[2]:
                shown = f"[{values.shape[2]} and {block.shape[1]} numbers]"
                checks.fail("mechanism", shown, "to return one shape every time")
            values[world, start : start + len(part)] = part
            done[world, start : start + len(part)] = True
            starts[start] = len(part)
            if progress is not None:
                progress(int(done.sum()), done.size)

    if file is None:
        take(runner(runs, _missing(done), cores, client))
    else:
        with OutputFile(file, runner.description()) as kept:
            take(kept.blocks())
            take(runner(runs, _missing(done), cores, client), kept)
    if isinstance(runner, Functions):
        blocks = [range(at, at + many) for at, many in starts.items()]
        functions.check_repeats((values[0], values[1]), blocks)
    return values[0], values[1]


def identity(mechanism: Any, D: Any, D_prime: Any) -> str | None:
    """SHA-256 of code, settings and data; None where they cannot be written down.

    Then `outputs` cannot keep runs in a file, either.
    """
    try:
        return digest(_runner(mechanism, D, D_prime, 0, None).description())
    except InvalidArgument:
        return None


def check_memory(runs: int, numbers: int) -> None:
    """Refuse more runs, of so many numbers each in both worlds, than this machine can hold."""
    # 64 bytes beside the output: a score, and what bounds make of scores.
    _cost.check_memory("runs", runs, 2 * runs * (64 + 16 * numbers), "Ask for fewer.")


def _missing(done: Any) -> list[Stretch]:
    """Stretches of runs that are still to be made, of D and then of D'."""
    stretches = []
    for world, row in enumerate(done):
        edges = np.flatnonzero(np.diff(np.concatenate([[True], row, [True]]).astype(np.int8)))
        stretches += [Stretch(world, int(a), int(b)) for a, b in edges.reshape(-1, 2)]
    return stretches


def _runner(mechanism: Any, D: Any, D_prime: Any, seed: int, output: Output | None) -> Runner:
    if isinstance(mechanism, TrainSpec):
        mechanism = TrainedRelease(mechanism)
    if isinstance(mechanism, TrainedRelease | MinimisedFit | TrainedProblems):
        if output is not None:
            checks.fail("output", "[given]", f"to be None for a {type(mechanism).__name__}")
        D = as_dataset("D", D)
        if isinstance(mechanism, TrainedRelease):
            overlay = isinstance(D_prime, Neighbours)
            other = D_prime if overlay else as_dataset("D_prime", D_prime)
            return Trained(mechanism, D, other, seed)
        kind = Minimised if isinstance(mechanism, MinimisedFit) else TrainedAll
        return kind(mechanism, D, as_dataset("D_prime", D_prime), seed)
    if functions.is_estimator(mechanism):
        functions.check_estimator(mechanism)
        D, D_prime = _arrays("D", D), _arrays("D_prime", D_prime)
    elif not callable(mechanism):
        wanted = "to be an estimator, or a function (data, generator) -> numbers"
        checks.fail("mechanism", type(mechanism).__name__, wanted)
    return Functions(mechanism, D, D_prime, seed, output)


def as_dataset(name: str, data: Any) -> Dataset:
    """A Dataset, also from a tuple (X, y)."""
    data = _arrays(name, data)
    return data if isinstance(data, Dataset) else Dataset(*data)


def _arrays(name: str, data: Any) -> Any:
    """A Dataset, or (X, y) with lists as arrays."""
    if isinstance(data, Dataset):
        return data
    if not isinstance(data, tuple) or len(data) != 2:
        checks.fail(name, type(data).__name__, "to be a Dataset or a tuple (X, y)")
    return tuple(np.asarray(part) if isinstance(part, list | tuple) else part for part in data)


class OutputFileError(Refused):
    """A file of outputs that cannot be used as asked; its text says why."""


class OutputFile:
    """Outputs of one mechanism on two datasets, appended block by block; to be used in a `with`.

    The first line is JSON and says what was run: mechanism, data, seed. After it come blocks: a
    head (world, first run, runs, values a run, checksum) and float64 numbers. Whatever a kill left
    half written is cut off at the next start; anything else that is not a block is, too. One
    process at a time may open it.

    Parameters
    ----------
    path
        Made if it is not there.
    description
        What is run, as plain values by name. A file with another value is refused by that name.
    """

    def __init__(self, path: str | os.PathLike[str], description: dict[str, Any]) -> None:
        self.path = Path(path)
        try:
            self._file = _files.opened(self.path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            self._refuse(f"Cannot open file={self.path}: {_files.reason(error)}.", error)
        try:
            self._begin({"format": _FORMAT, **description})
        except BaseException:
            self._file.close()
            raise

    def _refuse(self, sentence: str, error: Exception | None = None) -> NoReturn:
        raise OutputFileError(sentence) from error

    def blocks(self) -> Iterator[tuple[int, int, Floats]]:
        """Every whole block: world, first run, outputs [run, value]. Ends ready to append."""
        self._file.seek(self._start)
        end = self._start
        while (block := self._next()) is not None:
            end = self._file.tell()
            yield block
        self._file.seek(end)
        self._file.truncate()

    def append(self, world: int, start: int, values: Floats) -> None:
        """Write a block; when it returns, a kill of the process does not lose it."""
        content = np.ascontiguousarray(values, dtype="<f8").tobytes()
        self._write(_HEAD.pack(_MARK, world, start, *values.shape, zlib.crc32(content)) + content)

    def _write(self, content: bytes) -> None:
        try:
            self._file.write(content)
            self._file.flush()
        except OSError as error:
            with suppress(OSError):  # it would try to write the rest
                self._file.close()
            why = f"Cannot write file={self.path}: {_files.reason(error)}."
            self._refuse(f"{why} Finished runs are kept.", error)

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _begin(self, description: dict[str, Any]) -> None:
        """Lock it, and write the header or compare the one that is there."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._refuse(f"Expected file={self.path} not to be in use by another audit.")
        line = self._file.readline(1 << 20)
        beginning = f'{{"format": "{_FORMAT}"'.encode()
        if not line.endswith(b"\n") and beginning.startswith(line[: len(beginning)]):
            self._file.seek(0)
            self._file.truncate()  # empty, or killed while this line was being written
            line = json.dumps(description).encode() + b"\n"
            try:
                self._write(line)
            except OutputFileError:
                with suppress(OSError):
                    os.unlink(self.path)  # nothing is in it
                raise
        self._start = len(line)
        try:
            there = json.loads(line)
            if there["format"] != _FORMAT:
                raise KeyError
        except (ValueError, KeyError, TypeError, RecursionError):
            self._refuse(f"Expected file={self.path} to hold outputs of an audit.")
        for name, value in json.loads(json.dumps(description)).items():
            if there.get(name) != value:
                begun = f"Pass another; it was begun with {json.dumps(there.get(name))[:200]}."
                self._refuse(f"Expected file={self.path} to be of the same {name}. {begun}")

    def _next(self) -> tuple[int, int, Floats] | None:
        head = self._file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        mark, world, start, runs, width, checksum = _HEAD.unpack(head)
        left = os.fstat(self._file.fileno()).st_size - self._file.tell()
        if mark != _MARK or world not in (0, 1) or min(start, runs, width) < 0:
            return None
        if 8 * runs * width > left:
            return None
        content = self._file.read(8 * runs * width)
        if zlib.crc32(content) != checksum:
            return None
        values = np.frombuffer(content, dtype="<f8").reshape(runs, width)
        return world, start, values.astype(np.float64)
