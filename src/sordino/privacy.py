"""The words of sordino: `Relation`, and the three kinds of epsilon that are never mixed up.

`Guarantee` is proved, `Estimate` is measured, `Observation` is won by an attack. They are
different types on purpose: no function takes one for another, and none of them is a float.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Literal

from sordino import checks
from sordino.errors import printable


class Relation(enum.Enum):
    """When two datasets count as neighbours. Every number about privacy depends on it."""

    REPLACE_ONE = "replace-one"
    """One record is exchanged for any other; the size is public."""
    ADD_OR_REMOVE_ONE = "add-or-remove-one"
    """One record is present or absent; the size is private."""
    ZERO_OUT = "zero-out"
    """One record is exchanged for one with zero gradient; the size is public."""


class Sampling(enum.StrEnum):
    """How batches are drawn, and in which order records are met. Every theorem depends on it.

    A member equals its word. `Sampling(word)` also takes what others call it.
    """

    POISSON = "poisson"
    """Each record in each batch independently."""
    FIXED_SIZE = "fixed-size"
    """Each batch a uniform subset of fixed size."""
    ALLOCATION = "allocation"
    """Each record in exactly one step of every epoch, drawn anew and independently of the others:
    batches vary in size."""
    FULL = "full"
    """Every record in every step."""
    CYCLIC = "cyclic"
    """Rows as they come, the same batches pass after pass. A `TrainSpec` writes it "fixed"."""
    PERMUTE_ONCE = "permute-once"
    """One secret random order, then as cyclic."""
    SHUFFLE = "shuffle"
    """A new secret random order each pass: the usual data loader."""

    @classmethod
    def _missing_(cls, value: object) -> Sampling | None:
        return SYNONYMS.get(str(value))

    def __repr__(self) -> str:
        return repr(self.value)


PASSES = (Sampling.CYCLIC, Sampling.PERMUTE_ONCE, Sampling.SHUFFLE)
"""Those by which a record is met once a pass."""
SECRET = (Sampling.PERMUTE_ONCE, Sampling.SHUFFLE)
"""Passes whose order nobody knows."""
VARYING = (Sampling.POISSON, Sampling.ALLOCATION)
"""Those whose batches vary in size, so that how many records one holds is private."""
SYNONYMS = {
    "fixed": Sampling.CYCLIC,
    "without-replacement": Sampling.FIXED_SIZE,
    "full-batch": Sampling.FULL,
    "balls-into-bins": Sampling.ALLOCATION,
    "random-allocation": Sampling.ALLOCATION,
    "reshuffle": Sampling.SHUFFLE,
}


RELATIONS = {
    Relation.REPLACE_ONE: (
        "one record is exchanged for any other; how many records there are is public"
    ),
    Relation.ADD_OR_REMOVE_ONE: (
        "one record is there or is not; how many records there are stays private"
    ),
    Relation.ZERO_OUT: (
        "one record is exchanged for one that never moves the training; how many records there "
        "are is public"
    ),
}
"""What each relation protects against. Part of a certificate's schema: another
wording is a new version."""


@dataclass(frozen=True)
class Guarantee:
    """A proved upper bound: no attack on what was released does better than (epsilon, delta).

    Parameters
    ----------
    epsilon, delta
        The budget. `epsilon` may be infinite (nothing is promised).
    relation
        What counts as a neighbouring dataset.
    sampling
        How batches were drawn, as the theorem assumes it ("poisson", "permute-once", ...).
    unit
        Who is protected: "one record", or "k records of one person".
    theorem
        The statement used, with its source.
    assumes
        What the theorem rests on beside what was checked: what code cannot see (that settings were
        chosen without the data, that nothing else left the building) is taken on trust.
    released
        "final" if only the last weights leave the building, "all" if every iterate may.
    not_covered
        What was read off the data beside the training: what that tells comes on top.
    """

    epsilon: float
    delta: float
    relation: Relation
    sampling: str
    unit: str
    theorem: str
    assumes: tuple[str, ...]
    released: Literal["final", "all"]
    not_covered: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checks.non_negative("epsilon", self.epsilon, allow_infinite=True)
        checks.probability_below_one("delta", self.delta)
        checks.one_of("released", self.released, ("final", "all"))
        _check_relation(self.relation)
        if isinstance(self.sampling, Sampling):  # a plain text, for files
            object.__setattr__(self, "sampling", self.sampling.value)

    def __str__(self) -> str:
        what = "the final model" if self.released == "final" else "all iterates"
        return printable(
            f"proved: epsilon <= {rounded(self.epsilon)} at delta = {rounded(self.delta)} "
            f"for {what}, "
            f"{self.relation.value}, unit: {self.unit}, sampling: {self.sampling}, "
            f"by {self.theorem}" + "".join(f"; NOT COVERED: {what}" for what in self.not_covered)
        )


@dataclass(frozen=True)
class Estimate:
    """What was measured over many runs, or computed for a model of them. It promises nothing.

    `low` and `high` bound the interval at confidence `level`; all three are None where the number
    was computed, not measured. `method` names the estimator and `caveat` what it takes for
    granted. Its text says that it is no guarantee.
    """

    epsilon: float
    delta: float
    low: float | None
    high: float | None
    level: float | None
    method: str
    caveat: str

    def __post_init__(self) -> None:
        checks.non_negative("epsilon", self.epsilon, allow_infinite=True)
        checks.probability_below_one("delta", self.delta)
        if self.low is None or self.high is None or self.level is None:
            if not self.low is self.high is self.level is None:
                hint = "Pass all three, or None for each if the number was computed, not measured."
                checks.fail("interval", (self.low, self.high, self.level), "to be complete", hint)
            return
        checks.non_negative("low", self.low, allow_infinite=True)
        if not self.low <= self.epsilon <= self.high:
            checks.fail("epsilon", self.epsilon, f"in its interval [{self.low}, {self.high}]")
        _check_open_unit("level", self.level)

    def __str__(self) -> str:
        interval = "no interval: computed, not measured"
        if self.level is not None:
            interval = f"{self.level:.0%} interval {self.low:.3g} to {self.high:.3g}"
        return (
            f"estimate, not a guarantee: epsilon about {self.epsilon:.3g} ({interval}) "
            f"at delta = {self.delta:.3g}, by {self.method}; {self.caveat}"
        )


@dataclass(frozen=True)
class Observation:
    """A lower bound won by an attack: the true epsilon is at least this, with `confidence`."""

    epsilon: float
    delta: float
    confidence: float
    attack: str
    trials: int

    def __post_init__(self) -> None:
        checks.non_negative("epsilon", self.epsilon, allow_infinite=True)
        checks.probability_below_one("delta", self.delta)
        _check_open_unit("confidence", self.confidence)
        checks.whole("trials", self.trials, at_least=1)

    def __str__(self) -> str:
        return (
            f"observed: epsilon >= {rounded(self.epsilon, up=False)} at delta = "
            f"{self.delta:.3g} with "
            f"{self.confidence:.4g} confidence, by {self.attack} over {self.trials:,} trials"
        )


def rounded(value: float, *, up: bool = True, digits: int = 4) -> str:
    """A few digits, rounded to the side that is true: up for a proof, down for an attack."""
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    number = Context(prec=digits, rounding=rounding).create_decimal(repr(float(value)))
    if 1e-4 <= value < 1e7:
        return f"{number.normalize():f}"
    return f"{float(number):.{digits}g}"


def _check_relation(relation: object) -> None:
    if not isinstance(relation, Relation):
        checks.fail("relation", relation, "to be a Relation", "Pass Relation.REPLACE_ONE, say.")


def _check_open_unit(name: str, value: float) -> None:
    if not 0 < value < 1:
        checks.fail(name, value, "in (0, 1)", "Pass a confidence such as 0.95.")


MOST_ROWS_PER_PERSON = 10_000
"""More are not protected together: what is proved of them says nothing any more."""
USUAL_DELTA = 1e-5
"""The default where nobody knows how many records there are."""


def default_delta(rows: int | None, *, exact: bool = False) -> float:
    """Delta where nobody named one: 1 / rows^2, far below the chance 1 / rows of a random record.

    Parameters
    ----------
    rows
        Records that are protected; None if their number is not known: `USUAL_DELTA`.
    exact
        1 / rows^2 itself, as the papers on SGD's own noise take it (v2), for their estimates. What
        is promised or claimed is rounded down to one digit.
    """
    if rows is None:
        return USUAL_DELTA
    if exact:
        return 1 / rows**2
    squared = max(int(rows), 10) ** 2
    # In whole numbers, by its digits: in floating point 5e-06 would be 4.9999999999999996e-06.
    places = len(str(squared - 1))
    return float(f"{10**places // squared}e-{places}")


def large_delta(delta: float, rows: int) -> tuple[str, ...]:
    """What a promise does not cover whose delta is too large for so many records, if it is."""
    if delta <= 0.1 / rows:
        return ()
    return (f"delta = {delta:g} is above 0.1 / rows: too large to mean much",)
