"""Objective perturbation: golden vectors, and real densities integrated against every bound."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.signal import fftconvolve
from scipy.special import expit

from sordino._check import InvalidArgument
from sordino.accounting import gaussian, objective
from sordino.accounting.compose import compose, times
from sordino.accounting.loss import DIRECTIONS
from sordino.accounting.profile import ApproximateProfile, GaussianProfile
from sordino.privacy import NotApplicable, Relation

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "erm_10.json").read_text())[
    "10_erm_baselines"
]
ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
RELATIONS = {"add_remove": ADD, "replace": REPLACE}
CURVATURE = {"logistic": 0.25, "huber-svm": 1.0}  # a Huber hinge of width 0.5
KINDS = tuple(CURVATURE)
INTEGRATION = 1 + 5e-5
"""The relative error of a trapezoid on `grid`, and more."""


def problem(kind="logistic", relation=ADD, regulariser=10.0, norm=1.0, curvature=None):
    return {
        "regulariser": regulariser,
        "norm": norm,
        "curvature": curvature or CURVATURE[kind],
        "kind": kind,
        "relation": relation,
    }


def cases(name):
    return [{**case, "rel": GOLDEN[name]["tol"]["rel"]} for case in GOLDEN[name]["cases"]]


def golden_problem(case, kind=None):
    kind = kind or ("huber-svm" if case["loss"].startswith("huber") else "logistic")
    curvature = 1.0 if case.get("loss", "").startswith("huber") else 0.25
    relation = RELATIONS[case["adjacency"]]
    return problem(kind, relation, case["Lambda"], case.get("X", 1.0), curvature)


class TestGolden:
    @pytest.mark.parametrize("case", cases("objpert_gaussian_sigma"))
    def test_least_sigma(self, case):
        of = golden_problem(case)
        sigma = objective.noise(epsilon=case["eps"], delta=case["delta"], **of)
        # Replaced, logistic: the golden bound has an offset of k + mu^2/2 where k is proved.
        looser = 1e-6 if (case["adjacency"], case["loss"]) == ("replace", "logistic") else 0.0
        assert case["sigma"] * (1 - looser - case["rel"]) <= sigma
        assert sigma <= case["sigma"] * (1 + case["rel"])
        again = objective.objective_perturbation(sigma=sigma, **of).epsilon(case["delta"])
        assert case["eps"] * (1 - 1e-4) <= again <= case["eps"]

    @pytest.mark.parametrize("case", cases("objpert_pure_scale"))
    def test_pure_scale(self, case):
        charged = golden_problem(case, "huber-svm")  # which always pays for the determinant
        scale = objective.pure_scale(epsilon=case["eps"], **charged)
        assert scale == pytest.approx(case["scale_logistic_jacobian"], rel=case["rel"])
        logistic = golden_problem(case, "logistic")
        found = objective.pure_scale(epsilon=case["eps"], **logistic)
        if case["scale_logistic_no_jacobian"] is None:
            lowest = 2 * case["X"] / case["eps"]
            assert lowest * 1.001 < found < scale
        else:
            assert found == pytest.approx(case["scale_logistic_no_jacobian"], rel=case["rel"])
        for of, value in ((charged, scale), (logistic, found)):
            assert objective.pure_epsilon(scale=value, **of) <= case["eps"]

    @pytest.mark.parametrize("case", cases("objpert_amp_delta"))
    def test_approximate_minimum(self, case):
        errors = {"minimum_error": case["gamma"], "sigma_out": case["sigma_out"]}
        charged = objective.objective_perturbation(
            sigma=case["sigma"], **errors, **golden_problem(case, "huber-svm")
        )
        assert charged.delta(case["eps"]) == pytest.approx(case["delta"], rel=case["rel"])
        logistic = objective.objective_perturbation(
            sigma=case["sigma"], **errors, **golden_problem(case, "logistic")
        )
        assert logistic.delta(case["eps"]) < 0.75 * case["delta"]

    @pytest.mark.parametrize("case", cases("ovr"))
    def test_joint_norm(self, case):
        of = (case["X"], case["K"], RELATIONS[case["adjacency"]])
        assert objective.joint_norm(*of) == pytest.approx(case["ovr"], rel=case["rel"])
        softmax = objective.joint_norm(*of, softmax=True)
        assert softmax == pytest.approx(case["softmax"], rel=case["rel"])


# --- real objective perturbation: densities of the minimiser on a grid ---------------------------


def steepness(kind, margins):
    """psi = |l'| and l'' at these margins."""
    if kind == "logistic":
        psi = expit(-margins)
        return psi, psi * (1 - psi)
    return np.clip((1.5 - margins) / 1.0, 0, 1), ((margins > 0.5) & (margins < 1.5)) * 1.0


