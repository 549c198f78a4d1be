"""Distances of weights to which a release adds noise: simulated laws whose distance is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino.errors import InvalidArgument
from sordino.intrinsic import directional
from sordino.randomness import stream

SEEDS, PARAMETERS = 98, 51


def quiet(name, size=0.05):
    """A basis, and the root of a covariance: 1 along all of it but the first, where it is `size`.

    A basis that is no axis, so that no weight alone shows the quiet direction.
    """
    normals = stream("test", name).standard_normal((PARAMETERS, PARAMETERS))
    basis = np.linalg.qr(normals)[0]
    sizes = np.ones(PARAMETERS)
    sizes[0] = size
    return basis, (basis * sizes) @ basis.T


def runs(rng, root, shift, *, seeds=SEEDS, own=0.02):
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
            *runs(rng, root, shift, seeds=4 * PARAMETERS), scale, stream=stream("p", t), repeats=1
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
        both = runs(rng, root, shift, seeds=200, own=0.3)
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
    first, second = runs(stream("test", "dominated"), 1e-4 * root, shift, own=0.001)
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
    assert directional.furthest(W, added=1e4) in {(1, 2), (1, 3), (2, 3)}
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
