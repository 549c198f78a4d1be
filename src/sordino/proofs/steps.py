"""`Run`: noisy steps as plain numbers, and `run_of`: the one way from a training to them.

`run_of` reads a `TrainSpec` and the `Constants` of its loss, and checks the preconditions of the
theorems on the last iterate, once for everybody who asks the table of `theorems.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import bdtrc

from sordino import checks
from sordino.accounting.dp_sgd import NoisySteps
from sordino.accounting.last_iterate.hidden_state import HiddenState
from sordino.errors import NotApplicable
from sordino.models.constants import Constants
from sordino.privacy import SECRET, VARYING, Relation, Sampling
from sordino.proofs.proof import NORM_SLACK, Released
from sordino.sensitivity import Batches
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats

_BOUNDED = "for rows within their norm bound"


@dataclass(frozen=True)
class Run:
    """Noisy steps, what of them is released, who is protected, and what is known of the loss.

    Parameters
    ----------
    steps
        The noisy steps, of all models together.
    released
        "all" iterates, or the "final" one only.
    hidden
        The numbers of the hidden iterates, or why theorems on the last iterate do not apply.
    linear
        Whether gradients do not depend on the weights.
    problems
        Models trained on the same batches, each with noise of its own: one record moves all of
        them, so together they are one model whose gradients are sqrt(problems) longer, which
        `steps` counts in.
    phases
        Of a public schedule of different steps, one after another; empty if all are alike. `steps`
        is then the first of them, and its noise a factor on the noise of all.
    """

    steps: NoisySteps
    released: Released
    hidden: HiddenState | NotApplicable
    linear: bool = False
    problems: int = 1
    phases: tuple[NoisySteps, ...] = ()

    @property
    def scaled(self) -> tuple[NoisySteps, ...]:
        """The phases with the noise that they have; a run of equal steps is one."""
        if not self.phases:
            return (self.steps,)
        factor = self.steps.noise_multiplier
        noises = [factor * phase.noise_multiplier for phase in self.phases]
        pairs = zip(self.phases, noises, strict=True)
        return tuple(replace(phase, noise_multiplier=noise) for phase, noise in pairs)

    @property
    def rows_per_person(self) -> int:
        """Size of the group protected."""
        return self.steps.max_rows_per_person

    def with_noise(self, noise_multiplier: float) -> Run:
        """The same run with other noise."""
        return replace(self, steps=replace(self.steps, noise_multiplier=noise_multiplier))

    def assumptions(self, spec: TrainSpec, released: Released) -> tuple[str, ...]:
        """What a guarantee about the run of `spec` rests on beside what was checked."""
        assumes = [
            f"batches drawn by {self.steps.sampling} sampling, as trained",
            "initial weights and all settings chosen without looking at these data",
            f"noise of {spec.noise_multiplier:g} clipping norms on each sum of gradients",
        ]
        if released == "final":
            assumes += [
                f"a convex and smooth loss with the constants given, {_BOUNDED}",
                "plain SGD without momentum, the regulariser outside the clip",
                "nothing but the last weights leaves the building: no other iterate, no average",
            ]
        allocated = self.steps.sampling == Sampling.ALLOCATION
        if self.steps.relation is Relation.ADD_OR_REMOVE_ONE:
            numbers = "steps, steps per epoch" if allocated else "steps, sample rate"
            assumes.append(f"{numbers} and divisor are public numbers, not made from n")
        if allocated:
            assumes += [
                "each record's step is drawn anew every epoch, independently of all other records",
                "steps of records and sizes of batches stay secret, and empty batches get noise",
            ]
        if self.steps.sampling in SECRET:
            assumes.append("the order of the records is uniform and stays secret")
        return tuple(assumes)


def run_of(
    spec: TrainSpec,
    constants: Constants | None,
    n: int,
    relation: Relation,
    released: Released = "final",
    *,
    problems: int = 1,
    rows_per_person: int = 1,
) -> Run:
    """Turn a training into plain numbers.

    Parameters
    ----------
    spec, constants, n, relation
        The training, what is proved of its loss (None if nothing is), the number of records, and
        what counts as a neighbouring dataset.
    released, problems, rows_per_person
        As in `Run`; the last is the size of the group protected.

    Returns
    -------
    Run
        Its `hidden` says why the last iterate's theorems do not apply, where they do not.

    Examples
    --------
    >>> from sordino.models.constants import ObjectiveSpec
    >>> how = {"order": "poisson", "max_grad_norm": 1.0, "noise_multiplier": 2.0}
    >>> spec = TrainSpec(ObjectiveSpec("logistic"), 0.1, batch_size=10, steps=50, **how)
    >>> run_of(spec, None, 100, Relation.ZERO_OUT).steps.sample_rate
    0.1
    """
    problems = checks.whole("problems", problems, at_least=1)
    per_epoch = None if spec.order == Sampling.POISSON else spec.batches_per_epoch(n)
    rate = min(1.0, spec.batch_size / n) if spec.sample_rate is None else spec.sample_rate
    if spec.order == Sampling.ALLOCATION and per_epoch is not None:
        rate = 1 / per_epoch
    bound, noise = gradient_bound(spec, constants), 0.0
    if spec.noise_multiplier:
        assert spec.max_grad_norm is not None
        # Where the loss itself bounds gradients below the clip, the noise is worth more.
        noise = spec.noise_multiplier * spec.max_grad_norm / bound if bound else math.inf
    steps = NoisySteps(
        noise_multiplier=noise / math.sqrt(problems),
        sample_rate=rate,
        steps=spec.total_steps(n),
        sampling=Sampling.FULL
        if spec.batch_size >= n and spec.order not in VARYING
        else spec.order,
        relation=relation,
        steps_per_epoch=per_epoch,
        max_rows_per_person=rows_per_person,
    )
    try:
        hidden: HiddenState | NotApplicable = _hidden(spec, constants, n, steps)
    except NotApplicable as refusal:
        hidden = refusal
    return Run(steps, released, hidden, problems=problems)


def refuse_private_numbers(spec: TrainSpec, n: int, relation: Relation) -> None:
    """Refuse settings that would change with the number of records, where that is private."""
    if relation is not Relation.ADD_OR_REMOVE_ONE:
        return
    private, varying = "where the number of records is private", spec.order in VARYING
    if varying and not spec.draws_by_public_numbers:
        number = "sample_rate" if spec.order == Sampling.POISSON else "steps_per_epoch"
        checks.fail(number, None, f"to be given {private}")
    if spec.steps_per_epoch is None:  # else an epoch is a public number of steps
        follows = f"not to follow epochs {private}"
        if spec.epochs is not None:
            checks.fail("epochs", spec.epochs, f"not to be given {private}", "Pass steps.")
        if spec.schedule.kind == "per-epoch" or spec.restart_every is not None:
            checks.fail("learning_rate", spec.schedule.kind, follows)
        if spec.average_every is not None:
            checks.fail("average_every", spec.average_every, follows)
    if not varying and spec.batch_size >= n:
        hint = "Use zero-out, or order='poisson'."
        checks.fail("batch_size", spec.batch_size, f"not to be n {private}", hint)


def gradient_bound(spec: TrainSpec, constants: Constants | None) -> float:
    """Norm of one record's gradient of the data term, at most: the clip or the loss' own bound."""
    own = math.inf if constants is None else constants.lipschitz * (1 + NORM_SLACK)
    return min(own, math.inf if spec.max_grad_norm is None else spec.max_grad_norm)


def _hidden(spec: TrainSpec, constants: Constants | None, n: int, steps: NoisySteps) -> HiddenState:
    """The last iterate's numbers, each precondition of docs/math.md 4 checked."""
    constants = convex_constants(spec, constants)
    if spec.order == Sampling.ALLOCATION:
        raise NotApplicable("Of allocation no theorem on the last iterate is known; use Poisson.")
    if spec.average_every is not None:
        raise NotApplicable("It is about the last iterate, not averages; use average_every=None.")
    if not spec.divides_by_batch_size and spec.batch_size < n:
        raise NotApplicable("Sums are divided by each batch's own size; use fixed_divisor=True.")
    bound = gradient_bound(spec, constants)
    if math.isinf(bound):
        raise NotApplicable("Gradients are not bounded; set max_grad_norm or take another loss.")
    rates = rates_of(spec, n)
    curvature, overflow = _largest_curvature(spec, constants, n, steps, float(np.max(rates)))
    rho = np.maximum(np.abs(1 - rates * constants.strongly_convex), np.abs(1 - rates * curvature))
    diameter = math.inf if spec.radius is None else 2 * spec.radius
    shares = None
    if spec.order in SECRET and spec.batch_size < n:  # of the records in each batch of a pass
        each = [spec.batch_size / n] * spec.batches_per_epoch(n)
        if not spec.drop_last and n % spec.batch_size:
            each[-1] = (n % spec.batch_size) / n
        shares = tuple(each)
    first, second = rho.tolist(), (rates * bound / spec.batch_size).tolist()
    if len(rates) == 1:
        return HiddenState(first[0], second[0], diameter, shares, overflow)
    return HiddenState(tuple(first), tuple(second), diameter, shares, overflow)


