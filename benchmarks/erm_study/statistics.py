"""What the cells say: shortfalls of `auto`, paired over folds, and the flat figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from erm_study.design import AUTO, PRIVATE
from erm_study.study import Cell, by_point

ALLOWED_POINTS = 0.5
STANDARD_ERRORS = 3.0


@dataclass(frozen=True)
class Difference:
    """By how many accuracy points one method is above another at a point, over the same folds."""

    point: tuple[str, str, float]
    above: str
    below: str
    points: float
    standard_error: float

    @property
    def beyond(self) -> bool:
        """Whether it is more than is allowed."""
        return self.points > max(ALLOWED_POINTS, STANDARD_ERRORS * self.standard_error)


def difference(above: Cell, below: Cell) -> Difference:
    """Mean of the folds' differences, and its standard error as if folds were independent."""
    gaps = 100 * (above.accuracies - below.accuracies)
    error = float(gaps.std(ddof=1) / math.sqrt(len(gaps))) if len(gaps) > 1 else math.inf
    return Difference(above.point, above.method, below.method, float(gaps.mean()), error)


def shortfalls(cells: Sequence[Cell], kind: str = "default") -> list[Difference]:
    """Every private method of a kind against `auto`, at every point."""
    automatic, others = by_point(cells, "default"), by_point(cells, kind)
    return [
        difference(others[point][method], automatic[point][AUTO])
        for point in others
        for method in others[point]
        if method in PRIVATE and AUTO in automatic.get(point, {})
    ]


def mean_shortfall(found: Sequence[Difference]) -> float:
    """Mean over points of how far the best is above `auto`; 0 where `auto` is the best."""
    best: dict[tuple[str, str, float], float] = {}
    for each in found:
        best[each.point] = max(best.get(each.point, 0.0), each.points)
    return float(np.mean(list(best.values()))) if best else math.nan


def gap_to_none(cells: Sequence[Cell], source: str, epsilon: float) -> float:
    """How far `none` is above `auto`, in points, for the worse of the losses."""
    points = by_point(cells, "default")
    gaps = [
        difference(methods["none"], methods[AUTO]).points
        for point, methods in points.items()
        if point[0] == source and point[2] == epsilon and {"none", AUTO} <= set(methods)
    ]
    return max(gaps, default=math.nan)


def papers_order(cells: Sequence[Cell], kind: str) -> list[Difference]:
    """NSGD and output-gd against RSGD-AR: the paper has none of them above it."""
    found = []
    for methods in by_point(cells, kind).values():
        if "rsgd-ar" in methods:
            found += [
                difference(methods[other], methods["rsgd-ar"])
                for other in ("nsgd", "output-gd")
                if other in methods
            ]
    return found


def summary(cells: Sequence[Cell], shown: Sequence[str]) -> dict[str, float]:
    """The figures that are required or reported; `shown` names the sources that count."""
    kept = [cell for cell in cells if cell.source in shown]
    defaults, oracles = shortfalls(kept), shortfalls(kept, "oracle")
    figures = {
        "auto_mean_shortfall_points": mean_shortfall(defaults),
        "auto_worst_shortfall_points": max((d.points for d in defaults), default=math.nan),
        "auto_violations": sum(d.beyond for d in defaults),
        "oracle_mean_shortfall_points": mean_shortfall(oracles),
        "oracle_worst_shortfall_points": max((d.points for d in oracles), default=math.nan),
        "points": len({d.point for d in defaults}),
    }
    for kind in ("default", "oracle"):
        order = papers_order(kept, kind)
        figures[f"rsgd_ar_beaten_{kind}"] = sum(d.beyond for d in order)
        figures[f"rsgd_ar_worst_{kind}_points"] = max((d.points for d in order), default=math.nan)
    return {name: value for name, value in figures.items() if not math.isnan(value)}


def table(cells: Sequence[Cell]) -> dict[str, float]:
    """Every cell under flat keys; accuracies in percent, errors of their means beside them."""
    figures: dict[str, float] = {}
    for cell in cells:
        if not len(cell.accuracies):
            continue
        prefix = "" if cell.kind == "default" else "oracle_"
        key = f"{cell.source}/{cell.loss}/{cell.epsilon:g}/{cell.method}"
        figures[f"{prefix}accuracy/{key}"] = 100 * float(cell.accuracies.mean())
        figures[f"{prefix}accuracy_error/{key}"] = 100 * error_of_mean(cell.accuracies)
        figures[f"{prefix}objective/{key}"] = float(np.mean(cell.objectives))
    return _finite(figures)


def error_of_mean(values: np.ndarray) -> float:
    """Standard error as if folds were independent, which they nearly are not."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def _finite(figures: Mapping[str, float]) -> dict[str, float]:
    """JSON has no NaN: what is none is left out."""
    return {name: value for name, value in figures.items() if math.isfinite(value)}
