"""Users' functions: worlds in turn, the same data for every run, and no process repeats another."""

from __future__ import annotations

import functools
import os
import random
import time

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator

from sordino.audit import audit
from sordino.audit.runners import functions
from sordino.audit.runners.functions import check_repeats
from sordino.audit.runners.outputs import outputs
from sordino.errors import InvalidArgument

ZERO, ONE = np.zeros(3), np.array([0.0, 0.0, 1.0])
ROWS = np.eye(4), np.arange(4) % 2


@pytest.fixture
def pooled(monkeypatch):
    """Whatever it costs, use processes."""
    monkeypatch.setattr(functions, "_QUICK_SECONDS", -1.0)
    monkeypatch.setattr(functions, "_BLOCK_SECONDS", 1e-3)


class TestTurns:
    """A mechanism that drifts must not look as if it told D from D'."""

    @pytest.mark.parametrize("runs", [40, 3000])
    def test_worlds_are_run_in_turn(self, runs):
        calls = []

        def drifting(data, generator):
            calls.append(None)
            return len(calls)

        first, second = outputs(drifting, ZERO, ONE, runs, workers=1)
        assert sorted(np.concatenate([first, second]).ravel()) == list(range(1, 2 * runs + 1))
        # One world after the other would be `runs` apart; here no run is more than a turn apart.
        assert abs(first.mean() - second.mean()) <= 1
        assert 0.2 < (first < second).mean() < 0.8  # neither world is always the later one

    def test_batches_take_turns_too(self):
        calls = []

        def drifting(data, generator, runs):
            calls.append(bool(data.any()))
            return np.zeros(runs)

        drifting.batched = True
        outputs(drifting, ZERO, ONE, 20_000, workers=2)
        pairs = np.reshape(calls, (20, 2))
        assert (pairs[:, 0] != pairs[:, 1]).all()
        assert 0 < pairs[:, 0].mean() < 1


HERE = os.getpid()


def closed_over(drawn):
    def draw(data, generator):
        if os.getpid() != HERE:
            time.sleep(0.05)  # so that no process makes all runs
        return drawn()

    return draw


def congruential():
    state = [1]

    def draw(data, generator):
        state[0] = state[0] * 48271 % (2**31 - 1)
        return [state[0], data.sum()]

    return draw


def estimator_with_one():
    rng = np.random.default_rng(0)

    class Sloppy(BaseEstimator):
        def fit(self, X, y):
            if os.getpid() != HERE:
                time.sleep(0.05)
            self.coef_ = rng.normal(size=2)
            return self

    return Sloppy()


STATES = [
    lambda: closed_over(np.random.default_rng(0).normal),
    lambda: closed_over(random.Random(0).random),
    lambda: functools.partial(lambda r, data, g: r.normal(), np.random.RandomState(0)),
    congruential,
    estimator_with_one,
]


class TestAStateOfItsOwn:
    """Copies of a generator repeat each other; in one process it goes on drawing."""

    @pytest.mark.parametrize("make", [STATES[0], estimator_with_one])
    def test_copies_in_several_processes_stop_the_audit(self, make, pooled):
        pair = (ROWS, ROWS) if make is estimator_with_one else (ZERO, ONE)
        with pytest.raises(InvalidArgument) as caught:
            outputs(make(), *pair, 60, workers=2)
        assert caught.value.argument == "mechanism"

    @pytest.mark.parametrize("make", STATES)
    def test_in_one_process_it_goes_on_drawing(self, make):
        pair = (ROWS, ROWS) if make is estimator_with_one else (ZERO, ONE)
        found = np.stack(outputs(make(), *pair, 50, workers=1))
        assert len(np.unique(found[..., 0])) == 100

    def test_one_that_each_batch_begins_anew_stops_the_audit(self):
        def batched(data, generator, runs):
            return data.sum() + np.random.default_rng(0).normal(size=runs)

        batched.batched = True
        with pytest.raises(InvalidArgument):
            outputs(batched, ZERO, ONE, 3000)

    @pytest.mark.parametrize("deep", [True, False])
    def test_one_that_each_run_copies_is_caught_as_constant(self, deep):
        """In the data, or made from a fixed seed: all outputs of a world are the same."""
        worlds = [{"X": each, "deep": [np.random.default_rng(0)]} for each in (ZERO, ONE)]

        def copied(data, generator):
            own = data["deep"][0] if deep else np.random.default_rng(0)
            return data["X"].sum() + own.normal()

        found = audit(copied, *worlds, 400, claim=1.0, delta=1e-5, workers=1)
        assert found.violated

    @pytest.mark.parametrize("values", [1, 2, 256])
    def test_few_outcomes_are_no_repetition(self, values):
        rng = np.random.default_rng(1)
        worlds = rng.integers(values, size=(2, 4000, 1)).astype(float)
        check_repeats(worlds, [range(at, at + 20) for at in range(0, 4000, 20)])

    @pytest.mark.parametrize("size", [4, 20, 1000])
    def test_a_block_of_real_numbers_that_is_another_once_more(self, size):
        worlds = np.random.default_rng(1).normal(size=(2, 4000, 1))
        blocks = [range(at, at + size) for at in range(0, 4000, size)]
        check_repeats(worlds, blocks)
        worlds[:, 3000 : 3000 + size] = worlds[:, 1000 : 1000 + size]
        with pytest.raises(InvalidArgument):
            check_repeats(worlds, blocks)


