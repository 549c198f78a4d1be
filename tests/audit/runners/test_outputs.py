"""Outputs of both worlds: the engine's, a function's, an estimator's; independent runs of each."""

from __future__ import annotations

import functools
import random
import warnings
from typing import ClassVar

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sordino import Ledger, PrivateLogisticRegression
from sordino.audit.runners.outputs import outputs
from sordino.audit.runners.trained import TrainedRelease
from sordino.data import neighbours as nb
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.models.constants import ObjectiveSpec
from sordino.randomness import SeededStreams
from sordino.sgd import TrainSpec, train

RNG = np.random.default_rng(3)
X = RNG.standard_normal((30, 3))
X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.001
Y = RNG.integers(0, 2, 30)
D = Dataset(X, Y, norm_bound=1.0)


def replaced(slot=4):
    rows = X.copy()
    rows[slot] *= -1
    return Dataset(rows, Y, norm_bound=1.0)


def spec(**values):
    base = {"learning_rate": 0.5, "batch_size": 6, "steps": 12, "dtype": "float64"}
    return TrainSpec(ObjectiveSpec("logistic", l2=0.01), **(base | values))


def trained(given, data, runs, seed=0):
    streams = SeededStreams(f"audit {seed}")
    return train(given, data, range(runs), streams=streams)[:, 0, -1]


class TestTrainedRelease:
    def test_both_worlds_are_what_the_engine_trains(self):
        found = outputs(spec(), D, replaced(), 40, seed=7)
        for world, data in zip(found, (D, replaced()), strict=True):
            assert world.shape == (40, 4)
            # One seed has the same order and start on both datasets; products may round apart.
            np.testing.assert_allclose(world, trained(spec(), data, 40, seed=7), atol=1e-13)

    def test_datasets_that_do_not_line_up_are_trained_one_by_one(self):
        order = RNG.permutation(30)
        other = Dataset(replaced().X[order], Y[order], norm_bound=1.0)
        first, second = outputs(spec(), D, other, 10)
        np.testing.assert_allclose(first, trained(spec(), D, 10), atol=1e-13)
        np.testing.assert_allclose(second, trained(spec(), other, 10), atol=1e-13)

    def test_datasets_of_different_sizes(self):
        poisson = spec(order="poisson", sample_rate=0.2)
        smaller = D.take(np.arange(29))
        _, second = outputs(poisson, D, smaller, 10)
        np.testing.assert_allclose(second, trained(poisson, smaller, 10), atol=1e-13)

    def test_a_silent_record_is_an_overlay(self):
        silent = nb.zero_out(D, [4], with_base=False)
        first, second = outputs(spec(), D, silent, 10)
        streams = SeededStreams("audit 0")
        wanted = train(spec(), D, range(10), nb.zero_out(D, [4]), streams=streams)[:, :, -1]
        np.testing.assert_array_equal(np.stack([first, second], axis=1), wanted)
        with pytest.raises(InvalidArgument, match="2 neighbours"):
            outputs(spec(), D, nb.zero_out(D, [4, 5], with_base=False), 10)

    def test_the_noise_of_the_release(self):
        exact = outputs(spec(), D, replaced(), 600)
        noisy = outputs(TrainedRelease(spec(), scale=0.3), D, replaced(), 600)
        noise = [b - a for a, b in zip(exact, noisy, strict=True)]
        for world in noise:
            assert len(np.unique(world)) == world.size
            # 2,400 normal numbers: both within six standard errors.
            assert abs(world.mean()) < 6 * 0.3 / np.sqrt(2400)
            assert abs(world.std() - 0.3) < 6 * 0.3 / np.sqrt(4800)
        # Drawn anew for each world.
        assert abs(np.corrcoef(noise[0].ravel(), noise[1].ravel())[0, 1]) < 6 / np.sqrt(2400)

    def test_a_run_does_not_depend_on_how_many_there_are(self):
        release = TrainedRelease(spec(), scale=0.1)
        few, many = (outputs(release, D, replaced(), runs) for runs in (300, 700))
        for a, b in zip(few, many, strict=True):
            np.testing.assert_allclose(a, b[:300], atol=1e-13)

    def test_training_without_randomness_is_done_once(self):
        start = np.array([0.1, 0.2, 0.3, 0.4])
        given = spec(order="fixed", init="given")
        exact = [
            train(given, data, [0], initial_weights=start)[0, 0, 0] for data in (D, replaced())
        ]
        plain = outputs(TrainedRelease(given, 0.0, start), D, replaced(), 500)
        noisy = outputs(TrainedRelease(given, 0.5, start), D, replaced(), 500)
        for weights, same, world in zip(exact, plain, noisy, strict=True):
            np.testing.assert_allclose(same, np.tile(weights, (500, 1)), atol=1e-13)
            assert len(np.unique(world)) == world.size
            assert np.abs(world.mean(axis=0) - weights).max() < 6 * 0.5 / np.sqrt(500)

    def test_a_fixed_start_is_that_of_the_spec(self):
        given = spec(init="fixed", init_seed=4)
        start = train(given, D, [0], checkpoints=[0])[0, 0, 0]
        release = TrainedRelease(given, checkpoints=[0, 12])
        for seed in (0, 1):
            first, _ = outputs(release, D, replaced(), 5, seed=seed)
            np.testing.assert_array_equal(first[:, :4], np.tile(start, (5, 1)))
            assert len(np.unique(first[:, 4])) == 5

    def test_all_iterates(self):
        release = TrainedRelease(spec(), checkpoints=[6, 12])
        first, _ = outputs(release, D, replaced(), 5)
        streams = SeededStreams("audit 0")
        wanted = train(spec(), D, range(5), checkpoints=[6, 12], streams=streams)[:, 0]
        np.testing.assert_allclose(first, wanted.reshape(5, -1), atol=1e-13)

    def test_divergence_is_a_sentence(self):
        squares = TrainSpec(ObjectiveSpec("least-squares"), 1e9, 6, steps=300)
        with pytest.raises(InvalidArgument, match=r"diverges.*Lower the learning rate"):
            outputs(squares, D, replaced(), 4)

    def test_progress_counts_the_runs_of_both_worlds(self):
        told = []
        outputs(spec(), D, replaced(), 50, progress=lambda *at: told.append(at))
        assert told[-1] == (100, 100)
        assert told == sorted(told)

    def test_an_output_of_ones_own_is_for_others(self):
        with pytest.raises(InvalidArgument, match="output"):
            outputs(spec(), D, replaced(), 5, output=np.ravel)


