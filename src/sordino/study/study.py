"""`Study`: a directory with a grid of weights, written cell by cell, resumed after any kill.

    study/
      README.txt         says INTERNAL
      study.json         what it is of (document.py); everything below follows from it
      grid.zarr/         weights and status as xarray reads them
      cells/000003.json  one record a cell, written last: without it nothing counts
      .lock              held by the one process that writes (files.py)

A file is there whole or not at all, none holds a time or a random name, and a cell counts as done
only by its record. So a killed writer leaves nothing but `.partial` and files without a record,
which the next one removes, and both end with the bytes of a run that was never killed. zarr encodes
and decodes, in memory: what is decoded is what was checked.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import threading
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.buffer import Buffer
from zarr.buffer.cpu import Buffer as CpuBuffer
from zarr.codecs import ZstdCodec
from zarr.errors import ZarrUserWarning
from zarr.storage import MemoryStore

from sordino import _files, checks
from sordino.serialize import canonical
from sordino.study.document import NAME, UNCHANGED, Document
from sordino.study.files import (
    LOCK,
    PARTIAL,
    DamagedCell,
    Disk,
    WriterLock,
    explained,
    refuse,
)
from sordino.study.layout import DIMENSIONS, Cell, Layout

if TYPE_CHECKING:
    import xarray as xr

_GROUP, _CELLS, _README = "grid.zarr", "cells", "README.txt"
_README_TEXT = """\
INTERNAL: do not publish or share this directory.

It is a study made by sordino: weights of models trained without protection, on a dataset and on
copies of it with one record replaced. Whoever has it can tell who is in the data.

study.json   what was measured
grid.zarr    the weights, for xarray.open_zarr; they count where status is "done"
cells        one file a cell: done, or failed and why, and checksums

