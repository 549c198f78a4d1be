"""Who runs when and where: worlds in turn, and no process that repeats another."""

from __future__ import annotations

import functools
import os
import random

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator

from sordino.audit.runners import functions
from sordino.audit.runners.functions import Block, Called, Rehearsal, Stretch
from sordino.audit.runners.outputs import outputs
from sordino.errors import InvalidArgument

ZERO, ONE = np.zeros(3), np.array([0.0, 0.0, 1.0])
ROWS = np.eye(4), np.arange(4) % 2


@pytest.fixture
def pooled(monkeypatch):
    """Whatever it costs, use processes."""
    monkeypatch.setattr(turns, "_QUICK_SECONDS", -1.0)
    monkeypatch.setattr(turns, "_KNOWN_SECONDS", -1.0)
    monkeypatch.setattr(turns, "_BLOCK_SECONDS", 1e-3)


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
        # One world after the other would be `runs` apart. Blocks hold a 200th of a world's runs,
        # so those of a pair are at most that far apart, whoever comes first.
        assert abs(first.mean() - second.mean()) <= max(1, runs / 200)
        ahead = (first < second).mean()
        assert 0.2 < ahead < 0.8  # neither world is always the later one

    def test_batches_and_what_goes_to_a_pool_take_turns_too(self):
        both = [Stretch(0, 0, 5000), Stretch(1, 0, 5000)]
        for batch, most in ((None, 25), (1000, 1)):
            found = functions._Left(both, batch, np.random.default_rng(0)).cut(most)
            assert sum(map(len, found)) == 10_000
            for one, other in zip(found[::2], found[1::2], strict=True):
                assert {one.world, other.world} == {0, 1}
                assert (one.start, one.stop) == (other.start, other.stop)
            assert len({task.world for task in found[::2]}) == 2

    def test_what_is_left_of_one_world_is_made(self):
        left = functions._Left(
            [Stretch(0, 3, 5), Stretch(0, 8, 9), Stretch(1, 4, 5)], None, np.random.default_rng(0)
        )
        assert sorted((t.world, t.start) for t in left.cut(1)) == [(0, 3), (0, 4), (0, 8), (1, 4)]


def closed_over(drawn):
    return lambda data, generator: drawn()


def attribute_of_a_class():
    class Holder:
        rng = np.random.default_rng(0)

        def __call__(self, data, generator):
            return self.rng.normal()

    return Holder()


def estimator_with_one():
    rng = np.random.default_rng(0)

    class Sloppy(BaseEstimator):
        def fit(self, X, y):
            self.coef_ = rng.normal(size=2)
            return self

    return Sloppy()


def torchs():
    own = torch.Generator()
    return lambda data, generator: float(torch.rand(1, generator=own, dtype=torch.double))


class TestAStateOfItsOwn:
    """Copies of a generator repeat each other; in one process it goes on drawing."""

    @pytest.mark.parametrize(
        "make",
        [
            lambda: closed_over(np.random.default_rng(0).normal),
            lambda: closed_over(np.random.RandomState(0).normal),
            lambda: closed_over(random.Random(0).random),
            lambda: closed_over(np.random.normal),  # would be a copy of the global one
            lambda: functools.partial(lambda r, data, g: r.normal(), np.random.default_rng(0)),
            attribute_of_a_class,
            estimator_with_one,
            torchs,
        ],
    )
    def test_a_generator_stays_in_this_process(self, make, pooled, monkeypatch):
        monkeypatch.setattr(turns, "run_all", None)
        found = np.stack(outputs(make(), ROWS, ROWS, 50, workers=2))
        assert len(np.unique(found)) == found.size

    def test_another_state_is_noticed_by_rehearsal(self, pooled, monkeypatch):
        started = []
        run_all = functions.run_all
        monkeypatch.setattr(turns, "run_all", lambda *a, **k: started.append(1) or run_all(*a, **k))
        state = [1]

        def congruential(data, generator):
            state[0] = state[0] * 48271 % (2**31 - 1)
            return [state[0], generator.normal(), np.random.normal()]  # noqa: NPY002

        found = np.stack(outputs(congruential, ZERO, ONE, 50, workers=2))
        assert started == [1]
        assert len(np.unique(found)) == found.size

    @staticmethod
    def rehearsed(*passes):
        return [Block(np.array(each, dtype=float), (2,)) for each in passes]

    @pytest.mark.parametrize(
        ("one", "other", "repeated"),
        [
            # draws from what is given: repeats itself
            (([[1, 2]], [[1, 2]]), ([[1, 2]], [[1, 2]]), False),
            # a fixed seed, with runs that are all the same
            (([[1, 2], [1, 2]], [[1, 2], [1, 2]]), ([[1, 2], [1, 2]], [[1, 2], [1, 2]]), False),
            # asks the system
            (([[1, 2]], [[3, 4]]), ([[5, 6]], [[7, 8]]), False),
            # a state
            (([[1, 2]], [[3, 4]]), ([[1, 2]], [[3, 4]]), True),
            # a state in one value, the system in the other
            (([[1, 2]], [[3, 4]]), ([[1, 5]], [[3, 6]]), True),
            # few outcomes: some coincide
            (([[0, 1], [1, 1]], [[1, 1], [0, 0]]), ([[0, 1], [0, 0]], [[1, 1], [0, 1]]), False),
            # other shapes: no rehearsal's business
            (([[1]], [[2]]), ([[1, 1]], [[2, 2]]), False),
        ],
    )
    def test_what_a_rehearsal_shows(self, one, other, repeated):
        pair = [self.rehearsed(*one), self.rehearsed(*other)]
        assert functions._repeated(pair) is repeated
        assert functions._repeated(pair[:1]) is False

    def test_only_with_the_same_randomness_given(self):
        """Else mechanisms that draw from global generators would seem to have a state."""

        def careless(data, generator):
            drawn = np.random.normal()  # noqa: NPY002
            return [drawn, random.random(), float(torch.rand(1)), generator.normal()]

        first, again = Called(careless, (ZERO, ONE), 0, None)(Rehearsal(Stretch(1, 4, 9)))
        assert first.values.shape == (5, 4)
        np.testing.assert_array_equal(first.values, again.values)


def many_at_once(data, generator, runs):
    return data.sum() + generator.normal(size=(runs, 2))


many_at_once.batched = True


class TestProcesses:
    def test_no_run_is_repeated_in_another_process(self, pooled):
        shift, here = 2.0, os.getpid()  # closed over: sent by value

        def careless(data, generator):
            import torch

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
        monkeypatch.setattr(turns, "run_all", None)
        assert np.stack(outputs(many_at_once, ZERO, ONE, 5000, workers=2)).size == 20_000
