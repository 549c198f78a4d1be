"""Cells trained by Dask workers are those trained here, whoever is killed on the way."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.intrinsic import remote
from sordino.intrinsic.grid import EngineWork, Failure
from sordino.intrinsic.measure import StudyProgress, measure
from sordino.sgd.spec import TrainSpec
from sordino.study import Study, StudyError

distributed = pytest.importorskip("distributed")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    # Dask reports every worker that is gone; here they are meant to be.
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def threads() -> Iterator[Any]:
    """A client of a cluster inside this process."""
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def test_a_cluster_gives_the_same_bytes_and_goes_on_where_it_was(
    people: Dataset, spec: TrainSpec, tmp_path: Path, threads: Any, content
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    measure(spec, people, 16, 5, store=here)

    def stop(progress: StudyProgress) -> None:
        if progress.cells_done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(spec, people, 16, 5, store=there, client=threads, progress=stop)
    assert (Study.open(there).status() == "done").sum() == 3
    told: list[StudyProgress] = []
    measure(spec, people, 16, 5, store=there, client=threads, progress=told.append)
    assert [each.cells_done for each in told] == list(range(3, 17))
    assert content(there) == content(here)


def test_a_function_can_be_measured_by_a_cluster_too(
    people: Dataset, tmp_path: Path, threads: Any, content
) -> None:
    def train(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
        if seed == 2:
            raise ValueError("no luck")
        return X.mean(axis=0) * seed

    measure(None, people, 4, 2, train=train, store=tmp_path / "here")
    study = measure(None, people, 4, 2, train=train, store=tmp_path / "there", client=threads)
    assert list(study.status()) == ["done", "done", "failed", "done"]
    assert content(tmp_path / "there") == content(tmp_path / "here")


def test_a_worker_with_other_versions_is_refused(
    people: Dataset, spec: TrainSpec, tmp_path: Path, threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = iter([{"numpy": "1.0"}])
    real = EngineWork.versions
    monkeypatch.setattr(EngineWork, "versions", lambda self: next(versions, real(self)))
    with pytest.raises(InvalidArgument, match=r"the worker's numpy=.* to be 1\.0"):
        measure(spec, people, 2, 2, store=tmp_path / "study", client=threads)


def test_what_goes_wrong_in_a_worker_is_said_and_finished_cells_are_kept(
    people: Dataset, spec: TrainSpec, tmp_path: Path, threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = EngineWork.cell

    def cell(self: EngineWork, cell: Any) -> Any:
        if cell.number == 5:
            raise OSError("no such library")
        return real(self, cell)

    monkeypatch.setattr(EngineWork, "cell", cell)
    with pytest.raises(StudyError, match="one says OSError: no such library"):
        measure(spec, people, 16, 5, store=tmp_path / "study", client=threads)
    assert Study.open(tmp_path / "study").status()[5] == "missing"


def test_cells_that_lose_their_worker_every_time_are_recorded(
    monkeypatch: pytest.MonkeyPatch, threads: Any
) -> None:
    rounds = []

    def lose(client: Any, work: Any, cells: Any) -> Iterator[Any]:
        rounds.append(list(cells))
        yield "first", "weights"
        yield "second", None

    monkeypatch.setattr(remote, "_round", lose)
    monkeypatch.setattr(remote, "ROUNDS", 2)
    found = list(remote.train(threads, None, ["first", "second"]))  # type: ignore[arg-type, list-item]
    assert rounds == [["first", "second"], ["second"]]
    assert found[0] == ("first", "weights")
    assert found[-1][0] == "second"
    assert isinstance(found[-1][1], Failure)
    assert "lost, again and again" in found[-1][1].reason


def test_without_dask_it_says_how_to_get_it(
    people: Dataset, spec: TrainSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(remote, "import_module", missing)
    with pytest.raises(InvalidArgument, match=r"distributed.*pip install 'sordino\[dask\]'"):
        measure(spec, people, 2, 2, store=tmp_path / "study", client=object())
    measure(spec, people, 2, 2, store=tmp_path / "study")  # not needed here


def test_an_address_that_does_not_answer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        monkeypatch.setattr(remote, "_PATIENCE", 0.3)
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        for wrong in (address, "nonsense://x:1"):
            with pytest.raises(InvalidArgument, match="to be answered by a scheduler"):
                remote.connect(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("victims", [1, 2])
def test_a_killed_worker_costs_only_its_cells(
    people: Dataset, tmp_path: Path, spec: TrainSpec, victims: int, content
) -> None:
    # Cells of about a tenth of a second, so that both workers are at it when it happens.
    longer = TrainSpec(spec.objective, 0.5, 8, steps=4_000)
    measure(longer, people, 32, 20, store=tmp_path / "here")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        workers = list(client.run(os.getpid).values())
        assert len(workers) == 2
        assert os.getpid() not in workers

        def kill(progress: StudyProgress) -> None:
            if progress.cells_done == 3:
                for worker in workers[:victims]:
                    os.kill(worker, signal.SIGKILL)

        measure(longer, people, 32, 20, store=tmp_path / "there", client=client, progress=kill)
        assert set(workers[:victims]).isdisjoint(client.run(os.getpid).values())
    assert content(tmp_path / "there") == content(tmp_path / "here")


@pytest.mark.parametrize("address", ["nonsense", "10.0.0.1", "tcp://10.0.0.1", ""])
def test_what_is_no_address_is_refused_at_once(address):
    with pytest.raises(InvalidArgument, match="an address with a port"):
        remote.connect(address)
