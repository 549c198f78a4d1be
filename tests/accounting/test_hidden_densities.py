"""The last iterate: no bound lies below densities that are carried through every step."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from sordino.accounting import gaussian
from sordino.accounting.last_iterate import convex
from sordino.accounting.last_iterate.poisson import Iteration
from sordino.accounting.profile import LossProfile
from sordino.privacy import Relation

ANY = {"relation": Relation.ZERO_OUT}
EPSILONS = (0.0, 0.1, 0.3, 0.7, 1.5, 3.0)


def linear_mu(c, a, s):
    """Exact mu of w <- c w + a (or 0) + N(0, s^2), the dynamics of quadratic losses."""
    distance, variance = 0.0, 0.0
    for ck, ak, sk in zip(c, a, s, strict=True):
        distance, variance = ck * distance + ak, ck**2 * variance + sk**2
    return distance / math.sqrt(variance)


def kernel(grid, means, noise):
    """Density of N(mean, noise^2) on the grid, one row a starting point."""
    return norm.pdf(grid[None, :], means[:, None], noise)


def carried(grid, kernels, start):
    """Density after all steps from a point; each kernel maps densities on the grid."""
    spacing = grid[1] - grid[0]
    density = kernels[0][np.argmin(np.abs(grid - start))]
    for step in kernels[1:]:
        density = spacing * density @ step
    assert spacing * density.sum() == pytest.approx(1, abs=1e-6)
    return density


def hockey_sticks(grid, p, q, epsilon):
    """Both directions by the trapezium rule, which is near exact for such smooth densities."""
    spacing = grid[1] - grid[0]
    return tuple(
        spacing * np.maximum(x - math.exp(epsilon) * y, 0).sum() for x, y in ((p, q), (q, p))
    )


class TestAgainstDensities:
    """One-dimensional problems, whose densities are carried through every step on a grid.

    The error of the sums is that of the kink of the hockey stick, of the order of spacing^2: below
    2e-4 of delta here, which is the slack given.
    """

    grid = np.linspace(-12, 12, 1201)
    slack = 1 + 2e-4

    @staticmethod
    def logistic(w, label):
        """A step on mean logistic loss + 0.1 w^2 / 2; labels of the record shift it by 0.5."""
        eta, rest = 1.0, np.array([1.0, -1.0])
        data = sum(expit(w * y) * y - y for y in rest) / 4
        record = (expit(w * label) * label - label) / 2
        return w - eta * (data + record + 0.1 * w)

    def test_logistic_gradient_descent_never_beats_the_bound(self):
        # Slope of the map: 1 - 0.1 - (1/4 + 1/4 + 1/2) s'(w) in [0.65, 0.9]; shift exactly 0.5.
        noise, steps = 0.6, 6
        worlds = [kernel(self.grid, self.logistic(self.grid, y), noise) for y in (1.0, -1.0)]
        p, q = (carried(self.grid, [world] * steps, 0.0) for world in worlds)
        bound = convex.full_batch(
            contraction=0.9, shift=0.5, noise=noise, steps=steps, relation=Relation.REPLACE_ONE
        )
        for epsilon in EPSILONS:
            worst = max(hockey_sticks(self.grid, p, q, epsilon))
            assert 0.02 * bound.delta(epsilon) < worst <= self.slack * bound.delta(epsilon)

    @pytest.mark.parametrize("c", [0.5, 0.95, 1.0])
    def test_quadratic_gradient_descent_attains_it(self, c):
        a, s, steps = 0.4, 0.7, 6
        maps = [c * self.grid + a, c * self.grid]
        p, q = (carried(self.grid, [kernel(self.grid, m, s)] * steps, 0.0) for m in maps)
        bound = convex.full_batch(contraction=c, shift=a, noise=s, steps=steps, **ANY)
        assert bound.mu == pytest.approx(linear_mu([c] * steps, [a] * steps, [s] * steps))
        for epsilon in EPSILONS[:-1]:
            for worst in hockey_sticks(self.grid, p, q, epsilon):
                assert worst == pytest.approx(bound.delta(epsilon), rel=2e-3)

    @pytest.mark.parametrize("position", [0, 1, 2])
    def test_cyclic_batches_never_beat_the_bound(self, position):
        noise, steps = 0.5, 7
        alike = kernel(self.grid, self.logistic(self.grid, 1.0), noise)
        other = kernel(self.grid, self.logistic(self.grid, -1.0), noise)
        p = carried(self.grid, [alike] * steps, 0.0)
        visits = [other if k % 3 == position else alike for k in range(steps)]
        q = carried(self.grid, visits, 0.0)
        run = {"contraction": 0.9, "shift": 0.5, "noise": noise, "batches": 3, "steps": steps}
        bound = convex.cyclic(**run, position=position, relation=Relation.REPLACE_ONE)
        for epsilon in EPSILONS[:-1]:
            worst = max(hockey_sticks(self.grid, p, q, epsilon))
            assert 0.01 * bound.delta(epsilon) < worst <= self.slack * bound.delta(epsilon)

    def test_a_secret_place_never_beats_the_mean(self):
        c, a, s, steps = 0.9, 0.8, 0.6, 6
        maps = [kernel(self.grid, c * self.grid + shift, s) for shift in (0.0, a)]
        q = carried(self.grid, [maps[0]] * steps, 0.0)
        places = [
            carried(self.grid, [maps[int(k % 3 == j)] for k in range(steps)], 0.0) for j in range(3)
        ]
        bound = convex.permuted_once(contraction=c, shift=a, noise=s, batches=3, steps=steps, **ANY)
        for epsilon in EPSILONS[:-1]:
            worst = max(hockey_sticks(self.grid, np.mean(places, axis=0), q, epsilon))
            assert 0.1 * bound.delta(epsilon) < worst <= self.slack * bound.delta(epsilon)

    def test_a_projected_run_never_beats_the_domain_bound(self):
        a, s, half, steps = 0.3, 0.5, 0.4, 20
        inside = np.clip(self.grid, -half, half)
        p, q = (carried(self.grid, [kernel(self.grid, inside + m, s)] * steps, 0) for m in (a, 0.0))
        run = {**ANY, "contraction": 1.0, "shift": a, "noise": s, "steps": steps}
        bound = convex.full_batch(**run, diameter=2 * half)
        assert bound.mu < 0.8 * convex.full_batch(**run).mu
        for epsilon in EPSILONS:
            worst = max(hockey_sticks(self.grid, p, q, epsilon))
            assert worst <= self.slack * bound.delta(epsilon)

    def test_a_projected_run_on_any_loss_never_beats_the_contraction(self):
        a, s, half = 0.7, 1.0, 0.5

        def wild(x):
            inside = np.clip(x, -half, half)
            return inside - 0.3 * np.sin(9 * inside)

        reach = np.ptp(wild(np.linspace(-half, half, 1001)))
        visits = [kernel(self.grid, wild(self.grid) + m, s) for m in (a, 0.0)]
        then = [kernel(self.grid, wild(self.grid), s)] * 3
        p, q = (carried(self.grid, [visit, *then], 0.0) for visit in visits)
        bound = convex.projected_one_visit(
            shift=a, noise=s, diameter=float(reach), steps_after=3, **ANY
        )
        for epsilon in (0.0, 0.02, 0.05, 0.1):
            worst = max(hockey_sticks(self.grid, p, q, epsilon))
            assert 0.0 < worst <= self.slack * bound.delta(epsilon)
        assert bound.delta(0.3) < gaussian.delta(0.3, a / s)

    @pytest.mark.parametrize(("c", "diameter"), [(0.6, math.inf), (1.0, 1.0)])
    def test_poisson_batches_never_beat_the_composite(self, c, diameter):
        q_in, a, s, steps = 0.3, 1.0, 0.8, 12
        inside = np.clip(self.grid, -diameter / 2, diameter / 2)
        out, within = (kernel(self.grid, c * inside + m, s) for m in (0.0, a))
        p = carried(self.grid, [(1 - q_in) * out + q_in * within] * steps, 0.0)
        q = carried(self.grid, [out] * steps, 0.0)
        run = Iteration(q_in, c, a, s, steps, diameter)
        for count, fraction in itertools.product((1, 2, 4, steps), (0.05, 0.3, 0.7)):
            bound = LossProfile(components=run.composite(count, fraction), theorem="", **ANY)
            for epsilon in (0.1, 0.7, 1.5):
                forward, backward = hockey_sticks(self.grid, p, q, epsilon)
                assert forward <= self.slack * bound.delta(epsilon, "forward")
                assert backward <= self.slack * bound.delta(epsilon, "backward") + 1e-12
