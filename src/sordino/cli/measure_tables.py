"""The tables of `sordino measure show`: every number of a summary, in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sordino.cli.measure_figures import INTERNAL, name_of
from sordino.cli.terminal import print_table, screen

if TYPE_CHECKING:
    from sordino.cli.screen import Screen
    from sordino.intrinsic.distances import Distances
    from sordino.intrinsic.interval import Interval
    from sordino.intrinsic.summary import InitSummary, Summary
    from sordino.privacy import Estimate

_SIGMAS = {
    "minimum": "least of all datasets (v2)",
    "median": "median of datasets (v1)",
    "per-weight": "mean of each weight's (v2)",
    "norm": "of the weights' norm (v2)",
}


@dataclass(frozen=True)
class Shown:
    """A table as plain text: its first column names what the others hold."""

    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    below: tuple[str, ...] = ()


def print_all(summary: Summary, more: Sequence[Shown] = ()) -> None:
    """Print what was measured, every table and every note."""
    console = screen()
    for line in (INTERNAL, *_heading(summary)):
        console.print(line, highlight=False)
    for shown in (*tables(summary), *more):
        _print(console, shown)
    if summary.notes:
        console.print()
    for note in summary.notes:
        console.print(f"Note: {note}", highlight=False)


def tables(summary: Summary) -> list[Shown]:
    """Every table there are numbers for."""
    made = (_distances, _sigmas, _sensitivities, _epsilons, _gaussian, _settled)
    return [table(summary) for table in made]


def _heading(summary: Summary) -> list[str]:
    measured = summary.measured
    facts, spec = measured.dataset, measured.spec
    how = ""
    if spec is not None:
        rate = spec.schedule
        speed = f"rate {rate.rate:g}" if rate.kind == "constant" else f"{rate.kind} rates"
        how = f" in batches of {spec.batch_size}, {speed}"
    itself = "" if measured.base is None else " and the data itself"
    return [
        f"{name_of(summary)}{how}; {facts.size:,} records a training.",
        f"{len(measured.seeds)} seeds x {len(summary.inits[0].neighbours)} neighbouring datasets"
        f"{itself}, initial weights {' and '.join(measured.inits)}.",
        f"Every epsilon is an estimate, not a guarantee, at delta = {summary.delta:.3g}.",
    ]


def _distances(summary: Summary) -> Shown:
    from sordino.intrinsic.distances import MOST_PAIRS

    rows, sampled = [], False
    for one in summary.inits:
        kinds: list[tuple[str, Distances | None]] = [
            ("delta_S, another record", one.delta_s),
            ("  from the data itself", one.from_base),
            ("delta_V, another seed", one.delta_v),
            ("delta_S+V, both", one.delta_sv),
        ]
        for name, found in kinds:
            if found is not None:
                sizes = (found.quantile(0.5), found.quantile(0.95), found.maximum)
                many = f"{found.pairs:,}"
                rows.append((name, one.init, *(_number(size) for size in sizes), many))
                sampled |= not found.exact
    below: tuple[str, ...] = ()
    if summary.theory.bound is not None:
        below += (
            "Two neighbours differ in two places of the order, so the bound for one record covers "
            "half their distance; the data itself and a neighbour differ in one.",
        )
    if sampled:
        below += (
            f"Where there are more than {MOST_PAIRS:,} pairs, the quantiles are of a sample of so "
            "many, and of delta_S+V the largest too.",
        )
    headings = ("distance of two models", "init", "median", "95%", "largest", "pairs")
    return Shown("How far apart models are (L2)", headings, rows, below)


def _sigmas(summary: Summary) -> Shown:
    rows = [
        (name, *(_interval(one.sigma[key]) for one in summary.inits))
        for key, name in _SIGMAS.items()
    ]
    relative = [f"{one.across.relative:.2g}" for one in summary.inits]
    rows.append(("relative gap of datasets", *relative))
    level = summary.inits[0].sigma["minimum"].level
    below = (
        f"In brackets: {level:.0%} intervals. The last two are variants of v2's footnote, and the "
        "gap is that of its Table 6.",
    )
    return Shown("sigma_i: how widely the seed spreads a weight", _by_init(summary), rows, below)


def _sensitivities(summary: Summary) -> Shown:
    theory = summary.theory
    many = len(summary.inits)
    rows = []
    if theory.bound is not None:
        rows.append(("bound for one record", *[_number(theory.bound.worst)] * many))
    if theory.printed is not None:
        name = "the papers' fraction of it, NOT A BOUND"
        rows.append((name, *[_number(theory.printed.value)] * many))
    rows.append(
        ("largest seen, a lower estimate", *(_number(one.sensitivity) for one in summary.inits))
    )
    based = [one.from_base for one in summary.inits]
    if all(based):
        largest = [_number(found.maximum) for found in based if found]
        rows.append(("largest seen from the data itself", *largest))
    below = (f"Bound: {theory.bound.theorem}; in exact arithmetic.",) if theory.bound else ()
    return Shown(
        "Sensitivity: how far one record moves the weights", _by_init(summary), rows, below
    )


def _epsilons(summary: Summary) -> Shown:
    delta = summary.delta
    wanted: dict[str, Callable[[InitSummary], Estimate | None]] = {
        "bound for one record": lambda one: one.by_bound.exact if one.by_bound else None,
        "largest distance seen": lambda one: one.by_observed.exact if one.by_observed else None,
        "median pair": lambda one: one.pairwise.quantile(0.5) if one.pairwise else None,
        "worst pair, one sigma everywhere": lambda one: (
            one.worst.isotropic_epsilon(delta) if one.worst else None
        ),
        "worst pair, along a learned direction": lambda one: (
            one.worst.epsilon(delta) if one.worst else None
        ),
        "papers: epsilon_i of their fraction": lambda one: (
            one.by_printed.printed if one.by_printed else None
        ),
        "papers: epsilon_i* of the largest seen": lambda one: (
            one.by_observed.printed if one.by_observed else None
        ),
    }
    rows = []
    for name, pick in wanted.items():
        found = [pick(one) for one in summary.inits]
        if any(each is not None for each in found):
            rows.append((name, *(_estimate(each) for each in found)))
    below: tuple[str, ...] = (
        "All but the papers' rows are by the exact Gaussian formula; theirs, sqrt(2 ln(1.25/delta))"
        " Delta / sigma, is a theorem below epsilon = 1 only.",
        "Taken for granted: Gaussian noise, equally large in all directions (not along the learned"
        " one), alike for every dataset. What was seen is of the pairs tried, no more.",
    )
    if any(one.worst for one in summary.inits):
        below += (
            "The worst pair is chosen, and its direction learned, on other seeds than those that "
            "test it; both of its rows are lower estimates.",
        )
    return Shown("epsilon: estimates, not guarantees", _by_init(summary), rows, below)


def _gaussian(summary: Summary) -> Shown:
    columns = []
    for one in summary.inits:
        tested, joint = one.normality, one.joint
        columns.append(
            (
                f"{tested.tests:,}" if tested else "-",
                f"{tested.below_level:.1%}" if tested else "-",
                f"{tested.rejected:,}" if tested else "-",
                f"{joint.p_value:.3g}" if joint else "-",
                f"{joint.kurtosis:.3g}" if joint else "-",
                f"{one.gaussian.kolmogorov:.2g}",
                f"{one.gaussian.sharpness:.3g}",
            )
        )
    names = (
        "weights tested (Shapiro-Wilk)",
        "p below 0.05; 5% if Gaussian",
        "below Bonferroni's line",
        "all weights of one dataset: p",
        "  kurtosis; 1 if Gaussian",
        "delta_V and Gaussian vectors: gap",
        "  width; 1 if Gaussian",
    )
    rows = list(zip(names, *columns, strict=True))
    below = ("That a test finds nothing does not prove that the noise is Gaussian.",)
    return Shown("Is the noise Gaussian?", _by_init(summary), rows, below)


def _settled(summary: Summary) -> Shown:
    rows = [
        (
            "largest delta_S, half the pairs to all",
            *(_times(one.by_comparisons.last_doubling) for one in summary.inits),
        ),
        (
            "sigma_i, half the seeds to all",
            *(_times(one.by_seeds.last_doubling) if one.by_seeds else "-" for one in summary.inits),
        ),
    ]
    return Shown("How settled are the numbers?", _by_init(summary), rows)


def _print(console: Screen, shown: Shown) -> None:
    console.print()
    console.print(shown.title, style="bold", highlight=False)
    first, *rest = shown.headings
    print_table(console, [(first, "L"), *((name, "R") for name in rest)], shown.rows)
    for line in shown.below:
        console.print(line, style="dim", highlight=False)


def _by_init(summary: Summary) -> tuple[str, ...]:
    return ("", *(one.init for one in summary.inits))


def _interval(found: Interval) -> str:
    return _with_ends(found.value, found.low, found.high)


def _estimate(found: Estimate | None) -> str:
    return "-" if found is None else _with_ends(found.epsilon, found.low, found.high)


def _with_ends(value: float, low: float | None, high: float | None) -> str:
    ends = "" if low is None or high is None else f" ({_number(low, 3)}-{_number(high, 3)})"
    return _number(value, 3) + ends


def _number(value: float, digits: int = 4) -> str:
    if math.isinf(value):
        return "infinite"
    if math.isnan(value):  # nothing moved
        return "-"
    if 1e-3 <= abs(value) < 1e6 and value != 0:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return f"{value:,.{places}f}"
    return f"{value:.{digits}g}"


def _times(factor: float) -> str:
    return "-" if math.isnan(factor) else f"x {factor:.3f}"
