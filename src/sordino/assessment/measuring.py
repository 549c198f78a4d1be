"""What is estimated: SGD's own noise, and what the noise of the release is worth. No guarantees.

Runs are made over seeds, on datasets that differ in one record; the noise that a release adds is
known, and need not be drawn. Estimated is how many standard deviations apart two datasets are along
the direction that tells most, and the epsilon of Gaussian noise at that distance.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import threadpoolctl

from sordino import _check, _cost
from sordino.assessment import audit_cost, fitted_runs, measured_runs
from sordino.assessment.distance import ATTACKED, Distance, Evidence, together
from sordino.assessment.measured_runs import Tally, Training
from sordino.assessment.release_noise import INDEPENDENT, TOO_LONG, ReleaseNoise
from sordino.audit import neighbour
from sordino.audit.neighbour import Pair
from sordino.audit.own_fit import records_of
from sordino.data.dataset import Dataset
from sordino.estimators.job import Job
from sordino.intrinsic import directional, distances, normality, released, spread
from sordino.intrinsic.distances import Distances
from sordino.intrinsic.theory import theory
from sordino.privacy import Relation
from sordino.report.canvas import density
from sordino.report.stages import Curve, Estimated, Measure, OwnNoise
from sordino.seeding import stream
from sordino.sgd import cost
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats, Progress

if TYPE_CHECKING:
    from sordino.assessment.subject import Subject


POINTS, MARGIN = 80, 1.5
"""Of a density, and how far it reaches beyond the outermost distance."""
MOST_TESTS = 3000
"""Weights tested for normality; those of other datasets are nearly copies."""
FITS = 128
"""Of an objective with a random term: the shift of that term hardly varies."""
_COPIES = 3
"""Of a grid's weights, that are in memory at once while they are judged."""
NOTHING_MOVES = "Neither the seed nor the record moves any weight."


# SGD without added noise -----------------------------------------------------------------


def own_noise(subject: Subject, directory: Path, progress: Progress) -> OwnNoise:
    """Measure how widely its seed alone spreads the weights of ordinary SGD.

    Parameters
    ----------
    subject
        What is assessed.
    directory
        INTERNAL: keeps the runs, so that a stopped measurement goes on.
    progress
        Told (runs done, runs in all).

    Raises
    ------
    StudyError
        If the training diverges.
    """
    D, spec = subject.D, subject.plain
    seeds, many, of_pair = _sizes(subject)
    tally = Tally(progress, seeds * (many + 1) + 2 * of_pair)
    pair, fitting = subject.pair, _fitting(spec, D.rows - 1)
    grid = Training(fitting).grid(D, seeds, many, directory / "grid", tally)
    attacked = Training(spec).grid(
        pair.D, of_pair, measured_runs.overlay(pair), directory / "pair", tally
    )
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        evidence = _own_evidence(subject, grid, attacked)
        return _described(subject, grid, attacked, evidence)


def check(subject: Subject) -> None:
    """Refuse, before anything is written, a grid that could not be measured later.

    Raises
    ------
    InvalidArgument
        For more seeds than can be tested, or runs that do not fit in memory.
    """
    seeds = subject.brief.grid_seeds
    if seeds > normality.MOST_SEEDS:
        hint = "Whether their noise is Gaussian cannot be told of more."
        _check.fail("seeds", seeds, f"<= {normality.MOST_SEEDS}", hint)
    seeds, many, of_pair = _sizes(subject)
    numbers = measured_runs.parameters(subject.plain, subject.D)
    held = _COPIES * 8 * numbers * max(seeds * (many + 1), 2 * of_pair)
    hint = f"A model has {numbers:,} numbers: lower neighbours or seeds."
    _cost.check_memory("neighbours", many, held, hint)


def _sizes(subject: Subject) -> tuple[int, int, int]:
    """Seeds and neighbours of the grid, and seeds of the attacked pair."""
    brief, D, spec = subject.brief, subject.D, subject.plain
    each = cost.of_run(spec, D.rows, D.features)
    seeds, many = brief.grid_seeds, brief.grid_neighbours
    if brief.neighbours is None:
        many = measured_runs.affordable_neighbours(brief.effort, each, seeds, many)
    wanted = measured_runs.seeds_of_pair(seeds, measured_runs.parameters(spec, D))
    of_pair = max(seeds, measured_runs.affordable(brief.effort, each, 2, wanted))
    return seeds, min(many, D.rows - 1), of_pair


