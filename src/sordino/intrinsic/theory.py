"""How far theory lets one record move the weights: what `summary` sets beside measured distances.

The bound that holds, and the papers' fraction of it, which does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sordino.accounting.naive_strong import AsPrinted
from sordino.errors import NotApplicable
from sordino.models.constants import Constants
from sordino.privacy import VARYING, Relation, Sampling
from sordino.proofs.steps import batches_of, convex_constants, rates_of
from sordino.sensitivity import Sensitivity, bolt_on_convex, bolt_on_fractional
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats


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
    """Bound the distance after `steps` steps on this many records, where a theorem allows it.

    The bound is 2 ceil(k) L eta / B, and more for a smaller last batch. Averages move no further.
    """
    nothing = np.empty(0)
    try:
        if spec is None:
            raise NotApplicable("Nothing is proved of a training function of your own.")
        if norm_bound is None:
            raise NotApplicable("No bound on the rows' norm is claimed.")
        constants = spec.objective.constants(norm_bound)
        convex_constants(spec, constants)
        assert constants is not None  # a linear loss has some
        if spec.order in VARYING:
            which = str(spec.order).capitalize()
            raise NotApplicable(f"{which} batches may meet a record at any step; shuffle them.")
        # The staircase, at so many numbers of steps.
        places = sorted({round(step) for step in np.linspace(0, steps, 200)})
        rates, how = rates_of(spec, records), batches_of(spec, constants, records)
        bounds = [
            bolt_on_convex(
                rates=np.full(step, rates[0]) if len(rates) == 1 else rates[:step],
                relation=relation,
                same_order=spec.order != Sampling.SHUFFLE,
                **how,
            )
            for step in (*places, steps)
        ]
    except NotApplicable as refusal:
        return Theory(None, str(refusal), None, (), nothing, nothing)
    printed, fractions = None, nothing
    plain = spec.schedule.kind == "constant" and spec.max_grad_norm is None
    if plain and relation is Relation.REPLACE_ONE:  # or the papers' number is not about it
        rate = spec.schedule.rate
        printed = printed_sensitivity(constants, records, spec.batch_size, rate, steps)
        fractions = printed.value * np.array(places) / max(steps, 1)
    heights = np.array([bound.worst for bound in bounds[:-1]])
    return Theory(bounds[-1], "", printed, tuple(places), heights, fractions)


def printed_sensitivity(
    constants: Constants,
    n: int,
    batch_size: int,
    learning_rate: float,
    steps: int,
    *,
    whole_batches: bool = False,
) -> AsPrinted:
    """The papers' 2 k L eta / B with a fraction k of passes, as printed: NOT A BOUND.

    A pass has n / B steps, or floor(n / B) with `whole_batches`, which is what v2's epsilon_i in
    Table 3 and the 0.2523 of its Table 5 were computed with.
    """
    records = n // batch_size * batch_size if whole_batches else n
    value = bolt_on_fractional(
        constants=constants, n=records, batch_size=batch_size, rate=learning_rate, steps=steps
    )
    verdict = "a record may be in the started last pass, and in a smaller last batch"
    return AsPrinted("Delta_S", value, "2 k L eta / B with fractional k", verdict)
