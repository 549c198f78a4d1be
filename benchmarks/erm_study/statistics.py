"""What the columns say: shortfalls of `auto`, paired over folds, and the flat figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from erm_study.design import AUTO, PRIVATE, oracle

from sordino.types import Floats
from sordino_papers.erm.quantities import gaps, of_method
from sordino_papers.quantities import Numbers

ALLOWED_POINTS = 0.5
STANDARD_ERRORS = 3.0


@dataclass(frozen=True)
class Column:
    """One loss on one dataset: what the study found there."""

    source: str
    loss: str
    numbers: Numbers

    @property
    def methods(self) -> list[str]:
        """All that were asked, oracles under their own names."""
        return [str(each) for each in self.numbers["methods"]]

    @property
    def epsilons(self) -> list[float]:
        """The budgets."""
        return [float(each) for each in self.numbers["epsilons"]]

    def values(self, of: str, method: str) -> Floats:
        """Accuracies or objectives [epsilon, fold]; NaN where a budget cannot be met."""
        if method not in self.methods:
            return np.full_like(self.numbers[of][0], np.nan)
        return of_method(self.numbers, of, method)


@dataclass(frozen=True)
class Difference:
    """By how many accuracy points one method is above another at a point, over the same folds."""

    point: tuple[str, str, float]
    above: str
    points: float
    standard_error: float

    @property
    def beyond(self) -> bool:
        """Whether it is more than is allowed."""
        return self.points > max(ALLOWED_POINTS, STANDARD_ERRORS * self.standard_error)


def differences(columns: Sequence[Column], above: str, below: str) -> Iterator[Difference]:
    """At every point where both are."""
    for column in columns:
        if {above, below} <= set(column.methods):
            for epsilon, points, error in gaps(column.numbers, below, above):
                if math.isfinite(points):
                    at = column.source, column.loss, epsilon
                    yield Difference(at, above.partition("/")[0], points, error)


def shortfalls(columns: Sequence[Column], tuned: bool = False) -> list[Difference]:
    """Every private method, or its oracle, against `auto`, at every point."""
    return [
        found
        for method in PRIVATE
        for found in differences(columns, oracle(method) if tuned else method, AUTO)
    ]


def best_of(found: Sequence[Difference]) -> dict[tuple[str, str, float], Difference]:
    """The largest difference at each point."""
    return {each.point: each for each in sorted(found, key=lambda d: d.points)}


def mean_shortfall(found: Sequence[Difference]) -> float:
    """Mean over points of how far the best is above `auto`; 0 where `auto` is the best."""
    best = [max(each.points, 0.0) for each in best_of(found).values()]
    return float(np.mean(best)) if best else math.nan


def papers_order(columns: Sequence[Column], tuned: bool) -> list[Difference]:
    """NSGD and output-gd against RSGD-AR: the paper has none of them above it."""
    named = oracle if tuned else str
    return [
        found
        for other in ("nsgd", "output-gd")
        for found in differences(columns, named(other), named("rsgd-ar"))
    ]


def summary(columns: Sequence[Column], shown: Sequence[str]) -> dict[str, float]:
    """The figures that are required or reported; `shown` names the sources that count."""
    kept = [column for column in columns if column.source in shown]
    defaults, oracles = shortfalls(kept), shortfalls(kept, tuned=True)
    to_none = [d for d in differences(columns, "none", AUTO) if d.point[::2] == ("adult", 1.0)]
    figures = {
        "auto_mean_shortfall_points": mean_shortfall(defaults),
        "auto_worst_shortfall_points": _most(defaults),
        "auto_violations": sum(d.beyond for d in defaults),
        "oracle_mean_shortfall_points": mean_shortfall(oracles),
        "oracle_worst_shortfall_points": _most(oracles),
        "points": len({d.point for d in defaults}),
        "adult_eps1_gap_points": _most(to_none),
    }
    for kind, tuned in (("default", False), ("oracle", True)):
        order = papers_order(kept, tuned)
        figures[f"rsgd_ar_beaten_{kind}"] = sum(d.beyond for d in order)
        figures[f"rsgd_ar_worst_{kind}_points"] = _most(order)
    return {name: value for name, value in figures.items() if not math.isnan(value)}


def _most(found: Sequence[Difference]) -> float:
    return max((d.points for d in found), default=math.nan)


def table(columns: Sequence[Column]) -> dict[str, float]:
    """Every mean under flat keys; accuracies in percent, errors of their means beside them."""
    figures: dict[str, float] = {}
    for column in columns:
        for method in column.methods:
            name, tuned, _ = method.partition("/")
            prefix = "oracle_" if tuned else ""
            accuracies = 100 * column.values("accuracies", method)
            objectives = column.values("objectives", method).mean(axis=-1)
            for epsilon, values, objective in zip(
                column.epsilons, accuracies, objectives, strict=True
            ):
                key = f"{column.source}/{column.loss}/{epsilon:g}/{name}"
                error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0
                figures[f"{prefix}accuracy/{key}"] = float(values.mean())
                figures[f"{prefix}accuracy_error/{key}"] = float(error)
                figures[f"{prefix}objective/{key}"] = float(objective)
    # JSON has no NaN: what is none is left out.
    return {name: value for name, value in figures.items() if math.isfinite(value)}
