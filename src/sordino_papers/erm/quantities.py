"""What claims ask of kinds "erm" and "erm-timing", and of Chen, Lee & Kifer's sections 3 and 4.

Who is above whom, by how many points; and sensitivities, noise and columns, which are of no run.
There a `schedule` is a table of a file: `batches` of `batch_size` (the last of `last` rows),
`epochs` at `rate` / h, where h counts epochs, from 1 again every `every` epochs if `restarted`;
iterates are averaged as often if `averaged`. A `loss` is a table with `lipschitz`, `curvature` (of
the data term) and `l2`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.stats import spearmanr

from sordino import checks, sensitivity
from sordino.accounting import calibrate, gaussian, renyi
from sordino.accounting.last_iterate import permuted
from sordino.accounting.pld.numerics import first_below
from sordino.models.constants import Constants
from sordino.privacy import Relation
from sordino.sensitivity import Sensitivity
from sordino.types import Array
from sordino_papers.quantities import Answer, Numbers, Quantities

_Table = Mapping[str, Any]
_REPLACE = Relation.REPLACE_ONE


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
        points = 100.0 * (there - here)
        many = len(points)
        error = float(points.std(ddof=1) / math.sqrt(many)) if many > 1 else 0.0
        yield float(epsilon), float(points.mean()), error


def _sensitivity_of(loss: _Table, schedule: _Table) -> Sensitivity:
    """How far a record of each batch can move the final weights."""
    batches, size = schedule["batches"], schedule["batch_size"]
    every = schedule.get("every", schedule["epochs"])
    restart = every if schedule.get("restarted", True) else schedule["epochs"]
    since = np.arange(schedule["epochs"]) % restart + 1
    return sensitivity.contraction(
        constants=_constants(loss),
        n=(batches - 1) * size + schedule.get("last", size),
        batch_size=size,
        rates=np.repeat(schedule["rate"] / since, batches),
        relation=_REPLACE,
        average_every=every if schedule.get("averaged", True) else None,
    )


def _constants(loss: _Table) -> Constants:
    return Constants(loss.get("lipschitz", 1.0), loss["curvature"] + loss["l2"], loss["l2"])


def _noise(loss: _Table, schedule: _Table, epsilon: float, delta: float, bound: str) -> float:
    """The least noise on each weight for a budget, by one way to count."""
    found = _sensitivity_of(loss, schedule)
    places: dict[str, Any] = {
        "sensitivities": found.positions,
        "relation": _REPLACE,
        "weights": found.shares,
    }
    worst = gaussian.sigma(epsilon, delta, found.worst)
    if bound == "worst":
        return worst
    if bound == "mixture":
        return calibrate.least_noise(
            lambda sigma: permuted.hockey_mixture(sigma=sigma, **places), epsilon, delta
        )

    def excess(sigma: float) -> float:
        profile = permuted.renyi_mixture(sigma=sigma, **places)
        orders, values = np.array(profile.orders), np.array(profile.values)
        if bound == "renyi":
            return renyi.epsilon(orders, values, delta) - epsilon
        return float(renyi.mironov(orders, values, delta).min()) - epsilon

    while excess(worst) > 0:
        worst *= 2
    return first_below(excess, worst / 8, worst)


def _descent_limit(loss: _Table, rows: int) -> float:
    """Proposition 2 for m = 1 and rate 2 / (L + mu)."""
    of = _constants(loss)
    return sensitivity.fixed_step_limit(
        constants=of, n=rows, batch_size=rows, rate=_rate(of), relation=_REPLACE
    ).worst


def _rate(of: Constants) -> float:
    return 2 / (of.smooth + of.strongly_convex)


def _ratio(over: float, under: float) -> Answer:
    return Answer(over / under, words=f"{over:.4g} and {under:.4g}")


class ErmQuantities(Quantities):
    """What claims ask of a study, of times, and of the paper's formulas."""

    held: ClassVar[Mapping[str, str]] = {
        "erm_rows": "rows",
        "erm_columns": "columns",
        "least_epsilon_2016": "least_epsilon_2016",
    }

    def _of(self, name: str, method: str) -> Array:
        return of_method(self.runs[0], name, method)

    def share_not_below(self, *, method: str, other: str, points: float, errors: float) -> Answer:
        """Share of budgets (of all runs) at which `other` is not above by more than is allowed.

        Allowed are `points`, or `errors` standard errors of the folds' differences if that is more.
        """
        above = level = 0
        below: list[str] = []
        for epsilon, gap, error in (each for run in self.runs for each in gaps(run, method, other)):
            allowed = max(points, errors * error)
            if gap > allowed:
                below.append(f"{gap:.1f} points at {epsilon:g}")
            elif gap < -allowed:
                above += 1
            else:
                level += 1
        words = f"above {above}, level {level}, below {len(below)}"
        words += f": {', '.join(below)}" if below else ""
        return Answer((above + level) / (above + level + len(below)), words=words)

    def rank_correlation(self, *, of: str, method: str) -> float:
        """Of a method's mean over folds with epsilon: 1 if it always rises, -1 if it falls."""
        means = self._of(of, method).mean(axis=-1)
        good = np.isfinite(means)
        return float(spearmanr(self["epsilons"][good], means[good]).statistic)

    def gap_to_nonprivate(self, *, method: str) -> Answer:
        """Points by which the model without noise is above, at the largest budget."""
        *_, (epsilon, gap, error) = gaps(self.runs[0], method, "none")
        return Answer(gap, gap - 2 * error, gap + 2 * error, f"at epsilon {epsilon:g}")

    def surge(self, *, method: str) -> Answer:
        """Points still missing to the model without noise at the first budget that can be met.

        Infinite if every budget can: then there is no surge.
        """
        found = list(gaps(self.runs[0], "none", method))
        met = [(epsilon, -gap) for epsilon, gap, _ in found if math.isfinite(gap)]
        if len(met) in (0, len(found)):
            return Answer(math.inf, words="no budget" if not met else "every budget can be met")
        return Answer(met[0][1], words=f"first met at epsilon {met[0][0]:g}")

    def share_lower_objective(self, *, method: str, other: str) -> Answer:
        """Share of budgets (of all runs) at which a method's mean objective is below another's."""
        means = (
            [of_method(run, "objectives", each).mean(axis=-1) for each in (method, other)]
            for run in self.runs
        )
        lower = np.concatenate([ours < theirs for ours, theirs in means])
        return Answer(float(lower.mean()), words=f"{lower.sum()} of {lower.size}")

    def noise_ratio(self, *, over: str, under: str) -> Answer:
        """The noise of one method over that of another: the least over budgets."""
        ratios = self._of("sigmas", over)[:, 0] / self._of("sigmas", under)[:, 0]
        return Answer(float(np.nanmin(ratios)), words=f"up to {np.nanmax(ratios):.2f}")

    def seconds_ratio(self, *, over: str, under: str) -> Answer:
        """Seconds of one method over another's: the largest over sizes."""
        ratios = self._of("seconds", over) / self._of("seconds", under)
        return Answer(float(ratios.max()), words=f"from {ratios.min():.2f}")

    def over_fastest(self, *, method: str) -> Answer:
        """Seconds of a method over the least of all others: the largest over sizes."""
        others = [str(each) for each in self["methods"] if str(each) != method]
        times = np.array([self._of("seconds", each) for each in others])
        ratios = self._of("seconds", method) / times.min(axis=0)
        at = int(ratios.argmax())
        words = f"over {others[int(times[:, at].argmin())]}, {int(self['rows'][at]):,} rows"
        return Answer(float(ratios[at]), words=words)

    def iterations(self) -> float:
        """Most iterations of L-BFGS, over sizes."""
        return float(self["iterations"].max())

    def updates_over_iterations(self, *, method: str) -> float:
        """Updates of a method over L-BFGS's iterations: the least over sizes."""
        return float((self._of("steps", method) / self["iterations"]).min())

    def passes_over_iterations(self, *, method: str) -> float:
        """Passes over the rows of a method, over L-BFGS's iterations: the least over sizes."""
        return float((self._of("passes", method) / self["iterations"]).min())

    # The paper's formulas, of no run ---------------------------------------------------------

    def schedule_sensitivity(self, *, loss: _Table, schedule: _Table, of: str = "worst") -> float:
        """The sensitivity to a record of the worst, the first or the last batch."""
        found = _sensitivity_of(loss, schedule)
        positions = found.positions
        return {"worst": found.worst, "first": positions[0], "last": positions[-1]}[of]

    def schedule_sensitivity_ratio(
        self, *, loss: _Table, schedule: _Table, over: _Table, under: _Table
    ) -> Answer:
        """One sensitivity over another: `over` and `under` change the schedule or say `of` what."""
        values = (
            self.schedule_sensitivity(
                loss=loss, schedule={**schedule, **change}, of=change.get("of", "worst")
            )
            for change in (over, under)
        )
        return _ratio(*values)

    def schedule_noise_ratio(
        self, *, loss: _Table, schedule: _Table, epsilon: float, delta: float, over: str, under: str
    ) -> Answer:
        """The noise by one way to count over that by another.

        "mixture" (mean of exact profiles), "worst" (the worst batch), "renyi" (Proposition 3 and
        the best conversion), "mironov" (Proposition 3 and Proposition 1: what the paper does).
        """
        return _ratio(*(_noise(loss, schedule, epsilon, delta, by) for by in (over, under)))

    def descent_limit(self, *, loss: _Table, rows: int) -> float:
        """Proposition 2 for m = 1 and rate 2 / (L + mu), over 2 R / (n mu)."""
        of = _constants(loss)
        return _descent_limit(loss, rows) * rows * of.strongly_convex / (2 * of.lipschitz)

    def zhang_ratio(self, *, loss: _Table, rows: int) -> Answer:
        """Zhang et al.'s sensitivity of gradient descent, as the paper quotes it, over that."""
        of = _constants(loss)
        theirs = sensitivity.zhang_gradient_descent(
            constants=of, n=rows, rate=_rate(of), relation=_REPLACE
        )
        return _ratio(theirs.worst, _descent_limit(loss, rows))

    def regulariser_ratio(self, *, loss: _Table, rows: int) -> Answer:
        """The limit for l2/2 ||w||^2 over that for l2 ||w||^2, of twice the strong convexity."""
        limits = (_descent_limit({**loss, "l2": m * loss["l2"]}, rows) for m in (1.0, 2.0))
        return _ratio(*limits)

    def whole_gradient(self, *, loss: _Table, norm: float) -> float:
        """Norm of the gradient with its regulariser at weights of this norm, at most, over R.

        Condition 4 asks for a bound over all weights; there is none.
        """
        of = _constants(loss)
        return (of.lipschitz + of.strongly_convex * norm) / of.lipschitz

    def one_hot_columns(
        self, *, numeric: int, levels: list[int], dropped: int, intercept: bool
    ) -> float:
        """Columns of numbers and of one-hot levels, so many dropped of each attribute."""
        return float(numeric + sum(levels) - dropped * len(levels) + intercept)

    def documented_columns(self, *, bins: list[int], intercept: bool, unknown: str) -> Answer:
        """Adult's documented levels, unknown left out, and so many bins of each of its numbers."""
        from sordino.data.catalogue.tabular import ADULT_LEVELS, ADULT_NUMERIC

        if len(bins) != len(ADULT_NUMERIC):
            return Answer(math.nan)
        levels = sum(level != unknown for each in ADULT_LEVELS.values() for level in each)
        return Answer(float(levels + sum(bins) + intercept), words=f"{levels} levels")
