"""Full batches, many runs at once: each the run it is alone, whatever shares its block."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.special
from conftest import make_problem, make_weighted
from reference import sgd

from sordino.data import neighbours as nb
from sordino.data.dataset import Dataset
from sordino.models import ObjectiveSpec
from sordino.models.kernels import link
from sordino.randomness import SeededStreams
from sordino.sgd import Schedule, TrainSpec, prepare, train, train_chunks
from sordino.sgd.engine import Chunk
from sordino.sgd.grid import Plan, chunk_bytes
from sordino.sgd.kernels import full_batch, linear

LOGISTIC = ObjectiveSpec("logistic", l2=0.01)
HUBER = ObjectiveSpec("huber-svm", l2=0.01, huber_width=0.3)
NOISE = {"max_grad_norm": 0.2, "noise_multiplier": 1.5}

SPECS = {
    "plain": {},
    "clip": {"max_grad_norm": 0.2},
    "noise": NOISE,
    "huber": {"objective": HUBER},
    "huber, noise": {"objective": HUBER, **NOISE},
    "squares": {"objective": ObjectiveSpec("least-squares"), "learning_rate": 0.1},
    "radius": {"radius": 0.3, **NOISE},
    "no intercept": {"objective": ObjectiveSpec("logistic", intercept=False), **NOISE},
    "rsgd-ar": {
        "learning_rate": Schedule.per_epoch(2.0),
        "average_every": 4,
        "restart_every": 4,
        **NOISE,
    },
    "average without restart": {"average_every": 3},
    "strongly convex": {
        "learning_rate": Schedule.strongly_convex_rate(0.75, 0.25),
        "objective": ObjectiveSpec("logistic", l2=0.25),
        "restart_every": 5,
    },
    "divided by what is there": {"fixed_divisor": False},
    "one start": {"init": "fixed", **NOISE},
}


def make_spec(name, rows, **more):
    values = {
        "objective": LOGISTIC,
        "learning_rate": 0.5,
        "batch_size": rows,
        "steps": 13,
        "order": "fixed",
        "dtype": "float64",
    }
    return TrainSpec(**(values | SPECS[name] | more))


def problem_of(spec, rows=37, features=5, dtype="float64"):
    real_targets = spec.objective.kind == "least-squares"
    return make_problem(rows, features, dtype=dtype, real_targets=real_targets)


def neighbours_of(dataset, kind):
    """Replaced and silent records, some in the same slot, in the last one, and the base itself."""
    last = dataset.rows - 1
    if kind == "zero out":
        return nb.zero_out(dataset, [0, 9, last])
    if kind == "only":
        return nb.only(dataset)
    X = make_problem(4, dataset.features, seed=5).X.astype(dataset.X.dtype)
    y = np.array([1, 0, 1, 0]) if dataset.y.dtype.kind == "i" else np.linspace(-1, 2, 4)
    return nb.replace(dataset, [0, 9, 9, last], X, y)


def seed_by_seed(monkeypatch):
    monkeypatch.setattr(full_batch, "FEWEST", 1 << 60)


def must_not_be_called(*_):
    raise AssertionError("the wrong path was taken")


@pytest.fixture
def only_together(monkeypatch):
    """Fail where a run is trained seed by seed."""
    monkeypatch.setattr(linear, "descend", must_not_be_called)


KINDS = ["replace", "zero out", "only"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("rows", [37, 2 * full_batch.ROWS + 14])
def test_runs_together_equal_runs_seed_by_seed(name, kind, rows, monkeypatch):
    spec = make_spec(name, rows)
    dataset = problem_of(spec, rows)
    grid = (spec, dataset, range(13), neighbours_of(dataset, kind), [0, 1, 2, 7, 13])
    with monkeypatch.context() as patch:
        patch.setattr(linear, "descend", must_not_be_called)
        together = train(*grid)
    seed_by_seed(monkeypatch)
    monkeypatch.setattr(full_batch.FullBatch, "descend", must_not_be_called)
    # The two differ by the order of additions, and by a rounding or two of the sigmoid.
    np.testing.assert_allclose(together, train(*grid), rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in SPECS if name != "no intercept"])
@pytest.mark.parametrize("weighted", [False, True])
def test_runs_together_equal_the_definition(name, kind, weighted, only_together):
    spec = make_spec(name, 37)
    dataset = problem_of(spec)
    if weighted:
        dataset = make_weighted(37, 5, real_targets=spec.objective.kind == "least-squares")
    neighbours = neighbours_of(dataset, kind)
    got = train(spec, dataset, range(12), neighbours, range(14))
    for s, k in ((0, 0), (3, len(neighbours) - 1), (7, len(neighbours) // 2)):
        noise = None
        if spec.noise_multiplier:
            noise = SeededStreams().stream("noise", s).standard_normal((13, 6))
        batches = [[list(range(37))]] * 13
        want = sgd(spec, records_of(dataset, neighbours, k), batches, got[s, k, 0], noise)
        np.testing.assert_allclose(got[s, k, 1:], want, rtol=0, atol=1e-10)


def records_of(dataset, neighbours, k):
    """Records of dataset k, slot by slot."""
    weighted = dataset.weights is not None
    parts = (dataset.X, dataset.y, *([dataset.weights] if weighted else []))
    records = [*zip(*parts, strict=True)]
    if neighbours.slot[k] != nb.UNCHANGED:
        own = neighbours.occupant[k] - dataset.rows
        silent = (np.zeros(dataset.features), None)
        more = (neighbours.extra_weights[own],) if weighted and own >= 0 else ()
        record = silent if own < 0 else (neighbours.extra_X[own], neighbours.extra_y[own], *more)
        records[neighbours.slot[k]] = record
    return records


PLANS = [Plan(1, 1), Plan(3, 5), Plan(5, 2), Plan(7, 3), Plan(40, 5)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("features", [5, 300])
def test_every_plan_gives_the_same_bytes(features, dtype, only_together):
    """Sizes at which OpenBLAS rounds a run by its place in a block (AVX-512, 300 features)."""
    rows = full_batch.ROWS + 250
    spec = make_spec("noise", rows, dtype=dtype, steps=6)
    dataset = make_problem(rows, features)
    neighbours = neighbours_of(dataset, "replace")
    whole = train(spec, dataset, range(40), neighbours, [1, 6])
    assert len(np.unique(whole[:, :, -1].reshape(200, -1), axis=0)) == 200
    for plan in PLANS:
        other = train(spec, dataset, range(40), neighbours, [1, 6], plan=plan, threads=3)
        np.testing.assert_array_equal(other, whole)
    grid = prepare(spec, dataset, range(40), neighbours, [1, 6], plan=Plan(3, 2))
    for chunk in train_chunks(grid, only=grid.chunks()[4:7]):
        np.testing.assert_array_equal(chunk.weights, whole[chunk.seeds, chunk.neighbours])
    # More seeds later, as an audit that is continued: the first ones have the bytes they had.
    np.testing.assert_array_equal(train(spec, dataset, range(60), neighbours, [1, 6])[:40], whole)


def test_a_run_has_the_place_in_its_block_that_it_has_in_the_grid():
    dataset = make_problem(37, 5)
    grid = prepare(make_spec("noise", 37), dataset, range(40), neighbours_of(dataset, "replace"))
    runs = Chunk(grid, slice(3, 20), slice(1, 4)).full.runs
    places = np.arange(200).reshape(40, 5)[3:20, 1:4].ravel()
    np.testing.assert_array_equal(runs.lane, places % full_batch.WIDTH)
    blocks = np.split(places // full_batch.WIDTH, runs.edges[1:-1])
    assert [np.unique(block).tolist() for block in blocks] == [[0], [1], [2], [3]]


def test_law_2_a_clip_that_never_binds_and_no_noise_is_plain_sgd(only_together):
    dataset = make_problem(300, 7)
    neighbours = neighbours_of(dataset, "replace")

    def trained(**more):
        return train(make_spec("plain", 300, steps=40, **more), dataset, range(3), neighbours)

    plain = trained()
    for clip in (np.inf, 1e6):
        private = trained(max_grad_norm=clip, noise_multiplier=0.0)
        np.testing.assert_allclose(private, plain, rtol=0, atol=1e-12)
    assert np.abs(trained(max_grad_norm=0.1) - plain).max() > 0.01


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-5)])
def test_rows_that_came_in_float32_are_the_same_numbers(dtype, tolerance, monkeypatch):
    spec = make_spec("noise", 300, dtype=dtype)
    narrow = make_problem(300, 7, dtype="float32")
    assert prepare(spec, narrow, [0]).table.X.numpy().dtype == np.float32
    wide = Dataset(narrow.X.astype(np.float64), narrow.y, norm_bound=1.0)
    got = train(spec, narrow, range(9), neighbours_of(narrow, "replace"))
    if dtype == "float64":
        same = train(spec, wide, range(9), neighbours_of(wide, "zero out"))
        np.testing.assert_allclose(got[:, 0], same[:, 0], rtol=0, atol=1e-12)
    seed_by_seed(monkeypatch)
    want = train(spec, narrow, range(9), neighbours_of(narrow, "replace"))
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


class CountedNoise:
    """Seeded noise that remembers how much of it each run was given."""

    repeatable = True

    def __init__(self, loud=None):
        self.given, self.loud = {}, loud

    def stream(self, _, seed):
        generator = SeededStreams().stream("noise", seed)
        self.given[seed] = 0

        def standard_normal(size):
            self.given[seed] += size[0]
            return generator.standard_normal(size) * (1e307 if seed == self.loud else 1)

        return SimpleNamespace(standard_normal=standard_normal)


@pytest.mark.parametrize("ahead", [1, 5, 13, 256])
def test_noise_is_drawn_ahead_and_never_more_than_is_used(ahead, monkeypatch):
    """The noise that protects people is slow to draw: none of it is drawn for nothing."""
    spec, dataset = make_spec("noise", 37), make_problem(37, 5)
    neighbours = neighbours_of(dataset, "replace")
    want = train(spec, dataset, range(9), neighbours, [3, 9, 13])
    monkeypatch.setattr("sordino.sgd.grid.NOISE_STEPS", ahead)
    noise = CountedNoise()
    got = train(spec, dataset, range(9), neighbours, [3, 9, 13], noise=noise)
    np.testing.assert_array_equal(got, want)
    assert noise.given == dict.fromkeys(range(9), 13)


def test_a_run_that_diverges_leaves_the_others_of_its_block_alone():
    spec = make_spec("noise", 37, objective=ObjectiveSpec("least-squares"), max_grad_norm=1e6)
    dataset = make_problem(37, 5, real_targets=True)
    neighbours = neighbours_of(dataset, "replace")
    with pytest.warns(RuntimeWarning, match="5 of 45 runs diverged"):
        loud = train(spec, dataset, range(9), neighbours, noise=CountedNoise(loud=4))
    quiet = train(spec, dataset, range(9), neighbours)
    others = np.arange(9) != 4
    np.testing.assert_array_equal(loud[others], quiet[others])


@pytest.mark.parametrize(
    ("why", "runs", "changes"),
    [
        ("a single fit", 1, {}),
        ("a few", 11, {}),
        ("batches", 20, {"batch_size": 36}),
        ("an order of each seed's own", 20, {"order": "shuffle"}),
        ("poisson", 20, {"order": "poisson"}),
    ],
)
def test_what_is_trained_seed_by_seed(why, runs, changes, monkeypatch):
    monkeypatch.setattr(full_batch.FullBatch, "descend", must_not_be_called)
    train(make_spec("noise", 37, **changes), make_problem(37, 5), range(runs))


def test_a_network_is_not_trained_here():
    spec = make_spec("plain", 37, objective=ObjectiveSpec("mlp", hidden=3))
    assert not full_batch.applies(spec, 37, 1000)


# The sigmoid ------------------------------------------------------------------------------


def residuals(scores, label=0.0):
    z = np.array(scores, dtype=np.float64)
    law = linear.law_of(TrainSpec(LOGISTIC, 0.5, 8, steps=1))
    y, most = np.full(len(z), label), np.full(len(z), np.inf)
    full_batch.residuals(law, z, y, most, np.ones(len(z)), False)
    return z


def test_the_sigmoid_is_the_sigmoid_to_the_last_digits():
    z = np.concatenate([np.linspace(-40, 40, 200_003), [0.0, 1e-300, -1e-300, 1e-9, -1e-9]])
    z = np.concatenate([z, np.linspace(-700, 700, 10_007)])
    exact = scipy.special.expit(z)
    # Half a unit each for the reduced argument, p, q, two sums and the quotient.
    assert np.max(np.abs(residuals(z) - exact) / exact) < 3 * 2.0**-52
    one = residuals(z, 1.0)
    assert (np.abs(one) <= 1).all()
    np.testing.assert_allclose(one, exact - 1, rtol=0, atol=3 * 2.0**-52)


def test_far_scores_give_zero_or_one_and_what_is_no_number_stays_none():
    far = [709.0, 710.0, 745.2, 1e4, 1e30, 1e308, np.inf]
    np.testing.assert_array_equal(residuals(far), 1)
    np.testing.assert_allclose(residuals([-z for z in far]), 0, rtol=0, atol=1e-300)
    # More than a vector of them, so that both the vectors and the odd end are seen.
    assert np.isnan(residuals([np.nan] * 37)).all()


@pytest.mark.parametrize("kind", [link.HUBER, link.SQUARES])
def test_other_losses_are_the_ones_they_were(kind):
    law = linear.law_of(TrainSpec(HUBER, 0.5, 8, steps=1))._replace(kind=kind)
    z, y = np.linspace(-3, 3, 101), np.arange(101) % 2 * 1.0
    want = z.copy()
    link.residuals(kind, law.huber, want, y)
    full_batch.residuals(law, z, y, np.full(101, np.inf), np.ones(101), False)
    np.testing.assert_array_equal(z, want)


# Planning ---------------------------------------------------------------------------------


def test_chunks_fill_blocks_even_where_one_run_is_much_work():
    spec = make_spec("noise", 30_000, steps=2000)
    dataset = Dataset(np.zeros((30_000, 5), np.float32), np.arange(30_000) % 2, norm_bound=1.0)
    pair = nb.zero_out(dataset, [3])
    for seeds in (64, 500):
        plan = prepare(spec, dataset, range(seeds), pair, memory=10**12).plan
        assert plan.neighbours == 2
        assert 2 * plan.seeds >= full_batch.WIDTH * 0.9
    assert len(prepare(spec, dataset, range(32), pair, memory=10**12).chunks()) == 2


@pytest.mark.parametrize(("seeds", "datasets"), [(2000, 2), (999, 2), (70, 5), (20, 64), (5, 3)])
@pytest.mark.parametrize("memory", [10**12, 500_000])
def test_chunks_are_cut_between_blocks_where_memory_allows(seeds, datasets, memory):
    spec, dataset = make_spec("plain", 100), make_problem(100, 5)
    others = nb.zero_out(dataset, range(datasets - 1))
    grid = prepare(spec, dataset, range(seeds), others, memory=memory, threads=2)
    parts = list(dict.fromkeys((a.start, a.stop) for a, _ in grid.chunks()))
    assert [seed for a, b in parts for seed in range(a, b)] == list(range(seeds))
    assert max(b - a for a, b in parts) <= grid.plan.seeds
    if grid.plan.seeds >= full_batch.WIDTH or memory == 10**12:
        assert all(a * datasets % full_batch.WIDTH == 0 for a, _ in parts)


@pytest.mark.parametrize("name", ["plain", "noise"])
def test_a_chunk_takes_no_more_memory_than_was_reckoned(name):
    """Arrays of numpy alone, which here is all but two copies of the weights."""
    spec = make_spec(name, 5000, steps=40)
    dataset = make_problem(5000, 40)
    neighbours = nb.zero_out(dataset, [1])
    grid = prepare(spec, dataset, range(400), neighbours, [20, 40], plan=Plan(400, 2))
    run = Chunk(grid, slice(0, 8), slice(0, 2))
    run.train()  # compiles what is compiled
    tracemalloc.start()
    Chunk(grid, slice(0, 400), slice(0, 2)).train()
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    reckoned = chunk_bytes(spec, grid.objective, 5000, 400, 2, 2, full_batches=True)
    assert taken <= reckoned
    assert taken > reckoned / 4


def test_memory_makes_chunks_smaller_and_changes_nothing():
    spec, dataset = make_spec("noise", 300), make_problem(300, 20)
    roomy = prepare(spec, dataset, range(600), threads=1)
    sizes = (300, roomy.plan.seeds, 1, 1)
    needed = chunk_bytes(spec, roomy.objective, *sizes, full_batches=True)
    memory = roomy.table.X.nbytes + needed - 1
    tight = prepare(spec, dataset, range(600), memory=memory, threads=1)
    assert tight.plan.seeds < roomy.plan.seeds
    np.testing.assert_array_equal(
        train(spec, dataset, range(600), memory=memory, threads=1),
        train(spec, dataset, range(600)),
    )


FRESH = """
import threadpoolctl
from sordino.sgd import engine
with engine._single_threaded_blas:
    import scipy.linalg.cython_blas
    print({pool["num_threads"] for pool in threadpoolctl.threadpool_info()
           if pool["user_api"] == "blas"})
"""


def test_the_blas_of_compiled_loops_is_on_one_core_from_the_first_grid_on():
    """Compiled loops call scipy's: were it loaded by the first product, it would take all cores."""
    environment = {"OPENBLAS_NUM_THREADS": "2", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", FRESH], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "{1}"


def test_a_shuffled_full_batch_is_the_same_batch_with_the_same_noise():
    """It goes seed by seed, and a run's noise is drawn from its seed alone either way."""
    dataset = make_problem(37, 5)
    neighbours = neighbours_of(dataset, "replace")
    fixed, shuffled = (
        train(make_spec("noise", 37, order=order), dataset, range(9), neighbours)
        for order in ("fixed", "shuffle")
    )
    np.testing.assert_allclose(fixed, shuffled, rtol=0, atol=1e-10)
