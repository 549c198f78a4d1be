"""The directory of a study: whether one may be made there, and making it."""

from __future__ import annotations

import os
from pathlib import Path

from sordino import _files, checks
from sordino.study import document as documents
from sordino.study.cell_files import FOLDER, study_of
from sordino.study.chunks import GROUP
from sordino.study.disk import LOCK, PARTIAL, Disk, WriterLock
from sordino.study.document import Document
from sordino.study.refusal import explained, refuse

README = "README.txt"
README_TEXT = """\
INTERNAL: do not publish or share this directory.

It is a study made by sordino: weights of models trained without protection, on a dataset and on
copies of it with one record replaced. Whoever has it can tell who is in the data.

study.json   what was measured
grid.zarr    the weights, for xarray.open_zarr; they count where status is "done"
cells        one file a cell: done, or failed and why, and checksums

Running the same command again goes on where it stopped.
"""

_LEFT_BY_A_KILL = {LOCK, PARTIAL, README}
_UNCHANGED = "Pass another directory; this one was not changed."


def checked(directory: str | os.PathLike[str]) -> Path:
    """Return the path, absolute from now on: a program may change its directory."""
    hint = "Pass the path of a study, such as 'study'."
    if not isinstance(directory, str | os.PathLike) or str(directory) == "":
        checks.fail("directory", repr(directory), "to be the path of a directory", hint)
    if "\0" in os.fsdecode(directory):
        checks.fail("directory", repr(directory), "to be without zero characters", hint)
    return Path(os.fsdecode(directory)).expanduser().absolute()


def document(root: Path) -> Document:
    """The `study.json` of a study that exists."""
    found = documents.read(root)
    if found is None:
        condition = f"to be a study, and it has no {documents.NAME}"
        refuse(root, condition, "Pass the directory of a study that was made before.")
    return found


def create(root: Path, wanted: Document) -> WriterLock:
    """Get the right to write the study wanted, and make its directory unless it is there.

    `study.json` comes first: what else there is follows from it, and is made by the study.
    """
    with explained(root, "written"):
        if not root.exists():
            root.parent.mkdir(parents=True, exist_ok=True)
            root.mkdir(mode=0o700, exist_ok=True)
        _exists(root, wanted)  # before a file is made in somebody else's directory
        lock = WriterLock(root)
        try:
            if not _exists(root, wanted):
                os.chmod(root, 0o700)
                disk = Disk(root)
                disk.put(README, README_TEXT.encode("ascii"))
                disk.put(documents.NAME, wanted.encode())
                disk.settle(["."])
        except BaseException:
            lock.release()
            raise
    return lock


def _exists(root: Path, wanted: Document) -> bool:
    """Whether the study wanted is there; refuse if anything else is."""
    there = set(os.listdir(root))
    found = documents.read(root)
    if found is not None:
        found.check_same(root, wanted)
        return True
    foreign = sorted(there - _LEFT_BY_A_KILL - {GROUP, FOLDER})
    if not foreign and README in there:
        ours = (root / README).is_file() and (root / README).read_text("utf-8") == README_TEXT
        foreign = [] if ours else [README]
    if foreign:
        condition = f"to be a study or an empty directory, and it holds {foreign[0]!r}"
        refuse(root, condition, _UNCHANGED)
    if there - _LEFT_BY_A_KILL:
        _check_orphans(root, wanted)
    return False


def _check_orphans(root: Path, wanted: Document) -> None:
    """Take cells whose `study.json` is gone for those of the study wanted only if they say so."""
    folder = root / FOLDER
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    if {study_of(_files.read(each)) for each in files} != {wanted.address}:
        condition = f"to have its {documents.NAME}, and what is there is not of what is asked for"
        hint = f"Restore {documents.NAME} from a copy, or pass another directory."
        refuse(root, condition, hint)
