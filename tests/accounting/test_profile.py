"""Profiles: golden Gaussian values, and one curve seen as delta, epsilon, beta and advantage."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from sordino.accounting import renyi
from sordino.accounting.dp_sgd import pld, rdp
from sordino.accounting.pld.loss import GaussianLoss, PoissonLoss
from sordino.accounting.profile import (
    ApproximateProfile,
    GaussianProfile,
    LossProfile,
    Profile,
    RenyiProfile,
)
from sordino.errors import InvalidArgument
from sordino.privacy import Relation

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "accounting_1_2.json").read_text())[
    "1_gaussian"
]
ADD = Relation.ADD_OR_REMOVE_ONE
NAMED = {"relation": ADD, "theorem": "a test"}


def cases(name):
    entry = GOLDEN[name]
    return [pytest.param(case, entry["tol"]["rel"], id=str(case)) for case in entry["cases"]]


def gaussian_profile(mu):
    return GaussianProfile(parameter=mu, **NAMED)


def loss_profile(*components):
    return LossProfile(components=components, **NAMED)


KINDS = {
    "gaussian": gaussian_profile(1.2),
    "poisson": pld(1.0, 0.1, 20, sampling="poisson", relation=ADD),
    "one step": pld(0.8, 0.3, 1, sampling="poisson", relation=ADD),
    "fixed-size": pld(2.0, 0.1, 20, sampling="fixed-size", relation=Relation.REPLACE_ONE),
    "averaged": loss_profile((GaussianLoss((0.5, 2.0), (0.6, 0.4)), 1)),
    "renyi": rdp(1.0, 0.1, 20, sampling="poisson", relation=ADD),
    "approximate": ApproximateProfile(budget=(1.0, 1e-3), **NAMED),
    "pure": ApproximateProfile(budget=(1.0, 0.0), **NAMED),
}
every_kind = pytest.mark.parametrize("profile", KINDS.values(), ids=KINDS)
WAYS = ("forward", "backward", "both")

# Lines are maximised by 12 golden sections between 80 slopes: digits beyond the seventh are lost,
# always downwards.
LINES = 1e-6


@pytest.mark.parametrize(("case", "rel"), cases("delta_of_eps_mu"))
@pytest.mark.parametrize("way", WAYS)
def test_gaussian_delta_golden(case, rel, way):
    for profile in (gaussian_profile(case["mu"]), loss_profile((GaussianLoss((case["mu"],)), 1))):
        assert profile.delta(case["eps"], way) == pytest.approx(case["delta"], rel=rel)


@pytest.mark.parametrize(("case", "rel"), cases("eps_of_mu_delta"))
def test_gaussian_epsilon_golden(case, rel):
    assert gaussian_profile(case["mu"]).epsilon(case["delta"]) == pytest.approx(
        case["eps"], rel=rel
    )
    single = loss_profile((GaussianLoss((case["mu"],)), 1))
    # The search among losses stops at 1e-9, on the private side.
    assert case["eps"] * (1 - rel) <= single.epsilon(case["delta"]) <= case["eps"] * (1 + 2e-9)


@pytest.mark.parametrize(("case", "rel"), cases("rdp_to_dp_fixed_alpha"))
def test_renyi_conversion_golden(case, rel):
    profile = RenyiProfile(orders=(case["alpha"],), values=(case["rho"],), **NAMED)
    forms = (case["eps_mironov"], case["eps_cks"], case["eps_asoodeh2"])
    assert profile.epsilon(case["delta"]) == pytest.approx(min(forms), rel=rel)
    assert profile.epsilon(case["delta"]) >= case["eps_exact_numeric"]
    assert profile.delta(min(forms)) == pytest.approx(case["delta"], rel=1e-9)


@pytest.mark.parametrize(("case", "rel"), cases("gaussian_rdp_to_dp"))
def test_gaussian_by_renyi_golden(case, rel):
    curve = gaussian_profile(case["mu"]).renyi(renyi.ORDERS)
    profile = RenyiProfile(orders=tuple(renyi.ORDERS), values=tuple(curve), **NAMED)
    got = profile.epsilon(case["delta"])
    # The best of a list of orders, so a little above the best of all; another form may be better.
    assert case["eps_exact"] <= got <= case["eps_cks_opt"] * 1.001
    assert got >= case["eps_cks_opt"] * (1 - rel) or got > case["eps_exact"]


@every_kind
@pytest.mark.parametrize("way", WAYS)
def test_delta_falls_and_epsilon_inverts_it(profile, way):
    epsilons = np.linspace(-2, 4, 31)
    deltas = [profile.delta(float(e), way) for e in epsilons]
    assert all(0 <= delta <= 1 for delta in deltas)
    # Neighbouring points may come from different grids: 2e-5 of epsilon, here 1e-4 of delta.
    assert all(b <= a * (1 + 1e-3) for a, b in itertools.pairwise(deltas))
    for delta in (0.3, 1e-2, 5e-3):
        epsilon = profile.epsilon(delta, way)
        assert epsilon >= 0
        assert profile.delta(epsilon, way) <= delta * (1 + 1e-3)
        if epsilon > 0.01:
            assert profile.delta(epsilon * (1 - 1e-3), way) > delta


@every_kind
def test_both_is_the_worse_direction(profile):
    for epsilon in (-1.0, 0.0, 0.2, 1.5):
        ways = [profile.delta(epsilon, way) for way in ("forward", "backward")]
        assert profile.delta(epsilon) == max(ways)
    ways = [profile.epsilon(1e-3, way) for way in ("forward", "backward")]
    assert profile.epsilon(1e-3) == max(ways)


def test_directions_differ_where_the_pair_is_not_symmetric():
    profile = KINDS["poisson"]
    assert profile.epsilon(1e-4, "forward") > 1.05 * profile.epsilon(1e-4, "backward")
    assert KINDS["fixed-size"].epsilon(1e-4, "forward") == KINDS["fixed-size"].epsilon(
        1e-4, "backward"
    )


@every_kind
@given(epsilon=st.floats(0.001, 3))
@settings(max_examples=10, deadline=None)
def test_negative_epsilons_are_the_other_direction(profile, epsilon):
    for way, other in (("forward", "backward"), ("backward", "forward")):
        reverse = -math.expm1(-epsilon) + math.exp(-epsilon) * profile.delta(epsilon, other)
        assert profile.delta(-epsilon, way) == pytest.approx(min(1, reverse), rel=1e-12)
    assert profile.delta(-math.inf) == 1.0


def test_negative_epsilon_is_true_of_poisson_sampling():
    q, z, epsilon = 0.3, 0.8, -0.2

    def excess(x):
        p = (1 - q) * mpmath.npdf(x, 0, z) + q * mpmath.npdf(x, 1, z)
        return max(mpmath.mpf(0), p - mpmath.exp(epsilon) * mpmath.npdf(x, 0, z))

    # The integrand's kink, where the loss is epsilon, is an end point.
    kink = z * z * math.log(1 + math.expm1(epsilon) / q) + 0.5
    exact = float(mpmath.quad(excess, [kink, 0.5, 1, 2, 4, 9]))
    assert KINDS["one step"].delta(epsilon, "forward") == pytest.approx(exact, rel=1e-9)


@every_kind
@pytest.mark.parametrize("way", WAYS)
def test_beta_is_a_trade_off_function(profile, way):
    alphas = np.linspace(0, 1, 26)
    betas = np.array([profile.beta(float(a), way) for a in alphas])
    assert betas[0] <= 1
    assert betas[-1] == 0
    assert (np.diff(betas) <= LINES).all()
    assert (np.diff(betas, 2) >= -3 * LINES).all()  # convex
    assert (1 - alphas - betas).max() <= profile.advantage() + 1e-3  # two grids
    assert (1 - alphas - betas >= 0).all()
    # No test may do better than (epsilon, delta) says, and some test does as well: duality.
    for epsilon in (0.0, 0.7, 2.0):
        delta = profile.delta(epsilon, way)
        dual = (1 - math.exp(epsilon) * alphas - betas).max()
        assert dual <= delta * (1 + 1e-3) + LINES
        if profile is KINDS["renyi"]:  # its delta is not the least that its beta allows
            continue
        near = np.append(0.0, np.geomspace(1e-6, 1, 60))
        for _ in range(3):  # look again, closer, around the best alpha
            heights = [1 - math.exp(epsilon) * a - profile.beta(float(a), way) for a in near]
            best = int(np.argmax(heights))
            near = np.linspace(near[max(best - 1, 0)], near[min(best + 1, len(near) - 1)], 60)
        assert max(heights) >= delta * 0.999 - LINES


@every_kind
def test_beta_of_both_lies_below_the_two(profile):
    for alpha in (1e-4, 0.05, 0.4, 0.9):
        both = profile.beta(alpha)
        assert both <= min(profile.beta(alpha, way) for way in ("forward", "backward")) + LINES
        # Its own mirror image: beta(beta(alpha)) = alpha where it is strictly falling.
        if 1e-3 < both < 1 - alpha - 1e-3:
            assert profile.beta(both) == pytest.approx(alpha, abs=2e-4, rel=1e-2)


@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
def test_the_generic_beta_is_the_gaussian_s_closed_form(mu):
    exact, lines = gaussian_profile(mu), loss_profile((GaussianLoss((mu,)), 1))
    for alpha in (0.0, 1e-9, 1e-3, 0.2, 0.7, 1.0):
        for way in WAYS:
            true = exact.beta(alpha, way)
            got = lines.beta(alpha, way)
            assert true - 1e-5 <= got <= true + 1e-12


@pytest.mark.parametrize("alpha", [1e-300, 1e-20, 1e-17, 1e-12, 0.3, 0.999])
def test_gaussian_beta_at_tiny_alphas(alpha):
    mu = 9.0
    with mpmath.workdps(50):
        a = mpmath.mpf(alpha)
        quantile = mpmath.findroot(lambda x: mpmath.log(mpmath.ncdf(x) / a), ndtri(alpha))
        true = float(mpmath.ncdf(-quantile - mu))
    assert gaussian_profile(mu).beta(alpha) == pytest.approx(true, rel=1e-9)


@every_kind
def test_advantage_is_delta_at_zero(profile):
    assert 0 < profile.advantage() <= 1
    assert profile.advantage() == min(profile.delta(0.0, way) for way in ("forward", "backward"))


def test_advantage_of_the_gaussian():
    assert gaussian_profile(1.5).advantage() == pytest.approx(2 * ndtr(0.75) - 1, rel=1e-12)
    # Poisson sampling tells with probability q at most that a record is there.
    one = loss_profile((PoissonLoss(0.2, 1.5), 1))
    assert one.advantage() == pytest.approx(0.2 * (2 * ndtr(0.5 / 1.5) - 1), rel=1e-12)


def test_no_privacy_and_no_leak():
    everything, nothing = gaussian_profile(math.inf), gaussian_profile(0.0)
    assert everything.epsilon(0.5) == math.inf
    assert everything.delta(100.0) == 1
    assert everything.beta(0.3) == 0
    assert everything.advantage() == 1
    assert everything.losses is None
    assert nothing.epsilon(0.0) == 0
    assert nothing.delta(0.0) == 0
    assert nothing.advantage() == 0
    assert nothing.beta(0.3) == pytest.approx(0.7, rel=1e-14)


@pytest.mark.parametrize("mu", [1e-300, 1e-8, 1e8, 1e200, 1e300])
def test_extreme_gaussians_are_numbers(mu):
    profile = gaussian_profile(mu)
    values = [profile.delta(1.0), profile.epsilon(1e-5), profile.beta(0.1), profile.advantage()]
    assert not any(math.isnan(value) for value in values)
    assert not np.isnan(profile.renyi(np.array([2.0]))).any()


def test_pure_and_approximate_budgets():
    pure, approximate = KINDS["pure"], KINDS["approximate"]
    assert pure.delta(1.0) == 0
    assert pure.epsilon(0.0) == pytest.approx(1.0, rel=1e-12)
    assert approximate.delta(1.0) == pytest.approx(1e-3, rel=1e-12)
    assert approximate.delta(50.0) == pytest.approx(1e-3, rel=1e-12)
    assert approximate.epsilon(0.5e-3) == math.inf
    assert approximate.epsilon(1.0001e-3) <= 1.0
    assert approximate.renyi(np.array([2.0])) is None
    assert pure.renyi(np.array([2.0]))[0] <= 1.0  # alpha epsilon^2 / 2 bounds it
    assert pure.advantage() == pytest.approx(math.tanh(0.5), rel=1e-12)
    nothing = ApproximateProfile(budget=(math.inf, 0.0), **NAMED)
    assert nothing.epsilon(0.9) == math.inf
    assert nothing.losses is None


def test_renyi_between_and_beyond_its_orders():
    profile = RenyiProfile(orders=(8.0, 2.0), values=(0.9, 0.1), **NAMED)
    at = profile.renyi(np.array([1.5, 2.0, 2.1, 8.0, 9.0]))
    assert at.tolist() == [0.1, 0.1, 0.9, 0.9, math.inf]


def test_notes_are_added():
    noted = KINDS["gaussian"].noted("first").noted("second", theorem="better")
    assert noted.notes == ("first", "second")
    assert noted.theorem == "better"
    assert noted.mu == KINDS["gaussian"].mu
    assert KINDS["gaussian"].notes == ()


@every_kind
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda p: p.epsilon(-0.1), "delta"),
        (lambda p: p.epsilon(1.0), "delta"),
        (lambda p: p.epsilon(math.nan), "delta"),
        (lambda p: p.epsilon(0.1, "sideways"), "direction"),
        (lambda p: p.delta(math.nan), "epsilon"),
        (lambda p: p.delta(0.1, "sideways"), "direction"),
        (lambda p: p.beta(1.5), "alpha"),
        (lambda p: p.beta(-0.1), "alpha"),
        (lambda p: p.beta(0.1, "sideways"), "direction"),
    ],
)
def test_bad_questions_have_one_answer(profile, call, name):
    with pytest.raises(InvalidArgument, match=f"Expected {name}="):
        call(profile)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: gaussian_profile(-1.0), "mu"),
        (lambda: gaussian_profile(math.nan), "mu"),
        (lambda: GaussianProfile(parameter=1.0, relation="replace", theorem="x"), "relation"),
        (lambda: RenyiProfile(orders=(2.0,), values=(), **NAMED), "values"),
        (lambda: RenyiProfile(orders=(), values=(), **NAMED), "values"),
        (lambda: RenyiProfile(orders=(1.0,), values=(0.1,), **NAMED), "orders"),
        (lambda: RenyiProfile(orders=(2.0,), values=(-0.1,), **NAMED), "values"),
        (lambda: ApproximateProfile(budget=(-1.0, 0.1), **NAMED), "epsilon"),
        (lambda: ApproximateProfile(budget=(1.0, 1.0), **NAMED), "delta"),
    ],
)
def test_bad_profiles_are_refused(make, name):
    with pytest.raises(InvalidArgument, match=f"Expected {name}="):
        make()


def test_a_profile_is_abstract():
    with pytest.raises(TypeError):
        Profile(**NAMED)
