"""What the results say: means, paired differences, and the flat figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from utility_study.competitors import AUTO, NONE, OPACUS, ORACLE, rivals
from utility_study.store import Row
from utility_study.tables import BY_NAME, JUDGING, PARTLY, TUNING

ALLOWED_POINTS, STANDARD_ERRORS = 0.5, 3.0
_REQUIRED = {"digits": "digits", "breast-cancer": "breast", "mnist": "mnist"}
_Point = tuple[str, float]


def measure_of(table: str) -> str:
    """What its points are a hundredth of: accuracy, or R2."""
    return "accuracy" if BY_NAME[table].classes else "r2"


class Results:
    """Values by table, budget and competitor."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: dict[tuple[str, float | None, str], dict[int, Row]] = {}
        for row in rows:
            at = row["table"], row["epsilon"], row["competitor"]
            self._rows.setdefault(at, {})[row["seed"]] = row

    def values(
        self, table: str, epsilon: float | None, competitor: str, measure: str = ""
    ) -> dict[int, float]:
        """By seed; fits that failed have none."""
        measure = measure or measure_of(table)
        times = 100 if measure in ("accuracy", "r2") else 1
        budget = None if competitor == NONE else epsilon
        found = self._rows.get((table, budget, competitor), {})
        return {seed: times * row[measure] for seed, row in found.items() if measure in row}

    def errors(self, competitor: str) -> list[tuple[str, str]]:
        """(Table, why) of every fit of it that failed."""
        return [
            (table, row["error"])
            for (table, _, name), rows in self._rows.items()
            for row in rows.values()
            if name == competitor and "error" in row
        ]

    @property
    def points(self) -> list[_Point]:
        """(Table, budget) pairs, in the order of the tables."""
        found = {(t, e) for t, e, _ in self._rows if e is not None}
        names = list(BY_NAME)
        return sorted(found, key=lambda point: (names.index(point[0]), point[1]))

    @property
    def competitors(self) -> list[str]:
        """All that have a result."""
        return list(dict.fromkeys(name for _, _, name in self._rows))


def mean(values: Iterable[float]) -> tuple[float, float]:
    """A mean and its standard error; NaN where there is nothing to tell it from."""
    found = np.array(list(values))
    if not len(found):
        return math.nan, math.nan
    error = found.std(ddof=1) / math.sqrt(len(found)) if len(found) > 1 else math.nan
    return float(found.mean()), float(error)


@dataclass(frozen=True)
class Difference:
    """By how many points a rival is above `auto`, over the splits that both have."""

    table: str
    epsilon: float
    rival: str
    points: float
    standard_error: float

    @property
    def beyond(self) -> bool:
        """Whether it is more than is allowed."""
        # Of a single fit nothing is known of its error.
        error = self.standard_error
        return self.points > max(ALLOWED_POINTS, STANDARD_ERRORS * error if error > 0 else 0.0)


def differences(results: Results, rival: str, role: str = "") -> Iterator[Difference]:
    """At every point where both are."""
    for table, epsilon in results.points:
        if role and BY_NAME[table].role != role:
            continue
        theirs, ours = (results.values(table, epsilon, name) for name in (rival, AUTO))
        both = sorted(theirs.keys() & ours.keys())
        if both:
            points, error = mean(theirs[seed] - ours[seed] for seed in both)
            yield Difference(table, epsilon, rival, points, error)


def against_peers(results: Results, role: str = "") -> list[Difference]:
    """Of every rival at every point."""
    names = dict.fromkeys(name for table in BY_NAME.values() for name in rivals(table))
    return [found for name in names for found in differences(results, name, role)]


def summary(results: Results) -> dict[str, float]:
    """The figures that are required or reported. What was not measured is left out."""
    figures: dict[str, float] = {}
    for table, name in _REQUIRED.items():
        for epsilon in (1.0, 2.0):
            value = mean(results.values(table, epsilon, AUTO).values())[0]
            figures[f"{name}_eps{epsilon:g}"] = value
    peers = against_peers(results)
    figures["worst_against_peers_points"] = _most(peers)
    figures["violations"] = float(sum(d.beyond for d in peers)) if peers else math.nan
    figures["points_against_peers"] = float(len(peers))
    for role in (TUNING, PARTLY, JUDGING):
        figures[f"worst_against_peers_points_{role}"] = _most(against_peers(results, role))
    oracle = list(differences(results, ORACLE))
    # Where `auto` is the better of both, it lacks nothing.
    short = [max(d.points, 0.0) for d in oracle]
    figures["mean_shortfall_points"] = mean(short)[0]
    figures["mean_difference_to_oracle_points"] = mean(d.points for d in oracle)[0]
    figures["worst_shortfall_points"] = _most(oracle)
    figures |= opacus(results)
    for competitor in results.competitors:
        figures[f"errors_{competitor}"] = float(len(results.errors(competitor)))
    return {name: value for name, value in figures.items() if math.isfinite(value)}


def opacus(results: Results) -> dict[str, float]:
    """Opacus's accuracy minus that of our engine at the same settings, and its standard error."""
    found = {}
    for table, epsilon in results.points:
        theirs, ours = (results.values(table, epsilon, name) for name in (OPACUS, ORACLE))
        both = sorted(theirs.keys() & ours.keys())
        if both:
            points, error = mean(theirs[seed] - ours[seed] for seed in both)
            found[f"opacus_points_{table}_eps{epsilon:g}"] = points
            found[f"opacus_error_{table}_eps{epsilon:g}"] = error
    return found


def _most(found: Sequence[Difference]) -> float:
    return max((d.points for d in found), default=math.nan)


def every(results: Results) -> dict[str, float]:
    """Every mean under a flat key, its standard error and the number of fits beside it."""
    figures = {}
    for table, epsilon in results.points:
        for competitor in results.competitors:
            values = results.values(table, epsilon, competitor).values()
            if values:
                key = f"{table}/{epsilon:g}/{competitor}"
                figures[f"points/{key}"], figures[f"error/{key}"] = mean(values)
                figures[f"fits/{key}"] = float(len(values))
    return {name: value for name, value in figures.items() if math.isfinite(value)}
