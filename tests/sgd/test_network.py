"""Runs that have not met their difference yet are trained once: the same numbers, for less."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from conftest import make_problem

from sordino.data import neighbours as nb
from sordino.models import ObjectiveSpec, build
from sordino.randomness import SeededStreams
from sordino.sgd import TrainSpec, batches, prepare, train, train_chunks
from sordino.sgd.grid import Need, Plan, make_plan
from sordino.sgd.kernels.network import Branches

NETWORKS = {
    "mlp": (ObjectiveSpec("mlp", hidden=4), {}),
    "mlp, once permuted": (ObjectiveSpec("mlp", hidden=4), {"order": "permute-once"}),
    "mlp, last batches dropped": (ObjectiveSpec("mlp", hidden=4), {"drop_last": True}),
    "mlp, averaged": (ObjectiveSpec("mlp", hidden=4), {"average_every": 1, "radius": 1.5}),
    "mlp, private": (
        ObjectiveSpec("mlp", hidden=4, l2=0.01),
        {"max_grad_norm": 0.3, "noise_multiplier": 0.5, "order": "poisson", "sample_rate": 0.05},
    ),
    "cnn": (ObjectiveSpec("cnn", hidden=3, classes=2), {"learning_rate": 0.1}),
}
SEEDS = (0, 3, 4)
LESS_THAN_A_PASS, SEVERAL_PASSES = 7, 23  # steps of 6, over 60 slots


def make_spec(name, steps, **more):
    objective, settings = NETWORKS[name]
    values = {"learning_rate": 0.5, "batch_size": 6, "steps": steps, "dtype": "float64"}
    return TrainSpec(objective, **(values | settings | more))


@pytest.fixture(scope="module")
def images():
    return dataclasses.replace(make_problem(61, 64), image_shape=(8, 8))


@pytest.fixture(scope="module")
def neighbours(images):
    """The dataset itself, and eight that replace one record, two of them the same slot."""
    own = np.array([[0.05], [0.03]]) * np.random.default_rng(1).standard_normal((2, 64))
    return nb.replace(
        images.take(range(1, 61)),
        [0, 9, 20, 31, 42, 53, 59, 59],
        np.concatenate([images.X[[0] * 6], own]),
        np.concatenate([images.y[[0] * 6], [1, 0]]),
    )


def first_met(spec, neighbours, seed):
    """The step, from 1, whose batch first holds each neighbour's slot; infinity if none does."""
    met = np.full(len(neighbours), np.inf)
    step, left = 0, spec.total_steps(neighbours.size)
    for epoch in batches.epochs(spec, neighbours.size, [seed], SeededStreams(), -7):
        for batch in epoch.index[0][:left]:
            step += 1
            met[np.isin(neighbours.slot, batch) & np.isinf(met)] = step
        left -= len(epoch.index[0])
        if left <= 0:
            return met
    raise AssertionError


def real_copy(neighbours, k):
    """Dataset k on its own: it has no neighbours, so nothing is shared."""
    data = neighbours.dataset
    X, y = data.X.copy(), data.y.copy()
    weights = None if data.weights is None else data.weights.copy()
    if neighbours.slot[k] >= 0:
        slot, own = neighbours.slot[k], neighbours.occupant[k] - data.rows
        X[slot], y[slot] = neighbours.extra_X[own], neighbours.extra_y[own]
        if weights is not None:
            weights[slot] = neighbours.extra_weights[own]
    return dataclasses.replace(data, X=X, y=y, weights=weights)


@pytest.mark.parametrize("steps", [LESS_THAN_A_PASS, SEVERAL_PASSES])
@pytest.mark.parametrize("name", NETWORKS)
def test_runs_met_early_late_or_never_are_the_runs_on_real_copies(name, steps, neighbours):
    spec = make_spec(name, steps)
    checkpoints = [*range(steps + 1)]
    got = train(spec, neighbours.dataset, SEEDS, neighbours, checkpoints, plan=Plan(3, 9))
    for k in range(len(neighbours)):
        want = train(spec, real_copy(neighbours, k), SEEDS, checkpoints=checkpoints)[:, 0]
        np.testing.assert_allclose(got[:, k], want, rtol=0, atol=1e-10)
    met = np.stack([first_met(spec, neighbours, seed) for seed in SEEDS])
    assert (met < 3).any()  # early
    if steps == LESS_THAN_A_PASS:
        assert np.isinf(met[:, 1:]).any()  # never
        assert ((met > 4) & np.isfinite(met)).any()  # late
    base = int(np.flatnonzero(neighbours.slot < 0)[0])
    for s, k, t in itertools.product(range(3), range(len(neighbours)), checkpoints):
        same = np.array_equal(got[s, k, t], got[s, base, t])
        # The small CNN may see nothing in an image: then only another label makes a difference.
        assert same == (t < met[s, k]) or (same and name == "cnn")


@pytest.mark.parametrize("name", ["mlp", "mlp, private", "cnn"])
def test_a_chunk_has_its_bytes_alone_or_among_others_and_whatever_is_kept(name, neighbours):
    spec = make_spec(name, SEVERAL_PASSES, dtype="float32")

    def trained(checkpoints, some=slice(None)):
        args = (neighbours.dataset, range(4), neighbours, checkpoints)
        grid = prepare(spec, *args, plan=Plan(2, 4), threads=2)
        done = train_chunks(grid, only=grid.chunks()[some])
        return {(c.seeds.start, c.neighbours.start): c.weights[:, :, -1] for c in done}

    whole = trained([SEVERAL_PASSES])
    assert len(whole) == 6
    for other in (trained([SEVERAL_PASSES], slice(2, 5)), trained([1, 4, SEVERAL_PASSES])):
        for place, weights in other.items():
            np.testing.assert_array_equal(weights, whole[place])


