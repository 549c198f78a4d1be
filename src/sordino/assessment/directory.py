"""`AssessmentDirectory`: what an assessment keeps, so that it can be resumed.

    README.txt       INTERNAL, and why
    study.toml       what was asked
    state.json       of which records
    stages/          one file a finished stage
    work/            grids and runs, for stages that are not finished
    model/           the bundle: weights and certificate, the one thing here that may leave
    assessment.json  everything together
    report.html      the page

Files are there whole or not at all. One process writes; the same study, of the same records, goes
on. Asked to look harder, or less so, it does the stages again that depend on it, and keeps its
release. Another study is refused, unless this one failed before it released anything.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import sordino
from sordino import _files, checks
from sordino.assessment.request import Request
from sordino.errors import InvalidArgument, Refused
from sordino.report import document
from sordino.study.disk import LOCK, PARTIAL, Disk, WriterLock
from sordino.study.refusal import explained, first_foreign

if TYPE_CHECKING:
    from sordino.release.ledger import Entry

_Found = TypeVar("_Found")

README, STUDY, STATE = "README.txt", "study.toml", "state.json"
STAGES, WORK, MODEL = "stages", "work", "model"
MARK = "released"
"""File of the release's work: the SHA-256 of the weights that were released."""
_HALF = f".{MODEL}.*.partial"
"""A bundle that has not got its name yet."""
_GRIDS = ("own_noise", "release_estimate")
"""Stages whose runs cannot be used where others are asked for."""
FORMAT = 1
"""Of what is kept between two calls. Raise it where stages kept before would be read wrongly, or
would not go with new ones: studies of other formats are refused. The program's version is not
compared: most versions change nothing of this."""
ASSESSMENT, PAGE = "assessment.json", "report.html"
README_TEXT = """\
INTERNAL: do not publish or share this directory.

It is an assessment made by sordino: weights trained without protection, exact accuracies, and what
attacks achieved. Whoever has it can tell who is in the data. Two things may leave, each by itself:
model/, the released model with its certificate, and what `sordino report . --public` writes.

study.toml       what was asked; `sordino assess study.toml` asks it again
report.html      the page, and assessment.json, the same as data
stages, work     what was found so far

Running the same command again goes on where it stopped.
"""
_OURS = {README, STUDY, STATE, STAGES, WORK, MODEL, ASSESSMENT, PAGE, LOCK, PARTIAL}


@dataclass(frozen=True)
class _Took:
    seconds: float


class AssessmentError(Refused):
    """A directory that cannot be used as asked; its text names it and says what to do."""


