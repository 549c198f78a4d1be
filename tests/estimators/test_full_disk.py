"""A disk that fails at any moment never costs a budget without a word.

Whatever operation fails, one of three things is true afterwards: nothing was spent and nothing is
left; or the ledger says that writing failed and the message that the budget stays spent; or the
model is there, whole, and verifies.
"""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import sordino
from sordino import Ledger, tune
from sordino import PrivateLogisticRegression as Logistic
from sordino.assessment.plan import AssessmentPlan
from sordino.assessment.request import Request
from sordino.assessment.stages import release
from sordino.errors import Refused
from sordino.release import bundle, verify
from sordino.release.certificate import CertificateError
from sordino.release.ledger import LedgerError
from sordino.release.ledger.file import LedgerFile
from sordino.release.ledger.ledger import FingerprintWarning


class Disk:
    """Counts the operations below a place, and fails the one asked for, or all from it on."""

    def __init__(self, place: Path, patch: pytest.MonkeyPatch, fails: int, *, on: bool) -> None:
        self.place, self.fails, self.on, self.done = str(place), fails, on, []
        for name in ("mkdir", "replace", "rename", "fsync"):
            patch.setattr(os, name, self._operation(name, getattr(os, name)))
        patch.setattr(os, "open", self._created(os.open))
        patch.setattr(os, "write", self._operation("write", os.write))
        patch.setattr(io, "open", self._opened(io.open))
        patch.setattr(LedgerFile, "transact", self._transaction(LedgerFile.transact))

    def step(self, name: str) -> bool:
        """Whether this operation fails."""
        self.done.append(name)
        beyond = len(self.done) - self.fails
        return beyond == 0 or (beyond > 0 and self.on)

    def check(self, name: str) -> None:
        if self.step(name):
            raise OSError(errno.ENOSPC, "No space left on device")

    def _operation(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operate(first: Any, *rest: Any, **named: Any) -> Any:
            if isinstance(first, int) or os.fsdecode(first).startswith(self.place):
                self.check(name)
            return real(first, *rest, **named)

        return operate

    def _opened(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            ours = not isinstance(path, int) and os.fsdecode(path).startswith(self.place)
            if not ours or "r" in mode:
                return real(path, mode, *rest, **named)
            self.check("create")
            return File(real(path, mode, *rest, **named), self)

        return opened

    def _created(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def created(path: Any, flags: int, *rest: Any, **named: Any) -> Any:
            if flags & os.O_CREAT and os.fsdecode(path).startswith(self.place):
                self.check("create")
            return real(path, flags, *rest, **named)

        return created

    def _transaction(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def transact(file: LedgerFile, work: Callable[..., Any], *, writes: bool) -> Any:
            if writes and self.step("ledger"):
                raise LedgerError("no room in the ledger")
            return real(file, work, writes=writes)

        return transact


class File:
    """A file whose writing is counted."""

    def __init__(self, real: Any, disk: Disk) -> None:
        self.real, self.disk = real, disk

    def write(self, content: Any) -> int:
        self.disk.check("write")
        return int(self.real.write(content))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.real.close()


def rows() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    X = draw.normal(size=(100, 3)) / 3
    return X, (X[:, 0] > 0).astype(int)


def asked(**given: Any) -> Logistic:
    return Logistic(epsilon=1.0, delta=1e-6, classes=[0, 1], method="output-gd", **given)


def at_once(place: Path, subject: AssessmentPlan) -> None:
    key = Ed25519PrivateKey.generate()
    asked().fit_and_save(*rows(), place, sign=key.sign)


def in_turn(place: Path, subject: AssessmentPlan) -> None:
    asked().fit(*rows()).save(place)


def tuned(place: Path, subject: AssessmentPlan) -> None:
    candidates = [asked(l2=l2) for l2 in (0.1, 0.01)]
    tune(
        *(candidates, *rows()),
        score=lambda model: 0.0,
        epsilon=1.0,
        delta=1e-6,
        mean_runs=2.0,
        shape=1.0,
    ).save(place)


def assessed(place: Path, subject: AssessmentPlan) -> None:
    assert subject.fitting is not None
    release._release(subject, subject.fitting, place, place.with_name("mark"))


HANDED_OVER = (in_turn, tuned)
"""Ways by which a program holds the model before it is written."""


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A directory that costs no waiting for a disk, where there is one."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as place:
        yield Path(place)


@pytest.fixture(scope="module")
def subject() -> AssessmentPlan:
    request = Request(data="digits/binary", effort="quick", epsilon=1.0, method="output-gd")
    return AssessmentPlan.of(request)


@pytest.mark.parametrize(
    ("way", "on"),
    [
        (at_once, False),
        (at_once, True),
        (in_turn, False),
        (assessed, False),
        pytest.param(in_turn, True, marks=pytest.mark.slow),
        pytest.param(assessed, True, marks=pytest.mark.slow),
        pytest.param(tuned, False, marks=pytest.mark.slow),
        pytest.param(tuned, True, marks=pytest.mark.slow),
    ],
)
def test_whatever_fails_is_said(
    in_memory: Path,
    subject: AssessmentPlan,
    way: Callable[[Path, AssessmentPlan], None],
    on: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fails, seen = 0, set()
    while True:
        fails += 1
        place = in_memory / str(fails)
        place.mkdir()
        book = in_memory / f"{fails}.db"
        with Ledger(book, dataset="d", epsilon=1.05, delta=1e-3) as ledger:
            with monkeypatch.context() as patch, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what became of it is not recorded, or not synced
                disk = Disk(place, patch, fails, on=on)
                failure = _failure(way, place / "model", subject)
            seen.add(_outcome(ledger, place, failure, handed_over=way in HANDED_OVER, all_fail=on))
        if len(disk.done) < fails:
            break
    assert failure is None  # the last time nothing failed
    assert {"create", "write", "fsync", "replace", "ledger"} <= set(disk.done)
    assert seen == {"nothing spent", "said", "whole"}


def _failure(
    way: Callable[[Path, AssessmentPlan], None], place: Path, subject: AssessmentPlan
) -> Any:
    try:
        way(place, subject)
    except Refused as error:
        return error
    return None


def _outcome(
    ledger: Ledger, place: Path, failure: Exception | None, *, handed_over: bool, all_fail: bool
) -> str:
    """Which of the three it is; anything else fails the test."""
    entries = ledger.status().entries
    left = {path.name for path in place.iterdir()} - {"mark"}
    if left:
        assert left == {"model"}
        found = bundle.read(place / "model")
        verify.verify(found)
        assert [found.certificate.ledger_entry] == [entry.id for entry in entries]
        return "whole"
    assert failure is not None
    if not entries:
        return "nothing spent"
    said, (entry,) = str(failure), entries
    assert "budget stays spent" in said
    assert entry.id in said
    if "could not be sealed" in said:  # there is no model: it was thrown away
        assert "Nothing was released" in said
        assert (entry.status, all_fail) in (("failed", False), ("recorded", True))
    elif handed_over:
        assert "still in memory: save it elsewhere" in said
    elif entry.status != "recorded" or not all_fail:  # unless the ledger's disk is full, too
        assert (entry.status, entry.place.startswith("failed to write")) == ("failed", True)
    return "said"


def test_charged_and_not_written_it_can_be_saved_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = asked()
    with Ledger(tmp_path / "a.db", dataset="d", epsilon=1.05, delta=1e-3) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", lambda *_: os.stat(tmp_path / "nowhere"))
            with pytest.raises(CertificateError, match="budget stays spent"):
                model.fit_and_save(*rows(), tmp_path / "model")
        assert not (tmp_path / "model").exists()
        model.save(tmp_path / "elsewhere")
        (entry,) = ledger.status().entries
    assert (entry.status, entry.place) == ("written", str(tmp_path / "elsewhere"))
    assert sordino.load(tmp_path / "elsewhere").coef_.shape == (1, 3)


def test_what_is_not_charged_is_not_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in a new estimator nor in one that was fitted, and charged for, before."""
    with Ledger(tmp_path / "a.db", dataset="d", epsilon=4, delta=1e-3) as ledger:
        new, before = asked(), asked().fit(*rows())
        weights = before.coef_.copy()
        monkeypatch.setattr(os, "fsync", lambda *_: os.stat(tmp_path / "nowhere"))
        for model in (new, before):
            with pytest.raises(CertificateError, match="no budget was spent"):
                model.fit_and_save(*rows(), tmp_path / "model")
        assert len(ledger.status().entries) == 1
    assert not hasattr(new, "coef_")
    assert (before.coef_ == weights).all()
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_warning_that_is_an_error_leaves_a_word_in_the_ledger(tmp_path: Path) -> None:
    X, y = rows()
    with Ledger(tmp_path / "a.db", dataset="d", epsilon=4, delta=1e-3) as ledger:
        asked().fit(X, y)
        with pytest.raises(FingerprintWarning) as found:  # which is an error in all tests
            asked().fit_and_save(X + 0.01, y, tmp_path / "model")
        assert [entry.status for entry in ledger.status().entries] == ["returned", "failed"]
    assert any("budget stays spent" in note for note in found.value.__notes__)
    assert not (tmp_path / "model").exists()


def test_a_candidate_that_fails_says_what_it_cost(tmp_path: Path) -> None:
    def score(model: object) -> float:
        raise RuntimeError

    how: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "mean_runs": 30.0}
    book = Ledger(tmp_path / "a.db", dataset="d", epsilon=4, delta=1e-3)
    with book, pytest.raises(RuntimeError) as found:
        tune([asked()], *rows(), score=score, **how)
    assert any("budget stays spent" in note for note in found.value.__notes__)


# Places that are refused before anything is trained -----------------------------------------


@pytest.mark.parametrize("name", ["x" * 250, "x" * 300, "a\0b", "gone/model", "file/model", "full"])
def test_a_place_that_cannot_be_is_refused_first(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    if name == "full":
        monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1 << 10))
    monkeypatch.setattr(Logistic, "_train", lambda *_: pytest.fail("it was trained"))
    with pytest.raises(sordino.InvalidArgument, match=r"Expected directory="):
        asked().fit_and_save(*rows(), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# A disk that is really full ------------------------------------------------------------------


@pytest.mark.parametrize(
    "files",
    [3, pytest.param(1, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)],
)
def test_a_file_system_without_room_for_the_files(tmp_path: Path, files: int) -> None:
    """So many files and directories fit, the root among them: a bundle needs three, and a root."""
    (tmp_path / "disk").mkdir()
    book, place = tmp_path / "a.db", tmp_path / "disk"
    Ledger(book, dataset="d", epsilon=3, delta=1e-3).create()
    asked_for = "release --data breast-cancer --epsilon 2 --out model --dataset d"
    program = f"{sys.executable} -c 'from sordino.cli.main import main; main()'"
    shell = (
        f"mount -t tmpfs -o nr_inodes={files} tmpfs {place} || exit 77; cd {place}; "
        f"{program} {asked_for} --ledger {book}; code=$?; find . -mindepth 1; exit $code"
    )
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", shell]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no file system may be mounted here")
    entries = Ledger(book, dataset="d").status().entries
    if files < 4:
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
        assert "no budget was spent" in done.stderr
        assert done.stdout == ""  # not even a directory
        assert entries == ()
    else:
        assert done.returncode == 0
        assert [entry.status for entry in entries] == ["written"]