@dataclass(frozen=True)
class World:
    """One dataset in one dimension: records x (their labels in the sign), a linear push, noise.

    A push is what many records far on the wrong side of the margin add to the gradient.
    """

    kind: str
    records: tuple[float, ...]
    push: float
    regulariser: float
    sigma: float

    def without_noise(self, w):
        gradient, curvature = self.push + self.regulariser * w, self.regulariser
        for x in self.records:
            psi, bend = steepness(self.kind, x * w)
            gradient, curvature = gradient - psi * x, curvature + bend * x * x
        return -gradient, curvature

    def log_density(self, w, noise="gaussian"):
        b, curvature = self.without_noise(w)
        if noise == "gaussian":
            return -((b / self.sigma) ** 2) / 2 - math.log(self.sigma) + np.log(curvature)
        return -np.abs(b) / self.sigma - math.log(2 * self.sigma) + np.log(curvature)


def grid(worlds, reach=11.0, points=6001):
    """Weights w that a world finds with any probability, even in b, and both sides of kinks."""
    found = []
    for world in worlds:
        far = (reach * world.sigma + abs(world.push) + sum(map(abs, world.records))) + 1
        rough = np.linspace(-far / world.regulariser, far / world.regulariser, 20001)
        b = np.linspace(-reach, reach, points) * world.sigma
        found.append(np.interp(b, world.without_noise(rough)[0][::-1], rough[::-1]))
        if world.kind == "huber-svm":
            kinks = np.outer([0.5, 1.5], 1 / np.array(world.records)).ravel()
            kinks = kinks[(kinks > found[-1].min()) & (kinks < found[-1].max())]
            found += [kinks * (1 - 1e-14), kinks * (1 + 1e-14)]
    return np.unique(np.concatenate(found))


def hockey_stick(w, log_p, log_q, epsilon):
    over = log_q + epsilon - log_p
    return trapezoid(np.exp(log_p) * -np.expm1(np.minimum(over, 0.0)), w) / math.sqrt(2 * math.pi)


def random_pair(rng, kind, relation, norm=None):
    """Neighbours with everything at random: (world with the record, the other world, norm)."""
    norm = norm or 10 ** rng.uniform(-0.5, 0.7)
    regulariser, sigma = 10 ** rng.uniform(-1, 2), norm * 10 ** rng.uniform(-0.3, 1.3)
    rest = tuple(norm * rng.uniform(-1, 1, size=rng.integers(0, 4)))
    push = rng.choice([0.0, 1.0, -1.0]) * (norm + sigma) * 10 ** rng.uniform(-1, 1.2)
    if kind == "huber-svm" and rng.random() < 0.7:  # the margin in the bent part, where psi is 1
        push = regulariser * -0.55 / norm
    record = norm * rng.choice([1.0, -1.0, rng.uniform(-1, 1)])
    other: tuple[float, ...] = ()
    if relation is REPLACE:
        other = (rng.choice([-record, record / 2, norm * rng.uniform(-1, 1)]),)
    base = {"kind": kind, "push": push, "regulariser": regulariser, "sigma": sigma}
    return World(records=(*rest, record), **base), World(records=(*rest, *other), **base), norm


def epsilons(world, norm):
    mu, k = norm / world.sigma, norm**2 / world.regulariser
    kappa = math.log1p(CURVATURE[world.kind] * k)
    return [0.0, 0.5 * kappa, kappa, kappa + 0.5 * mu, kappa + 2 * mu, 0.5 * k, k, k + mu]


