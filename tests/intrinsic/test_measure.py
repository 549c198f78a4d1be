"""A study holds what is trained, by whom and wherever, however often it was stopped."""

from __future__ import annotations

import dataclasses
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino import tasks
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.intrinsic import grid
from sordino.intrinsic import measure as measuring
from sordino.intrinsic.grid import load
from sordino.intrinsic.measure import StudyProgress, arrays, attempt, measure
from sordino.models.constants import ObjectiveSpec
from sordino.sgd import DivergenceWarning, Plan, TrainSpec, train
from sordino.study import Study, StudyError

pytest.importorskip("distributed")

SEEDS, NEIGHBOURS = 16, 5
"""Cells of two seeds and all datasets: eight for each kind of initial weights."""


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of all cells that the engine was asked for."""
    asked: list[int] = []
    here = measuring._Engine.here

    def spy(self: Any, wanted: Any, *how: Any) -> Any:
        asked.extend(cell.number for cell in wanted)
        return here(self, wanted, *how)

    monkeypatch.setattr(measuring._Engine, "here", spy)
    return asked


class Stop:
    """Ctrl-C once so many cells are over."""

    def __init__(self, cells: int) -> None:
        self._cells = cells

    def __call__(self, progress: StudyProgress) -> None:
        if progress.cells_done >= self._cells:
            raise KeyboardInterrupt


def test_weights_are_those_of_the_engine(people: Dataset, spec: TrainSpec, tmp_path: Path) -> None:
    study = measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "study", checkpoints=3)
    assert study.layout.inits == ("vary", "fixed")
    assert study.layout.steps == (10, 20, 30)
    assert study.layout.dtype == "float64"
    assert (study.status() == "done").all()
    assert len(study.cells()) == 16
    datasets = grid.datasets(people, NEIGHBOURS)
    for init in study.layout.inits:
        one = dataclasses.replace(spec, init=init)
        plan = Plan(*measuring.cell_size(study.layout))
        wanted = train(one, people, range(SEEDS), datasets, (10, 20, 30), plan=plan)
        assert np.array_equal(study.weights(init), wanted)
    assert not np.array_equal(study.weights("vary"), study.weights("fixed"))
    assert "init" not in study.description["spec"]  # which is an axis


def test_neighbours_are_trained_on_the_records_their_labels_say(
    people: Dataset, spec: TrainSpec, tmp_path: Path
) -> None:
    study = measure(spec, people, 2, 3, init="vary", store=tmp_path / "study")
    for place, label in enumerate(study.layout.neighbours):
        rows = np.arange(1, people.rows)
        if label >= 0:
            rows[label - 1] = 0
        alone = train(spec, people.take(rows), range(2))[:, 0]
        # The same sums, taken in another order.
        assert np.abs(study.weights("vary")[:, place] - alone).max() < 1e-12
    assert study.layout.neighbours[0] == -1


def test_finished_cells_are_not_trained_again(
    people: Dataset, spec: TrainSpec, tmp_path: Path, trained: list[int], content
) -> None:
    measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "study")
    assert trained == list(range(16))
    before = content(tmp_path / "study")
    measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "study")
    assert trained == list(range(16))
    assert content(tmp_path / "study") == before


def test_stopped_and_run_again_it_ends_with_the_same_bytes(
    people: Dataset, spec: TrainSpec, tmp_path: Path, trained: list[int], content
) -> None:
    measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "whole", workers=1)
    stopped = tmp_path / "stopped"
    for more in (3, 12, 9):  # the last is over before it is asked to stop
        trained.clear()
        done = 0 if not stopped.exists() else int((Study.open(stopped).status() == "done").sum())
        with suppress(KeyboardInterrupt):
            measure(spec, people, SEEDS, NEIGHBOURS, store=stopped, progress=Stop(done + more))
        assert len(trained) == 16 - done
    assert content(stopped) == content(tmp_path / "whole")


def test_a_study_goes_on_as_it_was_cut_where_memory_is_short(
    people: Dataset, spec: TrainSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    measure(spec, people, SEEDS, NEIGHBOURS, store=whole)
    with pytest.raises(KeyboardInterrupt):
        measure(spec, people, SEEDS, NEIGHBOURS, store=stopped, progress=Stop(2))
    monkeypatch.setattr(tasks, "available_cores", lambda: 2)
    monkeypatch.setattr("sordino.sgd.grid.default_memory", lambda: 22_000)
    measure(spec, people, SEEDS, NEIGHBOURS, store=stopped)
    assert content(stopped) == content(whole)
    study = measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "other")
    assert len(study.cells()) > 16  # this machine would have cut it so


def test_cells_that_diverge_are_recorded_and_the_rest_survives(
    tmp_path: Path, trained: list[int], content
) -> None:
    # Weights explode in the second batch after the one with the huge record, in half of the seeds.
    draws = np.random.default_rng(2)
    X = draws.standard_normal((41, 2))
    X[7] *= 1e25
    dataset = Dataset(X.astype("float32"), X[:, 0] / np.abs(X[:, 0]))
    spec = TrainSpec(ObjectiveSpec("least-squares"), 0.1, 4, steps=5)
    study = measure(spec, dataset, SEEDS, 2, init="vary", store=tmp_path / "study")
    with pytest.warns(DivergenceWarning):
        wanted = train(spec, dataset, range(SEEDS), grid.datasets(dataset, 2), plan=Plan(2, 3))
    finite = np.isfinite(wanted).all(axis=(1, 2, 3)).reshape(8, 2).all(axis=1)
    assert 1 <= finite.sum() <= 7
    assert ((study.status() == "done") == finite).all()
    assert ((study.status() == "failed") == ~finite).all()
    for reason in study.failures().values():
        assert "runs diverged" in reason
        assert "Lower the learning rate" in reason
    kept = np.isfinite(study.weights("vary")).all(axis=(1, 2, 3)).reshape(8, 2).all(axis=1)
    assert (kept == finite).all()

    before = content(tmp_path / "study")
    trained.clear()
    measure(spec, dataset, SEEDS, 2, init="vary", store=tmp_path / "study")
    assert trained == []
    measure(spec, dataset, SEEDS, 2, init="vary", store=tmp_path / "study", retry_failed=True)
    assert trained == np.flatnonzero(~finite).tolist()
    assert content(tmp_path / "study") == before


def test_another_study_is_refused_and_the_difference_named(
    people: Dataset, spec: TrainSpec, tmp_path: Path, content
) -> None:
    store = tmp_path / "study"
    measure(spec, people, 4, 3, store=store)
    before = content(store)
    slower = dataclasses.replace(spec, learning_rate=0.25)
    changed = Dataset(people.X, 1 - people.y, 1.0, "people")
    given = neighbouring.zero_out(people, [3, 4, 5])
    for arguments, difference in (
        ((slower, people, 4, 3), "learning_rate.rate is 0.5 there and 0.25 here"),
        ((spec, changed, 4, 3), "description.dataset.sha256"),
        ((spec, people, 5, 3), "layout.seeds has 4 entries there and 5 here"),
        ((spec, people, 4, 2), "layout.neighbours has 4 entries there and 3 here"),
        ((spec, people, 4, given), "relation is .replace-one. there and .zero-out. here"),
    ):
        with pytest.raises(StudyError, match=difference):
            measure(*arguments, store=store)
    with pytest.raises(StudyError, match=r"layout\.inits"):
        measure(spec, people, 4, 3, init="vary", store=store)
    with pytest.raises(StudyError, match=r"layout\.steps"):
        measure(spec, people, 4, 3, checkpoints=2, store=store)
    assert content(store) == before
    # The kind of initial weights of the spec itself is not used, and so no difference.
    measure(dataclasses.replace(spec, init="fixed"), people, 4, 3, store=store)


def test_a_place_that_cannot_be_written_is_one_sentence(
    people: Dataset, spec: TrainSpec, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for place in (file, file / "study"):
        with pytest.raises(StudyError, match="to be a directory"):
            measure(spec, people, 2, 2, store=place)
    assert file.read_text() == "mine"
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("mine")
    with pytest.raises(StudyError, match=r"it holds 'letter\.txt'"):
        measure(spec, people, 2, 2, store=other)
    assert os.listdir(other) == ["letter.txt"]


def test_a_study_is_private_and_open_for_reading_only_afterwards(
    people: Dataset, spec: TrainSpec, tmp_path: Path
) -> None:
    study = measure(spec, people, 2, 2, store=tmp_path / "study")
    assert stat.S_IMODE((tmp_path / "study").stat().st_mode) == 0o700
    assert (tmp_path / "study" / "README.txt").read_text().startswith("INTERNAL")
    with pytest.raises(InvalidArgument, match="open for writing"):
        study.fail(study.cells()[0], "no")
    assert study.dataset()["weights"].dims == ("init", "seed", "neighbour", "step", "parameter")


def test_damaged_cells_are_trained_again_if_asked_for(
    people: Dataset, spec: TrainSpec, tmp_path: Path, trained: list[int], content
) -> None:
    study = measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "study")
    before = content(tmp_path / "study")
    chunk = tmp_path / "study" / "grid.zarr" / "weights" / "c.1.2.0.0.0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(StudyError, match=r"cell 10 \(init fixed, seeds 4 to 5"):
        study.weights("fixed")
    trained.clear()
    measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "study", repair=True)
    assert trained == [10]
    assert content(tmp_path / "study") == before


def test_progress_counts_cells_and_runs_and_only_those_of_this_call_for_speed(
    people: Dataset, spec: TrainSpec, tmp_path: Path
) -> None:
    told: list[StudyProgress] = []
    with pytest.raises(KeyboardInterrupt):
        measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "study", progress=Stop(4))
    before = int((Study.open(tmp_path / "study").status() == "done").sum())
    measure(spec, people, SEEDS, NEIGHBOURS, store=tmp_path / "study", progress=told.append)
    assert [each.cells_done for each in told] == list(range(before, 17))
    assert {each.cells_total for each in told} == {16}
    assert {each.runs_total for each in told} == {192}
    assert [each.runs_done for each in told] == [12 * each.cells_done for each in told]
    assert [each.runs_now for each in told] == [12 * (each.cells_done - before) for each in told]
    # Before anything was trained here, what it is expected to take.
    assert told[0].seconds_left == told[0].expected > 0
    half = dataclasses.replace(told[-1], runs_done=120, runs_now=60, seconds=2.0)
    assert half.runs_per_second == 30
    assert half.seconds_left == 2.4


def test_arguments_are_checked_before_a_directory_is_made(
    people: Dataset, spec: TrainSpec, tmp_path: Path
) -> None:
    store = tmp_path / "study"
    given = dataclasses.replace(spec, init="given")
    for sentence, arguments, more in (
        ("to be a TrainSpec", ({"steps": 3}, people, 2, 2), {}),
        ("spec.init=given", (given, people, 2, 2), {}),
        ("to be a Dataset", (spec, people.X, 2, 2), {}),
        ("seeds=0", (spec, people, 0, 2), {}),
        ("neighbours=0", (spec, people, 2, 0), {}),
        ("init=other", (spec, people, 2, 2), {"init": "other"}),
        ("checkpoint=31", (spec, people, 2, 2), {"checkpoints": [31]}),
        ("workers=0", (spec, people, 2, 2), {"workers": 0}),
        ("to be a Client", (spec, people, 2, 2), {"client": "tcp://127.0.0.1:8786"}),
        ("batch_size=8 <= 3", (spec, people.take(slice(0, 4)), 2, 2), {}),
    ):
        with pytest.raises(InvalidArgument, match=sentence):
            measure(*arguments, store=store, **more)
    with pytest.raises(InvalidArgument, match="directory"):
        measure(spec, people, 2, 2, store="")
    assert not store.exists()


# Initial weights that are given ------------------------------------------------------------

START = np.array([0.3, -0.2, 0.1, 0.5, -1.0])


@pytest.fixture
def given(spec):
    return dataclasses.replace(spec, init="given")


def test_every_run_starts_there(given, people, tmp_path):
    study = measure(given, people, 3, 2, initial_weights=START, store=tmp_path / "s")
    found = load(study)
    assert found.inits == ("given",)
    expected = train(given, people, range(3), grid.datasets(people, 2), initial_weights=START)
    np.testing.assert_array_equal(found.final("given"), expected[:, :, -1])


def test_another_start_is_another_study(given, people, tmp_path):
    measure(given, people, 2, 1, initial_weights=START, store=tmp_path / "s")
    with pytest.raises(StudyError, match="initial_weights_sha256"):
        measure(given, people, 2, 1, initial_weights=START + 1e-9, store=tmp_path / "s")
    measure(given, people, 2, 1, initial_weights=list(START), store=tmp_path / "s")


def test_what_does_not_go_together_is_refused(given, spec, people, tmp_path):
    store = tmp_path / "s"
    for sentence, asked, arguments in (
        ("spec.init=given not to be given without", given, {}),
        ("initial_weights", spec, {"initial_weights": START}),
        ("init=vary to be None", given, {"initial_weights": START, "init": "vary"}),
        ("initial_weights", given, {"initial_weights": START * np.nan}),
        ("initial_weights", given, {"initial_weights": START[:2]}),
        ("to be None with train", None, {"initial_weights": START, "train": len}),
    ):
        with pytest.raises(InvalidArgument, match=sentence):
            measure(asked, people, 2, 1, store=store, **arguments)
    assert not store.exists()


# Functions of a user -------------------------------------------------------------------------


def noisy_mean(wrong: Callable[[int], Any] = lambda seed: None) -> Callable[..., Any]:
    """A training function; `wrong` may do something else for a seed.

    A closure: functions of this file itself could not be found by another process.
    """

    def train(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
        other = wrong(seed)
        if other is not None:
            return other
        noise = np.random.default_rng(seed).normal(size=X.shape[1])
        weights = np.append(X.mean(axis=0) + noise, y.mean())
        X[:], y[:] = 0, 0  # what a function does with its rows is its own affair
        return weights

    return train


def test_weights_are_those_of_the_function_on_each_dataset(people: Dataset, tmp_path: Path) -> None:
    study = measure(
        {"rate": 2}, people, 3, 11, train=noisy_mean(), store=tmp_path / "study", workers=1
    )
    assert study.layout.inits == ("vary",)
    assert study.layout.dtype == "float64"
    assert len(study.cells()) == 6  # of one seed and half of the datasets
    found = load(study)
    assert found.spec is None
    assert found.function is not None
    assert found.function["settings"] == {"rate": 2}
    assert len(found.function["source_sha256"]) == 64
    assert found.neighbours[0] == -1
    for place, label in enumerate(found.neighbours):
        rows = np.arange(1, people.rows)
        if label >= 0:
            rows[label - 1] = 0
        for seed in range(3):
            wanted = noisy_mean()(people.X[rows], people.y[rows], seed)
            assert np.array_equal(found.final("vary")[seed, place], wanted)


def test_what_goes_wrong_is_recorded_and_the_rest_survives(people: Dataset, tmp_path: Path) -> None:
    def wrong(seed: int) -> Any:
        if seed == 1:
            raise ValueError("no luck")
        if seed == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        if seed == 6:
            sys.exit(3)
        return {0: np.ones(3), 2: np.full(5, np.nan), 3: "text", 5: np.ones((1, 5))}.get(seed)

    study = measure(None, people, 9, 2, train=noisy_mean(wrong), store=tmp_path / "study")
    assert study.layout.parameters == 5  # seed 0 has another length; the first two to agree do not
    reasons = {
        study.layout.seeds[cell.seeds][0]: reason for cell, reason in study.failures().items()
    }
    assert reasons == {
        0: "For seed 0, the dataset itself, the function returned 3 weights, not 5",
        1: "For seed 1, the dataset itself, the function raised ValueError: no luck",
        2: "For seed 2, the dataset itself, the function returned weights that are not finite",
        3: "For seed 3, the dataset itself, the function returned str, not an array of real "
        "numbers",
        4: "For one of its runs, the training ended its process: crashed, killed, or out of memory",
        5: "For seed 5, the dataset itself, the function returned an array of shape (1, 5), not "
        "one row of weights",
        6: "For seed 6, the dataset itself, the function raised SystemExit: 3",
    }
    assert load(study).seeds == (7, 8)


def test_one_dataset_that_goes_wrong_costs_its_cell(people: Dataset, tmp_path: Path) -> None:
    missing = people.X[7].copy()

    def train(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
        gone = not (missing == X).all(axis=1).any()
        if gone and seed == 1:
            raise RuntimeError("where is it?")
        return X.sum(axis=0)

    chosen = neighbouring.replace_by_first(people, [5, 7, 9])
    study = measure(None, people, 3, chosen, train=train, store=tmp_path / "study", workers=1)
    assert list(study.status()) == ["done", "failed", "done"]
    (reason,) = study.failures().values()
    assert reason == "For seed 1, neighbour 7, the function raised RuntimeError: where is it?"
    assert load(study).seeds == (0, 2)


def test_stopped_it_goes_on_with_the_same_bytes_and_without_a_trial(
    people: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    measure(None, people, 5, 3, train=noisy_mean(), store=whole, workers=1)

    def stop(progress: StudyProgress) -> None:
        if progress.cells_done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(None, people, 5, 3, train=noisy_mean(), store=stopped, progress=stop, workers=1)
    assert (Study.open(stopped).status() == "done").sum() == 2
    monkeypatch.setattr(measuring, "_parameters", None)
    measure(None, people, 5, 3, train=noisy_mean(), store=stopped, workers=2)
    assert content(stopped) == content(whole)


def test_a_state_that_processes_copy_is_noticed_by_what_comes_out(
    people: Dataset, tmp_path: Path
) -> None:
    state = np.random.default_rng(0)

    def train(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
        time.sleep(0.05)  # so that both processes have a part of it
        return state.normal(size=2)

    with pytest.raises(StudyError, match="independent runs"):
        measure(None, people, 12, 1, train=train, store=tmp_path / "study", workers=2)

    def constant(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
        return X[0]  # a training without any chance in it can be measured

    measure(None, people, 3, 1, train=constant, store=tmp_path / "constant", workers=1)


def test_another_function_or_other_settings_are_refused(people: Dataset, tmp_path: Path) -> None:
    measure({"depth": 2}, people, 1, 1, train=noisy_mean(), store=tmp_path / "study", workers=1)

    def other(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
        return X[0]

    with pytest.raises(StudyError, match=r"settings\.depth is 2 there and 3 here"):
        measure({"depth": 3}, people, 1, 1, train=noisy_mean(), store=tmp_path / "study")
    with pytest.raises(StudyError, match=r"function\.(name|source_sha256) is"):
        measure({"depth": 2}, people, 1, 1, train=other, store=tmp_path / "study")


def test_a_function_that_never_works_is_refused_before_a_study_is_made(
    people: Dataset, tmp_path: Path
) -> None:
    lock = threading.Lock()
    for function, sentence in (
        (lambda X, y, seed: 1 / 0, "it raised ZeroDivisionError"),
        (lambda X, y, seed: os._exit(1), "it ended its process"),
        (lambda X, y, seed: X, r"it returned an array of shape \(59, 4\)"),
        (lambda X, y, seed: lock, "to be fit for another process"),
        ("fit", "train=str to be a function"),
    ):
        with pytest.raises(InvalidArgument, match=sentence):
            measure(None, people, 2, 2, train=function, store=tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_what_only_our_sgd_can_do_is_refused(people: Dataset, spec, tmp_path: Path) -> None:
    train, silent = noisy_mean(), neighbouring.zero_out(people, [3])
    for arguments, more, sentence in (
        ((spec, people, 2, 2), {}, "spec=TrainSpec to be a mapping"),
        ((None, people, 2, 2), {"checkpoints": 3}, "checkpoints=3 to be None"),
        ((None, people, 2, 2), {"init": "fixed"}, "init=fixed to be"),
        ((None, people, 2, silent), {}, "silent"),
    ):
        with pytest.raises(InvalidArgument, match=sentence):
            measure(*arguments, train=train, store=tmp_path / "study", **more)


def test_rows_of_removed_added_and_given_records() -> None:
    dataset = Dataset(np.arange(8.0).reshape(4, 2), [0, 1, 0, 1])
    removed = neighbouring.remove(dataset, [2])
    assert arrays(removed, 0)[0].tolist() == dataset.X.tolist()
    X, y = arrays(removed, 1)
    assert (X[:, 0].tolist(), y.tolist()) == ([0, 2, 6], [0, 1, 1])
    added = neighbouring.add(dataset, [[9.0, 9.0]], [1])
    assert len(arrays(added, 0)[0]) == 4
    X, y = arrays(added, 1)
    assert (X[:, 0].tolist(), y.tolist()) == ([0, 2, 4, 6, 9], [0, 1, 0, 1, 1])
    given = neighbouring.replace(dataset, [1], [[9.0, 9.0]], [0])
    X, y = arrays(given, 1)
    assert (X[:, 0].tolist(), y.tolist()) == ([0, 9, 4, 6], [0, 0, 0, 1])


@pytest.mark.slow
def test_processes_end_when_the_one_that_started_them_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sys, time
            import numpy as np
            from sordino.data.dataset import Dataset
            from sordino.intrinsic.measure import measure

            def train(X, y, seed):
                open(f"{sys.argv[1]}/pid-{os.getpid()}", "w").close()
                time.sleep(0.05)
                return X[0]

            if __name__ == "__main__":
                data = Dataset(np.eye(40), np.arange(40) % 2)
                measure(None, data, 98, 20, train=train, store=sys.argv[1] + "/study")
            """
        )
    )
    running = subprocess.Popen([sys.executable, str(script), str(tmp_path)])
    while not list((tmp_path / "study" / "cells").glob("*")):
        assert running.poll() is None
        time.sleep(0.1)
    running.kill()
    running.wait()
    started = [int(path.name.partition("-")[2]) for path in tmp_path.glob("pid-*")]
    assert started
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{each}").exists() for each in started):
        assert time.monotonic() < deadline
        time.sleep(0.2)


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def speechless(X, y, seed):
    raise SpeechlessError


