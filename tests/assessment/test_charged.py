"""`assess` with a ledger: asked before any work, charged once, whatever stops it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from pathlib import Path

import pytest

import sordino
from sordino import InvalidArgument, Ledger, assess
from sordino.assessment import history
from sordino.assessment.directory import AssessmentError
from sordino.assessment.request import Request
from sordino.data.source import Source
from sordino.estimators.classifiers import PrivateLinearClassifier
from sordino.release import bundle
from sordino.release.ledger import LedgerError

pytestmark = pytest.mark.usefixtures("undrawn")
SMALL = {
    "data": "digits/binary",
    "epsilon": 2.0,
    "effort": "quick",
    "seeds": 20,
    "neighbours": 2,
    "audit_runs": 64,
}


@pytest.fixture
def budget(tmp_path: Path) -> dict[str, str]:
    """A budget for one release."""
    path = str(tmp_path / "book.db")
    Ledger(path, dataset="mine", epsilon=2.2, delta=1e-5).create()
    return {"ledger": path, "dataset": "mine"}


def entries(budget: dict[str, str]) -> list[tuple[str, str]]:
    ledger = Ledger(budget["ledger"], dataset=budget["dataset"])
    return [(line.id, line.status) for line in ledger.status().entries]


def no_fit(*_: object, **__: object) -> None:
    pytest.fail("a second release")


@pytest.mark.slow
def test_it_is_charged_once_recorded_in_the_certificate_and_refused_before_any_work(
    tmp_path: Path, budget: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = assess(**SMALL, **budget, out=tmp_path / "one")
    ((line, status),) = entries(budget)
    papers = sordino.load(tmp_path / "one" / "model").certificate_
    assert (papers.ledger_entry, papers.dataset.name, status) == (line, "mine", "written")
    assert any(line in each for each in found.caveats)
    with pytest.raises(sordino.BudgetExceeded):
        assess(**SMALL, **budget, out=tmp_path / "two")
    assert not (tmp_path / "two").exists()
    # Again, from its own file, and without the ledger at hand: nothing more is charged.
    monkeypatch.setattr(PrivateLinearClassifier, "fit_and_save", no_fit)
    kept = Path(budget["ledger"]).rename(tmp_path / "away.db")
    assess(Request.from_file(tmp_path / "one" / "study.toml"), out=tmp_path / "one")
    kept.rename(budget["ledger"])
    assert len(entries(budget)) == 1
    with pytest.raises(AssessmentError, match="ledger is left out here"):
        assess(**SMALL, out=tmp_path / "one")


def test_what_names_no_budget_is_refused_first(tmp_path: Path, budget: dict[str, str]) -> None:
    for given, words in (
        ({"ledger": budget["ledger"]}, r"Expected --dataset NAME with --ledger\."),
        ({"dataset": "mine"}, r"Expected --ledger FILE with --dataset\."),
        ({**budget, "model": "mlp"}, "to be left out for model=mlp"),
        ({**budget, "mechanism": "gallery:fixed-seed"}, "left out with a mechanism"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            Request(**given)
    with pytest.raises(InvalidArgument, match="to be given while a ledger is open"):
        assess(**SMALL, **budget)
    for other in ({"dataset": "yours"}, {"ledger": str(tmp_path / "none.db")}):
        with pytest.raises(LedgerError):
            assess(**SMALL, **{**budget, **other}, out=tmp_path / "out")
        assert not (tmp_path / "out").exists()


KILLED = ["before its name", "before the record", "before the mark"]


def _killed(place: Path, budget: dict[str, str], where: str) -> None:
    """In a process of its own: an assessment that is killed at its release."""

    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    from sordino.assessment.stages import release

    thing, name = {
        "before the record": (Ledger, "record"),
        "before its name": (bundle.os, "replace"),
        "before the mark": (release.Disk, "put"),
    }[where]
    made = release._release

    def released(*arguments: object) -> object:
        setattr(thing, name, die)
        return made(*arguments)

    release._release = released
    assess(**SMALL, **budget, out=place)


@pytest.mark.slow
@pytest.mark.parametrize("where", KILLED)
def test_killed_at_its_release_it_goes_on_and_is_charged_once(
    tmp_path: Path, budget: dict[str, str], where: str
) -> None:
    place = tmp_path / "out"
    process = multiprocessing.get_context("fork").Process(
        target=_killed, args=(place, budget, where)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    before = entries(budget)
    assert len(before) == (where != "before the record")
    found = assess(**SMALL, **budget, out=place)
    ((line, status),) = entries(budget)
    assert status == ("written" if where != "before the mark" else before[0][1])
    assert not before or before[0][0] == line
    assert sordino.load(place / "model").certificate_.ledger_entry == line
    assert any(line in each for each in found.caveats)
    assert not list(place.glob(".model*"))


@pytest.mark.slow
def test_stopped_between_record_and_name_it_goes_on_and_is_charged_once(
    tmp_path: Path, budget: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        real = os.replace
        patch.setattr(
            bundle.os,
            "replace",
            lambda a, b: (
                stop() if str(a).endswith(".partial") and ".model." in str(a) else real(a, b)
            ),
        )
        with pytest.raises(KeyboardInterrupt) as stopped:
            assess(**SMALL, **budget, out=tmp_path / "out")
    assert "its budget stays spent" in " ".join(stopped.value.__notes__)
    assess(**SMALL, **budget, out=tmp_path / "out")
    assert [status for _, status in entries(budget)] == ["written"]


# Without a ledger ----------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> Source:
    path = tmp_path / "people.csv"
    rows = [f"{number % 40},{'yes' if number % 3 else 'no'}" for number in range(80)]
    path.write_text("age,ill\n" + "\n".join(rows) + "\n")
    return Source(str(path), target="ill")


def test_a_second_release_of_a_file_is_warned_of_unless_a_ledger_adds_up(
    tmp_path: Path, table: Source
) -> None:
    history.warn(table)  # nothing yet
    assert not history.directory().exists()
    history.add(table)
    with pytest.warns(history.ReleasedBefore, match="released from this file before: 1"):
        history.warn(table)
    history.add(table)
    copy = tmp_path / "another name.csv"
    copy.write_bytes(Path(table.data).read_bytes())
    with pytest.warns(history.ReleasedBefore, match="before: 2"):
        history.warn(Source(str(copy), target="ill"))
    with Ledger(tmp_path / "b.db", dataset="d", epsilon=1, delta=0):
        history.warn(table)
    copy.write_text(copy.read_text() + "1,no\n")
    history.warn(Source(str(copy), target="ill"))
    history.warn(Source("digits/binary"))  # public


def test_what_is_kept_of_it_holds_neither_path_nor_plain_digest(table: Source) -> None:
    import hashlib

    history.add(table)
    content = Path(table.data).read_bytes()
    place = history.directory() / "released"
    kept = {each.name: each.read_bytes() for each in place.iterdir()}
    assert len(kept) == 2
    assert (place.stat().st_mode & 0o777, (place / "key").stat().st_mode & 0o777) == (0o700, 0o600)
    everything = b" ".join([*kept.values(), *(name.encode() for name in kept)])
    assert b"people" not in everything
    assert hashlib.sha256(content).hexdigest().encode() not in everything
    first = set(kept)
    (place / "key").write_bytes(os.urandom(32))  # another user's names are others
    history.add(table)
    assert len({each.name for each in place.iterdir()} - first) == 1


def test_a_home_that_cannot_be_written_is_no_reason_to_fail(
    tmp_path: Path, table: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "file" / "state"))
    history.add(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        history.warn(table)


@pytest.mark.slow
def test_assess_warns_before_its_work_and_a_study_that_goes_on_does_not(
    tmp_path: Path, table: Source
) -> None:
    asked = {
        **SMALL,
        "data": table.data,
        "target": "ill",
        "classes": "no,yes",
        "method": "output-gd",
    }
    asked["described"] = {"age": {"bounds": [0, 120]}}
    assess(**asked, out=tmp_path / "one")
    assess(**asked, out=tmp_path / "one")
    with pytest.raises(history.ReleasedBefore):
        assess(**asked, out=tmp_path / "two")
    assert not (tmp_path / "two").exists()
