"""What tables ask of a grid: settings, sensitivity, sigma, epsilon; and slips in print."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from sordino import checks
from sordino.accounting import gaussian
from sordino.types import Array
from sordino_papers.found import Found, Numbers, held

if TYPE_CHECKING:
    from sordino_papers.quantities import Quantity

_PEAK_BINS = 60
"""Of the histogram whose highest bin is where a density is highest."""


# Distances -----------------------------------------------------------------------------------


def _share_seed_above_data(
    numbers: Numbers, *, init: str = "vary", of: str = "pairs", largest: float | None = None
) -> Found:
    """How often another seed moves the weights further than another record.

    Of two pairs of runs chosen at random, or (`of="largest"`) against the largest delta_S: ours, or
    another one, such as a printed one.
    """
    checks.one_of("of", of, ("pairs", "largest"))
    seed = numbers[f"{init}/delta_v"]
    if of == "largest":
        top = float(numbers[f"{init}/sensitivity"]) if largest is None else largest
        return Found(float((seed > top).mean()))
    data = np.sort(numbers[f"{init}/delta_s"])
    return Found(float(np.searchsorted(data, seed, "left").mean() / len(data)))


def _share_seed_above_bound(numbers: Numbers, *, init: str = "vary") -> Found:
    bound = float(numbers["bound_whole_batches"])
    return Found(float((numbers[f"{init}/delta_v"] > bound).mean()))


def _median_seed_over_data(numbers: Numbers, *, init: str = "vary") -> Found:
    return Found(_median(numbers[f"{init}/delta_v"]) / _median(numbers[f"{init}/delta_s"]))


def _seed_distance(numbers: Numbers, *, init: str = "vary", at: float = 0.5) -> Found:
    """A quantile of delta_V."""
    return Found(float(np.quantile(numbers[f"{init}/delta_v"], at)))


def _vary_over_fixed(numbers: Numbers, *, at: float = 0.5) -> Found:
    """How much further apart seeds are if they draw the initial weights, too."""
    return Found(
        float(np.quantile(numbers["vary/delta_v"], at) / np.quantile(numbers["fixed/delta_v"], at))
    )


def _overlap(numbers: Numbers, *, init: str = "vary") -> Found:
    """Of the distributions of delta_V and delta_S+V: 1 if they are the same, 0 if apart."""
    return Found(1 - _gap(numbers[f"{init}/delta_v"], numbers[f"{init}/delta_sv"]))


def _separation(numbers: Numbers, *, init: str = "vary") -> Found:
    """(median delta_V - median delta_S) / median delta_V."""
    return Found(1 - 1 / _median_seed_over_data(numbers, init=init).value)


def _gaussian_gap(numbers: Numbers, *, init: str = "vary") -> Found:
    """Between delta_V and distances of Gaussian vectors: the largest gap of the distributions."""
    return Found(_gap(numbers[f"{init}/delta_v"], numbers[f"{init}/gaussian_distances"]))


def _gaussian_width(numbers: Numbers, *, init: str = "vary") -> Found:
    seed, drawn = numbers[f"{init}/delta_v"], numbers[f"{init}/gaussian_distances"]
    return Found(float(seed.std(dtype=np.float64) / drawn.std(dtype=np.float64)))


def _relative_width(numbers: Numbers, *, init: str = "vary") -> Found:
    seed = numbers[f"{init}/delta_v"].astype(np.float64)
    return Found(float(seed.std() / seed.mean()))


def _skew_of_pairs(numbers: Numbers, *, init: str = "vary", over: str = "seeds") -> Found:
    """(q99 - q50) / (q50 - q01) of delta_S: above 1, a few pairs lie far to the right."""
    low, middle, high = np.quantile(_pairs(numbers, init, over), [0.01, 0.5, 0.99])
    return Found(float((high - middle) / (middle - low)))


def _pairs(numbers: Numbers, init: str, over: str) -> Array:
    """delta_S of pairs of datasets: at each seed ("seeds"), or the "largest" over seeds."""
    checks.one_of("over", over, ("seeds", "largest"))
    name = {"seeds": "delta_s", "largest": "delta_s_pairs_largest"}[over]
    return numbers[f"{init}/{name}"].astype(np.float64)


# Pairwise epsilon (v1) -----------------------------------------------------------------------


def _pairwise(
    numbers: Numbers, distances: Array, *, init: str, version: int, aggregate: str, formula: str
) -> Array:
    """Epsilon of each distance, sorted."""
    from sordino.intrinsic.epsilon import pairwise_epsilon

    checks.one_of("formula", formula, ("printed", "exact"))
    checks.one_of("aggregate", aggregate, ("minimum", "median"))
    name = {"minimum": "sigma", "median": "sigma_median"}[aggregate]
    sigma, delta = float(numbers[f"{init}/{name}"][0]), float(numbers[f"delta_v{version}"])
    found: Array = getattr(pairwise_epsilon(distances, sigma, delta), formula)
    return found


def _pairwise_epsilon(
    numbers: Numbers,
    *,
    init: str = "vary",
    at: float | str = 0.5,
    over: str = "seeds",
    version: int = 2,
    aggregate: str = "minimum",
    formula: str = "printed",
) -> Found:
    """Epsilon of pairs of datasets: a quantile, the density's "peak", or the "maximum" of all.

    Each at one seed (of a sample), or at the seed where it is largest (`over="largest"`).
    """
    how: dict[str, Any] = {
        "init": init,
        "version": version,
        "aggregate": aggregate,
        "formula": formula,
    }
    if at in (1.0, "maximum"):
        (top,) = _pairwise(numbers, numbers[f"{init}/sensitivity"], **how)
        return Found(float(top))
    values = _pairwise(numbers, _pairs(numbers, init, over), **how)
    if at != "peak":
        return Found(float(np.quantile(values, float(at))))
    # The tail is long: bins up to where it begins.
    heights, edges = np.histogram(values, _PEAK_BINS, (0, float(np.quantile(values, 0.99))))
    top = int(heights.argmax())
    return Found(float((edges[top] + edges[top + 1]) / 2))


def _share_pairwise_above(
    numbers: Numbers,
    *,
    epsilon: float,
    init: str = "vary",
    over: str = "seeds",
    version: int = 2,
    aggregate: str = "minimum",
    formula: str = "printed",
) -> Found:
    how: dict[str, Any] = {
        "init": init,
        "version": version,
        "aggregate": aggregate,
        "formula": formula,
    }
    values = _pairwise(numbers, _pairs(numbers, init, over), **how)
    return Found(float((values > epsilon).mean()))


# Normality -----------------------------------------------------------------------------------


def _tested(numbers: Numbers, init: str, datasets: int | None) -> Array:
    """p-values of the first datasets; a weight that never varied is not tested."""
    held = numbers[f"{init}/p_values"][:datasets]
    return held[np.isfinite(held)]


def _share_normal(
    numbers: Numbers, *, init: str = "vary", level: float = 0.05, datasets: int | None = None
) -> Found:
    held = _tested(numbers, init, datasets)
    passed = int((held >= level).sum())
    return Found(passed / len(held), words=f"{passed:,} of {len(held):,}")


def _share_rejected(
    numbers: Numbers,
    *,
    init: str = "vary",
    level: float = 0.05,
    hypotheses: str = "tests",
    datasets: int | None = None,
    corrected_for: int | None = None,
) -> Found:
    """Weights below Bonferroni's line level / M.

    M counts "parameters" (v1) or all "tests" (v2); with `corrected_for`, that many datasets, where
    fewer are tested.
    """
    checks.one_of("hypotheses", hypotheses, ("tests", "parameters"))
    held = _tested(numbers, init, datasets)
    many = len(held)
    if hypotheses == "parameters":
        many = int(numbers["parameters"])
    elif corrected_for is not None:
        many = int(numbers["parameters"]) * corrected_for
    below = int((held < level / many).sum())
    return Found(below / len(held), words=f"{below:,} of {len(held):,}")


# Growth with the training --------------------------------------------------------------------


def _sensitivity_slope(numbers: Numbers, *, init: str = "vary") -> Found:
    """Slope of the sensitivity against steps over that of the papers' linear bound."""
    steps = numbers["steps"].astype(np.float64)
    if len(steps) < 2:
        return Found(math.nan)  # one checkpoint has no slope
    slope = float(np.polyfit(steps, _by_steps(numbers, init, "sensitivity"), 1)[0])
    return Found(slope / (float(numbers["bound_whole_batches"]) / float(steps[-1])))


