"""Random sensitivity: golden vectors, order of the bounds, and mixtures integrated directly."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from sordino.accounting import gaussian, renyi
from sordino.accounting.last_iterate import permuted
from sordino.errors import InvalidArgument
from sordino.privacy import Relation

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "accounting_3_4_5.json").read_text())[
    "3_output_perturbation"
]
MIXTURES = GOLDEN["mixture"]["cases"]
REL = GOLDEN["mixture"]["tol"]["rel"]
ANY = {"relation": Relation.REPLACE_ONE}

mixtures = st.lists(st.tuples(st.floats(0.01, 2), st.floats(0.01, 1)), min_size=1, max_size=6).map(
    lambda rows: (np.array(rows)[:, 0], np.array(rows)[:, 1] / np.array(rows)[:, 1].sum())
)


def of(case, **changed):
    run = {"sensitivities": case["Delta"], "weights": case["q"], "sigma": case["sigma"], **ANY}
    return {**run, **changed}


def best_order(convert, case):
    """Least epsilon of one conversion over all orders, not only those of a grid."""

    def at(order):
        curve = permuted.renyi_mixture(**of(case), orders=[order])
        return float(convert(np.array([order]), np.array(curve.values), case["delta"])[0])

    return minimize_scalar(at, bounds=(2, 200), method="bounded", options={"xatol": 1e-9}).fun


@pytest.mark.parametrize("case", MIXTURES, ids=lambda case: case["name"])
class TestGolden:
    def test_hockey_sticks(self, case):
        found = permuted.hockey_mixture(**of(case)).epsilon(case["delta"])
        assert found == pytest.approx(case["eps_mixture_hockey"], rel=REL)

    def test_worst_position(self, case):
        run = of(case)
        del run["weights"]
        found = permuted.worst_position(**run).epsilon(case["delta"])
        assert found == pytest.approx(case["eps_max_delta_exact"], rel=REL)

    def test_renyi(self, case):
        curve = permuted.renyi_mixture(**of(case), orders=[8.0])
        assert curve.values[0] == pytest.approx(case["rdp_alpha8"], rel=REL)
        for convert, key in ((renyi.canonne, "cks"), (renyi.mironov, "mironov")):
            expected = case[f"eps_mixture_rdp_{key}"]
            assert best_order(convert, case) == pytest.approx(expected, rel=REL)
        on_grid = permuted.renyi_mixture(**of(case)).epsilon(case["delta"])
        assert on_grid == pytest.approx(case["eps_mixture_rdp_cks"], rel=1e-3)

    def test_noise_for_epsilon_one(self, case):
        sigma = case["sigma_for_eps1_hockey"]
        profile = permuted.hockey_mixture(**of(case, sigma=sigma))
        assert profile.epsilon(case["delta"]) == pytest.approx(1, rel=1e-6)
        larger = case["sigma_for_eps1_rdp_cks"]
        curve = permuted.renyi_mixture(**of(case, sigma=larger))
        assert curve.epsilon(case["delta"]) == pytest.approx(1, rel=1e-3)


@given(mixtures, st.floats(0.2, 5), st.sampled_from([1e-2, 1e-5, 1e-9]))
def test_the_bounds_are_in_order(mixture, sigma, delta):
    sensitivities, weights = mixture
    run = {"sensitivities": sensitivities, "sigma": sigma, **ANY}
    hockey = permuted.hockey_mixture(**run, weights=weights).epsilon(delta)
    assert hockey <= permuted.worst_position(**run).epsilon(delta) * (1 + 1e-9)
    assert hockey <= permuted.renyi_mixture(**run, weights=weights).epsilon(delta) * (1 + 1e-9)
    assert hockey >= gaussian.epsilon(min(sensitivities) / sigma, delta) * (1 - 1e-9)


@settings(max_examples=30)
@given(mixtures, st.floats(0.3, 2), st.floats(0, 2))
def test_an_unknown_place_tells_no_more_than_the_bound(mixture, sigma, epsilon):
    sensitivities, weights = mixture
    x = np.linspace(-12 * sigma, 12 * sigma + 2, 20_001)
    mixed = norm.pdf(x[:, None], sensitivities, sigma) @ weights
    plain = norm.pdf(x, 0, sigma)
    bound = permuted.hockey_mixture(
        sensitivities=sensitivities, weights=weights, sigma=sigma, **ANY
    ).delta(epsilon)
    for p, q in ((mixed, plain), (plain, mixed)):
        exact = np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x)
        assert exact <= bound * (1 + 1e-5) + 1e-9  # the rule's error at the kink


def test_the_weights_are_the_batches_shares_of_the_records():
    run = {"sensitivities": [1.0, 2.0], "sigma": 3.0, **ANY}
    skewed = permuted.hockey_mixture(**run, weights=[0.9, 0.1])
    expected = 0.9 * gaussian.delta(0.5, 1 / 3) + 0.1 * gaussian.delta(0.5, 2 / 3)
    assert skewed.delta(0.5) == pytest.approx(expected, rel=1e-12)
    assert skewed.delta(0.5) < permuted.hockey_mixture(**run).delta(0.5)
    assert permuted.hockey_mixture(**run, weights=[1.0, 0.0]).mu == pytest.approx(1 / 3)


def test_the_conditions_are_in_the_theorem():
    theorem = permuted.hockey_mixture(sensitivities=[1, 2], sigma=1.0, **ANY).theorem
    for word in ("uniform", "secret", "independent of the data", "nothing else released"):
        assert word in theorem
    assert "Proposition 3" in permuted.renyi_mixture(sensitivities=[1], sigma=1.0, **ANY).theorem


def test_many_sensitivities_are_rounded_up():
    rng = np.random.default_rng(0)
    sensitivities = rng.uniform(0.5, 1, 5000)
    profile = permuted.hockey_mixture(sensitivities=sensitivities, sigma=1.0, **ANY)
    exact = np.mean([gaussian.delta(1.0, mu) for mu in sensitivities])
    assert exact <= profile.delta(1.0) <= 1.01 * exact
    assert "rounded up" in profile.notes[0]


class TestReshuffled:
    case = GOLDEN["reshuffle_each_epoch"]["cases"][0]

    def contributions(self):
        """What batch j of epoch s adds, from the recurrence: equal rho, 2 eta R / nu, in place."""
        m, epochs = self.case["m"], self.case["T"]
        etas = [self.case["eta0"] / s for s in range(1, epochs + 1)]
        rhos = [max(abs(1 - e * self.case["mu"]), abs(1 - e * self.case["L"])) for e in etas]
        parts = []
        for s, (eta, rho) in enumerate(zip(etas, rhos, strict=True)):
            fade = math.prod(later**m for later in rhos[s + 1 :])
            size = 2 * eta * self.case["R"] / self.case["nu"]
            parts.append([size * rho ** (m - 1 - j) * fade for j in range(m)])
        return parts

    def test_golden(self):
        parts = self.contributions()
        sums = sorted(sum(choice) for choice in itertools.product(*parts))
        assert sums == pytest.approx(sorted(self.case["Deltas"]), rel=1e-9)
        run = {"sigma": self.case["sigma"], **ANY}
        profile = permuted.reshuffled(contributions=parts, **run)
        assert profile.delta(1.0) == pytest.approx(self.case["delta_at_eps1"], rel=1e-9)
        once = permuted.hockey_mixture(sensitivities=self.case["Delta_single_permutation"], **run)
        expected = self.case["delta_single_permutation_at_eps1"]
        assert once.delta(1.0) == pytest.approx(expected, rel=1e-9)
        assert profile.delta(1.0) < once.delta(1.0)

    @pytest.mark.parametrize("weights", [None, [0.5, 0.3, 0.2]])
    def test_the_grid_is_above_the_enumeration_and_near(self, monkeypatch, weights):
        rng = np.random.default_rng(3)
        run = {"contributions": rng.uniform(0, 0.4, (4, 3)), "weights": weights, "sigma": 0.7}
        exact = permuted.reshuffled(**run, **ANY)
        monkeypatch.setattr(permuted, "MOST_SEQUENCES", 1)
        rounded = permuted.reshuffled(**run, **ANY)
        for epsilon in (0.1, 1.0, 4.0):
            low = exact.delta(epsilon)
            assert low * (1 - 1e-12) <= rounded.delta(epsilon) <= 1.005 * low

    def test_many_epochs(self):
        rng = np.random.default_rng(4)
        parts = rng.uniform(0.9, 1.0, (200, 50)) / 200
        run = {"sigma": 1.0, **ANY}
        found = permuted.reshuffled(contributions=parts, **run).epsilon(1e-5)
        mean = gaussian.epsilon(parts.mean(axis=1).sum(), 1e-5)
        assert mean < found < 1.01 * mean
        assert found < permuted.worst_position(
            sensitivities=[parts.max(axis=1).sum()], **run
        ).epsilon(1e-5)

    def test_equal_contributions_are_one_gaussian(self):
        profile = permuted.reshuffled(contributions=np.full((20, 8), 0.1), sigma=1.0, **ANY)
        assert profile.epsilon(1e-5) == pytest.approx(gaussian.epsilon(2.0, 1e-5), rel=1e-9)

    def test_ends_and_refusals(self):
        run = {"sigma": 1.0, **ANY}
        assert permuted.reshuffled(contributions=[], **run).epsilon(0.0) == 0
        zero = {**run, "sigma": 0.0}
        assert permuted.reshuffled(contributions=[[1, 2]], **zero).epsilon(0.1) == math.inf
        with pytest.raises(InvalidArgument, match=r"contributions=\[1, 2\] of equal lengths"):
            permuted.reshuffled(contributions=[[1], [1, 2]], **run)
        with pytest.raises(InvalidArgument, match=r"^Expected contributions=-1.0 >= 0"):
            permuted.reshuffled(contributions=[[-1]], **run)


@pytest.mark.parametrize("bound", [permuted.hockey_mixture, permuted.renyi_mixture])
class TestEveryMixture:
    def test_ends(self, bound):
        assert bound(sensitivities=[1, 2], sigma=0, **ANY).epsilon(0.1) == math.inf
        assert bound(sensitivities=[0, 0], sigma=0, **ANY).epsilon(0.1) == 0
        assert bound(sensitivities=[0, 0], sigma=1, **ANY).epsilon(0.0) == 0
        assert bound(sensitivities=[0, 1], sigma=1, **ANY).epsilon(0.0) == math.inf

    @pytest.mark.parametrize(
        ("changed", "sentence"),
        [
            ({"sigma": -1}, "sigma=-1 >= 0"),
            ({"sensitivities": []}, r"sensitivities=\[\] to hold at least one"),
            ({"sensitivities": [1, -2]}, r"sensitivities=-2\.0 >= 0 and finite"),
            ({"weights": [0.5, 0.4]}, r"weights=\[sum 0\.9\] to sum to 1"),
            ({"weights": [1.0]}, r"weights=\[1\] to have 2 numbers"),
            ({"weights": [1.5, -0.5]}, r"weights=-0\.5 >= 0"),
        ],
    )
    def test_refusals(self, bound, changed, sentence):
        run = {"sensitivities": [1, 2], "sigma": 1.0, **ANY}
        with pytest.raises(InvalidArgument, match=f"^Expected {sentence}"):
            bound(**{**run, **changed})


def test_worst_position_ends():
    assert permuted.worst_position(sensitivities=[1, 2], sigma=0, **ANY).mu == math.inf
    assert permuted.worst_position(sensitivities=[], sigma=1, **ANY).mu == 0
    assert permuted.worst_position(sensitivities=[1, 2], sigma=4, **ANY).mu == 0.5
