"""`RawFile`: one file as its publisher made it; where a copy of it is found, and how it is checked.

A copy is looked for in a local directory, then in the cache, then at the publisher's. The local
directory is the user's and is only ever read. The cache is ours (`_files.cache`).

Downloads do not go through pooch, for reasons that tests/data/test_sources.py shows: it checks the
archive it receives, where publishers' checksums and ours are of the content; it keeps that archive,
also where it is a page of the wrong kind; and it undoes a gzip that a server merely announces.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sordino import _files, checks

CHUNK_BYTES = 1 << 18

_Place = Literal["data-dir", "cache", "missing"]
DirectoryLike = str | os.PathLike[str] | None


class DataError(Exception):
    """Data that cannot be had or cannot be used; the message says what to put where."""


class DownloadError(Exception):
    """One address did not give the file, or not the archive it should be; another one may."""


def _as_is(published: bytes) -> bytes:
    """Take the published bytes as the content."""
    return published


@dataclass(frozen=True)
class RawFile:
    """A file that recipes are made from.

    The checksum is of the *content*: what remains when compression is undone. A copy may be
    compressed anew, or not at all, and is still the same file.

    Parameters
    ----------
    name
        Its name in a data directory and in the cache; content is gzipped if it ends in ".gz".
    digest
        "md5:..." or "sha256:..." of the content; None for a file that only the user has.
    addresses
        Where to download it, tried in order.
    home
        The page a person would visit to get it.
    unpack
        From the downloaded bytes to the content; raises `DownloadError`.
    canonical
        From content to the form that is checked and parsed (see `files.unix_lines`).
    fingerprint
        From content to the bytes that are hashed, where they are not the content itself.
    """

    name: str
    digest: str | None
    addresses: tuple[str, ...]
    home: str
    unpack: Callable[[bytes], bytes] = _as_is
    canonical: Callable[[bytes], bytes] = _as_is
    fingerprint: Callable[[bytes], bytes] = _as_is

    @property
    def local_names(self) -> tuple[str, ...]:
        """Names under which a copy is recognised: compressed or not."""
        if self.name.endswith(".npz"):
            return (self.name,)
        plain = self.name.removesuffix(".gz")
        return (plain + ".gz", plain) if self.name != plain else (plain, plain + ".gz")

    def content_of(self, path: Path) -> bytes:
        """Read the content of a local copy, and check it."""
        try:
            stored = _files.read(path)
            content = gzip.decompress(stored) if path.suffix == ".gz" else stored
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise CorruptFileError(self, f"it cannot be decompressed ({error})", path) from error
        except OSError as error:
            raise DataError(f"{path} cannot be read: {_files.reason(error)}.") from error
        return self.checked(content, path)

    def checked(self, content: bytes, path: Path | None = None) -> bytes:
        """Return the canonical content if its checksum is the published one."""
        content = self.canonical(content)
        if self.digest is None:
            return content
        algorithm, expected = self.digest.split(":")
        found = hashlib.new(algorithm, self.fingerprint(content)).hexdigest()
        if found != expected:
            why = f"the {algorithm} of its content is {found}, not {expected}"
            raise CorruptFileError(self, why, path)
        return content


Reader = Callable[[RawFile], bytes]


class CorruptFileError(DataError):
    """A copy of a raw file that is not what its publisher made."""

    def __init__(self, raw: RawFile, why: str, path: Path | None = None) -> None:
        self.raw = raw
        super().__init__(
            f"{path or raw.name} is not that of {raw.home}: {why}. Replace or remove it."
        )


class MissingFileError(DataError):
    """A raw file that is in no known place and could not be downloaded."""

    def __init__(self, raw: RawFile, looked_in: list[Path], failures: list[str]) -> None:
        self.raw = raw
        places = " nor in ".join(str(place) for place in looked_in)
        tried = f", and could not be downloaded ({'; '.join(failures)})" if failures else ""
        hint = f"Get it from {raw.home} into a directory, and pass that as SORDINO_DATA."
        super().__init__(f"{' or '.join(raw.local_names)} is not in {places}{tried}. {hint}")


def data_directory(given: DirectoryLike = None) -> Path | None:
    """Return the user's directory of raw files: `given`, else SORDINO_DATA, else None."""
    name, value = ("data_dir", given) if given else ("SORDINO_DATA", os.environ.get("SORDINO_DATA"))
    if not value:
        return None
    path = Path(value).expanduser()
    if not path.is_dir():
        checks.fail(name, path, "to be a directory")
    return path


def find(raw: RawFile, data_dir: DirectoryLike = None) -> tuple[_Place, Path | None]:
    """Say where a copy of `raw` lies, by name alone; nothing is read."""
    places: list[tuple[_Place, Path | None]] = [
        ("data-dir", data_directory(data_dir)),
        ("cache", _files.cache()),
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


def fetch(raw: RawFile, data_dir: DirectoryLike = None) -> tuple[_Place, Path]:
    """Make sure a good copy of `raw` is here; return where it was (or "missing") and where it is.

    A corrupt copy in the cache is replaced; one in the user's directory is an error, and stays.
    """
    place, path = find(raw, data_dir)
    corrupt = None
    if path is not None:
        try:
            raw.content_of(path)
        except CorruptFileError as error:
            if place == "data-dir" or not raw.addresses:
                raise
            corrupt = error
        else:
            return place, path
    try:
        _downloaded(raw, data_dir)
    except MissingFileError as missing:
        # A copy is here, but no good, and no better one was had.
        raise corrupt or missing from None
    return "missing", _files.cache() / raw.name


def store(raw: RawFile, content: bytes, directory: Path) -> None:
    """Write checked content into `directory`: whole, or not at all."""
    data = gzip.compress(content, mtime=0) if raw.name.endswith(".gz") else content
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _files.write(directory / raw.name, data)
    except OSError as error:
        why = f"cannot be written to {directory}: {_files.reason(error)}. Set SORDINO_CACHE."
        raise DataError(f"{raw.name} {why}") from error


def _downloaded(raw: RawFile, data_dir: DirectoryLike) -> bytes:
    """Download from the first address that has it, unpack, check, and only then write."""
    cache, failures = _files.cache(), []
    for address in raw.addresses:
        try:
            content = raw.checked(raw.unpack(_published(raw, address)))
        except CorruptFileError:
            failures.append(f"{address}: not the expected file")
        except (OSError, http.client.HTTPException, DownloadError) as error:
            # What urllib wraps is in `reason`.
            failures.append(f"{address}: {getattr(error, 'reason', error)}")
        else:
            store(raw, content, cache)
            return content
    local = data_directory(data_dir)
    raise MissingFileError(raw, [local, cache] if local else [cache], failures)


def _published(raw: RawFile, address: str) -> bytes:
    """Download what is there; with a progress bar on standard error, if a person is watching."""
    import urllib.request

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console, received = Console(stderr=True), bytearray()
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with (
        urllib.request.urlopen(address, timeout=30) as response,
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        task = progress.add_task(raw.name, total=total)
        while chunk := response.read(CHUNK_BYTES):
            received += chunk
            progress.update(task, completed=len(received))
    if total is not None and len(received) != total:
        raise DownloadError(f"broke off after {len(received):,} of {total:,} bytes")
    return bytes(received)
