"""The recurrence: what each step adds to the distance of two runs, and what is left at the end."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict, Unpack

import numpy as np

from sordino import checks
from sordino.accounting.last_iterate.shifted import TINY, Numbers, non_negatives
from sordino.errors import NotApplicable
from sordino.models.constants import Constants
from sordino.privacy import Relation
from sordino.types import Floats

EPS = sys.float_info.epsilon
UP = 1 + 8 * EPS
"""More than the few roundings of any product here."""
LARGEST = 1e200
"""Beyond this nothing is bounded in any useful sense, and sums could overflow."""


@dataclass(frozen=True)
class _Bounds:
    """What bounds of both kinds say beside their numbers; parameters as in `Sensitivity`."""

    shares: tuple[float, ...]
    relation: Relation
    theorem: str
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class Sensitivity(_Bounds):
    """Bounds on ||w - w'|| for the final weights of two neighbouring trainings.

    Parameters
    ----------
    positions
        The bound for a record in batch j, and last, if `drop_last` leaves records out, their 0.
    shares
        Probability that a uniformly permuted record falls there: the batch's size over n.
    relation
        What counts as a neighbouring dataset.
    theorem
        The statement, with its source.
    conditions
        What was checked, with the numbers.
    """

    positions: tuple[float, ...]

    @property
    def worst(self) -> float:
        """The bound wherever the record is: for an order that is fixed or known."""
        return max(self.positions)

    @property
    def mean(self) -> float:
        """The mean over the places of a uniformly permuted record."""
        return math.fsum(p * share for p, share in zip(self.positions, self.shares, strict=True))

    def scaled(self, factor: float) -> Sensitivity:
        """All bounds times `factor`: sqrt(K) for K one-vs-rest problems trained in one order."""
        factor = checks.non_negative("factor", factor)
        moved = tuple(UP * factor * position for position in self.positions)
        said = self.conditions
        if factor != 1:
            said += (f"{factor:.6g} times as far, for all that is released together",)
        return dataclasses.replace(self, positions=moved, conditions=said)

    def plus(self, extra: float) -> Sensitivity:
        """All bounds plus `extra`: twice `rounding`, once for either world."""
        extra = checks.non_negative("extra", extra)
        moved = tuple(UP * (position + extra) for position in self.positions)
        said = (*self.conditions, f"{extra:.3g} more than in exact arithmetic, for rounding")
        return dataclasses.replace(self, positions=moved, conditions=said)


@dataclass(frozen=True)
class Reshuffled(_Bounds):
    """What a record adds to ||w - w'|| in each epoch, if every epoch has an order of its own.

    `epochs[s][j]` is the part of a visit in batch j of epoch s, later contractions included; a
    record's bound is the sum over epochs. The rest is as in `Sensitivity`. For
    `accounting.permuted.reshuffled(contributions=epochs, weights=shares)`.
    """

    epochs: tuple[tuple[float, ...], ...]

    @property
    def worst(self) -> float:
        """The bound whatever the orders are."""
        return UP * math.fsum(max(epoch) for epoch in self.epochs)


def batch_sizes(n: int, batch_size: int, drop_last: bool = False) -> tuple[int, ...]:
    """Sizes of the batches of one epoch; the last may be smaller, or is left out."""
    n = checks.whole("n", n, at_least=1)
    size = checks.whole("batch_size", batch_size, at_least=1)
    drop_last = checks.flag("drop_last", drop_last)
    if size > n:
        checks.fail("batch_size", size, f"<= {n}, the number of records")
    whole, rest = divmod(n, size)
    return (size,) * whole + ((rest,) if rest and not drop_last else ())


class Batches(TypedDict):
    """What every theorem asks of the loss and the batches, as keywords.

    Parameters
    ----------
    constants
        Of the loss; `strongly_convex` is the weight of the l2 term, which no divisor divides.
    n, batch_size, drop_last
        See `batch_sizes`.
    divisor
        What sums of gradients are divided by; None means each batch's own size.
    """

    constants: Constants
    n: int
    batch_size: int
    drop_last: NotRequired[bool]
    divisor: NotRequired[float | None]


class Loop:
    """A training as plain numbers, checked. Arguments are those of `bounds.contraction`."""

    def __init__(
        self,
        rates: Numbers,
        relation: Relation,
        average_every: int | None = None,
        **batches: Unpack[Batches],
    ) -> None:
        n, divisor = batches["n"], batches.get("divisor")
        constants = self.constants = _checked_constants(batches["constants"])
        self.relation = relation
        if not isinstance(relation, Relation):
            checks.fail("relation", relation, "to be a Relation", "Pass Relation.REPLACE_ONE, say.")
        if relation is Relation.ADD_OR_REMOVE_ONE:
            private = "Under add-or-remove-one the number of records is private"
            raise NotApplicable(f"{private}; use Relation.REPLACE_ONE or Relation.ZERO_OUT.")
        # How far the differing record's gradients can be apart.
        self.jump = (2 if relation is Relation.REPLACE_ONE else 1) * constants.lipschitz
        self.sizes = batch_sizes(n, batches["batch_size"], batches.get("drop_last", False))
        self.left_out = n - sum(self.sizes)
        places = (*self.sizes, self.left_out) if self.left_out else self.sizes
        self.shares = tuple(size / n for size in places)
        self.rates = non_negatives("rates", rates)
        if divisor is not None:
            divisor = checks.positive("divisor", divisor)
        self.divisors = np.array([divisor or size for size in self.sizes], dtype=np.float64)
        # A batch larger than its divisor weighs more than the mean of its records.
        self.crowding = max(1.0, max(self.sizes) / float(self.divisors[0]))
        mu = constants.strongly_convex
        self.smooth = mu + (constants.smooth - mu) * self.crowding
        self.window = 0
        if average_every is not None:
            every = checks.whole("average_every", average_every, at_least=1)
            self.window = every * len(self.sizes)

    def gaps(self) -> Floats:
        """1 - rho of each step, rounded down; negative where the step can expand."""
        least = self.rates * self.constants.strongly_convex * (1 - 4 * EPS)
        with np.errstate(over="ignore"):  # an infinite rho is refused below
            most = self.rates * self.smooth
        return np.asarray(np.minimum(least, (2 - most) - 4 * EPS * most), dtype=np.float64)

    def worth(self) -> tuple[Floats, Floats]:
        """What a distance of 1 after each step is worth at the end, and after each averaging.

        Backwards: in an averaged window the weights count once in the mean, and again through all
        that follows from them there. Every rounding is upwards: rho is raised by more than the
        multiplication loses, never beyond 1 where it is at most 1.
        """
        gaps = self.gaps()
        raised = (1 - gaps) * (1 + 2 * EPS)
        rho = np.where(gaps >= 0, np.minimum(raised, 1.0), raised).tolist()
        windows = len(rho) // self.window if self.window else 0
        steps, averages = [0.0] * len(rho), [0.0] * windows
        worth, share = 1.0, 0.0
        for t in reversed(range(len(rho))):
            if t < windows * self.window and (t + 1) % self.window == 0:
                averages[t // self.window] = worth
                worth, share = 0.0, worth * UP / self.window
            if share:
                worth = (worth + share) * (1 + EPS)
            steps[t] = worth
            worth = max(worth * rho[t], TINY)
        found = np.array(steps), np.array(averages)
        if not all((part < LARGEST).all() for part in found):  # also refuses NaN
            most = f"to at most 2 / smoothness = {2 / self.smooth:.6g}"
            raise NotApplicable(f"Distances grow beyond {LARGEST:g}; lower the rates {most}.")
        return found

    def visits(self, amounts: Floats) -> Floats:
        """What a differing record adds, given eta and all that multiplies it at each step.

        A table [epoch, batch], 0 where the last epoch was cut short.
        """
        width = len(self.sizes)
        padded = np.zeros(-(-len(amounts) // width) * width)
        padded[: len(amounts)] = amounts + TINY  # whatever vanished below the smallest float
        return np.asarray(self.jump * padded.reshape(-1, width) / self.divisors)

    def said(self) -> tuple[str, ...]:
        """What was checked, in words."""
        constants, gaps = self.constants, self.gaps()
        an_epoch = f"{len(self.sizes)} batches of {_listed(self.sizes)} an epoch"
        batches = f"{len(self.rates)} steps in {an_epoch}, sums divided by {_listed(self.divisors)}"
        curved = f"curvature {constants.strongly_convex:.6g} to {self.smooth:.6g}"
        bounded = f"convex with gradients of at most {constants.lipschitz:.6g}"
        sizes = f"data term {bounded}, the loss of {curved}"
        rho = 1 - float(gaps.min(initial=1.0))
        steps = f"every step contracts or keeps distances: rho <= {min(rho, 1.0):.6g}"
        if rho > 1 + 1e-12:
            expanding = f"{np.count_nonzero(gaps < -1e-12)} steps can EXPAND distances"
            where = f"the learning rate is above 2 / smoothness = {2 / self.smooth:.6g}"
            steps = f"{expanding}, by up to rho = {rho:.6g}, where {where}; counted in"
        kept = () if self.window == 0 else (f"means of {self.window} iterates each",)
        return (batches, sizes, steps, *kept)

    def sensitivity(
        self, positions: Sequence[float], theorem: str, said: tuple[str, ...]
    ) -> Sensitivity:
        """These bounds of each batch, and 0 for records left out."""
        rest = (0.0,) if self.left_out else ()
        return Sensitivity(self.shares, self.relation, theorem, said, (*positions, *rest))

    def summed(self, visits: Floats, theorem: str, said: tuple[str, ...]) -> Sensitivity:
        """The sums of visits [epoch, batch] batch by batch, exactly rounded, then rounded up."""
        sums = [UP * math.fsum(column) for column in visits.T.tolist()]
        return self.sensitivity(sums, theorem, said)

    def visited(
        self, visits: Floats, same_order: bool, theorem: str, said: tuple[str, ...]
    ) -> Sensitivity:
        """The sum of a record's visits: batch by batch, or at worst in any order."""
        if checks.flag("same_order", same_order):
            return self.summed(visits, theorem, (*said, "the batches of every pass are the same"))
        worst = UP * math.fsum(visits.max(axis=1).tolist())
        said = (*said, "each pass in any order")
        return Sensitivity((1.0,), self.relation, theorem, said, (worst,))


def _checked_constants(constants: Constants) -> Constants:
    if not isinstance(constants, Constants):
        checks.fail("constants", constants, "to be Constants", "ObjectiveSpec.constants has them.")
    lipschitz, smooth, mu = constants.lipschitz, constants.smooth, constants.strongly_convex
    if not (0 <= lipschitz < math.inf):
        raise NotApplicable("Gradients of the data term must be bounded; clip them.")
    if not (0 <= mu <= smooth < math.inf and smooth > 0):
        raise NotApplicable(f"The loss must be convex and smooth, not {mu} and {smooth}.")
    return constants


def _listed(numbers: Sequence[float] | Floats) -> str:
    return " or ".join(f"{number:g}" for number in sorted(set(numbers), reverse=True))
