"""`AssessmentDirectory`: what an assessment keeps, so that it can be resumed.

    README.txt       INTERNAL, and why
    study.toml       what was asked
    state.json       of which records, and the secret by which rows of persons were drawn
    stages/          one file a finished stage
    work/            grids and runs, for stages that are not finished
    model/           the bundle: weights and certificate, the one thing here that may leave
    assessment.json  everything together
    report.html      the page

Files are there whole or not at all. One process writes; the same request, of the same records, is
resumed. Examined more or less thoroughly, it repeats the stages that depend on it, and keeps its
release. Another request is refused, unless this one failed before it released anything.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import sordino
from sordino import _files, checks
from sordino.assessment.request import Request
from sordino.errors import InvalidArgument, Refused
from sordino.report import result
from sordino.study.files import LOCK, PARTIAL, Disk, WriterLock, explained, unknown_file

if TYPE_CHECKING:
    from sordino.release.ledger import Entry

STUDY, MODEL, ASSESSMENT, PAGE = "study.toml", "model", "assessment.json", "report.html"
MARK = "released"
"""File of the release's work: the SHA-256 of the weights that were released."""

_README, _STATE, _STAGES, _WORK = "README.txt", "state.json", "stages", "work"
_SECRET = "secret of the draws"
_OURS = {_README, STUDY, _STATE, _STAGES, _WORK, MODEL, ASSESSMENT, PAGE, LOCK, PARTIAL}
_HALF = f".{MODEL}.*.partial"
"""A bundle that has not got its name yet."""
_GRIDS = ("own_noise", "release_estimate")
"""Stages whose runs cannot be used where others are asked for."""
_FORMAT = 1
"""Of what is kept between two calls. Raise it where stages kept before would be read wrongly, or
would not go with new ones: other formats are refused. The program's version is not compared: most
versions change nothing of this."""
_ANOTHER = "Pass another --out; this one was not changed."
_README_TEXT = """\
INTERNAL: do not publish or share this directory: it tells who is in the data.

Only model/ (the released model) and what `sordino report . --public` writes may leave.
The same command, or `sordino assess study.toml`, resumes it; report.html is the page.
"""
_Found = TypeVar("_Found")


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
        made, existing = cls(root), root
        try:
            os.lstat(root)
        except FileNotFoundError:
            while not existing.exists():
                existing = existing.parent
        except (OSError, ValueError) as error:  # too long, or with a zero character
            made._fail_to_make(error)
        if not existing.is_dir():
            checks.fail("--out", root, f"to be a directory, and {existing} is a file")
        if not os.access(existing, os.W_OK | os.X_OK | (os.R_OK if existing == root else 0)):
            checks.fail("--out", root, "to be writable")
        if existing == root:
            made._check_same(request)
        return made

    def _check_same(self, request: Request) -> None:
        """Refuse a directory with another assessment, or with files that are none of ours."""
        if (self.root / STUDY).exists():
            different = request.differences(self._request() or request)
            if different and not self._failed():
                hint = "Another --out makes another release, and the two add up."
                if different[0].startswith(("data ", "columns ", "ledger ")):
                    hint = f"If files only moved, correct its study.toml. {hint}"
                self._refuse(f"to hold this assessment, and {different[0]}", hint)
        elif (other := unknown_file(self.root, _OURS)) is not None:
            self._refuse(f"to be empty or an assessment, and it holds {other!r}", _ANOTHER)

    @property
    def secret(self) -> bytes | None:
        """By which rows of persons were drawn here; None where nothing was begun."""
        drawn = (self._state() or {}).get(_SECRET)
        try:
            return None if drawn is None else bytes.fromhex(drawn)
        except (TypeError, ValueError):
            self._damaged(_STATE, f"Its {_SECRET} is none.")

    @contextmanager
    def opened(self, request: Request, fingerprint: str, secret: bytes = b"") -> Iterator[None]:
        """Make the directory, or resume it; refused if the records are not the same."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chmod(self.root, 0o700)
        except OSError as error:
            self._fail_to_make(error)
        lock = WriterLock(self.root)
        try:
            self._check_same(request)
            with explained(self.root, "written"):
                self._make_way(request, fingerprint)
                self._disk.put(_README, _README_TEXT.encode())
                for name in (_STAGES, _WORK):
                    self._disk.make(name)
                # Finish what a kill left and a ledger was charged for; the rest is no release.
                charged, model = self.charged_bundle(), self.root / MODEL
                if charged is not None and not model.exists():
                    half, entry = charged
                    os.rename(half, model)
                    entry.written(model)
                for half in self.root.glob(_HALF):
                    shutil.rmtree(half)
                state = {"format": _FORMAT, "fingerprint": fingerprint}
                state["sordino"] = sordino.__version__  # for people: formats are compared
                state |= {_SECRET: secret.hex()} if secret else {}
                self._disk.put(_STATE, json.dumps(state).encode())
                self._disk.put(STUDY, request.to_toml().encode())
                self._disk.settle(["."])
            try:
                yield
            except Exception:
                with suppress(OSError):
                    self._disk.put(_STATE, json.dumps(state | {"failed": True}).encode())
                raise
        finally:
            lock.release()

    @property
    def released(self) -> bool:
        """Whether the model of this assessment is here, or was."""
        return any((self.root / name).exists() for name in (MODEL, f"{_WORK}/release/{MARK}"))

    def charged_bundle(self) -> tuple[Path, Entry] | None:
        """The bundle without its name that the open ledger was charged for, if there is one.

        A bundle is written whole, then recorded, then named (`release/bundle.py`). Stopped between
        the last two, it is paid for and lies there: resumed, the assessment takes it, and is
        charged once.
        """
        from sordino.release import bundle
        from sordino.release.certificate import CertificateError
        from sordino.release.ledger import current, is_open

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

    def _failed(self) -> bool:
        """Whether what was asked here failed before anything was released or finished."""
        if self.released or (self.root / ASSESSMENT).exists():
            return False
        return (self._state() or {}).get("failed") is True

    def _state(self) -> dict[str, Any] | None:
        """What `opened` wrote of the records; None if nothing was begun."""
        state = self._read(_STATE)
        if state is not None and not isinstance(state.get("fingerprint"), str):
            self._damaged(_STATE, "It names no records.")
        return state

    def _request(self) -> Request | None:
        """What was asked here before."""
        if not (self.root / STUDY).exists():
            return None
        try:
            before = Request.from_file(self.root / STUDY)
        except InvalidArgument as error:
            self._damaged(STUDY, str(error))
        # What is left out of a study file is the usual, but this one was written with all of it.
        if not {"data", "mechanism"} & tomllib.loads(_files.read_text(self.root / STUDY)).keys():
            self._damaged(STUDY, "It names no data.")
        return before

    def _read(self, name: str) -> dict[str, Any] | None:
        """The JSON object of a file; None if there is no such file, refused if it is damaged."""
        with explained(self.root, "read"):
            try:
                content = _files.read(self.root / name)
            except FileNotFoundError:
                return None
        try:
            values = result.parse(content)
        except result.DocumentError as error:
            self._damaged(name, str(error))
        if not isinstance(values, dict):
            self._damaged(name, "It is no JSON object.")
        return values

    def _damaged(self, name: str, why: str) -> NoReturn:
        what = "Delete it to repeat its stage." if name.startswith(_STAGES) else "Restore a copy."
        raise AssessmentError(f"{self.root / name} is damaged: {why} {what}")

    def _make_way(self, request: Request, fingerprint: str) -> None:
        """Drop what was found for another request, or refuse; a release is never dropped."""
        state, before = self._state(), self._request() or request
        begun = self.released or any((self.root / _STAGES).glob("*.json"))
        if begun and state is None:
            self._damaged(_STATE, "It is gone.")
        other = ""
        if state and (version := state.get("format", 1)) != _FORMAT:
            other = f"to have format {_FORMAT}, not {version!r:.20} of {state.get('sordino')}"
        elif state and state.get("fingerprint") != fingerprint:
            other = "to be of the same records, code and columns"
        if not begun or (self._failed() and (other or request.differences(before))):
            for name in (_STAGES, _WORK):
                shutil.rmtree(self.root / name, ignore_errors=True)
            self._disk.drop(_STATE)
            return
        if other:
            self._refuse(other, _ANOTHER)
        for stage in request.stages_to_repeat(before):
            for name in (ASSESSMENT, PAGE, f"{_STAGES}/{stage}.json"):
                self._disk.drop(name)
            if stage in _GRIDS:
                shutil.rmtree(self.root / _WORK / stage, ignore_errors=True)

    def work(self, stage: str) -> Path:
        """Where a stage keeps what it has so far."""
        path = self.root / _WORK / stage
        with explained(self.root, "written"):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def load_stage(self, stage: str, kind: type[_Found]) -> tuple[float, _Found] | None:
        """Seconds of a finished stage, and its result; None if it is still to be done."""
        name = f"{_STAGES}/{stage}.json"
        kept = self._read(name)
        if kept is None:
            return None
        try:
            if kept.pop("stage", stage) != stage:  # earlier versions did not write it
                result.refuse("", "is of another stage")
            result.check_keys(kept, ("seconds", "found"), "")
            seconds = result.from_plain(float, kept["seconds"])
            return seconds, result.from_plain(kind, kept["found"])
        except result.DocumentError as error:
            self._damaged(name, str(error))

    def save_stage(self, stage: str, seconds: float, found: object) -> None:
        """Keep the result of a stage."""
        kept = {"stage": stage, "seconds": seconds, "found": result.to_plain(found)}
        self.write(f"{_STAGES}/{stage}.json", json.dumps(kept, allow_nan=False))

    def write(self, name: str, text: str) -> None:
        """Write a file, whole or not at all."""
        with explained(self.root, "written"):
            self._disk.put(name, text.encode())
            self._disk.settle(["."])

    def _refuse(self, condition: str, hint: str) -> NoReturn:
        raise AssessmentError(f"Expected {self.root} {condition}. {hint}")

    def _fail_to_make(self, error: Exception) -> NoReturn:
        why = getattr(error, "strerror", None) or error
        checks.fail("--out", self.root, f"to be a directory that can be made ({why})")


def finished(path: str | os.PathLike[str]) -> Path:
    """The directory of an assessment that is finished.

    Raises
    ------
    AssessmentError
        If it is none, or not finished yet.
    """
    root = Path(path).expanduser().absolute()
    if not (root / STUDY).exists():
        raise AssessmentError(f"Expected {root} to be made by `sordino assess`.")
    if not (root / ASSESSMENT).exists():
        study, out = shlex.quote(str(root / STUDY)), shlex.quote(str(root))
        hint = f"`sordino assess {study} --out {out}` resumes it."
        raise AssessmentError(f"Expected {root} to be finished. {hint}")
    return root
