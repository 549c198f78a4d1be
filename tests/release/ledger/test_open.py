"""Which ledger a release is charged to: blocks, threads, tasks and processes."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sordino.release.ledger import Ledger, LedgerError, current
from sordino.release.ledger.ledger import OPEN


@pytest.fixture
def make(tmp_path: Path):
    def make(dataset: str = "a") -> Ledger:
        return Ledger(tmp_path / "ledger.db", dataset=dataset, epsilon=1, delta=1e-6)

    return make


@pytest.fixture(autouse=True)
def _nothing_is_left_open():
    assert OPEN not in os.environ
    assert current() is None
    yield
    assert OPEN not in os.environ
    assert current() is None


def test_one_budget_at_a_time(make):
    outer, other = make("outer"), make("other")
    with outer as entered:
        assert entered is outer is current()
        with pytest.raises(LedgerError, match="is open here"), other:
            raise AssertionError("was opened")
        with make("outer") as again:  # the same budget
            assert current() is again
        assert current() is outer
        assert os.environ[OPEN] == str(os.getpid())
    with other:
        assert current() is other


def test_a_block_makes_the_budget_and_one_that_cannot_opens_nothing(make, tmp_path):
    with make("b"):
        assert [budget.dataset for budget in Ledger.datasets(tmp_path / "ledger.db")] == ["b"]
    with pytest.raises(LedgerError), Ledger(tmp_path / "ledger.db", dataset="c"):
        raise AssertionError("was opened")
    with Ledger(tmp_path / "ledger.db", dataset="b"):
        pass


def test_a_block_left_by_an_exception_is_closed(make):
    with pytest.raises(KeyError), make():
        raise KeyError


def test_another_thread_is_refused_until_it_opens_the_ledger_itself(make):
    ledger = make()

    def opened() -> Ledger | None:
        with ledger:
            return current()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(current).result() is None
        with ledger:
            with pytest.raises(LedgerError, match=r"open in another thread or task"):
                pool.submit(current).result()
            assert pool.submit(opened).result() is ledger
            assert current() is ledger
        assert pool.submit(current).result() is None


def test_threads_that_close_in_another_order_than_they_opened(make):
    first_is_open, second_is_open, first_is_closed = (threading.Event() for _ in range(3))
    seen = []

    def second() -> None:
        first_is_open.wait(10)
        with make("second") as ledger:
            second_is_open.set()
            first_is_closed.wait(10)
            seen.append((current() is ledger, os.environ.get(OPEN)))

    thread = threading.Thread(target=second)
    thread.start()
    with make("first"):
        first_is_open.set()
        assert second_is_open.wait(10)
    with pytest.raises(LedgerError, match="another thread"):
        current()
    first_is_closed.set()
    thread.join()
    assert seen == [(True, str(os.getpid()))]


def test_tasks_have_their_own(make):
    async def charged(dataset: str, turns: int) -> list[str]:
        names = []
        with make(dataset):
            for _ in range(turns):
                await asyncio.sleep(0)
                names.append(current().dataset)
        return names

    async def inherited() -> str:
        await asyncio.sleep(0)
        return current().dataset

    async def both() -> list[object]:
        found: list[object] = await asyncio.gather(charged("a", 5), charged("b", 3))
        with make("outer"):
            return [*found, *await asyncio.gather(charged("outer", 2), inherited())]

    assert asyncio.run(both()) == [["a"] * 5, ["b"] * 3, ["outer"] * 2, "outer"]


def in_a_new_process(program: str) -> str:
    """What a program prints that imported the ledger in a process started here and now."""
    header = "from sordino.release.ledger import Ledger, LedgerError, current\n"
    command = [sys.executable, "-c", header + program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


REFUSED = """
try:
    print(current())
except LedgerError as error:
    print(error)
"""


def test_a_process_started_inside_is_refused_until_it_opens_the_ledger_itself(make):
    with make() as ledger:
        refused, *rest = in_a_new_process(
            REFUSED
            + f"with Ledger({str(ledger.path)!r}, dataset='a') as ledger:\n"
            + "    print(current() is ledger)\n"
            + REFUSED
        ).splitlines()
        assert f"open in process {os.getpid()}, which started this one" in refused
        assert rest == ["True", refused]
    assert in_a_new_process(REFUSED) == "None"


FORKED = """
import os, sys, threading
def child(work):
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        work()
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0

def say():
    try:
        print(current())
    except LedgerError as error:
        print("refused")

def in_a_thread():
    thread = threading.Thread(target=say)
    thread.start()
    thread.join()

def nested():
    with Ledger(sys.argv[1], dataset="a", epsilon=1, delta=1e-6):
        say()
    say()

with Ledger(sys.argv[1], dataset="a", epsilon=1, delta=1e-6):
    child(say)
    child(in_a_thread)
    child(nested)
    say()
say()
"""


def test_a_forked_child_is_charged_like_its_parent(tmp_path):
    path = str(tmp_path / "ledger.db")
    header = "from sordino.release.ledger import Ledger, LedgerError, current\n"
    command = [sys.executable, "-c", header + FORKED, path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    a = f"Ledger({path!r}, dataset='a')"
    assert done.stdout.splitlines() == [a, "refused", a, a, a, "None"]


def test_a_ledger_can_be_sent_to_a_worker(make):
    ledger = make()
    copy = pickle.loads(pickle.dumps(ledger))  # noqa: S301, as process pools do
    with copy:
        assert current() is copy
    assert copy.status() == ledger.status()
