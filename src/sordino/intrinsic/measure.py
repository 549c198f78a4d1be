"""`measure`: train every seed on every neighbouring dataset, into a study that can be resumed.

Seeds, neighbours and kinds of initial weights are cut into cells. A cell is trained by the engine
or by a user's function, here or on a Dask cluster (`sordino.tasks`), and written as it finishes, by
this process alone (`sordino.study`).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino import _cost, checks, tasks
from sordino.data.dataset import Dataset
from sordino.data.neighbours import EMPTY, SILENT, UNCHANGED, Neighbours
from sordino.intrinsic import grid as grids
from sordino.sgd.spec import TrainSpec
from sordino.study import Cell, Layout, Study, StudyError
from sordino.types import Array

if TYPE_CHECKING:
    from sordino.sgd.grid import Grid

_Train = Callable[[Array, Array, int], npt.ArrayLike]

_Outcome = Array | str  # the weights of a cell, or why it has none


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
    train: _Train | None = None,
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
        Open for reading. `sordino.intrinsic.grid.load` gives its arrays for statistics.

    Raises
    ------
    StudyError
        If the directory holds another study (the sentence names what differs), or cannot be
        written; finished cells are kept.
    """
    sets = grids.datasets(dataset, neighbours)
    how = "given" if isinstance(neighbours, Neighbours) else grids.DRAWN
    numbers = grids.seed_numbers(seeds)
    if workers is None:
        workers = tasks.available_cores()
    checks.whole("workers", workers, at_least=1)
    if client is not None:
        tasks.check_client(client)
    try:  # another machine, with less memory, might cut the same grid in another way
        present = Study.open(store).layout
    except StudyError:
        present = None  # there is none; or what is wrong with it is said when it is written
    work: _Engine | _Function
    if train is None:
        work = _engine(spec, sets, numbers, init, initial_weights, checkpoints, present)
        one = work.spec.core_seconds(sets.size, dataset.features, len(sets)) / workers
        plain = {name: value for name, value in work.spec.to_dict().items() if name != "init"}
        trained: dict[str, Any] = {"spec": plain}
        if work.start is not None:
            text = np.ascontiguousarray(work.start, dtype="<f8").tobytes()
            trained["initial_weights_sha256"] = hashlib.sha256(text).hexdigest()
    else:
        trained = _described(train, spec, sets, init, initial_weights, checkpoints)
        # One checkpoint: nobody knows how many steps a function takes. One seed and ten neighbours
        # a cell: what a kill or a failure costs.
        one, cut = math.nan, (1, 10) if present is None else cell_size(present)
        columns = _parameters(train, sets, numbers) if present is None else present.parameters
        axes = ("vary",), numbers, tuple(sets.labels.tolist()), (1,), columns
        work = _Function(train, sets, Layout.cut(*axes, cell=cut, dtype="float64"))
    if client is not None:
        one = math.nan  # who knows how large the cluster is
    if present is None:  # refuse what could never be finished or kept
        layout = work.layout
        if not math.isnan(one):
            hint, seconds = "Lower steps, seeds or neighbours.", one * math.prod(layout.shape[:3])
            _cost.check_time("steps", layout.steps[-1], seconds, hint)
        held = math.prod(layout.shape) * np.dtype(layout.dtype).itemsize
        hint = "Lower seeds, neighbours or checkpoints."
        _cost.check_disk("seeds", len(numbers), Path(store).absolute(), held, hint)
    described = grids.description(trained, sets, how, engine=train is None)
    with Study.open_or_create(store, described, work.layout) as study:
        if repair:
            study.repair()
        cells = study.missing(retry_failed=retry_failed)
        state = StudyProgress(
            cells_done=len(study.cells()) - len(cells),
            cells_total=len(study.cells()),
            cells_failed=len(set(study.failures()) - set(cells)),
            runs_done=_runs(study.cells()) - _runs(cells),
            runs_total=_runs(study.cells()),
            runs_now=0,
            seconds=0.0,
            expected=one * _runs(cells),
        )
        begun = time.perf_counter()

        def tell(under_way: float = 0.0) -> None:
            if progress is not None:
                seconds = time.perf_counter() - begun
                progress(dataclasses.replace(state, seconds=seconds, under_way=under_way))

        tell()
        if client is None:
            outcomes = work.here(cells, workers, tell)
        else:  # the engine is safe in threads
            shared = train is None
            outcomes = tasks.run(work, cells, client=client, threads=shared, lost=_lost)
        for cell, outcome in outcomes:
            if failed := isinstance(outcome, str):
                study.fail(cell, outcome)
            else:
                study.write(cell, outcome)
            more = {"cells_done": 1, "cells_failed": int(failed)}
            more |= dict.fromkeys(("runs_done", "runs_now"), _runs([cell]))
            added = {name: getattr(state, name) + many for name, many in more.items()}
            state = dataclasses.replace(state, **added)
            tell()
    if train is not None:
        _check_repeats(study)
    return study


