"""`OutputFile`: the outputs of an audit on disk, appended block by block, so that it can go on.

The first line is JSON and says what was run: mechanism, data, seed. After it come blocks: a head
(world, first run, runs, values a run, checksum) and float64 numbers. Whatever a kill left half
written is cut off at the next start; anything else that is not a block is, too.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from sordino import _files
from sordino.data.dataset import Dataset
from sordino.errors import Refused
from sordino.types import Floats

FORMAT = "sordino audit outputs, version 1"
_HEAD = struct.Struct("<4sqqqqI")
_MARK = b"runs"
_MOST_HEADER = 1 << 20
_BEGINNING = f'{{"format": "{FORMAT}"'.encode()


class OutputFileError(Refused):
    """A file of outputs that cannot be used as asked; its text says why."""


class OutputFile:
    """Outputs of one mechanism on two datasets; one process at a time may open it.

    Use it as a context: `with OutputFile(path, described) as file`.

    Parameters
    ----------
    path
        Made if it is not there.
    described
        What is run, as plain values by name. A file with another value is refused by that name.
    """

    def __init__(self, path: str | os.PathLike[str], described: dict[str, Any]) -> None:
        self.path = Path(path)
        self._file = self._opened()
        try:
            self._lock()
            self._begin({"format": FORMAT, **described})
        except BaseException:
            self._file.close()
            raise

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
        head = _HEAD.pack(_MARK, world, start, *values.shape, zlib.crc32(content))
        try:
            self._file.write(head + content)
            self._file.flush()
        except OSError as error:
            self._refuse_writing(error)

    def _refuse_writing(self, error: OSError) -> NoReturn:
        with suppress(OSError):  # it would try to write the rest
            self._file.close()
        why = f"Cannot write file={self.path}: {_files.reason(error)}."
        raise OutputFileError(f"{why} Finished runs are kept.") from error

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _opened(self) -> BinaryIO:
        try:
            return _files.opened(self.path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            reason = _files.reason(error)
            raise OutputFileError(f"Cannot open file={self.path}: {reason}.") from error

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputFileError(
                f"Expected file={self.path} to be free; another audit is writing it."
            ) from None

    def _begin(self, described: dict[str, Any]) -> None:
        """Write the header, or compare the one that is there."""
        line = self._file.readline(_MOST_HEADER)
        if not line.endswith(b"\n") and _BEGINNING.startswith(line[: len(_BEGINNING)]):
            self._file.seek(0)
            self._file.truncate()  # empty, or killed while this line was being written
            line = json.dumps(described).encode() + b"\n"
            try:
                self._file.write(line)
                self._file.flush()
            except OSError as error:
                with suppress(OSError):
                    os.unlink(self.path)  # nothing is in it
                self._refuse_writing(error)
        self._start = len(line)
        try:
            found = json.loads(line)
            if found["format"] != FORMAT:
                raise KeyError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise OutputFileError(
                f"Expected file={self.path} to hold outputs of an audit. Pass another file."
            ) from None
        for name, value in json.loads(json.dumps(described)).items():
            if found.get(name) != value:
                raise OutputFileError(
                    f"Expected file={self.path} to be of the same {name}. Pass another file, or "
                    f"audit what it was begun with: {name} = {json.dumps(found.get(name))[:200]}."
                )

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


def digest(data: Any) -> str | None:
    """SHA-256 of what a mechanism is given; None where it cannot be written down."""
    if isinstance(data, Dataset):
        return data.fingerprint
    try:
        return hashlib.sha256(repr(_written(data)).encode()).hexdigest()
    except TypeError:
        return None


def _written(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return value
    if isinstance(value, Dataset):
        return value.fingerprint
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fiubcUS":
        array = np.ascontiguousarray(value)
        return [array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
    if isinstance(value, dict):
        return sorted((str(key), _written(each)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return [_written(each) for each in value]
    raise TypeError(type(value).__name__)
