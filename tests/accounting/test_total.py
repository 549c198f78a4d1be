"""What releases spend together: exact where it can be, never looser than a sum, never mixed up."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.accounting import gaussian, renyi
from sordino.accounting.compose import (
    CONCENTRATED,
    GAUSSIAN,
    LOSSES,
    PROMISED,
    RENYI,
    Part,
    Total,
    compose,
    group,
    largest_gaussian,
    total,
)
from sordino.accounting.dp_sgd import pld
from sordino.accounting.last_iterate.convex import ProjectedProfile
from sordino.accounting.last_iterate.hidden_state import WithSlack
from sordino.accounting.objective import ObjectiveProfile
from sordino.accounting.profile import ApproximateProfile, GaussianProfile, Profile, RenyiProfile
from sordino.accounting.zcdp import ConcentratedProfile
from sordino.errors import InvalidArgument
from sordino.privacy import Relation

ADD = Relation.ADD_OR_REMOVE_ONE
NAMED = {"relation": ADD, "theorem": "a test"}
DELTA = 1e-6


def normal(mu: float, relation: Relation = ADD) -> GaussianProfile:
    return GaussianProfile(parameter=mu, relation=relation, theorem="a test")


def promised(profile: Profile, delta: float = DELTA / 20) -> Part:
    """A release that promises exactly what it proves."""
    return Part(profile, profile.epsilon(delta), delta)


RENYI_ONLY = RenyiProfile(
    orders=tuple(renyi.ORDERS), values=tuple(0.02 * renyi.ORDERS + 0.01), **NAMED
)
KINDS: dict[str, Profile] = {
    "gaussian": normal(0.2),
    "poisson": pld(1.5, 0.02, 50, sampling="poisson", relation=ADD),
    "renyi": RENYI_ONLY,
    "pure": ApproximateProfile(budget=(0.3, 0.0), **NAMED),
    "approximate": ApproximateProfile(budget=(0.2, 1e-8), **NAMED),
    "zcdp": ConcentratedProfile(rho=0.01, **NAMED),
    "objective": ObjectiveProfile(
        gradient_mu=0.1, output_mu=0.01, kappa=0.02, leverage=None, **NAMED
    ),
    "projected": ProjectedProfile(visit=0.3, later=2.0, count=2, **NAMED),
    "group": group(ApproximateProfile(budget=(0.1, 1e-9), **NAMED), 2),
    "slack": WithSlack(base=normal(0.1), slack=1e-9, **NAMED),
}


class TestGaussian:
    def test_ten_are_the_root_of_ten_exactly(self):
        parts = [promised(normal(0.1))] * 10
        found = total(parts, DELTA)
        root = math.sqrt(math.fsum([0.1 * 0.1] * 10))
        assert found == Total(normal(root).epsilon(DELTA), DELTA, GAUSSIAN, True)
        assert found.epsilon == gaussian.epsilon(root, DELTA)
        assert found.epsilon == pytest.approx(gaussian.epsilon(math.sqrt(10) * 0.1, DELTA), 1e-13)
        assert total(parts, DELTA, as_you_go=True) == found

    @settings(max_examples=20, deadline=None)
    @given(st.lists(st.floats(0, 3), max_size=6), st.floats(0.01, 20), st.floats(-10, -1))
    def test_the_largest_that_fits_fits_and_a_larger_one_does_not(self, mus, epsilon, power):
        delta = 10**power
        parts = [promised(normal(mu), delta / 50) for mu in mus]
        found = largest_gaussian(parts, epsilon, delta)
        spent = math.fsum(mu * mu for mu in mus)
        if found > 0:
            assert total([*parts, promised(normal(found), 0.0)], delta).epsilon <= epsilon
        # A relative 1e-9 of the whole is far above rounding and far below what anyone would miss.
        more = math.sqrt(spent + found**2) * (1 + 1e-9) + 1e-9
        assert gaussian.epsilon(more, delta) > epsilon


class TestNeverLooser:
    @settings(max_examples=15, deadline=None)
    @given(
        st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.booleans()), min_size=1, max_size=5)
    )
    def test_than_adding_epsilons(self, chosen):
        parts = [promised(KINDS[name], 1e-7 if large else 3e-8) for name, large in chosen]
        found = total(parts, DELTA)
        assert found.epsilon <= math.fsum(part.epsilon for part in parts)
        share = DELTA / len(parts)
        # The exact Gaussian sum is not compared with shares, which rounding may put 1e-13 below.
        apart = math.fsum(part.profile.epsilon(share) for part in parts)
        assert found.epsilon <= apart * (1 + 1e-12)
        assert found.epsilon >= max(part.profile.epsilon(DELTA) for part in parts) * (1 - 1e-3)

    def test_and_never_less_than_what_the_exact_law_leaks(self):
        # Gaussian releases written down as other kinds: the truth is known.
        mus = [0.1, 0.15, 0.2]
        curve = RenyiProfile(
            orders=tuple(renyi.ORDERS), values=tuple(normal(mus[0]).renyi(renyi.ORDERS)), **NAMED
        )
        slack = WithSlack(base=normal(mus[1]), slack=1e-12, **NAMED)
        parts = [promised(curve), promised(slack), promised(normal(mus[2]))]
        truth = gaussian.epsilon(math.hypot(*mus), DELTA)
        assert truth < total(parts, DELTA).epsilon < 2 * truth


class TestRules:
    @pytest.mark.parametrize(
        ("names", "rule", "flag"),
        [
            (("gaussian", "poisson"), LOSSES, False),
            (("gaussian", "zcdp"), CONCENTRATED, False),
            (("zcdp", "gaussian"), CONCENTRATED, True),
            (("renyi", "poisson", "zcdp"), RENYI, False),
            (("objective",), PROMISED, True),
        ],
    )
    def test_the_one_that_wins_is_named(self, names, rule, flag):
        parts = [promised(KINDS[name], DELTA if len(names) == 1 else DELTA / 9) for name in names]
        found = total(parts, DELTA)
        assert (found.rule, found.as_you_go) == (rule, flag)

    def test_concentrated_costs_add_up(self):
        parts = [promised(KINDS["zcdp"]), promised(normal(0.2)), promised(KINDS["zcdp"])]
        alone = ConcentratedProfile(rho=0.04, **NAMED).epsilon(DELTA)
        assert total(parts, DELTA).epsilon == pytest.approx(alone, rel=1e-12)

    def test_mixed_kinds_are_grouped(self):
        names = ["approximate"] * 30 + ["poisson", "renyi", "renyi", "slack"]
        parts = [Part(KINDS[name], 5.0, DELTA) for name in names]
        found = total(parts, DELTA)
        assert found.rule.startswith("sum over kinds: privacy loss distributions of 31, Renyi DP")
        assert found.rule.endswith("one alone")
        groups = [[KINDS[n] for n in names[:31]], [RENYI_ONLY] * 2, [KINDS["slack"]]]
        composed = [compose(profiles) for profiles in groups]
        by_hand = [
            math.fsum(one.epsilon(DELTA * share) for one, share in zip(composed, cut, strict=True))
            for cut in ((1 / 3, 1 / 3, 1 / 3), (31 / 34, 2 / 34, 1 / 34))
        ]
        assert found.epsilon == pytest.approx(min(by_hand), rel=1e-9)
        assert found.epsilon < math.fsum(p.profile.epsilon(DELTA / 34) for p in parts)

    def test_promises_add_up_despite_rounding(self):
        delta = 1e-5
        parts = [Part(KINDS["approximate"], 0.2, delta / 5)] * 5
        assert math.fsum(part.delta for part in parts) > delta
        assert total(parts, delta, as_you_go=True) == Total(1.0, delta, PROMISED, True)
        assert total(parts, delta * (1 - 1e-9), as_you_go=True).epsilon == math.inf

    def test_delta_zero(self):
        pure = Part(KINDS["pure"], 0.3, 0.0)
        assert total([pure] * 4, 0.0).epsilon == pytest.approx(1.2, rel=1e-12)
        assert total([pure, promised(normal(0.1))], 0.0).epsilon == math.inf

    def test_enough_stops_early(self, monkeypatch):
        parts = [promised(KINDS["poisson"])] * 3
        summed = math.fsum(part.epsilon for part in parts)
        assert total(parts, DELTA).epsilon < summed
        monkeypatch.setattr("sordino.accounting.compose.compose", None)  # must not be called
        assert total(parts, DELTA, enough=summed) == Total(summed, DELTA, PROMISED, True)


class TestAsYouGo:
    def test_the_first_release_fixes_the_rule(self):
        gauss, zcdp, other = (promised(KINDS[n]) for n in ("gaussian", "zcdp", "poisson"))
        assert total([gauss, gauss], DELTA, as_you_go=True).rule == GAUSSIAN
        assert total([zcdp, gauss], DELTA, as_you_go=True).rule == CONCENTRATED
        assert total([other, gauss, zcdp], DELTA, as_you_go=True) == Total(
            math.fsum(part.epsilon for part in (other, gauss, zcdp)), DELTA, PROMISED, True
        )

    def test_another_kind_does_not_change_it(self):
        parts = [promised(KINDS["gaussian"]), promised(KINDS["poisson"])]
        found = total(parts, DELTA, as_you_go=True)
        assert found.epsilon == math.inf
        assert "fixed in advance" in found.rule
        assert total(parts, DELTA, as_you_go=True, fixed="promised").rule == PROMISED
        parts[1] = promised(KINDS["zcdp"])
        assert total(parts, DELTA, as_you_go=True, fixed="concentrated").rule == CONCENTRATED

    def test_the_least_of_two_rules_is_no_filter(self):
        """Why the rule is fixed: an attacker who picks it by what came out beats delta.

        One Gaussian release that promises (1, delta/2). If its loss is high, Gaussian releases to
        the end of the Gaussian budget of (2, delta); if it is low, another promise of
        (1, delta/2), which may tell all with chance delta/2. Each path is within (2, delta) by
        one of the two rules, and either strategy alone is; the choice between them is not.
        """
        delta = 1e-3
        mu = 1 / gaussian.sigma(1.0, delta / 2)
        budget = 1 / gaussian.sigma(2.0, delta)
        rest = math.sqrt(budget**2 - mu**2)
        z = np.linspace(-12, 12, 4001)
        density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
        after_gaussian, after_promise = [], []
        second = ApproximateProfile(budget=(1.0, delta / 2), **NAMED)
        for loss in mu * mu / 2 + mu * z:
            after_gaussian.append(gaussian.delta(2.0 - loss, rest))
            after_promise.append(second.delta(2.0 - loss))
        one, other = np.array(after_gaussian), np.array(after_promise)
        assert density @ one == pytest.approx(delta, rel=1e-6)
        assert density @ other < delta
        assert density @ np.maximum(one, other) > 1.3 * delta


class TestEdges:
    def test_nothing(self):
        assert total([], DELTA) == Total(0.0, DELTA, "nothing was released", True)
        assert largest_gaussian([], 1.0, DELTA) == pytest.approx(1 / gaussian.sigma(1.0, DELTA))

    @pytest.mark.parametrize(
        "lost",
        [
            normal(math.inf),
            ApproximateProfile(budget=(math.inf, 0.0), **NAMED),
            ConcentratedProfile(rho=math.inf, **NAMED),
        ],
    )
    def test_a_release_that_hides_nothing(self, lost):
        parts = [promised(normal(0.1)), Part(lost, 1.0, 0.0)]  # whatever it says it promised
        assert total(parts, DELTA).epsilon == math.inf
        assert total(parts, DELTA, as_you_go=True).epsilon == math.inf
        assert largest_gaussian(parts, 5.0, DELTA) == 0

    def test_relations_are_never_mixed(self):
        other = Part(normal(0.1, Relation.REPLACE_ONE), 0.5, 1e-8)
        for as_you_go in (False, True):
            with pytest.raises(InvalidArgument, match="add-or-remove-one and replace-one"):
                total([promised(normal(0.1)), other], DELTA, as_you_go=as_you_go)

    def test_a_part_is_checked(self):
        for wrong in ((1.0, 0.1, 0.1), (normal(1), -1.0, 0.1), (normal(1), 1.0, 1.0)):
            with pytest.raises(InvalidArgument):
                Part(*wrong)
        with pytest.raises(InvalidArgument):
            total([normal(0.1)], DELTA)


class TestRoom:
    @pytest.mark.parametrize("names", [("poisson",), ("zcdp",), ("slack", "renyi"), ("gaussian",)])
    @pytest.mark.parametrize("as_you_go", [False, True])
    def test_what_is_left_fits(self, names, as_you_go):
        parts = [promised(KINDS[name]) for name in names]
        found = largest_gaussian(parts, 4.0, DELTA, as_you_go=as_you_go)
        left = DELTA - math.fsum(part.delta for part in parts)
        new = Part(normal(found), gaussian.epsilon(found, left), left)
        assert total([*parts, new], DELTA, as_you_go=as_you_go).epsilon <= 4.0
        larger = normal(1.02 * found)
        new = Part(larger, gaussian.epsilon(larger.mu, left), left)
        assert total([*parts, new], DELTA, as_you_go=as_you_go).epsilon > 4.0

    def test_none_left(self):
        parts = [promised(KINDS["poisson"]), promised(normal(2.0))]
        assert largest_gaussian(parts, 1.0, DELTA) == 0
        assert largest_gaussian([promised(normal(2.0))], 1.0, DELTA) == 0
        assert largest_gaussian([promised(normal(0.1))], 1.0, 0.0) == 0
        assert largest_gaussian(parts, math.inf, DELTA) == math.inf
