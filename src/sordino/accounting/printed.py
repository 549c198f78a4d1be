"""The lecture notes' own formulas for the noise of DP-SGD, exactly as they are printed.

Comparison values: none of them is a guarantee, and none becomes a `Profile`. What holds instead is
in `composition`. (The notes' formula for the epsilon of strong composition is a theorem: it is the
second form in `composition.kairouz`.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sordino import checks
from sordino.accounting.composition import (
    before_sampling,
    naive,
    strong_kairouz,
)
from sordino.errors import NotApplicable
from sordino.privacy import Relation


@dataclass(frozen=True)
class AsPrinted:
    """What a formula gives exactly as the notes print it: a number to compare with, no promise."""

    name: str
    value: float
    formula: str
    verdict: str

    def __str__(self) -> str:
        number = f"{self.name} = {self.value:.6g} by {self.formula}"
        return f"as printed, not a guarantee: {number}; {self.verdict}"


def notes_naive_noise(epsilon: float, delta: float, sample_rate: float, steps: int) -> AsPrinted:
    """The notes' sigma_naive, read as a noise multiplier; too little noise where qT is small.

    The notes put this sigma on the average of a batch of b, where it would be b times the noise;
    as a multiplier of the clip on the sum it is what their derivation is about.
    """
    e, d, q, T = _checked_notes(epsilon, delta, sample_rate, steps)
    value = q * T * _notes_root(d, q, T) / e
    needed = naive.noise(e, d, q, T, sensitivity=1.0)
    verdict = _notes_verdict(value >= needed, f"noise {needed:.6g}", e, q, T)
    return AsPrinted("sigma_naive", value, "qT sqrt(2 ln(1.25 qT/delta)) / epsilon", verdict)


def notes_naive_epsilon(
    noise_multiplier: float, sample_rate: float, steps: int, delta: float
) -> AsPrinted:
    """The epsilon for which `notes_naive_noise` gives this noise."""
    z, d, q, T = _checked_notes(noise_multiplier, delta, sample_rate, steps, "noise_multiplier")
    value = q * T * _notes_root(d, q, T) / z
    relation = Relation.ADD_OR_REMOVE_ONE
    proved, _ = naive(z, q, T, d, sensitivity=1.0, relation=relation).budget
    verdict = _notes_verdict(value >= proved, f"epsilon {proved:.6g}", value, q, T)
    return AsPrinted("epsilon_naive", value, "qT sqrt(2 ln(1.25 qT/delta)) / sigma", verdict)


def notes_strong_noise(epsilon: float, delta: float, sample_rate: float, steps: int) -> AsPrinted:
    """The notes' sigma_strong, which is an order of growth only, with 1 for its constant."""
    e, d, q, T = _checked_notes(epsilon, delta, sample_rate, steps)
    value = q * math.sqrt(T * math.log(1 / d) * math.log(T / d)) / e
    needed = strong_kairouz.noise(e, d, q, T, sensitivity=1.0)
    verdict = (
        "printed as O(.) without a constant, here with the constant 1, so it says nothing about "
        f"one run; strong composition needs noise {needed:.6g}"
    )
    return AsPrinted("sigma_strong", value, "q sqrt(T ln(1/delta) ln(T/delta)) / epsilon", verdict)


def notes_moments_noise(epsilon: float, delta: float, sample_rate: float, steps: int) -> AsPrinted:
    """The notes' Theorem 1 (Abadi et al. 2016), with 1 for its unknown constant."""
    e, d, q, T = _checked_notes(epsilon, delta, sample_rate, steps)
    value = q * math.sqrt(T * math.log(1 / d)) / e
    verdict = (
        "its constant c is not known, here 1, and it needs epsilon < c1 q^2 T with a c1 that is "
        "not known either; use the moments accountant itself"
    )
    return AsPrinted("sigma_moments", value, "c q sqrt(T ln(1/delta)) / epsilon", verdict)


def notes_noise_ratio(delta: float, sample_rate: float, steps: int) -> AsPrinted:
    """The notes' sigma_strong / sigma_naive, with 1 for its constant; see `strong_over_naive`."""
    _, d, q, T = _checked_notes(1.0, delta, sample_rate, steps)
    value = math.sqrt(math.log(1 / d) * math.log(T / d) / T) / _notes_root(d, q, T)
    verdict = (
        "a ratio of an order of growth, here with the constant 1, and a formula that can be too "
        f"low; ln(T/delta) = {math.log(T / d):.3g} is not near ln T = {math.log(T):.3g}, and "
        "sqrt(ln T / T) is not O(T^-1/2), though for a fixed delta the rate T^-1/2 is right"
    )
    formula = "sqrt(ln(1/delta) ln(T/delta) / (2T ln(1.25 qT/delta)))"
    return AsPrinted("sigma_strong / sigma_naive", value, formula, verdict)


def _notes_verdict(enough: bool, proved: str, epsilon: float, q: float, T: int) -> str:
    start = "enough, though not by its own argument" if enough else "not proved"
    return (
        f"{start}: composition gives {proved}; the formula lets a step before sampling have "
        f"epsilon/(qT) = {epsilon / (q * T):.4g} where sampling allows "
        f"{before_sampling(epsilon / T, q):.4g}"
    )


def _notes_root(delta: float, q: float, T: int) -> float:
    ratio = 1.25 * q * T / delta
    if ratio <= 1:
        raise NotApplicable(
            f"The notes' formula takes a logarithm of 1.25 qT/delta, which must be above 1 and is "
            f"{ratio:.4g}; take more steps or a smaller delta, or use naive.noise."
        )
    return math.sqrt(2 * math.log(ratio))


def _checked_notes(
    first: float, delta: float, sample_rate: float, steps: int, name: str = "epsilon"
) -> tuple[float, float, float, int]:
    first = checks.positive(name, first)
    if (delta := checks.probability_below_one("delta", delta)) == 0:
        checks.fail("delta", delta, "> 0", "No Gaussian noise is (epsilon, 0)-DP; 1e-6 is usual.")
    rate = checks.fraction("sample_rate", sample_rate)
    count = checks.whole("steps", steps, at_least=1)
    checks.positive("steps", count)  # also fits a float
    return first, delta, rate, count
