"""Chen, Lee & Kifer's sections 3 and 4 as numbers: sensitivities, noise, columns; of no run.

A `schedule` is a table of a file: `batches` of `batch_size` (the last of `last` rows), `epochs` at
`rate` / h, where h counts epochs, from 1 again every `every` epochs if `restarted`; iterates are
averaged as often if `averaged`. A `loss` is a table with `lipschitz`, `curvature` (of the data
term) and `l2`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import sensitivity
from sordino.accounting import calibrate, gaussian, renyi
from sordino.accounting.last_iterate import permuted
from sordino.accounting.pld.numerics import first_below
from sordino.models.constants import Constants
from sordino.privacy import Relation
from sordino.sensitivity import Sensitivity
from sordino_papers.found import Found

if TYPE_CHECKING:
    from sordino_papers.quantities import Quantity

Table = Mapping[str, Any]
REPLACE = Relation.REPLACE_ONE


def constants(loss: Table) -> Constants:
    """Of a file's loss."""
    smooth = loss["curvature"] + loss["l2"]
    return Constants(loss.get("lipschitz", 1.0), smooth, loss["l2"])


def of_schedule(loss: Table, schedule: Table) -> Sensitivity:
    """How far a record of each batch can move the final weights."""
    batches, size = schedule["batches"], schedule["batch_size"]
    last = schedule.get("last", size)
    every = schedule.get("every", schedule["epochs"])
    restart = every if schedule.get("restarted", True) else schedule["epochs"]
    since = np.arange(schedule["epochs"]) % restart + 1
    return sensitivity.contraction(
        constants=constants(loss),
        n=(batches - 1) * size + last,
        batch_size=size,
        rates=np.repeat(schedule["rate"] / since, batches),
        relation=REPLACE,
        average_every=every if schedule.get("averaged", True) else None,
    )


def _of(found: Sensitivity, of: str) -> float:
    positions = found.positions
    return {"worst": found.worst, "first": positions[0], "last": positions[-1]}[of]


def _sensitivity(*, loss: Table, schedule: Table, of: str = "worst") -> Found:
    """The sensitivity to a record of the worst, the first or the last batch."""
    return Found(_of(of_schedule(loss, schedule), of))


def _sensitivity_ratio(*, loss: Table, schedule: Table, over: Table, under: Table) -> Found:
    """One sensitivity over another: `over` and `under` change the schedule, or say `of` what."""
    values = []
    for change in (over, under):
        which = change.get("of", "worst")
        values.append(_of(of_schedule(loss, {**schedule, **change}), which))
    return Found(values[0] / values[1], words=f"{values[0]:.4g} and {values[1]:.4g}")


def _noise(loss: Table, schedule: Table, epsilon: float, delta: float, bound: str) -> float:
    """The least noise on each weight for a budget, by one way to count."""
    found = of_schedule(loss, schedule)
    places: dict[str, Any] = {
        "sensitivities": found.positions,
        "relation": REPLACE,
        "weights": found.shares,
    }
    if bound == "worst":
        return gaussian.sigma(epsilon, delta, found.worst)
    if bound == "mixture":
        return calibrate.least_noise(
            lambda sigma: permuted.hockey_mixture(sigma=sigma, **places), epsilon, delta
        )

    def excess(sigma: float) -> float:
        profile = permuted.renyi_mixture(sigma=sigma, **places)
        orders, values = np.array(profile.orders), np.array(profile.values)
        if bound == "renyi":
            return renyi.epsilon(orders, values, delta) - epsilon
        return float(renyi.mironov(orders, values, delta).min()) - epsilon

    high = gaussian.sigma(epsilon, delta, found.worst)
    while excess(high) > 0:
        high *= 2
    return first_below(excess, high / 8, high)


def _noise_of_bounds(
    *, loss: Table, schedule: Table, epsilon: float, delta: float, over: str, under: str
) -> Found:
    """The noise by one way to count over that by another.

    "mixture" (mean of exact profiles), "worst" (the worst batch), "renyi" (Proposition 3 and the
    best conversion), "mironov" (Proposition 3 and Proposition 1: what the paper does).
    """
    values = [_noise(loss, schedule, epsilon, delta, bound) for bound in (over, under)]
    return Found(values[0] / values[1], words=f"{values[0]:.4g} and {values[1]:.4g}")


def _descent_limit(*, loss: Table, rows: int) -> Found:
    """Proposition 2 for m = 1 and rate 2 / (L + mu), over 2 R / (n mu)."""
    of = constants(loss)
    return Found(_limit(loss, rows) * rows * of.strongly_convex / (2 * of.lipschitz))


def _zhang_ratio(*, loss: Table, rows: int) -> Found:
    """Zhang et al.'s sensitivity of gradient descent, as the paper quotes it, over that limit."""
    of = constants(loss)
    theirs = sensitivity.zhang_gradient_descent(
        constants=of, n=rows, rate=_rate(of), relation=REPLACE
    ).worst
    ours = _limit(loss, rows)
    return Found(theirs / ours, words=f"{theirs:.4g} and {ours:.4g}")


def _regulariser_ratio(*, loss: Table, rows: int) -> Found:
    """The limit for l2/2 ||w||^2 over that for l2 ||w||^2, whose strong convexity is twice l2."""
    half, whole = (_limit({**loss, "l2": times * loss["l2"]}, rows) for times in (1.0, 2.0))
    return Found(half / whole, words=f"{half:.4g} and {whole:.4g}")


def _limit(loss: Table, rows: int) -> float:
    of = constants(loss)
    return sensitivity.fixed_step_limit(
        constants=of, n=rows, batch_size=rows, rate=_rate(of), relation=REPLACE
    ).worst


def _rate(of: Constants) -> float:
    return 2 / (of.smooth + of.strongly_convex)


def _whole_gradient(*, loss: Table, norm: float) -> Found:
    """Norm of the gradient with its regulariser at weights of this norm, at most, over R.

    Condition 4 asks for a bound over all weights; there is none.
    """
    of = constants(loss)
    return Found((of.lipschitz + of.strongly_convex * norm) / of.lipschitz)


def _one_hot_columns(*, numeric: int, levels: list[int], dropped: int, intercept: bool) -> Found:
    """Columns of numbers and of one-hot levels, so many dropped of each attribute."""
    return Found(float(numeric + sum(levels) - dropped * len(levels) + intercept))


def _documented_columns(*, bins: list[int], intercept: bool, unknown: str) -> Found:
    """Adult's documented levels, unknown left out, and so many bins of each of its numbers."""
    from sordino.data.catalogue import adult

    if len(bins) != len(adult.NUMERIC):
        return Found(math.nan)
    levels = sum(level != unknown for each in adult.LEVELS.values() for level in each)
    return Found(float(levels + sum(bins) + intercept), words=f"{levels} levels")


QUANTITIES: dict[str, Quantity] = {
    "schedule_sensitivity": _sensitivity,
    "schedule_sensitivity_ratio": _sensitivity_ratio,
    "schedule_noise_ratio": _noise_of_bounds,
    "descent_limit": _descent_limit,
    "zhang_ratio": _zhang_ratio,
    "regulariser_ratio": _regulariser_ratio,
    "whole_gradient": _whole_gradient,
    "one_hot_columns": _one_hot_columns,
    "documented_columns": _documented_columns,
}
