"""Composition of profiles by the tightest rule that fits them all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sordino import _check
from sordino.accounting import renyi
from sordino.accounting.gaussian import least
from sordino.accounting.loss import Direction, GaussianLoss, Loss
from sordino.accounting.profile import (
    GaussianProfile,
    LossProfile,
    Profile,
    RenyiProfile,
)


def compose(profiles: Sequence[Profile]) -> Profile:
    """The profile of all these releases together, adaptively chosen ones included.

    Exact Gaussian DP if all are Gaussian; else privacy loss distributions where all have one;
    else Renyi DP; else basic (epsilon, delta) composition. The theorem says which rule was used.

    Raises
    ------
    InvalidArgument
        If there is none, or two have different relations: their guarantees do not add up.
    """
    profiles = list(_check.sequence("profiles", profiles, "Pass a list of profiles."))
    if not profiles:
        _check.fail("profiles", "[]", "to hold at least one profile")
    relations = {profile.relation for profile in profiles}
    if len(relations) > 1:
        named = " and ".join(sorted(relation.value for relation in relations))
        hint = "A guarantee for one relation says nothing about another; account all for one."
        _check.fail("relations", named, "to be one and the same", hint)
    if len(profiles) == 1:
        return profiles[0]
    hopeless = [profile for profile in profiles if profile.mu == math.inf]
    if hopeless:  # one release that hides nothing is enough
        return hopeless[0].noted("composed with others, which cannot help")
    for rule in (_by_gaussian, _by_losses, _by_renyi):
        composed = rule(profiles)
        if composed is not None:
            return composed
    return _by_budget(profiles)


def times(profile: Profile, count: int) -> Profile:
    """`count` releases like this one; equal to `compose` of a list of them."""
    count = _check.whole("count", count)
    if count == 0:
        return GaussianProfile(parameter=0.0, relation=profile.relation, theorem="no release")
    if profile.mu is not None and count > 1:
        return _gaussian(profile, [profile.mu] * 1, math.sqrt(count), count)
    if profile.losses is not None and count > 1:
        merged = tuple((loss, count * many) for loss, many in profile.losses)
        return _losses([profile], merged, count)
    return compose([profile] * count)


def _described(profiles: Sequence[Profile], rule: str, count: int) -> dict[str, object]:
    theorems = list(dict.fromkeys(profile.theorem for profile in profiles))
    shown = "; ".join(theorems[:3]) + ("; ..." if len(theorems) > 3 else "")
    notes = tuple(dict.fromkeys(note for profile in profiles for note in profile.notes))
    return {
        "relation": profiles[0].relation,
        "theorem": f"composition of {count} releases by {rule}, of: {shown}",
        "notes": (*notes, f"composed by {rule}"),
    }


def _gaussian(profile: Profile, mus: list[float], factor: float, count: int) -> Profile:
    mu = factor * math.sqrt(math.fsum(value * value for value in mus))
    described = _described([profile], "Gaussian DP", count)
    return GaussianProfile(parameter=mu, **described)  # type: ignore[arg-type]


def _by_gaussian(profiles: list[Profile]) -> Profile | None:
    mus = [profile.mu for profile in profiles]
    if any(mu is None for mu in mus):
        return None
    mu = math.sqrt(math.fsum(value * value for value in mus if value is not None))
    described = _described(profiles, "Gaussian DP", len(profiles))
    return GaussianProfile(parameter=mu, **described)  # type: ignore[arg-type]


def _by_losses(profiles: list[Profile]) -> Profile | None:
    merged: dict[Loss, int] = {}
    for profile in profiles:
        if profile.losses is None:
            return None
        for loss, count in profile.losses:
            merged[loss] = merged.get(loss, 0) + count
    return _losses(profiles, tuple(merged.items()), len(profiles))


def _losses(
    profiles: list[Profile], components: tuple[tuple[Loss, int], ...], count: int
) -> Profile:
    # Gaussians among other laws are one Gaussian: fewer grids to convolve.
    single = [(loss, many) for loss, many in components if _is_gaussian(loss)]
    rest = [(loss, many) for loss, many in components if not _is_gaussian(loss)]
    total = math.fsum(many * loss.mus[0] ** 2 for loss, many in single)  # type: ignore[attr-defined]
    if total > 0:
        rest.append((GaussianLoss((math.sqrt(total),)), 1))
    described = _described(profiles, "privacy loss distributions", count)
    return LossProfile(components=tuple(rest), **described)  # type: ignore[arg-type]


def _is_gaussian(loss: Loss) -> bool:
    return isinstance(loss, GaussianLoss) and len(loss.mus) == 1


def _by_renyi(profiles: list[Profile]) -> Profile | None:
    total = np.zeros(len(renyi.ORDERS))
    for profile in profiles:
        values = profile.renyi(renyi.ORDERS)
        if values is None:
            return None
        total = total + values
    described = _described(profiles, "Renyi DP", len(profiles))
    curve = {"orders": tuple(renyi.ORDERS), "values": tuple(total)}
    return RenyiProfile(**curve, **described)  # type: ignore[arg-type]


def _by_budget(profiles: list[Profile]) -> Profile:
    described = _described(profiles, "(epsilon, delta) composition", len(profiles))
    return SummedProfile(parts=tuple(profiles), **described)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class SummedProfile(Profile):
    """Basic composition: epsilons add up, each release spending an equal part of delta."""

    parts: tuple[Profile, ...]

    def _epsilon_one_way(self, log_delta: float, direction: Direction) -> float:
        share = math.exp(log_delta) / len(self.parts)
        return math.fsum(part.epsilon(share) for part in self.parts)

    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        def holds(log_delta: float) -> bool:
            return self._epsilon_one_way(log_delta, direction) <= epsilon

        if holds(-745.0):
            return -745.0
        if not holds(-1e-12):
            return 0.0
        # `least` is relative to its value, so it searches what is added to the bottom.
        return -745.0 + least(lambda rise: holds(rise - 745.0), 0.0, 745.0 - 1e-12)
