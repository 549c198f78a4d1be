"""`Status`: a budget, what was spent of it, and what is left in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sordino.accounting import gaussian
from sordino.accounting.total import Part, Total, largest_gaussian, total
from sordino.mechanisms.ledger_rows import Line
from sordino.mechanisms.ledger_terms import Budget, Charge
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
