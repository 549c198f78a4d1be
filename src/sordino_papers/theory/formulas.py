"""Kind "formulas": a table of formulas, and what claims ask of such a table.

A table is parallel columns, one row a setting. Claims ask for a number in a
row, for an extreme over rows, or for the power with which a column grows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import checks
from sordino.accounting import calibrate, dp_sgd, gaussian, naive_strong
from sordino.intrinsic import variability
from sordino.privacy import Relation
from sordino.types import Array
from sordino_papers.quantities import Quantities

if TYPE_CHECKING:
    from sordino_papers.runs import RunStore

_Row = dict[str, Any]
_PRESENCE = Relation.ADD_OR_REMOVE_ONE
_POISSON: Any = {"sampling": "poisson", "relation": _PRESENCE}
_ONE: Any = {"sensitivity": 1.0, "relation": _PRESENCE}


def make(settings: Mapping[str, Any], store: RunStore) -> dict[str, Array]:
    """The table that `settings` ask for: `of` names it, lists are taken in every combination.

    Lists in the table "gaussian" go together instead: one row a name.
    """
    checks.one_of("of", settings["of"], sorted(_TABLES))
    axes, row = _TABLES[settings["of"]]
    if unknown := sorted(set(settings) - {"of", *axes}):
        checks.fail("settings", unknown, f"to be among {axes}")
    given_lists = (settings[axis] for axis in axes)
    lists = [each if isinstance(each, list) else [each] for each in given_lists]
    places = list(zip(*lists, strict=True) if row is _gaussian else itertools.product(*lists))
    rows = []
    for done, place in enumerate(places):
        given = dict(zip(axes, place, strict=True))
        rows.append({**given, **row(**given)})
        store.tell(done + 1, len(places))
    return {name: np.array([each[name] for each in rows]) for name in rows[0]}


def _noise(epsilon: float, delta: float, sample_rate: float, steps: int) -> _Row:
    """The notes' section 3: noise for a budget, as printed and as proved."""
    target = epsilon, delta, sample_rate, steps
    step_epsilon, step_delta = epsilon / steps, delta / (sample_rate * steps)
    second = naive_strong.notes_naive_noise(*target).value
    run = dp_sgd.pld(second, sample_rate, steps, **_POISSON)
    strong = naive_strong.notes_strong_noise(*target)
    moments = naive_strong.notes_moments_noise(*target)
    return {
        "step_epsilon": step_epsilon,
        "step_delta": step_delta,
        "composed_delta": steps * step_delta,
        "composed_delta_sampled": steps * sample_rate * step_delta,
        # The first form, from eps' and delta'; the second, which has qT where this one has T.
        "naive_first": math.sqrt(2 * math.log(1.25 / step_delta)) / step_epsilon,
        "naive_second": second,
        # What a step may have before sampling: by the second form, and by the theorem.
        "before_sampling_printed": epsilon / (sample_rate * steps),
        "before_sampling": naive_strong.before_sampling(step_epsilon, sample_rate),
        "true_delta": run.delta(epsilon),
        # Orders of growth, with 1 for the constants that are not printed.
        "strong_order": strong.value,
        "ratio_order": naive_strong.notes_noise_ratio(delta, sample_rate, steps).value,
        "moments_order": moments.value,
        "strong_over_moments_order": strong.value / moments.value,
        "extra_factor": math.sqrt(math.log(steps / delta)),
        "naive": naive_strong.naive.noise(*target, sensitivity=1.0),
        "strong": naive_strong.strong_kairouz.noise(*target, sensitivity=1.0),
    }


def _accountants(epsilon: float, delta: float, sample_rate: float, steps: int) -> _Row:
    """As `_noise`, with what accountants need that know the law of a step: seconds a row."""
    target = epsilon, delta, sample_rate, steps
    return {
        **_noise(*target),
        "moments": calibrate.noise_multiplier(*target, **_POISSON, method="rdp"),
        "least": calibrate.noise_multiplier(*target, **_POISSON, method="pld"),
    }


def _logarithms(delta: float, steps: float) -> _Row:
    """What the notes drop for large T: ln T stands for ln(T/delta); sqrt(ln T) for a constant."""
    return {
        "log_steps": math.log(steps),
        "log_steps_over_delta": math.log(steps / delta),
        "root_log_steps": math.sqrt(math.log(steps)),
    }


