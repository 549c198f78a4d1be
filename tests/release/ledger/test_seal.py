"""An older copy put back, a tail cut off, rows made up: what the seal and a live ledger notice."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from ledger_files import DELTA, Files, charge, opened, spent

from sordino.accounting.profile import GaussianProfile
from sordino.privacy import Relation
from sordino.release.ledger import Charge, Head, Ledger, LedgerError, LedgerWentBack
from sordino.release.ledger.file import SealedWarning

OLD = Path(__file__).parents[2] / "corpus" / "ledger.db"
WORKER = Path(__file__).with_name("ledger_worker.py")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


# What is noticed ---------------------------------------------------------------------------


def test_a_copy_of_the_file_alone_has_everything(path):
    """Also while somebody else has it open, whose log it shares."""
    ledger = opened(path)
    ledger.create()
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT COUNT(*) FROM entry").fetchone()
        for number in range(1, 4):
            ledger.record(charge()).written("there")
            assert path.with_name("ledger.db-wal").exists()
            copy = path.parent / "copy" / "ledger.db"
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(path, copy)
            shutil.copy(f"{path}.seal", f"{copy}.seal")
            assert [line.status for line in Ledger(copy, dataset="a").status().entries] == (
                ["written"] * number
            )


def test_an_older_copy_is_noticed_by_whoever_opens_it(path):
    files = Files(path)
    opened(path).record(charge())
    before = files.kept()
    opened(path).record(charge())
    files.put(before[0])
    for use in (
        lambda: spent(path),
        lambda: opened(path).record(charge()),
        lambda: Ledger.datasets(path),
        lambda: opened(path).create(),
    ):
        with pytest.raises(LedgerWentBack, match=r"3 rows that its seal knows .* holds 2:"):
            use()
    assert before[0] == path.read_bytes()


def test_an_older_copy_of_both_is_noticed_by_a_live_ledger_and_by_a_noted_head(path):
    files, live = Files(path), opened(path)
    live.record(charge())
    before = files.kept()
    live.record(charge())
    noted = Ledger.verify(path)
    files.put(*before)
    for use in (live.status, lambda: live.record(charge()), lambda: live.check(charge())):
        with pytest.raises(LedgerWentBack, match="3 rows that this process has seen of it"):
            use()
    with pytest.raises(LedgerWentBack, match="3 rows that the noted head tells of it"):
        Ledger.verify(path, noted)
    assert spent(path) == 1  # nobody else can see it
    opened(path).record(charge())  # as many rows, but others
    with pytest.raises(LedgerWentBack, match="and it holds 3 others"):
        live.record(charge())
    with pytest.raises(LedgerWentBack, match="and it holds 3 others"):
        Ledger.verify(path, noted)


def test_a_live_ledger_that_only_looked_notices_too(path):
    files = Files(path)
    opened(path).record(charge())
    before = files.kept()
    opened(path).record(charge())
    with Ledger(path, dataset="a") as live:
        files.put(*before)
        with pytest.raises(LedgerWentBack):
            live.record(charge())


def test_whoever_knows_the_key_in_the_ledger_cannot_make_it_fit(path):
    files = Files(path)
    for _ in range(3):
        opened(path).record(charge())
    whole = files.kept()
    files.cut(1)
    with pytest.raises(LedgerWentBack, match="its end was cut off"):
        spent(path)
    files.put(whole[0])
    for history, words in ((True, "row 1 of its history is not of"), (False, "its table budget")):
        files.put(whole[0])
        files.raise_budget(history=history)
        with pytest.raises(LedgerError, match=words):
            spent(path)
    files.put(whole[0])
    assert spent(path) == 3


def test_a_ledger_that_is_gone_from_beside_its_seal_is_not_made_anew(path):
    opened(path).record(charge())
    path.unlink()
    for use in (opened(path).create, opened(path).status, lambda: Ledger.datasets(path)):
        with pytest.raises(LedgerError, match=r"to be there, as ledger\.db\.seal is"):
            use()
    assert not path.exists()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (Path.unlink, "to have its seal beside it"),
        (lambda seal: seal.write_text("{"), "as it was written"),
        (lambda seal: seal.write_text('{"key": "ab", "count": 1, "head": 3}'), "as it was written"),
        (lambda seal: seal.write_bytes(b"\xff" * 5000), "as it was written"),
        (lambda seal: (seal.unlink(), seal.mkdir()), "as it was written|can be read"),
        (lambda seal: (seal.unlink(), os.mkfifo(seal)), "as it was written"),
        (lambda seal: (seal.rename(f"{seal}2"), seal.symlink_to(f"{seal}2")), "can be read"),
    ],
)
def test_a_seal_that_cannot_be_used_is_refused_and_can_be_made_anew(path, spoil, words):
    opened(path).record(charge())
    noted = Ledger.verify(path)
    seal = path.with_name("ledger.db.seal")
    spoil(seal)
    for use in (lambda: spent(path), lambda: opened(path).record(charge())):
        with pytest.raises(LedgerError, match=words) as refused:
            use()
        assert "sordino ledger reseal" in str(refused.value)
    if seal.is_dir():
        seal.rmdir()
    assert Ledger.reseal(path).kind == "resealed"
    assert Ledger.reseal(path) is None
    opened(path).record(charge())
    assert spent(path) == 2
    assert [event.kind for event in Ledger.history(path)] == (
        ["opened", "released", "resealed", "released"]
    )
    with pytest.raises(LedgerWentBack):  # who noted the head knows that something was done
        Ledger.verify(path, noted)


def test_a_head_is_read_as_it_is_printed(path):
    opened(path).create()
    head = Ledger.verify(path)
    assert Head.parsed(f" {head}\n") == head
    for text in ("", "1", f"x:{head.digest}", f"1:{head.digest[:-1]}", f"-1:{head.digest}"):
        with pytest.raises(ValueError, match="sordino ledger head"):
            Head.parsed(text)


def test_the_seal_has_the_permissions_of_the_ledger(path):
    seal = path.with_name("ledger.db.seal")
    for mode in (0o600, 0o660):
        opened(path).record(charge())
        path.chmod(mode)
        opened(path).record(charge())
        assert stat.S_IMODE(seal.stat().st_mode) == mode


# A disk that fails ---------------------------------------------------------------------------


def test_a_seal_that_cannot_be_written_first_costs_nothing(path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", full)
        with pytest.raises(LedgerError, match="on a disk with room"):
            opened(path).record(charge())
    assert opened(path).status().entries == ()
    opened(path).record(charge())


@pytest.mark.parametrize("why", [1, 13, 18, 28, 30])
def test_a_seal_that_can_never_be_replaced_costs_nothing(path, monkeypatch, why):
    opened(path).create()

    def fails(*_: object) -> None:
        raise OSError(why, os.strerror(why))

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fails)
        for _ in range(3):
            with pytest.raises(LedgerError) as refused:
                opened(path).record(charge())
            assert "hard links" not in str(refused.value)
            assert not path.with_name("ledger.db.seal.new").exists()
    assert opened(path).status().entries == ()
    opened(path).record(charge())


def test_a_seal_that_cannot_be_written_afterwards_says_what_is_spent(path, monkeypatch):
    opened(path).create()
    rename, done = os.rename, []

    def full(*names: Path) -> None:  # it was tried, and went well, before the rows were written
        done.append(names)
        if len(done) > 1:
            raise OSError(28, "No space left on device")
        rename(*names)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", full)
        with pytest.raises(
            LedgerError, match=r"could not be sealed.*its budget stays spent\. Nothing was released"
        ):
            opened(path).record(charge())
    assert spent(path) == 1  # and no harm is done
    opened(path).record(charge())
    assert spent(path) == 2


# Older ledgers -------------------------------------------------------------------------------


def test_an_older_ledger_opens_and_its_first_write_seals_it(path):
    shutil.copy(OLD, path)
    before = path.read_bytes()
    many = lines(path)
    assert Ledger.verify(path) is None
    assert Ledger.history(path) == []
    assert path.read_bytes() == before
    assert not path.with_name("ledger.db.seal").exists()
    with pytest.warns(SealedWarning, match=r"has a seal now, ledger\.db\.seal"):
        Ledger(path, dataset="fixed").record(charge())
    assert lines(path) == many + 1
    kinds = [event.kind for event in Ledger.history(path)]
    assert kinds[-2:] == ["sealed", "released"]
    Ledger(path, dataset="fixed").record(charge())  # and says so once
    assert Ledger.verify(path).count == len(kinds) + 1
    with closing(sqlite3.connect(path)) as on:
        assert on.execute("PRAGMA user_version").fetchone() == (2,)
    for log in path.parent.glob("ledger.db-*"):
        log.unlink()
    path.write_bytes(before)
    with pytest.raises(LedgerWentBack):
        Ledger(path, dataset="fixed").status()


def lines(path: Path) -> int:
    """Releases in a ledger; adding up those of the corpus takes seconds."""
    with closing(sqlite3.connect(path)) as on:
        return on.execute("SELECT COUNT(*) FROM entry").fetchone()[0]


def test_an_older_ledger_can_be_sealed_without_a_release(path):
    shutil.copy(OLD, path)
    assert Ledger.reseal(path).kind == "sealed"
    assert Ledger.reseal(path) is None
    assert Ledger.verify(path).count > lines(path) > 0


# Corrections ---------------------------------------------------------------------------------


def test_a_budget_is_corrected_while_nothing_is_recorded_and_the_history_keeps_it(path):
    opened(path, epsilon=20).create()
    opened(path, "b").create()
    right = Ledger(path, dataset="a", epsilon=2, delta=1e-7, as_you_go=True, max_rows_per_person=3)
    before = right.amend()
    assert (before.epsilon, before.delta) == (20, DELTA)
    assert right.amend() == right.status().budget  # again changes nothing
    (amended,) = [event for event in Ledger.history(path) if event.note]
    assert (amended.kind, amended.dataset) == ("amended", "a")
    assert "epsilon = 20 at delta = 1e-06" in amended.note
    with pytest.raises(LedgerError, match=r"epsilon=20.0 for 'a', not 2\.0\. .* amend"):
        opened(path, epsilon=20).status()
    wide = GaussianProfile(parameter=0.01, relation=Relation.REPLACE_ONE, theorem="a test")
    entry = right.record(Charge(wide, wide.epsilon(DELTA), DELTA, rows_per_person=3))
    for _ in range(2):
        with pytest.raises(LedgerError, match="nothing under 'a', and it has 1"):
            opened(path, epsilon=3).amend()
        entry.failed("a test")  # does not give it back
    opened(path, "b", epsilon=3).amend()  # another one's entries do not count
    with pytest.raises(LedgerError, match="to have a budget for 'c'"):
        opened(path, "c").amend()
    with pytest.raises(ValueError, match="to be given"):
        Ledger(path, dataset="b").amend()


# Processes -----------------------------------------------------------------------------------


def test_killed_at_every_step_no_model_is_out_whose_record_can_be_cut_off(tmp_path):
    command = [sys.executable, str(WORKER), "cut-after-every-kill", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    stages = [stage for number, stage in enumerate(found) if stage not in found[:number]]
    assert stages == [
        {"recorded": False, "model": False, "old copy": "accepted"},
        {"recorded": True, "model": False, "old copy": "accepted"},
        {"recorded": True, "model": False, "old copy": "refused"},
        {"recorded": True, "model": True, "old copy": "refused"},
    ]
