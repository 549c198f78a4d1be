"""The last iterate of DP-SGD on a linear loss: the sum of its noisy gradients, exactly.

If gradients do not depend on the weights, T steps with Poisson batches end in a sum. In units of
the clipped gradient: N(J, T sigma^2), J ~ Binomial(T, q), with the record; N(0, T sigma^2) without.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from sordino import checks
from sordino.accounting.dp_sgd import LEAST_NOISE, within_range
from sordino.accounting.pld.loss import Direction, PoissonLoss, ShiftedLoss, World
from sordino.accounting.profile import GaussianProfile, LossProfile, Profile
from sordino.errors import NotApplicable
from sordino.privacy import Estimate, Relation
from sordino.types import Floats

_LOG_LEFT_OUT = -690.0
"""Counts with a probability below exp of this are left out and counted as disclosures."""
_MOST_FOR_MOMENTS = 300
"""Runs with more steps get the moments of all their iterates, an upper bound."""
_MOST_COUNTS = 3e5
"""Runs with more counts that matter are refused: 230,000 take a second, with huge noise five."""
_CHUNK = 2_000_000
"""Terms of a sum over counts held at once."""

_THEOREM = (
    "exact law of the last iterate for a linear loss (gradients independent of the weights), "
    "Poisson batches, iterates hidden"
)


@dataclass(frozen=True)
class LinearLoss(ShiftedLoss):
    """sum_j Binomial(T, q)(j) N(j, T sigma^2) against N(0, T sigma^2)."""

    symmetric = False
    sample_rate: float
    noise_multiplier: float
    steps: int

    @property
    def scale(self) -> float:  # type: ignore[override]
        """Width of every Gaussian."""
        return self.noise_multiplier * math.sqrt(self.steps)

    @property
    def worlds(self) -> tuple[World, World]:
        """P has the counts that matter, Q none."""
        counts, logs, _ = binomial(self.steps, self.sample_rate)
        return (counts, np.exp(logs)), (np.array([0.0]), np.array([1.0]))

    def largest(self, direction: Direction) -> float:
        """Without the record no count is ruled out, so the loss is at most that of count 0."""
        if direction == "forward" or self.sample_rate == 1:
            return math.inf
        return -self.steps * math.log1p(-self.sample_rate)

    def at(self, positions: Floats) -> Floats:
        """Ln p/q at these positions."""
        return self._summed(positions)[0]

    def _summed(self, positions: Floats) -> tuple[Floats, Floats]:
        """Ln p/q at each position, and its derivative."""
        counts, logs, _ = binomial(self.steps, self.sample_rate)
        steady = logs - counts**2 / (2 * self.scale**2)
        values, slopes = np.empty(len(positions)), np.empty(len(positions))
        rows = max(1, _CHUNK // len(counts))
        for start in range(0, len(positions), rows):
            part = slice(start, start + rows)
            terms = np.outer(positions[part] / self.scale**2, counts) + steady
            top = terms.max(axis=1, keepdims=True)
            np.exp(terms - top, out=terms)
            total = terms.sum(axis=1)
            values[part] = top[:, 0] + np.log(total)
            slopes[part] = terms @ counts / total / self.scale**2
        return values, slopes

    def position(self, losses: Floats) -> Floats:
        """Newton's method from the right: the loss is convex and increasing, so it cannot miss."""
        losses = np.asarray(losses, dtype=np.float64)
        result = np.full(len(losses), -math.inf)
        result[losses == math.inf] = math.inf
        open_ = np.isfinite(losses) & (losses > -self.largest("backward"))
        x = self._right_of(losses[open_])
        for _ in range(1000):
            values, slopes = self._summed(x)
            with np.errstate(divide="ignore", invalid="ignore"):
                step = (values - losses[open_]) / slopes
            step = np.where(np.isfinite(step), np.maximum(step, 0.0), 0.0)
            x = x - step
            if (step <= 1e-13 * (np.abs(x) + self.scale)).all():
                break
        result[open_] = x
        return result

    def _right_of(self, losses: Floats) -> Floats:
        """Positions where some single term of the sum already reaches the loss."""
        counts, logs, _ = binomial(self.steps, self.sample_rate)
        seen = counts > 0
        counts, logs = counts[seen], logs[seen]
        keep = np.unique(np.linspace(0, len(counts) - 1, 64).astype(int))
        needed = (losses[:, None] - logs[keep]) * self.scale**2 / counts[keep] + counts[keep] / 2
        return np.asarray(needed.min(axis=1), dtype=np.float64)

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        """Ln of delta: exact but for counts left out, which are disclosures."""
        value = super().log_delta(epsilon, direction)
        if direction == "backward":  # counts left out lower p, which only raises this delta
            return value
        return float(np.logaddexp(value, binomial(self.steps, self.sample_rate)[2]))

    def masses(self, edges: Floats, direction: Direction) -> tuple[Floats, Floats]:
        """As in `Loss`; counts left out have an infinite loss."""
        drawn, other = super().masses(edges, direction)
        if direction == "forward":
            drawn[-1] += math.exp(binomial(self.steps, self.sample_rate)[2])
        return drawn, other

    def log_moments(self, thetas: Floats, direction: Direction) -> Floats:
        """Exact for short runs that leave no count out; else those of all iterates, a bound."""
        complete = binomial(self.steps, self.sample_rate)[2] == -math.inf
        if complete and self.steps <= _MOST_FOR_MOMENTS:
            return super().log_moments(thetas, direction)
        # The last iterate is post-processing of all of them.
        one_step = PoissonLoss(self.sample_rate, self.noise_multiplier)
        return self.steps * one_step.log_moments(thetas, direction)


