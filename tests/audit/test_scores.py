"""The learned score: it finds what there is to find, and never more than the truth."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binom

from sordino import PrivateLinearSVC, PrivateLogisticRegression
from sordino.accounting import dp_sgd, gaussian
from sordino.audit import Claim, TrainedRelease, audit, bounds, scores
from sordino.audit.band import band, refutes
from sordino.audit.gallery.steps import ShuffledRatio
from sordino.audit.runners import fits
from sordino.audit.runners.functions import row_hashes
from sordino.audit.runners.outputs import outputs
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.estimators.fit import FitRecords
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import Relation
from sordino.sgd.spec import Schedule, TrainSpec

ZERO, ONE = np.zeros(2), np.array([0.0, 1.0])
DELTA = 1e-5


def batched(function):
    function.batched = True
    return function


def worth(negative, positive):
    threshold = bounds.best_threshold(negative, positive, delta=DELTA, confidence=0.8)
    found = bounds.at_threshold(negative, positive, threshold, delta=DELTA, confidence=0.8)
    return found.epsilon


def halves(make, runs, rng):
    """First and second half of both worlds."""
    worlds = make(0, rng, 2 * runs), make(1, rng, 2 * runs)
    return [world[:runs] for world in worlds], [world[runs:] for world in worlds]


def response(epsilon):
    """Randomised response among noise: exactly (epsilon, 0)-DP, and tight at one threshold."""
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))

    def make(world, rng, runs):
        outputs = rng.standard_normal((runs, 20))
        told = np.where(rng.random(runs) < keep, world, 1 - world)
        outputs[:, 3] = told + 1e-3 * outputs[:, 3]
        return outputs

    return make


def shifted(mu):
    def make(world, rng, runs):
        outputs = rng.standard_normal((runs, 20))
        outputs[:, 3] += mu * world
        return outputs

    return make


class TestValidity:
    """At confidence 0.8 at most a fifth of the audits may exceed the truth, but for chance."""

    AUDITS = 150

    def rates(self, make, truth, delta):
        """Audits above the truth: as it is done, and on the runs that were learned from."""
        rng = np.random.default_rng(11)
        above = np.zeros(2)
        for _ in range(self.AUDITS):
            first, second = halves(make, 100, rng)
            fitted = scores.learned(*first, worth, rng)
            threshold = bounds.best_threshold(
                fitted.negative, fitted.positive, delta=delta, confidence=0.8
            )
            for way, (negative, positive) in enumerate((second, first)):
                found = bounds.at_threshold(
                    *fitted(negative, positive), threshold, delta=delta, confidence=0.8
                )
                above[way] += found.epsilon > truth
        return above

    @pytest.mark.parametrize(
        ("make", "truth", "delta"),
        [
            (shifted(0.0), 0.0, DELTA),
            (shifted(1.0), gaussian.epsilon(1.0, DELTA), DELTA),
            (response(1.0), 1.0, 0.0),
        ],
        ids=["nothing", "Gaussian", "randomised response"],
    )
    def test_it_holds_on_other_runs(self, make, truth, delta):
        above, _ = self.rates(make, truth, delta)
        assert above <= binom.ppf(1 - 1e-4, self.AUDITS, 0.2)

    def test_and_would_not_on_its_own(self):
        # What a leak between the halves would do: this is what the test above must notice.
        _, above = self.rates(shifted(0.0), 0.0, DELTA)
        assert above > binom.ppf(1 - 1e-4, self.AUDITS, 0.2)

    def test_scores_for_the_threshold_look_like_those_of_fresh_runs(self):
        rng = np.random.default_rng(5)
        gaps = []
        for _ in range(20):
            first, second = halves(shifted(0.0), 200, rng)
            fitted = scores.learned(*first, worth, rng)
            cross = fitted.positive.mean() - fitted.negative.mean()
            scored = [fitted(*half) for half in (first, second)]
            own, fresh = (positive.mean() - negative.mean() for negative, positive in scored)
            gaps.append((cross, own, fresh))
        cross, own, fresh = np.mean(gaps, axis=0)
        # With 20 columns and 200 runs a learned score is 0.2 apart on its own runs, less what is
        # shrunk; on others 0, with a standard error of about 0.02.
        assert own > 0.1
        assert abs(cross) < 0.06
        assert abs(fresh) < 0.06


class TestPower:
    def test_a_quiet_direction_among_loud_ones(self):
        rng = np.random.default_rng(0)
        turned = np.linalg.qr(rng.standard_normal((40, 40)))[0]
        spread = np.where(np.arange(40) == 7, 1e-4, 1.0)

        @batched
        def quiet(data, generator, runs):
            outputs = spread * generator.standard_normal((runs, 40))
            outputs[:, 7] += 4e-4 * data.sum()  # 4 standard deviations, and the loud ones see none
            return outputs @ turned.T

        found = audit(quiet, ZERO, ONE, 2000, delta=DELTA)
        best = bounds.from_counts(25, 1000, 25, 1000, delta=DELTA, confidence=0.99).epsilon
        assert found.observed.epsilon > 0.9 * best
        assert "direction" in found.score

    def test_a_difference_in_spread(self):
        @batched
        def louder(data, generator, runs):
            return generator.standard_normal((runs, 30)) * (1 + 0.3 * data.sum())

        found = audit(louder, ZERO, ONE, 2000, delta=DELTA)
        assert "squares" in found.score
        assert found.observed.epsilon > 3

    @pytest.mark.parametrize(("seeds", "at_least"), [(1, 5.2), (256, 5.0), (4096, 2.0)])
    def test_a_short_seed(self, seeds, at_least):
        noise = np.random.default_rng(1).standard_normal((seeds, 5))

        @batched
        def short(data, generator, runs):
            return 1e-3 * data.sum() + noise[generator.integers(seeds, size=runs)]

        found = audit(short, ZERO, ONE, 2000, delta=DELTA)
        assert found.observed.epsilon > at_least
        assert seeds == 1 or "repeat" in found.score

    def test_one_column_without_noise(self):
        @batched
        def bias(data, generator, runs):
            outputs = generator.standard_normal((runs, 30))
            outputs[:, 11] = generator.integers(3, size=runs) + 1e-9 * data.sum()
            return outputs

        found = audit(bias, ZERO, ONE, 2000, delta=DELTA)
        assert found.observed.epsilon > 5.2

    def test_nothing_is_found_where_nothing_is(self):
        @batched
        def constant(data, generator, runs):
            return np.ones((runs, 3))

        assert audit(constant, ZERO, ONE, 200, delta=DELTA).observed.epsilon == 0

    @pytest.mark.parametrize("scale", [1e-290, 1e290])
    def test_units_do_not_matter(self, scale):
        @batched
        def in_units(data, generator, runs):
            return scale * (data.sum() + 0.3 * generator.standard_normal((runs, 2)))

        assert audit(in_units, ZERO, ONE, 1000, delta=DELTA).observed.epsilon > 4

    def test_a_run_far_out_is_no_accident(self):
        @batched
        def wild(data, generator, runs):
            outputs = data.sum() + 0.3 * generator.standard_normal((runs, 2))
            outputs[-1] = 1e300  # among the tested runs
            return outputs

        assert audit(wild, ZERO, ONE, 1000, delta=DELTA).observed.epsilon > 3


def test_a_direction_is_the_discriminant():
    rng = np.random.default_rng(2)
    mixed = rng.standard_normal((4, 4))
    gap = np.array([1.0, 0, 0, 0.5])
    worlds = [rng.standard_normal((20_000, 4)) @ mixed.T + k * gap for k in (0, 1)]
    folds = [rng.integers(4, size=20_000) for _ in worlds]
    along = scores.direction(worlds, folds, 4)[1]()
    found = along(np.eye(4)) - along(np.zeros((1, 4)))
    np.testing.assert_allclose(found, np.linalg.solve(mixed @ mixed.T, gap), rtol=0.1, atol=0.05)


def test_rows_are_told_apart():
    # Whole numbers share most of their bits, and sums of them repeat.
    rows = np.stack(np.meshgrid(*[np.arange(30.0)] * 3), axis=-1).reshape(-1, 3)
    assert len(np.unique(row_hashes(rows))) == 27_000
    np.testing.assert_array_equal(row_hashes(rows[:5]), row_hashes(rows[:5].copy()))
    np.testing.assert_array_equal(row_hashes(-0.0 * rows[:5]), row_hashes(0.0 * rows[:5]))


class TestGiven:
    """Somebody's score: one number a run, for that run."""

    WORLDS = tuple(np.random.default_rng(4).normal([[[0.0]], [[0.3]]], 1.0, (2, 90, 3)))

    def fitted(self, score, worlds=WORLDS):
        return scores.given(score, *worlds, np.random.default_rng(0))

    @pytest.mark.parametrize(
        ("score", "words"),
        [
            (lambda outputs: outputs, "shape"),
            (lambda outputs: outputs[:5, 0], "shape"),
            (lambda outputs: np.nan + outputs[:, 0], "NaN"),
            (lambda outputs: ["a"] * len(outputs), "real numbers"),
            (lambda outputs: [[1], [2, 3]], "ragged"),
            (lambda outputs: 1 / 0, "raised ZeroDivisionError.*division by zero"),
            (lambda outputs: {}["key"], "raised KeyError"),
            (lambda outputs: np.ones((9, 2)) @ np.ones(3), "raised ValueError"),
        ],
    )
    def test_one_number_a_run(self, score, words):
        with pytest.raises(InvalidArgument, match=f"score.*{words}") as caught:
            self.fitted(score)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "score",
        [
            lambda o: np.full(len(o), o[:, 0].mean()),
            lambda o: (o[:, 0] - o[:, 0].mean()) / o[:, 0].std(),
            lambda o: np.argsort(np.argsort(o[:, 0])),
            lambda o: np.linalg.svd(o, full_matrices=False)[0][:, 0],
            lambda o: np.arange(len(o)),
            lambda o: (o[:, 0] - np.float32(o[:, 0].mean())).astype(np.float32),
        ],
        ids=["mean", "normalised", "ranks", "principal axis", "places", "float32"],
    )
    def test_a_score_that_looks_at_all_runs_is_refused(self, score):
        with pytest.raises(InvalidArgument, match="to judge each run by itself"):
            self.fitted(score)

    @pytest.mark.parametrize(
        "score",
        [
            lambda o: o @ np.array([1.0, 2.0, 3.0]),
            lambda o: (o @ np.array([1.0, 2.0, 3.0])).astype(np.float32),
            lambda o: o[:, 0] > 0,
            lambda o: np.where(o[:, 0] > 0, np.inf, -np.inf),
            lambda o: np.zeros(len(o)),
        ],
        ids=["sums", "float32", "bool", "infinite", "constant"],
    )
    def test_one_that_does_not_is_taken(self, score):
        fitted = self.fitted(score)
        for mine, runs in zip((fitted.negative, fitted.positive), self.WORLDS, strict=True):
            np.testing.assert_allclose(mine, np.asarray(score(runs), dtype=float), rtol=1e-6)
        other = self.WORLDS[0][:7], self.WORLDS[1][:5]
        for mine, runs in zip(fitted(*other), other, strict=True):
            np.testing.assert_allclose(mine, np.asarray(score(runs), dtype=float), rtol=1e-6)

    def test_runs_of_both_worlds_come_together_and_in_no_order(self):
        batches = []

        def score(outputs):
            batches.append(outputs.copy())
            outputs *= 0  # what it does to its own copy is its own affair
            return outputs[:, 0]

        fitted = self.fitted(score)
        before = [runs.copy() for runs in self.WORLDS]
        fitted(*self.WORLDS)
        np.testing.assert_array_equal(before, self.WORLDS)
        for batch in batches[-2:]:
            assert len(batch) == 180
            world = [row[0] in self.WORLDS[1][:, 0] for row in batch]
            # Of 90 and 90 in a random order 45 of each half, within 4.4 standard deviations.
            assert 30 < sum(world[:90]) < 60
            np.testing.assert_array_equal(
                np.sort(batch, axis=0), np.sort(np.concatenate(self.WORLDS), axis=0)
            )

    def test_a_batch_does_not_betray_its_world(self):
        """What scoring one world at a time would do: a sure guess, from next to nothing."""
        mean = lambda o: np.full(len(o), o[:, 0].mean())  # noqa: E731
        apart = [mean(runs) for runs in self.WORLDS]
        assert worth(*apart) > 2

        def sums(data, generator):
            return data.sum() + 5 * generator.standard_normal(2)

        with pytest.raises(InvalidArgument, match="each run by itself"):
            audit(sums, ZERO, ONE, 400, delta=DELTA, score=mean, workers=1)


