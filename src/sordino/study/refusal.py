"""`StudyError`, and one sentence for everything that can be wrong with a study's directory."""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn
from zipfile import BadZipFile

from sordino.errors import Refused

UNREADABLE = (
    *(ValueError, KeyError, TypeError, AttributeError, EOFError, MemoryError, OverflowError),
    *(NotImplementedError, RuntimeError, BadZipFile, zlib.error, struct.error, SyntaxError),
)
"""What numpy and zipfile raise of a damaged file of numbers. Their sentences are not passed on:
some advise to load it with pickle."""
_KEPT = "Finished cells are kept."


class StudyError(Refused):
    """A study that cannot be used as asked; its text names the directory and what to do."""


class DamagedCell(StudyError):
    """A finished or failed cell whose files are not as they were written."""


def refuse(directory: Path, condition: str, hint: str) -> NoReturn:
    """Raise `StudyError` in the house's sentence form."""
    raise StudyError(f"Expected study={directory} {condition}. {hint}")


def first_foreign(directory: Path, ours: Collection[str]) -> str | None:
    """The first name in a directory that is not among ours, nor left half written by a kill."""
    there = sorted(os.listdir(directory))
    return next(
        (each for each in there if each not in ours and not each.endswith(".partial")), None
    )


@contextmanager
def explained(directory: Path, verb: str) -> Iterator[None]:
    """Turn what the operating system says into a sentence; `verb` is "read" or "written"."""
    try:
        yield
    except OSError as error:
        try:
            _explain(directory, verb, error)
        except StudyError as sentence:
            raise sentence from error


def _explain(directory: Path, verb: str, error: OSError) -> NoReturn:
    code = error.errno
    if code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        refuse(directory, "to be on a disk with room", f"Make room and run it again. {_KEPT}")
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = f"Change its permissions, or pass another directory. {_KEPT}"
        refuse(directory, f"to be a directory that can be {verb}", hint)
    if code in (errno.ENOTDIR, errno.EEXIST):
        refuse(directory, "to be a directory, not a file", "Pass the path of a directory.")
    if code == errno.ENOENT:
        refuse(directory, f"to have {error.filename}", "It is gone; restore it from a copy.")
    says = error.strerror or error
    refuse(directory, f"to be {verb} without errors", f"The system says: {says}. {_KEPT}")
