"""Initial weights: Glorot uniform with the fans that Keras counts, and biases of zero."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sordino.models import ObjectiveSpec, build
from sordino.models.batched import glorot

# For each parameter block, in order: how many numbers, fan in, fan out; None where it is a bias.
# Keras counts a convolution's fans over its field: channels * 3 * 3 in, filters * 3 * 3 out.
LAYOUTS = {
    "logistic": (ObjectiveSpec("logistic"), 50, None, [(50, (50, 1)), (1, None)]),
    "no intercept": (ObjectiveSpec("huber-svm", intercept=False), 50, None, [(50, (50, 1))]),
    "cnn": (
        ObjectiveSpec("cnn", hidden=10, classes=10),
        784,
        (28, 28),
        [
            (72, (1 * 9, 8 * 9)),
            (8, None),
            (256, (8 * 4, 8 * 4)),
            (8, None),
            (256, (8 * 4, 8 * 4)),
            (8, None),
            (720, (72, 10)),
            (10, None),
            (100, (10, 10)),
            (10, None),
        ],
    ),
    "colour cnn": (
        ObjectiveSpec("cnn", hidden=5, classes=3),
        192,
        (8, 8, 3),
        [
            (216, (3 * 9, 8 * 9)),
            (8, None),
            (256, (32, 32)),
            (8, None),
            (256, (32, 32)),
            (8, None),
            (40, (8, 5)),
            (5, None),
            (15, (5, 3)),
            (3, None),
        ],
    ),
}


def is_uniform(draws, fan_in, fan_out):
    """Glorot's bound is reached and not passed; mean, variance and shape are a uniform's."""
    draws = np.asarray(draws).ravel()
    limit = math.sqrt(6 / (fan_in + fan_out))
    many = draws.size
    assert np.abs(draws).max() <= limit
    # The largest of `many` falls short of the limit by more than 20/many of it once in e^20.
    assert np.abs(draws).max() > limit * (1 - 20 / many)
    # Mean 0, standard deviation limit/sqrt(3): 5 standard errors, and a fixed stream.
    assert abs(draws.mean()) < 5 * limit / math.sqrt(3 * many)
    # x^2 has mean limit^2/3 and standard deviation limit^2 sqrt(4/45): 0.894 of the mean.
    ratio = np.square(draws).mean() / (limit**2 / 3)
    assert ratio == pytest.approx(1, abs=5 * 0.894 / math.sqrt(many))
    assert stats.kstest(draws, stats.uniform(-limit, 2 * limit).cdf).pvalue > 1e-6


@pytest.mark.parametrize("name", LAYOUTS)
def test_weights_are_glorot_uniform_and_biases_zero(name):
    spec, features, image_shape, blocks = LAYOUTS[name]
    objective = build(spec, features, image_shape)
    rng = np.random.default_rng(0)
    draws = np.stack([objective.init(rng) for _ in range(300)])
    assert draws.shape == (300, sum(size for size, _ in blocks))
    at = 0
    for size, fans in blocks:
        block = draws[:, at : at + size]
        at += size
        if fans is None:
            assert not block.any()
        else:
            is_uniform(block, *fans)


@pytest.mark.parametrize(("features", "hidden"), [(50, 10), (100, 8), (3, 1)])
def test_the_mlps_two_layers_each_have_their_own_fans(features, hidden):
    objective = build(ObjectiveSpec("mlp", hidden=hidden), features)
    rng = np.random.default_rng(0)
    draws = np.stack([objective.init(rng) for _ in range(2000)])
    first = draws[:, : hidden * (features + 1)].reshape(-1, hidden, features + 1)
    second = draws[:, hidden * (features + 1) :]
    is_uniform(first[..., :-1], features, hidden)
    is_uniform(second[:, :-1], hidden, 1)
    assert not first[..., -1].any()
    assert not second[:, -1].any()


@pytest.mark.parametrize("kind", ["logistic", "least-squares", "mlp", "cnn"])
def test_the_same_generator_state_gives_the_same_weights(kind):
    objective = build(ObjectiveSpec(kind), 64, (8, 8))
    one, other = np.random.default_rng(7), np.random.default_rng(7)
    first = objective.init(one)
    assert first.dtype == np.float64
    np.testing.assert_array_equal(first, objective.init(other))
    second = objective.init(one)  # the state has moved on
    drawn = first != 0
    assert drawn.sum() > 0.9 * len(first)
    assert (first[drawn] != second[drawn]).all()
    np.testing.assert_array_equal(second, objective.init(other))


def test_entries_and_layers_are_not_copies_of_each_other():
    """Two hidden units that start equal stay equal, and the network is smaller than it says."""
    for kind in ("mlp", "cnn"):
        weights = build(ObjectiveSpec(kind), 64, (8, 8)).init(np.random.default_rng(0))
        drawn = weights[weights != 0]
        assert len(np.unique(drawn)) == len(drawn)


def test_glorot_by_itself():
    draws = glorot(np.random.default_rng(1), 3, 5, (40, 1000))
    assert draws.shape == (40, 1000)
    is_uniform(draws, 3, 5)
