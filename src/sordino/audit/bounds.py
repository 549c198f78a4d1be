"""From the scores of two worlds to a lower bound on epsilon that holds with stated confidence.

World 0 is the dataset D, world 1 its neighbour D'; a higher score says "D'". At a threshold t the
false positives are the scores >= t of world 0, the false negatives the scores < t of world 1, so
that every score, tied or not, is on exactly one side.

Formal guarantee
----------------
Runs of one world must be independent of each other; the two worlds need not be (a union bound
joins them). If the mechanism is (epsilon, delta)-DP for D and D', a bound here exceeds epsilon
with probability at most 1 - confidence, whatever the score. Bounds called "gaussian" add the
hypothesis that the mechanism is mu-GDP, and say so in their text.

| case | what happens |
|---|---|
| no error of a kind among n | rate <= 1 - level^(1/n), never 0 |
| n errors among n | rate <= 1: no bound from this side |
| equal worlds, or a score the wrong way round | epsilon >= 0 |
| delta = 0 | pure DP; refused under the Gaussian hypothesis, which it contradicts |
| infinite scores | as good as any; NaN is refused |
| so few runs that no attack could show anything | refused by the functions that take scores |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, ndtri

from sordino import checks
from sordino.accounting import gaussian
from sordino.privacy import Observation
from sordino.types import Floats, Ints

GAUSSIAN_HYPOTHESIS = "if the mechanism is Gaussian (mu-GDP)"
"""What every bound within the Gaussian family says of itself."""


def clopper_pearson_upper(errors: int, trials: int, level: float) -> float:
    """Upper bound on a rate of which `errors` of `trials` were seen; false with chance `level`.

    The exact one-sided interval of Clopper & Pearson (1934): the rate at which so few errors have
    probability `level`, that is BetaInv(1 - level; k + 1, n - k), and 1 if every trial was one.
    """
    errors, trials = _count("errors", errors, "trials", trials)
    if not 0 < level < 1:
        checks.fail("level", level, "in (0, 1)")
    return float(upper(np.array(errors), trials, level))


def upper(errors: npt.NDArray[Any], trials: int, level: float) -> Floats:
    """`clopper_pearson_upper` of many counts, which may be fractions: expected ones."""
    left = np.maximum(trials - errors, 0)
    # The complement keeps the digits of a small level, which 1 - level would lose.
    inner = betainccinv(errors + 1.0, np.where(left > 0, left, 1.0), level)
    return np.asarray(np.where(left > 0, inner, 1.0), dtype=np.float64)


def from_counts(
    false_positives: int,
    negatives: int,
    false_negatives: int,
    positives: int,
    *,
    delta: float,
    confidence: float,
    attack: str = "",
    if_gaussian: bool = False,
) -> Observation:
    """Lower bound from the errors of one test that was fixed before these runs were seen.

    max{0, ln((1 - delta - a)/b), ln((1 - delta - b)/a)} with upper bounds a and b on the two error
    rates, each at half the level (docs/math.md 7.1).

    Parameters
    ----------
    false_positives, negatives
        Runs of world 0 taken for world 1, and all runs of world 0.
    false_negatives, positives
        Runs of world 1 taken for world 0, and all runs of world 1.
    delta, confidence
        Of the statement.
    attack
        What was tested, for the observation's text.
    if_gaussian
        Take the mechanism for mu-GDP: the epsilon of the least mu that explains the errors. Larger,
        and only as true as its hypothesis: a mechanism that is (epsilon, delta)-DP but not Gaussian
        can be made to show more than its epsilon.
    """
    said = "Clopper-Pearson at one threshold fixed beforehand"
    counts = (false_positives, negatives, false_negatives, positives)
    if if_gaussian:
        delta = positive_delta(delta)
        said = f"{said}, {GAUSSIAN_HYPOTHESIS}"
        epsilon = gaussian.epsilon(gaussian_mu_from_counts(*counts, confidence=confidence), delta)
    else:
        delta = checks.probability_below_one("delta", delta)
        epsilon = max(0.0, float(epsilon_of_rates(*_rates(*counts, confidence), delta)))
    return Observation(epsilon, delta, confidence, by(attack, said), negatives + positives)


def at_threshold(
    negative: npt.ArrayLike,
    positive: npt.ArrayLike,
    threshold: float,
    *,
    delta: float,
    confidence: float,
    **how: Any,
) -> Observation:
    """`from_counts` at a threshold that was chosen without these scores; `how` is as there."""
    negative, positive = worlds(negative, positive)
    check_runs(min(len(negative), len(positive)), delta=delta, confidence=confidence)
    counts = counts_at(negative, positive, threshold)
    return from_counts(*counts, delta=delta, confidence=confidence, **how)


def best_threshold(
    negative: npt.ArrayLike,
    positive: npt.ArrayLike,
    *,
    delta: float,
    confidence: float,
    runs: int | None = None,
) -> float:
    """The threshold expected to give the largest `from_counts` bound on fresh runs.

    An extreme threshold with no error among these scores would have some among others. So each
    candidate is judged by upper bounds on its rates (one standard error, so to speak), and by what
    `from_counts` makes of that many errors. Candidates lie half way between neighbouring distinct
    scores; a few hundred are compared, as many as there are counts 4 % apart.

    Parameters
    ----------
    runs
        Fresh runs a world that the threshold will be tested on; as many as here if None.
    """
    negative, positive = worlds(negative, positive)
    delta = checks.probability_below_one("delta", delta)
    level = level_of(confidence)
    seen = len(negative), len(positive)
    tested = seen if runs is None else (checks.whole("runs", runs, at_least=1),) * 2
    values, errors = _candidates(negative, positive)

    def expected(world: int) -> Floats:
        # 0.16 is the level of one standard error.
        rates = upper(errors[world], seen[world], 0.16)
        return upper(rates * tested[world], tested[world], level / 2)

    found = epsilon_of_rates(expected(0), expected(1), delta)
    if found.max() <= 0:
        # Nothing can be expected to show. The largest of these would be the threshold that calls
        # everything D', which never shows anything: take the one that guessed best here.
        found = 1 - errors[0] / seen[0] - errors[1] / seen[1]
    return float(values[np.argmax(found)])


def split(
    negative: npt.ArrayLike,
    positive: npt.ArrayLike,
    *,
    delta: float,
    confidence: float,
    attack: str = "",
) -> Observation:
    """The threshold is chosen on the first half of each world's scores, tested on the second."""
    negative, positive = worlds(negative, positive)
    halves = [len(negative) // 2, len(positive) // 2]
    tested = min(len(negative) - halves[0], len(positive) - halves[1])
    if min(halves) == 0:
        checks.fail("runs", min(len(negative), len(positive)), ">= 2 a world")
    how: dict[str, Any] = {"delta": delta, "confidence": confidence}
    check_runs(tested, half=True, **how)
    first = negative[: halves[0]], positive[: halves[1]]
    threshold = best_threshold(*first, runs=tested, **how)
    counts = counts_at(negative[halves[0] :], positive[halves[1] :], threshold)
    text = by(attack, "Clopper-Pearson at a threshold chosen by other runs")
    return replace(from_counts(*counts, **how), attack=text)


def bonferroni(
    negative: npt.ArrayLike,
    positive: npt.ArrayLike,
    thresholds: Sequence[float] | Floats,
    *,
    delta: float,
    confidence: float,
    attack: str = "",
) -> Observation:
    """The best of several thresholds that were fixed beforehand, each at its share of the level."""
    negative, positive = worlds(negative, positive)
    delta = checks.probability_below_one("delta", delta)
    grid = np.unique(checked_scores("thresholds", np.asarray(thresholds, dtype=np.float64)))
    level = level_of(confidence) / len(grid)
    trials = len(negative), len(positive)
    check_runs(min(trials), delta=delta, confidence=1 - level)
    errors = error_counts(negative, positive, grid)
    rates = [upper(seen, many, level / 2) for seen, many in zip(errors, trials, strict=True)]
    epsilon = max(0.0, float(np.max(epsilon_of_rates(rates[0], rates[1], delta))))
    said = f"Clopper-Pearson with Bonferroni over {len(grid)} thresholds"
    return Observation(epsilon, delta, confidence, by(attack, said), sum(trials))


def gaussian_mu_from_counts(
    false_positives: int, negatives: int, false_negatives: int, positives: int, *, confidence: float
) -> float:
    """Lower bound on mu if the mechanism is mu-GDP: Phi^-1(1 - a) - Phi^-1(b) (math.md 7.2)."""
    rates = _rates(false_positives, negatives, false_negatives, positives, confidence)
    return max(0.0, float(-ndtri(rates[0]) - ndtri(rates[1])))


def epsilon_of_rates(false_positive: Floats, false_negative: Floats, delta: float) -> Floats:
    """Least epsilon, perhaps below 0, of a mechanism whose test has at most these two rates."""

    def one_way(first: Floats, second: Floats) -> Floats:
        room = 1 - delta - first
        ratio = np.where(room > 0, room, 1.0) / second
        return np.where(room > 0, np.log(ratio), -math.inf)

    both = (one_way(false_positive, false_negative), one_way(false_negative, false_positive))
    return np.asarray(np.maximum(*both))


def check_runs(runs: int, *, delta: float, confidence: float, half: bool = False) -> None:
    """Refuse so few runs, or a tested `half`, that an attack without any error shows nothing."""
    delta = checks.probability_below_one("delta", delta)
    level = level_of(confidence)
    # 1 - (level/2)^(1/n) < (1 - delta)/2, solved for n.
    least = math.floor(math.log(level / 2) / math.log1p((delta - 1) / 2)) + 1
    if runs < least:
        each = "tested runs a world, half of all" if half else "runs a world"
        wanted = f"confidence {confidence:.6g} at delta = {delta:.3g}"
        checks.fail("runs", runs, f">= {least} {each}, for {wanted}")


def level_of(confidence: float) -> float:
    """The chance of being wrong that a confidence leaves."""
    confidence = checks.positive("confidence", confidence)
    if confidence >= 1:
        checks.fail("confidence", confidence, "in (0, 1)", "0.95 is usual.")
    return 1 - confidence


def positive_delta(delta: float) -> float:
    """`delta` if a Gaussian mechanism can have it."""
    delta = checks.probability_below_one("delta", delta)
    if delta == 0:
        checks.fail("delta", delta, "> 0 under the Gaussian hypothesis", "1e-5 is usual.")
    return delta


def checked_scores(name: str, values: npt.ArrayLike) -> Floats:
    """`values` as a flat array of numbers; infinite ones may be among them, NaN may not."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        checks.fail(name, f"[shape {array.shape}]", "to be a list of numbers, one a run")
    if np.isnan(array).any():
        bad, first = int(np.isnan(array).sum()), int(np.argmax(np.isnan(array)))
        checks.fail(name, f"[{bad} NaN]", f"to be numbers; the first NaN is at {first}")
    return array


def worlds(negative: npt.ArrayLike, positive: npt.ArrayLike) -> tuple[Floats, Floats]:
    """The scores of both, checked."""
    return checked_scores("negative", negative), checked_scores("positive", positive)


def _candidates(negative: Floats, positive: Floats) -> tuple[Floats, tuple[Floats, Floats]]:
    """Thresholds worth comparing, and the errors of both kinds that each makes here."""
    distinct = np.unique(np.concatenate([negative, positive]))
    false_positives, false_negatives = error_counts(negative, positive, distinct)
    # Of the thresholds with at most k false positives the lowest misses least, and vice versa.
    most = max(len(negative), len(positive))
    # 1.04 is the ratio of neighbouring error counts.
    steps = 2 + math.ceil(math.log(most) / math.log(1.04))
    few = np.unique(np.geomspace(1, most, steps))
    few = np.concatenate([[0], np.unique(few.astype(np.int64))])
    lowest = np.searchsorted(-false_positives, -few)
    highest = np.searchsorted(false_negatives, few, side="right") - 1
    chosen = np.unique(np.clip(np.concatenate([lowest, highest]), 0, len(distinct) - 1))
    below = distinct[np.maximum(chosen - 1, 0)]
    with np.errstate(invalid="ignore"):
        middle = 0.5 * below + 0.5 * distinct[chosen]
    # Half way is as good here and better on fresh runs; but it must be a number above the one.
    inside = np.isfinite(middle) & (middle > below)
    values = np.where(inside, middle, distinct[chosen])
    errors = false_positives[chosen], false_negatives[chosen]
    return values, (errors[0].astype(np.float64), errors[1].astype(np.float64))


def counts_at(negative: Floats, positive: Floats, threshold: float) -> tuple[int, int, int, int]:
    """Errors among the runs of world 0, those runs, errors among those of world 1, those runs."""
    if math.isnan(threshold):
        checks.fail("threshold", threshold, "to be a number")
    false_positives = int(np.count_nonzero(negative >= threshold))
    false_negatives = int(np.count_nonzero(positive < threshold))
    return false_positives, len(negative), false_negatives, len(positive)


def error_counts(negative: Floats, positive: Floats, thresholds: Floats) -> tuple[Ints, Ints]:
    """False positives and false negatives at each of many thresholds."""
    accused = len(negative) - np.searchsorted(np.sort(negative), thresholds)
    return accused, np.searchsorted(np.sort(positive), thresholds)


def error_rates(negative: Floats, positive: Floats) -> tuple[Floats, Floats]:
    """False positive and false negative rate at every threshold, from the lowest score up.

    >>> [rates.tolist() for rates in error_rates(np.array([0.0]), np.array([1.0]))]
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    thresholds = np.append(np.unique(np.concatenate([negative, positive])), np.inf)
    below = np.searchsorted(np.sort(negative), thresholds, side="left")
    missed = np.searchsorted(np.sort(positive), thresholds, side="left")
    return 1 - below / len(negative), missed / len(positive)


def _rates(
    false_positives: int, negatives: int, false_negatives: int, positives: int, confidence: float
) -> tuple[Floats, Floats]:
    level = level_of(confidence) / 2
    first = _count("false_positives", false_positives, "negatives", negatives)
    second = _count("false_negatives", false_negatives, "positives", positives)
    return upper(np.array(first[0]), first[1], level), upper(np.array(second[0]), second[1], level)


def _count(name: str, errors: int, of: str, trials: int) -> tuple[int, int]:
    errors, trials = checks.whole(name, errors), checks.whole(of, trials, at_least=1)
    if errors > trials:
        checks.fail(name, errors, f"<= {of}={trials}")
    return errors, trials


def by(attack: str, bound: str) -> str:
    """The text of an observation: what gave the scores, if that is told, and the bound."""
    return f"{attack}; {bound}" if attack else bound
