"""The theorems: each checks its conditions, and says in words what it checked."""

from __future__ import annotations

import dataclasses
import math
from typing import Unpack

import numpy as np

from sordino import checks
from sordino.accounting.last_iterate.shifted import Numbers
from sordino.errors import NotApplicable
from sordino.models.constants import Constants
from sordino.privacy import Relation
from sordino.sensitivity.loop import EPS, UP, Batches, Loop, Reshuffled, Sensitivity, batch_sizes
from sordino.types import Floats

_RHO = "max(|1 - eta mu|, |1 - eta L|)"
_STEP = f"a gradient step on a smooth convex loss is {_RHO}-Lipschitz (docs/math.md 3.1)"


def contraction(
    *,
    rates: Numbers,
    relation: Relation,
    average_every: int | None = None,
    **batches: Unpack[Batches],
) -> Sensitivity:
    """The general bound, for batches that come in the same order in every epoch.

    With D_j the distance for a record of batch j: each step D <- rho D for all j, then
    D_j += 2 eta R / |B| for the batch's own j; where iterates are averaged, D <- mean of the D's
    since the last averaging (docs/math.md 3.3; Chen, Lee & Kifer 2019, Lemma 2, made position by
    position). Valid for any rates: where a step can expand, rho is above 1. O(steps).

    Parameters
    ----------
    rates
        Learning rate of every step, restarts included; the last epoch may be a part of one.
    relation
        REPLACE_ONE, or ZERO_OUT with half the bound.
    average_every
        At the end of every such epoch the weights become the mean of all iterates since the last
        time (the point they started from excluded). Epochs after the last time are not averaged.
    batches
        See `Batches`.
    """
    loop = Loop(rates, relation, average_every, **batches)
    visits = loop.visits(loop.rates * loop.worth()[0])
    return loop.summed(visits, f"{_STEP}, position by position", loop.said())


def nsgd(
    *, epochs: int, eta0: float, relation: Relation, **batches: Unpack[Batches]
) -> Sensitivity:
    """`contraction` of Chen, Lee & Kifer's NSGD: learning rate eta0 / s in the s-th epoch."""
    rates = _per_epoch(epochs, eta0, epochs, **batches)
    bound = contraction(rates=rates, relation=relation, **batches)
    theorem = "Chen, Lee & Kifer 2019, Lemma 2, rho taken epoch by epoch, R of the data term alone"
    return dataclasses.replace(bound, theorem=theorem)


def rsgd_ar(
    *, epochs: int, eta0: float, tau: int, relation: Relation, **batches: Unpack[Batches]
) -> Sensitivity:
    """`contraction` of Chen, Lee & Kifer's RSGD-AR: average and restart every `tau` epochs.

    The learning rate is eta0 / h in the h-th epoch since the last restart. The paper's Algorithm 2
    has neither the averaging nor the restart; averaging alone would UNDERSTATE the bound. With
    averaging the FIRST batch can be the worst.
    """
    tau = checks.whole("tau", tau, at_least=1)
    rates = _per_epoch(epochs, eta0, tau, **batches)
    bound = contraction(rates=rates, relation=relation, average_every=tau, **batches)
    more = "with the averaging and the restart that Algorithm 2 lacks"
    theorem = f"Chen, Lee & Kifer 2019, Lemma 2 and Proposition 3, {more}"
    return dataclasses.replace(bound, theorem=theorem)


def reshuffled_contributions(
    *,
    rates: Numbers,
    relation: Relation,
    average_every: int | None = None,
    **batches: Unpack[Batches],
) -> Reshuffled:
    """`contraction` where every epoch has a new permutation: each visit's part of the bound.

    The recurrence is linear in what the visits add, and rho does not depend on where the record
    is, so parts add up, also through averages. Parameters as in `contraction`.
    """
    loop = Loop(rates, relation, average_every, **batches)
    parts = UP * loop.visits(loop.rates * loop.worth()[0])
    if loop.left_out:
        parts = np.column_stack([parts, np.zeros(len(parts))])
    epochs = tuple(tuple(epoch) for epoch in parts.tolist())
    theorem = f"{_STEP}, visit by visit, for a new permutation in every epoch"
    return Reshuffled(loop.shares, relation, theorem, loop.said(), epochs)


