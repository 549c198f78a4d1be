"""Sufficient statistics: no pair of records exceeds their sensitivity, and their sums are exact."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from sordino.accounting import gaussian
from sordino.errors import InvalidArgument
from sordino.estimators.methods import statistics
from sordino.estimators.methods.statistics import Sums, grid
from sordino.privacy import Relation
from sordino.proofs.evidence import from_plain
from sordino.proofs.statistics import StatisticsEvidence, sensitivity, statistics_noise
from sordino.proofs.theorems import beside

ADDED = (Relation.ADD_OR_REMOVE_ONE, Relation.ZERO_OUT)
RATIOS = (0.05, 0.5, 1.0, 1.2, math.sqrt(2), 1.5, 4.0)


def vector(x, y):
    """One record as the mechanism sees it: lengths are those of the Frobenius norm."""
    square = np.outer(x, x)
    above = square[np.triu_indices(len(x), 1)]
    return np.concatenate([np.diag(square), math.sqrt(2) * above, y * x])


def within(free, R, Y, columns):
    """A record of any free numbers, drawn into the bounds."""
    x, y = free[:columns], free[columns]
    size = np.linalg.norm(x)
    return x * min(1.0, R / size) if size else x, float(np.clip(y, -Y, Y))


def farthest(R, Y, rng, columns=3, starts=6):
    """The largest distance that a search among pairs finds."""

    def apart(free):
        one = within(free[: columns + 1], R, Y, columns)
        two = within(free[columns + 1 :], R, Y, columns)
        return -float(np.linalg.norm(vector(*one) - vector(*two)))

    size = max(R, Y)
    found = [
        minimize(apart, size * rng.normal(size=2 * columns + 2), method="Powell")
        for _ in range(starts)
    ]
    return max(-each.fun for each in found)


@pytest.mark.parametrize("ratio", RATIOS)
def test_no_pair_is_farther_and_some_pair_is_as_far(ratio):
    rng = np.random.default_rng(int(100 * ratio))
    R = float(rng.uniform(0.3, 3))
    Y = ratio * R
    bound = sensitivity(R, Y, Relation.REPLACE_ONE)
    found = farthest(R, Y, rng)
    assert found <= bound * (1 + 1e-12)
    assert found >= bound * (1 - 1e-4)
    for relation in ADDED:
        alone = sensitivity(R, Y, relation)
        x = rng.normal(size=3)
        x *= R / np.linalg.norm(x)
        assert np.linalg.norm(vector(x, Y)) == pytest.approx(alone, rel=1e-12)
        for _ in range(50):
            one = within(2 * max(R, Y) * rng.normal(size=4), R, Y, 3)
            assert np.linalg.norm(vector(*one)) <= alone * (1 + 1e-12)


@pytest.mark.parametrize("ratio", RATIOS)
def test_formulas_that_one_could_believe_are_exceeded(ratio):
    """Each forgets something: opposite targets, rows that turn, or the weight of off-diagonals."""
    R, Y = 1.0, ratio
    found = farthest(R, Y, np.random.default_rng(3))
    same_target = math.sqrt(2) * R * R  # only rows turn
    same_row = 2 * R * Y  # only targets flip
    assert found > same_target * (1 + 1e-3)
    if math.sqrt(2) * R * 0.99 > Y:
        assert found > same_row * (1 + 1e-4)
    twice = 2 * sensitivity(R, Y, Relation.ADD_OR_REMOVE_ONE)
    assert sensitivity(R, Y, Relation.REPLACE_ONE) <= twice
    # The vector without sqrt(2) off the diagonal is shorter: noise of its size is too little.
    x, other = np.array([R, 0.0]), np.array([R / 2, R * math.sqrt(0.75)])
    upper = np.triu_indices(2)
    plain = np.linalg.norm((np.outer(x, x) - np.outer(other, other))[upper])
    assert plain < np.linalg.norm(np.outer(x, x) - np.outer(other, other)) * (1 - 1e-3)


def flat(sums):
    above = np.triu_indices(len(sums.products), 1)
    parts = np.diag(sums.squares), math.sqrt(2) * sums.squares[above], sums.products
    return np.concatenate(parts)


def rows_and_targets(rng, n, columns, norm, dtype):
    """Rows up to the norm, of every size down to nearly nothing, and targets up to it."""
    X = rng.normal(size=(n, columns)) * 10.0 ** rng.uniform(-9, 1, size=(n, 1))
    X *= np.minimum(1, 1 / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]
    X[: n // 4] /= np.maximum(np.linalg.norm(X[: n // 4], axis=1), 1e-300)[:, None]
    return (norm * X).astype(dtype), norm * rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=n)


@pytest.mark.parametrize("seed", range(8))
def test_no_twin_moves_the_sums_farther(seed):
    """As computed, by the code of a fit: cut, in blocks, in whatever precision rows come."""
    rng = np.random.default_rng(seed)
    norm = float(10.0 ** rng.uniform(-6, 6))
    n, columns = int(rng.integers(2, 6000)), int(rng.integers(1, 6))
    X, y = rows_and_targets(rng, n, columns, norm, rng.choice(["float32", "float64"]))
    shape = {"columns": columns, "norm": norm, "target_norm": norm}
    first = Sums.of(X, y, norm, n)
    for relation in Relation:
        moved = StatisticsEvidence(relation=relation, sigma=1.0, regulariser=0.0, **shape).moved
        farthest = 0.0
        for _ in range(12):
            X2, y2 = X.copy(), y.copy()
            place = int(rng.integers(n))
            turned = rng.normal(size=columns)
            X2[place] = norm * turned / np.linalg.norm(turned)
            y2[place] = -np.sign(y[place] or 1.0) * norm
            if relation is Relation.ZERO_OUT:
                X2[place] = 0
            if relation is Relation.ADD_OR_REMOVE_ONE:
                X2, y2 = np.delete(X, place, 0), np.delete(y, place)
            second = Sums.of(X2, y2, norm, n)
            farthest = max(farthest, float(np.linalg.norm(flat(first) - flat(second))))
        assert farthest <= moved
        assert columns == 1 or relation is not Relation.REPLACE_ONE or farthest > moved / 4


@pytest.mark.parametrize("seed", range(4))
def test_sums_are_exact_so_no_order_shows(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    norm = float(10.0 ** rng.uniform(-3, 3))
    X, y = rows_and_targets(rng, 700, 3, norm, "float64")
    sums, turned = Sums.of(X, y, norm, 700), rng.permutation(700)
    monkeypatch.setattr(statistics, "BLOCK", 17)
    again = Sums.of(X[turned], y[turned], norm, 700)
    assert (sums.squares == again.squares).all()
    assert (sums.products == again.products).all()
    step = grid(norm, 700)
    cut, targets = np.trunc(X / step) * step, np.trunc(y / step) * step
    assert (np.abs(cut) <= np.abs(X)).all()
    exact = sum(
        Fraction(float(a)) * Fraction(float(b)) for a, b in zip(cut[:, 0], targets, strict=True)
    )
    assert Fraction(float(sums.products[0])) == exact
    # What a plain sum would do: it is another number in another order.
    plain = Sums.of(X, y), Sums.of(X[turned], y[turned])
    assert any((plain[0].squares != plain[1].squares).ravel())


@pytest.mark.parametrize("rows", [1, 2, 1000, 2**24, 2**30, 2**45])
def test_the_grid_leaves_room_for_twice_as_many_rows(rows):
    for norm in (1e-29, 0.7, 1.0, 1e29):
        whole = math.ceil(norm * (1 + 1e-6) / grid(norm, rows))
        assert 2 * rows * whole * whole <= 2**53
        assert whole >= 2 if rows < 2**40 else whole >= 1
    assert grid(1.0, 5) == grid(1.0, 2**20) == 2.0**-13  # 1 and its slack are above 2^0


class Recorded:
    """Noise that adds nothing, and keeps how much was asked of it for how many numbers."""

    def __init__(self):
        self.asked = []

    def perturb(self, values, scale):
        self.asked.append((len(values), scale))
        return np.array(values) + scale * len(self.asked)


@pytest.mark.parametrize("columns", [1, 2, 7])
def test_every_number_of_the_sums_gets_its_noise_once(columns):
    squares = np.arange(columns**2, dtype=float).reshape(columns, columns)
    sums, noise = Sums(squares + squares.T, np.arange(columns) + 0.5), Recorded()
    noisy = sums.noisy(noise, 3.0)
    (both, sigma), (above, off) = noise.asked
    assert (both, sigma, above) == (2 * columns, 3.0, columns * (columns - 1) // 2)
    assert 3.0 / math.sqrt(2) <= off <= 3.0 / math.sqrt(2) * (1 + 1e-15)
    assert (noisy.squares == noisy.squares.T).all()
    assert np.allclose(noisy.products, sums.products + 3)
    wanted = sums.squares + 2 * off
    np.fill_diagonal(wanted, np.diag(sums.squares) + 3)
    assert np.allclose(noisy.squares, wanted)


def evidence(**changed):
    how = {"relation": Relation.REPLACE_ONE, "columns": 4, "norm": 1.0, "target_norm": 1.0}
    return StatisticsEvidence(**{**how, "sigma": 5.0, "regulariser": 3.0, **changed})


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("people", [1, 3])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_the_least_noise_is_that_of_the_gaussian(relation, people, epsilon):
    unit = evidence(relation=relation, rows_per_person=people)
    sigma, found = statistics_noise(unit, epsilon, 1e-6)
    assert found.proof().guarantee(1e-6).epsilon <= epsilon
    assert sigma == pytest.approx(gaussian.sigma(epsilon, 1e-6, people * unit.moved), rel=1e-9)
    less = evidence(relation=relation, rows_per_person=people, sigma=sigma * (1 - 1e-6))
    assert less.proof().guarantee(1e-6).epsilon > epsilon


def test_it_is_read_again_and_what_stands_beside_it_is_no_better():
    given = evidence(persons_counted=True)
    assert from_plain(given.to_plain()) == given
    proof = given.proof()
    said = {each.method: each for each in beside(proof, given.kind, given.done(), 1e-6)}
    assert said["statistics"].value == proof.guarantee(1e-6).epsilon
    assert said["statistics-apart"].value > said["statistics"].value * (1 + 1e-3)
    assert not said["steps"].applies
    assert not said["output"].applies
    classical = list(beside(evidence(sigma=60.0).proof(), given.kind, evidence(sigma=60.0), 1e-6))
    value = next(each for each in classical if each.method == "classical").value
    assert 1 > value > evidence(sigma=60.0).proof().guarantee(1e-6).epsilon


@pytest.mark.parametrize(
    "changed",
    [
        {"norm": 0.0},
        {"target_norm": -1.0},
        {"sigma": 0.0},
        {"sigma": math.nan},
        {"regulariser": -1e-9},
        {"problems": 2},
        {"columns": 0},
    ],
)
def test_numbers_that_prove_nothing(changed):
    with pytest.raises(InvalidArgument):
        evidence(**changed)
