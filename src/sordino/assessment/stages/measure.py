"""What is estimated: SGD's own noise, and what the noise of the release is worth. No guarantees.

Runs are made over seeds, on datasets that differ in one record; the noise that a release adds is
known, and need not be drawn. Estimated is how many standard deviations apart two datasets are along
the direction that tells most, and the epsilon of Gaussian noise at that distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import threadpoolctl

from sordino import _cost, checks
from sordino.assessment.effort import EFFORTS
from sordino.audit import neighbour
from sordino.audit.minimised import MinimisedFit, minimisers, records_of
from sordino.audit.neighbour import Pair
from sordino.audit.own import class_dataset
from sordino.audit.trained import is_deterministic, with_record_of
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.estimators import methods
from sordino.estimators.job import Job
from sordino.estimators.randomness import Randomness
from sordino.estimators.records import FitRecords
from sordino.estimators.risk import Risk
from sordino.estimators.task import FitPlan
from sordino.intrinsic import directional, distances, normality, spread
from sordino.intrinsic.directional import ALONG, LEAST_SEEDS
from sordino.intrinsic.distances import Distances
from sordino.intrinsic.epsilon import EXACT, OBSERVED, exact_epsilon
from sordino.intrinsic.interval import Interval, applied, percentile, without_interval
from sordino.intrinsic.measure import StudyProgress, measure
from sordino.intrinsic.measured import load
from sordino.intrinsic.theory import theory
from sordino.privacy import Estimate, Relation
from sordino.randomness import stream
from sordino.report.canvas import density
from sordino.report.stages import Curve, Estimated, Measure, OwnNoise
from sordino.sgd import cost
from sordino.sgd.spec import TrainSpec
from sordino.study import StudyError
from sordino.types import Array, Floats, Progress

if TYPE_CHECKING:
    from sordino.assessment.plan import AssessmentPlan


ATTACKED = "the attacked pair of datasets"
TELLING = "along the most telling direction, learned from other seeds"
ONE_SIGMA = "of the largest distance under one seed over one sigma for all directions"
ALL_ALIKE = "takes the noise for Gaussian and equally large in all directions"
PAIRS = "only of the pairs of datasets that were tried: another record may tell more"


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
        return cls(of, TELLING, value, ALONG)

    @classmethod
    def isotropic(cls, of: str, value: Interval) -> Distance:
        """The papers' way."""
        return cls(of, ONE_SIGMA, value, f"{ALL_ALIKE}; {OBSERVED}")

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
        method, caveat = f"{EXACT} {self.how}, for {self.of}", f"{self.caveat}; {PAIRS}"
        return exact_epsilon(self.value, delta, method=method, caveat=caveat)


def together(parts: Sequence[Distance], because: str) -> Distance:
    """One record in several models with independent noise: distances add up in squares.

    All are measured, or all computed.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    value: Interval | float
    if isinstance(first.value, Interval):
        measured = [part.value for part in parts if isinstance(part.value, Interval)]
        ends = zip(*((each.value, each.low, each.high) for each in measured), strict=True)
        middle, low, high = map(_root, ends)
        value = Interval(middle, low, high, first.value.level)
    else:
        value = _root([part.size for part in parts])
    return replace(first, value=value, caveat=f"{first.caveat}; {because}")


@dataclass
class NoiseEvidence:
    """What was found of one release so far.

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
        words = self.words
        if rows_per_person > 1:
            words = [*words, _GROUP_WORDS.format(rows_per_person)]
        telling, isotropic = (
            None if worst is None else worst.times(rows_per_person, _GROUP).epsilon(delta)
            for worst in (_largest(self.telling), _largest(self.isotropic))
        )
        return Estimated(
            headline=telling,
            isotropic=isotropic,
            directional=telling,
            why_none="" if telling is not None else self.why_none,
            words=tuple(words),
        )


_GROUP = "the records of one person are taken to move the weights one as far as the other"
_GROUP_WORDS = (
    "One person may have {} records, and one was exchanged here: distances are multiplied by as "
    "many."
)


def _largest(distances: Sequence[Distance]) -> Distance | None:
    return max(distances, key=lambda each: each.size, default=None)


