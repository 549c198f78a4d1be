"""A budget spent as one goes: how large it is, and what spending at most that proves."""

from __future__ import annotations

from dataclasses import dataclass

from sordino import checks
from sordino.accounting import calibrate, zcdp
from sordino.accounting.compose import group
from sordino.accounting.zcdp import ConcentratedProfile
from sordino.privacy import Relation, Sampling
from sordino.proofs.proof import Evidence, Proof, unit_of


@dataclass(frozen=True, kw_only=True)
class AdaptiveEvidence(Evidence):
    """A descent that asked a filter of `rho` (zero-concentrated DP) before every look."""

    kind = "adaptive"
    _positive = ("rho", "clip")

    rho: float
    clip: float

    def profile(self) -> ConcentratedProfile:
        """What spending at most that tells."""
        return _profile(self.rho, self.relation, self.rows_per_person)

    def proof(self) -> Proof:
        """What such a training proves."""
        assumes = (
            "every look at the records asked the budget first, and its noise was as it was charged",
            "steps, directions and shares follow from what was released before, or are public",
            "all settings chosen without looking at these data",
            "rounding inside the training is not counted; its arithmetic is float64",
            *self.about_persons,
        )
        profile, unit = self.profile(), unit_of(self.rows_per_person)
        return Proof(profile, Sampling.FULL, assumes, "all", unit, rests_on="zcdp-filter")

    def facts(self) -> dict[str, str]:
        """Schedule, sensitivity and noise."""
        return {
            "schedule": f"steps chosen as it went, within a budget of rho = {self.rho:.6g}",
            "sensitivity": f"gradients are clipped to {self.clip:.6g}",
            "noise": "Gaussian on sums of gradients, Gumbel on choices, each as it was charged",
        }


def _profile(rho: float, relation: Relation, rows_per_person: int) -> ConcentratedProfile:
    over = "adaptively chosen Gaussian and exponential mechanisms"
    by = "(Feldman & Zrnic 2021; Bun & Steinke 2016)"
    theorem = f"a filter for zero-concentrated DP over {over} {by}"
    one = ConcentratedProfile(rho=rho, relation=relation, theorem=theorem)
    found = group(one, rows_per_person)
    assert isinstance(found, ConcentratedProfile)
    return found


def concentrated_budget(
    epsilon: float, delta: float, relation: Relation, *, rows_per_person: int = 1
) -> float:
    """The largest rho whose zero-concentrated DP proves (epsilon, delta), rounded down."""
    if checks.whole("rows_per_person", rows_per_person, at_least=1) == 1:
        return zcdp.rho(epsilon, delta)
    noise = calibrate.least_noise(
        lambda noise: _profile(1 / noise, relation, rows_per_person), epsilon, delta
    )
    return (1 / noise) * (1 - 1e-12)
