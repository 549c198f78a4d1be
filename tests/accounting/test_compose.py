"""Composition: law 4 for every kind of profile, which rule is used, and what is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.accounting.compose import SummedProfile, compose, times
from sordino.accounting.dp_sgd import pld, rdp
from sordino.accounting.pld.convolution import Limit
from sordino.accounting.pld.loss import GaussianLoss
from sordino.accounting.profile import (
    ApproximateProfile,
    GaussianProfile,
    LossProfile,
    RenyiProfile,
)
from sordino.errors import InvalidArgument
from sordino.privacy import Relation

ADD = Relation.ADD_OR_REMOVE_ONE
NAMED = {"relation": ADD, "theorem": "a test"}
POISSON = {"sampling": "poisson", "relation": ADD}


def gaussian(mu):
    return GaussianProfile(parameter=mu, **NAMED)


def approximate(epsilon, delta):
    return ApproximateProfile(budget=(epsilon, delta), **NAMED)


SUMMED = compose([approximate(0.1, 1e-8), RenyiProfile(orders=(8.0,), values=(0.01,), **NAMED)])
KINDS = {
    "gaussian": gaussian(0.3),
    "poisson": pld(1.0, 0.05, 10, **POISSON),
    "one step": pld(1.0, 0.05, 1, **POISSON),
    "averaged": LossProfile(components=((GaussianLoss((0.2, 0.6), (0.5, 0.5)), 1),), **NAMED),
    "renyi": rdp(1.0, 0.05, 10, **POISSON),
    "pure": approximate(0.2, 0.0),
    "approximate": approximate(0.2, 1e-7),
    "summed": SUMMED,
}
every_kind = pytest.mark.parametrize("profile", KINDS.values(), ids=KINDS)


@every_kind
@pytest.mark.parametrize("count", [1, 2, 7])
def test_law_4_composing_k_times_is_composing_a_list_of_k(profile, count):
    repeated, listed = times(profile, count), compose([profile] * count)
    assert type(repeated) is type(listed)
    assert repeated.theorem == listed.theorem
    assert repeated.notes == listed.notes
    for delta in (1e-3, 1e-5):
        # The same sums in another order.
        assert repeated.epsilon(delta) == pytest.approx(listed.epsilon(delta), rel=1e-12)
    for epsilon in (0.1, 1.0, 2.0):
        assert repeated.log_delta(epsilon) == pytest.approx(listed.log_delta(epsilon), rel=1e-9)


@every_kind
def test_more_releases_leak_more(profile):
    epsilons = [times(profile, count).epsilon(1e-4) for count in (1, 2, 4)]
    assert epsilons[0] < epsilons[1] < epsilons[2]
    # Never worse than basic composition, but for a bounded loss's last thousandth.
    assert epsilons[2] <= 4 * profile.epsilon(1e-4 / 4) * (1 + 1e-3)


@every_kind
def test_none_and_one(profile):
    assert times(profile, 0).epsilon(0.0) == 0
    assert times(profile, 0).relation is profile.relation
    assert times(profile, 1) is profile
    assert compose([profile]) is profile


@given(st.lists(st.floats(0, 10), min_size=2, max_size=6))
def test_gaussians_compose_exactly(mus):
    composed = compose([gaussian(mu) for mu in mus])
    assert isinstance(composed, GaussianProfile)
    assert composed.mu == pytest.approx(math.hypot(*mus), rel=1e-14)
    assert "Gaussian DP" in composed.theorem


def test_the_rule_is_the_tightest_that_fits_all_and_is_said():
    rules = {
        "Gaussian DP": [KINDS["gaussian"], gaussian(1.0)],
        "privacy loss distributions": [KINDS["gaussian"], KINDS["poisson"], KINDS["approximate"]],
        "Renyi DP": [KINDS["gaussian"], KINDS["renyi"], KINDS["pure"]],
        "(epsilon, delta) composition": [KINDS["renyi"], KINDS["approximate"]],
    }
    for rule, profiles in rules.items():
        composed = compose(profiles)
        assert f"composition of {len(profiles)} releases by {rule}" in composed.theorem
        assert composed.notes[-1] == f"composed by {rule}"
        assert composed.relation is ADD


def test_theorems_and_notes_of_the_parts_are_kept():
    parts = [gaussian(0.1 * k).noted(f"note {k}", theorem=f"theorem {k}") for k in (1, 2, 3, 4)]
    composed = compose([*parts, parts[0]])
    assert composed.theorem.endswith("of: theorem 1; theorem 2; theorem 3; ...")
    assert composed.notes == ("note 1", "note 2", "note 3", "note 4", "composed by Gaussian DP")


def test_losses_compose_as_one_run():
    halves = [pld(1.0, 0.05, 30, **POISSON), pld(1.0, 0.05, 70, **POISSON)]
    assert compose(halves).losses == pld(1.0, 0.05, 100, **POISSON).losses
    assert compose(halves).epsilon(1e-5) == pld(1.0, 0.05, 100, **POISSON).epsilon(1e-5)


def test_gaussians_among_losses_are_one():
    composed = compose([gaussian(0.3), KINDS["poisson"], gaussian(0.4)])
    gaussians = [loss for loss, _ in composed.losses if isinstance(loss, GaussianLoss)]
    assert len(gaussians) == 1
    assert gaussians[0].mus[0] == pytest.approx(0.5, rel=1e-14)
    # Composing with a release of nothing changes nothing.
    alone, with_nothing = KINDS["poisson"], compose([gaussian(0.0), KINDS["poisson"]])
    assert with_nothing.epsilon(1e-5) == alone.epsilon(1e-5)


@given(
    mu=st.floats(0.05, 2),
    rate=st.floats(0.01, 0.5),
    delta=st.floats(-9, -2).map(lambda power: 10.0**power),
)
@settings(max_examples=8, deadline=None)
def test_rules_agree_in_their_order(mu, rate, delta):
    sampled = pld(1.0, rate, 20, **POISSON)
    by_losses = compose([gaussian(mu), sampled])
    by_renyi = compose([gaussian(mu), rdp(1.0, rate, 20, **POISSON)])
    basic = gaussian(mu).epsilon(delta / 2) + sampled.epsilon(delta / 2)
    found = by_losses.epsilon(delta)
    # The grid's precision, and of Renyi DP that of its list of orders.
    assert found <= by_renyi.epsilon(delta) * (1 + 1e-3)
    assert found <= basic * (1 + 1e-3)
    assert found >= max(gaussian(mu).epsilon(delta), sampled.epsilon(delta) * (1 - 1e-3))


def test_renyi_curves_add_up():
    curve = RenyiProfile(orders=(2.0, 8.0), values=(0.1, 0.5), **NAMED)
    composed = compose([curve, curve, gaussian(1.0)])
    assert composed.renyi([2.0, 8.0]) == pytest.approx([0.2 + 1.0, 1.0 + 4.0], rel=1e-12)
    assert math.isinf(composed.renyi([9.0])[0])


def test_budgets_add_up_last():
    curve = RenyiProfile(orders=(8.0,), values=(0.05,), **NAMED)
    parts = [approximate(0.5, 1e-7), curve, approximate(0.25, 1e-8)]
    composed = compose(parts)
    assert isinstance(composed, SummedProfile)
    share = 1e-5 / 3
    expected = sum(part.epsilon(share) for part in parts)
    assert expected == pytest.approx(0.75 + curve.epsilon(share), rel=1e-4)
    assert composed.epsilon(1e-5) == pytest.approx(expected, rel=1e-9)
    assert composed.delta(expected * (1 + 1e-9)) == pytest.approx(1e-5, rel=1e-5)
    assert composed.epsilon(1e-8) == math.inf  # less than one release discloses outright
    assert composed.epsilon(composed.delta(0.1)) <= 0.1 * (1 + 1e-9)
    # A sum of sums: twice the epsilon, at twice the delta.
    assert times(composed, 2).epsilon(2e-5) == pytest.approx(2 * expected, rel=1e-9)


def test_one_release_that_hides_nothing_is_enough():
    for others in ([gaussian(1.0)], [KINDS["poisson"]], [KINDS["renyi"]], [KINDS["approximate"]]):
        for profiles in ([gaussian(math.inf), *others], [*others, gaussian(math.inf)]):
            composed = compose(profiles)
            assert composed.epsilon(0.5) == math.inf
            assert composed.delta(10.0) == 1
    assert times(gaussian(math.inf), 3).epsilon(0.1) == math.inf
    assert compose([approximate(math.inf, 0.0), KINDS["poisson"]]).epsilon(0.1) == math.inf


def test_many_are_no_slower_than_one():
    for profile in KINDS.values():
        assert times(profile, 10**7).delta(0.1) > 0.1 * profile.delta(0.1)


def test_a_limit_stays():
    tight = Limit(megabytes=0.01)
    limited = pld(1.0, 0.05, 10, **POISSON, limit=tight)
    for composed in (times(limited, 50), compose([limited, gaussian(1.0)])):
        assert composed.limit == tight
        assert composed.fallbacks(1e-5)


@pytest.mark.parametrize("other", [Relation.REPLACE_ONE, Relation.ZERO_OUT])
def test_relations_are_never_mixed(other):
    foreign = GaussianProfile(parameter=1.0, relation=other, theorem="a test")
    with pytest.raises(InvalidArgument, match=f"add-or-remove-one and {other.value}"):
        compose([gaussian(1.0), foreign])


def test_nothing_to_compose_is_refused():
    with pytest.raises(InvalidArgument, match="at least one"):
        compose([])
    with pytest.raises(InvalidArgument, match="profiles"):
        compose(gaussian(1.0))
    for count in (-1, 1.5, "two"):
        with pytest.raises(InvalidArgument, match="Expected count="):
            times(gaussian(1.0), count)
