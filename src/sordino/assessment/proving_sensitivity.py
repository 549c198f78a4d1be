"""Theorems on how far one record moves the final weights, asked of one release.

Each gets the release's own schedule and constants, and adds the same rounding; where a condition
of it does not hold it raises `NotApplicable` with that condition.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from sordino import sensitivity
from sordino.accounting.group import group
from sordino.accounting.profile import GaussianProfile, Profile
from sordino.accounting.shifted import Numbers
from sordino.objectives.objective import Constants
from sordino.privacy import SECRET, NotApplicable
from sordino.proofs.evidence_kinds import OutputEvidence
from sordino.proofs.output import OutputPerturbation
from sordino.proofs.training import checked_convexity, gradient_bound, rates_of
from sordino.sensitivity import Sensitivity

_AVERAGED = (
    "Averages of iterates are released, and the theorem is about the last iterate; train with "
    "average_every=None."
)


class _Loop(TypedDict):
    constants: Constants
    n: int
    batch_size: int
    drop_last: bool
    divisor: float | None


@dataclass(frozen=True)
class Released:
    """A release and the numbers that theorems on sensitivity take."""

    evidence: OutputEvidence
    found: OutputPerturbation

    @functools.cached_property
    def constants(self) -> Constants:
        """Of the loss, slack in the norms and the clip counted."""
        spec = self.evidence.spec
        constants = checked_convexity(spec, self.evidence.constants)
        return dataclasses.replace(constants, lipschitz=gradient_bound(spec, constants))

    @functools.cached_property
    def rates(self) -> Numbers:
        """Of every step."""
        spec, rows = self.evidence.spec, self.evidence.rows
        return np.broadcast_to(rates_of(spec, rows), (spec.total_steps(rows),))

    @property
    def top_rate(self) -> float:
        """The largest learning rate."""
        return float(np.max(self.rates, initial=0.0))

    @property
    def loop(self) -> _Loop:
        """What all theorems on sensitivity take."""
        spec = self.evidence.spec
        return _Loop(
            constants=self.constants,
            n=self.evidence.rows,
            batch_size=spec.batch_size,
            drop_last=spec.drop_last,
            divisor=float(spec.batch_size) if spec.divides_by_batch_size else None,
        )

    @functools.cached_property
    def rounding(self) -> float:
        """What float64 adds to the distance of two runs of one problem: once for each."""
        evidence = self.evidence
        return 2 * sensitivity.rounding(
            rates=self.rates,
            average_every=evidence.spec.average_every,
            features=evidence.columns,
            norm=evidence.norm,
            start_norm=evidence.start_norm,
            **self.loop,
        )

    @property
    def same_order(self) -> bool:
        """Whether every pass has the same batches."""
        return self.found.epochs is None

    @property
    def secret_place(self) -> bool:
        """Whether a secret order hides in which of several places a record is."""
        secret = self.evidence.spec.order in SECRET
        return secret and len(self.found.sensitivity.positions) > 1

    @property
    def batches(self) -> int:
        """Batches a pass."""
        return self.evidence.spec.steps_per_epoch(self.evidence.rows)

    def moved(self, bound: Sensitivity) -> float:
        """How far one record moves all models together, rounding included, at worst."""
        return bound.plus(self.rounding).scaled(math.sqrt(self.evidence.problems)).worst

    def gaussian(self, moved: float, theorem: str) -> Profile:
        """The exact Gaussian mechanism, for the whole group."""
        one = GaussianProfile(
            parameter=moved / self.evidence.sigma * (1 + 1e-15),
            relation=self.evidence.relation,
            theorem=theorem,
        )
        return group(one, self.evidence.rows_per_person)


@dataclass(frozen=True)
class Theorem:
    """A way to bound how far one record moves the final weights."""

    name: str
    source: str
    ask: Callable[[Released], Sensitivity]


def _bolt_on_convex(release: Released) -> Sensitivity:
    # Where no step expands, bounds only grow from step to step, so an average of iterates is
    # bounded by that of the last of them: averaging changes nothing.
    found = sensitivity.bolt_on_convex(
        rates=release.rates,
        relation=release.evidence.relation,
        same_order=release.same_order,
        **release.loop,
    )
    if release.evidence.spec.average_every is None:
        return found
    said = "an average of iterates is no farther than the last of them is sure to be"
    return dataclasses.replace(found, conditions=(*found.conditions, said))


def _bolt_on_strongly_convex(release: Released) -> Sensitivity:
    evidence, constants = release.evidence, release.constants
    spec, schedule = evidence.spec, evidence.spec.schedule
    if constants.strongly_convex == 0:
        raise NotApplicable("The loss is not strongly convex; train with l2 > 0.")
    if schedule.kind != "strongly-convex" or spec.restart_every is not None:
        raise NotApplicable(
            "The learning rate must be min(1 / smoothness, 1 / (strong convexity t)) at the t-th "
            "step, without restarts; another schedule was used."
        )
    if spec.average_every is not None:
        raise NotApplicable(_AVERAGED)
    steepest = (constants.smooth + constants.strongly_convex) / schedule.smooth
    said: tuple[str, ...] = ()
    if schedule.smooth < constants.smooth and steepest <= 2:
        # The schedule was made for norms without slack. All that the theorem takes from the
        # smoothness is that steps contract by 1 - rate * strong convexity, which is so here.
        constants = dataclasses.replace(constants, smooth=schedule.smooth)
        said = (f"largest rate x (smoothness + strong convexity) = {steepest:.6g} <= 2",)
    loop: dict[str, Any] = {**release.loop, "constants": constants}
    found = sensitivity.bolt_on_strongly_convex(
        steps=len(np.asarray(release.rates)),
        relation=evidence.relation,
        schedule_smooth=schedule.smooth,
        schedule_strongly_convex=schedule.strongly_convex,
        same_order=release.same_order,
        **loop,
    )
    return dataclasses.replace(found, conditions=(*found.conditions, *said))


def _constant_rate(release: Released) -> float:
    spec = release.evidence.spec
    if spec.schedule.kind != "constant":
        raise NotApplicable("It is about a constant learning rate, and this one falls.")
    if spec.average_every is not None:
        raise NotApplicable(_AVERAGED)
    return spec.schedule.rate


def _fixed_step_limit(release: Released) -> Sensitivity:
    rate = _constant_rate(release)
    if not release.same_order:
        raise NotApplicable("Every pass must have the same batches; use order='permute-once'.")
    relation = release.evidence.relation
    return sensitivity.fixed_step_limit(rate=rate, relation=relation, **release.loop)


def _all_records(release: Released) -> float:
    """The rate of a descent on all records, which is what two theorems are about."""
    rows, batch = release.evidence.rows, release.evidence.spec.batch_size
    if batch != rows:
        raise NotApplicable(
            f"Every step must use all {rows:,} records, and batches have {batch:,}; use "
            "method='output-gd'."
        )
    return _constant_rate(release)


def _gradient_descent(release: Released) -> Sensitivity:
    return sensitivity.gradient_descent(
        constants=release.constants,
        n=release.evidence.rows,
        rate=_all_records(release),
        steps=len(np.asarray(release.rates)),
        relation=release.evidence.relation,
    )


def _zhang(release: Released) -> Sensitivity:
    return sensitivity.zhang_gradient_descent(
        constants=release.constants,
        n=release.evidence.rows,
        rate=_all_records(release),
        relation=release.evidence.relation,
    )


SENSITIVITIES = (
    Theorem(
        "bolt-on, convex (Wu et al.)",
        "Wu et al. 2017, convex: every visit of the record adds up",
        _bolt_on_convex,
    ),
    Theorem(
        "bolt-on, strongly convex (Wu et al.)",
        "Wu et al. 2017, strongly convex: 2 R / (strong convexity n)",
        _bolt_on_strongly_convex,
    ),
    Theorem(
        "any number of passes (Chen et al.)",
        "Chen, Lee & Kifer 2019, Proposition 2: a fixed rate, any number of passes",
        _fixed_step_limit,
    ),
    Theorem(
        "gradient descent, closed form",
        "contraction of full-batch steps, summed (docs/math.md 10.3)",
        _gradient_descent,
    ),
    Theorem(
        "gradient descent (Zhang et al.)",
        "Zhang et al. 2017, quoted by Chen, Lee & Kifer 2019: 5 R (L + mu) / (n mu L)",
        _zhang,
    ),
)
