"""The game: was it D or D'? `audit` plays it thousands of times against a mechanism.

    runs on D and D' -> outputs -> (first half) a score and its threshold
                                -> (second half) errors of that test -> a lower bound on epsilon

What the first half learns, however it does so, is fixed before the second half is looked at: the
errors there are independent trials of one test, and Clopper-Pearson's bounds on their rates hold
with the stated confidence, whatever the mechanism.

What an audit could show before it is run: its ceiling, its reach, and the runs it needs.

All for the bound of `bounds.from_counts`, the one without a hypothesis, at a threshold chosen
without the tested runs. `runs` are the tested runs a world; an audit that splits its runs to
choose the threshold tests half of them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from sordino import checks
from sordino.accounting import gaussian
from sordino.audit import bounds, scores
from sordino.audit.band import GaussianFamily, band, dkw, refutes
from sordino.audit.bounds import epsilon_of_rates, level_of, positive_delta, upper
from sordino.audit.pairs import Claim, difference, has_silent_record
from sordino.audit.runners.fits import lay_out
from sordino.audit.runners.functions import Output, is_estimator
from sordino.audit.runners.minimised import PreparedFit, SingleFit
from sordino.audit.runners.outputs import as_dataset, check_memory, outputs
from sordino.audit.runners.trained import TrainedRelease
from sordino.audit.scores import Fitted, Score
from sordino.data.neighbours import UNCHANGED, Neighbours
from sordino.errors import InvalidArgument
from sordino.privacy import Observation, Relation, Sampling, rounded
from sordino.randomness import stream
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats, Progress

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
    return _reach_by_runs(epsilon, delta, level_of(confidence))(runs)


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
    reach_at = _reach_by_runs(true, delta, level)
    low, high = 0, 1
    while not reach_at(high) > claimed:
        low, high = high, 2 * high
        if high > (1 << 40):
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reach_at(middle) > claimed else (middle, high)
    return high


def _reach_by_runs(epsilon: float, delta: float, level: float) -> Callable[[int], float]:
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

    def reach_at(runs: int) -> float:
        """The best of a few, from the middle on, then the best of a few around it."""
        coarse = np.linspace(mu / 2, mu + 9.0, _POINTS)
        best, step = coarse[np.argmax(at(coarse, runs))], coarse[1] - coarse[0]
        return max(0.0, float(np.max(at(np.linspace(best - step, best + step, _POINTS), runs))))

    return reach_at


_NAMES = {"likelihood": "the likelihood ratio", "loss": "the loss of the record that differs"}
_SCORES = ("learned", *_NAMES)
_GRID = 20  # thresholds of the Bonferroni bound: quantiles of the first half's scores
_LEAST_RUNS = 16


@dataclass(frozen=True, eq=False)
class Audit:
    """What an attack achieved against a mechanism.

    Parameters
    ----------
    claimed
        What was to be refuted; None if nothing was claimed.
    observed
        The headline: a lower bound that assumes nothing of the mechanism, at one threshold that
        the first half of the runs chose.
    others
        Other bounds from the same scores, each with its own confidence; some assume a hypothesis,
        and say so.
    negative, positive
        Scores of the tested runs, on D and on D'.
    threshold, score
        The test: D' from this score on, and what the score looks at.
    reach
        What the best attack could expect to show by these runs if the mechanism were Gaussian
        noise that just keeps its claim (randomised response at delta = 0; worthless, if nothing is
        claimed). Other mechanisms may show more: what was observed counts, too.
    gaussian_reach
        The same within the Gaussian family; None at delta = 0, or if nothing is claimed.
    curve_refuted
        Whether the whole claimed curve is refuted by the band over all thresholds; None if none
        is claimed, or runs are too few. Sharper than `violated`, which rests on two numbers. It is
        another test at the same confidence: a mechanism that keeps its claim fails one of the two
        with up to twice the probability that it fails either.
    checked_pair
        Whether D and D' were seen to differ in one record; False where a function is handed data
        whose records cannot be told.
    """

    claimed: Claim | None
    observed: Observation
    others: tuple[Observation, ...]
    negative: Floats = field(repr=False)
    positive: Floats = field(repr=False)
    threshold: float
    score: str
    reach: float
    gaussian_reach: float | None = None
    curve_refuted: bool | None = None
    checked_pair: bool = True

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted, with the confidence of `observed`."""
        return self.claimed is not None and self.observed.epsilon > self.claimed.epsilon

    @property
    def tested_point(self) -> tuple[float, float]:
        """The most that the errors at the tested threshold can be, with the audit's confidence."""
        level = (1 - self.observed.confidence) / 2
        counts = bounds.counts_at(self.negative, self.positive, self.threshold)
        upper = bounds.clopper_pearson_upper
        return upper(*counts[:2], level), upper(*counts[2:], level)

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        sure = f"{100 * self.observed.confidence:.6g}% confidence"
        at = f"at delta = {self.observed.delta:.3g} with {sure}"
        seen = f"observed epsilon >= {_three(self.observed.epsilon)} {at}"
        if self.claimed is None:
            most = f"at most {rounded(self.reach, digits=3)} without a hypothesis"
            text = f"{seen}; nothing was claimed; this audit could show {most}"
        elif self.violated:
            text = f"violation: {seen}, above the claimed {self.claimed.epsilon:.4g}"
        else:
            text = "no violation found"
            if self.curve_refuted:
                text = (
                    f"the claimed curve is refuted with {sure} by a second test, of all "
                    f"thresholds, though not its epsilon {self.claimed.epsilon:.4g}"
                )
            farthest = max(self.reach, self.observed.epsilon)  # as far as it saw, at least
            could = f"this audit could have refuted epsilon below {_three(farthest)}"
            if farthest <= 0:
                could = "these runs were too few to refute noise that just keeps its claim"
            if self.gaussian_reach and self.gaussian_reach > farthest:
                could += " without a hypothesis" if farthest <= 0 else ""
                below = f"below {_three(self.gaussian_reach)}"
                could += f" ({below} within the family of Gaussian mechanisms)"
            text += f"; {could}"
        if self.checked_pair:
            return text
        return f"{text}; that the two datasets differ in one record was not checked"

    def __str__(self) -> str:
        return f"{self.verdict}. {self.observed}"


