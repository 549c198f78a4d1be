"""Distances of runs: against subtraction pair by pair, in small grids and hard ones."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sordino.errors import InvalidArgument
from sordino.intrinsic import distances
from sordino.randomness import stream


def weights(seeds=5, neighbours=6, parameters=4, name="w"):
    """Like SGD's: the seed moves weights far more than the record does, far from 0."""
    rng = stream("test", "distances", name)
    own = 100 + rng.standard_normal((seeds, 1, parameters))
    return own + 0.01 * rng.standard_normal((seeds, neighbours, parameters))


def by_subtraction(W, differs):
    seeds, neighbours = W.shape[:2]
    found = {}
    runs = itertools.product(range(seeds), range(neighbours))
    for (r, a), (s, b) in itertools.combinations(runs, 2):
        if (r != s, a != b) == {"data": (False, True), "seed": (True, False)}.get(
            differs, (True, True)
        ):
            found[(r, a), (s, b)] = float(np.linalg.norm(W[r, a] - W[s, b]))
    return found


FUNCTIONS = {
    "data": distances.between_datasets,
    "seed": distances.between_seeds,
    "both": distances.between_both,
}


@pytest.mark.parametrize("differs", FUNCTIONS)
def test_all_pairs_by_subtraction(differs):
    W = weights()
    found, wanted = FUNCTIONS[differs](W), by_subtraction(W, differs)
    assert found.differs == differs
    assert found.exact
    assert found.maximum_of_all
    assert found.pairs == len(wanted)
    np.testing.assert_allclose(found.values, sorted(wanted.values()), rtol=1e-10)
    assert found.maximum == pytest.approx(max(wanted.values()), rel=1e-10)
    (r, a), (s, b) = found.where
    assert np.linalg.norm(W[r, a] - W[s, b]) == pytest.approx(found.maximum, rel=1e-10)
    assert found.quantile(0.5) == pytest.approx(np.median(list(wanted.values())), rel=1e-10)


@pytest.mark.parametrize("differs", FUNCTIONS)
def test_a_sample_is_one_of_the_pairs_and_the_maximum_of_all(differs):
    W = weights(8, 9)
    everything = FUNCTIONS[differs](W)
    found = FUNCTIONS[differs](W, stream=stream("s"), most=100)
    assert len(found.values) == 100
    assert found.pairs == everything.pairs
    assert not found.exact
    nearest = everything.values[np.searchsorted(everything.values, found.values * (1 - 1e-9))]
    np.testing.assert_allclose(found.values, nearest, rtol=1e-8)
    if differs == "both":
        assert not found.maximum_of_all
        assert found.maximum == found.values[-1]
    else:
        assert found.maximum_of_all
        assert found.maximum == everything.maximum
    again = FUNCTIONS[differs](W, stream=stream("s"), most=100)
    np.testing.assert_array_equal(found.values, again.values)


@pytest.mark.parametrize("differs", FUNCTIONS)
def test_samples_are_uniform_over_pairs(differs):
    """Every pair's distance is its own, so the sample's mean tells which pairs are drawn."""
    W = weights(6, 30)
    everything = FUNCTIONS[differs](W).values
    rng = stream("uniform", differs)
    means = [FUNCTIONS[differs](W, stream=rng, most=150).values.mean() for _ in range(40)]
    # Forty means of 150: five standard errors.
    slack = 5 * everything.std() / np.sqrt(40 * 150)
    assert np.mean(means) == pytest.approx(everything.mean(), abs=slack)


def test_against_one_dataset_only():
    W = weights()
    found = distances.between_datasets(W, against=2)
    wanted = [np.linalg.norm(W[r, a] - W[r, 2]) for r in range(5) for a in range(6) if a != 2]
    np.testing.assert_allclose(found.values, sorted(wanted), rtol=1e-10)
    assert found.where[0][1] == 2


def test_runs_that_coincide_are_at_distance_0_and_near_ones_keep_their_digits():
    W = weights(3, 5)
    W[:, 1] = W[:, 0]
    W[:, 2] = W[:, 0]
    W[:, 2, 0] += 2.0**-33  # a power of two: nothing is rounded
    table = distances.largest_by_pair(W)
    assert table[0, 1] == table[1, 0] == 0
    assert table[0, 2] == pytest.approx(2.0**-33, rel=1e-3)  # what 100 + 2^-33 has left
    assert distances.between_datasets(W).values[0] == 0


def test_largest_by_pair():
    W = weights()
    table = distances.largest_by_pair(W)
    direct = np.linalg.norm(W[:, :, None] - W[:, None], axis=3).max(axis=0)
    np.testing.assert_allclose(table, direct, rtol=1e-9)


