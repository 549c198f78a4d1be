"""Naive and strong composition of subsampled Gaussian steps, and the noise each of them asks for.

One step samples records at `sample_rate` and adds Gaussian noise of `noise_multiplier`. Before
sampling it is (e0, d0)-DP by the analytic Gaussian mechanism; sampling amplifies that to (e1, d1);
a composition theorem takes `steps` of those to (epsilon, delta). The tight accountants ask for
several times less noise; these are what they are compared with.

The functions `notes_*` are the lecture notes' own formulas, exactly as they are printed, for
comparison: none of them is a guarantee, and none becomes a `Profile`. (The notes' formula for the
epsilon of strong composition is a theorem: it is the second form in `kairouz`.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln

from sordino import checks
from sordino.accounting import gaussian
from sordino.accounting.profile import ApproximateProfile
from sordino.errors import NotApplicable
from sordino.privacy import Relation
from sordino.types import Floats

# A base delta of 1 promises nothing, so with it no noise at all would do: a record used with
# probability below delta could be published. Held below 1, the least noise stays above 0.
_MOST_BASE_DELTA = 0.999999

_MOST_EXACT_STEPS = 20_000_000


def amplified(epsilon: float, sample_rate: float) -> float:
    """ln(1 + q (e^epsilon - 1)): epsilon after sampling (Balle, Barthe & Gaboardi 2018).

    Their Theorem 8 (Poisson sampling) and Theorem 9 (batches of a fixed size); delta becomes
    q delta. By concavity of ln this is at least q epsilon: the linear rule promises too much.
    """
    epsilon = checks.non_negative("epsilon", epsilon, allow_infinite=True)
    rate = checks.fraction("sample_rate", sample_rate, allow_zero=True)
    if epsilon == 0 or rate == 0:
        return 0.0
    if rate == 1:
        return epsilon
    return _softplus(math.log(rate) + _log_expm1(epsilon))


def before_sampling(epsilon: float, sample_rate: float) -> float:
    """ln(1 + (e^epsilon - 1) / q): the inverse of `amplified`."""
    epsilon = checks.non_negative("epsilon", epsilon, allow_infinite=True)
    rate = checks.fraction("sample_rate", sample_rate)
    if epsilon == 0 or rate == 1:
        return epsilon
    return _softplus(_log_expm1(epsilon) - math.log(rate))


def dwork(epsilon: float, steps: int, delta: float) -> float:
    """Epsilon of `steps` epsilon-DP steps, `delta` more spent on composing them.

    e sqrt(2T ln(1/delta)) + T e (e^e - 1) (Dwork, Rothblum & Vadhan 2010, Theorem III.3).
    Above an epsilon of 1 or so it is worse than T e, and infinite from 700 on.
    """
    e, T, slack = _composed(epsilon, steps, delta)
    if e == 0 or T == 0:
        return 0.0
    if e > 700 or slack == 0:  # e^e is past the largest float
        return math.inf
    return e * math.sqrt(-2 * T * math.log(slack)) + T * e * math.expm1(e)


def kairouz(epsilon: float, steps: int, delta: float) -> float:
    """As `dwork`, by the least of the three closed forms of Kairouz, Oh & Viswanath 2015, Thm 3.4.

    T e; T e tanh(e/2) + e sqrt(2T ln(1/delta)); and the same with ln(e + sqrt(T) e / delta).
    """
    e, T, slack = _composed(epsilon, steps, delta)
    if slack == 0 or T * e in (0, math.inf):
        return T * e
    drift = T * e * math.tanh(e / 2)
    inside = min(-math.log(slack), math.log(math.e + math.sqrt(T) * e / slack))
    return min(T * e, drift + e * math.sqrt(2 * T * inside))


def kairouz_optimal(epsilon: float, steps: int) -> tuple[Floats, Floats]:
    """The exact composition of `steps` epsilon-DP steps: epsilons, and ln delta at each of them.

    eps_i = (k - 2i) e and delta_i = sum_{l<i} C(k,l) (e^{(k-l)e} - e^{(k-2i+l)e}) / (1+e^e)^k for
    i = 0 ... k/2 (Kairouz, Oh & Viswanath 2015, Theorem 3.3). No composition theorem that knows
    epsilon alone can do better. If the steps also have a delta_0 each, the composition has
    1 - (1 - delta_0)^k (1 - delta_i). Beyond 20 million steps it raises `NotApplicable`.
    """
    e = checks.non_negative("epsilon", epsilon)
    k = checks.whole("steps", steps)
    epsilons, logs = _optimal_grid(e, k)
    return epsilons[: k // 2 + 1], logs[: k // 2 + 1]


def kairouz_optimal_epsilon(epsilon: float, steps: int, delta: float) -> float:
    """Least epsilon of `steps` epsilon-DP steps at `delta`, exact also between the eps_i."""
    e, T, slack = _composed(epsilon, steps, delta)
    if slack == 0 or T * e in (0, math.inf):
        return T * e
    epsilons, logs = _optimal_grid(e, T)
    target = math.log(slack)
    i = int(np.searchsorted(logs, target, side="right")) - 1
    if i == len(logs) - 1:
        return 0.0
    # delta is linear in e^epsilon between two points of the grid.
    before, here = math.exp(logs[i] - logs[i + 1]), math.exp(target - logs[i + 1])
    share = (here - before) / (1 - before)
    drop = share * math.expm1(-2 * e)
    left = -math.expm1(target - logs[i + 1]) / (1 - before)  # 1 - share, with all its digits
    lower = math.log1p(drop) if drop > -0.5 else math.log(left + share * math.exp(-2 * e))
    return max(0.0, float(epsilons[i]) + lower)


@dataclass(frozen=True)
class Composition:
    """A composition theorem of sampled Gaussian steps: epsilon of a run, and the noise it needs.

    Parameters
    ----------
    theorem
        Its citation.
    compose
        Epsilon of T steps of epsilon e each, with a slack on delta: `compose(e, T, slack)`.
    share
        The share of delta that pays for composing; the rest is shared by the steps.

    >>> run = {"sensitivity": 1.0, "relation": Relation.ZERO_OUT}
    >>> epsilon, _ = strong_optimal(2.0, 0.01, 100, 1e-6, **run).budget
    >>> round(epsilon, 4)
    4.2761
    """

    theorem: str
    compose: Callable[[float, int, float], float]
    share: float

    def __call__(
        self,
        noise_multiplier: float,
        sample_rate: float,
        steps: int,
        delta: float,
        *,
        sensitivity: float,
        relation: Relation,
    ) -> ApproximateProfile:
        """Epsilon of the whole run at one delta.

        Parameters
        ----------
        noise_multiplier
            Standard deviation of the noise on the sum of clipped gradients, divided by the clip.
            0 gives epsilon = infinity, unless nothing is ever sampled.
        sample_rate
            Probability that a given record is in a given batch.
        steps
            Number of steps, all iterates released.
        delta
            Delta of the whole run; 0 gives epsilon = infinity.
        sensitivity
            How far one record moves the sum, in clips: 1.0 if it is added, removed or zeroed out
            under Poisson sampling, 2.0 if it is replaced, and 2.0 for batches of a fixed size.
        relation
            What counts as a neighbouring dataset; kept with the result.
        """
        noise = checks.non_negative("noise_multiplier", noise_multiplier, allow_infinite=True)
        rate = checks.fraction("sample_rate", sample_rate, allow_zero=True)
        delta = checks.probability_below_one("delta", delta)
        size = checks.positive("sensitivity", sensitivity)
        epsilon = self._epsilon(noise, rate, _count(steps), delta, size)
        sampled = "" if rate == 1 else ", of sampled steps (Balle, Barthe & Gaboardi 2018)"
        theorem = self.theorem + sampled
        return ApproximateProfile(budget=(epsilon, delta), relation=relation, theorem=theorem)

    def noise(
        self, epsilon: float, delta: float, sample_rate: float, steps: int, *, sensitivity: float
    ) -> float:
        """Least noise multiplier for which the theorem proves (epsilon, delta), rounded up.

        0 if epsilon is infinite or nothing is ever sampled. For basic composition each step may
        be (ln(1 + (e^{epsilon/T} - 1) / q), delta / (qT))-DP before sampling.
        """
        checked = _checked_target(epsilon, delta, sample_rate, steps, sensitivity)
        epsilon, delta, rate, steps, size = checked
        if steps == 0 or rate == 0 or math.isinf(epsilon):
            return 0.0
        slack = self.share * delta
        # One step, composed exactly with a slack below 1/2, is at epsilon + ln 3 at the most; more
        # steps and weaker theorems allow it less.
        top = epsilon + math.log(3)
        step = gaussian.most(lambda e: self.compose(e, steps, slack) <= epsilon, 0.0, top, 1e-15)
        base_delta = self._base_delta(delta, rate, steps)
        value = gaussian.sigma(before_sampling(step, rate), base_delta, size)
        # Rounding on the way may leave the proof short by a few last digits.
        more = 1e-15
        while self._epsilon(value, rate, steps, delta, size) > epsilon:
            value, more = value * (1 + more), 2 * more
        return value

    def _base_delta(self, delta: float, rate: float, steps: int) -> float:
        """What one step may have before sampling: T q base_delta + slack = delta."""
        return min((1 - self.share) * delta / steps / rate, _MOST_BASE_DELTA)

    def _epsilon(self, noise: float, rate: float, steps: int, delta: float, size: float) -> float:
        if steps == 0 or rate == 0:
            return 0.0
        if noise == 0:
            return math.inf
        base = gaussian.epsilon(size / noise, self._base_delta(delta, rate, steps))
        return self.compose(amplified(base, rate), steps, self.share * delta)


def _optimal_grid(e: float, k: int) -> tuple[Floats, Floats]:
    """eps_i and ln delta_i for i = 0 ... (k+1)/2; an odd k ends at -e, to reach 0 between two."""
    if k > _MOST_EXACT_STEPS:
        raise NotApplicable(
            f"Exact composition has a table of at most {_MOST_EXACT_STEPS} steps, not {k}; use "
            "strong_kairouz."
        )
    i = np.arange((k + 1) // 2 + 1, dtype=np.float64)
    logs = np.full(len(i), -math.inf)
    if e > 0 and k > 0:
        # delta_i = (1 - r) sum_{m<i} W_m with r = e^{-2e} and W_m = sum_{l<=m} p_l r^{m-l}, p the
        # binomial law of the number of flips: only positive terms, so no digits cancel.
        m = i[:-1]
        choose = -betaln(m + 1, k - m + 1) - math.log(k + 1)
        rising = choose + m * e - k * math.log1p(math.exp(-e))
        terms = np.logaddexp.accumulate(rising) - 2 * e * m
        logs[1:] = math.log(-math.expm1(-2 * e)) + np.logaddexp.accumulate(terms)
    return np.asarray((k - 2 * i) * e), np.minimum(logs, 0.0)


naive = Composition("basic composition (Dwork et al. 2006)", lambda e, T, _: T * e, 0.0)
"""T times the amplified epsilon of one step at delta / T."""
strong_dwork = Composition(
    "strong composition (Dwork, Rothblum & Vadhan 2010, Theorem III.3)", dwork, 0.5
)
"""By `dwork`: delta/2 pays for composing, delta/(2T) for each step."""
strong_kairouz = Composition(
    "strong composition (Kairouz, Oh & Viswanath 2015, Theorem 3.4)", kairouz, 0.5
)
"""By `kairouz`, as `strong_dwork`."""
strong_optimal = Composition(
    "optimal composition (Kairouz, Oh & Viswanath 2015, Theorem 3.3)", kairouz_optimal_epsilon, 0.5
)
"""By `kairouz_optimal`, as `strong_dwork`."""


def naive_noise_classical(
    epsilon: float, delta: float, sample_rate: float, steps: int, *, sensitivity: float
) -> float:
    """As `naive.noise`, with the classical Gaussian formula in place of the analytic one.

    Raises
    ------
    NotApplicable
        Where one step before sampling has epsilon >= 1, which that formula does not cover.

    >>> round(naive_noise_classical(1.0, 1e-6, 0.01, 1000, sensitivity=1.0), 3)
    59.953
    """
    epsilon, delta, q, T, size = _checked_target(epsilon, delta, sample_rate, steps, sensitivity)
    if T == 0 or q == 0 or math.isinf(epsilon):
        return 0.0
    base = before_sampling(epsilon / T, q)
    return gaussian.classical_sigma(base, naive._base_delta(delta, q, T), size)


def strong_over_naive(
    epsilon: float, delta: float, sample_rate: float, steps: Sequence[int]
) -> Floats:
    """`strong_kairouz.noise` over `naive.noise` at each number of steps.

    It falls like T^{-1/2} for a fixed delta, and starts above 1: for a few steps strong
    composition needs more noise, because half of delta pays for it.
    """
    epsilon = checks.positive("epsilon", epsilon)
    rate = checks.fraction("sample_rate", sample_rate)
    counts = [checks.whole("steps", T, at_least=1) for T in checks.sequence("steps", steps)]
    strong = [strong_kairouz.noise(epsilon, delta, rate, T, sensitivity=1.0) for T in counts]
    plain = [naive.noise(epsilon, delta, rate, T, sensitivity=1.0) for T in counts]
    return np.array(strong, dtype=np.float64) / np.array(plain, dtype=np.float64)


def _checked_target(
    epsilon: float, delta: float, sample_rate: float, steps: int, sensitivity: float
) -> tuple[float, float, float, int, float]:
    epsilon = checks.non_negative("epsilon", epsilon, allow_infinite=True)
    delta = gaussian.positive_delta(delta)
    rate = checks.fraction("sample_rate", sample_rate, allow_zero=True)
    return epsilon, delta, rate, _count(steps), checks.positive("sensitivity", sensitivity)


def _composed(epsilon: float, steps: int, delta: float) -> tuple[float, int, float]:
    epsilon = checks.non_negative("epsilon", epsilon, allow_infinite=True)
    return epsilon, _count(steps), checks.probability_below_one("delta", delta)


def _count(steps: int, at_least: int = 0) -> int:
    count = checks.whole("steps", steps, at_least=at_least)
    checks.non_negative("steps", count)  # also fits a float
    return count


def _log_expm1(x: float) -> float:
    # In the log domain, because e^x may be past the largest float.
    return x + math.log(-math.expm1(-x))


def _softplus(x: float) -> float:
    """ln(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


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
            f"In the notes' formula 1.25 qT/delta must be above 1, not {ratio:.4g}; take more "
            "steps or a smaller delta, or use naive.noise."
        )
    return math.sqrt(2 * math.log(ratio))


def _checked_notes(
    first: float, delta: float, sample_rate: float, steps: int, name: str = "epsilon"
) -> tuple[float, float, float, int]:
    first = checks.positive(name, first)
    delta = gaussian.positive_delta(delta)
    rate = checks.fraction("sample_rate", sample_rate)
    return first, delta, rate, _count(steps, at_least=1)