def ratios(pairs, relation, profile_of):
    """Largest exact / bound over pairs, both directions and several epsilons."""
    worst = 0.0
    for first, second, norm in pairs:
        profile = profile_of(first, norm, relation)
        w = grid((first, second))
        logs = first.log_density(w), second.log_density(w)
        for epsilon in epsilons(first, norm):
            for direction, (p, q) in zip(DIRECTIONS, (logs, logs[::-1]), strict=True):
                bound = profile.delta(epsilon, direction)
                if bound > 1e-13:
                    worst = max(worst, hockey_stick(w, p, q, epsilon) / bound)
    return worst


def proved_profile(world, norm, relation):
    of = problem(world.kind, relation, world.regulariser, norm)
    return objective.objective_perturbation(sigma=world.sigma, **of)


def no_jacobian(world, norm, relation):
    parameter = norm * (2 if relation is REPLACE else 1) / world.sigma
    return GaussianProfile(parameter=parameter, relation=relation, theorem="false")


def norm_for_its_square(world, norm, relation):
    kappa = math.log1p(CURVATURE[world.kind] * norm / world.regulariser)
    return replace(proved_profile(world, norm, relation), kappa=kappa)


@pytest.mark.parametrize("relation", [ADD, REPLACE], ids=lambda r: r.value)
@pytest.mark.parametrize("kind", KINDS)
class TestDensities:
    def pairs(self, kind, relation, count, seed, **how):
        rng = np.random.default_rng(seed)
        return [random_pair(rng, kind, relation, **how) for _ in range(count)]

    def test_no_pair_exceeds_the_bound(self, kind, relation):
        worst = ratios(self.pairs(kind, relation, 40, 1), relation, proved_profile)
        assert 0.4 < worst < INTEGRATION

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(2, 6))
    def test_no_pair_exceeds_the_bound_at_length(self, kind, relation, seed):
        worst = ratios(self.pairs(kind, relation, 1500, seed), relation, proved_profile)
        assert worst < INTEGRATION

    def test_the_same_check_catches_what_is_false(self, kind, relation):
        if (kind, relation) == ("logistic", REPLACE):
            pytest.skip("one-dimensional logistic pairs never move by 2X: see the plane")
        pairs = self.pairs(kind, relation, 30, 1)
        assert ratios(pairs, relation, no_jacobian) > 10
        if relation is ADD:
            large = self.pairs(kind, relation, 30, 1, norm=4.0)
            assert ratios(large, relation, norm_for_its_square) > 2
            assert ratios(large, relation, proved_profile) < INTEGRATION

    def test_renyi_divergences(self, kind, relation):
        orders = np.array([1.5, 3.0, 10.0])
        for first, second, norm in self.pairs(kind, relation, 20, 7):
            bound = proved_profile(first, norm, relation).renyi(orders)
            w = grid((first, second), reach=16.0)
            logs = first.log_density(w), second.log_density(w)
            for p, q in (logs, logs[::-1]):
                for order, most in zip(orders, bound, strict=True):
                    if order * norm / first.sigma > 4:  # beyond the grid
                        continue
                    moment = trapezoid(np.exp(order * p + (1 - order) * q), w)
                    exact = math.log(moment / math.sqrt(2 * math.pi)) / (order - 1)
                    assert exact <= most * INTEGRATION + 1e-9

    def test_two_problems_compose(self, kind, relation):
        for first, second, norm in self.pairs(kind, relation, 6, 11):
            profile = proved_profile(first, norm, relation)
            both = times(profile, 2)
            assert "privacy loss distributions" in both.theorem
            w = grid((first, second), points=501)
            logs = first.log_density(w), second.log_density(w)
            for direction, (p, q) in zip(DIRECTIONS, (logs, logs[::-1]), strict=True):
                mass = np.exp(p) * np.gradient(w) / math.sqrt(2 * math.pi)
                loss = (p - q)[:, None] + (p - q)[None, :]
                for epsilon in epsilons(first, norm)[2:5]:
                    gained = -np.expm1(np.minimum(epsilon - loss, 0.0))
                    exact = mass @ gained @ mass
                    bound = both.delta(epsilon, direction)
                    # Coarser, and both of the loss laws' kinks are off the grid.
                    assert exact <= bound * (1 + 1e-3) + 1e-12


