"""From a claim and the runs to its verdict."""

from __future__ import annotations

from collections.abc import Mapping

from sordino_papers.bench import Bench, NotHere
from sordino_papers.claims import PaperClaim, Tolerance
from sordino_papers.found import Found
from sordino_papers.quantities import Quantity
from sordino_papers.results import ClaimVerdict, Result

NEEDS_FULL = "only judged at full size: leave out --quick"


def measured(claim: PaperClaim, bench: Bench, quantities: Mapping[str, Quantity]) -> Result:
    """Our number beside the paper's, before explanations are asked."""
    if claim.full and bench.quick:
        return Result(claim, None, ClaimVerdict.NOT_RUNNABLE, NEEDS_FULL)
    try:
        numbers = [bench.numbers(run) for run in claim.runs]
    except NotHere as missing:
        return Result(claim, None, ClaimVerdict.NOT_RUNNABLE, str(missing))
    found = quantities[claim.quantity](*numbers, **claim.arguments)
    holds = _holds(claim, found, quick=bench.quick)
    return Result(claim, found, ClaimVerdict.REPRODUCED if holds else ClaimVerdict.DIFFERS)


def _holds(claim: PaperClaim, found: Found, *, quick: bool) -> bool:
    """With small sizes a printed number also counts as met if our wider interval holds it."""
    if claim.tolerance.holds(found, claim.printed):
        return True
    if not quick or claim.printed is None or found.low is None:
        return False
    return Tolerance("interval", 0.0).holds(found, claim.printed)


def explained(results: Mapping[str, Result]) -> dict[str, Result]:
    """The same results, where an explanation counts if every claim it leans on holds."""
    return {name: _explained(result, results) for name, result in results.items()}


def _explained(result: Result, results: Mapping[str, Result]) -> Result:
    """A check that only needs the full size leaves it open with --quick; others must hold."""
    claim = result.claim
    if result.verdict is not ClaimVerdict.DIFFERS or claim.explanation is None:
        return result
    leans_on = [results[name] for name in claim.explanation.shown_by]
    for other in leans_on:
        if other.why == NEEDS_FULL:
            why = f"differs, and what would explain it is {NEEDS_FULL}"
            return Result(claim, result.found, ClaimVerdict.NOT_RUNNABLE, why)
        if other.verdict is not ClaimVerdict.REPRODUCED:
            why = f"its explanation leans on {other.claim.name}, which does not hold"
            return Result(claim, result.found, ClaimVerdict.DIFFERS, why)
    return Result(claim, result.found, ClaimVerdict.EXPLAINED)
