"""`Study`: a directory with a grid of weights, written cell by cell, resumed after any kill.

    study/
      README.txt         says INTERNAL
      study.json         what it is of (document.py); everything below follows from it
      grid.zarr/         weights and status as xarray reads them (chunks.py)
      cells/000003.json  one record a cell (cell_files.py), written last: without it nothing counts
      .lock              held by the one process that writes (disk.py)

A file is there whole or not at all, none holds a time or a random name, and a cell counts as done
only by its record. So a killed writer leaves nothing but `.partial` and files without a record,
which the next one removes, and both end with the bytes of a run that was never killed.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.study import directory as directories
from sordino.study.cell_files import CellFiles
from sordino.study.chunks import GROUP, STATUSES
from sordino.study.disk import WriterLock
from sordino.study.document import Document
from sordino.study.layout import Cell, Layout
from sordino.study.refusal import DamagedCell, StudyError, explained, refuse

if TYPE_CHECKING:
    import xarray as xr

_MOST_REASON = 1000


class Study:
    """A grid of weights on disk. Make one with `open_or_create` or `open`, never directly.

    It may be used in a `with` block, which gives up the right to write at its end. Threads may
    share it; a process forked from this one may only read.

    Attributes
    ----------
    directory
        Where it is; INTERNAL, since weights without noise tell about the records.
    layout
        Its axes and cells.
    address
        SHA-256 of what it is of.
    """

    def __init__(self, directory: Path, document: Document, lock: WriterLock | None) -> None:
        self.directory = directory
        self.layout = document.layout
        self.address = document.address
        self._document = document
        self._cells = self.layout.cells()
        self._files = CellFiles(directory, self.layout, self.address)
        self._lock = lock
        self._guard = threading.RLock()
        if lock is not None:
            weakref.finalize(self, lock.release)

    @classmethod
    def open_or_create(
        cls,
        directory: str | os.PathLike[str],
        description: Mapping[str, Any],
        layout: Layout,
    ) -> Study:
        """Open a study for writing; make it if there is nothing yet.

        Parameters
        ----------
        directory
            Missing or empty, the study of exactly this description and layout, or what a killed
            process left of making it.
        description
            All that determines the weights besides the layout, as plain JSON values.
        layout
            The grid.

        Raises
        ------
        StudyError
            If the directory holds another study (the sentence names what differs) or anything
            else, if another process writes it, or if it cannot be written.
        """
        wanted = Document.of(description, layout)
        root = directories.checked(directory)
        lock = directories.create(root, wanted)
        return cls._prepared(root, wanted, lock)

    @classmethod
    def open(cls, directory: str | os.PathLike[str], *, writes: bool = False) -> Study:
        """Open a study that exists; with `writes`, to write it."""
        root = directories.checked(directory)
        document = directories.document(root)
        if not writes:
            return cls(root, document, None)
        return cls._prepared(root, document, WriterLock(root))

    @classmethod
    def _prepared(cls, root: Path, document: Document, lock: WriterLock) -> Study:
        try:
            study = cls(root, document, lock)
            with study._writing():
                study._files.tidy()
        except BaseException:
            lock.release()
            raise
        return study

    def close(self) -> None:
        """Give up the right to write; reading goes on."""
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Study:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def description(self) -> dict[str, Any]:
        """What was given when it was made; a copy."""
        return self._document.description

    def cells(self) -> list[Cell]:
        """Every cell, in the order of `status`."""
        return list(self._cells)

    def status(self) -> npt.NDArray[np.str_]:
        """For each cell "missing", "done" or "failed"."""
        found = self._files.records()
        names = [found[cell].status if cell in found else STATUSES[0] for cell in self._cells]
        return np.array(names)

    def failures(self) -> dict[Cell, str]:
        """Cells that failed, and why."""
        found = self._files.records().items()
        return {cell: record.reason for cell, record in found if record.status == "failed"}

    def missing(self, *, retry_failed: bool = False) -> list[Cell]:
        """Cells still to be trained; failed ones only if they are to be tried again."""
        over = ("done",) if retry_failed else ("done", "failed")
        found = self._files.records()
        return [c for c in self._cells if c not in found or found[c].status not in over]

    def write(self, cell: Cell, weights: npt.NDArray[Any]) -> None:
        """Write the weights [seed, neighbour, step, parameter] of a cell; it is done afterwards.

        Writing a finished cell again changes nothing if the weights are the same.

        Raises
        ------
        InvalidArgument
            For weights of another shape or type, or that are not all finite.
        StudyError
            If the disk is full or not writable, or if the cell is done with other weights;
            nothing that was finished is lost.
        """
        cell = self._own(cell)
        weights = self._checked(cell, weights)
        with self._writing():
            before = self._files.record(cell)
            if before is None or before.status == "failed":
                self._files.clear(cell)
                self._files.write(cell, weights)
            elif not np.array_equal(self._files.read(cell, before), weights):
                condition = f"to be given the weights it has for {self.layout.name(cell)}"
                hint = "The training is not repeatable, or something else than the study says."
                refuse(self.directory, condition, hint)

    def fail(self, cell: Cell, reason: str) -> None:
        """Record that a cell has no weights, and why; the same text for the same failure."""
        cell = self._own(cell)
        text = " ".join(str(reason).split())[:_MOST_REASON] or "no reason was given"
        text = "".join(letter if letter.isprintable() else "?" for letter in text)
        with self._writing():
            before = self._files.record(cell)
            if before is not None and before.status == "done":
                checks.fail("cell", cell.number, "not to be done already", "Its weights are kept.")
            self._files.clear(cell)
            self._files.fail(cell, text)

    def weights(self, init: str, *, steps: Sequence[int] | None = None) -> npt.NDArray[Any]:
        """Weights [seed, neighbour, step, parameter] of one init, each file checked.

        Parameters
        ----------
        init
            A label of the first axis.
        steps
            Which of the kept steps to return, in this order; None is all of them.

        Returns
        -------
        A new array, NaN where a cell is not done.

        Raises
        ------
        StudyError
            If a finished cell is damaged; the sentence names it.
        """
        place = self.layout.inits.index(checks.one_of("init", init, self.layout.inits))
        kept = self._positions(steps)
        _, seeds, neighbours, _, parameters = self.layout.shape
        values = np.full((seeds, neighbours, len(kept), parameters), np.nan, self.layout.dtype)
        for cell, found in self._files.records().items():
            if cell.init == place and found.status == "done":
                values[cell.seeds, cell.neighbours] = self._files.read(cell, found)[:, :, kept]
        return values

    def dataset(self) -> xr.Dataset:
        """The grid as xarray opens it, read when used; weights count where status is "done".

        Files are checked here only by zarr. `weights` checks them against the records.
        """
        import xarray as xr

        try:
            dataset: xr.Dataset = xr.open_zarr(self.directory / GROUP, chunks=None)
        except Exception as error:  # zarr's own are of every kind
            raise StudyError(
                f"Expected study={self.directory} to have a {GROUP} that can be opened "
                f"({type(error).__name__}). Open the study for writing once: what zarr needs is "
                "written anew, and cells are kept."
            ) from error
        return dataset

    def damaged(self) -> dict[Cell, str]:
        """Cells that are not as they were written, and what is wrong with them; reads all files."""
        found = {}
        for cell in self._cells:
            try:
                if (record := self._files.record(cell)) is not None:
                    self._files.content(cell, record)
            except DamagedCell as error:
                found[cell] = str(error)
        return found

    def repair(self) -> list[Cell]:
        """Mark damaged cells missing, so that they are trained again; return them."""
        with self._writing():
            damaged = list(self.damaged())
            for cell in damaged:
                self._files.clear(cell)
        return damaged

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self._lock is None or not self._lock.holds:
            hint = "Use Study.open_or_create or Study.open(directory, writes=True)."
            checks.fail("study", self.directory, "to be open for writing in this process", hint)
        with self._guard, explained(self.directory, "written"):
            yield

    def _own(self, cell: Cell) -> Cell:
        if not isinstance(cell, Cell) or cell not in self._cells[cell.number : cell.number + 1]:
            checks.fail("cell", cell, "to be of this study", "Take it from cells() or missing().")
        return cell

    def _checked(self, cell: Cell, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        weights, shape = np.asarray(weights), self.layout.shape_of(cell)
        if weights.shape != shape:
            hint = "The axes are seed, neighbour, step and parameter."
            checks.fail("weights.shape", weights.shape, f"to be {shape}", hint)
        if not np.can_cast(weights.dtype, self.layout.dtype, "safe"):
            checks.fail("weights.dtype", weights.dtype, f"to fit into {self.layout.dtype}")
        hint = "Record the cell as failed instead."
        return checks.finite("weights", weights, hint).astype(self.layout.dtype, copy=False)

    def _positions(self, steps: Sequence[int] | None) -> list[int]:
        if steps is None:
            return list(range(len(self.layout.steps)))
        for step in checks.sequence("steps", steps, "Pass a list of kept steps."):
            if step not in self.layout.steps:
                kept = ", ".join(map(str, self.layout.steps))
                checks.fail("step", step, f"to be one of the kept ones: {kept}")
        return [self.layout.steps.index(step) for step in steps]