def test_replaced_logistic_pairs_at_their_worst():
    """Another record of the opposite side, or the same row with the other label, pushed or not."""
    worst = 0.0
    for k in (0.05, 0.4, 2.0):
        for mu in (0.1, 0.5, 1.5):
            for other in (-1.0, 1.0, -0.5):
                for push in (-20.0, -2.0, 0.0, 2.0, 20.0):
                    base = {"kind": "logistic", "push": push, "regulariser": 1 / k}
                    base["sigma"] = 1 / mu
                    pair = (World(records=(1.0,), **base), World(records=(other,), **base), 1.0)
                    worst = max(worst, ratios([pair], REPLACE, proved_profile))
    assert 0.3 < worst < INTEGRATION


def ratio_in_the_plane(kind, angle, regulariser, sigma, points=300):
    """Largest exact / bound for rows x and x' at this angle, under public pushes of many kinds."""
    # Turned, so that no kink runs along the grid.
    x, between, other = (
        np.array([math.cos(0.3 + turn), math.sin(0.3 + turn)]) for turn in (0, angle / 2, angle)
    )
    profile = objective.objective_perturbation(sigma=sigma, **problem(kind, REPLACE, regulariser))
    kappa = math.log1p(CURVATURE[kind] / regulariser)
    worst = 0.0
    # Both margins negative: both gradients at their largest. Then one of them only; then bends.
    for push in (30 * sigma * between, 30 * (x - other), -0.55 * regulariser * x, 0 * x):
        p, q, cell = _densities(kind, (x, other), push, regulariser, sigma, points)
        for epsilon in (0.0, kappa, kappa + 0.5 / sigma, kappa + 3 / sigma, 1 / regulariser):
            bound = profile.delta(epsilon)
            for first, second in ((p, q), (q, p)):
                exact = np.maximum(first - math.exp(epsilon) * second, 0).sum() * cell
                if bound > 1e-8:
                    worst = max(worst, exact / bound)
    return worst


def _densities(kind, rows, push, regulariser, sigma, points):
    axis = np.linspace(-1, 1, points) * (7.5 * sigma + 2) / regulariser
    w = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1) - push / regulariser
    found = []
    for row in rows:
        psi, bend = steepness(kind, w @ row)
        b = psi[..., None] * row - push - regulariser * w
        determinant = regulariser * (regulariser + bend * (row @ row))
        square = (b * b).sum(axis=-1) / sigma**2
        found.append(np.exp(-square / 2) / (2 * math.pi * sigma**2) * determinant)
    cell = (axis[1] - axis[0]) ** 2
    assert [density.sum() * cell for density in found] == pytest.approx([1, 1], abs=2e-2)
    return *found, cell


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("angle", [0.5, 1.6, 2.9])
def test_two_dimensions_replaced(kind, angle):
    for regulariser, sigma in ((0.5, 1.0), (2.0, 3.0)):
        assert ratio_in_the_plane(kind, angle, regulariser, sigma) < 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_dimensions_replaced_at_length(kind):
    worst = 0.0
    for angle in (0.5, 1.5, 2.2, 2.7, 2.9, 3.0, 3.1, math.pi):
        for regulariser in (0.3, 5.0, 40.0):
            for sigma in (0.5, 1.0, 4.0):
                found = ratio_in_the_plane(kind, angle, regulariser, sigma, points=600)
                worst = max(worst, found)
    assert 0.7 < worst < 1