def _composition(step_epsilon: float, slack: float, steps: int) -> _Row:
    """T steps of eps' each: the notes' two theorems, and the exact composition."""
    e, T = step_epsilon, steps
    noise = gaussian.sigma(e, slack / T)
    return {
        "basic": T * e,
        "strong": e * math.sqrt(2 * T * math.log(1 / slack)) + T * e * math.tanh(e / 2),
        "exact": naive_strong.kairouz_optimal_epsilon(e, T, slack),
        # T Gaussian steps of (eps', slack/T) each, together, at T slack/T
        "gaussian_steps": gaussian.epsilon(math.sqrt(T) / noise, slack),
    }


def _growth(
    noise_multiplier: float, delta: float, sample_rate: float, steps: int, epochs: int
) -> _Row:
    """The notes' section 4: epsilon of E times `steps` steps at one noise and one delta."""
    run = noise_multiplier, sample_rate, epochs * steps
    return {
        "naive": naive_strong.naive(*run, delta, **_ONE).budget[0],
        "strong": naive_strong.strong_kairouz(*run, delta, **_ONE).budget[0],
        "moments": dp_sgd.rdp(*run, **_POISSON).epsilon(delta),
        "least": dp_sgd.pld(*run, **_POISSON).epsilon(delta),
    }


def _algorithm(
    epsilon: float, delta: float, sample_rate: float, steps: int, batch_size: int
) -> _Row:
    """The notes' Algorithm 2 with the moments accountant's noise, read in other ways."""
    budget = epsilon, delta, sample_rate, steps
    noise = calibrate.noise_multiplier(*budget, **_POISSON, method="rdp")
    on_average = dp_sgd.pld(batch_size * noise, sample_rate, steps, **_POISSON)
    fixed: Any = {"sampling": "fixed-size", "relation": Relation.REPLACE_ONE}
    fixed_size = dp_sgd.pld(noise, sample_rate, steps, **fixed)
    return {
        "noise": noise,
        "on_sum": dp_sgd.pld(noise, sample_rate, steps, **_POISSON).epsilon(delta),
        "on_average": on_average.epsilon(delta),
        "fixed_size": fixed_size.epsilon(delta),
    }


def _learning_rate(
    learning_rate: float, l2: float, n: int, noise_multiplier: float, steps: int, delta: float
) -> _Row:
    """Epsilon of regularised logistic regression by noisy gradient descent."""
    from sordino.models.constants import ObjectiveSpec
    from sordino.proofs import prove
    from sordino.sgd.spec import TrainSpec

    objective = ObjectiveSpec("logistic", l2=l2, intercept=False)
    how: Any = {"order": "fixed", "max_grad_norm": 1.0, "noise_multiplier": noise_multiplier}
    spec = TrainSpec(objective, learning_rate, n, steps=steps, **how)
    proofs = prove(spec, objective.constants(norm_bound=1.0), n, Relation.ZERO_OUT, delta)
    return {
        f"{kind}_released": min(g.epsilon for g in proofs.guarantees if g.released == kind)
        for kind in ("all", "final")
    }


def _gaussian(name: str, sensitivity: float, sigma: float, delta: float) -> _Row:
    """The classical Gaussian formula at a noise, with the right constant and with a slip in it."""
    constant, slip = math.sqrt(2 * math.log(1.25 / delta)), math.sqrt(2 * math.log(1.25) / delta)
    mu = sensitivity / sigma
    # One sign change above 1: below that the formula is a theorem, far above it it is false.
    last = math.log(delta)
    false_from = gaussian.least(lambda e: gaussian.log_delta(e, e / constant) > last, 1.0, 100.0)
    return {
        "constant": constant,
        "constant_printed": slip,
        "classical": constant * mu,
        "misprinted": slip * mu,
        "exact": gaussian.epsilon(mu, delta),
        "true_delta": gaussian.delta(constant * mu, mu),
        "false_from": false_from,
    }


