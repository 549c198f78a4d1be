"""One way to run work: the same results everywhere, whoever is killed on the way."""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from work import die, draw

from sordino import tasks
from sordino.assessment.run import assess
from sordino.audit.runners import functions
from sordino.audit.runners.outputs import outputs
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.intrinsic.measure import measure
from sordino.models.constants import ObjectiveSpec
from sordino.sgd.spec import TrainSpec
from sordino.tasks import WorkersFailed, connect, gather, run

pytest.importorskip("distributed")


@pytest.fixture(params=["here", "threads", "processes", "cluster"])
def place(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "cluster":
        return {"client": request.getfixturevalue("dask_processes")}
    return {"here": {}, "threads": {"workers": 3, "threads": True}}.get(
        request.param, {"workers": 2}
    )


def test_the_same_bytes_everywhere_in_the_order_of_the_tasks(place: dict[str, Any]) -> None:
    told: list[tuple[int, int]] = []
    numbers = [5, 3, 3, 8]  # equal tasks are two tasks
    found = gather(draw, numbers, progress=lambda *each: told.append(each), **place)
    assert found == [draw(number) for number in numbers]
    assert told == [(done, 4) for done in range(5)]


def test_results_come_with_their_task_and_nothing_is_a_result_too(place: dict[str, Any]) -> None:
    assert dict(run(draw, range(6), **place)) == {number: draw(number) for number in range(6)}
    assert list(run(lambda task: None, [1], **place)) == [(1, None)]
    assert list(run(draw, [], **place)) == []


def test_what_the_function_raises_ends_it(place: dict[str, Any]) -> None:
    def fail(task: int) -> int:
        if task == 2:
            raise ZeroDivisionError("no luck")
        return task

    kind = WorkersFailed if "client" in place else ZeroDivisionError
    with pytest.raises(kind, match="no luck"):
        list(run(fail, range(4), **place))


def test_errors_of_ours_pass_unchanged(place: dict[str, Any]) -> None:
    def refuse(task: int) -> int:
        raise InvalidArgument("Expected something else.", "epsilon")

    with pytest.raises(InvalidArgument, match=r"^Expected something else\.$"):
        gather(refuse, [1], **place)


def test_progress_that_stops_stops_it_and_can_resume(place: dict[str, Any]) -> None:
    kept: dict[int, bytes] = {}

    def stop(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.update(run(draw, range(8), progress=stop, **place))  # one after the other
    assert len(kept) == 3
    kept.update(run(draw, [task for task in range(8) if task not in kept], **place))
    assert kept == {task: draw(task) for task in range(8)}


_INTERRUPTED = """
import sys, time
sys.path.insert(0, {tests!r})
from sordino.tasks import run

def sleep(task):
    time.sleep(60 if task == 7 else 0.01)
    return task

kept = []
try:
    for task, _ in run(sleep, range(7, -1, -1), workers=2):
        kept.append(task)
        print(task, flush=True)
except KeyboardInterrupt:
    print("stopped", sorted(kept), flush=True)
"""


def test_ctrl_c_keeps_what_is_finished_and_leaves_no_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_INTERRUPTED.format(tests=str(tmp_path)))
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        for _ in range(7):  # all but the one that sleeps
            process.stdout.readline()
        started = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.read() == f"stopped {list(range(7))}\n"
        process.wait(10)
        assert time.monotonic() - started < 20


def test_a_task_that_kills_its_process_costs_itself_alone() -> None:
    assert list(run(die, [1], workers=1, lost=lambda task: -task)) == [(1, -1)]
    kept: dict[int, int] = {}
    with pytest.raises(WorkersFailed, match="1 of 4 tasks"):
        kept.update(run(die, range(4), workers=2))
    assert kept == {0: 0, 2: 2, 3: 3}


def test_a_function_that_cannot_be_sent_is_named() -> None:
    lock = threading.Lock()
    with pytest.raises(InvalidArgument, match="fit for another process") as error:
        gather(lambda task: lock, [1], workers=1, argument="train")
    assert error.value.argument == "train"


def test_calls_share_a_process_only_if_they_may(dask_threads: Any) -> None:
    inside, most = [0], [0]

    def count(task: int) -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.05)
        inside[0] -= 1

    for threads in (False, True):
        most[0] = 0
        gather(count, range(6), client=dask_threads, threads=threads)
        assert most[0] == (2 if threads else 1)


@pytest.mark.parametrize("victims", [1, 2])
def test_a_killed_worker_costs_only_its_tasks(dask_processes: Any, victims: int) -> None:
    workers = list(dask_processes.run(os.getpid).values())

    def slow(task: int) -> tuple[bytes, int]:
        time.sleep(0.02)
        return draw(task), os.getpid()

    def kill(done: int, total: int) -> None:
        if done == 3:
            for worker in workers[:victims]:
                os.kill(worker, signal.SIGKILL)

    found = gather(slow, range(40), client=dask_processes, progress=kill)
    assert [result for result, _ in found] == [draw(task) for task in range(40)]
    assert set(workers[:victims]).isdisjoint(dask_processes.run(os.getpid).values())
    dask_processes.wait_for_workers(2, timeout=30)


