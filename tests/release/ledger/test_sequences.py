"""Any sequence of honest use, crashes and cheats, against a model: a list of the ledger's states.

The honest are never locked out, and every cheat that the documentation names is noticed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_files import Files, charge, opened, spent

from sordino.release.ledger import Head, Ledger, LedgerError, LedgerWentBack
from sordino.release.ledger.file import LedgerFile
from sordino.release.ledger.rows import LedgerRows
from sordino.release.mechanism import ReleaseRefused


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


STEPS = st.one_of(
    st.tuples(st.just("record"), st.sampled_from("ab")),
    st.tuples(st.just("amend"), st.sampled_from("ab")),
    st.tuples(st.just("look"), st.sampled_from("ab")),
    st.tuples(st.just("open"), st.just("")),
    st.tuples(st.just("crash"), st.sampled_from("ab")),
    st.tuples(st.sampled_from(["copy", "copy both"]), st.integers(1, 4)),
    st.tuples(st.just("cut"), st.integers(1, 2)),
    st.tuples(st.just("edit"), st.booleans()),
)


class Crashed(BaseException):
    """Stands for a kill between the commit and the seal."""


class World:
    """A ledger, the one who uses it honestly, the one who cheats, and what both must see.

    `states` are the files after each write; `counts` what was recorded then.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.files = path, Files(path)
        self.live: dict[str, Ledger] = {}
        self.counts = {"a": 0, "b": 0}
        for name in "ab":
            opened(path, name).create()
        self.states = [self.files.kept()]

    def ledger(self, name: str) -> Ledger:
        return self.live.setdefault(name, Ledger(self.path, dataset=name))

    def run(self, kind: str, what: object) -> None:
        getattr(self, f"_{kind.replace(' ', '_')}")(what)
        # The honest: whatever happened, nobody is locked out, and nothing is forgotten.
        assert {name: spent(self.path, name) for name in "ab"} == self.counts
        Ledger.verify(self.path)

    def _record(self, name: str) -> None:
        try:
            self.ledger(name).record(charge())
        except ReleaseRefused:
            return
        self.counts[name] += 1
        self.states.append(self.files.kept())

    def _amend(self, name: str) -> None:
        other = opened(self.path, name, epsilon=2 + len(self.states))
        if self.counts[name]:
            with pytest.raises(LedgerError, match="to have recorded nothing"):
                other.amend()
        else:
            other.amend()
            self.states.append(self.files.kept())

    def _look(self, name: str) -> None:
        assert len(self.ledger(name).status().entries) == self.counts[name]

    def _open(self, _: object) -> None:
        self.live = {}

    def _crash(self, name: str) -> None:
        """Recorded and not sealed, and the process is gone."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LedgerFile, "_seal", self._die)
            try:
                self.ledger(name).record(charge())
            except Crashed:
                self.counts[name] += 1
            except ReleaseRefused:
                pass
        self.live = {}
        # What a kill leaves can be cut by one release, which nobody got; the next write ends that.
        self._record(name)

    @staticmethod
    def _die(*_: object) -> None:
        raise Crashed

    def _noticed(self, now: tuple[bytes, bytes], *, by_live: bool = False) -> None:
        names = "ab" if not by_live else [*self.live]
        for name in names:
            ledger = self.live[name] if by_live else Ledger(self.path, dataset=name)
            for use in (ledger.status, lambda ledger=ledger: ledger.record(charge())):
                with pytest.raises(LedgerError):
                    use()
        self.files.put(*now)

    def _copy(self, back: int) -> None:
        if back < len(self.states):
            now = self.files.kept()
            self.files.put(self.states[-1 - back][0])
            self._noticed(now)

    def _copy_both(self, back: int) -> None:
        if back < len(self.states):
            for name in self.live:
                self._look(name)  # a live one that has seen the last state
            noted, now = Ledger.verify(self.path), self.files.kept()
            self.files.put(*self.states[-1 - back])
            with pytest.raises(LedgerWentBack):
                Ledger.verify(self.path, noted)
            self._noticed(now, by_live=True)

    def _cut(self, rows: int) -> None:
        if sum(self.counts.values()) >= rows:
            now = self.files.kept()
            self.files.cut(rows)
            self._noticed(now)

    def _edit(self, history: bool) -> None:
        now = self.files.kept()
        self.files.raise_budget(history=history)
        self._noticed(now)


@settings(max_examples=12)
@given(steps=st.lists(STEPS, min_size=3, max_size=10))
def test_any_sequence_of_honest_use_crashes_and_cheats(tmp_path_factory, steps):
    world = World(tmp_path_factory.mktemp("any") / "ledger.db")
    for step in steps:
        world.run(*step)


@pytest.mark.slow
@settings(max_examples=150)
@given(steps=st.lists(STEPS, min_size=3, max_size=25))
def test_many_sequences_of_honest_use_crashes_and_cheats(tmp_path_factory, steps):
    world = World(tmp_path_factory.mktemp("many") / "ledger.db")
    for step in steps:
        world.run(*step)


EVERY = [
    ("edit", False),
    ("record", "a"),
    ("record", "b"),
    ("crash", "a"),
    ("copy", 1),
    ("copy both", 2),
]
EVERY += [("cut", 1), ("edit", True), ("edit", False), ("record", "a")]


def run_every(path: Path) -> None:
    world = World(path)
    for step in EVERY:
        world.run(*step)


def _never_sealed(file: LedgerFile, head: Head) -> None:
    """A twin that forgets to say how far it came."""


def _extends_anything(rows: LedgerRows, head: Head) -> bool:
    return True


@pytest.mark.parametrize(
    ("owner", "name", "twin"),
    [
        (LedgerFile, "_seal", _never_sealed),
        (LedgerRows, "extends", _extends_anything),
        (LedgerRows, "check_tables", lambda _: None),
        (LedgerFile, "_remember", lambda *_: None),
    ],
)
def test_a_twin_that_leaves_one_thing_out_is_caught(path, monkeypatch, owner, name, twin):
    monkeypatch.setattr(owner, name, twin)
    with pytest.raises((AssertionError, pytest.fail.Exception, LedgerError)):
        run_every(path)


def test_without_a_twin_the_same_steps_pass(path):
    run_every(path)