def _variability(n: int, passes: int, lipschitz: float, learning_rate: float) -> _Row:
    """Section III of v1: how far two orders of one dataset can lead apart, and how probably."""
    bounds = variability.bounds(n, passes, lipschitz, learning_rate)
    counts, all_orders = variability.rencontres(n), math.factorial(n)
    law = [Fraction(count, all_orders) for count in counts]
    mean = sum((j * p for j, p in enumerate(law)), Fraction(0))
    spread = sum(((j - mean) ** 2 * p for j, p in enumerate(law)), Fraction(0))
    poisson = [math.exp(-1) / math.factorial(j) for j in range(n + 1)]
    # In total variation; what Poisson's law has beyond the last place counts as well.
    inside = sum(abs(float(p) - q) for p, q in zip(law, poisson, strict=True))
    distance = (inside + max(0.0, 1 - math.fsum(poisson))) / 2
    step = 2 * lipschitz * learning_rate
    chebyshev = variability.chebyshev(n, passes)
    return {
        "overlap_mean": float(mean),
        "overlap_variance": float(spread),
        "poisson_distance": distance,
        **vars(bounds),  # sensitivity, largest, mean, variance
        "mean_exact": step * passes * float(n - mean),
        "variance_exact": step**2 * passes * float(spread),
        "chebyshev": math.nan if chebyshev is None else float(chebyshev),
        "tail": float(variability.exact_tail(n, passes)),
        "not_above": float(variability.not_above_sensitivity(n, passes)),
    }


_BUDGET, _DESCENT = ("epsilon", "delta", "sample_rate", "steps"), ("learning_rate", "l2", "n")
_TABLES: dict[str, tuple[tuple[str, ...], Callable[..., _Row]]] = {
    "noise": (_BUDGET, _noise),
    "accountants": (_BUDGET, _accountants),
    "logarithms": (("delta", "steps"), _logarithms),
    "composition": (("step_epsilon", "slack", "steps"), _composition),
    "growth": (("noise_multiplier", "delta", "sample_rate", "steps", "epochs"), _growth),
    "algorithm": ((*_BUDGET, "batch_size"), _algorithm),
    "learning-rate": ((*_DESCENT, "noise_multiplier", "steps", "delta"), _learning_rate),
    "gaussian": (("name", "sensitivity", "sigma", "delta"), _gaussian),
    "variability": (("n", "passes", "lipschitz", "learning_rate"), _variability),
}
"""By name: what each row is given, and the function that makes one."""


class FormulaQuantities(Quantities):
    """What claims ask of a table: column `of`, divided by `over` if that is given."""

    def formula(
        self,
        *,
        of: str,
        over: str | None = None,
        by: str | None = None,
        at: Any = None,
        where: Mapping[str, Any] | None = None,
    ) -> float:
        """The number in the one row where `by` is `at` and `where` holds."""
        asked = {**(where or {}), **({} if by is None else {by: at})}
        values = self._column(of, over, asked)
        if len(values) != 1:
            checks.fail("where", asked, f"to name one row, not {len(values)}")
        return float(values[0])

    def formula_largest(self, **column: Any) -> float:
        """The largest number of the rows where `where` holds."""
        return float(self._column(**column).max())

    def formula_smallest(self, **column: Any) -> float:
        """The smallest number of the rows where `where` holds."""
        return float(self._column(**column).min())

    def formula_spread(self, **column: Any) -> float:
        """The largest number over the smallest: 1 where it is constant."""
        values = self._column(**column)
        return float(values.max() / values.min())

    def formula_exponent(
        self,
        *,
        of: str,
        by: str,
        over: str | None = None,
        since: float = 0.0,
        until: float = math.inf,
        line: str | None = None,
        at: Any = None,
    ) -> float:
        """The power of `by` that a column grows with: least squares of logarithms.

        In the rows where `line` is `at`, if the table holds several lines.
        """
        where = {} if line is None else {line: at}
        x, y = self._column(by, None, where), self._column(of, over, where)
        kept = (x >= since) & (x <= until)
        if kept.sum() < 2:
            checks.fail("since, until", (since, until), "to leave two rows or more")
        return slope(x[kept], y[kept])

    def _column(
        self, of: str, over: str | None = None, where: Mapping[str, Any] | None = None
    ) -> Array:
        for name in (of, over):
            if name is not None:
                checks.one_of("column", name, sorted(self.runs[0]))
        values = np.asarray(self[of] if over is None else self[of] / self[over])
        kept = np.ones(len(values), dtype=bool)
        for name, wanted in (where or {}).items():
            column = self[name]
            kept &= column == (wanted if column.dtype.kind == "U" else float(wanted))
        return values[kept]


def slope(x: Array, y: Array) -> float:
    """Of the least-squares line through the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
