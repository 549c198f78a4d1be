"""The game: was it D or D'? `audit` plays it thousands of times against a mechanism.

    runs on D and D' -> outputs -> (first half) a score and its threshold
                                -> (second half) errors of that test -> a lower bound on epsilon

What the first half learns, however it does so, is fixed before the second half is looked at: the
errors there are independent trials of one test, and Clopper-Pearson's bounds on their rates hold
with the stated confidence, whatever the mechanism.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sordino import checks
from sordino.audit import bounds, laws, scores
from sordino.audit.band import GaussianFamily, band, refutes
from sordino.audit.called import Output
from sordino.audit.claim import Claim
from sordino.audit.pairing import Paired, paired
from sordino.audit.power import gaussian_reach, reach
from sordino.audit.scores import Fitted, Score
from sordino.audit.worlds import TrainedRelease, check_memory, outputs
from sordino.errors import InvalidArgument
from sordino.privacy import Observation, Relation, rounded
from sordino.randomness import stream
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats, Progress

SCORES = ("learned", "likelihood", "loss")
GRID = 20
"""Thresholds of the Bonferroni bound: quantiles of the first half's scores."""
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
        accused, missed = counts[:2], counts[2:]
        upper = bounds.clopper_pearson_upper
        return upper(*accused, level), upper(*missed, level)

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        if self.checked_pair:
            return self._outcome
        return f"{self._outcome}; that the two datasets differ in one record was not checked"

    @property
    def _outcome(self) -> str:
        at = f"at delta = {self.observed.delta:.3g} with {100 * self.observed.confidence:.6g}%"
        seen = f"observed epsilon >= {_three(self.observed.epsilon)} {at}"
        if self.claimed is None:
            most = f"at most {rounded(self.reach, digits=3)} without a hypothesis"
            return f"{seen} confidence; nothing was claimed; this audit could show {most}"
        if self.violated:
            return f"violation: {seen} confidence, above the claimed {self.claimed.epsilon:.4g}"
        found = "no violation found"
        if self.curve_refuted:
            found = (
                f"the claimed curve is refuted with {100 * self.observed.confidence:.6g}% "
                "confidence by a second test, of all thresholds, though not its epsilon "
                f"{self.claimed.epsilon:.4g}"
            )
        return f"{found}; {self._could}"

    @property
    def _could(self) -> str:
        """How far the audit could have seen: as far as it saw, at least."""
        most = max(self.reach, self.observed.epsilon)
        family = ""
        if self.gaussian_reach and self.gaussian_reach > most:
            further = _three(self.gaussian_reach)
            family = f"below {further} within the family of Gaussian mechanisms"
        if most <= 0:
            few = "these runs were too few to refute noise that just keeps its claim"
            return f"{few} without a hypothesis ({family})" if family else few
        could = f"this audit could have refuted epsilon below {_three(most)}"
        return f"{could} ({family})" if family else could

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
    progress: Progress | None = None,
    file: str | os.PathLike[str] | None = None,
    output: Output | None = None,
) -> Audit:
    """Run a mechanism on two neighbouring datasets, and bound its epsilon from below.

    Parameters
    ----------
    mechanism, D, D_prime, runs, seed, workers, progress, file, output
        As in `sordino.audit.worlds.outputs`; `runs` are runs in each world, of which half learn
        and half test. D and D_prime must differ in one record, all others being in the same order
        (which does not matter to our SGD in a random order). Records are rows of arrays, tables,
        sparse matrices, or tuples of them; whatever else a callable takes is not looked into.
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
    """
    if isinstance(mechanism, TrainSpec):
        mechanism = TrainedRelease(mechanism)
    pair = paired(mechanism, D, D_prime)
    D, D_prime = pair.D, pair.D_prime
    claimed, delta = _claimed(claim, delta, pair)
    tested = _tested_runs(runs, delta, confidence)
    chosen = _chosen(score, mechanism, D, D_prime)
    found = outputs(
        *(mechanism, D, D_prime, runs),
        seed=seed,
        workers=workers,
        progress=progress,
        file=file,
        output=output,
    )
    first, second = ([world[part] for world in found] for part in halves(runs))
    wanted = Statement(delta, confidence, tested)
    fitted = _fitted(chosen, score, first, wanted, seed)
    threshold = wanted.threshold(fitted.negative, fitted.positive)
    negative, positive = fitted(*second)
    goal = math.inf if claimed is None else claimed.epsilon
    asked: dict[str, Any] = {"runs": tested, "delta": delta, "confidence": confidence}
    return Audit(
        claimed=claimed,
        observed=wanted.headline(negative, positive, threshold, fitted.name),
        others=wanted.others(negative, positive, threshold, fitted),
        negative=negative,
        positive=positive,
        threshold=threshold,
        score=fitted.name,
        reach=reach(goal, **asked),
        gaussian_reach=None if claimed is None or delta == 0 else gaussian_reach(goal, **asked),
        curve_refuted=wanted.curve_refuted(negative, positive, claimed),
        checked_pair=pair.relation is not None,
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
        return self._at(negative, positive, self.threshold(negative, positive)).epsilon

    def headline(
        self, negative: Floats, positive: Floats, threshold: float, name: str
    ) -> Observation:
        """The bound at a threshold, of scores that other runs chose."""
        said = f"{name}; Clopper-Pearson at one threshold, both chosen by other runs"
        return replace(self._at(negative, positive, threshold), attack=said)

    def _at(self, negative: Floats, positive: Floats, threshold: float) -> Observation:
        counts = bounds.counts_at(negative, positive, threshold)
        return bounds.from_counts(*counts, **self._how)

    def others(
        self, negative: Floats, positive: Floats, threshold: float, fitted: Fitted
    ) -> tuple[Observation, ...]:
        """Those that these runs are enough for."""
        how = {**self._how, "attack": fitted.name}
        both = np.concatenate([fitted.negative, fitted.positive])
        grid = np.quantile(both, (np.arange(GRID) + 0.5) / GRID, method="lower")
        found = []
        with suppress(InvalidArgument):  # too few runs for this one
            found.append(bounds.bonferroni(negative, positive, grid, **how))
        if self.delta == 0:  # no Gaussian mechanism has it
            return tuple(found)
        found.append(bounds.at_threshold(negative, positive, threshold, if_gaussian=True, **how))
        family, named = GaussianFamily(self.delta), "of Gaussian mechanisms"
        with suppress(InvalidArgument):
            found.append(band(negative, positive, family, family_name=named, **how))
        return tuple(found)

    def curve_refuted(
        self, negative: Floats, positive: Floats, claimed: Claim | None
    ) -> bool | None:
        """Whether the band refutes the claimed curve; None if there is none, or too few runs."""
        if claimed is None or claimed.profile is None:
            return None
        with suppress(InvalidArgument):  # too few runs for this one
            return refutes(negative, positive, claimed.profile, confidence=self.confidence)
        return None


def _three(value: float) -> str:
    """Three digits of a lower bound, rounded down."""
    return rounded(value, up=False, digits=3)


def _claimed(
    claim: Claim | float | None, delta: float | None, pair: Paired
) -> tuple[Claim | None, float]:
    if isinstance(claim, Claim):
        pair.check_claim(claim.relation)
        if delta is not None and delta != claim.delta:
            checks.fail("delta", delta, f"to be the claim's {claim.delta:g}", "Leave it out.")
        return claim, claim.delta
    if delta is None:
        hint = "1e-5 is usual; 0 for pure differential privacy."
        checks.fail("delta", None, "to be given where the claim does not name one", hint)
    delta = checks.probability_below_one("delta", delta)
    if claim is None:
        return None, delta
    return Claim(claim, delta, pair.relation or Relation.REPLACE_ONE), delta


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


def _tested_runs(runs: int, delta: float, confidence: float) -> int:
    """Runs a world of the second half."""
    runs = checks.whole("runs", runs, at_least=1)
    tested = runs - runs // 2
    bounds.check_runs(
        tested, delta=delta, confidence=confidence, each="tested runs a world, half of all,"
    )
    if runs < _LEAST_RUNS:
        checks.fail("runs", runs, f">= {_LEAST_RUNS}", "Half of them learn, half of them test.")
    return tested


def halves(runs: int) -> tuple[slice, slice]:
    """Runs that learn, and runs that test."""
    return slice(0, runs // 2), slice(runs // 2, runs)


def _chosen(score: str | Score, mechanism: Any, D: Any, D_prime: Any) -> Score | None:
    """The score as a function; None if it is to be learned."""
    if callable(score):
        return score
    checks.one_of("score", score, SCORES)
    if score == "learned":
        return None
    return (laws.likelihood if score == "likelihood" else laws.loss)(mechanism, D, D_prime)


_NAMES = {"likelihood": "the likelihood ratio", "loss": "the loss of the record that differs"}


def _fitted(
    chosen: Score | None, score: str | Score, first: list[Floats], wanted: Statement, seed: int
) -> Fitted:
    if chosen is None:
        return scores.learned(first[0], first[1], wanted.worth, stream("audit folds", seed))
    if isinstance(score, str):
        return scores.known(chosen, first[0], first[1], _NAMES[score])
    return scores.given(chosen, first[0], first[1], stream("audit score", seed))
