"""`Claim`: what somebody says of a mechanism, and an audit tries to refute."""

from __future__ import annotations

from dataclasses import dataclass

from sordino import checks
from sordino.accounting.profile import ApproximateProfile, Profile
from sordino.privacy import Guarantee, Relation


@dataclass(frozen=True)
class Claim:
    """(epsilon, delta) for one relation, and the whole trade-off curve where it is claimed too.

    Parameters
    ----------
    epsilon, delta
        What is claimed. `epsilon` may be infinite: nothing is.
    relation
        For which neighbouring datasets.
    profile
        The claimed curve, for the band and for plots; None if only the two numbers are claimed.
    source
        Who claims it, or by which theorem.
    """

    epsilon: float
    delta: float
    relation: Relation
    profile: Profile | None = None
    source: str = ""

    def __post_init__(self) -> None:
        checks.non_negative("epsilon", self.epsilon, allow_infinite=True)
        checks.probability_below_one("delta", self.delta)
        if not isinstance(self.relation, Relation):
            checks.fail("relation", self.relation, "to be a Relation")

    @classmethod
    def of(cls, guarantee: Guarantee, profile: Profile | None = None) -> Claim:
        """What a guarantee promises."""
        promised = (guarantee.epsilon, guarantee.delta, guarantee.relation)
        return cls(*promised, profile=profile, source=guarantee.theorem)

    @property
    def allowed(self) -> Profile:
        """The claimed curve; of two numbers, the one that they imply."""
        if self.profile is not None:
            return self.profile
        return ApproximateProfile(
            relation=self.relation, theorem="as claimed", budget=(self.epsilon, self.delta)
        )