# The law of objective perturbation: weights tell their noise, and their density is a density.

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (12, 2)) / np.sqrt(2)
Y = np.arange(12) % 2
OTHER = np.vstack([[[0.7, -0.7]], X[1:]])
KINDS = (PrivateLogisticRegression, PrivateLinearSVC)


def prepared(kind):
    how = {"delta": 1e-3, "classes": [0, 1], "fit_intercept": False, "data_norm": 1.0}
    return fits.prepare(kind(epsilon=8.0, method="objective", **how), (X, Y), (OTHER, Y))


@pytest.mark.parametrize("kind", KINDS)
def test_densities_integrate_to_one(kind) -> None:
    """Only the determinant of the Hessian makes all of them densities, weighted or not."""
    mechanism, D, D_prime, _ = prepared(kind)
    for data in (D, D_prime, replace(D, weights=np.linspace(0, 1, 12))):
        law = scores._Minimiser.of(mechanism, data)
        reach = 8 * law.sigma / law.regulariser  # weights beyond have b beyond 7 sigma
        axis, step = np.linspace(-reach, reach, 501, retstep=True)
        grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        total = np.exp(law.log_density(grid)).sum() * step**2 / (2 * np.pi * law.sigma**2)
        # The Huber hinge's Hessian jumps, so its sum is not as good as the smooth one's.
        assert total == pytest.approx(1.0, abs=1e-6 if kind is KINDS[0] else 2e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_score_is_the_ratio_of_the_laws_of_real_minimisers(kind) -> None:
    mechanism, D, D_prime, _ = prepared(kind)
    plan = mechanism.plan
    for data in (D, D_prime, replace(D, weights=np.linspace(0, 1, 12))):
        codes = data.y.astype(np.int64)
        records = FitRecords(data.X, codes, 2, plan.task.norm, data.weights)
        noise = RNG.normal(0, plan.sigma, 2)
        risk = records.risk(0, plan.task, plan.l2)
        w = risk.minimise(noise / len(X), 1e-12, np.zeros(2))
        law = scores._Minimiser.of(mechanism, data)
        slope, _ = scores._derivatives(law.objective, w @ law.signed.T)
        slope = slope if law.weights is None else slope * law.weights
        found = -(slope @ law.signed + law.regulariser * w)
        np.testing.assert_allclose(found, noise, atol=1e-9)
    some = RNG.normal(size=(1001, 2))
    first, second = (scores._Minimiser.of(mechanism, data) for data in (D, D_prime))
    score = scores.likelihood(mechanism, D, D_prime)(some)
    np.testing.assert_allclose(score, second.log_density(some) - first.log_density(some))
    assert score.std() > 0.1


def test_blocks_do_not_matter(monkeypatch) -> None:
    mechanism, D, _, _ = prepared(KINDS[0])
    law = scores._Minimiser.of(mechanism, D)
    some = RNG.normal(size=(23, 2))
    whole = law.log_density(some)
    for numbers in (1, 5 * D.X.size, 10**9):
        monkeypatch.setattr(scores, "_BLOCK_NUMBERS", numbers)
        np.testing.assert_allclose(law.log_density(some), whole, rtol=1e-12)


def test_memory_does_not_grow_with_runs_or_with_columns_squared() -> None:
    """2,000 records of 300 columns and 40 runs, not all of them at once."""
    import tracemalloc

    signed = RNG.normal(size=(2000, 300))
    law = scores._Minimiser(signed, ObjectiveSpec("logistic"), 1.0, 1.0)
    weights = RNG.normal(size=(40, 300)) / 300
    tracemalloc.start()
    law.log_density(weights)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # One block of products and what is beside it; 40 runs at once would be 192 MB, and records x
    # columns^2 1.4 GB.
    assert most < 1.5 * 8 * scores._BLOCK_NUMBERS


def test_many_columns_are_refused_before_any_run() -> None:
    columns = scores._MOST_COLUMNS + 1
    wide = np.zeros((6, columns))
    wide[:, 0] = 0.5
    other = wide.copy()
    other[0, 1] = 0.5
    y = np.arange(6) % 2
    model = PrivateLogisticRegression(
        epsilon=1.0, delta=1e-3, method="objective", classes=[0, 1], fit_intercept=False
    )
    mechanism, D, D_prime, _ = fits.prepare(model, (wide, y), (other, y))
    with pytest.raises(InvalidArgument, match="400 columns at most"):
        scores.likelihood(mechanism, D, D_prime)


# All iterates of a noisy training ---------------------------------------------------------

ROWS, PER_EPOCH = 8, 10


def pulling(gradients):
    """One record a gradient of the Huber loss, -1, 0 or 1 wherever the weights get to here."""
    pulls = np.asarray(gradients)
    X = np.abs(pulls)[:, None].astype(np.float64)
    return Dataset(X, (pulls < 0).astype(np.int64), norm_bound=1.0)


SILENT, ALONE = pulling([0] * ROWS), pulling([1] + [0] * (ROWS - 1))


def allocated(noise=1.0, steps=PER_EPOCH, **changed):
    """All iterates of random allocation, by the engine."""
    how = {"order": "allocation", "steps_per_epoch": PER_EPOCH, "batch_size": 4, **changed}
    how = {"learning_rate": 1e-3, "max_grad_norm": 1.0, "init": "given", "dtype": "float64", **how}
    objective = ObjectiveSpec("huber-svm", intercept=False)
    spec = TrainSpec(objective, steps=steps, noise_multiplier=noise, **how)
    return TrainedRelease(spec, initial_weights=(0.0,), checkpoints=range(1, steps + 1))


@pytest.mark.parametrize("steps", [PER_EPOCH, 3 * PER_EPOCH, 2 * PER_EPOCH + 3])
def test_the_ratio_of_allocation_is_a_mean_over_steps_and_a_product_over_epochs(steps):
    noise, size, rate = 0.7, 4, 1e-3
    sums = np.random.default_rng(1).normal(0.1, noise, (50, steps))
    ratio = np.ones(50)
    for first in range(0, steps, PER_EPOCH):
        part = sums[:, first : first + PER_EPOCH]
        missed = 1 - part.shape[1] / PER_EPOCH
        ratio *= np.exp((part - 0.5) / noise**2).sum(axis=1) / PER_EPOCH + missed
    score = scores.likelihood(allocated(noise, steps), SILENT, ALONE)
    iterates = -np.cumsum(sums, axis=1) * rate / size
    np.testing.assert_allclose(score(iterates), np.log(ratio), atol=1e-9)
    backwards = scores.likelihood(allocated(noise, steps), ALONE, SILENT)
    np.testing.assert_allclose(backwards(iterates), -np.log(ratio), atol=1e-9)


@pytest.mark.parametrize("order", ["allocation", "poisson"])
@pytest.mark.parametrize("kind", ["logistic", "huber-svm"])
def test_the_score_is_the_ratio_of_the_densities_of_all_iterates(kind, order):
    """Against a sum over everything that may have been drawn, each path a product of normals."""
    rng = np.random.default_rng(2)
    steps, noise, clip, rate, l2, size = 3, 0.6, 0.4, 0.3, 0.05, 2
    given = {"steps_per_epoch": steps} if order == "allocation" else {"sample_rate": 0.3}
    spec = TrainSpec(
        ObjectiveSpec(kind, l2=l2, intercept=False),
        *(Schedule.per_epoch(rate), size),
        steps=steps,
        order=order,
        max_grad_norm=clip,
        noise_multiplier=noise,
        init="given",
        dtype="float64",
        **given,
    )
    start = rng.normal(size=2)
    release = TrainedRelease(spec, initial_weights=start, checkpoints=range(1, steps + 1))
    X, label = np.zeros((2, 4, 2)), np.array([0, 1, 0, 1])
    X[0, 2], X[1, 2] = [0.3, -0.2], [-0.9, 0.3]  # replaced; all others are silent
    D, D_prime = (Dataset(each, label, norm_bound=1.0) for each in X)

    def gradient(w, x, y):
        leaf = torch.tensor(w, requires_grad=True)
        margin = (2.0 * y - 1) * (leaf @ torch.tensor(x))
        h = spec.objective.huber_width
        loss = torch.nn.functional.softplus(-margin)
        if kind == "huber-svm":
            inside = (1 + h - margin) ** 2 / (4 * h)
            loss = torch.where(margin < 1 - h, 1 - margin, torch.where(margin > 1 + h, 0.0, inside))
        loss.sum().backward()
        g = leaf.grad.numpy()
        return g * min(1.0, clip / max(np.linalg.norm(g), 1e-300))

    def density(path, x, y):
        total = 0.0
        for drawn in itertools.product([0, 1], repeat=steps):
            chance = (1 / steps) * (sum(drawn) == 1)
            if order == "poisson":
                chance = math.prod(0.3 if hit else 0.7 for hit in drawn)
            w, log = start, 0.0
            for step, (hit, after) in enumerate(zip(drawn, path, strict=True)):
                now = rate / (1 + step // spec.batches_per_epoch(4))
                mean = w - now * (hit * gradient(w, x, y) / size + l2 * w)
                log -= np.sum((after - mean) ** 2) / (2 * (now / size * noise * clip) ** 2)
                w = after
            total += chance * math.exp(log)
        return total

    walk = start + np.cumsum(rng.normal(0, rate * noise * clip / size, (20, steps, 2)), axis=1)
    wanted = [math.log(density(w, X[1, 2], 0) / density(w, X[0, 2], 0)) for w in walk]
    score = scores.likelihood(release, D, D_prime)
    np.testing.assert_allclose(score(walk.reshape(20, -1)), wanted, atol=1e-8)
    assert np.std(wanted) > 0.1


@pytest.mark.parametrize(
    ("release", "others"),
    [
        (allocated(), [1] + [0] * (ROWS - 2)),  # somebody else is heard
        (replace(allocated(), checkpoints=None), [0] * (ROWS - 1)),
        (replace(allocated(), checkpoints=range(2, PER_EPOCH + 1)), [0] * (ROWS - 1)),
        (replace(allocated(), scale=1.0), [0] * (ROWS - 1)),
        (allocated(radius=1.0), [0] * (ROWS - 1)),
        (allocated(average_every=1), [0] * (ROWS - 1)),
        (allocated(order="shuffle", steps_per_epoch=None), [0] * (ROWS - 1)),
    ],
)
def test_another_law_than_that_of_all_iterates_is_refused(release, others):
    with pytest.raises(InvalidArgument, match="score=likelihood to be used"):
        scores.likelihood(release, pulling([0, *others]), pulling([1, *others]))


def deltas(negative, positive, epsilon):
    """Unbiased estimates of delta(epsilon) of both directions, from log likelihood ratios."""
    worlds = epsilon - positive, epsilon + negative
    return [float(np.maximum(-np.expm1(each), 0).mean()) for each in worlds]


def test_an_audit_sees_what_is_proved_of_allocation_and_no_more():
    """By the pair's own likelihood ratio, which attains the bound."""
    release = allocated(steps=2 * PER_EPOCH)
    negative, positive = outputs(release, SILENT, ALONE, 10_000)
    score = scores.likelihood(release, SILENT, ALONE)
    profile = dp_sgd.pld(1.0, 0.1, 20, sampling="allocation", relation=Relation.ZERO_OUT)
    for epsilon in (0.3, 0.8):
        worst = max(deltas(score(negative), score(positive), epsilon))
        assert worst == pytest.approx(profile.delta(epsilon), rel=0.11)  # 4 standard errors
    claim = Claim(profile.epsilon(0.01), 0.01, Relation.ZERO_OUT)
    found = audit(release, SILENT, ALONE, 2000, claim=claim, score="likelihood")
    assert not found.violated
    assert found.observed.epsilon > 0


def test_a_shuffled_loader_accounted_as_allocation_is_caught():
    """All others pull the other way: the one batch that has the record stands out.

    At noise 1, 10 steps and epsilon 1 delta is .0764, and .00278 by allocation.
    """
    D, D_prime = pulling([0] + [-1] * 9), pulling([1] + [-1] * 9)
    correct = allocated(batch_size=1)
    broken = allocated(batch_size=1, order="shuffle", steps_per_epoch=None)
    delta = dp_sgd.pld(1.0, 0.1, 10, sampling="allocation", relation=Relation.ZERO_OUT).delta(1.0)
    assert delta == pytest.approx(0.00278, abs=5e-6)
    claim = Claim(1.0, delta, Relation.ZERO_OUT)
    ratio = ShuffledRatio(1.0)
    worlds = [ratio(each) for each in outputs(broken, D, D_prime, 10_000)]
    assert max(deltas(*worlds, 1.0)) == pytest.approx(0.0764, abs=0.009)  # 4 standard errors
    assert audit(broken, D, D_prime, 4000, claim=claim, score=ratio).violated
    assert not audit(correct, D, D_prime, 2000, claim=claim, score=ratio).violated
    assert not audit(correct, SILENT, ALONE, 2000, claim=claim, score="likelihood").violated


@pytest.mark.slow
def test_three_hundred_audits_of_allocation_keep_their_rate_and_come_close():
    """Within the family allocation(t, k), whose members differ in their noise alone."""
    epochs, runs, audits, delta, confidence = 3, 500, 300, 1e-3, 0.9
    steps = epochs * PER_EPOCH
    release = allocated(steps=steps)
    how = {"sampling": "allocation", "relation": Relation.ZERO_OUT, "steps_per_epoch": PER_EPOCH}
    truth = dp_sgd.pld(1.0, 0.1, steps, **how)
    score = scores.likelihood(release, SILENT, ALONE)
    worlds = [score(each) for each in outputs(release, SILENT, ALONE, audits * runs)]
    held = binom.ppf(1 - 1e-4, audits, 1 - confidence)
    by_seed = [each.reshape(audits, runs) for each in worlds]
    for method in ("dkw", "equal-precision"):
        false = [
            refutes(*pair, truth, confidence=confidence, method=method)
            for pair in zip(*by_seed, strict=True)
        ]
        assert sum(false) <= held
    false = 0
    for negative, positive in zip(*by_seed, strict=True):
        half = runs // 2
        level = {"delta": delta, "confidence": confidence}
        threshold = bounds.best_threshold(negative[:half], positive[:half], **level)
        found = bounds.at_threshold(negative[half:], positive[half:], threshold, **level)
        false += found.epsilon > truth.epsilon(delta)
    assert false <= held
    members = {
        profile.epsilon(delta): profile
        for noise in np.geomspace(0.8, 1.6, 13)
        for profile in [dp_sgd.pld(float(noise), 0.1, steps, **how)]
    }
    grid = sorted(members)
    found = band(
        *worlds,
        members.__getitem__,
        parameters=grid,
        delta=delta,
        confidence=0.99,
        family_name="allocation(10, 3)",
    )
    assert 0.85 * truth.epsilon(delta) <= found.epsilon <= truth.epsilon(delta)
