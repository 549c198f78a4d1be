"""What claims ask of kinds "erm" and "erm-timing": who is above whom, by how many points."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

from sordino import checks
from sordino.types import Array
from sordino_papers.erm.formulas import QUANTITIES as FORMULAS
from sordino_papers.found import Found, Numbers, held

if TYPE_CHECKING:
    from sordino_papers.quantities import Quantity

PERCENT = 100.0


def of_method(numbers: Numbers, name: str, method: str) -> Array:
    """`name` of one method, whatever else it has axes for."""
    known = [str(each) for each in numbers["methods"]]
    checks.one_of("method", method, known)
    return np.asarray(numbers[name][known.index(method)])


def gaps(numbers: Numbers, method: str, other: str) -> Iterator[tuple[float, float, float]]:
    """For each epsilon: it, points by which `other` is above, and the paired standard error.

    Folds are taken for independent, which folds of one cut are not quite. A method that cannot
    meet a budget is infinitely far below.
    """
    ours, theirs = (of_method(numbers, "accuracies", each) for each in (method, other))
    for epsilon, here, there in zip(numbers["epsilons"], ours, theirs, strict=True):
        if np.isnan(there).any():
            yield float(epsilon), -math.inf, 0.0
            continue
        points = PERCENT * (there - here)
        many = len(points)
        error = float(points.std(ddof=1) / math.sqrt(many)) if many > 1 else 0.0
        yield float(epsilon), float(points.mean()), error


def _share_not_below(
    *runs: Numbers, method: str, other: str, points: float, errors: float
) -> Found:
    """Share of budgets (of all runs) at which `other` is not above by more than is allowed.

    Allowed are `points`, or `errors` standard errors of the folds' differences if that is more.
    """
    above = within = 0
    lost: list[str] = []
    total = 0
    for numbers in runs:
        for epsilon, gap, error in gaps(numbers, method, other):
            allowed = max(points, errors * error)
            total += 1
            if gap > allowed:
                lost.append(f"{gap:.1f} points at {epsilon:g}")
            elif gap < -allowed:
                above += 1
            else:
                within += 1
    words = f"above {above}, level {within}, below {len(lost)}"
    return Found((above + within) / total, words=words + (f": {', '.join(lost)}" if lost else ""))


def _rank_correlation(numbers: Numbers, *, of: str, method: str) -> Found:
    """Of a method's mean over folds with epsilon: 1 if it always rises, -1 if it always falls."""
    means = of_method(numbers, of, method).mean(axis=-1)
    good = np.isfinite(means)
    return Found(float(spearmanr(numbers["epsilons"][good], means[good]).statistic))


def _gap_to_nonprivate(numbers: Numbers, *, method: str) -> Found:
    """Points by which the model without noise is above, at the largest budget."""
    *_, (epsilon, gap, error) = gaps(numbers, method, "none")
    return Found(gap, gap - 2 * error, gap + 2 * error, f"at epsilon {epsilon:g}")


def _surge(numbers: Numbers, *, method: str) -> Found:
    """Points still missing to the model without noise at the first budget that can be met.

    Infinite if every budget can: then there is no surge.
    """
    found = list(gaps(numbers, "none", method))
    met = [(epsilon, -gap) for epsilon, gap, _ in found if math.isfinite(gap)]
    if len(met) in (0, len(found)):
        return Found(math.inf, words="no budget" if not met else "every budget can be met")
    return Found(met[0][1], words=f"first met at epsilon {met[0][0]:g}")


def _share_lower_objective(*runs: Numbers, method: str, other: str) -> Found:
    """Share of budgets (of all runs) at which a method's mean objective is below another's."""
    lower = [
        of_method(run, "objectives", method).mean(axis=-1)
        < of_method(run, "objectives", other).mean(axis=-1)
        for run in runs
    ]
    held = np.concatenate(lower)
    return Found(float(held.mean()), words=f"{held.sum()} of {held.size}")


def _noise_ratio(numbers: Numbers, *, over: str, under: str) -> Found:
    """The noise of one method over that of another: the least over budgets."""
    ratios = of_method(numbers, "sigmas", over)[:, 0] / of_method(numbers, "sigmas", under)[:, 0]
    return Found(float(np.nanmin(ratios)), words=f"up to {np.nanmax(ratios):.2f}")


def _seconds_ratio(numbers: Numbers, *, over: str, under: str) -> Found:
    """Seconds of one method over another's: the largest over sizes."""
    ratios = of_method(numbers, "seconds", over) / of_method(numbers, "seconds", under)
    return Found(float(ratios.max()), words=f"from {ratios.min():.2f}")


def _over_fastest(numbers: Numbers, *, method: str) -> Found:
    """Seconds of a method over the least of all others: the largest over sizes."""
    mine = of_method(numbers, "seconds", method)
    others = [str(each) for each in numbers["methods"] if str(each) != method]
    least = np.min([of_method(numbers, "seconds", each) for each in others], axis=0)
    at = int((mine / least).argmax())
    by = min(others, key=lambda each: float(of_method(numbers, "seconds", each)[at]))
    return Found(float((mine / least)[at]), words=f"over {by}, {int(numbers['rows'][at]):,} rows")


def _iterations(numbers: Numbers) -> Found:
    """Most iterations of L-BFGS, over sizes."""
    return Found(float(numbers["iterations"].max()))


def _updates_over_iterations(numbers: Numbers, *, method: str) -> Found:
    """Updates of a method over L-BFGS's iterations: the least over sizes."""
    return Found(float((of_method(numbers, "steps", method) / numbers["iterations"]).min()))


def _passes_over_iterations(numbers: Numbers, *, method: str) -> Found:
    """Passes over the rows of a method, over L-BFGS's iterations: the least over sizes."""
    return Found(float((of_method(numbers, "passes", method) / numbers["iterations"]).min()))


QUANTITIES: dict[str, Quantity] = {
    "erm_rows": held("rows"),
    "erm_columns": held("columns"),
    "least_epsilon_2016": held("least_epsilon_2016"),
    "share_not_below": _share_not_below,
    "rank_correlation": _rank_correlation,
    "gap_to_nonprivate": _gap_to_nonprivate,
    "surge": _surge,
    "share_lower_objective": _share_lower_objective,
    "noise_ratio": _noise_ratio,
    "seconds_ratio": _seconds_ratio,
    "over_fastest": _over_fastest,
    "iterations": _iterations,
    "updates_over_iterations": _updates_over_iterations,
    "passes_over_iterations": _passes_over_iterations,
    **FORMULAS,
}
