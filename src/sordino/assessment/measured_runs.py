"""How many runs are measured, and the runs: grids that a stopped assessment goes on with.

How many is decided by counting what a run costs, so the same study has the same runs on all
machines (`audit_cost`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sordino.assessment.effort import EFFORTS
from sordino.audit.neighbour import Pair
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.intrinsic.measure import Progress as StudyProgress
from sordino.intrinsic.measure import measure
from sordino.intrinsic.measured import load
from sordino.intrinsic.released import LEAST_SEEDS
from sordino.privacy import Sampling
from sordino.seeding import stream
from sordino.sgd.spec import TrainSpec
from sordino.store import StudyError
from sordino.types import Floats, Progress

PATIENCE = 3.0
"""How many times as long the fewest seeds of which anything can be said may take."""
FEWEST, SEEDS_A_WEIGHT = 200, 4
"""Seeds of a pair whose direction is learned: at least, and for each weight if they can be had."""
MOST_NUMBERS = 60_000
"""Weights of such a pair's runs on one dataset: above, learning takes longer than training."""
DRAWN = 8
"""Records replaced, one at a time, beside the attacked pair."""
_CORES = 2


def parameters(spec: TrainSpec, D: Dataset) -> int:
    """Numbers of one trained model."""
    from sordino.objectives import build

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


def repeats(seeds: int, parameters: int) -> int:
    """Partitions into learning and tested seeds: one is enough where each takes seconds."""
    return 4 if seeds * parameters * min(2 * seeds, parameters) < 5_000_000 else 1


def is_deterministic(spec: TrainSpec) -> bool:
    """Whether training gives the same weights every time."""
    return spec.order == Sampling.CYCLIC and spec.init != "vary" and spec.noise_multiplier == 0


class Tally:
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
class Training:
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
        self, D: Dataset, seeds: int, neighbours: int | Neighbours, store: Path, tally: Tally
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
    return neighbouring.replace(pair.D, [0], other.X[:1], other.y[:1])


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
