"""v1's theory of variability: golden vectors, and counting by going through every order."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from sordino.errors import InvalidArgument
from sordino.intrinsic import variability

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "intrinsic_8_9.json").read_text())[
    "8_variability"
]


def cases(name):
    return [pytest.param(case, id=str(tuple(case.values())[:2])) for case in GOLDEN[name]["cases"]]


def counted(n, size):
    """Overlaps of every order with the first one, batch by batch."""
    found = Counter(
        sum(place // size == record // size for place, record in enumerate(order))
        for order in itertools.permutations(range(n))
    )
    return tuple(found[j] for j in range(n + 1))


@pytest.mark.parametrize("case", cases("rencontres"))
def test_rencontres_golden(case):
    n = case["N"]
    counts = variability.rencontres(n)
    assert list(counts) == case["rencontres"]
    assert variability.overlap_mean(n) == Fraction(case["mean"])
    assert variability.overlap_variance(n) == Fraction(case["var"])
    mean = Fraction(sum(j * many for j, many in enumerate(counts)), math.factorial(n))
    square = Fraction(sum(j * j * many for j, many in enumerate(counts)), math.factorial(n))
    assert (mean, square - mean**2) == (Fraction(case["mean"]), Fraction(case["var"]))


@pytest.mark.parametrize("epochs", [1, 2, 3])
@pytest.mark.parametrize("case", cases("rencontres"))
def test_tails_golden(case, epochs):
    n, wanted = case["N"], case[f"k{epochs}"]
    rel = GOLDEN["rencontres"]["tol"]["rel"]
    tail = variability.exact_tail(n, epochs)
    assert float(tail) == pytest.approx(wanted["exact_tail"], rel=rel, abs=0)
    below = variability.not_above_sensitivity(n, epochs)
    assert float(below) == pytest.approx(wanted["P_DeltaV_le_DeltaS"], rel=rel, abs=0)
    claimed = variability.chebyshev(n, epochs)
    if wanted["chebyshev"] is None:
        assert claimed is None
    else:
        assert float(claimed) == pytest.approx(wanted["chebyshev"], rel=rel, abs=0)
        assert tail <= claimed


def test_one_epoch_falls_below_the_sensitivity_only_for_the_same_order():
    for n in range(2, 9):
        assert variability.not_above_sensitivity(n) == Fraction(1, math.factorial(n))


@pytest.mark.parametrize("case", cases("batch_overlap"))
def test_batch_overlap_golden(case):
    n, size = case["N"], case["B"]
    assert variability.overlap_mean(n, size) == Fraction(case["mean"])
    assert variability.overlap_variance(n, size) == Fraction(case["var"])


@pytest.mark.parametrize(("n", "size"), [(5, 1), (6, 2), (6, 3), (6, 6), (7, 3), (7, 5)])
def test_batch_overlaps_are_those_of_every_order(n, size):
    assert variability.batch_overlaps(n, size) == counted(n, size)


@pytest.mark.parametrize(("n", "size"), [(8, 4), (12, 3), (40, 8), (60, 1)])
def test_moments_follow_from_the_whole_distribution(n, size):
    counts = variability.batch_overlaps(n, size)
    assert sum(counts) == math.factorial(n)
    mean = Fraction(sum(j * many for j, many in enumerate(counts)), math.factorial(n))
    square = Fraction(sum(j * j * many for j, many in enumerate(counts)), math.factorial(n))
    assert mean == variability.overlap_mean(n, size)
    assert square - mean**2 == variability.overlap_variance(n, size)
    if size == 1:
        assert counts == variability.rencontres(n)


def test_bounds_by_going_through_every_order():
    n, size, epochs, lipschitz, rate = 6, 2, 3, 1.5, 0.1
    found = variability.bounds(n, epochs, lipschitz, rate, size)
    # One epoch: 2 L eta / B for every example of a batch that the other order's batch has not.
    step, orders = 2 * lipschitz * rate / size, math.factorial(n)
    one = [(step * (n - j), many / orders) for j, many in enumerate(counted(n, size))]
    mean = sum(value * share for value, share in one)
    variance = sum((value - mean) ** 2 * share for value, share in one)
    assert found.mean == pytest.approx(epochs * mean, rel=1e-12)
    assert found.variance == pytest.approx(epochs * variance, rel=1e-12)
    assert found.largest == pytest.approx(epochs * max(value for value, _ in one), rel=1e-12)
    assert found.sensitivity == pytest.approx(2 * epochs * lipschitz * rate / size, rel=1e-12)


def test_what_has_no_exact_answer_is_refused():
    with pytest.raises(InvalidArgument, match=r"batch_size=4 to divide n=6"):
        variability.overlap_variance(6, 4)
    with pytest.raises(InvalidArgument, match=r"n=301 <= 300"):
        variability.rencontres(301)
    with pytest.raises(InvalidArgument, match=r"batch_size=7 <= 6"):
        variability.batch_overlaps(6, 7)