def add_noise(data, generator):
    return np.append(data.sum() + generator.normal(), generator.normal(size=2))


def many_at_once(data, generator, runs):
    return data.sum() + generator.normal(size=(runs, 2))


many_at_once.batched = True

ZERO, ONE = np.zeros(3), np.array([0.0, 0.0, 1.0])


class TestCallables:
    def test_every_run_has_a_generator_of_its_own(self):
        first, second = outputs(add_noise, ZERO, ONE, 400, seed=5)
        assert len(np.unique(np.stack([first, second]))) == 2 * 400 * 3
        again = outputs(add_noise, ZERO, ONE, 300, seed=5)
        np.testing.assert_array_equal(first[:300], again[0])
        np.testing.assert_array_equal(second[:300], again[1])
        other = outputs(add_noise, ZERO, ONE, 300, seed=6)
        assert not np.isin(other, first).any()

    def test_many_runs_at_once(self):
        told = []
        found = outputs(many_at_once, ZERO, ONE, 2500, progress=lambda *at: told.append(at))
        assert np.stack(found).shape == (2, 2500, 2)
        assert len(np.unique(found)) == 10_000
        assert abs(found[1].mean() - 1) < 6 / np.sqrt(5000)
        assert (1000, 5000) in told
        kept = functools.partial(many_at_once)
        np.testing.assert_array_equal(np.stack(outputs(kept, ZERO, ONE, 2500)), np.stack(found))

    def test_an_output_is_taken_from_what_it_returns(self):
        found = outputs(lambda data, g: {"w": data.sum()}, ZERO, ONE, 20, output=lambda d: d["w"])
        np.testing.assert_array_equal(found[1], np.ones((20, 1)))

    @pytest.mark.parametrize(
        ("mechanism", "words"),
        [
            (lambda data, g: np.zeros(1 + int(data.sum())), "one shape"),
            (lambda data, g: np.zeros(g.integers(1, 3)), r"shapes \(\d,\) and \(\d,\)"),
            (lambda data, g: [1.0, np.nan], "NaN or infinity"),
            (lambda data, g: [np.inf], "NaN or infinity"),
            (lambda data, g: "weights", "returned str"),
            (lambda data, g: [], "returned list"),
            (lambda data, g: 1j, "returned complex"),
            (lambda data, g: 1 / 0, "ZeroDivisionError: division by zero"),
            (lambda data, g: data.__setitem__(0, 1.0), "read-only"),
            (lambda data: 1.0, "TypeError"),
        ],
    )
    def test_what_goes_wrong_is_a_sentence(self, mechanism, words):
        with pytest.raises(InvalidArgument, match=words) as caught:
            outputs(mechanism, ZERO, ONE, 40)
        assert "\n" not in str(caught.value)

    def test_a_batch_of_the_wrong_length(self):
        def short(data, generator, runs):
            return np.zeros((runs - 1, 2))

        short.batched = True
        with pytest.raises(InvalidArgument, match="for 40 runs"):
            outputs(short, ZERO, ONE, 40)

    @pytest.mark.parametrize("mechanism", [3, "rsgd-ar", None])
    def test_something_else(self, mechanism):
        with pytest.raises(InvalidArgument, match="or a function"):
            outputs(mechanism, ZERO, ONE, 20)


