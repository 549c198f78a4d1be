"""What the engine must show on real data: Hyland & Tople v2's spread of weights, and a twin."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from sordino.data import load
from sordino.data import neighbours as nb
from sordino.objectives import ObjectiveSpec, build
from sordino.seeding import stream
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