def audit(
    mechanism: Any,
    D: Any,
    D_prime: Any,
    runs: int,
    *,
    claim: Claim | float | None = None,
    delta: float | None = None,
    score: str | Score = "learned",
    confidence: float = 0.99,
    seed: int = 0,
    workers: int | None = None,
    client: Any = None,
    progress: Progress | None = None,
    file: str | os.PathLike[str] | None = None,
    output: Output | None = None,
) -> Audit:
    """Run a mechanism on two neighbouring datasets, and bound its epsilon from below.

    Parameters
    ----------
    mechanism, D, D_prime, runs, seed, workers, client, progress, file, output
        As in `sordino.audit.runners.outputs.outputs`; `runs` are runs in each world, of which half
        learn and half test. D and D_prime must differ in one record, all others being in the same
        order (which does not matter to our SGD in a random order). Records are rows of arrays,
        tables, sparse matrices, or tuples of them; what else a function takes is not looked into.
    claim
        A `Claim` to refute, or its epsilon (at `delta`, for the relation of D and D').
    delta
        Of the statement; the claim's if not given.
    score
        "learned" (`sordino.audit.scores`); "likelihood", where the law is known; "loss", of the
        record that differs; or a function from outputs [run, value] to a number a run, higher for
        D', which must judge each run by itself and must not have been made from these runs.
    confidence
        Of `observed`, and of each of `others`.

    Returns
    -------
    Audit
        Lower bounds, tested scores and a verdict.

    Raises
    ------
    InvalidArgument
        In one sentence: datasets that do not differ in one record, runs that fail or give other
        shapes, too few runs for the confidence.
    OutputFileError
        If `file` is of another mechanism, dataset or seed.

    Examples
    --------
    >>> def noisy_sum(data, generator):
    ...     return data.sum() + generator.normal(0, 0.1)
    >>> D, D_prime = np.zeros(3), np.array([0.0, 0.0, 1.0])
    >>> audit(noisy_sum, D, D_prime, runs=400, claim=1.0, delta=1e-5).violated
    True
    """
    if isinstance(mechanism, TrainSpec):
        mechanism = TrainedRelease(mechanism)
    D, D_prime, relation, silent = _checked_pair(mechanism, D, D_prime)
    claim, delta = _checked_claim(claim, delta, relation, silent)
    tested = _tested_runs(runs, delta, confidence)
    judge = score if callable(score) else None
    if not callable(score) and checks.one_of("score", score, _SCORES) != "learned":
        known = scores.likelihood if score == "likelihood" else scores.loss
        judge = known(mechanism, D, D_prime)
    how: dict[str, Any] = {"seed": seed, "workers": workers, "client": client}
    how |= {"progress": progress, "file": file, "output": output}
    made = outputs(mechanism, D, D_prime, runs, **how)
    first, second = ((made[0][part], made[1][part]) for part in halves(runs))
    statement = Statement(delta, confidence, tested)
    if judge is None:
        fitted = scores.learned(*first, statement.worth, stream("audit folds", seed))
    elif isinstance(score, str):
        fitted = scores.known(judge, *first, _NAMES[score])
    else:
        fitted = scores.given(judge, *first, stream("audit score", seed))
    threshold = statement.threshold(fitted.negative, fitted.positive)
    negative, positive = fitted(*second)
    goal = math.inf if claim is None else claim.epsilon
    asked: dict[str, Any] = {"runs": tested, "delta": delta, "confidence": confidence}
    curve = None if claim is None else claim.profile
    refuted = None
    if curve is not None:
        with suppress(InvalidArgument):  # too few runs for this one
            refuted = refutes(negative, positive, curve, confidence=confidence)
    text = f"{fitted.name}; Clopper-Pearson at one threshold, both chosen by other runs"
    return Audit(
        claimed=claim,
        observed=replace(statement.at(negative, positive, threshold), attack=text),
        others=statement.others(negative, positive, threshold, fitted),
        negative=negative,
        positive=positive,
        threshold=threshold,
        score=fitted.name,
        reach=reach(goal, **asked),
        gaussian_reach=None if claim is None or delta == 0 else gaussian_reach(goal, **asked),
        curve_refuted=refuted,
        checked_pair=relation is not None,
    )


