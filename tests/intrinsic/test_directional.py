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


# With noise that a release adds: simulated laws whose distance is known -------------------------


def quiet(name, size=0.05):
    """A basis, and the root of a covariance: 1 along all of it but the first, where it is `size`.

    A basis that is no axis, so that no weight alone shows the quiet direction.
    """
    normals = stream("test", name).standard_normal((PARAMETERS, PARAMETERS))
    basis = np.linalg.qr(normals)[0]
    sizes = np.ones(PARAMETERS)
    sizes[0] = size
    return basis, (basis * sizes) @ basis.T


def paired_runs(rng, root, shift, *, seeds=SEEDS, own=0.02):
    """Two datasets' runs under one seed: the second's are the first's, but for `own` of noise."""
    noise, other = rng.standard_normal((2, seeds, len(root))) @ root
    return noise + shift, noise + own * other


def mahalanobis(root, shift, scale):
    return math.sqrt(shift @ np.linalg.solve(root @ root.T + scale**2 * np.eye(len(root)), shift))


@pytest.mark.parametrize("scale", [0.03, 0.3, 3.0])
def test_the_known_distance_is_found_from_below(scale):
    """Added noise as large as that of the quiet direction, larger than it, and than all."""
    basis, root = quiet("known")
    shift = 0.1 * basis[:, 0] + 0.2 * basis[:, 1]
    truth = mahalanobis(root, shift, scale)
    rng = stream("test", "known runs", str(scale))
    found = [
        directional.between(
            *paired_runs(rng, root, shift, seeds=4 * PARAMETERS),
            scale,
            stream=stream("p", t),
            repeats=1,
        )
        for t in range(4)
    ]
    size = np.mean([each.distance.value for each in found])
    # A lower estimate: it exceeds the truth by chance alone. A standard deviation of 204 runs is
    # known to 1 / sqrt(2 * 204) = 5 %, the mean of four to 2.5 %; twice that.
    assert size < 1.05 * truth
    # With four seeds a weight it misses about a tenth, and less where noise is known.
    assert size > 0.8 * truth
    # One sigma for all directions sees an eighth where little noise is added.
    assert (found[0].isotropic.value > 0.5 * truth) == (scale > 0.1)
    assert all(each.corrected is None for each in found)


def test_the_interval_covers_the_distance_where_the_direction_is_learned_well():
    """Three weights, 200 seeds; with many weights a lower estimate is too low to be covered."""
    rng = stream("test", "covers runs")
    root, shift = np.diag([0.1, 1.0, 2.0]), np.array([0.1, 0.3, 0.5])
    truth = mahalanobis(root, shift, 0.1)
    covered = 0
    for trial in range(20):
        both = paired_runs(rng, root, shift, seeds=200, own=0.3)
        found = directional.between(*both, 0.1, stream=stream("p", trial), repeats=1).distance
        covered += found.low <= truth <= found.high
    # Of twenty at 95 %, sixteen or more have probability .997; a bootstrap is a little short.
    assert covered >= 16


def test_no_inflation_where_means_differ_by_chance_alone():
    """As many weights as seeds, all runs independent: in 98 directions chance finds a lot."""
    rng = stream("test", "null")
    found = []
    for trial in range(8):
        both = rng.standard_normal((2, SEEDS, SEEDS))
        how = {"stream": stream("p", trial), "shared_seeds": False, "repeats": 1}
        found.append(directional.between(*both, 0.5, **how))
    # A mean difference of 98 + 98 runs has standard error .13 of sqrt(1 + .25); eight of them .045.
    assert abs(np.mean([each.distance.value for each in found])) < 0.14
    assert np.mean([each.in_sample for each in found]) > 0.8


def test_where_the_added_noise_is_all_there_is_the_distance_is_exact():
    _, root = quiet("dominated")
    shift = stream("test", "shift").standard_normal(PARAMETERS)
    first, second = paired_runs(stream("test", "dominated"), 1e-4 * root, shift, own=0.001)
    scale = 2.0
    found = directional.between(first, second, scale, stream=stream("p"))
    # Their own noise is 1e-4 of the shift, and its square beside scale^2 is nothing.
    expected = float(np.linalg.norm(shift)) / scale
    assert found.distance.value == pytest.approx(expected, rel=1e-5)
    assert found.isotropic.value == pytest.approx(expected, rel=1e-5)
    still = directional.between(
        first[:1].repeat(30, 0), second[:1].repeat(30, 0), scale, stream=stream("p")
    )
    assert still.distance.value == pytest.approx(directional.fixed(first[0], second[0], scale))
    assert still.distance.high - still.distance.low < 1e-12