def _runs(cells: Iterable[Cell]) -> int:
    return sum(math.prod(s.stop - s.start for s in (c.seeds, c.neighbours)) for c in cells)


def _lost(cell: Cell) -> _Outcome:
    return f"For one of its runs, the training {tasks.ENDED}"


class _Engine:
    """Cells trained by the engine. A cell has the same bytes here and elsewhere (one machine kind).

    What the engine lays out before the first cell is kept for the next one.
    """

    def __init__(
        self, spec: TrainSpec, neighbours: Neighbours, layout: Layout, start: Array | None
    ) -> None:
        self.spec, self.neighbours, self.layout, self.start = spec, neighbours, layout, start
        self._grids: dict[int, Grid] = {}
        self._guard = threading.Lock()

    def __reduce__(self) -> tuple[type[_Engine], tuple[object, ...]]:
        # Another process lays out its own.
        return _Engine, (self.spec, self.neighbours, self.layout, self.start)

    def __call__(self, cell: Cell) -> _Outcome:
        """Train one cell, on one core."""
        with self._guard:
            if cell.init not in self._grids:
                self._grids[cell.init] = self._grid(cell.init, 1)
        ((_, outcome),) = self._train(self._grids[cell.init], [cell])
        return outcome

    def here(
        self, cells: Sequence[Cell], threads: int, under_way: Callable[[float], None]
    ) -> Iterator[tuple[Cell, _Outcome]]:
        """Train cells in threads. On Ctrl-C those that are nearly done are yielded first."""
        for init in range(len(self.layout.inits)):
            if mine := [cell for cell in cells if cell.init == init]:
                yield from self._train(self._grid(init, threads), mine, under_way)

    def _train(
        self, grid: Grid, cells: Sequence[Cell], under_way: Callable[[float], None] | None = None
    ) -> Iterator[tuple[Cell, _Outcome]]:
        from sordino.sgd import train_chunks

        places = {(cell.seeds.start, cell.neighbours.start): cell for cell in cells}
        boxes = [(cell.seeds, cell.neighbours) for cell in cells]
        for done in train_chunks(grid, only=boxes, under_way=under_way):
            cell = places[done.seeds.start, done.neighbours.start]
            finite = np.isfinite(done.weights).all(axis=(2, 3))
            if finite.all():
                yield cell, done.weights
                continue
            bad = np.argwhere(~finite)
            first = _run_name(self.layout, *(bad[0] + (cell.seeds.start, cell.neighbours.start)))
            many = f"{len(bad)} of {finite.size} runs diverged: their weights are not finite"
            yield cell, f"{many}, first for {first}. Lower the learning rate."

    def _grid(self, init: int, threads: int) -> Grid:
        from sordino.sgd import Plan, prepare

        layout = self.layout
        spec, sets = dataclasses.replace(self.spec, init=layout.inits[init]), self.neighbours
        how: Any = {"initial_weights": self.start, "plan": Plan(*cell_size(layout))}
        grid = sets.dataset, layout.seeds, sets, layout.steps
        return prepare(spec, *grid, threads=threads, **how)