@pytest.mark.parametrize(
    ("train", "reason"),
    [
        (speechless, "raised SpeechlessError: no words"),
        (lambda X, y, seed: np.array([1j]), "not an array of real numbers"),
        (lambda X, y, seed: np.array(["1"]), "not an array of real numbers"),
    ],
)
def test_odd_answers_are_reasons_to_fail(train, reason):
    neighbours = neighbouring.only(Dataset(np.eye(3), np.array([0, 1, 0])))
    assert reason in str(attempt(train, neighbours, 0, 0))


def test_a_function_may_start_processes_of_its_own(tmp_path):
    def train(X, y, seed):
        import multiprocessing

        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return np.full(2, float(pool.apply(abs, (-seed,))))

    data = Dataset(np.eye(3), np.array([0, 1, 0]))
    study = measure(None, data, 1, 1, store=tmp_path / "s", train=train, workers=1)
    assert set(study.status()) == {"done"}


# On a cluster --------------------------------------------------------------------------------


def test_a_cluster_gives_the_same_bytes_and_goes_on_where_it_was(
    people: Dataset, spec: TrainSpec, tmp_path: Path, dask_threads: Any, content
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    measure(spec, people, 16, 5, store=here)

    def stop(progress: StudyProgress) -> None:
        if progress.cells_done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(spec, people, 16, 5, store=there, client=dask_threads, progress=stop)
    assert (Study.open(there).status() == "done").sum() == 3
    told: list[StudyProgress] = []
    measure(spec, people, 16, 5, store=there, client=dask_threads, progress=told.append)
    assert [each.cells_done for each in told] == list(range(3, 17))
    assert content(there) == content(here)


def test_a_function_can_be_measured_by_a_cluster_too(
    people: Dataset, tmp_path: Path, dask_threads: Any, content
) -> None:
    def train(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
        if seed == 2:
            raise ValueError("no luck")
        return X.mean(axis=0) * seed

    measure(None, people, 4, 2, train=train, store=tmp_path / "here", workers=1)
    study = measure(None, people, 4, 2, train=train, store=tmp_path / "there", client=dask_threads)
    assert list(study.status()) == ["done", "done", "failed", "done"]
    assert content(tmp_path / "there") == content(tmp_path / "here")


def test_what_goes_wrong_in_a_worker_is_said_and_finished_cells_are_kept(
    people: Dataset,
    spec: TrainSpec,
    tmp_path: Path,
    dask_threads: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = measuring._Engine.__call__

    def cell(self: Any, cell: Any) -> Any:
        if cell.number == 5:
            raise OSError("no such library")
        return real(self, cell)

    monkeypatch.setattr(measuring._Engine, "__call__", cell)
    with pytest.raises(tasks.WorkersFailed, match="OSError: no such library"):
        measure(spec, people, 16, 5, store=tmp_path / "study", client=dask_threads)
    assert Study.open(tmp_path / "study").status()[5] == "missing"


@pytest.mark.slow
@pytest.mark.parametrize("victims", [1, 2])
def test_a_killed_worker_costs_only_its_cells(
    people: Dataset, tmp_path: Path, spec: TrainSpec, victims: int, dask_processes: Any, content
) -> None:
    # Cells of about a tenth of a second, so that both workers are at it when it happens.
    longer = TrainSpec(spec.objective, 0.5, 8, steps=4_000)
    measure(longer, people, 32, 20, store=tmp_path / "here")
    dask_processes.wait_for_workers(2, timeout=30)
    workers = list(dask_processes.run(os.getpid).values())
    assert len(workers) == 2
    assert os.getpid() not in workers

    def kill(progress: StudyProgress) -> None:
        if progress.cells_done == 3:
            for worker in workers[:victims]:
                os.kill(worker, signal.SIGKILL)

    there = tmp_path / "there"
    measure(longer, people, 32, 20, store=there, client=dask_processes, progress=kill)
    assert set(workers[:victims]).isdisjoint(dask_processes.run(os.getpid).values())
    assert content(there) == content(tmp_path / "here")
