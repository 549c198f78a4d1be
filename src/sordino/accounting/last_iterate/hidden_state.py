"""`HiddenState`: the numbers of an iteration whose earlier iterates stay inside."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino.accounting.dp_sgd import NoisySteps, pld, refuse
from sordino.accounting.last_iterate import convex
from sordino.accounting.last_iterate.permuted import hockey_mixture
from sordino.accounting.pld.loss import Direction
from sordino.accounting.profile import GaussianProfile, Profile
from sordino.errors import NotApplicable
from sordino.privacy import PASSES, Sampling
from sordino.types import Floats

MOST_WORK = 20_000_000
"""Positions times steps for which a schedule is gone through position by position."""
PLACES = 24
"""Places in the last pass told apart where batches are shuffled; others count as the next later.

Fewer in runs so long that each costs seconds.
"""


@dataclass(frozen=True)
class HiddenState:
    """What the theorems on the last iterate need to know; `sordino.proofs` checks it is so.

    Parameters
    ----------
    contraction
        Lipschitz constant of each step's map, in both worlds; one number, or one a step.
    unit
        Learning rate times gradient bound over divisor: what one record moves a step at most, and
        the standard deviation of the noise at noise multiplier 1. One number, or one a step.
    diameter
        Of the convex set onto which iterates are projected.
    shares
        Share of the records in each batch of a pass; None: the sample rate, and the rest in the
        last.
    overflow
        Probability that some Poisson batch is too large for `contraction`; it is added to delta.
    """

    contraction: float | tuple[float, ...]
    unit: float | tuple[float, ...]
    diameter: float = math.inf
    shares: tuple[float, ...] | None = None
    overflow: float = 0.0

    @property
    def is_constant(self) -> bool:
        """Whether every step has the same numbers."""
        return not isinstance(self.contraction, tuple) and not isinstance(self.unit, tuple)

    def profile(self, run: NoisySteps, delta: float) -> Profile:
        """The last iterate's profile, never worse than composition over all iterates.

        `delta` is where free choices in a proof are made; the profile holds at every delta.
        """
        refuse(run)
        if run.sampling in (Sampling.FIXED_SIZE, Sampling.ALLOCATION):
            drawn = "allocation" if run.sampling == Sampling.ALLOCATION else "batches of fixed size"
            raise NotApplicable(
                f"Nothing is proved of the last iterate with {drawn}; use Poisson sampling, full "
                "batches or passes."
            )
        if run.sampling == Sampling.SHUFFLE:
            return self._shuffled(run)
        if run.sampling in PASSES:
            return self._in_passes(run)
        hidden: Profile
        if run.sampling != Sampling.FULL and run.sample_rate < 1:
            if not self.is_constant:
                raise NotApplicable("With Poisson batches this needs a constant learning rate.")
            spent, numbers = max(delta - self.overflow, delta / 2), self._constants(run)
            hidden = convex.poisson(sample_rate=run.sample_rate, delta=spent, **numbers)
        elif self.is_constant:
            hidden = convex.full_batch(**self._constants(run))
        else:
            hidden = self._scheduled(run, np.ones(run.steps, dtype=bool))
        if run.sampling == Sampling.FULL or self.overflow == 0:
            return hidden
        return self._unless_overflow(hidden, run, delta)

    def _numbers(self, run: NoisySteps) -> tuple[Floats, Floats, Floats]:
        unit = np.asarray(self.unit, dtype=np.float64)
        return np.asarray(self.contraction), run.sensitivity * unit, run.noise_multiplier * unit

    def _constants(self, run: NoisySteps) -> dict[str, Any]:
        contraction, shift, noise = self._numbers(run)
        return {
            "contraction": float(contraction),
            "shift": float(shift),
            "noise": float(noise),
            "steps": run.steps,
            "relation": run.relation,
            "diameter": self.diameter,
        }

    def _scheduled(self, run: NoisySteps, met: npt.NDArray[np.bool_]) -> GaussianProfile:
        """Any schedule; `met` says which steps use the record."""
        contraction, shift, noise = self._numbers(run)
        numbers = [np.broadcast_to(part, (run.steps,)) for part in (contraction, shift, noise)]
        numbers[1] = numbers[1] * met
        if math.isinf(self.diameter):
            return convex.schedule(*numbers, relation=run.relation)
        return convex.bounded_domain(*numbers, diameter=self.diameter, relation=run.relation)

    def _unless_overflow(self, profile: Profile, run: NoisySteps, delta: float) -> Profile:
        """The profile with the chance of too large a batch, or composition, if that is less."""
        note = f"delta includes {self.overflow:.3g} for a batch too large for the learning rate"
        hidden = WithSlack(
            base=profile,
            slack=self.overflow,
            relation=profile.relation,
            theorem=profile.theorem,
            notes=(*profile.notes, note),
        )
        numbers = run.noise_multiplier, run.sample_rate, run.steps
        composed = pld(*numbers, sampling=run.sampling, relation=run.relation)
        if hidden.epsilon(delta) < composed.epsilon(delta):
            return hidden
        return composed.noted(
            f"hiding iterates gains nothing: with chance {self.overflow:.3g} some batch is too "
            "large for the learning rate; a lower one would help"
        )

    def _in_passes(self, run: NoisySteps) -> Profile:
        if self.is_constant:
            numbers = self._constants(run)
            if run.sampling == Sampling.CYCLIC:
                return convex.cyclic(batches=run.batches, **numbers)
            shares = self._shares(run)
            return convex.permuted_once(batches=run.batches, weights=shares, **numbers)
        if run.batches * run.steps > MOST_WORK:
            raise NotApplicable(
                f"{run.steps} steps times {run.batches} batches a pass are too many for a varying "
                "learning rate; use a constant learning rate."
            )
        places = np.arange(run.steps) % run.batches
        profiles = [self._scheduled(run, places == place) for place in range(run.batches)]
        if run.sampling == Sampling.CYCLIC:
            return max(profiles, key=lambda profile: profile.mu)
        return _mixture([profile.mu for profile in profiles], self._shares(run), run)

    def _shares(self, run: NoisySteps) -> tuple[float, ...]:
        """Share of each batch; records that no batch holds count with the last, the worst."""
        if self.shares is not None:
            missing = 1 - math.fsum(self.shares)
            return (*self.shares[:-1], self.shares[-1] + missing)
        # Every batch has the common size but the last, which has what is left.
        met = np.minimum(np.arange(run.batches) * run.sample_rate, 1.0)
        return tuple(np.diff(np.append(met, 1.0)).tolist())

    def _shuffled(self, run: NoisySteps) -> Profile:
        """A new secret order each pass: the last meeting's place is random, earlier ones latest.

        Moving a meeting to a later step of its pass never lowers the master bound (constant
        numbers, contraction <= 1), so all but the last may be taken at the end of their passes,
        whatever the orders were; over the last one's place delta is averaged.

        Why: mu^2 is the least energy of a curve from (0, 0) to (V_T, A_T) that stays below the
        points (V_k, A_k). A later meeting lowers some A_k and raises all from itself on by a
        d >= 0, as contractions <= 1 fade it less. If g is the best curve there, max(g - d, 0) is
        allowed before the move, and its energy is no larger.
        """
        if not self.is_constant or float(np.max(self.contraction)) > 1:
            raise NotApplicable(
                "With shuffled batches this needs a constant learning rate and steps that do not "
                "expand."
            )
        passes, rest = divmod(run.steps, run.batches)
        shares = self._shares(run)
        starts = 1 if math.isinf(self.diameter) else 10
        places = min(PLACES, max(1, MOST_WORK // max(1, run.steps * starts)))
        mus, weights = [0.0], [0.0]
        in_rest = math.fsum(shares[:rest])
        # Met in the unfinished pass, or last in the pass before it.
        cases = (rest, in_rest, passes), (run.batches, 1 - in_rest, passes - 1)
        for length, share, earlier in cases:
            if share <= 0 or earlier < 0 or length == 0:
                continue
            for low, high in itertools.pairwise(_ends(length, places)):
                met = np.zeros(run.steps, dtype=bool)
                met[run.batches * np.arange(1, earlier + 1) - 1] = True
                met[run.batches * earlier + high - 1] = True
                mus.append(self._scheduled(run, met).mu)
                weights.append(share * math.fsum(shares[low:high]) / math.fsum(shares[:length]))
        if passes == 0:
            weights[0] = 1 - in_rest
        return _mixture(mus, tuple(weights), run)


def _ends(length: int, places: int) -> list[int]:
    """Cuts of a pass into at most so many parts, the finer the later: the last places leak most."""
    if length <= places:
        return list(range(length + 1))
    from_end = np.unique(np.geomspace(1, length + 1, places + 1).round().astype(int)) - 1
    return sorted(length - distance for distance in from_end.tolist())


def _mixture(mus: list[float], weights: tuple[float, ...], run: NoisySteps) -> Profile:
    theorem = (
        f"{convex.HIDDEN}, averaged over the record's place in a secret order "
        "(joint convexity of the hockey-stick divergence)"
    )
    if any(math.isinf(mu) for mu in mus):
        return GaussianProfile(parameter=math.inf, relation=run.relation, theorem=theorem)
    profile = hockey_mixture(sensitivities=mus, weights=weights, sigma=1.0, relation=run.relation)
    return profile.noted(theorem=theorem)


@dataclass(frozen=True, kw_only=True)
class WithSlack(Profile):
    """A profile that holds unless something rare happens, whose probability is added to delta.

    The rare thing must not depend on the record: then, given that it does not happen, `base`
    holds, and the hockey-stick divergence of the mixture is at most the mean.
    """

    base: Profile
    slack: float

    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        """Ln of the sum."""
        value = self.base.log_delta(epsilon, direction)
        return min(0.0, float(np.logaddexp(value, math.log(self.slack))))

    def _epsilon_one_way(self, log_delta: float, direction: Direction) -> float:
        left = math.exp(log_delta) - self.slack
        # What is left of nothing but rounding is nothing.
        return self.base.epsilon(left, direction) if left > 1e-12 * self.slack else math.inf