def test_weights_that_never_vary_are_hidden_by_added_noise_only():
    noise = 0.1 * stream("test", "still").standard_normal((200, 3))
    first, second = noise.copy(), noise.copy()
    first[:, 0], second[:, 0] = 1.0, 0.0
    first[:, 1] += 1.0
    assert directional.between(first, second, 0.0, stream=stream("p")).distance.value == math.inf
    found = directional.between(first, second, 0.5, stream=stream("p")).distance
    # One standard deviation of 200 runs is known to 5 %, and is a twenty-fifth of the variance.
    assert found.value == pytest.approx(math.sqrt(1 / 0.25 + 1 / (0.25 + 0.01)), rel=0.01)


def test_the_neighbour_that_stands_out_is_found():
    """Loudly shifted ones are hidden by noise; one in a quiet direction is not, unless added."""
    rng = stream("test", "worst")
    sizes = np.where(np.arange(20) < 10, 0.05, 1.0)
    W = np.repeat(rng.standard_normal((SEEDS, 1, 20)) * sizes, 5, axis=1)
    for place in (1, 2, 3):
        W[:, place, 10 + place] += 0.5
    W[:, 4, 0] += 0.2
    found = directional.worst_pair(W, 0.02, stream=stream("p"), against=0)
    assert found.pair == (0, 4)
    assert found.distance.value > 1.5  # no other is half a standard deviation away
    # With much noise, whoever is shifted most: 1, 2 and 3 alike, and further from each other.
    far = directional.worst_pair(W, 100.0, stream=stream("p"), against=0)
    assert far.pair in {(0, 1), (0, 2), (0, 3)}
    assert far.distance.value == pytest.approx(0.5 / 100, rel=1e-3)
    assert directional._furthest(W, added=1e4) in {(1, 2), (1, 3), (2, 3)}
    assert 2 in directional.worst_pair(W, 100.0, stream=stream("p"), against=2).pair


def test_one_sigma_for_all_directions():
    W = stream("test", "sigma").standard_normal((200, 3, 40))
    W[:, 1] = W[:, 0]
    W[:, 1, 0] += 3.0
    W[:, 2] = W[:, 0]
    W[:, 2, 0] -= 1.0
    every = directional.isotropic(W, 0.0, stream=stream("p"))
    # 8,000 numbers of standard deviation 1: known to 1 %, three times over.
    assert every.value == pytest.approx(4.0, rel=0.03)
    assert directional.isotropic(W, 0.0, stream=stream("p"), base=0).value == pytest.approx(
        3, rel=0.03
    )
    added = directional.isotropic(W, 1.0, stream=stream("p"), base=0)
    assert added.value == pytest.approx(3 / math.sqrt(2), rel=0.03)
    assert added.low < added.value < added.high
    still = np.zeros((5, 2, 3))
    assert directional.isotropic(still, 0.0, stream=stream("p")).value == 0
    still[:, 1] = 1.0
    assert directional.isotropic(still, 0.0, stream=stream("p")).value == math.inf


def test_without_chance():
    assert directional.fixed([3.0, 0.0], [0.0, 4.0], 2.0) == 2.5
    assert directional.fixed([3.0], [0.0], 0.0) == math.inf
    assert directional.fixed([3.0], [3.0], 0.0) == 0


def test_arguments_are_checked():
    rows = np.zeros((30, 2))
    for sentence, call in (
        ("scale=-1", lambda: directional.between(rows, rows, -1.0, stream=stream("p"))),
        ("second=shape", lambda: directional.between(rows, rows[:5], 1.0, stream=stream("p"))),
        ("seeds=5 >= 20", lambda: directional.between(rows[:5], rows[:5], 1.0, stream=stream("p"))),
        (
            "against=2",
            lambda: directional.worst_pair(
                rows[:, None].repeat(2, 1), 1.0, stream=stream("p"), against=2
            ),
        ),
    ):
        with pytest.raises(InvalidArgument, match=sentence):
            call()