class TestMemory:
    def test_outputs_that_do_not_fit_are_a_sentence(self):
        told = r"runs=1000000 to fit into memory: about 32 TB would be needed, and .* are free"
        with pytest.raises(InvalidArgument, match=told):
            outputs(lambda data, g: np.zeros(10**6), ZERO, ONE, 10**6)
        with pytest.raises(InvalidArgument, match="to fit into memory"):
            outputs(add_noise, ZERO, ONE, 10**15)


class TestGlobalGenerators:
    """Many mechanisms draw from numpy's or Python's."""

    def test_the_users_own_are_left_as_they_were(self):
        wanted = self.begin(), random.random()
        assert self.begin() == wanted[0]
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002
        found = outputs(lambda data, g: np.random.normal(), ZERO, ONE, 20, workers=1)  # noqa: NPY002
        assert (np.random.normal(), random.random()) == wanted  # noqa: NPY002
        assert wanted[0] not in np.stack(found)

    @staticmethod
    def begin():
        np.random.seed(1)  # noqa: NPY002
        random.seed(1)
        return np.random.normal()  # noqa: NPY002


def draw_anywhere():
    return RNG.normal()  # a function is not copied with its globals


class Noisy(BaseEstimator):
    fixed: ClassVar[list[float]] = [1.0]

    def __init__(self, noise=None):
        self.noise = noise

    def fit(self, X, y):
        self.coef_ = np.array(self.fixed)
        return self


class TestEstimators:
    @pytest.mark.parametrize(
        "estimator",
        [
            SGDClassifier(random_state=0),
            SGDClassifier(random_state=np.random.RandomState(0)),
            make_pipeline(StandardScaler(), SGDClassifier(random_state=1)),
            PrivateLogisticRegression(random_state=3),
        ],
    )
    def test_a_fixed_seed_is_refused(self, estimator):
        with pytest.raises(InvalidArgument, match=r"random_state.*to be None.*about that seed"):
            outputs(estimator, D, replaced(), 20)

    @pytest.mark.parametrize("name", ["rng", "generator", "random_seed", "seed"])
    def test_so_is_a_seed_by_another_name(self, name):
        class Seeded(SGDClassifier):
            def get_params(self, deep=True):
                return {name: 0}

        with pytest.raises(InvalidArgument, match=rf"{name}=0 to be None.*about that seed"):
            outputs(Seeded(), D, replaced(), 20)

    @pytest.mark.parametrize(
        "noise",
        [
            np.random.default_rng(0),
            np.random.PCG64(0),
            np.random.RandomState(0),
            np.random.SeedSequence(0),
            random.Random(0),
            torch.Generator(),
        ],
        ids=lambda noise: type(noise).__name__,
    )
    def test_a_generator_that_every_clone_would_copy_is_refused(self, noise):
        estimator = make_pipeline(StandardScaler(), Noisy(noise))
        with pytest.raises(InvalidArgument) as caught:
            outputs(estimator, D, replaced(), 20)
        assert caught.value.argument == "noisy__noise"

    @pytest.mark.parametrize("noise", [None, draw_anywhere, np.ones(3)])
    def test_other_parameters_are_not(self, noise):
        assert outputs(Noisy(noise), D, replaced(), 20, workers=1)[0].shape == (20, 1)

    def test_weights_are_coef_and_intercept(self):
        found = outputs(SGDClassifier(), (X, Y), (replaced().X, Y), 20)
        assert np.stack(found).shape == (2, 20, 4)
        assert len(np.unique(found[0], axis=0)) == 20

    def test_without_coef_an_output_is_asked_for(self):
        with pytest.raises(InvalidArgument, match="pass output="):
            outputs(GaussianNB(), D, replaced(), 20)
        first, _ = outputs(GaussianNB(), D, replaced(), 20, output=lambda fitted: fitted.theta_)
        assert first.shape == (20, 6)

    def test_warnings_of_thousands_of_fits_are_not_shown(self):
        private = PrivateLogisticRegression(epsilon=1.0, delta=0.05, method="output-gd")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = outputs(private, D, replaced(), 16, workers=1)
        assert len(np.unique(found[0], axis=0)) == 16

    def test_no_ledger_is_charged(self, tmp_path):
        private = PrivateLogisticRegression(classes=[0, 1])
        with (
            Ledger(tmp_path / "x.db", dataset="x", epsilon=10.0, delta=1e-3),
            pytest.raises(InvalidArgument, match="ledger"),
        ):
            outputs(private, D, replaced(), 20)

    def test_rows_are_needed(self):
        with pytest.raises(InvalidArgument, match="Dataset or a tuple"):
            outputs(SGDClassifier(), X, X, 20)
