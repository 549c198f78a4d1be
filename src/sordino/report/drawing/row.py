"""What stands on one row of the axis, and how it is said."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from sordino.privacy import Estimate, Observation
from sordino.report.assessment import Assessment
from sordino.report.words_numbers import about, compared, lower, upper


@dataclass(frozen=True)
class Row:
    """Numbers that refer to one thing.

    Parameters
    ----------
    title
        What they refer to.
    bound
        "proved", or "claimed", which promises nothing about where the truth lies.
    most
        That bound; infinite if there is none.
    estimate, observed
        None where there is none.
    estimable
        Whether an estimate was asked for: if not, nothing is said of one.
    broken
        Whether an attack refuted the bound.
    """

    title: str
    bound: str
    most: float
    estimate: Estimate | None
    observed: Observation | None
    estimable: bool = True
    broken: bool = False

    @property
    def least(self) -> float:
        """The lower bound."""
        return 0.0 if self.observed is None else self.observed.epsilon

    @property
    def refuted(self) -> bool:
        """Whether more was observed than estimated."""
        return self.estimate is not None and self.least > self.estimate.epsilon

    @property
    def truth(self) -> tuple[float, float]:
        """Between what the truth lies."""
        known = self.bound == "proved" and not self.broken
        return self.least, self.most if known else math.inf

    def values(self) -> Iterator[float]:
        """Everything that needs room on the axis."""
        yield self.most
        yield self.least
        if self.estimate is not None:
            yield from (self.estimate.epsilon, self.estimate.low or 0, self.estimate.high or 0)

    @property
    def bound_words(self) -> str:
        """The upper bound in words."""
        if math.isinf(self.most):
            return f"{self.bound}: nothing (∞)"
        number = compared(self.least, self.most)[1] if self._above else upper(self.most)
        return f"{self.bound}: at most {number}"

    @property
    def estimate_words(self) -> str:
        """The estimate in words."""
        if self.estimate is None:
            return "not estimated"
        low, high = self.estimate.low, self.estimate.high
        interval = "" if low is None or high is None else f" ({roughly(low)} to {roughly(high)})"
        return f"estimated: about {roughly(self.estimate.epsilon)}{interval}"

    @property
    def observed_words(self) -> str:
        """The lower bound in words."""
        if self.observed is None:
            return "not attacked"
        if self.least in (0, math.inf):
            return f"observed: {'nothing (0)' if self.least == 0 else 'everything (∞)'}"
        number = compared(self.least, self.most)[0] if self._above else lower(self.least)
        return f"observed: at least {number}"

    @property
    def warnings(self) -> list[str]:
        """What must not be overlooked."""
        found = []
        if self.broken:
            why = "more was observed than" if self._above else "the attack refutes what"
            found.append(f"BROKEN: {why} is {self.bound}")
        if self.refuted:
            found.append("Estimate refuted: more was observed")
        return found

    def told(self) -> str:
        """The row for people who cannot see it."""
        said = [self.bound_words, *[self.estimate_words] * self.estimable, self.observed_words]
        low, high = self.truth
        between = f"the truth lies above {lower(low)}"
        if math.isfinite(high):
            between = f"the truth lies between {lower(low)} and {upper(high)}"
        return ". ".join([f"{self.title}: {'; '.join([*said, between])}", *self.warnings]) + "."

    @property
    def _above(self) -> bool:
        return self.least > self.most


def rows_of(assessment: Assessment) -> list[Row]:
    """What stands above the axis."""
    attack, estimated, own = assessment.attack, assessment.release_estimated, assessment.own_noise
    observed = assessment.observed
    if assessment.question.mechanism:
        claimed = math.inf if attack is None or attack.claimed is None else attack.claimed
        broken = assessment.broken or (observed is not None and observed.epsilon > claimed)
        name = f"The mechanism {assessment.question.mechanism}"
        return [Row(name, "claimed", claimed, None, observed, estimable=False, broken=broken)]
    most = math.inf if assessment.proved is None else assessment.proved.epsilon
    broken = assessment.broken or (observed is not None and observed.epsilon > most)
    estimate = None if estimated is None else estimated.headline
    rows = [Row("The release", "proved", most, estimate, observed, broken=broken)]
    if own is not None or assessment.plain_attack is not None:
        plain = assessment.plain_attack
        seen = None if plain is None else plain.observed
        estimate = None if own is None else own.estimated.headline
        rows.append(Row("Un-noised SGD", "proved", math.inf, estimate, seen))
    return rows


def roughly(value: float) -> str:
    """A measured number; infinity as its sign."""
    return "∞" if math.isinf(value) else about(value)