def bolt_on_convex(
    *, rates: Numbers, relation: Relation, same_order: bool = True, **batches: Unpack[Batches]
) -> Sensitivity:
    """Wu et al. 2017: 2 R sum of eta / |B| over the record's visits, if no step expands.

    A started last pass counts (a pass is not a fraction of itself: `bolt_on_fractional`), and a
    smaller last batch has its own smaller divisor. With `same_order` the numbers are those of each
    batch; without, one number for any order of each pass, worst batch by worst batch:
    2 R eta (passes / r + [steps are left] / |B|) for a constant rate and a last batch of r.
    """
    loop = Loop(rates, relation, **batches)
    if len(loop.rates) and float((loop.rates * loop.smooth).max()) > 2:
        above = f"{loop.rates.max():.6g} is above 2 / smoothness = {2 / loop.smooth:.6g}"
        raise NotApplicable(f"The largest learning rate {above}; lower it.")
    # A rate that is 2 / smoothness to the last bit may still expand by a rounding each step.
    visits = loop.visits(loop.rates) * (1 + 4 * EPS * (len(loop.rates) + 4))
    whole, rest = divmod(len(loop.rates), len(loop.sizes))
    said = (
        f"every learning rate <= 2 / smoothness = {2 / loop.smooth:.6g}",
        f"{whole} whole passes and {rest} steps of another",
    )
    return loop.visited(visits, same_order, "Wu et al. 2017, convex: no step expands", said)


def bolt_on_fractional(
    *, constants: Constants, n: int, batch_size: int, rate: float, steps: int
) -> float:
    """The papers' 2 R eta k / |B| with k = steps |B| / n passes, a fraction. NOT A BOUND.

    A record may be among those that the started last pass has seen, and in the smaller last batch.
    For comparison with Wu et al. 2017 as Hyland & Tople use it, under replace-one; the bound is
    `bolt_on_convex`.
    """
    batch_sizes(n, batch_size)  # refuses what are no sizes
    passes = checks.whole("steps", steps) * batch_size / n
    return 2 * constants.lipschitz * checks.positive("rate", rate) * passes / batch_size


def bolt_on_strongly_convex(
    *,
    steps: int,
    relation: Relation,
    schedule_smooth: float | None = None,
    schedule_strongly_convex: float | None = None,
    same_order: bool = True,
    **batches: Unpack[Batches],
) -> Sensitivity:
    """Wu et al. 2017 for eta_t = min(1 / b, 1 / (g t)): 2 R / (g n), for every batch size.

    That is after whole passes over equal batches. In general a visit adds at most
    2 R / (g |B| steps), whenever it was: after a step t with g t >= b the factors 1 - mu / (g k)
    <= (k - 1) / k leave t / steps of 2 R / (g t |B|); an earlier one adds 2 R / (b |B|), and at
    most (t* - 1) / steps of it is left, where t* - 1 < b / g is the last such step. So smaller
    last batches and started passes are covered, at their own price. Not divided by the batch size
    once more, as some code does.

    `schedule_smooth` (b) must be at least the loss' smoothness, `schedule_strongly_convex` (g) at
    most its strong convexity; both are taken from `constants` if not given. t counts updates, and
    the schedule never restarts. `same_order` is as in `bolt_on_convex`.
    """
    steps = checks.whole("steps", steps)
    loop = Loop(np.zeros(steps), relation, **batches)
    constants = loop.constants
    b = loop.smooth if schedule_smooth is None else schedule_smooth
    g = constants.strongly_convex if schedule_strongly_convex is None else schedule_strongly_convex
    if not (b >= loop.smooth and 0 < g <= constants.strongly_convex):
        loss = f"smoothness {loop.smooth:.6g} and strong convexity {constants.strongly_convex:.6g}"
        given = f"min(1 / {b:.6g}, 1 / ({g:.6g} t))"
        raise NotApplicable(f"The schedule {given} must be by the loss' own {loss}; use those.")
    # Rates are rounded to a few bits, which the factors see as a sum of 1/k.
    safe = 1 + EPS * (16 + 4 * math.log(max(steps, 1)))
    visits = loop.visits(np.full(steps, safe / (g * max(steps, 1))))
    loss = f"smoothness {loop.smooth:.6g} and strong convexity {constants.strongly_convex:.6g}"
    said = (
        f"rates min(1 / {b:.6g}, 1 / ({g:.6g} t)), never restarted, for a loss of {loss}",
        f"{steps} steps in batches of {sorted(set(loop.sizes))}",
    )
    return loop.visited(visits, same_order, "Wu et al. 2017, strongly convex", said)


