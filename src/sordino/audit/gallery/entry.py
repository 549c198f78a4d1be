"""`Entry`: one broken mechanism, its correct twin, and the pair that tells them apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sordino.audit.claim import Claim


@dataclass(frozen=True)
class Case:
    """Everything one entry needs, made when it is played: a pair, two mechanisms, one claim.

    Parameters
    ----------
    D, D_prime
        Neighbours under the claim's relation.
    broken, correct
        Mechanisms as `sordino.audit.audit` takes them: the same code with one thing changed.
    claim
        What both say of themselves; it is true of `correct` only.
    score
        As `audit` takes it; a function where the attack needs to be cleverer than the learned one.
    correct_score
        The same for the twin, where another attack is its worst; None where `score` is.
    exact
        Instead of runs: the epsilons of `broken` and `correct` at the claim's delta, where both
        are known exactly. Then there is nothing to run, and pair and mechanisms are None.
    true_epsilon
        Of `broken` on this pair, by theory; NaN where theory gives no number. No audit may
        observe more, except at its stated failure rate.
    """

    D: Any
    D_prime: Any
    broken: Any
    correct: Any
    claim: Claim
    score: Any = "learned"
    exact: Callable[[], tuple[float, float]] | None = None
    true_epsilon: float = math.nan
    correct_score: Any = None

    @classmethod
    def analytic(cls, claim: Claim, exact: Callable[[], tuple[float, float]]) -> Case:
        """A case that is settled by a formula; the first number of `exact` is the true epsilon."""
        return cls(None, None, None, None, claim, exact=exact, true_epsilon=exact()[0])


@dataclass(frozen=True)
class Entry:
    """A fault that was shipped, or easily could be.

    Parameters
    ----------
    name
        As on the command line: "bolt-on-extra-batch".
    fault
        One sentence: what was changed.
    source
        Who shipped it, or where it is warned of.
    case
        Makes the case; cheap until called.
    runs
        Runs a world for the default command: enough to catch it at 99 %, within a minute on two
        cores.
    smoke_runs
        For CI, in seconds; enough to catch it, too.
    """

    name: str
    fault: str
    source: str
    case: Callable[[], Case]
    runs: int = 20_000
    smoke_runs: int = 5_000
