"""Laws 1 and 2: a grid of runs equals the loop of single runs, whatever the grouping."""

from __future__ import annotations

import dataclasses
import itertools
import time

import numpy as np
import pytest
import torch
from conftest import make_problem, make_weighted
from reference import sgd

from sordino.data import neighbours as nb
from sordino.errors import InvalidArgument
from sordino.models import build
from sordino.models.constants import ObjectiveSpec
from sordino.randomness import OsStreams, SeededStreams
from sordino.sgd import (
    DivergenceWarning,
    Interrupted,
    Schedule,
    TrainSpec,
    prepare,
    train,
    train_chunks,
)
from sordino.sgd import batches as batches_module
from sordino.sgd.grid import Plan, chunk_bytes

LOGISTIC = ObjectiveSpec("logistic")

SPECS = {
    "plain": {},
    "huber": {"objective": ObjectiveSpec("huber-svm", l2=0.01, huber_width=0.3)},
    "squares": {"objective": ObjectiveSpec("least-squares"), "learning_rate": 0.1},
    "permute once": {"order": "permute-once", "objective": ObjectiveSpec("logistic", l2=0.1)},
    "fixed order": {"order": "fixed"},
    "drop last": {"drop_last": True},
    "poisson": {"order": "poisson", "sample_rate": 0.2},
    "poisson, rate from the sizes": {"order": "poisson"},
    "poisson, given rate": {"order": "poisson", "sample_rate": 0.3},
    "allocation": {"order": "allocation"},
    "allocation, given steps": {
        "order": "allocation",
        "steps_per_epoch": 9,
        "learning_rate": Schedule.per_epoch(2.0),
        "average_every": 2,
    },
    "private, allocation": {
        "max_grad_norm": 0.2,
        "noise_multiplier": 1.5,
        "order": "allocation",
        "steps_per_epoch": 30,
    },
    "clip": {"max_grad_norm": 0.2},
    "private": {
        "max_grad_norm": 0.2,
        "noise_multiplier": 1.5,
        "order": "poisson",
        "sample_rate": 0.2,
    },
    "private, shuffled": {"max_grad_norm": 0.2, "noise_multiplier": 0.5},
    "projected": {"radius": 0.3},
    "rsgd-ar": {
        "learning_rate": Schedule.per_epoch(2.0),
        "average_every": 2,
        "restart_every": 2,
        "order": "permute-once",
        "objective": ObjectiveSpec("logistic", l2=0.05),
    },
    "average without restart": {
        "learning_rate": Schedule.per_epoch(2.0),
        "average_every": 2,
    },
    "strongly convex": {
        "learning_rate": Schedule.strongly_convex_rate(0.75, 0.25),
        "objective": ObjectiveSpec("logistic", l2=0.25),
        "restart_every": 3,
    },
    "fixed divisor": {"fixed_divisor": True},
}


def use_regime(regime, monkeypatch):
    """Single steps, shared products, or the torch loop of the networks: all must agree."""
    if regime == "torch":
        monkeypatch.setattr("sordino.sgd.engine._by_torch", lambda spec: True)
        # Compiled loops want rows followed by zeros, torch does not.
        monkeypatch.setattr("sordino.sgd.table._columns", lambda objective: objective.parameters)
    else:
        monkeypatch.setattr("sordino.sgd.kernels.linear.FEW", 1000 if regime == "deep" else 0)


def make_spec(name, **more):
    values = {
        "objective": LOGISTIC,
        "learning_rate": 0.5,
        "batch_size": 8,
        "steps": 23,
        "dtype": "float64",
    }
    return TrainSpec(**(values | SPECS[name] | more))


def records_of(dataset, neighbours, k):
    """Materialise dataset k, slot by slot: the copy that the engine never makes."""
    rows = [*zip(*_parts(dataset.X, dataset.y, dataset.weights), strict=True)]
    if neighbours.extra_X is not None:
        extra = neighbours.extra_X, neighbours.extra_y, neighbours.extra_weights
        rows += [*zip(*_parts(*extra), strict=True)]
    silent = (np.zeros(dataset.features), None)
    slots = [None if m == nb.EMPTY else rows[m] for m in neighbours.members]
    if neighbours.slot[k] != nb.UNCHANGED:
        new = neighbours.occupant[k]
        slots[neighbours.slot[k]] = {nb.EMPTY: None, nb.SILENT: silent}.get(new) or (
            rows[new] if new >= 0 else None
        )
    return slots


