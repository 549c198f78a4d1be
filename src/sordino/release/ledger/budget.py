"""What all releases from a dataset may cost, what each does cost, and what is left."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NoReturn, Self

from sordino import checks
from sordino.accounting import gaussian
from sordino.accounting.compose import Part, Total, largest_gaussian, total
from sordino.errors import Refused
from sordino.privacy import MOST_ROWS_PER_PERSON, Relation, rounded
from sordino.proofs.proof import unit_of
from sordino.release.mechanism import SLACK, ReleaseRefused

BY_HAND = "recorded by hand"
"""Place of a release that was not made by sordino."""
_LARGEST_EPSILON = 1e6
"""Beyond this a release hides nothing that anybody could name."""
_USUAL = {"relation": Relation.REPLACE_ONE, "rows_per_person": 1, "as_you_go": False}


class LedgerError(Refused):
    """A ledger that cannot be used as asked; its text names the file and what to do."""


def refuse(
    path: Path, condition: str, hint: str, error: type[LedgerError] = LedgerError
) -> NoReturn:
    """Raise `error` in the house's sentence form."""
    checks.fail("ledger", path, condition, hint, error)


def dataset_name(name: str) -> str:
    """A dataset's name in one form, so that two that look alike are one budget."""
    good = isinstance(name, str) and name == name.strip() and name.isprintable()
    if not good or not 0 < len(name) <= 200:
        checks.fail("dataset", repr(name), "to be 1 to 200 printable characters, no blanks around")
    return unicodedata.normalize("NFC", name)


