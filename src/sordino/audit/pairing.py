"""`Paired`: whether two datasets are neighbours for the mechanism that is to run on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sordino import checks
from sordino.audit.called import is_estimator
from sordino.audit.difference import Difference, difference, has_silent_record
from sordino.audit.trained import TrainedRelease
from sordino.audit.worlds import as_dataset
from sordino.data.neighbours import UNCHANGED, Neighbours
from sordino.privacy import Relation, Sampling


@dataclass(frozen=True, eq=False)
class Paired:
    """A pair that may be attacked.

    Parameters
    ----------
    D, D_prime
        As they are to be run on.
    relation
        How they are related; None if their records cannot be told.
    silent
        Whether, of two records that replace each other, one has no gradient: then the pair is one
        of zero-out neighbours, too.
    """

    D: Any
    D_prime: Any
    relation: Relation | None
    silent: bool = False

    def check_claim(self, claimed: Relation) -> None:
        """Refuse a claim about other neighbours than these."""
        found = self.relation
        if found is None or claimed is found:
            return
        if claimed is Relation.REPLACE_ONE and found is Relation.ZERO_OUT:
            return  # a silent record is one that may replace another
        hint = f"D and D_prime are neighbours under {found.value}."
        if claimed is Relation.ZERO_OUT and found is Relation.REPLACE_ONE:
            if self.silent:
                return
            hint = (
                "A record is replaced here, and neither of the two is silent (all zeros, in a "
                "model without an intercept): use sordino.data.neighbours.zero_out."
            )
        checks.fail("claim", claimed.value, "to be about this pair", hint)


def paired(mechanism: Any, D: Any, D_prime: Any) -> Paired:
    """Compare the two datasets.

    Raises
    ------
    InvalidArgument
        If they do not differ in one record; if they differ in their order, too, and the mechanism
        may depend on it; if an estimator's records cannot be compared; or if an overlay is given to
        something that cannot train on one.
    """
    if isinstance(D_prime, Neighbours):
        return _overlaid(mechanism, D, D_prime)
    if isinstance(mechanism, TrainedRelease):
        D, D_prime = as_dataset("D", D), as_dataset("D_prime", D_prime)
    found = difference(D, D_prime)
    if found is None:
        if is_estimator(mechanism):
            hint = "Pass X and y as arrays or tables of numbers, texts or dates, of one length."
            checks.fail("D", type(D).__name__, "to hold records that can be compared", hint)
        return Paired(D, D_prime, None)
    if not found.in_order and _minds_the_order(mechanism):
        _fail_order(found)
    replaced = found.relation is Relation.REPLACE_ONE
    silent = replaced and _is_linear(mechanism) and has_silent_record(D, D_prime, found)
    return Paired(D, D_prime, found.relation, silent)


def _overlaid(mechanism: Any, D: Any, D_prime: Neighbours) -> Paired:
    if len(D_prime) == 1 and D_prime.slot[0] == UNCHANGED:
        checks.fail("D_prime", "[the same records]", "to differ from D in one record")
    if isinstance(mechanism, TrainedRelease):
        return Paired(D, D_prime, D_prime.relation)
    from sordino.audit.own import OwnFit, laid_out

    if isinstance(mechanism, OwnFit):
        return Paired(*laid_out(as_dataset("D", D), D_prime), D_prime.relation)
    hint = "Only sordino's own trainings know neighbours that are overlays."
    return checks.fail("D_prime", "[Neighbours]", "to be a dataset like D", hint)


def _minds_the_order(mechanism: Any) -> bool:
    """Whether runs may depend on the order of the records; of a function nobody knows."""
    return not isinstance(mechanism, TrainedRelease) or mechanism.spec.order == Sampling.CYCLIC


def _fail_order(found: Difference) -> None:
    if found.relation is Relation.REPLACE_ONE:
        wanted = "to hold the new record where D holds the other"
    else:
        wanted = "to be the other dataset with one record left out"
    hint = "What is run may depend on the order: put the records in the same one."
    checks.fail("D_prime", "[the same records in another order, but one]", wanted, hint)


def _is_linear(mechanism: Any) -> bool:
    """Whether a record of zeros has no gradient, as far as can be seen."""
    if isinstance(mechanism, TrainedRelease):
        objective = mechanism.spec.objective
        return objective.is_linear and not objective.intercept
    return not (is_estimator(mechanism) and getattr(mechanism, "fit_intercept", False))
