"""From a publisher's address to a checked file in the cache, or nothing at all."""

from __future__ import annotations

import gzip
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sordino import _files
from sordino.data.rawfile import CorruptFileError, DataError, RawFile
from sordino.data.unpack import UnpackError

TIMEOUT_SECONDS = 30
CHUNK_BYTES = 1 << 18


class DownloadError(Exception):
    """One address did not give the file; another one may."""


def content(raw: RawFile, address: str) -> bytes:
    """Download `raw` from `address`, unpack it and check it. Nothing is written."""
    try:
        return raw.checked(raw.unpack(_published(raw, address)))
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise DownloadError(f"{address}: {reason}") from error
    except CorruptFileError as error:
        raise DownloadError(f"{address}: not the expected file") from error
    except UnpackError as error:
        raise DownloadError(f"{address}: {error}") from error


def store(raw: RawFile, content: bytes, directory: Path) -> Path:
    """Write checked content into `directory`: whole, or not at all."""
    data = gzip.compress(content, mtime=0) if raw.name.endswith(".gz") else content
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _files.write(directory / raw.name, data)
    except OSError as error:
        raise DataError(
            f"{raw.name} cannot be written to {directory}: {_files.reason(error)}. "
            "Set SORDINO_CACHE to a directory with room for it."
        ) from error
    return directory / raw.name


def _published(raw: RawFile, address: str) -> bytes:
    received = bytearray()
    with (
        urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as response,
        _bar(raw.name) as advance,
    ):
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        while chunk := response.read(CHUNK_BYTES):
            received += chunk
            advance(len(received), total)
    if total is not None and len(received) != total:
        raise DownloadError(f"{address}: broke off after {len(received):,} of {total:,} bytes")
    return bytes(received)


@contextmanager
def _bar(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a progress bar on standard error, if a person is watching."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(
        *columns, TransferSpeedColumn(), console=console, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
