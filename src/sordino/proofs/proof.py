"""`Proof`: what holds of a training or a release, before it is asked at one delta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sordino import checks
from sordino.accounting.profile import Profile
from sordino.privacy import Guarantee


@dataclass(frozen=True)
class Proof:
    """What was proved of a training or a release, before it is asked at one delta.

    Parameters
    ----------
    profile
        Everything an attacker can gain, with its relation and its theorem.
    sampling
        How batches were drawn, as the theorem assumes it.
    assumes
        What the theorem rests on beside what was checked.
    released
        "final" if only the last weights leave the building, "all" if every iterate may.
    unit
        Who is protected; `profile` must already be the one of this unit.
    not_covered
        What was read off the data beside the training.
    rests_on
        The theorem's name in the table of `theorems.py`.
    """

    profile: Profile
    sampling: str
    assumes: tuple[str, ...]
    released: Literal["final", "all"] = "final"
    unit: str = "one record"
    not_covered: tuple[str, ...] = ()
    rests_on: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.profile, Profile):
            checks.fail("profile", type(self.profile).__name__, "to be a Profile")
        if isinstance(self.assumes, str):  # tuple("abc") would be three assumptions
            checks.fail("assumes", self.assumes, "to be a tuple of sentences")
        object.__setattr__(self, "assumes", tuple(self.assumes))
        checks.one_of("released", self.released, ("final", "all"))

    def guarantee(self, delta: float) -> Guarantee:
        """The least epsilon proved at `delta`, as a `Guarantee`; infinite if there is none."""
        return Guarantee(
            epsilon=self.profile.epsilon(delta),
            delta=delta,
            relation=self.profile.relation,
            sampling=self.sampling,
            unit=self.unit,
            theorem=self.profile.theorem,
            assumes=self.assumes,
            released=self.released,
            not_covered=self.not_covered,
        )


def unit_of(rows_per_person: int) -> str:
    """Who is protected, in words."""
    return "one record" if rows_per_person == 1 else f"{rows_per_person} records of one person"
