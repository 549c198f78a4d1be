"""Algorithm 2 of v1 (1 of v2): its numbers, and that nobody takes them for protection."""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings

import numpy as np
import pytest

from sordino.accounting import gaussian
from sordino.errors import InvalidArgument, PrivacyLeakWarning
from sordino.intrinsic.augment import (
    FORMULAS,
    Augmented,
    Basis,
    augment,
    augment_each,
    perturbed,
    remaining_sigma,
    target_sigma,
)
from sordino.intrinsic.interval import Interval
from sordino.privacy import Estimate
from sordino.randomness import stream

DELTA = 9.25e-9  # v2, Table 3, MNIST-binary
MNIST = Basis(0.059, "empirical", 0.085, "public")


class TestSigmas:
    def test_by_hand(self):
        # sqrt(2 ln(1.25 / 9.25e-9)) = 6.1189 (python -c "..."), times .059 / 1
        printed = augment(1.0, DELTA, MNIST, formula="printed")
        assert printed.sigma_target == pytest.approx(6.1189 * 0.059, rel=1e-4)
        squares = printed.sigma_target**2 - 0.085**2
        assert printed.sigma_augment == pytest.approx(math.sqrt(squares), rel=1e-12)

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 30.0])
    def test_the_exact_target_is_the_least_that_holds(self, epsilon):
        sigma = target_sigma(epsilon, DELTA, 0.059)
        assert gaussian.delta(epsilon, 0.059 / sigma) <= DELTA
        assert gaussian.delta(epsilon, 0.059 / (0.999 * sigma)) > DELTA

    def test_the_printed_target_is_too_small_at_large_epsilon(self):
        enough, printed = target_sigma(20, DELTA, 1), target_sigma(20, DELTA, 1, formula="printed")
        assert printed < enough
        # and larger than needed where it is a theorem
        assert target_sigma(0.5, DELTA, 1, formula="printed") > target_sigma(0.5, DELTA, 1)
        assert "epsilon < 1 only" in str(augment(20, DELTA, MNIST, formula="printed"))

    def test_without_noise_of_sgds_own_nothing_is_taken_off(self):
        for target in (0.1, 1 / 3, 1e-200, 1e200):
            assert remaining_sigma(target, 0.0) == target

    def test_pythagoras_also_where_the_two_are_close(self):
        assert remaining_sigma(5.0, 4.0) == pytest.approx(3.0, rel=1e-15)
        # (1 + 2^-40)^2 - 1 = 2^-39 + 2^-80
        close = math.sqrt(2.0**-39 + 2.0**-80)
        assert remaining_sigma(1 + 2.0**-40, 1.0) == pytest.approx(close, rel=1e-15)

    @pytest.mark.parametrize("formula", FORMULAS)
    def test_more_epsilon_or_more_noise_of_sgds_own_means_less_noise(self, formula):
        found = augment_each(np.geomspace(0.1, 3.5, 12), DELTA, MNIST, formula=formula)
        added = [one.sigma_augment for one in found]
        assert all(before > after > 0 for before, after in itertools.pairwise(added))
        assert all(one.sigma_augment < one.sigma_target for one in found)
        by_noise = [
            augment(1.0, DELTA, dataclasses.replace(MNIST, sigma_i=own), formula=formula)
            for own in (0.0, 0.1, 0.2)
        ]
        assert by_noise[0].sigma_augment == by_noise[0].sigma_target
        assert by_noise[0].sigma_augment > by_noise[1].sigma_augment > by_noise[2].sigma_augment