class TestApproximateMinima:
    """A solver that errs by gamma / Lambda, to the worse side in each world."""

    def worst(self, kind, relation, share=1.0):
        """Largest exact / bound, if the bound takes the error to be `share` of what it is."""
        worst = 0.0
        for norm, sigma, regulariser in ((0.01, 0.05, 1.0), (1.0, 2.0, 2.0), (1.0, 1.0, 8.0)):
            base = {"kind": kind, "push": 0.3, "regulariser": regulariser, "sigma": sigma}
            records = ((norm,), (-norm,) if relation is REPLACE else ())
            worlds = [World(records=mine, **base) for mine in records]
            width = sigma / regulariser
            for sigma_out in (0.3 * width, width, 10 * width):
                for mu_out in (0.2, 1.0):
                    gamma = mu_out * sigma_out * regulariser / 2
                    profile = objective.objective_perturbation(
                        **{"sigma": sigma, "minimum_error": share * gamma},
                        sigma_out=sigma_out,
                        **problem(kind, relation, regulariser, norm),
                    )
                    for sign in (1, -1):
                        found = self.ratio(worlds, sign * gamma, sigma_out, profile)
                        worst = max(worst, found)
        return worst

    def ratio(self, worlds, gamma, sigma_out, profile):
        ends = grid(worlds)[[0, -1]]
        error = gamma / worlds[0].regulariser
        margin = 9 * sigma_out + abs(error)
        w = np.linspace(ends[0] - margin, ends[1] + margin, 6001)
        step = w[1] - w[0]
        kernel = np.exp(-(((np.arange(-6000, 6001) * step) / sigma_out) ** 2) / 2)
        kernel /= kernel.sum()
        laws = []
        for world, shift in zip(worlds, (error, -error), strict=True):
            density = np.exp(world.log_density(w - shift)) / math.sqrt(2 * math.pi)
            laws.append(np.maximum(fftconvolve(density, kernel, mode="same"), 0.0))
        largest = 0.0
        for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
            for direction, (p, q) in zip(DIRECTIONS, (laws, laws[::-1]), strict=True):
                bound = profile.delta(epsilon, direction)
                if bound > 1e-7:  # the transform has some ten digits
                    exact = np.maximum(p - math.exp(epsilon) * q, 0).sum() * step
                    largest = max(largest, exact / bound)
        return largest

    @pytest.mark.parametrize("relation", [ADD, REPLACE], ids=lambda r: r.value)
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_worst_errors_stay_below(self, kind, relation):
        assert 0.2 < self.worst(kind, relation) <= 1

    @pytest.mark.parametrize("kind", KINDS)
    def test_half_the_distance_is_not_enough(self, kind):
        assert self.worst(kind, ADD, share=0.5) > 5

    @pytest.mark.parametrize("relation", [ADD, REPLACE], ids=lambda r: r.value)
    @pytest.mark.parametrize("kind", KINDS)
    def test_at_a_hundredth_of_mu_it_is_all_but_free(self, kind, relation):
        of = problem(kind, relation, regulariser=32.561)
        exact = objective.noise(epsilon=1.0, delta=1e-8, **of)
        found = objective.noise(epsilon=1.0, delta=1e-8, minimum_error=1e-6, **of)
        assert exact < found < 1.0005 * exact
        out = {"regulariser": 32.561, "norm": 1.0, "minimum_error": 1e-6}
        sigma_out = objective.output_noise(sigma=found, **out)
        assert 2e-6 / (32.561 * sigma_out) == pytest.approx(0.01 / found)
        assert sigma_out < 1e-4

    def test_an_error_without_noise_tells_everything(self):
        profile = objective.objective_perturbation(sigma=5.0, minimum_error=1e-9, **problem())
        assert profile.log_delta(3.0) == 0
        assert profile.epsilon(1e-5) == math.inf

    def test_noise_without_an_error_changes_nothing(self):
        plain = objective.objective_perturbation(sigma=5.0, **problem())
        noised = objective.objective_perturbation(sigma=5.0, sigma_out=1.0, **problem())
        assert noised == plain


def test_logistic_law_pointwise():
    """M(psi) <= max(f, M(1)), f = max(0, k - mu^2/2), and no smaller f will do."""
    psi, normal = np.linspace(0, 1, 1001)[None, :], np.linspace(-8, 8, 801)[:, None]
    for mu in (0.1, 0.7, 2.0):
        for k in (0.02, 0.5, 3.0, 20.0):
            loss = psi * mu * normal + (psi * mu) ** 2 / 2 + np.log1p(psi * (1 - psi) * k)
            largest, last = loss.max(axis=1), loss[:, -1]
            floor = max(0.0, k - mu * mu / 2)
            assert (largest <= np.maximum(floor, last) + 1e-12).all()
    mu, k = 0.7, 3.0  # beyond the grid's resolution nothing above the floor but M(1)
    loss = psi * mu * normal + (psi * mu) ** 2 / 2 + np.log1p(psi * (1 - psi) * k)
    largest, last = loss.max(axis=1), loss[:, -1]
    assert largest[largest > last + 1e-9].max() > 0.97 * (k - mu * mu / 2)


