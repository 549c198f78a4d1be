"""Whether models of a file left this machine before: said where no ledger adds them up.

What is kept, in a directory of the user's (mode 0700), is a secret key and, for each file that a
model was released from, an HMAC of its bytes as the name of a small file that holds the days. It
holds no path and nothing of the records; without the key its names are as good as random. Whoever
has the key too can try candidates for a record against them, as with a ledger: it is INTERNAL.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import warnings
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sordino.release.ledger import is_open

if TYPE_CHECKING:
    from sordino.data.source import Source

_KEY = "key"


class ReleasedBefore(UserWarning):
    """Models of the same file were released before, and no ledger is charged now."""


def directory() -> Path:
    """`SORDINO_STATE`, else `$XDG_STATE_HOME/sordino`, else `~/.local/state/sordino`."""
    if given := os.environ.get("SORDINO_STATE"):
        return Path(given).expanduser()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "sordino"


def warn(source: Source) -> None:
    """Warn of earlier releases from a file, byte for byte this one, unless a ledger is open.

    Records in memory are known again, too.
    """
    if not _known_again(source) or is_open():
        return
    days: list[str] = []
    with suppress(OSError):
        if not (directory() / "released" / _KEY).exists():  # to ask makes nothing
            return
        days = _place(source).read_text("ascii", "replace").split()
    if not days:
        return
    these = "this file" if source.is_file else "these records"
    before = f"Models released from {these} before: {len(days):,}, last on {days[-1][:10]}. They"
    hint = "add up: keep a budget (`sordino ledger init`, then --ledger FILE --dataset NAME)."
    warnings.warn(f"{before} {hint}", ReleasedBefore, stacklevel=2)


def add(source: Source) -> None:
    """Keep that a model of this file was released; a disk that refuses is no reason to fail."""
    if not _known_again(source):
        return
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        with open(os.open(_place(source), flags, 0o600), "a") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%d}\n")


def _known_again(source: Source) -> bool:
    """Whether the records are the user's own, and can be told from others."""
    return source.is_file or (source.records is not None and bool(source.records.digest()))


def _place(source: Source) -> Path:
    """Where releases from this file are noted; the secret key is made on first use."""
    place = directory() / "released"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = place / _KEY
    if not key.exists():  # of two processes one makes it
        new = place / f".{_KEY}-{secrets.token_hex(4)}"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
        with suppress(FileExistsError):
            os.link(new, key)
        new.unlink()
    if source.records is not None:
        content = source.records.digest()
    else:
        with open(os.path.expanduser(source.data), "rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
    return place / hmac.new(key.read_bytes(), content, "sha256").hexdigest()