def _root(sizes: Sequence[float]) -> float:
    # Estimated without bias, a distance may be a little below 0 where there is none.
    return math.hypot(*(max(size, 0.0) for size in sizes))


PATIENCE = 3.0
"""How many times as long the fewest seeds of which anything can be said may take."""
FEWEST, SEEDS_A_WEIGHT = 200, 4
"""Seeds of a pair whose direction is learned: at least, and for each weight if they can be had."""
MOST_NUMBERS = 60_000
"""Weights of such a pair's runs on one dataset: above, learning takes longer than training."""
DRAWN = 8
"""Records replaced, one at a time, beside the attacked pair."""
_CORES = 2
_OF_PASS, _PASSES = 3.0e-10, 10  # a row's entry, where many runs are minimised at once
_OF_FIT, _FIT_PASSES = 5.0e-3, 200  # a fit on its own


def parameters(spec: TrainSpec, D: Dataset) -> int:
    """Numbers of one trained model."""
    from sordino.models import build

    return build(spec.objective, D.features, D.image_shape).parameters


def seeds_of_pair(seeds: int, parameters: int) -> int:
    """Seeds that one pair deserves, of a grid with so many, where a direction must be learned."""
    wanted = SEEDS_A_WEIGHT * max(seeds, parameters)
    return max(FEWEST, min(wanted, MOST_NUMBERS // parameters))


def affordable(effort: str, each: float, datasets: int, wanted: int) -> int:
    """Seeds for so many datasets: those wanted, fewer if they take too long, 0 if all would.

    Parameters
    ----------
    each
        Core seconds of a run.
    """
    seconds = EFFORTS[effort].measuring * _CORES
    seeds = min(wanted, int(seconds / (each * datasets)))
    if seeds >= LEAST_SEEDS:
        return seeds
    fewest = LEAST_SEEDS * each * datasets
    return LEAST_SEEDS if fewest <= PATIENCE * seconds else 0


def affordable_neighbours(effort: str, each: float, seeds: int, wanted: int) -> int:
    """Datasets of a grid with so many seeds, beside the first; a handful, however long it takes."""
    seconds = PATIENCE * EFFORTS[effort].measuring * _CORES
    return max(min(DRAWN, wanted), min(wanted, int(seconds / (each * seeds)) - 1))


def partitions(seeds: int, parameters: int) -> int:
    """Of seeds into learning and tested ones: one is enough where each takes seconds."""
    return 4 if seeds * parameters * min(2 * seeds, parameters) < 5_000_000 else 1


def cost_of_fit(plan: FitPlan) -> float:
    """Core seconds of a fit, the noise of the release included: counted, not measured.

    So the same study has the same runs on all machines: on a slower one they take longer.
    """
    task = plan.task
    if plan.spec is not None:
        return task.problems * cost.of_run(plan.spec, task.rows, task.columns)
    entries = task.rows * task.columns
    if plan.method == "objective":
        work = _OF_PASS * _PASSES * entries + 2 * cost.OF_NORMAL * task.columns
    else:
        work = _OF_FIT + cost.OF_NUMBER * _FIT_PASSES * entries
    return task.problems * work


class ErrorTally:
    """Tells how far several studies have come together."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._before = progress, total, 0
        progress(0, total)

    def during(self, study: StudyProgress) -> None:
        """Of the study under way."""
        self._progress(self._before + study.runs_done, self._total)

    def after(self, runs: int) -> None:
        """So many more are done."""
        self._before += runs
        self._progress(self._before, self._total)


@dataclass(frozen=True, eq=False)
class TrainedRuns:
    """How every run is trained.

    Parameters
    ----------
    spec
        The training.
    start
        Initial weights [column], where they are given.
    """

    spec: TrainSpec
    start: Floats | None = None

    def grid(
        self, D: Dataset, seeds: int, neighbours: int | Neighbours, store: Path, tally: ErrorTally
    ) -> Floats:
        """Weights [seed, dataset, parameter]: train every seed on every dataset, or go on with it.

        The first dataset is the one with nothing replaced.

        Raises
        ------
        StudyError
            If runs diverge.
        """
        study = measure(
            self.spec,
            D,
            seeds,
            neighbours,
            init=None if self.spec.init == "given" else self.spec.init,
            initial_weights=self.start,
            store=store,
            progress=tally.during,
        )
        tally.after(seeds * len(study.layout.neighbours))
        measured = load(study)
        if measured.left_out:
            raise StudyError(f"Expected every run to end well, and {measured.left_out[0]}")
        return measured.final(measured.inits[0])

    def once(self, D: Dataset, neighbours: Neighbours) -> Floats:
        """Weights [dataset, parameter] of one run on each."""
        from sordino.sgd import train

        weights = train(self.spec, D, range(1), neighbours, initial_weights=self.start)
        return weights[0, :, -1].astype(np.float64)


def overlay(pair: Pair) -> Neighbours:
    """The two datasets of a pair that differ in the first record, as one grid."""
    other = pair.D_prime
    assert isinstance(other, Dataset)
    return with_record_of(pair.D, other, 0)


def drawn(D: Dataset, pair: Pair, many: int) -> Neighbours:
    """The dataset; with the attacked record in its first place; with records drawn and replaced.

    Each drawn one is replaced by another that is drawn, of the same dataset: what people differ in.
    """
    many = min(many, (D.rows - 1) // 2)
    chosen = 1 + stream("neighbours").permutation(D.rows - 1)[: 2 * many]
    replaced, instead = chosen[:many], chosen[many:]
    X = np.concatenate([pair.D.X[:1], D.X[instead]])
    y = np.concatenate([pair.D.y[:1], D.y[instead]])
    return neighbouring.replace(D, np.append(0, replaced), X, y)


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


def own_noise(subject: AssessmentPlan, directory: Path, progress: Progress) -> OwnNoise:
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
    tally = ErrorTally(progress, seeds * (many + 1) + 2 * of_pair)
    pair, fitting = subject.pair, _fitting(spec, D.rows - 1)
    grid = TrainedRuns(fitting).grid(D, seeds, many, directory / "grid", tally)
    attacked = TrainedRuns(spec).grid(pair.D, of_pair, overlay(pair), directory / "pair", tally)
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        evidence = _own_evidence(subject, grid, attacked)
        return _described(subject, grid, attacked, evidence)


def check(subject: AssessmentPlan) -> None:
    """Refuse, before anything is written, a grid that could not be measured later.

    Raises
    ------
    InvalidArgument
        For more seeds than can be tested, or runs that do not fit in memory.
    """
    seeds = subject.request.grid_seeds
    if seeds > normality.MOST_SEEDS:
        hint = "Whether their noise is Gaussian cannot be told of more."
        checks.fail("seeds", seeds, f"<= {normality.MOST_SEEDS}", hint)
    seeds, many, of_pair = _sizes(subject)
    numbers = parameters(subject.plain, subject.D)
    held = _COPIES * 8 * numbers * max(seeds * (many + 1), 2 * of_pair)
    hint = f"A model has {numbers:,} numbers: lower neighbours or seeds."
    _cost.check_memory("neighbours", many, held, hint)


def _sizes(subject: AssessmentPlan) -> tuple[int, int, int]:
    """Seeds and neighbours of the grid, and seeds of the attacked pair."""
    request, D, spec = subject.request, subject.D, subject.plain
    each = cost.of_run(spec, D.rows, D.features)
    seeds, many = request.grid_seeds, request.grid_neighbours
    if request.neighbours is None:
        many = affordable_neighbours(request.effort, each, seeds, many)
    wanted = seeds_of_pair(seeds, parameters(spec, D))
    of_pair = max(seeds, affordable(request.effort, each, 2, wanted))
    return seeds, min(many, D.rows - 1), of_pair


def _own_evidence(subject: AssessmentPlan, grid: Floats, attacked: Floats) -> NoiseEvidence:
    """The worst of all pairs in the grid, and the attacked one; each along its direction."""
    seeds, many, parameters = grid.shape
    found = NoiseEvidence(
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
        worst = directional.worst_pair(grid, stream=drawn, repeats=partitions(seeds, parameters))
        found.telling.append(Distance.telling(name, worst.distance))
        size = directional.isotropic(grid, 0.0, stream=drawn, base=0)
        found.isotropic.append(Distance.isotropic(name, size))
    if not (attacked == attacked[:1, :1]).all():
        repeats = partitions(len(attacked), parameters)
        one = directional.between(attacked[:, 0], attacked[:, 1], stream=pair, repeats=repeats)
        found.telling.append(Distance.telling(ATTACKED, one.distance))
        size = directional.isotropic(attacked, 0.0, stream=pair)
        found.isotropic.append(Distance.isotropic(ATTACKED, size))
    return found


def _described(
    subject: AssessmentPlan, grid: Floats, attacked: Floats, evidence: NoiseEvidence
) -> OwnNoise:
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
        estimated=evidence.estimated(subject.delta, subject.request.max_rows_per_person),
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


def release_estimate(subject: AssessmentPlan, directory: Path, progress: Progress) -> Estimated:
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
    return evidence.estimated(subject.delta, subject.request.max_rows_per_person)


def _release_evidence(
    subject: AssessmentPlan, directory: Path, progress: Progress
) -> NoiseEvidence:
    job = subject.job
    if job is None:
        assert subject.network is not None
        release = ReleaseNoise(subject, subject.network.spec, 0.0, [None], [subject.pair])
    elif job.plan.spec is None:
        return _fitted(subject, job, progress)
    else:
        pairs = _pairs(job, _attacked(subject, job))
        release = ReleaseNoise(subject, job.plan.spec, job.plan.scale, list(job.start), pairs)
    return release.evidence(directory, progress)


def _fitted(subject: AssessmentPlan, job: Job, progress: Progress) -> NoiseEvidence:
    """Of methods that the engine does not train."""
    plan, request = job.plan, subject.request
    each = cost_of_fit(plan)
    wanted = FITS if plan.method == "objective" else request.grid_seeds
    seeds = affordable(request.effort, each, 2, wanted)
    if not seeds:
        return NoiseEvidence(why_none=TOO_LONG)
    first, second = _attacked(subject, job)
    assert isinstance(second, Dataset)
    said = f"The release was fitted {seeds:,} times on each dataset of the attacked pair, with "
    found = NoiseEvidence(words=[f"{said}the same noise on both."])
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        weights = fitted(plan, job.start, (first, second), seeds, progress)
        if plan.method == "objective":
            every, one = weights.reshape(seeds, 2, -1), stream("estimate", "one sigma")
            size = directional.isotropic(every, plan.scale, stream=one)
            found.isotropic.append(Distance.isotropic(ATTACKED, size))
            pair, many = (first, second), request.grid_neighbours
            found.telling += shifts(plan, pair, class_dataset(job), weights[:, 0], many)
            found.words.append(SHIFT_WORDS)
        else:
            parts = [
                directional.between(
                    *(weights[:, 0, problem], weights[:, 1, problem], plan.scale),
                    stream=stream("estimate", problem),
                ).distance
                for problem in range(len(job.start))
            ]
            telling = [Distance.telling(ATTACKED, part) for part in parts]
            found.telling.append(together(telling, INDEPENDENT))
            found.words.append(NO_SIGMA_WORDS)
    return found


def _attacked(subject: AssessmentPlan, job: Job) -> Pair:
    """The pair that the release is attacked on; labels are class numbers."""
    return subject.pair if job.plan.task.problems == 1 else neighbour.canary(class_dataset(job))


def _pairs(job: Job, pair: Pair) -> list[Pair]:
    """The same two datasets as each class's model sees them."""
    assert isinstance(pair.D_prime, Dataset)
    worlds = [records_of(job.plan, each) for each in (pair.D, pair.D_prime)]
    return [
        Pair(*(each.dataset(problem) for each in worlds)) for problem in range(worlds[0].problems)
    ]


FEW_SEEDS = 4
"""Where a direction is out of reach: enough for one sigma over all weights."""
INDEPENDENT = "takes the noises of the models, one a class, for independent"
ALIKE = "takes every class's model to tell as much as the one measured"
EXACT_GAP = "of the distance of the two trainings over the added noise"
NO_CHANCE = "the training has no chance in it, and the noise added to its weights is all there is"
TOO_LONG = (
    "One training takes too long to be repeated as often as learning a direction needs; "
    "--thorough repeats it more often."
)


@dataclass(frozen=True, eq=False)
class ReleaseNoise:
    """What is measured of a release by our SGD.

    Parameters
    ----------
    subject
        What is released: its records as one of the models sees them, and how much to train.
    spec, scale
        The training, and the standard deviation of the noise added to each final weight.
    starts
        Initial weights of each class's model; None where the spec makes them.
    pairs
        The attacked pair, as each of these models sees it.
    """

    subject: AssessmentPlan
    spec: TrainSpec
    scale: float
    starts: Sequence[Floats | None]
    pairs: Sequence[Pair]

    def evidence(self, directory: Path, progress: Progress) -> NoiseEvidence:
        """Train, or go on with it, and compare."""
        if is_deterministic(self.spec):
            return self._computed(progress)
        return self._measured(directory, progress)

    @property
    def models(self) -> int:
        """How many are released: one, or one a class."""
        return len(self.starts)

    @property
    def _parameters(self) -> int:
        return parameters(self.spec, self.subject.D)

    def _drawn(self) -> Neighbours:
        many = min(DRAWN, self.subject.request.grid_neighbours)
        return drawn(self.subject.D, self.pairs[self.subject.problem], many)

    # Without chance ----------------------------------------------------------------------

    def _computed(self, progress: Progress) -> NoiseEvidence:
        """One run on each dataset says all."""
        drawn, total = self._drawn(), self.models + 1
        parts = []
        for place, (start, pair) in enumerate(zip(self.starts, self.pairs, strict=True)):
            progress(place, total)
            both = TrainedRuns(self.spec, start).once(pair.D, overlay(pair))
            parts.append(self._gap(ATTACKED, both[0], both[1]))
        progress(self.models, total)
        others = TrainedRuns(self.spec, self.starts[self.subject.problem]).once(
            self.subject.D, drawn
        )
        gaps = [self._gap(_worst_of(drawn), others[0], row) for row in others[1:]]
        worst = max(gaps, key=lambda each: each.size)
        progress(total, total)
        found = [together(parts, INDEPENDENT), worst.times(math.sqrt(self.models), ALIKE)]
        return NoiseEvidence(
            telling=found,
            isotropic=found,
            words=[
                "The training has no chance in it: it was run once on each dataset, and the "
                f"distance of the weights divided by {self.scale:.4g}, the standard deviation of "
                "the noise that is added to each of them.",
                *self._models_words(drawn),
            ],
        )

    def _gap(self, of: str, first: Floats, second: Floats) -> Distance:
        return Distance(of, EXACT_GAP, directional.fixed(first, second, self.scale), NO_CHANCE)

    # With chance -------------------------------------------------------------------------

    def _measured(self, directory: Path, progress: Progress) -> NoiseEvidence:
        drawn = self._drawn()
        seeds, others = self._seeds(len(drawn))
        tally = ErrorTally(progress, 2 * self.models * seeds + len(drawn) * others)
        weights = [
            TrainedRuns(self.spec, start).grid(
                pair.D, seeds, overlay(pair), directory / f"pair-{place}", tally
            )
            for place, (start, pair) in enumerate(zip(self.starts, self.pairs, strict=True))
        ]
        grid = None
        if others:
            training = TrainedRuns(self.spec, self.starts[self.subject.problem])
            grid = training.grid(self.subject.D, others, drawn, directory / "drawn", tally)
        with threadpoolctl.threadpool_limits(1, user_api="blas"):
            found = self._attacked(weights)
            if grid is not None:
                self._add_drawn(found, grid, _worst_of(drawn))
        found.words += self._models_words(drawn if others else None)
        return found

    def _seeds(self, datasets: int) -> tuple[int, int]:
        """Of the attacked pair, and of the records drawn (0: none are)."""
        D, request = self.subject.D, self.subject.request
        each = cost.of_run(self.spec, D.rows, D.features)
        # With noise of known size on top there is little to learn, and the grid's seeds are enough.
        wanted = request.grid_seeds
        if self.scale == 0:
            wanted = seeds_of_pair(wanted, self._parameters)
        pair = affordable(request.effort, each, 2 * self.models, wanted)
        others = affordable(request.effort, each, datasets, request.grid_seeds)
        return pair or FEW_SEEDS, others

    def _attacked(self, pairs: Sequence[Floats]) -> NoiseEvidence:
        """The attacked pair, in all models."""
        seeds = len(pairs[0])
        every = np.concatenate(pairs, axis=2)
        size = directional.isotropic(every, self.scale, stream=stream("estimate", "one sigma"))
        found = NoiseEvidence(isotropic=[Distance.isotropic(ATTACKED, size)], why_none=TOO_LONG)
        found.words.append(self._noise_words(seeds))
        if seeds >= directional.LEAST_SEEDS:
            repeats = partitions(seeds, self._parameters)
            parts = [
                directional.between(
                    pair[:, 0],
                    pair[:, 1],
                    self.scale,
                    stream=stream("estimate", place),
                    repeats=repeats,
                )
                for place, pair in enumerate(pairs)
            ]
            distances = [Distance.telling(ATTACKED, part.distance) for part in parts]
            found.telling.append(together(distances, INDEPENDENT))
        return found

    def _add_drawn(self, found: NoiseEvidence, grid: Floats, name: str) -> None:
        """Records of the data, each replaced by another, in the model that was measured."""
        repeats = partitions(len(grid), self._parameters)
        drawn = stream("estimate", "drawn")
        worst = directional.worst_pair(grid, self.scale, stream=drawn, against=0, repeats=repeats)
        size = directional.isotropic(grid, self.scale, stream=drawn, base=0)
        times = math.sqrt(self.models)
        found.telling.append(Distance.telling(name, worst.distance).times(times, ALIKE))
        found.isotropic.append(Distance.isotropic(name, size).times(times, ALIKE))

    # In words ----------------------------------------------------------------------------

    def _noise_words(self, seeds: int) -> str:
        trained = f"The release's training was repeated with {seeds:,} seeds on the attacked pair"
        if self.spec.noise_multiplier:
            return f"{trained}, its noise inside: what it leaves in the weights was measured."
        return (
            f"{trained}. To the noise that its own chance leaves in the weights comes the noise "
            f"that is added to them, of standard deviation {self.scale:.4g}: known, not measured."
        )

    def _models_words(self, drawn: Neighbours | None) -> list[str]:
        words = []
        if drawn is None:
            words.append("No other pairs were tried: that would have taken too long.")
        else:
            words.append(
                f"Beside the attacked pair, {len(drawn) - 1} other pairs were tried: the records "
                "with one drawn and replaced by another, and with the attacked one among them."
            )
        if self.models > 1:
            words.append(
                f"There are {self.models} models, one a class: distances of the attacked pair add "
                "up over them in squares, and those of other pairs, seen in one of them, are taken "
                f"for those of all: they are multiplied by the square root of {self.models}."
            )
        return words


def _worst_of(drawn: Neighbours) -> str:
    return f"the worst of {len(drawn) - 1} other pairs of datasets"


TOGETHER = 64
"""Objectives minimised at once."""
DRAWS, LEVEL = 200, 0.95
BY_GRADIENTS = "of how far one record shifts the random term of the objective"
SHIFT = (
    "takes the curvature of one record for nothing beside that of all; the little noise on the "
    "minimiser is left out"
)

SHIFT_WORDS = (
    "Whoever sees the minimiser can compute the random term that would have led there from either "
    "dataset; the two differ by how differently the two records pull at that place, which was "
    "averaged over the fits and divided by the standard deviation of the term."
)
NO_SIGMA_WORDS = (
    "It decides by chance how far it goes, so that runs with the same noise may part ways: a "
    "largest distance under one seed says nothing about the record, and there is no estimate by "
    "one sigma for all directions."
)


def fitted(
    plan: FitPlan, start: Floats, pair: tuple[Dataset, Dataset], seeds: int, progress: Progress
) -> Floats:
    """Weights [seed, dataset, problem, column] before the noise of the release.

    Parameters
    ----------
    plan, start
        What a fit does, and where it starts, [problem, column].
    pair
        Labels are class numbers.
    """
    worlds = [records_of(plan, data) for data in pair]
    if MinimisedFit.can_do(plan):
        return _minimised(plan, start, worlds, seeds, progress)
    found = np.empty((seeds, len(worlds), *start.shape))
    method = methods.named(plan.method)
    with ThreadPoolExecutor(len(worlds)) as pool:
        for seed in range(seeds):
            progress(seed, seeds)

            def trained(records: FitRecords, noise: int = seed) -> Floats:
                return method.train(plan, records, Randomness.seeded(noise), start)

            found[seed] = list(pool.map(trained, worlds))
    progress(seeds, seeds)
    return found


def _minimised(
    plan: FitPlan, start: Floats, worlds: Sequence[FitRecords], seeds: int, progress: Progress
) -> Floats:
    """Many at once, to the tolerance of a fit."""
    task, rows = plan.task, len(worlds[0].X)
    found = np.empty((seeds, len(worlds), *start.shape))
    total = seeds * len(worlds) * len(start)
    done = 0
    fits = [minimisers(plan, records, start) for records in worlds]
    for problem in range(len(start)):
        noise = stream("estimate", "linear term", problem)
        linear = noise.standard_normal((seeds, task.columns)) * plan.sigma / rows
        for world in range(len(worlds)):
            for begin in range(0, seeds, TOGETHER):
                some = slice(begin, min(begin + TOGETHER, seeds))
                found[some, world, problem] = fits[world][problem](linear[some])
                done += some.stop - some.start
                progress(done, total)
    return found


def shifts(
    plan: FitPlan,
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
    first, second = pair
    attacked = _Records(plan, first.X[:1], first.y[:1], second.X[:1], second.y[:1], weights)
    found = [attacked.distance(0, ATTACKED)]
    many = min(neighbours, D.rows // 2)
    chosen = stream("neighbours").permutation(D.rows)[: 2 * many]
    replaced, instead = chosen[:many], chosen[many:]
    drawn = _Records(plan, D.X[replaced], D.y[replaced], D.X[instead], D.y[instead], weights)
    worst = int(drawn.sizes().argmax())
    name = f"the worst of {many} records drawn, each replaced by another"
    return [*found, drawn.distance(worst, name)]


class _Records:
    """Records, and what stands instead of each: their gradients at the weights of each seed."""

    def __init__(
        self, plan: FitPlan, X: Array, y: Array, other_X: Array, other_y: Array, weights: Floats
    ) -> None:
        self.sigma, self.seeds = plan.sigma, len(weights)
        self.rows = np.stack([X, other_X], axis=1).astype(np.float64)  # [record, which, column]
        self.slopes = np.stack(
            [_slopes(plan, each, labels, weights) for each, labels in ((X, y), (other_X, other_y))],
            axis=-1,
        )  # [problem, seed, record, which]

    def sizes(self) -> Floats:
        """Distance of every record from what stands instead."""
        once = np.full((1, self.seeds), 1 / self.seeds)
        return np.array([self._norms(record, once)[0] for record in range(len(self.rows))])

    def distance(self, record: int, of: str) -> Distance:
        """With an interval that resamples seeds."""
        shares = np.full(self.seeds, 1 / self.seeds)
        drawn = stream("estimate", "shifts").multinomial(self.seeds, shares, DRAWS) / self.seeds
        value = float(self._norms(record, shares[None])[0])
        return Distance(
            of, BY_GRADIENTS, percentile(value, self._norms(record, drawn), LEVEL), SHIFT
        )

    def _norms(self, record: int, shares: Floats) -> Floats:
        """||mean difference|| / sigma for each weighting [weighting, seed], over all problems."""
        means = shares @ self.slopes[:, :, record]  # [problem, weighting, which]
        moved = (means * np.array([1.0, -1.0])) @ self.rows[record]
        return np.asarray(np.sqrt(np.sum(moved**2, axis=(0, 2))) / self.sigma)


def _slopes(plan: FitPlan, X: Array, codes: Array, weights: Floats) -> Floats:
    """Slope of every record's loss, [problem, seed, record]."""
    task = plan.task
    found = []
    for problem in range(weights.shape[1]):
        asked = 1 if task.problems == 1 else problem
        rows = X.astype(np.float64)
        risk = Risk(X=rows, y=codes == asked, kind=task.kind, huber_width=task.huber_width)
        found.append(risk.derivatives(rows @ weights[:, problem].T).T)
    return np.stack(found)