def test_a_task_that_loses_every_worker_is_reported(
    dask_threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = []

    def drive(submit: Any, all_: Any, waiting: list[int], *rest: Any) -> Any:
        suspects = rest[2]
        rounds.append(waiting[::-1])
        suspects += [number for number in waiting if number == 1]
        yield from ((number, "done") for number in waiting if number != 1)
        waiting.clear()

    monkeypatch.setattr(tasks, "_drive", drive)
    found = dict(run(draw, range(3), client=dask_threads, lost=lambda task: b"lost"))
    assert rounds == [[0, 1, 2], [1], [1]]
    assert found == {0: "done", 1: b"lost", 2: "done"}


def test_a_worker_with_other_versions_is_refused(
    dask_threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def versions() -> dict[str, str]:
        main = threading.current_thread() is threading.main_thread()
        return {"numpy": "1.0" if main else "2.0"}

    monkeypatch.setattr(tasks, "_versions", versions)
    with pytest.raises(InvalidArgument) as error:
        gather(draw, [1], client=dask_threads)
    assert error.value.argument == "the worker's numpy"


def test_a_worker_that_joins_later_is_checked_too() -> None:
    with pytest.raises(InvalidArgument) as error:
        tasks._call_remotely(draw, {**tasks._versions(), "numpy": "1.0"}, False, 1)
    assert error.value.argument == "the worker's numpy"


def test_without_dask_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(tasks, "import_module", missing)
    with pytest.raises(InvalidArgument, match=r"pip install 'sordino\[dask\]'"):
        gather(draw, [1], client=object())
    assert gather(draw, [1]) == [draw(1)]  # not needed here


def test_what_is_no_client_is_refused() -> None:
    with pytest.raises(InvalidArgument) as error:
        gather(draw, [1], client="tcp://127.0.0.1:1")
    assert error.value.argument == "client"


def test_an_address_that_does_not_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        monkeypatch.setattr(tasks, "_PATIENCE", 0.3)
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        for wrong in (address, "nonsense://x:1"):
            with pytest.raises(InvalidArgument, match="answered by a scheduler"):
                connect(wrong)


@pytest.mark.parametrize("address", ["nonsense", "10.0.0.1", "tcp://10.0.0.1", ""])
def test_what_is_no_address_is_refused_at_once(address: str) -> None:
    with pytest.raises(InvalidArgument, match="an address with a port"):
        connect(address)


def test_connect_gives_a_client_or_none(dask_threads: Any) -> None:
    with connect(None) as none:
        assert none is None


def test_connect_reaches_worker_processes(dask_processes: Any) -> None:
    with connect(dask_processes.scheduler.address) as client:
        assert gather(draw, [1, 2], client=client) == [draw(1), draw(2)]


class Scaled:
    """A function that is an object with a setting of its own."""

    def __init__(self, scale: object) -> None:
        self.scale = scale

    def __call__(self, X: Any) -> Any:
        return self.scale

    def method(self, X: Any) -> Any:
        return self.scale


@pytest.mark.parametrize(
    "make",
    [
        lambda scale: functools.partial(draw, scale=scale),
        lambda scale: functools.partial(draw, np.array([scale])),
        Scaled,
        lambda scale: Scaled(scale).method,
    ],
)
def test_what_is_bound_to_a_function_is_part_of_it(make: Any) -> None:
    one, same, other = (tasks.identity(make(scale)) for scale in (1.0, 1.0, 100.0))
    assert one == same
    assert one != other
    assert one["source_sha256"] == other["source_sha256"]


def test_a_function_is_known_by_its_name_and_source() -> None:
    plain = tasks.identity(draw)
    assert plain["name"] == "draw"
    assert plain["carries_sha256"] is None
    assert len(plain["source_sha256"] or "") == 64
    bound = tasks.identity(functools.partial(draw, power=2))
    assert {**bound, "carries_sha256": None} == plain
    assert tasks.identity(Scaled(1))["name"] == "Scaled"
    assert tasks.identity(eval("lambda task: 1"))["source_sha256"] is None
    assert tasks.identity(Scaled(threading.Lock()))["carries_sha256"] is None  # not seen


# What uses it: the same bytes on two worker processes as here ------------------------------------


def test_a_study_is_the_same_on_a_cluster(dask_processes: Any, tmp_path: Path) -> None:
    data = Dataset(np.eye(12, 3), np.arange(12) % 2, norm_bound=1.0)
    spec = TrainSpec(ObjectiveSpec("logistic"), 0.5, 4, steps=5)
    for place, client in (("here", None), ("there", dask_processes)):
        measure(spec, data, 6, 3, store=tmp_path / place, client=client)
    here, there = (
        {
            each.relative_to(tmp_path / place): each.read_bytes()
            for each in (tmp_path / place).rglob("*")
            if each.is_file()
        }
        for place in ("here", "there")
    )
    assert here == there


def test_an_audit_is_the_same_on_a_cluster(
    dask_processes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "_QUICK_SECONDS", 0.0)  # so that it is worth the way
    parents = os.getpid()

    def noisy(data: np.ndarray, generator: np.random.Generator) -> list[float]:
        time.sleep(0.001)
        return [data.sum() + generator.normal(), float(os.getpid() != parents)]

    D, D_prime = np.zeros(3), np.array([0.0, 0.0, 1.0])
    how: dict[str, Any] = {"seed": 3, "workers": 1}
    here = outputs(noisy, D, D_prime, 300, **how)
    there = outputs(noisy, D, D_prime, 300, client=dask_processes, **how)
    assert [world[:, 0].tobytes() for world in here] == [world[:, 0].tobytes() for world in there]
    assert not here[0][:, 1].any()
    assert there[0][:, 1].mean() > 0.5  # all but the first runs, by which it is judged


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
def test_an_assessment_is_the_same_on_a_cluster(dask_processes: Any, tmp_path: Path) -> None:
    small = {"data": "breast-cancer", "epsilon": 2.0, "effort": "quick"}
    small |= {"seeds": 20, "neighbours": 2, "audit_runs": 200}
    here, there = (
        assess(**small, out=tmp_path / place, client=client)
        for place, client in (("here", None), ("there", dask_processes))
    )
    # The released model itself is drawn by the operating system.
    for part in ("proved_parts", "own_noise", "release_estimated", "attacks"):
        assert getattr(here, part) == getattr(there, part)
