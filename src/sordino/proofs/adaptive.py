"""A budget spent as one goes: how large it is, and what spending at most that proves."""

from __future__ import annotations

from dataclasses import dataclass

from sordino import checks
from sordino.accounting import calibrate, zcdp
from sordino.accounting.group import group
from sordino.accounting.zcdp import ConcentratedProfile
from sordino.privacy import Relation, Sampling
from sordino.proofs.proof import Proof, unit_of


@dataclass(frozen=True)
class AdaptiveBudget:
    """A filter of `rho` (zero-concentrated DP) that was asked before every look at the records."""

    rho: float
    relation: Relation
    rows_per_person: int = 1

    def profile(self) -> ConcentratedProfile:
        """What spending at most that tells."""
        theorem = (
            "a filter for zero-concentrated DP over adaptively chosen Gaussian and exponential "
            "mechanisms (Feldman & Zrnic 2021; Bun & Steinke 2016)"
        )
        one = ConcentratedProfile(rho=self.rho, relation=self.relation, theorem=theorem)
        found = group(one, self.rows_per_person)
        assert isinstance(found, ConcentratedProfile)
        return found

    def proof(self) -> Proof:
        """What such a training proves."""
        assumes = (
            "every look at the records asked the budget first, and its noise was as it was charged",
            "steps, directions and shares follow from what was released before, or are public",
            "all settings chosen without looking at these data",
            "rounding inside the training is not counted; its arithmetic is float64",
        )
        return Proof(
            profile=self.profile(),
            sampling=Sampling.FULL,
            assumes=assumes,
            released="all",
            unit=unit_of(self.rows_per_person),
            rests_on="zcdp-filter",
        )


def concentrated_budget(
    epsilon: float, delta: float, relation: Relation, *, rows_per_person: int = 1
) -> float:
    """The largest rho whose zero-concentrated DP proves (epsilon, delta), rounded down."""
    if checks.whole("rows_per_person", rows_per_person, at_least=1) == 1:
        return zcdp.rho(epsilon, delta)

    def profile_at(noise: float) -> ConcentratedProfile:
        return AdaptiveBudget(1 / noise, relation, rows_per_person).profile()

    return (1 / calibrate.least_noise(profile_at, epsilon, delta)) * (1 - 1e-12)
