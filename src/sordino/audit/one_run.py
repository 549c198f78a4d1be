"""Lower bounds from a single training run with many canaries, each in or out by its own coin.

Formal guarantee
----------------
m canaries are included independently with probability 1/2 each. From the output alone r of them
are guessed in or out, v rightly; how many are guessed was fixed beforehand. If the mechanism is
(epsilon, delta)-DP for adding or removing one record, a bound here exceeds epsilon with
probability at most 1 - confidence. `f_dp_one_run` adds the hypothesis that it is mu-GDP.

| case | what happens |
|---|---|
| no guess, or no more right than wrong | epsilon >= 0 |
| every guess right | finite: r right guesses show about ln(r / ln(1/level)) at most |
| 2 m delta above the level | epsilon >= 0: delta counts once for every canary, guessed or not |
| delta = 0 | pure DP; refused under the Gaussian hypothesis |
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, gammaln, ndtr, ndtri

from sordino import _check
from sordino.accounting import gaussian
from sordino.audit.bounds import GAUSSIAN_HYPOTHESIS, level_of, positive_delta
from sordino.privacy import Observation
from sordino.types import Floats

_MOST_MU = 40.0
"""No count of canaries shows more; normal tails have no digits beyond."""
_AT_ONCE = 64
"""Candidates for mu that go through the recursion together."""


def steinke(
    canaries: int, guesses: int, correct: int, *, delta: float, confidence: float, attack: str = ""
) -> Observation:
    """The one-run bound of Steinke, Nasr & Jagielski (2023): no hypothesis but (epsilon, delta)-DP.

    Parameters
    ----------
    canaries
        m: all whose inclusion was random.
    guesses, correct
        r of them were guessed, v rightly.
    """
    _check_counts(canaries, guesses, correct)
    delta = _check.probability_below_one("delta", delta)
    level = level_of(confidence)

    def rejected(epsilon: float) -> bool:
        return steinke_p_value(canaries, guesses, correct, epsilon, delta) < level

    said = f"one run, {correct} of {guesses} guesses right among {canaries} canaries"
    return Observation(
        epsilon=_last_rejected(rejected),
        delta=delta,
        confidence=confidence,
        attack=_said(attack, f"{said} (Steinke, Nasr & Jagielski 2023)"),
        trials=canaries,
    )


def steinke_p_value(
    canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> float:
    """At most this probable are so many right guesses if the mechanism is (epsilon, delta)-DP.

    P[W >= v] + 2 m delta max over i = 1..v of P[v - i <= W < v] / i, with
    W ~ Binomial(r, e^epsilon / (1 + e^epsilon)); at most 1 (docs/math.md 7.3). It grows with
    epsilon wherever it is below 1/2.
    """
    _check_counts(canaries, guesses, correct)
    epsilon = _check.non_negative("epsilon", epsilon, allow_infinite=True)
    delta = _check.probability_below_one("delta", delta)
    if correct == 0 or math.isinf(epsilon):
        return 1.0
    right = 1 / (1 + math.exp(-epsilon))
    tail = float(betainc(correct, guesses - correct + 1.0, right))
    if delta == 0:
        return min(1.0, tail)
    wrong_log = -epsilon - math.log1p(math.exp(-epsilon))  # ln(1 - right), also where it is 0
    counts = np.arange(correct - 1, -1, -1)
    logs = gammaln(guesses + 1.0) - gammaln(counts + 1.0) - gammaln(guesses - counts + 1.0)
    logs += counts * math.log(right) + (guesses - counts) * wrong_log
    below = np.cumsum(np.exp(logs)) / np.arange(1, correct + 1)
    return min(1.0, tail + 2 * canaries * delta * float(np.max(below)))


def f_dp_one_run(
    canaries: int, guesses: int, correct: int, *, delta: float, confidence: float, attack: str = ""
) -> Observation:
    """The epsilon of `f_dp_mu`: larger than `steinke`, and only as true as its hypothesis."""
    delta = positive_delta(delta)
    mu = f_dp_mu(canaries, guesses, correct, confidence=confidence)
    said = f"one run, {correct} of {guesses} guesses right among {canaries} canaries"
    source = "(Mahloujifar, Melis & Chaudhuri 2024)"
    return Observation(
        epsilon=gaussian.epsilon(mu, delta),
        delta=delta,
        confidence=confidence,
        attack=_said(attack, f"{said} {source}, {GAUSSIAN_HYPOTHESIS}"),
        trials=canaries,
    )


def f_dp_mu(canaries: int, guesses: int, correct: int, *, confidence: float) -> float:
    """Largest mu that so many right guesses refute, if the mechanism is mu-GDP.

    The one-run bound of Mahloujifar, Melis & Chaudhuri (2024) with two answers a canary, for the
    trade-off function G_mu, which serves both for adding and for removing.
    """
    _check_counts(canaries, guesses, correct)
    level = level_of(confidence)
    low, high = 0.0, _MOST_MU
    while high - low > 1e-9 * high and high > 1e-9:
        mus = np.linspace(low, high, _AT_ONCE + 2)[1:-1]
        refuted = _f_dp_refuted(mus, canaries, guesses, correct, level)
        last = int(np.count_nonzero(np.logical_and.accumulate(refuted)))  # larger mu, less refuted
        low, high = (float(np.r_[low, mus, high][i]) for i in (last, last + 1))
    return low


def _f_dp_refuted(
    mus: Floats, canaries: int, guesses: int, correct: int, level: float
) -> npt.NDArray[np.bool_]:
    """Whether each mu-GDP is refuted at `level` (docs/math.md 7.4).

    The letters r and h of the paper's recursion: right and wrong guesses over canaries.
    """
    r = np.full(len(mus), level * correct / canaries)
    h = np.full(len(mus), level * (guesses - correct) / canaries)
    for i in range(correct - 1, -1, -1):
        # The inverse of 1 - f: Phi(Phi^-1(x) - mu).
        raised = np.maximum(h, ndtr(ndtri(np.minimum(r, 1.0)) - mus))
        r += i / (guesses - i) * (raised - h)
        h = raised
    return np.asarray(r + h > guesses / canaries)


def _last_rejected(rejected: Callable[[float], bool]) -> float:
    """The largest epsilon that is rejected, from below, or 0."""
    if not rejected(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while rejected(high):
        low, high = high, 2 * high
    while (middle := low + (high - low) / 2) not in (low, high):
        low, high = (middle, high) if rejected(middle) else (low, middle)
        if high - low <= 1e-13 * high:
            break
    return low


def _check_counts(canaries: int, guesses: int, correct: int) -> None:
    canaries = _check.whole("canaries", canaries, at_least=1)
    guesses = _check.whole("guesses", guesses)
    correct = _check.whole("correct", correct)
    if guesses > canaries:
        _check.fail("guesses", guesses, f"<= canaries={canaries}", "One guess a canary at most.")
    if correct > guesses:
        _check.fail("correct", correct, f"<= guesses={guesses}")


def _said(attack: str, bound: str) -> str:
    return f"{attack}; {bound}" if attack else bound
