"""What tables ask of a grid: settings, sensitivity, sigma, epsilon; and slips in print."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import _check
from sordino.accounting import gaussian
from sordino_papers import quantities_figures
from sordino_papers.found import Found, Numbers

if TYPE_CHECKING:
    from sordino_papers.quantities import Quantity

_AGGREGATES = {"minimum": "sigma", "median": "sigma_median"}


# Settings, as they were run ------------------------------------------------------------------


def _setting(name: str) -> Quantity:
    def quantity(numbers: Numbers) -> Found:
        return Found(float(numbers[name]))

    return quantity


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
    _check.one_of("version", str(version), ("1", "2"))
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


def _bound_that_holds(numbers: Numbers) -> Found:
    return Found(float(numbers["bound_holds"]))


def _sigma(numbers: Numbers, *, init: str = "vary", aggregate: str = "minimum") -> Found:
    """sigma_i with its interval over seeds (for the median, over datasets too)."""
    _check.one_of("aggregate", aggregate, sorted(_AGGREGATES))
    return Found.of(numbers, f"{init}/{_AGGREGATES[aggregate]}")


def _sigma_of_datasets(numbers: Numbers, *, init: str = "vary", end: str = "minimum") -> Found:
    """The least or largest sigma_a; its interval is sigma_i's, in proportion."""
    _check.one_of("end", end, ("minimum", "maximum"))
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
    _check.one_of("other", other, ("per-weight", "norm"))
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
    _check.one_of("by", by, ("bound", "observed"))
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
    _check.one_of("of", of, sorted(OF_ONE_RUN))
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
    _check.one_of("formula", formula, ("printed", "exact"))
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
        name: _setting(name)
        for name in ("learning_rate", "batch_size", "seeds", "parameters", "hidden")
    },
    "datasets": _setting("neighbours"),
    "records": _setting("n"),
    "steps": _steps,
    "experiments": _experiments,
    "delta": _delta,
    "bound": _bound,
    "bound_of_passes": _bound_of_passes,
    "bound_that_holds": _bound_that_holds,
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
    **quantities_figures.OF_ONE_RUN,
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