def convex_constants(spec: TrainSpec, constants: Constants | None) -> Constants:
    """The constants, rows' slack in norm multiplied in; refused unless convex and smooth.

    What moves the weights must be the gradient of a convex and smooth function also where it is
    clipped. A linear model's is: a clipped derivative of its score is still monotone. A softmax' is
    not (docs/math.md 4.6), so there the clip must leave every gradient as it is.
    """
    if not spec.objective.is_convex:
        leaks = "the last iterate can leak as much as all of them (Annamalai 2024)"
        kind = spec.objective.kind
        why = f"The loss of this model ({kind}) is not convex: {leaks}"
        raise NotApplicable(f"{why}; use a linear model.")
    if constants is None:
        raise NotApplicable("Nothing is known of the loss; pass objective.constants(norm).")
    if constants.strongly_convex < 0 or math.isinf(constants.smooth):
        has = f"strongly_convex={constants.strongly_convex}, smooth={constants.smooth}"
        raise NotApplicable(f"The loss must be convex and smooth, and it has {has}.")
    # The l2 term is never clipped: TrainSpec adds it outside.
    most = constants.lipschitz * (1 + NORM_SLACK)
    clip = math.inf if spec.max_grad_norm is None else spec.max_grad_norm
    if not spec.objective.is_linear and clip < most:
        long = f"Gradients of this softmax can be as long as {most:.6g}"
        broken = f"really clipped, to {clip:.6g}, they are those of no convex loss"
        raise NotApplicable(f"{long}, and {broken}; leave out max_grad_norm.")
    data_term = constants.smooth - constants.strongly_convex
    smooth = constants.strongly_convex + data_term * (1 + NORM_SLACK) ** 2
    return Constants(constants.lipschitz, smooth, constants.strongly_convex)


