"""The directional estimate: no inflation, an eye for quiet directions, and what naive ones do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino.accounting import gaussian
from sordino.errors import InvalidArgument
from sordino.intrinsic import directional
from sordino.randomness import stream

SEEDS, PARAMETERS = 98, 51


def quiet_covariance(rng, quiet=0.05, parameters=PARAMETERS):
    """Standard deviation 1 in all directions but the first column's, where it is `quiet`."""
    basis = np.linalg.qr(rng.standard_normal((parameters, parameters)))[0]
    sizes = np.ones(parameters)
    sizes[0] = quiet
    return basis, (basis * sizes) @ basis.T


def runs(rng, root, shift, *, shared=0.02, seeds=SEEDS):
    """Two datasets' runs; with `shared` seeds those of one are those of the other but for 2 %."""
    noise = rng.standard_normal((seeds, len(root))) @ root
    other = rng.standard_normal((seeds, len(root))) @ root
    second = other if shared is None else noise + shared * other
    return noise + shift, second


@pytest.fixture(scope="module")
def found():
    """Two thirds of the difference where the noise is loud, the rest where it is quiet."""
    rng = stream("test", "planted")
    basis, root = quiet_covariance(rng)
    shift = 0.1 * basis[:, 0] + 0.2 * basis[:, 1]
    return directional.between(*runs(rng, root, shift), stream=stream("p"))


class TestNoInflation:
    @pytest.mark.parametrize("folds", [2, 5])
    def test_equal_laws_and_seeds_of_their_own(self, folds):
        """The hard case: means differ by chance, and in 51 directions chance finds a lot."""
        rng = stream("test", "null")
        found = []
        for trial in range(12):
            _, root = quiet_covariance(rng)
            how = {"stream": stream("n", trial), "shared_seeds": False}
            pair = runs(rng, root, 0.0, shared=None)
            found.append(directional.between(*pair, folds=folds, repeats=2, **how))
        distances = np.array([one.distance.value for one in found])
        # A mean difference over 98 + 98 runs has standard error .14; twelve of them .041. The
        # directions of all folds are alike, so allow twice that, three times over.
        assert abs(distances.mean()) < 0.25
        assert all(one.corrected is None for one in found)
        # (iii) Learned and tested on the same runs, the same data look far apart.
        assert np.mean([one.in_sample for one in found]) > 0.8
        covered = [one.distance.low <= 0 <= one.distance.high for one in found]
        assert sum(covered) >= 8

    def test_equal_laws_with_shared_seeds(self):
        rng = stream("test", "null shared")
        _, root = quiet_covariance(rng)
        found = directional.between(*runs(rng, root, 0.0), stream=stream("n"))
        assert abs(found.distance.value) < 0.02
        assert found.epsilon(1e-6).epsilon < 0.1

    def test_the_worst_of_many_equal_datasets(self):
        """45 pairs without a difference: the one that looks worst is tested by other seeds."""
        rng = stream("test", "many")
        W = rng.standard_normal((SEEDS, 10, 20))
        found = directional.worst_pair(W, stream=stream("n"))
        # Chance gives the worst of 45 pairs a mean difference of about 1 in sample.
        assert found.in_sample > 0.8
        assert found.distance.value < 0.3
        assert found.corrected is None


class TestPlanted:
    def test_a_quiet_direction_is_found(self, found):
        truth = math.hypot(0.1 / 0.05, 0.2)
        assert found.isotropic.value == pytest.approx(math.hypot(0.1, 0.2), rel=0.1)
        assert 4 * found.isotropic.value < found.distance.value < truth * 1.02

    def test_naive_is_inflated_and_corrected_is_not(self, found):
        truth = math.hypot(0.1 / 0.05, 0.2)
        assert found.in_sample > 1.15 * found.distance.value
        assert found.corrected.low < truth < found.corrected.high
        assert found.corrected.value > found.distance.value

    def test_epsilons_are_estimates_by_the_exact_formula(self, found):
        delta = 1e-8
        along = found.epsilon(delta)
        assert along.epsilon == gaussian.epsilon(found.distance.value, delta)
        assert along.low == gaussian.epsilon(found.distance.low, delta)
        assert along.high == gaussian.epsilon(found.distance.high, delta)
        assert "lower estimate" in str(along)
        for one in (along, found.isotropic_epsilon(delta), found.corrected_epsilon(delta)):
            assert "estimate, not a guarantee" in str(one)
        assert along.epsilon > 4 * found.isotropic_epsilon(delta).epsilon

    def test_with_many_seeds_it_is_the_mahalanobis_distance(self):
        rng = stream("test", "deep")
        basis, root = quiet_covariance(rng, parameters=10)
        pair = runs(rng, root, 0.05 * basis[:, 0] + 0.5 * basis[:, 1], seeds=3000)
        found = directional.between(*pair, stream=stream("p"), repeats=1)
        truth = math.hypot(1, 0.5)
        assert found.distance.value == pytest.approx(truth, rel=0.05)
        assert found.corrected.value == pytest.approx(truth, rel=0.05)
        assert found.distance.high - found.distance.low < 0.15

    def test_seeds_of_their_own_tell_the_same_with_more_noise(self):
        rng = stream("test", "own")
        basis, root = quiet_covariance(rng, parameters=10)
        shift = 0.05 * basis[:, 0]
        shared = directional.between(*runs(rng, root, shift, seeds=1000), stream=stream("p"))
        own = directional.between(
            *runs(rng, root, shift, shared=None, seeds=1000), stream=stream("p"), shared_seeds=False
        )
        assert own.distance.value == pytest.approx(1, abs=0.2)
        assert shared.distance.value == pytest.approx(1, abs=0.1)
        assert own.isotropic.high - own.isotropic.low > 3 * (
            shared.isotropic.high - shared.isotropic.low
        )

    def test_corrected_has_the_right_mean_with_few_seeds(self):
        """40 seeds, 20 weights: uncorrected, the square would be 2.2 times too large."""
        rng = stream("test", "corrected")
        basis, root = quiet_covariance(rng, parameters=20)
        shift = 0.05 * basis[:, 0]
        how = {"folds": 2, "repeats": 1, "draws": 20}
        squares = [
            directional.between(
                *runs(rng, root, shift, seeds=40), stream=stream("c", trial), **how
            ).corrected.value
            ** 2
            for trial in range(40)
        ]
        # A chi-squared of 19 degrees of freedom over its mean: standard error .05 of forty.
        assert np.mean(squares) == pytest.approx(1, abs=0.2)

    def test_the_worst_pair_of_a_grid(self):
        """Dataset 7 is moved far where noise is loud, dataset 3 a little where it is quiet."""
        rng = stream("test", "grid")
        basis, root = quiet_covariance(rng, parameters=20)
        noise = rng.standard_normal((SEEDS, 1, 20)) @ root
        W = noise + 0.02 * rng.standard_normal((SEEDS, 12, 20)) @ root
        W[:, 7] += 0.5 * basis[:, 1]
        W[:, 3] += 0.1 * basis[:, 0]
        found = directional.worst_pair(W, stream=stream("p"))
        assert 3 in found.pair
        assert found.chosen > 0.5
        assert found.distance.value > 1.2
        assert found.isotropic.value < 0.6


