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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from sordino import _check
from sordino.accounting.linear_loss import binomial
from sordino.types import Floats

Told = Callable[[float], None]
"""Is told how many more runs are over, or begun: parts of runs, since each may take long."""
TOLD_EVERY = 256
"""Steps of a block of runs: less than a second. What `told` raises stops the runs."""

SPREADS = 6.5
"""Noise so many standard deviations wide is still decoded: one step in 10^10 is not."""
MANY_STEPS = 256
"""Rounding of so many steps adds up: from here on l is kept with four decimals."""
MOST_RECORDS = 10**15
"""Binomial counts were checked up to here."""
LARGEST_EXPONENT = 700.0
BLOCK = 8192
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
            "units": _check.positive("units", self.units),
            "records": _check.whole("records", self.records, at_least=1),
            "minus_sign": _check.flag("minus_sign", self.minus_sign),
        }
        if self.records > MOST_RECORDS:
            _check.fail("records", self.records, f"<= {MOST_RECORDS}")
        base = 2 * (SPREADS * self.noise_multiplier + 1) if self.base is None else self.base
        checked["base"] = _check.positive("base", base)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def choose(cls, sample_rate: float, steps: int, noise_multiplier: float) -> Self:
        """Digits enough for so many steps, and zeros enough for the digits."""
        _training(sample_rate, steps, noise_multiplier)
        units, records = (1e3, 10**12) if steps <= MANY_STEPS else (1e4, 10**15)
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

    def simulate(
        self,
        runs: int,
        with_record: bool,
        generator: np.random.Generator,
        told: Told | None = None,
    ) -> Floats:
        """What the final iterate of each run tells: about the sum of l over its steps.

        `with_record` says whether the runs are of D'. `told` is called with the work begun since it
        was last called, in runs.
        """
        return self.trace(runs, with_record, generator, told)[0]

    def trace(
        self,
        runs: int,
        with_record: bool,
        generator: np.random.Generator,
        told: Told | None = None,
    ) -> tuple[Floats, Floats]:
        """As `simulate`, and the likelihood ratio of all iterates of the same runs beside it.

        The second one knows what an attacker knows who sees every noisy sum, and the final iterate
        cannot tell more.
        """
        final, all_iterates = np.empty((2, _check.whole("runs", runs, at_least=1)))
        for part in _blocks(runs):
            final[part], all_iterates[part] = self._run(
                part.stop - part.start, with_record, generator, told
            )
        return final, all_iterates

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
        self, runs: int, with_record: bool, generator: np.random.Generator, told: Told | None
    ) -> tuple[Floats, Floats]:
        weights, seen = np.zeros(runs), np.zeros(runs)
        for step in range(self.steps):
            if told is not None and step % TOLD_EVERY == 0:
                told(runs * min(TOLD_EVERY, self.steps - step) / self.steps)
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
    exponent = np.minimum(exponent, LARGEST_EXPONENT)
    if sample_rate == 1:
        return np.asarray(np.maximum(exponent, -LARGEST_EXPONENT))
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
    """
    _training(sample_rate, steps, noise_multiplier)
    scores = np.zeros(_check.whole("runs", runs, at_least=1))
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
    for the record.
    """
    _training(sample_rate, steps, noise_multiplier)
    runs = _check.whole("runs", runs, at_least=1)
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
        _check.fail("false_positive_rates", alphas, "in [0, 1]")
    counts, logs, _ = binomial(steps, sample_rate)
    width = noise_multiplier * math.sqrt(steps)
    thresholds = -ndtri(np.atleast_1d(alphas))
    rates = ndtr(thresholds[:, None] - counts / width) @ np.exp(logs)
    return np.asarray(rates.reshape(alphas.shape))


def _blocks(runs: int) -> Iterator[slice]:
    for start in range(0, runs, BLOCK):
        yield slice(start, min(start + BLOCK, runs))


def _training(sample_rate: float, steps: int, noise_multiplier: float) -> dict[str, object]:
    hint = "Pass the noise's standard deviation over the clipping norm, such as 1.1."
    return {
        "sample_rate": _check.fraction("sample_rate", sample_rate),
        "steps": _check.whole("steps", steps, at_least=1),
        "noise_multiplier": _check.positive("noise_multiplier", noise_multiplier, hint),
    }
