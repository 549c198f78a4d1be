"""The noise still to add if SGD's own noise counted, and what accuracy that gives: an experiment.

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

`evaluate` compares accuracies on held-out rows, as the papers do (v1, VI-D, Table IV, Figures 5 and
9; v2, Tables 4 and 7):

1. noiseless: weights as trained;
2. 'SGD as deterministic': noise of sigma_target is added;
3. 'SGD as random': noise of sigma_augment is added, which protects nobody,

over 500 trained models chosen at random, with a paired t-test of 3 against 2. Here 2 and 3 add THE
SAME standard normal vector, scaled by each sigma, at every epsilon: they differ in nothing else.
Every model has a vector of its own. The authors' code gave all models one and the same (it sets
NumPy's seed before each draw), so their means depend on that one vector; `sordino reproduce` draws
it again and finds their numbers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from sordino import checks
from sordino.accounting import gaussian
from sordino.errors import PrivacyLeakWarning
from sordino.intrinsic.distances import grid
from sordino.intrinsic.epsilon import EXACT, ISOTROPIC, OBSERVED, exact_epsilon, ratio
from sordino.intrinsic.interval import Interval, applied, percentile, without_interval
from sordino.privacy import Estimate
from sordino.types import Floats, Indices, Ints

_Formula = Literal["exact", "printed"]
_EstimatedOn = Literal["public", "private"]
FORMULAS = {
    "exact": EXACT,
    "printed": "the papers' sqrt(2 ln(1.25/delta)) Delta / epsilon, a theorem for epsilon < 1 only",
}
_SENSITIVITIES = {
    "theoretical": "",
    "fractional": "the fractional sensitivity 2 k L eta / B is not a bound",
    "empirical": OBSERVED,
}
_STILL = "a weight that one record alone moves has no noise in it, whatever sigma_i is"
_COUNTEREXAMPLE = f"no guarantee follows: {_STILL} (docs/math.md 9, item 3)"
_MEASURED = {
    "public": "sigma_i was measured on other, public data; that it is as large here is assumed",
    "private": "NOT PRIVATE: the amount of noise was measured on the private data itself",
}
_NOTHING_ADDED = "NO NOISE IS ADDED: sigma_i reaches sigma_target; if it hides nobody, delta = 1"


@dataclass(frozen=True)
class Basis:
    """What an augmentation rests on: a sensitivity, SGD's own noise, and where it was measured.

    Parameters
    ----------
    sensitivity, sensitivity_name
        Any number, with its name: "theoretical" (`theory.theory`, a bound),
        "fractional" (`theory.printed_sensitivity`, the papers'), "empirical" (the maximum of
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
    estimated_on: _EstimatedOn

    def __post_init__(self) -> None:
        checks.positive("sensitivity", self.sensitivity)
        if not isinstance(self.sensitivity_name, str) or not self.sensitivity_name.strip():
            checks.fail("sensitivity_name", repr(self.sensitivity_name), "to be a name")
        least = self.sigma_i.low if isinstance(self.sigma_i, Interval) else self.sigma_i
        checks.non_negative("sigma_i", least)
        checks.non_negative("sigma_i", self.noise)
        checks.one_of("estimated_on", self.estimated_on, _MEASURED)
        if self.estimated_on == "private":
            warnings.warn(f"{_MEASURED['private']}.", PrivacyLeakWarning, stacklevel=3)

    @property
    def noise(self) -> float:
        """sigma_i without its interval."""
        return without_interval(self.sigma_i)

    @property
    def caveats(self) -> tuple[str, ...]:
        """What is taken for granted about the two numbers, in words."""
        trusted = f"the {self.sensitivity_name} sensitivity is taken on trust"
        known = _SENSITIVITIES.get(self.sensitivity_name, trusted)
        return tuple(part for part in (known, _MEASURED[self.estimated_on]) if part)


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
    formula: _Formula
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
        sigmas = f"{self.sigma_augment:.4g} instead of {self.sigma_target:.4g}"
        of = f"{basis.sensitivity_name} sensitivity {basis.sensitivity:.4g}"
        how = f"sigma_i = {basis.noise:.4g}, {of}, by {FORMULAS[self.formula]}"
        return f"an experiment: add noise of {sigmas} ({how}); {self.estimate}"


def augment(
    epsilon: float, delta: float, basis: Basis, *, formula: _Formula = "exact"
) -> Augmented:
    """sigma_target and sigma_augment for one target, and the `Estimate` of what they give."""
    target = target_sigma(epsilon, delta, basis.sensitivity, formula=formula)
    added = remaining_sigma(target, basis.noise)
    assumed = (ISOTROPIC, _COUNTEREXAMPLE, *basis.caveats)
    if added == 0:
        assumed = (_NOTHING_ADDED, *assumed)
    of = f"{EXACT}, of the {basis.sensitivity_name} sensitivity and"
    together = ratio(basis.sensitivity, applied(lambda own: math.hypot(added, own), basis.sigma_i))
    alone = ratio(basis.sensitivity, added)
    method, caveat = f"{of} added noise with SGD's own", "; ".join(assumed)
    estimate = exact_epsilon(together, delta, caveat=caveat, method=method)
    caveat = "; ".join(("SGD's own noise counts for nothing here", *basis.caveats))
    added_alone = exact_epsilon(alone, delta, caveat=caveat, method=f"{of} the added noise alone")
    sigmas = target, added
    return Augmented(float(epsilon), float(delta), basis, formula, *sigmas, estimate, added_alone)


def augment_each(
    epsilons: Sequence[float], delta: float, basis: Basis, *, formula: _Formula = "exact"
) -> tuple[Augmented, ...]:
    """`augment` for every one of `epsilons`."""
    checks.sequence("epsilons", epsilons)
    return tuple(augment(epsilon, delta, basis, formula=formula) for epsilon in epsilons)


def target_sigma(
    epsilon: float, delta: float, sensitivity: float, *, formula: _Formula = "exact"
) -> float:
    """The noise the Gaussian mechanism needs for (epsilon, delta), with nothing taken off.

    "printed" is the papers' formula, to compare with their tables; it is not proved from epsilon =
    1 on, and too small from about 8 on.
    """
    epsilon = checks.positive("epsilon", epsilon, "Pass the target, such as 1.0.")
    sensitivity = checks.positive("sensitivity", sensitivity)
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


def perturbed(weights: npt.ArrayLike, release: Augmented, generator: np.random.Generator) -> Floats:
    """Weights with noise of `sigma_augment`, for experiments. THIS PROTECTS NOBODY.

    The amount rests on an assumption that can be false, and the noise comes from a generator that
    anybody who knows its seed can run again, in floating point. Do not publish what this returns.
    """
    values = np.asarray(weights, dtype=np.float64)
    return values + release.sigma_augment * generator.standard_normal(values.shape)


@dataclass(frozen=True)
class _Comparison:
    """One epsilon of a `Utility`: accuracies and what counting SGD's own noise gains.

    Parameters
    ----------
    augmented
        Both sigmas, with the `Estimate` that says what they are not.
    deterministic, random
        Mean accuracy over the models with noise of sigma_target and of sigma_augment.
    gain
        Mean of random minus deterministic, model by model.
    t, p_value
        Paired two-sided t-test over models, as in the papers. It takes models for independent,
        though those of one seed, or one dataset, are not.
    p_value_by_seed
        The same test of each seed's mean gain: seeds are independent.
    percent_closed
        100 gain / (noiseless - deterministic), a ratio of means; None where no gap can be told
        from 0. (The percentages of v2's Table 4 are not the ratios of its printed means.)
    """

    augmented: Augmented
    deterministic: Interval
    random: Interval
    gain: Interval
    t: float
    p_value: float
    p_value_by_seed: float
    percent_closed: Interval | None


@dataclass(frozen=True, eq=False)
class Utility:
    """Accuracies of sampled models without noise and with both amounts, for each epsilon.

    Parameters
    ----------
    seeds, neighbours
        Place in the grid of each sampled model.
    noiseless
        Accuracy of each model: [model].
    deterministic, random
        Accuracy of each model with noise: [epsilon, model].
    noiseless_mean
        Mean of `noiseless`.
    rows
        One `_Comparison` for each epsilon, in the order given.
    test_rows
        How many held-out rows an accuracy is of. Its intervals are over models, not over rows.
    """

    seeds: Indices
    neighbours: Indices
    noiseless: Floats
    deterministic: Floats
    random: Floats
    noiseless_mean: Interval
    rows: tuple[_Comparison, ...]
    test_rows: int

    @property
    def models(self) -> int:
        """How many models were sampled."""
        return len(self.noiseless)

    @property
    def target_epsilons(self) -> Floats:
        """The epsilons asked for: none of them is a guarantee."""
        return np.array([row.augmented.target_epsilon for row in self.rows])

    def curves(self) -> dict[str, Floats]:
        """Mean, low and high against epsilon for each setting: arrays [3, epsilon] to draw."""
        found = {"noiseless": [self.noiseless_mean] * len(self.rows)}
        for name in ("deterministic", "random"):
            found[name] = [getattr(row, name) for row in self.rows]
        return {
            name: np.array([(one.value, one.low, one.high) for one in intervals]).T
            for name, intervals in found.items()
        }

    def table(self) -> dict[str, list[float | None]]:
        """Columns of the papers' tables, one entry for each epsilon; `_sd` is over models."""
        rows, curves = self.rows, self.curves()
        columns: dict[str, list[float | None]] = {
            name: [getattr(row.augmented, name) for row in rows]
            for name in ("target_epsilon", "sigma_target", "sigma_augment")
        }
        models = [self.noiseless] * len(rows), [*self.deterministic], [*self.random]
        for (name, curve), each in zip(curves.items(), models, strict=True):
            columns[name] = curve[0].tolist()
            columns[f"{name}_sd"] = [float(one.std(ddof=1)) for one in each]
        for name, end in (("gain", "value"), ("gain_low", "low"), ("gain_high", "high")):
            columns[name] = [getattr(row.gain, end) for row in rows]
        for name in ("t", "p_value", "p_value_by_seed"):
            columns[name] = [getattr(row, name) for row in rows]
        closed = [row.percent_closed for row in rows]
        columns["percent_closed"] = [None if one is None else one.value for one in closed]
        return columns

    def __str__(self) -> str:
        lines = [
            f"accuracy of {self.models} models on {self.test_rows:,} held-out rows; each epsilon is"
            " a target: an estimate, not a guarantee",
            f"noiseless {self.noiseless_mean}",
            "epsilon  deterministic  random    gain       p        of gap",
        ]
        for row in self.rows:
            closed = row.percent_closed
            lines.append(
                f"{row.augmented.target_epsilon:<8.4g} {row.deterministic.value:<14.4f} "
                f"{row.random.value:<9.4f} {row.gain.value:<+10.5f} {row.p_value:<8.1e} "
                + ("-" if closed is None else f"{closed.value:.2f}%")
                + ("  (random adds no noise at all)" if row.augmented.adds_nothing else "")
            )
        return "\n".join(lines)


def evaluate(
    weights: npt.ArrayLike,
    X_test: npt.ArrayLike,
    y_test: npt.ArrayLike,
    augmented: Sequence[Augmented],
    *,
    stream: np.random.Generator,
    models: int = 500,
    draws: int = 500,
    level: float = 0.95,
) -> Utility:
    """Accuracy of linear models on held-out rows, for every one of `augmented`.

    Models and noise are drawn first, so the same stream gives the same of both for another list of
    `augmented` (such as that of a fixed start, v1's Figure 9).

    Parameters
    ----------
    weights
        Of linear classifiers: [seed, neighbour, parameter], an intercept, if any, last.
    X_test, y_test
        Rows that no model was trained on, and their labels 0 and 1.
    augmented
        Of `augment.augment_each`: one for each epsilon.
    stream
        A stream of `sordino.randomness`.
    models
        How many runs of the grid to sample without replacement; all of them if it has fewer.
    draws, level
        Of the bootstrap, which resamples seeds and neighbours (see `interval.bootstrap`: it errs to
        the long side).
    """
    W = grid(weights, seeds=2)
    X, y = _checked_rows(X_test, y_test, W.shape[2])
    checks.sequence("augmented", augmented)
    if len(augmented) == 0 or not all(isinstance(one, Augmented) for one in augmented):
        checks.fail("augmented", f"{len(augmented)} values", "to be Augmented, at least one")
    models = checks.whole("models", models, "A mean over models needs two.", at_least=2)
    draws = checks.whole("draws", draws, at_least=20)
    runs = stream.permutation(W.shape[0] * W.shape[1])[:models]
    seeds, neighbours = np.divmod(np.sort(runs), W.shape[1])
    trained = W[seeds, neighbours]
    noise = stream.standard_normal(trained.shape)
    sigmas = [one.sigma_target for one in augmented] + [one.sigma_augment for one in augmented]
    right = _right(trained, noise, np.array([0.0, *sigmas]), X, y)
    noiseless, (deterministic, random) = right[0], np.split(right[1:], 2)
    often = [stream.multinomial(many, np.full(many, 1 / many), draws) for many in W.shape[:2]]
    counts = (often[0][:, seeds] * often[1][:, neighbours]).astype(np.float64)
    counts = counts[counts.any(axis=1)]  # a draw may have missed every sampled model
    resampled = counts / counts.sum(axis=1, keepdims=True)

    def mean(values: Floats) -> Interval:
        return percentile(float(values.mean()), resampled @ values, level)

    def percent(gains: Floats, gaps: Floats) -> Interval | None:
        """100 mean(gains) / mean(gaps); None unless the gap's whole interval is above 0."""
        if mean(gaps).low <= 0:
            return None
        gained, gap = resampled @ gains, resampled @ gaps
        drawn = np.divide(gained, gap, out=np.full_like(gap, np.inf), where=gap > 0)
        value = float(gains.mean()) / float(gaps.mean())
        return percentile(100 * value, 100 * drawn, level)

    rows, places = [], np.unique(seeds, return_inverse=True)[1]
    for at, one in enumerate(augmented):
        # Whole numbers are subtracted, so that equal gains are equal to the last bit.
        gains = (random[at] - deterministic[at]) / len(y)
        t, p_value = paired_test(gains)
        rows.append(
            _Comparison(
                augmented=one,
                deterministic=mean(deterministic[at] / len(y)),
                random=mean(random[at] / len(y)),
                gain=mean(gains),
                t=t,
                p_value=p_value,
                p_value_by_seed=paired_test(np.bincount(places, gains) / np.bincount(places))[1],
                percent_closed=percent(gains, (noiseless - deterministic[at]) / len(y)),
            )
        )
    accuracies = noiseless / len(y), deterministic / len(y), random / len(y)
    drawn = seeds, neighbours, *accuracies, mean(accuracies[0])
    return Utility(*drawn, tuple(rows), test_rows=len(y))


def paired_test(gains: npt.ArrayLike) -> tuple[float, float]:
    """Two-sided t-test that paired differences have mean 0: (t, p).

    (0, 1) if all are 0, NaN if there are fewer than two.
    """
    values = np.asarray(gains, dtype=np.float64)
    if len(values) < 2:
        return np.nan, np.nan
    if np.ptp(values) == 0:  # no spread to measure them by
        some = float(values[0])
        return (np.sign(some) * np.inf, 0.0) if some != 0 else (0.0, 1.0)
    found = stats.ttest_1samp(values, 0.0)
    return float(found.statistic), float(found.pvalue)


def _right(W: Floats, noise: Floats, sigmas: Floats, X: Floats, y: npt.NDArray[np.bool_]) -> Ints:
    """How many rows each model labels correctly under each amount of noise: [sigma, model].

    A linear model's score is linear in its weights, so a score under noise is score(w) + sigma
    score(noise): two matrix products serve all epsilons.
    """
    right = np.empty((len(sigmas), len(W)), dtype=np.int64)
    step = max(1, (1 << 18) // len(X))
    for start in range(0, len(W), step):
        part = slice(start, start + step)
        scores, moved = W[part] @ X.T, noise[part] @ X.T
        for at, sigma in enumerate(sigmas):
            right[at, part] = np.count_nonzero((scores + sigma * moved > 0) == y, axis=1)
    return right


def _checked_rows(
    X_test: npt.ArrayLike, y_test: npt.ArrayLike, parameters: int
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Rows with a last feature 1 if the weights have an intercept, and labels as booleans."""
    X = np.asarray(X_test, dtype=np.float64)
    if X.ndim != 2 or len(X) == 0 or parameters - X.shape[1] not in (0, 1):
        condition = f"to be (rows, {parameters - 1}), or (rows, {parameters}) without an intercept"
        checks.fail("X_test.shape", X.shape, condition, "Only linear models are evaluated.")
    checks.finite("X_test", X)
    y = np.asarray(y_test)
    if y.shape != (len(X),):
        checks.fail("y_test.shape", y.shape, f"to be ({len(X)},), one label a row")
    if not np.isin(y, (0, 1)).all():
        checks.fail("y_test", "labels", "to be 0 or 1")
    if X.shape[1] < parameters:
        X = np.hstack([X, np.ones((len(X), 1))])
    return X, y.astype(bool)