def _own_evidence(subject: Subject, grid: Floats, attacked: Floats) -> Evidence:
    """The worst of all pairs in the grid, and the attacked one; each along its direction."""
    seeds, many, parameters = grid.shape
    found = Evidence(
        words=[
            f"Ordinary SGD was trained with {seeds:,} seeds on each of {many:,} datasets (the "
            f"records but the first, and with one drawn record replaced by it), and with "
            f"{len(attacked):,} seeds on the attacked pair.",
            "Along the most telling direction each two of these datasets are compared; under one "
            "seed, those that differ in one place.",
        ],
        why_none=NOTHING_MOVES,
    )
    if subject.job is not None and subject.job.plan.task.problems > 1:
        label = subject.job.classes[subject.problem]
        found.words.append(f"One model was trained: class {label} against the rest.")
    name = f"the worst pair of {many:,} drawn datasets"
    drawn, pair = stream("estimate", "own grid"), stream("estimate", "own pair")
    if not (grid == grid[:1, :1]).all():
        worst = directional.worst_pair(
            grid, stream=drawn, repeats=measured_runs.repeats(seeds, parameters)
        )
        found.telling.append(Distance.telling(name, worst.distance))
        size = released.isotropic(grid, 0.0, stream=drawn, base=0)
        found.isotropic.append(Distance.isotropic(name, size))
    if not (attacked == attacked[:1, :1]).all():
        repeats = measured_runs.repeats(len(attacked), parameters)
        one = directional.between(attacked[:, 0], attacked[:, 1], stream=pair, repeats=repeats)
        found.telling.append(Distance.telling(ATTACKED, one.distance))
        size = released.isotropic(attacked, 0.0, stream=pair)
        found.isotropic.append(Distance.isotropic(ATTACKED, size))
    return found


