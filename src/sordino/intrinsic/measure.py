"""`measure`: train every seed on every neighbouring dataset, into a study that can be resumed.

Seeds, neighbours and kinds of initial weights are cut into cells. A cell is trained by
the engine (grid.py) or by any function (foreign.py), here or on a cluster (remote.py), and written
as it finishes, by this process alone (sordino.study).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import _cost, checks
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.intrinsic import foreign, remote
from sordino.intrinsic import grid as grids
from sordino.intrinsic.foreign import ForeignWork, Train
from sordino.intrinsic.grid import EngineWork, Failure, Outcome, Work, cell_size
from sordino.sgd import cost
from sordino.sgd.spec import TrainSpec
from sordino.study import Cell, Layout, Study, StudyError
from sordino.types import Floats


@dataclass(frozen=True)
class StudyProgress:
    """How far a study has come; cells that failed are over, too.

    `runs_now` of `runs_done` were trained by this call, in `seconds`; beside them `under_way` runs'
    worth of work is done. `expected` are the seconds that all of this call should take, by counting
    what a run costs; NaN where nobody can tell.
    """

    cells_done: int
    cells_total: int
    cells_failed: int
    runs_done: int
    runs_total: int
    runs_now: int
    seconds: float
    under_way: float = 0.0
    expected: float = math.nan

    @property
    def runs_per_second(self) -> float:
        """Speed of this call so far."""
        return (self.runs_now + self.under_way) / self.seconds if self.seconds > 0 else math.nan

    @property
    def seconds_left(self) -> float:
        """Time left at this speed; as expected before there is one."""
        left = self.runs_total - self.runs_done - self.under_way
        return left / self.runs_per_second if self.runs_per_second else self.expected


def measure(
    spec: TrainSpec | Mapping[str, Any] | None,
    dataset: Dataset,
    seeds: int | Sequence[int] = 98,
    neighbours: int | Neighbours = 100,
    *,
    init: str | Sequence[str] | None = None,
    initial_weights: npt.ArrayLike | None = None,
    checkpoints: int | Sequence[int] | None = None,
    store: str | os.PathLike[str],
    client: Any = None,
    train: Train | None = None,
    progress: Callable[[StudyProgress], None] | None = None,
    retry_failed: bool = False,
    repair: bool = False,
    workers: int | None = None,
) -> Study:
    """Train every seed on every neighbouring dataset, and keep the weights in a directory.

    Killed at any moment and called again with the same arguments, it goes on where it stopped, and
    ends with the same bytes (on the same kind of machine). Finished cells are never trained again.

    Parameters
    ----------
    spec
        How to train; its `init` is not used, see `init`. With `train`, settings to be recorded (a
        mapping of plain values) or None.
    dataset
        The records. The first one only stands in for others: datasets are made of the rest.
    seeds
        How many, numbered from 0, or a range of numbers.
    neighbours
        How many records to replace by the first one, each making a dataset (they are drawn from a
        stream of their own, the same for all datasets of one size); the dataset without any
        replaced comes first, so there is one more. Or `Neighbours`, which are taken as they are.
    init
        "vary": initial weights drawn for every seed; "fixed": the same for all. Both by default.
        With `train`, "vary" alone.
    initial_weights
        One row of numbers from which every run starts, where spec.init is "given"; there is no
        other `init` then.
    checkpoints
        Steps whose weights are kept: None is the last, a number so many evenly apart.
    store
        Directory of the study; it is made, or resumed. INTERNAL: its weights are not protected.
    client
        A Dask `Client` whose workers train the cells (extra `dask`); None is this machine.
    train
        A function (X, y, seed) that returns its weights, one row of numbers, measured instead of
        our SGD: any pipeline, in processes of its own. Where it raises, or returns another length
        or something not finite, the cell is recorded as failed.
    progress
        Called with a `StudyProgress` at the beginning and after every cell.
    retry_failed
        Train cells again that failed before.
    repair
        Check every finished cell first, and train damaged ones again.
    workers
        Threads (or processes, with `train`) on this machine; all cores by default.

    Returns
    -------
    study
        Open for reading. `sordino.intrinsic.measured.load` gives its arrays for statistics.

    Raises
    ------
    StudyError
        If the directory holds another study (the sentence names what differs), or cannot be
        written; finished cells are kept.
    """
    from sordino.sgd.planning import default_threads

    datasets = grids.datasets(dataset, neighbours)
    how = grids.GIVEN if isinstance(neighbours, Neighbours) else grids.DRAWN
    numbers = grids.seed_numbers(seeds)
    seconds = math.nan
    many = default_threads() if workers is None else checks.whole("workers", workers, at_least=1)
    if client is not None:
        remote.check(client)
    present = _present(store)
    work: Work
    if train is None:
        start = _start(spec, init, initial_weights)
        inits = grids.INITS if init is None else init
        if start is not None:
            inits = grids.PASSED
        layout = _engine_layout(spec, datasets, numbers, inits, start, checkpoints, present)
        assert isinstance(spec, TrainSpec)
        seconds = cost.of_run(spec, datasets.size, dataset.features, len(datasets)) / many
        work = EngineWork(spec, datasets, layout, start)
        trained = {"spec": grids.plain_spec(spec), **grids.described_start(start)}
    else:
        if initial_weights is not None:
            hint = "Where it starts is up to the function."
            checks.fail("initial_weights", "[given]", "to be None with train", hint)
        trained = _described(train, spec, datasets, init, checkpoints)
        layout = _foreign_layout(train, datasets, numbers, present)
        work = ForeignWork(train, datasets, layout)
    if client is not None:
        seconds = math.nan  # who knows how large the cluster is
    if present is None:
        _check_cost(layout, seconds, store)
    described = grids.description(trained, datasets, how, engine=train is None)
    with Study.open_or_create(store, described, layout) as study:
        if repair:
            study.repair()
        cells = study.missing(retry_failed=retry_failed)
        keeper = _Keeper(study, cells, progress, seconds * _runs(cells))
        if client is None:
            keeper.keep(work.here(cells, many, keeper.under_way))
        else:
            keeper.keep(remote.train(client, work, cells))
    return study


class _Keeper:
    """Writes what comes, and tells how far it is."""

    def __init__(
        self,
        study: Study,
        cells: Sequence[Cell],
        progress: Callable[[StudyProgress], None] | None,
        expected: float,
    ) -> None:
        self._study, self._expected = study, expected
        self._tell = progress
        self._begun = time.perf_counter()
        self._cells, self._now = len(study.cells()) - len(cells), 0
        self._before = _runs(study.cells()) - _runs(cells)
        self._failed = len(set(study.failures()) - set(cells))
        self._report()

    def keep(self, outcomes: Iterable[tuple[Cell, Outcome]]) -> None:
        """Write every cell as it comes."""
        for cell, outcome in outcomes:
            if isinstance(outcome, Failure):
                self._study.fail(cell, outcome.reason)
                self._failed += 1
            else:
                self._study.write(cell, outcome)
            self._cells += 1
            self._now += _runs([cell])
            self._report()

    def under_way(self, runs: float) -> None:
        """Tell of work that is not finished."""
        self._report(runs)

    def _report(self, under_way: float = 0.0) -> None:
        if self._tell is not None:
            everything = self._study.cells()
            self._tell(
                StudyProgress(
                    cells_done=self._cells,
                    cells_total=len(everything),
                    cells_failed=self._failed,
                    runs_done=self._before + self._now,
                    runs_total=_runs(everything),
                    runs_now=self._now,
                    seconds=time.perf_counter() - self._begun,
                    under_way=under_way,
                    expected=self._expected,
                )
            )


def _runs(cells: Iterable[Cell]) -> int:
    return sum(
        (c.seeds.stop - c.seeds.start) * (c.neighbours.stop - c.neighbours.start) for c in cells
    )


def _check_cost(layout: Layout, seconds: float, store: str | os.PathLike[str]) -> None:
    """Refuse a study that could never be finished or kept; `seconds` are those of a run."""
    lower = "Lower steps, seeds or neighbours."
    if not math.isnan(seconds):
        _cost.check_time("steps", layout.steps[-1], seconds * math.prod(layout.shape[:3]), lower)
    held = math.prod(layout.shape) * np.dtype(layout.dtype).itemsize
    lower = "Lower seeds, neighbours or checkpoints."
    _cost.check_disk("seeds", len(layout.seeds), Path(store).absolute(), held, lower)


def _start(
    spec: object, init: str | Sequence[str] | None, weights: npt.ArrayLike | None
) -> Floats | None:
    """The given initial weights; None where the spec makes its own."""
    given = isinstance(spec, TrainSpec) and spec.init == "given"
    if weights is None:
        if given:
            hint = 'Pass them, or use "vary" or "fixed"; init= of measure says which are measured.'
            checks.fail("spec.init", "given", "not to be given without initial_weights", hint)
        return None
    if not given:
        hint = 'Without spec.init="given" nothing starts from them.'
        checks.fail("initial_weights", "[given]", "to be None", hint)
    if init is not None:
        checks.fail("init", init, "to be None where the initial weights are given")
    return checks.finite("initial_weights", np.asarray(weights, dtype=np.float64))


def _engine_layout(
    spec: object,
    datasets: Neighbours,
    seeds: tuple[int, ...],
    init: str | Sequence[str],
    start: Floats | None,
    checkpoints: int | Sequence[int] | None,
    present: Layout | None,
) -> Layout:
    """The grid, cut as the engine likes it; one that exists stays cut as it is."""
    from sordino.sgd import Plan, prepare

    if not isinstance(spec, TrainSpec):
        hint = "Pass how to train, or train= a function of your own."
        checks.fail("spec", type(spec).__name__, "to be a TrainSpec", hint)
    inits = grids.PASSED if start is not None else grids.starts(init)
    steps = grids.kept_steps(checkpoints, spec.total_steps(datasets.size))
    plan = None if present is None else Plan(*cell_size(present))
    grid = prepare(spec, datasets.dataset, seeds, datasets, steps, initial_weights=start, plan=plan)
    cut = grid.plan.seeds, grid.plan.neighbours
    labels = tuple(datasets.labels.tolist())
    return Layout.cut(inits, seeds, labels, steps, grid.shape[3], cell=cut, dtype=spec.dtype)


def _foreign_layout(
    train: Train, datasets: Neighbours, seeds: tuple[int, ...], present: Layout | None
) -> Layout:
    if present is None:
        cut, parameters = foreign.CELL, foreign.parameters(train, datasets, seeds)
    else:
        cut, parameters = cell_size(present), present.parameters
    axes = ("vary",), seeds, tuple(datasets.labels.tolist()), foreign.STEPS
    return Layout.cut(*axes, parameters, cell=cut, dtype="float64")


def _described(
    train: Train,
    settings: object,
    datasets: Neighbours,
    init: str | Sequence[str] | None,
    checkpoints: object,
) -> dict[str, Any]:
    """What is recorded of a function, after what only our SGD can do is refused."""
    foreign.check(train, datasets)
    if checkpoints is not None:
        hint = "Only the final weights of a function are known."
        checks.fail("checkpoints", checkpoints, "to be None with train", hint)
    if init is not None and grids.starts(init) != ("vary",):
        hint = "Where it starts is up to the function."
        checks.fail("init", init, 'to be "vary" with train', hint)
    if settings is not None and not isinstance(settings, Mapping):
        hint = "A function has its own; pass None, or what is to be recorded of it."
        checks.fail("spec", type(settings).__name__, "to be a mapping with train", hint)
    return foreign.described(train, settings)


def _present(store: str | os.PathLike[str]) -> Layout | None:
    """The layout of a study that is there already, so that it goes on as it was cut.

    Another machine, with less memory, might cut the same grid in another way.
    """
    try:
        return Study.open(store).layout
    except StudyError:
        return None  # there is none; or what is wrong with it is said when it is written
