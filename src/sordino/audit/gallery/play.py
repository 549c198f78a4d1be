"""Play an entry of the gallery: the broken mechanism must be caught, its twin must pass."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sordino.audit.gallery.entry import Case, GalleryEntry
from sordino.audit.game import Audit, audit
from sordino.types import Progress

_ROUNDING = 1e-9
"""Noise and epsilon of a formula are both rounded to the safe side, each by far less."""


@dataclass(frozen=True, eq=False)
class Played:
    """What came of an entry.

    Parameters
    ----------
    entry, case
        What was played.
    broken, correct
        Audits of the two mechanisms; None where the case is settled by a formula.
    broken_epsilon, correct_epsilon
        Observed lower bounds, or the exact values of the formula.
    seconds
        Both audits together.
    """

    entry: GalleryEntry
    case: Case
    broken: Audit | None
    correct: Audit | None
    broken_epsilon: float
    correct_epsilon: float
    seconds: float

    @property
    def caught(self) -> bool:
        """Whether the claim of the broken mechanism was refuted."""
        if self.broken is not None:
            return self.broken.violated
        return self.broken_epsilon > self.case.claim.epsilon * (1 + _ROUNDING)

    @property
    def passed(self) -> bool:
        """Whether the claim of the correct twin stood."""
        if self.correct is not None:
            return not self.correct.violated
        return self.correct_epsilon <= self.case.claim.epsilon * (1 + _ROUNDING)


def play(
    entry: GalleryEntry,
    *,
    runs: int | None = None,
    confidence: float = 0.99,
    twins: int = 12,
    seed: int = 0,
    smoke: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Played:
    """Audit both mechanisms of an entry.

    Parameters
    ----------
    entry
        One of `sordino.audit.gallery.ENTRIES`.
    runs
        A world; the entry's own number if not given.
    confidence
        With which the broken mechanism is to be caught.
    twins
        Over how many correct twins the level 1 - confidence is shared: each is audited at
        1 - (1 - confidence) / twins, so that all of them pass with probability `confidence`.
    seed, workers, progress
        As in `audit`; the progress of the twin follows that of the broken one, from 0 again.
    smoke
        Take the entry's `smoke_runs`, unless `runs` is given, and one worker, unless `workers` is:
        so few runs take less time than starting others.
    """
    started = time.perf_counter()
    case = entry.case()
    if case.exact is not None:
        epsilons = case.exact()
        return Played(entry, case, None, None, *epsilons, time.perf_counter() - started)
    if runs is None:
        runs = entry.smoke_runs if smoke else entry.runs
    if workers is None and smoke:
        workers = 1
    how = {"runs": runs, "seed": seed, "workers": workers, "progress": progress}
    shared = 1 - (1 - confidence) / twins
    twins_score = case.score if case.correct_score is None else case.correct_score
    broken = _audit(case, case.broken, score=case.score, confidence=confidence, **how)
    correct = _audit(case, case.correct, score=twins_score, confidence=shared, **how)
    return Played(
        entry=entry,
        case=case,
        broken=broken,
        correct=correct,
        broken_epsilon=broken.observed.epsilon,
        correct_epsilon=correct.observed.epsilon,
        seconds=time.perf_counter() - started,
    )


def _audit(case: Case, mechanism: Any, **how: Any) -> Audit:
    return audit(mechanism, case.D, case.D_prime, claim=case.claim, **how)