class TestWhatItIs:
    def test_an_estimate_that_says_why_it_is_no_guarantee(self):
        found = augment(1.0, DELTA, MNIST)
        assert isinstance(found, Augmented)
        assert isinstance(found.estimate, Estimate)
        assert found.estimate.epsilon == pytest.approx(1.0, rel=1e-9)
        for said in (
            "an experiment",
            "estimate, not a guarantee",
            "Gaussian and equally large in all directions",
            "a weight that one record alone moves has no noise in it",
            "docs/math.md 9, item 3",
            "a lower estimate",
            "assumed",
        ):
            assert said in str(found)

    def test_the_estimate_is_by_the_exact_formula_whatever_the_target_was_by(self):
        for epsilon in (0.5, 3.0):
            found = augment(epsilon, DELTA, MNIST, formula="printed")
            together = math.hypot(found.sigma_augment, 0.085)
            assert found.estimate.epsilon == gaussian.epsilon(0.059 / together, DELTA)
            assert found.estimate.epsilon != pytest.approx(epsilon, rel=0.01)

    def test_the_branch_without_noise_is_labelled_and_claims_nothing(self):
        found = augment(10.0, DELTA, MNIST)
        assert found.adds_nothing
        assert found.sigma_augment == 0 < found.sigma_target
        assert "NO NOISE IS ADDED" in str(found)
        assert "delta = 1" in found.estimate.caveat
        # SGD's own noise alone, not the target
        assert found.estimate.epsilon == gaussian.epsilon(0.059 / 0.085, DELTA) < 10
        assert found.added_alone.epsilon == math.inf
        some = augment(1.0, DELTA, MNIST)
        assert not some.adds_nothing
        assert "NO NOISE" not in str(some)

    def test_at_the_edge_nothing_is_added(self):
        target = target_sigma(1.0, DELTA, 0.059)
        edge = dataclasses.replace(MNIST, sigma_i=target)
        assert augment(1.0, DELTA, edge).adds_nothing
        below = dataclasses.replace(MNIST, sigma_i=math.nextafter(target, 0))
        assert not augment(1.0, DELTA, below).adds_nothing

    def test_the_added_noise_alone_is_worth_less(self):
        found = augment(1.0, DELTA, MNIST)
        alone = gaussian.epsilon(0.059 / found.sigma_augment, DELTA)
        assert found.added_alone.epsilon == alone > 1
        assert "SGD's own noise counts for nothing" in str(found.added_alone)

    def test_the_interval_of_sigma_becomes_one_of_epsilon(self):
        measured = dataclasses.replace(MNIST, sigma_i=Interval(0.085, 0.05, 0.1, 0.9))
        found = augment(1.0, DELTA, measured)
        assert found.sigma_augment == augment(1.0, DELTA, MNIST).sigma_augment
        least = math.hypot(found.sigma_augment, 0.05)
        assert found.estimate.high == gaussian.epsilon(0.059 / least, DELTA) > 1
        assert found.estimate.low < found.estimate.epsilon
        assert found.estimate.level == 0.9

    def test_every_sensitivity_has_its_own_words(self):
        def words(name):
            return augment(1.0, DELTA, dataclasses.replace(MNIST, sensitivity_name=name)).estimate

        assert "not a bound" in words("fractional").caveat
        assert "lower estimate" in words("empirical").caveat
        assert "the folklore sensitivity is taken on trust" in words("folklore").caveat
        theoretical = words("theoretical")
        assert "sensitivity" not in theoretical.caveat
        assert "theoretical sensitivity" in theoretical.method

    def test_measured_on_the_private_data_it_leaks_and_says_so(self):
        with pytest.warns(PrivacyLeakWarning, match="measured on the private data itself") as seen:
            private = Basis(0.059, "empirical", 0.085, "private")
        assert [one.filename for one in seen] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # said once, where the basis was made
            found = augment_each([0.5, 20.0], DELTA, private)
        for one in found:
            assert "NOT PRIVATE" in str(one)
            assert "NOT PRIVATE" in one.added_alone.caveat
        assert "NOT PRIVATE" not in str(augment(0.5, DELTA, MNIST))


class TestPerturbed:
    def test_noise_of_the_stated_size_from_the_generator_given(self):
        found = augment(1.0, DELTA, MNIST)
        weights = np.ones((40, 500), dtype=np.float32)
        noisy = perturbed(weights, found, stream("perturbed"))
        same = stream("perturbed").standard_normal((40, 500)) * found.sigma_augment
        np.testing.assert_array_equal(noisy - 1, (1 + same) - 1)
        # 20,000 entries: the relative standard error of their deviation is 1/200; four of them.
        assert (noisy - 1).std() == pytest.approx(found.sigma_augment, rel=0.02)

    def test_it_says_that_it_protects_nobody(self):
        assert "PROTECTS NOBODY" in perturbed.__doc__

    def test_where_nothing_is_added_the_weights_are_the_trained_ones(self):
        weights = np.array([0.1, -0.2])
        found = perturbed(weights, augment(10.0, DELTA, MNIST), stream("p"))
        np.testing.assert_array_equal(found, weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sensitivity": 0.0}, "sensitivity=0.0 > 0"),
        ({"sensitivity": math.inf}, "sensitivity=inf > 0 and finite"),
        ({"sensitivity_name": " "}, "sensitivity_name=' ' to be a name"),
        ({"sigma_i": -0.1}, "sigma_i=-0.1 >= 0"),
        ({"sigma_i": Interval(0.1, -0.1, 0.2, 0.9)}, "sigma_i=-0.1 >= 0"),
        ({"sigma_i": math.nan}, "sigma_i=nan to be a number"),
        ({"estimated_on": "publik"}, "Did you mean public"),
    ],
)
def test_a_basis_of_nonsense_is_refused(change, message):
    with pytest.raises(InvalidArgument, match=message):
        dataclasses.replace(MNIST, **change)


@pytest.mark.parametrize(
    ("epsilon", "delta", "formula", "message"),
    [
        (0, DELTA, "exact", "epsilon=0 > 0"),
        (math.inf, DELTA, "printed", "epsilon=inf > 0 and finite"),
        (1, 0, "printed", "delta=0 > 0"),
        (1, 0, "exact", "delta=0 > 0"),
        (1, 1, "printed", "delta=1 in"),
        (1, DELTA, "classical", "formula=classical to be one of exact, printed"),
    ],
)
def test_a_target_of_nonsense_is_refused(epsilon, delta, formula, message):
    with pytest.raises(InvalidArgument, match=message):
        augment(epsilon, delta, MNIST, formula=formula)


def test_one_epsilon_is_no_list_of_them():
    with pytest.raises(InvalidArgument, match=r"epsilons=1\.0 to be a list"):
        augment_each(1.0, DELTA, MNIST)
