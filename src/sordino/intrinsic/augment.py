"""The noise still to add if SGD's own noise counted: an experiment, outside the one door.

Hyland & Tople, Algorithm 2 of v1 and Algorithm 1 of v2:

    2: c <- sqrt(2 ln(1.25/delta))          (printed as sqrt(2 log(1.25)/delta) + 1e-5, a slip)
    3: sigma_target <- c Delta_2(f) / epsilon_target
    4: if sigma_i < sigma_target then
    5:    sigma_augment <- sqrt(sigma_target^2 - sigma_i^2)
    6: else
    7:    sigma_augment <- 0
    8: rho ~ N(0, sigma_augment^2 I)
    9: w_public <- w_private + rho

NOBODY IS PROTECTED BY THIS. Line 5 takes SGD's noise for Gaussian and equally large in all
directions; where a record alone moves a weight there is no noise in that weight, whatever sigma_i
is, and the true epsilon can be infinite (docs/math.md 9, item 3). Line 7 adds nothing at all. So
what comes out is an `Estimate`: there is no guarantee and no certificate, and no ledger knows of
it. A model released this way is released without protection, also while a ledger is open. What
protects people is in `sordino.estimators`, and adds all of sigma_target.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.accounting import gaussian
from sordino.errors import PrivacyLeakWarning
from sordino.intrinsic.epsilon import EXACT, ISOTROPIC, exact_epsilon, ratio
from sordino.intrinsic.interval import Interval, applied, without_interval
from sordino.privacy import Estimate
from sordino.types import Floats

Formula = Literal["exact", "printed"]
EstimatedOn = Literal["public", "private"]
FORMULAS = {
    "exact": "the exact Gaussian formula",
    "printed": "the papers' sqrt(2 ln(1.25/delta)) Delta / epsilon, a theorem for epsilon < 1 only",
}
SENSITIVITIES = {
    "theoretical": "",
    "fractional": "the fractional sensitivity 2 k L eta / B is not a bound",
    "empirical": "the sensitivity is the largest of the pairs tried, a lower estimate",
}
COUNTEREXAMPLE = (
    "no guarantee follows: a weight that one record alone moves has no noise in it, whatever "
    "sigma_i is, and then the true epsilon is infinite (docs/math.md 9, item 3)"
)
MEASURED = {
    "public": "sigma_i was measured on other, public data; that it is as large here is assumed",
    "private": (
        "NOT PRIVATE: the amount of noise was measured on the private data itself, and tells "
        "about them"
    ),
}
NOTHING_COUNTED = "SGD's own noise counts for nothing here"
NOTHING_ADDED = (
    "NO NOISE IS ADDED, since sigma_i reaches sigma_target: the weights stay as trained, and "
    "nothing but the assumption hides anybody (without it, delta = 1)"
)


@dataclass(frozen=True)
class Basis:
    """What an augmentation rests on: a sensitivity, SGD's own noise, and where it was measured.

    Parameters
    ----------
    sensitivity, sensitivity_name
        Any number, with its name: "theoretical" (`theory.theory`, a bound),
        "fractional" (`spread.printed_sensitivity`, the papers'), "empirical" (the maximum of
        `distances.between_datasets`), or a name of your own, which is then taken on trust.
    sigma_i
        SGD's own noise (`spread.sigma`), with its interval if there is one.
    estimated_on
        "public" if sigma_i, and an empirical sensitivity, were measured on another, public dataset;
        "private" if on the data to be protected, which leaks: a `PrivacyLeakWarning`.
    """

    sensitivity: float
    sensitivity_name: str
    sigma_i: float | Interval
    estimated_on: EstimatedOn

    def __post_init__(self) -> None:
        hint = "With 0 nothing would depend on the data."
        checks.positive("sensitivity", self.sensitivity, hint)
        if not isinstance(self.sensitivity_name, str) or not self.sensitivity_name.strip():
            hint = f"Say which one it is: {', '.join(SENSITIVITIES)}, or a name of your own."
            checks.fail("sensitivity_name", repr(self.sensitivity_name), "to be a name", hint)
        least = self.sigma_i.low if isinstance(self.sigma_i, Interval) else self.sigma_i
        checks.non_negative("sigma_i", least)
        checks.non_negative("sigma_i", self.noise)
        checks.one_of("estimated_on", self.estimated_on, MEASURED)
        if self.estimated_on == "private":
            warnings.warn(f"{MEASURED['private']}.", PrivacyLeakWarning, stacklevel=3)

    @property
    def noise(self) -> float:
        """sigma_i without its interval."""
        return without_interval(self.sigma_i)

    @property
    def caveats(self) -> tuple[str, ...]:
        """What is taken for granted about the two numbers, in words."""
        trusted = f"the {self.sensitivity_name} sensitivity is taken on trust"
        known = SENSITIVITIES.get(self.sensitivity_name, trusted)
        return tuple(part for part in (known, MEASURED[self.estimated_on]) if part)


@dataclass(frozen=True)
class Augmented:
    """How much noise the papers would add to reach a target, and what that is estimated to be.

    Parameters
    ----------
    target_epsilon, delta
        What was asked for. Nothing says that it is reached.
    basis, formula
        What `sigma_target` and `sigma_augment` were computed from, and how.
    sigma_target
        The noise of 'SGD as deterministic'.
    sigma_augment
        The noise of 'SGD as random'; 0 where `adds_nothing`.
    estimate
        Epsilon of both noises together by the exact formula, if all assumptions held. Its interval
        is that of sigma_i: the noise added is fixed, SGD's own is between the ends.
    added_alone
        Epsilon of the added noise by itself, as if SGD's own hid nobody: infinite if none is added.
    """

    target_epsilon: float
    delta: float
    basis: Basis
    formula: Formula
    sigma_target: float
    sigma_augment: float
    estimate: Estimate
    added_alone: Estimate

    @property
    def adds_nothing(self) -> bool:
        """Whether this is the algorithm's branch without any noise, which protects nobody."""
        return self.sigma_augment == 0

    def __str__(self) -> str:
        basis = self.basis
        return (
            f"an experiment: add noise of {self.sigma_augment:.4g} instead of "
            f"{self.sigma_target:.4g} (sigma_i = {basis.noise:.4g}, {basis.sensitivity_name} "
            f"sensitivity {basis.sensitivity:.4g}, by {FORMULAS[self.formula]}); {self.estimate}"
        )


