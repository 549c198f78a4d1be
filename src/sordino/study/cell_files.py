"""`CellFiles`: the files of each cell and its record, in the order that makes a kill harmless.

A `CellRecord` is what is known of one cell. It is written after the cell's data; then it counts.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy.typing as npt

from sordino import _files
from sordino.serialize import canonical
from sordino.study.chunks import GROUP, VARIABLES, Chunks
from sordino.study.disk import PARTIAL, Disk
from sordino.study.layout import Cell, Layout
from sordino.study.refusal import DamagedCell, explained

FOLDER = "cells"


@dataclass(frozen=True)
class CellRecord:
    """That a cell is done, with the SHA-256 of each file of weights, or failed and why."""

    status: str
    digests: Mapping[str, str] = field(hash=False)
    reason: str = ""

    @classmethod
    def done(cls, files: Mapping[str, bytes]) -> CellRecord:
        """For a cell whose weights are in these files."""
        return cls("done", {name: digest(content) for name, content in files.items()})

    @classmethod
    def failed(cls, reason: str) -> CellRecord:
        """For a cell that has no weights."""
        return cls("failed", {}, reason)

    def encode(self, study: str, number: int) -> bytes:
        """The bytes of its file; no times, so that a second run writes the same."""
        plain = {
            "study": study,
            "cell": number,
            "status": self.status,
            "reason": self.reason,
            "sha256": dict(self.digests),
        }
        return (canonical(plain) + "\n").encode("ascii")

    @classmethod
    def decode(cls, content: bytes, study: str, number: int) -> CellRecord | None:
        """What `encode` wrote for this cell of this study; None for anything else."""
        try:
            plain = json.loads(content.decode("ascii"))
            record = cls(plain["status"], dict(plain["sha256"]), plain["reason"])
            right = record.status in ("done", "failed")
            return record if right and record.encode(study, number) == content else None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None


def record_name(number: int) -> str:
    """File of the record of the cell of this number."""
    return f"{FOLDER}/{number:06d}.json"


def study_of(content: bytes) -> str | None:
    """The address of the study that a record says it belongs to."""
    try:
        return str(json.loads(content.decode("ascii"))["study"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


class CellFiles:
    """Cells on disk. What writes is called by the study, which holds the lock."""

    def __init__(self, directory: Path, layout: Layout, address: str) -> None:
        self.directory = directory
        self.layout = layout
        self.address = address
        self._cells = layout.cells()
        self._disk = Disk(directory)

    @cached_property
    def chunks(self) -> Chunks:
        """How cells become bytes; made when first needed."""
        return Chunks(self.layout, self.address)

    def tidy(self) -> None:
        """Remove what a killed writer left, and write what follows from `study.json`."""
        folders = [GROUP, *(f"{GROUP}/{name}" for name in self.chunks.folders())]
        self._disk.drop(PARTIAL)
        for folder in (FOLDER, *folders):
            self._disk.make(folder)
        for name, content in self.chunks.skeleton.items():
            self._restore(name, content)
        self._disk.settle([".", *folders])
        for cell in self._cells:
            self._tidy_cell(cell)

    def _tidy_cell(self, cell: Cell) -> None:
        try:
            record = self.record(cell)
        except DamagedCell:
            return  # left as it is, until somebody asks for a repair
        if record is None:
            self.clear(cell)
            return
        for name, content in self.chunks.encode_status(cell, record.status).items():
            self._restore(name, content)

    def _restore(self, name: str, content: bytes) -> None:
        path = self.directory / GROUP / name
        if not path.is_file() or _files.read(path) != content:
            self._disk.put(f"{GROUP}/{name}", content)

    def write(self, cell: Cell, weights: npt.NDArray[Any]) -> None:
        """Write the weights of a cell that has no record; it is done afterwards."""
        files = self.chunks.encode(cell, weights)
        self._commit(cell, files, CellRecord.done(files))

    def fail(self, cell: Cell, reason: str) -> None:
        """Record the failure of a cell that has no record."""
        self._commit(cell, {}, CellRecord.failed(reason))

    def _commit(self, cell: Cell, files: Mapping[str, bytes], record: CellRecord) -> None:
        # The record comes last: it makes the rest count.
        status = self.chunks.encode_status(cell, record.status)
        for name, content in {**files, **status}.items():
            self._disk.put(f"{GROUP}/{name}", content)
        self._disk.settle([f"{GROUP}/{variable}" for variable in VARIABLES])
        self._disk.put(record_name(cell.number), record.encode(self.address, cell.number))
        self._disk.settle([FOLDER])

    def clear(self, cell: Cell) -> None:
        """Remove the record of a cell, and then the files that no longer count."""
        self._disk.drop(record_name(cell.number))
        for names in self.chunks.names(cell).values():
            for name in names:
                self._disk.drop(f"{GROUP}/{name}")

    def records(self) -> dict[Cell, CellRecord]:
        """The record of every cell that has one."""
        found = ((cell, self.record(cell)) for cell in self._cells)
        return {cell: record for cell, record in found if record is not None}

    def record(self, cell: Cell) -> CellRecord | None:
        """The record of a cell; None if it has none, `DamagedCell` if it cannot be trusted."""
        name = record_name(cell.number)
        content = self._content(cell, name)
        if content is None:
            return None
        record = CellRecord.decode(content, self.address, cell.number)
        if record is None:
            self._refuse_damaged(cell, f"{name} is cut short or changed")
        return record

    def content(self, cell: Cell, record: CellRecord) -> dict[str, bytes]:
        """Files of the weights of a cell, as written; `DamagedCell` if one is not."""
        files = {}
        for name, known in record.digests.items():
            content = self._content(cell, f"{GROUP}/{name}")
            if content is None:
                self._refuse_damaged(cell, f"{name} is gone")
            if digest(content) != known:
                self._refuse_damaged(cell, f"{name} is cut short or changed")
            files[name] = content
        return files

    def read(self, cell: Cell, record: CellRecord) -> npt.NDArray[Any]:
        """Weights of a finished cell, from files that were checked."""
        return self.chunks.decode(cell, self.content(cell, record))

    def _content(self, cell: Cell, name: str) -> bytes | None:
        """What a file of a cell holds; None if there is none."""
        with explained(self.directory, "read"):
            try:
                return _files.read(self.directory / name)
            except FileNotFoundError:
                return None
            except OSError as error:
                # A bad disk has damaged the cell; a missing permission has not.
                if error.errno == errno.EIO:
                    self._refuse_damaged(cell, f"the disk cannot read {name}")
                raise

    def _refuse_damaged(self, cell: Cell, what: str) -> NoReturn:
        raise DamagedCell(
            f"Expected study={self.directory} to be as it was written, and {what}, of "
            f"{self.layout.name(cell)}. Repair the study: this cell is trained again, and the "
            "others are kept."
        )