class TestPure:
    def exact(self, kind, norm, scale, regulariser, others=((),), push=0.0):
        """Largest log ratio of densities over w, 1-D, noise exp(-|b| / scale), both ways."""
        worst = 0.0
        for other in others:
            base = {"kind": kind, "push": push, "regulariser": regulariser, "sigma": scale}
            worlds = World(records=(norm,), **base), World(records=other, **base)
            w = np.linspace(-60, 60, 60001) / norm
            logs = [world.log_density(w, "laplace") for world in worlds]
            worst = max(worst, float(np.abs(logs[0] - logs[1]).max()))
        return worst

    @pytest.mark.parametrize("relation", [ADD, REPLACE], ids=lambda r: r.value)
    @pytest.mark.parametrize("kind", KINDS)
    def test_no_ratio_exceeds_it_and_some_reach_it(self, kind, relation):
        closest = 0.0
        for norm in (0.5, 1.0, 4.0):
            for scale in (0.5, 2.0, 6.0):
                for regulariser in (0.5, 5.0, 50.0):
                    of = problem(kind, relation, regulariser, norm)
                    most = objective.pure_epsilon(scale=scale, **of)
                    others = ((-norm,), (norm / 2,)) if relation is REPLACE else ((),)
                    for push in (0.0, 30.0 * norm, -30.0 * norm):
                        exact = self.exact(kind, norm, scale, regulariser, others, push)
                        assert exact <= most * (1 + 1e-9)
                        closest = max(closest, exact / most)
        # In one dimension psi(m) + psi(-m) = 1 for logistic: x and -x never both push fully.
        assert closest > (0.5 if (kind, relation) == ("logistic", REPLACE) else 0.99)

    def test_the_norm_in_place_of_its_square_is_false(self):
        norm, regulariser, epsilon = 12.0, 10.0, 1.0
        scale = norm / (epsilon - math.log1p(0.25 * norm / regulariser))
        assert self.exact("logistic", norm, scale, regulariser) > 1.2 * epsilon

    def test_without_jacobian_only_where_the_regulariser_is_large(self):
        for regulariser, free in ((1.0, True), (0.6, False)):
            exact = self.exact("logistic", 1.0, 1.0, regulariser)
            of = problem(regulariser=regulariser)
            bound = objective.pure_epsilon(scale=1.0, **of)
            assert (bound == 1.0) is free
            assert exact <= bound
            assert (exact > 1.0) is not free

    def test_refused_where_the_determinant_alone_costs_more(self):
        of = problem("huber-svm", regulariser=0.5)
        with pytest.raises(NotApplicable, match=r"epsilon > kappa.*above 0\.581977"):
            objective.pure_scale(epsilon=1.0, **of)
        enough = objective.pure_scale(epsilon=1.0, **{**of, "regulariser": 0.582})
        assert math.isfinite(enough)


positive = st.floats(0.05, 20)
either = st.sampled_from([ADD, REPLACE, Relation.ZERO_OUT])


