"""What is estimated: SGD's own noise, and what the noise of the release is worth. No guarantees.

Runs are made over seeds, on datasets that differ in one record; the noise that a release adds is
known, and need not be drawn. Estimated is how many standard deviations apart two datasets are along
the direction that tells most, and the epsilon of Gaussian noise at that distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sordino import _cost, checks, tasks
from sordino.assessment.plan import AssessmentPlan
from sordino.assessment.request import EFFORTS
from sordino.audit.runners.fits import class_dataset
from sordino.audit.runners.minimised import MinimisedFit, minimisers, records_of
from sordino.audit.runners.trained import is_deterministic, with_record_of
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.estimators import methods
from sordino.estimators.fit import FitPlan, PlannedFit, Randomness
from sordino.estimators.minimum.linear import Risk
from sordino.intrinsic import directional, distances, normality, spread
from sordino.intrinsic.directional import ALONG, LEAST_SEEDS
from sordino.intrinsic.epsilon import EXACT, OBSERVED, exact_epsilon
from sordino.intrinsic.grid import load
from sordino.intrinsic.interval import Interval, applied, percentile, without_interval
from sordino.intrinsic.measure import StudyProgress, measure
from sordino.intrinsic.theory import theory
from sordino.privacy import Estimate, Relation
from sordino.randomness import stream
from sordino.report.result import Curve, Estimated, Measure, OwnNoise, curve
from sordino.sgd.spec import OF_NORMAL, OF_NUMBER, TrainSpec
from sordino.study import StudyError
from sordino.types import Floats, Progress

_Models = Sequence[tuple[Floats | None, tuple[Dataset, Dataset]]]
"""Of each released model: initial weights (None where the spec makes them) and the attacked pair,
as it sees it."""

ATTACKED = "the attacked pair of datasets"
_LARGE_AT = 3.0
"""How many times as long the fewest seeds of which anything can be said may take."""
_FEWEST, _SEEDS_A_WEIGHT = 200, 4
"""Seeds of a pair whose direction is learned: at least, and for each weight if they can be had."""
_MOST_NUMBERS = 60_000
"""Weights of such a pair's runs on one dataset: above, learning takes longer than training."""
_DRAWN = 8
"""Records replaced, one at a time, beside the attacked pair."""
_FEW_SEEDS = 4
"""Where a direction is out of reach: enough for one sigma over all weights."""
_CORES = 2
_OF_PASS, _PASSES = 3.0e-10, 10  # a row's entry, where many runs are minimised at once
_OF_FIT, _FIT_PASSES = 5.0e-3, 200  # a fit on its own
_POINTS, _MARGIN = 80, 1.5
"""Of a density, and how far it reaches beyond the outermost distance."""
_MOST_TESTS = 3000
"""Weights tested for normality; those of other datasets are nearly copies."""
_FITS, _TOGETHER = 128, 64
"""Of an objective with a random term, whose shift hardly varies; and those minimised at once."""
_COPIES = 3
"""Of a grid's weights, that are in memory at once while they are judged."""
_DRAWS, _LEVEL = 200, 0.95

_INDEPENDENT = "takes the noises of the models for independent"
_ALIKE = "takes all models to tell as much as the one measured"
_TOO_LONG = "One training takes too long to be repeated so often; try --thorough."


@dataclass(frozen=True)
class Distance:
    """How far apart the releases of two datasets are, in standard deviations of their noise.

    Parameters
    ----------
    of
        Which two datasets, in words.
    how
        Of what, in words that follow "the exact Gaussian formula".
    value
        Measured, with its interval; or computed.
    caveat
        What it takes for granted.
    """

    of: str
    how: str
    value: Interval | float
    caveat: str

    @classmethod
    def telling(cls, of: str, value: Interval) -> Distance:
        """Along a direction that was learned."""
        return cls(of, "along the most telling direction, learned from other seeds", value, ALONG)

    @classmethod
    def isotropic(cls, of: str, value: Interval) -> Distance:
        """The papers' way: one sigma for all directions."""
        how = "of the largest distance under one seed over one sigma for all directions"
        alike = "takes the noise for Gaussian and alike in all directions"
        return cls(of, how, value, f"{alike}; {OBSERVED}")

    @property
    def size(self) -> float:
        """Without its interval."""
        return without_interval(self.value)

    def times(self, factor: float, because: str) -> Distance:
        """As many times as far; `because` says what that takes for granted."""
        if factor == 1:
            return self
        value = applied(lambda size: size * factor, self.value)
        return replace(self, value=value, caveat=f"{self.caveat}; {because}")

    def epsilon(self, delta: float) -> Estimate:
        """The exact Gaussian epsilon."""
        method, caveat = f"{EXACT} {self.how}, for {self.of}", f"{self.caveat}; another pair may"
        return exact_epsilon(self.value, delta, method=method, caveat=f"{caveat} tell more")