def batches_of(spec: TrainSpec, constants: Constants | None, n: int) -> Batches:
    """What theorems on sensitivity ask of a training; refused unless convex and smooth."""
    checked = convex_constants(spec, constants)
    return Batches(
        constants=replace(checked, lipschitz=gradient_bound(spec, checked)),
        n=n,
        batch_size=spec.batch_size,
        drop_last=spec.drop_last,
        divisor=float(spec.batch_size) if spec.divides_by_batch_size else None,
    )


def rates_of(spec: TrainSpec, n: int) -> Floats:
    """Learning rate of every step; one number if all are the same."""
    schedule = spec.schedule
    if schedule.kind == "constant":
        return np.array([schedule.rate])
    per_epoch = spec.batches_per_epoch(n)
    parts, left, update, epoch = [], spec.total_steps(n), 1, 1
    while left > 0:
        many = min(per_epoch, left)
        parts.append(schedule.over(update, many, epoch))
        left, update, epoch = left - many, update + many, epoch + 1
        if spec.restart_every is not None and (epoch - 1) % spec.restart_every == 0:
            update, epoch = 1, 1
    return np.concatenate(parts) if parts else np.array([schedule.at(1, 1)])


def _largest_curvature(
    spec: TrainSpec, constants: Constants, n: int, steps: NoisySteps, rate: float
) -> tuple[float, float]:
    """Curvature of one step's objective at most, and the chance that a Poisson batch exceeds it."""
    weight = constants.strongly_convex
    data_term = constants.smooth - weight
    poisson = steps.sampling == Sampling.POISSON
    # No batch is larger than the divisor. (A full batch divided by a larger number neither.)
    most = weight + data_term * max(1.0, min(n, spec.batch_size) / spec.batch_size)
    # Poisson: c = 1 - rate * l2 as long as rate * (2 l2 + data_term |B| / divisor) <= 2.
    limit = 2 * weight + data_term if poisson else most
    if rate * limit > 2 * (1 + 1e-12):
        bound = f"2 / smoothness = {2 / limit:.4g}"
        raise NotApplicable(f"The learning rate {rate:.4g} is above {bound}; lower it.")
    if not poisson:
        return most, 0.0
    room = max(0.0, 2 / rate - 2 * weight)
    fits = n if data_term * n <= room * spec.batch_size else int(room * spec.batch_size / data_term)
    if fits < spec.batch_size:
        few = f"only Poisson batches of up to {fits} records, not the expected {spec.batch_size}"
        raise NotApplicable(f"With learning rate {rate:.4g} {few}, keep distances; lower it.")
    overflow = 0.0
    if fits < n:
        # The record itself may be one of the batch; the others' count does not depend on it.
        overflow = steps.steps * float(bdtrc(fits - 1, n, steps.sample_rate))
    return weight + data_term * fits / spec.batch_size, min(1.0, overflow)