class TestShape:
    @given(st.sampled_from(KINDS), either, positive, positive, st.floats(0, 6), st.floats(0, 0.5))
    def test_delta_falls_with_epsilon_and_with_noise(self, kind, relation, sigma, lam, eps, error):
        errors = {"minimum_error": error, "sigma_out": 2.0}
        of = {**problem(kind, relation, lam), **errors}
        profile = objective.objective_perturbation(sigma=sigma, **of)
        more = objective.objective_perturbation(sigma=1.1 * sigma, **of)
        for direction in DIRECTIONS:
            here = profile.log_delta(eps, direction)
            assert here <= 0
            assert profile.log_delta(1.05 * eps + 1e-3, direction) <= here + 1e-12
            assert more.log_delta(eps, direction) <= here + 1e-12
        if error == 0:
            assert profile.log_delta(eps) >= gaussian.log_delta(eps, 1 / sigma) - 1e-9

    @settings(max_examples=40)
    @given(
        *(st.sampled_from(KINDS), either, st.floats(0.2, 3), st.floats(-12, -2)),
        *(st.floats(5, 200), st.sampled_from([0.0, 1e-6])),
    )
    def test_calibrated_noise_meets_its_target_closely(self, kind, relation, eps, log, lam, error):
        of, delta = problem(kind, relation, lam), 10**log
        if math.log1p(CURVATURE[kind] / lam) >= eps:
            with pytest.raises(NotApplicable, match="kappa"):
                objective.noise(epsilon=eps, delta=delta, **of)
            return
        sigma = objective.noise(epsilon=eps, delta=delta, minimum_error=error, **of)
        out = {"regulariser": lam, "norm": 1.0, "minimum_error": error}
        found = objective.objective_perturbation(
            **{"sigma": sigma, "minimum_error": error},
            sigma_out=objective.output_noise(sigma=sigma, **out),
            **of,
        ).epsilon(delta)
        assert eps * (1 - 1e-4) <= found <= eps

    def test_zero_out_is_add_or_remove(self):
        zero = objective.objective_perturbation(sigma=3.0, **problem(relation=Relation.ZERO_OUT))
        add = objective.objective_perturbation(sigma=3.0, **problem())
        assert zero.delta(0.4) == add.delta(0.4)
        assert zero.relation is Relation.ZERO_OUT

    def test_only_the_world_with_the_record_pays_for_the_determinant(self):
        of = problem("huber-svm")
        profile = objective.objective_perturbation(sigma=3.0, **of)
        assert profile.log_delta(1.0, "backward") == gaussian.log_delta(1.0, 1 / 3)
        assert profile.log_delta(1.0, "forward") == gaussian.log_delta(1 - math.log1p(0.1), 1 / 3)

    def test_logistic_pays_nothing_from_k_on(self):
        profile = objective.objective_perturbation(sigma=3.0, **problem())
        for epsilon in (0.1, 0.5, 3.0):
            assert profile.log_delta(epsilon) == gaussian.log_delta(epsilon, 1 / 3)
        assert profile.log_delta(0.01) > gaussian.log_delta(0.01, 1 / 3)

    def test_tiny_deltas_keep_their_digits(self):
        profile = objective.objective_perturbation(sigma=30.0, **problem(relation=REPLACE))
        assert profile.log_delta(3.0) == pytest.approx(gaussian.log_delta(3.0, 2 / 30), rel=1e-12)
        assert profile.log_delta(3.0) < -900


class TestEdges:
    @pytest.mark.parametrize("relation", [ADD, REPLACE], ids=lambda r: r.value)
    @pytest.mark.parametrize("kind", KINDS)
    def test_extremes(self, kind, relation):
        of = problem(kind, relation)
        nothing = objective.objective_perturbation(sigma=0.0, **of)
        assert nothing.log_delta(5.0) == 0
        assert nothing.epsilon(1e-5) == math.inf
        profile = objective.objective_perturbation(sigma=1e9, **of)
        assert profile.log_delta(1.0) < -1e6
        assert profile.log_delta(math.inf) == -math.inf
        assert profile.epsilon(0.0) == math.inf
        empty = objective.objective_perturbation(sigma=0.0, **{**of, "norm": 0.0})
        assert empty.epsilon(0.0) == 0
        assert objective.noise(epsilon=math.inf, delta=1e-5, **of) == 0
        assert objective.noise(epsilon=1.0, delta=1e-5, **{**of, "norm": 0.0}) == 0
        assert objective.pure_scale(epsilon=1.0, **{**of, "norm": 0.0}) == 0

    def test_refusals(self):
        run = {"epsilon": 1.0, "delta": 1e-5, **problem()}
        with pytest.raises(InvalidArgument, match="pure_scale"):
            objective.noise(**{**run, "delta": 0.0})
        with pytest.raises(InvalidArgument, match="strongly convex"):
            objective.noise(**{**run, "regulariser": 0.0})
        with pytest.raises(InvalidArgument, match="one sign"):
            objective.noise(**{**run, "kind": "least-squares"})
        with pytest.raises(InvalidArgument, match=r"0\.25"):
            objective.noise(**{**run, "curvature": 0.2})
        with pytest.raises(TypeError, match="minimum_eror"):
            objective.noise(minimum_eror=0.1, **run)
        with pytest.raises(TypeError, match="regulariser"):
            objective.noise(epsilon=1.0, delta=1e-5, norm=1.0)
        with pytest.raises(NotApplicable, match=r"above 2\.37708 instead of 0\.1"):
            objective.noise(**{**run, **problem(regulariser=0.1), "epsilon": 0.1})


