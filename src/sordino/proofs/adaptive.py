"""A budget spent as one goes: how large it is, and what spending at most that proves."""

from __future__ import annotations

from sordino import _check
from sordino.accounting import calibrate, concentrated
from sordino.accounting.group import group
from sordino.accounting.profile import Profile
from sordino.privacy import Relation, Sampling
from sordino.proofs.proof import Proof, unit_of


def concentrated_budget(
    epsilon: float, delta: float, relation: Relation, *, rows_per_person: int = 1
) -> float:
    """The largest rho whose zero-concentrated DP proves (epsilon, delta), rounded down."""
    if _check.whole("rows_per_person", rows_per_person, at_least=1) == 1:
        return concentrated.rho(epsilon, delta)

    def profile_at(noise: float) -> Profile:
        return _profile(1 / noise, relation, rows_per_person)

    return (1 / calibrate.least_noise(profile_at, epsilon, delta)) * (1 - 1e-12)


def prove_adaptive(rho: float, relation: Relation, *, rows_per_person: int = 1) -> Proof:
    """What a training proves that asked a filter of `rho` before every look at the records."""
    assumes = (
        "every look at the records asked the budget first, and its noise was as it was charged",
        "steps, directions and shares follow from what was released before, or are public",
        "all settings chosen without looking at these data",
        "rounding inside the training is not counted; its arithmetic is float64",
    )
    return Proof(
        profile=_profile(rho, relation, rows_per_person),
        sampling=Sampling.FULL,
        assumes=assumes,
        released="all",
        unit=unit_of(rows_per_person),
    )


def _profile(rho: float, relation: Relation, rows_per_person: int) -> Profile:
    theorem = (
        "a filter for zero-concentrated DP over adaptively chosen Gaussian and exponential "
        "mechanisms (Feldman & Zrnic 2021; Bun & Steinke 2016)"
    )
    profile = concentrated.ConcentratedProfile(rho=rho, relation=relation, theorem=theorem)
    return group(profile, rows_per_person)
