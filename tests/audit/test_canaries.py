"""Canaries for one training: what is drawn, kept, guessed and bounded, and a real training."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from sordino.accounting import gaussian
from sordino.audit.bounds import GAUSSIAN_HYPOTHESIS
from sordino.audit.canaries import (
    Canaries,
    CanaryFileError,
    f_dp_mu,
    f_dp_one_run,
    make_canaries,
    steinke,
    steinke_p_value,
)
from sordino.data import Dataset
from sordino.errors import InvalidArgument
from sordino.models.constants import ObjectiveSpec
from sordino.sgd import TrainSpec, train


def test_what_is_drawn():
    canaries = make_canaries(2000, columns=30, norm=2.5, classes=3, seed=1)
    assert len(canaries) == 2000
    norms = np.linalg.norm(canaries.X, axis=1)
    assert np.all(norms <= 2.5)
    assert norms.min() == pytest.approx(2.5, rel=1e-12)
    # Directions without a preference: their mean is of the size that independence gives.
    assert np.linalg.norm(canaries.X.mean(axis=0)) < 3 * 2.5 / math.sqrt(2000)
    assert set(canaries.y) == {0, 1, 2}
    for share, chance in ((canaries.included, 1 / 2), (canaries.y == 0, 1 / 3)):
        assert binom.ppf(1e-6, 2000, chance) < share.sum() < binom.ppf(1 - 1e-6, 2000, chance)
    assert abs(np.corrcoef(canaries.included, canaries.y)[0, 1]) < 5 / math.sqrt(2000)
    X, y = canaries.included_rows()
    assert np.array_equal(X, canaries.X[canaries.included])
    assert np.array_equal(y, canaries.y[canaries.included])


def test_a_seed_repeats_and_none_does_not():
    first, again, other = (make_canaries(64, 4, 1.0, 2, seed=s) for s in (5, 5, 6))
    assert np.array_equal(first.X, again.X)
    assert np.array_equal(first.included, again.included)
    assert not np.array_equal(first.included, other.included)
    coins = {make_canaries(64, 4, 1.0, 2).included.tobytes() for _ in range(3)}
    assert len(coins) == 3


def test_save_and_load(tmp_path):
    canaries = make_canaries(50, columns=3, norm=1.0, classes=2)
    path = tmp_path / "canaries"
    canaries.save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["canaries"]
    loaded = Canaries.load(path)
    for name in ("X", "y", "included"):
        assert np.array_equal(getattr(loaded, name), getattr(canaries, name))
        assert getattr(loaded, name).dtype == getattr(canaries, name).dtype
    assert loaded.norm == 1.0


def test_coins_are_not_overwritten(tmp_path):
    canaries, other = (make_canaries(50, 3, 1.0, 2) for _ in range(2))
    path = tmp_path / "canaries.npz"
    canaries.save(path)
    with pytest.raises(CanaryFileError, match="new file"):
        other.save(path)
    assert np.array_equal(Canaries.load(path).included, canaries.included)
    with pytest.raises(CanaryFileError, match="writable"):
        other.save(tmp_path / "nowhere" / "canaries.npz")


class _Pickled:
    def __reduce__(self):
        return (pytest.fail, ("a file ran code",))


def test_files_that_hold_no_canaries(tmp_path):
    path = tmp_path / "file.npz"
    with pytest.raises(CanaryFileError, match="readable"):
        Canaries.load(path)
    good = {
        "format": np.int64(1),
        "X": np.ones((3, 2)),
        "y": np.zeros(3, dtype=np.int64),
        "included": np.ones(3, dtype=bool),
        "norm": np.float64(2.0),
    }
    with path.open("wb") as file:
        np.savez(file, **good)
    assert len(Canaries.load(path)) == 3
    spoiled = [
        {"format": np.int64(2)},
        {"included": np.ones(2, dtype=bool)},
        {"included": np.ones(3)},
        {"X": np.full((3, 2), np.nan)},
        {"X": np.array([_Pickled()], dtype=object)},
        {"norm": np.float64(-1)},
        {"y": np.zeros(3)},
    ]
    for change in spoiled:
        with path.open("wb") as file:
            np.savez(file, **(good | change))
        with pytest.raises(CanaryFileError, match="hold canaries of format 1"):
            Canaries.load(path)
    for content in (b"", b"PK\x03\x04", b"not a file of ours", b"\x80\x04K\x01."):
        path.write_bytes(content)
        with pytest.raises(CanaryFileError, match="hold canaries"):
            Canaries.load(path)
    np.save(tmp_path / "array.npy", np.ones(3))
    with pytest.raises(CanaryFileError, match="hold canaries"):
        Canaries.load(tmp_path / "array.npy")


def test_guesses_are_the_extremes():
    canaries = make_canaries(10, 2, 1.0, 2, seed=0)
    scores = np.array([3, -1, 0, 9, 5, -math.inf, 2, math.inf, 1, 4])
    assert canaries.guess(scores, 4).tolist() == [0, -1, 0, 1, 0, -1, 0, 1, 0, 0]
    assert canaries.guess(scores, 5).tolist() == [0, -1, 0, 1, 1, -1, 0, 1, 0, 0]
    assert canaries.guess(scores, 0).tolist() == [0] * 10
    assert np.count_nonzero(canaries.guess(scores, 10)) == 10
    # Ties go by position, so that as many are guessed as was fixed.
    assert canaries.guess(np.zeros(10), 4).tolist() == [-1, -1, 0, 0, 0, 0, 0, 0, 1, 1]
    assert [make_canaries(m, 2, 1.0, 2).default_guesses for m in (2, 10, 99, 1000)] == [
        *(2, 2, 18, 200)
    ]


def test_the_bound_is_of_the_right_guesses():
    canaries = make_canaries(300, 2, 1.0, 2, seed=3)
    scores = canaries.included.astype(float)
    plain, refined = canaries.bound(scores, delta=1e-5, confidence=0.95, attack="the coins")
    assert plain.epsilon == steinke(300, 60, 60, delta=1e-5, confidence=0.95).epsilon > 1
    assert refined.epsilon == f_dp_one_run(300, 60, 60, delta=1e-5, confidence=0.95).epsilon
    for found in (plain, refined):
        assert "add-or-remove-one" in found.attack
        assert found.attack.startswith("the coins; ")
    (pure,) = canaries.bound(scores, delta=0, confidence=0.95)
    assert pure.delta == 0
    wrong = canaries.bound(-scores, delta=1e-5, confidence=0.95)
    assert [found.epsilon for found in wrong] == [0, 0]
    # Ten of the scores point the wrong way.
    some = scores.copy()
    some[np.flatnonzero(canaries.included)[:10]] = -1
    noted = canaries.bound(some, guesses=40, delta=1e-5, confidence=0.95)[0]
    assert noted.epsilon == steinke(300, 40, 30, delta=1e-5, confidence=0.95).epsilon


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scores": np.zeros(9)}, "len(scores)=9 == 10"),
        ({"scores": np.r_[np.zeros(9), math.nan]}, "first NaN is at 9"),
        ({"guesses": 11}, "guesses=11 <= 10"),
        ({"guesses": -1}, "guesses=-1 >= 0"),
        ({"confidence": 1}, "confidence"),
        ({"delta": 1}, "delta"),
    ],
)
def test_bad_scores_are_one_sentence(change, words):
    good = {"scores": np.zeros(10), "delta": 1e-5, "confidence": 0.95}
    with pytest.raises(InvalidArgument) as refused:
        make_canaries(10, 2, 1.0, 2).bound(**(good | change))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1, 2, 1.0, 2), "canaries=1 >= 2"),
        ((10, 0, 1.0, 2), "columns=0 >= 1"),
        ((10, 2, 0.0, 2), "norm=0.0 > 0"),
        ((10, 2, 1.0, 1), "classes=1 >= 2"),
    ],
)
def test_bad_canaries_are_one_sentence(arguments, words):
    with pytest.raises(InvalidArgument) as refused:
        make_canaries(*arguments)
    assert words in str(refused.value)


def test_a_noisy_sum_of_canaries_is_bounded_and_seen():
    """The Gaussian mechanism on a sum, whose epsilon is known: the bound is below, not at 0."""
    epsilon, columns, over, level = 8.0, 1500, 0, 0.2
    noise = gaussian.sigma(epsilon, 1e-5)
    shown = []
    for seed in range(20):
        canaries = make_canaries(500, columns, 1.0, 2, seed=seed)
        generator = np.random.default_rng(seed)
        total = canaries.included_rows()[0].sum(axis=0) + noise * generator.normal(size=columns)
        found = canaries.bound(canaries.X @ total, delta=1e-5, confidence=1 - level)
        shown.append([observation.epsilon for observation in found])
        over += max(shown[-1]) > epsilon
    assert over <= binom.ppf(0.999, 20, level)
    plain, refined = np.mean(shown, axis=0)
    assert 0.15 * epsilon < plain < refined < epsilon


@pytest.mark.parametrize("noise_multiplier", [0.0, 30.0])
def test_one_real_training(tmp_path, noise_multiplier):
    """Save, train once with the included rows, come back with scores."""
    make_canaries(200, columns=1000, norm=1.0, classes=2, seed=8).save(tmp_path / "canaries.npz")
    canaries = Canaries.load(tmp_path / "canaries.npz")
    generator = np.random.default_rng(0)
    people = generator.normal(size=(100, 1000))
    people /= np.linalg.norm(people, axis=1, keepdims=True)
    X, y = canaries.included_rows()
    data = Dataset(np.r_[people, X], np.r_[generator.integers(2, size=100), y], norm_bound=1.0)
    spec = TrainSpec(
        objective=ObjectiveSpec("logistic"),
        learning_rate=5.0,
        batch_size=20,
        epochs=20,
        order="shuffle",
        max_grad_norm=1.0,
        noise_multiplier=noise_multiplier,
    )
    weights = np.asarray(train(spec, data, seeds=[0]), dtype=np.float64).reshape(-1)
    margins = canaries.X @ weights[:1000] * (2 * canaries.y - 1)
    plain, refined = canaries.bound(margins, guesses=60, delta=1e-5, confidence=0.95)
    if noise_multiplier == 0:  # it has learnt them by heart
        assert plain.epsilon == steinke(200, 60, 60, delta=1e-5, confidence=0.95).epsilon > 2
    else:
        assert plain.epsilon < 0.5
    assert refined.epsilon >= plain.epsilon


def test_coins_are_for_their_owner_alone(tmp_path):
    canaries = make_canaries(20, 3, 1.0, 2)
    file = tmp_path / "canaries.npz"
    canaries.save(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert "included" not in repr(canaries)


# One run with many canaries: golden vectors, edges, monotonicity, and coverage.

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "audit_6_7.json").read_text())[
    "7_audit"
]
AUDITS = 1000


@pytest.mark.parametrize("case", GOLDEN["steinke_one_run"]["cases"])
def test_steinke_golden(case):
    rel = GOLDEN["steinke_one_run"]["tol"]["rel"]
    counts = case["m"], case["r"], case["v"]
    found = steinke(*counts, delta=case["delta"], confidence=1 - case["p"])
    assert found.epsilon == pytest.approx(case["eps_lb"], rel=rel)
    assert found.trials == case["m"]
    value = steinke_p_value(*counts, 1.0, case["delta"])
    assert value == pytest.approx(case["p_value_at_eps1"], rel=rel)


@pytest.mark.parametrize("case", GOLDEN["mahloujifar_gdp"]["cases"])
def test_f_dp_golden(case):
    rel = GOLDEN["mahloujifar_gdp"]["tol"]["rel"]
    counts = case["m"], case["c_prime"], case["c"]
    mu = f_dp_mu(*counts, confidence=1 - case["tau"])
    assert mu == pytest.approx(case["mu_lb"], rel=rel)
    found = f_dp_one_run(*counts, delta=1e-5, confidence=1 - case["tau"])
    assert found.epsilon == pytest.approx(case["eps_at_1e5"], rel=rel)
    assert GAUSSIAN_HYPOTHESIS in found.attack


def test_further_values_of_the_notes():
    assert steinke(1000, 200, 180, delta=1e-5, confidence=0.95).epsilon == pytest.approx(
        1.79628507067094, rel=1e-7
    )
    assert f_dp_mu(100, 100, 100, confidence=0.95) == pytest.approx(1.70316031881427, rel=1e-6)


def slow_p_value(m, r, v, epsilon, delta):
    """The formula of docs/math.md 7.3, term by term."""
    law = binom(r, 1 / (1 + math.exp(-epsilon)))
    gain = max(
        (sum(law.pmf(w) for w in range(max(v - i, 0), v)) / i for i in range(1, v + 1)), default=0
    )
    return min(1.0, law.sf(v - 1) + 2 * m * delta * gain)


@pytest.mark.parametrize("counts", [(30, 20, 15), (30, 20, 20), (10, 1, 1), (10, 1, 0), (5, 5, 1)])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 6.0])
def test_p_value_by_its_formula(counts, epsilon):
    for delta in (0.0, 1e-3, 0.02):
        assert steinke_p_value(*counts, epsilon, delta) == pytest.approx(
            slow_p_value(*counts, epsilon, delta), rel=1e-9
        )


def test_p_value_grows_with_epsilon():
    """So that one bisection finds the largest rejected one."""
    epsilons = np.r_[0, np.geomspace(1e-3, 30, 300)]
    for counts in ((1000, 100, 75), (1000, 1000, 600), (50, 50, 50), (400, 40, 39), (20, 20, 3)):
        for delta in (0.0, 1e-5, 1e-3, 0.05):
            values = np.array([steinke_p_value(*counts, e, delta) for e in epsilons])
            small = values[: np.argmax(values >= 0.5) + 1]  # the rest is never rejected
            assert np.all(np.diff(small) >= -1e-12)
            assert np.all(values[len(small) :] >= 0.5 - 1e-12)


def f_dp_refuted_slowly(mu, m, guesses, correct, level):
    """The recursion of docs/math.md 7.4, one mu at a time."""
    from statistics import NormalDist

    normal = NormalDist()
    r, h = level * correct / m, level * (guesses - correct) / m
    for i in range(correct - 1, -1, -1):
        if r >= 1:
            return True
        raised = max(h, normal.cdf(normal.inv_cdf(r) - mu))
        r, h = r + i / (guesses - i) * (raised - h), raised
    return r + h > guesses / m


def test_f_dp_is_the_last_refuted():
    for counts in ((200, 50, 40), (60, 60, 60), (1000, 10, 10)):
        mu = f_dp_mu(*counts, confidence=0.9)
        assert f_dp_refuted_slowly(mu * (1 - 1e-7), *counts, 0.1)
        assert not f_dp_refuted_slowly(mu * (1 + 1e-7), *counts, 0.1)


@pytest.mark.parametrize("counts", [(10, 0, 0), (100, 40, 20), (100, 40, 0), (1, 1, 1), (9, 9, 4)])
def test_counts_that_show_nothing(counts):
    assert steinke(*counts, delta=0, confidence=0.95).epsilon == 0.0
    assert f_dp_mu(*counts, confidence=0.95) == 0.0
    assert f_dp_one_run(*counts, delta=1e-5, confidence=0.95).epsilon == 0.0


def test_more_right_guesses_show_more():
    shown = [steinke(200, 50, v, delta=1e-5, confidence=0.95).epsilon for v in range(51)]
    assert shown == sorted(shown)
    assert shown[25] == 0
    assert shown[32] > 0
    assert math.isfinite(shown[50])
    mus = [f_dp_mu(200, 50, v, confidence=0.95) for v in range(51)]
    assert mus == sorted(mus)
    assert 0 < mus[40] < mus[50] < 40


def test_all_right_is_a_binomial_tail():
    """At delta = 0: q^r = level."""
    right = 0.05 ** (1 / 300)
    found = steinke(1000, 300, 300, delta=0, confidence=0.95)
    assert found.epsilon == pytest.approx(math.log(right / (1 - right)), rel=1e-9)


def test_delta_counts_for_every_canary():
    few = steinke(100, 100, 90, delta=1e-4, confidence=0.95).epsilon
    many = steinke(1000, 100, 90, delta=1e-4, confidence=0.95).epsilon
    assert 0 < many < few
    assert steinke(10_000, 100, 90, delta=0.1, confidence=0.95).epsilon == 0


@pytest.mark.parametrize("bound", [steinke, f_dp_one_run])
@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((10, 11, 5), "guesses=11 <= canaries=10"),
        ((10, 5, 6), "correct=6 <= guesses=5"),
        ((0, 0, 0), "canaries=0 >= 1"),
        ((10, 5, -1), "correct=-1 >= 0"),
        ((10, 5, 2.5), "whole number"),
    ],
)
def test_bad_counts_are_one_sentence(bound, counts, words):
    with pytest.raises(InvalidArgument) as refused:
        bound(*counts, delta=1e-5, confidence=0.95)
    assert words in str(refused.value)


def test_other_bad_input():
    with pytest.raises(InvalidArgument, match="Gaussian hypothesis"):
        f_dp_one_run(10, 5, 5, delta=0, confidence=0.95)
    with pytest.raises(InvalidArgument, match="confidence"):
        steinke(10, 5, 5, delta=0, confidence=95)
    with pytest.raises(InvalidArgument, match="epsilon"):
        steinke_p_value(10, 5, 5, -1.0, 0)


# Coverage.


def allowed(level):
    return binom.ppf(0.999, AUDITS, level)


@pytest.mark.parametrize("truth", [0.0, 0.5, 2.0])
def test_coverage_of_randomised_response(truth):
    """Right with e^eps/(1 + e^eps), all guessed: the bound is met exactly, up to its steps."""
    level, canaries = 0.2, 150
    right = 1 / (1 + math.exp(-truth))
    shown = cache(lambda v: steinke(canaries, canaries, v, delta=0, confidence=1 - level).epsilon)
    correct = np.random.default_rng(5).binomial(canaries, right, size=AUDITS)
    over = sum(shown(int(v)) > truth for v in correct)
    assert 0.5 * level * AUDITS < over <= allowed(level)  # not so loose that a wrong one would pass
    # Planted: two more right guesses than there were.
    wrong = sum(shown(min(int(v) + 2, canaries)) > truth for v in correct)
    assert wrong > allowed(level)


def test_coverage_with_a_delta():
    """The coin itself leaks with probability delta; otherwise randomised response."""
    level, canaries, truth, delta = 0.2, 150, 1.0, 2e-3
    right = delta + (1 - delta) / (1 + math.exp(-truth))
    shown = cache(lambda v: steinke(canaries, canaries, v, delta=delta, confidence=1 - level))
    correct = np.random.default_rng(6).binomial(canaries, right, size=AUDITS)
    assert sum(shown(int(v)).epsilon > truth for v in correct) <= allowed(level)


@pytest.mark.parametrize("mu", [0.0, 0.5, 1.5])
@pytest.mark.parametrize("guesses", [20, 100])
def test_coverage_of_gaussian_canaries(mu, guesses):
    """Independent canaries, each seen through noise; a share of them guessed both ways."""
    level, canaries, delta = 0.2, 100, 1e-3
    truth = gaussian.epsilon(mu, delta)
    generator = np.random.default_rng(9)
    included = generator.random((AUDITS, canaries)) < 0.5
    order = np.argsort(included * mu + generator.normal(size=included.shape), axis=1)
    ranked = np.take_along_axis(included, order, axis=1)
    half = guesses // 2
    correct = ranked[:, -half:].sum(axis=1) + (~ranked[:, :half]).sum(axis=1)
    counts = (canaries, guesses)
    plain = cache(lambda v: steinke(*counts, v, delta=delta, confidence=1 - level).epsilon)
    refined = cache(lambda v: f_dp_mu(*counts, v, confidence=1 - level))
    assert sum(plain(int(v)) > truth for v in correct) <= allowed(level)
    assert sum(refined(int(v)) > mu for v in correct) <= allowed(level)