def _described(subject: Subject, grid: Floats, attacked: Floats, evidence: Evidence) -> OwnNoise:
    drawn = stream("estimate", "own noise")
    by_data = distances.between_datasets(grid, stream=drawn, against=0)
    by_seed = distances.between_seeds(grid, stream=drawn)
    sigma = spread.sigma(grid, stream=drawn)
    bound, no_bound = _bound(subject.plain, subject.D)
    seeds, many, parameters = grid.shape
    tested = normality.shapiro_wilk(grid, datasets=max(1, min(many, MOST_TESTS // parameters)))
    curves = _densities(by_data, by_seed)
    return OwnNoise(
        training=subject.plain_words,
        seeds=seeds,
        neighbours=many - 1,
        runs=seeds * many + 2 * len(attacked),
        sigma=Measure(sigma.value, sigma.low, sigma.high, sigma.level),
        sensitivity=max(by_data.maximum, distances.between_datasets(attacked).maximum),
        bound=bound,
        no_bound=no_bound,
        by_data=curves[0],
        by_seed=curves[1],
        gaussian_share=1 - tested.below_level if tested.tests else None,
        estimated=evidence.estimated(subject.delta, subject.brief.max_rows_per_person),
        notes=_notes(grid),
    )


def _bound(spec: TrainSpec, D: Dataset) -> tuple[float | None, str]:
    """What no two trainings that differ in one record are further apart than, or why none is."""
    steps = spec.total_steps(D.rows)
    # The grid has a record less than the attacked pair, so that it goes round more often.
    trained = (_fitting(spec, D.rows - 1), D.rows - 1), (spec, D.rows)
    asked = [theory(*each, D.norm_bound, steps, Relation.REPLACE_ONE) for each in trained]
    bounds = [each.bound.worst for each in asked if each.bound is not None]
    return (max(bounds), "") if bounds else (None, asked[0].reason)


def _fitting(spec: TrainSpec, rows: int) -> TrainSpec:
    """The same training of so few records that a batch is all of them."""
    return replace(spec, batch_size=min(spec.batch_size, rows))


def _densities(*found: Distances) -> tuple[Curve, ...]:
    """Of the logarithms of distances, between the same ends; empty where none is above 0."""
    every = np.concatenate([each.values[each.values > 0] for each in found])
    if not len(every):
        return tuple(Curve((), ()) for _ in found)
    low, high = float(every.min()) / MARGIN, float(every.max()) * MARGIN
    curves = (density(each.values, low, high, POINTS) for each in found)
    return tuple(Curve(tuple(x.tolist()), tuple(y.tolist())) for x, y in curves)


def _notes(grid: Floats) -> tuple[str, ...]:
    still = int((np.ptp(grid, axis=0) == 0).all(axis=0).sum())
    if not still:
        return ()
    every = grid.shape[2]
    return (
        f"{still:,} of {every:,} weights are the same for all seeds: nothing hides a record that "
        "moves one of them.",
    )


# The release -----------------------------------------------------------------------------


def release_estimate(subject: Subject, directory: Path, progress: Progress) -> Estimated:
    """Estimate what the noise of the release is worth: the noise added and that of its training.

    Parameters
    ----------
    subject, directory, progress
        As for `own_noise`.

    Raises
    ------
    StudyError
        If the training diverges.
    """
    evidence = _release_evidence(subject, directory, progress)
    return evidence.estimated(subject.delta, subject.brief.max_rows_per_person)


def _release_evidence(subject: Subject, directory: Path, progress: Progress) -> Evidence:
    brief, job = subject.brief, subject.job
    if job is None:
        assert subject.network is not None
        spec, scale = subject.network.spec, 0.0
        starts: list[Floats | None] = [None]
        pairs = [subject.pair]
    elif job.plan.spec is None:
        return _fitted(subject, job, progress)
    else:
        spec, scale, starts = job.plan.spec, job.plan.scale, list(job.start)
        pairs = _pairs(job, _attacked(subject, job))
    noise = ReleaseNoise(
        spec=spec,
        scale=scale,
        starts=starts,
        pairs=pairs,
        D=subject.D,
        at=subject.problem,
        parameters=measured_runs.parameters(spec, subject.D),
        effort=brief.effort,
        seeds=brief.grid_seeds,
        neighbours=brief.grid_neighbours,
    )
    return noise.evidence(directory, progress)


def _fitted(subject: Subject, job: Job, progress: Progress) -> Evidence:
    """Of methods that the engine does not train."""
    plan, brief = job.plan, subject.brief
    each = audit_cost.of_plan(plan) / 2
    wanted = FITS if plan.method == "objective" else brief.grid_seeds
    seeds = measured_runs.affordable(brief.effort, each, 2, wanted)
    if not seeds:
        return Evidence(why_none=TOO_LONG)
    first, second = _attacked(subject, job)
    assert isinstance(second, Dataset)
    said = f"The release was fitted {seeds:,} times on each dataset of the attacked pair, with "
    found = Evidence(words=[f"{said}the same noise on both."])
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        weights = fitted_runs.fitted(plan, job.start, (first, second), seeds, progress)
        if plan.method == "objective":
            every, one = weights.reshape(seeds, 2, -1), stream("estimate", "one sigma")
            size = released.isotropic(every, plan.scale, stream=one)
            found.isotropic.append(Distance.isotropic(ATTACKED, size))
            pair, many = (first, second), brief.grid_neighbours
            found.telling += fitted_runs.shifts(plan, pair, _classes(job), weights[:, 0], many)
            found.words.append(fitted_runs.SHIFT_WORDS)
        else:
            parts = [
                released.between(
                    *(weights[:, 0, problem], weights[:, 1, problem], plan.scale),
                    stream=stream("estimate", problem),
                ).distance
                for problem in range(len(job.start))
            ]
            telling = [Distance.telling(ATTACKED, part) for part in parts]
            found.telling.append(together(telling, INDEPENDENT))
            found.words.append(fitted_runs.NO_SIGMA_WORDS)
    return found


def _attacked(subject: Subject, job: Job) -> Pair:
    """The pair that the release is attacked on; labels are class numbers."""
    return subject.pair if job.plan.task.problems == 1 else neighbour.canary(_classes(job))


def _classes(job: Job) -> Dataset:
    records = job.records
    return Dataset(records.X, records.codes, norm_bound=records.norm, name="fit")


def _pairs(job: Job, pair: Pair) -> list[Pair]:
    """The same two datasets as each class's model sees them."""
    assert isinstance(pair.D_prime, Dataset)
    worlds = [records_of(job.plan, each) for each in (pair.D, pair.D_prime)]
    return [
        Pair(*(each.dataset(problem) for each in worlds)) for problem in range(worlds[0].problems)
    ]
