"""Any training function, measured as our SGD is; what goes wrong costs its cell alone."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.intrinsic import foreign
from sordino.intrinsic.measure import StudyProgress, measure
from sordino.intrinsic.measured import load
from sordino.study import Study, StudyError


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
    study = measure({"rate": 2}, people, 3, 11, train=noisy_mean(), store=tmp_path / "study")
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
        4: "For one of its runs, the function ended its process: crashed, killed, or out of memory",
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
    study = measure(None, people, 3, chosen, train=train, store=tmp_path / "study")
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
        measure(None, people, 5, 3, train=noisy_mean(), store=stopped, progress=stop)
    assert (Study.open(stopped).status() == "done").sum() == 2
    monkeypatch.setattr(foreign, "parameters", None)
    measure(None, people, 5, 3, train=noisy_mean(), store=stopped, workers=2)
    assert content(stopped) == content(whole)


def test_another_function_or_other_settings_are_refused(people: Dataset, tmp_path: Path) -> None:
    measure({"depth": 2}, people, 1, 1, train=noisy_mean(), store=tmp_path / "study")

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
    for train, sentence in (
        (lambda X, y, seed: 1 / 0, "it raised ZeroDivisionError"),
        (lambda X, y, seed: os._exit(1), "it ended its process"),
        (lambda X, y, seed: X, r"it returned an array of shape \(59, 4\)"),
        (lambda X, y, seed: lock, "to carry plain values only, not lock"),
        ("fit", "train=str to be a function"),
    ):
        with pytest.raises(InvalidArgument, match=sentence):
            measure(None, people, 2, 2, train=train, store=tmp_path / "study")
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
    assert foreign.arrays(removed, 0)[0].tolist() == dataset.X.tolist()
    X, y = foreign.arrays(removed, 1)
    assert (X[:, 0].tolist(), y.tolist()) == ([0, 2, 6], [0, 1, 1])
    added = neighbouring.add(dataset, [[9.0, 9.0]], [1])
    assert len(foreign.arrays(added, 0)[0]) == 4
    X, y = foreign.arrays(added, 1)
    assert (X[:, 0].tolist(), y.tolist()) == ([0, 2, 4, 6, 9], [0, 1, 0, 1, 1])
    given = neighbouring.replace(dataset, [1], [[9.0, 9.0]], [0])
    X, y = foreign.arrays(given, 1)
    assert (X[:, 0].tolist(), y.tolist()) == ([0, 9, 4, 6], [0, 0, 0, 1])


def test_a_function_is_known_by_its_name_and_source() -> None:
    class Model:
        def __call__(self, X: Any, y: Any, seed: int) -> Any:
            return X[0]

    def named(X: Any, y: Any, seed: int, power: int) -> Any:
        return X[0] ** power

    plain = foreign.described(named, None)["function"]
    assert plain["name"].endswith("named")
    assert plain["carries_sha256"] is None
    twice = foreign.described(functools.partial(named, power=2), {})["function"]
    assert {**twice, "carries_sha256": None} == plain
    assert foreign.described(Model(), None)["function"]["name"].endswith("Model")
    typed = eval("lambda X, y, seed: X[0]")
    assert foreign.described(typed, None)["function"]["source_sha256"] is None


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


class Scaled:
    """A training that is an object with a setting of its own."""

    def __init__(self, scale: object) -> None:
        self.scale = scale

    def __call__(self, X, y, seed):
        return np.full(3, float(seed))


def closed_over(scale):
    def train(X, y, seed):
        return np.full(3, scale * seed)

    return train


def defaulted(scale):
    def train(X, y, seed, by=scale):
        return np.full(3, by * seed)

    return train


@pytest.mark.parametrize(
    "make",
    [
        lambda scale: functools.partial(closed_over(1.0), scale=scale),
        lambda scale: functools.partial(closed_over(1.0), np.array([scale])),
        Scaled,
        closed_over,
        defaulted,
    ],
)
def test_what_a_function_carries_is_part_of_it(make):
    one, same, other = (foreign.described(make(scale), None) for scale in (1.0, 1.0, 100.0))
    assert one == same
    assert one != other
    assert one["function"]["source_sha256"] == other["function"]["source_sha256"]


RATE, DRAWS, LOCK = 1.0, np.random.default_rng(0), threading.Lock()


def names_a_rate(X, y, seed):
    return np.full(3, RATE * seed)


def calls_one_that_does(X, y, seed):
    return next(names_a_rate(X, y, each) for each in [seed])


class NamesARate:
    def __call__(self, X, y, seed):
        return names_a_rate(X, y, seed)


def draws(X, y, seed):
    return DRAWS.normal(size=3)


def bound_draws(X, y, seed, draw=DRAWS.normal):
    return draw(size=3)


def locks(X, y, seed):
    with LOCK:
        return np.full(3, seed)


@pytest.mark.parametrize("train", [names_a_rate, calls_one_that_does, NamesARate()])
def test_so_are_the_globals_that_it_names(train, monkeypatch):
    before, same = foreign.described(train, None), foreign.described(train, None)
    monkeypatch.setitem(names_a_rate.__globals__, "RATE", 100.0)
    assert before == same
    assert before != foreign.described(train, None)


def test_a_global_generator_must_be_named_but_not_everything():
    for train in (draws, bound_draws):
        with pytest.raises(InvalidArgument, match="not Generator"):
            foreign.described(train, None)
        assert foreign.described(train, {"seeded": False})
    assert foreign.described(locks, None) == foreign.described(locks, None)


def test_without_a_source_the_code_counts():
    typed = (eval(f"lambda X, y, seed: X[{row}] + (lambda: 1)()") for row in (0, 0, 1))
    one, same, other = (foreign.described(train, None)["function"] for train in typed)
    assert one["source_sha256"] is None
    assert one == same != other


def test_what_cannot_be_sent_away_is_refused(people, tmp_path):
    lock = threading.Lock()
    with pytest.raises(InvalidArgument, match="to be fit for another process"):
        measure({"lock": "mine"}, people, 1, 1, train=lambda X, y, s: lock, store=tmp_path / "s")


def test_what_cannot_be_written_down_must_be_named():
    with pytest.raises(InvalidArgument, match="not object"):
        foreign.described(Scaled(object()), None)
    named = foreign.described(Scaled(object()), {"scale": "large"})
    assert named["function"]["settings"] == {"scale": "large"}


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
    assert reason in str(foreign.attempt(train, neighbours, 0, 0))


def starts_processes(X, y, seed):
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return np.full(2, float(pool.apply(abs, (-seed,))))


def test_a_function_may_start_processes_of_its_own(tmp_path):
    data = Dataset(np.eye(3), np.array([0, 1, 0]))
    study = measure(None, data, 2, 1, store=tmp_path / "s", train=starts_processes)
    assert set(study.status()) == {"done"}
