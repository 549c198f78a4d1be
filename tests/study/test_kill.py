"""Killed at any moment and run again, a study ends with the bytes of an undisturbed run.

Two kinds of kill: a simulated one at each single operation on the disk, after which nothing more
is written, and a real SIGKILL of another process at random moments.
"""

from __future__ import annotations

import errno
import functools
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sordino import _files
from sordino.study import Layout, Study, StudyError, files
from sordino.study import study as study_module

CHANGES = ("open", "write", "fsync", "replace", "unlink", "mkdir", "chmod")


class Killed(BaseException):
    """The process is dead; no handler can change the disk any more."""


class Machine:
    """The module `os`, which lets a number of operations through and then fails them all."""

    def __init__(self, most: float, cause: str) -> None:
        self.done: list[tuple[str, Any]] = []
        self._most = most
        self._cause = cause

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CHANGES:
            return real

        def operate(*arguments: Any) -> Any:
            self.done.append((name, arguments))
            beyond = len(self.done) - self._most
            if beyond == 1 and name == "write":
                real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            if beyond > 0 and self._cause == "killed":
                raise Killed
            if beyond > 0 and name != "unlink":  # which a full disk allows
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments)

        return operate


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    @contextmanager
    def run(most: float = math.inf, cause: str = "killed") -> Iterator[Machine]:
        with monkeypatch.context() as patch:
            made = Machine(most, cause)
            patch.setattr(files, "os", made)
            patch.setattr(_files, "os", made)
            patch.setattr(study_module, "os", made)
            yield made

    return run


@pytest.fixture
def small() -> Layout:
    """Three cells."""
    return Layout.cut(("vary",), range(3), (-1, 5), (10,), 2, cell=(1, 2))


@pytest.fixture
def run(small, weights_of) -> Callable[..., None]:
    """A run of the whole study: the first cell fails, the others are done."""

    def go(where: Path, *, retry_failed: bool = False, fails: int = 0) -> None:
        with Study.open_or_create(where, {"a": 1}, small) as study:
            study.repair()
            for cell in study.missing(retry_failed=retry_failed):
                if cell.number == fails:
                    study.fail(cell, "diverged")
                else:
                    study.write(cell, weights_of(small, cell))

    return go


def start_fresh(run, where):
    pass


def start_with_failures(run, where):
    run(where)


def start_with_damage(run, where):
    run(where, fails=-1)
    os.truncate(where / "grid.zarr/weights/c.0.1.0.0.0", 10)
    (where / "cells/000000.json").write_bytes(b"{")


STARTS = (start_fresh, start_with_failures, start_with_damage)


KEPT = ("cells/000002.json", "grid.zarr/weights/c.0.2.0.0.0")


# Three is prime to the five operations of a file: each kind is met, if not in each file.
@pytest.mark.parametrize(
    "stride", [3, pytest.param(1, marks=pytest.mark.slow)], ids=["third", "every"]
)
@pytest.mark.parametrize("cause", ["killed", "disk full"])
@pytest.mark.parametrize("start", STARTS)
def test_an_end_at_any_operation(
    tmp_path, run, machine, content, monkeypatch, start, cause, stride
):
    monkeypatch.setattr(study_module, "_skeleton", functools.cache(study_module._skeleton))
    fails = 0 if start is start_fresh else -1

    def go(where: Path) -> None:
        run(where, retry_failed=True, fails=fails)

    start(run, tmp_path / "whole")
    with machine() as undisturbed:
        go(tmp_path / "whole")
    expected = content(tmp_path / "whole")
    start(run, tmp_path / "start")
    for most in range(0, len(undisturbed.done), stride):
        where = tmp_path / f"{most}"
        if start is not start_fresh:
            shutil.copytree(tmp_path / "start", where)
        with machine(most, cause), pytest.raises(Killed if cause == "killed" else StudyError):
            go(where)
        if start is not start_fresh:
            assert all((where / name).read_bytes() == expected[name] for name in KEPT)
        go(where)
        assert content(where) == expected, undisturbed.done[most]
    assert most > 30


