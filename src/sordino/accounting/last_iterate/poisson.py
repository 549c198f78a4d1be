"""The last iterate of noisy SGD with Poisson batches: part of the noise hides the past."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.accounting import renyi
from sordino.accounting.last_iterate import shifted
from sordino.accounting.pld.loss import GaussianLoss, Loss, PoissonLoss
from sordino.accounting.profile import GaussianProfile, LossProfile, Profile
from sordino.errors import NotApplicable
from sordino.privacy import Relation
from sordino.types import Floats

_SEARCH_ORDERS: Floats = renyi.ORDERS[::6]
"""Orders of the search for a good split; the result is computed without them."""
_FRACTIONS: Floats = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9])
_COUNTS = 40
"""Numbers of last steps tried in each round of the search."""

_HIDDEN = "shifted interpolation with Poisson batches (after Bok, Su & Altschuler 2024)"
_COMPOSITION = "composition of the Poisson-sampled Gaussian mechanism over the steps"


@dataclass(frozen=True)
class Iteration:
    """The numbers of one run; `composite` is what the last `count` steps prove."""

    sample_rate: float
    contraction: float
    shift: float
    noise: float
    steps: int
    diameter: float

    def past(self, count: int, fraction: float) -> float:
        """Mu of hiding all before the last `count` steps by this fraction of their variance."""
        c, before = self.contraction, self.steps - count
        if before == 0:
            return 0.0
        distance = self.diameter
        if c <= 1 or before * math.log(c) < 700:
            apart = self.shift * float(shifted.geometric(c, np.array(before)))
            distance = min(distance, apart)
        # The distance shrinks once before the first of those steps adds its noise.
        noise = math.sqrt(fraction) * self.noise
        return shifted.one_visit_mu(c, c * distance, noise, count - 1)

    def sampled(self, fraction: float) -> PoissonLoss:
        """Loss of one step whose noise has lost this fraction of its variance."""
        return PoissonLoss(self.sample_rate, math.sqrt(1 - fraction) * self.noise / self.shift)

    def composite(self, count: int, fraction: float) -> tuple[tuple[Loss, int], ...]:
        """Laws of the composite bound; plain composition at count = steps, fraction = 0."""
        mu = self.past(count, fraction)
        last: tuple[tuple[Loss, int], ...] = ((self.sampled(fraction), count),)
        return last if mu == 0 else (*last, (GaussianLoss((mu,)), 1))


def poisson(
    *,
    sample_rate: float,
    contraction: float,
    shift: float,
    noise: float,
    steps: int,
    delta: float,
    relation: Relation,
    diameter: float = math.inf,
) -> Profile:
    """Noisy SGD with Poisson batches and a fixed divisor; only the last iterate is released.

    For every k <= T and split s^2 = s1^2 + s2^2 of the noise, the last iterate is dominated by k
    Poisson-sampled Gaussian mechanisms of noise multiplier s2 / a, composed with one Gaussian of
    mu = c^k D / (s1 sqrt(1 + c^2 + ... + c^(2k-2))), where D = a (1 + c + ... + c^(T-k-1)), or the
    diameter of the domain if that is less. The record's own term enters at full weight; only the
    common shift is interpolated. k = T with s1 = 0 is plain composition, and always tried.

    Parameters
    ----------
    sample_rate
        Probability of each record to be in a batch, independent of all else.
    contraction
        Lipschitz constant of a step for every batch that can occur: with a divisor b, smoothness
        lambda + beta |B| / b of the largest batch must fit the step size.
    shift
        eta L / b, what one record present adds to a step at most.
    noise
        Standard deviation of the noise on each weight, eta times that of the mean gradient.
    steps
        All steps.
    delta
        Where k and the split are chosen to be best; any choice holds for every delta.
    relation
        ADD_OR_REMOVE_ONE or ZERO_OUT.
    diameter
        Diameter of the convex set onto which every iterate is projected; infinite if none is.

    Raises
    ------
    NotApplicable
        For REPLACE_ONE, for which this is not proved.

    Notes
    -----
    Conditions: those listed in `sordino.accounting.last_iterate.convex`.
    """
    if relation is Relation.REPLACE_ONE:
        raise NotApplicable(
            "The last iterate of Poisson batches is proved for a record present or absent, not for "
            "a record replaced; ask for Relation.ADD_OR_REMOVE_ONE or Relation.ZERO_OUT."
        )
    delta = checks.fraction("delta", delta)
    run = Iteration(
        checks.fraction("sample_rate", sample_rate, allow_zero=True),
        checks.non_negative("contraction", contraction),
        checks.non_negative("shift", shift),
        checks.non_negative("noise", noise),
        checks.whole("steps", steps),
        checks.non_negative("diameter", diameter, allow_infinite=True),
    )
    if run.steps == 0 or run.shift == 0 or run.sample_rate == 0:
        return GaussianProfile(parameter=0.0, relation=relation, theorem=_COMPOSITION)
    if run.noise == 0:
        return GaussianProfile(parameter=math.inf, relation=relation, theorem=_COMPOSITION)
    return _better(run, min(delta, 0.5), relation)


def _better(run: Iteration, delta: float, relation: Relation) -> LossProfile:
    """The composite the search found, or plain composition if that proves less epsilon."""
    plain = LossProfile(
        components=run.composite(run.steps, 0.0),
        relation=relation,
        theorem=_COMPOSITION,
        notes=("the hidden state gains nothing here; every iterate may be released",),
    )
    count, fraction = _search(run, delta)
    if fraction == 0:
        return plain
    hidden = LossProfile(
        components=run.composite(count, fraction),
        relation=relation,
        theorem=_HIDDEN,
        notes=(
            f"the last {count} of {run.steps} steps count; {fraction:.3g} of their variance "
            f"hides the past (chosen for delta = {delta:.3g})",
        ),
    )
    return hidden if hidden.epsilon(delta) < plain.epsilon(delta) else plain


def _search(run: Iteration, delta: float) -> tuple[int, float]:
    """A good number of last steps and fraction, by the moments accountant: two rounds of a grid."""
    one_step = run.sampled(0.0).log_moments(_SEARCH_ORDERS - 1, "forward") / (_SEARCH_ORDERS - 1)
    best = renyi.epsilon(_SEARCH_ORDERS, run.steps * one_step, delta), run.steps, 0.0
    counts = np.unique(np.geomspace(1, run.steps, _COUNTS).round().astype(int))
    best = min(best, _best_on(run, counts, _FRACTIONS, delta))
    if best[2] > 0:
        ratio = (run.steps + 1.0) ** (1 / _COUNTS)
        near = np.geomspace(best[1] / ratio, best[1] * ratio, _COUNTS // 2).round().astype(int)
        counts = np.unique(np.clip(near, 1, run.steps))
        fractions = np.clip(best[2] * np.array([0.4, 0.6, 0.8, 1.2, 1.6, 2.4]), 1e-4, 0.98)
        best = min(best, _best_on(run, counts, fractions, delta))
    return best[1], best[2]


def _best_on(
    run: Iteration, counts: npt.NDArray[np.int64], fractions: Floats, delta: float
) -> tuple[float, int, float]:
    # Mu of the past goes like 1 / sqrt(fraction).
    past = np.array([run.past(count, 1.0) for count in counts.tolist()])
    thetas = _SEARCH_ORDERS - 1
    found = []
    for fraction in fractions.tolist():
        one_step = run.sampled(fraction).log_moments(thetas, "forward") / thetas
        rho = np.outer(counts, one_step) + np.outer(past**2 / fraction, _SEARCH_ORDERS / 2)
        epsilons = renyi.canonne(_SEARCH_ORDERS, rho, delta).min(axis=1)
        best = int(np.argmin(epsilons))
        found.append((max(0.0, float(epsilons[best])), int(counts[best]), float(fraction)))
    return min(found)
