"""`Status`: a budget, what was spent of it, what is left in words, and whether a charge fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sordino.accounting import gaussian
from sordino.accounting.total import Part, Total, largest_gaussian, total
from sordino.mechanisms.ledger_rows import Line
from sordino.mechanisms.ledger_terms import Budget, Charge, check_unit
from sordino.mechanisms.release import SLACK, ReleaseRefused
from sordino.privacy import rounded


@dataclass(frozen=True)
class Status:
    """A budget, what was spent of it and by which releases, and what is left in words.

    `largest_mu` is the largest Gaussian release (of sensitivity over noise mu) that still fits.
    """

    budget: Budget
    spent: Total
    entries: tuple[Line, ...]
    largest_mu: float

    def after(self, charge: Charge) -> Status:
        """As it would be if this charge were recorded too; the entries are as they were."""
        parts = [*(line.part for line in self.entries), charge.part]
        return status_of(self.budget, self.entries, parts)

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
        budget, delta = self.budget, f"{self.budget.delta:g}"
        words = (
            f"epsilon {rounded(self.epsilon_left, up=False)} of {budget.epsilon:g} at "
            f"delta={delta}, if a release is known by its epsilon alone"
        )
        if budget.delta == 0:
            return f"{words}; no Gaussian release fits a budget of delta=0"
        if self.largest_mu == 0:
            return f"{words}; no Gaussian release fits any more"
        return (
            f"{words}; one whose noise is Gaussian (noisy-gd, output-gd) may have up to "
            f"epsilon={rounded(self.largest_epsilon, up=False)} at delta={delta} "
            f"(mu={rounded(self.largest_mu, up=False)})"
        )


def status_of(budget: Budget, lines: Sequence[Line], parts: Sequence[Part] | None = None) -> Status:
    """What these releases spent, and what is left."""
    parts = [line.part for line in lines] if parts is None else parts
    spent = total(parts, budget.delta, as_you_go=budget.as_you_go)
    room = 0.0
    if budget.delta > 0:  # no Gaussian release fits a pure budget
        room = largest_gaussian(parts, budget.epsilon, budget.delta, as_you_go=budget.as_you_go)
    return Status(budget, spent, tuple(lines), room)


class BudgetExceeded(ReleaseRefused):
    """A release for which there is no room; nothing was recorded.

    Attributes
    ----------
    dataset, asked
        Whose budget, and the charge.
    spent, would_be
        The total so far, and what it would have become.
    left
        What still fits, in words.
    """

    dataset: str
    asked: Charge
    spent: Total
    would_be: Total
    left: str


class NoRoom(Exception):
    """A charge that does not fit; what is left is not computed yet."""

    def __init__(self, budget: Budget, lines: list[Line], charge: Charge, would_be: Total) -> None:
        self.budget, self.lines, self.charge, self.would_be = budget, lines, charge, would_be

    def explained(self) -> BudgetExceeded:
        """The same for whoever asked, with what is left."""
        budget, would_be = self.budget, self.would_be
        status = status_of(budget, self.lines)
        error = BudgetExceeded(
            f"Expected the releases from {budget.dataset!r} to cost at most "
            f"epsilon={budget.epsilon:g} at delta={budget.delta:g}, and with this one it would be "
            f"{rounded(would_be.epsilon)} ({would_be.rule}). Nothing was recorded. "
            f"Left: {status.left}."
        )
        error.dataset, error.asked, error.spent = budget.dataset, self.charge, status.spent
        error.would_be, error.left = would_be, status.left
        return error


def admit(budget: Budget, lines: list[Line], charge: Charge, enough: float | None = None) -> Total:
    """The total with this charge, if the budget allows it; else `NoRoom`."""
    check_unit(budget, charge)
    if math.isinf(charge.epsilon):
        would_be = Total(math.inf, budget.delta, "a release that promises nothing", True)
    else:
        parts = [*(line.part for line in lines), charge.part]
        would_be = total(parts, budget.delta, as_you_go=budget.as_you_go, enough=enough)
    if not would_be.epsilon <= budget.epsilon * (1 + SLACK):
        raise NoRoom(budget, lines, charge, would_be)
    return would_be
