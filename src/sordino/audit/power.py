"""What an audit could show before it is run: its ceiling, its reach, and the runs it needs.

All for the bound of `bounds.from_counts`, the one without a hypothesis, at a threshold chosen
without the tested runs. `runs` are the tested runs a world; an audit that splits its runs to
choose the threshold tests half of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri

from sordino import checks
from sordino.accounting import gaussian
from sordino.audit.band import dkw
from sordino.audit.bounds import epsilon_of_rates, level_of, positive_delta, upper
from sordino.types import Floats

_POINTS = 81
"""Thresholds compared at a time; the bound is flat around the best one."""


def ceiling(runs: int, *, delta: float, confidence: float) -> float:
    """What a perfect attack, without any error, would show: no audit of `runs` runs shows more.

    0 where there are too few runs for the confidence.
    """
    return reach(math.inf, runs=runs, delta=delta, confidence=confidence)


def reach(epsilon: float, *, runs: int, delta: float, confidence: float) -> float:
    """What the best attack on a mechanism that just keeps (epsilon, delta) can expect to show.

    The mechanism is the Gaussian one with the likelihood ratio as its score; at delta = 0, which
    no Gaussian mechanism has, randomised response. `from_counts` of the expected errors at the
    best threshold, and 0 where that shows nothing. `ceiling` at epsilon = inf.
    """
    epsilon = checks.non_negative("epsilon", epsilon, allow_infinite=True)
    delta = checks.probability_below_one("delta", delta)
    runs = checks.whole("runs", runs, at_least=1)
    return _shown(epsilon, delta, level_of(confidence))(runs)


def gaussian_reach(epsilon: float, *, runs: int, delta: float, confidence: float) -> float:
    """The same for `band` within the Gaussian family: what its DKW band can expect to show.

    Farther than `reach`, by the hypothesis that the mechanism is Gaussian.
    """
    epsilon = checks.non_negative("epsilon", epsilon, allow_infinite=True)
    runs = checks.whole("runs", runs, at_least=1)
    mu = math.inf if math.isinf(epsilon) else 1 / gaussian.sigma(epsilon, positive_delta(delta))
    width = float(dkw(runs, level_of(confidence) / 2)[0])
    thresholds = np.linspace(-9.0, min(mu, 100.0) + 9.0, 20 * _POINTS)
    # A perfect attack errs nowhere at some threshold.
    first = np.zeros(1) if math.isinf(mu) else ndtr(-thresholds)
    second = np.zeros(1) if math.isinf(mu) else ndtr(thresholds - mu)
    shown = -ndtri(np.minimum(first + width, 1.0)) - ndtri(np.minimum(second + width, 1.0))
    return gaussian.epsilon(max(0.0, float(np.max(shown))), delta)


def runs_needed(claimed: float, true: float, *, delta: float, confidence: float) -> int | None:
    """Fewest tested runs a world that can expect to refute `claimed`, if `true` is the epsilon.

    None if no number of runs would: a claim that is true, or one so close to the truth that the
    runs could not be counted.
    """
    claimed = checks.non_negative("claimed", claimed, allow_infinite=True)
    true = checks.non_negative("true", true, allow_infinite=True)
    delta = checks.probability_below_one("delta", delta)
    level = level_of(confidence)
    if true <= claimed:
        return None
    shown = _shown(true, delta, level)
    low, high = 0, 1
    while not shown(high) > claimed:
        low, high = high, 2 * high
        if high > (1 << 40):
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shown(middle) > claimed else (middle, high)
    return high


def _shown(epsilon: float, delta: float, level: float) -> Callable[[int], float]:
    """From runs to the bound at the best threshold of a mechanism that just keeps its budget."""
    pure = delta == 0 or math.isinf(epsilon)  # randomised response, which has one test only
    error = 1 / (1 + math.exp(min(epsilon, 700.0))) if math.isfinite(epsilon) else 0.0
    mu = 0.0 if pure else 1 / gaussian.sigma(epsilon, delta)

    def at(thresholds: Floats, runs: int) -> Floats:
        rates = (np.full(len(thresholds), error),) * 2
        if not pure:
            rates = np.asarray(ndtr(-thresholds)), np.asarray(ndtr(thresholds - mu))
        bounds = [upper(rate * runs, runs, level / 2) for rate in rates]
        return epsilon_of_rates(bounds[0], bounds[1], delta)

    def shown(runs: int) -> float:
        """The best of a few, from the middle on, then the best of a few around it."""
        coarse = np.linspace(mu / 2, mu + 9.0, _POINTS)
        best, step = coarse[np.argmax(at(coarse, runs))], coarse[1] - coarse[0]
        return max(0.0, float(np.max(at(np.linspace(best - step, best + step, _POINTS), runs))))

    return shown
