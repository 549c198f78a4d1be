"""What the engine must show on real data: Hyland & Tople v2's spread of weights, and a twin."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from sordino.data import load
from sordino.data import neighbours as nb
from sordino.models import ObjectiveSpec, build
from sordino.randomness import stream
from sordino.sgd import TrainSpec, train


def spread(weights):
    """sigma_i of v2: deviation from each dataset's mean over seeds, over all runs and weights."""
    return float((weights - weights.mean(axis=0, keepdims=True)).std())


@pytest.mark.real_data
def test_mnist_binary_has_the_papers_spread_and_accuracy(data_dir):
    """v2 Table 3 (sigma 0.085, varying initialisation) and Table 4 (accuracy 0.953).

    98 seeds and 100 neighbours, as v2 Table 2 counts 19,600 experiments. Over ten sets of 98
    seeds sigma is 0.0865 +- 0.0008, so 3% of 0.085 is about one such deviation above the mean.
    """
    splits = load("mnist-binary", data_dir=data_dir)
    data, recipe = splits.train, splits.recipe
    rows = 1 + stream("neighbours", "mnist-binary").choice(data.rows - 1, 100, replace=False)
    neighbours = nb.replace_by_first(data, rows)
    spec = TrainSpec(
        ObjectiveSpec("logistic"), recipe.learning_rate, recipe.batch_size, steps=recipe.steps
    )
    assert (spec.schedule.rate, spec.batch_size, spec.steps) == (0.5, 32, 1850)
    varying = train(spec, data, range(98), neighbours)[:, :, 0]
    assert spread(varying) == pytest.approx(0.085, rel=0.03)
    fixed = train(dataclasses.replace(spec, init="fixed"), data, range(98), neighbours)[:, :, 0]
    assert 0.019 < spread(fixed) < 0.023
    model = build(spec.objective, data.features)
    accuracy = model.accuracy(varying.reshape(-1, 51), splits.test.X, splits.test.y)
    assert accuracy.mean() == pytest.approx(0.953, abs=0.002)


@pytest.mark.slow
def test_digits_have_the_spread_of_a_plain_pytorch_loop():
    """The small twin: the same distribution of weights as the loop that people write."""
    data = load("digits/binary").train
    spec = TrainSpec(ObjectiveSpec("logistic"), 0.5, 32, steps=150)
    ours = train(spec, data, range(600))[:, 0, 0]
    plain = np.stack([plain_loop(data, spec, seed) for seed in range(60)])
    # 60 runs of 65 weights, most of whose variance is the independent start: the relative
    # standard error of the spread is about 1 / sqrt(2 * 60 * 40) = 1.4%; four of them.
    assert spread(ours) == pytest.approx(spread(plain), rel=0.06)
    error = np.sqrt(ours.var(axis=0) / 600 + plain.var(axis=0) / 60)
    # 65 means compared at once: 4.5 deviations are passed by chance once in 2,000 times.
    assert (np.abs(ours.mean(axis=0) - plain.mean(axis=0)) < 4.5 * error).all()


def plain_loop(data, spec, seed):
    X, y = torch.tensor(data.X), torch.tensor(data.y, dtype=torch.float32)
    generator = torch.Generator().manual_seed(seed)
    model = torch.nn.Linear(data.features, 1)
    torch.nn.init.xavier_uniform_(model.weight, generator=generator)
    torch.nn.init.zeros_(model.bias)
    optimiser = torch.optim.SGD(model.parameters(), lr=spec.schedule.rate)
    loss, taken = torch.nn.BCEWithLogitsLoss(), 0
    while True:
        for batch in torch.randperm(len(X), generator=generator).split(spec.batch_size):
            optimiser.zero_grad()
            loss(model(X[batch]).squeeze(1), y[batch]).backward()
            optimiser.step()
            taken += 1
            if taken == spec.steps:
                with torch.no_grad():
                    return torch.cat([model.weight.flatten(), model.bias]).numpy()