def _parts(X, y, weights):
    return (X, y) if weights is None else (X, y, weights)


def slot_batches(spec, slots, seed):
    """The engine's order for one seed, as lists of slots, epoch by epoch, cut to its steps."""
    nothing, left, out = -7, spec.total_steps(slots), []
    for epoch in batches_module.epochs(spec, slots, [seed], SeededStreams(), nothing):
        batches = [[int(i) for i in row if i != nothing] for row in epoch.index[0]]
        out.append(batches[:left])
        left -= len(out[-1])
        if not left:
            return out
    raise AssertionError


def every_kind_of_neighbour(dataset):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((3, dataset.features))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.0000001
    y = np.array([1, 0, 1]) if dataset.y.dtype.kind == "i" else rng.standard_normal(3)
    weights = None if dataset.weights is None else np.array([1.0, 0.3, 0.0])
    return {
        "first": nb.replace_by_first(dataset, [1, 5, 5, 36, 12]),
        "replace": nb.replace(dataset, [0, 9, 9], X, y, weights=weights),
        "remove": nb.remove(dataset, [3, 30]),
        "zero out": nb.zero_out(dataset, [3, 30]),
        "add": nb.add(dataset, X, y),
        "only": nb.only(dataset),
    }


@pytest.mark.parametrize("regime", ["deep", "wide", "torch"])
@pytest.mark.parametrize("kind", ["first", "replace", "zero out", "remove", "add", "only"])
@pytest.mark.parametrize("name", SPECS)
def test_a_grid_equals_the_loop_of_single_runs(name, kind, regime, monkeypatch):
    use_regime(regime, monkeypatch)
    spec = make_spec(name)
    dataset = make_problem(37, 5, real_targets=spec.objective.kind == "least-squares")
    if kind in ("remove", "add") and not spec.draws_by_public_numbers:
        with pytest.raises(InvalidArgument, match="for added or removed records"):
            train(spec, dataset, [0], every_kind_of_neighbour(dataset)[kind])
        return
    check_against_the_loop(spec, dataset, every_kind_of_neighbour(dataset)[kind])


WEIGHTED = [*((name, "replace") for name in SPECS), *(("private", k) for k in ("add", "zero out"))]


@pytest.mark.parametrize("regime", ["deep", "wide", "torch"])
@pytest.mark.parametrize(("name", "kind"), WEIGHTED)
def test_a_weighted_grid_equals_the_loop_of_single_runs(name, kind, regime, monkeypatch):
    use_regime(regime, monkeypatch)
    spec = make_spec(name)
    dataset = make_weighted(37, 5, real_targets=spec.objective.kind == "least-squares")
    check_against_the_loop(spec, dataset, every_kind_of_neighbour(dataset)[kind])


def test_a_weighted_batch_too_large_for_the_cache_equals_the_loop():
    spec = make_spec("clip", batch_size=300, steps=4)
    dataset = make_weighted(601, 5)
    neighbours = nb.replace(dataset, [4], -dataset.X[4:5], dataset.y[4:5])
    check_against_the_loop(spec, dataset, neighbours, [1, 4])


def check_against_the_loop(spec, dataset, neighbours, checkpoints=(1, 2, 5, 17, 23)):
    seeds = [0, 1, 7]
    got = train(spec, dataset, seeds, neighbours, checkpoints)
    for s, k in itertools.product(range(len(seeds)), range(len(neighbours))):
        start = _initial(spec, dataset, seeds[s])
        noise = None
        if spec.noise_multiplier:
            noise = SeededStreams().stream("noise", seeds[s]).standard_normal((23, 6))
        batches = slot_batches(spec, neighbours.size, seeds[s])
        trail = sgd(spec, records_of(dataset, neighbours, k), batches, start, noise)
        want = [trail[step - 1] for step in checkpoints]
        # The two differ by the order of additions alone: a few hundred float64 roundings.
        np.testing.assert_allclose(got[s, k], want, rtol=0, atol=1e-10)


def _initial(spec, dataset, seed):
    objective = build(spec.objective, dataset.features)
    return objective.init(SeededStreams().stream("initial weights", seed))


