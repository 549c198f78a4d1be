"""The one way to files that somebody named: read a plain one, or write one whole or not at all.

Opening a pipe waits for ever, a device never ends, and a link leads elsewhere. So only plain files
are read, through links or not; and what is written stands beside its place first, is on the disk,
and then gets its name. A symbolic link in that place is refused, never followed.

What cannot be done is an OSError, as of the operating system; `reason` says it in words, and
`explained` in a sentence about an argument. `cache` is where sordino keeps what it can make again.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NoReturn

from sordino import checks

_PathLike = str | os.PathLike[str]

# A pipe is opened without waiting for its other end, and then refused. Not all systems have these.
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}


_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "Make room and try again."),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Change the permissions."),
    **dict.fromkeys((errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS), "Put it on a local disk."),
}


def cache() -> Path:
    """`SORDINO_CACHE`, else `$XDG_CACHE_HOME/sordino`, else `~/.cache/sordino`; may not exist."""
    if given := os.environ.get("SORDINO_CACHE"):
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sordino"


def reason(error: OSError) -> str:
    """Why something could not be done, in words and without the path."""
    return error.strerror or str(error)


@contextmanager
def explained(
    name: str,
    path: _PathLike,
    verb: str,
    hint: str = "",
    error: Callable[[str], Exception] | None = None,
    noun: str = "file",
    kept: str = "",
) -> Iterator[None]:
    """Refuse the argument `name` (`checks.fail`) where `path` cannot be `verb`: "read", say.

    `kept` says, behind the hint, what of earlier work is still there.
    """
    try:
        yield
    except OSError as system:
        hint = f"{hint or _ADVICE.get(system.errno or 0, '')} {kept}".strip()
        condition = f"to be a {noun} that can be {verb} ({reason(system)})"
        checks.fail(name, Path(path), condition, hint, error)


def opened(path: _PathLike, flags: int = _READ, mode: int = 0o600) -> BinaryIO:
    """A plain file, opened as `flags` say; anything else is an OSError, at once."""
    try:
        descriptor = os.open(path, flags | _AT_ONCE, mode)
    except ValueError:
        _fail(path, "a path holds no zero character")
    except OSError as error:
        if error.errno == errno.ENXIO:  # so says a socket, whatever it is asked for
            _fail(path, "it is a socket, not a file")
        raise
    try:
        _check_plain(path, os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb" if flags == _READ else "r+b")
    except BaseException:
        os.close(descriptor)
        raise


def read(path: _PathLike, most: int = -1) -> bytes:
    """What a plain file holds, or its first `most` bytes."""
    with opened(path) as file:
        return file.read(most)


def read_text(path: _PathLike) -> str:
    """The text of a plain file, in UTF-8; a mark at its beginning is no part of it."""
    try:
        return read(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        _fail(path, "it is not text in UTF-8")


def check_place(path: _PathLike) -> None:
    """Raise the OSError that `write` would, as far as it can be known before the work is done."""
    place = os.fspath(path)
    directory = os.path.dirname(place) or "."
    if not os.path.basename(place):
        _fail(path, "it names no file")
    try:
        found = os.lstat(place)
    except ValueError:
        _fail(path, "a path holds no zero character")
    except FileNotFoundError:
        if not os.path.isdir(directory):
            _fail(path, f"there is no directory {directory}", errno.ENOENT)
    else:
        _check_plain(path, found.st_mode)
        if not _may(place, os.W_OK):
            _fail(path, "it may not be changed", errno.EACCES)
    if not _may(directory, os.W_OK | os.X_OK):
        _fail(path, "nothing may be written into its directory", errno.EACCES)


def write(path: _PathLike, content: bytes, *, mode: int = 0o600, new: bool = False) -> None:
    """Write a file, whole or not at all, in the place of one that may be there.

    Parameters
    ----------
    path, content
        Where, and what.
    mode
        Who may read it, before the user's mask; others than its owner only if asked for.
    new
        Refuse to replace a file (`FileExistsError`).
    """
    if new and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "it is there already", os.fspath(path))
    check_place(path)
    directory = os.path.dirname(os.fspath(path)) or "."
    beside = os.path.join(directory, f".{os.urandom(8).hex()}.partial")
    put(path, content, beside, mode=mode, new=new)
    with suppress(OSError):  # it is there, whole; perhaps not after a loss of power
        settle(directory)


@contextmanager
def growing(path: _PathLike, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A file to be written part by part, in the place of one that may be there.

    It gets its name when the block ends and all of it is on the disk; if anything is raised there,
    nothing is left of it.
    """
    check_place(path)
    directory = os.path.dirname(os.fspath(path)) or "."
    beside = os.path.join(directory, f".{os.urandom(8).hex()}.partial")
    try:
        with os.fdopen(os.open(beside, _NEW, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
    with suppress(OSError):  # it is there, whole; perhaps not after a loss of power
        settle(directory)


def put(
    path: _PathLike, content: bytes, beside: _PathLike, *, mode: int = 0o600, new: bool = False
) -> None:
    """Write a file under the name `beside`, and then give it its own; no place is checked."""
    try:
        with suppress(FileNotFoundError):
            os.unlink(beside)  # left by a kill; or put there by somebody, to lead elsewhere
        fill(beside, content, mode)
        if new:
            _name_new(path, beside)
        else:
            os.replace(beside, path)
    except BaseException:
        with suppress(OSError):  # a full disk needs the room
            os.unlink(beside)
        raise


def fill(path: _PathLike, content: bytes, mode: int = 0o600) -> None:
    """Make a new file of this content; it is on the disk, not only in its cache, afterwards."""
    descriptor = os.open(path, _NEW, mode)  # with its mode at once: a later chmod leaves a gap
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def settle(directory: _PathLike) -> None:
    """Make new names in a directory outlive a loss of power."""
    if os.name != "posix":  # elsewhere a directory cannot be opened
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _name_new(path: _PathLike, beside: _PathLike) -> None:
    try:
        os.link(beside, path)  # fails if the name is taken
    except FileExistsError:
        raise
    except OSError:  # a memory stick has no second names
        os.close(os.open(path, _NEW, 0o600))
        try:
            os.replace(beside, path)
        except BaseException:
            os.unlink(path)
            raise
    else:
        os.unlink(beside)


def _may(path: str, what: int) -> bool:
    return os.access(path, what, effective_ids=os.access in os.supports_effective_ids)


def _check_plain(path: _PathLike, mode: int) -> None:
    if not stat.S_ISREG(mode):
        _fail(path, f"it is {_KINDS.get(stat.S_IFMT(mode), 'something else')}, not a file")


def _fail(path: _PathLike, why: str, code: int = errno.EINVAL) -> NoReturn:
    raise OSError(code, why, os.fspath(path))