@dataclass(frozen=True)
class Charge(Part):
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

    Raises
    ------
    InvalidArgument
        If `profile` does not prove (epsilon, delta), or a value is out of its range.

    Examples
    --------
    >>> from sordino.accounting.profile import GaussianProfile
    >>> profile = GaussianProfile(parameter=0.1, relation=Relation.REPLACE_ONE, theorem="example")
    >>> Charge(profile, epsilon=0.5, delta=1e-6).rows_per_person
    1
    """

    rows_per_person: int = 1
    what: str = ""
    fingerprint: str | None = field(default=None, repr=False)
    salt: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon > _LARGEST_EPSILON and not math.isinf(self.epsilon):
            checks.fail("epsilon", self.epsilon, f"<= {_LARGEST_EPSILON:g}")
        if not self.profile.epsilon(self.delta) <= self.epsilon * (1 + SLACK):
            checks.fail("epsilon", self.epsilon, f"to be proved at delta={self.delta:g}")
        checks.whole("rows_per_person", self.rows_per_person, at_least=1)
        for name in ("fingerprint", "salt"):
            value = getattr(self, name)
            if value is not None and not re.fullmatch("[0-9a-f]+", str(value)):
                checks.fail(name, "[...]", "to be lower-case hexadecimal digits")


@dataclass(frozen=True)
class Line(Part):
    """One release as the ledger has it.

    `recorded` is the time in UTC; `epsilon` and `delta` are what was promised of this release
    alone; `fingerprint` is keyed with the file's secret, `salt` is the certificate's: neither
    belongs outside. `place` says where the model was written, or why the release failed.
    """

    id: str
    dataset: str
    recorded: str
    what: str
    fingerprint: str | None = field(repr=False)
    salt: str | None = field(repr=False)
    pid: int
    host: str
    status: str
    place: str

    @property
    def explanation(self) -> str:
        """What became of the release, and what that means, as a sentence."""
        if self.place == BY_HAND:
            return "Recorded by hand: made elsewhere."
        ended = f"Process {self.pid} on {self.host} ended, or is still at work"
        return {
            "written": f"The model was written ({self.place}).",
            "returned": "The model was handed out.",
            "failed": f"Failed after it was recorded ({self.place}); the budget stays spent.",
        }.get(self.status, f"{ended}; the model may have left, so the budget stays spent.")


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
        hint = "It is that of all releases together."
        rows = checks.whole("max_rows_per_person", self.rows_per_person, at_least=1)
        if rows > MOST_ROWS_PER_PERSON:
            checks.fail("max_rows_per_person", rows, f"<= {MOST_ROWS_PER_PERSON:,}")
        for name, value in (
            ("dataset", dataset_name(self.dataset)),
            ("epsilon", checks.positive("epsilon", self.epsilon, hint)),
            ("delta", checks.probability_below_one("delta", self.delta, hint)),
            ("rows_per_person", rows),
            ("as_you_go", checks.flag("as_you_go", self.as_you_go)),
        ):
            object.__setattr__(self, name, value)

    @property
    def unit(self) -> str:
        """Who is protected, in words."""
        return unit_of(self.rows_per_person)

    @property
    def words(self) -> str:
        """All of it in words; the history of a ledger keeps this text."""
        when = "costs may be chosen as you go" if self.as_you_go else "costs are fixed in advance"
        return (
            f"{self.dataset}: epsilon = {self.epsilon:g} at delta = {self.delta:g} for all "
            f"releases together, {self.relation.value}, unit: {self.unit}; {when}"
        )

    def check_same(self, path: Path, wanted: Budget, *, complete: bool) -> None:
        """Refuse where this budget of a file is not the one wanted.

        Unless `complete`, no numbers were given, and settings left at their usual values are not
        compared: the file's count.
        """
        for name in ("epsilon", "delta", *_USUAL) if complete else _USUAL:
            want, have = getattr(wanted, name), getattr(self, name)
            if want != have and (complete or want != _USUAL[name]):
                want, have = (v.value if isinstance(v, Relation) else v for v in (want, have))
                hint = "Leave the settings out, or correct it: sordino ledger amend."
                refuse(path, f"to have {name}={want} for {self.dataset!r}, not {have}", hint)

    def admit(self, lines: Sequence[Line], charge: Charge, enough: float | None = None) -> Total:
        """The total with this charge.

        Raises
        ------
        LedgerError
            If the charge is accounted for other neighbours.
        BudgetExceeded
            If the total is above the budget.
        """
        for name, has, needs in (
            ("relation", charge.profile.relation.value, self.relation.value),
            ("max_rows_per_person", charge.rows_per_person, self.rows_per_person),
        ):
            if has != needs:
                condition = f"to be {needs}, as the budget of {self.dataset!r} has it"
                checks.fail(name, has, condition, "Others do not add up.", LedgerError)
        if math.isinf(charge.epsilon):
            would_be = Total(math.inf, self.delta, "a release that promises nothing", True)
        else:
            would_be = total([*lines, charge], self.delta, as_you_go=self.as_you_go, enough=enough)
        if not would_be.epsilon <= self.epsilon * (1 + SLACK):
            raise BudgetExceeded(self, lines, charge, would_be)
        return would_be


@dataclass(frozen=True)
class Status:
    """A budget, what was spent of it and by which releases, and what is left in words.

    `largest_mu` is the largest Gaussian release (of sensitivity over noise mu) that still fits.
    """

    budget: Budget
    spent: Total
    entries: tuple[Line, ...]
    largest_mu: float

    @classmethod
    def of(cls, budget: Budget, lines: Sequence[Line], *more: Charge) -> Self:
        """What these releases spent, and what is left."""
        parts: list[Part] = [*lines, *more]
        spent = total(parts, budget.delta, as_you_go=budget.as_you_go)
        room = 0.0
        if budget.delta > 0:  # no Gaussian release fits a pure budget
            room = largest_gaussian(parts, budget.epsilon, budget.delta, as_you_go=budget.as_you_go)
        return cls(budget, spent, tuple(lines), room)

    def after(self, charge: Charge) -> Status:
        """As it would be if this charge were recorded too; the entries are as they were."""
        return Status.of(self.budget, self.entries, charge)

    @property
    def epsilon_left(self) -> float:
        """The budget's epsilon less the total's, both at the budget's delta."""
        return max(0.0, self.budget.epsilon - self.spent.epsilon)

    @property
    def largest_epsilon(self) -> float:
        """Epsilon, at the budget's delta, of the largest Gaussian release that still fits."""
        return gaussian.epsilon(self.largest_mu, self.budget.delta)

    @property
    def left(self) -> str:
        """What still fits, in words."""
        of = f"of {self.budget.epsilon:g} at delta={self.budget.delta:g}"
        words = f"epsilon {rounded(self.epsilon_left, up=False)} {of}"
        if self.largest_mu == 0:
            return f"{words}; no Gaussian release fits"
        largest, mu = (rounded(n, up=False) for n in (self.largest_epsilon, self.largest_mu))
        return f"{words}; for Gaussian noise up to epsilon={largest} (mu={mu})"


class BudgetExceeded(ReleaseRefused):
    """A release for which there is no room; nothing was recorded.

    Attributes
    ----------
    dataset, charge
        Whose budget, and what was to be released.
    spent, would_be
        The total so far, and what it would have become.
    left
        What still fits, in words. Computed when it is needed: other processes may wait.
    """

    def __init__(
        self, budget: Budget, lines: Sequence[Line], charge: Charge, would_be: Total
    ) -> None:
        super().__init__(budget, lines, charge, would_be)
        self.budget, self.dataset, self.charge = budget, budget.dataset, charge
        self.would_be, self._lines = would_be, lines

    @cached_property
    def _status(self) -> Status:
        return Status.of(self.budget, self._lines)

    @property
    def spent(self) -> Total:
        """The total so far."""
        return self._status.spent

    @property
    def left(self) -> str:
        """What still fits, in words."""
        return self._status.left

    def __str__(self) -> str:
        most = f"epsilon={self.budget.epsilon:g} at delta={self.budget.delta:g}"
        cost = f"{rounded(self.would_be.epsilon)} ({self.would_be.rule})"
        expected = f"Expected the releases from {self.dataset!r} to cost at most {most}, not {cost}"
        return f"{expected}. Nothing was recorded. Left: {self.left}."
