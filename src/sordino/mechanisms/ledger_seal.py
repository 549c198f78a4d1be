"""The seal: a small file beside a ledger with a key, and how far the ledger had come.

The ledger's history is chained with that key (`ledger_history.py`), so nobody who has the ledger
alone can add to it, and the count and the last digest in the seal say what must be there: an older
copy of the ledger, or one that was cut, does not reach so far.

The order of writing decides what a kill can do. The key is on the disk before anything that it
authenticates. The count follows each commit, and only then is a release recorded for whoever asked:
killed in between, the ledger is ahead of its seal, which is no harm (it is never behind), and the
entry that could be cut off is one whose model never left.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Self

from sordino import _check
from sordino.mechanisms.ledger_file import LedgerError, LedgerFile, keep_names, refuse

_MOST = 1000
"""Bytes of a seal, and some more."""
_MEND = (
    "Put both files back as they were together; if that cannot be done, `sordino ledger reseal` "
    "takes the ledger as it is, and leaves a mark that it did."
)


class LedgerWentBack(LedgerError):
    """A ledger that holds less, or other, than it did: an old copy, or its end is missing."""


@dataclass(frozen=True)
class Head:
    """So many rows of a history, and the digest of the last: nothing before it can change."""

    count: int
    digest: str

    def __str__(self) -> str:
        return f"{self.count}:{self.digest}"

    @classmethod
    def parsed(cls, text: str) -> Self:
        """From the text that `sordino ledger head` prints."""
        found = re.fullmatch(r"([0-9]{1,15}):([0-9a-f]{64})", str(text).strip())
        if found is None:
            hint = "Pass it as `sordino ledger head` printed it."
            _check.fail("head", str(text)[:80], "to be COUNT:DIGEST", hint)
        return cls(int(found[1]), found[2])


START = Head(0, "")
"""Of a history without rows."""


@dataclass(frozen=True)
class Seal:
    """The key of a ledger's history, and the head that it has at least reached."""

    key: bytes = field(repr=False)
    head: Head = START

    @classmethod
    def new(cls) -> Self:
        """With a fresh key from the operating system."""
        return cls(secrets.token_bytes(32))


def seal_path(ledger: Path) -> Path:
    """Where the seal of a ledger lies."""
    return ledger.with_name(f"{ledger.name}.seal")


def read(file: LedgerFile) -> Seal | None:
    """The seal of a ledger, if it has one."""
    path = seal_path(file.path)
    try:
        # Not through a link, and not waiting for whoever writes into a pipe.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = error.strerror or error
        refuse(file.path, f"to have a seal that can be read ({path.name}: {why})", _MEND)
    try:
        content = os.read(handle, _MOST) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    finally:
        os.close(handle)
    try:
        plain = json.loads(content)
        key, count, digest = (plain[name] for name in ("key", "count", "head"))
        head = START if count == 0 else Head.parsed(f"{count}:{digest}")
        return Seal(bytes.fromhex(key), head)
    except (ValueError, TypeError, KeyError):
        refuse(file.path, f"to have a seal as it was written ({path.name} is damaged)", _MEND)


def write(file: LedgerFile, seal: Seal) -> None:
    """Put a seal in the place of the one before, whole or not at all; under the ledger's lock."""
    path = seal_path(file.path)
    new = path.with_name(f"{path.name}.new")
    plain = {"key": seal.key.hex(), "count": seal.head.count, "head": seal.head.digest}
    try:
        like = os.stat(file.path)  # 0600, unless somebody shares the two with a group
        new.unlink(missing_ok=True)  # left by a kill
        handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(handle, "w") as opened:
            with suppress(PermissionError):
                os.fchown(handle, -1, like.st_gid)
                os.fchmod(handle, stat.S_IMODE(like.st_mode))
            opened.write(json.dumps(plain) + "\n")
            opened.flush()
            os.fsync(handle)
        os.rename(new, path)
        keep_names(path.parent)
    except OSError as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        if isinstance(error, PermissionError):
            hint = "Who writes to the ledger must be allowed to replace the seal beside it."
            refuse(file.path, f"to have a seal ({path.name}) that may be replaced", hint)
        file.explain_system(error)


def refuse_older(path: Path, found: int, known: Head, who: str) -> NoReturn:
    """Refuse a ledger that does not reach what somebody knows of it."""
    raise LedgerWentBack(
        f"Expected ledger={path} to hold the {known.count:,} rows that {who} of it, and it holds "
        f"{found:,}{' others' * (found >= known.count)}: an older copy was put in its place, or "
        f"its end was cut off. Nothing was recorded. {_MEND}"
    )
