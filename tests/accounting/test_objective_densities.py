"""Objective perturbation as it is: densities of minimisers, integrated against every bound.

In one dimension and in the plane, over random and chosen neighbours, both directions; and the same
checks on statements known to be false, which they must catch.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.signal import fftconvolve
from scipy.special import expit

from sordino.accounting import objective
from sordino.accounting.compose import times
from sordino.accounting.pld.loss import DIRECTIONS
from sordino.accounting.profile import GaussianProfile
from sordino.privacy import Relation

ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
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


def steepness(kind, margins):
    """psi = |l'| and l'' at these margins."""
    if kind == "logistic":
        psi = expit(-margins)
        return psi, psi * (1 - psi)
    return np.clip((1.5 - margins) / 1.0, 0, 1), ((margins > 0.5) & (margins < 1.5)) * 1.0


@dataclass(frozen=True)
class World:
    """One dataset in one dimension: records x (their labels in the sign), a linear push, noise.

    A push is what many records far on the wrong side of the margin add to the gradient. Weights are
    factors of the records' losses, 1 where none are given.
    """

    kind: str
    records: tuple[float, ...]
    push: float
    regulariser: float
    sigma: float
    weights: tuple[float, ...] = ()

    def without_noise(self, w):
        gradient, curvature = self.push + self.regulariser * w, self.regulariser
        for x, v in itertools.zip_longest(self.records, self.weights, fillvalue=1.0):
            psi, bend = (v * each for each in steepness(self.kind, x * w))
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
    def test_no_pair_exceeds_the_bound_at_length(self, kind, relation):
        worst = ratios(self.pairs(kind, relation, 1000, 2), relation, proved_profile)
        assert worst < INTEGRATION

    def test_nor_does_a_pair_with_weights_up_to_one(self, kind, relation):
        """a = v psi is in [0, 1] and v psi' <= a (1 - a) for the logistic loss, as without them."""
        worst = ratios(self.weighted(kind, relation, 80, 1.0), relation, proved_profile)
        assert 0.3 < worst < INTEGRATION

    def test_and_weights_that_were_not_divided_are_caught(self, kind, relation):
        assert ratios(self.weighted(kind, relation, 30, 3.0), relation, proved_profile) > 2

    def weighted(self, kind, relation, count, most):
        rng, found = np.random.default_rng(4), []
        for first, second, norm in self.pairs(kind, relation, count, 3):
            weights = most * rng.uniform(size=len(first.records)) ** rng.choice([0.1, 1.0])
            weights[-1] = most * rng.choice([1.0, rng.random()])
            other = weights[: len(second.records)].copy()
            if len(other) == len(weights):  # one that stands in its place may weigh anything
                other[-1] = most * rng.random()
            given = replace(first, weights=tuple(weights)), replace(second, weights=tuple(other))
            found.append((*given, norm))
        return found

    def test_the_same_check_catches_what_is_false(self, kind, relation):
        # One-dimensional logistic pairs x, -x never move by 2X: only k decides there, and seldom.
        count, least = (100, 2) if (kind, relation) == ("logistic", REPLACE) else (30, 10)
        pairs = self.pairs(kind, relation, count, 1)
        assert ratios(pairs, relation, no_jacobian) > least
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


def ratio_in_the_plane(kind, angle, regulariser, sigma, points=300, profile=None):
    """Largest exact / bound for rows x and x' at this angle, under public pushes of many kinds."""
    # Turned, so that no kink runs along the grid.
    x, between, other = (
        np.array([math.cos(0.3 + turn), math.sin(0.3 + turn)]) for turn in (0, angle / 2, angle)
    )
    of = problem(kind, REPLACE, regulariser)
    profile = profile or objective.objective_perturbation(sigma=sigma, **of)
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


def test_two_records_move_farther_than_one():
    once = GaussianProfile(parameter=1.0, relation=REPLACE, theorem="false")
    assert ratio_in_the_plane("logistic", 2.9, 0.5, 1.0, profile=once) > 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_dimensions_replaced_at_length(kind):
    worst = 0.0
    for angle in (0.5, 1.5, 2.2, 2.7, 2.9, 3.0, 3.1, math.pi):
        for regulariser in (0.3, 5.0, 40.0):
            for sigma in (0.5, 1.0, 4.0):
                found = ratio_in_the_plane(kind, angle, regulariser, sigma, points=400)
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


def test_replaced_logistic_law_pointwise():
    """M <= max(N_{x-x'}, N_x, N_{x'} + f, f) for rows of any length and angle, at random b."""
    rng = np.random.default_rng(0)
    psi, other = np.meshgrid(*[np.linspace(0, 1, 26)] * 2, indexing="ij")
    for _ in range(300):
        sigma, regulariser = 10 ** rng.uniform(-1, 1.3), 10 ** rng.uniform(-1.2, 2)
        angle, lengths = rng.uniform(0, math.pi), rng.choice([1.0, rng.uniform()], 2)
        x = lengths[0] * np.array([1.0, 0.0])
        y = lengths[1] * np.array([math.cos(angle), math.sin(angle)])
        b = rng.normal(size=(60, 2)) * sigma * rng.choice([1, 3])

        def normal(v, b=b, sigma=sigma):
            return (-2 * b @ v + v @ v) / (2 * sigma**2)

        moved = psi[..., None] * x - other[..., None] * y
        loss = (-2 * np.einsum("ni,jki->njk", b, moved) + (moved**2).sum(-1)) / (2 * sigma**2)
        loss = loss + np.log1p(psi * (1 - psi) * (x @ x) / regulariser)
        floor = max(0.0, 1 / regulariser - 1 / (2 * sigma**2))
        ends = (normal(x - y), normal(x), normal(-y) + floor, np.full(len(b), floor))
        assert (loss.max(axis=(1, 2)) <= np.maximum.reduce(ends) + 1e-9).all()


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