def many_at_once(data, generator, runs):
    return data.sum() + generator.normal(size=(runs, 2))


many_at_once.batched = True


class TestProcesses:
    def test_no_run_is_repeated_in_another_process(self, pooled):
        shift, here = 2.0, os.getpid()  # closed over: sent by value

        def careless(data, generator):

            drawn = np.random.normal(), random.random()  # noqa: NPY002 - as much code does
            given = data.sum() + shift + generator.normal()
            return [os.getpid() != here, given, *drawn, float(torch.rand(1, dtype=torch.double))]

        alone, together = (np.stack(outputs(careless, ZERO, ONE, 60, workers=n)) for n in (1, 2))
        assert not alone[..., 0].any()
        assert together[..., 0].mean() > 0.5
        np.testing.assert_array_equal(together[..., 1], alone[..., 1])  # whatever process it is
        for column in together.reshape(-1, 5)[:, 2:].T:
            assert len(np.unique(column)) == 120

    def test_a_process_that_dies_is_a_sentence(self, pooled):
        here = os.getpid()

        def deadly(data, generator):
            if os.getpid() != here:
                os._exit(3)
            return 1.0

        with pytest.raises(InvalidArgument, match="ended its process"):
            outputs(deadly, ZERO, ONE, 20, workers=2)

    def test_many_runs_at_once_stay_in_this_process(self, pooled, monkeypatch):
        monkeypatch.setattr(functions, "tasks", None)
        assert np.stack(outputs(many_at_once, ZERO, ONE, 5000, workers=2)).size == 20_000


def change_list(data):
    data.append(len(data))
    return len(data)


def change_frame(data):
    data.iloc[0, 0] += 1
    return data.iloc[0, 0]


def change_inside(data):
    data["rows"].append(1)
    data["new"] = 0
    return [len(data["rows"]), len(data), *data["fixed"]]


def change_cells(data):
    data[0].append(1)
    return len(data[0])


class TestDataIsTheSameForEveryRun:
    @pytest.mark.parametrize(
        ("change", "make"),
        [
            (change_list, lambda: [1, 2]),
            (change_frame, lambda: pd.DataFrame({"a": [1, 2]})),
            (change_inside, lambda: {"rows": [], "fixed": ONE}),
            (change_cells, lambda: np.array([[], 1], dtype=object)),
        ],
    )
    def test_whatever_a_run_does_to_it(self, change, make):
        data, untouched = make(), make()
        found = outputs(lambda data, g: change(data), data, data, 30, workers=1)
        assert len(np.unique(np.stack(found).reshape(60, -1), axis=0)) == 1
        assert repr(data) == repr(untouched)

    def test_arrays_are_not_copied(self):
        def same(data, generator):
            return float(np.shares_memory(data["X"], ONE))

        assert np.stack(outputs(same, {"X": ONE}, {"X": ONE}, 20, workers=1)).all()

    def test_frames_of_an_estimator(self):
        class Greedy(BaseEstimator):
            def fit(self, X, y):
                self.coef_ = np.array([X.iloc[0, 0]])
                X.iloc[0, 0] += 1
                return self

        frame = pd.DataFrame({"a": [1.0, 2.0]})
        found = outputs(Greedy(), (frame, frame["a"]), (frame, frame["a"]), 20, workers=1)
        assert (np.stack(found) == 1).all()