def test_neighbours_of_the_same_seed_stay_close_and_seeds_do_not():
    """v2 Figure 1 in small: the seed moves the weights much more than one record does."""
    data = load("digits/binary").train
    spec = TrainSpec(ObjectiveSpec("logistic"), 0.5, 32, steps=200)
    weights = train(spec, data, range(20), nb.replace_by_first(data, range(1, 31)))[:, :, 0]
    by_data = np.linalg.norm(weights[:, 1:] - weights[:, :1], axis=2)
    by_seed = np.linalg.norm(weights[1:] - weights[:1], axis=2)
    assert by_data.max() < by_seed.min()
    # Wu et al.'s bound for convex losses, passes rounded up, the smallest batch (docs/math.md 3.2).
    steps_per_epoch = -(-(data.rows - 1) // 32)
    last = (data.rows - 1) - 32 * (steps_per_epoch - 1)
    visits = 200 // steps_per_epoch / last + 1 / 32
    assert by_data.max() <= 2 * (2 * np.sqrt(2) * 0.5 * visits)  # two replaced records apart
    assert by_data.min() > 0


# v2 Table 3, "Neural networks", sigma_i(D).
NETWORK_SPREAD = {"cifar2": 0.4433, "mnist-binary": 0.713, "adult": 0.288, "forest": 0.554}


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize("name", NETWORK_SPREAD)
def test_networks_have_about_the_papers_spread(name, data_dir):
    """The MLP's size, start and settings, by what comes out of them.

    Between sets of 50 seeds ours varies by less than 1% (eight sets on adult and cifar2). It is
    0.478, 0.678, 0.277 and 0.560, up to 8% from the paper's, and why is not known: the paper
    prints too little of its preprocessing and training to tell. 10% lets that pass, but not a
    wrong rate, size or start.
    """
    splits = load(name, data_dir=data_dir)
    data, network = splits.train, splits.recipe.network
    spec = TrainSpec(
        ObjectiveSpec("mlp", hidden=network.hidden_size),
        network.learning_rate,
        network.batch_size,
        steps=network.steps,
    )
    weights = train(spec, data, range(50), nb.replace_by_first(data, range(1, 5)))[:, :, 0]
    assert spread(weights) == pytest.approx(NETWORK_SPREAD[name], rel=0.10)


@pytest.mark.slow
@pytest.mark.real_data
def test_the_cnn_reaches_the_papers_accuracy(data_dir):
    """v2 D.3: 93 +- 2% after 1,000 steps of batch 32 at rate 0.1, over seeds."""
    splits = load("mnist", data_dir=data_dir)
    recipe = splits.recipe
    assert (recipe.learning_rate, recipe.batch_size, recipe.steps) == (0.1, 32, 1000)
    spec = TrainSpec(ObjectiveSpec("cnn"), 0.1, 32, steps=1000)
    weights = train(spec, splits.train, range(10))[:, 0, 0]
    accuracy = build(spec.objective, 784, (28, 28)).accuracy(weights, splits.test.X, splits.test.y)
    # The mean of ten runs with a deviation of 2% has a standard error of 0.7%; three of them.
    assert accuracy.mean() == pytest.approx(0.93, abs=0.02)


@pytest.mark.slow
def test_private_runs_on_digits_have_the_spread_of_a_plain_private_loop():
    """DP-SGD from the definition, in numpy, against the engine: the same distribution."""
    data = load("digits/binary").train
    spec = TrainSpec(
        ObjectiveSpec("logistic"),
        0.5,
        32,
        steps=120,
        order="poisson",
        max_grad_norm=0.5,
        noise_multiplier=2.0,
    )
    ours = train(spec, data, range(2000))[:, 0, 0]
    plain = np.stack([plain_private_loop(data, spec, seed) for seed in range(300)])
    # 300 runs of 65 weights, all directions noisy: the spread's relative standard error is
    # about 1 / sqrt(2 * 300 * 50) = 0.6%; four of them.
    assert spread(ours) == pytest.approx(spread(plain), rel=0.025)
    error = np.sqrt(ours.var(axis=0) / 2000 + plain.var(axis=0) / 300)
    assert (np.abs(ours.mean(axis=0) - plain.mean(axis=0)) < 4.5 * error).all()


def plain_private_loop(data, spec, seed):
    rng = np.random.default_rng([seed, 7])
    X = np.hstack([data.X.astype(np.float64), np.ones((data.rows, 1))])
    limit = np.sqrt(6 / (data.features + 1))
    w = np.append(rng.uniform(-limit, limit, data.features), 0.0)
    for _ in range(spec.steps):
        batch = rng.random(data.rows) < spec.batch_size / data.rows
        rows = X[batch]
        gradients = (1 / (1 + np.exp(-rows @ w)) - data.y[batch])[:, None] * rows
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        total = (gradients * np.minimum(1, spec.max_grad_norm / norms)).sum(axis=0)
        total += spec.noise_multiplier * spec.max_grad_norm * rng.standard_normal(len(w))
        w -= spec.schedule.rate * total / spec.batch_size
    return w
