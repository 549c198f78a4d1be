"""Composition of profiles by the tightest rule that fits them all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sordino import checks
from sordino.accounting import renyi
from sordino.accounting.convolution import Limit
from sordino.accounting.gaussian import least
from sordino.accounting.loss import Direction, GaussianLoss, Loss
from sordino.accounting.profile import (
    GaussianProfile,
    LossProfile,
    Profile,
    RenyiProfile,
)

Counted = Sequence[tuple[Profile, int]]


def compose(profiles: Sequence[Profile]) -> Profile:
    """The profile of all these releases together, adaptively chosen ones included.

    Exact Gaussian DP if all are Gaussian; else privacy loss distributions where all have one;
    else Renyi DP; else basic (epsilon, delta) composition. The theorem says which rule was used.

    Raises
    ------
    InvalidArgument
        If there is none, or two have different relations: their guarantees do not add up.
    """
    profiles = list(checks.sequence("profiles", profiles, "Pass a list of profiles."))
    if not profiles:
        checks.fail("profiles", "[]", "to hold at least one profile")
    relations = {profile.relation for profile in profiles}
    if len(relations) > 1:
        named = " and ".join(sorted(relation.value for relation in relations))
        hint = "A guarantee for one relation says nothing about another; account all for one."
        checks.fail("relations", named, "to be one and the same", hint)
    if len(profiles) == 1:
        return profiles[0]
    return _composed([(profile, 1) for profile in profiles])


def times(profile: Profile, count: int) -> Profile:
    """`count` releases like this one; equal to `compose` of a list of them."""
    count = checks.whole("count", count)
    if count == 0:
        return GaussianProfile(parameter=0.0, relation=profile.relation, theorem="no release")
    return profile if count == 1 else _composed([(profile, count)])


def _composed(counted: Counted) -> Profile:
    hopeless = [profile for profile, _ in counted if profile.mu == math.inf]
    if hopeless:  # one release that hides nothing is enough
        return hopeless[0].noted("composed with others, which cannot help")
    for rule in (_by_gaussian, _by_losses, _by_renyi):
        composed = rule(counted)
        if composed is not None:
            return composed
    return _by_budget(counted)


def _described(counted: Counted, rule: str) -> dict[str, object]:
    theorems = list(dict.fromkeys(profile.theorem for profile, _ in counted))
    shown = "; ".join(theorems[:3]) + ("; ..." if len(theorems) > 3 else "")
    notes = tuple(dict.fromkeys(note for profile, _ in counted for note in profile.notes))
    releases = sum(count for _, count in counted)
    return {
        "relation": counted[0][0].relation,
        "theorem": f"composition of {releases} releases by {rule}, of: {shown}",
        "notes": (*notes, f"composed by {rule}"),
    }


def _by_gaussian(counted: Counted) -> Profile | None:
    squares = []
    for profile, count in counted:
        if profile.mu is None:
            return None
        squares.append(count * (profile.mu * profile.mu))
    described = _described(counted, "Gaussian DP")
    return GaussianProfile(parameter=math.sqrt(math.fsum(squares)), **described)  # type: ignore[arg-type]


def _by_losses(counted: Counted) -> Profile | None:
    merged: dict[Loss, int] = {}
    for profile, count in counted:
        if profile.losses is None:
            return None
        for loss, many in profile.losses:
            merged[loss] = merged.get(loss, 0) + count * many
    # Gaussians among other laws are one Gaussian: fewer grids to convolve.
    single = [(loss, many) for loss, many in merged.items() if _is_gaussian(loss)]
    rest = [(loss, many) for loss, many in merged.items() if not _is_gaussian(loss)]
    total = math.fsum(many * loss.mus[0] ** 2 for loss, many in single)  # type: ignore[attr-defined]
    if total > 0:
        rest.append((GaussianLoss((math.sqrt(total),)), 1))
    limits = [profile.limit for profile, _ in counted if isinstance(profile, LossProfile)]
    limit = min(limits, key=lambda limit: limit.points, default=Limit())
    described = _described(counted, "privacy loss distributions")
    return LossProfile(components=tuple(rest), limit=limit, **described)  # type: ignore[arg-type]


def _is_gaussian(loss: Loss) -> bool:
    return isinstance(loss, GaussianLoss) and len(loss.mus) == 1


def _by_renyi(counted: Counted) -> Profile | None:
    total = np.zeros(len(renyi.ORDERS))
    for profile, count in counted:
        values = profile.renyi(renyi.ORDERS)
        if values is None:
            return None
        total = total + count * values
    described = _described(counted, "Renyi DP")
    curve = {"orders": tuple(renyi.ORDERS), "values": tuple(total)}
    return RenyiProfile(**curve, **described)  # type: ignore[arg-type]


def _by_budget(counted: Counted) -> Profile:
    described = _described(counted, "(epsilon, delta) composition")
    return SummedProfile(parts=tuple(counted), **described)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class SummedProfile(Profile):
    """Basic composition: epsilons add up, each release spending an equal part of delta."""

    parts: tuple[tuple[Profile, int], ...]

    def _epsilon_one_way(self, log_delta: float, direction: Direction) -> float:
        share = math.exp(log_delta) / sum(count for _, count in self.parts)
        return math.fsum(count * part.epsilon(share) for part, count in self.parts)

    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        def holds(log_delta: float) -> bool:
            return self._epsilon_one_way(log_delta, direction) <= epsilon

        if holds(-745.0):
            return -745.0
        if not holds(-1e-12):
            return 0.0
        # `least` is relative to its value, so it searches what is added to the bottom.
        return -745.0 + least(lambda rise: holds(rise - 745.0), 0.0, 745.0 - 1e-12)