def together(parts: Sequence[Distance], because: str) -> Distance:
    """One record in several models with independent noise: distances add up in squares.

    All are measured, or all computed.
    """

    def root(sizes: Sequence[float]) -> float:
        # Estimated without bias, a distance may be a little below 0 where there is none.
        return math.hypot(*(max(size, 0.0) for size in sizes))

    first = parts[0]
    if len(parts) == 1:
        return first
    value: Interval | float = root([part.size for part in parts])
    if isinstance(first.value, Interval):
        measured = [part.value for part in parts if isinstance(part.value, Interval)]
        ends = ("value", "low", "high")
        middle, low, high = (root([getattr(each, end) for each in measured]) for end in ends)
        value = Interval(middle, low, high, first.value.level)
    return replace(first, value=value, caveat=f"{first.caveat}; {because}")


@dataclass
class NoiseEvidence:
    """What was measured of one release so far.

    Parameters
    ----------
    telling, isotropic
        Distances along the most telling direction, and by one sigma for all directions.
    words
        What was measured, a sentence each.
    why_none
        Why there is no distance along a direction, if there is none.
    """

    telling: list[Distance] = field(default_factory=list)
    isotropic: list[Distance] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    why_none: str = ""

    def estimated(self, delta: float, rows_per_person: int = 1) -> Estimated:
        """The largest of each kind, as epsilons."""
        group = f"multiplied by {rows_per_person} records of one person"
        telling, isotropic = (
            max(found, key=lambda each: each.size).times(rows_per_person, group).epsilon(delta)
            if found
            else None
            for found in (self.telling, self.isotropic)
        )
        return Estimated(
            headline=telling,
            isotropic=isotropic,
            directional=telling,
            why_none="" if telling is not None else self.why_none,
            words=tuple(self.words),
        )


# How many runs ---------------------------------------------------------------------------