def augment(epsilon: float, delta: float, basis: Basis, *, formula: Formula = "exact") -> Augmented:
    """sigma_target and sigma_augment for one target, and the `Estimate` of what they give."""
    target = target_sigma(epsilon, delta, basis.sensitivity, formula=formula)
    added = remaining_sigma(target, basis.noise)
    assumed = (ISOTROPIC, COUNTEREXAMPLE, *basis.caveats)
    if added == 0:
        assumed = (NOTHING_ADDED, *assumed)
    of = f"{EXACT}, of the {basis.sensitivity_name} sensitivity and"
    together = ratio(basis.sensitivity, applied(lambda own: math.hypot(added, own), basis.sigma_i))
    alone = ratio(basis.sensitivity, added)
    return Augmented(
        target_epsilon=float(epsilon),
        delta=float(delta),
        basis=basis,
        formula=formula,
        sigma_target=target,
        sigma_augment=added,
        estimate=exact_epsilon(
            together, delta, caveat="; ".join(assumed), method=f"{of} added noise with SGD's own"
        ),
        added_alone=exact_epsilon(
            alone,
            delta,
            caveat="; ".join((NOTHING_COUNTED, *basis.caveats)),
            method=f"{of} the added noise alone",
        ),
    )


def augment_each(
    epsilons: Sequence[float], delta: float, basis: Basis, *, formula: Formula = "exact"
) -> tuple[Augmented, ...]:
    """`augment` for every one of `epsilons`."""
    checks.sequence("epsilons", epsilons)
    return tuple(augment(epsilon, delta, basis, formula=formula) for epsilon in epsilons)


def target_sigma(
    epsilon: float, delta: float, sensitivity: float, *, formula: Formula = "exact"
) -> float:
    """The noise the Gaussian mechanism needs for (epsilon, delta), with nothing taken off.

    "printed" is the papers' formula, to compare with their tables; it is not proved from epsilon =
    1 on, and too small from about 8 on.
    """
    epsilon = checks.positive("epsilon", epsilon, "Pass the target, such as 1.0.")
    hint = "With 0 nothing would depend on the data."
    sensitivity = checks.positive("sensitivity", sensitivity, hint)
    checks.one_of("formula", formula, FORMULAS)
    if checks.probability_below_one("delta", delta) == 0:
        checks.fail("delta", delta, "> 0", "No Gaussian noise is (epsilon, 0)-DP; 1e-6 is usual.")
    if formula == "printed":
        return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    return gaussian.sigma(epsilon, delta, sensitivity)


def remaining_sigma(target: float, sigma_i: float) -> float:
    """sqrt(max(0, target^2 - sigma_i^2)): line 5 of the algorithm, and its line 7."""
    target = checks.positive("target", target)
    sigma_i = checks.non_negative("sigma_i", sigma_i)
    if sigma_i >= target:
        return 0.0
    # (target - sigma_i) is exact where the two are close, and nothing is squared that could
    # overflow; without noise of SGD's own this is `target` to the last bit.
    return target * math.sqrt((target - sigma_i) / target * (1 + sigma_i / target))


def perturbed(
    weights: npt.ArrayLike, augmented: Augmented, generator: np.random.Generator
) -> Floats:
    """Weights with noise of `sigma_augment`, for experiments. THIS PROTECTS NOBODY.

    The amount rests on an assumption that can be false, and the noise comes from a generator that
    anybody who knows its seed can run again, in floating point. Do not publish what this returns.
    """
    values = np.asarray(weights, dtype=np.float64)
    return values + augmented.sigma_augment * generator.standard_normal(values.shape)