NETWORKS = {
    "mlp": (ObjectiveSpec("mlp", hidden=4), {}),
    "mlp clipped": (ObjectiveSpec("mlp", hidden=4), {"max_grad_norm": 0.3}),
    "mlp private": (
        ObjectiveSpec("mlp", hidden=4, l2=0.01),
        {"max_grad_norm": 0.3, "noise_multiplier": 0.5, "order": "poisson", "sample_rate": 0.2},
    ),
    "mlp allocation": (
        ObjectiveSpec("mlp", hidden=4, l2=0.01),
        {
            "max_grad_norm": 0.3,
            "noise_multiplier": 0.5,
            "order": "allocation",
            "steps_per_epoch": 9,
        },
    ),
    "mlp poisson": (ObjectiveSpec("mlp", hidden=4), {"order": "poisson", "sample_rate": 0.2}),
    "softmax": (ObjectiveSpec("softmax", classes=3), {}),
    "softmax private": (
        ObjectiveSpec("softmax", classes=3, l2=0.01),
        {"max_grad_norm": 0.3, "noise_multiplier": 0.5, "order": "poisson", "sample_rate": 0.2},
    ),
    "softmax allocation": (
        ObjectiveSpec("softmax", classes=2, intercept=False),
        {
            "max_grad_norm": 1.4,
            "noise_multiplier": 0.5,
            "order": "allocation",
            "steps_per_epoch": 9,
        },
    ),
    "cnn": (ObjectiveSpec("cnn", hidden=3, classes=2), {"learning_rate": 0.1}),
    "cnn clipped": (
        ObjectiveSpec("cnn", hidden=3, classes=2),
        {"learning_rate": 0.1, "max_grad_norm": 0.3, "order": "poisson", "sample_rate": 0.2},
    ),
}


@pytest.mark.parametrize("kind", ["first", "zero out", "remove", "add"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_on_a_grid_equal_single_runs_on_real_copies(name, kind):
    """The neighbour is trained alone, on a materialised copy of its data, and must agree."""
    objective, more = NETWORKS[name]
    if kind in ("remove", "add") and not {"sample_rate", "steps_per_epoch"} & set(more):
        return  # refused, as the test above holds
    base = make_problem(37, 64)
    dataset = dataclasses.replace(base, image_shape=(8, 8))
    neighbours = every_kind_of_neighbour(dataset)[kind]
    settings = {"learning_rate": 0.5, "batch_size": 8, "steps": 12, "dtype": "float64"} | more
    spec = TrainSpec(objective, **settings)
    got = train(spec, dataset, [0, 3], neighbours)[:, :, 0]
    for s, seed in enumerate([0, 3]):
        for k in range(len(neighbours)):
            want = _network_loop(spec, dataset, records_of(dataset, neighbours, k), seed)
            np.testing.assert_allclose(got[s, k], want, rtol=0, atol=1e-10)


def _network_loop(spec, dataset, records, seed):
    """One run by automatic differentiation of each example's loss on its own."""
    objective = build(spec.objective, dataset.features, dataset.image_shape)
    w = torch.tensor(objective.init(SeededStreams().stream("initial weights", seed)))
    noise = SeededStreams().stream("noise", seed)
    steps = [b for epoch in slot_batches(spec, len(records), seed) for b in epoch]
    for batch in steps:
        total, count = torch.zeros_like(w), 0
        for slot in batch:
            if records[slot] is None:
                continue
            x, y = records[slot]
            count += 1
            if y is None:  # silent: it counts, and has no gradient
                continue
            leaf = w.clone().requires_grad_()
            rows = objective.inputs(x[None], torch.float64)[None]
            label = torch.tensor([[float(y)]], dtype=torch.float64)
            objective.losses(objective.unflatten(leaf[None, None]), rows, label).sum().backward()
            g = leaf.grad
            if spec.max_grad_norm is not None:
                g = g * min(1.0, spec.max_grad_norm / max(float(g.norm()), 1e-300))
            total = total + g
        if spec.noise_multiplier:
            z_c = spec.noise_multiplier * spec.max_grad_norm
            total = total + z_c * torch.tensor(noise.standard_normal((1, len(w)))[0])
        divisor = spec.batch_size if spec.divides_by_batch_size else max(count, 1)
        w = w - spec.schedule.at(1, 1) * (total / divisor + spec.objective.l2 * w)
    return w.numpy()


@pytest.mark.parametrize("regime", ["deep", "wide", pytest.param("torch", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-5)])
@pytest.mark.parametrize("name", ["plain", "private", "private, allocation", "rsgd-ar", "huber"])
def test_grouping_and_threads_do_not_change_a_run(name, dtype, tolerance, regime, monkeypatch):
    use_regime(regime, monkeypatch)
    dataset = make_problem(61, 7)
    neighbours = nb.replace_by_first(dataset, range(1, 12))
    spec = make_spec(name, steps=300, dtype=dtype)
    reference = train(spec, dataset, range(9), neighbours)
    for plan, threads in [(Plan(1, 1), 1), (Plan(4, 3), 2), (Plan(9, 11), 3)]:
        other = train(spec, dataset, range(9), neighbours, plan=plan, threads=threads)
        np.testing.assert_allclose(other, reference, rtol=tolerance, atol=tolerance)
    alone = train(spec, dataset, [5], neighbours.take(slice(3, 4)))
    np.testing.assert_allclose(alone[0, 0], reference[5, 3], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-5)])
