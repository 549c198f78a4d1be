"""`_files`: only plain files are read; what is written is there whole or not at all."""

from __future__ import annotations

import errno
import os
import resource
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from sordino import _files
from sordino.errors import InvalidArgument


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


ODD: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "pipe": (_pipe, "it is a pipe, not a file", "it is a pipe, not a file"),
    "socket": (_socket, "it is a socket, not a file", "it is a socket, not a file"),
    "directory": (Path.mkdir, "it is a directory, not a file", "it is a directory, not a file"),
    "dangling": (
        *(lambda path: path.symlink_to("nowhere"), "No such file"),
        "it is a symbolic link, not a file",
    ),
    "loop": (_loop, "Too many levels of symbolic links", "it is a symbolic link, not a file"),
    "link to a device": (
        *(lambda path: path.symlink_to("/dev/zero"), "it is a device, not a file"),
        "it is a symbolic link, not a file",
    ),
}
"""What there can be in a place, and why it is not read and not written."""


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_plain_file_is_refused_at_once_and_stays(tmp_path: Path, kind: str) -> None:
    make, unread, unwritten = ODD[kind]
    make(tmp_path / "it")
    before = os.lstat(tmp_path / "it")
    with pytest.raises(OSError, match=unread):
        _files.read(tmp_path / "it")
    for act in (_files.check_place, lambda path: _files.write(path, b"new")):
        with pytest.raises(OSError, match=unwritten):
            act(tmp_path / "it")
    assert os.lstat(tmp_path / "it") == before
    assert os.listdir(tmp_path) == ["it"]


@pytest.mark.parametrize(
    "name", ["x" * 300, "a\0b", "no/such/file", "", "folder/", "file/x", "d" * 50 + "/d" * 3000]
)
def test_a_name_that_can_be_no_file_is_an_error_of_the_system(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"old")
    for act in (_files.read, _files.check_place, lambda path: _files.write(path, b"new")):
        with pytest.raises(OSError) as refused:  # noqa: PT011 - of whatever kind
            act(name)
        assert "\n" not in _files.reason(refused.value)
        with (
            pytest.raises(InvalidArgument, match=r"^Expected --out=.* to be a file that can be "),
            _files.explained("--out", name, "written"),
        ):
            act(name)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_links_are_read_and_not_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("file")
    assert _files.read(tmp_path / "link") == b"old"
    with pytest.raises(OSError, match="it is a symbolic link, not a file"):
        _files.write(tmp_path / "link", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_link_put_there_meanwhile_is_replaced_and_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "victim").write_bytes(b"old")
    fill = _files.fill

    def slowly(path: Path, content: bytes, mode: int) -> None:
        fill(path, content, mode)
        (tmp_path / "it").symlink_to("victim")

    monkeypatch.setattr(_files, "fill", slowly)
    _files.write(tmp_path / "it", b"new")
    assert (tmp_path / "victim").read_bytes() == b"old"
    assert not (tmp_path / "it").is_symlink()
    assert (tmp_path / "it").read_bytes() == b"new"


def test_a_link_in_the_name_beside_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"old")
    (tmp_path / "beside").symlink_to("victim")
    _files.put(tmp_path / "it", b"new", tmp_path / "beside")
    assert (tmp_path / "victim").read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["it", "victim"]


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("room", [0, 1, 1000, 4095])
def test_a_full_disk_leaves_what_was_there(tmp_path: Path, room: int, new: bool) -> None:
    if not new:
        (tmp_path / "it").write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as full:
            _files.write(tmp_path / "it", b"x" * 4096, new=new)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert full.value.errno == errno.EFBIG
    assert os.listdir(tmp_path) == ([] if new else ["it"])
    assert new or (tmp_path / "it").read_bytes() == b"old"


@pytest.mark.parametrize("failing", ["open", "write", "fsync", "replace", "link", "unlink"])
def test_a_failure_of_any_operation_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    (tmp_path / "it").write_bytes(b"old")
    new = failing in ("link", "unlink")
    place = tmp_path / ("new" if new else "it")
    real = getattr(os, failing)

    def fail(path: object, *rest: object) -> object:
        if failing == "unlink" and not os.path.exists(str(path)):
            return real(path, *rest)
        raise KeyboardInterrupt  # as a person would, at that moment

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, fail)
        with pytest.raises(KeyboardInterrupt):
            _files.write(place, b"new", new=new)
    assert (tmp_path / "it").read_bytes() == b"old"
    if failing != "unlink":  # nobody can tidy up then
        assert os.listdir(tmp_path) == ["it"]


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_overwrites_nothing_also_where_there_are_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    _files.write(tmp_path / "it", b"one", mode=0o600, new=True)
    with pytest.raises(FileExistsError):
        _files.write(tmp_path / "it", b"two", new=True)
    monkeypatch.setattr(os.path, "lexists", lambda path: False)  # another was quicker
    with pytest.raises(FileExistsError):
        _files.write(tmp_path / "it", b"two", new=True)
    assert (tmp_path / "it").read_bytes() == b"one"
    assert stat.S_IMODE((tmp_path / "it").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["it"]


def test_permissions_are_asked_before_the_work(unprivileged: Path) -> None:
    (unprivileged / "mine").write_bytes(b"old")
    (unprivileged / "mine").chmod(0o400)
    (unprivileged / "closed").mkdir(mode=0o500)
    with pytest.raises(PermissionError, match="it may not be changed"):
        _files.check_place(unprivileged / "mine")
    with pytest.raises(PermissionError, match="nothing may be written into its directory"):
        _files.check_place(unprivileged / "closed" / "it")
    (unprivileged / "mine").chmod(0o000)
    with pytest.raises(PermissionError):
        _files.read(unprivileged / "mine")


def test_a_name_as_long_as_can_be_is_written(tmp_path: Path) -> None:
    _files.write(tmp_path / ("x" * 255), b"new")
    assert os.listdir(tmp_path) == ["x" * 255]
