"""How far theory lets one record move the weights: what `summary` sets beside measured distances.

The bound that holds, and the papers' fraction of it, which does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sordino.accounting.classical import AsPrinted
from sordino.errors import NotApplicable
from sordino.intrinsic.spread import printed_sensitivity
from sordino.models.constants import Constants
from sordino.privacy import Relation, Sampling
from sordino.proofs.run import batches_of, checked_convexity, rates_of
from sordino.sensitivity import Sensitivity, bolt_on_convex
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats

PLACES = 200
"""Numbers of steps at which the bound's staircase is computed."""


@dataclass(frozen=True)
class Theory:
    """Bounds on the distance of two trainings that differ in one record, after the last step.

    Parameters
    ----------
    bound
        A bound that holds, in exact arithmetic; None where no theorem applies.
    reason
        Why there is none; empty if there is one.
    printed
        The papers' 2 k L eta / B with a fraction k of passes: NOT A BOUND, for comparison.
    steps, bounds, fractions
        Both after each of these numbers of steps; empty where there is none.
    """

    bound: Sensitivity | None
    reason: str
    printed: AsPrinted | None
    steps: tuple[int, ...]
    bounds: Floats
    fractions: Floats


def theory(
    spec: TrainSpec | None, records: int, norm_bound: float | None, steps: int, relation: Relation
) -> Theory:
    """Bound the distance after `steps` steps on this many records, where a theorem allows it."""
    nothing = np.empty(0)
    try:
        constants = _constants(spec, norm_bound)
        assert spec is not None  # or there would be no constants
        bound = _bound(spec, constants, records, steps, relation)
    except NotApplicable as refusal:
        return Theory(None, str(refusal), None, (), nothing, nothing)
    places = sorted({round(step) for step in np.linspace(0, steps, PLACES)})
    bounds = [_bound(spec, constants, records, step, relation).worst for step in places]
    printed = _printed(spec, constants, records, steps, relation)
    fractions = nothing
    if printed is not None:
        fractions = printed.value * np.array(places) / max(steps, 1)
    return Theory(bound, "", printed, tuple(places), np.array(bounds), fractions)


def _constants(spec: TrainSpec | None, norm_bound: float | None) -> Constants:
    if spec is None:
        raise NotApplicable("Nothing is proved of a training function of your own.")
    if norm_bound is None:
        raise NotApplicable("No bound on the rows' norm is claimed, so none on their gradients is.")
    constants = spec.objective.constants(norm_bound)
    checked_convexity(spec, constants)
    assert constants is not None  # a linear loss has some
    return constants


def _bound(
    spec: TrainSpec, constants: Constants, records: int, steps: int, relation: Relation
) -> Sensitivity:
    """2 ceil(k) L eta / B, and more for a smaller last batch. Averages move no further."""
    if spec.order == Sampling.POISSON:
        raise NotApplicable(
            "With Poisson sampling a record can be met at any step, and no bound on how often is "
            "sure; use order='shuffle'."
        )
    return bolt_on_convex(
        rates=_rates(spec, records, steps),
        relation=relation,
        same_order=spec.order != Sampling.SHUFFLE,
        **batches_of(spec, constants, records),
    )


def _rates(spec: TrainSpec, records: int, steps: int) -> Floats:
    rates = rates_of(spec, records)
    return np.full(steps, rates[0]) if len(rates) == 1 else rates[:steps]


def _printed(
    spec: TrainSpec, constants: Constants, records: int, steps: int, relation: Relation
) -> AsPrinted | None:
    """The papers' number, where it is about such a training at all."""
    plain = spec.schedule.kind == "constant" and spec.max_grad_norm is None
    if not plain or relation is not Relation.REPLACE_ONE:
        return None
    rate = spec.schedule.rate
    return printed_sensitivity(constants, records, spec.batch_size, rate, steps)