@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_grouping_does_not_change_a_network_over_its_first_50_steps(kind, dtype, tolerance):
    dataset = dataclasses.replace(make_problem(61, 64), image_shape=(8, 8))
    neighbours = nb.replace_by_first(dataset, range(1, 6))
    objective = ObjectiveSpec(kind, hidden=5, classes=2)
    spec = TrainSpec(objective, 0.1, 8, steps=50, dtype=dtype)
    reference = train(spec, dataset, range(4), neighbours)
    other = train(spec, dataset, range(4), neighbours, plan=Plan(1, 2), threads=1)
    np.testing.assert_allclose(other, reference, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("regime", ["deep", "wide", "torch"])
def test_law_2_a_clip_that_never_binds_and_no_noise_is_plain_sgd(regime, monkeypatch):
    use_regime(regime, monkeypatch)
    dataset = make_problem(61, 7)
    neighbours = nb.replace_by_first(dataset, range(1, 6))
    plain = train(make_spec("plain", steps=100), dataset, range(3), neighbours)
    for clip in (np.inf, 1e6):
        private = make_spec("plain", steps=100, max_grad_norm=clip, noise_multiplier=0.0)
        np.testing.assert_allclose(
            train(private, dataset, range(3), neighbours), plain, rtol=0, atol=1e-12
        )
    binding = train(make_spec("plain", steps=100, max_grad_norm=0.1), dataset, range(3), neighbours)
    assert np.abs(binding - plain).max() > 0.01


def test_law_2_for_networks():
    dataset = dataclasses.replace(make_problem(61, 64), image_shape=(8, 8))
    for kind in ("mlp", "cnn"):
        objective = ObjectiveSpec(kind, hidden=5, classes=2)
        plain = TrainSpec(objective, 0.1, 8, steps=30, dtype="float64")
        clipped = dataclasses.replace(plain, max_grad_norm=1e6)
        np.testing.assert_allclose(
            train(clipped, dataset, range(2)), train(plain, dataset, range(2)), rtol=0, atol=1e-10
        )


def test_noise_has_the_stated_scale():
    """Zero rows, so the weights are the noise alone: std = rate z C / B sqrt(steps)."""
    from sordino.data.dataset import Dataset

    objective = ObjectiveSpec("logistic", intercept=False)
    dataset = Dataset(np.zeros((20, 3)), np.arange(20) % 2, 1.0)
    spec = TrainSpec(
        objective, 0.5, 4, steps=16, max_grad_norm=0.7, noise_multiplier=2.0, init="given"
    )
    weights = train(spec, dataset, range(4000), initial_weights=np.zeros(3))
    want = 0.5 * 2.0 * 0.7 / 4 * 4
    # 12,000 normal draws: the standard error of the ratio is 1/sqrt(24,000) = 0.65%.
    assert weights.std() / want == pytest.approx(1, abs=0.026)
    assert abs(weights.mean()) < 4 * want / np.sqrt(12_000)


def test_initial_weights_vary_are_fixed_or_given(problem):
    spec = make_spec("plain", steps=1)
    at_start = {}
    for init in ("vary", "fixed"):
        chosen = dataclasses.replace(spec, init=init)
        at_start[init] = train(chosen, problem, range(5), checkpoints=[0])[:, 0, 0]
    assert np.unique(at_start["vary"], axis=0).shape[0] == 5
    assert np.unique(at_start["fixed"], axis=0).shape[0] == 1
    other = dataclasses.replace(spec, init="fixed", init_seed=1)
    assert (train(other, problem, [0], checkpoints=[0])[0, 0, 0] != at_start["fixed"][0])[:-1].all()
    given = np.arange(6.0)
    start = train(
        dataclasses.replace(spec, init="given"),
        problem,
        range(2),
        checkpoints=[0],
        initial_weights=given,
    )
    np.testing.assert_array_equal(start[:, 0, 0], [given, given])


def test_the_same_order_whatever_the_initial_weights(problem):
    """Fixed and varying initialisation must meet the same batches: with one start, one end."""
    vary = make_spec("plain")
    start = train(vary, problem, [3], checkpoints=[0])[0, 0, 0]
    given = dataclasses.replace(vary, init="given")
    np.testing.assert_array_equal(
        train(given, problem, [3], initial_weights=start), train(vary, problem, [3])
    )


def test_progress_counts_every_run_once(problem):
    seen = []
    neighbours = nb.replace_by_first(problem, [1, 2, 3])
    train(make_spec("plain"), problem, range(7), neighbours, plan=Plan(2, 2), progress=seen.append)
    assert [p.runs_done for p in seen] == sorted(p.runs_done for p in seen)
    assert seen[-1].runs_done == seen[-1].runs_total == 21
    assert len(seen) == 8
    assert all(p.runs_per_second > 0 for p in seen)


def test_ctrl_c_stops_between_chunks_and_loses_nothing(problem, monkeypatch):
    """An interrupt while waiting: chunks under way are finished, kept, and said to be."""
    from sordino.sgd import engine

    real, calls = engine.wait, []

    def interrupted(running, **how):
        calls.append(len(running))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(running, **how)

    whole = train(make_spec("plain"), problem, range(8), plan=Plan(1, 1), threads=2)
    monkeypatch.setattr(engine, "wait", interrupted)
    with pytest.raises(Interrupted) as stopped:
        train(make_spec("plain"), problem, range(8), plan=Plan(1, 1), threads=2)
    finished = stopped.value.finished
    assert 2 <= finished.sum() < 8
    np.testing.assert_array_equal(stopped.value.weights[finished], whole[finished])
    assert np.isnan(stopped.value.weights[~finished]).all()


def test_ctrl_c_does_not_wait_for_a_run_that_takes_years(problem, monkeypatch):
    """What is under way gets a moment to end; then it is told to stop, also in compiled loops."""
    from sordino.sgd import engine

    monkeypatch.setattr(engine, "_PATIENCE", 0.2)
    endless = dataclasses.replace(make_spec("plain"), steps=10**12, epochs=None)
    told = []

    def interrupted(runs):
        told.append(runs)
        if runs > 0 and len([each for each in told if each]) == 1:
            raise KeyboardInterrupt

    grid = prepare(endless, problem, range(3), plan=Plan(1, 1), threads=2)
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        list(train_chunks(grid, under_way=interrupted))
    assert time.perf_counter() - began < 60  # a second or two, where nobody else computes
    assert 0 < told[-1] < 1e-3  # of three runs


def test_leaving_a_grid_stops_what_is_under_way(problem):
    endless = dataclasses.replace(make_spec("plain"), steps=10**12, epochs=None)
    grid = prepare(endless, problem, range(2), plan=Plan(1, 1), threads=2)

    def fails(runs):
        raise OSError("a full disk, say")

    with pytest.raises(OSError, match="full disk"):
        list(train_chunks(grid, under_way=fails))


def test_ctrl_c_while_progress_is_shown_loses_nothing_that_was_under_way(problem):
    """It may come at any moment, and showing progress is where a program often is."""
    shown = []

    def interrupted(progress):
        shown.append(progress.runs_done)
        if len(shown) == 1:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stopped:
        train(
            make_spec("plain"), problem, range(8), plan=Plan(1, 1), threads=2, progress=interrupted
        )
    # Two workers: the chunk just shown, and the one beside it; no third was started.
    assert stopped.value.finished.sum() == shown[-1] == 2
    assert np.isfinite(stopped.value.weights[stopped.value.finished]).all()


def test_a_grid_may_be_trained_while_another_is_under_way(problem):
    """Stores and audits score, write and train between two chunks; an abandoned one is no lock."""
    spec = make_spec("plain")
    abandoned = train_chunks(prepare(spec, problem, range(4), plan=Plan(1, 1)))
    next(abandoned)
    seen, threads = [], torch.get_num_threads()
    for chunk in train_chunks(prepare(spec, problem, range(4), plan=Plan(1, 1))):
        seen.append(chunk)
        assert torch.get_num_threads() == threads
        inner = train(spec, problem, [chunk.seeds.start], progress=lambda _: None)
        np.testing.assert_array_equal(inner[0], chunk.weights[0])
    train(spec, problem, [0], progress=lambda _: train(spec, problem, [1]))
    assert len(seen) == 4
    abandoned.close()


def test_some_chunks_of_a_grid_have_the_bytes_they_have_among_all(problem):
    neighbours = nb.replace_by_first(problem, range(1, 10))
    grid = prepare(make_spec("plain"), problem, range(6), neighbours, plan=Plan(2, 4))
    whole = np.empty(grid.shape)
    for chunk in train_chunks(grid):
        whole[chunk.seeds, chunk.neighbours] = chunk.weights
    some = grid.chunks()[2:5]
    redone = list(train_chunks(grid, only=some))
    assert sorted((c.seeds.start, c.neighbours.start) for c in redone) == sorted(
        (seeds.start, others.start) for seeds, others in some
    )
    for chunk in redone:
        np.testing.assert_array_equal(chunk.weights, whole[chunk.seeds, chunk.neighbours])


class BadNoise:
    repeatable = True

    def __init__(self, answer):
        self.answer = answer

    def stream(self, *name):
        return self

    def standard_normal(self, size):
        return self.answer(size)


@pytest.mark.parametrize(
    "answer",
    [
        lambda size: np.zeros(size[1]),
        lambda size: 0.0,
        lambda size: np.full(size, np.nan),
        lambda size: np.zeros((size[1], size[0])),
    ],
)
def test_a_noise_source_that_breaks_its_promise_is_refused(problem, answer):
    """Numpy would spread one draw over all steps, or take the noise away, without a word."""
    with pytest.raises(InvalidArgument, match=r"Expected noise=.* finite numbers"):
        train(make_spec("private"), problem, [0], noise=BadNoise(answer))


class TestRandomnessThatCannotBeRepeated:
    def test_a_seed_still_gives_all_its_datasets_the_same(self, problem):
        neighbours = nb.replace_by_first(problem, [1, 2, 3])
        spec = make_spec("plain")
        starts = train(spec, problem, range(5), neighbours, [0], streams=OsStreams())[:, :, 0]
        assert (starts == starts[:, :1]).all()
        assert len(np.unique(starts[:, 0], axis=0)) == 5
        with pytest.raises(InvalidArgument, match="plan="):
            train(spec, problem, [0], neighbours, plan=Plan(1, 1), streams=OsStreams())

    def test_a_fixed_start_is_one_start(self, problem):
        spec = make_spec("plain", init="fixed")
        given = {"plan": Plan(1, 1), "streams": OsStreams(), "checkpoints": [0]}
        starts = train(spec, problem, range(4), **given)
        assert len(np.unique(starts[:, 0, 0], axis=0)) == 1

    def test_the_source_of_noise_must_be_said(self, problem):
        with pytest.raises(InvalidArgument, match="noise=None to be given"):
            train(make_spec("private"), problem, [0], streams=OsStreams())
        train(make_spec("private"), problem, [0], streams=OsStreams(), noise=OsStreams())


def test_the_same_seed_twice_is_refused(problem):
    with pytest.raises(InvalidArgument, match="seeds="):
        train(make_spec("plain"), problem, [3, 4, 3])


def test_an_abandoned_iteration_leaves_torch_as_it_was(problem):
    before = torch.get_num_threads()
    grid = prepare(make_spec("plain"), problem, range(8), plan=Plan(1, 1))
    iterator = train_chunks(grid)
    next(iterator)
    iterator.close()
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("kind", ["logistic", "mlp"])
def test_memory_budget_makes_chunks_smaller_and_changes_nothing(kind):
    dataset = make_problem(400, 20)
    neighbours = nb.replace_by_first(dataset, range(1, 60))
    spec = TrainSpec(ObjectiveSpec(kind), 0.2, 16, steps=20, dtype="float64")
    roomy = prepare(spec, dataset, range(12), neighbours, threads=2)
    sizes = (roomy.slots, roomy.plan.seeds, roomy.plan.neighbours, 1)
    memory = roomy.table.X.nbytes + 2 * chunk_bytes(spec, roomy.objective, *sizes) - 1
    tight = prepare(spec, dataset, range(12), neighbours, memory=memory, threads=2)
    assert tight.plan.seeds * tight.plan.neighbours < roomy.plan.seeds * roomy.plan.neighbours
    np.testing.assert_allclose(
        train(spec, dataset, range(12), neighbours, memory=memory),
        train(spec, dataset, range(12), neighbours),
        rtol=0,
        atol=1e-10,
    )
    with pytest.raises(InvalidArgument, match=r"memory=1000 >= .* 1 x 1 runs a thread need"):
        prepare(spec, dataset, range(12), neighbours, memory=1000)


BAD = {
    "batch larger than the data": ({"batch_size": 38}, {}, "Expected batch_size=38 <= 37"),
    "checkpoint too late": ({}, {"checkpoints": [24]}, "Expected checkpoint=24 <= 23"),
    "checkpoint twice": ({}, {"checkpoints": [4, 4]}, "different steps"),
    "no seeds": ({}, {"seeds": []}, "at least one"),
    "negative seed": ({}, {"seeds": [-1]}, "Expected seed=-1 >= 0"),
    "weights not wanted": (
        {},
        {"initial_weights": np.zeros(6)},
        "to be None with init='vary'",
    ),
    "weights missing": ({"init": "given"}, {}, "initial_weights=None to be an array"),
    "weights of another model": (
        {"init": "given"},
        {"initial_weights": np.zeros(5)},
        r"to be \(6,\)",
    ),
    "weights with NaN": (
        {"init": "given"},
        {"initial_weights": np.full(6, np.nan)},
        "finite numbers only",
    ),
    "no threads": ({}, {"threads": -1}, "Expected threads=-1 >= 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_before_any_training(name, problem):
    spec_changes, arguments, sentence = BAD[name]
    spec = make_spec("plain", **spec_changes)
    arguments = {"seeds": [0]} | arguments
    with pytest.raises(InvalidArgument, match=sentence):
        train(spec, problem, **arguments, progress=lambda _: pytest.fail("trained"))


def test_neighbours_of_another_dataset_are_refused(problem):
    """They would be trained on silently, on rows that happen to have the same numbers."""
    other = make_problem(37, 5, seed=1)
    with pytest.raises(InvalidArgument, match="of another dataset"):
        train(make_spec("plain"), problem, [0], nb.zero_out(other, [1]))
    copy = make_problem(37, 5)
    train(make_spec("plain"), problem, [0], nb.zero_out(copy, [1]))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"seeds": 5}, r"seeds=5 to be a list. Pass range\(10\)"),
        ({"seeds": [0], "checkpoints": 10}, "checkpoints=10 to be a list"),
        ({"seeds": [0], "neighbours": [1, 2]}, "neighbours=list to be Neighbours"),
    ],
)
def test_a_number_is_not_taken_for_a_list(problem, arguments, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        train(make_spec("plain"), problem, **arguments)


@pytest.mark.parametrize("kind", ["least-squares", "mlp"])
def test_runs_that_diverge_are_counted_and_have_no_accuracy(problem, kind):
    spec = TrainSpec(ObjectiveSpec(kind), 1e30, 8, steps=40)
    with pytest.warns(DivergenceWarning, match=r"[1-3] of 3 runs diverged"):
        weights = train(spec, problem, range(3))
    if kind == "mlp":
        bad = ~np.isfinite(weights).all(axis=-1)
        accuracy = build(spec.objective, 5).accuracy(weights, problem.X, problem.y)
        np.testing.assert_array_equal(np.isnan(accuracy), bad)


def test_labels_must_be_two_classes():
    dataset = dataclasses.replace(make_problem(37, 5), y=np.arange(37) % 3)
    with pytest.raises(InvalidArgument, match=r"labels=\[0 1 2\] to be 0 and 1, two classes"):
        train(make_spec("plain"), dataset, [0])