@dataclass(frozen=True)
class Statement:
    """What is to be said of so many tested runs, and the bounds that say it."""

    delta: float
    confidence: float
    tested: int

    @property
    def _how(self) -> dict[str, Any]:
        return {"delta": self.delta, "confidence": self.confidence}

    def threshold(self, negative: Floats, positive: Floats) -> float:
        """The one that should show most of as many fresh runs."""
        return bounds.best_threshold(negative, positive, runs=self.tested, **self._how)

    def worth(self, negative: Floats, positive: Floats) -> float:
        """What such scores would show: for choosing among attacks, not for telling anybody."""
        return self.at(negative, positive, self.threshold(negative, positive)).epsilon

    def at(self, negative: Floats, positive: Floats, threshold: float) -> Observation:
        """The bound at a threshold, of scores that other runs chose."""
        counts = bounds.counts_at(negative, positive, threshold)
        return bounds.from_counts(*counts, **self._how)

    def others(
        self, negative: Floats, positive: Floats, threshold: float, fitted: Fitted
    ) -> tuple[Observation, ...]:
        """Those that these runs are enough for."""
        how = {**self._how, "attack": fitted.name}
        both = np.concatenate([fitted.negative, fitted.positive])
        grid = np.quantile(both, (np.arange(_GRID) + 0.5) / _GRID, method="lower")
        made = []
        with suppress(InvalidArgument):  # too few runs for this one
            made.append(bounds.bonferroni(negative, positive, grid, **how))
        if self.delta == 0:  # no Gaussian mechanism has it
            return tuple(made)
        made.append(bounds.at_threshold(negative, positive, threshold, if_gaussian=True, **how))
        family, named = GaussianFamily(self.delta), "of Gaussian mechanisms"
        with suppress(InvalidArgument):
            made.append(band(negative, positive, family, family_name=named, **how))
        return tuple(made)