def test_weights_that_never_vary_and_differ_tell_everything():
    rng = stream("test", "still")
    first, second = runs(rng, np.eye(5), 0.0)
    first[:, 2], second[:, 2] = 0.1, 0.3
    found = directional.between(first, second, stream=stream("s"))
    assert found.distance.value == math.inf
    assert found.epsilon(1e-6).epsilon == math.inf
    assert found.isotropic.value < 1


def test_nothing_varies_and_nothing_differs():
    still = np.ones((40, 3, 4))
    found = directional.worst_pair(still, stream=stream("s"))
    assert found.distance.value == 0
    assert found.epsilon(1e-6).epsilon == 0


def test_more_weights_than_seeds():
    rng = stream("test", "wide")
    W = rng.standard_normal((40, 1, 300)) + 0.01 * rng.standard_normal((40, 4, 300))
    W[:, 2, :9] += 0.5
    found = directional.worst_pair(W, stream=stream("s"), repeats=1)
    assert 2 in found.pair
    assert found.isotropic.value == pytest.approx(1.5, rel=0.1)
    assert found.distance.value > 1.2


def test_one_stream_gives_one_answer():
    rng = stream("test", "again")
    pair = runs(rng, np.eye(6), 0.3)
    one, two, other = (
        directional.between(*pair, stream=stream(name), repeats=1) for name in ("a", "a", "b")
    )
    assert one == two
    assert one != other


def test_nonsense_is_refused():
    with pytest.raises(InvalidArgument, match="seeds=19 >= 20"):
        directional.between(np.ones((19, 3)), np.ones((19, 3)), stream=stream("s"))
    with pytest.raises(InvalidArgument, match="as many runs of one as of the other"):
        directional.between(np.ones((30, 3)), np.ones((31, 3)), stream=stream("s"))
    with pytest.raises(InvalidArgument, match="folds=1 >= 2"):
        directional.worst_pair(np.ones((30, 2, 3)), stream=stream("s"), folds=1)
    with pytest.raises(InvalidArgument, match="neighbours=1 >= 2"):
        directional.worst_pair(np.ones((30, 1, 3)), stream=stream("s"))


@pytest.mark.slow
def test_cross_fitting_is_not_above_the_truth_and_corrected_is_right_on_average():
    rng = stream("test", "slow planted")
    basis, root = quiet_covariance(rng)
    shift = 0.1 * basis[:, 0] + 0.2 * basis[:, 1]
    truth = math.hypot(2, 0.2)
    found = [
        directional.between(*runs(rng, root, shift), stream=stream("p", trial), repeats=2)
        for trial in range(100)
    ]
    distances = np.array([one.distance.value for one in found])
    assert distances.mean() < truth
    assert distances.mean() > 0.5 * truth
    squares = np.array([one.corrected.value**2 for one in found])
    # Unbiased in its square: 100 of them, four standard errors.
    assert squares.mean() == pytest.approx(truth**2, abs=4 * squares.std() / math.sqrt(100))
    covered = sum(one.corrected.low <= truth <= one.corrected.high for one in found)
    # 95 are expected; four standard errors are 9.
    assert covered >= 86


@pytest.mark.slow
def test_coverage_where_directions_are_well_known():
    """Few weights, many seeds: nothing is lost, so the interval should hold the truth."""
    covered = 0
    for trial in range(200):
        rng = stream("coverage", trial)
        basis, root = quiet_covariance(rng, parameters=4)
        pair = runs(rng, root, 0.05 * basis[:, 0], shared=None, seeds=400)
        found = directional.between(*pair, stream=rng, shared_seeds=False, repeats=1, draws=400)
        covered += found.distance.low <= 1 <= found.distance.high
    # 95 % of 200 is 190; the loss of direction costs some, so four standard errors and a little.
    assert covered >= 172