class AssessmentDirectory:
    """The directory of one assessment; `opened` gives the right to write it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._disk = Disk(root)

    @classmethod
    def checked(cls, path: str | os.PathLike[str], request: Request) -> AssessmentDirectory:
        """Refuse, before any work, a place where this assessment cannot be written.

        Raises
        ------
        InvalidArgument
            If nothing can be written there.
        AssessmentError
            If it holds something else.
        """
        root = Path(path).expanduser().absolute()
        try:
            os.lstat(root)
        except FileNotFoundError:
            _check_parent(root)
            return cls(root)
        except (OSError, ValueError) as error:  # too long, or with a zero character
            why = getattr(error, "strerror", None) or error
            checks.fail("--out", root, f"to be a directory that can be made ({why})")
        if not root.is_dir():
            checks.fail("--out", root, "to be a directory, not a file", "Pass another one.")
        if not os.access(root, os.W_OK | os.X_OK | os.R_OK):
            hint = "Change its permissions, or pass another one."
            checks.fail("--out", root, "to be a directory that can be written", hint)
        made = cls(root)
        made._check_same(request)
        return made

    def _check_same(self, request: Request) -> None:
        """Refuse a directory with another assessment, or with files that are none of ours."""
        if (self.root / STUDY).exists():
            before = self._brief()
            different = request.differences(before or request)
            if different and not self._failed():
                moved = different[0].startswith(("data ", "columns ", "ledger "))
                hint = (
                    f"{'If files only moved, correct their paths in its study.toml. ' * moved}"
                    "Pass another --out, which makes another release, and the two add up; this one "
                    "was not changed."
                )
                self._refuse(f"to hold this assessment, and it differs: {different[0]}", hint)
        elif (foreign := first_foreign(self.root, _OURS)) is not None:
            hint = "Pass another --out; this one was not changed."
            self._refuse(f"to be empty or an assessment, and it holds {foreign!r}", hint)

    @contextmanager
    def opened(self, request: Request, fingerprint: str) -> Iterator[None]:
        """Make the directory, or go on with it; refused if the records are not the same."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chmod(self.root, 0o700)
        except OSError as error:
            checks.fail(
                "--out", self.root, f"to be a directory that can be made ({error.strerror})"
            )
        lock = WriterLock(self.root)
        try:
            self._check_same(request)
            with explained(self.root, "written"):
                self._make_way(request, fingerprint)
                self._disk.put(README, README_TEXT.encode())
                for name in (STAGES, WORK):
                    self._disk.make(name)
                self._clear()
                state = {"format": FORMAT, "fingerprint": fingerprint}
                state["sordino"] = sordino.__version__  # for people: formats are compared
                self._disk.put(STATE, json.dumps(state).encode())
                self._disk.put(STUDY, request.to_toml().encode())
                self._disk.settle(["."])
            try:
                yield
            except Exception:
                with suppress(OSError):
                    self._disk.put(STATE, json.dumps(state | {"failed": True}).encode())
                raise
        finally:
            lock.release()

    @property
    def released(self) -> bool:
        """Whether the model of this study is here, or was."""
        return any((self.root / name).exists() for name in (MODEL, f"{WORK}/release/{MARK}"))

    def paid(self) -> tuple[Path, Entry] | None:
        """The bundle without its name that the open ledger was charged for, if there is one.

        A bundle is written whole, then recorded, then named (`release/bundle.py`). Stopped
        between the last two, it is paid for and lies there: the study that goes on takes it, and is
        charged once.
        """
        from sordino.release import bundle
        from sordino.release.certificate import CertificateError
        from sordino.release.ledger import current
        from sordino.release.ledger_open import is_open

        ledger = current() if is_open() else None
        if ledger is None:
            return None
        for half in sorted(self.root.glob(_HALF)):
            try:
                line = bundle.read(half).certificate.ledger_entry
            except (CertificateError, InvalidArgument):  # not whole: not recorded either
                continue
            if line is not None and (entry := ledger.entry(line)) is not None:
                return half, entry
        return None

    def _clear(self) -> None:
        """Finish what a kill left and a ledger was charged for; what was not, is no release."""
        found, model = self.paid(), self.root / MODEL
        if found is not None and not model.exists():
            half, entry = found
            os.rename(half, model)
            entry.written(model)
        for half in self.root.glob(_HALF):
            shutil.rmtree(half)

    def _failed(self) -> bool:
        """Whether what was asked here failed before anything was released or finished."""
        if self.released or (self.root / ASSESSMENT).exists():
            return False
        return (self._state() or {}).get("failed") is True

    def _state(self) -> dict[str, Any] | None:
        """What `opened` wrote of the records; None if nothing was begun."""
        state = self._kept(STATE)
        if state is not None and not isinstance(state.get("fingerprint"), str):
            self._damaged(STATE, "It does not say of which records it is.")
        return state

    def _brief(self) -> Request | None:
        """What was asked here before."""
        if not (self.root / STUDY).exists():
            return None
        try:
            before = Request.from_file(self.root / STUDY)
        except InvalidArgument as error:
            self._damaged(STUDY, str(error))
        # What is left out of a study file is the usual, but this one was written with all of it.
        if not {"data", "mechanism"} & tomllib.loads(_files.read_text(self.root / STUDY)).keys():
            self._damaged(STUDY, "It does not say what was assessed.")
        return before

    def _kept(self, name: str) -> dict[str, Any] | None:
        """The JSON object of a file; None if there is no such file, refused if it is damaged."""
        with explained(self.root, "read"):
            try:
                content = _files.read(self.root / name)
            except FileNotFoundError:
                return None
        try:
            found = document.parse(content)
        except document.DocumentError as error:
            self._damaged(name, str(error))
        if not isinstance(found, dict):
            self._damaged(name, "It is no JSON object.")
        return found

    def _damaged(self, name: str, why: str) -> NoReturn:
        what = "Restore it from a copy, or pass another --out; this one was not changed."
        if name.startswith(STAGES):
            what = "Delete that one file, and its stage is done again."
        raise AssessmentError(f"{self.root / name} is damaged: {why} {what}")

    def _make_way(self, request: Request, fingerprint: str) -> None:
        """Drop what was found for another question, or refuse; a release is never dropped."""
        state, before = self._state(), self._brief() or request
        begun = self.released or any((self.root / STAGES).glob("*.json"))
        if begun and state is None:
            self._damaged(STATE, "It is gone.")
        other = self._other_records(state, fingerprint) if state else ""
        if not begun or (self._failed() and (other or request.differences(before))):
            for name in (STAGES, WORK):
                shutil.rmtree(self.root / name, ignore_errors=True)
            self._disk.drop(STATE)
            return
        if other:
            self._refuse(other, "Pass another --out; finished stages are not mixed with new ones.")
        for stage in request.redone(before):
            for name in (ASSESSMENT, PAGE, f"{STAGES}/{stage}.json"):
                self._disk.drop(name)
            if stage in _GRIDS:
                shutil.rmtree(self.root / WORK / stage, ignore_errors=True)

    @staticmethod
    def _other_records(state: dict[str, Any], fingerprint: str) -> str:
        """How the records or the program differ from those that it was begun with; or nothing."""
        if (found := state.get("format", 1)) != FORMAT:
            by = f"sordino {state.get('sordino')} made it"
            return f"to have format {FORMAT}, and it has {found!r:.20}: {by}"
        if state.get("fingerprint") != fingerprint:
            same = "to be of the same records, code and description of columns"
            return f"{same}, and something has changed since it was begun"
        return ""

    def work(self, stage: str) -> Path:
        """Where a stage keeps what it has so far."""
        path = self.root / WORK / stage
        with explained(self.root, "written"):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def finished(self, stage: str, kind: type[_Found]) -> tuple[float, _Found] | None:
        """Seconds of a finished stage, and what it found; None if it is still to be done."""
        name = f"{STAGES}/{stage}.json"
        kept = self._kept(name)
        if kept is None:
            return None
        try:
            if kept.pop("stage", stage) != stage:  # earlier versions did not write it
                document.refuse("", "is of another stage")
            document.check_keys(kept, ("seconds", "found"), "")
            seconds = document.from_plain(_Took, {"seconds": kept["seconds"]}).seconds
            return seconds, document.from_plain(kind, kept["found"])
        except document.DocumentError as error:
            self._damaged(name, str(error))

    def finish(self, stage: str, seconds: float, found: Any) -> None:
        """Keep what a stage found."""
        kept = {"stage": stage, "seconds": seconds, "found": found}
        self.write(f"{STAGES}/{stage}.json", json.dumps(kept, allow_nan=False))

    def write(self, name: str, text: str) -> Path:
        """Write a file, whole or not at all."""
        with explained(self.root, "written"):
            self._disk.put(name, text.encode())
            self._disk.settle(["."])
        return self.root / name

    def _refuse(self, condition: str, hint: str) -> NoReturn:
        raise AssessmentError(f"Expected {self.root} {condition}. {hint}")


def found(path: str | os.PathLike[str]) -> Path:
    """The directory of an assessment that is finished.

    Raises
    ------
    AssessmentError
        If it is none, or not finished yet.
    """
    root = Path(path).expanduser().absolute()
    if not (root / STUDY).exists():
        hint = "Pass the directory that `sordino assess` made."
        raise AssessmentError(f"Expected {root} to be an assessment. {hint}")
    if not (root / ASSESSMENT).exists():
        study, out = shlex.quote(str(root / STUDY)), shlex.quote(str(root))
        hint = f"Run `sordino assess {study} --out {out}`, which goes on where it stopped."
        raise AssessmentError(f"Expected {root} to be finished. {hint}")
    return root


def _check_parent(root: Path) -> None:
    parent: Any = root.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        hint = "Pass a directory in a place where you may write."
        checks.fail("--out", root, "to be a directory that can be made", hint)