@pytest.mark.parametrize("first", [0, 1])
def test_a_run_costs_nothing_until_it_is_met(first, neighbours, monkeypatch):
    """Among the datasets is the one itself, or not: then the common run ends with the last."""
    trained = []
    monkeypatch.setattr(Branches, "add_up", lambda self: trained.append(self.params[0].shape[1]))
    some = neighbours.take(slice(first, first + 4))
    spec = make_spec("mlp", SEVERAL_PASSES)
    for seed in SEEDS:
        trained.clear()
        train(spec, neighbours.dataset, [seed], some)
        met = first_met(spec, some, seed)
        parted = [int((met <= step).sum()) for step in range(1, SEVERAL_PASSES + 1)]
        assert trained == [many + int(many < len(some)) for many in parted]
        assert trained[0] < 4 == trained[-1]


def test_a_lane_starts_from_the_common_one_with_its_sum_and_the_common_one_ends():
    objective = build(ObjectiveSpec("mlp", hidden=2), 3)
    start = torch.arange(22.0).view(2, 11)
    branches = Branches(objective, start, 2, shares=True, averages=True)
    branches.add_up()
    assert branches.part_ways(np.array([1]), np.array([0])).tolist() == [1]
    assert branches.params[0].shape[1] == 2
    branches.params[1][1, 1] = 100.0
    branches.add_up()
    assert branches.part_ways(np.array([1, 1]), np.array([0, 1])).tolist() == [1, 2]
    branches.part_ways(np.array([0, 0]), np.array([1, 0]))  # nobody is left
    assert not branches.shares
    assert branches.params[0].shape[1] == 2
    weights = branches.weights()
    np.testing.assert_array_equal(weights[0], start[[0, 0]])
    np.testing.assert_array_equal(weights[1, 1], start[1])
    np.testing.assert_array_equal(weights[1, 0], [*start[1, :8], *[100.0] * 3])
    branches.average(2)
    np.testing.assert_array_equal(branches.weights()[0], start[[0, 0]])
    np.testing.assert_array_equal(branches.weights()[1, 0, 8:], (start[1, 8:] + 100) / 2)


def test_a_seeds_datasets_stay_together_where_they_are_rarely_met():
    """Cut apart, each part would train the common run again."""

    def plan(steps, kind="cnn"):
        objective = ObjectiveSpec(kind)
        need = Need(
            spec=TrainSpec(objective, 0.1, 32, steps=steps),
            objective=build(objective, 784, (28, 28)),
            slots=54_000,
            seeds=40,
            neighbours=41,
            checkpoints=10,
            threads=2,
            table=0,
        )
        return make_plan(need, memory=10**12)

    assert plan(1000) == Plan(1, 41)
    assert plan(10).neighbours == 41
    assert plan(20_000).neighbours < 41  # eleven passes: little is shared, and chunks are long


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("name", ["mlp", "mlp, private", "cnn"])
def test_a_weighted_step_is_the_sum_of_weighted_gradients_each_clipped(name, clip, images):
    """v g clipped to C, record by record, where g is that of the record alone."""
    records = images.take(range(6))
    weights = np.array([1.0, 0.5, 0.0, 1e-9, 0.9, 0.2])
    how = {"order": "fixed", "sample_rate": None, "init": "fixed", "noise_multiplier": 0.0}
    spec = make_spec(name, 1, max_grad_norm=clip, **how)
    data = dataclasses.replace(records, weights=weights)
    start, after = train(spec, data, [0], checkpoints=[0, 1])[0, 0]
    objective = build(spec.objective, 64, (8, 8))
    total = np.zeros_like(start)
    for row, v in enumerate(weights):
        one = records.take([row])
        gradient = v * objective.gradient(start, one.X, one.y) - v * spec.objective.l2 * start
        total += gradient * min(1.0, (clip or np.inf) / max(np.linalg.norm(gradient), 1e-300))
    rate = spec.schedule.at(1, 1)
    want = start - rate * (total / 6 + spec.objective.l2 * start)
    np.testing.assert_allclose(after, want, rtol=0, atol=1e-10)
    if clip is not None:  # and it does bind
        plain = train(dataclasses.replace(spec, max_grad_norm=None), data, [0])[0, 0, 0]
        assert np.linalg.norm(plain - after) > 1e-3


@pytest.mark.parametrize("name", NETWORKS)
def test_weighted_runs_are_the_runs_on_real_copies(name, neighbours):
    rng = np.random.default_rng(2)
    data = dataclasses.replace(neighbours.dataset, weights=rng.uniform(size=60))
    how = {"dataset": data, "extra_weights": rng.uniform(size=8)}
    weighted = dataclasses.replace(neighbours, **how)
    spec = make_spec(name, LESS_THAN_A_PASS)
    together = train(spec, data, SEEDS, weighted)
    for k in (0, 1, 7, 8):
        alone = train(spec, real_copy(weighted, k), SEEDS)
        np.testing.assert_allclose(together[:, k], alone[:, 0], rtol=0, atol=1e-10)
