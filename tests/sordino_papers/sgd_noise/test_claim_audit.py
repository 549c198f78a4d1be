from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from sordino.accounting import gaussian
from sordino.audit import bounds
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.intrinsic.grid import load
from sordino.intrinsic.measure import measure
from sordino.intrinsic.summary import Summary, summary
from sordino.models.constants import ObjectiveSpec
from sordino.sgd import TrainSpec, train
from sordino.types import Floats
from sordino_papers.sgd_noise.claim_audit import PapersClaim, detectable, examine, fresh_runs, pair

CLAIM = PapersClaim("vary", 0.1, 0.2, 1e-6, (3, 7), tuple(range(98)))
"""mu = 0.5."""


@pytest.fixture(scope="module")
def people() -> Dataset:
    draws = np.random.default_rng(1)
    X = draws.standard_normal((60, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.001
    return Dataset(X, (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int), norm_bound=1.0, name="people")


@pytest.fixture(scope="module")
def spec() -> TrainSpec:
    return TrainSpec(ObjectiveSpec("logistic"), 0.5, 8, steps=30, dtype="float64")


@pytest.fixture(scope="module")
def measured(people: Dataset, spec: TrainSpec, tmp_path_factory: pytest.TempPathFactory) -> Summary:
    where: Path = tmp_path_factory.mktemp("claim") / "study"
    measure(spec, people, 24, 6, store=where)
    return summary(load(where))


def gaussian_runs(shift: Floats, sigma: Floats, runs: int, seed: int) -> Floats:
    """Runs of two datasets whose means are `shift` apart, with noise `sigma` by weight.

    Each seed's runs share most of their noise, as those of one order of the records do.
    """
    draws = np.random.default_rng(seed)
    noise = draws.standard_normal((runs, len(shift))) * sigma
    return np.stack([noise, noise + shift])


def test_the_claim_is_the_grids(measured: Summary) -> None:
    for init in ("vary", "fixed"):
        claim, found = PapersClaim.of(measured, init), measured.of(init)
        assert claim.mu == found.sensitivity / found.sigma["minimum"].value
        assert claim.delta == 1 / 59**2
        assert found.by_observed is not None
        assert claim.claimed.epsilon == pytest.approx(found.by_observed.exact.epsilon, rel=1e-12)
        assert found.worst is not None
        assert claim.records == tuple(found.neighbours[place] for place in found.worst.pair)
        assert claim.seeds == tuple(range(24))


def sorted_rows(X: Floats, y: Floats) -> Floats:
    rows = np.column_stack([X, y])
    return rows[np.lexsort(rows.T)]


def test_the_pair_holds_the_records_of_the_grids_two_datasets(people: Dataset) -> None:
    first, both = pair(people, (3, 7))
    grid = neighbouring.replace_by_first(people, [3, 7])
    assert both.slot.tolist() == [neighbouring.UNCHANGED, 6]
    assert len(both.labels) == 2
    assert both.extra_X is not None
    assert both.extra_y is not None
    second_X, second_y = first.X.copy(), first.y.copy()
    second_X[6], second_y[6] = both.extra_X[0], both.extra_y[0]
    for place, (X, y) in enumerate([(first.X, first.y), (second_X, second_y)]):
        members = grid.members.copy()
        members[grid.slot[place]] = grid.occupant[place]
        expected = sorted_rows(people.X[members], people.y[members])
        np.testing.assert_array_equal(sorted_rows(X, y), expected)


def test_fresh_runs_have_the_law_of_the_grids_datasets(people: Dataset, spec: TrainSpec) -> None:
    claim = dataclasses.replace(CLAIM, records=(3, 7), init="fixed")
    fresh = fresh_runs(spec, people, claim, 4000)
    fixed = dataclasses.replace(spec, init="fixed")
    grid = neighbouring.replace_by_first(people, [3, 7])
    theirs = train(fixed, people, range(4000), grid)[:, :, 0].swapaxes(0, 1)
    # 2 datasets x 5 weights, means of 4,000 independent runs on each side: 5 standard errors.
    error = np.sqrt((fresh.var(axis=1) + theirs.var(axis=1)) / 4000)
    assert (np.abs(fresh.mean(axis=1) - theirs.mean(axis=1)) < 5 * error).all()
    # The two datasets differ by far more than that, so they cannot have been mixed up.
    gap = np.abs(fresh[0].mean(axis=0) - theirs[1].mean(axis=0)) / error[0]
    assert gap.max() > 20


def test_fresh_runs_are_not_the_grids(people: Dataset, spec: TrainSpec) -> None:
    with pytest.raises(InvalidArgument, match="leave out the grid's seed 90"):
        fresh_runs(spec, people, CLAIM, 20, first_seed=90)
    with pytest.raises(InvalidArgument, match="order=fixed to be random"):
        fresh_runs(dataclasses.replace(spec, order="fixed"), people, CLAIM, 20)


def test_a_quiet_direction_refutes_the_claim() -> None:
    # One sigma for all directions: sqrt((9 * 0.2108^2 + 0.02^2) / 10) = 0.2; the record moves only
    # the quiet weight, by half of the claimed sensitivity: 2.5 standard deviations.
    sigma = np.full(10, 0.2108)
    sigma[4] = 0.02
    shift = np.zeros(10)
    shift[4] = 0.05
    found = examine(CLAIM, gaussian_runs(shift, sigma, 4000, seed=0))
    assert found.claimed_mu == 0.5
    assert found.isotropic == pytest.approx(0.25, abs=0.02)
    assert found.distance == pytest.approx(2.5, abs=0.15)  # 4 standard errors of 2,000 runs
    assert found.refuted_by_band
    assert found.refuted_at_threshold
    assert 2.0 < found.mu < 2.5
    assert found.gaussian.epsilon == pytest.approx(gaussian.epsilon(found.mu, 1e-6))
    assert found.gaussian_band.epsilon > found.tested.epsilon
    assert found.plain.epsilon < found.gaussian.epsilon
    assert "if the mechanism is Gaussian" in found.gaussian.attack
    assert "within the family of Gaussian mechanisms" in found.gaussian_band.attack
    assert found.verdict.startswith("refuted: ")
    assert "99% confidence" in found.verdict


def test_a_true_claim_is_refuted_at_most_at_the_stated_rate() -> None:
    # Exactly as claimed, many weights and few runs: a direction tested where it was learned would
    # refute it in most cases.
    shift, repeats, refuted = np.array([np.zeros(60), np.full(60, 0.1 / math.sqrt(60))]), 100, 0
    for seed in range(repeats):
        noise = 0.2 * np.random.default_rng(seed).standard_normal((2, 400, 60))
        refuted += examine(CLAIM, shift[:, None] + noise, confidence=0.9).refuted
    assert refuted <= binom.ppf(0.9999, repeats, 0.1)


def test_what_was_learned_does_not_depend_on_what_is_tested() -> None:
    shift, sigma = np.full(5, 0.05), np.full(5, 0.2)
    runs = gaussian_runs(shift, sigma, 400, seed=3)
    other = runs.copy()
    other[:, 300:] = gaussian_runs(-shift, sigma, 100, seed=4)
    first, second = examine(CLAIM, runs), examine(CLAIM, other)
    np.testing.assert_array_equal(first.negative[:100], second.negative[:100])
    np.testing.assert_array_equal(first.positive[:100], second.positive[:100])


def test_the_augmented_release_adds_what_is_missing() -> None:
    shift, sigma = np.full(4, 0.05), np.full(4, 0.2)
    runs = gaussian_runs(shift, sigma, 4000, seed=5)
    found = examine(CLAIM, runs, epsilon=1.0)
    target = gaussian.sigma(1.0, 1e-6, 0.1)
    assert found.added == pytest.approx(math.sqrt(target**2 - 0.2**2))
    assert found.tested.epsilon == pytest.approx(1.0)
    assert found.claimed_mu == pytest.approx(0.1 / target)
    # The noise is really there, of its own for each dataset: |shift| = 0.1 over both noises.
    assert found.distance == pytest.approx(0.1 / target, abs=4 * math.sqrt(2 / 2000))
    assert np.corrcoef(found.negative, found.positive)[0, 1] < 0.5
    assert not found.refuted
    with pytest.raises(InvalidArgument, match="which is epsilon_i"):
        examine(CLAIM, runs, epsilon=CLAIM.claimed.epsilon * 1.01)


def test_detectable_is_where_half_of_the_audits_refute() -> None:
    runs, confidence = 1000, 0.95
    true = detectable(0.5, runs=runs, confidence=confidence)
    draws, refuted = np.random.default_rng(0), 0
    for _ in range(400):
        negative, positive = draws.standard_normal((2, runs))
        counts = bounds.counts_at(negative, positive + true, true / 2)
        refuted += bounds.gaussian_mu_from_counts(*counts, confidence=confidence) > 0.5
    assert 0.38 < refuted / 400 < 0.62  # one half, and 5 standard errors
    assert detectable(20.0, runs=runs, confidence=confidence) == math.inf


def test_a_verdict_says_what_could_have_been_refuted() -> None:
    shift, sigma = np.full(4, 0.01), np.full(4, 0.2)
    found = examine(CLAIM, gaussian_runs(shift, sigma, 400, seed=6))
    assert not found.refuted
    assert found.verdict.startswith("not refuted: the Gaussian trade-off with mu = 0.5 ")
    assert f"if the truth were mu = {found.detectable:.3g} or more" in found.verdict


def test_worlds_without_noise_are_told_apart() -> None:
    W = np.zeros((2, 400, 3))
    W[1, :, 1] = 0.1
    found = examine(CLAIM, W)
    assert found.refuted
    assert found.refuted_by_epsilon == (found.plain.epsilon > found.tested.epsilon)
    assert found.distance > 1e9  # but for rounding, infinite


@pytest.mark.parametrize("shape", [(3, 100, 4), (2, 100), (2, 10, 4)])
def test_runs_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgument, match="weights="):
        examine(CLAIM, np.zeros(shape))