class TestSeveralProblems:
    def test_a_share_for_each_adds_up_to_no_more(self):
        for problems in (1, 3, 7, 10):
            epsilon, delta = objective.one_vs_rest(epsilon=1.0, delta=1e-5, problems=problems)
            assert epsilon == pytest.approx(1 / problems, rel=1e-15)
            assert problems * epsilon <= 1
            assert problems * delta <= 1e-5

    @pytest.mark.parametrize("relation", [ADD, REPLACE], ids=lambda r: r.value)
    @pytest.mark.parametrize("kind", KINDS)
    def test_composed_laws_need_less_than_shares(self, kind, relation):
        of = problem(kind, relation, regulariser=60.0)
        epsilon, delta = objective.one_vs_rest(epsilon=1.0, delta=1e-5, problems=10)
        shared = objective.noise(epsilon=epsilon, delta=delta, **of)
        composed = objective.noise(epsilon=1.0, delta=1e-5, problems=10, **of)
        gaussians = gaussian.sigma(1.0, 1e-5, objective.joint_norm(1.0, 10, relation))
        assert gaussians < composed < 0.5 * shared
        one = objective.objective_perturbation(sigma=composed, **of)
        assert 1 - 1e-4 <= times(one, 10).epsilon(1e-5) <= 1

    def test_refused_if_all_determinants_cost_more(self):
        of = problem("huber-svm", regulariser=5.0)
        with pytest.raises(NotApplicable, match="each of 10 problems"):
            objective.noise(epsilon=1.0, delta=1e-5, problems=10, **of)

    def test_the_law_is_two_laws_whose_curve_is_the_delta(self):
        for kind in KINDS:
            for relation in (ADD, REPLACE):
                of = problem(kind, relation, regulariser=1.5)
                profile = objective.objective_perturbation(sigma=2.0, **of)
                ((law, _),) = profile.losses
                for direction in DIRECTIONS:
                    edges = np.linspace(-12, 12, 4801)
                    drawn, other = law.masses(edges, direction)
                    for masses in (drawn, other):
                        assert (masses >= 0).all()
                        assert math.fsum(masses) == pytest.approx(1, abs=1e-12)
                    for epsilon in (0.0, 0.3, 1.0, 2.5):
                        after = np.searchsorted(edges, epsilon - 1e-9) + 1
                        got = math.fsum(drawn[after:]) - math.exp(epsilon) * math.fsum(
                            other[after:]
                        )
                        exact = math.exp(law.log_delta(epsilon, direction))
                        assert got == pytest.approx(exact, abs=1e-12)
                    for log_tail in (-2.0, -20.0, -300.0):
                        low, high = law.reach(log_tail, direction)
                        ends = np.array([np.nextafter(low, -np.inf), high])
                        drawn, _ = law.masses(ends, direction)
                        assert drawn[0] <= 1e-15
                        assert drawn[-1] <= math.exp(log_tail) * (1 + 1e-9)

    def test_moments_of_the_law_are_sums_over_its_masses(self):
        of = problem("logistic", REPLACE, regulariser=1.5)
        ((law, _),) = objective.objective_perturbation(sigma=2.0, **of).losses
        edges = np.linspace(0, 30, 300001)
        drawn, _ = law.masses(edges, "forward")
        for theta in (0.5, 2.0):
            middle = np.exp(theta * (edges[1:] + edges[:-1]) / 2)
            found = float(law.log_moments(np.array([theta]), "forward")[0])
            # The edge law at its start is somewhere in its bucket.
            assert found == pytest.approx(math.log(drawn[1:-1] @ middle), abs=1e-4)

    def test_composes_with_other_releases(self):
        profile = objective.objective_perturbation(
            sigma=8.0, minimum_error=1e-6, sigma_out=1e-4, **problem()
        )
        pure = ApproximateProfile(budget=(0.2, 0.0), relation=ADD, theorem="choice")
        both = compose([profile, pure])
        # The law that composes pays kappa, which the profile at one epsilon need not.
        most = profile.epsilon(1e-6) + 0.2 + profile.kappa
        assert profile.epsilon(1e-6) < both.epsilon(1e-6) <= most
