"""Where raw files are found: a local directory, then the cache, then the publisher.

The local directory is the user's and is only ever read. The cache is ours (`_cache.py`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from sordino import _cache, _check
from sordino.data import download
from sordino.data.rawfile import CorruptFileError, MissingFileError, RawFile

Place = Literal["data-dir", "cache", "missing"]
DirectoryLike = str | os.PathLike[str] | None


def data_directory(given: DirectoryLike = None) -> Path | None:
    """Return the user's directory of raw files: `given`, else SORDINO_DATA, else None."""
    name, value = ("data_dir", given) if given else ("SORDINO_DATA", os.environ.get("SORDINO_DATA"))
    if not value:
        return None
    path = Path(value).expanduser()
    if not path.is_dir():
        _check.fail(name, path, "to be a directory", "It should hold the files of docs/data.md.")
    return path


def find(raw: RawFile, data_dir: DirectoryLike = None) -> tuple[Place, Path | None]:
    """Say where a copy of `raw` lies, by name alone; nothing is read."""
    places: list[tuple[Place, Path | None]] = [
        ("data-dir", data_directory(data_dir)),
        ("cache", _cache.directory()),
    ]
    for place, directory in places:
        for name in raw.local_names:
            if directory is not None and (directory / name).is_file():
                return place, directory / name
    return "missing", None


def read(raw: RawFile, data_dir: DirectoryLike = None) -> bytes:
    """Return the checked content of `raw`, downloading it into the cache if it is nowhere."""
    _, path = find(raw, data_dir)
    return raw.content_of(path) if path else _downloaded(raw, data_dir)


def fetch(raw: RawFile, data_dir: DirectoryLike = None) -> tuple[Place, Path]:
    """Make sure a good copy of `raw` is here; return where it was (or "missing") and where it is.

    A corrupt copy in the cache is replaced; one in the user's directory is an error, and stays.
    """
    place, path = find(raw, data_dir)
    if path is not None:
        try:
            raw.content_of(path)
        except CorruptFileError as corrupt:
            if place == "data-dir" or not raw.addresses:
                raise
            try:
                _downloaded(raw, data_dir)
            except MissingFileError:
                raise corrupt from None  # it is here, but no good, and no better one was had
            return "missing", _cache.directory() / raw.name
        else:
            return place, path
    _downloaded(raw, data_dir)
    return "missing", _cache.directory() / raw.name


def _downloaded(raw: RawFile, data_dir: DirectoryLike) -> bytes:
    cache = _cache.directory()
    failures: list[str] = []
    for address in raw.addresses:
        try:
            content = download.content(raw, address)
        except download.DownloadError as failure:
            failures.append(str(failure))
        else:
            download.store(raw, content, cache)
            return content
    local = data_directory(data_dir)
    raise MissingFileError(raw, [local, cache] if local else [cache], failures)