def _growth(of: str) -> Quantity:
    def quantity(
        numbers: Numbers, *, init: str = "vary", start: float = 0.0, end: float = 1.0
    ) -> Found:
        """The value at the last checkpoint up to `end` over the first from `start` on (shares)."""
        shares = numbers["steps"] / numbers["steps"][-1]
        held = _by_steps(numbers, init, of)
        first = int(np.flatnonzero(shares >= start - 1e-9)[0])
        last = int(np.flatnonzero(shares <= end + 1e-9)[-1])
        return Found(float(held[last] / held[first]))

    return quantity


def _drift(of: str) -> Quantity:
    def quantity(numbers: Numbers, *, init: str = "vary", start: float = 0.5) -> Found:
        """How much the mean changes, either way, between the halves of what follows `start`.

        Means, because within a pass the spread rises and falls: where all runs have seen all
        records, they are closest.
        """
        shares = numbers["steps"] / numbers["steps"][-1]
        held = _by_steps(numbers, init, of)[shares >= start - 1e-9]
        if len(held) < 2:
            return Found(math.nan)
        change = float(held[len(held) // 2 :].mean() / held[: len(held) // 2].mean())
        return Found(max(change, 1 / change))

    return quantity


def _by_steps(numbers: Numbers, init: str, of: str) -> Array:
    if of == "ratio":  # how private the papers would call it, up to a constant
        return _by_steps(numbers, init, "sensitivity") / _by_steps(numbers, init, "sigma")
    return numbers[f"{init}/by_steps/{of}"]


def _trend(of: str) -> Quantity:
    def quantity(numbers: Numbers, *, init: str = "vary") -> Found:
        """Spearman's rank correlation with the steps."""
        held = _by_steps(numbers, init, of)
        if len(held) < 2 or np.ptp(held) == 0:
            return Found(math.nan)
        return Found(float(stats.spearmanr(numbers["steps"], held).statistic))

    return quantity


def _final_spread(numbers: Numbers, *, init: str = "fixed") -> Found:
    """How far apart followed runs end, over how far the longest path leads from its start."""
    paths = numbers[f"{init}/trajectories"]
    ends = paths[:, -1]
    apart = np.linalg.norm(ends[:, None] - ends[None], axis=2).max()
    return Found(float(apart / np.linalg.norm(ends - paths[:, 0], axis=1).max()))


# How settled ---------------------------------------------------------------------------------


def _sigma_settles(numbers: Numbers, *, seeds: int, init: str = "vary") -> Found:
    """The largest change of the middle sigma_i from `seeds` seeds on, relative to that of all."""
    x, middle = numbers[f"{init}/by_seeds/x"], numbers[f"{init}/by_seeds/middle"]
    later = np.append(middle[x >= seeds], np.interp(seeds, x, middle))
    return Found(float(np.abs(later / middle[-1] - 1).max()))


def _sensitivity_settles(numbers: Numbers, *, share: float = 0.5, init: str = "vary") -> Found:
    """The largest delta_S of all comparisons over the middle one of this share of them."""
    x, middle = numbers[f"{init}/by_comparisons/x"], numbers[f"{init}/by_comparisons/middle"]
    return Found(float(middle[-1] / np.interp(share * x[-1], x, middle)))


def _less_stable(numbers: Numbers, *, many: int, init: str = "vary") -> Found:
    """How widely the sensitivity of `many` comparisons varies, over sigma_i of `many` seeds.

    Each by the band over random subsets, relative to the value of all.
    """
    top = _band(numbers, f"{init}/by_comparisons", many)
    sigma = _band(numbers, f"{init}/by_seeds", many)
    words = f"{100 * top:.2g} % against {100 * sigma:.2g} %"
    return Found(top / sigma if sigma > 0 else math.nan, words=words)


def _band(numbers: Numbers, curve: str, many: int) -> float:
    x, last = numbers[f"{curve}/x"], float(numbers[f"{curve}/middle"][-1])
    low, high = (float(np.interp(many, x, numbers[f"{curve}/{end}"])) for end in ("low", "high"))
    return (high - low) / last


def _gap(one: Array, other: Array) -> float:
    """The largest gap of two distribution functions."""
    return float(stats.ks_2samp(one, other, method="asymp").statistic)


def _median(values: Array) -> float:
    return float(np.median(values))


_AGGREGATES = {"minimum": "sigma", "median": "sigma_median"}


# Settings, as they were run ------------------------------------------------------------------


def _steps(numbers: Numbers) -> Found:
    return Found(float(numbers["steps"][-1]))


def _experiments(numbers: Numbers) -> Found:
    """Runs on replaced records; the dataset itself is trained on, too, and not counted."""
    sizes = (int(numbers[name]) for name in ("experiments", "seeds", "neighbours"))
    total, seeds, datasets = sizes
    words = f"{seeds} seeds x {datasets} datasets x {total // (seeds * datasets)}"
    return Found(float(total), words=words)


# Sensitivity, sigma, epsilon -----------------------------------------------------------------


def _delta(numbers: Numbers, *, version: int = 2) -> Found:
    """1 / n^2 as in v2, or v1's 1 / n."""
    checks.one_of("version", str(version), ("1", "2"))
    return Found(float(numbers[f"delta_v{version}"]))


def _bound(numbers: Numbers, *, whole_batches: bool = False) -> Found:
    """The papers' 2 k L eta / B; a pass is n / B steps, or floor(n / B)."""
    return Found(float(numbers["bound_whole_batches" if whole_batches else "bound_printed"]))


def _bound_of_passes(numbers: Numbers) -> Found:
    """2 ceil(k) L eta / B: holds where a pass is floor(n / B) whole batches, k of them started."""
    per_pass = int(numbers["n"]) // int(numbers["batch_size"])
    passes = int(numbers["steps"][-1]) / per_pass
    whole = float(numbers["bound_whole_batches"])
    return Found(whole * math.ceil(passes) / passes, words=f"{math.ceil(passes)} passes")


def _sigma(numbers: Numbers, *, init: str = "vary", aggregate: str = "minimum") -> Found:
    """sigma_i with its interval over seeds (for the median, over datasets too)."""
    checks.one_of("aggregate", aggregate, sorted(_AGGREGATES))
    return Found.of(numbers, f"{init}/{_AGGREGATES[aggregate]}")


def _sigma_of_datasets(numbers: Numbers, *, init: str = "vary", end: str = "minimum") -> Found:
    """The least or largest sigma_a; its interval is sigma_i's, in proportion."""
    checks.one_of("end", end, ("minimum", "maximum"))
    held = numbers[f"{init}/sigma_by_dataset"]
    value = float(held.min() if end == "minimum" else held.max())
    middle, low, high = (float(each) for each in numbers[f"{init}/sigma"])
    if middle == 0:
        return Found(value)
    return Found(value, value * low / middle, value * high / middle)


def _sigma_spread(numbers: Numbers, *, init: str = "vary") -> Found:
    """(largest - least) / least sigma_a."""
    held = numbers[f"{init}/sigma_by_dataset"]
    return Found(float((held.max() - held.min()) / held.min()))


def _sigma_aggregates(numbers: Numbers, *, other: str, init: str = "vary") -> Found:
    """Another way to pool the weights over sigma_i, both medians over datasets."""
    checks.one_of("other", other, ("per-weight", "norm"))
    over = float(numbers[f"{init}/sigma_{other.replace('-', '_')}"][0])
    return Found(over / float(numbers[f"{init}/sigma_median"][0]))


def _sensitivity(numbers: Numbers, *, init: str = "vary") -> Found:
    """The largest delta_S of all pairs and seeds; a maximum has no interval."""
    return Found(float(numbers[f"{init}/sensitivity"]))


def _epsilon(
    numbers: Numbers,
    *,
    init: str = "vary",
    by: str = "bound",
    version: int = 2,
    aggregate: str = "minimum",
    formula: str = "printed",
    whole_batches: bool = True,
) -> Found:
    """epsilon_i of the bound or epsilon_i* of the observed sensitivity; interval from sigma's."""
    checks.one_of("by", by, ("bound", "observed"))
    if by == "bound":
        top = _bound(numbers, whole_batches=whole_batches).value
    else:
        top = _sensitivity(numbers, init=init).value
    sigma = _sigma(numbers, init=init, aggregate=aggregate)
    delta = _delta(numbers, version=version).value
    assert sigma.low is not None
    assert sigma.high is not None
    # Less noise is more epsilon.
    return Found(
        epsilon_of(top, sigma.value, delta, formula),
        epsilon_of(top, sigma.high, delta, formula),
        epsilon_of(top, sigma.low, delta, formula),
    )


def _epsilon_of_sigma(
    numbers: Numbers, *, sigma: float, version: int = 2, whole_batches: bool = True
) -> Found:
    """epsilon_i of the run's bound with another sigma, such as a printed one."""
    bound = _bound(numbers, whole_batches=whole_batches).value
    return Found(epsilon_of(bound, sigma, _delta(numbers, version=version).value))


def _bound_over_sensitivity(
    numbers: Numbers, *, init: str = "vary", whole_batches: bool = False
) -> Found:
    bound = _bound(numbers, whole_batches=whole_batches).value
    return Found(bound / _sensitivity(numbers, init=init).value)


def _sensitivity_over_sigma(numbers: Numbers, *, init: str = "vary") -> Found:
    top, sigma = _sensitivity(numbers, init=init).value, _sigma(numbers, init=init)
    assert sigma.low is not None
    assert sigma.high is not None
    return Found(top / sigma.value, top / sigma.high, top / sigma.low)


def _accuracy(numbers: Numbers, *, init: str = "vary", percent: bool = False) -> Found:
    """Mean over runs on held-out rows; of all runs, half of each start, with init="both"."""
    parts = np.array([numbers[f"{each}/accuracy"] for each in _starts(init)])
    value = float(parts[:, 0].mean())
    half = float(np.sqrt(np.sum((parts[:, 2] - parts[:, 0]) ** 2))) / len(parts)
    scale = 100 if percent else 1
    return Found(scale * value, scale * (value - half), scale * (value + half))


def _accuracy_sd(numbers: Numbers, *, init: str = "vary", percent: bool = False) -> Found:
    """Standard deviation over runs."""
    means = np.array([numbers[f"{each}/accuracy"][0] for each in _starts(init)])
    within = np.array([float(numbers[f"{each}/accuracy_sd"]) ** 2 for each in _starts(init)])
    return Found(math.sqrt(within.mean() + means.var()) * (100 if percent else 1))


def _starts(init: str) -> tuple[str, ...]:
    return ("vary", "fixed") if init == "both" else (init,)


# Of several runs -----------------------------------------------------------------------------


def _asked(of: str, runs: tuple[Numbers, ...], arguments: dict[str, Any]) -> list[float]:
    checks.one_of("of", of, sorted(OF_ONE_RUN))
    return [OF_ONE_RUN[of](numbers, **arguments).value for numbers in runs]


def _ratio(first: Numbers, second: Numbers, *, of: str, **arguments: Any) -> Found:
    """A quantity of the first run over that of the second."""
    over, under = _asked(of, (first, second), arguments)
    return Found(over / under, words=f"{over:.4g} over {under:.4g}")


def _least(*runs: Numbers, of: str, **arguments: Any) -> Found:
    return Found(float(np.min(_asked(of, runs, arguments))))


def _largest(*runs: Numbers, of: str, **arguments: Any) -> Found:
    return Found(float(np.max(_asked(of, runs, arguments))))


def _range_over(*runs: Numbers, of: str, **arguments: Any) -> Found:
    """The largest over the least."""
    found = _asked(of, runs, arguments)
    return Found(float(np.max(found) / np.min(found)))


def _share_of_runs_above(*runs: Numbers, of: str, threshold: float, **arguments: Any) -> Found:
    found = np.array(_asked(of, runs, arguments))
    above = int((found > threshold).sum())
    return Found(above / len(found), words=f"{above} of {len(found)}")


# Of printed numbers alone --------------------------------------------------------------------


def epsilon_of(sensitivity: float, sigma: float, delta: float, formula: str = "printed") -> float:
    """The papers' sqrt(2 ln(1.25/delta)) Delta / sigma ("printed"), or the exact epsilon."""
    checks.one_of("formula", formula, ("printed", "exact"))
    if not math.isfinite(sensitivity):
        return math.nan  # no bound is known
    if sigma == 0:
        return math.inf
    if formula == "exact":
        return gaussian.epsilon(sensitivity / sigma, delta)
    return _multiplier(delta=delta).value * sensitivity / sigma


def _epsilon_of(
    *, sensitivity: float, sigma: float, delta: float, formula: str = "printed"
) -> Found:
    return Found(epsilon_of(sensitivity, sigma, delta, formula))


def _multiplier(*, delta: float, slip: bool = False) -> Found:
    """sqrt(2 ln(1.25/delta)), or the algorithms' sqrt(2 ln(1.25)/delta), a slip."""
    if slip:
        return Found(math.sqrt(2 * math.log(1.25) / delta))
    return Found(math.sqrt(2 * math.log(1.25 / delta)))


def _exact_of_printed(*, epsilon: float, delta: float) -> Found:
    """What the exact formula gives where the papers' gives `epsilon`."""
    return Found(gaussian.epsilon(epsilon / _multiplier(delta=delta).value, delta))


def _quotient(*, over: float, under: float) -> Found:
    return Found(over / under)


OF_ONE_RUN: dict[str, Quantity] = {
    **{
        name: held(name)
        for name in ("learning_rate", "batch_size", "seeds", "parameters", "hidden")
    },
    "datasets": held("neighbours"),
    "records": held("n"),
    "steps": _steps,
    "experiments": _experiments,
    "delta": _delta,
    "bound": _bound,
    "bound_of_passes": _bound_of_passes,
    "bound_that_holds": held("bound_holds"),
    "sigma": _sigma,
    "sigma_of_datasets": _sigma_of_datasets,
    "sigma_spread": _sigma_spread,
    "sigma_aggregates": _sigma_aggregates,
    "sensitivity": _sensitivity,
    "epsilon": _epsilon,
    "epsilon_of_sigma": _epsilon_of_sigma,
    "bound_over_sensitivity": _bound_over_sensitivity,
    "sensitivity_over_sigma": _sensitivity_over_sigma,
    "accuracy": _accuracy,
    "accuracy_sd": _accuracy_sd,
    "share_seed_above_data": _share_seed_above_data,
    "share_seed_above_bound": _share_seed_above_bound,
    "median_seed_over_data": _median_seed_over_data,
    "seed_distance": _seed_distance,
    "vary_over_fixed": _vary_over_fixed,
    "overlap": _overlap,
    "separation": _separation,
    "gaussian_gap": _gaussian_gap,
    "gaussian_width": _gaussian_width,
    "relative_width": _relative_width,
    "skew_of_pairs": _skew_of_pairs,
    "pairwise_epsilon": _pairwise_epsilon,
    "share_pairwise_above": _share_pairwise_above,
    "share_normal": _share_normal,
    "share_rejected": _share_rejected,
    "sensitivity_slope": _sensitivity_slope,
    "sensitivity_growth": _growth("sensitivity"),
    "sigma_growth": _growth("sigma"),
    "sensitivity_over_sigma_growth": _growth("ratio"),
    "sensitivity_drift": _drift("sensitivity"),
    "sigma_drift": _drift("sigma"),
    "sensitivity_trend": _trend("sensitivity"),
    "sigma_trend": _trend("sigma"),
    "final_spread": _final_spread,
    "sigma_settles": _sigma_settles,
    "less_stable": _less_stable,
    "sensitivity_settles": _sensitivity_settles,
}
"""Those that combine: `ratio`, `least` and the others below ask for one of these by name."""

QUANTITIES: dict[str, Quantity] = {
    **OF_ONE_RUN,
    "ratio": _ratio,
    "least": _least,
    "largest": _largest,
    "range_over": _range_over,
    "share_of_runs_above": _share_of_runs_above,
    "quotient": _quotient,
    "multiplier": _multiplier,
    "epsilon_of": _epsilon_of,
    "exact_of_printed": _exact_of_printed,
}