def _engine(
    spec: object,
    sets: Neighbours,
    seeds: tuple[int, ...],
    init: str | Sequence[str] | None,
    weights: npt.ArrayLike | None,
    checkpoints: int | Sequence[int] | None,
    present: Layout | None,
) -> _Engine:
    """The grid, cut as the engine likes it; one that is present stays cut as it is."""
    from sordino.sgd import Plan, prepare

    if not isinstance(spec, TrainSpec):
        checks.fail("spec", type(spec).__name__, "to be a TrainSpec", "Or pass train=.")
    start: Array | None = None
    inits: tuple[str, ...] = ("given",)
    if weights is None:
        if spec.init == "given":
            checks.fail("spec.init", "given", "not to be given without initial_weights")
        inits = grids.starts(grids.INITS if init is None else init)
    else:
        if spec.init != "given":
            checks.fail("initial_weights", "[given]", 'to be None without spec.init="given"')
        if init is not None:
            checks.fail("init", init, "to be None where the initial weights are given")
        start = checks.finite("initial_weights", np.asarray(weights, dtype=np.float64))
    steps = grids.kept_steps(checkpoints, spec.total_steps(sets.size))
    plan = None if present is None else Plan(*cell_size(present))
    grid = prepare(spec, sets.dataset, seeds, sets, steps, initial_weights=start, plan=plan)
    axes = inits, seeds, tuple(sets.labels.tolist()), steps, grid.shape[3]
    cut = grid.plan.seeds, grid.plan.neighbours
    return _Engine(spec, sets, Layout.cut(*axes, cell=cut, dtype=spec.dtype), start)


def cell_size(layout: Layout) -> tuple[int, int]:
    """Seeds and neighbours of the largest cell, which is the first."""
    return layout.seed_edges[1], layout.neighbour_edges[1]


def _run_name(layout: Layout, seed: int, neighbour: int) -> str:
    label = layout.neighbours[neighbour]
    which = "the dataset itself" if label < 0 else f"neighbour {label}"
    return f"seed {layout.seeds[seed]}, {which}"


@dataclass(frozen=True, eq=False)
class _Function:
    """Cells trained by a function (X, y, seed) -> weights, one run after the other."""

    train: _Train
    neighbours: Neighbours
    layout: Layout

    def __call__(self, cell: Cell) -> _Outcome:
        """Train one cell; the first run that goes wrong is its reason to fail."""
        weights, wanted = np.empty(self.layout.shape_of(cell)), self.layout.parameters
        for row, column in np.ndindex(weights.shape[:2]):
            seed, place = cell.seeds.start + row, cell.neighbours.start + column
            found = attempt(self.train, self.neighbours, self.layout.seeds[seed], place)
            if not isinstance(found, str) and len(found) != wanted:
                found = f"returned {len(found)} weights, not {wanted}"
            if isinstance(found, str):
                return f"For {_run_name(self.layout, seed, place)}, the function {found}"
            weights[row, column, 0] = found
        return weights

    def here(self, cells: Sequence[Cell], many: int, _: object) -> Iterator[tuple[Cell, _Outcome]]:
        """Train cells in processes of their own, which end with this iterator."""
        return tasks.run(self, cells, workers=many, lost=_lost, argument="train")


def attempt(train: _Train, neighbours: Neighbours, seed: int, place: int) -> Array | str:
    """Weights of one run of a function, or what went wrong, as a verb."""
    try:
        found = train(*arrays(neighbours, place), seed)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever it is, the other runs go on
        try:
            return f"raised {type(error).__name__}: {error}"
        except Exception:  # an error that cannot even say what it is
            return f"raised {type(error).__name__}: no words"
    try:
        given = np.asarray(found)
        if given.dtype.kind not in "fiub":  # neither words nor complex numbers
            raise TypeError
        weights = given.astype(np.float64)
    except Exception:
        return f"returned {type(found).__name__}, not an array of real numbers"
    if weights.ndim != 1 or not len(weights):
        return f"returned an array of shape {weights.shape}, not one row of weights"
    return weights if np.isfinite(weights).all() else "returned weights that are not finite"