def seeds_of_pair(seeds: int, parameters: int) -> int:
    """Seeds that one pair deserves, of a grid with so many, where a direction must be learned."""
    wanted = _SEEDS_A_WEIGHT * max(seeds, parameters)
    return max(_FEWEST, min(wanted, _MOST_NUMBERS // parameters))


def affordable(effort: str, each: float, datasets: int, wanted: int) -> int:
    """Seeds for so many datasets, at `each` core seconds a run: those wanted, or fewer.

    0 if even the least number takes far too long.
    """
    seconds = EFFORTS[effort].measuring * _CORES
    seeds = min(wanted, int(seconds / (each * datasets)))
    if seeds >= LEAST_SEEDS:
        return seeds
    return LEAST_SEEDS if LEAST_SEEDS * each * datasets <= _LARGE_AT * seconds else 0


def _affordable_neighbours(effort: str, each: float, seeds: int, wanted: int) -> int:
    """Datasets of a grid with so many seeds, beside the first; a handful, however long it takes."""
    seconds = _LARGE_AT * EFFORTS[effort].measuring * _CORES
    return max(min(_DRAWN, wanted), min(wanted, int(seconds / (each * seeds)) - 1))


def _partitions(seeds: int, parameters: int) -> int:
    """Of seeds into learning and tested ones: one is enough where each takes seconds."""
    return 4 if seeds * parameters * min(2 * seeds, parameters) < 5_000_000 else 1


def cost_of_fit(fit: FitPlan) -> float:
    """Core seconds of a fit, the noise of the release included: counted, not measured.

    So the same study has the same runs on all machines: on a slower one they take longer.
    """
    task = fit.task
    if fit.spec is not None:
        return task.models * fit.spec.core_seconds(task.rows, task.columns)
    entries = task.rows * task.columns
    if fit.method == "objective":
        work = _OF_PASS * _PASSES * entries + 2 * OF_NORMAL * task.columns
    else:
        work = _OF_FIT + OF_NUMBER * _FIT_PASSES * entries
    return task.problems * work


def _sizes(plan: AssessmentPlan) -> tuple[int, int, int]:
    """Seeds and neighbours of the grid, and seeds of the attacked pair."""
    request, D, spec = plan.request, plan.D, plan.plain
    each = spec.core_seconds(D.rows, D.features)
    seeds, many = request.limits.seeds, request.limits.neighbours
    if request.neighbours is None:
        many = _affordable_neighbours(request.effort, each, seeds, many)
    wanted = seeds_of_pair(seeds, plan.parameters(spec))
    of_pair = max(seeds, affordable(request.effort, each, 2, wanted))
    return seeds, min(many, D.rows - 1), of_pair


def check(plan: AssessmentPlan) -> None:
    """Refuse, before anything is written, a grid that could not be measured later.

    Raises
    ------
    InvalidArgument
        For more seeds than can be tested, or runs that do not fit in memory.
    """
    seeds, many, of_pair = _sizes(plan)
    if seeds > normality.MOST_SEEDS:
        checks.fail("seeds", seeds, f"<= {normality.MOST_SEEDS}")
    numbers = plan.parameters(plan.plain)
    held = _COPIES * 8 * numbers * max(seeds * (many + 1), 2 * of_pair)
    _cost.check_memory("neighbours", many, held, "Lower neighbours or seeds.")


# Runs ------------------------------------------------------------------------------------


class _Grids:
    """Trains grids into a directory, and tells how far all of them have come together."""

    def __init__(self, directory: Path, progress: Progress, total: int, client: Any) -> None:
        self.directory, self.client = directory, client
        self._progress, self._total, self._before = progress, total, 0
        progress(0, total)

    def train(
        self,
        name: str,
        spec: TrainSpec,
        start: Floats | None,
        D: Dataset,
        seeds: int,
        neighbours: int | Neighbours,
    ) -> Floats:
        """Weights [seed, dataset, parameter]: train every seed on every dataset, or resume it.

        The first dataset is the one with nothing replaced.

        Raises
        ------
        StudyError
            If runs diverge.
        """

        def tell(study: StudyProgress) -> None:
            self._progress(self._before + study.runs_done, self._total)

        study = measure(
            *(spec, D, seeds, neighbours),
            init=None if spec.init == "given" else spec.init,
            initial_weights=start,
            store=self.directory / name,
            client=self.client,
            progress=tell,
        )
        self._before += seeds * len(study.layout.neighbours)
        self._progress(self._before, self._total)
        measured = load(study)
        if measured.left_out:
            raise StudyError(f"Expected every run to end well, and {measured.left_out[0]}")
        return measured.final(measured.inits[0])


def drawn_neighbours(D: Dataset, pair: tuple[Dataset, Dataset], many: int) -> Neighbours:
    """The dataset; with the attacked record in its first place; with records drawn and replaced.

    Each drawn one is replaced by another that is drawn, of the same dataset: what people differ in.
    """
    many = min(many, (D.rows - 1) // 2)
    chosen = 1 + stream("neighbours").permutation(D.rows - 1)[: 2 * many]
    replaced, instead = chosen[:many], chosen[many:]
    X = np.concatenate([pair[0].X[:1], D.X[instead]])
    y = np.concatenate([pair[0].y[:1], D.y[instead]])
    weights = None
    if D.weights is not None and pair[0].weights is not None:
        weights = np.concatenate([pair[0].weights[:1], D.weights[instead]])
    return neighbouring.replace(D, np.append(0, replaced), X, y, weights=weights)


# SGD without added noise -----------------------------------------------------------------


def own_noise(
    plan: AssessmentPlan, directory: Path, progress: Progress, client: Any = None
) -> OwnNoise:
    """Measure how widely its seed alone spreads the weights of ordinary SGD.

    Parameters
    ----------
    plan
        What is assessed.
    directory
        INTERNAL: keeps the runs, so that a stopped measurement can be resumed.
    progress
        Called with (runs done, runs in all).
    client
        A Dask `Client` whose workers train.

    Raises
    ------
    StudyError
        If the training diverges.
    """
    D, spec = plan.D, plan.plain
    seeds, many, of_pair = _sizes(plan)
    first, second = plan.pair
    assert isinstance(second, Dataset)
    grids = _Grids(directory, progress, seeds * (many + 1) + 2 * of_pair, client)
    # The grid has a record less than the attacked pair; a batch may be all of its records.
    fitting = replace(spec, batch_size=min(spec.batch_size, D.rows - 1))
    grid = grids.train("grid", fitting, None, D, seeds, many)
    overlay = with_record_of(first, second, 0)
    attacked = grids.train("pair", spec, None, first, of_pair, overlay)
    with threadpool_limits(1, "blas"):
        estimated = _own_evidence(plan, grid, attacked).estimated(
            plan.delta, plan.request.max_rows_per_person
        )
        drawn = stream("estimate", "own noise")
        by_data = distances.between_datasets(grid, stream=drawn, against=0)
        by_seed = distances.between_seeds(grid, stream=drawn)
        sigma = spread.sigma(grid, stream=drawn)
        parameters = grid.shape[2]
        datasets = max(1, min(grid.shape[1], _MOST_TESTS // parameters))
        tested = normality.shapiro_wilk(grid, datasets=datasets)
        farthest = distances.between_datasets(attacked).maximum
    found = [
        theory(each, rows, D.norm_bound, spec.total_steps(D.rows), Relation.REPLACE_ONE)
        for each, rows in ((fitting, D.rows - 1), (spec, D.rows))
    ]
    bounds = [each.bound.worst for each in found if each.bound is not None]
    curves = _densities(by_data.values, by_seed.values)
    still = int((np.ptp(grid, axis=0) == 0).all(axis=0).sum())
    same = f"{still:,} of {parameters:,} weights are the same for all seeds."
    return OwnNoise(
        training=plan.plain_words,
        seeds=seeds,
        neighbours=grid.shape[1] - 1,
        runs=grid.shape[0] * grid.shape[1] + 2 * len(attacked),
        sigma=Measure(sigma.value, sigma.low, sigma.high, sigma.level),
        sensitivity=max(by_data.maximum, farthest),
        bound=max(bounds, default=None),
        no_bound="" if bounds else found[0].reason,
        by_data=curves[0],
        by_seed=curves[1],
        gaussian_share=1 - tested.below_level if tested.tests else None,
        estimated=estimated,
        notes=(same,) if still else (),
    )


def _own_evidence(plan: AssessmentPlan, grid: Floats, attacked: Floats) -> NoiseEvidence:
    """The worst of all pairs in the grid, and the attacked one; each along its direction."""
    seeds, many, parameters = grid.shape
    words = f"SGD was trained with {seeds:,} seeds on each of {many:,} datasets, and with "
    words += f"{len(attacked):,} on the attacked pair."
    found = NoiseEvidence(words=[words], why_none="Neither seed nor record moves a weight.")
    if plan.fitting is not None and plan.problems > 1:
        found.words.append(
            f"One model was trained: class {plan.fitting.classes[0]} against the rest."
        )
    for weights, name, part, base in (
        (grid, f"the worst pair of {many:,} drawn datasets", "own grid", 0),
        (attacked, ATTACKED, "own pair", None),
    ):
        if (weights == weights[:1, :1]).all():
            continue
        how: dict[str, Any] = {"stream": stream("estimate", part)}
        repeats = _partitions(len(weights), parameters)
        if base is None:
            one = directional.between(weights[:, 0], weights[:, 1], repeats=repeats, **how)
        else:
            one, how["base"] = directional.worst_pair(weights, repeats=repeats, **how), base
        found.telling.append(Distance.telling(name, one.distance))
        found.isotropic.append(Distance.isotropic(name, directional.isotropic(weights, 0.0, **how)))
    return found


def _densities(*samples: Floats) -> list[Curve]:
    """Of the logarithms of distances, between the same ends; empty where none is above 0."""
    every = np.concatenate([each[each > 0] for each in samples])
    if not len(every):
        return [Curve((), ()) for _ in samples]
    low, high = float(every.min()) / _MARGIN, float(every.max()) * _MARGIN
    return [curve(*distances.density(each, low, high, _POINTS, log=True)) for each in samples]


# The release -----------------------------------------------------------------------------


def release_estimate(
    plan: AssessmentPlan, directory: Path, progress: Progress, client: Any = None
) -> Estimated:
    """Estimate what the noise of the release is worth: the noise added and that of its training.

    Parameters, errors: as for `own_noise`.
    """
    fitting, spec, scale = plan.fitting, plan.release_spec, 0.0
    if spec is None:
        assert fitting is not None
        found = _fit_evidence(plan, fitting, progress)
    else:
        models: _Models = [(None, plan.release_pair)]
        if fitting is not None:
            scale = fitting.plan.scale
            first, second = (records_of(fitting.plan, each) for each in plan.release_pair)
            models = [(fitting.start.ravel(), plan.release_pair)]
            if not fitting.plan.task.joint:
                models = [
                    (start, (first.dataset(problem), second.dataset(problem)))
                    for problem, start in enumerate(fitting.start)
                ]
        # Drawn records are replaced in the first model alone.
        many = min(_DRAWN, plan.request.limits.neighbours)
        drawn = drawn_neighbours(plan.D, models[0][1], many)
        if is_deterministic(spec):
            found = _computed(plan.D, spec, scale, models, drawn, progress)
        else:
            found = _measured(plan, spec, scale, models, drawn, directory, progress, client)
    return found.estimated(plan.delta, plan.request.max_rows_per_person)


def _computed(
    D: Dataset,
    spec: TrainSpec,
    scale: float,
    models: _Models,
    drawn: Neighbours,
    progress: Progress,
) -> NoiseEvidence:
    """Of a training without chance: one run on each dataset says all."""
    from sordino.sgd import train

    def gaps(of: str, start: Floats | None, D: Dataset, neighbours: Neighbours) -> list[Distance]:
        weights = train(spec, D, range(1), neighbours, initial_weights=start)
        first, *others = weights[0, :, -1].astype(np.float64)
        how = "of the distance of the two trainings over the added noise"
        caveat = "the training has no chance in it"
        sizes = (directional.fixed(first, other, scale) for other in others)
        return [Distance(of, how, size, caveat) for size in sizes]

    parts = []
    for place, (start, pair) in enumerate(models):
        progress(place, len(models) + 1)
        parts += gaps(ATTACKED, start, pair[0], with_record_of(*pair, 0))
    progress(len(models), len(models) + 1)
    others = gaps(_worst_of(drawn), models[0][0], D, drawn)
    progress(len(models) + 1, len(models) + 1)
    worst = max(others, key=lambda each: each.size)
    found = [together(parts, _INDEPENDENT), worst.times(math.sqrt(len(models)), _ALIKE)]
    once = f"One run on each dataset; noise of standard deviation {scale:.4g} is added."
    return NoiseEvidence(found, found, [once, _other_pairs(drawn)])


def _measured(
    plan: AssessmentPlan,
    spec: TrainSpec,
    scale: float,
    models: _Models,
    drawn: Neighbours,
    directory: Path,
    progress: Progress,
    client: Any,
) -> NoiseEvidence:
    D, request, parameters = plan.D, plan.request, plan.parameters(spec)
    each = spec.core_seconds(D.rows, D.features)
    # With noise of known size on top there is little to learn, and the grid's seeds are enough.
    wanted = request.limits.seeds
    others = affordable(request.effort, each, len(drawn), wanted)
    if scale == 0:
        wanted = seeds_of_pair(wanted, parameters)
    seeds = affordable(request.effort, each, 2 * len(models), wanted) or _FEW_SEEDS
    total = 2 * len(models) * seeds + len(drawn) * others
    grids = _Grids(directory, progress, total, client)
    weights = [
        grids.train(f"pair-{place}", spec, start, pair[0], seeds, with_record_of(*pair, 0))
        for place, (start, pair) in enumerate(models)
    ]
    grid = grids.train("drawn", spec, models[0][0], D, others, drawn) if others else None
    trained = f"The release's training was repeated with {seeds:,} seeds on the attacked pair"
    noise = f"; noise of standard deviation {scale:.4g} is added."
    if spec.noise_multiplier:
        noise = ", its noise inside."
    with threadpool_limits(1, "blas"):
        every, one_sigma = np.concatenate(weights, axis=2), stream("estimate", "one sigma")
        size = directional.isotropic(every, scale, stream=one_sigma)
        found = NoiseEvidence([], [Distance.isotropic(ATTACKED, size)], [f"{trained}{noise}"])
        if seeds >= LEAST_SEEDS:
            parts = [
                directional.between(
                    *(pair[:, 0], pair[:, 1], scale),
                    stream=stream("estimate", place),
                    repeats=_partitions(seeds, parameters),
                )
                for place, pair in enumerate(weights)
            ]
            telling = [Distance.telling(ATTACKED, part.distance) for part in parts]
            found.telling.append(together(telling, _INDEPENDENT))
        else:
            found.why_none = _TOO_LONG
        if grid is not None:
            repeats, name = _partitions(len(grid), parameters), _worst_of(drawn)
            drawn_stream, times = stream("estimate", "drawn"), math.sqrt(len(models))
            worst = directional.worst_pair(
                grid, scale, stream=drawn_stream, against=0, repeats=repeats
            )
            size = directional.isotropic(grid, scale, stream=drawn_stream, base=0)
            found.telling.append(Distance.telling(name, worst.distance).times(times, _ALIKE))
            found.isotropic.append(Distance.isotropic(name, size).times(times, _ALIKE))
    found.words.append(_other_pairs(drawn if others else ()))
    return found


def _worst_of(drawn: Neighbours) -> str:
    return f"the worst of {len(drawn) - 1} other pairs of datasets"


def _other_pairs(drawn: Neighbours | tuple[()]) -> str:
    return f"{max(len(drawn) - 1, 0)} other pairs were tried."


# Methods that the engine does not train --------------------------------------------------


def _fit_evidence(plan: AssessmentPlan, fitting: PlannedFit, progress: Progress) -> NoiseEvidence:
    fit, request = fitting.plan, plan.request
    wanted = _FITS if fit.method == "objective" else request.limits.seeds
    seeds = affordable(request.effort, cost_of_fit(fit), 2, wanted)
    if not seeds:
        return NoiseEvidence(why_none=_TOO_LONG)
    repeated = f"The release was fitted {seeds:,} times on each dataset of the attacked pair"
    found = NoiseEvidence(words=[f"{repeated}, with the same noise."])
    with threadpool_limits(1, "blas"):
        weights = fitted(fit, fitting.start, plan.release_pair, seeds, progress)
        if fit.method == "objective":
            every, one = weights.reshape(seeds, 2, -1), stream("estimate", "one sigma")
            size = directional.isotropic(every, fit.scale, stream=one)
            found.isotropic.append(Distance.isotropic(ATTACKED, size))
            many = request.limits.neighbours
            found.telling += _shifts(
                fit, plan.release_pair, class_dataset(fitting), weights[:, 0], many
            )
        else:
            parts = [
                directional.between(
                    *(weights[:, 0, problem], weights[:, 1, problem], fit.scale),
                    stream=stream("estimate", problem),
                ).distance
                for problem in range(len(fitting.start))
            ]
            telling = [Distance.telling(ATTACKED, part) for part in parts]
            found.telling.append(together(telling, _INDEPENDENT))
            found.words.append("Runs with the same noise may part: no estimate by one sigma.")
    return found


def fitted(
    fit: FitPlan, start: Floats, pair: tuple[Dataset, Dataset], seeds: int, progress: Progress
) -> Floats:
    """Weights [seed, dataset, problem, column] before the noise of the release.

    Parameters
    ----------
    fit, start
        What a fit does, and where it starts, [problem, column].
    pair
        Labels are class numbers.
    """
    both = [records_of(fit, data) for data in pair]
    if not MinimisedFit.can_do(fit):
        method = methods.METHODS[fit.method]

        def train(run: tuple[int, int]) -> Floats:
            seed, which = run
            return method.train(fit, both[which], Randomness.seeded(seed), start)

        runs = [(seed, which) for seed in range(seeds) for which in (0, 1)]
        trained = tasks.gather(train, runs, workers=_CORES, threads=True, progress=progress)
        return np.array(trained).reshape(seeds, 2, *start.shape)
    # Many at once, to the tolerance of a fit.
    rows, done = len(both[0].X), 0
    weights = np.empty((seeds, 2, *start.shape))
    each = [minimisers(fit, records, start) for records in both]
    for problem in range(len(start)):
        noise = stream("estimate", "linear term", problem)
        linear = noise.standard_normal((seeds, fit.task.columns)) * fit.sigma / rows
        for which in (0, 1):
            for begin in range(0, seeds, _TOGETHER):
                some = slice(begin, min(begin + _TOGETHER, seeds))
                weights[some, which, problem] = each[which][problem](linear[some])
                done += some.stop - some.start
                progress(done, 2 * seeds * len(start))
    return weights


def _shifts(
    fit: FitPlan,
    pair: tuple[Dataset, Dataset],
    D: Dataset,
    weights: Floats,
    neighbours: int,
) -> list[Distance]:
    """Of objective perturbation: the attacked pair's distance, and the largest of drawn ones.

    The weights determine the random term b that made them, and the other way round: with D they are
    those of b, with D' those of b plus the difference of the two records' gradients there. So
    whoever sees the weights sees Gaussian noise of known size, shifted by that difference.

    Parameters
    ----------
    D
        The records, whose labels are class numbers.
    weights
        Of fits on the first dataset of the pair, [seed, problem, column].
    neighbours
        Records of D that are drawn, each to be replaced by another.
    """
    seeds = len(weights)
    once = np.full((1, seeds), 1 / seeds)

    def slopes(records: Dataset) -> Floats:
        """Of every record's loss, [problem, seed, record]."""
        rows, task = records.X.astype(np.float64), fit.task
        found = []
        for problem in range(weights.shape[1]):
            y = records.y == (1 if task.problems == 1 else problem)
            risk = Risk(rows, y, task.kind, task.huber_width, weights=records.weights)
            found.append(risk.derivatives(rows @ weights[:, problem].T).T)
        return np.stack(found)

    def distances(records: Dataset, others: Dataset, of: str) -> Distance:
        """The largest of these records', each against what stands instead of it."""
        rows = np.stack([records.X, others.X], axis=1).astype(np.float64)
        both = np.stack([slopes(records), slopes(others)], axis=-1)

        def norms(record: int, shares: Floats) -> Floats:
            """||mean difference|| / sigma for weightings [weighting, seed], over all problems."""
            means = shares @ both[:, :, record]  # [problem, weighting, which]
            moved = (means * np.array([1.0, -1.0])) @ rows[record]
            return np.asarray(np.sqrt(np.sum(moved**2, axis=(0, 2))) / fit.sigma)

        worst = int(np.argmax([norms(record, once)[0] for record in range(len(rows))]))
        shares = stream("estimate", "shifts").multinomial(seeds, once[0], _DRAWS) / seeds
        value = percentile(float(norms(worst, once)[0]), norms(worst, shares), _LEVEL)
        how = "of how far one record shifts the random term of the objective"
        return Distance(of, how, value, "takes the curvature of one record for nothing")

    first, second = pair
    many = min(neighbours, D.rows // 2)
    chosen = stream("neighbours").permutation(D.rows)[: 2 * many]
    replaced, instead = chosen[:many], chosen[many:]
    drawn, attacked = (D.take(replaced), D.take(instead)), slice(0, 1)
    return [
        distances(first.take(attacked), second.take(attacked), ATTACKED),
        distances(*drawn, f"the worst of {many} records drawn, each replaced by another"),
    ]
