"""Group privacy: what a release tells of a person who has several records in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino import checks
from sordino.accounting.pld.loss import Direction
from sordino.accounting.profile import GaussianProfile, Profile
from sordino.accounting.zcdp import ConcentratedProfile
from sordino.types import Floats

_TRIED = 96
"""Epsilons looked at for the least delta, where the bound rises with epsilon."""


def group(profile: Profile, size: int) -> Profile:
    """The profile for all `size` records of one person together; also for fewer.

    Gaussian DP: size times mu, exactly (Dong, Roth & Su 2022, Theorem 2.14). zCDP: size^2 times rho
    and size (1 + 1/2 + ... + 1/size) times xi (Bun & Steinke 2016, Proposition 27). Otherwise
    delta_k(epsilon) = sum over j < k of e^(j epsilon / k) delta(epsilon / k): both epsilon and
    delta grow (Vadhan 2017, Lemma 2.2).

    Parameters
    ----------
    profile
        Of the whole release for one record: compose first, then ask for the group.
    size
        The most records any person has: bounded by how the data were made, not read off them.
    """
    size = checks.whole("size", size, "Pass the most records of any person.", at_least=1)
    if size == 1:
        return profile
    notes = (*profile.notes, f"for {size} records of one person")
    about: dict[str, Any] = {"relation": profile.relation, "notes": notes}
    if profile.mu is not None:
        theorem = f"Gaussian DP of {size} records (Dong, Roth & Su 2022), of: {profile.theorem}"
        return GaussianProfile(parameter=size * profile.mu, theorem=theorem, **about)
    if isinstance(profile, ConcentratedProfile):
        theorem = f"zCDP of {size} records (Bun & Steinke 2016), of: {profile.theorem}"
        # The factor of xi, k (1 + 1/2 + ... + 1/k), rounded up: h_k = h_(k-1) k / (k - 1) + 1.
        harmonic = size * math.fsum(1 / j for j in range(1, size + 1)) * (1 + 1e-14)
        rho, xi = size**2 * profile.rho, harmonic * profile.xi
        return ConcentratedProfile(rho=rho, xi=xi, theorem=theorem, **about)
    theorem = f"group privacy for {size} records (Vadhan 2017), of: {profile.theorem}"
    return GroupProfile(one=profile, size=size, theorem=theorem, **about)


@dataclass(frozen=True, kw_only=True)
class GroupProfile(Profile):
    """A chain of `size` neighbours: each step costs epsilon / size, and deltas pile up.

    All records of the person come or go together, so every step has the direction asked for.
    """

    one: Profile
    size: int

    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        here = self._chain(epsilon, direction)
        if epsilon == 0 or here == -math.inf or self._chain(0.999 * epsilon, direction) > here:
            return here
        # The sum rises with epsilon here, but a delta proved for less holds for more.
        points, values = self._known(direction)
        return min(here, float(values[points <= epsilon].min()))

    def _known(self, direction: Direction) -> tuple[Floats, Floats]:
        """The sum on a ladder of epsilons, and where it is least; kept once known."""
        known: dict[str, tuple[Floats, Floats]] = self.__dict__.setdefault("_ladders", {})
        if direction not in known:
            points = np.concatenate([[0.0], self.size * np.geomspace(1e-3, 1e3, _TRIED)])
            values = [self._chain(float(point), direction) for point in points]
            best = int(np.argmin(values))
            low, high = points[max(best - 1, 0)], points[min(best + 1, _TRIED)]
            low, high = float(low), float(high)
            for _ in range(70):  # by thirds: each is a proof
                third = (high - low) / 3
                left, right = (self._chain(low + step, direction) for step in (third, 2 * third))
                low, high = (low, high - third) if left <= right else (low + third, high)
            least = self._chain(high, direction)
            known[direction] = np.append(points, high), np.append(values, least)
        return known[direction]

    def _chain(self, epsilon: float, direction: Direction) -> float:
        """Ln of sum e^(j epsilon / k) delta(epsilon / k), at most 0."""
        share = epsilon / self.size
        one = self.one.log_delta_one_way(share, direction)
        if one == -math.inf or one == 0:
            return one
        if math.isinf(share):
            return 0.0
        steps = share * np.arange(self.size)
        return min(0.0, one + float(np.logaddexp.reduce(steps)))
