"""The loss that hides nothing: one run's final iterate tells as much as all its iterates.

Annamalai, "It's our loss" (2024), with the corrections of docs/math.md 6.1. Weights are one number.
Each step's gradient reads the last noisy sum off the weights, computes how much it speaks for the
record, and writes that into the high digits, where later noise does not reach. Dataset D holds
`records` zeros; D' holds the record 1 as well.

Notation: l(v) is ln of the likelihood ratio of one noisy sum v, q N(1, s^2) + (1 - q) N(0, s^2)
against N(0, s^2). All functions give scores, one a run: higher means D'.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from sordino import _cost, checks
from sordino.accounting import calibrate, dp_sgd
from sordino.accounting.last_iterate.linear_loss import binomial, linear_heuristic, linear_loss
from sordino.accounting.profile import Profile, Which
from sordino.audit import bounds
from sordino.audit.band import band, refutes
from sordino.audit.pairs import Claim
from sordino.errors import NotApplicable
from sordino.privacy import USUAL_DELTA, Estimate, Observation, Relation, rounded
from sordino.randomness import Name, SeededStreams
from sordino.types import Floats

Worlds = tuple[Floats, Floats]
"""Scores without and with the record; or false-positive rates and false-negative ones."""
_Told = Callable[[float], None]
"""Is told how many more runs are over, or begun: parts of runs, since each may take long."""
_TOLD_EVERY = 256
"""Steps of a block of runs: less than a second. What `told` raises stops the runs."""

_MOST_RECORDS = 10**15
"""Binomial counts were checked up to here."""
_LARGEST_EXPONENT = 700.0
_BLOCK = 8192
"""Runs that are stepped together: their numbers stay in the cache."""


@dataclass(frozen=True)
class WorstCase:
    """DP-SGD (learning rate and clipping norm 1, Poisson batches) on Annamalai's loss.

    Parameters
    ----------
    sample_rate, steps
        The training's. `sample_rate` is each record's probability to be in a batch.
    noise_multiplier
        Standard deviation of the noise on the sum of clipped gradients.
    units
        Units a nat of l is rounded to: 1000 keeps three decimals.
    records
        Zeros in D. The more, the less does the random size of a batch disturb the digits.
    base
        Distance of two encoded units; None means 2 (6.5 noise_multiplier + 1). A smaller one loses
        digits to the noise, a much larger one to the size of the batch.
    minus_sign
        Take the paper's gradient for one that is subtracted, as its update is printed. Its formula
        is the negative gradient, so this is useless; it is here to show that.

    Notes
    -----
    The zeros all have one gradient, so their clipped sum is that gradient times a Binomial count:
    exact, whatever their number. `choose` picks units and records; `literal` takes the paper's.
    """

    sample_rate: float
    steps: int
    noise_multiplier: float
    units: float
    records: int
    base: float | None = None
    minus_sign: bool = False

    def __post_init__(self) -> None:
        checked = {
            **_training(self.sample_rate, self.steps, self.noise_multiplier),
            "units": checks.positive("units", self.units),
            "records": checks.whole("records", self.records, at_least=1),
            "minus_sign": checks.flag("minus_sign", self.minus_sign),
        }
        if self.records > _MOST_RECORDS:
            checks.fail("records", self.records, f"<= {_MOST_RECORDS}")
        # Noise 6.5 standard deviations wide is still decoded: one step in 10^10 is not.
        base = 2 * (6.5 * self.noise_multiplier + 1) if self.base is None else self.base
        checked["base"] = checks.positive("base", base)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def choose(cls, sample_rate: float, steps: int, noise_multiplier: float) -> Self:
        """Digits enough for so many steps, and zeros enough for the digits."""
        _training(sample_rate, steps, noise_multiplier)
        # Rounding of many steps adds up: from 257 on l is kept with four decimals.
        units, records = (1e3, 10**12) if steps <= 256 else (1e4, 10**15)
        return cls(sample_rate, steps, noise_multiplier, units, records)

    @classmethod
    def literal(
        cls, sample_rate: float, steps: int, noise_multiplier: float, *, minus_sign: bool = False
    ) -> Self:
        """The paper's settings: two decimals, ten thousand million zeros, a power of ten as base.

        The power is the next above 3 noise_multiplier (10 at least), which is not always enough:
        noise is decoded only below half of it.
        """
        _training(sample_rate, steps, noise_multiplier)
        base = 10.0 ** max(1, math.ceil(math.log10(3 * noise_multiplier)))
        return cls(sample_rate, steps, noise_multiplier, 100.0, 10**10, base, minus_sign)

    def trace(
        self,
        runs: int,
        with_record: bool,
        generator: np.random.Generator,
        told: _Told | None = None,
    ) -> Worlds:
        """What the final iterate of each run tells, and the likelihood ratio of all its iterates.

        The first is about the sum of l over the steps. The second one knows what an attacker knows
        who sees every noisy sum, and the final iterate cannot tell more.

        `with_record` says whether the runs are of D'. `told` is called with the work begun since it
        was last called, in runs.
        """
        found = np.empty((2, checks.whole("runs", runs, at_least=1)))
        for part in _blocks(runs):
            found[:, part] = self._run(part.stop - part.start, with_record, generator, told)
        return found[0], found[1]

    def gradient(self, x: float, weights: Floats) -> Floats:
        """The loss's negative gradient at record `x`, one number a run, before it is clipped."""
        _, noisy, added = self._decode(weights)
        pull = (added - noisy) / (self.sample_rate * self.records)
        return np.where(weights == 0, 0.0, pull) + x  # at 0 there is nothing to decode yet

    def extract(self, weights: Floats) -> Floats:
        """The sum of l that an attacker reads off final weights."""
        kept, _, added = self._decode(weights)
        return np.asarray((kept + added) / (self.units * self._base))

    def _run(
        self, runs: int, with_record: bool, generator: np.random.Generator, told: _Told | None
    ) -> Worlds:
        weights, seen = np.zeros(runs), np.zeros(runs)
        for step in range(self.steps):
            if told is not None and step % _TOLD_EVERY == 0:
                told(runs * min(_TOLD_EVERY, self.steps - step) / self.steps)
            of_zero = self.gradient(0.0, weights)
            zeros = generator.binomial(self.records, self.sample_rate, runs)
            noisy = self.noise_multiplier * generator.standard_normal(runs)
            if with_record:
                drawn = generator.random(runs) < self.sample_rate
                noisy += drawn * np.clip(of_zero + 1, -1.0, 1.0)  # the gradient of record 1
            update = zeros * np.clip(of_zero, -1.0, 1.0) + noisy
            weights = weights - update if self.minus_sign else weights + update
            seen += log_ratio(noisy, self.sample_rate, self.noise_multiplier)
        return self.extract(weights), seen

    def _decode(self, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """What was written so far, the last noisy sum, and what it adds, in units."""
        kept = self._base * np.rint(weights / self._base)
        noisy = weights - kept
        ratio = log_ratio(noisy, self.sample_rate, self.noise_multiplier)
        return kept, noisy, self._base * np.rint(self.units * ratio)

    @property
    def _base(self) -> float:
        assert self.base is not None
        return self.base


def log_ratio(noisy: Floats, sample_rate: float, noise_multiplier: float) -> Floats:
    """l(v): ln of the likelihood ratio of one noisy sum, with the record against without it."""
    exponent = (2 * noisy - 1) / (2 * noise_multiplier**2)
    exponent = np.minimum(exponent, _LARGEST_EXPONENT)
    if sample_rate == 1:
        return np.asarray(np.maximum(exponent, -_LARGEST_EXPONENT))
    return np.asarray(np.log1p(sample_rate * np.expm1(exponent)))


def likelihood_ratio_all_iterates(
    sample_rate: float,
    steps: int,
    noise_multiplier: float,
    runs: int,
    with_record: bool,
    generator: np.random.Generator,
) -> Floats:
    """The likelihood-ratio test of an attacker who sees every noisy sum: the best there is.

    The sums need no loss: their law is that of the Poisson-sampled Gaussian, step by step, and the
    privacy loss distribution of `accounting` bounds exactly this test.

    Parameters
    ----------
    sample_rate, steps, noise_multiplier
        Of DP-SGD with Poisson batches and clipping norm 1.
    runs, with_record
        How many, and whether they are of D'.
    generator
        Draws the noisy sums.

    Returns
    -------
    scores
        [run]; higher says D'.

    Examples
    --------
    >>> stream = np.random.default_rng(0)
    >>> bool(likelihood_ratio_all_iterates(0.1, 50, 1.0, 200, True, stream).mean() > 0)
    True
    """
    _training(sample_rate, steps, noise_multiplier)
    scores = np.zeros(checks.whole("runs", runs, at_least=1))
    for part in _blocks(runs):
        total = scores[part]  # a view
        for _ in range(steps):
            noisy = noise_multiplier * generator.standard_normal(len(total))
            if with_record:
                noisy += generator.random(len(total)) < sample_rate
            total += log_ratio(noisy, sample_rate, noise_multiplier)
    return scores


def linear_last_iterate(
    sample_rate: float,
    steps: int,
    noise_multiplier: float,
    runs: int,
    with_record: bool,
    generator: np.random.Generator,
) -> Floats:
    """Final iterates of DP-SGD on the linear loss whose gradient at record x is x.

    They are the sum of all noisy sums, drawn by their exact law: N(J, steps noise_multiplier^2),
    J ~ Binomial(steps, sample_rate) with the record and 0 without. The larger, the more they speak
    for the record. Parameters as of `likelihood_ratio_all_iterates`.

    Examples
    --------
    >>> linear_last_iterate(0.1, 50, 1.0, 3, True, np.random.default_rng(0)).shape
    (3,)
    """
    _training(sample_rate, steps, noise_multiplier)
    runs = checks.whole("runs", runs, at_least=1)
    scores = noise_multiplier * math.sqrt(steps) * generator.standard_normal(runs)
    return scores + generator.binomial(steps, sample_rate, runs) if with_record else scores


def linear_curve(
    sample_rate: float, steps: int, noise_multiplier: float, false_positive_rates: npt.ArrayLike
) -> Floats:
    """The least false-negative rates of a test on `linear_last_iterate`, exactly (math.md 5).

    Of the test for the record's presence. Exchange the two rates for that of its absence.
    """
    _training(sample_rate, steps, noise_multiplier)
    alphas = np.asarray(false_positive_rates, dtype=np.float64)
    if not ((alphas >= 0) & (alphas <= 1)).all():
        checks.fail("false_positive_rates", alphas, "in [0, 1]")
    counts, logs, _ = binomial(steps, sample_rate)
    width = noise_multiplier * math.sqrt(steps)
    thresholds = -ndtri(np.atleast_1d(alphas))
    rates = ndtr(thresholds[:, None] - counts / width) @ np.exp(logs)
    # The sum of the probabilities is 1 but for rounding.
    return np.asarray(np.minimum(rates, 1.0).reshape(alphas.shape))


def _blocks(runs: int) -> Iterator[slice]:
    for start in range(0, runs, _BLOCK):
        yield slice(start, min(start + _BLOCK, runs))


def _training(sample_rate: float, steps: int, noise_multiplier: float) -> dict[str, object]:
    return {
        "sample_rate": checks.fraction("sample_rate", sample_rate),
        "steps": checks.whole("steps", steps, at_least=1),
        "noise_multiplier": checks.positive("noise_multiplier", noise_multiplier),
    }


GRID = np.geomspace(0.02, 40.0, 1526)
"""Epsilons a bound is looked for among: half a percent apart. Those above it are never computed."""


_HOW: dict[str, Any] = {"sampling": "poisson", "relation": Relation.ADD_OR_REMOVE_ONE}


class Family:
    """Epsilon -> the profile of all iterates of DP-SGD with the least noise for (epsilon, delta).

    Calibrated by privacy loss distributions, once for each epsilon that is asked for.
    """

    def __init__(self, sample_rate: float, steps: int, delta: float = USUAL_DELTA) -> None:
        self.sample_rate = checks.fraction("sample_rate", sample_rate)
        self.steps = checks.whole("steps", steps, at_least=1)
        self.delta = checks.probability_below_one("delta", delta)
        if self.delta == 0:
            checks.fail("delta", delta, "> 0, for Gaussian noise")
        ever = -math.expm1(self.steps * math.log1p(-self.sample_rate)) if sample_rate < 1 else 1.0
        if ever <= self.delta:
            checks.fail("delta", self.delta, f"< {ever:.3g}, the chance that a record is drawn")
        self._members: dict[float, tuple[float, Profile]] = {}

    @property
    def name(self) -> str:
        """For the text of an observation."""
        return f"DP-SGD(sample_rate={self.sample_rate:g}, steps={self.steps})"

    def __call__(self, epsilon: float) -> Profile:
        """The member that just keeps (epsilon, delta)."""
        return self._member(epsilon)[1]

    def noise(self, epsilon: float) -> float:
        """Its noise multiplier."""
        return self._member(epsilon)[0]

    def profile(self, noise_multiplier: float) -> Profile:
        """All iterates at this noise."""
        return dp_sgd.pld(noise_multiplier, self.sample_rate, self.steps, **_HOW)

    def _member(self, epsilon: float) -> tuple[float, Profile]:
        epsilon = float(epsilon)
        if epsilon not in self._members:
            budget = (epsilon, self.delta)
            noise = calibrate.noise_multiplier(*budget, self.sample_rate, self.steps, **_HOW)
            self._members[epsilon] = noise, self.profile(noise)
        return self._members[epsilon]


def tradeoff(profile: Profile, alphas: npt.ArrayLike, direction: Which = "forward") -> Floats:
    """Least false-negative rates at many false-positive rates (docs/math.md 6.3)."""
    flat = np.asarray(alphas, dtype=np.float64).ravel()
    return np.array([profile.beta(float(alpha), direction) for alpha in flat])


def error_rates(negative: Floats, positive: Floats) -> Worlds:
    """FPR and FNR at every score as threshold, thresholds falling: FPR rises from 0 (or more)."""
    thresholds = np.unique(np.concatenate([negative, positive]))[::-1]
    accused, missed = bounds.error_counts(negative, positive, thresholds)
    return accused / len(negative), missed / len(positive)


def lower_hull(alphas: Floats, betas: Floats) -> list[tuple[float, float]]:
    """Corners of the lower convex hull of these points.

    What lies above a convex curve is convex, so if some point is below the curve, a corner is.
    """
    order = np.lexsort((betas, alphas))
    hull: list[tuple[float, float]] = []
    for point in zip(alphas[order].tolist(), betas[order].tolist(), strict=True):
        if hull and hull[-1][0] == point[0]:  # same rate, more errors
            continue
        while len(hull) > 1:  # as long as the way over the last corner does not turn left
            ahead = hull[-1][0] - hull[-2][0], hull[-1][1] - hull[-2][1]
            further = point[0] - hull[-2][0], point[1] - hull[-2][1]
            if ahead[0] * further[1] - ahead[1] * further[0] > 0:
                break
            hull.pop()
        hull.append(point)
    return hull


_PRINTED_GRID = np.round(np.arange(0.5, 20.05, 0.1), 10)
_FINE_GRID = np.round(np.arange(0.01, 20.005, 0.01), 10)
_INSIDE = (0.01, 0.99)
_AREA_RATES = np.round(np.arange(0.01, 0.985, 0.03), 10)  # where areas are compared
_CAVEAT = "without confidence; the luckiest threshold decides"


def paper_estimate(negative: Floats, positive: Floats, family: Family) -> Estimate:
    """Algorithm 2 as printed: every threshold, epsilons 0.5, 0.6, ..., 20. Infinite if none fits.

    Ill-posed. Wherever the largest score comes from D', the point (0, 1 - 1/runs) was observed, and
    it lies below every curve with f(0) = 1, which is every curve of Gaussian noise. So usually no
    epsilon fits; the paper's own numbers must come from a curve that was cut off near 0.

    Parameters
    ----------
    negative, positive
        Scores of runs without and with the record.
    family
        Whose symmetric curves are compared, as in the paper.
    """
    points = error_rates(*_finite(negative, positive))
    epsilon = _smallest(points, family, _PRINTED_GRID)
    caveat = _CAVEAT
    if math.isinf(epsilon):
        caveat += f"; no epsilon up to {_PRINTED_GRID[-1]:g} fits"
    if points[0][0] == 0:
        first = f"(0, {points[1][points[0] == 0].min():.6g})"
        caveat += f"; {first} lies below every curve of Gaussian noise"
    return _estimate(epsilon, family, "Annamalai's Algorithm 2 as printed", caveat)


def restricted_estimate(
    negative: Floats, positive: Floats, family: Family, *, grid: Floats = _FINE_GRID
) -> Estimate:
    """The same where FPR and FNR lie in [0.01, 0.99], by default on a grid of step 0.01 up to 20.

    It leans upwards. With the exact likelihood ratio of all iterates, sample rate 0.1, 100 steps
    and 5,000 + 5,000 runs its mean is 1.34, 1.17 and 1.09 times an epsilon of 1, 2 and 4 (over 80
    repeats); one repeat of 400,000 + 400,000 gave 1.02, 2.01 and 4.03.

    Raises
    ------
    NotApplicable
        If no threshold has such rates.
    """
    alphas, betas = error_rates(*_finite(negative, positive))
    low, high = _INSIDE
    inside = (alphas >= low) & (alphas <= high) & (betas >= low) & (betas <= high)
    if not inside.any():
        raise NotApplicable(f"No threshold has both error rates in [{low}, {high}].")
    epsilon = _smallest((alphas[inside], betas[inside]), family, grid)
    method = f"Annamalai's Algorithm 2, FPR and FNR in [{low}, {high}]"
    return _estimate(epsilon, family, method, _CAVEAT)


def area_estimate(
    negative: Floats, positive: Floats, family: Family, *, grid: Floats = _FINE_GRID
) -> Estimate:
    """The epsilon, by default of a grid of step 0.01, whose curve has the area of the observed one.

    Mean false-negative rates at false-positive rates 0.01, 0.04, ..., 0.97 are compared. Unlike the
    paper's rule it has no preferred side: half of all repeats lie below the truth.
    """
    alphas, betas = error_rates(*_finite(negative, positive))
    at = np.searchsorted(alphas, _AREA_RATES, side="right") - 1
    observed = float(np.mean(np.where(at >= 0, betas[np.maximum(at, 0)], 1.0)))

    def fits(epsilon: float) -> bool:
        return float(np.mean(tradeoff(family(epsilon), _AREA_RATES))) <= observed

    method = "the trade-off curve with the observed area"
    return _estimate(_first(fits, grid), family, method, "without confidence")


def _smallest(points: Worlds, family: Family, grid: Floats) -> float:
    """The first epsilon of the grid whose symmetric curve no point lies below."""
    hull = lower_hull(*points)

    def fits(epsilon: float) -> bool:
        profile = family(epsilon)
        return not any(beta < profile.beta(alpha, "both") for alpha, beta in hull)

    return _first(fits, grid)


def _first(fits: Callable[[float], bool], grid: Floats) -> float:
    """The first epsilon of the grid that fits, infinity if none; curves fall as epsilon grows."""
    bad, good = -1, 0  # doubling first: members with a large epsilon are seldom needed
    while not fits(float(grid[good])):
        if good == len(grid) - 1:
            return math.inf
        bad, good = good, min(2 * good + 8, len(grid) - 1)
    while good - bad > 1:
        middle = (good + bad) // 2
        bad, good = (bad, middle) if fits(float(grid[middle])) else (middle, good)
    return float(grid[good])


def _finite(negative: Floats, positive: Floats) -> Worlds:
    first, second = bounds.worlds(negative, positive)
    return checks.finite("negative", first), checks.finite("positive", second)


def _estimate(epsilon: float, family: Family, method: str, caveat: str) -> Estimate:
    method = f"{method}, within {family.name}"
    return Estimate(epsilon, family.delta, None, None, None, method, caveat)


_STEPS = GRID[(GRID > 0.2) & (GRID < 25)][::2]
"""Epsilons of estimates, a percent apart: of the bound's, so that few curves are computed."""
WAYS = {
    "paper_printed": "paper's rule as printed (arrow: none up to 20 fits)",
    "paper_restricted": "paper's rule, FPR and FNR in [0.01, 0.99]",
    "area": "curve of the observed area",
    "ours": "lower bound within DP-SGD(q, T), 95% confidence",
}
"""What each is called in a figure."""


def estimated(scores: Worlds, family: Family) -> dict[str, float]:
    """Epsilon by the paper's rule, as printed and away from the ends, and by the area; no bounds.

    Infinite where no epsilon fits.
    """
    return {
        "paper_printed": paper_estimate(*scores, family).epsilon,
        "paper_restricted": restricted(scores, family),
        "area": area_estimate(*scores, family, grid=_STEPS).epsilon,
    }


def restricted(scores: Worlds, family: Family) -> float:
    """Epsilon by the paper's rule where FPR and FNR lie in [0.01, 0.99]."""
    return restricted_estimate(*scores, family, grid=_STEPS).epsilon


def bounded(scores: Worlds, family: Family, confidence: float, attack: str = "") -> Observation:
    """Our lower bound within the family, at the family's delta."""
    return band(
        *scores,
        family,
        delta=family.delta,
        confidence=confidence,
        family_name=family.name,
        parameters=GRID,
        direction="forward",
        attack=attack,
    )


_Order = Literal["presence", "absence"]

_RATES = np.concatenate([np.geomspace(1e-5, 0.02, 40)[:-1], np.linspace(0.02, 1.0, 60)])
_FINAL = "likelihood ratio written into the final iterate"
_ALL = "likelihood ratio of all iterates"


@dataclass(frozen=True, eq=False)
class WorstCaseAudit:
    """What the final iterate of DP-SGD told about one record, on the loss that hides nothing.

    Parameters
    ----------
    claimed
        What accounting promises for all iterates, with its whole curve.
    setting
        The training and its loss.
    observed
        Lower bound from the final iterate, without any hypothesis.
    within_family
        Lower bound from the final iterate within the family DP-SGD(sample_rate, steps). Each of
        the two holds with its confidence, not both at once.
    all_iterates
        As `within_family`, by an attacker who sees every iterate of the same runs.
    linear
        What the last iterate would leak if the loss were linear.
    hides_less_than_linear
        Whether a last iterate that leaks no more than a linear loss's is refuted, by the band
        against that curve; no family is assumed.
    negative, positive
        Scores of the final iterates without and with the record.
    """

    claimed: Claim
    setting: WorstCase
    observed: Observation
    within_family: Observation
    all_iterates: Observation
    linear: Estimate
    hides_less_than_linear: bool
    negative: Floats
    positive: Floats

    @property
    def violated(self) -> bool:
        """Whether an epsilon above the claimed one was observed, within the family.

        One test decides, so that it is wrong at most as often as its confidence says.
        """
        return self.within_family.epsilon > self.claimed.epsilon

    @property
    def verdict(self) -> str:
        """What was found, in words."""
        found, confidence = self.within_family.epsilon, self.within_family.confidence
        said = (
            f"epsilon >= {rounded(found, up=False, digits=3)} at delta = {self.claimed.delta:.3g} "
            f"with {confidence:.4g} confidence, within DP-SGD of this sample rate and these steps"
        )
        claimed = rounded(self.claimed.epsilon)
        if self.violated:
            plain = f"{rounded(self.observed.epsilon, up=False, digits=3)} without that hypothesis"
            return f"violation: observed {said} ({plain}), above the claimed {claimed}"
        everything = rounded(self.all_iterates.epsilon, up=False, digits=3)
        linear = f"a linear loss's last iterate (epsilon {rounded(self.linear.epsilon, digits=3)})"
        said = f"it shows {said}; all iterates of the same runs show {everything}, and {claimed}"
        start, said = "no violation found by the final iterate", f"{said} is claimed for them"
        if not self.hides_less_than_linear:
            return f"{start}; {said}; it may leak no more than {linear}"
        # From 97 % on the final iterate is said to show as much.
        if found >= 0.97 * self.all_iterates.epsilon:
            as_much = "the final iterate shows as much as all iterates"
            start = f"no violation found, and no amplification: {as_much}"
        return f"{start}; {said}; that it leaks no more than {linear} is refuted"

    def curves(self, order: _Order = "presence") -> Mapping[str, Worlds]:
        """Error rates for a figure: "observed", "composed" (all iterates) and "linear".

        Of the test for the record's presence (D without it, D' with it), or for its absence, where
        D and D' change places.
        """
        checks.one_of("order", order, ("presence", "absence"))
        assert self.claimed.profile is not None
        way: Literal["forward", "backward"] = "forward" if order == "presence" else "backward"
        training = self.setting.sample_rate, self.setting.steps, self.setting.noise_multiplier
        curves = {
            "observed": _thinned(*error_rates(self.negative, self.positive)),
            "composed": (_RATES, tradeoff(self.claimed.profile, _RATES, way)),
            "linear": (_RATES, linear_curve(*training, _RATES)),
        }
        if order == "absence":  # the worlds exchanged, from the lowest rate on
            for name in ("observed", "linear"):
                curves[name] = curves[name][1][::-1], curves[name][0][::-1]
        return curves


def audit_worst_case(
    sample_rate: float,
    steps: int,
    epsilon: float | None = None,
    *,
    noise_multiplier: float | None = None,
    delta: float = USUAL_DELTA,
    runs: int = 50_000,
    confidence: float = 0.99,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    family: Family | None = None,
) -> WorstCaseAudit:
    """Train on the worst loss, many times with and without one record; look at the last model.

    Parameters
    ----------
    sample_rate, steps
        Of DP-SGD with Poisson batches.
    epsilon, noise_multiplier
        One of them: the promise for all iterates, from which the noise is calibrated, or the noise.
    delta
        Of the promise and of what is observed.
    runs
        A world. Half of those of each world choose the threshold of the bound without hypothesis.
    confidence
        Of each observation by itself.
    seed
        Of the experiment's streams.
    progress
        Told how many runs are done, of how many.
    family
        To share calibrations between audits of one sample rate, steps and delta.
    """
    family = family or Family(sample_rate, steps, delta)
    if (family.sample_rate, family.steps, family.delta) != (sample_rate, steps, delta):
        checks.fail("family", family.name, "to be of this training and delta")
    runs = checks.whole("runs", runs, at_least=2)
    bounds.check_runs(runs - runs // 2, delta=delta, confidence=confidence, half=True)
    check_cost(steps, runs)  # before anything is calibrated, which takes time for many steps
    claimed, noise = _claim(family, epsilon, noise_multiplier)
    setting = WorstCase.choose(sample_rate, steps, noise)
    worlds = play(setting, runs, ("audit", seed), progress=progress)
    (negative, all_negative), (positive, all_positive) = worlds
    training: dict[str, Any] = {"sample_rate": sample_rate, "steps": steps}
    training["noise_multiplier"] = noise
    how: dict[str, Any] = {"confidence": confidence}
    return WorstCaseAudit(
        claimed=claimed,
        setting=setting,
        observed=bounds.split(negative, positive, delta=delta, attack=_FINAL, **how),
        within_family=bounded((negative, positive), family, confidence, _FINAL),
        all_iterates=bounded((all_negative, all_positive), family, confidence, _ALL),
        linear=linear_heuristic(**training, delta=delta),
        hides_less_than_linear=refutes(
            negative, positive, linear_loss(**training), direction="forward", **how
        ),
        negative=negative,
        positive=positive,
    )


def play(
    setting: WorstCase,
    runs: int,
    name: tuple[Name, ...],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Worlds, Worlds]:
    """`WorstCase.trace` without and with the record, side by side, each from a stream of its own.

    `name` is that of the experiment: the same name gives the same runs.
    """
    done, lock, stop = 0.0, threading.Lock(), threading.Event()

    def told(more: float) -> None:
        nonlocal done
        if stop.is_set():
            raise _Stopped
        with lock:
            done += more
            if progress is not None:
                progress(round(done), 2 * runs)

    def world(with_record: bool) -> Worlds:
        numbers = (setting.sample_rate, setting.noise_multiplier)
        full = (*name, setting.steps, *map(repr, numbers), "with" if with_record else "without")
        stream = SeededStreams("worst case").stream(*full)
        return setting.trace(runs, with_record, stream, told)

    with ThreadPoolExecutor(2) as pool:
        try:
            without, with_it = pool.map(world, (False, True))
        finally:  # by Ctrl-C, say: the pool waits for what is under way
            stop.set()
    return without, with_it


def check_cost(steps: int, runs: int) -> float:
    """Seconds that `play` takes, about; refused if it could never end or be held.

    Raises
    ------
    InvalidArgument
        In a sentence that says what is needed and what to lower.
    """
    # Bytes of the scores of a run in each world, and of what is sorted.
    _cost.check_memory("runs", runs, 200 * runs, "Lower runs; 50,000 are usual.")
    # Seconds of one step of a run in each of the two worlds, on two cores of a machine of 2024.
    seconds = _cost.total(8.0e-8, steps, runs)
    _cost.check_time("steps", steps, seconds, "Lower steps or runs.")
    return seconds


class _Stopped(Exception):
    """The other world, or whoever waited, is gone."""


def _claim(
    family: Family, epsilon: float | None, noise_multiplier: float | None
) -> tuple[Claim, float]:
    if (epsilon is None) == (noise_multiplier is None):
        checks.fail("epsilon, noise_multiplier", (epsilon, noise_multiplier), "to be one of them")
    if epsilon is not None:
        epsilon = checks.positive("epsilon", epsilon)
        noise_multiplier, profile = family.noise(epsilon), family(epsilon)
    else:
        assert noise_multiplier is not None
        noise_multiplier = checks.positive("noise_multiplier", noise_multiplier)
        profile = family.profile(noise_multiplier)
        epsilon = profile.epsilon(family.delta)
    source = f"{profile.theorem}, all iterates"
    relation = Relation.ADD_OR_REMOVE_ONE
    return Claim(epsilon, family.delta, relation, profile, source), noise_multiplier


def _thinned(alphas: Floats, betas: Floats) -> Worlds:
    """Some hundred points, dense at both ends, where logarithmic axes look."""
    last = len(alphas) - 1
    if last < 400:
        return alphas, betas
    ends = np.geomspace(1, last + 1, 100) - 1
    places = np.concatenate([ends, last - ends, np.linspace(0, last, 200)])
    kept = np.unique(places.round().astype(np.intp))
    return alphas[kept], betas[kept]
