"""`RawFile`: one file as its publisher made it, and what can be wrong with our copy of it."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sordino import _files


def as_is(published: bytes) -> bytes:
    """Take the published bytes as the content."""
    return published


def unix_lines(content: bytes) -> bytes:
    """Make line ends LF, where copies of one file differ in nothing else."""
    return content.replace(b"\r\n", b"\n")


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
        From the downloaded bytes to the content.
    canonical
        From content to the form that is checked and parsed (see `unix_lines`).
    fingerprint
        From content to the bytes that are hashed, where they are not the content itself.
    """

    name: str
    digest: str | None
    addresses: tuple[str, ...]
    home: str
    unpack: Callable[[bytes], bytes] = as_is
    canonical: Callable[[bytes], bytes] = as_is
    fingerprint: Callable[[bytes], bytes] = as_is

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


class DataError(Exception):
    """Data that cannot be had or cannot be used; the message says what to put where."""


class CorruptFileError(DataError):
    """A copy of a raw file that is not what its publisher made."""

    def __init__(self, raw: RawFile, why: str, path: Path | None = None) -> None:
        self.raw = raw
        super().__init__(
            f"{path or raw.name} is not the published file: {why}. "
            f"Replace it with the one from {raw.home}, or remove it to have it downloaded."
        )


class MissingFileError(DataError):
    """A raw file that is in no known place and could not be downloaded."""

    def __init__(self, raw: RawFile, looked_in: list[Path], failures: list[str]) -> None:
        self.raw = raw
        places = " nor in ".join(str(place) for place in looked_in)
        tried = f", and could not be downloaded ({'; '.join(failures)})" if failures else ""
        super().__init__(
            f"{' or '.join(raw.local_names)} is not in {places}{tried}. "
            f"Get it from {raw.home}, put it into a directory and name that in "
            "SORDINO_DATA (or --data-dir, or data_dir=)."
        )