Running the same command again goes on where it stopped.
"""
_STATUSES = ("missing", "done", "failed")
_VARIABLES = ("weights", "status")
_AXES = {
    "init": "initial weights: drawn anew for every seed, or shared by all",
    "seed": "number of the seed",
    "neighbour": "record that is replaced; -1 is the dataset itself",
    "step": "training steps",
}
_MOST_REASON = 1000


@dataclass(frozen=True)
class _Record:
    """That a cell is done, with the SHA-256 of each file of weights, or failed and why."""

    status: str
    digests: Mapping[str, str] = field(hash=False)
    reason: str = ""

    def encode(self, study: str, number: int) -> bytes:
        """The bytes of its file; no times, so that a second run writes the same."""
        plain = {"study": study, "cell": number, "status": self.status, "reason": self.reason}
        return (canonical({**plain, "sha256": dict(self.digests)}) + "\n").encode("ascii")

    @classmethod
    def decode(cls, content: bytes, study: str, number: int) -> _Record | None:
        """What `encode` wrote for this cell of this study; None for anything else."""
        plain = _plain(content)
        try:
            record = cls(plain["status"], dict(plain["sha256"]), plain["reason"])
            right = record.status in _STATUSES[1:]
            return record if right and record.encode(study, number) == content else None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None


def _plain(content: bytes) -> Any:
    try:
        return json.loads(content.decode("ascii"))
    except (ValueError, RecursionError):
        return None


def _record_name(cell: Cell) -> str:
    return f"{_CELLS}/{cell.number:06d}.json"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Chunks:
    """The files of a grid of one layout, as names below `grid.zarr` and bytes."""

    def __init__(self, layout: Layout, address: str) -> None:
        self.layout = layout
        self.skeleton = _skeleton(layout, address)
        """Every file but the chunks of cells: metadata and coordinates."""
        self._statuses: dict[tuple[tuple[int, ...], str], list[bytes]] = {}

    def names(self, cell: Cell) -> dict[str, list[str]]:
        """Files of a cell, for its weights and its status."""
        whole = (slice(0, length) for length in self.layout.shape[3:])
        boxes = (slice(cell.init, cell.init + 1), cell.seeds, cell.neighbours, *whole)
        spans = [
            range(box.start // size, -(-box.stop // size))
            for box, size in zip(boxes, self.layout.chunk, strict=True)
        ]
        return {
            variable: [f"{variable}/c.{'.'.join(map(str, at))}" for at in itertools.product(*those)]
            for variable, those in zip(_VARIABLES, (spans, spans[:3]), strict=True)
        }

    def folders(self) -> list[str]:
        """Directories below `grid.zarr` that hold these files."""
        return sorted({name.partition("/")[0] for name in self.skeleton if "/" in name})

    def encode(
        self, cell: Cell, values: npt.NDArray[Any], variable: str = "weights"
    ) -> dict[str, bytes]:
        """Files of the weights of a cell."""
        files, array = self._open(variable, {})
        array[cell.init, cell.seeds, cell.neighbours] = values
        return {name: files[name].to_bytes() for name in self.names(cell)[variable]}

    def encode_status(self, cell: Cell, status: str) -> dict[str, bytes]:
        """Files that say the status of a cell."""
        shape = self.layout.shape_of(cell)[:2]
        if (shape, status) not in self._statuses:  # cells of one shape have the same bytes
            files = self.encode(cell, np.full(shape, status), "status")
            self._statuses[shape, status] = list(files.values())
        return dict(zip(self.names(cell)["status"], self._statuses[shape, status], strict=True))

    def decode(self, cell: Cell, files: Mapping[str, bytes]) -> npt.NDArray[Any]:
        """Weights of a cell, from the files `encode` made of them."""
        _, array = self._open("weights", files)
        return np.asarray(array[cell.init, cell.seeds, cell.neighbours])

    def _open(self, variable: str, files: Mapping[str, bytes]) -> tuple[dict[str, Buffer], Any]:
        metadata = f"{variable}/zarr.json"
        whole = {metadata: self.skeleton[metadata], **files}
        store: dict[str, Buffer] = {
            name: CpuBuffer.from_bytes(each) for name, each in whole.items()
        }
        return store, zarr.open_array(MemoryStore(store), path=variable, mode="r+", zarr_format=3)


def _skeleton(layout: Layout, address: str) -> dict[str, bytes]:
    files: dict[str, Buffer] = {}
    store = MemoryStore(files)
    title = "INTERNAL: weights without noise, never to be published"
    group = zarr.create_group(store, zarr_format=3, attributes={"title": title, "study": address})

    def add(name: str, shape: Sequence[int], chunks: Sequence[int], meaning: str, **of: Any) -> Any:
        return group.create_array(
            name,
            shape=tuple(shape),
            chunks=tuple(chunks),
            attributes={"long_name": meaning},
            compressors=[ZstdCodec(level=1, checksum=True)],
            # Flat names: no directories to be made along with a chunk.
            chunk_key_encoding={"name": "default", "separator": "."},
            **of,
        )

    meaning = "weights after a number of steps; NaN where there are none"
    more: dict[str, Any] = {"dtype": layout.dtype, "fill_value": float("nan")}
    add("weights", layout.shape, layout.chunk, meaning, dimension_names=DIMENSIONS, **more)
    meaning = f"one of {', '.join(_STATUSES)}; weights count where it is done"
    more = {"dtype": "string", "fill_value": _STATUSES[0], "dimension_names": DIMENSIONS[:3]}
    add("status", layout.shape[:3], layout.chunk[:3], meaning, **more)
    labels = (layout.inits, layout.seeds, layout.neighbours, layout.steps)
    for (name, meaning), values in zip(_AXES.items(), labels, strict=True):
        more = {"dtype": "string" if name == "init" else "int64", "dimension_names": (name,)}
        add(name, [len(values)], [len(values)], meaning, **more)[:] = np.array(values)
    with warnings.catch_warnings():
        # That other programs may not read it does no harm: all it says is elsewhere as well.
        warnings.simplefilter("ignore", ZarrUserWarning)
        zarr.consolidate_metadata(store, zarr_format=3)
    return {name: files[name].to_bytes() for name in sorted(files)}


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

    Examples
    --------
    >>> import tempfile
    >>> layout = Layout.cut(["vary"], range(2), [-1], [10], 3, cell=(1, 1))
    >>> with Study.open_or_create(tempfile.mkdtemp(), {"data": "example"}, layout) as study:
    ...     study.write(study.missing()[0], np.zeros((1, 1, 1, 3), "float32"))
    ...     print(study.status())
    ['done' 'missing']
    """

    def __init__(self, directory: Path, document: Document, lock: WriterLock | None) -> None:
        self.directory = directory
        self.layout = document.layout
        self.address = document.address
        self._document = document
        self._cells = self.layout.cells()
        self._disk = Disk(directory)
        self._lock = lock
        self._guard = threading.RLock()
        if lock is not None:
            weakref.finalize(self, lock.release)

    @cached_property
    def _chunks(self) -> Chunks:
        return Chunks(self.layout, self.address)

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
        wanted, root = Document.of(description, layout), _path(directory)
        with explained(root, "written"):
            if not root.exists():
                root.parent.mkdir(parents=True, exist_ok=True)
                root.mkdir(mode=0o700, exist_ok=True)
            _exists(root, wanted)  # before a file is made in somebody else's directory
        return cls._writer(root, wanted)

    @classmethod
    def open(cls, directory: str | os.PathLike[str], *, writes: bool = False) -> Study:
        """Open a study that exists; with `writes`, to write it."""
        root = _path(directory)
        document = Document.read(root)
        if document is None:
            refuse(root, f"to be a study, and it has no {NAME}", UNCHANGED)
        return cls._writer(root, document) if writes else cls(root, document, None)

    @classmethod
    def _writer(cls, root: Path, document: Document) -> Study:
        """A study that may be written; what a killed writer left is removed."""
        lock = WriterLock(root)
        try:
            study = cls(root, document, lock)
            with study._writing():
                study._tidy()
        except BaseException:
            lock.release()
            raise
        return study

    def _tidy(self) -> None:
        """Remove what a killed writer left, and write what follows from `study.json`.

        `study.json` comes first: what else there is follows from it.
        """
        disk, chunks = self._disk, self._chunks
        if not _exists(self.directory, self._document):
            os.chmod(self.directory, 0o700)
            disk.put(_README, _README_TEXT.encode("ascii"))
            disk.put(NAME, self._document.encode())
            disk.settle(["."])
        folders = [_GROUP, *(f"{_GROUP}/{name}" for name in chunks.folders())]
        disk.drop(PARTIAL)
        for folder in (_CELLS, *folders):
            disk.make(folder)
        self._restore(chunks.skeleton)
        disk.settle([".", *folders])
        for cell in self._cells:
            try:
                record = self._record(cell)
            except DamagedCell:
                continue  # left as it is, until somebody asks for a repair
            if record is None:
                self._clear(cell)
            else:
                self._restore(chunks.encode_status(cell, record.status))

    def _restore(self, files: Mapping[str, bytes]) -> None:
        for name, content in files.items():
            path = self.directory / _GROUP / name
            if not path.is_file() or _files.read(path) != content:
                self._disk.put(f"{_GROUP}/{name}", content)

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
        records = self._records()
        return np.array([getattr(records.get(c), "status", _STATUSES[0]) for c in self._cells])

    def failures(self) -> dict[Cell, str]:
        """Cells that failed, and why."""
        records = self._records().items()
        return {cell: record.reason for cell, record in records if record.status == "failed"}

    def missing(self, *, retry_failed: bool = False) -> list[Cell]:
        """Cells still to be trained; failed ones only if they are to be tried again."""
        over = ("done",) if retry_failed else ("done", "failed")
        records = self._records()
        return [c for c in self._cells if c not in records or records[c].status not in over]

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
        self._check_cell(cell)
        weights, shape = np.asarray(weights), self.layout.shape_of(cell)
        if weights.shape != shape:
            checks.fail("weights.shape", weights.shape, f"to be {shape}")
        if not np.can_cast(weights.dtype, self.layout.dtype, "safe"):
            checks.fail("weights.dtype", weights.dtype, f"to fit into {self.layout.dtype}")
        checks.finite("weights", weights, "Record the cell as failed instead.")
        weights = weights.astype(self.layout.dtype, copy=False)
        with self._writing():
            before = self._record(cell)
            if before is None or before.status == "failed":
                files = self._chunks.encode(cell, weights)
                digests = {name: _digest(content) for name, content in files.items()}
                self._commit(cell, files, _Record("done", digests))
            elif not np.array_equal(self._weights(cell, before), weights):
                condition = f"to be given the weights it has for {self.layout.name(cell)}"
                refuse(self.directory, condition, "The training is not repeatable.")

    def fail(self, cell: Cell, reason: str) -> None:
        """Record that a cell has no weights, and why; the same text for the same failure."""
        self._check_cell(cell)
        text = " ".join(str(reason).split())[:_MOST_REASON] or "no reason was given"
        text = "".join(letter if letter.isprintable() else "?" for letter in text)
        with self._writing():
            before = self._record(cell)
            if before is not None and before.status == "done":
                checks.fail("cell", cell.number, "not to be done already", "Its weights are kept.")
            self._commit(cell, {}, _Record("failed", {}, text))

    def _commit(self, cell: Cell, files: Mapping[str, bytes], record: _Record) -> None:
        self._clear(cell)
        status = self._chunks.encode_status(cell, record.status)
        for name, content in {**files, **status}.items():
            self._disk.put(f"{_GROUP}/{name}", content)
        self._disk.settle([f"{_GROUP}/{variable}" for variable in _VARIABLES])
        # The record comes last: it makes the rest count.
        self._disk.put(_record_name(cell), record.encode(self.address, cell.number))
        self._disk.settle([_CELLS])

    def _clear(self, cell: Cell) -> None:
        """Remove the record of a cell, and then the files that no longer count."""
        self._disk.drop(_record_name(cell))
        for name in itertools.chain(*self._chunks.names(cell).values()):
            self._disk.drop(f"{_GROUP}/{name}")

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
        layout = self.layout
        place = layout.inits.index(checks.one_of("init", init, layout.inits))
        for step in checks.sequence("steps", () if steps is None else steps):
            if step not in layout.steps:
                kept = ", ".join(map(str, layout.steps))
                checks.fail("step", step, f"to be one of the kept ones: {kept}")
        kept_at = [layout.steps.index(step) for step in (layout.steps if steps is None else steps)]
        _, seeds, neighbours, _, parameters = layout.shape
        values = np.full((seeds, neighbours, len(kept_at), parameters), np.nan, layout.dtype)
        for cell, record in self._records().items():
            if cell.init == place and record.status == "done":
                values[cell.seeds, cell.neighbours] = self._weights(cell, record)[:, :, kept_at]
        return values

    def dataset(self) -> xr.Dataset:
        """The grid as xarray opens it, read when used; weights count where status is "done".

        Files are checked here only by zarr. `weights` checks them against the records.
        """
        import xarray as xr

        try:
            dataset: xr.Dataset = xr.open_zarr(self.directory / _GROUP, chunks=None)
        except Exception as error:  # zarr's own are of every kind
            condition = f"to have a {_GROUP} that can be opened ({type(error).__name__})"
            refuse(self.directory, condition, "Opening it for writing mends it.")
        return dataset

    def damaged(self) -> dict[Cell, str]:
        """Cells that are not as they were written, and what is wrong with them; reads all files."""
        sentences = {}
        for cell in self._cells:
            try:
                if (record := self._record(cell)) is not None:
                    self._content(cell, record)
            except DamagedCell as error:
                sentences[cell] = str(error)
        return sentences

    def repair(self) -> list[Cell]:
        """Mark damaged cells missing, so that they are trained again; return them."""
        with self._writing():
            damaged = list(self.damaged())
            for cell in damaged:
                self._clear(cell)
        return damaged

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self._lock is None or not self._lock.holds:
            hint = "Use Study.open(directory, writes=True)."
            checks.fail("study", self.directory, "to be open for writing here", hint)
        with self._guard, explained(self.directory, "written"):
            yield

    def _check_cell(self, cell: Cell) -> None:
        if not isinstance(cell, Cell) or cell not in self._cells[cell.number : cell.number + 1]:
            checks.fail("cell", cell, "to be of this study")

    def _records(self) -> dict[Cell, _Record]:
        """The record of every cell that has one."""
        return {c: record for c in self._cells if (record := self._record(c)) is not None}

    def _record(self, cell: Cell) -> _Record | None:
        """The record of a cell; None if it has none, `DamagedCell` if it cannot be trusted."""
        content = self._read(cell, _record_name(cell))
        if content is None:
            return None
        record = _Record.decode(content, self.address, cell.number)
        self._check_whole(cell, record is not None, f"{_record_name(cell)} was cut or changed")
        return record

    def _weights(self, cell: Cell, record: _Record) -> npt.NDArray[Any]:
        return self._chunks.decode(cell, self._content(cell, record))

    def _content(self, cell: Cell, record: _Record) -> dict[str, bytes]:
        """Files of the weights of a cell, as written; `DamagedCell` if one is not."""
        files = {}
        for name, digest in record.digests.items():
            content = self._read(cell, f"{_GROUP}/{name}") or b""
            self._check_whole(cell, _digest(content) == digest, f"{name} is gone, cut or changed")
            files[name] = content
        return files

    def _read(self, cell: Cell, name: str) -> bytes | None:
        """What a file of a cell holds; None if there is none."""
        with explained(self.directory, "read"):
            try:
                return _files.read(self.directory / name)
            except FileNotFoundError:
                return None
            except OSError as error:
                # A bad disk has damaged the cell; a missing permission has not.
                self._check_whole(cell, error.errno != errno.EIO, f"the disk cannot read {name}")
                raise

    def _check_whole(self, cell: Cell, good: bool, what: str) -> None:
        if not good:
            condition = f"to be as it was written, and {what}, of {self.layout.name(cell)}"
            refuse(self.directory, condition, "Repair it: only this is repeated.", DamagedCell)