def fixed_step_limit(*, rate: float, relation: Relation, **batches: Unpack[Batches]) -> Sensitivity:
    """2 eta R / (|B| (1 - rho^m)) after any number of steps: Chen, Lee & Kifer 2019, Prop. 2.

    A fixed learning rate, m batches cycled in one order, no averaging, rho < 1. For m = 1 and
    eta = 2 / (L + mu) it is 2 R / (n mu).
    """
    loop = Loop([rate], relation, **batches)
    gap = float(loop.gaps()[0])
    if gap <= 0:
        below = f"use a rate below 2 / smoothness = {2 / loop.smooth:.6g} and an l2 term"
        raise NotApplicable(f"A step does not contract (rho = {1 - gap:.6g}); {below}.")
    many = len(loop.sizes)
    left = -math.expm1(many * math.log1p(-gap)) if gap < 1 else 1.0
    kicks = [UP * loop.jump * rate / by for by in loop.divisors.tolist()]
    theorem = "Chen, Lee & Kifer 2019, Proposition 2: any number of passes at a fixed rate"
    said = (f"rho = {1 - gap:.6g} < 1, {many} batches",)
    return loop.sensitivity([UP * kick / left for kick in kicks], theorem, said)


def gradient_descent(
    *, constants: Constants, n: int, rate: float, steps: int, relation: Relation
) -> Sensitivity:
    """Full batches, fixed rate: (2 eta R / n) (1 - rho^T) / (1 - rho) (docs/math.md 10.3)."""
    loop = Loop([rate], relation, constants=constants, n=n, batch_size=n)
    gap, steps = float(loop.gaps()[0]), checks.whole("steps", steps)
    total = UP * loop.jump * rate / n * _geometric(gap, steps)
    theorem = f"{_STEP}; {steps} steps on all records"
    return loop.sensitivity([total], theorem, (f"rho = {1 - gap:.6g}",))


def zhang_gradient_descent(
    *, constants: Constants, n: int, rate: float, relation: Relation
) -> Sensitivity:
    """Zhang et al.'s 5 R (L + mu) / (n mu L), as Chen, Lee & Kifer quote it: for comparison.

    Full batches, any number of steps of rate <= 2 / (L + mu), where 2 R / (n mu) holds.
    """
    loop = Loop([rate], relation, constants=constants, n=n, batch_size=n)
    mu, smooth = constants.strongly_convex, constants.smooth
    if mu == 0 or rate * (smooth + mu) > 2:
        most = f"2 / (L + mu) = {2 / (smooth + mu):.6g}"
        raise NotApplicable(f"It needs mu > 0 and a rate <= {most}, not {mu:.6g} and {rate:.6g}.")
    total = UP * 2.5 * loop.jump * (smooth + mu) / (n * mu * smooth)
    said = (f"rate {rate:.6g} <= 2 / (L + mu) = {2 / (smooth + mu):.6g}",)
    return loop.sensitivity([total], "Zhang et al. 2017, quoted; 2 R / (n mu) is smaller", said)


def _per_epoch(epochs: int, eta0: float, restart: int, **batches: Unpack[Batches]) -> Floats:
    """Rates eta0 / h, h the epoch since the last restart, as `sgd.Schedule.per_epoch` has them."""
    sizes = batch_sizes(batches["n"], batches["batch_size"], batches.get("drop_last", False))
    epochs = checks.whole("epochs", epochs)
    since = np.arange(epochs) % max(restart, 1) + 1
    return np.repeat(checks.positive("eta0", eta0) / since, len(sizes))


def _geometric(gap: float, terms: int) -> float:
    """1 + rho + ... + rho^(terms - 1) for rho = 1 - gap, rounded up; also above 1."""
    if gap == 0 or terms == 0:
        return float(terms)
    if gap >= 1:
        return 1.0
    exponent = terms * math.log1p(-gap)
    if exponent > 400:
        raise NotApplicable(f"With rho = {1 - gap:.6g} distances grow beyond all; lower the rate.")
    return -math.expm1(exponent) / gap * (1 + 8 * EPS * (2 + max(exponent, 0.0)))
