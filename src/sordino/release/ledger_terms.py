"""`Budget` and `Charge`: what all releases may cost, and what one does."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from sordino import checks
from sordino.accounting.compose import Part
from sordino.accounting.profile import Profile
from sordino.privacy import Relation
from sordino.proofs.evidence import MOST_ROWS_PER_PERSON
from sordino.proofs.proof import unit_of
from sordino.release.ledger_file import LedgerError, refuse
from sordino.release.mechanism import SLACK

LARGEST_EPSILON = 1e6
"""Beyond this a release hides nothing that anybody could name."""


@dataclass(frozen=True)
class Budget:
    """What all releases from one dataset together may cost.

    Parameters
    ----------
    dataset
        The user's name for the data. It stays the same when rows come or go.
    epsilon, delta
        The bound on the total.
    relation, rows_per_person
        For which neighbours, and for how many rows of one person, every release is accounted.
    as_you_go
        Whether the cost of a release may be chosen after looking at earlier ones.
    """

    dataset: str
    epsilon: float
    delta: float
    relation: Relation
    rows_per_person: int
    as_you_go: bool

    def __post_init__(self) -> None:
        hint = "Pass the budget of all releases together, such as 2.0."
        object.__setattr__(self, "dataset", dataset_name(self.dataset))
        object.__setattr__(self, "epsilon", checks.positive("epsilon", self.epsilon, hint))
        hint = "Pass a small chance for all releases together, such as 1e-6."
        delta = checks.probability_below_one("delta", self.delta, hint)
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "relation", relation_of(self.relation))
        hint = "Pass the most rows one person has in the data."
        rows = checks.whole("max_rows_per_person", self.rows_per_person, hint, at_least=1)
        if rows > MOST_ROWS_PER_PERSON:
            checks.fail("max_rows_per_person", rows, f"<= {MOST_ROWS_PER_PERSON:,}", hint)
        object.__setattr__(self, "rows_per_person", rows)
        object.__setattr__(self, "as_you_go", checks.flag("as_you_go", self.as_you_go))

    @property
    def unit(self) -> str:
        """Who is protected, in words."""
        return unit_of(self.rows_per_person)

    @property
    def words(self) -> str:
        """All of it in words."""
        when = "costs may be chosen as you go" if self.as_you_go else "costs are fixed in advance"
        return (
            f"{self.dataset}: epsilon = {self.epsilon:g} at delta = {self.delta:g} for all "
            f"releases together, {self.relation.value}, unit: {self.unit}; {when}"
        )


@dataclass(frozen=True)
class Charge:
    """What one release costs.

    Parameters
    ----------
    profile
        Everything an attacker can gain from it.
    epsilon, delta
        What was promised of it alone, and `profile` proves.
    rows_per_person
        For how many rows of one person `profile` holds.
    what
        What is released, for people to read.
    fingerprint
        A digest of the data's content, in hexadecimal. It is kept keyed, and only inside.
    salt
        The secret salt of the certificate's fingerprint, in hexadecimal; kept with the entry.
    """

    profile: Profile
    epsilon: float
    delta: float
    rows_per_person: int = 1
    what: str = ""
    fingerprint: str | None = field(default=None, repr=False)
    salt: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.profile, Profile):
            checks.fail("profile", type(self.profile).__name__, "to be a Profile")
        checks.non_negative("epsilon", self.epsilon, allow_infinite=True)
        checks.probability_below_one("delta", self.delta)
        if self.epsilon > LARGEST_EPSILON and not math.isinf(self.epsilon):
            checks.fail("epsilon", self.epsilon, f"<= {LARGEST_EPSILON:g}", "That hides nothing.")
        if not self.profile.epsilon(self.delta) <= self.epsilon * (1 + SLACK):
            hint = "The ledger adds up promises too, so each must hold."
            checks.fail("epsilon", self.epsilon, f"to be proved at delta={self.delta:g}", hint)
        checks.whole("rows_per_person", self.rows_per_person, at_least=1)
        for name in ("fingerprint", "salt"):
            value = getattr(self, name)
            if value is not None and not re.fullmatch("[0-9a-f]+", str(value)):
                checks.fail(name, "[...]", "to be lower-case hexadecimal digits")

    @property
    def part(self) -> Part:
        """What it costs, for the total."""
        return Part(self.profile, self.epsilon, self.delta)


def check_same(path: Path, asked: Budget, found: Budget, *, complete: bool) -> None:
    """Refuse a budget that is asked for with other settings than it has.

    Unless `complete`, the asker gave no numbers, and settings left at their usual values are not
    asked for: the file's count.
    """
    usual = {"relation": Relation.REPLACE_ONE, "rows_per_person": 1, "as_you_go": False}
    for name in ("epsilon", "delta", *usual) if complete else usual:
        want, have = getattr(asked, name), getattr(found, name)
        if want != have and (complete or want != usual[name]):
            want, have = (v.value if isinstance(v, Relation) else v for v in (want, have))
            if name == "rows_per_person" and want > have:
                hint = (
                    "A budget for fewer promises too little to such a person. Correct it (sordino "
                    "ledger amend), or if something was recorded, open one for that many under "
                    "another name and record there what was released before (ledger spend)."
                )
                refuse(path, f"to be for {want} rows a person in {asked.dataset!r}", hint)
            hint = (
                "Leave the settings out to use those on file; a budget that nothing was recorded "
                "under can be corrected: sordino ledger amend."
            )
            condition = f"to have {name}={want} for {asked.dataset!r}, and it has {have}"
            refuse(path, condition, hint)


def check_unit(budget: Budget, charge: Charge) -> None:
    """Refuse a charge that is accounted for other neighbours than the budget."""
    name, relation = budget.dataset, charge.profile.relation
    if relation is not budget.relation:
        raise LedgerError(
            f"Expected relation={relation.value} to be {budget.relation.value}, for which the "
            f"budget of {name!r} is. Account for this release by {budget.relation.value}: "
            "guarantees for different relations do not add up."
        )
    if charge.rows_per_person != budget.rows_per_person:
        raise LedgerError(
            f"Expected the release to protect {unit_of(budget.rows_per_person)}, as the budget of "
            f"{name!r} does, not {unit_of(charge.rows_per_person)}. Account for it with "
            f"max_rows_per_person={budget.rows_per_person}."
        )


def dataset_name(name: str) -> str:
    """A dataset's name in one form, so that two that look alike are one budget."""
    hint = "Pass your name for the data, such as 'patients-2026'."
    if not isinstance(name, str) or not name.strip():
        checks.fail("dataset", repr(name), "to be a name", hint)
    if name != name.strip() or not name.isprintable() or len(name) > 200:
        condition = "to be at most 200 printable characters without blanks around them"
        checks.fail("dataset", repr(name), condition, hint)
    return unicodedata.normalize("NFC", name)


def relation_of(relation: Relation | str) -> Relation:
    """A relation from itself or its name."""
    if isinstance(relation, Relation):
        return relation
    names = [each.value for each in Relation]
    return Relation(checks.one_of("relation", relation, names))