def _path(directory: str | os.PathLike[str]) -> Path:
    """The path, absolute from now on: a program may change its directory."""
    named = isinstance(directory, str | os.PathLike) and str(directory) != ""
    if not named or "\0" in os.fsdecode(directory):
        checks.fail("directory", repr(directory), "to be the path of a directory")
    return Path(os.fsdecode(directory)).expanduser().absolute()


def _exists(root: Path, wanted: Document) -> bool:
    """Whether the study wanted is there; refuse if anything else is."""
    there = set(os.listdir(root))
    document = Document.read(root)
    if document is not None:
        document.check_same(root, wanted)
        return True
    left_by_a_kill = {LOCK, PARTIAL, _README}
    unknown = sorted(there - left_by_a_kill - {_GROUP, _CELLS})
    if not unknown and _README in there:
        readme = root / _README
        ours = readme.is_file() and readme.read_text("utf-8") == _README_TEXT
        unknown = [] if ours else [_README]
    if unknown:
        condition = f"to be a study or an empty directory, and it holds {unknown[0]!r}"
        refuse(root, condition, UNCHANGED)
    if there - left_by_a_kill:
        # Cells whose `study.json` is gone are those of the study wanted only if they say so.
        files = sorted((root / _CELLS).iterdir()) if (root / _CELLS).is_dir() else []
        plain = [_plain(_files.read(each)) for each in files]
        addresses = {each.get("study") if isinstance(each, dict) else None for each in plain}
        if addresses != {wanted.address}:
            condition = f"to have its {NAME}, since its cells are of another study"
            refuse(root, condition, f"Restore {NAME}, or pass another directory.")
    return False
