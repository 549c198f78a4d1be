"""Full batches of a softmax: each run the one it is alone, by the textbook, and no batch copied."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from sordino.data import neighbours as nb
from sordino.data.dataset import Dataset
from sordino.models import ObjectiveSpec
from sordino.models import softmax as model
from sordino.randomness import SeededStreams
from sordino.sgd import Schedule, TrainSpec, train
from sordino.sgd.grid import Plan
from sordino.sgd.kernels import full_softmax, network

ROWS, FEATURES, CLASSES, STEPS = 131, 5, 4, 9
NOISE = {"max_grad_norm": 1.5, "noise_multiplier": 1.5}
SPECS = {
    "plain": {},
    "clip": {"max_grad_norm": 0.2},
    "noise": NOISE,
    "noise, clipped": {**NOISE, "max_grad_norm": 0.2},
    "radius": {"radius": 0.3, **NOISE},
    "averages": {"average_every": 3, "restart_every": 3, "learning_rate": Schedule.per_epoch(1.0)},
    "divided by what is there": {"fixed_divisor": False},
    "divided by more": {"batch_size": 200, "fixed_divisor": True},
}


def problem(rows=ROWS, features=FEATURES, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.0000001
    return Dataset(X, rng.integers(CLASSES, size=rows), norm_bound=1.0)


def weighted(dataset):
    """Weights in [0, 1], some of them 0 and 1."""
    weights = np.clip(np.random.default_rng(1).uniform(-0.2, 1.2, dataset.rows), 0, 1)
    return replace(dataset, weights=weights)


def make_spec(name, **more):
    values = {"learning_rate": 0.7, "batch_size": ROWS, "steps": STEPS, "order": "fixed"}
    values |= {"dtype": "float64", "objective": ObjectiveSpec("softmax", l2=0.01, classes=CLASSES)}
    return TrainSpec(**(values | SPECS[name] | more))


def neighbours_of(dataset, kind):
    if kind == "zero out":
        return nb.zero_out(dataset, [0, 9, ROWS - 1])
    if kind == "only":
        return nb.only(dataset)
    weights = None if dataset.weights is None else np.array([1.0, 0.4, 0.0, 0.7])
    new = problem(4, seed=5).X, np.array([3, 0, 1, 2])
    return nb.replace(dataset, [0, 9, 9, ROWS - 1], *new, weights=weights)


def by_the_definition(spec, records, start, noise):
    """One run, one record at a time: (row, label), perhaps a weight, or None of a silent one."""
    w, since, update = start.reshape(CLASSES, -1).copy(), [], 0
    for step in range(STEPS):
        total = np.zeros_like(w)
        for row, label, *weight in (each for each in records if each is not None):
            x = np.append(row, 1.0)
            gradient = np.outer(softmax(w @ x) - np.eye(CLASSES)[label], x) * np.prod(weight)
            if spec.max_grad_norm is not None:
                gradient *= min(1.0, spec.max_grad_norm / max(np.linalg.norm(gradient), 1e-300))
            total += gradient
        if noise is not None:
            total += spec.noise_multiplier * spec.max_grad_norm * noise[step].reshape(w.shape)
        divisor = spec.batch_size if spec.divides_by_batch_size else len(records)
        update += 1
        rate = spec.schedule.at(update, update)
        w = w - rate * (total / divisor + spec.objective.l2 * w)
        if spec.radius is not None:
            w *= min(1.0, spec.radius / np.linalg.norm(w))
        since.append(w)
        if spec.average_every and (step + 1) % spec.average_every == 0:
            w, since, update = np.mean(since, axis=0), [], 0
    return w.ravel()


@pytest.fixture(params=[1 << 17, 64])
def rows_together(request, monkeypatch):
    """All rows in one piece, or in some."""
    monkeypatch.setattr(model, "_NEAR", request.param)


@pytest.mark.parametrize("kind", ["replace", "zero out", "only"])
@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("of", [problem, lambda: weighted(problem())], ids=["alike", "weighted"])
def test_runs_together_equal_the_definition(name, kind, of, rows_together):
    spec, dataset = make_spec(name), of()
    neighbours, seeds = neighbours_of(dataset, kind), [0, 3]
    if spec.batch_size > ROWS:
        spec = make_spec(name, batch_size=ROWS)  # more than there are is refused
    got = train(spec, dataset, seeds, neighbours, [0, STEPS])
    size = CLASSES * (FEATURES + 1)
    for s, seed in enumerate(seeds):
        noise = SeededStreams().stream("noise", seed).standard_normal((STEPS, size))
        for k in range(len(neighbours)):
            given, more = dataset.weights, neighbours.extra_weights
            parts = (dataset.X, dataset.y, *(() if given is None else (given,)))
            records = [*zip(*parts, strict=True)]
            if neighbours.slot[k] != nb.UNCHANGED:
                own = neighbours.occupant[k] - dataset.rows
                record = None
                if own >= 0:
                    record = neighbours.extra_X[own], neighbours.extra_y[own]
                    record += () if more is None else (more[own],)
                records[neighbours.slot[k]] = record
            drawn = noise if spec.noise_multiplier else None
            want = by_the_definition(spec, records, got[s, k, 0], drawn)
            np.testing.assert_allclose(got[s, k, 1], want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["noise", "clip", "averages"])
@pytest.mark.parametrize("of", [problem, lambda: weighted(problem())], ids=["alike", "weighted"])
def test_they_equal_runs_by_batches_whatever_the_grouping(name, of, monkeypatch):
    spec, dataset = make_spec(name), of()
    grid = (spec, dataset, range(7), neighbours_of(dataset, "replace"), [1, STEPS])
    whole = train(*grid)
    for plan in (Plan(1, 1), Plan(3, 2), Plan(7, 5)):
        np.testing.assert_allclose(train(*grid, plan=plan), whole, rtol=0, atol=1e-10)
    monkeypatch.setattr(full_softmax, "applies", lambda *_: False)
    np.testing.assert_allclose(train(*grid), whole, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["replace", "only"])
def test_threads_do_not_change_a_byte(kind, rows_together):
    spec, dataset = make_spec("noise"), problem()
    grid = (spec, dataset, range(3), neighbours_of(dataset, kind))
    alone, shared = (train(*grid, plan=Plan(3, 5), threads=many) for many in (1, 3))
    np.testing.assert_array_equal(shared, alone)


def test_no_batch_is_copied(monkeypatch):
    """A step of all rows reads them where they lie."""
    monkeypatch.setattr(network, "descend", None)
    rows = 40_000
    spec, dataset = make_spec("noise", batch_size=rows), problem(rows, 40)
    tracemalloc.start()
    train(spec, dataset, [0], memory=3 * dataset.X.nbytes)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < dataset.X.nbytes  # numpy's: orders, labels, noise; no rows