def halves(runs: int) -> tuple[slice, slice]:
    """Runs that learn, and runs that test."""
    return slice(0, runs // 2), slice(runs // 2, runs)


def check(runs: int, numbers: int, *, delta: float, confidence: float) -> None:
    """Refuse, before anything is run, what `audit` would refuse of so many runs.

    Parameters
    ----------
    runs
        In each world.
    numbers
        That one run gives; 1 if nobody knows.
    delta, confidence
        Of the statement.
    """
    _tested_runs(runs, delta, confidence)
    check_memory(runs, numbers)


def _three(value: float) -> str:
    """Three digits of a lower bound, rounded down."""
    return rounded(value, up=False, digits=3)


def _tested_runs(runs: int, delta: float, confidence: float) -> int:
    """Runs a world of the second half."""
    runs = checks.whole("runs", runs, at_least=1)
    tested = runs - runs // 2
    bounds.check_runs(tested, delta=delta, confidence=confidence, half=True)
    if runs < _LEAST_RUNS:
        checks.fail("runs", runs, f">= {_LEAST_RUNS}")
    return tested


def _checked_claim(
    claim: Claim | float | None, delta: float | None, relation: Relation | None, silent: bool
) -> tuple[Claim | None, float]:
    """The claim and its delta; refused if it is about other neighbours than these."""
    if not isinstance(claim, Claim):
        if delta is None:
            checks.fail("delta", None, "to be given")
        delta = checks.probability_below_one("delta", delta)
        if claim is None:
            return None, delta
        return Claim(claim, delta, relation or Relation.REPLACE_ONE), delta
    about = {relation}
    if relation is Relation.ZERO_OUT:  # a silent record is one that may replace another
        about.add(Relation.REPLACE_ONE)
    if relation is Relation.REPLACE_ONE and silent:
        about.add(Relation.ZERO_OUT)
    if relation is not None and claim.relation not in about:
        silence = "Use sordino.data.neighbours.zero_out." * (claim.relation is Relation.ZERO_OUT)
        checks.fail("claim", claim.relation.value, f"to be {relation.value}, as the pair", silence)
    if delta is not None and delta != claim.delta:
        checks.fail("delta", delta, f"to be the claim's {claim.delta:g}", "Leave it out.")
    return claim, claim.delta


def _moves_zeros(mechanism: Any) -> bool:
    """Whether an estimator makes another row of a row of zeros: then that has a gradient."""
    if not is_estimator(mechanism):
        return False
    moved = (getattr(mechanism, name, None) for name in ("center", "scale"))
    asked = any(not isinstance(how, str) or how == "private" for how in moved if how is not None)
    bounded = getattr(mechanism, "bounds", None) is not None
    return bool(getattr(mechanism, "fit_intercept", False)) or bounded or asked


def _checked_pair(mechanism: Any, D: Any, D_prime: Any) -> tuple[Any, Any, Relation | None, bool]:
    """Two neighbours for this mechanism, as they are to be run on.

    With their relation, None if records cannot be told; and whether, of two records that replace
    each other, one has no gradient: then the pair is one of zero-out neighbours, too.

    Raises
    ------
    InvalidArgument
        If they do not differ in one record; if they differ in their order, too, and the mechanism
        may depend on it; if an estimator's records cannot be compared; or if an overlay is given to
        something that cannot train on one.
    """
    trained = isinstance(mechanism, TrainedRelease)
    if isinstance(D_prime, Neighbours):
        if len(D_prime) == 1 and D_prime.slot[0] == UNCHANGED:
            checks.fail("D_prime", "[the same records]", "to differ from D in one record")
        if isinstance(mechanism, PreparedFit) and D_prime.relation is Relation.ZERO_OUT:
            wanted = "to replace or remove a record: with a released centre none is silent"
            checks.fail("D_prime", "[a silent record]", wanted)
        if isinstance(mechanism, SingleFit):
            return *lay_out(as_dataset("D", D), D_prime), D_prime.relation, False
        if not trained:
            checks.fail("D_prime", "[Neighbours]", "to be a dataset")
        return D, D_prime, D_prime.relation, False
    if trained:
        D, D_prime = as_dataset("D", D), as_dataset("D_prime", D_prime)
    apart = difference(D, D_prime)
    if apart is None:
        if is_estimator(mechanism):
            checks.fail("D", type(D).__name__, "to be (X, y), of one length, of plain values")
        return D, D_prime, None, False
    if not apart.in_order and not (trained and mechanism.spec.order != Sampling.CYCLIC):
        checks.fail("D_prime", "[another order]", "to be in the order of D")
    if trained:  # whether a record of zeros has no gradient, as far as can be seen
        linear = mechanism.spec.objective.is_linear and not mechanism.spec.objective.intercept
    else:
        linear = not (_moves_zeros(mechanism) or isinstance(mechanism, PreparedFit))
    replaced = apart.relation is Relation.REPLACE_ONE
    silent = replaced and linear and has_silent_record(D, D_prime, apart)
    return D, D_prime, apart.relation, silent
