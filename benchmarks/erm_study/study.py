"""The study: plan, tune on repeat 0, score on the others, and gather."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from erm_study import fits
from erm_study.design import FOLDS, Size
from erm_study.fits import Unit
from erm_study.folds import Stored, store
from erm_study.plans import Light, Planned, plan_method
from erm_study.pool import Job, Pool
from erm_study.results import Results

TUNING = 0
"""The repeat of the folds on which oracles are tuned; it is never scored."""


@dataclass(frozen=True)
class Cell:
    """One method at one point: a mean in the table, a mark in a figure."""

    source: str
    loss: str
    epsilon: float
    method: str
    kind: str
    """ "default" or "oracle"."""
    accuracies: np.ndarray
    objectives: np.ndarray
    setting: str = ""
    """What was chosen, for an oracle; or why there is nothing, where nothing could be planned."""

    @property
    def point(self) -> tuple[str, str, float]:
        """Where it stands."""
        return self.source, self.loss, self.epsilon


def run(size: Size, work: Path, data_dir: Path | None, results: Results) -> list[Cell]:
    """Every cell of the study."""
    stored = [store(source, work, data_dir) for source in size.sources]
    with Pool() as pool:
        planned = list(pool.map("plans", plan_method, _planning(stored)))
        _fill(pool, "tuning", results, _tuning_wanted(planned), tuning=True)
        chosen = _chosen(planned, results)
        _fill(pool, "scoring", results, _scoring_wanted(planned, chosen), tuning=False)
    return list(_cells(planned, chosen, results))


def _planning(stored: Sequence[Stored]) -> list[Job]:
    jobs = [
        (1.0, (each, loss, method))
        for each in stored
        for loss in each.source.losses
        for method in each.source.methods
    ]
    slow = ("dp-sgd", "sgd-ma")  # first, so that no worker is left with one at the end
    return sorted(jobs, key=lambda job: job[1][2] not in slow)


def _units(planned: Planned, repeats: Sequence[int]) -> list[Unit]:
    return [Unit(planned.stored, planned.loss, r, f) for r in repeats for f in range(FOLDS)]


Wanted = dict[str, tuple[Unit, dict[str, Light]]]
"""By a unit's name: the unit, and its plans by fingerprint."""


def _add(wanted: Wanted, unit: Unit, light: Light | str) -> None:
    if not isinstance(light, str):
        wanted.setdefault(unit.name, (unit, {}))[1][light[0]] = light


def _tuning_wanted(planned: Sequence[Planned]) -> Wanted:
    wanted: Wanted = {}
    for plans in planned:
        for unit in _units(plans, (TUNING,)):
            for lights in plans.tuned.values():
                for light in lights:
                    _add(wanted, unit, light)
    return wanted


def _scoring_wanted(planned: Sequence[Planned], chosen: dict[tuple[int, float], int]) -> Wanted:
    wanted: Wanted = {}
    for place, plans in enumerate(planned):
        for unit in _units(plans, plans.stored.source.repeats):
            for epsilon, light in plans.defaults.items():
                _add(wanted, unit, light)
                if (place, epsilon) in chosen:
                    _add(wanted, unit, plans.tuned[epsilon][chosen[place, epsilon]])
    return wanted


def _fill(pool: Pool, title: str, results: Results, wanted: Wanted, *, tuning: bool) -> None:
    """Run what is not there yet."""
    jobs: list[Job] = []
    for unit, lights in wanted.values():
        missing = [light for name, light in lights.items() if not results.has(unit, name)]
        if missing:
            cells = unit.stored.rows * unit.stored.columns
            jobs.append((cells * len(missing) / 1e6, (unit, missing, tuning)))
    jobs.sort(key=lambda job: -job[0])
    for done in pool.map(title, fits.run, jobs):
        results.add(done)


def _chosen(planned: Sequence[Planned], results: Results) -> dict[tuple[int, float], int]:
    """Best setting on the tuning repeat by mean accuracy, by place of the plans and epsilon."""
    found: dict[tuple[int, float], int] = {}
    for place, plans in enumerate(planned):
        units = _units(plans, (TUNING,))
        for epsilon, lights in plans.tuned.items():
            means = [
                -1.0 if isinstance(light, str) else _accuracies(units, light[0], results).mean()
                for light in lights
            ]
            if means and max(means) >= 0:
                found[place, epsilon] = int(np.argmax(means))
    return found


def _accuracies(units: Sequence[Unit], name: str, results: Results) -> np.ndarray:
    """Accuracy on each unit; 0 where nothing was released."""
    return np.array([(results.get(unit, name) or (0.0, np.nan))[0] for unit in units])


def _objectives(units: Sequence[Unit], name: str, results: Results) -> np.ndarray:
    return np.array([(results.get(unit, name) or (0.0, np.nan))[1] for unit in units])


def _cells(
    planned: Sequence[Planned], chosen: dict[tuple[int, float], int], results: Results
) -> Iterator[Cell]:
    for place, plans in enumerate(planned):
        source = plans.stored.source
        units = _units(plans, source.repeats)
        for epsilon, light in plans.defaults.items():
            at = (source.name, plans.loss, epsilon, plans.method)
            if isinstance(light, str):
                yield Cell(*at, "default", np.array([]), np.array([]), light)
            else:
                yield _cell(at, "default", units, light, results)
            if (place, epsilon) in chosen:
                best = plans.tuned[epsilon][chosen[place, epsilon]]
                yield _cell(at, "oracle", units, best, results)


def _cell(
    at: tuple[str, str, float, str],
    kind: str,
    units: Sequence[Unit],
    light: Light | str,
    results: Results,
) -> Cell:
    assert not isinstance(light, str)
    name, plan = light
    shown = {"method": plan.method, **plan.settings.given, "l2": plan.l2}
    words = ", ".join(
        f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in shown.items()
    )
    accuracies = _accuracies(units, name, results)
    return Cell(*at, kind, accuracies, _objectives(units, name, results), words)


def by_point(cells: Sequence[Cell], kind: str) -> dict[tuple[str, str, float], dict[str, Cell]]:
    """Cells of one kind: by point, then by method; those that could be planned."""
    found: dict[tuple[str, str, float], dict[str, Cell]] = defaultdict(dict)
    for cell in cells:
        if cell.kind == kind and len(cell.accuracies):
            found[cell.point][cell.method] = cell
    return dict(found)