def test_what_a_killed_writer_left_does_not_count(tmp_path, run, machine, small, weights_of):
    run(tmp_path / "whole")
    with machine() as undisturbed:
        run(tmp_path / "other")
    operations = [name for name, _ in undisturbed.done]
    before = len(operations) - 1 - operations[::-1].index("replace")  # the last record's
    with machine(before), pytest.raises(Killed):
        run(tmp_path / "cut")
    assert (tmp_path / "cut/grid.zarr/weights/c.0.2.0.0.0").exists()
    assert (tmp_path / "cut/.partial").exists()
    reader = Study.open(tmp_path / "cut")
    assert reader.status().tolist() == ["failed", "done", "missing"]
    Study.open(tmp_path / "cut", writes=True).close()
    assert not (tmp_path / "cut/grid.zarr/weights/c.0.2.0.0.0").exists()
    assert not (tmp_path / "cut/.partial").exists()
    assert reader.dataset().status.values[0, :, 0].tolist() == ["failed", "done", "missing"]
    assert reader.dataset().weights[0, 2].isnull().all()


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, run, machine):
    with machine() as undisturbed:
        run(tmp_path / "study")
    operations = [name for name, _ in undisturbed.done]
    for place, name in enumerate(operations):
        if name == "replace":
            assert operations[place - 3 : place] == ["open", "write", "fsync"]
    names = [args[1].name for name, args in undisturbed.done if name == "replace"]
    assert names[-6:-3] == ["c.0.1.0.0.0", "c.0.1.0", "000001.json"]
    assert names[-3:] == ["c.0.2.0.0.0", "c.0.2.0", "000002.json"]
    assert operations[-4:] == ["fsync", "replace", "open", "fsync"]  # and the name, too


CHILD = """
import sys
import numpy as np
from sordino.study import Layout, Study

layout = Layout.cut(("vary", "fixed"), range(24), range(40), (10, 20), 20, cell=(2, 40))
print("ready", flush=True)
with Study.open_or_create(sys.argv[1], {"what": "a killed run"}, layout) as study:
    for cell in study.missing():
        if cell.number % 7 == 3:
            study.fail(cell, f"cell {cell.number} diverged")
        else:
            random = np.random.default_rng(cell.number)
            study.write(cell, random.normal(size=layout.shape_of(cell)).astype(np.float32))
print("finished", flush=True)
sys.stdin.read()
"""


def child(where: Path, *, script: str = CHILD) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(where)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ends(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "kills", [5, pytest.param(20, marks=pytest.mark.slow)], ids=["few", "twenty"]
)
def test_sigkill_at_random_moments(tmp_path, kills, content):
    whole = child(tmp_path / "whole")
    assert whole.stdout.readline() == "ready\n"
    began = time.monotonic()
    assert whole.stdout.readline() == "finished\n"
    duration = time.monotonic() - began
    ends(whole)
    expected = content(tmp_path / "whole")
    moments = random.Random(kills)
    while kills:
        where = tmp_path / f"killed {kills}"
        while kills and not _finished(where):
            process = child(where)
            assert process.stdout.readline() == "ready\n"
            time.sleep(moments.uniform(0, 0.6 * duration))
            ends(process)
            kills -= 1
        last = child(where)
        assert last.communicate("")[0] == "ready\nfinished\n"
        assert content(where) == expected


def _finished(where: Path) -> bool:
    return (where / "study.json").exists() and Study.open(where).missing() == []


HOLDER = """
import os, sys, time
from sordino.study import Layout, Study

layout = Layout.cut(("a",), range(2), range(2), (1,), 1, cell=(1, 2))
study = Study.open_or_create(sys.argv[1], {}, layout)
worker = os.fork()
if worker == 0:
    try:
        study.fail(study.cells()[0], "from a worker")
    except Exception as error:
        os.write(1, f"{type(error).__name__}\\n".encode())  # whole lines: two processes write
    time.sleep(60)
    os._exit(0)
os.write(1, f"{worker}\\n".encode())
sys.stdin.read()
"""


def test_another_process_writes(tmp_path):
    process = child(tmp_path, script=HOLDER)
    worker, refused = sorted(process.stdout.readline().strip() for _ in range(2))
    try:
        assert refused == "InvalidArgument"  # a forked worker has not the right to write
        with pytest.raises(StudyError, match=r"by one program at a time\. Wait for the other"):
            Study.open(tmp_path, writes=True)
        assert len(Study.open(tmp_path).missing()) == 2
        process.kill()
        process.wait()
        Study.open(tmp_path, writes=True).close()  # though its worker lives on
    finally:
        os.kill(int(worker), signal.SIGKILL)
        process.communicate()
