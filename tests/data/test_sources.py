from __future__ import annotations

import gzip
import hashlib
import io
import os
from pathlib import Path

import pooch
import pytest

from sordino import _files as files
from sordino.data import sources
from sordino.data.catalogue.files import gunzipped, unix_lines
from sordino.data.sources import (
    CorruptFileError,
    DataError,
    MissingFileError,
    RawFile,
)
from sordino.errors import InvalidArgument

CONTENT = b"1,2\n3,4\n" * 1000
HOME = "https://publisher.example/things"


def _raw(*addresses: str, name: str = "thing.csv.gz", content: bytes = CONTENT) -> RawFile:
    digest = "sha256:" + hashlib.sha256(content).hexdigest()
    return RawFile(name, digest, addresses, HOME, gunzipped)


def _files(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.rglob("*")) if directory.exists() else []


# --- local copies


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("thing.csv.gz", gzip.compress(CONTENT, 9, mtime=0)),
        ("thing.csv.gz", gzip.compress(CONTENT, 1, mtime=0)),
        ("thing.csv", CONTENT),
    ],
)
def test_a_local_copy_counts_by_content_however_compressed(
    cache: Path, tmp_path: Path, name: str, stored: bytes
) -> None:
    (tmp_path / name).write_bytes(stored)
    assert sources.read(_raw(), tmp_path) == CONTENT
    assert sources.find(_raw(), tmp_path) == ("data-dir", tmp_path / name)
    assert not cache.exists()


def test_the_environment_names_the_directory_and_an_argument_wins(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thing.csv").write_bytes(CONTENT)
    monkeypatch.setenv("SORDINO_DATA", str(tmp_path / "one"))
    assert sources.find(_raw())[1] == tmp_path / "one" / "thing.csv"
    assert sources.find(_raw(), tmp_path / "two")[1] == tmp_path / "two" / "thing.csv"


def test_a_directory_that_is_not_there_is_named(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidArgument, match=r"data_dir=/.*/nowhere to be a directory"):
        sources.read(_raw(), tmp_path / "nowhere")
    monkeypatch.setenv("SORDINO_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InvalidArgument, match=r"SORDINO_DATA=/.*/nowhere to be a directory"):
        sources.read(_raw())


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (gzip.compress(CONTENT + b"5", mtime=0), "the sha256 of its content is"),
        (gzip.compress(CONTENT, mtime=0)[:-20], "cannot be decompressed"),
        (b"<html>not found</html>", "cannot be decompressed"),
        (b"", "the sha256 of its content is"),
    ],
)
def test_a_corrupt_local_copy_is_named_kept_and_not_silently_replaced(
    cache: Path, tmp_path: Path, publisher, stored: bytes, why: str
) -> None:
    publisher.pages["thing"] = gzip.compress(CONTENT, mtime=0)
    path = tmp_path / "thing.csv.gz"
    path.write_bytes(stored)
    raw = _raw(publisher.url("thing"))
    for attempt in (sources.read, sources.fetch):
        with pytest.raises(CorruptFileError) as caught:
            attempt(raw, tmp_path)
        message = str(caught.value)
        assert str(path) in message
        assert why in message
        assert HOME in message
    assert path.read_bytes() == stored
    assert publisher.asked == []


def test_line_ends_do_not_matter_where_copies_differ_in_them(cache: Path, tmp_path: Path) -> None:
    digest = "md5:" + hashlib.md5(CONTENT).hexdigest()
    raw = RawFile("thing.csv", digest, (), HOME, canonical=unix_lines)
    (tmp_path / "thing.csv").write_bytes(CONTENT.replace(b"\n", b"\r\n"))
    assert sources.read(raw, tmp_path) == CONTENT


def test_an_unreadable_copy_is_a_data_error(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "thing.csv").write_bytes(CONTENT)
    monkeypatch.setattr(files, "read", refuse)
    with pytest.raises(DataError, match=r"thing\.csv cannot be read: Permission denied\."):
        sources.read(_raw(), tmp_path)


# --- the cache


def test_the_cache_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SORDINO_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert files.cache() == tmp_path / ".cache" / "sordino"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert files.cache() == tmp_path / "xdg" / "sordino"
    monkeypatch.setenv("SORDINO_CACHE", str(tmp_path / "own"))
    assert files.cache() == tmp_path / "own"


def test_a_download_goes_to_the_cache_once(cache: Path, publisher) -> None:
    publisher.pages["thing"] = gzip.compress(CONTENT, mtime=0)
    raw = _raw(publisher.url("thing"))
    assert sources.read(raw) == CONTENT
    assert sources.read(raw) == CONTENT
    assert publisher.asked == ["thing"]
    assert _files(cache) == ["thing.csv.gz"]
    assert gzip.decompress((cache / "thing.csv.gz").read_bytes()) == CONTENT
    assert sources.find(raw) == ("cache", cache / "thing.csv.gz")


