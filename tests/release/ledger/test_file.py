"""The ledger's file: how it is made, and one sentence for everything that can be wrong with it."""

from __future__ import annotations

import os
import resource
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest

from sordino.accounting.profile import GaussianProfile
from sordino.privacy import Relation
from sordino.release.ledger import Charge, Ledger, LedgerError, LedgerWentBack
from sordino.release.ledger.file import LedgerFile

DELTA = 1e-6


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    """A ledger with a budget and nothing spent."""
    made = Ledger(path, dataset="patients", epsilon=2, delta=DELTA)
    made.create()
    return made


def charge(**more: object) -> Charge:
    made = GaussianProfile(parameter=0.1, relation=Relation.REPLACE_ONE, theorem="a test")
    return Charge(made, made.epsilon(DELTA), DELTA, **more)  # type: ignore[arg-type]


class TestFile:
    def test_only_use_makes_it(self, path):
        ledger = Ledger(path, dataset="a", epsilon=1, delta=DELTA)
        ledger.check(charge())
        assert ledger.status().entries == ()
        assert list(path.parent.iterdir()) == []
        ledger.record(charge())
        made = sorted(path.parent.iterdir())
        assert [each.name for each in made] == ["ledger.db", "ledger.db.seal"]
        assert [stat.S_IMODE(each.stat().st_mode) for each in made] == [0o600, 0o600]

    def test_a_ledger_that_is_gone_is_not_opened_anew(self, ledger, path):
        """Else whoever deletes it has a full budget again."""
        ledger.record(charge())
        kept = {each: each.read_bytes() for each in path.parent.glob("ledger.db*")}
        for leftover in kept:
            leftover.unlink()
        for use in (ledger.status, lambda: ledger.check(charge()), lambda: ledger.record(charge())):
            with pytest.raises(LedgerError, match="to be there"):
                use()
        Ledger(path, dataset="patients", epsilon=2, delta=DELTA).create()  # somebody else does
        with pytest.raises(LedgerError, match="the file that it was before"):
            ledger.record(charge())
        for each, content in kept.items():
            each.write_bytes(content)
        assert len(ledger.status().entries) == 1

    def test_what_no_terminal_should_see_is_not_shown(self, ledger, path):
        entry = ledger.record(charge())
        with closing(sqlite3.connect(path)) as connection, connection:
            forged = "x\x1b[2J\nSpent: epsilon <= 0"
            connection.execute("UPDATE entry SET place = ?, status = 'written'", (forged,))
        (line,) = ledger.status().entries
        assert line.id == entry.id
        assert line.explanation.isprintable()

    def test_it_survives_a_change_of_directory(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        ledger = Ledger("here ?#%.db", dataset="a", epsilon=1, delta=DELTA)
        monkeypatch.chdir("/")
        ledger.record(charge())
        assert len(Ledger(tmp_path / "here ?#%.db", dataset="a").status().entries) == 1

    def test_it_is_written_ahead_and_to_the_disk(self, ledger, path):
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        seen = []
        query = "PRAGMA synchronous"
        LedgerFile(path).transact(lambda on: seen.extend(on.execute(query)), writes=True)
        assert seen == [(2,)]  # FULL

    def test_missing(self, path):
        ledger = Ledger(path, dataset="a")
        uses = (ledger.status, ledger.__enter__, lambda: ledger.check(charge()))
        for use in (*uses, lambda: ledger.record(charge()), lambda: Ledger.datasets(path)):
            with pytest.raises(LedgerError, match=r"to be there\. If the path is right"):
                use()
        assert not path.exists()

    def test_a_missing_dataset_names_those_that_are_there(self, ledger, path):
        with pytest.raises(LedgerError, match=r"'patient'\. Did you mean 'patients'\? It has"):
            Ledger(path, dataset="patient").status()

    def test_a_missing_directory(self, tmp_path):
        ledger = Ledger(tmp_path / "no" / "ledger.db", dataset="a", epsilon=1, delta=DELTA)
        with pytest.raises(LedgerError, match=r"in a directory that exists\. Create .*no first"):
            ledger.record(charge())

    def test_names_that_look_alike_are_one(self, path):
        Ledger(path, dataset="caf\u00e9", epsilon=1, delta=DELTA).record(charge())
        assert len(Ledger(path, dataset="cafe\u0301").status().entries) == 1


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE budget (dataset TEXT)")


def _ledger(path: Path, *statements: str) -> None:
    made = Ledger(path, dataset="a", epsilon=2, delta=DELTA)
    for _ in range(3):
        made.record(charge())
    edit(path, *statements)


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def _cut(path: Path, keep: float) -> None:
    _ledger(path)
    os.truncate(path, int(path.stat().st_size * keep))


def _overwrite(path: Path, start: int) -> None:
    _ledger(path)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * 4096)


