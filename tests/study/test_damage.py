"""What can be wrong with a directory: one sentence each, and no finished cell is lost."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from sordino import _files
from sordino.study import Study, StudyError, files
from sordino.study.files import DamagedCell

CHUNK = "grid.zarr/weights/c.0.1.0.0.0"  # of cell 2
RECORD = "cells/000002.json"


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


SPOILERS = {
    "cut": truncate,
    "changed": flip,
    "empty": lambda path: path.write_bytes(b""),
    "gone": Path.unlink,
}


@pytest.mark.parametrize("how", SPOILERS)
def test_a_damaged_chunk(finished, how, weights_of, content):
    before, whole = content(finished.directory), finished.weights("fixed")
    SPOILERS[how](finished.directory / CHUNK)
    with pytest.raises(DamagedCell, match=r"weights/c\.0\.1\.0\.0\.0 .* of cell 2 "):
        finished.weights("vary")
    assert (finished.weights("fixed") == whole).all()
    cell = finished.cells()[2]
    assert list(finished.damaged()) == [cell]
    assert finished.repair() == [cell]
    assert finished.missing() == [cell]
    finished.write(cell, weights_of(finished.layout, cell))
    assert content(finished.directory) == before


@pytest.mark.parametrize("how", ["cut", "empty"])
def test_a_damaged_record(finished, how, description, weights_of, content):
    before = content(finished.directory)
    SPOILERS[how](finished.directory / RECORD)
    finished.close()
    again = Study.open_or_create(finished.directory, description, finished.layout)
    cell = again.cells()[2]
    for use in (again.status, again.missing, lambda: again.weights("vary")):
        with pytest.raises(StudyError, match=r"cells/000002\.json was cut or changed"):
            use()
    assert again.repair() == [cell]
    again.write(cell, weights_of(again.layout, cell))
    assert content(finished.directory) == before


def test_a_record_with_another_checksum_is_noticed(finished):
    path = finished.directory / RECORD
    start, digest, end = path.read_text().partition('.0":"')
    path.write_text(start + digest + ("1" if end[0] == "0" else "0") + end[1:])
    assert [cell.number for cell in finished.damaged()] == [2]


def test_a_record_of_another_study_or_cell_is_noticed(finished, tmp_path, layout):
    shutil.copy(finished.directory / "cells/000001.json", finished.directory / RECORD)
    assert [cell.number for cell in finished.damaged()] == [2]
    with Study.open_or_create(tmp_path / "other", {}, layout) as other:
        other.fail(other.cells()[2], "no")
        shutil.copy(other.directory / RECORD, finished.directory / RECORD)
    assert [cell.number for cell in finished.damaged()] == [2]


@pytest.mark.parametrize("how", SPOILERS)
@pytest.mark.parametrize(
    "file",
    ["zarr.json", "weights/zarr.json", "seed/zarr.json", "init/c.0", "status/c.0.0.0"],
)
def test_what_follows_from_study_json_is_written_anew(finished, file, how, description, content):
    before, whole = content(finished.directory), finished.weights("vary")
    SPOILERS[how](finished.directory / "grid.zarr" / file)
    assert (Study.open(finished.directory).weights("vary") == whole).all()  # needs none of them
    finished.close()
    Study.open_or_create(finished.directory, description, finished.layout).close()
    assert content(finished.directory) == before


def test_a_grid_that_xarray_cannot_open(finished):
    (finished.directory / "grid.zarr/zarr.json").write_bytes(b"{")
    with pytest.raises(StudyError, match=r"to have a grid\.zarr that can be opened \(JSONDecode"):
        finished.dataset()


def test_a_damaged_study_json_loses_nothing(finished, description, layout, content):
    before = content(finished.directory)
    path = finished.directory / "study.json"
    truncate(path)
    finished.close()
    for use in (
        lambda: Study.open(finished.directory),
        lambda: Study.open_or_create(finished.directory, description, layout),
    ):
        with pytest.raises(StudyError, match="or delete it and run the same command"):
            use()
    path.unlink()
    with pytest.raises(StudyError, match=r"its study\.json, since its cells are of another"):
        Study.open_or_create(finished.directory, {**description, "dataset": "b"}, layout)
    Study.open_or_create(finished.directory, description, layout).close()
    assert content(finished.directory) == before


FOREIGN = {
    "file": lambda path: (path / "thesis.tex").write_text("x"),
    "directory": lambda path: (path / "src").mkdir(),
    "readme": lambda path: (path / "README.txt").write_text("My project"),
    "json": lambda path: (path / "study.json").write_text('{"a": 1}'),
    "grid": lambda path: (path / "grid.zarr").mkdir(),
    "cells": lambda path: (path / "cells").mkdir(),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_directory_is_left_alone(tmp_path, description, layout, content, kind):
    FOREIGN[kind](tmp_path)
    before, mode = content(tmp_path), tmp_path.stat().st_mode
    with pytest.raises(StudyError) as refused:
        Study.open_or_create(tmp_path, description, layout)
    assert str(refused.value).startswith(f"Expected study={tmp_path} to ")
    assert content(tmp_path) == before
    assert tmp_path.stat().st_mode == mode


def test_a_file_is_no_directory(tmp_path, description, layout):
    (tmp_path / "a").write_text("x")
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(StudyError, match="to be a directory that can be"):
            Study.open_or_create(path, description, layout)
    with pytest.raises(StudyError, match="to be a directory that can be"):
        Study.open(tmp_path / "a")


class TestPermissions:
    def test_a_directory_that_cannot_be_written(self, unprivileged, description, layout):
        unprivileged.chmod(0o500)
        for path in (unprivileged, unprivileged / "study"):
            with pytest.raises(StudyError, match="to be a directory that can be written"):
                Study.open_or_create(path, description, layout)

    def test_one_that_cannot_be_read(self, unprivileged, description, layout):
        Study.open_or_create(unprivileged / "a", description, layout).close()
        (unprivileged / "a").chmod(0)
        with pytest.raises(StudyError, match="to be a directory that can be read"):
            Study.open(unprivileged / "a")

    def test_one_that_is_closed_meanwhile(self, unprivileged, description, layout, weights_of):
        with Study.open_or_create(unprivileged / "a", description, layout) as study:
            first, second, *_ = study.cells()
            study.write(first, weights_of(layout, first))
            study.directory.chmod(0o500)
            with pytest.raises(StudyError, match=r"that can be written .*\. Change"):
                study.write(second, weights_of(layout, second))
            assert study.status().tolist().count("done") == 1
            chunk = study.directory / "grid.zarr/weights/c.0.0.0.0.0"
            chunk.chmod(0)
            with pytest.raises(StudyError, match="to be a directory that can be read"):
                study.weights("vary")
            study.directory.chmod(0o700)
            with pytest.raises(StudyError, match="to be a directory that can be read"):
                study.repair()  # what cannot be read is not taken for damaged
            chunk.chmod(0o600)
            study.write(second, weights_of(layout, second))
            assert study.status().tolist().count("done") == 2

    def test_a_study_on_a_read_only_disk_can_be_read(self, unprivileged, description, layout):
        Study.open_or_create(unprivileged / "a", description, layout).close()
        for each in ((unprivileged / "a"), *(unprivileged / "a").rglob("*")):
            each.chmod(0o500 if each.is_dir() else 0o400)
        assert len(Study.open(unprivileged / "a").missing()) == 12


class TestFullDisk:
    # Nothing fits; not the chunk of 96 bytes of weights; not the record after it.
    @pytest.mark.parametrize("limit", [0, 60, 200])
    def test_files_that_may_not_grow(self, study, weights_of, limit, content):
        first, second, *_ = study.cells()
        study.write(first, weights_of(study.layout, first))
        before = content(study.directory)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(StudyError, match="Make room"):
                study.write(second, weights_of(study.layout, second))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert study.status()[:2].tolist() == ["done", "missing"]
        assert (study.directory / "grid.zarr/weights/c.0.0.1.0.0").exists() == (limit == 200)
        assert before.items() <= content(study.directory).items()
        assert ".partial" not in content(study.directory)  # its room is needed
        study.write(second, weights_of(study.layout, second))
        assert study.damaged() == {}

    def test_what_was_written_in_vain_goes_with_the_failure(self, study, weights_of):
        cell = study.cells()[0]
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
        try:
            with pytest.raises(StudyError, match="Make room"):
                study.write(cell, weights_of(study.layout, cell))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert study.dataset().weights.notnull().any()
        study.fail(cell, "given up")
        assert study.dataset().weights.isnull().all()

    def test_a_small_file_system(self, tmp_path, description, layout, weights_of, content):
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path)]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("only root of a whole machine may mount a small disk")
        try:
            with Study.open_or_create(tmp_path / "a", description, layout) as study:
                filler = tmp_path / "filler"
                with pytest.raises(OSError, match="No space"):
                    filler.write_bytes(bytes(2**20))
                with pytest.raises(StudyError, match="Make room"):
                    study.write(study.cells()[0], weights_of(layout, study.cells()[0]))
                filler.unlink()
                study.write(study.cells()[0], weights_of(layout, study.cells()[0]))
                assert ".partial" not in content(study.directory)
        finally:
            subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_file_system_without_locks(tmp_path, description, layout, monkeypatch):
    def lockf(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files.fcntl, "lockf", lockf)
    with pytest.raises(StudyError, match="Put it on a local"):
        Study.open_or_create(tmp_path, description, layout)


def test_a_bad_sector_damages_its_cell_only(finished, monkeypatch):
    readable = _files.read

    def read(path: Path) -> bytes:
        if path == finished.directory / CHUNK:
            raise OSError(errno.EIO, "Input/output error")
        return readable(path)

    monkeypatch.setattr(_files, "read", read)
    with pytest.raises(StudyError, match=r"cannot read grid\.zarr/weights/c\.0\.1\.0\.0\.0"):
        finished.weights("vary")
    assert [cell.number for cell in finished.repair()] == [2]