@pytest.mark.parametrize("watched", [True, False])
def test_a_progress_bar_is_for_people_only(
    cache: Path,
    publisher,
    watched: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    if watched:
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes the stream for a terminal
    publisher.pages["thing"] = gzip.compress(CONTENT, mtime=0)
    sources.read(_raw(publisher.url("thing")))
    out, err = capsys.readouterr()
    assert out == ""
    assert ("thing.csv.gz" in err and "bytes" in err) == watched
    assert watched or err == ""


def test_a_local_copy_comes_before_the_cache_and_the_publisher(
    cache: Path, tmp_path: Path, publisher
) -> None:
    sources.store(_raw(), CONTENT, cache)
    (tmp_path / "thing.csv").write_bytes(CONTENT)
    assert sources.find(_raw(publisher.url("thing")), tmp_path)[0] == "data-dir"
    assert sources.read(_raw(publisher.url("thing")), tmp_path) == CONTENT
    assert publisher.asked == []


def test_the_second_address_is_tried_when_the_first_fails(cache: Path, publisher) -> None:
    publisher.pages["mirror"] = gzip.compress(CONTENT, mtime=0)
    raw = _raw(publisher.url("gone"), publisher.url("mirror"))
    assert sources.read(raw) == CONTENT
    assert publisher.asked == ["gone", "mirror"]


@pytest.mark.parametrize(
    ("served", "why"),
    [
        (None, "Not Found"),
        (gzip.compress(b"something else", mtime=0), "not the expected file"),
        (b"<html>moved</html>", "not a gzip file"),
    ],
)
def test_a_failed_download_says_what_to_put_where_and_leaves_nothing(
    cache: Path, tmp_path: Path, publisher, served: bytes | None, why: str
) -> None:
    if served is not None:
        publisher.pages["thing"] = served
    local = tmp_path / "mine"
    local.mkdir()
    with pytest.raises(MissingFileError) as caught:
        sources.read(_raw(publisher.url("thing")), local)
    message = str(caught.value)
    for part in ("thing.csv.gz or thing.csv", str(local), str(cache), HOME, "SORDINO_DATA", why):
        assert part in message
    assert publisher.url("thing") in message
    assert _files(cache) == []
    assert _files(local) == []


def test_a_download_that_breaks_off_is_not_kept_and_can_be_tried_again(
    cache: Path, publisher
) -> None:
    # Text compresses to less than one chunk; random bytes make the transfer longer than that.
    content = os.urandom(3 * sources.CHUNK_BYTES)
    raw = _raw(publisher.url("thing"), content=content)
    publisher.pages["thing"] = gzip.compress(content, mtime=0)
    publisher.cut.add("thing")
    with pytest.raises(MissingFileError, match=r"broke off after [\d,]+ of [\d,]+ bytes"):
        sources.read(raw)
    assert _files(cache) == []
    publisher.cut.clear()
    assert sources.read(raw) == content


def test_nobody_listening_is_a_missing_file(cache: Path) -> None:
    with pytest.raises(MissingFileError, match="refused"):
        sources.read(_raw("http://127.0.0.1:9/thing"))


def test_a_file_that_only_the_user_has_is_asked_for(cache: Path) -> None:
    raw = RawFile("own.csv", None, (), "your own extract")
    with pytest.raises(MissingFileError) as caught:
        sources.fetch(raw)
    assert "own.csv or own.csv.gz is not in" in str(caught.value)
    assert "downloaded" not in str(caught.value)


def test_fetch_replaces_a_corrupt_file_in_the_cache(cache: Path, publisher) -> None:
    publisher.pages["thing"] = gzip.compress(CONTENT, mtime=0)
    raw = _raw(publisher.url("thing"))
    cache.mkdir()
    (cache / "thing.csv.gz").write_bytes(b"rubbish")
    with pytest.raises(CorruptFileError):
        sources.read(raw)
    assert sources.fetch(raw) == ("missing", cache / "thing.csv.gz")
    assert sources.read(raw) == CONTENT
    assert sources.fetch(raw) == ("cache", cache / "thing.csv.gz")
    assert publisher.asked == ["thing"]


def test_a_failed_fetch_leaves_the_cached_file_as_it_was(cache: Path, publisher) -> None:
    cache.mkdir()
    (cache / "thing.csv.gz").write_bytes(b"rubbish")
    with pytest.raises(CorruptFileError, match=r"thing.csv.gz is not that of"):
        sources.fetch(_raw(publisher.url("gone")))
    assert (cache / "thing.csv.gz").read_bytes() == b"rubbish"


def test_a_write_that_fails_half_way_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir()
    (cache / "thing.csv.gz").write_bytes(b"old")

    def full(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(DataError, match=r"No space left on device.*SORDINO_CACHE"):
        sources.store(_raw(), CONTENT, cache)
    assert _files(cache) == ["thing.csv.gz"]
    assert (cache / "thing.csv.gz").read_bytes() == b"old"


# --- why downloads do not go through pooch


def test_the_published_bytes_arrive_whatever_the_server_says_of_their_encoding(
    cache: Path, publisher
) -> None:
    published = gzip.compress(CONTENT, mtime=0)
    publisher.pages["thing"] = published
    publisher.gzipped.add("thing")
    assert sources.read(_raw(publisher.url("thing"))) == CONTENT
    received = io.BytesIO()
    pooch.HTTPDownloader()(publisher.url("thing"), received, None)
    assert received.getvalue() == CONTENT != published


def test_pooch_keeps_what_it_received_before_anybody_could_check_the_content(
    tmp_path: Path, publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooch.get_logger(), "disabled", True)
    page = publisher.url("thing")

    def checked(path: str, action: str, _: object) -> bytes:
        return _raw().checked(gunzipped(Path(path).read_bytes()))

    def fetched(known: str | None) -> bytes:
        return pooch.retrieve(page, known, "thing.csv.gz", tmp_path, processor=checked)

    # The checksum that is known is of the content, and two good archives have no other in common.
    for level in (1, 9):
        publisher.pages["thing"] = gzip.compress(CONTENT, level, mtime=0)
        with pytest.raises(ValueError, match="hash"):
            fetched(_raw().digest)
    # Without one it stores a page of the wrong kind, and takes it for the file ever after.
    publisher.pages["thing"] = b"<html>moved</html>"
    for _ in range(2):
        with pytest.raises(sources.DownloadError, match="not a gzip file"):
            fetched(None)
    assert _files(tmp_path) == ["thing.csv.gz"]
    assert publisher.asked == ["thing"] * 3