def _linked(path: Path) -> None:
    _ledger(path.with_name("real.db"))
    path.symlink_to(path.with_name("real.db"))


def _log_without_its_file(path: Path) -> None:
    path.with_name("ledger.db-wal").write_bytes(b"log")


BAD = {
    "directory": (Path.mkdir, "to be a plain file"),
    "pipe": (os.mkfifo, "to be a plain file"),
    "link": (_linked, "to be a plain file"),
    "dangling link": (lambda path: path.symlink_to("gone"), "to be a plain file"),
    "empty": (Path.touch, "to be a ledger, not an empty file"),
    "short text": (lambda path: path.write_text("a"), "to be a ledger of sordino"),
    "text": (lambda path: path.write_text("epsilon,delta\n" * 999), "to be a ledger of sordino"),
    "foreign": (_foreign, "to be a ledger of sordino"),
    "newer": (lambda path: _ledger(path, "PRAGMA user_version=3"), "not 3"),
    "older": (lambda path: _ledger(path, "PRAGMA user_version=0"), "not 0"),
    "cut in half": (lambda path: _cut(path, 0.5), "to be as it was written"),
    "cut to a page": (lambda path: _cut(path, 0.08), "to be as it was written"),
    "first page": (lambda path: _overwrite(path, 0), "to be a ledger of sordino"),
    "tables": (lambda path: _overwrite(path, 100), "to be as it was written"),
    "log alone": (_log_without_its_file, "to be there, as ledger.db-wal is"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(path, kind):
    make, sentence = BAD[kind]
    make(path)
    before = {each: each.read_bytes() for each in path.parent.iterdir() if each.is_file()}
    ledger = Ledger(path, dataset="a", epsilon=2, delta=DELTA, wait=0.2)
    uses = (ledger.status, ledger.__enter__, lambda: ledger.record(charge()), ledger.create)
    for use in uses:
        with pytest.raises(LedgerError) as refused:
            use()
        text = str(refused.value)
        assert text.startswith(f"Expected ledger={path} ")
        assert sentence in text
        assert "\n" not in text
    assert before == {each: each.read_bytes() for each in path.parent.iterdir() if each.is_file()}


def test_a_spoilt_page_is_noticed_or_does_not_matter(path):
    _ledger(path)
    whole, content = Ledger(path, dataset="a").status(), path.read_bytes()
    noticed = 0
    for page in range(1, len(content) // 4096):
        path.write_bytes(content[: page * 4096] + bytes(4096) + content[(page + 1) * 4096 :])
        try:
            after = Ledger(path, dataset="a").status()
        except LedgerError as error:
            noticed += "Restore it from a copy" in str(error)
        else:  # an index that was not asked
            assert after == whole
    assert noticed >= 4  # the tables, and the index of a dataset's entries


FREE = ("DROP TRIGGER entries_stay", "DROP TRIGGER budgets_stay")


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE entry SET epsilon = 0.001 WHERE number = 2", "was changed"),
        ("UPDATE entry SET delta = 0 WHERE number = 1", "was changed"),
        ("UPDATE entry SET profile = '{' WHERE number = 3", "was changed"),
        ("UPDATE entry SET profile = x'00ff' WHERE number = 3", "was changed"),
        ("UPDATE entry SET epsilon = 'much' WHERE number = 3", "was changed"),
        ("UPDATE entry SET dataset = 'b' WHERE number = 3", "is not what its history says"),
        ("UPDATE history SET note = 'x'", "row 1 of its history is not of this seal"),
        ("UPDATE history SET head = 'x' WHERE number = 4", "row 4 of its history"),
        ("PRAGMA user_version=1", "an older copy"),
        ("UPDATE entry SET status = 'unspent' WHERE number = 3", "has the status 'unspent'"),
        ("UPDATE budget SET epsilon = 200", "the budget of 'a' was changed"),
        ("UPDATE budget SET relation = 'zero-out'", "the budget of 'a' was changed"),
        ("DELETE FROM entry WHERE number = 1", "its header counts"),
        ("DELETE FROM entry WHERE number = 3", "its header counts"),
        ("DELETE FROM entry", "its header counts"),
        ("DELETE FROM budget", "its header counts"),
        ("DELETE FROM header", "its header is gone"),
        ("UPDATE header SET secret = 'none'", "its header is gone"),
        ("UPDATE header SET secret = x'00'", "was changed"),
        ("DROP TABLE entry", "no such table"),
        ("INSERT INTO entry SELECT 9, 'x', dataset, recorded, what, 0, 0, profile, fingerprint, "
         "salt, pid, host, digest, status, place FROM entry WHERE number = 1", "its header counts"),
    ],
)  # fmt: skip
def test_what_was_changed_by_hand_is_noticed(path, statement, what):
    _ledger(path, *FREE, statement)
    ledger = Ledger(path, dataset="a", epsilon=2, delta=DELTA)
    for use in (ledger.status, lambda: ledger.record(charge())):
        with pytest.raises(LedgerError) as refused:
            use()
        assert what in str(refused.value)
        older = isinstance(refused.value, LedgerWentBack)
        assert ("Put both files back" if older else "Restore it from a copy") in str(refused.value)


def test_a_missing_last_entry_is_noticed_even_if_the_counts_were_made_to_fit(path):
    _ledger(path, *FREE, "DELETE FROM entry WHERE number = 3", "UPDATE header SET entries = 2")
    with pytest.raises(LedgerError, match="its table entry is not what its history says"):
        Ledger(path, dataset="a").status()


@pytest.mark.parametrize("table", ["entry", "budget"])
def test_nothing_is_deleted_by_mistake(path, table):
    _ledger(path)
    with pytest.raises(sqlite3.IntegrityError, match="never deleted"):
        edit(path, f"DELETE FROM {table}")


def test_a_profile_of_a_kind_that_is_not_known(path, monkeypatch):
    monkeypatch.setattr(
        "sordino.accounting.record.to_plain", lambda profile: {"kind": "from the future"}
    )
    ledger = Ledger(path, dataset="a", epsilon=2, delta=DELTA)
    ledger.record(charge())
    with pytest.raises(LedgerError, match="a profile that cannot be read"):
        ledger.status()


class TestSurroundings:
    def test_locked(self, ledger, path):
        waiting = Ledger(path, dataset="patients", wait=0.05)
        with closing(sqlite3.connect(path, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            with pytest.raises(LedgerError, match="to be free"):
                waiting.record(charge())
            assert waiting.status().entries == ()  # reading goes on
        waiting.record(charge())

    def test_a_lock_that_is_let_go_in_time_is_waited_for(self, ledger, path):
        holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        holder.execute("BEGIN IMMEDIATE")
        threading.Timer(0.2, holder.close).start()
        ledger.record(charge())
        assert len(ledger.status().entries) == 1

    @pytest.mark.parametrize("what", ["file", "directory", "both"])
    def test_read_only(self, unprivileged, what):
        path = unprivileged / "ledger.db"
        ledger = Ledger(path, dataset="a", epsilon=2, delta=DELTA)
        ledger.record(charge())
        if what != "directory":
            path.chmod(0o400)
        if what != "file":
            unprivileged.chmod(0o500)
        with pytest.raises(LedgerError, match=r"to be (writable|a file that can be opened)\."):
            ledger.record(charge())
        unprivileged.chmod(0o700)
        path.chmod(0o600)
        assert len(ledger.status().entries) == 1

    def test_a_directory_that_cannot_be_written(self, unprivileged):
        unprivileged.chmod(0o500)
        ledger = Ledger(unprivileged / "ledger.db", dataset="a", epsilon=2, delta=DELTA)
        with pytest.raises(LedgerError, match="to be writable"):
            ledger.record(charge())

    def test_a_full_disk(self, ledger, monkeypatch):
        ledger.record(charge())
        connect = LedgerFile._connect

        def full(self: LedgerFile) -> sqlite3.Connection:
            connection = connect(self)
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count={pages}")
            return connection

        with monkeypatch.context() as patch:
            patch.setattr(LedgerFile, "_connect", full)
            with pytest.raises(LedgerError, match=r"on a disk with room\. Make room"):
                ledger.record(charge(what="a long story " * 1000))
        assert len(ledger.status().entries) == 1
        ledger.record(charge())

    @pytest.mark.parametrize("use", ["create", "record"])
    def test_a_disk_that_takes_no_more_bytes(self, path, use):
        ledger = Ledger(path, dataset="a", epsilon=2, delta=DELTA)
        if use == "record":
            ledger.create()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))
        try:
            with pytest.raises(LedgerError, match="on a disk that works"):
                ledger.record(charge())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert ledger.status().entries == ()
        assert path.exists() == (use == "record")
        ledger.record(charge())

    def test_a_file_system_without_hard_links(self, path, monkeypatch):
        def link(*_: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", link)
        with pytest.raises(
            LedgerError, match=r"on a file system with hard links\. Put it on a local"
        ):
            Ledger(path, dataset="a", epsilon=2, delta=DELTA).create()
        assert list(path.parent.iterdir()) == []