@functools.lru_cache(maxsize=16)
def binomial(trials: int, rate: float) -> tuple[Floats, Floats, float]:
    """Counts that matter, ln of their probabilities, and ln of a bound on the rest.

    By ratios from the mode outwards: no difference of large log-gammas, so a million trials keep
    their digits.
    """
    if rate == 1:
        return np.array([float(trials)]), np.zeros(1), -math.inf
    mode = min(trials, int((trials + 1) * rate))
    far = _far(trials, rate)
    low, high = max(0, math.floor(mode - far)), min(trials, math.ceil(mode + far))
    counts = np.arange(low, high + 1, dtype=np.float64)
    steps = np.log((trials - counts[:-1]) / (counts[:-1] + 1))
    steps += math.log(rate) - math.log1p(-rate)
    at = mode - low
    logs = np.concatenate([-np.cumsum(steps[:at][::-1])[::-1], [0.0], np.cumsum(steps[at:])])
    logs -= float(logsumexp(logs))
    kept = (logs > _LOG_LEFT_OUT) | (np.abs(counts - mode) <= 1)
    # Each count cut here lies below _LOG_LEFT_OUT, and so does each side beyond the range.
    cut = (low > 0) + (high < trials) + int((~kept).sum())
    return counts[kept], logs[kept], _LOG_LEFT_OUT + math.log(cut) if cut else -math.inf


def _far(trials: int, rate: float) -> float:
    """How far from their mean counts matter; Bernstein's bound.

    P(|J - mean| >= d) <= 2 exp(-d^2 / (2 (variance + d/3))).
    """
    size = -_LOG_LEFT_OUT
    return size / 3 + math.sqrt(size**2 / 9 + 2 * size * trials * rate * (1 - rate)) + 2


def linear_loss(
    *,
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    relation: Relation = Relation.ADD_OR_REMOVE_ONE,
) -> Profile:
    """Exact profile of DP-SGD's last iterate on a linear loss; a guarantee for that loss only.

    Parameters
    ----------
    noise_multiplier
        Standard deviation of the noise on the sum of clipped gradients, over the clipping norm.
    sample_rate
        Probability of each record to be in a batch.
    steps
        All steps, of one constant step size.
    relation
        ADD_OR_REMOVE_ONE or ZERO_OUT.

    Notes
    -----
    Conditions: gradients do not depend on the weights; Poisson batches, divided by a fixed number;
    only the last iterate is released. The other records add independent noise common to both
    worlds, which is post-processing. For any other loss use `linear_heuristic`, which promises
    nothing.
    """
    if relation is Relation.REPLACE_ONE:
        raise NotApplicable(
            "The exact law of linear losses is for a record present or absent, not replaced; ask "
            "for Relation.ADD_OR_REMOVE_ONE or Relation.ZERO_OUT."
        )
    noise = checks.non_negative("noise_multiplier", noise_multiplier)
    rate = checks.fraction("sample_rate", sample_rate, allow_zero=True)
    steps = checks.whole("steps", steps)
    if rate == 0 or steps == 0:
        return GaussianProfile(parameter=0.0, relation=relation, theorem=_THEOREM)
    if noise < LEAST_NOISE:
        return GaussianProfile(parameter=math.inf, relation=relation, theorem=_THEOREM)
    noise, rate = within_range(noise, rate)
    # Less noise hides less; where the record's mean shift is below 1e-9 of the noise, its losses
    # are lost in the rounding of a sum over counts.
    noise = min(noise, max(1e9 * rate * math.sqrt(steps), 1e6))
    if (width := 2 * _far(steps, rate)) > _MOST_COUNTS:
        raise NotApplicable(
            f"The exact law of linear losses would sum over {width:.1g} counts; at most "
            f"{_MOST_COUNTS:.0e} fit."
        )
    loss = LinearLoss(rate, noise, steps)
    return LossProfile(components=((loss, 1),), relation=relation, theorem=_THEOREM)


def linear_heuristic(
    *, noise_multiplier: float, sample_rate: float, steps: int, delta: float
) -> Estimate:
    """Epsilon of the last iterate as if the loss were linear; for other losses never a guarantee.

    Arguments as in `linear_loss`. Losses are known whose last iterate leaks more than this.
    """
    profile = linear_loss(noise_multiplier=noise_multiplier, sample_rate=sample_rate, steps=steps)
    return Estimate(
        epsilon=profile.epsilon(delta),
        delta=delta,
        low=None,
        high=None,
        level=None,
        method="the exact last iterate of a linear loss under Poisson batches, add or remove one",
        caveat="takes the loss for linear; on other losses the last iterate can leak more",
    )