def arrays(neighbours: Neighbours, place: int) -> tuple[Array, Array]:
    """X and y of one neighbouring dataset: a copy, with which a function may do what it likes."""
    dataset, rows = neighbours.dataset, neighbours.members.copy()
    if dataset.weights is not None:
        checks.fail("weights", "[given]", "to be left out: functions get X and y alone")
    if neighbours.slot[place] != UNCHANGED:
        rows[neighbours.slot[place]] = neighbours.occupant[place]
    rows = rows[rows != EMPTY]
    if (rows < dataset.rows).all():
        return dataset.X[rows], dataset.y[rows]
    assert neighbours.extra_X is not None
    assert neighbours.extra_y is not None
    X = np.concatenate([dataset.X, neighbours.extra_X.astype(dataset.X.dtype)])
    y = np.concatenate([dataset.y, neighbours.extra_y.astype(dataset.y.dtype)])
    return X[rows], y[rows]


def _described(
    train: object,
    settings: object,
    sets: Neighbours,
    init: str | Sequence[str] | None,
    initial_weights: object,
    checkpoints: object,
) -> dict[str, Any]:
    """What is recorded of a function, after what only our SGD can do is refused."""
    own = "Where it starts is up to the function."
    if initial_weights is not None:
        checks.fail("initial_weights", "[given]", "to be None with train", own)
    if not callable(train):
        checks.fail("train", type(train).__name__, "to be a function (X, y, seed) -> weights")
    if (sets.occupant[sets.slot != UNCHANGED] == SILENT).any():
        checks.fail("neighbours", "[silent records]", "to be records, replaced or removed")
    if checkpoints is not None:
        checks.fail("checkpoints", checkpoints, "to be None with train")
    if init is not None and grids.starts(init) != ("vary",):
        checks.fail("init", init, 'to be "vary" with train', own)
    if settings is not None and not isinstance(settings, Mapping):
        checks.fail("spec", type(settings).__name__, "to be a mapping or None with train")
    return {"function": {**tasks.identity(train), "settings": dict(settings or {})}}


def _parameters(train: _Train, sets: Neighbours, seeds: Sequence[int]) -> int:
    """How many weights the function returns, tried on the first dataset until two seeds agree."""
    lengths, reasons = Counter[int](), list[str]()
    trial = functools.partial(attempt, train, sets, place=0)
    how: dict[str, Any] = {"workers": 1, "lost": lambda seed: tasks.ENDED, "argument": "train"}
    for _, found in tasks.run(trial, seeds[:10], **how):
        if isinstance(found, str):
            reasons.append(found)
            continue
        lengths[len(found)] += 1
        if lengths[len(found)] == 2:
            break
    if not lengths:
        checks.fail("train", "[the function]", f"to return weights, and it {reasons[0]}")
    return lengths.most_common(1)[0][0]


def _check_repeats(study: Study) -> None:
    """Refuse a function with a state of its own, whose copies in other processes repeat it.

    Some seeds then give the same weights on one dataset. A function without any chance in it gives
    the same for all, which is a result.
    """
    for place, rows in enumerate(np.swapaxes(study.weights("vary")[:, :, 0], 0, 1)):
        rows = rows[np.isfinite(rows).all(axis=1)]
        different = len(np.unique(rows, axis=0))
        if 1 < different < len(rows):
            wrong = f"{len(rows)} seeds gave {different} results for dataset {place}"
            hint = f"{wrong}. Draw from the seed alone, and use another directory."
            checks.fail("study", study.directory, "to hold independent runs", hint, StudyError)