def test_single_precision_is_accumulated_in_double():
    W = weights().astype(np.float32)
    found = distances.between_datasets(W)
    wanted = by_subtraction(W.astype(np.float64), "data")
    np.testing.assert_allclose(found.values, sorted(wanted.values()), rtol=1e-9)


class TestAgainstGaussian:
    def test_independent_gaussian_weights_look_like_what_they_are(self):
        rng = stream("test", "gaussian")
        scale = np.geomspace(0.1, 1, 30)
        W = 5 + scale * rng.standard_normal((150, 2, 30))
        found = distances.against_gaussian(W, stream=stream("g"))
        assert len(found.gaussian) == len(found.measured) == 2 * 150 * 149 // 2
        # Pairs share 300 runs: a distribution function is known to about 1 / sqrt(300).
        assert found.kolmogorov < 0.1
        assert found.sharpness == pytest.approx(1, rel=0.15)
        # E d^2 = 2 sum s^2.
        square = float(np.mean(found.gaussian**2))
        assert square == pytest.approx(2 * W.var(axis=0, ddof=1).mean(axis=0).sum(), rel=0.02)

    def test_weights_that_vary_together_are_less_sharp(self):
        rng = stream("test", "together")
        W = rng.standard_normal((100, 1, 1)) + 0.3 * rng.standard_normal((100, 1, 50))
        found = distances.against_gaussian(W, stream=stream("g"))
        assert found.sharpness > 3
        assert found.kolmogorov > 0.2

    def test_without_noise_there_is_no_sharpness(self):
        found = distances.against_gaussian(np.ones((4, 2, 3)), stream=stream("g"))
        assert np.isnan(found.sharpness)
        assert found.measured[-1] == found.gaussian[-1] == 0


def test_what_is_no_grid_is_refused():
    with pytest.raises(InvalidArgument, match="to have three dimensions"):
        distances.between_seeds(np.ones((4, 3)))
    with pytest.raises(InvalidArgument, match="neighbours=1 >= 2"):
        distances.between_datasets(np.ones((4, 1, 3)))
    with pytest.raises(InvalidArgument, match="seeds=1 >= 2"):
        distances.between_seeds(np.ones((1, 4, 3)))
    W = weights()
    W[2, 1, 0] = np.nan
    with pytest.raises(InvalidArgument, match="first bad row is 2"):
        distances.between_both(W)
    with pytest.raises(InvalidArgument, match="stream=None to be a stream"):
        distances.between_seeds(weights(), most=3)
    with pytest.raises(InvalidArgument, match="against=6"):
        distances.between_datasets(weights(), against=6)


SOME = 0.01 * np.random.default_rng(3).lognormal(0, 0.3, 300)


def test_a_density_has_the_area_of_what_is_above_zero() -> None:
    values = np.concatenate([np.zeros(100), SOME])
    x, y = distances.density(values, 1e-4, 1.0, log=True)
    area = np.sum(y) * np.diff(np.log10(x))[0]
    assert area == pytest.approx(0.75, rel=1e-3)  # the kernel is cut at 4 widths: 6e-5
    centre = np.sum(np.log10(x) * y) / np.sum(y)
    # Values are put into bins of 0.008 decades.
    assert centre == pytest.approx(np.log10(SOME).mean(), abs=0.008)


def test_a_density_of_equal_values_is_narrow_and_finite() -> None:
    x, y = distances.density(np.full(50, 0.1), 0.01, 1.0, log=True)
    assert np.isfinite(y).all()
    assert x[y.argmax()] == pytest.approx(0.1, rel=0.02)


def test_a_plain_density_loses_nothing_at_zero() -> None:
    values = np.abs(stream("test", "half normal").normal(size=4000))
    x, y = distances.density(values, 0.0, 6.0, 600)
    step = x[1] - x[0]
    assert y.sum() * step == pytest.approx(1)
    # Of |N(0, 1)|: 2 phi(0). Smoothing over a width of 0.2 flattens the top by 2 %.
    assert y[0] == pytest.approx(math.sqrt(2 / math.pi), rel=0.08)


def test_a_density_between_two_ends_is_the_share_between_them() -> None:
    values = np.concatenate([np.full(300, 0.5), np.full(100, 7.0)])
    x, y = distances.density(values, 0.0, 1.0, 600)
    assert y.sum() * (x[1] - x[0]) == pytest.approx(0.75)
    assert distances.density(np.array([np.nan]), 0.0, 1.0)[1].max() == 0
