"""epsilon_i by both formulas: golden vectors, the papers' own tables, and what they hide."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from sordino.accounting import gaussian
from sordino.errors import InvalidArgument
from sordino.intrinsic import epsilon, spread
from sordino.intrinsic.directional import between
from sordino.intrinsic.interval import Interval
from sordino.intrinsic.theory import printed_sensitivity
from sordino.models.constants import Constants
from sordino.randomness import stream

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "intrinsic_8_9.json").read_text())[
    "9_paper_tables"
]
EPS = GOLDEN["eps"]


@pytest.mark.parametrize("case", EPS["cases"], ids=lambda case: case["name"])
def test_paper_tables_golden(case):
    how = (case["Delta"], case["sigma_i"], case["delta"])
    found = epsilon.intrinsic_epsilon(*how, observed=False)
    rel = EPS["tol"]["rel"]
    assert found.printed.epsilon == pytest.approx(case["classical"], rel=rel)
    assert found.exact.epsilon == pytest.approx(case["analytic"], rel=rel)
    # The printed inputs have two or three digits.
    assert found.printed.epsilon == pytest.approx(case["reported"], rel=0.02)
    # sqrt(2 ln(1.25)/delta), as the algorithms print it, is not what the tables used.
    slip = math.sqrt(2 * math.log(1.25) / case["delta"]) * case["Delta"] / case["sigma_i"]
    assert slip == pytest.approx(case["typo_formula"], rel=rel)
    assert slip > 10 * found.printed.epsilon


@pytest.mark.parametrize(
    ("n", "batch", "rate", "steps", "sigma", "wanted"),
    [
        (9000, 32, 0.5, 2000, 0.08267214, "23.10"),
        (10397, 32, 0.5, 1850, 0.0849974, "18.17"),
        (378783, 50, 1.0, 8400, 0.11426, "3.95"),
    ],
)
def test_v2_table_3_to_its_last_digit(n, batch, rate, steps, sigma, wanted):
    """With sigma of Table 6, which has more digits, and passes of floor(n / B) steps."""
    constants = Constants(math.sqrt(2), 0.5, 0.0)
    bound = printed_sensitivity(constants, n, batch, rate, steps, whole_batches=True)
    delta = epsilon.usual_delta(n)
    found = epsilon.intrinsic_epsilon(bound.value, sigma, delta, observed=False)
    assert f"{found.printed.epsilon:.2f}" == wanted


def test_usual_delta():
    assert epsilon.usual_delta(10397) == pytest.approx(9.25e-9, rel=1e-3)
    assert epsilon.usual_delta(10397, version=1) == pytest.approx(9.62e-5, rel=1e-3)


def test_every_number_says_what_it_is():
    found = epsilon.intrinsic_epsilon(0.05, Interval(0.1, 0.09, 0.12, 0.95), 1e-6, observed=True)
    for estimate in (found.printed, found.exact):
        assert "estimate, not a guarantee" in str(estimate)
        assert "Gaussian and equally large in all directions" in str(estimate)
        assert "lower estimate" in str(estimate)
    assert "theorem for epsilon < 1 only" in found.printed.caveat
    theory = epsilon.intrinsic_epsilon(0.05, 0.1, 1e-6, observed=False)
    assert "lower estimate" not in str(theory.exact)
    assert theory.exact.level is None


def test_the_interval_of_sigma_is_turned_over():
    found = epsilon.intrinsic_epsilon(0.05, Interval(0.1, 0.09, 0.12, 0.9), 1e-6, observed=False)
    assert found.exact.low == gaussian.epsilon(0.05 / 0.12, 1e-6)
    assert found.exact.epsilon == gaussian.epsilon(0.5, 1e-6)
    assert found.exact.high == gaussian.epsilon(0.05 / 0.09, 1e-6)
    assert found.exact.level == 0.9
    constant = math.sqrt(2 * math.log(1.25e6))
    assert found.printed.low == pytest.approx(constant * 0.05 / 0.12)


def test_without_noise_nothing_is_hidden():
    assert epsilon.intrinsic_epsilon(0.05, 0.0, 1e-6, observed=False).exact.epsilon == math.inf
    some = Interval(0.1, 0.0, 0.2, 0.95)
    assert epsilon.intrinsic_epsilon(0.05, some, 1e-6, observed=False).printed.high == math.inf
    assert epsilon.intrinsic_epsilon(0.0, 0.1, 1e-6, observed=False).exact.epsilon == 0
    with pytest.raises(InvalidArgument, match="Nothing moved at all"):
        epsilon.intrinsic_epsilon(0.0, 0.0, 1e-6, observed=True)


def test_a_distance_estimated_below_0_is_none():
    found = epsilon.exact_epsilon(Interval(-0.1, -0.3, 0.2, 0.95), 1e-6, caveat="c")
    assert (found.epsilon, found.low) == (0, 0)
    assert found.high == gaussian.epsilon(0.2, 1e-6)


class TestPairwise:
    @pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.3])
    def test_the_same_as_pair_by_pair(self, delta):
        distances = stream("test", "pairwise").permutation(np.geomspace(1e-6, 20, 150))
        found = epsilon.pairwise_epsilon(distances, 0.5, delta)
        mu = np.sort(distances) / 0.5
        exact = np.array([gaussian.epsilon(float(m), delta) for m in mu])
        np.testing.assert_allclose(found.exact, exact, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(
            found.printed, mu * math.sqrt(2 * math.log(1.25 / delta)), rtol=1e-12
        )
        assert found.quantile(1.0).epsilon == found.exact[-1]
        assert "estimate, not a guarantee" in str(found.quantile(0.5))

    def test_pairs_too_near_to_matter(self):
        assert epsilon.pairwise_epsilon([0.0, 1e-4], 1.0, 0.01).exact.tolist() == [0, 0]

    def test_nonsense_is_refused(self):
        with pytest.raises(InvalidArgument, match="sigma=0 > 0"):
            epsilon.pairwise_epsilon([1.0], 0, 1e-6)
        with pytest.raises(InvalidArgument, match="none below 0"):
            epsilon.pairwise_epsilon([-1.0], 1, 1e-6)
        with pytest.raises(InvalidArgument, match=r"delta=0 in \(0, 1\)"):
            epsilon.pairwise_epsilon([1.0], 1, 0)


def test_a_feature_that_only_one_record_has_gives_it_away():
    """docs/math.md 9: a weight is exactly 0 without the record and at least .12 with it.

    Any test of that weight is right every time, so epsilon is infinite; epsilon_i is not, and the
    directional estimate looks where the noise is.
    """
    case = GOLDEN["intrinsic_noise_counterexample"]
    rng = stream("test", "counterexample")
    X = rng.normal(size=(60, 4)) * [1, 1, 1, 0]
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, 1.0, -1.0)
    with_it = X.copy()
    with_it[0] = [0, 0, 0, 1]
    runs = np.stack([[sgd(data, y, seed) for data in (X, with_it)] for seed in range(60)])
    absent, present = runs[:, 0, 3], runs[:, 1, 3]
    assert np.abs(absent).max() == case["w4_absent_max"] == 0
    assert present.min() > 0.05
    sigma = spread.sigma(runs, stream=stream("s"))
    assert 0.01 < sigma.value < 0.1  # the golden one is .023
    delta = 1e-5
    largest = float(np.linalg.norm(runs[:, 0] - runs[:, 1], axis=1).max())
    hidden = epsilon.intrinsic_epsilon(largest, sigma, delta, observed=True)
    assert hidden.exact.epsilon < 100
    seen = between(runs[:, 0], runs[:, 1], stream=stream("d"))
    assert seen.epsilon(delta).low > 2 * hidden.exact.epsilon


def sgd(X, y, seed):
    """Three epochs of logistic regression, one record at a time, in an order of the seed's own."""
    w = np.zeros(X.shape[1])
    rng = stream("sgd", seed)
    for _ in range(3):
        for i in rng.permutation(len(X)):
            w += 0.1 * y[i] * X[i] / (1 + np.exp(y[i] * (w @ X[i])))
    return w
